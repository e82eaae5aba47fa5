"""Many small problems of one shape in arrays, an axis for the problems."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np


@dataclass
class Stacked:
    """Arrays whose first axis counts problems: any of these can be taken out, and put back.

    Attributes
    ----------
    which : array of shape (m,)
        The numbers of the problems.
    """

    which: np.ndarray

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, some: Any) -> Self:
        return type(self)(*(getattr(self, part.name)[some] for part in fields(self)))

    def put(self, some: np.ndarray, others: Self) -> None:
        """Others in place of some of these."""
        for part in fields(self):
            getattr(self, part.name)[some] = getattr(others, part.name)
