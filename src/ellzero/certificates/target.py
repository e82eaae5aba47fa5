"""The proof that lets a run stop at a target gap: one lower bound, computed when it is first asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from .._core.arrays import to_host
from ..solver.methods import Method
from ..solver.problem import Problem
from ..solver.result import Result, Status
from .certificate import CertificateStatus, conclude, no_certificate
from .root import Root


class Proof:
    """Whether an objective is within a relative gap of the best possible."""

    def __init__(self, problem: Problem, method: Method, target: float) -> None:
        if method.stochastic or not problem.risk.has_gradient:
            raise ValueError(
                "target_gap needs a deterministic method, whose objective is known after every iteration: use "
                'method="auto" or "exact", or ellzero.certify on the result'
            )
        self.risk, self.target = problem.risk, target
        self.root: Any = None

    def _begin(self, result: Result, deadline: float) -> None:
        self.started = time.perf_counter()
        self.root = Root(self.risk, result, deadline)
        self.search = None if self.root.refused else self.root.search(self.target)
        self.bound = -math.inf if self.search is None else self.search.bound

    def suffices(self, fun: float, so_far: Callable[[], Result], deadline: float) -> bool:
        """Whether the proof is there; it begins with the result so far."""
        if not math.isfinite(fun):
            return False
        if self.root is None:
            self._begin(so_far(), deadline)
        return fun - self.bound <= self.target * abs(fun)

    def certificate(self, result: Result, deadline: float) -> Any:
        """Of the final result; None if the run was interrupted before there was a bound."""
        if not hasattr(self, "bound"):
            if result.status is Status.INTERRUPTED:
                return None
            self._begin(result, deadline)
        self.root.result = result
        if self.search is None:
            return no_certificate(self.root, self.started)
        if result.fun < self.search.value:
            value, error = self.root.measured(to_host(result.x).astype(float))
            self.search.low, self.search.value, self.search.best = value - error, value + error, None
        return conclude(self.root, self.search, CertificateStatus.BOUND, self.started)
