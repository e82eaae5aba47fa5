"""A risk at one vector, and numbers that carry their source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._core.arrays import Array, like

if TYPE_CHECKING:
    from .base import Risk


@dataclass(frozen=True)
class Constant:
    """A number that describes a promise, with where it comes from.

    Attributes
    ----------
    value : float
    source : {"exact", "bound", "estimate"}
        "exact" up to rounding; "bound" is on the safe side for certain (above for smoothness, below for
        strong convexity); "estimate" proves nothing.
    how : str
        What it was read off, in words, where that is told.
    """

    value: float
    source: Literal["exact", "bound", "estimate"]
    how: str = field(default="", repr=False, compare=False)

    def __float__(self) -> float:
        return self.value


def no_longer_exact(constant: Constant) -> Literal["bound", "estimate"]:
    """The source of a bound that rests on this constant."""
    return "estimate" if constant.source == "estimate" else "bound"


class Point:
    """A vector w at which a risk is looked at.

    `value` and `gradient` are computed when first read and share one forward product with the data.

    Parameters
    ----------
    risk : Risk
    w : array of shape (n_features,)
    support : array of increasing indices, optional
        Where w may be nonzero; lets the forward product touch those columns alone. None if w is dense.
    """

    __slots__ = (
        "_gradient", "_pending", "_state", "_value", "booked", "refitted", "risk", "support", "trusted",
        "valued_at", "w",
    )  # fmt: skip

    def __init__(self, risk: Risk, w: Array, support: Array | None = None) -> None:
        self.risk = risk
        self.w = w
        self.support = support
        self._state: Any = _UNSEEN
        self._value: float | None = None
        self._pending: float | None = None
        self.booked: str | None = None  # whose account the value is on: "monitor" or "method"
        self.valued_at = 0  # in which iteration the value was asked for
        self.refitted = False  # whether the values are the best on their support
        self.trusted = False  # whether the method came here on more evidence than one value
        self._gradient: Array | None = None

    @property
    def state(self) -> Any:
        """What value and gradient share: for linear models the predictions at w."""
        if self._state is _UNSEEN:
            self._state = self.risk._forward(self.w, self.support)
        return self._state

    @property
    def evaluated(self) -> bool:
        """Whether R(w) is known."""
        return self._value is not None

    @property
    def value(self) -> float:
        """R(w)."""
        if self._value is None and self._pending is None and (both := self.risk._both(self.w, self.state)) is not None:
            self._value, self._gradient = both
        if self._value is None:
            self._value = float(self.risk._value(self.w, self.state) if self._pending is None else self._pending)
        return self._value

    def ask(self) -> Array:
        """R(w) as an array of no dimensions, which a device may still have to compute."""
        value = self.risk._value(self.w, self.state)
        return value if hasattr(value, "shape") else like(value, self.w)

    def answer(self, value: float) -> None:
        """The number that was asked for; it counts as known once somebody reads it."""
        self._pending = value

    @property
    def gradient(self) -> Array:
        """∇R(w)."""
        if self._gradient is None:
            self._gradient = self.risk._gradient(self.w, self.state)
        return self._gradient

    def let_go(self) -> None:
        """Forget ∇R(w), as long as w is: whoever asks for it once more pays for it again."""
        self._gradient = None


_UNSEEN = object()
