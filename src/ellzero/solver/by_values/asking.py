"""Function values for a method: booked before they are asked for, and many at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.arrays import to_host
from ..._core.stopping import Status, Stop
from ...risks.base import Point, Risk
from ...risks.evaluation import BudgetSpent
from ..result import Counts

FARTHEST = 1e100  # an entry, of which squares and their squares can still be told


@dataclass
class Values:
    """R at points of a method's choice, on its account.

    Attributes
    ----------
    asked : int
        How many there were, without those that were lost when a run was killed.
    """

    risk: Risk
    counts: Counts
    asked: int = 0

    @property
    def affordable(self) -> float:
        """How many values may still be asked for."""
        return self.counts.free // self.risk.calls_per_value

    def at(self, points: np.ndarray) -> np.ndarray:
        """R at each row; NaN where it failed, and where the budget ends. At least one must be affordable."""
        n = int(min(len(points), self.affordable))
        if n < 1:
            raise BudgetSpent
        self.counts.book("n_values", n * self.risk.calls_per_value)
        self.asked += n
        values = np.full(len(points), np.nan)
        values[:n] = self.risk.values_at(points[:n])
        return values

    def base(self, point: Point) -> float:
        """R at a point that the method stands at."""
        return self.counts.base_value(point)

    def trial(self, point: Point) -> float:
        """R at a point that the method can do without: asked twice at the most, NaN where that failed.

        A point that is farther than any answer can be is where values fall without end: the run is over.
        """
        if not largest(host(point)) < FARTHEST:
            raise Stop(Status.DIVERGED)
        if self.counts.price(point):
            for _ in range(2):
                value = float(self.at(host(point)[None, :])[0])
                if math.isfinite(value):
                    point._value, point.valued_at, point.booked = value, self.counts.iteration, "method"
                    break
            else:
                return math.nan
        return self.base(point)

    def placed(self, points: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """The points at which R would be asked for: these, unless R keeps its queries inside Γ."""
        return self.risk.placed(points, among)

    def towards(self, w: np.ndarray, u: np.ndarray) -> np.ndarray:
        """u, or a direction from w to a member of Γ where R keeps to it: points up to this far are members then."""
        return self.placed((w + u)[None, :])[0] - w if self.risk.inside else u


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Numbers of NumPy as those of Python, which a checkpoint can hold."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}


def largest(w: np.ndarray) -> float:
    """max |w_i|; 0 without entries."""
    return float(np.abs(w).max(initial=0.0))


def power_of_2(size: float) -> float:
    """A unit for numbers up to this size, by which nothing is rounded; 1 for 0."""
    return math.ldexp(1.0, max(math.frexp(size)[1] - 1, -1022)) if 0 < size < math.inf else 1.0


def host(point: Point) -> np.ndarray:
    """w as numbers of double precision."""
    return to_host(point.w).astype(float)


def finite(value: float) -> bool:
    """Whether a value can be compared."""
    return math.isfinite(value)
