"""From a risk, a set and an answer to the relaxation that fits them, and the first bound."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import finfo_eps, to_host
from ..risks import Risk
from ..risks.accuracy import EPS, Measured, PlainMeasure, QuadraticForm
from ..sets import Box, ConstraintSet, EmptySlice, Everywhere, LinfBall, NonNegative
from ..sets._slices import Polyhedron, enclosing, polyhedron
from ..sets.base import MemberNotFound
from ..solver.exchanges import refit
from ..solver.problem import make_problem
from ..solver.result import Result
from ..theory.extents import largest_norm
from ._copies import without_copies
from ._form import improve_split, smallest_eigenvalue
from ._leaf import Slice, bound_on_support
from ._parts import FormPart, ModelPart, PlainPart, SmoothPart
from .atoms import Atoms
from .branch_and_bound import Relaxation, Search, Whole, screen
from .perspective import Perspective

_LARGEST_SPLIT = 300  # coordinates; a split takes some inverses of such a matrix
_LARGEST_WHOLE = 2000  # coordinates of a support that is bounded by itself: eigenvalues of such a matrix


def _splits(form: QuadraticForm) -> list[np.ndarray]:
    """Diagonals that can be split off."""
    candidates = [smallest_eigenvalue(form, scaled) for scaled in (True, False)]
    return [delta for delta in candidates if delta.size and (delta > 0).all()]


def _too_small(risk: Risk) -> str:
    """Why nothing can be proved of data whose squares are lost; empty if they are not."""
    squares = risk.squares()
    if squares is not None and ((squares > 0) & (squares < 1e-280)).any():
        return "the data are so small that their squares underflow; rescale them"
    return ""


class Root:
    """The problem of a result, its relaxation, and what that proves before any branching."""

    def __init__(self, risk: Risk, result: Result, deadline: float) -> None:
        self.risk, self.result, self.deadline = risk, result, deadline
        self.problem = make_problem(risk, result.k, result.constraint, result.keep)
        self.k, self.d = result.k, risk.n_features
        self.x = to_host(result.x).astype(float)
        self.index = np.arange(self.d)  # coordinates that are still in question
        self.kept = self.problem.kept
        self.how = self.advice = self.refused = ""
        self.at_zero = math.nan
        self.fixed_in = self.fixed_out = np.empty(0, dtype=np.intp)
        self.twins = np.empty(0, dtype=np.intp)  # coordinates with exact copies: none of these is in every answer
        self.larger = False  # whether Γ was replaced by a larger set
        if not risk.has_gradient:
            self.refused = "a black box has no gradients, and without convexity no value bounds another"
            return
        self.at_zero = risk.at(risk.zero).value
        here = self._measure(self.x, np.flatnonzero(self.x), closely=False)
        self.value, self.error, self.grain = here.value, here.error, here.grain
        self._check()
        if not risk.convex:
            self.refused = "R is not known to be convex; if it is, say so (Smooth(..., convex=True))"
            return
        self.floor = float(risk.lower_bound)
        self.relaxation: Relaxation | None = None
        if too_small := _too_small(risk):
            self.refused = too_small
            return
        readable = risk.readable
        if self.k >= self.d and self.d <= _LARGEST_WHOLE and readable:  # nothing to relax: one convex problem
            with suppress(MemberNotFound):  # then nothing is known
                self.floor = max(self.floor, self.bound(np.arange(self.d)))
            self.how = "the convex problem itself: its best point, and how little a projected step moves it"
            if result.fun - self.floor <= self.allowance(None, result.fun):
                self.relaxation = Whole(self.k)
                return
        self.form = risk.quadratic_form(self.k)
        self.relaxation = self._choose()
        if self.refused and self.k >= self.d and readable and math.isfinite(self.floor):
            self.relaxation, self.refused = Whole(self.k), ""

    def _choose(self) -> Relaxation | None:
        gamma, form = self.problem.gamma, self.form
        shape = polyhedron(gamma, self.d)
        if form is not None and shape is not None:
            if candidates := _splits(form):
                return self._perspective(form, shape, candidates)
            stay, twins = without_copies(self.risk, gamma, self.index, np.union1d(np.flatnonzero(self.x), self.kept))
            if 0 < stay.size < self.d and (candidates := _splits(form.restrict(stay))):
                self.index, self.twins = stay, twins
                return self._perspective(form.restrict(stay), shape.restrict(stay), candidates)
        part = self._part(form)
        sets = [gamma] if gamma.has_sparse_maximum(part.mu) else enclosing(gamma, self.d)
        self.larger = sets != [gamma]
        return self._atoms(part, sets)

    def _perspective(self, form: QuadraticForm, shape: Polyhedron, candidates: list[np.ndarray]) -> Perspective:
        relaxation = Perspective(form, self.k, shape, candidates[0])
        relaxation.deadline = self.deadline
        out = np.zeros(self.index.size, dtype=bool)
        best, chosen = -math.inf, candidates[0]
        kept, x = np.searchsorted(self.index, self.kept), self.x[self.index]
        for delta in candidates:
            relaxation.use(delta)
            bound = relaxation.solve(kept, out, x, self.result.fun, 300).bound
            if bound > best:
                best, chosen = bound, delta
        relaxation.use(chosen)
        self.how = f"perspective relaxation with curvature {chosen.min():.3g} split off, by Newton's method"
        self.advice = "a larger ridge, a smaller k or tighter bounds on the coefficients make the relaxation sharper"
        return relaxation

    def _part(self, form: QuadraticForm | None) -> SmoothPart:
        risk = self.risk
        if form is not None:
            delta = smallest_eigenvalue(form, scaled=False)
            return FormPart(form, self.k, float(delta.min()) if delta.size else 0.0)
        terms = risk.linear_terms()
        return PlainPart(risk) if terms is None else ModelPart(terms)

    def _atoms(self, part: SmoothPart, sets: list[ConstraintSet]) -> Atoms | None:
        best: tuple[float, Atoms] | None = None
        z = part.look(self.x, part.image(self.x))
        for gamma in sets:
            relaxation = Atoms(part, gamma, self.k)
            if not gamma.has_sparse_maximum(relaxation.mu):
                continue
            value, _ = relaxation.maximum(z.z, z.error, self.kept, np.zeros(self.d, dtype=bool))
            if math.isfinite(value) and (best is None or value < best[0]):
                best = value, relaxation
        if best is None:
            self.refused = (
                "R has too little curvature to rely on (fewer samples than features, or dependent ones) and Γ does not "
                "bound every coefficient: a ridge > 0, or bounds (Box, LinfBall, L1Ball), make a bound possible"
            )
            if isinstance(part, ModelPart) and not math.isfinite(part.size):
                self.refused = (
                    "X is an operator whose entries cannot be read, so nothing bounds the rounding of its products; "
                    "a bound needs X as an array or a sparse matrix"
                )
            return None
        relaxation = best[1]
        relaxation.deadline = self.deadline
        over = f"a larger set, {relaxation.gamma!r}" if self.larger else "Γ"
        self.how = f"Frank-Wolfe with full correction over {over}, curvature {relaxation.mu:.3g}"
        self.advice = "a larger ridge or tighter bounds make it sharper"
        if relaxation.mu == 0:
            self.advice = (
                "R is flat in some directions (fewer samples than features, or collinear ones), so that only Γ bounds "
                "the relaxation; a ridge > 0, more samples or tighter bounds make it sharper"
            )
        if self.larger:
            self.advice += "; Γ itself has no known sparse maximum, so a larger set stands in for it"
        return relaxation

    def _check(self) -> None:
        """The result must be one of this risk: everything rests on its objective."""
        if self.x.size != self.d:
            raise ValueError(
                f"result must be what ellzero.minimize returned for this risk: it has {self.x.size} coordinates, the "
                f"risk {self.d}"
            )
        value, fun = self.value, self.result.fun
        if not abs(value - fun) <= 1e-9 * abs(value) + 1e-12 * abs(self.at_zero) + 2 * self.error:
            raise ValueError(
                f"result must be what ellzero.minimize returned for this risk: its objective is {fun:.8g}, "
                f"but R of its x is {value:.8g} here"
            )

    def measured(self, x: np.ndarray) -> tuple[float, float]:
        """R(x), and how far that may be off."""
        here = self._measure(x, np.flatnonzero(x), closely=False)
        return here.value, here.error

    def _measure(self, x: np.ndarray, support: np.ndarray, *, closely: bool) -> Measured:
        here = self.risk.measured(x, support, closely=closely)
        if here is None or not math.isfinite(here.value):
            point, nu = self.risk.at(self.risk.as_vector(x)), self.risk.strong_convexity
            curved = max(0.0, nu.value) if nu.source != "estimate" and math.isfinite(nu.value) else 0.0
            rounding = max(EPS, finfo_eps(self.risk.zero)) * max(self.d, self.risk.n_terms)
            here = PlainMeasure(point.value, x, to_host(point.gradient).astype(float), support, curved, rounding)
        return here

    def allowance(self, target: float | None, fun: float) -> float:
        """The gap that is left open: relative to R or, for a proof of optimality, to what x explains if less."""
        if target is not None:
            return target * abs(fun)
        explained = self.at_zero - fun
        if not (math.isfinite(explained) and explained > 0):
            return 1e-6 * abs(fun)
        less, more = sorted((abs(fun), explained))
        return max(1e-6 * less, min(self.grain, 1e-6 * more))  # a perfect fit is one up to the rounding of x

    def search(self, target: float | None) -> Search:
        """The search, with its root relaxed, screened and shrunk."""
        assert self.relaxation is not None
        floor = self.floor
        self.target = target

        def begin(warm: object = None) -> Search:
            relaxation = self.relaxation
            assert relaxation is not None
            kept, x = np.searchsorted(self.index, self.kept), self.x[self.index]
            return Search(relaxation, kept, x, self, partial(self.allowance, target), floor, self.deadline, warm)

        search = begin()
        while isinstance(self.relaxation, Perspective) and not search.done and time.perf_counter() < self.deadline:
            self._note(search)
            # what leaves the problem must be out of every point as good as the incumbent, not only of better ones
            _, out = screen(search.root, search.kept, search.heap[0].out, self.k, search.value)
            out &= ~np.isin(self.index, np.flatnonzero(self.x))  # the incumbent stays, as the start of everything
            if out.sum() >= 0.2 * self.index.size:
                self.index = self.index[~out]
                self.relaxation = self.relaxation.restrict(np.flatnonzero(~out))
                self._sharpen()
                floor, warm = max(floor, search.bound), (search.root.w[~out], search.root.warm[1])
            elif (warm := self._resplit(search)) is None:
                break
            search = begin(warm)
        self._note(search)
        node = search.heap[0]
        if isinstance(self.relaxation, Perspective):
            node.kept, node.out = search.fix(search.root, node.kept, node.out)
        else:
            node.kept, node.out = np.union1d(node.kept, self.fixed_in), node.out.copy()
            node.out[self.fixed_out] = True
        return search

    def _resplit(self, search: Search) -> Any:
        """Where to go on with another diagonal that cuts the gap by a tenth at least; None if that is not found.

        The diagonal is weighed by where the relaxation is loose.
        """
        relaxation, root = self.relaxation, search.root
        assert isinstance(relaxation, Perspective)
        if self.index.size > _LARGEST_SPLIT or time.perf_counter() > self.deadline:
            return None
        before = relaxation.delta
        share = np.clip(root.share, 1e-6, 1.0)
        aim = improve_split(relaxation.form, before, root.w**2 * (1 / share - 1))
        for mix in (1.0, 0.5, 0.25):  # feasible as well: the feasible δ are a convex set
            relaxation.use(before + mix * (aim - before))
            again = relaxation.solve(search.kept, search.heap[0].out, root.warm, search.cutoff)
            if search.cutoff - again.bound < 0.9 * (search.cutoff - root.bound):
                return again.warm
        relaxation.use(before)
        return None

    def _note(self, search: Search) -> None:
        """Keep what is proved about coordinates, in the user's numbering."""
        inside, outside = self._decide(search, search.value)
        self.fixed_in = np.setdiff1d(np.union1d(self.fixed_in, self.index[inside]), self.twins)
        self.fixed_out = np.union1d(self.fixed_out, self.index[outside])

    def _sharpen(self) -> None:
        """More can be split off a smaller matrix."""
        assert isinstance(self.relaxation, Perspective)
        relaxation = self.relaxation
        for scaled in (True, False):
            delta = smallest_eigenvalue(relaxation.form, scaled)
            if delta.sum() > relaxation.delta.sum():
                relaxation.use(delta)

    def refit(self, support: np.ndarray) -> tuple[float, np.ndarray]:
        """The least R on a support, and where it is attained; all in the coordinates of the search."""
        where = self.index[support]
        point = refit(self.risk, self.problem.gamma, where, self.result.x, deadline=self.deadline)
        return point.value, to_host(point.w).astype(float)[self.index]

    def interval(self, w: np.ndarray | None) -> tuple[float, float]:
        """Two numbers between which R lies at a point of the search; None stands for the result."""
        value, error = (self.value, self.error) if w is None else self.measured(self.whole(w))
        return value - error, value + error

    @np.errstate(over="ignore", invalid="ignore")
    def bound(self, support: np.ndarray) -> float:
        """A lower bound of R on a support, next to the least value: see `_leaf`."""
        where, gamma = self.index[support], self.problem.gamma
        where = without_copies(self.risk, gamma, where, self.kept)[0]
        point = refit(self.risk, gamma, where, self.result.x, deadline=self.deadline)
        w = to_host(point.w).astype(float)
        if self.result.fun < point.value and np.isin(np.flatnonzero(self.x), where).all():
            w = self.x.copy()
        here, across = self._measure(w, where, closely=True), 0.0
        if here.shifts is not None and type(gamma) is Everywhere:
            across = 1.0
        elif here.shifts is not None and type(gamma) is NonNegative:
            # members are shifted until one entry is 0; then the difference to an x of that kind has both signs, so that
            # its mean is at most its range, twice the largest entry of what is across
            across = 1 / (1 + 2 * math.sqrt(max(shift.size for shift in here.shifts)))
            for shift in here.shifts:
                w[where[shift]] -= w[where[shift]].min()
            here = self._measure(w, where, closely=True)
        x, reach = w[where], largest_norm(gamma, max(self.k, 1), self.d)
        extent = math.inf if reach is None else reach + float(np.linalg.norm(x))

        separable = type(gamma) in (Box, LinfBall, NonNegative)
        part = Slice(lambda v: gamma.supporting(v, where), extent, across, separable)
        return bound_on_support(here, x, part, 0.1 * self.allowance(None, here.value), self.deadline)

    def _decide(self, search: Search, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates that are in, or out of, every support whose R is at most `value`, by the root's bound."""
        root, d = search.root, self.index.size
        none = np.empty(0, dtype=np.intp)
        if not math.isfinite(root.bound) or root.bound > value:
            return none, none
        if search.kept.size == self.k:
            return none, np.setdiff1d(np.arange(d), search.kept)
        nothing = np.zeros(d, dtype=bool)
        if root.gains is not None:
            kept, out = screen(root, search.kept, nothing, self.k, value)
            return np.setdiff1d(kept, search.kept), np.flatnonzero(out)
        assert isinstance(self.relaxation, Atoms)
        if root.dual is None:
            return none, none
        base, z, error = root.dual
        free = np.setdiff1d(np.arange(d), search.kept)
        inside, outside = [], []
        for i in free:  # h* anew, with i forced out or in
            if time.perf_counter() > self.deadline:
                break
            if self.x[self.index[i]] != 0:
                without = nothing.copy()
                without[i] = True
                if base - self._maximum(z, error, search.kept, without) > value:
                    inside.append(i)
            elif base - self._maximum(z, error, np.append(search.kept, i), nothing) > value:
                outside.append(i)
        return np.array(inside, dtype=np.intp), np.array(outside, dtype=np.intp)

    def _maximum(self, z: np.ndarray, error: float, kept: np.ndarray, out: np.ndarray) -> float:
        assert isinstance(self.relaxation, Atoms)
        try:
            return self.relaxation.maximum(z, error, kept, out)[0]
        except MemberNotFound:
            return math.inf
        except EmptySlice:  # no member at all
            return -math.inf

    def whole(self, w: np.ndarray) -> np.ndarray:
        """A point of the search in the user's coordinates."""
        x = np.zeros(self.d)
        x[self.index] = w
        return x

    def best(self, search: Search) -> tuple[Any, float]:
        """The best point known, in the user's coordinates, and R there: the result, unless the search met a better."""
        if search.best is None:
            return self.result.x, self.result.fun
        x = self.risk.as_vector(self.whole(search.best))
        return x, self.measured(to_host(x).astype(float))[0]
