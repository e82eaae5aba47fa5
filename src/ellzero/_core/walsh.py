"""Random ±1 vectors that are orthogonal: rows of a Walsh-Hadamard matrix, in random order, with random signs."""

from __future__ import annotations  # np.random is not loaded for a signature

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from .directions import stream

_BLOCK = 2**21  # numbers that a block of rows may hold


class Walsh:
    """u_1, u_2, ... in {-1, 1}^d with Σ_{r<=N} u_r u_rᵀ = N·I.

    Coordinates sit at random places of rows of length N, a power of two above d, with random signs; the rows come in
    random order, and again from the first one after N of them. Place 0, where every row is 1, is left to a constant.
    So few of them are as good as independent ±1 vectors for the recovery of a sparse vector, and all N tell any vector.

    Parameters
    ----------
    n_features : int
    entropy : sequence of int
        Where order, places and signs come from.
    """

    def __init__(self, n_features: int, entropy: Sequence[int]) -> None:
        self.n_features, self.entropy = n_features, entropy
        self.n_rows = 1 << n_features.bit_length()

    @cached_property
    def _layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = stream(self.entropy)
        order = rng.permutation(self.n_rows)
        place = 1 + rng.choice(self.n_rows - 1, self.n_features, replace=False)
        return order, place, rng.choice(np.array([-1.0, 1.0]), self.n_features)

    def rows(self, first: int, last: int, columns: np.ndarray | None = None) -> np.ndarray:
        """u_first, ..., u_{last-1} as rows, or some of their columns."""
        order, place, sign = self._layout
        chosen = order[np.arange(first, last) % self.n_rows]
        at = slice(None) if columns is None else columns
        odd = np.bitwise_count(chosen[:, None] & place[at]) & 1
        return np.asarray(np.where(odd, -sign[at], sign[at]))

    def spans(self, first: int, last: int) -> list[tuple[int, int]]:
        """first, ..., last in pieces whose rows fit into memory."""
        step = max(1, _BLOCK // self.n_features)
        return [(start, min(start + step, last)) for start in range(first, last, step)]

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Σ_r weights_r u_r over the first rows, without any of them: N log N additions."""
        order, place, sign = self._layout
        total = np.bincount(order[np.arange(weights.size) % self.n_rows], weights, minlength=self.n_rows)
        return np.asarray(sign * _transform(total)[place])

    def solve(self, values: np.ndarray) -> np.ndarray | None:
        """g from <u_r, g> + a for N rows or more, with NaN for some; None if there are not enough."""
        at, worth = np.arange(values.size) % self.n_rows, np.isfinite(values)
        known = np.bincount(at[worth], minlength=self.n_rows)
        missing = known == 0
        if self.n_rows - np.count_nonzero(missing) <= self.n_features:
            return None
        row = np.bincount(at[worth], values[worth], minlength=self.n_rows) / np.maximum(known, 1)
        row[missing] = np.mean(row, where=~missing)
        g = self.combine(row) / self.n_rows
        for _ in range(100 if missing.any() else 0):  # what is missing is what g says it is
            row[missing] = (np.mean(row) + self.apply(g, self.n_rows))[missing]
            g = self.combine(row) / self.n_rows
        return g

    def apply(self, g: np.ndarray, n: int) -> np.ndarray:
        """<u_r, g> for the first n rows."""
        order, place, sign = self._layout
        spread = np.zeros(self.n_rows)
        spread[place] = sign * g
        return np.asarray(_transform(spread)[order[np.arange(n) % self.n_rows]])


def _transform(v: np.ndarray) -> np.ndarray:
    """Σ_r (-1)^popcount(r & i) v_r for every i."""
    half = 1
    while half < v.size:
        pair = v.reshape(-1, 2, half)
        v = np.concatenate([pair[:, :1] + pair[:, 1:], pair[:, :1] - pair[:, 1:]], axis=1).reshape(-1)
        half *= 2
    return v
