"""Refits and slopes of a quadratic R from products that are at hand, without a look at the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.arrays import finfo_eps, to_host
from .._core.linear_systems import solve
from ..risks.base import Point, Risk
from ..risks.curvature import Curvature
from .problem import Problem
from .refit import LEAST
from .row_moves import are_rows


@dataclass(frozen=True)
class Products:
    """R(w) = R(0) - 2bᵀw + wᵀGw, from the columns of G that exchanges of atoms need in any case.

    Attributes
    ----------
    model : curvature
        G.
    b : array of shape (n_outputs, p)
        -½∇R(0), with one row for each output that shares the columns of `model`.
    base : float
        R(0).
    """

    model: Curvature
    b: np.ndarray
    base: float

    @classmethod
    def of(cls, problem: Problem, model: Curvature, point: Point) -> Products | None:
        """Those of a problem, from a point at which the gradient is known; None where they are of no use."""
        risk, sparsity = problem.risk, problem.sparsity
        exact = model.exact and problem.gamma.whole_space and sparsity.atoms is not None
        if not (exact and isinstance(risk.zero, np.ndarray) and finfo_eps(risk.zero) < 1e-12):
            return None
        shared, q = model.shared, model.n_shared
        if shared is not None and are_rows(sparsity, risk.n_features, q):
            model = shared
        elif shared is not None:
            return None
        W = to_host(point.w).astype(float).reshape(q if model is shared else 1, -1)
        F = np.flatnonzero(W.any(axis=0))
        if not model.affords(F.size):
            return None
        image = _images(model, W, F)
        b = image - 0.5 * to_host(point.gradient).astype(float).reshape(W.shape)
        return cls(model, b, point.value + float(np.sum(W * (2 * b - image))))

    def with_model(self, model: Curvature) -> Products:
        """The same with more on the diagonal of G."""
        return replace(self, model=model.shared if len(self.b) > 1 and model.shared is not None else model)

    def slopes(self, w: np.ndarray) -> np.ndarray:
        """-½∇R(w)."""
        W = w.reshape(self.b.shape)
        return np.asarray((self.b - _images(self.model, W, np.flatnonzero(W.any(axis=0)))).ravel())

    def gather(self, newcomers: list[tuple[int, ...]]) -> None:
        """Columns of G that are about to be asked for, by one product with X."""
        new = np.unique([j % self.b.shape[1] for J in newcomers for j in J]).astype(np.intp)
        if new.size and self.model.affords(new.size) and self.model.gathered(new) is None:
            self.model.columns(new)

    def refit(self, risk: Risk, support: np.ndarray, last: np.ndarray) -> Point | None:
        """The best point on a support that is near the last one, its value by the formula; None where it is not enough.

        Columns that are new are computed: the exchange that brings them in has been found to pay.
        """
        p = self.b.shape[1]
        F = np.unique(support % p)
        if not (F.size and self.model.affords(F.size)):
            return None
        if (new := np.setdiff1d(F, last % p)).size:
            self.model.columns(new)
        G = self.model.gathered(F)
        if G is None or not np.isfinite(G).all():
            return None
        values, accurate = solve(G, self.b[:, F].T)
        value = self.base - float(np.sum(values * self.b[:, F].T))
        if not (accurate and value > LEAST * self.base):
            return None
        W = np.zeros(self.b.shape)
        W[:, F] = values.T
        point = risk.at(W.ravel(), support)
        point.answer(value)
        return point


def _images(model: Curvature, W: np.ndarray, F: np.ndarray) -> np.ndarray:
    """WG, from the columns F of G outside which W is zero."""
    if not F.size:
        return np.zeros(W.shape)
    return np.asarray((to_host(model.columns(F)) @ W[:, F].T).T)
