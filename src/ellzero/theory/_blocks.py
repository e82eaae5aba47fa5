"""The largest eigenvalue that an s x s principal block of a symmetric matrix can have.

    Λ(M, s) = max over |S| = s of λ_max(M_SS),      min over |S| = s of λ_min(M_SS) = -Λ(-M, s)

Finding it is sparse PCA, which is hard, so there are three answers: by enumeration where that is affordable, a
bound from above that costs an eigendecomposition, and a search that ends at some block, hence from below.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

#: enumeration looks at this many blocks at the most, and spends about this many operations
MOST_BLOCKS = 100_000
_MOST_OPERATIONS = 5e8
#: eigenvectors of the whole matrix are computed up to this size
LARGEST_DECOMPOSED = 2000
_SMALL_BLOCK = 50  # larger ones are searched for from fewer starts
_CHUNK = 2**21  # entries of blocks looked at together


class Decomposition(NamedTuple):
    """M = U diag(λ) Uᵀ, λ increasing."""

    values: np.ndarray
    vectors: np.ndarray


class Blocks:
    """Λ(M, s) for one symmetric M and any s; kept divided by a power of two near its largest entry.

    `noise` is how far the entries' rounding may move an eigenvalue of M, `eigen` its decomposition where that is known.
    """

    def __init__(self, M: np.ndarray, noise: float = 0.0, eigen: Decomposition | None = None) -> None:
        self.d = M.shape[0]
        size = float(np.abs(M).max())
        self.scale = 2.0 ** math.frexp(size)[1] if size > 0 else 1.0  # so that tiny or huge entries do no harm
        self.M = M / self.scale
        self._given = eigen and Decomposition(eigen.values / self.scale, eigen.vectors)
        largest = float(np.abs(self.M).sum(axis=1).max())  # at least every |λ|
        self._noise: float = noise / self.scale + 8 * np.finfo(float).eps * (self.d + 10) * largest

    @property
    def noise(self) -> float:
        """How far rounding may move an eigenvalue."""
        return self.scale * self._noise

    @cached_property
    def eigen(self) -> Decomposition | None:
        """The eigenvalues and -vectors of M/scale, where they are affordable."""
        if self._given is not None or self.d > LARGEST_DECOMPOSED:
            return self._given
        return Decomposition(*np.linalg.eigh(self.M))

    @cached_property
    def negative(self) -> Blocks:
        """The same for -M."""
        eigen = self.eigen and Decomposition(-self.scale * self.eigen.values[::-1], self.eigen.vectors[:, ::-1])
        return Blocks(-self.scale * self.M, self.noise, eigen)

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return np.asarray(np.diagonal(self.M))

    @cached_property
    def _off_diagonal(self) -> np.ndarray:
        """|M| with zeros on the diagonal."""
        size: np.ndarray = np.abs(self.M)
        np.fill_diagonal(size, 0.0)
        return size

    def exact(self, s: int) -> tuple[float, float] | None:
        """(-Λ(-M, s), Λ(M, s)), or None where that takes too long."""
        ends = self._ends(s)
        return None if ends is None else (self.scale * ends[0], self.scale * ends[1])

    def _ends(self, s: int) -> tuple[float, float] | None:
        if s == 1 or not self._off_diagonal.any():
            return float(self._diagonal.min()), float(self._diagonal.max())
        if s == 2:  # of [[a, c], [c, b]]: (a+b)/2 ± sqrt((a-b)²/4 + c²)
            half = 0.5 * self._diagonal
            radius = np.hypot(half[:, None] - half, self.M)
            np.fill_diagonal(radius, 0.0)
            middle = half[:, None] + half
            return float((middle - radius).min()), float((middle + radius).max())
        if s == self.d:
            values = self.eigen.values if self.eigen else None
            return None if values is None else (float(values[0]), float(values[-1]))
        count = math.comb(self.d, s)
        if count > MOST_BLOCKS or count * s**3 > _MOST_OPERATIONS:
            return None
        low, high = math.inf, -math.inf
        supports = itertools.combinations(range(self.d), s)
        while chunk := list(itertools.islice(supports, max(1, _CHUNK // s**2))):
            S = np.array(chunk)
            values = np.linalg.eigvalsh(self.M[S[:, :, None], S[:, None, :]])
            low, high = min(low, float(values[:, 0].min())), max(high, float(values[:, -1].max()))
        return low, high

    def bound(self, s: int) -> float:
        """A number that Λ(M, s) does not exceed: the smallest of three, each the best one somewhere."""
        bounds = [self._discs(s)]
        if self.eigen is not None:
            bounds += [self._spectral(s), self._discs_of_square(s)]
        return float(self.scale * (min(bounds) + self._noise))

    def _discs(self, s: int) -> float:
        """Gershgorin: max_i M_ii + the s-1 largest |M_ij|, j ≠ i; for M, and for D⁻¹MD with D² = diag |M|."""
        off, scale = self._off_diagonal, np.sqrt(np.abs(self._diagonal))
        best = float((self._diagonal + _largest(off, s - 1)).max())
        if scale.min() > 0:
            best = min(best, float((self._diagonal + _largest(off * scale / scale[:, None], s - 1)).max()))
        return best

    @cached_property
    def _square(self) -> tuple[float, Blocks]:
        """c = λ_min(M), and (M - cI)²."""
        assert self.eigen is not None
        c = float(self.eigen.values[0])
        shifted = self.M - c * np.eye(self.d)
        rounding = 2 * np.finfo(float).eps * (self.d + 10) * float(np.abs(shifted).sum(axis=1).max()) ** 2
        return c, Blocks(shifted @ shifted, rounding)

    def _discs_of_square(self, s: int) -> float:
        """c + sqrt of Gershgorin's bound for N², N = M - cI ⪰ 0, because (N_SS)² ⪯ (N²)_SS."""
        c, square = self._square
        return c + math.sqrt(max(0.0, square.scale * square._discs(s) + square.noise))

    def _spectral(self, s: int) -> float:
        """min over t of t + the s largest entries of diag (M - tI)₊, because M ⪯ tI + (M - tI)₊.

        With t = λ_max it is λ_max; with a smaller t it pays where the leading eigenvectors are spread out, so
        that no s coordinates hold much of them. Convex in t, and any t is valid: ternary search is enough.
        """
        assert self.eigen is not None
        values, squares = self.eigen.values, self.eigen.vectors**2

        def at(t: float) -> float:
            return t + float(_largest((squares @ np.maximum(values - t, 0.0))[None, :], s)[0])

        low, high = float(values[0]), float(values[-1])
        best = high
        for _ in range(40):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            at_left, at_right = at(left), at(right)
            best = min(best, at_left, at_right)
            low, high = (low, right) if at_left < at_right else (left, high)
        return best

    def found(self, s: int) -> float:
        """λ_max of the best block that a search from several supports ends at, so at most Λ(M, s).

        Starts: the entries of the leading eigenvector, the rows with the largest discs, and random supports.
        """
        starts, n_starts = [], 8 if s <= _SMALL_BLOCK else 4
        if self.eigen is not None:
            starts.append(np.abs(self.eigen.vectors[:, -1]))
        discs = self._diagonal + _largest(self._off_diagonal, s - 1)
        for i in np.argsort(-discs)[: n_starts // 2]:
            row = self._off_diagonal[i].copy()
            row[i] = math.inf
            starts.append(row)
        generator = np.random.default_rng(0)  # same data, same answer
        while len(starts) < n_starts:
            starts.append(generator.random(self.d))
        return self.scale * max(self._ascend(np.argsort(-start, kind="stable")[:s]) for start in starts)

    def _ascend(self, S: np.ndarray) -> float:
        """Exchange the coordinates that the leading eigenvector uses least for those that promise most.

        With x that eigenvector and θ its value, adding j gives at least the larger eigenvalue of
        [[θ, c], [c, M_jj]], c = xᵀM_Sj. Many are exchanged at a time first, one in the end.
        """
        theta, x = self._leading(S)
        many = min(S.size, self.d - S.size)
        while many > 0:
            cross, half = x @ self.M[S], 0.5 * (theta - self._diagonal)
            promise = theta - half + np.hypot(half, cross)
            promise[S] = -math.inf
            trial = S.copy()
            trial[np.argsort(np.abs(x))[:many]] = np.argsort(-promise)[:many]
            value, vector = self._leading(trial)
            if value > theta + 1e-12 * abs(theta):
                S, theta, x = trial, value, vector
            else:
                many //= 2
        return theta

    def _leading(self, S: np.ndarray) -> tuple[float, np.ndarray]:
        values, vectors = np.linalg.eigh(self.M[np.ix_(S, S)])
        return float(values[-1]), vectors[:, -1]


def _largest(rows: np.ndarray, m: int) -> np.ndarray:
    """The sum of the m largest entries of each row."""
    if m <= 0:
        return np.zeros(rows.shape[0])
    if m >= rows.shape[1]:
        return np.asarray(rows.sum(axis=1))
    return np.asarray(np.partition(rows, rows.shape[1] - m, axis=1)[:, rows.shape[1] - m :].sum(axis=1))
