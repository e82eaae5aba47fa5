"""A linear model and its derivatives with the sizes of their rounding errors."""

import copy
import math
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import finfo_eps, to_host, waits
from ..design.base import in_double
from .accuracy import EPS, TINY, Look, Measured, SmoothPart, accurate_product
from .terms import LinearTerms

_AT_A_TIME = 2**18  # entries of X
_SMALL = 10**7  # entries of X that are copied to the host in double precision
PLENTY = 1e-12  # a relative error that needs no second look
_ENOUGH = 1e-9  # the same for data on a device, which twice the precision would keep waiting


class LinearMeasure(Measured):
    """A linear model, restricted to few columns and in double precision, at w.

    Parameters
    ----------
    model : LinearTerms
        In double precision on the host; its own columns are not looked at.
    columns : array or scipy.sparse matrix
        Those of X, an array perhaps in single precision.
    w : array of shape (s,)
    place, output : arrays of shape (s,)
        Column and output that each entry of w belongs to.
    accurate : bool
        Whether predictions are computed in twice the working precision.
    """

    def __init__(
        self, model: LinearTerms, columns: Any, w: np.ndarray, place: np.ndarray, output: np.ndarray, accurate: bool
    ) -> None:
        self.columns, self.w, self.place, self.output = columns, w, place, output
        n, c = model.n_terms, model.n_outputs
        z, off = np.empty((n, c)), np.empty((n, c))
        shift = None if model.offset is None else model.offset.reshape(n, c)
        for j in range(c):
            coefficients = np.zeros(self.columns.shape[1])
            coefficients[place[output == j]] = w[output == j]
            less = [model.y] if model._of_residual else []
            if shift is not None:
                less.append(-shift[:, j])
            high, low, error = (accurate_product if accurate else plain_product)(self.columns, coefficients, *less)
            z[:, j] = high + low
            off[:, j] = error + EPS * np.abs(z[:, j])
        if model._of_residual:  # from here on the predictions are residuals
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
        sizes = float(share @ np.asarray(model._loss_sizes(z)))
        self.error = 1.01 * float(share @ lost) + unit * (sizes + float(ridge.sum()))

    @cached_property
    def unknowns(self) -> np.ndarray:
        """A column of derivatives of the predictions for each unknown.

        With an intercept columns are centred: Xw + b = (X - 1mᵀ)w + (b + mᵀw), and the bracket is as free as b is.
        """
        X = self.columns[:, self.place]
        X = in_double(X) if isinstance(X, np.ndarray) else X.toarray()
        if self.n_free:
            X = X - self.share @ X
        return np.hstack([X, np.ones((len(X), self.n_free))])

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

    def slopes_of_terms(self, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slope of each term in its predictions, and how much its sums may lose, where these are off by so much."""
        model, z = self.model, self.z
        slope = model._slope(z, model.y)
        if z.ndim > 1:
            change = np.repeat(2.0 * off.max(axis=1, keepdims=True), z.shape[1], axis=1)
        else:
            change = np.maximum(model._slope(z + off, model.y) - slope, slope - model._slope(z - off, model.y))
        share = self.share.reshape(-1, *[1] * (z.ndim - 1))
        a, lost = share * slope, share * (change + 8 * EPS * (np.abs(slope) + model._slope_sizes()))
        return a, lost + (len(z) + 8) * EPS * np.abs(a)

    @cached_property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        model, V = self.model, self.unknowns
        a, lost = self.slopes_of_terms(self.off)
        if self.z.ndim > 1:
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
        away = reach * np.maximum(self._changes(D), TINY) if reach else np.zeros(len(V))
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


def plain_product(X: Any, w: np.ndarray, *less: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # a block of columns at a time: the sizes of all entries would be as many as X has
    used, step = np.flatnonzero(w), max(1, _AT_A_TIME // X.shape[0])
    z, size = np.zeros((2, X.shape[0]))
    for some in (used[start : start + step] for start in range(0, used.size, step)):
        part = in_double(X.T[some].T) if isinstance(X, np.ndarray) else X[:, some]
        z, size = z + part @ w[some], size + abs(part) @ np.abs(w[some])
    for vector in less:
        z, size = z - vector, size + np.abs(vector)
    return z, np.zeros(z.size), (used.size + 4) * EPS * size


def _beside_columns(model: LinearTerms, support: np.ndarray) -> tuple[LinearTerms, Any, np.ndarray]:
    """The model in double precision on the host, columns, and at which of them each entry of the support stands.

    Those that lie in one place are left there, and in their precision.
    """
    features, place = np.unique(support % model.design.shape[1], return_inverse=True)
    design: Any = model.design
    if design.has_whole_columns:
        return model.on_host(features[:0]), design.X, features[place]
    small: Any = model.on_host(features)
    return small, small.design.X, place


def measure(model: LinearTerms, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> LinearMeasure | None:
    """A linear model at w, zero outside the support; None where the columns of X cannot be read, or not be copied.

    Closely: with predictions in twice the working precision; otherwise only where R needs them.
    """
    if not model.design.explicit or type(model)._loss_sizes is LinearTerms._loss_sizes:
        return None  # nothing is known of the loss but its values and slopes
    p = model.design.shape[1]
    if not model.design.fits(model.n_terms, np.unique(support % p).size):
        return None  # more than may be copied from elsewhere
    small, columns, place = _beside_columns(model, support)
    with np.errstate(over="ignore", invalid="ignore"):
        if not closely:
            plain = LinearMeasure(small, columns, w[support], place, support // p, accurate=False)
            plain.grain = plain.error
            if plain.error <= (_ENOUGH if waits(model.design.reference) else PLENTY) * abs(plain.value):
                return plain
        close = LinearMeasure(small, columns, w[support], place, support // p, accurate=True)
        if not closely:
            close.grain = plain.grain
        return close


def enclosed_gradient(model: LinearTerms, w: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """∇R(w) in double precision, and how far each entry may be off; None where nothing is known of rounding.

    Predictions come from the columns that w uses, with their errors; the slopes of the terms lie between those at both
    ends, and Σ_i |X_ij| times what each of them may lose is at most ||x_j|| times the length of these losses. One
    product with X. The best intercept for w lies within so much of the one that was found.
    """
    if not (model.convex and model.design.explicit) or type(model)._loss_sizes is LinearTerms._loss_sizes:
        return None
    n, p = model.design.shape
    support = np.flatnonzero(w)
    if not model.design.fits(n, np.unique(support % p).size):
        return None  # more than may be copied from elsewhere
    with np.errstate(over="ignore", invalid="ignore"):
        small, columns, place = _beside_columns(model, support)
        here = LinearMeasure(small, columns, w[support], place, support // p, accurate=False)
        off = here.off
        if model.fit_intercept:
            off = off + here.model._intercept_doubt(here.z, off, here.share)
        a, lost = here.slopes_of_terms(off)
        design, sizes = model.design, np.sqrt(model.plain_squares)
        if waits(design.reference):  # not fetched from where it is: rounded there
            lost = lost + (n + 16) * finfo_eps(design.reference) * np.abs(a)
            columns = to_host(design.adjoint(design.asarray(a))).astype(float).reshape(p, -1)
        else:
            columns = np.column_stack([design.correlations(np.ascontiguousarray(one)) for one in a.reshape(n, -1).T])
        doubt = 1.01 * sizes[:, None] * np.sqrt(np.sum(lost.reshape(n, -1) ** 2, axis=0))
        gradient = columns.T.ravel() + model.ridge * w
        return gradient, doubt.T.ravel() + 4 * EPS * (model.ridge * np.abs(w) + np.abs(gradient))


class LinearPart(SmoothPart):
    """The loss of a linear model; μ = ridge. Any predictions z give a valid bound, so only their use is rounded.

    F(Xw + b + o) >= F(z) + <a, Xw + b + o - z>, a = ∇F(z), o the offset. With an intercept, z holds one that is the
    best up to rounding, so that a adds up to σ, next to 0, and bσ is left over: the intercept that is best for w is at
    most c + factor·max|Xw| (`LinearModel._intercept_extent`; an offset adds factor·max|o| to c), which adds |σ|c to the
    slack and |σ|·factor·max||x_i|| to the gradient's error.
    """

    def __init__(self, risk: LinearTerms) -> None:
        shape = risk.design.shape
        if risk.design.explicit and math.prod(shape) <= _SMALL and risk.design.fits(*shape):
            risk = risk.on_host()
        self.risk, self.mu, self.d = risk, risk.ridge, risk.n_features
        design = risk.design
        self.eps = max(EPS, finfo_eps(design.reference))
        share = risk.double_share
        self.share = share[:, None] if risk.n_outputs > 1 else share
        self.known = np.abs(to_host(risk.y).astype(float))  # the sizes of what is added to predictions
        self.offset = None if risk.offset is None else to_host(risk.offset).astype(float)
        if self.offset is not None:
            self.known = self.known + np.abs(self.offset)
        # ||X||_F bounds the error of a whole product with Xᵀ; operators are asked for nothing they cannot give
        squares = design.square_sums(np.ones(risk.n_terms)) if design.explicit else None
        self.size = math.sqrt(float(squares.sum())) if squares is not None else math.inf
        if not math.isfinite(self.size):
            self.unreadable = (
                "X is an operator whose entries cannot be read, so nothing bounds the rounding of its products; a "
                "bound needs X as an array or a sparse matrix"
            )
        curved = float(getattr(risk, "_curvature", math.inf))
        self.curved = curved if math.isfinite(curved) else 1.0

    def _shaped(self, image: np.ndarray) -> Any:
        z = image.reshape(self.risk.n_terms, -1) if self.risk.n_outputs > 1 else image
        z = self.risk._with_offset(self.risk.design.asarray(z))
        return z + self.risk._best_intercept(z) if self.risk.fit_intercept else z

    def image(self, w: np.ndarray) -> np.ndarray:
        support = np.flatnonzero(w)
        z = self.risk._predict(self.risk.design, self.risk.as_vector(w), support if support.size < w.size else None)
        return to_host(z).astype(float).ravel()

    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        return self.risk._mean_loss(self._shaped(image))

    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        risk, z = self.risk, self._shaped(image)
        slopes = risk._share * risk._slope(z, risk.y)
        a, prediction = to_host(slopes).astype(float), to_host(z).astype(float)
        f = risk._mean_loss(z)
        inner = float(np.sum(a * prediction))
        if self.offset is not None:
            inner -= float(np.sum(a * self.offset))
        gradient = to_host(risk._collect(risk.design, slopes)).astype(float)
        unit = 8 * (risk.n_terms + 16) * self.eps
        size = np.abs(prediction) + self.known
        magnitude = np.abs(a) + max(2.0, self.curved) * self.share * size
        slack = unit * (abs(f) + float(np.sum(magnitude * size)))
        error = unit * self.size * float(np.linalg.norm(magnitude))
        if risk.fit_intercept:
            left = float(np.sum(np.abs(a.sum(axis=0)))) + unit * float(np.sum(magnitude))
            constant, factor = risk._intercept_extent()
            if self.offset is not None:
                constant += factor * float(np.abs(self.offset).max())
            slack, error = slack + left * constant, error + left * factor * self.size
        return Look(f, f - inner - slack, -gradient, error)

    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        column = images[one].reshape(self.risk.n_terms, -1)
        share = self.share.reshape(-1, 1)
        if self.risk.fit_intercept:
            column = column - (share * column).sum(axis=0)  # centring one factor is enough
        return self.curved * (images @ (share * column).ravel())  # type: ignore[no-any-return]
