"""What each further entry of a group adds: v(1), v(2) - v(1), ... where v(j) = max <z, w> - μ/2 ||w||² over the members
of Γ that live on the first j entries of a row.

Rows come by falling score. If entries have to be kept they stand before the others, so that a row need not be sorted.
"""

from typing import Any

import numpy as np

from .._core.arrays import Array, namespace, sort_descending
from .rows import RowSet

_CHUNK = 1_000_000  # numbers held at once by `increments_by_projection`


def budget_increments(
    owner: RowSet, z: np.ndarray, a: np.ndarray, mu: float, total: np.ndarray, *, exact: bool
) -> np.ndarray:
    """For w >= 0 with Σw <= total, or = total if exact, on the entries a (|z| for the l1 ball, z for a simplex).

    Where the budget binds, w_i = (τ_j - δ_i)/μ with δ_i = a_1 - a_i and τ_j = (μ total + Σ_{i<=j} δ_i)/j, and
    v(j) = a_1 total - (jτ_j² - Σδ_i²)/(2μ), as long as δ_j < τ_j; after that nothing is added. Counting from the
    largest entry avoids the cancellation in Σa_i² - jθ_j².
    """
    if mu == 0:
        best = np.maximum.accumulate(a, axis=-1)
        return _differences(total * (best if exact else np.maximum(best, 0)))
    if (unsorted := (np.diff(a, axis=-1) > 0).any(axis=-1)).any():
        out = np.empty_like(a)
        out[unsorted] = increments_by_projection(owner, z[unsorted], mu, total[unsorted])
        rest = ~unsorted
        out[rest] = budget_increments(owner, z[rest], a[rest], mu, total[rest], exact=exact) if rest.any() else 0
        return out
    delta = a[:, :1] - a
    count = np.arange(1, a.shape[-1] + 1)
    tau = (mu * total + np.cumsum(delta, axis=-1)) / count
    value = a[:, :1] * total - (count * tau * tau - np.cumsum(delta * delta, axis=-1)) / (2 * mu)
    adds = delta < tau
    if not exact:
        positive = np.maximum(a, 0)
        loose = np.cumsum(positive, axis=-1) <= mu * total
        value = np.where(loose, np.cumsum(positive * positive, axis=-1) / (2 * mu), value)
    return np.where(adds, _differences(value), 0.0)


def l2_increments(z: np.ndarray, mu: float, radius: np.ndarray) -> np.ndarray:
    """v(j) = s_j²/(2μ) if s_j = ||z_{1..j}|| <= μ radius, otherwise radius s_j - μ radius²/2."""
    size = cumulative_norm(np.abs(z))
    value = radius * size - 0.5 * mu * radius * radius
    if mu > 0:
        value = np.where(size <= mu * radius, size * size / (2 * mu), value)
    return _differences(value)


def linear_increments(a: np.ndarray, q: float, radius: np.ndarray) -> np.ndarray:
    """At μ = 0: v(j) = radius ||a_{1..j}||_q, the dual norm."""
    return _differences(radius * cumulative_norm(a, q))


def cumulative_norm(a: np.ndarray, q: float = 2.0) -> np.ndarray:
    """||a_{1..j}||_q for a >= 0 and every j, safe from overflow."""
    if q == np.inf:
        return np.asarray(np.maximum.accumulate(a, axis=-1))
    largest = a.max(axis=-1, keepdims=True)
    return np.asarray(largest * np.cumsum((a / np.where(largest > 0, largest, 1)) ** q, axis=-1) ** (1 / q))


def increments_by_projection(owner: RowSet, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
    """For any set: the maximum itself on the first 1, 2, ... entries, as many rows of a matrix."""
    rows, width = z.shape
    value = np.empty_like(z)
    step = max(1, _CHUNK // (rows * width))
    shaped = [np.asarray(parameter)[:, None, :] for parameter in parameters]
    for first in range(0, width, step):
        last = min(first + step, width)
        inside = np.arange(width) <= np.arange(first, last)[:, None]
        prefixes = np.where(inside, z[:, None, :], owner._padding)
        w = owner._maximum_rows(prefixes, mu, *shaped)
        value[:, first:last] = np.sum(w * (z[:, None, :] - 0.5 * mu * w), axis=-1)
    return _differences(value)


def _differences(value: np.ndarray) -> np.ndarray:
    return np.diff(value, axis=-1, prepend=0.0)


def simplex_threshold(v: Array, total: Any) -> tuple[Array, Array, Array]:
    """v - max(v), the θ of the projection onto the simplex less max(v), and max(v).

    θ = max_j (Σ_{i<=j} v_(i) - total)/j with v_(1) >= v_(2) >= ...: for every j, Σ_{i<=j} v_(i) - total is at
    most jθ, because Σ (v_i - θ)_+ = total, and equality holds at the number of positive entries. Working
    relative to the largest entry keeps full precision when v is large against the total.
    """
    xp = namespace(v)
    largest = xp.max(v, axis=-1, keepdims=True)
    shifted = v - largest
    partial = xp.cumulative_sum(sort_descending(shifted), axis=-1) - total
    counts = xp.cumulative_sum(xp.ones_like(v), axis=-1)
    return shifted, xp.max(partial / counts, axis=-1, keepdims=True), largest


def to_sub_simplex(v: Array, total: Any) -> Array:
    xp = namespace(v)
    shifted, threshold, largest = simplex_threshold(v, total)
    inside = threshold <= -largest  # θ <= 0: the non-negative part already fits
    zero = xp.zeros_like(v)
    return xp.where(inside, xp.maximum(v, zero), xp.maximum(shifted - threshold, zero))


def at_largest(a: Array, total: Any) -> Array:
    """All of the total at the largest entry of each row, at the first if there are several."""
    xp = namespace(a)
    place = xp.cumulative_sum(xp.ones_like(a), axis=-1)
    largest = xp.max(a, axis=-1, keepdims=True)
    first = xp.min(xp.where(a == largest, place, xp.full_like(a, np.inf)), axis=-1, keepdims=True)
    return xp.where(place == first, total + xp.zeros_like(a), xp.zeros_like(a))
