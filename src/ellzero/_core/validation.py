"""Checks of what users hand in. Every error names the argument, the value and the remedy."""

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arrays import Array, is_array, namespace, to_host
from .stopping import Status, Stop


class NotFinite(Stop, ValueError):
    """A vector to be projected holds NaN or infinity."""

    status = Status.DIVERGED


def check_k(k: Any, n_features: int | None = None, name: str = "k") -> int:
    """A sparsity level: an integer 0 <= k; a k above the number of features is allowed and means "no limit"."""
    if isinstance(k, bool) or not isinstance(k, numbers.Integral):
        raise TypeError(f"{name} must be an integer (how many nonzeros are allowed), got {k!r}")
    if k < 0:
        raise ValueError(f"{name} must be at least 0, got {name}={k}")
    return int(k) if n_features is None else min(int(k), n_features)


def check_number(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """A real number in an interval; infinities only where the interval reaches them and is closed there."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a double can hold, got {name}={value!r:.40}...") from None
    inside = (low < number if open_low else low <= number) and (number < high if open_high else number <= high)
    if not inside:
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ValueError(f"{name} must lie in {interval}, got {name}={value}")
    return number


def check_nonnegative(value: Any, name: str) -> float:
    """A finite number >= 0."""
    return check_number(value, name, low=0.0, high=math.inf, open_high=True)


def check_positive(value: Any, name: str) -> float:
    """A finite number > 0."""
    return check_number(value, name, low=0.0, high=math.inf, open_low=True, open_high=True)


def check_count(value: Any, name: str, low: int = 1) -> int:
    """An integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {name}={value}")
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """True or False: of other values it is not plain which of both they mean."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_indices(indices: Iterable[int] | None, n_features: int, name: str) -> np.ndarray:
    """Distinct coordinates of range(n_features), sorted; None means none."""
    if indices is None:
        return np.empty(0, dtype=np.intp)
    if not isinstance(indices, Iterable):
        raise TypeError(f"{name} must be a sequence of integers (coordinates) or a boolean mask, got {indices!r}")
    if is_masked(indices):
        raise ValueError(f"{name} has masked entries; leave out what is not meant ({name}.compressed())")
    try:
        index = to_host(indices) if hasattr(indices, "dtype") and is_array(indices) else np.asarray(list(indices))
    except ValueError:
        index = np.array(None)
    if index.size == 0:
        return np.empty(0, dtype=np.intp)
    if index.dtype == bool:
        if index.shape != (n_features,):
            raise ValueError(
                f"{name} as a mask must have length {n_features} (the number of features), got {index.shape}"
            )
        return np.flatnonzero(index)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a sequence of integers (coordinates) or a boolean mask, got {indices!r}")
    if index.min() < 0 or index.max() >= n_features:
        bad = index[(index < 0) | (index >= n_features)][0]
        raise ValueError(f"{name} must lie in 0..{n_features - 1}, got {bad}")
    unique = np.unique(index)
    if unique.size != index.size:
        raise ValueError(f"{name} must name each coordinate once, got {list(index)}")
    return unique.astype(np.intp)


def as_numbers(values: Any, name: str) -> np.ndarray:
    """An array of real numbers on the host, of any shape: no text, objects, dates, complex numbers, nothing masked."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers, got an array of dtype {array.dtype}")
    return array


def as_array(values: Any, name: str) -> np.ndarray:
    """An array on the host, of any shape and kind, in which nothing is masked."""
    if is_masked(values):
        raise ValueError(
            f"{name} has masked entries, and what lies under a mask is not to be used: fill them "
            f"({name}.filled(...)), or drop their rows"
        )
    check_layout(values, name)
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":
        raise TypeError(f"{name} must hold numbers that NumPy knows, got dtype {values.dtype}; use {name}.float()")
    try:
        return np.asarray(to_host(values) if is_array(values) else values)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array of numbers; its rows have different lengths, or it is nested unevenly ({error})"
        ) from None


def check_real(array: Array, name: str) -> Array:
    """An array of any library, on its device, if it holds real numbers and is not sparse."""
    check_layout(array, name)
    if namespace(array).isdtype(array.dtype, "complex floating"):
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}; use its .real, if that is meant")
    return array


def check_layout(tensor: Any, name: str) -> None:
    """Refuse sparse tensors of torch."""
    layout = str(getattr(tensor, "layout", ""))
    if layout.startswith("torch.") and layout != "torch.strided":
        raise TypeError(
            f"{name} must be a dense tensor, got layout {layout}; use {name}.to_dense(), or for X a matrix of "
            "scipy.sparse"
        )


def is_masked(values: Any) -> bool:
    """Whether it is a masked array with something under its mask."""
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())


def check_vector(values: Any, name: str, size: int | None = None, *, finite: bool = True) -> np.ndarray:
    """A one-dimensional float array on the host; float32 stays float32."""
    vector = as_numbers(values, name)
    if vector.dtype not in (np.float32, np.float64):
        vector = vector.astype(np.float64)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {vector.shape}; use {name}.ravel() if that is meant"
        )
    if size is not None and vector.size != size:
        raise ValueError(f"{name} must have length {size}, got {vector.size}")
    if finite:
        check_finite(vector, name)
    return vector


def check_finite(array: np.ndarray, name: str) -> None:
    """Refuse NaN and infinities, naming the first place."""
    with np.errstate(over="ignore", invalid="ignore"):
        if array.size == 0 or math.isfinite(float(np.sum(array, dtype=np.float64))):
            return
    bad = ~np.isfinite(array)
    if bad.any():  # the sum alone may overflow although every entry is finite
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite, got {array[where]} at index {where if len(where) > 1 else where[0]} "
            f"({int(bad.sum())} such entries); drop or impute them first"
        )


def require_finite(v: Array) -> Array:
    """v, an array of any library, if it holds neither NaN nor infinity."""
    xp = namespace(v)
    if not bool(xp.all(xp.isfinite(v))):
        bad = to_host(xp.nonzero(~xp.isfinite(v))[0])
        raise NotFinite(f"the vector to project must be finite, got {float(v[int(bad[0])])} at index {int(bad[0])}")
    return v
