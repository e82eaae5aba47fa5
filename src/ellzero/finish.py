"""After the support has settled: refit the values on it, then exchange coordinates as long as that helps."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._arrays import Array, index_like, like, scatter, to_host
from ._small_quadratic import minimise_quadratic
from .risks._linear import LinearModel
from .risks.base import Point, Risk
from .sets import ConstraintSet, EmptySlice, Everywhere, GroupWise, L1Ball, Simplex, SubSimplex
from .sets._signs import admissible_signs

_BATCH = 8  # exchanges tried in a round; places looked at where not all can be


@dataclass(frozen=True)
class Units:
    """Γ in units that make coordinates comparable: gamma = {u : scales∘u in Γ}."""

    scales: np.ndarray
    gamma: ConstraintSet


def refit(
    risk: Risk, gamma: ConstraintSet, support: np.ndarray, start: Array | None = None, units: Units | None = None
) -> Point:
    """argmin R(w) over w in Γ that are zero outside the support, for convex R: k unknowns.

    Newton steps on the restricted risk, each the solution of a quadratic problem over the slice of Γ, with a line
    search; for a quadratic risk the first step is the answer. Risks without known curvature take accelerated
    projected gradient steps.
    """
    part = risk.restrict(support)
    direct = None if units is not None or isinstance(gamma, Everywhere) else _at_once(part, gamma, support)
    if direct is not None:
        here = part.at(like(direct, part.zero))
    else:
        u = part.zero if start is None else like(to_host(start)[support], part.zero)
        here = part.at(u if isinstance(gamma, Everywhere) else gamma.project(u, support))
    if support.size and direct is None:
        with np.errstate(over="ignore", invalid="ignore"):
            model = part.curvature(here)
            if model is None or not model.exact:
                origin = part.at(part.zero if isinstance(gamma, Everywhere) else gamma.project(part.zero, support))
                # a step too far, where exp overflows, say; and gradient steps alone take long to come back from afar
                if not math.isfinite(here.value) or (model is None and origin.value < here.value):
                    here = origin
            if model is None:
                here = _accelerated(part, gamma, support, here)
            else:
                here = _newton(part, gamma, support, here, units)
    point = risk.at(scatter(here.w, index_like(support, here.w), risk.n_features), index_like(support, here.w))
    if type(part) is type(risk) and part.n_outputs == 1 and isinstance(part, LinearModel):
        point._state = here.state  # the same predictions, without another look at the data
    return point


def _at_once(part: Risk, gamma: ConstraintSet, support: np.ndarray) -> np.ndarray | None:
    """The answer for a quadratic risk, where Γ solves such problems itself; None otherwise."""
    if type(gamma).quadratic_minimum is ConstraintSet.quadratic_minimum or not support.size:
        return None
    origin = part.at(part.zero)
    model = part.curvature(origin)
    if model is None or not model.exact:
        return None
    return gamma.quadratic_minimum(
        model.block(np.arange(support.size)), -0.5 * to_host(origin.gradient).astype(float), support
    )


def _newton(part: Risk, gamma: ConstraintSet, support: np.ndarray, here: Point, units: Units | None) -> Point:
    for _ in range(300):  # Newton needs few, the majoriser of a robust loss more
        model = part.curvature(here)
        G = model.block(np.arange(support.size))
        values = to_host(here.w).astype(float)
        # where one step is enough it starts from the origin: the same answer to the last digit, whatever the start
        base = part.at(part.zero) if model.exact else here
        b = G @ to_host(base.w).astype(float) - 0.5 * to_host(base.gradient)
        if not (np.isfinite(G).all() and np.isfinite(b).all()):
            return _accelerated(part, gamma, support, here)
        if units is None:
            target = minimise_quadratic(G, b, gamma, support, values)
        else:
            s = units.scales[support]
            target = s * minimise_quadratic(s[:, None] * G * s, s * b, units.gamma, support, values / s)
        if model.exact:
            return part.at(like(target, here.w))
        move = target - values
        slope = float(to_host(here.gradient) @ move)
        size = 1.0
        while size > 1e-10:
            there = part.at(like(values + size * move, here.w))
            if there.value <= here.value + 1e-4 * size * min(slope, 0.0):
                break
            size *= 0.5
        else:
            return _accelerated(part, gamma, support, here) if slope > 0 else here
        gained = here.value - there.value
        here = there
        if gained <= 1e-13 * abs(here.value):
            break
    return here


def _accelerated(part: Risk, gamma: ConstraintSet, support: np.ndarray, here: Point) -> Point:
    """Projected gradient steps with a step size that adapts, for risks whose curvature is not known."""
    L = 1.0
    y, t = here, 1.0
    for _ in range(1000):
        L *= 0.7
        while True:
            v = y.w - y.gradient / L
            there = part.at(v if isinstance(gamma, Everywhere) else gamma.project(v, support))
            move = there.w - y.w
            allowed = y.value + float(y.gradient @ move) + 0.5 * L * float(move @ move)
            if there.value <= allowed + 1e-12 * abs(y.value) or L > 1e100:
                break
            L *= 2.0
        if not there.value <= here.value - 1e-14 * abs(here.value):
            if y is here:
                return here
            y, t = here, 1.0
            continue
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        ahead = there.w + (t - 1) / t_next * (there.w - here.w)
        if not isinstance(gamma, Everywhere):
            ahead = gamma.project(ahead, support)  # R may not be defined outside Γ
        y, here, t = part.at(ahead), there, t_next
        if not math.isfinite(y.value):
            y, t = here, 1.0
    return here


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
    try:
        return np.linalg.inv(G)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(G)


@dataclass
class SwapSearch:
    """Exchange one kept coordinate for one left out, until no exchange helps.

    Without Γ, for a quadratic R with half Hessian G, the change of R is known for all k(d-k) exchanges at once
    (C = G[:,S], H = inv(G_SS), c = -½∇R, B = CH, q_j = G_jj - Σ_l B_jl C_jl): removing i and adding j changes R by

        w_i²/H_ii - (c_j + B_ji w_i/H_ii)² / (q_j + B_ji²/H_ii).

    Otherwise the formula ranks the exchanges, and the best few of each round are tried by a refit.

    Attributes
    ----------
    deadline : float
        The reading of `time.perf_counter` after which no further round begins.
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
            best = min(point, refit(self.risk, self.gamma, start, point.w, self.units), key=lambda p: p.value)
        model = self.model or self.risk.curvature(best)
        if model is None or not self.risk.convex:
            return best
        self.model, spent = model if model.exact else None, model.spent
        diagonal = np.maximum(model.diagonal, 1e-300)
        for _ in range(self.max_rounds):
            improved = self._round(best, model, diagonal)
            if improved is None:
                break
            best, self.helped = improved, True
            if time.perf_counter() > self.deadline:
                self.cut = True
                break
            if not model.exact:
                self.n_products += model.spent - spent
                model = self.risk.curvature(best)
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
            return refit(self.risk, self.gamma, stay, point.w, self.units)
        except EmptySlice:
            return point

    def _round(self, point: Point, model: Any, diagonal: np.ndarray) -> Point | None:
        """The point after the exchanges of one round, or None if none of those tried helps."""
        w, c = to_host(point.w).astype(float), -0.5 * to_host(point.gradient).astype(float)
        self.n_products += 1
        S = np.union1d(np.flatnonzero(w), self.keep).astype(np.intp)
        gains = self._gains(w, c, S, model, diagonal)
        if gains is None:
            return None
        order, j_of, gain = gains
        scale = abs(point.value) + 1e-300
        worth = [(int(i), int(j_of[i])) for i in order if gain[i] > 1e-10 * scale]
        exact = model.exact and isinstance(self.gamma, Everywhere)
        best, used = point, set(S.tolist())
        tries = worth[: _BATCH * (1 if exact else self.patience)]
        for i, j in tries:
            out = int(S[i]) if i < S.size else None
            if j in used or (out is not None and out not in used):
                continue
            trial = np.array(sorted((used - {out}) | {j}), dtype=np.intp)
            try:
                candidate = refit(self.risk, self.gamma, trial, best.w, self.units)
            except EmptySlice:  # Γ has no member there, a group that must be used would be empty, say
                continue
            if candidate.value < best.value - 1e-12 * scale:
                best, used = candidate, set(trial.tolist())
        return None if best is point else best

    def _gains(
        self, w: np.ndarray, c: np.ndarray, S: np.ndarray, model: Any, diagonal: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """For every place in the support (and a free one, if there is): the best newcomer and its gain."""
        shift, price = self._prices(w, c, S)
        c = c - shift
        outside = np.ones(w.size, dtype=bool)
        outside[S] = False
        if not outside.any():
            return None
        j_of, gain, q = np.empty(0, np.intp), np.empty(0), diagonal
        worth = np.where(outside, self._worth(c, price), 0.0)
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
                rows = _contenders(worth, diagonal, q, float(loss.min()))
            j_of, gain = np.zeros(S.size, np.intp), np.full(S.size, -np.inf)
            for some in _chunks(rows, places.size):
                B = images[some] if C is None else C[some] @ H
                slope = c[some, None] + B * (w[S] / h)[places]
                room = diagonal[some, None]
                if whole:
                    room = np.maximum(q[some, None] + B**2 / h[places], 1e-9 * room)
                won = self._worth(slope, price[some, None], some) ** 2 / room
                best = won.argmax(axis=0)
                more = won[best, np.arange(places.size)] - loss[places]
                better = more > gain[places]
                gain[places[better]], j_of[places[better]] = more[better], some[best[better]]
        if S.size < self.k:
            won = np.where(outside, worth**2 / np.maximum(q, 1e-9 * diagonal), -np.inf)
            best = np.argsort(-won)[: self.k - S.size]
            j_of, gain = np.concatenate([j_of, best]), np.concatenate([gain, won[best]])
        return np.argsort(-gain), j_of, gain

    @staticmethod
    def _vulnerable(loss: np.ndarray, reach: float) -> np.ndarray:
        """Places that an exchange could pay for, where a look at all of them is too dear.

        With ω² the loss and c_j²/G_jj <= reach, (c_j + βω)² <= ω²(G_jj) for every β² <= G_jj once
        ω >= (1+√2)·sqrt(reach): beyond that an exchange cannot help unless the newcomer is nearly a
        combination of kept columns.
        """
        cheap = np.flatnonzero(loss < (1 + math.sqrt(2)) ** 2 * reach)
        return cheap[np.argsort(loss[cheap])][:_BATCH]

    def _worth(self, slope: np.ndarray, price: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """How much slope remains after the price of the constraint, in the directions that Γ allows."""
        if isinstance(self.gamma, Everywhere):
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
