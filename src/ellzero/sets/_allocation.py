"""max Σ_g v_g(j_g) over Σ_g j_g <= k: how groups share k nonzeros, v_g(j) being the maximum of group g on j entries.

Where every v_g is concave, the k largest of all increments v_g(j) - v_g(j-1) are the answer. That holds for sets
{Σ_i ψ(w_i) <= D} with a convex ψ, ψ(0) = 0, and for = D: with the multiplier λ of this constraint

    v_g(j) = min_λ  λD + Σ_{i kept} c_λ(z_i) + the j largest other c_λ(z_i),   c_λ(z) = max_w zw - μw²/2 - λψ(w) >= 0,

a minimum of concave functions of j, for the order of the c_λ(z_i) is that of the scores at every λ. For sets of the
users' own nothing is known about v_g, and a dynamic programme takes its place.

Quotas on groups of coordinates nest with the groups of Γ. Those inside a group of Γ leave the first entries by score of
each of them, at every λ the same ones, so v_g stays concave. Those around groups of Γ are limits for counts: increments
are then the elements of a laminar matroid, in which the greedy choice is the best one, and because they fall within
every group of Γ, it takes the first of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._core.groups import places
from ._range import narrowed
from .base import ConstraintSet, EmptySlice
from .rows import RowSet

_Mask = np.ndarray | None  # which coordinates are to be kept
_Quotas = tuple[np.ndarray, np.ndarray]  # the label of each coordinate, and how many of each label may enter
_Alone = tuple[ConstraintSet, np.ndarray]  # a set that computes its own maxima, with its coordinates


@dataclass
class Block:
    """Groups of one family: the rows of a padded matrix of coordinates."""

    family: RowSet
    index: np.ndarray
    real: np.ndarray  # False: padding
    parameters: list[np.ndarray]
    needs_entry: np.ndarray  # for each group

    def __getitem__(self, rows: Any) -> Block:
        parameters = [p[rows] for p in self.parameters]
        return Block(self.family, self.index[rows], self.real[rows], parameters, self.needs_entry[rows])

    def columns(self, chosen: np.ndarray) -> Block:
        """The chosen columns of every row, in that order."""
        index, real = (np.take_along_axis(a, chosen, axis=1) for a in (self.index, self.real))
        wide = self.index.shape[1]
        parameters = [np.take_along_axis(p, chosen, axis=1) if p.shape[1] == wide > 1 else p for p in self.parameters]
        return Block(self.family, index, real, parameters, self.needs_entry)

    def in_columns(self) -> Block:
        """Every coordinate as a group by itself, where it is one to the set: in boxes."""
        wide = [np.broadcast_to(p, self.index.shape)[self.real][:, None] for p in self.parameters]
        index = self.index[self.real][:, None]
        return Block(self.family, index, np.ones_like(index, dtype=bool), wide, np.zeros(index.size, dtype=bool))

    def within_quotas(self, z: np.ndarray, kept: _Mask, mu: float, quotas: _Quotas) -> Block:
        """Without the entries that better ones of the same group leave no place in their quota."""
        if self.family.separable:
            return self.in_columns()
        score = np.where(self.real, self.family._score_rows(z[self.index], mu, *self.parameters), -np.inf)
        if kept is not None:
            score[kept[self.index] & self.real] = np.inf
        block, (labels, most) = self.columns(np.argsort(-score, axis=1, kind="stable")), quotas
        label, limit = labels[block.index], np.append(most, z.size)
        before = places((label + (most.size + 1) * np.arange(len(label))[:, None]).ravel() + 1).reshape(label.shape)
        return replace(block, real=block.real & (before < limit[label]))


@dataclass
class Candidates:
    """The best entries of every group, in the order in which they enter, and what each adds."""

    block: Block
    z: np.ndarray
    increments: np.ndarray
    required: np.ndarray  # how many entries of each group must enter
    complete: np.ndarray  # whether further entries of the group could not be used
    count: np.ndarray = field(init=False)

    @classmethod
    def best(cls, block: Block, z: np.ndarray, kept: _Mask, mu: float, cap: int, k: int) -> Candidates:
        """About `cap` entries of the largest score from every group, those to be kept before all others."""
        values = z[block.index]
        score = np.where(block.real, block.family._score_rows(values, mu, *block.parameters), -np.inf)
        required = block.needs_entry.astype(np.intp)
        if kept is not None:
            inside = kept[block.index] & block.real
            score[inside] = np.inf
            held = inside.sum(axis=1)
            cap, required = cap + int(held.max()), np.maximum(required, held)
        if cap < score.shape[1]:
            chosen = _top_columns(score, cap)
            values, score = (np.take_along_axis(a, chosen, axis=1) for a in (values, score))
            complete = np.minimum(block.real.sum(axis=1), k) <= cap
            block = block.columns(chosen)
        else:
            complete = np.ones(len(score), dtype=bool)
        order = np.argsort(-score, axis=1, kind="stable")
        block = block.columns(order)
        values = np.take_along_axis(values, order, axis=1)
        values = values.astype(np.promote_types(values.dtype, float), copy=False)
        increments = block.family._increments(values, mu, *block.parameters)
        optional = block.real & (np.arange(order.shape[1]) >= required[:, None])
        return cls(block, values, np.where(optional, increments, -np.inf), required, complete)

    def __getitem__(self, rows: np.ndarray) -> Candidates:
        parts: Any = (self.block, self.z, self.increments, self.required, self.complete)
        return Candidates(*(part[rows] for part in parts))

    def members(self, mu: float) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates that entered and their values, given how many of each group do."""
        part, z = self.block[self.count > 0], self.z[self.count > 0]
        entered = np.arange(z.shape[1]) < self.count[self.count > 0][:, None]
        z = np.where(entered, z, part.family._padding)
        return part.index[entered], part.family._maximum_rows(z, mu, *part.parameters)[entered]


def allocate(
    blocks: Sequence[Block],
    others: Sequence[_Alone],
    z: np.ndarray,
    mu: float,
    k: int,
    kept: _Mask,
    quotas: _Quotas | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Coordinates and values of the best member; `others` are sets with their coordinates that compute their own
    maxima, and None is the answer if one of these does not know them. Quotas are the label of each coordinate, and how
    many of each label may enter; there must be no others then.
    """
    if z.dtype == np.longdouble:  # numbers so large or small that every product has to be taken in this type
        blocks = [replace(block, parameters=[p.astype(z.dtype) for p in block.parameters]) for block in blocks]
    if quotas is not None:
        found = [Candidates.best(b.within_quotas(z, kept, mu, quotas), z, kept, mu, k, k) for b in blocks]
        share(found, k, quotas)
        parts = [c.members(mu) for c in found]
    elif not others:
        parts = [c.members(mu) for c in _concave_allocation(blocks, z, k, mu, kept)]
    else:
        own, number = narrowed(z), float(mu)
        tables = [_table(s, own[index], k, number, None if kept is None else kept[index]) for s, index in others]
        known = [table for table in tables if table is not None]
        if len(known) < len(tables):
            return None
        candidates = [Candidates.best(block, z, kept, mu, k, k) for block in blocks]
        counts = dynamic_programme([_merged(candidates, k), *(values for values, _ in known)], k)
        share(candidates, counts[0])
        parts = [c.members(mu) for c in candidates]
        for (_, index), (_, members), j in zip(others, known, counts[1:], strict=True):
            parts.append((index, members[j]))
    return np.concatenate([index for index, _ in parts]), np.concatenate([w for _, w in parts])


def _concave_allocation(blocks: Sequence[Block], z: np.ndarray, k: int, mu: float, kept: _Mask) -> list[Candidates]:
    """Few entries of each group are looked at first: if the last of them does not enter, none after it does.

    Groups whose candidates all enter are looked at again, with as many as there may be.
    """
    n_groups = sum(len(block.index) for block in blocks)
    cap = k if z.size <= 4096 else min(k, 4 * k // n_groups + 1)
    found = [Candidates.best(block, z, kept, mu, cap, k) for block in blocks]
    share(found, k)
    final = []
    for block, candidates in zip(blocks, found, strict=True):
        if (short := ~candidates.complete & (candidates.count == candidates.z.shape[1])).any():
            final += [candidates[~short], Candidates.best(block[short], z, kept, mu, k, k)]
        else:
            final.append(candidates)
    if len(final) > len(found):
        share(final, k)
    return final


def share(candidates: Sequence[Candidates], k: int, quotas: _Quotas | None = None) -> None:
    """Let the required entries enter, then those of the largest positive increments; ties: the lowest index."""
    required = sum(int(c.required.sum()) for c in candidates)
    if required > k:
        raise EmptySlice(f"the groups need at least {required} nonzeros together, more than k={k}; raise k")
    increments = np.concatenate([np.empty(0), *(c.increments.ravel() for c in candidates)])
    if quotas is not None:
        increments = _without_a_place(candidates, increments, *quotas)
    enters = increments > 0
    if np.count_nonzero(enters) > k - required:
        enters = np.zeros_like(enters)
        if k > required:
            kth = np.partition(increments, increments.size - (k - required))[increments.size - (k - required)]
            enters = increments > kth
            ties = np.flatnonzero(increments == kth)
            index = np.concatenate([c.block.index.ravel() for c in candidates])
            enters[ties[np.argsort(index[ties])][: k - required - np.count_nonzero(enters)]] = True
    start = 0
    for c in candidates:
        # counts, not places: a group's entries enter in their order even if rounding disturbs that of increments
        c.count = c.required + enters[start : start + c.increments.size].reshape(c.increments.shape).sum(axis=1)
        start += c.increments.size


def _without_a_place(
    candidates: Sequence[Candidates], increments: np.ndarray, labels: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """The increments with those struck out for which required and larger ones leave no place in their quota."""
    index = np.concatenate([c.block.index.ravel() for c in candidates])
    first = [(np.arange(c.z.shape[1]) < c.required[:, None]).ravel() for c in candidates]
    label, needed = labels[index], np.concatenate(first)
    left = most - np.bincount(label[needed] + 1, minlength=most.size + 1)[1:]
    if (left < 0).any():
        raise EmptySlice("the groups need more nonzeros than their quotas allow; raise them")
    order = np.lexsort((index, -increments))
    entered = places(label[order]) < np.append(left, index.size)[label[order]]
    out = np.full_like(increments, -np.inf)
    out[order[entered]] = increments[order[entered]]
    return out


def _merged(candidates: Sequence[Candidates], k: int) -> np.ndarray:
    """v(0), ..., v(k) of all these groups together, up to a constant; -inf where they need more entries."""
    required = sum(int(c.required.sum()) for c in candidates)
    increments = np.concatenate([np.zeros(k), *(c.increments.ravel() for c in candidates)])
    value = np.full(k + 1, -np.inf)
    value[required:] = np.cumsum(np.append(0.0, np.sort(increments)[::-1]))[: max(k + 1 - required, 0)]
    return value


def _table(s: ConstraintSet, z: np.ndarray, k: int, mu: float, kept: _Mask) -> tuple[np.ndarray, list[Any]] | None:
    """v(0), v(1), ... by the set itself, -inf where it has no such member, and the members that attain them."""
    keep = np.flatnonzero(kept) if kept is not None else np.empty(0, dtype=np.intp)
    values, members = np.full(min(k, z.size) + 1, -np.inf), [np.full(z.size, np.inf)] * (min(k, z.size) + 1)
    for j in range(keep.size, values.size):
        try:
            found = s.sparse_maximum(z, j, mu, keep)
        except EmptySlice:
            continue
        if found is None:
            return None
        values[j], members[j] = found[0], members[j] if found[1] is None else found[1]
    return values, members


def dynamic_programme(tables: Sequence[np.ndarray], k: int) -> list[int]:
    """argmax Σ_g v_g(j_g) over Σ_g j_g <= k for any tables v_g(0), v_g(1), ...; -inf marks what is impossible."""
    best, choices = np.zeros(k + 1), []
    for table in (table[: k + 1] for table in tables):
        before = np.arange(k + 1)[:, None] - np.arange(table.size)  # entries left for the groups before
        total = np.where(before >= 0, best[before], -np.inf)
        with np.errstate(invalid="ignore"):  # -inf + inf
            total = np.where((total == -np.inf) | (table == -np.inf), -np.inf, total + table)
        choices.append(total.argmax(axis=1))
        best = total.max(axis=1)
    if best[k] == -np.inf:
        raise EmptySlice(f"no way to share k={k} nonzeros among the groups gives each what its set needs; raise k")
    left, counts = k, []
    for choice in reversed(choices):
        counts.append(int(choice[left]))
        left -= counts[-1]
    return counts[::-1]


def _top_columns(score: np.ndarray, cap: int) -> np.ndarray:
    """The columns of the `cap` largest entries of every row, in increasing order; ties: the lowest column."""
    rows, width = score.shape
    if cap == 1:
        return np.asarray(score.argmax(axis=1)[:, None])
    kth = np.partition(score, width - cap, axis=1)[:, width - cap, None]
    chosen = score >= kth
    if np.count_nonzero(chosen) > rows * cap:
        above = score > kth
        tied = chosen & ~above
        chosen = above | (tied & (np.cumsum(tied, axis=1) <= cap - above.sum(axis=1, keepdims=True)))
    return np.asarray(np.flatnonzero(chosen).reshape(rows, cap) - width * np.arange(rows)[:, None])
