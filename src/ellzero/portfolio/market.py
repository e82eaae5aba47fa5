"""What a market tells: prices, returns, sectors, numbers by asset; errors name the asset and the day."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.lazy import need
from .._core.validation import is_masked

_MISSING = ("raise", "drop_assets", "drop_days")


def need_pandas() -> Any:
    """pandas, or how to get it."""
    return need("pandas", "this needs pandas: pip install 'ellzero[portfolio]'")


@dataclass(frozen=True)
class Returns:
    """Returns as arrays, with what the frames told about them.

    Attributes
    ----------
    returns : array of shape (n_days, n_assets)
    index : array of shape (n_days,) or None
    names : array of shape (n_assets,)
        Column names, or numbers.
    days : array or pandas Index of shape (n_days,)
        Row labels, or numbers.
    framed : bool
        Whether the returns came as a DataFrame.
    """

    returns: np.ndarray
    index: np.ndarray | None
    names: np.ndarray
    days: Any
    framed: bool


def read_returns(X: Any, y: Any = None) -> Returns:
    """Returns and index returns, checked and aligned."""
    table, names, days = _read_table(X, "returns")
    _refuse_gaps(table, names, days, "returns", "drop the asset or the day, or fill it in")
    if not np.isfinite(table).all():
        i, j = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"returns must be finite, got {table[i, j]} for {names[j]} on {told_day(days[i])}")
    if table.size and (table > 0).all() and float(np.median(table)) > 0.5:
        raise ValueError(
            f"returns look like prices (all above 0, median {float(np.median(table)):.4g}); give simple returns such "
            "as 0.01 for 1%: returns, index_returns = ellzero.portfolio.prices_to_returns(prices, index_prices)"
        )
    index = None
    if y is not None:
        index = _read_series(y, days, len(table), "index_returns", "returns")
        _refuse_gaps(index[:, None], np.array(["the index"]), days, "index_returns", "drop the day, or fill it in")
        if not np.isfinite(index).all():
            raise ValueError("index_returns must be finite; drop the days on which they are not")
    return Returns(table, index, names, days, hasattr(X, "columns"))


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
    table, names, days = _read_table(prices, "prices")
    if hasattr(prices, "columns") and not days.is_monotonic_increasing:
        raise ValueError(
            f"prices must come oldest first, but {told_day(days[0])} is the first day and {told_day(days[-1])} the "
            "last; use sort_index(), after pandas.to_datetime where the dates are text"
        )
    level = None if index_prices is None else _read_series(index_prices, days, len(table), "index_prices", "prices")
    gaps = np.isnan(table)
    rows, columns = np.ones(len(table), dtype=bool), np.ones(table.shape[1], dtype=bool)
    if missing == "drop_assets":
        if not (columns := ~gaps.any(axis=0)).any():
            raise ValueError(f"every asset has a missing price, so {missing=} leaves none; use missing='drop_days'")
    elif missing == "drop_days":
        rows = ~gaps.any(axis=1) if level is None else ~(gaps.any(axis=1) | np.isnan(level))
    table = table[np.ix_(rows, columns)]
    names, days = names[columns], days[rows]
    remedy = "fill it in, or use missing='drop_assets' or missing='drop_days'"
    returns = _changes(table, names, days, "prices", remedy)
    answer = returns if not hasattr(prices, "columns") else type(prices)(returns, index=days[1:], columns=names)
    if level is None:
        return answer
    remedy = remedy.replace("'drop_assets' or missing=", "")
    change = _changes(level[rows, None], np.array(["the index"]), days, "index_prices", remedy)[:, 0]
    if hasattr(index_prices, "index") and not hasattr(index_prices, "columns"):
        change = type(index_prices)(change, index=days[1:], name=index_prices.name)
    elif hasattr(index_prices, "columns"):
        change = index_prices.iloc[1:, 0]._constructor(change, index=days[1:], name=index_prices.columns[0])
    return answer, change


def by_asset(values: Any, names: np.ndarray, argument: str, *, default: float, free: float) -> np.ndarray:
    """A number for each asset, from a number, a mapping or Series by name (others: the default), an array, or None."""
    if values is None:
        return np.full(names.size, free)
    if hasattr(values, "to_dict"):
        values = values.to_dict()
    if isinstance(values, dict):
        known = set(names.tolist())
        for name in values:
            if name not in known:
                raise ValueError(f"{argument} names the asset {name!r}, which returns does not have: {some(names)}")
        values = [values.get(name, default) for name in names.tolist()]
    try:
        if np.asarray(values).dtype == bool:
            raise TypeError
        given = _floats(values)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{argument} must be a number, or a number for each asset, got {values!r}") from None
    if given.ndim and given.shape != names.shape:
        raise ValueError(f"{argument} must be one number or one for each of the {names.size} assets, got {given.size}")
    if np.isnan(given).any():
        raise ValueError(f"{argument} must not hold NaN; leave an asset out of the mapping for the default {default:g}")
    return np.broadcast_to(given, names.shape).copy()


def labels_of(groups: Any, names: np.ndarray) -> np.ndarray | None:
    """The group of each asset, from a mapping or Series by name, or a label for each asset in order."""
    if groups is None:
        return None
    if hasattr(groups, "to_dict") and hasattr(groups, "index"):
        groups = groups.to_dict()
    if isinstance(groups, dict):
        if lost := [name for name in names.tolist() if name not in groups]:
            raise ValueError(
                f"groups must name a group for every asset, got none for {some(lost)}; add them, or drop these assets"
            )
        groups = [groups[name] for name in names.tolist()]
    if isinstance(groups, (str, bytes)) or not hasattr(groups, "__len__"):
        raise TypeError(f"groups must be a mapping or Series from asset to group, or a label for each, got {groups!r}")
    labels = np.empty(len(groups), dtype=object)
    labels[:] = list(groups)
    if labels.size != names.size:
        raise ValueError(f"groups must give a label for each of the {names.size} assets, got {labels.size}")
    blank = [name for name, label in zip(names.tolist(), labels, strict=True) if label is None or label != label]
    if blank:
        raise ValueError(f"groups must not be blank, got no group for {some(blank)}; call it 'Unknown', or drop them")
    return labels


def _read_table(X: Any, argument: str) -> tuple[np.ndarray, np.ndarray, Any]:
    framed = hasattr(X, "columns")
    try:
        table = _floats(X.to_numpy(dtype=float) if framed else X)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{argument} must hold numbers alone, one column an asset and the dates as index ({error}); with "
            "pandas.read_csv use index_col=0, parse_dates=True"
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{argument} must be a table of days and assets, got shape {table.shape}")
    if not framed:
        return table, np.arange(table.shape[1]), np.arange(len(table))
    names = np.empty(table.shape[1], dtype=object)
    names[:] = X.columns.tolist()
    _refuse_twice(X.columns, f"{argument} must have one column an asset", repr)
    _refuse_twice(X.index, f"{argument} must have one row a day", told_day)
    return table, names, X.index


def _read_series(y: Any, days: Any, n_days: int, argument: str, table: str) -> np.ndarray:
    """y in the order of the days."""
    if hasattr(y, "columns"):
        if len(y.columns) != 1:
            raise ValueError(f"{argument} must be one series, got a table of {len(y.columns)} columns; pick one")
        y = y.iloc[:, 0]
    if hasattr(y, "index") and hasattr(days, "get_indexer"):
        _refuse_twice(y.index, f"{argument} must have one value a day", told_day)
        for mine, others, where, other in ((y.index, days, argument, table), (days, y.index, table, argument)):
            if len(lost := others.difference(mine)):
                raise ValueError(
                    f"{argument} and {table} must have the same days: {where} lacks {len(lost)} of the {other}' "
                    f"days, the first is {told_day(lost[0])}; keep the days of both: "
                    f"days = {table}.index.intersection({argument}.index)"
                )
        y = y.reindex(days)
    try:
        values = _floats(y)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{argument} must be numbers, one for each day ({error})") from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_days,):
        raise ValueError(
            f"{argument} must have one value for each of the {n_days} days of {table}, got shape {values.shape}"
        )
    return values


def _floats(values: Any) -> np.ndarray:
    """An array of floats; what is masked is a gap, and neither dates nor complex numbers are numbers here."""
    array = np.ma.filled(values.astype(float), np.nan) if is_masked(values) else np.asarray(values)
    if array.dtype.kind in "cmMSU":
        raise TypeError(f"got an array of dtype {array.dtype}")
    return array.astype(float)


def _refuse_twice(labels: Any, what: str, told: Callable[[Any], str]) -> None:
    if not labels.is_unique:
        raise ValueError(f"{what}, {told(labels[labels.duplicated()][0])} comes twice")


def _refuse_gaps(table: np.ndarray, names: np.ndarray, days: Any, argument: str, remedy: str) -> None:
    if (gaps := np.isnan(table)).any():
        column = int(np.flatnonzero(gaps.any(axis=0))[0])
        first, assets = int(np.flatnonzero(gaps[:, column])[0]), int(gaps.any(axis=0).sum())
        more = f" ({assets - 1} other assets have gaps too)" if assets > 1 else ""
        raise ValueError(
            f"{argument} must not have gaps: {names[column]} lacks {int(gaps[:, column].sum())} day(s), first on "
            f"{told_day(days[first])}{more}; {remedy}"
        )


def _changes(table: np.ndarray, names: np.ndarray, days: Any, argument: str, remedy: str) -> np.ndarray:
    """The returns of prices that have no gaps and are positive."""
    _refuse_gaps(table, names, days, argument, remedy)
    if len(table) < 2:
        raise ValueError(f"one return needs two days of prices, got {len(table)}; add earlier days")
    if (bad := ~((table > 0) & np.isfinite(table))).any():
        i, j = np.argwhere(bad)[0]
        found = f"{table[i, j]:g} for {names[j]} on {told_day(days[i])}"
        raise ValueError(f"{argument} must be above 0 and finite, got {found}")
    return np.asarray(table[1:] / table[:-1] - 1.0)


def told_day(day: Any) -> str:
    return str(day.date()) if hasattr(day, "date") and getattr(day, "hour", 0) == 0 else str(day)


def some(names: Any, most: int = 5) -> str:
    listed = list(names)
    return ", ".join(map(str, listed[:most])) + (f" and {len(listed) - most} more" if len(listed) > most else "")
