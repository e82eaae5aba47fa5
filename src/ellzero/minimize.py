"""What is asked, checked, and handed over: to the solver, or to the search that proves its answer."""

import math
import numbers
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ._core.arrays import to_host
from ._core.interruption import inside_a_larger_call, whole_call
from ._core.validation import check_count, check_indices, check_nonnegative, check_number, check_positive
from .risks.base import Risk, need_risk
from .sets import ConstraintSet, EmptySlice, Everywhere
from .solver.loop import solve
from .solver.methods import Method, preset
from .solver.path import SparsePath
from .solver.problem import make_problem
from .solver.projections import restricted_projection
from .solver.result import Result, Status
from .sparsity import Coordinates, Sparsity, as_sparsity


def minimize(
    risk: Risk,
    k: int | Sparsity,
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
    k : int or sparsity
        How many nonzeros are allowed; more than there are features means all of them, with a warning. Or what else is
        counted: a `ellzero.sparsity.Sparsity`.
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
        A checkpoint to continue from; the run goes on as if it had not been interrupted, but for queries of a black
        box that were under way: these are lost, and count.
    monitor : "every", "final" or int
        When to compute R for the history and the choice of the best iterate: after every iteration, only at the
        end (then the last iterate is returned), or every so many iterations.
    verbose : int
        0 is silent, 1 prints about twenty lines, 2 a line an iteration.

    Returns
    -------
    Result
        Its x is sparse and lies in Γ: both are verified before it is returned.

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
    need_risk(risk)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of the intermediate result (or None), got {callback!r}")
    target = None if target_gap is None else check_nonnegative(target_gap, "target_gap")
    chosen = None if method == "exact" else _method(method, constraint)
    problem = make_problem(risk, _level(k, risk), Everywhere() if constraint is None else constraint, keep)
    asked: dict[str, Any] = {
        "x0": x0, "callback": callback, "entropy": _entropy(rng), "verbose": verbose,
        "max_iter": check_count(max_iter, "max_iter", low=0), "tol": check_number(tol, "tol", low=0.0),
        "time_limit": math.inf if time_limit is None else check_positive(time_limit, "time_limit"),
    }  # fmt: skip
    if chosen is None:
        from .certificates.exact import solve_exactly

        for name, value in (("checkpoint", checkpoint), ("resume", resume), ("max_queries", max_queries)):
            if value is not None:
                raise ValueError(
                    f'{name} does not go with method="exact", which keeps its search in memory; leave it out'
                )
        return _with_promise(risk, solve_exactly(problem, target_gap=target, **asked))
    proof = None
    if target is not None:
        from .certificates.exact import Proof

        proof = Proof(problem, chosen, target)
    result = solve(
        problem,
        chosen,
        proof=proof,
        max_queries=math.inf if max_queries is None else check_count(max_queries, "max_queries"),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        resume=None if resume is None else Path(resume),
        every=_monitor_interval(monitor),
        **asked,
    )
    return _with_promise(risk, result)


def _with_promise(risk: Risk, result: Result) -> Result:
    """With how sparse a vector cannot be better, where the strong convexity that takes is at hand."""
    if result.status is not Status.INTERRUPTED and math.isfinite(result.fun) and risk.known_convexity is not None:
        from .certificates.beats import beats_for_free

        try:
            result.beats = beats_for_free(risk, result)
        except KeyboardInterrupt:
            if inside_a_larger_call():
                raise
            return replace(result, status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    return result


def minimize_path(
    risk: Risk,
    ks: int | Sparsity | Iterable[int | Sparsity],
    constraint: ConstraintSet | None = None,
    method: str | Method = "auto",
    *,
    warm_start: bool = True,
    both_ways: bool = False,
    validation: Risk | None = None,
    x0: Any = None,
    keep: Any = None,
    time_limit: float | None = None,
    callback: Callable[[Result], Any] | None = None,
    verbose: int = 0,
    **options: Any,
) -> SparsePath:
    """min R(w) subject to ||w||_0 <= k, w in Γ, for every k of a list.

    An answer is feasible for every larger k: the next run starts from it, and its result takes it over unless it
    is better. So R never increases in k.

    Parameters
    ----------
    risk, constraint, method, keep
        As for `minimize`.
    ks : int, sparsity or iterable of these
        The k, in any order; an integer K means 1, ..., K (without those below the number of kept coordinates), and a
        sparsity the same along its `with_k`.
    warm_start : bool
        False starts every run of the way up at x0.
    both_ways : bool
        Then goes down again, with a fresh start at the largest k: every k is tried from the answer for the next
        larger one, thresholded and projected onto Γ, unless that has the support found already. Better answers,
        for up to about twice the cost.
    validation : Risk, optional
        The same kind of risk on held-out rows, for ``path.select("validation")``.
    x0 : array, or mapping from k to array, optional
        Where the first run starts; the origin by default. A mapping says it for each k, in place of the answer before.
    time_limit : float, optional
        Seconds for the whole path; k that were not reached are left out, the smallest never is.
    callback : callable, optional
        ``callback(result)`` after each run; raise StopIteration to stop. Ctrl-C stops, too: the path holds the answers
        of the runs that were finished, and its message says so; with none yet, KeyboardInterrupt is raised.
    verbose : int
        0 is silent, 1 prints a line a run, and what is above 1 goes to `minimize`.
    **options
        Other keywords of `minimize`, for each run: ``max_iter, tol, max_queries, rng, monitor``.

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_regression(100, 50, 3)
    >>> path = ez.minimize_path(ez.risks.LeastSquares(problem.X, problem.y), ks=6)
    >>> path.ks.tolist(), path.select("ebic").k
    ([1, 2, 3, 4, 5, 6], 3)
    """
    need_risk(risk)
    for name in {"checkpoint", "resume"} & options.keys():
        raise TypeError(f"{name} belongs to a single run, not to a path; use minimize, with x0=path[k].x")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of a result (or None), got {callback!r}")
    levels = _levels(ks, risk, check_indices(keep, risk.n_features, "keep"))
    _check_validation(risk, validation)
    end = time.perf_counter() + (math.inf if time_limit is None else check_positive(time_limit, "time_limit"))
    found: dict[int, Result] = {}
    runs: list[Result] = []
    why = ""
    try:
        for sparsity, start in _starts(levels, found, x0, keep, warm_start, both_ways):
            k = sparsity.k
            left = end - time.perf_counter()
            if found and left <= 0:
                why = "the time limit was reached"
                break
            limit = None if time_limit is None else max(left, 1e-9)
            run = {"x0": start, "keep": keep, "time_limit": limit, "verbose": max(verbose - 1, 0), **options}
            with whole_call():
                runs.append(minimize(risk, sparsity, constraint, method, **run))
            res = found[k] = _best(runs[-1], [found[j] for j in found if j <= k])
            if verbose:
                print(f"k={k}: objective {res.fun:.8g}, {res.support.size} nonzeros, {runs[-1].n_gradients} gradients")
            if callback is not None:
                callback(res)
    except StopIteration:
        why = "the callback stopped the path"
    except KeyboardInterrupt:
        if not found or inside_a_larger_call():
            raise
        why = "interrupted from outside"
    results: list[Result] = []
    for k in sorted(found):  # the way down may have overtaken larger k
        results.append(_best(found[k], results[-1:]))
    message = f"{why} after {len(found)} of {len(levels)} k" if why else f"the answers for {len(levels)} values of k"
    return SparsePath(risk, results, validation, runs, message, done=not why)


def _starts(
    levels: list[Sparsity], found: dict[int, Result], x0: Any, keep: Any, warm_start: bool, both_ways: bool
) -> Iterator[tuple[Sparsity, Any]]:
    """Each k to run with its start, which depends on what was found by then."""
    given = x0 if isinstance(x0, Mapping) else {levels[0].k: x0}
    x0 = given.get(levels[0].k)
    for i, level in enumerate(levels):
        before = found[levels[i - 1].k].x if i and warm_start else x0
        yield level, given.get(level.k, before)
    if both_ways and len(levels) > 1:
        yield levels[-1], x0
        for level, larger in zip(levels[-2::-1], levels[:0:-1], strict=True):
            above = found[larger.k]
            try:
                start = restricted_projection(above.x, level, above.constraint, keep=keep)
            except EmptySlice:
                continue
            if not np.array_equal(np.flatnonzero(to_host(start)), found[level.k].support):
                yield level, start


def _best(res: Result, rivals: list[Result]) -> Result:
    """The result, or a better rival with the same or a smaller k."""
    rival = min(rivals, key=lambda r: r.fun, default=res)
    if res.fun <= rival.fun:
        return res
    return rival if rival.k == res.k else replace(rival, sparsity=res.sparsity, stationarity=math.nan, exchanges=None)


def _levels(ks: Any, risk: Risk, kept: np.ndarray) -> list[Sparsity]:
    if isinstance(ks, numbers.Integral):
        ks = Coordinates(check_count(ks, "ks", low=max(1, kept.size)))
    if isinstance(ks, Sparsity):
        within = ks.within(risk.n_features, risk.n_outputs)
        ks = [*map(ks.with_k, range(max(1, within.size(kept)), within.k + 1)), *([ks] if ks.k else [])]
    if isinstance(ks, (str, bytes)) or not isinstance(ks, Iterable) or getattr(ks, "ndim", 1) == 0:
        raise TypeError(
            "ks must be an integer K (for 1, ..., K), integers such as range(5, 50, 5), or a sparsity in place of "
            f"these, got {ks!r}"
        )
    asked = {sparsity.k: sparsity for sparsity in (as_sparsity(k, "ks") for k in ks)}
    if not asked:
        raise ValueError("ks must name at least one k, got none")
    if len(kinds := {type(sparsity) for sparsity in asked.values()}) > 1:
        raise TypeError(f"ks must be of one kind, got {' and '.join(sorted(kind.__name__ for kind in kinds))}")
    largest = asked[max(asked)]
    most = largest.within(risk.n_features, risk.n_outputs).k
    if largest.k > most:
        there = _there(largest, most, risk)
        warnings.warn(
            f"ks goes up to {largest.k}, which is greater than {there}: the path ends there", UserWarning, stacklevel=3
        )
    levels = {(level := sparsity.within(risk.n_features, risk.n_outputs)).k: level for sparsity in asked.values()}
    return [levels[k] for k in sorted(levels)]


def _check_validation(risk: Risk, validation: Any) -> None:
    if validation is None:
        return
    wanted, got = (
        f"a {type(r).__name__} of {getattr(r, 'n_features', '?')} coefficients"
        + (f" and labels {np.asarray(r.classes_).tolist()}" if hasattr(r, "classes_") else "")
        for r in (risk, validation)
    )
    if wanted != got:
        raise ValueError(f"validation must be the same kind of risk on other rows, {wanted}; got {got}")


def _level(k: Any, risk: Risk) -> Sparsity:
    """What k means, and at most what there is."""
    asked = as_sparsity(k)
    sparsity = asked.within(risk.n_features, risk.n_outputs)
    if asked.k > sparsity.k:
        so = "all features are allowed" if sparsity.quotas is None else "they alone limit w"
        if not sparsity.of_coordinates:
            so = "any w is allowed"
        warnings.warn(f"k={asked.k} is greater than {_there(asked, sparsity.k, risk)}: {so}", UserWarning, stacklevel=3)
    return sparsity


def _there(sparsity: Sparsity, most: int, risk: Risk) -> str:
    """What k is at the most, and why."""
    if sparsity.plain:
        return f"n_features={risk.n_features}"
    return f"the number of {sparsity.counted}, {most}" if sparsity.quotas is None else f"what the quotas allow, {most}"


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


def _monitor_interval(monitor: str | int) -> int:
    """Every so many iterations; 0 means at the end alone."""
    if isinstance(monitor, str):
        if monitor not in ("every", "final"):
            raise ValueError(f'monitor must be "every", "final" or a number of iterations, got {monitor!r}')
        return 1 if monitor == "every" else 0
    return check_count(monitor, "monitor")
