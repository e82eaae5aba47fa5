"""Numbers near the ends of the range of doubles: what overflows or underflows is computed again in a wider one."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._core.arrays import Array, like, namespace, to_host

T = TypeVar("T")


def in_range(f: Callable[..., T], *arguments: Any, invalid: Any = "raise") -> T:
    """f(*arguments) or, where a number on the way leaves the range of its type, the same in extended precision.

    Long doubles reach from 1e-4900 to 1e4900 on most machines, so that squares, products and quotients of any two
    doubles exist. Where they are no wider than doubles, this is f without warnings.
    """
    try:
        with np.errstate(over="raise", under="raise", divide="raise", invalid=invalid):
            return f(*arguments)
    except FloatingPointError:
        with np.errstate(all="ignore"):
            return f(*map(widened, arguments))


def project_in_range(f: Callable[..., Array], v: Array, *parameters: Any) -> Array:
    """The projection f(v, *parameters) in the type of v."""
    if isinstance(v, np.ndarray):
        w = in_range(f, v, *parameters)
        return w if w.dtype == v.dtype else towards_zero(w, v.dtype)
    w = f(v, *parameters)
    xp = namespace(w)
    if bool(xp.all(xp.isfinite(w))):
        return w
    on_host = [to_host(p) if hasattr(p, "shape") else p for p in parameters]
    with np.errstate(all="ignore"):
        return like(towards_zero(f(*map(widened, (to_host(v), *on_host))), to_host(v).dtype), v)


def widened(x: Any) -> Any:
    """Numbers in the widest type there is; anything else as it is."""
    if isinstance(x, np.ndarray):
        return x.astype(np.longdouble) if x.dtype.kind == "f" else x
    return np.longdouble(x) if isinstance(x, float) else x


def towards_zero(w: np.ndarray, dtype: Any) -> np.ndarray:
    """Wide numbers back in their type, none larger than it was: among the smallest, rounding is no longer relative."""
    near = narrowed(w, dtype)
    return np.where(np.abs(near) > np.abs(w), np.nextafter(near, np.zeros_like(near)), near)


def narrowed(x: Any, dtype: Any = np.float64) -> np.ndarray:
    """Wide numbers back in their type, without a word about what is too small or too large for it."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


def short(value: Any) -> str:
    """A number or an array in a few characters."""
    if isinstance(value, np.ndarray):
        return f"<array of {value.size}>" if value.ndim == 1 else f"<array {value.shape}>"
    return f"{value:g}" if isinstance(value, float) else repr(value)
