"""How runs end: the statuses, and the exception by which any part of a run ends it."""

from enum import Enum


class Status(Enum):
    """How a run ended; each member is a sentence."""

    CONVERGED = "the iterates stopped moving: the last relative change is at most tol"
    COMPLETED = "all iterations that the method prescribes were made"
    STATIONARY = "the point is stationary: the projected-gradient residual fell below tol times its first value"
    SETTLED = "no step of the method lowers the objective any more"
    OPTIMAL = "proved optimal: no feasible point is better by more than rounding and the tolerance allow"
    TARGET_GAP = "the target gap is proved"
    MAX_ITER = "max_iter iterations were made before the iterates settled"
    MAX_QUERIES = "max_queries function values were asked for, or all but too few for another step"
    TIME_LIMIT = "the time limit was reached before the iterates settled"
    CALLBACK = "the callback stopped the run"
    INTERRUPTED = "interrupted from outside; the best point so far is returned"
    DIVERGED = (
        "the iterates or the objective became infinite or NaN, or fell without end; a smaller step helps, data of a "
        "smaller scale, or bounds"
    )
    FAILED = "the function failed where the method could not do without its value"
    RUNNING = "the run is under way"

    @property
    def success(self) -> bool:
        """Whether the run ended because its job was done."""
        return self in _DONE


_DONE = {
    Status.CONVERGED,
    Status.STATIONARY,
    Status.COMPLETED,
    Status.SETTLED,
    Status.OPTIMAL,
    Status.TARGET_GAP,
    Status.MAX_QUERIES,
}


class Stop(Exception):
    """A run cannot go on: raised with its status, or by a subclass that has one."""

    @property
    def status(self) -> Status:
        """How the run ends."""
        status: Status = self.args[0]
        return status
