"""Polytopes of non-negative vectors under caps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._arrays import Array, like, to_host
from .._validation import check_vector
from .base import ConstraintSet, on_host


class PackingPolytope(ConstraintSet):
    """argmin ||w - v|| over w >= 0, Aw <= b, with A >= 0 and b >= 0: overlapping caps on non-negative weights.

    The projection is found by an active-set method, exact up to rounding, and then scaled into the set.

    Parameters
    ----------
    A : array or sparse matrix of shape (m, d), non-negative
    b : array of shape (m,), non-negative

    Examples
    --------
    Two sectors that overlap, each capped at 1:

    >>> import numpy as np, ellzero as ez
    >>> caps = ez.sets.PackingPolytope([[1, 1, 0], [0, 1, 1]], [1.0, 1.0])
    >>> bool(caps.contains(caps.project(np.array([2.0, 2.0, 2.0]))))
    True
    """

    closed_under_zeroing = True

    def __init__(self, A: Any, b: Any) -> None:
        sparse = "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(A)
        self.A: Any = A.tocsc().astype(float) if sparse else np.asarray(A, dtype=float)
        if self.A.ndim != 2:
            raise ValueError(f"A must be a matrix with a row for each cap, got shape {self.A.shape}")
        self.b = check_vector(b, "b", size=self.A.shape[0]).astype(float)
        entries: Any = self.A.data if sparse else self.A
        if not np.isfinite(entries).all() or (entries < 0).any() or (self.b < 0).any():
            raise ValueError(
                "A and b must be finite and non-negative: only then does zeroing coordinates stay inside. "
                "For other inequalities write a ConstraintSet of your own, or use Intersection of known sets"
            )
        self.n_features = self.A.shape[1]

    @property
    def why(self) -> str:
        """Why the set preserves supports."""
        return "with A >= 0, zeroing non-negative entries never increases Aw"

    def _columns(self, index: np.ndarray) -> np.ndarray:
        columns = self.A[:, index]
        return columns if isinstance(columns, np.ndarray) else columns.toarray()

    def project(self, v: Array, support: Array | None = None) -> Array:
        values, index = on_host(v, support)
        A = self._columns(index)
        # (v - Aᵀy)_+ is zero wherever v <= 0; a cap of zero removes what it weighs; an empty row caps nothing
        free = (values > 0) & ~(A[self.b == 0] > 0).any(axis=0)
        rows = (self.b > 0) & (A[:, free] > 0).any(axis=1)
        w = np.zeros(values.size)
        w[free] = _project_on_caps(values[free].astype(float), A[np.ix_(rows, free)], self.b[rows])
        return like(w, v)

    project.__doc__ = ConstraintSet.project.__doc__

    def violation(self, w: Array) -> float:
        values = to_host(w)
        used = self.A @ values.astype(float)
        excess = (used - self.b) / np.where(self.b > 0, self.b, 1.0)
        return float(max(excess.max(initial=0.0), (-values).max(initial=0.0), 0.0))

    violation.__doc__ = ConstraintSet.violation.__doc__

    def _arguments(self) -> dict[str, Any]:
        return {"A": f"<{self.A.shape[0]} caps on {self.A.shape[1]} coordinates>", "b": self.b}


def _project_on_caps(v: np.ndarray, A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """argmin ||w - v|| over w >= 0, Aw <= b for v > 0, A >= 0, b > 0.

    The shift u = w - v is the shortest vector with Gu >= h for G = [-A; I], h = [Av - b; -v], and that is a
    non-negative least-squares problem (Lawson & Hanson, least distance programming): for x minimising
    ||Ex - f||, E = [Gᵀ; hᵀ], f = (0, ..., 0, 1), the residual r = Ex - f gives u = -r_{1..} / r_last.
    """
    from scipy.optimize import nnls

    A, b = A / b[:, None], np.ones_like(b)  # every cap becomes 1, so that residuals are relative
    h = np.concatenate([A @ v - b, -v])
    if h.max(initial=0.0) <= 0:
        return v
    scale = float(np.abs(h).max())
    E = np.vstack([np.hstack([-A.T, np.eye(v.size)]), h / scale])
    f = np.zeros(v.size + 1)
    f[-1] = 1.0
    x, _ = nnls(E, f, maxiter=30 * E.shape[1])
    residual = E @ x - f
    w: np.ndarray = np.maximum(v - scale * residual[:-1] / residual[-1], 0.0)
    return w / max(1.0, float((A @ w).max()))
