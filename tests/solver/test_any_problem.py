"""Any risk, set, sparsity, method and k: what is returned obeys k and Γ, and nothing that was asked for is lost."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import ellzero as ez
from common import support_preserving_sets

pytestmark = pytest.mark.slow

D = 6  # features
RISKS = ("squares", "several targets", "huber", "quantile", "logistic", "hinge", "poisson", "gamma", "classes", "cox",
         "quadratic", "smooth")  # fmt: skip
SETS = tuple(
    name for name in support_preserving_sets(D, np.random.default_rng(0)) if "Lp" not in name
)  # those take long
SPARSITIES = ("coordinates", "groups", "per group", "rows")
METHODS = {name: name for name in ("auto", "IHT", "IHT-2SP", "FG-HT-2SP", "HSG-HT-2SP")} | {
    "adaptive": ez.Method(step="adaptive"),
    # its theorem asks for a hundred thousand directions where κ is large
    "HZO-HT-2SP": ez.Method(oracle=ez.ZerothOrder(n_directions=20), projection="two-step", step=0.01),
}


def risk_of(kind, rng):
    """A risk of few rows, whose columns may be copies, constant, or large."""
    X = rng.standard_normal((18, D))
    odd = rng.integers(4)
    if odd == 1:
        X[:, 5] = X[:, 0]
    elif odd == 2:
        X[:, 1] = 2.0
    elif odd == 3:
        X[:, 2] *= 1e3
    z = X[:, 0] - X[:, 3] + 0.3 * rng.standard_normal(18)
    options = {"ridge": float(rng.choice([0.01, 1.0])), "fit_intercept": bool(rng.integers(2))}
    signs = (z > np.median(z)).astype(int)
    match kind:
        case "squares":
            return ez.risks.LeastSquares(X, z, **options)
        case "several targets":
            return ez.risks.LeastSquares(X, np.column_stack([z, -z]), **options)
        case "huber":
            return ez.risks.Huber(X, z, delta=0.5, **options)
        case "quantile":
            return ez.risks.Quantile(X, z, quantile=0.7, smoothing=0.1, **options)
        case "logistic":
            return ez.risks.Logistic(X, signs, **options)
        case "hinge":
            return ez.risks.SquaredHinge(X, signs, **options)
        case "poisson":
            return ez.risks.Poisson(X / 10, np.round(np.exp(np.clip(z, -2, 2))), **options)
        case "gamma":
            return ez.risks.Gamma(X / 10, np.exp(np.clip(z, -2, 2)), **options)
        case "classes":
            return ez.risks.Multinomial(X, np.digitize(z, np.quantile(z, [0.3, 0.6])), **options)
        case "cox":
            return ez.risks.Cox(X, np.exp(-np.clip(z, -3, 3)), signs, ridge=options["ridge"])
        case "quadratic":
            return ez.risks.Quadratic(X.T @ X / 18 + 0.1 * np.eye(D), X.T @ z / 18)
        case "smooth":
            A = X / np.linalg.norm(X, 2)
            return ez.risks.Smooth(lambda w: float(np.sum((A @ w - z) ** 2)), lambda w: 2 * A.T @ (A @ w - z), D)


def sparsity_of(kind, k, d, outputs):
    labels = list("aabbcc") * outputs
    if kind == "groups":
        return ez.sparsity.Groups(min(k, 3), labels)
    if kind == "per group":
        return ez.sparsity.PerGroup(k, labels, 1)
    if kind == "rows" and outputs > 1:
        return ez.sparsity.Rows(k, outputs).within(d)
    return ez.sparsity.Coordinates(min(k * outputs, d))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    risk=st.sampled_from(RISKS),
    gamma=st.sampled_from(SETS),
    counted=st.sampled_from(SPARSITIES),
    method=st.sampled_from(sorted(METHODS)),
    k=st.integers(0, D),
    seed=st.integers(0, 10**6),
)
def test_whatever_is_asked_the_answer_obeys(risk, gamma, counted, method, k, seed):
    rng = np.random.default_rng(seed)
    R, outputs = risk_of(risk, rng), {"several targets": 2, "classes": 3}.get(risk, 1)
    d = D * outputs
    constraint = support_preserving_sets(d, rng)[gamma]
    sparsity = sparsity_of(counted, k, d, outputs)
    how = METHODS[method]
    asked = {"rng": 0, "max_iter": 15}
    try:
        found = ez.minimize(R, sparsity, constraint, how, **asked)
    except (
        ValueError,
        TypeError,
        NotImplementedError,
    ) as refused:  # some pairs of a set and a way of counting have no projection
        assert len(str(refused)) > 30, refused
        assume(False)
    assert sparsity.count(found.x) <= sparsity.k and found.support.size == np.count_nonzero(found.x)
    assert constraint.contains(found.x) or constraint.violation(found.x) <= 1e-9
    assert np.isfinite(found.fun) and found.fun == pytest.approx(R.value(found.x), rel=1e-9, abs=1e-12)
    assert found.k <= sparsity.k
    again = ez.minimize(R, sparsity, constraint, how, **asked)
    np.testing.assert_array_equal(again.x, found.x)  # the same seed, the same answer
    if method == "auto":
        assert found.fun <= R.value(np.zeros(d)) * (1 + 1e-12) + 1e-12 or not constraint.contains(np.zeros(d))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    risk=st.sampled_from(RISKS),
    gamma=st.sampled_from(SETS),
    counted=st.sampled_from(SPARSITIES),
    seed=st.integers(0, 10**6),
)
def test_more_is_never_worse(risk, gamma, counted, seed):
    rng = np.random.default_rng(seed)
    R, outputs = risk_of(risk, rng), {"several targets": 2, "classes": 3}.get(risk, 1)
    constraint = support_preserving_sets(D * outputs, rng)[gamma]
    try:
        levels = [sparsity_of(counted, k, D * outputs, outputs) for k in (1, 2, 3)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = ez.minimize_path(R, levels, constraint, max_iter=15)
    except (ValueError, TypeError) as refused:
        assert len(str(refused)) > 30, refused
        assume(False)
    assert (np.diff(path.fun) <= 1e-12 * (1 + np.abs(path.fun[1:]))).all()
    for level, found in zip(levels, path, strict=True):
        assert level.count(found.x) <= level.k and constraint.violation(found.x) <= 1e-9
