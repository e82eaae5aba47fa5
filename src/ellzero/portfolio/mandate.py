"""What is asked of a portfolio, and whether it can be had: explained before anything is solved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._core.validation import check_k, check_nonnegative
from ..sets import Portfolio
from ..sets._positions import Positions
from ..sets.portfolio import read_budget
from .prices import _some, by_asset, labels_of


class InfeasibleMandate(ValueError):
    """No portfolio meets everything that was asked."""


@dataclass(frozen=True)
class Mandate:
    """At most k names, least <= Σw <= most, lower <= w <= upper, Σ_{i in g} |w_i| <= cap_g, some names always held."""

    names: np.ndarray
    k: int
    least: float
    most: float
    lower: np.ndarray
    upper: np.ndarray
    labels: np.ndarray | None
    caps: dict[Any, float]
    keep: np.ndarray  # indices, those with bounds that exclude zero among them
    chosen: int  # how many of them the user named

    @classmethod
    def read(cls, tracker: Any, names: np.ndarray, groups: Any) -> Mandate:
        """From the parameters of an `IndexTracker`, in the user's words, for these assets."""
        labels = labels_of(groups, names)
        lower = by_asset(
            tracker.min_weights, names, "min_weights", 0.0 if tracker.min_weights is not None else -math.inf
        )
        upper = by_asset(
            tracker.max_weights, names, "max_weights", 1.0 if tracker.max_weights is not None else math.inf
        )
        k = names.size if tracker.k is None else check_k(tracker.k, names.size)
        least, most = read_budget(tracker.budget)
        chosen = _indices(tracker.keep, names)
        forced = np.flatnonzero((lower > 0) | (upper < 0))
        caps = _caps(tracker.max_sector_weight, labels)
        keep = np.union1d(chosen, forced).astype(np.intp)
        mandate = cls(names, k, least, most, lower, upper, labels, caps, keep, chosen.size)
        mandate.check()
        return mandate

    @cached_property
    def groups(self) -> list[Any]:
        """The groups, in the order of their first asset."""
        return [] if self.labels is None else list(dict.fromkeys(self.labels.tolist()))

    @cached_property
    def portfolio(self) -> Portfolio:
        """Γ."""
        capped = {} if not self.caps else {"groups": self.labels, "caps": self.caps}
        return Portfolio((self.least, self.most), self.lower, self.upper, **capped)

    # ---- can it be had?

    def check(self) -> None:
        """Raise InfeasibleMandate with every reason that can be told, and what would help."""
        crossed = self._bounds()
        problems = [*crossed, *self._too_many(), *self._over_caps()]
        if not crossed:
            problems += self._too_much()
        problems = problems or self._too_little()
        if problems:
            raise InfeasibleMandate("no portfolio meets all that is asked: " + "; ".join(problems))

    def _bounds(self) -> list[str]:
        crossed = np.flatnonzero(self.lower > self.upper)
        return [
            f"{self.names[i]} must be at least {percent(self.lower[i])} and at most {percent(self.upper[i])} "
            "(min_weights and max_weights)"
            for i in crossed[:3]
        ]

    def _too_many(self) -> list[str]:
        if self.keep.size <= self.k:
            return []
        if self.keep.size == self.names.size > self.chosen:
            return [
                f"min_weights makes all {self.names.size} assets held, but k={self.k}; min_weights is for every asset: "
                "use 0, or name the assets it is for"
            ]
        return [
            f"{self.keep.size} names must be held (keep and min_weights), but k={self.k}; raise k to {self.keep.size}"
        ]

    def _over_caps(self) -> list[str]:
        """What must be held in a sector is more than its cap allows."""
        must, problems = np.maximum(np.maximum(self.lower, -self.upper), 0.0), []
        for g, cap in self.caps.items():
            held = float(must[self._in(g)].sum())
            if held > cap * (1 + 1e-12):
                problems.append(
                    f"the names that must be held in {g} need {percent(held)}, but its cap is {percent(cap)}"
                )
        return problems

    def _too_much(self) -> list[str]:
        """k names within bounds and caps cannot hold as little as the budget asks for."""
        least = -self._reach(self.k, self._part.mirrored())
        if least <= self.most + self._part.room():
            return []
        budget = f"but the budget is {self._budget(self.most)}"
        if (self.lower >= 0).all():
            return [f"the names that must be held need {percent(least)}, {budget}"]
        needed = self._needed(self._part.mirrored())
        ways = [*([f"raise k to at least {needed}"] if needed else []), "allow larger short positions in min_weights"]
        return [f"{self.k} names{self._given()} hold at least {percent(least)}, {budget}; {_ways(ways)}"]

    def _too_little(self) -> list[str]:
        """k names within bounds and caps cannot hold what the budget asks for."""
        asked, enough = self.least, self.least - self._part.room()
        most = self._reach(self.k, self._part)
        if most >= enough:
            return []
        budget = f"but the budget is {self._budget(asked)}"
        uncapped = replace(self._part, group=np.full(self.names.size, -1))
        alone = self._reach(self.k, uncapped)
        if alone < enough:
            top = np.unique(self.upper)
            capped = f"capped at {percent(top[-1])}" if top.size == 1 else "with the largest max_weights"
            ways = [f"raise k to at least {needed}"] if (needed := self._needed(uncapped)) else []
            if self.k and top.size == 1:
                ways.append(f"max_weights to at least {percent(asked / self.k)}")
            return [f"{self.k} names{self._given()} {capped} can hold {percent(alone)}, {budget}; {_ways(ways)}"]
        everything = self._reach(self.names.size, self._part)
        if everything < enough:
            caps = set(self.caps.values())
            capped = f"capped at {percent(caps.pop())}" if len(caps) == 1 else "with these caps"
            same = len(self.caps) == len(self.groups)
            ways = [f"raise max_sector_weight to at least {percent(asked / len(self.groups))}"] if same else []
            return [f"{len(self.groups)} sectors {capped} can hold {percent(everything)}, {budget}; {_ways(ways)}"]
        ways = [f"raise k to at least {needed}"] if (needed := self._needed(self._part)) else []
        return [
            f"{self.k} names{self._given()} under the caps of their sectors can hold {percent(most)}, {budget}; "
            f"{_ways([*ways, 'raise max_sector_weight'])}"
        ]

    @cached_property
    def _part(self) -> Positions:
        return self.portfolio._positions(np.arange(self.names.size))

    def _needed(self, part: Positions) -> int | None:
        """The smallest k with which the budget can be met."""
        enough = part.least - part.room()
        return next((k for k in range(self.k + 1, self.names.size + 1) if self._reach(k, part) >= enough), None)

    def _reach(self, k: int, part: Positions) -> float:
        """The largest sum of k names, as far as the budget asks for it."""
        chosen = np.zeros(self.names.size, dtype=bool)
        chosen[self.keep] = True
        return part.most_with(chosen, max(k - self.keep.size, 0))

    def _given(self) -> str:
        return f", {self.keep.size} of them given," if self.keep.size else ""

    def _in(self, group: Any) -> np.ndarray:
        assert self.labels is not None
        return np.array([label == group for label in self.labels])

    def _budget(self, bound: float) -> str:
        if self.least == self.most:
            return percent(bound)
        return f"{'at least' if bound == self.least else 'at most'} {percent(bound)}"


def percent(share: float) -> str:
    """0.075 as 7.5%."""
    return f"{100 * share:.4g}%"


def _ways(ways: list[str]) -> str:
    return ", or ".join(ways) if ways else "loosen the bounds, or lower the budget"


def _indices(keep: Any, names: np.ndarray) -> np.ndarray:
    """The places of assets that are given by name, or by number where they have no names."""
    if keep is None:
        return np.empty(0, dtype=np.intp)
    if not isinstance(keep, Iterable):
        raise TypeError(f"keep must be a list of assets, such as keep=[{keep!r}], got {keep!r}")
    listed = [keep] if isinstance(keep, str) else list(keep)
    place = {name: i for i, name in enumerate(names.tolist())}
    lost = [name for name in listed if name not in place]
    if lost:
        raise ValueError(f"keep names {_some(lost)}, which returns does not have; it has {_some(names)}")
    return np.unique([place[name] for name in listed]).astype(np.intp)


def _caps(caps: Any, labels: np.ndarray | None) -> dict[Any, float]:
    """{group: cap}."""
    if caps is None:
        return {}
    if labels is None:
        raise ValueError(
            f"max_sector_weight={caps!r} needs the sector of each asset: fit(returns, index_returns, groups=sectors)"
        )
    if hasattr(caps, "to_dict"):
        caps = caps.to_dict()
    known = list(dict.fromkeys(labels.tolist()))
    if not isinstance(caps, Mapping):
        return dict.fromkeys(known, check_nonnegative(caps, "max_sector_weight"))
    for name in caps:
        if name not in known:
            raise ValueError(
                f"max_sector_weight names the sector {name!r}, which groups does not have: {_some(known, 12)}"
            )
    return {name: check_nonnegative(cap, f"max_sector_weight[{name!r}]") for name, cap in caps.items()}
