"""Losses of the residual that grow no faster than it: Huber's, and the pinball loss of a quantile."""

import math
from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.validation import check_number, check_positive
from .base import Point
from .linear import LinearModel
from .linear_curvature import LinearCurvature

_TUNING = 1.35  # times the standard deviation: 95% as efficient as least squares under normal noise
_SMOOTHING = 0.01  # times the standard deviation: small beside the residuals unless R² is above 0.999


class Clipped(LinearModel):
    """ℓ = s·r - s²/(2a), s = a·r clipped to [low, high], r = z - y: quadratic near 0, with bounded slopes beyond.

    Up to a linear term it is symmetric about the middle of its quadratic part.
    """

    lower_bound, _of_residual = 0.0, True
    #: a, and the extreme slopes
    _bends: float
    _slopes: tuple[float, float]

    @property
    def _curvature(self) -> float:  # type: ignore[override]
        return self._bends

    def _loss(self, z: Array) -> Array:
        residual = z - self.y
        slope = self._xp.clip(self._bends * residual, *self._slopes)
        return slope * (residual - (0.5 / self._bends) * slope)

    _loss_sizes = _loss

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        (low, high), residual = self._slopes, z - self.y
        inside = (residual - away > low / self._bends) & (residual + away < high / self._bends)
        return np.where(inside, self._bends, 0.0)

    def _slope(self, z: Array, y: Array) -> Array:
        return self._xp.clip(self._bends * (z - y), *self._slopes)

    def _bend(self, z: Array, y: Array) -> Array:
        low, high = self._slopes
        steep = self._bends * (z - y)
        inside = (steep >= low) & (steep <= high)
        return self._xp.where(inside, self._bends * self._xp.ones_like(z), self._xp.zeros_like(z))

    def _steady_bend(self, z: Array, y: Array) -> Array:
        return self._bends * self._reweighted(z - y)

    def _reweighted(self, residual: np.ndarray) -> np.ndarray:
        """By how much the quadratic that touches the loss from above is flatter than its middle."""
        low, high = self._slopes
        away = np.abs(residual - 0.5 * (low + high) / self._bends)  # from the middle
        return np.minimum(1.0, 0.5 * (high - low) / self._bends / np.maximum(away, 1e-300))

    def curvature(self, point: Point) -> LinearCurvature | None:
        """A quadratic that touches R from above (as in iteratively reweighted least squares): ½∇²R may vanish."""
        if not self.readable:
            return None
        share = 0.5 * self._bends * self.row_share
        majoriser = LinearCurvature(self, share * self._reweighted(self.design.doubles(point.state - self.y)))
        majoriser.piece = LinearCurvature(self, share * (self.design.doubles(self._bend(point.state, self.y)) > 0))
        return majoriser

    def _slope_bounds(self, reach: np.ndarray | None) -> float:
        return max(-self._slopes[0], self._slopes[1])

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        low, high, mean = self._extent(self.y - z)
        return low, high, min(max(mean, low), high)


class Huber(Clipped):
    """R(w) = Σ_i ω_i h(x_iᵀw + b + o_i - y_i) / Σ_i ω_i + (ridge/2)||w||²: least squares that outliers cannot rule.

    h(r) = r² where |r| <= delta, and 2 delta |r| - delta² beyond.

    Parameters
    ----------
    X, y, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.
    delta : float, default 1.35
        Where the loss turns from quadratic to linear, in the units of y.

    Examples
    --------
    >>> from ellzero.risks import Huber
    >>> Huber([[1.0], [1.0]], y=[0.5, 10.0], delta=1.0).value([0.0])
    9.625
    """

    _bends = 2.0

    def __init__(
        self,
        X: Any,
        y: Any,
        ridge: float = 0.0,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        *,
        delta: float = 1.35,
        offset: Any = None,
    ) -> None:
        super().__init__(X, y, ridge, sample_weight, fit_intercept, offset=offset)
        self.delta = check_positive(delta, "delta")
        self._slopes = (-2.0 * self.delta, 2.0 * self.delta)


class Quantile(Clipped):
    """R(w) = Σ_i ω_i q(y_i - x_iᵀw - b - o_i) / Σ_i ω_i + (ridge/2)||w||²: predictions that y exceeds so often.

    q is the pinball loss τr for r >= 0, (τ - 1)r for r <= 0, τ being the quantile, with its kink rounded off:
    q(r) = r²/(2s) where (τ - 1)s <= r <= τs, s being the smoothing, and of the same slopes beyond. It lies below the
    pinball loss, by at most `smoothing_error` = max(τ, 1 - τ)²s/2. So what is proved from below holds for the pinball
    loss, too, and the best pinball risk is at most `smoothing_error` above the best R.

    Parameters
    ----------
    X, y, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.
    quantile : float, default 0.5
        τ, between 0 and 1: 0.9 for predictions that y exceeds in one of ten rows; 0.5 for the median.
    smoothing : float, optional
        s, in the units of y. By default a hundredth of the standard deviation of y less the offset, estimated by 1.4826
        times the median distance from the median, and at least 1e-8 times its largest value.

    Attributes
    ----------
    quantile, smoothing : float
    smoothing_error : float
        How far R is below the mean pinball loss (and ridge), at the most.

    Examples
    --------
    >>> from ellzero.risks import Quantile
    >>> risk = Quantile([[1.0], [1.0]], y=[1.0, -1.0], quantile=0.75, smoothing=0.16)
    >>> risk.smoothing_error
    0.045
    >>> risk.value([0.0])  # the mean of 0.75 and 0.25, less 0.045 and 0.005 and half of it
    0.475
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        ridge: float = 0.0,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        *,
        quantile: float = 0.5,
        smoothing: float | None = None,
        offset: Any = None,
    ) -> None:
        self.quantile = check_number(quantile, "quantile", low=0.0, high=1.0, open_low=True, open_high=True)
        super().__init__(X, y, ridge, sample_weight, fit_intercept, offset=offset)
        if smoothing is None:
            smoothing = quantile_smoothing(self._double_residual, self._weights)
        self.smoothing = check_number(smoothing, "smoothing", low=1e-300, high=math.inf, open_high=True)
        self._bends = 1.0 / self.smoothing
        self._slopes = (-self.quantile, 1.0 - self.quantile)

    @property
    def smoothing_error(self) -> float:
        """max(τ, 1 - τ)²s/2."""
        return 0.5 * self.smoothing * max(self.quantile, 1.0 - self.quantile) ** 2

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        # at the quantile of y - z itself, but for the smoothing
        if not self.design.fits(self.n_terms, 1):
            return super()._intercept_bracket(z)
        values = to_host(self.y - z).astype(float)
        middle = quantile_of(values, self.double_share, self.quantile)
        reach = 2 * self.smoothing + 1e-6 * abs(middle)
        return middle - reach, middle + reach, middle


def huber_delta(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """1.35 σ, σ being 1.4826 times the median distance from the median: the deviation of normal values."""
    return _TUNING * _spread(values, weights)


def quantile_smoothing(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """σ/100, σ as for `huber_delta`; and no less than 1e-8 times the largest value, for less is rounding."""
    return max(_SMOOTHING * _spread(values, weights), 1e-8 * float(np.abs(values).max()))


def _spread(values: np.ndarray, weights: np.ndarray | None) -> float:
    values = values.astype(float)
    weights = np.ones(values.size) if weights is None else np.asarray(weights, float)
    spread = 1.4826 * quantile_of(np.abs(values - quantile_of(values, weights)), weights)
    return spread or float(np.std(values)) or 1.0  # more than half of them equal; all of them


def quantile_of(values: np.ndarray, weights: np.ndarray, level: float = 0.5) -> float:
    """The quantile, or the mean of the two that are: as if each value came as often as its weight says."""
    order = np.argsort(values, kind="stable")
    reached, share = np.cumsum(weights[order]), level * float(weights.sum())
    low, high = (int(np.searchsorted(reached, share, side=side)) for side in ("left", "right"))
    last = values.size - 1
    return 0.5 * float(values[order[min(low, last)]] + values[order[min(high, last)]])
