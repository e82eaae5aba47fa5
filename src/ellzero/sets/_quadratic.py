"""argmin uᵀGu - 2bᵀu over a small set: by pivots, least distances, cutting planes or gradients."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from .._core.arrays import norm
from .._core.linear_systems import solve

_PATIENCE = 3  # pivots of all that is wrong after which it may be no less
_DEPENDENT = 10  # pivots among columns that depend on each other
_SLOW = 50  # pivots of one entry after which the search is given up
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
    u: np.ndarray | None = np.full(b.size, np.nan)
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


def minimise_between(
    G: np.ndarray,
    b: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    start: np.ndarray | None = None,
    deadline: float = math.inf,
) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over lower <= u <= upper; None if the search is given up.

    Block pivoting (Júdice & Pires 1994): what is free and beyond a bound goes to that bound, what is at a bound with a
    slope that leads inside is set free, all at once as long as this leaves fewer of them, else the last one alone.
    That ends for a positive definite G, though it may take long, and seldom for one whose columns depend on each other:
    None after fifty pivots of one entry, or ten among such columns. After the deadline, the better of two members.
    """
    side = np.zeros(b.size) if start is None else np.where(start <= lower, -1.0, np.where(start >= upper, 1.0, 0.0))
    side = np.where(lower == upper, -1.0, side)
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    fewest, patience, slow = b.size + 1, _PATIENCE, 0
    while slow <= _SLOW:
        free, index = side == 0, np.flatnonzero(side == 0)
        u = np.where(free, 0.0, np.where(side < 0, lower, upper))
        pushed = b - G[:, ~free] @ u[~free] if u.any() else b
        u[index], accurate = solve(G, pushed[index], index if index.size < b.size else None)
        slope = pushed - G[:, index] @ u[index]
        tolerance = 1e-13 * (np.abs(b) + size * float(size @ np.abs(u)))  # a short column has small slopes
        below, above = free & (u < lower), free & (u > upper)
        inward = ~free & (lower < upper) & (-side * slope > tolerance)
        wrong = np.flatnonzero(below | above | inward)
        if not wrong.size:
            return u
        if time.perf_counter() > deadline:
            members = [np.clip(v, lower, upper) for v in (u, u if start is None else start)]
            return min(members, key=lambda v: float(v @ (G @ v - 2 * b)))
        slow += 0 if accurate else _SLOW // _DEPENDENT
        if wrong.size < fewest:
            fewest, patience = wrong.size, _PATIENCE
        elif patience:
            patience -= 1
        else:
            wrong, slow = wrong[-1:], slow + 1
        side[wrong] = np.where(inward, 0.0, np.where(below, -1.0, 1.0))[wrong]
    return None


def minimise_by_gradients(
    G: np.ndarray,
    b: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    deadline: float,
    max_steps: int = 5000,
) -> np.ndarray:
    """Accelerated projected gradient steps on uᵀGu - 2bᵀu that start anew when they go the wrong way."""
    L = float(np.linalg.eigvalsh(G)[-1])
    if not L > 0:
        return start
    size, u, y = 1 / L, start, start
    t, before = 1.0, math.inf
    for step in range(max_steps):
        following = project(y - size * (G @ y - b))
        moved = following - u
        if (y - following) @ moved > 0:
            t, y = 1.0, u
            following = project(y - size * (G @ y - b))
            moved = following - u
        if norm(moved) <= 1e-13 * norm(following) and norm(y - u) <= 1e-10 * norm(following):
            return following
        if step % 100 == 99:  # what so many steps no longer change is settled, wherever it wanders
            value = float(following @ (G @ following - 2 * b))
            if abs(value - before) <= 1e-13 * abs(value):
                break
            before = value
        if time.perf_counter() > deadline:
            break
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        y, u, t = following + (t - 1) / t_next * moved, following, t_next
    return following


def in_ellipsoid(G: np.ndarray, b: np.ndarray, halves: np.ndarray) -> np.ndarray | None:
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


def in_lp_ball(G: np.ndarray, b: np.ndarray, p: float, radius: float, start: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Σ|u_i/radius|^p <= 1, 1 < p < ∞, which does not hold for the minimiser without it.

    Σ|u_i/radius|^p of the minimiser of uᵀGu - 2bᵀu + μΣ|u_i/radius|^p, by Newton's method, falls with μ: the μ at
    which it is 1 is found between bounds.
    """
    from scipy.optimize import brentq

    u, G, b = start / radius, radius * (radius * G), radius * b
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return None
    ridge = 1e-14 * np.diag(np.diagonal(G))

    def best_at(mu: float, u: np.ndarray) -> np.ndarray:
        def value(u: np.ndarray) -> float:
            return float(u @ (G @ u - 2 * b) + mu * np.sum(np.abs(u) ** p))

        here = value(u)
        for _ in range(60):
            size = np.maximum(np.abs(u), 1e-150)
            slope = G @ u - b + 0.5 * mu * p * np.sign(u) * size ** (p - 1)
            bend = G + ridge + np.diag(0.5 * mu * p * (p - 1) * size ** (p - 2))
            unit = 1 / np.sqrt(np.maximum(np.diagonal(bend), 1e-300))  # columns may differ by many powers of ten
            step, length = unit * np.linalg.solve(unit[:, None] * bend * unit, -unit * slope), 1.0
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
