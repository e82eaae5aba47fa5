"""Tracking an index with few names."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.interruption import whole_call
from .._core.validation import check_count, check_nonnegative, check_positive
from ..estimators.certified import beats_fitted, certify_fitted
from ..minimize import minimize
from ..risks import Huber, LeastSquares, LinearModel
from ..risks.robust import huber_delta
from ..sets import EmptySlice
from ..solver.methods import preset
from .mandate import InfeasibleMandate, Mandate, Reason
from .market import Returns, need_pandas, read_returns

_ERRORS = '"squared", "variance", "huber" or ("huber", delta)'


@dataclass(eq=False, repr=False)  # its __init__ is what scikit-learn asks of estimators
class IndexTracker(BaseEstimator):  # type: ignore[misc]
    """min (1/n) Σ_t (r_tᵀw - index_t)² over portfolios of at most k names within budget, bounds and sector caps.

    r_t are the returns of the assets on day t. All weights and caps are shares of the portfolio: 0.1 is 10%. What is
    not invested is cash, which earns nothing. A request that no portfolio can meet is refused, with the reason.

    Parameters
    ----------
    k : int, optional
        Names at the most; None for no limit.
    max_sector_weight : float or mapping from sector to float, optional
        Cap on Σ|w_i| in each sector; sectors that a mapping leaves out are free.
    budget : float, pair of floats or None, default 1.0
        Σ w: exactly this, or between two numbers ((0, 1) and (0.95, 1) leave room for cash), or anything.
    min_weights, max_weights : float, mapping, Series, array or None, default 0.0 and 1.0
        Bounds of each weight; assets that a mapping leaves out have the default, None means no bound. A negative
        min_weights allows short positions, a positive one for some assets makes them held.
    groups : mapping or Series from asset to sector, or a label for each asset, optional
        Those of `fit` where that is given some: here they go along with copies, into searches for parameters.
    keep : list of assets, optional
        Assets that always have a place among the k, whatever their weight; a least weight comes from min_weights.
    error : {"squared", "variance", "huber"} or ("huber", delta), default "squared"
        What is minimised: the mean square of the active returns r_tᵀw - index_t; their variance, which forgives a
        steady difference; or a loss that is linear beyond delta, so that single days cannot rule. Without a number,
        delta is 1.35 times the robust deviation of the active returns of the squared answer.
    ridge : float, default 0
        Adds (ridge/2)||w||².
    n_starts : int, default 16
        How often the search for better names is begun anew, from the best portfolio with a third of it changed.
    random_state : int, default 0
        For these starts; the same number gives the same portfolio.
    periods_per_year : float, default 252
        For annualisation: a daily standard deviation is multiplied by sqrt(252).

    Attributes
    ----------
    weights_ : Series or array of shape (n_assets,)
        A weight for every asset, most of them 0.
    result_ : Result
        The answer of `ellzero.minimize`.
    sector_weights_ : Series or dict
        Σ|w_i| of every sector, if groups were given.
    cash_ : float
        1 - Σw.
    tracking_error_ : float
        In sample, annualised: see `tracking_error`.
    delta_ : float or None
        Where Huber's loss becomes linear, given or found; None for other errors.
    mandate_ : Mandate
        What was asked, as numbers: the k, the budget, bounds, sectors, caps and what is kept.
    n_features_in_, feature_names_in_ : number and names of the assets

    Examples
    --------
    >>> import ellzero as ez
    >>> market = ez.datasets.make_market(n_days=250, n_assets=60)
    >>> train, test = market.split()
    >>> returns, index, sectors = train.to_pandas()
    >>> tracker = ez.IndexTracker(k=12, max_sector_weight=0.15).fit(returns, index, groups=sectors)
    >>> int((tracker.weights_ != 0).sum()), float(tracker.weights_.sum().round(12))
    (12, 1.0)
    >>> ez.IndexTracker(k=15, max_weights=0.05).fit(returns, index)
    Traceback (most recent call last):
    ...
    ellzero.portfolio.mandate.InfeasibleMandate: no portfolio meets all that is asked: 15 names capped at 5% can hold \
75%, but the budget is 100%; raise k to at least 20, or raise max_weights to at least 6.667%
    """

    k: int | None = None
    _: KW_ONLY
    max_sector_weight: Any = None
    budget: Any = 1.0
    min_weights: Any = 0.0
    max_weights: Any = 1.0
    groups: Any = None
    keep: Any = None
    error: Any = "squared"
    ridge: float = 0.0
    n_starts: int = 16
    random_state: Any = 0
    periods_per_year: float = 252.0

    # ---- fitting

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> IndexTracker:
        """Choose the names and their weights.

        Parameters
        ----------
        X : DataFrame or array of shape (n_days, n_assets)
            Simple returns; those of prices come from `ellzero.portfolio.prices_to_returns`.
        y : Series or array of shape (n_days,)
            Returns of the index, on the same days.
        groups : mapping or Series from asset to sector, or a label for each asset, optional
            Instead of those of the constructor.
        """
        data = read_returns(X, self._index(y))
        check_positive(self.periods_per_year, "periods_per_year")
        mandate = Mandate.read(self, data.names, self.groups if groups is None else groups)
        (word, delta), start = self._error(), None
        if word == "huber" and delta is None:  # it is not known before the squared answer is
            start = self._solve(self._risk(data, "squared"), mandate, None).x
            delta = huber_delta(data.returns @ start - data.index)
        self.result_ = self._solve(self._risk(data, word, delta), mandate, start)
        self.mandate_, self.delta_ = mandate, delta
        self.n_features_in_ = data.names.size
        self.__dict__.pop("feature_names_in_", None)
        for proof in ("certificate_", "beats_"):
            self.__dict__.pop(proof, None)
        x = np.asarray(self.result_.x)
        self.weights_, self.cash_ = x, 1.0 - float(x.sum())
        self._framed = data.framed
        if data.framed:
            self.feature_names_in_ = data.names
            self.weights_ = need_pandas().Series(x, index=data.names, name="weight")
        self.sector_weights_ = self._by_sector(np.abs(x))
        self._active = data.returns @ x - data.index
        self.tracking_error_ = self._annual(self._active)
        return self

    @staticmethod
    def _index(y: Any) -> Any:
        if y is None:
            raise ValueError(
                "index_returns are missing: fit(returns, index_returns). To track the equal-weighted average of the "
                "assets, pass returns.mean(axis=1)"
            )
        return y

    def _error(self) -> tuple[str, float | None]:
        """What is minimised, and where it becomes linear if that is given."""
        word, delta = self.error if isinstance(self.error, tuple) and len(self.error) == 2 else (self.error, None)
        if word not in ("squared", "variance", "huber") or (delta is not None and word != "huber"):
            raise ValueError(f"error must be {_ERRORS}, got {self.error!r}")
        return word, delta

    def _risk(self, data: Returns, word: str, delta: float | None = None) -> LinearModel:
        ridge = check_nonnegative(self.ridge, "ridge")
        if delta is not None:
            return Huber(data.returns, data.index, ridge, delta=delta)
        return LeastSquares(data.returns, data.index, ridge, fit_intercept=word == "variance")

    def _solve(self, risk: LinearModel, mandate: Mandate, start: Any) -> Any:
        n_starts = check_count(self.n_starts, "n_starts")
        method = preset("auto", projection="restricted", n_starts=n_starts)
        try:
            with whole_call():
                return minimize(
                    risk, mandate.k, mandate.portfolio, method, x0=start, keep=mandate.keep, rng=self._seed(),
                    max_iter=200,
                )  # fmt: skip
        except EmptySlice as error:
            words = (
                "no {names} names were found whose bounds and caps allow the budget; raise {k}, or loosen "
                "{min_weights}, {max_weights} or {max_sector_weight}"
            )
            raise InfeasibleMandate(Reason("not found", words, {"names": mandate.k})) from error

    def _seed(self) -> Any:
        state = self.random_state
        return int(state.randint(2**31)) if hasattr(state, "randint") else state

    # ---- what came out

    def _by_sector(self, values: np.ndarray) -> Any:
        mandate = self.mandate_
        if mandate.labels is None:
            return None
        sums = {g: float(values[mandate.members(g)].sum()) for g in mandate.groups}
        return need_pandas().Series(sums, name="weight") if self._framed else sums

    def predict(self, X: Any) -> Any:
        """Returns of the portfolio on other days, rebalanced to its weights every day; cash earns 0.

        Parameters
        ----------
        X : DataFrame or array of returns
            A DataFrame needs the columns of the names that are held.
        """
        check_is_fitted(self, "result_")
        x = np.asarray(self.result_.x)
        if not hasattr(X, "columns") or not self._framed:
            data = read_returns(X)
            if data.names.size != x.size:
                raise ValueError(f"X must have the {x.size} assets of the fit, got {data.names.size} columns")
            portfolio = data.returns @ x
        else:
            held = self.feature_names_in_[self.result_.support]
            if lost := [name for name in held if name not in X.columns]:
                raise ValueError(
                    f"X must have the returns of all names that are held, it lacks {', '.join(map(str, lost))}"
                )
            portfolio = read_returns(X[list(held)]).returns @ x[self.result_.support] if held.size else np.zeros(len(X))
        return need_pandas().Series(portfolio, index=X.index, name="portfolio") if hasattr(X, "columns") else portfolio

    def active_returns(self, X: Any, y: Any) -> Any:
        """Returns of the portfolio less those of the index, on any days."""
        portfolio = self.predict(X)
        index = read_returns(X if self._framed else np.asarray(X), self._index(y)).index
        return portfolio - index

    def tracking_error(self, X: Any, y: Any) -> float:
        """The standard deviation of the active returns on these days, times sqrt(periods_per_year).

        On days after those of the fit this is the ex-post tracking error; ``tracking_error_`` is that of the fit.
        """
        return self._annual(np.asarray(self.active_returns(X, y)))

    def _annual(self, active: np.ndarray) -> float:
        return float(np.std(active, ddof=1) * math.sqrt(self.periods_per_year)) if active.size > 1 else math.nan

    def score(self, X: Any, y: Any) -> float:
        """The tracking error on these days with a minus, so that larger is better: for cross-validation."""
        return -self.tracking_error(X, y)

    def holdings(self) -> Any:
        """The names that are held, largest first: a DataFrame with their weight and sector."""
        check_is_fitted(self, "result_")
        support, mandate = self.result_.support, self.mandate_
        columns: dict[str, Any] = {"weight": np.asarray(self.result_.x)[support]}
        if mandate.labels is not None:
            columns["sector"] = mandate.labels[support]
        frame = need_pandas().DataFrame(columns, index=mandate.names[support])
        return frame.sort_values("weight", ascending=False, kind="stable", key=abs)

    def summary(self, X: Any = None, y: Any = None) -> Any:
        """What a portfolio manager asks first, as a Series; with other days also what happened on them.

        Parameters
        ----------
        X, y : returns and index returns of days that the fit did not see, optional
        """
        check_is_fitted(self, "result_")
        x, mandate, year = np.asarray(self.result_.x), self.mandate_, self.periods_per_year
        facts: dict[str, Any] = {
            "names": int(self.result_.support.size),
            "names allowed": mandate.k,
            "invested": float(x.sum()),
            "cash": self.cash_,
            "largest weight": float(np.abs(x).max(initial=0.0)),
        }
        if mandate.labels is not None:
            sectors = np.array(list(dict(self.sector_weights_).values()))
            used = int((sectors > 0).sum())
            facts |= {"sectors used": used, "sectors": sectors.size, "largest sector": sectors.max()}
        samples = {"in sample": self._active}
        if X is not None:
            samples["out of sample"] = np.asarray(self.active_returns(X, y))
        for sample, active in samples.items():
            facts[f"tracking error {sample}"] = self._annual(active)
            facts[f"mean active return {sample}"] = float(active.mean()) * year
        facts |= {"periods per year": year, "largest violation": self.result_.violation}
        return need_pandas().Series(facts, name="portfolio", dtype=object)

    def certify(self, X: Any, y: Any, *, time_limit: float | None = None, target_gap: float | None = None) -> Any:
        """How far the objective is from the best that any portfolio of k names could reach, proved.

        The bound is proved for larger sets, such as the caps alone or the budget alone, and so it holds for the
        portfolios that were asked for too. Few names can miss an index that many would hit, so that the gap may be
        wide although the portfolio is the best. X and y are the data of the fit, which the tracker does not keep, and
        the limits are those of `ellzero.certify`. The certificate is also in ``certificate_`` and
        ``result_.certificate``, and how few names a better portfolio cannot have in ``beats_`` and ``result_.beats``.
        """
        check_is_fitted(self, "result_")
        data = read_returns(X, self._index(y))
        if (n := data.names.size) != self.n_features_in_:
            raise ValueError(f"X must be the returns of the fit, with {self.n_features_in_} assets, got {n}")
        word, delta = self._error()
        if word == "huber" and (self.delta_ is None or delta not in (None, self.delta_)):
            raise ValueError(f"error={self.error!r} was set after the fit; fit again before certify")
        risk = self._risk(data, word, self.delta_ if word == "huber" else None)
        found = certify_fitted(self, risk, "X, y", time_limit=time_limit, target_gap=target_gap)
        beats_fitted(self, risk, "X, y")
        return found

    def backtest(self, X: Any, y: Any, groups: Any = None, **options: Any) -> Any:
        """Walk forward through the days with this tracker: see `ellzero.portfolio.backtest`."""
        from .backtest import backtest

        return backtest(self, X, y, groups, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.target_tags.required = True
        return tags
