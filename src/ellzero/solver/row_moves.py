"""Exchanges of features where all outputs have the same curvature: the work of one output, exact for all of them."""

import numpy as np

from .._core.arrays import to_host
from .._core.linear_systems import solve
from ..risks.curvature import Curvature
from ..sparsity import Sparsity


def are_rows(sparsity: Sparsity, n_features: int, n_outputs: int) -> bool:
    """Whether an atom is a feature, with its coefficients of all outputs."""
    p = n_features // n_outputs
    return sparsity.atoms is not None and np.array_equal(sparsity.atoms, np.tile(np.arange(p), n_outputs))


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
    C = to_host(one.columns(F)) if F.size else np.empty((W.shape[1], 0))
    H = solve(C[F], np.eye(F.size))[0] if F.size else C[F]
    h = np.maximum(np.diagonal(H), 1e-300)
    # arrays of shape (places, p), changed where they are: the formula costs what the memory does
    T, slopes, few = C.T, np.einsum("tj,tj->j", c, c), 1e-9 * diagonal
    B = H @ T
    q = np.maximum(diagonal - np.einsum("ij,ij->j", B, T), 0.0)
    share, sizes = B / h[:, None], np.einsum("ti,ti->i", W[:, F], W[:, F])
    won = np.empty((F.size + 1, W.shape[1]))
    won[:-1] = (2 * W[:, F]).T @ c
    won[:-1] += sizes[:, None] * share
    won[:-1] *= share
    won[:-1] += slopes
    B *= share
    B += q
    won[:-1] /= np.maximum(B, few, out=B)
    won[-1] = slopes / np.maximum(q, few)  # for a free place
    cost = np.append(np.where(np.isin(F, kept), np.inf, sizes / h), 0.0 if F.size < sparsity.k else np.inf)
    won[:, F] = -np.inf
    allowed = sparsity.exchangeable(F, np.arange(W.shape[1]))
    if allowed is not None:
        won[~allowed.T] = -np.inf
    best = won.argmax(axis=1)
    return np.append(F, -1), best, won[np.arange(F.size + 1), best] - cost
