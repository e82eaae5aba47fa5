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
from ..sets.portfolio import read_budget
from ..sets.positions import Positions
from .market import by_asset, labels_of, some

#: how the parameters of an `IndexTracker` are called in the reasons, unless somebody calls them otherwise
_NAMES = {name: name for name in ("k", "max_sector_weight", "min_weights", "max_weights")}
_NAMES["held"] = "keep and min_weights"


@dataclass(frozen=True)
class Reason:
    """Why a request cannot be met.

    Attributes
    ----------
    code : {"bounds", "held", "cap", "too much", "too little", "not found"}
        Which condition fails: bounds of an asset cross, more names must be held than k, what must be held in a sector
        is more than its cap, the budget is less or more than k names can hold, or the search found no such names.
    words : str
        A sentence with places for the details, and for the names of parameters.
    details : dict
        Its numbers and names; all floats are shares of the portfolio.
    """

    code: str
    words: str
    details: dict[str, Any]

    def told(self, names: Mapping[str, str]) -> str:
        """The sentence."""
        shown = {name: percent(value) if isinstance(value, float) else value for name, value in self.details.items()}
        return self.words.format(**{**_NAMES, **names}, **shown)


class InfeasibleMandate(ValueError):
    """No portfolio meets everything that was asked.

    Attributes
    ----------
    reasons : tuple of Reason
        All that can be told.
    code, details : str, dict
        Those of the first reason.
    """

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(*reasons)
        self.reasons, self.code, self.details = reasons, reasons[0].code, reasons[0].details

    def told(self, names: Mapping[str, str]) -> str:
        """The message, with other names for k, max_sector_weight, min_weights, max_weights and what must be held."""
        lead = "" if self.code == "not found" else "no portfolio meets all that is asked: "
        return lead + "; ".join(reason.told(names) for reason in self.reasons)

    def __str__(self) -> str:
        return self.told({})


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
        lower = by_asset(tracker.min_weights, names, "min_weights", default=0.0, free=-math.inf)
        upper = by_asset(tracker.max_weights, names, "max_weights", default=1.0, free=math.inf)
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
            raise InfeasibleMandate(*problems)

    def _bounds(self) -> list[Reason]:
        words = "{name} must be at least {least} and at most {most} ({min_weights} and {max_weights})"
        return [
            Reason("bounds", words, {"name": self.names[i], "least": self.lower[i], "most": self.upper[i]})
            for i in np.flatnonzero(self.lower > self.upper)[:3]
        ]

    def _too_many(self) -> list[Reason]:
        if self.keep.size <= self.k:
            return []
        words = "{names} names must be held ({held}), but k={allowed}; raise {k} to {names}"
        if self.keep.size == self.names.size > self.chosen:
            words = (
                "{min_weights} makes all {names} assets held, but k={allowed}; {min_weights} is for every asset: "
                "use 0, or name the assets it is for"
            )
        return [Reason("held", words, {"names": self.keep.size, "allowed": self.k})]

    def _over_caps(self) -> list[Reason]:
        """What must be held in a sector is more than its cap allows."""
        must = np.maximum(np.maximum(self.lower, -self.upper), 0.0)
        words = "the names that must be held in {sector} need {needed}, but its cap is {cap}"
        needed = {g: float(must[self.members(g)].sum()) for g in self.caps}
        return [
            Reason("cap", words, {"sector": g, "needed": needed[g], "cap": cap})
            for g, cap in self.caps.items()
            if needed[g] > cap * (1 + 1e-12)
        ]

    def _too_much(self) -> list[Reason]:
        """k names within bounds and caps cannot hold as little as the budget asks for."""
        least = -self._reach(self.k, self._part.mirrored())
        if least <= self.most + self._part.room():
            return []
        if (self.lower >= 0).all():
            return [self._missed("the names that must be held need {reach}", least)]
        ways = ["allow larger short positions in {min_weights}"]
        needed = self._needed(self._part.mirrored())
        return [self._missed("{names} names{given} hold at least {reach}", least, ways, needed=needed)]

    def _too_little(self) -> list[Reason]:
        """k names within bounds and caps cannot hold what the budget asks for."""
        asked, enough = self.least, self.least - self._part.room()
        most, caps, sectors = self._reach(self.k, self._part), set(self.caps.values()), len(self.groups)
        if most >= enough:
            return []
        uncapped = replace(self._part, group=np.full(self.names.size, -1))
        if (alone := self._reach(self.k, uncapped)) < enough:
            top = np.unique(self.upper)
            capped = "capped at {cap}" if top.size == 1 else "with the largest {max_weights}"
            words = f"{{names}} names{{given}} {capped} can hold {{reach}}"
            needed = self._needed(uncapped)
            way = "raise {max_weights} to at least {least}"
            numbers = {"cap": top[-1], "least": asked / max(self.k, 1), "needed": needed}
            return [self._missed(words, alone, [way] if self.k and top.size == 1 else [], **numbers)]
        if (everything := self._reach(self.names.size, self._part)) < enough:
            capped = "capped at {cap}" if len(caps) == 1 else "with these caps"
            words = f"{{sectors}} sectors {capped} can hold {{reach}}"
            ways = ["raise {max_sector_weight} to at least {least}"] if len(self.caps) == sectors else []
            return [self._missed(words, everything, ways, sectors=sectors, cap=max(caps), least=asked / sectors)]
        words = "{names} names{given} under the caps of their sectors can hold {reach}"
        return [self._missed(words, most, ["raise {max_sector_weight}"], needed=self._needed(self._part))]

    def _missed(self, words: str, reach: float, ways: list[str] | None = None, **numbers: Any) -> Reason:
        """The budget is out of reach: what can be had instead, and which ways there are out of it."""
        code, side, budget = "too much", "at most ", self.most
        if reach < self.least:
            code, side, budget = "too little", "at least ", self.least
        words += ", but the budget is {side}{budget}"
        if ways is not None:
            ways = [*(["raise {k} to at least {needed}"] if numbers.get("needed") else []), *ways]
            words += "; " + (", or ".join(ways) if ways else "loosen the bounds, or lower the budget")
        given = f", {self.keep.size} of them given," if self.keep.size else ""
        numbers |= {"names": self.k, "given": given, "side": "" if self.least == self.most else side}
        return Reason(code, words, {**numbers, "reach": float(reach), "budget": budget})

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

    def members(self, group: Any) -> np.ndarray:
        """Whether each asset is in the group."""
        assert self.labels is not None
        return np.array([label == group for label in self.labels])


def percent(share: float) -> str:
    """0.075 as 7.5%."""
    return f"{100 * share:.4g}%"


def _indices(keep: Any, names: np.ndarray) -> np.ndarray:
    """The places of assets that are given by name, or by number where they have no names."""
    if keep is None:
        return np.empty(0, dtype=np.intp)
    if not isinstance(keep, Iterable):
        raise TypeError(f"keep must be a list of assets, such as keep=[{keep!r}], got {keep!r}")
    listed = [keep] if isinstance(keep, str) else list(keep)
    place = {name: i for i, name in enumerate(names.tolist())}
    if lost := [name for name in listed if name not in place]:
        raise ValueError(f"keep names {some(lost)}, which returns does not have; it has {some(names)}")
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
    if unknown := [name for name in caps if name not in known]:
        lost = f"max_sector_weight names the sector {unknown[0]!r}, which groups does not have"
        raise ValueError(f"{lost}: {some(known, 12)}")
    return {name: check_nonnegative(cap, f"max_sector_weight[{name!r}]") for name, cap in caps.items()}
