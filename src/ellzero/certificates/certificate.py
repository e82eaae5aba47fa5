"""A certificate: how far an answer is, at the most, from the best possible."""

import math
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ..sparsity import Sparsity
from .search import Progress


class CertificateStatus(Enum):
    """What was proved; each member is a sentence."""

    OPTIMAL = "proved optimal: no feasible point is better by more than rounding and the tolerance allow"
    TARGET = "the target gap is proved"
    BOUND = "a lower bound from one relaxation, without branching; time_limit or target_gap makes it branch"
    TIME_LIMIT = "the time limit came before the target gap; more time raises the bound"
    BETTER = "this answer is not the best: a better point was met, and that one is proved to the gap asked for"
    EXHAUSTED = "every support was decided, but the bounds of some are not tight enough for the target gap"
    INTERRUPTED = "interrupted; the bound holds as far as the search came"
    NO_BOUND = "no useful bound is known for this problem"


@dataclass
class Certificate:
    """R(w) >= lower_bound for every sparse w in Γ: with at most k nonzeros, or groups, or whatever was counted.

    Attributes
    ----------
    objective : float
        R(x) of the answer x that was certified.
    lower_bound : float
        Valid in floating point: what rounding may add has been subtracted.
    gap : float
        R(x) - lower_bound: the answer x is at most this far from the best possible.
    relative_gap : float
        gap / |R(x)|.
    explained_gap : float
        gap / (R(0) - R(x)), relative to what x explains: the harder yardstick where R(0) is already small.
    proved_in, proved_out : arrays of int
        Coordinates that are in every optimal support, or in none; where groups or features are counted, all of theirs.
    status : CertificateStatus
        How it ended, in words.
    how : str
        How the bound was obtained.
    advice : str
        What would make the bound better; empty if nothing is missing.
    nodes : int
        Parts of the search that were looked at; 0 without branching.
    seconds : float
    history : list of Progress
        (time, nodes, incumbent, bound) along the search.
    x, fun : array, float
        The best point known: the answer itself, or a better one that the search met.
    sparsity : Sparsity
        What was counted.
    n_sweeps : int
        How often data that are larger than memory, or on a cluster, were gone through; 0 for data in memory.
    """

    objective: float
    lower_bound: float
    gap: float
    relative_gap: float
    explained_gap: float
    proved_in: np.ndarray
    proved_out: np.ndarray
    status: CertificateStatus
    how: str
    advice: str
    nodes: int
    seconds: float
    history: list[Progress] = field(repr=False)
    x: np.ndarray = field(repr=False)
    fun: float
    sparsity: Sparsity = field(repr=False)
    n_sweeps: int = 0

    @property
    def words(self) -> str:
        """The proof in one clause: "proven within 0.9% of the best possible"."""
        if not math.isfinite(self.lower_bound) or self.status is CertificateStatus.NO_BOUND:
            return "nothing proven about the best possible"
        if self.status is CertificateStatus.OPTIMAL:
            return "proven optimal"
        if self.status is CertificateStatus.BETTER:
            return f"not the best: {self.fun:.8g} is possible"
        if self.relative_gap > 0.995:
            return f"the best possible is proven to be at least {self.lower_bound:.4g}, which says little"
        return f"proven within {100 * self.relative_gap:.2g}% of the best possible"

    def told(self, proved: np.ndarray) -> str:
        """How much `proved_in` or `proved_out` holds: "6 coordinates, 2 groups"."""
        counted = "" if self.sparsity.atoms is None else f", {self.sparsity.size(proved)} {self.sparsity.counted}"
        return f"{proved.size} coordinates{counted}"

    def __repr__(self) -> str:
        explained = ""
        if math.isfinite(self.explained_gap):
            explained = f", {100 * self.explained_gap:.3g}% of what is explained"
        swept = f", {self.n_sweeps} sweeps" if self.n_sweeps else ""
        lines = {
            "objective": f"{self.objective:.8g}, {self.words}",
            "lower bound": f"{self.lower_bound:.8g}",
            "gap": f"{self.gap:.3g} ({100 * self.relative_gap:.3g}% of the objective{explained})",
            "proved in": self.told(self.proved_in),
            "proved out": self.told(self.proved_out),
            "status": self.status.value,
            "how": self.how,
            "cost": f"{self.nodes} nodes, {self.seconds:.2g} s{swept}",
        }
        if self.advice:
            lines["to improve"] = self.advice
        if f"{self.fun:.8g}" != f"{self.objective:.8g}":
            lines["better point"] = f"objective {self.fun:.8g} was met on the way (x, fun)"
        return "ellzero certificate\n" + "\n".join(f"  {name:<13}{text}" for name, text in lines.items())
