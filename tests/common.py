"""Shared by the tests: sets, an independent referee for their projections, what pages print."""

from __future__ import annotations

import itertools
import re
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

from ellzero import sets as S

# the data folder beside the repository
SHARED = Path(__file__).resolve().parents[2] / "shared"


def support_preserving_sets(d: int, rng: np.random.Generator) -> dict[str, S.ConstraintSet]:
    """One of every kind in d dimensions, with random parameters."""
    r = float(rng.uniform(0.3, 2.0))
    labels = rng.integers(0, 3, d)
    A = rng.uniform(0, 1, (3, d)) * (rng.random((3, d)) < 0.6)
    return {
        "Everywhere": S.Everywhere(),
        "Box": S.Box(-rng.uniform(0, 2, d), rng.uniform(0, 2, d)),
        "NonNegative": S.NonNegative(),
        "L1Ball": S.L1Ball(r),
        "L2Ball": S.L2Ball(r),
        "LinfBall": S.LinfBall(r),
        "LpBall 1.5": S.LpBall(1.5, r),
        "LpBall 4": S.LpBall(4, r),
        "WeightedL1Ball": S.WeightedL1Ball(rng.uniform(0.2, 3, d), r),
        "Ellipsoid": S.Ellipsoid(rng.uniform(0.2, 3, d), r),
        "SubSimplex": S.SubSimplex(r),
        "PackingPolytope": S.PackingPolytope(A, rng.uniform(0.1, 1.5, 3)),
        "GroupWise l1": S.GroupWise(S.L1Ball(r), labels),
        "GroupWise mixed": S.GroupWise({0: S.L2Ball(r), 1: S.SubSimplex(r)}, groups=labels_covering(labels, 3)),
        "Intersection": S.Intersection(S.L1Ball(r), S.LinfBall(0.6 * r)),
    }


def labels_covering(labels: np.ndarray, n: int) -> list[int]:
    """The labels, changed at the front so that each of 0..n-1 occurs (as far as there is room)."""
    out = labels.tolist()
    out[: min(n, len(out))] = range(min(n, len(out)))
    return out


def membership(constraint: S.ConstraintSet, w: cp.Variable) -> list[cp.Constraint]:
    """The set as cvxpy constraints, written from its definition."""
    match constraint:
        case S.Everywhere():
            return []
        case S.Box():
            return [w >= constraint.lower, w <= constraint.upper]
        case S.NonNegative():
            return [w >= 0]
        case S.L1Ball():
            return [cp.norm1(w) <= constraint.radius]
        case S.L2Ball():
            return [cp.norm2(w) <= constraint.radius]
        case S.LinfBall():
            return [cp.norm_inf(w) <= constraint.radius]
        case S.LpBall():
            return [cp.pnorm(w, constraint.p) <= constraint.radius]
        case S.WeightedL1Ball():
            return [cp.norm1(cp.multiply(constraint.weights, w)) <= constraint.radius]
        case S.Ellipsoid():
            return [cp.norm2(cp.multiply(1 / constraint.scales, w)) <= constraint.radius]
        case S.SubSimplex():
            return [w >= 0, cp.sum(w) <= constraint.total]
        case S.Simplex():
            return [w >= 0, cp.sum(w) == constraint.total]
        case S.PackingPolytope():
            return [w >= 0, constraint.A @ w <= constraint.b]
        case S.Intersection():
            return list(itertools.chain(*(membership(s, w) for s in constraint.sets)))
        case S.GroupWise():
            pairs = zip(constraint.sets, constraint._members, strict=True)
            return list(itertools.chain(*(membership(s, w[index]) for s, index in pairs if s is not None)))
    raise NotImplementedError(constraint)


def referee_projection(constraint: S.ConstraintSet, v: np.ndarray) -> np.ndarray:
    """The projection by a general convex solver."""
    w = cp.Variable(v.size)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w - v)), membership(constraint, w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate" beyond the accuracy the tests compare at
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return np.asarray(w.value)


def brute_force_projection(constraint: S.ConstraintSet, v: np.ndarray, k: int) -> tuple[float, np.ndarray]:
    """The nearest member with at most k nonzeros, over all supports of size k: distance² and point."""
    best = (np.inf, v)
    for support in itertools.combinations(range(v.size), min(k, v.size)):
        index = np.array(support, dtype=np.intp)
        w = np.zeros_like(v)
        w[index] = constraint.project(v[index], index)
        best = min(best, (float((w - v) @ (w - v)), w), key=lambda pair: pair[0])
    return best


NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]?\d+)?")


def assert_printed(block, output):
    """The block's lines are a part of the output: the same words, numbers up to 2%, times left out."""

    def words(line):
        return NUMBER.sub("#", re.sub(r"\d+\.\d+ s\b", "", line)).split()

    def numbers(line):
        return [float(n) for n in NUMBER.findall(re.sub(r"\d+\.\d+ s\b", "", line))]

    wanted, lines = block.splitlines(), output.splitlines()
    start = next((i for i, line in enumerate(lines) if words(line) == words(wanted[0])), None)
    assert start is not None, f"{wanted[0]!r} was not printed:\n{output}"
    for line, printed in zip(wanted, lines[start:], strict=False):
        assert words(line) == words(printed)
        assert numbers(printed) == pytest.approx(numbers(line), rel=0.02, abs=1e-9)
    assert len(lines) >= start + len(wanted)


def near_copies(seed, d):
    """Columns in pairs that differ by 1e-11 to 1e-2, of lengths apart or alike, and y."""
    rng = np.random.default_rng(seed)
    n, near = int(rng.integers(12, 60)), 10.0 ** rng.uniform(-11, -2)
    X = rng.standard_normal((n, d))
    for j in range(1, d, 2):
        X[:, j] = X[:, j - 1] * rng.choice([1, -1, 3]) + near * rng.standard_normal(n)
    X = X[:, rng.permutation(d)] * (10.0 ** rng.uniform(-4, 4, d) if seed % 3 == 0 else 1.0)
    size = np.linalg.norm(X, axis=0)
    w = rng.standard_normal(d) / size * (rng.random(d) < 0.6)
    noise = 1e-5 if seed % 4 == 0 else 0.1
    return X, X @ w + noise * rng.standard_normal(n) / np.sqrt(n), 10.0 ** rng.uniform(-2, 2) / size


def some_bounds(seed, limit):
    """One of a few kinds of sets, and its bounds."""
    lower, upper = [(0 * limit, np.inf + limit), (-limit, limit), (0 * limit, limit)][seed % 3]
    return S.NonNegative() if seed % 3 == 0 else S.Box(lower, upper), lower, upper


def least_between(A, y, lower, upper):
    """min mean (Au - y)² between bounds: the least over all faces, each by its columns, and not by their products."""
    size, k = np.linalg.norm(A, axis=0), A.shape[1]
    A, lower, upper, least = A / size, lower * size, upper * size, np.mean(y**2)
    for face in itertools.product((0, -1, 1), repeat=k):
        side = np.array(face)
        u, free = np.where(side < 0, lower, np.where(side > 0, upper, 0.0)), side == 0
        if np.isfinite(u).all():
            u[free] = np.linalg.lstsq(A[:, free], y - A[:, ~free] @ u[~free], rcond=None)[0]
            if (u >= lower * (1 + 1e-12)).all() and (u <= upper * (1 + 1e-12)).all():
                least = min(least, float(np.mean((A @ np.clip(u, lower, upper) - y) ** 2)))
    return least
