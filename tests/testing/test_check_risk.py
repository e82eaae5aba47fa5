"""check_risk lets honest risks pass and finds planted errors; the examples of the documentation are true."""

import doctest
import importlib
import math

import numpy as np
import pytest

from ellzero.risks import Constant, LeastSquares, Risk, Smooth
from ellzero.testing.risks import check_risk

N, P = 30, 6


class Honest(Risk):
    """R(w) = (1/n) Σ (x_iᵀw - y_i)², by hand: a risk of a user's own."""

    n_features, n_terms, convex, lower_bound = P, N, True, 0.0

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((N, P)) + 0.2
        self.y = self.X[:, 0] - self.X[:, 1] + rng.standard_normal(N)

    def _forward(self, w, support):
        return self.X @ w - self.y

    def _value(self, w, state):
        return state @ state / N

    def _gradient(self, w, state):
        return 2 * self.X.T @ state / N

    def _gradient_of_rows(self, w, rows):
        return 2 * self.X[rows].T @ (self.X[rows] @ w - self.y[rows]) / len(rows)

    @property
    def smoothness(self):
        return Constant(1.0001 * np.linalg.eigvalsh(2 * self.X.T @ self.X / N)[-1], "exact")

    @property
    def strong_convexity(self):
        return Constant(0.9999 * np.linalg.eigvalsh(2 * self.X.T @ self.X / N)[0], "exact")


def test_an_honest_risk_passes():
    check_risk(Honest(), rng=0)
    check_risk(Honest())


class SlightlyWrongGradient(Honest):
    def _gradient(self, w, state):
        return 1.001 * super()._gradient(w, state)


class OneWrongCoordinate(Honest):
    def _gradient(self, w, state):
        return super()._gradient(w, state) + 1e-4 * (np.arange(P) == 3)


class WrongShape(Honest):
    def _gradient(self, w, state):
        return super()._gradient(w, state)[:-1]


class ScaledRows(Honest):
    def _gradient_of_rows(self, w, rows):
        return super()._gradient_of_rows(w, rows) / 2


class IgnoresRepeats(Honest):
    def _gradient_of_rows(self, w, rows):
        return super()._gradient_of_rows(w, np.unique(rows))


class TooSmooth(Honest):
    @property
    def smoothness(self):
        return Constant(0.98 * super().smoothness.value, "bound")


class TooConvex(Honest):
    @property
    def strong_convexity(self):
        return Constant(1.5 * super().strong_convexity.value, "bound")


class TooHighAFloor(Honest):
    lower_bound = 1.5


class WrongSupport(Honest):
    def _forward(self, w, support):
        return super()._forward(w, None) if support is None else self.X[:, support[:-1]] @ w[support[:-1]] - self.y


class WrongRestriction(Honest):
    def restrict(self, support):
        return LeastSquares(self.X[:, support], self.y, ridge=0.01)


class WrongSizeOfRestriction(Honest):
    def restrict(self, support):
        return self


class ChangesItsArgument(Honest):
    def _value(self, w, state):
        value = super()._value(w, state)
        w[0] = 0.0
        return value


class FalselyConvex(Honest):
    strong_convexity = Constant(-math.inf, "bound")

    def _value(self, w, state):
        return super()._value(w, state) - 5 * w @ w

    def _gradient(self, w, state):
        return super()._gradient(w, state) - 10 * w

    def _gradient_of_rows(self, w, rows):
        return super()._gradient_of_rows(w, rows) - 10 * w

    lower_bound = -math.inf


class WrongZero(Honest):
    zero = np.ones(P)


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        (SlightlyWrongGradient, "gradient is not the derivative of value"),
        (OneWrongCoordinate, "gradient is not the derivative of value"),
        (WrongShape, r"gradient has shape \(5,\)"),
        (ScaledRows, "does not average to gradient"),
        (IgnoresRepeats, "is not the mean of its three terms"),
        (TooSmooth, "smoothness = .* is too small"),
        (TooConvex, "strong_convexity = .* is too large"),
        (TooHighAFloor, "lower_bound = 1.5 is too large"),
        (WrongSupport, r"at\(w, support\).value is not value\(w\)"),
        (WrongRestriction, r"value of restrict\(.*\) is not that of the whole"),
        (WrongSizeOfRestriction, "has n_features = 6"),
        (ChangesItsArgument, "changes its argument"),
        (FalselyConvex, "not convex"),
        (WrongZero, "zero is not the origin"),
    ],
)
@pytest.mark.slow
def test_planted_errors_are_found(risk, words):
    for seed in range(5):
        with pytest.raises(AssertionError, match=words):
            check_risk(risk(), rng=seed)


def test_a_risk_that_is_never_finite_is_reported():
    with pytest.raises(AssertionError, match="value is finite neither at 0"):
        check_risk(Smooth(lambda w: math.nan, np.cos, 2), rng=0)


@pytest.mark.parametrize(
    "module",
    [
        "testing.risks",
        *(f"risks.{n}" for n in ("losses", "robust", "exponential", "multinomial", "quadratic", "smooth")),
    ],
)
def test_examples_are_true(module):
    assert doctest.testmod(importlib.import_module(f"ellzero.{module}")).failed == 0
