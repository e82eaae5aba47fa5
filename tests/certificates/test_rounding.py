"""What proofs know of rounding: R and its gradient against rational arithmetic, bounds on one support, edges."""

import itertools
import math
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import ellzero as ez
from ellzero.certificates import CertificateStatus
from ellzero.certificates.answer import without_copies
from ellzero.certificates.quadratic_form import lack_of_convexity
from ellzero.certificates.smooth_parts import FormPart
from ellzero.risks import LinearModel, accuracy
from ellzero.risks.accuracy import accurate_product

S = ez.sets
PORTFOLIOS = Path(__file__).parents[3] / "shared" / "data" / "portfolio_selection"


def fractions(a):
    return [F(float(v)) for v in np.asarray(a).ravel()]


def cancelling(seed, n=9, d=4):
    """Columns that nearly agree and coefficients that nearly cancel."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1] = X[:, 0] + 10 ** rng.uniform(-12, 0) * rng.standard_normal(n)
    w = np.zeros(d)
    w[:3] = rng.standard_normal(3) * 10 ** rng.uniform(0, 9)
    w[1] = -w[0] + rng.standard_normal()
    return rng, X, rng.standard_normal(n), w


@pytest.mark.parametrize("seed", range(40))
def test_products_in_twice_the_precision(seed):
    _, X, y, w = cancelling(seed)
    high, low, off = accurate_product(X, w, y)
    for i in range(len(X)):
        exact = sum(a * b for a, b in zip(fractions(X[i]), fractions(w), strict=True)) - F(float(y[i]))
        assert abs(F(float(high[i])) + F(float(low[i])) - exact) <= F(float(off[i]))
    assert (off <= 1e-24 * (np.abs(X) @ np.abs(w) + np.abs(y))).all()


@pytest.mark.parametrize("at_a_time", [1, 20, 2**15])
def test_products_do_not_depend_on_how_many_columns_are_taken_together(at_a_time, monkeypatch):
    _, X, y, w = cancelling(0)
    expected = accurate_product(sp.csc_array(X), w, y)
    monkeypatch.setattr(accuracy, "_AT_A_TIME", at_a_time)
    for order in "CF":
        for found, one in zip(accurate_product(np.asarray(X, order=order), w, y), expected, strict=True):
            np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("closely", [True, False])
def test_least_squares_is_measured_within_its_error(seed, closely):
    rng, X, y, w = cancelling(seed)
    weight = 10 ** rng.uniform(-8, 8, len(y)) if seed % 2 else np.ones(len(y))
    risk = ez.risks.LeastSquares(X, y, ridge=0.0 if seed % 3 else 0.1, sample_weight=weight if seed % 2 else None)
    here = risk.measured(w, np.arange(3), closely=closely)
    omega, u = fractions(weight), fractions(w)
    residual = [
        sum(a * b for a, b in zip(fractions(x), u, strict=True)) - t for x, t in zip(X, fractions(y), strict=True)
    ]
    value = sum(o * r * r for o, r in zip(omega, residual, strict=True)) / sum(omega)
    value += F(risk.ridge) / 2 * sum(b * b for b in u)
    assert abs(F(here.value) - value) <= F(here.error)
    gradient, doubt = here.slopes
    for j in range(3):
        column = fractions(X[:, j])
        exact = 2 * sum(o * r * x for o, r, x in zip(omega, residual, column, strict=True)) / sum(omega)
        assert abs(F(float(gradient[j])) - exact - F(risk.ridge) * u[j]) <= F(float(doubt[j]))
    if closely:
        assert here.error <= 1e-13 * abs(here.value) + 1e-25 * float(max(map(abs, u))) ** 2


@pytest.mark.parametrize("seed", range(40))
def test_a_quadratic_is_measured_within_its_error(seed):
    _, X, y, w = cancelling(seed)
    Q, b = X.T @ X, X.T @ y
    here = ez.risks.Quadratic(Q, b).measured(w, np.arange(3))
    Q, u, c = 0.5 * Q + 0.5 * Q.T, fractions(w[:3]), fractions(b[:3])
    value = sum(u[i] * F(float(Q[i, j])) * u[j] for i in range(3) for j in range(3)) / 2
    value -= sum(a * b for a, b in zip(u, c, strict=True))
    assert abs(F(here.value) - value) <= F(here.error)


@pytest.mark.parametrize("seed", range(12))
def test_what_the_answer_says_of_itself_is_true(seed):
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((2, 6))
    X = np.column_stack([x, x + 10 ** rng.uniform(-8, -4) * v])
    risk = ez.risks.LeastSquares(X, v + 1e-6 * rng.standard_normal(6))
    result = ez.minimize(risk, 2)
    u = fractions(result.x)
    exact = sum(
        (sum(a * b for a, b in zip(fractions(row), u, strict=True)) - t) ** 2
        for row, t in zip(X, fractions(risk.y), strict=True)
    ) / len(X)
    assert abs(float(F(result.fun) - exact)) <= 1e-12 * float(exact) + 1e-30
    ez.certify(risk, result)


def test_single_precision_is_judged_in_double():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5)).astype(np.float32)
    y = (X @ [1, 0, -1, 0, 2] + 0.1 * rng.standard_normal(30)).astype(np.float32)
    result = ez.minimize(ez.risks.LeastSquares(X, y), 3)
    assert result.fun == pytest.approx(np.mean((X.astype(float) @ result.x.astype(float) - y) ** 2), rel=1e-13)


class TestTheBestIntercept:
    """No best intercept is beyond what `_intercept_extent` says, whatever the predictions."""

    @pytest.mark.parametrize("seed", range(30))
    def test_extent(self, seed):
        rng = np.random.default_rng(seed)
        n, c = 12, 3
        X = rng.standard_normal((n, 2))
        y, weight = 10 ** rng.uniform(-3, 3) * rng.standard_normal(n), 10 ** rng.uniform(-3, 3, n)
        label = rng.permutation(np.arange(n) % c)
        options = {"fit_intercept": True, "sample_weight": weight}
        for risk in (
            ez.risks.LeastSquares(X, y, **options),
            ez.risks.Huber(X, y, **options),
            ez.risks.Logistic(X, label > 0, **options),
            ez.risks.Poisson(X, np.abs(y), **options),
            ez.risks.Gamma(X, np.abs(y) + 1e-9, **options),
            ez.risks.SquaredHinge(X, label > 0, **options),
            ez.risks.Quantile(X, y, quantile=0.8, **options),
            ez.risks.Multinomial(X, label, **options),
        ):
            z = 10 ** rng.uniform(-2, 2) * rng.standard_normal((n, c) if risk.n_outputs > 1 else n)
            constant, factor = risk._intercept_extent()
            assert np.abs(risk._best_intercept(z)).max() <= constant + factor * np.abs(z).max() * (1 + 1e-9)


class TestTheLeastBend:
    @pytest.mark.parametrize(
        "kind", ["LeastSquares", "Huber", "Quantile", "Logistic", "SquaredHinge", "Poisson", "Gamma"]
    )
    def test_second_derivatives_do_not_fall_below_it(self, kind):
        rng = np.random.default_rng(1)
        n = 200
        y = {
            "Logistic": np.arange(n) % 2,
            "SquaredHinge": np.arange(n) % 2,
            "Poisson": rng.poisson(3, n),
            "Gamma": rng.gamma(2.0, 1.0, n),
        }.get(kind, rng.standard_normal(n))
        options = {"smoothing": 5.0} if kind == "Quantile" else {}
        risk = getattr(ez.risks, kind)(rng.standard_normal((n, 2)), y, **options)
        z, away = 3 * rng.standard_normal(n), rng.exponential(1.0, n)
        least = risk._least_bend(z, away)
        for t in np.linspace(-1, 1, 9):
            bend = np.full(n, 2.0) if kind == "LeastSquares" else risk._bend(z + t * away, risk.y)
            assert (bend >= least * (1 - 1e-12)).all()


def test_quadratics_are_made_symmetric():
    Q = np.array([[1e12, 0, 0], [0, 1, 0.02], [0, 0, 1]])
    result = ez.minimize(ez.risks.Quadratic(Q, [0.0, 1.0, 1.0]), 2, method="exact")
    assert result.fun == pytest.approx(-1 / 1.01, rel=1e-9)
    assert result.certificate.status is CertificateStatus.OPTIMAL
    from scipy.sparse import csr_array

    assert ez.minimize(ez.risks.Quadratic(csr_array(Q), [0.0, 1.0, 1.0]), 2).fun == pytest.approx(-1 / 1.01, rel=1e-9)


def test_a_matrix_that_may_be_indefinite_has_no_floor():
    x = np.array([1.0, 1 / 3, 1 / 7])
    Q = np.outer(x, x)  # rounded, so perhaps not semidefinite
    risk = ez.risks.Quadratic(Q, np.zeros(3))
    assert risk.convex and risk.lower_bound == -math.inf
    t = lack_of_convexity(risk.quadratic_form(3), 3)
    assert 0 < t < 1e-10 and np.linalg.eigvalsh(Q + t * np.eye(3))[0] > 0
    certificate = ez.certify(risk, ez.minimize(risk, 2, S.Simplex(1.0)), time_limit=5)
    best = min(F(float(x[i])) ** 2 / 2 for i in range(3))
    assert best * (1 - F(1, 10**6)) <= F(certificate.lower_bound) * (1 + F(1, 10**6)) <= best * (1 + F(1, 10**6))


class TestAnOptimumOfZero:
    def test_at_the_origin(self):
        result = ez.minimize(ez.risks.Quadratic(np.eye(3), -np.ones(3)), 1, S.NonNegative(), method="exact")
        assert result.fun == 0 and result.certificate.words == "proven optimal"

    @pytest.mark.parametrize("seed", range(5))
    def test_of_a_perfect_fit(self, seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 6))
        result = ez.minimize(ez.risks.LeastSquares(X, X[:, 1] / 3 - X[:, 4] / 7), 2, method="exact")
        assert result.fun < 1e-25 and result.certificate.words == "proven optimal"

    def test_but_not_of_a_poor_one_beside_a_huge_origin(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([np.ones(40), rng.standard_normal((40, 3))])
        y = 1e7 + X[:, 1] + 0.1 * rng.standard_normal(40)
        risk = ez.risks.LeastSquares(X, y)
        poor = ez.minimize(ez.risks.LeastSquares(X[:, [0, 2, 3]], y), 2)
        from dataclasses import replace

        x = np.insert(poor.x, 1, 0.0)
        answer = ez.minimize(risk, 2)
        worse = replace(answer, x=x, fun=risk.measured(x, np.flatnonzero(x)).value, support=np.flatnonzero(x))
        assert worse.fun > 5 * answer.fun
        assert ez.certify(risk, worse).status is not CertificateStatus.OPTIMAL


class TestCopies:
    X = np.random.default_rng(0).standard_normal((60, 8))
    y = X[:, :3] @ [2.0, -1.0, 1.0] + np.random.default_rng(1).standard_normal(60)

    def test_what_is_left_out(self):
        X = np.column_stack([self.X, -self.X[:, 1], 2 * self.X[:, 2], np.zeros(60), 3.3 * np.ones(60)])
        everything, none = np.arange(12), np.empty(0, np.intp)
        risk = ez.risks.LeastSquares(X, self.y)
        stay, twins = without_copies(risk, S.Everywhere(), everything, none)
        assert stay.tolist() == [*range(8), 11] and twins.tolist() == [1, 2, 8, 9]
        assert without_copies(risk, S.Everywhere(), everything, np.array([9]))[0].tolist() == [
            0,
            1,
            3,
            4,
            5,
            6,
            7,
            9,
            11,
        ]
        assert without_copies(risk, S.NonNegative(), everything, none)[0].tolist() == [*range(9), 11]
        with_intercept = ez.risks.LeastSquares(X, self.y, fit_intercept=True)
        assert without_copies(with_intercept, S.Everywhere(), everything, none)[0].tolist() == list(range(8))
        assert without_copies(risk, S.L1Ball(1.0), everything, none)[0].size == 12
        assert (
            without_copies(ez.risks.LeastSquares(X, self.y, ridge=0.1), S.Everywhere(), everything, none)[0].size == 12
        )

    @pytest.mark.parametrize("k", [3, 11])
    def test_they_do_not_hide_the_curvature(self, k):
        X = np.column_stack([self.X, self.X[:, 0], -self.X[:, 1], np.zeros(60)])
        risk = ez.risks.LeastSquares(X, self.y)
        certificate = ez.certify(risk, ez.minimize(risk, k))
        assert certificate.status is CertificateStatus.OPTIMAL
        assert not {0, 1, 8, 9} & set(certificate.proved_in.tolist())  # a copy would do as well

    @pytest.mark.parametrize("kind", ["LeastSquares", "Logistic"])
    def test_opposite_columns_are_one_free_column(self, kind):
        X = np.column_stack([self.X, -self.X])
        y = self.y if kind == "LeastSquares" else (self.y + 3 * np.random.default_rng(2).standard_normal(60) > 0)
        risk, free = getattr(ez.risks, kind)(X, y), getattr(ez.risks, kind)(self.X, y)
        certificate = ez.certify(risk, ez.minimize(risk, 16, S.NonNegative()))
        assert certificate.lower_bound == pytest.approx(ez.minimize(free, 8).fun, rel=1e-6)


def test_screens_say_only_what_is_proved():
    risk = ez.risks.Smooth(lambda v: float(v @ v), lambda v: 2 * v, 3)
    certificate = ez.certify(risk, ez.minimize(risk, 1, x0=[1.0, 0, 0], method=ez.Method(step=0.1), max_iter=2))
    assert certificate.status is CertificateStatus.NO_BOUND and certificate.explained_gap == math.inf
    assert "explained" not in repr(certificate)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 10))
    risk = ez.risks.LeastSquares(X, X[:, 0] + rng.standard_normal(50))
    for k in (1, 3, 10):
        assert "better point" not in repr(ez.certify(risk, ez.minimize(risk, k), time_limit=5))


@pytest.mark.skipif(not PORTFOLIOS.exists(), reason="needs ../shared/data/portfolio_selection")
@pytest.mark.parametrize("number", [1, 2])
def test_a_minimum_variance_portfolio_has_a_bound_at_the_root(number):
    data = np.load(PORTFOLIOS / f"port{number}.npz")
    Q = data["sigma"][:, None] * data["correlation"] * data["sigma"]
    risk = ez.risks.Quadratic((Q + Q.T) / 2, np.zeros(len(Q)))
    for k, gap in ((5, 0.1), (10, 0.05), (len(Q), 1e-6)):
        assert ez.certify(risk, ez.minimize(risk, k, S.Simplex(1.0))).relative_gap <= gap


@pytest.mark.slow
def test_leaves_of_every_loss_are_bounded_by_enumeration():
    """Bounds on single supports against the same problem in other words: a fine grid in two unknowns."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((15, 2))
    label = rng.permutation(np.arange(15) % 2)
    grid = np.linspace(-0.6, 0.6, 61)
    for risk in (
        ez.risks.Logistic(X, label),
        ez.risks.Huber(X, 3 * rng.standard_normal(15), delta=0.3),
        ez.risks.Poisson(X, rng.poisson(1.0, 15), fit_intercept=True),
    ):
        for gamma in (S.LinfBall(0.5), S.L2Ball(0.4), S.Box(-0.1, 0.6)):
            certificate = ez.certify(risk, ez.minimize(risk, 2, gamma))
            values = [risk.value(w) for w in itertools.product(grid, grid) if gamma.contains(np.array(w))]
            assert certificate.lower_bound <= min(values) and certificate.status is CertificateStatus.OPTIMAL


class TestWhatARefereeFound:
    """Bounds that were above the minimum, each told in rational numbers."""

    def test_columns_that_are_opposite_only_after_centring(self):
        X, y = np.array([[1, 0], [0, 1], [1, 2.0**-60], [0, 1]]), np.array([1.0, 0, 3, 0])
        for gamma in (None, S.NonNegative()):
            risk = ez.risks.LeastSquares(X, y, fit_intercept=True)
            certificate = ez.certify(risk, ez.minimize(risk, 2, gamma))
            assert certificate.lower_bound <= 0  # at w = (2^61 + 1, 2^61), b = -2^61

    def test_gradients_whose_squares_underflow(self):
        risk = ez.risks.Quadratic([[0.0]], [1e-170])
        assert ez.certify(risk, ez.minimize(risk, 1, S.LinfBall(1e150))).lower_bound <= -1e-20

    def test_data_whose_squares_underflow(self):
        rng = np.random.default_rng(0)
        for scale in (1e-165, 1e-155, 1e-147):
            X = scale * rng.standard_normal((3, 3))
            risk = ez.risks.LeastSquares(X, rng.standard_normal(3))
            with np.errstate(all="ignore"):
                assert ez.certify(risk, ez.minimize(risk, 3)).lower_bound <= 0

    def test_a_matrix_that_is_indefinite_by_rounding(self):
        e = 2.0**-52
        risk = ez.risks.Quadratic([[1, 1 + e], [1 + e, 1]], [-1.0, 1.0])
        gamma = S.Box([0, -1e17], [1e17, 0])
        far = (F(1) - (1 + F(e))) * F(10) ** 34 + 2 * F(10) ** 17  # at (1e17, -1e17)
        assert F(ez.certify(risk, ez.minimize(risk, 2, gamma)).lower_bound) <= far

    def test_columns_of_a_wide_range_are_no_copies(self):
        risk = ez.risks.LeastSquares([[1e150, 1e150], [1e-180, 2e-180]], [0.0, 1.0])
        with np.errstate(all="ignore"):
            assert ez.certify(risk, ez.minimize(risk, 2)).lower_bound <= 0

    @pytest.mark.parametrize("total", [100000001.0, 12345678.9, 3e10 + 7])
    def test_sets_without_the_origin_are_rounded_by_their_own_size(self, total):
        b = np.full(3, total / 6)
        risk = ez.risks.Quadratic(np.eye(3), b)
        T, c = F(total), F(float(b[0]))
        best = T * T / 6 - c * T  # at w = T/3, by symmetry
        assert F(ez.certify(risk, ez.minimize(risk, 3, S.Simplex(total))).lower_bound) <= best

    def test_operators_are_not_trusted(self):
        from scipy.sparse.linalg import aslinearoperator

        rng = np.random.default_rng(7)
        X = rng.standard_normal((400, 2)).astype(np.float32)
        risk = ez.risks.LeastSquares(aslinearoperator(X), rng.standard_normal(400).astype(np.float32), ridge=1.0)
        assert ez.certify(risk, ez.minimize(risk, 2)).status is CertificateStatus.NO_BOUND

    def test_atoms_that_cancel_are_rounded_by_their_own_sizes(self):
        """Σλ_j a_j next to 0 from atoms of size 1: its image is off by the rounding of theirs."""
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((8, 4))
            part = FormPart(ez.risks.Quadratic(X.T @ X, np.zeros(4)).quadratic_form(4), 4, 0.0)
            a = rng.standard_normal(4)
            atoms, weights = np.array([a, -a * (1 + 1e-14)]), np.array([0.5, 0.5])
            v, image = weights @ atoms, weights @ np.array([part.image(atom) for atom in atoms])
            look = part.look(v, image, weights @ np.abs(atoms))
            w = [sum(F(0.5) * F(float(atom[i])) for atom in atoms) for i in range(4)]
            exact = [-sum(F(float(q)) * x for q, x in zip(row, w, strict=True)) for row in part.form.Q]
            off = math.sqrt(sum(float(F(float(z)) - e) ** 2 for z, e in zip(look.z, exact, strict=True)))
            assert off <= look.error

    def test_losses_of_ones_own_are_known_by_their_values_alone(self):
        class Steeper(ez.risks.LeastSquares):
            def _loss(self, z):
                return (z - self.y) ** 4

        risk = Steeper(np.eye(2), np.ones(2))
        assert risk.measured(np.zeros(2), np.arange(2)) is None

    @pytest.mark.parametrize("parent", [ez.risks.LeastSquares, ez.risks.Huber, ez.risks.Poisson, LinearModel])
    def test_nothing_is_believed_of_a_loss_of_ones_own(self, parent):
        """It may be negative, and its best intercepts may be anywhere."""

        class Tilted(parent):
            def _loss(self, z):
                return (z - self.y) ** 4 - 5

            def _slope(self, z, y):
                return 4 * (z - y) ** 3

        class Restated(Tilted):
            lower_bound = -5.0

            def _bend(self, z, y):
                return 12 * (z - y) ** 2

            def _intercept_bracket(self, z):
                return (self.y - z).min(), (self.y - z).max(), (self.y - z).mean()

        X = np.random.default_rng(0).standard_normal((20, 3))
        plain = (0.0, None, False) if parent is LinearModel else ()
        risk = Tilted(X, X[:, 0] - X[:, 0].min(), *plain)
        assert risk.lower_bound == -math.inf and risk.value(np.zeros(3)) == pytest.approx(np.mean(risk.y**4) - 5)
        assert risk.smoothness.value == math.inf and risk.strong_convexity.value == 0.0
        result = ez.minimize(risk, 2)
        assert result.fun < risk.value(np.zeros(3)) and ez.certify(risk, result).lower_bound <= result.fun
        restated = Restated(X, X[:, 0] - X[:, 0].min(), 0.1, None, True)
        assert restated.lower_bound == -5.0
        result = ez.minimize(restated, 2)
        assert np.abs(restated.gradient(result.x)[result.support]).max() <= 1e-6
        assert ez.certify(restated, result, time_limit=5.0).lower_bound <= result.fun

    @pytest.mark.parametrize("kind", ["LeastSquares", "Huber", "Poisson"])
    def test_nothing_at_all_is_certified_too(self, kind):
        X = np.random.default_rng(0).standard_normal((10, 3))
        risk = getattr(ez.risks, kind)(X, np.arange(10.0), ridge=0.1)
        assert ez.certify(risk, ez.minimize(risk, 0)).lower_bound <= risk.value(np.zeros(3))

    def test_columns_that_do_nothing(self):
        risk = ez.risks.LeastSquares(np.zeros((5, 3)), np.arange(5.0))
        assert ez.certify(risk, ez.minimize(risk, 2)).lower_bound <= 6.0
        assert ez.certify(risk, ez.minimize(risk, 2, S.LinfBall(1e200))).lower_bound <= 6.0

    def test_small_losses_of_several_classes_to_all_digits(self):
        z = np.array([[40.0, 0.0, 1.0], [0.0, 3.0, -1.0], [5.0, 5.0, 5.0]])
        risk = ez.risks.Multinomial(np.eye(3), [0, 1, 2])
        import mpmath

        for row, loss, y in zip(z, risk._accurate_loss(z), (0, 1, 2), strict=True):
            with mpmath.workdps(50):
                exact = mpmath.log(sum(mpmath.exp(mpmath.mpf(v) - row[y]) for v in row))
            assert loss == pytest.approx(float(exact), rel=1e-14)
