"""What a constraint set Γ is, and the family of sets that project many vectors at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array, finfo_eps, index_like, is_array, like, norm, to_host
from .._validation import check_vector


class EmptySlice(ValueError):
    """No member of Γ is zero outside the given support."""


class ConstraintSet(ABC):
    """A closed convex set Γ of vectors.

    A set of your own writes `project` and, if it holds, declares ``closed_under_zeroing = True``;
    `ellzero.testing.check_set` then looks for a counterexample.
    """

    #: Number of coordinates, where the set fixes it; None for sets such as a ball, which exist in every dimension.
    n_features: int | None = None
    #: Whether setting coordinates of a member to zero always gives a member.
    closed_under_zeroing: bool = False
    #: Whether zero is not a member, so that a member needs at least one nonzero entry.
    needs_entry: bool = False
    #: Coordinates that are nonzero in every member.
    forced: np.ndarray = np.empty(0, dtype=np.intp)

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

    def violation(self, w: Array) -> float:
        """How far w is outside: the largest excess over a bound, relative to that bound where it is not zero.

        Zero for members. The base class takes the distance to the projection, relative to the size of w.
        """
        distance = norm(w - self.project(w))
        return distance / max(norm(w), 1e-300) if distance else 0.0

    def contains(self, w: Any, tol: float | None = None) -> bool:
        """Whether the violation of w is at most tol (by default 1e-12, in single precision 4e-6)."""
        w = w if is_array(w) else check_vector(w, "w")
        return self.violation(w) <= (default_tolerance(w) if tol is None else tol)

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
    """

    _padding: ClassVar[float] = 0.0
    _parameter_padding: ClassVar[tuple[float | None, ...]] = ()

    @abstractmethod
    def _project_rows(self, v: Array, *parameters: Any) -> Array: ...

    @abstractmethod
    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        """The violation of every row, shape (..., 1)."""

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
        return self._project_rows(v, *self._sliced(v, support))

    project.__doc__ = ConstraintSet.project.__doc__

    def violation(self, w: Array) -> float:
        return float(self._violation_rows(w, *self._sliced(w, None))[0])

    violation.__doc__ = ConstraintSet.violation.__doc__


def on_host(v: Array, support: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Values and support as NumPy arrays, for sets that are not written on the array namespace."""
    values = to_host(v)
    return values, np.arange(values.size) if support is None else to_host(support)


def default_tolerance(w: Array) -> float:
    """The violation that rounding may leave: 1e-12, or 32 rounding units in lower precision."""
    return max(1e-12, 32 * finfo_eps(w))


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<array of {value.size}>" if value.ndim == 1 else f"<array {value.shape}>"
    return f"{value:g}" if isinstance(value, float) else repr(value)


__all__ = ["ConstraintSet", "EmptySlice", "RowSet", "default_tolerance", "index_like", "on_host"]
