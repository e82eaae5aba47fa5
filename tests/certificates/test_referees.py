"""Thousands of small problems at the edges of floating point, each judged in rational arithmetic or in 72 digits.

The machinery is that of `python -m benchmarks fuzz`, which goes on to 100,000; `--replay N` tells a case in full.
"""

import dataclasses
import itertools
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import ellzero as ez

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks are beside the tests

from benchmarks.fuzz import cases, gammas, referee, sparsities
from benchmarks.fuzz.objectives import (
    Form,
    Model,
    eliminate,
    gamma,
    huber,
    logistic,
    multinomial,
    poisson,
    quantile,
    squared_hinge,
)
from benchmarks.fuzz.polish import polish
from benchmarks.fuzz.rationals import definite, solve, vector
from benchmarks.fuzz.regions import MP, Curve, Region, Row
from benchmarks.fuzz.run import Tally

N_CASES, CHUNK = 2200, 50


def affordable():
    """All cases but three in four of those that may take their half second: other losses with a time limit."""
    slow = itertools.count()

    def quick(head):
        return head.mode == "root" or head.risk in ("LeastSquares", "Quadratic") or next(slow) % 4 == 0

    return (n for n in itertools.count() if quick(cases.header(n)))


CASES = list(itertools.islice(affordable(), N_CASES))


@pytest.mark.parametrize("first", range(0, N_CASES, CHUNK))
@pytest.mark.slow
def test_nothing_wrong_is_said(first):
    wrong = []
    for seed in CASES[first : first + CHUNK]:
        verdict = referee.examine(seed, seconds=5.0)
        wrong += [
            (seed, verdict.header.risk, verdict.header.gamma, *flag) for flag in verdict.flags if flag[0] != "late"
        ]
    assert not wrong, f"{len(wrong)} errors; python -m benchmarks fuzz --replay N:\n" + "\n".join(map(str, wrong))


@pytest.mark.parametrize("first", range(sparsities.FIRST, sparsities.FIRST + 600, CHUNK))
@pytest.mark.slow
def test_nothing_wrong_is_said_of_groups_and_quotas(first):
    verdicts = [referee.examine(seed, seconds=10.0) for seed in range(first, first + CHUNK)]
    grave = ("invalid", "optimal", "fun", "infeasible", "crash", "warning")
    assert not [(v.header, *flag) for v in verdicts for flag in v.flags if flag[0] in grave]
    assert sum(v.proved for v in verdicts) > CHUNK // 3


def test_supports_of_groups_and_quotas_are_the_librarys():
    for seed in range(sparsities.FIRST, sparsities.FIRST + 60):
        problem = cases.case(seed)
        counted, risk = problem.counted, problem.risk
        asked = counted.asked.within(risk.n_features, risk.n_outputs)
        found = asked.supports(risk.n_features, asked.kept(None, risk.n_features))
        assert sorted(map(tuple, found)) == sorted(counted.supports())


# cases beyond those above that once went wrong: hangs, limits exceeded, warnings, values that were off
MENDED = [4280, 4452, 9254, 9969, 17398, 18778, 28296, 42138, 77073, 1000665, 1000898, 1001668, 1003393]


@pytest.mark.parametrize("seed", MENDED)
@pytest.mark.slow
def test_what_once_went_wrong(seed):
    assert [flag for flag in referee.examine(seed).flags if flag[0] != "late"] == []


@pytest.mark.parametrize("first", range(cases.LATER, cases.LATER + 300, CHUNK))
@pytest.mark.slow
def test_nothing_wrong_is_said_of_further_losses_and_offsets(first):
    wrong = []
    for seed in range(first, first + CHUNK):
        if cases.header(seed).mode == "root":
            wrong += [(seed, *flag) for flag in referee.examine(seed, seconds=5.0).flags if flag[0] != "late"]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_cases_cover_what_they_should():
    assert {cases.header(n).risk for n in range(cases.LATER, cases.LATER + 300)} >= set(cases.FURTHER)
    heads = [cases.header(n) for n in CASES]
    assert {h.risk for h in heads} == set(cases.RISKS) and {h.family for h in heads} == set(cases.FAMILIES)
    assert {h.gamma for h in heads} == set(gammas.ALL) and {h.mode for h in heads} == set(cases.MODES)


# ---- the referee itself: planted errors are caught, and its mathematics agrees with others' ----

PLANTED = [n for n in CASES[:150] if cases.header(n).family in ("gaussian", "integer", "dummies")]


def judged(problem, *claims):
    verdict = referee.Verdict(problem.header)
    referee.judge(problem, list(claims), verdict)
    return {kind for kind, _ in verdict.flags}


@pytest.mark.parametrize("seed", PLANTED[:20])
def test_planted_errors_are_caught(seed):
    problem = cases.case(seed)
    result = ez.minimize(problem.risk, problem.k, problem.gamma)
    x, w = np.asarray(result.x, float), vector(result.x)
    value, zero = float(problem.objective.value(w)), float(problem.objective.value({}))
    scale = max(abs(value), abs(zero - value))
    if scale == 0:
        pytest.skip("R vanishes everywhere that matters")
    best = float(referee.reference(problem, [w])[1])
    assert not judged(problem, referee.Claim(x, value, best - 1e-12 * scale))
    assert judged(problem, referee.Claim(x, value, best + 1e-5 * scale)) == {"invalid"}
    assert judged(problem, referee.Claim(x, value + 1e-7 * scale)) == {"fun"}
    assert judged(problem, referee.Claim(x, np.inf)) == {"fun"}
    crowded = dataclasses.replace(problem, k=len(w) - 1)
    if len(w) > 1 and problem.header.gamma in ("Everywhere", "NonNegative", "Box", "L1Ball", "L2Ball", "Simplex"):
        assert "infeasible" in judged(crowded, referee.Claim(x, value))


def test_a_wrong_optimum_and_a_step_outside_are_caught():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 3)), rng.standard_normal(10)
    form = Form.least_squares(X, y, 0.0, None, False)
    region = Region(3, rows=[Row({i: Fraction(1) for i in range(3)}, Fraction(1, 4), absolute=True)])
    problem = cases.Case(cases.header(0), 2, None, None, form, region, False, np.ones(3))
    problem.header = dataclasses.replace(problem.header, full=True)
    best, w = form.minimum(region, itertools.combinations(range(3), 2))
    good = np.array([float(w.get(i, 0)) for i in range(3)])
    good *= min(1.0, 0.25 / np.abs(good).sum())
    value = float(form.value(vector(good)))
    assert not judged(problem, referee.Claim(good, value, float(best) * (1 - 1e-15), True))
    for worse in (good * 0.99, good[::-1] * 0.5):
        assert judged(problem, referee.Claim(worse, float(form.value(vector(worse))), optimal=True)) == {"optimal"}
    outside = good * (1 + 1e-9)
    assert judged(problem, referee.Claim(outside, float(form.value(vector(outside))))) == {"infeasible"}


def test_errors_are_called_by_their_names():
    verdict = referee.Verdict(cases.header(0))
    for error in (ValueError("method has no bound to work with here"), ValueError("result must be"), KeyError("x")):
        referee.classify(error, verdict)
    assert [kind for kind, _ in verdict.flags] == ["refused", "crash"]
    tally = Tally()
    tally.add(verdict)
    assert tally.n_errors == 2 and "--replay 0" in tally.report()
    with pytest.raises(referee.Hang), referee.patience(0.05):
        while True:
            pass


def test_linear_systems_in_whole_numbers():
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(1, 6))
        A = rng.integers(-4, 5, (n, n))
        if rng.random() < 0.5:
            A[:, -1] = A[:, 0]
        x = rng.integers(-3, 4, n)
        found = solve([[*map(int, row), int(row @ x)] for row in A])
        assert all(sum(int(a) * v for a, v in zip(row, found, strict=True)) == int(row @ x) for row in A)
        gram = (A.T @ A).tolist()
        assert definite(gram) and not definite(
            [[v - (i == j) * 10**4 for j, v in enumerate(r)] for i, r in enumerate(gram)]
        )
    assert solve([[1, 1, 1], [1, 1, 2]]) is None


@pytest.mark.parametrize("kind", gammas.POLYHEDRA)
def test_the_exact_minimum_agrees_with_a_general_solver(kind):
    """SLSQP in double precision, on well-conditioned data, with the region's own inequalities."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    gamma, region = gammas.draw(rng, kind, np.full(3, 0.3), 3, False)
    form = Form.least_squares(X, y, 0.1, np.arange(1, 13), True)
    value, w = form.minimum(region, [s for k in range(4) for s in itertools.combinations(range(3), k)])
    point = np.array([float(w.get(i, 0)) for i in range(3)])
    assert gamma.violation(point) <= 1e-12  # the library agrees on what a member is

    def fun(u):
        weight = np.arange(1, 13) / 78
        r = X @ u - y
        return weight @ (r - weight @ r) ** 2 + 0.05 * u @ u

    assert fun(point) == pytest.approx(float(value), rel=1e-12)
    for trial in rng.standard_normal((200, 3)) * 0.5:
        assert fun(gamma.project(trial)) >= float(value) - 1e-12
    near = optimize.minimize(lambda u: fun(gamma.project(u)), point, method="Nelder-Mead", options={"xatol": 1e-10})
    assert near.fun >= float(value) - 1e-12


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "poisson", "gamma", "huber", "quantile", "multinomial"])
def test_the_models_agree_with_the_library_on_easy_data(name, shifted):
    rng = np.random.default_rng(3)
    X, weight = rng.standard_normal((9, 2)), rng.uniform(0.5, 2, 9)
    offset = rng.standard_normal((9, 3) if name == "multinomial" else 9) if shifted else None
    options = {"ridge": 0.3, "sample_weight": weight, "fit_intercept": True, "offset": offset}
    if name in ("logistic", "squared_hinge"):
        y, outputs = np.resize([1.0, -1.0], 9), 1
        risk, loss = ez.risks.Logistic(X, y, **options), logistic
        if name == "squared_hinge":
            risk, loss = ez.risks.SquaredHinge(X, y, **options), squared_hinge
    elif name == "gamma":
        y = rng.gamma(2.0, 1.0, 9)
        risk, loss, outputs = ez.risks.Gamma(X, y, **options), gamma, 1
    elif name == "quantile":
        y = 3 * rng.standard_normal(9)
        risk, loss, outputs = ez.risks.Quantile(X, y, **options, quantile=0.7, smoothing=0.5), quantile(0.7, 0.5), 1
    elif name == "poisson":
        y = rng.poisson(2.0, 9)
        risk, loss, outputs = ez.risks.Poisson(X, y, **options), poisson, 1
    elif name == "huber":
        y = 3 * rng.standard_normal(9)
        risk, loss, outputs = ez.risks.Huber(X, y, **options, delta=0.5), huber(0.5), 1
    else:
        y = np.resize([0, 1, 2], 9)
        risk, loss, outputs = ez.risks.Multinomial(X, y, **options), multinomial, 3
    model = Model(loss, X, y, 0.3, weight, True, outputs, offset)
    w = 0.5 * rng.standard_normal(model.d)
    assert float(model.value(vector(w))) == pytest.approx(risk.value(w), rel=1e-12)
    exact = dict(enumerate(map(MP.mpf, w)))
    gradient = model.look(exact, model.intercepts(exact), list(range(model.d)))[1]
    assert np.array(gradient[: model.d], float) == pytest.approx(risk.gradient(w), rel=1e-10, abs=1e-12)


def test_polishing_reaches_the_minimum_over_an_ellipsoid():
    """The multiplier's equation in one dimension, solved by bisection, is the other way to the same number."""
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    scale = np.array([1.0, 0.5, 2.0])
    region = Region(3, curves=[Curve(gammas.exact(scale), Fraction(1, 8))])
    form = Form.least_squares(X, y, 0.0, None, False)
    G, c = X.T @ X / 8, X.T @ y / 8

    def at(price):
        return np.linalg.solve(G + price * np.diag(scale**-2.0), c)

    price = optimize.brentq(lambda p: np.linalg.norm(at(p) / scale) - 0.125, 1e-9, 1e6, xtol=1e-14)
    best = at(price)
    start = np.round(best, 7) * (1 - 1e-5)
    value, w = polish(form, region, vector(start))
    assert float(value) == pytest.approx(np.mean((X @ best - y) ** 2), rel=1e-12)
    assert region.violation(w) == 0 and value < form.value(vector(start))
    assert eliminate([[MP.mpf(0)]], [MP.mpf(1)]) == [0]  # nothing to divide by
