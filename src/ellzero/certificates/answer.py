"""An answer, its problem, and R around it: at points, with what rounding may have changed, and on single supports."""

import math
from functools import cached_property

import numpy as np

from .._core.arrays import finfo_eps, to_host
from ..risks import Risk
from ..risks.accuracy import EPS, Measured, PlainMeasure, QuadraticForm
from ..sets import ConstraintSet
from ..solver.problem import make_problem
from ..solver.refit import refit
from ..solver.result import Result
from ..theory.constants import largest_norm
from .support_bound import Slice, bound_on_support
from .supports import supports_of

_LARGEST = 10**7  # entries that are looked at for copies of columns


class NoBound(Exception):
    """Nothing useful is known below R; the message says why, and what would help."""


def require_squares(risk: Risk) -> None:
    """Raise NoBound where squares of the data are lost."""
    squares = risk.squares()
    if squares is not None and bool(((squares > 0) & (squares < 1e-280)).any()):
        raise NoBound("the data are so small that their squares underflow; rescale them")


class Answer:
    """An answer x to min R(w) over sparse w in Γ, for a convex R.

    Attributes
    ----------
    value, error : float
        |R(x) - value| <= error.
    at_zero : float
        R(0).
    supports : Supports
        What a sparse w may use.
    deadline : float
        The reading of `time.perf_counter` after which nothing new is begun.
    """

    def __init__(self, risk: Risk, result: Result, deadline: float) -> None:
        self.risk, self.result, self.deadline = risk, result, deadline
        if not result.sparsity.of_coordinates:
            raise NoBound(f"lower bounds are made of supports, and {result.sparsity.words} is no matter of supports")
        if not result.sparsity.by_atoms:
            raise NoBound(
                f"no relaxation is known for {result.sparsity!r}: proofs go over sets of coordinates, groups or "
                "features, at most k in all and so many of each group, which a rule of its own is not"
            )
        problem = make_problem(risk, result.sparsity, result.constraint, None)
        self.gamma, self.kept, self.d = problem.gamma, result.keep, risk.n_features
        self.supports = supports_of(problem.sparsity, self.d)
        if not risk.has_gradient:
            raise NoBound("a black box has no gradients, and without convexity no value bounds another")
        self.x, here, self.at_zero = own_point(risk, result)
        self.value, self.error, self._grain = here.value, here.error, here.grain
        if not risk.convex:
            raise NoBound("R is not known to be convex; if it is, say so (Smooth(..., convex=True))")
        require_squares(risk)
        self.readable = risk.readable

    @cached_property
    def form(self) -> QuadraticForm | None:
        """R as a quadratic function; None where it is none, or its matrix too dear."""
        return self.risk.quadratic_form(self.supports.nonzeros)

    def without_copies(self, index: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See the function `without_copies`; what must be kept is never left out.

        Copies of it are, and of other columns those that these can stand in for in every support.
        """
        first, classes = np.union1d(first, self.kept), self.supports.classes(index)
        return without_copies(self.risk, self.gamma, index, first, np.where(np.isin(index, self.kept), -2, classes))

    def allowance(self, fun: float, target: float | None = None) -> float:
        """The gap that is left open: relative to R or, for a proof of optimality, to what x explains if less."""
        if target is not None:
            return target * abs(fun)
        explained = self.at_zero - fun
        if not (math.isfinite(explained) and explained > 0):
            return 1e-6 * abs(fun)
        less, more = sorted((abs(fun), explained))
        return max(1e-6 * less, min(self._grain, 1e-6 * more))  # a perfect fit is one up to the rounding of x

    def measured(self, x: np.ndarray) -> tuple[float, float]:
        """R(x), and how far that may be off."""
        here = measure(self.risk, x, np.flatnonzero(x), closely=False)
        return here.value, here.error

    def refit(self, support: np.ndarray) -> tuple[float, np.ndarray]:
        """The least R on a support, and where it is attained."""
        point = refit(self.risk, self.gamma, support, to_host(self.result.x)[support], deadline=self.deadline)
        return point.value, to_host(point.w).astype(float)

    @np.errstate(over="ignore", invalid="ignore")
    def bound(self, support: np.ndarray) -> float:
        """A lower bound of R on a support, next to the least value: see `support_bound`."""
        support, gamma = without_copies(self.risk, self.gamma, support, self.kept)[0], self.gamma
        value, w = self.refit(support)
        if self.result.fun < value and np.isin(np.flatnonzero(self.x), support).all():
            w = self.x.copy()
        here, across = measure(self.risk, w, support, closely=True), 0.0
        if here.shifts is not None and gamma.whole_space:
            across = 1.0
        elif here.shifts is not None and gamma.orthant:
            # members are shifted until one entry is 0; then the difference to an x of that kind has both signs, so that
            # its mean is at most its range, twice the largest entry of what is across
            across = 1 / (1 + 2 * math.sqrt(max(shift.size for shift in here.shifts)))
            for shift in here.shifts:
                w[support[shift]] -= w[support[shift]].min()
            here = measure(self.risk, w, support, closely=True)
        x, reach = w[support], largest_norm(gamma, max(self.supports.nonzeros, 1), self.d)
        extent = math.inf if reach is None else reach + float(np.linalg.norm(x))
        part = Slice(lambda v: gamma.supporting(v, support), extent, across, gamma.separable)
        return bound_on_support(here, x, part, 0.1 * self.allowance(here.value), self.deadline)


def measure(risk: Risk, x: np.ndarray, support: np.ndarray, *, closely: bool) -> Measured:
    """R at x with its rounding, as far as that is known of the risk."""
    here = risk.measured(x, support, closely=closely)
    if here is None or not math.isfinite(here.value):
        point, nu = risk.at(risk.as_vector(x)), risk.strong_convexity
        curved = max(0.0, nu.value) if nu.source != "estimate" and math.isfinite(nu.value) else 0.0
        rounding = max(EPS, finfo_eps(risk.zero)) * max(risk.n_features, risk.n_terms)
        here = PlainMeasure(point.value, x, to_host(point.gradient).astype(float), support, curved, rounding)
    return here


def own_point(risk: Risk, result: Result) -> tuple[np.ndarray, Measured, float]:
    """x of a result, R there and R(0); the result must be one of this risk: everything rests on its objective."""
    x, d = to_host(result.x).astype(float, copy=False), risk.n_features
    if x.size != d:
        raise ValueError(
            f"result must be what ellzero.minimize returned for this risk: it has {x.size} coordinates, the risk {d}"
        )
    at_zero, here = risk.at(risk.zero).value, measure(risk, x, np.flatnonzero(x), closely=False)
    value, fun = here.value, result.fun
    if not abs(value - fun) <= 1e-9 * abs(value) + 1e-12 * abs(at_zero) + 2 * here.error:
        raise ValueError(
            f"result must be what ellzero.minimize returned for this risk: its objective is {fun:.8g}, "
            f"but R of its x is {value:.8g} here"
        )
    return x, here, at_zero


def without_copies(
    risk: Risk, gamma: ConstraintSet, index: np.ndarray, first: np.ndarray, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates among the index on which R reaches all that it reaches on the index, with as few nonzeros; and all
    that have a copy.

    Columns that are exact copies of others, up to a factor, take all curvature from R, and nothing needs them.
    If x_j = c·x_i exactly, w_j can be given to i (as c·w_j) and R stays the same, as long as there is no ridge and w_i
    may be any number, or any non-negative one and c > 0. Columns of zeros, and constant ones beside an intercept, do
    nothing. The coordinates in `first` are never left out for the sake of others.

    Where not every support with i in place of j is admitted, `classes` tells for each of the index which others can
    stand in for it: those of the same class, and those of class -2, which are in every support.
    """
    if not (gamma.whole_space or gamma.orthant) or risk.n_terms * index.size > _LARGEST:
        return index, index[:0]
    X = risk.columns(index)
    if X is None:
        return index, index[:0]
    largest = np.abs(X).max(axis=0)
    idle = largest == 0
    if risk.fit_intercept:
        idle |= (X[:1] == X).all(axis=0)
    exponent = np.frexp(largest)[1]
    scaled = np.ldexp(X, -exponent)
    exact = (np.ldexp(scaled, exponent) == X).all(axis=0)  # a power of two, unless something underflows
    X = np.where(exact, scaled, X)
    if gamma.whole_space:
        leading = X[(X != 0).argmax(axis=0), np.arange(index.size)]
        X = X * np.where(leading < 0, -1.0, 1.0)
    X += 0.0  # no negative zeros
    wanted = np.isin(index, first)
    classes = np.zeros(index.size, dtype=np.intp) if classes is None else classes
    alike: dict[tuple[bytes | int, int], list[int]] = {}
    for j in map(int, np.argsort(~wanted, kind="stable")):
        alike.setdefault((X[:, j].tobytes() if exact[j] else j, int(classes[j])), []).append(j)
    stay, several = wanted.copy(), []
    for (column, which), those in alike.items():
        always = which != -2 and (column, -2) in alike
        stay[those[0]] |= not (idle[those[0]] or always)
        several += those if len(those) > 1 or always else []
    return index[stay], np.sort(index[several])
