"""The curvature of losses of several classes, whose predictions bend each other."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .._core.arrays import to_host
from .curvature import Curvature
from .linear_curvature import LinearCurvature
from .terms import LinearTerms


class ClassCurvature(LinearCurvature):
    """G = ½∇²R(w) of the multinomial risk: ½Σ_i share_i x_i x_iᵀ (π_a δ_ab - π_a π_b) for classes a, b; + (ridge/2)I.

    With an intercept, b is the best for every w: each direction Z of predictions is taken less its mean β in the
    metric of the classes, (Σ_i D_i) β = Σ_i D_i Z_i, D_i = share_i (diag π_i - π_i π_iᵀ).
    """

    def __init__(self, model: LinearTerms, probability: np.ndarray) -> None:
        weights = 0.5 * model.row_share
        super().__init__(model, weights)
        self.p, self.c = model.design.shape[1], model.n_outputs
        self.probability = probability
        self.weighted = weights[:, None] * probability
        self.inverse: np.ndarray | None = None
        if model.fit_intercept:
            total = np.diag(self.weighted.sum(axis=0)) - self.weighted.T @ self.probability
            # it vanishes along 1, which the products below do not see: any other value there makes it invertible
            self.inverse = _inverse(total + total.trace() / self.c)

    applies, cross = False, Curvature.cross

    def affords(self, n_columns: int) -> bool:
        return super().affords(n_columns * self.c)

    def _bend(self, Z: np.ndarray) -> np.ndarray:
        """½D_i Z_i for predictions Z of shape (n, c, m)."""
        mean = np.einsum("nc,ncm->nm", self.probability, Z)
        return np.asarray(self.weighted[:, :, None] * (Z - mean[:, None, :]))

    @property
    def diagonal(self) -> np.ndarray:
        design, ridge = self.model.design, 0.5 * self.model.ridge
        own = self.weighted * (1 - self.probability)
        squares = np.concatenate([design.square_sums(own[:, a]) for a in range(self.c)])
        self.spent += self.c
        if self.inverse is not None:
            squares -= np.einsum("ib,bd,id->i", self._class_means, self.inverse, self._class_means)
            self.spent += self.c * self.c
        return squares + ridge

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """G[:, index] @ vectors, at c products with X for each vector."""
        design, m = self.model.design, vectors.shape[1]
        bent = self._bend(self._spread(self._columns(index), index, vectors))
        if self.inverse is not None:
            bent -= self._bend(np.broadcast_to(self.inverse @ bent.sum(axis=0), bent.shape))
        flat = np.asfortranarray(bent.reshape(len(bent), self.c * m))
        images = to_host(design.adjoint(design.asarray(flat))).astype(float)
        images = images.reshape(self.p, self.c, m).swapaxes(0, 1).reshape(self.c * self.p, m)
        self.spent += self.c * m
        images[index] += 0.5 * self.model.ridge * vectors
        return images

    def _new_columns(self, index: np.ndarray) -> np.ndarray:
        """G[:, index], from products of X with few columns of it for each pair of classes."""
        design, found = self.model.design, np.zeros((self.c, self.p, index.size))
        A, label = self._columns(index), index // self.p
        for b in np.unique(label):
            mine = np.flatnonzero(label == b)
            for a in range(self.c):
                bends = self.weighted[:, a] * ((a == b) - self.probability[:, b])
                products = design.adjoint(design.asarray(np.asfortranarray(bends[:, None] * A[:, mine])))
                found[a][:, mine] = to_host(products)
        columns = found.reshape(self.c * self.p, index.size)
        self.spent += self.c * index.size
        if self.inverse is not None:
            means = self._class_means
            columns -= means @ self.inverse @ means[index].T
        columns[index, np.arange(index.size)] += 0.5 * self.model.ridge
        return columns

    @cached_property
    def _class_means(self) -> np.ndarray:
        """½Σ_i share_i x_i (π_a δ_ab - π_a π_b) for each coordinate and class b, by which columns are centred."""
        design, found = self.model.design, np.empty((self.c, self.p, self.c))
        for a in range(self.c):
            part = -self.weighted[:, [a]] * self.probability
            part[:, a] += self.weighted[:, a]
            found[a] = to_host(design.adjoint(design.asarray(part)))
        return found.reshape(self.c * self.p, self.c)

    def block(self, index: np.ndarray) -> np.ndarray:
        A, label = self._columns(index), index // self.p
        W = A * self.weighted[:, label]
        gram = (W.T @ A) * (label[:, None] == label) - W.T @ (A * self.probability[:, label])
        if self.inverse is not None:
            means = W.sum(axis=0)[:, None] * (label[:, None] == np.arange(self.c)) - W.T @ self.probability
            gram -= means @ self.inverse @ means.T
        gram[np.diag_indices_from(gram)] += 0.5 * self.model.ridge
        return np.asarray(gram)

    def _columns(self, index: np.ndarray) -> np.ndarray:
        """The column of X of each coordinate."""
        features, place = np.unique(index % self.p, return_inverse=True)
        return to_host(self.model.design.columns(features).dense()).astype(float)[:, place]

    def _spread(self, A: np.ndarray, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The change of the predictions of each class along each vector, (n, c, m)."""
        Z = np.zeros((A.shape[0], self.c, vectors.shape[1]))
        for a in range(self.c):
            mine = index // self.p == a
            Z[:, a, :] = A[:, mine] @ vectors[mine]
        return Z


def _inverse(A: np.ndarray) -> np.ndarray:
    try:
        inverse: np.ndarray = np.linalg.inv(A)
    except np.linalg.LinAlgError:  # a saturated model
        inverse = np.linalg.pinv(A, hermitian=True)
    return inverse
