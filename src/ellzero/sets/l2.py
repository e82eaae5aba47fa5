"""The l2 ball and the ellipsoid."""

from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace
from ._quadratic import in_ellipsoid
from ._reach import of_ball
from ._tables import l2_increments
from .base import ConstraintSet
from .elementwise import Box, relative_excess
from .rows import RadiusSet, positive, row_norm, unit_rows


class L2Ball(RadiusSet):
    """argmin ||w - v|| over ||w||_2 <= radius: v, scaled down if it is too long."""

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        size = row_norm(v)
        xp = namespace(v)
        too_long = size > radius
        return xp.where(too_long, v * (radius / xp.where(too_long, size, xp.ones_like(size))), v)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        return radius * unit_rows(z, 2.0)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return l2_increments(z, mu, *parameters)

    def _ellipsoid(self, support: np.ndarray) -> tuple[np.ndarray, float]:
        return np.ones(support.size), self.radius

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_ellipsoid(G, b, np.full(b.size, self.radius))

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball again, or an ellipsoid where the units differ."""
        scales, c = self._units(scales)
        return L2Ball(self.radius / c) if c else Ellipsoid(1 / scales, self.radius)


class Ellipsoid(RadiusSet):
    """argmin ||w - v|| over Σ_i (w_i / scales_i)² <= radius²: axis-aligned, with half-axes scales_i · radius.

    Parameters
    ----------
    scales : array of shape (d,)
        Positive.
    radius : float
    """

    _parameter_padding: ClassVar[dict[str, float | None]] = {"scales": 1.0, "radius": None}

    def __init__(self, scales: Any, radius: float) -> None:
        super().__init__(radius)
        self.scales = positive(scales, "scales")
        self.n_features = self.scales.size

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

    def _ellipsoid(self, support: np.ndarray) -> tuple[np.ndarray, float]:
        return 1 / self.scales[support], self.radius

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_ellipsoid(G, b, self.radius * self.scales)

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        return Ellipsoid(self.scales[support], self.radius)

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """The ball of the longest half-axis, and a box."""
        sizes = self.radius * self.scales
        return [L2Ball(float(sizes.max())), Box(-sizes, sizes)]

    def rescaled(self, scales: Any) -> ConstraintSet:
        """An ellipsoid of other half-axes, or a ball."""
        halves = self.scales / self._units(scales)[0]
        if np.allclose(halves, halves[0], rtol=1e-13, atol=0.0):
            return L2Ball(self.radius * halves[0])
        return Ellipsoid(halves, self.radius)

    def natural_scales(self, n_features: int) -> np.ndarray:
        """Those in which it is a ball."""
        return self.scales

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        return of_ball(self.radius * self.scales.max(), k)
