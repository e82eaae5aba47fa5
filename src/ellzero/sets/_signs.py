"""Which signs the entries of members may have."""

from __future__ import annotations

import numpy as np

from .balls import Simplex, SubSimplex
from .base import ConstraintSet, is_known
from .combine import Intersection
from .elementwise import Box, NonNegative
from .groups import GroupWise
from .polytopes import PackingPolytope
from .portfolio import Portfolio


def admissible_signs(gamma: ConstraintSet, d: int) -> tuple[np.ndarray, np.ndarray]:
    """For each coordinate, whether members may be negative there, and whether positive; a guess for users' own sets."""
    negative, positive = np.ones(d, dtype=bool), np.ones(d, dtype=bool)
    if not is_known(gamma):
        return _seen_signs(gamma, d)
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


def _seen_signs(gamma: ConstraintSet, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The signs that projections of random vectors of several sizes have.

    Enough for a search that has to know which newcomers are worth a try, not for a proof.
    """
    rng = np.random.default_rng(0)
    try:
        seen = [np.asarray(gamma.project(10.0**e * rng.choice([-1.0, 1.0], d))) for e in range(-4, 5)]
    except Exception:  # written for another array library, say: whatever is wrong shows where it matters
        return np.ones(d, dtype=bool), np.ones(d, dtype=bool)
    return np.any([w < 0 for w in seen], axis=0), np.any([w > 0 for w in seen], axis=0)
