"""Vectors as long as X has rows, where these rows are: kept as recipes, and followed part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .program import Node


class Layout(ABC):
    """How rows are divided into parts, one after the other, and who computes with these.

    Attributes
    ----------
    places : list of slice or index arrays
        Which rows of a vector belong to each part.
    n : int
        How many rows there are.
    chosen : list of (int, slice or index array), optional
        The number of the part, among those that the data come in, that a part is made of, and which of its rows; by
        default all of all.
    """

    def __init__(self, places: list[Any], n: int, chosen: list[tuple[int, Any]] | None = None) -> None:
        self.places, self.n, self.chosen = places, n, chosen

    @property
    def parts(self) -> list[tuple[int, Any]]:
        """For each part the number of that which it is made of, and which of its rows."""
        return [(i, slice(None)) for i in range(len(self.places))] if self.chosen is None else self.chosen

    def split(self, index: np.ndarray) -> list[tuple[int, Any, np.ndarray]]:
        """For each part that some rows are in, its number, which of the rows these are, and which they are of it."""
        if self.chosen is None:  # one part after the other
            ends = np.array([place.stop for place in self.places])
            part = np.searchsorted(ends, index, side="right")
            within = index - np.concatenate([[0], ends])[part]
        else:
            whole = np.empty((2, self.n), dtype=np.intp)
            for i, place in enumerate(self.places):
                whole[0, place] = i
                whole[1, place] = np.arange(whole[0, place].size)
            part, within = whole[:, index]
        places = ((i, np.flatnonzero(part == i)) for i in np.unique(part).tolist())
        return [(i, _as_slice(place), within[place]) for i, place in places]

    def selection(self, index: np.ndarray) -> tuple[list[Any], list[tuple[int, Any]]]:
        """Places and choices of a layout of some of these rows, in any order; they may repeat."""
        found = self.split(index)
        chosen = [(self.parts[i][0], _as_slice(_lines(self.parts[i][1], within))) for i, _, within in found]
        return [place for _, place, _ in found], chosen

    @abstractmethod
    def given(self, values: np.ndarray) -> ByRow:
        """An array with n rows, of which each part gets its own."""

    @abstractmethod
    def gather(self, node: ByRow) -> np.ndarray:
        """All rows of a vector, here."""

    def take(self, node: ByRow, index: np.ndarray) -> np.ndarray:
        """Some rows of a vector, here."""
        return np.asarray(self.gather(node)[index])

    @abstractmethod
    def fold(self, work: Callable[..., Any], add: Callable[[Any, Any], Any], *nodes: Node) -> Any:
        """work(part of each node) of every part, added up in the order of the rows."""


def _lines(rows: Any, within: np.ndarray) -> np.ndarray:
    """Which rows of the data those of a part are."""
    return np.asarray(rows[within] if isinstance(rows, np.ndarray) else within + (rows.start or 0))


def _as_slice(index: np.ndarray) -> Any:
    """An index array as a slice, which copies nothing, where it is one."""
    first, last = int(index[0]), int(index[-1])
    run = last - first + 1 == index.size and (np.diff(index) == 1).all()
    return slice(first, last + 1) if run else index


class ByRow(NDArrayOperatorsMixin, Node):
    """A vector with an entry for each row of X, or a few of them, that is computed where the rows are.

    It stands where an array would: arithmetic and NumPy's elementwise functions give such vectors again, sums, maxima
    and products over the rows give numbers, by one look at the parts. What is not known how to do by parts is done
    here, with all rows gathered.

    Attributes
    ----------
    sample : array of shape (0, ...)
        What it is like.
    """

    def __init__(
        self,
        layout: Layout,
        sample: np.ndarray,
        f: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        leaf: Any = None,
    ) -> None:
        super().__init__(layout, f, args, kwargs, leaf)
        self.sample = sample

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, ...)."""
        return (self.layout.n, *self.sample.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Of its entries."""
        return self.sample.dtype

    @property
    def ndim(self) -> int:
        """1, or 2 where there are several entries a row."""
        return self.sample.ndim

    @property
    def size(self) -> int:
        """How many entries there are."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return int(self.layout.n)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.layout.gather(self), dtype=dtype, copy=None if copy is None else copy)

    def __array_namespace__(self, **_: Any) -> Any:
        return np

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.get("out") is not None:
            return getattr(ufunc, method)(*map(_here, inputs), **kwargs)
        return _product(*inputs) if ufunc is np.matmul else by_row(ufunc, *inputs, **kwargs)

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(f)
        return f(*map(_here, args), **kwargs) if known is None else known(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and isinstance(key[0], slice) and key[0] == slice(None):
            return by_row(_pick, self, key=key)
        index = np.asarray(key)
        if index.ndim == 1 and index.dtype.kind in "biu":
            return self.layout.take(self, np.flatnonzero(index) if index.dtype == bool else index)
        return self.layout.gather(self)[key]

    @property
    def T(self) -> Turned:
        """The transpose, of use in products alone."""
        return Turned(self)

    def astype(self, dtype: Any, copy: bool = True) -> ByRow:
        """With entries of another kind."""
        return self if self.dtype == dtype else by_row(_as_type, self, dtype=np.dtype(dtype))

    def sum(self, axis: int | None = None) -> Any:
        """Over the rows, or over the entries of each row (axis=1)."""
        return np.sum(self, axis=axis)

    def max(self, axis: int | None = None) -> Any:
        """Over the rows, or over the entries of each row (axis=1)."""
        return np.max(self, axis=axis)

    def min(self, axis: int | None = None) -> Any:
        """Over the rows, or over the entries of each row (axis=1)."""
        return np.min(self, axis=axis)

    def any(self) -> bool:
        """Whether an entry is not zero."""
        return bool(self.layout.fold(np.any, np.logical_or, self))

    def all(self) -> bool:
        """Whether no entry is zero."""
        return bool(self.layout.fold(np.all, np.logical_and, self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of shape {self.shape}, {self.dtype}>"


@dataclass(frozen=True)
class Turned:
    """The transpose of a vector by rows."""

    whole: ByRow
    #: so that an array does not take it for a scalar
    __array_ufunc__ = None

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)


# Building.


def by_row(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args) computed row by row: arrays as long as X has rows are divided, other arguments go to every part."""
    vectors = [a for a in args if isinstance(a, ByRow)]
    layout, ndim = vectors[0].layout, max(a.ndim for a in args if isinstance(a, (ByRow, np.ndarray)))
    args = tuple(_placed(a, layout, ndim) for a in args)
    with np.errstate(all="ignore"):
        sample = f(*(a.sample if isinstance(a, ByRow) else a for a in args), **kwargs)
    if isinstance(sample, tuple):
        return f(*map(_here, args), **kwargs)
    return ByRow(layout, sample, f, args, kwargs)


def _placed(argument: Any, layout: Layout, ndim: int) -> Any:
    """An argument for the parts: arrays that NumPy would align with the rows are divided."""
    if isinstance(argument, ByRow):
        return argument if argument.layout is layout else layout.given(np.asarray(argument))
    if isinstance(argument, np.ndarray) and argument.ndim == ndim and argument.shape[0] == layout.n > 1:
        return layout.given(argument)
    return argument


def _here(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_here, argument))
    return np.asarray(argument) if isinstance(argument, ByRow) else argument


def _pick(values: np.ndarray, key: Any) -> np.ndarray:
    return np.asarray(values[key])


def _as_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return values.astype(dtype, copy=False)


# Over all rows.


def _product(a: Any, b: Any) -> Any:
    """a @ b, where a vector by rows is one of both."""
    if isinstance(a, Turned) or (a.ndim == 1 and isinstance(b, ByRow)):  # over the rows
        a = a.whole if isinstance(a, Turned) else a
        layout = b.layout if isinstance(b, ByRow) else a.layout
        a, b = (_placed(v, layout, v.ndim) for v in (a, b))
        return layout.fold(_inner, np.add, a, b)
    if isinstance(a, ByRow) and a.ndim == 1:
        return _product(Turned(a), b)
    if isinstance(a, ByRow) and not isinstance(b, ByRow):
        return by_row(_times, a, matrix=b)
    return np.asarray(a) @ np.asarray(b)


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a.T @ b)


def _times(values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return np.asarray(values @ matrix)


@dataclass(frozen=True)
class _Along:
    """A function along an axis, for the parts."""

    f: Callable[..., Any]
    axis: int | None
    keepdims: bool = False

    def __call__(self, values: np.ndarray) -> Any:
        return self.f(values, axis=self.axis, keepdims=self.keepdims)


def _reduction(f: Callable[..., Any], add: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def reduce(values: Any, axis: int | None = None, *_: Any, keepdims: Any = False, **others: Any) -> Any:
        if axis not in (None, 0):
            return by_row(_Along(f, axis, bool(keepdims)), values)
        return values.layout.fold(_Along(f, axis), add, values)

    return reduce


def _norm(values: ByRow, *options: Any, **named: Any) -> Any:
    if options or named:
        return np.linalg.norm(np.asarray(values), *options, **named)
    return np.sqrt(np.sum(values * values))


def _broadcast(values: ByRow, shape: Any, **_: Any) -> Any:
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return values if wanted == values.shape else np.broadcast_to(np.asarray(values), shape)


#: what is known by parts; other functions get all rows
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction(np.sum, np.add),
    np.max: _reduction(np.max, np.maximum),
    np.min: _reduction(np.min, np.minimum),
    np.count_nonzero: _reduction(np.count_nonzero, np.add),
    np.linalg.norm: _norm,
    np.broadcast_to: _broadcast,
    **{f: (lambda *args, _f=f, **kwargs: by_row(_f, *args, **kwargs)) for f in (
        np.where, np.clip, np.zeros_like, np.ones_like, np.full_like
    )},
}  # fmt: skip


def totals(*vectors: Any) -> list[float]:
    """The sums of several vectors over the rows, by one look at these."""
    if not isinstance(vectors[0], ByRow):
        return [float(np.sum(vector)) for vector in vectors]
    return [float(total) for total in vectors[0].layout.fold(_sums, np.add, *vectors)]


def extent(values: ByRow, share: Any) -> tuple[float, float, float]:
    """The least and the largest entry, and Σ share·values, by one look at the rows."""
    low, high, mean = values.layout.fold(_extent, _wider, values, share * values)
    return float(low), float(high), float(mean)


def _extent(values: np.ndarray, shares: np.ndarray) -> tuple[Any, Any, Any]:
    return np.min(values), np.max(values), np.sum(shares)


def _wider(a: Any, b: Any) -> tuple[Any, Any, Any]:
    return min(a[0], b[0]), max(a[1], b[1]), a[2] + b[2]


def _sums(*vectors: np.ndarray) -> np.ndarray:
    return np.array([np.sum(vector) for vector in vectors])
