"""The diagonal that can be split off a quadratic form."""

import math

import numpy as np

from ..risks.accuracy import EPS, QuadraticForm


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
