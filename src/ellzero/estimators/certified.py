"""What is proved of a fitted estimator, which does not keep its data: they are given again."""

import math
from typing import Any

from ..certificates import Beats, Certificate, beats, certify
from ..risks.base import Risk


def certify_fitted(
    model: Any, risk: Risk, data: str, *, time_limit: float | None, target_gap: float | None
) -> Certificate:
    """How far ``model.result_`` is from the best; kept as ``certificate_`` and ``result_.certificate``.

    Parameters
    ----------
    model : estimator with result_
    risk : Risk
        Of the data that were given again; its value at the answer tells whether they are those of the fit.
    data : str
        What the user calls them.
    """
    _require_data_of_fit(model, risk, data)
    found = certify(risk, model.result_, time_limit=time_limit, target_gap=target_gap)
    model.certificate_ = model.result_.certificate = found
    return found


def beats_fitted(model: Any, risk: Risk, data: str) -> Beats:
    """How sparse a vector cannot be better than ``model.result_``; kept as ``beats_`` and ``result_.beats``."""
    _require_data_of_fit(model, risk, data)
    model.beats_ = model.result_.beats = found = beats(risk, model.result_)
    return found


def _require_data_of_fit(model: Any, risk: Risk, data: str) -> None:
    x, fun = model.result_.x, model.result_.fun
    value = risk.value(x) if risk.n_features == x.shape[0] else math.nan
    if not abs(value - fun) <= 1e-5 * (abs(value) + abs(fun)):
        raise ValueError(f"{data} must be those of the fit: there the objective was {fun:.6g}, here it is {value:.6g}")
