"""Tables of any kind of file as numbers: what is text becomes dummies, what is missing is filled in, on request."""

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._core.lazy import need
from .text_files import PathLike, column_of, is_missing, located, number_of, read_rows, some_of, start_of

#: read by pandas
_FRAMES = {
    ".parquet": ("read_parquet", "pyarrow"),
    ".xlsx": ("read_excel", "openpyxl"),
    ".xls": ("read_excel", "xlrd"),
    ".ods": ("read_excel", "odfpy"),
}
#: what becomes of columns of text, and of missing values
TEXT = ("refuse", "onehot", "drop")
MISSING = ("refuse", "drop", "mean", "median")
_INDEX = ("", "index", "id", "unnamed: 0")
_NOTHING = "(missing)"  # the level of a text that is missing


@dataclass
class Table:
    """Columns of numbers (NaN where one is missing) and of text (blank where one is missing).

    Attributes
    ----------
    path : path
        For messages.
    names : list of str
    numbers : array of shape (n_rows, n_columns)
        NaN in columns of text.
    text : dict from name to the cells of the column
    lines : sequence of int
        Of every row, in the file.
    """

    path: PathLike
    names: list[str]
    numbers: np.ndarray
    text: dict[str, list[str]]
    lines: Sequence[int]

    @classmethod
    def read(
        cls,
        path: PathLike,
        *,
        separator: str | None = None,
        decimal: str | None = None,
        as_text: Collection[str] = (),
    ) -> "Table":
        """A text file, by its own separator and decimal sign unless told, or a file of pandas (Parquet, Excel)."""
        if (suffix := Path(path).suffix.lower()) in _FRAMES:
            return _from_pandas(path, *_FRAMES[suffix], as_text)
        header, numbers, text, lines, found = _read(path, separator, decimal, as_text)
        if found:  # columns that turn out to be text are read once more, as they stand there
            header, numbers, text, lines, _ = _read(path, separator, decimal, {*as_text, *found})
        if not lines:
            raise ValueError(f"{path}: no rows below the header; add data")
        return cls(path, header, numbers, text, lines)

    def column(self, name: str, also: str = "") -> np.ndarray:
        """The numbers of a column, in which nothing may be missing; `also` is another remedy for text."""
        j = column_of(self.path, self.names, name)
        values = self.numbers[:, j]
        if name in self.text:
            values = np.array([_number(cell) for cell in self.text[name]])
            for i in np.flatnonzero(~np.isfinite(values)).tolist():
                if self.text[name][i]:
                    number_of(self.path, self.lines[i], name, self.text[name][i], also)  # says what is wrong
        if (lost := np.flatnonzero(np.isnan(values))).size:
            remedy = "fill it in, drop the row or the column, or say what becomes of it (missing: drop, mean or median)"
            raise located(self.path, self.lines[lost[0]], name, f"missing value; {remedy}")
        return values

    def labels(self, name: str) -> np.ndarray:
        """The cells of a column that was read as text, in which nothing may be missing."""
        cells = self.text[name]
        if (lost := next((i for i, cell in enumerate(cells) if not cell), None)) is not None:
            raise located(self.path, self.lines[lost], name, "missing label; fill it in, or drop the row")
        return np.array(cells)

    def index(self, but: Collection[str] = ()) -> str | None:
        """The first column, where it only numbers or names the rows."""
        name = self.names[0]
        if name.lower() not in _INDEX or name in but or len(self.lines) < 2:
            return None
        if name in self.text:
            return name if len({*self.text[name]}) == len(self.lines) else None
        return name if (np.diff(self.numbers[:, 0]) == 1).all() else None

    def rows(self, index: np.ndarray) -> "Table":
        """Some of the rows."""
        text = {name: [cells[i] for i in index] for name, cells in self.text.items()}
        return Table(self.path, self.names, self.numbers[index], text, [self.lines[i] for i in index])

    def without_missing(self, names: Collection[str]) -> "Table":
        """The rows in which none of these columns lacks its value."""
        good = ~np.isnan(self.numbers[:, self.places([name for name in names if name not in self.text])]).any(axis=1)
        for name in names:
            if name in self.text:
                good &= np.array([cell != "" for cell in self.text[name]])
        if not good.any():
            raise ValueError(f"{self.path}: every row lacks a value, so none is left; fill in what is missing")
        return self if good.all() else self.rows(np.flatnonzero(good))

    def places(self, names: Collection[str]) -> list[int]:
        """Columns by name."""
        place = {name: j for j, name in enumerate(self.names)}
        return [place[name] if name in place else column_of(self.path, self.names, name) for name in names]


@dataclass
class Preparation:
    """What the features are made of: learnt from one table, and done again to others.

    Attributes
    ----------
    columns : list of str
        Of the file, those that are used.
    levels : dict from the name of a column of text to its different cells
        Each becomes a dummy; of two the second alone.
    filled : dict from the name of a column to the number that stands in for a missing one
    """

    columns: list[str]
    levels: dict[str, list[str]] = field(default_factory=dict)
    filled: dict[str, float] = field(default_factory=dict)

    @classmethod
    def learn(cls, table: Table, columns: Sequence[str], text: str, missing: str) -> "Preparation":
        """From a table; `text` and `missing` are words of `TEXT` and `MISSING`."""
        texts = [name for name in columns if name in table.text]
        if texts and text == "refuse":
            _refuse(table, texts)
        columns = [name for name in columns if text != "drop" or name not in texts]
        levels = {name: _levels(table, name, missing) for name in columns if name in texts}
        numeric = [name for name in columns if name not in levels]
        filled = _typical(table, numeric, missing) if missing in ("mean", "median") else {}
        return cls(columns, levels, filled)

    def names(self) -> list[str]:
        """Of the features."""
        found: list[str] = []
        for name in self.columns:
            found += [f"{name}_{level}" for level in self._dummies(name)] if name in self.levels else [name]
        if len({*found}) < len(found):
            twice = next(name for name in found if found.count(name) > 1)
            raise ValueError(f"two columns would be called {twice!r} once text is one-hot encoded; rename one of them")
        return found

    def apply(self, table: Table, *, unknown: str = "refuse") -> np.ndarray:
        """X of a table; a text that was not learnt is refused, or has no dummy (unknown="zero")."""
        numeric = [name for name in self.columns if name not in self.levels]
        values = table.numbers[:, table.places(numeric)]
        if self.filled:
            values = np.where(np.isnan(values), np.array([self.filled[name] for name in numeric]), values)
        for j in np.flatnonzero(np.isnan(values).any(axis=0) | np.isin(numeric, list(table.text))):
            table.column(numeric[j])  # says what is wrong
        if not self.levels:
            return values
        column = dict(zip(numeric, values.T[:, :, None], strict=True))
        parts = [column[name] if name in column else self._encoded(table, name, unknown) for name in self.columns]
        return np.hstack(parts)

    def only(self, features: Collection[str]) -> "Preparation":
        """What some of the features need."""
        kept = [
            name
            for name in self.columns
            if any(f"{name}_{level}" in features for level in self._dummies(name))
            or (name not in self.levels and name in features)
        ]
        return Preparation(
            kept,
            {name: levels for name, levels in self.levels.items() if name in kept},
            {name: value for name, value in self.filled.items() if name in kept},
        )

    def as_dict(self) -> dict[str, Any]:
        """For files; `Preparation(**...)` reads it."""
        return asdict(self)

    def _dummies(self, name: str) -> list[str]:
        levels = self.levels.get(name, [])
        return levels[1:] if len(levels) == 2 else levels

    def _encoded(self, table: Table, name: str, unknown: str) -> np.ndarray:
        cells = [cell or _NOTHING for cell in _cells(table, name)]
        known = {level: i for i, level in enumerate(self.levels[name])}
        if unknown == "refuse":
            for line, cell in zip(table.lines, cells, strict=True):
                if cell not in known:
                    told = f"{cell!r} was not in the data of the fit, which has {some_of(self.levels[name])}"
                    raise located(
                        table.path, line, name, f"{told}; correct it, or let it have no dummy (unknown: zero)"
                    )
        dummies = self._dummies(name)
        return np.array([[cell == level for level in dummies] for cell in cells], dtype=float).reshape(len(cells), -1)


def read_table(
    path: PathLike,
    target: str,
    *,
    text_target: bool = False,
    text: str = "refuse",
    missing: str = "refuse",
    ignore: Collection[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """X, y and the names of X's columns, from a table with a header row.

    Parameters
    ----------
    path : path
        Text (.csv, .tsv, ..., also .gz and .bz2), whose separator and decimal sign are recognised; or Parquet or Excel,
        which pandas reads.
    target : str
        Name of the column that becomes y; all others become X, but for a first one that only numbers the rows.
    text_target : bool
        Whether y is read as text, for labels such as "yes" and "no".
    text : "refuse", "onehot" or "drop"
        What becomes of columns that hold text: an error, a dummy of zeros and ones for each text (of two texts for the
        second alone), or nothing.
    missing : "refuse", "drop", "mean" or "median"
        What becomes of cells that are blank or say NA: an error, their rows are dropped, or they are filled in; a text
        that is missing is a text of its own then. Rows without a target are dropped or refused.
    ignore : names of columns to leave out
    separator, decimal : str, optional
        Where they are not recognised.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ellzero.datasets import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_text("height;price;colour\\n1,5;10;red\\n;20;blue\\n")
    >>> read_table(path, target="price", text="onehot", missing="mean")
    (array([[1.5, 1. ],
           [1.5, 0. ]]), array([10., 20.]), ['height', 'colour_red'])
    """
    table = Table.read(path, separator=separator, decimal=decimal, as_text=[target] if text_target else [])
    table, preparation, _ = prepare(table, [target], text=text, missing=missing, ignore=ignore)
    y = table.labels(target) if text_target else table.column(target, ", or ask for classes (text_target)")
    return preparation.apply(table), y, preparation.names()


def prepare(
    table: Table, targets: Sequence[str], *, text: str, missing: str, ignore: Collection[str] = ()
) -> tuple[Table, Preparation, list[str]]:
    """The rows that are used, what the features are made of, and in words what was left out or made up."""
    for name, given, words in (("text", text, TEXT), ("missing", missing, MISSING)):
        if given not in words:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {given!r}")
    for name in [*targets, *ignore]:
        column_of(table.path, table.names, name)
    index = table.index(but=[*targets, *ignore])
    columns = [name for name in table.names if name not in targets and name not in ignore and name != index]
    if not columns:
        raise ValueError(f"{table.path}: {targets[0]!r} is the only column; add the columns that shall explain it")
    told = [] if index is None else [f"column {index!r} names the rows and is left out"]
    if text == "drop" and (texts := [name for name in columns if name in table.text]):
        columns = [name for name in columns if name not in texts]
        told.append(f"left out for their text: {some_of(texts)}")
    whole = table.without_missing([*targets, *columns] if missing == "drop" else targets if missing != "refuse" else [])
    if (lost := len(table.lines) - len(whole.lines)) > 0:
        told.append(f"{lost} of {len(table.lines)} rows lack a value and are dropped")
    preparation = Preparation.learn(whole, columns, text, missing)
    if not preparation.columns:
        raise ValueError(f"{table.path}: no column of numbers is left to explain {targets[0]!r}; encode those of text")
    if holes := int(np.isnan(whole.numbers[:, whole.places(preparation.filled)]).sum()):
        told.append(f"{holes} missing numbers are filled in by the {missing} of their column")
    return whole, preparation, told


def _read(
    path: PathLike, separator: str | None, decimal: str | None, wanted: Collection[str]
) -> tuple[list[str], np.ndarray, dict[str, list[str]], list[int], set[str]]:
    """The header, the numbers, the cells of columns that are wanted as text, the lines, and which columns are text."""
    numbers: list[np.ndarray] = []
    lines: list[int] = []
    found: set[str] = set()
    with read_rows(path, separator, decimal) as (header, rows):
        text: dict[str, list[str]] = {name: [] for name in header if name in wanted}
        places = [(header.index(name), cells) for name, cells in text.items()]
        for line, cells in rows:
            for j, column in places:
                column.append("" if is_missing(cells[j]) else cells[j])
                cells[j] = ""
            try:
                row = np.fromiter(map(float, cells), dtype=float, count=len(cells))
            except ValueError:
                row = np.array([_number(cell) for cell in cells])
                found |= {header[j] for j in np.flatnonzero(np.isnan(row)) if not is_missing(cells[j])}
            if np.isinf(row).any():
                j = int(np.flatnonzero(np.isinf(row))[0])
                number_of(path, line, header[j], cells[j])  # says what is wrong
            numbers.append(row)
            lines.append(line)
    return header, np.array(numbers), text, lines, found


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _cells(table: Table, name: str) -> list[str]:
    """The cells of a column as text; those of numbers are written as they would be in a file."""
    if name in table.text:
        return table.text[name]
    return ["" if math.isnan(value) else f"{value:g}" for value in table.numbers[:, table.names.index(name)].tolist()]


def _refuse(table: Table, texts: list[str]) -> None:
    cells = table.text[texts[0]]
    row = next((i for i, cell in enumerate(cells) if cell and math.isnan(_number(cell))), 0)
    remedy = "write it like 1234.5, or have columns of text one-hot encoded (text: onehot) or left out (ignore)"
    problem = f"{start_of(cells[row])!r} is not a number; {remedy}: {some_of(texts)}"
    raise located(table.path, table.lines[row], texts[0], problem)


def _levels(table: Table, name: str, missing: str) -> list[str]:
    """The different cells of a column of text."""
    cells = table.text[name]
    if missing == "refuse" and "" in cells:
        remedy = "fill it in, or say what becomes of it (missing: drop, mean or median)"
        raise located(table.path, table.lines[cells.index("")], name, f"missing value; {remedy}")
    levels = sorted({cell or _NOTHING for cell in cells})
    if len(levels) > max(20, len(cells) / 2) or 10 < len(levels) == len(cells):
        raise ValueError(
            f"{table.path}: column {name!r} has {len(levels)} different texts in {len(cells)} rows, too many to "
            "encode; leave it out (ignore), or encode it yourself"
        )
    return levels


def _typical(table: Table, names: list[str], missing: str) -> dict[str, float]:
    """What stands in for missing numbers."""
    values = table.numbers[:, table.places(names)]
    if (empty := np.flatnonzero(np.isnan(values).all(axis=0))).size:
        raise ValueError(f"{table.path}: column {names[empty[0]]!r} is missing in every row; leave it out (ignore)")
    middle = np.nanmean(values, axis=0) if missing == "mean" else np.nanmedian(values, axis=0)
    return dict(zip(names, middle.tolist(), strict=True))


def _from_pandas(path: PathLike, reader: str, engine: str, as_text: Collection[str]) -> Table:
    words = f"{path}: such files need pandas and {engine}: pip install 'ellzero[portfolio]' {engine}"
    pandas = need("pandas", words)
    need(engine.replace("odfpy", "odf"), words)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
    try:
        frame = getattr(pandas, reader)(path)
    except Exception as error:  # whatever a damaged file makes of its reader
        raise ValueError(f"{path}: not readable by pandas ({error}); save it again, or as CSV") from error
    names = [str(name) for name in frame.columns]
    if len({*names}) < len(names):
        raise ValueError(f"{path}: two columns have the same name; rename one of them")
    if not len(frame):
        raise ValueError(f"{path}: no rows below the header; add data")
    numbers, text = np.full(frame.shape, math.nan), {}
    for j, name in enumerate(names):
        column = frame.iloc[:, j]
        numeric = pandas.api.types.is_numeric_dtype(column) and not pandas.api.types.is_bool_dtype(column)
        if numeric:
            numbers[:, j] = column.to_numpy(dtype=float, na_value=math.nan)
            if np.isinf(numbers[:, j]).any():
                raise located(
                    path, int(np.flatnonzero(np.isinf(numbers[:, j]))[0]) + 2, name, "not finite; drop the row"
                )
        if name in as_text or not numeric:
            text[name] = _texts(column, numeric)
    return Table(path, names, numbers, text, range(2, len(frame) + 2))


def _texts(column: Any, numeric: bool) -> list[str]:
    """Cells as text; blank where nothing is known."""
    known = column.notna().tolist()
    cells = [f"{value:g}" if numeric else str(value).strip() for value in column]
    return [cell if there and not is_missing(cell) else "" for cell, there in zip(cells, known, strict=True)]
