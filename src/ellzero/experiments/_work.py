"""Pieces of work in processes of one thread each, so that the numbers do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .._core.interruption import whole_call
from ._report import Chapter

Progress = Callable[[int, int, str], Any]
Task = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Plan:
    """The independent tasks of an experiment by key, and what makes a chapter of their results."""

    text: str
    tasks: Mapping[Any, Task]
    finish: Callable[[dict[Any, Any]], Chapter]


class Work:
    """A pool for tasks (function, arguments), which reports after each of them.

    Parameters
    ----------
    total : int
        How many tasks there will be in all.
    n_jobs : int, optional
        Processes; all cores by default. 1 works in this process.
    progress : callable, optional
        ``progress(done, total, text)``.
    """

    def __init__(self, total: int, n_jobs: int | None = None, progress: Progress | None = None) -> None:
        import joblib

        self.total, self.done = total, 0
        self.n_jobs = joblib.cpu_count() if n_jobs is None else n_jobs
        self.progress = progress or (lambda done, total, text: None)

    def __enter__(self) -> Work:
        from threadpoolctl import threadpool_limits

        self._limits = threadpool_limits(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limits.restore_original_limits()

    def results(self, plan: Plan) -> dict[Any, Any]:
        """The results of the tasks by key."""
        from joblib import Parallel, delayed, parallel_config

        self.progress(self.done, self.total, plan.text)
        found = []
        with parallel_config("loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=self.n_jobs, return_as="generator")
            for result in pool(delayed(_piece)(*task) for task in plan.tasks.values()):
                found.append(result)
                self.done += 1
                self.progress(self.done, self.total, plan.text)
        return dict(zip(plan.tasks, found, strict=True))


def _piece(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with whole_call():
        return function(*arguments)
