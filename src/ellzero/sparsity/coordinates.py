"""At most k nonzeros: what an int means."""

from typing import Any, Self

import numpy as np

from .._core.arrays import Array, best_entries, namespace, to_host, top_k
from .._core.validation import check_k, require_finite
from .base import Sparsity


class Coordinates(Sparsity):
    """{w : ||w||_0 <= k}.

    Parameters
    ----------
    k : int
        How many nonzeros are allowed.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.sparsity.Coordinates(2).best_support(np.array([1.0, -3.0, 2.0, 3.0]))
    array([1, 3])
    """

    def __init__(self, k: int) -> None:
        self.k = check_k(k)

    @property
    def plain(self) -> bool:
        """Whether any k coordinates may be kept; a subclass is another sparsity, unless it says so itself."""
        return type(self) is Coordinates

    def with_k(self, k: int) -> Self:
        return type(self)(k)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.k))

    def with_free(self, n: int) -> Self:
        return self.with_k(self.k + n)

    def best_support(self, v: Array, keep: np.ndarray | None = None) -> Array:
        k, magnitude = min(self.k, v.shape[0]), namespace(v).abs(v)
        if 0 < k < v.shape[0] and (keep is None or keep.size == 0):
            support, finite = top_k(magnitude, k)  # looks at the largest anyway, so finiteness costs nothing
            return support if finite else require_finite(v)
        require_finite(v)
        return best_entries(magnitude, k, keep)

    def most(self, n_features: int) -> int:
        return n_features

    @property
    def words(self) -> str:
        return f"k={self.k}"

    def describe(self, w: Array) -> str:
        return f"{np.count_nonzero(to_host(w))} of at most {self.k}"


def as_sparsity(k: Any, name: str = "k") -> Sparsity:
    """What an int, or a sparsity, in place of k means."""
    return k if isinstance(k, Sparsity) else Coordinates(check_k(k, name=name))
