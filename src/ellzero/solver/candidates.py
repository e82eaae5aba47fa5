"""The best points of a noisy function, and the last look at them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point, Session
from ..risks.evaluation import BudgetSpent
from .result import Counts


class Candidates:
    """The m best points of a run, each of which is asked for r times more at the end; m = 0 where values are exact."""

    def __init__(self, m: int, r: int) -> None:
        self.m, self.r = m, r
        self.points: list[Point] = []

    def offer(self, point: Point) -> None:
        """Take a point in if it is among the best."""
        if self.m and point not in self.points:
            self.points = sorted([*self.points, point], key=lambda p: p.value)[: self.m]

    @property
    def n_values(self) -> int:
        """Values that the last look needs."""
        return len(self.points) * self.r

    def best_again(self, session: Session, counts: Counts, price: int) -> Point | None:
        """The point with the best mean of further values, which becomes its value; None if there were none."""
        if len(self.points) < 2:
            return None
        values: list[np.ndarray] = []
        price *= len(self.points)
        with suppress(BudgetSpent):
            for _ in range(self.r):
                counts.iteration += 1  # other seeds than any iteration had, the same for all candidates
                counts.reserve -= price
                counts.book("n_monitor", price)
                values.append(session.evaluate([to_host(p.w) for p in self.points], True))
        worth = np.isfinite(values)
        if not worth.any():
            return None
        totals = np.where(worth, values, 0.0).sum(axis=0)
        means = np.where(worth.any(axis=0), totals / np.maximum(worth.sum(axis=0), 1), np.inf)
        best = self.points[int(np.argmin(means))]
        best._value = float(means.min())
        return best
