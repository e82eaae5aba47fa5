"""The step of "auto" in a black box: along a gradient, or to where a model says, and by values in the end."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from ..._core.arrays import Array, like, norm, to_host
from ...risks.base import Point
from ...risks.evaluation import BudgetSpent
from ...sets import EmptySlice
from ..oracles import Gradients
from ..problem import Problem
from ..projections import Projector
from .asking import host, largest
from .looks import BoundLooks, step_length

_TRIES = 8
_SAME = 1e-12  # of the fall along all of a gradient: a step that promises less stays where it is but for rounding
_REACH = 8.0  # how far a model is believed at first, in units of the distances in it


class ValueStep:
    """w_t = P(w - ηĝ) with η from the values along the way, or the sparse minimiser of a model, if R is lower there.

    Values are compared with their noise in mind: a difference that noise explains is no improvement.
    """

    def __init__(self, looks: BoundLooks, problem: Problem) -> None:
        self.looks, self.problem = looks, problem
        self.values = looks.values
        self.size = math.nan
        lower, upper = problem.gamma.limits(looks.values.risk.n_features)
        self.widest = float(np.max(upper - lower, initial=0.0))

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point, or the same one if no step helped; the start, if it turns out that none has."""
        step = self._by_model if self.looks.near else self._by_gradient
        there = step(point, gradient, project)
        if there is not point:
            self.looks.evidence.look(there, 0.25)
        return self.looks.reconsider(there)

    def _by_gradient(self, point: Point, gradient: Array, project: Projector) -> Point:
        along = self._roughly if self.looks.far.hasty else self._along
        there = along(point, gradient, project)
        move = host(there) - host(point)
        length = step_length(host(there), move if move.any() else self.tried * to_host(gradient))
        length = min(length, 10 * self.widest or length)  # what leads much farther has no member of Γ on its way
        gain = point.value - there.value if there is not point else 0.0
        self.looks.after_far(there, to_host(gradient), gain, length, self.problem)
        return there

    # Along a gradient.

    def _along(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The best of P(w - ηg) for η = 1/L, L being the curvature that the last value on the way shows."""
        length = norm(gradient)
        base, best, w = self.values.base(point), point, host(point)
        self.tried = 0.0
        if length == 0 or not math.isfinite(length) or not self.looks.stands_out:
            return point
        if math.isnan(self.size):
            self.size = (largest(w) or 1.0) / largest(to_host(gradient))
        size, farther = self.size, False
        for _ in range(_TRIES):
            self.tried = size
            trial = self._projected(point, size * gradient, project)
            if trial is None:  # nowhere to go
                size *= 0.25
                continue
            move = to_host(trial.w) - w
            squares, fall = float(move @ move), float(to_host(gradient) @ move)
            if not fall / length < -_SAME * size * length:
                size *= 4.0
                continue
            try:
                value = self.values.trial(trial)
            except BudgetSpent:
                break
            if math.isnan(value):  # f is not defined there, or did not want to tell
                if best is not point:
                    break
                size *= 0.25
                continue
            # where long and short steps are as good, as they are beyond a kink, long ones lead on
            gain = base - best.value
            if best is point:
                taken = self._lower(trial, point)
            else:
                taken = value < best.value - 0.01 * gain if size < self.size else value <= best.value + 0.01 * gain
            if taken:
                best, self.size, trial.trusted = trial, size, bool(self.looks.level)
            lost_in_noise = best is point and self.looks.level and abs(value - base) <= 4 * self.looks.level
            if farther or lost_in_noise or (best is not point and not taken and size > self.size):
                break
            bend = 2 * (value - base - fall) / squares
            following = 1 / bend if bend > 1e-3 / size else 4.0 * size
            following = min(max(following, 0.05 * size), 20 * size)
            if best is point:
                size = min(following, 0.5 * size)
            elif taken and not 0.7 < following / size < 1.4:
                size = following
            else:
                size, farther = 2.0 * self.size, True
        return best

    def _roughly(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The best of few steps along a gradient that tells the way, but not how steep it is."""
        best, size, growth = point, (largest(host(point)) or 1.0) / (largest(to_host(gradient)) or 1.0), 2.0
        for _ in range(_TRIES):
            self.tried = size
            trial = self._projected(point, size * gradient, project)
            if trial is not None and np.array_equal(host(trial), host(best)):
                if best is not point or growth < 1:
                    break
                size *= growth
                continue
            try:
                better = trial is not None and self.values.trial(trial) < best.value
            except BudgetSpent:
                break
            if better:
                assert trial is not None
                best = trial
            elif best is not point or growth < 1:
                break
            else:  # a shorter one
                growth = 0.5
            size *= growth
        return best

    def _projected(self, point: Point, move: Array, project: Projector) -> Point | None:
        """P(w - move); None where Γ has no member on the support."""
        with suppress(EmptySlice):
            return point.risk.at(*project(point.w - move))
        return None

    def _lower(self, trial: Point, best: Point) -> bool:
        """Whether R is lower there, and not by chance: values that are close are asked for again."""
        level = self.looks.level
        if not level:
            return trial.value < best.value
        if trial.value < best.value - 4 * level:
            trial.trusted = True
            return True
        if trial.value > best.value + 4 * level:
            return False
        n = 8
        if self.values.affordable < 4 * n:
            return False
        with suppress(BudgetSpent):
            points = np.repeat(np.stack([host(trial), host(best)]), n, axis=0)
            values = self.values.at(points).reshape(2, n)
            there, here = np.nanmean(values, axis=1) if np.isfinite(values).any(axis=1).all() else (math.nan, math.nan)
            if there < here - 3 * level * math.sqrt(2 / n):
                trial._value, trial.trusted = float(there), True
                return True
        return False

    # By the model.

    def _by_model(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The model's minimiser, nearer until nothing speaks against it; and farther as long as values are as told."""
        looks, model, w = self.looks, self.looks.model, host(point)
        there, again, limited, damping, reach = point, False, False, 0.0, _REACH
        tries = 5 if to_host(gradient).any() else 0
        while tries:
            u = self._proposed(w, project, damping)
            if damping < 1e3 and model.reach(u) > reach:
                damping = max(4 * damping, 0.03)
                continue
            tries -= 1
            gain = model.c - model.predicted(u)
            more = gain - (0.0 if there is point else point.value - there.value)
            if there is not point and more <= max(6 * looks.level, 1e-3 * gain):
                break
            limited = gain <= 6 * looks.level
            trial, before = point.risk.at(like(u, point.w)), there
            if more > 0:
                with suppress(BudgetSpent):
                    there = self._judge(trial, there, more)
            if there is not before:
                won = point.value - there.value
                again = abs(won - gain) > 0.02 * gain
                if again or not damping:
                    break
                tries, reach, damping = 3, _REACH * reach, damping / 64
            elif there is not point:
                break
            else:
                damping = max(4 * damping, 0.03)
        if there is not point and not limited:
            looks.radius = looks.errors.given or max(0.5 * largest(host(there) - w), 1e-3 * looks.radius)
        gain = max(point.value - there.value, 1e-300) if there is not point else 0.0
        looks.after_near(gain, again, limited and bool(looks.level))
        return there

    def _proposed(self, w: np.ndarray, project: Projector, damping: float) -> np.ndarray:
        """The model's minimiser; under noise, on another support only if that stands out."""
        model, level = self.looks.model, self.looks.level
        u = model.minimiser(self.problem, project, w, level, damping)
        if level and not np.array_equal(u != 0, w != 0) and model.c - model.predicted(u) < 3 * model.doubt(u, level):
            return model.minimiser(self.problem, project, w, level, damping, exchange=False)
        return u

    def _judge(self, trial: Point, point: Point, gain: float) -> Point:
        """The trial, if values say so; or if they could not, and do not say the opposite."""
        level, model = self.looks.level, self.looks.model
        value = self.values.trial(trial)
        if math.isnan(value):
            return point
        model.remember(host(trial)[None, :], np.array([value]))
        if not level or gain > 6 * level:
            return trial if self._lower(trial, point) else point
        if value > model.c - gain + 3 * level:
            return point
        trial._value, trial.trusted = model.c - gain, True
        return trial


def value_step(oracle: Gradients, problem: Problem) -> ValueStep:
    """The step for an oracle that it can go with."""
    if not isinstance(oracle, BoundLooks):
        raise ValueError("step='values' goes with the looks of \"auto\" alone; with another oracle use step='search'")
    return ValueStep(oracle, problem)
