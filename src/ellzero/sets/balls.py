"""Norm balls, the simplex and their weighted kin, each projected along the last axis of an array."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array, finfo_eps, namespace, sort_descending
from .._validation import check_nonnegative, check_number, check_vector
from ._lp import project_lp, row_norm
from .base import RowSet
from .elementwise import LinfBall, relative_excess


class _Radius(RowSet):
    """What sets given by one radius share."""

    closed_under_zeroing = True
    _parameter_padding: ClassVar[tuple[float | None, ...]] = (None,)

    def __init__(self, radius: float) -> None:
        self.radius = check_nonnegative(radius, "radius")

    @property
    def why(self) -> str:
        """Why the set preserves supports."""
        return "zeroing entries never increases the norm"

    def _parameters(self) -> tuple[Any, ...]:
        return (self.radius,)

    def _arguments(self) -> dict[str, Any]:
        return {"radius": self.radius}


class L1Ball(_Radius):
    """argmin ||w - v|| over Σ_i |w_i| <= radius: sign(v) (|v| - θ)_+ with the θ that makes it fit.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sets.L1Ball(1.0).project(np.array([2.0, -1.5, 0.1]))
    array([ 0.75, -0.25,  0.  ])
    """

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return xp.sign(v) * _to_sub_simplex(xp.abs(v), *parameters)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return relative_excess(xp.sum(xp.abs(v), axis=-1, keepdims=True), *parameters)


class L2Ball(_Radius):
    """argmin ||w - v|| over ||w||_2 <= radius: v, scaled down if it is too long."""

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        size = row_norm(v)
        xp = namespace(v)
        too_long = size > radius
        return xp.where(too_long, v * (radius / xp.where(too_long, size, xp.ones_like(size))), v)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v), *parameters)


class LpBall(_Radius):
    """argmin ||w - v|| over (Σ_i |w_i|^p)^(1/p) <= radius, for any p >= 1, to about 1e-12.

    Parameters
    ----------
    p : float
        At least 1; ``numpy.inf`` is allowed. For 1, 2 and infinity the projection of `L1Ball`, `L2Ball` and
        `LinfBall` is used.
    radius : float
    """

    def __init__(self, p: float, radius: float) -> None:
        super().__init__(radius)
        self.p = check_number(p, "p", low=1.0)

    @property
    def family(self) -> Hashable:
        """Balls of one p go together."""
        return LpBall, self.p

    def _arguments(self) -> dict[str, Any]:
        return {"p": self.p, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        p = 1.0 if self.p - 1 < 1e-12 else self.p  # indistinguishable from l1 at the accuracy that is promised
        return _SPECIAL[p]._project_rows(v, radius) if p in _SPECIAL else project_lp(v, p, radius)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v, self.p), *parameters)


_SPECIAL: dict[float, RowSet] = {1.0: L1Ball(0.0), 2.0: L2Ball(0.0), np.inf: LinfBall(0.0)}


class SubSimplex(_Radius):
    """argmin ||w - v|| over w >= 0, Σ_i w_i <= total: a budget that need not be spent."""

    def __init__(self, total: float = 1.0) -> None:
        self.total = self.radius = check_nonnegative(total, "total")

    @property
    def why(self) -> str:
        """Why the set preserves supports."""
        return "zeroing non-negative entries never increases their sum"

    def _arguments(self) -> dict[str, Any]:
        return {"total": self.total}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        return _to_sub_simplex(v, *parameters)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        negative = xp.max(xp.maximum(-v, 0.0 * v), axis=-1, keepdims=True)
        return xp.maximum(negative, relative_excess(xp.sum(v, axis=-1, keepdims=True), *parameters))


class Simplex(RowSet):
    """argmin ||w - v|| over w >= 0, Σ_i w_i = total: a budget that must be spent exactly.

    Not support-preserving: the projection of a sparse vector may need entries outside its support. It is still
    usable where a projection onto its sparse members is known, or with the projection "restricted".
    """

    _padding = -np.inf
    _parameter_padding = (None,)

    def __init__(self, total: float = 1.0) -> None:
        self.total = check_nonnegative(total, "total")
        self.closed_under_zeroing = self.total == 0
        self.needs_entry = self.total > 0

    @property
    def why(self) -> str:
        """Why the set preserves supports, or does not."""
        if self.closed_under_zeroing:
            return "it holds the zero vector alone"
        return f"zeroing an entry breaks the exact budget Σw = {self.total:g}"

    def _parameters(self) -> tuple[Any, ...]:
        return (self.total,)

    def _arguments(self) -> dict[str, Any]:
        return {"total": self.total}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        shifted, threshold, _ = _simplex_threshold(v, *parameters)
        xp = namespace(v)
        return xp.maximum(shifted - threshold, xp.zeros_like(v))

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        (total,) = parameters
        v = xp.where(v == -np.inf, 0.0 * xp.ones_like(v), v)  # padding
        negative = xp.max(xp.maximum(-v, 0.0 * v), axis=-1, keepdims=True)
        spent = xp.sum(v, axis=-1, keepdims=True)
        return xp.maximum(negative, relative_excess(xp.abs(spent - total) + total, total))


class WeightedL1Ball(_Radius):
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
        # With the entries sorted by |v|/c, θ = max_j (Σ_{i<=j} c_i|v_i| - radius) / Σ_{i<=j} c_i²: the same
        # maximum as for the simplex, see _simplex_threshold.
        weights, radius = parameters
        xp = namespace(v)
        size = xp.abs(v)
        order = xp.argsort(-(size / weights), axis=-1)
        s, c = (xp.take_along_axis(a, order, axis=-1) for a in (size, weights + 0.0 * size))
        theta = xp.max(
            (xp.cumulative_sum(c * s, axis=-1) - radius) / xp.cumulative_sum(c * c, axis=-1),
            axis=-1,
            keepdims=True,
        )
        inside = theta <= 0
        return xp.where(inside, v, xp.sign(v) * xp.maximum(size - theta * weights, 0.0 * size))

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        weights, radius = parameters
        xp = namespace(v)
        return relative_excess(xp.sum(weights * xp.abs(v), axis=-1, keepdims=True), radius)


class Ellipsoid(_Radius):
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


def _simplex_threshold(v: Array, total: Any) -> tuple[Array, Array, Array]:
    """v - max(v), the θ of the projection onto the simplex less max(v), and max(v).

    θ = max_j (Σ_{i<=j} v_(i) - total)/j with v_(1) >= v_(2) >= ...: for every j, Σ_{i<=j} v_(i) - total is at
    most jθ, because Σ (v_i - θ)_+ = total, and equality holds at the number of positive entries. Working
    relative to the largest entry keeps full precision when v is large against the total.
    """
    xp = namespace(v)
    largest = xp.max(v, axis=-1, keepdims=True)
    shifted = v - largest
    partial = xp.cumulative_sum(sort_descending(shifted), axis=-1) - total
    counts = xp.cumulative_sum(xp.ones_like(v), axis=-1)
    return shifted, xp.max(partial / counts, axis=-1, keepdims=True), largest


def _to_sub_simplex(v: Array, total: Any) -> Array:
    xp = namespace(v)
    shifted, threshold, largest = _simplex_threshold(v, total)
    inside = threshold <= -largest  # θ <= 0: the non-negative part already fits
    zero = xp.zeros_like(v)
    return xp.where(inside, xp.maximum(v, zero), xp.maximum(shifted - threshold, zero))


def _positive(values: Any, name: str) -> np.ndarray:
    vector = check_vector(values, name)
    if not (vector > 0).all():
        i = int(np.flatnonzero(vector <= 0)[0])
        raise ValueError(f"{name} must be positive, got {vector[i]:g} at coordinate {i}")
    return vector.astype(np.float64)
