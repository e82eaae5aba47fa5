"""From the words of users to what is asked: k, Γ, the coordinates to keep, and the loss."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.validation import check_indices, check_positive, is_masked
from ..risks import Huber, LeastSquares, Poisson
from ..risks.base import Risk
from ..sets import Box, ConstraintSet, Everywhere, GroupWise, NonNegative, Simplex, SubSimplex

WORDS: dict[str, Callable[[], ConstraintSet]] = {
    "nonnegative": NonNegative,
    "nonpositive": lambda: Box(upper=0.0),
    "simplex": lambda: Simplex(1.0),
    "subsimplex": lambda: SubSimplex(1.0),
}
_LOSSES: dict[str, Callable[..., Risk]] = {"squared": LeastSquares, "huber": Huber, "poisson": Poisson}
_DEFAULT_K = 5
_HUBER_TUNING = 1.35  # times the standard deviation: 95% as efficient as least squares under normal noise


@dataclass(frozen=True)
class Question:
    """What is asked of the coefficients: Γ and the coordinates that are always kept, classes one after the other."""

    gamma: ConstraintSet
    keep: np.ndarray  # coordinates
    kept_features: np.ndarray


def read_question(
    constraint: Any, groups: Any, keep: Any, names: np.ndarray | None, n_features: int, n_outputs: int
) -> Question:
    """Γ and the kept coordinates for all outputs; what the user says is about the features of one."""
    gamma = _constraint(constraint, _labels(groups, names, n_features))
    size = n_features * n_outputs
    if gamma.n_features not in (None, n_features, size):
        raise ValueError(
            f"constraint={gamma!r} is made for {gamma.n_features} coefficients, and X has {n_features} features"
        )
    if n_outputs > 1 and gamma.n_features != size and not gamma.whole_space:
        gamma = GroupWise(gamma, groups=np.repeat(np.arange(n_outputs), n_features))
    kept = _kept(keep, names, n_features)
    everywhere = (kept + n_features * np.arange(n_outputs)[:, None]).ravel()
    return Question(gamma, everywhere, kept)


def read_k(k: Any, n_coefficients: int, n_kept: int, name: str = "k", *, strict: bool = False) -> int:
    """A number of nonzeros from a number or a fraction; None is the default.

    More than there are coefficients is all of them, with a warning, or an error if strict.
    """
    if k is None:
        return min(max(_DEFAULT_K, n_kept), n_coefficients)
    if isinstance(k, bool) or not isinstance(k, numbers.Real):
        raise TypeError(f"{name} must be a number of nonzeros, such as 10, or a fraction, such as 0.1; got {k!r}")
    if isinstance(k, numbers.Integral):
        number = int(k)
    elif 0 < float(k) <= 1:
        number = max(1, int(float(k) * n_coefficients * (1 + 1e-12)))  # 0.29 of 100 is 29, whatever rounding says
    else:
        remedy = f"; write {int(float(k))} for a number" if math.isfinite(float(k)) else ""
        raise ValueError(f"{name} as a fraction must lie in (0, 1], got {name}={k}{remedy}")
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {name}={k}")
    if number > n_coefficients:
        too_many = f"{name}={k} is more than there are coefficients (n_features = {n_coefficients})"
        if strict:
            raise ValueError(f"{too_many}; use at most {n_coefficients}")
        warnings.warn(f"{too_many}; all of them may be nonzero", UserWarning, stacklevel=3)
        number = n_coefficients
    if number < n_kept:
        raise ValueError(f"{name}={k} is less than the {n_kept} coefficients that keep asks for: they count in {name}")
    return number


def read_ks(ks: Any, n_coefficients: int, n_kept: int, name: str = "ks", *, strict: bool = False) -> list[int]:
    """Increasing numbers of nonzeros; an integer K means 1, ..., K."""
    if isinstance(ks, numbers.Integral):
        ks = range(max(1, n_kept), read_k(ks, n_coefficients, n_kept, name, strict=strict) + 1)
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise TypeError(f"{name} must be an integer K (for 1, ..., K) or numbers such as [2, 5, 10], got {ks!r}")
    levels = sorted({read_k(k, n_coefficients, n_kept, name, strict=strict) for k in ks})
    if not levels:
        raise ValueError(f"{name} must name at least one k, got none")
    return levels


def read_loss(loss: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> Callable[..., Risk]:
    """The risk of a regression; the turning point of Huber's loss follows from the spread of y if it is not given."""
    word, delta = loss if isinstance(loss, tuple) and len(loss) == 2 else (loss, None)
    if not isinstance(word, str) or word not in _LOSSES or (delta is not None and word != "huber"):
        raise ValueError(f'loss must be "squared", "poisson", "huber" or ("huber", delta), got {loss!r}')
    if word != "huber":
        return _LOSSES[word]
    if delta is not None:
        return partial(Huber, delta=check_positive(delta, "delta of the loss"))
    return partial(Huber, delta=_HUBER_TUNING * _robust_deviation(y.astype(float), sample_weight))


def _robust_deviation(y: np.ndarray, sample_weight: np.ndarray | None) -> float:
    """1.4826 times the median distance from the median: σ for normal y, whatever a minority of outliers does."""
    weights = np.ones(y.size) if sample_weight is None else np.asarray(sample_weight, float)
    spread = 1.4826 * _median(np.abs(y - _median(y, weights)), weights)
    return spread or float(np.std(y)) or 1.0  # more than half of y equal; all of it


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """The middle value, or the mean of two: as if each value came as often as its weight says."""
    order = np.argsort(values, kind="stable")
    reached, half = np.cumsum(weights[order]), 0.5 * float(weights.sum())
    low, high = (int(np.searchsorted(reached, half, side=side)) for side in ("left", "right"))
    last = values.size - 1
    return 0.5 * float(values[order[min(low, last)]] + values[order[min(high, last)]])


def _constraint(constraint: Any, labels: list[Any] | None) -> ConstraintSet:
    if isinstance(constraint, Mapping):
        if labels is None:
            raise ValueError("constraint gives a set for each group, so groups must give a label for each feature")
        return GroupWise({label: read_set(part) for label, part in constraint.items()}, labels)
    if labels is None:
        return read_set(constraint)
    if constraint is None:
        raise ValueError(
            "groups says which features belong together, and constraint=None asks nothing of them; "
            "give the set of every group, such as constraint=ellzero.sets.L1Ball(1.0)"
        )
    return GroupWise(read_set(constraint), labels)


def read_set(constraint: Any) -> ConstraintSet:
    """A set, from itself, its word or None."""
    if constraint is None:
        return Everywhere()
    if isinstance(constraint, ConstraintSet):
        return constraint
    if isinstance(constraint, str) and constraint in WORDS:
        return WORDS[constraint]()
    raise ValueError(
        f"constraint must be one of {', '.join(map(repr, WORDS))}, or a set such as "
        f"ellzero.sets.L1Ball(1.0), or None; got {constraint!r}"
    )


def _labels(groups: Any, names: np.ndarray | None, n_features: int) -> list[Any] | None:
    """A label for each feature, None for one in no group."""
    if groups is None:
        return None
    if names is not None and hasattr(groups, "to_dict") and not _is_numbered(groups):  # a pandas Series by name
        if not groups.index.is_unique:
            twice = groups.index[groups.index.duplicated()][0]
            raise ValueError(f"groups gives the feature {twice!r} more than one label; give each of them one")
        groups = groups.to_dict()
    if isinstance(groups, Mapping):
        if names is None:
            raise ValueError("groups maps feature names to labels, and X has no names; give a label for each feature")
        _known(groups, names, "groups")
        groups = [groups.get(name) for name in names]
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable) or getattr(groups, "ndim", 1) != 1:
        raise TypeError(f"groups must be a label for each feature, or a mapping from names to labels, got {groups!r}")
    labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(labels) != n_features:
        raise ValueError(f"groups must give a label for each of the {n_features} features, got {len(labels)}")
    return [None if isinstance(label, float) and math.isnan(label) else label for label in labels]


def _is_numbered(series: Any) -> bool:
    """Whether the index of a pandas Series is only 0, 1, ...: what pandas makes where nobody gave one."""
    index = series.index
    return (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1)


def _kept(keep: Any, names: np.ndarray | None, n_features: int) -> np.ndarray:
    """Features by index, mask or name."""
    if isinstance(keep, str):
        keep = [keep]
    if isinstance(keep, Iterable) and not is_masked(keep) and getattr(keep, "ndim", 1) > 0:
        keep = list(keep)
        if any(isinstance(entry, str) for entry in keep):
            if names is None:
                raise ValueError(f"keep={keep!r} gives names, and X has none; give indices, or X as a DataFrame")
            _known(keep, names, "keep")
            place = {name: j for j, name in enumerate(names)}
            keep = [place[name] for name in keep]
    return check_indices(keep, n_features, "keep")


def _known(given: Iterable[Any], names: np.ndarray, argument: str) -> None:
    known = set(names)
    for name in given:
        if name not in known:
            alike = [other for other in names if str(name).lower() in str(other).lower()][:3] or list(names[:3])
            raise ValueError(
                f"{argument} names the feature {name!r}, which X does not have; it has {', '.join(map(repr, alike))}"
                f"{', ...' if names.size > len(alike) else ''}"
            )
