"""minimize: one loop for every method."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import norm
from .._core.interruption import inside_a_larger_call
from .._core.validation import check_count, check_k, check_nonnegative, check_number, check_positive
from ..certificates.target import Proof
from ..risks.base import Risk
from ..risks.blackbox import BlackBoxError
from ..risks.evaluation import BudgetSpent, OutOfTime
from ..sets import ConstraintSet, Everywhere
from .ending import exchange
from .methods import Method, preset
from .problem import make_problem, verify
from .progress import Printer
from .projections import NotFinite
from .result import Result, Status
from .run import Run
from .steps import Settled


def minimize(
    risk: Risk,
    k: int,
    constraint: ConstraintSet | None = None,
    method: str | Method = "auto",
    *,
    x0: Any = None,
    keep: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    max_queries: int | None = None,
    time_limit: float | None = None,
    target_gap: float | None = None,
    callback: Callable[[Result], Any] | None = None,
    rng: Any = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
    monitor: str | int = "every",
    verbose: int = 0,
) -> Result:
    """min R(w) subject to ||w||_0 <= k, w in Γ.

    Parameters
    ----------
    risk : Risk
        What is minimised, for example ``ez.risks.LeastSquares(X, y)``.
    k : int
        How many nonzeros are allowed; more than there are features means all of them, with a warning.
    constraint : ConstraintSet, optional
        Γ; None means the whole space.
    method : str or Method
        A preset's name, or ``ez.preset(name, ...)``, or a `Method` of your own; or "exact": branch and bound from the
        answer of "auto", until that or a better one is proved optimal.
    x0 : array, optional
        Where to start; projected, with a warning, if it is infeasible. The origin by default. "auto" begins with the
        best values on the support of x0, and leaves out its second way to an answer (see `methods.Auto`).
    keep : indices or mask, optional
        Coordinates that are always in the support; they count in k.
    max_iter : int
        Iterations at the most.
    tol : float
        The run ends when the relative change ||w_t - w_{t-1}|| / ||w_t|| is at most tol, or when the residual
        ||w_t - w_{t-1}|| / η has fallen to tol times its first value. 0 means never. A stochastic method is
        never stopped by it.
    max_queries : int, optional
        Function values at the most, for zeroth-order methods: never exceeded, retries included, nor by a run that was
        killed and resumed, all sittings together. The last iteration takes what is left, with the value of the answer
        in reserve.
    time_limit : float, optional
        Seconds; looked at after each iteration, and before each evaluation of a black box.
    target_gap : float, optional
        Stop as soon as the objective is proved to be within this relative gap of the best possible. The proof is a
        lower bound that is computed once, after the first iteration ("exact" raises it by branching); it comes back
        as ``Result.certificate``, whether or not the target was met. Deterministic methods only.
    callback : callable, optional
        ``callback(intermediate_result)`` after each iteration; raise StopIteration to stop.
    rng : seed or Generator, optional
        The same seed gives the same run.
    checkpoint : path, optional
        An .npz file (numbers and JSON, no pickles) to which the state is written, atomically: after every
        iteration of a black box, together with a journal of queries beside it, otherwise about every second. A disk
        that cannot be written to is warned of once, and the run goes on.
    resume : path, optional
        A checkpoint to continue from; the run goes on as if it had not been interrupted.
    monitor : "every", "final" or int
        When to compute R for the history and the choice of the best iterate: after every iteration, only at the
        end (then the last iterate is returned), or every so many iterations.
    verbose : int
        0 is silent, 1 prints about twenty lines, 2 a line an iteration.

    Returns
    -------
    Result
        Its x has at most k nonzeros and lies in Γ: both are verified before it is returned.

    Notes
    -----
    Ctrl-C (KeyboardInterrupt) ends the run with its best point and `Status.INTERRUPTED`; a second one raises. Inside a
    path, an estimator, a cross-validation or a backtest it ends the whole call.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> y = X[:, 3] - 2 * X[:, 7]
    >>> res = ez.minimize(ez.risks.LeastSquares(X, y), k=2)
    >>> res.support.tolist(), bool(res.fun < 1e-12)
    ([3, 7], True)
    """
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ellzero.risks.LeastSquares(X, y), got {risk!r}")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of the intermediate result (or None), got {callback!r}")
    if method == "exact":
        from ..certificates.exact import solve_exactly

        _refuse_files(checkpoint, resume, max_queries)
        return solve_exactly(
            risk, k, constraint, x0=x0, keep=keep, max_iter=max_iter, tol=tol, time_limit=time_limit,
            target_gap=target_gap, callback=callback, rng=rng, verbose=verbose,
        )  # fmt: skip
    method = _method(method, constraint)
    max_iter, tol = check_count(max_iter, "max_iter", low=0), check_number(tol, "tol", low=0.0)
    budget = math.inf if max_queries is None else check_count(max_queries, "max_queries")
    limit = math.inf if time_limit is None else check_positive(time_limit, "time_limit")
    problem = make_problem(risk, _level(k, risk), Everywhere() if constraint is None else constraint, keep)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by its value
        run = Run(problem, method, x0, _entropy(rng), budget, _monitor_interval(monitor), limit)
    run.open_files(*(None if path is None else Path(path) for path in (checkpoint, resume)))
    run.proof = None if target_gap is None else Proof(run, check_nonnegative(target_gap, "target_gap"))
    prescribed = run.method.n_iter
    last = max_iter if prescribed is None else min(max_iter, prescribed)
    with run, np.errstate(over="ignore", invalid="ignore"):  # divergence has a status, it needs no warnings
        try:
            status = _iterate(run, last, tol, callback, Printer(verbose, last))
            if status is Status.MAX_ITER and last == prescribed:
                status = Status.COMPLETED
            run.maybe_save(now=True)  # before the end is settled, so that a longer run can go on from here
            # who gives a start wants the answer near it, and a path has found its way there by smaller k
            further = x0 is None and status in (Status.SETTLED, Status.CONVERGED, Status.STATIONARY)
            status = _end(run, status, partial(_iterate, max_iter=last, tol=tol) if further else None)
        except KeyboardInterrupt:
            if inside_a_larger_call():
                raise
            status = Status.INTERRUPTED  # a second one raises
            run.choose_best(run.every != 1, ask=False)
        result = run.report(run.best, status, final=True)
        if run.proof is not None and (status is not Status.INTERRUPTED or run.proof.begun):
            result.certificate = run.proof.certificate(result)
    verify(result)
    if verbose:
        print(f"objective {result.fun:.8g} with {result.support.size} nonzeros: {result.message}", flush=True)
    return result


def _end(run: Run, status: Status, iterate: Callable[[Run], Any] | None) -> Status:
    """The best point, and the finish of the method; `iterate` lets the exchanges begin anew from damped problems."""
    try:
        run.choose_best(run.every != 1 and status not in (Status.DIVERGED, Status.FAILED))
        if run.method.finish == "swap" and status not in (Status.TARGET_GAP, Status.DIVERGED):
            exchange(run, iterate)
    except BlackBoxError:
        if run.asked.risk.on_failure == "raise":  # type: ignore[attr-defined]
            raise
        return Status.FAILED
    return Status.TIME_LIMIT if run.cut else status


def _iterate(
    run: Run,
    max_iter: int,
    tol: float,
    callback: Callable[[Result], Any] | None = None,
    printer: Printer | None = None,
) -> Status:
    """Algorithms 1-3 of the paper: they differ in the oracle alone. Returns why the iterations ended."""
    counts, step, exact = run.counts, run.step, run.method.oracle.exact
    if run.nit == 0 and not len(run.history) and (status := _begin(run)):
        return status
    for t in range(run.nit, max_iter):
        previous, fun = run.point, math.nan
        try:
            g = run.oracle(previous, t)  # line 2: exact, mini-batch or zeroth-order gradient at w_{t-1}
            run.point = step.advance(previous, g, run.project)  # line 3: w_t = P(w_{t-1} - η g)
            run.nit = counts.iteration = t + 1
            moved, size = norm(run.point.w - previous.w), norm(run.point.w)
            if run.every and run.nit % run.every == 0:
                fun = run.watch()
        except NotFinite:
            return Status.DIVERGED
        except Settled:
            return Status.SETTLED
        except (BudgetSpent, OutOfTime, BlackBoxError) as error:
            if isinstance(error, BlackBoxError) and run.asked.risk.on_failure == "raise":  # type: ignore[attr-defined]
                raise
            if run.nit > t:  # the step was made, and its value is not to be had
                run.record(math.nan, moved / size if size else moved)
            return next(status for kind, status in _STOPPED.items() if isinstance(error, kind))
        change = moved / size if size else moved
        run.record(fun, change)
        if printer is not None:
            printer.row(run.nit, fun, change, run.seconds)
        run.maybe_save()
        if math.isnan(run.first_residual):
            run.first_residual = moved / step.size
        if not math.isfinite(moved) or math.isinf(fun):
            return Status.DIVERGED
        if run.proof is not None and run.proof.suffices(fun):
            return Status.TARGET_GAP
        if exact and tol > 0:
            if moved <= tol * size:
                return Status.CONVERGED
            if moved / step.size <= tol * run.first_residual:
                return Status.STATIONARY
        if run.seconds > run.limit:
            return Status.TIME_LIMIT
        if callback is not None:
            try:
                callback(run.report(run.point, Status.RUNNING))
            except StopIteration:
                return Status.CALLBACK
    return Status.MAX_ITER


_STOPPED: dict[type[Exception], Status] = {
    BudgetSpent: Status.MAX_QUERIES,
    OutOfTime: Status.TIME_LIMIT,
    BlackBoxError: Status.FAILED,
}


def _begin(run: Run) -> Status | None:
    """The first row of the history; a status if the run is over before it has begun."""
    try:
        value = run.watch() if run.every else math.nan
    except BudgetSpent:
        return Status.FAILED  # all of the budget went into attempts at the first value
    except OutOfTime:
        return Status.TIME_LIMIT
    if run.every and not math.isfinite(value):
        value = run.start_elsewhere()
    if run.every and not math.isfinite(value):
        raise ValueError(
            f"the objective at the start is {value}, and must be finite. If the data are too large to be squared and "
            "summed, rescale y and the columns of X (or Q and b), for example to unit variance; if R is not defined "
            "everywhere, give an x0 where it is"
        )
    run.record(value)
    return None


def _level(k: Any, risk: Risk) -> int:
    """k, at most the number of features."""
    level = check_k(k, risk.n_features)
    if k > level:
        warnings.warn(
            f"k={k} is greater than n_features={risk.n_features}: all features are allowed", UserWarning, stacklevel=3
        )
    return level


def _method(method: Any, constraint: ConstraintSet | None) -> Method:
    if isinstance(method, str):
        method = preset(method)
    if not isinstance(method, Method):
        raise TypeError(f'method must be a name such as "IHT-2SP" or a Method, got {method!r}')
    if not method.constrained and constraint is not None and not constraint.whole_space:
        raise ValueError(
            f"method {method.name!r} knows no constraint, and {constraint!r} was given; use a method that projects "
            "onto it, such as 'IHT-2SP', 'HSG-HT-2SP' or 'HZO-HT-2SP', or constraint=None"
        )
    return method


def _entropy(rng: Any) -> list[int]:
    """Integers from which every random number of the run follows."""
    if isinstance(rng, np.random.Generator):
        return [int(i) for i in rng.integers(2**32, size=4)]
    try:
        entropy = np.random.SeedSequence(rng).entropy
    except TypeError:
        raise TypeError(f"rng must be None, an integer or a numpy.random.Generator, got {rng!r}") from None
    except ValueError:
        raise ValueError(f"rng as a seed must be at least 0, got rng={rng!r}") from None
    return [int(i) for i in entropy] if isinstance(entropy, (list, tuple, np.ndarray)) else [int(entropy)]  # type: ignore[arg-type]


def _refuse_files(checkpoint: Any, resume: Any, max_queries: Any) -> None:
    for name, value in (("checkpoint", checkpoint), ("resume", resume), ("max_queries", max_queries)):
        if value is not None:
            raise ValueError(f'{name} does not go with method="exact", which keeps its search in memory; leave it out')


def _monitor_interval(monitor: str | int) -> int:
    """Every so many iterations; 0 means at the end alone."""
    if isinstance(monitor, str):
        if monitor not in ("every", "final"):
            raise ValueError(f'monitor must be "every", "final" or a number of iterations, got {monitor!r}')
        return 1 if monitor == "every" else 0
    return check_count(monitor, "monitor")
