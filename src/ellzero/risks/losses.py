"""Losses of a linear prediction: least squares, Huber, logistic and Poisson."""

import math
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, scalar, to_host
from .._core.validation import check_positive
from .accuracy import AFFORDABLE, EPS, LARGEST, QuadraticForm
from .base import Constant, Point
from .linear import LinearModel
from .linear_curvature import LinearCurvature
from .terms import check_labels

_TUNING = 1.35  # times the standard deviation: 95% as efficient as least squares under normal noise


class LeastSquares(LinearModel):
    """R(w) = Σ_i ω_i (x_iᵀw + b - y_i)² / Σ_i ω_i + (ridge/2)||w||².

    Parameters
    ----------
    X : array of shape (n, p), scipy.sparse matrix, or LinearOperator
        Memory maps are not copied, sparse matrices not made dense; float32 stays float32.
    y : array of shape (n,)
    ridge : float, default 0
        Makes R strongly convex; w is shrunk, the intercept is not.
    sample_weight : array of shape (n,), optional
        ω >= 0, all 1 by default.
    fit_intercept : bool, default False
        Whether b is free, the best for every w, or 0.

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
        if squares is None or self.fit_intercept or finfo_eps(self.design.reference) > EPS:
            return False
        support = np.flatnonzero(w)
        reach = float(np.abs(w[support]) @ np.sqrt(squares[support]))
        return 4 * (support.size + 8) * EPS * reach <= 1e-12 * math.sqrt(max(value, 0.0))

    def _slope_bounds(self, reach: np.ndarray | None) -> np.ndarray | None:
        y = to_host(self.y).astype(np.float64)
        centre = float(self.double_share @ y) if self.fit_intercept else 0.0
        return None if reach is None else 2 * (np.abs(y - centre) + reach)

    def deviance(self, w: Array) -> float:
        """n log R without the ridge: Gaussian noise of unknown size; infinite where w could fit anything."""
        n, loss = self.n_observations, self.held_out_loss(w, self)[0]
        if np.count_nonzero(to_host(w)) + self.fit_intercept >= n:
            return math.inf
        # what is left of a perfect fit is rounding, which must not choose k
        floor = (100 * finfo_eps(self.zero)) ** 2 * self.held_out_loss(self.zero, self)[0]
        return n * math.log(max(loss, floor, 1e-300))

    def curvature(self, point: Point) -> LinearCurvature | None:
        """R itself, where columns of X can be read."""
        if not self.readable:
            return None
        return LinearCurvature(self, self.share if isinstance(self.share, float) else self.double_share, exact=True)

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
        share, y = self.double_share, to_host(self.y).astype(np.float64)
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


class Huber(LinearModel):
    """R(w) = Σ_i ω_i h(x_iᵀw + b - y_i) / Σ_i ω_i + (ridge/2)||w||²: least squares that outliers cannot rule.

    h(r) = r² where |r| <= delta, and 2 delta |r| - delta² beyond.

    Parameters
    ----------
    X, y, ridge, sample_weight, fit_intercept
        As for `LeastSquares`.
    delta : float, default 1.35
        Where the loss turns from quadratic to linear, in the units of y.

    Examples
    --------
    >>> from ellzero.risks import Huber
    >>> Huber([[1.0], [1.0]], y=[0.5, 10.0], delta=1.0).value([0.0])
    9.625
    """

    _curvature, lower_bound = 2.0, 0.0
    _of_residual = True

    def __init__(
        self,
        X: Any,
        y: Any,
        ridge: float = 0.0,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        *,
        delta: float = 1.35,
    ) -> None:
        super().__init__(X, y, ridge, sample_weight, fit_intercept)
        self.delta = check_positive(delta, "delta")

    def _loss(self, z: Array) -> Array:
        residual = z - self.y
        clipped = self._xp.clip(residual, -self.delta, self.delta)
        return clipped * (2.0 * residual - clipped)

    _loss_sizes = _loss

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        return np.where(np.abs(z - self.y) + away < self.delta, 2.0, 0.0)

    def _slope(self, z: Array, y: Array) -> Array:
        return 2.0 * self._xp.clip(z - y, -self.delta, self.delta)

    def _bend(self, z: Array, y: Array) -> Array:
        inside = self._xp.abs(z - y) <= self.delta
        return self._xp.where(inside, 2.0 * self._xp.ones_like(z), self._xp.zeros_like(z))

    def curvature(self, point: Point) -> LinearCurvature | None:
        """A quadratic that touches R from above (as in iteratively reweighted least squares): ½∇²R may vanish."""
        if not self.readable:
            return None
        residual = to_host(self._xp.abs(point.state - self.y)).astype(float)
        weights = np.minimum(1.0, self.delta / np.maximum(residual, 1e-300))
        majoriser = LinearCurvature(self, self.double_share * weights)
        majoriser.piece = LinearCurvature(self, self.double_share * (residual <= self.delta))
        return majoriser

    def _slope_bounds(self, reach: np.ndarray | None) -> float:
        return 2 * self.delta

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        residual = self.y - z
        low, high = float(self._xp.min(residual)), float(self._xp.max(residual))
        return low, high, min(max(self._mean(residual), low), high)


def huber_delta(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """1.35 σ, σ being 1.4826 times the median distance from the median: the deviation of normal values."""
    values = values.astype(float)
    weights = np.ones(values.size) if weights is None else np.asarray(weights, float)
    spread = 1.4826 * _median(np.abs(values - _median(values, weights)), weights)
    return _TUNING * (spread or float(np.std(values)) or 1.0)  # more than half of them equal; all of them


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """The middle value, or the mean of two: as if each value came as often as its weight says."""
    order = np.argsort(values, kind="stable")
    reached, half = np.cumsum(weights[order]), 0.5 * float(weights.sum())
    low, high = (int(np.searchsorted(reached, half, side=side)) for side in ("left", "right"))
    last = values.size - 1
    return 0.5 * float(values[order[min(low, last)]] + values[order[min(high, last)]])


class Logistic(LinearModel):
    """R(w) = Σ_i ω_i log(1 + exp(-y_i (x_iᵀw + b))) / Σ_i ω_i + (ridge/2)||w||², y_i = ±1.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept
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

    def _check_targets(self, y: Any) -> np.ndarray:
        self.classes_, position = check_labels(y, self.n_terms)
        if self.classes_.size > 2:
            raise ValueError(
                f"y must hold two labels for Logistic, got {self.classes_.size} "
                f"({', '.join(map(str, self.classes_[:4]))}{', ...' if self.classes_.size > 4 else ''}); "
                "use Multinomial for more, or least squares if y is a quantity"
            )
        return 2.0 * position - 1.0

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
        low = self._log_odds - float(self._xp.max(z))
        high = self._log_odds - float(self._xp.min(z))
        return low, high, min(max(self._log_odds - self._mean(z), low), high)

    def _intercept_extent(self) -> tuple[float, float]:
        return abs(self._log_odds) + 1e-9, 1.0


class Poisson(LinearModel):
    """R(w) = Σ_i ω_i [μ_i - y_i - y_i log(μ_i / y_i)] / Σ_i ω_i + (ridge/2)||w||², μ_i = exp(x_iᵀw + b).

    Half the Poisson deviance: the negative log-likelihood of counts y, shifted so that a perfect fit has
    R = 0. It has no finite smoothness; far away it may overflow to inf, which is returned without a warning.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept
        As for `LeastSquares`.
    y : array of shape (n,)
        Counts, or any numbers >= 0.

    Examples
    --------
    >>> from ellzero.risks import Poisson
    >>> risk = Poisson([[1.0], [0.0]], y=[1.0, 3.0])
    >>> risk.gradient([0.0])
    array([0.])
    >>> round(risk.value([0.0]), 4)
    0.6479
    """

    lower_bound = 0.0
    likelihood = True

    def _prepare(self) -> None:
        counts = to_host(self.y)
        # so that y log y = 0 at y = 0
        self._log_y = self.design.asarray(np.log(np.where(counts > 0, counts, 1.0)))
        if self.fit_intercept:
            mean = self._mean(self.y)
            if mean == 0:
                raise ValueError(
                    "y must be positive for some row of positive weight when fit_intercept=True: the best "
                    "intercept of counts that are all 0 is -inf"
                )
            self._log_mean = math.log(mean)

    def _check_targets(self, y: Any) -> np.ndarray:
        counts = super()._check_targets(y)
        if counts.min() < 0:
            i = int(counts.argmin())
            raise ValueError(f"y must be at least 0 for Poisson, got {counts[i]} at index {i}")
        return counts

    def _loss(self, z: Array) -> Array:
        return (self._xp.exp(z) - self.y) - self.y * (z - self._log_y)

    def _loss_sizes(self, z: np.ndarray) -> np.ndarray:
        return np.exp(z) + self.y + self.y * np.abs(z - self._log_y)  # type: ignore[no-any-return]

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(z - away))

    def _slope(self, z: Array, y: Array) -> Array:
        return self._xp.exp(z) - y

    def _bend(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return self._xp.exp(z)

    def _mean_loss(self, z: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._mean_loss(z)

    def _gradient(self, w: Array, state: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._gradient(w, state)

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._gradient_of_rows(w, rows)

    def _best_intercept(self, z: Array) -> float:
        if not isinstance(self.share, float):  # a row without weight must not set the scale
            z = self._xp.where(self.share > 0, z, -math.inf)
        top = float(self._xp.max(z))
        return self._log_mean - top - math.log(self._mean(self._xp.exp(z - top)))

    def _intercept_extent(self) -> tuple[float, float]:
        return abs(self._log_mean) + 1e-9, 1.0  # the mean of exp(z) lies between its extremes
