"""Gradients from function values alone, and the ask/tell form for values that are computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, like
from .._core.directions import Directions
from .._core.stopping import Status, Stop
from .._core.validation import check_count, check_positive
from ..risks.base import Point, Risk
from ..risks.differences import Differences
from ..risks.evaluation import BudgetSpent
from ..theory.parameters import Oracle as Kind
from .result import Counts
from .schedules import as_schedule


@dataclass(frozen=True)
class ZerothOrder:
    """g = (1/q_t) Σ_i (d/μ)(R(w + μu_i) - R(w)) u_i, u_i uniform on the unit sphere of a random support.

    Costs q_t + 1 function values, of which R(w) is the one that the monitor has computed anyway.

    Parameters
    ----------
    n_directions : int or function of t
        q_t, for example `ellzero.solver.schedules.Geometric(tau, omega)`.
    support_size : int, optional
        s2, how many coordinates a direction moves; all by default.
    mu : float
        The length of the finite difference. Noisy functions need a larger one.
    central : bool
        (d/2μ)(R(w + μu) - R(w - μu)) instead: 2 q_t values, no bias from curvature.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> risk = ez.risks.BlackBox(lambda w: float((w[0] - 1) ** 2 + w[1:] @ w[1:]), n_features=50)
    >>> method = ez.Method(oracle=ez.ZerothOrder(n_directions=20), step=0.1)
    >>> ez.minimize(risk, k=1, method=method, max_queries=1000, rng=0).support.tolist()
    [0]
    """

    n_directions: Any = 100
    support_size: int | None = None
    mu: float = 1e-6
    central: bool = False
    kind: ClassVar[Kind] = "directions"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> DirectionalGradients:
        """The gradients of one run."""
        s2 = risk.n_features if self.support_size is None else check_count(self.support_size, "support_size")
        if s2 > risk.n_features:
            raise ValueError(
                f"support_size must be at most the number of features, {risk.n_features}, got support_size={s2}"
            )
        schedule = (
            replace(self.n_directions)
            if isinstance(self.n_directions, GrowWhenStuck)
            else as_schedule(self.n_directions, "n_directions")
        )
        return DirectionalGradients(
            risk, entropy, schedule, s2, check_positive(self.mu, "mu"), bool(self.central), counts
        )


@dataclass
class GrowWhenStuck:
    """q doubles whenever the last step did not help: the estimate was then too rough to show a way down.

    Parameters
    ----------
    first, last : int
        q of the first iteration, and the one that is not exceeded: if that does not help either, the run ends.
    """

    first: int
    last: int
    current: int = field(default=0)

    def __call__(self, t: int) -> int:
        self.current = self.current or self.first
        return self.current

    def double(self) -> None:
        """React to a step that did not help."""
        if self.current >= self.last:
            raise Stop(Status.SETTLED)
        self.current = min(2 * self.current, self.last)


@dataclass
class DirectionalGradients(Differences):
    """A `ZerothOrder` oracle bound to one run; also the ask/tell form, for values that are computed elsewhere."""

    counts: Counts
    _unasked: int = 0  # calls that are paid for and not made yet

    def __call__(self, point: Point, t: int) -> Array:
        self._affordable(0 if self.central else self.counts.price(point))
        if isinstance(self.schedule, GrowWhenStuck) and point.estimated:
            self.schedule.double()
        point.estimated = True
        base = 0.0 if self.central else self.counts.base_value(point)
        q = int(min(self.schedule(t), self._affordable(0)))
        # paid for at once: what fails in the first block may not be asked again at the cost of the last
        self._unasked = q * self._price
        self.counts.book("n_values", self._unasked)
        try:
            gradient = self._combined((u, self._slopes(point, u, base)) for u in self._blocks(t, q))
        except BaseException:
            self.counts.add(-self._unasked)
            raise
        if gradient is None:
            raise self.risk.failure(f"none of the {q} evaluations of iteration {t} gave a value")
        return like(gradient, point.w)

    @property
    def _price(self) -> int:
        """Calls for one direction."""
        return self.risk.calls_per_value * (2 if self.central else 1)

    def _affordable(self, base: int) -> float:
        """How many directions the budget allows besides the base value: at least one."""
        affordable = (self.counts.free - base) / self._price
        if affordable < 1:
            raise BudgetSpent
        return affordable

    def _slopes(self, point: Point, directions: Directions, base: float) -> Any:
        """The difference quotients along the directions."""
        ahead = self._values_along(point, directions, self.mu)
        if not self.central:
            return (ahead - base) / self.mu
        return (ahead - self._values_along(point, directions, -self.mu)) / (2 * self.mu)

    def _values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        self._unasked -= len(directions) * self.risk.calls_per_value
        return self.risk.values_along(point, directions, mu)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"q": self.schedule.current} if isinstance(self.schedule, GrowWhenStuck) else {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over such a state."""
        if state:
            self.schedule.current = int(state["q"])
