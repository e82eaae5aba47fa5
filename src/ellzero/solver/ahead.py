"""Iterations made ahead: on a device each look at a number means to wait, so several are looked at together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from .._core.arrays import Array, namespace, recorded, to_host, waits
from ..risks.base import Point
from .projections import Projector
from .result import Counts
from .steps import ConstantStep, Step

_SECONDS = 0.03  # of work ahead: much longer than a wait
_MOST, _QUICK = 64, 5  # moves at once; moves so quick that what costs time is to ask for them


class Move(NamedTuple):
    """A step that was made: where it led, how far it went, and the length of w there."""

    point: Point
    moved: float
    size: float


@dataclass
class Ahead:
    """w_t, w_{t+1}, ... by constant steps along exact gradients, made before anybody has looked at any of them.

    What the loop sees is what it would have seen step by step: it takes one move after the other, and counts them then.
    Those that it does not take any more were made in vain.

    Attributes
    ----------
    project : Projector
        Without counting.
    thresholds : int
        Thresholdings in a move.
    values : bool
        Whether R is to be known at each point.
    n : int
        How many moves are made at once.
    """

    step: ConstantStep
    project: Projector
    counts: Counts
    thresholds: int
    values: bool
    n: int = 1
    moves: deque[Move] = field(default_factory=deque)
    recording: Callable[[Point, int], tuple[list[Point], Array]] | None = None

    @classmethod
    def of(cls, step: Step, w: Array, project: Projector, counts: Counts, thresholds: int, values: bool) -> Self | None:
        """What makes the moves of a run; None where each has to be looked at before the next, or that costs nothing."""
        if not (isinstance(step, ConstantStep) and waits(w)):
            return None
        return cls(step, project, counts, thresholds, values)

    def move(self, point: Point, left: int) -> Move:
        """The next move from the point, which is where the last one led; `left` more may be made."""
        if not self.moves:
            self._make(point, left)
        self.counts.n_gradients += point.risk.n_terms
        self.counts.n_thresholds += self.thresholds
        return self.moves.popleft()

    def _make(self, point: Point, left: int) -> None:
        n, began = min(self.n, left), time.perf_counter()
        if self.recording is None and left >= 2 * _MOST and self.n > _QUICK:
            self.recording = self._record(point)
        made, numbers = (self.recording or self._steps)(point, n)
        for following, (moved, size, value) in zip(made, to_host(numbers).astype(float), strict=True):
            if self.values:
                following.answer(float(value))
            self.moves.append(Move(following, float(moved) ** 0.5, float(size) ** 0.5))
        self.n = max(1, min(_MOST, int(_SECONDS * n / max(time.perf_counter() - began, 1e-9))))

    def _steps(self, point: Point, n: int) -> tuple[list[Point], Array]:
        """The points after 1, ..., n steps, and for each the squares of its way and of its length, and R there."""
        made, numbers = [], []
        for _ in range(n):
            following = self.step.advance(point, point.gradient, self.project)
            numbers.append(self._numbers(point, following))
            made.append(following)
            point = following
        return made, namespace(point.w).stack(numbers)

    def _numbers(self, point: Point, following: Point) -> Array:
        w, way = following.w, following.w - point.w
        return namespace(w).stack([way @ way, w @ w, following.ask() if self.values else w[0]])

    def _record(self, point: Point) -> Callable[[Point, int], tuple[list[Point], Array]]:
        """The same as `_steps` from a recording of one step, which a small problem makes in a tenth of the time."""
        if not waits(point.state):  # a risk made of another one keeps a point of that
            return self._steps
        risk, w, state = point.risk, point.w.clone(), point.state.clone()

        def one() -> Array:
            here = risk.at(w)
            here._state = state
            following = self.step.advance(here, here.gradient, self.project)
            numbers = self._numbers(here, following)
            state.copy_(following.state)
            w.copy_(following.w)
            return numbers

        play = recorded(one, w)
        if play is None:
            return self._steps

        def steps(point: Point, n: int) -> tuple[list[Point], Array]:
            xp, made, numbers = namespace(w), [], []
            w.copy_(point.w)
            state.copy_(point.state)
            for _ in range(n):
                numbers.append(play().clone())
                made.append(risk.at(w.clone()))
            made[-1]._state = state.clone()
            return made, xp.stack(numbers)

        return steps
