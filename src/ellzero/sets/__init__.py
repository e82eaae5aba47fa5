"""Convex constraint sets Γ, each with its projection."""

from .balls import L1Ball, L2Ball, LpBall, Simplex, SubSimplex
from .base import ConstraintSet, EmptySlice
from .combine import Intersection
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .groups import GroupWise
from .polytopes import PackingPolytope
from .portfolio import Portfolio
from .weighted import Ellipsoid, WeightedL1Ball

__all__ = [
    "Box",
    "ConstraintSet",
    "Ellipsoid",
    "EmptySlice",
    "Everywhere",
    "GroupWise",
    "Intersection",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "LpBall",
    "NonNegative",
    "PackingPolytope",
    "Portfolio",
    "Simplex",
    "SubSimplex",
    "WeightedL1Ball",
]
