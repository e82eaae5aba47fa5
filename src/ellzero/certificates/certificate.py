"""certify: how far an answer is, at the most, from the best possible."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from .._core.interruption import inside_a_larger_call
from .._core.validation import check_nonnegative, check_positive
from ..risks.base import Risk
from ..solver.result import Result
from .branch_and_bound import Progress, Search
from .root import Root


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
    """R(w) >= lower_bound for every w with at most k nonzeros in Γ.

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
        Coordinates that are in every optimal support, or in none.
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

    def __repr__(self) -> str:
        explained = ""
        if math.isfinite(self.explained_gap):
            explained = f", {100 * self.explained_gap:.3g}% of what is explained"
        lines = {
            "objective": f"{self.objective:.8g}, {self.words}",
            "lower bound": f"{self.lower_bound:.8g}",
            "gap": f"{self.gap:.3g} ({100 * self.relative_gap:.3g}% of the objective{explained})",
            "proved in": f"{self.proved_in.size} coordinates",
            "proved out": f"{self.proved_out.size} coordinates",
            "status": self.status.value,
            "how": self.how,
            "cost": f"{self.nodes} nodes, {self.seconds:.2g} s",
        }
        if self.advice:
            lines["to improve"] = self.advice
        if f"{self.fun:.8g}" != f"{self.objective:.8g}":
            lines["better point"] = f"objective {self.fun:.8g} was met on the way (x, fun)"
        return "ellzero certificate\n" + "\n".join(f"  {name:<13}{text}" for name, text in lines.items())


def certify(
    risk: Risk,
    result: Result,
    time_limit: float | None = None,
    target_gap: float | None = None,
    *,
    callback: Callable[[Progress], Any] | None = None,
) -> Certificate:
    """A lower bound of min R(w) over ||w||_0 <= k, w in Γ, and so how good an answer is.

    For convex R = f + (μ/2)||·||² and any v, R(w) >= f(v) + <∇f(v), w - v> + (μ/2)||w||², and the minimum of the right
    side over sparse members of Γ is one `sparse_maximum`. The best v is looked for: by Newton's method where R is
    quadratic and Γ is given by bounds and linear caps, by fully corrective Frank-Wolfe elsewhere. With a time limit or
    a target, branch and bound goes on from there.

    Parameters
    ----------
    risk : Risk
        Convex.
    result : Result
        What `minimize` returned for it; k, Γ and the coordinates to keep are in it.
    time_limit : float, optional
        Seconds, looked at between steps: forming the matrix of up to 2000 coordinates may take some by itself.
        Without this and target_gap, one relaxation and no branching.
    target_gap : float, optional
        Stop as soon as this relative gap is proved. If only a time limit is given, go on to the proof of optimality:
        a gap of 1e-6 of R(x), or of R(0) - R(x) if that is less.
    callback : callable, optional
        ``callback(progress)`` about ten times a second while branching; raise StopIteration to stop.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 30))
    >>> y = X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(80)
    >>> risk = ez.risks.LeastSquares(X, y, ridge=0.1)
    >>> cert = ez.certify(risk, ez.minimize(risk, k=3))
    >>> cert.words, cert.proved_in.tolist()
    ('proven optimal', [0, 1, 2])
    """
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a risk such as ellzero.risks.LeastSquares(X, y), got {risk!r}")
    if not isinstance(result, Result):
        raise TypeError(f"result must be what ellzero.minimize returned for the risk, got {result!r}")
    limit = math.inf if time_limit is None else check_positive(time_limit, "time_limit")
    target = None if target_gap is None else check_nonnegative(target_gap, "target_gap")
    branch = time_limit is not None or target_gap is not None
    started = time.perf_counter()
    root = Root(risk, result, started + limit)
    if root.refused:
        return no_certificate(root, started)
    search = root.search(target)
    status = CertificateStatus.BOUND
    if branch and not search.done:
        status = run(search, callback)
    return conclude(root, search, status, started)


def run(search: Search, callback: Callable[[Progress], Any] | None) -> CertificateStatus:
    """Branch; an interruption or the callback's StopIteration ends it cleanly."""
    try:
        search.run(callback)
    except StopIteration:
        return CertificateStatus.INTERRUPTED
    except KeyboardInterrupt:
        if inside_a_larger_call():
            raise
        return CertificateStatus.INTERRUPTED
    if search.bound >= search.cutoff:
        return CertificateStatus.TARGET
    return CertificateStatus.TIME_LIMIT if search.heap else CertificateStatus.EXHAUSTED


def conclude(root: Root, search: Search, status: CertificateStatus, started: float) -> Certificate:
    """What the search has proved, as a certificate of the result."""
    bound, fun = search.bound, root.result.fun
    x, best = root.best(search)
    gap = max(0.0, fun - bound)
    relative = gap / abs(fun) if fun else (0.0 if gap == 0 else math.inf)
    if gap <= 1.01 * root.allowance(None, fun):
        status = CertificateStatus.OPTIMAL
    elif root.target is not None and gap <= root.target * abs(fun):
        status = CertificateStatus.TARGET
    elif status is CertificateStatus.TARGET:
        status = CertificateStatus.BETTER
    explained = root.at_zero - fun
    return Certificate(
        objective=fun,
        lower_bound=bound,
        gap=gap,
        relative_gap=relative,
        explained_gap=gap / explained if math.isfinite(explained) and explained > 0 else math.inf,
        proved_in=root.fixed_in,
        proved_out=root.fixed_out,
        status=status,
        how=root.how,
        advice="" if status is CertificateStatus.OPTIMAL else root.advice,
        nodes=search.nodes,
        seconds=time.perf_counter() - started,
        history=search.history,
        x=x,
        fun=min(best, fun),
    )


def no_certificate(root: Root, started: float) -> Certificate:
    """Where nothing useful can be proved: the risk's own bound, and what would help."""
    fun, bound = root.result.fun, float(root.risk.lower_bound)
    gap = fun - bound
    empty = np.empty(0, dtype=np.intp)
    return Certificate(
        objective=fun,
        lower_bound=bound,
        gap=gap,
        relative_gap=gap / abs(fun) if fun else math.inf,
        explained_gap=math.inf,
        proved_in=empty,
        proved_out=empty,
        status=CertificateStatus.NO_BOUND,
        how="the lowest value that the risk can have at all",
        advice=root.refused,
        nodes=0,
        seconds=time.perf_counter() - started,
        history=[],
        x=root.result.x,
        fun=fun,
    )
