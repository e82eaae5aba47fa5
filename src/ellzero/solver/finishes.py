"""What a method does to the best point of a run, after the last iteration."""

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import finfo_eps, waits
from .._core.directions import stream
from .._core.validation import check_count
from ..risks.accuracy import EPS
from ..risks.evaluation import BudgetSpent
from ..sets import EmptySlice
from .damped import Again, from_damped
from .examined import all_tried, examine, none_can_gain
from .exchanges import SwapSearch
from .projections import projector
from .refit import refit
from .regrown import from_fewer, kicked
from .state import State
from .tabled import Tabled

# All supports are tried where that costs no more than a few rounds of exchanges: so many supports, and so many numbers
# of the data to be read for their refits.
_FEW, _LITTLE = 130, 500_000
# Of 15 damped starts in 121 searches for whole groups that led to a better answer, none was where exchanges had
# bettered it by less than 7%.
_MUCH = 0.03
# Of 122 others that did so, in 800 searches for 5 to 30 groups correlated by 0.5 to 0.98, all but one were where
# exchanges had bettered it by 3%, and all where a third of the groups have a rival that brings half of what they do.
_CONTESTED = 0.3
_ROUNDING = 2  # units of it that a fit which leaves nothing leaves of each target


class Finish(ABC):
    """w ↦ a point that is better, or that keeps a constraint which the iterations have left aside."""

    #: whether it asks for ∇R
    needs_gradients: ClassVar[bool] = False
    #: whether no point may be returned without it
    repairs: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What it adds to the projection of the method, in the words of a result."""
        return ""

    @abstractmethod
    def apply(self, state: State, again: Again | None = None) -> None:
        """Change the best point; `again` lets it iterate on other problems, where the run may be prolonged."""


@dataclass(frozen=True)
class LastProjection(Finish):
    """w ↦ P(w), for iterations that keep one of the two constraints alone.

    Parameters
    ----------
    kind : {"two-step", "restricted"}
    """

    kind: str = "two-step"
    repairs = True

    def __post_init__(self) -> None:
        if self.kind not in ("two-step", "restricted"):
            raise ValueError(f"the kind of a last projection must be 'two-step' or 'restricted', got {self.kind!r}")

    @property
    def label(self) -> str:
        """Its kind, and that it comes last."""
        return f", {self.kind} at the end"

    def apply(self, state: State, again: Again | None = None) -> None:
        """Project the best point; its value is asked for where that is affordable."""
        problem, risk, counts = state.problem, state.risk, state.counts
        counts.n_thresholds += 1
        project = projector(self.kind, problem.gamma, problem.sparsity, risk.n_features, problem.kept)
        state.best = risk.at(*project(state.best.w))
        counts.reserve = risk.calls_per_value
        with suppress(BudgetSpent):
            if state.asks:
                counts.monitored_value(state.best)


@dataclass(frozen=True)
class Refit(Finish):
    """w ↦ argmin R over the members of Γ on the support of w."""

    needs_gradients = True

    @property
    def label(self) -> str:
        """That it comes last."""
        return ", refit at the end"

    def apply(self, state: State, again: Again | None = None) -> None:
        """Refit the best point; it stays where that does not help."""
        problem, best = state.problem, state.best
        if problem.risk.convex:
            support = problem.support_of(best.nonzeros)
            point = refit(problem.risk, problem.gamma, support, best.at(support), None, state.clock.deadline())
            state.keep_better(point)


@dataclass(frozen=True)
class Exchanges(Finish):
    """A refit, and one kept coordinate exchanged for one left out as long as that helps; see `SwapSearch`.

    Where there are but few supports, all are tried. Otherwise an answer that the exchanges had to mend belongs to a
    problem in which single exchanges get stuck, too. There the answer of the damped problem is followed as the damping
    goes, unless the run was told to stop or where to start. For risks that are looked at twice, part of the support is
    given up and grown again instead, unless tables of the curvature suffice.

    Parameters
    ----------
    n_starts : int
        How often the exchanges are begun, each time but the first from the best point with a random third of its
        support given up.
    """

    n_starts: int = 1
    needs_gradients = True

    def __post_init__(self) -> None:
        check_count(self.n_starts, "n_starts")

    def apply(self, state: State, again: Again | None = None) -> None:
        """Improve the best point by exchanges; further starts where they are asked for or likely to help."""
        clock = state.clock
        if _few_supports(state):
            _try_all(state)
            return
        if _is_least(state):
            sparsity, double = state.problem.sparsity, finfo_eps(state.best.w) <= EPS  # in single that may be much
            if double and sparsity.atoms is None and sparsity.by_atoms:
                state.examined = none_can_gain(state.problem, state.best)
            return
        search = SwapSearch(state.problem, state.units, clock.deadline())
        before = state.best.value
        state.best = search.improve(state.best)
        if state.point is not state.best:
            state.point.let_go()
        if state.risk.looks_twice and again is not None and state.problem.sparsity.plain:
            tabled = Tabled.fit(state.problem, state.risk.curvature(state.best))
            if not (tabled and Tabled.suffice(state.problem)):
                from_fewer(state, search, before)
        elif search.helped and again is not None and _likely(state, search, before):
            with suppress(EmptySlice):  # of a support that was tried for its entries alone; there is an answer already
                state.keep_better(from_damped(state, search, again))
        for number in range(self.n_starts - 1):
            search.cut = search.cut or clock.over
            if search.cut:
                break
            state.keep_better(search.improve(kicked(state.best, search, stream(state.entropy, 2**33, number))))
        _examine(state, search)
        state.counts.n_gradients += search.n_products * state.risk.n_terms
        state.cut = search.cut or clock.over  # of what was begun, or left open, the rest may help


def _examine(state: State, search: SwapSearch) -> None:
    """See which exchanges are ruled out; what a bound leaves open and a refit betters is where the search goes on."""
    problem, risk = state.problem, state.risk
    single = problem.sparsity.atoms is None and problem.sparsity.by_atoms
    if not (risk.convex and single) or waits(state.best.w):  # what is on a device would have to be fetched
        return
    while not (search.cut or state.clock.over):
        start, deadline = state.best, state.clock.deadline()
        model, again = search.model or risk.curvature(start), partial(search.refit, start=start, interest=math.inf)
        state.examined, better = examine(problem, start, model, again, deadline)
        if better is start:
            break
        state.examined, state.best = None, search.improve(better)


def _likely(state: State, search: SwapSearch, before: float) -> bool:
    """Whether a damped problem is likely to lead elsewhere: atoms get stuck where exchanges had much to mend, and where
    many of them have a rival that is nearly as good.
    """
    mended = before - state.best.value > _MUCH * abs(state.best.value)
    return state.problem.sparsity.atoms is None or (mended and search.contested > _CONTESTED)


def _few_supports(state: State) -> bool:
    """Whether all supports can be tried by refits."""
    risk, sparsity = state.risk, state.problem.sparsity
    count = sparsity.n_supports(risk.n_features, state.problem.kept)
    few = 1 < count <= _FEW and count * sparsity.k * risk.n_terms <= _LITTLE
    return few and risk.convex and risk.curvature(state.best) is not None


def _is_least(state: State) -> bool:
    """Whether R >= 0 is as low as it goes, up to the rounding of its largest terms: a fit that leaves nothing."""
    risk, best = state.risk, state.best
    if waits(best.w) or not len(state.history):
        return False
    rounding, start = (_ROUNDING * finfo_eps(best.w)) ** 2, state.history.rows[0][0]
    if not 0 <= best.value <= rounding * start < math.inf:  # a start may be far, and the origin one more look
        return False
    return best.value <= rounding * risk.at(risk.zero).value and risk.lower_bound >= 0


@np.errstate(over="ignore", invalid="ignore")
def _try_all(state: State) -> None:
    """The best point on any support, each tried by a refit."""
    problem, risk, best, deadline = state.problem, state.risk, state.best, state.clock.deadline()
    risk.expect(np.arange(risk.n_features))
    for support in problem.sparsity.supports(risk.n_features, problem.kept):
        state.cut = state.clock.over
        if state.cut:
            break
        with suppress(EmptySlice):
            point = refit(risk, problem.gamma, support, None, state.units, deadline)
            best = min(best, point, key=lambda found: found.value)
    state.best = best
    if not state.cut:
        state.examined = all_tried(problem, best)


def as_finish(finish: Any) -> Finish | None:
    """A finish from its name."""
    if finish is None or isinstance(finish, Finish):
        return finish
    if finish == "swap":
        return Exchanges()
    if finish == "refit":
        return Refit()
    if finish in ("two-step", "restricted"):
        return LastProjection(finish)
    raise ValueError(f"finish must be None, a Finish, 'swap', 'refit', 'two-step' or 'restricted', got {finish!r}")
