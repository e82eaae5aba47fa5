"""max_queries holds whatever fails, is repeated, killed and resumed; and the counts are the calls that were made."""

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest

import ellzero as ez
from ellzero.solver.result import Status

D = 6


class Killed(BaseException):
    """Ends a run as a kill does: nothing of it is left but its files."""


@dataclass
class Setting:
    """A run drawn at random, and the function that is called: with failures, and dying at a given call."""

    seed: int
    calls: int = 0
    die_at: float = math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self):
        draw = np.random.default_rng(self.seed)
        self.policy = str(draw.choice(["drop", "retry", "penalise", "raise"]))
        self.how = str(draw.choice(["here", "here", "batched", "one entry", "threads"]))
        self.fail = 0.0 if self.policy == "raise" else float(draw.choice([0, 0.05, 0.2, 0.6, 0.95]))
        self.monitor = ["every", "final", int(draw.integers(2, 6))][draw.integers(3)]
        self.repeats, self.retries = int(draw.choice([1, 1, 1, 2, 3])), int(draw.integers(0, 5))
        self.recheck = None if draw.random() < 0.6 else (int(draw.integers(1, 4)), int(draw.integers(1, 4)))
        self.seeds = bool(draw.random() < 0.2) and not self.batched
        oracle = ez.ZerothOrder(int(draw.integers(1, 25)), [None, 3][draw.random() < 0.3], central=draw.random() < 0.5)
        last = {"projection": "convex", "finish": "two-step"} if draw.random() < 0.2 else {}
        self.method = ez.preset("auto") if draw.random() < 0.3 else ez.Method(oracle=oracle, step=0.05, **last)
        self.kills, self.max_iter = int(draw.choice([0, 1, 1, 2, 4])), int(draw.choice([3, 1000]))
        m, r = self.recheck or (0, 0)
        self.max_queries = max(
            int(draw.integers(12, 150)), self.repeats * (3 + m * r + (self.method.finish is not None))
        )
        self.longer, self.dice = bool(draw.random() < 0.2), np.random.default_rng(self.seed + 5)

    @property
    def batched(self):
        return self.how in ("batched", "one entry")

    def count(self, calls):
        with self.lock:
            self.calls += calls
            if self.calls >= self.die_at:
                self.die_at = math.inf
                raise Killed

    def one(self, w, seed=None):
        self.count(1)
        if self.dice.random() < self.fail:
            return [math.inf, None, math.nan, "x"][self.dice.integers(4)]
        return float(np.sum((w - 1) ** 2))

    def many(self, W):
        self.count(len(W))
        values = np.where(self.dice.random(len(W)) < self.fail, np.inf, np.sum((W - 1) ** 2, axis=1))
        return values[:1] if self.how == "one entry" and self.dice.random() < 0.5 else values

    def sitting(self, path, *, last):
        """One sitting; its result, or None where it was killed or gave up."""
        self.die_at = math.inf if last else self.calls + int(self.dice.integers(1, self.max_queries // 2 + 1))
        executor = ThreadPoolExecutor(3) if self.how == "threads" else None
        risk = ez.risks.BlackBox(
            self.many if self.batched else self.one, D, batched=self.batched, workers=executor, repeats=self.repeats,
            on_failure=self.policy, common_random_numbers=self.seeds, recheck=self.recheck, max_retries=self.retries,
        )  # fmt: skip
        try:
            return ez.minimize(
                risk, 2, ez.sets.L1Ball(3.0), self.method, max_queries=self.max_queries, rng=0, monitor=self.monitor,
                max_iter=self.max_iter * (3 if last and self.longer else 1),
                checkpoint=path, resume=path if path.exists() else None,
            )  # fmt: skip
        except (Killed, ez.risks.BlackBoxError):
            return None
        finally:
            if executor is not None:
                executor.shutdown()


@pytest.mark.filterwarnings("ignore:values have errors:UserWarning")  # penalties for failures look like noise
@pytest.mark.parametrize("first", range(0, 240, 40))
def test_no_run_asks_more_than_it_may(first, tmp_path):
    """Failures, batches, threads, repeats, rechecks and kills; over all sittings together."""
    finished = 0
    for seed in range(first, first + 40):
        setting, path = Setting(seed), tmp_path / f"{seed}.npz"
        for number in range(setting.kills + 1):
            result = setting.sitting(path, last=number == setting.kills)
            assert setting.calls <= setting.max_queries, setting
        if result is not None:
            finished += 1
            assert result.n_values + result.n_monitor == setting.calls, setting
            assert result.success <= math.isfinite(result.fun)
    assert finished > 25


@pytest.mark.parametrize("policy", ["drop", "retry", "penalise"])
@pytest.mark.parametrize("monitor", ["every", "final", 3])
def test_what_is_kept_for_the_end_is_not_asked_again(policy, monitor):
    for seed in range(30):
        dice, calls = np.random.default_rng(seed), []

        def f(w, dice=dice, calls=calls):
            calls.append(w)
            return math.inf if dice.random() < 0.2 else float(np.sum((w - 1) ** 2))

        risk = ez.risks.BlackBox(f, D, on_failure=policy)
        method = ez.Method(oracle=ez.ZerothOrder(n_directions=8), step=0.05)
        result = ez.minimize(risk, 2, method=method, max_queries=20 + seed, rng=0, monitor=monitor)
        assert len(calls) == result.n_values + result.n_monitor <= 20 + seed


def test_a_function_that_never_works_costs_no_more_than_its_budget():
    calls = []
    risk = ez.risks.BlackBox(lambda w: calls.append(w), D, on_failure="drop")
    result = ez.minimize(risk, 2, max_queries=5, rng=0)
    assert len(calls) == 5 == result.n_values + result.n_monitor
    assert result.status is Status.FAILED and not result.success and math.isnan(result.fun)


def test_directions_that_all_fail_end_the_run_with_its_best_point():
    calls = []

    def f(w):
        calls.append(w)
        return float(np.sum((w - 1) ** 2)) if len(calls) < 20 or not np.any(w % 1) else math.nan

    method = ez.Method(oracle=ez.ZerothOrder(n_directions=8, mu=0.3), step=0.05)
    result = ez.minimize(ez.risks.BlackBox(f, D, on_failure="drop"), 2, method=method, rng=0, max_iter=50)
    assert result.status is Status.FAILED and math.isfinite(result.fun)


def test_an_end_that_fails_is_feasible_all_the_same():
    """The last value fails for good: the projection that makes the answer feasible is done nevertheless."""
    calls = []

    def f(w):
        calls.append(w)
        return float(np.sum((w - 1) ** 2)) if len(calls) <= 30 else None

    method = ez.Method(oracle=ez.ZerothOrder(n_directions=9), step=0.05, projection="convex", finish="two-step")
    risk = ez.risks.BlackBox(f, D, on_failure="drop")
    result = ez.minimize(risk, 2, ez.sets.L1Ball(3.0), method, monitor="final", max_iter=3, max_queries=500, rng=0)
    assert result.status is Status.FAILED and result.support.size <= 2


SCRIPT = """
import os, signal, sys, time
import numpy as np
import ellzero as ez

folder, max_queries, workers, die_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
path, log, parent = os.path.join(folder, "run.npz"), os.path.join(folder, "calls"), os.getpid()

def f(w):
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"x")
    n = os.fstat(file).st_size
    os.close(file)
    if n == die_at:
        os.kill(parent, signal.SIGKILL)
        time.sleep(0.05)
    return float(((w - 1) ** 2).sum())

method = ez.Method(oracle=ez.ZerothOrder(n_directions=9), step=0.05)
res = ez.minimize(
    ez.risks.BlackBox(f, 6, workers=workers or None), 2, method=method, max_queries=max_queries, rng=0, monitor="final",
    checkpoint=path, resume=path if os.path.exists(path) else None,
)
print(res.n_values + res.n_monitor)
"""


@pytest.mark.parametrize(("workers", "deaths"), [(0, [1, 30, 31]), (2, [25])])
def test_after_kill_9_too(workers, deaths, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(SCRIPT))
    for die_at in [*deaths, -1]:
        arguments = [str(tmp_path), "40", str(workers), str(die_at)]
        done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=100)
        assert done.returncode == (0 if die_at < 0 else -signal.SIGKILL), done.stderr
    calls, counted = os.path.getsize(tmp_path / "calls"), int(done.stdout)
    # a second call that waits in a worker's queue counts, although it may not have begun
    assert calls <= counted <= 40 and counted - calls <= 2 * workers


def test_a_run_that_is_killed_before_its_first_iteration_counts(tmp_path):
    path, calls = tmp_path / "run.npz", []

    def f(w):
        calls.append(w)
        if len(calls) in (1, 7):
            raise Killed
        return float(np.sum((w - 1) ** 2))

    method = ez.Method(oracle=ez.ZerothOrder(n_directions=9), step=0.05)
    options = {"method": method, "max_queries": 12, "rng": 0, "checkpoint": path}
    for _ in range(2):
        with pytest.raises(Killed):
            ez.minimize(ez.risks.BlackBox(f, D), 2, resume=path if path.exists() else None, **options)
    result = ez.minimize(ez.risks.BlackBox(f, D), 2, resume=path, **options)
    assert len(calls) == result.n_values + result.n_monitor <= 12


def test_what_the_end_of_a_run_has_asked_counts_when_it_goes_on(tmp_path):
    path, calls = tmp_path / "run.npz", []

    def f(w):
        calls.append(w)
        return float(np.sum((w - 1) ** 2))

    risk = ez.risks.BlackBox(f, D, recheck=(3, 4))
    method = ez.Method(oracle=ez.ZerothOrder(n_directions=5), step=0.05)
    options = {"method": method, "rng": 0, "checkpoint": path}
    ez.minimize(risk, 2, max_queries=50, max_iter=4, **options)
    longer = ez.minimize(risk, 2, max_queries=60, resume=path, **options)
    assert len(calls) == longer.n_values + longer.n_monitor <= 60


def test_the_time_limit_is_looked_at_between_two_evaluations():
    def slow(w):
        time.sleep(0.01)
        return float(np.sum((w - 1) ** 2))

    method = ez.Method(oracle=ez.ZerothOrder(n_directions=1000), step=0.05)
    started = time.perf_counter()
    result = ez.minimize(ez.risks.BlackBox(slow, D), 2, method=method, time_limit=0.3, rng=0)
    assert result.status is Status.TIME_LIMIT and time.perf_counter() - started < 5.0  # 1000 of them take 10 s
    assert result.fun == 6.0


def test_an_objective_that_is_not_a_number_is_no_success():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30)
    with pytest.raises(ValueError, match="the objective at the start is inf.*rescale y"):
        ez.minimize(ez.risks.LeastSquares(X, y * 1e200), 2)
    with pytest.raises(ValueError, match="columns of X are too large.*Rescale"):
        ez.minimize(ez.risks.LeastSquares(X * 1e200, y), 2)
    result = ez.minimize(ez.risks.Quadratic(X.T @ X, X.T @ y * 1e200), 2)
    assert not result.success and math.isfinite(result.fun)
    result.status, result.fun = Status.CONVERGED, math.inf
    assert not result.success


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e200])
def test_extreme_scales_warn_of_nothing(scale):
    """A status, or an error that says what to do; warnings are errors in these tests."""
    rng = np.random.default_rng(0)
    X, counts = rng.standard_normal((30, 6)), rng.poisson(3, 30)
    y, labels = X[:, 0] - X[:, 1], np.arange(30) % 2
    for make in (
        lambda: ez.risks.LeastSquares(X * scale, y * scale), lambda: ez.risks.LeastSquares(X, y * scale),
        lambda: ez.risks.LeastSquares(X * scale, y, ridge=0.1), lambda: ez.risks.Logistic(X * scale, labels, ridge=0.1),
        lambda: ez.risks.Poisson(X * scale, counts), lambda: ez.risks.Huber(X * scale, y * scale, delta=1.0),
        lambda: ez.risks.Quadratic(X.T @ X * scale, X.T @ y),
    ):  # fmt: skip
        for method in ("auto", "IHT", "HZO-HT", "ZOHT", "StoIHT", "SVRG-HT", "PGD+H", "IHT+P"):
            try:
                result = ez.minimize(make(), 2, method=method, max_iter=4, rng=0)
                assert math.isfinite(result.fun) or not result.success
            except NotImplementedError:
                assert method in ("StoIHT", "SVRG-HT")  # a Quadratic has no rows
            except ValueError as error:
                remedies = ("rescale", "Rescale", "by hand", "give a number", "ridge > 0")
                assert any(remedy in str(error) for remedy in remedies), error


def test_the_iterations_of_hzo_ht_have_their_gradient_term():
    """T by hand: the smallest with 4α²Lκ ω^T (Δ + η‖∇R(w̄)‖²/(3κL)) <= ε, ‖∇R(w̄)‖ <= ‖b‖ + L·radius at w_0 = 0."""
    d, epsilon, radius, alpha = 60, 1e-3, 0.1, 2.0
    risk = ez.risks.Quadratic(np.diag(np.linspace(1, 1.2, d)), np.full(d, 1000 / math.sqrt(d)))
    L, kappa = 1.2, 1.2

    def by_hand(gradient):
        start = radius**2 + gradient**2 / (alpha * L) / (3 * kappa * L)
        return math.ceil(math.log(4 * alpha**2 * L * kappa * start / epsilon) / -math.log(1 - 1 / (8 * alpha * kappa)))

    assert by_hand(1000 + L * radius) == 403 and by_hand(0.0) == 102
    assert _prescribed_iterations(risk, ez.preset("HZO-HT", epsilon=epsilon, radius=radius)) == 403
    assert _prescribed_iterations(risk, ez.preset("HZO-HT", epsilon=epsilon, radius=radius, gradient_norm=0.0)) == 102
    guarantee = ez.guarantee(risk, k=50, k_bar=1, method="HZO-HT", epsilon=epsilon, radius=radius)
    assert guarantee.n_iter == 403
    box = ez.risks.BlackBox(risk.value, d)
    with pytest.raises(ValueError, match="a black box does not tell; give gradient_norm="):
        ez.minimize(box, 50, method=ez.preset("HZO-HT", L=1.2, nu=1.0, epsilon=epsilon, radius=radius))


def _prescribed_iterations(risk, method):
    from ellzero.solver.problem import make_problem
    from ellzero.solver.run import Run

    problem = make_problem(risk, 50, ez.sets.Everywhere(), None)
    return Run(problem, method, None, [0]).method.n_iter


def test_a_path_says_that_k_goes_beyond_the_features():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(UserWarning, match="ks goes up to 5, which is greater than n_features=3"):
        assert ez.minimize_path(ez.risks.LeastSquares(X, X[:, 0]), 5).ks.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="callback must be a function"):
        ez.minimize_path(ez.risks.LeastSquares(X, X[:, 0]), 2, callback=3)


def test_journals_hold_a_line_before_each_query(tmp_path):
    """What goes out is on disk before it does: a kill in the middle of a query cannot hide it."""
    path, seen = tmp_path / "run.npz", []

    def f(w):
        lines = [json.loads(line) for line in (tmp_path / "run.npz.journal").read_text().splitlines()]
        seen.append([line["event"] for line in lines][-1])
        return float(np.sum((w - 1) ** 2))

    ez.minimize(ez.risks.BlackBox(f, D), 2, max_queries=30, rng=0, checkpoint=path)
    assert set(seen) == {"begin"} and len(seen) > 20


ENDED_EARLY = {
    "": (ez.risks.LeastSquares, 12, None),
    "box": (ez.risks.LeastSquares, 12, ez.sets.Box(-0.5, 1.0)),
    "l1": (ez.risks.LeastSquares, 12, ez.sets.L1Ball(6.0)),
    "groups": (ez.risks.LeastSquares, 12, ez.sets.GroupWise(ez.sets.L1Ball(1.0), np.arange(120) % 10)),
    "huber": (ez.risks.Huber, 12, ez.sets.Box(-0.5, 1.0)),
    "huber, tables": (ez.risks.Huber, 12, None),
    "logistic": (ez.risks.Logistic, 12, None),
    "logistic, l1": (ez.risks.Logistic, 12, ez.sets.L1Ball(8.0)),
    "quotas": (ez.risks.LeastSquares, ez.sparsity.PerGroup(12, np.arange(120) // 4, at_most=1), ez.sets.L1Ball(6.0)),
    "whole groups": (ez.risks.LeastSquares, ez.sparsity.Groups(4, np.arange(120) // 3), None),
}


@pytest.mark.parametrize("name", ENDED_EARLY)
def test_a_run_that_was_cut_short_never_says_that_it_has_settled(name, monkeypatch):
    """With a clock that ticks when it is looked at; of 480 limits in seconds six were overlooked."""
    loss, k, gamma = ENDED_EARLY[name]
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((80, 120)), np.zeros(120)
    w[:30] = rng.standard_normal(30)
    y = X @ w + 2 * rng.standard_normal(80)
    is_honest_about_limits(monkeypatch, loss(X, np.sign(y) if loss is ez.risks.Logistic else y, ridge=0.01), k, gamma)


def test_nor_does_one_whose_exchanges_were_not_all_examined(monkeypatch):
    """What examining them finds is where this search goes on."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((35, 74)) + 3 * rng.standard_normal((35, 1))
    y = X[:, :12] @ rng.standard_normal(12) + 2 * rng.standard_normal(35)
    risk = ez.risks.LeastSquares(X, np.column_stack([y, y[::-1]]), ridge=0.01)
    is_honest_about_limits(monkeypatch, risk, 6, ez.sets.GroupWise(ez.sets.L1Ball(1.0), np.arange(148) % 5))


def is_honest_about_limits(monkeypatch, risk, k, gamma):
    def run(ticks):
        looks, now = itertools.count(), time.perf_counter()
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda: now + next(looks))
            found = ez.minimize(risk, k, gamma, time_limit=ticks)
        return found, next(looks)

    whole, total = run(1e9)
    assert whole.status is Status.SETTLED
    cut = [run(ticks)[0] for ticks in np.unique(np.linspace(1, 1.1 * total, 60).astype(int))]
    assert {res.status for res in cut} == {Status.SETTLED, Status.TIME_LIMIT}
    for res in cut:
        assert res.status is Status.TIME_LIMIT or res.fun <= whole.fun * (1 + 1e-9)
        assert gamma is None or res.violation <= 1e-12
