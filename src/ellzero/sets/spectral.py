"""Sets of matrices, given by their singular values."""

import math
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, like, namespace, norm, scatter, to_host
from .._core.singular import leading, singular_values, svd
from .._core.validation import require_finite
from ..sparsity import Rank, Sparsity, as_sparsity
from ..sparsity.rank import check_shape
from .balls import L2Ball
from .base import ConstraintSet, SparseMaximum, Support, on_host
from .elementwise import LinfBall

_ROUNDS = 20_000  # of a projection onto a slice; hundreds, unless Γ barely touches it
_SETTLED = 1e-12  # the relative distance at which they end


class Spectral(ConstraintSet):
    """argmin ||W - V||_F over the matrices W whose singular values lie in a set: those of V are projected onto it.

    With V = P diag(s) Qᵀ the answer is P diag(Π(s)) Qᵀ, for every set that does not care about the order and the signs
    of entries (von Neumann's trace inequality). It never raises the rank, and does not preserve supports of entries.

    Parameters
    ----------
    inner : ConstraintSet
        Of the singular values: L1Ball is a ball of the nuclear norm, LinfBall of the spectral norm, L2Ball of the
        Frobenius norm, LpBall of a Schatten norm; a Box with lower = -upper, and intersections of these. A set of your
        own says ``symmetric = True`` if that holds.
    shape : tuple of two ints
        (m, n), rows and columns; w holds the rows one after the other.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> gamma = ez.sets.Spectral(ez.sets.L1Ball(2.0), shape=(2, 2))
    >>> gamma.project(np.array([3.0, 0.0, 0.0, 1.0]))
    array([2., 0., 0., 0.])
    """

    n_features: int

    def __init__(self, inner: ConstraintSet, shape: tuple[int, int]) -> None:
        self.shape = check_shape(shape)
        self._size = min(self.shape)
        self.n_features = self.shape[0] * self.shape[1]
        if not isinstance(inner, ConstraintSet):
            raise TypeError(f"inner must be a set of singular values, such as ellzero.sets.L1Ball(1.0), got {inner!r}")
        inner.require_features(self._size, f"the vector of singular values of a matrix of shape {self.shape}")
        if not inner.symmetric:
            raise ValueError(
                f"inner must be a set to which order and signs of entries do not matter, and {inner!r} is not known to "
                "be one; use L1Ball, L2Ball, LinfBall, LpBall or a Box with lower = -upper, or say symmetric = True in "
                "a class of your own"
            )
        self.inner = inner
        self.accuracy = max(type(self).accuracy, inner.accuracy)

    def _arguments(self) -> dict[str, Any]:
        return {"inner": self.inner, "shape": self.shape}

    @property
    def why(self) -> str:
        return (
            "zeroing entries of a matrix may raise its singular values. It preserves ranks: use it with "
            "ellzero.sparsity.Rank"
        )

    def _as_matrix(self, w: Array) -> Array:
        return namespace(w).reshape(w, self.shape)

    def project(self, v: Array, support: Array | None = None) -> Array:
        require_finite(v)
        if support is not None and support.shape[0] < self.n_features:
            values, index = on_host(v, support)
            return like(self._inside(self._on_slice(values.astype(float), index)[0], index), v)
        if v.shape[0] != self.n_features:
            self.require_features(v.shape[0], "v")
        U, s, Vt = svd(self._as_matrix(v))
        if self.inner.violation(s) == 0:
            return v
        return namespace(v).reshape((U * self.inner.project(s)) @ Vt, (-1,))

    def _on_slice(self, v: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """p = v - Z on the support, the normal Z of Γ and the member q at which it is one; at the end p and q agree.

        Accelerated proximal gradient steps for the dual, min ½||(v - Z) on the support||² + max {<Z, q> : q in Γ}.
        """
        Z = ahead = q = np.zeros(self.n_features)
        t, p = 1.0, v
        for _ in range(_ROUNDS if index.size else 0):
            there = ahead + scatter(v - ahead[index], index, self.n_features)
            q = self.project(there)
            following = there - q
            p = v - following[index]
            if norm(scatter(p, index, self.n_features) - q) <= _SETTLED * norm(v):
                Z = following
                break
            if float((ahead - following) @ (following - Z)) > 0:  # past it: begin anew
                t = 1.0
            later = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
            ahead, Z, t = following + (t - 1) / later * (following - Z), following, later
        return p, Z, q

    def _inside(self, p: np.ndarray, index: np.ndarray) -> np.ndarray:
        """p, drawn towards zero by the least that makes it a member."""
        less, inside = 2 * finfo_eps(p), p
        while self.violation(scatter(inside, index, self.n_features)) > 0:
            less, inside = 2 * less, (1 - less) * p if less < 1 else 0.0 * p
        return inside

    def supporting(self, v: np.ndarray, support: np.ndarray) -> Support:
        """See `ConstraintSet.supporting`; valid however far the projection onto a slice came.

        Z is normal to Γ at q, so for w and p on the support <Z, w - p> = <Z, w - q> + <Z, q - p> <= <Z, q - p>.
        """
        if support.size == self.n_features:
            return super().supporting(v, support)
        p, Z, q = self._on_slice(v, support)
        off, size = q - scatter(p, support, self.n_features), norm(Z)
        rounding = self.accuracy * max(norm(v), norm(q))
        return Support(p, Z[support], abs(float(Z @ off)) + rounding * (size + 3 * rounding), rounding)

    def violation(self, w: Array) -> float:
        """That of the singular values."""
        if not np.isfinite(to_host(w)).all():
            return math.inf
        return self.inner.violation(singular_values(self._as_matrix(w)))

    def of_singular_values(self, shape: tuple[int, int]) -> ConstraintSet | None:
        return self.inner if shape == self.shape else None

    def has_sparse_maximum(self, mu: float = 1.0) -> bool:
        """Whether `sparse_maximum` is known for a number of nonzero entries: no."""
        return False

    def knows_maximum(self, sparsity: Sparsity, mu: float = 1.0) -> bool:
        """Whether it is known: for the rank of these matrices, where inner knows its own."""
        return type(sparsity) is Rank and sparsity.shape == self.shape and self.inner.has_sparse_maximum(mu)

    def sparse_maximum(self, z: Array, k: int | Sparsity, mu: float, keep: Any = None) -> SparseMaximum | None:
        """That of the r largest singular values, with the singular vectors of z."""
        if not self.knows_maximum(as_sparsity(k), mu):
            return None
        sparsity, mu, _ = self._demands(z, k, mu, keep)
        r = sparsity.k
        U, s, Vt = leading(self._as_matrix(z), r)
        if not r:
            return 0.0, namespace(z).zeros_like(z)
        found = self.inner.sparse_maximum(s, r, mu)
        if found is None or found[1] is None:
            return found
        return found[0], namespace(z).reshape((U * found[1]) @ Vt, (-1,))

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """Those of the singular values: a matrix with j nonzero entries has at most j of them."""
        squares = self.inner.norm_squares(self._size, min(k, self._size))
        return np.append(squares, np.full(max(k - self._size, 0), squares[-1]))

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """No entry is larger than the largest singular value, and Σ_ij w_ij² is the sum of their squares."""
        squares = self.inner.norm_squares(self._size, self._size)
        balls = ((LinfBall, squares[1]), (L2Ball, squares[-1]))
        return [ball(math.sqrt(square)) for ball, square in balls if math.isfinite(square)]

    def signs(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(n_features, dtype=bool), np.ones(n_features, dtype=bool)

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        """A spectral set again, where all units are the same."""
        c = self._units(scales)[1]
        inner = self.inner.rescaled(np.full(self._size, c)) if c else None
        return Spectral(inner, self.shape) if inner is not None and inner.symmetric else None
