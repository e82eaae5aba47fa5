"""The best values on a support: R minimised over a slice of Γ."""

import math
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._core.arrays import Array, finfo_eps, index_like, like, norm, scatter, to_host
from .._core.linear_systems import independent, refined, solve
from ..risks.base import Point, Risk
from ..risks.curvature import Curvature
from ..risks.known import KnownProducts
from ..sets import ConstraintSet, EmptySlice
from ..sets.polyhedron import Polyhedron
from .newton import accelerated, newton

_DUST = 1e-12  # of the largest entry, and of what is most seen of one
_GAINED = 1e-10  # of R: what a further look at the columns has to be worth
_QUICK = 200  # entries whose quadratic problems are solved before anybody looks at a clock
LEAST = 0.01  # of R(0): below it digits of R are lost in R(0) - bᵀw


@dataclass(frozen=True)
class Units:
    """Γ in units that make coordinates comparable: gamma = {u : scales∘u in Γ}."""

    scales: np.ndarray
    gamma: ConstraintSet


@dataclass(frozen=True)
class Piece:
    """The members of Γ that are zero outside a support: what this choice leaves free, a convex set.

    Vectors here are the values on the support, and the risk is R of those. Another kind of choice, among states of
    entries, say, has a piece that answers the same questions.
    """

    risk: Risk
    gamma: ConstraintSet
    support: np.ndarray
    units: Units | None = None
    whole: Risk | None = None  #: R itself
    interest: float = math.inf  #: values of R above it are of no interest
    rough: bool = False  #: whether R is wanted to no more than ten digits

    def metric(self, size: float) -> np.ndarray | None:
        """What is near the curvature of R up to a factor, this size of it, and at hand; None where nothing is."""
        return None if self.whole is None or not self.gamma.whole_space else self.whole.metric(self.support, size)

    def project(self, u: Array) -> Array:
        """argmin ||w - u|| over the piece."""
        return u if self.gamma.whole_space else self.gamma.project(u, self.support)

    def minimise(self, G: np.ndarray, b: np.ndarray, start: np.ndarray, deadline: float) -> np.ndarray:
        """argmin uᵀGu - 2bᵀu over the piece."""
        if self.gamma.whole_space:
            return solve(G, b)[0]
        if self.units is None:
            return self._told(G, self.gamma.minimise_quadratic(G, b, self.support, start, deadline))
        s = self.units.scales[self.support]
        inner = self.units.gamma.minimise_quadratic(s[:, None] * G * s, s * b, self.support, start / s, deadline)
        found = s * inner
        # in other units a bound is another number, rounded
        return self._told(G, self.gamma.project(found, self.support) if self.gamma.separable else found)

    @cached_property
    def shape(self) -> Polyhedron | None:
        """Its bounds and caps, where there is nothing else to it."""
        if self.gamma.whole_space:
            return _whole(self.support.size)
        try:
            shape = self.gamma.polyhedron_on(self.support)
        except EmptySlice:
            return None
        return shape if shape is not None and shape.exact else None

    def products_tell(self, G: np.ndarray, model: Curvature) -> bool:
        """Whether products tell which entries are at their bounds, and the others; of curved sets nothing is known.

        Next to each other, a column at a bound and a free one have slopes that differ by rounding alone.
        """
        if model.apart or self.shape is None:
            return True
        return independent(G, np.flatnonzero(self.shape.lower < self.shape.upper))

    def _told(self, G: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Zero for what is not zero by rounding alone: it can be told neither beside other entries nor in Xu."""
        size, seen = np.abs(u), np.abs(u) * np.sqrt(np.maximum(np.diagonal(G), 0.0))
        small = (size <= _DUST * size.max(initial=0.0)) & (seen <= _DUST * seen.max(initial=0.0))
        if not u[small].any():
            return u
        clean, rest = np.zeros(u.size), np.flatnonzero(~small)
        try:  # a set may ask for numbers as small
            clean[rest] = to_host(self.gamma.project(u[rest], self.support[rest]))
        except EmptySlice:
            return u
        return clean if norm(clean - u) <= _DUST * norm(u) else u

    def known_minimum(self) -> np.ndarray | None:
        """argmin R over the piece for a quadratic R, where Γ solves such problems itself; None otherwise."""
        gamma, own = self.gamma, type(self.gamma).quadratic_minimum is not ConstraintSet.quadratic_minimum
        if self.units is not None or gamma.whole_space or not own or not 0 < self.support.size <= _QUICK:
            return None
        origin = self.risk.at(self.risk.zero)
        model = self.risk.curvature(origin)
        if model is None or not model.exact:
            return None
        every = np.arange(self.support.size)
        G, b = model.block(every), model.pull(origin, every)
        found = gamma.quadratic_minimum(G, b, self.support) if self.products_tell(G, model) else None
        return None if found is None else self._told(G, found)


def refit(
    risk: Risk,
    gamma: ConstraintSet,
    support: np.ndarray,
    first: np.ndarray | None = None,
    units: Units | None = None,
    deadline: float = math.inf,
    interest: float = math.inf,
    rough: bool = False,
) -> Point:
    """argmin R(w) over w in Γ that are zero outside the support, for convex R: k unknowns.

    Newton steps on the restricted risk, each the solution of a quadratic problem over the slice of Γ, with a line
    search; for a quadratic risk the first step is the answer. Risks without known curvature take accelerated
    projected gradient steps. Values on the support to begin with may be given. After the deadline, a reading of
    `time.perf_counter`, the best point so far is returned; so it is where R will not come down to what is of interest,
    or is known to ten digits and wanted roughly.
    """
    if (known := _from_products(risk, gamma, support, first, units, deadline)) is not None:
        return known
    part = risk.restrict(support)
    here = _best(Piece(part, gamma, support, units, risk, interest, rough), first, deadline)
    point = risk.at(scatter(here.w, index_like(support, here.w), risk.n_features), index_like(support, here.w))
    if risk.keeps_state and type(part) is type(risk):
        point._state = here.state  # the same predictions, without another look at the data
    return point


def _from_products(
    risk: Risk,
    gamma: ConstraintSet,
    support: np.ndarray,
    first: np.ndarray | None,
    units: Units | None,
    deadline: float,
) -> Point | None:
    """The same for a quadratic R on many columns, whose products are known for the most part; None elsewhere."""
    if not KnownProducts.pays(support.size, risk.n_features):
        return None
    origin = risk.origin
    model = risk.curvature(origin)
    if model is None or not (model.exact and model.remembers(support.size)) or model.rank < support.size:
        return None
    G, b = model.block(support), model.pull(origin, support)
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return None
    first = np.zeros(support.size) if first is None else first.astype(float)
    piece = Piece(risk, gamma, support, units)
    if gamma.whole_space:
        values, accurate = solve(G, b)
    elif accurate := piece.products_tell(G, model):
        values = piece.minimise(G, b, first, deadline)
    if not accurate:
        return None
    point = risk.at(scatter(like(values, risk.zero), index_like(support, risk.zero), risk.n_features), support)
    value = origin.value + float(values @ (G @ values - 2 * b))
    if finfo_eps(risk.zero) < 1e-12 and value > LEAST * abs(origin.value):
        point.answer(value)
    return point


def _best(piece: Piece, start: np.ndarray | None, deadline: float) -> Point:
    """The best point of a piece."""
    risk = piece.risk
    if (known := piece.known_minimum()) is not None:
        return risk.at(like(known, risk.zero))
    here = risk.at(piece.project(risk.zero if start is None else like(start, risk.zero)))
    if not here.w.shape[0]:
        return here
    with np.errstate(over="ignore", invalid="ignore"):
        first, model = here, risk.curvature(here)
        if model is None or not model.exact:
            origin = risk.at(piece.project(risk.zero))
            # a step too far, where exp overflows, say; and gradient steps alone take long to come back from afar
            if not math.isfinite(here.value) or origin.value < here.value:
                here = origin
            if not math.isfinite(here.value):
                here = _from_outside(piece, here, deadline)
        if here is not first:
            model = risk.curvature(here)
        if model is None:
            return accelerated(piece, here, deadline)
        if model.exact:
            return _in_one_step(piece, here, model, deadline)
        if piece.gamma.whole_space and (found := risk.minimum(here.w)) is not None:
            return risk.at(found)
        return newton(piece, here, model, deadline)


def _in_one_step(piece: Piece, here: Point, model: Curvature, deadline: float) -> Point:
    """The best point for a quadratic R, from the origin: the same answer to the last digit, whatever the start."""
    part, values = piece.risk, to_host(here.w).astype(float)
    if piece.gamma.whole_space and (one := model.shared) is not None:
        found, accurate = _for_all_outputs(part, one, model.n_shared)
        if found is not None and (accurate or model.corrects):
            there = part.at(like(found, here.w))
            return there if accurate else _polished(piece, model, there, _whole(found.size), deadline)
    if piece.gamma.whole_space and model.corrects and model.rank < values.size:  # products of the rows are fewer
        return _polished(piece, model, part.at(part.zero), _whole(values.size), deadline)
    every = np.arange(values.size)
    G, b = model.block(every), model.pull(part.at(part.zero), every)
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return accelerated(piece, here, deadline)
    if (inside := _inside(piece, model, G, b, deadline)) is not None:
        return inside
    if piece.gamma.whole_space:
        target, accurate = solve(G, b)
    else:
        target, accurate = piece.minimise(G, b, values, deadline), piece.products_tell(G, model)
    there = part.at(like(target, here.w))
    if accurate:
        return there
    if model.corrects and piece.shape is not None:
        return _polished(piece, model, there, piece.shape, deadline)
    return part.at(like(refined(G, b, target), here.w)) if piece.gamma.whole_space else there


def _inside(piece: Piece, model: Curvature, G: np.ndarray, b: np.ndarray, deadline: float) -> Point | None:
    """The best point of the whole space, from the columns themselves, where products tell too little and Γ holds it."""
    if piece.shape is not None or not model.corrects:  # bounds and caps look at the columns that are free alone
        return None
    free, accurate = solve(G, b)
    if accurate:
        return None
    there = _polished(piece, model, piece.risk.at(like(free, piece.risk.zero)), _whole(free.size), deadline)
    values = to_host(there.w).astype(float)
    return there if norm(to_host(piece.project(values)) - values) <= 1e-14 * norm(values) else None


def _for_all_outputs(part: Risk, one: Curvature, n_outputs: int) -> tuple[np.ndarray | None, bool]:
    """argmin R for a quadratic R whose outputs share their curvature, by one system, and whether it is accurate."""
    b = -0.5 * to_host(part.at(part.zero).gradient).astype(float)
    G = one.block(np.arange(b.size // n_outputs))
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return None, False
    found, accurate = solve(G, b.reshape(n_outputs, -1).T)
    return found.T.ravel(), accurate


def _from_outside(piece: Piece, here: Point, deadline: float) -> Point:
    """Where R overflows at all members that are known, the best one for the quadratic that touches it at the origin.

    R is harmless there, although Γ may not hold it; what that quadratic avoids is what exp makes endless.
    """
    origin = piece.risk.at(piece.risk.zero)
    model = piece.risk.curvature(origin)
    if model is None or not math.isfinite(origin.value):
        return here
    values = to_host(here.w).astype(float)
    G, b = model.block(np.arange(values.size)), -0.5 * to_host(origin.gradient).astype(float)
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return here
    return piece.risk.at(like(piece.minimise(G, b, values, deadline), here.w))


def _whole(size: int) -> Polyhedron:
    """No bounds at all."""
    return Polyhedron.box(-math.inf, math.inf, size)


def _polished(piece: Piece, model: Curvature, point: Point, within: Polyhedron, deadline: float) -> Point:
    """The same minimiser of a quadratic, from the columns themselves where G, their products, is too coarse."""
    for _ in range(3):
        if time.perf_counter() > deadline:
            break
        w = to_host(point.w).astype(float)
        move = model.correction(w, point.state, within, deadline)
        if move is None:
            break
        target = np.clip(w + move, within.lower, within.upper)
        there = point.risk.at(like(to_host(piece.project(target)) if within.h.size else target, point.w))
        gained = point.value - there.value
        if not gained > 0:
            break
        point = there
        if gained <= _GAINED * abs(point.value):
            break
    return point
