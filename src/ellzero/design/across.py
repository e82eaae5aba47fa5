"""Columns of a sparse matrix that is stored by rows."""

from __future__ import annotations

from threading import RLock
from typing import Any

import numpy as np

_LOOKS = 48  # that are made before all columns are copied, which takes as long as seven of them
_SHARE = 8  # one over the share of all entries that is kept
_QUICK = 2**18  # entries that are copied in no time
_BLOCK = 2**16  # entries whose columns are looked at together


class Across:
    """Columns of a CSR matrix, by columns.

    A look at all entries finds some columns, which are kept: supports change little, so few looks are enough for a run.
    After many looks all columns are copied, and none is made any more. One thread at a time: a risk may be minimised by
    several.

    Parameters
    ----------
    X : CSR matrix
    may_turn : bool
        Whether all columns may be copied before somebody needs them all.

    Attributes
    ----------
    whole : CSC matrix or None
        The copy of X, once there is one.
    """

    def __init__(self, X: Any, may_turn: bool = True) -> None:
        self.X, self.may_turn, self.lock = X, may_turn, RLock()
        self.whole: Any = None
        self._looks = 0
        #: which columns are kept, in increasing order, and these columns
        self._kept: tuple[np.ndarray, Any] = np.empty(0, dtype=np.intp), None

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process finds out by itself."""
        return type(self), (self.X, self.may_turn)

    def columns(self, index: np.ndarray) -> Any:
        """X[:, index]; None where only a copy of all columns would be quicker than X as it is, and must not be made."""
        with self.lock:
            if self.whole is None:
                known, columns = self._kept
                new = np.setdiff1d(index, known)
                if new.size and not self._affords(new.size):
                    if not self.may_turn:
                        return None
                    self.turned()
                elif new.size or columns is None:
                    known, columns = self._kept = self._look_up(new)
            if self.whole is not None:
                return self.whole[:, index]
            return columns[:, np.searchsorted(known, index)]

    def turned(self) -> Any:
        """X by columns; with short indices, where they are enough, the copy is smaller and its products are quicker."""
        with self.lock:
            if self.whole is None:
                X, self._kept = self.X, (np.empty(0, dtype=np.intp), None)
                if X.indices.dtype.itemsize > 4 and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
                    X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
                self.whole = X.tocsc()
            return self.whole

    def _affords(self, n_new: int) -> bool:
        """Whether so many columns are better looked up than copied with all others."""
        n_kept = self._kept[0].size
        return self.X.nnz > _QUICK and self._looks < _LOOKS and _SHARE * (n_kept + n_new) <= self.X.shape[1]

    def _look_up(self, new: np.ndarray) -> tuple[np.ndarray, Any]:
        """What is kept after a look at these columns."""
        from scipy.sparse import hstack

        known, columns = self._kept
        found = self._found(new)
        self._looks += 1
        if columns is None:
            return new, found
        every = np.concatenate([known, new])
        order = np.argsort(every)
        return every[order], hstack([columns, found], format="csc")[:, order]

    def _found(self, new: np.ndarray) -> Any:
        """X[:, new], in half the time that scipy takes to count the entries of every column first."""
        from scipy.sparse import csc_array

        X, wanted, here = self.X, np.zeros(self.X.shape[1], dtype=bool), np.empty(_BLOCK, dtype=bool)
        wanted[new] = True
        hits = [np.empty(0, dtype=np.intp)]
        for start in range(0, X.nnz, _BLOCK):
            columns = X.indices[start : min(start + _BLOCK, X.nnz)]
            # "clip" looks at no index twice, and all of them are valid
            hits.append(start + np.flatnonzero(wanted.take(columns, mode="clip", out=here[: columns.size])))
        at = np.concatenate(hits)
        rows, columns = np.searchsorted(X.indptr, at, side="right") - 1, np.searchsorted(new, X.indices[at])
        return csc_array((X.data[at], (rows, columns)), shape=(X.shape[0], new.size))
