"""The end of a run: exchanges of coordinates, and further starts for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import to_host
from ._directions import stream
from ._run import Run
from .finish import SwapSearch, refit
from .risks._damped import Damped
from .risks.base import Point

# Shares of the curvature at the origin. From ten times as much few supports differ from the marginal one, from a tenth
# of the last little changes; a ladder with three times as many rungs costs twice as much and is seldom better.
_LADDER = (0.1, 0.03, 0.01, 0.001, 0.0001)


def exchange(run: Run, iterate: Callable[[Run], Any] | None) -> None:
    """Improve the best point of a run by exchanges; further starts where they are asked for or likely to help.

    An answer that the exchanges had to mend belongs to a problem in which single exchanges get stuck, too. There the
    answer of the damped problem is followed as the damping goes; with `iterate` None, for runs that were told to stop,
    it is not.
    """
    problem, deadline = run.problem, run.started - run.elapsed_before + run.limit
    search = SwapSearch(run.risk, problem.gamma, problem.k, problem.kept, run.units, deadline)
    run.best = search.improve(run.best)
    if search.helped and iterate is not None and run.method.step == "pursuit":
        _keep_better(run, _from_damped(run, search, iterate))
    for number in range(run.method.n_starts - 1):
        search.cut = search.cut or run.seconds > run.limit
        if search.cut:
            break
        _keep_better(run, search.improve(search.kicked(run.best, stream(run.entropy, 2**33, number))))
    run.counts.n_gradients += search.n_products * run.risk.n_terms
    run.cut = search.cut


def _keep_better(run: Run, other: Point | None) -> None:
    if other is not None and other.value < run.best.value:
        run.best = other


def _from_damped(run: Run, search: SwapSearch, iterate: Callable[[Run], Any]) -> Point | None:
    """The answer at the end of a ladder of ever less damping, each rung starting from the last; None if none is new.

    Damping makes nearly equal columns share their weight and keeps a saturated loss from going flat, so slopes tell
    more. It is in proportion to the curvature of each coordinate, so units do not matter.
    """
    model = run.risk.curvature(run.risk.at(run.risk.zero))
    size = np.zeros(1) if model is None else model.diagonal
    if not (np.isfinite(size).all() and size.any()):
        return None
    known, x = np.flatnonzero(to_host(run.best.w)), None
    shared = search.model if model.exact else None
    for share in _LADDER:
        search.cut = search.cut or run.seconds > run.limit
        if search.cut:
            return None
        damped = dataclasses.replace(run.problem, risk=Damped(run.risk, share * size, shared))
        rung = Run(damped, dataclasses.replace(run.method, n_starts=1), x, run.entropy, np.inf, every=1)
        rung.limit = run.limit - run.seconds
        with rung:
            iterate(rung)
            climb = SwapSearch(rung.risk, damped.gamma, damped.k, damped.kept, rung.units, search.deadline)
            x = climb.improve(rung.best).w
        for count in ("n_gradients", "n_values", "n_thresholds", "n_monitor"):
            setattr(run.counts, count, getattr(run.counts, count) + getattr(rung.counts, count))
        search.n_products += climb.n_products
        support = np.flatnonzero(to_host(x))
        if np.array_equal(support, known):
            return None
    return search.improve(refit(run.risk, run.problem.gamma, np.union1d(support, run.problem.kept), x, run.units))
