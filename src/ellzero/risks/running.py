"""Sums of exponentials along a row, from its beginning or its end, that neither over- nor underflow."""

import math

import numpy as np

_SPAN = 500.0  # exp of less than it neither over- nor underflows, and leaves room for what is small beside it
_MANY = 32  # columns and rows from which on they are summed up block by block, as NumPy does not


class Running:
    """log Σ_{j<=i} exp(l_j) along each row of a table, and the means of values with these weights.

    Parameters
    ----------
    levels : array of shape (s, m)
        -inf has no weight.

    Attributes
    ----------
    logs : array of shape (s, m)
    """

    def __init__(self, levels: np.ndarray) -> None:
        base = levels.max(axis=1, keepdims=True)
        base = np.where(base > -math.inf, base, 0.0)
        shifted = levels - base
        self.steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        if float(shifted.min(initial=0.0, where=shifted > -math.inf)) >= -_SPAN:
            self.weight, self.sums, logs = _sums(shifted)
            self.logs = logs + base
            return
        # each sum is taken beside its own largest term, up to a factor; those beyond come later than what is read off
        below = np.floor((base - np.maximum.accumulate(levels, axis=1)) / _SPAN)
        self.logs = np.full(levels.shape, -math.inf)
        for step in np.unique(below[below < math.inf]):
            here, top = below == step, base - _SPAN * step
            weight, sums, logs = _sums(np.minimum(levels - top, 0.0))
            self.logs[here] = (logs + top)[here]
            self.steps.append((here, weight, sums))

    def means(self, values: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
        """The means of values of shape (s, m, c) over j <= i; in one row each of those i where a mask says so."""
        if not self.steps:
            return _means(self.weight, self.sums, values, where)
        means = np.zeros(values.shape)
        for here, weight, sums in self.steps:
            means[here] = _means(weight, sums, values, here)
        return means if where is None else means[where]


def _sums(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp of levels for which it neither over- nor underflows where it matters, the sums, and their logarithms."""
    weight = np.exp(levels)
    sums = np.cumsum(weight, axis=1)
    with np.errstate(divide="ignore"):
        return weight, np.maximum(sums, 1e-300), np.log(sums)


def _means(weight: np.ndarray, sums: np.ndarray, values: np.ndarray, where: np.ndarray | None) -> np.ndarray:
    totals = _cumulated(weight, values)
    return np.asarray(totals / sums[:, :, None] if where is None else totals[where] / sums[where][:, None])


def _cumulated(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Σ_{j<=i} weight_j values_j along each row of the table."""
    s, m, c = values.shape
    if min(m, c) < _MANY:
        return np.cumsum(weight[:, :, None] * values, axis=1)
    step = math.isqrt(m)
    blocks = -(-m // step)
    sums = np.zeros((s, blocks, step, c))
    whole = sums.reshape(s, blocks * step, c)[:, :m]
    np.multiply(weight[:, :, None], values, out=whole)
    for i in range(1, step):
        sums[:, :, i] += sums[:, :, i - 1]
    for b in range(1, blocks):
        sums[:, b] += sums[:, b - 1, -1:]
    return whole
