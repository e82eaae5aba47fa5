"""Rows of text files: their separator, their decimal sign and their numbers.

Every error names the file, the line and the column, and says what to do. Files ending in .gz or .bz2 are decompressed
while they are read.
"""

import bz2
import csv
import gzip
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

PathLike = str | os.PathLike[str]
#: a row: its line in the file, and its cells
Rows = Iterator[tuple[int, list[str]]]

DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error)
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
#: what may stand between cells, the likeliest first, and how it is told
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_LOOKED_AT = 100  # lines, to tell the separator
_WITH_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][-+]?\d+)?")
_WITH_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+")


@contextmanager
def read_rows(
    path: PathLike, separator: str | None = None, decimal: str | None = None
) -> Iterator[tuple[list[str], Rows]]:
    """The header of a text file, and its rows with their line numbers; blank lines are skipped.

    Parameters
    ----------
    path : path of a text file, or of one ending in .gz or .bz2
    separator : str, optional
        One character; recognised among comma, semicolon, tab and bar unless given.
    decimal : "." or ",", optional
        Recognised unless given: a comma where cells such as 2,5 occur and none such as 2.5. Numbers are handed on with
        a point.
    """
    if separator is not None and len(separator) != 1:
        raise ValueError(f"separator must be one character, such as ';', got {separator!r}")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal must be '.' or ',', got {decimal!r}")
    with opened(path) as file:
        first = list(islice(file, _LOOKED_AT))
        between = _separator(first) if separator is None else separator
        if between == "," == decimal:
            raise ValueError(f"{path}: cells are separated by commas, so decimal=',' cannot be; leave it out")
        reader = csv.reader(chain(first, file), delimiter=between)
        if not (header := [cell.strip() for cell in next(reader, [])]):
            raise ValueError(f"{path}, line 1: the header row is missing; name each column there")
        _check_header(path, header)
        points = _Decimals(path, header, decimal)

        def rows() -> Rows:
            for cells in reader:
                if len(cells) not in (0, len(header)):
                    raise ValueError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells under a header of {len(header)} "
                        "columns; fill up or shorten the row"
                    )
                if cells:
                    cells = [cell.strip() for cell in cells]
                    yield reader.line_num, cells if between == "," else points.read(reader.line_num, cells)

        yield header, rows()


def _check_header(path: PathLike, header: list[str]) -> None:
    taken: set[str] = set()
    for column, name in enumerate(header, start=1):
        if not name and column > 1:  # the column of dates, or of an index, often goes unnamed
            raise ValueError(f"{path}, line 1, column {column}: the column has no name; give it one")
        if name in taken:
            raise ValueError(f"{path}, line 1, column {column}: the name {name!r} is taken; rename or drop it")
        taken.add(name)


def _separator(lines: list[str]) -> str:
    """What makes most cells of the header and as many of the other lines; else of the header alone."""
    widths: dict[str, list[int]] = {}
    for separator in SEPARATORS.values():
        try:
            cells = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:  # which reading tells of
            cells = []
        widths[separator] = cells or [0]
    even = {separator: cells for separator, cells in widths.items() if len({*cells[: _LOOKED_AT - 1]}) == 1}
    found = max(even or widths, key=lambda separator: widths[separator][0])
    return found if widths[found][0] > 1 else max(widths, key=lambda separator: widths[separator][0])


class _Decimals:
    """Numbers with a decimal comma, written with a point; the first of either kind decides where nobody told."""

    def __init__(self, path: PathLike, header: list[str], decimal: str | None) -> None:
        self.path, self.header, self.decimal, self.told = path, header, decimal, decimal is not None
        self.seen = ""

    def read(self, line: int, cells: list[str]) -> list[str]:
        """The cells of a row."""
        if self.decimal == "." or (self.decimal is None and not any("," in cell or "." in cell for cell in cells)):
            return cells
        return [self._cell(line, column, cell) for column, cell in enumerate(cells)]

    def _cell(self, line: int, column: int, cell: str) -> str:
        if "," in cell and _WITH_COMMA.fullmatch(cell):
            self._decide(",", line, column, cell)
            return cell.replace(".", "").replace(",", ".") if self.decimal == "," else cell
        if "." in cell and _WITH_POINT.fullmatch(cell):
            if self.told and self.decimal == "," and _THOUSANDS.fullmatch(cell):
                return cell.replace(".", "")
            self._decide(".", line, column, cell)
        elif "." in cell and self.decimal == "," and _THOUSANDS.fullmatch(cell):
            return cell.replace(".", "")
        return cell

    def _decide(self, decimal: str, line: int, column: int, cell: str) -> None:
        if self.decimal is None:
            self.decimal, self.seen = decimal, f", and line {line} has {cell!r}"
        elif self.decimal != decimal:
            problem = f"{cell!r} has another decimal sign than {self.decimal!r}{self.seen}"
            raise located(self.path, line, self.header[column], f"{problem}; write all alike, or say which by decimal")


@contextmanager
def opened(path: PathLike) -> Iterator[IO[str]]:
    """A file as text."""
    opener = _OPENERS.get(Path(path).suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system: no such file, no permission
            raise
        raise damaged(path, error) from error
    except csv.Error as error:
        limit = csv.field_size_limit()
        raise ValueError(
            f"{path}: not readable as a table ({error}); a cell may have {limit} characters at most, and a quote that "
            "is not closed makes one cell of everything behind it"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not readable as UTF-8 text ({error}); save it again, in UTF-8") from error


def damaged(path: PathLike, error: Exception) -> ValueError:
    """Of compressed files."""
    return ValueError(f"{path}: not readable, cut off or damaged when it was compressed ({error}); fetch it again")


def is_missing(cell: str) -> bool:
    """Whether a cell says that nothing is known."""
    return cell.lower() in _MISSING


def numbers_of(path: PathLike, line: int, names: Sequence[str], cells: Sequence[str]) -> np.ndarray:
    """The cells of one row as finite numbers."""
    try:
        numbers = np.fromiter(map(float, cells), dtype=float, count=len(cells))
    except ValueError:
        numbers = np.array([math.nan])
    if np.isfinite(numbers).all():
        return numbers
    return np.array([number_of(path, line, *pair) for pair in zip(names, cells, strict=True)])


def number_of(path: PathLike, line: int, name: str, cell: str, also: str = "") -> float:
    """A cell as a finite number; `also` is another remedy."""
    if is_missing(cell):
        raise located(path, line, name, f"missing value {cell!r}; fill it in, or drop the row or the column")
    try:
        number = float(cell)
    except ValueError:
        raise located(path, line, name, f"{start_of(cell)!r} is not a number; write it like 1234.5{also}") from None
    if not math.isfinite(number):
        raise located(path, line, name, f"{start_of(cell)!r} is not finite; drop the row or the column")
    return number


def start_of(cell: str, most: int = 40) -> str:
    """What a cell begins with, for messages."""
    return cell if len(cell) <= most else cell[:most] + "..."


def column_of(path: PathLike, header: list[str], name: str) -> int:
    """The place of a column."""
    if name not in header:
        raise ValueError(f"{path} has no column {name!r}; its columns are {some_of(header)}")
    return header.index(name)


def some_of(names: Sequence[str], most: int = 8) -> str:
    """The first few names, for messages."""
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def located(path: PathLike, line: int, column: str, problem: str) -> ValueError:
    """An error that names the cell."""
    return ValueError(f"{path}, line {line}, column {column!r}: {problem}")
