"""Non-negative vectors under a budget, or under several caps."""

import math
import sys
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._core.arrays import Array, like, namespace, to_host
from .._core.validation import as_numbers, check_nonnegative, check_vector
from ._range import in_range, narrowed, project_in_range
from ._tables import at_largest, budget_increments, simplex_threshold, to_sub_simplex
from .base import ConstraintSet, on_host
from .elementwise import Box, relative, relative_excess
from .polyhedron import Polyhedron, of_ball
from .rows import RowSet


class _Budget(RowSet):
    """What non-negative vectors with a given total share, be it their sum or a bound of it."""

    _parameter_padding: ClassVar[dict[str, float | None]] = {"total": None}
    _exact: ClassVar[bool] = False  # whether all of it is spent

    def __init__(self, total: float = 1.0) -> None:
        self.total = check_nonnegative(total, "total")

    def _score_rows(self, z: Array, mu: float, *parameters: Any) -> Array:
        return z

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        return budget_increments(self, z, z, mu, *parameters, exact=self._exact)

    def _exponent(self, mu: float) -> float | None:
        return np.inf if mu == 0 else None

    def polyhedron(self, n_features: int) -> Polyhedron:
        return Polyhedron.box(0.0, math.inf, n_features).with_row(1.0, self.total, equal=self._exact)

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        return of_ball(self.total, k)


class SubSimplex(_Budget):
    """argmin ||w - v|| over w >= 0, Σ_i w_i <= total: a budget that need not be spent."""

    closed_under_zeroing = True
    why = "zeroing non-negative entries never increases their sum"

    def __init__(self, total: float = 1.0) -> None:
        super().__init__(total)
        self.radius = self.total  # as balls call it

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        return to_sub_simplex(v, *parameters)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        negative = xp.max(xp.maximum(-v, 0.0 * v), axis=-1, keepdims=True)
        return xp.maximum(negative, relative_excess(xp.sum(v, axis=-1, keepdims=True), *parameters))

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        xp = namespace(z)
        return xp.where(z > 0, at_largest(z, *parameters), xp.zeros_like(z))

    def _price_rows(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        return 0.0, np.abs(c).max(axis=-1, keepdims=True, initial=0.0)

    def rescaled(self, scales: Any) -> ConstraintSet:
        """A budget again, or a weighted one where the units differ."""
        scales, c = self._units(scales)
        return SubSimplex(self.total / c) if c else PackingPolytope(scales[None, :], [self.total])


class Simplex(_Budget):
    """argmin ||w - v|| over w >= 0, Σ_i w_i = total: a budget that must be spent exactly.

    Not support-preserving: the projection of a sparse vector may need entries outside its support. It is still
    usable where a projection onto its sparse members is known, or with the projection "restricted".
    """

    _padding = -np.inf
    _exact = True

    @cached_property
    def closed_under_zeroing(self) -> bool:  # type: ignore[override]
        """Whether it holds zero alone."""
        return self.total == 0

    @cached_property
    def needs_entry(self) -> bool:  # type: ignore[override]
        """Whether there is something to spend."""
        return self.total > 0

    @property
    def why(self) -> str:
        if self.closed_under_zeroing:
            return "it holds the zero vector alone"
        return f"zeroing an entry breaks the exact budget Σw = {self.total:g}"

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        shifted, threshold, _ = simplex_threshold(v, *parameters)
        xp = namespace(v)
        return xp.maximum(shifted - threshold, xp.zeros_like(v))

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        xp = namespace(v)
        (total,) = parameters
        v = xp.where(v == -np.inf, 0.0 * xp.ones_like(v), v)  # padding
        negative = xp.max(xp.maximum(-v, 0.0 * v), axis=-1, keepdims=True)
        spent = xp.sum(v, axis=-1, keepdims=True)
        return xp.maximum(negative, relative_excess(xp.abs(spent - total) + total, total))

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        return at_largest(z, *parameters)

    def _price_rows(self, w: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
        # an exact budget has a multiplier of either sign, a cap a positive one
        held = w != 0
        return np.where(held, c, 0.0).sum(axis=-1, keepdims=True) / np.maximum(held.sum(axis=-1, keepdims=True), 1), 0.0

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        c = self._units(scales)[1]
        return Simplex(self.total / c) if c else None


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
    why = "with A >= 0, zeroing non-negative entries never increases Aw"

    def __init__(self, A: Any, b: Any) -> None:
        sparse = "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(A)
        self.A: Any = A.tocsc().astype(float) if sparse else as_numbers(A, "A").astype(float)
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

    def _columns(self, index: Any) -> np.ndarray:
        columns = self.A[:, index]
        return columns if isinstance(columns, np.ndarray) else columns.toarray()

    def project(self, v: Array, support: Array | None = None) -> Array:
        values, index = on_host(v, support)
        A = self._columns(index)
        # (v - Aᵀy)_+ is zero wherever v <= 0; a cap of zero removes what it weighs; an empty row caps nothing
        free = (values > 0) & ~(A[self.b == 0] > 0).any(axis=0)
        rows = (self.b > 0) & (A[:, free] > 0).any(axis=1)
        w = np.zeros(values.size)
        w[free] = project_in_range(_project_on_caps, values[free].astype(float), A[np.ix_(rows, free)], self.b[rows])
        return like(w, v)

    def violation(self, w: Array) -> float:
        values = to_host(w).astype(float)
        excess = float(narrowed(in_range(self._excess, values, self.b)))
        return max(excess, float((-values).max(initial=0.0)), 0.0)

    def _excess(self, w: np.ndarray, b: np.ndarray) -> Any:
        A = self.A if w.dtype == np.float64 else self._columns(np.arange(w.size)).astype(w.dtype)
        return relative(np, A @ w - b, b).max(initial=0.0)

    def slice_on(self, support: np.ndarray) -> ConstraintSet:
        return PackingPolytope(self.A[:, support], self.b)

    def polyhedron(self, n_features: int) -> Polyhedron:
        box = Polyhedron.box(0.0, math.inf, n_features)
        return Polyhedron(box.lower, box.upper, self._columns(slice(None)), self.b, np.zeros(self.b.size, dtype=bool))

    def product_over(self, atoms: np.ndarray) -> bool:
        """Whether every cap weighs coordinates of one atom alone."""
        return all(np.unique(atoms[np.flatnonzero(row)]).size <= 1 for row in self._columns(slice(None)))

    def enclosing(self, n_features: int) -> list[ConstraintSet]:
        """A box, and a budget for every cap that weighs all coordinates."""
        shape = self.polyhedron(n_features)
        least = shape.A.min(axis=1, initial=math.inf)
        budgets = [SubSimplex(cap / weight) for cap, weight in zip(self.b, least, strict=True) if weight > 0]
        return [Box(0.0, shape.reach()), *budgets]

    def rescaled(self, scales: Any) -> ConstraintSet:
        return PackingPolytope(self.A * self._units(scales)[0][None, :], self.b)

    def _arguments(self) -> dict[str, Any]:
        return {"A": f"<{self.A.shape[0]} caps on {self.A.shape[1]} coordinates>", "b": self.b}


def _project_on_caps(v: np.ndarray, A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """argmin ||w - v|| over w >= 0, Aw <= b for v > 0, A >= 0, b > 0.

    The shift u = w - v is the shortest vector with Gu >= h for G = [-A; I], h = [Av - b; -v], and that is a
    non-negative least-squares problem (Lawson & Hanson, least distance programming): for x minimising
    ||Ex - f||, E = [Gᵀ; hᵀ], f = (0, ..., 0, 1), the residual r = Ex - f gives u = -r_{1..} / r_last.
    """
    A = A / b[:, None]  # every cap becomes 1, so that residuals are relative
    if not all(1e-100 < a.max(initial=1.0) < 1e100 for a in (A, v)):  # nnls squares them
        return _project_beyond_range(v.astype(np.longdouble), A.astype(np.longdouble))
    return _least_distance(v, A, 1.0)


def _least_distance(v: np.ndarray, A: np.ndarray, caps: Any) -> np.ndarray:
    from scipy.optimize import nnls

    h = np.concatenate([A @ v - caps, -v])
    if h.max(initial=0.0) <= 0:
        return v
    scale = float(np.abs(h).max())
    E = np.vstack([np.hstack([-A.T, np.eye(v.size)]), h / scale])
    f = np.zeros(v.size + 1)
    f[-1] = 1.0
    x, _ = nnls(E, f, maxiter=30 * E.shape[1])
    residual = E @ x - f
    w: np.ndarray = np.maximum(v - scale * residual[:-1] / residual[-1], 0.0)
    return w / max(1.0, float((A @ w / caps).max()))


def _project_beyond_range(v: np.ndarray, A: np.ndarray) -> np.ndarray:
    """The same over Aw <= 1 where doubles do not reach: in units of the largest entry that a member may have.

    What lies farther than 1e12 of them outside is drawn in, and caps that cannot bind are left out. At the end every
    entry is scaled for the sake of its own caps alone.
    """
    if (A @ v).max(initial=0.0) <= 1:
        return v
    reach = np.minimum(v, 1 / np.maximum(A.max(axis=0), np.finfo(A.dtype).tiny))
    unit, binds = reach.max(), A @ reach > 1 - 1e-9
    rows = np.minimum(A[binds] * unit, 1e100)
    size = rows.max(axis=1, initial=1.0)
    near = narrowed(np.minimum(v / unit, 1e12))
    w = np.minimum(unit * _least_distance(near, narrowed(rows / size[:, None]), narrowed(1 / size)), reach)
    return np.asarray(w / np.maximum((A * w > 0) * (A @ w)[:, None], 1.0).max(axis=0))
