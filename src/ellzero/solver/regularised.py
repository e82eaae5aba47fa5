"""Two methods that need k of the order κk̄ instead of κ²k̄: R is regularised, and no longer where that is in the way.

    RegIHT   w_{t+1} = P(w_t - η∇g_t(w_t)),  g_t(w) = R(w) + (L/2)Σ_i a_i w_i²,  η = 1/(2L);  on the support of w_t
             a_i ← a_i(1 - c·a_i w_i²/Σ_j a_j w_j²), and 0 once below 1/2;  a = 1 at first, c = k/(4T), T iterations
    ARHT     the smallest entry is exchanged for the steepest slope outside and the values are refitted, on
             g(w) = R(w) + (L/2)Σ_{i in A} w_i²; where that does not lower g, an i leaves A, drawn in proportion to w_i²

Axiotis & Sviridenko, "Iterative hard thresholding with adaptive regularization" (ICML 2022, arXiv 2204.08274) and
"Sparse convex optimization via adaptively regularized hard thresholding" (JMLR 2021, arXiv 2006.14571), both for
Γ = R^d. Of these texts we had abstracts and introductions, and what the first tells of its programme (weights that are
rounded at 1/2). The formulas above are our reading: the constant of c, L in place of the smoothness along two
coordinates, ARHT without the value R(w̄) that its authors take for known, the refit at the end, and all with Γ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, like, namespace, to_host
from .._core.directions import stream
from .._core.stopping import Status, Stop
from .._core.validation import check_positive
from ..risks.base import Point, Risk
from ..risks.damped import Damped
from ..sets import EmptySlice
from ..theory.parameters import Oracle as Kind
from .oracles import Gradients
from .problem import Problem
from .projections import Projector
from .refit import refit
from .result import Counts
from .steps import Deadline

_LEAST = 1e-12  # of g: what an exchange has to gain


@dataclass(frozen=True)
class RegularisedGradient:
    """g = ∇R(w) + L·a∘w, with weights a that fall where the support has much of the regularisation.

    Parameters
    ----------
    L : float
        How strong it is at first: the smoothness of R.
    c : float
        By how much all weights together fall in an iteration, about.
    """

    L: float
    c: float
    kind: ClassVar[Kind] = "full"

    def __post_init__(self) -> None:
        check_positive(self.L, "L")
        check_positive(self.c, "c")

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        return _Regularised(risk, counts, self.L, self.c, risk.zero + 1.0)


@dataclass
class _Regularised(Gradients):
    risk: Risk
    counts: Counts
    L: float
    c: float
    weights: Array

    def __call__(self, point: Point, t: int) -> Array:
        if point._gradient is None:
            self.counts.n_gradients += self.risk.n_terms
        w, a, xp = point.w, self.weights, namespace(point.w)
        gradient = point.gradient + self.L * a * w
        total = float(xp.sum(a * w * w))
        self.settled = not total > 0
        if total > 0:
            fallen = a * (1 - self.c * a * w * w / total)
            self.weights = xp.where(fallen < 0.5, xp.zeros_like(a), fallen)
        return gradient

    def state(self) -> dict[str, Any]:
        return {"weights": to_host(self.weights)}

    def restore(self, state: dict[str, Any]) -> None:
        self.weights = like(state["weights"], self.risk.zero)


@dataclass
class ReplacementStep:
    """The smallest entry for the steepest slope, and the best values of g on the new support; see ARHT in this module.

    Attributes
    ----------
    regularised : array of bool
        A, where R is regularised.
    size : float
        1/L, by which a residual is told at the end.
    """

    counts: Counts
    problem: Problem
    deadline: Deadline
    entropy: Sequence[int]
    L: float
    regularised: np.ndarray = field(init=False)
    size: float = field(init=False)
    largest_L: float = field(init=False)
    drawn: float = 0.0

    def __post_init__(self) -> None:
        self.regularised = np.ones(self.problem.risk.n_features, dtype=bool)
        self.size, self.largest_L = 1 / self.L, self.L

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        """The next point: the best of g on the next support, or on the same one with one coordinate less in A."""
        problem, w = self.problem, to_host(point.w).astype(float)
        S, slopes = problem.support_of(point.nonzeros), np.abs(to_host(gradient).astype(float))
        if (tilted := problem.gamma.multipliers(w, to_host(gradient).astype(float))) is not None:
            lower, upper = problem.gamma.limits(w.size)
            slopes = np.maximum(np.where(upper > 0, -tilted.up, 0.0), np.where(lower < 0, -tilted.down, 0.0))
        outside = np.setdiff1d(np.arange(w.size), S)
        newcomers = outside[np.argsort(-slopes[outside], kind="stable")]
        room = problem.sparsity.k - problem.sparsity.size(S)
        if room > 0 and newcomers.size and slopes[newcomers[0]] > 0:
            return self._fitted(np.union1d(S, newcomers[slopes[newcomers] > 0][:room]), point)
        here, movable = self._fitted(S, point), np.setdiff1d(S, problem.kept)
        if movable.size and newcomers.size and slopes[newcomers[0]] > 0:
            leaves = movable[np.abs(to_host(here.w))[movable].argmin()]
            try:
                there = self._fitted(np.union1d(np.setdiff1d(S, leaves), newcomers[:1]), here)
            except EmptySlice:
                there = here
            value = self._regularised_value(here)
            if self._regularised_value(there) < value - _LEAST * abs(value):
                return there
        chances = np.where(self.regularised, to_host(here.w).astype(float) ** 2, 0.0)
        if not chances.sum() > 0:
            raise Stop(Status.SETTLED)
        self.drawn += 1
        self.regularised[stream(self.entropy, 2**34, int(self.drawn)).choice(w.size, p=chances / chances.sum())] = False
        return self._fitted(S, here)

    def _damping(self) -> np.ndarray:
        return np.where(self.regularised, 0.5 * self.L, 0.0)

    def _regularised_value(self, point: Point) -> float:
        w = to_host(point.w).astype(float)
        return self.counts.base_value(point) + float(self._damping() @ (w * w))

    def _fitted(self, support: np.ndarray, start: Point) -> Point:
        """argmin g on a support, as a point of R."""
        problem, damped = self.problem, Damped(self.problem.risk, self._damping())
        found = refit(damped, problem.gamma, support, start.at(support), deadline=self.deadline())
        return problem.risk.at(found.w, found.support)


def smoothness_of(risk: Risk, method: str) -> float:
    """L, which both methods need."""
    L = risk.smoothness.value
    if not 0 < L < math.inf:
        raise ValueError(
            f"method {method!r} regularises R by its smoothness, and that of {type(risk).__name__} is {L}; use a loss "
            "of bounded curvature, or give L="
        )
    return L
