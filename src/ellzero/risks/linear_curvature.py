"""The quadratic models of linear models at a point, with one output or several, from few products with X."""

import math
from functools import cached_property

import numpy as np

from .._core.arrays import Array, finfo_eps, index_like, like, to_host, waits
from .._core.linear_systems import least_squares_between
from ..sets.faces import least_squares_on_polyhedron
from ..sets.polyhedron import Polyhedron
from .curvature import Curvature
from .kept_columns import KeptColumns
from .known import KnownProducts
from .point import Point
from .spectrum import FAR, centred_squares, is_constant
from .terms import LinearTerms

_TOGETHER = 128  # columns of X that are multiplied with all others at a time
_MEANS = 100.0  # times the square of a column without its mean is that of the mean: single precision is enough


class LinearCurvature(Curvature):
    """G = ½∇²R(w) of a linear model: XᵀDX + (ridge/2)I, D = ½ share ℓ''(z), centred if there is an intercept.

    Attributes
    ----------
    room : int
        How many numbers a set of columns may hold: no more than X itself.
    """

    corrects = applies = True

    def __init__(self, model: LinearTerms, weights: np.ndarray | float, exact: bool = False) -> None:
        self.model, self.exact, self.spent = model, exact, 0
        self.room = max(math.prod(model.design.shape), 10**7)  # numbers that may be there at a time
        self.kept_room = max(model.design.size, 10**7)  # and those that are kept, in case they are asked for again
        self.weights = weights
        self.applies = type(self).applies and not model.design.parted
        self.one_by_one = model.design.one_by_one
        self.rank = math.inf if model.ridge else model.n_terms
        self._kept = KeptColumns()
        self._blocks: dict[bytes, np.ndarray] = {}

    @cached_property
    def total(self) -> float:
        """ΣD."""
        return max(float(np.broadcast_to(self.weights, self.model.n_terms).sum()), 1e-300)

    @cached_property
    def means(self) -> np.ndarray:
        """The means of the columns, by which they are centred if there is an intercept."""
        design = self.model.design
        self.spent += 1
        if self.exact and design.parted:  # the weights are the shares of the samples
            return self.model._column_means / self.total
        rows = design.by_row(np.broadcast_to(self.weights, self.model.n_terms))
        return to_host(design.adjoint(rows)).astype(float) / self.total

    def affords(self, n_columns: int) -> bool:
        """Whether so many columns fit, and cost little more than one: in a dense product, or because X is small."""
        design = self.model.design
        return design.affords(n_columns) and design.shape[1] * n_columns <= self.room

    @property
    def diagonal(self) -> np.ndarray:
        if self.exact:  # the weights are the shares of the samples
            squares = self.model._column_squares
        else:
            squares = self.model.design.square_sums(np.broadcast_to(self.weights, self.model.n_terms))
            self.spent += 1
        if self.model.fit_intercept:
            squares = centred_squares(self.model.design, self.weights, squares, self.means)
        return squares + 0.5 * self.model.ridge

    def columns(self, index: np.ndarray) -> Array:
        """G[:, index], each column computed once; on its device if X is on one."""
        return self._kept.of(index, self.kept_room // self.model.design.shape[1], self._new_columns)

    def let_go(self) -> None:
        self._kept = KeptColumns()

    def _new_columns(self, index: np.ndarray) -> Array:
        design = self.model.design
        if index.size <= _TOGETHER or design.parted or waits(design.reference):
            return self.images(index, np.eye(index.size))
        found = np.empty((design.shape[1], index.size), order="F")  # a copy of all these columns of X would be longer
        for start in range(0, index.size, _TOGETHER):
            some = slice(start, start + _TOGETHER)
            found[:, some] = self.images(index[some], np.eye(index[some].size))
        return found

    def remembered(self, index: np.ndarray) -> np.ndarray:
        if not (self.exact and self.applies):
            return self.block(index)
        block = self.model.known.block(index, self.products)
        block[np.diag_indices_from(block)] += 0.5 * self.model.ridge
        return block

    def images(self, index: np.ndarray, vectors: np.ndarray) -> Array:
        """G[:, index] @ vectors, at one product with X for each vector; on its device if X is on one."""
        design, far = self.model.design, self._far[index].any()
        z = design.spanned(index, vectors)
        if far:
            z = self._centred(z, self.means[index] @ vectors)
        if design.parted:
            images = self._elsewhere(z)
        elif waits(z):
            z = (self.weights if isinstance(self.weights, float) else design.asarray(self.weights)[:, None]) * z
            images = design.adjoint(z)
        else:
            z = (self.weights if isinstance(self.weights, float) else self.weights[:, None]) * to_host(z)
            images = to_host(design.adjoint(design.asarray(z))).astype(float, copy=False)
        self.spent += vectors.shape[1]
        if self.model.fit_intercept and not far:
            images -= self.total * like(np.outer(self.means, self.means[index] @ vectors), images)
        if self.model.ridge:
            images[index_like(index, images)] += 0.5 * self.model.ridge * like(vectors, images)
        return images

    def pull(self, origin: Point, index: np.ndarray) -> np.ndarray:
        single = finfo_eps(self.model.design.reference) > 1e-12 and not self.model.design.parted
        closely = self._far[index].any() or (single and self.model.fit_intercept and not self._varied)
        if not (self.exact and closely and self.model.n_outputs == 1):
            return super().pull(origin, index)
        share, y = self.model.double_share, self.model._double_residual
        for _ in range(2):  # what rounding leaves of the mean of y counts as often as the columns are far from 0
            y = y - share @ y / share.sum()
        design = self.model.design.columns(index_like(index, self.model.design.reference))
        found = design.correlations(share * y) * (self.total / float(share.sum()))
        found[self._constant(index)] = 0.0
        return found

    @property
    def is_rough(self) -> bool:
        return self.model.design.has_rough_adjoint and (not self.model.fit_intercept or self._varied)

    def rough_images(self, index: np.ndarray, vectors: np.ndarray, out: np.ndarray) -> None:
        if not self.is_rough:
            super().rough_images(index, vectors, out)
            return
        z = self.model.design.spanned(index, vectors)
        if self.model.fit_intercept:
            z = z - self.means[index] @ vectors
        self.model.design.rough_adjoint(
            (self.weights if isinstance(self.weights, float) else self.weights[:, None]) * z, out
        )
        self.spent += vectors.shape[1]
        if self.model.ridge:
            out[:, index] += 0.5 * self.model.ridge * vectors.T

    @cached_property
    def _far(self) -> np.ndarray:
        """Columns from which the mean has to be taken before anything is multiplied with them."""
        if not self.model.fit_intercept or self.model.design.parted:
            return np.zeros(self.model.design.shape[1], dtype=bool)
        return self.model.far_means

    def _centred(self, z: Array, mean: np.ndarray) -> Array:
        """Predictions less their mean, which is known, nearly: what its rounding leaves comes to light without it."""
        z = z - like(mean, z)
        weights = np.broadcast_to(self.weights, self.model.n_terms) / self.total
        return z - like(weights, z) @ z

    @cached_property
    def _varied(self) -> bool:
        """Whether columns are not much larger than what they are without their means."""
        squares = self.total * self.means**2
        return bool((squares <= _MEANS * self.diagonal).all())

    def _elsewhere(self, z: Array) -> np.ndarray:
        """XᵀDz where the rows are elsewhere: by one look at them."""
        weights = self.weights if isinstance(self.weights, float) else self.model.design.by_row(self.weights, float)
        z = z * (weights if isinstance(weights, float) or z.ndim == 1 else weights[:, None])
        return to_host(self.model.design.adjoint(z)).astype(float, copy=False)

    def apply(self, vector: np.ndarray) -> np.ndarray:
        design = self.model.design
        z = to_host(design.forward(design.asarray(vector)))
        if far := bool(self._far.any()):
            z = self._centred(z, self.means @ vector)
        image = to_host(design.adjoint(design.asarray(self.weights * z))).astype(float)
        if self.model.fit_intercept and not far:
            image -= self.total * float(self.means @ vector) * self.means
        return image + 0.5 * self.model.ridge * vector

    def towards_piece(self, share: float) -> Curvature:
        if not isinstance(self.piece, LinearCurvature):
            return self
        return LinearCurvature(self.model, share * self.weights + (1 - share) * self.piece.weights)

    def remembers(self, n_columns: int) -> bool:
        return self.applies and KnownProducts.pays(n_columns, self.model.design.shape[1])

    def cross(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        again = self.exact and self.remembers(columns.size)
        found = self.model.known.beside(rows, columns, self.products) if again else self.products(rows, columns)
        _, i, j = np.intersect1d(rows, columns, assume_unique=True, return_indices=True)
        found[i, j] += 0.5 * self.model.ridge
        return found

    def products(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The same without the ridge."""
        found = self.model.design.products(rows, columns, self.weights)
        if self.model.fit_intercept:
            means, far, constant = self._double_means
            found -= self.total * np.outer(means[rows], means[columns])
            if (i := np.flatnonzero(far[rows])).size and (j := np.flatnonzero(far[columns])).size:
                own = self.model.design.centred_products(rows[i], columns[j], self.weights, means)
                found[i[:, None], j] = own
            found[constant[rows]], found[:, constant[columns]] = 0.0, 0.0
        return found

    @cached_property
    def _double_means(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The means of the columns in double precision, where they are far from 0, and which columns are constant."""
        design, weights = self.model.design, np.broadcast_to(self.weights, self.model.n_terms)
        double = finfo_eps(design.reference) < 1e-12
        means = self.means if double else design.correlations(weights) / self.total
        squares = self.model._column_squares if self.exact else design.square_sums(weights)
        own = centred_squares(self.model.design, self.weights, squares, means)
        return means, (own <= FAR * squares) & (squares > 0), own == 0

    def _constant(self, index: np.ndarray) -> np.ndarray:
        """Which of these columns an intercept takes away, as all of their entries are the same; not those of zeros."""
        design, found = self.model.design, np.zeros(index.size, dtype=bool)
        if not self.model.fit_intercept or self.model.n_outputs > 1 or design.parted:
            return found
        _, far, constant = self._double_means
        some = np.flatnonzero((far & constant)[index])  # or nearly the same, beside their size
        if some.size:
            columns = to_host(design.columns(index_like(index[some], design.reference)).dense())
            columns = columns[np.broadcast_to(self.weights, self.model.n_terms) > 0]
            found[some] = (columns == columns[:1]).all(axis=0)
        return found

    def block(self, index: np.ndarray) -> np.ndarray:
        """G[index, index], from these columns of X alone."""
        if self.remembers(index.size):
            block = self.model.known.block(index, self.products) if self.exact else self.products(index, index)
            block[np.diag_indices_from(block)] += 0.5 * self.model.ridge
            return block
        whole = index.size == self.model.design.shape[1]  # a refit asks for all of its few columns
        block, squares = self.model.gram(self.weights, None if whole else index)
        if self.model.fit_intercept:
            double = finfo_eps(self.model.design.reference) < 1e-12
            constant = is_constant(np.diagonal(block), squares, double)
            block[constant], block[:, constant] = 0.0, 0.0
        if self.model.ridge:
            block[np.diag_indices_from(block)] += 0.5 * self.model.ridge
        return block

    def blocks(self, index: np.ndarray) -> np.ndarray:
        """G[J, J] of each set of coordinates, computed once."""
        name = index.tobytes()
        if name not in self._blocks:
            found = self._side_by_side(index)
            self._blocks[name] = super().blocks(index) if found is None else found
        return self._blocks[name]

    def _side_by_side(self, index: np.ndarray) -> np.ndarray | None:
        """The same where rows weigh alike and X has a quick way."""
        if not isinstance(self.weights, float) or self.model.fit_intercept:
            return None
        found = self.model.design.grams(index)
        if found is not None:
            found *= self.weights
            every = np.arange(index.shape[1])
            found[:, every, every] += np.where(index >= 0, 0.5 * self.model.ridge, 0.0)
        return found

    def correction(self, w: np.ndarray, state: Array, within: Polyhedron, deadline: float) -> np.ndarray | None:
        """argmin R(w + u) over w + u in a set for a quadratic R, from X: κ(X) counts, and not its square.

        The least-squares solution for the residuals, and for -sqrt(ridge/2)·w in the rows of the ridge.
        """
        if not self.exact:
            return None
        design, n = self.model.design, self.model.n_terms
        share, ridge = np.broadcast_to(self.weights, n), math.sqrt(0.5 * self.model.ridge)
        if design.parted and isinstance(self.weights, float):
            share = design.constant(self.weights)
        residual, centre = design.doubles(self.model.y - state), None
        if self.model.fit_intercept:
            centre = design.weighted_mean(share)
            residual = residual - share @ residual / share.sum()
        A, r = design.triangle(np.sqrt(share), residual, centre)
        A[:, self._constant(np.arange(A.shape[1]))] = 0.0
        if ridge:
            A, r = np.vstack([A, ridge * np.eye(A.shape[1])]), np.append(r, -ridge * w)
        size = np.sqrt(np.einsum("ij,ij->j", A, A))
        if not (np.isfinite(size).all() and np.isfinite(r).all()):
            return None
        if within.h.size:
            return np.asarray(least_squares_on_polyhedron(A, r, within, w, deadline) - w)
        size = np.where(size > 0, size, 1.0)
        lower, upper = size * (within.lower - w), size * (within.upper - w)
        return least_squares_between(A / size, r, lower, upper, deadline) / size
