"""The bound before any branching: one relaxation, screened, shrunk and sharpened while that helps."""

import time
from dataclasses import dataclass

import numpy as np

from .answer import Answer
from .choose import choose
from .relaxation import Relaxation, Relaxed
from .supports import Decisions

_SMALLER = 0.2  # share of the coordinates that must be out for a smaller problem to be worth it


@dataclass
class RootBound:
    """What one relaxation proves, and where a search begins."""

    relaxation: Relaxation  #: of what is left of the problem
    relaxed: Relaxed  #: its answer
    floor: float  #: a lower bound from elsewhere
    proved_in: np.ndarray  #: coordinates that are in every support as good as the answer's
    proved_out: np.ndarray  #: coordinates that are in none of these
    part: Decisions  #: those, and what else is decided for points below the cutoff
    complete: bool  #: whether nothing above the cutoff was set aside


def bound_root(answer: Answer, target: float | None) -> RootBound:
    """The relaxation that fits the problem of an answer, made as sharp as it gets; raises NoBound if there is none."""
    relaxation, floor = choose(answer)
    low, value = answer.value - answer.error, answer.value + answer.error
    cutoff = value - answer.allowance(value, target)
    x = warm = answer.x[relaxation.index]
    proved_in = proved_out = np.empty(0, dtype=np.intp)
    while True:
        index = relaxation.index
        start = relaxation.start(answer)
        relaxed = relaxation.solve(start, warm, cutoff, first=True)
        decided = _decide(relaxation, relaxed, start, x, value)
        proved_in = np.setdiff1d(np.union1d(proved_in, index[decided.kept[start.kept.size :]]), relaxation.twins)
        proved_out = np.union1d(proved_out, index[decided.out])
        bound = max(floor, min(low, relaxed.bound))
        if bound >= cutoff or time.perf_counter() >= answer.deadline:
            break
        # what leaves the problem must be out of every point as good as the incumbent, not only of better ones, and the
        # incumbent stays, as the start of everything
        stay = ~relaxation.screen(relaxed, start, value).out | relaxation.supports.filled(x != 0)
        smaller = relaxation.restrict(stay, relaxed) if (~stay).sum() >= _SMALLER * index.size else None
        if smaller is not None:
            (relaxation, warm), x, floor = smaller, x[stay], bound
        elif (warm := relaxation.sharpen(relaxed, start, cutoff)) is None:
            break
    screened = relaxation.screen(relaxed, start, cutoff)
    more = np.setdiff1d(decided.kept, screened.kept)
    part = Decisions(np.concatenate([screened.kept, more]), screened.out | decided.out)
    proved_in = np.flatnonzero(answer.supports.filled(np.isin(np.arange(answer.d), proved_in)))
    return RootBound(relaxation, relaxed, floor, proved_in, proved_out, part, len(screened) == len(start))


def _decide(relaxation: Relaxation, relaxed: Relaxed, start: Decisions, x: np.ndarray, value: float) -> Decisions:
    """What is in, or out of, every support whose R is at most the value."""
    if not -np.inf < relaxed.bound <= value:
        return start
    if not relaxation.supports.choices(start).any():
        return start.leaving(start.free)
    return relaxation.decide(relaxed, start, x, value)
