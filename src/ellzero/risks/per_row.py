"""What a risk is told of each row of X beside its columns: targets, labels, weights and offsets, checked."""

from typing import Any

import numpy as np

from .._core.validation import as_array, as_numbers, check_finite, check_vector

_EPS = float(np.finfo(np.float32).eps) / 2
_LOST = 1e-3  # of the standard deviation of y: what rounding may take


def one_per_row(values: Any, n: int, name: str) -> np.ndarray:
    """A vector with an entry for each row of X, on the host."""
    vector = as_array(values, name)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {vector.shape}; use {name}.ravel() if that is meant"
        )
    if vector.size != n:
        raise ValueError(f"{name} must have length {n}, one for each row of X, got {vector.size}")
    return vector


def check_targets(y: Any, n: int, risk: str) -> np.ndarray:
    """A number for each row; `risk` is the name of the one that asks."""
    targets = one_per_row(y, n, "y")
    if targets.dtype.kind not in "fiub":
        raise TypeError(
            f"y must be numbers for {risk}, got dtype {targets.dtype}; labels are for Logistic, Multinomial and "
            "SparseClassifier"
        )
    return check_vector(targets, "y")


def check_rounding(y: np.ndarray, offset: np.ndarray | None) -> None:
    """Refuse targets whose differences, all that counts beside an intercept, single precision would round away.

    Predictions with an offset are as large as that, whatever is left of y.
    """
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    with np.errstate(over="ignore", under="ignore"):
        lost, asked = np.abs(y.astype(np.float32) - y).max(axis=0), "subtract y.mean()"
        if offset is not None:
            y, size = y - offset, size + float(np.abs(offset).max())
            lost, asked = lost + _EPS * np.abs(offset).max(axis=0), "subtract the means of y and offset"
        spread = size * (y / size).std(axis=0, dtype=float)
    if (lost > _LOST * spread)[y.min(axis=0) < y.max(axis=0)].any():
        raise ValueError(
            f"y must keep its digits in the single precision of X: rounding would change it by {np.max(lost):.2g}, "
            f"and its standard deviation is {np.min(spread):.2g}; {asked}, or hand in X in double precision"
        )


def check_labels(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and for each row the position of its label among them."""
    labels = one_per_row(y, n, "y")
    if labels.dtype.kind == "f":
        check_finite(labels, "y")
    try:
        classes, position = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"y must hold labels of one kind, which can be sorted: {error}") from error
    if classes.size < 2:
        raise ValueError(f"y must hold at least two different labels, got only {classes[0]!r}")
    return classes, position


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """The share of each row in the sum of the weights, in double precision."""
    weights = check_vector(one_per_row(sample_weight, n, "sample_weight"), "sample_weight")
    if weights.min() < 0:
        i = int(weights.argmin())
        raise ValueError(f"sample_weight must be at least 0, got {weights[i]} at index {i}")
    if not weights.any():
        raise ValueError("sample_weight must not be 0 everywhere: no sample would count")
    weights = weights.astype(np.float64) / float(weights.max())  # only ratios matter, and the sum may overflow
    return weights / float(weights.sum())


def check_offset(offset: Any, n: int, n_outputs: int) -> np.ndarray:
    """A number for each row, or one for each row and output."""
    given = as_numbers(offset, "offset")
    if given.ndim == 2 and n_outputs > 1:
        if given.shape != (n, n_outputs):
            raise ValueError(f"offset must have shape ({n},) or ({n}, {n_outputs}), got {given.shape}")
        check_finite(given, "offset")
        return np.asfortranarray(given, dtype=np.float64)
    vector = check_vector(one_per_row(given, n, "offset"), "offset")
    if n_outputs == 1:
        return vector
    return np.asfortranarray(np.broadcast_to(vector[:, None], (n, n_outputs)))
