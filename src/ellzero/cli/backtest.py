"""``ellzero backtest``: walks forward through the days."""

import time
from typing import Any

from click import FloatRange, IntRange, option

from .inputs import Read, output_options
from .outputs import write_html, write_weights
from .screen import File, Screen, command, options
from .tracking import TrackingRequest, mandate_options, market_options


def _period(text: str) -> int | str:
    """When to rebalance: after so many days, or at the end of a week, month, quarter or year."""
    if text in ("week", "month", "quarter", "year"):
        return text
    if not text.isdigit():
        raise ValueError(f"{text!r} is neither a number of days nor week, month, quarter or year")
    return int(text)


PERIOD = Read("days|week|month|quarter|year", _period)
_EXAMPLES = """
  ellzero backtest --prices prices.csv.gz --sectors sectors.csv --k 15 --max-sector-weight 0.1 --every quarter
  ellzero backtest --prices prices.csv --k 15 --window 120 --every 10 --cost 0.001 --report backtest.html
"""
_OPTIONS = options(
    option("--window", type=IntRange(min=2), default=252, help="Days of every fit."),
    option("--expanding", is_flag=True, help="Fit on all days so far, at least --window."),
    option("--every", type=PERIOD, default="month", help="When to rebalance."),
    option("--cost", type=FloatRange(0, 1), default=0.0, help="Of what is traded; 0.001: 10 bp."),
    option("--n-jobs", type=IntRange(min=1), help="Fits at the same time."),
)


@command(_EXAMPLES, market_options, mandate_options, _OPTIONS, output_options)
def backtest(screen: Screen, /, out: File, report: File, **asked: Any) -> None:
    """Walk forward: fit on the past, hold, rebalance, and count what it costs.

    No fit sees a day after its rebalancing. Weights drift between rebalancings, and trades cost --cost times the
    turnover.
    """
    options = {name: asked.pop(name) for name in ("window", "expanding", "every", "cost", "n_jobs")}
    request = TrackingRequest.read(**asked)
    screen.say(request.headline(), "bold")
    start = time.perf_counter()
    walk = _walk(screen, request, **options)
    seconds = time.perf_counter() - start
    summary = dict(walk.summary())
    trades = [
        {"date": str(day)[:10], "names": int((row != 0).sum()), "turnover": walk.turnover[day], "cost": walk.costs[day]}
        for day, row in walk.weights.iterrows()
    ]
    weights = [
        {"date": str(day)[:10], "name": str(name), "weight": float(weight)}
        for day, row in walk.weights.iterrows()
        for name, weight in row[row != 0].sort_values(ascending=False, key=abs).items()
    ]
    screen.reply(
        question={**request.describe(), "backtest": walk.asked},
        summary=summary,
        rebalancings=trades,
        weights=weights,
        seed=asked["seed"],
        seconds=seconds,
    )
    told = {name: _readable(name, value) for name, value in summary.items()}
    screen.facts({"asked": walk.asked, **told})
    rows = [[t["date"], f"{t['names']}", f"{t['turnover']:.1%}", f"{t['cost']:.3%}"] for t in trades]
    screen.table(["rebalanced", ">names", ">turnover", ">cost"], rows)
    write_weights(screen, out, weights)
    title = f"A walk through {len(walk.returns)} days"
    write_html(screen, report, walk, title=title, summary=told, data=request.files, seed=asked["seed"])
    screen.say(f"{seconds:.1f} s; turnover counts purchases and sales", "dim")


def _walk(screen: Screen, request: TrackingRequest, **options: Any) -> Any:
    """`ellzero.backtest`, with a bar."""
    from ..portfolio.backtest import backtest, rebalancing_days
    from ..portfolio.market import read_returns

    returns, index, sectors = request.market.to_pandas()
    total = len(rebalancing_days(read_returns(returns, index), options["window"], options["every"]))
    done: list[Any] = []
    with screen.progress("walking forward", total) as update:

        def step(day: Any, fitted: Any) -> None:
            done.append(day)
            update(len(done), f"{len(done)} of {total} fits, {str(day)[:10]}")

        return backtest(request.tracker, returns, index, sectors, callback=step, **options)


def _readable(name: str, value: Any) -> str:
    """A fact of a summary: shares as percentages."""
    return f"{value:g}" if isinstance(value, int) or name in ("periods per year", "names, mean") else f"{value:.2%}"
