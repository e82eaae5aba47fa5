"""``ellzero demo``: a simulated index, without any file."""

import math
import time

import numpy as np
from click import FloatRange, IntRange, option

from .._core.interruption import whole_call
from ..datasets import Market, make_market
from ..minimize import minimize
from ..risks import LeastSquares
from ..sets import GroupWise, L1Ball
from ..solver.result import Result
from .inputs import check_names, report_option, seed_option
from .outputs import answer_of, weights_of, write_html
from .screen import Screen, command, options
from .tracking import tracked

_MAX_ITER = 10_000
_METHODS = {
    "auto": "the default: exact projections, refits and exchanges",
    "IHT-2SP": "the paper's two-step projection",
    "PGD+H": "obeys only the caps on the way, then keeps the k largest",
    "IHT+P": "obeys only k on the way, then projects onto the caps",
}
_EXAMPLES = """
  ellzero demo
  ellzero demo --k 30 --cap 0.05 --report demo.html
"""
_OPTIONS = options(
    option("--k", type=IntRange(min=1), default=15, help="Names at the most."),
    option("--cap", type=FloatRange(min=0), default=0.1, help="Largest Σ|w| of a sector."),
    seed_option("Which market."),
    report_option("A report on the default's answer, as one HTML file."),
)


@command(_EXAMPLES, _OPTIONS)
def demo(screen: Screen, /, k: int, cap: float, seed: int, report: str | None) -> None:
    """Track a simulated index with few names and a cap on every sector.

    The default method, the paper's, and the two naive ways of obeying two constraints.
    """
    market = make_market(rng=seed)
    check_names(k, market.names.size)
    train, test = market.split()
    assert market.sectors is not None
    caps = GroupWise(L1Ball(cap), groups=train.sectors)
    risk = LeastSquares(train.returns, train.index_returns)
    screen.say(
        f"{train.names.size} simulated names in {len(caps.names)} sectors, {len(train.returns)} days to fit, "
        f"{len(test.returns)} to test; at most {k} names, at most {cap:g} in any sector"
    )
    results: dict[str, Result] = {}
    rows, answers = [], []
    for name in _METHODS:
        start = time.perf_counter()
        with whole_call(), screen.progress(name):
            results[name] = res = minimize(risk, k, caps, name, max_iter=_MAX_ITER, rng=seed)
        seconds = time.perf_counter() - start
        errors = [_error(res.x, market) for market in (train, test)]
        largest = max(float(np.abs(res.x[market.sectors == s]).sum()) for s in np.unique(market.sectors))
        rows.append([name, *(f"{e:.1f}" for e in errors), f"{res.support.size}", f"{largest:.4f}", f"{seconds:.1f} s"])
        answers.append({**answer_of(res), "train_error_bp": errors[0], "test_error_bp": errors[1]})
    columns = ["method", ">fit", ">test", ">names", ">largest sector", ">time"]
    screen.table(columns, rows, "tracking error on the days of the fit and after, in basis points a day")
    screen.facts(_METHODS)
    best = results["auto"]
    weights = weights_of(best.x, market.names.tolist(), market.sectors.tolist())
    screen.answer = {"seed": seed, "methods": answers, "weights": weights}
    title = f"A simulated index with {best.support.size} names"
    write_html(
        screen, report, best, title=title, feature_names=market.names.tolist(), seed=seed,
        tracking=tracked(market, best.x, len(train.returns)), data={"simulated returns": market.returns},
    )  # fmt: skip


def _error(w: np.ndarray, market: Market) -> float:
    """The root mean square of the daily difference to the index, in basis points."""
    return 1e4 * math.sqrt(float(np.mean((market.returns @ w - market.index_returns) ** 2)))
