"""Columns of a matrix that are asked for again and again, each computed once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.arrays import Array, namespace


class KeptColumns:
    """Those that are known, side by side with those that were asked for together.

    Attributes
    ----------
    columns : dict
        Views of the array that was handed out last; columns it does not have are copies, which hold nothing else.
    """

    def __init__(self) -> None:
        self.columns: dict[int, Array] = {}
        self.last: tuple[bytes, Array] | None = None

    def of(self, index: np.ndarray, room: int, compute: Callable[[np.ndarray], Array]) -> Array:
        """The columns of these names; those that are missing are computed, if need be in the place of others."""
        name = index.tobytes()
        if self.last is not None and self.last[0] == name:
            return self.last[1]
        missing = np.array([j for j in index.tolist() if j not in self.columns], dtype=np.intp)
        if len(self.columns) + missing.size > room:
            self.columns = {j: self.columns[j] for j in index.tolist() if j in self.columns}
        new = compute(missing) if missing.size else None
        if new is not None and missing.size == index.size:
            together = new
        else:
            if new is not None:
                self.columns |= {j: new[:, place] for place, j in enumerate(missing.tolist())}
            asked = [self.columns[j] for j in index.tolist()]
            together = namespace(asked[0]).stack(asked).T
        self._keep(index, name, together)
        return together

    def _keep(self, index: np.ndarray, name: bytes, together: Array) -> None:
        wanted = set(index.tolist())
        for j, column in self.columns.items():
            if j not in wanted and isinstance(column, np.ndarray) and column.base is not None:
                self.columns[j] = column.copy()
        self.columns |= {j: together[:, place] for place, j in enumerate(index.tolist())}
        self.last = name, together
