"""Another start for exchanges: the answer of a damped problem, followed as the damping goes."""

import dataclasses
from collections.abc import Callable

import numpy as np

from .._core.arrays import Array, index_like
from ..risks.base import Point, Risk
from ..risks.damped import Damped
from .exchanges import SwapSearch
from .many_moves import ManyMoves
from .problem import Problem
from .state import State

#: the iterations of the same method on another problem, from a start; and where they have led
Again = Callable[[Problem, Array | None], State]

# Shares of the curvature at the origin. Measured on riboflavin, basehock, S&P 500, P1b and 24 correlated designs:
# beginning at 1 is no better, and nine rungs down to 1e-5 gain 1% on basehock for 1.7 times the time.
_LADDER = (0.1, 0.03, 0.01, 0.001, 0.0001)
# Of whole atoms, whose exchanges see further, from the answer that is known: on 120 designs correlated up to 0.98 that
# missed the best known answer in 8, two rungs, 0.3 and 0.03, in 5 for twice the time, beginning again from the origin,
# with 0.03 and 0.001, in 13, and no damping in 26.
_OF_ATOMS = (0.1,)
# Of large supports, whose exchanges are many at once, by one round each: on 126 designs correlated up to 0.9, of which
# half have w >= 0, more rounds end lower in 54 and higher in 56, and a last rung of 0.0001 in 7 and 9.
_OF_MANY = (0.1, 0.03, 0.01, 0.001)


def from_damped(state: State, search: SwapSearch, again: Again) -> Point | None:
    """The answer at the end of a ladder of ever less damping, each rung starting from the last; None if none is new.

    The first rung starts from the origin, and that of whole atoms from the best point, with exchanges alone.

    Damping makes nearly equal columns share their weight and keeps a saturated loss from going flat, so slopes tell
    more. It is in proportion to the curvature of each coordinate, so units do not matter.
    """
    risk = state.risk
    model = search.model or risk.curvature(risk.at(risk.zero))
    if model is None:
        return None
    spent, damping, level = model.spent, np.maximum(model.diagonal, 0.0), 1.0
    search.n_products += model.spent - spent
    if not (np.isfinite(damping).all() and damping.any()):
        return None
    whole, known = state.problem.sparsity.atoms is not None, state.best.nonzeros
    many, found = ManyMoves.fit(state.problem, model, known.size), state.best
    for share in _OF_ATOMS if whole else _OF_MANY if many else _LADDER:
        damping, level = (share / level) * damping, share
        damped = dataclasses.replace(state.problem, risk=Damped(risk, damping, search.model))
        if whole:
            start, units = _at(found, damped.risk), state.units
        else:
            rung = again(damped, None if found is state.best else found.w)
            start, units = rung.best, rung.units
            for count in ("n_gradients", "n_values", "n_thresholds", "n_monitor"):
                setattr(state.counts, count, getattr(state.counts, count) + getattr(rung.counts, count))
            del rung  # and with it the gradient at its last point
        climb = SwapSearch(damped, units, search.deadline, thorough=False, certain=False, products=search.products)
        climb.max_rounds = 1 if many else climb.max_rounds
        found = climb.improve(start)
        search.n_products += climb.n_products
        search.cut = search.cut or climb.cut or state.clock.over
        if search.cut or np.array_equal(found.nonzeros, known):
            return None
    end = _at(found, risk)
    if not many:
        return search.improve(end)
    search.certain = False  # a look at all exchanges of many coordinates is dear, and for the best point alone
    found = search.improve(end)
    found.refitted = search.certain = True
    return search.improve(found) if found.value < state.best.value else found


def _at(point: Point, risk: Risk) -> Point:
    """The same vector as a point of another risk."""
    return risk.at(point.w, index_like(point.nonzeros, point.w))
