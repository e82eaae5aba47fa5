"""Iterations made ahead: on a device each look at a number means to wait, so several are looked at together."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from .._core.arrays import Array, namespace, to_host, waits
from ..risks.base import Point
from .projections import Projector
from .result import Counts
from .steps import ConstantStep, Step

_SECONDS = 0.005  # of work ahead: much longer than a wait
_MOST = 64


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

    @classmethod
    def of(cls, step: Step, w: Array, project: Projector, counts: Counts, thresholds: int, values: bool) -> Self | None:
        """What makes the moves of a run; None where each has to be looked at before the next, or that costs nothing."""
        if not (isinstance(step, ConstantStep) and waits(w)):
            return None
        return cls(step, project, counts, thresholds, values)

    def move(self, point: Point, left: int) -> Move:
        """The next move from the point, which is where the last one led; `left` more may be made."""
        if not self.moves:
            self._make(point, min(self.n, left))
        self.counts.n_gradients += point.risk.n_terms
        self.counts.n_thresholds += self.thresholds
        return self.moves.popleft()

    def _make(self, point: Point, n: int) -> None:
        began, made, numbers = time.perf_counter(), [], []
        for _ in range(n):
            following = self.step.advance(point, point.gradient, self.project)
            way = following.w - point.w
            value = following.ask() if self.values else following.w[0]
            made.append(following)
            numbers += [way @ way, following.w @ following.w, value]
            point = following
        looked = to_host(namespace(point.w).stack(numbers)).astype(float).reshape(n, 3)
        for following, (moved, size, value) in zip(made, looked, strict=True):
            if self.values:
                following.answer(float(value))
            self.moves.append(Move(following, float(moved) ** 0.5, float(size) ** 0.5))
        self.n = max(1, min(_MOST, int(_SECONDS * n / max(time.perf_counter() - began, 1e-9))))
