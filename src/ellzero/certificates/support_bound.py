"""A lower bound of R on one support: a convex problem, of which a point next to the best is known.

Let x be that point, g the gradient there, v = x - ηg, p = Π(v) its projection onto the slice of Γ and n = v - p. The
projection says <n, w - p> <= 0 for every member w; hence, with r = x - v + n, which is x - p,

    <g, w - x>  >=  <r, w - x>/η - e₀,    e₀ = <n, p - x>/η.

If R is curved by at least m in the metric D as long as ||D(w - x)|| <= ρ, then with e = ||D⁻¹r||/η

    R(w) >= R(x) - e₀ - e²/(2m)    provided that mρ >= 2e,

for all members w: within ρ because -et + ½mt² >= -e²/(2m); and beyond it because R is convex: at the distance ρ on the
way from x to w, a share s of it, R has grown by at least -s(et + e₀) + ½mρ², so at w by at least that divided by s =
ρ/t, which is -e₀ + t(½mρ - e). Where R is flat but members are at most `extent` away from x, R(w) >= R(x) - e₀ -
e·extent in the Euclidean metric. In an interval of its own, a coordinate that a multiplier holds at its end does not
leave it for free: n_j|w_j - x_j|/η has been dropped from above, and is worth a curvature of 2n_j D_j/(ηρ) within ρ.

All this holds for any p and n with <n, w - p> <= slack + spread·||w - p||, which is what sets answer (`supporting`):
the slack goes into e₀, the spread into e. So an inexact projection costs sharpness, not validity.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .._core.arrays import norm
from ..risks.accuracy import EPS, Measured
from ..sets.base import Support

# of η, relative to where ηg is as long as x; the first is mostly good enough, and far points are dear to project
_SIZES = 4.0 ** np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, 8, 9, 10, 11, 12])
_REACHES = 4.0 ** -np.arange(0.0, 16.0, 1.5)  # relative to where predictions change by about 1


@dataclass
class Slice:
    """The slice of Γ on a support, as a lower bound sees it."""

    supporting: Callable[[np.ndarray], Support]  #: the point and the normal for a v
    extent: float  #: no member is farther from the point at hand; may be infinite
    #: Some risks do not change along certain shifts of w (`Measured.shifts`). Every member can be shifted within the
    #: slice so that at least this share of its distance from the point at hand is across them; 0 if not.
    across: float = 0.0
    separable: bool = False  #: whether the slice is a product of intervals, one for each coordinate


def bound_on_support(here: Measured, x: np.ndarray, part: Slice, enough: float, deadline: float = math.inf) -> float:
    """A number that R does not go below on the slice; the better the point x of it, the sharper.

    `enough` below R(x) is near enough, and after the deadline, a reading of `time.perf_counter`, no further projection
    is made.
    """
    best, base = -math.inf, here.value - here.error
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bowl = _Bowl(here, x, part.across)
        for r in residuals(*here.slopes, x, part):
            loss = min(_flat_loss(here, r, part.extent), bowl.loss(r))
            if not math.isnan(loss):
                best = max(best, base - r.offset - loss)
            if here.value - best <= enough or time.perf_counter() > deadline:
                break
    return best


@dataclass
class Residual:
    """What a projected step leaves: on the slice <g, w-x> >= -Σ_i entries_i|w_i-x_i| - spread·||w-x|| - offset."""

    entries: np.ndarray  #: |r|/η entry by entry with all doubts
    offset: float  #: e₀
    spread: float  #: a doubt that is known by its length alone
    holds: np.ndarray  #: the multipliers that hold coordinates in their places

    def norm(self, D: np.ndarray) -> float:
        """e in the metric D."""
        return 1.001 * norm(self.entries / D) + (self.spread / float(D.min()) if self.spread else 0.0)


def residuals(slopes: np.ndarray, doubt: np.ndarray, x: np.ndarray, part: Slice) -> Iterator[Residual]:
    """What projected steps of several sizes leave of these slopes, each off by at most so much; the best come first."""
    s = x.size
    g, rest = slopes[:s], np.abs(slopes[s:]) + doubt[s:]  # the intercept is free: all of its slope is left over
    length, steep = norm(x), norm(g)
    if steep == 0:
        yield Residual(np.concatenate([doubt[:s], rest]), 0.0, 0.0, np.zeros(doubt.size))
        return
    for eta in min((length or 1.0) / steep, 1e100) * _SIZES:
        v = x - eta * g
        p, n, slack, spread = part.supporting(v)
        r, away = (x - v) + n, p - x
        rounded = 2 * EPS * (np.abs(x) + eta * np.abs(g) + np.abs(v) + np.abs(n))
        offset = float(n @ away) + 4 * (s + 4) * EPS * float(np.abs(n) @ np.abs(away))
        offset += slack + spread * norm(away)
        entries = (np.abs(r) + rounded) / eta + doubt[:s]
        holds = np.zeros(doubt.size)
        if part.separable:
            holds[:s] = 0.99 * np.where(away == 0, np.abs(n), 0.0) / eta
        yield Residual(np.concatenate([entries, rest]), max(offset, 0.0) / eta, spread / eta, holds)


def _flat_loss(here: Measured, r: Residual, extent: float) -> float:
    """e·extent, and what a matrix that is not quite semidefinite may take."""
    if not math.isfinite(extent) or here.n_free:
        return math.inf
    one = np.ones(r.entries.size)
    M, less = here.floor(math.inf, one)
    return r.norm(one) * extent - 0.5 * min(_smallest(M) - less, 0.0) * extent**2


class _Bowl:
    """How R is curved around x, in a metric in which a unit of each unknown is the same to it."""

    def __init__(self, here: Measured, x: np.ndarray, across: float) -> None:
        self.here, self.across = here, across
        self.shifts = here.shifts if across > 0 and here.shifts is not None else []
        diagonal = np.diag(here.floor(0.0, np.ones(here.slopes[0].size))[0])
        square = np.where(diagonal > 0, diagonal, 1.0)
        for shift in self.shifts:  # one unit for all that is shifted together
            square[shift] = square[shift].mean()
        self.D = np.sqrt(square)
        farthest = here.farthest(self.D) or 1 / (norm(self.D[: x.size] * x) or 1.0)
        # the way beyond a reach needs convexity, not only up to rounding
        self.reaches = [math.inf, *(_REACHES / farthest if here.surely_convex else ())]
        self._floor: dict[float, tuple[np.ndarray, float]] = {}

    def loss(self, r: Residual) -> float:
        """e²/(2m) for the largest reach ρ that will do: shorter ones are hardly better curved."""
        e = r.norm(self.D)
        for reach in self.reaches:
            m = self.curvature(reach, r.holds)
            if m > 0 and (math.isinf(reach) or m * reach >= 2.001 * e):
                return 1.001 * e * e / (2 * m)
        return math.inf

    def curvature(self, reach: float, holds: np.ndarray) -> float:
        """m, from below."""
        if reach not in self._floor:
            self._floor[reach] = self.here.floor(reach, self.D)
        M, less = self._floor[reach]
        scaled = M / self.D / self.D[:, None]
        # R does not change along the shifts, which are orthogonal: what is left is across them
        stiff = 1.0 + float(np.abs(np.diag(scaled)).max(initial=0.0))
        for shift in self.shifts:
            scaled[np.ix_(shift, shift)] += stiff / shift.size
        if holds.any() and math.isfinite(reach) and not self.shifts:
            scaled[np.diag_indices_from(scaled)] += 2 * holds / (self.D * reach)
        return (self.across**2 if self.shifts else 1.0) * (_smallest(scaled) - less)


def _smallest(M: np.ndarray) -> float:
    """The smallest eigenvalue, from below."""
    if not M.size:
        return math.inf
    if not np.isfinite(M).all():
        return -math.inf
    return float(np.linalg.eigvalsh(M)[0]) - 8 * len(M) * EPS * float(np.abs(M).sum(axis=1).max())
