"""The one adaptor through which risks see data: products with X and its transpose, columns and rows of X.

Dense arrays (NumPy, memory maps, torch and other array libraries), scipy.sparse matrices and linear operators
answer the same calls, so that a risk is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host

# Touching only the support's columns pays when the gather is cheaper than the whole product. Measured: a
# gather from rows (C order) wins below 3% of the columns, one from columns (F order) below 20%, and neither
# wins on small matrices, whose products are over before an index array is looked at.
_SMALL = 50_000
_ROW_ORDER_SHARE = 32
_COLUMN_ORDER_SHARE = 5
_SPARSE_SHARE = 4
_IN_NEAREST_CACHE, _IN_CACHE = 2**12, 2**18  # numbers that stay there while sums are taken
_BLOCK = 2**20  # entries converted at a time where a matrix must not be copied as a whole


class Design(ABC):
    """A matrix X of shape (n, p), known by its products.

    Attributes
    ----------
    shape : (n, p)
    reference : array
        Shows the library, dtype and device of the vectors that X is multiplied with.
    explicit : bool
        Whether entries can be read, so that `moments` is affordable.
    """

    shape: tuple[int, int]
    reference: Array
    explicit = True
    #: which columns of X were gathered last, and these columns as rows
    _recent: tuple[np.ndarray, np.ndarray] | None = None

    @abstractmethod
    def forward(self, w: Array, support: Array | None = None) -> Array:
        """X @ w for w of shape (p,) or (p, c); w is zero outside the support, where one is given."""

    @abstractmethod
    def adjoint(self, r: Array) -> Array:
        """X.T @ r for r of shape (n,) or (n, c)."""

    @abstractmethod
    def columns(self, index: Array) -> Design:
        """X[:, index]."""

    @abstractmethod
    def rows(self, index: np.ndarray) -> Design:
        """X[index]; rows may repeat, and no other row is read."""

    @abstractmethod
    def dense(self) -> Array:
        """X as an array: for narrow pieces such as columns(S), since everything is copied."""

    @property
    @abstractmethod
    def T(self) -> Design:
        """The transpose."""

    @abstractmethod
    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """XᵀΩX and Xᵀω with Ω = diag(ω), on the host and in double precision whatever X is; ω may be one number."""

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        """Σ_i ω_i X_ij² for every column j, on the host and in double precision."""
        raise NotImplementedError

    def scaled(self, scales: np.ndarray) -> Design | None:
        """X diag(scales), as a copy; None of what must not be copied."""
        return None

    @cached_property
    def squares(self) -> np.ndarray:
        """Σ_i X_ij² for every column j: one look at the data, kept."""
        return self.square_sums(np.ones(self.shape[0]))

    def forget(self) -> None:
        """Let go of what a run has gathered."""
        self._recent = None

    def asarray(self, values: Any) -> Array:
        """Values in the library, dtype and device of X."""
        return like(values, self.reference)

    def zeros(self, size: int) -> Array:
        """A vector of zeros in the library, dtype and device of X."""
        if isinstance(self.reference, np.ndarray):
            return np.zeros(size, dtype=self.reference.dtype)
        return self.asarray(namespace(self.reference).zeros(size))


def take(a: Array, index: Array, axis: int = 0) -> Array:
    """The entries of a at the index along an axis, in any library."""
    if isinstance(a, np.ndarray):
        return a[index] if axis == 0 else a[:, index]
    return namespace(a).take(a, index_like(index, a), axis=axis)


class Dense(Design):
    """An array in memory or mapped from a file; never copied."""

    def __init__(self, X: Array) -> None:
        self.X, self.reference = X, X
        self.shape = n, p = X.shape
        self._transpose = X.T
        by_columns = isinstance(X, np.ndarray) and abs(X.strides[0]) < abs(X.strides[1])
        # blocks of rows are faster, but not of rows that lie scattered or are long
        self._in_one_sweep = isinstance(X, np.ndarray) and (by_columns or 16 * p > _IN_CACHE)
        few = p // (_COLUMN_ORDER_SHARE if by_columns else _ROW_ORDER_SHARE)
        self._few_columns = few if n * p > _SMALL else -1

    def forward(self, w: Array, support: Array | None = None) -> Array:
        if support is not None and support.shape[0] <= self._few_columns:
            values = take(w, support)
            if isinstance(values, np.ndarray) and not values.any():  # the origin, where most runs start
                return np.zeros((self.shape[0], *values.shape[1:]), dtype=values.dtype)
            return self._gather(support) @ values
        return self.X @ w

    def adjoint(self, r: Array) -> Array:
        return self._transpose @ r if r.ndim == 1 else (r.T @ self.X).T

    def columns(self, index: Array) -> Dense:
        return Dense(self._gather(index))

    def _gather(self, index: Array) -> Array:
        """X[:, index]; columns that the last call has gathered are not looked up again, for supports change little."""
        if not isinstance(self.X, np.ndarray) or not 0 < index.size <= self._few_columns:
            return take(self.X, index, axis=1)
        if self._recent is None:
            gathered = np.ascontiguousarray(self.X[:, index].T)
        else:
            known, columns = self._recent
            place = np.minimum(np.searchsorted(known, index), known.size - 1)
            new = known[place] != index
            gathered = columns[place]
            gathered[new] = self.X[:, index[new]].T
        gathered.flags.writeable = False
        if (index[1:] > index[:-1]).all():
            self._recent = index, gathered
        return gathered.T

    def rows(self, index: np.ndarray) -> Dense:
        return Dense(take(self.X, index))

    def dense(self) -> Array:
        return self.X

    def scaled(self, scales: np.ndarray) -> Design | None:
        return None if isinstance(self.X, np.memmap) else Dense(self.X * self.asarray(scales))

    @property
    def T(self) -> Dense:
        return Dense(self._transpose)

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        p = self.shape[1]
        xp = namespace(self.X)
        gram, mean = np.zeros((p, p)), np.zeros(p)
        for rows in row_blocks(self.shape):
            block = scaled = in_double(self.X[rows, :])
            root = xp.ones_like(block[:, 0])
            if not isinstance(weights, float):
                root = like(np.sqrt(weights[rows]), self.X, dtype=xp.float64)
                scaled = block * root[:, None]
            gram += to_host(scaled.T @ scaled)
            mean += to_host(scaled.T @ root)
        return (weights * gram, weights * mean) if isinstance(weights, float) else (gram, mean)

    @cached_property
    def squares(self) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            if self._in_one_sweep or (isinstance(self.X, np.ndarray) and self.shape[1] <= _IN_NEAREST_CACHE):
                squares: np.ndarray = np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)
                return squares
            return self.square_sums(np.ones(self.shape[0]))

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        if self._in_one_sweep:
            sums: np.ndarray = np.einsum("i,ij,ij->j", weights, self.X, self.X, dtype=np.float64)
            return sums
        n, p = self.shape
        total, step = np.zeros(p), max(1, _IN_CACHE // p)  # few enough rows that their squares stay in the cache
        squares = np.empty((step, p))
        for start in range(0, n, step):
            block = to_host(in_double(self.X[start : min(start + step, n), :]))
            np.multiply(block, block, out=squares[: len(block)])
            total += weights[start : start + step] @ squares[: len(block)]
        return total


class ConvertedMap(Dense):
    """A memory map of integers or of another kind that products cannot use: converted block by block."""

    def __init__(self, X: np.ndarray) -> None:
        super().__init__(X)
        self.reference = np.empty(0)

    def forward(self, w: Array, support: Array | None = None) -> Array:
        if support is not None and support.shape[0] <= self._few_columns:
            return in_double(self.X[:, support]) @ w[support]
        return np.concatenate([in_double(self.X[rows]) @ w for rows in row_blocks(self.shape)])

    def adjoint(self, r: Array) -> Array:
        out = np.zeros((self.shape[1], *r.shape[1:]))
        for rows in row_blocks(self.shape):
            out += in_double(self.X[rows]).T @ r[rows]
        return out

    def columns(self, index: Array) -> Dense:
        return Dense(in_double(self.X[:, index]))

    def rows(self, index: np.ndarray) -> Dense:
        return Dense(in_double(self.X[index]))

    def dense(self) -> Array:
        return in_double(self.X)

    @property
    def T(self) -> Dense:
        return ConvertedMap(self.X.T)


class Sparse(Design):
    """A scipy.sparse matrix in CSR or CSC form; one copy in the other form, made when it is first of use."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = X.shape
        self.reference = np.empty(0, dtype=X.dtype)
        self._transpose = X.T
        self._few_columns = self.shape[1] // _SPARSE_SHARE if X.nnz > _SMALL else -1

    @cached_property
    def _by_columns(self) -> Any:
        return self.X.tocsc()

    @cached_property
    def _by_rows(self) -> Any:
        return self.X.tocsr()

    def forward(self, w: Array, support: Array | None = None) -> Array:
        if support is not None and support.shape[0] <= self._few_columns:
            return self._by_columns[:, support] @ w[support]
        return self.X @ w

    def adjoint(self, r: Array) -> Array:
        return self._transpose @ r

    def columns(self, index: Array) -> Sparse:
        return Sparse(self._by_columns[:, index])

    def rows(self, index: np.ndarray) -> Sparse:
        return Sparse(self._by_rows[index])

    def dense(self) -> Array:
        return self.X.toarray()

    def scaled(self, scales: np.ndarray) -> Sparse:
        from scipy.sparse import diags_array

        return Sparse((self.X @ diags_array(self.asarray(scales))).asformat(self.X.format))

    @property
    def T(self) -> Sparse:
        return Sparse(self._transpose)

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        from scipy.sparse import diags_array

        root = np.sqrt(np.broadcast_to(weights, self.shape[0]))
        scaled = diags_array(root) @ self.X.astype(np.float64)
        return (scaled.T @ scaled).toarray(), scaled.T @ root

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        # in blocks, because a squared copy of all entries takes longer to allocate than to compute
        X, total = self.X, np.zeros(self.shape[1])
        lines, by_rows = len(X.indptr) - 1, X.format == "csr"
        step = max(1, lines * 2**18 // max(X.nnz, 1))
        for start in range(0, lines, step):
            stop = min(start + step, lines)
            part = slice(X.indptr[start], X.indptr[stop])
            line = np.repeat(np.arange(start, stop), np.diff(X.indptr[start : stop + 1]))
            row, column = (line, X.indices[part]) if by_rows else (X.indices[part], line)
            squares = np.square(X.data[part], dtype=np.float64) * weights[row]
            total += np.bincount(column, squares, minlength=total.size)
        return total


class Operator(Design):
    """A linear operator, seen through its two products alone; its pieces are operators again."""

    explicit = False

    def __init__(
        self, shape: tuple[int, int], dtype: Any, forward: Callable[..., Any], adjoint: Callable[..., Any]
    ) -> None:
        self.shape = shape
        self.reference = np.empty(0, dtype=dtype)
        self._forward, self._adjoint = forward, adjoint

    # The products are copied, because an operator may hand out the same buffer each time.

    def forward(self, w: Array, support: Array | None = None) -> Array:
        return np.array(self._forward(w), dtype=self.reference.dtype)

    def adjoint(self, r: Array) -> Array:
        return np.array(self._adjoint(r), dtype=self.reference.dtype)

    def columns(self, index: Array) -> Design:
        n, p = self.shape
        return Operator(
            (n, len(index)),
            self.reference.dtype,
            lambda w: self._forward(_spread(w, index, p)),
            lambda r: self._adjoint(r)[index],
        )

    def rows(self, index: np.ndarray) -> Design:
        n, p = self.shape
        return Operator(
            (len(index), p),
            self.reference.dtype,
            lambda w: self._forward(w)[index],
            lambda r: self._adjoint(_spread(r, index, n)),
        )

    def dense(self) -> Array:
        return self.forward(np.eye(self.shape[1], dtype=self.reference.dtype))

    @property
    def T(self) -> Design:
        return Operator(self.shape[::-1], self.reference.dtype, self._adjoint, self._forward)

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        return Dense(self.dense()).moments(weights)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows that hold about a million entries each."""
    step = max(1, _BLOCK // shape[1])
    return (slice(start, min(start + step, shape[0])) for start in range(0, shape[0], step))


def in_double(block: Array) -> Array:
    """The same numbers in double precision; not copied if they are so already."""
    if isinstance(block, np.ndarray):
        return block.astype(np.float64, copy=False)
    xp = namespace(block)
    return xp.astype(block, xp.float64)


def _spread(values: np.ndarray, index: Array, size: int) -> np.ndarray:
    """The array of the given length that sums the values at the index, which may repeat."""
    out = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    np.add.at(out, index, values)
    return out
