"""What an exchange is, and the terms of the formulas by which exchanges are ranked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import index_like, like, namespace, to_host, waits
from .._core.linear_systems import Factor
from ..design import in_double
from .spans import Kept


class Exchange(NamedTuple):
    """A move from one choice to another: what leaves, what comes, and what it seems to gain.

    The rank is that among the moves for the same place.
    """

    out: tuple[int, ...]
    into: tuple[int, ...]
    rank: int
    gain: float


@dataclass
class Books:
    """The terms of the formulas at a point, see `SwapSearch`.

    Of the newcomers: the slope c without what the sum of a budget is worth, the price θ of a unit of a cap, the worth
    of the slope (0 for those inside), G_jj and q_j (G_jj where q is too dear). Of the places S: their values, C (None
    where it is too dear, or `kept` says what it is; on its device if X is on one), H, its diagonal, and the loss that
    removing each costs; and U ↦ G[:,S] U.
    """

    c: np.ndarray
    price: Any
    worth: np.ndarray
    outside: np.ndarray
    diagonal: np.ndarray
    q: np.ndarray
    S: np.ndarray
    values: np.ndarray
    C: Any
    H: np.ndarray
    h: np.ndarray
    loss: np.ndarray
    images: Callable[[np.ndarray], Any]
    kept: Kept | None = None

    @property
    def knows(self) -> bool:
        """Whether rows of C are at hand."""
        return self.C is not None or self.kept is not None

    def rows(self, index: np.ndarray) -> np.ndarray:
        """C[index], on the host."""
        if self.kept is not None:
            return self.kept.rows(index)
        return to_host(self.C[index_like(index, self.C)]).astype(float) if waits(self.C) else np.asarray(self.C[index])

    def times(self, U: np.ndarray) -> np.ndarray:
        """CU, on the host; where C is too dear, by a product with X for each column of U."""
        if self.kept is not None:
            return self.kept.times(U)
        if self.C is None:
            return to_host(self.images(U))
        if waits(self.C):
            C = in_double(self.C)
            return to_host(C @ like(U, C))
        # C holds its columns one after the other: this order of the factors is the quicker one
        return np.asarray((U.T @ self.C.T).T)

    def overlaps(self, index: np.ndarray) -> np.ndarray:
        """C_J H C_Jᵀ for each row J of an array of indices, computed where C is."""
        if self.kept is not None:
            return self.kept.overlaps(index, self.H)
        C = in_double(self.C[index_like(index.ravel(), self.C)])
        C = namespace(C).reshape(C, (*index.shape, -1))
        return to_host((C @ like(self.H, C)) @ namespace(C).matrix_transpose(C))


def chunks(a: np.ndarray, width: int) -> list[np.ndarray]:
    """Pieces of an array along its last axis, so many that this wide they stay in the cache."""
    step = max(1, 2**16 // max(width, 1))
    return [a[..., start : start + step] for start in range(0, a.shape[-1], step)]


def inverse(G: np.ndarray) -> np.ndarray:
    """G⁻¹, or that of G with next to nothing, 1e-13, more on its diagonal where columns depend on each other.

    1/H_ii is what the other columns leave of column i: that little for one that is a copy or a combination of others,
    as it must be, for such a column costs nothing to drop. NaN where G is not finite.
    """
    diagonal = np.maximum(np.diagonal(G), 1e-300)
    factor = Factor.of(G)
    if factor is not None and (factor.pivots > 1e-11 * diagonal).all():
        return factor.inverse()
    size = np.sqrt(diagonal)
    damped = G / size / size[:, None] + max(1e-13, 10 * np.finfo(float).eps * len(G)) * np.eye(len(G))
    try:
        return np.asarray(np.linalg.inv(damped) / size / size[:, None])
    except np.linalg.LinAlgError:
        return np.full(G.shape, np.nan)


def inverse_where(G: np.ndarray, live: np.ndarray) -> np.ndarray:
    """G⁻¹ on some of the coordinates, zeros in the rows and columns of the others, which are columns of zeros."""
    if live.all():
        return inverse(G)
    H = np.zeros(G.shape)
    H[np.ix_(live, live)] = inverse(G[np.ix_(live, live)])
    return H
