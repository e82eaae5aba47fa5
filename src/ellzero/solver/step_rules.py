"""The step rule of a run, by its name."""

import math
from collections.abc import Sequence
from typing import Any

from .by_values.step import value_step
from .factors import FactorStep
from .oracles import Gradients
from .problem import Problem
from .projections import Projector
from .refit import Units
from .regularised import ReplacementStep, smoothness_of
from .result import Counts
from .steps import AdaptiveStep, ConstantStep, Deadline, PursuitStep, SearchedStep, Step


def bind_step(
    step: Any,
    oracle: Gradients,
    counts: Counts,
    problem: Problem,
    threshold: Projector | None,
    units: Units | None,
    deadline: Deadline,
    entropy: Sequence[int] = (),
) -> Step:
    """The step rule of one run, from a number or a name; random choices follow from the entropy."""
    if not isinstance(step, str):
        return ConstantStep(float(step))
    if step == "values":
        return value_step(oracle, problem)
    if step == "search":
        return SearchedStep(counts)
    if step == "adaptive":
        return AdaptiveStep(counts, threshold)
    if step == "pursuit":
        return PursuitStep(counts, problem, units, deadline)
    if step == "factors":
        return FactorStep(counts, threshold, problem=problem, deadline=deadline)
    if step == "replacement":
        return ReplacementStep(counts, problem, deadline, entropy, smoothness_of(problem.risk, "ARHT"))
    risk = problem.risk
    L = risk.smoothness.value
    if not 0 < L < math.inf:
        raise ValueError(
            f'step="1/L" needs a finite positive smoothness constant, and that of {type(risk).__name__} is {L}; '
            "give a number instead: method=ez.preset(..., step=0.1)"
        )
    return ConstantStep(1 / L)
