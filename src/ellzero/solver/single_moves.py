"""Exchanges of one coordinate for another, ranked by what they gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host, waits
from ..risks.curvature import Curvature
from .moves import Books, Exchange, chunks
from .problem import Problem

BATCH = 8  # exchanges tried in a round; places looked at where not all can be
_RIVALS = 3  # newcomers tried for a place where the formula is not the truth
_SHARE = 0.5  # of the square of a column left out, inside the span of the kept ones; more is not looked for
DOUBT = 0.25  # how much of the cost of a place the formula may be wrong by

#: places of the support, newcomers for them, and gains
Swaps = tuple[np.ndarray, np.ndarray, np.ndarray]


def contenders(worth: np.ndarray, diagonal: np.ndarray, q: np.ndarray, loss: float) -> np.ndarray:
    """The newcomers j that may pay for the cheapest place, the one of this loss ω²: without them none helps.

    With a_j the worth of the slope and t_j = G_jj - q_j the part of column j inside the span of the kept ones, so that
    β² <= t_j: (a_j + |β|ω)² <= ω²(q_j + β²) for all such β if and only if a_j <= ω(√G_jj - √t_j), and then the
    exchange does not help for any larger ω either.
    """
    span = np.sqrt(diagonal) - np.sqrt(np.maximum(diagonal - q, 0.0))
    return np.flatnonzero(worth > (1 - 1e-9) * math.sqrt(loss) * span)


def inside(C: Array, H: np.ndarray) -> np.ndarray:
    """Σ_lm C_jl H_lm C_jm for every row j of C: what of a column lies inside the span of the kept ones."""
    if waits(C):
        double = namespace(C).astype(C, namespace(C).float64)
        return to_host(namespace(C).sum((double @ like(H, double)) * double, axis=1))
    return np.concatenate([np.einsum("ij,ij->j", H @ part, part) for part in chunks(C.T, len(H))])


@dataclass
class SingleMoves:
    """Exchanges of one coordinate for another, and newcomers for places that are free; see `SwapSearch`.

    Attributes
    ----------
    exact : bool
        Whether the formula is the truth. Elsewhere the best few newcomers of each place are listed if the search is
        `thorough`, and also those that seem a little too dear.
    worth : callable
        What a slope is worth, beside the price of Γ.
    """

    problem: Problem
    books: Books
    model: Curvature
    exact: bool
    thorough: bool
    worth: Callable[..., np.ndarray]

    def ranked(self, least: float) -> list[Exchange]:
        """The best newcomers of each place that gain more than `least`, by their gain."""
        books, sparsity = self.books, self.problem.sparsity
        rivals, doubt = (_RIVALS, DOUBT) if self.thorough and not self.exact else (1 if self.thorough else BATCH, 0.0)
        S, free = books.S, sparsity.k - books.S.size
        found = list(self._swaps(rivals, doubt, least)) if S.size else []
        if free > 0:
            room = np.maximum(books.q, 1e-9 * books.diagonal)
            won = np.where(books.outside, books.worth**2 / room, -np.inf)
            allowed = sparsity.exchangeable(S, np.arange(won.size))
            if allowed is not None:
                won[~allowed[:, -1]] = -np.inf
            best = np.argsort(-won)[:free]
            best = best[won[best] > least]
            found.append((S.size + np.arange(best.size), best, won[best]))
        if not found:
            return []
        place, newcomer, gain = (np.concatenate(parts) for parts in zip(*found, strict=True))
        seen, ranked = dict.fromkeys(place.tolist(), -1), []
        for at in np.argsort(-gain, kind="stable").tolist():
            i = int(place[at])
            seen[i] += 1
            if seen[i] < rivals:
                out = (int(S[i]),) if i < S.size else ()
                ranked.append(Exchange(out, (int(newcomer[at]),), seen[i], float(gain[at])))
        return ranked

    def _swaps(self, rivals: int, doubt: float, least: float) -> Iterator[Swaps]:
        """Places of the support, the best newcomers for them that pay, or nearly, and their gains."""
        books = self.books
        S, C, H, loss = books.S, books.C, books.H, books.loss
        if C is None:
            yield from self._cheapest_swaps(rivals, doubt, least)
            return
        rows = contenders(books.worth, books.diagonal, books.q, (1 - doubt) * float(loss.min()))
        yield from self._swaps_for(
            np.arange(S.size), rows, lambda some: to_host(C[index_like(some, C)]) @ H, rivals, doubt, least
        )

    def _cheapest_swaps(self, rivals: int, doubt: float, least: float) -> Iterator[Swaps]:
        """The same for the cheapest places alone."""
        books = self.books
        alone = books.worth**2 / books.diagonal
        places = self._vulnerable(books.loss, float(np.max(alone)))
        if not places.size:
            return
        alone = alone > (1 - doubt) * float(books.loss[places].min())
        for some in np.split(places, places.size if self.model.one_by_one else 1):
            images = to_host(self.model.images(books.S, books.H[:, some]))
            # what has nothing in common with the support cannot gain more than by its own slope
            rows = np.flatnonzero((alone | images.any(axis=1)) & books.outside)
            yield from self._swaps_for(some, rows, images.__getitem__, rivals, doubt, least)
            del images, rows  # before there are others

    def _swaps_for(
        self,
        places: np.ndarray,
        rows: np.ndarray,
        B_of: Callable[[np.ndarray], np.ndarray],
        rivals: int,
        doubt: float,
        least: float,
    ) -> Iterator[Swaps]:
        """The same for some places, of some newcomers, whose rows of B = CH there are known."""
        books = self.books
        S, C, h, loss = books.S, books.C, books.h, books.loss
        columns = np.arange(places.size)
        for some in chunks(rows, places.size):
            B = B_of(some)
            slope = books.c[some, None] + B * (books.values / h)[places]
            room = books.diagonal[some, None]
            if C is not None:
                room = np.maximum(books.q[some, None] + B**2 / h[places], 1e-9 * room)
            won = self.worth(slope, books.price[some, None], some) ** 2 / room
            allowed = self.problem.sparsity.exchangeable(S, some)
            if allowed is not None:
                won[~allowed[:, places]] = -np.inf
            for _ in range(min(rivals, some.size)):
                best = won.argmax(axis=0)
                value = won[best, columns]
                good = value > (1 - doubt) * loss[places] + least
                yield places[good], some[best[good]], (value - loss[places])[good]
                won[best, columns] = -np.inf

    @staticmethod
    def _vulnerable(loss: np.ndarray, reach: float) -> np.ndarray:
        """Places that an exchange could pay for, where a look at all of them is too dear.

        With ω² the loss, c_j²/G_jj <= reach and t_j the part of G_jj inside the span of the kept columns, no exchange
        of this place helps if ω(1 - sqrt(t_j/G_jj)) >= sqrt(reach) for all j (see `contenders`). The t_j would cost
        a product with X for each kept column; that they are at most G_jj/2 is taken for granted.
        """
        cheap = np.flatnonzero(np.sqrt(loss) * (1 - math.sqrt(_SHARE)) < math.sqrt(reach))
        return cheap[np.argsort(loss[cheap])][:BATCH]
