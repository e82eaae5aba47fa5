"""The relaxation of a quadratic risk under bounds and linear caps: `perspective_dual`, maximised."""

import math
import time
from typing import Any, Self

import numpy as np

from ..risks.accuracy import QuadraticForm
from ..sets.polyhedron import Polyhedron
from .answer import Answer, NoBound
from .perspective_atoms import AtomDual
from .perspective_dual import PerspectiveDual, Point
from .quadratic_form import improve_split, smallest_eigenvalue
from .relaxation import Relaxation, Relaxed
from .supports import AtomSupports, Decisions, Supports

_LARGEST_SPLIT = 300  # coordinates; a split takes some inverses of such a matrix


class Perspective(Relaxation):
    """max B(v, λ), with a diagonal δ > 0 split off Q such that Q - diag(δ) is positive semidefinite.

    `index` tells which coordinates of the problem these are.
    """

    advice = "a larger ridge, a smaller k or tighter bounds on the coefficients make the relaxation sharper"

    def __init__(
        self, form: QuadraticForm, supports: Supports, gamma: Polyhedron, delta: np.ndarray, index: np.ndarray
    ) -> None:
        super().__init__(supports, index)
        if isinstance(supports, AtomSupports):
            self.dual: PerspectiveDual = AtomDual(form, supports, gamma, delta)
        else:
            self.dual = PerspectiveDual(form, supports, gamma, delta)

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """For a quadratic R that is curved once exact copies of columns are left out, and a Γ of bounds and caps."""
        form, shape, d = answer.form, answer.gamma.polyhedron(answer.d), answer.d
        if form is None or shape is None:
            raise NoBound("R is not quadratic, or Γ is not made of bounds and caps")
        index, twins = np.arange(d), np.empty(0, dtype=np.intp)
        if not (splits := _splits(form)):
            index, twins = answer.without_copies(index, np.flatnonzero(answer.x))
            if 0 < index.size < d:
                form, shape = form.restrict(index), shape.restrict(index)
                splits = _splits(form)
        if not splits:
            raise NoBound("no curvature can be split off the matrix of R")
        relaxation = cls(form, answer.supports.restrict(index), shape, splits[0], index)
        relaxation.twins, relaxation.deadline = twins, answer.deadline
        start = relaxation.start(answer)
        best, chosen = -math.inf, splits[0]
        for delta in splits:
            relaxation.dual.use(delta)
            bound = relaxation.solve(start, answer.x[index], answer.result.fun, first=True).bound
            if bound > best:
                best, chosen = bound, delta
        relaxation.dual.use(chosen)
        relaxation.how = f"perspective relaxation with curvature {chosen.min():.3g} split off, by Newton's method"
        return relaxation

    def solve(self, part: Decisions, warm: Any, cutoff: float, *, first: bool = False) -> Relaxed:
        """The maximum of B, by Newton's method: its last steps are its best, so that it is not stopped early."""
        return self.maximise(part, warm, cutoff, 300 if first else 60, 1e-7)

    def settle(self, support: np.ndarray, warm: Any, cutoff: float) -> float:
        """The relaxation is exact once nothing is left to decide."""
        out = np.ones(self.index.size, dtype=bool)
        out[support] = False
        return self.maximise(Decisions(support, out), warm, cutoff, 2000, 1e-12).bound

    def maximise(self, part: Decisions, warm: Any, cutoff: float, max_iter: int, tol: float) -> Relaxed:
        """Maximise B, until it exceeds the cutoff or rises no more; warm is a point, or one with its multipliers."""
        dual = self.dual
        start, multipliers = warm if isinstance(warm, tuple) else (warm, None)
        w = np.array(start, dtype=float)
        w[part.out] = 0.0
        best = here = dual.at(w, dual.first_prices(w) if multipliers is None else multipliers, part)
        failures, metric = 0, 1.0
        while best.bound < cutoff and max_iter > 0 and time.perf_counter() < self.deadline:
            ahead = dual.newton(here, metric, part)
            max_iter -= 1
            rise = -math.inf
            if ahead is not None:
                there = dual.at(*ahead, part)
                if there.bound < best.bound and here is best:
                    there = self._shorter(best, there, part)
                rise = there.bound - best.bound
                if rise > 0:
                    here = best = there
                if abs(rise) <= tol * abs(best.bound):
                    break
            if rise > 0:
                metric = 1.0
            elif here is best and metric < 60:
                metric *= 8.0  # the same point, seen by shorter proximal steps
            else:  # longer ways lead through points of lower bounds
                failures, metric = failures + 1, 1.0
                if failures > 8:
                    break
                steps = min(max_iter, 5 * failures)
                here, top = dual.descend(here, part, steps)
                max_iter -= steps
                best = top if top.bound > best.bound else best
        bound = -math.inf if math.isnan(best.bound) else best.bound
        return Relaxed(bound, best.w, dual.share(best, part.kept), (best.w, best.multipliers), best.gains)

    def _shorter(self, here: Point, there: Point, part: Decisions) -> Point:
        """The first point on the way there that is better than here: B is concave; there, if none is."""
        size = 0.5
        while size > 1e-3:
            w, multipliers, z = (
                a + size * (b - a)
                for a, b in ((here.w, there.w), (here.multipliers, there.multipliers), (here.z, there.z))
            )
            between = self.dual.at(w, multipliers, part, z)
            if between.bound > here.bound:
                return between
            size *= 0.4
        return there

    def screen(self, relaxed: Relaxed, part: Decisions, level: float) -> Decisions:
        """Fix what the gains decide.

        Where the bound with i forced in, or out, exceeds the level, no better point is there (Atamtürk & Gómez 2020).
        """
        gains = relaxed.evidence
        # a bound above the level decides the whole part, not single coordinates
        found = self.supports.exchange(gains, part) if relaxed.bound <= level else None
        if found is None:
            return part
        free, enter, leave = found
        level += 1e-12 * (abs(level) + self.supports.widest * float(gains[free].max()))  # sums of a few rounded numbers
        excluded = free[relaxed.bound + enter > level]
        included = free[relaxed.bound + leave > level]
        if excluded.size:
            part = part.leaving(excluded)
        fits = included.size and self.supports.admits(np.concatenate([part.kept, included]))
        return self.supports.closed(part.taking(included)) if fits else part

    def restrict(self, stay: np.ndarray, relaxed: Relaxed) -> tuple[Relaxation, Any]:
        """A principal part of a semidefinite matrix is semidefinite, and more can be split off it."""
        index, dual = np.flatnonzero(stay), self.dual
        form = dual.form.restrict(index)
        delta = max((dual.delta[index], *_splits(form)), key=np.sum)
        supports = self.supports.restrict(index)
        smaller = Perspective(form, supports, dual.gamma.restrict(index), delta, self.index[index])
        smaller.twins, smaller.deadline, smaller.how = self.twins, self.deadline, self.how
        return smaller, (relaxed.w[index], relaxed.warm[1])

    def sharpen(self, relaxed: Relaxed, part: Decisions, cutoff: float) -> Any:
        """Another diagonal, weighed by where the relaxation is loose."""
        if self.index.size > _LARGEST_SPLIT or time.perf_counter() > self.deadline:
            return None
        before, share = self.dual.delta, np.clip(relaxed.share, 1e-6, 1.0)
        aim = improve_split(self.dual.form, before, relaxed.w**2 * (1 / share - 1))
        for mix in (1.0, 0.5, 0.25):  # feasible as well: the feasible δ are a convex set
            self.dual.use(before + mix * (aim - before))
            again = self.solve(part, relaxed.warm, cutoff)
            if cutoff - again.bound < 0.9 * (cutoff - relaxed.bound):
                return again.warm
        self.dual.use(before)
        return None


def _splits(form: QuadraticForm) -> list[np.ndarray]:
    """Diagonals that can be split off."""
    candidates = [smallest_eigenvalue(form, scaled) for scaled in (True, False)]
    return [delta for delta in candidates if delta.size and (delta > 0).all()]
