"""Ctrl-C keeps the answer of a run and ends larger calls as a whole; disks and files that fail end no run."""

import inspect
import io
import json
import os
import signal
import threading
import time
import zipfile

import numpy as np
import pytest

import ellzero as ez
from ellzero.risks.linear import _FACTS
from ellzero.solver import checkpoint
from ellzero.solver.result import Status
from ellzero.solver.run import Run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 12))
Y = X[:, 0] - 2 * X[:, 1] + 0.5 * X[:, 2] + 0.3 * RNG.standard_normal(60)


class Interrupting(ez.risks.LeastSquares):
    """LeastSquares that meets Ctrl-C when its value is asked for the n-th time, and again after `then` further ones."""

    after = 10**9
    # it writes _value anew, and is the same loss all the same: it states what is known of that
    vars().update({name: inspect.getattr_static(ez.risks.LeastSquares, name) for name in _FACTS})

    def _value(self, w, state):
        Interrupting.after -= 1
        if Interrupting.after == 0:
            raise KeyboardInterrupt
        return super()._value(w, state)


@pytest.fixture
def interrupt(monkeypatch):
    """Ctrl-C at the n-th value."""

    def at(n):
        monkeypatch.setattr(Interrupting, "after", n)

    yield at
    Interrupting.after = 10**9


METHODS = ["auto", "IHT", "HSG-HT", "SVRG-HT", "PGD", "PGD+H", "IHT+P", "exact", ez.preset("IHT-2SP", step="adaptive")]


@pytest.mark.parametrize("monitor", ["every", "final"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_first_ctrl_c_keeps_the_best_point(method, monitor, interrupt):
    if method == "exact" and monitor == "final":
        pytest.skip("exact has no monitor")
    options = {} if method == "exact" else {"monitor": monitor, "max_iter": 30}
    for n in (1, 2, 5, 9):
        interrupt(n)
        result = ez.minimize(Interrupting(X, Y, ridge=0.1), 3, ez.sets.Everywhere(), method, rng=0, **options)
        if Interrupting.after > 0:
            continue  # over before it came
        assert result.status is Status.INTERRUPTED and not result.success and "interrupted" in result.message
        assert result.support.size <= 3 and result.fun <= np.mean(Y**2) * 1.5
        assert result.fun == pytest.approx(ez.risks.LeastSquares(X, Y, ridge=0.1).value(result.x))


def test_a_second_one_raises(interrupt, monkeypatch):
    def busy(self, *args, **options):
        raise KeyboardInterrupt

    interrupt(3)
    monkeypatch.setattr(Run, "settle", busy)
    with pytest.raises(KeyboardInterrupt):
        ez.minimize(Interrupting(X, Y), 3, method="IHT")


def test_a_real_signal():
    seen = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it

    def f(w):
        seen.append(1)
        if len(seen) == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(0.002)
        return float(np.sum((w - 1) ** 2))

    method = ez.Method(oracle=ez.ZerothOrder(n_directions=10), step=0.05)
    try:
        result = ez.minimize(ez.risks.BlackBox(f, 6), 2, method=method, max_iter=10**6, time_limit=30, rng=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.status is Status.INTERRUPTED and result.fun < 6.0
    assert result.n_values + result.n_monitor == len(seen)


def test_an_interrupted_black_box_goes_on_as_if_nothing_had_happened(tmp_path):
    calls, stop = [], 37

    def f(w):
        calls.append(w)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return float(np.sum((w - 1) ** 2))

    options = {"method": ez.Method(oracle=ez.ZerothOrder(n_directions=10), step=0.05), "max_iter": 8, "rng": 0}
    path = tmp_path / "run.npz"
    first = ez.minimize(ez.risks.BlackBox(f, 6), 2, checkpoint=path, **options)
    assert first.status is Status.INTERRUPTED and first.n_values + first.n_monitor == len(calls) == stop
    rest = ez.minimize(ez.risks.BlackBox(f, 6), 2, checkpoint=path, resume=path, **options)
    assert rest.n_values + rest.n_monitor == len(calls)
    whole = ez.minimize(ez.risks.BlackBox(f, 6), 2, **options)
    np.testing.assert_array_equal(rest.x, whole.x)
    np.testing.assert_array_equal(rest.history.fun, whole.history.fun)


def test_a_path_keeps_the_runs_that_were_finished(interrupt):
    risk = Interrupting(X, Y)
    seen = []
    path = ez.minimize_path(risk, 6, callback=lambda res: (seen.append(res), len(seen) == 3 and interrupt(2)))
    assert path.ks.tolist() == [1, 2, 3] and not path.success
    assert path.message == "interrupted from outside after 3 of 6 k"
    assert all(res.status is not Status.INTERRUPTED for res in path)
    interrupt(1)
    with pytest.raises(KeyboardInterrupt):
        ez.minimize_path(risk, 6)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["fit", "cv", "grid", "exact"])
def test_an_estimator_ends_as_a_whole(name, n, interrupt, monkeypatch):
    from sklearn.model_selection import GridSearchCV

    from ellzero.estimators import request

    monkeypatch.setitem(request.LOSSES, "squared", Interrupting)
    model = {
        "fit": ez.SparseRegressor(k=3),
        "cv": ez.SparseRegressorCV(ks=[1, 2, 3]),
        "grid": GridSearchCV(ez.SparseRegressor(k=3), {"k": [1, 2, 3]}, error_score="raise"),
        "exact": ez.SparseRegressor(k=3, method="exact"),
    }[name]
    interrupt(n)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)


def test_a_backtest_and_a_tracker_end_as_a_whole(interrupt, monkeypatch):
    monkeypatch.setattr("ellzero.portfolio.tracker.LeastSquares", Interrupting)
    returns, index, _ = ez.datasets.make_market(n_days=120, n_assets=10).to_pandas()
    tracker = ez.IndexTracker(k=4, n_starts=1)
    for call in (
        lambda: tracker.fit(returns, index),
        lambda: ez.backtest(tracker, returns, index, window=60, every=20),
    ):
        interrupt(3)
        with pytest.raises(KeyboardInterrupt):
            call()


def test_a_strangers_estimator_in_a_backtest(interrupt):
    class Own:
        def get_params(self, deep=True):
            return {}

        def fit(self, returns, index):
            res = ez.minimize(Interrupting(np.asarray(returns), np.asarray(index)), 3)
            self.weights_ = res.x
            return self

    returns, index, _ = ez.datasets.make_market(n_days=120, n_assets=10).to_pandas()
    interrupt(15)
    with pytest.raises(KeyboardInterrupt):
        ez.backtest(Own(), returns, index, window=60, every=20)


# ---- disks and files


@pytest.mark.parametrize("kind", ["gradients", "black box"])
def test_a_disk_that_fills_up_is_warned_of_once(kind, tmp_path, monkeypatch):
    def full(path, arrays, facts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    monkeypatch.setattr(checkpoint, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    risk = ez.risks.LeastSquares(X, Y)
    options = {"method": "IHT", "max_iter": 20, "rng": 0}
    if kind == "black box":
        risk, options["method"] = ez.risks.BlackBox(risk.value, 12), ez.Method(oracle=ez.ZerothOrder(5), step=0.05)
    whole = ez.minimize(risk, 3, **options)
    with pytest.warns(RuntimeWarning, match="cannot be written.*No space left.*the run goes on") as caught:
        result = ez.minimize(risk, 3, checkpoint=tmp_path / "run.npz", **options)
    assert len(caught) == 1
    np.testing.assert_array_equal(result.x, whole.x)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a device of Linux")
def test_a_journal_on_a_full_disk(tmp_path):
    (tmp_path / "run.npz.journal").symlink_to("/dev/full")
    risk = ez.risks.BlackBox(lambda w: float(np.sum((w - 1) ** 2)), 6)
    with pytest.warns(RuntimeWarning, match="cannot be written.*the run goes on") as caught:
        result = ez.minimize(risk, 2, max_queries=60, rng=0, checkpoint=tmp_path / "run.npz")
    assert len(caught) == 1 and result.success


def test_half_a_checkpoint_is_not_left_behind(tmp_path, monkeypatch):
    from ellzero.solver import checkpoint as _checkpoint

    def broken(*args, **kwargs):
        raise OSError(28, "No space left on device")

    path = tmp_path / "run.npz"
    ez.minimize(ez.risks.LeastSquares(X, Y), 3, method="IHT", max_iter=5, tol=0, checkpoint=path)
    before = path.read_bytes()
    monkeypatch.setattr(_checkpoint.os, "fsync", broken)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        ez.minimize(ez.risks.LeastSquares(X, Y), 3, method="IHT", max_iter=9, tol=0, checkpoint=path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"] and path.read_bytes() == before


def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path):
    calls = []
    risk = ez.risks.BlackBox(lambda w: calls.append(w) or 1.0, 6)
    with pytest.raises(FileNotFoundError, match="checkpoint=.*there is no folder.*create it first"):
        ez.minimize(risk, 2, max_queries=50, checkpoint=tmp_path / "no" / "run.npz")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file, such as"):
        ez.minimize(risk, 2, max_queries=50, checkpoint=tmp_path)
    assert not calls


def test_damaged_and_foreign_checkpoints_are_refused_by_name(tmp_path):
    risk, path = ez.risks.LeastSquares(X, Y), tmp_path / "run.npz"
    ez.minimize(risk, 3, method="IHT", max_iter=5, checkpoint=path)
    good, damaged = path.read_bytes(), tmp_path / "damaged.npz"
    cases = [good[:size] for size in (0, 1, 4, 30, 200, len(good) // 2, len(good) - 30, len(good) - 1)]
    cases += [good[:i] + bytes([good[i] ^ 0xFF]) + good[i + 1 :] for i in range(40, len(good) - 40, 97)]
    cases += [b"PK\x03\x04" + bytes(50), json.dumps({"format": 1}).encode()]
    for array in (np.zeros(3), np.array([{}], dtype=object)):
        file = io.BytesIO()
        np.save(file, array)
        cases.append(file.getvalue())
    for facts in ([], {"format": 1}, {"format": 1, "problem": {}}, _facts(good, "run"), _facts(good, "points")):
        file = io.BytesIO()
        np.savez(file, facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8))
        cases.append(file.getvalue())
    refused = 0
    for case in cases:
        damaged.write_bytes(case)
        try:
            ez.minimize(risk, 3, method="IHT", max_iter=5, resume=damaged)
        except ValueError as error:
            refused += 1
            assert str(error).startswith(f"resume={str(damaged)!r} "), error
    assert refused > 0.7 * len(cases)  # a byte between two members of a zip file means nothing
    with zipfile.ZipFile(path) as members:
        assert "facts.npy" in members.namelist()


def _facts(checkpoint, without):
    with np.load(io.BytesIO(checkpoint)) as file:
        facts = json.loads(file["facts"].tobytes().decode())
    del facts[without]
    return facts


def test_a_journal_full_of_rubbish_is_skipped(tmp_path):
    path = tmp_path / "run.npz"
    risk = ez.risks.BlackBox(lambda w: float(np.sum((w - 1) ** 2)), 6)
    options = {"max_iter": 4, "rng": 0, "method": ez.Method(oracle=ez.ZerothOrder(5), step=0.05)}
    ez.minimize(risk, 2, checkpoint=path, **options)
    (tmp_path / "run.npz.journal").write_bytes(b'\xff\xfe\n[]\n3\n{"query": "x"}\n{"query": 1}\n\n{"que')
    rest = ez.minimize(risk, 2, checkpoint=path, resume=path, **{**options, "max_iter": 8})
    whole = ez.minimize(risk, 2, **{**options, "max_iter": 8})
    np.testing.assert_array_equal(rest.x, whole.x)
