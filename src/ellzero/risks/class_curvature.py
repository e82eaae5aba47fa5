"""The quadratic model of a risk with several classes at a point, seen through few columns of its Hessian."""

from __future__ import annotations

import math

import numpy as np

from .._core.arrays import to_host
from .linear_curvature import LinearCurvature
from .terms import LinearTerms


class ClassCurvature(LinearCurvature):
    """G = ½∇²R(w) of the multinomial risk: ½Σ_i share_i x_i x_iᵀ (π_a δ_ab - π_a π_b) for classes a, b; + (ridge/2)I.

    With an intercept, b is the best for every w: each direction Z of predictions is taken less its mean β in the
    metric of the classes, (Σ_i D_i) β = Σ_i D_i Z_i, D_i = share_i (diag π_i - π_i π_iᵀ).
    """

    def __init__(self, model: LinearTerms, probability: np.ndarray) -> None:
        share = model.share if isinstance(model.share, float) else to_host(model.share).astype(float)
        self.model, self.exact, self.spent = model, False, 0
        self.p, self.c = model.design.shape[1], model.n_outputs
        self.room, self._cache = max(math.prod(model.design.shape), 10**7), {}
        self.weights = np.broadcast_to(0.5 * np.asarray(share), (model.n_terms,))
        self.probability = probability
        self.weighted = self.weights[:, None] * self.probability
        self.inverse: np.ndarray | None = None
        if model.fit_intercept:
            total = np.diag(self.weighted.sum(axis=0)) - self.weighted.T @ self.probability
            # it vanishes along 1, which the products below do not see: any other value there makes it invertible
            self.inverse = _inverse(total + total.trace() / self.c)

    def affords(self, n_columns: int) -> bool:
        """Whether so many columns fit."""
        return super().affords(n_columns * self.c)

    def _bent(self, Z: np.ndarray) -> np.ndarray:
        """½D_i Z_i for predictions Z of shape (n, c, m)."""
        bent = self._bend(Z)
        if self.inverse is not None:
            bent -= self._bend(np.broadcast_to(self.inverse @ bent.sum(axis=0), Z.shape))
        return bent

    def _bend(self, Z: np.ndarray) -> np.ndarray:
        mean = np.einsum("nc,ncm->nm", self.probability, Z)
        return np.asarray(self.weighted[:, :, None] * (Z - mean[:, None, :]))

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of G."""
        design, ridge = self.model.design, 0.5 * self.model.ridge
        own = self.weighted * (1 - self.probability)
        squares = np.concatenate([design.square_sums(own[:, a]) for a in range(self.c)])
        self.spent += self.c
        if self.inverse is not None:
            for a in range(self.c):
                part = -self.weighted[:, [a]] * self.probability
                part[:, a] += self.weighted[:, a]
                means = to_host(design.adjoint(design.asarray(part))).astype(float)
                squares[a * self.p : (a + 1) * self.p] -= np.einsum("ib,bd,id->i", means, self.inverse, means)
            self.spent += self.c * self.c
        return squares + ridge

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """G[:, index] @ vectors, at c products with X for each vector."""
        design, m = self.model.design, vectors.shape[1]
        bent = self._bent(self._spread(self._columns(index), index, vectors))
        flat = np.asfortranarray(bent.reshape(-1, self.c * m))
        images = to_host(design.adjoint(design.asarray(flat))).astype(float)
        images = images.reshape(self.p, self.c, m).swapaxes(0, 1).reshape(self.c * self.p, m)
        self.spent += self.c * m
        images[index] += 0.5 * self.model.ridge * vectors
        return images

    def block(self, index: np.ndarray) -> np.ndarray:
        """G[index, index], from these columns of X alone."""
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
