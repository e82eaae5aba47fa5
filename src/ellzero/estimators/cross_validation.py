"""The choice of k and of the ridge by cross-validation, along a warm-started path of k in every fold."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
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
from sklearn.utils.validation import _check_method_params

from .._core.progress import Progress
from ..risks import LinearModel
from .answers import answers_up_to
from .base import SparseLinearModel
from .curves import RULES, Scores, Search, chosen, portions
from .folds import Solution, fits
from .request import Maker, typical_variance


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
    verbose: int | None = None

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
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}, got {self.rule!r}")
        data = self._read(X, y, sample_weight, offset)
        maker = self._maker(*data[1:])
        folds, score_params = self._split(data, sample_weight, params)
        whole = maker(*data[:2], sample_weight=data[2], offset=data[3], fit_intercept=self.fit_intercept)
        begun = whole.n_sweeps
        request, ridges = self._request(whole, data[0]), self._ridges(data[0], data[2])
        self._check_folds(maker, whole, data, folds, score_params)
        trains = [train for train, _ in folds]
        found = fits(self, maker, whole, data, trains, ridges, request)
        with Progress(self.verbose) as progress:
            score = self._scores(whole, data, folds, score_params)
            search = Search(found, len(folds), ridges, score, partial(_tell, progress, len(folds)))
            if self.ks is None:
                most = max(request.least, min(request.most(whole), min(train.size for train in trains)))
                scores = search.along(portions(request.least, most), self.rule)
            else:
                scores = search.over(request.ks(self.ks, whole))
            ridge, k = self._choose(scores, ridges)
            progress.tell(f"the answers on all rows, up to k = {k}")
            risk = self._risk(maker, *data, ridge)
            self.path_ = answers_up_to(self, risk, whole, data, request, sorted({k for _, k in scores}), k)
        self._keep_answer(risk, self.path_[-1], request, (X, y, sample_weight, offset))
        self.n_sweeps_ = whole.swept(begun)
        return self

    def _split(self, data: tuple[Any, ...], sample_weight: Any, params: dict[str, Any]) -> tuple[list[Any], Any]:
        splitter = check_cv(self.cv, data[1], classifier=is_classifier(self))
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            return list(splitter.split(*data[:2], **routed.splitter.split)), routed.scorer.score
        weights = {} if sample_weight is None else {"sample_weight": data[2]}
        return list(splitter.split(*data[:2])), weights

    def _ridges(self, X: Any, sample_weight: Any) -> list[float]:
        if self.ridge is None:
            size = typical_variance(X, sample_weight)
            return [share * size for share in self._relative_ridges]
        ridges = list(self.ridge) if isinstance(self.ridge, Iterable) else [self.ridge]
        if not ridges:
            raise ValueError("ridge must name at least one number, got none")
        return ridges

    def _choose(self, scores: Scores, ridges: list[float]) -> tuple[float, int]:
        """The ridge and k by the rule; and all that was tried, as GridSearchCV tells it."""
        ridge, k = chosen(scores, ridges, self.rule)
        pairs = sorted(scores)
        flat = np.array([scores[pair] for pair in pairs])
        means = flat.mean(axis=1)
        params = [{"k": level, "ridge": ridges[number]} for number, level in pairs]
        self.cv_results_ = {
            "params": params,
            "param_k": np.ma.array([each["k"] for each in params]),
            "param_ridge": np.ma.array([each["ridge"] for each in params]),
            "k": np.array([each["k"] for each in params]),
            "ridge": np.array([each["ridge"] for each in params]),
            "mean_test_score": means,
            "std_test_score": flat.std(axis=1),
            "rank_test_score": rankdata(np.where(np.isnan(means), np.inf, -means), method="min").astype(np.int32),
            **{f"split{i}_test_score": column for i, column in enumerate(flat.T)},
        }
        self.n_splits_ = flat.shape[1]
        self.best_index_ = pairs.index((ridge, k))
        self.best_params_, self.best_score_ = params[self.best_index_], float(means[self.best_index_])
        return ridges[ridge], k

    def _check_folds(
        self, maker: Maker, whole: LinearModel, data: tuple[Any, ...], folds: list[Any], score_params: Any
    ) -> None:
        """Every class must be there in every fit, and some weight in every fit and every score."""
        y, weights, offset = data[1:]
        weighted = self.scoring is None or "sample_weight" in score_params
        for train, test in folds:
            if weights is not None and not (weights[train].any() and (weights[test].any() or not weighted)):
                raise ValueError(
                    "sample_weight is 0 on all rows of a fold of cv; leave out these rows, or shuffle them"
                )
            missing = np.setdiff1d(getattr(whole, "classes_", []), y[train])
            if missing.size:
                n = np.count_nonzero(y == missing[0])
                remedy = (
                    "leave the class out, or give more rows of it for stratified folds"
                    if n < 2
                    else "use stratified folds"
                )
                raise ValueError(
                    f"cv leaves no row of class {missing[0]} to fit on in one of its folds (y has {n}); {remedy}"
                )
            share, shift = (None if values is None else values[train] for values in (weights, offset))
            self._risk(maker, np.zeros((train.size, 1)), y[train], share, shift, 0.0)  # says what else is wrong

    def _scores(
        self, whole: LinearModel, data: tuple[Any, ...], folds: list[Any], score_params: Any
    ) -> Callable[[Solution, int], float]:
        """What tells how good an answer is on the rows that a fold leaves out."""
        scorer = self._scorer()
        if scorer is None:
            losses = [self._held_out_loss(whole, data, rows) for _, rows in folds]
            return lambda answer, fold: -losses[fold](answer.dense(whole.n_features), answer.intercept)
        X, y, _, offset = data
        held_out = [(X[rows], y[rows], _check_method_params(X, params=score_params, indices=rows)) for _, rows in folds]

        def score(answer: Solution, fold: int) -> float:
            fitted = copy.copy(self)
            fitted.__dict__.pop("feature_names_in_", None)  # the rows of X come without names here
            fitted._set_coefficients(answer.dense(whole.n_features), answer.intercept, whole)
            fitted._scored_offset = None if offset is None else offset[folds[fold][1]]  # scorers know of none
            X_left, y_left, params = held_out[fold]
            return float(scorer(fitted, X_left, y_left, **params))

        return score

    def _held_out_loss(
        self, whole: LinearModel, data: tuple[Any, ...], rows: np.ndarray
    ) -> Callable[[np.ndarray, Any], float]:
        """What tells the mean loss of coefficients with their intercept on some rows of the whole."""
        part, weights = whole.on_rows(rows), None if data[2] is None else data[2][rows]
        return lambda x, intercept: float(np.average(part.losses(x, intercept=intercept), weights=weights))

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


def _tell(progress: Progress, n_folds: int, ks: list[int], n_ridges: int, scores: Scores) -> None:
    """What the search is at."""
    levels = f"k = {ks[0]}" if len(ks) == 1 else f"k = {ks[0]} to {ks[-1]}"
    means = {pair: float(values.mean()) for pair, values in scores.items()}
    best = max(means, key=lambda pair: means[pair], default=None)
    so_far = "" if best is None else f"; best so far: {means[best]:.4g} with k = {best[1]}"
    progress.tell(f"cross-validation: {levels}, {n_ridges} ridges x {n_folds} folds{so_far}")
