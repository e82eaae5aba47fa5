"""Where a method gets its gradients from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ._arrays import Array
from .result import Counts
from .risks.base import Point, Risk

#: (point, iteration) ↦ gradient or its estimate
Gradients = Callable[[Point, int], Array]


class Oracle(Protocol):
    """A way of getting gradients; `bind` prepares it for one run and books what it spends in the counts."""

    @property
    def exact(self) -> bool:
        """Whether its gradients are exact, so that small changes mean convergence."""

    def bind(self, risk: Risk, counts: Counts) -> Gradients:
        """The gradients of one run."""


@dataclass(frozen=True)
class FullGradient:
    """g = ∇R(w), at the price of n calls of ∇R_i."""

    exact = True

    def bind(self, risk: Risk, counts: Counts) -> Gradients:
        """The gradients of one run."""

        def gradient(point: Point, t: int) -> Array:
            counts.n_gradients += risk.n_terms
            return point.gradient

        return gradient
