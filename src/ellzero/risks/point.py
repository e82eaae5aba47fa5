"""A risk at one vector, and numbers that carry their source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._core.arrays import Array, like, norm, scatter, to_host
from ..design import take

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


# Of a w as long as this, whose support is a small share of it, the values alone are kept: a run holds some points, and
# w may be as large as a column of X with few entries. It takes a millisecond to fill in a million zeros.
_LONG, _SMALL = 2**16, 16


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
        "_gradient", "_length", "_pending", "_state", "_value", "_w", "booked", "refitted", "risk", "support",
        "trusted", "valued_at",
    )  # fmt: skip

    def __init__(self, risk: Risk, w: Array, support: Array | None = None) -> None:
        self.risk = risk
        self.support: Any = support
        self._length = 0  # of w, where its values on the support alone are kept
        if support is not None and isinstance(w, np.ndarray) and w.size >= max(_LONG, _SMALL * support.size):
            self._length, w = w.size, w[support]
        self._w = w
        self._state: Any = _UNSEEN
        self._value: float | None = None
        self._pending: float | None = None
        self.booked: str | None = None  # whose account the value is on: "monitor" or "method"
        self.valued_at = 0  # in which iteration the value was asked for
        self.refitted = False  # whether the values are the best on their support
        self.trusted = False  # whether the method came here on more evidence than one value
        self._gradient: Array | None = None

    @property
    def w(self) -> Array:
        """The vector, to be read: of a long one with few nonzeros a new copy each time."""
        return scatter(self._w, self.support, self._length) if self._length else self._w

    @property
    def nonzeros(self) -> np.ndarray:
        """Where w is not zero, in increasing order, on the host."""
        return np.asarray(self.support[self._w != 0]) if self._length else np.flatnonzero(to_host(self._w))

    @property
    def size(self) -> float:
        """||w||."""
        return norm(self._w)

    def distance(self, other: Point) -> float:
        """||w - w'||."""
        if not (self._length and other._length):
            return norm(self.w - other.w)
        some = np.union1d(self.support, other.support)
        return norm(self.at(some) - other.at(some))

    def at(self, some: np.ndarray) -> np.ndarray:
        """The entries of w at some coordinates, on the host."""
        if not self._length:
            return np.asarray(to_host(take(self._w, some)))
        values = np.zeros(len(some), dtype=self._w.dtype)
        place = np.searchsorted(self.support, some)
        here = place < len(self.support)
        here[here] = self.support[place[here]] == some[here]
        values[here] = self._w[place[here]]
        return values

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
        if self._value is None and self._pending is not None:
            self._value = float(self._pending)
        if self._value is None:
            state, w = self.state, self.w  # one after the other: each may take a w of its own
            if (both := self.risk._both(w, state)) is not None:
                self._value, self._gradient = both
            else:
                self._value = float(self.risk._value(w, state))
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
            state = self.state
            self._gradient = self.risk._gradient(self.w, state)
        return self._gradient

    def let_go(self) -> None:
        """Forget ∇R(w), as long as w is: whoever asks for it once more pays for it again."""
        self._gradient = None


_UNSEEN = object()
