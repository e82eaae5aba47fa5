"""Exchanges of two atoms for two others, where single ones have come to their end."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..risks.curvature import Curvature
from .atom_moves import gains
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
        """The terms of the formula on the short list, in units of the columns, with rows of no column at its end."""
        books, every = self.books, np.sort(np.concatenate(self.newcomers))
        assert books.C is not None
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
        G = self.scale[:, None] * self.model.block(every) * self.scale
        self.Q[: every.size, : every.size] = G - self.B[: every.size] @ self.C.T + 1e-9 * np.eye(every.size)

    def _slopes(self, P: np.ndarray) -> tuple[np.ndarray, float]:
        """What the slopes of the short list are worth after a removal, in units of the columns, and what that costs."""
        u, cost = self._removal(P)
        slope = self.books.c[self.every] + (self.C @ u) / self.scale
        worth = self.worth(slope, self.books.price[self.every], self.every)
        found = np.zeros(len(self.Q))
        found[: self.every.size] = np.sign(slope) * worth * self.scale
        return found, cost

    def _best(self, P: np.ndarray, doubt: float, least: float) -> list[Exchange]:
        """The best two newcomers for two places, if they pay."""
        s, cost = self._slopes(P)
        part = self.B[:, P]
        M = np.linalg.pinv(self.books.H[np.ix_(P, P)], hermitian=True)
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
