"""Risks whose constants nobody knows but their user."""

from __future__ import annotations

import math

from .._core.validation import check_number
from .base import Constant, Risk


class Stated(Risk):
    """ν·I ⪯ ∇²R ⪯ L·I and R >= lower_bound, as stated by the user; what is not stated is taken for unknown."""

    def _state(
        self, smoothness: float | None, strong_convexity: float | None, convex: bool, lower_bound: float
    ) -> None:
        L = math.inf if smoothness is None else check_number(smoothness, "smoothness", low=0.0)
        nu = -math.inf if strong_convexity is None else check_number(strong_convexity, "strong_convexity")
        if nu > L:
            raise ValueError(f"strong_convexity must be at most smoothness, got {nu:g} > {L:g}")
        self.convex = bool(convex) or nu >= 0
        self._constants = Constant(L, "bound"), Constant(max(nu, 0.0) if self.convex else nu, "bound")
        self.lower_bound = check_number(lower_bound, "lower_bound", high=math.inf, open_high=True)

    @property
    def smoothness(self) -> Constant:
        """As given; infinite if unknown."""
        return self._constants[0]

    @property
    def strong_convexity(self) -> Constant:
        """As given; 0 if R is only known to be convex, -inf if not even that."""
        return self._constants[1]

    @property
    def known_convexity(self) -> Constant | None:
        """As given."""
        nu = self._constants[1].value
        return Constant(nu, "bound", "the strong_convexity that was given") if nu > 0 else None
