"""Pieces and relatives of a set that lower bounds are made of: slices, polyhedra, larger sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .balls import L1Ball, L2Ball, LpBall, Simplex, SubSimplex
from .base import ConstraintSet
from .combine import Intersection
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .groups import GroupWise
from .polytopes import PackingPolytope
from .portfolio import Portfolio
from .weighted import Ellipsoid, WeightedL1Ball


def restrict(gamma: ConstraintSet, index: np.ndarray) -> ConstraintSet | None:
    """{w_index : w in Γ, w zero elsewhere} as a set of its own; None where no set of ours describes it.

    Raises EmptySlice if there is no such member.
    """
    gamma.require_slice(index)
    if gamma.redefined:
        return None
    match gamma:
        case Everywhere() | NonNegative() | LinfBall() | L1Ball() | L2Ball() | LpBall() | SubSimplex() | Simplex():
            return gamma
        case Box():
            return Box(*(b[index] if isinstance(b, np.ndarray) else b for b in (gamma.lower, gamma.upper)))
        case WeightedL1Ball():
            return WeightedL1Ball(gamma.weights[index], gamma.radius)
        case Ellipsoid():
            return Ellipsoid(gamma.scales[index], gamma.radius)
        case PackingPolytope():
            return PackingPolytope(gamma.A[:, index], gamma.b)
        case Intersection():
            parts = [restrict(s, index) for s in gamma.sets]
            return None if None in parts else Intersection(*parts, tol=gamma.tol, max_iter=gamma.max_iter)  # type: ignore[arg-type]
        case GroupWise():
            group, inner, members = gamma.group_of(index), {}, {}
            for g, s in enumerate(gamma.sets):
                where = np.flatnonzero(group == g)
                if s is None:
                    continue
                part = restrict(s, gamma._place[index[where]])  # EmptySlice if the group needs an entry
                if part is None:
                    return None
                if where.size:
                    inner[g], members[g] = part, where
            labels: list[int | None] = [None] * index.size
            for g, where in members.items():
                for i in where.tolist():
                    labels[i] = g
            return GroupWise(inner, labels) if index.size else Everywhere()
    return None


@dataclass
class Polyhedron:
    """{w : lower <= w <= upper, A|w| <= h}, with equality in the rows where `equal`; A >= 0.

    Where a row demands equality, or may have a negative multiplier, its coordinates are non-negative.
    """

    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    h: np.ndarray
    equal: np.ndarray

    @classmethod
    def box(cls, lower: Any, upper: Any, d: int) -> Polyhedron:
        """Bounds alone."""
        low, high = (np.broadcast_to(np.asarray(b, dtype=float), d).copy() for b in (lower, upper))
        return cls(low, high, np.zeros((0, d)), np.zeros(0), np.zeros(0, dtype=bool))

    @property
    def positive(self) -> np.ndarray:
        """Where w >= 0."""
        return np.asarray(self.lower >= 0)

    def with_row(self, row: Any, cap: float, equal: bool = False) -> Polyhedron:
        """One cap more."""
        A = np.vstack([self.A, np.broadcast_to(np.asarray(row, dtype=float), self.lower.size)])
        return Polyhedron(self.lower, self.upper, A, np.append(self.h, cap), np.append(self.equal, equal))

    def restrict(self, index: np.ndarray) -> Polyhedron:
        """The same for these coordinates, the others zero."""
        return Polyhedron(self.lower[index], self.upper[index], self.A[:, index], self.h, self.equal)


_WHOLE: WeakKeyDictionary[ConstraintSet, Polyhedron | None] = WeakKeyDictionary()
_LARGEST = 2**20  # entries of the matrix of a product of sets that is kept


def slice_of_product(gamma: ConstraintSet, support: np.ndarray) -> Polyhedron | None:
    """The slice of a product of polyhedra, or of a set larger than a portfolio's; None for other sets.

    It is cut out of the whole, which is written down once: a refit asks for one slice after the other, and to describe
    each anew takes longer than to solve it.
    """
    if isinstance(gamma, Portfolio) and gamma.n_features is None:  # the same for all coordinates
        return polyhedron(gamma, support.size)
    n_rows = len(gamma.sets) if isinstance(gamma, GroupWise) else len(getattr(gamma, "caps", ()))
    if not isinstance(gamma, (GroupWise, Portfolio)) or (gamma.n_features or math.inf) * (n_rows + 1) > _LARGEST:
        return None
    assert gamma.n_features is not None
    if gamma not in _WHOLE:
        _WHOLE[gamma] = polyhedron(gamma, gamma.n_features)
    whole = _WHOLE[gamma]
    if whole is None:
        return None
    part = whole.restrict(support)
    used = part.A.any(axis=1) | part.equal
    return Polyhedron(part.lower, part.upper, part.A[used], part.h[used], part.equal[used])


def polyhedron(gamma: ConstraintSet, d: int) -> Polyhedron | None:
    """Γ by bounds and caps, where it can be written so."""
    free = Polyhedron.box(-math.inf, math.inf, d)
    if gamma.redefined:
        return None
    match gamma:
        case Everywhere():
            return free
        case NonNegative():
            return Polyhedron.box(0.0, math.inf, d)
        case LinfBall():
            return Polyhedron.box(-gamma.radius, gamma.radius, d)
        case Box():
            return Polyhedron.box(gamma.lower, gamma.upper, d)
        case LpBall() if gamma.p == math.inf:
            return Polyhedron.box(-gamma.radius, gamma.radius, d)
        case LpBall() if gamma.p == 1:
            return free.with_row(1.0, gamma.radius)
        case L1Ball():
            return free.with_row(1.0, gamma.radius)
        case WeightedL1Ball():
            return free.with_row(gamma.weights, gamma.radius)
        case SubSimplex():
            return Polyhedron.box(0.0, math.inf, d).with_row(1.0, gamma.total)
        case Simplex():
            return Polyhedron.box(0.0, math.inf, d).with_row(1.0, gamma.total, equal=True)
        case PackingPolytope():
            A = gamma.A if isinstance(gamma.A, np.ndarray) else gamma.A.toarray()
            box = Polyhedron.box(0.0, math.inf, d)
            return Polyhedron(box.lower, box.upper, A, gamma.b, np.zeros(gamma.b.size, dtype=bool))
        case Portfolio():
            return _portfolio(gamma, d)
        case Intersection():
            parts = [polyhedron(s, d) for s in gamma.sets]
            known = [part for part in parts if part is not None]
            return _joined(known) if len(known) == len(parts) else None
        case GroupWise():
            for s, index in zip(gamma.sets, gamma._members, strict=True):
                part = None if s is None else polyhedron(s, index.size)
                if s is not None and part is None:
                    return None
                if part is not None:
                    free.lower[index], free.upper[index] = part.lower, part.upper
                    wide = np.zeros((part.h.size, d))
                    wide[:, index] = part.A
                    free = Polyhedron(
                        free.lower, free.upper, np.vstack([free.A, wide]), np.append(free.h, part.h),
                        np.append(free.equal, part.equal),
                    )  # fmt: skip
            return free
    return None


def _joined(parts: list[Polyhedron]) -> Polyhedron:
    lower, upper = np.max([p.lower for p in parts], axis=0), np.min([p.upper for p in parts], axis=0)
    A, h, equal = (np.concatenate(pieces) for pieces in zip(*((p.A, p.h, p.equal) for p in parts), strict=True))
    return Polyhedron(lower, upper, A, h, equal)


def _portfolio(gamma: Portfolio, d: int) -> Polyhedron | None:
    if not gamma.long_only and not (gamma.least == -math.inf and gamma.most == math.inf):
        return None  # the budget counts Σw, not Σ|w|
    out = Polyhedron.box(gamma.box.lower, gamma.box.upper, d)
    if gamma.groups is not None:
        group = gamma.groups.group_of(np.arange(d))
        for g, cap in enumerate(gamma.caps[:-1]):
            if math.isfinite(cap):
                out = out.with_row(group == g, float(cap))
    if math.isfinite(gamma.most) and gamma.least == gamma.most:
        return out.with_row(1.0, gamma.most, equal=True)
    if math.isfinite(gamma.most):
        out = out.with_row(1.0, gamma.most)
    return out  # without the lower end of a budget, which is a larger set: a valid bound


def enclosing(gamma: ConstraintSet, d: int) -> list[ConstraintSet]:
    """Larger sets whose sparse maxima are known, for a Γ whose own are not; the whole space at the least."""
    if gamma.redefined:
        return [Everywhere()]
    match gamma:
        case WeightedL1Ball():
            sizes = gamma.radius / gamma.weights
            return [L1Ball(float(sizes.max())), Box(-sizes, sizes)]
        case Ellipsoid():
            sizes = gamma.radius * gamma.scales
            return [L2Ball(float(sizes.max())), Box(-sizes, sizes)]
        case PackingPolytope():
            A = gamma.A if isinstance(gamma.A, np.ndarray) else gamma.A.toarray()
            with np.errstate(divide="ignore", invalid="ignore"):
                caps = np.where(A > 0, gamma.b[:, None] / A, math.inf).min(axis=0, initial=math.inf)
            larger: list[ConstraintSet] = [Box(0.0, caps)]
            for row, cap in zip(A, gamma.b, strict=True):
                weight = float(row.min(initial=math.inf))
                if weight > 0:
                    larger.append(SubSimplex(cap / weight))
            return larger
        case Portfolio():
            larger = [Box(*(np.broadcast_to(b, d).astype(float) for b in gamma.box._parameters()))]
            if gamma.groups is not None:
                ball = SubSimplex if gamma.long_only else L1Ball
                caps_of = {g: ball(float(c)) for g, c in enumerate(gamma.caps[:-1]) if math.isfinite(c)}
                members = {g: gamma.groups._members[g] for g in caps_of}
                larger.append(GroupWise(caps_of, members))
            if gamma.long_only and gamma.least == gamma.most:
                larger.append(Simplex(gamma.least))
            elif gamma.long_only and math.isfinite(gamma.most):
                larger.append(SubSimplex(gamma.most))
            return larger
        case Intersection():
            larger = []
            for s in gamma.sets:
                larger += [s] if s.has_sparse_maximum() else enclosing(s, d)
            return larger
        case GroupWise():
            larger_of: dict[Any, ConstraintSet] = {}
            for name, inside, index in zip(gamma.names, gamma.sets, gamma._members, strict=True):
                if inside is not None:
                    known_one = inside.has_sparse_maximum()
                    larger_of[name] = inside if known_one else enclosing(inside, index.size)[0]
            return [GroupWise(larger_of, dict(zip(gamma.names, gamma._members, strict=True)))]
    return [Everywhere()]
