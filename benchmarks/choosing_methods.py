"""Who chooses, in `benchmarks choosing`: ours by three rules, scikit-learn's l1, abess and skglm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

FOLDS = 5
_PENALTIES = 20


def ours(**options):
    """k and the ridge by cross-validation, or by a criterion."""

    def make(classify):
        import ellzero as ez

        if "k" in options:
            return (ez.SparseClassifier if classify else ez.SparseRegressor)(**options)
        return (ez.SparseClassifierCV if classify else ez.SparseRegressorCV)(**options)

    return make


def l1(classify):
    """LassoCV; LogisticRegressionCV with an l1 penalty, its ten penalties: liblinear, or saga for several classes."""
    from sklearn.linear_model import LassoCV

    return L1Classes() if classify else LassoCV(cv=FOLDS, max_iter=10_000)


class L1Classes:
    """`LogisticRegressionCV` with the solver that the number of classes asks for."""

    def fit(self, X, y):
        from sklearn.linear_model import LogisticRegressionCV

        solver = "liblinear" if np.unique(y).size == 2 else "saga"
        self.model = LogisticRegressionCV(
            l1_ratios=(1.0,), solver=solver, Cs=10, cv=FOLDS, scoring="neg_log_loss", use_legacy_attributes=False
        ).fit(X, y)
        self.coef_ = self.model.coef_
        return self

    def predict(self, X):
        return self.model.predict(X)


class AbessCV:
    """abess with its own range of support sizes, by cross-validation; it refuses constant columns."""

    def __init__(self, classify):
        self.classify = classify

    def fit(self, X, y):
        import abess

        self.classes, y = np.unique(y, return_inverse=True) if self.classify else (None, y)
        kind = abess.LinearRegression
        if self.classify:
            kind = abess.LogisticRegression if self.classes.size == 2 else abess.MultinomialRegression
        target = np.eye(self.classes.size)[y] if kind is abess.MultinomialRegression else y
        dense = isinstance(X, np.ndarray)
        self.varies = np.flatnonzero(np.ptp(X, axis=0)) if dense else np.arange(X.shape[1])
        self.model = kind(cv=FOLDS).fit(X[:, self.varies] if dense else X, target)
        found = np.asarray(self.model.coef_)
        self.coef_ = np.zeros((X.shape[1], *found.shape[1:]))
        self.coef_[self.varies] = found
        return self

    def predict(self, X):
        said = np.asarray(self.model.predict(X if self.varies.size == X.shape[1] else X[:, self.varies]))
        if not self.classify:
            return said
        return self.classes[(said.argmax(axis=1) if said.ndim == 2 else said).astype(int)]


class SkglmCV:
    """skglm by scikit-learn's grid search over penalties: MCP for quantities, l1 for classes, one against the rest."""

    def __init__(self, classify):
        self.classify = classify

    def fit(self, X, y):
        from skglm import MCPRegression, SparseLogisticRegression
        from sklearn.model_selection import GridSearchCV

        if self.classify:
            signs = np.array([np.where(y == label, 1.0, -1.0) for label in np.unique(y)])
            centred = signs - signs.mean(axis=1, keepdims=True)
            largest = np.abs(centred @ X).max() / (2 * len(y))
            model, scoring = SparseLogisticRegression(), "neg_log_loss"
            if signs.shape[0] > 2:
                scoring = "accuracy"
        else:
            largest, model = np.abs((y - y.mean()) @ X).max() / len(y), MCPRegression(gamma=3)
            scoring = "neg_mean_squared_error"
        least = 1e-3 if X.shape[0] > X.shape[1] else 1e-2
        grid = {"alpha": largest * np.geomspace(1, least, _PENALTIES)}
        self.search = GridSearchCV(model, grid, scoring=scoring, cv=FOLDS, error_score="raise").fit(X, y)
        best = self.search.best_estimator_
        self.coef_ = best.coef_ if hasattr(best, "coef_") else np.vstack([each.coef_ for each in best.estimators_])
        return self

    def predict(self, X):
        return self.search.predict(X)


class Peer:
    """What `python_for` needs to know."""

    python = None

    def __init__(self, package):
        self.package, self.requires = package, (package, "scikit-learn")


@dataclass
class Chooser:
    make: Callable[[bool], Any]
    words: str
    peer: Peer | None = None

    @staticmethod
    def coefficients(model, n_features):
        """Outputs x features."""
        values = np.asarray(model.coef_, dtype=float)
        values = values.reshape(1, -1) if values.ndim == 1 else values
        return values.T if values.shape[0] == n_features and values.shape[1] != n_features else values


METHODS = {
    "ellzero CV": Chooser(ours(), "`SparseRegressorCV()`, `SparseClassifierCV()`"),
    "ellzero CV, 1se": Chooser(ours(rule="1se"), 'the same with `rule="1se"`'),
    "ellzero auto": Chooser(ours(k="auto"), '`SparseRegressor(k="auto")`, `SparseClassifier(k="auto")`'),
    "scikit-learn l1": Chooser(l1, "`LassoCV`; `LogisticRegressionCV` with an l1 penalty (liblinear, several: saga)"),
    "abess": Chooser(AbessCV, "`cv=5`, its own range of support sizes; without constant columns", Peer("abess")),
    "skglm": Chooser(
        SkglmCV,
        "grid search over 20 penalties: `MCPRegression`; `SparseLogisticRegression`, which is l1, of several classes "
        "each against the rest: it has no multinomial loss",
        Peer("skglm"),
    ),
}
