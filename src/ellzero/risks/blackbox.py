"""A function known by its values alone."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.validation import check_count, check_flag, check_number, check_positive
from ..sets import ConstraintSet, Everywhere
from . import base
from .base import Risk
from .counts import Counts
from .differences import Differences
from .evaluation import (
    BlackBoxError,
    BudgetSpent,
    Failure,
    NoEnd,
    NoValue,
    Outcome,
    Outcomes,
    OutOfTime,
    Pool,
    Task,
    evaluate_batch,
    evaluate_here,
)
from .journal import Journal

POLICIES = ("raise", "penalise", "retry", "drop")


class BlackBox(Risk):
    """R(w) = f(w), where only values can be asked for: a simulator, an experiment, somebody else's model.

    Parameters
    ----------
    f : callable
        ``f(w) -> float``; ``f(W) -> array`` with ``batched=True``; ``f(w, seed) -> float`` with
        ``common_random_numbers=True``.
    n_features : int
    batched : bool
        Whether f takes a matrix with a point a row.
    workers : int or executor, optional
        A number of worker processes, a client of Dask, or any executor in the style of `concurrent.futures`. The
        answer does not depend on it, nor on the order of completion.
    timeout : float, optional
        Seconds that one evaluation may take. Own worker processes are ended; threads and foreign executors
        cannot be, there the evaluation is abandoned.
    on_failure : {"raise", "penalise", "retry", "drop"}
        What to do about an exception, NaN, infinity, None, a time-out or a dead worker: stop; take `penalty` (by
        default the largest value seen) instead, which asks for a long difference μ, because it enters as a slope of
        penalty/μ; ask again, up to `max_retries` times, then drop; leave the
        direction out. All of them are listed in ``Result.failures``.
    max_retries : int
        The value at the current point, which no policy but "raise" can do without, is asked for 10 times more.
    penalty : float, optional
    repeats : int
        Evaluations that are averaged for one value, each of them counted.
    common_random_numbers : bool
        Whether f takes a seed: all points of an iteration get the same ones, so that the noise cancels.
    inside : bool
        Whether f is defined on Γ alone, so that every query has to lie in it: directions are then displacements
        v = (Π_Γ(w + μu) - w)/μ, which lead to members. As projections bring no two points farther apart, ‖v‖ <= ‖u‖,
        and the estimate (d/q) Σ_i slope_i v_i of `ZerothOrder` has no larger second moment than the free one. Its mean
        is M∇f(w) with M = d·E[vvᵀ], positive semidefinite: the identity in the interior of Γ, the projection onto
        the tangent of a flat set, with halves on its diagonal for entries at a bound. "auto" regresses slopes on
        displacements instead, which has no such bias, and larger errors in entries that can move but a little.
    recheck : (int, int), optional
        (m, r): the m best iterates are evaluated r times more at the end, and the best mean wins.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> risk = ez.risks.BlackBox(lambda w: float(np.sum((w - 1) ** 2)), n_features=4)
    >>> risk.value([1.0, 1.0, 1.0, 0.0])
    1.0
    """

    has_gradient = False

    def __init__(
        self,
        f: Callable[..., Any] | None,
        n_features: int,
        *,
        batched: bool = False,
        workers: Any = None,
        timeout: float | None = None,
        on_failure: str = "raise",
        max_retries: int = 3,
        penalty: float | None = None,
        repeats: int = 1,
        common_random_numbers: bool = False,
        inside: bool = False,
        recheck: tuple[int, int] | None = None,
    ) -> None:
        if f is not None and not callable(f):
            raise TypeError(f"f must be a function of w, got {f!r}")
        if on_failure not in POLICIES:
            raise ValueError(f"on_failure must be one of {', '.join(POLICIES)}, got {on_failure!r}")
        batched, inside = check_flag(batched, "batched"), check_flag(inside, "inside")
        common_random_numbers = check_flag(common_random_numbers, "common_random_numbers")
        if batched and (workers is not None or timeout is not None or common_random_numbers):
            raise ValueError(
                "batched=True hands all points to f at once, so it goes with neither workers, timeout nor "
                "common_random_numbers; use batched=False for those"
            )
        self.f, self.n_features = f, check_count(n_features, "n_features")
        self.batched = batched
        self.timeout = None if timeout is None else check_positive(timeout, "timeout")
        if hasattr(workers, "get_executor"):  # a client of Dask
            workers = workers.get_executor(pure=False)
        if workers is not None and not hasattr(workers, "submit"):
            workers = check_count(workers, "workers")
        self.workers = 1 if workers is None and self.timeout is not None else workers
        self.on_failure, self.max_retries = on_failure, check_count(max_retries, "max_retries", low=0)
        self.penalty = None if penalty is None else check_number(penalty, "penalty", open_low=True, open_high=True)
        self.repeats = self.calls_per_value = check_count(repeats, "repeats")
        self.common_random_numbers = self.noise_changes = common_random_numbers
        self.inside = inside
        self._gamma: ConstraintSet | None = None if inside else Everywhere()
        self.recheck = _check_recheck(recheck)
        self._session: Session | None = None
        self._asked: Differences | None = None
        self._answers: Callable[..., Outcomes] | None = None

    @contextmanager
    def session(self, counts: Counts, journal: Journal | None = None) -> Iterator[Session]:
        """One run: its counts, its failures, its journal and its worker processes."""
        session = Session(self, counts, journal)
        outer, self._session = self._session, session
        try:
            yield session
        finally:
            self._session = outer
            session.close()

    def evaluate(self, points: Sequence[np.ndarray] | np.ndarray, *, essential: bool = False) -> np.ndarray:
        """f at each of the points, a mean over `repeats` calls; NaN where the policy drops a failure.

        Essential points get their retries under every policy but "raise", and an error if these fail too.
        """
        if self._session is not None:
            return self._session.evaluate(points, essential)
        with self.session(Counts()) as session:
            return session.evaluate(points, essential)

    def failure(self, message: str) -> BlackBoxError:
        """The error for a value that could not be had: by the policy "raise" for the user, else for the run."""
        return BlackBoxError(message) if self.on_failure == "raise" else NoValue(message)

    def _forward(self, w: Array, support: Array | None) -> None:
        return None

    def _value(self, w: Array, state: Any) -> float:
        return float(self.evaluate([to_host(w)], essential=True)[0])

    def _gradient(self, w: Array, state: Any) -> Array:
        raise TypeError(
            "a BlackBox has no gradient; use a zeroth-order method: method='auto', 'HZO-HT-2SP', or "
            "ez.Method(oracle=ez.ZerothOrder(...), step=...)"
        )

    def values_at(self, points: np.ndarray) -> np.ndarray:
        return self.evaluate(points)

    def within(self, gamma: ConstraintSet) -> BlackBox:
        if not self.inside:
            return self
        bound = copy.copy(self)
        bound._gamma = gamma
        return bound

    def placed(self, points: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        if self._gamma is None:
            raise ValueError("inside=True keeps queries in Γ, which is not known here: give it by risk.within(gamma)")
        if self._gamma.whole_space:
            return points
        if among is None or among.size == self.n_features:
            return np.stack([to_host(self._gamma.project(w)) for w in points])
        placed = np.zeros_like(points)
        project = self._gamma.on(among)
        placed[:, among] = np.stack([to_host(project(w)) for w in points[:, among]])
        return placed

    def answered_by(self, answers: Callable[..., Outcomes]) -> BlackBox:
        """A box without a function, with `evaluation.Answers` in its place."""
        if self.f is not None:
            raise TypeError(
                f"risk must be a BlackBox without a function, BlackBox(None, n_features), got one of {self.f!r}; with "
                "a function, use minimize"
            )
        if self.common_random_numbers or self.workers is not None:
            raise ValueError(
                "common_random_numbers, workers and timeout are for functions that the run calls itself; who asks and "
                "tells sees to seeds and processes: leave them out"
            )
        answered = copy.copy(self)
        answered._answers = answers
        return answered

    def queries(self, w: Any, t: int = 0) -> np.ndarray:
        """Ask: the points (rows) at which f is wanted for a gradient at w, by `ZerothOrder` with its defaults.

        For other settings use ``ez.ZerothOrder(...).bind(risk, counts, entropy)``, which has the same two methods.
        """
        self._asked = Differences(self, [0], lambda t: 100, self.n_features, 1e-6, central=False)
        return self._asked.queries(w, t)

    def estimate(self, values: Any) -> np.ndarray:
        """Tell: the gradient estimate from the values at the points of the last `queries`."""
        if self._asked is None:
            raise ValueError("estimate(values) follows queries(w, t): no points were asked for yet")
        return self._asked.estimate(values)


def _check_recheck(recheck: Any) -> tuple[int, int]:
    if recheck is None:
        return 0, 0
    if not isinstance(recheck, (tuple, list)) or len(recheck) != 2:
        raise TypeError(
            "recheck must be a pair (m, r): the m best iterates are evaluated r times more, for example (3, 10); "
            f"got {recheck!r}"
        )
    return check_count(recheck[0], "recheck[0]"), check_count(recheck[1], "recheck[1]")


class Session(base.Session):
    """The evaluations of one run."""

    def __init__(self, risk: BlackBox, counts: Counts, journal: Journal | None) -> None:
        self.risk, self.counts, self.journal = risk, counts, journal
        self.failures: list[Failure] = []
        self.asked = 0  # queries so far; their numbers tie the journal to the run
        self.worst = -math.inf
        self._pool: Pool | None = None
        self._begun = 0

    def facts(self) -> dict[str, Any]:
        return {"asked": self.asked, "worst": self.worst, "failures": [vars(failure) for failure in self.failures]}

    def restore(self, facts: dict[str, Any]) -> None:
        self.asked, self.worst = int(facts["asked"]), float(facts["worst"])
        self.failures = [Failure(**failure) for failure in facts["failures"]]

    def close(self) -> None:
        """End worker processes."""
        if self._pool is not None:
            self._pool.close()

    def evaluate(self, points: Sequence[np.ndarray] | np.ndarray, essential: bool) -> np.ndarray:
        repeats = self.risk.repeats
        tasks = []
        for w in points:
            for repeat in range(repeats):
                tasks.append(Task(self.asked, 0, np.asarray(w, dtype=float), self._seed(repeat)))
                self.asked += 1
        values = np.array([outcome.value for outcome in self._with_retries(tasks, essential)])
        values = values.reshape(-1, repeats)
        worth = np.isfinite(values)
        with np.errstate(invalid="ignore"):
            means: np.ndarray = np.where(worth, values, 0.0).sum(axis=1) / worth.sum(axis=1)
        if worth.any():
            self.worst = max(self.worst, float(values[worth].max()))
        return means

    def _seed(self, repeat: int) -> int | None:
        """The same for all points of an iteration, another for each repeat."""
        return self.counts.iteration * self.risk.repeats + repeat if self.risk.common_random_numbers else None

    def _with_retries(self, tasks: list[Task], essential: bool) -> list[Outcome]:
        """Rounds of attempts: whatever the order of completion, each round is settled in the order of the queries."""
        first, policy = tasks[0].number, self.risk.on_failure
        outcomes: list[Outcome] = [Outcome(math.nan)] * len(tasks)
        retries = max(self.risk.max_retries, 10) if essential else self.risk.max_retries
        for attempt in range(retries + 1):
            for task, outcome in sorted(self._run(tasks), key=lambda pair: pair[0].number):
                outcomes[task.number - first] = outcome
            if not (failed := [t for t in tasks if not math.isfinite(outcomes[t.number - first].value)]):
                return outcomes
            broken = [t for t in failed if outcomes[t.number - first].kind != "killed"]
            if policy == "raise" and broken:
                self._give_up(outcomes[broken[0].number - first], broken[0])
            tasks = []
            if attempt < retries and (essential or policy == "retry"):
                tasks = failed[: int(max(0, min(len(failed), self.counts.free)))]  # the end of the run needs the rest
            self.counts.add(len(tasks))
            last = "penalised" if policy == "penalise" and not essential else "dropped"
            for place, task in enumerate(failed):
                self._note(task, outcomes[task.number - first], "retried" if place < len(tasks) else last)
            if policy == "penalise" and not essential:
                penalty = self._penalty(outcomes)
                for task in failed:
                    outcomes[task.number - first] = Outcome(penalty)
            if not tasks:
                break
            tasks = [Task(t.number, attempt + 1, t.w, t.seed) for t in tasks]
        if essential and not any(math.isfinite(outcome.value) for outcome in outcomes):
            if attempt < retries:
                raise BudgetSpent
            self._give_up(outcomes[0], failed[0])
        return outcomes

    def _run(self, tasks: list[Task]) -> list[tuple[Task, Outcome]]:
        """Every task's outcome: from the journal where it was asked before, otherwise by calling f."""
        outcomes, todo = [], []
        for task in tasks:
            if (known := self._known(task)) is None:
                todo.append(task)
            else:
                outcomes.append((task, known))
        if not todo:
            return outcomes
        self._begun = 0
        try:
            self.retire()  # a query that is new ends the repetition of what was asked before
            if self.counts.left < 0:
                raise BudgetSpent
            for task, outcome in self._call(todo):
                if outcome is None:
                    self._begun -= 1
                    if self.journal is not None:
                        self.journal.void(task)
                    continue
                if self.journal is not None:
                    self.journal.done(task, outcome)
                self.counts.add(0 if outcome.called else -1)
                outcomes.append((task, outcome))
        except BaseException:
            self.counts.add(self._begun - len(todo))  # those that were paid for and did not go out
            raise
        return outcomes

    def _known(self, task: Task) -> Outcome | None:
        """What an earlier sitting got; a query that was killed under way is asked again, as long as that is free."""
        known = None if self.journal is None else self.journal.lookup(task)
        while known is not None and known.kind == "killed" and self.counts.free >= 1:
            self.counts.add(1)
            assert self.journal is not None
            known = self.journal.lookup(task)
        if known is not None and not known.called:
            self.counts.add(-1)
        return known

    def retire(self) -> None:
        if self.journal is not None and self.journal.n_unused:
            self.counts.n_monitor += self.journal.retire()
            self.counts.waiting = 0

    def _begin(self, tasks: Sequence[Task]) -> None:
        """Note queries that go out."""
        if time.perf_counter() > self.deadline:
            raise OutOfTime
        if self.journal is not None:
            self.journal.begin(tasks, end=self.ending)
        self._begun += len(tasks)

    def _call(self, tasks: list[Task]) -> Outcomes:
        f = self.risk.f
        if self.risk._answers is not None:
            return self.risk._answers(tasks, self._begin)
        if f is None:
            raise TypeError(
                "this BlackBox has no function: give it one, or evaluate points yourself, asked for and told by "
                "ez.AskTell(risk, k, ...)"
            )
        if self.risk.batched:
            return evaluate_batch(f, tasks, self._begin)
        if self.risk.workers is None:
            return evaluate_here(f, tasks, self._begin)
        self._pool = self._pool or Pool(f, self.risk.workers, self.risk.timeout)
        return self._pool.evaluate(tasks, self._begin)

    def _penalty(self, outcomes: list[Outcome]) -> float:
        if self.risk.penalty is not None:
            return self.risk.penalty
        worst = max([self.worst, *(o.value for o in outcomes if math.isfinite(o.value))])
        return worst if math.isfinite(worst) else math.nan

    def _note(self, task: Task, outcome: Outcome, action: str) -> None:
        told = outcome.kind, outcome.message, action, self.counts.iteration
        self.failures.append(Failure(task.number, task.attempt, *told))

    def _give_up(self, outcome: Outcome, task: Task) -> None:
        remedy = "The value at the current point cannot be done without; raise max_retries if f is unreliable"
        if self.risk.on_failure == "raise":
            remedy = "To go on after failures use on_failure='retry', 'drop' or 'penalise'"
        what = f"evaluation {task.number} (iteration {self.counts.iteration}) failed {task.attempt + 1} times"
        if outcome.endless and self.worst > -math.inf:
            raise NoEnd(f"{what}: {outcome.message}. It has no least value here: bound w by a constraint")
        raise self.risk.failure(f"{what}: {outcome.message or outcome.kind}. {remedy}") from outcome.error
