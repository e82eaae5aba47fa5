"""Which signs the entries of members may have."""

from __future__ import annotations

import numpy as np

from .balls import Simplex, SubSimplex
from .base import ConstraintSet
from .combine import Intersection
from .elementwise import Box, NonNegative
from .groups import GroupWise
from .polytopes import PackingPolytope
from .portfolio import Portfolio


def admissible_signs(gamma: ConstraintSet, d: int) -> tuple[np.ndarray, np.ndarray]:
    """For each coordinate, whether members may be negative there, and whether positive."""
    negative, positive = np.ones(d, dtype=bool), np.ones(d, dtype=bool)
    if gamma.redefined:
        return negative, positive
    match gamma:
        case NonNegative() | SubSimplex() | Simplex() | PackingPolytope():
            negative[:] = False
        case Portfolio():
            return admissible_signs(gamma.box, d)
        case Box():
            negative[:], positive[:] = np.less(gamma.lower, 0), np.greater(gamma.upper, 0)
        case Intersection():
            for s in gamma.sets:
                below, above = admissible_signs(s, d)
                negative, positive = negative & below, positive & above
        case GroupWise():
            for inner, index in zip(gamma.sets, gamma._members, strict=True):
                if inner is not None:
                    negative[index], positive[index] = admissible_signs(inner, index.size)
    return negative, positive
