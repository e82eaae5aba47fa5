"""A sparse gradient from fewer slopes than it has entries: subspace pursuit, checked on slopes that it has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .asking import largest, power_of_2

_HELD_OUT = 8  # one slope in so many decides how many entries are believed
DENSE = 0.1  # share of the squares of held-out slopes; where more is unexplained, all entries may matter
_AS_NOISE = 2.0  # of a slope: what sparse entries leave, where they are right
_ROUNDS = 12  # of exchanges of entries, after which a support that still changes is as good as any


class Probes(Protocol):
    """Directions, in order."""

    n_features: int

    def rows(self, first: int, last: int, columns: np.ndarray | None = None) -> np.ndarray:
        """Those directions as rows, or some of their columns."""

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Σ_r weights_r u_r over the first directions."""

    def solve(self, values: np.ndarray) -> np.ndarray | None:
        """The one gradient that fits to all slopes, up to a constant; None where there are not enough of them."""


@dataclass(frozen=True)
class Displacements:
    """Directions given one by one, as rows."""

    matrix: np.ndarray

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    def rows(self, first: int, last: int, columns: np.ndarray | None = None) -> np.ndarray:
        part = self.matrix[first:last]
        return part if columns is None else part[:, columns]

    def combine(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ self.matrix[: weights.size])

    def solve(self, values: np.ndarray) -> np.ndarray | None:
        worth = np.isfinite(values)
        if np.count_nonzero(worth) <= self.n_features:
            return None
        B = np.column_stack([self.matrix[: values.size][worth], np.ones(np.count_nonzero(worth))])
        return np.asarray(np.linalg.lstsq(B, values[worth], rcond=1e-9)[0][:-1])


@dataclass(frozen=True)
class Recovery:
    """A gradient as slopes tell it.

    Attributes
    ----------
    gradient : array of shape (d,)
    error : float
        The standard error of an entry, if the entries that are zero here are.
    spread : float
        The standard deviation of what the gradient does not explain of slopes that it was not made from.
    unexplained : float
        The share of this in the sum of squares of those slopes; 1 and more where nothing is explained.
    units : array or float
        How far probes go in each coordinate: an error of `error` in an entry is one of error/units.
    """

    gradient: np.ndarray
    error: float
    spread: float
    unexplained: float
    units: np.ndarray | float = 1.0

    def significant(self) -> np.ndarray:
        """Entries that chance does not explain, at one false one in a hundred recoveries or so."""
        seen = np.abs(np.where(self.gradient == 0, 0.0, self.gradient * self.units))
        bar = (1.5 + math.sqrt(2 * math.log(seen.size + 1))) * self.error
        return np.flatnonzero(seen > max(bar, 1e-12 * float(seen.max(initial=0.0))))

    def standing_out(self) -> np.ndarray:
        """The gradient without the entries that chance explains."""
        gradient = np.zeros_like(self.gradient)
        kept = self.significant()
        gradient[kept] = self.gradient[kept]
        return gradient


def recover(probes: Probes, slopes: np.ndarray, error: float = 0.0, likely: np.ndarray | None = None) -> Recovery:
    """argmin_g Σ_r (slope_r - a - <u_r, g>)² over sparse g, the number of nonzeros being chosen on held-out slopes.

    The constant a takes up what all directions have in common: the curvature along them, mostly.

    Parameters
    ----------
    probes : Probes
        Directions of ±1, or close to it.
    slopes : array
        Along the first of them; NaN where there is none.
    error : float
        The standard deviation of the error of a slope, as far as it is known.
    likely : array of int, optional
        Entries that mattered elsewhere: where these explain what was kept back, hardly more slopes than they are do.
    """
    unit = power_of_2(largest(slopes[np.isfinite(slopes)]))  # squares neither over- nor underflow
    found = _recovered(probes, slopes / unit, error / unit, likely)
    return replace(found, gradient=unit * found.gradient, error=unit * found.error, spread=unit * found.spread)


def _recovered(probes: Probes, slopes: np.ndarray, error: float, likely: np.ndarray | None) -> Recovery:
    worth = np.isfinite(slopes)
    if np.count_nonzero(worth) < 4:
        return Recovery(np.zeros(probes.n_features), math.inf, math.inf, 1.0)
    seen = worth & (np.arange(slopes.size) % _HELD_OUT != _HELD_OUT // 2)
    kept_back = worth & ~seen
    if not kept_back.any():
        seen, kept_back = worth, worth
    values = np.where(worth, slopes, 0.0)
    mean = float(values[seen].mean())
    total = float(np.sum((values[kept_back] - mean) ** 2))
    best, support, left = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), total

    def unexplained(support: np.ndarray, coefficients: np.ndarray) -> float:
        columns = probes.rows(0, slopes.size, support)[kept_back]
        wrong = values[kept_back] - coefficients[-1] - columns @ coefficients[:-1]
        return float(wrong @ wrong)

    if likely is not None and 0 < likely.size <= 0.9 * np.count_nonzero(seen) - 2:
        coefficients, _ = _fit(probes.rows(0, slopes.size, likely)[seen], values[seen])
        if (energy := unexplained(likely, coefficients)) < 0.98 * left:
            best, left = likely, energy
    most, s = min(int(np.count_nonzero(seen)) // 3, probes.n_features), 1
    while s <= most and left > 1e-12 * total:
        support, coefficients, residual = _pursuit(probes, values, seen, s, support)
        energy = unexplained(support, coefficients)
        if energy < 0.98 * left:
            best, left = support, energy
        if residual <= 1e-20 * total or s == probes.n_features:
            break
        s = min(2 * s, probes.n_features)
    coefficients, residual = _fit(probes.rows(0, slopes.size, best)[worth], values[worth])
    gradient = np.zeros(probes.n_features)
    gradient[best] = coefficients[:-1]
    n = int(np.count_nonzero(worth))
    inside = residual / max(1, n - best.size - 1)
    # with all slopes at hand nothing has to be believed, unless noise makes fewer entries the better guess
    unsure = left > DENSE * total or math.sqrt(inside) > _AS_NOISE * error
    if unsure and (whole := probes.solve(slopes)) is not None:
        return Recovery(whole, error / math.sqrt(n), error, 0.0)
    if left > DENSE * total:
        # many entries matter, and the largest of them are still the likeliest here
        remainder, columns = np.zeros(slopes.size), probes.rows(0, slopes.size, best)[worth]
        remainder[worth] = values[worth] - coefficients[-1] - columns @ coefficients[:-1]
        gradient += probes.combine(remainder) / n
    outside = left / np.count_nonzero(kept_back)
    spread = math.sqrt(max(inside, outside))
    return Recovery(gradient, spread / math.sqrt(n), math.sqrt(outside), left / total if total > 0 else 0.0)


def _pursuit(
    probes: Probes, values: np.ndarray, seen: np.ndarray, s: int, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """s entries, their coefficients and the constant, and the sum of squares that they leave (subspace pursuit)."""
    y, q = values[seen], values.size
    support, residual = start, math.inf
    coefficients, left = _fit(probes.rows(0, q, start)[seen], y)
    for _ in range(_ROUNDS):
        remainder = np.zeros(q)
        remainder[seen] = y - coefficients[-1] - probes.rows(0, q, support)[seen] @ coefficients[:-1]
        wider = np.union1d(support, _largest(probes.combine(remainder), s))
        coefficients, _ = _fit(probes.rows(0, q, wider)[seen], y)
        fewer = np.sort(wider[_largest(coefficients[:-1], s)])
        coefficients, left = _fit(probes.rows(0, q, fewer)[seen], y)
        if left >= (1 - 1e-6) * residual:
            break
        support, residual = fewer, left
    coefficients, residual = _fit(probes.rows(0, q, support)[seen], y)
    return support, coefficients, residual


def _fit(columns: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares with a constant, which comes last, and the sum of squares that is left."""
    B = np.column_stack([columns, np.ones(y.size)])
    gram = B.T @ B
    gram[np.diag_indices_from(gram)] += 1e-13 * max(1.0, float(np.trace(gram)) / len(gram))
    coefficients = np.linalg.solve(gram, B.T @ y)
    remainder = y - B @ coefficients
    return coefficients, float(remainder @ remainder)


def _largest(v: np.ndarray, s: int) -> np.ndarray:
    return np.argpartition(-np.abs(v), min(s, v.size) - 1)[:s] if v.size > s else np.arange(v.size)
