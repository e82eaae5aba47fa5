"""What a constraint set Γ is, and the family of sets that project many vectors at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from inspect import isabstract
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._core.arrays import Array, best_entries, finfo_eps, is_array, like, namespace, norm, scatter, to_host
from .._core.validation import check_indices, check_nonnegative, check_vector, require_finite
from ..sparsity import Sparsity, as_sparsity
from ._range import in_range, narrowed, project_in_range, towards_zero

#: max <z, w> - μ/2 ||w||² and a w that attains it; (inf, None) where there is no bound
SparseMaximum = tuple[float, Array | None]


class EmptySlice(ValueError):
    """No member of Γ is zero outside the given support."""


class MemberNotFound(EmptySlice):
    """None was found where there may be one."""


class Support(NamedTuple):
    """A point p near the projection of v, and a normal there: <n, w - p> <= slack + spread·||w - p|| for all members w.

    n is v - p, or near it; slack and spread are what an inexact projection leaves open.
    """

    p: np.ndarray
    n: np.ndarray
    slack: float
    spread: float


#: what makes a set the set it is: a class that writes one of these anew is another set than the one it inherits from
_DEFINING = ("project", "on", "_project_rows", "_parameters", "_bounds", "_positions")
#: what is told about a set, and believed
_FACTS = (
    "closed_under_zeroing", "whole_space", "needs_entry", "forced", "accuracy", "why", "on", "rescaled", "violation",
    "has_sparse_maximum", "knows_maximum", "sparse_maximum", "sparse_support", "quadratic_minimum", "shadow_prices",
    "forced_among", "require_slice", "supporting",
)  # fmt: skip


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("ellzero.sets.")


def is_known(gamma: ConstraintSet) -> bool:
    """Whether the projection, and with it the set, is this library's."""
    return all(_is_ours(_owner(type(gamma), name)) for name in _DEFINING)


def _owner(cls: type, name: str) -> type:
    """The class from which a name comes; ConstraintSet where none has it."""
    return next((base for base in cls.__mro__ if name in vars(base)), ConstraintSet)


class ConstraintSet(ABC):
    """A closed convex set Γ of vectors.

    A set of your own writes `project` and, if it holds, declares ``closed_under_zeroing = True``;
    `ellzero.testing.check_set` then looks for a counterexample. One that inherits from a set of this library and
    writes `project` anew is another set, so nothing that is known of the old one is believed of it: it falls back to
    what this class says, unless it states more itself.
    """

    #: Number of coordinates, where the set fixes it; None for sets such as a ball, which exist in every dimension.
    n_features: int | None = None
    #: Whether setting coordinates of a member to zero always gives a member.
    closed_under_zeroing: bool = False
    #: Whether Γ is all of R^d, so that there is nothing to project.
    whole_space: bool = False
    #: Whether zero is not a member, so that a member needs at least one nonzero entry.
    needs_entry: bool = False
    #: Coordinates that are nonzero in every member.
    forced: np.ndarray = np.empty(0, dtype=np.intp)
    #: The relative error of `project`; an iterative projection states what it reaches, and answers are held to that.
    accuracy: float = 1e-12
    #: Whether the class inherits from a set of this library and is another one, because it writes `project` itself.
    redefined: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _is_ours(cls) or not any(_is_ours(base) and not isabstract(base) for base in cls.__mro__[1:]):
            return
        cls.redefined = any(not _is_ours(_owner(cls, name)) for name in _DEFINING)
        if not cls.redefined:
            return
        for name in _FACTS:
            if _is_ours(_owner(cls, name)):
                setattr(cls, name, ConstraintSet.__dict__[name])

    @abstractmethod
    def project(self, v: Array, support: Array | None = None) -> Array:
        """argmin ||w - v|| over the slice {w in Γ : w is zero outside the support}.

        Parameters
        ----------
        v : array
            The values: one for each coordinate of the support, or for every coordinate if there is none.
        support : array of increasing indices, optional

        Returns
        -------
        array of the shape of v
        """

    def on(self, support: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The projection onto a slice as a function of the values, for those who project onto it many times."""
        return lambda values: self.project(values, support)

    def supporting(self, v: np.ndarray, support: np.ndarray) -> Support:
        """A half-space that contains the slice, and is tight next to the projection of v: what lower bounds rest on.

        If the projection is off by at most α = `accuracy`·max(||v||, ||p||), then
        <v - p, w - p> <= α(||v - p|| + 3α) + α||w - p||.
        """
        p = to_host(self.project(v, support))
        off, n = self.accuracy * max(norm(v), norm(p)), v - p
        return Support(p, n, off * (norm(n) + 3 * off), off)

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        """{u : scales∘u in Γ}, the same set in other units: an l1 ball becomes a weighted one, an l2 ball an ellipsoid.

        Parameters
        ----------
        scales : array of shape (d,)
            Positive.

        Returns
        -------
        ConstraintSet or None
            None where no set of this library describes it.
        """
        from ._rescale import rescale

        scales = check_vector(scales, "scales", self.n_features).astype(float)
        if not (scales > 0).all():
            raise ValueError(f"scales must be positive, got {scales.min():g}")
        return rescale(self, scales)

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known at this μ; told without computing anything."""
        return type(self).sparse_maximum is not ConstraintSet.sparse_maximum

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known for this sparsity at this μ; for another than an int's, a set says so."""
        return sparsity.plain and self.has_sparse_maximum(mu)

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        """max <z, w> - μ/2 ||w||² over ||w||_0 <= k, w in Γ, and where it is attained; None if that is not known.

        For μ > 0 the maximiser is the Euclidean projection of z/μ onto the sparse members of Γ, for μ = 0 it is
        their linear oracle; the value is the conjugate h*(z) of h = μ/2 ||·||² on the sparse members, of which a
        lower bound for R is made. It is computed from the maximiser, so exact up to rounding.

        Parameters
        ----------
        z : array of shape (d,)
        k : int or sparsity
        mu : float
            At least 0.
        keep : indices or mask, optional
            Coordinates that are always among the k.

        Returns
        -------
        value : float
        w : array of shape (d,) or None
            With as few nonzeros as the maximum needs; among equals lower indices win. None where the value is
            infinite because Γ is unbounded, which happens at μ = 0 only.

        Raises
        ------
        EmptySlice
            If Γ has no member with at most k nonzeros.
        """
        return None

    def sparse_support(self, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray | None:
        """The k coordinates that "restricted" keeps; None for the largest entries, on which Γ may have no member."""
        return None

    def quadratic_minimum(self, G: np.ndarray, b: np.ndarray, support: np.ndarray) -> np.ndarray | None:
        """argmin uᵀGu - 2bᵀu over the slice of Γ on the support, where there is something faster than projections."""
        return None

    def shadow_prices(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any] | None:
        """(λ, θ): a newcomer i is worth |c_i - λ_i| - θ_i at w, c being the negative gradient; None if not known."""
        return None

    def forced_among(self, n_features: int) -> np.ndarray:
        """Coordinates that are nonzero in every member with this many coordinates."""
        return self.forced

    def require_features(self, d: int, of: str = "w") -> None:
        """Raise ValueError unless the set can be one of vectors with d coordinates."""
        if self.n_features not in (None, d):
            raise ValueError(f"the constraint {self!r} is made for {self.n_features} coordinates, {of} has {d}")

    def _demands(self, z: Array, k: int | Sparsity, mu: float, keep: Any) -> tuple[int, float, np.ndarray]:
        """The arguments of `sparse_maximum`, checked, with the forced coordinates among those to keep."""
        d = require_finite(z).shape[0]
        self.require_features(d, "z")
        sparsity, mu, kept = as_sparsity(k).within(d), check_nonnegative(mu, "mu"), check_indices(keep, d, "keep")
        sparsity.require_keep(kept)
        k = sparsity.k
        forced = self.forced_among(d)
        kept = np.union1d(kept, forced) if forced.size else kept
        if kept.size > k or (self.needs_entry and k == 0):
            raise EmptySlice(
                f"{self!r} has no member with at most k={k} nonzeros: it needs at least {max(kept.size, 1)} "
                f"({forced.size} coordinates whose bounds exclude 0, the others from keep=); raise k"
            )
        return k, mu, kept

    def violation(self, w: Array) -> float:
        """How far w is outside: the largest excess over a bound, relative to that bound where it is not zero.

        Zero for members. The base class takes the distance to the projection, relative to the size of w.
        """
        distance = norm(w - self.project(w))
        return distance / max(norm(w), 1e-300) if distance else 0.0

    def contains(self, w: Any, tol: float | None = None) -> bool:
        """Whether the violation of w is at most tol (by default 1e-12 or `accuracy`, in single precision 4e-6)."""
        if isinstance(w, np.ndarray) or not is_array(w):
            w = check_vector(w, "w", finite=not isinstance(w, np.ndarray))
        return self.violation(w) <= (max(default_tolerance(w), self.accuracy) if tol is None else tol)

    @property
    def preserves_support(self) -> bool:
        """Whether supp Π_Γ(w) ⊆ supp w for every w, which is the same as being closed under zeroing."""
        return self.closed_under_zeroing

    @property
    def why(self) -> str:
        """Why the set preserves supports, or does not."""
        if self.closed_under_zeroing:
            return "its author declares that zeroing coordinates of a member gives a member"
        return (
            "it is not declared closed under zeroing coordinates; set closed_under_zeroing = True in the class "
            "if that holds (ellzero.testing.check_set looks for a counterexample)"
        )

    def require_slice(self, support: Array | None) -> None:
        """Raise EmptySlice if no member is zero outside the support."""
        if support is None or not (self.needs_entry or self.forced.size):
            return
        inside = to_host(support)
        missing = self.forced[~np.isin(self.forced, inside)]
        if missing.size:
            raise EmptySlice(
                f"{self!r} has no member that is zero at coordinate {missing[0]}: it must be in the support; "
                f"pass keep={list(map(int, self.forced[:10]))}{'...' if self.forced.size > 10 else ''}"
            )
        if inside.size == 0:
            raise EmptySlice(f"{self!r} does not contain zero, so it has no member with empty support; use k >= 1")

    def _arguments(self) -> dict[str, Any]:
        """What the constructor was given, for repr."""
        return {}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={_short(value)}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({arguments})"


class RowSet(ConstraintSet):
    """A set whose projection is written for the last axis of an array, so that many are projected at once.

    `_project_rows(v, *parameters)` projects every row of v; a parameter is a number for each row (shape (..., 1))
    or an entry for each coordinate (the shape of v). Rows are filled up with `_padding`, which must not change
    the projection of the other entries, and coordinate parameters with their entry in `_parameter_padding`
    (None there marks a parameter that is one number a set).

    For `sparse_maximum` a set tells three things more: the score by which coordinates enter (whatever was kept,
    the next best is the one of the largest score), its linear oracle, and, for products over groups, how much
    each further entry of a row adds.
    """

    _padding: ClassVar[float] = 0.0
    _parameter_padding: ClassVar[tuple[float | None, ...]] = ()

    @abstractmethod
    def _project_rows(self, v: Array, *parameters: Any) -> Array: ...

    @abstractmethod
    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        """The violation of every row, shape (..., 1)."""

    @abstractmethod
    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        """Finite numbers, the larger the better; the best j entries do not depend on what else is kept."""

    @abstractmethod
    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        """argmax <z, w> over the members, for every row."""

    @abstractmethod
    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        """v(1), v(2) - v(1), ... with v(j) the maximum on the first j entries of a row, which come by score.

        Entries to be kept stand before all others, whatever their score. Decreasing after those: v is concave.
        """

    def _maximum_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        """argmax <z, w> - μ/2 ||w||² over the members, for every row.

        The projection of z/μ onto Γ is the one of z onto μΓ, divided by μ, and every parameter scales with μ:
        that way a small μ neither overflows nor cancels.
        """
        if mu == 0:
            return self._linear_rows(z, *parameters)
        return self._project_rows(z, *(_times(mu, parameter) for parameter in parameters)) / mu

    def _parameters(self) -> tuple[Any, ...]:
        return ()

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

    project.__doc__ = ConstraintSet.project.__doc__

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        if not self.knows_maximum(as_sparsity(k), mu):
            return None
        k, mu, kept = self._demands(z, k, mu, keep)
        if k == 0:
            return 0.0, namespace(z).zeros_like(z)
        support, values = in_range(partial(self._sparse_maximum, k=k, kept=kept), z, mu)
        values = values if values.dtype == z.dtype else towards_zero(values, z.dtype)
        if not np.isfinite(to_host(values)).all():
            return np.inf, None
        return objective(to_host(z[support]), to_host(values), mu), scatter(values, support, z.shape[0])

    sparse_maximum.__doc__ = ConstraintSet.sparse_maximum.__doc__

    def _sparse_maximum(self, z: Array, mu: float, k: int, kept: np.ndarray) -> tuple[Array, Array]:
        """The support of the maximum, and the values there."""
        support = best_entries(self._score_rows(z, mu, *self._sliced(z, None)), k, kept)
        return support, self._maximum_rows(z[support], mu, *self._sliced(z, support))

    def violation(self, w: Array) -> float:
        return float(narrowed(to_host(in_range(self._violation_rows, w, *self._sliced(w, None)))[0]))

    violation.__doc__ = ConstraintSet.violation.__doc__


def on_host(v: Array, support: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Values and support as NumPy arrays, for sets that are not written on the array namespace."""
    values = to_host(v)
    return values, np.arange(values.size) if support is None else to_host(support)


def objective(z: np.ndarray, w: np.ndarray, mu: float) -> float:
    """<z, w> - μ/2 ||w||², in double precision."""
    z, w = z.astype(float, copy=False), w.astype(float, copy=False)
    return float(narrowed(in_range(lambda z, w, mu: np.sum(w * (z - 0.5 * mu * w)), z, w, mu)))


def _times(mu: float, parameter: Any) -> Any:
    """μ times a parameter; floats of Python overflow and underflow without a word, NumPy's do not."""
    product = np.multiply(mu, parameter) if isinstance(parameter, float) else mu * parameter
    return float(product) if isinstance(product, np.float64) else product


def default_tolerance(w: Array) -> float:
    """The violation that rounding may leave: 1e-12, or 32 rounding units in lower precision."""
    return max(1e-12, 32 * finfo_eps(w))


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<array of {value.size}>" if value.ndim == 1 else f"<array {value.shape}>"
    return f"{value:g}" if isinstance(value, float) else repr(value)


__all__ = [
    "ConstraintSet",
    "EmptySlice",
    "RowSet",
    "SparseMaximum",
    "default_tolerance",
    "is_known",
    "objective",
    "on_host",
]
