"""The quadratic model of a risk at a point, seen through few columns of its Hessian."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, like, to_host
from .._core.linear_systems import APART
from ..design import Design
from ..sets.polyhedron import Polyhedron
from .point import Point

_TOGETHER = 64  # columns whose products are as quick as those of a few


class Curvature(ABC):
    """G with R(w + u) ≈ R(w) + <∇R(w), u> + uᵀGu: ½∇²R at a point w, or a matrix above it.

    Attributes
    ----------
    exact : bool
        Whether R is its own quadratic model.
    corrects : bool
        Whether `correction` is known where the model is exact; G is then made of products, and rounded itself.
    corrects_parts : bool
        Whether it is quick where most coordinates are held by their bounds.
    applies : bool
        Whether products with single vectors, `apply`, are quick.
    spent : int
        Products with the data so far.
    piece : Curvature, optional
        ½∇²R itself, where this one lies above it.
    shared : Curvature, optional
        The block of each output, where G is block diagonal with the same block for all of them.
    n_shared : int
        How many outputs share it.
    one_by_one : bool
        Whether `images` of several vectors take as long as those of each.
    rank : float
        What that of G is at the most, where something is known.
    """

    piece: Curvature | None = None
    shared: Curvature | None = None
    n_shared: int = 1
    one_by_one: bool = False
    rank: float = math.inf
    exact: bool = False
    corrects: bool = False
    corrects_parts: bool = False
    applies: bool = False
    spent: int = 0

    @abstractmethod
    def affords(self, n_columns: int) -> bool:
        """Whether so many columns fit, and cost little more than one."""

    @property
    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """The diagonal of G."""

    @property
    def sizes(self) -> np.ndarray:
        """Its diagonal, or what is near it and at hand."""
        return self.diagonal

    @abstractmethod
    def columns(self, index: np.ndarray) -> Array:
        """G[:, index]: on the host, or on the device where the data are."""

    def beside(self, index: np.ndarray) -> tuple[Array, np.ndarray | float]:
        """The same without what G has on its diagonal alone, which the rows of other coordinates do not see; and that.

        A damping that changes needs no copy of the columns then.
        """
        return self.columns(index), 0.0

    @abstractmethod
    def images(self, index: np.ndarray, vectors: np.ndarray) -> Array:
        """G[:, index] @ vectors: on the host, or on the device where the data are."""

    @abstractmethod
    def block(self, index: np.ndarray) -> np.ndarray:
        """G[index, index]."""

    def remembers(self, n_columns: int) -> bool:
        """Whether blocks of so many columns are dear, and what they share with those before is not computed anew."""
        return False

    @property
    def apart(self) -> bool:
        """Whether the columns that G is the products of are known to be far from depending on each other."""
        return False

    def let_go(self) -> None:  # noqa: B027 - most keep none
        """Of columns that were asked for before."""

    @property
    def total(self) -> float:
        """How large G is beside the products of the columns, as weights of the rows that add up to it."""
        return 1.0

    def apply(self, vector: np.ndarray) -> np.ndarray:
        """Gu, at one product with the data and one with their transpose; for those that say so."""
        raise NotImplementedError

    def towards_piece(self, share: float) -> Curvature:
        """The mean of a share of this one and of the rest of its piece; itself where it has none."""
        return self

    def cross(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """G[rows, columns]."""
        return np.asarray(to_host(self.columns(columns))[rows], dtype=float)

    def remembered(self, index: np.ndarray) -> np.ndarray:
        """G[index, index], in which what was computed before is not computed anew where that counts."""
        return self.block(index)

    @property
    def is_rough(self) -> bool:
        """Whether images in single precision are the quicker ones."""
        return False

    def rough_images(self, index: np.ndarray, vectors: np.ndarray, out: np.ndarray) -> None:
        """Write (G[:, index] @ vectors)ᵀ for vectors of size 1 in the metric of G; in single precision where rough."""
        out[:] = to_host(self.images(index, vectors)).T

    def blocks(self, index: np.ndarray) -> np.ndarray:
        """G[J, J] for each row J of an array of shape (m, g), in which -1 is no coordinate: zeros in its place."""
        m, g = index.shape
        found, step = np.zeros((m, g, g)), max(1, _TOGETHER // g)
        for start in range(0, m, step):
            some = index[start : start + step]
            members = np.unique(some[some >= 0])
            block = np.zeros((members.size + 1, members.size + 1))
            block[:-1, :-1] = self.block(members)
            place = np.where(some >= 0, np.searchsorted(members, some), members.size)
            found[start : start + step] = block[place[:, :, None], place[:, None, :]]
        return found

    def pull(self, origin: Point, index: np.ndarray) -> np.ndarray:
        """-½∇R at some coordinates of the origin, as accurately as G is known."""
        return np.asarray(-0.5 * to_host(origin.gradient).astype(float)[index])

    def correction(self, w: np.ndarray, state: Any, within: Polyhedron, deadline: float) -> np.ndarray | None:
        """argmin R(w + u) over the u with w + u in a set for a quadratic R, more accurately than by G; None elsewhere.

        The state is that of a `Point` at w, a member.
        """
        return None


class MatrixCurvature(Curvature):
    """G = ½Q of ½wᵀQw - bᵀw."""

    exact = True

    def __init__(self, design: Design) -> None:
        self.design = design

    def affords(self, n_columns: int) -> bool:
        """Whether so many columns fit: they are dense, but no more than a few."""
        return self.design.in_memory or self.design.shape[0] * n_columns <= 10**7

    @property
    def diagonal(self) -> np.ndarray:
        return 0.5 * self.design.diagonal().astype(float)

    def columns(self, index: np.ndarray) -> np.ndarray:
        return 0.5 * to_host(self.design.columns(index).dense()).astype(float)

    def block(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(self.columns(index)[index])

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(0.5 * to_host(self.design.columns(index).forward(self.design.asarray(vectors))))


class Derived(Curvature):
    """A curvature made of another one, on whose account the products are."""

    def __init__(self, inner: Curvature) -> None:
        self.inner, self.exact, self.one_by_one = inner, inner.exact, inner.one_by_one

    @property
    def spent(self) -> int:  # type: ignore[override]
        return self.inner.spent

    def affords(self, n_columns: int) -> bool:
        return self.inner.affords(n_columns)

    def remembers(self, n_columns: int) -> bool:
        return self.inner.remembers(n_columns)

    def let_go(self) -> None:
        self.inner.let_go()


class SelectedCurvature(Derived):
    """G on some of the coordinates."""

    def __init__(self, whole: Curvature, support: np.ndarray) -> None:
        super().__init__(whole)
        self.support = support

    @property
    def diagonal(self) -> np.ndarray:
        return np.asarray(self.inner.diagonal[self.support])

    def columns(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(to_host(self.inner.columns(self.support[index]))[self.support])

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(to_host(self.inner.images(self.support[index], vectors))[self.support])

    def cross(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.inner.cross(self.support[rows], self.support[columns])

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(self.support[index])

    @property
    def corrects(self) -> bool:  # type: ignore[override]
        return self.inner.corrects_parts

    def correction(self, w: np.ndarray, state: Any, within: Polyhedron, deadline: float) -> np.ndarray | None:
        if within.h.size:
            return None
        whole = np.zeros((3, state.w.shape[0]))
        whole[:, self.support] = w, within.lower, within.upper
        box = Polyhedron.box(whole[1], whole[2], whole.shape[1])
        move = self.inner.correction(whole[0], state.state, box, deadline)
        return None if move is None else move[self.support]


class DampedCurvature(Derived):
    """G + diag(damping)."""

    def __init__(self, inner: Curvature, damping: np.ndarray) -> None:
        super().__init__(inner)
        self.damping = damping
        self._last: tuple[bytes, Array] | None = None
        self.piece = inner.piece and DampedCurvature(inner.piece, damping)
        self.applies = inner.applies
        self.n_shared, each = inner.n_shared, damping.reshape(inner.n_shared, -1)
        if inner.shared is not None and (each == each[0]).all():
            self.shared = DampedCurvature(inner.shared, each[0])

    @property
    def diagonal(self) -> np.ndarray:
        return np.asarray(self.inner.diagonal + self.damping)

    @cached_property
    def apart(self) -> bool:
        """Of each column the others leave at least its damping."""
        return self.exact and bool((self.damping > APART * self.diagonal).all())

    def columns(self, index: np.ndarray) -> Array:
        if self._last is not None and self._last[0] == index.tobytes():
            return self._last[1]
        self._last = None  # before there are others
        columns = self.inner.columns(index)
        columns = columns.copy() if isinstance(columns, np.ndarray) else columns.clone()
        place = index_like(np.arange(index.size), columns)
        columns[index_like(index, columns), place] += like(self.damping[index], columns)
        self._last = index.tobytes(), columns
        return columns

    def beside(self, index: np.ndarray) -> tuple[Array, np.ndarray | float]:
        columns, alone = self.inner.beside(index)
        return columns, alone + self.damping[index]

    def images(self, index: np.ndarray, vectors: np.ndarray) -> Array:
        images = self.inner.images(index, vectors)
        images[index_like(index, images)] += like(self.damping[index, None] * vectors, images)
        return images

    def block(self, index: np.ndarray) -> np.ndarray:
        block = self.inner.block(index)
        block[np.diag_indices_from(block)] += self.damping[index]
        return block

    def cross(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        found = self.inner.cross(rows, columns)
        both, i, j = np.intersect1d(rows, columns, assume_unique=True, return_indices=True)
        found[i, j] += self.damping[both]
        return found

    @property
    def total(self) -> float:
        return self.inner.total

    def apply(self, vector: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.apply(vector) + self.damping * vector)

    def towards_piece(self, share: float) -> Curvature:
        return DampedCurvature(self.inner.towards_piece(share), self.damping)

    def remembered(self, index: np.ndarray) -> np.ndarray:
        return self.inner.remembered(index) + np.diag(self.damping[index])

    def blocks(self, index: np.ndarray) -> np.ndarray:
        found, every = self.inner.blocks(index).copy(), np.arange(index.shape[1])
        found[:, every, every] += np.where(index >= 0, self.damping[index], 0.0)
        return found
