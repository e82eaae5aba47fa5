"""A risk with a quadratic term added, under which a search sees further."""

from typing import Any

import numpy as np

from .._core.arrays import Array, like, scatter
from .._core.validation import check_indices
from .base import Constant, Point, Risk
from .curvature import Curvature, DampedCurvature


class Damped(Risk):
    """R(w) + Σ_j damping_j w_j².

    Parameters
    ----------
    risk : Risk
    damping : array of shape (n_features,)
    model : curvature, optional
        That of R where R is quadratic, so that what it has gathered serves every damping.
    """

    def __init__(self, risk: Risk, damping: np.ndarray, model: Curvature | None = None) -> None:
        self.risk, self.damping, self.model = risk, damping, model
        self._damping = like(damping, risk.zero)
        self.n_features, self.n_terms, self.n_outputs = risk.n_features, risk.n_terms, risk.n_outputs

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.risk.convex

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.risk.lower_bound

    def _forward(self, w: Array, support: Array | None) -> Point:
        return self.risk.at(w, support)

    def _value(self, w: Array, state: Point) -> float:
        S = state.support
        return state.value + float(self._damping @ w**2 if S is None else self._damping[S] @ w[S] ** 2)

    def _gradient(self, w: Array, state: Point) -> Array:
        # that of R is not kept where nobody else has asked for it
        known = self.risk._gradient(state.w, state.state) if state._gradient is None else state._gradient
        S = state.support
        if S is None:
            return known + 2 * self._damping * w
        return known + scatter(2 * self._damping[S] * w[S], S, self.n_features)

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        return self.risk._gradient_of_rows(w, rows) + 2 * self._damping * w

    @property
    def origin(self) -> Point:
        point = self.at(self.zero)
        point._state = self.risk.origin
        return point

    @property
    def smoothness(self) -> Constant:
        """That of R, plus twice the largest damping."""
        return Constant(self.risk.smoothness.value + 2 * float(self.damping.max()), "bound")

    @property
    def strong_convexity(self) -> Constant:
        """That of R, plus twice the smallest damping."""
        return Constant(self.risk.strong_convexity.value + 2 * float(self.damping.min()), "bound")

    def curvature(self, point: Point) -> DampedCurvature | None:
        model = self.model or self.risk.curvature(point.state)
        return None if model is None else DampedCurvature(model, self.damping)

    def metric(self, support: np.ndarray, size: float) -> np.ndarray | None:
        G = self.risk.metric(support, size)
        if G is not None:
            G[np.diag_indices_from(G)] += self.damping[support]
        return G

    def restrict(self, support: Any) -> Risk:
        index = check_indices(support, self.n_features, "support")
        return Damped(self.risk.restrict(index), self.damping[index])

    def column_scales(self) -> np.ndarray | None:
        return self.risk.column_scales()

    @property
    def zero(self) -> Array:
        return self.risk.zero
