"""Tables to learn from: whatever file they come in, and what becomes of text and missing values."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from click import Choice, argument, option

from ..datasets.readers import read_libsvm
from ..datasets.tables import MISSING, TEXT, Preparation, Table, prepare
from ..datasets.text_files import SEPARATORS, PathLike, some_of
from .screen import Exit, Refusal, options

_LIBSVM = (".svm", ".libsvm", ".svmlight")
#: parameters that are named in remedies, "(text: onehot)", which are options here
_OPTION = re.compile(r"\((text|missing|ignore|unknown)\b:?")


class StandardInput(os.PathLike[str]):
    """What is piped in, kept in a file: tables are read more than once, and their fingerprint is told."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - as long as this object
        shutil.copyfileobj(sys.stdin.buffer, self._file)
        self._file.flush()

    def __fspath__(self) -> str:
        return self._file.name

    def __str__(self) -> str:
        return "standard input"


@dataclass
class Data:
    """A table to learn from: X, y and names, where they come from, and what was done to them."""

    X: Any
    y: np.ndarray
    names: list[str]
    path: PathLike
    offset: np.ndarray | None = None
    preparation: Preparation | None = None
    told: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    def rows(self, index: np.ndarray) -> Data:
        """Some of the rows."""
        offset = None if self.offset is None else self.offset[index]
        return Data(self.X[index], self.y[index], self.names, self.path, offset)

    def without_offset(self, column: str) -> Data:
        """The same with a column of X as the offset."""
        place = self.places([column], "--offset")[0]
        others = [j for j in range(len(self.names)) if j != place]
        offset = np.asarray(self.X[:, [place]] @ np.ones(1), dtype=float)  # dense or not
        if not others:
            raise Refusal(f"--offset {column}: {self.path} has no other column to explain the target by", Exit.DATA)
        names = [self.names[j] for j in others]
        return Data(self.X[:, others], self.y, names, self.path, offset, self.preparation, self.told)

    def places(self, names: Sequence[str], asked: str) -> list[int]:
        """Columns by name."""
        if unknown := [name for name in names if name not in self.names]:
            lost = f"{asked} {unknown[0]}: {self.path} has no such column; it has {some_of(self.names)}"
            raise Refusal(lost, Exit.DATA)
        return [self.names.index(name) for name in names]


@contextmanager
def reading() -> Iterator[None]:
    """Errors of files, and of what is in them, have their own exit code."""
    try:
        yield
    except FileNotFoundError as error:
        raise Refusal(f"{error.filename}: there is no such file; check the path", Exit.DATA) from error
    except IsADirectoryError as error:
        raise Refusal(f"{error.filename}: this is a folder; name a file in it", Exit.DATA) from error
    except (OSError, ValueError) as error:
        raise Refusal(_OPTION.sub(r"(--\1", str(error)), Exit.DATA) from error


def read_any(path: str, kind: str | None) -> tuple[PathLike, bool]:
    """The file, or what is piped in for "-", and whether it is in LIBSVM format: by the name unless it is told."""
    if path == "-":
        return StandardInput(), kind == "libsvm"
    plain = Path(path).with_suffix("") if Path(path).suffix in (".gz", ".bz2") else Path(path)
    return path, plain.suffix in _LIBSVM if kind is None else kind == "libsvm"


def table_of(path: PathLike, separator: str | None, decimal: str | None, as_text: Collection[str] = ()) -> Table:
    """A table, with a separator by its name or itself."""
    between = separator if separator is None else SEPARATORS.get(separator, separator)
    return Table.read(path, separator=between, decimal=decimal, as_text=as_text)


def read_data(
    path: str,
    targets: tuple[str, ...],
    kind: str | None,
    labels: bool,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    text: str = "refuse",
    missing: str = "refuse",
    ignore: tuple[str, ...] = (),
) -> Data:
    """A table or LIBSVM file, ready to learn from."""
    if twice := [name for name in targets if targets.count(name) > 1]:
        raise click.UsageError(f"'--target {twice[0]}' was given twice; name each column once")
    with reading():
        source, is_libsvm = read_any(path, kind)
        if is_libsvm:
            if ignore or text != "refuse" or missing != "refuse":
                raise click.UsageError("'--ignore', '--text' and '--missing' are for tables, not for LIBSVM files")
            X, y = read_libsvm(source)
            return Data(X, y, [f"x{i}" for i in range(X.shape[1])], source)
        if not targets:
            raise click.UsageError("Missing option '--target': name the column to be explained")
        table = table_of(source, separator, decimal, targets if labels else ())
        table, preparation, told = prepare(table, targets, text=text, missing=missing, ignore=ignore)
        names = preparation.names()
        X = preparation.apply(table)
        also = ", or ask for classes (--loss logistic)"
        y = table.labels(targets[0]) if labels else np.column_stack([table.column(name, also) for name in targets])
    return Data(X, y if labels or len(targets) > 1 else y[:, 0], names, source, None, preparation, told)


#: how a file is read
file_options = options(
    option("--format", "kind", type=Choice(["csv", "libsvm"]), help="Default: by the file's name."),
    option("--separator", metavar="CHARACTER", help="Such as ';', or the word tab.  [default: seen]"),
    option("--decimal", type=Choice([".", ","]), help="Decimal sign.  [default: seen]"),
)
#: what is learnt from
data_options = options(
    argument("data", metavar="DATA"),
    option(
        "--target",
        multiple=True,
        metavar="COLUMN",
        help="Column to be explained (tables); repeat for several that share their features.",
    ),
    option("--ignore", multiple=True, metavar="COLUMN", help="Left out. May be repeated."),
    option("--text", type=Choice(TEXT), default="refuse", help="Columns of text: onehot makes dummies of them."),
    option(
        "--missing",
        type=Choice(MISSING),
        default="refuse",
        help="Missing values: drop their rows, or fill in their column's mean or median.",
    ),
    file_options,
)
