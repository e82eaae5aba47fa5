"""track and backtest: from prices to a portfolio."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from .. import __version__
from ..datasets.market import Market
from ..datasets.readers import read_prices, read_returns, read_sectors
from .inputs import check_names, output_options, reading, writable
from .outputs import answer_of, satisfied, settle, show_certificate, show_weights, weights_of, write_weights
from .screen import Exit, Problem, Screen, common, options


class Budget(click.ParamType):  # type: ignore[type-arg]
    """Σw: a number, a range, or anything."""

    name = "number|low:high|free"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """1, 0.95:1 or free."""
        if not isinstance(value, str) or value == "free":
            return None if value == "free" else value
        try:
            parts = [float(part) for part in value.split(":")]
        except ValueError:
            parts = []
        if len(parts) not in (1, 2):
            self.fail(f"{value!r} is no budget; write 1 (all invested), 0:1 (the rest in cash) or free")
        return parts[0] if len(parts) == 1 else tuple(parts)


class Every(click.ParamType):  # type: ignore[type-arg]
    """When to rebalance."""

    name = "days|week|month|quarter|year"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """21 or month."""
        if isinstance(value, int) or value in ("week", "month", "quarter", "year"):
            return value  # type: ignore[no-any-return]
        if not value.isdigit():
            self.fail(f"{value!r} is neither a number of days nor week, month, quarter or year")
        return int(value)


market_options = options(
    click.option("--prices", metavar="FILE", help="CSV: dates, then a column of prices for the index and every asset."),
    click.option("--returns", metavar="FILE", help="The same with simple returns, instead of prices."),
    click.option("--index", metavar="COLUMN", help="The index. Default: the first column after the dates."),
    click.option("--sectors", metavar="FILE", help="CSV with symbol,sector."),
    click.option("--since", metavar="DATE", help="Leave out earlier days."),
)
mandate_options = options(
    click.option("--k", type=click.IntRange(min=1), required=True, help="Names at the most."),
    click.option("--max-sector", type=click.FloatRange(min=0), metavar="SHARE", help="Cap on Σ|w| of every sector."),
    click.option("--max-weight", type=click.FloatRange(min=0), default=1.0, show_default=True, metavar="SHARE"),
    click.option("--short", type=click.FloatRange(min=0), default=0.0, metavar="SHARE", help="Largest short position."),
    click.option("--budget", type=Budget(), default="1", show_default=True, help="Σw; the rest is cash, earning 0."),
    click.option("--hold", multiple=True, metavar="NAME[=SHARE]", help="Always among the k, or held with this share."),
    click.option("--error", type=click.Choice(["squared", "variance", "huber"]), default="squared", show_default=True),
    click.option(
        "--starts", type=click.IntRange(min=1), default=16, show_default=True, help="Fresh starts of the search."
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For the fresh starts."),
)


@dataclass
class Question:
    """A market and what is asked of the portfolio."""

    market: Market
    files: dict[str, str]
    tracker: Any

    @classmethod
    def read(
        cls,
        prices: str | None,
        returns: str | None,
        index: str | None,
        sectors: str | None,
        since: str | None,
        k: int,
        max_sector: float | None,
        max_weight: float,
        short: float,
        budget: Any,
        hold: tuple[str, ...],
        error: str,
        starts: int,
        seed: int,
    ) -> Question:
        """From the options of the command line."""
        path = prices or returns
        if path is None or (prices and returns):
            raise click.UsageError("give either '--prices FILE' or '--returns FILE'")
        if max_sector is not None and sectors is None:
            raise click.UsageError("'--max-sector' needs the sector of every asset: add '--sectors FILE'")
        try:
            first = None if since is None else np.datetime64(since)
        except ValueError:
            raise click.UsageError(f"'--since {since}' is no date; write one such as 2021-03-01") from None
        with reading():
            known = None if sectors is None else read_sectors(sectors)
            market = (read_prices if prices else read_returns)(path, index, sectors=known)
            if first is not None:
                market = market.since(first)
        from ..portfolio import IndexTracker

        names = market.names.tolist()
        check_names(k, len(names))
        held = [entry.partition("=")[::2] for entry in hold]
        for name, _ in held:
            if name not in names:
                raise Problem(f"--hold {name}: {path} has no such asset; check the spelling", Exit.DATA)
        try:
            least = {name: float(share) for name, share in held if share}
        except ValueError:
            raise click.UsageError("'--hold NAME=SHARE' needs a number, such as AAPL=0.02") from None
        tracker = IndexTracker(
            k=k,
            max_sector_weight=max_sector,
            budget=budget,
            min_weights={**dict.fromkeys(names, 0.0 - short), **least} if least else 0.0 - short,
            max_weights=max_weight,
            keep=[name for name, _ in held] or None,
            error=error,
            n_starts=starts,
            random_state=seed,
        )
        files = {path: path} if sectors is None else {path: path, sectors: sectors}
        return cls(market, files, tracker)

    def headline(self) -> str:
        """For people."""
        market = self.market
        sectors = "" if market.sectors is None else f" in {len(set(market.sectors.tolist()))} sectors"
        days = "" if market.dates is None else f", {market.dates[0]} to {market.dates[-1]}"
        return f"{market.names.size} assets{sectors}, {len(market.returns)} days of returns{days}"

    def describe(self) -> dict[str, Any]:
        """For machines."""
        from ..report import fingerprint

        asked = {n: value for n, value in self.tracker.get_params().items() if n not in ("min_weights", "groups")}
        rows, columns = self.market.returns.shape
        files = [{"path": path, "sha256": fingerprint(path)} for path in self.files]
        return {"data": files, "days": rows, "assets": columns, "asked": asked}


#: the parameters of an `IndexTracker`, as options
_OPTIONS = {
    "k": "--k",
    "max_sector_weight": "--max-sector",
    "min_weights": "--short",
    "max_weights": "--max-weight",
    "held": "--hold",
}


@contextmanager
def in_our_words() -> Iterator[None]:
    """Infeasible requests are explained with the options of the command line."""
    from ..portfolio import InfeasibleMandate

    try:
        yield
    except InfeasibleMandate as error:
        raise Problem(error.told(_OPTIONS), Exit.INFEASIBLE) from error


def _readable(name: str, value: Any) -> str:
    """A fact of a summary: shares as percentages."""
    if isinstance(value, int) or name in ("periods per year", "names, mean"):
        return f"{value:g}"
    return f"{value:.1g}" if "violation" in name else f"{value:.2%}"


@click.command(
    epilog="""Examples:

\b
  ellzero track --prices prices.csv.gz --sectors sectors.csv --k 15 --max-sector 0.1 --report out.html
  ellzero track --prices prices.csv --k 20 --max-weight 0.08 --out weights.csv
  ellzero track --returns returns.csv --index SPX --k 30 --short 0.05 --budget 0.95:1 --json
  ellzero track --prices prices.csv --sectors sectors.csv --k 15 --max-sector 0.2 --hold AAPL --hold XOM=0.02
"""
)
@market_options
@mandate_options
@click.option(
    "--train",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    metavar="SHARE",
    help="Fit on this share of the days, the first ones; the others tell how it goes on.",
)
@click.option(
    "--certify", type=click.FloatRange(min=0), metavar="SECONDS", help="Prove how good it is; 0: no branching."
)
@output_options
@common
@click.pass_obj
def track(
    screen: Screen,
    /,
    train: float,
    certify: float | None,
    out: str | None,
    report: str | None,
    **asked: Any,
) -> None:
    """Track an index with at most k names.

    Long-only and fully invested unless --short and --budget say otherwise. Every bound, cap and the budget hold
    exactly; a request that no portfolio can meet is refused with the reason (exit code 4).
    """
    writable(out)
    writable(report)
    question = Question.read(**asked)
    screen.say(question.headline(), "bold")
    market, tracker = question.market, question.tracker
    fitted, later = (market, None) if train == 1 else market.split(train)
    returns, index, sectors = fitted.to_pandas()
    start = time.perf_counter()
    with screen.progress(f"tracking with {tracker.k} names"), in_our_words():
        tracker.fit(returns, index, groups=sectors)
    seconds = time.perf_counter() - start
    took = f"solved in {seconds:.1f} s"
    if certify is not None:
        start = time.perf_counter()
        with screen.progress("proving"):
            tracker.certify(returns, index, time_limit=certify or None)
        took += f", proved in {time.perf_counter() - start:.1f} s"
    result = tracker.result_
    labels = None if market.sectors is None else market.sectors.tolist()
    weights = weights_of(result.x, market.names.tolist(), labels)
    summary = dict(tracker.summary() if later is None else tracker.summary(*later.to_pandas()[:2]))
    screen.answer = {
        "command": screen.command,
        "version": __version__,
        "question": question.describe(),
        "summary": summary,
        "answer": answer_of(result),
        "weights": weights,
        "sector_weights": None if sectors is None else dict(tracker.sector_weights_),
        "seed": asked["seed"],
        "seconds": seconds,
    }
    screen.facts(_told(summary, result))
    if result.certificate is not None:
        show_certificate(screen, result.certificate)
    show_weights(screen, weights)
    write_weights(screen, out, weights)
    if report is not None:
        _report(screen, report, question, summary, len(fitted.returns), asked["seed"])
    screen.say(took, "dim")
    settle(screen, result)


def _told(summary: dict[str, Any], result: Any) -> dict[str, str]:
    """What a portfolio manager asks first."""
    after = {kind: summary.get(f"{kind} out of sample") for kind in ("tracking error", "mean active return")}
    error, active = (
        f"{summary[f'{kind} in sample']:.2%} a year on the days of the fit"
        + ("" if later is None else f", {later:.2%} on those after")
        for kind, later in after.items()
    )
    values = {
        "names": f"{summary['names']} of at most {result.k}, the largest {summary['largest weight']:.2%}",
        "invested": f"{summary['invested']:.2%}, cash {abs(summary['cash']):.2%}",
    }
    if "sectors" in summary:
        used = f"{summary['sectors used']} of {summary['sectors']}"
        values["sectors"] = f"{used}, the largest {summary['largest sector']:.2%}"
    return values | {
        "tracking error": f"{error} (annualised with {summary['periods per year']:g} days)",
        "active return": active,
        "constraints": satisfied(result),
    }


def _report(screen: Screen, path: str, question: Question, summary: dict[str, Any], cut: int, seed: int) -> None:
    from ..displays import TrackingDisplay
    from ..report import write_report

    market, tracker = question.market, question.tracker
    display = TrackingDisplay(
        index_returns=market.index_returns,
        portfolios={"portfolio": market.returns @ tracker.result_.x},
        dates=market.dates,
        test_from=cut if cut < len(market.returns) else None,
    )
    write_report(
        tracker,
        path,
        title=f"An index tracked with {tracker.result_.support.size} names",
        groups=None if market.sectors is None else market.sectors.tolist(),
        tracking=display,
        summary={name: text for name, text in _told(summary, tracker.result_).items() if name != "constraints"},
        data=question.files,
        seed=seed,
        command=screen.command,
    )
    screen.say(f"report: {path}")


@click.command(
    epilog="""Examples:

\b
  ellzero backtest --prices prices.csv.gz --sectors sectors.csv --k 15 --max-sector 0.1 --every quarter
  ellzero backtest --prices prices.csv --k 15 --window 120 --every 10 --cost 0.001 --report backtest.html
"""
)
@market_options
@mandate_options
@click.option("--window", type=click.IntRange(min=2), default=252, show_default=True, help="Days of every fit.")
@click.option("--expanding", is_flag=True, help="Fit on all days so far, at least --window.")
@click.option("--every", type=Every(), default="month", show_default=True, help="When to rebalance.")
@click.option(
    "--cost", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Of what is traded; 0.001: 10 bp."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Fits at the same time.")
@output_options
@common
@click.pass_obj
def backtest(
    screen: Screen,
    /,
    window: int,
    expanding: bool,
    every: int | str,
    cost: float,
    jobs: int | None,
    out: str | None,
    report: str | None,
    **asked: Any,
) -> None:
    """Walk forward: fit on the past, hold, rebalance, and count what it costs.

    No fit sees a day after its rebalancing. Weights drift between rebalancings, and trades cost --cost times the
    turnover.
    """
    writable(out)
    writable(report)
    question = Question.read(**asked)
    from ..portfolio.backtest import backtest as walk_forward
    from ..portfolio.backtest import rebalancing_days
    from ..portfolio.market import read_returns as checked

    screen.say(question.headline(), "bold")
    returns, index, sectors = question.market.to_pandas()
    total = len(rebalancing_days(checked(returns, index), window, every))
    start = time.perf_counter()
    done: list[Any] = []
    with screen.progress("walking forward", total) as update, in_our_words():

        def step(day: Any, fitted: Any) -> None:
            done.append(day)
            update(len(done), f"{len(done)} of {total} fits, {str(day)[:10]}")

        walk = walk_forward(
            question.tracker, returns, index, sectors, window=window, expanding=expanding, every=every, cost=cost,
            n_jobs=jobs, callback=step,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    summary = dict(walk.summary())
    trades: list[dict[str, Any]] = [
        {
            "date": str(day)[:10],
            "names": int((row != 0).sum()),
            "turnover": walk.turnover[day],
            "cost": walk.costs[day],
        }
        for day, row in walk.weights.iterrows()
    ]
    weights = [
        {"date": str(day)[:10], "name": str(name), "weight": float(weight)}
        for day, row in walk.weights.iterrows()
        for name, weight in row[row != 0].sort_values(ascending=False, key=abs).items()
    ]
    screen.answer = {
        "command": screen.command,
        "version": __version__,
        "question": {**question.describe(), "backtest": walk.asked},
        "summary": summary,
        "rebalancings": trades,
        "weights": weights,
        "seed": asked["seed"],
        "seconds": seconds,
    }
    screen.facts({"asked": walk.asked, **{name: _readable(name, value) for name, value in summary.items()}})
    rows = [[t["date"], f"{t['names']}", f"{t['turnover']:.1%}", f"{t['cost']:.3%}"] for t in trades]
    screen.table(["rebalanced", ">names", ">turnover", ">cost"], rows)
    write_weights(screen, out, weights)
    if report is not None:
        from ..report import write_report

        write_report(
            walk,
            report,
            title=f"A walk through {len(walk.returns)} days",
            summary={name: _readable(name, value) for name, value in summary.items()},
            data=question.files,
            seed=asked["seed"],
            command=screen.command,
        )
        screen.say(f"report: {report}")
    screen.say(f"{seconds:.1f} s; turnover counts purchases and sales", "dim")
