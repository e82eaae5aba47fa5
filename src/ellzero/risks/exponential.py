"""Losses of a prediction of the logarithm: counts and positive quantities, whose mean is exp(x_iᵀw + b + o_i)."""

import math
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, to_host
from .linear import LinearModel
from .terms import LinearTerms


class MayOverflow(LinearTerms):
    """Losses that overflow far away to inf, which is returned without a warning."""

    def _mean_loss(self, z: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._mean_loss(z)

    def _gradient(self, w: Array, state: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._gradient(w, state)  # type: ignore[safe-super]

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return super()._gradient_of_rows(w, rows)

    def _log_mean_exp(self, z: Array) -> float:
        """log of the mean of exp(z), which does not overflow."""
        if not isinstance(self.share, float):  # a row without weight must not set the scale
            z = self._xp.where(self.share > 0, z, -math.inf)
        top = float(self._xp.max(z))
        return top + math.log(self._mean(self._xp.exp(z - top)))


class Poisson(MayOverflow, LinearModel):
    """R(w) = Σ_i ω_i [μ_i - y_i - y_i log(μ_i / y_i)] / Σ_i ω_i + (ridge/2)||w||², μ_i = exp(x_iᵀw + b + o_i).

    Half the Poisson deviance: the negative log-likelihood of counts y, shifted so that a perfect fit has
    R = 0. It has no finite smoothness; far away it may overflow to inf, which is returned without a warning.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`; the offset of counts is the logarithm of their exposure.
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
        self._log_y = self.design.by_row(np.log(np.where(counts > 0, counts, 1.0)))
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

    def _best_intercept(self, z: Array) -> float:
        return self._log_mean - self._log_mean_exp(z)

    def _intercept_extent(self) -> tuple[float, float]:
        return abs(self._log_mean) + 1e-9, 1.0  # the mean of exp(z) lies between its extremes


class Gamma(MayOverflow, LinearModel):
    """R(w) = Σ_i ω_i [y_i/μ_i - 1 - log(y_i/μ_i)] / Σ_i ω_i + (ridge/2)||w||², μ_i = exp(x_iᵀw + b + o_i).

    Half the gamma deviance: the negative log-likelihood of positive quantities whose standard deviation is
    proportional to their mean, up to their shape, which need not be known; a perfect fit has R = 0. It has no finite
    smoothness; far away it may overflow to inf, which is returned without a warning.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.
    y : array of shape (n,)
        Positive numbers: amounts, durations.

    Examples
    --------
    >>> from ellzero.risks import Gamma
    >>> risk = Gamma([[1.0], [0.0]], y=[1.0, 3.0])
    >>> risk.gradient([0.0])
    array([0.])
    >>> round(risk.value([0.0]), 4)
    0.4507
    """

    lower_bound = 0.0
    likelihood = True

    def _prepare(self) -> None:
        self._log_y = self.design.by_row(np.log(to_host(self.y)))

    def _check_targets(self, y: Any) -> np.ndarray:
        amounts = super()._check_targets(y)
        kept = to_host(self.design.asarray(amounts))
        if not kept.min() > 0:
            i = int(kept.argmin())
            lost = ", which is 0 in the precision of X" if amounts[i] > 0 else ""
            raise ValueError(f"y must be positive for Gamma, got {amounts[i]} at index {i}{lost}")
        return amounts

    def _loss(self, z: Array) -> Array:
        ratio = self._log_y - z
        return self._xp.expm1(ratio) - ratio

    def _loss_sizes(self, z: np.ndarray) -> np.ndarray:
        ratio = self._log_y - z
        # the last factor is by how much the logarithm of y is rounded
        return np.abs(ratio) + np.abs(np.expm1(ratio)) * (1 + np.abs(ratio) + np.abs(self._log_y))  # type: ignore[no-any-return]

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        return self._bend(z + away, self.y) * (1 - 1e-12)  # type: ignore[no-any-return]

    def _slope(self, z: Array, y: Array) -> Array:
        return 1.0 - self._bend(z, y)

    def _slope_sizes(self) -> np.ndarray:
        return np.ones(self.n_terms)

    def _bend(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            half = self._xp.exp(-0.5 * z)  # in two halves: exp(-z) overflows before y exp(-z) does
            return (y * half) * half

    def _best_intercept(self, z: Array) -> float:
        return self._log_mean_exp(self._log_y - z)

    def _intercept_extent(self) -> tuple[float, float]:
        return float(np.abs(to_host(self._log_y)).max()) + 1e-9, 1.0  # between the extremes of log y - z

    def deviance(self, w: Array) -> float:
        """-2 log-likelihood at the likeliest shape, without the ridge; infinite where w could fit anything."""
        n, loss = self.n_observations, self.held_out_loss(w, self)[0]
        if np.count_nonzero(to_host(w)) + self.fit_intercept >= n:
            return math.inf
        # what is left of a perfect fit is rounding, which must not choose k
        floor = (100 * finfo_eps(self.zero)) ** 2 * self.held_out_loss(self.zero, self)[0]
        return 2 * n * _shape_likelihood(max(loss, floor, 1e-300))


def _shape_likelihood(loss: float) -> float:
    """min over α > 0 of log Γ(α) + α - α log α + α·loss: minus the mean log-likelihood of a gamma shape α."""
    if not math.isfinite(loss):
        return loss
    if loss < 1e-5:  # log Γ(α) + α - α log α = ½log(2π/α) + 1/(12α) up to α^-3, without cancellation
        shape = 0.5 / loss + 1 / 6
        return 0.5 * math.log(2 * math.pi / shape) + 1 / (12 * shape) + shape * loss
    # 1/(2α) < log α - ψ(α) < 1/α
    from scipy.optimize import brentq  # dear to import, and asked for at the end of a path alone
    from scipy.special import digamma, gammaln

    shape = float(brentq(lambda a: math.log(a) - digamma(a) - loss, 0.49 / loss, 1.01 / loss))
    return float(gammaln(shape)) + shape - shape * math.log(shape) + shape * loss
