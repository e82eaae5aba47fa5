"""scikit-learn estimators, loaded when first used."""

from .._core.lazy import lazily

_WHERE = {
    "SparseRegressor": "regression",
    "SparseRegressorCV": "regression",
    "SparseClassifier": "classification",
    "SparseClassifierCV": "classification",
    "Stability": "stability",
    "onehot_groups": "onehot",
    "SparseCox": "survival",
    "SparseCoxCV": "survival",
    "concordance_index": "concordance",
}
__all__ = list(_WHERE)
__getattr__, __dir__ = lazily(__name__, _WHERE)
