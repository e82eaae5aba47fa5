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

_ROUND = 16 * EPS  # of the few operations that a gain or a cost is made of


@dataclass
class Minorant:
    """Σ_i ψ_i(w_i - x_i) - offset; slopes may be off by `doubt`, and members keep within the limits."""

    x: np.ndarray
    slopes: Multipliers
    doubt: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]

    def gains_and_costs(self, delta: Any) -> tuple[np.ndarray, np.ndarray]:
        """gain_i from above, cost_i from below, for these curvatures."""
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

    def shortfall(self, delta: Any, sparsity: Sparsity, kept: np.ndarray) -> float:
        """How much better a member that uses what the sparsity allows, and what is kept, can be at the very most."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gain, cost = self.gains_and_costs(delta)
            score = np.maximum(gain + cost, 0.0)
            if np.isnan(score).any():
                return math.inf
            used = np.zeros(score.size, dtype=bool)
            used[sparsity.best_atoms(sparsity.sums(score), kept)] = True
            won, lost = float(gain[used].sum()), float(cost[~used].sum())
            rounding = (score.size + 8) * EPS * (won + float(np.abs(cost[~used]).sum()))
            rounding += 4 * EPS * float(score[used].sum())  # of the scores, by which T was chosen
            short = won - lost + self.slopes.offset + rounding
        return max(short, 0.0) if math.isfinite(short) else math.inf


def _most(fall: np.ndarray, curvature: np.ndarray, room: np.ndarray) -> np.ndarray:
    """max fall·t - ½curvature·t² over 0 <= t <= room."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fall, room = np.maximum(fall, 0.0), np.maximum(room, 0.0)
        t = np.where(curvature > 0, np.minimum(fall / curvature, room), room)
        most = np.where(np.isinf(t), math.inf, t * (fall - 0.5 * curvature * t))
        return np.where((fall == 0) & (curvature >= 0), 0.0, most)


def most_beaten(
    minorants: list[Minorant], delta: Callable[[int], Any], sparsity: Sparsity, most: int, kept: np.ndarray, room: float
) -> tuple[int, float, int]:
    """The largest k̄ at which one of the minorants falls short by no more than `room`, by how much it does, and which.

    k̄ = -1 where none does. What falls short at k̄ does so at every larger one: the greedy choice grows, δ falls.
    """

    def least(k_bar: int) -> tuple[float, int]:
        curved, level = delta(k_bar), sparsity.with_k(k_bar)
        return min((minorant.shortfall(curved, level, kept), i) for i, minorant in enumerate(minorants))

    low, high, found = sparsity.size(kept) - 1, most + 1, (math.inf, 0)
    while high - low > 1:
        middle = (low + high) // 2
        shortfall = least(middle)
        if shortfall[0] <= room:
            low, found = middle, shortfall
        else:
            high = middle
    return (low if math.isfinite(found[0]) else -1), *found
