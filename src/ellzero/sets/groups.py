"""Products of sets over disjoint groups of coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np

from .._core.arrays import Array, like, namespace, norm, to_host
from ._allocation import Block, allocate
from ._range import in_range, narrowed, project_in_range, towards_zero
from .base import ConstraintSet, EmptySlice, RowSet, SparseMaximum, Support, objective, on_host
from .elementwise import Everywhere

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
        members, self.n_features = _read_groups(groups)
        self.names = list(members)
        self.sets = _assign_sets(sets, members)
        size = self.n_features or 1 + max((int(m[-1]) for m in members.values() if m.size), default=0)
        # coordinate -> its group (-1: none) and its place inside the group
        self._group = np.full(size, -1, dtype=np.intp)
        self._place = np.zeros(size, dtype=np.intp)
        for g, index in enumerate(members.values()):
            self._group[index] = g
            self._place[index] = np.arange(index.size)
        self._members = list(members.values())
        self._families = _Family.split(self.sets, self._members, size)
        # groups whose sets have no projection for many rows at once
        self._alone = {g: s for g, s in enumerate(self.sets) if s is not None and not _in_rows(s)}
        self._layouts: dict[int, _Layout] = {}
        self._must_enter = np.array([g for g, s in enumerate(self.sets) if s is not None and s.needs_entry], np.intp)

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        """Whether all sets are."""
        return all(s.closed_under_zeroing for s in self.sets if s is not None)

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        """Whether one of the sets excludes zero."""
        return self._must_enter.size > 0

    @cached_property
    def forced(self) -> np.ndarray:  # type: ignore[override]
        """Coordinates that are nonzero in every member."""
        pairs = [(m, s) for m, s in zip(self._members, self.sets, strict=True) if s is not None]
        return np.sort(np.concatenate([np.empty(0, np.intp), *(m[s.forced_among(m.size)] for m, s in pairs)]))

    @cached_property
    def accuracy(self) -> float:  # type: ignore[override]
        """The worst of the sets."""
        return max((s.accuracy for s in self.sets if s is not None), default=ConstraintSet.accuracy)

    @property
    def why(self) -> str:
        """Why the set preserves supports, or does not."""
        if self.closed_under_zeroing:
            return "it is a product over groups of sets that preserve supports"
        name, bad = next((n, s) for n, s in zip(self.names, self.sets, strict=True) if s and not s.closed_under_zeroing)
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

    project.__doc__ = ConstraintSet.project.__doc__

    def on(self, support: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The projection onto a slice, with everything that depends on the support alone worked out before."""
        blocks, alone = self._pieces(support)

        def project(values: np.ndarray) -> np.ndarray:
            out = _in_blocks(blocks, values)
            for s, where in alone:
                out[where] = s.project(values[where], self._place[support[where]])
            return out

        return project

    def _pieces(self, support: np.ndarray) -> tuple[list[_Padded], list[tuple[ConstraintSet, np.ndarray]]]:
        """The slice as matrices of groups that are projected at once, and the other groups."""
        group = self.group_of(support)
        self.require_slice(support)
        self._require_entries(group)
        return list(self._blocks(group, support)), list(self._one_by_one(group))

    def supporting(self, v: np.ndarray, support: np.ndarray) -> Support:
        """See `ConstraintSet.supporting`; what the sets of the groups answer, put together.

        Slacks add up, and Σ_g spread_g ||w_g - p_g|| is at most the norm of the spreads times ||w - p||.
        """
        blocks, alone = self._pieces(support)
        p = _in_blocks(blocks, v)
        n, inside = v - p, np.concatenate([np.empty(0, np.intp), *(block.where for block in blocks)])
        accuracy = max((s.accuracy for s in self.sets if _in_rows(s)), default=0.0)
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
        from ._supports import choose_support

        return choose_support(self, v, k, keep)

    def violation(self, w: Array) -> float:
        values, index = on_host(w, None)
        self.require_features(index.size)
        group = self.group_of(index)
        worst = 0.0
        for block in self._blocks(group, index):
            excess = in_range(block.family.example._violation_rows, *block.fill(values))
            worst = max(worst, float(narrowed(excess.max())))
        for s, where in self._one_by_one(group):
            worst = max(worst, s.violation(values[where]))
        return worst

    violation.__doc__ = ConstraintSet.violation.__doc__

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known at this μ: for every group it must be."""
        return all(s.has_sparse_maximum(mu) for s in [*(f.example for f in self._families), *self._alone.values()])

    def sparse_maximum(self, z: Array, k: int, mu: float, keep: Any = None) -> SparseMaximum | None:
        if not self.has_sparse_maximum(mu):
            return None
        k, mu, keep = self._demands(z, k, mu, keep)
        if k == 0:
            return 0.0, namespace(z).zeros_like(z)
        values = to_host(z)
        kept = None
        if keep.size:
            kept = np.zeros(values.size, dtype=bool)
            kept[keep] = True
        blocks, others = self._layout(values.size)
        allocated = partial(allocate, blocks, others, k=k, kept=kept)
        found = in_range(allocated, values, mu, invalid="ignore")  # inf - inf, where Γ is unbounded
        if found is None:
            return None
        index, w = found[0], towards_zero(found[1], values.dtype)
        if not np.isfinite(w).all():
            return np.inf, None
        out = np.zeros_like(values)
        out[index] = w
        return objective(values[index], w, mu), like(out, z)

    sparse_maximum.__doc__ = ConstraintSet.sparse_maximum.__doc__

    def _layout(self, d: int) -> _Layout:
        """All d coordinates as padded matrices, and the groups whose sets compute their own maxima."""
        if d not in self._layouts:
            group = self.group_of(np.arange(d))
            blocks = []
            for block in self._blocks(group, np.arange(d)):
                example = block.family.example
                if _ranked(example):
                    needs_entry = np.isin(block.owner, self._must_enter)
                    blocks.append(Block(example, block.index, block.real, block.parameters, needs_entry))
            constrained = np.array([s is not None for s in self.sets] + [False])
            free = np.flatnonzero(~constrained[group])[None, :]
            if free.size:
                blocks.append(Block(Everywhere(), free, np.ones_like(free, dtype=bool), [], np.zeros(1, dtype=bool)))
            others = [(s, m) for s, m in zip(self.sets, self._members, strict=True) if s is not None and not _ranked(s)]
            self._layouts = {d: (blocks, others)}
        return self._layouts[d]

    def _require_entries(self, group: np.ndarray) -> None:
        if self._must_enter.size:
            absent = self._must_enter[~np.isin(self._must_enter, group)]
            if absent.size:
                g = absent[0]
                raise EmptySlice(
                    f"group {self.names[g]!r} carries {self.sets[g]!r}, which does not contain zero, but no "
                    f"coordinate of the group is in the support; use keep= or a larger k ({self._must_enter.size} such "
                    "groups, each needs one entry at least)"
                )

    def _blocks(self, group: np.ndarray, index: np.ndarray) -> Iterator[_Padded]:
        """The given coordinates as few padded matrices, a row a group, for every family of sets.

        Groups are put together by size, up to a factor 2, so that padding at most doubles the work; where there
        is little of it, all in one.
        """
        for family in self._families:
            where = np.flatnonzero(family.owns[group]) if group.size else group
            if where.size == 0:
                continue
            where = where[np.argsort(group[where], kind="stable")]
            first = np.flatnonzero(np.diff(group[where], prepend=-2))
            count = np.diff(first, append=where.size)
            row = np.repeat(np.arange(count.size), count)
            column = np.arange(where.size) - first[row]
            scale = np.frexp(count - 0.5)[1]  # sizes 1 | 2 | 3-4 | 5-8 | ...
            if count.size * count.max() <= 4096:
                scale[:] = 0
            for size in np.unique(scale):
                rows = scale == size
                inside = rows[row]
                new_row = (np.cumsum(rows) - 1)[row[inside]]
                shape = (int(rows.sum()), int(count[rows].max()))
                yield _Padded(family, shape, where[inside], new_row, column[inside], index, group)

    def _one_by_one(self, group: np.ndarray) -> Iterator[tuple[ConstraintSet, np.ndarray]]:
        for g, s in self._alone.items():
            where = np.flatnonzero(group == g)
            if where.size:
                yield s, where

    def __repr__(self) -> str:
        kinds = sorted({repr(s) for s in self.sets if s is not None})
        what = kinds[0] if len(kinds) == 1 else f"{len(kinds)} different sets"
        return f"GroupWise({what}, {len(self.names)} groups)"


class _Family:
    """The groups whose sets are projected in one call, with their parameters side by side."""

    def __init__(self, example: RowSet, numbers: list[int], sets: list[Any], members: list[Any], size: int) -> None:
        self.example = example
        self.owns = np.zeros(len(sets) + 1, dtype=bool)  # the last entry answers for group -1
        self.owns[numbers] = True
        self.parameters = []  # (per group?, values, padding)
        for position, padding in enumerate(example._parameter_padding):
            values = np.zeros(len(sets) if padding is None else size)
            for g in numbers:
                values[g if padding is None else members[g]] = sets[g]._parameters()[position]
            self.parameters.append((values, padding))

    @staticmethod
    def split(sets: list[ConstraintSet | None], members: list[np.ndarray], size: int) -> list[_Family]:
        numbers: dict[Hashable, list[int]] = {}
        for g, s in enumerate(sets):
            if _in_rows(s):
                numbers.setdefault(s.family, []).append(g)
        return [_Family(sets[n[0]], n, sets, members, size) for n in numbers.values()]  # type: ignore[arg-type]


class _Padded:
    """Some coordinates as a padded matrix, a row a group, with the parameters that go with them.

    Attributes
    ----------
    where : array
        The places of the values in what is projected; row, column : theirs in the matrix.
    index, real : matrices
        The coordinates themselves (0 where there is none), and whether there is one.
    owner : array
        The group of each row.
    """

    def __init__(
        self,
        family: _Family,
        shape: tuple[int, int],
        where: np.ndarray,
        row: np.ndarray,
        column: np.ndarray,
        index: np.ndarray,
        group: np.ndarray,
    ) -> None:
        self.family, self.shape, self.where, self.row, self.column = family, shape, where, row, column
        self.index, self.real = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=bool)
        self.index[row, column], self.real[row, column] = index[where], True
        self.owner = np.zeros(shape[0], dtype=np.intp)
        self.owner[row] = group[where]
        self.parameters = [
            numbers[self.owner][:, None] if padding is None else np.where(self.real, numbers[self.index], padding)
            for numbers, padding in family.parameters
        ]

    def fill(self, values: np.ndarray) -> list[np.ndarray]:
        """The matrix of values, followed by the parameters in shapes that broadcast with it."""
        block = np.full(self.shape, self.family.example._padding, dtype=values.dtype)
        block[self.row, self.column] = values[self.where]
        return [block, *(parameter.astype(values.dtype, copy=False) for parameter in self.parameters)]


def _in_rows(s: ConstraintSet | None) -> TypeGuard[RowSet]:
    """Whether many sets of this class are projected in one call."""
    return isinstance(s, RowSet) and not s.redefined


def _in_blocks(blocks: list[_Padded], values: np.ndarray) -> np.ndarray:
    """A copy of the values, projected in these groups."""
    out = values.copy()
    for block in blocks:
        rows = project_in_range(block.family.example._project_rows, *block.fill(values))
        out[block.where] = rows[block.row, block.column]
    return out


def _ranked(s: ConstraintSet) -> bool:
    """Whether the set tells by score which entries come first; its subclass may compute the maximum in another way."""
    return _in_rows(s) and type(s).sparse_maximum is RowSet.sparse_maximum


def _assign_sets(sets: Any, members: Mapping[Any, np.ndarray]) -> list[ConstraintSet | None]:
    """One set for each group, None for a free one."""
    if isinstance(sets, ConstraintSet):
        sets = dict.fromkeys(members, sets)
    elif not isinstance(sets, Mapping):
        raise TypeError(f"sets must be a constraint set or a mapping from group to constraint set, got {sets!r}")
    unknown = [name for name in sets if name not in members]
    if unknown:
        raise ValueError(f"sets names the group {unknown[0]!r}, which groups does not have: {_some(members)}")
    for name, s in sets.items():
        if not isinstance(s, ConstraintSet):
            raise TypeError(f"the set of group {name!r} must be a constraint set, got {s!r}")
        if s.n_features is not None and s.n_features != members[name].size:
            raise ValueError(
                f"group {name!r} has {members[name].size} coordinates, but its set {s!r} has {s.n_features}"
            )
        s.require_features(members[name].size)
    return [sets.get(name) for name in members]


def _read_groups(groups: Any) -> tuple[dict[Any, np.ndarray], int | None]:
    """{group: increasing indices}, and the number of coordinates if labels tell it."""
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable):
        raise TypeError(f"groups must be a label for each coordinate, or lists of indices, got {groups!r}")
    if isinstance(groups, Mapping):
        return _read_index_lists(groups)
    entries = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if not entries:
        raise ValueError("groups must not be empty: give a label for each coordinate, or lists of indices")
    if any(isinstance(entry, (list, set, range, np.ndarray)) for entry in entries):
        return _read_index_lists(dict(enumerate(entries)))
    members: dict[Any, list[int]] = {}
    for i, label in enumerate(entries):
        try:
            if label is not None and label == label:  # None and NaN: in no group
                members.setdefault(label, []).append(i)
        except TypeError as error:
            raise TypeError(f"the group label of coordinate {i} must be hashable, got {label!r}") from error
    return {name: np.array(index, dtype=np.intp) for name, index in members.items()}, len(entries)


def _read_index_lists(groups: Mapping[Any, Any]) -> tuple[dict[Any, np.ndarray], None]:
    members: dict[Any, np.ndarray] = {}
    owner: dict[int, Any] = {}
    for name, indices in groups.items():
        index = _read_indices(name, indices)
        if index.size and index[0] < 0:
            raise ValueError(f"group {name!r} must hold indices of at least 0, got {index[0]}")
        for i in index.tolist():
            if i in owner:
                raise ValueError(
                    f"groups must not overlap: coordinate {i} is in {owner[i]!r} and in {name!r}. For overlapping "
                    "caps on non-negative weights use PackingPolytope(A, b); for other overlapping constraints "
                    "Intersection of one GroupWise for each layer"
                )
            owner[i] = name
        members[name] = index
    return members, None


def _read_indices(name: Any, indices: Any) -> np.ndarray:
    if isinstance(indices, (str, bytes)) or not isinstance(indices, Iterable):
        raise TypeError(f"group {name!r} must be a list of indices of coordinates, got {indices!r}")
    listed = list(indices)
    if any(isinstance(i, (bool, np.bool_)) or not isinstance(i, Integral) for i in listed):
        raise TypeError(f"group {name!r} must hold integers, the indices of coordinates, got {listed[:8]!r}")
    if any(abs(i) > np.iinfo(np.intp).max for i in listed):
        raise ValueError(f"group {name!r} must hold indices of coordinates, got {max(listed, key=abs)}")
    return np.unique(np.array(listed, dtype=np.intp))


def _some(names: Iterable[Any]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
