"""How far a method goes along a gradient."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._core.arrays import Array, finfo_eps, index_like, like, norm, scatter, to_host
from .._core.stopping import Status, Stop
from ..risks.base import Point
from ..risks.curvature import Curvature
from .problem import Problem
from .projections import Projector
from .refit import Units, refit
from .result import Counts
from .tabled import Tabled, worthy

#: the reading of `time.perf_counter` that ends a run
Deadline = Callable[[], float]
STEPS = ("1/L", "adaptive", "pursuit", "search", "factors", "replacement", "values")
#: those that take R(w) for what ∇R says it is
NEED_GRADIENTS = ("adaptive", "pursuit", "factors", "replacement")
_FEW = 64  # newcomers that are looked at together with a large support, in any case


class Step(Protocol):
    """The rule of a step size; `size` is the one used last."""

    size: float

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point: a projection of point - size · gradient."""


@dataclass
class ConstantStep:
    """w_t = P(w_{t-1} - η g)."""

    size: float

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        return point.risk.at(*project(point.w - self.size * gradient))


@dataclass
class SearchedStep:
    """The best of P(w - ηg) for η around the last one that helped, by function values alone.

    Tries η, η/2, 2η, η/4, 4η, ... until one of them lowers R, then goes on in that direction as long as this lowers R
    further; each value is counted. If none of the tried points is better than w, the point stays, and so does η: a
    better gradient may help where no other size does. The first η is the one that moves w by about its own size, or
    by 1.
    """

    counts: Counts
    size: float = math.nan
    tries: int = 12

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point, or the same one if no step helped."""
        length = norm(gradient)
        if length == 0:
            return point
        if math.isnan(self.size):
            self.size = max(1.0, point.size) / length
        base, best = self.counts.base_value(point), point
        start = size = self.size
        tries = 0
        while tries < self.tries and self.counts.free >= point.risk.calls_per_value:
            tries += 1
            trial = point.risk.at(*project(point.w - size * gradient))
            value = self.counts.base_value(trial)
            if value < min(best.value, base):
                best, self.size = trial, size
                size *= 2.0 if size >= start else 0.5
            elif best is not point:
                break  # past the best size
            else:  # shorter and longer in turns: a short step cannot change the support, noise makes one look good
                size = start * (0.5 if tries % 2 else 2.0) ** ((tries + 1) // 2)
        return best


@dataclass
class AdaptiveStep:
    """η_t = 1/L_t with the smallest L_t tried at which the proof of IHT-2SP goes through.

    L_t is halved after a success, then doubled until

        R(x) <= R(w_{t-1}) + <∇R(w_{t-1}), x - w_{t-1}> + (L_t/2)||x - w_{t-1}||²

    holds at x = w_t and, for the two-step projection, at x = v_t = H_k(w_{t-1} - ηg); then the theorem holds with
    the largest L_t in place of L (`largest_L` in the result). A rejected try costs a product with k columns.

    Attributes
    ----------
    threshold : Projector, optional
        H_k alone, where Γ makes v_t differ from w_t.
    """

    counts: Counts
    threshold: Projector | None = None
    size: float = math.nan
    largest_L: float = 0.0

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        L = _first_curvature(point, gradient, project, gradient) if math.isnan(self.size) else 0.5 / self.size
        for _ in range(200):
            v = point.w - gradient / L
            following = point.risk.at(*project(v))
            if self._smooth_enough(point, gradient, following, L) and (
                self.threshold is None or self._smooth_enough(point, gradient, point.risk.at(*self.threshold(v)), L)
            ):
                break
            L *= 2.0
        self.size, self.largest_L = 1 / L, max(self.largest_L, L)
        return following

    def _smooth_enough(self, point: Point, gradient: Array, x: Point, L: float) -> bool:
        move, value = x.w - point.w, self.counts.base_value(point)
        bound = value + float(gradient @ move) + 0.5 * L * float(move @ move)
        return self.counts.base_value(x) <= bound + 4 * finfo_eps(move) * abs(value)


@dataclass
class PursuitStep:
    """A projected gradient step for the support, then the best values on it (hard thresholding pursuit).

    The step size is halved until the refitted point is better, which costs no look at more than k columns, and kept
    from then on. A step that leaves the support as it is gets one try of twice the size; when that does not lead to
    a better support either, the search has settled.

    For a quadratic R, and Γ at most a matter of signs, steps start shorter and that last try is left to the exchanges.
    Without Γ the refit is one small system, so a better support is first looked for among 2k coordinates: the kept
    ones and as many others with the steepest slopes, refitted together (subspace pursuit); of whole atoms half as many
    are added, for these are many columns. Such steps go further, and gradient steps are left for when they do not help.

    Attributes
    ----------
    units : Units, optional
        Those in which entries are compared: the step goes along -units²∘g.
    deadline : callable
        The reading of `time.perf_counter` at which refits end as they are.
    """

    counts: Counts
    problem: Problem
    units: Units | None = None
    deadline: Deadline = lambda: math.inf
    size: float = math.nan
    largest_L: float = 0.0
    tries: int = 5

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        gamma = self.problem.gamma
        model = point.risk.curvature(point) if gamma.whole_space or gamma.orthant else None
        if model is not None and Tabled.fit(self.problem, model) and Tabled.suffice(self.problem):
            return self._on_table(point, gradient, model)
        quadratic, kinks = model is not None and model.exact, model is not None and model.piece is not None
        if math.isnan(self.size):  # where the curvature changes or budgets bind, longer steps find more
            L = _first_curvature(point, gradient, project, self._direction(gradient))
            self.size = (2.0 if quadratic else 4.0) / L
        # values that were refitted are the best on their support, others may still be improved there
        own = to_host(point.support) if point.refitted and point.support is not None else None
        if (trial := self._pursued(point, gradient, own, model, project)) is not None:
            return trial
        direction, size, farther, tried = self._direction(gradient), self.size, quadratic, own
        for _ in range(self.tries):
            w, support = project(point.w - size * direction)
            chosen = to_host(support)
            if own is not None and np.array_equal(chosen, own):
                if farther or size < self.size:
                    break  # smaller steps change the support even less
                size, farther = 2.0 * size, True
                continue
            first = point.at(chosen) if kinks else to_host(w)[chosen]  # refits in many steps begin at a good point
            if (tried is None or not np.array_equal(chosen, tried)) and (trial := self._better(point, first, chosen)):
                self.size, self.largest_L = size, max(self.largest_L, 1 / size)
                return trial
            if size > self.size or time.perf_counter() > self.deadline():
                break
            tried, size = chosen, 0.5 * size
        raise Stop(Status.SETTLED)

    def _direction(self, gradient: Array) -> Array:
        """That of the slopes, in the metric of the units."""
        return gradient if self.units is None else like(self.units.scales**2, gradient) * gradient

    def _pursued(
        self, point: Point, gradient: Array, own: np.ndarray | None, model: Curvature | None, project: Projector
    ) -> Point | None:
        """The best point on what is kept of the support and more coordinates, if it is better; of a quadratic alone."""
        if own is None or model is None or not (model.exact and self.problem.gamma.whole_space):
            return None
        w, support = project(self._among_more(point, gradient, own, model))
        chosen = to_host(support)
        return None if np.array_equal(chosen, own) else self._better(point, to_host(w)[chosen], chosen)

    def _on_table(self, point: Point, gradient: Array, model: Curvature) -> Point:
        """The best of many exchanges on the quadratic model, if it is better."""
        w, c = to_host(point.w).astype(float), -0.5 * to_host(gradient).astype(float)
        S, diagonal = self.problem.support_of(point.nonzeros), worthy(model.sizes)
        if S.size == self.problem.sparsity.k and point.refitted:
            raise Stop(Status.SETTLED)  # further ones are left to the finish
        table = Tabled(self.problem, model, S, w, c, diagonal, self.deadline())
        for support, start in table.supports(1e-10 * abs(point.value)):
            if trial := self._better(point, start[support], support):
                return trial
        raise Stop(Status.SETTLED)

    def _better(self, point: Point, first: np.ndarray, support: np.ndarray) -> Point | None:
        """The refitted point, if it is better."""
        value = self.counts.base_value(point)
        trial = refit(point.risk, self.problem.gamma, support, first, self.units, self.deadline(), value)
        trial.refitted = True
        return trial if self.counts.base_value(trial) < value - 1e-12 * abs(value) else None

    def _among_more(self, point: Point, gradient: Array, own: np.ndarray, model: Curvature) -> Array:
        """The best values on the support and as many more coordinates, or half as many more atoms.

        Of a large support as many as could be exchanged with profit.
        """
        slope = to_host(gradient) * (1.0 if self.units is None else self.units.scales)
        slope[own] = 0.0
        sparsity = self.problem.sparsity
        if sparsity.atoms is not None:
            sparsity = sparsity.with_k((sparsity.k + 1) // 2)
        elif model.remembers(own.size):
            sparsity = sparsity.with_k(self._worth_a_look(point, slope, own))
        more = sparsity.best_support(slope)
        both = np.union1d(own, more)
        return refit(point.risk, self.problem.gamma, both, point.at(both), self.units, self.deadline()).w

    def _worth_a_look(self, point: Point, slope: np.ndarray, own: np.ndarray) -> int:
        """Twice the number of exchanges that would help if columns were orthogonal, and a few."""
        entries = point.at(own) / (1.0 if self.units is None else self.units.scales[own])
        gains, losses = np.sort(0.5 * np.abs(slope))[::-1][: own.size], np.sort(np.abs(entries))
        number = int(np.count_nonzero(gains > losses[: gains.size]))
        return min(self.problem.sparsity.k, max(2 * number, _FEW))


def _first_curvature(point: Point, gradient: Array, project: Projector, direction: Array) -> float:
    """The curvature of R along the largest entries of a direction of the gradient: where the search for L begins."""
    _, support = project(point.w - direction)
    if support is not None:
        direction = scatter(direction[support], support, direction.shape[0])
    slope = float(gradient @ direction)  # also the squared length of the direction in its metric
    if not slope > 0:
        return 1.0
    near = None
    if support is not None and point.support is not None:
        near = index_like(np.union1d(to_host(support), to_host(point.support)), direction)
    h = 1e-3 * (point.size / norm(direction) or abs(point.value) / slope or 1.0)
    if not 0 < h * h * slope < math.inf:  # of data so large or small that squares of them leave the numbers
        return 1.0
    there = point.risk.at(point.w - h * direction, near)
    if not h * slope > 0:
        return 1.0
    bend = 2 * ((there.value - point.value + h * slope) / h) / (h * slope)  # h² may underflow
    return bend if 0 < bend < math.inf else 1.0
