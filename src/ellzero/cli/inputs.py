"""From files and words to data and sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
from click import FloatRange, IntRange, option

from .. import sets
from ..datasets.text_files import read_rows, some_of
from ..estimators.constraints import WORDS, read_set
from ..estimators.onehot import dummy_groups
from ..estimators.request import CLASS_LOSSES, LOSSES
from .files import reading
from .screen import Exit, Refusal, options

#: of all coordinates: how many, or a fraction
Share = int | float
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


def _bound(text: str) -> tuple[str, Any]:
    """A column with its bounds, age=0,3 (either may be blank), or its sign, age=+."""
    name, equals, rest = text.rpartition("=")
    if equals and rest in ("+", "-"):
        return name, rest
    ends = rest.split(",")
    try:
        if equals and len(ends) == 2:
            return name, tuple(float(end) if end.strip() else None for end in ends)
    except ValueError:
        pass
    raise ValueError(f"{text!r} is no bound; write age=0,3 (either number may be left out), age=+ or age=-")


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
BOUND = Read("column=low,high", _bound)


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
    parts: Sequence[sets.ConstraintSet],
    bounds: Sequence[tuple[str, Any]],
    groups: list[str] | None,
    select: str,
    at_most: int | None,
) -> Any:
    """The intersection of what was asked."""
    counted = select == "groups" or at_most is not None
    if counted and groups is None:
        raise click.UsageError("'--whole-groups' and '--at-most' need '--groups', a file or the word onehot")
    if len({name for name, _ in bounds}) < len(bounds):
        raise click.UsageError("'--bound' was given twice for a column; give both of its ends at once, as in age=0,3")
    named = [dict(bounds)] if bounds else []
    if not parts:
        if groups is not None and not counted and not bounds:
            raise click.UsageError(
                "'--groups' needs '--constraint', the set of every group, such as l1:0.1, or '--whole-groups' or "
                "'--at-most N', which count by groups"
            )
        return named[0] if named else None
    whole = parts[0] if len(parts) == 1 else sets.Intersection(*parts)
    return [whole, *named] if named else whole


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
        "--bound",
        "bounds",
        type=BOUND,
        multiple=True,
        help="Of one column's weight: age=0,3 (either may be left out), age=+ or age=-. May be repeated.",
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
