"""Small convex quadratic programmes over bounds and caps, by active sets."""

import math

import numpy as np

from .polyhedron import Polyhedron

_EDGE = 1e-12  # relative: what lies so near a bound or a cap is on it


def minimise_on_polyhedron(G: np.ndarray, b: np.ndarray, shape: Polyhedron, start: np.ndarray) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over lower <= u <= upper, A|u| <= h (= where demanded), for positive semidefinite G.

    The primal method of active sets, from a member: entries are free, at a bound or, under a cap on |u|, at zero; on
    the face of the free ones and of the tight caps the answer is one linear system. The way there ends at the first
    bound, zero or cap; once it is free, what has the most to gain is let go. Columns that depend on each other are no
    obstacle: among all answers on a face the nearest is taken, and along a direction without curvature the way ends
    at the boundary. None if it does not end, which degenerate problems may bring about in floating point.
    """
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    units = 1 / np.where(size > 0, size, 1.0)  # in these the diagonal of G is 1, and slopes compare
    rows = shape.A * units
    heights = rows.max(axis=1, initial=1e-300)
    scaled = Polyhedron(
        shape.lower / units, shape.upper / units, rows / heights[:, None], shape.h / heights, shape.equal
    )
    search = _Faces(units[:, None] * G * units, units * b, scaled, start / units)
    found = search.run()
    return None if found is None else np.clip(units * found, shape.lower, shape.upper)


class _Faces:
    """The state of the search: where it is, which entries are free, which caps are tight."""

    def __init__(self, G: np.ndarray, b: np.ndarray, shape: Polyhedron, start: np.ndarray) -> None:
        self.G, self.b, self.shape = G, b, shape
        self.lower, self.upper = shape.lower, shape.upper
        self.bent = shape.A.any(axis=0) & (self.lower < 0) & (self.upper > 0)  # |u_i| has its kink inside
        u = np.clip(start, self.lower, self.upper)
        near = _EDGE * np.abs(u).max(initial=0.0)
        for edge in (self.lower, self.upper):
            u = np.where(np.isfinite(edge) & (np.abs(u - edge) <= _EDGE * np.abs(edge)), edge, u)
        self.u = np.where(self.bent & (np.abs(u) <= near), 0.0, u)
        self.sign = np.where(np.where(self.bent, self.u < 0, self.lower < 0), -1.0, 1.0)  # of what is under a cap
        self.free = (self.u > self.lower) & (self.u < self.upper) & ~(self.bent & (self.u == 0))
        self.tight = shape.equal.copy()
        for row in np.flatnonzero(shape.equal):  # an equation needs entries that can move
            if not (self.free & (shape.A[row] > 0)).any():
                self.free |= (shape.A[row] > 0) & (self.lower < self.upper)

    def run(self) -> np.ndarray | None:
        """The answer, or None."""
        limit = 20 * (self.b.size + self.tight.size) + 50
        for count in range(limit):
            step, multiplier, endless = self._step()
            length, blocked = self._room(step, math.inf if endless else 1.0)
            if not math.isfinite(length):
                return None  # without a minimum
            self.u = self.u + length * step
            if blocked is not None:
                self._stop_at(blocked)
            elif not self._let_go(multiplier, any_one=count > limit // 2):
                return self.u if np.isfinite(self.u).all() else None
        return None

    def _step(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """The way to the best point of the face and the multipliers there; or a way on which it falls for ever."""
        free = self.free
        rows = self.shape.A[self.tight][:, free] * self.sign[free]
        n, m = int(free.sum()), len(rows)
        system, right = np.zeros((n + m, n + m)), np.zeros(n + m)
        system[:n, :n] = self.G[np.ix_(free, free)]
        system[n:, :n], system[:n, n:] = rows, rows.T
        right[:n] = (self.b - self.G @ self.u)[free]
        step, multiplier = np.zeros(free.size), np.zeros(self.tight.size)
        if not n:
            return step, multiplier, False
        sound = False
        try:
            found = np.linalg.solve(system, right)
            # columns that depend on each other, up to rounding, show in steps far longer than the slopes
            sound = bool(np.isfinite(found).all() and np.abs(found[:n]).max() <= 1e12 * np.abs(right).max())
        except np.linalg.LinAlgError:
            pass
        if not sound:
            found = np.linalg.lstsq(system, right, rcond=1e-13)[0]
            left = right - system @ found
            if np.abs(left[:n]).max() > 1e-9 * np.abs(right).max():
                step[free] = left[:n]
                return step, multiplier, True
        step[free], multiplier[self.tight] = found[:n], found[n:]
        return step, multiplier, False

    def _room(self, step: np.ndarray, most: float) -> tuple[float, tuple[str, int] | None]:
        """How far the step can go, and what stops it."""
        low = np.where(self.bent & (self.sign > 0), 0.0, self.lower)
        high = np.where(self.bent & (self.sign < 0), 0.0, self.upper)
        blocked: tuple[str, int] | None = None
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(step > 0, high - self.u, np.where(step < 0, low - self.u, 0.0))
            reach = np.where(self.free & (step != 0), np.maximum(ahead / step, 0.0), math.inf)
            towards = self.shape.A @ (self.sign * step)
            slack = np.maximum(self.shape.h - self.shape.A @ (self.sign * self.u), 0.0)
            noise = 1e-15 * (self.shape.A @ np.abs(step))
            caps = np.where(~self.tight & (towards > noise), slack / towards, math.inf)
        if reach.size and reach.min() < most:
            most, blocked = float(reach.min()), ("entry", int(reach.argmin()))
        if caps.size and caps.min() < most:
            most, blocked = float(caps.min()), ("cap", int(caps.argmin()))
        if blocked is not None and blocked[0] == "entry":
            self._edge = float((high if step[blocked[1]] > 0 else low)[blocked[1]])
        return most, blocked

    def _stop_at(self, blocked: tuple[str, int]) -> None:
        kind, place = blocked
        if kind == "cap":
            self.tight[place] = True
        else:
            self.free[place], self.u[place] = False, self._edge

    def _let_go(self, multiplier: np.ndarray, any_one: bool) -> bool:
        """Free the entry, or loosen the cap, that has the most to gain; whether there was one."""
        image = self.G @ self.u
        pull, price = self.b - image, self.shape.A.T @ multiplier
        doubt = 1e-12 * float(np.abs(self.b).max(initial=0.0) + np.abs(image).max(initial=0.0))
        at_zero = self.bent & (self.u == 0)
        slope = pull - self.sign * price
        up = np.where(at_zero, pull - price, slope)
        down = np.where(at_zero, -pull - price, -slope)
        fixed = ~self.free & (self.lower < self.upper)
        up = np.where(fixed & (self.u < self.upper), up, 0.0)
        down = np.where(fixed & (self.u > self.lower), down, 0.0)
        loosen = np.where(self.tight & ~self.shape.equal, -multiplier * self.shape.A.max(axis=1, initial=0.0), 0.0)
        gain = np.concatenate([np.maximum(up, down), loosen])
        worth = np.flatnonzero(gain > doubt)
        if not worth.size:
            return False
        best = int(worth[0] if any_one else gain.argmax())  # the first one, against going in circles
        if best >= fixed.size:
            self.tight[best - fixed.size] = False
        else:
            self.free[best] = True
            if self.bent[best] and self.u[best] == 0:
                self.sign[best] = 1.0 if up[best] >= down[best] else -1.0
        return True
