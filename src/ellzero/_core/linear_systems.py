"""Linear systems whose matrix is positive semidefinite, and may be singular, or nearly so."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import norm

_SMALL = 64  # rows of a matrix that NumPy inverts before SciPy is asked
# From this size on LAPACK's triangular factor serves for what follows it. Below, importing it would cost the first call
# more than it gains.
_LARGE = 200
_SAME = 1e-13  # relative: a norm that is less by no more is the same
APART = 1e-6  # of a column, that the others leave of it: enough for products to tell the answer to ten digits


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
        return factor.solve(b), bool((factor.pivots > APART * diagonal).all())
    G = G if index is None else G[index[:, None], index]
    scales = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = least_squares(scales[:, None] * G * scales, (scales * b.T).T, 1e-12)
    return (scales * scaled.T).T, False


def independent(G: np.ndarray, index: np.ndarray) -> bool:
    """Whether the columns that these rows and columns of G are the products of are far from depending on each other."""
    factor = Factor.of(G[index[:, None], index], again=index.size < _LARGE)
    return factor is not None and bool((factor.pivots > APART * np.diagonal(G)[index]).all())


def least_squares(A: np.ndarray, r: np.ndarray, cut: float | None = None) -> np.ndarray:
    """The shortest u with the least ||Au - r||; singular values below this share of the largest count as zero."""
    try:
        return np.asarray(np.linalg.lstsq(A, r, rcond=cut)[0])
    except np.linalg.LinAlgError:  # LAPACK's quickest iteration does not end on some singular matrices
        if not (np.isfinite(A).all() and np.isfinite(r).all()):
            raise
        from scipy.linalg import lstsq

        return np.asarray(lstsq(A, r, cut, lapack_driver="gelsy", check_finite=False)[0])


def least_squares_between(
    A: np.ndarray, r: np.ndarray, lower: np.ndarray, upper: np.ndarray, deadline: float = math.inf
) -> np.ndarray:
    """argmin ||Au - r|| over bounds that hold 0, or the u beyond which rounding, or the deadline, lets nobody go.

    The primal method of active sets (Stark & Parker 1995), from 0: towards the best values of the entries that are
    free, as far as the bounds let it; once there, the entry at a bound is set free whose slope leads inside most
    steeply. No step is one to a larger ||Au - r||: a start that is nearly the best is not left for anything worse.
    """
    u, least, size = np.zeros(A.shape[1]), norm(r), np.sqrt(np.einsum("ij,ij->j", A, A))
    free, never = (lower < 0) & (upper > 0), (lower == upper) | (size == 0)
    tried, size = never.copy(), np.where(size > 0, size, 1.0)
    for _ in range(20 * u.size + 100):  # more than any that was seen
        if time.perf_counter() > deadline:
            break
        left, way = r - A @ u, np.zeros(u.size)
        way[free] = least_squares(A[:, free], left)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(way > 0, upper - u, np.where(way < 0, lower - u, math.inf)) / np.where(way == 0, 1.0, way)
        first, length = int(reach.argmin()), min(1.0, float(reach.min()))
        there = np.clip(u + length * way, lower, upper)
        if length < 1.0:
            there[first] = upper[first] if way[first] > 0 else lower[first]
        if (value := norm(A @ there - r)) <= least:
            tried = never.copy() if value < least * (1 - _SAME) else tried
            u, least = there, value
            if length < 1.0:
                free[first] = False
                continue
        # slopes are those at the best values, even where rounding hides what is won there
        inward = np.where(u <= lower, 1.0, -1.0) * (A.T @ (left - A @ way)) / size
        inward[free | tried] = 0.0
        best = int(inward.argmax())
        if not inward[best] > 0:
            break
        free[best] = tried[best] = True  # once, until there is something better
    return u


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
