"""Answers in the user's units, found in units in which the columns of X are comparable."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import like, to_host
from .._core.interruption import whole_call
from ..risks import LinearModel
from ..risks.base import Constant, Rescaled, Risk, changed
from ..solver.methods import Auto, Method, preset
from ..solver.path import minimize_path
from ..solver.problem import verify
from ..solver.result import Result
from .reading import Question


def answers(
    risk: LinearModel, ks: list[int], question: Question, method: str | Method, standardize: bool, **options: Any
) -> list[Result]:
    """argmin R(w) over ||w||_0 <= k, w in Γ, for each k; entries of w compared in units of the columns, or as they are.

    R, Γ and w are the user's either way: only the metric of the search is another. The default method takes the
    units of the columns by itself, where Γ has none of its own; others are run on u ↦ R(s∘u) over {u : s∘u in Γ}.
    """
    chosen = preset(method) if isinstance(method, str) and method != "exact" else method
    by_itself = chosen == "exact" or isinstance(chosen, Auto) or getattr(chosen, "step", None) == "pursuit"
    scales = None if by_itself or not standardize else risk.column_scales()
    options["keep"] = question.keep
    if by_itself and not standardize:
        risk = copy.copy(risk)
        risk.column_scales = _no_scales  # type: ignore[method-assign]
    if scales is None:
        with whole_call():
            return minimize_path(risk, ks, question.gamma, chosen, **options).results
    inner = question.gamma.rescaled(scales)
    if inner is None:
        raise ValueError(
            f"standardize=True needs {question.gamma!r} in other units, which no set describes; "
            'use standardize=False, or method="auto", which can do without'
        )
    with whole_call():
        path = minimize_path(_standardised(risk, scales), ks, inner, chosen, **options)
    return [_in_users_units(res, scales, question) for res in path]


def is_stochastic(method: str | Method) -> bool:
    """Whether the method makes as many iterations as it is allowed, because nothing but noise would stop it."""
    if method == "exact":
        return False
    chosen = preset(method) if isinstance(method, str) else method
    return not chosen.oracle.exact or getattr(chosen, "theorem", "").startswith(("HSG", "HZO"))


def _no_scales() -> None:
    return None


def _standardised(risk: LinearModel, scales: np.ndarray) -> Risk:
    """u ↦ R(s∘u): the same model of other columns, but for a ridge, which is another for each of them."""
    plain = changed(risk, design=risk.design.scaled(scales[: risk.design.shape[1]]), ridge=0.0)
    return plain if risk.ridge == 0 else _WithRidge(risk, scales, plain)


class _WithRidge(Rescaled):
    """u ↦ R(s∘u), with constants of its columns, which are much better than bounds by the largest of the scales."""

    def __init__(self, risk: LinearModel, scales: np.ndarray, plain: LinearModel) -> None:
        super().__init__(risk, like(scales, risk.zero))
        self.plain, self.ridges = plain, risk.ridge * scales**2

    @property
    def smoothness(self) -> Constant:
        """That of the model without ridge, plus the largest ridge."""
        return Constant(self.plain.smoothness.value + float(self.ridges.max()), "bound")

    @property
    def strong_convexity(self) -> Constant:
        """That of the model without ridge, plus the smallest ridge."""
        return Constant(self.plain.strong_convexity.value + float(self.ridges.min()), "bound")


def _in_users_units(res: Result, scales: np.ndarray, question: Question) -> Result:
    x = like(scales, res.x) * res.x
    answer = replace(
        res,
        x=x,
        support=np.flatnonzero(to_host(x)),
        constraint=question.gamma,
        violation=question.gamma.violation(x),
        stationarity=math.nan,  # the residual was one of the other units
    )
    verify(answer)
    return answer
