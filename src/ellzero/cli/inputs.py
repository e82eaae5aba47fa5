"""From files and words to data and sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from click import Choice, FloatRange, IntRange, argument, option

from .. import sets
from ..datasets.readers import read_libsvm
from ..datasets.tables import read_table
from ..datasets.text_files import read_rows, some_of
from ..estimators.onehot import dummy_groups
from ..estimators.request import CLASS_LOSSES, LOSSES, WORDS, read_set
from .screen import Exit, Refusal, options

#: of all coordinates: how many, or a fraction
Share = int | float
_LIBSVM = (".svm", ".libsvm", ".svmlight")
#: sets with numbers; those without are the words of the estimators
_NUMBERED = {
    "simplex": (1, sets.Simplex),
    "subsimplex": (1, sets.SubSimplex),
    "l1": (1, sets.L1Ball),
    "l2": (1, sets.L2Ball),
    "linf": (1, sets.LinfBall),
    "box": (2, sets.Box),
}


class Read(click.ParamType):  # type: ignore[type-arg]
    """A value read from its text by a function, whose ValueError says what to write instead."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self.read = name, read

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value; what is no text was read before."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error))


def _share(text: str) -> Share:
    """A number of nonzeros, 15, or a fraction of them, 0.1."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    raise ValueError(f"{text!r} is neither a number of nonzeros, such as 15, nor a fraction, such as 0.1")


def _levels(text: str) -> int | list[int]:
    """The k of a path: K for 1, ..., K, or first:last:step, or k,k,..."""
    try:
        if ":" in text:
            first, last, *step = (int(part) for part in text.split(":"))
            return list(range(first, last + 1, *step))
        levels = [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        raise ValueError(f"{text!r} names no k; write 20 (for 1, ..., 20), 5:50:5 or 1,2,5,10") from None
    return levels[0] if len(levels) == 1 else levels


def _constraint(text: str) -> sets.ConstraintSet:
    """A set by its word, with its numbers behind a colon: nonnegative, box:-1,1, l1:0.5, ..."""
    if text in WORDS:
        return read_set(text)
    word, _, rest = text.partition(":")
    numbered = (f"{name}:{'R' if n == 1 else 'LOW,HIGH'}" for name, (n, _) in _NUMBERED.items())
    remedy = f"write one of {', '.join(['nonnegative', 'nonpositive', *numbered])}"
    if word not in _NUMBERED:
        raise ValueError(f"{text!r} is no constraint; {remedy}")
    count, make = _NUMBERED[word]
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        raise ValueError(f"{rest!r} in {text!r} must be numbers; {remedy}") from None
    if len(numbers) != count:
        raise ValueError(f"{text!r} needs {count} number(s) behind the colon; {remedy}")
    return make(*numbers)  # type: ignore[no-any-return]


def _loss(text: str) -> str | tuple[str, float]:
    """A loss by its word, with its number behind a colon: squared, quantile:0.9, ..."""
    word, colon, rest = text.partition(":")
    words = [*LOSSES, *CLASS_LOSSES]
    if word in words and not colon:
        return word
    if word in ("huber", "quantile"):
        with suppress(ValueError):
            return word, float(rest)
    numbered = {"huber": "huber[:DELTA]", "quantile": "quantile[:LEVEL]"}
    raise ValueError(f"{text!r} is no loss; write one of {', '.join(numbered.get(known, known) for known in words)}")


SHARE = Read("number|fraction", _share)
LEVELS = Read("K|first:last[:step]|k,k,...", _levels)
LOSS = Read("word[:number]", _loss)
CONSTRAINT = Read("word[:numbers]", _constraint)


@dataclass
class Data:
    """A table to learn from: X, y and names, and where they come from."""

    X: Any
    y: np.ndarray
    names: list[str]
    path: str
    offset: np.ndarray | None = None

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
        return Data(self.X[:, others], self.y, [self.names[j] for j in others], self.path, offset)

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
        raise Refusal(str(error), Exit.DATA) from error


def read_data(path: str, targets: tuple[str, ...], kind: str | None, labels: bool) -> Data:
    """A CSV or LIBSVM file, told apart by the name unless the kind is given."""
    plain = Path(path).with_suffix("") if Path(path).suffix in (".gz", ".bz2") else Path(path)
    if kind is None:
        kind = "libsvm" if plain.suffix in _LIBSVM else "csv"
    if twice := [name for name in targets if targets.count(name) > 1]:
        raise click.UsageError(f"'--target {twice[0]}' was given twice; name each column once")
    with reading():
        if kind == "libsvm":
            X, y = read_libsvm(path)
            return Data(X, y, [f"x{i}" for i in range(X.shape[1])], path)
        if not targets:
            raise click.UsageError("Missing option '--target': name the column to be explained")
        X, y, names = read_table(path, targets[0], text_target=labels)
    data = Data(X, y, names, path)
    more = data.places(targets[1:], "--target")
    if not more:
        return data
    if len(more) == len(names):
        raise Refusal(f"{path}: every column is a target; leave one to explain them", Exit.DATA)
    return Data(np.delete(X, more, axis=1), np.column_stack([y, X[:, more]]), np.delete(names, more).tolist(), path)


def read_groups(path: str, names: Sequence[str], X: Any) -> list[str]:
    """The group of every name: a CSV file with the columns symbol and sector, or feature and group; or "onehot"."""
    with reading():
        if path == "onehot":
            return dummy_groups(X, np.array(names, dtype=object))
        with read_rows(path) as (header, rows):
            pairs = (("feature", "group"), ("symbol", "sector"))
            if (found := next((pair for pair in pairs if set(pair) <= set(header)), None)) is None:
                raise ValueError(f"{path}: the header must name feature and group, or symbol and sector, got {header}")
            first, second = (header.index(name) for name in found)
            known = {cells[first]: cells[second] or "Unknown" for _, cells in rows}
        if lost := [name for name in names if name not in known]:
            raise ValueError(f"{path}: no group for {some_of(lost)}; add a row for every feature")
    return [known[name] for name in names]


def constraint_of(
    parts: Sequence[sets.ConstraintSet], groups: list[str] | None, select: str, at_most: int | None
) -> sets.ConstraintSet | None:
    """The intersection of what was asked."""
    counted = select == "groups" or at_most is not None
    if counted and groups is None:
        raise click.UsageError("'--whole-groups' and '--at-most' need '--groups', a file or the word onehot")
    if not parts:
        if groups is not None and not counted:
            raise click.UsageError(
                "'--groups' needs '--constraint', the set of every group, such as l1:0.1, or '--whole-groups' or "
                "'--at-most N', which count by groups"
            )
        return None
    return parts[0] if len(parts) == 1 else sets.Intersection(*parts)


def check_names(k: int, available: int) -> None:
    """A portfolio cannot have more names than there are."""
    if k > available:
        raise Refusal(f"--k {k} is more than the {available} assets there are; use at most {available}", Exit.USAGE)


def writable(path: str) -> str:
    """A file to be written: complain before the work is done rather than after it."""
    folder = Path(path).absolute().parent
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK) or not nearest.is_dir() or Path(path).is_dir():
        raise Refusal(f"{path}: cannot be written there; choose another file", Exit.DATA)
    return path


def seed_option(words: str) -> Callable[[Any], Any]:
    """What random parts start from."""
    return option("--seed", type=IntRange(min=0), default=0, help=words)


def report_option(words: str) -> Callable[[Any], Any]:
    """Where the page goes."""
    return option("--report", type=Read("file", writable), metavar="FILE", help=words)


#: what is learnt from
data_options = options(
    argument("data", metavar="DATA"),
    option(
        "--target",
        multiple=True,
        metavar="COLUMN",
        help="Column to be explained (CSV files); repeat for several that share their features.",
    ),
    option("--format", "kind", type=Choice(["csv", "libsvm"]), help="Default: by the file's name."),
)
#: what is asked
question_options = options(
    option("--offset", metavar="COLUMN", help="Added to every prediction, before exp of poisson and gamma."),
    option(
        "--loss",
        type=LOSS,
        default="squared",
        help="squared, huber[:DELTA], quantile[:LEVEL], poisson, gamma; logistic (two classes or more) and "
        "squared_hinge (two), whose labels may be text.",
    ),
    option(
        "--constraint",
        "constraints",
        type=CONSTRAINT,
        multiple=True,
        help="Γ: nonnegative, nonpositive, box:LOW,HIGH, l1:R, l2:R, linf:R, simplex:R, subsimplex:R. "
        "Repeat for an intersection.",
    ),
    option(
        "--groups",
        metavar="FILE",
        help="CSV with feature,group: the constraint then holds in every group. onehot: dummies, by their names.",
    ),
    option("--whole-groups", is_flag=True, help="k counts groups, which are taken as a whole."),
    option("--at-most", type=IntRange(min=0), metavar="N", help="Features of each group at the most."),
    option("--keep", multiple=True, metavar="COLUMN", help="Always kept; counts in k. May be repeated."),
    option("--ridge", type=FloatRange(min=0), help="Default 0; logistic: a hundredth of the columns' median variance."),
    option("--fit-intercept/--no-fit-intercept", "intercept", default=True, help="Never counted or constrained."),
    option(
        "--standardize/--no-standardize",
        default=True,
        help="Compare weights in units of their columns' deviations; Γ and ridge stay in those of the file.",
    ),
)
k_option = option("--k", type=SHARE, required=True, help="Features at the most, or their fraction of all.")
#: how the answer is looked for
method_options = options(
    option("--method", default="auto", help="A method by its name; see ellzero info."),
    seed_option("For random methods."),
    option("--max-iter", type=IntRange(min=1), default=1000, help="Iterations at most."),
    option("--time-limit", type=FloatRange(min=0, min_open=True), metavar="SECONDS"),
)
#: whether the answer is followed by a proof
certify_option = option(
    "--certify", type=FloatRange(min=0), metavar="SECONDS", help="Prove how good it is; 0: no branching."
)
#: where the answer goes
output_options = options(
    option("--out", type=Read("file", writable), metavar="FILE", help="Weights as .csv, or everything as .json."),
    report_option("A report as one HTML file."),
)
