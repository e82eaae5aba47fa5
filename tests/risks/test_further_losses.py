"""Gamma, squared hinge and quantile losses: against scikit-learn's solvers, enumeration and many digits."""

import math
from itertools import combinations

import numpy as np
import pytest
from benchmarks.fuzz.regions import MP
from scipy import stats
from sklearn.linear_model import GammaRegressor, QuantileRegressor
from sklearn.svm import LinearSVC

import ellzero as ez
from ellzero.risks import Gamma, Quantile, SquaredHinge


def table(seed=0, n=80, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 1] - X[:, 4] + 0.5 + 0.7 * rng.standard_normal(n), rng.random(n) + 0.1


# Beside other solvers, all features allowed


@pytest.mark.parametrize("weighted", [False, True])
def test_gamma_as_scikit_learn_has_it(weighted):
    X, z, weights = table()
    y = np.random.default_rng(1).gamma(2.0, np.exp(0.5 * z))
    weights = weights if weighted else None
    other = GammaRegressor(alpha=0.3, tol=1e-10, max_iter=10**4).fit(X, y, sample_weight=weights)
    risk = Gamma(X, y, 0.3, weights, fit_intercept=True)
    res = ez.minimize(risk, X.shape[1])
    np.testing.assert_allclose(res.x, other.coef_, atol=1e-6)
    assert risk.intercept(res.x) == pytest.approx(other.intercept_, abs=1e-6)


def test_squared_hinge_as_scikit_learn_has_it():
    X, z, _ = table()
    y = np.where(z > 0, "b", "a")
    other = LinearSVC(C=1.0, loss="squared_hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, dual=False).fit(X, y)
    res = ez.minimize(SquaredHinge(X, y, ridge=1 / len(y)), X.shape[1])  # theirs is n/2 times ours
    np.testing.assert_allclose(res.x, other.coef_[0], atol=1e-6)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_quantile_within_its_smoothing_error_of_scikit_learn(quantile, weighted):
    X, y, weights = table()
    weights = weights if weighted else None
    other = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs").fit(X, y, sample_weight=weights)
    risk = Quantile(X, y, 0.0, weights, True, quantile=quantile)
    res = ez.minimize(risk, X.shape[1])

    def pinball(prediction):
        r = y - prediction
        return np.average(np.maximum(quantile * r, (quantile - 1) * r), weights=weights)

    best = pinball(other.predict(X))
    assert best - risk.smoothing_error <= res.fun <= best + 1e-12
    ours = pinball(risk.predict(res.x))
    assert res.fun <= ours <= res.fun + risk.smoothing_error
    assert best - 1e-9 <= ours <= best + risk.smoothing_error
    assert risk.smoothing_error <= 0.01 * np.std(y)
    assert ez.certify(risk, res).lower_bound <= best


def test_the_default_smoothing_is_a_hundredth_of_a_robust_deviation():
    X, y, _ = table()
    assert Quantile(X, y).smoothing == pytest.approx(0.01 * stats.median_abs_deviation(y, scale="normal"), rel=1e-5)
    assert Quantile(X, 0 * y).smoothing == 0.01  # all the same: nothing to estimate
    assert Quantile(X, y, offset=y - 3.0).smoothing == pytest.approx(3e-8)  # all the same but for rounding
    weights = np.arange(len(y)) % 3
    repeated = np.repeat(y, weights)
    assert Quantile(X, y, sample_weight=weights).smoothing == pytest.approx(
        0.01 * stats.median_abs_deviation(repeated, scale="normal"), rel=1e-5
    )
    risk = Quantile(X, y, quantile=0.8, smoothing=0.25)
    assert (risk.quantile, risk.smoothing, risk.smoothing_error) == (0.8, 0.25, pytest.approx(0.08))


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.8])
def test_the_pinball_loss_is_met_where_it_is_straight_and_missed_by_the_stated_error(quantile):
    r = np.linspace(-3, 3, 1001)
    risk = Quantile(np.zeros((r.size, 1)), r, quantile=quantile, smoothing=0.5)
    gap = np.maximum(quantile * r, (quantile - 1) * r) - risk.losses([0.0])
    assert gap.min() >= 0 and gap.max() == pytest.approx(risk.smoothing_error)
    assert risk.losses([0.0])[500] == 0


@pytest.mark.parametrize("level", [0.1, 0.5, 0.77])
def test_an_intercept_alone_is_the_quantile(level):
    y = np.random.default_rng(0).standard_normal(1000)
    risk = Quantile(np.zeros((1000, 1)), y, quantile=level, fit_intercept=True)
    assert risk.intercept([0.0]) == pytest.approx(np.quantile(y, level), abs=2 * risk.smoothing)
    assert np.mean(y > risk.intercept([0.0])) == pytest.approx(1 - level, abs=0.01)


# Many digits


def digits(kind, risk, z, y):
    z, y = MP.mpf(float(z)), MP.mpf(float(y))
    if kind == "Gamma":
        ratio = y * MP.exp(-z)
        return ratio - 1 - MP.log(ratio), 1 - ratio
    if kind == "SquaredHinge":
        short = max(MP.mpf(0), 1 - y * z)
        return short**2, -2 * y * short
    r, s, t = y - z, MP.mpf(risk.smoothing), MP.mpf(risk.quantile)
    if (t - 1) * s <= r <= t * s:
        return r * r / (2 * s), -r / s
    return (t * r - t * t * s / 2, -t) if r > 0 else ((t - 1) * r - (1 - t) ** 2 * s / 2, 1 - t)


@pytest.mark.parametrize("kind", ["Gamma", "SquaredHinge", "Quantile"])
@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 200.0])
def test_values_slopes_and_their_errors_against_many_digits(kind, size):
    rng = np.random.default_rng(0)
    z = size * rng.standard_normal(200)
    y = {
        "Gamma": np.exp(np.clip(z, -300, 300) + rng.choice([1e-6, 1.0], 200) * rng.standard_normal(200)),
        "SquaredHinge": rng.choice([-1.0, 1.0], 200),
        "Quantile": z + rng.choice([1e-9, 1e-2, 1.0], 200) * rng.standard_normal(200),
    }[kind]
    y[:2] = np.abs(y[:2]) * ([1, 1] if kind == "Gamma" else [1, -1])
    options = {"quantile": 0.3, "smoothing": 0.01} if kind == "Quantile" else {}
    risk = getattr(ez.risks, kind)(np.eye(200), y, **options)
    here = risk.measured(z, np.arange(200))
    exact = [digits(kind, risk, *pair) for pair in zip(z, y, strict=True)]
    value = sum(v for v, _ in exact) / 200
    assert abs(MP.mpf(here.value) - value) <= here.error
    assert here.error <= 1e-13 * (100 * here.value + 1e-9 + np.abs(z).mean())
    assert risk.value(z) == pytest.approx(float(value), rel=1e-9, abs=1e-18 + 1e-13 * size)
    gradient, doubt = here.slopes
    for found, off, (_, slope) in zip(gradient, doubt, exact, strict=True):
        assert abs(MP.mpf(float(found)) - slope / 200) <= off


def test_gamma_far_away():
    risk = Gamma([[1.0], [-1.0]], [1e-300, 1e300])
    assert risk.value([-2e3]) == math.inf
    risk.gradient([-2e3]), risk.gradient([-2e3], rows=[0, 1])
    assert risk.value([-1e3]) == pytest.approx(math.exp(500 - 150 * math.log(10)) ** 2 / 2, rel=1e-9)
    assert Gamma([[1.0]], [1e-300]).value([-710.0]) == pytest.approx(
        math.expm1(710 - 300 * math.log(10)) - 710 + 300 * math.log(10), rel=1e-9
    )
    assert Gamma([[1.0]], [5.0]).value([1e5]) == pytest.approx(1e5 - 1 - math.log(5))
    y = np.array([1e-5, 3.0, 1e6])
    assert Gamma(np.eye(3), y).value(np.log(y)) == pytest.approx(0, abs=1e-25)
    zero = Gamma([[1.0], [2.0], [-1e4]], [1, 2, 3], sample_weight=[1, 1, 0], fit_intercept=True)
    assert zero.intercept([1.0]) == pytest.approx(Gamma([[1.0], [2.0]], [1, 2], fit_intercept=True).intercept([1.0]))


def test_rows_beyond_the_margin_do_not_count():
    risk = SquaredHinge([[1.0], [-1.0]], [1, 0], fit_intercept=True)
    assert risk.value([1.0]) == risk.value([1e300]) == 0
    np.testing.assert_array_equal(risk.gradient([5.0]), [0.0])
    assert SquaredHinge([[1.0], [-1.0]], [1, 0], sample_weight=[1, 0], fit_intercept=True).value([0.0]) == 0


# Proofs, against enumeration

MAKERS = {
    "gamma": lambda X, z, **o: Gamma(X, np.exp(0.5 * z), **o),
    "hinge": lambda X, z, **o: SquaredHinge(X, z > 0, **o),
    "median": lambda X, z, **o: Quantile(X, z, **o),
    "upper": lambda X, z, **o: Quantile(X, z, quantile=0.9, smoothing=0.3, **o),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.slow
def test_the_best_support_is_found_and_proved(kind, intercept):
    X, z, weights = table(n=25, d=6)
    for ridge, gamma in ((0.0, None), (0.1, ez.sets.NonNegative()), (0.01, ez.sets.L1Ball(0.7))):
        risk = MAKERS[kind](X, z, ridge=ridge, sample_weight=weights, fit_intercept=intercept)
        res = ez.minimize(risk, 2, gamma)
        best = min(ez.minimize(risk.restrict(S), 2, gamma).fun for S in combinations(range(6), 2))
        assert res.fun == pytest.approx(best, rel=1e-8, abs=1e-12)
        cert = ez.certify(risk, res, time_limit=20 if ridge else 1, target_gap=1e-4)
        assert cert.lower_bound <= best * (1 + 1e-12)
        if not ridge:  # without any, losses are flat or nearly so
            continue
        assert cert.relative_gap <= 1e-4
        exact = ez.minimize(risk, 2, gamma, method="exact", time_limit=20)
        assert exact.fun <= best * (1 + 1e-8) + 1e-12


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["IHT-2SP", "StoIHT", "SVRG-HT", "zeroth-order"])
def test_the_methods_of_the_paper_take_them(kind, name):
    X, z, _ = table()
    risk = MAKERS[kind](X, z, ridge=0.1)
    step = {"step": 0.05} if kind == "gamma" else {}  # no 1/L
    if name == "zeroth-order":
        method = ez.Method(oracle=ez.ZerothOrder(n_directions=20), step=0.005)
    else:
        method = ez.preset(name, **step)
    gamma = ez.sets.L2Ball(5.0) if "2SP" in name else None
    res = ez.minimize(risk, 2, gamma, method, rng=0, max_iter=200)
    assert res.fun < risk.value(np.zeros(6))
    if name == "IHT-2SP":
        assert res.support.tolist() == [1, 4]


@pytest.mark.parametrize("intercept", [False, True])
def test_newton_needs_few_steps_for_a_sharp_kink(intercept, monkeypatch):
    """With the majoriser alone there would be hundreds."""
    X, y, _ = table(n=300, d=8)
    for level in (0.5, 0.95):
        risk = Quantile(X, y, fit_intercept=intercept, quantile=level)
        steps, curvature = [], Quantile.curvature
        with monkeypatch.context() as patch:
            patch.setattr(Quantile, "curvature", lambda r, p, c=curvature, s=steps: s.append(p.value) or c(r, p))
            res = ez.minimize(risk, 8)
        assert len(steps) <= 120
        assert np.linalg.norm(risk.gradient(res.x)) <= 1e-6


# Paths


def test_information_criteria_know_no_shape():
    """-2 log-likelihood at the best shape, by scipy."""
    X, z, _ = table(n=60)
    y = np.random.default_rng(1).gamma(4.0, np.exp(0.5 * z))
    risk = Gamma(X, y, fit_intercept=True)
    w = ez.minimize(risk, 2).x
    mean = np.exp(risk.predict(w))
    shapes = np.exp(np.linspace(0, 3, 3001))
    likelihood = [stats.gamma.logpdf(y, a, scale=mean / a).sum() for a in shapes]
    assert risk.deviance(w) == pytest.approx(-2 * max(likelihood) - 2 * np.log(y).sum(), abs=1e-3)
    assert ez.minimize_path(risk, 5).select("bic").support.tolist() == [1, 4]
    assert Gamma(X[:3], y[:3]).deviance(np.ones(6)) == math.inf


@pytest.mark.parametrize("loss", [1e-30, 1e-12, 0.99e-5, 1.01e-5, 1e-3, 1.0, 50.0, 1e6])
def test_the_likeliest_shape(loss):
    from ellzero.risks.exponential import _shape_likelihood

    low, high = 0.5 / MP.mpf(loss), 1 / MP.mpf(loss)
    for _ in range(200):  # where the derivative changes its sign
        a = (low + high) / 2
        low, high = (a, high) if MP.log(a) - MP.digamma(a) > loss else (low, a)
    expected = MP.loggamma(a) + a - a * MP.log(a) + a * MP.mpf(loss)
    assert _shape_likelihood(loss) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_only_the_likelihoods_have_criteria():
    X, z, _ = table()
    for risk in (SquaredHinge(X, z > 0), Quantile(X, z)):
        with pytest.raises(ValueError, match="needs a likelihood"):
            ez.minimize_path(risk, 3).select("bic")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gamma(np.eye(2), [1.0, 0.0]), "y must be positive for Gamma, got 0.0 at index 1"),
        (lambda: Gamma(np.eye(2), [-1.0, 2.0]), "y must be positive for Gamma, got -1.0 at index 0"),
        (lambda: Gamma(np.eye(2, dtype="f4"), [1e-60, 2.0]), "got 1e-60 at index 0, which is 0 in the precision of X"),
        (lambda: SquaredHinge(np.eye(3), [0, 1, 2]), "y must hold two labels for SquaredHinge, got 3"),
        (lambda: Quantile(np.eye(2), [0, 1], quantile=1.0), r"quantile must lie in \(0, 1\), got quantile=1.0"),
        (lambda: Quantile(np.eye(2), [0, 1], smoothing=0), "smoothing must lie in .* got smoothing=0"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_loss_that_inherits_from_them_is_believed_nothing():
    class Odd(Quantile):
        def _loss(self, z):
            return super()._loss(z)

    X, y, _ = table()
    assert math.isinf(Odd(X, y).smoothness.value) and Odd(X, y).lower_bound == -math.inf
    assert not math.isinf(Quantile(X, y).smoothness.value)
