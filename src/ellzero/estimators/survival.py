"""Sparse survival analysis for scikit-learn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from .._core.arrays import to_host
from .._core.validation import as_array, as_numbers
from ..risks import Cox, LinearModel
from .base import SparseLinearModel, like_given
from .concordance import concordance_index
from .cross_validation import ChosenByCrossValidation
from .elsewhere import by_parts
from .request import Maker, classifier_ridge
from .stability import Stability


class _Outcome(NamedTuple):
    """Times and events as they were given, and strata."""

    y: Any
    strata: Any


def _outcome(y: Any, strata: Any) -> _Outcome:
    return y if isinstance(y, _Outcome) else _Outcome(y, strata)


def read_outcome(y: Any) -> np.ndarray:
    """Time and event in two columns (or three, the stratum's number last), from any form that `SparseCox.fit` takes."""
    columns = getattr(y, "columns", None)
    names = getattr(getattr(y, "dtype", None), "names", None)
    if columns is not None:
        lower = [str(name).lower() for name in columns]
        if {"time", "event"} <= set(lower):
            y = y.iloc[:, [lower.index("time"), lower.index("event")]]
        elif len(lower) != 2:  # a third one may be anything
            raise ValueError(
                f"y as a DataFrame must have columns named time and event, or two columns in this order, got {lower}; "
                "rename them, and give strata as an argument of their own"
            )
        y = np.column_stack([as_numbers(y.iloc[:, j], "y").astype(float) for j in range(y.shape[1])])
    elif names is not None:
        events = [name for name in names if y.dtype[name].kind == "b"] or [n for n in names if n.lower() == "event"]
        if len(names) != 2 or len(events) != 1:
            raise ValueError(f"y as a structured array must have two fields, a boolean event and a time, got {y.dtype}")
        times = next(name for name in names if name != events[0])
        y = np.column_stack([as_numbers(y[name], f"y[{name!r}]").astype(float) for name in (times, events[0])])
    outcome = as_numbers(y, "y").astype(float)
    if outcome.ndim != 2 or outcome.shape[1] not in (2, 3):
        raise ValueError(
            "y must hold a time and an event for each row: two columns (time, event), and the number of the row's "
            "stratum as a third if there are strata; a DataFrame with these names; or a structured array of a boolean "
            f"and a number as scikit-survival's; got shape {outcome.shape}"
        )
    if not np.isin(outcome[:, 1], (0, 1)).all():
        odd = outcome[~np.isin(outcome[:, 1], (0, 1)), 1][0]
        raise ValueError(
            f"y must have the time in its first column and the event, 0 or 1, in its second, got event {odd:g}"
        )
    return outcome


def _cox(X: Any, y: np.ndarray, *, fit_intercept: bool = False, **options: Any) -> Cox:
    """The risk of an outcome that was read."""
    return Cox(X, y[:, 0], y[:, 1], strata=y[:, 2], **options)


@dataclass(eq=False, repr=False, kw_only=True)
class _Survival(SparseLinearModel):
    ties: str = "breslow"
    fit_intercept: bool = field(default=False, init=False)  # there is none: the baseline hazard has taken its place

    def _read(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True
    ) -> tuple[Any, Any, Any, Any]:
        y, strata = _outcome(y, None)
        outcome = read_outcome(y)
        X, _, sample_weight, offset = super()._read(X, outcome[:, 0], sample_weight, offset, reset=reset)
        if outcome.shape[1] == 3:
            if strata is not None:
                raise ValueError("strata are given twice, as an argument and as the third column of y; leave one out")
            strata = outcome[:, 2]
        labels, number = None, np.zeros(len(outcome))
        if strata is not None:
            strata = as_array(strata, "strata")
            if strata.shape != (len(outcome),):
                raise ValueError(f"strata must give a label for each of {len(outcome)} rows, got shape {strata.shape}")
            labels, place = np.unique(strata, return_inverse=True)
            number = place.astype(float)
        if reset:
            self.strata_: Any = labels
        return X, np.column_stack([outcome[:, :2], number]), sample_weight, offset

    def _maker(self, y: np.ndarray, sample_weight: np.ndarray | None, offset: np.ndarray | None) -> Maker:
        return partial(_cox, ties=self.ties)

    def _default_ridge(self, X: Any, sample_weight: np.ndarray | None) -> float:
        return classifier_ridge(X, sample_weight)

    def _set_coefficients(self, x: np.ndarray, intercept: Any, risk: LinearModel) -> None:
        self.coef_ = x
        self.baseline_ = risk.baseline_hazard(x)  # type: ignore[attr-defined]

    def certify(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        strata: Any = None,
        time_limit: float | None = None,
        target_gap: float | None = None,
    ) -> Any:
        """How far the objective is from the best one that k nonzeros in Γ allow, proved.

        Parameters
        ----------
        X, y, sample_weight, offset, strata
            The data of the fit: an estimator does not keep them.
        time_limit, target_gap : float, optional
            As for `ellzero.certify`.
        """
        outcome = _outcome(y, strata)
        return super().certify(X, outcome, sample_weight, offset, time_limit=time_limit, target_gap=target_gap)

    def stability(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, strata: Any = None, **options: Any
    ) -> Stability:
        """How often each feature is chosen on random halves of the rows, as for `SparseRegressor`; also with strata."""
        return super().stability(X, _outcome(y, strata), sample_weight, offset, **options)

    def _layers(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y[:, 1])

    @by_parts
    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Xw + offset, the logarithm of the risk relative to the baseline, (n_samples,): higher is earlier."""
        return like_given(self._linear(X, offset), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, strata: Any = None) -> float:
        """The concordance index of the predictions, see `ellzero.concordance_index`; pairs within strata only."""
        outcome = read_outcome(_outcome(y, strata).y)
        if strata is None and outcome.shape[1] == 3:
            strata = outcome[:, 2]
        risk = self._linear(X, offset)
        return concordance_index(outcome[:, 0], outcome[:, 1], risk, sample_weight=sample_weight, strata=strata)

    def predict_survival_function(
        self, X: Any, times: Any = None, offset: Any = None, *, strata: Any = None
    ) -> np.ndarray:
        """P(no event until t) = exp(-H(t) exp(xᵀw)), H the cumulative baseline hazard (Breslow's or Efron's estimator).

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        times : array of shape (m,), optional
            By default those of the events of the fit, in increasing order.
        offset : array of shape (n_samples,), optional
            Added to each xᵀw.
        strata : array of shape (n_samples,), optional
            The labels of the rows, if the model was fitted with strata.

        Returns
        -------
        array of shape (n_samples, m)
        """
        z = self._linear(X, offset)
        if times is None:
            times = np.unique(np.concatenate([when for when, _ in self.baseline_.values()]))
        times = np.atleast_1d(as_numbers(times, "times").astype(float))
        number = self._numbers(strata, z.size)
        survival = np.empty((z.size, times.size))
        for i in np.unique(number):
            when, hazard = self.baseline_.get(int(i), (np.empty(0), np.empty(0)))
            with np.errstate(divide="ignore", over="ignore"):
                log_hazard = np.log(np.concatenate([[0.0], hazard])[np.searchsorted(when, times, side="right")])
                survival[number == i] = np.exp(-np.exp(log_hazard + z[number == i, None]))
        return like_given(survival, X)

    def _numbers(self, strata: Any, n: int) -> np.ndarray:
        """The number of the stratum of each row."""
        if (strata is None) != (self.strata_ is None):
            asked = "must be given: the model was" if strata is None else "must be left out: the model was not"
            raise ValueError(f"strata {asked} fitted with strata, each of which has a baseline of its own")
        if strata is None:
            return np.zeros(n, dtype=np.intp)
        labels = as_array(strata, "strata")
        number: np.ndarray = np.minimum(np.searchsorted(self.strata_, labels), self.strata_.size - 1)
        if labels.shape != (n,) or (self.strata_[number] != labels).any():
            raise ValueError(f"strata must give each of the {n} rows one of the labels {self.strata_.tolist()}")
        return number

    def _more_columns(self, shown: np.ndarray) -> dict[str, list[float]]:
        return {"hazard ratio": np.exp(self.coef_[shown]).tolist()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "survival"
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False)
class SparseCox(_Survival):
    """min (1/d) Σ_{d events i} [log Σ_{j at risk} exp(x_jᵀw) - x_iᵀw] + (ridge/2)||w||²  s.t.  ||w||_0 <= k,  w in Γ.

    Proportional hazards: the hazard of a row is the baseline's times exp(xᵀw).

    Parameters
    ----------
    k, constraint, groups, keep, standardize, method, max_iter, random_state
        As for `SparseRegressor`.
    ties : {"breslow", "efron"}
        How events at the same time are counted, see `ellzero.risks.Cox`.
    ridge : float, optional
        In the units of X. By default 0.01 times the median variance of the columns: without any, coefficients that put
        all events in their order would be infinite.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Logarithms of hazard ratios.
    baseline_ : dict
        From the number of each stratum to the times of its events and the cumulative baseline hazard from there on.
    strata_ : array or None
        The labels of the strata, in the order of their numbers.
    result_, certificate_, beats_, k_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As for `SparseRegressor`.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> time, censored = rng.exponential(np.exp(-X[:, 3] + X[:, 7])), rng.exponential(2.0, 200)
    >>> y = np.column_stack([np.minimum(time, censored), time <= censored])
    >>> model = ez.SparseCox(k=2).fit(X, y)
    >>> model.get_support(indices=True).tolist(), round(model.score(X, y), 2)
    ([3, 7], 0.79)
    """

    k: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, strata: Any = None) -> Any:
        """Find the coefficients.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples, 2), DataFrame or structured array
            Two columns, the time and whether the event happened then (1) or the row was censored (0); a DataFrame with
            columns "time" and "event" in any order; or a structured array of a boolean and a number, as that of
            scikit-survival. A third column of an array is the number of the row's stratum, in place of `strata`: so
            scikit-learn's cross-validation, which knows X and y alone, divides the strata along with the rows.
        sample_weight : array of shape (n_samples,), optional
            At least 0.
        offset : array of shape (n_samples,), optional
            Added to each x_iᵀw: what is known of the logarithm of a row's risk.
        strata : array of shape (n_samples,), optional
            A label for each row; each stratum has a baseline hazard of its own.
        """
        return super().fit(X, _outcome(y, strata), sample_weight, offset)


@dataclass(eq=False, repr=False)
class SparseCoxCV(ChosenByCrossValidation, _Survival):
    """`SparseCox` with k and the ridge chosen by cross-validation, along a warm-started path of k.

    Parameters
    ----------
    ks, rule, n_jobs
        As for `SparseRegressorCV`.
    ties, constraint, groups, keep, standardize, method, max_iter, random_state
        As for `SparseCox`.
    ridge : float or sequence of float, optional
        The ridges to try. By default 0.01, 0.1 and 1 times the median variance of the columns.
    cv : int, splitter or iterable
        As in scikit-learn; 5 folds with about as many events each by default.
    scoring : str or callable, optional
        As in scikit-learn, greater is better. By default what the rows left out add to the log partial likelihood of
        the others, for each of their events (Verweij & van Houwelingen 1993): they are compared with all who are at
        risk, and a fold may be small.

    Attributes
    ----------
    k_, ridge_, cv_results_, path_, n_sweeps_
        As for `SparseRegressorCV`.
    coef_, baseline_, strata_, result_, certificate_, beats_, n_iter_, n_features_in_, feature_names_in_
        As for `SparseCox`.
    """

    _relative_ridges = (0.01, 0.1, 1.0)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, strata: Any = None, **params: Any
    ) -> Any:
        """Choose k and the ridge, and find the coefficients.

        Parameters
        ----------
        X, y, sample_weight, offset, strata
            As for `SparseCox`.
        **params
            For the splitter and the scorer, where scikit-learn's metadata routing is enabled.
        """
        return super().fit(X, _outcome(y, strata), sample_weight, offset, **params)

    def _split(self, data: tuple[Any, ...], sample_weight: Any, params: dict[str, Any]) -> tuple[list[Any], Any]:
        if self.cv is not None and not isinstance(self.cv, int):
            return super()._split(data, sample_weight, params)
        folds = StratifiedKFold(5 if self.cv is None else self.cv).split(data[0], data[1][:, 1])
        return list(folds), {} if sample_weight is None else {"sample_weight": data[2]}

    def _held_out_loss(
        self, whole: LinearModel, data: tuple[Any, ...], rows: np.ndarray
    ) -> Callable[[np.ndarray, Any], float]:
        _, y, weights, offset = data
        others = np.setdiff1d(np.arange(len(y)), rows)
        events = y[:, 1] if weights is None else y[:, 1] * weights
        left = events[rows].sum()
        if not (left > 0 and events[others].sum() > 0):
            raise ValueError(
                "cv leaves a fold without an event, in the rows left out or in the others; use fewer folds"
            )

        def loss(x: np.ndarray, intercept: Any) -> float:
            z = to_host(whole.predict(x)).astype(float)[:, None]
            losses = []
            for part in (np.arange(len(y)), others):
                share, shift = (None if rows is None else rows[part] for rows in (weights, offset))
                risk = _cox(z[part], y[part], ties=self.ties, sample_weight=share, offset=shift)
                losses.append(events[part].sum() * risk.value([1.0]))
            return float(losses[0] - losses[1]) / float(left)

        return loss
