"""A quadratic risk as its matrix, lowered by what rounding may have added, and the diagonal that can be split off it.

R(w) >= c - bᵀw + ½wᵀQw - Σ_i e_i|w_i| for every w with at most k nonzeros, with numbers that are exactly the
floating-point ones; e_i = rounding·roots_i·√(2·energy).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np

from .._core.arrays import to_host
from ..design.matrices import Dense, Sparse, in_double, row_blocks
from ..risks import LeastSquares, Quadratic, Risk

EPS = float(np.finfo(np.float64).eps)
#: up to this many coordinates the whole matrix is formed; its eigenvalues then take about a second
LARGEST = 2000
_AFFORDABLE = 2e11  # multiplications for XᵀX, some seconds


@dataclass
class QuadraticForm:
    """c - bᵀw + ½wᵀQw.

    Attributes
    ----------
    Q, b, c : the function.
    roots : array
        √Q_ii, so that |Q_ij| <= roots_i roots_j.
    energy : float
        |b_i| <= roots_i √(2·energy).
    rounding : float
        The relative error of a product with Q or with the data.
    flat : float or None
        The smallest eigenvalue where it is known beforehand: the ridge, if there are fewer samples than coordinates.
    """

    Q: np.ndarray
    b: np.ndarray
    c: float
    roots: np.ndarray
    energy: float
    rounding: float
    flat: float | None = None

    @classmethod
    def of(cls, risk: Risk, k: int) -> QuadraticForm | None:
        """The form of a risk; None where the risk is not quadratic, or its matrix too dear."""
        d = risk.n_features
        if d > LARGEST:
            return None
        if isinstance(risk, Quadratic):
            Q, b = risk._matrix, to_host(risk.b).astype(np.float64)
            diagonal = np.diag(Q)
            # Q and b are exactly what was given; the sizes of the entries, if not too small, bound what products lose
            squares = np.maximum(diagonal, 1e-16 * float(np.max(diagonal, initial=0.0)) or 1.0)
            energy = float(np.max(0.5 * b * b / squares, initial=0.0))
            return cls(Q, b, 0.0, np.sqrt(squares), energy, (d + 16) * EPS)
        ours = isinstance(risk, LeastSquares) and type(risk).__module__.startswith("ellzero.risks.")
        if (
            not isinstance(risk, LeastSquares)
            or not ours
            or not risk.design.explicit
            or risk.n_terms * d * d > _AFFORDABLE
        ):
            return None
        n = risk.n_terms
        share = risk.double_share
        gram, mean = risk.design.moments(share)
        squares = np.diag(gram).copy()
        y = to_host(risk.y).astype(np.float64)
        total = float(share.sum())  # 1 up to the precision of the data
        centre = float(share @ y) / total if risk.fit_intercept else 0.0
        target = share * (y - centre)
        b = np.zeros(d)
        if isinstance(risk.design, Dense):
            for rows in row_blocks(risk.design.shape):
                b += to_host(in_double(risk.design.X[rows, :])).T @ target[rows]
        else:
            assert isinstance(risk.design, Sparse)
            b += risk.design.X.T.astype(np.float64) @ target
        energy = float(share @ (y * y)) if risk.fit_intercept else float(target @ y)
        if risk.fit_intercept:
            gram = gram - np.outer(mean, mean) / total
        rounding = (2 * n + d + 32) * EPS * (2 if risk.fit_intercept else 1)
        # lowered by the rounding of the products: |½wᵀEw| <= ½·rounding·k Σ_i 2·squares_i w_i² for k-sparse w
        Q = 2.0 * gram
        Q[np.diag_indices(d)] += risk.ridge * (1 - 4 * EPS) - 2 * rounding * min(k, d) * squares
        c = float(target @ (y - centre))
        roots = np.sqrt(np.maximum(2 * squares + risk.ridge, 0.0))
        flat = risk.ridge if n < d else None
        return cls(Q, 2.0 * b, c - rounding * energy, roots, energy, rounding, flat)

    def restrict(self, index: np.ndarray) -> QuadraticForm:
        """The function of these coordinates alone, the others zero."""
        part = copy.copy(self)
        part.flat = None
        part.Q, part.b, part.roots = self.Q[np.ix_(index, index)], self.b[index], self.roots[index]
        return part


def is_positive(form: QuadraticForm, delta: np.ndarray) -> bool:
    """Whether Q - diag(δ) is positive semidefinite, proved by a Cholesky factor of a slightly smaller matrix.

    A factorisation that runs to its end in floating point is that of a matrix whose entries differ by at most
    (d+1)·eps·√(a_ii a_jj) (Higham 2002, Theorem 10.3), hence by d(d+1)·eps of the diagonal, which is subtracted first.
    """
    d = delta.size
    A = form.Q.copy()
    A[np.diag_indices(d)] -= delta + 2 * d * (d + 8) * EPS * (np.abs(np.diag(form.Q)) + np.abs(delta))
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


def lack_of_convexity(form: QuadraticForm, k: int) -> float:
    """A number t with Q + t·I positive semidefinite: next to 0 if Q is so up to rounding, inf if none was found."""
    largest = float(np.max(np.diag(form.Q), initial=0.0))
    d = form.b.size
    for times in (1.0, 8.0, 64.0):
        t = times * (4 * min(k, d) * form.rounding + 4 * d * (d + 8) * EPS) * largest
        if is_positive(form, np.full(d, -t)):
            return t
    return math.inf


def smallest_eigenvalue(form: QuadraticForm, scaled: bool) -> np.ndarray:
    """The largest multiple δ of 1, or of the diagonal of Q if scaled, that can be split off: one eigenvalue."""
    d = form.b.size
    unit = np.diag(form.Q).copy() if scaled else np.ones(d)
    if not (unit > 0).all() or (form.flat is not None and (scaled or not form.flat)):
        return np.zeros(d)
    root = np.sqrt(unit)
    low = form.flat or float(np.linalg.eigvalsh(form.Q / root / root[:, None])[0])
    for margin in (1e-12, 1e-10, 1e-8) if form.flat is None else (1e-9, 1e-7):
        delta = (low - margin * max(abs(low), d * EPS)) * unit - 4 * d * (d + 8) * EPS * np.abs(np.diag(form.Q))
        if (delta > 0).all() and is_positive(form, delta):
            return delta
    return np.zeros(d)


def improve_split(form: QuadraticForm, delta: np.ndarray, weight: np.ndarray, steps: int = 24) -> np.ndarray:
    """max Σ weight_i δ_i over δ >= 0 with Q - diag(δ) positive semidefinite, by a few Newton steps on a barrier.

    Starts from a strictly feasible δ > 0; what it returns is feasible and proved so, better for these weights, if
    not the best. The bound of a relaxation rises by ½ w_i²(1/s_i - 1) for each unit of δ_i (Zheng, Sun & Li 2014
    choose δ by a semidefinite programme of which this is the plain barrier method).
    """
    weight = np.maximum(weight, 1e-4 * weight.max(initial=0.0))
    if not weight.any() or not (delta > 0).all():
        return delta
    unit = math.frexp(float(delta.max()))[1]  # a power of 2, by which squares of δ stay among the numbers
    Q, inside, t = np.ldexp(form.Q, -unit), np.ldexp(0.9 * delta, -unit), 0.3 / delta.size
    weight = weight / float(weight @ np.ldexp(delta, -unit))
    for _ in range(steps):
        A = Q.copy()
        A[np.diag_indices(delta.size)] -= inside
        try:
            S = np.linalg.inv(A)
            slope = weight - t * np.diag(S) + t / inside
            step = np.linalg.solve(t * S * S + np.diag(t / inside**2), slope)
        except np.linalg.LinAlgError:
            break
        decrement = float(slope @ step) / t
        size = 1.0 if decrement < 0.25 else 1 / (1 + math.sqrt(decrement))
        while size > 1e-6:
            trial = inside + size * step
            if (trial > 0).all() and is_positive(form, np.ldexp(trial, unit)):
                break
            size *= 0.5
        else:
            break
        inside = trial
        if decrement < 0.25:
            t *= 0.25
    inside = np.ldexp(inside, unit)
    return inside if is_positive(form, inside) else delta
