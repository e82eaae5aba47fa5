"""From prices to returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from .market import read_series, read_table, refuse_gaps, told_day

_MISSING = ("raise", "drop_assets", "drop_days")


def prices_to_returns(prices: Any, index_prices: Any = None, *, missing: str = "raise") -> Any:
    """Simple returns r_t = p_t / p_{t-1} - 1: one day fewer than there are prices.

    Parameters
    ----------
    prices : DataFrame or array of shape (n_days + 1, n_assets)
        Oldest first.
    index_prices : Series or array of shape (n_days + 1,), optional
        Levels of the index, on the same dates.
    missing : {"raise", "drop_assets", "drop_days"}
        What to do about missing prices: refuse, leave out every asset that has a gap, or leave out every day on
        which a price is missing (a return then spans the gap). A gap in the index can only be refused or left out
        as a day.

    Returns
    -------
    returns : DataFrame or array
    index_returns : Series or array
        Only if index_prices is given.

    Examples
    --------
    >>> import pandas as pd, ellzero as ez
    >>> prices = pd.DataFrame({"AAA": [50.0, 51.0, 51.0], "BBB": [8.0, None, 8.0]})
    >>> ez.portfolio.prices_to_returns(prices, missing="drop_assets")
        AAA
    1  0.02
    2  0.00
    """
    if missing not in _MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, _MISSING))}, got {missing!r}")
    table, names, days = read_table(prices, "prices")
    if hasattr(prices, "columns") and not days.is_monotonic_increasing:
        raise ValueError(
            f"prices must come oldest first, but {told_day(days[0])} is the first day and {told_day(days[-1])} the "
            "last; use sort_index(), after pandas.to_datetime where the dates are text"
        )
    level = None if index_prices is None else read_series(index_prices, days, len(table), "index_prices", "prices")
    gaps = np.isnan(table)
    rows, columns = np.ones(len(table), dtype=bool), np.ones(table.shape[1], dtype=bool)
    if missing == "drop_assets":
        columns = ~gaps.any(axis=0)
        if not columns.any():
            raise ValueError(f"every asset has a missing price, so {missing=} leaves none; use missing='drop_days'")
    elif missing == "drop_days":
        rows = ~gaps.any(axis=1) if level is None else ~(gaps.any(axis=1) | np.isnan(level))
    table = table[np.ix_(rows, columns)]
    names, days = names[columns], days[rows]
    remedy = "fill it in, or use missing='drop_assets' or missing='drop_days'"
    refuse_gaps(table, names, days, "prices", remedy)
    if len(table) < 2:
        raise ValueError(f"one return needs two days of prices, got {len(table)}; add earlier days")
    _positive(table, names, days, "prices")
    returns = table[1:] / table[:-1] - 1.0
    answer = returns if not hasattr(prices, "columns") else type(prices)(returns, index=days[1:], columns=names)
    if level is None:
        return answer
    level = level[rows]
    refuse_gaps(
        level[:, None], np.array(["the index"]), days, "index_prices", remedy.replace("'drop_assets' or missing=", "")
    )
    _positive(level[:, None], np.array(["the index"]), days, "index_prices")
    change = level[1:] / level[:-1] - 1.0
    if hasattr(index_prices, "index") and not hasattr(index_prices, "columns"):
        change = type(index_prices)(change, index=days[1:], name=index_prices.name)
    elif hasattr(index_prices, "columns"):
        change = index_prices.iloc[1:, 0]._constructor(change, index=days[1:], name=index_prices.columns[0])
    return answer, change


def _positive(table: np.ndarray, names: np.ndarray, days: Any, argument: str) -> None:
    bad = ~((table > 0) & np.isfinite(table))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{argument} must be above 0 and finite, got {table[row, column]:g} for {names[column]} on "
            f"{told_day(days[row])}"
        )
