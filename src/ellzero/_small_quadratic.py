"""argmin uᵀGu - 2bᵀu over a slice of Γ: the small problem in every refit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._arrays import norm
from .sets import ConstraintSet, Everywhere, NonNegative


def minimise_quadratic(
    G: np.ndarray, b: np.ndarray, gamma: ConstraintSet, support: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """argmin uᵀGu - 2bᵀu over the slice of Γ on the support."""
    if isinstance(gamma, Everywhere):
        return _solve(G, b)
    if (found := gamma.quadratic_minimum(G, b, support)) is not None:
        return found
    free, project = _solve(G, b), gamma.on(support)
    inside = project(free)
    if norm(inside - free) <= 1e-14 * norm(free):
        return free
    if isinstance(gamma, NonNegative) and (found := _non_negative(G, b, free)) is not None:
        return found
    L = float(np.linalg.eigvalsh(G)[-1])
    return _fista(G, b, 1 / L, project, start) if L > 0 else project(start)


def _non_negative(G: np.ndarray, b: np.ndarray, free: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over u >= 0 by active sets: drop what is negative, add what pays most; None if that cycles."""
    active, tolerance = free > 0, 1e-13 * float(np.abs(b).max(initial=0.0))
    for _ in range(3 * b.size + 10):
        u = np.zeros(b.size)
        u[active] = _solve(G[np.ix_(active, active)], b[active])
        if (u < 0).any():
            active &= u > 0
            continue
        pays = np.where(active, -np.inf, b - G @ u)
        best = int(pays.argmax())
        if pays[best] <= tolerance:
            return u
        active[best] = True
    return None


def _fista(
    G: np.ndarray, b: np.ndarray, size: float, project: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> np.ndarray:
    """Accelerated projected gradient steps on uᵀGu - 2bᵀu that start anew when they go the wrong way."""
    u = y = project(start)
    t = 1.0
    for _ in range(5000):
        following = project(y - size * (G @ y - b))
        moved = following - u
        if (y - following) @ moved > 0:
            t, y = 1.0, u
            following = project(y - size * (G @ y - b))
            moved = following - u
        if norm(moved) <= 1e-13 * norm(following) and norm(y - u) <= 1e-10 * norm(following):
            return following
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        y, u, t = following + (t - 1) / t_next * moved, following, t_next
    return u


def _solve(G: np.ndarray, b: np.ndarray) -> np.ndarray:
    """G⁻¹b for a positive semidefinite G; the shortest solution where columns depend on each other up to rounding."""
    diagonal = np.diagonal(G)
    try:
        factor = np.linalg.cholesky(G)
        # a pivot is what the earlier columns leave of a diagonal entry
        if (np.diagonal(factor) ** 2 > 1e-13 * diagonal).all():
            return np.linalg.solve(G, b)  # importing SciPy's triangular solver would cost the first call more
    except np.linalg.LinAlgError:
        pass
    scales = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    least: np.ndarray = scales * np.linalg.lstsq(scales[:, None] * G * scales, scales * b, rcond=1e-12)[0]
    return least
