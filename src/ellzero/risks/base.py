"""What a risk is: a function R of w, seen one `Point` at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from .._core.arrays import Array, finfo_eps, index_like, is_tensor, like, norm, scatter, to_host
from .._core.directions import Directions
from .._core.validation import NotFinite, as_numbers, check_indices, check_real, check_vector
from ..design import take
from ..sets import ConstraintSet
from .accuracy import EPS, Measured
from .curvature import Curvature, SelectedCurvature
from .facts import changed as changed
from .facts import own_names as own_names
from .point import Constant as Constant
from .point import Point as Point
from .point import no_longer_exact as no_longer_exact
from .self_knowledge import SelfKnowledge
from .session import Session as Session

T = TypeVar("T")


class Risk(SelfKnowledge, ABC):
    """R(w) = (1/n) Σ_i R_i(w): the function that is minimised.

    A risk of your own writes three methods: `_forward` (what value and gradient share, may be None), `_value`
    and `_gradient`; and, if it is a mean of terms, `_gradient_of_rows`.
    """

    #: number of coordinates of w
    n_features: int
    #: number of outputs; w holds the coefficients of one after those of the other
    n_outputs: int = 1
    #: number n of terms R_i
    n_terms: int = 1
    #: whether R is known to be convex
    convex: bool = False
    #: a number that R never goes below; 0 for losses
    lower_bound: float = -math.inf
    #: whether refits are dear beside the curvature: exchanges are looked for on tables of it, end with that of the last
    #: point, and begin anew without part of the support
    looks_twice: bool = False
    #: whether R can tell its gradients, and not only its values
    has_gradient: bool = True
    #: whether the gradients of single terms can be asked for, where there are several
    has_terms: bool = True
    #: whether an intercept is profiled out of R
    fit_intercept: bool = False
    #: whether R has a parameter `ridge`, which adds to its curvature
    takes_ridge: bool = False
    #: whether the data of R can be read entry by entry
    readable: bool = True
    #: whether the state of a point is the same for a risk that `restrict` has made
    keeps_state: bool = False
    #: how often the function behind R is called for one value
    calls_per_value: int = 1
    #: whether the noise in R(w) is another in every iteration, so that values of two iterations do not compare
    noise_changes: bool = False
    #: how often data that are larger than memory, or elsewhere, were gone through so far
    n_sweeps: float = 0
    #: whether R is asked for at members of Γ alone
    inside: bool = False
    #: (m, r): the m best iterates are evaluated r times more at the end
    recheck: tuple[int, int] = (0, 0)

    @abstractmethod
    def _forward(self, w: Array, support: Array | None) -> Any: ...

    @abstractmethod
    def _value(self, w: Array, state: Any) -> float: ...

    @abstractmethod
    def _gradient(self, w: Array, state: Any) -> Array: ...

    def _both(self, w: Array, state: Any) -> tuple[float, Array] | None:
        """Value and gradient, where one look at the data gives both for the price of one."""
        return None

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        raise NotImplementedError(
            f"{type(self).__name__} has no terms to pick from, so gradient(w, rows=...) is not defined; "
            "use the full gradient"
        )

    def values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        """R(w + μu_i) for each of the directions u_i."""
        return self.values_at(directions.points(to_host(point.w), mu))

    def values_at(self, points: np.ndarray) -> np.ndarray:
        """R at each row of a matrix."""
        return np.array([self.at(like(w, self.zero)).value for w in points])

    def within(self, gamma: ConstraintSet) -> Risk:
        """The risk of a problem with this Γ: the same, unless it keeps to Γ."""
        return self

    def placed(self, points: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """The points (rows) at which R is asked for in place of these: the same, unless R keeps to Γ.

        With `among`, indices, the other entries stay zero.
        """
        return points

    def failure(self, message: str) -> Exception:
        """The error for values that are none."""
        return NotFinite(message)

    def session(self, counts: Any, journal: Any = None) -> AbstractContextManager[Session]:
        """What supervises the evaluations of one run."""
        return nullcontext(Session())

    def term_gradients(self, w: Array, rows: np.ndarray) -> Iterator[Array]:
        """∇R_i(w) for each i in rows, one after the other."""
        return (self._gradient_of_rows(w, row) for row in rows[:, None])

    def expect(self, coordinates: np.ndarray) -> None:
        """Coordinates whose data are about to be asked for, in several calls."""

    def at_work(self, verbose: int) -> AbstractContextManager[None]:
        """While it lasts, a run asks: long looks at the data are shown, and the host keeps out of their way."""
        return nullcontext()

    def forget(self) -> None:
        """Let go of what a run has gathered."""

    def at(self, w: Array, support: Array | None = None) -> Point:
        """The risk at w; see `Point`."""
        if support is not None and not hasattr(support, "dtype"):
            support = index_like(check_indices(support, self.n_features, "support"), self.zero)
        return Point(self, w, support)

    @property
    def origin(self) -> Point:
        """The risk at 0; some keep it for the time of a run."""
        return self.at(self.zero)

    def starts_at(self, origin: Point) -> None:
        """Take note of the point at 0 where a run begins, to keep it for the time of the run; or do not."""

    def value(self, w: Array) -> float:
        """R(w)."""
        return self.at(self.as_vector(w)).value

    def gradient(self, w: Array, rows: Any = None) -> Array:
        """∇R(w), or the mean of ∇R_i(w) over i in rows."""
        w = self.as_vector(w)
        if rows is None:
            return self.at(w).gradient
        return self._gradient_of_rows(w, _check_rows(rows, self.n_terms))

    @property
    def smoothness(self) -> Constant:
        """L with ∇²R ⪯ L·I everywhere."""
        return Constant(math.inf, "bound")

    @property
    def strong_convexity(self) -> Constant:
        """ν with ∇²R ⪰ ν·I everywhere."""
        return Constant(0.0 if self.convex else -math.inf, "bound")

    @property
    def known_convexity(self) -> Constant | None:
        """`strong_convexity` where it is positive and costs nothing, or nothing more; None otherwise."""
        return None

    def rescaled(self, scales: Any) -> Risk:
        """u ↦ R(scales∘u): the same risk in other units."""
        scales = check_vector(scales, "scales", self.n_features)
        if not (scales > 0).all():
            raise ValueError(f"scales must be positive, got {scales.min():g}")
        return Rescaled(self, like(scales, self.zero))

    def column_scales(self) -> np.ndarray | None:
        """Sizes of the data's columns, by which coordinates can be compared; None where there are none to be had."""
        return None

    def curvature(self, point: Point) -> Curvature | None:
        """½∇²R at a point, known by its columns and its diagonal; None where these are not to be had."""
        return None

    def metric(self, support: np.ndarray, size: float) -> np.ndarray | None:
        """A matrix near ½∇²R on some coordinates, from what is known of their columns; None where that is no less work.

        The size is that of the weights of the rows in ½∇²R, the sum of all of them.
        """
        return None

    def compressed(self) -> Risk:
        """The same function of w with fewer rows behind it, where there are such; its intercept is not R's."""
        return self

    def swept(self, since: float) -> int:
        """How often all rows were gone through since `n_sweeps` was that, rounded up."""
        return math.ceil(round(self.n_sweeps - since, 9))

    @property
    def n_observations(self) -> int:
        """How many terms count."""
        return self.n_terms

    def with_explicit_intercept(self) -> Risk:
        """The same with the intercept as last coordinates of w, where one is profiled out."""
        return self

    def held_out_loss(self, w: Array, fitted: Risk) -> tuple[float, float]:
        """The mean loss of w without the ridge, and its standard error, NaN where R has no rows.

        The intercept is that of the risk that w was fitted to.
        """
        return self.value(w), math.nan

    def enclosed_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∇R(w) on the host and in double precision, and how far each entry may be off.

        Here a gradient is taken for as exact as sums of so many terms are, each as large as ∇R(w) or ∇R(0).
        """
        gradient, first = (to_host(self.at(v).gradient).astype(float) for v in (self.as_vector(w), self.zero))
        unit = 64 * max(EPS, finfo_eps(self.zero)) * max(self.n_features, self.n_terms)
        return gradient, np.full(gradient.size, unit * (norm(gradient) + norm(first)))

    def accurate_value(self, w: np.ndarray) -> float | None:
        """R(w) in double precision, however its terms cancel: what is said of an answer; None where it is not known."""
        here = self.measured(w, np.flatnonzero(w), closely=False)
        return here.value if here is not None and math.isfinite(here.value) else None

    def restrict(self, support: Any) -> Risk:
        """The risk of the coordinates in the support alone, all others zero: what a refit minimises."""
        return Restricted(self, check_indices(support, self.n_features, "support"))

    @property
    def zero(self) -> Array:
        """The origin, in the array library, dtype and device that w lives in."""
        return np.zeros(self.n_features)

    @cached_property
    def _reference(self) -> Array:
        return self.zero[:0]

    def as_vector(self, w: Any, name: str = "w") -> Array:
        """w as a vector of this risk: its library, dtype and device; the length is checked."""
        reference = self._reference
        if type(w) is not type(reference) or w.dtype != reference.dtype:
            # text, complex numbers and ragged lists have no place in a vector
            w = check_real(w, name) if is_tensor(w) and is_tensor(reference) else as_numbers(w, name)
            w = w.astype(float) if isinstance(w, np.ndarray) and is_tensor(reference) else w  # a kind that torch knows
        if is_tensor(w):  # nobody differentiates a run
            w = w.detach()
        vector = like(w, reference)
        if vector.shape != (self.n_features,):
            raise ValueError(
                f"{name} must have shape ({self.n_features},), the number of features of {type(self).__name__}, "
                f"got {tuple(vector.shape)}"
            )
        return vector


class Rescaled(Risk):
    """u ↦ R(scales∘u)."""

    def __init__(self, risk: Risk, scales: Array) -> None:
        self.risk, self.scales = risk, scales
        self.n_features, self.n_terms, self.n_outputs = risk.n_features, risk.n_terms, risk.n_outputs
        self.convex, self.lower_bound = risk.convex, risk.lower_bound

    def _forward(self, w: Array, support: Array | None) -> Point:
        return self.risk.at(self.scales * w, support)

    def _value(self, w: Array, state: Point) -> float:
        return state.value

    def _gradient(self, w: Array, state: Point) -> Array:
        return self.scales * state.gradient

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        return self.scales * self.risk._gradient_of_rows(self.scales * w, rows)

    def restrict(self, support: Any) -> Risk:
        index = check_indices(support, self.n_features, "support")
        return Rescaled(self.risk.restrict(index), take(self.scales, index))

    @property
    def smoothness(self) -> Constant:
        """At most that of R times the largest scale squared."""
        largest = float(to_host(self.scales).max()) ** 2
        return Constant(self.risk.smoothness.value * largest, no_longer_exact(self.risk.smoothness))

    @property
    def strong_convexity(self) -> Constant:
        """At least that of R times the smallest scale squared."""
        smallest = float(to_host(self.scales).min()) ** 2
        return Constant(self.risk.strong_convexity.value * smallest, no_longer_exact(self.risk.strong_convexity))

    @property
    def zero(self) -> Array:
        return self.risk.zero


class Restricted(Risk):
    """u ↦ R(w) where w holds u on the support and zeros elsewhere."""

    def __init__(self, risk: Risk, support: np.ndarray) -> None:
        self.risk, self.support = risk, support
        self._index = index_like(support, risk.zero)
        self.n_features = support.size
        self.n_terms, self.convex, self.lower_bound = risk.n_terms, risk.convex, risk.lower_bound

    def _embed(self, u: Array) -> Array:
        return scatter(u, self._index, self.risk.n_features)

    def _forward(self, w: Array, support: Array | None) -> Point:
        return self.risk.at(self._embed(w), self._index)

    def _value(self, w: Array, state: Point) -> float:
        return state.value

    def _gradient(self, w: Array, state: Point) -> Array:
        return take(state.gradient, self._index)

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        return take(self.risk._gradient_of_rows(self._embed(w), rows), self._index)

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        whole = np.zeros(self.risk.n_features)
        whole[self.support] = w
        return self.risk.measured(whole, self.support[support], closely=closely)

    def curvature(self, point: Point) -> Curvature | None:
        whole = self.risk.curvature(point.state)
        return None if whole is None else SelectedCurvature(whole, self.support)

    @property
    def smoothness(self) -> Constant:
        """At most that of the whole risk."""
        return Constant(self.risk.smoothness.value, no_longer_exact(self.risk.smoothness))

    @property
    def strong_convexity(self) -> Constant:
        """At least that of the whole risk."""
        return Constant(self.risk.strong_convexity.value, no_longer_exact(self.risk.strong_convexity))

    @property
    def zero(self) -> Array:
        return take(self.risk.zero, self._index)


def _check_rows(rows: Any, n_terms: int) -> np.ndarray:
    """Terms to average over: integers of range(n_terms), repeats allowed; or a mask."""
    index = to_host(rows) if hasattr(rows, "detach") else np.asarray(rows)
    if index.dtype == bool and index.shape == (n_terms,):
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
        raise ValueError(f"rows must be a list of at least one integer (the terms to average over), got {rows!r}")
    if index.min() < 0 or index.max() >= n_terms:
        raise IndexError(f"rows must lie in 0..{n_terms - 1} (the risk has {n_terms} terms), got {rows!r}")
    return index


def need_risk(risk: Any) -> None:
    """Refuse what is no risk."""
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ellzero.risks.LeastSquares(X, y), got {risk!r}")
