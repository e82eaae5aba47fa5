"""Stochastic and zeroth-order gradients: their moments, their counts, and the methods made of them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero import sets as S
from ellzero._core.directions import blocks
from ellzero.risks.counts import Counts
from ellzero.solver.result import Status
from ellzero.theory import parameters as theory


def regression(n=60, d=12, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = np.zeros(d)
    w[:3] = [2.0, -1.0, 1.5]
    return ez.risks.LeastSquares(X, X @ w + 0.1 * rng.standard_normal(n), **options)


def all_directions(d, s2, q, seed=0, t=0):
    """The q directions of iteration t as a dense matrix."""
    matrices = [b.matrix() for b in blocks([seed], t, q, d, s2)]
    return np.vstack([m if isinstance(m, np.ndarray) else m.toarray() for m in matrices])


class TestDirections:
    @pytest.mark.parametrize(("d", "s2"), [(1, 1), (5, 1), (5, 2), (5, 5), (30, 3), (30, 17), (30, 29)])
    def test_isotropy(self, d, s2):
        """E[d u uᵀ] = I, within five standard errors of each entry."""
        U = all_directions(d, s2, 40_000)
        outer = d * np.einsum("qi,qj->qij", U, U) if d <= 5 else None
        mean = d * (U.T @ U) / len(U)
        spread = outer.std(axis=0) if outer is not None else d * np.sqrt((U**2).T @ (U**2) / len(U))
        assert (np.abs(mean - np.eye(d)) <= 5 * spread / np.sqrt(len(U)) + 1e-12).all()

    @pytest.mark.parametrize(("d", "s2"), [(10, 1), (10, 4), (10, 10), (1000, 3), (1000, 900), (200_000, 7)])
    def test_unit_length_and_support_size(self, d, s2):
        for block in blocks([3], 0, 30, d, s2):
            np.testing.assert_allclose(np.linalg.norm(block.values, axis=1), 1.0)
            assert block.values.shape[1] == s2
            if block.index is not None:
                assert (np.diff(block.index, axis=1) > 0).all()
                assert block.index.min() >= 0
                assert block.index.max() < d

    def test_supports_are_uniform(self):
        """All C(6, 2) = 15 supports equally often (chi-squared at 1e-6)."""
        from scipy.stats import chisquare

        index = np.vstack([b.index for b in blocks([1], 0, 30_000, 6, 2)])
        counts = np.unique(index[:, 0] * 6 + index[:, 1], return_counts=True)[1]
        assert counts.size == 15
        assert chisquare(counts).pvalue > 1e-6

    def test_sparse_and_dense_forms_agree(self):
        rng = np.random.default_rng(0)
        w, c = rng.standard_normal(20), rng.standard_normal(9)
        (block,) = blocks([0], 2, 9, 20, 4)
        U = block.matrix().toarray()
        np.testing.assert_allclose(block.points(w, 0.5), w + 0.5 * U)
        np.testing.assert_allclose(block.combine(c), c @ U)

    def test_no_matrix_of_all_directions(self):
        """A million coordinates, ten thousand directions of three entries: 240 kB, not 80 GB."""
        total = sum(b.values.nbytes + b.index.nbytes for b in blocks([0], 0, 10_000, 1_000_000, 3))
        assert total == 10_000 * 3 * 16


class TestZerothOrderMoments:
    """Lemmas behind HZO-HT, for a function with curvature and a fixed set F."""

    d, s, mu = 12, 3, 0.05

    def setup_method(self):
        rng = np.random.default_rng(5)
        X = 3 * rng.standard_normal((40, self.d))
        self.risk = ez.risks.Logistic(X, rng.integers(0, 2, 40))
        self.w = 0.1 * rng.standard_normal(self.d)
        self.F = np.array([0, 4, 7])
        self.L = self.risk.smoothness.value
        self.gradient = self.risk.gradient(self.w)

    def one_direction_estimates(self, s2, n, mu):
        U = all_directions(self.d, s2, n, seed=s2)
        point = self.risk.at(self.w)
        (block,) = blocks([s2], 0, n, self.d, s2)
        slopes = (self.risk.values_along(point, block, mu) - point.value) / mu
        return self.d * slopes[:, None] * U

    @pytest.mark.parametrize("s2", [1, 4, 12])
    def test_bias(self, s2):
        """‖[E g]_F - [∇R]_F‖² <= ε_μ μ²."""
        g = self.one_direction_estimates(s2, 60_000, self.mu)[:, self.F]
        error = np.linalg.norm(g.std(axis=0)) / np.sqrt(len(g))
        bias = np.linalg.norm(g.mean(axis=0) - self.gradient[self.F])
        assert max(0.0, bias - 5 * error) ** 2 <= theory.epsilon_mu(self.d, self.s, self.L) * self.mu**2

    @pytest.mark.parametrize("s2", [1, 4, 12])
    @pytest.mark.parametrize("mu", [1e-4, 0.05])
    def test_second_moment_of_one_direction(self, s2, mu):
        """E‖g_F‖² <= ε_F ‖∇_F‖² + ε_{F^c} ‖∇_{F^c}‖² + ε_abs μ²."""
        squares = (self.one_direction_estimates(s2, 60_000, mu)[:, self.F] ** 2).sum(axis=1)
        inside = float(self.gradient[self.F] @ self.gradient[self.F])
        outside = float(self.gradient @ self.gradient) - inside
        bound = (
            theory.epsilon_F(self.d, self.s, s2) * inside
            + theory.epsilon_Fc(self.d, self.s, s2) * outside
            + theory.epsilon_abs(self.d, self.s, s2, self.L) * mu**2
        )
        assert squares.mean() - 5 * squares.std() / np.sqrt(len(squares)) <= bound
        if mu < 1e-3:
            # half of it is the exact moment of the linear part: the bound is not vacuous
            assert squares.mean() + 5 * squares.std() / np.sqrt(len(squares)) >= 0.4 * bound

    def test_variance_falls_as_one_over_q(self):
        g = self.one_direction_estimates(12, 64_000, 1e-4)
        one = g.var(axis=0).sum()
        many = g.reshape(-1, 16, self.d).mean(axis=1).var(axis=0).sum()
        assert many * 16 == pytest.approx(one, rel=0.1)

    @pytest.mark.parametrize("central", [False, True])
    @pytest.mark.slow
    def test_linear_function_converges_to_its_gradient(self, central):
        c = np.array([3.0, -1.0, 0.0, 2.0])
        risk = ez.risks.BlackBox(lambda W: W @ c, 4, batched=True)
        oracle = ez.ZerothOrder(n_directions=200_000, mu=0.1, central=central).bind(risk, Counts(), [0])
        g = oracle(risk.at(np.zeros(4)), 0)
        np.testing.assert_allclose(g, c, atol=5 * 4 * 3.8 / np.sqrt(200_000))

    def test_central_differences_have_no_quadratic_error(self):
        """For f = ‖w‖² and μ = 1 forward quotients are off by μ each, central ones exact."""
        risk = ez.risks.BlackBox(lambda W: (W**2).sum(axis=1), 3, batched=True)
        w = np.array([1.0, 2.0, -1.0])
        U = all_directions(3, 3, 50)
        exact = 3 * ((2 * U @ w)[:, None] * U).mean(axis=0)
        oracle = ez.ZerothOrder(n_directions=50, mu=1.0, central=True).bind(risk, Counts(), [0])
        np.testing.assert_allclose(oracle(risk.at(w), 0), exact, atol=1e-12)
        forward = ez.ZerothOrder(n_directions=50, mu=1.0).bind(risk, Counts(), [0])
        assert np.linalg.norm(forward(risk.at(w), 0) - exact) > 0.01


class TestValuesAlong:
    @pytest.mark.parametrize("s2", [3, 8])
    @pytest.mark.parametrize(
        "kind",
        [
            "least squares",
            "logistic",
            "huber",
            "poisson",
            "gamma",
            "hinge",
            "quantile",
            "multinomial",
            "intercept",
            "sparse",
        ],
    )
    def test_many_at_once_equals_one_by_one(self, kind, s2):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((30, 8)), rng.integers(0, 3, 30)
        weights = rng.uniform(0.5, 2, 30)
        risk = {
            "least squares": lambda: ez.risks.LeastSquares(X, y, ridge=0.3, sample_weight=weights),
            "logistic": lambda: ez.risks.Logistic(X, y > 0, ridge=0.3),
            "huber": lambda: ez.risks.Huber(X, y, delta=0.5),
            "poisson": lambda: ez.risks.Poisson(X, y),
            "gamma": lambda: ez.risks.Gamma(X, y + 1, sample_weight=weights, offset=weights),
            "hinge": lambda: ez.risks.SquaredHinge(X, y > 0, ridge=0.3, offset=weights),
            "quantile": lambda: ez.risks.Quantile(X, y, ridge=0.3, quantile=0.9),
            "multinomial": lambda: ez.risks.Multinomial(X, y, ridge=0.3, sample_weight=weights),
            "intercept": lambda: ez.risks.Logistic(X, y > 0, fit_intercept=True),
            "sparse": lambda: ez.risks.LeastSquares(sp.csr_array(X * (X > 0)), y, ridge=0.1),
        }[kind]()
        w = 0.3 * rng.standard_normal(risk.n_features)
        (block,) = blocks([0], 0, 11, risk.n_features, s2)
        expected = [risk.value(v) for v in block.points(w, 0.2)]
        np.testing.assert_allclose(risk.values_along(risk.at(w), block, 0.2), expected, rtol=1e-12)


class TestMiniBatch:
    @pytest.mark.parametrize("s", [1, 2, 4, 5, 6])
    def test_variance_over_all_batches(self, s):
        """E‖g_S - ∇R‖² = (n-s)/((n-1)s) · B, exactly, over all C(6, s) batches."""
        risk = regression(n=6, d=4, ridge=0.2)
        w = np.array([0.5, -1.0, 0.0, 2.0])
        full = risk.gradient(w)
        B = np.mean([np.sum((risk.gradient(w, [i]) - full) ** 2) for i in range(6)])
        errors = [np.sum((risk.gradient(w, list(rows)) - full) ** 2) for rows in itertools.combinations(range(6), s)]
        assert np.mean(errors) == pytest.approx((6 - s) / (5 * s) * B, rel=1e-10, abs=1e-12)
        assert ez.estimate_variance(risk, w).value == pytest.approx(B)
        assert ez.estimate_variance(risk, w).source == "estimate"

    @pytest.mark.parametrize("block", [1, 2, 4])
    def test_every_row_is_equally_likely(self, block):
        from scipy.stats import chisquare

        risk = regression(n=10)
        batches = ez.MiniBatch(3, block=block).bind(risk, Counts(), [7])
        rows = [batches.rows(t) for t in range(5000)]
        size = -(-3 // block) * block
        assert all(r.size == size and np.unique(r).size == size for r in rows)
        assert chisquare(np.bincount(np.concatenate(rows))).pvalue > 1e-6

    def test_blocks_are_contiguous(self):
        batches = ez.MiniBatch(8, block=8).bind(regression(n=100), Counts(), [0])
        for t in range(20):
            rows = batches.rows(t)
            assert ((np.diff(rows) == 1).sum()) >= 6  # at most one wrap around the end

    def test_a_full_batch_is_iht(self):
        risk = regression()
        full = ez.minimize(risk, 3, method="IHT", max_iter=40, tol=0)
        batch = ez.minimize(risk, 3, method=ez.Method(oracle=ez.MiniBatch(10**9)), max_iter=40, rng=0)
        np.testing.assert_array_equal(full.x, batch.x)
        np.testing.assert_array_equal(full.history.fun, batch.history.fun)
        assert batch.n_gradients == 40 * 60

    def test_cost_is_that_of_the_batch(self, tmp_path):
        """Of a memory map only the rows of the batch are read."""
        path = tmp_path / "X.npy"
        np.save(path, np.random.default_rng(0).standard_normal((1000, 5)))
        X = np.load(path, mmap_mode="r")
        risk = ez.risks.LeastSquares(X, np.ones(1000))
        seen = []
        rows = type(risk.design).rows
        try:
            type(risk.design).rows = lambda self, index: seen.append(len(index)) or rows(self, index)
            method = ez.Method(oracle=ez.MiniBatch(lambda t: 10 + t), step=0.01)
            result = ez.minimize(risk, 2, method=method, max_iter=5, monitor="final", rng=0)
        finally:
            type(risk.design).rows = rows
        assert seen == [10, 11, 12, 13, 14]
        assert result.n_gradients == sum(seen)

    @given(seed=st.integers(0, 1000))
    @settings(max_examples=10, deadline=None)
    def test_variance_reduction_is_exact_at_the_snapshot(self, seed):
        risk = regression(ridge=0.1)
        counts = Counts()
        oracle = ez.VarianceReduced(size=5, epoch=3).bind(risk, counts, [seed])
        start = risk.at(np.ones(12))
        np.testing.assert_allclose(oracle(start, 0), risk.gradient(np.ones(12)), rtol=1e-9)
        assert counts.n_gradients == 60 + 10
        elsewhere = risk.at(np.zeros(12))
        oracle(elsewhere, 1)
        assert counts.n_gradients == 60 + 20
        oracle(elsewhere, 3)  # a new snapshot
        assert counts.n_gradients == 60 + 20 + 60 + 10

    def test_svrg_converges_where_a_constant_batch_does_not(self):
        risk = regression(n=300, ridge=0.1)
        best = ez.minimize(risk, 3, method="IHT", max_iter=2000, tol=1e-12).fun
        step = 0.2 / risk.smoothness.value
        svrg = ez.minimize(risk, 3, method=ez.preset("SVRG-HT", step=step), max_iter=1500, rng=0)
        batch = ez.minimize(risk, 3, method=ez.preset("StoIHT", step=step), max_iter=1500, rng=0)
        assert svrg.history.fun[-1] - best <= 1e-6 * best
        assert np.mean(batch.history.fun[-100:]) - best > 1e-5 * best


class TestIntercept:
    @pytest.mark.parametrize("kind", ["least squares", "logistic", "multinomial"])
    def test_batches_carry_it_as_a_coordinate(self, kind):
        """Not counted, not constrained; the answer is that of the profiled problem."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 6)) + 1.0
        y = X[:, 0] - X[:, 1] + 5 + 0.1 * rng.standard_normal(200)
        classes = np.digitize(y, [4.5, 5.5])
        risk = {
            "least squares": lambda: ez.risks.LeastSquares(X, y, fit_intercept=True, ridge=0.01),
            "logistic": lambda: ez.risks.Logistic(X, y > 4.5, fit_intercept=True, ridge=0.1),
            "multinomial": lambda: ez.risks.Multinomial(X, classes, fit_intercept=True, ridge=0.1),
        }[kind]()
        gamma = S.L2Ball(1.2)
        k = 2 * risk.n_outputs
        exact = ez.minimize(risk, k, gamma, "IHT-2SP", max_iter=5000)
        method = ez.Method(oracle=ez.MiniBatch(lambda t: 50 + 5 * t), step=0.05)
        result = ez.minimize(risk, k, gamma, method, max_iter=400, rng=0)
        assert result.x.shape == (risk.n_features,)
        assert result.support.size <= k
        assert result.constraint is gamma
        assert result.fun == pytest.approx(exact.fun, rel=0.02)
        assert result.fun == pytest.approx(risk.value(result.x), rel=1e-10)

    def test_gradients_by_finite_differences(self):
        from ellzero.risks.explicit_intercept import ExplicitIntercept
        from ellzero.testing import check_risk

        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((20, 4)), rng.integers(0, 3, 20)
        check_risk(ExplicitIntercept(ez.risks.Multinomial(X, y, fit_intercept=True, ridge=0.5)))
        weights = rng.uniform(0.5, 1, 20)
        explicit = ExplicitIntercept(ez.risks.Logistic(X, y > 0, fit_intercept=True, sample_weight=weights))
        profiled = ez.risks.Logistic(X, y > 0, fit_intercept=True, sample_weight=weights)
        w = rng.standard_normal(4)
        assert explicit.value(np.append(w, profiled.intercept(w))) == pytest.approx(profiled.value(w))


class TestPresets:
    def test_hsg_takes_its_theorem_s_numbers(self):
        risk = regression(n=500, ridge=1.0)
        L, nu = risk.smoothness.value, risk.strong_convexity.value
        result = ez.minimize(risk, 4, S.L1Ball(2.0), ez.preset("HSG-HT-2SP", B=50.0, rho=0.25), max_iter=30, rng=0)
        p = theory.prescribe("HSG-HT-2SP", L, nu, k=4, rho=0.25, alpha=2.0, B=50.0, d=12)
        sizes = [theory.schedule_size(p.tau, p.omega, t, cap=500) for t in range(30)]
        assert result.largest_L == pytest.approx(2 * L)
        np.testing.assert_array_equal(np.diff(result.history.n_gradients), sizes)
        assert result.n_gradients == p.costs(30, 500).n_gradients == sum(sizes)

    def test_hzo_takes_its_theorem_s_numbers(self):
        risk = regression(d=6, ridge=5.0)
        p = theory.prescribe("HZO-HT", risk.smoothness.value, risk.strong_convexity.value, k=2, alpha=2.0, d=6)
        result = ez.minimize(risk, 2, method="HZO-HT", max_iter=8, rng=0)
        q = [theory.schedule_size(p.tau, p.omega, t) for t in range(8)]
        np.testing.assert_array_equal(np.diff(result.history.n_values), np.array(q) + 1)
        assert result.n_values == p.costs(8).n_values
        assert result.n_monitor == 1
        assert result.largest_L == pytest.approx(2 * risk.smoothness.value)

    def test_zoht_has_a_fixed_number_of_directions_and_a_shorter_step(self):
        risk = regression(d=6, ridge=5.0)
        p = theory.prescribe("HZO-HT", risk.smoothness.value, risk.strong_convexity.value, k=2, alpha=2.0, d=6)
        result = ez.minimize(risk, 2, method="ZOHT", max_iter=4, rng=0)
        np.testing.assert_array_equal(np.diff(result.history.n_values), np.ceil(p.tau) + 1)
        assert result.largest_L > 1 / p.step

    def test_the_variance_is_estimated_and_paid_for_if_not_given(self):
        risk = regression(ridge=1.0)
        result = ez.minimize(risk, 3, method="HSG-HT", max_iter=1, rng=0)
        assert result.history.n_gradients[0] == 60 + 60

    def test_prescribed_iterations(self):
        risk = regression(ridge=1.0)
        method = ez.preset("IHT-2SP", rho=0.25, epsilon=1e-3, radius=2.0)
        result = ez.minimize(risk, 6, S.L2Ball(2.0), method, tol=0)
        p = theory.prescribe("IHT-2SP", risk.smoothness.value, risk.strong_convexity.value, k=6, rho=0.25)
        assert result.nit == p.n_iter(1e-3, 4.0)
        assert result.status is Status.COMPLETED
        assert result.success

    def test_without_strong_convexity_the_error_says_what_to_give(self):
        wide = ez.risks.LeastSquares(np.random.default_rng(0).standard_normal((5, 9)), np.ones(5))
        with pytest.raises(ValueError, match="nu must be positive.*ridge > 0"):
            ez.minimize(wide, 2, method="HSG-HT")
        ez.minimize(wide, 2, method=ez.preset("HSG-HT", nu=0.1), max_iter=2, rng=0)

    def test_all_presets_run(self):
        risk = regression(ridge=3.0)
        for name in ("HSG-HT", "StoIHT", "SVRG-HT", "HZO-HT", "ZOHT"):
            result = ez.minimize(risk, 3, method=name, max_iter=5, rng=0)
            assert result.nit == 5
            assert result.fun < risk.value(np.zeros(12))


class TestReproducibility:
    @pytest.mark.parametrize("method", ["HSG-HT-2SP", "HZO-HT-2SP"])
    def test_same_seed_same_run(self, method):
        risk = regression(ridge=2.0)
        first, again, other = (ez.minimize(risk, 3, S.L1Ball(1.0), method, max_iter=6, rng=seed) for seed in (5, 5, 6))
        np.testing.assert_array_equal(first.x, again.x)
        np.testing.assert_array_equal(first.history.fun, again.history.fun)
        assert (first.x != other.x).any()

    def test_a_generator_gives_other_runs_each_time(self):
        risk, method = regression(), ez.Method(oracle=ez.MiniBatch(5), step=0.05)
        rng = np.random.default_rng(0)
        a, b = (ez.minimize(risk, 3, method=method, max_iter=5, rng=rng).x for _ in range(2))
        assert (a != b).any()
        np.testing.assert_array_equal(
            a, ez.minimize(risk, 3, method=method, max_iter=5, rng=np.random.default_rng(0)).x
        )


class TestSchedules:
    def test_geometric(self):
        schedule = ez.schedules.Geometric(2.5, 0.8, cap=9)
        assert [schedule(t) for t in range(8)] == [min(9, int(np.ceil(2.5 / 0.8**t))) for t in range(8)]
        assert ez.schedules.Geometric(1.0, 0.5)(10**6) == theory.LARGEST

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: ez.schedules.Geometric(-1, 0.5), ValueError, "tau"),
            (lambda: ez.schedules.Geometric(1, 1.5), ValueError, "omega"),
            (lambda: ez.MiniBatch(0).bind(regression(), Counts(), [0]), ValueError, "size must be at least 1"),
            (
                lambda: ez.MiniBatch("x").bind(regression(), Counts(), [0]),
                TypeError,
                "size must be an integer or a function",
            ),
            (lambda: ez.MiniBatch(lambda t: 0).bind(regression(), Counts(), [0]).rows(3), ValueError, r"size\(t=3\)"),
            (
                lambda: ez.ZerothOrder(5, support_size=13).bind(regression(), Counts(), [0]),
                ValueError,
                "at most the number of features, 12",
            ),
            (lambda: ez.ZerothOrder(5, mu=0).bind(regression(), Counts(), [0]), ValueError, "mu"),
        ],
    )
    def test_errors(self, make, error, message):
        with pytest.raises(error, match=message):
            make()
