"""Sets that have members on some supports only: one of them is found, or there is none."""

from __future__ import annotations

import warnings
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest

import ellzero as ez
from ellzero import sets

D = 6


def simplex(total):
    return sets.Simplex(total), lambda w: [w >= 0, cp.sum(w) == total]


def linf(radius):
    return sets.LinfBall(radius), lambda w: [cp.abs(w) <= radius]


def box(upper):
    return sets.Box(0, upper), lambda w: [w >= 0, w <= upper]


def caps(cap):
    def rows(w):
        return [cp.norm1(w[:2]) <= cap, cp.norm1(w[2:4]) <= cap, cp.norm1(w[4:]) <= cap]

    return sets.GroupWise(sets.L1Ball(cap), [0, 0, 1, 1, 2, 2]), rows


def ellipsoid(scales):
    return sets.Ellipsoid(scales, 1.0), lambda w: [cp.norm(cp.multiply(1 / np.array(scales), w)) <= 1]


def weighted(weights):
    return sets.WeightedL1Ball(weights, 1.0), lambda w: [cp.norm1(cp.multiply(weights, w)) <= 1]


def packing(A, b):
    return sets.PackingPolytope(A, b), lambda w: [w >= 0, np.array(A) @ w <= b]


def own(upper):
    class Own(sets.ConstraintSet):
        closed_under_zeroing = True

        def project(self, v, support=None):
            return np.clip(v, 0.0, upper if support is None else upper[support])

    return Own(), lambda w: [w >= 0, w <= upper]


def intersection(*parts):
    return sets.Intersection(*(s for s, _ in parts)), lambda w: [row for _, rows in parts for row in rows(w)]


def in_groups(first, second):
    gamma = sets.GroupWise({"a": first[0], "b": second[0]}, ["a", "a", "a", "b", "b", "b"])
    return gamma, lambda w: [*first[1](w[:3]), *second[1](w[3:])]


CASES = {
    "simplex, bounded": intersection(simplex(1.0), linf(0.6)),
    "simplex, tightly bounded": intersection(simplex(1.0), linf(0.3)),
    "simplex in a box": intersection(simplex(1.0), box(np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.5]))),
    "simplex under caps": intersection(simplex(1.0), caps(0.4)),
    "simplex under caps and bounds": intersection(simplex(1.0), caps(0.5), linf(0.35)),
    "simplex in an ellipsoid": intersection(simplex(1.0), ellipsoid([0.1, 0.1, 0.1, 1.0, 0.6, 0.6])),
    "simplex in a weighted ball": intersection(simplex(1.0), weighted(np.array([2.0, 2, 2, 0.9, 1.1, 0.8]))),
    "simplex in a packing": intersection(simplex(1.0), packing([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0]], [0.5, 0.4])),
    "simplex in a set of one's own": intersection(simplex(1.0), own(np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.2]))),
    "simplex beside a weighted ball": in_groups(
        (sets.WeightedL1Ball([1.0, 2.0, 3.0], 5.0), lambda w: [cp.norm1(cp.multiply([1.0, 2.0, 3.0], w)) <= 5]),
        simplex(1.0),
    ),
    "bounded simplex beside a ball": in_groups(
        (sets.L2Ball(5.0), lambda w: [cp.norm(w) <= 5]), intersection(simplex(1.0), linf(0.6))
    ),
    "two simplices": in_groups(
        intersection(simplex(1.0), linf(0.6)), (sets.Ellipsoid(np.ones(3), 1.0), lambda w: [cp.norm(w) <= 1])
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_support_with_a_member_is_found_wherever_there_is_one(name, k):
    gamma, rows = CASES[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, D))
    y = 5 * X[:, 0] + 0.1 * X[:, 3] - X[:, 4] + 0.1 * rng.standard_normal(20)
    best = np.inf
    for support in combinations(range(D), k):
        u = cp.Variable(k)
        w = np.eye(D)[:, list(support)] @ u
        problem = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - y) / 20), rows(w))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy is not sure of what is only just infeasible
            problem.solve(solver=cp.CLARABEL)
        if problem.status == "optimal":
            best = min(best, problem.value)
    risk = ez.risks.LeastSquares(X, y)
    if best == np.inf:
        with pytest.raises(sets.EmptySlice):
            ez.minimize(risk, k, gamma)
    else:
        result = ez.minimize(risk, k, gamma)
        assert result.violation <= 1e-12
        assert result.fun >= best * (1 - 1e-6)
        v = rng.standard_normal(D)
        w = ez.restricted_projection(v, k, gamma)
        assert gamma.contains(w)
        assert np.count_nonzero(w) <= k


def test_supports_are_those_of_the_largest_entries_where_these_have_a_member():
    gamma = sets.Intersection(sets.Simplex(1.0), sets.LinfBall(0.6))
    chosen = gamma.sparse_support(np.array([0.1, 3.0, -9.0, 2.0, 0.3]), 2, np.array([4]))
    assert chosen.tolist() == [1, 4]
    assert sets.Intersection(sets.L1Ball(1.0), sets.LinfBall(0.6)).sparse_support(np.ones(3), 2, np.array([])) is None


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_supports_do_not_depend_on_units(scale):
    upper = scale * np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.5])
    gamma = sets.Intersection(sets.Simplex(scale), sets.Box(0, upper))
    w = ez.restricted_projection(np.array([9.0, 8.0, 7.0, 1.0, 2.0, 3.0]), 3, gamma)
    assert gamma.contains(w)
    assert np.flatnonzero(w).tolist() == [0, 4, 5]


def test_intersections_are_projected_without_thousands_of_rounds(monkeypatch):
    """Polyhedra, with an ellipsoid or without: few alternating projections, which need 1e4 rounds for some of these."""
    dykstra = sets.Intersection._dykstra

    def few(self, v, index, rounds):
        assert rounds <= 30
        return dykstra(self, v, index, rounds)

    monkeypatch.setattr(sets.Intersection, "_dykstra", few)
    rng = np.random.default_rng(1)
    for name in ("simplex, bounded", "simplex under caps", "simplex in an ellipsoid", "simplex in a packing"):
        gamma, rows = CASES[name]
        for size in (0.3, 3.0, 100.0):
            v, w = size * rng.standard_normal(D), cp.Variable(D)
            cp.Problem(cp.Minimize(cp.sum_squares(w - v)), rows(w)).solve(solver=cp.CLARABEL)
            np.testing.assert_allclose(gamma.project(v), w.value, atol=1e-4)
