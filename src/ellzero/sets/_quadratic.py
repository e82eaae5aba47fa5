"""Small convex quadratic programmes by non-negative least squares."""

from __future__ import annotations

import numpy as np


def minimise_over_polytope(G: np.ndarray, b: np.ndarray, A: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Au >= h, for positive definite G; None where that cannot be done accurately.

    With G = LLᵀ, u = G⁻¹b + L⁻ᵀx: the shortest x with AL⁻ᵀx >= h - AG⁻¹b, and that is a non-negative least-squares
    problem (Lawson & Hanson, least distance programming). Its multipliers tell which rows are tight, and the answer
    is the shortest solution of the linear equations of these.
    """
    from scipy.optimize import nnls

    scale = float(np.trace(G)) / max(len(G), 1)
    if not 0 < scale < np.inf:
        return None
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(G / scale))
        u = inverse.T @ (inverse @ (b / scale))
        lack = h - A @ u
        if lack.max(initial=0.0) <= 0:
            return u
        E = inverse @ A.T  # a column for each row of A
        size = np.sqrt(np.einsum("ij,ij->j", E, E))
        E, lack = E / size, lack / size
        far = float(np.abs(lack).max())
        y = nnls(np.vstack([E, lack / far]), np.append(np.zeros(len(b)), 1.0), maxiter=50 * len(h))[0]
        tight = y > 0
        u = u + inverse.T @ np.linalg.lstsq(E[:, tight].T, lack[tight], rcond=1e-13)[0]
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    lack = (h - A @ u) / size
    return u if np.isfinite(u).all() and lack.max() <= 1e-9 * far else None
