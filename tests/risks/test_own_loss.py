"""A loss of one's own is one class: it works in everything that the library's own losses work in."""

import numpy as np
import pytest
from scipy import optimize

import ellzero as ez
from ellzero.risks import LinearModel


class LogCosh(LinearModel):
    """log cosh(x'w + b - y): a loss between least squares and least absolute deviations."""

    _curvature, lower_bound, _of_residual = 1.0, 0.0, True

    def _loss(self, z):
        return self._xp.abs(z - self.y) + self._xp.log1p(self._xp.exp(-2 * self._xp.abs(z - self.y))) - np.log(2)

    def _slope(self, z, y):
        return self._xp.tanh(z - y)

    def _bend(self, z, y):
        return 1 - self._xp.tanh(z - y) ** 2


class Barest(LogCosh):
    """The same with nothing but values and slopes, and where they are least."""

    lower_bound, _of_residual = 0.0, True

    def _loss(self, z):
        return super()._loss(z)


def make(kind=LogCosh, rows=slice(0, 60), **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8))
    y = X[:, [1, 4]] @ [2.0, -1.0] + 0.7 + 0.3 * rng.standard_t(2, 90)
    return kind(X[rows], y[rows], **options)


def best(risk, support):
    """min R on a support, by scipy's BFGS on (w, b)."""
    X, y = risk.design.dense()[:, support], risk.y

    def value(u):
        return np.mean(np.log(np.cosh(X @ u[:-1] + u[-1] * risk.fit_intercept - y))) + risk.ridge / 2 * u[:-1] @ u[:-1]

    return optimize.minimize(value, np.zeros(len(support) + 1), tol=1e-10).fun


@pytest.mark.parametrize("kind", [LogCosh, Barest])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_it_is_minimised_and_proved(kind, fit_intercept):
    risk = make(kind, ridge=0.1, fit_intercept=fit_intercept)
    ez.testing.check_risk(risk)
    res = ez.minimize(risk, k=2)
    assert res.success and res.support.tolist() == [1, 4]
    assert res.fun == pytest.approx(best(risk, [1, 4]), abs=1e-7)
    cert = ez.certify(risk, res, time_limit=20)
    assert cert.lower_bound <= res.fun and cert.relative_gap < 0.05
    exact = ez.minimize(risk, k=2, constraint=ez.sets.L2Ball(3.0), method="exact", time_limit=20)
    assert exact.support.tolist() == [1, 4]


def test_paths_and_held_out_data():
    train, test = make(fit_intercept=True), make(rows=slice(60, 90), fit_intercept=True)
    path = ez.minimize_path(train, 4, validation=test)
    assert path.select("validation").k >= 2 and path.validation_se.min() > 0
    w = path[2].x
    losses = np.log(np.cosh(test.design.dense() @ w + train.intercept(w) - test.y))
    np.testing.assert_allclose(test.losses(w, intercept=train.intercept(w)), losses, rtol=1e-9)
    np.testing.assert_allclose(path.validation[1], losses.mean())
    np.testing.assert_allclose(train.predict(w, test.design.dense()), test.design.dense() @ w + train.intercept(w))
    with pytest.raises(ValueError, match="needs a likelihood, and LogCosh has none"):
        path.select("bic")
    with pytest.raises(ValueError, match="X must have 8 columns"):
        train.predict(w, np.ones((2, 3)))


def test_constants_and_methods_of_theorems():
    risk = make(ridge=0.5, fit_intercept=True)
    X = risk.design.dense() - risk.design.dense().mean(axis=0)
    H = X.T @ X / len(X) + 0.5 * np.eye(8)
    constants = ez.theory.restricted_constants(risk, 2)
    largest = max(np.linalg.eigvalsh(H[np.ix_(S, S)])[-1] for S in np.ndindex(8, 8) if S[0] < S[1])
    assert constants.smoothness.value == pytest.approx(largest) and constants.strong_convexity.value == 0.5
    gram = risk.gram()
    np.testing.assert_allclose(gram.matrix, H - 0.5 * np.eye(8), atol=1e-12)
    for method in ("IHT", ez.preset("HSG-HT-2SP", rho=0.5)):
        res = ez.minimize(risk, 2, method=method, max_iter=40, rng=0)
        assert res.fun < risk.value(risk.zero) and 4 in res.support


def test_another_loss_does_not_inherit_what_was_known_of_the_first():
    class Quartic(ez.risks.LeastSquares):
        def _loss(self, z):
            return (z - self.y) ** 4

        def _slope(self, z, y):
            return 4 * (z - y) ** 3

    risk = make(Quartic)
    assert risk.value(risk.zero) == pytest.approx(np.mean(risk.y**4))
    assert (
        risk.quadratic_form(2) is None and risk.hessian_bound() is None and risk.curvature(risk.at(risk.zero)) is None
    )
    assert risk.smoothness.value == np.inf and risk.lower_bound == -np.inf
    assert risk.gradient_bounds(1.0) is None and risk.deviance(risk.zero) is None
    assert risk.measured(np.zeros(8), np.arange(2)) is None


def test_a_subclass_with_the_same_loss_keeps_what_is_known():
    class Named(ez.risks.LeastSquares):
        """Nothing else."""

    risk = make(Named)
    assert risk.quadratic_form(2) is not None and risk.measured(np.zeros(8), np.arange(2)) is not None


def test_a_loss_from_a_mixin_is_another_loss_too():
    class Power:
        def _loss(self, z):
            return np.abs(z - self.y) ** 1.5

        def _slope(self, z, y):
            return 1.5 * np.sign(z - y) * np.abs(z - y) ** 0.5

    class Mixed(Power, ez.risks.LeastSquares):
        pass

    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 8))
    risk = Mixed(X, X[:, 0] + rng.standard_normal(30))
    assert risk.smoothness.value == np.inf and risk.lower_bound == -np.inf
    result = ez.minimize(risk, 2)
    assert result.fun == pytest.approx(np.mean(np.abs(X @ result.x - risk.y) ** 1.5))


def test_nothing_is_believed_of_a_quadratic_that_is_none():
    class Shifted(ez.risks.Quadratic):
        def _value(self, w, state):
            return super()._value(w, state) + 7

    risk = Shifted(np.eye(3), np.ones(3))
    result = ez.minimize(risk, 2)
    assert result.fun == pytest.approx(6.0) == pytest.approx(risk.value(result.x))
    assert ez.certify(risk, result).lower_bound <= 6.0
