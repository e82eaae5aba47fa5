"""What a market tells: returns of assets and of their index, sectors, numbers by asset; errors name asset and day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import is_masked


def need_pandas() -> Any:
    """pandas, or how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("this needs pandas: pip install 'ellzero[portfolio]'") from error
    return pandas


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
    table, names, days = read_table(X, "returns")
    refuse_gaps(table, names, days, "returns", "drop the asset or the day, or fill it in")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"returns must be finite, got {table[row, column]} for {names[column]} on {told_day(days[row])}"
        )
    if table.size and (table > 0).all() and float(np.median(table)) > 0.5:
        raise ValueError(
            f"returns look like prices (all above 0, median {float(np.median(table)):.4g}); give simple returns such "
            "as 0.01 for 1%: returns, index_returns = ellzero.portfolio.prices_to_returns(prices, index_prices)"
        )
    index = None
    if y is not None:
        index = read_series(y, days, len(table), "index_returns", "returns")
        refuse_gaps(index[:, None], np.array(["the index"]), days, "index_returns", "drop the day, or fill it in")
        if not np.isfinite(index).all():
            raise ValueError("index_returns must be finite; drop the days on which they are not")
    return Returns(table, index, names, days, hasattr(X, "columns"))


def by_asset(values: Any, names: np.ndarray, argument: str, default: float) -> np.ndarray:
    """A number for each asset, from a number, a mapping or Series by name (others: the default), or an array."""
    if values is None:
        return np.full(names.size, default)
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
        numbers = _floats(values)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{argument} must be a number, or a number for each asset, got {values!r}") from None
    if numbers.ndim and numbers.shape != names.shape:
        raise ValueError(
            f"{argument} must be one number or one for each of the {names.size} assets, got {numbers.size}"
        )
    if np.isnan(numbers).any():
        raise ValueError(f"{argument} must not hold NaN; leave an asset out of the mapping for the default {default:g}")
    return np.broadcast_to(numbers, names.shape).copy()


def labels_of(groups: Any, names: np.ndarray) -> np.ndarray | None:
    """The group of each asset, from a mapping or Series by name, or a label for each asset in order."""
    if groups is None:
        return None
    if hasattr(groups, "to_dict") and hasattr(groups, "index"):
        groups = groups.to_dict()
    if isinstance(groups, dict):
        lost = [name for name in names.tolist() if name not in groups]
        if lost:
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


def read_table(X: Any, argument: str) -> tuple[np.ndarray, np.ndarray, Any]:
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
    if not X.columns.is_unique:
        raise ValueError(
            f"{argument} must have one column an asset, {X.columns[X.columns.duplicated()][0]!r} comes twice"
        )
    if not X.index.is_unique:
        raise ValueError(
            f"{argument} must have one row a day, {told_day(X.index[X.index.duplicated()][0])} comes twice"
        )
    return table, names, X.index


def read_series(y: Any, days: Any, n_days: int, argument: str, table: str) -> np.ndarray:
    """y in the order of the days."""
    if hasattr(y, "columns"):
        if len(y.columns) != 1:
            raise ValueError(f"{argument} must be one series, got a table of {len(y.columns)} columns; pick one")
        y = y.iloc[:, 0]
    if hasattr(y, "index") and hasattr(days, "get_indexer"):
        if not y.index.is_unique:
            raise ValueError(
                f"{argument} must have one value a day, {told_day(y.index[y.index.duplicated()][0])} comes twice"
            )
        for lost, where, other in (
            (days.difference(y.index), argument, table),
            (y.index.difference(days), table, argument),
        ):
            if len(lost):
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


def refuse_gaps(table: np.ndarray, names: np.ndarray, days: Any, argument: str, remedy: str) -> None:
    gaps = np.isnan(table)
    if gaps.any():
        column = int(np.flatnonzero(gaps.any(axis=0))[0])
        first, assets = int(np.flatnonzero(gaps[:, column])[0]), int(gaps.any(axis=0).sum())
        more = f" ({assets - 1} other assets have gaps too)" if assets > 1 else ""
        raise ValueError(
            f"{argument} must not have gaps: {names[column]} lacks {int(gaps[:, column].sum())} day(s), first on "
            f"{told_day(days[first])}{more}; {remedy}"
        )


def told_day(day: Any) -> str:
    return str(day.date()) if hasattr(day, "date") and getattr(day, "hour", 0) == 0 else str(day)


def some(names: Any, most: int = 5) -> str:
    listed = list(names)
    return ", ".join(map(str, listed[:most])) + (f" and {len(listed) - most} more" if len(listed) > most else "")
