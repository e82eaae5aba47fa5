"""What is spent on a risk, and what may be."""

import math
from dataclasses import dataclass
from typing import Literal

from .base import Point
from .evaluation import BudgetSpent


@dataclass
class Counts:
    """What a run has spent so far, in units that do not depend on the machine, and what it may spend.

    n_values + n_monitor are the calls that were made, retries included; nothing is called that was not booked, and
    nothing is booked beyond max_queries. `reserve` is the part of it that the end of the run needs, `waiting` what an
    earlier sitting has asked for at its end: made, and booked when it is used or when it turns out to be of no use.
    """

    n_gradients: int = 0
    n_values: int = 0
    n_thresholds: int = 0
    n_monitor: int = 0
    max_queries: float = math.inf
    reserve: int = 0
    waiting: int = 0
    iteration: int = 0
    account: Literal["n_values", "n_monitor"] = "n_values"  # of the last booking

    @property
    def left(self) -> float:
        """Function values that may still be asked for."""
        return self.max_queries - self.n_values - self.n_monitor - self.waiting

    @property
    def free(self) -> float:
        """Those that the end of the run does not need."""
        return self.left - self.reserve

    def book(self, account: Literal["n_values", "n_monitor"], calls: int) -> None:
        """Pay for calls before they are made."""
        if calls > self.free:
            raise BudgetSpent
        self.account = account
        self.add(calls)

    def add(self, calls: int) -> None:
        """More calls (or fewer: some that were not made after all) on the account of the last booking."""
        setattr(self, self.account, getattr(self, self.account) + calls)

    def price(self, point: Point) -> int:
        """Calls that `base_value` costs: none where the value is known, and not one of other noise."""
        stale = point.risk.noise_changes and point.valued_at != self.iteration
        return point.risk.calls_per_value if stale or not point.evaluated else 0

    def monitored_value(self, point: Point) -> float:
        """R at a point, on the monitor's account unless it is known already; part of the reserve is there for it."""
        if point.evaluated:
            return point.value
        price = point.risk.calls_per_value
        self.reserve -= price
        try:
            self.book("n_monitor", price)
            value = point.value
        finally:
            self.reserve += price
        point.booked, point.valued_at = "monitor", self.iteration
        return value

    def base_value(self, point: Point) -> float:
        """R at a point, on the method's account: a value that the monitor has asked for changes accounts."""
        if price := self.price(point):
            self.book("n_values", price)
            before, point._value = point._value, None
            try:
                point.value  # noqa: B018 - asks for it
            except BaseException:
                point._value = before
                raise
            point.valued_at = self.iteration
        elif point.booked == "monitor":
            self.n_monitor -= point.risk.calls_per_value
            self.n_values += point.risk.calls_per_value
        point.booked = "method"
        return point.value
