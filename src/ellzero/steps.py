"""How far a method goes along a gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from ._arrays import Array
from ._validation import check_positive
from .projections import Projector
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


def bind_step(step: Any, risk: Risk) -> Step:
    """The step rule of one run, from a number, "1/L" or a function of the risk."""
    if isinstance(step, str):
        if step != "1/L":
            raise ValueError(f'step must be a positive number or "1/L", got {step!r}')
        L = risk.smoothness.value
        if not 0 < L < math.inf:
            raise ValueError(
                f'step="1/L" needs a finite positive smoothness constant, and that of {type(risk).__name__} is {L}; '
                "give a number instead: method=ez.preset(..., step=0.1)"
            )
        return ConstantStep(1 / L)
    return ConstantStep(check_positive(step, "step"))
