"""Quadratic and least-squares problems over bounds and caps, by active sets."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from .._core.arrays import norm
from .._core.linear_systems import least_squares
from ._quadratic import minimise_by_gradients
from .polyhedron import Polyhedron

_EDGE = 1e-12  # relative: what lies so near a bound or a cap is on it
_LARGE, _SLOW, _STEPS = 300, 50, 200  # unknowns, faces after which there are many of them, and gradient steps then


def minimise_on_polyhedron(
    G: np.ndarray,
    b: np.ndarray,
    shape: Polyhedron,
    start: np.ndarray,
    deadline: float = math.inf,
    project: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray | None:
    """argmin uᵀGu - 2bᵀu over lower <= u <= upper, A|u| <= h (= where demanded), for positive semidefinite G.

    The primal method of active sets, from a member: entries are free, at a bound or, under a cap on |u|, at zero; on
    the face of the free ones and of the tight caps the answer is one linear system. The way there ends at the first
    bound, zero or cap; once it is free, what has the most to gain is let go. Columns that depend on each other are no
    obstacle: among all answers on a face the nearest is taken, and along a direction without curvature the way ends
    at the boundary. None if it does not end, which degenerate problems may bring about in floating point. After the
    deadline, the member that was reached: every step is one to a better one.

    Where there are many faces on the way, and the projection is given, gradient steps pass by most of them: a face
    costs a linear system, and a gradient a product.
    """
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    units = 1 / np.where(size > 0, size, 1.0)  # in these the diagonal of G is 1, and slopes compare
    scaled = _scaled(shape, units)

    def nearer(u: np.ndarray) -> np.ndarray:
        here = units * u
        there = here if project is None else minimise_by_gradients(G, b, project, here, deadline, _STEPS)
        return u if there is here or there @ (G @ there - 2 * b) > here @ (G @ here - 2 * b) else there / units

    found = _OfProducts(units[:, None] * G * units, units * b, scaled, start / units).run(deadline, nearer)
    return None if found is None else np.clip(units * found, shape.lower, shape.upper)


def least_squares_on_polyhedron(
    A: np.ndarray, r: np.ndarray, shape: Polyhedron, start: np.ndarray, deadline: float = math.inf
) -> np.ndarray:
    """argmin ||A(u - start) - r|| over the same set, from a member, by A itself: κ(A) counts, and not its square.

    After the deadline, or where rounding keeps the search from ending, the member that was reached.
    """
    if len(A) > A.shape[1]:
        Q, A = np.linalg.qr(A)
        r = Q.T @ r
    size = np.sqrt(np.einsum("ij,ij->j", A, A))
    units = 1 / np.where(size > 0, size, 1.0)
    faces = _OfData(A * units, r, _scaled(shape, units), start / units)
    faces.run(deadline, lambda u: u)
    return np.asarray(np.clip(units * faces.u, shape.lower, shape.upper))


def _scaled(shape: Polyhedron, units: np.ndarray) -> Polyhedron:
    """The same for u / units, each row with 1 as its largest entry."""
    rows = shape.A * units
    size = rows.max(axis=1, initial=1e-300)
    return Polyhedron(shape.lower / units, shape.upper / units, rows / size[:, None], shape.h / size, shape.equal)


class Faces(ABC):
    """The state of the search: where it is, which entries are free, which caps are tight."""

    u: np.ndarray

    def __init__(self, shape: Polyhedron, start: np.ndarray) -> None:
        self.shape, self.lower, self.upper = shape, shape.lower, shape.upper
        self.bent = shape.A.any(axis=0) & (self.lower < 0) & (self.upper > 0)  # |u_i| has its kink inside
        self._begin(start)

    @abstractmethod
    def slopes(self) -> tuple[np.ndarray, float]:
        """How steeply it falls with each entry, and what of that is rounding."""

    @abstractmethod
    def best(self, rows: np.ndarray, gap: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """The step of the free entries to their best values where rows @ step = gap, what that costs each row, False.

        Or a step along which it falls for ever, and True.
        """

    def _begin(self, start: np.ndarray) -> None:
        """With the entries and caps that are at their bounds there."""
        shape, u = self.shape, np.clip(start, self.lower, self.upper)
        near = _EDGE * np.abs(u).max(initial=0.0)
        for edge in (self.lower, self.upper):
            u = np.where(np.isfinite(edge) & (np.abs(u - edge) <= _EDGE * np.abs(edge)), edge, u)
        self.u = np.where(self.bent & (np.abs(u) <= near), 0.0, u)
        self.sign = np.where(np.where(self.bent, self.u < 0, self.lower < 0), -1.0, 1.0)  # of what is under a cap
        self.free = (self.u > self.lower) & (self.u < self.upper) & ~(self.bent & (self.u == 0))
        self.tight = shape.equal | self._reached()
        for row in np.flatnonzero(shape.equal):  # an equation needs entries that can move
            if not (self.free & (shape.A[row] > 0)).any():
                self.free |= (shape.A[row] > 0) & (self.lower < self.upper)

    def _reached(self) -> np.ndarray:
        """The caps that are tight at the start, where no two of them can depend on each other."""
        A, h = self.shape.A, self.shape.h
        if (np.count_nonzero(A, axis=0) > 1).any():
            return np.zeros(h.size, dtype=bool)
        reached = A @ (self.sign * self.u) >= h - _EDGE * np.abs(h)
        return np.asarray(reached & (A[:, self.free] > 0).any(axis=1))

    def run(self, deadline: float, nearer: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
        """The answer, or None; after the deadline, the member that was reached."""
        limit = 20 * (self.u.size + self.tight.size) + 50
        for count in range(limit):
            if count == _SLOW and self.u.size >= _LARGE:
                self._begin(nearer(self.u))
            step, multiplier, endless = self._step()
            length, blocked = self._room(step, math.inf if endless else 1.0)
            if not math.isfinite(length):
                return None  # without a minimum
            self.u = self.u + length * step
            if blocked is not None and blocked[0] == "cap":
                self.tight[blocked[1]] = True
            elif blocked is not None:
                self.free[blocked[1]], self.u[blocked[1]] = False, self._edge
            elif not self._let_go(multiplier, any_one=count > limit // 2):
                return self.u if np.isfinite(self.u).all() else None
            if time.perf_counter() > deadline:
                return self.u
        return None

    def _step(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """The way to the best point of the face and the multipliers there; or a way on which it falls for ever."""
        free = self.free
        step, multiplier, endless = np.zeros(free.size), np.zeros(self.tight.size), False
        if free.any():
            rows = self.shape.A[self.tight][:, free] * self.sign[free]
            # what rounding has taken from tight caps on the way is given back
            gap = (self.shape.h - self.shape.A @ (self.sign * self.u))[self.tight]
            step[free], multiplier[self.tight], endless = self.best(rows, gap, self.slopes()[0][free])
        return step, multiplier, endless

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

    def _let_go(self, multiplier: np.ndarray, any_one: bool) -> bool:
        """Free the entry, or loosen the cap, that has the most to gain; whether there was one."""
        (pull, doubt), price = self.slopes(), self.shape.A.T @ multiplier
        at_zero = self.bent & (self.u == 0)
        slope = pull - self.sign * price
        up = np.where(at_zero, pull - price, slope)
        down = np.where(at_zero, -pull - price, -slope)
        fixed = ~self.free & (self.lower < self.upper)
        up = np.where(fixed & (self.u < self.upper), up, 0.0)
        down = np.where(fixed & (self.u > self.lower), down, 0.0)
        loosen = np.where(self.tight & ~self.shape.equal, -multiplier * self.shape.A.max(axis=1, initial=0.0), 0.0)
        gain = np.concatenate([np.maximum(up, down), loosen])
        if not (worth := np.flatnonzero(gain > doubt)).size:
            return False
        best = int(worth[0] if any_one else gain.argmax())  # the first one, against going in circles
        if best >= fixed.size:
            self.tight[best - fixed.size] = False
        else:
            self.free[best] = True
            if self.bent[best] and self.u[best] == 0:
                self.sign[best] = 1.0 if up[best] >= down[best] else -1.0
        return True


class _OfProducts(Faces):
    """uᵀGu - 2bᵀu."""

    def __init__(self, G: np.ndarray, b: np.ndarray, shape: Polyhedron, start: np.ndarray) -> None:
        self.G, self.b = G, b
        super().__init__(shape, start)

    def slopes(self) -> tuple[np.ndarray, float]:
        image = self.G @ self.u
        return self.b - image, 1e-12 * float(np.abs(self.b).max(initial=0.0) + np.abs(image).max(initial=0.0))

    def best(self, rows: np.ndarray, gap: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        m, n = rows.shape
        largest = np.abs(rows).max(axis=1, initial=0.0)  # of those that are free: others may have a larger weight
        unit = np.where(largest > 0, largest, 1.0)
        rows, gap = rows / unit[:, None], gap / unit
        system, right = np.zeros((n + m, n + m)), np.zeros(n + m)
        system[:n, :n] = self.G[np.ix_(self.free, self.free)]
        system[n:, :n], system[:n, n:], right[:n], right[n:] = rows, rows.T, slope, gap
        sound = False
        try:
            found = np.linalg.solve(system, right)
            # columns that depend on each other, up to rounding, show in steps far longer than the slopes, tight caps
            # in multipliers without end and steps that leave the caps
            length = float(np.abs(found[:n]).max())
            sound = bool(np.isfinite(found).all() and length <= 1e12 * np.abs(right).max())
            sound = sound and bool(np.abs(rows @ found[:n] - gap).max(initial=0.0) <= 1e-9 * length)
        except np.linalg.LinAlgError:
            pass
        if not sound:
            found = least_squares(system, right, 1e-13)
            left = (right - system @ found)[:n]
            left = left - rows.T @ least_squares(rows.T, left) if m else left  # the caps that are tight stay so
            if np.abs(left).max() > max(1e-9 * np.abs(slope).max(), 0.1 * self.slopes()[1]):
                return left, np.zeros(m), True
        return found[:n], found[n:] / unit, False


class _OfData(Faces):
    """||A(u - start) - r||²."""

    def __init__(self, A: np.ndarray, r: np.ndarray, shape: Polyhedron, start: np.ndarray) -> None:
        self.A, self.r, self.start = A, r, start
        super().__init__(shape, start)

    def _left(self) -> np.ndarray:
        return np.asarray(self.r - self.A @ (self.u - self.start))

    def slopes(self) -> tuple[np.ndarray, float]:
        left = self._left()
        return self.A.T @ left, 1e-14 * (norm(left) + float(np.abs(self.u - self.start).sum()))

    def best(self, rows: np.ndarray, gap: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        A, left, along = self.A[:, self.free], self._left(), np.eye(slope.size)
        back = least_squares(rows, gap) if len(rows) else np.zeros(slope.size)
        if len(rows):  # steps that keep to the caps
            _, size, V = np.linalg.svd(rows)
            along = V[int(np.count_nonzero(size > 1e-12 * size[0])) :].T
        step = back + along @ least_squares(A @ along, left - A @ back)
        price = least_squares(rows.T, A.T @ (left - A @ step)) if len(rows) else np.empty(0)
        return step, price, False
