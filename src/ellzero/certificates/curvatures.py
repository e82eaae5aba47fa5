"""Where the strong convexity of a promise comes from, the cheapest source first, and what each costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..risks import Constant, Risk
from ..risks.accuracy import EPS
from ..theory.constants import curvature_of
from .quadratic_form import smallest_eigenvalue


@dataclass
class Curved:
    """δ with R(w) >= R(x) + <∇R(x), w - x> + ½Σ_i δ_i (w_i - x_i)² for w with at most k̄ of what is counted.

    Attributes
    ----------
    how : str
        What it was read off.
    at : callable
        k̄ ↦ δ, one number or one for each coordinate.
    fixed : bool
        Whether it is the same for every k̄.
    """

    how: str
    at: Callable[[int], Any]
    fixed: bool = True

    def constant(self, k_bar: int) -> Constant:
        """The least of them."""
        return Constant(float(np.min(self.at(k_bar))), "bound", self.how)


class Sources:
    """The curvatures that are known of a risk, or can be computed; `level` tells in how many coordinates x and a w with
    so many of what is counted differ at the most, and `cost` what was computed, of use or not."""

    def __init__(self, risk: Risk, level: Callable[[int], int]) -> None:
        self.risk, self.level, self._spent = risk, level, dict[str, float]()

    @property
    def cost(self) -> str:
        """What was computed, and how long it took."""
        return "; ".join(f"{what}, {seconds:.2g} s" for what, seconds in self._spent.items()) or "nothing"

    def free(self) -> Iterator[Curved]:
        """What costs nothing; convexity alone may do where Γ is bounded, and no slope is left of what it prices."""
        known = self.risk.known_convexity
        if known is not None:
            yield Curved(known.how, constant(known.value))
        elif self.risk.convex:
            yield Curved("convexity alone", constant(0.0))

    def all(self) -> Iterator[Curved]:
        """And what costs some decomposition of the Hessian, if it is the same everywhere."""
        yield from self.free()
        yield from self._eigenvalues()
        yield from self._restricted()

    def _eigenvalues(self) -> Iterator[Curved]:
        """The smallest eigenvalue, lowered until a Cholesky factor proves it, as it is and in units of the diagonal."""
        risk, started = self.risk, time.perf_counter()
        if (form := risk.quadratic_form(risk.n_features)) is None:
            nu = risk.strong_convexity
            if nu.source != "estimate" and nu.value > 0 and risk.known_convexity is None:
                self._took(started, "what the risk states")
                yield Curved("strong convexity as the risk states it", constant(nu.value * (1 - 4 * EPS)))
            return
        d = form.b.size
        for scaled, units in ((False, ""), (True, " in units of its diagonal")):
            delta = smallest_eigenvalue(form, scaled)
            self._took(started, f"an eigenvalue of a {d} x {d} matrix")
            if delta.size and (delta > 0).all():
                yield Curved(f"the smallest eigenvalue of the Hessian{units}, lowered by its error", constant(delta))
            started = time.perf_counter()

    def _restricted(self) -> Iterator[Curved]:
        """ν_s over blocks of s = k + k̄ coordinates, for a quadratic R whose Hessian is not too large.

        It falls as k̄ grows: where it starts below what is known for nothing it is of no use.
        """
        started, constants = time.perf_counter(), curvature_of(self.risk)
        if constants.hessian is None or not constants.hessian[1]:
            return
        blocks, d, known = constants.hessian[0], self.risk.n_features, self.risk.known_convexity
        what = f"blocks of a {d} x {d} matrix"
        self._took(started, what)

        @lru_cache
        def at(k_bar: int) -> float:
            started = time.perf_counter()
            nu = constants.at(max(self.level(k_bar), 1)).strong_convexity
            self._took(started, what)
            return nu.value - (blocks.noise if nu.source == "exact" else 0.0)

        if at(0) > (0.0 if known is None else known.value):
            yield Curved("a bound over blocks of the Hessian", at, fixed=False)

    def _took(self, started: float, what: str) -> None:
        self._spent[what] = self._spent.get(what, 0.0) + time.perf_counter() - started


def constant(delta: Any) -> Callable[[int], Any]:
    """The same curvature at every k̄."""
    return lambda k_bar: delta
