"""The same set in other units."""

from __future__ import annotations

import numpy as np

from .balls import L1Ball, L2Ball, LpBall, Simplex, SubSimplex
from .base import ConstraintSet
from .combine import Intersection
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .groups import GroupWise
from .polytopes import PackingPolytope
from .weighted import Ellipsoid, WeightedL1Ball


def rescale(gamma: ConstraintSet, scales: np.ndarray) -> ConstraintSet | None:
    """{u : scales∘u in Γ}; None where no set of ours describes it."""
    c = float(scales[0]) if scales.size else 1.0
    uniform = bool((scales == c).all())
    if gamma.redefined:
        return None
    match gamma:
        case Everywhere() | NonNegative():
            return gamma
        case Box():
            return Box(gamma.lower / scales, gamma.upper / scales)
        case LinfBall():
            return LinfBall(gamma.radius / c) if uniform else Box(-gamma.radius / scales, gamma.radius / scales)
        case L1Ball():
            return L1Ball(gamma.radius / c) if uniform else WeightedL1Ball(scales, gamma.radius)
        case WeightedL1Ball():
            weights = gamma.weights * scales
            if np.allclose(weights, weights[0], rtol=1e-13, atol=0.0):
                return L1Ball(gamma.radius / weights[0])
            return WeightedL1Ball(weights, gamma.radius)
        case L2Ball():
            return L2Ball(gamma.radius / c) if uniform else Ellipsoid(1 / scales, gamma.radius)
        case Ellipsoid():
            halves = gamma.scales / scales
            if np.allclose(halves, halves[0], rtol=1e-13, atol=0.0):
                return L2Ball(gamma.radius * halves[0])
            return Ellipsoid(halves, gamma.radius)
        case LpBall():
            return LpBall(gamma.p, gamma.radius / c) if uniform else None
        case SubSimplex():
            return SubSimplex(gamma.total / c) if uniform else PackingPolytope(scales[None, :], [gamma.total])
        case Simplex():
            return Simplex(gamma.total / c) if uniform else None
        case PackingPolytope():
            return PackingPolytope(gamma.A * scales[None, :], gamma.b)
        case Intersection():
            parts = [s.rescaled(scales) for s in gamma.sets]
            return None if None in parts else Intersection(*parts, tol=gamma.tol, max_iter=gamma.max_iter)  # type: ignore[arg-type]
        case GroupWise():
            pairs = zip(gamma.names, gamma.sets, gamma._members, strict=True)
            inner = {name: s.rescaled(scales[index]) for name, s, index in pairs if s is not None}
            if None in inner.values():
                return None
            return GroupWise(inner, dict(zip(gamma.names, gamma._members, strict=True)))  # type: ignore[arg-type]
    return None


def natural_scales(gamma: ConstraintSet, d: int) -> np.ndarray | None:
    """The units in which Γ is plainest: those of its weights; None if one is as good as another."""
    if gamma.redefined:
        return np.ones(d)
    match gamma:
        case Everywhere() | NonNegative() | Box() | LinfBall():
            return None
        case WeightedL1Ball():
            return 1 / gamma.weights
        case Ellipsoid():
            return gamma.scales
        case GroupWise():
            scales, indifferent = np.ones(d), True
            for s, index in zip(gamma.sets, gamma._members, strict=True):
                inner = None if s is None else natural_scales(s, index.size)
                if inner is not None:
                    scales[index], indifferent = inner, False
            return None if indifferent else scales
        case Intersection():
            return None if all(natural_scales(s, d) is None for s in gamma.sets) else np.ones(d)
    return np.ones(d)
