"""A risk from a user's own value and gradient."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import Array
from .._core.validation import check_count
from .stated import Stated


class Smooth(Stated):
    """R(w) = value(w), ∇R(w) = gradient(w): any differentiable function.

    Parameters
    ----------
    value : callable
        w ↦ R(w), a number; w is a NumPy array of shape (n_features,) that must not be changed.
    gradient : callable
        w ↦ ∇R(w), of shape (n_features,).
    n_features : int
    smoothness, strong_convexity : float, optional
        L and ν with ν·I ⪯ ∇²R ⪯ L·I, if known.
    convex : bool, default False
        Whether R is convex; implied by strong_convexity >= 0.
    lower_bound : float, default -inf
        A number that R never goes below.

    Examples
    --------
    >>> import numpy as np
    >>> from ellzero.risks import Smooth
    >>> risk = Smooth(lambda w: np.sum(np.cosh(w)), np.sinh, n_features=3, convex=True, lower_bound=3.0)
    >>> risk.value([0.0, 0.0, 0.0])
    3.0
    """

    def __init__(
        self,
        value: Callable[[Any], Any],
        gradient: Callable[[Any], Any],
        n_features: int,
        *,
        smoothness: float | None = None,
        strong_convexity: float | None = None,
        convex: bool = False,
        lower_bound: float = -math.inf,
    ) -> None:
        for name, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of w, got {function!r}")
        self._user_value, self._user_gradient = value, gradient
        self.n_features = check_count(n_features, "n_features")
        self._state(smoothness, strong_convexity, convex, lower_bound)

    def _forward(self, w: Array, support: Array | None) -> None:
        return None

    def _value(self, w: Array, state: None) -> float:
        value = np.asarray(self._user_value(w))
        if value.size != 1:
            raise ValueError(f"value(w) must return one number, got an array of shape {value.shape}")
        return float(value.item())

    def _gradient(self, w: Array, state: None) -> Array:
        gradient = np.asarray(self._user_gradient(w), dtype=np.float64)
        if gradient.shape != (self.n_features,):
            raise ValueError(f"gradient(w) must return an array of shape ({self.n_features},), got {gradient.shape}")
        return gradient
