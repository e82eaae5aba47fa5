"""Experiment 2: follow an index with k = 15 names and at most D in every sector.

min ||Aw - y||² subject to ||w||_0 <= 15 and ||w_G||_1 <= D for every sector G; A and y hold the daily returns of the
assets and of the index, the first 80% of the days for the fit and the rest for the test. The paper's methods are
IHT-2SP and two baselines: projected gradient onto Γ with a final H_k ("PGD+H"), and IHT with a final projection onto
Γ ("IHT+P"). The paper's D never binds on these markets, so that the same is asked with a D that does.
"""

import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import risks, sets
from ..certificates import certify
from ..datasets.market import Market, make_market
from ..datasets.readers import read_prices
from ..datasets.text_files import read_rows
from ..minimize import minimize
from ._report import Chapter, Files, Plan
from ._track_report import Answer, Setting, finish

K = 15
METHODS = ("auto", "IHT-2SP", "PGD+H", "IHT+P")
SETTINGS = {
    "SP500": Setting("S&P 500", 50.0, (0.1, 0.05), None, True, False, "9 of 11", "497 assets, 11 sectors, 402 days"),
    "HSI": Setting("HSI", 1000.0, (0.2, 0.1), None, False, True, "3 of 4", "72 assets, 4 sectors, 394 days"),
    "CSI300": Setting(
        "CSI 300", 100.0, (0.1, 0.05), "2021-03-01", True, True, "7 of 10", "291 assets, 10 sectors, 353 days",
        merge=("Real Estate", "Financials"),
    ),
}  # fmt: skip


def load(prices: Any, sectors: Any) -> dict[str, tuple[Market, Setting]]:
    """The markets by title, with what the paper says about them."""
    if prices is None:
        market = make_market(500, 200, rng=0)
        return {"simulated": (market, Setting("simulated", None, (0.1, 0.05)))}
    found: dict[str, tuple[Market, Setting]] = {}
    for price_file, sector_file in _files(prices, sectors):
        market = read_prices(price_file, sectors=sector_file)
        setting = _setting(price_file)
        if setting.merge is not None and market.sectors is not None:
            merged = np.where(market.sectors == setting.merge[0], setting.merge[1], market.sectors)
            market = Market(market.returns, market.index_returns, market.names, merged, market.dates)
        found[setting.title] = (market if setting.since is None else market.since(setting.since), setting)
    order = [setting.title for setting in SETTINGS.values()]
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order)))


def _setting(path: Path) -> Setting:
    """The paper's, if the index column is one of its indices."""
    with read_rows(path) as (header, _):
        index = header[1]
    return SETTINGS.get(index, Setting(index, None, (0.1, 0.05)))


def _paths(given: Files) -> list[Path]:
    return [Path(given)] if isinstance(given, (str, os.PathLike)) else [Path(path) for path in given or ()]


def _files(prices: Files, sectors: Files) -> list[tuple[Path, Path]]:
    """Pairs of files, from files or folders."""
    price_list, sector_list = _paths(prices), _paths(sectors)
    pairs: list[tuple[Path, Path]] = []
    for path in price_list:
        if path.is_dir():
            inside = [p for folder in (path, *sorted(path.iterdir())) for p in sorted(folder.glob("prices.csv*"))]
            if not (inside := [p for p in inside if (p.parent / "sectors.csv").exists()]):
                raise FileNotFoundError(f"prices={path} holds no prices.csv(.gz) with a sectors.csv beside it")
            pairs += [(p, p.parent / "sectors.csv") for p in inside]
        elif sector_list:
            pairs.append((path, sector_list.pop(0)))
        else:
            raise ValueError(f"sectors must name a file for each file of prices, got none for {path}")
    if sector_list:
        raise ValueError(f"sectors has {len(sector_list)} file(s) more than prices: {sector_list[0]} is left over")
    return pairs


def answer(market: Market, title: str, cap: float, method: str, max_iter: int, patience: float | None) -> Answer:
    """Fit, certify and look at what came out."""
    train, _ = market.split()
    assert train.sectors is not None
    risk = risks.LeastSquares(train.returns, train.index_returns)
    caps = sets.GroupWise(sets.L1Ball(cap), groups=train.sectors)
    start = time.perf_counter()
    res = minimize(risk, K, caps, method=method, max_iter=max_iter, rng=0)
    seconds = time.perf_counter() - start
    used = {s: float(np.abs(res.x[train.sectors == s]).sum()) for s in np.unique(train.sectors)}
    return Answer(
        title, cap, method, res.x, len(train.returns) * res.fun, seconds, int(res.support.size),
        sum(total > 0 for total in used.values()), max(used.values()),
        len(train.returns) * certify(risk, res, patience).lower_bound if method == "auto" else math.nan,
        np.cumprod(1 + market.returns @ res.x) - 1,
    )  # fmt: skip


def plan(*, full: bool = False, seed: int = 0, prices: Files = None, sectors: Files = None) -> Plan:
    """A task for each market, cap and method."""
    if prices is None and sectors is not None:
        raise ValueError(f"sectors={sectors!r} needs prices; give both, or neither for a simulated market")
    markets = load(prices, sectors)
    max_iter, patience = (100_000, 60.0) if full else (3000, None)  # None: one relaxation, the same on every machine
    tasks = {}
    for title, (market, setting) in markets.items():
        for cap in (*([] if setting.cap is None else [setting.cap]), *setting.binding):
            for method in METHODS:
                tasks[title, cap, method] = (answer, (market, title, cap, method, max_iter, patience))

    def done(results: dict[Any, Answer]) -> Chapter:
        return finish(markets, list(results.values()), max_iter)

    return Plan("index tracking: each market, cap and method", tasks, done)
