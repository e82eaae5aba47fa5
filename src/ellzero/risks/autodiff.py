"""Any loss that torch or JAX can differentiate: gradients, products with the Hessian, terms one by one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, norm, to_host
from .._core.validation import check_count
from .base import Point
from .curvature import Curvature
from .stated import Stated

_DIAGONAL = 4096  # coordinates up to which every entry of a diagonal is computed
_PROBES = 100  # signs by which it is estimated beyond
_TOGETHER = 64  # products with the Hessian at a time
_ROOM = 10**7  # numbers that a set of columns may hold
_TERMS = 64  # gradients of single terms at a time


class Autodiff(Stated):
    """R(w) = f(w), or (1/n) Σ_i f_i(w), by automatic differentiation; made by `from_torch` and `from_jax`.

    Attributes
    ----------
    start : array of shape (n_features,)
        The values of the tensors that were handed in, one after the other; zeros where a number was.
    parts : dict of str to slice
        Which coordinates belong to each of these tensors.
    """

    start: Array
    parts: dict[str, slice]
    #: whether f can be differentiated twice; None until somebody asks
    bends_exist: bool | None = None

    def __init__(
        self,
        f: Any,
        n_terms: int | None,
        batch: int | None,
        smoothness: float | None,
        strong_convexity: float | None,
        convex: bool,
        lower_bound: float,
    ) -> None:
        if not callable(f):
            raise TypeError(f"f must be a function of w, got {f!r}")
        self.f, self.finite_sum = f, n_terms is not None
        self.n_terms = 1 if n_terms is None else check_count(n_terms, "n_terms")
        self.has_terms = self.finite_sum
        if batch is not None and not self.finite_sum:
            raise ValueError("batch divides the terms of a finite sum: give n_terms, and f as a function of w and rows")
        self.batch = self.n_terms if batch is None else check_count(batch, "batch")
        self._state(smoothness, strong_convexity, convex, lower_bound)

    @property
    def labels(self) -> list[str]:
        """For each coordinate the name of its tensor: groups for `ellzero.sets.GroupWise` and sparsities."""
        return [name for name, part in self.parts.items() for _ in range(part.start, part.stop)]

    @abstractmethod
    def unravel(self, w: Array) -> Any:
        """w as what f takes: the tensors that were handed in, or itself."""

    # What a library writes; rows are those of a batch, or None for a function that is no sum.

    @abstractmethod
    def _loss(self, w: Array, rows: np.ndarray | None) -> float:
        """The mean of the terms."""

    @abstractmethod
    def _slopes(self, w: Array, rows: np.ndarray | None) -> tuple[float, Array]:
        """The mean of the terms and its gradient."""

    @abstractmethod
    def _bends(self, w: Array, rows: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
        """∇² of the mean of the terms times the rows of an array; on the host."""

    @abstractmethod
    def _each(self, w: Array, rows: np.ndarray) -> Array:
        """The gradients of single terms, one a row."""

    def _batches(self) -> Iterator[tuple[float, np.ndarray | None]]:
        """All terms in batches, each with its share."""
        if not self.finite_sum:
            yield 1.0, None
            return
        for start in range(0, self.n_terms, self.batch):
            rows = np.arange(start, min(start + self.batch, self.n_terms))
            yield rows.size / self.n_terms, rows

    def _forward(self, w: Array, support: Array | None) -> list[float]:
        return []  # the value, once a gradient has told it

    def _value(self, w: Array, state: list[float]) -> float:
        if not state:
            state.append(math.fsum(share * self._loss(w, rows) for share, rows in self._batches()))
        return state[0]

    def _gradient(self, w: Array, state: list[float]) -> Array:
        value, total = 0.0, None
        for share, rows in self._batches():
            loss, slopes = self._slopes(w, rows)
            value, total = value + share * loss, share * slopes if total is None else total + share * slopes
        state[:] = state or [value]
        return total

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        if not self.finite_sum:
            return super()._gradient_of_rows(w, rows)
        return self._slopes(w, rows)[1]

    def term_gradients(self, w: Array, rows: np.ndarray) -> Iterator[Array]:
        for start in range(0, rows.size, _TERMS):
            yield from self._each(w, rows[start : start + _TERMS])

    def bends(self, w: Array, vectors: np.ndarray) -> np.ndarray:
        """∇²R(w) times each row of an array."""
        found = np.zeros(vectors.shape)
        for start in range(0, len(vectors), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            for share, rows in self._batches():
                found[some] += share * self._bends(w, rows, vectors[some])
        return found

    def curvature(self, point: Point) -> HessianProducts | None:
        """½∇²R by products with vectors, where R is convex and twice differentiable."""
        if not self.convex:
            return None
        if self.bends_exist is None:
            self.bends_exist = self._agree(point)
        return HessianProducts(self, point.w) if self.bends_exist else None

    def _agree(self, point: Point) -> bool:
        """Whether a product with the Hessian is the change of the gradient: libraries may take it for zero instead."""
        w, eps = to_host(point.w).astype(float), finfo_eps(point.w)
        v = np.random.default_rng(0).standard_normal(w.size)
        v /= norm(v)
        h = eps ** (1 / 3) * max(1.0, norm(w))
        try:
            bend = self.bends(point.w, v[None])[0]
        except (NotImplementedError, RuntimeError, TypeError):  # of an operation without a second derivative
            return False
        ahead, behind = (to_host(self.gradient(w + step * v)).astype(float) for step in (h, -h))
        noise = 100 * eps * max(norm(ahead), norm(behind)) / h
        return bool(norm((ahead - behind) / (2 * h) - bend) <= 0.01 * norm(bend) + noise)


class HessianProducts(Curvature):
    """G = ½∇²R(w), known by its products with vectors: k of them for k columns.

    The diagonal takes a product for each coordinate, and beyond some thousands of these is an estimate by random signs
    s, the mean of s∘(Gs): it ranks exchanges, which are tried before they are believed.
    """

    def __init__(self, risk: Autodiff, w: Array) -> None:
        self.risk, self.w, self.spent = risk, w, 0
        self._cache: dict[int, np.ndarray] = {}

    def affords(self, n_columns: int) -> bool:
        return n_columns * self.risk.n_features <= _ROOM

    def _products(self, vectors: np.ndarray) -> np.ndarray:
        self.spent += len(vectors)
        return 0.5 * self.risk.bends(self.w, vectors)

    @cached_property
    def diagonal(self) -> np.ndarray:
        d = self.risk.n_features
        if d <= _DIAGONAL:
            return self._entries(d)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_PROBES, d))
        return np.asarray(np.maximum(np.mean(signs * self._products(signs), axis=0), 0.0))

    def _entries(self, d: int) -> np.ndarray:
        """The diagonal, some products at a time."""
        found = np.empty(d)
        for start in range(0, d, _TOGETHER):
            index = np.arange(start, min(start + _TOGETHER, d))
            found[index] = self._products(_units(index, d))[np.arange(index.size), index]
        return found

    def columns(self, index: np.ndarray) -> np.ndarray:
        missing = np.array([j for j in index.tolist() if j not in self._cache], dtype=np.intp)
        if missing.size:
            if not self.affords(len(self._cache) + missing.size):
                self._cache.clear()
                missing = index
            self._cache.update(
                zip(missing.tolist(), self._products(_units(missing, self.risk.n_features)), strict=True)
            )
        return np.array([self._cache[j] for j in index.tolist()]).T

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        whole = np.zeros((vectors.shape[1], self.risk.n_features))
        whole[:, index] = vectors.T
        return self._products(whole).T

    def block(self, index: np.ndarray) -> np.ndarray:
        block = self.columns(index)[index]
        return np.asarray(0.5 * (block + block.T))


def _units(index: np.ndarray, d: int) -> np.ndarray:
    """Rows of the unit matrix."""
    units = np.zeros((index.size, d))
    units[np.arange(index.size), index] = 1.0
    return units
