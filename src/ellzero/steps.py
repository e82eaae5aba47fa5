"""How far a method goes along a gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from ._arrays import Array, norm
from ._validation import check_positive
from .projections import Projector
from .result import Counts
from .risks.base import Point, Risk


class Step(Protocol):
    """The rule of a step size; `size` is the one used last."""

    size: float

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point: a projection of point - size · gradient."""


@dataclass
class ConstantStep:
    """w_t = P(w_{t-1} - η g)."""

    size: float

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point."""
        return point.risk.at(*project(point.w - self.size * gradient))


@dataclass
class SearchedStep:
    """The best of P(w - ηg) for η around the last one that helped, by function values alone.

    Tries η, then goes on doubling or halving as long as that lowers R; each value is counted. If none of the
    tried points is better than w, the point stays, and the next η starts lower. The first η is the one that
    moves w by about its own size, or by 1.
    """

    counts: Counts
    size: float = math.nan
    tries: int = 12

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point, or the same one if no step helped."""
        length = norm(gradient)
        if length == 0:
            return point
        if math.isnan(self.size):
            self.size = max(1.0, norm(point.w)) / length
        base, best = self.counts.base_value(point), point
        size, tries = self.size, 0
        grow = True
        while tries < self.tries and self.affordable(point):
            tries += 1
            trial = point.risk.at(*project(point.w - size * gradient))
            value = self.counts.base_value(trial)
            if value < min(best.value, base):
                best, self.size = trial, size
                size *= 2.0 if grow else 0.5
            elif best is not point:
                break  # past the best size
            else:
                grow, size = False, 0.5 * size
        if best is point:
            self.size *= 0.25
        return best

    def affordable(self, point: Point) -> bool:
        """Whether the budget has room for another value."""
        return self.counts.left - self.counts.reserve >= point.risk.calls_per_value


def bind_step(step: Any, risk: Risk, counts: Counts) -> Step:
    """The step rule of one run, from a number, "1/L" or "search"."""
    if not isinstance(step, str):
        return ConstantStep(check_positive(step, "step"))
    if step == "search":
        return SearchedStep(counts)
    if step != "1/L":
        raise ValueError(f'step must be a positive number, "1/L" or "search", got {step!r}')
    L = risk.smoothness.value
    if not 0 < L < math.inf:
        raise ValueError(
            f'step="1/L" needs a finite positive smoothness constant, and that of {type(risk).__name__} is {L}; '
            "give a number instead: method=ez.preset(..., step=0.1)"
        )
    return ConstantStep(1 / L)
