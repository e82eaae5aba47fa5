"""Losses of a linear prediction: least squares, and the logistic and the squared hinge loss of two labels."""

import math
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, finfo_eps, scalar, to_host
from .._core.validation import as_array
from .accuracy import AFFORDABLE, EPS, LARGEST, QuadraticForm
from .base import Constant, Point
from .linear import LinearModel
from .linear_curvature import LinearCurvature
from .moments import Moments
from .per_row import check_labels

_MANY, _FEW = 4, 1000  # rows for each column from which on these are compressed, and columns up to which they are


class LeastSquares(LinearModel):
    """R(w) = Σ_i ω_i (x_iᵀw + b + o_i - y_i)² / Σ_i ω_i + (ridge/2)||w||².

    Parameters
    ----------
    X : array of shape (n, p), scipy.sparse matrix, or LinearOperator
        Memory maps are not copied, sparse matrices not made dense; float32 stays float32.
    y : array of shape (n,) or (n, q)
        With q > 1 targets R is Σ_i ω_i ||W x_i + b - y_i||² / Σ_i ω_i + (ridge/2)||W||², W.ravel() is w, and
        `ellzero.sparsity.Rows` counts features.
    ridge : float, default 0
        Makes R strongly convex; w is shrunk, the intercept is not.
    sample_weight : array of shape (n,), optional
        ω >= 0, all 1 by default.
    fit_intercept : bool, default False
        Whether b is free, the best for every w, or 0.
    offset : array of shape (n,), optional
        o, what is known of each prediction beforehand, 0 by default: the logarithm of the exposure for `Poisson`, say.

    Examples
    --------
    >>> from ellzero.risks import LeastSquares
    >>> risk = LeastSquares([[1.0, 0.0], [0.0, 2.0]], y=[1.0, 2.0])
    >>> risk.value([1.0, 0.0])
    2.0
    >>> risk.gradient([1.0, 0.0])
    array([ 0., -4.])
    """

    _curvature, lower_bound = 2.0, 0.0
    _of_residual = True
    _of_several: type  #: of several targets; `multitarget` sets it

    def __new__(cls, X: Any = None, y: Any = None, *options: Any, **named: Any) -> Self:
        if cls is LeastSquares and y is not None:  # copies are made without arguments
            shape = tuple(y.shape) if hasattr(y, "shape") else as_array(y, "y").shape
            if len(shape) == 2 and shape[1] > 1:
                return object.__new__(cls._of_several)
        return object.__new__(cls)

    def _loss(self, z: Array) -> Array:
        return (z - self.y) ** 2

    _loss_sizes = _loss

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        return np.full_like(z, 2.0)

    def _slope(self, z: Array, y: Array) -> Array:
        return 2.0 * (z - y)

    def _mean_loss(self, z: Array) -> float:
        residual = z - self.y
        return scalar((self.share * residual) @ residual)  # type: ignore[no-any-return]

    def _best_intercept(self, z: Array) -> float:
        return self._mean(self.y - z)

    def is_settled(self, w: np.ndarray, value: float) -> bool:
        """Whether the terms of Xw do not cancel: each adds at most eps·|w_j|·||x_j|| to the norm of the residuals."""
        squares = self.__dict__.get("_column_squares")
        if squares is None or self.fit_intercept or self.offset is not None or finfo_eps(self.design.reference) > EPS:
            return False
        support = np.flatnonzero(w)
        reach = float(np.abs(w[support]) @ np.sqrt(squares[support % squares.size]))
        return 4 * (support.size + 8) * EPS * reach <= 1e-12 * math.sqrt(max(value, 0.0))

    def _slope_bounds(self, reach: np.ndarray | None) -> np.ndarray | None:
        y = self._double_residual
        centre = float(self.double_share @ y) if self.fit_intercept else 0.0
        return None if reach is None else 2 * (np.abs(y - centre) + reach)

    def deviance(self, w: Array) -> float:
        """n log R without the ridge: Gaussian noise of unknown size; infinite where w could fit anything."""
        n, loss = self.n_observations * self.n_outputs, self.held_out_loss(w, self)[0]
        if np.count_nonzero(to_host(w)) + self.fit_intercept * self.n_outputs >= n:
            return math.inf
        # what is left of a perfect fit is rounding, which must not choose k
        floor = (100 * finfo_eps(self.zero)) ** 2 * self.held_out_loss(self.zero, self)[0]
        return n * math.log(max(loss, floor, 1e-300))

    def curvature(self, point: Point) -> LinearCurvature | None:
        """R itself, where columns of X can be read."""
        if not self.readable:
            return None
        return LinearCurvature(self, self.share if isinstance(self.share, float) else self.row_share, exact=True)

    def compressed(self) -> LinearModel:
        """As many rows as there are columns and targets, those of a root of their Gram matrix, where n is larger."""
        p, q = self.design.shape[1], self.n_outputs
        if not self._on_host or finfo_eps(self.zero) > EPS or self.n_terms < _MANY * (p + q) or p > _FEW:
            return self
        moments = Moments(self, np.ones((1, self.n_terms)))
        rows = math.sqrt(p + q) * moments.root()
        y = rows[:, p] if q == 1 else rows[:, p:]
        return type(self)(np.ascontiguousarray(rows[:, :p]), y, self.ridge)

    def moments(self, counts: np.ndarray) -> Moments | None:
        return Moments(self, counts) if self._on_host else None

    def hessian_bound(self) -> tuple[np.ndarray, float, bool] | None:
        """∇²R itself."""
        bound = super().hessian_bound()
        return bound and (*bound[:2], True)

    def quadratic_form(self, k: int) -> QuadraticForm | None:
        """R as its matrix, where X is small enough to form it."""
        n, d = self.n_terms, self.n_features
        if d > LARGEST or not self.readable or n * d * d > AFFORDABLE:
            return None
        gram, squares = self.gram()
        share, y = self.double_share, self._double_residual
        centre = float(share @ y) / float(share.sum()) if self.fit_intercept else 0.0
        target = share * (y - centre)
        energy = float(share @ (y * y)) if self.fit_intercept else float(target @ y)
        rounding = (2 * n + d + 32) * EPS * (2 if self.fit_intercept else 1)
        # lowered by the rounding of the products: |½wᵀEw| <= ½·rounding·k Σ_i 2·squares_i w_i² for k-sparse w
        Q = 2.0 * gram
        Q[np.diag_indices(d)] += self.ridge * (1 - 4 * EPS) - 2 * rounding * min(k, d) * squares
        b, c = 2.0 * self.design.correlations(target), float(target @ (y - centre))
        roots = np.sqrt(np.maximum(2 * squares + self.ridge, 0.0))
        return QuadraticForm(Q, b, c - rounding * energy, roots, energy, rounding, self.ridge if n < d else None)

    @property
    def smoothness(self) -> Constant:
        """2 λ_max(XᵀΩX/Σω) + ridge; with an intercept, of the centred X."""
        return Constant(super().smoothness.value, self._spectrum[0].source)

    @property
    def strong_convexity(self) -> Constant:
        """2 λ_min(XᵀΩX/Σω) + ridge; with an intercept, of the centred X."""
        smallest = self._spectrum[1]
        return Constant(2.0 * smallest.value + self.ridge, smallest.source)

    @property
    def known_convexity(self) -> Constant | None:
        """2 λ_min + ridge if eigenvalues were computed for a step, or else the ridge."""
        known = self.strong_convexity if "_spectrum" in vars(self) else Constant(self.ridge, "bound")
        if known.source == "estimate" or not known.value > self.ridge:
            return super().known_convexity
        return Constant(known.value * (1 - 4 * EPS), "bound", "the smallest eigenvalue of its Hessian, computed before")


class TwoLabels(LinearModel):
    """A loss of two labels of any kind, which are -1 and +1 in sorted order."""

    def _check_targets(self, y: Any) -> np.ndarray:
        self.classes_, position = check_labels(y, self.n_terms)
        if self.classes_.size > 2:
            raise ValueError(
                f"y must hold two labels for {type(self).__name__}, got {self.classes_.size} "
                f"({', '.join(map(str, self.classes_[:4]))}{', ...' if self.classes_.size > 4 else ''}); "
                "use Multinomial for more, or least squares if y is a quantity"
            )
        return 2.0 * position - 1.0


class Logistic(TwoLabels):
    """R(w) = Σ_i ω_i log(1 + exp(-y_i (x_iᵀw + b + o_i))) / Σ_i ω_i + (ridge/2)||w||², y_i = ±1.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.
    y : array of shape (n,)
        Two labels of any kind; the larger one in sorted order is +1.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The labels that stand for -1 and +1.

    Examples
    --------
    >>> from ellzero.risks import Logistic
    >>> risk = Logistic([[1.0], [-1.0]], y=["yes", "no"])
    >>> round(risk.value([0.0]), 4)
    0.6931
    >>> risk.gradient([0.0])
    array([-0.5])
    """

    _curvature, lower_bound = 0.25, 0.0
    likelihood = True

    def _prepare(self) -> None:
        if self.fit_intercept:
            positive = self._mean(0.5 * (1.0 + self.y))
            negative = self._mean(0.5 * (1.0 - self.y))
            if not min(positive, negative) > 0:
                raise ValueError(
                    "sample_weight must be positive for some row of each label when fit_intercept=True: "
                    f"the labels {self.classes_[0]!r} and {self.classes_[1]!r} have shares {negative:g} and "
                    f"{positive:g}, so the intercept would be infinite"
                )
            self._log_odds = math.log(positive / negative)

    def _loss(self, z: Array) -> Array:
        margin = self.y * z
        size = self._xp.abs(margin)
        return 0.5 * (size - margin) + self._xp.log1p(self._xp.exp(-size))  # exp never overflows

    _loss_sizes = _loss

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(-np.abs(z) - away) / 4)  # exp(-|z|)/4 <= σ(1-σ)

    def _slope(self, z: Array, y: Array) -> Array:
        return 0.5 * self._xp.tanh(0.5 * z) - 0.5 * y

    def _bend(self, z: Array, y: Array) -> Array:
        return 0.25 * (1.0 - self._xp.tanh(0.5 * z) ** 2)

    def _slope_bounds(self, reach: np.ndarray | None) -> float:
        return 1.0

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        # the mean probability lies between those of the smallest and of the largest z + b
        least, most, mean = self._extent(z)
        low, high = self._log_odds - most, self._log_odds - least
        return low, high, min(max(self._log_odds - mean, low), high)

    def _intercept_extent(self) -> tuple[float, float]:
        return abs(self._log_odds) + 1e-9, 1.0


class SquaredHinge(TwoLabels):
    """R(w) = Σ_i ω_i max(0, 1 - y_i (x_iᵀw + b + o_i))² / Σ_i ω_i + (ridge/2)||w||², y_i = ±1.

    The loss of support vector machines: rows beyond a margin of 1 do not count, and it is no likelihood.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.
    y : array of shape (n,)
        Two labels of any kind; the larger one in sorted order is +1.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The labels that stand for -1 and +1.

    Examples
    --------
    >>> from ellzero.risks import SquaredHinge
    >>> risk = SquaredHinge([[1.0], [-3.0]], y=["yes", "no"])
    >>> risk.value([0.5])
    0.125
    >>> risk.gradient([0.5])
    array([-0.5])
    """

    _curvature, lower_bound = 2.0, 0.0

    def _short(self, z: Array, y: Array) -> Array:
        """By how much each row misses the margin."""
        missed = 1.0 - y * z
        return self._xp.where(missed > 0, missed, self._xp.zeros_like(missed))

    def _loss(self, z: Array) -> Array:
        return self._short(z, self.y) ** 2

    _loss_sizes = _loss

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        return np.where(1.0 - self.y * z > away, 2.0, 0.0)

    def _slope(self, z: Array, y: Array) -> Array:
        return -2.0 * y * self._short(z, y)

    def _bend(self, z: Array, y: Array) -> Array:
        return self._xp.where(y * z <= 1, 2.0 * self._xp.ones_like(z), self._xp.zeros_like(z))

    def _steady_bend(self, z: Array, y: Array) -> Array:
        return 0.9 * self._bend(z, y) + 0.1 * self._curvature

    def curvature(self, point: Point) -> LinearCurvature | None:
        """A quadratic that touches R from above, since rows beyond the margin may come back: ½∇²R may vanish."""
        if not self.readable:
            return None
        majoriser = LinearCurvature(self, self.row_share)
        counted = self.design.doubles(self.y * point.state) <= 1
        majoriser.piece = LinearCurvature(self, self.row_share * counted)
        return majoriser

    def _slope_bounds(self, reach: np.ndarray | None) -> np.ndarray | None:
        if reach is None:
            return None
        if self.offset is not None:
            reach = reach + np.abs(to_host(self.offset))
        b, factor = self._intercept_extent() if self.fit_intercept else (0.0, 0.0)
        return 2 * (1 + b + factor * float(reach.max()) + reach)

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        # below y - z no row is too far on the side of +1, above no row on that of -1
        gap = self.y - z
        low, high = float(self._xp.min(gap)), float(self._xp.max(gap))
        return low, high, min(max(self._mean(gap), low), high)

    def _intercept_extent(self) -> tuple[float, float]:
        return 1.0, 1.0
