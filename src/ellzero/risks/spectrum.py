"""How large and how small XᵀΩX can get: the constants of every linear model, from one routine."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import Array, finfo_eps, norm, to_host
from ..design import Design
from .base import Constant

#: up to this size of the smaller Gram matrix its eigenvalues are computed, about a second at the limit
LARGEST_GRAM = 2000

#: what is left of the squares of a constant column, relative, once its mean is taken off
ROUNDING = 1e-14

#: the same where its mean was taken off before it was squared
_LEAST = 1e-22

#: of the squares of a column: where no more is left without its mean, the mean has to be taken off before
FAR = 1e-6
_FAR_IN_SINGLE = 1e-3  # the means have fewer digits there

_LANCZOS_STEPS = 60
_FAILURE_PROBABILITY = 1e-10


class Gram(NamedTuple):
    """XᵀΩX, less Xᵀω(Xᵀω)ᵀ/Σω where an intercept takes the means away.

    Attributes
    ----------
    matrix : array of shape (p, p)
    squares : array of shape (p,)
        The diagonal of XᵀΩX itself, by which rounding errors are judged.
    """

    matrix: np.ndarray
    squares: np.ndarray


def gram(design: Design, weights: np.ndarray | float, centred: bool) -> Gram:
    """The Gram matrix of the columns of X, on the host and in double precision; weights may be one number."""
    matrix, sums = design.moments(weights)
    total = weights * design.shape[0] if isinstance(weights, float) else float(weights.sum())
    squares = matrix.diagonal().copy()
    if not centred:
        return Gram(matrix, squares)
    found = matrix - np.outer(sums, sums) / max(total, 1e-300)
    if (far := np.flatnonzero((found.diagonal() <= FAR * squares) & (squares > 0))).size:
        found[far[:, None], far] = design.centred_products(far, far, weights, sums / max(total, 1e-300))
    return Gram(found, squares)


def centred_squares(design: Design, weights: Any, squares: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Σ_i ω_i (X_ij - m_j)² for every column j, 0 for constant ones, from Σ_i ω_i X_ij² and the means."""
    total = weights * design.shape[0] if isinstance(weights, float) else float(weights.sum())
    centred, double = squares - total * means**2, finfo_eps(design.reference) < 1e-12
    if (far := np.flatnonzero((centred <= (FAR if double else _FAR_IN_SINGLE) * squares) & (squares > 0))).size:
        centred[far] = design.centred_squares(far, weights, means)
    return np.where(is_constant(centred, squares, double), 0.0, centred)


def is_constant(centred: np.ndarray, squares: np.ndarray, double: bool) -> np.ndarray:
    """Which columns are, up to rounding: without their means, which were taken off in time, nearly nothing is left."""
    return np.asarray(centred <= (_LEAST if double else ROUNDING) * squares)


def extreme_eigenvalues(design: Design, share: Array | float, centred: bool) -> tuple[Constant, Constant]:
    """The largest and the smallest eigenvalue of XᵀΩX with Ω = diag(share), Σ share = 1.

    With `centred`, of Xᵀ(Ω - ωωᵀ)X: what remains when an intercept takes the mean away. X itself is never
    centred, so that a sparse X stays sparse.
    """
    n, p = design.shape
    weights = np.broadcast_to(np.asarray(to_host(share) if np.ndim(share) else share, dtype=np.float64), n)
    if not design.explicit or min(n, p) > LARGEST_GRAM or (design.parted and p > n):
        return _largest_by_lanczos(design, weights, centred), Constant(0.0, "bound")
    smaller, trace = _smaller_gram(design, weights, centred)
    if not math.isfinite(trace):  # the squares of X overflow: nothing is known
        return Constant(math.inf, "bound"), Constant(0.0, "bound")
    eigenvalues = np.linalg.eigvalsh(smaller)
    # The sums of products, the centring and the eigenvalue routine each err by a multiple of eps·trace.
    margin = float(np.finfo(np.float64).eps) * (n + p + 10) * (2 if centred else 1) * trace
    singular = p > n - centred  # more columns than the rank allows: the smallest eigenvalue is 0
    smallest = 0.0 if singular else max(0.0, float(eigenvalues[0]) - margin)
    return Constant(float(eigenvalues[-1]) + margin, "exact"), Constant(smallest, "exact")


def _smaller_gram(design: Design, weights: np.ndarray, centred: bool) -> tuple[np.ndarray, float]:
    """Whichever is smaller of AᵀA and AAᵀ with A = Ω^½X (centred), and the trace before centring."""
    n, p = design.shape
    if p <= n:
        columns = gram(design, weights, centred)
        return columns.matrix, float(columns.squares.sum())
    rows, _ = design.T.moments(np.ones(p))
    trace = float(weights @ np.diag(rows))
    if centred:  # (I - 1ωᵀ) XXᵀ (I - ω1ᵀ)
        row_mean = rows @ weights
        rows = rows - row_mean[:, None] - row_mean[None, :] + weights @ row_mean
    root = np.sqrt(weights)
    return root[:, None] * rows * root[None, :], trace


def _largest_by_lanczos(design: Design, weights: np.ndarray, centred: bool) -> Constant:
    n, p = design.shape
    root: np.ndarray = np.sqrt(weights)

    def forward(v: np.ndarray) -> np.ndarray:
        z = np.asarray(to_host(design.forward(design.asarray(v))), dtype=np.float64)
        if centred:
            z = z - weights @ z
        return root * z

    def adjoint(u: np.ndarray) -> np.ndarray:
        r = root * u
        if centred:
            r -= weights * r.sum()
        return np.asarray(to_host(design.adjoint(design.asarray(r))), dtype=np.float64)

    if p <= n:
        return Constant(lanczos_largest(lambda v: adjoint(forward(v)), p), "estimate")
    return Constant(lanczos_largest(lambda u: forward(adjoint(u)), n), "estimate")


def lanczos_largest(apply: Callable[[np.ndarray], np.ndarray], size: int) -> float:
    """A number that exceeds the largest eigenvalue of a positive semidefinite operator, nearly surely.

    After j Lanczos steps from a random start the largest Ritz value falls short by a relative error above ε
    with probability at most 1.648 √d exp(-√ε (2j - 1)) (Kuczyński & Woźniakowski 1992, Theorem 4.2), so it is
    raised by 1/(1 - ε), where ε makes that probability 1e-10. The start is seeded: same data, same answer.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    steps = min(_LANCZOS_STEPS, size)
    q = np.random.default_rng(0).standard_normal(size)
    q /= norm(q)
    basis = np.empty((steps, size))
    diagonal, off_diagonal = np.empty(steps), np.empty(steps)
    complete = steps == size
    for j in range(steps):
        basis[j] = q
        v = apply(q)
        diagonal[j] = q @ v
        for _ in range(2):  # once leaves rounding behind
            v = v - basis[: j + 1].T @ (basis[: j + 1] @ v)
        off_diagonal[j] = norm(v)
        if off_diagonal[j] <= 10 * np.finfo(np.float64).eps * diagonal[: j + 1].max():
            steps, complete = j + 1, True  # the start lies in an invariant subspace: nothing is missing
            break
        q = v / off_diagonal[j]
    ritz = float(eigvalsh_tridiagonal(diagonal[:steps], off_diagonal[: steps - 1])[-1])
    if complete:
        return ritz * (1 + 1e-12)
    epsilon = (math.log(1.648 * math.sqrt(size) / _FAILURE_PROBABILITY) / (2 * steps - 1)) ** 2
    return ritz / (1 - epsilon)
