"""Why a run ends after an iteration."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .._core.stopping import Status
from .result import Result
from .run import Run


class Proof(Protocol):
    """Of how far an objective is, at the most, from the best possible."""

    def suffices(self, fun: float, so_far: Callable[[], Result], deadline: float) -> bool:
        """Whether the objective is near enough; the result so far is asked for when the proof begins."""

    def certificate(self, result: Result, deadline: float) -> Any:
        """Of the final result."""


@dataclass
class Stopping:
    """The rules by which `minimize` ends, in the order in which they are looked at.

    Parameters
    ----------
    tol : float
        Of the relative change ||w_t - w_{t-1}|| / ||w_t||, and of the residual ||w_t - w_{t-1}|| / η relative to the
        first one; estimated gradients are never stopped by it.
    proof : Proof, optional
        Of a target gap.
    callback : callable, optional
        Raises StopIteration to stop.
    """

    tol: float
    proof: Proof | None = None
    callback: Callable[[Result], Any] | None = None

    def __call__(self, run: Run, fun: float, moved: float, size: float) -> Status | None:
        """The status with which the run ends here, or None."""
        state, step = run.state, run.step.size
        if math.isnan(state.first_residual):
            state.first_residual = moved / step
        if not math.isfinite(moved) or math.isinf(fun):
            return Status.DIVERGED
        if self.proof is not None and self.proof.suffices(fun, run.so_far, state.clock.deadline()):
            return Status.TARGET_GAP
        if self.tol > 0 and not run.method.stochastic and run.oracle.settled:
            if moved <= self.tol * size:
                return Status.CONVERGED
            if moved / step <= self.tol * state.first_residual:
                return Status.STATIONARY
        if state.clock.over:
            return Status.TIME_LIMIT
        if self.callback is not None:
            try:
                self.callback(run.report(state.point, Status.RUNNING))
            except StopIteration:
                return Status.CALLBACK
        return None
