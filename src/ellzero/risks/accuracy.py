"""R and its derivatives with the sizes of their rounding errors: what proofs are made of.

Products that cancel are computed as if in twice the working precision: every product and sum is split into its rounded
value and its rounding error, both floating-point numbers (Dekker 1971, Knuth), and the errors are added up apart
(Ogita, Rump & Oishi 2005).
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import to_host
from ..design.matrices import Dense, Sparse, in_double

if TYPE_CHECKING:
    from .linear import LinearModel

EPS = float(np.finfo(np.float64).eps)
_SPLIT = 134217729.0  # 2^27 + 1
_TINY = 1e-300  # more than what a product loses that underflows
_PLENTY = 1e-12  # a relative error that needs no second look


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
        self.error = 0.5 * (off + float(np.abs(w) @ self._off)) + (_TINY if size else 0.0)
        self.grain = (w.size + 4) * EPS * float(np.abs(w) @ (np.abs(Q) @ np.abs(w) + np.abs(b)))

    @property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        gradient = self._high + self._low
        return gradient, self._off + EPS * np.abs(gradient)

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        return self.Q, 0.0


class LinearMeasure(Measured):
    """A linear model, restricted to few columns and in double precision, at w.

    Parameters
    ----------
    model : LinearModel
        In double precision on the host.
    w : array of shape (s,)
    place, output : arrays of shape (s,)
        Column and output that each entry of w belongs to.
    accurate : bool
        Whether predictions are computed in twice the working precision.
    """

    def __init__(
        self, model: LinearModel, w: np.ndarray, place: np.ndarray, output: np.ndarray, accurate: bool
    ) -> None:
        self.w, self.place, self.output = w, place, output
        self.columns: Any = model.design.X  # type: ignore[attr-defined]
        n, c = model.n_terms, model.n_outputs
        z, off = np.empty((n, c)), np.empty((n, c))
        less = model.y if model._of_residual else None
        for j in range(c):
            coefficients = np.zeros(self.columns.shape[1])
            coefficients[place[output == j]] = w[output == j]
            high, low, error = (accurate_product if accurate else _plain_product)(self.columns, coefficients, less)
            z[:, j] = high + low
            off[:, j] = error + EPS * np.abs(z[:, j])
        if less is not None:  # from here on the predictions are residuals
            model = copy.copy(model)
            model.y = np.zeros(n)
        if c == 1:
            z, off = z[:, 0], off[:, 0]
        if model.fit_intercept:
            b = model._best_intercept(z)
            off = off + EPS * (np.abs(z) + np.abs(b))
            z = z + b
            self.n_free = max(c - 1, 1)  # softmax does not see a shift of all: the last intercept is the origin
        self.model, self.z, self.off = model, z, off
        self.share = np.broadcast_to(np.asarray(model.share, dtype=float), n)
        self._sum_up()

    def _sum_up(self) -> None:
        model, z, off, share, w = self.model, self.z, self.off, self.share, self.w
        if z.ndim > 1:
            lost = 2.0 * off.max(axis=1)  # |slopes| add up to at most 2
        else:  # slopes increase
            lost = off * np.maximum(np.abs(model._slope(z - off, model.y)), np.abs(model._slope(z + off, model.y)))
        terms, ridge = share * model._accurate_loss(z), 0.5 * model.ridge * w * w
        self.value = float(np.sum(terms)) + float(np.sum(ridge))
        unit = (math.log2(share.size + 1) + 40) * EPS  # sums are taken in pairs
        self.error = 1.01 * float(share @ lost) + unit * (float(share @ model._loss_sizes(z)) + float(ridge.sum()))

    @cached_property
    def unknowns(self) -> np.ndarray:
        """A column of derivatives of the predictions for each unknown.

        With an intercept columns are centred: Xw + b = (X - 1mᵀ)w + (b + mᵀw), and the bracket is as free as b is.
        """
        X = self.columns if isinstance(self.columns, np.ndarray) else self.columns.toarray()
        if self.n_free:
            X = X - self.share @ X
        return np.hstack([X[:, self.place], np.ones((len(X), self.n_free))])

    @cached_property
    def shifts(self) -> list[np.ndarray] | None:  # type: ignore[override]
        """Softmax does not see a shift of all classes, and columns x and -x do not see one of both."""
        if self.model.ridge:
            return None
        if self.z.ndim > 1:
            of_feature = [np.flatnonzero(self.place == j) for j in range(self.columns.shape[1])]
            return [entries for entries in of_feature if entries.size == self.z.shape[1]] or None
        if self.n_free:  # centred columns are rounded: opposite there need not be opposite
            return None
        X = self.unknowns[:, : self.w.size] + 0.0
        place = {column.tobytes(): j for j, column in enumerate(X.T)}
        opposite = [(place.get((0.0 - column).tobytes(), -1), j) for j, column in enumerate(X.T)]
        return [np.array(pair) for pair in opposite if 0 <= pair[0] < pair[1]] or None

    @cached_property
    def _output(self) -> np.ndarray:
        return np.concatenate([self.output, np.arange(self.n_free)]).astype(np.intp)

    @cached_property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        model, z, off, V = self.model, self.z, self.off, self.unknowns
        slope = model._slope(z, model.y)
        if z.ndim > 1:
            change = np.repeat(2.0 * off.max(axis=1, keepdims=True), z.shape[1], axis=1)
        else:
            change = np.maximum(model._slope(z + off, model.y) - slope, slope - model._slope(z - off, model.y))
        share = self.share.reshape(-1, *[1] * (z.ndim - 1))
        a, lost = share * slope, share * (change + 8 * EPS * (np.abs(slope) + np.abs(model.y)))
        lost = lost + (len(V) + 8) * EPS * np.abs(a)
        if z.ndim > 1:
            a, lost = a[:, self._output], lost[:, self._output]
            gradient, doubt = np.einsum("ij,ij->j", V, a), np.einsum("ij,ij->j", np.abs(V), lost)
        else:
            gradient, doubt = a @ V, lost @ np.abs(V)
        s = self.w.size
        gradient[:s] += model.ridge * self.w
        doubt[:s] += 4 * EPS * model.ridge * np.abs(self.w)
        return gradient, 1.01 * doubt

    def _changes(self, D: np.ndarray) -> np.ndarray:
        """How far each prediction goes along ||D∘h|| = 1."""
        scaled = self.unknowns / D
        return np.asarray(1.01 * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))

    def farthest(self, D: np.ndarray) -> float:
        return float(self._changes(D).max(initial=0.0))

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        """The Hessian at the lowest second derivatives of the losses within reach."""
        model, V, m = self.model, self.unknowns, D.size
        away = reach * np.maximum(self._changes(D), _TINY) if reach else np.zeros(len(V))
        away = away + (self.off if self.z.ndim == 1 else self.off.max(axis=1))
        if self.z.ndim == 1:
            weighted = V * (self.share * model._least_bend(self.z, away))[:, None]
            M = V.T @ weighted
            size = np.diag(M).copy()
        else:
            # softmax: third derivatives are at most the range of the direction times the second ones
            p = model._softmax(self.z)[:, self._output]  # type: ignore[attr-defined]
            weight = self.share * np.exp(-2 * away)
            M = V.T @ (V * p * weight[:, None])
            size = np.diag(M).copy()
            M[self._output[:, None] != self._output] = 0.0
            M -= (V * p).T @ (V * p * weight[:, None])
        s = self.w.size
        M[np.arange(s), np.arange(s)] += model.ridge
        return M, (len(V) + 64) * EPS * m * float(np.max(size / (D * D), initial=0.0))


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


def accurate_product(
    X: Any, w: np.ndarray, less: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Xw - less as the sum of two arrays, and how far that sum may be off, entry by entry.

    Parameters
    ----------
    X : array or scipy.sparse matrix (by columns) of shape (n, s)
        In double precision.
    w : array of shape (s,)
    less : array of shape (n,), optional
    """
    n, s = X.shape
    high = np.zeros(n) if less is None else -less
    low, size = np.zeros(n), np.abs(high)
    for j in np.flatnonzero(w):
        where: Any = slice(None)
        if isinstance(X, np.ndarray):
            values = X[:, j]
        else:
            part = slice(X.indptr[j], X.indptr[j + 1])
            where, values = X.indices[part], X.data[part]
        product, rest = two_product(values, w[j])
        high[where], more = two_sum(high[where], product)
        low[where] += rest + more
        size[where] += np.abs(product)
    # (γ² + eps²)·size, γ = s·eps (Ogita, Rump & Oishi 2005, Proposition 5.5), and what underflows
    return high, low, ((2 * s + 8) * EPS) ** 2 * size + (s + 1) * _TINY * (size > 0)


def _plain_product(X: Any, w: np.ndarray, less: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z, size = X @ w, abs(X) @ np.abs(w)
    if less is not None:
        z, size = z - less, size + np.abs(less)
    return z, np.zeros(z.size), (w.size + 4) * EPS * size


def _accurate_sum(*parts: np.ndarray) -> tuple[float, float, float]:
    """The sum of all entries, how far it may be off, and the sum of their sizes."""
    terms = np.concatenate(parts)
    total, size = math.fsum(terms), float(np.sum(np.abs(terms)))
    return total, 2 * EPS * abs(total) + (4 * EPS) ** 2 * size, size


def on_host(model: LinearModel, columns: np.ndarray) -> LinearModel:
    """The same model on some columns of X, on the host and in double precision."""
    part = model._on_columns(columns)
    if isinstance(part.design, Sparse):
        part.design = Sparse(part.design.X.astype(np.float64).tocsc())
    else:
        part.design = Dense(np.asfortranarray(to_host(in_double(part.design.dense()))))
    part.y = to_host(model.y).astype(np.float64)
    if not isinstance(model.share, float):
        part.share = part._share = model.double_share
        if model.n_outputs > 1:
            part._share = model.double_share[:, None]
    part._prepare()
    return part


def measure(model: LinearModel, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> LinearMeasure | None:
    """A linear model at w, zero outside the support; None where the columns of X cannot be read.

    Closely: with predictions in twice the working precision; otherwise only where R needs them.
    """
    if not model.design.explicit or not type(model).__module__.startswith("ellzero.risks."):
        return None  # of a loss of someone's own nothing is known but its values and slopes
    p = model.design.shape[1]
    features, place = np.unique(support % p, return_inverse=True)
    small = on_host(model, features)
    with np.errstate(over="ignore", invalid="ignore"):
        if not closely:
            plain = LinearMeasure(small, w[support], place, support // p, accurate=False)
            plain.grain = plain.error
            if plain.error <= _PLENTY * abs(plain.value):
                return plain
        close = LinearMeasure(small, w[support], place, support // p, accurate=True)
        if not closely:
            close.grain = plain.grain
        return close
