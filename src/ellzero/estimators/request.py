"""What is asked, from the words of users to R, Γ, k and a method: one way for estimators and the command line."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import is_array
from .._core.interruption import whole_call
from .._core.validation import check_indices, check_nonnegative, check_positive, is_masked
from ..design import Design, as_design
from ..minimize import minimize, minimize_path
from ..risks import Gamma, Huber, LeastSquares, LinearModel, Logistic, Multinomial, Poisson, Quantile, SquaredHinge
from ..risks.base import Risk
from ..risks.robust import huber_delta, quantile_smoothing
from ..sets import ConstraintSet
from ..solver.methods import Method, preset
from ..solver.path import SparsePath
from ..solver.problem import for_every_output
from ..solver.result import Result
from ..sparsity import Coordinates, Groups, PerGroup, Rows, Sparsity
from .constraints import check_known, read_constraint

#: makes the risk of any rows: maker(X, y, ridge=, sample_weight=, offset=, fit_intercept=)
Maker = Callable[..., LinearModel]

LOSSES: dict[str, Maker] = {
    "squared": LeastSquares,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
    "gamma": Gamma,
}
#: losses of classes
CLASS_LOSSES = ("logistic", "squared_hinge")
_DEFAULT_K = 5
#: times the typical variance of a column, the ridge of classifiers: without any, classes that a line can separate
#: have no finite answer
_RELATIVE_RIDGE = 0.01


@dataclass(frozen=True)
class Request:
    """min R(w) over sparse w in Γ, for any rows of the data and any k.

    Attributes
    ----------
    gamma : ConstraintSet
        Γ of all coefficients, outputs one after the other.
    sparsity : Sparsity
        What a number k counts.
    keep : array of int
        What is always kept, as this sparsity names it: features, or coordinates.
    coordinates : array of int
        The coefficients of the features that are always kept.
    standardize : bool
        Whether methods compare entries in units of the columns of the data, or as they are.
    """

    gamma: ConstraintSet
    sparsity: Sparsity
    keep: np.ndarray
    coordinates: np.ndarray
    standardize: bool

    @classmethod
    def read(
        cls,
        risk: Risk,
        constraint: Any,
        groups: Any,
        keep: Any,
        standardize: bool,
        names: np.ndarray | None = None,
        *,
        k: Any = None,
        select: str = "features",
        at_most: Any = None,
    ) -> Request:
        """From what the user says about the features of one output, for risks such as this one."""
        n_features = risk.n_features // risk.n_outputs
        labels = _labels(groups, names, n_features)
        counted = _counted(k, labels, select, at_most, risk.n_outputs)
        sparsity = counted.within(risk.n_features, risk.n_outputs)
        whole = select == "groups" or at_most is not None  # groups are of use without a set for each of them
        gamma = read_constraint(constraint, None if constraint is None and whole else labels, names, n_features)
        if gamma.n_features not in (None, n_features, risk.n_features):
            raise ValueError(
                f"constraint={gamma!r} is made for {gamma.n_features} coefficients, and X has {n_features} features"
            )
        gamma = for_every_output(gamma, risk, of_any_size=True)
        kept = _kept(keep, names, n_features)
        everywhere = (kept + n_features * np.arange(risk.n_outputs)[:, None]).ravel()
        together = sparsity.atoms is not None and np.isin(everywhere, sparsity.filled(kept)).all()
        return cls(gamma, sparsity, kept if together else everywhere, everywhere, bool(standardize))

    @property
    def n_kept(self) -> int:
        """How much of k is taken by what is always kept."""
        return self.sparsity.size(self.coordinates)

    @property
    def _n_needed(self) -> int:
        """The same with what Γ holds away from zero."""
        return self.sparsity.size(np.union1d(self.coordinates, self.gamma.forced).astype(np.intp))

    @property
    def least(self) -> int:
        """The smallest k that leaves a choice."""
        return max(1, self._n_needed)

    def most(self, risk: Risk) -> int:
        """The k beyond which nothing more is allowed."""
        return self.sparsity.most(risk.n_features)

    def k(self, k: Any, risk: Risk, name: str = "k", *, strict: bool = False) -> int:
        """How much is allowed, from a number or a fraction; see `read_k`."""
        return read_k(k, self.most(risk), self._n_needed, name, strict=strict, counted=self.sparsity)

    def ks(self, ks: Any, risk: Risk, name: str = "ks", *, strict: bool = False) -> list[int]:
        """Several k; see `read_ks`."""
        return read_ks(ks, self.most(risk), self._n_needed, name, strict=strict, counted=self.sparsity)

    def selected(self, result: Result, n_features: int) -> np.ndarray:
        """The features that an answer uses, with those that are always kept and the rest of their groups."""
        used = np.union1d(result.support, result.sparsity.filled(self.coordinates)).astype(np.intp)
        return np.unique(np.union1d(result.sparsity.filled(used), result.sparsity.free) % n_features).astype(np.intp)

    def method(self, method: str | Method) -> str | Method:
        """The method in these units, unless it says itself in which; "exact", which proves, begins as "auto" does."""
        chosen = preset(method) if isinstance(method, str) and method != "exact" else method
        if not isinstance(chosen, Method) or chosen.standardize is not None:
            return chosen
        return replace(chosen, standardize=self.standardize)

    def minimize(self, risk: Risk, k: int, method: str | Method, **options: Any) -> Result:
        """The answer for one k."""
        return minimize(risk, self.sparsity.with_k(k), self.gamma, self.method(method), keep=self.keep, **options)

    def path(self, risk: Risk, ks: Iterable[int], method: str | Method, **options: Any) -> SparsePath:
        """The answers for several k; Ctrl-C ends all of it."""
        levels = [self.sparsity.with_k(k) for k in ks]
        with whole_call():
            return minimize_path(risk, levels, self.gamma, self.method(method), keep=self.keep, **options)


def _counted(k: Any, labels: list[Any] | None, select: Any, at_most: Any, n_outputs: int) -> Sparsity:
    """What a number k counts."""
    if select not in ("features", "groups"):
        raise ValueError(f'select must be "features" or "groups", got {select!r}')
    if select == "groups" and at_most is not None:
        raise ValueError(
            'at_most says how many features of each group may be used, and select="groups" takes groups as a whole; '
            "leave one of them out"
        )
    word = 'select="groups"' if select == "groups" else "at_most"
    if select == "features" and at_most is None:
        return k if isinstance(k, Sparsity) else Rows(0) if n_outputs > 1 else Coordinates(0)
    if isinstance(k, Sparsity):
        raise ValueError(f"k={k!r} says itself what is counted, and so does {word}; give k as a number")
    if labels is None:
        raise ValueError(f"{word} needs groups: a label for each feature, or a mapping from names to labels")
    return Groups(0, labels) if select == "groups" else PerGroup(0, labels, at_most)


def read_k(
    k: Any, most: int, n_kept: int, name: str = "k", *, strict: bool = False, counted: Sparsity | None = None
) -> int:
    """How much is allowed, from a number or a fraction, or the k of a sparsity; None is the default.

    More than there is means all of it, with a warning, or an error if strict.
    """
    if k is None:
        return min(max(_DEFAULT_K, n_kept), most)
    what, there = "nonzeros", f"coefficients (n_features = {most})"
    if counted is not None and not counted.plain:
        what = there = counted.counted
    if isinstance(k, Sparsity):
        return _at_most(k.k, most, there, name, strict)
    if isinstance(k, bool) or not isinstance(k, numbers.Real):
        raise TypeError(f"{name} must be a number of {what}, such as 10, or a fraction, such as 0.1; got {k!r}")
    if isinstance(k, numbers.Integral):
        number = int(k)
    elif 0 < float(k) <= 1:
        number = max(1, int(float(k) * most * (1 + 1e-12)))  # 0.29 of 100 is 29, whatever rounding says
    else:
        remedy = f"; write {int(float(k))} for a number" if math.isfinite(float(k)) else ""
        raise ValueError(f"{name} as a fraction must lie in (0, 1], got {name}={k}{remedy}")
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {name}={k}")
    number = _at_most(number, most, there, name, strict)
    if number < n_kept:
        needed = f"{n_kept} {there.split()[0]}"
        raise ValueError(
            f"{name}={k} is less than the {needed} that keep, or bounds without 0, ask for: they count in {name}, so "
            "raise it"
        )
    return number


def _at_most(number: int, most: int, of_what: str, name: str, strict: bool) -> int:
    if number > most:
        too_many = f"{name}={number} is more than there are {of_what}"
        if strict:
            raise ValueError(f"{too_many}; use at most {most}")
        warnings.warn(f"{too_many}; all of them may be nonzero", UserWarning, stacklevel=5)
    return min(number, most)


def read_ks(
    ks: Any, most: int, n_kept: int, name: str = "ks", *, strict: bool = False, counted: Sparsity | None = None
) -> list[int]:
    """Increasing numbers for k; an integer K means 1, ..., K, and a sparsity the same up to its k."""
    if isinstance(ks, (numbers.Integral, Sparsity)):
        ks = range(max(1, n_kept), read_k(ks, most, n_kept, name, strict=strict, counted=counted) + 1)
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise TypeError(f"{name} must be an integer K (for 1, ..., K) or numbers such as [2, 5, 10], got {ks!r}")
    ks = list(ks)
    if any(isinstance(k, Sparsity) for k in ks):
        raise TypeError(
            f"{name} must be numbers, or one sparsity, which is walked up to its k; got a list of {ks[0]!r}"
        )
    levels = sorted({read_k(k, most, n_kept, name, strict=strict, counted=counted) for k in ks})
    if not levels:
        raise ValueError(f"{name} must name at least one k, got none")
    return levels


def read_loss(loss: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> Maker:
    """The risk of a regression; where Huber's loss turns, and a quantile's smoothing, follow from the spread of y."""
    word, number = loss if isinstance(loss, tuple) and len(loss) == 2 else (loss, None)
    known = isinstance(word, str) and word in LOSSES
    if not known or (number is not None and word not in ("huber", "quantile")):
        raise ValueError(
            'loss must be "squared", "poisson", "gamma", "huber" or ("huber", delta), "quantile" or ("quantile", τ), '
            f"got {loss!r}"
        )
    if word == "huber":
        delta = huber_delta(y, sample_weight) if number is None else check_positive(number, "delta of the loss")
        return partial(Huber, delta=delta)
    if word == "quantile":
        level = 0.5 if number is None else number
        return partial(Quantile, quantile=level, smoothing=quantile_smoothing(y, sample_weight))
    return LOSSES[word]


def read_classes(y: np.ndarray, sample_weight: np.ndarray | None, loss: Any = "logistic") -> Maker:
    """The risk of a classification, for two classes or more."""
    if not isinstance(loss, str) or loss not in CLASS_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, CLASS_LOSSES))}, got {loss!r}")
    there = np.unique(y if sample_weight is None else y[sample_weight > 0])
    if there.size < 2:
        raise ValueError(
            f"y must hold at least two classes with positive sample_weight, got one class: {there.tolist()}"
        )
    if loss == "squared_hinge":
        return SquaredHinge  # which says itself what to do with more than two
    return Logistic if np.unique(y).size == 2 else Multinomial


def class_weights(class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
    """The weights of the rows times those of their classes; "balanced": every class has the same sum."""
    if class_weight is None:
        return sample_weight
    weights = np.ones(y.shape[0]) if sample_weight is None else sample_weight
    labels, position = np.unique(y, return_inverse=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(position, weights)
        factor = weights.sum() / (labels.size * np.where(sums > 0, sums, 1.0))
    elif isinstance(class_weight, Mapping):
        known = labels.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise ValueError(
                f"class_weight names the class {unknown[0]!r}, which y does not hold; it holds {known[:5]}"
            )
        factor = np.array([check_nonnegative(class_weight.get(c, 1.0), f"class_weight of {c!r}") for c in known])
    else:
        raise ValueError(
            f'class_weight must be "balanced", a mapping from label to weight, or None; got {class_weight!r}'
        )
    return np.asarray(weights * factor[position])


def classifier_ridge(X: Any, sample_weight: np.ndarray | None = None) -> float:
    """The ridge of a classification where none is asked for."""
    return _RELATIVE_RIDGE * typical_variance(X, sample_weight)


def typical_variance(X: Any, sample_weight: np.ndarray | None) -> float:
    """The median of the (weighted) variances of the columns that vary; 1 where nothing does.

    Not the mean: a column in other units than the rest, grams among tonnes, would decide alone.
    """
    share = np.full(X.shape[0], 1 / X.shape[0])
    if sample_weight is not None and sample_weight.any():
        share = sample_weight / sample_weight.max()  # first, for the sum may overflow
        share = share / share.sum()
    with np.errstate(over="ignore", invalid="ignore"):  # a column of 1e200 says nothing about the others
        if isinstance(X, Design) and sample_weight is None:
            means, squares = X.sums / X.shape[0], X.squares / X.shape[0]  # known from a first look
        elif isinstance(X, Design) or (is_array(X) and not isinstance(X, np.ndarray)):  # perhaps on a device
            design = as_design(X)
            means, squares = design.correlations(share), design.square_sums(share)
        else:
            means = X.T @ share
            squares = np.einsum("ij,ij,i->j", X, X, share) if isinstance(X, np.ndarray) else X.power(2).T @ share
        variances = squares - means**2
        varies = np.isfinite(variances) & (variances > 1e-12 * squares)
    return float(np.median(variances[varies])) if varies.any() else 1.0


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
            raise ValueError(
                "groups maps feature names to labels, and X has no names; give a label for each, or feature_names"
            )
        check_known(groups, names, "groups")
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
                raise ValueError(
                    f"keep={keep!r} gives names, and X has none; give indices, X as a DataFrame, or feature_names"
                )
            check_known(keep, names, "keep")
            place = {name: j for j, name in enumerate(names)}
            keep = [place[name] for name in keep]
    return check_indices(keep, n_features, "keep")
