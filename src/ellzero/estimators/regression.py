"""Sparse regression for scikit-learn."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from .._core.arrays import is_array, to_host
from ..risks import LinearModel
from .base import SparseLinearModel, like_given
from .cross_validation import ChosenByCrossValidation
from .elsewhere import by_parts
from .request import Maker, read_loss

#: losses of exp(x_iᵀw + b)
_LOGARITHMIC = ("poisson", "gamma")


@dataclass(eq=False, repr=False, kw_only=True)
class _Regressor(RegressorMixin, SparseLinearModel):  # type: ignore[misc]
    loss: Any = "squared"

    def _maker(self, y: np.ndarray, sample_weight: np.ndarray | None, offset: np.ndarray | None) -> Maker:
        return read_loss(self.loss, y if offset is None or y.ndim > 1 else y - offset, sample_weight)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True
    ) -> tuple[Any, Any, Any, Any]:
        names = getattr(y, "columns", None)
        if self.loss != "squared" and getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
            raise ValueError(
                f'several targets are for loss="squared", got loss={self.loss!r} and y of shape {tuple(y.shape)}; fit '
                "a model for each of them"
            )
        X, y, sample_weight, offset = super()._read(X, y, sample_weight, offset, reset=reset)
        if y.ndim == 1:
            self._targets: list[str] | None = None
            return X, y, sample_weight, offset
        self._targets = [f"y{j}" for j in range(y.shape[1])] if names is None else [str(name) for name in names]
        return X, y if y.shape[1] > 1 else y[:, 0], sample_weight, offset

    def _set_coefficients(self, x: np.ndarray, intercept: Any, risk: LinearModel) -> None:
        if self._targets is None:
            self.__dict__.pop("targets_", None)
            self.coef_ = x
            self.intercept_: Any = float(intercept)
            return
        self.targets_ = self._targets
        self.coef_ = x.reshape(-1, self.n_features_in_)
        self.intercept_ = np.atleast_1d(np.asarray(intercept, dtype=float))

    @by_parts
    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Xw + b + offset, or exp of it for the losses of counts and amounts, of the shape that y had."""
        z = self._linear(X, offset)
        return like_given(np.exp(z) if self.loss in _LOGARITHMIC else z, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R², the share of the variance of y that the predictions explain."""
        y = to_host(y) if is_array(y) else y
        return float(r2_score(y, to_host(self.predict(X, offset)), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in _LOGARITHMIC
        tags.target_tags.multi_output = self.loss == "squared"
        tags.regressor_tags.poor_score = self.constraint is not None  # Γ may rule out what fits
        return tags


@dataclass(eq=False, repr=False)
class SparseRegressor(_Regressor):
    """min (1/n) Σ ℓ(x_iᵀw + b, y_i) + (ridge/2)||w||²  subject to  ||w||_0 <= k,  w in Γ.

    Parameters
    ----------
    k : int, float, sparsity or word, optional
        How many features may have nonzero coefficients, or which fraction of them, or what else is counted; 5 by
        default, or as many as there are. "auto": the k with the smallest extended BIC, without cross-validation; also
        "ebic", "bic", "gic", "aic", see `ellzero.SparsePath.criterion`; losses with a likelihood ("squared", "poisson",
        "gamma") have one. Several targets share their features: `ellzero.sparsity.Coordinates(k)`
        counts entries of the matrix of coefficients instead.
    loss : {"squared", "huber", "quantile", "poisson", "gamma"}, ("huber", delta) or ("quantile", τ)
        ℓ. Huber's is quadratic up to delta, in the units of y, and linear beyond; delta is 1.35 robust standard
        deviations of y if it is not given. "quantile" is the pinball loss of the median, or of another quantile τ, its
        kink smoothed over a hundredth of a robust standard deviation of y (see `ellzero.risks.Quantile`). "poisson" is
        half the deviance of counts, "gamma" that of positive amounts; their predictions are exp(x_iᵀw + b).
    constraint : set, word, mapping or list of these, optional
        Γ, in the units of X and y: a set of `ellzero.sets`, or "nonnegative", "nonpositive", "simplex" (w >= 0,
        Σw = 1), "subsimplex" (w >= 0, Σw <= 1). With groups, the set of every group, or a mapping from label to set.
        Bounds and signs by the names of features: {"age": (0, 3), "bmi": "+", "bp": (None, 1)}. A list: all hold.
        With several targets Γ holds for the coefficients of each.
    groups : labels or "onehot", optional
        A label for each feature, or a mapping (or Series) from feature name to label; None: in no group. "onehot": the
        dummies of one-hot encoders and `pandas.get_dummies`, found by the names of the columns and by what stands in
        them; other columns are groups of their own. `ellzero.estimators.onehot_groups` asks a fitted encoder.
    select : {"features", "groups"}
        "groups": k counts groups, each in or out as a whole; features in no group are always in, and not counted.
    at_most : int or mapping from label to int, optional
        How many features of each group may be used, beside k in all.
    keep : indices, names or mask, optional
        Features that may always be nonzero and are always selected; they count in k, with select="groups" with the
        rest of their group.
    ridge : float
        In the units of X and y, like Γ: put a StandardScaler in front to penalise all features alike.
    fit_intercept : bool
        Whether b is free; it counts neither in k nor in Γ nor in the ridge.
    standardize : bool
        Whether the search compares coefficients in units of their columns' standard deviations. This changes the
        way to the answer, never the question: Γ, ridge and coefficients stay in the user's units. A `Method` that
        says itself whether to standardize is left as it is, and "exact", which proves its answer, has no use for it.
    method : str or Method
        As for `ellzero.minimize`; "exact" searches until the answer is proved.
    max_iter : int
        Iterations at the most.
    random_state : int, RandomState or None
        For methods that draw random numbers; the default method draws none.
    feature_names : sequence of str, optional
        Names of the columns of an X that has none, behind a transformer that returns arrays, say: for `constraint`,
        `groups` and `keep` by name, and for reports.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n_features,), float
        (n_targets, n_features) and (n_targets,) for y of shape (n, n_targets).
    targets_ : list of str
        The names of the columns of such a y.
    result_ : Result
        The whole answer of `ellzero.minimize`.
    certificate_ : Certificate
        A proved bound on the distance to the best objective, computed when first read, if the data of the fit are
        still there; the estimator does not keep them. `certify` takes them again, and a time limit.
    beats_ : Beats
        How many nonzeros a better vector must have at the least, proved; computed when first read, as certificate_ is.
    k_, ridge_, n_iter_ : int, float, int
    criterion_ : str
        Which criterion chose ``k_``, where k was a word; then there are also ``criteria_``, a dict with arrays of the
        "k" that were tried and of all criteria for them, and ``path_``, the answers up to the chosen k.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_regression(100, 50, 3)
    >>> model = ez.SparseRegressor(k=3).fit(problem.X, problem.y)
    >>> bool((model.get_support() == (problem.truth != 0)).all())
    True
    """

    k: Any = None
    ridge: float = field(default=0.0, kw_only=True)


@dataclass(eq=False, repr=False)
class SparseRegressorCV(ChosenByCrossValidation, _Regressor):
    """`SparseRegressor` with k and the ridge chosen by cross-validation, along a warm-started path of k.

    Parameters
    ----------
    ks : int, sequence of int or float, or sparsity, optional
        The k to try: numbers or fractions of what k counts; an integer K means 1, ..., K, as does a sparsity. By
        default all where there are at most 20, else 1, 2, ..., 6, 8, 10, 13, 16, 20, further as long as one of the two
        largest is the best, and in the end some near the best.
    loss, constraint, groups, select, at_most, keep, fit_intercept, standardize, method, max_iter, random_state
        As for `SparseRegressor`.
    ridge : float or sequence of float, optional
        The ridges to try. By default 0.001, 0.01, 0.1 and 1 times the median variance of the columns.
    cv : int, splitter or iterable
        As in scikit-learn; 5 folds by default.
    scoring : str or callable, optional
        As in scikit-learn, greater is better; minus the mean loss on the rows left out by default.
    rule : {"best", "1se"}
        The best mean score, or the smallest k whose mean is within one standard error of it: fewer features, as good
        as the folds can tell.
    n_jobs : int, optional
        How many processes share the fits of folds and ridges.
    verbose : int, optional
        1: a line on stderr for each step, 0: silent. By default one line on terminals that renews itself, once a second
        has passed.

    Attributes
    ----------
    k_, ridge_ : int, float
        What was chosen.
    cv_results_ : dict of arrays
        "params", "param_k", "param_ridge", "mean_test_score", "std_test_score", "rank_test_score" and
        "split0_test_score", ... as in GridSearchCV; "k" and "ridge" are those of "params". Ridges that were given up
        early, more than three standard errors behind, have no rows for the larger k.
    best_index_, best_params_, best_score_, n_splits_
        The row of ``cv_results_`` that was chosen, what was chosen there, its mean score, and the number of folds.
    path_ : list of Result
        The answers on all rows for the k up to the chosen one.
    n_sweeps_ : int
        How often data that are larger than memory, or on a cluster, were gone through for all of this.
    coef_, intercept_, targets_, result_, certificate_, beats_, n_iter_, n_features_in_, feature_names_in_
        As for `SparseRegressor`.

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_regression(100, 50, 3)
    >>> ez.SparseRegressorCV(ks=6, ridge=0.0, rule="1se").fit(problem.X, problem.y).k_
    3
    """
