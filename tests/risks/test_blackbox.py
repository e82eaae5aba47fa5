"""Black boxes: budgets, failures, executors, noise, ask and tell."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero import sets as S
from ellzero.risks.counts import Counts
from ellzero.solver.result import Status

D = 20
TARGET = np.zeros(D)
TARGET[[3, 8, 11]] = [1.0, -2.0, 0.5]


def bowl(w):
    return float((w - TARGET) @ (w - TARGET))


class Counter:
    """bowl, with every call counted, and failures on demand."""

    def __init__(self, fail=lambda n: None):
        self.calls, self.fail, self.lock = 0, fail, threading.Lock()

    def __call__(self, w):
        with self.lock:
            self.calls += 1
            n = self.calls
        what = self.fail(n)
        if isinstance(what, Exception):
            raise what
        return bowl(w) if what is None else what[0]


METHOD = ez.Method(oracle=ez.ZerothOrder(n_directions=30), step=0.1)


class TestBudget:
    @given(
        max_queries=st.integers(3, 400),
        q=st.integers(1, 60),
        central=st.booleans(),
        monitor=st.sampled_from(["every", 3, "final"]),
    )
    @settings(max_examples=40, deadline=None)
    def test_max_queries_is_never_exceeded_and_the_counts_add_up(self, max_queries, q, central, monitor):
        f = Counter()
        method = ez.Method(oracle=ez.ZerothOrder(n_directions=q, central=central), step=0.05)
        risk = ez.risks.BlackBox(f, D)
        result = ez.minimize(risk, 3, method=method, max_queries=max_queries, rng=0, monitor=monitor)
        assert f.calls <= max_queries
        assert f.calls == result.n_values + result.n_monitor
        assert result.fun == bowl(result.x)
        assert result.status is Status.MAX_QUERIES or result.nit == 1000

    def test_the_last_iteration_takes_what_is_left(self):
        f = Counter()
        result = ez.minimize(ez.risks.BlackBox(f, D), 3, method=METHOD, max_queries=100, rng=0)
        # 31 a step, three times; then 1 + q with the last value in reserve: q = 5
        np.testing.assert_array_equal(np.diff(result.history.n_values), [31, 31, 31, 6])
        assert (result.n_values, result.n_monitor, f.calls) == (99, 1, 100)

    def test_auto_stays_within_too(self):
        for max_queries in (3, 17, 200, 999):
            f = Counter()
            result = ez.minimize(ez.risks.BlackBox(f, D), 3, max_queries=max_queries, rng=1)
            assert f.calls <= max_queries
            assert f.calls == result.n_values + result.n_monitor

    @pytest.mark.parametrize("monitor", ["every", 3, "final"])
    def test_a_callback_asks_for_nothing(self, monitor):
        f, seen = Counter(), []
        result = ez.minimize(
            ez.risks.BlackBox(f, D), 3, method=METHOD, max_queries=200, rng=0, monitor=monitor,
            callback=lambda r: seen.append(r.fun),
        )  # fmt: skip
        assert f.calls == result.n_values + result.n_monitor <= 200
        assert np.isnan(seen).all() == (monitor == "final")

    def test_a_finish_is_in_the_budget(self):
        f = Counter()
        method = ez.Method(oracle=ez.ZerothOrder(10), step=0.1, projection="convex", finish="two-step")
        result = ez.minimize(ez.risks.BlackBox(f, D), 3, S.L1Ball(1.0), method, max_queries=100, rng=0)
        assert f.calls == result.n_values + result.n_monitor <= 100

    def test_steps_that_need_gradients_are_refused(self):
        for options in ({"step": "adaptive"}, {"step": "pursuit"}, {"step": 0.1, "finish": "swap"}):
            method = ez.Method(oracle=ez.ZerothOrder(10), **options)
            with pytest.raises(ValueError, match="needs gradients.*step='search'"):
                ez.minimize(ez.risks.BlackBox(bowl, D), 3, method=method, max_queries=100)

    def test_retries_count_as_queries(self):
        f = Counter(lambda n: (np.nan,) if n % 3 == 0 else None)
        risk = ez.risks.BlackBox(f, D, on_failure="retry")
        result = ez.minimize(risk, 3, method=METHOD, max_queries=150, rng=0)
        retried = sum(failure.action == "retried" for failure in result.failures)
        assert f.calls == result.n_values + result.n_monitor <= 150
        assert retried > 20

    def test_errors(self):
        with pytest.raises(ValueError, match="max_queries must be at least 3 here"):
            ez.minimize(ez.risks.BlackBox(bowl, D), 3, max_queries=2)
        with pytest.raises(ValueError, match="max_queries=50 limits function values.*asks for gradients"):
            ez.minimize(ez.risks.LeastSquares(np.eye(3), np.ones(3)), 1, max_queries=50)
        with pytest.raises(TypeError, match="a BlackBox has no gradient.*ZerothOrder"):
            ez.minimize(ez.risks.BlackBox(bowl, D), 3, method=ez.preset("IHT", step=0.1))


class TestAuto:
    def test_finds_a_planted_support(self):
        result = ez.minimize(ez.risks.BlackBox(bowl, D), 3, max_queries=2000, rng=0)
        assert set(result.support) == {3, 8, 11}
        np.testing.assert_allclose(result.x, TARGET, atol=0.01)
        assert result.method == "auto (zeroth-order)"

    @pytest.mark.parametrize("scale", [1e-6, 1e6])
    def test_does_not_depend_on_the_units_of_f(self, scale):
        risk = ez.risks.BlackBox(lambda w: scale * bowl(w), D)
        result = ez.minimize(risk, 3, max_queries=2000, rng=0)
        assert set(result.support) == {3, 8, 11}
        assert result.fun <= 1e-3 * scale

    def test_with_a_constraint(self):
        result = ez.minimize(ez.risks.BlackBox(bowl, D), 3, S.L1Ball(1.0), max_queries=3000, rng=0)
        assert S.L1Ball(1.0).contains(result.x)
        exact = ez.two_step_projection(TARGET, 3, S.L1Ball(1.0))
        assert result.fun <= bowl(exact) * 1.05

    def test_ends_by_itself(self):
        result = ez.minimize(ez.risks.BlackBox(bowl, D), 3, rng=0)
        assert result.status is Status.SETTLED
        assert result.success


KINDS = {
    "nan": (np.nan,),
    "inf": (np.inf,),
    "none": (None,),
    "text": ("bad",),
    "exception": ZeroDivisionError("oops"),
}


class TestFailures:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("policy", ["penalise", "retry", "drop"])
    def test_one_in_ten_still_gives_an_answer_within_the_budget(self, kind, policy):
        f = Counter(lambda n: KINDS[kind] if n % 10 == 7 else None)
        risk = ez.risks.BlackBox(f, D, on_failure=policy)
        # a penalty counts as a slope of penalty/μ, so that policy wants a long difference
        method = ez.Method(oracle=ez.ZerothOrder(n_directions=30, mu=1.0), step=0.05)
        result = ez.minimize(risk, 3, method=method, max_queries=600, rng=0)
        assert f.calls == result.n_values + result.n_monitor <= 600
        assert len(result.failures) == sum(1 for n in range(1, f.calls + 1) if n % 10 == 7)
        assert result.fun < 0.5 * bowl(np.zeros(D))
        assert result.fun == bowl(result.x)
        expected = {"nan": "not finite", "inf": "not finite", "none": "not a number", "text": "not a number"}
        assert {failure.kind for failure in result.failures} == {expected.get(kind, "exception")}

    def test_raise_names_the_evaluation_and_the_remedy(self):
        f = Counter(lambda n: ZeroDivisionError("oops") if n == 12 else None)
        with pytest.raises(
            ez.risks.BlackBoxError, match="evaluation 11 .*ZeroDivisionError: oops.*on_failure='retry'"
        ) as caught:
            ez.minimize(ez.risks.BlackBox(f, D), 3, method=METHOD, max_queries=600, rng=0)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_a_function_that_dies_for_good(self):
        f = Counter(lambda n: (np.nan,) if n > 200 else None)
        result = ez.minimize(ez.risks.BlackBox(f, D, on_failure="drop"), 3, method=METHOD, max_queries=2000, rng=0)
        assert result.status is Status.FAILED
        assert not result.success
        assert np.isfinite(result.fun)

    def test_dropping_leaves_the_direction_out_of_the_mean(self):
        c = np.arange(1.0, 4.0)
        f = Counter()
        risk = ez.risks.BlackBox(
            lambda w: float(c @ w) if f(np.zeros(D)) is not None and f.calls % 2 else np.nan, 3, on_failure="drop"
        )
        oracle = ez.ZerothOrder(n_directions=20_000, mu=1.0).bind(risk, Counts(), [0])
        # the first call, at the point itself, works; half of the others fail
        np.testing.assert_allclose(oracle(risk.at(np.zeros(3)), 0), c, atol=0.5)

    def test_penalty(self):
        f = Counter(lambda n: (np.nan,) if n == 5 else None)
        risk = ez.risks.BlackBox(f, D, on_failure="penalise", penalty=77.0)
        np.testing.assert_array_equal(
            risk.evaluate(np.zeros((6, D))), [bowl(np.zeros(D))] * 4 + [77.0] + [bowl(np.zeros(D))]
        )
        worst = ez.risks.BlackBox(Counter(lambda n: (np.nan,) if n == 2 else None), D, on_failure="penalise")
        points = np.outer([0.0, 1.0, 3.0], np.ones(D))
        assert worst.evaluate(points)[1] == bowl(points[2])

    def test_batched(self):
        risk = ez.risks.BlackBox(lambda W: ((W - TARGET) ** 2).sum(axis=1), D, batched=True)
        single = ez.minimize(ez.risks.BlackBox(bowl, D), 3, method=METHOD, max_queries=500, rng=0)
        batched = ez.minimize(risk, 3, method=METHOD, max_queries=500, rng=0)
        np.testing.assert_allclose(single.x, batched.x, atol=1e-8)
        with pytest.raises(ez.risks.BlackBoxError, match=r"shape \(1,\), got shape \(\)"):
            ez.risks.BlackBox(lambda W: 3.0, D, batched=True).value(np.zeros(D))

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"f": 3}, TypeError, "f must be a function"),
            ({"on_failure": "ignore"}, ValueError, "on_failure must be one of raise, penalise, retry, drop"),
            ({"batched": True, "workers": 2}, ValueError, "batched=True"),
            ({"workers": 0}, ValueError, "workers must be at least 1"),
            ({"timeout": -1}, ValueError, "timeout"),
            ({"repeats": 0}, ValueError, "repeats"),
            ({"recheck": (0, 1)}, ValueError, "recheck"),
            ({"recheck": 5}, TypeError, r"recheck must be a pair \(m, r\).*got 5"),
            ({"recheck": (1, 2, 3)}, TypeError, r"recheck must be a pair \(m, r\)"),
        ],
    )
    def test_errors(self, options, error, message):
        with pytest.raises(error, match=message):
            ez.risks.BlackBox(**{"f": bowl, "n_features": D, **options})


@pytest.fixture(scope="module")
def serial():
    return ez.minimize(ez.risks.BlackBox(bowl, D), 3, method=METHOD, max_queries=200, rng=0)


class TestExecutors:
    def agrees(self, serial, workers):
        result = ez.minimize(ez.risks.BlackBox(bowl, D, workers=workers), 3, method=METHOD, max_queries=200, rng=0)
        np.testing.assert_array_equal(result.x, serial.x)
        np.testing.assert_array_equal(result.history.fun, serial.history.fun)
        assert result.n_values == serial.n_values

    def test_threads(self, serial):
        with ThreadPoolExecutor(3) as executor:
            self.agrees(serial, executor)

    def test_worker_processes(self, serial):
        self.agrees(serial, 2)

    def test_dask(self, serial):
        distributed = pytest.importorskip("distributed", reason="dask is not installed; the extra `dask` brings it")
        with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
            self.agrees(serial, client.get_executor())

    def test_results_do_not_depend_on_the_order_of_completion(self, serial):
        rng = np.random.default_rng()

        def slow(w):
            time.sleep(rng.uniform(0, 2e-3))
            return bowl(w)

        with ThreadPoolExecutor(4) as executor:
            risk = ez.risks.BlackBox(slow, D, workers=executor)
            result = ez.minimize(risk, 3, method=METHOD, max_queries=200, rng=0)
        np.testing.assert_array_equal(result.x, serial.x)

    @pytest.mark.slow
    def test_a_call_that_hangs_is_ended_and_nothing_hangs_at_exit(self, tmp_path):
        """One in forty hangs for an hour; the whole program must be over soon after its work."""
        import subprocess
        import sys

        script = tmp_path / "hang.py"
        script.write_text(
            "import time, numpy as np, ellzero as ez\n"
            "def f(w):\n"
            "    if int(abs(w).sum() * 1e9) % 40 == 0 and abs(w).sum() > 0: time.sleep(3600)\n"
            "    return float(((w - 1) ** 2).sum())\n"
            "if __name__ == '__main__':\n"
            "    risk = ez.risks.BlackBox(f, 6, workers=2, timeout=0.4, on_failure='drop')\n"
            "    method = ez.Method(oracle=ez.ZerothOrder(n_directions=20), step=0.1)\n"
            "    res = ez.minimize(risk, 2, method=method, max_queries=200, rng=0)\n"
            "    print(res.n_values + res.n_monitor, len(res.failures), sorted({f.kind for f in res.failures}), res.fun < 5.5)\n"
        )
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        queries, failures, rest = done.stdout.split(maxsplit=2)
        assert int(queries) <= 200
        assert int(failures) >= 1
        assert rest.strip() == "['time-out'] True"

    def test_a_worker_that_dies_is_replaced(self, tmp_path):
        def deadly(w):
            import os

            if abs(w[0] - 5) < 1e-12:
                os._exit(1)
            return bowl(w)

        points = np.zeros((5, D))
        points[2, 0] = 5.0
        values = ez.risks.BlackBox(deadly, D, workers=1, on_failure="drop").evaluate(points)
        assert np.isnan(values[2])
        np.testing.assert_array_equal(np.delete(values, 2), bowl(np.zeros(D)))

    def test_abandoned_threads_are_counted(self):
        def stuck(w):
            if abs(w[0] - 5) < 1e-12:
                time.sleep(1.0)
            return bowl(w)

        points = np.zeros((5, D))
        points[2, 0] = 5.0
        counts = Counts()
        with ThreadPoolExecutor(2) as executor:
            risk = ez.risks.BlackBox(stuck, D, workers=executor, timeout=0.2, on_failure="drop")
            with risk.session(counts) as session:
                values = risk.evaluate(points)
        assert np.isnan(values).tolist() == [False, False, True, False, False]
        assert [failure.kind for failure in session.failures] == ["time-out"]


class TestNoise:
    def test_repeats_are_averaged_and_counted(self):
        noise = np.random.default_rng(0)
        f = Counter()
        risk = ez.risks.BlackBox(lambda w: f(w) + noise.standard_normal(), D, repeats=4)
        values = risk.evaluate(np.zeros((2000, D)))
        assert values.std() == pytest.approx(0.5, rel=0.1)
        f.calls = 0
        result = ez.minimize(risk, 3, method=METHOD, max_queries=1000, rng=0)
        assert f.calls == result.n_values + result.n_monitor <= 1000
        assert np.diff(result.history.n_values)[0] == 4 * 31

    def test_common_random_numbers_cancel(self):
        seeds = []

        def noisy(w, seed):
            seeds.append(seed)
            return bowl(w) + 100 * np.random.default_rng(seed).standard_normal()

        risk = ez.risks.BlackBox(noisy, D, common_random_numbers=True)
        result = ez.minimize(risk, 3, method=METHOD, max_iter=40, rng=0)
        assert set(result.support) == {3, 8, 11}
        # the base value and all directions of an iteration share a seed, the next iteration has another
        assert seeds[:31] == [0] * 31
        assert seeds[31:62] == [1] * 31
        assert len(seeds) == result.n_values + result.n_monitor

    def test_common_random_numbers_with_searched_steps(self):
        """A value of the last iteration has another seed, so it is asked for again."""
        seeds = []

        def noisy(w, seed):
            seeds.append(seed)
            return bowl(w) + 100 * np.random.default_rng(seed).standard_normal()

        result = ez.minimize(ez.risks.BlackBox(noisy, D, common_random_numbers=True), 3, max_queries=1500, rng=0)
        assert len(seeds) == result.n_values + result.n_monitor <= 1500
        assert set(result.support) == {3, 8, 11}

    def test_the_best_few_are_looked_at_again(self):
        noise = np.random.default_rng(0)
        f = Counter()
        risk = ez.risks.BlackBox(lambda w: f(w) + 0.3 * noise.standard_normal(), D, recheck=(5, 40))
        method = ez.Method(oracle=ez.ZerothOrder(n_directions=60, mu=0.5), step=0.1)
        result = ez.minimize(risk, 3, method=method, max_queries=3000, rng=0)
        assert f.calls == result.n_values + result.n_monitor <= 3000
        assert result.n_monitor >= 200
        # a single noisy value would be optimistic by about a standard deviation
        assert abs(result.fun - bowl(result.x)) < 0.2

    def test_a_candidate_that_fails_for_good_does_not_win(self):
        f = Counter(lambda n: (np.nan,) if n > 380 else None)
        risk = ez.risks.BlackBox(f, D, recheck=(3, 5), on_failure="drop")
        result = ez.minimize(risk, 3, method=METHOD, max_queries=400, rng=0)
        assert np.isfinite(result.fun)
        assert f.calls <= 400


class TestAskTell:
    @pytest.mark.parametrize("central", [False, True])
    def test_the_same_as_minimize(self, central):
        oracle = ez.ZerothOrder(n_directions=30, support_size=7, central=central)
        result = ez.minimize(
            ez.risks.BlackBox(bowl, D), 3, S.L1Ball(2.0), ez.Method(oracle=oracle, step=0.1), max_iter=10, rng=4
        )
        ask = oracle.bind(ez.risks.BlackBox(None, D), Counts(), [4])
        w, best = np.zeros(D), np.zeros(D)
        for t in range(10):
            points = ask.queries(w, t)
            assert points.shape == (60 if central else 31, D)
            g = ask.estimate([bowl(p) for p in points])
            w = ez.two_step_projection(w - 0.1 * g, 3, S.L1Ball(2.0))
            best = min(best, w, key=bowl)
        np.testing.assert_allclose(best, result.x, atol=1e-12)

    def test_on_the_risk_itself(self):
        risk = ez.risks.BlackBox(None, D)
        points = risk.queries(np.zeros(D), 0)
        g = risk.estimate([bowl(p) for p in points])
        assert g @ (-2 * TARGET) > 0
        values = np.array([bowl(p) for p in points])
        values[5] = np.nan
        assert np.isfinite(risk.estimate(values)).all()

    def test_errors(self):
        risk = ez.risks.BlackBox(None, D)
        with pytest.raises(ValueError, match="follows queries"):
            risk.estimate([1.0])
        risk.queries(np.zeros(D))
        with pytest.raises(ValueError, match=r"shape \(101,\), one for each query, got \(3,\)"):
            risk.estimate([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r"R\(w\), must be finite"):
            risk.estimate(np.full(101, np.nan))
        with pytest.raises(TypeError, match="has no function"):
            risk.value(np.zeros(D))
