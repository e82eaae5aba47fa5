"""The projection onto an l_p ball for general p, along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace


def row_norm(v: Array, p: float = 2.0) -> Array:
    """The p-norm of every row, shape (..., 1), safe from overflow."""
    xp = namespace(v)
    size = xp.abs(v)
    largest = xp.max(size, axis=-1, keepdims=True)
    if p == np.inf:
        return largest
    if p == 1:
        return xp.sum(size, axis=-1, keepdims=True)
    u = size / xp.where(largest > 0, largest, xp.ones_like(largest))
    if p == 2:
        return largest * xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True))
    return largest * xp.sum(u**p, axis=-1, keepdims=True) ** (1 / p)


def project_lp(v: Array, p: float, radius: Any) -> Array:
    """argmin ||w - v|| over ||w||_p <= radius for 1 < p < inf, p != 2.

    With everything scaled to radius 1 and non-negative, the solution is x + μx^(p-1) = a for the multiplier μ
    that gives ||x||_p = 1. For a given μ each x_i is found by Newton's method; log ||x(μ)||_p, decreasing in
    log μ, is then brought to zero by Newton's method inside a shrinking bracket.
    """
    xp = namespace(v)
    zero = 0.0 * v[..., :1]
    one, radius = 1 + zero, radius + zero
    outside = row_norm(v, p) > radius
    active = outside & (radius > 0)
    a = xp.where(active, xp.abs(v) / xp.where(active, radius, one), xp.ones_like(v))
    # Brackets: ||x||_p <= 1 at μ = ||a||_q with 1/p + 1/q = 1; and 1 >= ||a||_p - μ||x^(p-1)||_p, where the last
    # norm is at most 1 for p >= 2 and at most m^(1/p) below.
    conjugate = p / (p - 1)
    excess = row_norm(a, p) - 1
    high = xp.log(_nonzero(row_norm(a, conjugate)))
    low = xp.log(_nonzero(excess / (1 if p >= 2 else v.shape[-1] ** (1 / p)))) - 1
    eps = finfo_eps(v)
    s = 0.5 * (low + high)
    for _ in range(200):
        mu = xp.exp(s)
        x, power = _solve_entries(a, mu, p)
        size = row_norm(x, p)
        f = xp.log(size)
        low, high = xp.where(f > 0, s, low), xp.where(f > 0, high, s)
        # d log||x||_p / d log μ, from dx/dμ = -x^(p-1) / (1 + (p-1) μ x^(p-2))
        share = (x / size) ** p
        slope = -xp.sum(share * mu * power / (_nonzero(x) + (p - 1) * mu * power), axis=-1, keepdims=True)
        newton = s - f / xp.where(slope < 0, slope, -one)
        inside = (newton > low) & (newton < high) & (slope < 0)
        following = xp.where(inside, newton, 0.5 * (low + high))
        settled = (xp.abs(following - s) <= 4 * eps * (1 + xp.abs(s))) | (xp.abs(f) <= 2 * eps) | ~active
        if bool(xp.all(settled)):
            break
        s = xp.where(settled, s, following)
    x, _ = _solve_entries(a, xp.exp(s), p)
    x = x / xp.where(active, row_norm(x, p), one)  # end exactly on the boundary
    return xp.where(active, xp.sign(v) * x * radius, xp.where(outside, 0.0 * v, v))


def _solve_entries(a: Array, mu: Array, p: float) -> tuple[Array, Array]:
    """x >= 0 with x + μ x^(p-1) = a, entry by entry, and x^(p-1).

    Written so that the unknown enters one term linearly and the other with an exponent above 1: then the left
    side is convex, and Newton from a point right of the root comes down to it without overshooting.
    """
    xp = namespace(a)
    zero = 0.0 * a
    if p > 2:  # unknown x: x + μ x^r = a
        r, linear, scale = p - 1, 1 + zero, mu + zero
    else:  # unknown u = x^(p-1): u^r + μ u = a
        r, linear, scale = 1 / (p - 1), mu + zero, 1 + zero
    u = xp.minimum(a / linear, (a / scale) ** (1 / r))
    for _ in range(60):
        power = scale * u ** (r - 1)
        step = (u * (linear + power) - a) / (linear + r * power)
        u = xp.maximum(u - step, zero)
        if not bool(xp.any(xp.abs(step) > finfo_eps(a) * u)):
            break
    if p > 2:
        return u, u**r
    x = u**r
    for _ in range(3):  # u^r magnifies rounding by r, without bound as p nears 1; Newton in x itself takes it away
        power = x ** (p - 1)
        x = xp.maximum(x - x * (x + mu * power - a) / _nonzero(x + (p - 1) * mu * power), zero)
    return x, x ** (p - 1)


def _nonzero(x: Array) -> Array:
    """x, with zeros replaced by the smallest normal number so that it can stand in a denominator."""
    xp = namespace(x)
    return xp.maximum(x, 0.0 * x + xp.finfo(x.dtype).smallest_normal)


def unit_rows(v: Array, p: float) -> Array:
    """Every row divided by its p-norm; zero stays zero."""
    size = row_norm(v, p)
    return v / namespace(v).where(size > 0, size, 1 + 0.0 * size)
