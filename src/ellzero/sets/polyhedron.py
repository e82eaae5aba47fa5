"""Bounds and caps: how a set is told to those who solve quadratic and linear programmes over it.

And how far sparse members of a set reach: for j = 0..k a bound of ||w||² over those with j nonzeros, concave in j, so
that the best split of j nonzeros over groups takes the largest increments of all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

_LEAST = 1e-300  # squares below lose digits


@dataclass
class Polyhedron:
    """{w : lower <= w <= upper, A|w| <= h}, with equality in the rows where `equal`; A >= 0.

    Where a row demands equality, or may have a negative multiplier, its coordinates are non-negative.
    """

    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    h: np.ndarray
    equal: np.ndarray
    exact: bool = True  #: whether this is the set; otherwise it leaves something out, and is larger

    @classmethod
    def box(cls, lower: Any, upper: Any, d: int) -> Polyhedron:
        """Bounds alone."""
        low, high = (np.broadcast_to(np.asarray(b, dtype=float), d).copy() for b in (lower, upper))
        return cls(low, high, np.zeros((0, d)), np.zeros(0), np.zeros(0, dtype=bool))

    @classmethod
    def joined(cls, parts: Sequence[Polyhedron]) -> Polyhedron:
        """What all have in common."""
        lower, upper = np.max([p.lower for p in parts], axis=0), np.min([p.upper for p in parts], axis=0)
        A, h, equal = (np.concatenate(pieces) for pieces in zip(*((p.A, p.h, p.equal) for p in parts), strict=True))
        return cls(lower, upper, A, h, equal, all(p.exact for p in parts))

    @property
    def positive(self) -> np.ndarray:
        """Where w >= 0."""
        return np.asarray(self.lower >= 0)

    def with_row(self, row: Any, cap: float, equal: bool = False) -> Polyhedron:
        """One cap more."""
        A = np.vstack([self.A, np.broadcast_to(np.asarray(row, dtype=float), self.lower.size)])
        return replace(self, A=A, h=np.append(self.h, cap), equal=np.append(self.equal, equal))

    def restrict(self, index: np.ndarray) -> Polyhedron:
        """The same for these coordinates, the others zero."""
        return replace(self, lower=self.lower[index], upper=self.upper[index], A=self.A[:, index])

    def used(self) -> Polyhedron:
        """Without the caps that weigh no coordinate."""
        used = self.A.any(axis=1) | self.equal
        return replace(self, A=self.A[used], h=self.h[used], equal=self.equal[used])

    def contains(self, u: np.ndarray) -> bool:
        """Whether u keeps every bound and cap, up to rounding."""
        gross = self.A @ np.abs(u)
        return bool(
            (u >= self.lower).all()
            and (u <= self.upper).all()
            and (gross <= (1 + 1e-14) * self.h).all()
            and (gross >= (1 - 1e-14) * self.h)[self.equal].all()
        )

    def of_separate_caps(self) -> bool:
        """Whether it is a product of l1 balls, budgets {w >= 0, Σw <= h} and intervals that contain 0."""
        holds_zero = (self.lower <= 0).all() and (self.upper >= 0).all()
        if not (self.exact and holds_zero) or self.equal.any() or (np.count_nonzero(self.A, axis=0) > 1).any():
            return False
        capped, largest = self.A.any(axis=0), self.A.max(axis=1, initial=0.0)[:, None]
        one_sided = np.isinf(self.lower) | (self.lower == 0), np.isinf(self.upper) | (self.upper == 0)
        return bool(((self.A == 0) | (largest == self.A)).all() and (one_sided[0] & one_sided[1])[capped].all())

    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest |w_i| between the bounds."""
        least = np.maximum(np.maximum(self.lower, -self.upper), 0.0)
        return least, np.maximum(np.abs(self.lower), np.abs(self.upper))

    def reach(self) -> np.ndarray:
        """The largest |w_i| that bounds and caps leave."""
        with np.errstate(divide="ignore", invalid="ignore"):
            caps = np.where(self.A > 0, self.h[:, None] / self.A, np.inf)
        return np.asarray(np.minimum(self.sizes()[1], caps.min(axis=0, initial=np.inf)))

    def scale(self) -> float:
        """A number by which bounds are divided: the tolerances of linear programmes are absolute."""
        return float(np.concatenate([self.h[self.equal], self.sizes()[0]]).max(initial=0.0)) or 1.0

    def has_member_on(self, support: np.ndarray) -> bool:
        """Whether bounds and caps leave anything on the support: a linear programme in |w|."""
        from scipy.optimize import linprog

        outside = np.ones(self.lower.size, dtype=bool)
        outside[support] = False
        least, most = self.sizes()
        if (least[outside] > 0).any():
            return False
        A, least, most = self.A[:, support], least[support], most[support]
        if not self.equal.any():
            return bool((A @ least <= self.h * (1 + 1e-12)).all())
        scale = self.scale()
        bounds = list(zip((least / scale).tolist(), (most / scale).tolist(), strict=True))
        caps, exact, h = ~self.equal, self.equal, self.h / scale
        found = linprog(np.zeros(support.size), A_ub=A[caps], b_ub=h[caps], A_eq=A[exact], b_eq=h[exact], bounds=bounds)
        return bool(found.status == 0)


def square_above(size: Any) -> np.ndarray:
    """Its square, or more: never 0 for what is not 0, although the squares of small numbers are."""
    size = np.asarray(size, dtype=float)
    return np.where(size > 0, np.maximum(size * size, _LEAST), 0.0)


def of_ball(radius: float, k: int, growth: float = 0.0) -> np.ndarray:
    """0, radius² · j^growth; the radius may be infinite."""
    j = np.arange(1.0, k + 1)
    return np.concatenate([[0.0], j**growth * square_above(radius)])


def of_increments(increments: np.ndarray, k: int) -> np.ndarray:
    """The sums of the largest."""
    return np.concatenate([[0.0], np.cumsum(np.sort(increments)[::-1][:k])])
