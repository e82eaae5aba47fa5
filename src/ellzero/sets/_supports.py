"""Which k coordinates to keep where Γ has members on some supports only: an exact budget under caps, say.

    max Σ_a score_a z_a   over   w in Γ, w_i = 0 where z_a(i) = 0, Σz <= k (and quotas), z in {0, 1}

a(i) is the atom of coordinate i: itself, unless the sparsity says otherwise.

The bounds and caps of Γ are written down as a mixed-integer linear programme (SciPy's HiGHS); what cannot be written so
is added by cuts, each of which a projection finds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import best_entries
from ..sparsity import Sparsity, as_sparsity
from ._slices import EmptySlice

if TYPE_CHECKING:
    from .base import ConstraintSet

_ROUNDS = 50
_SECONDS = 5.0


def choose_support(gamma: ConstraintSet, v: np.ndarray, k: int | Sparsity, keep: np.ndarray) -> np.ndarray:
    """The k coordinates (or atoms) of largest |v| on which Γ has a member; those of the wrong sign count last.

    Where no such support is found, the largest: projecting onto their slice then says what is wrong.
    """
    d, sparsity = v.size, as_sparsity(k)
    negative, positive = gamma.signs(d)
    score = np.where(np.where(v > 0, positive, negative), np.abs(v), 0.0).astype(float)
    forced = gamma.forced_among(d)
    keep = np.union1d(keep, forced).astype(np.intp)
    if not sparsity.admits(keep):
        allowed = f"at most {sparsity.k} nonzeros" if sparsity.plain else sparsity.words
        raise EmptySlice(f"{gamma!r} has no member with {allowed}: {forced.size} bounds exclude 0; raise k")
    largest: np.ndarray = sparsity.best_support(score, keep)
    if sparsity.size(keep) == sparsity.k or not sparsity.by_atoms or has_member(gamma, largest, d):
        return largest
    found = _Programme(gamma, score, sparsity, keep).solve()
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

    def __init__(self, gamma: ConstraintSet, score: np.ndarray, sparsity: Sparsity, keep: np.ndarray) -> None:
        self.gamma, self.d, self.sparsity, self.keep = gamma, score.size, sparsity, keep
        self.atoms = np.arange(self.d) if sparsity.atoms is None else sparsity.atoms
        self.score = score if sparsity.atoms is None else np.square(sparsity.norms(score / (score.max() or 1.0)))
        self.shape = gamma.polyhedron_around(self.d)
        self.scale = self.shape.scale()
        self.cuts: list[tuple[np.ndarray, float]] = []  # rows over (w, |w|, z), each at most its number
        # the scores decide; among equal ones w stays small, and a place that no score wants is left free
        worth = -self.score / (self.score.max(initial=0.0) or 1.0)
        self.cost = np.concatenate([np.zeros(self.d), np.full(self.d, 1e-6), worth])

    def solve(self) -> np.ndarray | None:
        """Supports in the order of their scores, until Γ has a member on one."""
        for _ in range(_ROUNDS):
            if (found := self._next()) is None:
                return None
            w, support = found
            if has_member(self.gamma, support, self.d):
                return self._filled(support)
            outside = np.ones(self.score.size)
            outside[self.sparsity.atoms_of(support)] = 0.0
            # nothing less than another atom mends an empty slice
            self.cuts.append((np.concatenate([np.zeros(2 * self.d), -outside]), -1.0))
            for project in self.gamma._factors() or [self.gamma.project]:
                nearest = np.asarray(project(self.scale * w)) / self.scale
                if (size := float(np.abs(w - nearest).max())) > 1e-9:
                    slope = (w - nearest) / size
                    self.cuts.append((np.append(slope, np.zeros(self.cost.size - self.d)), float(slope @ nearest)))
        return None

    def _filled(self, support: np.ndarray) -> np.ndarray:
        """With the best of the other coordinates, as many as k leaves room for: a larger slice has the member too."""
        if not self.sparsity.plain:
            return self.sparsity.best_atoms(self.score, support)
        return np.asarray(best_entries(-self.cost[2 * self.d :], self.sparsity.k, support))

    def _quotas(self, zero: np.ndarray) -> Any:
        """No more than k atoms, and no more of each group than its quota."""
        from scipy.optimize import LinearConstraint

        rows, most = [np.append(zero, np.ones(self.score.size))], [self.sparsity.k]
        if self.sparsity.quotas is not None:
            group, caps = self.sparsity.quotas
            rows += [np.append(zero, group == g) for g in range(caps.size)]
            most += caps.tolist()
        return LinearConstraint(np.array(rows), ub=most)

    def _next(self) -> tuple[np.ndarray, np.ndarray] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array, eye_array, hstack

        d, n, shape, one = self.d, self.score.size, self.shape, eye_array(self.d)
        none, always = csr_array((d, d)), self.atoms < 0
        reach = np.minimum(shape.reach() / self.scale, 1e6)  # a million sizes of Γ where nothing bounds it
        unused, used = csr_array((d, n)), np.flatnonzero(~always)
        owned = csr_array((-reach[used], (used, self.atoms[used])), shape=(d, n))
        rows = [
            LinearConstraint(hstack([one, -one, unused]), ub=0.0),
            LinearConstraint(hstack([-one, -one, unused]), ub=0.0),
            LinearConstraint(hstack([none, one, owned]), ub=np.where(always, reach, 0.0)),
            self._quotas(np.zeros(2 * d)),
        ]
        if shape.h.size:
            low = np.where(shape.equal, shape.h, -math.inf) / self.scale
            rows.append(
                LinearConstraint(
                    np.hstack([0 * shape.A, shape.A, np.zeros((shape.h.size, n))]), low, shape.h / self.scale
                )
            )
        if self.cuts:
            rows.append(LinearConstraint(np.array([row for row, _ in self.cuts]), ub=[cap for _, cap in self.cuts]))
        least = np.zeros(n)
        least[self.sparsity.atoms_of(self.keep)] = 1.0
        bounds = Bounds(
            np.concatenate([np.maximum(shape.lower / self.scale, -reach), np.zeros(d), least]),
            np.concatenate([np.minimum(shape.upper / self.scale, reach), reach, np.ones(n)]),
        )
        integral = np.concatenate([np.zeros(2 * d), np.ones(n)])
        found = milp(self.cost, integrality=integral, bounds=bounds, constraints=rows, options={"time_limit": _SECONDS})
        if found.x is None:
            return None
        return found.x[:d], np.flatnonzero(np.append(found.x[2 * d :] > 0.5, True)[self.atoms])
