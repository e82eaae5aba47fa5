"""How batches and numbers of directions grow with the iterations."""

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core.validation import check_count, check_nonnegative, check_number
from ..theory.parameters import LARGEST, schedule_size

#: iteration t = 0, 1, ... ↦ size
Schedule = Callable[[int], int]


@dataclass(frozen=True)
class Geometric:
    """s_t = ⌈τ/ω^t⌉: the schedule of HSG-HT and HZO-HT.

    Parameters
    ----------
    tau : float
        The first size, before rounding up.
    omega : float
        In (0, 1]; sizes grow by 1/ω an iteration.
    cap : int, optional
        The largest size.

    Examples
    --------
    >>> import ellzero as ez
    >>> [ez.schedules.Geometric(tau=3.5, omega=0.5)(t) for t in range(4)]
    [4, 7, 14, 28]
    """

    tau: float
    omega: float
    cap: int = LARGEST

    def __post_init__(self) -> None:
        check_nonnegative(self.tau, "tau")
        check_number(self.omega, "omega", low=0.0, high=1.0, open_low=True)
        check_count(self.cap, "cap")

    def __call__(self, t: int) -> int:
        return schedule_size(self.tau, self.omega, t, self.cap)


def as_schedule(size: Any, name: str) -> Schedule:
    """A schedule from a number (constant) or from a function of the iteration."""
    if isinstance(size, numbers.Integral):
        constant = check_count(size, name)
        return lambda t: constant
    if not callable(size):
        raise TypeError(f"{name} must be an integer or a function of the iteration t, got {size!r}")
    return lambda t: check_count(size(t), f"{name}(t={t})")
