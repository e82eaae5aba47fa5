"""Variance-reduced directions and the presets of zeroth-order methods."""

import numpy as np
import pytest

import ellzero as ez
from ellzero.solver.result import Counts
from ellzero.theory.parameters import snapshot_step


def f(w):
    return float(np.sum((w - 1) ** 2 * np.arange(1, 21)))


def test_at_the_snapshot_the_gradient_is_that_of_all_coordinates():
    risk, counts = ez.risks.BlackBox(f, 20), Counts()
    oracle = ez.VarianceReducedDirections(3).bind(risk, counts, [0])
    w = np.full(20, 0.5)
    g = oracle(risk.at(w), 0)
    assert np.allclose(g, 2 * (w - 1) * np.arange(1, 21), rtol=1e-4)
    assert counts.n_values == 1 + 20  # no directions, for nothing has changed


def test_the_mean_is_the_gradient():
    risk = ez.risks.BlackBox(f, 20)
    start, w = np.full(20, 0.5), np.linspace(0, 1, 20)
    estimates = []
    for seed in range(400):
        oracle = ez.VarianceReducedDirections(5, epoch=10).bind(risk, Counts(), [seed])
        oracle(risk.at(start), 0)
        estimates.append(oracle(risk.at(w), 1))
    exact = 2 * (w - 1) * np.arange(1, 21)
    error = np.std(estimates, axis=0) / np.sqrt(400)
    assert (np.abs(np.mean(estimates, axis=0) - exact) <= 4.5 * error + 1e-3).all()


@pytest.mark.parametrize(("name", "gamma"), [("VR-ZOHT", None), ("VR-ZOHT-2SP", ez.sets.Box(-0.5, 0.5))])
def test_few_directions_are_enough(name, gamma):
    def g(w):
        return float(np.sum((w - 1) ** 2))

    run = {"k": 3, "constraint": gamma, "max_queries": 4000, "rng": 0}
    best = 17.0 if gamma is None else 17.75
    res = ez.minimize(ez.risks.BlackBox(g, 20), method=ez.preset(name, step=0.05, q=3), **run)
    assert res.fun < best + 1e-4
    theirs = ez.minimize(ez.risks.BlackBox(g, 20), method=ez.preset(name, L=2.0, nu=2.0), **run)
    assert theirs.fun < best + 0.5
    assert res.n_values + res.n_monitor <= 4000


def test_resumed_snapshots(tmp_path):
    method, file = ez.preset("VR-ZOHT", step=0.01, q=3, epoch=4), tmp_path / "run.npz"
    run = {"k": 3, "method": method, "max_queries": 600, "rng": 0}
    whole = ez.minimize(ez.risks.BlackBox(f, 20), **run)
    ez.minimize(ez.risks.BlackBox(f, 20), max_iter=6, checkpoint=file, **run)
    res = ez.minimize(ez.risks.BlackBox(f, 20), resume=file, **run)
    assert np.array_equal(res.x, whole.x)
    assert res.n_values == whole.n_values


def test_what_snapshots_refuse():
    with pytest.raises(ValueError, match="max_queries must be at least 24"):
        ez.minimize(ez.risks.BlackBox(f, 20), 3, method=ez.preset("VR-ZOHT", step=0.1), max_queries=20)
    with pytest.raises(ValueError, match="inside=True"):
        ez.minimize(ez.risks.BlackBox(f, 20, inside=True), 3, ez.sets.Box(0.0, 1.0), ez.preset("VR-ZOHT-2SP", step=0.1))


def test_our_step_and_epoch():
    """η = 1/(8(1+e)L) and m = ⌈32(1+e)κ⌉ make SVRG's factor 1/(νη(1-2L'η)m) + 2L'η/(1-2L'η) at most 2/3, L' = (1+e)L."""
    for L, nu, q in ((1.0, 1.0, 1), (10.0, 0.5, 7)):
        step, m = snapshot_step(L, nu, 50, 9, 50, q)
        wide = 1 / (8 * step)
        assert 1 / (nu * step * (1 - 2 * wide * step) * m) + 2 * wide * step / (1 - 2 * wide * step) <= 2 / 3 + 1e-12


def test_a_step_is_enough_for_zoht():
    res = ez.minimize(ez.risks.BlackBox(f, 20), 3, method=ez.preset("ZOHT", step=0.005), max_queries=1000, rng=0)
    assert res.fun < f(np.zeros(20))
    for name, missing in (("L", "nu="), ("nu", "L=")):
        with pytest.raises(ValueError, match=rf"a black box does not tell: give {missing}"):
            ez.minimize(ez.risks.BlackBox(f, 20), 3, method=ez.preset("ZOHT", **{name: 2.0}), max_queries=100)
    with pytest.raises(ValueError, match="give L= and nu=; or use"):
        ez.minimize(ez.risks.BlackBox(f, 20), 3, method=ez.preset("HZO-HT", step=0.1), max_queries=100)


def test_presets_print_what_to_type():
    assert repr(ez.preset("ZOHT")) == "preset('ZOHT')"
    assert repr(ez.preset("ZOHT", step=0.1, q=3)) == "preset('ZOHT', step=0.1, q=3)"
    assert repr(ez.preset("auto")) == "preset('auto')"
