"""X in parts of rows that are elsewhere, in files or on the workers of a cluster: what both have in common.

A part is a matrix in memory for as long as it is looked at. Everything that is asked of the whole is asked of the
parts, and what comes back is added up in the order of the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np

from .._core.arrays import Array
from .base import Design, in_double
from .by_row import ByRow, Layout
from .dense import Dense
from .program import Node

#: products with so many vectors take little longer than reading takes
_TOGETHER = 256


@dataclass
class Tally:
    """What was asked of the parts.

    Attributes
    ----------
    n : int
        Rows of all the data.
    rows : int
        How many were gone through, with all of their columns at hand.
    bytes_read : int
        From files.
    rounds : int
        How often the workers were asked, for all columns or for some that they keep.
    bytes_out, bytes_in : int
        What went to them for that, and what came back; without the data when they are first read.
    """

    n: int
    rows: int = 0
    bytes_read: int = 0
    rounds: int = 0
    bytes_out: int = 0
    bytes_in: int = 0

    @property
    def sweeps(self) -> float:
        """How often all rows were gone through; those of a fold or a mini-batch are a part of that."""
        return self.rows / self.n


def added(a: Any, b: Any) -> Any:
    """a + b, of arrays or of tuples of them."""
    return tuple(x + y for x, y in zip(a, b, strict=True)) if isinstance(a, tuple) else a + b


class Parted(Design):
    """A matrix whose rows are elsewhere.

    Attributes
    ----------
    layout : Layout
    block : Node
        The rows of each part, as a design.
    tally : Tally
        Shared with all pieces of this matrix.
    """

    parted = True
    layout: Layout
    block: Node
    tally: Tally

    def _fold(self, work: Callable[..., Any], *rows: Any, add: Callable[[Any, Any], Any] = added) -> Any:
        """work(block, *rows) of every part, added up in order: arrays, or tuples of arrays."""
        return self.layout.fold(work, add, self.block, *map(self._own, rows))

    def _own(self, values: Any) -> ByRow:
        """A vector by these rows, in these parts."""
        if isinstance(values, ByRow) and values.layout is self.layout:
            return values
        return self.layout.given(np.asarray(values))

    @property
    def n_sweeps(self) -> float:  # type: ignore[override]
        return self.tally.sweeps

    @abstractmethod
    def _part_of(self, index: np.ndarray) -> Parted:
        """The rows at the index, left where they are."""

    @abstractmethod
    def fits(self, n_rows: int, n_columns: int) -> bool:
        """Whether so many entries may be copied to where this runs."""

    # Vectors by rows.

    def by_row(self, values: Any, dtype: Any = None) -> Any:
        if isinstance(values, ByRow):
            return values if dtype is None else values.astype(dtype)
        return self.layout.given(np.asarray(values, dtype=dtype or self.reference.dtype))

    def doubles(self, values: Any) -> Any:
        return values.astype(np.float64) if isinstance(values, ByRow) else np.asarray(values, dtype=np.float64)

    def constant(self, value: float) -> Any:
        return ByRow(self.layout, np.empty(0), _constant, (self.block, value))

    # Products.

    def forward(self, w: Array, support: Array | None = None) -> Any:
        return self.spanned(None if support is None else np.asarray(support), w if support is None else w[support])

    def spanned(self, index: np.ndarray | None, vectors: Any) -> Any:
        """X[:, index] @ vectors as a vector by rows: computed with whatever is made of it."""
        vectors = np.asarray(vectors, dtype=self.reference.dtype)
        sample = np.empty((0, *vectors.shape[1:]), dtype=vectors.dtype)
        if not vectors.any():
            return ByRow(self.layout, sample, _zeros, (self.block,), {"sample": sample})
        return ByRow(self.layout, sample, _product, (self.block, index, vectors))

    def adjoint(self, r: Array) -> Array:
        return self._fold(_adjoint, self.by_row(r)).astype(self.reference.dtype, copy=False)

    def summed(self, work: Callable[..., Any], *rows: Any) -> Any:
        return self._fold(work, *rows)

    def beside(self, terms: ByRow, r: ByRow) -> tuple[float, Array]:
        total, images = self._fold(_beside, terms, r)
        return float(total), images.astype(self.reference.dtype, copy=False)

    def correlations(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(self._fold(_correlations, self.by_row(r, np.float64)))

    # Sums.

    def moments(self, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(weights, float):
            gram, mean = self._fold(_moments)
            return weights * gram, weights * mean
        gram, mean = self._fold(_moments, self.by_row(weights, np.float64))
        return gram, mean

    def square_sums(self, weights: Any) -> np.ndarray:
        return np.asarray(self._fold(_square_sums, self.by_row(weights, np.float64)))

    @cached_property
    def squares(self) -> np.ndarray:
        return np.asarray(self._fold(_squares))

    @cached_property
    def sums(self) -> np.ndarray:
        return np.asarray(self._fold(_sums))

    def grams(self, index: np.ndarray) -> np.ndarray | None:
        return np.asarray(self._fold(partial(_grams, index=index)))

    def triangle(self, root: Any, r: Any, centre: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """By QR factorisations of the parts, each put below the last triangle."""
        rows = [self.by_row(v, np.float64) for v in (root, r)]
        T = self._fold(partial(_triangle, centre=centre), *rows, add=_below)
        return T[:, :-1], T[:, -1]

    def weighted_mean(self, share: Any) -> np.ndarray:
        return np.asarray(self.correlations(share) / share.sum())

    def row_norms(self) -> np.ndarray:
        return np.asarray(ByRow(self.layout, np.empty(0), _row_norms, (self.block,)))

    def affords(self, n_columns: int) -> bool:
        return n_columns <= _TOGETHER

    # Pieces.

    def rows(self, index: np.ndarray) -> Design:
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        part = self._part_of(index)
        return Dense(part.dense()) if self.fits(index.size, self.shape[1]) else part

    def __getitem__(self, index: np.ndarray) -> Design:
        return self._part_of(np.asarray(index))

    def dense(self) -> np.ndarray:
        if not self.fits(*self.shape):
            n, p = self.shape
            raise MemoryError(
                f"{n} x {p} numbers are wanted at once, which is more than memory={self.memory:.3g} bytes allow; "
                "raise memory= where the data are read, or take a smaller k"
            )
        sample = np.empty((0, self.shape[1]), dtype=self.reference.dtype)
        return self.layout.gather(ByRow(self.layout, sample, entries, (self.block,)))

    memory: float = np.inf

    def on_host(self) -> Dense:
        return Dense(np.asfortranarray(in_double(self.dense())))

    @property
    def T(self) -> NoReturn:
        raise TypeError("X is in parts of its rows, and has no transpose; its products are adjoint(r)")


# What is done with a part.


def _zeros(block: Design, sample: np.ndarray) -> np.ndarray:
    return np.zeros((block.shape[0], *sample.shape[1:]), dtype=sample.dtype)


def _constant(block: Design, value: float) -> np.ndarray:
    return np.full(block.shape[0], value)


def _product(block: Design, index: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
    if index is None:
        return np.asarray(block.forward(vectors))
    whole = np.zeros((block.shape[1], *vectors.shape[1:]), dtype=vectors.dtype)
    whole[index] = vectors
    return np.asarray(block.forward(whole, index))


def _adjoint(block: Design, r: np.ndarray) -> np.ndarray:
    return np.asarray(in_double(np.asarray(block.adjoint(block.asarray(r)))))


def _beside(block: Design, terms: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sum(terms), _adjoint(block, r)


def _correlations(block: Design, r: np.ndarray) -> np.ndarray:
    return np.asarray(block.correlations(r))


def _moments(block: Design, weights: np.ndarray | float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return block.moments(weights)


def _square_sums(block: Design, weights: np.ndarray) -> np.ndarray:
    return block.square_sums(weights)


def _squares(block: Design) -> np.ndarray:
    return block.squares


def _sums(block: Design) -> np.ndarray:
    return block.sums


def rows_of(block: Design, index: Any) -> Design:
    """Some of them."""
    return block.rows(index)


def _row_norms(block: Design) -> np.ndarray:
    return block.row_norms()


def entries(block: Design) -> np.ndarray:
    """All of them."""
    return np.asarray(block.dense())


def _grams(block: Design, index: np.ndarray) -> np.ndarray:
    """X_JᵀX_J of every row J of an array, -1 being no column."""
    found = block.grams(index)
    if found is not None:
        return found
    there = index >= 0
    columns = np.unique(index[there])
    X = in_double(np.asarray(block.columns(columns).dense()))
    X = np.hstack([X, np.zeros((len(X), 1))])
    place = np.where(there, np.searchsorted(columns, index), columns.size)
    return np.stack([X[:, J].T @ X[:, J] for J in place])


def _triangle(block: Design, root: np.ndarray, r: np.ndarray, centre: np.ndarray | None) -> np.ndarray:
    A = in_double(np.asarray(block.dense()))
    A = A if centre is None else A - centre
    return np.asarray(np.linalg.qr(np.column_stack([root[:, None] * A, root * r]), mode="r"))


def _below(T: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.qr(np.vstack([T, other]), mode="r"))


def of_product(node: ByRow) -> tuple[np.ndarray, np.ndarray] | None:
    """Which columns a product is made of, and by how much of each; None of other nodes, and of all columns."""
    if node.f is not _product or node.args[1] is None:
        return None
    return node.args[1], node.args[2]
