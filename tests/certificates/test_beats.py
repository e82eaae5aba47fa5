"""Promises that no sparser vector is better: against enumeration, in rational numbers, with planted errors."""

import dataclasses
import itertools
import sys
import warnings
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero.experiments import logistic
from ellzero.sets import base
from ellzero.solver.examined import Examined
from ellzero.solver.refit import refit
from ellzero.theory._blocks import Blocks

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks are beside the tests

from benchmarks.fuzz import cases as edges
from benchmarks.fuzz import referee as exactly
from benchmarks.fuzz.rationals import vector
from benchmarks.fuzz.regions import MP, mp
from benchmarks.promises.cases import SETS, answered, case, refuted
from benchmarks.promises.referee import Objective, Region, best, supports_of

TOLERANCE = 1e-9


@lru_cache(maxsize=300)
def asked(seed):
    problem = case(seed)
    return problem, answered(problem)


def promised(seeds):
    """The cases among these whose answers carry a promise, and by how much the referee finds it broken."""
    for problem, result in map(asked, seeds):
        if result is not None and (promise := ez.beats(problem.risk, result)):
            yield problem, promise, refuted(problem, result, promise)


def test_no_promise_is_broken():
    found = [(p.seed, p.kind, p.k, b.k_bar, e) for p, b, e in promised(range(220))]
    assert len(found) > 130 and not [f for f in found if f[-1] > TOLERANCE]
    assert {kind for _, kind, *_ in found for kind in kind[1:2]} == set(SETS)
    assert any(k_bar < k for _, _, k, k_bar, _ in found) and any(k_bar == k for _, _, k, k_bar, _ in found)


@pytest.mark.parametrize("first", range(220, 2220, 250))
@pytest.mark.slow
def test_no_promise_is_broken_at_length(first):
    assert not [(p.seed, p.kind, b.k_bar, e) for p, b, e in promised(range(first, first + 250)) if e > TOLERANCE]


# ---- planted errors ----


def caught(seeds, plant, kinds=SETS, nu=1.0):
    """How many promises the referee breaks, with an error planted."""
    count = 0
    for problem, result in map(asked, seeds):
        if problem.kind[1] not in kinds or result is None:
            continue
        true = problem.objective.curvature()[0]
        if true <= 0:
            continue
        with plant(problem, result):
            promise = ez.beats(problem.risk, result, nu=nu * true)
        count += bool(promise) and refuted(problem, result, promise) > TOLERANCE
    return count


def nothing(problem, result):
    return mock.patch.object(base, "math", base.math)


def without_the_steepest(problem, result):
    x = np.asarray(result.x, float)
    g, doubt = problem.risk.enclosed_gradient(x)
    outside = np.where(x == 0, np.abs(g), -1.0)
    g = np.where(np.arange(x.size) == outside.argmax(), 0.0, g)
    return mock.patch.object(type(problem.risk), "enclosed_gradient", lambda self, w: (g, doubt))


def prices_outside(factor):
    """Multipliers that are right on the support, and this many times as large outside."""
    real = base.under_caps

    def wrong(shape, x, g):
        m, outside = real(shape, x, g), x == 0
        up, down = g + factor * (m.up - g), -g + factor * (m.down + g)
        return m._replace(up=np.where(outside, up, m.up), down=np.where(outside, down, m.down))

    return lambda problem, result: mock.patch.object(base, "under_caps", wrong)


def balls_inside_out(problem, result):
    """The slope of a ball with the wrong sign."""
    real = base.in_ellipsoid

    def wrong(c, r, x, g):
        m = real(c, r, x, g)
        return m._replace(up=2 * g - m.up, down=m.up - 2 * g)

    return mock.patch.object(base, "in_ellipsoid", wrong)


def test_planted_errors_are_caught():
    seeds = range(130)
    assert caught(seeds, nothing, nu=0.999) == 0
    assert caught(seeds, nothing, nu=3.0) >= 3
    assert caught(seeds, without_the_steepest) >= 3
    assert caught(seeds, prices_outside(-1.0), ("Simplex",)) >= 2  # the wrong sign
    assert caught(seeds, prices_outside(3.0), ("L1Ball", "WeightedL1Ball", "PackingPolytope", "group l1")) >= 2


@pytest.mark.parametrize("gamma", [ez.sets.L1Ball(0.5), ez.sets.SubSimplex(0.5)])
def test_a_price_of_the_wrong_sign_is_found_by_check_set(gamma):
    with (
        mock.patch("ellzero.sets.multipliers._prices", lambda M, target, equal: -np.abs(target[:1]).repeat(equal.size)),
        pytest.raises(AssertionError, match="multipliers say"),
    ):
        ez.testing.check_set(gamma, 5, 2, support_preserving=False)


def test_a_ball_with_the_wrong_sign_is_found_by_check_set():
    with balls_inside_out(None, None), pytest.raises(AssertionError, match="multipliers say"):
        ez.testing.check_set(ez.sets.L2Ball(0.5), 5, 2)


# ---- rational numbers ----


def theorem(Q, b, x, nu):
    """The condition of the theorem, without Γ, in rational numbers: the largest k̄."""
    d, S = len(b), [i for i in range(len(b)) if x[i]]
    g = [sum(Q[i][j] * x[j] for j in S) - b[i] for i in range(d)]
    assert not any(g[i] for i in S)
    steep = sorted((g[j] ** 2 for j in range(d) if j not in S), reverse=True)
    small = sorted(x[i] ** 2 for i in S)
    k, k_bar = len(S), 0
    for trial in range(1, d + 1):
        newcomers = range(1, min(trial, len(steep)) + 1)
        if any(sum(steep[:J]) > nu**2 * sum(small[: max(0, k - trial + J)]) for J in newcomers):
            break
        k_bar = trial
    return k_bar


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_it_is_the_theorem_in_rational_numbers(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    k, nu = int(rng.integers(1, d + 1)), Fraction(int(rng.integers(1, 12)), 4)
    A = rng.integers(-3, 4, (d, d))
    Q = A @ A.T + 16 * np.eye(d, dtype=int)
    S = np.sort(rng.choice(d, k, replace=False))
    x = np.zeros(d, dtype=int)
    x[S] = rng.choice([-4, -3, -2, -1, 1, 2, 3, 4], k)
    b = Q @ x + np.where(np.isin(np.arange(d), S), 0, rng.integers(-30, 31, d))
    exact = theorem(*(a.tolist() for a in (Q, b, x)), nu)
    risk = ez.risks.Quadratic(Q.astype(float), b.astype(float))
    result = ez.minimize(risk, k, x0=x.astype(float), method=ez.Method(step=1.0, standardize=False), max_iter=0)
    found = ez.beats(risk, result, nu=float(nu))
    # at equality rounding decides, and it may say less, never more
    assert found.k_bar in (exact, theorem(*(a.tolist() for a in (Q, b, x)), nu * Fraction(10**9 - 1, 10**9)))


def at_the_edge(seed):
    """A case at the edges of floating point, the best point on a random support of it, and what is promised of that."""
    problem = edges.case(seed)
    rng, d = np.random.default_rng(seed), problem.risk.n_features
    support = np.sort(rng.choice(d, min(problem.k, d), replace=False))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point = refit(problem.risk, problem.gamma, support)
            still = ez.Method(step=1.0, standardize=False)
            result = ez.minimize(problem.risk, problem.k, problem.gamma, still, x0=point.w, max_iter=0)
    except ValueError:
        return problem, None, None
    return problem, result, ez.beats(problem.risk, result)


def best_exactly(problem, w, k_bar):
    smaller = dataclasses.replace(problem, k=min(k_bar, problem.objective.d))
    start = dict(sorted(w.items(), key=lambda entry: -abs(entry[1]))[: smaller.k])
    try:
        return exactly.reference(smaller, [start])[1]
    except ValueError:  # no member has so few nonzeros
        return MP.inf


@pytest.mark.parametrize("first", range(0, 1200, 200))
@pytest.mark.slow
def test_at_the_edges_of_floating_point(first):
    broken, count = [], 0
    for seed in range(first, first + 200):
        problem, result, promise = at_the_edge(seed)
        if result is None or not promise or problem.counted is not None:
            continue
        count += 1
        w = vector(np.asarray(result.x, float))
        value, least = exactly._value(problem, w, result.x), best_exactly(problem, w, promise.k_bar)
        off = Fraction(promise.error) if problem.objective.exact else mp(promise.error)
        if least != MP.inf and value - off > least:
            broken.append((seed, problem.header, promise.k_bar))
    assert count > 50 and not broken


@pytest.mark.parametrize(("columns", "targets"), [(1e150, 1e-20), (1e100, 1e-100), (1e150, 1e-100), (1.0, 1.0)])
@pytest.mark.parametrize("kind", [ez.sets.Box, ez.sets.L2Ball, ez.sets.L1Ball, ez.sets.Simplex])
def test_nothing_is_promised_where_squares_of_small_entries_are_nothing(columns, targets, kind):
    """A box of 1e-170 was taken for the origin, and an R of 1e-40 beside one of 2.5e-41 for the least."""
    size = targets / columns
    gamma = kind(-size, 0.5 * size) if kind is ez.sets.Box else kind(0.5 * size)
    risk = ez.risks.LeastSquares(columns * np.ones((2, 1)), targets * np.ones(2))
    if kind is not ez.sets.Simplex:
        assert gamma.norm_squares(1, 1)[-1] > 0
        res = ez.minimize(risk, 0, gamma)
        assert risk.value(gamma.project(np.array([size]))) < res.fun
        assert ez.beats(risk, res).k_bar == 0
    lower, upper = gamma.limits(1)
    assert lower[0] <= gamma.project(np.array([-size]))[0] <= gamma.project(np.array([size]))[0] <= upper[0]


# ---- the figures of the documentation ----


@pytest.mark.parametrize(("k", "k_bar"), [(10, 10), (20, 14), (40, 33)])
def test_least_squares(k, k_bar):
    problem = ez.datasets.make_regression(5000, 100, 10, correlation=0.3, snr=5)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    found = ez.beats(risk, ez.minimize(risk, k))
    assert found.k_bar >= k_bar and "eigenvalue" in found.strong_convexity.how and "matrix" in found.cost


@pytest.mark.parametrize(("ridge", "k_bar"), [(0.0, 2), (0.1, 7)])
def test_diabetes(ridge, k_bar):
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    risk = ez.risks.LeastSquares((X - X.mean(axis=0)) / X.std(axis=0), y, ridge=ridge, fit_intercept=True)
    assert ez.beats(risk, ez.minimize(risk, 8)).k_bar >= k_bar


@pytest.mark.parametrize("radius", [None, 0.1, 0.5, 1.0, 2.0])
def test_the_papers_first_experiment(radius):
    example = ez.datasets.diagonal_example()
    risk, gamma = ez.risks.LeastSquares(example.X, example.y), None if radius is None else ez.sets.LinfBall(radius)
    result = ez.minimize(risk, 200, gamma)
    assert ez.beats(risk, result, nu=2 / 350).k_bar >= 50
    assert ez.beats(risk, result).k_bar >= 200  # in units of its columns the problem has κ = 1


@pytest.mark.parametrize(("k", "radius", "k_bar"), [(50, 0.5, 49), (50, 0.01, 49), (150, 0.5, 150), (150, 0.01, 149)])
def test_the_papers_third_experiment(k, radius, k_bar):
    _, risk = logistic.problem()
    found = ez.beats(risk, ez.minimize(risk, k, logistic.balls(radius)))
    assert found.k_bar >= k_bar and found.cost.endswith("ν: nothing")
    assert (found.how == "with the multipliers of Γ") == (radius == 0.01) and found.error < 1e-15


def test_units_of_columns_do_not_matter():
    problem = ez.datasets.make_regression(300, 20, 5, correlation=0.3)
    scales = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 20)
    plain, scaled = (ez.risks.LeastSquares(problem.X * s, problem.y) for s in (1.0, scales))
    one, other = (ez.beats(risk, ez.minimize(risk, 8)).k_bar for risk in (plain, scaled))
    assert other >= one > 0


# ---- what is counted ----


def quadratic(rng, d, n=40):
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.1 * rng.standard_normal((d, d)))
    y = X @ (rng.standard_normal(d) * np.exp(rng.normal(0, 0.8, d))) + rng.standard_normal(n)
    return ez.risks.LeastSquares(X, y), Objective(2 * X.T @ X / n, 2 * X.T @ y / n, float(y @ y) / n)


def placed(risk, sparsity, gamma, x):
    return ez.minimize(risk, sparsity, gamma, ez.Method(step=1.0, standardize=False), x0=x, max_iter=0)


def structured(kind, rng, d):
    """A sparsity, Γ, and both as the referee has them."""
    free, gamma, quotas = Region(np.full(d, -np.inf), np.full(d, np.inf)), None, None
    labels = [None if rng.random() < 0.1 and kind == "Groups" else int(g) for g in np.sort(rng.integers(0, 6, d))]
    names = sorted({g for g in labels if g is not None})
    atoms = np.array([-1 if g is None else names.index(g) for g in labels])
    if kind == "PerGroup":
        group = np.arange(d) % 3
        return ez.sparsity.PerGroup(5, group.tolist(), 2), gamma, free, np.arange(d), (group, [2, 2, 2])
    if kind == "Groups with balls":
        gamma, free.balls = (
            ez.sets.GroupWise(ez.sets.L2Ball(1.0), labels),
            [(atoms == a, 1.0) for a in range(len(names))],
        )
    if kind == "Groups with budgets":
        gamma = ez.sets.GroupWise(ez.sets.SubSimplex(2.0), labels)
        free.lower[:], free.caps = 0.0, [((atoms == a).astype(float), 2.0, False) for a in range(len(names))]
    return ez.sparsity.Groups(3, labels), gamma, free, atoms, quotas


@pytest.mark.parametrize("kind", ["Groups", "PerGroup", "Groups with balls", "Groups with budgets"])
@pytest.mark.slow
def test_groups_and_quotas(kind):
    count = 0
    for seed in range(15):
        rng, d = np.random.default_rng([seed, len(kind)]), 9
        risk, objective = quadratic(rng, d)
        sparsity, gamma, region, atoms, quotas = structured(kind, rng, d)
        supports = supports_of(d, sparsity.k, (), atoms, quotas)
        values, points = best(objective, region, supports, steps=2000, points=True)
        for pick in np.argsort(values)[:4]:
            found = ez.beats(risk, placed(risk, sparsity, gamma, points[pick]))
            if found:
                rivals = best(objective, region, supports_of(d, found.k_bar, (), atoms, quotas))
                assert rivals.min() >= values[pick] - found.error - 1e-9 * abs(values[pick])
                count += 1
    assert count > 10


def test_under_quotas_nothing_follows_from_the_number_of_nonzeros():
    """No exchange helps, κ² = 1.04, and yet a pair within the quotas is better than the pair in its place."""
    d, ours, theirs = 52, [0, 1], [2, 3]
    Q, b = np.eye(d), np.full(d, 1e-3)
    Q[2, 3] = Q[3, 2] = -0.01
    b[:4] = 1.002, 1.002, 1.0, 1.0
    risk, quotas = ez.risks.Quadratic(Q, b), {"few": 2, "many": 48}
    sparsity = ez.sparsity.PerGroup(50, ["few"] * 4 + ["many"] * 48, quotas)
    x, rival = b.copy(), b.copy()
    x[theirs], rival[ours], rival[theirs], rival[4:7] = 0.0, 0.0, 1 / 0.99, 0.0
    result = placed(risk, sparsity, None, x)
    for i, j in itertools.product(ours, theirs):
        swapped = [j if s == i else s for s in np.flatnonzero(x)]
        assert refit(risk, ez.sets.Everywhere(), np.sort(swapped)).value > result.fun
    found = ez.beats(risk, dataclasses.replace(result, exchanges=Examined(4, by_refit=4)))
    assert risk.at(rival).value < result.fun and 0 < found.k_bar < np.count_nonzero(rival)


def test_an_answer_that_is_not_the_best_on_its_support_has_nothing_from_exchanges():
    problem = ez.datasets.make_regression(4000, 12, 12, snr=50)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    result = ez.minimize(risk, 8)
    worse = placed(risk, 8, None, result.x * np.linspace(0.5, 1, 12))
    found = ez.beats(risk, dataclasses.replace(worse, exchanges=result.exchanges))
    assert result.exchanges.verdict == "all" and found.form != "a priori" and found.a_priori is None


def test_exchanges_that_were_examined_elsewhere_prove_nothing_here():
    Q, b, x = np.eye(8) + 0.02, np.array([3, 2.9, 2.8, 2.7, 1, 0.9, 0.8, 0.1]), np.zeros(8)
    risk = ez.risks.Quadratic(Q, b)
    result = ez.minimize(risk, 4)
    x[4:] = np.linalg.solve(Q[4:, 4:], b[4:])
    elsewhere = dataclasses.replace(result, x=x, fun=risk.value(x))
    assert result.exchanges.verdict == "all" and ez.beats(risk, result).a_priori != 0
    assert not ez.beats(risk, elsewhere) and ez.beats(risk, elsewhere).a_priori is None


def test_kept_coordinates_are_among_those_counted():
    rng = np.random.default_rng(3)
    risk, objective = quadratic(rng, 8)
    result = ez.minimize(risk, 6, keep=[0, 5])
    found = ez.beats(risk, result)
    assert "the 2 kept among them" in found.words and found.k_bar > 2
    free = Region(np.full(8, -np.inf), np.full(8, np.inf))
    assert best(objective, free, supports_of(8, found.k_bar, (0, 5))).min() >= result.fun - 1e-9


def test_several_outputs_and_intercepts():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 8)), rng.standard_normal((60, 3))
    Y[:, :2] += X[:, [1]] * 2
    risk = ez.risks.LeastSquares(X, Y, ridge=0.1, fit_intercept=True)
    found = ez.beats(risk, ez.minimize(risk, ez.sparsity.Rows(4)))
    assert found and "features" in found.words
    labels = rng.integers(0, 3, 60)
    softmax = ez.risks.Multinomial(X, labels, ridge=0.5, fit_intercept=True)
    assert ez.beats(softmax, ez.minimize(softmax, 12)).k_bar > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_is_judged_in_double(dtype):
    problem = ez.datasets.make_regression(400, 30, 5, snr=20)
    X, y = problem.X.astype(dtype), problem.y.astype(dtype)
    risk = ez.risks.LeastSquares(X, y, ridge=0.1)
    result = ez.minimize(risk, 5)
    found = ez.beats(risk, result)
    assert found.k_bar == 5 and found.error < 1e-8 * result.fun


# ---- nothing to say ----


def test_why_nothing_is_said():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 20)), rng.standard_normal(10)
    flat = ez.risks.LeastSquares(X, y)
    found = ez.beats(flat, ez.minimize(flat, 3))
    assert not found and found.k_bar == 0 and found.form == "none" and "ridge" in found.words
    logistic = ez.risks.Logistic(X, y > 0)
    found = ez.beats(logistic, ez.minimize(logistic, 2, ez.sets.L1Ball(1.0)))
    assert found.strong_convexity.value == 0 and "a ridge > 0 gives it some" in found.words
    steep = ez.risks.LeastSquares(rng.standard_normal((30, 8)), rng.standard_normal(30))
    assert "too steep" in ez.beats(steep, ez.minimize(steep, 1), nu=1e-3).words
    box = ez.risks.BlackBox(lambda w: float(w @ w), 3)
    assert "no gradients" in ez.beats(box, ez.minimize(box, 1, max_queries=50)).words
    saddle = ez.risks.Quadratic(
        np.diag([1.0, -1.0, 2.0]), [1.0, 0.0, 1.0]
    )  # -0.75 at this point, and -1.25 with w_2 = 1
    start = placed(saddle, 2, ez.sets.LinfBall(1.0), [1.0, 0.0, 0.5])
    assert "not known to be convex" in ez.beats(saddle, start).words
    low = ez.risks.LeastSquares(rng.standard_normal((30, 12)), rng.standard_normal(30), ridge=1.0)
    assert "Rank" in ez.beats(low, ez.minimize(low, ez.sparsity.Rank(1, (3, 4)))).words


def test_convexity_alone_where_gamma_prices_every_slope():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((15, 40))
    risk = ez.risks.LeastSquares(X, X[:, 0] - X[:, 1])
    result = ez.minimize(risk, 30, ez.sets.L1Ball(0.5))
    found = ez.beats(risk, result)
    assert result.support.size < 15 and found.k_bar == 40 and found.strong_convexity.value == 0
    w = best(Objective(2 * X.T @ X / 15, 2 * X.T @ (X[:, 0] - X[:, 1]) / 15, float(np.sum((X[:, 0] - X[:, 1]) ** 2)) / 15),
             Region(np.full(40, -np.inf), np.full(40, np.inf), caps=[(np.ones(40), 0.5, False)]),
             [tuple(range(40))], steps=5000)  # fmt: skip
    assert w[0] >= result.fun - found.error - 1e-9


def test_points_that_are_not_the_best_on_their_support():
    problem = ez.datasets.make_regression(200, 20, 5)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=0.1)
    result = ez.minimize(risk, 5, method="IHT-2SP", max_iter=1)
    assert ez.beats(risk, result).k_bar < 5
    assert "not the best on its own support" in ez.beats(risk, result, nu=0.1).words
    nearly = ez.minimize(risk, 5, method="IHT-2SP", max_iter=12)
    exact = ez.minimize(risk, 5)
    assert ez.beats(risk, nearly).k_bar <= ez.beats(risk, exact).k_bar == 5
    assert ez.beats(risk, ez.minimize(risk, 5, method="exact")).k_bar == 5


def test_strangers():
    problem = ez.datasets.make_regression(200, 10, 3)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=0.1)
    result = ez.minimize(risk, 3)

    class Half(ez.sets.ConstraintSet):  # closed under zeroing, and nothing else is known of it
        closed_under_zeroing = True

        def project(self, v, support=None):
            return np.clip(v, -0.5, 0.5)

    class Odd(Half):
        closed_under_zeroing = False

    class Even(ez.sparsity.Coordinates):
        def admits(self, support):
            return support.size % 2 == 0 and super().admits(support)

    own = ez.beats(risk, ez.minimize(risk, 5, Half()))
    known = ez.beats(risk, ez.minimize(risk, 5, ez.sets.LinfBall(0.5)))
    assert 0 < own.k_bar <= known.k_bar and own.how == "zeroing keeps members in Γ"
    assert "neither preserves supports" in ez.beats(risk, ez.minimize(risk, 5, Odd())).words
    assert "not about" in ez.beats(risk, dataclasses.replace(result, sparsity=Even(3))).words
    other = ez.risks.LeastSquares(problem.X[:100], problem.y[:100], ridge=0.1)
    with pytest.raises(ValueError, match="must be what ellzero.minimize returned for this risk"):
        ez.beats(other, result)
    with pytest.raises(ValueError, match="10 coordinates, the risk 4"):
        ez.beats(ez.risks.LeastSquares(problem.X[:, :4], problem.y), result)
    for wrong in ((result, risk), (risk, risk)):
        with pytest.raises(TypeError, match="must be"):
            ez.beats(*wrong)
    for number in (-1.0, 0.0, np.nan, np.inf):
        for nu in (number, ez.risks.Constant(number, "bound")):
            with pytest.raises(ValueError, match="nu must lie"):
                ez.beats(risk, result, nu=nu)
    with pytest.raises(TypeError, match="nu must be a number"):
        ez.beats(risk, result, nu=ez.risks.Constant("much", "bound"))
    assert "estimate" in ez.beats(risk, result, nu=ez.risks.Constant(0.1, "estimate")).words
    assert ez.beats(risk, result, nu=0.1).strong_convexity.how == "as given"


def test_nothing_is_promised_of_another_function_by_what_its_parent_knows():
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((40, 6)), rng.standard_normal(6)
    y = X @ [2.0, -1.5, 1.0, 0.8, 0.4, 0.0] + 0.5 * rng.standard_normal(40)

    class Wavy(ez.risks.Point):  # R + 3 Σcos(w_i): many valleys
        @property
        def value(self):
            return super().value + 3 * float(np.sum(np.cos(self.w)))

        @property
        def gradient(self):
            return super().gradient - 3 * np.sin(self.w)

    class WavyQuadratic(ez.risks.Quadratic):
        def at(self, w, support=None):
            return Wavy(self, w, support)

    class WavySquares(ez.risks.LeastSquares):
        def at(self, w, support=None):
            return Wavy(self, w, support)

    class Concave(ez.risks.LeastSquares):
        def _value(self, w, state):
            return super()._value(w, state) - 5 * float(w @ w)

        def _gradient(self, w, state):
            return super()._gradient(w, state) - 10 * w

    class Announced(ez.risks.LeastSquares):
        def value(self, w):
            return super().value(w) - 5 * float(w @ w)

        def gradient(self, w, rows=None):
            return super().gradient(w, rows) - 10 * w

    box = ez.sets.LinfBall(4.0)
    for risk in (WavyQuadratic(2 * np.eye(6), 3 * b), *(R(X, y, ridge=0.5) for R in (WavySquares, Concave, Announced))):
        result = ez.minimize(risk, 3, box, ez.Method(step=0.01), max_iter=20)
        assert "not known to be convex" in ez.beats(risk, result).words and result.beats is None, type(risk)


class Cosh(ez.risks.Smooth):
    """Σ cosh(w_i) - b_i w_i: strongly convex with 1, and not quadratic."""

    def __init__(self, b):
        super().__init__(
            lambda w: float(np.sum(np.cosh(w) - b * w)), lambda w: np.sinh(w) - b, b.size, strong_convexity=1.0
        )


def test_a_function_of_the_users_own():
    b = np.array([3.0, -2.0, 1.0, 0.5, 0.1])
    risk = Cosh(b)
    found = ez.beats(risk, ez.minimize(risk, 3))
    assert found.k_bar >= 2 and "given" in found.strong_convexity.how


def test_everything_is_beaten_where_gamma_keeps_the_answer_sparse():
    problem = ez.datasets.make_regression(100, 30, 3, snr=50)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=0.1)
    result = ez.minimize(risk, 20, ez.sets.L1Ball(0.3))
    found = ez.beats(risk, result)
    assert result.support.size < 20 and found.k_bar == 30 and "however many nonzeros" in found.words


def test_it_costs_one_gradient():
    problem = ez.datasets.make_regression(200, 40, 5, snr=50)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=1.0)
    result, design = ez.minimize(risk, 5), type(risk.design)
    with (
        mock.patch.object(design, "correlations", autospec=True, side_effect=design.correlations) as seen,
        mock.patch.object(design, "adjoint", side_effect=AssertionError("another gradient")),
    ):
        found = ez.beats(risk, result)
    assert seen.call_count == 1 and found.cost.endswith("ν: nothing") and found.strong_convexity.how == "the ridge"


def test_it_says_what_was_computed_in_vain_and_computes_no_more_than_that():
    problem = ez.datasets.make_regression(60, 300, 5, snr=50)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    result = ez.minimize(risk, 20)
    with mock.patch.object(Blocks, "bound", autospec=True, side_effect=Blocks.bound) as seen:
        found = ez.beats(risk, result)
    assert not found and "blocks of a 300 x 300 matrix" in found.cost and seen.call_count == 1


# ---- where it is seen ----


def test_it_is_printed_where_curvature_is_at_hand():
    problem = ez.datasets.make_regression(300, 30, 5, snr=20)
    with_ridge, without = (ez.risks.LeastSquares(problem.X, problem.y, ridge=r) for r in (0.1, 0.0))
    result = ez.minimize(with_ridge, 8)
    assert result.beats and f"promise      {result.beats.words}" in repr(result)
    assert ez.minimize(without, 8).beats is None  # an eigenvalue would have to be computed
    assert ez.beats(without, ez.minimize(without, 8)).k_bar >= 5
    known = ez.risks.Quadratic(2 * problem.X.T @ problem.X / 300, 2 * problem.X.T @ problem.y / 300)
    assert ez.minimize(known, 8).beats  # whether it is convex was asked for
    assert ez.minimize(ez.risks.BlackBox(lambda w: float(w @ w), 3), 1, max_queries=40).beats is None
    assert all(res.beats for res in ez.minimize_path(with_ridge, [5, 8]).results)


def test_estimators_have_it():
    import pickle

    problem = ez.datasets.make_regression(300, 30, 5, snr=20)
    X, y = problem.X, problem.y
    model = ez.SparseRegressor(k=8).fit(X, y)
    assert "beats_" not in vars(model) and model.beats_.k_bar >= 5 and "beats_" in vars(model)
    assert model.result_.beats is model.beats_ and model.fit(X, y).__dict__.get("beats_") is None
    stored = pickle.loads(pickle.dumps(model))
    with pytest.raises(AttributeError, match="beats_ needs the data of the fit"):
        _ = stored.beats_
    stored.certify(X, y)
    assert stored.beats_.k_bar >= 5
    ridged = pickle.loads(pickle.dumps(ez.SparseRegressor(k=8, ridge=0.1).fit(X, y)))
    assert ridged.beats_.strong_convexity.how == "the ridge"  # what was at hand at the fit
    labels = y > 0  # somebody else must keep them, too
    assert ez.SparseClassifier(k=3).fit(X, labels).beats_.strong_convexity.value > 0
    with pytest.raises(AttributeError, match="no attribute 'beat_'"):
        _ = model.beat_


def test_reports_tell_it(tmp_path):
    problem = ez.datasets.make_regression(300, 30, 5, snr=20)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=0.1)
    result = ez.minimize(risk, 8)
    page = ez.write_report(result, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<strong>promised</strong>" in page and "single exchanges" in page and "the ridge" in page
    result.certificate = ez.certify(risk, result)
    page = ez.write_report(result, tmp_path / "b.html").read_text(encoding="utf-8")
    assert "proved lower bound" in page and "<strong>promised</strong>" in page
    result.beats = None
    assert "<strong>promised</strong>" not in ez.write_report(result, tmp_path / "c.html").read_text(encoding="utf-8")


def test_the_command_line_tells_it(tmp_path, capsys):
    import json

    from ellzero.cli import main

    problem = ez.datasets.make_regression(200, 6, 3, snr=20)
    table = np.column_stack([problem.X, problem.y])
    path = tmp_path / "table.csv"
    np.savetxt(path, table, delimiter=",", header="a,b,c,d,e,f,y", comments="")
    assert main(["fit", str(path), "--target", "y", "--k", "3", "--ridge", "0.1"]) == 0
    told = capsys.readouterr().out
    assert "promise" in told and "no vector with at most 3" in " ".join(told.split())
    assert main(["certify", str(path), "--target", "y", "--k", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert answer["promise"]["k_bar"] == 3 and "eigenvalue" in answer["promise"]["read_off"]
    assert answer["exchanges"].startswith("all of")
