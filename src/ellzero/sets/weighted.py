"""Balls whose coordinates have weights of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace
from .._core.validation import check_vector
from ._lp import row_norm
from ._tables import l2_increments
from .balls import SPECIAL_P, RadiusSet, unit_rows
from .elementwise import relative_excess


class WeightedL1Ball(RadiusSet):
    """argmin ||w - v|| over Σ_i weights_i |w_i| <= radius, with weights > 0.

    Parameters
    ----------
    weights : array of shape (d,)
    radius : float
    """

    _parameter_padding = (1.0, None)

    def __init__(self, weights: Any, radius: float) -> None:
        super().__init__(radius)
        self.weights = _positive(weights, "weights")
        self.n_features = self.weights.size

    def _parameters(self) -> tuple[Any, ...]:
        return self.weights, self.radius

    def _arguments(self) -> dict[str, Any]:
        return {"weights": self.weights, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        # With the entries sorted by t = |v|/c, θ = max_j (Σ_{i<=j} c_i|v_i| - radius) / Σ_{i<=j} c_i²: the same
        # maximum as for the simplex, see _simplex_threshold. Counted from the smallest t above θ, w = c(t - θ) loses
        # nothing, however different the weights.
        weights, radius = parameters
        xp = namespace(v)
        size = xp.abs(v)
        ratio, square = size / weights, weights * weights + 0.0 * size
        order = xp.argsort(-ratio, axis=-1)
        t, term, q = (xp.take_along_axis(a, order, axis=-1) for a in (ratio, weights * size, square))
        theta = (xp.cumulative_sum(term, axis=-1) - radius) / xp.cumulative_sum(q, axis=-1)
        last = xp.argmax(theta, axis=-1, keepdims=True)
        least = xp.take_along_axis(t, last, axis=-1)
        above = xp.where(ratio >= least, ratio - least, 0.0 * ratio)
        square = xp.where(ratio >= least, square, 0.0 * square)
        spent = xp.sum(square * above, axis=-1, keepdims=True)
        over = xp.maximum(radius - spent, 0.0 * spent) / xp.sum(square, axis=-1, keepdims=True)  # least - θ
        w = xp.where(ratio >= least, weights * (above + over), 0.0 * size)
        return xp.where(xp.take_along_axis(theta, last, axis=-1) <= 0, v, xp.sign(v) * w)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        weights, radius = parameters
        xp = namespace(v)
        return relative_excess(xp.sum(weights * xp.abs(v), axis=-1, keepdims=True), radius)

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: at μ = 0 only."""
        return mu == 0

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return namespace(z).abs(z) / parameters[0]

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        weights, radius = parameters
        return SPECIAL_P[1.0]._linear_rows(z / weights, radius) / weights

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        weights, radius = parameters
        return SPECIAL_P[1.0]._increments(z / weights, mu, radius)


class Ellipsoid(RadiusSet):
    """argmin ||w - v|| over Σ_i (w_i / scales_i)² <= radius²: axis-aligned, with half-axes scales_i · radius.

    Parameters
    ----------
    scales : array of shape (d,)
        Positive.
    radius : float
    """

    _parameter_padding = (1.0, None)

    def __init__(self, scales: Any, radius: float) -> None:
        super().__init__(radius)
        self.scales = _positive(scales, "scales")
        self.n_features = self.scales.size

    def _parameters(self) -> tuple[Any, ...]:
        return self.scales, self.radius

    def _arguments(self) -> dict[str, Any]:
        return {"scales": self.scales, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        # w_i = v_i s_i²/(s_i² + λ); ||w/s|| as a function of λ is the secular function of trust-region methods,
        # whose reciprocal is so close to linear that Newton from the left never overshoots (Moré & Sorensen).
        scales, radius = parameters
        xp = namespace(v)
        square, zero = scales * scales, 0.0 * v[..., :1]
        one, radius = 1 + zero, radius + zero
        outside = row_norm(v / scales) > radius
        active = outside & (radius > 0)
        lam = zero
        for _ in range(100):
            u = v * scales / (square + lam)
            size = row_norm(u)
            slope = xp.sum(u * u / (square + lam), axis=-1, keepdims=True)
            newton = (size / xp.where(active, radius, one) - 1) * size * size / xp.where(active, slope, one)
            step = xp.where(active, xp.maximum(newton, zero), zero)
            lam = lam + step
            if not bool(xp.any(step > finfo_eps(v) * lam)):
                break
        w = v * (square / (square + lam))
        size = row_norm(w / scales)
        fit = xp.where(size > radius, radius / xp.where(size > 0, size, one), one)
        return xp.where(outside, w * fit, v)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        scales, radius = parameters
        return relative_excess(row_norm(v / scales), radius)

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: at μ = 0 only."""
        return mu == 0

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return namespace(z).abs(z) * parameters[0]

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        scales, radius = parameters
        return scales * (radius * unit_rows(z * scales, 2.0))

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        scales, radius = parameters
        return l2_increments(z * scales, mu, radius)


def _positive(values: Any, name: str) -> np.ndarray:
    vector = check_vector(values, name)
    if not (vector > 0).all():
        i = int(np.flatnonzero(vector <= 0)[0])
        raise ValueError(f"{name} must be positive, got {vector[i]:g} at coordinate {i}")
    return vector.astype(np.float64)
