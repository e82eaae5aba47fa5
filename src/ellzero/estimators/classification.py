"""Sparse classification for scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from .._core.arrays import is_array, to_host
from ..risks import LinearModel
from .base import SparseLinearModel, like_given
from .cross_validation import ChosenByCrossValidation
from .elsewhere import by_parts
from .request import Maker, class_weights, classifier_ridge, read_classes


def _gives_probabilities(model: Any) -> bool:
    if model.loss != "logistic":
        raise AttributeError(
            f'loss={model.loss!r} gives no probabilities; use decision_function, or loss="logistic" for predict_proba'
        )
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class _Classifier(ClassifierMixin, SparseLinearModel):  # type: ignore[misc]
    loss: str = "logistic"
    class_weight: Any = None

    def _maker(self, y: np.ndarray, sample_weight: np.ndarray | None, offset: np.ndarray | None) -> Maker:
        check_classification_targets(y)
        return read_classes(y, self._weights(y, sample_weight), self.loss)

    def _weights(self, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        return class_weights(self.class_weight, y, sample_weight)

    def _default_ridge(self, X: Any, sample_weight: np.ndarray | None) -> float:
        return classifier_ridge(X, sample_weight)

    def _set_coefficients(self, x: np.ndarray, intercept: Any, risk: LinearModel) -> None:
        self.classes_ = risk.classes_  # type: ignore[attr-defined]
        self.coef_ = x.reshape(-1, self.n_features_in_)
        self.intercept_ = np.atleast_1d(np.asarray(intercept, dtype=float))

    def _layers(self, y: np.ndarray) -> np.ndarray:
        return y

    @by_parts
    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """x_iᵀw + b + offset: the log-odds (or margin) of the second class, or a column for each of several classes."""
        return like_given(self._margins(X, offset), X)

    def _margins(self, X: Any, offset: Any) -> np.ndarray:
        z = self._linear(X, offset)
        return z[:, 0] if z.shape[1] == 1 else z

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    @by_parts
    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``, of shape (n_samples, n_classes)."""
        z = self._margins(X, offset)
        return like_given(np.column_stack([expit(-z), expit(z)]) if z.ndim == 1 else softmax(z, axis=1), X)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    @by_parts
    def predict_log_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return like_given(np.log(to_host(self.predict_proba(X, offset))), X)

    @by_parts
    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """The most probable class of every row."""
        z = self._margins(X, offset)
        return like_given(self.classes_[(z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)], X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of the rows whose class is predicted."""
        y = to_host(y) if is_array(y) else y
        return float(accuracy_score(y, to_host(self.predict(X, offset)), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.constraint is not None  # Γ may rule out what fits
        return tags


@dataclass(eq=False, repr=False)
class SparseClassifier(_Classifier):
    """min (1/n) Σ ℓ(x_iᵀw + b, y_i) + (ridge/2)||w||²  subject to  ||w||_0 <= k,  w in Γ.

    ℓ is by default the logistic loss of two classes, or the cross-entropy of several. With c > 2 classes there is a
    vector of coefficients for each, w has c·n_features entries, and k counts features, whichever classes use them;
    `ellzero.sparsity.Coordinates(k)` counts entries instead.

    Parameters
    ----------
    k, constraint, groups, select, at_most
        As for `SparseRegressor`; with several classes Γ holds for the coefficients of each.
    loss : {"logistic", "squared_hinge"}
        ℓ: the negative log-likelihood of two classes or several, or max(0, 1 - y_i z_i)² of two classes, which gives no
        probabilities.
    class_weight : "balanced" or mapping, optional
        Weights of the classes, which multiply those of their rows: by label, 1 where a label is not named; or such that
        all classes weigh the same in the rows that are fitted.
    keep : indices, names or mask, optional
        Features that may always be nonzero, in each class, and are always selected; they count in k.
    ridge : float, optional
        In the units of X. By default 0.01 times the median variance of the columns: without any, the coefficients of
        classes that a line can separate would be infinite.
    fit_intercept, standardize, method, max_iter, random_state
        As for `SparseRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    result_, certificate_, beats_, k_, ridge_, n_iter_, n_features_in_, feature_names_in_
        As for `SparseRegressor`.

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_classification(500, 50, 3, scale=2.0)
    >>> model = ez.SparseClassifier(k=3).fit(problem.X, problem.y)
    >>> bool((model.get_support() == (problem.truth != 0)).all())
    True
    """

    k: Any = None


@dataclass(eq=False, repr=False)
class SparseClassifierCV(ChosenByCrossValidation, _Classifier):
    """`SparseClassifier` with k and the ridge chosen by cross-validation, along a warm-started path of k.

    Parameters
    ----------
    ks, scoring, rule, n_jobs
        As for `SparseRegressorCV`.
    loss, class_weight, constraint, groups, select, at_most, keep, fit_intercept, standardize, method, max_iter,
    random_state
        As for `SparseClassifier`; classes are balanced in the rows of each fit, and scores are not weighted by class.
    ridge : float or sequence of float, optional
        The ridges to try. By default 0.01, 0.1 and 1 times the median variance of the columns.
    cv : int, splitter or iterable
        As in scikit-learn; 5 stratified folds by default.

    Attributes
    ----------
    k_, ridge_, cv_results_, path_, n_sweeps_
        As for `SparseRegressorCV`.
    classes_, coef_, intercept_, result_, certificate_, beats_, n_iter_, n_features_in_, feature_names_in_
        As for `SparseClassifier`.

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_classification(500, 50, 3, scale=2.0)
    >>> ez.SparseClassifierCV(ks=6, ridge=0.01, rule="1se").fit(problem.X, problem.y).k_
    3
    """

    _relative_ridges = (0.01, 0.1, 1.0)
