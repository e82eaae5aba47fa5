"""certify: how far an answer is, at the most, from the best possible."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.interruption import inside_a_larger_call
from .._core.validation import check_nonnegative, check_positive
from ..risks.base import Risk, need_risk
from ..solver.result import Result
from .answer import Answer, NoBound
from .certificate import Certificate, CertificateStatus
from .root_bound import bound_root
from .search import Progress, Search


def certify(
    risk: Risk,
    result: Result,
    time_limit: float | None = None,
    target_gap: float | None = None,
    *,
    callback: Callable[[Progress], Any] | None = None,
) -> Certificate:
    """A lower bound of min R(w) over sparse w in Γ, and so how good an answer is.

    For convex R = f + (μ/2)||·||² and any v, R(w) >= f(v) + <∇f(v), w - v> + (μ/2)||w||², and the minimum of the right
    side over sparse members of Γ is one `sparse_maximum`. The best v is looked for: by Newton's method where R is
    quadratic and Γ is given by bounds and linear caps, by fully corrective Frank-Wolfe elsewhere. With a time limit or
    a target, branch and bound goes on from there. Groups, features and quotas (`ellzero.sparsity`) are decided as a
    whole; for ranks no relaxation is known.

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
    need_risk(risk)
    if not isinstance(result, Result):
        raise TypeError(f"result must be what ellzero.minimize returned for the risk, got {result!r}")
    limit = math.inf if time_limit is None else check_positive(time_limit, "time_limit")
    target = None if target_gap is None else check_nonnegative(target_gap, "target_gap")
    started = time.perf_counter()
    prover = Prover(risk, result, target, started, started + limit)
    status = CertificateStatus.BOUND
    if (time_limit is not None or target_gap is not None) and not prover.done:
        status = prover.run(callback)
    return prover.certificate(result.fun, status)


class Prover:
    """A lower bound for the problem of an answer, raised by branching; nothing is looked for that is not better.

    `target` is the relative gap that is enough, `started` and `deadline` are readings of `time.perf_counter`, and
    `refused` tells why there is no bound; it is empty if there is one.
    """

    @np.errstate(over="ignore", invalid="ignore")  # what is beyond all numbers bounds nothing
    def __init__(self, risk: Risk, result: Result, target: float | None, started: float, deadline: float) -> None:
        self.risk, self.result, self.target, self.started, self.refused = risk, result, target, started, ""
        before = risk.n_sweeps
        try:
            self.answer = Answer(risk, result, deadline)
            self.root = bound_root(self.answer, target)
            self.search = Search(self.answer, self.root, target)
        except NoBound as reason:
            self.refused = str(reason)
        self.n_sweeps = risk.swept(before)

    @property
    def bound(self) -> float:
        """What no feasible point goes below."""
        return float(self.risk.lower_bound) if self.refused else self.search.bound

    @property
    def done(self) -> bool:
        """Whether branching would add nothing."""
        return bool(self.refused) or self.search.done

    def run(self, callback: Callable[[Progress], Any] | None) -> CertificateStatus:
        """Branch; an interruption or the callback's StopIteration ends it cleanly."""
        search, before = self.search, self.risk.n_sweeps
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                search.run(callback)
        except StopIteration:
            return CertificateStatus.INTERRUPTED
        except KeyboardInterrupt:
            if inside_a_larger_call():
                raise
            return CertificateStatus.INTERRUPTED
        finally:
            self.n_sweeps += self.risk.swept(before)
        if search.bound >= search.cutoff:
            return CertificateStatus.TARGET
        return CertificateStatus.TIME_LIMIT if search.heap else CertificateStatus.EXHAUSTED

    def accept(self, result: Result) -> None:
        """Go on from another answer to the same problem."""
        self.result = result
        if not self.refused and result.fun < self.search.value:
            self.search.accept(None, *self.answer.measured(to_host(result.x).astype(float)))

    def best(self) -> tuple[Any, float]:
        """The best point known, and R there: the answer, unless the search met a better one."""
        if self.refused or self.search.best is None:
            return self.result.x, self.result.fun
        x = self.risk.as_vector(self.search.best)
        return x, self.answer.measured(to_host(x).astype(float))[0]

    def certificate(self, fun: float, status: CertificateStatus) -> Certificate:
        """What is proved of an answer to the problem with the objective `fun`."""
        x, best = self.best()
        gap, none = max(0.0, fun - self.bound), np.empty(0, dtype=np.intp)
        certificate = Certificate(
            objective=fun,
            lower_bound=self.bound,
            gap=gap,
            relative_gap=gap / abs(fun) if fun else (0.0 if gap == 0 else math.inf),
            explained_gap=math.inf,
            proved_in=none,
            proved_out=none,
            status=CertificateStatus.NO_BOUND,
            how="the lowest value that the risk can have at all",
            advice=self.refused,
            nodes=0,
            seconds=time.perf_counter() - self.started,
            history=[],
            x=x,
            fun=min(best, fun),
            sparsity=self.result.sparsity,
            n_sweeps=self.n_sweeps,
        )
        if self.refused:
            return certificate
        if gap <= 1.01 * self.answer.allowance(fun):
            status = CertificateStatus.OPTIMAL
        elif self.target is not None and gap <= self.target * abs(fun):
            status = CertificateStatus.TARGET
        elif status is CertificateStatus.TARGET:
            status = CertificateStatus.BETTER
        explained, relaxation = self.answer.at_zero - fun, self.root.relaxation
        return replace(
            certificate,
            explained_gap=gap / explained if math.isfinite(explained) and explained > 0 else math.inf,
            proved_in=self.root.proved_in,
            proved_out=self.root.proved_out,
            status=status,
            how=relaxation.how,
            advice="" if status is CertificateStatus.OPTIMAL else relaxation.advice,
            nodes=self.search.nodes,
            history=self.search.history,
        )
