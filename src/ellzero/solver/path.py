"""The answers for many k, and the choice among them."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..risks.base import Risk
from ..sparsity import Sparsity
from .result import Result

CRITERIA = ("ebic", "bic", "gic", "aic")
_RULES = (*sorted(CRITERIA), "validation", "validation-1se")


def information(risk: Risk, sparsity: Sparsity, w: Any, rule: str) -> float:
    """-2 log-likelihood + penalty(df) at w, up to a constant that does not depend on w: see `SparsePath.criterion`."""
    if rule not in CRITERIA:
        raise ValueError(f"rule must be one of {', '.join(sorted(CRITERIA))} here, got {rule!r}")
    misfit, df = risk.deviance(w), sparsity.freedom(w)
    if misfit is None:
        raise ValueError(
            f"{rule!r} needs a likelihood, and {type(risk).__name__} has none; hold some data out instead: "
            "minimize_path(..., validation=the same risk on other rows), then select('validation')"
        )
    log_n = math.log(risk.n_observations)
    penalties = {
        "aic": 2 * df,
        "bic": df * log_n,
        "gic": df * math.log(risk.n_features) * math.log(max(log_n, 1.0)),
        "ebic": df * log_n + 2 * sparsity.log_choices(w),
    }
    return float(misfit + penalties[rule])


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
    n_gradients, n_values, n_sweeps : int
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
        self.n_sweeps = sum(r.n_sweeps for r in runs)
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

        The first term is n log R for least squares (Gaussian noise of unknown size), 2nR for the logistic, multinomial
        and Poisson losses, and for gamma losses that of the likeliest shape; R leaves out the ridge. For n rows and d
        coefficients the penalty is

            aic: 2 df,   bic: df log n,   gic: df log d log log n,   ebic: df log n + 2 log C(d, df)

        (ebic: Chen and Chen 2008, gic: Fan and Tang 2013). df is the number of nonzeros, an upper bound of the
        degrees of freedom where Γ or the ridge is active; r(m + n - r) for a matrix of rank r. Where groups or features
        are counted, C is the number of choices of as many of them as are used, and 1 for ranks. Least squares with
        df >= n fits anything: infinity.
        """
        return np.array([information(self.risk, res.sparsity, res.x, rule) for res in self.results])

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
