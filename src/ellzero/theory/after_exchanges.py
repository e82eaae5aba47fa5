"""What is promised of an answer that no single exchange betters: the theorem of "auto".

    Γ                                                             k needed    L
    a product over what is counted of convex sets that hold 0     κ²k̄         of two atoms together
    a product of l1 balls, budgets and intervals that hold 0      4κ²k̄        of k + 1 coordinates

κ = L/ν with the strong convexity ν of k + k̄ of what is counted. Then R(x) <= R(w̄) for all w̄ in Γ with at most k̄ of it:
no factor, no ε, no number of iterations. Coordinates are atoms of one, so the first row is about boxes, signs and R^d.
The proofs are in `docs/what-is-promised.md`; the first asks for less than that no exchange helps after a refit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..risks import Constant, Risk
from ..sets import ConstraintSet
from ..solver.result import Result
from ..sparsity import Sparsity
from ._premises import Premise
from .constants import curvature_of
from .parameters import sparsity_required


def needed_ratio(gamma: ConstraintSet, sparsity: Sparsity, d: int) -> int | None:
    """1 or 4, the factor of κ²k̄ that k needs; None for a Γ that no row covers."""
    if not sparsity.by_atoms or sparsity.free.size:
        return None
    atoms = np.arange(d) if sparsity.atoms is None else sparsity.atoms
    if (gamma.separable and gamma.preserves_support) or (gamma.product_over(atoms) and gamma.preserves(atoms)):
        return 1
    shape = gamma.polyhedron(d) if sparsity.atoms is None else None
    return 4 if shape is not None and shape.of_separate_caps() else None


class AfterExchanges:
    """κ at every k and k̄, and what follows: the smallest k for k̄, the largest k̄ for k."""

    def __init__(
        self,
        risk: Risk,
        sparsity: Sparsity,
        gamma: ConstraintSet,
        L: Constant | None = None,
        nu: Constant | None = None,
    ) -> None:
        self.risk, self.sparsity, self.gamma, self._L, self._nu = risk, sparsity, gamma, L, nu
        self.d, self.curvature = risk.n_features, curvature_of(risk)
        self.ratio = needed_ratio(gamma, sparsity, self.d)

    def levels(self, k: int, k_bar: int) -> tuple[int, int]:
        """At how many coordinates L and ν are taken."""
        moved = 2 if self.ratio == 1 else k + 1
        return tuple(max(self.sparsity.widest(n, self.d), 1) for n in (moved, k + k_bar))  # type: ignore[return-value]

    def constants(self, k: int, k_bar: int) -> tuple[Constant, Constant]:
        """L and ν."""
        one, other = self.levels(k, k_bar)
        L = self.curvature.at(one).smoothness if self._L is None else self._L
        return L, self.curvature.at(other).strong_convexity if self._nu is None else self._nu

    def kappa(self, k: int, k_bar: int) -> float:
        """L/ν, at least 1; infinite where it is not a number."""
        L, nu = self.constants(k, k_bar)
        return max(1.0, L.value / nu.value) if 0 < nu.value < math.inf and 0 < L.value < math.inf else math.inf

    def needed(self, k: int, k_bar: int) -> float:
        """What k has to be at least, by the constants at k."""
        needed = math.inf if self.ratio is None else self.ratio * self.kappa(k, k_bar) ** 2 * k_bar
        return sparsity_required(needed, 1) if needed < 1e15 else math.inf

    def k_required(self, k_bar: int) -> int | None:
        """The smallest k for k̄: constants grow with k, so that climbing from below does not pass it."""
        k = k_bar
        while k < (needed := self.needed(k, k_bar)) < math.inf:
            k = int(needed)
        return k if math.isfinite(needed) else None

    def k_bar_max(self, k: int) -> int:
        """The largest k̄ for k."""
        low, high = 0, k + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.needed(k, middle) <= k else (low, middle)
        return low

    def premises(self, k: int, k_bar: int, result: Result | None) -> tuple[Premise, ...]:
        """Every condition, and what was found."""
        L, nu = self.constants(k, k_bar)
        at_L, at_nu = self.levels(k, k_bar)
        return (
            self._fits(),
            Premise(
                "R smooth", _sure(L, 0 < L.value < math.inf), f"L = {L.value:.6g} at s = {at_L}, {L.source}",
                "" if 0 < L.value < math.inf else "a loss of bounded curvature, or L= by hand",
            ),
            Premise(
                "R strongly convex", _sure(nu, nu.value > 0), f"ν = {nu.value:.6g} at s = {at_nu}, {nu.source}",
                "" if nu.value > 0 else "ridge > 0, a smaller k, or nu= by hand",
            ),
            self._enough(k, k_bar),
            self._no_exchange_helps(result),
        )  # fmt: skip

    def _fits(self) -> Premise:
        if self.ratio is None:
            remedy = "`ellzero.beats` says after the run what holds, for every Γ that preserves supports"
            return Premise("Γ is covered", False, "it is no product of intervals, l1 balls and budgets", remedy)
        what = "of sets that hold 0, over what is counted" if self.ratio == 1 else "of l1 balls, budgets and intervals"
        return Premise("Γ is covered", True, f"a product {what}")

    def _enough(self, k: int, k_bar: int) -> Premise:
        needed, name = self.needed(k, k_bar), "k large enough"
        if not math.isfinite(needed):
            remedy = "what makes R smooth and strongly convex" if self.ratio else "a Γ that is covered"
            return Premise(name, False, "no k is known to suffice", remedy)
        kappa, covered = self.kappa(k, k_bar), self.k_bar_max(k)
        text = f"k >= {(self.ratio or 0) * kappa**2:.4g}·k̄ is needed (κ = {kappa:.4g}); k = {k} covers k̄ <= {covered}"
        if needed <= k:
            return Premise(name, True, text)
        required = self.k_required(k_bar)
        remedies = ([] if required is None else [f"k >= {required}"]) + ([f"k_bar <= {covered}"] if covered else [])
        return Premise(name, False, text, "; or ".join(remedies) or "no k is known to suffice")

    def _no_exchange_helps(self, result: Result | None) -> Premise:
        name = "no exchange helps"
        if result is None:
            return Premise(name, None, "known after the run: result.exchanges", "result=, the answer of the run")
        found = result.exchanges
        if found is None:
            return Premise(name, False, f"method {result.method!r} did not look at exchanges", 'method="auto"')
        holds = found.verdict == "all"
        return Premise(name, holds, found.words, "" if holds else "a quadratic risk, or more ridge")


def _sure(constant: Constant, holds: bool) -> bool | None:
    return None if holds and constant.source == "estimate" else holds


def as_guarantee(theorem: AfterExchanges, k_bar: int, result: Any) -> dict[str, Any]:
    """The fields of a `Guarantee`, as far as this theorem has them."""
    sparsity, gamma, k = theorem.sparsity, theorem.gamma, theorem.sparsity.k
    if result is not None and not (isinstance(result, Result) and result.sparsity.k == k):
        raise ValueError(f"result must be what ellzero.minimize returned for this risk and k={k}, got {result!r}")
    L, nu = theorem.constants(k, k_bar)
    inside = "" if gamma.whole_space else "in Γ "
    quotas = "" if sparsity.quotas is None else f" and, in each group, {k_bar}/{k} of its quota"
    return {
        "theorem": "auto", "form": "exchanges", "sparsity": sparsity, "k": k, "k_bar": k_bar, "L": L, "nu": nu,
        "epsilon": 0.0, "premises": theorem.premises(k, k_bar, result), "factor": 1.0,
        "k_required": theorem.k_required(k_bar), "k_bar_max": theorem.k_bar_max(k),
        "promise": f"An answer that no single exchange betters has R(x) <= R(w̄), for every w̄ {inside}with at most "
                   f"{sparsity.how_many(k_bar)}{quotas}.",
        "notes": ("`ellzero.beats` reads off the answer itself how large k̄ may be: never less than here.",)
        if theorem.ratio == 1 else (),
    }  # fmt: skip
