"""Calling a user's function many times: in this process, in worker processes, or in an executor of the user's."""

from __future__ import annotations

import math
import numbers
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    kind : {"exception", "not finite", "not a number", "time-out", "worker died"}
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
    """What came of a task: a value, or NaN with the kind of failure and a message."""

    value: float
    kind: str = ""
    message: str = ""
    error: BaseException | None = None


def judge(value: Any) -> Outcome:
    """Whether what the function returned is a usable value."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return Outcome(math.nan, "not a number", f"the function returned {value!r}")
    if not math.isfinite(value):
        return Outcome(math.nan, "not finite", f"the function returned {value}")
    return Outcome(float(value))


def _broken(error: BaseException) -> Outcome:
    return Outcome(math.nan, "exception", f"{type(error).__name__}: {error}", error)


def call(f: Callable[..., Any], w: np.ndarray, seed: int | None) -> Any:
    """One call; runs in the worker."""
    return f(w) if seed is None else f(w, seed)


def evaluate_here(f: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
    """One after the other, in this process."""
    for task in tasks:
        try:
            yield task, judge(call(f, task.w, task.seed))
        except Exception as error:
            yield task, _broken(error)


def evaluate_batch(f: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
    """All points in one call f(W) -> values."""
    try:
        values = np.asarray(f(np.stack([task.w for task in tasks])))
        if values.shape != (len(tasks),):
            raise ValueError(f"the batched function must return {len(tasks)} values, got shape {values.shape}")
    except Exception as error:
        for task in tasks:
            yield task, _broken(error)
        return
    for task, value in zip(tasks, values.tolist(), strict=True):
        yield task, judge(value)


class Pool:
    """Executors, each with the number of calls it may have in flight; own worker processes can be killed."""

    def __init__(self, workers: int | Executor | Any, timeout: float | None) -> None:
        self.timeout = timeout
        self.own = isinstance(workers, int)
        if self.own:
            # one process an executor, so that ending a call that hangs ends no other; the second call in flight
            # hides the way to the process and back, but its time would start before it runs
            self.executors: list[Any] = [_new_process() for _ in range(workers)]
            self.in_flight = 1 if timeout is not None else 2
        else:
            self.executors = [workers]
            self.in_flight = getattr(workers, "_max_workers", None) or 2 * (os.cpu_count() or 1)

    def close(self) -> None:
        """End own worker processes; an executor of the user's is left alone."""
        if self.own:
            for executor in self.executors:
                executor.shutdown(wait=False, kill_workers=True)

    def evaluate(self, f: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """The outcomes, as they come."""
        waiting = deque(tasks)
        running: dict[Future[Any], tuple[Task, int, float]] = {}
        load = [0] * len(self.executors)
        while waiting or running:
            for slot in sorted(range(len(load)), key=load.__getitem__):
                while waiting and load[slot] < self.in_flight:
                    task = waiting.popleft()
                    future = self.executors[slot].submit(call, f, task.w, task.seed)
                    running[future] = task, slot, time.monotonic() + (self.timeout or math.inf)
                    load[slot] += 1
            patience = min(deadline for *_, deadline in running.values()) - time.monotonic()
            done, _ = wait(running, None if patience == math.inf else max(patience, 0), FIRST_COMPLETED)
            for future in done:
                task, slot, _ = running.pop(future)
                load[slot] -= 1
                yield task, self._outcome(future, slot)
            now = time.monotonic()
            for future in [f for f, (*_, deadline) in running.items() if deadline <= now and not f.done()]:
                task, slot, _ = running.pop(future)
                load[slot] -= 1
                future.cancel()  # in vain where it runs already: it is abandoned, or its process ended
                if self.own:
                    self._replace(slot)
                yield task, Outcome(math.nan, "time-out", f"no value after {self.timeout:g} s")

    def _outcome(self, future: Future[Any], slot: int) -> Outcome:
        try:
            return judge(future.result())
        except CancelledError:
            return Outcome(math.nan, "exception", "the call was cancelled by its executor")
        except Exception as error:
            if type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool") and self.own:
                self._replace(slot)
                return Outcome(math.nan, "worker died", str(error).splitlines()[0], error)
            return _broken(error)

    def _replace(self, slot: int) -> None:
        self.executors[slot].shutdown(wait=False, kill_workers=True)
        self.executors[slot] = _new_process()


def _new_process() -> Any:
    # loky comes with scikit-learn's joblib: it pickles closures, notices dead workers and can end them
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    return ProcessPoolExecutor(max_workers=1)
