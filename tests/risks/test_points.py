"""A point that holds the values of its support alone is the same point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero.risks import point as points


@pytest.fixture
def short(monkeypatch):
    """Every w with a support counts as a long one."""
    monkeypatch.setattr(points, "_LONG", 0)
    monkeypatch.setattr(points, "_SMALL", 1)


def quadratic(d):
    return ez.risks.Quadratic(np.diag(np.arange(1.0, d + 1)), np.ones(d))


@given(st.integers(0, 10**6), st.sampled_from([np.float64, np.float32]), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_asked_of_a_point_does_not_depend_on_what_it_holds(seed, dtype, data):
    rng, d = np.random.default_rng(seed), 12
    risk = quadratic(d)
    both = []
    for least in (0, 10**9):  # its values alone; all of w
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(points, "_LONG", least)
            patch.setattr(points, "_SMALL", 1)
            made = []
            for generator in np.random.default_rng(seed).spawn(2):
                S = np.sort(generator.choice(d, int(generator.integers(0, d + 1)), replace=False))
                w = np.zeros(d, dtype)
                w[S] = generator.standard_normal(S.size) * (generator.random(S.size) < 0.8)
                made.append(risk.at(w, S))
            both.append(made)
    (held, other), (whole, another) = both
    assert held._length == d
    assert not whole._length
    some = np.array(data.draw(st.lists(st.integers(0, d - 1))), dtype=np.intp)
    np.testing.assert_array_equal(held.w, whole.w)
    assert held.w.dtype == dtype
    np.testing.assert_array_equal(held.nonzeros, whole.nonzeros)
    np.testing.assert_array_equal(held.at(some), whole.at(some))
    assert held.size == pytest.approx(whole.size, rel=1e-6)
    for one in (other, another):
        assert held.distance(one) == pytest.approx(whole.distance(another), rel=1e-6, abs=1e-7)
    assert held.value == whole.value
    np.testing.assert_array_equal(held.gradient, whole.gradient)
    rng.shuffle(some)
    np.testing.assert_array_equal(held.at(some), whole.at(some))  # in any order


def test_a_long_w_is_not_held_and_may_change_afterwards():
    d, S = points._LONG, np.array([3, 700])
    risk = ez.risks.Smooth(lambda w: float(w @ w), lambda w: 2 * w, d)
    w = np.zeros(d)
    w[S] = 1.0
    point = risk.at(w, S)
    w[:] = 5.0
    assert point.value == 2.0
    assert point.w[S].tolist() == [1.0, 1.0]
    assert sum(a.nbytes for a in (point._w, point.support)) < 100


@pytest.mark.parametrize("method", ["auto", "IHT-2SP", "HSG-HT-2SP", "PGD+H", "HZO-HT-2SP"])
@pytest.mark.parametrize("gamma", [None, ez.sets.L1Ball(2.0), ez.sets.NonNegative()], ids=["", "l1", "positive"])
def test_runs_are_the_same_with_values_alone(method, gamma, short, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    y = X[:, :5].sum(axis=1) + 0.3 * rng.standard_normal(60)

    def run():
        return ez.minimize(ez.risks.LeastSquares(X, y), 5, gamma, method, rng=0, max_iter=40)

    held = run()
    monkeypatch.setattr(points, "_LONG", 10**9)
    whole = run()
    np.testing.assert_allclose(held.x, whole.x, rtol=1e-12, atol=1e-14)
    assert (held.fun, held.nit, held.status) == (pytest.approx(whole.fun), whole.nit, whole.status)


def test_a_run_goes_on_from_its_checkpoint(short, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 40))
    y = X[:, :6].sum(axis=1) + 0.3 * rng.standard_normal(80)
    risk, file = ez.risks.LeastSquares(X, y), tmp_path / "run"
    method = {"method": "HSG-HT-2SP", "rng": 3, "max_iter": 30}
    whole = ez.minimize(risk, 6, **method)
    ez.minimize(risk, 6, method="HSG-HT-2SP", rng=3, max_iter=11, checkpoint=file)
    again = ez.minimize(risk, 6, **method, resume=file)
    np.testing.assert_array_equal(again.x, whole.x)
