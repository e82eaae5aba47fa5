"""Balls of the l1 and the l2 norm, plain and stretched along the axes."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace
from ._quadratic import in_ellipsoid
from ._tables import at_largest, budget_increments, l2_increments, to_sub_simplex
from .base import ConstraintSet
from .elementwise import Box, relative_excess
from .polyhedron import Polyhedron, of_ball
from .rows import RadiusSet, positive, row_norm, unit_rows


class L1Ball(RadiusSet):
    """argmin ||w - v|| over Σ_i |w_i| <= radius: sign(v) (|v| - θ)_+ with the θ that makes it fit.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sets.L1Ball(1.0).project(np.array([2.0, -1.5, 0.1]))
    array([ 0.75, -0.25,  0.  ])
    """

    symmetric = True

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return xp.sign(v) * to_sub_simplex(xp.abs(v), *parameters)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return relative_excess(xp.sum(xp.abs(v), axis=-1, keepdims=True), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        xp = namespace(z)
        return xp.sign(z) * at_largest(xp.abs(z), *parameters)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return budget_increments(self, z, np.abs(z), mu, *parameters, exact=False)

    def _exponent(self, mu: float) -> float | None:
        return np.inf if mu == 0 else None

    def _price_rows(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        return 0.0, np.abs(c).max(axis=-1, keepdims=True, initial=0.0)

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(-np.inf, np.inf, n_features).with_row(1.0, self.radius)

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball again, or a weighted one where the units differ."""
        scales, c = self._units(scales)
        return L1Ball(self.radius / c) if c else WeightedL1Ball(scales, self.radius)


class L2Ball(RadiusSet):
    """argmin ||w - v|| over ||w||_2 <= radius: v, scaled down if it is too long."""

    symmetric = True

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

    def _exponent(self, mu: float) -> float | None:
        return 2.0

    def _ellipsoid(self, support: np.ndarray) -> tuple[np.ndarray, float]:
        return np.ones(support.size), self.radius

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_ellipsoid(G, b, np.full(b.size, self.radius))

    def of_singular_values(self, shape: tuple[int, int]) -> ConstraintSet:
        """The same ball: Σ_ij w_ij² is the sum of their squares."""
        return self

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball again, or an ellipsoid where the units differ."""
        scales, c = self._units(scales)
        return L2Ball(self.radius / c) if c else Ellipsoid(1 / scales, self.radius)


class _Stretched(RadiusSet):
    """A plain ball whose coordinates are stretched, each by a factor that follows from the first parameter."""

    _plain: ClassVar[L1Ball | L2Ball]

    @abstractmethod
    def _along(self, x: Any, given: Any) -> Any:
        """x times the factors."""

    def _plain_ball(self, given: np.ndarray) -> ConstraintSet | None:
        """The set with this parameter, where all factors are the same."""
        same = np.allclose(given, given[0], rtol=1e-13, atol=0.0)
        return type(self._plain)(self._along(self.radius, given[0])) if same else None

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: at μ = 0 only."""
        return mu == 0

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return self._along(namespace(z).abs(z), parameters[0])

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        given, radius = parameters
        return self._along(self._plain._linear_rows(self._along(z, given), radius), given)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        given, radius = parameters
        return self._plain._increments(self._along(z, given), mu, radius)

    def _exponent(self, mu: float) -> float | None:
        return self._plain._exponent(mu)

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """The ball of the largest factor, and a box."""
        sizes = self._along(self.radius, self._parameters()[0])
        return [type(self._plain)(float(sizes.max())), Box(-sizes, sizes)]

    def natural_scales(self, n_features: int) -> np.ndarray:
        """Those in which it is a plain ball."""
        return np.asarray(self._along(1.0, self._parameters()[0]))

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        return of_ball(self._along(self.radius, self._parameters()[0]).max(), k)


class WeightedL1Ball(_Stretched):
    """argmin ||w - v|| over Σ_i weights_i |w_i| <= radius, with weights > 0.

    Parameters
    ----------
    weights : array of shape (d,)
    radius : float
    """

    _plain = L1Ball(0.0)
    _parameter_padding: ClassVar[dict[str, float | None]] = {"weights": 1.0, "radius": None}

    def __init__(self, weights: Any, radius: float) -> None:
        super().__init__(radius)
        self.weights = positive(weights, "weights")
        self.n_features = self.weights.size

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

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        return WeightedL1Ball(self.weights[support], self.radius)

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(-np.inf, np.inf, n_features).with_row(self.weights, self.radius)

    def _along(self, x: Any, given: Any) -> Any:
        return x / given

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball of other weights, or a plain one."""
        weights = self.weights * self._units(scales)[0]
        return self._plain_ball(weights) or WeightedL1Ball(weights, self.radius)


class Ellipsoid(_Stretched):
    """argmin ||w - v|| over Σ_i (w_i / scales_i)² <= radius²: axis-aligned, with half-axes scales_i · radius.

    Parameters
    ----------
    scales : array of shape (d,)
        Positive.
    radius : float
    """

    _plain = L2Ball(0.0)
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

    def _ellipsoid(self, support: np.ndarray) -> tuple[np.ndarray, float]:
        return 1 / self.scales[support], self.radius

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_ellipsoid(G, b, self.radius * self.scales)

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        return Ellipsoid(self.scales[support], self.radius)

    def _along(self, x: Any, given: Any) -> Any:
        return x * given

    def rescaled(self, scales: Any) -> ConstraintSet:
        """An ellipsoid of other half-axes, or a ball."""
        halves = self.scales / self._units(scales)[0]
        return self._plain_ball(halves) or Ellipsoid(halves, self.radius)
