"""Exchanges of features where all outputs have the same curvature: the work of one output, exact for all of them."""

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host, waits
from .._core.linear_systems import solve
from ..design import in_double
from ..risks.curvature import Curvature
from ..sparsity import Sparsity
from .moves import Exchange
from .problem import Problem


def are_rows(sparsity: Sparsity, n_features: int, n_outputs: int) -> bool:
    """Whether an atom is a feature, with its coefficients of all outputs."""
    p = n_features // n_outputs
    return sparsity.atoms is not None and np.array_equal(sparsity.atoms, np.tile(np.arange(p), n_outputs))


def row_exchanges(
    problem: Problem, model: Curvature, w: np.ndarray, c: np.ndarray, diagonal: np.ndarray, least: float
) -> list[Exchange] | None:
    """Exchanges of features that gain more than `least`, by their gain.

    None where outputs do not treat them alike, or columns of G are too dear.
    """
    one, q = model.shared, model.n_shared
    if not (one is not None and model.exact and problem.gamma.whole_space and are_rows(problem.sparsity, w.size, q)):
        return None
    p = w.size // q
    kept = np.unique(problem.kept % p).astype(np.intp)
    found = row_gains(one, w.reshape(q, p), c.reshape(q, p), diagonal[:p], kept, problem.sparsity)
    if found is None:
        return None
    whole = p * np.arange(q)
    return [
        Exchange(tuple((i + whole).tolist()) if i >= 0 else (), tuple((j + whole).tolist()), 0, gain)
        for i, j, gain in sorted(zip(*(part.tolist() for part in found), strict=True), key=lambda move: -move[2])
        if gain > least
    ]


def row_gains(
    one: Curvature, W: np.ndarray, c: np.ndarray, diagonal: np.ndarray, kept: np.ndarray, sparsity: Sparsity
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """For each feature that leaves the best one to come, and what R gains; None where columns of G are too dear.

    For a quadratic R with half Hessian I ⊗ G, and no Γ, with C, H, B and q as in `SwapSearch` for one output, removing
    the feature i and adding j changes R by

        Σ_t w_ti²/H_ii - Σ_t (c_tj + B_ji w_ti/H_ii)² / (q_j + B_ji²/H_ii),

    whose numerator is a sum of three products of matrices.

    Parameters
    ----------
    one : Curvature
        G.
    W, c : arrays of shape (n_outputs, p)
        The coefficients, zero outside the support, and -½∇R.
    diagonal : array of shape (p,)
        That of G, positive.
    kept : array of int
        Features that must stay.

    Returns
    -------
    out, into, gain : arrays
        Features; -1 for a place that is free.
    """
    F = np.union1d(np.flatnonzero(W.any(axis=0)), kept).astype(np.intp)
    if not one.affords(F.size):
        return None
    C = one.columns(F) if F.size else np.empty((W.shape[1], 0))
    C = in_double(C) if waits(C) else to_host(C)
    H = solve(one.block(F) if waits(C) else C[F], np.eye(F.size))[0] if F.size else np.empty((0, 0))
    h, sizes = np.maximum(np.diagonal(H), 1e-300), np.einsum("ti,ti->i", W[:, F], W[:, F])
    cost, free = np.where(np.isin(F, kept), np.inf, sizes / h), F.size < sparsity.k
    won = _won(C, H, h, W[:, F], sizes, c, diagonal, free)
    won[:, index_like(F, won)] = -np.inf
    allowed = sparsity.exchangeable(F, np.arange(W.shape[1]))
    if allowed is not None:
        won[like(~allowed.T[: len(won)], won, namespace(won).bool)] = -np.inf
    best = won.argmax(axis=1)
    gain = to_host(won[index_like(np.arange(len(won)), won), best])
    return np.append(F, -1)[: len(won)], to_host(best), gain - np.append(cost, 0.0)[: len(won)]


def _won(
    C: Array,
    H: np.ndarray,
    h: np.ndarray,
    w: np.ndarray,
    sizes: np.ndarray,
    c: np.ndarray,
    diagonal: np.ndarray,
    free: bool,
) -> Array:
    """What every feature gains in each place, and in a free one if there is one: computed where C is."""
    xp = namespace(C)
    H, h, w, sizes, c, diagonal = (like(part, C) for part in (H, h, w, sizes, c, diagonal))
    # arrays of shape (places, p), changed where they are: the formula costs what the memory does
    slopes, few = xp.sum(c * c, axis=0), 1e-9 * diagonal
    B = H @ C.T
    inside = np.einsum("ij,ij->j", B, C.T) if isinstance(B, np.ndarray) else xp.sum(B * C.T, axis=0)
    q = xp.clip(diagonal - inside, min=0.0)
    share = B / h[:, None]
    won = (2 * w).T @ c
    won += sizes[:, None] * share
    won *= share
    won += slopes
    B *= share
    B += q
    won /= xp.maximum(B, few)
    return xp.concat([won, (slopes / xp.maximum(q, few))[None, :]]) if free else won
