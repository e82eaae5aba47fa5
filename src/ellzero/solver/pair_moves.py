"""Exchanges of two atoms for two others, where single ones have come to their end."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..risks.curvature import Curvature
from .moves import Books, Exchange
from .problem import Problem

NEWCOMERS = 32  # that come nearest to paying, one for one
_PAIRS, _PARTNERS = 24, 8  # pairs of places looked at, and newcomers that are tried with each other
_HOPE = 0.5  # of what two places cost, that the best newcomers of each must gain for the two to be looked at


@dataclass
class PairMoves:
    """Exchanges of two atoms for two others, by what they gain; a short list of all that there are.

    Single exchanges get stuck where two columns are together what two others are, and where a group is full: one of its
    atoms must leave before another may come, in whose place there was none to spare. The formula is that of
    `AtomMoves`, with two atoms for A and two for J.

    Attributes
    ----------
    places, newcomers : list of array
        Positions in S, and coordinates.
    net : array of shape (newcomers, places)
        What each newcomer gains in each place, less the cost of that; none is worth an exchange.
    """

    problem: Problem
    books: Books
    model: Curvature
    worth: Callable[..., np.ndarray]
    places: list[np.ndarray]
    newcomers: list[np.ndarray]
    net: np.ndarray

    def ranked(self, doubt: float, least: float) -> list[Exchange]:
        """Those that pay, or nearly, by their gain."""
        if self.books.C is None or len(self.places) < 2 or len(self.newcomers) < 2:
            return []
        self._prepare()
        best, cost = self.net.max(axis=0), np.array([self._removal(P)[1] for P in self.places])
        pairs = [
            (best[i] + best[j], i, j)
            for i, j in itertools.combinations(range(len(self.places)), 2)
            if best[i] + best[j] > (_HOPE - 1) * (cost[i] + cost[j])
        ]
        found: list[Exchange] = []
        for _, i, j in sorted(pairs, reverse=True)[:_PAIRS]:
            found.extend(self._best(np.concatenate([self.places[i], self.places[j]]), doubt, least))
        return sorted(found, key=lambda move: -move.gain)

    def _removal(self, P: np.ndarray) -> tuple[np.ndarray, float]:
        """What the other values gain, with a minus, where these are removed, as a move in S; and what that costs."""
        w, H = self.books.values[P], self.books.H
        move = np.linalg.lstsq(H[np.ix_(P, P)], w, rcond=1e-13)[0]
        return H[:, P] @ move, float(w @ move)

    def _prepare(self) -> None:
        """The terms of the formula on the short list."""
        books, ends = self.books, np.cumsum([0, *(J.size for J in self.newcomers)])
        assert books.C is not None
        every = np.concatenate(self.newcomers)
        self.parts = [np.arange(start, end) for start, end in itertools.pairwise(ends)]
        order = np.argsort(every)
        G = np.empty((every.size, every.size))
        G[np.ix_(order, order)] = self.model.block(every[order])
        C, scale = books.C[every], 1 / np.sqrt(books.diagonal[every])
        self.B, self.every, self.scale = scale[:, None] * (C @ books.H), every, scale
        self.C = scale[:, None] * C
        self.Q = scale[:, None] * G * scale - self.B @ self.C.T + 1e-9 * np.eye(every.size)

    def _slopes(self, P: np.ndarray) -> tuple[np.ndarray, float]:
        """What the slopes of the short list are worth after a removal, in units of the columns, and what that costs."""
        u, cost = self._removal(P)
        slope = self.books.c[self.every] + (self.C @ u) / self.scale
        worth = self.worth(slope, self.books.price[self.every], self.every)
        return np.sign(slope) * worth * self.scale, cost

    def _best(self, P: np.ndarray, doubt: float, least: float) -> list[Exchange]:
        """The best two newcomers for two places, if they pay."""
        s, cost = self._slopes(P)
        part = self.B[:, P]
        Q = self.Q + part @ np.linalg.pinv(self.books.H[np.ix_(P, P)], hermitian=True) @ part.T
        stay = np.delete(self.books.S, P)
        alone = [self._gain(Q, s, J) for J in self.parts]
        partners = [j for j in np.argsort(alone)[::-1].tolist() if self._admits(stay, j)][:_PARTNERS]
        found = Exchange((), (), 0, -np.inf)
        for i, j in itertools.combinations(partners, 2):
            gain = self._gain(Q, s, np.concatenate([self.parts[i], self.parts[j]])) - cost
            if gain > found.gain and gain > least - doubt * cost and self._admits(stay, i, j):
                into = np.sort(np.concatenate([self.newcomers[i], self.newcomers[j]]))
                found = Exchange(tuple(self.books.S[P].tolist()), tuple(into.tolist()), 0, gain)
        return [found] if found.into else []

    def _admits(self, stay: np.ndarray, *newcomers: int) -> bool:
        sparsity = self.problem.sparsity
        return sparsity.quotas is None or sparsity.admits(
            np.union1d(stay, np.concatenate([self.newcomers[j] for j in newcomers]))
        )

    def _gain(self, Q: np.ndarray, s: np.ndarray, J: np.ndarray) -> float:
        """sᵀQ⁻¹s on some of the short list; with Γ along the ray nearest to it that is allowed."""
        q, slope = Q[np.ix_(J, J)], s[J]
        z = np.linalg.solve(q, slope)
        if self.problem.gamma.whole_space:
            return float(z @ slope)
        z = np.where(z * slope > 0, z, 0.0)
        return float(z @ slope) ** 2 / max(float(z @ q @ z), 1e-300)
