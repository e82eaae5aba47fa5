"""The loop: methods, stopping, counting, the promise of every return, and the paper's counterexample."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import ellzero as ez
from common import support_preserving_sets
from ellzero import sets as S
from ellzero._core.stopping import Stop
from ellzero.datasets import diagonal_example, iht_counterexample
from ellzero.solver.finishes import Finish
from ellzero.solver.result import Status

NAMES = list(support_preserving_sets(6, np.random.default_rng(0)))


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 25))
    w = np.zeros(25)
    w[[2, 5, 11]] = [1.0, -2.0, 1.5]
    return ez.risks.LeastSquares(X, X @ w + 0.01 * rng.standard_normal(60)), w


def by_hand(risk, k, constraint, step, n_iter):
    """Algorithm 1 written out, returning every iterate."""
    w = np.zeros(risk.n_features)
    iterates = [w]
    for _ in range(n_iter):
        w = ez.two_step_projection(w - step * risk.gradient(w), k, constraint)
        iterates.append(w)
    return iterates


class TestMethods:
    @pytest.mark.parametrize("name", NAMES)
    def test_iht_2sp_is_algorithm_1_and_returns_its_best_iterate(self, problem, name):
        risk, _ = problem
        constraint = support_preserving_sets(25, np.random.default_rng(3))[name]
        iterates = by_hand(risk, 4, constraint, 1 / risk.smoothness.value, 30)
        result = ez.minimize(risk, 4, constraint, "IHT-2SP", max_iter=30, tol=0)
        values = [risk.value(w) for w in iterates]
        np.testing.assert_allclose(result.history.fun, values, rtol=1e-9)
        np.testing.assert_allclose(result.x, iterates[int(np.argmin(values))], atol=1e-10)
        assert result.fun == pytest.approx(min(values), rel=1e-9)
        assert result.projection == "two-step"

    def test_recovers_the_planted_support(self, problem):
        risk, w = problem
        for method in ("IHT", "IHT-2SP", "FG-HT-2SP", "PGD+H", "IHT+P", "auto"):
            result = ez.minimize(risk, 3, method=method)
            np.testing.assert_array_equal(result.support, [2, 5, 11])
            np.testing.assert_allclose(result.x, w, atol=0.02 if method != "PGD+H" else 0.2)
            assert result.success

    def test_pgd_h_projects_onto_gamma_and_thresholds_at_the_end(self, problem):
        risk, _ = problem
        gamma = S.L1Ball(2.0)
        w = np.zeros(25)
        for _ in range(500):
            w = gamma.project(w - risk.gradient(w) / risk.smoothness.value)
        result = ez.minimize(risk, 2, gamma, "PGD+H", max_iter=500, tol=0)
        np.testing.assert_allclose(result.x, ez.hard_threshold(w, 2), atol=1e-8)
        assert result.n_thresholds == 1

    def test_iht_p_ignores_gamma_until_the_end(self, problem):
        risk, _ = problem
        gamma = S.L1Ball(2.0)
        free = ez.minimize(risk, 3, method="IHT")
        result = ez.minimize(risk, 3, gamma, "IHT+P")
        np.testing.assert_allclose(result.x, gamma.project(free.x), atol=1e-12)
        assert gamma.contains(result.x)

    def test_a_set_that_does_not_preserve_supports(self, problem):
        risk, _ = problem
        with pytest.raises(ValueError, match=r"Simplex\(total=1\).*exact budget.*restricted"):
            ez.minimize(risk, 3, S.Simplex(1.0), "IHT-2SP")
        capped = S.Intersection(S.Simplex(1.0), S.LinfBall(0.5))
        result = ez.minimize(risk, 3, capped)
        assert result.projection == "restricted"
        assert result.violation <= 1e-12
        result = ez.minimize(risk, 3, S.Simplex(1.0))
        assert result.projection == "euclidean"
        assert result.x.sum() == pytest.approx(1.0, abs=1e-14)
        assert (result.x >= 0).all()
        assert result.support.size <= 3

    def test_iht_refuses_a_constraint(self, problem):
        with pytest.raises(ValueError, match="knows no constraint.*IHT-2SP"):
            ez.minimize(problem[0], 3, S.L1Ball(1.0), "IHT")
        ez.minimize(problem[0], 3, S.Everywhere(), "IHT", max_iter=1)

    def test_a_method_of_ones_own(self, problem):
        risk, _ = problem
        method = ez.Method(step=0.01, projection="restricted")
        result = ez.minimize(risk, 3, method=method, max_iter=5, tol=0)
        np.testing.assert_allclose(result.x, by_hand(risk, 3, S.Everywhere(), 0.01, 5)[-1], atol=1e-12)
        assert result.largest_L == pytest.approx(100)
        assert result.method == "custom"

    def test_gamma_of_the_features_holds_for_each_class(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((50, 6)), rng.integers(0, 3, 50)
        risk = ez.risks.Multinomial(X, y, ridge=0.1)
        sectors = S.GroupWise(S.L2Ball(0.05), list("aabbcc"))
        result = ez.minimize(risk, 9, sectors, "IHT-2SP")
        for w in result.x.reshape(3, 6):
            assert sectors.contains(w)
        assert result.support.size == 9

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: ez.preset("nope"), ValueError, "unknown method 'nope'; there are auto, IHT"),
            (lambda: ez.preset("IHT", rate=1), TypeError, "'IHT' has no parameter 'rate'; it has"),
            (lambda: ez.Method(projection="other"), ValueError, "projection must be auto or one of"),
            (lambda: ez.Method(projection="sparse"), ValueError, "needs a finish"),
            (lambda: ez.Method(finish="no"), ValueError, "finish must be"),
            (lambda: ez.preset("IHT", step=-1), ValueError, "step must lie in"),
            (
                lambda: ez.preset("IHT", step="2/L"),
                ValueError,
                "step must be a positive number or one of 1/L, adaptive",
            ),
            (
                lambda: ez.preset("auto", step=0.1),
                TypeError,
                "'auto' has no parameter 'step'; it has projection, n_starts, standardize, mu",
            ),
            (lambda: ez.Method(step="pursuit", projection="convex", finish="two-step"), ValueError, "has none"),
        ],
    )
    def test_errors(self, make, error, message):
        with pytest.raises(error, match=message):
            make()


class TestPaper:
    @pytest.mark.parametrize(("k", "ratio"), [(25, 1.10), (50, 1.25), (100, 1.33), (150, 1.00)])
    def test_iht_on_the_diagonal_example(self, k, ratio):
        """IHT ends above the optimum by these factors (the paper's point, and later methods beat it)."""
        example = diagonal_example()
        result = ez.minimize(ez.risks.LeastSquares(example.X, example.y), k, method="IHT", max_iter=5000)
        assert result.fun / example.optimum(k)[1] == pytest.approx(ratio, abs=0.006)

    @pytest.mark.parametrize(("kappa", "k_bar", "k"), [(3, 4, 4), (4, 8, 16), (6, 4, 18)])
    @pytest.mark.parametrize("factor", [0.5, 0.1, 0.99])
    def test_iht_stays_at_the_counterexample(self, kappa, k_bar, k, factor):
        """A fixed point for every step below 1/κ, at least κ²k̄/16 above a k̄-sparse point."""
        example = iht_counterexample(kappa, k_bar)
        risk = ez.risks.Quadratic(example.A, example.A @ example.b)
        start = example.fixed_point(k)
        result = ez.minimize(risk, k, method=ez.preset("IHT", step=factor / kappa), x0=start, max_iter=50, tol=0)
        np.testing.assert_array_equal(result.x, start)
        assert risk.value(start) - risk.value(example.reference) >= kappa**2 * k_bar / 16
        assert np.count_nonzero(example.reference) == k_bar

    def test_the_counterexample_does_move_with_a_large_k(self):
        """The test above can fail: from zero, with k at its 4κ²k̄, IHT gets below the reference."""
        example = iht_counterexample(3, 4)
        risk = ez.risks.Quadratic(example.A, example.A @ example.b)
        with pytest.warns(UserWarning, match="all features are allowed"):
            result = ez.minimize(risk, 4 * 9 * 4, method="IHT")
        assert result.fun <= risk.value(example.reference) + 1e-9

    @pytest.mark.parametrize("seed", range(10))
    def test_the_objective_never_increases_without_gamma(self, seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 50)) * rng.uniform(0.1, 10, 50)
        for risk in (
            ez.risks.LeastSquares(X, rng.standard_normal(30), ridge=0.1),
            ez.risks.Logistic(X, rng.integers(0, 2, 30)),
            ez.risks.Huber(X, 5 * rng.standard_normal(30)),
        ):
            fun = ez.minimize(risk, 5, method="IHT", max_iter=200).history.fun
            assert (np.diff(fun) <= 1e-12 * fun[0]).all()

    def test_a_too_large_step_does_increase_it(self):
        rng = np.random.default_rng(0)
        risk = ez.risks.LeastSquares(rng.standard_normal((30, 50)), rng.standard_normal(30))
        method = ez.preset("IHT", step=4 / risk.smoothness.value)
        assert (np.diff(ez.minimize(risk, 20, method=method, max_iter=50).history.fun) > 0).any()


class TestStopping:
    def test_statuses(self, problem):
        risk, _ = problem
        assert ez.minimize(risk, 3).status is Status.SETTLED
        assert ez.minimize(risk, 3, method="IHT").status in (Status.CONVERGED, Status.STATIONARY)
        assert ez.minimize(risk, 3, method="IHT", max_iter=2).status is Status.MAX_ITER
        assert not ez.minimize(risk, 3, method="IHT", max_iter=2).success
        assert ez.minimize(risk, 3, method="IHT", tol=0, time_limit=1e-9).status is Status.TIME_LIMIT
        assert ez.minimize(risk, 3, max_iter=0).nit == 0

    def test_the_start_may_be_the_answer(self):
        risk = ez.risks.LeastSquares(np.eye(3), np.zeros(3))
        result = ez.minimize(risk, 2, method="IHT")
        assert result.status is Status.CONVERGED
        assert result.nit == 1
        assert ez.minimize(risk, 2).nit == 0

    def test_stationary_by_residual(self):
        """Far from the origin the relative change stays large, the residual tells."""
        risk = ez.risks.Quadratic(np.diag([1.0, 0.5]), np.zeros(2))
        result = ez.minimize(risk, 2, x0=[1.0, 1.0], method=ez.preset("IHT", step=0.5))
        assert result.status is Status.STATIONARY
        assert result.stationarity < 1e-7

    def test_divergence_returns_the_best_point_seen(self, problem):
        risk, _ = problem
        result = ez.minimize(risk, 3, method=ez.preset("IHT", step=1e150))
        assert result.status is Status.DIVERGED
        assert np.isfinite(result.fun)
        assert result.fun <= risk.value(np.zeros(25))

    def test_callback(self, problem):
        seen = []

        def callback(intermediate_result):
            seen.append((intermediate_result.nit, intermediate_result.fun, intermediate_result.status))
            if len(seen) == 4:
                raise StopIteration

        result = ez.minimize(problem[0], 3, method="IHT", callback=callback)
        assert result.status is Status.CALLBACK
        assert [nit for nit, _, _ in seen] == [1, 2, 3, 4]
        assert all(status is Status.RUNNING for _, _, status in seen)
        np.testing.assert_allclose([fun for _, fun, _ in seen], result.history.fun[1:])

    def test_verbose(self, problem, capsys):
        ez.minimize(problem[0], 3, method="IHT", verbose=2, max_iter=7, tol=0)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1 + 7 + 1
        assert "max_iter iterations were made" in lines[-1]
        ez.minimize(problem[0], 3, method="IHT", verbose=1, max_iter=200, tol=0)
        assert 20 <= len(capsys.readouterr().out.splitlines()) <= 24
        ez.minimize(problem[0], 3)
        assert capsys.readouterr().out == ""


class TestStart:
    def test_warm_start(self, problem):
        risk, _ = problem
        first = ez.minimize(risk, 3)
        again = ez.minimize(risk, 3, x0=first.x)
        assert again.nit <= 2
        assert again.fun <= first.fun

    def test_an_infeasible_start_is_projected_with_a_warning(self, problem):
        risk, _ = problem
        with pytest.warns(UserWarning, match=r"x0 is infeasible \(25 nonzeros, k=3.*L1Ball"):
            result = ez.minimize(risk, 3, S.L1Ball(1.0), "IHT-2SP", x0=np.ones(25), max_iter=0)
        assert result.fun == pytest.approx(risk.value(ez.two_step_projection(np.ones(25), 3, S.L1Ball(1.0))))

    def test_errors(self, problem):
        risk, _ = problem
        with pytest.raises(ValueError, match=r"shape \(25,\)"):
            ez.minimize(risk, 3, x0=np.ones(3))
        with pytest.raises(ValueError, match="x0 must be finite"):
            ez.minimize(risk, 3, x0=np.full(25, np.nan))

    def test_keep(self, problem):
        risk, _ = problem
        result = ez.minimize(risk, 4, keep=[0])
        np.testing.assert_array_equal(result.support, [0, 2, 5, 11])


class TestCounting:
    def test_gradients_thresholds_and_monitored_values(self, problem):
        result = ez.minimize(problem[0], 3, method="IHT-2SP", max_iter=10, tol=0)
        assert (result.nit, result.n_gradients, result.n_thresholds) == (10, 10 * 60, 10)
        assert (result.n_values, result.n_monitor) == (0, 11)
        history = result.history
        assert len(history) == 11
        np.testing.assert_array_equal(history.n_gradients, 60 * np.arange(11))
        np.testing.assert_array_equal(history.n_thresholds, np.arange(11))
        assert history.n_gradients.dtype == np.int64
        assert np.isnan(history.step[0])
        assert (np.diff(history.time) >= 0).all()
        with pytest.raises(AttributeError, match="no column 'loss'; it has fun"):
            _ = history.loss

    def test_monitor_seldom(self, problem):
        seldom = ez.minimize(problem[0], 3, method="IHT", max_iter=10, tol=0, monitor=4)
        assert seldom.n_monitor == 1 + 2 + 1
        np.testing.assert_array_equal(np.flatnonzero(~np.isnan(seldom.history.fun)), [0, 4, 8])
        last = ez.minimize(problem[0], 3, method="IHT", max_iter=10, tol=0, monitor="final")
        assert last.n_monitor == 1
        every = ez.minimize(problem[0], 3, method="IHT", max_iter=10, tol=0)
        assert last.fun == pytest.approx(every.history.fun[-1])

    def test_an_iteration_is_one_product_each_way(self):
        """Value and gradient share the forward product."""
        from scipy.sparse.linalg import LinearOperator

        X = np.random.default_rng(0).standard_normal((20, 30))
        calls = {"forward": 0, "adjoint": 0}

        def forward(w):
            calls["forward"] += 1
            return X @ w

        def adjoint(r):
            calls["adjoint"] += 1
            return X.T @ r

        operator = LinearOperator(X.shape, matvec=forward, rmatvec=adjoint, dtype=float)
        risk = ez.risks.LeastSquares(operator, np.ones(20))
        calls.update(forward=0, adjoint=0)
        ez.minimize(risk, 3, method=ez.preset("IHT", step=1e-3), max_iter=10, tol=0)
        # 11 points are looked at; the last gradient is that of `stationarity`
        assert calls == {"forward": 11, "adjoint": 11}


class TestPromise:
    def test_a_broken_set_is_not_returned_as_if_it_held(self, problem):
        class Broken(S.L1Ball):
            closed_under_zeroing, violation = True, S.L1Ball.violation

            def project(self, v, support=None):
                return 1.01 * super().project(v, support)

        with pytest.raises(RuntimeError, match=r"breaks its promise.*violation 0.01.*check_set"):
            ez.minimize(problem[0], 3, Broken(0.5), "IHT-2SP")

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("method", ["IHT-2SP", "PGD+H", "IHT+P"])
    def test_k_and_gamma_hold(self, problem, name, method):
        gamma = support_preserving_sets(25, np.random.default_rng(9))[name]
        result = ez.minimize(problem[0], 2, gamma, method, max_iter=50)
        assert result.support.size <= 2
        assert result.violation <= 1e-12

    def test_edges_of_k(self, problem):
        risk, _ = problem
        assert ez.minimize(risk, 0).support.size == 0
        with pytest.warns(UserWarning, match="k=100 is greater than n_features=25: all features are allowed"):
            dense = ez.minimize(risk, 100, max_iter=20_000, tol=1e-12)
        assert dense.k == 25
        np.testing.assert_allclose(dense.x, np.linalg.lstsq(risk.design.X, risk.y, rcond=None)[0], atol=1e-6)

    def test_repr(self, problem):
        text = repr(ez.minimize(problem[0], 3, S.L1Ball(1.0), "IHT-2SP"))
        for part in ("objective", "2 of at most 3", "L1Ball(radius=1)", "IHT-2SP", "thresholdings"):
            assert part in text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"risk": 3}, TypeError, "risk must be a risk"),
        ({"k": -1}, ValueError, "k must be at least 0"),
        ({"constraint": 1.0}, TypeError, "constraint must be a set"),
        ({"method": 3}, TypeError, "method must be a name"),
        ({"method": "IHT3"}, ValueError, "unknown method 'IHT3'"),
        ({"tol": -1}, ValueError, "tol must lie in"),
        ({"max_iter": -1}, ValueError, "max_iter must be at least 0"),
        ({"time_limit": 0}, ValueError, "time_limit"),
        ({"monitor": "never"}, ValueError, "monitor must be"),
        ({"monitor": 0}, ValueError, "monitor must be at least 1"),
        ({"keep": 3}, TypeError, "keep must be a sequence of integers"),
        ({"rng": -1}, ValueError, "rng as a seed must be at least 0, got rng=-1"),
        ({"callback": 3}, TypeError, "callback must be a function of the intermediate result"),
        ({"callback": 3, "method": "exact"}, TypeError, "callback must be a function"),
        ({"rng": np.random.RandomState(0)}, TypeError, "rng must be None, an integer or a numpy.random.Generator"),
        (
            {"risk": ez.risks.Poisson(np.eye(3), np.ones(3)), "method": "IHT"},
            ValueError,
            "needs a finite positive smoothness.*step=0.1",
        ),
    ],
)
def test_bad_arguments(problem, arguments, error, message):
    with pytest.raises(error, match=message):
        ez.minimize(**{"risk": problem[0], "k": 3, **arguments})


def test_a_run_leaves_no_cycle_that_keeps_the_data():
    gc.collect()
    gc.disable()
    try:
        X = np.random.default_rng(0).standard_normal((50, 20))
        for gamma in (None, ez.sets.L1Ball(1.0), ez.sets.Simplex(1.0)):
            risk = ez.risks.LeastSquares(X, X[:, 0])
            alive = weakref.ref(risk)
            ez.minimize(risk, 2, gamma)
            del risk
            assert alive() is None
    finally:
        gc.enable()


# ---- the parts of a run


def test_a_finish_is_a_part_and_its_names_are_aliases():
    risk = ez.risks.LeastSquares(*_correlated())
    named, parted = (
        ez.minimize(risk, 4, method=ez.Method(step="pursuit", finish=finish)) for finish in ("swap", ez.Exchanges())
    )
    assert ez.Method(finish="swap") == ez.Method(finish=ez.Exchanges(n_starts=1))
    assert ez.Method(finish="two-step").finish == ez.LastProjection("two-step")
    assert named.fun == parted.fun and named.projection == parted.projection == "euclidean"
    once, often = (
        ez.minimize(risk, 4, method=ez.Method(step="1/L", finish=ez.Exchanges(n)), max_iter=3, rng=0) for n in (1, 9)
    )
    assert often.fun <= once.fun and often.n_gradients > once.n_gradients
    last = ez.minimize(
        risk, 4, ez.sets.L1Ball(0.5), ez.Method(projection="sparse", finish=ez.LastProjection("restricted"))
    )
    assert last.projection == "sparse, restricted at the end" and last.violation == 0
    for wrong in (
        lambda: ez.LastProjection("euclidean"),
        lambda: ez.Exchanges(0),
        lambda: ez.preset("auto", n_starts=0),
    ):
        with pytest.raises(ValueError, match=r"'two-step' or 'restricted'|n_starts"):
            wrong()


def test_a_finish_of_ones_own():
    class Doubled(Finish):
        label = ", doubled"

        def apply(self, state, again=None):
            state.best = state.risk.at(2 * state.best.w)

    risk = ez.risks.LeastSquares(*_correlated())
    plain, doubled = (ez.minimize(risk, 3, method=ez.Method(finish=finish), max_iter=5) for finish in (None, Doubled()))
    np.testing.assert_array_equal(doubled.x, 2 * plain.x)
    assert doubled.fun == pytest.approx(risk.value(2 * plain.x)) and doubled.projection == "euclidean, doubled"


def test_any_part_may_stop_a_run():
    class Patient:
        kind = "full"

        def bind(self, risk, counts, entropy):
            inner = ez.FullGradient().bind(risk, counts, entropy)

            def gradients(point, t):
                if t == 3:
                    raise Stop(Status.SETTLED)
                return inner(point, t)

            return gradients

    risk = ez.risks.LeastSquares(*_correlated())
    result = ez.minimize(risk, 3, method=ez.Method(oracle=Patient()), tol=0)
    assert result.status is Status.SETTLED and result.nit == 3 and len(result.history) == 4


def test_estimated_gradients_are_no_refits():
    """Points at which a gradient was estimated from values are refitted by the exchanges like others."""
    X, y = _correlated()
    risk = ez.risks.LeastSquares(X, y)
    method = ez.Method(oracle=ez.ZerothOrder(10), step=1e-3, finish="swap")
    result = ez.minimize(risk, 3, method=method, max_iter=3, rng=0)
    np.testing.assert_allclose(risk.gradient(result.x)[result.support], 0.0, atol=1e-10)


@pytest.mark.parametrize("name", ["IHT", "IHT-2SP", "PGD", "PGD+H", "auto", "HSG-HT", "HZO-HT-2SP", "ZOHT", "StoIHT"])
def test_methods_know_whether_they_are_stochastic(name):
    assert ez.preset(name).stochastic == (name[:3] in ("HSG", "HZO", "ZOH", "Sto"))
    assert not ez.preset("IHT").stochastic and ez.preset("IHT", oracle=ez.MiniBatch(3)).stochastic


def test_the_solver_needs_no_certificates():
    code = """
import sys, numpy as np, ellzero as ez
X = np.random.default_rng(0).standard_normal((30, 8))
ez.minimize(ez.risks.LeastSquares(X, X[:, 0]), 2)
ez.minimize_path(ez.risks.LeastSquares(X, X[:, 0]), 2)
assert not [name for name in sys.modules if name.startswith("ellzero.certificates")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def _correlated():
    problem = ez.datasets.make_regression(60, 40, 5, correlation=0.9, snr=2.0, rng=0)
    return problem.X, problem.y
