"""Which k coordinates to keep where Γ has members on some supports only: an exact budget under caps, say.

    max Σ_i score_i z_i   over   w in Γ, w_i = 0 where z_i = 0, Σz <= k, z in {0, 1}

The bounds and caps of Γ are written down as a mixed-integer linear programme (SciPy's HiGHS); what cannot be written so
is added by cuts, each of which a projection finds.
"""

import math

import numpy as np

from .._core.arrays import best_entries
from .base import ConstraintSet, EmptySlice

_ROUNDS = 50
_SECONDS = 5.0


def choose_support(gamma: ConstraintSet, v: np.ndarray, k: int, keep: np.ndarray) -> np.ndarray:
    """The k coordinates of largest |v| on which Γ has a member; those of the wrong sign count last.

    Where no such support is found, the largest: projecting onto their slice then says what is wrong.
    """
    d = v.size
    negative, positive = gamma.signs(d)
    score = np.where(np.where(v > 0, positive, negative), np.abs(v), 0.0).astype(float)
    forced = gamma.forced_among(d)
    keep = np.union1d(keep, forced).astype(np.intp)
    if keep.size > k:
        raise EmptySlice(f"{gamma!r} has no member with at most {k} nonzeros: {forced.size} bounds exclude 0; raise k")
    largest: np.ndarray = best_entries(score, k, keep)
    if keep.size == k or has_member(gamma, largest, d):
        return largest
    found = _Programme(gamma, score, k, keep).solve()
    return largest if found is None else found


def has_member(gamma: ConstraintSet, support: np.ndarray, d: int) -> bool:
    """Whether a member of Γ is zero outside the support."""
    shape = gamma.polyhedron(d)
    if shape is not None and shape.exact:
        return shape.has_member_on(support)
    try:
        gamma.require_member(support)
    except EmptySlice:
        return False
    return True


class _Programme:
    """The programme in (w, |w|, z), everything divided by a size of Γ."""

    def __init__(self, gamma: ConstraintSet, score: np.ndarray, k: int, keep: np.ndarray) -> None:
        self.gamma, self.d, self.k, self.keep = gamma, score.size, k, keep
        self.shape = gamma.polyhedron_around(self.d)
        self.scale = self.shape.scale()
        self.cuts: list[tuple[np.ndarray, float]] = []  # rows over (w, |w|, z), each at most its number
        # the scores decide; among equal ones w stays small, and a place that no score wants is left free
        self.cost = np.concatenate([np.zeros(self.d), np.full(self.d, 1e-6), -score / (score.max(initial=0.0) or 1.0)])

    def solve(self) -> np.ndarray | None:
        """Supports in the order of their scores, until Γ has a member on one."""
        for _ in range(_ROUNDS):
            if (found := self._next()) is None:
                return None
            w, support = found
            if has_member(self.gamma, support, self.d):
                return self._filled(support)
            outside = np.ones(self.d)
            outside[support] = 0.0
            # nothing less than another coordinate mends an empty slice
            self.cuts.append((np.concatenate([np.zeros(2 * self.d), -outside]), -1.0))
            for project in self.gamma._factors() or [self.gamma.project]:
                nearest = np.asarray(project(self.scale * w)) / self.scale
                if (size := float(np.abs(w - nearest).max())) > 1e-9:
                    slope = (w - nearest) / size
                    self.cuts.append((np.concatenate([slope, np.zeros(2 * self.d)]), float(slope @ nearest)))
        return None

    def _filled(self, support: np.ndarray) -> np.ndarray:
        """With the best of the other coordinates, as many as k leaves room for: a larger slice has the member too."""
        return np.asarray(best_entries(-self.cost[2 * self.d :], self.k, support))

    def _next(self) -> tuple[np.ndarray, np.ndarray] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array, eye_array, hstack

        d, shape, one = self.d, self.shape, eye_array(self.d)
        none = csr_array((d, d))
        reach = np.minimum(shape.reach() / self.scale, 1e6)  # a million sizes of Γ where nothing bounds it
        rows = [
            LinearConstraint(hstack([one, -one, none]), ub=0.0),
            LinearConstraint(hstack([-one, -one, none]), ub=0.0),
            LinearConstraint(hstack([none, one, -one * reach[None, :]]), ub=0.0),
            LinearConstraint(np.concatenate([np.zeros(2 * d), np.ones(d)]), ub=self.k),
        ]
        if shape.h.size:
            low = np.where(shape.equal, shape.h, -math.inf) / self.scale
            rows.append(LinearConstraint(np.hstack([0 * shape.A, shape.A, 0 * shape.A]), low, shape.h / self.scale))
        if self.cuts:
            rows.append(LinearConstraint(np.array([row for row, _ in self.cuts]), ub=[cap for _, cap in self.cuts]))
        least = np.zeros(d)
        least[self.keep] = 1.0
        bounds = Bounds(
            np.concatenate([np.maximum(shape.lower / self.scale, -reach), np.zeros(d), least]),
            np.concatenate([np.minimum(shape.upper / self.scale, reach), reach, np.ones(d)]),
        )
        integral = np.concatenate([np.zeros(2 * d), np.ones(d)])
        found = milp(self.cost, integrality=integral, bounds=bounds, constraints=rows, options={"time_limit": _SECONDS})
        if found.x is None:
            return None
        return found.x[:d], np.flatnonzero(found.x[2 * d :] > 0.5)
