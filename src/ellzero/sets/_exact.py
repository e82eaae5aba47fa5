"""The projection onto an intersection of polyhedra and at most one ellipsoid, without alternating projections.

With the multiplier λ of the ellipsoid Σ(c_i w_i)² <= r², w(λ) minimises ||w - v||² + λ Σ(c_i w_i)² over the polyhedra:
a small quadratic programme. ||c∘w(λ)|| falls with λ, and λ is found by bisection.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from .._core.arrays import norm
from ._quadratic import minimise_over_polytope
from .base import ConstraintSet, EmptySlice
from .polyhedron import Polyhedron

_LARGEST = 100  # coordinates; the quadratic programmes are dense
_Ellipsoid = tuple[np.ndarray, float]  # c and the radius


def project_exactly(sets: Sequence[ConstraintSet], v: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    """argmin ||w - v|| over the slices of all sets; None where they are of another kind, too large, or programmes fail.

    Raises EmptySlice, without words, if there is no member.
    """
    size = float(np.abs(v).max(initial=0.0))
    if not 0 < v.size <= _LARGEST or not (size == 0 or 1e-100 < size < 1e100):
        return None
    if (parts := _parts(sets, index)) is None:
        return None
    shape, round_one = parts
    rows, limits = _rows(shape, v)
    empty = ~rows.any(axis=1)
    if (limits[empty] > 0).any():  # a budget that nothing here can spend
        raise EmptySlice
    rows, limits = rows[~empty], limits[~empty]

    def nearest(weight: np.ndarray | float) -> np.ndarray | None:
        return minimise_over_polytope(np.diag(1.0 + weight * np.ones(v.size)), v, rows, limits)

    if (w := nearest(0.0)) is None:
        if not shape.has_member_on(np.arange(v.size)):
            raise EmptySlice
        return None
    if round_one is not None:
        c, radius = round_one
        w = _inside(w, lambda multiplier: nearest(multiplier * c * c), c, radius)
        if w is not None and norm(c * w) > radius * (1 + 1e-9):
            raise EmptySlice
    if w is None:
        return None
    # on a bound of 0 an entry is 0, not almost
    tiny = (np.abs(w) <= 1e-13 * np.abs(w).max()) & (shape.lower <= 0) & (shape.upper >= 0)
    return np.where(tiny, 0.0, w)


def _parts(sets: Sequence[ConstraintSet], index: np.ndarray) -> tuple[Polyhedron, _Ellipsoid | None] | None:
    """Bounds and caps for these coordinates, and the ellipsoid as (c, radius), if there is one."""
    shapes, round_ones = [Polyhedron.box(-math.inf, math.inf, index.size)], []
    for s in sets:
        if (ellipsoid := s._ellipsoid(index)) is not None:
            round_ones.append(ellipsoid)
            continue
        shape = s.polyhedron_on(index)
        if shape is None or not shape.exact:
            return None
        shapes.append(shape)
    if len(round_ones) > 1:
        return None
    return Polyhedron.joined(shapes), round_ones[0] if round_ones else None


def _rows(shape: Polyhedron, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A, h with Aw >= h. Where a coordinate may have both signs, the projection has that of v, or is zero."""
    sign = np.where(shape.lower >= 0, 1.0, np.where((shape.upper <= 0) | (v < 0), -1.0, 1.0))
    lower = np.where(sign > 0, np.maximum(shape.lower, 0.0), shape.lower)
    upper = np.where(sign < 0, np.minimum(shape.upper, 0.0), shape.upper)
    low, high, unit = np.isfinite(lower), np.isfinite(upper), np.eye(v.size)
    caps = -sign * shape.A
    return (
        np.vstack([unit[low], -unit[high], caps, -caps[shape.equal]]),
        np.concatenate([lower[low], -upper[high], -shape.h, shape.h[shape.equal]]),
    )


def _inside(w: np.ndarray, at: Callable[[float], np.ndarray | None], c: np.ndarray, radius: float) -> np.ndarray | None:
    """w(λ) with ||c∘w(λ)|| = radius, or w itself if it is inside; what λ = 1e18 gives where there is no such λ."""
    if norm(c * w) <= radius:
        return w
    low, high = 0.0, 1.0 / float((c * c).max())
    best = at(high)
    while best is not None and norm(c * best) > radius and high < 1e18 / float((c * c).min()):
        low, high = high, 4 * high
        best = at(high)
    for _ in range(100):
        middle = 0.5 * (low + high)
        if best is None or norm(c * best) > radius or not low < middle < high:
            break
        if (there := at(middle)) is None:
            return None
        low, high, best = (middle, high, best) if norm(c * there) > radius else (low, middle, there)
        if norm(c * best) >= radius * (1 - 1e-15):
            break
    return best
