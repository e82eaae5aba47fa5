"""Which single exchanges cannot better an answer, and how that is known: by formula, by a bound, or by a refit.

For a quadratic R with half Hessian G, on a support S on which x is the best, let C = G[:,S], H = inv(G_SS), B = CH and
q_j = G_jj - Σ_l B_jl C_jl. Dropping i and taking j, with the other values refitted, changes R by

    x_i²/H_ii - (c_j + T_ji)²/(q_j + B_ji²/H_ii),     c = -½∇R(x), T_ji = B_ji x_i/H_ii.

Under Γ any multipliers give a bound from below of R on its members (`ConstraintSet.multipliers`): slopes of its own for
the way up and the way down, and curvature, which joins G. With those of x, slopes on S vanish but where a bound holds a
coordinate; so the same formula holds for what R loses at the most, a newcomer going its one way or the other, and a
coordinate that is held costs its slope beside. Where slopes r on S do not vanish, as x or the multipliers are not the
best, the formula is that of x - ½Hr, where R is lower by ¼rᵀHr, and slopes of others are other ones by no more than
sqrt(G_jj rᵀHr). For another R, strong convexity alone makes a bound: with H = 1/ν and
B = 0 it is gain_j - cost_i of `minorant`. What no bound rules out is tried by a refit, the most promising first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .._core.arrays import finfo_eps, to_host
from .._core.linear_systems import independent
from ..risks.accuracy import EPS
from ..risks.base import Point
from ..sets import EmptySlice
from ..sets.multipliers import Multipliers
from .minorant import Minorant
from .moves import inverse
from .problem import Problem
from .single_moves import contenders

_REFITS, _FEW = 64, 8  # exchanges that are tried where no bound rules them out, if no more are left; Newton's are dear
_LARGEST = 2e10  # multiplications: as many as a few rounds of a search take
_BLOCK, _PARTS = 2**19, 4  # pairs that are looked at together, and parts of these for all that follows
_ROUNDING = 16  # units of the precision that a slope may be off by, beside the length of its column and √R
_LEAST = 1e-10  # of R: what an exchange has to gain


@dataclass(frozen=True)
class Examined:
    """How many of the exchanges of one coordinate for another, and of additions where there is room, were ruled out.

    Attributes
    ----------
    total : int
        How many there are.
    by_formula, by_bound, by_refit : int
        How many gain nothing, because their gain is known, or bounded, or because it was tried.
    gain : float
        None of these lowers R by more than this: rounding is left open.
    support : tuple of int
        The coordinates that would be given up.
    """

    total: int
    by_formula: int = 0
    by_bound: int = 0
    by_refit: int = 0
    gain: float = 0.0
    support: tuple[int, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> Literal["all", "some", "none"]:
        """How many were ruled out."""
        ruled_out = self.by_formula + self.by_bound + self.by_refit
        return "all" if ruled_out == self.total else "some" if ruled_out else "none"

    @property
    def words(self) -> str:
        """The same with numbers."""
        ways = {"by formula": self.by_formula, "by bound": self.by_bound, "by refit": self.by_refit}
        told = ", ".join(f"{number} {how}" for how, number in ways.items() if number)
        return f"{self.verdict} of {self.total} ruled out" + (f": {told}" if told else "")


@dataclass
class _Exchanges:
    """The exchanges of a support: each of those outside for each that may leave, or for nobody where there is room."""

    problem: Problem
    x: np.ndarray

    def __post_init__(self) -> None:
        sparsity, self.S = self.problem.sparsity, self.problem.support_of(np.flatnonzero(self.x))
        outside = np.ones(self.x.size, dtype=bool)
        outside[self.S] = False
        self.outside = np.flatnonzero(outside)
        self.places = np.flatnonzero(~np.isin(self.S, self.problem.kept))
        self.has_room = sparsity.k > sparsity.size(self.S)
        self.total = sum(self.count(rows) for rows in self.blocks())

    def blocks(self) -> Iterator[slice]:
        """Of those outside, so many that their pairs are looked at together."""
        step = max(1, _BLOCK // (self.places.size + 1))
        return (slice(start, start + step) for start in range(0, self.outside.size, step))

    def forbid(self, rows: slice, gains: np.ndarray) -> np.ndarray:
        """The gains of newcomers (rows) for places (columns, the last a free one), -inf where they must not come."""
        if not self.has_room:
            gains[:, -1] = -math.inf
        found = self.problem.sparsity.exchangeable(self.S, self.outside[rows])
        if found is not None:
            gains[~found[:, [*self.places, -1]]] = -math.inf
        return gains

    def count(self, rows: slice) -> int:
        """How many exchanges are allowed."""
        n, width = self.outside[rows].size, self.places.size + 1
        if self.problem.sparsity.quotas is None:
            return n * (width - (not self.has_room))
        return int(np.count_nonzero(self.forbid(rows, np.zeros((n, width))) == 0))

    def support_after(self, newcomer: int, place: int) -> np.ndarray:
        """The support with a newcomer in a place."""
        stay = self.S if place == self.places.size else np.delete(self.S, self.places[place])
        return np.sort(np.append(stay, newcomer))


def examine(
    problem: Problem, point: Point, model: Any, refit: Callable[[np.ndarray], Point], deadline: float = math.inf
) -> tuple[Examined, Point]:
    """What is known of the exchanges of a point, and a better point where one of those that were tried is.

    A gradient at the point, one column of the Hessian (of `model`) for each nonzero, and refits of what no bound rules
    out, if that is little.
    """
    pairs = _Exchanges(problem, to_host(point.w).astype(float, copy=False))
    quadratic = model is not None and model.exact
    least, ruled_out, most = _LEAST * abs(point.value), 0, _REFITS if quadratic else _FEW
    left = [np.empty((0, 3))]
    for rows, gains in _bounds(pairs, point, model):
        j, i = np.nonzero(~(pairs.forbid(rows, gains) <= least))
        ruled_out += pairs.count(rows) - j.size
        found = np.column_stack([gains[j, i], pairs.outside[rows][j], i])
        left.append(found[: most + 1])
    rest = np.concatenate(left)
    best, tried = point, 0
    for gain, newcomer, place in rest[np.argsort(-rest[:, 0])].tolist() if len(rest) <= most else ():
        if time.perf_counter() > deadline:
            break
        support = pairs.support_after(int(newcomer), int(place))
        try:
            value = (candidate := refit(support)).value
        except EmptySlice:  # there is nothing to gain where Γ has no member
            value, candidate = math.inf, point
        best = candidate if value < min(best.value, point.value - least) else best
        settled = value >= point.value - least and gain < math.inf
        tried += settled and (value == math.inf or _is_accurate(problem, model, support, candidate, least))
    formula = problem.gamma.whole_space and quadratic
    counts = {"by_formula" if formula else "by_bound": ruled_out, "by_refit": tried}
    return Examined(pairs.total, gain=least, support=tuple(pairs.S.tolist()), **counts), best


def _is_accurate(problem: Problem, model: Any, support: np.ndarray, found: Point, least: float) -> bool:
    """Whether a refit is as good as it should be: on columns that nearly depend on each other most err under Γ.

    Nor is it where entries of R's precision are too coarse: each changes Xw by its rounding times its column.
    """
    if model is None or not model.affords(support.size):
        return True
    if model.exact:
        size = np.sqrt(np.maximum(model.diagonal[support], 0.0))
        rounding = finfo_eps(found.w) * float(size @ np.abs(to_host(found.w).astype(float)[support]))
        if rounding**2 > least:
            return False
        if problem.gamma.separable and finfo_eps(found.w) == EPS:
            return True
    return independent(model.block(support), np.arange(support.size))


def all_tried(problem: Problem, point: Point) -> Examined:
    """Where every support was tried, of coordinates or of larger atoms."""
    sparsity, x = problem.sparsity, to_host(point.w).astype(float)
    S = problem.support_of(np.flatnonzero(x))
    if sparsity.atoms is None:
        total = _Exchanges(problem, x).total
    else:
        used, kept = sparsity.size(S), sparsity.size(problem.kept)
        total = (sparsity.atoms_of(np.arange(x.size)).size - used) * (used - kept + (sparsity.k > used))
    return Examined(total, by_refit=total, support=tuple(S.tolist()))


def none_can_gain(problem: Problem, point: Point) -> Examined:
    """Where R is next to its lower bound: no exchange gains more than what is left."""
    pairs = _Exchanges(problem, to_host(point.w).astype(float))
    return Examined(
        pairs.total,
        by_bound=pairs.total,
        gain=point.value - problem.risk.lower_bound,
        support=tuple(pairs.S.tolist()),
    )


def _bounds(pairs: _Exchanges, point: Point, model: Any) -> Iterator[tuple[slice, np.ndarray]]:
    """For some of those outside at a time, what each gains at the most in each place; nothing where that is unknown."""
    gamma, x, S = pairs.problem.gamma, pairs.x, pairs.S
    quadratic, nu = model is not None and model.exact, pairs.problem.risk.known_convexity
    if not (model.affords(S.size) and x.size * (S.size + 1.0) ** 2 <= _LARGEST if quadratic else nu is not None):
        return
    g = to_host(point.gradient).astype(float, copy=False)
    slopes = gamma.multipliers(x, g) if np.isfinite(g).all() else None
    if slopes is None:
        return
    limits = gamma.limits(x.size)
    if quadratic:
        rounding = _ROUNDING * finfo_eps(point.gradient) * math.sqrt(abs(point.value))
        yield from _of_quadratic(pairs, slopes, limits, model, _LEAST * abs(point.value), rounding)
    elif nu is not None:
        gain, cost = Minorant(x, slopes, np.zeros(x.size), limits).gains_and_costs(nu.value)
        leaving = S[pairs.places]
        held = float(gain[S].sum()) + max(slopes.offset, 0.0)  # what x leaves on its own support
        loss = np.append(cost[leaving] + gain[leaving], 0.0) - held
        for rows in pairs.blocks():
            yield rows, gain[pairs.outside[rows], None] - loss


def _of_quadratic(
    pairs: _Exchanges,
    slopes: Multipliers,
    limits: tuple[np.ndarray, np.ndarray],
    model: Any,
    least: float,
    rounding: float,
) -> Iterator[tuple[slice, np.ndarray]]:
    """The formula of this module; nothing where G_SS is not to be inverted."""
    x, S, places = pairs.x, pairs.S, pairs.places
    half, (lower, upper) = 0.5 * slopes.curvature, limits
    C = None if model.remembers(S.size) else _columns(model, S, x.size)  # many are computed as they are needed
    if C is None:
        model.let_go()
    G = model.block(S) if C is None else C[S]
    G[np.diag_indices_from(G)] += half[S]
    H = inverse(G)
    del G  # k² numbers that nobody needs any more
    linear = _linear_part(x[S], slopes.up[S], slopes.down[S], lower[S], upper[S])
    if linear is None or not (np.isfinite(H).all() and (np.diagonal(H) > 0).all()):
        return
    h, diagonal = np.diagonal(H), model.diagonal + half
    sizes, doubt = np.sqrt(np.maximum(diagonal, 0.0)), 16 * (S.size + 8) * EPS
    lost = doubt * (1.0 + _scaled_norm(H, sizes[S]))  # of a column, what others leave of it is known up to this share
    left = np.maximum(1 / h - lost * diagonal[S], 0.0)
    way = -0.5 * H @ linear  # to where the slopes on S vanish
    fallen = max(-0.5 * float(linear @ way), 0.0)  # and R falls by this
    u = x[S] + way
    back = np.where(x[S] > 0, slopes.down[S] + linear, slopes.up[S] - linear)
    outside, settled, values = pairs.outside, max(slopes.offset, 0.0) + fallen, u**2 * left
    loss = np.append((values + np.maximum(back, 0.0) * np.abs(x[S]))[places], 0.0) - settled
    # what the slopes may be off by, in their precision, and what the way to u may add to them
    more = sizes[outside] * (doubt * float(sizes[S] @ np.abs(u)) + rounding + math.sqrt(fallen))
    rise, fall = (more - 0.5 * slope[outside] for slope in (slopes.up, slopes.down))
    # where its slope leads nowhere, R rises with a newcomer whoever leaves; and see `contenders`
    worth = np.maximum(np.where(upper[outside] > 0, rise, 0.0), np.where(lower[outside] < 0, fall, 0.0))
    every, cheapest = settled > least, 0.0 if pairs.has_room else float(values[places].min(initial=math.inf))
    worth, cheapest = np.nan_to_num(worth, nan=math.inf), cheapest if math.isfinite(cheapest) else 0.0
    wanted = every | (worth > 0)
    for rows, those, near in _cut(pairs, wanted, lambda some: model.cross(some, S) if C is None else C[some]):
        gains = np.full((outside[rows].size, places.size + 1), settled)
        B, size = near @ H, diagonal[outside[those]]
        q = np.fmax(size * (1 - lost) - np.einsum("ij,ij->i", B, near), 0.0)  # nothing is known where it overflows
        able = np.arange(q.size) if every else contenders(worth[those], size, q, cheapest)
        those, B, q = those[able], B[able][:, places], q[able, None]
        some = outside[those]
        with np.errstate(divide="ignore", invalid="ignore"):
            unsure = np.nan_to_num(lost * sizes[some, None] / sizes[S], posinf=math.inf)[:, places]
        shift = np.hstack([B * (u / h)[places], 0 * q])
        room = np.hstack([q + np.maximum(np.abs(B) - unsure, 0.0) ** 2 * left[places], q])
        won = _most(rise[those, None] + shift, room, upper[some, None])
        gains[those - rows.start] = np.maximum(won, _most(fall[those, None] - shift, room, -lower[some, None])) - loss
        yield rows, gains


def _linear_part(
    x: np.ndarray, up: np.ndarray, down: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray | None:
    """The flattest lines below the slopes at x, for what may go up and down; None where there are none."""
    most, least = np.where(x < upper, up, math.inf), -np.where(x > lower, down, math.inf)
    # of an entry inside the two ends are the same number, up to rounding
    return None if (least > most + 1e-9 * np.abs(most)).any() else np.clip(0.0, least, np.maximum(least, most))


def _cut(
    pairs: _Exchanges, wanted: np.ndarray, rows_of: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Rows of a matrix for those outside that are wanted: computed for many at a time, and handed out for few."""
    for rows in pairs.blocks():
        those = rows.start + np.flatnonzero(wanted[rows])
        found, step = rows_of(pairs.outside[those]), max(1, (rows.stop - rows.start) // _PARTS)
        for start in range(rows.start, min(rows.stop, wanted.size), step):
            stop = min(start + step, rows.stop, wanted.size)
            first, last = np.searchsorted(those, [start, stop])
            yield slice(start, stop), those[first:last], found[first:last]


def _columns(model: Any, S: np.ndarray, size: int) -> np.ndarray:
    """G[:, S]."""
    return np.asarray(to_host(model.columns(S)), dtype=float) if S.size else np.empty((size, 0))


def _scaled_norm(H: np.ndarray, sizes: np.ndarray) -> float:
    """A norm of H in units in which the matrix that it inverts has the diagonal 1: how many digits it has lost."""
    return float(np.abs(H * sizes * sizes[:, None]).sum(axis=1).max(initial=0.0))


def _most(worth: np.ndarray, room: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """max 2·worth·t - room·t² over 0 <= t <= limit; infinite where nothing stops it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.minimum(np.maximum(worth, 0.0) / room, np.maximum(limit, 0.0))
        most = np.where(np.isinf(t), math.inf, t * (2 * worth - room * t))
        return np.where((worth > 0) & (limit > 0), most, 0.0)
