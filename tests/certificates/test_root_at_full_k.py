"""At k = d there is nothing to relax: the root, without branching, proves every convex problem that has a minimum."""

import zlib

import numpy as np
import pytest

import ellzero as ez
from common import SHARED
from ellzero import sets as S

RISKS = [
    "LeastSquares",
    "LeastSquares, intercept",
    "Quadratic",
    "Huber",
    "Logistic",
    "Logistic, ridge",
    "Poisson",
    "Gamma",
    "SquaredHinge",
    "Quantile",
    "Multinomial",
]
SETS = [
    "Everywhere", "NonNegative", "Box", "LinfBall", "L1Ball", "L2Ball", "LpBall", "WeightedL1Ball", "Ellipsoid", "SubSimplex",
    "Simplex", "PackingPolytope", "GroupWise", "Intersection", "Portfolio",
]  # fmt: skip
SEEDS = range(3)


def make_set(name, d, rng):
    r = float(rng.uniform(0.3, 1.5))
    labels = np.arange(d) % 2
    made = {
        "Everywhere": lambda: S.Everywhere(),
        "NonNegative": lambda: S.NonNegative(),
        "Box": lambda: S.Box(-rng.uniform(0.1, 1, d), rng.uniform(0.1, 1, d)),
        "LinfBall": lambda: S.LinfBall(0.5 * r),
        "L1Ball": lambda: S.L1Ball(r),
        "L2Ball": lambda: S.L2Ball(r),
        "LpBall": lambda: S.LpBall(1.5, r),
        "WeightedL1Ball": lambda: S.WeightedL1Ball(rng.uniform(0.3, 3, d), r),
        "Ellipsoid": lambda: S.Ellipsoid(rng.uniform(0.3, 3, d), r),
        "SubSimplex": lambda: S.SubSimplex(r),
        "Simplex": lambda: S.Simplex(r),
        "PackingPolytope": lambda: S.PackingPolytope(rng.uniform(0.1, 1, (2, d)), rng.uniform(0.1, 0.8, 2)),
        "GroupWise": lambda: S.GroupWise({0: S.L1Ball(r), 1: S.L2Ball(0.7 * r)}, groups=labels),
        "Intersection": lambda: S.Intersection(S.L1Ball(r), S.LinfBall(0.6 * r)),
        "Portfolio": lambda: S.Portfolio(budget=1.0, upper=0.7, groups=labels, caps=0.8),
    }
    return made[name]()


def make_risk(name, rng):
    """Well-posed: 30 samples of 4 to 6 features, labels that no hyperplane separates."""
    d, n = int(rng.integers(4, 7)), 30
    X = rng.standard_normal((n, d))
    score = X @ rng.uniform(-1, 1, d) + 0.5 * rng.standard_normal(n)
    match name:
        case "LeastSquares":
            return ez.risks.LeastSquares(X, score)
        case "LeastSquares, intercept":
            return ez.risks.LeastSquares(X, score + 2, ridge=0.01, fit_intercept=True)
        case "Quadratic":
            return ez.risks.Quadratic(X.T @ X / n, X.T @ score / n)
        case "Huber":
            return ez.risks.Huber(X, score + 5 * (rng.random(n) < 0.1), delta=0.7)
        case "Poisson":
            return ez.risks.Poisson(X, rng.poisson(np.exp(0.5 * score)))
        case "Gamma":
            return ez.risks.Gamma(X, rng.gamma(2.0, np.exp(0.5 * score)), offset=rng.uniform(0, 1, n))
        case "Quantile":
            return ez.risks.Quantile(X, score, quantile=0.6, smoothing=0.5, ridge=0.01)
        case "SquaredHinge":
            return ez.risks.SquaredHinge(X, score + rng.logistic(size=n) > 0, ridge=0.01)
    noise = 1.5 * rng.logistic(size=n)
    flipped = np.concatenate([X, X[:6]])  # the same rows with both labels: never separable
    if name.startswith("Logistic"):
        y = np.where(score + noise > 0, 1, -1)
        return ez.risks.Logistic(flipped, np.append(y, -y[:6]), ridge=0.05 if name.endswith("ridge") else 0.0)
    X = X[:, :2]
    y = np.digitize(score + noise, [-0.7, 0.7])
    rows = np.concatenate([X, *([X[:5]] * 3)])
    return ez.risks.Multinomial(rows, np.append(y, np.repeat([0, 1, 2], 5)), ridge=0.02)


def gap(risk, result, certificate):
    """The gap in units of max(|R|, R(0) - R); an optimum of R = R(0) = 0 at 0 has no such unit, its gap must be 0."""
    unit = max(abs(result.fun), risk.value(risk.zero) - result.fun)
    return certificate.gap / unit if unit else certificate.gap


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("name", RISKS)
def test_the_root_proves_a_convex_problem(name, kind):
    for seed in SEEDS:
        rng = np.random.default_rng([seed, zlib.crc32(f"{name} {kind}".encode())])
        risk = make_risk(name, rng)
        gamma = make_set(kind, risk.n_features, rng)
        result = ez.minimize(risk, risk.n_features, gamma)
        certificate = ez.certify(risk, result)
        assert gap(risk, result, certificate) <= 1e-6, f"seed {seed}, {gamma!r}, {certificate}"


def covariance(name):
    path = SHARED / "data" / "portfolio_selection" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(
            "the portfolios of the OR-Library are not beside the repository (../shared/data/portfolio_selection)"
        )
    with np.load(path) as data:
        return data["sigma"][:, None] * data["correlation"] * data["sigma"]


PORTFOLIOS = ["port1", "port2", "port3", "port4", "port5"]


@pytest.mark.parametrize("name", PORTFOLIOS)
def test_minimum_variance_over_all_assets_is_proved_at_the_root(name):
    risk = ez.risks.Quadratic(sigma := covariance(name), np.zeros(len(sigma)))
    result = ez.minimize(risk, len(sigma), S.Simplex(1.0))
    certificate = ez.certify(risk, result)
    assert gap(risk, result, certificate) <= 1e-6, certificate


@pytest.mark.parametrize("k", [10, 20])
@pytest.mark.parametrize("name", PORTFOLIOS)
def test_minimum_variance_with_few_assets_has_a_bound(name, k):
    risk = ez.risks.Quadratic(sigma := covariance(name), np.zeros(len(sigma)))
    result = ez.minimize(risk, k, S.Simplex(1.0))
    certificate = ez.certify(risk, result)
    if certificate.relative_gap > 0.05:
        certificate = ez.certify(risk, result, time_limit=10)
        assert certificate.status is ez.certificates.CertificateStatus.OPTIMAL, certificate
