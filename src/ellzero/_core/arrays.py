"""The one place that knows array libraries: NumPy, torch, and anything that follows the array API standard.

NumPy is by far the most common case, so it is recognised first and used directly; other libraries go through
`array_api_compat`, imported only when such an array arrives.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# An array of any supported library. The array API standard has no static type that NumPy, torch and JAX share.
Array = Any
Namespace = Any

_LONG, _PIECE = 512, 128  # vectors with so many entries for each of the largest, and pieces of them

#: kinds of torch devices whose numbers are at hand
_HOST = {"cpu"}


def namespace(*arrays: Array) -> Namespace:
    """The array namespace in which these arrays are computed with."""
    if isinstance(arrays[0], np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(*arrays)


def is_array(x: object) -> bool:
    """Whether x is an array of a supported library (lists and sparse matrices are not)."""
    if isinstance(x, np.ndarray):
        return True
    import array_api_compat

    return bool(array_api_compat.is_array_api_obj(x))


def is_tensor(x: object) -> bool:
    """Whether x is a tensor of torch."""
    return hasattr(x, "detach")


def alike(x: Array, reference: Array) -> bool:
    """Whether products take both: of tensors those of one precision in one place."""
    if is_tensor(x) and is_tensor(reference):
        return bool(x.dtype == reference.dtype and x.device == reference.device)
    return is_tensor(x) == is_tensor(reference)


def to_host(x: Array) -> np.ndarray:
    """The same numbers as a NumPy array."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach"):  # torch, possibly on a device
        return np.asarray(x.detach().cpu().numpy())
    if hasattr(x, "get"):  # CuPy
        return np.asarray(x.get())
    # array-api-strict hands its buffer out through DLPack only
    return np.asarray(x) if hasattr(x, "__array__") else np.from_dlpack(x)


def like(values: Any, reference: Array, dtype: Any = None) -> Array:
    """Values as an array of the reference's library and device, with its dtype unless another is given."""
    if isinstance(reference, np.ndarray):
        return np.asarray(values, dtype=dtype or reference.dtype)
    import array_api_compat

    xp = namespace(reference)
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch shares memory, and warns of this
    return xp.asarray(values, dtype=dtype or reference.dtype, device=array_api_compat.device(reference))


def zeros(size: int, reference: Array) -> Array:
    """A vector of zeros in the library, dtype and device of the reference, made there and not sent there."""
    if isinstance(reference, np.ndarray):
        return np.zeros(size, dtype=reference.dtype)
    import array_api_compat

    return namespace(reference).zeros(size, dtype=reference.dtype, device=array_api_compat.device(reference))


def waits(x: Array) -> bool:
    """Whether to look at a number of x means to wait until a device has finished all that it was asked for."""
    return hasattr(x, "detach") and x.device.type not in _HOST


def recorded(compute: Callable[[], Array], reference: Array) -> Callable[[], Array] | None:
    """A function that computes the same anew, as one request to the device; None where that cannot be had.

    It must look at no number on the way, read what it needs from arrays that stay where they are, and leave its results
    in such.
    """
    if not getattr(reference, "is_cuda", False):
        return None
    import torch

    graph, aside = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    try:
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # what is set up at a first call must not be recorded
                compute()
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(graph):
            result = compute()
    except RuntimeError:  # it has looked at a number
        torch.cuda.synchronize()
        return None

    def play() -> Array:
        graph.replay()
        return result

    return play


def scalar(x: Any) -> Any:
    """A number of an array as a float, unless that means to wait."""
    return x if waits(x) else float(x)


def together(numbers: list[Any]) -> np.ndarray:
    """What `scalar` gave, on the host: of those that are to be waited for, all at once."""
    if numbers and not isinstance(numbers[0], float):
        return to_host(namespace(numbers[0]).stack(numbers)).astype(float)
    return np.array(numbers)


def index_like(index: np.ndarray, reference: Array) -> Array:
    """A host index array as an index for the reference array."""
    if isinstance(reference, np.ndarray):
        return index
    return like(index, reference, dtype=namespace(reference).int64)


def _kth_and_largest(xp: Namespace, a: Array, k: int) -> tuple[Array, Array]:
    """The k-th largest entry of a and the largest one; NaN counts as larger than everything."""
    if xp is np:
        a = _few_that_are_large(a, k)
        # selection is slow among many equal entries, such as the zeros of a sparse vector, and sorting is not
        ordered = np.sort(a) if 2 * np.count_nonzero(a) < a.size else np.partition(a, a.size - k)
        top = ordered[a.size - k :]
        return top[0], top.max()
    if hasattr(a, "topk"):  # torch
        top = a.topk(k).values
        return top[-1], top[0]
    top = xp.sort(a, descending=True)[:k]
    return top[-1], top[0]


def _few_that_are_large(a: np.ndarray, k: int) -> np.ndarray:
    """The k largest entries of a long vector, and some more: no smaller than the k-th largest of maxima over pieces."""
    if a.size < _LONG * k:
        return a
    most = np.maximum.reduceat(a, np.arange(0, a.size, _PIECE))
    bound = np.partition(most, most.size - k)[most.size - k]
    # a NaN is the largest of its piece, and not at least as large as a bound
    return a[a >= bound] if bound > 0 and math.isfinite(most.max()) else a


def top_k(a: Array, k: int) -> tuple[Array, bool]:
    """Indices of the k largest entries, in increasing order; among equal entries the lowest index wins.

    Neither argpartition nor topk promises the last part, so the k-th value is found first and ties at that
    value are resolved afterwards. Also returns whether every entry is finite, which costs nothing here: a NaN
    or an infinity in `a` (magnitudes, so no -inf) is among the k largest. On a device nobody looks: what is not
    finite is among the k largest, and is found with the next number that is looked at.

    Requires 1 <= k <= len(a).
    """
    if waits(a):
        return a.argsort(descending=True, stable=True)[:k].sort().values, True
    xp = namespace(a)
    kth, largest = _kth_and_largest(xp, a, k)
    if not math.isfinite(largest):
        return None, False
    index = xp.nonzero(a >= kth)[0]
    if index.shape[0] > k:
        index = xp.nonzero(a > kth)[0]
        ties = xp.nonzero(a == kth)[0][: k - index.shape[0]]
        index = xp.sort(xp.concat([index, ties]))
    return index, True


def best_entries(score: Array, k: int, keep: np.ndarray | None = None) -> Array:
    """Increasing indices of the k entries of largest score, those in `keep` among them; ties: the lowest index.

    Requires finite scores and at most k coordinates to keep.
    """
    d = score.shape[0]
    if k == 0 or k == d:
        return index_like(np.arange(k), score)
    if keep is None or keep.size == 0:
        return top_k(score, k)[0]
    if keep.size == k:
        return index_like(keep, score)
    if waits(score):
        kept, others = index_like(keep, score), score.clone()
        others[kept] = -math.inf
        return namespace(score).concat([kept, top_k(others, k - keep.size)[0]]).sort().values
    others = to_host(score).copy()
    others[keep] = -np.inf
    return index_like(np.sort(np.concatenate([keep, top_k(others, k - keep.size)[0]])), score)


def scatter(values: Array, index: Array, size: int) -> Array:
    """The vector of the given size that holds the values at the index (increasing) and zeros elsewhere."""
    if isinstance(values, np.ndarray):
        out = np.zeros(size, dtype=values.dtype)
        out[index] = values
        return out
    xp, out = namespace(values), zeros(size, values)
    if hasattr(values, "detach") or hasattr(values, "get"):  # torch, CuPy
        out[index] = values
    else:  # the array API standard assigns through masks alone
        out[like(np.isin(np.arange(size), to_host(index)), values, dtype=xp.bool)] = values
    return out


def norm(x: Array) -> float:
    """The Euclidean norm, as a Python float; safe from overflow."""
    if isinstance(x, np.ndarray):
        with np.errstate(over="ignore"):
            square = float(x.dot(x))
        if 1e-280 < square < math.inf:
            return math.sqrt(square)
        largest = float(np.abs(x).max(initial=0.0))
        if largest == 0 or not math.isfinite(largest):
            return largest
        return largest * float(np.linalg.norm(x / largest))
    xp = namespace(x)
    return math.sqrt(float(xp.sum(x * x)))


def sort_descending(x: Array) -> Array:
    """Sorted along the last axis, largest first."""
    if isinstance(x, np.ndarray):
        return np.sort(x, axis=-1)[..., ::-1]
    return namespace(x).sort(x, axis=-1, descending=True)


def finfo_eps(x: Array) -> float:
    """The rounding unit of the array's dtype."""
    return float(namespace(x).finfo(x.dtype).eps)
