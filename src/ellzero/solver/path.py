"""The answers for many k, each started from its neighbour's, and the choice among them."""

from __future__ import annotations

import math
import numbers
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.interruption import inside_a_larger_call, whole_call
from .._core.validation import check_count, check_indices, check_positive
from ..risks.base import Risk
from ..sets import ConstraintSet, EmptySlice
from ..sparsity import Coordinates, Sparsity, as_sparsity
from .projections import restricted_projection
from .result import Result

_RULES = ("aic", "bic", "ebic", "gic", "validation", "validation-1se")


class SparsePath:
    """w(k) = argmin R(w) over ||w||_0 <= k, w in Γ, as found for each of many k; made by `minimize_path`.

    ``path[k]`` is the result for this k, and iteration goes through the results.

    Attributes
    ----------
    results : list of Result
        In the order of k. Where no run did better than a smaller k, the result is the one of that k.
    ks, fun, nonzeros, supports : array, array, array, list of array
        k, R(w(k)), which never increases, and the number and the places of the nonzeros of w(k).
    validation, validation_se : array or None
        Mean loss on held-out data and its standard error (NaN where the risk has no rows).
    n_gradients, n_values : int
        The cost of all runs, in the units of `Result`.
    message : str
        How the path ended.
    success : bool
        Whether every k was reached, by runs that ended because their job was done.
    """

    def __init__(
        self, risk: Risk, results: list[Result], held_out: Risk | None, runs: list[Result], message: str, done: bool
    ) -> None:
        self.risk, self.results, self.message = risk, results, message
        self.ks = np.array([res.k for res in results])
        self.fun = np.array([res.fun for res in results])
        self.supports = [res.support for res in results]
        self.nonzeros = np.array([support.size for support in self.supports])
        self.n_gradients, self.n_values = sum(r.n_gradients for r in runs), sum(r.n_values for r in runs)
        self.success = done and all(res.success for res in results)
        self.validation: np.ndarray | None = None
        if held_out is not None:
            self.validation, self.validation_se = np.array([held_out.held_out_loss(res.x, risk) for res in results]).T

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, k: int) -> Result:
        for res in self.results:
            if res.k == k:
                return res
        raise KeyError(f"k={k!r} is not on the path, which has {', '.join(map(str, self.ks))}")

    def criterion(self, rule: str) -> np.ndarray:
        """-2 log-likelihood + penalty(df) for every k, up to a constant; the smallest is the best.

        The first term is n log R for least squares (Gaussian noise of unknown size) and 2nR for the logistic,
        multinomial and Poisson losses, where R leaves out the ridge. For n rows and d coefficients the penalty is

            aic: 2 df,   bic: df log n,   gic: df log d log log n,   ebic: df log n + 2 log C(d, df)

        (ebic: Chen and Chen 2008, gic: Fan and Tang 2013). df is the number of nonzeros, an upper bound of the
        degrees of freedom where Γ or the ridge is active. Least squares with df >= n fits anything: infinity.
        """
        risk, d, df = self.risk, self.risk.n_features, self.nonzeros
        misfit = [risk.deviance(res.x) for res in self.results]
        if None in misfit:
            raise ValueError(
                f"{rule!r} needs a likelihood, and {type(risk).__name__} has none; hold some data out instead: "
                "minimize_path(..., validation=the same risk on other rows), then select('validation')"
            )
        log_n = math.log(risk.n_observations)
        log_choose = [math.lgamma(d + 1) - math.lgamma(m + 1) - math.lgamma(d - m + 1) for m in df.tolist()]
        penalties = {
            "aic": 2 * df,
            "bic": df * log_n,
            "gic": df * math.log(d) * math.log(max(log_n, 1.0)),
            "ebic": df * log_n + 2 * np.array(log_choose),
        }
        if rule not in penalties:
            raise ValueError(f"rule must be one of {', '.join(penalties)} here, got {rule!r}")
        return np.asarray(np.array(misfit, dtype=float) + penalties[rule])

    def select(self, rule: str) -> Result:
        """The result for the best k.

        Parameters
        ----------
        rule : {"validation", "validation-1se", "ebic", "bic", "aic", "gic"}
            "validation": the smallest mean loss on held-out data (without the ridge; the intercept is that of the
            fit). "validation-1se": the smallest k within one standard error of it. Others: see `criterion`.
        """
        if rule not in _RULES:
            raise ValueError(f"rule must be one of {', '.join(_RULES)}, got {rule!r}")
        if not rule.startswith("validation"):
            return self.results[int(np.argmin(self.criterion(rule)))]
        if self.validation is None:
            raise ValueError(f"{rule!r} needs held-out data: minimize_path(..., validation=the risk on other rows)")
        values = np.where(np.isnan(self.validation), math.inf, self.validation)
        best = int(np.argmin(values))
        if rule == "validation":
            return self.results[best]
        if math.isnan(self.validation_se[best]):
            raise ValueError(f"{rule!r} needs losses of rows, {type(self.risk).__name__} has none; use 'validation'")
        return self.results[int(np.argmax(values <= values[best] + self.validation_se[best]))]

    def __repr__(self) -> str:
        best = None if self.validation is None else self.select("validation")
        rows = [f"{'k':>6}{'nonzeros':>10}{'objective':>14}" + ("" if best is None else f"{'held-out':>14}")]
        for i, res in enumerate(self.results):
            held_out = "" if self.validation is None else f"{self.validation[i]:>14.6g}"
            mark = "  smallest" if res is best else ""
            rows.append(f"{res.k:>6}{res.support.size:>10}{res.fun:>14.6g}{held_out}{mark}")
        if len(rows) > 21:
            rows[11:-10] = ["   ..."]
        return f"ellzero path: {self.message}\n" + "\n".join(rows)


def follow(
    minimize: Callable[..., Result],
    risk: Risk,
    ks: int | Sparsity | Iterable[int | Sparsity],
    constraint: ConstraintSet | None,
    method: Any,
    *,
    warm_start: bool,
    both_ways: bool,
    validation: Risk | None,
    x0: Any,
    keep: Any,
    time_limit: float | None,
    callback: Callable[[Result], Any] | None,
    verbose: int,
    **options: Any,
) -> SparsePath:
    """w(k) = argmin R(w) over ||w||_0 <= k, w in Γ, for every k of a list; see `ellzero.minimize_path`."""
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ellzero.risks.LeastSquares(X, y), got {risk!r}")
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
    for i, level in enumerate(levels):
        yield level, found[levels[i - 1].k].x if i and warm_start else x0
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
    return rival if rival.k == res.k else replace(rival, sparsity=res.sparsity, stationarity=math.nan)


def _levels(ks: Any, risk: Risk, kept: np.ndarray) -> list[Sparsity]:
    if isinstance(ks, numbers.Integral):
        ks = Coordinates(check_count(ks, "ks", low=max(1, kept.size)))
    if isinstance(ks, Sparsity):
        within = ks.within(risk.n_features)
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
    most = largest.most(risk.n_features)
    if largest.k > most:
        there = f"n_features={risk.n_features}" if largest.plain else f"the number of {largest.counted}, {most}"
        warnings.warn(
            f"ks goes up to {largest.k}, which is greater than {there}: the path ends there", UserWarning, stacklevel=3
        )
    levels = {(level := sparsity.within(risk.n_features)).k: level for sparsity in asked.values()}
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
