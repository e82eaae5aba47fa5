"""What a set adds to a slope at a point: prices of its caps, and the curvature of its balls.

Any multipliers give a true statement, and those of the best point on a support the sharpest one. For y >= 0 (of either
sign where a cap is exact) and members w, y(a|w| - h) <= 0, and |w_i| >= s_i w_i with s_i the sign of x_i; so

    <g, w - x>  >=  Σ_i (g_i + s_i t_i)(w_i - x_i) - Σ_r y_r (h_r - a_r|x|),      t = Aᵀy,

where a coordinate at 0 that may have either sign costs t_i whichever way it goes. A ball Σ(c_i w_i)² <= r² gives

    <g, w - x>  >=  Σ_i (g_i + λc_i² x_i)(w_i - x_i) + (λ/2) Σ_i c_i² (w_i - x_i)² - (λ/2)(r² - Σ_i (c_i x_i)²).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .polyhedron import Polyhedron

_BINDS = 1e-9  # how near to its limit, relatively, a cap or a ball counts as binding
_EPS = float(np.finfo(np.float64).eps)


class Multipliers(NamedTuple):
    """<g, w - x> >= Σ_i slope_i |w_i - x_i| + ½Σ_i curvature_i (w_i - x_i)² - offset for every member w.

    slope_i is up_i where w_i > x_i, and down_i where w_i < x_i; both may be off by `doubt`, the rounding of all else is
    in the curvature and in the offset.
    """

    up: np.ndarray
    down: np.ndarray
    curvature: np.ndarray
    doubt: np.ndarray
    offset: float

    @classmethod
    def none(cls, g: np.ndarray) -> Multipliers:
        """Without any; to be looked at alone."""
        nothing = np.broadcast_to(0.0, g.shape)
        return cls(g, -g, nothing, nothing, 0.0)

    def place(self, index: np.ndarray, part: Multipliers) -> Multipliers:
        """With these for some of the coordinates, of which Γ is a product with the others."""
        for whole, own in zip(self[:4], part[:4], strict=True):
            whole[index] = own
        return self._replace(offset=self.offset + part.offset)


def under_caps(shape: Polyhedron, x: np.ndarray, g: np.ndarray) -> Multipliers:
    """Those of {w : lower <= w <= upper, A|w| <= h}: the prices that fit best where x is between its bounds."""
    if not shape.h.size:
        return Multipliers.none(g)
    sign = np.where(shape.lower >= 0, 1.0, np.where(shape.upper <= 0, -1.0, np.sign(x)))
    spent = shape.A @ (sign * x)
    binding = np.flatnonzero(shape.equal | (spent >= (1 - _BINDS) * shape.h))
    inside = (x != 0) & (shape.lower < x) & (x < shape.upper)
    y = np.zeros(shape.h.size)
    size = np.abs(x[inside])  # what is left of a slope counts by how far it goes: long columns have large errors
    M = shape.A[np.ix_(binding, inside)] * (sign[inside] * size)
    y[binding] = _prices(M.T, -g[inside] * size, shape.equal[binding])
    y = np.where(shape.equal, y, np.minimum(y, _steepest_outside(shape, x, g, inside)))
    price, sizes = y @ shape.A, np.abs(y) @ shape.A
    up = np.where(sign == 0, g + price, g + sign * price)
    down = np.where(sign == 0, price - g, -g - sign * price)
    doubt = (y.size + 4) * _EPS * (np.abs(g) + sizes) * (sizes > 0)
    loose = float(y @ (shape.h - spent))
    rounding = 4 * (x.size + 4) * _EPS * float(np.abs(y) @ (np.abs(shape.h) + shape.A @ np.abs(x)))
    return Multipliers(up, down, np.zeros(x.size), doubt, loose + rounding)


def _steepest_outside(shape: Polyhedron, x: np.ndarray, g: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Of the caps that a single entry of x fills, the lowest prices that leave no slope to the others; inf of the rest.

    Such an entry cannot grow, whatever the price, and the lower that is, the more it costs to give the entry up.
    """
    slope = np.maximum(np.where(shape.upper > 0, -g, 0.0), np.where(shape.lower < 0, g, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where((shape.A > 0) & (x == 0), np.maximum(slope, 0.0) / shape.A, 0.0).max(axis=1, initial=0.0)
    alone = np.count_nonzero((shape.A > 0) & (x != 0), axis=1) == 1
    return np.where(alone & ((shape.A > 0) & inside).any(axis=1), needed, math.inf)


def _prices(M: np.ndarray, target: np.ndarray, equal: np.ndarray) -> np.ndarray:
    """y with My near the target, none negative but where a cap is exact."""
    active = np.ones(equal.size, dtype=bool)
    while True:
        y = np.zeros(equal.size)
        if active.any() and target.size:
            y[active] = np.linalg.lstsq(M[:, active], target, rcond=None)[0]
        negative = (y < 0) & ~equal
        if not negative.any():
            return y
        active[negative & (y <= 0.5 * y[negative].min())] = False


def in_ellipsoid(c: np.ndarray, r: float, x: np.ndarray, g: np.ndarray) -> Multipliers:
    """That of {w : Σ(c_i w_i)² <= r²}; none where x is inside."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        steep, spent = c * c * x, float(np.sum((c * x) ** 2))
        price = -float(g @ x) / spent if spent else 0.0  # slopes count by how far they go
        if not (0 < price < math.inf and spent >= (1 - _BINDS) * r * r and math.isfinite(r * r)):
            return Multipliers.none(g)
        loose = 0.5 * price * (r * r - spent + 4 * (x.size + 8) * _EPS * (r * r + spent))
        up, doubt = g + price * steep, 8 * _EPS * (np.abs(g) + np.abs(price * steep))
        return Multipliers(up, -up, price * c * c * (1 - 4 * _EPS), doubt, loose)


def product(g: np.ndarray, parts: Iterable[tuple[np.ndarray, Multipliers | None]]) -> Multipliers | None:
    """Those of a product of sets of some coordinates each; None where one of them is not known."""
    whole = Multipliers(g.copy(), -g, np.zeros(g.size), np.zeros(g.size), 0.0)
    for index, part in parts:
        if part is None:
            return None
        whole = whole.place(index, part)
    return whole
