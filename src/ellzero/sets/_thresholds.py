"""The threshold of a budget: where a sorted row has to be cut so that its sum fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, namespace, sort_descending


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
