"""Risks of a linear prediction: what all of them share."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from inspect import getattr_static
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, alike, finfo_eps, index_like, is_tensor, like, to_host, together
from .._core.directions import Directions
from .._core.validation import check_indices, check_nonnegative
from ..design import as_design, here, in_double, take
from .accuracy import EPS, Measured
from .base import Point, Risk, changed, own_names
from .curvature import Curvature
from .damped import Damped
from .explicit_intercept import ExplicitIntercept
from .known import KnownProducts
from .linear_accuracy import LinearPart, enclosed_gradient, measure
from .linear_curvature import LinearCurvature
from .per_row import check_offset
from .terms import LinearTerms
from .weightings import Weightings


class LinearModel(LinearTerms):
    """R(w) = Σ_i ω_i ℓ(x_iᵀw + b + o_i, y_i) / Σ_i ω_i + (ridge/2)||w||².

    o is the offset, 0 unless one is given. With an intercept, b is profiled out: it is the minimiser for the w at hand,
    so R is a function of w alone, and by the envelope theorem its gradient is the partial one there; or b = 0.

    For a loss of your own write a subclass with `_loss(z)`, the loss of every row at its prediction z, and
    `_slope(z, y)`, its derivative in z, both on arrays of the library of X. It has to be convex in z, or to say
    ``convex = False``. Nothing else is believed of it; what it states makes it faster, or lets more be proved:

    - `_bend(z, y)`, the second derivative: Newton's method instead of gradient steps in a refit, and exchanges;
    - `_curvature`, the largest second derivative: smoothness, steps of 1/L and the constants of the theorems;
    - `lower_bound = 0.0`, if it is never negative; `_of_residual = True`, if it is a function of z - y, least at 0;
    - `_best_intercept(z)` or `_intercept_bracket(z)`, and `_intercept_extent()`: the intercept in closed form, between
      two numbers, and never larger than; by default it is searched for;
    - `_least_bend(z, away)`, `_loss_sizes(z)`: the least second derivative nearby and the sizes of the summands, for
      tight proofs in the presence of rounding; `_slope_bounds(reach)`: the variance of gradients;
    - `likelihood = True`, if the loss is minus a log-likelihood: information criteria along a path;
    - `_check_targets(y)`, which y are meaningful, and `_prepare()`, what follows from y and the weights.

    A subclass that changes the loss of another one loses what that knew, unless it says it again; one that changes R
    itself (`_value`, `at`, `value`, `gradient`) is not taken for convex unless it says so.

    Parameters
    ----------
    X, y, ridge, sample_weight, fit_intercept, offset
        As for `LeastSquares`.

    Attributes
    ----------
    design : Design
        The data matrix X.
    y : array of shape (n,)
        Targets, in the library and dtype of X.
    share : float or array of shape (n,)
        ω_i / Σ ω; a number where all are equal.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> class LogCosh(ez.risks.LinearModel):
    ...     _curvature, lower_bound, _of_residual = 1.0, 0.0, True
    ...
    ...     def _loss(self, z):
    ...         return np.logaddexp(z - self.y, self.y - z) - np.log(2)
    ...
    ...     def _slope(self, z, y):
    ...         return np.tanh(z - y)
    ...
    ...     def _bend(self, z, y):
    ...         return 1 - np.tanh(z - y) ** 2
    >>> risk = LogCosh(np.eye(3), [1.0, 5.0, -2.0])
    >>> ez.minimize(risk, k=1).support.tolist()
    [1]
    """

    takes_ridge = True
    #: whether the loss is -log-likelihood up to a constant
    likelihood: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = own_names(cls, LinearModel)
        if not _DEFINING.isdisjoint(own):  # another loss, of which nothing is known that it does not say itself
            for name in _FACTS - own:
                setattr(cls, name, getattr_static(LinearModel, name))
        if not _WHOLE.isdisjoint(own) and "convex" not in own:  # no mean of a loss and a ridge, for all that is known
            cls.convex = False

    def _forward(self, w: Array, support: Array | None) -> Array:
        z = self._with_offset(self._predict(self.design, w, support))
        return self._lifted(z)[0] if self.fit_intercept else z

    def _gradient(self, w: Array, state: Array) -> Array:
        gradient = self._collect(self.design, self._share * self._slope(state, self.y))
        return gradient + self.ridge * w if self.ridge else gradient

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        batch = self.design.rows(rows)
        z = self._with_offset(self._predict(batch, w), rows)
        if self.fit_intercept:  # that of the whole sample, so that the batches average to ∇R
            support = np.flatnonzero(w) if isinstance(w, np.ndarray) else None
            z = z + self._best_intercept(self._with_offset(self._predict(self.design, w, support)))
        share = self._share if isinstance(self._share, float) else take(self._share, rows)
        slopes = (self.n_terms / rows.size) * share * self._slope(z, take(self.y, rows))
        gradient = self._collect(batch, slopes)
        return gradient + self.ridge * w if self.ridge else gradient

    def values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        """R(w + μu_i) for each of the directions u_i, from one product of X with all of them."""
        if self.fit_intercept or self.n_outputs > 1 or self.design.parted:
            return super().values_along(point, directions, mu)
        w, along = point.w, directions.matrix()
        if not isinstance(w, np.ndarray):
            along = like(along if isinstance(along, np.ndarray) else along.toarray(), w)
        steps = self.design.forward(along.T).T
        if isinstance(w, np.ndarray):  # a sparse matrix for sparse data and sparse directions
            steps = np.ascontiguousarray(steps if isinstance(steps, np.ndarray) else steps.toarray())
        values = together([self._mean_loss(point.state + mu * steps[i]) for i in range(len(directions))])
        if self.ridge:
            # ||w + μu||² with ||u|| = 1
            values += 0.5 * self.ridge * (float(w @ w) + 2 * mu * to_host(along @ w) + mu * mu)
        return values

    # What is known of its rows.

    def predict(self, w: Array, X: Any = None, *, intercept: Any = None, offset: Any = None) -> Array:
        """x_iᵀw + b + o_i for each row of X, by default that of the model; one column an output if there are several.

        b is the intercept that is best for w on the rows of the model, unless another one is given; o is the offset of
        the model on its own rows, and none on others unless it is given.
        """
        if X is None and offset is None:
            return here(self._predicted(w, intercept))
        w = self.as_vector(w)
        design = self.design if X is None else as_design(X)
        own = self.design.reference
        if (is_tensor(X) or isinstance(X, (list, np.ndarray))) and not alike(X, own):
            design = as_design(like(X if is_tensor(own) else to_host(X), own))
        if design.shape[1] != self.design.shape[1]:
            raise ValueError(f"X must have {self.design.shape[1]} columns, as the model has, got {design.shape[1]}")
        b = self.intercept(w) if intercept is None else intercept
        z = self._predict(design, w, self._support(w))
        if offset is not None:
            z = z + design.by_row(check_offset(offset, design.shape[0], self.n_outputs))
        return here(z + self.design.asarray(b))

    def losses(self, w: Array, *, intercept: Any = None) -> np.ndarray:
        """ℓ(x_iᵀw + b + o_i, y_i) for each row, on the host; b as in `predict`.

        For the losses on held-out data make the same kind of risk of them, and give it the intercept that was fitted:
        ``LeastSquares(X_new, y_new).losses(w, intercept=risk.intercept(w))``.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return to_host(self._loss(self._predicted(w, intercept))).astype(float)

    def _predicted(self, w: Array, intercept: Any) -> Array:
        """The predictions of the model's own rows, where these are."""
        w = self.as_vector(w)
        b = self.intercept(w) if intercept is None else intercept
        return self._with_offset(self._predict(self.design, w, self._support(w))) + self.design.asarray(b)

    def held_out_loss(self, w: Array, fitted: Risk) -> tuple[float, float]:
        share = self.row_share
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.design.doubles(self._loss(self._predicted(w, fitted.intercept(w))))
            mean = float(np.sum(share * losses))
            return mean, float(np.linalg.norm(share * (losses - mean)))

    def deviance(self, w: Array) -> float | None:
        return 2 * self.n_observations * self.held_out_loss(w, self)[0] if self.likelihood else None

    @property
    def n_observations(self) -> int:
        """How many rows have a weight."""
        return int(np.count_nonzero(self.double_share))

    def intercept(self, w: Array) -> Any:
        if not self.fit_intercept:
            return 0.0
        w = self.as_vector(w)
        return float(self._lifted(self._with_offset(self._predict(self.design, w, self._support(w))))[1])

    def with_explicit_intercept(self) -> Risk:
        return ExplicitIntercept(self) if self.fit_intercept else self

    def _support(self, w: Array) -> Array:
        return index_like(np.flatnonzero(to_host(w)), w)

    # What is known of its data.

    @property
    def readable(self) -> bool:  # type: ignore[override]
        return self.design.explicit

    @property
    def keeps_state(self) -> bool:  # type: ignore[override]
        """The predictions are the same, unless a part sees them through one of the whole."""
        return self.n_outputs == 1

    def squares(self) -> np.ndarray | None:
        """Σ_i share_i X_ij² for every column; not kept, because what is kept changes the last digit of later values."""
        known: np.ndarray | None = vars(self).get("_column_squares")
        return (self._sum_squares() if known is None else known) if self.readable else None

    def columns(self, index: np.ndarray) -> np.ndarray | None:
        """X[:, index], on the host and in double precision; None where a ridge tells equal columns apart."""
        if self.n_outputs > 1 or self.ridge or not self.readable:
            return None
        return to_host(in_double(self.design.columns(index).dense()))

    def smooth_part(self) -> LinearPart:
        """The loss, without the ridge."""
        return LinearPart(self)

    def hessian_bound(self) -> tuple[np.ndarray, float, bool] | None:
        if not self.readable or not math.isfinite(self._curvature):
            return None
        gram, squares = self.gram()
        noise = 2 * EPS * (sum(self.design.shape) + 10) * self._curvature * float(squares.sum())
        H = self._curvature * self._over_outputs(gram)
        H[np.diag_indices_from(H)] += self.ridge
        return H, noise, False

    def gradient_bounds(self, radius: float | None = None) -> np.ndarray | None:
        if not self.readable or type(self)._slope_bounds is LinearTerms._slope_bounds:
            return None
        norms, share, reach = self.design.row_norms(), self.double_share, None
        if radius is not None:
            means = self._column_means if self.fit_intercept else np.zeros(1)
            reach = check_nonnegative(radius, "radius") * (norms + float(np.linalg.norm(means)))
        slopes = self._slope_bounds(reach)
        return None if slopes is None else self.n_terms * share * slopes * norms

    def metric(self, support: np.ndarray, size: float) -> np.ndarray | None:
        """As if all rows had the same curvature."""
        if not (self.readable and self.n_outputs == 1 and KnownProducts.pays(support.size, self.design.shape[1])):
            return None
        weights = self.share if isinstance(self.share, float) else self.double_share
        G = size * self.known.block(support, LinearCurvature(self, weights, exact=True).products)
        G[np.diag_indices_from(G)] += 0.5 * self.ridge
        return G

    def forget(self) -> None:
        for name in ("known", "origin"):
            vars(self).pop(name, None)
        self.design.forget()

    def term_gradients(self, w: Array, rows: np.ndarray) -> Iterator[Array]:
        near = self.near(rows)
        return super(LinearModel, near).term_gradients(w, rows if near is self else np.arange(len(rows)))

    def expect(self, coordinates: np.ndarray) -> None:
        self.design.expect(np.unique(coordinates % self.design.shape[1]))

    def at_work(self, verbose: int) -> AbstractContextManager[None]:
        return self.design.at_work(verbose)

    @property
    def n_sweeps(self) -> float:  # type: ignore[override]
        return self.design.n_sweeps

    def column_scales(self) -> np.ndarray | None:
        """1 over the size of each column, without its mean where there is an intercept; 1 for a column of zeros."""
        return self._column_scales if self.design.explicit else None

    def curvature(self, point: Point) -> Curvature | None:
        """The quadratic model at a point, where columns of X can be read and the loss tells its second derivative."""
        bends = self._bend(point.state, self.y) if self.readable and self.n_outputs == 1 else None
        return None if bends is None else LinearCurvature(self, self.design.doubles(0.5 * self.share * bends))

    def weightings(self, weights: np.ndarray, ridges: np.ndarray) -> Weightings | None:
        known = type(self)._bend is not LinearTerms._bend or type(self)._steady_bend is not LinearTerms._steady_bend
        return Weightings(self, weights, ridges) if known and self.has_terms and self._on_host else None

    @property
    def _on_host(self) -> bool:
        """Whether columns of X are to be had at once, by NumPy."""
        return self.design.at_hand and isinstance(self.zero, np.ndarray)

    def on_rows(self, rows: np.ndarray) -> Self:
        """The same loss on some rows, which all count the same; without an intercept of its own."""
        facts: dict[str, Any] = {"share": 1.0 / len(rows), "_weights": None, "fit_intercept": False}
        if self.offset is not None:
            facts["offset"] = take(self.offset, rows)
        part = changed(self, design=self.design.rows(rows), y=take(self.y, rows), n_terms=len(rows), **facts)
        part._prepare()
        return part

    def restrict(self, support: Any) -> Risk:
        index = check_indices(support, self.n_features, "support")
        return changed(self, design=self.design.columns(index), n_features=index.size)

    def rescaled(self, scales: Any) -> Risk:
        """u ↦ R(scales∘u): the same model of other columns, but for a ridge, which is another for each of them."""
        plain, scales = super().rescaled(scales), np.asarray(scales, dtype=float)
        own = scales[: self.design.shape[1]]
        design = self.design.scaled(own) if np.array_equal(scales, np.tile(own, self.n_outputs)) else None
        if design is None:
            return plain
        columns = changed(self, design=design, ridge=0.0)
        return columns if self.ridge == 0 else Damped(columns, 0.5 * self.ridge * scales**2)

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        return measure(self, w, support, closely=closely)

    def value_in_double(self, w: np.ndarray) -> float | None:
        """By one look at X, of which no more than a block is copied."""
        if finfo_eps(self.design.reference) < 1e-12 or self.design.parted or not self.readable:
            return None
        z = np.concatenate([to_host(self._predict(part, part.asarray(w))) for part in self.design.doubled()])
        rest = self.on_host(np.empty(0, dtype=np.intp))
        z = rest._with_offset(z)
        z = rest._lifted(z)[0] if self.fit_intercept else z
        return rest._mean_loss(z) + 0.5 * self.ridge * float(w @ w)

    def enclosed_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return enclosed_gradient(self, w) or super().enclosed_gradient(w)

    @property
    def zero(self) -> Array:
        return self.design.zeros(self.n_features)


#: what makes a loss another one
_DEFINING = {"_loss", "_slope", "_predict", "_collect", "_forward", "_value", "_gradient", "at", "value", "gradient"}
#: what makes R another function than the mean of a loss and a ridge
_WHOLE = {"_value", "at", "value", "gradient"}
#: what is known of a loss
_FACTS = {
    "_bend", "_steady_bend", "_curvature", "_of_residual", "_mean_loss", "_accurate_loss", "_loss_sizes", "_least_bend",
    "_slope_sizes", "_slope_bounds", "_best_intercept", "_intercept_bracket", "_intercept_extent", "likelihood",
    "deviance", "lower_bound", "smoothness", "strong_convexity", "known_convexity", "curvature", "hessian_bound",
    "quadratic_form", "is_settled", "measured", "moments", "smooth_part", "enclosed_gradient", "_intercept_doubt",
}  # fmt: skip
