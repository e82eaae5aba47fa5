"""What a relaxation answers: a lower bound of R, and a point, where some coordinates are in and some are out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .answer import Answer
from .supports import Decisions, Supports


@dataclass
class Relaxed:
    """What a relaxation says of a part of the search."""

    bound: float  #: a valid lower bound
    w: np.ndarray  #: the relaxed solution, dense in general
    share: np.ndarray  #: how far each coordinate is in, between 0 and 1
    warm: Any  #: where the relaxations of smaller parts start
    evidence: Any = None  #: what the relaxation itself needs to decide coordinates by this bound


class Relaxation(ABC):
    """A lower bound of min {R(w) : w sparse, w in Γ}, with some coordinates in and some out.

    A new one is a subclass in a file of its own, and an entry in `choose.RELAXATIONS`.

    Attributes
    ----------
    supports : Supports
        Where there may be nonzeros.
    index : array of int
        The coordinates of the problem that it is about; all others are zero. Its own are counted within these.
    twins : array of int
        Coordinates with copies among the others, so that none of them is in every best support.
    deadline : float
        The reading of `time.perf_counter` after which it only finishes its step.
    how, advice : str
        How the bound comes about, and what would make it better.
    """

    how: str = ""
    advice: str = ""
    deadline: float = math.inf

    def __init__(self, supports: Supports, index: np.ndarray) -> None:
        self.supports, self.index, self.twins = supports, index, index[:0]

    @classmethod
    @abstractmethod
    def of(cls, answer: Answer) -> Relaxation:
        """The relaxation of the problem that was answered; raises NoBound where it does not fit."""

    def start(self, answer: Answer) -> Decisions:
        """What is decided beforehand."""
        kept = np.searchsorted(self.index, answer.kept)
        return self.supports.closed(Decisions(kept, np.zeros(self.index.size, dtype=bool)))

    @abstractmethod
    def solve(self, part: Decisions, warm: Any, cutoff: float, *, first: bool = False) -> Relaxed:
        """A bound as high as it can be had, or above the cutoff.

        Parameters
        ----------
        part : Decisions
        warm : object
            What it left for larger parts, or a point.
        cutoff : float
            Higher bounds are worth nothing more.
        first : bool
            Whether all else rests on this one, so that it may take longer.
        """

    def settle(self, support: np.ndarray, warm: Any, cutoff: float) -> float:
        """A bound where nothing is left to choose but the values on this support."""
        return -math.inf

    def screen(self, relaxed: Relaxed, part: Decisions, level: float) -> Decisions:
        """Decide what a bound decides by itself: points of the part that do otherwise have R above the level."""
        return part

    def decide(self, relaxed: Relaxed, part: Decisions, x: np.ndarray, level: float) -> Decisions:
        """As `screen`, once and for all, so that it may take longer; x has R at most at the level."""
        return self.screen(relaxed, part, level)

    def restrict(self, stay: np.ndarray, relaxed: Relaxed) -> tuple[Relaxation, Any] | None:
        """The relaxation of these of its coordinates alone, and where to start it; None if that gains nothing."""
        return None

    def sharpen(self, relaxed: Relaxed, part: Decisions, cutoff: float) -> Any:
        """Make the bound of the part better by a tenth of what is missing, and return where to go on; None if not."""
        return None
