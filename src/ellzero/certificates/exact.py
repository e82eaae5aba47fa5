"""method="exact": the answer of "auto", and branch and bound until it or a better one is proved optimal."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.interruption import inside_a_larger_call
from ..solver.loop import solve
from ..solver.methods import preset
from ..solver.problem import Problem, verify
from ..solver.result import Result, Status
from .branch_and_bound import Progress, Search
from .certificate import Certificate, CertificateStatus, conclude, run
from .root import Root


def solve_exactly(
    problem: Problem,
    *,
    time_limit: float,
    target_gap: float | None,
    callback: Any,
    verbose: int,
    **options: Any,
) -> Result:
    """min R(w) subject to ||w||_0 <= k, w in Γ, with a proof; see `ellzero.minimize`, which checks its arguments."""
    started = time.perf_counter()
    result = solve(problem, preset("auto"), time_limit=time_limit, **options)
    if result.status is Status.INTERRUPTED:
        return replace(result, method="exact")
    try:
        root = Root(problem.risk, result, started + time_limit)
        search = None if root.refused else root.search(target_gap)
    except KeyboardInterrupt:  # nothing is proved yet, but the answer is there
        if inside_a_larger_call():
            raise
        return replace(result, method="exact", status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    if search is None:
        raise ValueError(f'method="exact" has no bound to work with here: {root.refused}. method="auto" does not prove')
    watcher = _Watcher(root, search, callback, verbose, started)
    status = CertificateStatus.TARGET if search.done else run(search, watcher)
    final = watcher.result(status, final=True)
    verify(final)
    if verbose:
        print(f"objective {final.fun:.8g}, {final.certificate.words}", flush=True)
    return final


class _Watcher:
    """What callbacks and screens are told about the search, at most ten times a second."""

    def __init__(self, root: Root, search: Search, callback: Any, verbose: int, started: float) -> None:
        self.root, self.search, self.callback, self.verbose = root, search, callback, verbose
        self.started, self.told = started, -math.inf
        self.first = root.result
        if verbose:
            print(f"{'nodes':>9}  {'incumbent':>14}  {'bound':>14}  {'gap':>9}  {'seconds':>8}")

    def __call__(self, progress: Progress) -> None:
        if self.verbose and progress.time - self.told >= (0.0 if self.verbose > 1 else 1.0):
            self.told = progress.time
            gap = (progress.incumbent - progress.bound) / max(abs(progress.incumbent), 1e-300)
            print(
                f"{progress.nodes:>9}  {progress.incumbent:>14.8g}  {progress.bound:>14.8g}  {gap:>9.2%}  "
                f"{progress.time:>8.1f}",
                flush=True,
            )
        if self.callback is not None:
            self.callback(self.result(CertificateStatus.BOUND))

    def result(self, status: CertificateStatus, final: bool = False) -> Result:
        """The incumbent, with what is proved about it."""
        root, search = self.root, self.search
        x, fun = root.best(search)
        better = replace(
            self.first,
            x=x,
            fun=fun,
            support=np.flatnonzero(to_host(x)),
            violation=self.first.constraint.violation(x),
            method="exact",
            nit=search.nodes,
        )
        if better.fun < self.first.fun:
            better.stationarity = math.nan  # a new point, of which no method is the fixed one
        before, root.result = root.result, better
        certificate: Certificate = conclude(root, search, status, self.started)
        root.result = before
        better.certificate = certificate
        better.status = _STATUS[certificate.status] if final else Status.RUNNING
        better.message = better.status.value
        return better


_STATUS = {
    CertificateStatus.OPTIMAL: Status.OPTIMAL,
    CertificateStatus.TARGET: Status.TARGET_GAP,
    CertificateStatus.BETTER: Status.TARGET_GAP,
    CertificateStatus.BOUND: Status.TARGET_GAP,
    CertificateStatus.TIME_LIMIT: Status.TIME_LIMIT,
    CertificateStatus.EXHAUSTED: Status.SETTLED,
    CertificateStatus.INTERRUPTED: Status.INTERRUPTED,
}
