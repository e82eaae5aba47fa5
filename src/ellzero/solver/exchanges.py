"""After the support has settled: refit the values on it, then exchange coordinates as long as that helps."""

from __future__ import annotations  # np.random is not loaded for a signature

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host, waits
from ..risks.base import Point
from ..sets import ConstraintSet, EmptySlice
from .problem import Problem
from .projections import proposed_support
from .refit import Units, refit

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


def _inside(C: Array, H: np.ndarray) -> np.ndarray:
    """Σ_lm C_jl H_lm C_jm for every row j of C: what of a column lies inside the span of the kept ones."""
    if waits(C):
        double = namespace(C).astype(C, namespace(C).float64)
        return to_host(namespace(C).sum((double @ like(H, double)) * double, axis=1))
    return np.concatenate([np.einsum("ij,ij->j", H @ part, part) for part in _chunks(C.T, len(H))])


class Exchange(NamedTuple):
    """A move from one choice to another: what leaves, what comes, and what it seems to gain.

    The rank is that among the moves for the same place.
    """

    out: tuple[int, ...]
    into: tuple[int, ...]
    rank: int
    gain: float


@dataclass
class _Books:
    """The terms of the formula at a point, see `SwapSearch`.

    Of the newcomers: the slope c without what the sum of a budget is worth, the price θ of a unit of a cap, the worth
    of the slope (0 for those inside), G_jj and q_j (G_jj where q is too dear). Of the places S: their values, C (None
    where it is too dear), H, its diagonal, and the loss that removing each costs.
    """

    c: np.ndarray
    price: Any
    worth: np.ndarray
    outside: np.ndarray
    diagonal: np.ndarray
    q: np.ndarray
    S: np.ndarray
    values: np.ndarray
    C: Array | None
    H: np.ndarray
    h: np.ndarray
    loss: np.ndarray


@dataclass
class SwapSearch:
    """Exchange one kept coordinate, or atom, for one left out, until no exchange helps.

    Without Γ, for a quadratic R with half Hessian G, the change of R is known for all k(d-k) exchanges at once
    (C = G[:,S], H = inv(G_SS), c = -½∇R, B = CH, q_j = G_jj - Σ_l B_jl C_jl): removing i and adding j changes R by

        w_i²/H_ii - (c_j + B_ji w_i/H_ii)² / (q_j + B_ji²/H_ii).

    Then at the end no exchange helps, provided that G[:,S] was affordable. Where X is too large for that, the cheapest
    places alone are looked at, and not those that only a newcomer could pay for which lies by more than half (of its
    square) in the span of the kept columns.

    With Γ, or for another R, the formula ranks the exchanges, and the best few of each round are tried by a refit: at
    the end none of these helps. So it is with atoms of several coordinates, whose worth is the sum of theirs.

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

    problem: Problem
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
        risk, sparsity, best = self.problem.risk, self.problem.sparsity, point
        if not point.refitted:
            best = min(point, self._refit(self.problem.support_of(point.w), point), key=lambda p: p.value)
        model = self.model or risk.curvature(best)
        if model is None or not risk.convex:
            return best
        self.model, spent = model if model.exact else None, model.spent
        self.thorough = self.thorough and sparsity.k * (sparsity.most(risk.n_features) - sparsity.k) <= _SMALL
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
                model = risk.curvature(best)
                assert model is not None  # as before
                spent = model.spent
        self.n_products += model.spent - spent
        return best

    def kicked(self, point: Point, rng: np.random.Generator) -> Point:
        """Another start: a third of the support, chosen at random, is given up; `improve` fills the places again."""
        problem, sparsity = self.problem, self.problem.sparsity
        support = np.flatnonzero(to_host(point.w))
        atoms = support if sparsity.atoms is None else sparsity.atoms[support]
        movable = np.setdiff1d(atoms, atoms[np.isin(support, problem.kept)])
        leave = rng.choice(movable, min(movable.size, max(1, movable.size // 3)), replace=False)
        leaving = np.isin(atoms, leave)
        stay = support[~leaving]
        if type(problem.gamma).sparse_support is not ConstraintSet.sparse_support:
            # Γ may have no member on so few places: others are put there at once, at random
            v = to_host(point.w).astype(float)
            size = float(np.abs(v).max(initial=0.0))
            v += rng.random() * size * rng.random(v.size)
            v[support[leaving]] = -size
            proposed = proposed_support(problem.gamma, sparsity, v, problem.kept)
            stay = stay if proposed is None else proposed
        try:
            return self._refit(stay, point)
        except EmptySlice:
            return point

    def _refit(self, support: np.ndarray, start: Point | None) -> Point:
        w = None if start is None else start.w
        return refit(self.problem.risk, self.problem.gamma, support, w, self.units, self.deadline)

    @np.errstate(over="ignore", invalid="ignore")
    def best_of_all(self, point: Point) -> Point:
        """The best point on any support, each tried by a refit: where there are but few."""
        best = point
        for support in self.problem.sparsity.supports(self.problem.risk.n_features, self.problem.kept):
            self.cut = time.perf_counter() > self.deadline
            if self.cut:
                break
            with suppress(EmptySlice):
                candidate = self._refit(support, None)
                best = candidate if candidate.value < best.value else best
        return best

    def _round(self, point: Point, model: Any, diagonal: np.ndarray) -> Point | None:
        """The point after the exchanges of one round, or None if none of those tried helps."""
        w, c = to_host(point.w).astype(float), -0.5 * to_host(point.gradient).astype(float)
        self.n_products += 1
        S = self.problem.support_of(w)
        if S.size == w.size:
            return None
        single = self.problem.sparsity.atoms is None
        exact = model.exact and self.problem.gamma.whole_space and single
        books, least = self._books(w, c, S, model, diagonal), 1e-10 * (abs(point.value) + 1e-300)
        ranked = self._single(books, model, exact, least) if single else self._whole_atoms(books, least)
        first = [move for move in ranked if move.rank == 0 and move.gain > least]
        best = self._try(first[: _BATCH * (1 if exact else self.patience)], point, S)
        if best is point and self.thorough:  # the formula may be wrong about these
            done = set(first)
            best = self._try([move for move in ranked if move not in done][:_BATCH], point, S)
        return None if best is point else best

    def _try(self, moves: list[Exchange], point: Point, S: np.ndarray) -> Point:
        """The point after those of the exchanges that help."""
        best, used = point, set(S.tolist())
        for move in moves:
            if not used.isdisjoint(move.into) or not used.issuperset(move.out):
                continue
            if time.perf_counter() > self.deadline:
                break
            trial = np.array(sorted(used.difference(move.out).union(move.into)), dtype=np.intp)
            if not self.problem.sparsity.admits(trial):  # after one that helped
                continue
            try:
                candidate = self._refit(trial, best)
            except EmptySlice:  # Γ has no member there, a group that must be used would be empty, say
                continue
            if candidate.value < best.value - 1e-12 * abs(point.value):
                best, used = candidate, set(trial.tolist())
        return best

    def _books(self, w: np.ndarray, c: np.ndarray, S: np.ndarray, model: Any, diagonal: np.ndarray) -> _Books:
        shift, price = self.problem.gamma.shadow_prices(w, c)
        c, price = c - shift, np.broadcast_to(price, w.shape)
        outside = np.ones(w.size, dtype=bool)
        outside[S] = False
        worth = np.where(outside, self._worth(c, price), 0.0)
        C = model.columns(S) if S.size and model.affords(S.size) else None
        H = _inverse(model.block(S) if C is None or waits(C) else C[S]) if S.size else np.empty((0, 0))
        h = np.maximum(np.diagonal(H), 1e-300)
        loss = w[S] ** 2 / h
        loss[np.isin(S, self.problem.kept)] = np.inf
        q = diagonal
        if C is not None:
            q = np.maximum(diagonal - _inside(C, H), 0.0)
        return _Books(c, price, worth, outside, diagonal, q, S, w[S], C, H, h, loss)

    def _single(self, books: _Books, model: Any, exact: bool, least: float) -> list[Exchange]:
        """Exchanges of one coordinate for another, by their gain, and newcomers for places that are free.

        Where the formula is the truth, the best newcomer of each place, if it gains more than `least`; elsewhere its
        best few, and also those that seem a little too dear.
        """
        rivals, doubt = (_RIVALS, _DOUBT) if self.thorough and not exact else (1, 0.0)
        S, free = books.S, self.problem.sparsity.k - books.S.size
        found = list(self._swaps(books, model, rivals, doubt, least)) if S.size else []
        if free > 0:
            room = np.maximum(books.q, 1e-9 * books.diagonal)
            won = np.where(books.outside, books.worth**2 / room, -np.inf)
            allowed = self.problem.sparsity.exchangeable(S, np.arange(won.size))
            if allowed is not None:
                won[~allowed[:, -1]] = -np.inf
            best = np.argsort(-won)[:free]
            best = best[won[best] > least]
            found.append((S.size + np.arange(best.size), best, won[best]))
        if not found:
            return []
        place, newcomer, gain = (np.concatenate(parts) for parts in zip(*found, strict=True))
        seen, ranked = dict.fromkeys(place.tolist(), -1), []
        for at in np.argsort(-gain, kind="stable").tolist():
            i = int(place[at])
            seen[i] += 1
            if seen[i] < rivals:
                out = (int(S[i]),) if i < S.size else ()
                ranked.append(Exchange(out, (int(newcomer[at]),), seen[i], float(gain[at])))
        return ranked

    def _swaps(
        self, books: _Books, model: Any, rivals: int, doubt: float, least: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Places of the support, the best newcomers for them that pay, or nearly, and their gains."""
        S, C, H, h, loss = books.S, books.C, books.H, books.h, books.loss
        if C is None:
            places = self._vulnerable(loss, np.max(books.worth**2 / books.diagonal))
            rows = np.flatnonzero(books.outside)
            images = to_host(model.images(S, H[:, places])) if places.size else np.empty((rows.size + S.size, 0))
        else:
            places = np.arange(S.size)
            rows = _contenders(books.worth, books.diagonal, books.q, (1 - doubt) * float(loss.min()))
        columns = np.arange(places.size)
        for some in _chunks(rows, places.size):
            B = images[some] if C is None else to_host(C[index_like(some, C)]) @ H
            slope = books.c[some, None] + B * (books.values / h)[places]
            room = books.diagonal[some, None]
            if C is not None:
                room = np.maximum(books.q[some, None] + B**2 / h[places], 1e-9 * room)
            won = self._worth(slope, books.price[some, None], some) ** 2 / room
            allowed = self.problem.sparsity.exchangeable(S, some)
            if allowed is not None:
                won[~allowed[:, places]] = -np.inf
            for _ in range(min(rivals, some.size)):
                best = won.argmax(axis=0)
                value = won[best, columns]
                good = value > (1 - doubt) * loss[places] + least
                yield places[good], some[best[good]], (value - loss[places])[good]
                won[best, columns] = -np.inf

    def _whole_atoms(self, books: _Books, least: float) -> list[Exchange]:
        """Exchanges of one atom for another by their gain: the formula, as if the newcomer's columns were orthogonal.

        With M = inv(H_AA), removing A costs w_AᵀMw_A, and j then gains (c_j + B_jA M w_A)² / (q_j + B_jA M B_Aj).
        """
        sparsity, S = self.problem.sparsity, books.S
        atoms = sparsity.atoms
        assert atoms is not None
        newcomers, B = (
            np.setdiff1d(atoms, atoms[S]),
            np.zeros((1, S.size)) if books.C is None else to_host(books.C) @ books.H,
        )
        moves: list[Exchange] = []
        places = [np.flatnonzero(atoms[S] == atom) for atom in np.setdiff1d(atoms[S], atoms[self.problem.kept])]
        for P in places if sparsity.size(S) == sparsity.k else [*places, np.empty(0, dtype=np.intp)]:
            M, B_P = np.linalg.pinv(books.H[np.ix_(P, P)]), B[:, P]
            cost, slope = books.values[P] @ M @ books.values[P], books.c + B_P @ (M @ books.values[P])
            room = np.maximum(books.q + np.sum(B_P @ M * B_P, axis=-1), 1e-9 * books.diagonal)
            won = sparsity.sums(books.outside * self._worth(slope, books.price) ** 2 / room)[newcomers]
            for j in np.argsort(-won)[:_BATCH].tolist():
                into = np.flatnonzero(atoms == newcomers[j])
                if won[j] > (1 - _DOUBT * self.thorough) * cost + least and sparsity.admits(
                    np.union1d(np.delete(S, P), into)
                ):
                    moves.append(Exchange(tuple(S[P].tolist()), tuple(into.tolist()), 0, float(won[j] - cost)))
        return sorted(moves, key=lambda move: -move.gain)

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
        if self.problem.gamma.whole_space:
            return np.asarray(np.abs(slope))
        negative, positive = (sign[rows].reshape(-1, *[1] * (slope.ndim - 1)) for sign in self.signs)
        worth: np.ndarray = np.maximum(np.abs(slope) - price, 0.0) * np.where(slope > 0, positive, negative)
        return worth

    @cached_property
    def signs(self) -> tuple[np.ndarray, np.ndarray]:
        """Where entries may be negative, and where positive."""
        return self.problem.gamma.signs(self.problem.risk.n_features)
