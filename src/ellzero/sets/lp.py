"""The l_p ball."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._core.arrays import Array, namespace
from .._core.validation import check_number
from ._lp import project_lp, row_norm, unit_rows
from ._reach import of_ball
from ._secular import in_lp_ball
from ._tables import increments_by_projection, linear_increments
from .base import ConstraintSet
from .elementwise import LinfBall, relative_excess
from .l1 import L1Ball
from .l2 import L2Ball
from .polyhedron import Polyhedron
from .rows import RadiusSet, RowSet

_SPECIAL_P: dict[float, Callable[[float], RowSet]] = {1.0: L1Ball, 2.0: L2Ball, np.inf: LinfBall}


class LpBall(RadiusSet):
    """argmin ||w - v|| over (Σ_i |w_i|^p)^(1/p) <= radius, for any p >= 1, to about 1e-12.

    Parameters
    ----------
    p : float
        At least 1; ``numpy.inf`` is allowed. For 1, 2 and infinity the projection of `L1Ball`, `L2Ball` and
        `LinfBall` is used.
    radius : float
    """

    def __init__(self, p: float, radius: float) -> None:
        super().__init__(radius)
        self.p = check_number(p, "p", low=1.0)
        # below 1 + 1e-12 indistinguishable from l1 at the accuracy that is promised
        same = _SPECIAL_P.get(1.0 if self.p - 1 < 1e-12 else self.p)
        self._same: RowSet | None = same and same(self.radius)

    @property
    def family(self) -> Hashable:
        """Balls of one p go together."""
        return LpBall, self.p

    def _arguments(self) -> dict[str, Any]:
        return {"p": self.p, "radius": self.radius}

    def _project_rows(self, v: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        return self._same._project_rows(v, radius) if self._same else project_lp(v, self.p, radius)

    def _violation_rows(self, v: Array, *parameters: Any) -> Array:
        return relative_excess(row_norm(v, self.p), *parameters)

    def _linear_rows(self, z: Array, *parameters: Any) -> Array:
        (radius,) = parameters
        if self._same:
            return self._same._linear_rows(z, radius)
        xp = namespace(z)
        # |w_i| is proportional to |z_i|^(q-1), 1/p + 1/q = 1; the largest is scaled to 1 to stay in range
        largest = row_norm(z, np.inf)
        size = (xp.abs(z) / xp.where(largest > 0, largest, xp.ones_like(largest))) ** (1 / (self.p - 1))
        return radius * unit_rows(xp.sign(z) * size, self.p)

    def _increments(self, z: np.ndarray, mu: float, *parameters: Any) -> np.ndarray:
        if self._same:
            return self._same._increments(z, mu, *parameters)
        if mu == 0:
            return linear_increments(np.abs(z), self.p / (self.p - 1), *parameters)
        return increments_by_projection(self, z, mu, *parameters)

    def _boundary_minimum(self, G: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        return in_lp_ball(G, b, self.p, self.radius, self.project(start))

    def polyhedron(self, n_features: int) -> Polyhedron | None:
        """That of p = 1 and p = ∞."""
        return self._same.polyhedron(n_features) if self._same and self.p in (1.0, np.inf) else None

    def rescaled(self, scales: Any) -> ConstraintSet | None:
        """A ball again where all units are the same."""
        c = self._units(scales)[1]
        return LpBall(self.p, self.radius / c) if c else None

    def norm_squares(self, n_features: int, k: int) -> np.ndarray:
        """||w||_2 <= j^(1/2 - 1/p) ||w||_p for p >= 2, and at most ||w||_p below."""
        return of_ball(self.radius, k, growth=max(0.0, 1 - 2 / self.p))
