"""Calling a user's function many times: in this process, in worker processes, or in an executor of the user's."""

import math
import numbers
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.stopping import Status, Stop


class BudgetSpent(Stop):
    """No further function value may be asked for."""

    status = Status.MAX_QUERIES


class OutOfTime(Stop):
    """The time limit was reached between two evaluations."""

    status = Status.TIME_LIMIT


class BlackBoxError(RuntimeError):
    """The function failed, and its policy does not allow to go on."""


class NoValue(Stop, BlackBoxError):
    """The function failed where the method could not do without its value, and its policy is not to raise."""

    status = Status.FAILED


class NoEnd(Stop, BlackBoxError):
    """The function fell to -inf, from a value at which it was finite."""

    status = Status.DIVERGED


@dataclass(frozen=True)
class Task:
    """One call: the number of the query in the run, the attempt at it, the point, and a seed if f takes one."""

    number: int
    attempt: int
    w: np.ndarray
    seed: int | None


@dataclass(frozen=True)
class Failure:
    """An evaluation that gave no usable value.

    Attributes
    ----------
    query : int
        Its number in the run, counted from 0.
    attempt : int
        0, or the number of the retry.
    kind : {"exception", "not finite", "not a number", "time-out", "worker died", "killed"}
        "killed": it was under way when the run was ended, and the budget did not allow to ask again.
    message : str
    action : {"retried", "dropped", "penalised"}
        What was done about it.
    iteration : int
    """

    query: int
    attempt: int
    kind: str
    message: str
    action: str
    iteration: int


@dataclass(frozen=True)
class Outcome:
    """A value, or NaN with the kind of failure and a message; whether f was called at all, and whether it gave -inf."""

    value: float
    kind: str = ""
    message: str = ""
    error: BaseException | None = None
    called: bool = True
    endless: bool = False


#: is told of tasks right before they go out
Begin = Callable[[Sequence[Task]], None]
#: outcomes as they come; None for a task that never began, and goes out once more
Outcomes = Iterator[tuple[Task, Outcome | None]]
#: what sees to tasks elsewhere, and tells when they go out
Answers = Callable[[Sequence[Task], Begin], Outcomes]


def judge(value: Any) -> Outcome:
    """Whether what the function returned is a usable value."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        shape = getattr(value, "shape", ())
        what = f"an array of shape {shape}" if shape else f"{value!r:.60}"
        return Outcome(math.nan, "not a number", f"f must return one real number, got {what}; return float(...)")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        told = f"f must return a finite number, got {number}"
        return Outcome(math.nan, "not finite", told, endless=number == -math.inf)
    return Outcome(number)


def _broken(error: BaseException) -> Outcome:
    return Outcome(math.nan, "exception", f"{type(error).__name__}: {error}", error)


def call(f: Callable[..., Any], w: np.ndarray, seed: int | None) -> Any:
    """One call, with a vector that f may write to; runs in the worker."""
    w = w.copy()
    return f(w) if seed is None else f(w, seed)


def evaluate_here(f: Callable[..., Any], tasks: Sequence[Task], begin: Begin) -> Outcomes:
    """One after the other, in this process."""
    for task in tasks:
        begin([task])
        try:
            yield task, judge(call(f, task.w, task.seed))
        except Exception as error:
            yield task, _broken(error)


def evaluate_batch(f: Callable[..., Any], tasks: Sequence[Task], begin: Begin) -> Outcomes:
    """All points in one call f(W) -> values, with a matrix that f may write to."""
    begin(tasks)
    try:
        values = np.asarray(f(np.stack([task.w for task in tasks])))
        if values.shape != (n := len(tasks),):
            remedy = "return values.ravel()" if values.size == n else "one value for each row of its matrix"
            raise ValueError(f"a batched f must return an array of shape ({n},), got shape {values.shape}; {remedy}")
    except Exception as error:
        for task in tasks:
            yield task, _broken(error)
        return
    for task, value in zip(tasks, values.tolist(), strict=True):
        yield task, judge(value)


class Pool:
    """Worker processes of our own, which can be ended, or an executor of the user's."""

    def __init__(self, f: Callable[..., Any], workers: Any, timeout: float | None) -> None:
        from concurrent.futures.process import BrokenProcessPool

        self.f, self.timeout, self.died = f, timeout, BrokenProcessPool
        self.own = isinstance(workers, int)
        # one process an executor, so that ending a call that hangs ends no other
        self.executors: list[Any] = [_new_process() for _ in range(workers)] if self.own else [workers]
        # a second call in flight hides the way to a process and back, but its time would start before it runs
        self.in_flight = 1 if timeout is not None else 2
        if not self.own:
            self.in_flight = getattr(workers, "_max_workers", None) or 2 * (os.cpu_count() or 1)
        # a process is ready once it has imported what f needs, which is not part of the first call's time
        self.ready: list[Future[Any] | None] = [self._prepare(e) if self.own else None for e in self.executors]

    def close(self) -> None:
        """End own worker processes; an executor of the user's is left alone."""
        if self.own:
            for executor in self.executors:
                executor.shutdown(wait=False, kill_workers=True)

    def evaluate(self, tasks: Sequence[Task], begin: Begin) -> Outcomes:
        """The outcomes, as they come."""
        waiting, free = deque(tasks), deque(list(range(len(self.executors))) * self.in_flight)
        running: dict[Future[Any], tuple[Task, int, Any]] = {}  # in the order in which they were handed out
        deadlines: dict[Future[Any], float] = {}
        while waiting or running:
            while waiting and free:
                task, slot = waiting.popleft(), free.popleft()
                executor = self.executors[slot]
                begin([task])
                running[executor.submit(call, self.f, task.w, task.seed)] = task, slot, executor
            if self.timeout is not None:
                for future, (_, slot, _) in running.items():
                    ready = self.ready[slot]
                    if future not in deadlines and (ready is None or ready.done()):
                        deadlines[future] = time.monotonic() + self.timeout
            for future in self._wait(running, deadlines):
                task, slot, executor = running.pop(future)
                deadlines.pop(future, None)
                free.append(slot)
                if executor is self.executors[slot] or not isinstance(future.exception(), self.died):
                    yield task, self._outcome(future, slot)
                else:  # its process died in the call before: this one never began
                    yield task, None
                    waiting.appendleft(task)

    def _wait(self, running: Any, deadlines: dict[Future[Any], float]) -> list[Future[Any]]:
        """Calls that are over, by themselves or because their time is; none if a process has just become ready."""
        starting = [r for _, slot, _ in running.values() if (r := self.ready[slot]) is not None and not r.done()]
        patience = None if not deadlines else max(0.0, min(deadlines.values()) - time.monotonic())
        wait([*running, *starting], patience, FIRST_COMPLETED)
        now = time.monotonic()
        return [future for future in running if future.done() or deadlines.get(future, math.inf) <= now]

    def _outcome(self, future: Future[Any], slot: int) -> Outcome:
        if not future.done():
            waited = future.cancel()  # in vain where it runs already: it is abandoned, or its process ended
            self._replace(slot)
            return Outcome(math.nan, "time-out", f"no value after {self.timeout:g} s", called=not waited)
        try:
            return judge(future.result())
        except CancelledError:
            return Outcome(math.nan, "exception", "the call was cancelled by its executor", called=False)
        except Exception as error:
            if self.own and isinstance(error, self.died):
                self._replace(slot)
                return Outcome(math.nan, "worker died", str(error).splitlines()[0], error)
            return _broken(error)

    def _replace(self, slot: int) -> None:
        if self.own:
            self.executors[slot].shutdown(wait=False, kill_workers=True)
            self.executors[slot] = _new_process()
            self.ready[slot] = self._prepare(self.executors[slot])

    def _prepare(self, executor: Any) -> Any:
        return executor.submit(_get_ready, self.f, os.getpid())


def _get_ready(f: Callable[..., Any], parent: int) -> None:
    """Unpickling the argument has imported everything. A worker whose run was killed ends, too."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _new_process() -> Any:
    # loky comes with scikit-learn's joblib: it pickles closures, notices dead workers and can end them
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    return ProcessPoolExecutor(max_workers=1)
