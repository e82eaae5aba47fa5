"""Intersections of sets."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np

from .._core.arrays import Array, like, norm
from .._core.validation import check_count, check_positive
from ._exact import project_exactly
from ._quadratic import minimise_by_cuts
from ._supports import choose_support
from .base import ConstraintSet, EmptySlice, GroupsAndCaps, MemberNotFound, Support, on_host
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .polyhedron import Polyhedron

_AT_FIRST = 30  # rounds, after which something else is tried
_LARGEST = 100  # coordinates for which cutting planes are
_PROGRAMME = 1e-9  # the relative error that the quadratic programmes may leave

_Steps = list[tuple[np.ndarray, np.ndarray]]  # what was projected last onto each set, and where to


class Intersection(ConstraintSet):
    """argmin ||w - v|| over w in Γ_1 ∩ ... ∩ Γ_m.

    By Dykstra's alternating projections; where a few rounds are not enough, polyhedra and at most one ellipsoid are a
    small quadratic programme, on up to 100 coordinates. The result ends exactly inside: scaled towards zero where all
    sets contain it, otherwise by alternating projections until the violation is at the level of rounding.

    Parameters
    ----------
    *sets : ConstraintSet
    tol : float
        The projections stop when a round moves the point by at most tol, relative to its size.
    max_iter : int
        Rounds at the most; a warning tells if they were not enough.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> gamma = ez.sets.Intersection(ez.sets.L1Ball(1.0), ez.sets.LinfBall(0.6))
    >>> gamma.project(np.array([3.0, 0.5])).round(6)
    array([0.6, 0.4])
    """

    def __init__(self, *sets: ConstraintSet, tol: float = 1e-12, max_iter: int = 10_000) -> None:
        if not sets:
            raise ValueError("Intersection needs at least one set")
        for s in sets:
            if not isinstance(s, ConstraintSet):
                raise TypeError(f"Intersection takes constraint sets, got {s!r}")
        sizes = {s.n_features for s in sets} - {None}
        if len(sizes) > 1:
            raise ValueError(f"the sets must have the same number of coordinates, got {sorted(sizes)}")  # type: ignore[type-var]
        self.sets = sets
        self.tol, self.max_iter = check_positive(tol, "tol"), check_count(max_iter, "max_iter")
        self.n_features = sizes.pop() if sizes else None

    def require_features(self, d: int, of: str = "w") -> None:
        """Raise ValueError unless every set can be one of vectors with d coordinates."""
        for s in self.sets:
            s.require_features(d, of)

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        return all(s.closed_under_zeroing for s in self.sets)

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return all(s.symmetric for s in self.sets)

    def product_over(self, atoms: np.ndarray) -> bool:
        return all(s.product_over(atoms) for s in self.sets)

    def preserves(self, atoms: np.ndarray) -> bool:
        return all(s.preserves(atoms) for s in self.sets)

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        return any(s.needs_entry for s in self.sets)

    @cached_property
    def forced(self) -> np.ndarray:  # type: ignore[override]
        """Coordinates that are nonzero in all members of one of the sets."""
        return np.unique(np.concatenate([s.forced for s in self.sets]))

    def forced_among(self, n_features: int) -> np.ndarray:
        return np.unique(np.concatenate([s.forced_among(n_features) for s in self.sets]))

    @cached_property
    def accuracy(self) -> float:  # type: ignore[override]
        """That at which the projections stop, or the worst of the sets."""
        return max(self.tol, *(s.accuracy for s in self.sets))

    @property
    def why(self) -> str:
        if self.closed_under_zeroing:
            return "it is an intersection of sets that preserve supports"
        bad = next(s for s in self.sets if not s.closed_under_zeroing)
        return f"one of its sets, {bad!r}, does not: {bad.why}"

    def project(self, v: Array, support: Array | None = None) -> Array:
        values, index = on_host(v, support)
        self.require_slice(index)
        w, left, _ = self._nearest(values.astype(float), index)
        w = (self._shrink if self.closed_under_zeroing else self._alternate)(w, index)
        if left > self.tol:
            warnings.warn(
                f"{self!r}: Dykstra's projections still moved by {left:.1e} (relative) after {self.max_iter} "
                f"rounds, above tol={self.tol:g}; raise max_iter or tol",
                RuntimeWarning,
                stacklevel=2,
            )
        return like(w, v)

    def supporting(self, v: np.ndarray, support: np.ndarray) -> Support:
        """See `ConstraintSet.supporting`; valid however far Dykstra's projections came.

        They write v = p + Σn_i with n_i normal to Γ_i at p_i, so <Σn_i, w - p> <= Σ<n_i, p_i - p> for every member w.
        """
        self.require_slice(support)
        p, _, steps = self._nearest(v, support)
        if steps is None:
            off, n = max(self.accuracy, _PROGRAMME) * max(norm(v), norm(p)), v - p
            return Support(p, n, off * (norm(n) + 3 * off), off)
        slack = spread = 0.0
        for s, (shifted, projected) in zip(self.sets, steps, strict=True):
            n, off = shifted - projected, s.accuracy * max(norm(shifted), norm(projected))
            spread += off
            rounding = 4 * (v.size + 4) * np.finfo(float).eps * float(np.abs(n) @ np.abs(projected - p))
            slack += float(n @ (projected - p)) + rounding + off * (norm(n) + norm(projected - p) + 3 * off)
        return Support(p, np.sum([a - b for a, b in steps], axis=0), slack, spread)

    def sparse_support(self, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray | None:
        """k coordinates on which there is a member near v: the largest entries alone may have none."""
        if self.closed_under_zeroing:
            return None
        return choose_support(self, v, k, keep)

    def violation(self, w: Array) -> float:
        return max(s.violation(w) for s in self.sets)

    def slice_on(self, support: np.ndarray) -> ConstraintSet | None:
        self.require_slice(support)
        return self._of(s.slice_on(support) for s in self.sets)

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        return self._of(s.rescaled(scales) for s in self.sets)

    def _of(self, sets: Iterable[ConstraintSet | None]) -> ConstraintSet | None:
        known = [s for s in sets if s is not None]
        return Intersection(*known, tol=self.tol, max_iter=self.max_iter) if len(known) == len(self.sets) else None

    def of_singular_values(self, shape: tuple[int, int]) -> ConstraintSet | None:
        return self._of(s.of_singular_values(shape) for s in self.sets)

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        parts = [p for s in self.sets if (p := s.polyhedron(n_features)) is not None]
        return Polyhedron.joined(parts) if len(parts) == len(self.sets) else None

    def polyhedron_on(self, support: np.ndarray) -> Polyhedron | None:
        parts = [p for s in self.sets if (p := s.polyhedron_on(support)) is not None]
        return Polyhedron.joined(parts) if len(parts) == len(self.sets) else None

    def polyhedron_around(self, n_features: int) -> Polyhedron:
        return Polyhedron.joined([s.polyhedron_around(n_features) for s in self.sets])

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        return [t for s in self.sets for t in ([s] if s.has_sparse_maximum() else s.enclosing(n_features))]

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        return np.min([s.norm_squares(n_features, k) for s in self.sets], axis=0)  # type: ignore[no-any-return]

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        negative, positive = zip(*(s.signs(n_features) for s in self.sets), strict=True)
        return np.all(negative, axis=0), np.all(positive, axis=0)

    def natural_scales(self, n_features: int) -> np.ndarray | None:
        """Those at hand, unless one is as good as another for all sets."""
        return None if all(s.natural_scales(n_features) is None for s in self.sets) else np.ones(n_features)

    def groups_and_caps(self, n_features: int) -> GroupsAndCaps:
        known = (s.groups_and_caps(n_features) for s in self.sets)
        return next((found for found in known if found[0] is not None), (None, None))

    def _factors(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        return [s.project for s in self.sets]

    def _nearest(self, v: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float, _Steps | None]:
        """The projection, how much the last round still moved, and the last projection onto each set, if there was one.

        What a few of Dykstra's rounds do not settle is done exactly where that is possible, or by cutting planes;
        otherwise by many rounds.
        """
        found: tuple[np.ndarray, float, _Steps | None] = self._dykstra(v, index, min(_AT_FIRST, self.max_iter))
        if found[1] <= self.tol or self.max_iter <= _AT_FIRST:
            return found
        if (w := self._exactly(v, index)) is not None:
            return w, 0.0, None
        if not self.closed_under_zeroing:
            self._alternate(np.zeros(index.size), index)  # without one the corrections would grow for ever
        return self._by_cuts(v, index) or self._dykstra(v, index, self.max_iter)

    def _by_cuts(self, v: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float, _Steps] | None:
        from scipy.optimize import nnls

        if not 0 < v.size <= _LARGEST:
            return None
        size = norm(v)
        projections = [lambda u, s=s: np.asarray(s.project(size * u, index)) / size for s in self.sets]
        p, normals, owner = minimise_by_cuts(np.eye(v.size), v / size, projections)
        if p is None:
            return None
        p = size * p
        for s in self.sets:  # from outside by rounding: back to the bounds that it oversteps
            p = s.project(p, index)
        try:  # v - p as a sum of normals
            multipliers = nnls(-normals.T, v - p, maxiter=50 * len(normals) + 50)[0] if len(normals) else np.empty(0)
        except RuntimeError:
            return None
        parts = [-(multipliers[owner == i] @ normals[owner == i]) for i in range(len(self.sets))]
        return p, 0.0, [(p + n, s.project(p + n, index)) for s, n in zip(self.sets, parts, strict=True)]

    def _dykstra(self, v: np.ndarray, index: np.ndarray, rounds: int) -> tuple[np.ndarray, float, _Steps]:
        """Dykstra's alternating projections."""
        steps = [(v, v) for _ in self.sets]
        w, corrections = v, [np.zeros_like(v) for _ in self.sets]
        scale, moved = max(norm(v), 1e-300), 0.0
        for _ in range(rounds):
            moved = 0.0
            for i, s in enumerate(self.sets):
                shifted = w + corrections[i]
                projected = s.project(shifted, index)
                correction = shifted - projected
                # the corrections, not the point, tell convergence: the point may stand still for many rounds
                moved += norm(correction - corrections[i]) / scale
                w, corrections[i], steps[i] = projected, correction, (shifted, projected)
            if moved <= self.tol:
                break
        return w, moved, steps

    def _shrink(self, w: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Scale towards zero by the least that brings w inside every set.

        Sets closed under zeroing are closed under shrinking any coordinates, so moving an entry towards zero
        for the sake of one set never leaves another. Signs first, because scaling cannot mend them.
        """
        for s in self.sets:
            nearest = s.project(w, index)
            w = np.where((nearest == 0) | (np.sign(nearest) != np.sign(w)), 0.0, w)
        factor = 2 * np.finfo(float).eps
        inside = w
        while factor < 1:
            if all(_is_inside(s, inside, index) for s in self.sets):
                return inside
            inside, factor = w * (1 - factor), 2 * factor
        return np.zeros_like(w)

    def _exactly(self, v: np.ndarray, index: np.ndarray) -> np.ndarray | None:
        try:
            return project_exactly(self.sets, v, index)
        except EmptySlice as error:
            raise EmptySlice(
                f"{self!r} has no member that is zero outside {index.size} given coordinates: its sets did not meet "
                "there; use a larger k, keep=, or looser sets"
            ) from error

    def require_member(self, support: np.ndarray) -> None:
        if self._exactly(np.zeros(support.size), support) is None:
            self._alternate(np.zeros(support.size), support)

    def _alternate(self, w: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Plain alternating projections: no longer nearest, but only a rounding away, and inside."""
        for _ in range(self.max_iter):
            before = w
            for s in self.sets:
                w = s.project(w, index)
            if norm(w - before) <= 4 * np.finfo(float).eps * norm(w):
                break
        if all(_is_inside(s, w, index, tol=1e-13) for s in self.sets):
            return w
        raise MemberNotFound(
            f"{self!r} seems to have no member that is zero outside {index.size} given coordinates: alternating "
            f"projections did not meet in {self.max_iter} rounds; use a larger k, keep=, or looser sets"
        )

    def words(self, names: Sequence[str]) -> str:
        """Those of all of them."""
        return " and ".join(each.words(names) for each in self.sets)

    def __repr__(self) -> str:
        return f"Intersection({', '.join(map(repr, self.sets))})"


def meet(*sets: ConstraintSet, names: Any = None) -> ConstraintSet:
    """Γ_1 ∩ ... ∩ Γ_m as simply as it can be said: boxes are one box, and one set is itself."""
    boxes = [s for s in sets if type(s) in (Box, NonNegative, LinfBall)]
    others = [s for s in sets if type(s) not in (Box, NonNegative, LinfBall, Everywhere)]
    if len(boxes) > 1:
        ends = [each.interval for each in boxes]  # type: ignore[attr-defined]
        lower = reduce(np.maximum, [low for low, _ in ends])
        upper = reduce(np.minimum, [high for _, high in ends])
        if (crossed := np.flatnonzero(np.greater(lower, upper))).size:
            low, high = (np.broadcast_to(ends, np.shape(lower > upper)).flat[crossed[0]] for ends in (lower, upper))
            where = f"coordinate {crossed[0]}" if names is None else f"the coefficient of {names[crossed[0]]!r}"
            raise ValueError(f"the constraints contradict each other: {where} is at least {low:g} and at most {high:g}")
        boxes = [Box(lower, upper)]
    met = [*boxes, *others] or [Everywhere()]
    return met[0] if len(met) == 1 else Intersection(*met)


def _is_inside(s: ConstraintSet, w: np.ndarray, index: np.ndarray, tol: float = 4.5e-16) -> bool:
    """Whether the projection onto the slice leaves w where it is, up to rounding."""
    return norm(w - s.project(w, index)) <= tol * norm(w)
