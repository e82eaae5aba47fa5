"""How far the sparse members of Γ reach, and how noisy the terms of a risk can be there.

largest_norm     max {||w|| : w in Γ, ||w||_0 <= k},  which bounds ||w_0 - w̄||
variance_bound   max over ||w|| <= radius of (1/n) Σ_i ||∇R_i(w) - ∇R(w)||²,  the B of HSG-HT
"""

from __future__ import annotations

import math

import numpy as np

from .._core.validation import check_count
from ..risks import Constant, Risk
from ..sets import (
    Box,
    ConstraintSet,
    Ellipsoid,
    GroupWise,
    Intersection,
    L1Ball,
    L2Ball,
    LinfBall,
    LpBall,
    PackingPolytope,
    Portfolio,
    Simplex,
    SubSimplex,
    WeightedL1Ball,
)
from ..sets._slices import enclosing


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
    d = check_count(n_features, "n_features")
    square = float(_squares(constraint, d, min(check_count(k, "k"), d))[-1])
    return math.sqrt(square) if math.isfinite(square) else None


def _squares(constraint: ConstraintSet, d: int, k: int) -> np.ndarray:
    """For j = 0..k a bound on ||w||² over the j-sparse members; concave in j.

    Concave, so that the best split of j nonzeros over groups takes the largest increments of all groups.
    """
    if constraint.redefined:  # a user's own, whatever it inherits from
        return _unbounded(k)
    match constraint:
        case L1Ball() | L2Ball() | SubSimplex():
            return _of_ball(constraint.radius, k)
        case Simplex():
            return _of_ball(constraint.total, k)
        case LinfBall():
            return _of_ball(constraint.radius, k, growth=1.0)
        case LpBall():  # ||w||_2 <= j^(1/2 - 1/p) ||w||_p for p >= 2
            return _of_ball(constraint.radius, k, growth=max(0.0, 1 - 2 / constraint.p))
        case WeightedL1Ball():
            return _of_ball(constraint.radius / constraint.weights.min(), k)
        case Ellipsoid():
            return _of_ball(constraint.radius * constraint.scales.max(), k)
        case Box():
            return _of_entries(np.maximum(np.abs(constraint.lower), np.abs(constraint.upper)), d, k)
        case PackingPolytope():
            A = constraint.A if isinstance(constraint.A, np.ndarray) else constraint.A.toarray()
            with np.errstate(divide="ignore", invalid="ignore"):
                caps = np.where(A > 0, constraint.b[:, None] / A, math.inf).min(axis=0, initial=math.inf)
            return _of_entries(caps, d, k)
        case Portfolio():
            return np.min([_squares(s, d, k) for s in enclosing(constraint, d)], axis=0)  # type: ignore[no-any-return]
        case Intersection():
            return np.min([_squares(s, d, k) for s in constraint.sets], axis=0)  # type: ignore[no-any-return]
        case GroupWise():
            groups = [(s, m.size) for s, m in zip(constraint.sets, constraint._members, strict=True) if m.size]
            if sum(size for _, size in groups) < d or any(s is None for s, _ in groups):
                return _unbounded(k)
            parts = [_squares(s, size, min(k, size)) for s, size in groups if s is not None]
            if not all(np.isfinite(part).all() for part in parts):
                return _unbounded(k)
            return _cumulative(np.concatenate([np.diff(part) for part in parts]), k)
    return _unbounded(k)


def _unbounded(k: int) -> np.ndarray:
    return np.concatenate([[0.0], np.full(k, math.inf)])


def _of_ball(radius: float, k: int, growth: float = 0.0) -> np.ndarray:
    """0, radius² · j^growth."""
    j = np.arange(1.0, k + 1)
    return np.concatenate([[0.0], j**growth * (float(radius) * float(radius))])


def _of_entries(size: np.ndarray, d: int, k: int) -> np.ndarray:
    """Entries of at most these sizes."""
    return _cumulative(np.broadcast_to(size, d) ** 2, k)


def _cumulative(increments: np.ndarray, k: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.sort(increments)[::-1][:k])])


def variance_bound(risk: Risk, radius: float | None = None) -> Constant | None:
    """A number B >= (1/n) Σ_i ||∇R_i(w) - ∇R(w)||² for every w with ||w|| <= radius.

    ∇R_i = nω_i ℓ'_i x_i + ridge·w, and |ℓ'| is at most 1 (logistic), √2 (multinomial), 2δ (Huber) or
    2(|y_i - ȳ| + radius·||x_i - x̄||) (least squares; ȳ and x̄ are 0 without an intercept). None where no bound
    is known: other risks, and least squares without a radius.

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
    bounds = risk.gradient_bounds(radius)
    if bounds is None:
        return None
    return Constant(float((bounds**2).mean()) * (1 + 1e-12 * risk.n_terms**0.5), "bound")
