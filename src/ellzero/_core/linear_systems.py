"""Small linear systems whose matrix may be singular, or nearly so."""

import numpy as np

from .arrays import norm

_SMALL = 64  # rows of a matrix that NumPy inverts before SciPy is asked


def solve(G: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool]:
    """G⁻¹b for a positive semidefinite G, and whether its columns are far enough from depending on each other.

    Where they depend on each other up to rounding, the shortest solution. b is a vector, or has one in every column.
    """
    diagonal = np.diagonal(G)
    try:
        # a pivot is what the earlier columns leave of a diagonal entry
        pivots = np.diagonal(np.linalg.cholesky(G)) ** 2
        if (pivots > 1e-13 * diagonal).all():
            # importing SciPy's triangular solver would cost the first call more
            return np.linalg.solve(G, b), bool((pivots > 1e-6 * diagonal).all())
    except np.linalg.LinAlgError:
        pass
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
    from scipy.linalg.lapack import dpotrf, dpotri  # half the work, where that counts

    found = np.full(M.shape, np.nan)
    for inverse, matrix in zip(found, M, strict=True):
        factor, failed = dpotrf(matrix, lower=True)
        if not failed:
            lower = np.tril(dpotri(factor, lower=True)[0])
            inverse[:] = lower + np.tril(lower, -1).T
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
