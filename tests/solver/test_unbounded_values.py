"""Values of a black box that fall without end, or are so large or small that their squares cannot be told."""

import warnings

import numpy as np
import pytest

import ellzero as ez
from ellzero._core.walsh import Walsh
from ellzero.solver.by_values.recovery import recover
from ellzero.solver.by_values.surrogate import Surrogate
from ellzero.solver.result import Status

TARGET = np.zeros(20)
TARGET[[1, 5]] = [1.0, -2.0]


def bowl(w):
    return float(np.sum((w - TARGET) ** 2))


def linear(w):
    return float(-w[3])


def concave(w):
    return float(-(w[3] ** 2) - w[3])


def quartic(w):
    return float(-(w[3] ** 4) - w[3])


def hasty(w):
    return float(-np.exp(np.exp(abs(w[3]))) - w[3])


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("f", [linear, concave, quartic, hasty])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_falls_without_end_diverges(f, seed):
    res = ez.minimize(ez.risks.BlackBox(f, 100), 5, max_queries=3000, rng=seed)
    assert res.status is Status.DIVERGED
    assert not res.success
    assert np.isfinite(res.x).all()
    assert res.fun == f(res.x) <= f(np.zeros(100))
    assert f is hasty or res.fun < -1e70


def test_noise_that_grows_with_w_ends_no_run_in_an_error():
    """Its values fall without end: the larger w, the luckier."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        f = lambda w: float(np.sum((w[:5] - 1) ** 2) + w @ w * rng.standard_normal())  # noqa: B023, E731
        res = ez.minimize(ez.risks.BlackBox(f, 50), 5, max_queries=5000, rng=seed)
        assert res.status in (Status.DIVERGED, Status.MAX_QUERIES)
        assert np.isfinite(res.x).all()


def test_an_infinite_start_is_an_error():
    with pytest.raises(ez.risks.BlackBoxError, match="got -inf"):
        ez.minimize(ez.risks.BlackBox(lambda w: -np.inf, 5), 2, max_queries=50, rng=0)


@pytest.mark.parametrize("scale", [1e-200, 1e-170, 1e150, 1e155, 1e160, 1e200])
def test_the_unit_of_values_does_not_matter(scale):
    res = ez.minimize(ez.risks.BlackBox(lambda w: scale * bowl(w), 20), 2, max_queries=2000, rng=0)
    assert res.success
    assert res.noise.resolved
    np.testing.assert_allclose(res.x, TARGET, atol=1e-6)


@pytest.mark.parametrize("exponent", [-700, -3, 700])
def test_models_and_gradients_are_those_of_values_of_usual_size(exponent):
    rng, unit = np.random.default_rng(0), 2.0**exponent
    points = rng.standard_normal((30, 4))
    values = np.array([float(np.sum((p - 1) ** 4) + p[0] * p[1]) for p in points])
    told = []
    for factor in (1.0, unit):
        model = Surrogate(4)
        model.move_to(np.zeros(4), np.arange(4))
        model.remember(points, factor * values)
        assert model.fit(np.zeros(4), 1e-3 * factor)
        numbers = [*model.gradient(4), model.predicted(points[0]), model.c, model.spread]
        told.append(np.array([*(number / factor for number in numbers), model.visible(1e-3 * factor)]))
    assert np.array_equal(*told)
    walsh = Walsh(100, [0])
    slopes = walsh.rows(0, 60) @ np.where(np.arange(100) < 3, 1.0, 0.0)
    usual, scaled = recover(walsh, slopes, 1e-3), recover(walsh, unit * slopes, 1e-3 * unit)
    assert np.array_equal(usual.gradient, scaled.gradient / unit)
    assert usual.error == scaled.error / unit


@pytest.mark.parametrize("n", [3, 5, 7])
def test_a_budget_that_pays_for_no_step_is_not_said_to_be_spent(n):
    res = ez.minimize(ez.risks.BlackBox(bowl, 20), 2, max_queries=n, rng=0)
    assert res.status is Status.MAX_QUERIES
    assert res.n_values + res.n_monitor <= n
    assert "or all but too few for another step" in res.message


@pytest.mark.parametrize("seed", range(3))
def test_values_as_far_apart_as_numbers_go(seed):
    risk = ez.risks.BlackBox(lambda w: 1e308 * float(np.tanh(w.sum())), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = ez.minimize(risk, 2, ez.sets.Box(-1, 1), max_queries=60, rng=seed)
    assert np.isfinite(res.x).all()
    assert res.fun <= 0


@pytest.mark.parametrize("steepness", [1e16, 1e100, 1e250])
def test_behind_a_wall_queries_stay_near_the_set(steepness):
    asked = []

    def f(w):
        asked.append(float(np.abs(w).max()))
        return float((w[0] - 1) ** 2) + steepness * max(0.0, abs(w[0]) - 1)

    res = ez.minimize(ez.risks.BlackBox(f, 1), 1, ez.sets.Box(-1, 1), max_queries=200, rng=0)
    assert res.fun == pytest.approx(0, abs=1e-6)
    assert max(asked) < 100
