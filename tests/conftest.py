"""A small market and an answer for it, where a test needs something to show."""

import pytest

import ellzero as ez


@pytest.fixture(scope="module")
def market():
    return ez.datasets.make_market(n_days=120, n_assets=30)


@pytest.fixture(scope="module")
def answer(market):
    train, _ = market.split()
    caps = ez.sets.GroupWise(ez.sets.L1Ball(0.2), groups=train.sectors)
    return ez.minimize(ez.risks.LeastSquares(train.returns, train.index_returns), 6, caps)
