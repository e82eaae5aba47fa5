"""IndexTracker: constraints, errors in the user's words, and what it says about its answer."""

import contextlib
import importlib.util
import io
import itertools
import math
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import ellzero as ez
from common import SHARED, assert_printed
from ellzero.portfolio import IndexTracker, InfeasibleMandate, prices_to_returns

ROOT = Path(__file__).resolve().parents[2]
MARKET = ez.datasets.make_market(n_days=200, n_assets=40, n_sectors=5, rng=3)
RETURNS, INDEX, SECTORS = MARKET.to_pandas()


def violations(tracker, weights):
    """Everything that was asked, from its definition."""
    least, most = tracker.budget if isinstance(tracker.budget, tuple) else (tracker.budget,) * 2
    total = math.fsum(weights)
    worst = [0.0, np.count_nonzero(weights) - (tracker.k or weights.size)]
    if tracker.budget is not None:
        worst += [least - total, total - most]
    low, high = (pd.Series(b, RETURNS.columns) if not isinstance(b, dict) else pd.Series(b).reindex(RETURNS.columns).fillna(default)
                 for b, default in ((tracker.min_weights, 0.0), (tracker.max_weights, 1.0)))  # fmt: skip
    worst += [(low - weights).max(), (weights - high).max()]
    if tracker.max_sector_weight is not None:
        gross = weights.abs().groupby(SECTORS).sum()
        caps = tracker.max_sector_weight
        worst.append((gross - (pd.Series(caps) if isinstance(caps, dict) else caps)).max())
    return max(worst)


MANDATES = {
    "budget alone": {},
    "sectors": {"max_sector_weight": 0.25},
    "some sectors": {"max_sector_weight": {SECTORS.iloc[0]: 0.05}},
    "bounds": {"max_weights": 0.2, "max_sector_weight": 0.3},
    "cash": {"budget": (0, 1), "max_sector_weight": 0.1},
    "some cash": {"budget": (0.9, 0.95), "max_weights": 0.15},
    "long-short": {"min_weights": -0.1, "max_weights": 0.3, "max_sector_weight": 0.4},
    "no budget, as in the paper": {"budget": None, "min_weights": -1.0, "max_sector_weight": 0.1},
    "held": {"keep": ["A07", "A11"], "min_weights": {"A03": 0.04}, "max_sector_weight": 0.3},
    "huber": {"error": "huber", "max_sector_weight": 0.25},
    "huber with a number": {"error": ("huber", 0.002), "max_sector_weight": 0.25},
    "variance": {"error": "variance", "max_sector_weight": 0.25},
    "ridge": {"ridge": 1e-5, "max_sector_weight": 0.25},
    "no limit": {"k": None, "max_sector_weight": 0.25},
}


@pytest.mark.parametrize("name", MANDATES)
def test_every_constraint_holds(name):
    tracker = IndexTracker(**{"k": 8, "n_starts": 2, **MANDATES[name]}).fit(RETURNS, INDEX, groups=SECTORS)
    assert violations(tracker, tracker.weights_) <= 1e-12
    assert tracker.result_.violation <= 1e-12
    assert tracker.weights_.index.tolist() == RETURNS.columns.tolist()
    if name == "held":
        assert tracker.weights_["A03"] >= 0.04
        assert np.union1d(tracker.result_.support, [6, 10]).size <= 8  # their places are counted even at weight 0
    if name == "ridge":
        plain = IndexTracker(k=8, n_starts=2, max_sector_weight=0.25).fit(RETURNS, INDEX, groups=SECTORS)
        assert tracker.weights_ @ tracker.weights_ < plain.weights_ @ plain.weights_
    if name == "cash":
        assert tracker.cash_ == pytest.approx(1 - tracker.weights_.sum()) and tracker.cash_ >= 0.5 - 1e-12


def test_short_positions_are_found():
    index = 0.7 * RETURNS["A01"] + 0.5 * RETURNS["A05"] - 0.2 * RETURNS["A09"]
    tracker = IndexTracker(k=3, min_weights=-0.3).fit(RETURNS, index)
    assert tracker.holdings()["weight"].to_dict() == pytest.approx({"A01": 0.7, "A05": 0.5, "A09": -0.2})
    half = IndexTracker(k=3, min_weights=-0.1).fit(RETURNS, index)
    assert half.weights_["A09"] == pytest.approx(-0.1, abs=1e-15)


def test_best_of_all_supports():
    """Few enough names to try all."""
    X, y = RETURNS.iloc[:, :9], INDEX
    tracker = IndexTracker(k=4, max_sector_weight=0.5, max_weights=0.4, n_starts=8).fit(X, y, groups=SECTORS)
    gamma = tracker.mandate_.portfolio
    G, b, c = X.to_numpy().T @ X.to_numpy(), X.to_numpy().T @ y.to_numpy(), float(y @ y)
    best = math.inf
    for support in itertools.combinations(range(9), 4):
        S = np.array(support)
        try:
            u = gamma.quadratic_minimum(G[np.ix_(S, S)], b[S], S)
        except ez.sets.EmptySlice:
            continue
        best = min(best, u @ G[np.ix_(S, S)] @ u - 2 * b[S] @ u + c)
    assert tracker.result_.fun == pytest.approx(best / len(y), rel=1e-9)


def test_arrays_and_frames_agree():
    framed = IndexTracker(k=6, max_sector_weight=0.3, n_starts=2).fit(RETURNS, INDEX, groups=SECTORS)
    plain = IndexTracker(k=6, max_sector_weight=0.3, n_starts=2)
    plain.fit(MARKET.returns, MARKET.index_returns, groups=MARKET.sectors)
    np.testing.assert_allclose(framed.weights_.to_numpy(), plain.weights_, atol=1e-12)
    np.testing.assert_allclose(framed.predict(RETURNS).to_numpy(), plain.predict(MARKET.returns), atol=1e-12)
    assert plain.tracking_error(MARKET.returns, MARKET.index_returns) == pytest.approx(framed.tracking_error_)
    assert plain.sector_weights_ == pytest.approx(framed.sector_weights_.to_dict())
    by_dict = IndexTracker(k=6, max_sector_weight=0.3, n_starts=2).fit(RETURNS, INDEX, groups=SECTORS.to_dict())
    assert by_dict.weights_.equals(framed.weights_)


def test_what_it_says_is_so():
    train, test = RETURNS.iloc[:150], RETURNS.iloc[150:]
    tracker = IndexTracker(k=6, max_sector_weight=0.3, n_starts=2, periods_per_year=250)
    tracker.fit(train, INDEX.iloc[:150], groups=SECTORS)
    active = train @ tracker.weights_ - INDEX.iloc[:150]
    assert tracker.tracking_error_ == pytest.approx(active.std() * 250**0.5)
    assert tracker.result_.fun == pytest.approx((active**2).mean())
    later = test @ tracker.weights_ - INDEX.iloc[150:]
    assert tracker.tracking_error(test, INDEX.iloc[150:]) == pytest.approx(later.std() * 250**0.5)
    assert tracker.score(test, INDEX.iloc[150:]) == -tracker.tracking_error(test, INDEX.iloc[150:])
    pd.testing.assert_series_equal(tracker.predict(test), test @ tracker.weights_, check_names=False)
    shuffled = test.iloc[:, ::-1]
    pd.testing.assert_series_equal(tracker.predict(shuffled), test @ tracker.weights_, check_names=False)
    facts = tracker.summary(test, INDEX.iloc[150:])
    assert facts["names"] == 6 and facts["periods per year"] == 250
    assert facts["tracking error out of sample"] == tracker.tracking_error(test, INDEX.iloc[150:])
    assert facts["sectors used"] == (tracker.sector_weights_ > 0).sum() <= 5
    assert facts["invested"] + facts["cash"] == pytest.approx(1)
    holdings = tracker.holdings()
    assert holdings["weight"].is_monotonic_decreasing and len(holdings) == 6
    assert holdings["sector"].to_dict() == {name: SECTORS[name] for name in holdings.index}


def test_variance_forgives_a_steady_difference():
    shifted = INDEX + 0.001
    squared, variance = (
        IndexTracker(k=10, error=error, n_starts=2).fit(RETURNS, shifted) for error in ("squared", "variance")
    )
    assert variance.tracking_error_ < squared.tracking_error_
    same = IndexTracker(k=10, error="variance", n_starts=2).fit(RETURNS, INDEX)
    np.testing.assert_allclose(same.weights_, variance.weights_, atol=1e-9)


def test_huber_resists_a_bad_day():
    spoilt = INDEX.copy()
    spoilt.iloc[17] += 0.5
    truth = IndexTracker(k=10, n_starts=2).fit(RETURNS, INDEX).tracking_error(RETURNS, INDEX)
    errors = {
        error: IndexTracker(k=10, error=error, n_starts=2).fit(RETURNS, spoilt).tracking_error(RETURNS, INDEX)
        for error in ("squared", "huber")
    }
    assert errors["huber"] < 1.2 * truth < errors["squared"]


def test_certificate():
    X, y = RETURNS.iloc[:, :12], INDEX
    tracker = IndexTracker(k=4, max_sector_weight=0.5, n_starts=4).fit(X, y, groups=SECTORS)
    certificate = tracker.certify(X, y, time_limit=2)
    assert tracker.certificate_ is certificate is tracker.result_.certificate
    assert certificate.lower_bound <= tracker.result_.fun * (1 + 1e-9)
    with pytest.raises(ValueError, match="must be those of the fit"):
        tracker.certify(X, 2 * y)
    with pytest.raises(ValueError, match="with 12 assets, got 40"):
        tracker.certify(RETURNS, y)


def test_certificate_of_huber_takes_the_delta_of_the_fit():
    X, y = RETURNS.iloc[:, :8], INDEX
    tracker = IndexTracker(k=3, error="huber", n_starts=2).fit(X, y)
    certificate = tracker.certify(X, y, time_limit=2)
    assert certificate.lower_bound <= tracker.result_.fun * (1 + 1e-9)
    given = clone(tracker).set_params(error=("huber", tracker.delta_)).fit(X, y)
    assert given.delta_ == tracker.delta_
    np.testing.assert_allclose(given.result_.fun, tracker.result_.fun, rtol=1e-6)
    squared = IndexTracker(k=3, n_starts=1).fit(X, y)
    assert squared.delta_ is None
    with pytest.raises(ValueError, match="error='huber' was set after the fit; fit again"):
        squared.set_params(error="huber").certify(X, y)


def test_scikit_learn_habits():
    tracker = IndexTracker(k=5, max_sector_weight=0.4, n_starts=1)
    assert tracker.get_params()["max_sector_weight"] == 0.4
    before = pickle.dumps(tracker.get_params())
    tracker.fit(RETURNS, INDEX, groups=SECTORS)
    assert pickle.dumps(tracker.get_params()) == before
    fresh = clone(tracker)
    assert not hasattr(fresh, "weights_") and fresh.k == 5
    again = pickle.loads(pickle.dumps(tracker))
    assert again.predict(RETURNS).equals(tracker.predict(RETURNS))
    assert fresh.fit(RETURNS, INDEX, groups=SECTORS).weights_.equals(tracker.weights_)
    assert tracker.n_features_in_ == 40 and tracker.feature_names_in_.tolist() == RETURNS.columns.tolist()
    search = GridSearchCV(IndexTracker(n_starts=1), {"k": [2, 10]}, cv=TimeSeriesSplit(2)).fit(RETURNS, INDEX)
    assert search.best_params_ == {"k": 10}
    assert search.best_score_ < 0


def test_sectors_are_routed_through_a_grid_search():
    with config_context(enable_metadata_routing=True):
        tracker = IndexTracker(max_sector_weight=0.3, n_starts=1).set_fit_request(groups=True)
        search = GridSearchCV(tracker, {"k": [4, 10]}, cv=TimeSeriesSplit(2)).fit(RETURNS, INDEX, groups=SECTORS)
    assert search.best_estimator_.sector_weights_.max() <= 0.3 * (1 + 1e-12)


# ---- requests that cannot be met ----


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"k": 15, "max_weights": 0.05}, "15 names capped at 5% can hold 75%, but the budget is 100%; raise k to at least 20, or raise max_weights to at least 6.667%"),
        ({"k": 3, "max_weights": dict.fromkeys(RETURNS.columns[:38], 0.1), "budget": 2.5}, "3 names with the largest max_weights can hold 210%, but the budget is 250%; raise k to at least 7"),
        ({"k": 40, "max_weights": 0.02}, "40 names capped at 2% can hold 80%, but the budget is 100%; raise max_weights to at least 2.5%"),
        ({"max_sector_weight": 0.15}, "5 sectors capped at 15% can hold 75%, but the budget is 100%; raise max_sector_weight to at least 20%"),
        ({"k": 3, "max_sector_weight": 0.25}, "3 names under the caps of their sectors can hold 75%, but the budget is 100%; raise k to at least 4"),
        ({"k": 3, "max_sector_weight": 0.25, "budget": (0.9, 1)}, "can hold 75%, but the budget is at least 90%"),
        ({"k": 2, "keep": ["A01", "A02", "A03"]}, "3 names must be held .keep and min_weights., but k=2; raise k to 3"),
        ({"k": 5, "min_weights": 0.01}, "min_weights makes all 40 assets held, but k=5"),
        ({"min_weights": {"A01": 0.3}, "max_sector_weight": 0.25}, "must be held in .* need 30%, but its cap is 25%"),
        ({"min_weights": {"A01": 0.6, "A02": 0.7}}, "the names that must be held need 130%, but the budget is 100%"),
        ({"min_weights": {"A01": 0.3}, "max_weights": {"A01": 0.2}}, "A01 must be at least 30% and at most 20%"),
        ({"k": 0}, "0 names capped at 100% can hold 0%, but the budget is 100%"),
    ],
)  # fmt: skip
def test_infeasible_requests_are_explained(asked, message):
    with pytest.raises(InfeasibleMandate, match=f"no portfolio meets all that is asked: .*{message}"):
        IndexTracker(**asked).fit(RETURNS, INDEX, groups=SECTORS)


@pytest.mark.parametrize("seed", range(25))
def test_explanations_are_right(seed):
    """Refused exactly when no support has a member, and then the k it names works."""
    rng = np.random.default_rng(seed)
    d, k = 7, int(rng.integers(1, 5))
    labels = rng.integers(0, 3, d)
    X, y = rng.standard_normal((20, d)) / 100, rng.standard_normal(20) / 100
    tracker = IndexTracker(
        k=k, n_starts=1, max_weights=rng.uniform(0.1, 0.6, d), max_sector_weight=float(rng.uniform(0.3, 0.9))
    )
    gamma = ez.sets.Portfolio(1.0, 0.0, tracker.max_weights, labels, tracker.max_sector_weight)

    def possible(k):
        for support in itertools.combinations(range(d), k):
            try:
                gamma.require_slice(np.array(support))
            except ez.sets.EmptySlice:
                continue
            return True
        return False

    if possible(k):
        assert tracker.fit(X, y, groups=labels).result_.violation <= 1e-12
        return
    with pytest.raises(InfeasibleMandate) as error:
        tracker.fit(X, y, groups=labels)
    if "raise k to at least" in str(error.value):
        needed = int(str(error.value).split("raise k to at least ")[1].split(",")[0])
        assert possible(needed) or "max_weights" in str(error.value) or "largest" in str(error.value)
        assert not possible(needed - 1)


def solvable(k, budget, lower, upper, labels, caps, keep):
    """Whether any portfolio meets a mandate, by mixed-integer programming: w = p - m, held z, long s."""
    d = lower.size
    eye, none = np.eye(d), np.zeros((d, d))
    least, most = (-np.inf, np.inf) if budget is None else budget if isinstance(budget, tuple) else (budget, budget)
    one, zero = np.ones(d), np.zeros(d)
    blocks = [
        (np.hstack([eye, -eye, -np.diag(np.maximum(upper, 0)), none]), -np.inf, 0),
        (np.hstack([eye, -eye, -np.diag(np.minimum(lower, 0)), none]), 0, np.inf),
        (np.hstack([eye, -eye, none, none]), lower, upper),
        (np.hstack([eye, none, none, -2 * eye]), -np.inf, 0),
        (np.hstack([none, eye, none, 2 * eye]), -np.inf, 2),
        (np.hstack([one, -one, zero, zero])[None], least, most),
        (np.hstack([zero, zero, one, zero])[None], 0, k),
    ]
    for g, cap in (caps or {}).items():
        mine = (labels == g).astype(float)
        blocks.append((np.hstack([mine, mine, zero, zero])[None], 0, cap))
    held = zero.copy()
    held[keep] = 1
    answer = milp(
        np.zeros(4 * d),
        constraints=[LinearConstraint(*block) for block in blocks],
        integrality=np.hstack([zero, zero, one, one]),
        bounds=Bounds(np.hstack([zero, zero, held, zero]), np.hstack([2 * one, 2 * one, one, one])),
    )
    assert answer.status in (0, 2)
    return answer.status == 0


def random_mandate(rng):
    d = int(rng.integers(3, 9))
    labels = rng.integers(0, 3, d)
    budget = [1.0, 0.0, (0.6, 1.0), None, round(rng.uniform(-0.5, 1.2), 2)][rng.integers(5)]
    upper = rng.uniform(0.2, 0.7, d).round(2)
    lower = -rng.uniform(0, 0.3, d).round(2) * (rng.random() < 0.6)
    for i in rng.choice(d, rng.integers(0, 3), replace=False):  # held whatever happens
        lower[i], upper[i] = (0.1, upper[i]) if rng.random() < 0.5 else (-0.25, -0.05)
    caps = {g: round(rng.uniform(0.15, 0.7), 2) for g in np.unique(labels).tolist() if rng.random() < 0.7} or None
    keep = rng.choice(d, rng.integers(0, 2), replace=False).tolist()
    return int(rng.integers(1, d + 1)), budget, lower, upper, labels, caps if rng.random() < 0.6 else None, keep


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_refused_exactly_where_an_integer_programme_finds_none(seed):
    rng, met = np.random.default_rng(seed), 0
    for _ in range(40):
        mandate = k, budget, lower, upper, labels, caps, keep = random_mandate(rng)
        X = rng.standard_normal((20, lower.size)) / 100
        tracker = IndexTracker(
            k, budget=budget, min_weights=lower, max_weights=upper, max_sector_weight=caps, keep=keep, n_starts=1
        )
        possible = solvable(*mandate)
        met += possible
        try:
            tracker.fit(X, X.mean(axis=1), groups=labels)
        except InfeasibleMandate as error:
            assert not possible, f"{mandate}: {error}"
            assert "Portfolio(" not in str(error) and (caps or "sector" not in str(error))
            named = re.search("raise k to at least ([0-9]+)$", str(error))
            if named and not caps:
                assert solvable(int(named[1]), *mandate[1:]) and not solvable(int(named[1]) - 1, *mandate[1:])
        else:
            assert possible and tracker.result_.violation <= 1e-12
    assert 5 < met < 35


@pytest.mark.parametrize(
    "asked",
    [
        {"k": 4, "min_weights": [-0.3, 0, 0, 0, 0, 0], "max_weights": [-0.3, 0.5, 0.5, 0.4, 0.3, 0.3]},
        {"k": 2, "budget": 0.0, "min_weights": [0.1] + [-0.2] * 5, "max_weights": 0.3},
    ],
)
def test_positions_that_pull_against_the_budget_are_made_up_for(asked):
    X = RETURNS.to_numpy()[:60, :6]
    tracker = IndexTracker(**asked).fit(X, X.mean(axis=1))
    assert tracker.result_.violation <= 1e-12 and tracker.result_.support.size <= asked["k"]


def test_what_is_too_much_is_told():
    X = RETURNS.iloc[:, :6]
    with pytest.raises(InfeasibleMandate, match="1 names, 1 of them given, hold at least 10%, but the budget is 0%; raise k to at least 2"):  # fmt: skip
        IndexTracker(1, budget=0.0, min_weights=[0.1] + [-0.2] * 5).fit(X, INDEX)
    with pytest.raises(InfeasibleMandate, match="must be held need 10%, but the budget is 0%"):
        IndexTracker(1, budget=0.0, min_weights={"A01": 0.1}).fit(X, INDEX)
    with pytest.raises(InfeasibleMandate, match="1 names, 1 of them given, with the largest max_weights can hold 10%, but the budget is 100%; raise k to at least 2$"):  # fmt: skip
        IndexTracker(1, max_weights={"A01": 0.1}, keep="A01").fit(X, INDEX)


@pytest.mark.parametrize(
    ("asked", "code", "details"),
    [
        ({"k": 15, "max_weights": 0.05}, "too little", {"names": 15, "cap": 0.05, "reach": 0.75, "budget": 1.0, "needed": 20, "least": 1 / 15}),
        ({"max_sector_weight": 0.15}, "too little", {"sectors": 5, "cap": 0.15, "reach": 0.75, "least": 0.2}),
        ({"min_weights": {"A01": 0.6, "A02": 0.7}}, "too much", {"reach": 1.3, "budget": 1.0}),
        ({"k": 2, "keep": ["A01", "A02", "A03"]}, "held", {"names": 3, "allowed": 2}),
        ({"min_weights": {"A03": 0.2}, "max_weights": {"A03": 0.1}}, "bounds", {"name": "A03", "least": 0.2, "most": 0.1}),
    ],
)  # fmt: skip
def test_refusals_have_codes_and_numbers(asked, code, details):
    with pytest.raises(InfeasibleMandate) as caught:
        IndexTracker(**asked).fit(RETURNS, INDEX, groups=SECTORS)
    error = pickle.loads(pickle.dumps(caught.value))  # as from a worker
    assert error.code == code == error.reasons[0].code and str(error) == str(caught.value)
    assert {name: error.details[name] for name in details} == pytest.approx(details)


def test_refusals_can_be_told_in_other_words():
    returns = RETURNS.rename(columns={"A01": "{k}"})
    with pytest.raises(InfeasibleMandate) as caught:
        IndexTracker(k=15, max_weights=0.05).fit(returns, INDEX)
    assert caught.value.told({"k": "--k"}).endswith("raise --k to at least 20, or raise max_weights to at least 6.667%")
    with pytest.raises(InfeasibleMandate, match="{k} must be at least 20% and at most 10%"):
        IndexTracker(min_weights={"{k}": 0.2}, max_weights={"{k}": 0.1}).fit(returns, INDEX)


def test_groups_of_the_constructor_are_those_of_fit():
    asked = {"k": 8, "max_sector_weight": 0.3, "n_starts": 1}
    here = clone(IndexTracker(groups=SECTORS, **asked)).fit(RETURNS, INDEX)
    there = IndexTracker(**asked).fit(RETURNS, INDEX, groups=SECTORS)
    pd.testing.assert_series_equal(here.weights_, there.weights_)
    pd.testing.assert_series_equal(here.sector_weights_, there.sector_weights_)
    other = IndexTracker(groups=dict.fromkeys(RETURNS.columns, "all"), **asked).fit(RETURNS, INDEX, groups=SECTORS)
    pd.testing.assert_series_equal(other.weights_, there.weights_)


# ---- data that cannot be used ----


def test_errors_name_the_argument_and_the_remedy():
    tracker = IndexTracker(k=5)
    gap = RETURNS.copy()
    gap.iloc[4, 7] = np.nan
    cases = [
        (lambda: tracker.fit(gap, INDEX), "returns must not have gaps: A08 lacks 1 day.s., first on 2021-01-08"),
        (lambda: tracker.fit(RETURNS, None), "index_returns are missing.*returns.mean"),
        (lambda: tracker.fit(RETURNS, INDEX.iloc[3:]), "index_returns lacks 3 of the returns' days, the first is 2021-01-04"),
        (lambda: tracker.fit(RETURNS.iloc[3:], INDEX), "returns lacks 3 of the index_returns' days"),
        (lambda: tracker.fit(RETURNS.to_numpy(), INDEX.to_numpy()[:9]), "one value for each of the 200 days"),
        (lambda: tracker.fit(100 * (1 + RETURNS), INDEX), "look like prices.*prices_to_returns"),
        (lambda: tracker.fit(RETURNS.assign(name="x"), INDEX), "must hold numbers alone"),
        (lambda: tracker.fit(RETURNS[["A01", "A01"]], INDEX), "'A01' comes twice"),
        (lambda: IndexTracker(max_sector_weight=0.1).fit(RETURNS, INDEX), "needs the sector of each asset"),
        (lambda: IndexTracker(max_sector_weight={"Tech": 0.1}).fit(RETURNS, INDEX, SECTORS), "the sector 'Tech'"),
        (lambda: tracker.fit(RETURNS, INDEX, SECTORS.iloc[2:]), "got none for A01, A02"),
        (lambda: tracker.fit(RETURNS, INDEX, SECTORS.to_list()[:3]), "a label for each of the 40 assets, got 3"),
        (lambda: tracker.fit(RETURNS, INDEX, SECTORS.replace(SECTORS.iloc[0], None)), "no group for A01"),
        (lambda: IndexTracker(keep=["ZZZ"]).fit(RETURNS, INDEX), "keep names ZZZ"),
        (lambda: IndexTracker(min_weights={"ZZZ": 0.1}).fit(RETURNS, INDEX), "min_weights names the asset 'ZZZ'"),
        (lambda: IndexTracker(max_weights=[0.1, 0.2]).fit(RETURNS, INDEX), "one for each of the 40 assets, got 2"),
        (lambda: IndexTracker(error="absolute").fit(RETURNS, INDEX), "error must be"),
        (lambda: IndexTracker(k=2.5).fit(RETURNS, INDEX), "k must be an integer"),
        (lambda: IndexTracker(k=3, n_starts=1).fit(RETURNS, INDEX).predict(RETURNS.iloc[:, :1]), "it lacks"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_days_in_another_order_are_aligned():
    tracker = IndexTracker(k=5, n_starts=1)
    straight = tracker.fit(RETURNS, INDEX).weights_
    assert tracker.fit(RETURNS, INDEX.iloc[::-1]).weights_.equals(straight)


# ---- prices ----


def test_prices_to_returns():
    days = pd.date_range("2024-01-01", periods=4)
    prices = pd.DataFrame({"A": [10.0, 11.0, 11.0, 22.0], "B": [5.0, np.nan, 5.0, 4.0]}, index=days)
    level = pd.Series([100.0, 101.0, 102.0, 103.0], index=days, name="I")
    with pytest.raises(ValueError, match="B lacks 1 day.s., first on 2024-01-02"):
        prices_to_returns(prices)
    whole = prices_to_returns(prices, missing="drop_assets")
    np.testing.assert_allclose(whole, [[0.1], [0.0], [1.0]])
    assert whole.index.tolist() == days[1:].tolist()
    both, index = prices_to_returns(prices, level, missing="drop_days")
    np.testing.assert_allclose(both, [[0.1, 0.0], [1.0, -0.2]])
    np.testing.assert_allclose(index, [0.02, 103 / 102 - 1])
    assert index.name == "I" and index.index.equals(both.index)
    np.testing.assert_allclose(prices_to_returns([[1.0], [2.0]]), [[1.0]])
    with pytest.raises(ValueError, match="above 0 and finite, got 0 for A on 2024-01-02"):
        prices_to_returns(prices.assign(A=[1.0, 0.0, 1.0, 1.0])[["A"]])
    with pytest.raises(ValueError, match="same days"):
        prices_to_returns(prices[["A"]], level.iloc[1:])
    with pytest.raises(ValueError, match="oldest first, but 2024-01-04 is the first day.*use sort_index"):
        prices_to_returns(prices[["A"]].iloc[::-1])
    with pytest.raises(ValueError, match="missing must be"):
        prices_to_returns(prices, missing="fill")


# ---- the real market ----


@pytest.fixture(scope="module")
def sp500():
    folder = SHARED / "data" / "sp500_2021_2022"
    if not folder.is_dir():
        pytest.skip("the shared S&P 500 data is not here")
    return ez.datasets.read_prices(folder / "prices.csv.gz", sectors=folder / "sectors.csv")


def test_sp500(sp500):
    """15 names, 10% a sector, fully invested: fast, no constraint broken, and closer than SCIP gets (benchmarks/TRACKING.md)."""
    started = time.perf_counter()
    train, test = sp500.split()
    returns, index, sectors = train.to_pandas()
    tracker = IndexTracker(k=15, max_sector_weight=0.1).fit(returns, index, groups=sectors)
    assert time.perf_counter() - started < 30  # 3 s on an idle machine
    weights = tracker.weights_
    assert (weights > 0).sum() == 15 and (weights >= 0).all()
    assert math.fsum(weights) == pytest.approx(1.0, abs=1e-14)
    assert weights.groupby(sectors).sum().max() <= 0.1 * (1 + 1e-14)
    assert tracker.tracking_error_ < 0.0333
    assert tracker.tracking_error(*test.to_pandas()[:2]) < 0.05


def test_importing_costs_no_pandas():
    code = "import sys, ellzero; assert not {'pandas', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_page_prints_what_it_says():
    page = (ROOT / "docs" / "index-tracking.md").read_text(encoding="utf-8")
    names, count = {"__name__": "page"}, 0
    for code, printed in re.findall(
        r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL
    ):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, "index-tracking.md", "exec"), names)
        assert_printed(printed, output.getvalue())
        count += 1
    assert page.count("```python") == page.count("```text") == count == 5
    for asked in re.findall(r"\| `(\w+=[^`]+)`", page):  # the table of what can be asked
        sample = eval(f"dict({asked.replace('AAPL', 'A001').replace('Energy', 'Financials')})")
        assert set(sample) <= set(IndexTracker().get_params())


def test_benchmark_reports_what_it_measured():
    spec = importlib.util.spec_from_file_location("benchmarks_tracking", ROOT / "benchmarks" / "tracking.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    train, test = MARKET.split()
    w = np.zeros(40)
    w[[0, 1]] = 0.7, 0.4
    measured = benchmark.row("x", w, 1.0, "", train, test, 2, 0.3)
    gross = max(0.7 if SECTORS.iloc[0] != SECTORS.iloc[1] else 1.1, 0.4)
    assert measured["violation"] == pytest.approx(gross / 0.3 - 1)
    assert measured["in sample"] == pytest.approx((train.returns @ w - train.index_returns).std(ddof=1) * 252**0.5)
    assert measured["names"] == 2
    lines = benchmark.table([measured, {"solver": "y", "note": "did not install"}]).splitlines()
    assert lines[2].startswith("| x | ") and "did not install" in lines[3]
