"""The proof that lets a run stop at a target gap: one lower bound, computed when it is first asked for."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from ..solver.result import Result, Status

if TYPE_CHECKING:
    from ..solver.run import Run


class Proof:
    """Whether an objective is within a relative gap of the best possible."""

    def __init__(self, run: Run, target: float) -> None:
        if not run.method.oracle.exact or run.problem is not run.asked:
            raise ValueError(
                "target_gap needs a deterministic method, whose objective is known after every iteration: use "
                'method="auto" or "exact", or ellzero.certify on the result'
            )
        self.run, self.target = run, target
        self.prover: Any = None

    def _begin(self) -> None:
        from .certify import Prover

        run = self.run
        answer = run.report(run.best, Status.RUNNING)
        self.prover = Prover(run.asked.risk, answer, self.target, time.perf_counter(), run.limit - run.seconds)

    @property
    def begun(self) -> bool:
        """Whether there is a bound."""
        return self.prover is not None

    def suffices(self, fun: float) -> bool:
        """Whether the proof is there."""
        if not math.isfinite(fun):
            return False
        if self.prover is None:
            self._begin()
        return not self.prover.refused and fun - self.prover.bound <= self.target * abs(fun)

    def certificate(self, result: Result) -> Any:
        """Of the final result."""
        from .certificate import CertificateStatus

        if self.prover is None:
            self._begin()
        self.prover.accept(result)
        return self.prover.certificate(result.fun, CertificateStatus.BOUND)
