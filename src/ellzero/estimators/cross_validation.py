"""The choice of k and of the ridge by cross-validation, along a warm-started path of k in every fold."""

import copy
import itertools
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from .._core.arrays import to_host
from ..risks import LinearModel
from ..solver.methods import Auto
from .base import SparseLinearModel
from .request import Maker, Request, typical_variance

#: tried together; the next ones as long as the largest is the best
_LEVELS = [
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20],
    [25, 32, 40],
    [50, 64, 80],
    [100, 130, 160],
    [200, 250, 320, 400, 500],
]
_RULES = ("best", "1se")

#: coefficients and intercept of an answer
Solution = tuple[np.ndarray, Any]


@dataclass(eq=False, repr=False)
class ChosenByCrossValidation(SparseLinearModel):
    """argmin over (k, ridge) of the mean score on the rows left out, then the answer for it on all rows."""

    #: times the typical variance of a column
    _relative_ridges: ClassVar[tuple[float, ...]] = (0.001, 0.01, 0.1, 1.0)

    ks: Any = None
    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    rule: str = "best"
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **params: Any) -> Any:
        """Choose k and the ridge, and find the coefficients.

        Parameters
        ----------
        X, y
            As for the fit of one k.
        sample_weight : array of shape (n_samples,), optional
            At least 0; used in the fits and in the scores.
        offset : array of shape (n_samples,), optional
            Added to each x_iᵀw + b, in the fits and in the scores.
        **params
            For the splitter and the scorer, where scikit-learn's metadata routing is enabled.
        """
        _raise_for_params(params, self, "fit")
        if self.rule not in _RULES:
            raise ValueError(f"rule must be one of {', '.join(map(repr, _RULES))}, got {self.rule!r}")
        data = self._read(X, y, sample_weight, offset)
        maker = self._maker(*data[1:])
        folds, score_params = self._split(data, sample_weight, params)
        whole = maker(*data[:2], offset=data[3])
        request, ridges = self._request(whole, data[0]), self._ridges(data[0], data[2])
        search = _Search(self, maker, data, whole, request, folds, score_params, self._scorer())
        ks, scores = search.run(self._levels(whole, request, folds), ridges)
        k, ridge = self._choose(ks, ridges, scores)
        risk = self._risk(maker, *data, ridge)
        self.path_ = self._answers(risk, [level for level in ks if level <= k], request)
        if isinstance(request.method(self.method), Auto):
            # a cold start may see further: the answer is no worse than a fit of this k alone
            self.path_[-1] = min(self.path_[-1], *self._answers(risk, [k], request), key=lambda res: res.fun)
        self._keep_answer(risk, self.path_[-1], request, (X, y, sample_weight, offset))
        return self

    def _split(self, data: tuple[Any, ...], sample_weight: Any, params: dict[str, Any]) -> tuple[list[Any], Any]:
        splitter = check_cv(self.cv, data[1], classifier=is_classifier(self))
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            return list(splitter.split(*data[:2], **routed.splitter.split)), routed.scorer.score
        weights = {} if sample_weight is None else {"sample_weight": data[2]}
        return list(splitter.split(*data[:2])), weights

    def _levels(self, whole: LinearModel, request: Request, folds: list[Any]) -> list[list[int]]:
        """The k, in portions."""
        least = request.least
        if self.ks is not None:
            return [request.ks(self.ks, whole)]
        # more than there are rows fit anything; fewer features than that can all be tried
        rows = min(train.size for train, _ in folds)
        most = max(least, min(request.most(whole), rows))
        portions = [[k for k in portion if least <= k <= most] for portion in _LEVELS]
        if not portions[0]:
            portions[0] = [least]
        return [portion for portion in portions if portion]

    def _ridges(self, X: Any, sample_weight: Any) -> list[float]:
        if self.ridge is None:
            size = typical_variance(X, sample_weight)
            return [share * size for share in self._relative_ridges]
        ridges = list(self.ridge) if isinstance(self.ridge, Iterable) else [self.ridge]
        if not ridges:
            raise ValueError("ridge must name at least one number, got none")
        return ridges

    def _choose(self, ks: list[int], ridges: list[float], scores: np.ndarray) -> tuple[int, float]:
        """k and ridge by the rule, from scores[ridge, k, fold]; of equals the smallest k, then the larger ridge."""
        n_folds = scores.shape[2]
        pairs = list(itertools.product(ridges, ks))
        flat = scores.reshape(len(pairs), n_folds)
        means = flat.mean(axis=1)
        self.cv_results_ = {
            "k": np.array([k for _, k in pairs]),
            "ridge": np.array([ridge for ridge, _ in pairs]),
            "mean_test_score": means,
            "std_test_score": flat.std(axis=1),
            **{f"split{i}_test_score": flat[:, i] for i in range(n_folds)},
        }
        if np.isnan(means).all():
            raise ValueError("scoring gave NaN for every k; use another scoring, or other folds")
        best = int(np.nanargmax(means))
        slack = flat[best].std(ddof=1) / np.sqrt(n_folds) if self.rule == "1se" and n_folds > 1 else 0.0
        good = [i for i in range(len(pairs)) if means[i] >= means[best] - slack]
        smallest = min(pairs[i][1] for i in good)
        chosen = max((i for i in good if pairs[i][1] == smallest), key=lambda i: (means[i], pairs[i][0]))
        return pairs[chosen][1], pairs[chosen][0]

    def _held_out_loss(self, whole: LinearModel, solution: Solution, data: tuple[Any, ...], rows: np.ndarray) -> float:
        """The mean loss of an answer on some rows of the whole."""
        losses, weights = whole.losses(solution[0], intercept=solution[1])[rows], data[2]
        return float(np.average(losses, weights=None if weights is None else weights[rows]))

    def get_metadata_routing(self) -> Any:
        """What `fit` wants, and what it hands on to the splitter and the scorer."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            splitter=check_cv(self.cv, classifier=is_classifier(self)),
            method_mapping=MethodMapping().add(caller="fit", callee="split"),
        )
        return router.add(scorer=self._scorer(), method_mapping=MethodMapping().add(caller="fit", callee="score"))

    def _scorer(self) -> Any:
        return None if self.scoring is None else get_scorer(self.scoring)


@dataclass
class _Search:
    """scores[ridge, k, fold], computed portion after portion of k."""

    model: ChosenByCrossValidation
    maker: Maker
    data: tuple[Any, ...]
    whole: LinearModel
    request: Request
    folds: list[Any]
    score_params: Any
    scorer: Any

    def run(self, portions: list[list[int]], ridges: list[float]) -> tuple[list[int], np.ndarray]:
        """All k that were tried, and their scores."""
        self._check_folds()
        jobs = list(itertools.product(ridges, range(len(self.folds))))
        starts: list[Any] = [None] * len(jobs)
        ks: list[int] = []
        scores = np.empty((len(ridges), 0, len(self.folds)))
        for portion in portions:
            paths = Parallel(n_jobs=self.model.n_jobs)(
                delayed(_solve)(self.model, self.maker, self.data, self.folds[i][0], portion, ridge, self.request, x0)
                for (ridge, i), x0 in zip(jobs, starts, strict=True)
            )
            starts = [path[-1][0] for path in paths]
            self.whole.expect(np.flatnonzero(np.any([x != 0 for path in paths for x, _ in path], axis=0)))
            new = [[self._score(s, self.folds[i][1]) for s in path] for (_, i), path in zip(jobs, paths, strict=True)]
            shape = (len(ridges), len(self.folds), len(portion))
            scores = np.concatenate([scores, np.reshape(new, shape).swapaxes(1, 2)], axis=1)
            ks += portion
            best_of_k = scores.mean(axis=2).max(axis=0)
            if np.isnan(best_of_k).all() or np.nanargmax(best_of_k) < len(ks) - 1:
                break
        return ks, scores

    def _check_folds(self) -> None:
        """Every class must be there in every fit, and some weight in every fit and every score."""
        weights = self.data[2]
        weighted = self.scorer is None or "sample_weight" in self.score_params
        for train, test in self.folds:
            if weights is not None and not (weights[train].any() and (weights[test].any() or not weighted)):
                raise ValueError(
                    "sample_weight is 0 on all rows of a fold of cv; leave out these rows, or shuffle them"
                )
            missing = np.setdiff1d(getattr(self.whole, "classes_", []), self.data[1][train])
            if missing.size:
                raise ValueError(
                    f"cv leaves no row of class {missing[0]} to fit on in one of its folds; use stratified folds"
                )

    def _score(self, solution: Solution, rows: np.ndarray) -> float:
        """Minus the mean loss on the rows, or what the scorer says of them."""
        X, y, _, offset = self.data
        x, intercept = solution
        if self.scorer is not None:
            fitted = copy.copy(self.model)
            fitted.__dict__.pop("feature_names_in_", None)  # the rows of X come without names here
            fitted._set_coefficients(x, intercept, self.whole)
            fitted._scored_offset = None if offset is None else offset[rows]  # scorers know of none
            params = _check_method_params(X, params=self.score_params, indices=rows)
            return float(self.scorer(fitted, X[rows], y[rows], **params))
        return -self.model._held_out_loss(self.whole, solution, self.data, rows)


def _solve(
    model: ChosenByCrossValidation,
    maker: Maker,
    data: tuple[Any, ...],
    train: np.ndarray,
    ks: list[int],
    ridge: float,
    request: Request,
    x0: Any,
) -> list[Solution]:
    """The answers on the rows of a fold."""
    X, y, *others = data
    weights, offset = (None if values is None else values[train] for values in others)
    risk = model._risk(maker, X[train], y[train], weights, offset, ridge)
    return [(to_host(res.x), risk.intercept(res.x)) for res in model._answers(risk, ks, request, x0)]
