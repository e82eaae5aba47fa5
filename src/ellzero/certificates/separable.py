"""The relaxation of a quadratic risk whose Γ bounds each coordinate by itself, solved by Newton's method.

R(w) = c - bᵀw + ½wᵀQw, P = Q - diag(δ) positive semidefinite. For any v, with z = b - Pv,

    min {R(w) : ||w||_0 <= k, l <= w <= u}  >=  c - ½vᵀPv - Σ of the k largest g_i(z_i),

    g_i(z) = max {zw - δ_i w²/2 : l_i <= w <= u_i}.

The right-hand side B(v) is concave in v. Its maximum is the value of the perspective relaxation

    min over w, 0 <= s <= 1, Σs <= k  of  c - bᵀw + ½wᵀPw + ½Σ δ_i w_i²/s_i,   l_i s_i <= w_i <= u_i s_i,

whose solution has three kinds of coordinates: s = 1, s = 0, and ties 0 < s < 1 which all have the same gain. Given
which is which, the rest is one linear system: a Newton step. A proximal step finds out which is which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._form import EPS, QuadraticForm


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
    warm: object = None
    dual: tuple[float, np.ndarray, float] | None = None


@dataclass
class _Point:
    """A point of the maximisation: w, z = b - (Q - diag(δ))w, its bound and the gains."""

    w: np.ndarray
    z: np.ndarray
    bound: float
    gains: np.ndarray


class Separable:
    """The relaxation for lower <= w <= upper, both possibly infinite.

    Parameters
    ----------
    form : QuadraticForm
    k : int
    lower, upper : arrays of shape (d,)
    delta : array of shape (d,)
        Positive, with Q - diag(δ) positive semidefinite.
    """

    def __init__(self, form: QuadraticForm, k: int, lower: np.ndarray, upper: np.ndarray, delta: np.ndarray) -> None:
        self.form, self.k, self.lower, self.upper = form, k, lower, upper
        self.unbounded = bool(np.isinf(lower).all() and np.isinf(upper).all())
        self.diagonal = np.diag(form.Q).copy()
        self.n_products = 0
        self.use(delta)

    @cached_property
    def steepest(self) -> float:
        """The largest eigenvalue of Q: an accelerated proximal step needs it, Newton's method does not."""
        return float(np.linalg.eigvalsh(self.form.Q)[-1]) * (1 + 1e-9)

    def use(self, delta: np.ndarray) -> None:
        """Split off this diagonal from now on."""
        self.delta, self.root = delta, np.sqrt(delta)
        self.worst = float(np.max(self.form.roots**2 / delta))

    def restrict(self, index: np.ndarray) -> Separable:
        """The same on these coordinates alone: a principal part of a semidefinite matrix is semidefinite."""
        return Separable(
            self.form.restrict(index), self.k, self.lower[index], self.upper[index], self.delta[index]
        )  # fmt: skip

    def _gains(self, z: np.ndarray) -> np.ndarray:
        if self.unbounded:
            return np.asarray(z * z / (2 * self.delta))
        w = np.clip(z / self.delta, self.lower, self.upper)
        return np.asarray(w * (z - 0.5 * self.delta * w))

    def _bound(self, w: np.ndarray, z: np.ndarray, kept: np.ndarray, out: np.ndarray) -> tuple[float, np.ndarray]:
        """B(w) less its rounding, and the gains."""
        form, gains = self.form, self._gains(z)
        inside = float(gains[kept].sum())
        gains[out], gains[kept] = -1.0, -1.0
        spare = self.k - kept.size
        if spare >= gains.size:
            top = float(gains[gains > 0].sum())
        elif spare:
            best = np.partition(gains, gains.size - spare)[gains.size - spare :]
            top = float(best[best > 0].sum())
        else:
            top = 0.0
        # z is known up to ε_i = rounding·roots_i·size. With (1-τ)δ in place of δ the gains grow by at most 1/(1-τ),
        # and τδ_i/2 w_i² - ε_i|w_i| >= -ε_i²/(2τδ_i): added up and minimised over τ.
        size = math.sqrt(2 * form.energy) + float(form.roots @ np.abs(w))
        error = form.rounding * size * math.sqrt(max(self.k, kept.size) * self.worst)
        total = abs(inside) + top
        cross = float(w @ (form.b - z))
        loss = 2 * error * math.sqrt(total) + 2 * error * error
        if not self.unbounded and kept.size:  # intervals of kept coordinates need not contain 0
            reach = np.maximum(np.abs(self.lower[kept]), np.abs(self.upper[kept]))
            away = (self.lower[kept] > 0) | (self.upper[kept] < 0)
            loss += form.rounding * size * float(form.roots[kept][away] @ reach[away])
        loss += form.rounding * (abs(cross) + total + size * float(form.roots @ np.abs(w))) + 8 * EPS * abs(form.c)
        return form.c - 0.5 * cross - inside - top - loss, gains

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
        w = np.array(warm, dtype=float)
        w[out] = 0.0
        spare = self.k - kept.size
        best = here = self._at(w, kept, out)
        failures, metric = 0, 1.0
        while best.bound < cutoff and max_iter > 0:
            ahead = self._newton(here, metric, kept, out, spare)
            max_iter -= 1
            rise = -math.inf
            if ahead is not None:
                there = self._at(ahead, kept, out)
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
        return Relaxed(best.bound, best.w, self._share(best.w, best.z, kept), best.gains, best.w)

    def _at(self, w: np.ndarray, kept: np.ndarray, out: np.ndarray, z: np.ndarray | None = None) -> _Point:
        z = self._look(w) if z is None else z
        return _Point(w, z, *self._bound(w, z, kept, out))

    def _shorter(self, here: _Point, there: _Point, kept: np.ndarray, out: np.ndarray) -> _Point:
        """The first point on the way there that is better than here: B is concave; there, if none is."""
        size = 0.5
        while size > 1e-3:
            between = self._at(here.w + size * (there.w - here.w), kept, out, here.z + size * (there.z - here.z))
            if between.bound > here.bound:
                return between
            size *= 0.4
        return there

    def _descend(
        self, here: _Point, kept: np.ndarray, out: np.ndarray, spare: int, steps: int
    ) -> tuple[_Point, _Point]:
        """Accelerated proximal steps on the relaxation: the last point, and that of the highest bound."""
        momentum, before, top = 1.0, here.w, here
        for _ in range(steps):
            point, _, _ = self._proximal(here.w, here.z, self.steepest, kept, out, spare)
            if float((here.w - point) @ (point - before)) > 0:
                momentum = 1.0  # O'Donoghue & Candès: start again when the momentum points uphill
            later = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = point + (momentum - 1) / later * (point - before)
            here, before, momentum = self._at(ahead, kept, out), point, later
            top = here if here.bound > top.bound else top
        return here, top

    def _share(self, w: np.ndarray, z: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """s_i = w_i divided by where the gain is attained."""
        whole = np.clip(z / self.delta, self.lower, self.upper)
        share = np.zeros_like(w)
        np.divide(w, whole, out=share, where=whole != 0)
        share = np.clip(share, 0.0, 1.0)
        share[kept] = 1.0
        return np.asarray(share)

    def _proximal(
        self, w: np.ndarray, z: np.ndarray, steep: np.ndarray | float, kept: np.ndarray, out: np.ndarray, spare: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """argmin Σ steep_i/2 (x_i - u_i)² + ½Σ δ_i x_i²/s_i with u = w + z/steep: x, s and the level t of the ties.

        Ties have the gain t²/2. Then z_i = √δ_i t and x_i = s_i t/√δ_i while that stays within the bounds, and
        Σs = spare determines t.
        """
        u = w + z / steep
        u[out] = 0.0
        size, reach = np.abs(u), np.where(u > 0, self.upper, -self.lower)
        size[kept] = 0.0
        free = np.flatnonzero((size > 0) & (reach > 0))
        steepness = steep[free] if isinstance(steep, np.ndarray) else steep
        share, level = _level(size[free], self.root[free], steepness, reach[free], spare)
        s = np.zeros_like(w)
        s[free], s[kept] = share, 1.0
        x = np.clip(u * (steep / (steep + self.delta)), self.lower, self.upper)
        tied = (s > 0) & (s < 1)
        x[s == 0] = 0.0
        x[tied] = s[tied] * np.sign(u[tied]) * np.minimum(level / self.root[tied], reach[tied])
        return x, s, level

    def _newton(self, here: _Point, metric: float, kept: np.ndarray, out: np.ndarray, spare: int) -> np.ndarray | None:
        """The solution of the linear system for the kinds of coordinates that a proximal step finds."""
        w = here.w
        x, s, t = self._proximal(w, here.z, metric * self.diagonal, kept, out, spare)
        tied = (s > 0) & (s < 1)
        at_bound = (s == 1) & ((x == self.lower) | (x == self.upper)) if not self.unbounded else np.zeros(w.size, bool)
        whole = np.flatnonzero((s == 1) & ~at_bound)
        ties = np.flatnonzero(tied)
        active = np.concatenate([whole, ties])
        if not active.size:
            return x
        b, Q = self.form.b, self.form.Q
        target = b[active]
        if at_bound.any():
            target = target - Q[np.ix_(active, np.flatnonzero(at_bound))] @ x[at_bound]
        m, n_ties = active.size, ties.size
        M = np.zeros((m + 1, m + 1)) if n_ties else np.empty((m, m))
        M[:m, :m] = Q[np.ix_(active, active)]
        if n_ties:
            sign, reach = np.sign(x[ties]), np.where(x[ties] > 0, self.upper[ties], -self.lower[ties])
            clipped = t / self.root[ties] > reach
            place = np.arange(m - n_ties, m)
            M[place, place] -= self.delta[ties]
            capped = np.where(clipped, reach, 1.0)
            along = sign * np.where(clipped, t / capped, self.root[ties])  # dz/dt
            M[m, place] = M[place, m] = along
            fixed = float(s[ties][clipped].sum())
            M[m, m] = fixed - (spare - np.count_nonzero(s == 1) + kept.size)
            target = np.append(target, t * fixed)
            target[place] -= sign * np.where(clipped, 0.5 * (self.delta[ties] * capped - t * t / capped), 0.0)
        try:
            solution = np.linalg.solve(M, target)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(solution).all():
            return None
        ahead = np.where(at_bound, x, 0.0)
        ahead[active] = solution[:m]
        return ahead


def _level(
    size: np.ndarray, root: np.ndarray, steep: np.ndarray | float, reach: np.ndarray, spare: int
) -> tuple[np.ndarray, float]:
    """Shares s_i(t) with Σs = spare, and t; all ones where there is room for all."""
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
