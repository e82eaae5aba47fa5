"""The answers on all rows for the k that were tried, up to the chosen one."""

from typing import Any

import numpy as np

from ..risks import LinearModel
from ..solver.methods import Auto, Method
from ..solver.result import Result
from .folds import AllAtOnce
from .request import Request

#: the largest k of a second fit without a start: those that begin with grown supports are as good beyond, and quicker
_COLD = 64


def answers_up_to(
    model: Any, risk: LinearModel, whole: LinearModel, data: tuple[Any, ...], request: Request, ks: list[int], k: int
) -> list[Result]:
    """w(k') for all k' < k that were tried, and w(k), which is at least as good as that of a fit of this k alone.

    Parameters
    ----------
    model : estimator
    risk, whole : LinearModel
        With the ridge that was chosen, and without one.
    data : tuple
        X, y, weights and offset.
    request : Request
    ks : list of int
        Increasing.
    k : int
        One of them.
    """
    smaller, method = [level for level in ks if level < k], request.method(model.method)
    fits = AllAtOnce.of(model, whole, data, [np.arange(risk.n_terms)], [risk.ridge], request) if k else None
    if fits is None:
        path = model._answers(risk, [*smaller, k], request)
        if isinstance(method, Auto):  # a cold start may see further
            path[-1] = min(path[-1], *model._answers(risk, [k], request), key=lambda res: res.fun)
        return list(path)
    found = fits.solve([(0, 0)], [*smaller, k], [None])[0]
    starts = {level: answer.dense(risk.n_features) for level, answer in zip([*smaller, k], found, strict=True)}
    walk = Method(step="pursuit", name="pursuit", standardize=model.standardize)
    path = list(request.path(risk, smaller, walk, max_iter=model.max_iter, x0=starts)) if smaller else []
    path += model._answers(risk, [k], request, starts)
    if k <= _COLD and (cold := model._answers(risk, [k], request)[0]).fun <= path[-1].fun * (1 + 1e-9):
        path[-1] = cold  # the answer of a fit of this k alone, to the last digit
    return path
