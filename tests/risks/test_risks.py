"""Risks against formulas written independently, on every kind of data, weighted or not, with an intercept or not."""

import math

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.linalg import aslinearoperator
from scipy.special import logsumexp, xlogy
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance, mean_squared_error

import ellzero as ez
from ellzero._core.arrays import to_host
from ellzero.risks import Constant, Gamma, Huber, LeastSquares, Logistic, Multinomial, Poisson, Quantile, SquaredHinge
from ellzero.risks import spectrum as _spectrum
from ellzero.risks.linear_accuracy import measure
from ellzero.testing.risks import check_risk

N, P, C = 30, 6, 3


def Upper(*args, **kwargs):
    """The upper quartile, smoothed so much that finite differences see it."""
    return Quantile(*args, quantile=0.75, smoothing=0.5, **kwargs)


MODELS = [LeastSquares, Huber, Upper, Logistic, SquaredHinge, Poisson, Gamma, Multinomial]

every_model = pytest.mark.parametrize("model", MODELS)
every_setting = pytest.mark.parametrize(
    ("ridge", "weighted", "intercept"),
    [(0.0, False, False), (0.3, True, False), (0.0, False, True), (0.3, True, True)],
)


def data(model, seed=0, n=N, p=P):
    """X, y, weights and a point w, with predictions of a size at which every loss bends."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.7) + 0.2
    signal = X[:, 0] - X[:, 1] + rng.standard_normal(n)
    y = {
        LeastSquares: signal,
        Huber: signal + 5 * (rng.random(n) < 0.2),
        Upper: signal,
        Logistic: np.where(signal > 0, "up", "down"),
        SquaredHinge: np.where(signal > 0, "up", "down"),
        Poisson: rng.poisson(np.exp(0.5 * signal)),
        Gamma: np.exp(0.5 * signal),
        Multinomial: np.array(["a", "b", "c"])[np.digitize(signal, [-0.7, 0.7])],
    }[model]
    weights = rng.integers(0, 4, n).astype(float)
    w = 0.5 * rng.standard_normal(p * C if model is Multinomial else p)
    return X, y, weights, w


def losses(model, X, y, w, b, delta=1.35):
    """The loss of each row, from the textbook."""
    if model is Multinomial:
        z = X @ w.reshape(C, -1).T + b
        return logsumexp(z, axis=1) - z[np.arange(len(y)), np.searchsorted(np.unique(y), y)]
    z = X @ w + b
    if model is LeastSquares:
        return (z - y) ** 2
    if model is Huber:
        r = np.abs(z - y)
        return np.where(r <= delta, r**2, 2 * delta * r - delta**2)
    if model is Upper:
        r = y - z
        pinball = np.where(r >= 0, 0.75 * r - 0.75**2 / 4, -0.25 * r - 0.25**2 / 4)
        return np.where((r >= -0.125) & (r <= 0.375), r**2, pinball)
    if model is Logistic:
        return np.log1p(np.exp(np.where(y == "up", -z, z)))
    if model is SquaredHinge:
        return np.maximum(0, 1 - np.where(y == "up", z, -z)) ** 2
    if model is Gamma:
        return y / np.exp(z) - 1 - np.log(y) + z
    return np.exp(z) - y * z + xlogy(y, y) - y


def reference(model, X, y, weights, w, ridge=0.0, intercept=False):
    """R(w), with the best intercept found by a general optimiser."""

    def at(b):
        return weights @ losses(model, X, y, w, b) / weights.sum() + ridge / 2 * w @ w

    if not intercept:
        return at(0.0)
    if model is Multinomial:
        return minimize(at, np.zeros(C), tol=1e-12).fun
    return minimize_scalar(at, bracket=(-1, 1), tol=1e-12).fun


def differences(f, w, h=1e-5):
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def hessian(risk, w, h=1e-5):
    H = np.array([(risk.gradient(w + h * e) - risk.gradient(w - h * e)) / (2 * h) for e in np.eye(len(w))])
    return (H + H.T) / 2


# Value and gradient


@every_model
@every_setting
def test_value_and_gradient_are_the_formulas(model, ridge, weighted, intercept):
    X, y, weights, w = data(model)
    omega = weights if weighted else np.ones(N)
    risk = model(X, y, ridge, weights if weighted else None, intercept)
    assert risk.value(w) == pytest.approx(reference(model, X, y, omega, w, ridge, intercept), rel=1e-9)
    expected = differences(lambda v: reference(model, X, y, omega, v, ridge, intercept), w)
    np.testing.assert_allclose(risk.gradient(w), expected, atol=2e-5 if intercept else 1e-8)
    np.testing.assert_allclose(risk.gradient(w), differences(risk.value, w), atol=1e-8)


KINDS = {
    "F": np.asfortranarray,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "operator": aslinearoperator,
    "array API": array_api_strict.asarray,
    "float32": lambda X: X.astype(np.float32),
}


@every_model
@pytest.mark.parametrize("kind", [*KINDS, "memmap"])
def test_every_kind_of_data_gives_the_same_risk(model, kind, tmp_path):
    X, y, weights, w = data(model)
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        other = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        other = KINDS[kind](X)
    rows, support = np.array([3, 3, 1]), np.array([0, 2, 5])
    tol = {"rtol": 1e-4, "atol": 1e-5} if kind == "float32" else {"rtol": 1e-10, "atol": 1e-12}
    for intercept in (False, True):
        dense, risk = (model(A, y, 0.1, weights, intercept) for A in (X, other))
        v = risk.as_vector(w)
        assert to_host(risk.zero).dtype == (np.float32 if kind == "float32" else np.float64)
        assert type(risk.gradient(w)) is type(risk.zero)
        assert to_host(risk.gradient(w)).dtype == to_host(risk.zero).dtype
        assert isinstance(risk.at(v).value, float)
        assert risk.value(w) == pytest.approx(dense.value(w), rel=tol["rtol"])
        np.testing.assert_allclose(to_host(risk.gradient(w)), dense.gradient(w), **tol)
        np.testing.assert_allclose(to_host(risk.gradient(w, rows)), dense.gradient(w, rows), **tol)
        np.testing.assert_allclose(risk.intercept(w), dense.intercept(w), **tol)
        part, whole = risk.restrict(support), dense.restrict(support)
        np.testing.assert_allclose(to_host(part.gradient(w[:3])), whole.gradient(w[:3]), **tol)
        if model not in (Poisson, Gamma):
            assert risk.smoothness.value == pytest.approx(dense.smoothness.value, rel=1e-6)
        check_risk(risk, rng=0, n_points=2)


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_columns_of_a_large_matrix(model, dtype):
    X, y, _, w = data(model, n=500, p=200)
    X = X.astype(dtype)
    w[np.arange(w.size) % 100 != 7] = 0
    for A in (X, np.asfortranarray(X), sp.csr_array(X)):
        risk = model(A, y)
        known, unknown = risk.at(risk.as_vector(w), np.flatnonzero(w)), risk.at(risk.as_vector(w))
        assert known.value == pytest.approx(unknown.value, rel=1e-5 if dtype == np.float32 else 1e-12)
        np.testing.assert_allclose(known.gradient, unknown.gradient, atol=1e-4 if dtype == np.float32 else 1e-12)


@every_model
def test_columns_in_single_precision_are_valued_like_their_copies(model):
    """X is left where it lies, but all else is as accurate as in double precision."""
    X, y, weights, w = data(model, n=500, p=200)
    X = X.astype(np.float32)
    w[np.arange(w.size) % 100 != 7] = 0
    support = np.flatnonzero(w)
    for intercept in (False, True):
        here, copied = (model(A, y, 0.1, weights, intercept) for A in (np.asfortranarray(X), X))
        one, other = (measure(risk, w, support) for risk in (here, copied))
        assert one.value == pytest.approx(other.value, rel=1e-15)
        assert one.error == pytest.approx(other.error, rel=1e-9)
        for a, b in (*zip(one.slopes, other.slopes, strict=True), (one.unknowns, other.unknowns)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        assert here.accurate_value(w) == pytest.approx(copied.accurate_value(w), rel=1e-15)


@every_model
@every_setting
def test_they_withstand_an_attack(model, ridge, weighted, intercept):
    X, y, weights, _ = data(model)
    check_risk(model(X, y, ridge, weights if weighted else None, intercept), rng=0)


@every_model
@pytest.mark.parametrize("intercept", [False, True])
def test_a_weight_is_a_number_of_repetitions(model, intercept):
    X, y, weights, w = data(model)
    repeated = np.repeat(np.arange(N), weights.astype(int))
    weighted = model(X, y, 0.1, weights, intercept)
    unweighted = model(X[repeated], y[repeated], 0.1, None, intercept)
    assert weighted.value(w) == pytest.approx(unweighted.value(w), rel=1e-12)
    np.testing.assert_allclose(weighted.gradient(w), unweighted.gradient(w), atol=1e-12)
    np.testing.assert_allclose(weighted.intercept(w), unweighted.intercept(w), atol=1e-10)
    if model not in (Poisson, Gamma):
        assert weighted.smoothness.value == pytest.approx(unweighted.smoothness.value)
    assert weighted.strong_convexity.value == pytest.approx(unweighted.strong_convexity.value)


@every_model
@every_setting
def test_terms_average_to_the_whole(model, ridge, weighted, intercept):
    X, y, weights, w = data(model)
    risk = model(X, y, ridge, weights if weighted else None, intercept)
    each = np.array([risk.gradient(w, [i]) for i in range(N)])
    np.testing.assert_allclose(each.mean(axis=0), risk.gradient(w), atol=1e-12)
    rows = [4, 0, 4]
    np.testing.assert_allclose(risk.gradient(w, rows), each[rows].mean(axis=0), atol=1e-12)
    mask = np.arange(N) < 2
    np.testing.assert_allclose(risk.gradient(w, mask), each[:2].mean(axis=0), atol=1e-12)


def test_a_support_may_be_a_list():
    risk = LeastSquares(np.random.default_rng(0).standard_normal((300, 700)), np.ones(300))
    w = np.zeros(700)
    w[[3, 5]] = 1.0
    assert risk.at(w, [5, 3]).value == pytest.approx(risk.value(w), rel=1e-14)
    with pytest.raises(ValueError, match="support must lie in 0..699, got -3"):
        risk.at(w, [5, -3])


def test_values_are_those_of_scikit_learn():
    for model in (LeastSquares, Logistic, Poisson, Gamma, Multinomial):
        X, y, weights, w = data(model)
        value = model(X, y, sample_weight=weights).value(w)
        z = X @ (w.reshape(C, P).T if model is Multinomial else w)
        if model is LeastSquares:
            expected = mean_squared_error(y, z, sample_weight=weights)
        elif model is Poisson:
            expected = mean_poisson_deviance(y, np.exp(z), sample_weight=weights) / 2
        elif model is Gamma:
            expected = mean_gamma_deviance(y, np.exp(z), sample_weight=weights) / 2
        elif model is Logistic:
            expected = log_loss(y, 1 / (1 + np.exp(-z)), labels=["down", "up"], sample_weight=weights)
        else:
            probability = np.exp(z - logsumexp(z, axis=1, keepdims=True))
            expected = log_loss(y, probability, sample_weight=weights)
        assert value == pytest.approx(expected, rel=1e-9)


# The intercept


@every_model
def test_the_intercept_is_a_free_extra_column(model):
    X, y, weights, w = data(model)
    ridge = 0.05
    risk = model(X, y, ridge, weights, fit_intercept=True)
    profiled = minimize(risk.value, 0 * w, jac=risk.gradient, method="L-BFGS-B", options={"ftol": 1e-15})
    c = C if model is Multinomial else 1

    def joint(wb):
        w, b = wb[:-c], wb[-c:]
        return weights @ losses(model, X, y, w, b) / weights.sum() + ridge / 2 * w @ w

    together = minimize(joint, np.zeros(w.size + c), method="L-BFGS-B", options={"maxfun": 10**6, "ftol": 1e-14})
    assert profiled.fun == pytest.approx(together.fun, abs=1e-7)
    b = together.x[-c:] - (together.x[-c:].mean() if c > 1 else 0)
    np.testing.assert_allclose(risk.intercept(profiled.x), b if c > 1 else b[0], atol=2e-3)
    assert profiled.fun <= model(X, y, ridge, weights).value(profiled.x)


@every_model
def test_shifting_the_data_changes_nothing_but_the_intercept(model):
    X, y, _, w = data(model)
    here, there = model(X, y, fit_intercept=True), model(X + 5.0, y, fit_intercept=True)
    assert here.value(w) == pytest.approx(there.value(w), rel=1e-10)
    np.testing.assert_allclose(here.gradient(w), there.gradient(w), atol=1e-9)
    assert np.all(model(X, y).intercept(w) == 0)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(3, 40), st.floats(-2, 3), st.booleans())
def test_intercepts_are_found_however_far_away(seed, n, log_scale, weighted):
    rng = np.random.default_rng(seed)
    z = 10**log_scale * rng.standard_normal((n, C))
    weights = rng.random(n) if weighted else None
    labels = rng.permutation(np.arange(n) % C)
    X = np.zeros((n, 1))
    many = Multinomial(X, labels, 0, weights, fit_intercept=True)
    residual = many._share * many._slope(z + many._best_intercept(z), many.y)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-12 * (1 + 10**log_scale))
    two = Logistic(X, labels > 0, 0, weights, fit_intercept=True)
    bounded = Huber(X, 3 * rng.standard_normal(n), 0, weights, fit_intercept=True)
    hinge = SquaredHinge(X, labels > 0, 0, weights, fit_intercept=True)
    upper = Upper(X, 3 * rng.standard_normal(n), 0, weights, fit_intercept=True)
    for risk in (two, bounded, hinge, upper):
        at = z[:, 0] + risk._best_intercept(z[:, 0])
        assert abs(np.sum(risk.share * risk._slope(at, risk.y))) <= 1e-13 * (1 + 10**log_scale)
    for risk in (Poisson(X, labels, 0, weights, True), Gamma(X, labels + 1, 0, weights, True)):
        at = z[:, 0] + risk._best_intercept(z[:, 0])
        assert abs(np.sum(risk.share * risk._slope(at, risk.y))) <= 1e-12 * (1 + 10**log_scale)


def test_a_flat_stretch_of_the_huber_loss_has_a_best_intercept():
    risk = Huber(np.zeros((4, 1)), [0.0, 0.0, 100.0, 100.0], fit_intercept=True, delta=1.0)
    assert 1.0 <= risk.intercept([0.0]) <= 99.0
    assert risk.value([0.0]) == pytest.approx(99.0)


# Extremes


def test_a_margin_of_any_size_is_safe():
    risk = Logistic([[1.0], [-1.0]], [1, 0])
    assert risk.value([1e5]) == 0
    assert risk.value([-1e5]) == 1e5
    np.testing.assert_array_equal(risk.gradient([1e5]), [0.0])
    np.testing.assert_array_equal(risk.gradient([-1e5]), [-1.0])
    assert Logistic([[1.0], [-1.0]], [1, 0]).value([50.0]) == pytest.approx(math.exp(-50), rel=1e-12)
    several = Multinomial([[1.0], [-1.0], [0.0]], [0, 1, 2])
    assert several.value([1e5, -1e5, 0.0]) == pytest.approx(math.log(3) / 3)


def test_poisson_overflows_to_infinity_in_silence():
    risk = Poisson([[1.0], [-1.0]], [1, 0])
    assert risk.value([1e3]) == math.inf
    risk.gradient([1e3])
    risk.gradient([1e3], rows=[0, 1])
    assert Poisson([[1.0], [-1.0]], [1, 0], fit_intercept=True).value([1e3]) == 0  # w and b fit both


def test_poisson_is_zero_at_a_perfect_fit():
    y = np.array([0.5, 3.0, 1e6])
    assert Poisson(np.eye(3), y).value(np.log(y)) == pytest.approx(0, abs=1e-9)


def test_a_row_without_weight_does_not_set_the_scale():
    risk = Poisson([[1.0], [2.0], [1e4]], [1, 2, 3], sample_weight=[1, 1, 0], fit_intercept=True)
    same = Poisson([[1.0], [2.0]], [1, 2], fit_intercept=True)
    assert risk.intercept([1.0]) == pytest.approx(same.intercept([1.0]))


# Constants


@every_model
@every_setting
def test_the_hessian_lies_between_the_constants(model, ridge, weighted, intercept):
    X, y, weights, w = data(model)
    risk = model(X, y, ridge, weights if weighted else None, intercept)
    for scale in (0.0, 0.1, 1.0):
        eigenvalues = np.linalg.eigvalsh(hessian(risk, scale * w))
        assert eigenvalues[-1] <= risk.smoothness.value + 1e-6
        assert eigenvalues[0] >= risk.strong_convexity.value - 1e-6
    if model is LeastSquares:
        assert risk.smoothness.source == risk.strong_convexity.source == "exact"
        assert risk.smoothness.value == pytest.approx(eigenvalues[-1], rel=1e-6)
        assert risk.strong_convexity.value == pytest.approx(eigenvalues[0], rel=1e-5)
    else:
        assert risk.smoothness.source == risk.strong_convexity.source == "bound"
        assert risk.strong_convexity.value == ridge
    assert math.isinf(risk.smoothness.value) == (model in (Poisson, Gamma))


def test_bounds_are_reached_where_the_loss_bends_most():
    X, y, _, _ = data(Logistic)
    risk = Logistic(X, y)
    assert np.linalg.eigvalsh(hessian(risk, np.zeros(P)))[-1] == pytest.approx(risk.smoothness.value, rel=1e-6)
    two = Multinomial(X, y)
    assert np.linalg.eigvalsh(hessian(two, np.zeros(2 * P)))[-1] == pytest.approx(two.smoothness.value, rel=1e-6)


@pytest.mark.parametrize(("n", "intercept"), [(4, False), (6, True), (5, True)])
def test_more_features_than_the_rank_leave_the_ridge(n, intercept):
    rng = np.random.default_rng(0)
    risk = LeastSquares(rng.standard_normal((n, 6)), rng.standard_normal(n), ridge=0.7, fit_intercept=intercept)
    assert risk.strong_convexity == Constant(0.7, "exact")


def test_operators_and_large_matrices_are_estimated(monkeypatch):
    X, y, _, _ = data(LeastSquares)
    exact = LeastSquares(X, y)
    for design, limit in ((aslinearoperator(X), 2000), (X, 3)):
        monkeypatch.setattr(_spectrum, "LARGEST_GRAM", limit)
        risk = LeastSquares(design, y, ridge=0.2)
        assert risk.smoothness.source == "estimate"
        assert risk.smoothness.value == pytest.approx(exact.smoothness.value + 0.2, rel=1e-6)
        assert risk.strong_convexity == Constant(0.2, "bound")
        assert Logistic(design, y > 0).smoothness.source == "estimate"


def test_a_part_has_constants_of_its_own():
    X, y, _, _ = data(LeastSquares)
    risk = LeastSquares(X, y)
    assert risk.smoothness.value > 0  # read before, so a stale copy would show
    part = risk.restrict([1, 4])
    expected = np.linalg.eigvalsh(2 * X[:, [1, 4]].T @ X[:, [1, 4]] / N)
    assert part.smoothness.value == pytest.approx(expected[-1])
    assert part.strong_convexity.value == pytest.approx(expected[0])
    assert risk.n_features == P


# Restriction and labels


@every_model
def test_restriction_to_some_coordinates(model):
    X, y, weights, w = data(model)
    risk = model(X, y, 0.1, weights, fit_intercept=True)
    for support in ([1, 4], [], list(range(w.size)), [0, 2, w.size - 1]):
        part = risk.restrict(support)
        v = np.zeros(w.size)
        v[support] = w[support]
        assert part.n_features == part.zero.size == len(support)
        assert part.value(w[support]) == pytest.approx(risk.value(v), rel=1e-12)
        np.testing.assert_allclose(part.gradient(w[support]), risk.gradient(v)[support], atol=1e-12)
        rows = [0, 3, 3]
        np.testing.assert_allclose(part.gradient(w[support], rows), risk.gradient(v, rows)[support], atol=1e-12)
        again = part.restrict([0]) if support else part
        assert again.convex and again.lower_bound == 0


def test_multinomial_keeps_only_the_columns_in_use():
    X, y, _, _ = data(Multinomial)
    risk = Multinomial(X, y)
    assert risk.n_features == C * P
    assert risk.restrict([1, P + 1, 2 * P + 1]).design.shape == (N, 1)
    assert risk.restrict([1, P + 3]).risk.design.shape == (N, 2)


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [-1.0, 1.0], ["no", "yes"], [2, 7]])
def test_any_two_labels_will_do(labels):
    X, y, _, w = data(Logistic)
    risk = Logistic(X, np.array(labels)[(y == "up").astype(int)])
    assert list(risk.classes_) == labels
    assert risk.value(w) == Logistic(X, y).value(w)


def test_two_classes_are_logistic():
    X, y, _, w = data(Logistic)
    two = Multinomial(X, y, fit_intercept=True)
    assert two.value(np.r_[-w / 2, w / 2]) == pytest.approx(Logistic(X, y, fit_intercept=True).value(w))


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_a_ridge_counts_where_the_squares_of_entries_are_nothing(scale):
    """(ridge/2)||w||² with ridge 1e200 and w of 1e-200 was 0, and minimize ended in an error about its own objective."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1, 3)), rng.standard_normal(1)
    plain = ez.minimize(ez.risks.LeastSquares(X, y, ridge=0.1), 3)
    res = ez.minimize(ez.risks.LeastSquares(X * scale, y / scale, ridge=0.1 * scale**2), 3)
    np.testing.assert_allclose(res.fun * scale**2, plain.fun, rtol=1e-9)
    np.testing.assert_allclose(res.x * scale * scale, plain.x, rtol=1e-9)
