"""Convex constraint sets Γ, each with its projection."""

from .base import ConstraintSet, EmptySlice
from .combine import Intersection
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .groups import GroupWise
from .l1 import L1Ball, WeightedL1Ball
from .l2 import Ellipsoid, L2Ball
from .lp import LpBall
from .polytopes import PackingPolytope, Simplex, SubSimplex
from .portfolio import Portfolio

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
