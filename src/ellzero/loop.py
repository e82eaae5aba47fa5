"""minimize: one loop for every method."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import Array, norm, to_host
from ._progress import Printer
from ._validation import check_count, check_indices, check_k, check_number, check_positive
from .methods import Method, preset
from .projections import NotFinite, Projector, projector
from .result import Counts, History, Result, Status
from .risks.base import Point, Risk
from .sets import ConstraintSet, Everywhere, GroupWise
from .steps import bind_step


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
    time_limit: float | None = None,
    callback: Callable[[Result], Any] | None = None,
    monitor: str | int = "every",
    verbose: int = 0,
) -> Result:
    """min R(w) subject to ||w||_0 <= k, w in Γ.

    Parameters
    ----------
    risk : Risk
        What is minimised, for example ``ez.risks.LeastSquares(X, y)``.
    k : int
        How many nonzeros are allowed; more than there are features means no limit.
    constraint : ConstraintSet, optional
        Γ; None means the whole space.
    method : str or Method
        A preset's name, or ``ez.preset(name, ...)``, or a `Method` of your own.
    x0 : array, optional
        Where to start; projected, with a warning, if it is infeasible. The origin by default.
    keep : indices or mask, optional
        Coordinates that are always in the support; they count in k.
    max_iter : int
        Iterations at the most.
    tol : float
        The run ends when the relative change ||w_t - w_{t-1}|| / ||w_t|| is at most tol, or when the residual
        ||w_t - w_{t-1}|| / η has fallen to tol times its first value. 0 means never.
    time_limit : float, optional
        Seconds; looked at after each iteration.
    callback : callable, optional
        ``callback(intermediate_result)`` after each iteration; raise StopIteration to stop.
    monitor : "every", "final" or int
        When to compute R for the history and the choice of the best iterate: after every iteration, only at the
        end (then the last iterate is returned), or every so many iterations.
    verbose : int
        0 is silent, 1 prints about twenty lines, 2 a line an iteration.

    Returns
    -------
    Result
        Its x has at most k nonzeros and lies in Γ: both are verified before it is returned.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> y = X[:, 3] - 2 * X[:, 7]
    >>> res = ez.minimize(ez.risks.LeastSquares(X, y), k=2)
    >>> res.support.tolist(), bool(res.fun < 1e-12)
    ([3, 7], True)
    """
    started = time.perf_counter()
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ellzero.risks.LeastSquares(X, y), got {risk!r}")
    method = _method(method, constraint)
    k = check_k(k, risk.n_features)
    gamma = _fit_to(risk, Everywhere() if constraint is None else constraint)
    kept = check_indices(keep, risk.n_features, "keep")
    max_iter, tol = check_count(max_iter, "max_iter", low=0), check_number(tol, "tol", low=0.0)
    every = _monitor_interval(monitor)
    deadline = math.inf if time_limit is None else started + check_positive(time_limit, "time_limit")

    counts, history, printer = Counts(), History(), Printer(verbose, max_iter)
    kind = method.projection
    if kind == "auto":
        kind = "two-step" if gamma.preserves_support else "restricted"
    plain = projector(kind, gamma, k, risk.n_features, kept)
    finish = projector(method.finish, gamma, k, risk.n_features, kept) if method.finish else None
    project = plain if kind == "convex" else _counted(plain, counts)
    step = bind_step(method.step, risk)
    oracle = method.oracle.bind(risk, counts)

    def report(point: Point, status: Status, nit: int, stationarity: float = math.nan) -> Result:
        w = to_host(point.w)
        return Result(
            x=point.w,
            k=k,
            constraint=gamma,
            support=np.flatnonzero(w),
            fun=point.value,
            nit=nit,
            status=status,
            message=status.value,
            violation=gamma.violation(point.w),
            stationarity=stationarity,
            history=history,
            **vars(counts),
            projection=kind if finish is None else f"{kind}, {method.finish} at the end",
            method=method.name,
            largest_L=1 / step.size,
        )

    def watch(point: Point, best: Point) -> tuple[float, Point]:
        """R at the point, and the better one of the two."""
        counts.n_monitor += 1
        return point.value, point if point.value < best.value else best

    point = best = risk.at(*_start(x0, risk, plain, gamma, k))
    fun = math.nan
    if every:
        fun, best = watch(point, best)
    history.append(fun, math.nan, math.nan, time.perf_counter() - started, counts)
    first_residual, status, nit = math.nan, Status.MAX_ITER, 0
    for t in range(max_iter):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # divergence has a status, it needs no warnings
                g = oracle(point, t)  # Algorithms 1-3: full, mini-batch or zeroth-order gradient at w_{t-1}
                previous, point = point, step.advance(point, g, project)  # w_t = P(w_{t-1} - η g)
                moved, size = norm(point.w - previous.w), norm(point.w)
                fun = math.nan
                if every and (t + 1) % every == 0:
                    fun, best = watch(point, best)
        except NotFinite:
            status = Status.DIVERGED
            break
        nit = t + 1
        now = time.perf_counter()
        history.append(fun, step.size, moved / size if size else moved, now - started, counts)
        printer.row(nit, fun, moved / size if size else moved, now - started)
        if math.isnan(first_residual):
            first_residual = moved / step.size
        if not math.isfinite(moved) or math.isinf(fun):
            status = Status.DIVERGED
            break
        if method.oracle.exact and tol > 0:
            if moved <= tol * size:
                status = Status.CONVERGED
                break
            if moved / step.size <= tol * first_residual:
                status = Status.STATIONARY
                break
        if now > deadline:
            status = Status.TIME_LIMIT
            break
        if callback is not None:
            try:
                callback(report(point, Status.RUNNING, nit))
            except StopIteration:
                status = Status.CALLBACK
                break

    if every != 1 and status is not Status.DIVERGED:  # the last iterate may not have been looked at
        _, best = watch(point, best if every else point)
    if finish is not None:
        counts.n_thresholds += 1
        best = risk.at(*finish(best.w))
        counts.n_monitor += 1
    result = report(best, status, nit, _stationarity(best, plain, step.size) if method.oracle.exact else math.nan)
    _verify(result)
    printer.end(result)
    return result


def _method(method: Any, constraint: ConstraintSet | None) -> Method:
    if isinstance(method, str):
        method = preset(method)
    if not isinstance(method, Method):
        raise TypeError(f'method must be a name such as "IHT-2SP" or a Method, got {method!r}')
    if not method.constrained and constraint is not None and not isinstance(constraint, Everywhere):
        raise ValueError(
            f"method {method.name!r} knows no constraint, and {constraint!r} was given; use "
            f"method='{method.name}-2SP', which projects onto it, or constraint=None"
        )
    return method


def _fit_to(risk: Risk, constraint: ConstraintSet) -> ConstraintSet:
    """Γ for the whole of w: one that is made for the features of a risk with several outputs holds for each."""
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(
            f"constraint must be a set such as ellzero.sets.L1Ball(1.0) (or None for no constraint), got {constraint!r}"
        )
    size = constraint.n_features
    if size is not None and size < risk.n_features == size * risk.n_outputs:
        return GroupWise(constraint, groups=np.repeat(np.arange(risk.n_outputs), size))
    return constraint


def _monitor_interval(monitor: str | int) -> int:
    """Every so many iterations; 0 means at the end alone."""
    if isinstance(monitor, str):
        if monitor not in ("every", "final"):
            raise ValueError(f'monitor must be "every", "final" or a number of iterations, got {monitor!r}')
        return 1 if monitor == "every" else 0
    return check_count(monitor, "monitor")


def _counted(project: Projector, counts: Counts) -> Projector:
    def counted(v: Array) -> tuple[Array, Array | None]:
        counts.n_thresholds += 1
        return project(v)

    return counted


def _start(x0: Any, risk: Risk, project: Projector, gamma: ConstraintSet, k: int) -> tuple[Array, Array | None]:
    if x0 is None:
        return project(risk.zero)
    x0 = risk.as_vector(x0)
    try:
        w, support = project(x0)
    except NotFinite as error:
        raise ValueError(f"x0 must be finite: {error}") from None
    if norm(w - x0) > 1e-9 * norm(x0):
        nonzeros = int(np.count_nonzero(to_host(x0)))
        warnings.warn(
            f"x0 is infeasible ({nonzeros} nonzeros, k={k}; violation of {gamma!r}: {gamma.violation(x0):.2g}) and "
            "was projected before the start",
            UserWarning,
            stacklevel=3,
        )
    return w, support


def _stationarity(point: Point, project: Projector, step: float) -> float:
    """||w - P(w - ηg)|| / η: zero exactly at the fixed points of the method."""
    try:
        return norm(point.w - project(point.w - step * point.gradient)[0]) / step
    except NotFinite:
        return math.inf


def _verify(result: Result) -> None:
    """The promise of every return: at most k nonzeros, inside Γ."""
    from .sets.base import default_tolerance

    if result.support.size > result.k or not result.violation <= default_tolerance(result.x):
        raise RuntimeError(
            f"the answer breaks its promise: {result.support.size} nonzeros for k={result.k}, violation "
            f"{result.violation:.2g} of {result.constraint!r}. If the set is your own, ellzero.testing.check_set "
            "looks for the reason; otherwise please report this"
        )
