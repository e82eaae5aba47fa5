"""The projection after a step: which k holds now, which support is kept, and the values on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, scatter, to_host
from .._core.validation import check_count
from ..design import take
from ..sets import ConstraintSet, Everywhere
from ..solver.projections import projector
from ..sparsity import Sparsity, as_sparsity


@dataclass(frozen=True)
class Gradually:
    """k_t = k + (d - k)(1 - (t - begin)/(end - begin))³: from all of them down to k, quickly at first.

    Parameters
    ----------
    end : int
        The step from which on k holds.
    begin : int
        The step until which nothing is left out.

    Examples
    --------
    >>> import ellzero as ez
    >>> [ez.training.Gradually(end=4)(t, 10, 1000) for t in range(6)]
    [1000, 427, 133, 25, 10, 10]
    """

    end: int
    begin: int = 0

    def __post_init__(self) -> None:
        check_count(self.begin, "begin", low=0)
        check_count(self.end, "end", low=self.begin + 1)

    def __call__(self, t: int, k: int, d: int) -> int:
        left = 1 - min(max(t - self.begin, 0) / (self.end - self.begin), 1)
        return int(k + (d - k) * left**3)


class AfterStep:
    """w ↦ Π_Γ(H_{k_t}(w)) in step t, the support chosen anew every so many steps and kept in between.

    Parameters
    ----------
    k : int, float or sparsity
        How much is allowed in the end; a float is a share of all.
    constraint : ConstraintSet, optional
        Γ.
    n_features : int
    keep : indices or mask, optional
        Coordinates that are never left out; they count in k.
    schedule : callable, optional
        ``schedule(t, k, d) -> k_t`` for step t = 1, 2, ...; by default k from the first step on.
    every : int
    projection : {"two-step", "restricted", "euclidean"}
    """

    def __init__(
        self,
        k: Any,
        constraint: ConstraintSet | None,
        n_features: int,
        keep: Any,
        schedule: Callable[[int, int, int], int] | None,
        every: int,
        projection: str,
    ) -> None:
        self.d, self.every, self.projection = n_features, check_count(every, "every"), projection
        self.sparsity = _counted(k, n_features).within(n_features)
        self.gamma = Everywhere() if constraint is None else constraint
        self.kept = self.sparsity.kept(keep, n_features)
        if schedule is not None and not callable(schedule):
            raise TypeError(f"schedule must be a function (t, k, d) -> k_t, such as Gradually(1000), got {schedule!r}")
        self.schedule = schedule
        self._known: dict[int, Any] = {}
        self._projector(self.sparsity.k)  # says at once what does not fit

    def level(self, t: int) -> int:
        """k_t."""
        most = self.sparsity.most(self.d)
        k = self.sparsity.k
        if self.schedule is None:
            return k
        level = check_count(self.schedule(t, k, most), f"schedule(t={t})", low=0)
        return min(max(level, self.sparsity.size(self.kept)), most)

    def _projector(self, k: int) -> Any:
        if k not in self._known:
            self._known.clear()  # a schedule does not come back
            level = self.sparsity.with_k(k).within(self.d)
            self._known[k] = projector(self.projection, self.gamma, level, self.d, self.kept)
        return self._known[k]

    def __call__(self, v: Array, t: int, support: Array | None) -> tuple[Array, Array]:
        """The projected vector and its support, which is chosen anew if it is time for that, or if k has changed."""
        k = self.level(t)
        count = None if support is None else self.sparsity.size(np.asarray(to_host(support)))
        if support is None or t % self.every == 0 or (count is not None and count > k):
            w, chosen = self._projector(k)(v)
            return w, index_like(np.arange(self.d), v) if chosen is None else chosen
        values = take(v, support)
        if not self.gamma.whole_space:
            values = self.gamma.project(values, to_host(support))
        return scatter(values, support, self.d), support


def _counted(k: Any, d: int) -> Sparsity:
    if isinstance(k, float):
        if not 0 < k <= 1:
            raise ValueError(f"k as a share of all parameters must lie in (0, 1], got k={k}")
        return as_sparsity(max(1, int(k * d * (1 + 1e-12))))
    return as_sparsity(k)
