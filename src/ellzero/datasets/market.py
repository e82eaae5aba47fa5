"""A market: the returns of an index and of the assets that may track it, and a simulated one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import check_count, check_nonnegative, check_number, check_positive

Seed = int | np.random.Generator | None

_SECTORS = (
    "Information Technology",
    "Financials",
    "Health Care",
    "Industrials",
    "Consumer Discretionary",
    "Consumer Staples",
    "Energy",
    "Utilities",
    "Materials",
    "Real Estate",
    "Communication Services",
)


@dataclass(frozen=True, eq=False)
class Market:
    """Returns of an index and of the assets that may track it: row t is day t, column i is asset i.

    Attributes
    ----------
    returns : ndarray of shape (n_days, n_assets)
        Simple returns, price_t / price_{t-1} - 1.
    index_returns : ndarray of shape (n_days,)
    names : ndarray of str of shape (n_assets,)
    sectors : ndarray of str of shape (n_assets,), optional
    dates : ndarray of datetime64 of shape (n_days,), optional
        The day on which each return ends.
    weights : ndarray of shape (n_assets,), optional
        The weights of the assets in the index, where they are known.

    Examples
    --------
    >>> from ellzero.datasets import make_market
    >>> market = make_market(n_days=100, n_assets=20)
    >>> train, test = market.split()
    >>> train.returns.shape, test.returns.shape
    ((80, 20), (20, 20))
    >>> market.since("2021-03-01").dates[0]
    np.datetime64('2021-03-01')
    """

    returns: np.ndarray
    index_returns: np.ndarray
    names: np.ndarray
    sectors: np.ndarray | None = None
    dates: np.ndarray | None = None
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.returns.ndim != 2:
            raise ValueError(f"returns must be two-dimensional (days, assets), got shape {self.returns.shape}")
        n_days, n_assets = self.returns.shape
        sizes = {"index_returns": n_days, "names": n_assets}
        sizes |= {"sectors": n_assets, "dates": n_days, "weights": n_assets}
        for name, size in sizes.items():
            value = getattr(self, name)
            if value is not None and value.shape != (size,):
                raise ValueError(
                    f"{name} must have shape ({size},) to fit returns of shape {self.returns.shape}, got {value.shape}"
                )

    def split(self, train: float = 0.8) -> tuple[Market, Market]:
        """The first floor(train · n_days) days, and the days after them."""
        check_number(train, "train", low=0.0, high=1.0, open_low=True, open_high=True)
        n_days = len(self.returns)
        cut = math.floor(round(train * n_days, 9))  # 0.29 · 100 is 28.999...96 in floating point
        if not 0 < cut < n_days:
            raise ValueError(f"train={train} of {n_days} days leaves one part empty; take more days or another share")
        return self._days(slice(cut)), self._days(slice(cut, None))

    def since(self, date: str | np.datetime64) -> Market:
        """The days from the given date on."""
        if self.dates is None:
            raise ValueError("since needs dates, and this market has none; give dates= when making it")
        start = int(np.searchsorted(self.dates, np.datetime64(date)))
        if start == len(self.dates):
            raise ValueError(f"date must not be after the last day, {self.dates[-1]}, got date={date}")
        return self._days(slice(start, None))

    def to_pandas(self) -> tuple[Any, Any, Any]:
        """The returns as a DataFrame, those of the index as a Series by date, and the sectors as a Series by name."""
        import pandas as pd

        dates = None if self.dates is None else pd.DatetimeIndex(self.dates, name="date")
        returns = pd.DataFrame(self.returns, index=dates, columns=self.names.tolist())
        sectors = None if self.sectors is None else pd.Series(self.sectors.tolist(), returns.columns, name="sector")
        return returns, pd.Series(self.index_returns, returns.index, name="index"), sectors

    def _days(self, days: slice) -> Market:
        dates = None if self.dates is None else self.dates[days]
        return Market(self.returns[days], self.index_returns[days], self.names, self.sectors, dates, self.weights)


def make_market(
    n_days: int = 500,
    n_assets: int = 200,
    n_sectors: int = 10,
    *,
    volatility: float = 0.016,
    fee: float = 0.0,
    rng: Seed = 0,
) -> Market:
    """r_ti = exp(β_i m_t + γ_i s_{t,g(i)} + e_ti) - 1, and the index Σ_i c_i r_ti with c ∝ 1/rank^(3/4).

    A market factor m, a factor s for each sector, and idiosyncratic noise e with heavy tails (Student t, five
    degrees of freedom) contribute about 37%, 13% and 50% of an asset's variance, so that returns correlate by
    about 0.5 within a sector and 0.36 across. The capitalisations c follow a power law, in random order.

    Parameters
    ----------
    n_days, n_assets, n_sectors : int
        Every sector holds at least one asset.
    volatility : float
        Daily volatility of a typical asset.
    fee : float
        Taken from the index return each day, e.g. 1e-5; 0 makes the index exactly the weighted sum.
    rng : int, Generator or None
        Seed. The same seed gives the same market.

    Returns
    -------
    Market
        With sectors, weights, and business days from 2021-01-04 on as dates.

    Examples
    --------
    >>> import numpy as np
    >>> from ellzero.datasets import make_market
    >>> market = make_market()
    >>> market.returns.shape, len(set(market.sectors.tolist()))
    ((500, 200), 10)
    >>> bool(np.all(market.index_returns == market.returns @ market.weights))
    True
    """
    check_count(n_days, "n_days")
    check_count(n_assets, "n_assets")
    check_positive(volatility, "volatility")
    check_nonnegative(fee, "fee")
    if check_count(n_sectors, "n_sectors") > n_assets:
        raise ValueError(f"n_sectors must be at most n_assets={n_assets}, got n_sectors={n_sectors}")
    generator = np.random.default_rng(rng)
    sector = np.concatenate((np.arange(n_sectors), generator.integers(n_sectors, size=n_assets - n_sectors)))
    sector = generator.permutation(sector)
    weights = generator.permutation(np.arange(1.0, n_assets + 1) ** -0.75)
    weights /= weights.sum()

    market = 0.60 * generator.standard_normal((n_days, 1))
    sectors = 0.36 * generator.standard_normal((n_days, n_sectors))
    own = 0.71 * math.sqrt(3 / 5) * generator.standard_t(5, (n_days, n_assets))  # a t(5) has variance 5/3
    beta, gamma = generator.uniform(0.6, 1.4, (2, n_assets))
    returns = np.expm1(volatility * (beta * market + gamma * sectors[:, sector] + own))

    labels = np.array([*_SECTORS, *(f"Sector {i + 1}" for i in range(len(_SECTORS), n_sectors))])
    names = np.array([f"A{i:0{len(str(n_assets))}d}" for i in range(1, n_assets + 1)])
    dates = np.busday_offset("2021-01-04", np.arange(n_days), roll="forward")
    return Market(returns, returns @ weights - fee, names, labels[sector], dates, weights)
