"""How far the sparse members of Γ reach, and how noisy the terms of a risk can be there.

largest_norm     max {||w|| : w in Γ, ||w||_0 <= k},  which bounds ||w_0 - w̄||
variance_bound   max over ||w|| <= radius of (1/n) Σ_i ||∇R_i(w) - ∇R(w)||²,  the B of HSG-HT
"""

import math

import numpy as np

from .._core.validation import check_count
from ..risks import Risk
from ..risks.base import Constant
from ..sets import ConstraintSet


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
    with np.errstate(over="ignore"):  # a bound whose square is no number is none
        square = float(constraint.norm_squares(d, min(check_count(k, "k"), d))[-1])
    return math.sqrt(square) if math.isfinite(square) else None


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
