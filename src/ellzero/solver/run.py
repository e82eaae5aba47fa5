"""The parts of a method, bound together for one run, apart from the loop itself."""

import math
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, finfo_eps, like, norm, scatter, to_host, waits
from .._core.stopping import Status, Stop
from .._core.validation import NotFinite
from ..risks.base import Point, Risk, Session
from ..risks.journal import Journal
from ..risks.known import KnownProducts
from ..sets import ConstraintSet, EmptySlice
from ..sparsity import Sparsity
from .ahead import Ahead
from .methods import Method
from .oracles import FullGradient, Gradients
from .problem import Problem
from .projections import Projector, first_that_fits, projector
from .refit import Units, refit
from .result import Counts, Result
from .state import Clock, State
from .step_rules import bind_step
from .steps import NEED_GRADIENTS, Step

_STARTS = 200  # coordinates that are tried where R is not finite at the start


class Run:
    """A method at work on a problem: point by point its state is moved on by the loop."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Any,
        entropy: Sequence[int],
        *,
        max_queries: float = math.inf,
        limit: float = math.inf,
        every: int = 1,
    ) -> None:
        self._sweeps = problem.risk.n_sweeps
        clock, counts, entropy = Clock(limit), Counts(max_queries=max_queries), list(entropy)
        self.asked, self.scales = problem, None
        if method.standardize and not method.own_units:
            problem, self.scales = problem.standardised()
        # batches of rows know no best intercept: they carry it as an extra coordinate
        self.problem = problem = problem.with_explicit_intercept() if method.kind == "batch" else problem
        risk, sparsity, gamma = problem.risk, problem.sparsity, problem.gamma
        self.method = method.resolve(risk, sparsity, counts, entropy)
        _check_values(self.method, risk, counts)
        _check_choices(self.method, sparsity)
        self.kind = self.method.projection
        if self.kind == "auto":
            self.kind = first_that_fits(gamma, sparsity)
        self.plain = self.residual = self._projector(self.kind)  # the latter in the user's units
        units = problem.natural_units(method.standardize) if self.method.own_units else None
        if units is not None:
            self.plain = self._projector_in(units)
        self.project = self.plain if self.kind == "convex" else _counted(self.plain, counts)
        threshold = self._projector("sparse") if self.kind == "two-step" and not gamma.whole_space else None
        self.oracle: Gradients = self.method.oracle.bind(risk, counts, entropy)
        parts = self.oracle, counts, problem, threshold, units, clock.deadline, entropy
        self.step: Step = bind_step(self.method.step, *parts)
        self.state = State(problem, units, entropy, counts, clock, risk.at(*self._start(x0)), every)
        if x0 is not None and self.method.own_units:
            self._refit_start()
        elif x0 is None and self._returns() and not (waits(risk.zero) or self.state.point.nonzeros.size):
            risk.starts_at(self.state.point)
        self.method = method.started(self.method, self.state.point, counts)
        self.ahead: Ahead | None = None
        if isinstance(self.method.oracle, FullGradient):
            thresholds = int(self.kind != "convex")
            self.ahead = Ahead.of(self.step, self.state.point.w, self.plain, counts, thresholds, every == 1)
        self.session = Session()
        self.journal: Journal | None = None  # of queries
        self._stack = ExitStack()
        self._settled = False  # whether the best point is

    def _projector(self, kind: str) -> Projector:
        problem = self.problem
        return projector(kind, problem.gamma, problem.sparsity, problem.risk.n_features, problem.kept)

    def _projector_in(self, units: Units) -> Projector:
        """The projection in other units."""
        problem, risk = self.problem, self.problem.risk
        if self.method.projection == "auto":
            self.kind = first_that_fits(units.gamma, problem.sparsity)
        inner = projector(self.kind, units.gamma, problem.sparsity, risk.n_features, problem.kept)
        scales = like(units.scales, risk.zero)

        def project(v: Array) -> tuple[Array, Array | None]:
            u, support = inner(v / scales)
            if support is None:
                return _inside(problem.gamma, scales * u), None
            w = scatter(scales[support] * u[support], support, u.shape[0])
            return _inside(problem.gamma, w), support

        return project

    def _start(self, x0: Any) -> tuple[Array, Array | None]:
        if x0 is None:
            return self.plain(self.problem.risk.zero)
        x0 = self.asked.risk.as_vector(x0, "x0")
        try:
            w, support = self.plain(self._lift(x0))
        except NotFinite as error:
            raise ValueError(f"x0 must be finite: {error}") from None
        if norm(self._lower(w) - x0) > max(1e-9, 16 * finfo_eps(x0)) * norm(x0):
            gamma, nonzeros = self.asked.gamma, int(np.count_nonzero(to_host(x0)))
            warnings.warn(
                f"x0 is infeasible ({nonzeros} nonzeros, {self.asked.sparsity.words}; violation of {gamma!r}: "
                f"{gamma.violation(x0):.2g}) and was projected before the start",
                UserWarning,
                stacklevel=5,
            )
        return w, support

    def start_elsewhere(self) -> float:
        """R at a better start than one where it overflows, near a single coordinate; inf if there is none.

        A set without the origin may begin where exp overflows, although other members are harmless.
        """
        state, risk = self.state, self.problem.risk
        if self.method.kind == "directions" or self.asked.gamma.closed_under_zeroing:
            return math.inf
        far = 1e3 * max(1.0, state.point.size)
        for i in range(min(risk.n_features, _STARTS)):
            if state.clock.over:
                break
            v = np.zeros(risk.n_features)
            v[i] = far
            with suppress(EmptySlice):
                trial = risk.at(*self.plain(risk.as_vector(v)))
                if not state.best.value <= state.counts.monitored_value(trial):
                    state.point = state.best = trial
        return state.best.value

    def _refit_start(self) -> None:
        """The start gets the best values on its support: the first step may not leave it for less."""
        state, problem, start = self.state, self.problem, self.state.point
        support = problem.support_of(start.nonzeros)
        point = refit(problem.risk, problem.gamma, support, start.at(support), state.units, state.clock.deadline())
        # with free places the first step has to look around
        point.refitted = problem.sparsity.size(support) == problem.sparsity.k
        state.point = state.best = min(start, point, key=state.counts.base_value)

    def _returns(self) -> bool:
        """Whether the gradient at the origin is asked for again: that of refits from products of columns."""
        sparsity = self.problem.sparsity
        return sparsity.atoms is not None or KnownProducts.pays(2 * sparsity.k, self.problem.risk.n_features)

    def _lift(self, x: Array) -> Array:
        if self.problem is self.asked:
            return x
        u = to_host(self.problem.risk.zero).copy()
        u[: x.shape[0]] = to_host(x if self.scales is None else x / self.scales)
        return self.problem.risk.as_vector(u)

    def _lower(self, w: Array) -> Array:
        w = w if self.problem is self.asked else w[: self.asked.risk.n_features]
        return w if self.scales is None else _inside(self.asked.gamma, self.scales * w)

    # While it runs.

    def __enter__(self) -> Self:
        if self.journal is not None:
            self._stack.callback(self.journal.close)
        self.session = self._stack.enter_context(self.problem.risk.session(self.state.counts, self.journal))
        self.session.deadline = self.state.clock.deadline()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.problem.risk.forget()

    # The end.

    def settle(self, look: bool, *, ask: bool = True) -> None:
        """Settle which point is returned: look at the last one if need be, repeat noisy values, repair.

        With `ask` False a black box is not asked for anything any more. Done once: an interruption may come later.
        """
        if self._settled:
            return
        state, risk, finish = self.state, self.problem.risk, self.method.finish
        repairs = finish is not None and finish.repairs
        self.session.ending, self.session.deadline = True, math.inf
        state.asks = ask = ask or risk.has_gradient
        state.counts.waiting, before, failure = 0, state.best, None
        try:
            if look and ask:
                if not state.every:
                    state.best = state.point
                state.watch()
            elif not state.every and (state.point.evaluated or not state.best.evaluated):
                state.best = state.point
            state.counts.reserve = risk.calls_per_value * (state.candidates.n_values + repairs)
            if ask:
                again = state.candidates.best_again(self.session, state.counts, risk.calls_per_value)
                state.best = again or state.best
        except Stop as stop:  # asked again until the end of what may be spent, or in vain
            failure = stop
            if before.evaluated and not state.best.evaluated:
                state.best = before
        if repairs:
            finish.apply(state)
        self._settled = True
        if failure is not None and failure.status is Status.FAILED:
            raise failure

    def so_far(self) -> Result:
        """The best point of a run that goes on."""
        return self.report(self.state.best, Status.RUNNING)

    def report(self, point: Point, status: Status, *, final: bool = False) -> Result:
        """The result so far, or at the end."""
        if final:
            self.session.retire()
        x = self._lower(point.w)
        state, counts, gamma, finish = self.state, self.state.counts, self.asked.gamma, self.method.finish
        return Result(
            x=x,
            sparsity=self.asked.sparsity,
            constraint=gamma,
            support=np.flatnonzero(to_host(x)),
            fun=self._value(point, x, final),
            nit=state.nit,
            status=status,
            message=status.value,
            violation=gamma.violation(x) + 0.0,  # and not -0
            stationarity=self._stationarity(point) if final else math.nan,
            history=state.history,
            n_gradients=counts.n_gradients,
            n_values=counts.n_values,
            n_thresholds=counts.n_thresholds,
            n_monitor=counts.n_monitor,
            projection=self.kind + ("" if finish is None else finish.label),
            method=self.method.name,
            largest_L=getattr(self.step, "largest_L", 1 / self.step.size),
            failures=tuple(self.session.failures),
            keep=self.asked.kept,
            exchanges=state.examined if final and self.problem is self.asked else None,
            n_sweeps=self.n_sweeps,
            noise=getattr(self.oracle, "noise", None),  # any function may be an oracle
        )

    @property
    def n_sweeps(self) -> int:
        """How often data elsewhere were gone through so far."""
        return self.asked.risk.swept(self._sweeps)

    def _value(self, point: Point, x: Array, final: bool) -> float:
        w = to_host(x).astype(float)
        # terms may cancel, and everything that is said of the answer rests on this number; nothing is proved of a rank,
        # for which all columns of X would be read in twice the precision, and once in double is enough
        risk, of_coordinates = self.asked.risk, self.asked.sparsity.of_coordinates
        if final and not (of_coordinates and point.evaluated and risk.is_settled(w, point.value)):
            value = risk.accurate_value(w) if of_coordinates else risk.value_in_double(w)
            if value is not None:
                return value
        if self.problem is not self.asked:
            return self.asked.risk.at(x).value
        if not (point.evaluated or point.risk.has_gradient):
            return math.nan  # nobody asked for it, and asking costs a query
        return point.value

    def _stationarity(self, point: Point) -> float:
        """||w - P(w - ηg)|| / η: zero exactly at the fixed points of projected gradient steps."""
        if self.method.stochastic or self.scales is not None:
            return math.nan  # a residual of noise, or of other units
        size = self.step.size if self.step.size > 0 else 1.0  # no step was made
        try:
            return norm(point.w - self.residual(point.w - size * point.gradient)[0]) / size
        except EmptySlice:  # the step leads where Γ has no member
            return math.nan
        except NotFinite:
            return math.inf


def _inside(gamma: ConstraintSet, w: Array) -> Array:
    """A member that comes from other units, in which bounds are other numbers, rounded."""
    return gamma.project(w) if gamma.separable and not gamma.whole_space else w


def _check_values(method: Method, risk: Risk, counts: Counts) -> None:
    """Refuse a method that needs gradients where there are none, and a budget of values that is too small."""
    finish = method.finish
    if not risk.has_gradient and (method.step in NEED_GRADIENTS or (finish is not None and finish.needs_gradients)):
        raise ValueError(
            f"method {method.name!r} needs gradients for its step ({method.step!r}) or finish "
            f"({finish!r}), and a BlackBox has none; give a number as step, or step='search'"
        )
    if math.isfinite(counts.max_queries) and risk.has_gradient and method.kind != "directions":
        raise ValueError(
            f"max_queries={counts.max_queries:g} limits function values, and method {method.name!r} "
            "asks for gradients; use a zeroth-order method, or max_iter and time_limit"
        )
    m, r = risk.recheck
    counts.reserve = risk.calls_per_value * (1 + m * r + (finish is not None))
    least = counts.reserve + 2 * risk.calls_per_value
    if counts.max_queries < least:
        raise ValueError(
            f"max_queries must be at least {least} here (a first value, one direction and the last value), "
            f"got max_queries={counts.max_queries:g}"
        )


def _check_choices(method: Method, sparsity: Sparsity) -> None:
    """Refuse refits and exchanges of coordinates where there is no choice of coordinates."""
    finish = method.finish
    if not sparsity.of_coordinates and (method.step == "pursuit" or (finish is not None and not finish.repairs)):
        raise ValueError(
            f"method {method.name!r} refits or exchanges coordinates (step {method.step!r}, finish {finish!r}), and "
            f"{sparsity.words} is no matter of coordinates; use step={sparsity.step!r} without a finish, or 'auto'"
        )


def _counted(project: Projector, counts: Counts) -> Projector:
    def counted(v: Array) -> tuple[Array, Array | None]:
        counts.n_thresholds += 1
        return project(v)

    return counted
