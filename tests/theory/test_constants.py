"""Restricted constants against enumeration, against their definitions, and against planted errors."""

import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

import ellzero as ez
from ellzero.risks import Constant, Huber, LeastSquares, Logistic, Multinomial, Poisson, Quadratic, Smooth
from ellzero.theory import _blocks, constants, restricted_constants
from ellzero.theory._blocks import Blocks


def enumerated(H, s):
    """L_s, ν_s and L'_s of a quadratic with Hessian H, one support at a time."""
    high, low, strong = -math.inf, math.inf, 0.0
    for S in itertools.combinations(range(len(H)), s):
        values = np.linalg.eigvalsh(H[np.ix_(S, S)])
        high, low = max(high, values[-1]), min(low, values[0])
        strong = max(strong, np.linalg.norm(H[:, S], 2))
    return high, low, strong


@pytest.fixture
def no_enumeration(monkeypatch):
    """Only what a problem too large to enumerate would get."""
    monkeypatch.setattr(Blocks, "exact", lambda self, s: None)


# ---------------------------------------------------------------- the paper's example


def test_the_papers_example_exactly():
    risk = Quadratic([[2.0, 1.0], [1.0, 2.0]], b=[0.0, 0.0])  # x1² + x2² + x1x2
    both, one = restricted_constants(risk, 2), restricted_constants(risk, 1)
    assert both.smoothness == Constant(3.0, "exact")
    assert one.smoothness == Constant(2.0, "exact")
    assert one.strong_smoothness == Constant(math.sqrt(5), "exact")
    assert both.strong_smoothness.value == pytest.approx(3, rel=1e-15)
    assert both.strong_convexity == Constant(1.0, "exact")
    assert one.strong_convexity == Constant(2.0, "exact")
    # the converse of "RSS' implies RSS" fails: along an axis R is 2-smooth, but ∇R changes by sqrt(5) > 2
    x, y = np.array([1.0, 0.0]), np.zeros(2)
    assert np.linalg.norm(risk.gradient(x) - risk.gradient(y)) > one.smoothness.value * np.linalg.norm(x - y)


def test_names_and_report():
    c = ez.theory.restricted_constants(Quadratic(np.diag([1.0, 3.0]), [0.0, 0.0]), 1)
    assert (c.smoothness.value, c.strong_convexity.value, c.strong_smoothness.value, c.kappa) == (3, 1, 3, 3)
    assert "exact" in repr(c)
    assert restricted_constants(Quadratic(np.eye(3), np.ones(3)), 99).s == 3
    with pytest.raises(ValueError, match="s must be at least 1, got s=0"):
        restricted_constants(Quadratic(np.eye(3), np.ones(3)), 0)
    with pytest.raises(TypeError, match="risk must be a risk"):
        restricted_constants(np.eye(3), 1)


# ---------------------------------------------------------------- enumeration


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "intercept", "float32", "more columns than rows"])
def test_least_squares_by_enumeration(kind):
    rng = np.random.default_rng(3)
    n, d = (4, 6) if kind.startswith("more") else (30, 6)
    X, y = rng.standard_normal((n, d)) + 0.5, rng.standard_normal(n)
    weight, extra = np.full(n, 1 / n), {}
    if kind == "weighted":
        extra["sample_weight"] = rng.integers(1, 5, n)
        weight = extra["sample_weight"] / extra["sample_weight"].sum()
    centred = X - weight @ X if kind == "intercept" else X
    H = 2 * (centred.T * weight) @ centred + 0.3 * np.eye(d)
    data = {"sparse": sp.csr_array, "float32": np.float32}.get(kind, np.asarray)(X)
    risk = LeastSquares(data, y, ridge=0.3, fit_intercept=kind == "intercept", **extra)
    tol = 1e-5 if kind == "float32" else 1e-10
    for s in range(1, d + 1):
        c = restricted_constants(risk, s)
        found = c.smoothness, c.strong_convexity, c.strong_smoothness
        assert [constant.value for constant in found] == pytest.approx(enumerated(H, s), rel=tol)
        assert {constant.source for constant in found} == {"exact"}


def test_singular_blocks_have_no_strong_convexity():
    X = np.random.default_rng(0).standard_normal((3, 7))
    risk = LeastSquares(X, np.zeros(3))
    assert restricted_constants(risk, 3).strong_convexity.value > 1e-6
    for s in (4, 5, 7):
        assert restricted_constants(risk, s).strong_convexity == Constant(0.0, "exact")
        assert restricted_constants(risk, s).kappa == math.inf
    assert restricted_constants(LeastSquares(np.ones((5, 3)), np.ones(5)), 2).strong_convexity.value == 0


def test_constants_are_kept_with_the_risk_but_not_with_its_copies():
    X = np.random.default_rng(0).standard_normal((20, 6))
    risk = LeastSquares(X, np.zeros(20))
    assert restricted_constants(risk, 3) is restricted_constants(risk, 3)
    part = risk.restrict([0, 2, 5])
    H = 2 * X[:, [0, 2, 5]].T @ X[:, [0, 2, 5]] / 20
    assert restricted_constants(part, 3).smoothness.value == pytest.approx(enumerated(H, 3)[0])
    again = pickle.loads(pickle.dumps(risk))
    assert restricted_constants(again, 3).smoothness == restricted_constants(risk, 3).smoothness
    assert restricted_constants(again, 3) is not restricted_constants(risk, 3)
    with_constants, plain = len(pickle.dumps(risk)), len(pickle.dumps(LeastSquares(X, np.zeros(20))))
    assert with_constants < plain + 300


def test_strong_smoothness_of_negative_curvature():
    """L' bounds ||H[:,S]||, which is large where the eigenvalues are far below 0."""
    A = np.random.default_rng(0).standard_normal((30, 30))
    Q = (A + A.T) / 2 - 8 * np.eye(30)
    constants = restricted_constants(Quadratic(Q, np.zeros(30)), 20)
    assert constants.strong_smoothness.value >= np.linalg.norm(Q[:, :20], 2)


def test_an_indefinite_quadratic():
    risk = Quadratic([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0])
    assert restricted_constants(risk, 1).strong_convexity == Constant(1.0, "exact")
    assert restricted_constants(risk, 2).strong_convexity == Constant(-1.0, "exact")
    H = np.diag([-5.0, 1.0])
    c = restricted_constants(Quadratic(H, [0.0, 0.0]), 2)
    assert (c.smoothness.value, c.strong_convexity.value, c.strong_smoothness.value) == (1, -5, 5)


# ---------------------------------------------------------------- bounds are never wrong

entries = st.one_of(
    st.floats(-3, 3), st.integers(-2, 2).map(float), st.sampled_from([0.0, 1.0, 1e-8, 1e8, -1e-3])
)  # fmt: skip


@st.composite
def symmetric_matrices(draw):
    d = draw(st.integers(2, 6))
    A = np.array(draw(st.lists(entries, min_size=d * d, max_size=d * d))).reshape(d, d)
    kind = draw(st.sampled_from(["any", "semidefinite", "low rank", "diagonal plus rank one"]))
    if kind == "semidefinite":
        return A @ A.T
    if kind == "low rank":
        return A[:, :1] @ A[:, :1].T
    if kind == "diagonal plus rank one":
        return np.diag(A[0]) + np.outer(A[1], A[1])
    return A + A.T


@given(M=symmetric_matrices())
@settings(max_examples=150, deadline=None)
def test_bounds_and_searches_enclose_the_truth(M):
    blocks = Blocks(M)
    tiny = 1e-12 * np.abs(M).max()
    last = -math.inf
    for s in range(1, len(M) + 1):
        high, low, _ = enumerated(M, s)
        bound = blocks.bound(s)
        assert bound >= high
        assert -blocks.negative.bound(s) <= low
        assert blocks.found(s) <= high + tiny
        assert -blocks.negative.found(s) >= low - tiny
        assert bound >= last - tiny  # more coordinates, no smaller
        last = bound
        exact = blocks.exact(s)
        assert exact == pytest.approx((low, high), rel=1e-9, abs=1e-9 * np.abs(M).max() + 1e-300)


@pytest.mark.parametrize("part", ["_discs", "_spectral", "_discs_of_square"])
def test_wrong_bounds_are_noticed(part, monkeypatch):
    """Each of the three bounds, spoilt so that it looks at one coordinate less, fails the test above."""
    whole = getattr(Blocks, part)
    monkeypatch.setattr(Blocks, part, lambda self, s: whole(self, max(1, s - 1)))
    with pytest.raises(AssertionError):
        test_bounds_and_searches_enclose_the_truth.hypothesis.inner_test(np.ones((4, 4)))


@pytest.mark.parametrize(("n", "d", "correlation"), [(60, 8, 0.0), (60, 8, 0.8), (6, 9, 0.0), (300, 9, 0.3)])
def test_bounds_of_least_squares(n, d, correlation, no_enumeration):
    problem = ez.datasets.make_regression(n, d, 2, correlation=correlation, rng=1)
    risk = LeastSquares(problem.X, problem.y)
    H = 2 * problem.X.T @ problem.X / n
    for s in range(1, d + 1):
        c = restricted_constants(risk, s)
        high, low, strong = enumerated(H, s)
        estimate = c.estimate
        tight = 1 + 1e-12
        assert estimate.smoothness.value / tight <= high <= c.smoothness.value
        assert estimate.strong_smoothness.value / tight <= strong <= c.strong_smoothness.value
        low = max(low, 0.0)  # a Gram matrix; below zero is rounding
        assert c.strong_convexity.value <= low
        assert low <= estimate.strong_convexity.value * tight + 1e-12
        assert c.strong_convexity.value >= 0
        assert {c.smoothness.source, c.strong_convexity.source, c.strong_smoothness.source} == {"bound"}
        assert (
            estimate.smoothness.source
            == estimate.strong_convexity.source
            == estimate.strong_smoothness.source
            == "estimate"
        )
        assert "a search over supports found" in repr(c)


def test_the_search_finds_small_optima():
    """Local ascent is a search, not a proof; here it ends at the optimum of every small problem."""
    misses = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((20, 9))
        H = X.T @ X
        for s in (2, 3, 5):
            high, low, _ = enumerated(H, s)
            blocks = Blocks(H)
            misses += blocks.found(s) < high * (1 - 1e-9)
            misses += -blocks.negative.found(s) > low * (1 + 1e-9)
    assert misses <= 12  # of 120


def test_coherence_certifies_what_eigenvalues_cannot():
    """More columns than rows: λ_min = 0, and yet every small block is well conditioned."""
    X = ez.datasets.make_regression(400, 600, 5).X
    risk = LeastSquares(X, np.zeros(400))
    c = restricted_constants(risk, 4)
    assert risk.strong_convexity.value == 0
    assert c.strong_convexity.source == "bound"
    assert c.strong_convexity.value > 0.2
    assert c.strong_convexity.value < c.estimate.strong_convexity.value


def test_spread_eigenvectors_tighten_smoothness():
    """A common factor in all columns: λ_max is large, but no s columns hold much of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 1)) + 0.5 * rng.standard_normal((300, 100))
    risk = LeastSquares(X, np.zeros(300))
    c = restricted_constants(risk, 10)
    assert c.smoothness.value < 0.2 * risk.smoothness.value
    assert c.smoothness.value < 1.3 * c.estimate.smoothness.value


def test_a_diagonal_hessian_is_exact_at_any_size():
    example = ez.datasets.diagonal_example()
    c = restricted_constants(LeastSquares(example.X, example.y), 60)
    assert c.smoothness.value == pytest.approx(example.smoothness)
    assert c.strong_convexity.value == pytest.approx(example.strong_convexity)
    assert c.smoothness.source == c.strong_convexity.source == "exact"


# ---------------------------------------------------------------- the definitions, on every risk


def risks():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 5)) + 0.3
    signal = X[:, 0] - X[:, 1]
    labels = np.digitize(signal, [-0.5, 0.5])
    return {
        "LeastSquares": LeastSquares(X, signal, ridge=0.1),
        "LeastSquares, intercept": LeastSquares(X, signal, fit_intercept=True),
        "Huber": Huber(X, signal, ridge=0.2, delta=0.5),
        "Logistic": Logistic(X, signal > 0, ridge=0.1),
        "Logistic, intercept": Logistic(X, signal > 0, ridge=0.1, fit_intercept=True),
        "Multinomial": Multinomial(X, labels, ridge=0.1),
        "Multinomial, intercept": Multinomial(X, labels, ridge=0.1, fit_intercept=True),
        "Quadratic": Quadratic(X.T @ X, X.T @ signal),
        "Smooth": Smooth(
            lambda w: np.sum(np.cos(w)) + w @ w, lambda w: 2 * w - np.sin(w), 5, smoothness=3, strong_convexity=1
        ),
    }


def violations(risk, s, L, nu, strong, rng, n=150):
    """How often RSS, RSC and RSS' fail for pairs that differ in s coordinates."""
    failures = np.zeros(3, dtype=int)
    for _ in range(n):
        x = rng.standard_normal(risk.n_features) * rng.choice([0.0, 0.1, 1.0, 5.0])
        step = np.zeros(risk.n_features)
        S = rng.choice(risk.n_features, s, replace=False)
        step[S] = rng.standard_normal(s) * rng.choice([1e-2, 1.0])
        x, y = x - 0.5 * step, x + 0.5 * step
        at_x, at_y, size = risk.at(x), risk.at(y), float(step @ step)
        above = at_y.value - at_x.value - float(at_x.gradient @ step)
        slack = 1e-9 * (abs(at_x.value) + abs(at_y.value) + abs(float(at_x.gradient @ step)))
        failures += [
            above > L / 2 * size + slack,
            above < nu / 2 * size - slack,
            np.linalg.norm(at_y.gradient - at_x.gradient) > strong * math.sqrt(size) * (1 + 1e-9),
        ]
    return failures.tolist()


@pytest.mark.parametrize("name", risks())
@pytest.mark.parametrize("s", [1, 2, 5])
def test_the_defining_inequalities_hold(name, s):
    risk, rng = risks()[name], np.random.default_rng(s)
    c = restricted_constants(risk, s)
    L, nu, strong = c.smoothness.value, c.strong_convexity.value, c.strong_smoothness.value
    assert nu <= L <= strong * (1 + 1e-12) or name == "Smooth"  # RSS' implies RSS
    assert violations(risk, s, L, nu, strong, rng) == [0, 0, 0]
    if name.startswith(("LeastSquares", "Quadratic")):
        assert c.smoothness.source == c.strong_convexity.source == "exact"
    else:
        assert {c.smoothness.source, c.strong_convexity.source, c.strong_smoothness.source} == {"bound"}


@pytest.mark.parametrize("name", ["LeastSquares", "Quadratic", "Logistic"])
def test_planted_constants_that_are_too_good_are_noticed(name):
    risk, rng = risks()[name], np.random.default_rng(0)
    c = restricted_constants(risk, 1)
    L, nu, strong = c.smoothness.value, c.strong_convexity.value, c.strong_smoothness.value
    planted = violations(risk, 1, 0.9 * L, 1.2 * nu, 0.8 * strong, rng, n=600)
    assert planted[0] > 0
    if name != "Logistic":  # whose ν and L' are bounds, with room
        assert planted[1] > 0
        assert planted[2] > 0


def test_multinomial_uses_boehnings_matrix():
    risk = risks()["Multinomial"]
    G = risk.design.X.T @ risk.design.X / 40
    B = 0.5 * np.kron(np.eye(3) - 1 / 3, G) + 0.1 * np.eye(15)
    for s in (1, 2, 3):
        assert restricted_constants(risk, s).smoothness.value == pytest.approx(enumerated(B, s)[0])
    assert restricted_constants(risk, 15).smoothness.value == pytest.approx(risk.smoothness.value)
    assert restricted_constants(risk, 1).smoothness.value < 0.8 * risk.smoothness.value


# ---------------------------------------------------------------- where the Hessian is not at hand


def test_fallbacks_keep_the_source():
    X, y = np.random.default_rng(0).standard_normal((30, 6)), np.ones(30)
    for risk in (
        LeastSquares(aslinearoperator(X), y, ridge=0.5),
        Poisson(X, y, ridge=0.5),
        Smooth(sum, np.ones_like, 6),
    ):
        c = restricted_constants(risk, 2)
        assert c.smoothness.value == risk.smoothness.value
        assert c.strong_convexity.value == risk.strong_convexity.value
        assert c.smoothness.source == ("estimate" if isinstance(risk, LeastSquares) else "bound")
        assert c.estimate is None
        assert c.strong_smoothness.value >= c.smoothness.value
    operator = restricted_constants(LeastSquares(aslinearoperator(X), y, ridge=0.5), 2)
    assert operator.strong_smoothness.source == "estimate"


def test_nothing_is_claimed_about_gradients_of_what_is_not_convex():
    """∇²R ⪯ 1 says nothing about how negative it can be, so L' is unknown."""
    risk = Smooth(lambda w: -(w @ w), lambda w: -2 * w, 3, smoothness=1.0)
    assert restricted_constants(risk, 1).strong_smoothness == Constant(math.inf, "bound")


def test_large_problems_are_not_decomposed(monkeypatch):
    monkeypatch.setattr(_blocks, "LARGEST_DECOMPOSED", 10)
    monkeypatch.setattr(constants, "LARGEST_DECOMPOSED", 10)
    problem = ez.datasets.make_regression(200, 40, 5, correlation=0.2)
    risk = LeastSquares(problem.X, problem.y)
    c = restricted_constants(risk, 5)
    assert c.smoothness.source == c.strong_convexity.source == c.strong_smoothness.source == "bound"
    assert c.estimate.smoothness.value <= c.smoothness.value <= risk.smoothness.value
    assert restricted_constants(risk, 40).smoothness.value == risk.smoothness.value
    monkeypatch.setattr(constants, "LARGEST_HESSIAN", 10)
    larger = LeastSquares(problem.X, problem.y)
    assert restricted_constants(larger, 5).smoothness == Constant(larger.smoothness.value, "bound")
