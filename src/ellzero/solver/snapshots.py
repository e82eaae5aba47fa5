"""Variance-reduced gradients from function values: differences of differences along the same directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, like, to_host
from .._core.validation import check_count
from ..risks.base import Point, Risk
from ..risks.evaluation import BudgetSpent
from ..theory.parameters import Oracle as Kind
from .oracles import DirectionalGradients, Gradients, ZerothOrder
from .result import Counts

_BLOCK = 2**21  # numbers that the points of a block may hold


@dataclass(frozen=True)
class VarianceReducedDirections:
    """g = ĝ_U(w) - ĝ_U(w̃) + ĝ(w̃), with the same q random directions U at both points and ĝ(w̃) from all coordinates.

    The error of the first two terms is that of ∇R(w) - ∇R(w̃): it vanishes as both come to rest, however few directions
    there are. The snapshot w̃ is taken anew every epoch, for d values and no others; any other iteration costs 2q + 1.

    Parameters
    ----------
    n_directions : int or function of t
        q.
    epoch : int
        Iterations from one snapshot to the next.
    support_size, mu
        As for `ZerothOrder`.
    """

    n_directions: Any = 10
    epoch: int = 50
    support_size: int | None = None
    mu: float = 1e-6
    kind: ClassVar[Kind] = "directions"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        if risk.inside:
            raise ValueError(
                "snapshots move single coordinates, which may lead out of Γ, and the black box is to be asked inside "
                "of it alone (inside=True); use method='auto' or ZerothOrder"
            )
        inner = ZerothOrder(self.n_directions, self.support_size, self.mu).bind(risk, counts, entropy)
        least = (risk.n_features + 4) * risk.calls_per_value
        if counts.max_queries < least:
            raise ValueError(
                f"max_queries must be at least {least} here, for the first snapshot alone asks along all coordinates; "
                f"got max_queries={counts.max_queries:g}"
            )
        return SnapshotGradients(inner, check_count(self.epoch, "epoch"))


@dataclass
class SnapshotGradients(Gradients):
    """A `VarianceReducedDirections` oracle bound to one run."""

    inner: DirectionalGradients
    epoch: int
    snapshot: Point | None = None
    full: np.ndarray | None = None

    def __call__(self, point: Point, t: int) -> Array:
        if self.snapshot is None or t % self.epoch == 0:
            self.full = self._along_coordinates(point)
            self.snapshot = point
            return like(self.full, point.w)  # nothing has changed since
        counts, price = self.inner.counts, self.inner.risk.calls_per_value
        q = self.inner.schedule(t)
        if counts.free < 2 * q * price + counts.price(point) + counts.price(self.snapshot):
            raise BudgetSpent  # directions have to be the same ones at both points
        change = self.inner(point, t) - self.inner(self.snapshot, t)
        assert self.full is not None
        return change + like(self.full, point.w)

    def _along_coordinates(self, point: Point) -> np.ndarray:
        """(R(w + μe_i) - R(w))/μ for all i; 0 for those that failed."""
        inner, w = self.inner, to_host(point.w).astype(float)
        risk, counts = inner.risk, inner.counts
        if counts.free < w.size * risk.calls_per_value + counts.price(point):
            raise BudgetSpent
        base, slopes = counts.base_value(point), []
        step = max(1, _BLOCK // w.size)
        for first in range(0, w.size, step):
            moved = np.arange(first, min(first + step, w.size))
            points = np.repeat(w[None, :], moved.size, axis=0)
            points[np.arange(moved.size), moved] += inner.mu
            counts.book("n_values", moved.size * risk.calls_per_value)
            slopes.append((risk.values_at(points) - base) / inner.mu)
        gradient = np.concatenate(slopes)
        return np.where(np.isfinite(gradient), gradient, 0.0)

    def state(self) -> dict[str, Any]:
        if self.snapshot is None or self.full is None:
            return {}
        value = self.snapshot.value if self.snapshot.evaluated else math.nan
        return {"snapshot": to_host(self.snapshot.w), "full": self.full, "value": value}

    def restore(self, state: dict[str, Any]) -> None:
        if state:
            risk = self.inner.risk
            self.snapshot, self.full = risk.at(risk.as_vector(state["snapshot"])), np.asarray(state["full"])
            value = float(state["value"])
            self.snapshot._value = None if math.isnan(value) else value
