"""R and its derivatives with the sizes of their rounding errors: what proofs are made of.

Products that cancel are computed as if in twice the working precision: every product and sum is split into its rounded
value and its rounding error, both floating-point numbers (Dekker 1971, Knuth), and the errors are added up apart
(Ogita, Rump & Oishi 2005).
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

#: up to this many coordinates the matrix of a quadratic is formed; its eigenvalues then take about a second
LARGEST = 2000
#: multiplications for XᵀX, some seconds
AFFORDABLE = 2e11
EPS = float(np.finfo(np.float64).eps)
_AT_A_TIME = 2**15  # numbers whose products are taken together
_SPLIT = 134217729.0  # 2^27 + 1
TINY = 1e-300  # more than what a product loses that underflows


class Measured(ABC):
    """R at w, on the host and in double precision, with all that a proof has to know of rounding.

    The unknowns are the coordinates of the support and after them the intercept's, if there is one, with F the function
    of both: R(w) is the least F(w, b). For every change h of the unknowns with ||D∘h|| <= reach,

        F(at + h) >= F(at) + <gradient, h> + ½ hᵀMh - ½ less·||D∘h||²,   (M, less) = floor(reach, D).

    Attributes
    ----------
    value, error : float
        |F(at) - value| <= error.
    grain : float
        What rounding may change in a plain evaluation: no x in double precision does better for certain.
    n_free : int
        How many of the unknowns belong to the intercept.
    shifts : list of index arrays, or None
        Unknowns that can be changed by the same number without a change of F.
    """

    value: float
    error: float
    #: whether F is convex for certain, and not only up to rounding
    surely_convex = True
    grain: float = 0.0
    n_free: int = 0
    shifts: list[np.ndarray] | None = None

    @property
    @abstractmethod
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of F, and how far each entry may be off."""

    @abstractmethod
    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        """M and `less`; the reach may be infinite, D is positive."""

    def farthest(self, D: np.ndarray) -> float:
        """How far predictions go along ||D∘h|| = 1; 0 where R is a quadratic and distance does not matter."""
        return 0.0


class PlainMeasure(Measured):
    """Any risk, by its values and gradients, taken for as exact as sums of so many terms are."""

    def __init__(
        self, value: float, w: np.ndarray, gradient: np.ndarray, support: np.ndarray, nu: float, rounding: float
    ) -> None:
        unit = 64 * rounding
        self.value = value
        self.error = self.grain = unit * (abs(value) + float(np.abs(gradient) @ np.abs(w)))
        part = gradient[support]
        self._slopes = part, np.full(part.size, unit * float(np.linalg.norm(gradient)))
        self.nu = nu

    @property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        return self._slopes

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        return self.nu * np.eye(D.size), 0.0


class QuadraticMeasure(Measured):
    """½wᵀQw - bᵀw on the support; Q and b are exactly what they are."""

    surely_convex = False

    def __init__(self, Q: np.ndarray, b: np.ndarray, w: np.ndarray) -> None:
        self.Q = Q
        self._high, self._low, self._off = accurate_product(Q, w, b)  # Qw - b
        # ½wᵀQw - bᵀw = ½ Σ w_i ((Qw - b)_i - b_i)
        twice, off, size = _accurate_sum(*(two_product(w, self._high) + two_product(w, self._low) + two_product(-w, b)))
        self.value = 0.5 * twice
        self.error = 0.5 * (off + float(np.abs(w) @ self._off)) + (TINY if size else 0.0)
        self.grain = (w.size + 4) * EPS * float(np.abs(w) @ (np.abs(Q) @ np.abs(w) + np.abs(b)))

    @property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        gradient = self._high + self._low
        return gradient, self._off + EPS * np.abs(gradient)

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        return self.Q, 0.0


@dataclass
class Look:
    """f at a point: f(w), f(w) - <∇f(w), w> from below, z = -∇f(w) and the Euclidean norm of its error."""

    f: float
    value: float
    z: np.ndarray
    error: float


class SmoothPart(ABC):
    """The smooth part f of R = f + (μ/2)||·||², seen through a linear image of w: f(w) = F(Aw) with F convex.

    Relaxations that are built from atoms ask for it at convex combinations of these.
    """

    mu: float
    d: int
    #: f + (lack/2)||·||² is convex for certain
    lack: float = 0.0
    #: b if f(w) is -bᵀw and its curvature, so that one quadratic problem gives the best weights
    slope: np.ndarray | None = None
    #: why nothing can be known of rounding; empty if it is
    unreadable = ""

    @abstractmethod
    def image(self, w: np.ndarray) -> np.ndarray:
        """Aw, flat."""

    @abstractmethod
    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        """f at w, whose image is given (exactly or not: what is returned holds for the image).

        Where w and its image are sums Σλ_j a_j, `gross` is Σλ_j|a_j|, by which they are rounded.
        """

    @abstractmethod
    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        """f(w)."""

    @abstractmethod
    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        """A row of M, where f(Σλ_j a_j) is curved by λᵀMλ, or estimated to be so."""


@dataclass
class QuadraticForm:
    """c - bᵀw + ½wᵀQw, a quadratic risk lowered by what rounding may have added.

    R(w) >= c - bᵀw + ½wᵀQw - Σ_i e_i|w_i| for every w with at most k nonzeros, with numbers that are exactly the
    floating-point ones; e_i = rounding·roots_i·√(2·energy).

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

    def restrict(self, index: np.ndarray) -> Self:
        """The function of these coordinates alone, the others zero."""
        part = copy.copy(self)
        part.flat = None
        part.Q, part.b, part.roots = self.Q[np.ix_(index, index)], self.b[index], self.roots[index]
        return part


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b, rounded, and the rounding error: exactly."""
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


def two_product(a: np.ndarray, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """a∘b, rounded, and the rounding error: exactly, unless something over- or underflows."""
    product = a * b
    a_high, b_high = _SPLIT * a, _SPLIT * b
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def accurate_product(X: Any, w: np.ndarray, *less: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Xw - Σ less as the sum of two arrays, and how far that sum may be off, entry by entry.

    Parameters
    ----------
    X : array or scipy.sparse matrix (by columns) of shape (n, s)
        In double precision, or an array in single precision.
    w : array of shape (s,)
    *less : arrays of shape (n,)
    """
    n, s = X.shape[0], np.count_nonzero(w)
    high = -less[0] if less else np.zeros(n)
    low, size = np.zeros(n), np.abs(high)
    for vector in less[1:]:
        high, rest = two_sum(high, -vector)
        low, size, s = low + rest, size + np.abs(vector), s + 1
    for where, product, rest in _products(X, w):
        high[where], more = two_sum(high[where], product)
        low[where] += rest + more
        size[where] += np.abs(product)
    # (γ² + eps²)·size, γ = s·eps (Ogita, Rump & Oishi 2005, Proposition 5.5), and what underflows
    return high, low, ((2 * s + 8) * EPS) ** 2 * size + (s + 1) * TINY * (size > 0)


def _products(X: Any, w: np.ndarray) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """For each nonzero of w the rows in which its column has entries, these times it, and the rounding errors."""
    used = np.flatnonzero(w)
    if isinstance(X, np.ndarray):  # a few at a time, which stay in the cache
        step = max(1, _AT_A_TIME // max(1, len(X)))
        for some in (used[start : start + step] for start in range(0, used.size, step)):
            for product, rest in zip(*two_product(X.T[some].astype(float, copy=False), w[some, None]), strict=True):
                yield slice(None), product, rest
        return
    for j in used:
        part = slice(X.indptr[j], X.indptr[j + 1])
        yield X.indices[part], *two_product(X.data[part], w[j])


def _accurate_sum(*parts: np.ndarray) -> tuple[float, float, float]:
    """The sum of all entries, how far it may be off, and the sum of their sizes."""
    terms = np.concatenate(parts)
    total, size = math.fsum(terms), float(np.sum(np.abs(terms)))
    return total, 2 * EPS * abs(total) + (4 * EPS) ** 2 * size, size
