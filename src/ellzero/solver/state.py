"""What moves in a run: the point, the best one, what was spent, and how it went."""

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point, Risk, Session
from ..risks.evaluation import BudgetSpent
from .examined import Examined
from .problem import Problem
from .refit import Units
from .result import Counts, History


@dataclass
class Clock:
    """Seconds since the start, those of earlier sittings of a resumed run included, and their limit."""

    limit: float = math.inf
    before: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """So far."""
        return time.perf_counter() - self.started + self.before

    @property
    def over(self) -> bool:
        """Whether the limit was reached."""
        return self.seconds > self.limit

    def deadline(self) -> float:
        """The reading of `time.perf_counter` at which the limit is reached."""
        return self.started - self.before + self.limit


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


@dataclass
class State:
    """Where a run stands.

    Attributes
    ----------
    problem, units
        What is minimised, and the units in which its entries are compared.
    entropy : list of int
        Integers from which every random number of the run follows.
    point, best : Point
        The current one, and the best that was looked at.
    every : int
        R is looked at after every so many iterations; 0 means at the end alone.
    first_residual : float
        ||w_1 - w_0|| / η.
    asks : bool
        Whether function values may still be asked for.
    cut : bool
        Whether the time limit has ended the finish.
    examined : Examined, optional
        Which exchanges of the best point were ruled out.
    """

    problem: Problem
    units: Units | None
    entropy: list[int]
    counts: Counts
    clock: Clock
    point: Point
    every: int
    best: Point = field(init=False)
    candidates: Candidates = field(init=False)
    history: History = field(default_factory=History)
    nit: int = 0
    first_residual: float = math.nan
    asks: bool = True
    cut: bool = False
    examined: Examined | None = None

    def __post_init__(self) -> None:
        self.best, self.candidates = self.point, Candidates(*self.risk.recheck)

    @property
    def risk(self) -> Risk:
        """What is minimised."""
        return self.problem.risk

    def watch(self) -> float:
        """R at the current point; the best point is kept."""
        value = self.counts.monitored_value(self.point)
        if self.point.trusted or not self.best.evaluated or -math.inf < value < self.best.value:
            self.best = self.point
        if self.point.trusted:  # one value more of the points before says less than what led from them to here
            self.candidates.points = []
        self.candidates.offer(self.point)
        return value

    def keep_better(self, other: Point | None) -> None:
        """Take another point for the best if it is better."""
        if other is not None and other.value < self.best.value:
            self.best = other

    def record(self, fun: float, step: float = math.nan, change: float = math.nan) -> None:
        """A row of the history."""
        self.history.append(fun, step, change, self.clock.seconds, self.counts)
