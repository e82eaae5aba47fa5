"""What is asked, and what every answer has to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import Array, like
from ..risks.base import Risk
from ..sets import ConstraintSet, GroupWise
from ..sets.base import default_tolerance
from ..sparsity import Sparsity, as_sparsity
from .refit import Units
from .result import Result


@dataclass
class Problem:
    """min R(w) over sparse w in Γ, with some coordinates always kept."""

    risk: Risk
    sparsity: Sparsity
    gamma: ConstraintSet
    kept: np.ndarray

    def support_of(self, nonzeros: np.ndarray) -> np.ndarray:
        """The nonzeros of a vector, the kept coordinates, and what comes with them at no cost."""
        return self.sparsity.filled(np.union1d(nonzeros, self.kept).astype(np.intp))

    def with_explicit_intercept(self) -> Problem:
        """The same problem with the intercept, if there is one, as last coordinates: free, always kept, not counted."""
        lifted = self.risk.with_explicit_intercept()
        if lifted is self.risk:
            return self
        d, b = self.risk.n_features, np.arange(self.risk.n_features, lifted.n_features)
        gamma = GroupWise({0: self.gamma}, {0: range(d)})
        return Problem(lifted, self.sparsity.with_free(b.size), gamma, np.concatenate([self.kept, b]))

    def natural_units(self, standardize: bool | None = None) -> Units | None:
        """Units in which coordinates can be compared, and Γ in them.

        Those in which Γ is plain, if it has such; otherwise those of the data's columns, unless these are not wanted.
        None: as they are.
        """
        units = self.gamma.natural_scales(self.risk.n_features)
        if units is None and standardize is not False:
            units = self._column_scales()
        if units is None or (units == 1).all():
            return None
        gamma = self.gamma.rescaled(units)
        return None if gamma is None else Units(units, gamma)

    def standardised(self) -> tuple[Problem, Array | None]:
        """u ↦ R(s∘u) over {u : s∘u in Γ} for the units s of the data's columns, and s; None where there are none."""
        scales = self._column_scales()
        if scales is None:
            return self, None
        gamma = self.gamma.rescaled(scales)
        if gamma is None:
            raise ValueError(
                f"standardize=True needs {self.gamma!r} in other units, which no set describes; "
                'use standardize=False, or method="auto", which can do without'
            )
        return replace(self, risk=self.risk.rescaled(scales), gamma=gamma), like(scales, self.risk.zero)

    def _column_scales(self) -> np.ndarray | None:
        scales = self.risk.column_scales()
        if scales is not None and not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(
                "the columns of X are too large: the sum of their squares overflows. Rescale them, for example to unit "
                "variance"
            )
        return scales


def make_problem(risk: Risk, k: int | Sparsity, constraint: ConstraintSet, keep: Any) -> Problem:
    """The problem, with Γ for the whole of w."""
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(
            f"constraint must be a set such as ellzero.sets.L1Ball(1.0) (or None for no constraint), got {constraint!r}"
        )
    gamma = for_every_output(constraint, risk)
    gamma.require_features(risk.n_features)
    sparsity = as_sparsity(k).within(risk.n_features, risk.n_outputs)
    kept = sparsity.filled(np.union1d(sparsity.kept(keep, risk.n_features), gamma.forced).astype(np.intp))
    return Problem(risk.within(gamma), sparsity, gamma, kept)


def for_every_output(constraint: ConstraintSet, risk: Risk, *, of_any_size: bool = False) -> ConstraintSet:
    """Γ for the whole of w: one made for the features of a risk with several outputs holds for each.

    One of any size, such as a ball, is a set of the whole of w, unless it is said to be one of the features.
    """
    size = risk.n_features // risk.n_outputs
    alike = of_any_size and constraint.n_features is None and not constraint.whole_space
    if risk.n_outputs > 1 and (alike or constraint.n_features == size):
        return GroupWise(constraint, groups=np.repeat(np.arange(risk.n_outputs), size))
    return constraint


def verify(result: Result) -> None:
    """The promise of every return: sparse, inside Γ."""
    allowed = max(default_tolerance(result.x), result.constraint.accuracy)
    if not result.sparsity.allows(result.x) or not result.violation <= allowed:
        raise RuntimeError(
            f"the answer breaks its promise: {result.support.size} nonzeros for {result.sparsity.words}, violation "
            f"{result.violation:.2g} of {result.constraint!r}. If the set is your own, ellzero.testing.check_set "
            "looks for the reason (an iterative projection has to declare its `accuracy`); otherwise please report this"
        )
