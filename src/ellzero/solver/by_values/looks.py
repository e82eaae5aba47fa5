"""Where "auto" looks in a black box: far, at all coordinates with probes, or near, at few of them with a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._core.arrays import Array, like
from ..._core.directions import stream
from ..._core.stopping import Status, Stop
from ...risks.base import Point, Risk
from ...risks.evaluation import BudgetSpent
from ...theory.parameters import Oracle as Kind
from ..oracles import Gradients
from ..problem import Problem
from ..result import Counts
from .asking import host, largest, plain
from .evidence import Evidence
from .measured import LONGEST
from .noise import Noise, rounding
from .probes import ProbedGradients, SparseProbes
from .surrogate import Surrogate

_WIDEST = 40  # coordinates of a model at the most
_AGAIN = 64  # values after which a point is asked for again, then after twice as many, and so on
_FEW = 4  # times, where there is noise
_OTHER = 3.0  # times the noise that is known: there is another one here
_PLACE = 2**35  # of the random numbers of designs


@dataclass(frozen=True)
class Looks:
    """Gradients from probes of all coordinates, and, when these have cost as much, from a model of a few of them.

    Parameters
    ----------
    mu : float, optional
        The length of all differences; chosen from the measured noise by default.
    """

    mu: float | None = None
    kind: ClassVar[Kind] = "directions"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> BoundLooks:
        return BoundLooks(SparseProbes(mu=self.mu).bind(risk, counts, entropy))


class BoundLooks(Gradients):
    """The looks of one run.

    Attributes
    ----------
    far : ProbedGradients
    model : Surrogate
    near : bool
        Whether the next look is one at the model's coordinates.
    fresh : bool
        Whether these are new, so that the model is yet to be made.
    rent : float
        What was spent on probes since the last model: for as much a model is bought.
    radius : float
        How far designs go, in each coordinate.
    failed : int
        How often in a row the model has led nowhere.
    better : bool
        Whether anything was gained since the last look at all coordinates.
    evidence : Evidence
        That some point is better than the start.
    again : int
        After how many values the point is asked for again.
    """

    def __init__(self, far: ProbedGradients) -> None:
        self.far, self.values, self.errors = far, far.values, far.errors
        far.may_haste = True
        self.model = Surrogate(self.values.risk.n_features)
        self.evidence = Evidence(self.values, self.errors)
        self.near = self.fresh = self.better = False
        self.failed = 0
        self.rent, self.price, self.radius, self.effort, self.owed = 0.0, 1.0, math.nan, 0, 0.0
        self.gained, self.earned, self.again = 0.0, 0.0, _AGAIN

    _facts = (
        "near", "fresh", "better", "rent", "price", "radius", "effort", "owed", "gained", "earned", "failed", "again",
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        own = plain({name: getattr(self, name) for name in self._facts})
        far = {f"far.{name}": value for name, value in self.far.state().items()}
        own["shown"], own["asked"] = self.evidence.shown, self.values.asked
        return {**own, **far, **{f"model.{name}": value for name, value in self.model.state().items()}}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self._facts:
            setattr(self, name, type(getattr(self, name))(state[name]))
        self.evidence.shown, self.values.asked = bool(state["shown"]), int(state["asked"])
        for prefix, part in (("far.", self.far), ("model.", self.model)):
            part.restore({n.removeprefix(prefix): v for n, v in state.items() if n.startswith(prefix)})

    @property
    def noise(self) -> Noise | None:
        """What is known of the noise of values."""
        return self.errors.told(self.evidence.shown)

    @property
    def level(self) -> float:
        """The standard deviation of one value, where that is more than rounding; else 0."""
        return self.errors.level if self.errors.noisy else 0.0

    @property
    def stands_out(self) -> bool:
        """Whether the last look at all coordinates has seen more than noise."""
        return not self.level or (self.far.last is not None and self.far.last.significant().size > 0)

    def __call__(self, point: Point, t: int) -> Array:
        try:
            return self._look(point, t)
        except BudgetSpent:  # what is left pays for no gradient
            self.evidence.look(point, 1.0)
            raise

    def _look(self, point: Point, t: int) -> Array:
        if self.near:
            return self._near(point, t)
        self.better = False
        gradient = self.far(point, t)
        self.rent += self.far.spent
        self.owed += self.far.spent
        return gradient

    def _near(self, point: Point, t: int) -> Array:
        w, model = host(point), self.model
        if self.values.risk.noise_changes:
            model.forget()
            self.fresh = True
        model.move_to(w, model.chosen)
        here, rng = self.values.base(point), stream(self.far.entropy, _PLACE, t)
        again = self.errors.repeat(point, max(4, self._extra // 10)) if self.effort else np.array([here])
        model.remember(np.tile(w, (again.size, 1)), again)
        self._ask(w, self._design(w, rng))
        for _ in range(3):  # in place of what failed
            missing = model.unknowns(model.chosen.size) - model.values.size
            if missing <= 0 or self.values.affordable < missing:
                break
            self._ask(w, self.radius * rng.integers(-1, 2, (missing, model.chosen.size)))
        if not model.fit(w, max(self.errors.level, 1e-15 * abs(here))):
            return like(np.zeros(w.size), point.w)
        if self.effort and self.errors.given is None and model.spare >= 10:
            if model.spread <= 1.3 * self.level:
                longest, u = LONGEST * self.errors.scale(w, np.ones(w.size)), np.zeros(w.size)
                u[model.chosen] = rng.choice(np.array([-1.0, 1.0]), model.chosen.size)
                wider = min(2.0 * self.radius, max(self.radius, longest))
                self.radius = wider if self.errors.reaches(wider, w, u, model.c) else self.radius
            elif model.spread > 2 * self.level:
                self.radius /= 2
                model.forget(w, 1.5 * self.radius)
        return like(model.gradient(w.size), point.w)

    @property
    def _extra(self) -> int:
        """Values that a look at few coordinates takes because of noise."""
        return int(min(self.effort, 0.5 * self.values.affordable))

    def _ask(self, w: np.ndarray, moves: np.ndarray) -> None:
        points, chosen = np.tile(w, (len(moves), 1)), self.model.chosen
        points[:, chosen] += moves
        if self.values.risk.inside:
            wide = np.union1d(np.flatnonzero(w), chosen)
            points = self.values.placed(points, wide)
            others = np.setdiff1d(wide, chosen)
            points = points[(points[:, others] == w[others]).all(axis=1) & (points != w).any(axis=1)]
        if len(points):
            self.model.remember(points, self.values.at(points))

    def _design(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Moves of single coordinates and of pairs where the model is new, of single ones else; more under noise."""
        C = self.model.chosen
        m = C.size
        a, sign = np.full(m, self.radius), rng.choice(np.array([-1.0, 1.0]), m)
        rivals = (w[C] == 0).any()
        if self.fresh and rivals and self.errors.given is None and not self.effort:
            back = np.abs(w[C]) > max(0.05 * self.radius, self.errors.mu if self.level else 0.0)
            a[back], sign[back] = np.abs(w[C][back]), -np.sign(w[C][back])  # entries are tried at 0
        E = np.diag(a * sign)
        moves = [E]
        if self.fresh:
            i, j = np.triu_indices(m, 1)
            moves += [-E, E[i] + E[j]]
        if self.effort:
            moves.append(a * rng.integers(-1, 2, (max(0, self._extra - sum(map(len, moves))), m)))
        return np.vstack(moves)

    # What to do next.

    def after_far(self, point: Point, gradient: np.ndarray, gain: float, length: float, problem: Problem) -> None:
        """Choose between another look at everything, from here, and a model of what mattered."""
        self.better = improved = gain > 0
        self.gained = gain
        if improved:
            self.far.kept = np.empty(0)
        if self.level and not improved and not self._news(host(point)):
            self.far.least = 2 * self.far.n_probes
        chosen = self._candidates(host(point), gradient, problem)
        if not self.far.hasty and chosen.size and self.values.affordable > self._cost(chosen.size):
            self.near, self.fresh, self.rent, self.earned, self.failed = True, True, 0.0, 0.0, 0
            if not self.effort or math.isnan(self.radius):
                self.radius = self.errors.given or max(length, self.errors.mu if self.level else 0.0)
            self.model.move_to(host(point), chosen)
        elif not improved:
            self.stuck()

    def _news(self, w: np.ndarray) -> bool:
        """Whether the last look at all coordinates has found some that matter besides those of w."""
        found = self.far.last
        return found is not None and np.setdiff1d(found.significant(), np.flatnonzero(w)).size > 0

    def reconsider(self, point: Point) -> Point:
        """The point, or the start if that is better: noise is measured anew where it is not what it was there.

        An answer to a question that was asked before tells, now and then: without it, whatever was lucky once would be
        believed where errors are larger than at the start, or begin beyond it.
        """
        errors, values = self.errors, self.values
        if values.asked < self.again or values.affordable < 2 * _AGAIN or values.risk.noise_changes:
            return point
        self.again = 2 * values.asked
        w, start = host(point), (errors.start, errors.n_start, errors.origin)
        found = values.at(np.repeat(w[None, :], _FEW if errors.noisy else 1, axis=0))
        found = found[np.isfinite(found)]
        known = self.level or 1e3 * max(errors.level, rounding(errors.start))
        apart = np.std(found, ddof=1) if found.size > 1 else np.abs(found - point.value).sum()
        if apart <= _OTHER * known:
            return point
        point._value = float(found.mean())
        errors.measure(point)
        errors.start, errors.n_start, errors.origin = start
        self.model.forget()
        self.near = self.evidence.shown = False
        self.far.kept = np.empty(0)
        if point.value > errors.start:
            point = values.risk.at(like(errors.origin, point.w))
            point._value, point.trusted = errors.start, True
        return point

    def after_near(self, gain: float, again: bool, limited: bool) -> None:
        """Go on with the model, or look at everything again; limited: by noise, so that more values are wanted."""
        self.earned += gain
        self.better = self.better or gain > 0
        if not gain and not self.level and self.failed < 2:  # the same model, made anew nearer
            again, self.failed = True, self.failed + 1
            self.radius = self.errors.given or 0.2 * self.radius
        elif gain:
            self.failed = 0
        self.fresh = False
        self.near = again and not limited
        if limited and self.gained <= 0:  # nowhere is more to be had without more values
            if not self.effort and self.errors.given is None:
                self.radius = max(self.radius, self.model.visible(self.level))
            self.effort = 2 * (self.effort or self._cost(self.model.chosen.size))
            self.owed -= self.effort
            self.near = self.owed > 0
        if not self.near:  # a model that earns far less than another gradient would have is too dear
            dear = self.earned < 0.1 * self.gained
            self.price = min(2 * self.price, 64.0) if dear else max(1.0, 0.5 * self.price)
        if not again and not self.better:
            self.stuck()

    def stuck(self) -> None:
        """Nothing was gained from the last look at everything: the next one is closer, or there is none."""
        far = self.far
        if far.flat and far.lengthen():
            return
        if far.n_probes >= far.complete and not (self.errors.noisy and math.isfinite(self.values.affordable)):
            raise Stop(Status.SETTLED)
        far.least = 2 * far.n_probes

    @staticmethod
    def _cost(m: int) -> int:
        """Values for a model of m coordinates."""
        return 2 * m + m * (m - 1) // 2 + 2

    def _candidates(self, w: np.ndarray, gradient: np.ndarray, problem: Problem) -> np.ndarray:
        """The support and the best rivals of its entries, as many as were paid for."""
        none = np.empty(0, dtype=np.intp)
        if not problem.sparsity.of_coordinates:
            return none
        m = 1
        while m < _WIDEST and self._cost(m + 1) <= self.rent / self.price:
            m += 1
        support = problem.support_of(np.flatnonzero(w))
        slope = np.abs(gradient)
        significant = none if self.far.last is None else self.far.last.significant()
        rivals = np.setdiff1d(significant if self.level else np.flatnonzero(slope), support)
        rivals = rivals[np.argsort(-slope[rivals], kind="stable")]
        if m < support.size <= min(_WIDEST, problem.sparsity.widest(problem.sparsity.k, w.size)):
            return none  # it will be paid for soon
        if support.size > m:
            moving = support[slope[support] > 0]
            support = moving[np.argsort(-slope[moving], kind="stable")][:m] if moving.size <= m else none
            rivals = rivals if support.size else none
        return problem.sparsity.filled(np.union1d(support, rivals[: max(0, m - support.size)]).astype(np.intp))


def step_length(w: np.ndarray, move: np.ndarray) -> float:
    """How far a move went in a coordinate, at least a little."""
    return largest(move) or 0.1 * largest(w) or 0.1
