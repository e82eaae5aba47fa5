"""Small convex quadratic programmes by non-negative least squares."""

from __future__ import annotations

import numpy as np


def minimise_over_polytope(G: np.ndarray, b: np.ndarray, A: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Au >= h, for positive definite G; None where that cannot be done accurately.

    With G = LLᵀ, u = G⁻¹b + L⁻ᵀx: the shortest x with AL⁻ᵀx >= h - AG⁻¹b, and that is a non-negative least-squares
    problem (Lawson & Hanson, least distance programming). Its multipliers tell which rows are tight, and the answer
    is the solution of the linear equations of these.
    """
    from scipy.linalg import LinAlgError, cholesky, solve_triangular
    from scipy.optimize import nnls

    scale = float(np.trace(G)) / max(len(G), 1)
    try:
        L = cholesky(G / scale, lower=True)
        u = solve_triangular(L, solve_triangular(L, b / scale, lower=True), trans="T", lower=True)
        lack = h - A @ u
        if lack.max(initial=0.0) <= 0:
            return u
        E = solve_triangular(L, A.T, lower=True)  # a column for each row of A
        size = np.sqrt(np.einsum("ij,ij->j", E, E))
        E, lack = E / size, lack / size
        far = float(np.abs(lack).max())
        y = nnls(np.vstack([E, lack / far]), np.append(np.zeros(len(b)), 1.0), maxiter=50 * len(h))[0]
        tight = y > 0
        E, lack = E[:, tight], lack[tight]
        u = u + solve_triangular(L, np.linalg.lstsq(E.T, lack, rcond=1e-13)[0], trans="T", lower=True)
    except (LinAlgError, RuntimeError, ValueError):
        return None
    slack = (h - A @ u) / size
    return u if np.isfinite(u).all() and slack.max() <= 1e-9 * far else None
