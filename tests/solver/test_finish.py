"""Refit, exchanges and adaptive steps: optimality by an independent solver, and nothing that makes it worse."""

import itertools
import time

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from common import membership, support_preserving_sets
from ellzero import sets as S
from ellzero.risks.damped import Damped
from ellzero.sets import faces as by_faces
from ellzero.sets.faces import minimise_on_polyhedron
from ellzero.solver.exchanges import SwapSearch, refit
from ellzero.solver.problem import Problem
from ellzero.solver.single_moves import contenders
from ellzero.sparsity import Coordinates
from ellzero.testing import check_risk

NAMES = list(support_preserving_sets(6, np.random.default_rng(0)))
NONE = np.empty(0, dtype=np.intp)
seeds = st.integers(0, 2**32 - 1)
POLYHEDRA = {
    "l1": S.L1Ball(0.7),
    "weighted l1": S.WeightedL1Ball(np.array([1.0, 3.0, 0.2, 1.0, 0.5, 2.0]), 0.7),
    "sub-simplex": S.SubSimplex(0.8),
    "simplex": S.Simplex(1.0),
    "groups": S.GroupWise({0: S.L1Ball(0.2), 1: S.Box(-0.1, 0.3), 2: S.Simplex(0.5)}, [0, 0, 1, 1, 2, 2]),
    "packing": S.PackingPolytope(np.array([[1.0, 2, 0, 0, 1, 1], [0, 1, 1, 0, 0, 3], [0, 0, 0, 1, 1, 0]]), np.ones(3)),
}  # fmt: skip


def risks(seed, n=40, d=8, intercept=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.5)
    y = X[:, 0] - 2 * X[:, 3] + rng.standard_normal(n)
    options = {"ridge": 0.05, "fit_intercept": intercept, "sample_weight": rng.uniform(0.5, 2, n)}
    return {
        "least squares": ez.risks.LeastSquares(X, y, **options),
        "logistic": ez.risks.Logistic(X, y > 0, **options),
        "poisson": ez.risks.Poisson(X / 4, np.round(np.exp(y / 6)), **options),
        "huber": ez.risks.Huber(X, y, **options),
        "gamma": ez.risks.Gamma(X / 4, np.exp(y / 6), **options, offset=0.1 * y),
        "hinge": ez.risks.SquaredHinge(X, y > 0, **options),
        "quantile": ez.risks.Quantile(X, y, **options, quantile=0.7),
        "multinomial": ez.risks.Multinomial(X[:, :3], np.digitize(y, [-1, 1]), **options),
        "quadratic": ez.risks.Quadratic(X.T @ X / n, X.T @ y / n),
    }


class TestRefit:
    @pytest.mark.parametrize("intercept", [False, True])
    @pytest.mark.parametrize("name", risks(0))
    def test_without_gamma_the_gradient_vanishes_on_the_support(self, name, intercept):
        risk = risks(1, intercept=intercept)[name]
        support = np.array([0, 3, 5])
        point = refit(risk, S.Everywhere(), support)
        assert set(np.flatnonzero(point.w)) <= set(support)
        assert np.abs(point.gradient[support]).max() <= 1e-6 * (1 + np.abs(risk.gradient(risk.zero)).max())
        assert point.value == pytest.approx(risk.value(point.w), rel=1e-12)

    @pytest.mark.parametrize("name", NAMES)
    def test_least_squares_over_every_set_agrees_with_cvxpy(self, name):
        rng = np.random.default_rng(2)
        X, y = rng.standard_normal((30, 9)), 3 * rng.standard_normal(30)
        gamma, support = support_preserving_sets(9, rng)[name], np.array([0, 2, 3, 7])
        point = refit(ez.risks.LeastSquares(X, y), gamma, support)
        w = cp.Variable(9)
        off = np.setdiff1d(np.arange(9), support)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - y) / 30), [*membership(gamma, w), w[off] == 0])
        problem.solve(solver=cp.CLARABEL)
        assert gamma.violation(point.w) <= 1e-12
        assert point.value == pytest.approx(problem.value, rel=1e-6)

    @pytest.mark.parametrize("name", ["logistic", "poisson", "huber", "multinomial"])
    def test_other_losses_over_a_set_are_stationary(self, name):
        """Fixed points of the projected gradient: for convex risks, minimisers."""
        risk, gamma = risks(3)[name], S.L1Ball(0.3)
        support = np.array([0, 1, 3])
        point = refit(risk, gamma, support)
        L = 100.0
        moved = gamma.project(point.w[support] - point.gradient[support] / L, support) - point.w[support]
        assert L * np.abs(moved).max() <= 2e-5 * (1 + np.abs(point.gradient).max())

    def test_singular_columns(self):
        X = np.ones((10, 3))
        point = refit(ez.risks.LeastSquares(X, np.arange(10.0)), S.Everywhere(), np.arange(3))
        assert point.value == pytest.approx(np.var(np.arange(10.0)))

    @given(seed=seeds)
    @settings(max_examples=30, deadline=None)
    def test_quadratic_over_a_slice(self, seed):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((6, 4))
        G, b = A.T @ A + 0.01 * np.eye(4), rng.standard_normal(4)
        gamma = S.GroupWise(S.L1Ball(0.2), [0, 0, 1, 1])
        u = gamma.minimise_quadratic(G, b, np.arange(4), np.zeros(4))
        L = np.linalg.eigvalsh(G)[-1]
        assert np.abs(gamma.project(u - (G @ u - b) / L) - u).max() <= 1e-9

    @pytest.mark.parametrize("name", POLYHEDRA)
    @given(seed=seeds, log_condition=st.floats(0, 6))
    @settings(max_examples=15, deadline=None)
    def test_small_quadratics_end_on_the_right_face(self, name, seed, log_condition):
        """By the first-order condition, and at steps that are far fewer than projected gradients alone need."""
        rng, gamma = np.random.default_rng(seed), POLYHEDRA[name]
        Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        G = Q @ np.diag(np.geomspace(1.0, 10.0**-log_condition, 6)) @ Q.T
        b = rng.standard_normal(6)
        u = gamma.minimise_quadratic(G, b, np.arange(6), np.zeros(6))
        assert gamma.violation(u) <= 1e-12
        slope = G @ u - b
        for _ in range(20):  # no member of Γ lies downhill
            v = gamma.project(u + 10.0 ** rng.uniform(-6, 1) * rng.standard_normal(6))
            assert slope @ (v - u) >= -1e-9
        v = gamma.project(u - 1e3 * slope)
        assert slope @ (v - u) >= -1e-9

    @pytest.mark.parametrize("name", POLYHEDRA)
    def test_caps_that_meet_in_one_point(self, name):
        """Where G is I but for rounding, the same entry may fill two caps: the answer is the projection of b."""
        gamma = POLYHEDRA[name]
        for seed in (138, 186, 243, 267, 473, 670, 1040, 1096, *range(40)):
            rng = np.random.default_rng(seed)
            Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
            b = rng.standard_normal(6)
            u = gamma.minimise_quadratic(Q @ Q.T, b, np.arange(6), np.zeros(6))
            assert gamma.violation(u) <= 1e-12
            assert np.abs(u - gamma.project(b)).max() <= 1e-8

    @pytest.mark.parametrize("seed", [3, 6, 8, 10, 16, 24])
    def test_a_robust_loss_takes_few_steps(self, seed, monkeypatch):
        """Its majoriser alone took up to 283 of them."""
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(10, 200)), int(rng.integers(2, 9))
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, d)
        y = X @ rng.standard_normal(d) + rng.standard_t(1.2, n)
        risk = ez.risks.Huber(X, y, fit_intercept=seed % 2 == 0, delta=10.0 ** rng.uniform(-2, 1))
        steps, curvature = [], ez.risks.Huber.curvature
        monkeypatch.setattr(ez.risks.Huber, "curvature", lambda r, p: steps.append(p.value) or curvature(r, p))
        point = refit(risk, ez.sets.Everywhere(), np.arange(d))
        scales = np.abs(X).mean(axis=0)
        assert np.abs(point.gradient / scales).max() <= 1e-7 * risk.delta
        assert len(steps) <= 30

    def test_every_start_ends_on_the_same_face(self):
        shape, G, b = S.L1Ball(1.0).polyhedron(2), np.eye(2), np.array([2.0, 1.5])
        for start in ([0.0, 0.0], [0.6, 0.4], [1.0, 0.0], [0.0, -1.0], [0.3, 0.3], [-0.5, -0.5]):
            for flip in ([1, 1], [1, -1], [-1, 1]):
                u = minimise_on_polyhedron(G, b * flip, shape, np.array(start))
                np.testing.assert_allclose(u, np.array([0.75, 0.25]) * flip, atol=1e-15)
        np.testing.assert_allclose(minimise_on_polyhedron(G, 0.1 * b, shape, np.array([0.6, 0.4])), 0.1 * b)
        flat = np.zeros((2, 2))  # along a direction without curvature to the boundary, and no further
        np.testing.assert_allclose(minimise_on_polyhedron(flat, b, shape, np.zeros(2)), [1.0, 0.0], atol=1e-15)
        assert minimise_on_polyhedron(flat, b, S.NonNegative().polyhedron(2), np.zeros(2)) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_bound_is_exceeded_by_rounding(seed):
    """Neither by refits in other units nor by projections there."""
    rng = np.random.default_rng(seed)
    X, lower, upper = rng.standard_normal((60, 40)), -rng.uniform(0.1, 0.5, 40), rng.uniform(0.1, 0.8, 40)
    X *= rng.uniform(0.1, 10, 40)
    y = X @ np.where(rng.random(40) < 0.5, 5.0, -5.0)
    for method in ("auto", ez.preset("IHT-2SP", standardize=True)):
        w = ez.minimize(ez.risks.LeastSquares(X, y), 20, ez.sets.Box(lower, upper), method, max_iter=30).x
        assert (w >= lower).all() and (w <= upper).all()


def many_faces(k=400, size=20, radius=10.0):
    """Groups whose l1 norms are bounded, and data that asks for more."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, k))
    A += 0.7 * np.roll(A, 1, axis=1)
    b = A.T @ (A @ (rng.standard_normal(k) * (rng.random(k) < 0.5)))
    return A.T @ A, b, S.GroupWise(S.L1Ball(radius), groups=np.arange(k) // size)


def count_faces(monkeypatch):
    faces, step = [], by_faces.Faces._step
    monkeypatch.setattr(by_faces.Faces, "_step", lambda self: faces.append(1) or step(self))
    return faces


def test_the_search_over_faces_looks_at_the_time(monkeypatch):
    """What it has then is a member, and no worse than where it began."""
    G, b, gamma = many_faces()
    faces, start = count_faces(monkeypatch), np.zeros(b.size)
    start[::20] = 5.0
    u = gamma.minimise_quadratic(G, b, np.arange(b.size), start, time.perf_counter())
    assert len(faces) <= 1
    assert np.abs(u).reshape(-1, 20).sum(axis=1).max() <= 10.0 * (1 + 1e-12)
    assert u @ (G @ u - 2 * b) < start @ (G @ start - 2 * b)


def test_many_faces_are_passed_by(monkeypatch):
    """The linear minimum over the balls is the referee: no member is lower than it says."""
    G, b, gamma = many_faces()
    faces = count_faces(monkeypatch)
    u = gamma.minimise_quadratic(G, b, np.arange(b.size), np.zeros(b.size))
    assert len(faces) < 120
    slope = 2 * (G @ u - b)
    gap = slope @ u + 10.0 * np.abs(slope).reshape(-1, 20).max(axis=1).sum()
    assert gap <= 1e-9 * abs(u @ (G @ u - 2 * b))


class TestSwaps:
    @staticmethod
    def best_by_brute_force(risk, gamma, k):
        return min(refit(risk, gamma, np.array(s)).value for s in itertools.combinations(range(risk.n_features), k))

    @staticmethod
    def best_exchange(risk, gamma, x):
        """The best value after any single exchange."""
        support = np.flatnonzero(x)
        return min(
            refit(risk, gamma, np.sort(np.append(np.setdiff1d(support, [i]), j))).value
            for i in support
            for j in np.setdiff1d(np.arange(x.size), support)
        )

    @pytest.mark.parametrize("name", ["least squares", "quadratic"])
    @pytest.mark.parametrize("intercept", [False, True])
    @pytest.mark.parametrize("seed", range(8))
    def test_ends_where_no_single_exchange_helps(self, name, intercept, seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((25, 12)) @ (np.eye(12) + 0.6)
        y = rng.standard_normal(25)
        risk = ez.risks.LeastSquares(X, y, ridge=0.02, fit_intercept=intercept)
        if name == "quadratic":
            risk = ez.risks.Quadratic(X.T @ X, X.T @ y)
        start = refit(risk, S.Everywhere(), np.arange(4))
        search = SwapSearch(Problem(risk, Coordinates(4), S.Everywhere(), NONE))
        end = search.improve(start)
        assert np.count_nonzero(end.w) <= 4
        assert end.value <= start.value
        assert end.value <= self.best_exchange(risk, S.Everywhere(), end.w) + 1e-9 * abs(end.value)

    def test_newcomers_that_are_ruled_out_cannot_help(self):
        """The bound against all exchanges, with some columns nearly inside the span of others."""
        ruled_out = 0
        for seed in range(12):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((30, 14))
            X[:, 8:] = X[:, :6] + rng.choice([0.01, 0.3, 1.0], 6) * X[:, 8:]
            risk = ez.risks.LeastSquares(X, X[:, :4] @ rng.uniform(0.5, 2, 4) + 0.3 * rng.standard_normal(30))
            kept = np.array([0, 1, 2, 3 + seed % 3])
            point = refit(risk, S.Everywhere(), kept)
            model = risk.curvature(point)
            C, H = model.columns(kept), np.linalg.inv(model.block(kept))
            q = np.maximum(model.diagonal - np.einsum("ij,jk,ik->i", C, H, C), 0.0)
            others = np.setdiff1d(np.arange(14), kept)
            worth = np.abs(point.gradient) / 2 * np.isin(np.arange(14), others)
            left = contenders(worth, model.diagonal, q, float(np.min(point.w[kept] ** 2 / np.diag(H))))
            for j in np.setdiff1d(others, left):
                for i in range(4):
                    after = refit(risk, S.Everywhere(), np.sort(np.append(np.delete(kept, i), j)))
                    assert after.value >= point.value * (1 - 1e-9)
            assert set(left) <= set(others)
            ruled_out += others.size - left.size
        assert ruled_out > 20

    @pytest.mark.parametrize("seed", range(4))
    def test_a_whole_run_ends_where_no_single_exchange_helps(self, seed):
        problem = ez.datasets.make_regression(60, 40, 6, correlation=0.8, snr=2.0, rng=seed)
        risk = ez.risks.LeastSquares(problem.X, problem.y)
        result = ez.minimize(risk, 6)
        assert result.fun <= self.best_exchange(risk, S.Everywhere(), result.x) * (1 + 1e-9)

    @pytest.mark.parametrize("kind", NAMES)
    def test_never_worse_and_always_feasible(self, kind):
        seed = 0
        rng = np.random.default_rng(seed)
        for name, risk in risks(seed).items():
            gamma = support_preserving_sets(risk.n_features, rng)[kind]
            start = refit(risk, gamma, np.arange(3))
            end = SwapSearch(Problem(risk, Coordinates(3), gamma, NONE)).improve(start)
            assert end.value <= start.value, name
            assert np.count_nonzero(end.w) <= 3
            assert gamma.violation(end.w) <= 1e-12

    def test_all_places_are_used_when_that_helps(self):
        risk = risks(4)["least squares"]
        start = refit(risk, S.Everywhere(), np.array([7]))
        assert np.count_nonzero(SwapSearch(Problem(risk, Coordinates(5), S.Everywhere(), NONE)).improve(start).w) == 5

    def test_kept_coordinates_stay(self):
        risk = risks(5)["least squares"]
        for keep in ([1], [1, 2]):
            result = ez.minimize(risk, 3, keep=keep)
            assert set(keep) <= set(result.support)

    def test_sparse_data_reaches_the_same(self):
        import scipy.sparse as sp

        rng = np.random.default_rng(6)
        X = rng.standard_normal((60, 30)) * (rng.random((60, 30)) < 0.4)
        y = X[:, :4] @ np.ones(4) + 0.3 * rng.standard_normal(60)
        dense = ez.minimize(ez.risks.LeastSquares(X, y), 4)
        sparse = ez.minimize(ez.risks.LeastSquares(sp.csr_array(X), y), 4)
        np.testing.assert_array_equal(dense.support, sparse.support)
        assert dense.fun == pytest.approx(sparse.fun, rel=1e-10)

    def test_a_planted_error_in_the_formula_is_found(self, monkeypatch):
        """Without the term of the removed column the search stops too early somewhere."""
        original = SwapSearch._worth
        stopped_early = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((25, 12)) @ (np.eye(12) + 0.6)
            risk = ez.risks.LeastSquares(X, rng.standard_normal(25))
            monkeypatch.setattr(SwapSearch, "_worth", lambda self, *a: 0.3 * original(self, *a))
            end = SwapSearch(Problem(risk, Coordinates(4), S.Everywhere(), NONE)).improve(
                refit(risk, S.Everywhere(), np.arange(4))
            )
            stopped_early += end.value > self.best_exchange(risk, S.Everywhere(), end.w) * (1 + 1e-9)
        assert stopped_early > 0

    def test_restarts_help_on_a_hard_problem(self):
        """More starts never hurt, and on some of ten correlated problems they find better supports."""
        better = 0
        for seed in range(10):
            problem = ez.datasets.make_regression(40, 60, 8, correlation=0.95, snr=2.0, rng=seed)
            risk = ez.risks.LeastSquares(problem.X, problem.y)
            one = ez.minimize(risk, 8, rng=0)
            many = ez.minimize(risk, 8, method=ez.preset("auto", n_starts=6), rng=0)
            assert many.fun <= one.fun * (1 + 1e-12)
            assert many.n_gradients > one.n_gradients
            better += many.fun < one.fun * (1 - 1e-9)
        assert better > 0

    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    def test_damped_starts_help_on_hard_problems_and_cost_nothing_on_easy_ones(self, loss, monkeypatch):
        def answers(n, correlation, snr):
            for seed in range(8):
                problem = ez.datasets.make_regression(n, 80, 8, correlation=correlation, snr=snr, rng=seed)
                risk = ez.risks.LeastSquares(problem.X, problem.y)
                if loss == "logistic":
                    risk = ez.risks.Logistic(problem.X, problem.y > 0, ridge=1e-4)
                yield ez.minimize(risk, 8, rng=0)

        hard, easy = list(answers(60, 0.95, 2.0)), list(answers(1000, 0.0, 2.0))
        monkeypatch.setattr("ellzero.solver.finishes.from_damped", lambda *_: None)
        hard_before, easy_before = list(answers(60, 0.95, 2.0)), list(answers(1000, 0.0, 2.0))
        assert all(new.fun <= old.fun for new, old in zip(hard, hard_before, strict=True))
        assert sum(new.fun < 0.999 * old.fun for new, old in zip(hard, hard_before, strict=True)) >= 3
        assert sum(new.n_gradients for new in hard) > sum(old.n_gradients for old in hard_before)
        same = [new.n_gradients == old.n_gradients for new, old in zip(easy, easy_before, strict=True)]
        assert sum(same) >= 6

    def test_a_run_that_is_told_to_stop_is_not_prolonged(self, monkeypatch):
        problem = ez.datasets.make_regression(60, 80, 8, correlation=0.95, snr=2.0, rng=3)
        risk = ez.risks.LeastSquares(problem.X, problem.y)
        asked = []
        monkeypatch.setattr("ellzero.solver.finishes.from_damped", lambda *_: asked.append(1))
        ez.minimize(risk, 8)
        assert asked == [1]

        def stop(result):
            raise StopIteration

        ez.minimize(risk, 8, callback=stop)
        ez.minimize(risk, 8, max_iter=1)
        ez.minimize(risk, 8, x0=np.zeros(80))
        assert asked == [1]

    @pytest.mark.parametrize("name", risks(0))
    def test_a_damped_risk_is_a_risk(self, name):
        risk = risks(2)[name]
        damped = Damped(risk, np.linspace(0.1, 2.0, risk.n_features))
        check_risk(damped)
        w = np.linspace(-1.0, 1.0, risk.n_features)
        assert damped.value(w) == pytest.approx(risk.value(w) + np.linspace(0.1, 2.0, w.size) @ w**2)

    @pytest.mark.parametrize("intercept", [False, True])
    @pytest.mark.parametrize("name", risks(0))
    def test_the_curvature_of_a_damped_risk(self, name, intercept):
        risk = risks(2, intercept=intercept)[name]
        d, w = risk.n_features, np.linspace(-0.5, 0.5, risk.n_features)
        damping, inner = np.linspace(0.1, 2.0, d), risk.curvature(risk.at(w))
        G = inner.columns(np.arange(d)) + np.diag(damping)
        for _ in range(2):  # the second time from what the first has gathered
            model = Damped(risk, damping, inner if inner.exact else None).curvature(Damped(risk, damping).at(w))
            index, vectors = np.array([1, 4, 5]), np.arange(6.0).reshape(3, 2)
            np.testing.assert_allclose(model.columns(index), G[:, index], atol=1e-12)
            np.testing.assert_allclose(model.diagonal, np.diagonal(G), atol=1e-12)
            np.testing.assert_allclose(model.block(index), G[np.ix_(index, index)], atol=1e-12)
            np.testing.assert_allclose(model.images(index, vectors), G[:, index] @ vectors, atol=1e-12)

    def test_columns_that_do_not_fit_are_gathered_again(self):
        risk = risks(2)["least squares"]
        G, model = risk.curvature(risk.at(risk.zero)).columns(np.arange(8)), risk.curvature(risk.at(risk.zero))
        model.kept_room = 4 * 8
        for index in ([0, 1, 2], [1, 2, 3], [3, 4, 5], [0, 3, 5, 7], [7], [0, 7]):
            np.testing.assert_allclose(model.columns(np.array(index)), G[:, index], atol=1e-12)
            assert len(model._kept.columns) <= 4

    def test_a_start_is_not_left_for_less(self):
        """The values of x0 may be bad ones, on a support that is the best."""
        problem = ez.datasets.make_regression(60, 80, 8, correlation=0.95, snr=2.0, rng=3)
        risk = ez.risks.LeastSquares(problem.X, problem.y)
        best = ez.minimize(risk, 8, method=ez.preset("auto", n_starts=20), rng=0)
        again = ez.minimize(risk, 8, x0=1e-3 * best.x, rng=0)
        assert again.fun <= best.fun * (1 + 1e-12)
        assert again.history.fun[0] == pytest.approx(best.fun) and again.n_values >= 2

    def test_a_start_with_few_entries_looks_around(self):
        """Free places go to the steepest slopes, not to the first columns."""
        for seed in range(5):
            problem = ez.datasets.make_regression(200, 400, 20, snr=10.0, rng=seed)
            risk = ez.risks.LeastSquares(problem.X, problem.y)
            x0 = np.where(np.cumsum(problem.truth != 0) <= 3, 0.5 * problem.truth, 0.0)
            step = ez.minimize(risk, 20, x0=x0, method=ez.Method(step="pursuit"), max_iter=1)
            assert np.count_nonzero(problem.truth[step.support]) >= 12

    def test_damped_starts_where_supports_can_be_empty(self):
        """Nothing of this may end in an error: there is an answer before the damped starts begin."""
        quadratic = ez.risks.Quadratic(2 * np.eye(3), [-5.0, -5.0, 1.0])
        packing = ez.minimize(quadratic, 2, S.PackingPolytope([[1.0, 1.0, 1.0]], [10.0]))
        np.testing.assert_allclose(packing.x, [0.0, 0.0, 0.5])
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X, y = rng.standard_normal((30, 6)) @ (np.eye(6) + 0.7), rng.standard_normal(30)
            risk = ez.risks.LeastSquares(X, y)
            boxes = S.GroupWise({0: S.Box(0.1, 0.5), 1: S.L1Ball(0.2)}, [0, 0, 1, 1, 1, 1])
            budget = S.Intersection(S.Simplex(1.0), S.Box(0.0, np.array([0.9, 0.1, 0.6, 0.2, 0.5, 0.4])))
            for gamma in (boxes, budget):
                assert gamma.violation(ez.minimize(risk, 4, gamma).x) <= 1e-9


class TestAuto:
    @pytest.mark.parametrize("k", [25, 50, 100, 150])
    def test_the_diagonal_example_is_solved(self, k):
        """Where IHT ends at 1.10, 1.25, 1.33 times the optimum."""
        example = ez.datasets.diagonal_example()
        result = ez.minimize(ez.risks.LeastSquares(example.X, example.y), k)
        assert result.fun == pytest.approx(example.optimum(k)[1], rel=1e-10)

    @pytest.mark.parametrize("seed", range(6))
    def test_close_to_brute_force(self, seed):
        risk = risks(seed, d=10)["least squares"]
        best = TestSwaps.best_by_brute_force(risk, S.Everywhere(), 3)
        assert ez.minimize(risk, 3).fun <= best * 1.02

    @pytest.mark.parametrize("name", risks(0))
    def test_every_risk(self, name):
        risk = risks(7)[name]
        result = ez.minimize(risk, 3)
        assert result.fun < risk.value(risk.zero)
        assert result.support.size == 3
        assert result.success

    def test_smooth_without_curvature(self):
        c = np.array([3.0, 0.1, -2.0, 0.5])
        risk = ez.risks.Smooth(lambda w: float(np.sum((w - c) ** 2)), lambda w: 2 * (w - c), 4, convex=True)
        result = ez.minimize(risk, 2)
        np.testing.assert_allclose(result.x, [3, 0, -2, 0], atol=1e-5)

    @pytest.mark.parametrize("scale", [1e-6, 1e6])
    def test_scales_of_the_data_do_not_matter(self, scale):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((50, 80))
        y = X[:, :6] @ rng.uniform(0.5, 1.5, 6) + rng.standard_normal(50)
        plain = ez.minimize(ez.risks.LeastSquares(X, y), 6)
        for scaled in (ez.risks.LeastSquares(scale * X, y), ez.risks.LeastSquares(X, scale * y)):
            np.testing.assert_array_equal(ez.minimize(scaled, 6).support, plain.support)


class TestHardCases:
    """Found by a reviewer: ordinary input on which an earlier version gave up or crashed."""

    @pytest.mark.parametrize("scale", [1, 30, 1000])
    @pytest.mark.parametrize("intercept", [False, True])
    def test_huber_far_from_the_scale_of_delta(self, scale, intercept):
        rng = np.random.default_rng(0)
        X, truth = rng.standard_normal((40, 12)), np.zeros(12)
        truth[[1, 4, 7]] = [1.0, -2.0, 0.5]
        y = scale * (X @ truth + 0.1 * rng.standard_normal(40))
        risk = ez.risks.Huber(X, y, fit_intercept=intercept)
        result = ez.minimize(risk, 3)
        if scale < 1000:
            assert result.fun <= risk.value(scale * truth)
            np.testing.assert_array_equal(result.support, [1, 4, 7])
        else:  # practically an l1 loss, on which the ranking of exchanges is rough
            assert result.fun < 0.3 * risk.value(np.zeros(12))

    @pytest.mark.parametrize("mean", [3, 100, 300, 1000])
    def test_poisson_with_large_counts(self, mean):
        rng = np.random.default_rng(0)
        risk = ez.risks.Poisson(rng.standard_normal((40, 12)), rng.poisson(mean, 40))
        adaptive = ez.minimize(risk, 3, method=ez.preset("IHT-2SP", step="adaptive"))
        assert ez.minimize(risk, 3).fun <= adaptive.fun * (1 + 1e-9)

    @pytest.mark.parametrize(
        "gamma",
        [
            S.Intersection(S.NonNegative(), S.LinfBall(0.7)),
            S.Box(0, 0.7),
            S.Intersection(S.NonNegative(), S.L1Ball(1.0)),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_signs_inside_other_sets(self, gamma, k):
        rng = np.random.default_rng(0)
        X, truth = rng.standard_normal((40, 9)), np.zeros(9)
        truth[[1, 4, 7]] = [1.0, -2.0, 0.5]
        risk = ez.risks.LeastSquares(X, X @ truth + 0.1 * rng.standard_normal(40))
        best = TestSwaps.best_by_brute_force(risk, gamma, k)
        assert ez.minimize(risk, k, gamma).fun <= best * (1 + 1e-6)

    def test_sets_with_forced_coordinates_and_exact_budgets(self):
        rng = np.random.default_rng(0)
        risk = ez.risks.LeastSquares(rng.standard_normal((40, 12)), rng.standard_normal(40))
        floor = S.Box(np.r_[0.1, -np.ones(11)], 1.0)
        assert ez.minimize(risk, 3, floor).x[0] >= 0.1
        for gamma, k in ((S.Simplex(1.0), 1), (S.GroupWise(S.Simplex(1.0), np.arange(12) % 3), 3)):
            result = ez.minimize(risk, k, gamma, ez.preset("auto", n_starts=3), rng=0)
            assert result.violation <= 1e-12

    def test_a_risk_that_is_not_convex_gets_gradient_steps(self):
        risk = ez.risks.Quadratic(np.diag([-1.0, -2.0, 3.0, -0.5]), np.full(4, 0.1))
        result = ez.minimize(risk, 2, S.Box(-1.0, 1.0))
        assert result.fun == pytest.approx(-1.7)
        assert result.method == "auto (adaptive)"

    def test_stationarity_is_in_the_users_units(self):
        rng = np.random.default_rng(0)
        risk = ez.risks.LeastSquares(rng.standard_normal((40, 12)), rng.standard_normal(40))
        for gamma in (S.Ellipsoid(np.arange(1.0, 13), 0.3), None, S.Box(-0.1, 0.1)):
            assert ez.minimize(risk, 12, gamma).stationarity <= 1e-8
        assert np.isfinite(ez.minimize(risk, 3, max_iter=0).stationarity)

    def test_a_risk_that_is_not_defined_outside_gamma(self):
        c = np.linspace(0.5, 2, 6)

        def value(w):
            return float(np.sum(w - 0.01 * c * np.log(w + 1e-3)))

        risk = ez.risks.Smooth(value, lambda w: 1 - 0.01 * c / (w + 1e-3), 6, convex=True)
        result = ez.minimize(risk, 6, S.NonNegative(), x0=np.ones(6))
        np.testing.assert_allclose(result.x, 0.01 * c - 1e-3, rtol=1e-3)

    def test_a_sparse_quadratic_stays_sparse(self, monkeypatch):
        import scipy.sparse as sp

        p = 3000
        Q = sp.diags_array([np.full(p, 2.0), np.full(p - 1, -0.9), np.full(p - 1, -0.9)], offsets=[0, 1, -1]).tocsr()
        risk = ez.risks.Quadratic(Q, np.r_[np.ones(5), np.zeros(p - 5)])
        assert risk.convex
        monkeypatch.setattr(type(risk), "_matrix", property(lambda self: pytest.fail("made dense")))
        assert ez.minimize(risk, 5).fun < 0

    def test_the_time_limit_holds_for_restarts_too(self):
        rng = np.random.default_rng(0)
        risk = ez.risks.LeastSquares(rng.standard_normal((100, 200)), rng.standard_normal(100))
        result = ez.minimize(risk, 20, method=ez.preset("auto", n_starts=10**6), time_limit=0.5, rng=0)
        assert result.status is ez.Status.TIME_LIMIT

    def test_settling_is_told_and_costs_nothing_more(self):
        rng = np.random.default_rng(0)
        risk = ez.risks.LeastSquares(rng.standard_normal((40, 12)), rng.standard_normal(40))
        result = ez.minimize(risk, 3, tol=0)
        assert result.status is ez.Status.SETTLED
        assert result.success
        assert result.nit < 20


class TestUnits:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("seed", range(3))
    def test_a_rescaled_set_has_the_same_members(self, name, seed):
        rng = np.random.default_rng(seed)
        gamma = support_preserving_sets(7, rng)[name]
        for scales in (rng.uniform(0.2, 5, 7), np.full(7, 3.0)):
            other = gamma.rescaled(scales)
            if other is None:
                assert name.startswith("LpBall")
                continue
            for _ in range(20):
                w = gamma.project(3 * rng.standard_normal(7)) * rng.choice([0.9, 1.0, 1.1])
                assert other.violation(w / scales) == pytest.approx(gamma.violation(w), abs=1e-9)
                np.testing.assert_allclose(other.rescaled(1 / scales).project(w), gamma.project(w), atol=1e-9)

    def test_an_l1_ball_becomes_a_weighted_one_and_an_l2_ball_an_ellipsoid(self):
        scales = np.array([1.0, 2.0])
        assert isinstance(S.L1Ball(1.0).rescaled(scales), S.WeightedL1Ball)
        assert isinstance(S.L2Ball(1.0).rescaled(scales), S.Ellipsoid)
        assert isinstance(S.L1Ball(1.0).rescaled(scales).rescaled(1 / scales), S.L1Ball)
        with pytest.raises(ValueError, match="scales must be positive"):
            S.L1Ball(1.0).rescaled([1.0, 0.0])

    def test_a_rescaled_risk(self):
        from ellzero.testing import check_risk

        rng = np.random.default_rng(0)
        risk, scales = risks(1)["logistic"], rng.uniform(0.2, 5, 8)
        other, u = risk.rescaled(scales), rng.standard_normal(8)
        assert other.value(u) == pytest.approx(risk.value(scales * u))
        np.testing.assert_allclose(other.gradient(u), scales * risk.gradient(scales * u))
        check_risk(other)

    @pytest.mark.parametrize("spread", [3.0, 1e6])
    @pytest.mark.parametrize(
        "name", ["Everywhere", "NonNegative", "Box", "L1Ball", "L2Ball", "WeightedL1Ball", "GroupWise l1"]
    )
    def test_units_of_the_columns_do_not_change_the_support(self, name, spread):
        """X and Γ in other units: the same problem, so the same answer."""
        for seed in range(4):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((60, 40))
            y = X[:, :6] @ rng.uniform(0.5, 1.5, 6) + 0.5 * rng.standard_normal(60)
            gamma = support_preserving_sets(40, rng)[name]
            scales = np.exp(rng.uniform(-np.log(spread), np.log(spread), 40))
            plain = ez.minimize(ez.risks.LeastSquares(X, y), 6, gamma)
            other = ez.minimize(ez.risks.LeastSquares(X * scales, y), 6, gamma.rescaled(scales))
            np.testing.assert_array_equal(plain.support, other.support)
            np.testing.assert_allclose(other.x * scales, plain.x, rtol=1e-4, atol=1e-6)


class TestAdaptiveStep:
    @pytest.mark.parametrize("kind", ["Everywhere", "L1Ball", "NonNegative", "GroupWise l1", "Box"])
    @pytest.mark.parametrize("name", ["least squares", "logistic", "poisson", "huber"])
    def test_the_inequality_of_the_proof_holds_at_every_step(self, kind, name):
        """At w_t and at v_t = H_k(w_{t-1} - g/L_t), with the L_t of the history."""
        rng = np.random.default_rng(0)
        risk = risks(8)[name]
        gamma = support_preserving_sets(8, rng)[kind]
        points = [np.zeros(8)]
        method = ez.preset("IHT-2SP", step="adaptive")
        result = ez.minimize(risk, 3, gamma, method, max_iter=40, tol=0, callback=lambda r: points.append(r.x.copy()))
        sizes = result.history.step[1:]
        for before, after, size in zip(points, points[1:], sizes, strict=False):
            g, L = risk.gradient(before), 1 / size
            for x in (after, ez.hard_threshold(before - size * g, 3)):
                move = x - before
                bound = risk.value(before) + g @ move + 0.5 * L * move @ move
                assert risk.value(x) <= bound + 1e-12 * abs(bound)
            np.testing.assert_allclose(after, ez.two_step_projection(before - size * g, 3, gamma), atol=1e-12)
        assert result.largest_L == pytest.approx(np.max(1 / sizes))

    def test_longer_steps_than_one_over_L(self):
        rng = np.random.default_rng(1)
        risk = ez.risks.LeastSquares(rng.standard_normal((100, 400)), rng.standard_normal(100))
        result = ez.minimize(risk, 5, method=ez.preset("IHT", step="adaptive"), max_iter=200)
        assert result.largest_L < 0.5 * risk.smoothness.value
        fixed = ez.minimize(risk, 5, method="IHT", max_iter=200)
        assert result.nit < fixed.nit
