"""What all linear models share: predictions Xw, weights, the intercept, mini-batches and constants."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace, to_host
from .._core.directions import Directions
from .._core.validation import as_array, check_finite, check_indices, check_nonnegative, check_vector
from ..design.matrices import Design, take
from ..design.reading import as_design
from .accuracy import Measured, measure
from .base import Constant, Point, Risk, no_longer_exact
from .curvature import LinearCurvature
from .damped import Damped
from .spectrum import extreme_eigenvalues

#: what makes a loss the loss it is
_DEFINING = ("_loss", "_slope")
#: what follows from the loss, here for any
_KNOWN = (
    "_mean_loss", "_bend", "_accurate_loss", "_loss_sizes", "_least_bend", "is_settled", "curvature", "_best_intercept",
    "_intercept_bracket", "_of_residual", "smoothness", "strong_convexity",
)  # fmt: skip


def _is_ours(cls: type, name: str) -> bool:
    """Whether a name comes from a class of this library."""
    owner = next((base for base in cls.__mro__ if name in vars(base)), LinearModel)
    return owner.__module__.startswith("ellzero.risks.")


class LinearModel(Risk):
    """R(w) = Σ_i ω_i ℓ(x_iᵀw + b, y_i) / Σ_i ω_i + (ridge/2)||w||².

    With an intercept, b is profiled out: it is the minimiser for the w at hand, so R is a function of w
    alone, and by the envelope theorem its gradient is the partial one at that b. Without, b = 0.

    A loss writes `_loss`, `_slope` (its derivative in the prediction) and, for the intercept, either
    `_best_intercept` or `_bend` (the second derivative) with `_intercept_bracket`. A loss of one's own has to be convex
    in the prediction, or to say ``convex = False``; nothing else is believed of it, whatever it inherits from, unless
    it says so: ``lower_bound = 0.0`` if it is never negative, say.

    Attributes
    ----------
    design : Design
        The data matrix X.
    y : array of shape (n,)
        Targets, in the library and dtype of X.
    share : float or array of shape (n,)
        ω_i / Σ ω; a number where all are equal.
    """

    convex = True
    lower_bound = 0.0
    #: the largest second derivative of the loss
    _curvature: float
    #: whether the loss depends on z - y alone
    _of_residual = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if all(_is_ours(cls, name) for name in _DEFINING):
            return
        for name in _KNOWN:
            if _is_ours(cls, name):
                setattr(cls, name, vars(LinearModel).get(name, vars(Risk).get(name)))
        unknown = {
            "lower_bound": -math.inf, "_curvature": math.inf, "_intercept_extent": lambda self: (math.inf, 1.0)
        }  # fmt: skip
        for name, value in unknown.items():
            if _is_ours(cls, name):
                setattr(cls, name, value)

    def __init__(self, X: Any, y: Any, ridge: float, sample_weight: Any, fit_intercept: bool) -> None:
        self.design = as_design(X)
        self.n_terms, self.n_features = self.design.shape
        self.ridge = check_nonnegative(ridge, "ridge")
        self.fit_intercept = bool(fit_intercept)
        self.share: Array | float = 1.0 / self.n_terms
        self._weights: np.ndarray | None = None  # the shares in double precision
        if sample_weight is not None:
            self._weights = self._check_weights(sample_weight)
            self.share = self.design.asarray(self._weights)
        self._share = self.share  # in a shape that multiplies predictions
        self.y = self.design.asarray(self._check_targets(y))

    @property
    def _xp(self) -> Any:
        return namespace(self.design.reference)

    def _check_weights(self, sample_weight: Any) -> np.ndarray:
        weights = check_vector(_one_per_row(sample_weight, self.n_terms, "sample_weight"), "sample_weight")
        if weights.min() < 0:
            i = int(weights.argmin())
            raise ValueError(f"sample_weight must be at least 0, got {weights[i]} at index {i}")
        if not weights.any():
            raise ValueError("sample_weight must not be 0 everywhere: no sample would count")
        weights = weights.astype(np.float64) / float(weights.max())  # only ratios matter, and the sum may overflow
        return weights / float(weights.sum())

    def _check_targets(self, y: Any) -> np.ndarray:
        targets = _one_per_row(y, self.n_terms, "y")
        if targets.dtype.kind not in "fiub":
            raise TypeError(f"y must be numbers for {type(self).__name__}, got dtype {targets.dtype}")
        return check_vector(targets, "y")

    # The loss of each row, and its derivatives in the prediction z for the rows whose targets are y.

    @abstractmethod
    def _loss(self, z: Array) -> Array: ...

    @abstractmethod
    def _slope(self, z: Array, y: Array) -> Array: ...

    def _bend(self, z: Array, y: Array) -> Array:
        raise NotImplementedError

    def _prepare(self) -> None:
        """What follows from targets and weights, computed when these are set."""

    # What proofs need to know of the loss; all on the host.

    def _accurate_loss(self, z: np.ndarray) -> np.ndarray:
        """The losses, small ones to as many digits as large ones."""
        return self._loss(z)  # type: ignore[no-any-return]

    def _loss_sizes(self, z: np.ndarray) -> np.ndarray:
        """The sizes of the terms that each loss is summed from; its rounding error is a few units of them."""
        sizes: np.ndarray = np.abs(self._loss(z)) + np.abs(self._slope(z, self.y)) * (np.abs(z) + np.abs(self.y))
        return sizes

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        """The least second derivative of each loss at predictions at most so far away; 0 is always true."""
        return np.zeros_like(z)

    # Predictions and their transpose; a model with several outputs reshapes w here.

    def _predict(self, design: Design, w: Array, support: Array | None = None) -> Array:
        return design.forward(w, support)

    def _collect(self, design: Design, slopes: Array) -> Array:
        return design.adjoint(slopes)

    # What a risk is.

    def _forward(self, w: Array, support: Array | None) -> Array:
        z = self._predict(self.design, w, support)
        return z + self._best_intercept(z) if self.fit_intercept else z

    def _value(self, w: Array, state: Array) -> float:
        value = self._mean_loss(state)
        return value + 0.5 * self.ridge * float(w @ w) if self.ridge else value

    def _mean_loss(self, z: Array) -> float:
        return float(self._xp.sum(self.share * self._loss(z)))

    def _gradient(self, w: Array, state: Array) -> Array:
        gradient = self._collect(self.design, self._share * self._slope(state, self.y))
        return gradient + self.ridge * w if self.ridge else gradient

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        batch = self.design.rows(rows)
        z = self._predict(batch, w)
        if self.fit_intercept:  # that of the whole sample, so that the batches average to ∇R
            support = np.flatnonzero(w) if isinstance(w, np.ndarray) else None
            z = z + self._best_intercept(self._predict(self.design, w, support))
        share = self._share if isinstance(self._share, float) else take(self._share, rows)
        slopes = (self.n_terms / rows.size) * share * self._slope(z, take(self.y, rows))
        gradient = self._collect(batch, slopes)
        return gradient + self.ridge * w if self.ridge else gradient

    def values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        """R(w + μu_i) for each of the directions u_i, from one product of X with all of them."""
        if self.fit_intercept or self.n_outputs > 1 or not isinstance(point.w, np.ndarray):
            return super().values_along(point, directions, mu)
        steps = mu * self.design.forward(directions.matrix().T)
        if not isinstance(steps, np.ndarray):  # sparse data and sparse directions
            steps = steps.toarray()
        values = np.array([self._mean_loss(point.state + step) for step in np.ascontiguousarray(steps.T)])
        if self.ridge:
            # ||w + μu||² with ||u|| = 1
            along = directions.matrix() @ point.w
            values += 0.5 * self.ridge * (float(point.w @ point.w) + 2 * mu * along + mu * mu)
        return values

    # The intercept.

    def forget(self) -> None:
        """Let go of what a run has gathered."""
        self.design.forget()

    def intercept(self, w: Array) -> Any:
        """The b that is best for w; 0 without an intercept."""
        if not self.fit_intercept:
            return 0.0
        return float(self._best_intercept(self._predict(self.design, self.as_vector(w))))

    def _best_intercept(self, z: Array) -> Array | float:
        """The root of the increasing function b ↦ Σ share ℓ'(z + b), by Newton's method inside a bracket."""
        xp, eps = self._xp, finfo_eps(self.design.reference)
        low, high, b = self._intercept_bracket(z)
        last_step = high - low
        for _ in range(100):
            slopes = self.share * self._slope(z + b, self.y)
            slope = float(xp.sum(slopes))
            if abs(slope) <= eps * float(xp.sum(xp.abs(slopes))):
                break
            low, high = (low, b) if slope > 0 else (b, high)
            bend = float(xp.sum(self.share * self._bend(z + b, self.y)))
            step = -slope / bend if bend > 0 else math.inf
            if not low < b + step < high or abs(step) > 0.5 * last_step:
                step = 0.5 * (low + high) - b
            b += step
            last_step = abs(step)
            if last_step <= eps * max(1.0, abs(b)):
                break
        return b

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        """Numbers below and above the best intercept, and a guess between them."""
        raise NotImplementedError

    def _intercept_extent(self) -> tuple[float, float]:
        """(c, f): no best intercept is larger than c + f·max|z|, whatever the predictions z without it.

        This is so for losses whose minimum is where the prediction is the target: the best intercept lies between the
        extremes of y - z.
        """
        return float(np.abs(to_host(self.y)).max()), 1.0

    def _mean(self, values: Array) -> float:
        return float(self._xp.sum(self.share * values))

    # Constants.

    @cached_property
    def _spectrum(self) -> tuple[Constant, Constant]:
        return extreme_eigenvalues(self.design, self.share, self.fit_intercept)

    @property
    def smoothness(self) -> Constant:
        """The loss's largest second derivative times the largest eigenvalue of XᵀΩX/Σω, plus the ridge."""
        largest = self._spectrum[0]
        return Constant(self._curvature * largest.value + self.ridge, no_longer_exact(largest))

    @property
    def strong_convexity(self) -> Constant:
        """The ridge: the loss itself may be flat."""
        return Constant(self.ridge, "bound")

    @cached_property
    def _column_squares(self) -> np.ndarray:
        """Σ_i share_i X_ij²: one look at the data, kept."""
        if isinstance(self.share, float):
            return self.share * self.design.squares
        return self.design.square_sums(to_host(self.share).astype(float))

    def column_scales(self) -> np.ndarray | None:
        """1 over the size of each column, without its mean where there is an intercept; 1 for a column of zeros."""
        if not self.design.explicit:
            return None
        squares = self._column_squares
        if self.fit_intercept:
            share = np.full(self.n_terms, self.share) if isinstance(self.share, float) else to_host(self.share)
            means = to_host(self.design.adjoint(self.design.asarray(share))).astype(float)
            centred = squares - means**2
            # what is left of a constant column is rounding
            squares = np.where(centred > 1e4 * finfo_eps(self.design.reference) * squares, centred, squares)
        return np.tile(1 / np.sqrt(np.where(squares > 0, squares, 1.0)), self.n_outputs)

    def curvature(self, point: Point) -> LinearCurvature | None:
        """The quadratic model at a point, where columns of X can be read."""
        if not self.design.explicit or self.n_outputs > 1 or type(self)._bend is LinearModel._bend:
            return None
        weights = to_host(0.5 * self.share * self._bend(point.state, self.y)).astype(float)
        return LinearCurvature(self, weights, exact=False)

    def restrict(self, support: Any) -> Risk:
        """The same model on the columns of the support."""
        part = self._on_columns(check_indices(support, self.n_features, "support"))
        part.n_features = part.design.shape[1]
        return part

    def _on_columns(self, columns: np.ndarray) -> LinearModel:
        return self._with_design(self.design.columns(columns))

    def _with_design(self, design: Design) -> LinearModel:
        other = copy.copy(self)
        other.__dict__.pop("_spectrum", None)
        other.__dict__.pop("_column_squares", None)
        other.design = design
        return other

    def rescaled(self, scales: Any) -> Risk:
        """u ↦ R(scales∘u): the same model of other columns, but for a ridge, which is another for each of them."""
        plain, scales = super().rescaled(scales), np.asarray(scales, dtype=float)
        own = scales[: self.design.shape[1]]
        design = self.design.scaled(own) if np.array_equal(scales, np.tile(own, self.n_outputs)) else None
        if design is None:
            return plain
        columns = self._with_design(design)
        columns.ridge = 0.0
        return columns if self.ridge == 0 else Damped(columns, 0.5 * self.ridge * scales**2)

    @property
    def double_share(self) -> np.ndarray:
        """ω_i / Σω for every row, on the host and in double precision."""
        if self._weights is None:
            return np.full(self.n_terms, 1.0 / self.n_terms)
        return self._weights

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        return measure(self, w, support, closely=closely)

    measured.__doc__ = Risk.measured.__doc__

    @property
    def zero(self) -> Array:
        """The origin, in the array library, dtype and device of X."""
        return self.design.zeros(self.n_features)


def _one_per_row(values: Any, n: int, name: str) -> np.ndarray:
    """A vector with an entry for each row of X, on the host."""
    vector = as_array(values, name)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {vector.shape}; use {name}.ravel() if that is meant"
        )
    if vector.size != n:
        raise ValueError(f"{name} must have length {n}, one for each row of X, got {vector.size}")
    return vector


def check_labels(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and for each row the position of its label among them."""
    labels = _one_per_row(y, n, "y")
    if labels.dtype.kind == "f":
        check_finite(labels, "y")
    try:
        classes, position = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"y must hold labels of one kind, which can be sorted: {error}") from error
    if classes.size < 2:
        raise ValueError(f"y must hold at least two different labels, got only {classes[0]!r}")
    return classes, position
