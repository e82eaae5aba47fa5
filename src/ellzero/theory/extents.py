"""How far the sparse members of Γ reach, and how noisy the terms of a risk can be there.

largest_norm     max {||w|| : w in Γ, ||w||_0 <= k},  which bounds ||w_0 - w̄||
variance_bound   max over ||w|| <= radius of (1/n) Σ_i ||∇R_i(w) - ∇R(w)||²,  the B of HSG-HT
"""

from __future__ import annotations

import math

import numpy as np

from .._core.arrays import to_host
from .._core.validation import check_count, check_nonnegative
from ..design.matrices import row_blocks
from ..risks import Huber, LeastSquares, Logistic, Multinomial, Risk
from ..risks.base import Constant
from ..risks.linear import LinearModel
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
    if not isinstance(risk, (LeastSquares, Huber, Logistic, Multinomial)) or not risk.design.explicit:
        return None
    if isinstance(risk, LeastSquares) and radius is None:
        return None
    n = risk.n_terms
    share = np.broadcast_to(np.asarray(to_host(risk.share) if np.ndim(risk.share) else risk.share, np.float64), n)
    size = _row_norms(risk)
    if isinstance(risk, LeastSquares):
        y, reach = to_host(risk.y).astype(np.float64), size
        if risk.fit_intercept:
            y = y - share @ y
            reach = size + float(np.linalg.norm(to_host(risk.design.adjoint(risk.design.asarray(share)))))
        slope = 2 * (np.abs(y) + check_nonnegative(radius, "radius") * reach)
    else:
        largest = {Logistic: 1.0, Multinomial: math.sqrt(2)}
        slope = np.full(n, 2 * risk.delta if isinstance(risk, Huber) else largest[type(risk)])
    terms: np.ndarray = (n * share * slope * size) ** 2
    return Constant(float(terms.mean()) * (1 + 1e-12 * n**0.5), "bound")


def _row_norms(risk: LinearModel) -> np.ndarray:
    norms = np.empty(risk.n_terms)
    for rows in row_blocks(risk.design.shape):
        block = to_host(risk.design.rows(np.arange(rows.start, rows.stop)).dense())
        norms[rows] = np.linalg.norm(block.astype(np.float64), axis=1)
    return norms
