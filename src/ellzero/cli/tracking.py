"""What `track` and `backtest` ask: a market, and what is wanted of the portfolio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from click import Choice, FloatRange, IntRange, option

from ..datasets.market import Market
from ..datasets.readers import read_prices, read_returns, read_sectors
from ..displays import TrackingDisplay
from .files import reading
from .inputs import Read, check_names, seed_option
from .screen import Exit, File, Refusal, options


def _budget(text: str) -> Any:
    """Σw: a number, a range low:high, or free."""
    if text == "free":
        return None
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) not in (1, 2):
        raise ValueError(f"{text!r} is no budget; write 1 (all invested), 0:1 (the rest in cash) or free")
    return parts[0] if len(parts) == 1 else tuple(parts)


def _bound(text: str) -> tuple[str, float]:
    """A bound of every weight, 0.05, or of that of one asset, AAPL=0.02; the name is empty for every one."""
    name, _, share = text.rpartition("=")
    try:
        return name, float(share)
    except ValueError:
        raise ValueError(f"{text!r} needs a number, such as 0.05 for every asset or AAPL=0.02 for one") from None


BUDGET = Read("number|low:high|free", _budget)
BOUND = Read("[NAME=]SHARE", _bound)
_BOUNDS = "{} weight, of every asset (default {}) or of one. May be repeated."
market_options = options(
    option("--prices", metavar="FILE", help="CSV: dates, then a column of prices for the index and every asset."),
    option("--returns", metavar="FILE", help="The same with simple returns, instead of prices."),
    option("--index", metavar="COLUMN", help="The index. Default: the first column after the dates."),
    option("--sectors", metavar="FILE", help="CSV with symbol,sector."),
    option("--since", metavar="DATE", help="Leave out earlier days."),
)
#: in the words of `IndexTracker`
mandate_options = options(
    option("--k", type=IntRange(min=1), required=True, help="Names at the most."),
    option(
        "--max-sector-weight",
        "--max-sector",
        type=FloatRange(min=0),
        metavar="SHARE",
        help="Cap on Σ|w| of every sector.",
    ),
    option("--min-weights", type=BOUND, multiple=True, help=_BOUNDS.format("Least", "0; -0.05 allows short positions")),
    option("--max-weights", type=BOUND, multiple=True, help=_BOUNDS.format("Largest", "1")),
    option("--budget", type=BUDGET, default="1", help="Σw; the rest is cash, earning 0."),
    option("--keep", multiple=True, metavar="NAME", help="Always among the k. May be repeated."),
    option("--error", type=Choice(["squared", "variance", "huber"]), default="squared"),
    option("--n-starts", type=IntRange(min=1), default=16, help="Fresh starts of the search."),
    seed_option("For the fresh starts."),
)


@dataclass
class TrackingRequest:
    """A market and the tracker that was asked for."""

    market: Market
    files: dict[str, str]
    tracker: Any

    @classmethod
    def read(
        cls, prices: File, returns: File, sectors: File, index: str | None, since: str | None, **mandate: Any
    ) -> TrackingRequest:
        """From the options of the command line."""
        path = prices or returns
        if path is None or (prices and returns):
            raise click.UsageError("give either '--prices FILE' or '--returns FILE'")
        if mandate["max_sector_weight"] is not None and sectors is None:
            raise click.UsageError("'--max-sector-weight' needs the sector of every asset: add '--sectors FILE'")
        try:
            first = None if since is None else np.datetime64(since)
        except ValueError:
            raise click.UsageError(f"'--since {since}' is no date; write one such as 2021-03-01") from None
        with reading():
            known = None if sectors is None else read_sectors(sectors)
            market = (read_prices if prices else read_returns)(path, index, sectors=known)
            if first is not None:
                market = market.since(first)
        files = {path: path} if sectors is None else {path: path, sectors: sectors}
        return cls(market, files, _tracker(market.names.tolist(), path, **mandate))

    def headline(self) -> str:
        """For people."""
        market = self.market
        sectors = "" if market.sectors is None else f" in {len(set(market.sectors.tolist()))} sectors"
        days = "" if market.dates is None else f", {market.dates[0]} to {market.dates[-1]}"
        return f"{market.names.size} assets{sectors}, {len(market.returns)} days of returns{days}"

    def describe(self) -> dict[str, Any]:
        """For machines."""
        from ..report import fingerprint

        asked = {name: value for name, value in self.tracker.get_params().items() if name != "groups"}  # a file
        rows, columns = self.market.returns.shape
        files = [{"path": path, "sha256": fingerprint(path)} for path in self.files]
        return {"data": files, "days": rows, "assets": columns, "asked": asked}


def tracked(market: Market, x: np.ndarray, fitted: int) -> TrackingDisplay:
    """The portfolio beside the index; the days after the first `fitted` were not seen."""
    return TrackingDisplay(
        index_returns=market.index_returns,
        portfolios={"portfolio": market.returns @ x},
        dates=market.dates,
        test_from=fitted if fitted < len(market.returns) else None,
    )


def _tracker(
    names: list[str],
    path: str,
    k: int,
    keep: tuple[str, ...],
    min_weights: tuple[tuple[str, float], ...],
    max_weights: tuple[tuple[str, float], ...],
    seed: int,
    **mandate: Any,
) -> Any:
    """An `IndexTracker`, whose parameters have the names of the options."""
    from ..portfolio import IndexTracker

    check_names(k, len(names))
    bounds = {"--min-weights": dict(min_weights), "--max-weights": dict(max_weights)}
    for asked, given in {"--keep": keep, **bounds}.items():
        for name in given:
            if name and name not in names:
                raise Refusal(f"{asked} {name}: {path} has no such asset; check the spelling", Exit.DATA)
    least, most = (_by_asset(given, names) for given in bounds.values())
    return IndexTracker(
        k,
        min_weights=0.0 if least is None else least,
        max_weights=1.0 if most is None else most,
        keep=list(keep) or None,
        random_state=seed,
        **mandate,
    )


def _by_asset(given: dict[str, float], names: list[str]) -> Any:
    """A bound of every asset as a number; with other bounds for some as a mapping, the tracker's default left out."""
    if set(given) <= {""}:
        return given.get("")
    every = dict.fromkeys(names, given[""]) if "" in given else {}
    return every | {name: bound for name, bound in given.items() if name}
