"""argmin uᵀGu - 2bᵀu on the boundary of a ball or an ellipsoid: an equation in one unknown, the multiplier."""

from __future__ import annotations

import math

import numpy as np

from .._core.arrays import norm


def in_ellipsoid(G: np.ndarray, b: np.ndarray, halves: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Σ(u_i/halves_i)² <= 1, which does not hold for the minimiser without it.

    In v = u/halves, with G = VΛVᵀ and c = Vᵀb there: v = V(Λ + μ)⁻¹c, and the μ > 0 with ||v|| = 1 is found by
    Newton's method on 1/||v||, which is nearly linear in μ, and concave: from the left it never goes too far.
    """
    try:
        eigenvalues, V = np.linalg.eigh(halves[:, None] * G * halves)
    except np.linalg.LinAlgError:  # numbers without end
        return None
    eigenvalues, c = np.maximum(eigenvalues, 0.0), V.T @ (halves * b)
    unit = float(np.abs(c).max(initial=0.0)) or 1.0  # nothing else has a size here
    eigenvalues, c = eigenvalues / unit, c / unit
    c[(eigenvalues <= 1e-13 * eigenvalues[-1]) & (np.abs(c) <= 1e-13 * norm(c))] = 0.0  # rounding
    if not (np.isfinite(c).all() and c.any()):
        return None
    weight = c * c
    # ||v|| at the largest eigenvalue is a lower bound, so is each of its entries alone
    mu = max(float(np.max(np.abs(c) - eigenvalues)), norm(c) - float(eigenvalues[-1]), 1e-16 * norm(c))
    for _ in range(100):
        size = math.sqrt(float(np.sum(weight / (eigenvalues + mu) ** 2)))
        change = (size - 1) * size**2 / float(np.sum(weight / (eigenvalues + mu) ** 3))
        if not change > 1e-16 * mu:
            break
        mu += change
    return np.asarray(halves * (V @ (c / (eigenvalues + mu))))


def in_lp_ball(G: np.ndarray, b: np.ndarray, p: float, radius: float, start: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over Σ|u_i/radius|^p <= 1, 1 < p < ∞, which does not hold for the minimiser without it.

    Σ|u_i/radius|^p of the minimiser of uᵀGu - 2bᵀu + μΣ|u_i/radius|^p, by Newton's method, falls with μ: the μ at
    which it is 1 is found between bounds.
    """
    from scipy.optimize import brentq

    u, G, b = start / radius, radius**2 * G, radius * b
    ridge = 1e-14 * float(np.trace(G)) * np.eye(b.size)

    def best_at(mu: float, u: np.ndarray) -> np.ndarray:
        def value(u: np.ndarray) -> float:
            return float(u @ (G @ u - 2 * b) + mu * np.sum(np.abs(u) ** p))

        here = value(u)
        for _ in range(60):
            size = np.maximum(np.abs(u), 1e-150)
            slope = G @ u - b + 0.5 * mu * p * np.sign(u) * size ** (p - 1)
            bend = G + ridge + np.diag(0.5 * mu * p * (p - 1) * size ** (p - 2))
            step, length = np.linalg.solve(bend, -slope), 1.0
            fall = float(slope @ step)  # half of it is the most that a good step brings
            while (there := value(u + length * step)) > here + 0.5 * length * fall and length > 1e-12:
                length *= 0.5
            u, gained, here = (u + length * step, here - there, there) if there <= here else (u, 0.0, here)
            if gained <= 1e-15 * abs(here):
                break
        return u

    def excess(level: float) -> float:
        """The logarithm of Σ|u_i|^p, nearly linear in that of μ."""
        nonlocal u
        u = best_at(scale * math.exp(level), u)
        return math.log(max(float(np.sum(np.abs(u) ** p)), 1e-300))

    scale = 2 * float(np.abs(b).max(initial=0.0))  # no multiplier is much larger
    try:
        brentq(excess, -80.0, 5.0, xtol=1e-14, rtol=1e-14, maxiter=100)
    except (ValueError, RuntimeError, np.linalg.LinAlgError):  # no change of sign, not found, overflow
        return None
    return np.asarray(radius * u / max(1.0, float(np.sum(np.abs(u) ** p)) ** (1 / p)))
