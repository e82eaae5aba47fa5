"""One loop for every method."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import Array
from .._core.interruption import inside_a_larger_call
from .._core.stopping import Status, Stop
from ..risks.evaluation import NoValue
from .checkpoint import Files
from .damped import Again
from .methods import Method
from .problem import Problem, verify
from .result import Result
from .run import Run
from .state import State
from .stopping import Proof, Stopping


def solve(
    problem: Problem,
    method: Method,
    *,
    entropy: Sequence[int],
    max_iter: int,
    tol: float,
    x0: Any = None,
    max_queries: float = math.inf,
    time_limit: float = math.inf,
    proof: Proof | None = None,
    callback: Callable[[Result], Any] | None = None,
    checkpoint: Path | None = None,
    resume: Path | None = None,
    every: int = 1,
    verbose: int = 0,
) -> Result:
    """min R(w) subject to ||w||_0 <= k, w in Γ, by one method; see `ellzero.minimize`, which checks its arguments."""
    files = Files(checkpoint, resume)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by its value
        run = Run(problem, method, x0, entropy, max_queries=max_queries, limit=time_limit, every=every)
    files.open(run)
    state, prescribed = run.state, run.method.n_iter
    last = max_iter if prescribed is None else min(max_iter, prescribed)
    # divergence has a status, it needs no warnings
    with run, problem.risk.at_work(verbose), np.errstate(over="ignore", invalid="ignore"):
        try:
            files.begin(run)
            status = iterate(run, last, Stopping(tol, proof, callback), Printer(verbose, last), files)
            if status is Status.MAX_ITER and last == prescribed:
                status = Status.COMPLETED
            files.update(run, now=True)  # before the end is settled, so that a longer run can go on from here
            # who gives a start wants the answer near it, and a path has found its way there by smaller k
            further = x0 is None and status in (Status.SETTLED, Status.CONVERGED, Status.STATIONARY)
            status = _end(run, status, _again(run, last, tol) if further else None)
        except KeyboardInterrupt:
            if inside_a_larger_call():
                raise
            status = Status.INTERRUPTED  # a second one raises
            run.settle(state.every != 1, ask=False)
        result = run.report(state.best, status, final=True)
        if proof is not None:
            result.certificate = proof.certificate(result, state.clock.deadline())
            result.n_sweeps = run.n_sweeps
    verify(result)
    _warn_of_noise(result)
    if verbose:
        print(f"objective {result.fun:.8g} with {result.support.size} nonzeros: {result.message}", flush=True)
    return result


def iterate(
    run: Run, max_iter: int, stopping: Stopping, printer: Printer | None = None, files: Files | None = None
) -> Status:
    """Algorithms 1-3 of the paper: they differ in the oracle alone. Returns why the iterations ended."""
    state, step = run.state, run.step
    if state.nit == 0 and not len(state.history) and (status := _begin(run)):
        return status
    for t in range(state.nit, max_iter):
        previous, fun = state.point, math.nan
        try:
            if run.ahead is None:
                g = run.oracle(previous, t)  # line 2: exact, mini-batch or zeroth-order gradient at w_{t-1}
                state.point = step.advance(previous, g, run.project)  # line 3: w_t = P(w_{t-1} - η g)
                moved, size = state.point.distance(previous), state.point.size
            else:  # the same, on a device
                state.point, moved, size = run.ahead.move(previous, max_iter - t)
            state.nit = state.counts.iteration = t + 1
            change = moved / size if size else moved
            if state.every and state.nit % state.every == 0:
                fun = state.watch()
        except Stop as stop:
            if state.nit > t:  # the step was made, and its value is not to be had
                state.record(math.nan, step.size, change)
            return stop.status
        state.record(fun, step.size, change)
        if printer is not None:
            printer.row(state.nit, fun, change, state.clock.seconds)
        if files is not None:
            files.update(run)
        if status := stopping(run, fun, moved, size):
            return status
    return Status.MAX_ITER


def _begin(run: Run) -> Status | None:
    """The first row of the history; a status if the run is over before it has begun."""
    state, value = run.state, math.nan
    if state.every:
        try:
            value = state.watch()
        except NoValue:
            raise
        except Stop as stop:  # a budget can be spent in attempts at the first value alone
            return Status.FAILED if stop.status is Status.MAX_QUERIES else stop.status
        if not math.isfinite(value) and math.isfinite(elsewhere := run.start_elsewhere()):
            value = elsewhere
        if not math.isfinite(value):
            raise ValueError(
                f"the objective at the start is {value}, and must be finite. If the data are too large to be squared "
                "and summed, rescale y and the columns of X (or Q and b), for example to unit variance; if R is not "
                "defined everywhere, give an x0 where it is"
            )
    state.record(value)
    return None


def _end(run: Run, status: Status, again: Again | None) -> Status:
    """The best point, and the finish of the method; `again` lets that begin anew from other problems."""
    finish = run.method.finish
    try:
        run.settle(run.state.every != 1 and status not in (Status.DIVERGED, Status.FAILED))
    except NoValue as failure:
        return failure.status
    if finish is not None and not finish.repairs and status not in (Status.TARGET_GAP, Status.DIVERGED):
        finish.apply(run.state, again)
    return Status.TIME_LIMIT if run.state.cut else status


def _warn_of_noise(result: Result) -> None:
    """Say so where values are too noisy for their number to tell the answer from the start."""
    noise = result.noise
    if noise is not None and not (noise.exact or noise.resolved):
        warnings.warn(
            f"values have errors of {noise.level:.2g}, and in {result.n_values} of them nothing stood out of these: "
            "the answer is not known to be better than its start. Give more max_queries, variables in units in which a "
            "change of 1 shows, or a seed to f (common_random_numbers=True)",
            UserWarning,
            stacklevel=4,
        )


def _again(run: Run, max_iter: int, tol: float) -> Again | None:
    """The same method on another problem, where it refits by exact gradients, and so is quick to go on."""
    if run.method.stochastic or not run.method.own_units:
        return None
    clock, entropy = run.state.clock, run.state.entropy

    def again(problem: Problem, x: Array | None) -> State:
        with warnings.catch_warnings():  # the last answer may be moved at the start, and nobody gave it
            warnings.simplefilter("ignore", UserWarning)
            other = Run(problem, run.method, x, entropy, limit=clock.limit - clock.seconds)
        with other:
            iterate(other, max_iter, Stopping(tol))
        return other.state

    return again


class Printer:
    """Prints about twenty lines a run at verbosity 1, and one an iteration at 2."""

    def __init__(self, verbose: int, max_iter: int) -> None:
        self.every = 0 if not verbose else 1 if verbose > 1 else max(1, max_iter // 20)
        if self.every:
            print(f"{'iteration':>9}  {'objective':>14}  {'change':>9}  {'seconds':>8}")

    def row(self, nit: int, fun: float, change: float, seconds: float) -> None:
        """One iteration."""
        if self.every and (nit % self.every == 0 or nit == 1):
            objective = "" if math.isnan(fun) else f"{fun:.8g}"
            print(f"{nit:>9}  {objective:>14}  {change:>9.2e}  {seconds:>8.2f}", flush=True)
