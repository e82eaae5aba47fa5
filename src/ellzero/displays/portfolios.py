"""Displays of weights, and of what portfolios do beside their index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._core.arrays import to_host
from ..solver.result import Result
from . import plot as _plot
from .base import Display, fitted, name_of, names_seen, tidy
from .plot import Caps, Labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class WeightsDisplay(Display):
    """Bars of the weights: Σ|w_i| of every group with its cap, or the largest single weights where there are no groups.

    Parameters
    ----------
    weights : mapping from name to vector of shape (d,)
        The names become the legend.
    groups : sequence of d labels, optional
    cap : float, or mapping from group to float, optional
    feature_names : sequence of str, optional

    Examples
    --------
    >>> import ellzero as ez, matplotlib.pyplot as plt
    >>> train, _ = ez.datasets.make_market(n_days=100, n_assets=30).split()
    >>> caps = ez.sets.GroupWise(ez.sets.L1Ball(0.2), groups=train.sectors)
    >>> res = ez.minimize(ez.risks.LeastSquares(train.returns, train.index_returns), k=5, constraint=caps)
    >>> display = ez.WeightsDisplay.from_result(res)  # groups and caps are those of the constraint
    >>> len(display.ax_.get_yticklabels())
    10
    >>> plt.close(display.figure_)
    """

    weights: Mapping[str, Any]
    groups: Labels = None
    cap: Caps = None
    feature_names: Sequence[str] | None = None

    def plot(self, ax: Axes | None = None, *, most: int = 30) -> Self:
        """Draw; without groups the `most` largest weights."""
        if self.groups is not None:
            return self._keep(_plot.weights_by_group(self.weights, self.groups, self.cap, ax))
        ax = _plot._axes(ax)
        vectors = {name: np.asarray(to_host(w) if hasattr(w, "shape") else w) for name, w in self.weights.items()}
        size = np.max([np.abs(w) for w in vectors.values()], axis=0)
        order = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]
        shown = order[:most]
        _plot.bars(ax, {name: w[shown] for name, w in vectors.items()}, [name_of(self.feature_names, i) for i in shown])
        ax.axvline(0, color="0.5", lw=0.8)
        ax.set_xlabel("weight" + (f", the {most} largest of {order.size}" if order.size > most else ""))
        if len(vectors) > 1:
            _plot.legend_above(ax)
        return self._keep(ax)

    @classmethod
    def from_result(
        cls,
        result: Result | Mapping[str, Result],
        *,
        groups: Labels = None,
        cap: Caps = None,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the weights of one result or several; groups and caps are those of Γ unless given."""
        results = result if isinstance(result, Mapping) else {result.method: result}
        first = next(iter(results.values()))
        if groups is None:
            groups, found = first.constraint.groups_and_caps(to_host(first.x).size)
            cap = found if cap is None else cap
        weights = {name: to_host(res.x) for name, res in results.items()}
        return cls(weights=weights, groups=groups, cap=cap, feature_names=feature_names).plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, groups: Labels = None, cap: Caps = None, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw `weights_` of a fitted tracker, or `coef_` of another fitted estimator."""
        weights = getattr(estimator, "weights_", None)
        weights = np.ravel(fitted(estimator, "coef_") if weights is None else weights)
        if groups is None and hasattr(estimator, "result_"):
            groups, found = estimator.result_.constraint.groups_and_caps(weights.size)
            cap = found if cap is None else cap
        if cap is None:
            cap = getattr(estimator, "max_sector_weight", None)
        names = names_seen(estimator, weights.size)
        name = getattr(getattr(estimator, "result_", None), "method", "auto")
        return cls(weights={name: weights}, groups=groups, cap=cap, feature_names=names).plot(ax, **options)


@dataclass(kw_only=True, eq=False, repr=False)
class TrackingDisplay(Display):
    """Growth of one unit, Π(1 + r_t), in the index and in portfolios, with the days that the fit did not see shaded.

    Parameters
    ----------
    index_returns : array of shape (n_days,)
    portfolios : mapping from name to array of shape (n_days,)
        Returns of each portfolio.
    dates : array of n_days dates, optional
    test_from : int, optional
        Number of the first day that the fit did not see; the days from there on are shaded.

    Examples
    --------
    >>> import ellzero as ez, matplotlib.pyplot as plt
    >>> market = ez.datasets.make_market(n_days=100, n_assets=30)
    >>> train, test = market.split()
    >>> res = ez.minimize(ez.risks.LeastSquares(train.returns, train.index_returns), k=5)
    >>> display = ez.TrackingDisplay.from_result(
    ...     res, market.returns, market.index_returns, dates=market.dates, test_from=len(train.returns)
    ... )
    >>> display.ax_.get_ylabel()
    'growth of 1'
    >>> plt.close(display.figure_)
    """

    index_returns: Any
    portfolios: Mapping[str, Any]
    dates: Any = None
    test_from: int | None = None

    def plot(self, ax: Axes | None = None, *, of: str = "growth") -> Self:
        """Draw `of` = "growth" of one unit, or the "difference" to the growth of the index."""
        if of not in ("growth", "difference"):
            raise ValueError(f'of must be "growth" or "difference", got {of!r}')
        ax = _plot._axes(ax)
        index = np.cumprod(1 + np.asarray(self.index_returns, dtype=float))
        days = np.arange(index.size) if self.dates is None else np.asarray(self.dates)
        grown = {name: np.cumprod(1 + np.asarray(r, dtype=float)) for name, r in self.portfolios.items()}
        for name, path in grown.items():
            if path.shape != index.shape:
                raise ValueError(f"portfolio {name!r} has shape {path.shape}, the index {index.shape}; give equal days")
        look = _plot.styles(["index", *grown])
        if of == "growth":
            ax.plot(days, index, label="index", lw=1.8, **look["index"])
        else:
            ax.axhline(0.0, lw=1.2, **look["index"])
        for name, path in grown.items():
            ax.plot(days, path if of == "growth" else path - index, label=name, lw=1.5, **look[name])
        if self.test_from is not None and 0 <= self.test_from < index.size:
            ax.axvspan(days[self.test_from], days[-1], color="#E69F00", alpha=0.14, lw=0, label="not seen by the fit")
        if self.dates is None:
            ax.set_xlabel("day")
        ax.set_ylabel("growth of 1" if of == "growth" else "growth above the index")
        if of == "difference":
            from matplotlib.ticker import PercentFormatter

            ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.margins(x=0.01)
        tidy(ax, "y")
        ax.legend(frameon=False)
        return self._keep(ax)

    @classmethod
    def from_result(
        cls,
        result: Result | Mapping[str, Result],
        returns: Any,
        index_returns: Any,
        *,
        dates: Any = None,
        test_from: int | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the portfolios Xw of one result or several, brought back to their weights every day."""
        results = result if isinstance(result, Mapping) else {"portfolio": result}
        values = np.asarray(returns)
        portfolios = {name: values @ to_host(res.x) for name, res in results.items()}
        dates = _dates(returns) if dates is None else dates
        display = cls(index_returns=index_returns, portfolios=portfolios, dates=dates, test_from=test_from)
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        returns: Any,
        index_returns: Any,
        *,
        dates: Any = None,
        test_from: int | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw what a fitted tracker predicts, beside the index; frames are matched by their columns and days."""
        from ..portfolio.market import read_returns

        dates = _dates(returns) if dates is None else dates
        weights = np.ravel(fitted(estimator, "weights_"))
        predict = getattr(estimator, "predict", lambda X: np.asarray(X) @ weights)
        portfolios = {"portfolio": np.asarray(predict(returns))}
        index = read_returns(returns, index_returns).index
        display = cls(index_returns=index, portfolios=portfolios, dates=dates, test_from=test_from)
        return display.plot(ax, **options)

    @classmethod
    def from_backtest(cls, walk: Any, *, ax: Axes | None = None, **options: Any) -> Self:
        """Draw what `ellzero.backtest` returned: no fit has seen the days that it was held through."""
        daily = walk.returns
        portfolios = {"portfolio": daily["portfolio"].to_numpy()}
        display = cls(index_returns=daily["index"].to_numpy(), portfolios=portfolios, dates=_dates(daily), test_from=0)
        return display.plot(ax, **options)


def _dates(returns: Any) -> Any:
    """The index of a DataFrame, if it holds dates."""
    index = getattr(returns, "index", None)
    values = getattr(index, "values", None)
    return values if getattr(getattr(values, "dtype", None), "kind", "") == "M" else None
