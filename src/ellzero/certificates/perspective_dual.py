"""The dual function of the perspective relaxation, and the steps that climb it.

R(w) = c - bᵀw + ½wᵀQw, P = Q - diag(δ) positive semidefinite; Γ = {l <= w <= u, A|w| <= h}. For any v and any λ >= 0,
with z = b - Pv and a = Aᵀλ,

    min {R(w) : ||w||_0 <= k, w in Γ}  >=  c - ½vᵀPv - λᵀh - Σ of the k largest g_i,

    g_i = max {z_i w - a_i|w| - δ_i w²/2 : l_i <= w <= u_i}.

The right-hand side B(v, λ) is concave. Its maximum is the value of the perspective relaxation

    min over w in Γ, 0 <= s <= 1, Σs <= k  of  c - bᵀw + ½wᵀPw + ½Σ δ_i w_i²/s_i,   l_i s_i <= w_i <= u_i s_i,

whose solution has three kinds of coordinates: s = 1, s = 0, and ties 0 < s < 1 which all have the same gain. Given
which is which, and which caps bind, the rest is one linear system: a Newton step. A proximal step finds out which is
which.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..risks.accuracy import EPS, QuadraticForm
from ..sets.polyhedron import Polyhedron
from .supports import Decisions, Supports


@dataclass
class Point:
    """A point of the maximisation: w, multipliers of the caps, z = b - (Q - diag(δ))w, the bound and the gains."""

    w: np.ndarray
    multipliers: np.ndarray
    z: np.ndarray
    bound: float
    gains: np.ndarray


@dataclass
class Kinds:
    """Which coordinates are whole, tied, or at a bound of Γ, at a proximal point x with shares s and level of ties."""

    x: np.ndarray
    s: np.ndarray
    level: float
    at_bound: np.ndarray

    @cached_property
    def ties(self) -> np.ndarray:
        """Coordinates that are partly in."""
        return np.flatnonzero((self.s > 0) & (self.s < 1))

    @cached_property
    def active(self) -> np.ndarray:
        """Coordinates whose values are looked for: those in and off their bounds, then the ties."""
        return np.concatenate([np.flatnonzero((self.s == 1) & ~self.at_bound), self.ties])


class PerspectiveDual:
    """B for a polyhedral Γ and a δ > 0 with Q - diag(δ) positive semidefinite."""

    def __init__(self, form: QuadraticForm, supports: Supports, gamma: Polyhedron, delta: np.ndarray) -> None:
        self.form, self.supports, self.k, self.gamma = form, supports, supports.k, gamma
        self.lower, self.upper, self.A, self.h = gamma.lower, gamma.upper, gamma.A, gamma.h
        self.unbounded = bool(np.isinf(self.lower).all() and np.isinf(self.upper).all())
        self.diagonal = np.diag(form.Q).copy()
        self.use(delta)

    def use(self, delta: np.ndarray) -> None:
        """Split off this diagonal from now on."""
        self.delta, self.root = delta, np.sqrt(delta)

    @cached_property
    def steepest(self) -> float:
        """The largest eigenvalue of Q: an accelerated proximal step needs it, Newton's method does not."""
        return float(np.linalg.eigvalsh(self.form.Q)[-1]) * (1 + 1e-9)

    def _shrink(self, z: np.ndarray, price: np.ndarray) -> np.ndarray:
        """z less the price of |w|: where w >= 0 anyway, the price may be negative."""
        if not self.h.size:
            return z
        return np.asarray(np.where(self.gamma.positive, z - price, np.sign(z) * np.maximum(np.abs(z) - price, 0.0)))

    def _gains(self, z: np.ndarray) -> np.ndarray:
        if self.unbounded:
            return np.asarray(z * (z / (2 * self.delta)))
        w = np.clip(z / self.delta, self.lower, self.upper)
        return np.asarray(w * (z - 0.5 * self.delta * w))

    def _bound(
        self, w: np.ndarray, multipliers: np.ndarray, z: np.ndarray, part: Decisions
    ) -> tuple[float, np.ndarray]:
        """B less its rounding, and the gains.

        z_i and its price are known up to ε_i; a gain is convex in z, so the larger one at the two ends bounds it.
        """
        form, kept, price = self.form, part.kept, multipliers @ self.A
        size = math.sqrt(2 * form.energy) + float(form.roots @ np.abs(w))
        error = form.rounding * size * form.roots
        if self.h.size:  # the prices are sums, too
            error = error + 4 * (self.h.size + 8) * EPS * (np.abs(multipliers) @ self.A)
        gains = np.maximum(*(self._gains(self._shrink(z + sign * error, price)) for sign in (1.0, -1.0)))
        inside, size_inside = float(gains[kept].sum()), float(np.abs(gains[kept]).sum())
        gains[part.out], gains[kept] = -1.0, -1.0
        top = self.supports.largest_sum(gains, kept)
        cross = float(w @ (form.b - z))
        loss = float(error @ np.abs(w)) + 8 * EPS * abs(form.c)
        loss += (w.size + 16) * EPS * (float(np.abs(w) @ np.abs(form.b - z)) + 2 * (size_inside + top))
        if not self.unbounded:  # where an interval does not contain 0, the terms of a gain may cancel
            away = kept[(self.lower[kept] > 0) | (self.upper[kept] < 0)]
            there = np.abs(np.clip(z[away] / self.delta[away], self.lower[away], self.upper[away]))
            loss += 8 * EPS * float(there @ (np.abs(z[away]) + np.abs(price[away]) + self.delta[away] * there))
        paid = 0.0
        if self.h.size:
            paid = float(multipliers @ self.h)
            loss += 8 * (self.h.size + 8) * EPS * float(np.abs(multipliers) @ np.abs(self.h))
        return form.c - 0.5 * cross - paid - inside - top - loss, gains

    def _look(self, w: np.ndarray) -> np.ndarray:
        """z = b - (Q - diag(δ))w."""
        active = np.flatnonzero(w)
        if 2 * active.size > w.size:
            return np.asarray(self.form.b - self.form.Q @ w + self.delta * w)
        return np.asarray(self.form.b - w[active] @ self.form.Q[active] + self.delta * w)

    def at(self, w: np.ndarray, multipliers: np.ndarray, part: Decisions, z: np.ndarray | None = None) -> Point:
        """B there, with these decisions made; z, if it is known already."""
        z = self._look(w) if z is None else z
        return Point(w, multipliers, z, *self._bound(w, multipliers, z, part))

    def first_prices(self, w: np.ndarray) -> np.ndarray:
        """Multipliers for which w, if it is the best on its support, solves the relaxation there: Qw + Aᵀλ∘sign = b."""
        S = np.flatnonzero(w)
        if not self.h.size or not S.size:
            return np.zeros(self.h.size)
        tight = np.flatnonzero(self.gamma.equal | (self.A[:, S] @ np.abs(w[S]) >= (1 - 1e-9) * self.h))
        inside = S[(w[S] > self.lower[S]) & (w[S] < self.upper[S])]
        slope = (self.form.b[inside] - self.form.Q[np.ix_(inside, S)] @ w[S]) * np.sign(w[inside])
        multipliers = np.zeros(self.h.size)
        multipliers[tight] = np.linalg.lstsq(self.A[np.ix_(tight, inside)].T, slope, rcond=None)[0]
        return np.where(self.gamma.equal, multipliers, np.maximum(multipliers, 0.0))

    def share(self, point: Point, kept: np.ndarray) -> np.ndarray:
        """How far each coordinate is in: s_i = w_i divided by where the gain is attained."""
        z = self._shrink(point.z, point.multipliers @ self.A)
        whole = np.clip(z / self.delta, self.lower, self.upper)
        share = np.zeros_like(point.w)
        np.divide(point.w, whole, out=share, where=whole != 0)
        share = np.clip(share, 0.0, 1.0)
        share[kept] = 1.0
        return np.asarray(share)

    def descend(self, here: Point, part: Decisions, steps: int) -> tuple[Point, Point]:
        """Accelerated proximal steps on the relaxation: the last point, and the best one."""
        momentum, before, top = 1.0, here.w, here
        for _ in range(steps):
            point = self._proximal(here, self.steepest, part).x
            if float((here.w - point) @ (point - before)) > 0:
                momentum = 1.0  # O'Donoghue & Candès: start again when the momentum points uphill
            later = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = point + (momentum - 1) / later * (point - before)
            here, before, momentum = self.at(ahead, self._prices(here, point), part), point, later
            top = here if here.bound > top.bound else top
        return here, top

    def _prices(self, here: Point, x: np.ndarray) -> np.ndarray:
        """Multipliers that would have kept the caps, to first order: a price of ε moves x_i by ε/(steepest + δ_i)."""
        if not self.h.size:
            return here.multipliers
        moves = (self.A * self.A) @ ((x != 0) / (self.steepest + self.delta))
        excess = self.A @ np.abs(x) - self.h
        multipliers = here.multipliers + np.where(moves > 0, excess / np.where(moves > 0, moves, 1.0), 0.0)
        return np.where(self.gamma.equal, multipliers, np.maximum(multipliers, 0.0))

    def _idle_prices(self, here: Point, x: np.ndarray) -> np.ndarray:
        """The next multipliers where no coordinate is free to move."""
        return here.multipliers

    def _proximal(self, here: Point, steep: np.ndarray | float, part: Decisions) -> Kinds:
        """argmin Σ steep_i/2 (x_i - u_i)² + a_i|x_i| + ½δ_i x_i²/s_i, u = w + z/steep: x, s and the level t of ties.

        Ties have the gain t²/2. Then z_i less its price is √δ_i t, and x_i = s_i t/√δ_i while that stays within the
        bounds; Σs = spare determines t.
        """
        u = self._shrink(here.w + here.z / steep, (here.multipliers @ self.A) / steep)
        u[part.out] = 0.0
        size, reach = np.abs(u), np.where(u > 0, self.upper, -self.lower)
        size[part.kept] = 0.0
        free = np.flatnonzero((size > 0) & (reach > 0))
        steepness = steep[free] if isinstance(steep, np.ndarray) else steep
        share, level = shares_of_ties(size[free], self.root[free], steepness, reach[free], self.k - part.kept.size)
        s = np.zeros_like(u)
        s[free], s[part.kept] = share, 1.0
        x = np.clip(u * (steep / (steep + self.delta)), self.lower, self.upper)
        tied = (s > 0) & (s < 1)
        x[s == 0] = 0.0
        x[tied] = s[tied] * np.sign(u[tied]) * np.minimum(level / self.root[tied], reach[tied])
        return Kinds(x, s, level, np.zeros(x.size, dtype=bool))

    def newton(self, here: Point, metric: float, part: Decisions) -> tuple[np.ndarray, np.ndarray] | None:
        """w and the multipliers that solve the linear system for the kinds which a proximal step finds.

        In (Qw)_i + σ_i a_i = b_i the coordinates with s = 1, in (Pw)_i + σ_i(a_i + √δ_i t) = b_i the ties; Σs = k, and
        every binding cap with equality. σ are the signs.
        """
        kinds = self._proximal(here, metric * self.diagonal, part)
        x = kinds.x
        if not self.unbounded:
            kinds.at_bound = (kinds.s == 1) & ((x == self.lower) | (x == self.upper))
        active = kinds.active
        if not active.size:
            return x, self._idle_prices(here, x)
        binding = (here.multipliers != 0) | self.gamma.equal | (self.A @ np.abs(x) > self.h * (1 + 1e-9))
        while True:
            rows = np.flatnonzero(binding & (self.A[:, active] != 0).any(axis=1))
            solution = self._solve(kinds, rows)
            if solution is None:
                return None
            values, prices = solution
            negative = (prices < 0) & ~self.gamma.equal[rows]
            if not negative.any():
                break
            binding[rows[negative]] = False
        ahead, multipliers = np.where(kinds.at_bound, x, 0.0), np.zeros(self.h.size)
        ahead[active], multipliers[rows] = values, prices
        return ahead, multipliers

    def _solve(self, kinds: Kinds, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Values of the active coordinates, and multipliers of the caps; between them stands the level of the ties."""
        b, Q = self.form.b, self.form.Q
        x, ties, fixed, active = kinds.x, kinds.ties, np.flatnonzero(kinds.at_bound), kinds.active
        m = active.size
        first = m + bool(ties.size)
        M, target = np.zeros((first + rows.size,) * 2), np.zeros(first + rows.size)
        M[:m, :m] = Q[np.ix_(active, active)]
        target[:m] = b[active]
        if fixed.size:
            target[:m] -= Q[np.ix_(active, fixed)] @ x[fixed]
        if ties.size:
            self._add_ties(M, target, kinds)
        if rows.size:
            sides = self.A[np.ix_(rows, active)] * np.sign(x[active])
            M[first:, :m], M[:m, first:] = sides, sides.T
            corner = np.arange(first, first + rows.size)
            M[corner, corner] = -1e-12 * float(np.abs(sides).max()) ** 2 / float(self.diagonal.max())
            target[first:] = self.h[rows] - self.A[np.ix_(rows, fixed)] @ np.abs(x[fixed])
        try:
            solution = np.linalg.solve(M, target)
        except np.linalg.LinAlgError:
            return None
        return (solution[:m], solution[first:]) if np.isfinite(solution).all() else None

    def _add_ties(self, M: np.ndarray, target: np.ndarray, kinds: Kinds) -> None:
        """δ leaves the diagonal of the ties, and one more row and column hold their level t and how much is left."""
        ties, t, m = kinds.ties, kinds.level, kinds.active.size
        sign = np.sign(kinds.x[ties])
        reach = np.where(sign > 0, self.upper[ties], -self.lower[ties])
        clipped = t / self.root[ties] > reach
        place = np.arange(m - ties.size, m)
        M[place, place] -= self.delta[ties]
        capped = np.where(clipped, reach, 1.0)
        along = sign * np.where(clipped, t / capped, self.root[ties])  # dz/dt
        M[m, place] = M[place, m] = along
        done = float(kinds.s[ties][clipped].sum())
        M[m, m] = done - (self.k - np.count_nonzero(kinds.s == 1))
        target[m] = t * done
        target[place] -= sign * np.where(clipped, 0.5 * (self.delta[ties] * capped - t * t / capped), 0.0)


def shares_of_ties(
    size: np.ndarray, root: np.ndarray, steep: np.ndarray | float, reach: np.ndarray, spare: int
) -> tuple[np.ndarray, float]:
    """Shares s_i(t) with Σs = spare, and t, the gain at which they tie; all ones where there is room for all."""
    if size.size <= spare:
        return np.ones(size.size), 0.0
    if spare == 0:
        return np.zeros(size.size), math.inf
    if np.isinf(reach).all():
        # s_i = clip(c_i/t - e_i, 0, 1) is piecewise linear in 1/t
        c, e = root * size, root * root / steep
        ends = np.concatenate([e / c, (1 + e) / c])
        order = np.argsort(ends)
        x, slope = ends[order], np.cumsum(np.concatenate([c, -c])[order])
        total = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(x))])
        i = min(int(np.searchsorted(total, spare)), x.size - 1)
        rise = slope[i - 1]
        inverse = x[i - 1] + (spare - total[i - 1]) / rise if rise > 0 else x[i]
        return np.clip(c * inverse - e, 0.0, 1.0), float(1 / inverse)

    def shares(t: float) -> np.ndarray:
        whole = np.minimum(t / root, reach)
        z = np.where(t <= root * reach, root * t, 0.5 * (t * t / reach + root * root * reach))
        return np.asarray(np.clip((size - z / steep) / whole, 0.0, 1.0))

    from scipy.optimize import brentq  # here, because importing it takes longer than most certificates

    # s_i = 0 once z_i(t) >= steep·size; both forms of z_i(t) are at least root_i·t
    high = float(np.max(steep * size / root)) * (1 + 1e-12)
    low = high
    while shares(low).sum() < spare:
        low *= 0.25
    t = low if low == high else float(brentq(lambda x: shares(x).sum() - spare, low, 4 * low, xtol=1e-300, rtol=1e-13))
    return shares(t), t
