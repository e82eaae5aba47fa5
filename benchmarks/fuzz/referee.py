"""What the library says about a case, held against rational arithmetic and 72 digits."""

from __future__ import annotations

import itertools
import math
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from .cases import LIMIT, Case, Header, case
from .polish import descend, polish
from .rationals import Vector, vector
from .regions import MP, fraction, mp

#: what must not happen, and what it is called
ERRORS = {
    "invalid": "a lower bound above R of a member",
    "optimal": '"optimal" said of a point that is not',
    "fun": "fun is not R(x)",
    "refused": "an own result or a feasible problem refused",
    "crash": "an exception that says nothing about the problem",
    "warning": "a numerical warning leaks",
    "infeasible": "not sparse, or outside Γ",
    "late": "the time limit exceeded by more than 0.2 s",
    "hang": "no end",
}
GRACE = 0.2
_MOST_DESCENTS = 12


@dataclass
class Verdict:
    """What came out of a case."""

    header: Header
    flags: list[tuple[str, str]] = field(default_factory=list)
    proved: bool = False
    enumerated: bool = False
    missed: bool = False
    seconds: float = 0.0

    def flag(self, kind: str, words: str) -> None:
        """Note an error."""
        self.flags.append((kind, words))


@dataclass
class Claim:
    """What is said about a point: its objective, a bound for all members, and whether it is called optimal."""

    x: Any
    fun: float
    bound: float = -math.inf
    optimal: bool = False


class Hang(BaseException):
    """No end in sight; not an Exception, so that nobody catches it on the way."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise Hang after so many seconds of this process, however busy the machine is."""

    def stop(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def examine(seed: int, seconds: float = 10.0) -> Verdict:
    """Ask the library, and judge what it says."""
    problem = case(seed)
    verdict, started = Verdict(problem.header), time.perf_counter()
    claims: list[Claim] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with patience(seconds):
                claims = ask(problem, verdict)
        except Hang:
            verdict.flag("hang", f"no answer in {seconds:g} s of CPU time")
        except Exception as error:
            if not ("the objective at the start is" in str(error) and overflows(problem)) and not empty(problem):
                classify(error, verdict)
    for text in {str(w.message) for w in caught}:
        # NumPy's; the library's own warnings are written for its users. In single precision OpenBLAS reads beyond the
        # end of short vectors and sets the flag by what it finds there: nothing that the library could leave undone.
        if "encountered in" in text and not (problem.header.family == "float32" and "invalid" in text):
            verdict.flag("warning", text)
    if claims:
        judge(problem, claims, verdict)
    verdict.seconds = time.perf_counter() - started
    return verdict


def empty(problem: Case) -> bool:
    """Whether a budget has no coordinate on any support of a problem with groups or quotas."""
    budgets = [set(row.coef) for row in problem.region.rows if row.equal]
    return problem.counted is not None and not any(all(b & set(s) for b in budgets) for s in problem.supports())


def overflows(problem: Case) -> bool:
    """Whether R is beyond all floating-point numbers wherever the referee looks: a budget on columns of 1e7, say.

    It begins at members that the library's projection names, on every support, and goes down from there by itself.
    """
    values = []
    for support in problem.supports():
        try:
            member = np.asarray(problem.gamma.project(np.zeros(len(support)), np.array(support)), float)
        except ValueError:  # no member there
            continue
        w = dict(zip(support, map(Fraction, member.tolist()), strict=True))
        found = polish(problem.objective, problem.region, w)
        values.append(problem.objective.value(w) if found is None else found[0])
    return bool(values) and min(values) > sys.float_info.max


def classify(error: Exception, verdict: Verdict) -> None:
    """A refusal, a crash, or the word that nothing can be proved."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, ValueError) and "has no bound to work with" in str(error):
        return
    place = "".join(
        f" ({f.filename.rpartition('/')[2]}:{f.lineno})" for f in traceback.extract_tb(error.__traceback__)[-1:]
    )
    verdict.flag("refused" if isinstance(error, ValueError) else "crash", text[:200] + place)


def ask(problem: Case, verdict: Verdict) -> list[Claim]:
    """The library's answer and its certificate."""
    import ellzero as ez

    mode, risk = problem.header.mode, problem.risk
    limited = {"time_limit": LIMIT}
    method = {"method": "exact"} if mode == "exact timed" else {}
    options = method | (limited if mode in ("exact timed", "auto timed") else {})
    result = _timed(options, lambda: ez.minimize(risk, problem.asked, problem.gamma, **options), verdict)
    answer = Claim(np.asarray(result.x), result.fun, optimal=result.status is ez.Status.OPTIMAL)
    verdict.enumerated = mode == "root"
    if mode == "exact timed":
        certificate = result.certificate
    else:
        options = limited if mode == "certify timed" else {}
        try:
            certificate = _timed(options, lambda: ez.certify(risk, result, **options), verdict)
        except Exception as error:  # the answer is judged all the same
            classify(error, verdict)
            return [answer]
    verdict.proved = certificate.status.name == "OPTIMAL"
    answer.bound, answer.optimal = certificate.lower_bound, answer.optimal or verdict.proved
    claims = [answer]
    if not np.array_equal(certificate.x, result.x):
        claims.append(Claim(np.asarray(certificate.x), certificate.fun, optimal=certificate.status.name == "BETTER"))
    return claims


def _timed(options: dict[str, Any], call: Callable[[], Any], verdict: Verdict) -> Any:
    wall, cpu = time.perf_counter(), time.process_time()
    out = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if "time_limit" in options and min(wall, cpu) > options["time_limit"] + GRACE:
        verdict.flag("late", f"{wall:.2f} s wall, {cpu:.2f} s cpu for time_limit={options['time_limit']:g}")
    return out


def judge(problem: Case, claims: list[Claim], verdict: Verdict) -> None:
    """Feasibility, objective, bound and optimality of what is claimed."""
    objective, region = problem.objective, problem.region
    exactly = Fraction if objective.exact else mp
    zero = objective.value({})
    points: list[Vector] = []
    for claim in claims:
        if not (np.isfinite(claim.x).all() and math.isfinite(claim.fun)):
            verdict.flag("fun", f"R = {claim.fun} at {claim.x}")
            return
        w = vector(claim.x)
        points.append(w)
        value = _value(problem, w, claim.x)
        scale = max(abs(value), abs(zero - value))
        violation, allowed = region.violation(w), 4e-6 if problem.single else 1e-12
        if not problem.admits(w) or violation > allowed:
            verdict.flag("infeasible", f"{len(w)} nonzeros for k={problem.asked!r}, violation {violation:.2g}")
        off = abs(exactly(float(claim.fun)) - value)
        # no x in double precision fits better than its rounding
        grain = 1e-28 * float(np.sum(np.abs(claim.x))) ** 2
        if off > scale * exactly(1e-6 if problem.single else 1e-9) + exactly(grain):
            verdict.flag("fun", f"fun {claim.fun:.10g}, R(x) {float(value):.10g}: off by {ratio(off, scale):.2g}")
    full, best = reference(problem, points)
    verdict.enumerated &= full
    for claim, w in zip(claims, points, strict=True):
        value = _value(problem, w, claim.x)
        scale = max(abs(best), abs(value), abs(zero - value), abs(zero - best))
        if math.isnan(claim.bound) or claim.bound == math.inf or claim.bound > best:
            above = ratio(exactly(claim.bound) - best, scale) if math.isfinite(claim.bound) else math.inf
            verdict.flag("invalid", f"bound {claim.bound:.12g} above {float(best):.12g} by {above:.2g}")
        if claim.optimal and value - best > scale * exactly(3e-5 if problem.single else 3e-6):
            verdict.flag(
                "optimal", f"R(x) {float(value):.12g}, best {float(best):.12g}: {ratio(value - best, scale):.2g}"
            )
    value = _value(problem, points[0], claims[0].x)
    floor = exactly(1e-9) * abs(zero - best)
    verdict.missed = verdict.enumerated and value - best > max(exactly(0.01) * abs(best), floor)


def ratio(a: Any, b: Any) -> float:
    """a / b."""
    return float(a / b) if b else math.inf


def _value(problem: Case, w: Vector, x: np.ndarray) -> Any:
    """R(w): the least over intercepts, our own and, where several saturated classes hide it, the library's."""
    objective = problem.objective
    value = objective.value(w)
    if objective.n_intercepts:
        b = np.atleast_1d(problem.risk.intercept(problem.risk.as_vector(x)))
        b = b[1:] - b[0] if b.size > 1 else b
        value = min(value, objective.value(w, [mp(float(t)) for t in b]))
    return value


def reference(problem: Case, points: list[Vector]) -> tuple[bool, Any]:
    """Whether every support was looked at, and R of the best member that was found."""
    objective, region, head = problem.objective, problem.region, problem.header
    d, k = objective.d, min(problem.k, objective.d)
    full = head.full or d <= 3
    rng = np.random.default_rng([1515, head.seed])
    if objective.exact and not region.curves:
        if full and problem.counted is None:
            supports = [s for size in range(k + 1) for s in itertools.combinations(range(d), size)]
        else:
            bases = problem.supports() if full else [tuple(sorted(w)) for w in points]
            if problem.counted is None:
                bases.append(tuple(sorted(rng.choice(d, k, replace=False).tolist())))
            elif not full:
                bases.append(problem.supports()[int(rng.integers(len(problem.supports())))])
            supports = list({s for b in bases for size in range(len(b) + 1) for s in itertools.combinations(b, size)})
        return full, objective.minimum(region, supports)[0]
    found = [polish(objective, region, w) for w in points]
    supports = problem.supports()
    full &= len(supports) <= _MOST_DESCENTS
    if head.full or full:
        order = rng.permutation(len(supports))[:_MOST_DESCENTS]
        starts = [_start(problem, supports[i], points[0]) for i in order]
        good = sorted((s for s in starts if s is not None), key=lambda pair: pair[0])
        found += [polish(objective, region, w) for _, w in good[:2]]
    members = [pair[0] for pair in found if pair is not None]
    # where rounding keeps every point that was found just outside, nothing can be refuted
    return (full, min(members)) if members else (False, MP.inf)


def _start(problem: Case, support: tuple[int, ...], w: Vector) -> tuple[float, Vector] | None:
    """A good point on a support in double precision, and about what R is there."""
    risk, d = problem.risk, problem.objective.d

    def value(w: np.ndarray) -> tuple[float, np.ndarray]:
        point = risk.at(risk.as_vector(w))
        return float(point.value), np.asarray(point.gradient, float)

    start = np.zeros(d)
    for i, v in w.items():
        start[i] = float(v)
    found = descend(value, problem.region, support, start, problem.unit)
    found = None if found is None else problem.region.inside(found)
    if found is None:
        return None
    x = np.zeros(d)
    for i, v in found.items():
        x[i] = float(v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fun = value(x)[0]
    return (fun, found) if math.isfinite(fun) else None


__all__ = ["ERRORS", "Claim", "Verdict", "case", "examine", "fraction", "judge"]
