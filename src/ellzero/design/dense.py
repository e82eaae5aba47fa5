"""Arrays in memory or mapped from a file, of any array library."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, is_array, like, namespace, to_host, waits
from .base import SMALL, Design, check_kind, in_double, is_native_float, not_finite, row_blocks, take

# Touching only the support's columns pays when the gather is cheaper than the whole product. Measured: a
# gather from rows (C order) wins below 3% of the columns, one from columns (F order) below 20%, and neither
# wins on small matrices.
_ROW_ORDER_SHARE = 32
_COLUMN_ORDER_SHARE = 5
_KEPT_BY_COLUMNS = 20  # whole columns are found again as quickly as their copies
_IN_LINE = 8  # neighbours in a row that come from memory together
_GATHER = 5  # products of few columns that take as long as to gather a number
_IN_BLOCK = 2**19  # numbers gathered at a time where columns are multiplied with each other
_LARGE = 2**20  # numbers of X, of which single precision has the better of it
_HOST_THREADS = 4  # of the host, for what is as small as k while a device has the data
_IN_NEAREST_CACHE, _IN_CACHE = 2**12, 2**18  # numbers that stay there while sums are taken


class Dense(Design):
    """An array in memory or mapped from a file; never copied."""

    in_memory = at_hand = True
    #: which columns of X were gathered last, and these columns as rows
    _recent: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(self, X: Array) -> None:
        self.X, self.reference = X, X
        self.shape = n, p = X.shape
        self._transpose = X.T
        self._by_columns = by_columns = isinstance(X, np.ndarray) and abs(X.strides[0]) < abs(X.strides[1])
        self._is_double = isinstance(X, np.ndarray) and X.dtype == np.float64
        self.has_whole_columns = by_columns and is_native_float(X.dtype)
        # blocks of rows are faster, but not of rows that lie scattered or are long; what is converted goes by blocks
        self._squares_at_once = self._is_double and (by_columns or 16 * p > _IN_CACHE)
        few = p // (_COLUMN_ORDER_SHARE if by_columns else _ROW_ORDER_SHARE)
        self._few_columns = few if n * p > SMALL else -1
        kept = p // (_KEPT_BY_COLUMNS if by_columns else _COLUMN_ORDER_SHARE)  # no more than that share of memory
        self._kept_columns = kept if n * p > SMALL else -1

    @classmethod
    def recognises(cls, X: Any) -> bool:
        return is_array(X) and not isinstance(X, np.ma.MaskedArray)

    @classmethod
    def read(cls, X: Array, name: str) -> Dense:
        if not isinstance(X, np.ndarray):
            xp = namespace(X)
            if not xp.isdtype(X.dtype, "real floating"):
                if not xp.isdtype(X.dtype, ("bool", "integral")):
                    raise TypeError(f"{name} must hold real numbers, got dtype {X.dtype}")
                X = xp.astype(X, xp.float64)
            _check_finite(X, name)
            return cls(X)
        check_kind(X.dtype, name)
        on_disk = isinstance(X, np.memmap)
        X = np.asarray(X)  # a plain view: subclasses only slow products down
        if is_native_float(X.dtype):
            design = Dense(X)
            if not np.isfinite(design.squares).all():  # the look at the data that the sizes of the columns need as well
                _check_finite(X, name)
            return design
        design = ConvertedMap(X) if on_disk else Dense(X.astype(np.float64))
        _check_finite(design.X, name)
        return design

    def __getstate__(self) -> dict[str, Any]:
        """Without the other view of X, of which a copy would be made, and without what was gathered."""
        return {name: value for name, value in vars(self).items() if name not in ("_transpose", "_recent")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _transpose=state["X"].T)

    def forward(self, w: Array, support: Array | None = None) -> Array:
        if support is not None and self._are_few(support):
            values = take(w, support)
            if isinstance(values, np.ndarray) and not values.any():  # the origin, where most runs start
                return np.zeros((self.shape[0], *values.shape[1:]), dtype=values.dtype)
            if self._by_columns and support.size > self._kept_columns:
                return self._by_pieces(support, values)
            return self._gather(support) @ values
        return self.X @ w

    def _by_pieces(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """X[:, columns] @ values for columns that each lie in one place: no more of them at a time than a block."""
        step = max(_IN_LINE, _IN_BLOCK // self.shape[0])
        pieces = (slice(start, start + step) for start in range(0, columns.size, step))
        return np.asarray(sum(self._transpose[columns[some]].T @ values[some] for some in pieces))

    def _are_few(self, columns: Array) -> bool:
        """Whether these are gathered more quickly than all are multiplied: those that share lines of the cache are."""
        few = bool(columns.shape[0] <= self._few_columns)
        if few or self._by_columns or not isinstance(columns, np.ndarray):
            return few
        return columns.size <= self._kept_columns and bool(np.unique(columns // _IN_LINE).size <= self._few_columns)

    def adjoint(self, r: Array) -> Array:
        return self._transpose @ r if r.ndim == 1 else (r.T @ self.X).T

    @property
    def size(self) -> int:
        return math.prod(self.shape) * int(self.X.dtype.itemsize) // 8

    @property
    def has_rough_adjoint(self) -> bool:
        if not (self.in_memory and isinstance(self.X, np.ndarray) and self.X.dtype == np.float64):
            return False
        squares = self.squares[self.squares > 0]
        return self.X.size > _LARGE and bool(((squares > 1e-30) & (squares < 1e30)).all())

    def rough_adjoint(self, r: np.ndarray, out: np.ndarray) -> None:
        """A few numbers at a time are converted, in the same place, for fresh memory is dear."""
        r, (n, p) = np.ascontiguousarray(r.T, dtype=np.float32), self.shape
        width = min(p, max(1, _IN_CACHE // max(1, len(r))))
        height = min(n, _IN_BLOCK // width)
        few = np.empty((height, width), dtype=np.float32)
        for start in range(0, n, height):
            for left in range(0, p, width):
                block = self.X[start : start + height, left : left + width]
                rows, columns = block.shape
                few[:rows, :columns] = block
                there, factors = out[:, left : left + columns], (r[:, start : start + rows], few[:rows, :columns])
                if start:
                    there += factors[0] @ factors[1]
                else:
                    np.matmul(*factors, out=there)

    def columns(self, index: Array) -> Dense:
        return type(self)(self._gather(index))

    def _gather(self, index: Array) -> Array:
        """X[:, index]; columns that the last call has gathered are not looked up again, for supports change little."""
        if not isinstance(self.X, np.ndarray) or not 0 < index.size <= self._kept_columns:
            return take(self.X, index, axis=1)
        if (recent := self._recent) is None:  # another run of the same risk may let go of it
            gathered = np.ascontiguousarray(self.X[:, index].T)
        else:
            known, columns = recent
            if np.array_equal(known, index):
                return columns.T
            place = np.minimum(np.searchsorted(known, index), known.size - 1)
            new = known[place] != index
            gathered = columns[place]
            gathered[new] = self.X[:, index[new]].T
        gathered.flags.writeable = False
        if (index[1:] > index[:-1]).all():
            self._recent = index.copy(), gathered  # whoever asked may change it
        return gathered.T

    def rows(self, index: np.ndarray) -> Dense:
        return type(self)(take(self.X, index))

    def dense(self) -> Array:
        return self.X

    @property
    def T(self) -> Dense:
        return type(self)(self._transpose)

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

    def products(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        n, p = self.shape
        symmetric, root = np.array_equal(left, right), None
        # few columns are multiplied with all of X rather than many gathered
        whole = not symmetric and left.size * p <= _GATHER * right.size
        found = np.zeros((left.size, p if whole else right.size))
        for rows in row_blocks((n, left.size + found.shape[1]), _IN_BLOCK):
            if not isinstance(weights, float):
                root = np.sqrt(weights[rows])[:, None]
            B = self._some(rows, None if whole else right, root)
            found += (B if symmetric else self._some(rows, left, root)).T @ B
        if whole:
            found = found[:, right]
        if isinstance(weights, float):
            found *= weights
        return found

    def _some(self, rows: slice, index: np.ndarray | None, root: np.ndarray | None) -> np.ndarray:
        """X[rows, index] on the host, in double precision, each row times its root."""
        block = self.X[rows, :]
        if index is not None and not isinstance(block, np.ndarray):
            block = take(block, index, axis=1)
        elif index is not None:
            block = block.T[index].T
        block = to_host(in_double(block))
        return block if root is None else block * root

    def grams(self, index: np.ndarray) -> np.ndarray | None:
        """Of columns that lie side by side, which need not be gathered."""
        sizes, place = np.count_nonzero(index >= 0, axis=1), np.arange(index.shape[1])
        apart = np.where(place < sizes[:, None], index[:, :1] + place, -1) != index
        if not isinstance(self.X, np.ndarray) or self.X.dtype != np.float64 or apart.any():
            return None
        found = np.zeros((*index.shape, place.size))
        for rows in row_blocks(self.shape, 2**23):
            block = self.X[rows, :]
            for gram, first, size in zip(found, index[:, 0].tolist(), sizes.tolist(), strict=True):
                part = block[:, first : first + size]
                gram[:size, :size] += part.T @ part
        return found

    @cached_property
    def squares(self) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            if self._squares_at_once or (self._is_double and self.shape[1] <= _IN_NEAREST_CACHE):
                return np.asarray(np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64))
            return self.square_sums(np.ones(self.shape[0]))

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        if self._squares_at_once and weights.ndim == 1:
            return np.asarray(np.einsum("i,ij,ij->j", weights, self.X, self.X, dtype=np.float64))
        # few enough rows, or columns where these lie in one place, that their squares stay in the cache
        lines = self._transpose if self._by_columns else self.X
        total, step = np.zeros((*weights.shape[1:], self.shape[1])), max(1, _IN_CACHE // lines.shape[1])
        squares = np.empty((step, lines.shape[1]))
        for start in range(0, lines.shape[0], step):
            some = slice(start, start + step)
            block = to_host(lines[some])
            few = squares[: len(block)]
            if block.dtype != few.dtype:  # in the same place, for fresh memory is dear
                np.copyto(few, block)
                block = few
            np.multiply(block, block, out=few)
            if self._by_columns:
                total[..., some] = (few @ weights).T
            else:
                total += weights[some].T @ few
        return total.T

    def _in_double(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_blocks(self.shape):
            yield rows, to_host(in_double(self.X[rows, :]))

    def doubled(self) -> Iterator[Design]:
        return (type(self)(in_double(self.X[rows, :])) for rows in row_blocks(self.shape))

    def on_host(self) -> Dense:
        return Dense(np.asfortranarray(to_host(in_double(self.X))))

    def scaled(self, scales: np.ndarray) -> Design | None:
        return None if isinstance(self.X, np.memmap) else type(self)(self.X * self.asarray(scales))

    def diagonal(self) -> np.ndarray:
        return np.diagonal(to_host(self.X))

    def asymmetry(self) -> tuple[float, float]:
        gap = size = 0.0
        for rows, block in self._in_double():
            mirrored = to_host(in_double(self.X.T[rows, :]))
            gap, size = max(gap, np.abs(block - mirrored).max()), max(size, np.abs(block).max())
        return gap, size

    def symmetrised(self) -> Dense:
        return type(self)(0.5 * self.X + 0.5 * self.X.T)

    def forget(self) -> None:
        self._recent = None

    def at_work(self, verbose: int) -> AbstractContextManager[Any]:
        # Many threads that share what is as small as k wait for each other longer than one of them computes: beside a
        # device, a run took 70 to 180 passes with 16 of them, and 33 with one or four.
        if not waits(self.reference):
            return nullcontext()
        pools = _host_pools()
        limited: AbstractContextManager[Any] = pools.limit(
            limits=min([_HOST_THREADS, *(pool.num_threads for pool in pools.lib_controllers)])
        )
        return limited


@cache
def _host_pools() -> Any:
    """The threads of the host's linear algebra; looked for once, since that takes milliseconds."""
    import scipy.linalg  # noqa: F401 - brings a library of its own, if it is not there yet
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class ConvertedMap(Dense):
    """A memory map of integers or of another kind that products cannot use: converted block by block."""

    in_memory = at_hand = False

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


def _check_finite(X: Array, name: str) -> None:
    """Refuse NaN and infinities; no temporary is larger than a block, because X may be a memory map."""
    xp = namespace(X)
    if xp.isdtype(X.dtype, ("bool", "integral")):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(xp.sum(X))):
            return
    for rows in row_blocks(X.shape):  # the sum alone may overflow although every entry is finite
        block = to_host(X[rows, :])
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            i, j = bad[0]
            raise not_finite(name, block[i, j], rows.start + i, j)
