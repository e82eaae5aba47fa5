"""What a constraint set Γ is, and what it may tell about itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from inspect import isabstract
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._core.arrays import Array, finfo_eps, is_array, norm, to_host
from .._core.validation import check_indices, check_nonnegative, check_vector, require_finite
from ..sparsity import Sparsity, as_sparsity
from ._heirs import inherited_facts, is_ours, is_redefined
from ._range import short
from ._slices import EmptySlice as EmptySlice
from ._slices import MemberNotFound as MemberNotFound
from ._slices import maximum_over_atoms, minimise_on_slice
from ._supports import choose_support
from .multipliers import Multipliers, in_ellipsoid, under_caps
from .polyhedron import Polyhedron, of_ball, of_increments, square_above

#: max <z, w> - μ/2 ||w||² and a w that attains it; (inf, None) where there is no bound
SparseMaximum = tuple[float, Array | None]
#: a label for each coordinate (None: in no group), and the caps of groups
GroupsAndCaps = tuple[list[Any] | None, dict[Any, float] | None]


class Support(NamedTuple):
    """A point p near the projection of v, and a normal there: <n, w - p> <= slack + spread·||w - p|| for all members w.

    n is v - p, or near it; slack and spread are what an inexact projection leaves open.
    """

    p: np.ndarray
    n: np.ndarray
    slack: float
    spread: float


class ConstraintSet(ABC):
    """A closed convex set Γ of vectors.

    A set of your own writes `project` and, if it holds, declares ``closed_under_zeroing = True``. All else here are
    facts that it may state, or leave alone; `ellzero.testing.check_set` looks for counterexamples. A set that inherits
    from one of this library and writes `project` anew is another set: it falls back to what this class says, unless it
    states more itself.
    """

    #: Number of coordinates, where the set fixes it; None for sets such as a ball, which exist in every dimension.
    n_features: int | None = None
    #: Whether setting coordinates of a member to zero always gives a member.
    closed_under_zeroing: bool = False
    #: Whether Γ is all of R^d, so that there is nothing to project.
    whole_space: bool = False
    #: Whether Γ is {w : w >= 0}.
    orthant: bool = False
    #: Whether Γ is a product of intervals, one for each coordinate.
    separable: bool = False
    #: Whether members stay members when their entries change places and signs.
    symmetric: bool = False
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
        heir = not is_ours(cls) and any(is_ours(base) and not isabstract(base) for base in cls.__mro__[1:])
        cls.redefined = heir and is_redefined(cls)
        for name in inherited_facts(cls, ConstraintSet) if cls.redefined else ():
            setattr(cls, name, vars(ConstraintSet)[name])

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

        One positive scale for each coordinate; None where no set describes it.
        """
        self._units(scales)
        return None

    def _units(self, scales: Any) -> tuple[np.ndarray, float | None]:
        """The scales, checked, and their value if they are all the same."""
        scales = check_vector(scales, "scales", self.n_features).astype(float)
        if not (scales > 0).all():
            raise ValueError(f"scales must be positive, got {scales.min():g}")
        c = float(scales[0]) if scales.size else 1.0
        return scales, c if (scales == c).all() else None

    def natural_scales(self, n_features: int) -> np.ndarray | None:
        """The units in which Γ is plainest: those of its weights, if it has such; None if one is as good as another."""
        return np.ones(n_features)

    def slice_on(self, support: np.ndarray) -> ConstraintSet | None:
        """{w_S : w in Γ, w zero outside S}, the slice on the support S, as a set of its own; None if none describes it.

        Raises EmptySlice if there is no such member.
        """
        self.require_slice(support)
        return None

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        """Γ by bounds and caps; None where it is not made of such."""
        return None

    def polyhedron_around(self, n_features: int) -> Polyhedron:
        """Bounds and caps that all members keep; where Γ is not made of such, none."""
        shape = self.polyhedron(n_features)
        return Polyhedron.box(-math.inf, math.inf, n_features) if shape is None else shape

    def polyhedron_on(self, support: np.ndarray) -> Polyhedron | None:
        """The slice on the support by bounds and caps; None where it is not made of such."""
        part = self.slice_on(support)
        return None if part is None else part.polyhedron(support.size)

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """Larger sets whose sparse maxima are known, for a Γ whose own are not."""
        return []

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """For j = 0..k a number >= max ||w||² over the members with j nonzeros, concave in j; infinite if not known."""
        bounds = [of_ball(math.inf, k), *(s.norm_squares(n_features, k) for s in self.enclosing(n_features))]
        if (shape := self.polyhedron(n_features)) is not None:
            bounds.append(of_increments(square_above(shape.reach()), k))
        return np.min(bounds, axis=0)  # type: ignore[no-any-return]

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """For each coordinate, whether members may be negative there, and whether positive.

        Where bounds and caps do not tell, those that projections of random vectors of several sizes have: enough for a
        search that has to know which newcomers are worth a try, not for a proof.
        """
        if (shape := self.polyhedron(n_features)) is not None:
            return shape.lower < 0, shape.upper > 0
        rng = np.random.default_rng(0)
        try:
            v = rng.choice([-1.0, 1.0], n_features)
            seen = [np.asarray(self.project(s * 10.0**e * v)) for e in range(-4, 5, 2) for s in (-1, 1)]
        except Exception:  # written for another array library, say: whatever is wrong shows where it matters
            return np.ones(n_features, dtype=bool), np.ones(n_features, dtype=bool)
        return np.any([w < 0 for w in seen], axis=0), np.any([w > 0 for w in seen], axis=0)

    def groups_and_caps(self, n_features: int) -> GroupsAndCaps:
        """The label of each coordinate and the cap of each group, as far as Γ has groups and they have caps."""
        return None, None

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known at this μ; told without computing anything."""
        return type(self).sparse_maximum is not ConstraintSet.sparse_maximum

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known for this sparsity at this μ, told without computing it.

        For atoms and quotas it is where Γ is a product over the atoms, if a class that writes it says no more.
        """
        if sparsity.plain:
            return self.has_sparse_maximum(mu)
        return type(self).sparse_maximum is ConstraintSet.sparse_maximum and self._is_product(sparsity, mu)

    def _is_product(self, sparsity: Sparsity, mu: float) -> bool:
        """Whether Γ is a product over atoms that are all there is to count, and its maximum without them is known."""
        if not sparsity.by_atoms or not (mu > 0 or self.has_sparse_maximum(mu)):
            return False
        d = sparsity.n_features if sparsity.atoms is None else sparsity.atoms.size
        if self.separable or d is None or self.n_features not in (None, d):
            return self.separable
        return self.product_over(np.arange(d) if sparsity.atoms is None else sparsity.atoms)

    def product_over(self, atoms: np.ndarray) -> bool:
        """Whether Γ is a product Π_a Γ_a over atoms, given by the number of each coordinate's; -1 is one of them."""
        return self.separable or bool((atoms == atoms[:1]).all())

    def preserves(self, atoms: np.ndarray) -> bool:
        """Whether members stay members if whole atoms are set to zero: all coordinates with one number, but for -1.

        The same as: Π_Γ(w) is zero in every atom in which w is.
        """
        if self.preserves_support or not self.product_over(atoms):
            return self.preserves_support
        return bool((atoms[np.flatnonzero(self.project(np.zeros(atoms.size)))] < 0).all())

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        """max <z, w> - μ/2 ||w||² over ||w||_0 <= k, w in Γ, and where it is attained; None if that is not known.

        For μ > 0 the maximiser is the Euclidean projection of z/μ onto the sparse members of Γ, for μ = 0 it is
        their linear oracle; the value is the conjugate h*(z) of h = μ/2 ||·||² on the sparse members, of which a
        lower bound for R is made. It is computed from the maximiser, so exact up to rounding. Where Γ has no sparse
        member, EmptySlice is raised.

        Parameters
        ----------
        z : array of shape (d,)
        k : int or sparsity
        mu : float, at least 0
        keep : indices or mask of coordinates that are always among the k, optional

        Returns
        -------
        value : float
        w : array of shape (d,) or None
            With few nonzeros; among equals lower indices win. None where the value is infinite, at μ = 0 alone.
        """
        sparsity = as_sparsity(k)
        if sparsity.plain or not self.knows_maximum(sparsity := sparsity.within(z.shape[0]), mu):
            return None
        return maximum_over_atoms(self, z, *self._demands(z, sparsity, mu, keep))

    def sparse_support(self, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray | None:
        """The k coordinates that "restricted" keeps; None for the largest entries, on which Γ may have no member."""
        return None

    def support_for(self, v: np.ndarray, sparsity: Sparsity, keep: np.ndarray) -> np.ndarray | None:
        """The same for any sparsity."""
        if sparsity.plain:
            return self.sparse_support(v, sparsity.k, keep)
        return None if self.closed_under_zeroing else choose_support(self, v, sparsity, keep)

    def quadratic_minimum(self, G: np.ndarray, b: np.ndarray, support: np.ndarray) -> np.ndarray | None:
        """argmin uᵀGu - 2bᵀu over the slice of Γ on the support, where there is something faster than projections."""
        return None

    def minimise_quadratic(
        self, G: np.ndarray, b: np.ndarray, support: np.ndarray, start: np.ndarray, deadline: float = math.inf
    ) -> np.ndarray:
        """argmin uᵀGu - 2bᵀu over the slice of Γ on the support, or what is known of it at the deadline.

        Bounds and caps have an answer in finitely many steps, balls one in one unknown; elsewhere there are gradients.
        """
        found = self.quadratic_minimum(G, b, support)
        return minimise_on_slice(self, G, b, support, start, deadline) if found is None else found

    def _factors(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        """The projections onto sets whose intersection is Γ, if there are simpler ones than Γ."""
        return []

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        """argmin uᵀGu - 2bᵀu over Γ, which does not hold the minimiser without it; None where that is not known."""
        return None

    def _ellipsoid(self, support: np.ndarray) -> tuple[np.ndarray, float] | None:
        """(c, r) if the slice is {u : Σ(c_i u_i)² <= r²}, None otherwise."""
        return None

    def of_singular_values(self, shape: tuple[int, int]) -> ConstraintSet | None:
        """{s : U diag(s) Vᵀ in Γ}, where Γ is a matter of singular values of matrices alone; None where it is not."""
        return self if self.whole_space else None

    def shadow_prices(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        """(λ, θ): a newcomer i is worth |c_i - λ_i| - θ_i at w, c being the negative gradient; 0 if not known."""
        return 0.0, 0.0

    def multipliers(self, x: np.ndarray, g: np.ndarray) -> Multipliers | None:
        """What Γ adds to the slope g at x: how steep, and how curved, <g, w - x> is at least for members w.

        The closer -g is to a normal of Γ at x, the more it tells; it holds for every x and g. None if not known.
        """
        if (ellipsoid := self._ellipsoid(np.arange(x.size))) is not None:
            return in_ellipsoid(*ellipsoid, x, g)
        shape = self.polyhedron(x.size)
        return None if shape is None else under_caps(shape, x, g)

    def limits(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds that each coordinate of every member keeps; infinite where there are none."""
        shape, (c, r) = self.polyhedron_around(n_features), self._ellipsoid(np.arange(n_features)) or (1.0, math.inf)
        reach = np.minimum(shape.reach(), r / c)
        if self.closed_under_zeroing:  # a member with one nonzero is as long as that is large
            reach = np.minimum(reach, math.sqrt(self.norm_squares(n_features, 1)[-1]))
        reach = (1 + 8 * np.finfo(float).eps) * reach  # of roots and quotients
        return np.maximum(shape.lower, -reach), np.minimum(shape.upper, reach)

    def require_member(self, support: np.ndarray) -> None:
        """Raise EmptySlice if no member is found that is zero outside the support."""
        self.project(np.zeros(support.size), support)

    def forced_among(self, n_features: int) -> np.ndarray:
        """Coordinates that are nonzero in every member with this many coordinates."""
        return self.forced

    def require_features(self, d: int, of: str = "w") -> None:
        """Raise ValueError unless the set can be one of vectors with d coordinates."""
        if self.n_features not in (None, d):
            raise ValueError(f"the constraint {self!r} is made for {self.n_features} coordinates, {of} has {d}")

    def _demands(self, z: Array, k: int | Sparsity, mu: float, keep: Any) -> tuple[Sparsity, float, np.ndarray]:
        """The arguments of `sparse_maximum`, checked, with the forced coordinates among those to keep."""
        d = require_finite(z).shape[0]
        self.require_features(d, "z")
        sparsity, mu, kept = as_sparsity(k).within(d), check_nonnegative(mu, "mu"), check_indices(keep, d, "keep")
        sparsity.require_keep(kept)
        forced = self.forced_among(d)
        self.require_room(sparsity, kept := np.union1d(kept, forced) if forced.size else kept, forced.size)
        return sparsity, mu, kept

    def require_room(self, sparsity: Sparsity, kept: np.ndarray, n_forced: int) -> None:
        """Raise EmptySlice unless the coordinates that are kept, or that members need, are within the sparsity."""
        if sparsity.admits(kept) and not (self.needs_entry and sparsity.k == 0 and not sparsity.free.size):
            return
        allowed = f"at most k={sparsity.k} nonzeros" if sparsity.plain else sparsity.words
        raise EmptySlice(
            f"{self!r} has no member with {allowed}: it needs at least {max(sparsity.size(kept), 1)} "
            f"({n_forced} coordinates whose bounds exclude 0, the others from keep=); raise k"
        )

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
        remedy = "set closed_under_zeroing = True if that holds (ellzero.testing.check_set looks for a counterexample)"
        told = f"it is not declared closed under zeroing coordinates; {remedy}"
        return "its author declares that zeroing gives a member" if self.closed_under_zeroing else told

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

    def words(self, names: Sequence[str]) -> str:
        """What is asked of w, whose entries have these names."""
        return repr(self)

    def _arguments(self) -> dict[str, Any]:
        """What the constructor was given, for repr."""
        return {}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={short(value)}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({arguments})"


def on_host(v: Array, support: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Values and support as NumPy arrays, for sets that are not written on the array namespace."""
    values = to_host(v)
    return values, np.arange(values.size) if support is None else to_host(support)


def default_tolerance(w: Array) -> float:
    """The violation that rounding may leave: 1e-12, or 32 rounding units in lower precision."""
    return max(1e-12, 32 * finfo_eps(w))
