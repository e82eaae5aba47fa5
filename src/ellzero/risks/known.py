"""Products of columns of X that were computed once, kept for as long as a run looks at the same columns again."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

_LARGE, _DEAR = 128, 8  # columns; and the square of their number over that of all
_SHARE, _ROOM = 0.1, 10**6  # of the numbers of X that are kept of each kind, half of it of squares; so many in any case
_FEW = 4  # one of so many columns at the most is another, or a set has nothing of the one before


#: (I, J) ↦ the products of the columns I with the columns J
Cross = Callable[[np.ndarray, np.ndarray], np.ndarray]


class KnownProducts:
    """XᵀΩX on the columns that were asked for so far, and with all columns for the last set that was asked for.

    Supports that follow each other are nearly the same, so hardly anything is computed anew: m new columns beside W
    known ones take m(|W| + m) products, and not (|W| + m)². At the end of a search the same support is looked at twice:
    whether an exchange pays, and which ones are ruled out.

    One thread at a time: a risk may be minimised by several.

    Parameters
    ----------
    p : int
        How many columns X has.
    size : int
        How many numbers of double precision take as much memory as X.
    """

    def __init__(self, p: int, size: int) -> None:
        self.lock = Lock()
        self.room = max(_SHARE * size, _ROOM)
        self.half = int(self.room) // 2
        self.index, self.place = np.empty(0, dtype=np.intp), np.full(p, -1, dtype=np.intp)
        self.G = np.empty((0, 0))  # the first rows and columns are in use
        self.last = _Beside(p)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process finds out by itself."""
        return type(self), (self.place.size, int(self.room / _SHARE))

    @staticmethod
    def pays(n_columns: int, p: int) -> bool:
        """Whether the products of so many of p columns cost more than a fraction of a look at X."""
        return _LARGE <= n_columns < p and n_columns**2 >= _DEAR * p

    def block(self, index: np.ndarray, cross: Cross) -> np.ndarray:
        """Those of some columns with each other; what is not known is computed by `cross`."""
        with self.lock:
            new = index[self.place[index] < 0]
            if new.size:
                if (self.index.size + new.size) ** 2 > self.half:
                    self._keep(index[self.place[index] >= 0])
                self._add(new, cross)
            place = self.place[index]
            return np.asarray(self.G[place[:, None], place])

    def beside(self, rows: np.ndarray, columns: np.ndarray, cross: Cross) -> np.ndarray:
        """Those of some columns (`rows`) with a set of columns, kept until there is another, where there is room."""
        if self.place.size * columns.size > self.room:
            return cross(rows, columns)
        with self.lock:
            return self.last.of(rows, columns, cross)

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
            size, known = max(now, min(3 * now // 2, math.isqrt(self.half))), self.G[:old, :old]
            self.G = np.empty((size, size))
            self.G[:old, :old] = known
        self.G[old:now, :now] = cross(new, every)
        self.G[:old, old:now] = self.G[old:now, :old].T
        self.index = every
        self.place[new] = old + np.arange(new.size)


class _Beside:
    """XᵀΩX[:, S] for one set S of columns, row by row as they are asked for.

    The next set takes over what it shares with this one: its newcomers stand where the others were.

    Attributes
    ----------
    slot : array
        In which column of C those of S are, -1 for the others.
    row : array
        In which row of C each one is, -1 where it is not known. They lie side by side, in the order in which they were
        asked for, since memory that nobody writes to is not taken.
    """

    def __init__(self, p: int) -> None:
        self.slot, self.row, self.C = np.full(p, -1, dtype=np.intp), np.full(p, -1, dtype=np.intp), np.empty((p, 0))

    def of(self, rows: np.ndarray, columns: np.ndarray, cross: Cross) -> np.ndarray:
        """These rows for S = columns."""
        self._turn_to(columns, cross)
        new, slots = rows[self.row[rows] < 0], self.slot[columns]
        if new.size:
            used = int(self.row.max()) + 1
            self.C[used : used + new.size, slots] = cross(new, columns)
            self.row[new] = np.arange(used, used + new.size)
        place, in_order = self.row[rows], np.array_equal(slots, np.arange(self.C.shape[1]))
        return np.asarray(self.C[place] if in_order else self.C[place[:, None], slots])

    def _turn_to(self, columns: np.ndarray, cross: Cross) -> None:
        """What is known is said once it is there: products may be interrupted, and memory may be short."""
        fresh = columns[self.slot[columns] < 0]
        stay = columns[self.slot[columns] >= 0]
        slot = np.full_like(self.slot, -1)
        slot[stay] = self.slot[stay]
        free = np.setdiff1d(np.arange(self.C.shape[1]), slot[stay])[: fresh.size]
        if free.size < fresh.size or _FEW * fresh.size > columns.size:
            slot[columns] = np.arange(columns.size)
            self.row[:] = -1
            if self.C.shape[1] < columns.size:
                self.C = np.empty((slot.size, columns.size))
        elif fresh.size:
            slot[fresh] = free
            if (rows := np.flatnonzero(self.row >= 0)).size:
                products, place = cross(rows, fresh), self.row[rows]
                self.row[:] = -1
                self.C[place[:, None], free] = products
                self.row[rows] = place
        self.slot = slot
