"""Positions of a portfolio under a budget, bounds and caps on groups: the arithmetic behind `Portfolio`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .elementwise import relative

_ROUNDING = 1e-15


@dataclass(frozen=True)
class Positions:
    """{w : least <= Σw <= most, lower <= w <= upper, Σ_{i in g} |w_i| <= cap_g} for some coordinates."""

    lower: np.ndarray
    upper: np.ndarray
    group: np.ndarray  #: numbers of groups, -1 for none
    caps: np.ndarray  #: a cap for each group, and inf at the end, for group -1
    least: float
    most: float

    def by_group(self, values: np.ndarray) -> np.ndarray:
        """The sum of the values in each group; that of group -1 at the end."""
        if values.dtype != np.longdouble:
            return np.bincount(self.group % self.caps.size, values, self.caps.size)
        sums = np.zeros(self.caps.size, dtype=np.longdouble)
        np.add.at(sums, self.group % self.caps.size, values)
        return sums

    def must(self) -> np.ndarray:
        """The smallest |w_i| within bounds: not zero for positions that are held whatever happens."""
        return np.asarray(np.maximum(np.maximum(self.lower, -self.upper), 0.0))

    def mirrored(self) -> Positions:
        """The same with long and short exchanged: {-w}."""
        return Positions(-self.upper, -self.lower, self.group, self.caps, -self.most, -self.least)

    def room(self) -> float:
        """What rounding may add to a sum."""
        finite = [abs(b) for b in (self.least, self.most) if math.isfinite(b)]
        return 1e-12 * max(float(self.must().sum()), *finite, 0.0)

    def reach(self) -> tuple[float, float]:
        """The smallest and the largest Σw within bounds and caps; (inf, -inf) where a cap cannot be kept."""
        least_gross = self.by_group(self.must())
        if (least_gross > self.caps * (1 + 1e-12)).any():
            return math.inf, -math.inf
        return 0.0 - self._most(-self.lower), self._most(self.upper)

    def _most(self, upper: np.ndarray) -> float:
        short = np.minimum(upper, 0.0)  # positions that must be on the other side, at their smallest
        used = self.by_group(short)
        with np.errstate(over="ignore"):  # more than any budget
            return float((used + np.minimum(self.by_group(np.maximum(upper, 0.0)), self.caps + used)).sum())

    def most_with(self, chosen: np.ndarray, more: int) -> float:
        """The largest Σw of the positions chosen, all that must be held among them, and `more` others.

        No more than `least` asks for: what lies beyond is not counted.
        """
        short = np.minimum(self.upper, 0.0)  # they lower the sum, and use up some of their group's cap
        asked = max(self.least - float(short.sum()), 0.0)
        if asked == 0:
            return float(short.sum())
        caps = np.maximum(self.caps + self.by_group(short), 0.0)
        top = np.clip(self.upper, 0.0, np.minimum(caps[self.group], asked))
        held = np.minimum(self.by_group(top * chosen), caps)
        rest = np.flatnonzero(~chosen & (top > 0))
        rest = rest[np.lexsort((-top[rest], self.group[rest]))]
        top, group = top[rest], self.group[rest]
        before = np.cumsum(top) - top  # of the same group, after the next line
        before -= np.repeat(before[_first(group)], np.diff(np.append(_first(group), rest.size)))
        gains = np.minimum(held[group] + before + top, caps[group]) - np.minimum(held[group] + before, caps[group])
        return float(short.sum() + held.sum() + np.sort(gains)[::-1][:more].sum())

    def violation(self, w: np.ndarray) -> float:
        """The largest excess over a bound, relative to it where it is not zero."""
        total, gross = w.sum(), self.by_group(np.abs(w))
        excess = [
            relative(np, w - self.upper, self.upper),
            relative(np, self.lower - w, self.lower),
            relative(np, gross - self.caps, self.caps),
            relative(np, np.array([total - self.most, self.least - total]), np.array([self.most, self.least])),
        ]
        return max(0.0, *(float(e.max(initial=0.0)) for e in excess))

    def has_no_choice(self) -> bool:
        """Whether long positions at their smallest already spend the budget: then there is nothing else."""
        return bool((self.lower >= 0).all() and self.lower.sum() >= self.most)

    def project(self, v: np.ndarray) -> np.ndarray:
        """argmin ||w - v||; there must be a member."""
        if self.has_no_choice():
            return self.lower.copy()
        w, slope = self._at(v, 0.0)
        total = w.sum()
        if not self.least <= total <= self.most:
            budget = self.least if total < self.least else self.most
            w = self._with_budget(v, total, slope, budget)
            if abs(w.sum() - budget) > 1e-13 * abs(budget):
                w = self._with_budget_far_away(v, budget)
        if self.violation(w) > _ROUNDING and np.abs(v).max(initial=0.0) > 2 * np.abs(w).max(initial=0.0):
            return self.project(w)  # cancellation: a point nearby loses less
        return w

    def _with_budget_far_away(self, v: np.ndarray, budget: float) -> np.ndarray:
        """The same counted from the v_i between which λ lies, where v_i - λ would cancel.

        Adding a number to all v_i changes nothing, for Σw is given.
        """
        centres = np.unique(v)
        totals = np.array([self._at(v - c, 0.0)[0].sum() for c in centres])  # falling
        first = int(np.searchsorted(-totals, -budget))
        found = []
        for c in centres[max(first - 1, 0) : first + 1]:
            w, slope = self._at(v - c, 0.0)
            found.append(self._with_budget(v - c, w.sum(), slope, budget, far=True))
        return min(found, key=lambda w: abs(w.sum() - budget))

    def _with_budget(self, v: np.ndarray, total: float, slope: float, budget: float, far: bool = False) -> np.ndarray:
        """Σ_i w_i(λ) = budget: Newton's method on a falling, piecewise linear function, kept inside a bracket."""
        width = np.minimum(np.maximum(np.abs(self.lower), np.abs(self.upper)), self.caps[self.group])
        largest = np.abs(v).max()
        # positions that must be held may pull against the budget: the others make up for them
        wide = np.minimum(width, largest * v.size + abs(budget) + self.must().sum()).max() + 1e-9 * largest
        low, high = v.min() - wide, v.max() + wide
        shift, w = 0.0, v
        for _ in range(200):
            low, high = (shift, high) if total > budget else (low, shift)
            newton = shift - (total - budget) / slope if slope < 0 else math.nan
            middle = _between(low, high) if far else 0.5 * (low + high)
            shift = newton if low < newton < high else middle
            w, slope = self._at(v, shift)
            total = w.sum()
            if abs(total - budget) <= _ROUNDING * abs(budget) or high - low <= 1e-16 * (abs(low) + abs(high)):
                break
        return w

    def _at(self, v: np.ndarray, shift: float) -> tuple[np.ndarray, float]:
        """argmin ½||w - v||² + λΣw under bounds and caps, and the slope of its sum in λ."""
        a = v - shift
        sign = np.where(self.lower > 0, 1.0, np.where((self.upper < 0) | (a < 0), -1.0, 1.0))
        size = sign * a
        top = np.where(sign > 0, self.upper, -self.lower)
        floor = np.maximum(np.where(sign > 0, self.lower, -self.upper), 0.0)
        theta = np.zeros_like(self.caps)
        gross = self.by_group(np.clip(size, floor, top))
        for g in np.flatnonzero(gross > self.caps):
            mine = self.group == g
            theta[g] = _threshold(size[mine], floor[mine], top[mine], gross[g] - self.caps[g])
        drawn = size - theta[self.group]
        w = np.clip(drawn, floor, top)
        free = (floor < drawn) & (drawn < top)
        # under a cap that binds, the others of the group make up for what one loses
        count, net = self.by_group(free), self.by_group(free * sign)
        slope = np.where(theta > 0, net**2 / np.maximum(count, 1) - count, -count)
        return sign * w, float(slope.sum())

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """A, h with Aw >= h: all that Γ says about long positions, and bounds and budget for the others.

        Where positions of a group may have both signs, its cap needs more rows.
        """
        n, capped = self.group.size, self.caps[self.group]
        eye = np.eye(n)
        tight = self.upper < np.minimum(capped, self.most if (self.lower >= 0).all() else math.inf)
        low = np.isfinite(self.lower)
        blocks, limits = [eye[low], -eye[tight]], [self.lower[low], -self.upper[tight]]
        for sign, bound in ((1.0, self.least), (-1.0, self.most)):
            if math.isfinite(bound):
                blocks.append(np.full((1, n), sign))
                limits.append(np.array([sign * bound]))
        used = np.unique(self.group[np.isfinite(capped)])
        side = np.where(self.upper <= 0, -1.0, 1.0)
        blocks.append(-side * (self.group == used[:, None]))
        limits.append(-self.caps[used])
        return np.vstack(blocks), np.concatenate(limits)


def _between(low: Any, high: Any) -> Any:
    """Halfway: by magnitude where that differs much."""
    small, large = sorted((abs(low), abs(high)))
    if large > 1e3 * small and (min(low, high) >= 0 or max(low, high) <= 0):
        return np.sign(low + high) * np.sqrt(large) * np.sqrt(max(small, 1e-320))
    return 0.5 * (low + high)


def _threshold(size: np.ndarray, floor: np.ndarray, top: np.ndarray, excess: float) -> float:
    """θ with Σ clip(size - θ, floor, top) = the same at θ = 0, less the excess.

    Each term falls by one for one from where it leaves its top to where it meets its floor.
    """
    start = np.maximum(size - top, 0.0)
    end = np.maximum(size - floor, start)
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    at = at[order]
    slope = np.cumsum(np.where(order < start.size, 1.0, -1.0))
    fallen = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(at))])
    i = int(np.searchsorted(fallen, excess)) - 1
    i = min(max(i, 0), at.size - 1)
    return at[i] + (excess - fallen[i]) / slope[i] if slope[i] > 0 else at[i]  # type: ignore[no-any-return]


def _first(group: np.ndarray) -> np.ndarray:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(group, prepend=-2))
