"""Steps towards the best values on a support, where R is not quadratic."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .._core.arrays import like, norm, to_host
from .._core.linear_systems import Factor
from ..risks.base import Point, Risk
from ..risks.curvature import Curvature

if TYPE_CHECKING:
    from .refit import Piece

_NEAR, _NEAREST = 0.1, 1e-3  # what conjugate gradients leave of the slopes, far from the answer and near it
_MORE = 20  # times what the last step has gained, that the further ones do not gain
_SURE, _ROUGH = 1e-4, 1e-10  # of R: after a step that promised no more, what the next would gain; roughly no more
_MOST = 50  # of their steps; a factor that needs more is none for this curvature


def newton(piece: Piece, here: Point, model: Curvature, deadline: float) -> Point:
    """The best point of a piece for a convex R with curvature: minima of quadratic models, with a line search.

    Where that is no news, because R stays far above what is of interest, the search ends early.

    On many coordinates each model is minimised by conjugate gradients with a factor that is the same for all: that of
    products of columns which are known. Their own curvature would have to be computed anew at every point.
    """
    bold, caution, part = 1.0, 1.0, piece.risk
    factor, near = _factor(piece, model), _NEAR
    for _ in range(300):  # a few, where all goes well
        # a majoriser crawls where a loss has kinks; its Hessian alone may be singular, and far from R
        mixed, kinks = model.towards_piece(caution), model.piece is not None
        found = None if factor is None else _by_factor(here, mixed, bold, factor, near, deadline)
        if found is None:
            factor, found = None, _by_matrix(piece, here, mixed, bold, deadline)
        if found is None:
            return accelerated(piece, here, deadline)
        move, bend = found
        there = _along(part, here, move)
        if there is here:
            if kinks and caution < 1.0:
                caution = 1.0
                continue
            return here if float(to_host(here.gradient) @ move) <= 0 else accelerated(piece, here, deadline)
        # far up an exponential Newton's steps are all of one length, and so are those towards data that are separated
        bold = 4.0 * bold if there.value < 0.5 * here.value and not kinks else 1.0
        gained = here.value - there.value
        promised = -float(to_host(here.gradient) @ move) - bend
        # what the model was wrong by, and what was left of it, tells what the next step would gain
        left = 0.0 if factor is None else near**2 * promised
        wrong = gained - promised  # its square may be out of range
        rest = left + wrong * (wrong / promised) if promised > 0 else math.inf
        near = min(max(math.sqrt(gained / max(abs(there.value), 1e-300)), _NEAREST), _NEAR)
        caution = max(0.1 * caution, 1e-4) if gained > 0.5 * promised else min(4.0 * caution, 1.0)
        here = there
        known = factor is not None or (part.looks_twice and not kinks and 0 < promised <= 1e-8 * abs(here.value))
        known = known and rest <= (1e-17 if factor is None else 1e-13) * abs(here.value)
        near_enough = piece.rough and not kinks and 0 < promised <= _SURE * abs(here.value)
        near_enough = near_enough and rest <= _ROUGH * abs(here.value)
        hopeless = here.value - _MORE * gained > piece.interest
        if known or near_enough or hopeless or gained <= 1e-13 * abs(here.value) or time.perf_counter() > deadline:
            break
        following = part.curvature(here)
        assert following is not None  # as at the start
        model = following
    return here


def _factor(piece: Piece, model: Curvature) -> Factor | None:
    """That of a matrix which is near the curvature and known; None where there is none, or it is singular."""
    metric = piece.metric(model.total) if model.applies else None
    factor = None if metric is None or not np.isfinite(metric).all() else Factor.of(metric)
    if factor is None or (factor.pivots <= 1e-10 * np.diagonal(factor.G)).any():
        return None
    return factor


def _by_factor(
    here: Point, model: Curvature, bold: float, factor: Factor, near: float, deadline: float
) -> tuple[np.ndarray, float] | None:
    """A step that nearly minimises the model, and its bend; None where the factor is of no use."""
    slopes = -0.5 * to_host(here.gradient).astype(float)
    found = conjugate_gradients(model.apply, slopes, factor.solve, near, deadline)
    return None if found is None else (bold * found[0], bold * found[1])


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    near: float,
    deadline: float = math.inf,
) -> tuple[np.ndarray, float] | None:
    """u with Gu near b, and uᵀGu; None after too many steps, or where G is not positive along one of them."""
    u, left = np.zeros(b.size), b
    z = precondition(left)
    along, size = z, float(left @ z)
    first = size
    for _ in range(_MOST):
        if size <= near**2 * first or time.perf_counter() > deadline:
            return u, float(u @ (b - left))
        image = apply(along)
        bend = float(along @ image)
        if not bend > 0:
            return None
        u, left = u + (size / bend) * along, left - (size / bend) * image
        z = precondition(left)
        last, size = size, float(left @ z)
        along = z + (size / last) * along
    return None


def _by_matrix(
    piece: Piece, here: Point, model: Curvature, bold: float, deadline: float
) -> tuple[np.ndarray, float] | None:
    """The step to the minimum of the model over the piece, and its bend; None where numbers have come to an end."""
    values = to_host(here.w).astype(float)
    G = model.block(np.arange(values.size)) / bold
    b = G @ values - 0.5 * to_host(here.gradient)
    if not (np.isfinite(G).all() and np.isfinite(b).all()):
        return None
    move = piece.minimise(G, b, values, deadline) - values
    return move, float(move @ G @ move)


def _along(part: Risk, here: Point, move: np.ndarray) -> Point:
    """The first of here + move, here + move/2, ... that is lower by enough; or here."""
    values = to_host(here.w).astype(float)
    slope = float(to_host(here.gradient) @ move)
    size = 1.0
    while size > 1e-10:
        there = part.at(like(values + size * move, here.w))
        if there.value <= here.value + 1e-4 * size * min(slope, 0.0):
            return there
        size *= 0.5
    return here


def accelerated(piece: Piece, here: Point, deadline: float) -> Point:
    """Projected gradient steps with a step size that adapts, for risks whose curvature is not known."""
    part = piece.risk
    L = norm(here.gradient) / (here.size or 1.0) or 1.0  # a first step as long as w
    if not math.isfinite(L):  # no slope to follow
        return here
    y, t = here, 1.0
    for _ in range(1000):
        if time.perf_counter() > deadline:
            break
        L *= 0.7
        while True:
            there = part.at(piece.project(y.w - y.gradient / L))
            move = there.w - y.w
            allowed = y.value + float(y.gradient @ move) + 0.5 * L * float(move @ move)
            if there.value <= allowed + 1e-12 * abs(y.value) or not L <= 1e100 or time.perf_counter() > deadline:
                break
            L *= 2.0
        if not there.value <= here.value - 1e-14 * abs(here.value):
            if y is here:
                return here
            y, t = here, 1.0
            continue
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        ahead = piece.project(there.w + (t - 1) / t_next * (there.w - here.w))  # R may not be defined outside Γ
        y, here, t = part.at(ahead), there, t_next
        if not math.isfinite(y.value):
            y, t = here, 1.0
    return here
