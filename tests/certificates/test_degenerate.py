"""Columns that repeat each other, limits, and accuracy where columns nearly depend on each other."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets as S
from ellzero.risks.linear_curvature import LinearCurvature
from ellzero.sets.positions import Positions
from ellzero.solver.exchanges import SwapSearch, refit
from ellzero.solver.problem import make_problem
from ellzero.solver.single_moves import SingleMoves


def planted(seed, places="first"):
    """Gaussian 100 x 20, six coefficients in (0.5, 2), unit noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((100, 20)), np.zeros(20)
    at = np.arange(6) if places == "first" else rng.choice(20, 6, replace=False)
    w[at] = rng.uniform(0.5, 2, 6)
    return X, X @ w + rng.standard_normal(100), at, rng


ADDED = {
    "1 copy": lambda X, at, rng: X[:, at[:1]],
    "3 copies": lambda X, at, rng: X[:, at[:3]],
    "negated": lambda X, at, rng: -X[:, at[:3]],
    "affine": lambda X, at, rng: X[:, at[:3]] * rng.uniform(0.5, 2, 3) + rng.uniform(-3, 3, 3),
    "sums": lambda X, at, rng: X[:, at[:3]] + X[:, at[3:]],
    "everything twice": lambda X, at, rng: X,
}
LOSSES = {
    "least squares": lambda X, y, intercept: ez.risks.LeastSquares(X, y, fit_intercept=intercept),
    "logistic": lambda X, y, intercept: ez.risks.Logistic(X, y > 0, fit_intercept=intercept),
    "huber": lambda X, y, intercept: ez.risks.Huber(X, y, fit_intercept=intercept),
    "quantile": lambda X, y, intercept: ez.risks.Quantile(X, y, fit_intercept=intercept, smoothing=0.5),
    "hinge": lambda X, y, intercept: ez.risks.SquaredHinge(X, y > 0, fit_intercept=intercept),
    "gamma": lambda X, y, intercept: ez.risks.Gamma(X / 4, np.exp(np.clip(y / 3, -5, 3)), fit_intercept=intercept),
    "poisson": lambda X, y, intercept: ez.risks.Poisson(X / 4, np.round(np.exp(np.clip(y / 3, -5, 3))), fit_intercept=intercept),
}  # fmt: skip


class TestRedundantColumns:
    @pytest.mark.parametrize("gamma", [S.Everywhere(), S.NonNegative()], ids=["free", "w >= 0"])
    @pytest.mark.parametrize("added", ADDED)
    @pytest.mark.parametrize(
        ("loss", "seeds"),
        [
            ("least squares", 12),
            ("logistic", 4),
            ("huber", 2),
            ("poisson", 2),
            ("quantile", 1),
            ("hinge", 1),
            ("gamma", 1),
        ],
    )
    def test_they_do_not_make_the_answer_worse(self, loss, seeds, added, gamma):
        for seed in range(seeds):
            X, y, at, rng = planted(seed, "first" if seed % 2 else "random")
            make = LOSSES[loss]
            before = ez.minimize(make(X, y, added == "affine"), 6, gamma)
            after = ez.minimize(make(np.hstack([X, ADDED[added](X, at, rng)]), y, added == "affine"), 6, gamma)
            # data that a logistic model separates have no minimum, only ever smaller values
            assert after.fun <= max(before.fun * (1 + 1e-4), 1e-9), (seed, before.fun, after.fun)

    def test_the_first_report(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((100, 5))
        y = X @ [3.0, 2.0, 1.0, 0.0, 0.0] + 0.1 * rng.standard_normal(100)
        result = ez.minimize(ez.risks.LeastSquares(np.column_stack([X, X[:, 0]]), y), 3)
        assert result.fun < 0.012
        assert {1, 2} <= set(result.support)

    def test_multinomial(self):
        for seed in range(3):
            X, y, at, _ = planted(seed)
            labels = np.digitize(y, [-1.5, 1.5])
            before = ez.minimize(ez.risks.Multinomial(X[:, :8], labels, ridge=1e-6), 6)
            after = ez.minimize(ez.risks.Multinomial(np.hstack([X[:, :8], X[:, at[:2]]]), labels, ridge=1e-6), 6)
            assert after.fun <= before.fun * (1 + 1e-4)

    def test_a_column_of_zeros_and_a_constant_one(self):
        X, y, *_ = planted(3)
        plain = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=True), 6)
        for scale in (1.0, 1e4, 1e-4):
            more = np.column_stack([np.zeros(100), X, np.full(100, scale)])
            result = ez.minimize(ez.risks.LeastSquares(more, y, fit_intercept=True), 6)
            assert result.fun <= plain.fun * (1 + 1e-9)


class TestVulnerablePlaces:
    """Not all columns of G are affordable: which places are looked at."""

    def test_the_counterexample_to_the_old_rule(self, monkeypatch):
        """One kept column, G = 1, t = 1/2, c = 1, ω = 3: the exchange gains 0.743."""
        assert SingleMoves._vulnerable(np.array([9.0]), 1.0).tolist() == [0]
        half = math.sqrt(0.5)
        X = math.sqrt(3) * np.array([[1.0, half], [0.0, half], [0.0, 0.0]])  # G_jj = 1, G_01 = sqrt(1/2)
        y = X[:, 0] * 3 + math.sqrt(3) * np.array([0.0, math.sqrt(2), 0.0])  # slope 1 of the second column
        risk = ez.risks.LeastSquares(X, y)
        point = refit(risk, S.Everywhere(), np.array([0]))
        np.testing.assert_allclose([point.w[0], -0.5 * point.gradient[1]], [3, 1])
        monkeypatch.setattr(LinearCurvature, "affords", lambda self, n: False)
        end = SwapSearch(make_problem(risk, 1, S.Everywhere(), None)).improve(point)
        assert point.value - end.value == pytest.approx((1 + 3 * half) ** 2 - 9)

    def test_what_is_left_out_cannot_pay(self):
        """Up to the half that is taken for granted: by the formula itself, for all β² <= t."""
        rng = np.random.default_rng(0)
        for _ in range(2000):
            loss, reach = 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(-2, 1)
            if SingleMoves._vulnerable(np.array([loss]), reach).size:
                continue
            t = rng.uniform(0, 0.5)
            beta, c = rng.uniform(-1, 1) * math.sqrt(t), rng.uniform(-1, 1) * math.sqrt(reach)
            assert (c + beta * math.sqrt(loss)) ** 2 / (1 - t + beta**2) <= loss * (1 + 1e-12)


class TestAccuracy:
    @staticmethod
    def excess(X, y, w):
        """How far the exact R(w) lies above its exact minimum, relative, in rational arithmetic."""
        A, b = [[Fraction(float(v)) for v in row] for row in X], [Fraction(float(v)) for v in y]
        k = len(A[0])
        G = [[sum(row[i] * row[j] for row in A) for j in range(k)] for i in range(k)]
        # R(w) - min R = ½ gᵀG⁻¹g, g the gradient: solved by elimination
        r = [sum(a * Fraction(float(v)) for a, v in zip(row, w, strict=True)) - t for row, t in zip(A, b, strict=True)]
        g = [sum(row[i] * v for row, v in zip(A, r, strict=True)) for i in range(k)]
        M = [[*row, v] for row, v in zip(G, g, strict=True)]
        for i in range(k):
            for j in range(i + 1, k):
                factor = M[j][i] / M[i][i]
                M[j] = [p - factor * q for p, q in zip(M[j], M[i], strict=True)]
        x = [Fraction(0)] * k
        for i in reversed(range(k)):
            x[i] = (M[i][k] - sum(M[i][j] * x[j] for j in range(i + 1, k))) / M[i][i]
        gain = sum(p * q for p, q in zip(g, x, strict=True))
        return float(gain / (sum(v * v for v in r) - gain))

    @pytest.mark.parametrize("log_condition", [3, 5, 6, 7, 8, 10])
    def test_least_squares_on_columns_that_nearly_depend_on_each_other(self, log_condition):
        for seed in range(6):
            rng = np.random.default_rng(seed)
            U, V = np.linalg.qr(rng.standard_normal((20, 4)))[0], np.linalg.qr(rng.standard_normal((4, 4)))[0]
            X = U @ np.diag(np.geomspace(1.0, 10.0**-log_condition, 4)) @ V.T * 10.0 ** rng.uniform(-3, 3, 4)
            y = rng.standard_normal(20) + 5 * U @ rng.standard_normal(4)
            point = refit(ez.risks.LeastSquares(X, y), S.Everywhere(), np.arange(4))
            assert self.excess(X, y, point.w) <= 1e-10

    def test_quadratics(self):
        for seed in range(10):
            rng = np.random.default_rng(seed)
            x, v = rng.standard_normal((2, 6))
            X = np.column_stack([x, x + 3e-7 * v])
            Q, b = X.T @ X, X.T @ v
            if np.linalg.eigvalsh(Q)[0] <= 1e-15:
                continue
            w = refit(ez.risks.Quadratic(Q, b), S.Everywhere(), np.arange(2)).w
            (p, q), (_, s) = [[Fraction(float(t)) for t in row] for row in Q]
            d, e = (Fraction(float(t)) for t in b)
            det = p * s - q * q
            best = -(d * d * s - 2 * d * e * q + e * e * p) / det / 2
            m, n = (Fraction(float(t)) for t in w)
            value = (p * m * m + 2 * q * m * n + s * n * n) / 2 - d * m - e * n
            assert float((value - best) / abs(best)) <= 1e-8


class TestLimits:
    def test_a_multinomial_refit_over_a_ball_is_quick(self):
        """16 x 3, two columns nearly equal: fourteen seconds of projected gradients, once."""
        rng = np.random.default_rng(1)
        X = rng.standard_normal((16, 2))
        X = np.column_stack([X, X[:, 1] + 1e-8 * rng.standard_normal(16)])
        risk = ez.risks.Multinomial(X, rng.integers(0, 3, 16), fit_intercept=True)
        began = time.perf_counter()
        result = ez.minimize(risk, 3, S.L1Ball(0.37), time_limit=1.0)
        assert time.perf_counter() - began < 4.0
        assert result.fun <= 1.02492

    @pytest.mark.parametrize(
        "gamma", [S.L1Ball(0.4), S.L2Ball(0.4), S.LpBall(3.0, 0.4), S.Intersection(S.L1Ball(0.5), S.L2Ball(0.3)),
                  S.GroupWise(S.L2Ball(0.2), [0, 0, 1] * 40)], ids=lambda g: type(g).__name__
    )  # fmt: skip
    def test_the_time_limit_reaches_into_refits(self, gamma):
        rng = np.random.default_rng(1)
        X = rng.standard_normal((60, 40)) + 5 * rng.standard_normal((60, 1))
        risk = ez.risks.Multinomial(X, np.arange(60) % 3)
        began = time.perf_counter()
        result = ez.minimize(risk, 12, gamma, time_limit=0.3)
        assert time.perf_counter() - began < 3.0
        assert gamma.violation(result.x) <= 1e-12

    def test_a_refit_after_its_deadline_returns_a_member(self):
        rng = np.random.default_rng(2)
        risk = ez.risks.Logistic(rng.standard_normal((30, 6)), rng.random(30) > 0.5)
        gamma = S.Intersection(S.L1Ball(0.5), S.L2Ball(0.3))
        point = refit(risk, gamma, np.arange(6), deadline=time.perf_counter())
        assert gamma.violation(point.w) <= 1e-12 and math.isfinite(point.value)

    def test_a_refit_whose_start_overflows_takes_few_projections(self, monkeypatch):
        """exp(5000) at the member next to the origin: gradient steps without a slope had no end."""
        calls, project = [], Positions.project

        def counted(part, v):
            calls.append(v)
            assert len(calls) < 200
            return project(part, v)

        monkeypatch.setattr(Positions, "project", counted)
        risk = ez.risks.Poisson([[1.0, 1e4], [-0.5, -2e3], [0.3, 4e3]], [1.0, 2.0, 0.0])
        gamma = S.Portfolio(budget=1.0, upper=1.0)
        point = refit(risk, gamma, np.arange(2))
        best = min(risk.value([1 - share, share]) for share in np.linspace(0.0, 0.01, 1001))
        assert point.value <= best * (1 + 1e-12) and gamma.violation(point.w) <= 1e-15
        endless = refit(risk, S.Portfolio(budget=1.0, upper=0.5), np.arange(2))  # at its only member
        assert endless.value == math.inf and endless.w.tolist() == [0.5, 0.5]

    def test_the_time_limit_holds_for_the_refit_of_a_start(self):
        class Slow(S.ConstraintSet):
            """A ball whose projection takes five milliseconds."""

            convex = closed_under_zeroing = True
            calls = 0

            def project(self, v, support=None):
                self.calls += 1
                time.sleep(0.005)
                return v * min(1.0, 0.5 / max(float(np.linalg.norm(v)), 1e-300))

            def violation(self, w):
                return max(float(np.linalg.norm(w)) / 0.5 - 1, 0.0)

        rng = np.random.default_rng(3)
        X = rng.standard_normal((60, 8)) @ np.diag(10.0 ** np.arange(0, 4, 0.5)) @ rng.standard_normal((8, 8))
        gamma = Slow()
        ez.minimize(ez.risks.Logistic(X, X[:, 0] > 0), 8, gamma, x0=np.full(8, 0.01), time_limit=0.1)
        assert gamma.calls < 100  # no more than fit into the time, and some to begin and to end with


def test_part_of_a_multinomial_risk_can_be_minimised():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), np.arange(40) % 3
    whole = ez.risks.Multinomial(X, y, ridge=0.1)
    places = np.array([0, 1, 4, 6, 9])
    part = whole.restrict(places)
    model, inner = part.curvature(part.at(part.zero)), whole.curvature(whole.at(whole.zero))
    G = inner.columns(np.arange(12))[np.ix_(places, places)]
    np.testing.assert_allclose(model.columns(np.arange(5)), G, atol=1e-12)
    np.testing.assert_allclose(model.images(np.array([1, 3]), np.eye(2)), G[:, [1, 3]], atol=1e-12)
    np.testing.assert_allclose(model.diagonal, np.diagonal(G), atol=1e-12)
    result = ez.minimize(part, 2)
    pairs = [refit(whole, S.Everywhere(), np.sort(places[[i, j]])).value for i in range(5) for j in range(i)]
    assert result.fun == pytest.approx(min(pairs), rel=1e-9)
    larger = whole.restrict(np.arange(11))
    assert ez.minimize(larger, 5).success  # too many supports to try all


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("name", ["LeastSquares", "Logistic", "Huber"])
def test_data_of_all_sizes(name, scale):
    """Never worse than zero, and no error: squares of such numbers may leave the range of double precision."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 12))
    y = X[:, 0] - 2 * X[:, 3] + 0.3 * rng.standard_normal(30)
    risk = getattr(ez.risks, name)(scale * X, y > 0 if name == "Logistic" else y)
    sets = [S.Everywhere(), S.NonNegative(), S.Box(-1, 1), S.L1Ball(0.5), S.L2Ball(0.5), S.L2Ball(1e-300), S.LpBall(3, 0.5),
            S.WeightedL1Ball(np.linspace(0.1, 2, 12), 0.5), S.SubSimplex(1.0), S.L1Ball(0.0), S.GroupWise(S.L2Ball(0.3), np.arange(12) % 3)]  # fmt: skip
    for gamma in sets:
        result = ez.minimize(risk, 3, gamma, time_limit=2.0)
        assert result.fun <= risk.value(risk.zero) * (1 + 1e-9), gamma


@pytest.mark.parametrize("seed", range(40))
def test_proofs_warn_of_nothing_whatever_the_sizes(seed):
    """Steps of the search for multipliers may leave the numbers; they are not taken then."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.choice([-150, -100, 0, 100, 150])
    risk = ez.risks.LeastSquares(X, rng.standard_normal(n) * 10.0 ** rng.choice([-100, -8, 0, 8, 100]))
    gamma = [None, S.NonNegative(), S.Box(-1, 1), S.L1Ball(1.0)][seed % 4]
    for k in range(d + 1):
        res = ez.minimize(risk, k, gamma)
        if np.isfinite(res.fun):
            assert ez.certify(risk, res, time_limit=1).lower_bound <= res.fun * (1 + 1e-9)
            ez.beats(risk, res)
