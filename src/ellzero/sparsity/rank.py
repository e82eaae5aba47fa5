"""At most r singular values: matrices of low rank."""

from typing import Any, Self

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace, to_host
from .._core.singular import leading, singular_values
from .._core.validation import check_count, require_finite
from .base import Sparsity


class Rank(Sparsity):
    """{w : rank(W) <= r}, W being w as a matrix: its rows one after the other, ``W = w.reshape(m, n)``.

    Projections keep the r largest singular values (Eckart and Young). A set goes with it that is a matter of singular
    values alone: `ellzero.sets.Spectral`, `ellzero.sets.L2Ball`, or none.

    Parameters
    ----------
    r : int
        How many singular values may be nonzero; `k` is another name for it.
    shape : tuple of two ints
        (m, n), rows and columns.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.hard_threshold(np.array([3.0, 0.0, 0.0, 1.0]), ez.sparsity.Rank(1, shape=(2, 2)))
    array([3., 0., 0., 0.])
    """

    counted, label = "singular values", "rank"
    of_coordinates = False
    step = "factors"
    shape: tuple[int, int]

    def __init__(self, r: int, shape: tuple[int, int]) -> None:
        self.k, self.shape = check_count(r, "r", low=0), check_shape(shape)
        self.n_features = self.shape[0] * self.shape[1]

    def with_k(self, k: int) -> Self:
        return type(self)(k, self.shape)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.k, self.shape))

    def project(self, v: Array, keep: np.ndarray | None = None) -> tuple[Array, None]:
        """The nearest matrix of this rank; where singular values repeat there are several, and it is one of them."""
        xp, V = namespace(v), namespace(v).reshape(require_finite(v), self.shape)
        if self.k >= min(self.shape):
            return v, None
        U, s, Vt = leading(V, self.k)
        return xp.reshape((U * s) @ Vt, (-1,)), None

    def preserved_by(self, constraint: Any) -> bool:
        """Whether Γ is a matter of singular values alone: its projections keep singular vectors, and zeros."""
        return constraint.of_singular_values(self.shape) is not None

    def widest(self, n: int, n_features: int) -> int:
        """All: matrices of rank n are no matter of few coordinates."""
        return n_features

    def count(self, w: Array) -> int:
        """The number of singular values that are more than rounding errors of the largest."""
        s = to_host(singular_values(namespace(w).reshape(require_finite(w), self.shape)))
        return int(np.count_nonzero(s > 16 * max(self.shape) * finfo_eps(w) * s[0]))

    def require_keep(self, keep: np.ndarray) -> None:
        """Raise ValueError for any coordinate: a rank is no choice of entries."""
        if keep.size:
            raise ValueError("keep names coordinates, and a rank is no matter of coordinates; leave it out")

    def freedom(self, w: Array) -> int:
        """r(m + n - r), the dimension of the matrices of rank r."""
        return (r := self.count(w)) * (sum(self.shape) - r)

    def log_choices(self, w: Array) -> float:
        """0: all matrices of a rank are one smooth piece, so there is nothing to choose."""
        return 0.0

    def most(self, n_features: int) -> int:
        return min(self.shape)

    @property
    def words(self) -> str:
        return f"rank at most {self.k}"

    def describe(self, w: Array) -> str:
        return f"{self.count(w)} of at most {self.k}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(r={self.k}, shape={self.shape})"


def check_shape(shape: Any) -> tuple[int, int]:
    """Rows and columns of a matrix."""
    try:
        m, n = shape
    except (TypeError, ValueError):
        raise TypeError(f"shape must be the two numbers (rows, columns) of a matrix, got {shape!r}") from None
    return check_count(m, "the rows of shape"), check_count(n, "the columns of shape")
