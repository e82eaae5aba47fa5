"""The choice of k by an information criterion: one path on all rows, and no rows left out."""

import warnings
from functools import partial
from typing import Any

import numpy as np

from .._core.progress import Progress
from ..risks import LinearModel
from ..solver.path import CRITERIA, information
from ..solver.result import Result
from .answers import answers_up_to
from .curves import Scores, Search, chosen, portions
from .folds import Solution, fits
from .request import Maker, Request

_AUTO = "ebic"
#: the share of the rows that k may reach: more coefficients fit anything, and the criteria know nothing of it
_MOST = 1 / 3


def read_criterion(k: str, risk: LinearModel, loss: Any) -> str:
    """The criterion that a word for k means, for a risk that has a likelihood."""
    rule = _AUTO if k == "auto" else k
    if rule not in CRITERIA:
        raise ValueError(
            f'k must be a number such as 10, a fraction such as 0.1, "auto" or a criterion, one of '
            f"{', '.join(map(repr, CRITERIA))}; got {k!r}"
        )
    if risk.deviance(risk.zero) is None:
        raise ValueError(
            f"k={k!r} needs a likelihood, and loss={loss!r} has none; choose k by cross-validation, with "
            "SparseRegressorCV or SparseClassifierCV, or give a number"
        )
    return rule


def choose_by_criterion(
    model: Any, maker: Maker, risk: LinearModel, data: tuple[Any, ...], request: Request, rule: str
) -> tuple[list[Result], dict[str, np.ndarray]]:
    """The answers up to the k with the smallest criterion, and all criteria for every k that was tried.

    k = 0 is tried too, where it is allowed: perhaps nothing explains y.
    """
    whole = maker(*data[:2], sample_weight=data[2], offset=data[3], fit_intercept=model.fit_intercept)

    def criterion(answer: Solution, name: str = rule) -> float:
        return information(risk, request.sparsity, answer.dense(risk.n_features), name)

    tried: dict[int, Solution] = {}
    with Progress() as progress:
        folds = fits(model, maker, whole, data, [np.arange(risk.n_terms)], [risk.ridge], request)
        tell = partial(_tell, progress, rule)
        search = Search(folds, 1, [risk.ridge], lambda answer, _: -criterion(answer), tell)
        if not request.n_kept and request.gamma.contains(risk.zero):
            tried[0] = Solution(np.empty(0, np.intp), np.empty(0), 0.0)
            search.scores[0, 0] = np.array([-criterion(tried[0])])
        most = max(request.least, min(request.most(whole), int(_MOST * risk.n_observations)))
        scores = search.along(portions(request.least, most), "best")
        _, k = chosen(scores, [risk.ridge], "best")
        progress.tell(f"the answers up to k = {k}")
        tried |= search.answers[0, 0]
        path = answers_up_to(model, risk, whole, data, request, sorted({k, *tried} - {0} or {k}), k)
    if k == most < request.most(whole):
        warnings.warn(
            f"k={model.k!r} took the largest k that it tries, {k}, a third of the rows: {rule} still falls there, and "
            "cannot be trusted beyond; choose k by cross-validation",
            UserWarning,
            stacklevel=3,
        )
    levels = sorted(tried)
    values = {name: np.array([criterion(tried[level], name) for level in levels]) for name in CRITERIA}
    return path, {"k": np.array(levels), **values}


def _tell(progress: Progress, rule: str, ks: list[int], n_ridges: int, scores: Scores) -> None:
    best = max(scores, key=lambda pair: float(scores[pair][0]), default=None)
    so_far = "" if best is None else f"; best so far: k = {best[1]}"
    progress.tell(f"{rule}: k = {ks[0]} to {ks[-1]}{so_far}")
