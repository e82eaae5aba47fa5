"""Pieces and relatives of a set that lower bounds are made of: slices, intervals, larger sets."""

from __future__ import annotations

import math
from typing import Any

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
    if not _ours(gamma):
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


def _ours(gamma: ConstraintSet) -> bool:
    """Whether the class is this library's: one of the users' own may inherit from it and be another set."""
    return type(gamma).__module__.startswith("ellzero.sets.")


def intervals(gamma: ConstraintSet, d: int) -> tuple[np.ndarray, np.ndarray] | None:
    """lower, upper of shape (d,) if Γ = {w : lower <= w <= upper}; None if it is more than that."""
    if not _ours(gamma):
        return None
    match gamma:
        case Everywhere():
            return np.full(d, -math.inf), np.full(d, math.inf)
        case NonNegative():
            return np.zeros(d), np.full(d, math.inf)
        case LinfBall():
            return np.full(d, -gamma.radius), np.full(d, gamma.radius)
        case Box():
            return tuple(np.broadcast_to(b, d).astype(float) for b in (gamma.lower, gamma.upper))  # type: ignore[return-value]
        case LpBall() if gamma.p == math.inf:
            return np.full(d, -gamma.radius), np.full(d, gamma.radius)
        case Intersection():
            parts = [intervals(s, d) for s in gamma.sets]
            if None in parts:
                return None
            return np.max([p[0] for p in parts], axis=0), np.min([p[1] for p in parts], axis=0)  # type: ignore[index]
        case GroupWise():
            lower, upper = np.full(d, -math.inf), np.full(d, math.inf)
            for s, index in zip(gamma.sets, gamma._members, strict=True):
                part = (None, None) if s is None else intervals(s, index.size)
                if part is None:
                    return None
                if s is not None:
                    lower[index], upper[index] = part[0], part[1]
            return lower, upper
    return None


def enclosing(gamma: ConstraintSet, d: int) -> list[ConstraintSet]:
    """Larger sets whose sparse maxima are known, for a Γ whose own are not; the whole space at the least."""
    if not _ours(gamma):
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
            known = [s for s in larger if intervals(s, d) is not None]
            if len(known) > 1:
                box = Box(*intervals(Intersection(*known), d))  # type: ignore[misc]
                larger = [s for s in larger if intervals(s, d) is None] + [box]
            return larger
        case GroupWise():
            larger_of: dict[Any, ConstraintSet] = {}
            for name, inside, index in zip(gamma.names, gamma.sets, gamma._members, strict=True):
                if inside is not None:
                    known_one = inside.has_sparse_maximum()
                    larger_of[name] = inside if known_one else enclosing(inside, index.size)[0]
            return [GroupWise(larger_of, dict(zip(gamma.names, gamma._members, strict=True)))]
    return [Everywhere()]
