"""A quadratic function given by its matrix."""

import math
from functools import cached_property
from inspect import getattr_static
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, finfo_eps, index_like, norm, to_host
from .._core.validation import check_indices, check_vector
from ..design import as_design, take
from .accuracy import EPS, LARGEST, QuadraticForm, QuadraticMeasure, accurate_product
from .base import Constant, Point, Risk, changed, own_names
from .curvature import MatrixCurvature
from .spectrum import LARGEST_GRAM

_LARGEST_CHOLESKY = 10_000
#: what makes it another function
_DEFINING = {"_forward", "_value", "_gradient", "at", "value", "gradient"}
#: what follows from Q and b
_FACTS = {
    "curvature", "hessian_bound", "squares", "quadratic_form", "smoothness", "strong_convexity", "known_convexity",
    "lower_bound", "measured", "enclosed_gradient", "restrict", "convex",
}  # fmt: skip


class Quadratic(Risk):
    """R(w) = ½ wᵀQw - bᵀw.

    Parameters
    ----------
    Q : symmetric array of shape (p, p), or scipy.sparse matrix
        Need not be positive semidefinite; whether it is, is found out when `convex` is first read.
    b : array of shape (p,)

    Examples
    --------
    >>> from ellzero.risks import Quadratic
    >>> risk = Quadratic([[2.0, 0.0], [0.0, 4.0]], b=[2.0, 4.0])
    >>> risk.value([1.0, 1.0])
    -3.0
    >>> risk.gradient([1.0, 1.0])
    array([0., 0.])
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = own_names(cls, Quadratic)
        if not own.isdisjoint(_DEFINING):  # another function, of which Q does not tell all
            for name in _FACTS - own:
                setattr(cls, name, getattr_static(Risk, name))

    def __init__(self, Q: Any, b: Any) -> None:
        design = as_design(Q, "Q")
        if not design.explicit:
            raise TypeError("Q must be a matrix whose entries can be read; for an operator use Smooth")
        if design.parted:
            raise TypeError("Q must be in memory: its products are as long as w, and parts of rows have them elsewhere")
        p, columns = design.shape
        if p != columns:
            raise ValueError(f"Q must be square, got shape {design.shape}")
        gap, size = design.asymmetry()
        if gap > 100 * finfo_eps(design.reference) * size:
            raise ValueError(
                f"Q must be symmetric, but Q and its transpose differ by up to {gap:.3g}; use (Q + Q.T) / 2, "
                "which gives the same function"
            )
        self.design = design.symmetrised() if gap else design  # the same function
        self.n_features = p
        self.b = self.design.asarray(check_vector(b, "b", p))

    def _forward(self, w: Array, support: Array | None) -> Array:
        return self.design.forward(w, support)

    def _value(self, w: Array, state: Array) -> float:
        return float(w @ (0.5 * state - self.b))

    def _gradient(self, w: Array, state: Array) -> Array:
        return state - self.b

    @cached_property
    def _spectrum(self) -> tuple[Constant, Constant]:
        """The largest and the smallest eigenvalue: computed where affordable, Gershgorin's bounds beyond."""
        if self.n_features <= LARGEST_GRAM:
            eigenvalues = np.linalg.eigvalsh(self._matrix)
            low, high = float(eigenvalues[0]), float(eigenvalues[-1])
            margin = 4 * finfo_eps(self.design.reference) * self.n_features * max(abs(low), abs(high))
            low = 0.0 if abs(low) <= margin else low - margin  # singular matrices are so up to rounding
            return Constant(high + margin, "exact"), Constant(low, "exact")
        diagonal, row_sums = self.design.diagonal(), self.design.absolute_row_sums()
        low, high = float(np.min(diagonal + np.abs(diagonal) - row_sums)), float(np.max(row_sums))
        return Constant(high, "bound"), Constant(low, "bound")

    @property
    def _matrix(self) -> np.ndarray:
        return to_host(self.design.dense()).astype(np.float64, copy=False)

    def curvature(self, point: Point) -> MatrixCurvature:
        return MatrixCurvature(self.design)

    def hessian_bound(self) -> tuple[np.ndarray, float, bool]:
        return 0.5 * (self._matrix + self._matrix.T), 0.0, True

    def squares(self) -> np.ndarray:
        return np.asarray(np.abs(self.design.diagonal()))

    def quadratic_form(self, k: int) -> QuadraticForm | None:
        if self.n_features > LARGEST:
            return None
        Q, b = self._matrix, to_host(self.b).astype(np.float64)
        diagonal = np.diag(Q)
        # Q and b are exactly what was given; the sizes of the entries, if not too small, bound what products lose
        squares = np.maximum(diagonal, 1e-16 * float(np.max(diagonal, initial=0.0)) or 1.0)
        energy = float(np.max(0.5 * b * b / squares, initial=0.0))
        return QuadraticForm(Q, b, 0.0, np.sqrt(squares), energy, (self.n_features + 16) * EPS)

    @cached_property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether Q is positive semidefinite, up to rounding; beyond size 10 000, whether that is evident."""
        if self.strong_convexity.value >= 0:
            return True
        if self.n_features <= LARGEST_GRAM or self.n_features > _LARGEST_CHOLESKY:
            return False
        shift = finfo_eps(self.design.reference) * self.n_features * self.smoothness.value
        try:
            np.linalg.cholesky(self._matrix + shift * np.eye(self.n_features))
        except np.linalg.LinAlgError:
            return False
        return True

    @property
    def smoothness(self) -> Constant:
        """The largest eigenvalue of Q, at least 0."""
        largest = self._spectrum[0]
        return Constant(max(0.0, largest.value), largest.source)

    @property
    def strong_convexity(self) -> Constant:
        """The smallest eigenvalue of Q, negative if R is not convex."""
        return self._spectrum[1]

    @property
    def known_convexity(self) -> Constant | None:
        """The smallest eigenvalue, if it was computed to find out whether R is convex."""
        known = self.strong_convexity if "_spectrum" in vars(self) else None
        if known is None or not known.value > 0:
            return None
        return Constant(known.value, "bound", "the smallest eigenvalue of Q, computed before")

    @cached_property
    def lower_bound(self) -> float:  # type: ignore[override]
        """The minimum of R where Q is positive definite (of a size up to 2000), else -inf."""
        b, nu = to_host(self.b).astype(np.float64), self.strong_convexity.value
        if nu <= 0:  # perhaps singular, perhaps not even semidefinite: rounding hides it
            return -math.inf
        if not b.any():
            return 0.0
        if self.n_features > LARGEST_GRAM:
            return -math.inf
        there = QuadraticMeasure(self._matrix, b, np.linalg.solve(self._matrix, b))
        gradient, doubt = there.slopes
        # the minimiser up to rounding, and R(v) - min R <= ||∇R(v)||²/(2ν)
        return there.value - there.error - 1.01 * norm(np.abs(gradient) + doubt) ** 2 / (2 * nu)

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> QuadraticMeasure:
        block = self.design.columns(index_like(support, self.design.reference)).rows(support)
        Q, b = to_host(block.dense()).astype(np.float64), to_host(self.b).astype(np.float64)[support]
        return QuadraticMeasure(Q, b, w[support])

    def enclosed_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Qw - b as if in twice the working precision."""
        support = np.flatnonzero(w)
        columns = to_host(self.design.columns(index_like(support, self.design.reference)).dense()).astype(np.float64)
        high, low, off = accurate_product(columns, w[support], to_host(self.b).astype(np.float64))
        gradient = high + low
        return gradient, off + EPS * np.abs(gradient)

    def restrict(self, support: Any) -> Self:
        index = check_indices(support, self.n_features, "support")
        block = self.design.columns(index).rows(index)
        return changed(self, design=block, b=take(self.b, index), n_features=index.size)

    @property
    def zero(self) -> Array:
        return self.design.zeros(self.n_features)
