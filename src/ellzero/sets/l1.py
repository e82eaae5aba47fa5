"""The l1 ball, plain and with weights."""

from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, namespace
from ._reach import of_ball
from ._tables import at_largest, budget_increments, to_sub_simplex
from .base import ConstraintSet
from .elementwise import Box, relative_excess
from .polyhedron import Polyhedron
from .rows import RadiusSet, positive


class L1Ball(RadiusSet):
    """argmin ||w - v|| over Σ_i |w_i| <= radius: sign(v) (|v| - θ)_+ with the θ that makes it fit.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sets.L1Ball(1.0).project(np.array([2.0, -1.5, 0.1]))
    array([ 0.75, -0.25,  0.  ])
    """

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

    def _price_rows(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        return 0.0, np.abs(c).max(axis=-1, keepdims=True, initial=0.0)

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(-np.inf, np.inf, n_features).with_row(1.0, self.radius)

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball again, or a weighted one where the units differ."""
        scales, c = self._units(scales)
        return L1Ball(self.radius / c) if c else WeightedL1Ball(scales, self.radius)


_PLAIN = L1Ball(0.0)


class WeightedL1Ball(RadiusSet):
    """argmin ||w - v|| over Σ_i weights_i |w_i| <= radius, with weights > 0.

    Parameters
    ----------
    weights : array of shape (d,)
    radius : float
    """

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

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: at μ = 0 only."""
        return mu == 0

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return namespace(z).abs(z) / parameters[0]

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        weights, radius = parameters
        return _PLAIN._linear_rows(z / weights, radius) / weights

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        weights, radius = parameters
        return _PLAIN._increments(z / weights, mu, radius)

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        return WeightedL1Ball(self.weights[support], self.radius)

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(-np.inf, np.inf, n_features).with_row(self.weights, self.radius)

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """The ball of the smallest weight, and a box."""
        sizes = self.radius / self.weights
        return [L1Ball(float(sizes.max())), Box(-sizes, sizes)]

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball of other weights, or a plain one."""
        weights = self.weights * self._units(scales)[0]
        if np.allclose(weights, weights[0], rtol=1e-13, atol=0.0):
            return L1Ball(self.radius / weights[0])
        return WeightedL1Ball(weights, self.radius)

    def natural_scales(self, n_features: int) -> np.ndarray:
        """Those in which all weights are 1."""
        return 1 / self.weights

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        return of_ball(self.radius / self.weights.min(), k)
