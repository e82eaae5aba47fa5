"""Where the strong convexity of a promise comes from, the cheapest source first, and what each costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    how, cost : str
        What it was read off, and what that took.
    at : callable
        k̄ ↦ δ, one number or one for each coordinate.
    fixed : bool
        Whether it is the same for every k̄.
    """

    how: str
    cost: str
    at: Callable[[int], Any]
    fixed: bool = True

    def constant(self, k_bar: int) -> Constant:
        """The least of them."""
        return Constant(float(np.min(self.at(k_bar))), "bound", self.how)


class Sources:
    """The curvatures that are known of a risk, or can be computed; `level` tells in how many coordinates x and a w with
    so many of what is counted differ at the most."""

    def __init__(self, risk: Risk, level: Callable[[int], int]) -> None:
        self.risk, self.level = risk, level

    def free(self) -> Iterator[Curved]:
        """What costs nothing; convexity alone may do where Γ is bounded, and no slope is left of what it prices."""
        known = self.risk.known_convexity
        if known is not None:
            yield Curved(known.how, "nothing", constant(known.value))
        elif self.risk.convex:
            yield Curved("convexity alone", "nothing", constant(0.0))

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
                stated = constant(nu.value * (1 - 4 * EPS))
                yield Curved("strong convexity as the risk states it", _took(started), stated)
            return
        d = form.b.size
        for scaled, units in ((False, ""), (True, " in units of its diagonal")):
            delta = smallest_eigenvalue(form, scaled)
            if delta.size and (delta > 0).all():
                how = f"the smallest eigenvalue of the Hessian{units}, lowered by its error"
                yield Curved(how, f"an eigenvalue of a {d} x {d} matrix, {_took(started)}", constant(delta))
            started = time.perf_counter()

    def _restricted(self) -> Iterator[Curved]:
        """ν_s over blocks of s = k + k̄ coordinates, for a quadratic R whose Hessian is not too large."""
        constants, started = curvature_of(self.risk), time.perf_counter()
        if constants.hessian is None or not constants.hessian[1]:
            return
        blocks, d = constants.hessian[0], self.risk.n_features

        def at(k_bar: int) -> float:
            nu = constants.at(max(self.level(k_bar), 1)).strong_convexity
            return nu.value - (blocks.noise if nu.source == "exact" else 0.0)

        at(0)
        cost = f"blocks of a {d} x {d} matrix, {_took(started)}"
        yield Curved("a bound over blocks of the Hessian", cost, at, fixed=False)


def constant(delta: Any) -> Callable[[int], Any]:
    """The same curvature at every k̄."""
    return lambda k_bar: delta


def _took(started: float) -> str:
    return f"{time.perf_counter() - started:.2g} s"
