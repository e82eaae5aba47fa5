"""Norm balls and simplices, each projected along the last axis of an array."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, namespace, sort_descending
from .._core.validation import check_nonnegative, check_number
from ._lp import project_lp, row_norm
from ._tables import budget_increments, increments_by_projection, l2_increments, linear_increments
from .base import RowSet
from .elementwise import LinfBall, relative_excess


class RadiusSet(RowSet):
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

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return namespace(z).abs(z)


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
        return xp.sign(v) * _to_sub_simplex(xp.abs(v), *parameters)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        return relative_excess(xp.sum(xp.abs(v), axis=-1, keepdims=True), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        xp = namespace(z)
        return xp.sign(z) * _at_largest(xp.abs(z), *parameters)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return budget_increments(self, z, np.abs(z), mu, *parameters, exact=False)


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


class LpBall(RadiusSet):
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
        # below 1 + 1e-12 indistinguishable from l1 at the accuracy that is promised
        self._same = SPECIAL_P.get(1.0 if self.p - 1 < 1e-12 else self.p)

    @property
    def family(self) -> Hashable:
        """Balls of one p go together."""
        return LpBall, self.p

    def _arguments(self) -> dict[str, Any]:
        return {"p": self.p, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        return self._same._project_rows(v, radius) if self._same else project_lp(v, self.p, radius)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v, self.p), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        if self._same:
            return self._same._linear_rows(z, radius)
        xp = namespace(z)
        # |w_i| is proportional to |z_i|^(q-1), 1/p + 1/q = 1; the largest is scaled to 1 to stay in range
        largest = row_norm(z, np.inf)
        size = (xp.abs(z) / xp.where(largest > 0, largest, xp.ones_like(largest))) ** (1 / (self.p - 1))
        return radius * unit_rows(xp.sign(z) * size, self.p)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        if self._same:
            return self._same._increments(z, mu, *parameters)
        if mu == 0:
            return linear_increments(np.abs(z), self.p / (self.p - 1), *parameters)
        return increments_by_projection(self, z, mu, *parameters)


SPECIAL_P: dict[float, RowSet] = {1.0: L1Ball(0.0), 2.0: L2Ball(0.0), np.inf: LinfBall(0.0)}


class SubSimplex(RadiusSet):
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

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return z

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        xp = namespace(z)
        return xp.where(z > 0, _at_largest(z, *parameters), xp.zeros_like(z))

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return budget_increments(self, z, z, mu, *parameters, exact=False)


class Simplex(RowSet):
    """argmin ||w - v|| over w >= 0, Σ_i w_i = total: a budget that must be spent exactly.

    Not support-preserving: the projection of a sparse vector may need entries outside its support. It is still
    usable where a projection onto its sparse members is known, or with the projection "restricted".
    """

    _padding = -np.inf
    _parameter_padding = (None,)

    def __init__(self, total: float = 1.0) -> None:
        self.total = check_nonnegative(total, "total")

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        """Whether it holds zero alone."""
        return self.total == 0

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        """Whether there is something to spend."""
        return self.total > 0

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

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return z

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        return _at_largest(z, *parameters)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return budget_increments(self, z, z, mu, *parameters, exact=True)


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


def _at_largest(a: Array, total: Any) -> Array:
    """All of the total at the largest entry of each row, at the first if there are several."""
    xp = namespace(a)
    place = xp.cumulative_sum(xp.ones_like(a), axis=-1)
    largest = xp.max(a, axis=-1, keepdims=True)
    first = xp.min(xp.where(a == largest, place, xp.full_like(a, np.inf)), axis=-1, keepdims=True)
    return xp.where(place == first, total + xp.zeros_like(a), xp.zeros_like(a))


def unit_rows(v: Array, p: float) -> Array:
    """Every row divided by its p-norm; zero stays zero."""
    size = row_norm(v, p)
    return v / namespace(v).where(size > 0, size, 1 + 0.0 * size)
