"""The best values on a support."""

import numpy as np
import pytest

import ellzero as ez


@pytest.mark.parametrize("loss", [ez.risks.LeastSquares, ez.risks.Logistic])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_entry_is_there_by_rounding_alone(loss, dtype):
    """Shares of 5e-17 were counted among the nonzeros of more than half of these."""
    groups = np.arange(40) % 7
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((80, 40)) * np.exp((seed % 3) * rng.standard_normal(40))
        y = X[:, :6] @ rng.standard_normal(6) + 0.5 * rng.standard_normal(80)
        y = np.sign(y) if loss is ez.risks.Logistic else y
        for budget in (1.0, (0.0, 1.0)):
            gamma = ez.sets.Portfolio(budget, 0.0, 0.5, groups, 0.6)
            x = ez.minimize(loss(X.astype(dtype), y.astype(dtype), ridge=0.01), 8, gamma).x
            assert x[x != 0].min() > 1e-10


def test_numbers_that_a_set_asks_for_are_kept_however_small():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), 1e6 * rng.standard_normal(30)
    gamma = ez.sets.GroupWise({"a": ez.sets.Simplex(1e-9), "b": ez.sets.Simplex(1e6)}, ["a", "a", "b", "b"])
    x = ez.minimize(ez.risks.LeastSquares(X, y), 2, gamma).x
    np.testing.assert_allclose([x[:2].sum(), x[2:].sum()], [1e-9, 1e6], rtol=1e-12)
    x = ez.minimize(ez.risks.LeastSquares(X, y), 2, ez.sets.Box([1e-9, 0, 0, 0], 1e6), keep=[0]).x
    assert x[0] >= 1e-9
