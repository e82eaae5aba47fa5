"""The proof that lets a run stop at a target gap: one lower bound, computed when it is first asked for."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from .._core.arrays import to_host
from ..solver.result import Result, Status

if TYPE_CHECKING:
    from ..solver.run import Run


class Proof:
    """Whether an objective is within a relative gap of the best possible."""

    def __init__(self, run: Run, target: float) -> None:
        if not run.method.oracle.exact or run.lifted:
            raise ValueError(
                "target_gap needs a deterministic method, whose objective is known after every iteration: use "
                'method="auto" or "exact", or ellzero.certify on the result'
            )
        self.run, self.target = run, target
        self.root: Any = None

    def _begin(self) -> None:
        from .root import Root

        run = self.run
        self.started = time.perf_counter()
        self.root = Root(run.asked.risk, run.report(run.best, Status.RUNNING), self.started + run.limit - run.seconds)
        self.search = None if self.root.refused else self.root.search(self.target)
        self.bound = -math.inf if self.search is None else self.search.bound

    @property
    def begun(self) -> bool:
        """Whether there is a bound."""
        return hasattr(self, "bound")

    def suffices(self, fun: float) -> bool:
        """Whether the proof is there."""
        if not math.isfinite(fun):
            return False
        if self.root is None:
            self._begin()
        return fun - self.bound <= self.target * abs(fun)

    def certificate(self, result: Result) -> Any:
        """Of the final result."""
        from .certificate import CertificateStatus, conclude, no_certificate

        if self.root is None:
            self._begin()
        self.root.result = result
        if self.search is None:
            return no_certificate(self.root, self.started)
        if result.fun < self.search.value:
            value, error = self.root.measured(to_host(result.x).astype(float))
            self.search.low, self.search.value, self.search.best = value - error, value + error, None
        return conclude(self.root, self.search, CertificateStatus.BOUND, self.started)
