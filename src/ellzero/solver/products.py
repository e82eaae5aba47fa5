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
from .spans import Kept, Span


@dataclass(frozen=True)
class Products:
    """R(w) = R(0) - 2bᵀw + wᵀGw, from the products of columns that exchanges of atoms need in any case.

    Attributes
    ----------
    model : curvature
        G.
    b : array of shape (n_outputs, p)
        -½∇R(0), with one row for each output that shares the columns of `model`.
    base : float
        R(0).
    span : Span, optional
        The columns of G beside those of supports, without damping; None where outputs share a few columns.
    """

    model: Curvature
    b: np.ndarray
    base: float
    span: Span | None = None

    @classmethod
    def of(cls, problem: Problem, model: Curvature, point: Point) -> Products | None:
        """Those of a problem, from a point at which the gradient is known; None where they are of no use."""
        risk, sparsity = problem.risk, problem.sparsity
        exact = model.exact and problem.gamma.whole_space and sparsity.atoms is not None
        if not (exact and isinstance(risk.zero, np.ndarray) and finfo_eps(risk.zero) < 1e-12):
            return None
        if model.shared is None:
            origin = risk.origin
            return cls(model, -0.5 * to_host(origin.gradient)[None, :].astype(float), origin.value, Span(model))
        if not are_rows(sparsity, risk.n_features, q := model.n_shared):
            return None
        W = to_host(point.w).astype(float).reshape(q, -1)
        F = np.flatnonzero(W.any(axis=0))
        if not model.shared.affords(F.size):
            return None
        image = _images(model.shared, W, F)
        b = image - 0.5 * to_host(point.gradient).astype(float).reshape(W.shape)
        return cls(model.shared, b, point.value + float(np.sum(W * (2 * b - image))))

    def with_model(self, model: Curvature) -> Products:
        """The same with more on the diagonal of G."""
        return replace(self, model=model.shared if self.span is None and model.shared is not None else model)

    def kept(self, S: np.ndarray) -> Kept | None:
        """What is seen of the columns of a support; None where that is no help."""
        return None if self.span is None or not S.size else self.span.of(S)

    def slopes(self, point: Point, S: np.ndarray) -> np.ndarray | None:
        """-½∇R outside the support S of a point, as accurate as slopes have to be; None where that is not at hand."""
        w = to_host(point.w).astype(float)
        if self.span is None:
            W = w.reshape(self.b.shape)
            return np.asarray((self.b - _images(self.model, W, np.flatnonzero(W.any(axis=0)))).ravel())
        kept = self.kept(S) if point.value > LEAST * self.base else None
        return None if kept is None else self.b[0] - kept.times(w[S, None])[:, 0]

    def expect(self, support: np.ndarray, newcomers: list[tuple[int, ...]]) -> None:
        """Products of a support with columns that are about to be asked for, all at once."""
        p = self.b.shape[1]
        F = np.unique(np.concatenate([support, *newcomers]).astype(np.intp) % p)
        if newcomers and self.model.affords(F.size):
            self.model.remembered(F)

    def refit(self, risk: Risk, support: np.ndarray) -> Point | None:
        """The best point on a support, its value by the formula; None where it is not enough."""
        p = self.b.shape[1]
        F = np.unique(support % p)
        if not (F.size and self.model.affords(F.size)):
            return None
        G = self.model.remembered(F)
        if not np.isfinite(G).all():
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
