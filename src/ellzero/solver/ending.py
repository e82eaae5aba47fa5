"""The end of a run: exchanges of coordinates, and further starts for them."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.directions import stream
from ..risks.base import Point
from ..risks.damped import Damped
from ..sets import EmptySlice
from .exchanges import SwapSearch
from .run import Run

# Shares of the curvature at the origin. Measured on riboflavin, basehock, S&P 500, P1b and 24 correlated designs:
# beginning at 1 is no better, and nine rungs down to 1e-5 gain 1% on basehock for 1.7 times the time.
_LADDER = (0.1, 0.03, 0.01, 0.001, 0.0001)
# All supports are tried where that costs no more than a few rounds of exchanges: so many supports, and so many numbers
# of the data to be read for their refits.
_FEW, _LITTLE = 130, 500_000


def exchange(run: Run, iterate: Callable[[Run], Any] | None) -> None:
    """Improve the best point of a run by exchanges; further starts where they are asked for or likely to help.

    Where there are but few supports, all are tried. Otherwise:
    an answer that the exchanges had to mend belongs to a problem in which single exchanges get stuck, too. There the
    answer of the damped problem is followed as the damping goes; with `iterate` None, for runs that were told to stop
    or where to start, it is not.
    """
    problem = run.problem
    search = SwapSearch(run.risk, problem.gamma, problem.k, problem.kept, run.units, run.deadline)
    if _few_supports(run):
        run.best, run.cut = search.best_of_all(run.best), search.cut
        return
    run.best = search.improve(run.best)
    if search.helped and iterate is not None and run.method.step == "pursuit" and run.method.oracle.exact:
        with suppress(EmptySlice):  # of a support that was tried for its entries alone; there is an answer already
            _keep_better(run, _from_damped(run, search, iterate))
    for number in range(run.method.n_starts - 1):
        search.cut = search.cut or run.seconds > run.limit
        if search.cut:
            break
        _keep_better(run, search.improve(search.kicked(run.best, stream(run.entropy, 2**33, number))))
    run.counts.n_gradients += search.n_products * run.risk.n_terms
    run.cut = search.cut


def _few_supports(run: Run) -> bool:
    """Whether all supports can be tried by refits."""
    risk, k, kept = run.risk, run.problem.k, run.problem.kept.size
    count = math.comb(risk.n_features - kept, k - kept)
    few = 1 < count <= _FEW and count * k * risk.n_terms <= _LITTLE
    return few and risk.convex and risk.curvature(run.best) is not None


def _keep_better(run: Run, other: Point | None) -> None:
    if other is not None and other.value < run.best.value:
        run.best = other


def _from_damped(run: Run, search: SwapSearch, iterate: Callable[[Run], Any]) -> Point | None:
    """The answer at the end of a ladder of ever less damping, each rung starting from the last; None if none is new.

    Damping makes nearly equal columns share their weight and keeps a saturated loss from going flat, so slopes tell
    more. It is in proportion to the curvature of each coordinate, so units do not matter.
    """
    model = search.model or run.risk.curvature(run.risk.at(run.risk.zero))
    if model is None:
        return None
    spent, size = model.spent, np.maximum(model.diagonal, 0.0)
    search.n_products += model.spent - spent
    if not (np.isfinite(size).all() and size.any()):
        return None
    known, x = np.flatnonzero(to_host(run.best.w)), None
    for share in _LADDER:
        damped = dataclasses.replace(run.problem, risk=Damped(run.risk, share * size, search.model))
        with warnings.catch_warnings():  # the last answer may be moved at the start, and nobody gave it
            warnings.simplefilter("ignore", UserWarning)
            rung = Run(damped, run.method, x, run.entropy, np.inf, 1, run.limit - run.seconds)
        with rung:
            iterate(rung)
            climb = SwapSearch(rung.risk, damped.gamma, damped.k, damped.kept, rung.units, search.deadline, False)
            x = climb.improve(rung.best).w
        for count in ("n_gradients", "n_values", "n_thresholds", "n_monitor"):
            setattr(run.counts, count, getattr(run.counts, count) + getattr(rung.counts, count))
        search.n_products += climb.n_products
        search.cut = search.cut or climb.cut or run.seconds > run.limit
        if search.cut or np.array_equal(np.flatnonzero(to_host(x)), known):
            return None
    return search.improve(run.risk.at(x))
