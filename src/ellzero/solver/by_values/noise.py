"""How noisy values are, from a few of them close together, and how long a difference should be because of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .asking import power_of_2

EPS = float(np.finfo(float).eps)
_FEWEST = 4  # values of a table


@dataclass(frozen=True)
class Noise:
    """What is known of the errors of function values.

    Attributes
    ----------
    level : float
        The standard deviation of one value, as measured; rounding alone for a function that is exact.
    mu : float
        The length of the differences that gradients were last made of.
    n_values : int
        How many values were spent on measuring it.
    exact : bool
        Whether no more than rounding was seen.
    resolved : bool
        Whether some point was shown to be better than the start in spite of it, by values that had no part in choosing
        that point; for `SparseProbes` alone, whether a slope stood out.
    """

    level: float
    mu: float
    n_values: int
    exact: bool
    resolved: bool

    def __str__(self) -> str:
        what = "rounding alone" if self.exact else f"{self.level:.2g} in each value"
        return f"{what}, differences of length {self.mu:.2g}"


def noise_of(values: np.ndarray) -> float:
    """The standard deviation of the errors of values at equally spaced points of a line, close together.

    By differences of differences (Hamming; Moré & Wild 2011): those of order j of a smooth function fall with the
    spacing, those of independent errors of variance σ² have the mean square σ²(2j)!/(j!)². So the first order from
    which on three estimates of σ agree within a factor 4 is believed; without one, the smallest estimate.
    """
    gaps = np.flatnonzero(~np.isfinite(values))
    table = max(
        np.split(values, np.sort(np.append(gaps, gaps + 1))), key=lambda part: part.size * np.isfinite(part).all()
    )
    if table.size < _FEWEST or not np.isfinite(table).all():
        return 0.0  # too few without a gap
    unit = power_of_2(float(np.abs(table).max()))  # squares of values as they are may over- or underflow
    table, estimates, signs = table / unit, [], []
    factor = 1.0
    for order in range(1, table.size):
        table = np.diff(table)
        factor *= order / (2.0 * (2 * order - 1))  # (j!)²/(2j)!
        with np.errstate(over="ignore", under="ignore"):
            estimates.append(math.sqrt(factor * float(np.mean(table**2))))
        signs.append(bool(table.min() < 0 < table.max()))
    if estimates[0] == 0:
        return 0.0  # not one of them differs
    for j in range(len(estimates) - 2):
        three = estimates[j : j + 3]
        if max(three) <= 4 * min(three) and signs[j]:
            return unit * float(three[0])
    return unit * min(estimates)


def rounding(value: float) -> float:
    """The error that every computed value has."""
    return EPS * abs(value) if math.isfinite(value) else 0.0


def difference_length(noise: float, bend: float, longest: float) -> float:
    """h = 8^(1/4) sqrt(σ/|f''|), at which errors of values and curvature spoil a forward difference least."""
    if not bend > 0:
        return longest
    with np.errstate(over="ignore", under="ignore"):
        length = 8**0.25 * math.sqrt(noise) / math.sqrt(bend)
    return min(length, longest) if length > 0 else longest
