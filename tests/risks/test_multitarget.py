"""Least squares of several targets: against q separate problems, numpy's lstsq, and enumeration of the features."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import ellzero as ez
from ellzero._core.directions import blocks
from ellzero.testing import check_risk

N, P, Q = 40, 6, 3
SETTINGS = [{}, {"ridge": 0.3}, {"fit_intercept": True}, {"ridge": 0.3, "fit_intercept": True, "weighted": True}]


def problem(weighted=False, kind=np.asarray, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) + 0.5
    Y = X[:, [1, 4]] @ rng.standard_normal((2, Q)) + 0.3 * rng.standard_normal((N, Q)) + [0.0, 3.0, -1.0]
    weights = rng.integers(0, 3, N).astype(float) if weighted else None
    risk = ez.risks.LeastSquares(kind(X), Y, sample_weight=weights, **options)
    ones = [ez.risks.LeastSquares(kind(X), Y[:, j], sample_weight=weights, **options) for j in range(Q)]
    return X, Y, weights, risk, ones


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array, aslinearoperator], ids=["dense", "sparse", "operator"])
def test_the_sum_of_separate_problems(settings, kind):
    _, _, _, risk, ones = problem(kind=kind, **settings)
    W = np.random.default_rng(1).standard_normal((Q, P))
    w, rows = W.ravel(), np.array([0, 5, 5, 9])
    assert (risk.n_outputs, risk.n_features) == (Q, Q * P)
    assert risk.value(w) == pytest.approx(sum(o.value(v) for o, v in zip(ones, W, strict=True)))
    for batch in (None, rows):
        parts = [o.gradient(v, batch) for o, v in zip(ones, W, strict=True)]
        np.testing.assert_allclose(risk.gradient(w, batch), np.concatenate(parts), atol=1e-12)
    slope = [(risk.value(w + 1e-5 * e) - risk.value(w - 1e-5 * e)) / 2e-5 for e in np.eye(w.size)]
    np.testing.assert_allclose(risk.gradient(w), slope, atol=1e-7)
    np.testing.assert_allclose(risk.intercept(w), [o.intercept(v) for o, v in zip(ones, W, strict=True)], atol=1e-12)
    assert risk.smoothness == ones[0].smoothness
    assert risk.strong_convexity == ones[0].strong_convexity
    np.testing.assert_allclose(risk.losses(w), sum(o.losses(v) for o, v in zip(ones, W, strict=True)), rtol=1e-12)
    assert risk.held_out_loss(w, risk)[0] == pytest.approx(risk.value(w) - 0.5 * risk.ridge * w @ w)
    assert risk.predict(w).shape == (N, Q)
    check_risk(risk)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array], ids=["dense", "sparse"])
def test_curvature_and_bounds_are_block_diagonal(settings, kind):
    _, _, _, risk, ones = problem(kind=kind, **settings)
    w = np.random.default_rng(2).standard_normal(Q * P)
    G, one = risk.curvature(risk.at(w)), ones[0].curvature(ones[0].at(w[:P]))
    whole = np.kron(np.eye(Q), one.block(np.arange(P)))
    index, vectors = np.array([1, 7, 13, 4]), np.random.default_rng(3).standard_normal((4, 2))
    np.testing.assert_allclose(G.columns(index), whole[:, index], atol=1e-12)
    np.testing.assert_allclose(G.images(index, vectors), whole[:, index] @ vectors, atol=1e-12)
    np.testing.assert_allclose(G.block(index), whole[np.ix_(index, index)], atol=1e-12)
    np.testing.assert_allclose(G.diagonal, np.diag(whole), atol=1e-12)
    H, _, exact = risk.hessian_bound()
    assert exact
    np.testing.assert_allclose(H, 2 * whole, atol=1e-12)
    form = risk.quadratic_form(4)
    sparse = np.where(np.isin(np.arange(w.size), index), w, 0.0)
    value = form.c - form.b @ sparse + 0.5 * sparse @ form.Q @ sparse
    assert value == pytest.approx(risk.value(sparse), rel=1e-10)
    slack = form.rounding * np.sqrt(2 * form.energy) * form.roots @ np.abs(sparse)
    assert value - slack <= risk.value(sparse)
    for directions in blocks([0], 0, 5, w.size, 4):
        along = [risk.value(v) for v in directions.points(w, 0.1)]
        np.testing.assert_allclose(risk.values_along(risk.at(w), directions, 0.1), along)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_plain_supports_give_what_separate_problems_give(settings):
    """At most k entries, the values on any support: the targets know nothing of each other."""
    from ellzero.solver.refit import refit

    _, _, _, risk, ones = problem(**settings)
    support = np.array([1, 2, 4, 7, 9, 15])
    found = refit(risk, ez.sets.Everywhere(), support)
    parts = [refit(o, ez.sets.Everywhere(), support[support // P == j] % P) for j, o in enumerate(ones)]
    np.testing.assert_allclose(found.w, np.concatenate([part.w for part in parts]), atol=1e-10)
    best = min(
        sum(ez.minimize(o, k).fun for o, k in zip(ones, split, strict=True))
        for split in itertools.product(range(4), repeat=Q)
        if sum(split) == 3
    )
    assert ez.minimize(risk, 3).fun == pytest.approx(best)
    assert ez.certify(risk, ez.minimize(risk, 3)).lower_bound <= best * (1 + 1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_are_the_best_features_of_all(settings):
    X, Y, weights, risk, _ = problem(**settings)
    share = np.ones(N) / N if weights is None else weights / weights.sum()
    ridge, centred = settings.get("ridge", 0.0), settings.get("fit_intercept", False)

    def best(features):
        A, B = X[:, features], Y
        if centred:
            A, B = A - share @ A, B - share @ B
        A, B = np.sqrt(share)[:, None] * A, np.sqrt(share)[:, None] * B
        A = np.vstack([A, np.sqrt(ridge / 2) * np.eye(len(features))])
        B = np.vstack([B, np.zeros((len(features), Q))])
        W = np.linalg.lstsq(A, B, rcond=None)[0]
        return np.sum((A @ W - B) ** 2), W

    value, features = min((best(list(f))[0], f) for f in itertools.combinations(range(P), 2))
    found = ez.minimize(risk, ez.sparsity.Rows(2))
    assert found.fun == pytest.approx(value, rel=1e-10)
    assert np.flatnonzero(found.x.reshape(Q, P).any(axis=0)).tolist() == list(features)
    np.testing.assert_allclose(found.x.reshape(Q, P)[:, list(features)].T, best(list(features))[1], atol=1e-9)
    measure = risk.measured(found.x, found.support)
    assert abs(measure.value - value) <= 1e-10 * value
    assert measure.n_free == Q * centred
    assert np.abs(measure.slopes[0]).max() <= 1e-9
    M, _ = measure.floor(0.0, np.ones(measure.slopes[0].size))
    index = found.support
    if not centred:
        np.testing.assert_allclose(M, 2 * risk.curvature(risk.at(found.x)).block(index), atol=1e-10)


def test_columns_that_nearly_depend_on_each_other():
    """κ(X), and not κ(X)², is lost: the refit falls back on the columns themselves."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    X[:, 1] = X[:, 0] + 1e-7 * rng.standard_normal(50)
    Y = X @ rng.standard_normal((4, 3))
    found = ez.minimize(ez.risks.LeastSquares(X, Y), ez.sparsity.Rows(4))
    assert found.fun <= 1e-20


def test_single_precision_stays_and_information_criteria_count_all_targets():
    X, Y, _, _, _ = problem()
    risk = ez.risks.LeastSquares(X.astype(np.float32), Y.astype(np.float32), fit_intercept=True)
    found = ez.minimize(risk, ez.sparsity.Rows(2))
    assert found.x.dtype == np.float32
    double = ez.minimize(ez.risks.LeastSquares(X, Y, fit_intercept=True), ez.sparsity.Rows(2))
    np.testing.assert_allclose(found.x, double.x, atol=1e-4)
    path = ez.minimize_path(ez.risks.LeastSquares(X, Y, fit_intercept=True), ez.sparsity.Rows(5))
    assert path.select("bic").k == 2
    assert risk.deviance(found.x) == pytest.approx(N * Q * np.log(double.fun), rel=1e-4)


def test_copies_and_shapes():
    X, Y, _, risk, _ = problem()
    w = np.ones(Q * P)
    for twin in (copy.copy(risk), copy.deepcopy(risk), pickle.loads(pickle.dumps(risk))):
        assert type(twin) is type(risk)
        assert twin.value(w) == risk.value(w)
    assert type(ez.risks.LeastSquares(X, Y.tolist())) is type(risk)
    assert isinstance(risk, ez.risks.LeastSquares)
    with pytest.raises(ValueError, match=r"y must be one-dimensional, got shape \(40, 1\); use y.ravel\(\)"):
        ez.risks.LeastSquares(X, Y[:, :1])
    with pytest.raises(ValueError, match=r"y must have 40 rows, one for each row of X, got shape \(39, 3\)"):
        ez.risks.LeastSquares(X, Y[1:])
    with pytest.raises(ValueError, match="y must"):
        ez.risks.LeastSquares(X, np.where(Y > 2, np.nan, Y))
    with pytest.raises(ValueError, match="one-dimensional"):
        ez.risks.Huber(X, Y)


@pytest.mark.parametrize("method", ["IHT", "IHT-2SP", "HSG-HT", "HZO-HT"])
def test_the_methods_of_the_paper_count_features(method):
    _, _, _, risk, _ = problem(fit_intercept=method != "HZO-HT")
    found = ez.minimize(risk, ez.sparsity.Rows(2), method=method, max_iter=60, rng=0)
    assert np.count_nonzero(found.x.reshape(Q, P).any(axis=0)) <= 2
    assert found.fun < 0.7 * risk.value(risk.zero)


@pytest.mark.parametrize(
    "sparsity", [ez.sparsity.Rows(3), ez.sparsity.Rows(4), ez.sparsity.PerGroup(3, list("aabbbc"), 1)]
)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_gains_of_exchanged_features_are_what_refits_gain(settings, sparsity):
    """All exchanges of one feature for another, against the values that two refits have."""
    from ellzero.solver.refit import refit
    from ellzero.solver.row_moves import are_rows, row_gains

    _, _, _, risk, _ = problem(**settings)
    sparsity = sparsity.within(Q * P, Q)
    assert are_rows(sparsity, Q * P, Q)
    assert not are_rows(ez.sparsity.Groups(2, list("aabbcc")).within(Q * P, Q), Q * P, Q)

    def best(features):
        return refit(risk, ez.sets.Everywhere(), np.flatnonzero(np.isin(np.arange(Q * P) % P, features)))

    support = [0, 2, 5]
    point = best(support)
    model = risk.curvature(point)
    W, c = point.w.reshape(Q, P), -0.5 * point.gradient.reshape(Q, P)
    found = row_gains(model.shared, W, c, model.diagonal[:P], np.array([5]), sparsity)
    for out, into, gain in zip(*found, strict=True):
        if out == 5 or (out == -1 and sparsity.k == 3):
            assert gain == -np.inf  # kept, or no place is free
            continue
        stay = [i for i in support if i != out]
        trials = [[*stay, j] for j in range(P) if j not in support]
        allowed = [trial for trial in trials if sparsity.admits(np.array(trial))]
        if not allowed:
            assert gain == -np.inf
            continue
        values = {trial[-1]: best(trial).value for trial in allowed}
        assert into == min(values, key=values.get)
        assert gain == pytest.approx(point.value - values[into], abs=1e-9)
