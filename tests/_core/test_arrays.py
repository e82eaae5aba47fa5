"""The same code on NumPy, on the strict array API, and on torch where it is installed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from common import support_preserving_sets
from ellzero._core import arrays as _arrays

NAMES = list(support_preserving_sets(6, np.random.default_rng(0)))


def strict():
    import array_api_strict as xp

    return xp


def torch():
    return pytest.importorskip("torch", reason="torch is not installed; the extra `torch` brings it")


@pytest.fixture(params=[strict, torch], ids=["array-api-strict", "torch"])
def xp(request):
    return request.param()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [0, 1, 4, 9, 20])
def test_two_step_projection_agrees_with_numpy(xp, name, k):
    rng = np.random.default_rng(k)
    constraint = support_preserving_sets(9, rng)[name]
    v = np.round(3 * rng.standard_normal(9), 1)  # with ties
    expected = ez.two_step_projection(v, k, constraint)
    foreign = ez.two_step_projection(xp.asarray(v), k, constraint)
    assert type(foreign) is type(xp.asarray(v))
    np.testing.assert_allclose(_arrays.to_host(foreign), expected, atol=1e-12)


def test_keep_and_float32(xp):
    v = np.array([3.0, -1.0, 2.0, 2.0], dtype=np.float32)
    w = ez.hard_threshold(xp.asarray(v), 2, keep=[1])
    assert w.dtype == xp.float32
    np.testing.assert_array_equal(_arrays.to_host(w), [3, -1, 0, 0])


def test_nan_is_refused(xp):
    for k in (0, 1, 3):
        with pytest.raises(ValueError, match="nan at index 1"):
            ez.hard_threshold(xp.asarray([1.0, float("nan"), 2.0]), k)


@pytest.mark.parametrize("name", NAMES)
def test_violation_agrees_with_numpy(xp, name):
    rng = np.random.default_rng(1)
    constraint = support_preserving_sets(9, rng)[name]
    v = 3 * rng.standard_normal(9)
    assert constraint.violation(xp.asarray(v)) == pytest.approx(constraint.violation(v), rel=1e-12)
    assert constraint.contains(xp.asarray(constraint.project(v)))


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=10), st.data())
@settings(max_examples=200)
def test_top_k_breaks_ties_by_index_in_every_library(values, data):
    k = data.draw(st.integers(1, len(values)))
    expected = sorted(sorted(range(len(values)), key=lambda i: (-values[i], i))[:k])
    libraries = [np, strict()]
    try:
        import torch

        libraries.append(torch)
    except ImportError:
        pass
    for xp in libraries:
        index, finite = _arrays.top_k(xp.asarray(values), k)
        assert finite
        assert _arrays.to_host(index).tolist() == expected


def test_the_loop_runs_on_torch():
    xp = torch()
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 30)), rng.standard_normal(40)
    gamma = ez.sets.GroupWise(ez.sets.L1Ball(0.3), [i % 3 for i in range(30)])
    expected = ez.minimize(ez.risks.LeastSquares(X, y), k=5, constraint=gamma, method="IHT-2SP")
    result = ez.minimize(ez.risks.LeastSquares(xp.asarray(X), xp.asarray(y)), k=5, constraint=gamma, method="IHT-2SP")
    assert isinstance(result.x, xp.Tensor)
    np.testing.assert_allclose(result.x.numpy(), expected.x, atol=1e-10)


def test_norm_is_safe_from_overflow_and_underflow():
    assert _arrays.norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert _arrays.norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200)
    assert _arrays.norm(np.zeros(3)) == 0
    assert np.isnan(_arrays.norm(np.array([np.nan])))
