"""Columns whose mean is large beside their spread: with an intercept, the best values on a support keep their digits."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import ellzero as ez
from ellzero.solver.refit import refit

KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "sparse": sp.csr_array,
    "blocks": lambda X: ez.Blocks([X[:100], X[100:]]),
}


def draw(k, mean, n=400, p=600):
    rng = np.random.default_rng(k)
    X, w = rng.standard_normal((n, p)), np.zeros(p)
    w[rng.choice(p, k, replace=False)] = rng.choice([-1, 1], k) * rng.uniform(1, 2, k)
    return X + mean, X @ w + 0.5 * rng.standard_normal(n)


def centred(X, y):
    X, y = X.astype(float), y.astype(float)
    return X - X.mean(axis=0), y - y.mean()


def value_and_least(X, y, res, non_negative=False):
    """R of an answer, and the least R on its support, both from centred columns."""
    A, b = centred(X[:, res.support], y)
    size = np.linalg.norm(A, axis=0)
    u = nnls(A / size, b)[0] / size if non_negative else np.linalg.lstsq(A, b)[0]
    return np.mean((A @ res.x[res.support].astype(float) - b) ** 2), np.mean((A @ u - b) ** 2)


@pytest.mark.parametrize("mean", [1e3, 1e5, 1e6])
@pytest.mark.parametrize("k", [20, 150])
@pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative()], ids=["free", "non-negative"])
def test_refits_reach_the_least_value(mean, k, gamma):
    X, y = draw(k, mean)
    res = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=True), k, gamma)
    value, least = value_and_least(X, y, res, gamma is not None)
    assert value == pytest.approx(least, rel=1e-9)
    assert res.fun == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_kind_of_data_is_centred_in_time(kind, weighted):
    X, y = draw(5, 1e6, 200, 30)
    X[:, 7:12] -= 1e6  # others are as they were
    X[:, 3] = 0.1  # a constant is explained by the intercept
    share = np.random.default_rng(0).uniform(0.5, 2, 200) if weighted else np.ones(200)
    risk = ez.risks.LeastSquares(KINDS[kind](X), y, fit_intercept=True, sample_weight=share if weighted else None)
    model, share = risk.curvature(risk.at(np.zeros(30))), share / share.sum()
    A = X - share @ X
    A[:, 3] = 0.0
    G = A.T @ (share[:, None] * A)
    for found in (model.block(np.arange(30)), model.cross(np.arange(30), np.arange(30))):
        np.testing.assert_allclose(found, G, atol=1e-8)
    np.testing.assert_allclose(model.diagonal, np.diagonal(G), atol=1e-8)
    if kind != "blocks":
        np.testing.assert_allclose(model.images(np.arange(4, 12), np.eye(8)), G[:, 4:12], atol=1e-8)
    scales = np.where(np.arange(30) == 3, 10.0, 1 / np.sqrt(np.maximum(np.diagonal(G), 1e-8)))
    np.testing.assert_allclose(risk.column_scales(), scales, rtol=1e-7)


@pytest.mark.parametrize("mean", [10, 100, 1000])
@pytest.mark.parametrize("k", [20, 150])
@pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative()], ids=["free", "non-negative"])
def test_single_precision_keeps_six_digits(mean, k, gamma):
    X, y = (a.astype(np.float32) for a in draw(k, mean))
    risk = ez.risks.LeastSquares(X, y, fit_intercept=True)
    res = ez.minimize(risk, k, gamma)
    value, least = value_and_least(X, y, res, gamma is not None)
    assert value == pytest.approx(least, rel=1e-6)
    assert res.fun == pytest.approx(least, rel=1e-6)
    told = X.astype(float) @ res.x.astype(float) + risk.intercept(res.x)
    assert np.mean((told - y) ** 2) == pytest.approx(least, rel=1e-6)


def test_the_search_in_single_precision_finds_what_matters():
    """An intercept of 1e5 has two digits behind the point: what these leave of it went into every slope, times 1e4."""
    X, y = (a.astype(np.float32) for a in draw(20, 1e4))
    res = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=True), 20, ez.sets.NonNegative())
    there = ez.minimize(
        ez.risks.LeastSquares(X.astype(float) - 1e4, y.astype(float), fit_intercept=True), 20, ez.sets.NonNegative()
    )
    assert res.fun <= 1.01 * there.fun


@pytest.mark.parametrize("loss", [ez.risks.LeastSquares, ez.risks.Huber, ez.risks.Quantile])
def test_targets_that_single_precision_would_round_away_are_refused(loss):
    """Seconds since 1970, in single precision all the same number, were fitted perfectly by no entry at all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 8))
    y = X[:, 0] + 0.1 * rng.standard_normal(100)
    with pytest.raises(ValueError, match=r"y must keep its digits.*subtract y.mean\(\), or hand in X in double"):
        loss(X.astype(np.float32), y + 1.7e9, fit_intercept=True)
    if loss is ez.risks.LeastSquares:
        with pytest.raises(ValueError, match="y must keep its digits"):
            loss(X.astype(np.float32), np.column_stack([y, y + 1.7e9]), fit_intercept=True)
    with pytest.raises(ValueError, match="subtract the means of y and offset"):
        loss(X.astype(np.float32), y, offset=np.full(100, 1e9), fit_intercept=True)
    loss(X.astype(np.float32), y + 3, offset=np.linspace(0, 3, 100), fit_intercept=True)
    known = ez.minimize(loss(X, y + 1.7e9, fit_intercept=True), 1)
    centred = ez.minimize(loss(X.astype(np.float32), y - y.mean(), fit_intercept=True), 1)
    assert np.array_equal(known.support, [0]) and np.array_equal(centred.support, [0])
    loss(X.astype(np.float32), np.full(100, 0.1), fit_intercept=True)  # nothing is lost where all are the same
    loss(X.astype(np.float32), y + 1.7e9)  # nor where R itself is as large


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e9, 1e13])
def test_of_a_constant_column_an_intercept_leaves_nothing(dtype, ridge, scale):
    """What rounding leaves of it was given weight; in single precision no support was better than none."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((15, 3)), np.full(15, 3.7), np.ones(15)])
    y = (X[:, :3] @ [1.0, -1.0, 0.5]).astype(dtype)
    res = ez.minimize(ez.risks.LeastSquares((scale * X).astype(dtype), y, ridge=ridge, fit_intercept=True), 4)
    assert res.support.tolist() == [0, 1, 2]
    assert res.fun <= 2 * ridge / scale**2 + 1e-14
    A, centred = (scale * X[:, :3]).astype(dtype).astype(float), y.astype(float) - y.astype(float).mean()
    A = A - A.mean(axis=0)
    best = np.linalg.solve(A.T @ A / 15 + 0.5 * ridge * np.eye(3), A.T @ centred / 15)
    np.testing.assert_allclose(res.x[:3], best, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "mean", "spread"), [(float, 1e8, 9e-4), (np.float32, 1e5, 1e-2), (np.float32, 1e7, 0.5)]
)
def test_a_column_that_varies_by_its_last_digits_is_not_constant(dtype, mean, spread):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 3))
    X[:, 0] = mean + spread * X[:, 0]
    X = X.astype(dtype)
    own = X[:, 0].astype(float) - X[:, 0].astype(float).mean()
    res = ez.minimize(ez.risks.LeastSquares(X, (own / own.std()).astype(dtype), fit_intercept=True), 1)
    assert res.support.tolist() == [0]
    assert res.fun < 0.1


@pytest.mark.parametrize("gamma", [None, ez.sets.L1Ball(2.0), ez.sets.Box(-1, 1), ez.sets.Portfolio(1.0, -1.0, 1.0)])
@pytest.mark.parametrize("kind", ["C", "F", "sparse"])
def test_targets_as_far_from_zero_as_the_columns(gamma, kind):
    """What rounding left of the mean of y counted ten million times: R was 5e-4 above the least, in the whole space too."""
    rng = np.random.default_rng(0)
    A, every = rng.standard_normal((60, 5)), np.arange(5)
    A -= A.mean(axis=0)
    y = A @ rng.uniform(-1.5, 1.5, 5) + rng.standard_normal(60)
    X = A + 1e7
    A = X - 1e7  # what of the columns is in floating point
    far = ez.risks.LeastSquares(KINDS[kind](X), y + 1.6e7, fit_intercept=True)
    near = ez.risks.LeastSquares(A, (y + 1.6e7) - 1.6e7, fit_intercept=True)
    found, least = (refit(risk, gamma or ez.sets.Everywhere(), every) for risk in (far, near))
    np.testing.assert_allclose(found.w, least.w, atol=1e-6)
    assert near.value(found.w) <= least.value * (1 + 1e-9)
