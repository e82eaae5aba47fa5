"""Sets whose projection is written for the rows of a matrix, so that many are projected at once."""

from abc import abstractmethod
from collections.abc import Hashable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, best_entries, index_like, like, namespace, scatter, to_host
from .._core.validation import check_nonnegative, check_vector
from ..sparsity import Sparsity, as_sparsity
from ._range import in_range, narrowed, project_in_range, towards_zero
from ._slices import gains
from .base import ConstraintSet, SparseMaximum
from .polyhedron import of_ball


class RowSet(ConstraintSet):
    """A set whose projection is written for the last axis of an array, so that many are projected at once.

    `_project_rows(v, *parameters)` projects every row of v; a parameter is a number for each row (shape (..., 1))
    or an entry for each coordinate (the shape of v). Rows are filled up with `_padding`, which must not change
    the projection of the other entries, and coordinate parameters with their entry in `_parameter_padding`, which
    names the attributes that are parameters (None there marks one that is one number a set).

    For `sparse_maximum` a set tells three things more: the score by which coordinates enter (whatever was kept,
    the next best is the one of the largest score), its linear oracle, and, for products over groups, how much
    each further entry of a row adds.
    """

    _padding: ClassVar[float] = 0.0
    _parameter_padding: ClassVar[dict[str, float | None]] = {}

    @abstractmethod
    def _project_rows(self, v: Array, *parameters: Any) -> Array: ...

    @abstractmethod
    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        """The violation of every row, shape (..., 1)."""

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        """Finite numbers, the larger the better; the best j entries do not depend on what else is kept."""
        return namespace(z).abs(z)

    @abstractmethod
    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        """argmax <z, w> over the members, for every row."""

    @abstractmethod
    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        """v(1), v(2) - v(1), ... with v(j) the maximum on the first j entries of a row, which come by score.

        Entries to be kept stand before all others, whatever their score. Decreasing after those: v is concave.
        """

    def _exponent(self, mu: float) -> float | None:
        """q if the maximum on a support grows with the q-norm of its scores, and depends on nothing else; None if not.

        Then atoms of several coordinates come by the q-norms of theirs; for q = ∞ by the largest.
        """
        return None

    def _maximum_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        """argmax <z, w> - μ/2 ||w||² over the members, for every row.

        The projection of z/μ onto Γ is the one of z onto μΓ, divided by μ, and every parameter scales with μ:
        that way a small μ neither overflows nor cancels.
        """
        if mu == 0:
            return self._linear_rows(z, *parameters)
        return self._project_rows(z, *(_times(mu, parameter) for parameter in parameters)) / mu

    def _price_rows(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        """λ and θ of `shadow_prices` for every row, shape (..., 1), from its entries that are not zero."""
        return 0.0, 0.0

    def _parameters(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._parameter_padding)

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._parameter_padding}

    @property
    def family(self) -> Hashable:
        """Sets of equal family can be projected in one call."""
        return type(self)

    def _sliced(self, v: Array, support: Array | None) -> list[Any]:
        """The parameters for these coordinates, in the library of v."""
        sliced = []
        for parameter in self._parameters():
            if isinstance(parameter, np.ndarray):
                values = parameter if support is None else parameter[to_host(support)]
                parameter = like(values, v)
            sliced.append(parameter)
        return sliced

    def project(self, v: Array, support: Array | None = None) -> Array:
        self.require_slice(support)
        if v.shape[-1] == 0:
            return v
        return project_in_range(self._project_rows, v, *self._sliced(v, support))

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        asked = as_sparsity(k).within(z.shape[0])
        if not self.knows_maximum(asked, mu):
            return None
        sparsity, mu, kept = self._demands(z, asked, mu, keep)
        if sparsity.k == 0 and not sparsity.free.size:
            return 0.0, namespace(z).zeros_like(z)
        support, values = in_range(partial(self._sparse_maximum, sparsity=sparsity, kept=kept), z, mu)
        values = values if values.dtype == z.dtype else towards_zero(values, z.dtype)
        if not np.isfinite(to_host(values)).all():
            return np.inf, None
        return objective(to_host(z[support]), to_host(values), mu), scatter(values, support, z.shape[0])

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: for quotas on single coordinates wherever it is for k; for larger atoms
        where their scores can be put together.
        """
        known = self.has_sparse_maximum(mu)
        if sparsity.plain or not sparsity.by_atoms or type(self).sparse_maximum is not RowSet.sparse_maximum:
            return sparsity.plain and known
        return known and (self.separable or sparsity.of_single or self._exponent(mu) is not None)

    def _sparse_maximum(self, z: Array, mu: float, sparsity: Sparsity, kept: np.ndarray) -> tuple[Array, Array]:
        """The support of the maximum, and the values there."""
        parameters = self._sliced(z, None)
        if sparsity.plain:
            support = best_entries(self._score_rows(z, mu, *parameters), sparsity.k, kept)
        else:
            if self.separable:
                worth = sparsity.sums(gains(to_host(z), to_host(self._maximum_rows(z, mu, *parameters)), mu))
            else:
                # To take the coordinate of a larger score in place of another one never lowers the maximum. The greedy
                # choice under quotas has, for every j, a j-th largest score no smaller than any other choice has: each
                # coordinate of another choice can be exchanged for one of the greedy choice that scores as much.
                q = None if sparsity.of_single else self._exponent(mu)
                worth = sparsity.norms(to_host(self._score_rows(z, mu, *parameters)), np.inf if q is None else q)
            support = index_like(sparsity.best_atoms(worth, kept), z)
        return support, self._maximum_rows(z[support], mu, *self._sliced(z, support))

    def slice_on(self, support: np.ndarray) -> ConstraintSet | None:
        """The set itself, unless it has coordinates of its own."""
        self.require_slice(support)
        return self if self.n_features is None else None

    def shadow_prices(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        return self._price_rows(w[w != 0], c[w != 0])

    def violation(self, w: Array) -> float:
        return float(narrowed(to_host(in_range(self._violation_rows, w, *self._sliced(w, None)))[0]))


def objective(z: np.ndarray, w: np.ndarray, mu: float) -> float:
    """<z, w> - μ/2 ||w||², in double precision."""
    z, w = z.astype(float, copy=False), w.astype(float, copy=False)
    return float(narrowed(in_range(lambda z, w, mu: np.sum(w * (z - 0.5 * mu * w)), z, w, mu)))


def _times(mu: float, parameter: Any) -> Any:
    """μ times a parameter; floats of Python overflow and underflow without a word, NumPy's do not."""
    product = np.multiply(mu, parameter) if isinstance(parameter, float) else mu * parameter
    return float(product) if isinstance(product, np.float64) else product


class RadiusSet(RowSet):
    """What sets given by one radius share."""

    closed_under_zeroing = True
    _parameter_padding: ClassVar[dict[str, float | None]] = {"radius": None}
    why = "zeroing entries never increases the norm"

    def __init__(self, radius: float) -> None:
        self.radius = check_nonnegative(radius, "radius")

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(n_features, dtype=bool), np.ones(n_features, dtype=bool)

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """The square of the radius: ||w||_2 <= ||w||_p for p <= 2."""
        return of_ball(self.radius, k)


def positive(values: Any, name: str) -> np.ndarray:
    """A vector of positive numbers, checked."""
    vector = check_vector(values, name)
    if not (vector > 0).all():
        i = int(np.flatnonzero(vector <= 0)[0])
        raise ValueError(f"{name} must be positive, got {vector[i]:g} at coordinate {i}")
    return vector.astype(np.float64)


def row_norm(v: Array, p: float = 2.0) -> Array:
    """The p-norm of every row, shape (..., 1), safe from overflow."""
    xp = namespace(v)
    size = xp.abs(v)
    largest = xp.max(size, axis=-1, keepdims=True)
    if p == np.inf:
        return largest
    if p == 1:
        return xp.sum(size, axis=-1, keepdims=True)
    u = size / xp.where(largest > 0, largest, xp.ones_like(largest))
    if p == 2:
        return largest * xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True))
    return largest * xp.sum(u**p, axis=-1, keepdims=True) ** (1 / p)


def unit_rows(v: Array, p: float) -> Array:
    """Every row divided by its p-norm; zero stays zero."""
    size = row_norm(v, p)
    return v / namespace(v).where(size > 0, size, 1 + 0.0 * size)
