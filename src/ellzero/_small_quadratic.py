"""argmin uᵀGu - 2bᵀu over a slice of Γ: the small problem in every refit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ._arrays import norm
from .sets import ConstraintSet, EmptySlice, Everywhere, NonNegative
from .sets._slices import Polyhedron, polyhedron, restrict

_FIRST_GUESS = 8  # steps after which the tight constraints are first taken for known


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
    if isinstance(gamma, NonNegative) and not gamma.redefined and (found := _non_negative(G, b, free)) is not None:
        return found
    L = float(np.linalg.eigvalsh(G)[-1])
    return _fista(G, b, 1 / L, project, start, partial(_slice_faces, gamma, support)) if L > 0 else project(start)


def _slice_faces(gamma: ConstraintSet, support: np.ndarray) -> Polyhedron | None:
    """The slice of Γ by bounds and caps, where it can be written so."""
    try:
        part = restrict(gamma, support)
    except EmptySlice:  # only this description fails: there is a projection onto the slice
        return None
    return None if part is None else polyhedron(part, support.size)


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
    G: np.ndarray,
    b: np.ndarray,
    size: float,
    project: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    describe: Callable[[], Polyhedron | None],
) -> np.ndarray:
    """Accelerated projected gradient steps on uᵀGu - 2bᵀu that start anew when they go the wrong way.

    They soon tell which bounds and caps are tight. Then one linear system gives the answer: tried now and again.
    """
    u = y = project(start)
    t, faces = 1.0, None
    for count in range(1, 5001):
        following = project(y - size * (G @ y - b))
        moved = following - u
        if (y - following) @ moved > 0:
            t, y = 1.0, u
            following = project(y - size * (G @ y - b))
            moved = following - u
        if norm(moved) <= 1e-13 * norm(following) and norm(y - u) <= 1e-10 * norm(following):
            return following
        if count == _FIRST_GUESS:
            faces = describe()
        if faces is not None and count & (count - 1) == 0:  # after 8, 16, 32, ... steps
            answer = _on_face(G, b, faces, following)
            if answer is not None and norm((inside := project(answer)) - answer) <= 1e-12 * norm(answer):
                return inside
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        y, u, t = following + (t - 1) / t_next * moved, following, t_next
    return u


def _on_face(G: np.ndarray, b: np.ndarray, faces: Polyhedron, u: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over the polyhedron, if its signs, tight bounds and tight caps are those of u; or None.

    On that face Gu + Aᵀλ∘sign(u) = b for the entries between their bounds; optimal if λ >= 0 and no other entry wants
    to leave its place.
    """
    size = np.abs(u)
    low, high, idle = u <= faces.lower, u >= faces.upper, u == 0
    tight = faces.equal | (faces.A @ size >= (1 - 1e-9) * faces.h)
    free = ~(low | high | idle)
    sign = np.where(u < 0, -1.0, 1.0)
    tight &= faces.A[:, free].any(axis=1)
    rows = faces.A[tight]
    n, m = int(free.sum()), len(rows)
    system = np.zeros((n + m, n + m))
    system[:n, :n] = G[np.ix_(free, free)]
    system[n:, :n] = rows[:, free] * sign[free]
    system[:n, n:] = system[n:, :n].T
    right = np.concatenate([b[free] - G[np.ix_(free, ~free)] @ u[~free], faces.h[tight] - rows[:, ~free] @ size[~free]])
    try:
        found = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        return None
    w, multiplier = u.copy(), np.zeros(len(faces.h))
    w[free], multiplier[tight] = found[:n], found[n:]
    price, pull = faces.A.T @ multiplier, b - G @ w
    doubt = 1e-11 * float(np.abs(b).max(initial=0.0) + np.abs(G @ w).max(initial=0.0))
    stays = (
        (sign[free] * w[free] >= 0).all()
        and ((faces.lower <= w) & (w <= faces.upper)).all()
        and (faces.A @ np.abs(w) <= (1 + 1e-12) * faces.h).all()
        and (multiplier[~faces.equal] >= 0).all()
        # upwards from zero or a lower bound, downwards from zero or an upper one
        and (pull - sign * price <= doubt)[(low | idle) & ~high].all()
        and (pull - np.where(idle, -1.0, sign) * price >= -doubt)[(high | idle) & ~low].all()
    )
    return w if stays and np.isfinite(w).all() else None


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
