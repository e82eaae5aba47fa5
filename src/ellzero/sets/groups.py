"""Products of sets over disjoint groups of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._core.arrays import Array, like, namespace, norm, to_host
from .._core.groups import read_groups
from ..sparsity import Sparsity, as_sparsity
from ._allocation import Block, allocate
from ._grouping import (
    Family,
    Inner,
    Padded,
    alike,
    assign_sets,
    crossing,
    in_blocks,
    in_rows,
    is_ranked,
    nest,
    project_blocks,
    shape_of,
)
from ._range import in_range, narrowed, towards_zero
from ._slices import maximum_over_atoms
from ._supports import choose_support
from .base import ConstraintSet, EmptySlice, GroupsAndCaps, SparseMaximum, Support, on_host
from .elementwise import Everywhere
from .multipliers import Multipliers, product
from .polyhedron import Polyhedron, of_ball, of_increments
from .rows import objective

_LARGEST = 2**20  # entries of the matrix of all bounds and caps that is kept
_Layout = tuple[list[Block], list[tuple[ConstraintSet, np.ndarray]]]


class GroupWise(ConstraintSet):
    """argmin ||w - v|| over w_G in Γ_G for every group G: the groups are projected independently.

    Parameters
    ----------
    sets : ConstraintSet or mapping from group to ConstraintSet
        One set for all groups, or one for each; groups that the mapping leaves out are free. A set with
        coordinates of its own (weights, bounds) counts them inside the group, in increasing order.
    groups : sequence of labels, or list / mapping of index lists
        Either one hashable label for each coordinate (None: in no group), or the groups themselves as lists of
        indices; coordinates in no group are free. Groups given as a plain list are named 0, 1, 2, ...

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> gamma = ez.sets.GroupWise(ez.sets.L1Ball(1.0), groups=["tech", "tech", "energy"])
    >>> gamma.project(np.array([2.0, 1.0, 0.5]))
    array([1. , 0. , 0.5])
    """

    def __init__(self, sets: ConstraintSet | Mapping[Any, ConstraintSet], groups: Any) -> None:
        members, self.n_features = read_groups(groups)
        self.names = list(members)
        self.sets = assign_sets(sets, members)
        size = self.n_features or 1 + max((int(m[-1]) for m in members.values() if m.size), default=0)
        # coordinate -> its group (-1: none) and its place inside the group
        self._group = np.full(size, -1, dtype=np.intp)
        self._place = np.zeros(size, dtype=np.intp)
        for g, index in enumerate(members.values()):
            self._group[index] = g
            self._place[index] = np.arange(index.size)
        self._members = list(members.values())
        self._families = Family.split(self.sets, self._members, size)
        # groups whose sets have no projection for many rows at once
        self._alone = {g: s for g, s in enumerate(self.sets) if s is not None and not in_rows(s)}
        self._layouts: dict[int, _Layout] = {}
        self._must_enter = np.array([g for g, s in enumerate(self.sets) if s is not None and s.needs_entry], np.intp)

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        return all(s.closed_under_zeroing for s, _ in self._alike)

    def product_over(self, atoms: np.ndarray) -> bool:
        return self._group.size <= atoms.size and all(s.product_over(atoms[m]) for s, m in crossing(self, atoms))

    def preserves(self, atoms: np.ndarray) -> bool:
        fits = self._group.size <= atoms.size
        return self.preserves_support or (fits and all(s.preserves(atoms[m]) for _, s, m in self._inner))

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        return self._must_enter.size > 0

    @cached_property
    def forced(self) -> np.ndarray:  # type: ignore[override]
        """Coordinates that are nonzero in every member."""
        inner = (members[:, s.forced_among(members.shape[1])].ravel() for s, members in self._alike)
        return np.sort(np.concatenate([np.empty(0, np.intp), *inner]))

    @cached_property
    def accuracy(self) -> float:  # type: ignore[override]
        return max((s.accuracy for s, _ in self._alike), default=ConstraintSet.accuracy)

    @property
    def why(self) -> str:
        if self.closed_under_zeroing:
            return "it is a product over groups of sets that preserve supports"
        name, bad = next((name, s) for name, s, _ in self._inner if not s.closed_under_zeroing)
        return f"group {name!r} carries {bad!r}: {bad.why}"

    def require_features(self, d: int, of: str = "w") -> None:
        """Raise ValueError if a group names a coordinate that does not exist, or an inner set is another's."""
        super().require_features(d, of)
        if self.n_features is None and d < self._group.size:
            name = self.names[int(self._group[-1])]
            raise ValueError(
                f"groups must name coordinates of 0, ..., {d - 1}, and group {name!r} of {self!r} names "
                f"{self._group.size - 1}"
            )

    def group_of(self, index: np.ndarray) -> Any:
        """The number of each coordinate's group in `names`, or -1."""
        if self.n_features is not None:
            return self._group[index]
        known = index < self._group.size
        return np.where(known, self._group[np.where(known, index, 0)], -1)

    def project(self, v: Array, support: Array | None = None) -> Array:
        values, index = on_host(v, support)
        if support is None:
            self.require_features(index.size)
        return like(self.on(index)(values), v)

    def on(self, support: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The projection onto a slice, with everything that depends on the support alone worked out before."""
        blocks, alone = self._pieces(support)

        def project(values: np.ndarray) -> np.ndarray:
            out = project_blocks(blocks, values)
            for s, where in alone:
                out[where] = s.project(values[where], self._place[support[where]])
            return out

        return project

    def _pieces(self, support: np.ndarray) -> tuple[list[Padded], list[tuple[ConstraintSet, np.ndarray]]]:
        """The slice as matrices of groups that are projected at once, and the other groups."""
        group = self.group_of(support)
        self.require_slice(support)
        self._require_entries(group)
        return list(in_blocks(self._families, group, support)), list(self._one_by_one(group))

    def supporting(self, v: np.ndarray, support: np.ndarray) -> Support:
        """See `ConstraintSet.supporting`; what the sets of the groups answer, put together.

        Slacks add up, and Σ_g spread_g ||w_g - p_g|| is at most the norm of the spreads times ||w - p||.
        """
        blocks, alone = self._pieces(support)
        p = project_blocks(blocks, v)
        n, inside = v - p, np.concatenate([np.empty(0, np.intp), *(block.where for block in blocks)])
        accuracy = max((s.accuracy for s in self.sets if in_rows(s)), default=0.0)
        off = accuracy * math.hypot(norm(v[inside]), norm(p[inside]))
        slack, spreads = off * (norm(n) + 3 * off), [off]
        for s, where in alone:
            p[where], n[where], more, spread = s.supporting(v[where], self._place[support[where]])
            slack, spreads = slack + more, [*spreads, spread]
        return Support(p, n, slack, math.hypot(*spreads))

    def sparse_support(self, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray | None:
        """k coordinates on which there is a member near v: groups that must be used get a place."""
        if self.closed_under_zeroing:
            return None
        return choose_support(self, v, k, keep)

    def violation(self, w: Array) -> float:
        values, index = on_host(w, None)
        self.require_features(index.size)
        group = self.group_of(index)
        worst = 0.0
        for block in in_blocks(self._families, group, index):
            excess = in_range(block.family.example._violation_rows, *block.fill(values))
            worst = max(worst, float(narrowed(excess.max())))
        for s, where in self._one_by_one(group):
            worst = max(worst, s.violation(values[where]))
        return worst

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known at this μ: for every group it must be."""
        return all(s.has_sparse_maximum(mu) for s in [*(f.example for f in self._families), *self._alone.values()])

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known: for atoms over which Γ is a product, and for quotas on single coordinates
        whose groups and those of Γ lie inside each other, or apart.
        """
        if sparsity.plain or type(self).sparse_maximum is not GroupWise.sparse_maximum:
            return sparsity.plain and self.has_sparse_maximum(mu)
        return self._is_product(sparsity, mu) or (self.has_sparse_maximum(mu) and nest(self, sparsity))

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        asked = as_sparsity(k).within(z.shape[0])
        if not self.knows_maximum(asked, mu):
            return None
        sparsity, mu, keep = self._demands(z, asked, mu, keep)
        if not sparsity.plain and self._is_product(sparsity, mu):
            return maximum_over_atoms(self, z, sparsity, mu, keep)
        keep = np.union1d(keep, sparsity.free).astype(np.intp) if sparsity.free.size else keep
        k, quotas = sparsity.k + sparsity.free.size, None if sparsity.plain else sparsity.labels_of(z.shape[0])
        if k == 0:
            return 0.0, namespace(z).zeros_like(z)
        values = to_host(z)
        kept = None
        if keep.size:
            kept = np.zeros(values.size, dtype=bool)
            kept[keep] = True
        blocks, others = self._layout(values.size)
        allocated = partial(allocate, blocks, others, k=k, kept=kept, quotas=quotas)
        found = in_range(allocated, values, mu, invalid="ignore")  # inf - inf, where Γ is unbounded
        if found is None:
            return None
        index, w = found[0], towards_zero(found[1], values.dtype)
        if not np.isfinite(w).all():
            return np.inf, None
        out = np.zeros_like(values)
        out[index] = w
        return objective(values[index], w, mu), like(out, z)

    def slice_on(self, support: np.ndarray) -> ConstraintSet | None:
        self.require_slice(support)
        group, inner = self.group_of(support), {}
        self._require_entries(group)
        labels = np.full(support.size, None, dtype=object)
        for g in np.union1d(group[group >= 0], list(self._alone)).astype(int).tolist():
            s, where = self.sets[g], np.flatnonzero(group == g)
            if s is None:
                continue
            part = s.slice_on(self._place[support[where]])  # EmptySlice if the group needs an entry
            if part is None:
                return None
            if where.size:
                inner[g], labels[where] = part, g
        return GroupWise(inner, labels) if support.size else Everywhere()

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        scales, _ = self._units(scales)
        known = {name: there for name, s, m in self._inner if (there := s.rescaled(scales[m])) is not None}
        return self._with(known) if len(known) == len(self._inner) else None

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        larger = {name: [s] if s.has_sparse_maximum() else s.enclosing(m.size) for name, s, m in self._inner}
        return [self._with({name: sets[0] for name, sets in larger.items() if sets})]

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        shape, curved = shape_of(self._inner, n_features)
        return None if curved.any() else shape

    def polyhedron_around(self, n_features: int) -> Polyhedron:
        return shape_of(self._inner, n_features)[0]

    def polyhedron_on(self, support: np.ndarray) -> Polyhedron | None:
        """The bounds and caps on the support, cut out of the whole.

        That is written down once: a refit asks for one slice after the other, and to describe each anew takes longer
        than to solve it.
        """
        if (self.n_features or math.inf) * (len(self.sets) + 1) > _LARGEST:
            return super().polyhedron_on(support)
        shape, curved = self._whole
        return None if curved[support].any() else shape.restrict(support).used()

    @cached_property
    def _whole(self) -> tuple[Polyhedron, np.ndarray]:
        return shape_of(self._inner, self._group.size)

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """The largest increments of all groups; infinite where a coordinate is free."""
        if sum(m.size for _, _, m in self._inner) < n_features:
            return of_ball(math.inf, k)
        parts = [s.norm_squares(m.size, min(k, m.size)) for _, s, m in self._inner if m.size]
        if not all(np.isfinite(part).all() for part in parts):
            return of_ball(math.inf, k)
        return of_increments(np.concatenate([np.diff(part) for part in parts]), k)

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        negative, positive = np.ones(n_features, dtype=bool), np.ones(n_features, dtype=bool)
        for s, index in self._alike:
            negative[index], positive[index] = s.signs(index.shape[1])
        return negative, positive

    def natural_scales(self, n_features: int) -> np.ndarray | None:
        """Those of the sets that have such."""
        inner = [(m, scales) for s, m in self._alike if (scales := s.natural_scales(m.shape[1])) is not None]
        out = np.ones(n_features)
        for index, scales in inner:
            out[index] = scales
        return out if inner else None

    def shadow_prices(self, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        held, group = np.flatnonzero(w), self.group_of(np.arange(w.size))
        rows = np.zeros((2, len(self.sets) + 1))
        for block in in_blocks(self._families, group[held], held):
            values = (np.where(block.real, a[block.index], 0.0) for a in (w, c))
            for row, prices in zip(rows, block.family.example._price_rows(*values), strict=True):
                row[block.owner] = np.ravel(prices)
        shift, price = rows[:, group]
        for g, s in self._alone.items():
            index = self._members[g]
            shift[index], price[index] = s.shadow_prices(w[index], c[index])
        return shift, price

    def multipliers(self, x: np.ndarray, g: np.ndarray) -> Multipliers | None:
        return product(g, ((m, s.multipliers(x[m], g[m])) for _, s, m in self._inner if m.size))

    def limits(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = np.full(n_features, -math.inf), np.full(n_features, math.inf)
        for s, index in self._alike:
            if index.size:
                lower[index], upper[index] = s.limits(index.shape[1])
        return lower, upper

    def groups_and_caps(self, n_features: int) -> GroupsAndCaps:
        labels = [None if g < 0 else self.names[g] for g in self.group_of(np.arange(n_features)).tolist()]
        radii = {name: float(getattr(s, "radius", math.inf)) for name, s, _ in self._inner}
        return labels, {name: radius for name, radius in radii.items() if math.isfinite(radius)} or None

    def _factors(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        return [partial(_project_within, s, index) for _, s, index in self._inner if index.size]

    @cached_property
    def _inner(self) -> Inner:
        """The groups that are not free: name, set, members."""
        groups = zip(self.names, self.sets, self._members, strict=True)
        return [(name, s, members) for name, s, members in groups if s is not None]

    @cached_property
    def _alike(self) -> list[tuple[ConstraintSet, np.ndarray]]:
        return alike(self._inner)

    def _with(self, sets: Mapping[Any, ConstraintSet]) -> GroupWise:
        """The same groups with other sets."""
        return GroupWise(sets, dict(zip(self.names, self._members, strict=True)))

    def _layout(self, d: int) -> _Layout:
        """All d coordinates as padded matrices, and the groups whose sets compute their own maxima."""
        if d not in self._layouts:
            group = self.group_of(np.arange(d))
            blocks = []
            for block in in_blocks(self._families, group, np.arange(d)):
                example = block.family.example
                if is_ranked(example):
                    needs_entry = np.isin(block.owner, self._must_enter)
                    blocks.append(Block(example, block.index, block.real, block.parameters, needs_entry))
            constrained = np.array([s is not None for s in self.sets] + [False])
            if (free := np.flatnonzero(~constrained[group])[None, :]).size:
                blocks.append(Block(Everywhere(), free, np.ones_like(free, dtype=bool), [], np.zeros(1, dtype=bool)))
            others = []
            if unranked := {id(s) for s, _ in self._alike if not is_ranked(s)}:
                others = [(s, members) for _, s, members in self._inner if id(s) in unranked]
            self._layouts = {d: (blocks, others)}
        return self._layouts[d]

    def _require_entries(self, group: np.ndarray) -> None:
        if self._must_enter.size and (absent := self._must_enter[~np.isin(self._must_enter, group)]).size:
            g = absent[0]
            raise EmptySlice(
                f"group {self.names[g]!r} carries {self.sets[g]!r}, which does not contain zero, but no "
                f"coordinate of the group is in the support; use keep= or a larger k ({self._must_enter.size} such "
                "groups, each needs one entry at least)"
            )

    def _one_by_one(self, group: np.ndarray) -> Iterator[tuple[ConstraintSet, np.ndarray]]:
        for g, s in self._alone.items():
            if (where := np.flatnonzero(group == g)).size:
                yield s, where

    def __repr__(self) -> str:
        kinds = sorted({repr(s) for s in self.sets if s is not None})
        what = kinds[0] if len(kinds) == 1 else f"{len(kinds)} different sets"
        return f"GroupWise({what}, {len(self.names)} groups)"


def _project_within(s: ConstraintSet, index: np.ndarray, u: np.ndarray) -> np.ndarray:
    moved = u.copy()
    moved[index] = s.project(u[index])
    return moved
