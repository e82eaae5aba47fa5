"""Γ from the words of users: sets, words, bounds and signs by the names of features, and several of these at once."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any

import numpy as np

from ..sets import Box, ConstraintSet, Everywhere, GroupWise, NonNegative, Simplex, SubSimplex
from ..sets.combine import meet

WORDS: dict[str, Callable[[], ConstraintSet]] = {
    "nonnegative": NonNegative,
    "nonpositive": lambda: Box(upper=0.0),
    "simplex": lambda: Simplex(1.0),
    "subsimplex": lambda: SubSimplex(1.0),
}
_SIGNS = {
    "+": (0.0, math.inf),
    "-": (-math.inf, 0.0),
    "nonnegative": (0.0, math.inf),
    "nonpositive": (-math.inf, 0.0),
}


def read_constraint(
    constraint: Any, labels: list[Any] | None, names: np.ndarray | None, n_features: int
) -> ConstraintSet:
    """Γ of the features of one output.

    Parameters
    ----------
    constraint : None, set, word, mapping or list of these
        A mapping gives a set for each group, or bounds or a sign for features by name; a list means all of it.
    labels : list, optional
        The group of every feature: sets and words then hold in every group.
    names : array of str, optional
        Those of the features.
    n_features : int
    """
    if isinstance(constraint, (list, tuple)):
        if not constraint:
            raise ValueError("constraint=[] asks for nothing; give None, or at least one set")
        return meet(*(read_constraint(part, labels, names, n_features) for part in constraint), names=names)
    if isinstance(constraint, Mapping):
        if labels is not None and all(label in labels for label in constraint):
            return GroupWise({label: read_set(part) for label, part in constraint.items()}, labels)
        return _bounds(constraint, names, n_features, labels)
    if labels is None:
        return read_set(constraint)
    if constraint is None:
        raise ValueError(
            "groups says which features belong together, and constraint=None asks nothing of them; "
            'give the set of every group, such as constraint=ellzero.sets.L1Ball(1.0), or select="groups" to take '
            "groups as a whole, or at_most=2 for two features of each"
        )
    return GroupWise(read_set(constraint), labels)


def read_set(constraint: Any) -> ConstraintSet:
    """A set, from itself, its word or None."""
    if constraint is None:
        return Everywhere()
    if isinstance(constraint, ConstraintSet):
        return copy(constraint)  # sets keep what they compute, and parameters of estimators must stay as they are
    if isinstance(constraint, str) and constraint in WORDS:
        return WORDS[constraint]()
    raise ValueError(
        f"constraint must be one of {', '.join(map(repr, WORDS))}, or a set such as "
        f'ellzero.sets.L1Ball(1.0), bounds and signs by name such as {{"age": (0, 3), "bmi": "+"}}, a list of these, '
        f"or None; got {constraint!r}"
    )


def _bounds(given: Mapping[Any, Any], names: np.ndarray | None, n_features: int, labels: Any) -> ConstraintSet:
    """Bounds of some features; the others are free."""
    if labels is None and any(isinstance(part, ConstraintSet) for part in given.values()):
        raise ValueError("constraint gives a set for each group, so groups must give a label for each feature")
    if names is None:
        raise ValueError(
            "constraint gives bounds by the names of features (or sets by the labels of groups, of which there are "
            f"{'others' if labels else 'none'}), and X has no names; give X as a DataFrame, let the transformer before "
            'it keep them (set_output(transform="pandas")), or give feature_names'
        )
    check_known(given, names, "constraint")
    place = {name: j for j, name in enumerate(names)}
    lower, upper = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    for name, bounds in given.items():
        lower[place[name]], upper[place[name]] = _interval(name, bounds)
    return Box(lower, upper)


def _interval(name: Any, bounds: Any) -> tuple[float, float]:
    if isinstance(bounds, str) and bounds in _SIGNS:
        return _SIGNS[bounds]
    pair = list(bounds) if isinstance(bounds, (tuple, list, np.ndarray)) else []
    known = all(end is None or (isinstance(end, numbers.Real) and not math.isnan(end)) for end in pair)
    if len(pair) != 2 or not known:
        raise ValueError(
            f'constraint of {name!r} must be a pair (low, high), of which either may be None, or a sign, "+" or "-"; '
            f"got {bounds!r}"
        )
    low, high = (-math.inf if pair[0] is None else float(pair[0])), (math.inf if pair[1] is None else float(pair[1]))
    if low > high or low == math.inf or high == -math.inf:
        raise ValueError(f"constraint of {name!r} must leave something between its bounds, got {bounds!r}")
    return low, high


def check_known(given: Iterable[Any], names: np.ndarray, argument: str) -> None:
    """Features that are named must be there."""
    known = set(names)
    for name in given:
        if name not in known:
            alike = [other for other in names if str(name).lower() in str(other).lower()][:3] or list(names[:3])
            raise ValueError(
                f"{argument} names the feature {name!r}, which X does not have; it has {', '.join(map(repr, alike))}"
                f"{', ...' if names.size > len(alike) else ''}"
            )
