"""Sums of exponentials along a row, from its beginning or its end, that neither over- nor underflow."""

import math

import numpy as np

_SPAN = 500.0  # exp of less than it neither over- nor underflows, and leaves room for what is small beside it


def running(levels: np.ndarray, values: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """log Σ_{j<=i} exp(l_j) along each row of the table, and the means of the values with these weights.

    Parameters
    ----------
    levels : array of shape (s, m)
        -inf has no weight.
    values : array of shape (s, m, c), optional
        Without, the means are empty.
    """
    base = levels.max(axis=1, keepdims=True)
    base = np.where(base > -math.inf, base, 0.0)
    if float(np.where(levels > -math.inf, levels - base, 0.0).min()) >= -_SPAN:
        logs, means = _sums(levels - base, values)
        return logs + base, means
    # each sum is taken beside its own largest term, up to a factor; those beyond come later than what is read off
    below = np.floor((base - np.maximum.accumulate(levels, axis=1)) / _SPAN)
    logs, means = np.full(levels.shape, -math.inf), np.zeros((*levels.shape, 0 if values is None else values.shape[2]))
    for step in np.unique(below[below < math.inf]):
        here, top = below == step, base - _SPAN * step
        some, mean = _sums(np.minimum(levels - top, 0.0), values)
        logs[here], means[here] = (some + top)[here], mean[here]
    return logs, means


def _sums(levels: np.ndarray, values: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """As `running`, for levels whose exponentials neither over- nor underflow where it matters."""
    weight = np.exp(levels)
    sums = np.cumsum(weight, axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(sums)
    if values is None:
        return logs, np.empty((*levels.shape, 0))
    return logs, np.cumsum(weight[:, :, None] * values, axis=1) / np.maximum(sums, 1e-300)[:, :, None]


def backwards(levels: np.ndarray, values: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same from the other end: sums over j >= i."""
    logs, means = running(levels[:, ::-1], None if values is None else values[:, ::-1])
    return logs[:, ::-1], means[:, ::-1]
