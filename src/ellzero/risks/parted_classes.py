"""The quadratic model of the multinomial risk where the rows are elsewhere: sums over these, by one look each."""

from functools import partial
from typing import Any

import numpy as np

from ..design import Design, by_row
from .class_curvature import ClassCurvature
from .terms import LinearTerms


class PartedClassCurvature(ClassCurvature):
    """As `ClassCurvature`; probabilities and all that is made of them stay where the rows are."""

    def __init__(self, model: LinearTerms, probability: Any) -> None:
        super().__init__(model, model.design.by_row(probability, float))

    @property
    def diagonal(self) -> np.ndarray:
        squares, means = self.model.design.summed(_squares, self.probability, self.weighted)
        self.spent += self.c
        if self.inverse is not None:
            squares = squares - np.einsum("abi,bd,adi->ai", means, self.inverse, means)
            self.spent += self.c * self.c
        return np.asarray(squares.ravel() + 0.5 * self.model.ridge)

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """G[:, index] @ vectors, at c products with X for each vector, by one look at the rows, with b by two."""
        design, m = self.model.design, vectors.shape[1]
        features, place = np.unique(index % self.p, return_inverse=True)
        V = np.zeros((features.size, self.c, m))
        V[place, index // self.p] = vectors
        Z = design.spanned(features, V.reshape(features.size, -1))
        bent = by_row(_bent, Z, self.probability, self.weighted)
        if self.inverse is not None:
            shift = self.inverse @ np.sum(bent, axis=0).reshape(self.c, m)
            bent = by_row(_bent, Z - shift.ravel(), self.probability, self.weighted)
        images = np.asarray(design.adjoint(bent), dtype=float)
        images = images.reshape(self.p, self.c, m).swapaxes(0, 1).reshape(self.c * self.p, m)
        self.spent += self.c * m
        images[index] += 0.5 * self.model.ridge * vectors
        return images

    def _new_columns(self, index: np.ndarray) -> np.ndarray:
        return self.images(index, np.eye(index.size))

    def block(self, index: np.ndarray) -> np.ndarray:
        features, place = np.unique(index % self.p, return_inverse=True)
        design, label = self.model.design, index // self.p
        narrow = design if features.size == self.p else design.columns(features)
        gram, means = narrow.summed(partial(_gram, place=place, label=label), self.probability, self.weighted)
        if self.inverse is not None:
            gram = gram - means @ self.inverse @ means.T
        gram[np.diag_indices_from(gram)] += 0.5 * self.model.ridge
        return np.asarray(gram)


def _bent(Z: np.ndarray, probability: np.ndarray, weighted: np.ndarray) -> np.ndarray:
    """½D_i Z_i for predictions of shape (n, c·m)."""
    (n, width), c = Z.shape, probability.shape[1]
    Z = Z.reshape(n, c, width // c)
    mean = np.einsum("nc,ncm->nm", probability, Z)
    return np.asarray((weighted[:, :, None] * (Z - mean[:, None, :])).reshape(n, width))


def _squares(block: Design, probability: np.ndarray, weighted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_i ½D_i[a, a] x_i², and Σ_i ½D_i[a, b] x_i for classes a and b."""
    squares = np.stack([block.square_sums(own) for own in (weighted * (1 - probability)).T])
    bends = -weighted[:, :, None] * probability[:, None, :]
    classes = np.arange(probability.shape[1])
    bends[:, classes, classes] += weighted
    n, c = probability.shape
    means = np.asarray(block.adjoint(block.asarray(bends.reshape(n, c * c))), dtype=float)
    return squares, means.T.reshape(c, c, -1)


def _gram(
    block: Design, probability: np.ndarray, weighted: np.ndarray, place: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    A = np.asarray(block.dense(), dtype=float)[:, place]
    W = A * weighted[:, label]
    gram = (W.T @ A) * (label[:, None] == label) - W.T @ (A * probability[:, label])
    means = W.sum(axis=0)[:, None] * (label[:, None] == np.arange(probability.shape[1])) - W.T @ probability
    return gram, means
