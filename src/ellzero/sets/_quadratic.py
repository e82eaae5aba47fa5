"""Small convex quadratic programmes by non-negative least squares."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from .._core.arrays import norm

_STUCK = 1e-6  # how far from a set a point may be that no cut moves any more, relative to its size


def minimise_over_polytope(G: np.ndarray, b: np.ndarray, A: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Au >= h, for positive definite G; None where that cannot be done accurately.

    With G = LLᵀ, u = G⁻¹b + L⁻ᵀx: the shortest x with AL⁻ᵀx >= h - AG⁻¹b, and that is a non-negative least-squares
    problem (Lawson & Hanson, least distance programming). Its multipliers tell which rows are tight, and the answer
    is the shortest solution of the linear equations of these.
    """
    from scipy.optimize import nnls

    scale = float(np.trace(G)) / max(len(G), 1)
    if not 0 < scale < np.inf:
        return None
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(G / scale))
        u = inverse.T @ (inverse @ (b / scale))
        lack = h - A @ u
        if lack.max(initial=0.0) <= 0:
            return u
        E = inverse @ A.T  # a column for each row of A
        size = np.sqrt(np.einsum("ij,ij->j", E, E))
        E, lack = E / size, lack / size
        far = float(np.abs(lack).max())
        y = nnls(np.vstack([E, lack / far]), np.append(np.zeros(len(b)), 1.0), maxiter=50 * len(h))[0]
        tight = y > 0
        u = u + inverse.T @ np.linalg.lstsq(E[:, tight].T, lack[tight], rcond=1e-13)[0]
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    lack = (h - A @ u) / size
    return u if np.isfinite(u).all() and lack.max() <= 1e-9 * far else None


def minimise_by_cuts(
    G: np.ndarray, b: np.ndarray, projections: Sequence[Callable[[np.ndarray], np.ndarray]], deadline: float = math.inf
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """argmin uᵀGu - 2bᵀu over several sets, from outside: over half-spaces that contain them, more and more of them.

    The projection p of u onto one of the sets gives the half-space (p - u)ᵀ(x - p) >= 0. Where rounding ends this
    early, the last point is still the answer if it is next to all sets (the farther the minimiser without them, the
    fewer digits are left); otherwise there is none. Also returns the normals of the half-spaces, and which set each
    belongs to.
    """
    units = 1 / np.sqrt(np.maximum(np.diagonal(G), 1e-300))
    G, b = units[:, None] * G * units + 1e-14 * np.eye(b.size), units * b
    A, h, owner = np.empty((0, b.size)), np.empty(0), np.empty(0, np.intp)
    near: np.ndarray | None = None
    u = np.full(b.size, np.nan)
    for _ in range(20 + 20 * b.size):
        last, u = u, minimise_over_polytope(G, b, A, h)
        if u is None or time.perf_counter() > deadline:
            break
        point: np.ndarray = units * u
        cuts = [(i, p, p - point) for i, p in enumerate(project(point) for project in projections)]
        stuck = norm(u - last) <= 1e-15 * norm(u)
        near = point if all(norm(way) <= (_STUCK if stuck else 1e-9) * norm(p) for _, p, way in cuts) else None
        cuts = [(i, p, way) for i, p, way in cuts if norm(way) > 1e-12 * norm(p)]
        if stuck or not cuts:
            break
        A = np.vstack([A, *(units * way / norm(units * way) for _, _, way in cuts)])
        h = np.append(h, [way @ p / norm(units * way) for _, p, way in cuts])
        owner = np.append(owner, [i for i, _, _ in cuts])
    return near, A / units, owner
