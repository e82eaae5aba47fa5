"""Singular values and vectors: of NumPy arrays by LAPACK or, where few of many are asked for, from a random block; of
arrays of other libraries on their device."""

import numpy as np

from .arrays import Array, finfo_eps, namespace

SVD = tuple[Array, Array, Array]

_LARGE = 100  # rows and columns from which on few singular values are cheaper than all; measured
_MORE = 8  # columns of the random block beyond those that are asked for


def svd(W: Array) -> SVD:
    """U, s, Vᵀ with W = U diag(s) Vᵀ: as many as the shorter side has, s decreasing."""
    if not isinstance(W, np.ndarray):
        return tuple(namespace(W).linalg.svd(W, full_matrices=False))
    try:
        return np.linalg.svd(W, full_matrices=False)
    except np.linalg.LinAlgError:  # divide and conquer gives up on some matrices, plain iterations on none
        from scipy.linalg import svd as by_iterations

        return by_iterations(W, full_matrices=False, lapack_driver="gesvd")


def singular_values(W: Array) -> Array:
    """s alone."""
    try:
        return namespace(W).linalg.svdvals(W)
    except np.linalg.LinAlgError:
        return svd(W)[1]


def leading(W: Array, r: int) -> SVD:
    """The first r columns of U, entries of s and rows of Vᵀ: the best approximation of rank r (Eckart and Young).

    The same for the same W: random numbers have a fixed seed.
    """
    few = 4 * (r + _MORE) <= min(W.shape) and min(W.shape) >= _LARGE
    found = _by_block(W, r) if few and r and isinstance(W, np.ndarray) else None
    U, s, Vt = svd(W) if found is None else found
    return U[:, :r], s[:r], Vt[:r, :]


def _by_block(W: np.ndarray, r: int) -> SVD | None:
    """The same from the space that W and Wᵀ span from a random block; None where that is not as accurate as LAPACK.

    A block of more columns than are asked for finds values that repeat, which one vector need not.
    """
    m, n = W.shape
    size = float(np.abs(W).max())
    if not size > 0:
        return None
    A = W / size
    block = np.random.default_rng(0).standard_normal((n, r + _MORE)).astype(W.dtype)
    Q, B = np.empty((m, 0), dtype=W.dtype), np.empty((0, n), dtype=W.dtype)
    for _ in range(min(m, n) // (3 * (r + _MORE))):
        new = A @ block
        for _ in range(2):  # twice is enough
            new = np.linalg.qr(new - Q @ (Q.T @ new))[0]
        Q, B = np.hstack([Q, new]), np.vstack([B, new.T @ A])
        block = B[-new.shape[1] :].T
        U, s, Vt = svd(B)
        left = A @ Vt[:r].T - Q @ (U[:, :r] * s[:r])  # on the other side nothing is left
        if np.linalg.norm(left) <= 100 * finfo_eps(W) * s[0]:
            return Q @ U[:, :r], s[:r] * size, Vt[:r]
    return None
