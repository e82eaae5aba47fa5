"""Least squares under many weightings of its rows, known by moments: n is forgotten, and rows can be taken away."""

from __future__ import annotations

import numpy as np

from .._core.arrays import to_host
from ..design.base import in_double, row_blocks
from .terms import LinearTerms

_ROOM = 2**25  # numbers that all Gram matrices may hold
_SMALL = 500  # columns whose Gram matrix is worth having in any case
_NOTHING = 1e-12  # of the squares of a column: what may be left of a constant one


class Moments:
    """G_f = Σ_i ω_fi x_i x_iᵀ, b_f = Σ_i ω_fi x_i y_iᵀ and Σ_i ω_fi ||y_i||² for weightings f, less what means explain.

    R_f(w) = energy_f - 2 b_fᵀw + wᵀG_f w for each of q targets; means explain something if there is an intercept.
    Where X has more rows than columns, the G_f are those of all rows less those of the rows that f leaves out: each is
    looked at once. Elsewhere columns of G_f are products with X, made when they are asked for.

    Parameters
    ----------
    model : LeastSquares
        Its weights are those of the rows that count.
    counts : array of shape (f, n)
        How often each weighting counts a row: 1 or 0, as a rule.

    Attributes
    ----------
    means, target_means : arrays of shape (f, p) and (f, q)
        Zeros without an intercept.
    b : array of shape (f, q, p)
    diagonal : array of shape (f, p)
        That of G_f; 0 for a column that is constant, if there is an intercept.
    energy : array of shape (f,)
    """

    def __init__(self, model: LinearTerms, counts: np.ndarray) -> None:
        self.design, self.centred = model.design, model.fit_intercept
        self.n, self.p = self.design.shape
        y = to_host(model.y).astype(float) - (0.0 if model.offset is None else to_host(model.offset))
        self.y, self.q = y.reshape(self.n, -1), model.n_outputs
        self._grams: np.ndarray | None = None
        base = model.double_share
        if self.p <= max(self.n, _SMALL) and (len(counts) + 1) * (self.p + self.q + 1) ** 2 <= _ROOM:
            self._gather(base, counts)
        else:
            weights = base * counts
            self._weights = weights / weights.sum(axis=1, keepdims=True)
            self._look()

    def images(self, f: np.ndarray, features: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """G_f u for each weighting of an array of shape (m,), u zero but for k features, (m, k) each: (m, p)."""
        if self._grams is not None:
            return np.asarray(np.einsum("bk,bkp->bp", vectors, self._grams[f[:, None], features]))
        along = np.einsum("bk,bkn->bn", vectors, self._gathered(f, features))
        images = self._adjoint(self._weights[f] * along)
        images[self.diagonal[f] == 0] = 0.0
        return images

    def blocks(self, f: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """G_f between some features and others, (m, k) and (m, l): (m, k, l)."""
        if self._grams is not None:
            return np.asarray(self._grams[f[:, None, None], rows[:, :, None], columns[:, None]])
        weighted = self._gathered(f, rows) * self._weights[f, None]
        return np.asarray(weighted @ self._gathered(f, columns).swapaxes(1, 2))

    def _gathered(self, f: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Columns of X less their means, (m, k, n); zeros in place of constant ones."""
        known, place = np.unique(features, return_inverse=True)
        columns = np.ascontiguousarray(to_host(in_double(self.design.columns(known).dense())).T)
        found = columns[place.reshape(features.shape)]
        found -= np.take_along_axis(self.means[f], features, axis=1)[:, :, None]
        found[np.take_along_axis(self.diagonal[f], features, axis=1) == 0] = 0.0
        return found

    def root(self) -> np.ndarray:
        """T of shape (p + q, p + q) with ||T(w, -1)||² = R(w) for the first weighting, where its G is kept."""
        assert self._grams is not None
        whole = np.block([[self._grams[0], self.b[0].T], [self.b[0], self._squares]])
        sizes, vectors = np.linalg.eigh(whole)
        return np.asarray(np.sqrt(np.maximum(sizes, 0.0))[:, None] * vectors.T)

    # With more rows than columns.

    def _gather(self, base: np.ndarray, counts: np.ndarray) -> None:
        shift = np.zeros(self.p + self.q)
        if self.centred:
            shift[self.p :] = base @ self.y / base.sum()
            if self.design.in_memory:  # so that large means do not hide small variances
                shift[: self.p] = self.design.correlations(base / base.sum())
        less = [self._sums(base * (count == 0), shift) for count in counts]
        each_once = (counts.sum(axis=0) == len(counts) - 1).all() and counts.max() == 1
        whole = np.sum(less, axis=0) if each_once else self._sums(base, shift)
        sums = np.array(
            [
                whole - left + self._sums(base * np.maximum(count - 1, 0), shift)
                for left, count in zip(less, counts, strict=True)
            ]
        )
        sums /= sums[:, -1:, -1:]
        X, Y, one = slice(self.p), slice(self.p, -1), -1
        squares = np.maximum(sums[:, X, X].diagonal(axis1=1, axis2=2), whole.diagonal()[X] / whole[one, one])
        self.means, self.target_means = np.zeros((len(counts), self.p)), np.zeros((len(counts), self.q))
        if self.centred:
            self.means, self.target_means = shift[X] + sums[:, one, X], shift[self.p :] + sums[:, one, Y]
            sums -= sums[:, :, one, None] * sums[:, None, one, :]
        self._grams, self.b = sums[:, X, X], sums[:, Y, X]
        self._squares, self.energy = sums[0, Y, Y], np.trace(sums[:, Y, Y], axis1=1, axis2=2)
        self._without_constants(self._grams.diagonal(axis1=1, axis2=2), squares)
        nothing = self.diagonal == 0
        self._grams[np.broadcast_to(nothing[:, :, None] | nothing[:, None, :], self._grams.shape)] = 0.0

    def _sums(self, weights: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Σ_i ω_i t_i t_iᵀ over the rows that have a weight, t = (x, y, 1) less the shift."""
        rows, size = np.flatnonzero(weights), self.p + self.q + 1
        sums = np.zeros((size, size))
        if not self.design.in_memory:  # sparse ones stay so
            part, X = self.design.rows(rows), slice(self.p)
            T = np.column_stack([self.y[rows] - shift[self.p :], np.ones(rows.size)])
            sums[X, X], _ = part.moments(weights[rows])
            sums[self.p :, X] = [part.correlations(weights[rows] * column) for column in T.T]
            sums[X, self.p :], sums[self.p :, self.p :] = sums[self.p :, X].T, (T.T * weights[rows]) @ T
            return sums
        for block in row_blocks((rows.size, size)):
            some = rows[block]
            T = np.ones((some.size, size))
            T[:, : self.p], T[:, self.p : -1] = to_host(self.design.rows(some).dense()), self.y[some]
            T[:, :-1] -= shift
            T *= np.sqrt(weights[some, None])
            sums += T.T @ T
        return sums

    # With more columns than rows.

    def _look(self) -> None:
        weights = self._weights
        self.means, self.target_means = np.zeros((len(weights), self.p)), np.zeros((len(weights), self.q))
        squares = self.design.square_sums(np.ascontiguousarray(weights.T)).T
        variances = squares
        if self.centred:
            self.means, self.target_means = self._adjoint(weights), weights @ self.y
            variances = squares - self.means**2
        left = (self.y.T - self.target_means[:, :, None]) * weights[:, None]
        self.b = self._adjoint(left.reshape(-1, self.n)).reshape(len(weights), self.q, self.p)
        self.energy = np.einsum("fqn,nq->f", left, self.y)
        self._without_constants(variances, squares)

    def _adjoint(self, rows: np.ndarray) -> np.ndarray:
        """Each row times X."""
        design = self.design
        return np.array(to_host(design.adjoint(design.asarray(np.ascontiguousarray(rows.T)))).T, dtype=float)

    def _without_constants(self, variances: np.ndarray, squares: np.ndarray) -> None:
        self.diagonal = np.where(variances > _NOTHING * squares, variances, 0.0)
        self.b[np.broadcast_to(self.diagonal[:, None] == 0, self.b.shape)] = 0.0
