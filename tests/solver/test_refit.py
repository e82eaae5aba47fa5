"""The best values on a support."""

import time
import warnings
from contextlib import suppress

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls

import ellzero as ez
from common import least_between, near_copies, some_bounds
from ellzero._core.linear_systems import least_squares, solve
from ellzero.solver.refit import refit


@pytest.mark.parametrize("loss", [ez.risks.LeastSquares, ez.risks.Logistic])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_entry_is_there_by_rounding_alone(loss, dtype):
    """Shares of 5e-17 were counted among the nonzeros of more than half of these."""
    groups = np.arange(40) % 7
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((80, 40)) * np.exp((seed % 3) * rng.standard_normal(40))
        y = X[:, :6] @ rng.standard_normal(6) + 0.5 * rng.standard_normal(80)
        y = np.sign(y) if loss is ez.risks.Logistic else y
        for budget in (1.0, (0.0, 1.0)):
            gamma = ez.sets.Portfolio(budget, 0.0, 0.5, groups, 0.6)
            x = ez.minimize(loss(X.astype(dtype), y.astype(dtype), ridge=0.01), 8, gamma).x
            assert x[x != 0].min() > 1e-10


def test_numbers_that_a_set_asks_for_are_kept_however_small():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), 1e6 * rng.standard_normal(30)
    gamma = ez.sets.GroupWise({"a": ez.sets.Simplex(1e-9), "b": ez.sets.Simplex(1e6)}, ["a", "a", "b", "b"])
    x = ez.minimize(ez.risks.LeastSquares(X, y), 2, gamma).x
    np.testing.assert_allclose([x[:2].sum(), x[2:].sum()], [1e-9, 1e6], rtol=1e-12)
    x = ez.minimize(ez.risks.LeastSquares(X, y), 2, ez.sets.Box([1e-9, 0, 0, 0], 1e6), keep=[0]).x
    assert x[0] >= 1e-9


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 600), marks=pytest.mark.slow)])
def test_nearly_dependent_columns_between_bounds(seeds):
    """By their products a third of these were above the least by 1e-9 and up to twice; one by 4e17 times."""
    for seed in seeds:
        X, y, limit = near_copies(seed, 6)
        gamma, lower, upper = some_bounds(seed, limit)
        k = 1 + seed % 5
        point = refit(ez.risks.LeastSquares(X, y), gamma, np.arange(k))
        w = np.asarray(point.w)
        assert gamma.violation(w) <= 1e-12
        least = least_between(X[:, :k], y, lower[:k], upper[:k])
        assert np.mean((X @ w - y) ** 2) <= least * (1 + 1e-6) + 1e-16 * np.mean(y**2), seed


def capped(rng, d, r):
    """Sets of bounds and caps, and what cvxpy is told of them."""
    groups, weights, caps = np.arange(d) % 3, rng.uniform(0.2, 3, d), r * rng.uniform(0.3, 1, 3)
    A = rng.uniform(0, 1, (3, d)) * (rng.random((3, d)) < 0.6)
    S = ez.sets
    return {
        "l1": (S.L1Ball(r), lambda w: [cp.norm1(w) <= r]),
        "weighted": (S.WeightedL1Ball(weights, r), lambda w: [cp.norm1(cp.multiply(weights, w)) <= r]),
        "budget": (S.Simplex(r), lambda w: [w >= 0, cp.sum(w) == r]),
        "at most": (S.SubSimplex(r), lambda w: [w >= 0, cp.sum(w) <= r]),
        "packing": (S.PackingPolytope(A, caps), lambda w: [w >= 0, A @ w <= caps]),
        "groups": (S.GroupWise(S.L1Ball(r), groups), lambda w: [cp.norm1(w[groups == g]) <= r for g in range(3)]),
        "both": (
            S.Intersection(S.L1Ball(r), S.LinfBall(0.4 * r)),
            lambda w: [cp.norm1(w) <= r, cp.norm_inf(w) <= 0.4 * r],
        ),
    }


@pytest.mark.parametrize(
    "seeds", [[19, 181, 314, 329, 387, 394, *range(6)], pytest.param(range(6, 120), marks=pytest.mark.slow)]
)
def test_nearly_dependent_columns_under_caps(seeds):
    """By their products 35 of 1,200 were above the least, by up to 0.5% where rounding had led out of the set."""
    judged = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(10, 60)), int(rng.integers(4, 25))
        X, apart = rng.standard_normal((n, d)), 10.0 ** -rng.integers(3, 12)
        for j in range(1, d):
            if rng.random() < 0.4:
                X[:, j] = X[:, rng.integers(0, j)] * rng.choice([-1, 1]) + apart * rng.standard_normal(n)
        y = X @ rng.standard_normal(d) + rng.standard_normal(n)
        risk = ez.risks.LeastSquares(X, y, fit_intercept=bool(seed % 3 == 1))
        for name, (gamma, told) in capped(rng, d, float(rng.choice([0.3, 1, 3, 10, 100]))).items():
            point, w, b = refit(risk, gamma, np.arange(d)), cp.Variable(d), cp.Variable()
            assert gamma.violation(point.w) <= 1e-12
            left = X @ w - y + (b if risk.fit_intercept else 0)
            accurate = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
            with warnings.catch_warnings(), suppress(cp.SolverError):  # the referee gives some of them up
                warnings.simplefilter("ignore")
                cp.Problem(cp.Minimize(cp.sum_squares(left) / n), told(w)).solve(solver=cp.CLARABEL, **accurate)
                least = risk.value(gamma.project(w.value))
                judged += 1
                assert point.value <= least * (1 + 1e-7) + 1e-16 * np.mean(y**2), (seed, name)
    assert judged > 6 * len(seeds)


def test_many_nearly_dependent_columns_look_at_the_deadline():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 200))
    X[:, 1::2] = X[:, ::2] + 1e-8 * rng.standard_normal((600, 100))
    y = X @ rng.standard_normal(200) + 0.1 * rng.standard_normal(600)
    risk, gamma, every = ez.risks.LeastSquares(X, y), ez.sets.Box(-0.5, 0.5), np.arange(200)
    best, cut = (refit(risk, gamma, every, deadline=end) for end in (np.inf, time.perf_counter()))
    assert best.value <= cut.value and gamma.violation(np.asarray(cut.w)) == 0
    independent = lsq_linear(X, y, (-0.5, 0.5), "trf", tol=1e-14)
    assert best.value <= np.mean((X @ independent.x - y) ** 2) * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", [ez.sets.NonNegative(), ez.sets.Box(-0.5, 1.2)])
def test_more_columns_than_rows_between_bounds(dtype, gamma, monkeypatch):
    """Pivots among columns that depend on each other went in circles, a thousand systems for each refit."""
    from ellzero.sets import _quadratic

    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((60, 150)).astype(dtype), rng.uniform(-0.5, 1.2, 150)
    y, solved, solve = X @ np.abs(w) + 0.3 * rng.standard_normal(60), [], _quadratic.solve

    def counted(*args):
        solved.append(1)
        return solve(*args)

    monkeypatch.setattr(_quadratic, "solve", counted)
    point = refit(ez.risks.LeastSquares(X, y.astype(dtype)), gamma, np.arange(150))
    shape = gamma.polyhedron(150)
    independent = lsq_linear(X.astype(float), y, (shape.lower, shape.upper), "bvls")
    assert len(solved) < 60
    assert point.value <= np.mean((X @ independent.x - y) ** 2) + 0.1 * np.finfo(dtype).eps * np.mean(y**2)


def test_large_portfolios_look_at_the_deadline(monkeypatch):
    """Pivots of SciPy's do not end before their answer: 121 s at a limit of 6 s."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 300))
    y = 1e3 * (X.mean(axis=1) + 0.01 * rng.standard_normal(200))
    risk, every = ez.risks.LeastSquares(X, y, ridge=1e-3), np.arange(300)
    gamma = ez.sets.Portfolio(1.0, -0.1, 0.2, every % 10, 0.3)
    best = refit(risk, gamma, every)
    w = cp.Variable(300)
    groups = [cp.norm1(w[every % 10 == g]) <= 0.3 for g in range(10)]
    X, y = X / 1e3, y / 1e3  # what the solver likes
    referee = cp.Problem(
        cp.Minimize(1e6 * (cp.sum_squares(X @ w - y) / 200 + 5e-10 * cp.sum_squares(w))),
        [cp.sum(w) == 1, w >= -0.1, w <= 0.2, *groups],
    )
    assert best.value == pytest.approx(referee.solve(cp.CLARABEL), rel=1e-6)
    monkeypatch.setattr("scipy.optimize.nnls", None)
    cut = refit(risk, gamma, every, deadline=time.perf_counter())
    assert cut.value >= best.value * (1 - 1e-9) and gamma.violation(np.asarray(cut.w)) <= 1e-12


def test_systems_on_which_an_iteration_of_lapack_does_not_end(monkeypatch):
    def refuse(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge in Linear Least Squares")

    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 12)), rng.standard_normal(12)
    known = np.linalg.lstsq(A.T @ A, b)[0]
    monkeypatch.setattr(np.linalg, "lstsq", refuse)
    np.testing.assert_allclose(least_squares(A.T @ A, b), known, rtol=1e-9)
    for bad in (np.nan, np.inf):  # what is no number is no answer either
        with pytest.raises(np.linalg.LinAlgError):
            least_squares(np.where(np.eye(12) > 0, bad, 1.0), b)
    B = np.hstack([A, A])
    u, accurate = solve(B.T @ B, np.tile(b, 2))
    assert not accurate
    np.testing.assert_allclose(u, np.tile(known, 2) / 2, rtol=1e-9)


@pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative(), ez.sets.L1Ball(50.0)])
def test_of_a_fit_that_leaves_nothing_no_exchange_is_tried(gamma):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 60))
    y = X[:, :5] @ rng.uniform(0.5, 2, 5)
    res = ez.minimize(ez.risks.LeastSquares(X, y), 5, gamma)
    assert res.fun < 1e-28 and res.exchanges.verdict == "all" and res.exchanges.by_refit == 0
    assert res.exchanges.gain < 1e-28


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 300), marks=pytest.mark.slow)])
def test_nearly_dependent_columns_of_several_targets(seeds):
    """Coordinates of some features for some targets alone were fitted by products: 59% above the least."""
    for seed in seeds:
        X, y, limit = near_copies(seed, 6)
        gamma, lower, upper = some_bounds(seed, np.tile(limit, 2))
        Y = np.column_stack([y, np.roll(y, 1)])
        support = np.flatnonzero(np.random.default_rng(seed).random(12) < 0.4)
        w = np.asarray(refit(ez.risks.LeastSquares(X, Y), gamma, support).w).reshape(2, 6)
        assert gamma.violation(w.ravel()) <= 1e-12
        for j in range(2):
            own = support[support // 6 == j]
            least = least_between(X[:, own % 6], Y[:, j], lower[own], upper[own]) if own.size else np.mean(y**2)
            assert np.mean((X @ w[j] - Y[:, j]) ** 2) <= least * (1 + 1e-5) + 1e-15 * np.mean(y**2), seed


@pytest.mark.parametrize(("dtype", "far"), [(np.float64, 1e16), (np.float32, 1e8)])
@pytest.mark.parametrize("method", ["IHT", "RegIHT", "IHT-2SP"])
def test_a_fit_leaves_something_however_far_the_start(dtype, far, method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 60))
    y = X[:, [3, 7, 9]] @ [1, -2, 0.5] + 0.1 * rng.standard_normal(100)
    risk, start = ez.risks.LeastSquares(X.astype(dtype), y.astype(dtype)), far * np.eye(60)[0]
    res = ez.minimize(risk, 3, x0=start, method=ez.preset(method, finish="swap"))
    assert np.array_equal(res.support, [3, 7, 9]) and res.fun < 0.02
    assert res.exchanges.by_bound == 0 or res.exchanges.gain < 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_more_kept_columns_than_rows_are_a_system_of_the_rows(fit_intercept, monkeypatch):
    """4096 columns of 50 rows took 78 s, most of them for singular values of products of rank 50."""
    rng, sizes, lstsq = np.random.default_rng(0), [], np.linalg.lstsq
    X, y = rng.standard_normal((20, 3000)), rng.standard_normal(20)
    monkeypatch.setattr(np.linalg, "lstsq", lambda A, *rest, **more: sizes.append(A.shape) or lstsq(A, *rest, **more))
    res = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=fit_intercept), 1500)
    assert res.fun <= 1e-28 and res.status.name == "SETTLED"
    assert max(map(min, sizes)) <= 20


def test_a_budget_over_columns_of_many_sizes():
    """Rounding took 7e-6 of the budget on the way, and gradients from the start ended at 943."""
    rng, sizes = np.random.default_rng(0), np.array([1e-8, 1e-4, 1, 1e4, 1e6, 1e7])
    A = rng.standard_normal((40, 6))
    y = A @ rng.random(6) + rng.standard_normal(40)
    point = refit(ez.risks.LeastSquares(A * sizes, y), ez.sets.Simplex(100.0), np.arange(6))
    rest = nnls(A[:, 2:], y)[0] / sizes[2:]  # what is left of the budget is hardly seen in the second column
    known = np.concatenate([[0.0, 100.0 - rest.sum()], rest])
    assert point.value <= np.mean((A * sizes @ known - y) ** 2) * (1 + 1e-6)
    assert abs(np.sum(np.asarray(point.w)) - 100.0) <= 1e-12 * 100
