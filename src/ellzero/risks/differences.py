"""Gradients from differences of values: which points to ask for, and what their values tell."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.directions import Directions, blocks
from .base import Risk


@dataclass
class Differences:
    """g = (1/q) Σ_i (d/μ)(R(w + μu_i) - R(w)) u_i along random directions u_i; central: (R(w + μu_i) - R(w - μu_i))/2.

    ``queries(w, t)`` gives the points at which the function is wanted, ``estimate(values)`` the gradient.

    Parameters
    ----------
    risk : Risk
    entropy : sequence of int
        Where the directions of each iteration t come from.
    schedule : function of t
        q.
    s2 : int
        How many coordinates a direction moves.
    mu : float
    central : bool
    """

    risk: Risk
    entropy: Sequence[int]
    schedule: Any
    s2: int
    mu: float
    central: bool
    asked: tuple[int, int] | None = field(default=None, init=False)
    origin: np.ndarray = field(default_factory=lambda: np.empty(0), init=False)

    def _blocks(self, t: int, q: int) -> Iterator[Directions]:
        return blocks(self.entropy, t, q, self.risk.n_features, self.s2)

    def _placed(self, w: np.ndarray, directions: Directions, mu: float) -> np.ndarray:
        """w + μu_i, or the members of Γ nearest to these where R keeps to it."""
        return self.risk.placed(directions.points(w, mu))

    def _moves(self, w: np.ndarray, directions: Directions) -> Directions:
        """u_i, or where the queries led instead, in units of μ."""
        if not self.risk.inside:
            return directions
        moves = self._placed(w, directions, self.mu) - w
        if self.central:
            moves = 0.5 * (moves - (self._placed(w, directions, -self.mu) - w))
        return Directions(moves / self.mu, None, directions.n_features)

    def _combined(self, parts: Iterable[tuple[Directions, np.ndarray]]) -> np.ndarray | None:
        """(d/q) Σ_i slope_i u_i over the finite slopes (a failed evaluation that was dropped is NaN); None without."""
        total, used = np.zeros(self.risk.n_features), 0
        for directions, slopes in parts:
            worth = np.isfinite(slopes)
            used += int(worth.sum())
            total += directions.combine(np.where(worth, slopes, 0.0))
        return total * (self.risk.n_features / used) if used else None

    def queries(self, w: Any, t: int) -> np.ndarray:
        """The points of iteration t as rows: w itself, then w + μu_i (central: all w + μu_i, then all w - μu_i)."""
        w = to_host(self.risk.as_vector(w)).astype(float)
        q = self.schedule(t)
        self.asked = t, q
        self.origin = w
        ahead = [self._placed(w, d, self.mu) for d in self._blocks(t, q)]
        behind = [self._placed(w, d, -self.mu) for d in self._blocks(t, q)] if self.central else []
        return np.vstack([*([] if self.central else [w[None, :]]), *ahead, *behind])

    def estimate(self, values: Any) -> np.ndarray:
        """The gradient estimate from the values at the points last asked for, in their order; NaN for a failure."""
        if self.asked is None:
            raise ValueError("estimate(values) follows queries(w, t): no points were asked for yet")
        t, q = self.asked
        values = np.asarray(values, dtype=float)
        expected = 2 * q if self.central else q + 1
        if values.shape != (expected,):
            raise ValueError(f"values must have shape ({expected},), one for each query, got {values.shape}")
        if self.central:
            slopes = (values[:q] - values[q:]) / (2 * self.mu)
        else:
            if not math.isfinite(values[0]):
                raise ValueError(f"the first value, R(w), must be finite, got {values[0]}; evaluate it again")
            slopes = (values[1:] - values[0]) / self.mu
        rest = iter(slopes)
        gradient = self._combined(
            (self._moves(self.origin, u), np.fromiter(rest, float, len(u))) for u in self._blocks(t, q)
        )
        if gradient is None:
            raise ValueError("values must hold at least one finite difference, got none")
        return gradient
