"""Black boxes: what f is given, what it may return, and what is refused before it is called."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ellzero as ez

D = 20
TARGET = np.zeros(D)
TARGET[[3, 7]] = [1.0, -2.0]
METHODS = ["auto", ez.preset("ZOHT", step=0.1), ez.preset("VR-ZOHT", step=0.1)]


def bowl(w):
    return float((w - TARGET) @ (w - TARGET))


def in_place(w):
    w -= TARGET
    return float(w @ w)


def many_in_place(W):
    W -= TARGET
    return (W * W).sum(axis=1)


@pytest.mark.parametrize("monitor", ["every", "final"])
@pytest.mark.parametrize("method", METHODS, ids=["auto", "ZOHT", "VR-ZOHT"])
def test_what_f_does_to_its_argument_changes_nothing(method, monitor):
    options = {"method": method, "max_queries": 400, "rng": 0, "monitor": monitor}
    expected = ez.minimize(ez.risks.BlackBox(bowl, D), 2, **options)
    with ThreadPoolExecutor(2) as threads:
        for workers in (None, threads):
            res = ez.minimize(ez.risks.BlackBox(in_place, D, workers=workers), 2, **options)
            assert np.array_equal(res.x, expected.x)
            assert res.fun == bowl(res.x)


def test_nor_what_it_does_to_others():
    res = ez.minimize(ez.risks.BlackBox(many_in_place, D, batched=True), 2, max_queries=400, rng=0)
    assert res.fun == pytest.approx(bowl(res.x), abs=1e-12)
    x = np.ones(D)
    points = np.ones((3, D))
    risk = ez.risks.BlackBox(in_place, D, repeats=3, recheck=(2, 3))
    assert risk.value(x) == bowl(x) == risk.evaluate(points)[2]
    assert (x == 1).all() and (points == 1).all()
    res = ez.minimize(risk, 2, max_queries=400, x0=TARGET, rng=0)
    assert res.fun == bowl(res.x)
    assert TARGET[3] == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.ones((2, 3)), r"one real number, got an array of shape \(2, 3\); return float"),
        (np.ones(2), r"got an array of shape \(2,\); return float"),
        ([1.0], r"got \[1.0\]; return float"),
        (1 + 2j, r"got \(1\+2j\); return float"),
        ("3.0", "got '3.0'; return float"),
        (None, "got None; return float"),
        (True, "got True; return float"),
        (np.nan, "finite number, got nan"),
        (10**400, "finite number, got inf"),
    ],
)
def test_what_f_returns_by_mistake(value, words):
    with pytest.raises(ez.risks.BlackBoxError, match=f"f must return a?.*{words}"):
        ez.minimize(ez.risks.BlackBox(lambda w: value, D), 2, max_queries=50, rng=0)


@pytest.mark.parametrize("value", [2, np.float32(2), np.array(2.0), np.array([2.0])])
def test_what_f_may_return(value):
    assert ez.risks.BlackBox(lambda w: value, D).value(np.zeros(D)) == 2.0


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda W: np.zeros((len(W), 1)), r"shape \(4,\), got shape \(4, 1\); return values.ravel\(\)"),
        (lambda W: np.zeros(3), r"shape \(4,\), got shape \(3,\); one value for each row"),
        (lambda W: np.array([1.0, None, 1.0, 1.0]), "one real number, got None"),
    ],
)
def test_what_a_batched_f_returns_by_mistake(f, words):
    with pytest.raises(ez.risks.BlackBoxError, match=words):
        ez.risks.BlackBox(f, D, batched=True).evaluate(np.zeros((4, D)))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"inside": "no"}, TypeError, "inside must be True or False, got 'no'"),
        ({"batched": 1}, TypeError, "batched must be True or False, got 1"),
        ({"common_random_numbers": "a"}, TypeError, "common_random_numbers must be True or False"),
        ({"penalty": np.inf}, ValueError, r"penalty must lie in \(-inf, inf\), got penalty=inf"),
        ({"penalty": -np.inf}, ValueError, "penalty must lie in"),
        ({"penalty": np.nan}, ValueError, "penalty must lie in"),
    ],
)
def test_settings_that_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        ez.risks.BlackBox(bowl, D, **options)


def test_central_is_true_or_false():
    method = ez.Method(oracle=ez.ZerothOrder(central="a"), step=0.1)
    with pytest.raises(TypeError, match="central must be True or False, got 'a'"):
        ez.minimize(ez.risks.BlackBox(bowl, D), 2, method=method, max_queries=50, rng=0)


def test_without_a_function_there_is_ask_and_tell():
    with pytest.raises(TypeError, match="no function: .*ez.AskTell"):
        ez.minimize(ez.risks.BlackBox(None, D), 2, max_queries=50, rng=0)
