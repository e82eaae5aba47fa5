"""Groups of coordinates and their sets: as users write them, and as rows of padded matrices, with their parameters side
by side, so that the sets of many are projected in one call.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from .._core.groups import some
from ._range import project_in_range
from .base import ConstraintSet
from .polyhedron import Polyhedron
from .rows import RowSet

if TYPE_CHECKING:
    from ..sparsity import Sparsity
    from .groups import GroupWise

Inner = list[tuple[Any, ConstraintSet, np.ndarray]]  # name, set, members


def assign_sets(sets: Any, members: Mapping[Any, np.ndarray]) -> list[ConstraintSet | None]:
    """One set for each group, None for a free one."""
    if isinstance(sets, ConstraintSet):
        sets = dict.fromkeys(members, sets)
    elif not isinstance(sets, Mapping):
        raise TypeError(f"sets must be a constraint set or a mapping from group to constraint set, got {sets!r}")
    if unknown := [name for name in sets if name not in members]:
        raise ValueError(f"sets names the group {unknown[0]!r}, which groups does not have: {some(members)}")
    for name, s in sets.items():
        if not isinstance(s, ConstraintSet):
            raise TypeError(f"the set of group {name!r} must be a constraint set, got {s!r}")
        size = members[name].size
        if s.n_features not in (None, size):
            raise ValueError(f"group {name!r} has {size} coordinates, but its set {s!r} has {s.n_features}")
        s.require_features(size)
    return [sets.get(name) for name in members]


class Family:
    """The groups whose sets are projected in one call, with their parameters side by side."""

    def __init__(self, example: RowSet, numbers: list[int], sets: list[Any], members: list[Any], size: int) -> None:
        self.example = example
        self.owns = np.zeros(len(sets) + 1, dtype=bool)  # the last entry answers for group -1
        self.owns[numbers] = True
        self.parameters = []  # (per group?, values, padding)
        for position, padding in enumerate(example._parameter_padding.values()):
            values = np.zeros(len(sets) if padding is None else size)
            for g in numbers:
                values[g if padding is None else members[g]] = sets[g]._parameters()[position]
            self.parameters.append((values, padding))

    @staticmethod
    def split(sets: list[ConstraintSet | None], members: list[np.ndarray], size: int) -> list[Family]:
        numbers: dict[Hashable, list[int]] = {}
        for g, s in enumerate(sets):
            if in_rows(s):
                numbers.setdefault(s.family, []).append(g)
        return [Family(sets[n[0]], n, sets, members, size) for n in numbers.values()]  # type: ignore[arg-type]


class Padded:
    """Some coordinates as a padded matrix, a row a group, with the parameters that go with them.

    `where` are the places of the values in what is projected, `row` and `column` theirs in the matrix; `index` and
    `real` are matrices of the coordinates themselves (0 where there is none) and of whether there is one; `owner` is
    the group of each row.
    """

    def __init__(
        self, family: Family, where: np.ndarray, row: np.ndarray, col: np.ndarray, index: np.ndarray, group: np.ndarray
    ) -> None:
        self.family, self.where, self.row, self.column = family, where, row, col
        self.shape = shape = int(row[-1]) + 1, int(col.max()) + 1  # rows are filled one after the other
        self.index, self.real = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=bool)
        self.index[row, col], self.real[row, col] = index[where], True
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


def in_rows(s: ConstraintSet | None) -> TypeGuard[RowSet]:
    """Whether many sets of this class are projected in one call."""
    return isinstance(s, RowSet) and not s.redefined


def in_blocks(families: list[Family], group: np.ndarray, index: np.ndarray) -> Iterator[Padded]:
    """The given coordinates as few padded matrices, a row a group, for every family of sets.

    Groups are put together by size, up to a factor 2, so that padding at most doubles the work; where there
    is little of it, all in one.
    """
    for family in families:
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
            yield Padded(family, where[inside], new_row, column[inside], index, group)


def project_blocks(blocks: list[Padded], values: np.ndarray) -> np.ndarray:
    """A copy of the values, projected in these groups."""
    out = values.copy()
    for block in blocks:
        rows = project_in_range(block.family.example._project_rows, *block.fill(values))
        out[block.where] = rows[block.row, block.column]
    return out


def is_ranked(s: ConstraintSet) -> bool:
    """Whether the set tells by score which entries come first; its subclass may compute the maximum in another way."""
    return in_rows(s) and type(s).sparse_maximum is RowSet.sparse_maximum


def nest(gamma: GroupWise, sparsity: Sparsity) -> bool:
    """Whether quotas are on single coordinates, and their groups and those of Γ lie inside each other, or apart.

    What is separable has no groups; other sets than those which go by scores are not known.
    """
    d = sparsity.n_features or 0
    by_score = not gamma._alone and all(is_ranked(family.example) for family in gamma._families)
    if not (by_score and sparsity.by_atoms and sparsity.of_single) or d < gamma._group.size:
        return False
    labels, _ = sparsity.labels_of(d)
    total = np.bincount(labels + 1)
    parts = [np.bincount(labels[m] + 1, minlength=total.size) for s, m in crossing(gamma, labels) if not s.separable]
    return not any(((part > 0) & (part < total))[1:].any() for part in parts)


def crossing(gamma: GroupWise, numbers: np.ndarray) -> list[tuple[ConstraintSet, np.ndarray]]:
    """The groups, with their sets, whose coordinates do not all have the same number."""
    group, n = gamma.group_of(np.arange(numbers.size)), len(gamma.sets)
    low, high = np.full(n + 1, numbers.size), np.full(n + 1, -1)
    np.minimum.at(low, group, numbers)
    np.maximum.at(high, group, numbers)
    found = ((gamma.sets[g], gamma._members[g]) for g in np.flatnonzero(low[:-1] < high[:-1]))
    return [(s, m) for s, m in found if s is not None]


def alike(inner: Inner) -> list[tuple[ConstraintSet, np.ndarray]]:
    """The sets, and the members of groups of one size that share a set, a group a row."""
    alike: dict[tuple[int, int], tuple[ConstraintSet, list[np.ndarray]]] = {}
    for _, s, members in inner:
        alike.setdefault((id(s), members.size), (s, []))[1].append(members)
    return [(s, np.array(rows)) for s, rows in alike.values()]


def shape_of(inner: Inner, d: int) -> tuple[Polyhedron, np.ndarray]:
    """The bounds and caps of d coordinates, and where they do not tell all."""
    shape, curved = Polyhedron.box(-math.inf, math.inf, d), np.zeros(d, dtype=bool)
    rows = [shape]
    for _, s, index in inner:
        if (part := s.polyhedron(index.size)) is None:
            curved[index] = True
            continue
        shape.lower[index], shape.upper[index] = part.lower, part.upper
        wide = np.zeros((part.h.size, d))
        wide[:, index] = part.A
        rows.append(replace(part, A=wide))
    A, h, equal = (np.concatenate([getattr(part, name) for part in rows]) for name in ("A", "h", "equal"))
    return Polyhedron(shape.lower, shape.upper, A, h, equal, all(part.exact for part in rows)), curved
