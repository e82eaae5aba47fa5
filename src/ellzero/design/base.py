"""What every kind of data matrix answers, so that a risk is written once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host, zeros
from .by_row import ByRow

#: a product that looks at fewer numbers is over before an index array is looked at
SMALL = 50_000
_BLOCK = 2**20  # entries converted at a time where a matrix must not be copied as a whole


class Design(ABC):
    """A matrix X of shape (n, p), known by its products.

    A kind of its own writes the abstract methods, those after `square_sums` where entries can be read, and stands in
    the list of `reading`.

    Attributes
    ----------
    shape : (n, p)
    reference : array
        Shows the library, dtype and device of the vectors that X is multiplied with.
    explicit : bool
        Whether entries can be read, so that `moments` is affordable.
    in_memory : bool
        Whether X is an array whose products are taken as they are.
    at_hand : bool
        Whether columns and rows are had from memory, those of a sparse matrix as well.
    parted : bool
        Whether the rows are elsewhere, in files or on a cluster. Then vectors as long as there are rows may be there,
        too: `ByRow` stands for these.
    one_by_one : bool
        Whether a product with several vectors takes as long as one product with each of them.
    names : list of str or None
        Of the columns, where data that are elsewhere tell them.
    has_whole_columns : bool
        Whether each column lies in one place on the host: a copy of some is of no use then.
    narrow : bool
        Whether they are so few columns of such rows that a look at them takes longer to ask for than to do.
    n_sweeps : float
        How often such rows were gone through.
    """

    shape: tuple[int, int]
    reference: Array
    explicit = True
    in_memory = False
    at_hand = False
    parted = False
    one_by_one = False
    has_whole_columns = False
    narrow = False
    names: list[str] | None = None
    n_sweeps: float = 0

    @classmethod
    @abstractmethod
    def recognises(cls, X: Any) -> bool:
        """Whether X is of this kind."""

    @classmethod
    @abstractmethod
    def read(cls, X: Any, name: str) -> Design:
        """X, which is of this kind and two-dimensional; its entries are checked, and not copied without need."""

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

    def products(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        """X_IᵀΩX_J for columns I and J, on the host and in double precision; ω may be one number."""
        A, B = (to_host(in_double(self.columns(index).dense())) for index in (left, right))
        return np.asarray(A.T @ (weights * B.T).T)

    def centred_products(self, left: np.ndarray, right: np.ndarray, weights: Any, means: np.ndarray) -> np.ndarray:
        """Σ_i ω_i (x_i - m)_I (x_i - m)_Jᵀ for columns I and J; ω may be one number.

        m are the means of all columns, nearly: taken off before the products, and not after them, when what is left of
        large numbers has lost its digits.
        """
        weights = self.constant(weights) if isinstance(weights, float) else weights
        work = partial(_centred_products, left=left, right=right, means=means)
        found, of_left, of_right, total = self.summed(work, weights)
        return np.asarray(found - np.outer(of_left, of_right) / max(float(total), 1e-300))

    def centred_squares(self, index: np.ndarray, weights: Any, means: np.ndarray) -> np.ndarray:
        """The same of each of some columns with itself alone."""
        weights = self.constant(weights) if isinstance(weights, float) else weights
        found, sums, total = self.summed(partial(_centred_squares, index=index, means=means), weights)
        return np.asarray(found - sums**2 / max(float(total), 1e-300))

    @property
    def size(self) -> int:
        """How many numbers of double precision take as much memory as X."""
        return math.prod(self.shape)

    @property
    def has_rough_adjoint(self) -> bool:
        """Whether Xᵀr is quicker in single precision, and has numbers of a fit size for it."""
        return False

    def rough_adjoint(self, r: np.ndarray, out: np.ndarray) -> None:
        """Write (Xᵀr)ᵀ in single precision, for r of shape (n, c) on the host."""
        raise NotImplementedError

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        """Σ_i ω_i X_ij² for every column j, on the host and in double precision; ω may have several columns."""
        raise NotImplementedError

    @cached_property
    def squares(self) -> np.ndarray:
        """Σ_i X_ij² for every column j: one look at the data, kept."""
        return self.square_sums(np.ones(self.shape[0]))

    @cached_property
    def sums(self) -> np.ndarray:
        """Σ_i X_ij for every column j, on the host and in double precision."""
        return self.correlations(np.ones(self.shape[0]))

    def spanned(self, index: np.ndarray, vectors: Any) -> Array:
        """X[:, index] @ vectors."""
        return self.columns(index).forward(self.asarray(vectors))

    def triangle(self, root: np.ndarray, r: np.ndarray, centre: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """A and b such that ||Au - b||² is Σ_i root_i² ((x_i - centre)ᵀu - r_i)², but for a constant."""
        X = to_host(self.dense()).astype(float)
        return root[:, None] * (X if centre is None else X - centre), root * r

    def beside(self, terms: Any, r: Array) -> tuple[float, Array]:
        """Σ_i terms_i and Xᵀr, by one look at the rows."""
        return float(terms.sum()), self.adjoint(r)

    def summed(self, work: Callable[..., Any], *rows: Any) -> Any:
        """Σ of work(part of X, parts of vectors by rows) over the parts, by one look at these."""
        return work(self, *map(here, rows))

    def weighted_mean(self, share: np.ndarray) -> np.ndarray:
        """Σ_i share_i x_i / Σ_i share_i, as accurately as double precision allows."""
        return np.asarray(share @ to_host(self.dense()).astype(float) / share.sum())

    def correlations(self, r: np.ndarray) -> np.ndarray:
        """Xᵀr on the host and in double precision, whatever X is."""
        return sum((in_rows.T @ r[rows] for rows, in_rows in self._in_double()), np.zeros(self.shape[1]))

    def row_norms(self) -> np.ndarray:
        """||x_i|| for every row i."""
        return np.concatenate([np.linalg.norm(block, axis=1) for _, block in self._in_double()])

    def _in_double(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their numbers, on the host and in double precision, no more at a time than a block."""
        for rows in row_blocks(self.shape):
            yield rows, to_host(in_double(self.rows(np.arange(rows.start, rows.stop)).dense()))

    def doubled(self) -> Iterator[Design]:
        """The rows in double precision, where they are, no more of them at a time than a block."""
        raise NotImplementedError

    def on_host(self) -> Design:
        """The same matrix with its entries in `X`, on the host, in double precision and by columns."""
        raise NotImplementedError

    def scaled(self, scales: np.ndarray) -> Design | None:
        """X diag(scales), as a copy; None of what must not be copied."""
        return None

    def affords(self, n_columns: int) -> bool:
        """Whether a product with so many vectors at once takes little longer than one with a single vector."""
        return True

    # Of a square X.

    def diagonal(self) -> np.ndarray:
        """X_jj."""
        raise NotImplementedError

    def absolute_row_sums(self) -> np.ndarray:
        """Σ_j |X_ij|."""
        return np.concatenate([np.abs(block).sum(axis=1) for _, block in self._in_double()])

    def asymmetry(self) -> tuple[float, float]:
        """The largest entry of |X - Xᵀ| and of |X|."""
        raise NotImplementedError

    def symmetrised(self) -> Design:
        """(X + Xᵀ)/2."""
        raise NotImplementedError

    def grams(self, index: np.ndarray) -> np.ndarray | None:
        """X_JᵀX_J for each row J of an array, in which -1 is no column; None where one by one is as quick."""
        return None

    def forget(self) -> None:  # noqa: B027 - most have gathered nothing
        """Let go of what a run has gathered."""

    def expect(self, index: np.ndarray) -> None:  # noqa: B027 - most have them at hand
        """Columns that are about to be asked for, in several calls: one look at the data may be enough for all."""

    def fits(self, n_rows: int, n_columns: int) -> bool:
        """Whether so many entries may be copied to the host."""
        return True

    def undisturbed(self) -> AbstractContextManager[None]:
        """While sums are made that are not this design's: no automatic casts."""
        return nullcontext()

    def at_work(self, verbose: int) -> AbstractContextManager[None]:
        """While it lasts, a run asks: long looks at the data are shown, and the host keeps out of their way."""
        return nullcontext()

    def by_row(self, values: Any, dtype: Any = None) -> Array:
        """A vector with an entry for each row, where the rows are; in their precision, or another."""
        return like(values, self.reference, dtype)

    def constant(self, value: float) -> Array:
        """The same number for each row, in double precision: on the host, or where the rows are."""
        return np.full(self.shape[0], value)

    def doubles(self, values: Any) -> Array:
        """Such a vector in double precision: on the host, or where the rows are if they are elsewhere."""
        return to_host(values).astype(float)

    def asarray(self, values: Any) -> Array:
        """Values in the library, dtype and device of X."""
        return like(values, self.reference)

    def zeros(self, size: int) -> Array:
        """A vector of zeros in the library, dtype and device of X."""
        return zeros(size, self.reference)


def take(a: Array, index: Array, axis: int = 0) -> Array:
    """The entries of a at the index along an axis, in any library."""
    if isinstance(a, (np.ndarray, ByRow)):
        return a[index] if axis == 0 else a[:, index]
    return namespace(a).take(a, index_like(index, a), axis=axis)


def here(a: Array) -> Array:
    """Itself, or, if it is a vector by rows of an X that is elsewhere, all of its rows on the host."""
    return np.asarray(a) if isinstance(a, ByRow) else a


def _centred_products(
    design: Design, weights: np.ndarray, left: np.ndarray, right: np.ndarray, means: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Those of some rows, the sums of the columns less their means, and that of the weights."""
    every, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    i, j = place[: left.size], place[left.size :]
    found, sums = np.zeros((left.size, right.size)), np.zeros(every.size)
    for rows, block in design.columns(every)._in_double():
        centred = block - means[every]
        scaled = weights[rows, None] * centred
        found += scaled[:, i].T @ centred[:, j]
        sums += scaled.sum(axis=0)
    return found, sums[i], sums[j], np.sum(weights)


def _centred_squares(
    design: Design, weights: np.ndarray, index: np.ndarray, means: np.ndarray
) -> tuple[np.ndarray, ...]:
    found, sums = np.zeros(index.size), np.zeros(index.size)
    for rows, block in design._in_double():
        centred = block[:, index] - means[index]
        sums += weights[rows] @ centred
        found += weights[rows] @ np.square(centred, out=centred)
    return found, sums, np.sum(weights)


def row_blocks(shape: tuple[int, ...], block: int = _BLOCK) -> Iterator[slice]:
    """Slices of rows that hold about a million entries each, or another number."""
    step = max(1, block // shape[1])
    return (slice(start, min(start + step, shape[0])) for start in range(0, shape[0], step))


def in_double(block: Array) -> Array:
    """The same numbers in double precision; not copied if they are so already."""
    if isinstance(block, np.ndarray):
        return block.astype(np.float64, copy=False)
    xp = namespace(block)
    return xp.astype(block, xp.float64)


def is_native_float(dtype: np.dtype) -> bool:
    """Whether products take numbers of this kind as they are."""
    return dtype in (np.float32, np.float64) and dtype.isnative


def check_kind(dtype: np.dtype, name: str) -> None:
    """Refuse what is no real number."""
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {dtype}; encode or drop other columns first")


def not_finite(name: str, value: float, row: int, column: int, place: str = "") -> ValueError:
    """The error for an entry that is NaN or infinite; `place` tells where else to look for it."""
    return ValueError(
        f"{name} must be finite, got {value} in row {row}, column {column}{place}; drop or impute such entries first"
    )
