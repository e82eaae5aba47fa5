"""The l_p ball."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace
from .._core.validation import check_number
from ..sparsity import Sparsity
from ._quadratic import in_lp_ball
from ._tables import increments_by_projection, linear_increments
from .balls import L1Ball, L2Ball
from .base import ConstraintSet
from .elementwise import LinfBall, relative_excess
from .polyhedron import Polyhedron, of_ball
from .rows import RadiusSet, RowSet, row_norm, unit_rows

_SPECIAL_P: dict[float, Callable[[float], RowSet]] = {1.0: L1Ball, 2.0: L2Ball, np.inf: LinfBall}


class LpBall(RadiusSet):
    """argmin ||w - v|| over (Σ_i |w_i|^p)^(1/p) <= radius, for any p >= 1, to about 1e-12.

    Parameters
    ----------
    p : float
        At least 1; ``numpy.inf`` is allowed. For 1, 2 and infinity the projection of `L1Ball`, `L2Ball` and
        `LinfBall` is used.
    radius : float
    """

    symmetric = True

    def __init__(self, p: float, radius: float) -> None:
        super().__init__(radius)
        self.p = check_number(p, "p", low=1.0)
        # below 1 + 1e-12 indistinguishable from l1 at the accuracy that is promised
        same = _SPECIAL_P.get(1.0 if self.p - 1 < 1e-12 else self.p)
        self._same: RowSet | None = same and same(self.radius)

    @property
    def family(self) -> Hashable:
        """Balls of one p go together."""
        return LpBall, self.p

    def _arguments(self) -> dict[str, Any]:
        return {"p": self.p, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        return self._same._project_rows(v, radius) if self._same else _project_lp(v, self.p, radius)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v, self.p), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        if self._same:
            return self._same._linear_rows(z, radius)
        xp = namespace(z)
        # |w_i| is proportional to |z_i|^(q-1), 1/p + 1/q = 1; the largest is scaled to 1 to stay in range
        largest = row_norm(z, np.inf)
        size = (xp.abs(z) / xp.where(largest > 0, largest, xp.ones_like(largest))) ** (1 / (self.p - 1))
        return radius * unit_rows(xp.sign(z) * size, self.p)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        if self._same:
            return self._same._increments(z, mu, *parameters)
        if mu == 0:
            return linear_increments(np.abs(z), self.p / (self.p - 1), *parameters)
        return increments_by_projection(self, z, mu, *parameters)

    def _exponent(self, mu: float) -> float | None:
        return self.p / (self.p - 1) if mu == 0 else None

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        return self._same.knows_maximum(sparsity, mu) if self._same else super().knows_maximum(sparsity, mu)

    def _sparse_maximum(self, z: Array, mu: float, sparsity: Sparsity, kept: np.ndarray) -> tuple[Array, Array]:
        if self._same:
            return self._same._sparse_maximum(z, mu, sparsity, kept)
        return super()._sparse_maximum(z, mu, sparsity, kept)

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_lp_ball(G, b, self.p, self.radius, self.project(start))

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        """That of p = 1 and p = ∞."""
        return self._same.polyhedron(n_features) if self._same and self.p in (1.0, np.inf) else None

    def of_singular_values(self, shape: tuple[int, int]) -> ConstraintSet | None:
        """That of p = 2."""
        return self._same and self._same.of_singular_values(shape)

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        c = self._units(scales)[1]
        return LpBall(self.p, self.radius / c) if c else None

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """||w||_2 <= j^(1/2 - 1/p) ||w||_p for p >= 2, and at most ||w||_p below."""
        return of_ball(self.radius, k, growth=max(0.0, 1 - 2 / self.p))


def _project_lp(v: Array, p: float, radius: Any) -> Array:
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
