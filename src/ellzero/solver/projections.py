"""From an arbitrary vector to a sparse one that lies in Γ."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, is_array, namespace, scatter, to_host
from .._core.validation import check_vector, is_masked, require_finite
from ..sets import ConstraintSet, Everywhere
from ..sparsity import Sparsity, as_sparsity

#: v ↦ (the projected vector, the increasing indices where it may be nonzero; None if that is everywhere)
Projector = Callable[[Array], tuple[Array, Array | None]]

PROJECTIONS = ("euclidean", "two-step", "restricted", "sparse", "convex")


def hard_threshold(v: Any, k: int | Sparsity, *, keep: Any = None) -> Array:
    """H_k(v): the k entries of largest magnitude, all others zero; among equal ones the lowest index wins.

    Parameters
    ----------
    v : array of shape (d,)
    k : int or sparsity
    keep : indices or mask, optional
        Coordinates that are always among the k.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.hard_threshold(np.array([1.0, -3.0, 2.0, 3.0]), k=2)
    array([ 0., -3.,  0.,  3.])
    """
    return _apply("sparse", v, k, Everywhere(), keep)


def two_step_projection(v: Any, k: int | Sparsity, constraint: ConstraintSet, *, keep: Any = None) -> Array:
    """Π_Γ(H_k(v)): keep the k largest entries, then project them onto Γ.

    Γ must preserve supports; then the result has at most k nonzeros and lies in Γ. It is the Euclidean
    projection onto the sparse members of Γ if Γ is symmetric and sign-free (norm balls), and in general not.
    Only the k kept values are projected.

    Parameters
    ----------
    v : array of shape (d,)
    k : int or sparsity
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


def euclidean_projection(v: Any, k: int | Sparsity, constraint: ConstraintSet, *, keep: Any = None) -> Array:
    """argmin ||w - v|| over ||w||_0 <= k, w in Γ: the nearest sparse member, whatever its support.

    Known for every set with `has_sparse_maximum`: boxes, norm balls, budgets (exact ones too) and products of
    such sets over groups. Γ need not preserve supports. Where several members are nearest, lower indices win.

    Parameters
    ----------
    v, k, constraint, keep
        As for `two_step_projection`.

    Examples
    --------
    The two largest entries are in one group, and its bound would waste one of them:

    >>> import numpy as np, ellzero as ez
    >>> gamma = ez.sets.GroupWise(ez.sets.L1Ball(1.0), groups=["a", "a", "b"])
    >>> ez.euclidean_projection(np.array([3.0, 2.9, 1.0]), k=2, constraint=gamma)
    array([1., 0., 1.])
    >>> ez.two_step_projection(np.array([3.0, 2.9, 1.0]), k=2, constraint=gamma)
    array([0.55, 0.45, 0.  ])
    """
    return _apply("euclidean", v, k, constraint, keep)


def restricted_projection(v: Any, k: int | Sparsity, constraint: ConstraintSet, *, keep: Any = None) -> Array:
    """Keep the k largest entries, then project them onto {w in Γ : w zero elsewhere}, for any convex Γ.

    The same as `two_step_projection` where Γ preserves supports; elsewhere no theorem of the paper covers it.

    Parameters
    ----------
    v, k, keep
        As for `two_step_projection`.
    constraint : ConstraintSet
        Its slice on the kept coordinates must not be empty.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.restricted_projection(np.array([0.9, 0.5, 0.1]), k=2, constraint=ez.sets.Simplex(1.0))
    array([0.7, 0.3, 0. ])
    """
    return _apply("restricted", v, k, constraint, keep)


def _apply(kind: str, v: Any, k: int | Sparsity, constraint: ConstraintSet, keep: Any) -> Array:
    if not is_array(v) or is_masked(v) or not namespace(v).isdtype(v.dtype, "real floating"):
        v = check_vector(v, "v", finite=False)
    if v.ndim != 1 or v.shape[0] == 0:
        raise ValueError(f"v must be a one-dimensional array of at least one entry, got shape {tuple(v.shape)}")
    sparsity = as_sparsity(k).within(v.shape[0])
    return projector(kind, constraint, sparsity, v.shape[0], sparsity.kept(keep, v.shape[0]))(v)[0]


def projector(kind: str, constraint: ConstraintSet, sparsity: Sparsity, n_features: int, kept: np.ndarray) -> Projector:
    """The projection of this kind as a function that checks nothing but finiteness: what the loop calls.

    Parameters
    ----------
    kind : {"euclidean", "two-step", "restricted", "sparse", "convex"}
        "sparse" is H_k alone, "convex" is Π_Γ alone.
    kept : array of int
        The coordinates of every support, see `Sparsity.kept`.
    """
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(
            f"constraint must be a set such as ellzero.sets.L1Ball(1.0) (or None for no constraint), got {constraint!r}"
        )
    if kind not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}, got {kind!r}")
    constraint.require_features(n_features)
    if not (sparsity.of_coordinates or kind in ("sparse", "convex") or sparsity.preserved_by(constraint)):
        raise ValueError(
            f"the {kind} projection onto the members with {sparsity.words} of {constraint!r} is not known: it needs a "
            f"support-preserving set, here one of singular values alone (Spectral of shape {sparsity.shape}, L2Ball); "
            "use one of these, or leave Γ out"
        )
    if not sparsity.plain and sparsity.of_coordinates:  # bounds may ask for more than a user does
        constraint.require_room(sparsity, kept, constraint.forced_among(n_features).size)
    sparsity.require_keep(kept)
    if kind == "two-step" and not sparsity.preserved_by(constraint):
        raise ValueError(
            f"the two-step projection needs a support-preserving set, and {constraint!r} is not one: "
            f"{constraint.why}. Ways out: projection='restricted' (no theorem, but {_both(sparsity)} and Γ hold), "
            "or a set that contains every zeroing of its members (SubSimplex for Simplex, bounds around 0 for Box)"
        )
    if kind == "euclidean" and not constraint.whole_space:
        if not constraint.knows_maximum(sparsity):
            raise _unknown(constraint, sparsity)
        return lambda v: _nearest_sparse_member(v, sparsity, constraint, kept)
    if kind == "convex":
        return lambda v: (constraint.project(require_finite(v)), None)
    if kind == "sparse" or constraint.whole_space:
        return lambda v: sparsity.project(v, kept)
    if not sparsity.of_coordinates:
        return lambda v: (constraint.project(sparsity.project(v, kept)[0]), None)

    def project(v: Array) -> tuple[Array, Array]:
        chosen = proposed_support(constraint, sparsity, require_finite(v), kept) if kind == "restricted" else None
        support = sparsity.best_support(v, kept) if chosen is None else index_like(chosen, v)
        return scatter(constraint.project(v[support], support), support, n_features), support

    return project


def _both(sparsity: Sparsity) -> str:
    return "at most k nonzeros" if sparsity.plain else sparsity.words


def first_that_fits(constraint: ConstraintSet, sparsity: Sparsity) -> str:
    """The exact projection onto the sparse members of Γ where it is known, else the next best."""
    if constraint.whole_space or constraint.knows_maximum(sparsity):
        return "euclidean"
    return "two-step" if sparsity.preserved_by(constraint) else "restricted"


def proposed_support(constraint: ConstraintSet, sparsity: Sparsity, v: Array, keep: np.ndarray) -> np.ndarray | None:
    """The support that Γ wants to be kept, where it knows on which ones it has a member; None where it does not."""
    return constraint.support_for(to_host(v), sparsity, keep)


def _nearest_sparse_member(
    v: Array, sparsity: Sparsity, constraint: ConstraintSet, keep: np.ndarray
) -> tuple[Array, Array | None]:
    """argmax <v, w> - ½||w||² is argmin ||w - v||."""
    found = constraint.sparse_maximum(require_finite(v), sparsity.k if sparsity.plain else sparsity, 1.0, keep)
    if found is None or found[1] is None:
        raise _unknown(constraint, sparsity)
    w = found[1]
    if not sparsity.of_coordinates:
        return w, None
    support = namespace(w).nonzero(w)[0]
    if sparsity.plain and not keep.size:
        return w, support
    return w, index_like(sparsity.filled(np.union1d(to_host(support), keep).astype(np.intp)), w)


def _unknown(constraint: ConstraintSet, sparsity: Sparsity) -> ValueError:
    other = "two-step" if sparsity.preserved_by(constraint) else "restricted"
    members = "sparse members" if sparsity.plain else f"members with {sparsity.words}"
    what = "entries" if sparsity.atoms is None else sparsity.counted
    known = "boxes, l_p balls, SubSimplex, Simplex, GroupWise of these"
    if sparsity.atoms is not None:
        known = f"boxes, the l2 ball, GroupWise with groups inside these {what}"
    elif not sparsity.plain:
        known += " whose groups do not cross those of the quotas"
    return ValueError(
        f"the Euclidean projection onto the {members} of {constraint!r} is not known. Ways out: "
        f"projection={other!r}, which keeps the k largest {what} and projects those; or a set that has it "
        f"({known}), or a ConstraintSet of your own that writes sparse_maximum"
    )
