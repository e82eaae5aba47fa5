"""An offset is a column of X whose coefficient is 1: everything else follows from that."""

import numpy as np
import pytest
import scipy.sparse as sp
from test_risks import KINDS, MODELS, C, N, data, every_setting

import ellzero as ez
from ellzero._core.arrays import to_host
from ellzero._core.directions import blocks
from ellzero.risks import Gamma, LeastSquares, Multinomial, Poisson
from ellzero.testing.risks import check_risk

every_model = pytest.mark.parametrize("model", MODELS)
ROWS = [3, 3, 1]


def both(model, change=np.asarray, scale=1.0, **options):
    """A risk with an offset, the one with further columns instead, w, and how to make a vector of the second one."""
    X, y, weights, w = data(model)
    c = C if model is Multinomial else 1
    offset = scale * np.random.default_rng(5).standard_normal((N, c))
    wide = np.hstack([X, offset])
    if options.pop("weighted", True):
        options["sample_weight"] = weights
    given = offset if c > 1 else offset[:, 0]
    one, other = model(change(X), y, offset=given, **options), model(change(wide), y, **options)

    def longer(w):
        return np.hstack([np.reshape(w, (c, -1)), np.eye(c)]).ravel()

    own = np.hstack([np.ones((c, X.shape[1]), bool), np.zeros((c, c), bool)]).ravel()
    return one, other, w, longer, own


@every_model
@every_setting
def test_it_is_a_column_with_the_coefficient_1(model, ridge, weighted, intercept):
    risk, wide, w, longer, own = both(model, ridge=ridge, weighted=weighted, fit_intercept=intercept)
    more = 0.5 * ridge * (C if model is Multinomial else 1)
    for v in (w, 0 * w):
        assert risk.value(v) + more == pytest.approx(wide.value(longer(v)), rel=1e-12)
        np.testing.assert_allclose(risk.gradient(v), wide.gradient(longer(v))[own], atol=1e-12)
        np.testing.assert_allclose(risk.gradient(v, ROWS), wide.gradient(longer(v), ROWS)[own], atol=1e-12)
        np.testing.assert_allclose(risk.intercept(v), wide.intercept(longer(v)), atol=1e-9)
        np.testing.assert_allclose(risk.predict(v), wide.predict(longer(v)), atol=1e-9)
        np.testing.assert_allclose(risk.losses(v), wide.losses(longer(v)), atol=1e-9)
        assert risk.held_out_loss(v, risk) == pytest.approx(wide.held_out_loss(longer(v), wide))
    check_risk(risk, rng=0, n_points=2)


@every_model
@pytest.mark.parametrize("kind", KINDS)
def test_on_every_kind_of_data(model, kind):
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if kind == "float32" else {"rtol": 1e-10, "atol": 1e-11}
    for intercept in (False, True):
        risk, wide, w, longer, own = both(model, KINDS[kind], fit_intercept=intercept)
        assert risk.value(w) == pytest.approx(wide.value(longer(w)), rel=tolerance["rtol"])
        np.testing.assert_allclose(to_host(risk.gradient(w)), to_host(wide.gradient(longer(w)))[own], **tolerance)
        batches = to_host(risk.gradient(w, ROWS)), to_host(wide.gradient(longer(w), ROWS))[own]
        np.testing.assert_allclose(*batches, **tolerance)


@every_model
def test_in_parts_other_units_and_along_directions(model):
    risk, wide, w, longer, own = both(model, fit_intercept=True)
    explicit, beside = risk.with_explicit_intercept(), wide.with_explicit_intercept()
    b = np.full(C if model is Multinomial else 1, 0.3)
    u, v = np.r_[w, b], np.r_[longer(w), b]
    assert explicit.value(u) == pytest.approx(beside.value(v), rel=1e-12)
    keep = np.r_[own, np.ones(b.size, bool)]
    np.testing.assert_allclose(explicit.gradient(u, ROWS), beside.gradient(v, ROWS)[keep], atol=1e-12)
    part = risk.restrict([0, 2])
    short = np.zeros(w.size)
    short[[0, 2]] = w[[0, 2]]
    assert part.value(w[[0, 2]]) == pytest.approx(wide.value(longer(short)), rel=1e-12)
    assert risk.rescaled(np.full(w.size, 2.0)).value(w / 2) == pytest.approx(risk.value(w), rel=1e-12)
    for here, there in ((risk, wide), both(model)[:2]):
        for directions in blocks([0], 0, 5, w.size, 2):
            values = here.values_along(here.at(w), directions, 0.1)
            expected = [there.value(longer(p)) for p in directions.points(w, 0.1)]
            np.testing.assert_allclose(values, expected, rtol=1e-10)


@every_model
@pytest.mark.parametrize("intercept", [False, True])
def test_its_rounding_is_counted(model, intercept):
    """R with its error, from many digits more than the offset leaves it."""
    big = 1.0 if model in (Poisson, Gamma) else 1e6
    risk, wide, w, longer, _ = both(model, scale=big, fit_intercept=intercept, ridge=0.1)
    every, more = np.arange(w.size), 0.05 * (C if model is Multinomial else 1)
    here, there = risk.measured(w, every), wide.measured(longer(w), np.arange(wide.n_features))
    assert abs(here.value + more - there.value) <= here.error + there.error + 1e-15 * abs(here.value)
    gradient, doubt = here.slopes
    other, off = there.slopes
    own = np.flatnonzero(both(model)[4])
    assert np.all(np.abs(gradient[every] - other[own]) <= doubt[every] + off[own] + 1e-14 * np.abs(gradient[every]))


@every_model
def test_a_constant_is_a_shift_of_the_intercept(model):
    X, y, weights, w = data(model)
    plain = model(X, y, 0.1, weights, fit_intercept=True)
    risk = model(X, y, 0.1, weights, fit_intercept=True, offset=np.full(N, 2.5))
    assert risk.value(w) == pytest.approx(plain.value(w), rel=1e-12)
    np.testing.assert_allclose(risk.gradient(w), plain.gradient(w), atol=1e-10)
    shift = 0.0 if model is Multinomial else 2.5  # softmax does not see it, and its intercepts add up to 0
    np.testing.assert_allclose(risk.intercept(w), plain.intercept(w) - shift, atol=1e-9)
    same = ez.minimize(risk, 2), ez.minimize(plain, 2)
    assert same[0].fun == pytest.approx(same[1].fun, rel=1e-9)
    np.testing.assert_array_equal(same[0].support, same[1].support)


@every_model
@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_are_never_above_the_optimum(model, intercept):
    """Against the best of all pairs."""
    X, y, weights, _ = data(model, n=20, p=4)
    offset = np.random.default_rng(2).standard_normal(20)
    risk = model(X, y, 0.05, weights, intercept, offset=offset)
    found = ez.minimize(risk, 2)
    cert = ez.certify(risk, found, target_gap=1e-3)
    pairs = [(i, j) for i in range(risk.n_features) for j in range(i)]
    best = min(ez.minimize(risk.restrict(pair), 2).fun for pair in pairs)
    assert cert.lower_bound <= best * (1 + 1e-12)
    assert found.fun == pytest.approx(best, rel=1e-9)
    assert cert.relative_gap <= 1e-3


@pytest.mark.parametrize("method", ["IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP", "IHT", "StoIHT"])
def test_all_methods_see_it(method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    offset = 5 * rng.standard_normal(60)
    y = X[:, [1, 4]] @ [2.0, -1.0] + offset
    gamma = ez.sets.L2Ball(10.0) if "2SP" in method else None
    for change in (np.asarray, sp.csr_array):
        risk = LeastSquares(change(X), y, offset=offset, ridge=0.01)
        res = ez.minimize(risk, 2, gamma, method, rng=0, max_iter=20 if "HZO" in method else 300)
        assert res.support.tolist() == [1, 4] and risk.losses(res.x).mean() < 0.2


def test_exposure():
    """Counts over unequal times: exp(offset) is the time, and rates do not depend on it."""
    rng = np.random.default_rng(0)
    X, time = rng.standard_normal((400, 6)), rng.uniform(0.1, 20.0, 400)
    y = rng.poisson(time * np.exp(0.5 * X[:, 0] - 0.5 * X[:, 3] + 0.2))
    res = ez.minimize(risk := Poisson(X, y, fit_intercept=True, offset=np.log(time)), 2)
    assert res.support.tolist() == [0, 3]
    np.testing.assert_allclose([*res.x[[0, 3]], risk.intercept(res.x)], [0.5, -0.5, 0.2], atol=0.05)
    path = ez.minimize_path(Poisson(X[:300], y[:300], fit_intercept=True, offset=np.log(time[:300])), 4,
                            validation=Poisson(X[300:], y[300:], offset=np.log(time[300:])))  # fmt: skip
    assert path.select("validation").k >= 2
    assert path.validation.min() < Poisson(X[300:], y[300:]).value(0 * res.x)


@pytest.mark.parametrize("model", [Poisson, Gamma])
def test_an_offset_of_a_thousand(model):
    """exp(1000) is no double: R is inf without a warning, and with an intercept the offset does no harm."""
    X, y, _, w = data(model)
    for sign in (-1, 1):
        huge = np.full(N, 1000.0 * sign)
        value = model(X, y, offset=huge).value(w)
        assert value == np.inf or (value > 500 and sign * (1 if model is Gamma else -1) > 0)
        risk = model(X, y, fit_intercept=True, offset=huge)
        assert risk.value(w) == pytest.approx(model(X, y, fit_intercept=True).value(w), rel=1e-9)
        assert ez.minimize(risk, 2).fun == pytest.approx(ez.minimize(model(X, y, fit_intercept=True), 2).fun, rel=1e-9)


def test_predictions_for_new_rows():
    X, y, _, w = data(LeastSquares)
    risk = LeastSquares(X, y, offset=np.arange(float(N)))
    np.testing.assert_allclose(risk.predict(w), X @ w + np.arange(N))
    np.testing.assert_allclose(risk.predict(w, X[:3]), X[:3] @ w)
    np.testing.assert_allclose(risk.predict(w, X[:3], offset=[1, 2, 3]), X[:3] @ w + [1, 2, 3])


@pytest.mark.parametrize(
    ("offset", "error", "message"),
    [
        (np.ones(3), ValueError, f"offset must have length {N}, one for each row of X, got 3"),
        (np.ones((N, 2)), ValueError, "offset must be one-dimensional"),
        (np.full(N, np.nan), ValueError, "offset must be finite, got nan at index 0"),
        (["a"] * N, (TypeError, ValueError), "offset"),
    ],
)
def test_errors_name_it(offset, error, message):
    X, y, *_ = data(LeastSquares)
    with pytest.raises(error, match=message):
        LeastSquares(X, y, offset=offset)


def test_errors_of_several_classes():
    X, y, *_ = data(Multinomial)
    with pytest.raises(ValueError, match=rf"offset must have shape \({N},\) or \({N}, 3\), got \({N}, 2\)"):
        Multinomial(X, y, offset=np.ones((N, 2)))
    with pytest.raises(ValueError, match="offset must be finite"):
        Multinomial(X, y, offset=np.full((N, 3), np.inf))
