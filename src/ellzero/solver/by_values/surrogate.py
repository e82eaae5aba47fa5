"""A quadratic model of R in few coordinates, from the values that were paid for, and its sparse minimiser in Γ."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np

from ..._core.stopping import Status, Stop
from ...risks.quadratic import Quadratic
from ...sets import EmptySlice
from ..exchanges import SwapSearch
from ..problem import Problem
from ..projections import Projector
from ..refit import refit
from .asking import largest, power_of_2

_MANY = 300  # coordinates of a support beyond which refits of a model are too slow


class LocalQuadratic(Quadratic):
    """½(u - w)ᵀQ(u - w) + gᵀ(u - w) up to a constant, Q positive definite by construction."""

    convex = True


class Surrogate:
    """m(u) = c + gᵀ(u - w) + ½(u - w)ᵀH(u - w) for u that differ from w in the coordinates C alone.

    Values are fitted in units of their spread: squares of them neither over- nor underflow, whatever R is measured in.

    c, g and H are the least squares fit to all values in memory. Where these are not those of a quadratic, near ones
    count more: their weights fall with the cube of the distance, as the error of the model does.

    Attributes
    ----------
    chosen : array of int
        C.
    points, values : arrays
        The memory: entries in C, and R.
    origin : array
        The other entries that all points in memory share.
    unit : float
        In which values are fitted, g and H being in it: a power of 2, by which nothing is rounded.
    spread : float
        Root mean square of what the fit leaves unexplained.
    spare : int
        How many more values there are than unknowns.
    """

    def __init__(self, n_features: int) -> None:
        self.chosen = np.empty(0, dtype=np.intp)
        self.points, self.values = np.empty((0, 0)), np.empty(0)
        self.origin = np.zeros(n_features)
        self.unit, self.spread, self.spare = 1.0, 0.0, 0

    # Memory.

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"chosen": self.chosen, "points": self.points, "values": self.values, "origin": self.origin}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over such a state."""
        self.chosen, self.origin = state["chosen"].astype(np.intp), state["origin"]
        self.points, self.values = state["points"], state["values"]

    def move_to(self, w: np.ndarray, chosen: np.ndarray) -> None:
        """Another choice of coordinates, or another point: what is in memory stays as far as it belongs there."""
        before = self.chosen
        others = np.ones(w.size, dtype=bool)
        others[chosen] = others[before] = False
        left = np.setdiff1d(before, chosen)
        fits = np.zeros(0, dtype=bool)
        if self.values.size and np.array_equal(self.origin[others], w[others]):
            fits = (self.points[:, np.searchsorted(before, left)] == w[left]).all(axis=1)
        points = np.tile(self.origin[chosen], (int(fits.sum()), 1))
        both = np.intersect1d(before, chosen)
        if fits.any():
            columns = self.points[fits][:, np.searchsorted(before, both)]
            points[:, np.searchsorted(chosen, both)] = columns
        self.values = self.values[fits] if fits.size else np.empty(0)
        self.points, self.chosen, self.origin = points, chosen, w.copy()

    def forget(self, w: np.ndarray | None = None, beyond: float = 0.0) -> None:
        """Leave out all values, or those farther from w than so much in a coordinate."""
        near = np.zeros(self.values.size, dtype=bool)
        if w is not None:
            near = np.abs(self.points - w[self.chosen]).max(axis=1, initial=0.0) <= beyond
        self.points, self.values = self.points[near], self.values[near]

    def remember(self, points: np.ndarray, values: np.ndarray) -> None:
        """Whole points that differ from each other in C alone, and their values; failures are left out."""
        worth = np.isfinite(values)
        self.points = np.vstack([self.points, points[worth][:, self.chosen]])
        self.values = np.append(self.values, values[worth])

    # The fit.

    @staticmethod
    def unknowns(m: int) -> int:
        """Numbers in c, g and H."""
        return 1 + m + m * (m + 1) // 2

    def fit(self, w: np.ndarray, level: float) -> bool:
        """c, g and H around w, for values with errors of this size; whether there were enough of them."""
        m, n = self.chosen.size, self.values.size
        self.centre = w[self.chosen]
        moves = self.points - self.centre
        self.size = np.abs(moves).max(axis=0, initial=0.0)
        self.spare = n - self.unknowns(m)
        if self.spare < 0 or not (self.size > 0).all():
            return False
        distance = np.abs(moves / self.size).max(axis=1)
        offset = float(np.median(self.values))
        self.unit = power_of_2(largest(0.5 * self.values - 0.5 * offset))  # which may be as far apart as numbers go
        y, B, level = self.values / self.unit - offset / self.unit, _features(moves / self.size), level / self.unit
        weight = np.ones(n)
        theta = _least_squares(B, y)
        wrong = y - B @ theta
        if self.spare and math.sqrt(float(wrong @ wrong) / n) > 1.5 * level:
            near = float(np.sort(distance)[min(n - 1, self.unknowns(m) // 2)])
            weight = 1 / (max(near, 1e-3) ** 3 + distance**3)
            weight /= weight.max()
            theta = _least_squares(B * weight[:, None], y * weight)
            wrong = weight * (y - B @ theta)
        self.spread = self.unit * math.sqrt(float(wrong @ wrong) / max(1, self.spare))
        self.theta = theta
        self._normal = (B * weight[:, None]).T @ (B * weight[:, None])
        self.c = offset + self.unit * float(theta[0])
        self._g = theta[1 : 1 + m]
        rows, columns = np.triu_indices(m)
        self._H = np.zeros((m, m))
        self._H[rows, columns] = self._H[columns, rows] = theta[1 + m :]
        return bool(np.isfinite(theta).all())

    def gradient(self, n_features: int) -> np.ndarray:
        """g, with zeros outside C."""
        g = np.zeros(n_features)
        g[self.chosen] = self.unit * (self._g / self.size)
        return g

    def visible(self, level: float) -> float:
        """How far one has to go in a coordinate for its curvature to show through errors of this size."""
        bend = float(np.median(np.abs(np.diag(self._H)) / self.size**2))
        return math.sqrt(20 * level / self.unit / bend) if bend > 0 else 0.0

    def predicted(self, u: np.ndarray) -> float:
        """m(u)."""
        z = (u[self.chosen] - self.centre) / self.size
        return self.c + self.unit * float(self._g @ z + 0.5 * z @ self._H @ z)

    def doubt(self, u: np.ndarray, level: float) -> float:
        """The standard error of m(u) - m(w), from values with errors of this size."""
        difference = _features(((u[self.chosen] - self.centre) / self.size)[None, :])[0]
        difference[0] = 0.0
        return level * math.sqrt(max(0.0, float(difference @ _solve(self._normal, difference))))

    def _curvature(self, level: float, damping: float) -> np.ndarray:
        """H, made positive definite: eigenvalues that noise explains are not believed to be smaller than it."""
        values, vectors = np.linalg.eigh(self._H)
        slope = largest(self._g)
        largest_one = max(largest(values), 1e-9 * slope, 1e-300)
        m = self.chosen.size
        bends = np.flatnonzero(np.concatenate([[0.0], np.zeros(m), np.eye(m)[np.triu_indices(m)]]))
        error = 0.0
        if level > 0 and bends.size:
            unit = np.zeros((self.theta.size, bends.size))
            unit[bends, np.arange(bends.size)] = 1.0
            variance = float(np.median(np.einsum("ij,ij->j", unit, _solve(self._normal, unit))))
            error = level / self.unit * math.sqrt(max(0.0, variance))
        floor = max(1e-8 * largest_one, 2 * error)
        H = (vectors * np.maximum(values, floor)) @ vectors.T + damping * max(largest_one, slope) * np.eye(m)
        return np.asarray(H / np.outer(self.size, self.size))

    def minimiser(
        self,
        problem: Problem,
        project: Projector,
        w: np.ndarray,
        level: float,
        damping: float,
        *,
        exchange: bool = True,
    ) -> np.ndarray:
        """argmin m(u) + damping over sparse u in Γ, as exchanges find it; without them, on the support of w."""
        H, g = self._curvature(level, damping), self.gradient(w.size) / self.unit
        if not (np.isfinite(H).all() and np.isfinite(g).all()):
            raise Stop(Status.DIVERGED)
        support = problem.support_of(np.flatnonzero(w))
        wide = np.union1d(support, self.chosen).astype(np.intp)
        if problem.gamma.whole_space and problem.sparsity.admits(wide):
            u = w.copy()
            u[self.chosen] -= _solve(H, g[self.chosen])
            return u
        risk = self._risk(H, g, w)
        step = 1 / max(float(np.abs(H).sum(axis=0).max(initial=0.0)), 1e-300)
        if wide.size > _MANY:
            return _descended(risk, project, w, step)
        if not exchange:
            with suppress(EmptySlice):
                return np.asarray(refit(risk, problem.gamma, support, w[support]).w)
            return w
        local, best = Problem(risk, problem.sparsity, problem.gamma, problem.kept), w
        for start in (w, w - step * g):
            with suppress(EmptySlice):
                found = SwapSearch(local).improve(risk.at(np.asarray(project(start)[0], dtype=float))).w
                best = found if risk.value(found) < risk.value(best) else best
        return np.asarray(best)

    def _risk(self, H: np.ndarray, g: np.ndarray, w: np.ndarray) -> LocalQuadratic:
        """½(u - w)ᵀH(u - w) + gᵀ(u - w), with a diagonal that holds all other coordinates where they are."""
        from scipy.sparse import coo_array, diags_array

        diagonal = np.full(w.size, float(np.diag(H).max(initial=1.0)))
        diagonal[self.chosen] = 0.0
        i, j = np.meshgrid(self.chosen, self.chosen, indexing="ij")
        Q = (diags_array(diagonal) + coo_array((H.ravel(), (i.ravel(), j.ravel())), shape=(w.size, w.size))).tocsr()
        return LocalQuadratic(Q, Q @ w - g)

    def reach(self, u: np.ndarray) -> float:
        """How far u is from the centre, in units of the distances in memory."""
        return largest((u[self.chosen] - self.centre) / self.size)


def _descended(risk: LocalQuadratic, project: Projector, w: np.ndarray, step: float) -> np.ndarray:
    """The best of some projected gradient steps on the model: where supports are too large for refits."""
    u, best, value = w, w, risk.value(w)
    for _ in range(200):
        u = np.asarray(project(u - step * risk.gradient(u))[0], dtype=float)
        here = risk.value(u)
        if not here < value:
            break
        best, value = u, here
    return best


def _features(z: np.ndarray) -> np.ndarray:
    """1, z_i, ½z_i² and z_i z_j (i < j) as columns."""
    rows, columns = np.triu_indices(z.shape[1])
    products = z[:, rows] * z[:, columns]
    products[:, rows == columns] *= 0.5
    return np.hstack([np.ones((len(z), 1)), z, products])


def _least_squares(B: np.ndarray, y: np.ndarray) -> np.ndarray:
    if B.shape[1] <= 200:
        return np.asarray(np.linalg.lstsq(B, y, rcond=1e-13)[0])
    normal = B.T @ B
    theta = _solve(normal, B.T @ y)
    return np.asarray(theta + _solve(normal, B.T @ (y - B @ theta)))


def _solve(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    ridge = 1e-13 * float(np.trace(normal)) / len(normal)
    return np.asarray(np.linalg.solve(normal + ridge * np.eye(len(normal)), right))
