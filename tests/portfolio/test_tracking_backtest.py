"""The walk-forward backtest against a plain loop over days and assets."""

import math

import numpy as np
import pandas as pd
import pytest

import ellzero as ez
from ellzero.portfolio import IndexTracker
from ellzero.portfolio.backtest import _walk

MARKET = ez.datasets.make_market(n_days=160, n_assets=20, n_sectors=4, rng=5)
RETURNS, INDEX, SECTORS = MARKET.to_pandas()


def plain_loop(returns, ends, targets, cost):
    """Money in every asset and in cash, one day after the other."""
    wealth, assets, cash = 1.0, [0.0] * returns.shape[1], 1.0
    daily, turnover = [], []
    for t in range(ends[0], len(returns)):
        if t > ends[0]:
            for i in range(returns.shape[1]):
                assets[i] *= 1.0 + returns[t, i]
            now = sum(assets) + cash
            daily.append(now / wealth - 1.0)
            wealth = now
        if t in ends and t + 1 < len(returns):
            target = targets[ends.index(t)]
            traded = sum(abs(target[i] - assets[i] / wealth) for i in range(returns.shape[1]))
            turnover.append(traded)
            before = wealth
            after = wealth * (1.0 - cost * traded)
            assets = [w * after for w in target]
            cash = after - sum(assets)
            wealth = before  # the cost belongs to the day that follows
    return np.array(daily), np.array(turnover)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cost", [0.0, 0.003])
def test_drift_and_costs(seed, cost):
    rng = np.random.default_rng(seed)
    returns = rng.normal(0, 0.03, (40, 6))
    ends = sorted(rng.choice(np.arange(3, 38), 4, replace=False).tolist())
    targets = rng.dirichlet(np.ones(6), 4) * rng.uniform(0.5, 1.3)  # cash, or money borrowed
    targets[:, rng.integers(6)] *= -0.5
    days, portfolio, turnover = _walk(returns, ends, targets, cost)
    slow, traded = plain_loop(returns, ends, targets, cost)
    assert days.tolist() == list(range(ends[0] + 1, 40))
    np.testing.assert_allclose(portfolio, slow, atol=1e-14)
    np.testing.assert_allclose(turnover, traded, atol=1e-13)


def test_all_in_one_asset():
    """What a portfolio of one asset must do: the same as the asset, but for the cost of buying it."""

    class Buy:
        def get_params(self, deep=True):
            return {}

        def __sklearn_clone__(self):
            return self

        def fit(self, X, y):
            self.weights_ = np.eye(X.shape[1])[2]
            return self

    walk = ez.backtest(Buy(), RETURNS, INDEX, SECTORS, window=100, every=10, cost=0.01)
    expected = RETURNS.iloc[100:, 2].copy()
    expected.iloc[0] = 0.99 * (1 + expected.iloc[0]) - 1
    pd.testing.assert_series_equal(walk.returns["portfolio"], expected, check_names=False)
    assert walk.turnover.iloc[0] == 1 and walk.turnover.iloc[1:].max() < 1e-12
    assert walk.costs.sum() == pytest.approx(0.01)


@pytest.fixture(scope="module")
def walk():
    tracker = IndexTracker(k=6, max_sector_weight=0.35, n_starts=1, periods_per_year=250)
    return tracker.backtest(RETURNS, INDEX, groups=SECTORS, window=80, every="month", cost=0.002)


def test_fits_see_the_past_alone(walk):
    assert (walk.weights.index == pd.DatetimeIndex([d for d in RETURNS.index[79:-1] if d in month_ends()])).all()
    for day in walk.weights.index:
        row = RETURNS.index.get_loc(day)
        past = slice(row - 79, row + 1)
        tracker = IndexTracker(k=6, max_sector_weight=0.35, n_starts=1)
        tracker.fit(RETURNS.iloc[past], INDEX.iloc[past], groups=SECTORS)
        np.testing.assert_allclose(walk.weights.loc[day], tracker.weights_, atol=1e-14)
    later = RETURNS.copy()
    later.loc[later.index > walk.weights.index[1]] *= 2.0
    again = IndexTracker(k=6, max_sector_weight=0.35, n_starts=1).backtest(
        later, INDEX, groups=SECTORS, window=80, every="month"
    )
    np.testing.assert_array_equal(again.weights.iloc[:2], walk.weights.iloc[:2])


def month_ends():
    days = RETURNS.index.to_series()
    return set(days.groupby(days.dt.to_period("M")).max())


def test_what_it_reports(walk):
    returns = walk.returns
    np.testing.assert_allclose(returns["active"], returns["portfolio"] - returns["index"], atol=1e-16)
    pd.testing.assert_series_equal(returns["index"], INDEX.loc[returns.index], check_names=False)
    assert walk.tracking_error == pytest.approx(returns["active"].std() * math.sqrt(250))
    grown = [np.prod(1 + returns[name]) for name in ("portfolio", "index")]
    np.testing.assert_allclose(walk.curves.iloc[-1, :2], grown)
    year = 250 / len(returns)
    assert walk.tracking_difference == pytest.approx(grown[0] ** year - grown[1] ** year)
    relative, peak, fall = [1.0, *walk.curves["relative"]], 0.0, 0.0
    for value in relative:
        peak = max(peak, value)
        fall = max(fall, 1 - value / peak)
    assert walk.max_active_drawdown == pytest.approx(fall)
    np.testing.assert_allclose(walk.costs, 0.002 * walk.turnover)
    assert walk.turnover_per_year == pytest.approx(walk.turnover.iloc[1:].sum() * year)
    assert walk.summary()["rebalancings"] == len(walk.weights) == len(walk.turnover)
    assert (walk.weights > 0).sum(axis=1).max() <= 6
    text = repr(walk)
    assert "the last 80 days, rebalanced every month, cost 0.2% of what is traded" in text
    assert "annualised with 250 days" in text


def test_expanding_windows_and_arrays():
    seen = []
    tracker = IndexTracker(k=5, n_starts=1)
    framed = ez.backtest(
        tracker, RETURNS, INDEX, window=100, every=25, expanding=True, callback=lambda day, fit: seen.append((day, fit))
    )
    assert [day for day, _ in seen] == framed.weights.index.tolist() == RETURNS.index[[99, 124, 149]].tolist()
    whole = IndexTracker(k=5, n_starts=1).fit(RETURNS.iloc[:150], INDEX.iloc[:150])
    np.testing.assert_allclose(framed.weights.iloc[-1], whole.weights_, atol=1e-14)
    plain = ez.backtest(tracker, MARKET.returns, MARKET.index_returns, window=100, every=25, expanding=True)
    np.testing.assert_allclose(plain.returns, framed.returns, atol=1e-9)
    assert plain.weights.index.tolist() == [99, 124, 149]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 160}, "window=160 days and a day after them are more than the 160 days"),
        ({"every": "decade"}, "every must be a number of days or one of 'week'"),
        ({"window": 155, "every": "year"}, "no year ends"),
        ({"cost": -0.1}, "cost"),
        ({"every": 0}, "every must be at least 1"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        ez.backtest(IndexTracker(k=3, n_starts=1), RETURNS, INDEX, **{"window": 100, **options})


def test_bad_data():
    tracker = IndexTracker(k=3, n_starts=1)
    with pytest.raises(ValueError, match="oldest first"):
        ez.backtest(tracker, RETURNS.iloc[::-1], INDEX, window=100)
    with pytest.raises(ValueError, match="needs dates"):
        ez.backtest(tracker, MARKET.returns, MARKET.index_returns, window=100, every="month")
    with pytest.raises(ValueError, match="is missing"):
        ez.backtest(tracker, RETURNS, None, window=100)
    with pytest.raises(ValueError, match="lost everything"):
        _walk(np.array([[0.0], [-1.0], [0.0]]), [0], np.array([[1.0]]), 0.0)
    with pytest.raises(ValueError, match="costs the whole portfolio: cost=0.5 times a turnover of 200%; lower cost"):
        _walk(np.zeros((3, 2)), [0], np.array([[1.5, -0.5]]), 0.5)


def test_nothing_invested_is_exactly_nothing():
    walk = ez.backtest(IndexTracker(k=3, budget=0.0, n_starts=1), RETURNS, INDEX, window=100)
    assert (walk.weights == 0).all(axis=None) and (walk.turnover == 0).all() and (walk.returns["portfolio"] == 0).all()
