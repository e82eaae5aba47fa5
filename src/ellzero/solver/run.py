"""Everything one run of `minimize` consists of, apart from the loop itself."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, like, norm, to_host
from ..risks.base import Point
from ..risks.blackbox import BlackBox, BlackBoxError, Session
from ..risks.counts import Counts
from ..risks.evaluation import BudgetSpent
from ..sets import ConstraintSet, EmptySlice
from .checkpoint import Journal, journal_of, load, save
from .exchanges import Units, refit
from .methods import Method
from .oracles import Gradients, MiniBatch, VarianceReduced, ZerothOrder
from .problem import Problem
from .projections import NotFinite, Projector, projector
from .result import History, Result, Status
from .state import pack, unpack
from .steps import Step, bind_step

_SECONDS_BETWEEN_CHECKPOINTS = 1.0
_STARTS = 200  # coordinates that are tried where R is not finite at the start


class Run:
    """The parts of one run, bound together: point by point it is moved on by the loop."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Any,
        entropy: Sequence[int],
        max_queries: float,
        every: int,
        limit: float = math.inf,
    ) -> None:
        self.started, self.elapsed_before, self.limit = time.perf_counter(), 0.0, limit  # in seconds
        self.asked = problem
        stochastic = isinstance(method.oracle, (MiniBatch, VarianceReduced)) or "HSG" in getattr(method, "theorem", "")
        lift = stochastic and problem.risk.fit_intercept
        self.problem = problem.with_explicit_intercept() if lift else problem
        self.lifted = self.problem is not problem
        self.risk, self.every, self.entropy = self.problem.risk, every, list(entropy)
        self.counts, self.history = Counts(max_queries=max_queries), History()
        self.method = method.resolve(self.risk, self.problem.k, self.counts, self.entropy)
        self.queries = isinstance(problem.risk, BlackBox) or isinstance(self.method.oracle, ZerothOrder)
        if isinstance(problem.risk, BlackBox) and (
            self.method.step in ("adaptive", "pursuit") or self.method.finish == "swap"
        ):
            raise ValueError(
                f"method {self.method.name!r} needs gradients for its step ({self.method.step!r}) or finish "
                f"({self.method.finish!r}), and a BlackBox has none; give a number as step, or step='search'"
            )
        self._check_budget()
        self.kind = self.method.projection
        if self.kind == "auto":
            self.kind = _first_that_fits(self.problem.gamma)
        self.plain = self._projector(self.kind)
        self.residual = self.plain  # in the user's units, whatever the method compares entries in
        self.units = self.problem.natural_units() if self.method.step == "pursuit" else None
        if self.units is not None:
            self.plain = self._projector_in(self.units)
        self.project = self.plain if self.kind == "convex" else self._counted(self.plain)
        threshold = None
        if self.kind == "two-step" and not self.problem.gamma.whole_space:
            threshold = self._projector("sparse")
        self.step: Step = bind_step(
            self.method.step, self.risk, self.counts, self.problem.gamma, threshold, self.units, lambda: self.deadline
        )
        self.oracle: Gradients = self.method.oracle.bind(self.risk, self.counts, self.entropy)
        self.point = self.best = self.risk.at(*self._start(x0))
        if x0 is not None and self.method.step == "pursuit":
            self.point = self.best = self._refitted(self.point)
        self.method = method.started(self.method, self.point, self.counts)
        self.candidates: list[Point] = []
        self.nit, self.first_residual = 0, math.nan
        self.cut = False  # whether the limit ended the finish
        self.proof: Any = None  # of a target gap
        self.session: Session | None = None
        self.journal: Journal | None = None
        self.checkpoint: Path | None = None
        self._stack = ExitStack()
        self._saved = -math.inf
        self._chosen = False  # whether the best point is settled
        self._warned = False  # that the checkpoint cannot be written
        self._on_disk: int | None = None  # the iteration that the checkpoint holds
        self._before: tuple[dict[str, Any], list[dict[str, Any]]] | None = None

    def _check_budget(self) -> None:
        risk = self.asked.risk
        if math.isfinite(self.counts.max_queries) and not self.queries:
            raise ValueError(
                f"max_queries={self.counts.max_queries:g} limits function values, and method {self.method.name!r} "
                "asks for gradients; use a zeroth-order method, or max_iter and time_limit"
            )
        m, r = risk.recheck if isinstance(risk, BlackBox) else (0, 0)
        self.counts.reserve = risk.calls_per_value * (1 + m * r + (self.method.finish is not None))
        least = self.counts.reserve + 2 * risk.calls_per_value
        if self.counts.max_queries < least:
            raise ValueError(
                f"max_queries must be at least {least} here (a first value, one direction and the last value), "
                f"got max_queries={self.counts.max_queries:g}"
            )

    def _projector(self, kind: str) -> Projector:
        problem = self.problem
        return projector(kind, problem.gamma, problem.k, self.risk.n_features, problem.kept)

    def _projector_in(self, units: Units) -> Projector:
        """The projection in other units."""
        if self.method.projection == "auto":
            self.kind = _first_that_fits(units.gamma)
        inner = projector(self.kind, units.gamma, self.problem.k, self.risk.n_features, self.problem.kept)
        scales = like(units.scales, self.risk.zero)

        def project(v: Array) -> tuple[Array, Array | None]:
            u, support = inner(v / scales)
            return scales * u, support

        return project

    def _counted(self, project: Projector) -> Projector:
        def counted(v: Array) -> tuple[Array, Array | None]:
            self.counts.n_thresholds += 1
            return project(v)

        return counted

    def _start(self, x0: Any) -> tuple[Array, Array | None]:
        if x0 is None:
            return self.plain(self.risk.zero)
        x0 = self.asked.risk.as_vector(x0, "x0")
        try:
            w, support = self.plain(self._lift(x0))
        except NotFinite as error:
            raise ValueError(f"x0 must be finite: {error}") from None
        if norm(self._lower(w) - x0) > max(1e-9, 16 * finfo_eps(x0)) * norm(x0):
            gamma, nonzeros = self.asked.gamma, int(np.count_nonzero(to_host(x0)))
            warnings.warn(
                f"x0 is infeasible ({nonzeros} nonzeros, k={self.asked.k}; violation of {gamma!r}: "
                f"{gamma.violation(x0):.2g}) and was projected before the start",
                UserWarning,
                stacklevel=4,
            )
        return w, support

    def start_elsewhere(self) -> float:
        """R at a better start than one where it overflows, near a single coordinate; inf if there is none.

        A set without the origin may begin where exp overflows, although other members are harmless.
        """
        if self.queries or self.asked.gamma.closed_under_zeroing:
            return math.inf
        far = 1e3 * max(1.0, norm(self.point.w))
        for i in range(min(self.risk.n_features, _STARTS)):
            if self.seconds > self.limit:
                break
            v = np.zeros(self.risk.n_features)
            v[i] = far
            with suppress(EmptySlice):
                trial = self.risk.at(*self.plain(self.risk.as_vector(v)))
                if not self.best.value <= self.counts.monitored_value(trial):
                    self.point = self.best = trial
        return self.best.value

    def _refitted(self, start: Point) -> Point:
        """The start with the best values on its support: the first step may not leave it for less."""
        support = np.union1d(np.flatnonzero(to_host(start.w)), self.problem.kept).astype(np.intp)
        point = refit(self.risk, self.problem.gamma, support, start.w, self.units, self.deadline)
        point.visits = int(support.size == self.problem.k)  # with free places the first step has to look around
        return min(start, point, key=self.counts.base_value)

    def _lift(self, x: Array) -> Array:
        if not self.lifted:
            return x
        u = to_host(self.risk.zero).copy()
        u[: x.shape[0]] = to_host(x)
        return self.risk.as_vector(u)

    def _lower(self, w: Array) -> Array:
        return w[: self.asked.risk.n_features] if self.lifted else w

    # While it runs.

    def __enter__(self) -> Run:
        if self.journal is not None:
            self._stack.callback(self.journal.close)
        if isinstance(self.risk, BlackBox):
            self.session = self._stack.enter_context(self.risk.session(self.counts, self.journal))
            self.session.deadline = self.deadline
            if self._before is not None:
                self.session.restore(*self._before)
            if self.checkpoint is not None and self._on_disk is None:
                self._save()  # before the first query, so that none is ever forgotten
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.risk.forget()
        # these hold closures over the run, and a cycle would keep the data until the collector comes by
        del self.project, self.plain, self.residual, self.step, self.oracle, self.proof

    @property
    def seconds(self) -> float:
        """Since the start, earlier sittings of a resumed run included."""
        return time.perf_counter() - self.started + self.elapsed_before

    @property
    def deadline(self) -> float:
        """The reading of `time.perf_counter` at which the time limit is reached."""
        return self.started - self.elapsed_before + self.limit

    def watch(self) -> float:
        """R at the current point; the best point is kept."""
        value = self.counts.monitored_value(self.point)
        if not self.best.evaluated or -math.inf < value < self.best.value:
            self.best = self.point
        m = self.risk.recheck[0] if isinstance(self.risk, BlackBox) else 0
        if m and self.point not in self.candidates:
            self.candidates = sorted([*self.candidates, self.point], key=lambda p: p.value)[:m]
        return value

    def record(self, fun: float, change: float = math.nan) -> None:
        """A row of the history."""
        step = math.nan if not len(self.history) else self.step.size
        self.history.append(fun, step, change, self.seconds, self.counts)

    # The end.

    def choose_best(self, look: bool, *, ask: bool = True) -> None:
        """Settle which point is returned: look at the last one if need be, repeat noisy values, project.

        With `ask` False a black box is not asked for anything any more. Done once: an interruption may come later.
        """
        if self._chosen:
            return
        risk, ask = self.risk, ask or not isinstance(self.risk, BlackBox)
        price, last = risk.calls_per_value, risk.calls_per_value * (self.method.finish not in (None, "swap"))
        if self.session is not None:
            self.session.ending, self.session.deadline = True, math.inf
        self.counts.waiting, before, failure = 0, self.best, None
        try:
            if look and ask:
                if not self.every:
                    self.best = self.point
                self.watch()
            elif not self.every and (self.point.evaluated or not self.best.evaluated):
                self.best = self.point
            m, r = len(self.candidates), risk.recheck[1] if isinstance(risk, BlackBox) else 0
            self.counts.reserve = m * r * price + last
            if m > 1 and ask:
                self._recheck(m * price, r)
        except (BudgetSpent, BlackBoxError) as error:  # asked again until the end of what may be spent, or in vain
            failure = error
            if before.evaluated and not self.best.evaluated:
                self.best = before
        if last:
            self.counts.n_thresholds += 1
            self.best = risk.at(*self._projector(str(self.method.finish))(self.best.w))
            self.counts.reserve = last
            with suppress(BudgetSpent):
                if ask:
                    self.counts.monitored_value(self.best)
        self._chosen = True
        if isinstance(failure, BlackBoxError):
            raise failure

    def _recheck(self, price: int, rounds: int) -> None:
        """The candidate with the best mean of further values becomes the best point."""
        assert isinstance(self.risk, BlackBox)
        values: list[np.ndarray] = []
        with suppress(BudgetSpent):
            for _ in range(rounds):
                self.counts.iteration += 1  # other seeds than any iteration had, the same for all candidates
                self.counts.reserve -= price
                self.counts.book("n_monitor", price)
                values.append(self.risk.evaluate([to_host(p.w) for p in self.candidates], essential=True))
        worth = np.isfinite(values)
        if worth.any():
            totals = np.where(worth, values, 0.0).sum(axis=0)
            means = np.where(worth.any(axis=0), totals / np.maximum(worth.sum(axis=0), 1), np.inf)
            self.best = self.candidates[int(np.argmin(means))]
            self.best._value = float(means.min())

    def report(self, point: Point, status: Status, *, final: bool = False) -> Result:
        """The result so far, or at the end."""
        if final and self.session is not None:
            self.session.retire()
        x = self._lower(point.w)
        counts, gamma = self.counts, self.asked.gamma
        return Result(
            x=x,
            k=self.asked.k,
            constraint=gamma,
            support=np.flatnonzero(to_host(x)),
            fun=self._value(point, x, final),
            nit=self.nit,
            status=status,
            message=status.value,
            violation=gamma.violation(x) + 0.0,  # and not -0
            stationarity=self._stationarity(point) if final and self.method.oracle.exact else math.nan,
            history=self.history,
            n_gradients=counts.n_gradients,
            n_values=counts.n_values,
            n_thresholds=counts.n_thresholds,
            n_monitor=counts.n_monitor,
            projection=self.kind
            if self.method.finish in (None, "swap")
            else f"{self.kind}, {self.method.finish} at the end",
            method=self.method.name,
            largest_L=getattr(self.step, "largest_L", 1 / self.step.size),
            failures=tuple(self.session.failures) if self.session else (),
            keep=self.asked.kept,
        )

    def _value(self, point: Point, x: Array, final: bool) -> float:
        w = to_host(x).astype(float)
        if final and not (point.evaluated and self.asked.risk.is_settled(w, point.value)):
            # terms may cancel, and everything that is said of the answer rests on this number
            here = self.asked.risk.measured(w, np.flatnonzero(w), closely=False)
            if here is not None and math.isfinite(here.value):
                return here.value
        if self.lifted:
            return self.asked.risk.at(x).value
        if not point.evaluated and isinstance(self.risk, BlackBox):
            return math.nan  # nobody asked for it, and asking costs a query
        return point.value

    def _stationarity(self, point: Point) -> float:
        """||w - P(w - ηg)|| / η: zero exactly at the fixed points of projected gradient steps."""
        size = self.step.size if self.step.size > 0 else 1.0  # no step was made
        try:
            return norm(point.w - self.residual(point.w - size * point.gradient)[0]) / size
        except EmptySlice:  # the step leads where Γ has no member
            return math.nan
        except NotFinite:
            return math.inf

    # On disk.

    def open_files(self, checkpoint: Path | None, resume: Path | None) -> None:
        """Continue from a checkpoint, if one is given, and prepare to write."""
        if checkpoint is not None and not checkpoint.parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint={str(checkpoint)!r}: there is no folder {str(checkpoint.parent)!r}; create it first"
            )
        if checkpoint is not None and checkpoint.is_dir():
            raise IsADirectoryError(
                f"checkpoint={str(checkpoint)!r} is a folder; name a file, such as 'run.npz', in it"
            )
        if resume is not None:
            self._before = unpack(self, *load(resume), resume)
        self.checkpoint = checkpoint
        self._on_disk = self.nit if resume is not None and resume == checkpoint else None
        if isinstance(self.risk, BlackBox) and (checkpoint is not None or resume is not None):
            first = 0 if self._before is None else self._before[0]["asked"]
            self.journal = Journal(journal_of(checkpoint), journal_of(resume), first, self._cannot_write)
            self.counts.waiting = self.journal.n_unused_of_end

    def maybe_save(self, *, now: bool = False) -> None:
        """Write a checkpoint if it is time: a black box after every iteration, others about every second."""
        if self.checkpoint is None:
            return
        if self.nit == self._on_disk:
            return  # the file is up to date, and the journal beside it may hold what the end needs
        if not (now or self.journal or time.perf_counter() - self._saved > _SECONDS_BETWEEN_CHECKPOINTS):
            return
        if self.session is not None:
            self.session.retire()
        if self._save() and self.journal is not None:
            self.journal.clear()

    def _cannot_write(self, error: OSError) -> None:
        """A disk that is full ends no run; it is said once."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"checkpoint={str(self.checkpoint)!r} cannot be written ({error}); the run goes on, and can be resumed "
                "from the last checkpoint that was written, if there is one",
                RuntimeWarning,
                stacklevel=2,
            )

    def _save(self) -> bool:
        """Write a checkpoint; whether that was possible."""
        assert self.checkpoint is not None
        self._saved = time.perf_counter()
        try:
            save(self.checkpoint, *pack(self))
        except OSError as error:
            self._cannot_write(error)
            return False
        self._on_disk = self.nit
        return True


def _first_that_fits(gamma: ConstraintSet) -> str:
    """The exact projection onto the sparse members of Γ where it is known, else the next best."""
    if gamma.has_sparse_maximum():
        return "euclidean"
    return "two-step" if gamma.preserves_support else "restricted"
