"""Further starts for exchanges: a part of the support is given up, and its places are filled again."""

from __future__ import annotations  # np.random is not loaded for a signature

import math
from contextlib import suppress
from typing import Any

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point
from ..sets import ConstraintSet, EmptySlice
from .exchanges import SwapSearch
from .moves import inverse
from .projections import proposed_support
from .refit import refit
from .state import State

# Shares of the support that are given up one after the other, and how much of R the exchanges must have mended first.
# Chosen on 88 problems of survival (500 x 2000, k = 15), those of benchmarks/survival.py among them. Beside the ladder
# of damped problems: neighbours correlated by 0.5, worse on none of 36 and better on 3; by 0.9, worse than the best
# known on 6 of 36 against 2 (0.03% on average against 0.01%), at three quarters of its time.
_SHARES = ((1 / 3, -1.0), (1 / 2, 0.001), (2 / 3, 0.005))
_NEWCOMERS, _MOST = 8, 256  # for each entry of the support; and beyond the free places


def from_fewer(state: State, search: SwapSearch, before: float) -> None:
    """Begin the exchanges anew from the best support without its cheapest part; before them R was `before`."""
    if not (search.helped or search.problem.gamma.whole_space):  # without a quick way to fill places it costs more
        return
    mended = (before - state.best.value) / max(abs(state.best.value), 1e-300)
    for share, least in _SHARES:
        if search.cut or mended < least:
            break
        with suppress(EmptySlice):  # Γ may have no member on so few places
            state.keep_better(_regrown(state.best, search, share))


def _regrown(point: Point, search: SwapSearch, share: float) -> Point | None:
    """Where exchanges lead from the support without the cheapest share of it; None where all of it comes back.

    Coordinate i costs w_i²/(G⁻¹)_ii, G the curvature on the support. The places are filled at once for the quadratic
    model at the refitted rest, or with Γ by the exchanges.
    """
    problem, risk = search.problem, search.problem.risk
    model, S, w = risk.curvature(point), problem.support_of(point.nonzeros), to_host(point.w).astype(float)
    number = int(share * np.setdiff1d(S, problem.kept).size)
    if model is None or not number:
        return None
    loss = w[S] ** 2 / np.maximum(np.diagonal(inverse(model.block(S))), 1e-300)
    loss[np.isin(S, problem.kept)] = np.inf
    stay = np.sort(S[np.argsort(-loss, kind="stable")[: S.size - number]])
    rest = refit(risk, problem.gamma, stay, point.at(stay), search.units, search.deadline)
    if problem.gamma.whole_space and (model := risk.curvature(rest)) is not None:
        grown = _grown(rest, stay, model, problem.sparsity.k)
        search.n_products += 1 + model.spent
        if np.array_equal(grown, S):
            return None
        rest = refit(risk, problem.gamma, grown, rest.at(grown), search.units, search.deadline)
    rest.refitted = True
    return search.improve(rest)


def _grown(rest: Point, stay: np.ndarray, model: Any, k: int) -> np.ndarray:
    """The support with those added one by one that lower the quadratic model most, all values refitted: c_j²/q_j.

    They are looked for among the few that are best by c_j²/G_jj, whose columns of X are enough. Of G there, the part
    M = G - G_S(G_SS)⁻¹G_Sᵀ is left beside S, q is its diagonal, and j takes M_j c_j/q_j from c, M_j M_jᵀ/q_j from M.
    """
    c, diagonal = -0.5 * to_host(rest.gradient).astype(float), np.maximum(model.diagonal, 1e-300)
    worth = c**2 / diagonal
    worth[stay] = -1.0
    places = min(k, c.size) - stay.size
    some = np.argsort(-worth)[: min(_NEWCOMERS * k, places + _MOST, c.size - stay.size)]
    G = model.block(np.concatenate([stay, some]))
    C, M = G[stay.size :, : stay.size], G[stay.size :, stay.size :]
    M, c, support = M - C @ inverse(G[: stay.size, : stay.size]) @ C.T, c[some], stay.tolist()
    free, least = np.ones(some.size, dtype=bool), 1e-3 * np.diagonal(G)[stay.size :]  # less is hardly a new column
    for _ in range(places):
        q = np.maximum(np.diagonal(M), least)
        j = int(np.where(free, c**2 / q, -1.0).argmax())
        c, M = c - M[j] * (c[j] / q[j]), M - np.outer(M[j], M[j] / q[j])
        free[j] = False
        support.append(int(some[j]))
    return np.sort(np.array(support, dtype=np.intp))


def kicked(point: Point, search: SwapSearch, rng: np.random.Generator) -> Point:
    """The best point without a third of the support, chosen at random; exchanges fill the places again."""
    problem, sparsity = search.problem, search.problem.sparsity
    support = point.nonzeros
    atoms = support if sparsity.atoms is None else sparsity.atoms[support]
    movable = np.setdiff1d(atoms, atoms[np.isin(support, problem.kept)])
    number = max(1, movable.size // 3)
    if sparsity.atoms is not None and movable.size:  # pairs of these were tried already
        number = int(rng.integers(number, movable.size + 1))
    leave = rng.choice(movable, min(movable.size, number), replace=False)
    leaving = np.isin(atoms, leave)
    stay = support[~leaving]
    if type(problem.gamma).sparse_support is not ConstraintSet.sparse_support:
        # Γ may have no member on so few places: others are put there at once, at random
        v = to_host(point.w).astype(float)
        size = float(np.abs(v).max(initial=0.0))
        v += rng.random() * size * rng.random(v.size)
        v[support[leaving]] = -size
        proposed = proposed_support(problem.gamma, sparsity, v, problem.kept)
        stay = stay if proposed is None else proposed
    try:
        return search.refit(stay, point, math.inf)
    except EmptySlice:
        return point
