"""Where rows are read from, block by block: files of arrays, Parquet, Zarr, and blocks that users make."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from .._core.lazy import need
from .._core.validation import as_array
from .sparse import Sparse, compressed

#: a block that takes its time to be fetched: long enough for that, and two of them little beside what a machine has
_BYTES = 2**25
#: numbers of a block of a plain file: two products with it find it in the processor's cache, and so does its reader
_ENTRIES = 2**18
#: rows of such a block, at least: what is added up after each is as long as X is wide
_ROWS = 64


@dataclass
class Block:
    """Some rows: their number in the order of blocks, X, y where the source tells it, and how many bytes were read."""

    number: int
    X: Any
    y: np.ndarray | None
    n_bytes: int


class Source(ABC):
    """Blocks of rows that can be gone through again and again, always the same ones.

    Attributes
    ----------
    n_columns : int or None
        None where a first look has to tell.
    n_bytes : int or None
        What one reading of all columns takes, if it is known beforehand.
    names : list of str or None
        Of the columns.
    """

    n_columns: int | None = None
    n_bytes: int | None = None
    names: list[str] | None = None
    #: whether columns that are not wanted are not read either
    by_columns: bool = False

    def place(self, number: int, row: int) -> str:
        """Where users find a row of a block."""
        return f"row {row} of block {number}"

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """How many there are."""

    @abstractmethod
    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        """The blocks, or those of some numbers, in increasing order; with some columns alone, where these are named.

        What was handed out may be written over two blocks later.
        """

    def lines(self, index: np.ndarray) -> np.ndarray | None:
        """Some rows alone, in increasing order; None where they cannot be read without the rest of their blocks."""
        return None


def _numbers(n_blocks: int, only: Sequence[int] | None) -> Iterable[int]:
    return range(n_blocks) if only is None else only


def _picked(X: Any, columns: np.ndarray | None) -> Any:
    return X if columns is None else X[:, columns]


class RawFile(Source):
    """Rows of a file of numbers, as `numpy.memmap` describes it; read, and not mapped, so that memory stays free."""

    def __init__(self, path: Any, offset: int, dtype: np.dtype, shape: tuple[int, int], by_columns: bool, rows: int):
        self.path, self.offset, self.dtype = os.fspath(path), offset, dtype
        self.by_columns, self.rows = by_columns, rows
        self.n, self.n_columns = shape
        self.n_bytes = dtype.itemsize * shape[0] * shape[1]

    def place(self, number: int, row: int) -> str:
        return f"row {number * self.rows + row} of {self.path}"

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        p, item = self.n_columns, self.dtype.itemsize
        assert p is not None
        wanted = columns if self.by_columns and columns is not None else np.arange(p)
        shape = (wanted.size, self.rows) if self.by_columns else (self.rows, p)
        buffers = [np.empty(shape, self.dtype) for _ in range(min(2, self.n_blocks))]
        with open(self.path, "rb", buffering=0) as file:
            for turn, number in enumerate(_numbers(self.n_blocks, only)):
                start = number * self.rows
                stop = min(start + self.rows, self.n)
                buffer = buffers[turn % len(buffers)]
                if self.by_columns:
                    for row, j in zip(buffer, wanted.tolist(), strict=True):
                        self._read(file, row[: stop - start], item * (j * self.n + start))
                    X = buffer[:, : stop - start].T
                else:
                    self._read(file, buffer[: stop - start], item * p * start)
                    X = _picked(buffer[: stop - start], columns)
                yield Block(number, X, None, item * (stop - start) * wanted.size)

    def lines(self, index: np.ndarray) -> np.ndarray | None:
        if self.by_columns:
            return None
        out = np.empty((index.size, self.n_columns or 0), self.dtype)
        with open(self.path, "rb", buffering=0) as file:
            for some in np.split(np.arange(index.size), np.flatnonzero(np.diff(index) != 1) + 1):
                self._read(file, out[some[0] : some[-1] + 1], int(index[some[0]]) * out.itemsize * out.shape[1])
        return out

    def _read(self, file: Any, out: np.ndarray, place: int) -> None:
        """Fill an array from the file."""
        file.seek(self.offset + place)
        view = memoryview(out.data).cast("B")
        while view:
            if not (n := file.readinto(view)):
                raise EOFError(f"{self.path} ends before its {self.n} rows do: was it cut off, or written over?")
            view = view[n:]


class Sliceable(Source):
    """Anything two-dimensional whose rows can be sliced: Zarr and HDF5 arrays, arrays in memory, views of maps."""

    def __init__(self, X: Any, rows: int, name: str) -> None:
        self.X, (self.n, self.n_columns), self.name = X, X.shape, name
        self.dtype = np.dtype(X.dtype)
        chunk = getattr(X, "chunks", None)
        if chunk and isinstance(chunk[0], int):  # whole chunks, which are decoded once
            rows = max(1, rows // chunk[0]) * chunk[0]
        self.rows = rows
        self.n_bytes = self.dtype.itemsize * self.n * self.n_columns

    def place(self, number: int, row: int) -> str:
        return f"row {number * self.rows + row} of {self.name}"

    @property
    def n_blocks(self) -> int:
        return int(-(-self.n // self.rows))

    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        for number in _numbers(self.n_blocks, only):
            X = np.asarray(self.X[number * self.rows : min((number + 1) * self.rows, self.n)])
            yield Block(number, _picked(X, columns), None, X.nbytes)


class Parquet(Source):
    """Columns of Parquet files, of which only those that are wanted are read."""

    by_columns = True

    def __init__(self, paths: Sequence[Path], target: str | None, columns: Sequence[str] | None, rows: int | None):
        parquet = need("pyarrow.parquet", "reading Parquet needs pyarrow: pip install ellzero[parquet]")
        self.paths, self.target = list(map(str, paths)), target
        there = parquet.read_schema(self.paths[0]).names
        for name in [*(columns or ()), *([] if target is None else [target])]:
            if name not in there:
                raise ValueError(f"{self.paths[0]} has no column {name!r}; it has {', '.join(there[:8])}")
        self.names = [name for name in there if name != target] if columns is None else list(columns)
        self.n_columns = len(self.names)
        self.rows = rows or many_rows(self.n_columns, np.dtype(float))
        self.pieces: list[tuple[int, int, int, int]] = []  # file, row group, first row in it, rows
        for f, path in enumerate(self.paths):
            meta = parquet.read_metadata(path)
            for g in range(meta.num_row_groups):
                size = meta.row_group(g).num_rows
                self.pieces += [(f, g, i, min(self.rows, size - i)) for i in range(0, size, self.rows)]
        self.n_bytes = 8 * self.n_columns * sum(piece[3] for piece in self.pieces)

    def place(self, number: int, row: int) -> str:
        f = self.pieces[number][0]
        return f"row {sum(piece[3] for piece in self.pieces[:number] if piece[0] == f) + row} of {self.paths[f]}"

    @property
    def n_blocks(self) -> int:
        return len(self.pieces)

    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        assert self.names is not None
        wanted = [self.names[j] for j in (range(len(self.names)) if columns is None else columns.tolist())]
        batch: Any = None
        group, at, batches = (-1, -1), 0, self._batches(0, 0, wanted)
        for number in _numbers(self.n_blocks, only):
            f, g, first, size = self.pieces[number]
            if (f, g) != group:
                group, at, batches = (f, g), 0, self._batches(f, g, wanted)
            while at <= first:
                batch = next(batches)
                at += batch.num_rows
            X = np.empty((size, len(wanted)), order="F")
            for j, name in enumerate(wanted):
                X[:, j] = _column(batch, name)
            y = None if self.target is None or columns is not None else _column(batch, self.target)
            yield Block(number, X, y, 8 * size * (len(wanted) + (y is not None)))

    def _batches(self, f: int, g: int, wanted: list[str]) -> Iterator[Any]:
        """Rows of one group, in batches of the size of a block."""
        import pyarrow.parquet

        names = list(dict.fromkeys([*wanted, *([] if self.target is None else [self.target])]))
        with pyarrow.parquet.ParquetFile(self.paths[f]) as file:
            yield from file.iter_batches(batch_size=self.rows, row_groups=[g], columns=names)


def _column(batch: Any, name: str) -> np.ndarray:
    values = batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"the column {name!r} must hold real numbers, got dtype {values.dtype}; leave it out by columns=, or "
            "encode it first"
        )
    return np.asarray(values)


class Given(Source):
    """Blocks X, or pairs (X, y), of a sequence, of something that can be iterated again, or of a function."""

    def __init__(self, blocks: Any) -> None:
        self.given, self._n = blocks, None if callable(blocks) else len(blocks)
        self._seen: dict[int, tuple[tuple[int, ...], int]] = {}

    @property
    def n_blocks(self) -> int:
        return -1 if self._n is None else self._n

    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        wanted = None if only is None else set(only)
        number = -1
        for number, item in self._items(wanted):
            X: Any
            X, y = item if isinstance(item, (tuple, list)) and len(item) == 2 else (item, None)
            y = None if y is None else np.asarray(y)
            sparse = Sparse.recognises(X)
            X = compressed(X) if sparse else as_array(X, "X")
            if X.ndim != 2 or (y is not None and len(y) != X.shape[0]):
                raise ValueError(
                    f"a block must be X of shape (rows, columns), or a pair of it and y with as many entries as rows; "
                    f"block {number} has X of shape {X.shape}" + ("" if y is None else f" and y of shape {y.shape}")
                )
            self._compare(number, X)
            n_bytes = X.data.nbytes if sparse else X.nbytes
            yield Block(number, _picked(X.tocsc() if sparse and columns is not None else X, columns), y, n_bytes)
        if wanted is None and self._n is None:
            self._n = number + 1
        if wanted is None and number + 1 != self._n:
            raise ValueError(
                f"there must be {self._n} blocks each time, got {number + 1}; a generator is used up once it was gone "
                "through: give a sequence, or a function that makes the generator anew"
            )

    def _compare(self, number: int, X: Any) -> None:
        """Refuse a block that is another one than at first: its shape and its ends tell, at next to no cost."""
        numbers = X.data if Sparse.recognises(X) else X
        ends = (numbers[0], numbers[-1]) if len(numbers) else ()
        seen = X.shape, crc32(b"".join(end.tobytes() for end in ends))
        if self._seen.setdefault(number, seen) != seen:
            raise ValueError(
                f"block {number} has changed since it was first read (shape {self._seen[number][0]} then, {X.shape} "
                "now): every sweep must get the same blocks; write down what is random, or seed it anew each time"
            )

    def _items(self, wanted: set[int] | None) -> Iterator[tuple[int, Any]]:
        if wanted is not None and hasattr(self.given, "__getitem__"):
            yield from ((i, self.given[i]) for i in sorted(wanted))
            return
        items = self.given() if callable(self.given) else self._in_turn()
        for i, item in enumerate(items):
            if wanted is None or i in wanted:
                yield i, item

    def _in_turn(self) -> Iterator[Any]:
        if hasattr(self.given, "__iter__"):
            yield from self.given
            return
        yield from (self.given[i] for i in range(len(self.given)))


class Stack(Source):
    """Arrays one below the other."""

    def __init__(self, sources: Sequence[RawFile | Sliceable]) -> None:
        self.sources = sources
        widths = {source.n_columns for source in sources}
        if len(widths) > 1:
            odd = next(i for i, source in enumerate(sources) if source.n_columns != sources[0].n_columns)
            raise ValueError(
                f"all arrays must have as many columns: the first has {sources[0].n_columns}, and number {odd} "
                f"(from 0) has {sources[odd].n_columns}"
            )
        self.n_columns, self.names = sources[0].n_columns, sources[0].names
        self.by_columns = all(source.by_columns for source in sources)
        self.first = np.cumsum([0, *(source.n_blocks for source in sources)])
        sizes = [source.n_bytes for source in sources]
        self.n_bytes = None if None in sizes else sum(size for size in sizes if size is not None)

    def place(self, number: int, row: int) -> str:
        i = int(np.searchsorted(self.first, number, side="right")) - 1
        return self.sources[i].place(number - int(self.first[i]), row)

    @property
    def n_blocks(self) -> int:
        return int(self.first[-1])

    def lines(self, index: np.ndarray) -> np.ndarray | None:
        ends = np.cumsum([source.n for source in self.sources])
        found = []
        for source, end in zip(self.sources, ends.tolist(), strict=True):
            mine = index[(end - source.n <= index) & (index < end)] - (end - source.n)
            found.append(source.lines(mine) if mine.size else np.empty((0, source.n_columns or 0)))
        return None if any(part is None for part in found) else np.vstack([part for part in found if part is not None])

    def blocks(self, columns: np.ndarray | None = None, only: Sequence[int] | None = None) -> Iterator[Block]:
        for source, first in zip(self.sources, self.first.tolist(), strict=False):
            mine = None if only is None else [i - first for i in only if first <= i < first + source.n_blocks]
            if mine is None or mine:
                for block in source.blocks(columns, mine):
                    block.number += first
                    yield block


def many_rows(n_columns: int, dtype: np.dtype) -> int:
    """Rows of a block that takes its time to be fetched."""
    return max(1, _BYTES // (dtype.itemsize * max(1, n_columns)))


def rows_at_a_time(n_columns: int, dtype: np.dtype) -> int:
    """Rows of a block of a plain file."""
    return min(max(_ENTRIES // n_columns, _ROWS), many_rows(n_columns, dtype))
