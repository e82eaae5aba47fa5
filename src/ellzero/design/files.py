"""Rows that are read from a source, part by part, whenever they are looked at."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import numpy as np

from .ahead import Progress, ahead
from .base import Design, is_native_float
from .by_row import ByRow, Layout
from .dense import Dense
from .parted import Tally, entries, of_product
from .program import Node, Program, ancestors
from .sources import Block, RawFile, Source, rows_at_a_time
from .sparse import Sparse, compressed

#: the leaf that stands for the rows of a part, which are there while they are looked at
ROWS = object()


class Files(Layout):
    """Parts that are read from a source; vectors as long as they have rows are here, in memory.

    Attributes
    ----------
    source : Source
        Its blocks are the parts, or some of their rows.
    starts : list of int
        The first row of each block of the source.
    dtype : dtype
        Of the products.
    memory : float
        How many bytes may be taken by copies of columns; half of it is for those that were looked at last.
    tally : Tally
    progress : bool
        Whether sweeps are shown.
    """

    def __init__(
        self,
        source: Source,
        places: list[Any],
        n: int,
        dtype: np.dtype,
        memory: float,
        tally: Tally,
        chosen: list[tuple[int, Any]] | None = None,
        starts: list[int] | None = None,
    ) -> None:
        super().__init__(places, n, chosen)
        self.starts = [place.start for place in places] if starts is None else starts
        self.source, self.dtype, self.memory, self.tally, self.progress = source, dtype, memory, tally, False
        self._position = {number: i for i, (number, _) in enumerate(self.parts)}
        self._columns: dict[int, np.ndarray] = {}

    def part_of(self, index: np.ndarray) -> Files:
        """The layout of some of these rows, in any order; they may repeat."""
        places, chosen = self.selection(index)
        return Files(self.source, places, index.size, self.dtype, self.memory, self.tally, chosen, self.starts)

    def lines(self, index: np.ndarray) -> np.ndarray | None:
        """Some rows of X, in any order, where these can be read without the rest of their blocks."""
        rows = np.empty(index.size, dtype=np.intp)
        for place, (number, lines) in zip(*self.selection(index), strict=True):
            lines = np.arange(lines.start, lines.stop) if isinstance(lines, slice) else lines
            rows[place] = self.starts[number] + lines
        each, place = np.unique(rows, return_inverse=True)
        found = self.source.lines(each)
        if found is None:
            return None
        self.tally.bytes_read += found.nbytes
        self.tally.rows += each.size
        return found[place].astype(self.dtype, copy=False)

    def given(self, values: np.ndarray) -> ByRow:
        node = ByRow(self, values[:0])
        node.known = values
        return node

    # One sweep.

    def sweep(self, *nodes: Node, columns: np.ndarray | None = None) -> Iterator[tuple[Any, list[Any]]]:
        """The nodes on each part, and where its rows belong: the source is read once."""
        program, leaves = Program.of(nodes)
        numbers = None if self.chosen is None else [number for number, _ in self.chosen]
        progress = Progress(f"sweep {int(self.tally.sweeps) + 1}", self._bytes_of(columns)) if self.progress else None
        read = (self._part(block) for block in self.source.blocks(columns, numbers))
        try:
            with closing(ahead(read)) as blocks:
                for i, rows, n_rows, n_bytes in blocks:
                    self.tally.bytes_read += n_bytes
                    self.tally.rows += n_rows
                    place = self.places[i]
                    yield place, program.run([rows if leaf is ROWS else leaf[place] for leaf in leaves])
                    del rows  # or it would be a third block that is there
                    if progress is not None:
                        progress.advance(n_bytes)
        finally:
            if progress is not None:
                progress.close()

    def _part(self, block: Block) -> tuple[int, Design, int, int]:
        """The number of a part, its rows, and how many rows and bytes were read for them."""
        i = self._position[block.number]
        rows: Design = as_part(block.X, self.dtype)
        return i, rows if self.chosen is None else rows.rows(self.chosen[i][1]), rows.shape[0], block.n_bytes

    def _bytes_of(self, columns: np.ndarray | None) -> int | None:
        """What a sweep reads, if that is known."""
        total, p = self.source.n_bytes, self.source.n_columns
        if total is None:
            return None
        if columns is not None and self.source.by_columns and p:
            total = total * columns.size // p
        ends = [*self.starts[1:], self.tally.n]
        return int(total * sum(ends[i] - self.starts[i] for i, _ in self.parts) // self.tally.n)

    def fold(self, work: Callable[..., Any], add: Callable[[Any, Any], Any], *nodes: Node) -> Any:
        if all(isinstance(node, ByRow) for node in nodes):
            return work(*(self.gather(node) for node in nodes))  # type: ignore[arg-type]
        self._from_columns(looks := self._looks(nodes))
        # predictions that are computed on the way are worth keeping
        kept = [look for look in looks if look.known is None and 8 * look.size <= self.memory / 8]
        found = [np.empty(look.shape, look.dtype) for look in kept]
        total = None
        for place, values in self.sweep(*nodes, *kept):
            part = work(*values[: len(nodes)])
            total = part if total is None else add(total, part)
            for whole, some in zip(found, values[len(nodes) :], strict=True):
                whole[place] = some
        for look, whole in zip(kept, found, strict=True):
            look.known = whole
        return total

    def gather(self, node: ByRow) -> np.ndarray:
        looks = self._looks([node])
        self._from_columns(looks, read=True)
        if left := [look for look in looks if look.known is None]:
            found = [np.empty(look.shape, look.dtype) for look in left]
            for place, values in self.sweep(*left):
                for whole, some in zip(found, values, strict=True):
                    whole[place] = some
            for look, whole in zip(left, found, strict=True):
                look.known = whole
        program, leaves = Program.of([node])
        return np.asarray(program.run(leaves)[0])

    @staticmethod
    def _looks(nodes: Any) -> list[ByRow]:
        """What has to look at X, of all that some nodes are made of."""
        return [
            node
            for node in ancestors(nodes)
            if isinstance(node, ByRow) and any(isinstance(a, Node) and not isinstance(a, ByRow) for a in node.args)
        ]

    def _from_columns(self, looks: list[ByRow], read: bool = False) -> None:
        """Products with few columns, from these: where they are at hand, or, if they are to be read, where they fit."""
        few = [(look, product) for look in looks if (product := of_product(look)) is not None]
        if read and few:
            index = np.unique(np.concatenate([index for _, (index, _) in few]))
            if self.has_room(index.size):
                self.columns(index)
        for look, (index, vectors) in few:
            if all(j in self._columns for j in index.tolist()):
                look.known = np.zeros(look.shape, look.dtype)
                for column, values in zip(self.columns(index), vectors, strict=True):
                    look.known += np.multiply.outer(column, values)

    # Columns that are kept.

    def has_room(self, n_columns: int) -> bool:
        """Whether so many columns may be kept, and copied once more."""
        return 2 * n_columns * self.n * self.dtype.itemsize <= self.memory

    def columns(self, index: np.ndarray) -> list[np.ndarray]:
        """Columns of X; one sweep for those that were not looked at lately."""
        missing = np.array([j for j in index.tolist() if j not in self._columns], dtype=np.intp)
        if missing.size:
            new = [np.empty(self.n, self.dtype) for _ in missing]
            rows = Node(self, leaf=ROWS)
            for place, (part,) in self.sweep(Node(self, entries, (rows,)), columns=missing):
                for column, numbers in zip(new, part.T, strict=True):
                    column[place] = numbers
            self._columns.update(zip(missing.tolist(), new, strict=True))
        found = [self._columns.pop(j) for j in index.tolist()]
        self._columns.update(zip(index.tolist(), found, strict=True))  # as the ones used last
        while not self.has_room(len(self._columns)) and len(self._columns) > index.size:
            del self._columns[next(iter(self._columns))]
        return found

    def aside(self, index: np.ndarray) -> Files:
        """A file of these columns alone, written by one sweep and gone with the last look at it."""
        try:
            handle, path = tempfile.mkstemp(prefix="ellzero-columns-")
        except OSError as error:
            raise _no_room(error, index.size) from error
        rows = Node(self, entries, (Node(self, leaf=ROWS),))
        width = index.size * self.dtype.itemsize
        try:
            with open(handle, "r+b") as file:
                file.truncate(self.n * width)
                for place, (part,) in self.sweep(rows, columns=index):
                    for start, lines in _runs(place):
                        file.seek(start * width)
                        file.write(np.ascontiguousarray(part[lines]).data)
        except BaseException as error:
            os.remove(path)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise _no_room(error, index.size) from error
            raise
        step = min(rows_at_a_time(index.size, self.dtype), self.n)
        source = RawFile(path, 0, self.dtype, (self.n, index.size), False, step)
        weakref.finalize(source, _remove, path)
        places = [slice(start, min(start + step, self.n)) for start in range(0, self.n, step)]
        return Files(source, places, self.n, self.dtype, self.memory, Tally(self.n))


def _no_room(error: BaseException, n_columns: int) -> OSError:
    return OSError(
        f"{n_columns} columns do not fit into memory= and could not be put aside in {tempfile.gettempdir()} ({error}); "
        "let TMPDIR name a folder with room, raise memory= where the data are read, or take a smaller k"
    )


def _remove(path: str) -> None:
    with suppress(OSError):
        os.remove(path)


def _runs(place: Any) -> Iterator[tuple[int, Any]]:
    """Where consecutive rows begin, and which lines of a part they are."""
    if isinstance(place, slice):
        yield place.start, slice(None)
        return
    breaks = np.flatnonzero(np.diff(place) != 1) + 1
    for start, stop in zip([0, *breaks.tolist()], [*breaks.tolist(), place.size], strict=True):
        yield int(place[start]), slice(start, stop)


def as_part(X: Any, dtype: np.dtype) -> Design:
    """Rows in memory as a design; nothing is checked, for that was done when they were first read."""
    if Sparse.recognises(X):
        return Sparse(compressed(X).astype(dtype, copy=False))
    return Dense(np.asarray(X, dtype=dtype))


def float_of(X: Any) -> np.dtype:
    """In which precision a block is computed with."""
    return X.dtype if is_native_float(X.dtype) else np.dtype(np.float64)
