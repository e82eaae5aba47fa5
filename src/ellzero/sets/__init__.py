"""Convex constraint sets Γ, each with its projection."""

from .balls import Ellipsoid, L1Ball, L2Ball, WeightedL1Ball
from .base import ConstraintSet, EmptySlice
from .combine import Intersection
from .elementwise import Box, Everywhere, LinfBall, NonNegative
from .groups import GroupWise
from .lp import LpBall
from .polytopes import PackingPolytope, Simplex, SubSimplex
from .portfolio import Portfolio
from .spectral import Spectral

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
    "Spectral",
    "SubSimplex",
    "WeightedL1Ball",
]
