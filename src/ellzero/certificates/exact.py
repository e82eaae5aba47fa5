"""Runs that prove: "exact", the answer of "auto" and branch and bound until it or a better one is proved optimal; and
the proof that lets any other run stop at a target gap, one lower bound, computed when it is first asked for.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.interruption import inside_a_larger_call
from ..solver.loop import solve
from ..solver.methods import Method, preset
from ..solver.problem import Problem, verify
from ..solver.result import Result, Status
from .certificate import Certificate, CertificateStatus
from .certify import Prover
from .search import Progress


def solve_exactly(
    problem: Problem, *, time_limit: float, target_gap: float | None, callback: Any, verbose: int, **options: Any
) -> Result:
    """min R(w) over sparse w in Γ, with a proof; see `ellzero.minimize`, which checks its arguments."""
    started = time.perf_counter()
    result = solve(problem, preset("auto"), time_limit=time_limit, **options)
    if result.status is Status.INTERRUPTED:
        return replace(result, method="exact")
    try:
        prover = Prover(problem.risk, result, target_gap, started, started + time_limit)
    except KeyboardInterrupt:  # nothing is proved yet, but the answer is there
        if inside_a_larger_call():
            raise
        return replace(result, method="exact", status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    if prover.refused:
        raise ValueError(
            f'method="exact" has no bound to work with here: {prover.refused}. method="auto" does not prove'
        )
    watcher = _Watcher(prover, callback, verbose)
    final = watcher.result(CertificateStatus.TARGET if prover.done else prover.run(watcher), final=True)
    verify(final)
    if verbose:
        print(f"objective {final.fun:.8g}, {final.certificate.words}", flush=True)
    return final


class _Watcher:
    """What callbacks and screens are told about the search, at most ten times a second."""

    def __init__(self, prover: Prover, callback: Any, verbose: int) -> None:
        self.prover, self.callback, self.verbose, self.told = prover, callback, verbose, -math.inf
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
        first, (x, fun) = self.prover.result, self.prover.best()
        certificate = self.prover.certificate(fun, status)
        better = replace(
            first,
            x=x,
            fun=fun,
            support=np.flatnonzero(to_host(x)),
            violation=first.constraint.violation(x),
            method="exact",
            nit=certificate.nodes,
            certificate=certificate,
            n_sweeps=first.n_sweeps + certificate.n_sweeps,
        )
        if better.fun < first.fun:
            better.stationarity = math.nan  # a new point, of which no method is the fixed one
            better.exchanges = None
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


class Proof:
    """Whether an objective is within a relative gap of the best possible."""

    def __init__(self, problem: Problem, method: Method, target: float) -> None:
        if method.stochastic or not problem.risk.has_gradient:
            raise ValueError(
                "target_gap needs a deterministic method, whose objective is known after every iteration: use "
                'method="auto" or "exact", or ellzero.certify on the result'
            )
        self.risk, self.target = problem.risk, target
        self.prover: Prover | None = None

    def _begin(self, result: Result, deadline: float) -> Prover:
        self.prover = Prover(self.risk, result, self.target, time.perf_counter(), deadline)
        return self.prover

    def _settled(self, result: Result) -> Result:
        """With the objective that proofs read: on the way a run computes in the precision of its data."""
        value = self.risk.accurate_value(to_host(result.x).astype(float))
        return result if value is None else replace(result, fun=value)

    def suffices(self, fun: float, so_far: Callable[[], Result], deadline: float) -> bool:
        """Whether the proof is there; it begins with the result so far."""
        if not math.isfinite(fun):
            return False
        prover = self.prover or self._begin(self._settled(so_far()), deadline)
        return not prover.refused and fun - prover.bound <= self.target * abs(fun)

    def certificate(self, result: Result, deadline: float) -> Certificate | None:
        """Of the final result; None if the run was interrupted before there was a bound."""
        if self.prover is None and result.status is Status.INTERRUPTED:
            return None
        prover = self.prover or self._begin(result, deadline)
        prover.accept(result)
        return prover.certificate(result.fun, CertificateStatus.BOUND)
