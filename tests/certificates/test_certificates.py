"""Lower bounds, screening and branch and bound, against every support there is."""

import importlib.util
import itertools
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import ellzero as ez
from ellzero.certificates import CertificateStatus
from ellzero.certificates import perspective as perspective_module
from ellzero.certificates.answer import Answer
from ellzero.certificates.atoms import Atoms, simplex_minimum
from ellzero.certificates.perspective import Perspective
from ellzero.certificates.perspective_dual import PerspectiveDual
from ellzero.certificates.quadratic_form import improve_split, is_positive, smallest_eigenvalue
from ellzero.certificates.root_bound import bound_root
from ellzero.certificates.smooth_parts import smooth_part
from ellzero.certificates.supports import Decisions, Supports
from ellzero.sets.polyhedron import Polyhedron
from ellzero.solver.exchanges import refit

S = ez.sets
D = 7


def make_sets(rng, d=D):
    """Every kind of set, tight enough to bind."""
    groups = np.arange(d) % 3
    return {
        "everywhere": None,
        "nonnegative": S.NonNegative(),
        "box": S.Box(-0.3, rng.uniform(0.1, 1, d)),
        "forced box": S.Box(np.where(np.arange(d) == 2, 0.1, -0.5), 0.6),
        "linf": S.LinfBall(0.4),
        "l1": S.L1Ball(0.8),
        "l2": S.L2Ball(0.7),
        "l3": S.LpBall(3.0, 0.6),
        "sub-simplex": S.SubSimplex(0.8),
        "simplex": S.Simplex(1.0),
        "group l1": S.GroupWise(S.L1Ball(0.3), groups),
        "group sub-simplex": S.GroupWise(S.SubSimplex(0.3), groups),
        "group l2": S.GroupWise(S.L2Ball(0.3), groups),
        "group boxes": S.GroupWise(S.LinfBall(0.3), groups),
        "one group": S.GroupWise({0: S.L1Ball(0.3)}, groups),
        "weighted l1": S.WeightedL1Ball(rng.uniform(0.5, 2, d), 0.8),
        "ellipsoid": S.Ellipsoid(rng.uniform(0.3, 1, d), 1.0),
        "packing": S.PackingPolytope(rng.uniform(0, 1, (2, d)), [0.5, 0.5]),
        "intersection": S.Intersection(S.L1Ball(0.8), S.LinfBall(0.3)),
        "portfolio": S.Portfolio(1.0, upper=0.7, groups=groups, caps=0.8),
    }


def make_risks(rng, n, d=D):
    """Every kind of convex risk."""
    X = rng.standard_normal((n, d))
    w = np.zeros(d)
    w[:3] = [1.0, -0.7, 0.5]
    y = X @ w + 0.5 * rng.standard_normal(n)
    label = (y > np.median(y)).astype(int)
    sign = 2 * label - 1
    weight = rng.uniform(0.5, 2, n)
    return {
        "least squares": ez.risks.LeastSquares(X, y),
        "weighted ridge": ez.risks.LeastSquares(X, y, ridge=0.3, fit_intercept=True, sample_weight=weight),
        "huber": ez.risks.Huber(X, y, ridge=0.2, delta=0.5),
        "logistic": ez.risks.Logistic(X, label, ridge=0.1, fit_intercept=True),
        "flat logistic": ez.risks.Logistic(X, label),
        "poisson": ez.risks.Poisson(0.3 * X, rng.poisson(np.exp(0.3 * X @ w)), ridge=0.1),
        "gamma": ez.risks.Gamma(0.3 * X, np.exp(0.3 * y), ridge=0.1, fit_intercept=True),
        "squared hinge": ez.risks.SquaredHinge(X, label, ridge=0.1),
        "quantile": ez.risks.Quantile(X, y, ridge=0.1, quantile=0.8, smoothing=0.2, offset=0.3 * weight),
        "quadratic": ez.risks.Quadratic(X.T @ X / n + 0.05 * np.eye(d), X.T @ y / n),
        "multinomial": ez.risks.Multinomial(X[:, :3], rng.permutation(np.arange(n) % 3), ridge=0.1),
        "float32": ez.risks.LeastSquares(X.astype(np.float32), y.astype(np.float32), ridge=0.2),
        "smooth": ez.risks.Smooth(
            lambda v: float(np.mean(np.logaddexp(0, -sign * (X @ v))) + 0.05 * v @ v),
            lambda v: -X.T @ (sign / (1 + np.exp(sign * (X @ v)))) / n + 0.1 * v,
            d,
            strong_convexity=0.1,
        ),
    }


def caps_of(gamma, s):
    """The slice of Γ on s: bounds, rows (a, cap, equal) with Σa|w| <= cap, balls (c, p, r) with Σ|c·w|^p <= r^p."""
    one = np.ones(s.size)
    low, high, rows, balls = -np.inf * one, np.inf * one, [], []
    match gamma:
        case S.NonNegative():
            low = 0 * one
        case S.Box():
            low, high = ((one * bound if np.ndim(bound) == 0 else bound[s]) for bound in (gamma.lower, gamma.upper))
        case S.LinfBall():
            low, high = -gamma.radius * one, gamma.radius * one
        case S.SubSimplex() | S.Simplex():
            low, rows = 0 * one, [(one, gamma.total, isinstance(gamma, S.Simplex))]
        case S.L1Ball() | S.WeightedL1Ball():
            rows = [(getattr(gamma, "weights", np.ones(D + 2))[s], gamma.radius, False)]
        case S.L2Ball() | S.LpBall() | S.Ellipsoid():
            balls = [(1 / getattr(gamma, "scales", np.ones(D + 2))[s], getattr(gamma, "p", 2.0), gamma.radius)]
        case S.PackingPolytope():
            low, rows = 0 * one, [(a[s], b, False) for a, b in zip(gamma.A, gamma.b, strict=True)]
        case S.Portfolio():
            low, high = 0 * one, 0.7 * one
            rows = [(one, 1.0, True), *((1.0 * (s % 3 == g), 0.8, False) for g in range(3))]
        case S.GroupWise() | S.Intersection():
            for g, inner in enumerate(gamma.sets):
                mine = s % 3 == g if isinstance(gamma, S.GroupWise) else one > 0
                below, above, more, further = caps_of(inner, s)
                low, high = np.where(mine, np.maximum(low, below), low), np.where(mine, np.minimum(high, above), high)
                rows, balls = rows + [(a * mine, *c) for a, *c in more], balls + [(a * mine, *c) for a, *c in further]
    return low, high, rows, balls


def least_on(risk, gamma, s):
    """R at a member next to where SLSQP ends on a support, w = p - q with p, q >= 0; None where there is no member."""
    low, high, rows, balls = caps_of(gamma, s)
    bounds = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    bounds += [(max(-b, 0), max(-a, 0)) for a, b in zip(low, high, strict=True)]
    if any(a > b for a, b in bounds):
        return None
    k, w = s.size, np.zeros(risk.n_features)

    def at(z):
        w[s] = z[:k] - z[k:]
        return w

    def slope(z):
        g = np.asarray(risk.gradient(at(z)), dtype=float)[s]
        return np.concatenate([g, -g])

    limits = [
        {"type": "eq" if equal else "ineq", "fun": lambda z, a=a, b=b: b - a @ (z[:k] + z[k:])} for a, b, equal in rows
    ]
    limits += [
        {"type": "ineq", "fun": lambda z, c=c, p=p, r=r: 1 - np.sum(np.abs(c * (z[:k] - z[k:]) / r) ** p)}
        for c, p, r in balls
    ]
    start = np.clip(np.zeros(2 * k), *np.transpose(bounds).reshape(2, -1))
    end = optimize.minimize(
        lambda z: risk.value(at(z)), start, jac=slope, bounds=bounds, constraints=limits, method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )  # fmt: skip
    near = end.x[:k] - end.x[k:]
    try:
        w[s] = gamma.project(near, s)
    except S.EmptySlice:
        return None
    assert np.linalg.norm(w[s] - near) <= 1e-6 * (1 + np.linalg.norm(near)), (gamma, s, near, w[s], end)
    return risk.value(w)


def every_support(risk, k, gamma, keep=()):
    """The least R on every support of k coordinates, as a solver without any of our code finds it."""
    gamma = S.Everywhere() if gamma is None else gamma
    if risk.zero.dtype == np.float32:  # the same numbers: what single precision rounds off leads line searches astray
        risk = ez.risks.LeastSquares(risk.design.X.astype(float), risk.y.astype(float), ridge=risk.ridge)
    must = {*keep, *np.flatnonzero(caps_of(gamma, np.arange(risk.n_features))[0] > 0)}
    values = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for support in itertools.combinations(range(risk.n_features), k):
            if must <= set(support) and (value := least_on(risk, gamma, np.array(support))) is not None:
                values[support] = value
    return values


def check_certificate(risk, k, gamma, keep=(), values=None):
    """Raise if a bound exceeds the optimum, a proved coordinate is wrong, or the search misses the optimum."""
    values = every_support(risk, k, gamma, keep) if values is None else values
    if not values:
        return None
    optimum = min(values.values())
    # an optimum in single precision is known to single precision
    off = 3e-6 if risk.zero.dtype == np.float32 else 1e-9
    slack = off * abs(optimum) + 1e-12
    optimal = [set(support) for support, value in values.items() if value <= optimum * (1 + 1e-14)]
    try:
        result = ez.minimize(risk, k, gamma, keep=keep)
    except S.EmptySlice:
        return None
    # from a poor answer as well: with the optimum in hand, too high a bound is cut down to it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        poor = ez.minimize(risk, k, gamma, ez.Method(step=1.0), keep=keep, max_iter=0)
    assert ez.certify(risk, poor).lower_bound <= optimum + slack
    certificate = ez.certify(risk, result)
    assert certificate.lower_bound <= optimum + slack
    assert certificate.gap == pytest.approx(max(0.0, result.fun - certificate.lower_bound))
    for support in optimal:
        assert set(certificate.proved_in.tolist()) <= support
        assert not set(certificate.proved_out.tolist()) & support
    if certificate.status is not CertificateStatus.NO_BOUND:
        best = ez.minimize(risk, k, gamma, "exact", keep=keep, time_limit=20)
        assert best.fun <= optimum + max(slack, 2e-6 * abs(optimum))
        assert best.certificate.lower_bound <= optimum + slack
        assert best.support.size <= k
        assert best.violation <= 1e-12 or best.x.dtype == np.float32
        assert best.status in (ez.Status.OPTIMAL, ez.Status.TARGET_GAP, ez.Status.SETTLED)
    return certificate


KINDS = sorted(make_risks(np.random.default_rng(0), 12))
SETS = sorted(make_sets(np.random.default_rng(0)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_bounds_screening_and_search_agree_with_enumeration(kind, name):
    if name == "l3" and kind not in ("least squares", "logistic", "float32"):
        pytest.skip("iterative projections, thousands of times: three risks are enough")
    seed = KINDS.index(kind) * 100 + SETS.index(name)
    rng = np.random.default_rng(seed)
    n, k = (25, 9, 5)[seed % 3], 1 + seed % 3
    risk = make_risks(rng, n)[kind]
    gamma = make_sets(rng, risk.n_features)[name]
    keep = [1] if seed % 4 == 0 else []
    check_certificate(risk, k, gamma, keep)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(3, 30), k=st.integers(1, D), ridge=st.sampled_from([0.0, 1e-6, 0.1, 10.0])
)
@pytest.mark.slow
def test_least_squares_in_boxes_of_any_shape(seed, n, k, ridge):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * 10.0 ** rng.integers(-3, 4, D)
    if seed % 3 == 0:
        X[:, 1] = X[:, 0]  # collinear
    y = rng.standard_normal(n)
    risk = ez.risks.LeastSquares(X, y, ridge=ridge, fit_intercept=bool(seed % 2))
    lower, upper = -rng.exponential(1, D), rng.exponential(1, D)
    lower[rng.random(D) < 0.3] = -np.inf
    upper[rng.random(D) < 0.3] = np.inf
    lower[rng.random(D) < 0.2] = 0.0
    if seed % 2:
        X, y = X - X.mean(axis=0), y - y.mean()
    A, b = np.vstack([X / math.sqrt(n), math.sqrt(ridge / 2) * np.eye(D)]), np.append(y / math.sqrt(n), np.zeros(D))
    values = {}
    for support in itertools.combinations(range(D), k):
        s = list(support)
        u = optimize.lsq_linear(A[:, s], b, (lower[s], upper[s]), method="bvls").x
        values[support] = float(np.sum((A[:, s] @ u - b) ** 2))
    check_certificate(risk, k, S.Box(lower, upper), values=values)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_bounds_do_not_depend_on_units(scale):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((30, 8)), rng.standard_normal(30)
    risk = ez.risks.LeastSquares(X * scale, y * scale, ridge=0.2 * scale**2)
    certificate = ez.certify(risk, ez.minimize(risk, 3))
    plain = ez.risks.LeastSquares(X, y, ridge=0.2)
    assert certificate.relative_gap == pytest.approx(
        ez.certify(plain, ez.minimize(plain, 3)).relative_gap, rel=1e-4, abs=1e-9
    )


def test_a_perfect_fit_is_proved_optimal():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    risk = ez.risks.LeastSquares(X, X[:, 3] - X[:, 5])
    result = ez.minimize(risk, 2)
    assert result.fun < 1e-20
    assert ez.certify(risk, result).status is CertificateStatus.OPTIMAL


@pytest.mark.parametrize("seed", range(40))
def test_a_target_gap_leaves_nothing_aside_that_is_better(seed):
    """A poor answer with a target a little above its true gap: screening must not forget what it set aside."""
    rng = np.random.default_rng(seed)
    n, d, k = 12, 7, 1 + seed % 2
    risk = ez.risks.LeastSquares(rng.standard_normal((n, d)), rng.standard_normal(n), ridge=0.1)
    values = every_support(risk, k, None)
    optimum = min(values.values())
    for rank in (1, 3, 6):
        support = np.array(sorted(values, key=values.get)[rank])
        poor = refit(risk, S.Everywhere(), support)
        answer = replace(ez.minimize(risk, k), x=poor.w, fun=poor.value)
        for more in (1.0001, 1.02, 1.3):
            certificate = ez.certify(risk, answer, target_gap=more * (answer.fun - optimum) / answer.fun)
            assert certificate.lower_bound <= optimum * (1 + 1e-9)
            best = [set(s) for s, value in values.items() if value <= optimum * (1 + 1e-14)]
            assert all(set(certificate.proved_in) <= s and not s & set(certificate.proved_out) for s in best)
            if certificate.status in (CertificateStatus.TARGET, CertificateStatus.OPTIMAL):
                assert certificate.relative_gap <= more * (answer.fun - optimum) / answer.fun + 1e-6


def test_optimality_is_not_measured_against_a_huge_value_at_zero():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40), rng.standard_normal((40, 6))])
    risk = ez.risks.LeastSquares(X, 2e6 + X[:, 3] + X[:, 5] + 0.3 * rng.standard_normal(40))
    best = ez.minimize(risk, 3, keep=[0], method="exact")
    poor = refit(risk, S.Everywhere(), np.array([0, 1, 2]))
    certificate = ez.certify(risk, replace(best, x=poor.w, fun=poor.value))
    assert poor.value > 2 * best.fun
    assert certificate.status is not CertificateStatus.OPTIMAL


def test_a_result_of_another_risk_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
    result = ez.minimize(ez.risks.LeastSquares(X, y, ridge=0.1), 2)
    with pytest.raises(ValueError, match="R of its x is"):
        ez.certify(ez.risks.LeastSquares(X, 10 * y, ridge=0.1), result)
    with pytest.raises(ValueError, match="5 coordinates, the risk 4"):
        ez.certify(ez.risks.LeastSquares(X[:, :4], y, ridge=0.1), result)


def test_weights_in_single_precision_that_do_not_add_up_to_one():
    rng = np.random.default_rng(5)
    X = (3000 + rng.standard_normal((60, 5))).astype(np.float32)
    y = (3000 + rng.standard_normal(60)).astype(np.float32)
    weight = rng.uniform(0.1, 3, 60).astype(np.float32)
    single = ez.risks.LeastSquares(X, y, ridge=0.1, sample_weight=weight, fit_intercept=True)
    double = ez.risks.LeastSquares(
        X.astype(float), y.astype(float), ridge=0.1, sample_weight=weight.astype(float), fit_intercept=True
    )
    optimum = min(every_support(double, 2, None).values())
    assert ez.certify(single, ez.minimize(single, 2)).lower_bound <= optimum * (1 + 1e-6)


# Planted errors: what the checks above are worth.


def _fails_somewhere():
    rng = np.random.default_rng(5)
    for kind in ("weighted ridge", "least squares", "logistic"):
        for name in ("everywhere", "box", "group l2", "l1"):
            risk = make_risks(rng, 25)[kind]
            gamma = make_sets(rng, risk.n_features)[name]
            try:
                check_certificate(risk, 2, gamma)
            except AssertionError:
                return True
    return False


@pytest.mark.slow
def test_nothing_fails_without_planted_errors():
    assert not _fails_somewhere()


def _wrong_maximum(monkeypatch):
    plain = Atoms.maximum
    monkeypatch.setattr(Atoms, "maximum", lambda self, *a: (0.7 * (found := plain(self, *a))[0], found[1]))


def _wrong_gains(monkeypatch):
    plain = PerspectiveDual._gains
    monkeypatch.setattr(PerspectiveDual, "_gains", lambda self, z: 0.8 * plain(self, z))


def _too_much_curvature(monkeypatch):
    monkeypatch.setattr(
        perspective_module, "smallest_eigenvalue", lambda form, scaled: 3.0 * smallest_eigenvalue(form, scaled)
    )


def _careless_screening(monkeypatch):
    plain = Perspective.screen

    def one_too_many(self, relaxed, part, level):
        return plain(self, relaxed, part, level).leaving(int(relaxed.evidence.argmax()))

    monkeypatch.setattr(Perspective, "screen", one_too_many)


def _larger_k(monkeypatch):
    plain = Perspective.__init__

    def smaller(self, form, supports, *others):
        plain(self, form, Supports(max(1, supports.k - 1)), *others)

    monkeypatch.setattr(Perspective, "__init__", smaller)


@pytest.mark.parametrize("plant", [_wrong_maximum, _wrong_gains, _too_much_curvature, _careless_screening, _larger_k])
@pytest.mark.slow
def test_planted_errors_are_found(plant, monkeypatch):
    plant(monkeypatch)
    assert _fails_somewhere()


# The parts.


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 8))
def test_simplex_minimum_satisfies_its_optimality_conditions(seed, m):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rng.integers(1, 2 * m + 1), m))
    G, c = A.T @ A, rng.standard_normal(m)
    start = rng.dirichlet(np.ones(m))
    x = simplex_minimum(G, c, start)
    assert (x >= 0).all() and x.sum() == pytest.approx(1.0)
    slope = G @ x + c
    assert slope @ x <= slope.min() + 1e-8 * (1 + np.abs(slope).max())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 12))
def test_splits_leave_a_semidefinite_rest(seed, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((d + 3, d)) * 10.0 ** rng.integers(-2, 3, d)
    form = ez.risks.LeastSquares(X, rng.standard_normal(d + 3), ridge=0.01).quadratic_form(2)
    for scaled in (False, True):
        delta = smallest_eigenvalue(form, scaled)
        for split in (delta, improve_split(form, delta, rng.exponential(1, d))):
            assert (split >= 0).all()
            low = np.linalg.eigvalsh(form.Q - np.diag(split))[0]
            assert low >= -1e-12 * np.abs(form.Q).max()
    assert not is_positive(form, 1.01 * np.diag(form.Q) + 1e-9)


def test_improved_splits_raise_the_bound():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 20))
    X = X @ np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(20), np.arange(20)))).T
    risk = ez.risks.LeastSquares(X, X[:, ::5].sum(axis=1) + rng.standard_normal(60))
    result = ez.minimize(risk, 4)
    answer = Answer(risk, result, math.inf)
    part = Decisions(answer.kept, np.zeros(20, bool))
    first = Perspective.of(answer).solve(part, result.x, math.inf, first=True).bound
    assert bound_root(answer, None).relaxed.bound > first


@pytest.mark.parametrize(
    "name", ["everywhere", "linf", "nonnegative", "l1", "group sub-simplex", "simplex", "portfolio", "packing"]
)
def test_the_relaxation_is_the_perspective_one(name):
    """Newton's maximum against the primal of the same relaxation, solved by cvxpy."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(2)
    X, y, k, d = rng.standard_normal((40, 10)), rng.standard_normal(40), 3, 10
    gamma = (make_sets(rng, d)[name] or S.Everywhere()).polyhedron(d)
    if name == "linf":
        gamma = Polyhedron.box(-0.08, 0.08, d)
    if name == "l1":
        gamma = Polyhedron.box(-np.inf, np.inf, d).with_row(1.0, 0.2)
    form = ez.risks.LeastSquares(X, y, ridge=0.1).quadratic_form(k)
    delta = smallest_eigenvalue(form, False)
    relaxation = Perspective(form, Supports(k), gamma, delta, np.arange(d))
    found = relaxation.maximise(Decisions(np.array([2]), np.arange(d) == 7), np.zeros(d), math.inf, 300, 1e-12)
    w, s = cp.Variable(d), cp.Variable(d)
    rest = np.linalg.cholesky(form.Q - np.diag(delta) + 1e-13 * np.eye(d))
    perspective = sum(delta[i] / 2 * cp.quad_over_lin(w[i], s[i]) for i in range(d))
    limits = [s >= 0, s <= 1, cp.sum(s) <= k, s[2] == 1, w[7] == 0]
    limits += [w[i] <= gamma.upper[i] * s[i] for i in range(d) if np.isfinite(gamma.upper[i])]
    limits += [w[i] >= gamma.lower[i] * s[i] for i in range(d) if np.isfinite(gamma.lower[i])]
    for row, cap, equal in zip(gamma.A, gamma.h, gamma.equal, strict=True):
        limits.append(row @ w == cap if equal else row @ cp.abs(w) <= cap)
    problem = cp.Problem(cp.Minimize(form.c - form.b @ w + cp.sum_squares(rest.T @ w) / 2 + perspective), limits)
    problem.solve(solver="CLARABEL")
    assert found.bound == pytest.approx(problem.value, rel=1e-5)
    assert found.bound <= problem.value + 1e-7


@pytest.mark.parametrize("name", SETS)
def test_slices_and_larger_sets_hold_what_they_should(name):
    rng = np.random.default_rng(7)
    gamma = make_sets(rng)[name] or S.Everywhere()
    index = np.array([0, 1, 2, 4, 6])
    for _ in range(20):
        inside = gamma.project(rng.standard_normal(index.size), index)
        w = np.zeros(D)
        w[index] = inside
        for larger in gamma.enclosing(D):
            assert larger.contains(w, 1e-9) and larger.has_sparse_maximum(1.0)
        shape = gamma.polyhedron(D)
        if shape is not None:
            assert (shape.lower - 1e-12 <= w).all() and (w <= shape.upper + 1e-12).all()
            assert (shape.A @ np.abs(w) <= shape.h + 1e-9).all()
            assert np.allclose((shape.A @ w)[shape.equal], shape.h[shape.equal])
            assert (shape.A >= 0).all() and shape.positive[(shape.A[shape.equal] > 0).any(axis=0)].all()
        part = gamma.slice_on(index)
        if part is not None:
            assert part.contains(inside, 1e-9)
            v = rng.standard_normal(index.size)
            np.testing.assert_allclose(part.project(v), gamma.project(v, index), atol=1e-8)


def test_a_set_of_the_users_own_is_not_taken_for_its_parent():
    class Mine(S.L1Ball):
        def project(self, v, support=None):
            return 0 * v

    assert Mine(1.0).slice_on(np.array([0])) is None
    assert Mine(1.0).polyhedron(3) is None
    assert Mine(1.0).enclosing(3) == []


def test_users_sets_without_slices_are_searched_correctly():
    class Capped(S.ConstraintSet):
        closed_under_zeroing = True

        def __init__(self):
            self.box = S.LinfBall(0.4)

        def project(self, v, support=None):
            return self.box.project(v, support)

        def violation(self, w):
            return self.box.violation(w)

        def sparse_maximum(self, z, k, mu, keep=None):
            return self.box.sparse_maximum(z, k, mu, keep)

    risk = make_risks(np.random.default_rng(1), 20)["weighted ridge"]
    check_certificate(risk, 2, Capped(), values=every_support(risk, 2, S.LinfBall(0.4)))


# What the user sees.


def _small():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 25))
    return ez.risks.LeastSquares(X, X[:, :4].sum(axis=1) + 2 * rng.standard_normal(30), ridge=0.05)


def test_words_say_what_is_proved():
    risk = _small()
    result = ez.minimize(risk, 4)
    certificate = ez.certify(risk, result)
    assert "proven within" in certificate.words and "%" in certificate.words
    assert "to improve" in repr(certificate)
    exact = ez.minimize(risk, 4, method="exact")
    assert exact.status is ez.Status.OPTIMAL and exact.success and "proven optimal" in repr(exact)
    assert exact.certificate.gap <= 1.1e-6 * exact.fun
    assert exact.certificate.history[-1].bound <= exact.fun


def test_no_useful_bound_is_said_in_words():
    rng = np.random.default_rng(0)
    risk = ez.risks.LeastSquares(rng.standard_normal((5, 20)), rng.standard_normal(5))
    result = ez.minimize(risk, 2)
    certificate = ez.certify(risk, result)
    assert certificate.status is CertificateStatus.NO_BOUND
    assert certificate.lower_bound == 0.0  # of the loss itself
    assert "ridge" in certificate.advice and "nothing proven" in certificate.words
    with pytest.raises(ValueError, match="ridge > 0"):
        ez.minimize(risk, 2, method="exact")


def test_refusals():
    risk = _small()
    with pytest.raises(TypeError, match="result must be"):
        ez.certify(risk, 3)
    with pytest.raises(TypeError, match="risk must be"):
        ez.certify(3, ez.minimize(risk, 2))
    black = ez.risks.BlackBox(lambda w: float(w @ w), 3)
    assert ez.certify(black, ez.minimize(black, 1, max_queries=50)).status is CertificateStatus.NO_BOUND
    bent = ez.risks.Smooth(lambda w: float(np.sin(w).sum()), np.cos, 3)
    assert "convex" in ez.certify(bent, ez.minimize(bent, 1, S.LinfBall(1.0))).advice
    with pytest.raises(ValueError, match="checkpoint does not go"):
        ez.minimize(risk, 2, method="exact", checkpoint="x.npz")


def test_a_target_gap_ends_auto_and_exact():
    risk = _small()
    loose = ez.minimize(risk, 4, target_gap=0.9)
    assert loose.status is ez.Status.TARGET_GAP and loose.certificate.relative_gap <= 0.9
    tight = ez.minimize(risk, 4, target_gap=0.0)
    assert tight.status is not ez.Status.TARGET_GAP and tight.certificate is not None
    assert tight.fun <= loose.fun
    exact = ez.minimize(risk, 4, method="exact", target_gap=0.03)
    assert exact.certificate.relative_gap <= 0.03
    assert exact.nit <= ez.minimize(risk, 4, method="exact").nit
    with pytest.raises(ValueError, match="deterministic"):
        ez.minimize(risk, 4, method=ez.Method(oracle=ez.MiniBatch(10), step=0.01), target_gap=0.1)


def _hard():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    return ez.risks.LeastSquares(X, rng.standard_normal(40), ridge=0.02)


def test_time_limits_and_interruptions_return_the_incumbent_and_its_gap():
    risk, seen = _hard(), []
    limited = ez.minimize(risk, 10, method="exact", time_limit=0.5)
    assert limited.status is ez.Status.TIME_LIMIT and not limited.success
    assert 0 < limited.certificate.relative_gap < 1.01

    def stop(intermediate):
        seen.append(intermediate)
        raise StopIteration

    stopped = ez.minimize(risk, 10, method="exact", callback=stop, time_limit=30)
    assert stopped.status is ez.Status.INTERRUPTED and len(seen) == 1
    assert seen[0].status is ez.Status.RUNNING and seen[0].certificate.lower_bound <= stopped.fun
    assert stopped.certificate.lower_bound >= seen[0].certificate.lower_bound

    def interrupt(progress):
        raise KeyboardInterrupt

    certificate = ez.certify(risk, limited, time_limit=30, callback=interrupt)
    assert certificate.status is CertificateStatus.INTERRUPTED
    bounds = [line.bound for line in limited.certificate.history]
    assert all(a <= b + 1e-15 for a, b in itertools.pairwise(bounds))


def test_a_better_point_met_on_the_way_is_handed_over():
    risk = _small()
    poor = ez.minimize(risk, 3, method="IHT", max_iter=3)
    certificate = ez.certify(risk, poor, time_limit=20)
    best = ez.minimize(risk, 3, method="exact", time_limit=20)
    assert best.status is ez.Status.OPTIMAL
    assert certificate.fun == pytest.approx(best.fun)
    history = certificate.history
    assert all(a.bound <= b.bound + 1e-12 and a.incumbent >= b.incumbent for a, b in itertools.pairwise(history))
    assert all(line.bound <= best.fun for line in history)
    assert risk.value(certificate.x) == pytest.approx(certificate.fun)
    assert certificate.gap + certificate.lower_bound == pytest.approx(poor.fun)
    assert certificate.status is CertificateStatus.BETTER and "not the best" in certificate.words
    assert "better point" in repr(certificate)


def test_verbose_prints_the_search(capsys):
    ez.minimize(_hard(), 6, method="exact", time_limit=0.6, verbose=2)
    printed = capsys.readouterr().out
    assert "incumbent" in printed and "proven within" in printed


def test_frank_wolfe_parts_are_what_they_say():
    """f, its gradient and the value at a dual point, for every smooth part."""
    rng = np.random.default_rng(4)
    for kind, risk in make_risks(rng, 20).items():
        part = smooth_part(risk, risk.quadratic_form(2), 2)
        w = rng.standard_normal(risk.n_features) * 0.3
        look = part.look(w, part.image(w))
        assert look.f + 0.5 * part.mu * w @ w == pytest.approx(
            risk.value(w), rel=1e-5 if kind == "float32" else 1e-9
        ), kind
        gradient = np.asarray(risk.gradient(w), dtype=float)
        np.testing.assert_allclose(-look.z + part.mu * w, gradient, atol=1e-5 if kind == "float32" else 1e-9)
        assert look.value <= look.f + look.z @ w + 1e-12


def test_the_maximum_is_raised_by_what_rounding_may_add():
    risk = make_risks(np.random.default_rng(0), 20)["logistic"]
    relaxation = Atoms(risk.smooth_part(), S.L1Ball(1.0), Supports(3))
    z, nothing = np.ones(D), Decisions(np.empty(0, int), np.zeros(D, bool))
    value, _ = relaxation.maximum(z, 0.0, nothing)
    raised, _ = relaxation.maximum(z, 0.1, nothing)
    assert (
        raised
        >= max(S.L1Ball(1.0).sparse_maximum(z + 0.1 / np.sqrt(3) * u, 3, 0.1)[0] for u in (1.0, -1.0))
        > value - 1e-9
    )


@pytest.mark.parametrize(
    ("k", "radius", "gap"), [(50, 0.5, 3e-5), (150, 0.5, 4e-4), (50, 0.01, 1e-6), (150, 0.01, 1e-5)]
)
@pytest.mark.slow
def test_the_papers_logistic_regressions_are_proved_nearly_optimal(k, radius, gap):
    dna = ez.datasets.load_dna()
    risk = ez.risks.Multinomial(dna.X, dna.y, ridge=20 / 3)
    ball = S.GroupWise(S.L2Ball(radius), groups=np.repeat(np.arange(3), 180))
    certificate = ez.certify(risk, ez.minimize(risk, k, ball))
    assert certificate.relative_gap <= gap
    assert certificate.explained_gap <= 1e-4  # the harder yardstick


def test_index_tracking_on_the_hang_seng_is_proved_optimal():
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "hsi_2021_2022"
    if not folder.is_dir():
        pytest.skip("the rebuilt Hang Seng data are not beside the repository (../shared/data/hsi_2021_2022)")
    train, _ = ez.datasets.read_prices(folder / "prices.csv.gz", sectors=folder / "sectors.csv").split()
    risk = ez.risks.LeastSquares(train.returns, train.index_returns)
    best = ez.minimize(risk, 15, S.GroupWise(S.L1Ball(0.2), train.sectors), method="exact", time_limit=120)
    assert best.status is ez.Status.OPTIMAL


@pytest.mark.slow
def test_the_page_prints_what_it_says(capsys):
    page = (Path(__file__).parents[2] / "docs" / "certificates.md").read_text(encoding="utf-8")
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, "certificates.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [line for block in re.findall(r"```text\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert (Path(__file__).parents[2] / "docs" / "figures" / "certificate.png").is_file()


def test_the_example_closes_the_gap(tmp_path, capsys):
    path = Path(__file__).parents[2] / "examples" / "certificate.py"
    spec = importlib.util.spec_from_file_location("certificate_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(["--seed", "8", "--out", str(tmp_path / "picture.png")]) == 0
    assert "nothing is below" in capsys.readouterr().out and (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize("exponent", [-300, 300, 370])
def test_a_better_split_does_not_depend_on_the_scale(exponent):
    """Squares of what is split off once left the numbers: X of size 1e112, say."""
    X = np.random.default_rng(0).standard_normal((12, 5))
    Q, weight = X.T @ X, np.array([1.0, 0.5, 2.0, 0.1, 1.0])
    form, scaled = (ez.risks.Quadratic(np.ldexp(Q, 2 * e), np.zeros(5)).quadratic_form(2) for e in (0, exponent))
    delta = smallest_eigenvalue(form, scaled=True)
    better = improve_split(form, delta, weight)
    assert weight @ better > 1.01 * weight @ delta
    found = improve_split(scaled, np.ldexp(delta, 2 * exponent), weight)
    assert np.array_equal(found, np.ldexp(better, 2 * exponent))


@pytest.mark.parametrize("seed", range(5))
def test_a_target_gap_in_single_precision(seed):
    """The objective on the way is rounded to the data's precision, and the proof reads it in double."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 8)).astype(np.float32)
    risk = ez.risks.LeastSquares(X, X[:, 0] + rng.standard_normal(30))
    result = ez.minimize(risk, 3, S.L2Ball(0.8), target_gap=0.05)
    assert result.certificate.relative_gap <= 0.05
