"""Where a method gets its gradients from: all of the data, a growing part of it, or function values alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ._arrays import Array, like, to_host
from ._directions import Directions, blocks, stream
from ._validation import check_count, check_positive
from .result import Counts
from .risks.base import Constant, Point, Risk
from .schedules import as_schedule


class BudgetSpent(Exception):
    """No further function value may be asked for."""


class Gradients(Protocol):
    """An oracle bound to one run: (point, iteration) ↦ gradient or its estimate."""

    def __call__(self, point: Point, t: int) -> Array: ...

    def state(self) -> dict[str, Any]:
        """What a resumed run needs besides the point: numbers and arrays by name."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over such a state."""


class Oracle(Protocol):
    """A way of getting gradients; `bind` prepares it for one run, where it books what it spends in the counts."""

    #: whether its gradients are exact, so that small changes mean convergence
    exact: bool

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        """The gradients of one run, with the random numbers that the entropy gives."""


class _Stateless:
    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class FullGradient:
    """g = ∇R(w), at the price of n calls of ∇R_i."""

    exact = True

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        """The gradients of one run."""
        return _FullGradients(risk, counts)


@dataclass
class _FullGradients(_Stateless):
    risk: Risk
    counts: Counts

    def __call__(self, point: Point, t: int) -> Array:
        self.counts.n_gradients += self.risk.n_terms
        return point.gradient


@dataclass(frozen=True)
class MiniBatch:
    """g = (1/s_t) Σ_{i in S_t} ∇R_i(w), S_t drawn uniformly without replacement; all of the data once s_t >= n.

    Parameters
    ----------
    size : int or function of t
        s_t, for example `ellzero.schedules.Geometric(tau, omega)`.
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
    exact = False

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        """The gradients of one run."""
        return _Batches(risk, counts, entropy, as_schedule(self.size, "size"), check_count(self.block, "block"))


@dataclass
class _Batches(_Stateless):
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
        rows = self.rows(t)
        if rows is None:
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
    exact = False

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> Gradients:
        """The gradients of one run."""
        batches = _Batches(risk, counts, entropy, as_schedule(self.size, "size"), 1)
        return _Snapshots(batches, check_count(self.epoch, "epoch"))


@dataclass
class _Snapshots:
    batches: _Batches
    epoch: int
    snapshot: Point | None = None

    def __call__(self, point: Point, t: int) -> Array:
        counts, risk = self.batches.counts, self.batches.risk
        if self.snapshot is None or t % self.epoch == 0:
            counts.n_gradients += risk.n_terms
            self.snapshot = point
        rows = self.batches.rows(t)
        if rows is None:
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
        q_t, for example `ellzero.schedules.Geometric(tau, omega)`.
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
    exact = False

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> DirectionalGradients:
        """The gradients of one run."""
        s2 = risk.n_features if self.support_size is None else check_count(self.support_size, "support_size")
        if s2 > risk.n_features:
            raise ValueError(
                f"support_size must be at most the number of features, {risk.n_features}, got support_size={s2}"
            )
        schedule = (
            GrowWhenStuck(self.n_directions.first)
            if isinstance(self.n_directions, GrowWhenStuck)
            else as_schedule(self.n_directions, "n_directions")
        )
        return DirectionalGradients(
            risk, counts, entropy, schedule, s2, check_positive(self.mu, "mu"), bool(self.central)
        )


@dataclass
class GrowWhenStuck:
    """q doubles whenever the last step did not help: the estimate was then too rough to show a way down.

    Parameters
    ----------
    first : int
        q of the first iteration.
    """

    first: int
    current: int = field(default=0)

    def __call__(self, t: int) -> int:
        self.current = self.current or self.first
        return self.current

    def double(self) -> None:
        """React to a step that did not help."""
        self.current *= 2


@dataclass
class DirectionalGradients:
    """A `ZerothOrder` oracle bound to one run; also the ask/tell form, for values that are computed elsewhere.

    ``queries(w, t)`` gives the points at which the function is wanted, ``estimate(values)`` the gradient.
    """

    risk: Risk
    counts: Counts
    entropy: Sequence[int]
    schedule: Any
    s2: int
    mu: float
    central: bool
    asked: tuple[int, int] | None = None

    def __call__(self, point: Point, t: int) -> Array:
        if isinstance(self.schedule, GrowWhenStuck) and point.visits:
            self.schedule.double()
        point.visits += 1
        q = self._affordable(self.schedule(t), point)
        base = 0.0
        if not self.central:
            base = self.counts.base_value(point)
        total, used = np.zeros(self.risk.n_features), 0
        for directions in self._blocks(t, q):
            slopes = self._slopes(point, directions, base)
            worth = np.isfinite(slopes)  # a failed evaluation that was dropped is NaN
            used += int(worth.sum())
            total += directions.combine(np.where(worth, slopes, 0.0))
        if used == 0:
            raise ArithmeticError(f"none of the {q} evaluations of iteration {t} gave a value")
        return like(total * (self.risk.n_features / used), point.w)

    def _affordable(self, q: int, point: Point) -> int:
        """q, or what the budget still allows with the last value in reserve."""
        price = self.risk.calls_per_value
        base = 0 if self.central or point.evaluated else price
        left = (self.counts.left - self.counts.reserve - base) // (price * (2 if self.central else 1))
        if left < 1:
            raise BudgetSpent
        return int(min(q, left))

    def _blocks(self, t: int, q: int) -> Any:
        return blocks(self.entropy, t, q, self.risk.n_features, self.s2)

    def _slopes(self, point: Point, directions: Directions, base: float) -> np.ndarray:
        """The difference quotients along the directions."""
        self.counts.n_values += len(directions) * self.risk.calls_per_value
        ahead = self.risk.values_along(point, directions, self.mu)
        if not self.central:
            return (ahead - base) / self.mu
        self.counts.n_values += len(directions) * self.risk.calls_per_value
        return (ahead - self.risk.values_along(point, directions, -self.mu)) / (2 * self.mu)

    def queries(self, w: Any, t: int) -> np.ndarray:
        """The points of iteration t as rows: w itself, then w + μu_i (central: all w + μu_i, then all w - μu_i)."""
        w = to_host(self.risk.as_vector(w)).astype(float)
        q = self.schedule(t)
        self.asked = t, q
        ahead = [d.points(w, self.mu) for d in self._blocks(t, q)]
        behind = [d.points(w, -self.mu) for d in self._blocks(t, q)] if self.central else []
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
        worth, start = np.isfinite(slopes), 0
        if not worth.any():
            raise ValueError("values must hold at least one finite difference, got none")
        total = np.zeros(self.risk.n_features)
        for directions in self._blocks(t, q):
            part = slice(start, start + len(directions))
            total += directions.combine(np.where(worth[part], slopes[part], 0.0))
            start += len(directions)
        total *= self.risk.n_features / int(worth.sum())
        return total

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"q": self.schedule.current} if isinstance(self.schedule, GrowWhenStuck) else {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over such a state."""
        if state:
            self.schedule.current = int(state["q"])


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
    squares = [
        float(np.sum((to_host(risk._gradient_of_rows(point.w, rows[i : i + 1])) - full) ** 2)) for i in range(rows.size)
    ]
    return Constant(math.fsum(squares) / rows.size, "estimate")
