"""What is asked, and what every answer has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import check_indices
from ..risks.base import Risk
from ..sets import ConstraintSet, GroupWise
from ..sets._rescale import natural_scales
from ..sets.base import default_tolerance
from .exchanges import Units
from .result import Result


@dataclass
class Problem:
    """min R(w) subject to ||w||_0 <= k, w in Γ, with some coordinates always kept."""

    risk: Risk
    k: int
    gamma: ConstraintSet
    kept: np.ndarray

    def with_explicit_intercept(self) -> Problem:
        """The same problem with the intercept as last coordinates: free, always kept, beyond k."""
        lifted = self.risk.with_explicit_intercept()
        d, b = self.risk.n_features, np.arange(self.risk.n_features, lifted.n_features)
        gamma = GroupWise({0: self.gamma}, {0: range(d)})
        return Problem(lifted, self.k + b.size, gamma, np.concatenate([self.kept, b]))

    def natural_units(self) -> Units | None:
        """Units in which coordinates can be compared, and Γ in them.

        Those in which Γ is plain, if it has such; otherwise those of the data's columns. None: as they are.
        """
        units = natural_scales(self.gamma, self.risk.n_features)
        if units is None:
            units = self.risk.column_scales()
        if units is None or (units == 1).all():
            return None
        if not (np.isfinite(units) & (units > 0)).all():
            raise ValueError(
                "the columns of X are too large: the sum of their squares overflows. Rescale them, for example to unit "
                "variance"
            )
        gamma = self.gamma.rescaled(units)
        return None if gamma is None else Units(units, gamma)


def make_problem(risk: Risk, k: int, constraint: ConstraintSet, keep: Any) -> Problem:
    """The problem, with Γ for the whole of w."""
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(
            f"constraint must be a set such as ellzero.sets.L1Ball(1.0) (or None for no constraint), got {constraint!r}"
        )
    gamma = for_every_output(constraint, risk)
    kept = np.union1d(check_indices(keep, risk.n_features, "keep"), gamma.forced).astype(np.intp)
    return Problem(risk, k, gamma, kept)


def for_every_output(constraint: ConstraintSet, risk: Risk) -> ConstraintSet:
    """Γ for the whole of w: one made for the features of a risk with several outputs holds for each."""
    size = constraint.n_features
    if size is not None and size < risk.n_features == size * risk.n_outputs:
        return GroupWise(constraint, groups=np.repeat(np.arange(risk.n_outputs), size))
    return constraint


def verify(result: Result) -> None:
    """The promise of every return: at most k nonzeros, inside Γ."""
    allowed = max(default_tolerance(result.x), result.constraint.accuracy)
    if result.support.size > result.k or not result.violation <= allowed:
        raise RuntimeError(
            f"the answer breaks its promise: {result.support.size} nonzeros for k={result.k}, violation "
            f"{result.violation:.2g} of {result.constraint!r}. If the set is your own, ellzero.testing.check_set "
            "looks for the reason (an iterative projection has to declare its `accuracy`); otherwise please report this"
        )
