"""beats: how many nonzeros a vector must have at the least to be better than an answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from .._core.arrays import waits
from .._core.validation import check_positive
from ..risks import Constant, Risk
from ..risks.base import need_risk
from ..sets import EmptySlice
from ..sets.multipliers import Multipliers
from ..solver.minorant import Minorant, most_beaten
from ..solver.problem import make_problem
from ..solver.result import Result
from ..sparsity import Sparsity
from ..theory.after_exchanges import AfterExchanges
from .answer import NoBound, own_point, require_squares
from .curvatures import Curved, Sources, constant
from .support_bound import Slice, residuals

_TOLERANCE = 1e-9  # of R: what may be left open where x is next to the best on its support
_DIGITS = 1e-4  # of that: twelve digits and more of R, whose number says nothing to a reader


@dataclass(frozen=True)
class Beats:
    """R(x) <= R(w̄) for every w̄ in Γ with at most k̄ nonzeros, or groups, or whatever was counted.

    Attributes
    ----------
    k_bar : int
        k̄, the largest for which it is proved; 0 where nothing is.
    form : {"a posteriori", "a priori", "none"}
        Read off one gradient at x; or from the theorem on exchanges, where none helps; or no promise.
    strong_convexity : Constant
        ν, with what it was read off (`how`); 0 where none is known.
    words : str
        The promise, or why there is none, in a sentence.
    error : float
        R(x) <= R(w̄) + error is what is proved; 0 unless w̄ may use all of the support of x, on which a floating-point x
        is not quite the best.
    how : str
        What of Γ was used.
    cost : str
        What it took to compute.
    a_priori : int or None
        What the theorem on exchanges says without a look at the slopes, where no exchange helps and Γ is covered; None
        where that was not asked for, because more was proved already.
    sparsity : Sparsity
        What was counted.
    """

    k_bar: int
    form: Literal["a posteriori", "a priori", "none"]
    strong_convexity: Constant
    words: str
    error: float = 0.0
    how: str = ""
    cost: str = ""
    a_priori: int | None = None
    sparsity: Sparsity | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.k_bar > 0

    def __repr__(self) -> str:
        nu = self.strong_convexity
        lines = {
            "promise": self.words,
            "k̄": f"{self.k_bar}" + (f", {self.a_priori} by the number of nonzeros alone" if self.a_priori else ""),
            "form": self.form + (f", {self.how}" if self.how else ""),
            "curvature": f"ν = {nu.value:.6g}" + (f", {nu.how}" if nu.how else ""),
            "cost": self.cost,
        }
        return "ellzero promise\n" + "\n".join(f"  {name:<13}{text}" for name, text in lines.items() if text)


def beats(risk: Risk, result: Result, *, nu: float | Constant | None = None) -> Beats:
    """The largest k̄ such that R(x) <= R(w̄) for every w̄ in Γ with at most k̄ nonzeros: no factor, no trade-off.

    R(w̄) >= R(x) + <∇R(x), w̄ - x> + (ν/2)||w̄ - x||², and the least value of the right side over such w̄ is known from one
    gradient: leaving out entries of x costs (ν/2)x_i² each, newcomers win at most c_j²/(2ν) each, where c_j is what Γ
    leaves of the slope |∇R(x)_j|. Where Γ binds, its multipliers make the slopes smaller and the curvature larger.

    Parameters
    ----------
    risk : Risk
    result : Result
        What `minimize` returned for it, by any method; k, Γ and what is kept are in it.
    nu : float or Constant, optional
        ν, strong convexity between vectors that differ in k + k̄ coordinates, known otherwise. By default the ridge; for
        quadratic risks also the smallest eigenvalue of the Hessian, and bounds over its blocks.

    Returns
    -------
    Beats
        Where nothing can be promised its words say why.

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_regression(500, 100, 10, correlation=0.3)
    >>> risk = ez.risks.LeastSquares(problem.X, problem.y)
    >>> ez.beats(risk, ez.minimize(risk, k=20)).words
    'no vector with at most 11 nonzeros is better than this answer'
    """
    need_risk(risk)
    if not isinstance(result, Result):
        raise TypeError(f"result must be what ellzero.minimize returned for the risk, got {result!r}")
    if nu is not None:
        given = nu if isinstance(nu, Constant) else Constant(nu, "bound")
        nu = replace(given, value=check_positive(given.value, "nu"))
    return _promise(risk, result, nu, dear=True)


def beats_for_free(risk: Risk, result: Result) -> Beats | None:
    """The same where curvature is at hand and there is something to say; None otherwise."""
    slow = waits(risk.zero) or risk.n_sweeps  # devices are slow to tell sizes, and data elsewhere are slow to read
    if risk.known_convexity is None or not risk.has_gradient or slow:
        return None
    found = _promise(risk, result, None, dear=False)
    return found if found else None


def _promise(risk: Risk, result: Result, nu: Constant | None, dear: bool) -> Beats:
    """What is proved, or the reason why nothing is."""
    try:
        asked = _Asked(risk, result)
        with np.errstate(over="ignore", invalid="ignore"):
            return asked.promise(nu, dear)
    except NoBound as reason:
        none = Constant(0.0, "bound")
        return Beats(0, "none", none, f"says nothing: {reason}", sparsity=result.sparsity)


class _Asked:
    """An answer, its slopes with their errors, and what Γ says of them."""

    def __init__(self, risk: Risk, result: Result) -> None:
        sparsity = result.sparsity
        if not sparsity.by_atoms:
            raise NoBound(f"the theorem is about nonzeros, groups, features and quotas, and not about {sparsity!r}")
        if not risk.has_gradient:
            raise NoBound("a black box has no gradients")
        problem = make_problem(risk, sparsity, result.constraint, None)
        self.risk, self.result, self.gamma, self.sparsity = risk, result, problem.gamma, problem.sparsity
        self.x, here, at_zero = own_point(risk, result)
        require_squares(risk)
        self.kept = np.union1d(result.keep, problem.kept).astype(np.intp)
        self.support = problem.sparsity.filled(np.union1d(np.flatnonzero(self.x), self.kept).astype(np.intp))
        d, used = self.x.size, self.support.size
        self.sources = Sources(risk, lambda k_bar: min(d, used + problem.sparsity.widest(k_bar, d)))
        self.room = _TOLERANCE * max(abs(here.value), abs(at_zero - here.value) if math.isfinite(at_zero) else 0.0)
        started = time.perf_counter()
        self.g, self.doubt = risk.enclosed_gradient(self.x)
        self.seconds = time.perf_counter() - started
        if not (np.isfinite(self.g).all() and np.isfinite(self.doubt).all()):
            raise NoBound("the gradient at the answer overflows, or nothing bounds its rounding")

    def promise(self, given: Constant | None, dear: bool) -> Beats:
        """The best of all curvatures, the dearer ones only as long as optimality is not proved."""
        best: tuple[int, float, tuple[str, Minorant], Curved] | None = None
        minorants, most = list(self._minorants()), self.sparsity.most(self.x.size)
        if not minorants:
            raise NoBound(f"Γ neither preserves supports nor tells its multipliers: {self.gamma.why}")
        for curved in self._curvatures(given, dear):
            for named in minorants:
                k_bar, error = most_beaten(named[1], curved.at, curved.fixed, self.sparsity, self.kept, self.room)
                if best is None or (k_bar, -error) > (best[0], -best[1]):
                    best = k_bar, error, named, curved
            if best is not None and best[0] >= self.sparsity.k:
                break
        if best is None:
            raise NoBound(self._flat())
        k_bar, error, (how, minorant), curved = best
        form: Literal["a posteriori", "a priori"] = "a posteriori"
        before, left = self._a_priori(minorant, curved) if dear and k_bar < self.sparsity.k else (None, math.inf)
        if before is not None and before > k_bar and left <= self.room:
            k_bar, error, how, form = before, left, "no exchange helps", "a priori"
        gradient = "one gradient" if not self.seconds else f"one gradient, {self.seconds:.2g} s"
        cost = f"{gradient}; ν: {self.sources.cost}"
        nu = curved.constant(max(k_bar, 0))
        if k_bar <= self.sparsity.size(self.kept):
            words = f"says nothing: {self._too_little(minorant, curved)}"
            return Beats(0, "none", nu, words, cost=cost, sparsity=self.sparsity)
        words = self._words(k_bar, error, most)
        return Beats(k_bar, form, nu, words, error, how, cost, before, self.sparsity)

    def _curvatures(self, given: Constant | None, dear: bool) -> Iterator[Curved]:
        if given is not None:
            if given.source == "estimate":
                raise NoBound("nu is an estimate, and proves nothing")
            return iter([Curved("as given", constant(given.value))])
        return self.sources.all() if dear else self.sources.free()

    def _minorants(self) -> Iterator[tuple[str, Minorant]]:
        """With the multipliers of Γ, and, where zeroing keeps members inside, with slopes as they are outside."""
        limits = self.gamma.limits(self.x.size)
        if (slopes := self.gamma.multipliers(self.x, self.g)) is not None:
            binds = slopes.offset > 0 or bool((slopes.curvature > 0).any() or (slopes.up != self.g).any())
            how = "with the multipliers of Γ" if binds else ""
            yield how, Minorant(self.x, slopes, self.doubt, limits)
        if self.sparsity.preserved_by(self.gamma) and not self.gamma.separable:
            for slopes, doubt in self._plain():
                yield "zeroing keeps members in Γ", Minorant(self.x, slopes, doubt, limits)

    def _plain(self) -> Iterator[tuple[Multipliers, np.ndarray]]:
        """On the support what a projected step leaves of the slopes; outside the slopes themselves."""
        S, gamma = self.support, self.gamma
        part = Slice(lambda v: gamma.supporting(v, S), math.inf)
        try:
            left = min(
                residuals(self.g[S], self.doubt[S], self.x[S], part),
                key=lambda r: r.offset + float((r.entries + r.spread) @ np.abs(self.x[S])),
                default=None,
            )
        except EmptySlice:
            return
        if left is not None:
            slopes, doubt = Multipliers.none(self.g.copy()), self.doubt.copy()
            slopes.up[S] = slopes.down[S] = -(left.entries + left.spread)
            doubt[S] = 0.0
            yield slopes._replace(offset=left.offset), doubt

    def _a_priori(self, minorant: Minorant, curved: Curved) -> tuple[int | None, float]:
        """k̄ by the theorem on exchanges, from the number of nonzeros alone, and what exchanges may gain by rounding.

        Under quotas it is about w̄ with a share of each of them, which is not what is promised here.
        """
        examined, k = self.result.exchanges, self.sparsity.size(self.support)
        if examined is None or examined.verdict != "all" or self.kept.size or self.sparsity.quotas is not None:
            return None, math.inf
        inside = self._left_on_support(minorant, curved)
        if not inside <= self.room or examined.support != tuple(self.support.tolist()):  # exchanges of another point
            return None, math.inf
        theorem = AfterExchanges(self.risk, self.sparsity, self.gamma, None, Constant(1.0, "bound"))
        hessian, (L, _) = theorem.curvature.hessian, theorem.constants(max(k, 1), 1)
        if theorem.ratio is None or L.source == "estimate" or hessian is None:
            return None, math.inf
        largest, found = (L.value + hessian[0].noise) * (1 + 1e-12), (0, 0.0)
        for k_bar in range(1, k + 1):
            nu = curved.constant(k_bar).value
            kappa = max(largest / nu, 1.0) if nu > 0 else math.inf
            if not theorem.ratio * kappa**2 * k_bar * (1 + 1e-12) <= k:
                break
            found = k_bar, theorem.ratio * kappa * k_bar * examined.gain + inside
        return found

    def _left_on_support(self, minorant: Minorant, curved: Curved) -> float:
        """By how much R can fall on the support of x at the most."""
        gain, _ = minorant.gains_and_costs(curved.at(0))
        return float(gain[self.support].sum()) + max(minorant.slopes.offset, 0.0)

    # Words.

    def _who(self, k_bar: int) -> str:
        who = f"no vector with at most {self.sparsity.how_many(k_bar)}"
        if self.sparsity.quotas is not None:
            who += " within the quotas"
        if counted := self.sparsity.size(self.kept):
            who += f", the {counted} kept among them,"
        return who if self.gamma.whole_space else f"{who} that keeps the constraints"

    def _words(self, k_bar: int, error: float, most: int) -> str:
        digits = "" if not error else "the last digits" if error <= _DIGITS * self.room else f"{error:.1g}"
        up_to = f", up to {digits}" if digits else ""
        if k_bar >= most and most > self.sparsity.k:
            inside = "" if self.gamma.whole_space else " that keeps the constraints"
            return f"no vector{inside} is better than this answer{up_to}, however many {self.sparsity.counted} it has"
        optimal = "proven optimal: " if k_bar >= self.sparsity.k else ""
        return f"{optimal}{self._who(k_bar)} is better than this answer{up_to}"

    def _flat(self) -> str:
        remedy = "a ridge > 0 gives it some" if self.risk.takes_ridge else "give nu= if you know it"
        why = "R is not known to be convex" if not self.risk.convex else "no strong convexity of R is known"
        return f"{why} over the coordinates of two such vectors; {remedy}"

    def _too_little(self, minorant: Minorant, curved: Curved) -> str:
        if not curved.constant(0).value > 0:
            return self._flat()
        if not (inside := self._left_on_support(minorant, curved)) <= self.room:
            return (
                f"the answer is not the best on its own support, where R could still fall by {inside:.2g}; refit it, "
                'as "auto" does'
            )
        return (
            f"with ν = {curved.constant(0).value:.3g} the slopes outside the support are too steep for the smallest "
            "nonzeros; more curvature (a ridge, more samples) or another k may help"
        )
