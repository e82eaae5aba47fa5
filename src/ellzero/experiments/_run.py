"""Which experiments there are, and running them: with one thread a process, so that numbers do not depend on it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from threadpoolctl import threadpool_limits

from .._core.interruption import whole_call
from .._core.validation import check_count
from ..datasets.text_files import PathLike
from ._report import Files, Plan, Report, write

Progress = Callable[[int, int, str], Any]

#: the experiments, in the paper's order; "all" runs every one
NAMES = ("tradeoff", "index-tracking", "logistic", "appendix")


def run(
    name: str = "all",
    out: PathLike = "out/reproduce",
    *,
    full: bool = False,
    seed: int = 0,
    prices: Files = None,
    sectors: Files = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run an experiment of the paper, or all of them, and write figures, tables and the page.

    Parameters
    ----------
    name : {"tradeoff", "index-tracking", "logistic", "appendix", "all"}
    out : path
        The folder for index.html, figures/ and tables/.
    full : bool
        As long as the paper's runs, instead of at most 15 minutes on two cores.
    seed : int
        The same seed gives the same numbers (seconds excepted).
    prices, sectors : path or list of paths, optional
        Markets for index-tracking: CSV files for `ellzero.datasets.read_prices`, or folders that hold
        prices.csv(.gz) and sectors.csv themselves or in their subfolders (then `sectors` is not needed). Without
        them a market is simulated.
    n_jobs : int, optional
        Processes; as many as there are cores by default.
    progress : callable, optional
        ``progress(done, total, text)``, called in this process before the first piece of work and after every one.
    """
    if name not in (*NAMES, "all"):
        raise ValueError(f"name must be one of {', '.join(NAMES)} or all, got {name!r}")
    seed = check_count(seed, "seed", low=0)
    markets = {"index-tracking": {"prices": prices, "sectors": sectors}}
    plans: list[Plan] = []
    for chapter in NAMES if name == "all" else (name,):
        module = import_module(f"{__package__}.{chapter.replace('-', '_')}")
        plans.append(module.plan(full=full, seed=seed, **markets.get(chapter, {})))
    work = Work(sum(len(plan.tasks) for plan in plans), n_jobs, progress)
    with threadpool_limits(1):
        chapters = [plan.finish(work.results(plan)) for plan in plans]
    given = " --prices FILES --sectors FILES" if prices is not None else ""
    how = f"Made by `ellzero reproduce {name}{' --full' if full else ''} --seed {seed}{given}`."
    return write(chapters, Path(out), how)


@dataclass
class Work:
    """A pool for tasks, which reports after each of them: ``progress(done, total, text)``."""

    total: int
    n_jobs: int | None = None
    progress: Progress | None = None
    done: int = 0

    def results(self, plan: Plan) -> dict[Any, Any]:
        """The results of the tasks by key."""
        tell = self.progress or (lambda done, total, text: None)
        tell(self.done, self.total, plan.text)
        found = []
        with parallel_config("loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=cpu_count() if self.n_jobs is None else self.n_jobs, return_as="generator")
            for result in pool(delayed(_piece)(*task) for task in plan.tasks.values()):
                found.append(result)
                self.done += 1
                tell(self.done, self.total, plan.text)
        return dict(zip(plan.tasks, found, strict=True))


def _piece(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with whole_call():
        return function(*arguments)
