"""Where a method gets its gradients from: all of the data, a growing part of it, or function values alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from .._core.arrays import Array, like, to_host
from .._core.directions import Directions, stream
from .._core.validation import check_count, check_flag, check_positive
from ..risks.base import Constant, Point, Risk
from ..risks.differences import Differences
from ..risks.evaluation import BudgetSpent
from ..theory.parameters import Oracle as Kind
from .result import Counts
from .schedules import as_schedule


class Gradients(ABC):
    """An oracle bound to one run: (point, iteration) ↦ gradient or its estimate."""

    #: whether it would say the same of the same point again, so that an iterate that stays has come to its end
    settled: bool = True
    #: what is known of the noise of values, where that was measured
    noise: Any = None

    @abstractmethod
    def __call__(self, point: Point, t: int) -> Array: ...

    def state(self) -> dict[str, Any]:
        """What a resumed run needs besides the point: numbers and arrays by name."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 - most have no such state
        """Take over such a state."""


class Oracle(Protocol):
    """A way of getting gradients; `bind` prepares it for one run, where it books what it spends in the counts."""

    #: what a gradient is made of: all of the data, a batch of rows, or values along random directions
    kind: ClassVar[Kind]

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        """The gradients of one run, with the random numbers that the entropy gives."""


@dataclass(frozen=True)
class FullGradient:
    """g = ∇R(w), at the price of n calls of ∇R_i."""

    kind: ClassVar[Kind] = "full"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        return _FullGradients(risk, counts)


@dataclass
class _FullGradients(Gradients):
    risk: Risk
    counts: Counts

    def __call__(self, point: Point, t: int) -> Array:
        if point._gradient is None:
            self.counts.n_gradients += self.risk.n_terms
        return point.gradient


@dataclass(frozen=True)
class MiniBatch:
    """g = (1/s_t) Σ_{i in S_t} ∇R_i(w), S_t drawn uniformly without replacement; all of the data once s_t >= n.

    Parameters
    ----------
    size : int or function of t
        s_t, for example `ellzero.solver.schedules.Geometric(tau, omega)`.
    block : int
        Rows are drawn in contiguous blocks of this length (around the end of the data, from a random offset), so
        that a memory map reads few pages; sizes are rounded up to whole blocks. 1 draws single rows.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 20))
    >>> risk = ez.risks.LeastSquares(X, X[:, 0])
    >>> method = ez.Method(oracle=ez.MiniBatch(50), step=0.1)
    >>> res = ez.minimize(risk, k=1, method=method, max_iter=100, rng=0)
    >>> res.support.tolist(), res.n_gradients
    ([0], 5000)
    """

    size: Any
    block: int = 1
    kind: ClassVar[Kind] = "batch"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        return _Batches(risk, counts, entropy, as_schedule(self.size, "size"), check_count(self.block, "block"))


@dataclass
class _Batches(Gradients):
    risk: Risk
    counts: Counts
    entropy: Sequence[int]
    size: Any
    block: int

    def rows(self, t: int) -> np.ndarray | None:
        """The batch of iteration t in increasing order; None for all rows."""
        n = self.risk.n_terms
        size = min(self.size(t), n)
        n_blocks = -(-size // self.block)
        if n_blocks * self.block >= n:
            return None
        rng = stream(self.entropy, t)
        if self.block == 1:
            return np.sort(rng.choice(n, size, replace=False, shuffle=False))
        # a random offset makes every row equally likely, although the blocks need not fill the data
        chosen = rng.choice(n // self.block, n_blocks, replace=False, shuffle=False)
        rows = chosen[:, None] * self.block + np.arange(self.block) + rng.integers(n)
        return np.sort(rows.ravel() % n)

    def __call__(self, point: Point, t: int) -> Array:
        if (rows := self.rows(t)) is None:
            self.counts.n_gradients += self.risk.n_terms
            return point.gradient
        self.counts.n_gradients += rows.size
        return self.risk._gradient_of_rows(point.w, rows)


@dataclass(frozen=True)
class VarianceReduced:
    """g = ∇R_S(w) - ∇R_S(w̃) + ∇R(w̃): SVRG, the snapshot w̃ being taken anew every epoch (Li et al. 2016).

    Parameters
    ----------
    size : int or function of t
        The batch.
    epoch : int
        Iterations from one snapshot to the next.
    """

    size: Any = 1
    epoch: int = 50
    kind: ClassVar[Kind] = "batch"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        batches = _Batches(risk, counts, entropy, as_schedule(self.size, "size"), 1)
        return _Snapshots(batches, check_count(self.epoch, "epoch"))


@dataclass
class _Snapshots(Gradients):
    batches: _Batches
    epoch: int
    snapshot: Point | None = None

    def __call__(self, point: Point, t: int) -> Array:
        counts, risk = self.batches.counts, self.batches.risk
        if self.snapshot is None or t % self.epoch == 0:
            counts.n_gradients += risk.n_terms
            self.snapshot = point
        if (rows := self.batches.rows(t)) is None:
            counts.n_gradients += risk.n_terms
            return point.gradient
        counts.n_gradients += 2 * rows.size
        change = risk._gradient_of_rows(point.w, rows) - risk._gradient_of_rows(self.snapshot.w, rows)
        return change + self.snapshot.gradient

    def state(self) -> dict[str, Any]:
        if self.snapshot is None:
            return {}
        # the gradient too: recomputed along another path it might differ in the last digit
        return {"snapshot": to_host(self.snapshot.w), "gradient": to_host(self.snapshot.gradient)}

    def restore(self, state: dict[str, Any]) -> None:
        if state:
            risk = self.batches.risk
            self.snapshot = risk.at(risk.as_vector(state["snapshot"]))
            self.snapshot._gradient = risk.as_vector(state["gradient"])


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
        d, q = risk.n_features, self.n_directions
        s2 = d if self.support_size is None else check_count(self.support_size, "support_size")
        if s2 > d:
            raise ValueError(f"support_size must be at most the number of features, {d}, got support_size={s2}")
        schedule = as_schedule(q, "n_directions")
        mu = check_positive(self.mu, "mu")
        return DirectionalGradients(risk, entropy, schedule, s2, mu, check_flag(self.central, "central"), counts)


@dataclass
class DirectionalGradients(Differences, Gradients):
    """A `ZerothOrder` oracle bound to one run; also the ask/tell form, for values that are computed elsewhere."""

    counts: Counts
    _unasked: int = 0  # calls that are paid for and not made yet

    def __call__(self, point: Point, t: int) -> Array:
        self._affordable(0 if self.central else self.counts.price(point))
        base = 0.0 if self.central else self.counts.base_value(point)
        q = int(min(self.schedule(t), self._affordable(0)))
        # paid for at once: what fails in the first block may not be asked again at the cost of the last
        self._unasked = q * self._price
        self.counts.book("n_values", self._unasked)
        try:
            w = to_host(point.w)
            gradient = self._combined((self._moves(w, u), self._slopes(point, u, base)) for u in self._blocks(t, q))
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
        if self.risk.inside:
            return self.risk.values_at(self._placed(to_host(point.w), directions, mu))
        return self.risk.values_along(point, directions, mu)


def estimate_variance(risk: Risk, w: Any = None, *, n_samples: int = 1000, rng: Any = None) -> Constant:
    """An estimate of B, the population variance (1/n) Σ_i ‖∇R_i(w) - ∇R(w)‖², at one point.

    The theorems of HSG-HT ask for a bound that holds at every w; this is a number for one w, so its source is
    "estimate", and it proves nothing.

    Parameters
    ----------
    risk : Risk
    w : array, optional
        The origin by default.
    n_samples : int
        How many terms are looked at; all of them if there are no more.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> risk = ez.risks.LeastSquares(np.eye(2), np.array([1.0, -1.0]))
    >>> ez.estimate_variance(risk)
    Constant(value=2.0, source='estimate')
    """
    point = risk.at(risk.zero if w is None else risk.as_vector(w))
    n = risk.n_terms
    rows = np.arange(n)
    if n > check_count(n_samples, "n_samples"):
        rows = np.random.default_rng(rng).choice(n, n_samples, replace=False)
    full = to_host(point.gradient)
    squares = [float(np.sum((to_host(slopes) - full) ** 2)) for slopes in risk.term_gradients(point.w, rows)]
    return Constant(math.fsum(squares) / rows.size, "estimate")
