"""The certificate of a fitted estimator, which does not keep its data: they are given again."""

import math
from typing import Any

from ..certificates import Certificate, certify
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
    x, fun = model.result_.x, model.result_.fun
    value = risk.value(x) if risk.n_features == x.size else math.nan
    if not abs(value - fun) <= 1e-5 * (abs(value) + abs(fun)):
        raise ValueError(f"{data} must be those of the fit: there the objective was {fun:.6g}, here it is {value:.6g}")
    found = certify(risk, model.result_, time_limit=time_limit, target_gap=target_gap)
    model.certificate_ = model.result_.certificate = found
    return found
