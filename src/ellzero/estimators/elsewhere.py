"""Data that are larger than memory, or on a cluster: read for estimators, and predicted part by part."""

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.arrays import is_array, to_host
from .._core.validation import as_array
from ..design import Design, is_dask, map_parts


def read_elsewhere(model: Any, design: Design, y: Any, reset: bool, **about_y: Any) -> tuple[Design, np.ndarray]:
    """X that stays where it is, and y as scikit-learn checks it; what the estimator has to know of X is noted."""
    y = to_host(y) if is_array(y) else y if hasattr(y, "dtype") or isinstance(y, list) else as_array(y, "y")
    names = model.__dict__.pop("feature_names_in_", None)  # or a missing X would be one without names
    targets: np.ndarray = validate_data(model, "no_validation", np.asarray(y), reset=reset, **about_y)
    if len(targets) != design.shape[0]:
        raise ValueError(f"X has {design.shape[0]} rows, and y {len(targets)} entries")
    if reset:
        model.n_features_in_ = design.shape[1]
        if design.names is not None:
            model.feature_names_in_ = np.array(design.names, dtype=object)
    elif names is not None:
        model.feature_names_in_ = names
    check_columns(model, design)
    return design, targets


def check_columns(model: Any, design: Design) -> None:
    """Refuse other columns than those of the fit."""
    if design.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {design.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input"
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and design.names is not None and list(names) != list(design.names):
        j = next(j for j, (a, b) in enumerate(zip(names, design.names, strict=True)) if a != b)
        raise ValueError(f"column {j} of X is {design.names[j]!r}, and was {names[j]!r} when the model was fitted")


def by_parts(predict: Callable[..., Any]) -> Callable[..., Any]:
    """For Dask arrays and data frames: predictions that are computed where the rows are, when they are asked for."""

    @wraps(predict)
    def predicted(self: Any, X: Any, offset: Any = None) -> Any:
        if offset is not None or not is_dask(X):
            return predict(self, X, offset)
        check_is_fitted(self)
        plain = copy.copy(self)
        names = plain.__dict__.pop("feature_names_in_", None)  # the parts come without names
        return map_parts(lambda part: predict(plain, part), X, names, self.n_features_in_)

    return predicted
