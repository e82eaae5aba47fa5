"""Products of columns of X that were computed once, kept for as long as a run looks at the same columns again."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_LARGE, _DEAR = 128, 8  # columns; and the square of their number over that of all
_SHARE, _ROOM = 0.1, 10**6  # of the numbers of X that are kept, and so many in any case


#: (I, J) ↦ the products of the columns I with the columns J
Cross = Callable[[np.ndarray, np.ndarray], np.ndarray]


class KnownProducts:
    """XᵀΩX on the columns that were asked for so far, and with all columns for the last set that was asked for.

    Supports that follow each other are nearly the same, so hardly anything is computed anew: m new columns beside W
    known ones take m(|W| + m) products, and not (|W| + m)². At the end of a search the same support is looked at twice:
    whether an exchange pays, and which ones are ruled out.

    Parameters
    ----------
    shape : (n, p)
        That of X.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        n, p = shape
        self.room = max(_SHARE * n * p, _ROOM)
        self.index, self.place = np.empty(0, dtype=np.intp), np.full(p, -1, dtype=np.intp)
        self.G = np.empty((0, 0))  # the first rows and columns are in use
        self.last = _Beside(np.empty(0, dtype=np.intp), 0)

    @staticmethod
    def pays(n_columns: int, p: int) -> bool:
        """Whether the products of so many of p columns cost more than a fraction of a look at X."""
        return _LARGE <= n_columns < p and n_columns**2 >= _DEAR * p

    def block(self, index: np.ndarray, cross: Cross) -> np.ndarray:
        """Those of some columns with each other; what is not known is computed by `cross`."""
        new = index[self.place[index] < 0]
        if new.size:
            if (self.index.size + new.size) ** 2 > self.room:
                self._keep(index[self.place[index] >= 0])
            self._add(new, cross)
        place = self.place[index]
        return np.asarray(self.G[place[:, None], place])

    def beside(self, rows: np.ndarray, columns: np.ndarray, cross: Cross) -> np.ndarray:
        """Those of some columns (`rows`) with a set of columns, kept until there is another, where there is room."""
        p = self.place.size
        if p * columns.size > self.room:
            return cross(rows, columns)
        if not np.array_equal(columns, self.last.columns):
            self.last = _Beside(columns, p)
        return self.last.of(rows, cross)

    def _keep(self, index: np.ndarray) -> None:
        """Let go of the others."""
        place, m = self.place[index], index.size
        self.G[:m, :m], self.index = self.G[place[:, None], place], index
        self.place[:] = -1
        self.place[index] = np.arange(index.size)

    def _add(self, new: np.ndarray, cross: Cross) -> None:
        old, every = self.index.size, np.concatenate([self.index, new])
        now = every.size
        if now > len(self.G):  # half as much again as is needed, so that few newcomers need no new place
            size, known = max(now, min(3 * now // 2, math.isqrt(int(self.room)))), self.G[:old, :old]
            self.G = np.empty((size, size))
            self.G[:old, :old] = known
        self.G[old:now, :now] = cross(new, every)
        self.G[:old, old:now] = self.G[old:now, :old].T
        self.index = every
        self.place[new] = old + np.arange(new.size)


class _Beside:
    """XᵀΩX[:, S] for one set S of columns, row by row as they are asked for."""

    def __init__(self, columns: np.ndarray, p: int) -> None:
        self.columns, self.known = columns.copy(), np.zeros(p, dtype=bool)
        self.C = np.empty((p, columns.size))

    def of(self, rows: np.ndarray, cross: Cross) -> np.ndarray:
        new = rows[~self.known[rows]]
        if new.size:
            self.C[new], self.known[new] = cross(new, self.columns), True
        return np.asarray(self.C[rows])
