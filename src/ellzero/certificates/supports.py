"""The supports that a search chooses from: any k coordinates, or atoms under quotas.

A support is a set of atoms: at most k in all, at most so many of each group. These sets are the independent ones of a
laminar matroid. Hence with gains h_a >= 0 the largest sum over a support is that of the greedy choice T, and forcing an
atom into it, or out of it, exchanges a single one: `exchange`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..sparsity import Coordinates, Sparsity


def supports_of(k: int | Sparsity, n_features: int) -> Supports:
    """The supports of a sparsity that is a matter of counting; an int means so many coordinates."""
    if isinstance(k, Sparsity):
        return Supports(k.k) if k.plain else AtomSupports(_Counted.on(k, np.arange(n_features)))
    return Supports(k)


@dataclass
class Decisions:
    """What is decided in a part of the search: coordinates that are in, and a mask of those that are out."""

    kept: np.ndarray
    out: np.ndarray

    def taking(self, index: Any) -> Decisions:
        """These are in as well."""
        return Decisions(np.append(self.kept, index), self.out)

    def leaving(self, index: Any) -> Decisions:
        """These are out as well."""
        out = self.out.copy()
        out[index] = True
        return Decisions(self.kept, out)

    @property
    def free(self) -> np.ndarray:
        """A mask of what is not decided."""
        free = ~self.out
        free[self.kept] = False
        return free

    def __len__(self) -> int:
        return self.kept.size + int(np.count_nonzero(self.out))


class Supports:
    """At most k of the coordinates.

    Attributes
    ----------
    k : int
        How much may be used.
    nonzeros : int
        The most that a support holds.
    widest : int
        The most that comes and goes together.
    sparsity : Sparsity
        The same, for those who project.
    """

    def __init__(self, k: int) -> None:
        self.k = self.nonzeros = k
        self.widest = 1
        self.sparsity: Sparsity = Coordinates(k)

    def restrict(self, index: np.ndarray) -> Supports:
        """Those within these coordinates."""
        return self

    def admits(self, support: np.ndarray) -> bool:
        """Whether it is one of them."""
        return support.size <= self.k

    def classes(self, index: np.ndarray) -> np.ndarray:
        """Coordinates of the same class can stand in for each other: a support with one of them in place of the other,
        or of both, is a support."""
        return np.zeros(index.size, dtype=np.intp)

    def choices(self, part: Decisions) -> np.ndarray:
        """A mask of what may still come in."""
        return part.free if part.kept.size < self.k else np.zeros(part.out.size, dtype=bool)

    def settled(self, part: Decisions) -> bool:
        """Whether nothing is left to decide: all that may still come in may do so together."""
        return bool(np.count_nonzero(self.choices(part)) <= self.k - part.kept.size)

    def closed(self, part: Decisions) -> Decisions:
        """With all that follows from what is decided, where a relaxation would not see it by itself."""
        return part

    def whole(self, i: int) -> Any:
        """What comes and goes with a coordinate."""
        return i

    def filled(self, mask: np.ndarray) -> np.ndarray:
        """All that comes with some coordinates."""
        return mask

    def units(self, mask: np.ndarray) -> Iterable[Any]:
        """What can be decided of these, one after the other."""
        return np.flatnonzero(mask)

    def sizes(self, w: np.ndarray) -> np.ndarray:
        """The length of what each coordinate belongs to."""
        return np.asarray(np.abs(w))

    def used(self, members: np.ndarray) -> np.ndarray:
        """Which coordinates the rows take."""
        return np.asarray(members != 0)

    def most(self, part: Decisions) -> int:
        """The most coordinates that a support of the part holds."""
        return self.k

    def best(self, score: np.ndarray, part: Decisions) -> np.ndarray:
        """What may still come in with the largest scores, as far as these are positive."""
        score = np.where(part.out, -1.0, score)
        score[part.kept] = -1.0
        spare = self.k - part.kept.size
        best = np.argpartition(-score, min(spare, score.size - 1))[:spare] if spare else np.empty(0, np.intp)
        return np.asarray(best[score[best] > 0])

    def largest_sum(self, gains: np.ndarray, kept: np.ndarray) -> float:
        """max Σ gains over what may come in beside `kept`; negative gains stand for what is decided."""
        spare = self.k - kept.size
        if spare >= gains.size:
            return float(gains[gains > 0].sum())
        if not spare:
            return 0.0
        best = np.partition(gains, gains.size - spare)[gains.size - spare :]
        return float(best[best > 0].sum())

    def exchange(self, gains: np.ndarray, part: Decisions) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """What is open, by how much the largest sum falls with each of it forced in, and with each forced out.

        None where nothing is to be chosen. With gains g sorted, forcing i in costs g_(k) - g_i, forcing it out
        g_i - g_(k+1); what is in anyway, or out, gives a negative number.
        """
        spare, free = self.k - part.kept.size, np.flatnonzero(gains >= 0)
        if not spare or free.size <= spare:
            return None
        order = np.partition(gains[free], [free.size - spare - 1, free.size - spare])
        return free, order[free.size - spare] - gains[free], gains[free] - order[free.size - spare - 1]


class _Counted(Sparsity):
    """At most k atoms, so many of each group, among some of the coordinates of a problem."""

    def __init__(
        self, k: int, n_features: int, atoms: np.ndarray | None, quotas: tuple[np.ndarray, np.ndarray] | None
    ) -> None:
        self.n_features, self.atoms, self.quotas = n_features, atoms, quotas
        self.k = min(k, self.most(n_features))

    @classmethod
    def on(cls, sparsity: Sparsity, index: np.ndarray) -> Self:
        """What a sparsity says of these coordinates, the others zero."""
        atoms, quotas = sparsity.atoms, sparsity.quotas
        there = index
        if atoms is not None:
            there, atoms = np.unique(atoms[index], return_inverse=True)
            if there.size and there[0] < 0:
                there, atoms = there[1:], atoms - 1
        return cls(sparsity.k, index.size, atoms, None if quotas is None else (quotas[0][there], quotas[1]))

    def with_k(self, k: int) -> Self:
        return type(self)(k, self.n_features or 0, self.atoms, self.quotas)


class AtomSupports(Supports):
    """At most k atoms, and at most so many of each group; coordinates of no atom are always kept.

    `atom` is the atom of each coordinate, `group` the group of each atom; -1: none.
    """

    def __init__(self, sparsity: _Counted) -> None:
        self.sparsity, self.k = sparsity, sparsity.k
        d = sparsity.n_features or 0
        self.atom = np.arange(d) if sparsity.atoms is None else sparsity.atoms
        self.n_atoms = 1 + int(self.atom.max(initial=-1))
        self.widest = int(np.bincount(self.atom + 1)[1:].max(initial=1))
        self.group, caps = sparsity.quotas or (np.full(self.n_atoms, -1), np.empty(0, dtype=np.intp))
        self.caps = np.append(caps, self.n_atoms)  # the last is that of no group
        everything = Decisions(np.flatnonzero(self.atom < 0), np.zeros(d, dtype=bool))
        self.nonzeros = self.most(everything)

    def restrict(self, index: np.ndarray) -> AtomSupports:
        return AtomSupports(_Counted.on(self.sparsity, index))

    def admits(self, support: np.ndarray) -> bool:
        return self.sparsity.admits(support)

    def classes(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(self.group[index] if self.sparsity.atoms is None else self.atom[index])

    def _taken(self, kept: np.ndarray) -> np.ndarray:
        """A mask of the atoms of some coordinates."""
        taken = np.zeros(self.n_atoms + 1, dtype=bool)
        taken[self.atom[kept]] = True
        return taken[:-1]

    def _chosen(self, score: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """A mask of the atoms with the largest sum of scores that may be used together with what is kept."""
        return self._taken(self.sparsity.best_atoms(score, kept))

    def rooms(self, part: Decisions) -> tuple[int, np.ndarray]:
        """How many atoms may still come in, and how many of each group; the last is that of no group."""
        taken = self._taken(part.kept)
        used = np.bincount(self.group[taken] + 1, minlength=self.caps.size)
        return self.k - int(np.count_nonzero(taken)), self.caps - np.append(used[1:], 0)

    def choices(self, part: Decisions) -> np.ndarray:
        spare, room = self.rooms(part)
        if spare <= 0:
            return np.zeros(part.out.size, dtype=bool)
        return np.asarray(part.free & np.append(room[self.group] > 0, False)[self.atom])

    def settled(self, part: Decisions) -> bool:
        choices = np.flatnonzero(self.choices(part))
        return not choices.size or self.admits(np.concatenate([part.kept, choices]))

    def closed(self, part: Decisions) -> Decisions:
        """What has no place any more is out."""
        return part.leaving(part.free & ~self.choices(part))

    def whole(self, i: int) -> Any:
        return np.flatnonzero(self.atom == self.atom[i])

    def filled(self, mask: np.ndarray) -> np.ndarray:
        return np.asarray(np.append(self._taken(np.flatnonzero(mask)), False)[self.atom] | mask)

    def units(self, mask: np.ndarray) -> Iterable[Any]:
        return [np.flatnonzero(self.atom == a) for a in np.flatnonzero(self._taken(np.flatnonzero(mask)))]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum over each atom."""
        return np.bincount(self.atom + 1, values, minlength=self.n_atoms + 1)[1:]

    def spread(self, values: np.ndarray, free: float) -> np.ndarray:
        """The value of its atom for each coordinate, and another for those of none."""
        return np.asarray(np.append(values, free)[self.atom])

    def sizes(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(self.spread(np.sqrt(self.sums(w * w)), 0.0), np.abs(w)))

    def used(self, members: np.ndarray) -> np.ndarray:
        return np.array([self.filled(row != 0) for row in members]).reshape(members.shape)

    def most(self, part: Decisions) -> int:
        size = self.sums(np.where(part.out, 0.0, 1.0))
        chosen = self._chosen(size, part.kept)
        return int(np.count_nonzero(self.atom < 0) + size[chosen].sum())

    def best(self, score: np.ndarray, part: Decisions) -> np.ndarray:
        total = self.sums(np.where(part.free, score, 0.0) ** 2)
        chosen = self._chosen(total, part.kept) & (total > 0) & ~self._taken(part.kept)
        return np.flatnonzero(self.spread(chosen, False))

    def largest_sum(self, gains: np.ndarray, kept: np.ndarray) -> float:
        total = self.sums(np.maximum(gains, 0.0))
        return float(total[self._chosen(total, kept)].sum())

    def exchange(self, gains: np.ndarray, part: Decisions) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """With an atom a outside the greedy choice T the best is T + a less the smallest of the one circuit in T + a,
        which is T's part of a's group if that is full, all of T if not. Without an atom a of T it is T - a and the
        largest of what then fits: of a's group, or, if T has k atoms, of a group that is not full."""
        choices = self.choices(part)
        if self.settled(part):
            return None
        taken, is_open = self._taken(part.kept), self._taken(np.flatnonzero(choices))
        total = np.where(is_open, self.sums(np.maximum(gains, 0.0)), -1.0)
        chosen = self._chosen(total, part.kept) & (is_open | taken)
        inside, outside = chosen & is_open, is_open & ~chosen
        group, k_full = self.group, np.count_nonzero(chosen) >= self.k
        full = np.bincount(group[chosen] + 1, minlength=self.caps.size)[1:] >= self.caps[:-1]
        full = np.append(full, False)
        smallest, largest = np.full(self.caps.size, math.inf), np.zeros(self.caps.size)
        np.minimum.at(smallest, group[inside], total[inside])
        np.maximum.at(largest, group[outside], total[outside])
        lowest = np.where(full[group], smallest[group], total[inside].min(initial=math.inf))
        anywhere = largest[~full].max(initial=0.0) if k_full else 0.0
        highest = np.maximum(np.where(group >= 0, largest[group], 0.0), anywhere)
        enter, leave = np.where(outside, lowest - total, -1.0), np.where(inside, total - highest, -1.0)
        free = np.flatnonzero(choices)
        return free, enter[self.atom[free]], leave[self.atom[free]]
