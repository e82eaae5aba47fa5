"""Exchanges where supports are large: many at once, found on a table of the support and a few newcomers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..risks.curvature import Curvature
from .moves import inverse
from .problem import Problem
from .single_moves import contenders
from .table import LEFT, Table

_FEW, _SHARE = 64, 4  # newcomers on a table: one for so many entries of the support, and these in any case
_NUMBERS = 2**19  # of G[:, S] that are held at a time


@dataclass
class ManyMoves:
    """Exchanges of many coordinates at once, from w on the support S and c = -½∇R(w).

    G[:, S] has d·k entries, and its products with inv(G_SS) take d·k² operations. So exchanges are looked for among the
    newcomers with the steepest slopes first: these and S make a small `Table`. Where nothing pays there, all others
    are looked at, a block of them at a time; the best of those that pay make another table.
    """

    problem: Problem
    model: Curvature
    S: np.ndarray
    w: np.ndarray
    c: np.ndarray
    diagonal: np.ndarray
    worth: Callable[..., np.ndarray]
    deadline: float

    @staticmethod
    def fit(problem: Problem, model: Curvature, n_kept: int) -> bool:
        """Whether supports are so large, and the formula is that of a table."""
        gamma = problem.gamma
        return problem.sparsity.plain and (gamma.whole_space or gamma.orthant) and model.remembers(n_kept)

    def supports(self, certain: bool, least: float) -> Iterator[np.ndarray]:
        """Supports that seem to gain more than `least`: with all exchanges, then with fewer."""
        found = 0
        for newcomers in (self._steepest, self._paying):
            J = newcomers(least) if not found and (certain or newcomers == self._steepest) else np.empty(0, np.intp)
            if J.size:
                for support in self._from_table(J, least):
                    found += 1
                    yield support

    @property
    def _most(self) -> int:
        return max(_FEW, self.S.size // _SHARE)

    def _score(self) -> np.ndarray:
        """What slopes are worth, 0 inside."""
        worth = self.worth(self.c, 0.0)
        worth[self.S] = 0.0
        return worth

    def _steepest(self, least: float) -> np.ndarray:
        """The newcomers that gain most by themselves."""
        gain = self._score() ** 2 / self.diagonal
        best = np.argsort(-gain, kind="stable")[: self._most]
        return np.asarray(best[gain[best] > 0])

    def _paying(self, least: float) -> np.ndarray:
        """The newcomers that pay for a place by themselves, the best ones."""
        S, worth = self.S, self._score()
        H = inverse(self.model.block(S))
        net, outside = np.full(self.c.size, -np.inf), np.flatnonzero(worth > 0)
        step = max(1, _NUMBERS // max(S.size, 1))
        for start in range(0, outside.size, step):
            if time.perf_counter() > self.deadline:
                break
            some = outside[start : start + step]
            net[some] = self._net(some, worth[some], H)
        best = np.argsort(-net, kind="stable")[: self._most]
        return best[net[best] > least]

    def _net(self, some: np.ndarray, worth: np.ndarray, H: np.ndarray) -> np.ndarray:
        """What some newcomers gain in the best place, see `SwapSearch`; -inf if they cannot pay for the cheapest."""
        S, w, size = self.S, self.w[self.S], self.diagonal[some]
        h, free = np.maximum(np.diagonal(H), 1e-300), self.problem.sparsity.k - S.size
        loss = np.where(np.isin(S, self.problem.kept), np.inf, w**2 / h)
        C = self.model.cross(some, S)
        B = C @ H
        q = np.maximum(size - np.einsum("ij,ij->i", B, C), 0.0)
        near = contenders(worth, size, q, 0.0 if free else float(loss.min(initial=np.inf)))
        B, q, left = B[near], q[near, None], LEFT * size[near, None]
        won = self.worth(self.c[some[near], None] + B * (w / h), 0.0, some[near]) ** 2
        net = np.full(some.size, -np.inf)
        net[near] = np.max(won / np.maximum(q + B**2 / h, left) - loss, axis=1, initial=-np.inf)
        if free:
            net[near] = np.maximum(net[near], worth[near] ** 2 / np.maximum(q, left)[:, 0])
        return net

    def _from_table(self, J: np.ndarray, least: float) -> Iterator[np.ndarray]:
        S, problem = self.S, self.problem
        some = np.concatenate([S, J])
        G = self.model.block(some)
        if time.perf_counter() > self.deadline:
            return
        x = np.concatenate([self.w[S], self.c[J]])
        fixed = np.isin(some, problem.kept)
        table = Table.of(G, x, S.size, fixed, problem.gamma.orthant, problem.sparsity.k)
        first = table.inside.copy()
        table.improve(least, self.deadline)
        made, number = table.made, len(table.made)
        del G, table  # as many numbers as k² that nobody needs while supports are tried
        while number:
            inside = first.copy()
            for pivots in made[:number]:
                for p in pivots:
                    inside[p] = not inside[p]
            yield np.sort(some[inside | fixed])
            number //= 4
