"""scipy.sparse matrices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array
from .across import Across
from .base import SMALL, Design, check_kind, is_native_float, not_finite

_FEW = 4  # below 1/4 of the columns a gather is cheaper than the whole product
_IN_BLOCK = 2**20  # entries sorted or squared at a time
_QUICK = 5e7  # products of numbers that nobody waits for


class Sparse(Design):
    """A scipy.sparse matrix in CSR or CSC form; one copy in the other form, where many lines of it are of use."""

    at_hand = one_by_one = True

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = X.shape
        self.reference = np.empty(0, dtype=X.dtype)
        self._transpose = X.T
        self._by_rows = X.format == "csr"
        self._few_columns = self.shape[1] // _FEW if X.nnz > SMALL else -1

    @classmethod
    def recognises(cls, X: Any) -> bool:
        # whoever hands in a sparse matrix has imported scipy.sparse, so nobody else needs to wait for that import
        return "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(X)

    @classmethod
    def read(cls, X: Any, name: str) -> Sparse:
        from scipy.sparse import csc_array, csr_array

        check_kind(X.dtype, name)
        X = csc_array(X) if X.format == "csc" else csr_array(X)  # shares its numbers with what was handed in
        X = compressed(X)
        if not is_native_float(X.dtype):
            X = X.astype(np.float64)
        if not np.isfinite(X.data).all():
            entries = X.tocoo()
            bad = np.flatnonzero(~np.isfinite(entries.data))[0]
            raise not_finite(name, entries.data[bad], entries.row[bad], entries.col[bad])
        return cls(X)

    @property
    def size(self) -> int:
        return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes) // 8

    @cached_property
    def _across(self) -> Across:
        """Lines that lie across those in which X is stored: columns of rows, or rows of columns."""
        return Across(self.X) if self._by_rows else Across(self._transpose, may_turn=False)

    def _columns(self, index: np.ndarray) -> Any:
        """X[:, index], by columns."""
        return self._across.columns(index) if self._by_rows else self.X[:, index]

    def forward(self, w: Array, support: Array | None = None) -> Array:
        if support is not None and support.shape[0] <= self._few_columns:
            return self._columns(support) @ w[support]
        return self.X @ w

    def adjoint(self, r: Array) -> Array:
        if r.ndim > 1 and (rows := np.flatnonzero(r.any(axis=1))).size * _FEW < self.shape[0]:
            part = self._transpose[:, rows] if self._by_rows else self._across.columns(rows)
            if part is not None:
                return part @ r[rows]  # of few columns of X, say
        return self._transpose @ r

    def columns(self, index: Array) -> Sparse:
        return Sparse(self._columns(index))

    def rows(self, index: np.ndarray) -> Sparse:
        return Sparse(self.X[index] if self._by_rows else self._across.turned().T[index])

    def dense(self) -> Array:
        return self.X.toarray()

    @property
    def T(self) -> Sparse:
        return Sparse(self._transpose)

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        root, scaled = np.sqrt(np.broadcast_to(weights, self.shape[0])), self.X.astype(np.float64)
        rows = np.repeat(root, np.diff(scaled.indptr)) if self._by_rows else root[scaled.indices]
        scaled.data *= rows
        return (scaled.T @ scaled).toarray(), scaled.T @ root

    def products(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        A, B = (self._columns(index).astype(np.float64) for index in (left, right))
        if isinstance(weights, float):
            return weights * (A.T @ B).toarray()  # type: ignore[no-any-return]
        from scipy.sparse import diags_array

        return (A.T @ (diags_array(weights) @ B)).toarray()  # type: ignore[no-any-return]

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        if weights.ndim == 2:
            return np.asarray(self._transpose.astype(np.float64).power(2) @ weights)
        return self._weighted_squares(weights)

    @property
    def squares(self) -> np.ndarray:
        """Not kept: there may be few entries for each column, and risks keep what they make of it."""
        return self._weighted_squares(None)

    def _weighted_squares(self, weights: np.ndarray | None) -> np.ndarray:
        """In blocks, because a squared copy of all entries takes longer to allocate than to compute."""
        from scipy.sparse import csr_array

        lines, total = self.X if self._by_rows else self._transpose, np.zeros(self.shape[1])
        weights = np.ones(self.shape[0]) if weights is None else weights
        size = max(_IN_BLOCK, total.size if self._by_rows else 0)  # a sum for each column takes time, too
        step = max(1, lines.shape[0] * size // max(lines.nnz, 1))
        for start in range(0, lines.shape[0], step):
            some, ends = slice(start, start + step), lines.indptr[start : start + step + 1]
            entries = slice(ends[0], ends[-1])
            squares = np.square(lines.data[entries], dtype=np.float64)
            part = csr_array((squares, lines.indices[entries], ends - ends[0]), shape=(len(ends) - 1, lines.shape[1]))
            if self._by_rows:
                total += part.T @ weights[some]
            else:
                total[some] = part @ weights
        return total

    def correlations(self, r: np.ndarray) -> np.ndarray:
        return self._transpose.astype(np.float64, copy=False) @ r  # type: ignore[no-any-return]

    def doubled(self) -> Iterator[Design]:
        yield Sparse(self.X.astype(np.float64))

    def on_host(self) -> Sparse:
        return Sparse(self.X.astype(np.float64, copy=False).tocsc())

    def scaled(self, scales: np.ndarray) -> Sparse:
        from scipy.sparse import diags_array

        return Sparse((self.X @ diags_array(self.asarray(scales))).asformat(self.X.format))

    def affords(self, n_columns: int) -> bool:
        return bool(self.X.nnz * n_columns <= _QUICK)

    def diagonal(self) -> np.ndarray:
        return self.X.diagonal()  # type: ignore[no-any-return]

    def absolute_row_sums(self) -> np.ndarray:
        return abs(self.X).sum(axis=1)  # type: ignore[no-any-return]

    def asymmetry(self) -> tuple[float, float]:
        return abs(self.X - self.X.T).max(), abs(self.X).max()

    def symmetrised(self) -> Sparse:
        return Sparse((0.5 * self.X + 0.5 * self.X.T).asformat(self.X.format))


def compressed(X: Any) -> Any:
    """X in CSR or CSC form with every entry in one place: scipy means the sum of those that are stored in parts."""
    X = X if X.format in ("csr", "csc") else X.tocsr()
    if _repeats(X):
        X = X.copy()
        X.sum_duplicates()
    return X


def _repeats(X: Any) -> bool:
    """Whether some entry is stored in parts, the sum of whose squares is not its square."""
    if X.has_canonical_format:
        return False
    lines = X if X.format == "csr" else X.T
    step = max(1, lines.shape[0] * _IN_BLOCK // max(X.nnz, 1))
    for start in range(0, lines.shape[0], step):
        part = lines[start : start + step]  # a copy: what was handed in stays in its order
        part.sort_indices()
        if not part.has_canonical_format:
            return True
    return False
