"""Another start for exchanges: the cheapest coordinates are given up, and their places filled again."""

from typing import Any

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point
from .exchanges import SwapSearch
from .moves import inverse
from .refit import refit

# Shares of the support that are given up, one after the other. Measured on 39 problems of survival, 500 x 2000, k = 15:
# worse than the best known on 5, where the ladder of damped problems is worse on 5 others at four times the work.
SHARES = (1 / 3, 1 / 2)


def regrown(point: Point, search: SwapSearch, share: float) -> Point | None:
    """Where exchanges lead from the support without the cheapest share of it; None where nothing can be given up, or
    all of it comes back.

    Coordinate i costs w_i²/(G⁻¹)_ii, G the curvature on the support. Places are filled at once, for the quadratic model
    at the refitted rest, or with Γ by the exchanges.
    """
    problem, risk = search.problem, search.problem.risk
    model, S, w = risk.curvature(point), problem.support_of(point.w), to_host(point.w).astype(float)
    number = int(share * np.setdiff1d(S, problem.kept).size)
    if model is None or not number:
        return None
    loss = w[S] ** 2 / np.maximum(np.diagonal(inverse(model.block(S))), 1e-300)
    loss[np.isin(S, problem.kept)] = np.inf
    stay = np.sort(S[np.argsort(-loss, kind="stable")[: S.size - number]])
    rest = refit(risk, problem.gamma, stay, point.w, search.units, search.deadline)
    model = risk.curvature(rest)
    if problem.gamma.whole_space and model is not None and stay.size and model.affords(S.size):
        grown = _grown(rest, stay, model, problem.sparsity.k)
        search.n_products += 1 + model.spent
        if np.array_equal(grown, S):
            return None
        rest = refit(risk, problem.gamma, grown, rest.w, search.units, search.deadline)
    rest.refitted = True
    return search.improve(rest)


def _grown(rest: Point, stay: np.ndarray, model: Any, k: int) -> np.ndarray:
    """The support with those added one by one that lower the quadratic model most, all values refitted: c_j²/q_j.

    A newcomer's column less its part in the span of the others, v = q^(-½)(G_j - G_S(G_SS)⁻¹G_Sj), changes c by
    v v_j^{-1} c_j, and q by v².
    """
    c, diagonal = -0.5 * to_host(rest.gradient).astype(float), model.diagonal
    least = np.maximum(1e-3 * diagonal, 1e-300)  # less is not left of a column but rounding, and is no help
    C = model.columns(stay)
    B = C @ inverse(C[stay])
    q, support, parts = diagonal - np.einsum("ij,ij->i", B, C), stay.tolist(), np.empty((c.size, 0))
    while len(support) < min(k, c.size):
        won = np.where(q > least, c, 0.0) ** 2 / np.maximum(q, least)
        won[support] = -1.0
        j = int(won.argmax())
        part = model.columns(np.array([j]))[:, 0] - B @ C[j] - parts @ parts[j]
        part /= np.sqrt(max(q[j], least[j]))
        c, q, parts = c - part * (c[j] / part[j] if part[j] else 0.0), q - part**2, np.column_stack([parts, part])
        support.append(j)
    return np.sort(np.array(support, dtype=np.intp))
