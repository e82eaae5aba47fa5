"""A quadratic risk as its matrix, lowered by what rounding may have added.

R(w) >= c - bᵀw + ½wᵀQw - Σ_i e_i|w_i| for every w with at most k nonzeros, with numbers that are exactly the
floating-point ones; e_i = rounding·roots_i·√(2·energy).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

#: up to this many coordinates the whole matrix is formed; its eigenvalues then take about a second
LARGEST = 2000
#: multiplications for XᵀX, some seconds
AFFORDABLE = 2e11


@dataclass
class QuadraticForm:
    """c - bᵀw + ½wᵀQw.

    Attributes
    ----------
    Q, b, c : the function.
    roots : array
        √Q_ii, so that |Q_ij| <= roots_i roots_j.
    energy : float
        |b_i| <= roots_i √(2·energy).
    rounding : float
        The relative error of a product with Q or with the data.
    flat : float or None
        The smallest eigenvalue where it is known beforehand: the ridge, if there are fewer samples than coordinates.
    """

    Q: np.ndarray
    b: np.ndarray
    c: float
    roots: np.ndarray
    energy: float
    rounding: float
    flat: float | None = None

    def restrict(self, index: np.ndarray) -> QuadraticForm:
        """The function of these coordinates alone, the others zero."""
        part = copy.copy(self)
        part.flat = None
        part.Q, part.b, part.roots = self.Q[np.ix_(index, index)], self.b[index], self.roots[index]
        return part
