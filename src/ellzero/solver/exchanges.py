"""After the support has settled: refit the values on it, then exchange coordinates as long as that helps."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._core.arrays import to_host, waits
from ..risks.base import Point
from ..sets import EmptySlice
from .atom_moves import AtomMoves, Kind, kinds_of, layout
from .many_moves import ManyMoves
from .moves import Books, Exchange, inverse_where
from .pair_moves import NEWCOMERS, PairMoves
from .problem import Problem
from .products import Products
from .refit import Units, refit
from .row_moves import row_exchanges
from .single_moves import BATCH, DOUBT, SingleMoves, inside
from .tabled import SMALL, Tabled, TableSearch, worthy

_AS_PROMISED = 0.9  # of their gains that exchanges have to bring together, or they are made one by one


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
    the end none of these helps. So it is with atoms of several coordinates, whose worth is the sum of theirs. Without Γ
    the formula is exact for these, too; of large data it is known in single precision (`Span`), and what it finds is
    settled by refits in double: an exchange that gains less than about a millionth of a place may be overlooked. Where
    refits are dear, many exchanges are made between two of them, on a table of the curvature (`Tabled`).

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
    contested : float
        The share of the places that a newcomer would take for one and a half times what it brings, at the end.
    model : curvature
        That of R where it is the same everywhere, with all that was gathered of it.
    products : Products, optional
        What refits and slopes follow from where R is quadratic, atoms are exchanged, and there is no Γ.
    apart : bool
        Whether exchanges that were made together have gained what they would one by one.
    """

    problem: Problem
    units: Units | None = None
    deadline: float = math.inf
    thorough: bool = True
    certain: bool = True
    max_rounds: int = 200
    patience: int = 4
    n_products: int = 0
    cut: bool = False
    helped: bool = False
    contested: float = 1.0
    model: Any = None
    products: Products | None = None
    apart: bool = True
    _known: list[Kind] | None = None
    _ends: set[bytes] = field(default_factory=set)

    @np.errstate(over="ignore", invalid="ignore")
    def improve(self, point: Point) -> Point:
        """The point after all exchanges that helped; never a worse one."""
        risk, sparsity, best = self.problem.risk, self.problem.sparsity, point
        model = self.model
        if self.products is not None and model is None:  # those of another damping
            model = risk.curvature(point)
            assert model is not None  # it is made of one that is known
            self.products = self.products.with_model(model)
        if not point.refitted:
            best = min(point, self.refit(self.problem.support_of(point.nonzeros), point), key=lambda p: p.value)
        model = model or risk.curvature(best)
        if model is None or not risk.convex:
            return best
        if self.products is None:
            self.products = Products.of(self.problem, model, best)
        self.model, spent = model if model.exact else None, model.spent
        self.thorough = self.thorough and sparsity.k * (sparsity.most(risk.n_features) - sparsity.k) <= SMALL
        if Tabled.fit(self.problem, model):
            tables = TableSearch(self.problem, self.units, self.deadline, self.max_rounds)
            best, model = tables.improve(best, model)
            self.n_products += tables.n_products
            self.cut, self.helped = self.cut or tables.cut, self.helped or tables.helped
            spent = model.spent
            if not self.thorough or self.cut:
                return best
        diagonal, fresh = worthy(model.diagonal), True
        for _ in range(self.max_rounds):
            self.cut = time.perf_counter() > self.deadline
            improved = None if self.cut or self._has_ended(best) else self._round(best, model, diagonal)
            if improved is None and not (fresh or self.cut):  # q was that of another point
                diagonal, fresh = worthy(model.diagonal), True
                continue
            if improved is None:
                if self.products is not None:
                    self._ends.add(best.nonzeros.tobytes())
                break
            best.let_go()
            best, self.helped, fresh = improved, True, model.exact or not risk.looks_twice
            if not model.exact:
                self.n_products += model.spent - spent
                model = risk.curvature(best)
                assert model is not None  # as before
                spent = model.spent
        self.n_products += model.spent - spent
        if self.products is not None and self.certain and best is not point:
            best = min(
                point, self._refit_from_data(self.problem.support_of(best.nonzeros), best), key=lambda p: p.value
            )
        return best

    def _has_ended(self, point: Point) -> bool:
        """Whether exchanges of atoms have ended on this support before: they would do so again."""
        return bool(self._ends) and point.nonzeros.tobytes() in self._ends

    def refit(self, support: np.ndarray, start: Point | None, interest: float | None = None) -> Point:
        """The best point of a support; what stays above the value of interest, that of the start, may end early."""
        if self.products is not None and start is not None:
            point = self.products.refit(self.problem.risk, support)
            if point is not None:
                return point
        return self._refit_from_data(support, start, interest)

    def _refit_from_data(self, support: np.ndarray, start: Point | None, interest: float | None = None) -> Point:
        """The same from the data."""
        value = interest if interest is not None else math.inf if start is None else start.value
        first = None if start is None else start.at(support)
        return refit(self.problem.risk, self.problem.gamma, support, first, self.units, self.deadline, value)

    def _round(self, point: Point, model: Any, diagonal: np.ndarray) -> Point | None:
        """The point after the exchanges of one round, or None if none of those tried helps."""
        w = to_host(point.w).astype(float, copy=False)
        S = self.problem.support_of(point.nonzeros)
        c = None if self.products is None else self.products.slopes(point, S)
        if c is None:
            c = -0.5 * to_host(point.gradient).astype(float, copy=False)
            self.n_products += 1
            if not (self.certain or self.problem.risk.looks_twice):
                point.let_go()  # nobody asks for it once more
        if S.size == w.size or self.problem.sparsity.k == 0:
            return None
        single = self.problem.sparsity.atoms is None
        exact = model.exact and self.problem.gamma.whole_space
        least = 1e-10 * (abs(point.value) + 1e-300)
        rows = row_exchanges(self.problem, model, w, c, diagonal, least)
        if rows is not None:
            best = self._try(rows[:BATCH], point, S)
            return None if best is point else best
        if ManyMoves.fit(self.problem, model, S.size):
            many = ManyMoves(self.problem, model, S, w, c, diagonal, self._worth, self.deadline)
            return self._first_better(many.supports(self.certain, least), point)
        books = self._books(w, c, S, model, diagonal)
        moves = AtomMoves(self.problem, books, exact, self.certain, self._worth)
        if single:
            ranked = SingleMoves(self.problem, books, model, exact, self.thorough, self._worth).ranked(least)
        else:
            doubt = 0.0 if exact or not self.thorough else DOUBT
            ranked = moves.ranked(partial(self._kinds, model), 1 if exact else BATCH, doubt, least)
        first = [move for move in ranked if move.rank == 0 and move.gain > least]
        if single and not self.thorough and (found := self._all_at_once(ranked, least, point, S)) is not None:
            return found
        best = self._try(first[: BATCH * (1 if exact else self.patience)], point, S)
        if best is point and self.thorough:  # the formula may be wrong about these
            done = set(first)
            best = self._try([move for move in ranked if move not in done][:BATCH], point, S)
        if best is point and self.certain and not (self.cut or self.problem.sparsity.plain):
            if single:
                moves.ranked(partial(self._kinds, model), 1, 0.0, math.inf)
            pairs = PairMoves(
                self.problem, books, model, self._worth, *moves.nearest(NEWCOMERS // (1 if single else 2))
            )
            self.contested = pairs.contested if exact else 1.0
            best = self._try(pairs.ranked(0.0 if exact else DOUBT, least)[:BATCH], point, S)
        return None if best is point else best

    def _first_better(self, supports: Iterator[np.ndarray], point: Point) -> Point | None:
        """The first of the supports on which R is lower; None if there is none, or no time to look."""
        for support in supports:
            if time.perf_counter() > self.deadline:
                break
            candidate = self.refit(support, point)
            if candidate.value < point.value - 1e-12 * abs(point.value):
                return candidate
        self.cut = time.perf_counter() > self.deadline
        return None

    def _all_at_once(self, moves: list[Exchange], least: float, point: Point, S: np.ndarray) -> Point | None:
        """The point after the best exchanges for different places, by one refit; None where they are in conflict.

        Every place may name the same newcomer as its best one, although the next ones help as well.
        """
        if not self.apart:
            return None
        chosen, gone, come = list[Exchange](), set[int](), set[int]()
        for move in moves:
            if move.gain > least and gone.isdisjoint(move.out) and come.isdisjoint(move.into) and len(chosen) < BATCH:
                chosen.append(move)
                gone.update(move.out)
                come.update(move.into)
        trial = np.array(sorted(set(S.tolist()).difference(gone).union(come)), dtype=np.intp)
        if len(chosen) < 2 or not (trial.size <= self.problem.sparsity.k and self.problem.sparsity.admits(trial)):
            return None
        try:
            found = self.refit(trial, point)
        except EmptySlice:
            return None
        self.apart = point.value - found.value >= _AS_PROMISED * sum(move.gain for move in chosen)
        return found if self.apart else None

    def _try(self, moves: list[Exchange], point: Point, S: np.ndarray) -> Point:
        """The point after those of the exchanges that help."""
        best, used = point, set(S.tolist())
        self.problem.risk.expect(np.array([j for move in moves for j in move.into], dtype=np.intp))
        if self.products is not None:
            self.products.expect(S, [move.into for move in moves])
        for move in moves:
            if not used.isdisjoint(move.into) or not used.issuperset(move.out):
                continue
            if time.perf_counter() > self.deadline:
                break
            trial = np.array(sorted(used.difference(move.out).union(move.into)), dtype=np.intp)
            if not self.problem.sparsity.admits(trial):  # after one that helped
                continue
            try:
                candidate = self.refit(trial, best)
            except EmptySlice:  # Γ has no member there, a group that must be used would be empty, say
                continue
            if candidate.value < best.value - 1e-12 * abs(point.value):
                best, used = candidate, set(trial.tolist())
        self.cut = self.cut or time.perf_counter() > self.deadline  # what was not tried, or not to its end, may help
        return best

    def _books(self, w: np.ndarray, c: np.ndarray, S: np.ndarray, model: Any, diagonal: np.ndarray) -> Books:
        shift, price = self.problem.gamma.shadow_prices(w, c)
        c, price = c - shift if np.any(shift) else c, np.broadcast_to(price, w.shape)
        outside = np.ones(w.size, dtype=bool)
        outside[S] = False
        worth = self._worth(c, price)
        worth[S] = 0.0
        kept = None if self.products is None else self.products.kept(S)
        C, alone = model.beside(S) if S.size and kept is None and model.affords(S.size) else (None, 0.0)
        if C is not None and not (self.problem.sparsity.plain or waits(C)):
            C = to_host(C)
        live = np.ones(S.size, dtype=bool) if self.problem.sparsity.atoms is None else diagonal[S] < 1e300
        if kept is not None or not S.size:
            G = model.remembered(S) if S.size else np.empty((0, 0))
        elif C is None or waits(C):
            G = model.block(S)
        else:
            G = C[S]
            G[np.diag_indices_from(G)] += alone
        H = inverse_where(G, live) if S.size else G
        h = np.maximum(np.diagonal(H), 1e-300)
        loss = w[S] ** 2 / h
        loss[np.isin(S, self.problem.kept)] = np.inf
        q = diagonal
        if C is not None and self.problem.sparsity.atoms is None:
            q = np.maximum(diagonal - inside(C, H), 0.0)
        return Books(c, price, worth, outside, diagonal, q, S, w[S], C, H, h, loss, partial(model.images, S), kept)

    @cached_property
    def _layout(self) -> list[tuple[np.ndarray, np.ndarray]]:
        atoms = self.problem.sparsity.atoms
        return layout(np.arange(self.problem.risk.n_features) if atoms is None else atoms)

    def _kinds(self, model: Any, chosen: np.ndarray | None) -> list[Kind]:
        """Atoms with what the curvature knows of them: those of these names, or all, kept if R is quadratic."""
        if chosen is None and self._known is not None:
            return self._known
        parts = self._layout
        if chosen is not None:
            parts = [(names[mine], index[mine]) for names, index in parts if (mine := np.isin(names, chosen)).any()]
        kinds = kinds_of(parts, model)
        self._known = kinds if chosen is None and model.exact else None
        return kinds

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
