"""Sets that constrain each coordinate by itself."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, namespace
from .._core.linear_systems import solve
from .._core.validation import as_numbers, check_nonnegative
from ._quadratic import minimise_between
from ._slices import minimise_on_slice
from .base import ConstraintSet, EmptySlice
from .polyhedron import Polyhedron
from .rows import RowSet

_TINY = float(np.finfo(np.float64).smallest_normal)
_TOLD = 8  # bounds in a sentence


class _Elementwise(RowSet):
    """What sets share that bound each coordinate by itself: every entry brings its own gain, whatever the others do."""

    separable = True

    def _bounds(self, *parameters: Any) -> tuple[Any, Any]:
        """Lower and upper bounds."""
        lower, upper = parameters
        return lower, upper

    @property
    def interval(self) -> tuple[Any, Any]:
        """The bounds of every coordinate, or of all."""
        return self._bounds(*self._parameters())

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        return _clip(v, *self._bounds(*parameters))

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        xp = namespace(z)
        infinite = xp.full_like(z, np.inf)
        steepest = xp.where(z > 0, infinite, xp.where(z < 0, -infinite, xp.zeros_like(z)))
        return self._project_rows(steepest, *parameters)

    def _maximum_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return self._project_rows(z / mu, *parameters) if mu > 0 else self._linear_rows(z, *parameters)

    def _gain(self, z: Array, mu: float, *parameters: Any) -> Array:
        """max zw - μw²/2 over the interval of each coordinate."""
        w = self._maximum_rows(z, mu, *parameters)
        return w * (z - (0.5 * mu) * w) if mu > 0 else w * z

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        lower, upper = self._bounds(*parameters)
        excess = xp.maximum(relative(xp, lower - v, lower), relative(xp, v - upper, upper))
        return xp.max(xp.maximum(excess, 0.0 * xp.abs(v)), axis=-1, keepdims=True)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return np.asarray(self._gain(z, mu, *parameters))

    def quadratic_minimum(self, G: np.ndarray, b: np.ndarray, support: np.ndarray) -> np.ndarray | None:
        """argmin uᵀGu - 2bᵀu between the bounds; None where that cannot be done accurately."""
        return self._minimum(G, b, support)

    def minimise_quadratic(
        self, G: np.ndarray, b: np.ndarray, support: np.ndarray, start: np.ndarray, deadline: float = math.inf
    ) -> np.ndarray:
        found = self._minimum(G, b, support, start, deadline)
        return minimise_on_slice(self, G, b, support, start, deadline) if found is None else found

    def _minimum(
        self,
        G: np.ndarray,
        b: np.ndarray,
        support: np.ndarray,
        start: np.ndarray | None = None,
        deadline: float = math.inf,
    ) -> np.ndarray | None:
        self.require_slice(support)
        if not np.isfinite(G).all():
            return None
        lower, upper = (np.broadcast_to(bound, b.shape) for bound in self._bounds(*self._sliced(b, support)))
        return minimise_between(G, b, lower, upper, start, deadline)

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(*self._bounds(*self._parameters()), n_features)

    def rescaled(self, scales: Any) -> ConstraintSet:
        scales, _ = self._units(scales)
        if self.whole_space or self.orthant:
            return self
        shape = self.polyhedron(scales.size)
        return Box(shape.lower / scales, shape.upper / scales)

    def natural_scales(self, n_features: int) -> np.ndarray | None:
        """None: all units are as good for bounds."""
        return None


class Everywhere(_Elementwise):
    """Γ = R^d: argmin_w ||w - v|| = v. No constraint."""

    closed_under_zeroing = True
    whole_space = True
    symmetric = True
    why = "it is the whole space"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.redefined:
            raise TypeError(
                f"{cls.__name__} writes a projection and inherits from Everywhere, which means that there is no "
                "constraint; inherit from ellzero.sets.ConstraintSet"
            )

    def _bounds(self, *parameters: Any) -> tuple[Any, Any]:
        return -np.inf, np.inf

    def limits(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(-np.inf, n_features), np.broadcast_to(np.inf, n_features)

    def quadratic_minimum(self, G: np.ndarray, b: np.ndarray, support: np.ndarray) -> np.ndarray | None:
        return solve(G, b)[0]

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        return v

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return 0.0 * v[..., :1]


class NonNegative(_Elementwise):
    """argmin ||w - v|| over w >= 0, which is max(v, 0).

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sets.NonNegative().project(np.array([1.0, -2.0]))
    array([1., 0.])
    """

    closed_under_zeroing = True
    orthant = True
    why = "zero satisfies every sign constraint"

    def _bounds(self, *parameters: Any) -> tuple[Any, Any]:
        return 0.0, np.inf

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return z

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return xp.max(_clip(-v, 0.0, np.inf), axis=-1, keepdims=True)


class Box(_Elementwise):
    """argmin ||w - v|| over lower <= w <= upper, which is v clipped.

    Parameters
    ----------
    lower, upper : float or array of shape (d,)
        Infinite where there is no bound. The box preserves supports exactly when lower <= 0 <= upper.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sets.Box(-1, [0.5, 2.0]).project(np.array([-3.0, 1.5]))
    array([-1. ,  1.5])
    """

    _parameter_padding: ClassVar[dict[str, float | None]] = {"lower": -np.inf, "upper": np.inf}

    def __init__(self, lower: Any = -np.inf, upper: Any = np.inf) -> None:
        self.lower, self.upper = _bound(lower, "lower"), _bound(upper, "upper")
        sizes = {b.size for b in (self.lower, self.upper) if isinstance(b, np.ndarray)}
        if len(sizes) > 1:
            raise ValueError(f"lower and upper must have the same length, got {self.lower.size} and {self.upper.size}")
        self.n_features = sizes.pop() if sizes else None
        if (crossed := np.flatnonzero(np.atleast_1d(self.lower > self.upper))).size:
            where = f" at coordinate {crossed[0]}" if self.n_features else ""
            raise ValueError(f"lower <= upper must hold, got {self._pair(crossed[0])}{where}")
        if np.any(np.asarray(self.lower) == np.inf) or np.any(np.asarray(self.upper) == -np.inf):
            raise ValueError("lower must be below +inf and upper above -inf: the box would be empty")

    @cached_property
    def _excludes_zero(self) -> np.ndarray:
        return np.flatnonzero(np.atleast_1d((self.lower > 0) | (self.upper < 0)))

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        """Whether every interval contains 0."""
        return not self._excludes_zero.size

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether all intervals are the same, and lower = -upper."""
        return bool(np.all(np.asarray(self.lower) == -np.max(self.upper)) and np.all(self.upper == np.max(self.upper)))

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        """Whether an interval excludes 0."""
        return self._excludes_zero.size > 0

    @cached_property
    def forced(self) -> np.ndarray:  # type: ignore[override]
        """Coordinates whose intervals exclude 0."""
        return ConstraintSet.forced if self.n_features is None else self._excludes_zero

    def _pair(self, i: int) -> str:
        lower, upper = (b[i] if isinstance(b, np.ndarray) else b for b in (self.lower, self.upper))
        return f"[{lower:g}, {upper:g}]"

    def words(self, names: Sequence[str]) -> str:
        """The bounds of every name that has some."""
        if self.n_features is None:
            return repr(self)
        lower, upper = (np.broadcast_to(b, self.n_features).tolist() for b in (self.lower, self.upper))
        ends = zip(names, lower, upper, strict=True)
        told = [f"{low:g} ≤ " * (low > -np.inf) + name + f" ≤ {high:g}" * (high < np.inf) for name, low, high in ends]
        told = [each for each, name in zip(told, names, strict=True) if each != name]
        return ", ".join(told[:_TOLD]) + (f" and {len(told) - _TOLD} more" if len(told) > _TOLD else "") or repr(self)

    @property
    def why(self) -> str:
        if self.closed_under_zeroing:
            return "every interval [lower, upper] contains 0"
        if not self.forced.size:
            return f"the interval {self._pair(0)} does not contain 0"
        i = self.forced[0]
        return f"the interval of coordinate {i}, {self._pair(i)}, does not contain 0"

    def forced_among(self, n_features: int) -> np.ndarray:
        return np.arange(n_features) if self.needs_entry and self.n_features is None else self.forced

    def require_slice(self, support: Array | None) -> None:
        if support is not None and self.needs_entry and self.n_features is None:
            raise EmptySlice(f"every coordinate of {self!r} is nonzero, so it has no sparse member")
        super().require_slice(support)

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        self.require_slice(support)
        return Box(*(b[support] if isinstance(b, np.ndarray) else b for b in (self.lower, self.upper)))

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        xp = namespace(z)
        gain = self._gain(z, mu, *parameters)
        return xp.minimum(gain, xp.full_like(gain, float(xp.finfo(gain.dtype).max)))


class LinfBall(_Elementwise):
    """argmin ||w - v|| over max_i |w_i| <= radius, which is v clipped to ±radius."""

    closed_under_zeroing = True
    symmetric = True
    _parameter_padding: ClassVar[dict[str, float | None]] = {"radius": None}
    why = "zeroing entries never increases a maximum of |w_i|"

    def __init__(self, radius: float) -> None:
        self.radius = check_nonnegative(radius, "radius")

    def _bounds(self, *parameters: Any) -> tuple[Any, Any]:
        (radius,) = parameters
        return -radius, radius

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A ball again, or a box where the units differ."""
        c = self._units(scales)[1]
        return LinfBall(self.radius / c) if c else super().rescaled(scales)


def relative_excess(size: Array, bound: Any) -> Array:
    """max(size - bound, 0), divided by the bound where it is not zero."""
    xp = namespace(size)
    return xp.maximum(relative(xp, size - bound, bound), 0.0 * size)


def relative(xp: Any, excess: Array, bound: Any) -> Array:
    """The excess divided by the bound, where that is neither zero nor infinite."""
    # below the normal numbers only absolute errors mean something
    least = max(float(xp.finfo(excess.dtype).smallest_normal), _TINY)
    if not hasattr(bound, "shape"):
        # an infinite bound is never exceeded; dividing would give NaN
        scale = max(abs(bound), least) if 0 < abs(bound) < np.inf else 1.0
        return excess / scale
    size = xp.abs(bound)
    usable = (size > 0) & xp.isfinite(size)
    return excess / xp.where(usable, xp.maximum(size, xp.full_like(size, least)), xp.ones_like(size))


def _clip(v: Array, lower: Any, upper: Any) -> Array:
    xp = namespace(v)
    if xp is np:
        return np.clip(v, lower, upper)
    v = xp.maximum(v, lower if hasattr(lower, "shape") else xp.full_like(v, lower))
    return xp.minimum(v, upper if hasattr(upper, "shape") else xp.full_like(v, upper))


def _bound(value: Any, name: str) -> Any:
    """A number or a one-dimensional array that may hold infinities but no NaN."""
    bound = as_numbers(value, name).astype(float)
    if bound.ndim > 1 or np.isnan(bound).any():
        raise ValueError(f"{name} must be a number or a one-dimensional array without NaN, got {value!r}")
    return bound if bound.ndim else float(bound)
