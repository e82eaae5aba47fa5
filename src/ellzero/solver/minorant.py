"""R from below, around an answer, one coordinate at a time: what "no sparser vector is better" is read off.

Let x be a point, g = ∇R(x), and R(w) >= R(x) + <g, w - x> + ½Σ_i δ_i (w_i - x_i)² for the vectors w that it is compared
with; strong convexity is the case δ_i = ν. With what Γ adds to slopes (`ConstraintSet.multipliers`), for its members

    R(w)  >=  R(x) + Σ_i ψ_i(w_i - x_i) - offset,     ψ_i(u) = up_i u₊ + down_i u₋ + ½(δ_i + curvature_i)u².

A coordinate that w uses gives back at most gain_i = -min ψ_i, over the u that the limits of Γ leave; one that it does
not use costs cost_i = ψ_i(-x_i). For w on a support T the sum is thus at least

    Σ_i cost_i - Σ_{i in T} (gain_i + cost_i),

and this is least for the T with the largest gain_i + cost_i, which the greedy choice finds for k̄ coordinates, groups
or under quotas. So x is at least as good as every member with at most k̄ nonzeros if the k̄ largest gain_i + cost_i add
up to no more than Σcost_i - offset. Where x is the best on its support, gains inside are 0. In floating point it never
is, nor is g exact: slopes are taken at the worse end of what they may be, so that gains are not too small and costs not
too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..risks.accuracy import EPS
from ..sets.multipliers import Multipliers
from ..sparsity import Sparsity

_AT_ONCE = 2**16  # coordinates
_ROUND = 16 * EPS  # of the few operations that a gain or a cost is made of


@dataclass
class Minorant:
    """Σ_i ψ_i(w_i - x_i) - offset; slopes may be off by `doubt`, and members keep within the limits."""

    x: np.ndarray
    slopes: Multipliers
    doubt: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]

    def gains_and_costs(self, delta: Any) -> tuple[np.ndarray, np.ndarray]:
        """gain_i from above, cost_i from below, for these curvatures.

        Some coordinates at a time, because a dozen vectors as long as x may be as large as the data.
        """
        found = np.empty((2, self.x.size))
        for start in range(0, self.x.size, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            found[:, some] = self._part(some)._gains_and_costs(delta if np.ndim(delta) == 0 else delta[some])
        return found[0], found[1]

    def _part(self, some: slice) -> Minorant:
        up, down, curvature, doubt, offset = self.slopes
        slopes = Multipliers(up[some], down[some], curvature[some], doubt[some], offset)
        lower, upper = self.limits
        return Minorant(self.x[some], slopes, self.doubt[some], (lower[some], upper[some]))

    def _gains_and_costs(self, delta: Any) -> tuple[np.ndarray, np.ndarray]:
        x, (lower, upper) = self.x, self.limits
        curvature, doubt = delta + self.slopes.curvature, self.doubt + self.slopes.doubt
        curvature = curvature - _ROUND * (np.abs(delta) + self.slopes.curvature)
        rooms = (upper - x) * (1 + _ROUND), (x - lower) * (1 + _ROUND)
        falls = (doubt - slope for slope in self.slopes[:2])
        gain = np.max([_most(fall, curvature, room) for fall, room in zip(falls, rooms, strict=True)], axis=0)
        size, back = np.abs(x), np.where(x > 0, self.slopes.down, self.slopes.up)
        half = 0.5 * curvature * size
        cost = size * ((back - doubt) + half) - _ROUND * size * (np.abs(back) + doubt + np.abs(half))
        return gain * (1 + _ROUND), np.where(size > 0, cost, 0.0)

    def shortfalls(self, delta: Any, sparsity: Sparsity, kept: np.ndarray, first: int | None = None) -> np.ndarray:
        """For k̄ = 0, 1, ...: how much better a member with k̄ of what is counted can be at the very most.

        What is kept is used in any case; from there on the greedy choices for all k̄ are parts of each other. At least
        up to `first`, where one is given, for sums over all choices of a long x take many vectors as long as it.
        """
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gain, cost = self.gains_and_costs(delta)
            score = np.maximum(gain + cost, 0.0)
            if np.isnan(score).any():
                return np.full(1, math.inf)
            worth = sparsity.sums(score)
            order = sparsity.ranked_atoms(worth, kept, first)
            rest = np.ones(worth.size, dtype=bool)
            rest[order] = False
            free = sparsity.free
            won, taken = (_running(float(v[free].sum()), sparsity.sums(v)[order]) for v in (gain, score))
            lost, size = (
                _running(float(sparsity.sums(v)[rest].sum()), sparsity.sums(v)[order[::-1]])[::-1]
                for v in (cost, np.abs(cost))
            )
            rounding = (score.size + 8) * EPS * (won + size) + 4 * EPS * taken  # of the scores T was chosen by
            short = np.maximum(won - lost + self.slopes.offset + rounding, 0.0)
        return np.where(np.isfinite(short), short, math.inf)


def _most(fall: np.ndarray, curvature: np.ndarray, room: np.ndarray) -> np.ndarray:
    """max fall·t - ½curvature·t² over 0 <= t <= room."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fall, room = np.maximum(fall, 0.0), np.maximum(room, 0.0)
        t = np.where(curvature > 0, np.minimum(fall / curvature, room), room)
        most = np.where(np.isinf(t), math.inf, t * (fall - 0.5 * curvature * t))
        return np.where((fall == 0) & (curvature >= 0), 0.0, most)


def _running(start: float, values: np.ndarray) -> np.ndarray:
    """start, start + values_1, start + values_1 + values_2, ..."""
    return np.cumsum(np.concatenate([[start], values]))


def most_beaten(
    minorant: Minorant, delta: Callable[[int], Any], fixed: bool, sparsity: Sparsity, kept: np.ndarray, room: float
) -> tuple[int, float]:
    """The largest k̄ at which the minorant falls short by no more than `room`, and by how much it does; -1 if none.

    What falls short at k̄ does so at every larger one: the greedy choice grows, and δ(k̄), unless it is fixed, falls.
    """
    first, most = 2 * sparsity.k + 1, sparsity.most(minorant.x.size)  # it is hardly ever more
    if fixed:
        short = minorant.shortfalls(delta(0), sparsity, kept, first)
        if short[-1] <= room:
            short = minorant.shortfalls(delta(0), sparsity, kept)
        beaten = int(np.argmax(np.append(short, math.inf) > room)) - 1
        return (beaten, float(short[beaten])) if beaten >= 0 else (-1, math.inf)
    low, high, found = -1, most + 1, math.inf
    while high - low > 1:
        middle = min((low + high) // 2, max(first, 2 * low))
        short = minorant.shortfalls(delta(middle), sparsity, kept, middle)
        if middle < short.size and short[middle] <= room:
            low, found = middle, float(short[middle])
        else:
            high = middle
    return low, found
