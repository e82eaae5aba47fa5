"""Steps among matrices of rank at most r, in which the factors of W = U diag(s) Vᵀ are refitted all at once."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._core.arrays import Array, finfo_eps, like, namespace, norm, to_host
from .._core.singular import leading, svd
from .._core.stopping import Status, Stop
from ..risks.base import Point
from ..sets import ConstraintSet
from .problem import Problem
from .projections import Projector
from .steps import AdaptiveStep

_PRODUCTS = 100  # gradients for one step of Newton's method, or of one run of accelerated steps
_CLOSE = 1e-6  # relative moves below which other tangent spaces are looked for
_LOOSE = 0.1  # the same while the rank is to grow
_ROUGH = 0.3  # how much of the slope a direction may leave far from the answer, where exact ones do not help
_MUCH = 0.8  # singular values that are smaller than this part of the largest wait for their turn


class Factors(NamedTuple):
    """W = U diag(s) Vᵀ with orthonormal U and V, and s decreasing and positive."""

    U: Array
    s: Array
    V: Array

    @property
    def matrix(self) -> Array:
        """W."""
        return (self.U * self.s) @ self.V.T


class Tangent:
    """The directions U M Vᵀ + A Vᵀ + U Bᵀ, UᵀA = 0 and VᵀB = 0, in which W = U diag(s) Vᵀ keeps its rank.

    A direction is M, A and B, one below the other: inner products are the ones of these numbers.
    """

    def __init__(self, at: Factors) -> None:
        self.at, self.xp = at, namespace(at.U)
        self.q, self.m = at.s.shape[0], at.U.shape[0]

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """M, A and B."""
        return x[: self.q, :], x[self.q : self.q + self.m, :], x[self.q + self.m :, :]

    def project(self, G: Array) -> Array:
        """The nearest direction to a matrix."""
        U, _, V = self.at
        GV, GU = G @ V, G.T @ U
        M = U.T @ GV
        return self.xp.concat([M, GV - U @ M, GU - V @ M.T])

    def matrix(self, x: Array) -> Array:
        """A direction as a matrix."""
        U, _, V = self.at
        M, A, B = self.parts(x)
        return (U @ M + A) @ V.T + U @ B.T

    def bent(self, G: Array, x: Array) -> Array:
        """What the curvature of the set of these matrices adds to ∇²R, with the gradient G: GBS⁻¹ to A, GᵀAS⁻¹ to B."""
        U, s, V = self.at
        M, A, B = self.parts(x)
        GB, GA = G @ (B / s), G.T @ (A / s)
        return self.xp.concat([0.0 * M, GB - U @ (U.T @ GB), GA - V @ (V.T @ GA)])

    def moved(self, x: Array, r: int, values: ConstraintSet) -> Factors:
        """The nearest matrix to W + x with at most r singular values, which lie in a set."""
        U, s, V = self.at
        M, A, B = self.parts(x)
        if 2 * self.q > min(self.m, V.shape[0]):
            return _fitted(*leading(self.at.matrix + self.matrix(x), r), values)
        xp = self.xp
        P, A = xp.linalg.qr(A - U @ (U.T @ A))  # again, because rounding errors of large parts stay in small ones
        Q, B = xp.linalg.qr(B - V @ (V.T @ B))
        core = xp.concat([xp.concat([M + _diagonal(s), B.T], axis=1), xp.concat([A, 0.0 * M], axis=1)])
        left, s, right = svd(core)
        left, right = xp.concat([U, P], axis=1) @ left[:, :r], right[:r, :] @ xp.concat([V, Q], axis=1).T
        return _fitted(_orthonormal(left), s[:r], _orthonormal(right.T).T, values)


def _orthonormal(U: Array) -> Array:
    """Columns that are orthonormal up to rounding errors that have added up, without these."""
    return U @ (1.5 * like(np.eye(U.shape[1]), U) - 0.5 * (U.T @ U))


def _diagonal(s: Array) -> Array:
    return s * like(np.eye(s.shape[0]), s)


def _fitted(U: Array, s: Array, Vt: Array, values: ConstraintSet) -> Factors:
    """With the singular values projected onto their set, and without those that are zero."""
    s = s if values.whole_space else values.project(s)
    return _cut(Factors(U, s, Vt.T), finfo_eps(s))


def _cut(at: Factors, tol: float) -> Factors:
    """Without singular values that are at most so much of the largest."""
    q = int(np.count_nonzero(to_host(at.s > tol * at.s[:1]))) if at.s.shape[0] else 0
    return Factors(at.U[:, :q], at.s[:q], at.V[:, :q])


@dataclass
class FactorStep(AdaptiveStep):
    """Newton's step along the tangent space of the matrices of rank r, its linear system solved by conjugate gradients.

    All factors move at once, and a step is taken as far as it lowers R. Where Γ binds, accelerated projected gradient
    steps take its place. Projected steps of the whole gradient, see `AdaptiveStep`, begin, and where no direction of
    the tangent space helps any more they look for other singular vectors; when they find none, the search has settled.
    The rank grows from that of the start, by the singular values that stand out: what is small is found with what is
    large known, and not in its place. Products of ∇²R with a direction are differences of gradients, counted as such.
    """

    problem: Problem = field(kw_only=True)
    deadline: Callable[[], float] = lambda: math.inf
    first_slope: float = math.nan

    def __post_init__(self) -> None:
        sparsity, gamma = self.problem.sparsity, self.problem.gamma
        values = None if sparsity.shape is None else gamma.of_singular_values(sparsity.shape)
        if sparsity.shape is None or values is None:
            raise ValueError(
                f'step="factors" is for a rank, and a set of singular values if any; got {sparsity!r} and {gamma!r}. '
                'Use step="adaptive"'
            )
        self.shape, self.r, self.values = sparsity.shape, sparsity.k, values
        self._made: tuple[Point, Factors] | None = None

    def advance(self, point: Point, gradient: Array, project: Projector) -> Point:
        at = self._factors(point)
        q = at.s.shape[0]
        if math.isnan(self.size) and (found := self._anywhere(point, gradient, project, q)) is not None:
            return found
        trial = self._tangential(point, gradient, at) if q else None
        if trial is not None and trial.distance(point) > (_CLOSE if q == self.r else _LOOSE) * point.size:
            return trial
        if trial is not None:
            self.counts.n_gradients += point.risk.n_terms
            return self._anywhere(trial, trial.gradient, project, q) or trial
        found = self._anywhere(point, gradient, project, q)
        if found is None:
            raise Stop(Status.SETTLED)
        return found

    def _anywhere(self, point: Point, gradient: Array, project: Projector, q: int) -> Point | None:
        """The point after a projected step of the whole gradient, if that is lower."""
        found = super().advance(point, gradient, project)
        for better in (self._with_few(found, q), found):
            if better is not None and self._lower(better, point):
                return better
        return None

    def _with_few(self, found: Point, q: int) -> Point | None:
        """A point of larger rank than q, without the new singular values that are much smaller than the largest new."""
        at = self._factors(found)
        few = _cut(at, _MUCH * float(at.s[q] / at.s[0])) if q < at.s.shape[0] else at
        return self._at(few.matrix) if few.s.shape[0] < at.s.shape[0] else None

    def _factors(self, point: Point) -> Factors:
        if self._made is not None and self._made[0] is point:
            return self._made[1]
        W = namespace(point.w).reshape(point.w, self.shape)
        U, s, Vt = leading(W, self.r)
        return _cut(Factors(U, s, Vt.T), 16 * max(self.shape) * finfo_eps(s))

    def _lower(self, found: Point, base: Point) -> bool:
        value = self.counts.base_value(base)
        return self.counts.base_value(found) < value - 1e-12 * abs(value)

    def _at(self, W: Array) -> Point:
        return self.problem.risk.at(namespace(W).reshape(W, (-1,)))

    def _gradient(self, point: Point) -> Array:
        self.counts.n_gradients += point.risk.n_terms
        return namespace(point.w).reshape(point.gradient, self.shape)

    def _tangential(self, point: Point, gradient: Array, at: Factors) -> Point | None:
        """The point after a step along the tangent space; None if none is lower."""
        G = namespace(gradient).reshape(gradient, self.shape)
        inside = self.values.whole_space or self.values.violation(at.s * (1 + _CLOSE)) == 0
        found = self._newton(point, G, at) if inside else self._accelerated(point, G, at)
        if found is not None:
            self._made = found
        return None if found is None else found[0]

    def _newton(self, point: Point, G: Array, at: Factors) -> tuple[Point, Factors] | None:
        space, value = Tangent(at), self.counts.base_value(point)
        slope = space.project(G)
        x = self._newton_direction(point, G, space, slope)
        if not 0 < _length(x) < math.inf:
            return None
        down, size = _inner(slope, x), 1.0
        for _ in range(12 if -down > finfo_eps(G) * abs(value) else 1):
            to = space.moved(size * x, space.q, self.values)
            trial = self._at(to.matrix)
            if self.counts.base_value(trial) <= value + 1e-4 * size * min(down, 0.0) - 1e-15 * abs(value):
                return trial, to
            size *= 0.5
        return None

    def _newton_direction(self, point: Point, G: Array, space: Tangent, slope: Array) -> Array:
        """-H⁻¹ slope, to a part that shrinks with the slope, or as far as R is convex."""
        risk, W = self.problem.risk, space.at.matrix
        model = risk.curvature(point)
        quadratic = model is not None and model.exact
        reach = 1.0 if quadratic else math.sqrt(finfo_eps(W))  # of differences
        steep = _length(slope)
        self.first_slope = steep if math.isnan(self.first_slope) else max(steep, self.first_slope)
        rounding = 4 * finfo_eps(G) * _length(G)
        goal = max(min(_ROUGH, math.sqrt(steep / (self.first_slope or 1.0))) * steep, rounding)
        x, left = 0.0 * slope, -slope
        direction, square = left, steep * steep
        for _ in range(_PRODUCTS if steep > rounding else 0):
            D = space.matrix(direction)
            h = reach * _length(W) / _length(D)
            image = space.project((self._gradient(self._at(W + h * D)) - G) / h) + space.bent(G, direction)
            bend = _inner(direction, image)
            if not bend > 0:
                return x if _length(x) else -slope
            x, left = x + (square / bend) * direction, left - (square / bend) * image
            square, before = _inner(left, left), square
            far = _length(x) > _length(W)  # for a quadratic that is that of W alone
            if math.sqrt(square) <= goal or far or time.perf_counter() > self.deadline():
                break
            direction = left + (square / before) * direction
        return x

    def _accelerated(self, point: Point, G: Array, at: Factors) -> tuple[Point, Factors] | None:
        best, best_at, ahead, ahead_at, t = point, at, point, at, 1.0
        L = 1 / self.size
        for _ in range(_PRODUCTS // 4):
            space = Tangent(ahead_at)
            slope = space.project(G)
            L *= 0.9
            while True:
                to = space.moved(-slope / L, at.s.shape[0], self.values)
                trial = self._at(to.matrix)
                if self._smooth_enough(ahead, ahead.gradient, trial, L) or not L < 1e100:
                    break
                L *= 2.0
            if not self.counts.base_value(trial) < self.counts.base_value(best):
                if ahead is best:
                    break
                ahead, ahead_at, t = best, best_at, 1.0
            else:
                later = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
                space = Tangent(to)
                push = (t - 1) / later * (trial.w - best.w)
                best, best_at, t = trial, to, later
                ahead_at = space.moved(space.project(namespace(push).reshape(push, self.shape)), space.q, self.values)
                ahead = self._at(ahead_at.matrix)
            if time.perf_counter() > self.deadline():
                break
            G = self._gradient(ahead)
        return None if best is point else (best, best_at)


def _inner(a: Array, b: Array) -> float:
    return float(namespace(a).sum(a * b))


def _length(a: Array) -> float:
    return norm(namespace(a).reshape(a, (-1,)))
