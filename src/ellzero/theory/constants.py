"""Restricted constants: how much R bends between vectors that differ in at most s coordinates.

    RSC    R(y) >= R(x) + <∇R(x), y-x> + ν_s/2 ||y-x||²      ν_s  = min over |S| = s of λ_min(H_SS)
    RSS    R(y) <= R(x) + <∇R(x), y-x> + L_s/2 ||y-x||²      L_s  = max over |S| = s of λ_max(H_SS)
    RSS'   ||∇R(x) - ∇R(y)|| <= L'_s ||x-y||                 L'_s = max over |S| = s of ||H[:,S]||

The right-hand side holds for quadratic R with Hessian H. A generalised linear model has ∇²R ⪯ H, with H from the
largest second derivative of its loss, so that H bounds L_s; its ν_s is the ridge. Beside them stand how far the sparse
members of Γ reach, which bounds ||w_0 - w̄||, and how noisy the terms of a risk can be there, the B of HSG-HT.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from .._core.validation import check_count
from ..risks import Constant, Risk
from ..risks.base import need_risk, no_longer_exact
from ..sets import ConstraintSet
from ._blocks import LARGEST_DECOMPOSED, Blocks, Decomposition

#: a Hessian with more rows is not formed, and the constants are those of all coordinates
LARGEST_HESSIAN = 6000
_TITLES = {
    "smoothness": "L_s  smoothness (RSS)",
    "strong_convexity": "ν_s  strong convexity (RSC)",
    "strong_smoothness": "L'_s strong smoothness (RSS')",
}


class RestrictedConstants:
    """L_s, ν_s and L'_s of a risk at sparsity s, each with its source; made by `restricted_constants`.

    Each is "exact" (all blocks were looked at), a "bound" on the safe side (above for L_s and L'_s, below for
    ν_s), or an "estimate", which proves nothing.

    Attributes
    ----------
    s : int
        At most the number of coordinates.
    smoothness, strong_convexity, strong_smoothness : Constant
        L_s, ν_s and L'_s.
    """

    def __init__(self, curvature: Curvature, s: int) -> None:
        self._curvature, self.s = curvature, min(s, curvature.risk.n_features)

    @cached_property
    def smoothness(self) -> Constant:
        """L_s."""
        risk, hessian = self._curvature.risk, self._curvature.hessian
        if hessian is None:
            return _of_all_coordinates(risk.smoothness, self.s, risk.n_features)
        blocks, is_hessian = hessian
        if (exact := blocks.exact(self.s)) is not None:
            return Constant(max(0.0, exact[1]), "exact" if is_hessian else "bound")
        return _tighter(Constant(max(0.0, blocks.bound(self.s)), "bound"), risk.smoothness, min)

    @cached_property
    def strong_convexity(self) -> Constant:
        """ν_s."""
        risk, hessian = self._curvature.risk, self._curvature.hessian
        if hessian is None or not hessian[1]:
            return _of_all_coordinates(risk.strong_convexity, self.s, risk.n_features)
        blocks, _ = hessian
        exact = blocks.exact(self.s)
        if exact is not None:  # singular matrices are so up to rounding
            return Constant(0.0 if abs(exact[0]) <= blocks.noise else exact[0], "exact")
        return _tighter(Constant(-blocks.negative.bound(self.s), "bound"), risk.strong_convexity, max)

    @cached_property
    def strong_smoothness(self) -> Constant:
        """L'_s, at least L_s."""
        risk, (scale, squared) = self._curvature.risk, self._curvature.squared or (1.0, None)
        if squared is not None and (exact := squared.exact(self.s)) is not None:
            return Constant(scale * math.sqrt(exact[1]), "exact")
        # ||∇R(x)-∇R(y)||² <= L <∇R(x)-∇R(y), x-y> <= L L_s ||x-y||² for convex R
        L, L_s = self._curvature.at(risk.n_features).smoothness, self.smoothness
        whole = Constant(L.value, no_longer_exact(L))
        if risk.convex:
            source = no_longer_exact(L_s if whole.source == "bound" else whole)
            whole = _tighter(Constant(math.sqrt(L.value * L_s.value), source), whole, min)
        else:  # L bounds the Hessian from above alone
            whole = Constant(max(L.value, -risk.strong_convexity.value), whole.source)
        if squared is None:
            return whole
        return _tighter(Constant(scale * math.sqrt(max(0.0, squared.bound(self.s))), "bound"), whole, min)

    @property
    def kappa(self) -> float:
        """κ = L_s/ν_s; infinite where ν_s is not positive."""
        L, nu = self.smoothness.value, self.strong_convexity.value
        return max(1.0, L / nu) if nu > 0 else math.inf

    @cached_property
    def estimate(self) -> Estimate | None:
        """The other side of each bound, from a search over supports: L_s and L'_s are at least this, ν_s at most.

        None where the Hessian is not known or too large.
        """
        hessian = self._curvature.hessian
        return Estimate(hessian[0], self._curvature.squared, self.s) if hessian and hessian[1] else None

    def __repr__(self) -> str:
        lines = [f"restricted constants at s={self.s}"]
        for name, title in _TITLES.items():
            constant: Constant = getattr(self, name)
            text = f"  {title:<31}{constant.value:<10.6g} {constant.source}"
            if constant.source != "exact" and self.estimate is not None:
                text += f"; a search over supports found {getattr(self.estimate, name).value:.6g}"
            lines.append(text)
        return "\n".join(lines)


class Estimate:
    """Values attained on some support."""

    def __init__(self, blocks: Blocks, squared: tuple[float, Blocks] | None, s: int) -> None:
        self._blocks, self._squared, self._s = blocks, squared, s

    @cached_property
    def smoothness(self) -> Constant:
        """L_s is at least this."""
        return Constant(max(0.0, self._blocks.found(self._s)), "estimate")

    @cached_property
    def strong_convexity(self) -> Constant:
        """ν_s is at most this."""
        found = -self._blocks.negative.found(self._s)
        return Constant(0.0 if abs(found) <= self._blocks.noise else found, "estimate")

    @cached_property
    def strong_smoothness(self) -> Constant:
        """L'_s is at least this."""
        scale, squared = self._squared or (0.0, None)
        found = 0.0 if squared is None else scale * math.sqrt(max(0.0, squared.found(self._s)))
        return Constant(max(self.smoothness.value, found), "estimate")


def restricted_constants(risk: Risk, s: int) -> RestrictedConstants:
    """L_s, ν_s (RSS, RSC) and L'_s (RSS') of a risk at sparsity s.

    Exact where all C(d, s) blocks can be looked at, or where the Hessian is diagonal. Otherwise, for quadratics,
    certified bounds (eigenvalues of the Hessian, Gershgorin's discs, diagonals of its spectral parts; whatever is
    tighter), and beside them `estimate`, the other side. For other linear models bounds from the curvature of the
    loss (for `Multinomial` Böhning's), and the ridge for ν_s. For any other risk its own constants.

    Parameters
    ----------
    risk : Risk
    s : int
        More than there are coordinates means all of them.

    Examples
    --------
    x1² + x2² + x1x2 is 2-smooth along either axis, although its gradient changes by sqrt(5) there:

    >>> import ellzero as ez
    >>> risk = ez.risks.Quadratic([[2.0, 1.0], [1.0, 2.0]], b=[0.0, 0.0])
    >>> c = ez.theory.restricted_constants(risk, 1)
    >>> c.smoothness, round(c.strong_smoothness.value**2, 12)
    (Constant(value=2.0, source='exact'), 5.0)
    >>> ez.theory.restricted_constants(risk, 2).smoothness
    Constant(value=3.0, source='exact')
    """
    return curvature_of(risk).at(s)


def curvature_of(risk: Risk) -> Curvature:
    """The constants of a risk; kept with it, so that its Hessian is decomposed once."""
    need_risk(risk)
    known: Curvature | None = vars(risk).get("_restricted_constants")
    if known is None or known.risk is not risk:  # a copy of a risk may be restricted to other columns
        vars(risk)["_restricted_constants"] = known = Curvature(risk)
    return known


class Curvature:
    """The restricted constants of one risk for every s; what they share is computed once."""

    def __init__(self, risk: Risk) -> None:
        self.risk = risk
        self._cache: dict[int, RestrictedConstants] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Curvature, (self.risk,)  # large matrices do not travel with a pickled risk

    def at(self, s: int) -> RestrictedConstants:
        """The constants at sparsity s."""
        s = min(check_count(s, "s"), self.risk.n_features)
        if s not in self._cache:
            self._cache[s] = RestrictedConstants(self, s)
        return self._cache[s]

    @cached_property
    def hessian(self) -> tuple[Blocks, bool] | None:
        """H, and whether it is the Hessian or only above it."""
        formed = self.risk.hessian_bound() if self.risk.n_features <= LARGEST_HESSIAN else None
        return formed and (Blocks(formed[0], noise=formed[1]), formed[2])

    @cached_property
    def squared(self) -> tuple[float, Blocks] | None:
        """A scale h, and (H/h)², whose blocks have the eigenvalues (||H[:,S]||/h)²."""
        if self.hessian is None or not self.hessian[1] or self.risk.n_features > LARGEST_DECOMPOSED:
            return None
        H = self.hessian[0]
        assert H.eigen is not None
        order = np.argsort(np.abs(H.eigen.values))
        eigen = Decomposition(H.eigen.values[order] ** 2, H.eigen.vectors[:, order])
        rounding = 2 * (H.noise / H.scale) * float(np.abs(H.M).sum(axis=1).max())
        return H.scale, Blocks(H.M @ H.M, rounding, eigen)


def _of_all_coordinates(constant: Constant, s: int, d: int) -> Constant:
    """A constant of the whole space, which at s < d is on the safe side but no longer exact."""
    return constant if s >= d else Constant(constant.value, no_longer_exact(constant))


def _tighter(bound: Constant, whole: Constant, choose: Any) -> Constant:
    """The better of a certified bound and a constant of all coordinates, unless that is only an estimate."""
    if whole.source == "estimate":
        return bound
    return Constant(choose(bound.value, whole.value), "bound")


def largest_norm(constraint: ConstraintSet, k: int, n_features: int) -> float | None:
    """A number >= max {||w|| : w in Γ, ||w||_0 <= k}; None where Γ is unbounded or of an unknown kind.

    Parameters
    ----------
    constraint : ConstraintSet
    k, n_features : int

    Examples
    --------
    >>> import ellzero as ez
    >>> ez.theory.largest_norm(ez.sets.LinfBall(0.5), k=4, n_features=100)
    1.0
    """
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(f"constraint must be a set such as ellzero.sets.L1Ball(1.0), got {constraint!r}")
    d = check_count(n_features, "n_features")
    with np.errstate(over="ignore"):  # a bound whose square is no number is none
        square = float(constraint.norm_squares(d, min(check_count(k, "k"), d))[-1])
    return math.sqrt(square) if math.isfinite(square) else None


def variance_bound(risk: Risk, radius: float | None = None) -> Constant | None:
    """A number B >= (1/n) Σ_i ||∇R_i(w) - ∇R(w)||² for every w with ||w|| <= radius.

    ∇R_i = nω_i ℓ'_i x_i + ridge·w, and |ℓ'| is at most 1 (logistic), √2 (multinomial), 2δ (Huber), max(τ, 1 - τ)
    (quantiles) or 2(|y_i - ȳ| + radius·||x_i - x̄||) (least squares; ȳ and x̄ are 0 without an intercept); squared
    hinges grow likewise. None where no bound is known: other risks, and those two without a radius.

    Parameters
    ----------
    risk : Risk
    radius : float, optional
        Needed by least squares alone: `largest_norm` of a bounded Γ.

    Examples
    --------
    >>> import ellzero as ez
    >>> B = ez.theory.variance_bound(ez.risks.Logistic([[3.0, 4.0], [0.0, 1.0]], [0, 1]))
    >>> round(B.value, 6), B.source
    (13.0, 'bound')
    """
    need_risk(risk)
    if (bounds := risk.gradient_bounds(radius)) is None:
        return None
    return Constant(float((bounds**2).mean()) * (1 + 1e-12 * risk.n_terms**0.5), "bound")
