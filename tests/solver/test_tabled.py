"""Exchanges found on tables of the curvature: where R is near a quadratic, and at the edges."""

import numpy as np
import pytest

import ellzero as ez
from ellzero.sets import Everywhere
from ellzero.solver.problem import make_problem
from ellzero.solver.refit import refit
from ellzero.solver.table import Table
from ellzero.solver.tabled import Tabled, worthy


def study(seed, n=240, d=340, k=3, correlation=0.9):
    """X, time, event and the true support."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    support = np.sort(rng.choice(d, k, replace=False))
    failure, censored = rng.exponential(np.exp(-X[:, support].sum(axis=1))), rng.exponential(1.5, n)
    return X, np.minimum(failure, censored), failure <= censored, support


def problem_of(risk, k):
    return make_problem(risk, k, Everywhere(), None)


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_helps_at_the_end(seed):
    X, time, event, _ = study(seed)
    risk = ez.risks.Cox(X, time, event)
    assert Tabled.suffice(problem_of(risk, 3))
    found = ez.minimize(risk, 3)
    for i in found.support:
        for j in np.setdiff1d(np.arange(X.shape[1]), found.support):
            other = np.sort(np.append(np.setdiff1d(found.support, i), j))
            tried = refit(risk, Everywhere(), other, found.x[other], interest=found.fun)
            assert tried.value >= found.fun * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_tables_are_no_worse_than_exchanges_one_by_one(seed, monkeypatch):
    risk = ez.risks.Cox(*study(seed, d=200, k=8)[:3])
    found = ez.minimize(risk, 8)
    monkeypatch.setattr(Tabled, "fit", staticmethod(lambda problem, model: False))
    assert found.fun <= ez.minimize(risk, 8).fun * (1 + 1e-9)
    assert len(found.history) < 4  # one step fills the places, exchanges do the rest


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("stratified", [False, True])
def test_ties_and_strata(ties, stratified):
    X, time, event, support = study(1)
    strata = np.arange(len(X)) % 3 if stratified else None
    found = ez.minimize(ez.risks.Cox(X, np.ceil(4 * time), event, ties=ties, strata=strata), 3)
    assert found.support.tolist() == support.tolist()


def test_units_do_not_matter():
    X, time, event, support = study(2)
    plain = ez.minimize(ez.risks.Cox(X, time, event), 3)
    scales = 10.0 ** np.random.default_rng(0).integers(-8, 9, X.shape[1])
    for s in (1e-8, 1e8, scales):
        other = ez.minimize(ez.risks.Cox(X * s, time, event), 3)
        assert other.support.tolist() == plain.support.tolist() == support.tolist()
        assert other.fun == pytest.approx(plain.fun, rel=1e-10)


def test_copies_and_columns_that_say_nothing():
    X, time, event, support = study(3)
    left = np.setdiff1d(np.arange(X.shape[1]), support)
    X[:, left[:40]] = np.repeat([0.0, 3.0, 1e8, 1e-8], 10)
    X[:, left[40:60]] = np.repeat(X[:, support[:2]], 10, axis=1)
    X[:, left[60:80]] = -2 * np.repeat(X[:, support[1:]], 10, axis=1)
    with np.errstate(all="raise"):
        found = ez.minimize(ez.risks.Cox(X, time, event), 3)
    expected = ez.minimize(ez.risks.Cox(X[:, support], time, event), 3).fun
    assert found.fun == pytest.approx(expected, rel=1e-10)
    assert np.isfinite(found.x).all() and np.linalg.matrix_rank(X[:, found.support]) == 3


def test_all_censored_but_one():
    X, time, event, _ = study(4)
    event[:] = False
    event[np.argsort(time)[20]] = True
    risk = ez.risks.Cox(X, time, event, ridge=0.1)
    assert not Tabled.suffice(problem_of(risk, 3))
    found = ez.minimize(risk, 3)
    best = min(ez.minimize(risk, 1, x0=np.eye(X.shape[1])[j]).fun for j in found.support)
    assert found.fun < best < risk.value(np.zeros(X.shape[1]))


def test_kept_coordinates_free_places_and_no_time():
    X, time, event, support = study(5)
    risk = ez.risks.Cox(X, time, event)
    kept = ez.minimize(risk, 4, keep=[0])
    assert set(kept.support.tolist()) == {0, *support.tolist()}
    grown = ez.minimize(risk, 3, x0=np.eye(X.shape[1])[support[0]])
    assert grown.support.tolist() == support.tolist()
    assert ez.minimize(risk, 0).fun == risk.value(np.zeros(X.shape[1]))
    cut = ez.minimize(risk, 3, time_limit=1e-9)
    assert cut.support.size <= 3 and np.isfinite(cut.fun)


def test_rough_refits_are_good_to_nine_digits():
    X, time, event, _ = study(6, k=8)
    risk, rng = ez.risks.Cox(X, time, event), np.random.default_rng(0)
    for _ in range(20):
        support = np.sort(rng.choice(X.shape[1], 8, replace=False))
        rough, best = (refit(risk, Everywhere(), support, rough=rough).value for rough in (True, False))
        assert best <= rough * (1 + 1e-14) and rough <= best * (1 + 1e-9)


def test_what_a_table_says_is_the_minimum_of_the_model():
    X, time, event, _ = study(7)
    risk, S = ez.risks.Cox(X, time, event), np.array([4, 50, 211])
    point = refit(risk, Everywhere(), S)
    model, c = risk.curvature(point), -0.5 * point.gradient
    tabled = Tabled(problem_of(risk, 5), model, S, point.w, c, worthy(model.sizes), np.inf, {})
    found = list(tabled.supports(1e-10))
    assert found
    for T, w in found:
        best = np.linalg.solve(model.block(T), c[T] + model.columns(S)[T] @ point.w[S])
        np.testing.assert_allclose(w[T], best, rtol=1e-6, atol=1e-8)
        assert T.size <= 5 and not np.delete(w, T).any()


def test_cheapest_places_are_given_up_one_after_the_other():
    rng = np.random.default_rng(8)
    A = rng.standard_normal((40, 9))
    G, w = A.T @ A, rng.standard_normal(9)
    fixed = np.arange(9) == 4
    table = Table.of(G.copy(), w.copy(), 9, fixed, False, 9)
    other, inside, values = table.copy(), list(range(9)), w
    other.give_up(5)
    for _ in range(5):
        H = np.linalg.inv(G[np.ix_(inside, inside)])
        loss = np.where(fixed[inside], np.inf, values**2 / np.diagonal(H))
        b = G[np.ix_(inside, inside)] @ values
        place = int(loss.argmin())
        values = np.linalg.solve(G[np.ix_(np.delete(inside, place), np.delete(inside, place))], np.delete(b, place))
        inside.pop(place)
    assert np.flatnonzero(other.inside).tolist() == inside and table.inside.all()
    np.testing.assert_allclose(other.x[inside], values, rtol=1e-9)
