"""Readers of markets and of LIBSVM files. Users import these names from `ellzero.datasets`."""

import math
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from .._core.validation import check_count
from .market import Market
from .text_files import DAMAGE, PathLike, column_of, damaged, located, numbers_of, opened, read_rows, some_of

#: of each asset: a file, or its content
Sectors = PathLike | Mapping[str, str] | None


def read_prices(path: PathLike, index: str | None = None, *, sectors: Sectors = None) -> Market:
    """Simple returns r_t = p_t / p_{t-1} - 1 of a CSV file of prices.

    The file has a header row, dates in its first column (ISO format, oldest first) and one column of prices
    for the index and for each asset.

    Parameters
    ----------
    path : path of a .csv, .csv.gz or .csv.bz2 file
    index : str, optional
        Name of the column that holds the index; the first one after the dates unless given.
    sectors : path or mapping, optional
        A sector for each asset: a file for `read_sectors`, or its result.

    Returns
    -------
    Market
        One day fewer than the file has, and no `weights`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ellzero.datasets import read_prices
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("date,INDEX,AAA,BBB\\n2024-01-02,100,50,8\\n2024-01-03,101,51,8\\n")
    >>> market = read_prices(path, sectors={"AAA": "Energy", "BBB": "Utilities"})
    >>> market.returns
    array([[0.02, 0.  ]])
    >>> market.index_returns, market.names.tolist(), market.sectors.tolist()
    (array([0.01]), ['AAA', 'BBB'], ['Energy', 'Utilities'])
    """
    names, dates, prices, lines = _read_dated(path)
    if len(prices) < 2:
        raise ValueError(f"{path}: one return needs two prices, got {len(prices)} row(s); add earlier days")
    if not (prices > 0).all():
        row, column = np.argwhere(prices <= 0)[0]
        raise located(path, lines[row], names[column], f"a price must be above 0, got {prices[row, column]:g}")
    return _market(path, names, dates[1:], prices[1:] / prices[:-1] - 1.0, index, sectors)


def read_returns(path: PathLike, index: str | None = None, *, sectors: Sectors = None) -> Market:
    """The returns of a CSV file laid out as in `read_prices`, but of simple returns instead of prices.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ellzero.datasets import read_returns
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "returns.csv"
    >>> _ = path.write_text("date,AAA,BBB,INDEX\\n2024-01-03,0.02,0.0,0.01\\n")
    >>> read_returns(path, index="INDEX").returns
    array([[0.02, 0.  ]])
    """
    names, dates, returns, _ = _read_dated(path)
    return _market(path, names, dates, returns, index, sectors)


def read_sectors(path: PathLike) -> dict[str, str]:
    """The sector of each asset: the columns `symbol` and `sector` of a CSV file; others are ignored.

    A blank sector reads as "Unknown", so that such assets form a group of their own.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ellzero.datasets import read_sectors
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sectors.csv"
    >>> _ = path.write_text("symbol,name,sector\\nAAA,Alpha Oil,Energy\\nBBB,Beta,\\n")
    >>> read_sectors(path)
    {'AAA': 'Energy', 'BBB': 'Unknown'}
    """
    sectors: dict[str, str] = {}
    with read_rows(path) as (header, rows):
        symbol, sector = (column_of(path, header, name) for name in ("symbol", "sector"))
        for line, cells in rows:
            if not (asset := cells[symbol]):
                raise located(path, line, "symbol", "the cell is blank; name the asset or delete the row")
            if asset in sectors:
                raise located(path, line, "symbol", f"{asset!r} has a sector already; keep one row for it")
            sectors[asset] = cells[sector] or "Unknown"
    return sectors


def read_libsvm(path: PathLike, n_features: int | None = None) -> tuple[Any, np.ndarray]:
    """X (CSR) and y of a file in LIBSVM format, `label index:value index:value ...` per line.

    Parameters
    ----------
    path : path of a text file, or of one ending in .gz or .bz2
    n_features : int, optional
        Columns of X; the largest index in the file unless given. Give it when reading a test set, which may
        lack the last features. Indices count from 1, or from 0 if a 0 occurs.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ellzero.datasets import read_libsvm
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.svm"
    >>> _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    >>> X, y = read_libsvm(path)
    >>> X.toarray(), y
    (array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]]), array([ 1., -1.]))
    """
    from scipy.sparse import csr_array
    from sklearn.datasets import load_svmlight_file

    if n_features is not None:
        check_count(n_features, "n_features")
    try:
        X, y = load_svmlight_file(os.fspath(path))
        readable = bool(np.isfinite(X.data).all() and np.isfinite(y).all())
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(path, error) from error
    except ValueError:
        readable = False
    if not readable:
        raise _libsvm_error(path)
    if len(y) == 0:
        raise ValueError(f"{path}: no rows; each line must read 'label index:value index:value ...'")
    if n_features is not None and n_features < (least := X.shape[1]):
        raise ValueError(f"n_features must be at least {least}, the number of features in {path}, got {n_features=}")
    return csr_array((X.data, X.indices, X.indptr), shape=(len(y), n_features or X.shape[1])), y


def _libsvm_error(path: PathLike) -> ValueError:
    """Names the first line of a LIBSVM file that is at fault, which scikit-learn's own errors do not."""
    form = "'label index:value index:value ...' with finite numbers and increasing indices of at least 0"
    with opened(path) as file:
        for line, text in enumerate(file, start=1):
            token, *pairs = text.partition("#")[0].split() or ["0"]
            last = -1
            try:
                good = math.isfinite(float(token))
                while good and pairs:
                    token = pairs.pop(0)
                    index, value = token.split(":")
                    if index != "qid":
                        good = int(index) > last and math.isfinite(float(value))
                        last = int(index)
            except ValueError:
                good = False
            if not good:
                return ValueError(f"{path}, line {line}: cannot read {token!r}; a line must read {form}")
    return ValueError(f"{path}: cannot read the file; each line must read {form}")


def _market(
    path: PathLike, names: list[str], dates: np.ndarray, returns: np.ndarray, index: str | None, sectors: Sectors
) -> Market:
    column = 0 if index is None else column_of(path, names, index)
    if not (assets := names[:column] + names[column + 1 :]):
        raise ValueError(f"{path}: {names[column]!r}, the index, is the only column of numbers; add the assets")
    groups = None
    if sectors is not None:
        known = sectors if isinstance(sectors, Mapping) else read_sectors(sectors)
        if lost := [name for name in assets if name not in known]:
            raise ValueError(
                f"sectors must name a sector for every asset of {path}, got none for {some_of(lost)}; add them"
            )
        groups = np.array([known[name] for name in assets])
    return Market(np.delete(returns, column, axis=1), returns[:, column], np.array(assets), groups, dates)


def _read_dated(path: PathLike) -> tuple[list[str], np.ndarray, np.ndarray, list[int]]:
    """Column names, dates, numbers and line numbers of a CSV file whose first column holds dates."""
    dates: list[datetime] = []
    table: list[np.ndarray] = []
    lines: list[int] = []
    with read_rows(path) as (header, rows):
        if len(header) < 2:
            raise ValueError(f"{path}, line 1: the header must name the dates and the series, got {header}")
        for line, (date, *cells) in rows:
            try:
                # time zones are dropped: a day is a day of its market
                dates.append(datetime.fromisoformat(date).replace(tzinfo=None))
            except ValueError:
                raise located(path, line, header[0], f"{date!r} is not a date; write it as YYYY-MM-DD") from None
            if len(dates) > 1 and dates[-2] >= dates[-1]:
                raise located(path, line, header[0], f"{date!r} does not come after the row above; sort by date")
            table.append(numbers_of(path, line, header[1:], cells))
            lines.append(line)
    if not table:
        raise ValueError(f"{path}: no rows below the header; add data")
    moments = np.array(dates, dtype="datetime64[s]")
    days = moments.astype("datetime64[D]")
    return header[1:], days if (days == moments).all() else moments, np.array(table), lines
