"""What some risks know of themselves, and nobody has to ask them by their class for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array
from .accuracy import Measured, QuadraticForm, SmoothPart


class SelfKnowledge:
    """The answers of a risk that knows nothing but its values and gradients; each risk tells what it can."""

    def hessian_bound(self) -> tuple[np.ndarray, float, bool] | None:
        """H with ∇²R ⪯ H everywhere, what rounding may have moved its eigenvalues by, and whether H is ∇²R itself."""
        return None

    def quadratic_form(self, k: int) -> QuadraticForm | None:
        """R from below as its matrix, for w with at most k nonzeros; None for other risks, or where it is too dear."""
        return None

    def squares(self) -> np.ndarray | None:
        """The sizes of the squares that R is made of, one a column of the data, so that underflow can be noticed."""
        return None

    def columns(self, index: np.ndarray) -> np.ndarray | None:
        """X[:, index], on the host and in double precision, where R is a function of Xw alone."""
        return None

    def smooth_part(self) -> SmoothPart | None:
        """R less the curvature that is the same everywhere, with its rounding; None if R is known by values alone."""
        return None

    def minimum(self, start: Array) -> Array | None:
        """argmin R over all w, from a start, where R has a quicker way to it than `curvature`; None elsewhere."""
        return None

    def moments(self, counts: np.ndarray) -> Any:
        """`Moments` under weightings that count each row so often, (m, n); None unless R is least squares."""
        return None

    def weightings(self, weights: np.ndarray, ridges: np.ndarray) -> Any:
        """`Weightings` for weights of the rows, (m, n), and ridges; None where there is no quick way to the fits."""
        return None

    def gradient_bounds(self, radius: float | None = None) -> np.ndarray | None:
        """For each term i a bound on ||∇R_i(w) - ridge·w|| over ||w|| <= radius, or over all w."""
        return None

    def deviance(self, w: Array) -> float | None:
        """-2 log-likelihood at w up to a constant, the ridge left out; None where R stands for no likelihood."""
        return None

    def intercept(self, w: Array) -> Any:
        """The intercept that is best for w; 0 without one."""
        return 0.0

    def is_settled(self, w: np.ndarray, value: float) -> bool:
        """Whether a value of R(w) in the working precision is known to be good to twelve digits."""
        return False

    def value_in_double(self, w: np.ndarray) -> float | None:
        """R(w) in double precision, where R itself is computed in single precision."""
        return None

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        """R at w, zero outside the support, with the sizes of its rounding errors; None where these are not known.

        Closely: as accurately as possible, for a proof; otherwise as accurately as R itself needs.
        """
        return None
