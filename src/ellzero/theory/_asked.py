"""What `guarantee` was asked, and what all forms of the answer share."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, norm, to_host
from .._core.validation import check_nonnegative, check_number, check_positive
from ..risks import Risk
from ..risks.base import Constant, Point
from ..sets import ConstraintSet, Everywhere
from ..solver.problem import for_every_output
from ..sparsity import Sparsity
from .constants import curvature_of, largest_norm, variance_bound
from .forms import Form, prescribe_form
from .parameters import THEOREMS, Prescription


@dataclass
class Asked:
    """The arguments of `guarantee`, checked, and the numbers that follow from them."""

    risk: Risk
    theorem: str
    sparsity: Sparsity
    k_bar: int
    constraint: ConstraintSet | None
    rho: float
    alpha: float
    s2: int | None
    given_epsilon: float | None
    given_B: float | None
    given_mu: float | None
    given_radius: float | None
    given_lower_bound: float | None
    given_L: Constant | None
    given_nu: Constant | None
    reference: Any
    x0: Any

    def __post_init__(self) -> None:
        self.curvature = curvature_of(self.risk)
        self.d = self.risk.n_features
        self.k = self.sparsity.k
        self.row = THEOREMS[self.theorem]
        self.constrained = self.theorem.endswith("-2SP")
        self.gamma = self._fitted(self.constraint)
        self.start = self.risk.at(self.risk.zero if self.x0 is None else self.risk.as_vector(self.x0))
        self.w_bar = None if self.reference is None else self.risk.at(self.risk.as_vector(self.reference))
        self.mu = None if self.given_mu is None else check_positive(self.given_mu, "mu")

    def _fitted(self, constraint: ConstraintSet | None) -> ConstraintSet:
        """Γ for the whole of w; refuses one that the method does not know."""
        gamma = fitted(constraint, self.risk)
        if not self.constrained and not gamma.whole_space:
            name = self.theorem
            raise ValueError(f"method {name!r} knows no constraint, got {constraint!r}; use method='{name}-2SP'")
        return gamma

    def levels(self, k: int) -> tuple[int, int]:
        """At how many coordinates L and ν are needed: those of 2k (or 3k) of what is counted, the largest.

        Strong convexity is used between an iterate and w̄ alone, so k + k̄ are enough for ν, unless directions are drawn.
        """
        s = self.sparsity.widest(self.row.level * k, self.d)
        if self.row.oracle == "directions":
            return max(s, self.s2 or self.d), s
        return s, self.sparsity.widest(k + min(self.k_bar, k), self.d)

    def constants(self, k: int) -> tuple[Constant, Constant]:
        """L (for zeroth-order methods L') and ν at these levels."""
        level, s = self.levels(k)
        nu = self.curvature.at(s).strong_convexity if self.given_nu is None else self.given_nu
        if self.given_L is not None:
            return self.given_L, nu
        at = self.curvature.at(level)
        return at.strong_smoothness if self.row.oracle == "directions" else at.smoothness, nu

    def usable(self, k: int) -> bool:
        """Whether κ = L/ν is a number."""
        L, nu = self.constants(k)
        return 0 < L.value < math.inf and nu.value > 0 and L.value / nu.value < 1e100

    def prescribe(self, form: Form, k: int, constants: tuple[Constant, Constant] | None = None) -> Prescription:
        """What the theorem prescribes at k, with its constants there or with others."""
        L, nu = constants or self.constants(k)
        B = None if self.B is None else self.B.value
        return prescribe_form(
            form, self.theorem, max(L.value, nu.value), nu.value, k=k, k_bar=self.k_bar, rho=self.rho,
            alpha=self.alpha, B=B, d=self.d, s2=self.s2,
        )  # fmt: skip

    def is_w_bar(self, w: Array) -> bool:
        """Whether a vector has at most k̄ of what is counted and, in each group, at most k̄/k of its quota.

        A quota of as much as there is in its group does not limit anything.
        """
        if not self.sparsity.of_coordinates:
            return self.sparsity.count(w) <= self.k_bar
        used = self.sparsity.atoms_of(np.flatnonzero(to_host(w)))
        if used.size > self.k_bar or self.sparsity.quotas is None:
            return used.size <= self.k_bar
        group, most = self.sparsity.quotas
        counts, sizes = (np.bincount(g + 1, minlength=most.size + 1)[1:] for g in (group[used], group))
        return bool(((counts * self.k <= self.k_bar * most) | (sizes <= most)).all())

    @property
    def words_of_w_bar(self) -> str:
        """What w̄ may use."""
        words = self.sparsity.how_many(self.k_bar)
        words = words.replace("1", "one") if self.k_bar == 1 else words
        if self.sparsity.quotas is None:
            return words
        return f"{words} and, in each group, {self.k_bar}/{self.k} of its quota"

    @cached_property
    def lower_bound(self) -> float:
        """m <= R on k-sparse vectors."""
        if self.given_lower_bound is None:
            return self.risk.lower_bound
        m = check_number(self.given_lower_bound, "lower_bound", high=math.inf, open_high=True)
        if self.w_bar is not None and m > self.w_bar.value:
            raise ValueError(
                f"lower_bound must be at most R(reference) = {self.w_bar.value:.8g}, because the reference is one of "
                f"the vectors on which it bounds R; got lower_bound={m}"
            )
        return m

    @property
    def shifted(self) -> bool:
        """Whether the bound is written with R(w̄) - m, instead of R >= 0 as in the paper."""
        return self.given_lower_bound is not None or self.lower_bound < 0

    @cached_property
    def epsilon(self) -> float:
        """As given, or a thousandth of what R can fall from w_0."""
        if self.given_epsilon is not None:
            return check_positive(self.given_epsilon, "epsilon")
        above = self.start.value - (self.lower_bound if math.isfinite(self.lower_bound) else 0.0)
        return 1e-3 * (above if above > 0 else 1.0)

    @cached_property
    def reach(self) -> float | None:
        """A bound on ||w|| over the k-sparse members of Γ."""
        return largest_norm(self.gamma, self.sparsity.widest(self.k, self.d), self.d)

    @cached_property
    def distance(self) -> float | None:
        """A bound on ||w_0 - w̄||."""
        if self.given_radius is not None:
            return check_nonnegative(self.given_radius, "radius")
        if self.w_bar is not None:
            return norm(self.start.w - self.w_bar.w)
        of_w_bar = largest_norm(self.gamma, self.sparsity.widest(self.k_bar, self.d), self.d)
        return None if of_w_bar is None else of_w_bar + norm(self.start.w)

    @cached_property
    def B(self) -> Constant | None:
        """A bound on the variance: as given, else computed where that is possible."""
        if self.row.oracle != "batch":
            return None
        if self.given_B is not None:
            return Constant(check_nonnegative(self.given_B, "B"), "bound")
        return variance_bound(self.risk, self.reach)

    def gradient_norm(self, L: float) -> float | None:
        """A bound on ||∇R(w̄)||, which zeroth-order methods need; w̄ and w_0 differ in at most k + k̄ coordinates."""
        if self.row.oracle != "directions":
            return None
        if self.w_bar is not None:
            return self._gradient_norm_at(self.w_bar, L)
        at_start = self._gradient_norm_at(self.start, L)
        return None if self.distance is None or at_start is None else at_start + L * self.distance

    def _gradient_norm_at(self, point: Point, L: float) -> float | None:
        """||∇R||, or sqrt(2L(R - m)) where only values are to be had and L holds for all coordinates."""
        if self.risk.has_gradient:
            return norm(point.gradient)
        if self.levels(self.k)[0] < self.d or self.risk.lower_bound == -math.inf:
            return None
        return math.sqrt(2 * L * max(0.0, point.value - self.risk.lower_bound))


def fitted(constraint: ConstraintSet | None, risk: Risk) -> ConstraintSet:
    """Γ for the whole of w."""
    if constraint is None:
        return Everywhere()
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(f"constraint must be a set such as ellzero.sets.L1Ball(1.0), or None, got {constraint!r}")
    gamma = for_every_output(constraint, risk)
    gamma.require_features(risk.n_features)
    return gamma
