"""The evaluations of one run."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


class Session:
    """The evaluations of one run, where they need no supervision."""

    #: what went wrong and was dealt with
    failures: Sequence[Any] = ()
    #: no query goes out after this reading of `time.perf_counter`
    deadline: float = math.inf
    #: whether queries settle the answer, after the last iteration
    ending: bool = False

    def facts(self) -> dict[str, Any]:
        """What a resumed run needs, for JSON."""
        return {}

    def restore(self, facts: dict[str, Any]) -> None:
        """Go on where a checkpoint was written."""

    def retire(self) -> None:
        """Book what earlier sittings have asked and this one has no use for, because it goes another way."""

    def evaluate(self, points: Sequence[np.ndarray] | np.ndarray, essential: bool) -> np.ndarray:
        """R at each of the points."""
        raise NotImplementedError("values that need no supervision are those of points: risk.at(w).value")
