"""Experiment 3: multiclass logistic regression on dna, with gradients, batches and function values.

R(w) = mean cross-entropy + (λ/c) Σ_j ||w_j||², λ = 10, c = 3 classes, d = 540; at most k nonzeros and ||w_j||_2 <= D
for every class. FG-, HSG- and HZO-HT-2SP with the parameters of their theorems (α = 2, B = 1e5, μ = 1e-6; ρ = 1/2 and
s2 = d are our reading, the paper does not state them), against #IFO, #IZO and #HT; HZO-HT against ZOHT without Γ.
The constants are those of the risk that is computed: ν = 2λ/c, L = ||X||²/(2n) + 2λ/c. The paper's L has 2λ.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import risks, sets
from .._core.directions import Directions
from ..certificates import certify
from ..datasets.dna import Classification, load_dna
from ..minimize import minimize
from ..solver.methods import preset
from ..theory.parameters import prescribe, zoht_step
from ._logistic_report import Budget, Trace, finish
from ._report import Plan

RIDGE = 2 * 10 / 3  # (ridge/2)||w||² = (λ/c)||w||²
SETTINGS = ((50, 0.5), (150, 0.5), (50, 0.01), (150, 0.01))
FREE = (50, 100, 150)
SMALL = "auto, λ = 0.01"  # what a usual penalty does for the test accuracy
QUICK, FULL = Budget(100, 300_000, 3), Budget(500, 3_000_000, 5)


@lru_cache(maxsize=1)
def problem() -> tuple[Classification, risks.Multinomial]:
    """The data and the risk; made once a process."""
    data = load_dna()
    return data, risks.Multinomial(data.X, data.y, ridge=RIDGE)


def step_ratios(k: int = 100) -> dict[str, float]:
    """HZO-HT's step over ZOHT's, with L and ν of the risk and with 2λ instead of 2λ/c in one or both of them.

    The paper's risk has (λ/c)||w_j||² for each of the c classes, so 2λ/c in its Hessian, and the L it gives has 2λ.
    """
    _, risk = problem()
    L, nu, more = risk.smoothness.value, risk.strong_convexity.value, 2 * RIDGE  # 2λ = 3 · RIDGE
    ratios = {}
    cases = {"2λ/c in L and ν": (L, nu), "2λ in L": (L + more, nu), "2λ in both": (L + more, nu + more)}
    for name, (L_, nu_) in cases.items():
        p = prescribe("HZO-HT", L_, nu_, k=k, alpha=2.0, d=risk.n_features)
        assert p.tau is not None
        q, s = math.ceil(p.tau), min(3 * k, risk.n_features)
        ratios[name] = p.step / zoht_step(L_, nu_, risk.n_features, s, risk.n_features, q)
    return ratios


def balls(D: float | None) -> sets.ConstraintSet | None:
    """||w_j||_2 <= D for every class."""
    return None if D is None else sets.GroupWise(sets.L2Ball(D), np.repeat(np.arange(3), 180))


def trace(method: str, k: int, D: float | None, seed: int, budget: Budget) -> Trace:
    """One run of one method."""
    data, risk = problem()
    if method == SMALL:
        risk = risks.Multinomial(data.X, data.y, ridge=RIDGE / 1000)
    queried: Any = risk
    options: dict[str, Any] = {"rng": seed, "tol": 0.0, "max_iter": 10**6}
    chosen: Any = method
    if method == "FG-HT-2SP":
        options["max_iter"] = budget.gradients
    elif method == "HSG-HT-2SP":
        chosen = preset(method, rho=0.5, alpha=2.0, B=1e5)

        def enough(res: Any) -> None:
            if res.n_gradients >= budget.gradients * risk.n_terms:
                raise StopIteration

        options["callback"] = enough
    elif method in ("auto", SMALL):
        chosen, options = "auto", {"rng": seed}
    else:
        options["max_queries"] = budget.queries
        if method == "HZO-HT-2SP":
            chosen = preset(method, rho=0.5, alpha=2.0, mu=1e-6)
        if method == "auto (values)":
            chosen, queried = "auto", _blind(risk)
            options["max_queries"] = budget.queries // 3
    res = minimize(queried, k, balls(D), method=chosen, **options)
    h = res.history
    bound = float(certify(risk, res).lower_bound) if method == "auto" else float("nan")
    scores = data.X_test @ res.x.reshape(3, -1).T
    accuracy = float(np.mean(risk.classes_[scores.argmax(axis=1)] == data.y_test))
    columns = (h.fun, h.n_gradients, h.n_values + (0 if queried is risk else h.n_monitor), h.n_thresholds)
    step = float(h.step[1]) if len(h) > 1 else float("nan")
    return Trace(
        method, k, D, seed, *columns, step, res.fun, accuracy, int(res.support.size), float(h.time[-1]), bound
    )  # fmt: skip


def _blind(risk: risks.Multinomial) -> risks.BlackBox:
    """The same function, with its values alone."""
    origin = risk.at(risk.zero)

    def values(W: np.ndarray) -> np.ndarray:
        return risk.values_along(origin, Directions(W, None, risk.n_features), 1.0)

    return risks.BlackBox(values, risk.n_features, batched=True)


def plan(*, full: bool = False, seed: int = 0) -> Plan:
    """The long runs first, so that no process waits at the end."""
    budget = FULL if full else QUICK
    seeds = range(seed, seed + budget.seeds)
    runs = [(m, k, None, s) for m in ("HZO-HT", "ZOHT") for k in FREE for s in seeds]
    runs += [(m, k, D, s) for m in ("HZO-HT-2SP", "auto (values)") for k, D in SETTINGS for s in seeds]  # type: ignore[misc]
    runs += [("HSG-HT-2SP", k, D, s) for k, D in SETTINGS for s in seeds]  # type: ignore[misc]
    runs += [(m, k, D, seed) for m in ("FG-HT-2SP", "auto") for k, D in SETTINGS]  # type: ignore[misc]
    runs += [("auto", k, None, seed) for k in FREE]
    runs.append((SMALL, 50, None, seed))
    tasks = {key: (trace, (*key, budget)) for key in runs}
    text = f"logistic: {budget.queries:,} queries a zeroth-order run, {budget.seeds} seeds"
    return Plan(text, tasks, lambda results: finish(list(results.values()), budget, step_ratios()))
