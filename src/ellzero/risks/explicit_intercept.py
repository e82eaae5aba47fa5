"""Linear models whose intercept is one more coordinate."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.arrays import Array, namespace
from ..design import take
from .base import Constant, Risk, changed
from .terms import LinearTerms


class ExplicitIntercept(Risk):
    """(w, b) ↦ R: a linear model whose intercept is not profiled out, so that a batch needs no other rows.

    The last `model.n_outputs` coordinates are b; they carry no ridge.
    """

    def __init__(self, model: LinearTerms) -> None:
        self.profiled, self.model = model, changed(model, fit_intercept=False)
        self.convex, self.lower_bound = model.convex, model.lower_bound
        self.n_terms, self.n_intercepts = model.n_terms, model.n_outputs
        self.n_features = model.n_features + self.n_intercepts

    def _split(self, u: Array) -> tuple[Array, Array]:
        return u[: self.model.n_features], u[self.model.n_features :]

    def _forward(self, w: Array, support: Array | None) -> Array:
        coefficients, b = self._split(w)
        if support is not None:
            support = support[support < self.model.n_features]
        return self.model._with_offset(self.model._predict(self.model.design, coefficients, support)) + b

    def _value(self, w: Array, state: Array) -> float:
        return self.model._value(self._split(w)[0], state)

    def _gradient(self, w: Array, state: Array) -> Array:
        model = self.model
        return self._collect(w, model.design, model._share * model._slope(state, model.y))

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        model = self.model
        batch = model.design.rows(rows)
        coefficients, b = self._split(w)
        share = model._share if isinstance(model._share, float) else take(model._share, rows)
        z = model._with_offset(model._predict(batch, coefficients), rows) + b
        slopes = model._slope(z, take(model.y, rows))
        return self._collect(w, batch, (model.n_terms / rows.size) * share * slopes)

    def term_gradients(self, w: Array, rows: np.ndarray) -> Iterator[Array]:
        near = changed(self, model=self.model.near(rows))
        places = rows if near.model is self.model else np.arange(rows.size)
        return super(ExplicitIntercept, near).term_gradients(w, places)

    def _collect(self, u: Array, design: Any, slopes: Array) -> Array:
        xp, model = namespace(u), self.model
        gradient = model._collect(design, slopes) + model.ridge * self._split(u)[0]
        return xp.concat([gradient, xp.reshape(xp.sum(slopes, axis=0), (self.n_intercepts,))])

    @property
    def smoothness(self) -> Constant:
        """λ_max of [X 1]ᵀ[X 1] is at most that of XᵀX plus n."""
        model = self.model
        return Constant(model.smoothness.value + model._curvature, "bound")

    @property
    def strong_convexity(self) -> Constant:
        """That of the profiled risk, which says nothing of b: an estimate."""
        return Constant(self.profiled.strong_convexity.value, "estimate")

    @property
    def zero(self) -> Array:
        return self.model.design.zeros(self.n_features)
