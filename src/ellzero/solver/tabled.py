"""Exchanges found on a table of the curvature at a point, many between two refits, where refits are dear."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point
from ..risks.curvature import Curvature
from .moves import inverse
from .problem import Problem
from .refit import Units, refit
from .table import LEFT, Table

# Newcomers on a table: the first one, and later ones by their slopes and by their best exchange; or so many for each
# place. Of 70 problems (500 x 2000, k = 15, neighbours correlated by 0.9) 14 were missed, by 0.03% on average; with 96
# or 160 at first 21 and 17, with 48 and 48 later 15, and by starts of refitted parts, for four times the time, 22.
_FIRST, _STEEPEST, _PAYING, _FOR_EACH = 128, 32, 64, 1
_FOR_ONE = 10  # observations for each coordinate of a support, so that R is near a quadratic on it
SMALL = 1000  # exchanges so few that a second look is worth its time
_SHARES = (1 / 3, 1 / 2, 2 / 3)  # of the support that are given up, one after the other, and filled again


@dataclass
class Tabled:
    """Supports near w, on which R ≈ R(w) - 2cᵀu + uᵀGu is low: c = -½∇R(w), G the curvature there, without Γ.

    The support S and the newcomers that promise most make a small `Table`, on which exchanges cost next to nothing.
    Where its best support is no better for R, some of its exchanges may be. Where none are left, the cheapest
    coordinates are given up, and their places filled again by the best newcomers and further exchanges.

    Attributes
    ----------
    known : dict, optional
        Columns of G, from here or a point before. With it newcomers are also found by their best exchange, and places
        are given up.
    """

    problem: Problem
    model: Curvature
    S: np.ndarray
    w: np.ndarray
    c: np.ndarray
    diagonal: np.ndarray
    deadline: float
    known: dict[int, np.ndarray] | None = None

    @staticmethod
    def fit(problem: Problem, model: Curvature | None) -> bool:
        """Whether R asks for it, and its quadratic models are those of a table."""
        plain = problem.sparsity.plain and problem.gamma.whole_space and problem.sparsity.k > 0
        return plain and problem.risk.looks_twice and model is not None and not model.exact

    @staticmethod
    def suffice(problem: Problem) -> bool:
        """Whether tables find what steps and further starts would: R is near its models, and d is not small.

        So it is with ten observations for each coordinate. Of 70 problems (n <= 400, d <= 1500) 40 had fewer: there
        tables alone were worse than steps and exchanges one by one on 14, and better on 16; with steps and further
        starts beside them worse on 2, and better on 27. On the other 30: 6 and 8, or 5 and 8 for twice the time.
        """
        k, d, enough = problem.sparsity.k, problem.risk.n_features, problem.risk.n_observations
        return enough >= _FOR_ONE * k and k * (d - k) > SMALL

    def supports(self, least: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Supports that seem to gain more than `least`, and further ones, each with its best w for the model."""
        J = self._newcomers()
        some = np.concatenate([self.S, J])
        if time.perf_counter() > self.deadline or not J.size:
            return
        G = self.model.block(some)
        live = np.diagonal(G) > LEFT * self.diagonal[some]  # nothing is to be gained by what R does not see
        live[: self.S.size] = True
        some, G = some[live], G if live.all() else G[np.ix_(live, live)]
        x = np.where(np.arange(some.size) < self.S.size, self.w[some], self.c[some])
        fixed = np.isin(some, self.problem.kept)
        table = Table.of(G, x, self.S.size, fixed, False, self.problem.sparsity.k)
        first = table.inside.copy()
        table.improve(least, self.deadline)
        number = len(table.made)
        while number:
            part = table if number == len(table.made) else self._part(table, number)
            yield self._read(part, some)
            number //= 4
        for share in _SHARES if self.known is not None else ():
            regrown = table.copy()
            regrown.give_up(int(share * np.count_nonzero(table.inside & ~fixed)))
            regrown.improve(least, self.deadline)
            if not np.array_equal(regrown.inside, first):
                yield self._read(regrown, some)

    def _part(self, table: Table, number: int) -> Table:
        """The table with no more than the first exchanges."""
        part = table.copy()
        for pivots in reversed(table.made[number:]):
            for p in reversed(pivots):
                part.pivot(p)
        part.settle()
        return part

    def _read(self, table: Table, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The support of a table, and its values."""
        inside, w = table.inside | table.fixed, np.zeros(self.w.size)
        w[some[table.inside]] = table.x[table.inside]
        return np.sort(some[inside]), w

    def _newcomers(self) -> np.ndarray:
        """Those with the steepest slopes, and those that pay most for a place."""
        S, k = self.S, self.problem.sparsity.k
        gain = self.c**2 / self.diagonal
        gain[S] = -np.inf
        if self.known is None or not (S.size and self.model.affords(S.size)):
            return _best(gain, max(_FIRST, 2 * _FOR_EACH * k))
        paying = self._nets(self._columns(self.known))
        return np.union1d(_best(gain, max(_STEEPEST, _FOR_EACH * k)), _best(paying, max(_PAYING, _FOR_EACH * k)))

    def _columns(self, known: dict[int, np.ndarray]) -> np.ndarray:
        """G[S], with rows from the points at which they were first asked for: no more than a ranking rests on them."""
        new = np.array([j for j in self.S.tolist() if j not in known], dtype=np.intp)
        rows = np.ascontiguousarray(to_host(self.model.columns(new)).T) if new.size else ()
        held = known | dict(zip(new.tolist(), rows, strict=True))
        known.clear()
        known.update((j, held[j]) for j in self.S.tolist())
        return np.array(list(known.values()))

    def _nets(self, C: np.ndarray) -> np.ndarray:
        """What each newcomer gains by its best exchange, from C = G[S]; -inf inside."""
        S, w, H = self.S, self.w[self.S], inverse(self.model.block(self.S))
        h = np.maximum(np.diagonal(H), 1e-300)
        B = H @ C
        q = np.maximum(self.diagonal - np.einsum("ij,ij->j", B, C), 0.0)
        loss = np.where(np.isin(S, self.problem.kept), np.inf, w**2 / h)
        won = self.c + B * (w / h)[:, None]
        won *= won
        B *= B
        B /= h[:, None]
        B += q
        won /= np.maximum(B, LEFT * self.diagonal)
        won -= loss[:, None]
        net: np.ndarray = won.max(axis=0)
        net[S] = -np.inf
        return net


@dataclass
class TableSearch:
    """Exchanges that are found on tables (`Tabled`) and settled by refits, one table after the other.

    Attributes
    ----------
    n_products, cut, helped
        As in `SwapSearch`.
    """

    problem: Problem
    units: Units | None
    deadline: float
    max_rounds: int
    n_products: int = 0
    cut: bool = False
    helped: bool = False

    def improve(self, point: Point, model: Any) -> tuple[Point, Any]:
        """The point after all exchanges that helped, and the curvature there, from that at the start."""
        problem, best, known, tried = self.problem, point, dict[int, np.ndarray](), set[bytes]()
        for _ in range(self.max_rounds):
            w, c = to_host(best.w).astype(float), -0.5 * to_host(best.gradient).astype(float)
            S, least, better = problem.support_of(best.nonzeros), 1e-10 * (abs(best.value) + 1e-300), best
            tabled = Tabled(problem, model, S, w, c, worthy(model.sizes), self.deadline, known)
            for support, start in tabled.supports(least):
                self.cut = time.perf_counter() > self.deadline
                if self.cut or support.tobytes() in tried:
                    continue
                tried.add(support.tobytes())
                better = self._refit(support, start[support], best.value, rough=True)
                if better.value < best.value - 1e-2 * least:
                    break
            else:
                better, self.cut = best, time.perf_counter() > self.deadline  # what was not looked at may help
            self.n_products += 1 + model.spent
            if better is best:
                break
            best, self.helped = better, True
            model = problem.risk.curvature(best)
        if best is not point:
            S = problem.support_of(best.nonzeros)
            best = min(best, self._refit(S, best.at(S), best.value), key=lambda p: p.value)
            model = problem.risk.curvature(best)
        return best, model

    def _refit(self, support: np.ndarray, first: np.ndarray, interest: float, *, rough: bool = False) -> Point:
        risk, gamma = self.problem.risk, self.problem.gamma
        return refit(risk, gamma, support, first, self.units, self.deadline, interest, rough=rough)


def _best(gain: np.ndarray, number: int) -> np.ndarray:
    """Which are the largest, in the order of their numbers; none that is -inf."""
    number = min(number, gain.size)
    some = np.argpartition(-gain, number - 1)[:number]
    return np.sort(some[gain[some] > -np.inf])


def worthy(diagonal: np.ndarray) -> np.ndarray:
    """The diagonal of G, so that a column of zeros is worth nothing."""
    return np.where(diagonal > 1e-300, diagonal, 1e300)
