"""Exchanges of two atoms for two others, where single ones have come to their end."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..risks.curvature import Curvature
from .atom_moves import at_most, gains, inverses_of_blocks
from .moves import Books, Exchange
from .problem import Problem

NEWCOMERS = 32  # that come nearest to paying, one for one
_PAIRS, _PARTNERS = 24, 8  # pairs of places looked at, and newcomers that are tried with each other
_HOPE = 0.5  # of what two places cost, that the best newcomers of each must gain for the two to be looked at

#: places A, M = inv(H_AA), slopes after their removal, and its cost
_Removal = tuple[np.ndarray, np.ndarray, np.ndarray, float]


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
    cost : array of shape (places,)
        What each removal costs.
    net : array of shape (newcomers, places)
        What each newcomer gains in each place, less the cost of that; none is worth an exchange.
    """

    problem: Problem
    books: Books
    model: Curvature
    worth: Callable[..., np.ndarray]
    places: list[np.ndarray]
    cost: np.ndarray
    newcomers: list[np.ndarray]
    net: np.ndarray

    @property
    def contested(self) -> float:
        """The share of the places for which a newcomer gains at least half of what they cost."""
        near = self.net.max(axis=0, initial=-np.inf) > (_HOPE - 1) * self.cost
        return float(near.mean()) if near.size else 0.0

    def ranked(self, doubt: float, least: float) -> list[Exchange]:
        """Those that pay, or nearly, by their gain."""
        if not self.books.knows or len(self.places) < 2 or len(self.newcomers) < 2:
            return []
        self._prepare()
        best = self.net.max(axis=0)
        pairs = [
            (best[i] + best[j], i, j)
            for i, j in itertools.combinations(range(len(self.places)), 2)
            if best[i] + best[j] > (_HOPE - 1) * (self.cost[i] + self.cost[j])
        ]
        places = [np.concatenate([self.places[i], self.places[j]]) for _, i, j in sorted(pairs, reverse=True)[:_PAIRS]]
        inverses = inverses_of_blocks([self.books.H[P[:, None], P] for P in places])
        removals = [(P, M, *self._slopes(P, M)) for P, M in zip(places, inverses, strict=True)]
        hopeful = self._hopeful(removals, doubt, least)
        found = [move for removal in hopeful for move in self._best(*removal, doubt, least)]
        return sorted(found, key=lambda move: -move.gain)

    def _hopeful(self, removals: list[_Removal], doubt: float, least: float) -> list[_Removal]:
        """Those for which two newcomers may pay: they gain at most what they would if A were not removed from Q."""
        if not removals:
            return []
        first, second = np.array(list(itertools.combinations(range(len(self.newcomers)), 2))).T
        J = np.concatenate([self.parts[first], self.others[second]], axis=1)
        s = np.array([slopes for _, _, slopes, _ in removals]).T
        most = at_most(self.Q[J[:, :, None], J[:, None, :]], s[J]).max(axis=0)
        return [removal for removal, won in zip(removals, most, strict=True) if won > (1 - doubt) * removal[3] + least]

    def _prepare(self) -> None:
        """The terms of the formula on the short list, in units of the columns, with rows of no column at its end."""
        books, every = self.books, np.sort(np.concatenate(self.newcomers))
        width = max(J.size for J in self.newcomers)
        # a newcomer that is shorter than others is filled up by rows that gain nothing, its partner by others of these
        filled = [[*np.searchsorted(every, J), *(every.size + np.arange(width - J.size))] for J in self.newcomers]
        self.parts = np.array(filled)
        self.others = self.parts + width * (self.parts >= every.size)
        self.every, self.scale = every, 1 / np.sqrt(books.diagonal[every])
        self.C = self.scale[:, None] * books.rows(every)
        self.B = np.zeros((every.size + 2 * width, books.S.size))
        self.B[: every.size] = self.C @ books.H
        self.Q = np.eye(every.size + 2 * width) * (1 + 1e-9)
        # these are asked for once, so nothing is gained by what is known of others
        G = self.model.cross(every, every) if self.model.exact and self.model.applies else self.model.block(every)
        G = self.scale[:, None] * G * self.scale
        self.Q[: every.size, : every.size] = G - self.B[: every.size] @ self.C.T + 1e-9 * np.eye(every.size)

    def _slopes(self, P: np.ndarray, M: np.ndarray) -> tuple[np.ndarray, float]:
        """What the slopes of the short list are worth after a removal, in units of the columns, and what that costs."""
        move = M @ self.books.values[P]
        slope = self.books.c[self.every] + (self.B[: self.every.size, P] @ move) / self.scale
        worth = self.worth(slope, self.books.price[self.every], self.every)
        found = np.zeros(len(self.Q))
        found[: self.every.size] = np.sign(slope) * worth * self.scale
        return found, float(self.books.values[P] @ move)

    def _best(
        self, P: np.ndarray, M: np.ndarray, s: np.ndarray, cost: float, doubt: float, least: float
    ) -> list[Exchange]:
        """The best two newcomers for two places, if they pay."""
        part = self.B[:, P]
        stay = np.delete(self.books.S, P)
        order = np.argsort(-self._gains(part, M, s, self.parts), kind="stable").tolist()
        partners = [j for j in order if self._admits(stay, j)][:_PARTNERS]
        pairs = [pair for pair in itertools.combinations(partners, 2) if self._admits(stay, *pair)]
        if not pairs:
            return []
        first, second = np.array(pairs).T
        net = self._gains(part, M, s, np.concatenate([self.parts[first], self.others[second]], axis=1)) - cost
        best = int(np.argmax(net))
        if not net[best] > least - doubt * cost:
            return []
        into = np.sort(np.concatenate([self.newcomers[j] for j in pairs[best]]))
        return [Exchange(tuple(self.books.S[P].tolist()), tuple(into.tolist()), 0, float(net[best]))]

    def _admits(self, stay: np.ndarray, *coming: int) -> bool:
        """Whether these may come; without quotas there is room for as many as leave."""
        sparsity = self.problem.sparsity
        if sparsity.quotas is None:
            return True
        return sparsity.admits(np.sort(np.concatenate([stay, *(self.newcomers[j] for j in coming)])))

    def _gains(self, part: np.ndarray, M: np.ndarray, s: np.ndarray, J: np.ndarray) -> np.ndarray:
        """What rows of the short list gain together, where M = inv(H_AA) of the places A, and `part` is B there."""
        near = part[J]
        Q = self.Q[J[:, :, None], J[:, None, :]] + near @ M @ near.swapaxes(1, 2)
        won = gains(Q, s[J], self.problem.gamma.whole_space)
        return np.where(np.isnan(won), -np.inf, won)
