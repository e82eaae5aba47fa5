"""Ask and tell: minimize turned inside out."""

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
