"""The dual of the perspective relaxation where atoms come and go as a whole, with quotas of groups of them.

As in `perspective_dual`, with one share s_a for all coordinates of an atom a:

    min over w in Γ, 0 <= s <= 1, Σs <= k, Σ_{a in g} s_a <= cap_g
        c - bᵀw + ½wᵀPw + ½Σ_a Σ_{i in a} δ_i w_i²/s_a,   l_i s_a <= w_i <= u_i s_a.

B(v, λ) takes the largest sum of an admitted set of h_a = Σ_{i in a} g_i in place of the k largest gains. Ties in a
group whose quota is used up have the same h_a; those in all other groups, too. Given which is which, the shares are
unknowns of a smooth convex problem under linear equations: a Newton step.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..risks.accuracy import QuadraticForm
from ..sets.polyhedron import Polyhedron
from .perspective_dual import Kinds, PerspectiveDual, Point, shares_of_ties
from .supports import AtomSupports, Decisions


@dataclass
class AtomKinds(Kinds):
    """Besides, the share of each atom, the class of those that tie (its group, or -1), and ties at a bound."""

    shares: np.ndarray = field(default_factory=lambda: np.empty(0))
    classes: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    clipped: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))

    @cached_property
    def whole(self) -> np.ndarray:
        """Coordinates that are in, off their bounds."""
        return np.flatnonzero((self.s == 1) & (self.x != 0) & ~self.at_bound)

    @cached_property
    def ties(self) -> np.ndarray:
        """Coordinates that are partly in, at s_a times a bound last."""
        tied = (self.s > 0) & (self.s < 1) & (self.x != 0)
        return np.concatenate([np.flatnonzero(tied & ~self.clipped), np.flatnonzero(tied & self.clipped)])

    @cached_property
    def active(self) -> np.ndarray:
        return np.concatenate([self.whole, self.ties])


class AtomDual(PerspectiveDual):
    """B for atoms and quotas."""

    supports: AtomSupports

    def __init__(self, form: QuadraticForm, supports: AtomSupports, gamma: Polyhedron, delta: np.ndarray) -> None:
        super().__init__(form, supports, gamma, delta)

    def share(self, point: Point, kept: np.ndarray) -> np.ndarray:
        """How far each atom is in: w is s_a times where the gains are attained."""
        z = self._shrink(point.z, point.multipliers @ self.A)
        whole = np.clip(z / self.delta, self.lower, self.upper)
        along, length = (self.supports.sums(self.delta * whole * w) for w in (point.w, whole))
        share = np.zeros_like(length)
        np.divide(along, length, out=share, where=length > 0)
        share = self.supports.spread(np.clip(share, 0.0, 1.0), 1.0)
        share[kept] = 1.0
        return np.asarray(share)

    def _idle_prices(self, here: Point, x: np.ndarray) -> np.ndarray:
        """Higher where a cap is exceeded, half of what they were where it does not bind."""
        loose = (self.A @ np.abs(x) < self.h) & ~self.gamma.equal
        return np.where(loose, 0.5 * here.multipliers, self._prices(here, x))

    def _proximal(self, here: Point, steep: np.ndarray | float, part: Decisions) -> AtomKinds:
        """argmin Σ steep_i/2 (x_i - u_i)² + a_i|x_i| + ½δ_i x_i²/s_a, u = w + z/steep.

        Within an atom steep is made a multiple κ_a of δ, at least what is asked for. Then x_i = u_i κs/(κs + 1), which
        is κu_i/(κs + 1) for s_a = 1, and the gain at that is ½κ²Σδu²/(κs + 1)²: as if the atom were one coordinate.
        """
        supports, delta, kept = self.supports, self.delta, part.kept
        chosen = supports.choices(part)
        atom = supports.atom[chosen]
        kappa = np.zeros(supports.n_atoms)
        steep = np.broadcast_to(steep, delta.shape).copy()
        np.maximum.at(kappa, atom, steep[chosen] / delta[chosen])
        steep[chosen] = kappa[atom] * delta[chosen]
        u = self._shrink(here.w + here.z / steep, (here.multipliers @ self.A) / steep)
        size, reach = np.abs(u), np.where(u > 0, self.upper, -self.lower)
        free = chosen & (size > 0) & (reach > 0)
        shares, classes = _Shares(self, kappa, np.where(free, size, 0.0), reach).fill(part)
        s = np.where(free, supports.spread(shares, 0.0), 0.0)
        times = supports.spread(kappa, 0.0) * s
        length = size * times / (times + 1)
        most = np.where(s > 0, reach, 0.0) * s
        x = np.sign(u) * np.minimum(length, most)
        x[kept] = np.clip(u * (steep / (steep + delta)), self.lower, self.upper)[kept]
        s[kept] = 1.0
        return AtomKinds(x, s, 0.0, np.zeros(x.size, dtype=bool), shares, classes, length > most)

    def _solve(self, kinds: Kinds, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """One Newton step for w and s together, where ties at a bound are s_a times that bound.

        The unknowns are the other active coordinates and s_a/s⁰_a; ½Σδw²/s is homogeneous, so that its second-order
        model is its slope at the proximal point and half the square that its Hessian there makes of the unknowns.
        """
        assert isinstance(kinds, AtomKinds)
        b, Q, x, active, ties = self.form.b, self.form.Q, kinds.x, kinds.active, kinds.ties
        fixed, first, n = np.flatnonzero(kinds.at_bound), kinds.whole.size, kinds.active.size
        tied, place = np.unique(self.supports.atom[ties], return_inverse=True)
        loose = np.flatnonzero(~kinds.clipped[ties])
        m, share = first + loose.size, kinds.shares[tied]
        # w = T y on the active coordinates
        T = np.zeros((n, m + tied.size))
        T[np.arange(m), np.arange(m)] = 1.0
        T[np.arange(m, n), m + place[loose.size :]] = x[active[m:]]
        G = Q[np.ix_(active, active)]
        G[np.arange(first, n), np.arange(first, n)] -= self.delta[ties]
        H, target = T.T @ G @ T, T.T @ (b[active] - Q[np.ix_(active, fixed)] @ x[fixed])
        pull = self.delta[ties] * x[ties] / kinds.s[ties]
        own, s_of = np.arange(first, m), m + place[: loose.size]
        H[own, own] += self.delta[ties[: loose.size]] / kinds.s[ties[: loose.size]]
        H[own, s_of], H[s_of, own] = H[own, s_of] - pull[: loose.size], H[s_of, own] - pull[: loose.size]
        square = np.bincount(s_of, (pull * x[ties])[: loose.size], minlength=m + tied.size)
        H[np.diag_indices(m + tied.size)] += square
        target += 0.5 * square
        target[own] -= pull[: loose.size]
        target -= 0.5 * np.bincount(m + place[loose.size :], (pull * x[ties])[loose.size :], minlength=m + tied.size)
        return self._with_equations(kinds, rows, H, target, T, (tied, share))

    def _with_equations(
        self,
        kinds: AtomKinds,
        rows: np.ndarray,
        H: np.ndarray,
        target: np.ndarray,
        T: np.ndarray,
        tied: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The minimum of ½yᵀHy - targetᵀy with all shares of a class used up, and the binding caps met."""
        atoms, share = tied
        x, active, n = kinds.x, kinds.active, H.shape[0]
        fixed = np.flatnonzero(kinds.at_bound)
        named, which = np.unique(kinds.classes[atoms], return_inverse=True)
        sums = np.zeros((named.size, n))
        sums[which, np.arange(n - atoms.size, n)] = share
        sides = (self.A[np.ix_(rows, active)] * np.sign(x[active])) @ T
        E = np.vstack([sums, sides])
        M, right = np.zeros((n + len(E),) * 2), np.zeros(n + len(E))
        M[:n, :n], M[n:, :n], M[:n, n:] = H, E, E.T
        corner = np.arange(n + named.size, n + len(E))
        M[corner, corner] = -1e-12 * float(np.abs(sides).max(initial=0.0)) ** 2 / float(self.diagonal.max())
        right[:n], right[n : n + named.size] = target, sums.sum(axis=1)
        right[n + named.size :] = self.h[rows] - self.A[np.ix_(rows, fixed)] @ np.abs(x[fixed])
        try:
            solution = np.linalg.solve(M, right)
        except np.linalg.LinAlgError:
            return None
        return (T @ solution[:n], solution[n + named.size :]) if np.isfinite(solution).all() else None


class _Shares:
    """The shares of a proximal step: s_a such that the gain of every tie in a class is the same, and all is used."""

    def __init__(self, dual: AtomDual, kappa: np.ndarray, size: np.ndarray, reach: np.ndarray) -> None:
        self.supports, self.kappa = dual.supports, kappa
        self.length = np.sqrt(self.supports.sums(dual.delta * size * size))
        self.bounded = bool(np.isfinite(reach[size > 0]).any())
        if self.bounded:
            alive = np.flatnonzero(size > 0)
            self.atom, self.size, self.reach = self.supports.atom[alive], size[alive], reach[alive]
            self.delta = dual.delta[alive]

    def fill(self, part: Decisions) -> tuple[np.ndarray, np.ndarray]:
        """The shares, and the class of each atom: its group, where the quota of that binds, or -1.

        The level of all falls as groups are taken out whose quotas bind, so that these bind all the more.
        """
        spare, room = self.supports.rooms(part)
        group = self.supports.group
        shares, classes = np.zeros(group.size), np.full(group.size, -1)
        pool = self.length > 0
        while True:
            shares[pool] = self._shares(np.flatnonzero(pool), spare)
            total = np.bincount(group[pool] + 1, shares[pool], minlength=room.size)[1:]
            over = np.flatnonzero(total > room[:-1] * (1 + 1e-9))
            if not over.size:
                return shares, classes
            for g in over:
                members = np.flatnonzero(pool & (group == g))
                shares[members], classes[members] = self._shares(members, int(room[g])), g
                spare -= int(room[g])
                pool[members] = False

    def _shares(self, atoms: np.ndarray, spare: int) -> np.ndarray:
        """Σs = spare over these atoms, with ties at the same level."""
        kappa, root, reach, length = self.kappa[atoms], np.ones(atoms.size), np.full(atoms.size, math.inf), self.length
        if not self.bounded or not 0 < spare < atoms.size:
            return shares_of_ties(length[atoms], root, kappa, reach, spare)[0]
        if self.supports.widest == 1:
            place = np.searchsorted(self.atom[order := np.argsort(self.atom)], atoms)
            one = order[place]
            delta = self.delta[one]
            return shares_of_ties(self.size[one], np.sqrt(delta), kappa * delta, self.reach[one], spare)[0]
        from scipy.optimize import brentq  # here, because importing it takes longer than most certificates

        high = math.sqrt(2 * float(self._marginal(np.zeros(self.kappa.size))[0][atoms].max())) * (1 + 1e-12)
        low = high
        while self._at(low, atoms).sum() < spare:
            low *= 0.25
        if low == high:
            return self._at(low, atoms)
        # nearly linear in 1/t
        x = brentq(lambda x: self._at(1 / x, atoms).sum() - spare, 0.25 / low, 1 / low, xtol=1e-300, rtol=1e-11)
        return self._at(1 / float(x), atoms)

    def _marginal(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a larger share of each atom gains, and how fast that falls; it is convex in s."""
        kappa, share = self.kappa[self.atom], s[self.atom]
        y = kappa * self.size / (kappa * share + 1)
        over = y > self.reach
        most = np.where(over, self.reach, 0.0)
        value = np.where(over, kappa * most * (self.size - most * share) - 0.5 * most**2, 0.5 * y * y)
        fall = np.where(over, kappa * most**2, kappa * y * y / (kappa * share + 1))
        return tuple(np.bincount(self.atom, self.delta * v, minlength=s.size) for v in (value, fall))  # type: ignore[return-value]

    def _at(self, level: float, atoms: np.ndarray) -> np.ndarray:
        """The shares at which a tie gains level²/2: Newton's method for gain^(-½), which is linear off the bounds."""
        goal = 0.5 * level * level
        low, high = np.zeros(self.kappa.size), np.ones(self.kappa.size)
        s = np.where(self._marginal(high)[0] >= goal, 1.0, 0.0)
        s[s == 0] = np.where(self._marginal(low)[0] > goal, 0.5, 0.0)[s == 0]
        between = (s > 0) & (s < 1)
        without = self.length[between] / level - 1 / self.kappa[between]  # bounds; with them it is less
        s[between] = np.where((without > 0) & (without < 1), without, 0.5)
        for _ in range(100 if between.any() else 0):
            value, fall = self._marginal(s)
            low, high = np.where(value > goal, s, low), np.where(value > goal, high, s)
            ahead = s + 2 * value / np.where(fall > 0, fall, 1.0) * (np.sqrt(value / goal) - 1)
            ahead = np.where((ahead >= low) & (ahead <= high), ahead, 0.5 * (low + high))
            done = np.abs(ahead - s) <= 1e-13 * ahead
            s = np.where(between, ahead, s)
            if done[between].all():
                break
        return np.asarray(s[atoms])
