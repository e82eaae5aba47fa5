"""Everything one run of `minimize` consists of, apart from the loop itself."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ._arrays import Array, finfo_eps, index_like, like, norm, to_host
from ._checkpoint import Journal, load, save
from ._problem import Problem
from .finish import Units, refit
from .methods import Method
from .oracles import Gradients, MiniBatch, VarianceReduced, ZerothOrder
from .projections import NotFinite, Projector, projector
from .result import Counts, History, Result, Status
from .risks._linear import LinearModel
from .risks.base import Point
from .risks.blackbox import BlackBox, Session
from .sets import ConstraintSet, Everywhere
from .steps import Step, bind_step

_SECONDS_BETWEEN_CHECKPOINTS = 1.0
_POINT_FACTS = ("_value", "booked", "valued_at", "visits")


class Run:
    """The parts of one run, bound together: point by point it is moved on by the loop."""

    def __init__(
        self, problem: Problem, method: Method, x0: Any, entropy: Sequence[int], max_queries: float, every: int
    ) -> None:
        self.started = time.perf_counter()
        self.asked = problem
        stochastic = isinstance(method.oracle, (MiniBatch, VarianceReduced)) or "HSG" in getattr(method, "theorem", "")
        lift = stochastic and isinstance(problem.risk, LinearModel) and problem.risk.fit_intercept
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
        if self.kind == "two-step" and not isinstance(self.problem.gamma, Everywhere):
            threshold = self._projector("sparse")
        self.step: Step = bind_step(self.method.step, self.risk, self.counts, self.problem.gamma, threshold, self.units)
        self.oracle: Gradients = self.method.oracle.bind(self.risk, self.counts, self.entropy)
        self.point = self.best = self.risk.at(*self._start(x0))
        if x0 is not None and self.method.step == "pursuit":
            self.point = self.best = self._refitted(self.point)
        self.candidates: list[Point] = []
        self.nit, self.first_residual, self.elapsed_before = 0, math.nan, 0.0
        self.limit = math.inf  # seconds
        self.cut = False  # whether the limit ended the finish
        self.proof: Any = None  # of a target gap
        self.session: Session | None = None
        self.journal: Journal | None = None
        self.checkpoint: Path | None = None
        self._stack = ExitStack()
        self._saved = -math.inf
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

    def _refitted(self, start: Point) -> Point:
        """The start with the best values on its support: the first step may not leave it for less."""
        support = np.union1d(np.flatnonzero(to_host(start.w)), self.problem.kept).astype(np.intp)
        point = refit(self.risk, self.problem.gamma, support, start.w, self.units)
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
        if isinstance(self.risk, BlackBox):
            self.session = self._stack.enter_context(self.risk.session(self.counts, self.journal))
            if self._before is not None:
                self.session.restore(*self._before)
        if self.journal is not None:
            self._stack.callback(self.journal.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if isinstance(self.risk, LinearModel):
            self.risk.design.forget()
        # these hold closures over the run, and a cycle would keep the data until the collector comes by
        del self.project, self.plain, self.residual, self.step, self.oracle, self.proof

    @property
    def seconds(self) -> float:
        """Since the start, earlier sittings of a resumed run included."""
        return time.perf_counter() - self.started + self.elapsed_before

    def watch(self) -> float:
        """R at the current point; the best point is kept."""
        value = self.counts.monitored_value(self.point)
        if value < self.best.value:
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

    def choose_best(self, look: bool) -> None:
        """Settle which point is returned: look at the last one if need be, repeat noisy values, project."""
        if look:
            if not self.every:
                self.best = self.point
            self.watch()
        if len(self.candidates) > 1:
            assert isinstance(self.risk, BlackBox)
            r = self.risk.recheck[1]
            self.counts.n_monitor += len(self.candidates) * r * self.risk.repeats
            values = []
            for _ in range(r):
                self.counts.iteration += 1  # other seeds than any iteration had, the same for all candidates
                values.append(self.risk.evaluate([to_host(p.w) for p in self.candidates], essential=True))
            worth = np.isfinite(values)
            if worth.any():
                totals = np.where(worth, values, 0.0).sum(axis=0)
                means = np.where(worth.any(axis=0), totals / np.maximum(worth.sum(axis=0), 1), np.inf)
                self.best = self.candidates[int(np.argmin(means))]
                self.best._value = float(means.min())
        if self.method.finish not in (None, "swap"):
            self.counts.n_thresholds += 1
            self.best = self.risk.at(*self._projector(self.method.finish)(self.best.w))
            self.counts.monitored_value(self.best)

    def report(self, point: Point, status: Status, *, final: bool = False) -> Result:
        """The result so far, or at the end."""
        x = self._lower(point.w)
        counts, gamma = self.counts, self.asked.gamma
        return Result(
            x=x,
            k=self.asked.k,
            constraint=gamma,
            support=np.flatnonzero(to_host(x)),
            fun=self._value(point, x),
            nit=self.nit,
            status=status,
            message=status.value,
            violation=gamma.violation(x),
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

    def _value(self, point: Point, x: Array) -> float:
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
        except NotFinite:
            return math.inf

    # On disk.

    def open_files(self, checkpoint: Path | None, resume: Path | None) -> None:
        """Continue from a checkpoint, if one is given, and prepare to write."""
        if resume is not None:
            self._restore(*load(resume), resume)
        self.checkpoint = checkpoint
        self._on_disk = self.nit if resume is not None and resume == checkpoint else None
        if checkpoint is not None and isinstance(self.risk, BlackBox):
            path = checkpoint.with_name(checkpoint.name + ".journal")
            self.journal = Journal(path, replay=resume is not None)

    def maybe_save(self, *, now: bool = False) -> None:
        """Write a checkpoint if it is time: a black box after every iteration, others about every second."""
        if self.checkpoint is None:
            return
        if self.nit == self._on_disk:
            return  # the file is up to date, and the journal beside it may hold what the end needs
        if not (now or self.journal or time.perf_counter() - self._saved > _SECONDS_BETWEEN_CHECKPOINTS):
            return
        self._saved = time.perf_counter()
        arrays, facts = {"history": np.array(self.history.rows, dtype=float)}, dict[str, Any]()
        roles = [self.point, self.best, *self.candidates]
        points = list(dict.fromkeys(roles))  # a point with two roles is one point, also after a resume
        for number, point in enumerate(points):
            arrays[f"{number}.w"] = to_host(point.w)
            if point.support is not None:
                arrays[f"{number}.support"] = to_host(point.support)
        facts["points"] = [{name: getattr(point, name) for name in _POINT_FACTS} for point in points]
        facts["roles"] = [points.index(point) for point in roles]
        for name, value in self.oracle.state().items():
            if isinstance(value, np.ndarray):
                arrays[f"oracle.{name}"] = value
            else:
                facts.setdefault("oracle", {})[name] = value
        facts["run"] = {
            "nit": self.nit, "first_residual": self.first_residual, "step": self._step_state(), "seconds": self.seconds,
            "entropy": self.entropy,
        }  # fmt: skip
        counted = ("n_gradients", "n_values", "n_thresholds", "n_monitor", "n_retries", "iteration")
        facts["counts"] = {name: getattr(self.counts, name) for name in counted}
        if self.session is not None:
            facts["session"] = {"asked": self.session.asked, "worst": self.session.worst}
            facts["failures"] = [vars(failure) for failure in self.session.failures]
        facts["problem"] = self._fingerprint()
        save(self.checkpoint, arrays, facts)
        self._on_disk = self.nit
        if self.journal is not None:
            self.journal.clear()

    def _step_state(self) -> dict[str, float]:
        """What the step rule has learnt: its numbers."""
        return {name: value for name, value in vars(self.step).items() if isinstance(value, float)}

    def _fingerprint(self) -> dict[str, Any]:
        """What must agree for a run to be continued."""
        problem = self.asked
        return {
            "n_features": problem.risk.n_features, "n_terms": problem.risk.n_terms, "k": problem.k,
            "keep": problem.kept.tolist(), "risk": type(problem.risk).__name__, "constraint": repr(problem.gamma),
            "method": self.method.name,
        }  # fmt: skip

    def _restore(self, arrays: dict[str, np.ndarray], facts: dict[str, Any], path: Path) -> None:
        for name, value in self._fingerprint().items():
            if facts["problem"][name] != value:
                raise ValueError(
                    f"resume={str(path)!r} belongs to another problem: there {name} is {facts['problem'][name]!r}, "
                    f"here {value!r}"
                )
        points = [self._restored_point(name, arrays, fact) for name, fact in enumerate(facts["points"])]
        self.point, self.best, *self.candidates = (points[name] for name in facts["roles"])
        self._same_data(points[0], path)
        run = facts["run"]
        self.nit, self.first_residual = run["nit"], run["first_residual"]
        for name, value in run["step"].items():
            setattr(self.step, name, value)
        self.elapsed_before, self.entropy[:] = run["seconds"], run["entropy"]
        for name, value in facts["counts"].items():
            setattr(self.counts, name, value)
        self.history.rows = [tuple(row) for row in arrays["history"].tolist()]
        state = {name.removeprefix("oracle."): a for name, a in arrays.items() if name.startswith("oracle.")}
        self.oracle.restore({**state, **facts.get("oracle", {})})
        if "session" in facts:
            self._before = facts["session"], facts["failures"]

    def _same_data(self, point: Point, path: Path) -> None:
        """Refuse to go on with other data: R at the saved point must be what was saved."""
        if isinstance(self.risk, BlackBox) or point._value is None:
            return
        value = self.risk.at(point.w, point.support).value
        if abs(value - point._value) > 1e-6 * (abs(value) + abs(point._value)):
            raise ValueError(
                f"resume={str(path)!r} belongs to other data: the objective at its point was {point._value:.8g}, "
                f"here it is {value:.8g}"
            )

    def _restored_point(self, name: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Point:
        w = self.risk.as_vector(arrays[f"{name}.w"])
        support = arrays.get(f"{name}.support")
        point = self.risk.at(w, None if support is None else index_like(support, w))
        for fact, value in facts.items():
            setattr(point, fact, value)
        return point


def _first_that_fits(gamma: ConstraintSet) -> str:
    """The exact projection onto the sparse members of Γ where it is known, else the next best."""
    if gamma.has_sparse_maximum():
        return "euclidean"
    return "two-step" if gamma.preserves_support else "restricted"
