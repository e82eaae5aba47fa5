"""The quadratic model of a risk at a point, seen through few columns of its Hessian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, like, to_host
from ..design import Design


class Curvature(ABC):
    """G with R(w + u) ≈ R(w) + <∇R(w), u> + uᵀGu: ½∇²R at a point w, or a matrix above it.

    Attributes
    ----------
    exact : bool
        Whether R is its own quadratic model.
    corrects : bool
        Whether `correction` is known where the model is exact; G is then made of products, and rounded itself.
    spent : int
        Products with the data so far.
    piece : Curvature, optional
        ½∇²R itself, where this one lies above it.
    """

    piece: Curvature | None = None
    exact: bool = False
    corrects: bool = False
    spent: int = 0

    @abstractmethod
    def affords(self, n_columns: int) -> bool:
        """Whether so many columns fit, and cost little more than one."""

    @property
    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """The diagonal of G."""

    @abstractmethod
    def columns(self, index: np.ndarray) -> Array:
        """G[:, index]: on the host, or on the device where the data are."""

    @abstractmethod
    def images(self, index: np.ndarray, vectors: np.ndarray) -> Array:
        """G[:, index] @ vectors: on the host, or on the device where the data are."""

    @abstractmethod
    def block(self, index: np.ndarray) -> np.ndarray:
        """G[index, index]."""

    def correction(self, w: np.ndarray, state: Any) -> np.ndarray | None:
        """argmin R(w + u) over u for a quadratic R, more accurately than by G; None where there is no better way.

        The state is that of a `Point` at w.
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
        self.inner, self.exact = inner, inner.exact

    @property
    def spent(self) -> int:  # type: ignore[override]
        return self.inner.spent

    def affords(self, n_columns: int) -> bool:
        return self.inner.affords(n_columns)


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

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(self.support[index])


class DampedCurvature(Derived):
    """G + diag(damping)."""

    def __init__(self, inner: Curvature, damping: np.ndarray) -> None:
        super().__init__(inner)
        self.damping = damping
        self.piece = inner.piece and DampedCurvature(inner.piece, damping)

    @property
    def diagonal(self) -> np.ndarray:
        return np.asarray(self.inner.diagonal + self.damping)

    def columns(self, index: np.ndarray) -> Array:
        columns = self.inner.columns(index)
        columns = columns.copy() if isinstance(columns, np.ndarray) else columns.clone()
        place = index_like(np.arange(index.size), columns)
        columns[index_like(index, columns), place] += like(self.damping[index], columns)
        return columns

    def images(self, index: np.ndarray, vectors: np.ndarray) -> Array:
        images = self.inner.images(index, vectors)
        images[index_like(index, images)] += like(self.damping[index, None] * vectors, images)
        return images

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(index) + np.diag(self.damping[index])
