"""The relaxation of a quadratic risk under bounds and linear caps, solved by Newton's method.

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

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..risks.accuracy import QuadraticForm
from ..sets._slices import Polyhedron
from ._form import EPS
from ._ties import shares_of_ties


@dataclass
class Relaxed:
    """What a relaxation says of a node.

    Attributes
    ----------
    bound : float
        A valid lower bound.
    w : array
        The relaxed solution, dense in general.
    share : array
        How far each coordinate is in, between 0 and 1.
    gains : array or None
        What each free coordinate adds to the sum of the k largest; -1 for those fixed in or out.
    warm : object
        Where the relaxations of the children start.
    dual : tuple or None
        (f(v) - <∇f(v), v>, -∇f(v), its error): with it and another h*, another bound.
    """

    bound: float
    w: np.ndarray
    share: np.ndarray
    gains: np.ndarray | None
    warm: Any = None
    dual: tuple[float, np.ndarray, float] | None = None


@dataclass
class _Point:
    """A point of the maximisation: w, multipliers of the caps, z = b - (Q - diag(δ))w, the bound and the gains."""

    w: np.ndarray
    multipliers: np.ndarray
    z: np.ndarray
    bound: float
    gains: np.ndarray


class Perspective:
    """The relaxation for a polyhedral Γ.

    Parameters
    ----------
    form : QuadraticForm
    k : int
    gamma : Polyhedron
    delta : array of shape (d,)
        Positive, with Q - diag(δ) positive semidefinite.
    """

    def __init__(self, form: QuadraticForm, k: int, gamma: Polyhedron, delta: np.ndarray) -> None:
        self.form, self.k, self.gamma = form, k, gamma
        self.lower, self.upper, self.A, self.h = gamma.lower, gamma.upper, gamma.A, gamma.h
        self.unbounded = bool(np.isinf(self.lower).all() and np.isinf(self.upper).all())
        self.diagonal = np.diag(form.Q).copy()
        self.n_products = 0
        self.deadline = math.inf
        self.use(delta)

    @cached_property
    def steepest(self) -> float:
        """The largest eigenvalue of Q: an accelerated proximal step needs it, Newton's method does not."""
        return float(np.linalg.eigvalsh(self.form.Q)[-1]) * (1 + 1e-9)

    def use(self, delta: np.ndarray) -> None:
        """Split off this diagonal from now on."""
        self.delta, self.root = delta, np.sqrt(delta)

    def restrict(self, index: np.ndarray) -> Perspective:
        """The same on these coordinates alone: a principal part of a semidefinite matrix is semidefinite."""
        part = Perspective(self.form.restrict(index), self.k, self.gamma.restrict(index), self.delta[index])
        part.deadline = self.deadline
        return part

    def _shrink(self, z: np.ndarray, price: np.ndarray) -> np.ndarray:
        """z less the price of |w|: where w >= 0 anyway, the price may be negative."""
        if not self.h.size:
            return z
        return np.asarray(np.where(self.gamma.positive, z - price, np.sign(z) * np.maximum(np.abs(z) - price, 0.0)))

    def _gains(self, z: np.ndarray) -> np.ndarray:
        if self.unbounded:
            return np.asarray(z * z / (2 * self.delta))
        w = np.clip(z / self.delta, self.lower, self.upper)
        return np.asarray(w * (z - 0.5 * self.delta * w))

    def _bound(
        self, w: np.ndarray, multipliers: np.ndarray, z: np.ndarray, kept: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """B less its rounding, and the gains.

        z_i and its price are known up to ε_i; a gain is convex in z, so the larger one at the two ends bounds it.
        """
        form, price = self.form, multipliers @ self.A
        size = math.sqrt(2 * form.energy) + float(form.roots @ np.abs(w))
        error = form.rounding * size * form.roots
        if self.h.size:  # the prices are sums, too
            error = error + 4 * (self.h.size + 8) * EPS * (np.abs(multipliers) @ self.A)
        gains = np.maximum(*(self._gains(self._shrink(z + sign * error, price)) for sign in (1.0, -1.0)))
        inside, size_inside = float(gains[kept].sum()), float(np.abs(gains[kept]).sum())
        gains[out], gains[kept] = -1.0, -1.0
        spare = self.k - kept.size
        if spare >= gains.size:
            top = float(gains[gains > 0].sum())
        elif spare:
            best = np.partition(gains, gains.size - spare)[gains.size - spare :]
            top = float(best[best > 0].sum())
        else:
            top = 0.0
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
        self.n_products += 1
        active = np.flatnonzero(w)
        if 2 * active.size > w.size:
            return np.asarray(self.form.b - self.form.Q @ w + self.delta * w)
        return np.asarray(self.form.b - w[active] @ self.form.Q[active] + self.delta * w)

    def solve(
        self,
        kept: np.ndarray,
        out: np.ndarray,
        warm: object,
        cutoff: float,
        max_iter: int = 60,
        tol: float = 1e-7,
        rough: float = 0.0,
    ) -> Relaxed:
        """Maximise B over v, until it exceeds the cutoff or rises no more.

        Parameters
        ----------
        kept : array of int
            Coordinates that are in.
        out : mask
            Coordinates that are out.
        warm : array of shape (d,)
            Where to start.
        rough : float
            Newton's method is not stopped early: its last steps are its best.
        """
        start, multipliers = warm if isinstance(warm, tuple) else (warm, None)
        w = np.array(start, dtype=float)
        w[out] = 0.0
        if multipliers is None:
            multipliers = self._first_prices(w)
        spare = self.k - kept.size
        best = here = self._at(w, multipliers, kept, out)
        failures, metric = 0, 1.0
        while best.bound < cutoff and max_iter > 0 and time.perf_counter() < self.deadline:
            ahead = self._newton(here, metric, kept, out, spare)
            max_iter -= 1
            rise = -math.inf
            if ahead is not None:
                there = self._at(*ahead, kept, out)
                if there.bound < best.bound and here is best:
                    there = self._shorter(best, there, kept, out)
                rise = there.bound - best.bound
                if rise > 0:
                    here = best = there
                if abs(rise) <= tol * abs(best.bound):
                    break
            if rise > 0:
                metric = 1.0
            elif here is best and metric < 60:
                metric *= 8.0  # the same point, seen by shorter proximal steps
            else:  # longer ways lead through points of lower bounds
                failures, metric = failures + 1, 1.0
                if failures > 8:
                    break
                steps = min(max_iter, 5 * failures)
                here, top = self._descend(here, kept, out, spare, steps)
                max_iter -= steps
                best = top if top.bound > best.bound else best
        bound = -math.inf if math.isnan(best.bound) else best.bound
        return Relaxed(bound, best.w, self._share(best, kept), best.gains, (best.w, best.multipliers))

    def _first_prices(self, w: np.ndarray) -> np.ndarray:
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

    def _at(
        self, w: np.ndarray, multipliers: np.ndarray, kept: np.ndarray, out: np.ndarray, z: np.ndarray | None = None
    ) -> _Point:
        z = self._look(w) if z is None else z
        return _Point(w, multipliers, z, *self._bound(w, multipliers, z, kept, out))

    def _shorter(self, here: _Point, there: _Point, kept: np.ndarray, out: np.ndarray) -> _Point:
        """The first point on the way there that is better than here: B is concave; there, if none is."""
        size = 0.5
        while size > 1e-3:
            w, multipliers, z = (
                a + size * (b - a)
                for a, b in ((here.w, there.w), (here.multipliers, there.multipliers), (here.z, there.z))
            )
            between = self._at(w, multipliers, kept, out, z)
            if between.bound > here.bound:
                return between
            size *= 0.4
        return there

    def _descend(
        self, here: _Point, kept: np.ndarray, out: np.ndarray, spare: int, steps: int
    ) -> tuple[_Point, _Point]:
        """Accelerated proximal steps on the relaxation: the last point, and the best one."""
        momentum, before, top = 1.0, here.w, here
        for _ in range(steps):
            point, _, _ = self._proximal(here, self.steepest, kept, out, spare)
            if float((here.w - point) @ (point - before)) > 0:
                momentum = 1.0  # O'Donoghue & Candès: start again when the momentum points uphill
            later = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = point + (momentum - 1) / later * (point - before)
            here, before, momentum = self._at(ahead, self._prices(here, point), kept, out), point, later
            top = here if here.bound > top.bound else top
        return here, top

    def _prices(self, here: _Point, x: np.ndarray) -> np.ndarray:
        """Multipliers that would have kept the caps, to first order: a price of ε moves x_i by ε/(steepest + δ_i)."""
        if not self.h.size:
            return here.multipliers
        moves = (self.A * self.A) @ ((x != 0) / (self.steepest + self.delta))
        excess = self.A @ np.abs(x) - self.h
        multipliers = here.multipliers + np.where(moves > 0, excess / np.where(moves > 0, moves, 1.0), 0.0)
        return np.where(self.gamma.equal, multipliers, np.maximum(multipliers, 0.0))

    def _share(self, point: _Point, kept: np.ndarray) -> np.ndarray:
        """s_i = w_i divided by where the gain is attained."""
        z = self._shrink(point.z, point.multipliers @ self.A)
        whole = np.clip(z / self.delta, self.lower, self.upper)
        share = np.zeros_like(point.w)
        np.divide(point.w, whole, out=share, where=whole != 0)
        share = np.clip(share, 0.0, 1.0)
        share[kept] = 1.0
        return np.asarray(share)

    def _proximal(
        self, here: _Point, steep: np.ndarray | float, kept: np.ndarray, out: np.ndarray, spare: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """argmin Σ steep_i/2 (x_i - u_i)² + a_i|x_i| + ½δ_i x_i²/s_i, u = w + z/steep: x, s and the level t of ties.

        Ties have the gain t²/2. Then z_i less its price is √δ_i t, and x_i = s_i t/√δ_i while that stays within the
        bounds; Σs = spare determines t.
        """
        u = self._shrink(here.w + here.z / steep, (here.multipliers @ self.A) / steep)
        u[out] = 0.0
        size, reach = np.abs(u), np.where(u > 0, self.upper, -self.lower)
        size[kept] = 0.0
        free = np.flatnonzero((size > 0) & (reach > 0))
        steepness = steep[free] if isinstance(steep, np.ndarray) else steep
        share, level = shares_of_ties(size[free], self.root[free], steepness, reach[free], spare)
        s = np.zeros_like(u)
        s[free], s[kept] = share, 1.0
        x = np.clip(u * (steep / (steep + self.delta)), self.lower, self.upper)
        tied = (s > 0) & (s < 1)
        x[s == 0] = 0.0
        x[tied] = s[tied] * np.sign(u[tied]) * np.minimum(level / self.root[tied], reach[tied])
        return x, s, level

    def _newton(
        self, here: _Point, metric: float, kept: np.ndarray, out: np.ndarray, spare: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The solution of the linear system for the kinds of coordinates and caps that a proximal step finds.

        In (Qw)_i + σ_i a_i = b_i the coordinates with s = 1, in (Pw)_i + σ_i(a_i + √δ_i t) = b_i the ties; Σs = spare,
        and every binding cap with equality. σ are the signs.
        """
        x, s, t = self._proximal(here, metric * self.diagonal, kept, out, spare)
        tied = (s > 0) & (s < 1)
        at_bound = np.zeros(x.size, dtype=bool)
        if not self.unbounded:
            at_bound = (s == 1) & ((x == self.lower) | (x == self.upper))
        whole, ties, fixed = np.flatnonzero((s == 1) & ~at_bound), np.flatnonzero(tied), np.flatnonzero(at_bound)
        active = np.concatenate([whole, ties])
        if not active.size:
            return x, here.multipliers
        size = np.abs(x)
        binding = (here.multipliers != 0) | self.gamma.equal | (self.A @ size > self.h * (1 + 1e-9))
        while True:
            rows = np.flatnonzero(binding & (self.A[:, active] != 0).any(axis=1))
            solution = self._solve(x, s, t, whole, ties, fixed, rows, spare - int(np.count_nonzero(s == 1)) + kept.size)
            if solution is None:
                return None
            negative = (solution[active.size + bool(ties.size) :] < 0) & ~self.gamma.equal[rows]
            if not negative.any():
                break
            binding[rows[negative]] = False
        ahead, multipliers = np.where(at_bound, x, 0.0), np.zeros(self.h.size)
        ahead[active] = solution[: active.size]
        multipliers[rows] = solution[active.size + bool(ties.size) :]
        return ahead, multipliers

    def _solve(
        self,
        x: np.ndarray,
        s: np.ndarray,
        t: float,
        whole: np.ndarray,
        ties: np.ndarray,
        fixed: np.ndarray,
        rows: np.ndarray,
        left: int,
    ) -> np.ndarray | None:
        """Values of the active coordinates, the level of the ties (where there are any), multipliers of the caps."""
        b, Q = self.form.b, self.form.Q
        active = np.concatenate([whole, ties])
        m, n_ties = active.size, ties.size
        first = m + bool(n_ties)
        M, target = np.zeros((first + rows.size,) * 2), np.zeros(first + rows.size)
        M[:m, :m] = Q[np.ix_(active, active)]
        target[:m] = b[active]
        if fixed.size:
            target[:m] -= Q[np.ix_(active, fixed)] @ x[fixed]
        if n_ties:
            sign, reach = np.sign(x[ties]), np.where(x[ties] > 0, self.upper[ties], -self.lower[ties])
            clipped = t / self.root[ties] > reach
            place = np.arange(m - n_ties, m)
            M[place, place] -= self.delta[ties]
            capped = np.where(clipped, reach, 1.0)
            along = sign * np.where(clipped, t / capped, self.root[ties])  # dz/dt
            M[m, place] = M[place, m] = along
            done = float(s[ties][clipped].sum())
            M[m, m] = done - left
            target[m] = t * done
            target[place] -= sign * np.where(clipped, 0.5 * (self.delta[ties] * capped - t * t / capped), 0.0)
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
        return np.asarray(solution) if np.isfinite(solution).all() else None
