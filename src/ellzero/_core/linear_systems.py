"""Linear systems whose matrix is positive semidefinite, and may be singular, or nearly so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import norm

_SMALL = 64  # rows of a matrix that NumPy inverts before SciPy is asked
# From this size on LAPACK's triangular factor serves for what follows it. Below, importing it would cost the first call
# more than it gains.
_LARGE = 200


@dataclass
class Factor:
    """G = LLᵀ for a positive definite G.

    Attributes
    ----------
    pivots : array
        L_ii², what the earlier columns leave of G_ii.
    """

    G: np.ndarray
    L: Any
    pivots: np.ndarray

    @classmethod
    def of(cls, G: np.ndarray, again: bool = True) -> Factor | None:
        """None where G is not positive definite; if nobody asks for G again, L may take its place."""
        if len(G) >= _LARGE:
            from scipy.linalg.lapack import dpotrf

            L, failed = dpotrf(G.T, lower=1, clean=0, overwrite_a=not again)
            return None if failed else cls(G, L, np.diagonal(L) ** 2)
        try:
            return cls(G, None, np.diagonal(np.linalg.cholesky(G)) ** 2)
        except np.linalg.LinAlgError:
            return None

    def solve(self, b: np.ndarray) -> np.ndarray:
        """G⁻¹b."""
        if self.L is None:
            return np.linalg.solve(self.G, b)
        from scipy.linalg.lapack import dpotrs

        return np.asarray(dpotrs(self.L, b, lower=1)[0])

    def inverse(self) -> np.ndarray:
        """G⁻¹, and no more use of the factor."""
        if self.L is None:
            return np.linalg.inv(self.G)
        from scipy.linalg.lapack import dpotri

        H = np.asarray(dpotri(self.L, lower=1, overwrite_c=1)[0])
        for start in range(0, len(H), _LARGE):  # the other triangle
            rows = slice(start, start + _LARGE)
            corner = np.tril(H[rows, rows])
            H[rows, rows] = corner + np.tril(corner, -1).T
            H[rows, start + _LARGE :] = H[start + _LARGE :, rows].T
        return H


def solve(G: np.ndarray, b: np.ndarray, index: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
    """G⁻¹b for a positive semidefinite G, and whether its columns are far enough from depending on each other.

    Where they depend on each other up to rounding, the shortest solution. b is a vector, or has one in every column.
    With an index G is that of these rows and columns.
    """
    if index is not None:
        diagonal, factor = np.diagonal(G)[index], Factor.of(G[index[:, None], index], again=index.size < _LARGE)
    else:
        diagonal, factor = np.diagonal(G), Factor.of(G)
    if factor is not None and (factor.pivots > 1e-13 * diagonal).all():
        return factor.solve(b), bool((factor.pivots > 1e-6 * diagonal).all())
    G = G if index is None else G[index[:, None], index]
    scales = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = np.linalg.lstsq(scales[:, None] * G * scales, (scales * b.T).T, rcond=1e-12)[0]
    return (scales * scaled.T).T, False


def inverses(M: np.ndarray) -> np.ndarray:
    """Those of positive definite matrices, (m, k, k); NaN where one is not."""
    if M.shape[1] <= _SMALL:
        try:
            return np.linalg.inv(M)
        except np.linalg.LinAlgError:
            return np.full(M.shape, np.nan)
    from scipy.linalg.lapack import dpotrf  # half the work, where that counts

    found = np.full(M.shape, np.nan)
    for inverse, matrix in zip(found, M, strict=True):
        L, failed = dpotrf(matrix, lower=1)
        if not failed:
            inverse[:] = Factor(matrix, L, np.diagonal(L) ** 2).inverse()
    return found


def refined(G: np.ndarray, b: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The solution of Gu = b with residuals in longer precision; if these corrections do not settle, it or u."""
    exact, target = G.astype(np.longdouble), b.astype(np.longdouble)
    try:
        if (np.diagonal(np.linalg.cholesky(G)) ** 2 <= 1e-15 * np.diagonal(G)).any():
            return u
        long = np.linalg.solve(G, b).astype(np.longdouble)
        for _ in range(5):
            change = np.linalg.solve(G, (target - exact @ long).astype(float))
            long = long + change
    except np.linalg.LinAlgError:
        return u
    found = long.astype(float)
    if norm(change) <= 1e-6 * norm(found):
        return found
    return min((u, found), key=lambda v: float(v @ (exact @ v - 2 * target)))
