"""scikit-learn estimators, loaded when first used."""

from .._core.lazy import lazily

_WHERE = {
    "SparseRegressor": "regression",
    "SparseRegressorCV": "regression",
    "SparseClassifier": "classification",
    "SparseClassifierCV": "classification",
    "onehot_groups": "onehot",
}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
