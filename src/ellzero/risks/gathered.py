"""Columns of X that many problems use at once, each its own, and a column of ones where there is an intercept."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from .._core.arrays import to_host
from ..design import Design

_MANY = 50  # columns of a sparse X from which on it is quicker to leave them sparse


class Gathered(ABC):
    """A_b = (X_{S_b}, 1) for problems b, as products: (m, q, k) are vectors of it, (m, q, n) of its rows."""

    @abstractmethod
    def of(self, some: np.ndarray) -> Gathered:
        """Those of some of the problems."""

    @abstractmethod
    def forward(self, U: np.ndarray) -> np.ndarray:
        """U A_bᵀ, (m, q, n)."""

    @abstractmethod
    def adjoint(self, R: np.ndarray) -> np.ndarray:
        """R A_b, (m, q, k)."""

    @abstractmethod
    def gram(self, weights: np.ndarray) -> np.ndarray:
        """A_bᵀ diag(ω_b) A_b, (m, k, k), for weights of shape (m, n)."""


class Together(Gathered):
    """One array of shape (m, k, n)."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A

    def of(self, some: np.ndarray) -> Together:
        return self if some.size == len(self.A) else Together(self.A[some])

    def forward(self, U: np.ndarray) -> np.ndarray:
        return np.asarray(U @ self.A)

    def adjoint(self, R: np.ndarray) -> np.ndarray:
        return np.asarray(R @ self.A.swapaxes(1, 2))

    def gram(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray((self.A * weights[:, None]) @ self.A.swapaxes(1, 2))


class Apart(Gathered):
    """The columns of each problem by themselves, which may be sparse."""

    def __init__(self, designs: list[Design], free: int) -> None:
        self.designs, self.free = designs, free

    def of(self, some: np.ndarray) -> Apart:
        return Apart([self.designs[i] for i in some], self.free)

    def forward(self, U: np.ndarray) -> np.ndarray:
        k = U.shape[2] - self.free
        Z = np.array([design.forward(u[:, :k].T).T for design, u in zip(self.designs, U, strict=True)])
        return Z + U[:, :, k:] if self.free else Z

    def adjoint(self, R: np.ndarray) -> np.ndarray:
        found = np.array([design.adjoint(r.T).T for design, r in zip(self.designs, R, strict=True)])
        return np.concatenate([found, R.sum(axis=2, keepdims=True)], axis=2) if self.free else found

    def gram(self, weights: np.ndarray) -> np.ndarray:
        k = self.designs[0].shape[1]
        found = np.empty((len(weights), k + self.free, k + self.free))
        for gram, design, w in zip(found, self.designs, weights, strict=True):
            gram[:k, :k], sums = design.moments(w)
            if self.free:
                gram[k, :k], gram[:k, k], gram[k, k] = sums, sums, w.sum()
        return found


def gathered(design: Design, features: np.ndarray, free: int) -> Gathered:
    """The columns of X of these features, (m, k), and a column of ones if `free` is 1."""
    m, k = features.shape
    if not design.in_memory and k >= _MANY:
        return Apart([design.columns(own) for own in features], free)
    known, place = np.unique(features, return_inverse=True)
    columns = np.ascontiguousarray(to_host(design.columns(known).dense()).T, dtype=float)
    A = np.ones((m, k + free, design.shape[0]))
    A[:, :k] = columns[place.reshape(m, k)]
    return Together(A)
