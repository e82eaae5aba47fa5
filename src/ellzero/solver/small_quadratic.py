"""argmin uᵀGu - 2bᵀu over a slice of Γ: the small problem in every refit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from .._core.arrays import norm
from ..sets import (
    ConstraintSet,
    Ellipsoid,
    EmptySlice,
    GroupWise,
    Intersection,
    L2Ball,
    LpBall,
    NonNegative,
)
from ..sets._quadratic import minimise_by_cuts
from ..sets._slices import polyhedron, restrict, slice_of_product
from .active_set import is_member, minimise_on_polyhedron

_FEW = 12  # unknowns for which cutting planes are quicker than projected gradients


def minimise_quadratic(
    G: np.ndarray,
    b: np.ndarray,
    gamma: ConstraintSet,
    support: np.ndarray,
    start: np.ndarray,
    deadline: float = math.inf,
) -> np.ndarray:
    """argmin uᵀGu - 2bᵀu over the slice of Γ on the support.

    Bounds and caps have an answer in finitely many steps, balls and ellipsoids one in one unknown. For other sets
    projected gradient steps are made until they end or the deadline, a reading of `time.perf_counter`, has passed.
    """
    if gamma.whole_space:
        return solve(G, b)[0]
    if (found := gamma.quadratic_minimum(G, b, support)) is not None:
        return found
    if isinstance(gamma, NonNegative) and not gamma.redefined and (found := _non_negative(G, b)) is not None:
        return found
    free, project, part = solve(G, b)[0], gamma.on(support), None
    shape = slice_of_product(gamma, support)
    if shape is None and (part := _slice(gamma, support)) is not None:
        shape = polyhedron(part, support.size)
    if shape is not None:
        start = start if is_member(shape, start) else project(start)
        found = free if is_member(shape, free) else minimise_on_polyhedron(G, b, shape, start)
        if found is None:  # degenerate: what depends on each other is told apart by a hair
            found = minimise_on_polyhedron(G + 1e-11 * np.diag(np.diagonal(G)), b, shape, start)
    elif b.size <= _FEW and (projections := _pieces(part)) is not None:  # the projection onto all takes longest
        found = minimise_by_cuts(G, b, projections, deadline)[0]
        found = None if found is None else project(found)
    elif norm((inside := project(free)) - free) <= 1e-14 * norm(free):
        return free
    elif isinstance(part, (L2Ball, Ellipsoid)):
        found = _in_ellipsoid(G, b, part.radius * getattr(part, "scales", np.ones(b.size)))
    elif isinstance(part, LpBall):
        found = _in_lp_ball(G, b, part.p, part.radius, project(start))
    # what is left by rounding, and a polyhedron may be larger than its set
    if found is not None and norm((inside := project(found)) - found) <= 1e-9 * norm(found):
        return inside
    return _by_gradients(G, b, gamma, support, project(start), deadline)


def _slice(gamma: ConstraintSet, support: np.ndarray) -> ConstraintSet | None:
    """The slice of Γ as a set of its own, where that is known."""
    try:
        return restrict(gamma, support)
    except EmptySlice:  # only this description fails: there is a projection onto the slice
        return None


def _in_ellipsoid(G: np.ndarray, b: np.ndarray, halves: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Σ(u_i/halves_i)² <= 1, which does not hold for the minimiser without it.

    In v = u/halves, with G = VΛVᵀ and c = Vᵀb there: v = V(Λ + μ)⁻¹c, and the μ > 0 with ||v|| = 1 is found by
    Newton's method on 1/||v||, which is nearly linear in μ, and concave: from the left it never goes too far.
    """
    try:
        eigenvalues, V = np.linalg.eigh(halves[:, None] * G * halves)
    except np.linalg.LinAlgError:  # numbers without end
        return None
    eigenvalues, c = np.maximum(eigenvalues, 0.0), V.T @ (halves * b)
    unit = float(np.abs(c).max(initial=0.0)) or 1.0  # nothing else has a size here
    eigenvalues, c = eigenvalues / unit, c / unit
    c[(eigenvalues <= 1e-13 * eigenvalues[-1]) & (np.abs(c) <= 1e-13 * norm(c))] = 0.0  # rounding
    if not (np.isfinite(c).all() and c.any()):
        return None
    weight = c * c
    # ||v|| at the largest eigenvalue is a lower bound, so is each of its entries alone
    mu = max(float(np.max(np.abs(c) - eigenvalues)), norm(c) - float(eigenvalues[-1]), 1e-16 * norm(c))
    for _ in range(100):
        size = math.sqrt(float(np.sum(weight / (eigenvalues + mu) ** 2)))
        fall = float(np.sum(weight / (eigenvalues + mu) ** 3))
        change = (size - 1) * size**2 / fall if fall > 0 else 0.0  # it may underflow
        if not change > 1e-16 * mu:
            break
        mu += change
    return np.asarray(halves * (V @ (c / (eigenvalues + mu))))


def _in_lp_ball(G: np.ndarray, b: np.ndarray, p: float, radius: float, start: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Σ|u_i/radius|^p <= 1, 1 < p < ∞, which does not hold for the minimiser without it.

    Σ|u_i/radius|^p of the minimiser of uᵀGu - 2bᵀu + μΣ|u_i/radius|^p, by Newton's method, falls with μ: the μ at
    which it is 1 is found between bounds.
    """
    from scipy.optimize import brentq

    u, G, b = start / radius, radius**2 * G, radius * b
    ridge = 1e-14 * float(np.trace(G)) * np.eye(b.size)

    def best_at(mu: float, u: np.ndarray) -> np.ndarray:
        def value(u: np.ndarray) -> float:
            return float(u @ (G @ u - 2 * b) + mu * np.sum(np.abs(u) ** p))

        here = value(u)
        for _ in range(60):
            size = np.maximum(np.abs(u), 1e-150)
            slope = G @ u - b + 0.5 * mu * p * np.sign(u) * size ** (p - 1)
            bend = G + ridge + np.diag(0.5 * mu * p * (p - 1) * size ** (p - 2))
            step, length = np.linalg.solve(bend, -slope), 1.0
            fall = float(slope @ step)  # half of it is the most that a good step brings
            while (there := value(u + length * step)) > here + 0.5 * length * fall and length > 1e-12:
                length *= 0.5
            u, gained, here = (u + length * step, here - there, there) if there <= here else (u, 0.0, here)
            if gained <= 1e-15 * abs(here):
                break
        return u

    def excess(level: float) -> float:
        """The logarithm of Σ|u_i|^p, nearly linear in that of μ."""
        nonlocal u
        u = best_at(scale * math.exp(level), u)
        return math.log(max(float(np.sum(np.abs(u) ** p)), 1e-300))

    scale = 2 * float(np.abs(b).max(initial=0.0))  # no multiplier is much larger
    try:
        brentq(excess, -80.0, 5.0, xtol=1e-14, rtol=1e-14, maxiter=100)
    except (ValueError, RuntimeError, np.linalg.LinAlgError):  # no change of sign, not found, overflow
        return None
    return np.asarray(radius * u / max(1.0, float(np.sum(np.abs(u) ** p)) ** (1 / p)))


def _pieces(gamma: ConstraintSet | None) -> list[Callable[[np.ndarray], np.ndarray]] | None:
    """The projections onto the sets of an intersection or a product, one by one; None for other sets."""
    if isinstance(gamma, Intersection):
        return [s.project for s in gamma.sets]
    if not isinstance(gamma, GroupWise):
        return None

    def within(s: ConstraintSet, index: np.ndarray, u: np.ndarray) -> np.ndarray:
        moved = u.copy()
        moved[index] = s.project(u[index])
        return moved

    groups = zip(gamma.sets, gamma._members, strict=True)
    return [partial(within, s, index) for s, index in groups if s is not None and index.size]


def _non_negative(G: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over u >= 0 by active sets: drop what is negative, add what pays most; None if that cycles."""
    active, tolerance = np.ones(b.size, dtype=bool), 1e-13 * float(np.abs(b).max(initial=0.0))
    for _ in range(3 * b.size + 10):
        u = np.zeros(b.size)
        u[active] = solve(G[np.ix_(active, active)], b[active])[0]
        if (u < 0).any():
            active &= u > 0
            continue
        pays = np.where(active, -np.inf, b - G @ u)
        best = int(pays.argmax())
        if pays[best] <= tolerance:
            return u
        active[best] = True
    return None


def _by_gradients(
    G: np.ndarray, b: np.ndarray, gamma: ConstraintSet, support: np.ndarray, start: np.ndarray, deadline: float
) -> np.ndarray:
    """Projected gradients, in units in which the diagonal of G is 1 where Γ can be told in them."""
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    units, other = 1 / np.where(size > 0, size, 1.0), None
    if units.max() > 10 * units.min():
        try:
            part = restrict(gamma, support)
            other = None if part is None else part.rescaled(units)
        except EmptySlice:
            pass
    if other is None:
        units, project = np.ones(b.size), gamma.on(support)
    else:
        G, b, start, project = units[:, None] * G * units, units * b, start / units, other.project
    L = float(np.linalg.eigvalsh(G)[-1])
    if not L > 0:
        return start
    found: np.ndarray = units * _fista(G, b, 1 / L, project, start, deadline)
    return found if other is None else gamma.project(found, support)


def _fista(
    G: np.ndarray,
    b: np.ndarray,
    size: float,
    project: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    deadline: float,
) -> np.ndarray:
    """Accelerated projected gradient steps on uᵀGu - 2bᵀu that start anew when they go the wrong way."""
    u = y = start
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
        if time.perf_counter() > deadline:
            break
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        y, u, t = following + (t - 1) / t_next * moved, following, t_next
    return following


def solve(G: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool]:
    """G⁻¹b for a positive semidefinite G, and whether its columns are far enough from depending on each other.

    Where they depend on each other up to rounding, the shortest solution.
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
    return scales * np.linalg.lstsq(scales[:, None] * G * scales, scales * b, rcond=1e-12)[0], False


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
