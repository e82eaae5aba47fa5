"""After the support has settled: refit the values on it, then exchange coordinates as long as that helps."""

from __future__ import annotations

import itertools
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Point, Risk
from ..sets import ConstraintSet, EmptySlice, GroupWise, L1Ball, Simplex, SubSimplex
from ..sets._signs import admissible_signs
from .refit import Units, refit

__all__ = ["SwapSearch", "Units", "refit"]

_BATCH = 8  # exchanges tried in a round; places looked at where not all can be
_SMALL = 1000  # exchanges so few that a second look at the end of a search is worth its time
_RIVALS = 3  # newcomers tried for a place where the formula is not the truth
_SHARE = 0.5  # of the square of a column left out, inside the span of the kept ones; more is not looked for
_DOUBT = 0.25  # how much of the cost of a place the formula may be wrong by


def _chunks(a: np.ndarray, width: int) -> list[np.ndarray]:
    """Pieces of an array along its last axis, so many that this wide they stay in the cache."""
    step = max(1, 2**16 // max(width, 1))
    return [a[..., start : start + step] for start in range(0, a.shape[-1], step)]


def _contenders(worth: np.ndarray, diagonal: np.ndarray, q: np.ndarray, loss: float) -> np.ndarray:
    """The newcomers j that may pay for the cheapest place, the one of this loss ω²: without them none helps.

    With a_j the worth of the slope and t_j = G_jj - q_j the part of column j inside the span of the kept ones, so that
    β² <= t_j: (a_j + |β|ω)² <= ω²(q_j + β²) for all such β if and only if a_j <= ω(√G_jj - √t_j), and then the
    exchange does not help for any larger ω either.
    """
    span = np.sqrt(diagonal) - np.sqrt(np.maximum(diagonal - q, 0.0))
    return np.flatnonzero(worth > (1 - 1e-9) * math.sqrt(loss) * span)


def _inverse(G: np.ndarray) -> np.ndarray:
    """G⁻¹, or that of G with next to nothing, 1e-13, more on its diagonal where columns depend on each other.

    1/H_ii is what the other columns leave of column i: that little for one that is a copy or a combination of others,
    as it must be, for such a column costs nothing to drop. NaN where G is not finite.
    """
    diagonal = np.maximum(np.diagonal(G), 1e-300)
    try:
        if (np.diagonal(np.linalg.cholesky(G)) ** 2 > 1e-11 * diagonal).all():
            return np.linalg.inv(G)
    except np.linalg.LinAlgError:
        pass
    size = np.sqrt(diagonal)
    damped = G / size / size[:, None] + max(1e-13, 10 * np.finfo(float).eps * len(G)) * np.eye(len(G))
    try:
        return np.asarray(np.linalg.inv(damped) / size / size[:, None])
    except np.linalg.LinAlgError:
        return np.full(G.shape, np.nan)


@dataclass
class SwapSearch:
    """Exchange one kept coordinate for one left out, until no exchange helps.

    Without Γ, for a quadratic R with half Hessian G, the change of R is known for all k(d-k) exchanges at once
    (C = G[:,S], H = inv(G_SS), c = -½∇R, B = CH, q_j = G_jj - Σ_l B_jl C_jl): removing i and adding j changes R by

        w_i²/H_ii - (c_j + B_ji w_i/H_ii)² / (q_j + B_ji²/H_ii).

    Then at the end no exchange helps, provided that G[:,S] was affordable. Where X is too large for that, the cheapest
    places alone are looked at, and not those that only a newcomer could pay for which lies by more than half (of its
    square) in the span of the kept columns.

    With Γ, or for another R, the formula ranks the exchanges, and the best few of each round are tried by a refit: at
    the end none of these helps.

    Attributes
    ----------
    deadline : float
        The reading of `time.perf_counter` after which no further round begins.
    thorough : bool
        Whether, in small problems, a round that helps nothing tries what the formula finds a little too dear.
    n_products : int
        Products with the data that the exchanges took.
    cut : bool
        Whether the deadline ended them.
    helped : bool
        Whether an exchange has helped.
    model : curvature
        That of R where it is the same everywhere, with all that was gathered of it.
    """

    risk: Risk
    gamma: ConstraintSet
    k: int
    keep: np.ndarray
    units: Units | None = None
    deadline: float = math.inf
    thorough: bool = True
    max_rounds: int = 200
    patience: int = 4
    n_products: int = 0
    cut: bool = False
    helped: bool = False
    model: Any = None

    @np.errstate(over="ignore", invalid="ignore")
    def improve(self, point: Point) -> Point:
        """The point after all exchanges that helped; never a worse one."""
        best = point
        if not point.visits:  # not refitted by the step that led here
            start = np.union1d(np.flatnonzero(to_host(point.w)), self.keep).astype(np.intp)
            best = min(point, self._refit(start, point), key=lambda p: p.value)
        model = self.model or self.risk.curvature(best)
        if model is None or not self.risk.convex:
            return best
        self.model, spent = model if model.exact else None, model.spent
        self.thorough = self.thorough and self.k * (self.risk.n_features - self.k) <= _SMALL
        diagonal = model.diagonal
        diagonal = np.where(diagonal > 1e-300, diagonal, 1e300)  # a column of zeros is worth nothing
        for _ in range(self.max_rounds):
            self.cut = time.perf_counter() > self.deadline
            improved = None if self.cut else self._round(best, model, diagonal)
            if improved is None:
                break
            best, self.helped = improved, True
            if not model.exact:
                self.n_products += model.spent - spent
                model = self.risk.curvature(best)
                assert model is not None  # as before
                spent = model.spent
        self.n_products += model.spent - spent
        return best

    def kicked(self, point: Point, rng: np.random.Generator) -> Point:
        """Another start: a third of the support, chosen at random, is given up; `improve` fills the places again."""
        support = np.flatnonzero(to_host(point.w))
        movable = np.setdiff1d(support, self.keep)
        leave = rng.choice(movable, min(movable.size, max(1, movable.size // 3)), replace=False)
        stay = np.setdiff1d(support, leave)
        if type(self.gamma).sparse_support is not ConstraintSet.sparse_support:
            # Γ may have no member on so few places: others are put there at once, at random
            v = to_host(point.w).astype(float)
            size = float(np.abs(v).max(initial=0.0))
            v += rng.random() * size * rng.random(v.size)
            v[leave] = -size
            proposed = self.gamma.sparse_support(v, self.k, self.keep)
            stay = stay if proposed is None else proposed
        try:
            return self._refit(stay, point)
        except EmptySlice:
            return point

    def _refit(self, support: np.ndarray, start: Point) -> Point:
        return refit(self.risk, self.gamma, support, start.w, self.units, self.deadline)

    @np.errstate(over="ignore", invalid="ignore")
    def best_of_all(self, point: Point) -> Point:
        """The best point on any k coordinates, each tried by a refit: where there are but few such supports."""
        others = np.setdiff1d(np.arange(self.risk.n_features), self.keep)
        best = point
        for chosen in itertools.combinations(others.tolist(), self.k - self.keep.size):
            self.cut = time.perf_counter() > self.deadline
            if self.cut:
                break
            with suppress(EmptySlice):
                support = np.union1d(self.keep, chosen).astype(np.intp)
                candidate = refit(self.risk, self.gamma, support, None, self.units, self.deadline)
                best = candidate if candidate.value < best.value else best
        return best

    def _round(self, point: Point, model: Any, diagonal: np.ndarray) -> Point | None:
        """The point after the exchanges of one round, or None if none of those tried helps."""
        w, c = to_host(point.w).astype(float), -0.5 * to_host(point.gradient).astype(float)
        self.n_products += 1
        S = np.union1d(np.flatnonzero(w), self.keep).astype(np.intp)
        if S.size == w.size:
            return None
        scale = abs(point.value) + 1e-300
        exact = model.exact and self.gamma.whole_space
        ranked = self._candidates(w, c, S, model, diagonal, exact, 1e-10 * scale)
        first = [(i, j) for i, j, rank, gain in ranked if rank == 0 and gain > 1e-10 * scale]
        best = self._try(first[: _BATCH * (1 if exact else self.patience)], point, S)
        if best is point and self.thorough:  # the formula may be wrong about these
            done = set(first)
            best = self._try([(i, j) for i, j, *_ in ranked if (i, j) not in done][:_BATCH], point, S)
        return None if best is point else best

    def _try(self, tries: list[tuple[int, int]], point: Point, S: np.ndarray) -> Point:
        """The point after those of the exchanges that help."""
        best, used = point, set(S.tolist())
        for i, j in tries:
            out = int(S[i]) if i < S.size else None
            if j in used or (out is not None and out not in used):
                continue
            if time.perf_counter() > self.deadline:
                break
            trial = np.array(sorted((used - {out}) | {j}), dtype=np.intp)
            try:
                candidate = self._refit(trial, best)
            except EmptySlice:  # Γ has no member there, a group that must be used would be empty, say
                continue
            if candidate.value < best.value - 1e-12 * abs(point.value):
                best, used = candidate, set(trial.tolist())
        return best

    def _candidates(
        self, w: np.ndarray, c: np.ndarray, S: np.ndarray, model: Any, diagonal: np.ndarray, exact: bool, least: float
    ) -> list[tuple[int, int, int, float]]:
        """Exchanges by their gain: a place in the support, or a free one beyond it, newcomer, its rank there, gain.

        Where the formula is the truth, the best newcomer of each place, if it gains more than `least`; elsewhere its
        best few, and also those that seem a little too dear.
        """
        shift, price = self._prices(w, c, S)
        c = c - shift
        outside = np.ones(w.size, dtype=bool)
        outside[S] = False
        rivals, doubt, q = (_RIVALS, _DOUBT, diagonal) if self.thorough and not exact else (1, 0.0, diagonal)
        worth = np.where(outside, self._worth(c, price), 0.0)
        found: list[tuple[np.ndarray, ...]] = []
        if S.size:
            whole, places, rows = model.affords(S.size), np.arange(S.size), np.flatnonzero(outside)
            C = model.columns(S) if whole else None
            H = _inverse(model.block(S) if C is None else C[S])
            h = np.maximum(np.diagonal(H), 1e-300)
            loss = w[S] ** 2 / h  # what removing each costs
            loss[np.isin(S, self.keep)] = np.inf
            if C is None:
                places = self._vulnerable(loss, np.max(worth**2 / diagonal))
                images = model.images(S, H[:, places]) if places.size else np.empty((w.size, 0))
            else:
                inside = [np.einsum("ij,ij->j", H @ part, part) for part in _chunks(C.T, S.size)]
                q = np.maximum(diagonal - np.concatenate(inside), 0.0)
                rows = _contenders(worth, diagonal, q, (1 - doubt) * float(loss.min()))
            for some in _chunks(rows, places.size):
                B = images[some] if C is None else C[some] @ H
                slope = c[some, None] + B * (w[S] / h)[places]
                room = diagonal[some, None]
                if whole:
                    room = np.maximum(q[some, None] + B**2 / h[places], 1e-9 * room)
                won = self._worth(slope, price[some, None], some) ** 2 / room
                for _ in range(min(rivals, some.size)):
                    best, columns = won.argmax(axis=0), np.arange(places.size)
                    value = won[best, columns]
                    good = value > (1 - doubt) * loss[places] + least
                    found.append((places[good], some[best[good]], (value - loss[places])[good]))
                    won[best, columns] = -np.inf
        if S.size < self.k:
            won = np.where(outside, worth**2 / np.maximum(q, 1e-9 * diagonal), -np.inf)
            best = np.argsort(-won)[: self.k - S.size]
            best = best[won[best] > least]
            found.append((S.size + np.arange(best.size), best, won[best]))
        if not found:
            return []
        place, newcomer, gain = (np.concatenate(parts) for parts in zip(*found, strict=True))
        seen, ranked = dict.fromkeys(place.tolist(), -1), []
        for at in np.argsort(-gain, kind="stable").tolist():
            seen[int(place[at])] += 1
            if seen[int(place[at])] < rivals:
                ranked.append((int(place[at]), int(newcomer[at]), seen[int(place[at])], float(gain[at])))
        return ranked

    @staticmethod
    def _vulnerable(loss: np.ndarray, reach: float) -> np.ndarray:
        """Places that an exchange could pay for, where a look at all of them is too dear.

        With ω² the loss, c_j²/G_jj <= reach and t_j the part of G_jj inside the span of the kept columns, no exchange
        of this place helps if ω(1 - sqrt(t_j/G_jj)) >= sqrt(reach) for all j (see `_contenders`). The t_j would cost
        a product with X for each kept column; that they are at most G_jj/2 is taken for granted.
        """
        cheap = np.flatnonzero(np.sqrt(loss) * (1 - math.sqrt(_SHARE)) < math.sqrt(reach))
        return cheap[np.argsort(loss[cheap])][:_BATCH]

    def _worth(self, slope: np.ndarray, price: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """How much slope remains after the price of the constraint, in the directions that Γ allows."""
        if self.gamma.whole_space:
            return np.asarray(np.abs(slope))
        negative, positive = (sign[rows].reshape(-1, *[1] * (slope.ndim - 1)) for sign in self.signs)
        worth: np.ndarray = np.maximum(np.abs(slope) - price, 0.0) * np.where(slope > 0, positive, negative)
        return worth

    @cached_property
    def signs(self) -> tuple[np.ndarray, np.ndarray]:
        """Where entries may be negative, and where positive."""
        return admissible_signs(self.gamma, self.risk.n_features)

    def _prices(self, w: np.ndarray, c: np.ndarray, S: np.ndarray) -> tuple[Any, Any]:
        """What the sum of a budget and a unit of a cap are worth: their multipliers, read off the kept entries."""
        if (known := self.gamma.shadow_prices(w, c)) is not None:
            return known
        if isinstance(self.gamma, GroupWise) and not self.gamma.redefined:
            group, sets = self.gamma.group_of(np.arange(w.size)), self.gamma.sets
        else:
            group, sets = np.zeros(w.size, dtype=int), [self.gamma]
        active = S[w[S] != 0]
        level, count, total = (np.zeros(len(sets) + 1) for _ in range(3))
        np.maximum.at(level, group[active], np.abs(c[active]))
        np.add.at(count, group[active], 1.0)
        np.add.at(total, group[active], c[active])
        capped, exact = (
            np.array([isinstance(s, kind) and not s.redefined for s in sets] + [False])
            for kind in ((L1Ball, SubSimplex), Simplex)
        )
        # an exact budget has a multiplier of either sign, a cap a positive one
        shift, price = np.where(exact, total / np.maximum(count, 1.0), 0.0), np.where(capped, level, 0.0)
        return shift[group], price[group]
