"""The proof that lets a run stop at a target gap: one lower bound, computed when it is first asked for."""

import math
import time
from collections.abc import Callable

from ..solver.methods import Method
from ..solver.problem import Problem
from ..solver.result import Result, Status
from .certificate import Certificate, CertificateStatus
from .certify import Prover


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

    def suffices(self, fun: float, so_far: Callable[[], Result], deadline: float) -> bool:
        """Whether the proof is there; it begins with the result so far."""
        if not math.isfinite(fun):
            return False
        prover = self.prover or self._begin(so_far(), deadline)
        return not prover.refused and fun - prover.bound <= self.target * abs(fun)

    def certificate(self, result: Result, deadline: float) -> Certificate | None:
        """Of the final result; None if the run was interrupted before there was a bound."""
        if self.prover is None and result.status is Status.INTERRUPTED:
            return None
        prover = self.prover or self._begin(result, deadline)
        prover.accept(result)
        return prover.certificate(result.fun, CertificateStatus.BOUND)
