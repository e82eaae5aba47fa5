"""Quadratic and Smooth risks, and what every risk refuses."""

import math
import pickle

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from ellzero.risks import (
    Constant,
    Huber,
    LeastSquares,
    Logistic,
    Multinomial,
    Poisson,
    Quadratic,
    Smooth,
    quadratic,
)
from ellzero.testing.risks import check_risk

# Quadratic


def symmetric(seed, eigenvalues):
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    Q = (basis * eigenvalues) @ basis.T
    return (Q + Q.T) / 2


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix, np.float32])
def test_quadratic_is_its_formula(make):
    Q, b = symmetric(0, [3.0, 2.0, 1.0, 0.5]), np.array([1.0, -1.0, 2.0, 0.0])
    risk, w = Quadratic(make(Q), b), np.array([1.0, 0.0, -2.0, 0.5])
    tol = 1e-5 if make is np.float32 else 1e-12
    assert risk.value(w) == pytest.approx(w @ Q @ w / 2 - b @ w, rel=tol)
    np.testing.assert_allclose(risk.gradient(w), Q @ w - b, atol=tol)
    assert risk.smoothness.value == pytest.approx(3.0, rel=1e-4)
    assert risk.strong_convexity.value == pytest.approx(0.5, rel=1e-4)
    assert risk.convex
    part = risk.restrict([0, 2])
    assert part.value(w[[0, 2]]) == pytest.approx(
        w[[0, 2]] @ Q[np.ix_([0, 2], [0, 2])] @ w[[0, 2]] / 2 - b[[0, 2]] @ w[[0, 2]]
    )
    check_risk(risk, rng=0)
    with pytest.raises(NotImplementedError, match="has no terms"):
        risk.gradient(w, rows=[0])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(-6, 6))
def test_the_lower_bound_of_a_definite_quadratic_is_its_minimum(seed, p, log_condition):
    rng = np.random.default_rng(seed)
    risk = Quadratic(symmetric(seed, np.logspace(0, log_condition, p)), rng.standard_normal(p))
    best = np.linalg.solve(risk.design.dense(), risk.b)
    assert risk.convex
    there = risk.measured(best, np.arange(p))  # R to the last digit: a plain sum may fall below the minimum
    assert risk.lower_bound <= there.value + there.error
    assert risk.lower_bound == pytest.approx(risk.value(best), rel=1e-3)


def test_convexity_of_a_quadratic_is_found_out():
    indefinite = Quadratic(symmetric(1, [2.0, 1.0, -1.0]), np.ones(3))
    assert not indefinite.convex
    assert indefinite.strong_convexity.value == pytest.approx(-1.0)
    assert indefinite.lower_bound == -math.inf
    assert Quadratic(-np.eye(2), np.zeros(2)).smoothness.value == 0
    check_risk(indefinite, rng=0)
    factor = np.random.default_rng(0).standard_normal((20, 3))
    singular = Quadratic(factor @ factor.T, np.ones(20))
    assert singular.convex
    assert singular.strong_convexity.value == 0
    assert singular.lower_bound == -math.inf
    # rounding may have made it indefinite, and then R has no lower bound at all
    assert Quadratic(factor @ factor.T, np.zeros(20)).lower_bound == -math.inf
    assert Quadratic(factor @ factor.T + np.eye(20), np.zeros(20)).lower_bound == 0
    assert indefinite.restrict([0]).convex == (indefinite.design.dense()[0, 0] >= 0)


def test_large_quadratics_are_bounded_by_gershgorin(monkeypatch):
    monkeypatch.setattr(quadratic, "LARGEST_GRAM", 5)
    dominant = sp.diags_array([np.full(19, -1.0), np.full(20, 3.0), np.full(19, -1.0)], offsets=[-1, 0, 1])
    for Q in (dominant.tocsr(), dominant.toarray(), array_api_strict.asarray(dominant.toarray())):
        risk = Quadratic(Q, np.ones(20))
        assert risk.smoothness == Constant(5.0, "bound")
        assert risk.strong_convexity == Constant(1.0, "bound")
        assert risk.convex
    definite = Quadratic(symmetric(0, np.linspace(0.5, 2, 20)), np.ones(20))
    assert definite.strong_convexity.value < 0  # Gershgorin does not see it, Cholesky does
    assert definite.convex
    assert not Quadratic(symmetric(0, np.linspace(-0.1, 2, 20)), np.ones(20)).convex


# Smooth


def test_smooth_passes_on_what_it_is_told():
    risk = Smooth(lambda w: np.sum(np.cosh(w)), np.sinh, 3, strong_convexity=1.0, lower_bound=3.0)
    assert risk.convex
    assert risk.smoothness == Constant(math.inf, "bound")
    assert risk.strong_convexity == Constant(1.0, "bound")
    check_risk(risk, rng=0)
    plain = Smooth(lambda w: np.sin(w).sum(), np.cos, 2, smoothness=1.0)
    assert not plain.convex
    assert plain.strong_convexity.value == plain.lower_bound == -math.inf
    assert plain.restrict([1]).value([0.5]) == pytest.approx(math.sin(0.5))
    assert plain.restrict([1]).smoothness == Constant(1.0, "bound")
    check_risk(plain, rng=0)


def test_risks_survive_pickling():
    X = np.random.default_rng(0).standard_normal((8, 3))
    for risk in (Quadratic(X.T @ X, X[0]), Multinomial(X, [0, 1, 2, 0] * 2, fit_intercept=True)):
        w = np.ones(risk.n_features)
        assert pickle.loads(pickle.dumps(risk)).value(w) == risk.value(w)


# What is refused


X0, Y0 = np.ones((4, 2)), np.array([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LeastSquares(X0, Y0[:3]), ValueError, "y must have length 4, one for each row of X, got 3"),
        (lambda: LeastSquares(X0, Y0[:, None]), ValueError, r"y must be one-dimensional.*use y.ravel\(\)"),
        (lambda: LeastSquares(X0, [1, np.nan, 0, 0]), ValueError, "y must be finite, got nan at index 1"),
        (lambda: LeastSquares(X0, list("abcd")), TypeError, "y must be numbers for LeastSquares"),
        (lambda: LeastSquares(X0, Y0, ridge=-1), ValueError, "ridge must lie in"),
        (lambda: LeastSquares(X0, Y0, sample_weight=[1, 1]), ValueError, "sample_weight must have length 4"),
        (lambda: LeastSquares(X0, Y0, sample_weight=[1, -2, 0, 0]), ValueError, "at least 0, got -2.* index 1"),
        (lambda: LeastSquares(X0, Y0, sample_weight=np.zeros(4)), ValueError, "must not be 0 everywhere"),
        (lambda: LeastSquares(X0, Y0, sample_weight=[1, np.inf, 0, 0]), ValueError, "must be finite"),
        (lambda: Huber(X0, Y0, delta=0), ValueError, "delta must lie in"),
        (lambda: Logistic(X0, [1, 1, 1, 1]), ValueError, "at least two different labels, got only"),
        (lambda: Logistic(X0, Y0), ValueError, "two labels for Logistic, got 4.*use Multinomial"),
        (lambda: Logistic(X0, [0, 1, np.nan, 1]), ValueError, "y must be finite"),
        (lambda: Logistic(X0, np.array(["a", 1, "a", None], dtype=object)), TypeError, "labels of one kind"),
        (
            lambda: Logistic(X0, [0, 1, 1, 1], sample_weight=[0, 1, 1, 1], fit_intercept=True),
            ValueError,
            "positive for some row of each label",
        ),
        (
            lambda: Multinomial(X0, list("abca"), sample_weight=[1, 0, 1, 1], fit_intercept=True),
            ValueError,
            "label 'b'|label np.str_\\('b'\\)",
        ),
        (lambda: Poisson(X0, [1, -1, 0, 0]), ValueError, "y must be at least 0 for Poisson, got -1.* index 1"),
        (lambda: Poisson(X0, np.zeros(4), fit_intercept=True), ValueError, "y must be positive for some row"),
        (lambda: Quadratic(np.ones((2, 3)), [1, 1]), ValueError, r"Q must be square, got shape \(2, 3\)"),
        (lambda: Quadratic([[1.0, 2.0], [0.0, 1.0]], [1, 1]), ValueError, r"symmetric.*use \(Q \+ Q.T\) / 2"),
        (lambda: Quadratic(sp.csr_array([[1.0, 2.0], [0.0, 1.0]]), [1, 1]), ValueError, "symmetric"),
        (lambda: Quadratic(np.eye(2), [1, 1, 1]), ValueError, "b must have length 2, got 3"),
        (lambda: Quadratic(aslinearoperator(np.eye(2)), [1, 1]), TypeError, "for an operator use Smooth"),
        (lambda: Smooth(3.0, np.cos, 2), TypeError, "value must be a function of w, got 3.0"),
        (lambda: Smooth(np.sum, np.cos, 0), ValueError, "n_features must be at least 1"),
        (lambda: Smooth(np.sum, np.cos, 2, smoothness=1, strong_convexity=2), ValueError, "at most smoothness"),
        (lambda: Smooth(np.cos, np.cos, 2).value([0, 0]), ValueError, "must return one number"),
        (lambda: Smooth(np.sum, np.sum, 2).gradient([0, 0]), ValueError, r"must return an array of shape \(2,\)"),
        (lambda: LeastSquares(X0, Y0).value([1, 2, 3]), ValueError, r"w must have shape \(2,\)"),
        (lambda: LeastSquares(X0, Y0).gradient([1, 2], rows=[]), ValueError, "at least one integer"),
        (lambda: LeastSquares(X0, Y0).gradient([1, 2], rows=[0.5]), ValueError, "at least one integer"),
        (lambda: LeastSquares(X0, Y0).gradient([1, 2], rows=[4]), IndexError, r"rows must lie in 0..3"),
        (lambda: LeastSquares(X0, Y0).gradient([1, 2], rows=[-1]), IndexError, r"rows must lie in 0..3"),
    ],
)
def test_mistakes_are_explained(make, error, words):
    with pytest.raises(error, match=words):
        make()
