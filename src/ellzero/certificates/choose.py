"""Which relaxation fits a problem: the first of a few that says it does."""

import math
from contextlib import suppress
from typing import Any, Self

import numpy as np

from ..risks.accuracy import LARGEST
from ..sets.base import MemberNotFound
from .answer import Answer, NoBound
from .atoms import Atoms
from .perspective import Perspective
from .relaxation import Relaxation, Relaxed
from .supports import Decisions

#: the sharpest first
RELAXATIONS: tuple[type[Relaxation], ...] = (Perspective, Atoms)


class OneSupport(Relaxation):
    """No relaxation: where all coordinates may be in, the bound on the one support says all."""

    how = "the convex problem itself: its best point, and how little a projected step moves it"

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Where all coordinates may be in."""
        return cls(answer.supports, np.arange(answer.d))

    def solve(self, part: Decisions, warm: Any, cutoff: float, *, first: bool = False) -> Relaxed:
        """Nothing; see `Answer.bound`."""
        return Relaxed(-math.inf, warm, np.ones(self.index.size), warm)


def choose(answer: Answer) -> tuple[Relaxation, float]:
    """The relaxation of the problem, and a lower bound that is known already; raises NoBound if there is neither."""
    floor, whole = float(answer.risk.lower_bound), None
    if answer.supports.admits(np.arange(answer.d)) and answer.readable:
        whole = OneSupport.of(answer)
        if answer.d <= LARGEST:  # eigenvalues of a matrix of that size
            with suppress(MemberNotFound):  # then nothing is known
                floor = max(floor, answer.bound(whole.index))
            if answer.result.fun - floor <= answer.allowance(answer.result.fun):
                return whole, floor
    reason = NoBound()
    for kind in RELAXATIONS:
        try:
            return kind.of(answer), floor
        except NoBound as said:
            reason = said
    if whole is not None and math.isfinite(floor):
        return whole, floor
    raise reason
