"""Ask and tell: minimize turned inside out."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ellzero as ez


def f(w):
    return float((w[3] - 1) ** 2 + (w[10] + 2) ** 2)


def search(**options):
    return ez.AskTell(ez.risks.BlackBox(None, 30, on_failure="drop"), 2, **{"max_queries": 300, "rng": 0, **options})


@pytest.mark.parametrize("method", ["auto", ez.Method(oracle=ez.ZerothOrder(10), step=0.1)])
@pytest.mark.parametrize("at_once", [1, 7, None])
def test_the_same_as_minimize_in_any_order(method, at_once):
    expected = ez.minimize(ez.risks.BlackBox(f, 30, on_failure="drop"), 2, method=method, max_queries=300, rng=0)
    told, rng = search(method=method), np.random.default_rng(0)
    n = 0
    while queries := told.ask(at_once):
        for i in rng.permutation(len(queries)):
            told.tell(queries[i], f(queries[i].x))
            n += 1
    assert told.finished
    res = told.result()
    assert np.array_equal(res.x, expected.x)
    assert n == res.n_values + res.n_monitor == expected.n_values + expected.n_monitor


def test_rounds_wait_for_all_of_their_values():
    told = search()
    (first,) = told.ask()
    assert told.ask() == []  # the value at the start is awaited
    told.tell(first, f(first.x))
    some, rest = told.ask(2), told.ask()
    for query in reversed(some + rest):
        told.tell(query.number, f(query.x))
    assert told.ask()
    told.stop()


def test_failures_are_told():
    told, n = search(), 0
    while queries := told.ask():
        for query in queries:
            n += 1
            told.tell(query, (None if n % 9 == 0 else f(query.x)) if n > 1 else f(query.x))
    res = told.result()
    assert res.support.tolist() == [3, 10]
    assert len(res.failures) == n // 9
    assert n <= 300


def test_what_is_told_wrongly():
    with search() as told:
        (query,) = told.ask()
        with pytest.raises(ValueError, match="query 99 awaits no value"):
            told.tell(99, 1.0)
        with pytest.raises(RuntimeError, match="not over"):
            told.result()
        told.tell(query, 1.0)
        with pytest.raises(ValueError, match="query 0 awaits no value"):
            told.tell(query, 1.0)
    assert told.result().status is ez.Status.INTERRUPTED


def test_errors_of_the_run_are_raised_to_who_asks():
    with pytest.raises(ValueError, match="unknown method"):
        search(method="none").ask()
    with pytest.raises(TypeError, match="without a function"):
        ez.AskTell(ez.risks.BlackBox(f, 30), 2)
    with pytest.raises(ValueError, match="common_random_numbers"):
        ez.AskTell(ez.risks.BlackBox(None, 30, common_random_numbers=True), 2)


@pytest.mark.parametrize("value", ["abc", "3.0", 1 + 2j, [1.0, 2.0], np.ones(2), True])
def test_a_value_that_is_none_leaves_its_query_open(value):
    with search() as told:
        (query,) = told.ask()
        with pytest.raises(TypeError, match=r"value must be one real number.*tell float\(...\): query 0 still awaits"):
            told.tell(query, value)
        told.tell(query, np.float32(5.0))
        assert told.ask()


@pytest.mark.parametrize(("n", "error"), [(-1, ValueError), (2.5, TypeError), ("x", TypeError), (True, TypeError)])
def test_how_many_queries_are_asked_for(n, error):
    with search() as told:
        with pytest.raises(error, match="n must be"):
            told.ask(n)
        assert told.ask(0) == []
        assert len(told.ask(np.int64(3))) == 1


def test_queries_that_nobody_asked_for_are_not_booked():
    told = search()
    told.stop()
    res = told.result()
    assert (res.n_values + res.n_monitor, res.status) == (0, ez.Status.INTERRUPTED)
    told, out = search(), 0
    (query,) = told.ask()
    told.tell(query, f(query.x))
    out = 1 + len(told.ask(2))  # of a round of several
    told.stop()
    assert told.ask() == []
    assert told.result().n_values + told.result().n_monitor == out == 3


def test_searches_that_are_forgotten_end_their_threads():
    before = threading.active_count()
    told = [search() for _ in range(5)]
    for some in told[1:]:
        (query,) = some.ask()
        some.tell(query, f(query.x))
    assert threading.active_count() == before + 5
    del told, some, query
    gc.collect()
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.parametrize("after", [0, 1, 2, 7, 30])
def test_what_was_told_before_a_crash_is_not_asked_again(after, tmp_path):
    """A search that is forgotten ends as if its process had been killed."""
    expected, file, points = [], tmp_path / "run.npz", []
    whole = ez.minimize(
        ez.risks.BlackBox(lambda w: (expected.append(w.tobytes()), f(w))[1], 30), 2, max_queries=300, rng=0
    )
    told = search(checkpoint=file)
    while len(points) < after:
        (query,) = told.ask(1)
        told.tell(query, f(query.x))
        points.append(query.x.tobytes())
    lost = len(told.ask(2))
    del told
    gc.collect()
    resumed = search(checkpoint=file, resume=file)
    while queries := resumed.ask():
        for query in queries:
            resumed.tell(query, f(query.x))
            points.append(query.x.tobytes())
    res = resumed.result()
    assert np.array_equal(res.x, whole.x)
    assert sorted(points) == sorted(expected)
    assert res.n_values + res.n_monitor == len(expected) + lost


def test_a_program_may_end_with_searches_under_way():
    program = (
        "import ellzero as ez\n"
        "searches = [ez.AskTell(ez.risks.BlackBox(None, 5), 1, max_queries=50, rng=i) for i in range(3)]\n"
        "query = searches[0].ask()[0]\n"
        "searches[0].tell(query, 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
