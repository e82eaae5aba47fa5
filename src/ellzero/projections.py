"""From an arbitrary vector to one with at most k nonzeros that lies in Γ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import Array, index_like, is_array, namespace, scatter, to_host, top_k
from ._validation import check_indices, check_k, check_vector
from .sets import ConstraintSet, Everywhere

#: v ↦ (the projected vector, the increasing indices where it may be nonzero; None if that is everywhere)
Projector = Callable[[Array], tuple[Array, Array | None]]

PROJECTIONS = ("two-step", "restricted", "sparse", "convex")


class NotFinite(ValueError):
    """A vector to be projected holds NaN or infinity."""


def hard_threshold(v: Any, k: int, *, keep: Any = None) -> Array:
    """H_k(v): the k entries of largest magnitude, all others zero; among equal ones the lowest index wins.

    Parameters
    ----------
    v : array of shape (d,)
    k : int
    keep : indices or mask, optional
        Coordinates that are always among the k.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.hard_threshold(np.array([1.0, -3.0, 2.0, 3.0]), k=2)
    array([ 0., -3.,  0.,  3.])
    """
    return _apply("sparse", v, k, Everywhere(), keep)


def two_step_projection(v: Any, k: int, constraint: ConstraintSet, *, keep: Any = None) -> Array:
    """Π_Γ(H_k(v)): keep the k largest entries, then project them onto Γ.

    Γ must preserve supports; then the result has at most k nonzeros and lies in Γ. It is the Euclidean
    projection onto the sparse members of Γ if Γ is symmetric and sign-free (norm balls), and in general not.
    Only the k kept values are projected.

    Parameters
    ----------
    v : array of shape (d,)
    k : int
    constraint : ConstraintSet
    keep : indices or mask, optional
        Coordinates that are always among the k.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.two_step_projection(np.array([1.0, -3.0, 2.0]), k=2, constraint=ez.sets.L2Ball(1.0)).round(4)
    array([ 0.    , -0.8321,  0.5547])
    """
    return _apply("two-step", v, k, constraint, keep)


def restricted(v: Any, k: int, constraint: ConstraintSet, *, keep: Any = None) -> Array:
    """Keep the k largest entries, then project them onto {w in Γ : w zero elsewhere}, for any convex Γ.

    The same as `two_step_projection` where Γ preserves supports; elsewhere no theorem of the paper covers it.

    Parameters
    ----------
    v : array of shape (d,)
    k : int
    constraint : ConstraintSet
        Its slice on the kept coordinates must not be empty.
    keep : indices or mask, optional
        Coordinates that are always among the k.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.restricted(np.array([0.9, 0.5, 0.1]), k=2, constraint=ez.sets.Simplex(1.0))
    array([0.7, 0.3, 0. ])
    """
    return _apply("restricted", v, k, constraint, keep)


def _apply(kind: str, v: Any, k: int, constraint: ConstraintSet, keep: Any) -> Array:
    v = v if is_array(v) and namespace(v).isdtype(v.dtype, "real floating") else check_vector(v, "v", finite=False)
    if v.ndim != 1 or v.shape[0] == 0:
        raise ValueError(f"v must be a one-dimensional array of at least one entry, got shape {tuple(v.shape)}")
    return projector(kind, constraint, k, v.shape[0], keep)(v)[0]


def projector(kind: str, constraint: ConstraintSet, k: int, n_features: int, keep: Any = None) -> Projector:
    """The projection of this kind as a function that checks nothing but finiteness: what the loop calls.

    Parameters
    ----------
    kind : {"two-step", "restricted", "sparse", "convex"}
        "sparse" is H_k alone, "convex" is Π_Γ alone.
    """
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(
            f"constraint must be a set such as ellzero.sets.L1Ball(1.0) (or None for no constraint), got {constraint!r}"
        )
    if kind not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}, got {kind!r}")
    k = check_k(k, n_features)
    kept = check_indices(keep, n_features, "keep")
    if kept.size > k:
        raise ValueError(f"keep names {kept.size} coordinates, more than k={k}; they count in k, so raise k")
    if constraint.n_features not in (None, n_features):
        raise ValueError(
            f"the constraint {constraint!r} is made for {constraint.n_features} coordinates, w has {n_features}"
        )
    if kind == "two-step" and not constraint.preserves_support:
        raise ValueError(
            f"the two-step projection needs a support-preserving set, and {constraint!r} is not one: "
            f"{constraint.why}. Ways out: projection='restricted' (no theorem, but at most k nonzeros and Γ hold), "
            "or a set that contains every zeroing of its members (SubSimplex for Simplex, bounds around 0 for Box)"
        )
    if kind == "convex":
        return lambda v: (constraint.project(_require_finite(v)), None)
    whole_space = kind == "sparse" or isinstance(constraint, Everywhere)

    def project(v: Array) -> tuple[Array, Array]:
        support = largest_entries(v, k, kept)
        values = v[support]
        if not whole_space:
            values = constraint.project(values, support)
        return scatter(values, support, n_features), support

    return project


def largest_entries(v: Array, k: int, keep: np.ndarray | None = None) -> Array:
    """Increasing indices of the k entries of largest magnitude, with those in `keep` among them."""
    xp = namespace(v)
    d = v.shape[0]
    if k == 0 or k == d:
        _require_finite(v)
        return index_like(np.arange(k), v)
    magnitude = xp.abs(v)
    if keep is None or keep.size == 0:
        support, finite = top_k(magnitude, k)
        return support if finite else _require_finite(v)
    _require_finite(v)
    magnitude = to_host(magnitude).copy()
    magnitude[keep] = np.finfo(magnitude.dtype).max  # no finite entry is larger
    ties = np.flatnonzero(magnitude == np.finfo(magnitude.dtype).max)
    if ties.size > keep.size:  # an entry as large as the largest number there is
        magnitude[np.setdiff1d(ties, keep)] *= 0.5
    return index_like(top_k(magnitude, k)[0], v)


def _require_finite(v: Array) -> Array:
    xp = namespace(v)
    if not bool(xp.all(xp.isfinite(v))):
        bad = to_host(xp.nonzero(~xp.isfinite(v))[0])
        raise NotFinite(f"the vector to project must be finite, got {float(v[int(bad[0])])} at index {int(bad[0])}")
    return v
