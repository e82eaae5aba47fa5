"""Random directions for zeroth-order gradients: drawn in blocks, reproducible by number, never all at once."""

from __future__ import annotations  # np.random is not loaded for a signature

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_BLOCK = 2**21  # numbers a block may hold


def stream(entropy: Sequence[int], *place: int) -> np.random.Generator:
    """The random numbers of one place in a run (iteration, block): no state to carry from place to place."""
    return np.random.default_rng([*entropy, *place])


@dataclass(frozen=True)
class Directions:
    """Directions u_1, ..., u_m, each on the unit sphere of its own support of size s2.

    Attributes
    ----------
    values : array of shape (m, s2)
    index : array of shape (m, s2), or None
        The supports; None where s2 = d and values are the directions themselves.
    n_features : int
    """

    values: np.ndarray
    index: np.ndarray | None
    n_features: int

    def __len__(self) -> int:
        return len(self.values)

    def points(self, w: np.ndarray, mu: float) -> np.ndarray:
        """The rows w + μu_i."""
        if self.index is None:
            return w + mu * self.values
        points = np.repeat(w[None, :], len(self), axis=0)
        np.put_along_axis(points, self.index, np.take_along_axis(points, self.index, 1) + mu * self.values, 1)
        return points

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Σ_i weights_i u_i."""
        if self.index is None:
            return np.asarray(weights @ self.values)
        weighted = weights[:, None] * self.values
        return np.bincount(self.index.ravel(), weighted.ravel(), minlength=self.n_features)

    def matrix(self) -> Any:
        """The directions as rows: an array, or a sparse matrix where s2 < d."""
        if self.index is None:
            return self.values
        from scipy.sparse import csr_array

        m, s2 = self.values.shape
        start = np.arange(0, m * s2 + 1, s2)
        return csr_array((self.values.ravel(), self.index.ravel(), start), shape=(m, self.n_features))


def blocks(entropy: Sequence[int], t: int, q: int, n_features: int, s2: int) -> Iterator[Directions]:
    """The q directions of iteration t, block by block; the same whenever they are asked for."""
    rows = max(1, _BLOCK // n_features)
    for number, first in enumerate(range(0, q, rows)):
        rng, m = stream(entropy, t, number), min(rows, q - first)
        values = rng.standard_normal((m, s2))
        # a vanishing normal vector has probability zero, but then any direction is as good as another
        size = np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
        values /= np.where(size > 0, size, 1.0)
        yield Directions(values, None if s2 == n_features else _supports(rng, m, n_features, s2), n_features)


def _supports(rng: np.random.Generator, m: int, d: int, s2: int) -> np.ndarray:
    """m uniformly random subsets of size s2 of range(d), each row increasing."""
    if s2 * s2 < d or d > _BLOCK:
        # few of many: draw with repetition and redraw the rows that repeat; what remains is uniform
        index = np.sort(rng.integers(0, d, (m, s2)), axis=1)
        while True:
            clash = np.flatnonzero((np.diff(index, axis=1) == 0).any(axis=1))
            if clash.size == 0:
                return index
            if s2 * s2 >= d:  # repetitions are the rule: draw these rows one by one
                for i in clash:
                    index[i] = np.sort(rng.choice(d, s2, replace=False, shuffle=False))
                return index
            index[clash] = np.sort(rng.integers(0, d, (clash.size, s2)), axis=1)
    order = np.argpartition(rng.random((m, d)), s2 - 1, axis=1)[:, :s2]
    return np.sort(order, axis=1)
