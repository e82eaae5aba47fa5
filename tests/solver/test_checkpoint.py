"""Checkpoint and resume: identical to an uninterrupted run, also after kill -9, for every oracle."""

import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets as S

SCRIPT = """
import json, os, signal, sys
import numpy as np
import ellzero as ez
from ellzero import sets as S

kind, directory, die_at, resume = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "resume"
log = open(os.path.join(directory, "calls"), "a")
target = np.zeros(15); target[[1, 4]] = [2.0, -1.0]
seen = 0

def die_if_it_is_time():
    global seen
    seen += 1
    if seen == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

def f(w):
    die_if_it_is_time()
    log.write(json.dumps(w.tolist()) + chr(10)); log.flush()
    if np.count_nonzero(w) > 3 and abs(w).sum() * 1e9 % 10 < 1: raise ArithmeticError("a bad place")
    return float((w - target) @ (w - target))

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 15)); y = X @ target + 0.1 * rng.standard_normal(80)
least_squares = ez.risks.LeastSquares(X, y, ridge=1.0)
step = 0.5 / least_squares.smoothness.value
risk, method = {
    "full": (least_squares, ez.preset("IHT-2SP", step=0.1 * step)),
    "batch": (least_squares, ez.Method(oracle=ez.MiniBatch(lambda t: 5 + t), step=step)),
    "svrg": (least_squares, ez.Method(oracle=ez.VarianceReduced(size=7, epoch=9), step=step)),
    "directions": (least_squares, ez.Method(oracle=ez.ZerothOrder(n_directions=9, support_size=4), step=step)),
    "black box": (ez.risks.BlackBox(f, 15, on_failure="retry"), ez.Method(oracle=ez.ZerothOrder(n_directions=9), step=0.05)),
    "auto": (ez.risks.BlackBox(f, 15, on_failure="drop", recheck=(3, 2)), "auto"),
}[kind]
box = isinstance(risk, ez.risks.BlackBox)
path = os.path.join(directory, "run.npz")
result = ez.minimize(
    risk, 3, S.L1Ball(2.5), method, rng=7, tol=0, max_iter=60,
    max_queries=int(sys.argv[5]) if box else None,
    checkpoint=path, resume=path if resume else None,
    callback=None if box else lambda r: die_if_it_is_time(),
)
history = result.history
np.savez(
    os.path.join(directory, "answer.npz"), x=result.x, best=result.fun, nit=result.nit,
    failures=len(result.failures), failure_numbers=[f.query for f in result.failures],
    counted=result.n_values + result.n_monitor,
    **{name: getattr(history, name) for name in history.columns if name not in ("time", "n_values", "n_monitor")},
)
"""


def run(kind, directory, die_at=-1, resume=False, max_queries=300):
    directory.mkdir(exist_ok=True)
    script = directory / "run.py"
    script.write_text(textwrap.dedent(SCRIPT))
    arguments = [kind, str(directory), str(die_at), "resume" if resume else "fresh", str(max_queries)]
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=120)


def same(left, right):
    a, b = (np.load(directory / "answer.npz") for directory in (left, right))
    for name in set(a.files) - {"counted"}:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize(
    ("kind", "deaths"),
    [
        ("full", [20]),
        ("batch", [13]),
        ("svrg", [13, 20]),
        ("directions", [17]),
        ("black box", [61, 44, 90]),
        ("auto", [41, 23]),
    ],
)
def test_kill_and_resume(kind, deaths, tmp_path):
    assert run(kind, tmp_path / "whole").returncode == 0
    more = 300 + len(deaths)  # a query that is under way when the process dies counts, and is asked again
    for number, die_at in enumerate(deaths):
        # checkpoints of fast runs are a second apart: after the first death there may be none yet
        resume = number > 0 and (tmp_path / "parts" / "run.npz").exists()
        killed = run(kind, tmp_path / "parts", die_at, resume, more)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(kind, tmp_path / "parts", -1, (tmp_path / "parts" / "run.npz").exists(), more)
    assert done.returncode == 0, done.stderr
    same(tmp_path / "whole", tmp_path / "parts")
    if kind in ("black box", "auto"):
        calls = [(tmp_path / part / "calls").read_text().splitlines() for part in ("whole", "parts")]
        assert calls[0] == calls[1]  # no finished query was asked for again, and none was left out
        assert len(calls[0]) <= 300
        counted = [int(np.load(tmp_path / part / "answer.npz")["counted"]) for part in ("whole", "parts")]
        assert counted == [len(calls[0]), len(calls[0]) + len(deaths)]


class TestInProcess:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((50, 10))
        return ez.risks.LeastSquares(X, X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(50), ridge=0.5)

    @pytest.mark.parametrize(
        "oracle", [ez.FullGradient(), ez.MiniBatch(7), ez.VarianceReduced(7, 5), ez.ZerothOrder(8)], ids=repr
    )
    @pytest.mark.parametrize("monitor", ["every", 4, "final"])
    def test_two_halves_are_the_whole(self, problem, oracle, monitor, tmp_path):
        path = tmp_path / "run.npz"
        method = ez.Method(oracle=oracle, step=0.05)
        options = {"constraint": S.GroupWise(S.L2Ball(0.7), [0, 1] * 5), "method": method, "tol": 0, "monitor": monitor}
        whole = ez.minimize(problem, 3, max_iter=30, rng=1, **options)
        ez.minimize(problem, 3, max_iter=13, rng=1, checkpoint=path, **options)
        # the seed of the second half is that of the file, whatever is passed
        rest = ez.minimize(problem, 3, max_iter=30, rng=99, resume=path, **options)
        np.testing.assert_array_equal(rest.x, whole.x)
        np.testing.assert_array_equal(rest.history.n_gradients, whole.history.n_gradients)
        np.testing.assert_array_equal(rest.history.fun, whole.history.fun)
        for name in ("n_values", "n_thresholds", "n_monitor", "nit", "fun"):
            assert getattr(rest, name) == getattr(whole, name)
        assert (np.diff(rest.history.time) >= 0).all()

    def test_a_black_box_goes_on_after_its_end(self, tmp_path):
        """What was asked for to settle the end of the first half is not mistaken for a query of the second."""
        calls = []

        def f(w):
            calls.append(w.copy())
            return float((w - 1) @ (w - 1))

        method = ez.Method(oracle=ez.ZerothOrder(6, central=True), step=0.1)
        risk, path = ez.risks.BlackBox(f, 5), tmp_path / "run.npz"
        whole = ez.minimize(risk, 2, method=method, max_iter=9, rng=0, monitor="final")
        ez.minimize(risk, 2, method=method, max_iter=4, rng=0, monitor="final", checkpoint=path)
        before = len(calls)
        again = ez.minimize(risk, 2, method=method, max_iter=4, rng=0, monitor="final", checkpoint=path, resume=path)
        assert len(calls) == before  # nothing is asked for twice
        rest = ez.minimize(risk, 2, method=method, max_iter=9, rng=0, monitor="final", checkpoint=path, resume=path)
        np.testing.assert_array_equal(rest.x, whole.x)
        assert again.nit == 4

    def test_what_an_adaptive_step_has_learnt_is_kept(self, tmp_path):
        rng = np.random.default_rng(0)
        risk = ez.risks.Poisson(rng.standard_normal((40, 12)), rng.poisson(5, 40))
        path, method = tmp_path / "run.npz", ez.preset("IHT-2SP", step="adaptive")
        whole = ez.minimize(risk, 3, method=method, max_iter=60, tol=0)
        ez.minimize(risk, 3, method=method, max_iter=40, tol=0, checkpoint=path)
        rest = ez.minimize(risk, 3, method=method, max_iter=60, tol=0, resume=path)
        assert rest.largest_L == whole.largest_L
        np.testing.assert_array_equal(rest.x, whole.x)

    def test_a_finished_run_is_returned_as_it_was(self, problem, tmp_path):
        path = tmp_path / "run.npz"
        first = ez.minimize(problem, 3, method="IHT", max_iter=10, tol=0, checkpoint=path)
        again = ez.minimize(problem, 3, method="IHT", max_iter=10, tol=0, resume=path)
        np.testing.assert_array_equal(first.x, again.x)
        assert again.nit == 10
        assert again.n_gradients == first.n_gradients

    def test_the_file_holds_no_pickle_and_is_replaced_atomically(self, problem, tmp_path):
        path = tmp_path / "run.npz"
        ez.minimize(problem, 3, method="IHT", max_iter=5, checkpoint=path)
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(file["facts"].tobytes().decode())
            assert all(file[name].dtype != object for name in file.files)
        assert facts["run"]["nit"] == 5
        assert facts["run"]["entropy"]
        assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]

    def test_errors(self, problem, tmp_path):
        path = tmp_path / "run.npz"
        with pytest.raises(FileNotFoundError, match="there is no such file; start with checkpoint="):
            ez.minimize(problem, 3, resume=path)
        ez.minimize(problem, 3, max_iter=5, checkpoint=path)
        with pytest.raises(ValueError, match="belongs to another problem: there k is 3, here 4"):
            ez.minimize(problem, 4, resume=path)
        other = ez.risks.LeastSquares(np.eye(50, 10), np.ones(50), ridge=0.5)
        with pytest.raises(ValueError, match="belongs to other data: the objective at its point was"):
            ez.minimize(other, 3, resume=path)
        with pytest.raises(ValueError, match="constraint is 'Everywhere.*here 'L1Ball"):
            ez.minimize(problem, 3, S.L1Ball(1.0), resume=path)
        (tmp_path / "other.npz").write_bytes(b"nothing")
        with pytest.raises(ValueError, match="is not a checkpoint of ellzero"):
            ez.minimize(problem, 3, resume=tmp_path / "other.npz")
        np.savez(tmp_path / "old.npz", facts=np.frombuffer(b'{"format": 1}', dtype=np.uint8))
        with pytest.raises(ValueError, match="format 1, this version reads 2"):
            ez.minimize(problem, 3, resume=tmp_path / "old.npz")

    def test_a_torn_line_of_the_journal_is_ignored(self, tmp_path):
        from ellzero.risks.evaluation import Outcome, Task
        from ellzero.risks.journal import Journal

        path = tmp_path / "journal"
        tasks = [Task(number, 0, np.zeros(1), None) for number in range(8)]
        journal = Journal(path, None, 0, pytest.fail)
        journal.begin(tasks[3:6], end=False)
        journal.done(tasks[4], Outcome(2.5))
        journal.done(tasks[5], Outcome(float("nan"), "exception", "oops"))
        journal.close()
        path.write_text(path.read_text() + '{"query": 6, "att')
        again = Journal(path, path, 4, pytest.fail)
        again.begin([tasks[7]], end=True)  # not glued to the torn line
        again.close()
        replayed = Journal(None, path, 4, pytest.fail)
        assert replayed.n_unused == 3 and replayed.n_unused_of_end == 1
        assert replayed.lookup(tasks[3]) is None  # the checkpoint holds it
        assert replayed.lookup(tasks[4]) == Outcome(2.5)
        assert asdict(replayed.lookup(tasks[5]))["kind"] == "exception"
        assert replayed.lookup(tasks[6]) is None
        assert replayed.lookup(tasks[7]).kind == "killed" and replayed.retire() == 0
