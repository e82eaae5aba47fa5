"""Data that are larger than memory, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.memory import allowance, memory_limit
from .._core.validation import check_count
from .ahead import Progress, ahead
from .base import Design, check_kind, not_finite
from .by_row import ByRow
from .dense import Dense
from .files import ROWS, Files, as_part, float_of
from .opening import as_source
from .parted import Parted, Tally
from .program import Node
from .sources import Source


class InFiles(Parted):
    """Rows and columns of a matrix that is read block by block.

    Attributes
    ----------
    layout : Files
    index : array or None
        Which columns of the source these are; None means all.
    """

    layout: Files

    def __init__(self, layout: Files, index: np.ndarray | None, n_columns: int) -> None:
        self.layout, self.tally, self.memory, self.index = layout, layout.tally, layout.memory, index
        self.block = Node(layout, leaf=ROWS)
        if index is not None:
            self.block = Node(layout, _columns, (self.block, index))
        self.shape = (layout.n, n_columns)
        self.reference = np.empty(0, dtype=layout.dtype)

    @classmethod
    def recognises(cls, X: Any) -> bool:
        """Paths and lists of paths or memory maps, Zarr arrays, and maps that would fill more than half the memory."""
        if isinstance(X, (list, tuple)):
            return bool(X) and all(isinstance(x, (str, os.PathLike, np.memmap)) for x in X)
        if isinstance(X, np.memmap):
            return X.ndim == 2 and 2 * X.nbytes > (memory_limit() or np.inf)
        return isinstance(X, (str, os.PathLike)) or type(X).__module__.partition(".")[0] == "zarr"

    @classmethod
    def read(cls, X: Any, name: str) -> Design:
        try:
            return Blocks(X)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} cannot be read: {error}") from error

    def by_row(self, values: Any, dtype: Any = None) -> Any:
        if isinstance(values, ByRow):
            return super().by_row(values, dtype)
        return np.asarray(values, dtype=dtype or self.reference.dtype)

    def constant(self, value: float) -> np.ndarray:
        return np.full(self.shape[0], value)

    def _of_source(self, index: np.ndarray | None) -> np.ndarray | None:
        return index if self.index is None else self.index if index is None else self.index[index]

    def spanned(self, index: np.ndarray | None, vectors: Any) -> Any:
        # of the source itself, so that it fits to whatever else is made of its rows
        whole = self if self.index is None else InFiles(self.layout, None, 0)
        return super(InFiles, whole).spanned(self._of_source(index), vectors)

    def columns(self, index: Any) -> Design:
        index = self._of_source(np.asarray(index))
        assert index is not None
        if not index.size:
            return Dense(np.empty((self.shape[0], 0), self.layout.dtype))
        if self.layout.has_room(index.size):
            return Dense(np.stack(self.layout.columns(index)).T)
        return InFiles(self.layout.aside(index), None, index.size)

    def rows(self, index: Any) -> Design:
        index = np.asarray(index)
        if index.dtype != bool and index.size and self.fits(index.size, self.shape[1]):
            lines = self.layout.lines(index)
            if lines is not None:
                return Dense(lines if self.index is None else lines[:, self.index])
        return super().rows(index)

    def expect(self, index: np.ndarray) -> None:
        wanted = self._of_source(np.unique(index))
        if wanted is not None and wanted.size and self.layout.has_room(wanted.size):
            self.layout.columns(wanted)

    def fits(self, n_rows: int, n_columns: int) -> bool:
        return bool(4 * n_rows * n_columns * self.reference.itemsize <= self.memory)

    def _part_of(self, index: np.ndarray) -> InFiles:
        layout = self.layout.part_of(np.flatnonzero(index) if index.dtype == bool else index)
        return InFiles(layout, self.index, self.shape[1])

    @contextmanager
    def at_work(self, verbose: int) -> Iterator[None]:
        before, self.layout.progress = self.layout.progress, self.layout.progress or verbose > 0
        try:
            yield
        finally:
            self.layout.progress = before


def _columns(block: Design, index: np.ndarray) -> Design:
    return block.columns(index)


class Blocks(InFiles):
    """X, too large for memory, read block by block: the next one while this one is computed with.

    A full gradient reads the data once. Memory holds two blocks, vectors as long as there are rows (y, predictions and
    their like, 8 bytes a row each) and copies of the columns that are kept, as far as `memory` allows; beyond that
    products with them read the data again. Sums are taken in the order of the blocks: the same answer every time.
    `n_sweeps` of a result says how often all rows were gone through.

    Parameters
    ----------
    source : path, memory map, Zarr array, list of these, or blocks
        A .npy, .parquet or .zarr file, or several, one below the other; a memory map of NumPy; anything two-dimensional
        whose rows can be sliced (arrays of Zarr and h5py). Or blocks of your own: a sequence, or anything with a
        length that can be iterated again, of X or of pairs (X, y), X an array or a scipy.sparse matrix; or a function
        that makes an iterator of them.
    target, columns : str, list of str, optional
        For Parquet: which column is y, and which ones are X (by default all others).
    rows : int, optional
        Rows of a block, where these can be chosen; by default as many as a processor keeps near
        while it computes with them (2 MB), and more where a piece takes long to fetch (Parquet, Zarr: 32 MB).
    memory : float, optional
        Bytes for copies of columns; by default a quarter of what this process may use.
    progress : bool
        Whether every sweep shows its bytes and the time that is left; `verbose=1` of `minimize` shows those of a run.

    Attributes
    ----------
    shape : (n, p)
    y : array of shape (n,), or None
        The targets, where the source holds them.
    names : list of str or None
        Of the columns.
    n_sweeps : float
        How often all rows were gone through so far, those of folds and mini-batches being a part of that; the first
        time is to look for NaN, and for the sizes of columns.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> rng = np.random.default_rng(0)
    >>> blocks = [(X, X[:, 3] + 0.1 * X[:, 0]) for X in rng.standard_normal((5, 100, 20))]
    >>> data = ez.Blocks(blocks)
    >>> res = ez.minimize(ez.risks.LeastSquares(data, data.y), k=1)
    >>> data.shape, res.support.tolist(), res.n_sweeps
    ((500, 20), [3], 5)
    """

    def __init__(
        self,
        source: Any,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        rows: int | None = None,
        memory: float | None = None,
        progress: bool = False,
    ) -> None:
        found = as_source(source, target, columns, None if rows is None else check_count(rows, "rows"))
        limit = allowance(memory)
        sizes, dtype, p = self._first_look(found, progress)
        bounds = np.cumsum([0, *sizes]).tolist()
        places = [slice(a, b) for a, b in pairwise(bounds)]
        tally = Tally(bounds[-1], rows=bounds[-1], bytes_read=found.n_bytes or 0)
        layout = Files(found, places, bounds[-1], dtype, limit, tally)
        layout.progress = bool(progress)
        super().__init__(layout, None, p)
        self.names = found.names

    def _first_look(self, source: Source, progress: bool) -> tuple[list[int], np.dtype, int]:
        """The rows of each block, the precision and the width of X; also y, and the sums and squares of columns."""
        sizes: list[int] = []
        targets: list[np.ndarray] = []
        dtypes, n_bytes = set(), 0
        shown = Progress("reading", source.n_bytes) if progress else None
        for block in ahead(source.blocks()):
            X, n = block.X, sum(sizes)
            check_kind(X.dtype, "X")
            if not X.shape[1]:
                break
            rows = as_part(X, float_of(X))
            if sizes and rows.shape[1] != self.squares.size:
                raise ValueError(f"block {block.number} has {rows.shape[1]} columns, the others {self.squares.size}")
            if bool(targets) != (block.y is not None) and sizes:
                raise ValueError(f"block {block.number} must be X alone, or a pair (X, y), as the blocks before it are")
            with np.errstate(over="ignore", invalid="ignore"):
                squares, sums = rows.squares, rows.sums
            if not np.isfinite(squares).all():
                _check_entries(rows, n, source, block.number)
            if sizes:
                squares, sums = self.squares + squares, self.sums + sums
            self.squares, self.sums = squares, sums
            sizes.append(rows.shape[0])
            dtypes.add(float_of(X))
            n_bytes += block.n_bytes
            if block.y is not None:
                targets.append(block.y.copy())
            if shown is not None:
                shown.advance(block.n_bytes)
        if shown is not None:
            shown.close()
        if not sum(sizes):
            raise ValueError("X must have at least one row and one column, got blocks without any")
        source.n_bytes = n_bytes
        self.y = np.concatenate(targets) if targets else None
        return sizes, np.result_type(*dtypes), self.squares.size


def _check_entries(rows: Design, before: int, source: Source, number: int) -> None:
    """Refuse NaN and infinities; the squares may overflow although every entry is finite."""
    X = np.asarray(rows.dense())
    for i, j in np.argwhere(~np.isfinite(X))[:1].tolist():
        raise not_finite("X", X[i, j], before + i, j, f" ({source.place(number, i)})")
