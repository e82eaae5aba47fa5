"""The set of portfolios: its projection, its quadratic programmes, and the coordinates it proposes."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero.sets import EmptySlice, Portfolio
from ellzero.testing import check_set

BUDGETS = [1.0, (0.0, 1.0), (0.3, 0.6), (-math.inf, 0.4), None, -0.2, 0.0]


def random_case(seed, forced=False):
    """A portfolio set, the labels and caps it was made of, and a point."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 12))
    groups = rng.integers(0, 4, d)
    lower = 0.0 if rng.random() < 0.5 else -rng.uniform(0, 0.5, d)
    upper = rng.uniform(0.1, 0.8, d) if rng.random() < 0.5 else math.inf
    if forced:
        lower = np.broadcast_to(lower, d).copy()
        upper = np.broadcast_to(upper, d).copy()
        upper[0] = max(upper[0], 0.1)
        lower[0] = rng.uniform(0.01, 0.1)
    caps = {int(g): float(rng.uniform(0.15, 0.8)) for g in np.unique(groups) if rng.random() < 0.8}
    gamma = Portfolio(BUDGETS[int(rng.integers(len(BUDGETS)))], lower, upper, groups, caps)
    return gamma, groups, caps, rng.standard_normal(d) * 10.0 ** rng.integers(-1, 2), rng


def referee(gamma, groups, caps, objective, w):
    constraints = [cp.norm1(w[groups == g]) <= cap for g, cap in caps.items()]
    for bound, side in ((gamma.box.lower, 1), (gamma.box.upper, -1)):
        if np.isfinite(bound).all():
            constraints.append(side * (w - bound) >= 0)
    if math.isfinite(gamma.least):
        constraints.append(cp.sum(w) >= gamma.least)
    if math.isfinite(gamma.most):
        constraints.append(cp.sum(w) <= gamma.most)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(60))
def test_projection_and_quadratic_programme_against_cvxpy(seed):
    gamma, groups, caps, v, rng = random_case(seed, forced=seed % 5 == 0)
    w = cp.Variable(v.size)
    scale = max(1.0, float(v @ v))
    problem = referee(gamma, groups, caps, cp.sum_squares(w - v) / scale, w)
    everything = np.arange(v.size)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        with pytest.raises(EmptySlice):
            gamma.project(v)
        return
    mine = gamma.project(v)
    assert gamma.violation(mine) <= 1e-13
    np.testing.assert_allclose(np.sum((mine - v) ** 2) / scale, problem.value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gamma.project(mine), mine, atol=1e-14)

    A = rng.standard_normal((v.size + 3, v.size))
    target = A @ v
    size = max(1.0, float(target @ target))
    problem = referee(gamma, groups, caps, cp.sum_squares(A @ w - target) / size, w)
    u = gamma.quadratic_minimum(A.T @ A, A.T @ target, everything)
    assert gamma.violation(u) <= 1e-13
    np.testing.assert_allclose(np.sum((A @ u - target) ** 2) / size, problem.value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0])
def test_held_positions_that_pull_against_the_budget(sign, scale):
    lower, upper = np.array([0.2, -0.2, -0.2]), np.full(3, 0.5)
    gamma = Portfolio(-0.1, lower, upper) if sign > 0 else Portfolio(0.1, -upper, -lower)
    v = scale * np.random.default_rng(0).standard_normal(3)
    w = cp.Variable(3)
    referee(gamma, np.zeros(3), {}, cp.sum_squares(w - v), w)
    assert gamma.violation(gamma.project(v)) <= 1e-14
    np.testing.assert_allclose(gamma.project(v), w.value, atol=1e-4)


def test_a_budget_that_leaves_no_choice_is_met_without_dust():
    for gamma, only in ((Portfolio(0.0), np.zeros(4)), (Portfolio((-1.0, 0.3), [0.1, 0, 0.2, 0]), [0.1, 0, 0.2, 0])):
        rng = np.random.default_rng(1)
        A = rng.standard_normal((9, 4))
        np.testing.assert_array_equal(gamma.project(rng.standard_normal(4)), only)
        np.testing.assert_array_equal(gamma.quadratic_minimum(A.T @ A, A.T @ A[:, 0], np.arange(4)), only)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_optimality_of_the_projection(seed):
    """<v - p, w - p> <= 0 for every member w: what makes p the nearest."""
    gamma, _, _, v, rng = random_case(seed)
    try:
        p = gamma.project(v)
    except EmptySlice:
        return
    for _ in range(20):
        w = gamma.project(rng.standard_normal(v.size))
        assert (v - p) @ (w - p) <= 1e-9 * max(1.0, float(np.abs(v).max()) ** 2)


def test_slices():
    gamma = Portfolio(1.0, 0.0, 0.4, ["a", "a", "b", "b", "b"], 0.6)
    v = np.array([0.9, 0.1, 0.3])
    part = gamma.project(v, np.array([0, 2, 3]))
    whole = Portfolio(1.0, 0.0, [0.4, 0.0, 0.4, 0.4, 0.0], ["a", "a", "b", "b", "b"], 0.6)
    np.testing.assert_allclose(part, whole.project(np.array([0.9, 0.0, 0.1, 0.3, 0.0]))[[0, 2, 3]], atol=1e-14)
    with pytest.raises(EmptySlice, match="sums between 0 and 0.6"):
        gamma.project(v, np.array([2, 3, 4]))


@pytest.mark.parametrize(
    ("arguments", "preserves"),
    [
        ({"budget": 1.0}, False),
        ({"budget": (0, 1), "upper": 0.3}, True),
        ({"budget": None, "lower": -0.2, "upper": 0.2}, True),
        ({"budget": (-math.inf, 1), "lower": -0.2, "upper": 0.2}, False),
        ({"budget": (0, 1), "lower": [0.1, 0, 0, 0], "upper": 1.0}, False),
    ],
)
def test_preserving_supports(arguments, preserves):
    gamma = Portfolio(**arguments, groups=["a", "a", "b", "b"], caps={"a": 0.5})
    assert gamma.preserves_support == preserves
    assert gamma.why
    if preserves:
        check_set(gamma, n_features=4, k=2, rng=0)


def test_the_same_as_sets_with_other_names():
    rng = np.random.default_rng(0)
    labels = ["x", "y", "x", "y", "z", "z"]
    pairs = [
        (Portfolio(0.7), ez.sets.Simplex(0.7)),
        (Portfolio((0, 0.7)), ez.sets.SubSimplex(0.7)),
        (Portfolio(None, -0.3, 0.2), ez.sets.Box(-0.3, 0.2)),
        (
            Portfolio(None, -math.inf, math.inf, labels, 0.4),
            ez.sets.GroupWise(ez.sets.L1Ball(0.4), labels),
        ),
        (Portfolio(None, groups=labels, caps=0.4), ez.sets.GroupWise(ez.sets.SubSimplex(0.4), labels)),
    ]
    for mine, theirs in pairs:
        for scale in (0.1, 1.0, 100.0):
            v = scale * rng.standard_normal(6)
            np.testing.assert_allclose(mine.project(v), theirs.project(v), atol=1e-13 * max(1, scale))


def test_huge_values_lose_no_accuracy():
    gamma = Portfolio(1.0, 0.0, 1.0, [0, 0, 1, 1, 2], 0.4)
    v = 1e9 * np.array([1.0, 0.9999, 0.5, 0.2, -1.0])
    assert gamma.violation(gamma.project(v)) <= 1e-14


def test_caps_that_add_up_to_the_budget_exactly():
    gamma = Portfolio(1.0, 0.0, 1.0, np.repeat(np.arange(10), 2), 0.1)
    w = gamma.project(np.linspace(-1, 1, 20))
    assert gamma.violation(w) <= 1e-14
    np.testing.assert_allclose(w.reshape(10, 2).sum(axis=1), 0.1, atol=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_proposed_supports_have_members(seed):
    """Whenever some k coordinates have a member, the proposed ones have."""
    rng = np.random.default_rng(seed)
    d, k = 8, int(rng.integers(1, 6))
    gamma = Portfolio(1.0, 0.0, rng.uniform(0.1, 0.6, d), rng.integers(0, 3, d), float(rng.uniform(0.3, 0.8)))

    def has_member(support):
        try:
            gamma.require_slice(np.array(support))
        except EmptySlice:
            return False
        return True

    possible = any(has_member(s) for s in itertools.combinations(range(d), k))
    v = rng.standard_normal(d)
    support = gamma.sparse_support(v, k, np.empty(0, dtype=int))
    assert support.size <= k
    assert has_member(support) == possible
    if possible:
        w = ez.restricted_projection(v, k, gamma)
        assert gamma.violation(w) <= 1e-13 and np.count_nonzero(w) <= k


def test_proposed_supports_are_the_best_ones_where_only_caps_bind():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 9)
    gamma = Portfolio(None, 0.0, 10.0, labels, 0.5)
    exact = ez.sets.GroupWise(ez.sets.SubSimplex(0.5), labels)
    for _ in range(20):
        v = rng.standard_normal(9)
        np.testing.assert_allclose(
            ez.restricted_projection(v, 4, gamma), ez.euclidean_projection(v, 4, exact), atol=1e-13
        )


@pytest.mark.parametrize("budget", [1.0, (0.0, 0.8), None])
def test_minimize_finds_the_best_support(budget):
    """Against every support, on a problem small enough for it."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 9)) + rng.standard_normal((60, 1))
    y = X @ rng.dirichlet(np.ones(9)) + 0.1 * rng.standard_normal(60)
    risk = ez.risks.LeastSquares(X, y)
    gamma = Portfolio(budget, 0.0, 0.35, np.repeat([0, 1, 2], 3), 0.5)
    G, b = X.T @ X / 60, X.T @ y / 60
    best = math.inf
    for support in itertools.combinations(range(9), 4):
        S = np.array(support)
        try:
            u = gamma.quadratic_minimum(G[np.ix_(S, S)], b[S], S)
        except EmptySlice:
            continue
        best = min(best, u @ G[np.ix_(S, S)] @ u - 2 * b[S] @ u + y @ y / 60)
    res = ez.minimize(risk, 4, gamma, method=ez.preset("auto", projection="restricted", n_starts=8), rng=0)
    assert res.fun == pytest.approx(best, rel=1e-9)
    assert res.violation <= 1e-13


def test_exchanges_under_an_exact_budget_look_at_the_right_slope():
    """The multiplier of Σw = 1 has either sign: an index that moves more than the assets needs more than the budget."""
    market = ez.datasets.make_market(n_days=300, n_assets=80, rng=1)
    for scale in (0.7, 1.4):
        risk = ez.risks.LeastSquares(market.returns, scale * market.index_returns)
        simplex = ez.minimize(risk, 8, ez.sets.Simplex(1.0))
        portfolio = ez.minimize(risk, 8, Portfolio(1.0), method=ez.preset("auto", n_starts=8), rng=0)
        assert simplex.fun <= 1.1 * portfolio.fun


def test_signs_and_repr():
    gamma = Portfolio((0, 1), [-0.1, 0.0, 0.0], [0.5, 0.5, 0.0], ["a", "a", "b"], {"a": 0.3})
    negative, positive = gamma.signs(3)
    assert negative.tolist() == [True, False, False] and positive.tolist() == [True, True, False]
    assert repr(Portfolio(1.0, 0.0, 0.5)) == "Portfolio(budget=1, lower=0, upper=0.5)"
    assert "2 groups capped at 0.3" in repr(gamma)
    assert "budget=None" in repr(Portfolio(None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": (1, 0)}, "least <= most"),
        ({"budget": (0, 1, 2)}, "a pair"),
        ({"budget": "all"}, "budget must be a number"),
        ({"groups": ["a"]}, "belong together"),
        ({"groups": ["a", "b"], "caps": {"c": 0.1}}, "caps names the group 'c'"),
        ({"groups": ["a", "b"], "caps": -0.1}, "caps"),
        ({"lower": 0.5, "upper": 0.1}, "lower <= upper"),
        ({"lower": [0, 0, 0], "groups": ["a", "b"], "caps": 0.1}, "same length"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Portfolio(**arguments)


def test_no_position_is_below_its_bound_by_rounding():
    """Beside caps of 5e99 a position of -8e-43 passed for 0, and was better than the least there is."""
    rng = np.random.default_rng(0)
    gamma = ez.sets.Portfolio((0, 1e100), 0.0, 0.5e100)
    for _ in range(40):
        A, b = rng.standard_normal((4, 4)), rng.standard_normal(4)
        for support in ([0], [1, 2], [0, 1, 2, 3]):
            S = np.array(support)
            u = gamma.minimise_quadratic(A[S] @ A[S].T, 1e-42 * b[S], S, np.zeros(S.size))
            assert (u >= 0).all()
