"""Least squares of several targets."""

import math
from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.directions import Directions
from .._core.validation import as_array, check_finite
from ..sets.polyhedron import Polyhedron
from .accuracy import EPS, LARGEST, Measured, QuadraticForm
from .base import Point
from .curvature import Curvature
from .linear_curvature import LinearCurvature
from .losses import LeastSquares
from .outputs import SeveralOutputs

_TOGETHER = 2**21  # predictions that are held at a time


class MultiTargetLeastSquares(SeveralOutputs, LeastSquares):
    """R(W) = Σ_i ω_i ||W x_i + b - y_i||² / Σ_i ω_i + (ridge/2)||W||²: what `LeastSquares` is for y of shape (n, q).

    The sum of q problems that share X, and, by `ellzero.sparsity.Rows`, their features. w holds the targets'
    coefficients one after the other: w.reshape(q, p)[j] are those of target j.
    """

    _curvature, lower_bound, _of_residual = 2.0, 0.0, True
    # a part of the same class has all targets of its features, and the same predictions
    keeps_state = True
    is_settled, deviance, hessian_bound = LeastSquares.is_settled, LeastSquares.deviance, LeastSquares.hessian_bound
    moments = LeastSquares.moments
    smoothness, strong_convexity = LeastSquares.smoothness, LeastSquares.strong_convexity
    known_convexity = LeastSquares.known_convexity

    def _check_targets(self, y: Any) -> np.ndarray:
        targets = as_array(y, "y")
        if targets.shape[0] != self.n_terms:
            raise ValueError(f"y must have {self.n_terms} rows, one for each row of X, got shape {targets.shape}")
        if targets.dtype.kind not in "fiub":
            raise TypeError(
                f"y must be numbers for LeastSquares, got dtype {targets.dtype}; labels are for Logistic, "
                "Multinomial and SparseClassifier"
            )
        check_finite(targets, "y")
        self.n_outputs = targets.shape[1]
        self.n_features = self.n_outputs * self.design.shape[1]
        return np.asfortranarray(targets, dtype=np.float64)

    def target(self, j: int) -> LeastSquares:
        """The problem of one target."""
        one = LeastSquares(self.design, to_host(self.y)[:, j], self.ridge, fit_intercept=self.fit_intercept)
        one.share, one._weights = self.share, self._weights
        one.offset = None if self.offset is None else self.offset[:, j]
        return one

    def _loss(self, z: Array) -> Array:
        return self._xp.sum((z - self.y) ** 2, axis=1)

    _loss_sizes = _loss

    def _slope(self, z: Array, y: Array) -> Array:
        return 2.0 * (z - y)

    def _mean_loss(self, z: Array) -> float:
        residual = z - self.y
        return float(self._xp.sum(self._share * residual * residual))

    def _best_intercept(self, z: Array) -> Array:
        return self._xp.sum(self._share * (self.y - z), axis=0)

    def _slope_bounds(self, reach: np.ndarray | None) -> np.ndarray | None:
        y = self._double_residual
        centre = self.double_share @ y if self.fit_intercept else 0.0
        return None if reach is None else 2 * (np.linalg.norm(y - centre, axis=1) + reach)

    def values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        """R(w + μu_i) for each of the directions u_i, from products of X with many of them."""
        if not isinstance(point.w, np.ndarray) or self.design.parted:
            return super().values_along(point, directions, mu)
        points, share, (n, p) = directions.points(point.w, mu), self.double_share, self.design.shape
        values: np.ndarray = 0.5 * self.ridge * np.einsum("ij,ij->i", points, points)
        together = max(1, _TOGETHER // (self.n_outputs * n))
        for start in range(0, len(points), together):
            some = slice(start, start + together)
            z = self.design.forward(points[some].reshape(-1, p).T)
            residual = z.reshape(n, -1, self.n_outputs) - self._double_residual[:, None, :]
            if self.fit_intercept:
                residual -= np.tensordot(share, residual, axes=1)
            values[some] += np.einsum("i,ijk,ijk->j", share, residual, residual)
        return values

    def _over_outputs(self, gram: np.ndarray) -> np.ndarray:
        return np.kron(np.eye(self.n_outputs), gram)

    def curvature(self, point: Point) -> Curvature | None:  # type: ignore[override]
        """R itself, where columns of X can be read."""
        return TargetCurvature(self) if self.readable else None

    def quadratic_form(self, k: int) -> QuadraticForm | None:
        """Those of all targets side by side, where they are small enough."""
        forms = [self.target(j).quadratic_form(k) for j in range(self.n_outputs)] if self.n_features <= LARGEST else []
        given = [form for form in forms if form is not None]
        if len(given) < self.n_outputs:
            return None
        Q = np.zeros((self.n_features, self.n_features))
        for j, form in enumerate(given):
            own = slice(j * len(form.b), (j + 1) * len(form.b))
            Q[own, own] = form.Q
        energy = sum(form.energy for form in given)
        c = sum(form.c for form in given) - 2 * self.n_outputs * EPS * energy
        b, roots = (np.concatenate([getattr(form, name) for form in given]) for name in ("b", "roots"))
        return QuadraticForm(Q, b, c, roots, energy, max(form.rounding for form in given), given[0].flat)

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        p, parts = self.design.shape[1], []
        for j, own in enumerate(w.reshape(self.n_outputs, p)):
            mine = np.flatnonzero(support // p == j)
            part = self.target(j).measured(own, support[mine] % p, closely=closely)
            if part is None:
                return None
            parts.append((part, np.append(mine, support.size + j) if part.n_free else mine))
        return SumMeasure(parts)

    def enclosed_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the targets, one after the other."""
        parts = [self.target(j).enclosed_gradient(own) for j, own in enumerate(w.reshape(self.n_outputs, -1))]
        gradients, doubts = zip(*parts, strict=True)
        return np.concatenate(gradients), np.concatenate(doubts)


class TargetCurvature(Curvature):
    """G = I ⊗ (XᵀΩX + (ridge/2)I): the same block for each target."""

    exact = corrects = corrects_parts = True

    def __init__(self, model: MultiTargetLeastSquares) -> None:
        self.model, self.p, self.q = model, model.design.shape[1], model.n_outputs
        self.one = self.shared = self._of(model)
        self.n_shared = self.q

    @staticmethod
    def _of(model: LeastSquares) -> LinearCurvature:
        share = model.share if isinstance(model.share, float) else model.row_share
        return LinearCurvature(model, share, exact=True)

    @property
    def spent(self) -> int:  # type: ignore[override]
        return self.one.spent

    def affords(self, n_columns: int) -> bool:
        return self.one.affords(n_columns) and self.q * self.p * n_columns <= self.one.room

    @property
    def diagonal(self) -> np.ndarray:
        return np.tile(self.one.diagonal, self.q)

    def columns(self, index: np.ndarray) -> np.ndarray:
        """G[:, index], from one column of XᵀΩX for each feature."""
        features, place = np.unique(index % self.p, return_inverse=True)
        columns = np.zeros((self.q, self.p, index.size))
        columns[index // self.p, :, np.arange(index.size)] = to_host(self.one.columns(features))[:, place].T
        return columns.reshape(self.q * self.p, index.size)

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        images = np.zeros((self.q, self.p, vectors.shape[1]))
        for j in np.unique(index // self.p):
            mine = index // self.p == j
            images[j] = to_host(self.one.images(index[mine] % self.p, vectors[mine]))
        return images.reshape(self.q * self.p, vectors.shape[1])

    def block(self, index: np.ndarray) -> np.ndarray:
        features, place = np.unique(index % self.p, return_inverse=True)
        target = index // self.p
        return np.asarray(self.one.block(features)[np.ix_(place, place)] * (target[:, None] == target))

    def correction(self, w: np.ndarray, state: Array, within: Polyhedron, deadline: float) -> np.ndarray | None:
        if within.h.size:
            return None
        moves, rows = np.zeros((self.q, self.p)), (w, within.lower, within.upper)
        for j, (own, lower, upper) in enumerate(zip(*(v.reshape(self.q, self.p) for v in rows), strict=True)):
            if (free := np.flatnonzero(lower < upper)).size:
                part = self._of(self.model.target(j).restrict(free))  # type: ignore[arg-type]
                box = Polyhedron.box(lower[free], upper[free], free.size)
                move = part.correction(own[free], state[:, j], box, deadline)
                if move is None:
                    return None
                moves[j, free] = move
        return moves.ravel()


class SumMeasure(Measured):
    """F(h) = Σ_j F_j(h_j): functions of different unknowns, each with the places that its unknowns have among all."""

    def __init__(self, parts: list[tuple[Measured, np.ndarray]]) -> None:
        self.parts, n = parts, len(parts)
        # a sum of n numbers, each of at most the size of the sum: none is negative but for its error
        self.value = math.fsum(part.value for part, _ in parts)
        self.error = (1 + n * EPS) * sum(part.error for part, _ in parts) + EPS * abs(self.value)
        self.grain = sum(part.grain for part, _ in parts) + n * EPS * abs(self.value)
        self.n_free = sum(part.n_free for part, _ in parts)
        self.shifts = [place[shift] for part, place in parts for shift in part.shifts or ()] or None

    @property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        gradient, doubt = np.zeros((2, sum(place.size for _, place in self.parts)))
        for part, place in self.parts:
            gradient[place], doubt[place] = part.slopes
        return gradient, doubt

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        M, less = np.zeros((D.size, D.size)), 0.0
        for part, place in self.parts:
            M[np.ix_(place, place)], own = part.floor(reach, D[place])
            less = max(less, own)
        return M, less

    def farthest(self, D: np.ndarray) -> float:
        return max(part.farthest(D[place]) for part, place in self.parts)


LeastSquares._of_several = MultiTargetLeastSquares
