"""Walking forward: fit on the past, hold through the days that follow, rebalance, and count what it costs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .._core.interruption import whole_call
from .._core.validation import check_count, check_nonnegative, check_number
from .mandate import percent
from .market import Returns, need_pandas, read_returns, told_day

_PERIODS = {"week": "W", "month": "M", "quarter": "Q", "year": "Y"}


def backtest(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    window: int = 252,
    expanding: bool = False,
    every: int | str = 21,
    cost: float = 0.0,
    n_jobs: int | None = None,
    callback: Callable[[Any, Any], Any] | None = None,
) -> Backtest:
    """Fit on past days, hold the portfolio through the days after them, fit again, and so on to the end.

    At the close of each rebalancing day the estimator sees the days up to this one and nothing later. The portfolio is
    traded to its weights, and drifts from the next day on: w_i <- w_i (1 + r_i) / (1 + Σ_j w_j r_j), with cash, the
    rest 1 - Σw, earning 0. The trade costs `cost` times the turnover Σ_i |w_i - drifted w_i|, purchases and sales
    together and the first purchase included; the next day's return is (1 - cost · turnover)(1 + Σ_i w_i r_i) - 1.
    Between two trades drift may carry weights over their bounds and caps.

    Parameters
    ----------
    estimator : IndexTracker, or anything with ``fit(X, y)`` and ``weights_``
        It is cloned for every fit.
    X, y, groups
        As for `IndexTracker.fit`, oldest day first.
    window : int
        Days of each fit.
    expanding : bool
        Whether a fit sees all days so far, at least `window`, instead of the last `window`.
    every : int, or "week", "month", "quarter" or "year"
        Rebalance after so many days, or on the last day in each of these; the latter needs dates.
    cost : float
        Proportional cost of trading, e.g. 0.001 for 10 basis points.
    n_jobs : int, optional
        Fits at the same time.
    callback : callable, optional
        ``callback(day, fitted estimator)`` after each fit.

    Examples
    --------
    >>> import ellzero as ez
    >>> returns, index, sectors = ez.datasets.make_market(n_days=200, n_assets=30).to_pandas()
    >>> tracker = ez.IndexTracker(k=8, max_sector_weight=0.2, n_starts=1)
    >>> walk = ez.backtest(tracker, returns, index, sectors, window=120, every="month", cost=0.001)
    >>> walk.weights.shape, walk.returns.columns.tolist()
    ((4, 30), ['portfolio', 'index', 'active'])
    """
    pd = need_pandas()
    data = read_returns(X, y)
    if data.index is None:
        raise ValueError("y, the returns of the index, is missing: backtest(estimator, returns, index_returns)")
    if data.framed and not data.days.is_monotonic_increasing:
        raise ValueError("the days of X must come oldest first; use X.sort_index()")
    cost = check_number(check_nonnegative(cost, "cost"), "cost", low=0.0, high=1.0)
    ends = rebalancing_days(data, check_count(window, "window", low=2), every)
    takes_groups = "groups" in inspect.signature(estimator.fit).parameters
    options = {"groups": groups} if takes_groups and groups is not None else {}
    frame = X if data.framed else np.asarray(X, dtype=float)
    index = pd.Series(data.index, data.days) if data.framed else data.index
    pasts = (slice(0 if expanding else end + 1 - window, end + 1) for end in ends)
    jobs = (delayed(_fitted)(clone(estimator), _rows(frame, past), _rows(index, past), options) for past in pasts)
    targets = np.empty((len(ends), data.names.size))
    for number, fitted in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(jobs)):
        targets[number] = np.asarray(fitted.weights_, dtype=float)
        if callback is not None:
            callback(data.days[ends[number]], fitted)
    days, portfolio, turnover = _walk(data.returns, ends, targets, cost)
    when = pd.Index(data.days)
    held, traded = when[days], when[np.array(ends)]
    daily = pd.DataFrame({"portfolio": portfolio, "index": data.index[days]}, index=held)
    daily["active"] = daily["portfolio"] - daily["index"]
    return Backtest(
        weights=pd.DataFrame(targets, index=traded, columns=data.names),
        returns=daily,
        turnover=pd.Series(turnover, index=traded, name="turnover"),
        costs=pd.Series(cost * turnover, index=traded, name="cost"),
        periods_per_year=float(getattr(estimator, "periods_per_year", 252.0)),
        asked=f"{'at least' if expanding else 'the last'} {window} days, rebalanced every "
        f"{every if isinstance(every, str) else f'{every} days'}, cost {percent(cost)} of what is traded",
    )


@dataclass(frozen=True, eq=False)
class Backtest:
    """What a walk through the days brought.

    Attributes
    ----------
    weights : DataFrame
        The weights that were traded to, a row for each rebalancing day.
    returns : DataFrame
        Daily returns of the portfolio after costs and of the index, and their difference "active".
    turnover, costs : Series
        Σ_i |w_i - drifted w_i| and what it cost, as shares of the portfolio, for each rebalancing day.
    periods_per_year : float
    asked : str
    """

    weights: Any
    returns: Any
    turnover: Any
    costs: Any
    periods_per_year: float
    asked: str

    @property
    def tracking_error(self) -> float:
        """The standard deviation of the active returns, times sqrt(periods_per_year)."""
        return float(self.returns["active"].std(ddof=1) * math.sqrt(self.periods_per_year))

    @property
    def tracking_difference(self) -> float:
        """What the portfolio grew a year, less what the index did: (Π(1 + r_t))^(year / n_days) each."""
        growth = (1.0 + self.returns[["portfolio", "index"]]).prod() ** (self.periods_per_year / len(self.returns))
        return float(growth["portfolio"] - growth["index"])

    @property
    def curves(self) -> Any:
        """What one unit became in the portfolio and in the index, and their ratio "relative", as a DataFrame."""
        curves = (1.0 + self.returns[["portfolio", "index"]]).cumprod()
        curves["relative"] = curves["portfolio"] / curves["index"]
        return curves

    @property
    def max_active_drawdown(self) -> float:
        """The largest fall of portfolio / index from an earlier peak; 0.02 is 2%."""
        relative = np.append(1.0, self.curves["relative"].to_numpy())
        return float(np.max(1.0 - relative / np.maximum.accumulate(relative)))

    @property
    def turnover_per_year(self) -> float:
        """Turnover after the first purchase, a year: purchases and sales together."""
        years = len(self.returns) / self.periods_per_year
        return float(self.turnover.iloc[1:].sum() / years)

    def summary(self) -> Any:
        """The figures above, as a Series."""
        held = (self.weights != 0).sum(axis=1)
        facts = {
            "days": len(self.returns),
            "rebalancings": len(self.weights),
            "names, mean": float(held.mean()),
            "tracking error": self.tracking_error,
            "tracking difference": self.tracking_difference,
            "max active drawdown": self.max_active_drawdown,
            "turnover a year": self.turnover_per_year,
            "costs, total": float(self.costs.sum()),
            "periods per year": self.periods_per_year,
        }
        return need_pandas().Series(facts, name="backtest", dtype=object)

    def __repr__(self) -> str:
        days, year = self.returns.index, f"annualised with {self.periods_per_year:g} days"
        lines = {
            "asked": self.asked,
            "days": f"{len(days)}, {told_day(days[0])} to {told_day(days[-1])}, after {len(self.weights)} fits",
            "names": f"{(self.weights != 0).sum(axis=1).mean():.1f} held on average",
            "tracking error": f"{percent(self.tracking_error)} ({year})",
            "difference": f"{self.tracking_difference:+.2%} a year against the index",
            "drawdown": f"{percent(self.max_active_drawdown)} at most against the index",
            "turnover": f"{percent(self.turnover_per_year)} a year after the first purchase, both sides",
            "costs": f"{percent(float(self.costs.sum()))} in all",
        }
        return "ellzero backtest\n" + "\n".join(f"  {name:<15}{text}" for name, text in lines.items())


def _rows(table: Any, rows: slice) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _fitted(estimator: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
    with whole_call():
        return estimator.fit(X, y, **options)


def rebalancing_days(data: Returns, window: int, every: int | str) -> list[int]:
    """The rows at whose close the portfolio is traded; a return must follow the last."""
    last = len(data.returns) - 2
    if window > last + 1:
        raise ValueError(
            f"window={window} days and a day after them are more than the {len(data.returns)} days there are; "
            "shorten the window"
        )
    if not isinstance(every, str):
        return list(range(window - 1, last + 1, check_count(every, "every")))
    if every not in _PERIODS:
        raise ValueError(f"every must be a number of days or one of {', '.join(map(repr, _PERIODS))}, got {every!r}")
    if not hasattr(data.days, "to_period"):
        raise ValueError(f"{every=} needs dates: give X as a DataFrame with a DatetimeIndex, or a number of days")
    period = data.days.tz_localize(None).to_period(_PERIODS[every])
    if not (ends := [row for row in range(window - 1, last + 1) if period[row] != period[row + 1]]):
        raise ValueError(f"no {every} ends between day {window} and the last but one; shorten the window")
    return ends


def _walk(
    returns: np.ndarray, ends: list[int], targets: np.ndarray, cost: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the days held, the portfolio's returns on them, and the turnover of each trade.

    Between trades the value of each position grows with its asset: with G_t = Π(1 + r) since the trade, the portfolio
    is worth V_t = 1 - Σw + Σ_i w_i G_ti of what it was.
    """
    turnover, parts = np.empty(len(ends)), []
    drifted = np.zeros(returns.shape[1])
    for number, (end, w) in enumerate(zip(ends, targets, strict=True)):
        turnover[number] = np.abs(w - drifted).sum()
        if cost * turnover[number] >= 1:
            raise ValueError(
                f"trading after row {end} costs the whole portfolio: cost={cost:g} times a turnover of "
                f"{percent(turnover[number])}; lower cost, or bound min_weights and max_weights"
            )
        until = ends[number + 1] if number + 1 < len(ends) else len(returns) - 1
        held = np.flatnonzero(w)
        growth = np.cumprod(1.0 + returns[end + 1 : until + 1, held], axis=0)
        value = 1.0 - w.sum() + growth @ w[held]
        if not (value > 0).all():
            raise ValueError(f"the portfolio lost everything {int(np.argmax(value <= 0)) + 1} day(s) after row {end}")
        daily = value / np.append(1.0, value[:-1])
        daily[0] *= 1.0 - cost * turnover[number]
        parts.append(daily - 1.0)
        drifted = np.zeros(returns.shape[1])
        drifted[held] = w[held] * growth[-1] / value[-1]
    return np.arange(ends[0] + 1, len(returns)), np.concatenate(parts), turnover
