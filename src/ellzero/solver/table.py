"""Exchanges among a support and a few newcomers, one after the other, by pivots of one table."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from .._core.linear_systems import Factor

_ALSO = 0.25  # of the best gain, that another exchange must promise to be made before gains are computed anew
_TOGETHER = 32  # exchanges, the most that are made before that
LEFT = 1e-9  # of the square of a column: less than that is left of it beside the others, and it does not come in
_WAITING, _HELD = 64, 2**19  # pivots that are taken off T together, and numbers for that


@dataclass
class Table:
    """R(w + u) ≈ R(w) - 2cᵀu + uᵀGu on few coordinates, minimised over those that are inside; c = -½∇R(w).

    With S inside, J outside, H = inv(G_SS) and B = G_JS H:

        T = [[-H, Bᵀ], [B, G_JJ - B G_SJ]],   x = (w_S, c_J).

    To let p in or out takes t tᵀ/T_pp from T, t x_p/T_pp from x and x_p²/T_pp from R, t being column p of T: nothing is
    solved for anew. Those t tᵀ/T_pp wait until there are many, which are then taken off all at once.

    Attributes
    ----------
    diagonal : array
        That of G.
    inside, fixed : arrays of bool
        Which coordinates are inside, and which stay there.
    positive : bool
        Whether entries must not be negative.
    k : int
        How many may be inside.
    made : list of lists
        The exchanges, each by what was let in or out.
    """

    T: np.ndarray
    x: np.ndarray
    diagonal: np.ndarray
    inside: np.ndarray
    fixed: np.ndarray
    positive: bool
    k: int
    made: list[list[int]] = field(default_factory=list)
    refused: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # T is what it says less U diag(D)⁻¹ Uᵀ, of this rank
        self.U, self.D, self.rank = np.zeros((len(self.x), _WAITING), order="F"), np.ones(_WAITING), 0

    @classmethod
    def of(cls, G: np.ndarray, x: np.ndarray, n_inside: int, fixed: np.ndarray, positive: bool, k: int) -> Table:
        """From G on S and J, in this order, in whose place the table is made, and x."""
        m, diagonal = n_inside, np.maximum(np.diagonal(G), 1e-300)
        factor = Factor.of(G[:m, :m]) if m else None
        if m and (factor is None or not (factor.pivots > LEFT * diagonal[:m]).all()):
            return cls._of_dependent(G, x, m, fixed, positive, k)
        T, H, C = G, np.empty((0, 0)) if factor is None else factor.inverse(), G[m:, :m].copy()
        np.negative(H, out=T[:m, :m])
        np.matmul(C, H, out=T[m:, :m])
        T[:m, m:] = T[m:, :m].T
        T[m:, m:] -= T[m:, :m] @ C.T
        return cls(T, x, diagonal, np.arange(len(G)) < m, fixed, positive, k)

    @classmethod
    def _of_dependent(
        cls, G: np.ndarray, x: np.ndarray, n_inside: int, fixed: np.ndarray, positive: bool, k: int
    ) -> Table:
        """The same where columns of S depend on each other: those that add nothing to the ones before stay outside."""
        m = n_inside
        slopes = G[:, :m] @ x[:m]
        slopes[m:] += x[m:]
        diagonal = np.maximum(np.diagonal(G), 1e-300)
        table = cls(G, slopes, diagonal, np.zeros(len(G), dtype=bool), fixed, positive, k)
        for p in range(m):
            if table.entry(p, p) > LEFT * diagonal[p]:
                table.pivot(p)
        table.settle()
        table.k -= int(np.count_nonzero(fixed & ~table.inside))  # a place is theirs, whatever they add
        return table

    def pivot(self, p: int) -> float:
        """Let p in or out; what R loses by that."""
        T, x, r = self.T, self.x, self.rank
        column, at = T[:, p] - self.U[:, :r] @ (self.U[p, :r] / self.D[:r]), float(x[p])
        d, sign = float(column[p]), -1.0 if self.inside[p] else 1.0
        share = column / d
        x -= share * at
        T[p] = T[:, p] = sign * share
        T[p, p], x[p] = -1 / d, sign * at / d
        self.U[:, r], self.D[r] = column, d
        self.U[p, : r + 1] = 0.0  # nothing is taken off that row and column
        self.rank += 1
        self.inside[p] = not self.inside[p]
        if self.rank == _WAITING:
            self.settle()
        return at**2 / d

    def copy(self) -> Table:
        """The same, with no exchanges made."""
        self.settle()
        return Table(self.T.copy(), self.x.copy(), self.diagonal, self.inside.copy(), self.fixed, self.positive, self.k)

    def give_up(self, number: int) -> None:
        """Let so many out, each time the one that costs least."""
        for _ in range(number):
            places, r = np.flatnonzero(self.inside & ~self.fixed), self.rank
            h = (self.U[places, :r] ** 2) @ (1 / self.D[:r]) - self.T[places, places]
            self.pivot(int(places[(self.x[places] ** 2 / np.maximum(h, 1e-300)).argmin()]))

    def settle(self) -> None:
        """Take off T what waits."""
        U, r = self.U[:, : self.rank], self.rank
        step = max(1, _HELD // len(self.x))
        for start in range(0, len(self.x) if r else 0, step):
            self.T[start : start + step] -= (U[start : start + step] / self.D[:r]) @ U.T
        self.rank = 0

    def entries(self) -> np.ndarray:
        """The diagonal of T."""
        U, D = self.U[:, : self.rank], self.D[: self.rank]
        return np.asarray(np.diagonal(self.T) - np.einsum("ij,ij,j->i", U, U, 1 / D))

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """T on rows and columns."""
        U, D = self.U[:, : self.rank], self.D[: self.rank]
        return np.asarray(self.T[rows[:, None], columns] - (U[rows] / D) @ U[columns].T)

    def entry(self, i: int, j: int) -> float:
        """T_ij."""
        r = self.rank
        return float(self.T[i, j] - (self.U[i, :r] / self.D[:r]) @ self.U[j, :r])

    def improve(self, least: float, deadline: float = math.inf) -> None:
        """Exchanges, as long as one gains more than `least`."""
        again = bool(np.isfinite(self.T).all() and np.isfinite(self.x).all())
        tries = 0
        while again and tries < 2 * len(self.x):  # more only if rounding lets them go in circles
            again, enough = False, least
            for gain, j, i in self._ranked(least):
                if time.perf_counter() > deadline:
                    return
                enough = max(enough, _ALSO * gain)
                if self._gain(j, i) > enough:  # as it is after those before
                    again, tries = True, tries + 1
                    self._make([j] if i < 0 else [i, j], least)

    def _make(self, pivots: list[int], least: float) -> None:
        """Make an exchange, with what is negative then let out; take it back if it does not gain enough."""
        gain, made, (j, i) = 0.0, list[int](), (pivots[-1], pivots[0] if len(pivots) > 1 else -1)
        for p in pivots:
            if not self.inside[p] and self.entry(p, p) <= LEFT * self.diagonal[p]:
                gain = -math.inf
                break
            gain += self.pivot(p)
            made.append(p)
        while self.positive and gain > least:
            below = np.where(self.inside & ~self.fixed, self.x, 0.0)
            p = int(below.argmin())
            if not below[p] < 0:
                break
            gain += self.pivot(p)
            made.append(p)
        if gain > least:
            self.made.append(made)
            return
        for p in reversed(made):
            self.pivot(p)
        self.refused.setdefault(j, set()).add(i)

    def _gain(self, j: int, i: int) -> float:
        """What R loses if j comes for i, or into a free place."""
        if self.inside[j] or (i >= 0 and not (self.inside[i] and self.entry(i, i) < 0)):
            return -math.inf
        q = self.entry(j, j)
        if i < 0:
            return float(self._worth(self.x[j]) ** 2 / max(q, LEFT * self.diagonal[j]))
        h, b, w = -self.entry(i, i), self.entry(j, i), self.x[i]
        room = max(q + b * b / h, LEFT * self.diagonal[j])
        return float(self._worth(self.x[j] + b * w / h) ** 2 / room - w * w / h)

    def _worth(self, slope: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(slope, 0.0) if self.positive else np.abs(slope))

    def _ranked(self, least: float) -> list[tuple[float, int, int]]:
        """The best exchange, the best one of another newcomer for another place, and so on.

        Each is a gain, a newcomer and a place, which is -1 where it is free.
        """
        x, diagonal = self.x, self.entries()
        # rounding may have left nothing of a column beside the others, or less
        places = np.flatnonzero(self.inside & ~self.fixed & (diagonal < 0))
        rows = np.flatnonzero(~self.inside & ~self.fixed)
        free, loss = self.k - int(np.count_nonzero(self.inside)), -(x[places] ** 2) / diagonal[places]
        # which newcomers cannot pay for the cheapest place, and which places nobody can pay for: see `contenders`
        size, worth = self.diagonal[rows], self._worth(x[rows])
        span = (1 - 1e-9) * (np.sqrt(size) - np.sqrt(np.clip(size - diagonal[rows], 0.0, None)))
        due = np.sqrt(loss)
        most = np.divide(worth, span, out=np.full(rows.size, math.inf), where=span > 0).max(initial=0.0)
        rows = rows[worth > (0.0 if free else due.min(initial=math.inf)) * span]
        places, loss = places[due < most], loss[due < most]
        q, h, left = diagonal[rows, None], -diagonal[places], LEFT * self.diagonal[rows, None]
        net = np.full((rows.size, places.size + 1), -math.inf)
        B = self.block(rows, places)
        net[:, :-1] = self._worth(x[rows, None] + B * (x[places] / h)) ** 2 / np.maximum(q + B**2 / h, left) - loss
        if free:
            net[:, -1:] = self._worth(x[rows, None]) ** 2 / np.maximum(q, left)
        for row, j in enumerate(rows.tolist()):
            if j in self.refused:
                net[row, np.isin(np.append(places, -1), list(self.refused[j]))] = -math.inf
        found: list[tuple[float, int, int]] = []
        while net.size and len(found) < _TOGETHER:
            row, place = divmod(int(net.argmax()), places.size + 1)
            if not net[row, place] > least:
                break
            is_free = place == places.size
            found.append((float(net[row, place]), int(rows[row]), -1 if is_free else int(places[place])))
            free -= is_free
            net[row] = -math.inf
            if not (is_free and free):
                net[:, place] = -math.inf
        return found
