"""The fits of a cross-validation: answers on the rows of a fold, for a ridge and growing k."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from .._core.arrays import to_host
from .._core.interruption import whole_call
from ..risks import LinearModel
from ..solver.methods import Auto
from ..solver.pivots import Pivots
from ..solver.row_moves import are_rows
from ..solver.splices import Splices
from .request import Maker, Request

_ROOM = 2**23  # numbers that the problems of a portion may hold at a time: features, of all problems, times k

#: the number of a ridge, and that of a fold
Job = tuple[int, int]


class Solution(NamedTuple):
    """Coefficients that are not zero, by their places in w, and the intercept, or those of several outputs."""

    places: np.ndarray
    values: np.ndarray
    intercept: Any

    def dense(self, size: int) -> np.ndarray:
        """w."""
        w = np.zeros(size)
        w[self.places] = self.values
        return w


class Folds(ABC):
    """w(k) on the rows of a fold, for a ridge."""

    @abstractmethod
    def solve(self, jobs: list[Job], ks: list[int], starts: list[Solution | None]) -> list[list[Solution]]:
        """For each job the answers for all k, which grow; started from one for a smaller k, if it is known."""


class OneByOne(Folds):
    """A path of `minimize` for each ridge and fold, with any Γ, sparsity and method.

    Parameters
    ----------
    model : estimator
        Which knows how answers are found.
    maker : Maker
        Of the risk of any rows.
    whole : LinearModel
        That of all of them.
    data : tuple
        X, y, weights and offset.
    trains : list of array
        The rows that are fitted in each fold.
    ridges : list of float
    request : Request
    """

    def __init__(
        self, model: Any, maker: Maker, whole: LinearModel, data: tuple[Any, ...], trains: list[np.ndarray],
        ridges: list[float], request: Request,
    ) -> None:  # fmt: skip
        self.model, self.maker, self.whole, self.data, self.trains = model, maker, whole, data, trains
        self.ridges, self.request = ridges, request

    def solve(self, jobs: list[Job], ks: list[int], starts: list[Solution | None]) -> list[list[Solution]]:
        """One job after the other, or several at a time."""
        paths: list[list[Solution]] = Parallel(n_jobs=getattr(self.model, "n_jobs", None))(
            delayed(self._path)(ridge, fold, ks, start) for (ridge, fold), start in zip(jobs, starts, strict=True)
        )
        # the rows left out of all folds are scored with columns that are read together
        used = [place for path in paths for answer in path for place in answer.places]
        self.whole.expect(np.array(used, dtype=np.intp))
        return paths

    def _path(self, ridge: int, fold: int, ks: list[int], start: Solution | None) -> list[Solution]:
        X, y, *others = self.data
        train = self.trains[fold]
        weights, offset = (None if values is None else values[train] for values in others)
        risk = self.model._risk(self.maker, X[train], y[train], weights, offset, self.ridges[ridge])
        x0 = None if start is None else start.dense(risk.n_features)
        found = self.model._answers(risk.compressed(), ks, self.request, x0)
        return [_solution(to_host(res.x), risk.intercept(res.x)) for res in found]


def _solution(x: np.ndarray, intercept: Any) -> Solution:
    places = np.flatnonzero(x)
    return Solution(places, x[places], intercept)


class AllAtOnce(Folds):
    """The same for all ridges and folds at once, where there is no Γ and k counts features: see `Pivots`, `Splices`.

    Rows that a fold leaves out have no weight in its problems. The answers are those of searches that make a choice
    among models, and no more; what is chosen is fitted by `minimize`.
    """

    def __init__(self, climber: Pivots | Splices, n_folds: int, p: int, q: int, n_jobs: int | None) -> None:
        self.climber, self.n_folds, self.p, self.q, self.n_jobs = climber, n_folds, p, q, n_jobs

    @classmethod
    def of(
        cls, model: Any, whole: LinearModel, data: tuple[Any, ...], trains: list[np.ndarray], ridges: list[float],
        request: Request,
    ) -> AllAtOnce | None:  # fmt: skip
        """None where there is no such way."""
        p, q = whole.n_features // whole.n_outputs, whole.n_outputs
        method, n_jobs = request.method(model.method), getattr(model, "n_jobs", None)
        plain = request.sparsity.plain if q == 1 else are_rows(request.sparsity, whole.n_features, q)
        if not (plain and request.gamma.whole_space and isinstance(method, Auto) and method.n_starts == 1):
            return None
        counts = np.array([np.bincount(train, minlength=whole.n_terms) for train in trains])
        kept = np.unique(request.coordinates % p).astype(np.intp)
        fold, ridge = np.tile(np.arange(len(trains)), len(ridges)), np.repeat(np.asarray(ridges, float), len(trains))
        moments = whole.moments(counts)
        if moments is not None:
            return cls(Pivots(moments, fold, ridge, kept), len(trains), p, q, n_jobs)
        weights = np.array([_weights(model, data, train, count) for train, count in zip(trains, counts, strict=True)])
        problems = whole.weightings(weights[fold], ridge)
        return None if problems is None else cls(Splices(problems, kept), len(trains), p, q, n_jobs)

    def solve(self, jobs: list[Job], ks: list[int], starts: list[Solution | None]) -> list[list[Solution]]:
        """As many jobs together as there is room for."""
        which = np.array([ridge * self.n_folds + fold for ridge, fold in jobs])
        together = max(1, min(_ROOM // (self.p * max(ks)), -(-len(jobs) // _workers(self.n_jobs))))
        parts = [slice(first, first + together) for first in range(0, len(jobs), together)]
        found = Parallel(n_jobs=self.n_jobs)(delayed(self._climb)(which[part], ks, starts[part]) for part in parts)
        return [answers for part in found for answers in part]

    def _climb(self, which: np.ndarray, ks: list[int], starts: list[Solution | None]) -> list[list[Solution]]:
        with whole_call():
            begun = [start for start in starts if start is not None]
            state: Any = self.climber.start(which)
            if begun:
                values = np.array([start.values.reshape(self.q, -1) for start in begun])
                ends = np.array([np.reshape(start.intercept, (self.q, -1)) for start in begun])
                features = np.array([start.places[: values.shape[2]] for start in begun])
                state = self.climber.resume(which, features, np.concatenate([values, ends], axis=2))
            found: list[list[Solution]] = [[] for _ in which]
            for k in ks:
                state = self.climber.grow(state, k)
                for answers, features, values in zip(found, state.features, self.climber.values(state), strict=True):
                    answers.append(self._solution(features, values))
        return found

    def _solution(self, features: np.ndarray, values: np.ndarray) -> Solution:
        """From coefficients of each output, and the intercepts in the last place."""
        k = features.size
        intercept = values[:, k] if values.shape[1] > k else np.zeros(self.q)
        places = (features + self.p * np.arange(self.q)[:, None]).ravel()
        return Solution(places, values[:, :k].ravel(), float(intercept[0]) if self.q == 1 else intercept)


def fits(
    model: Any, maker: Maker, whole: LinearModel, data: tuple[Any, ...], trains: list[np.ndarray], ridges: list[float],
    request: Request,
) -> Folds:  # fmt: skip
    """All at once where that is possible, else one by one."""
    together = AllAtOnce.of(model, whole, data, trains, ridges, request)
    return together or OneByOne(model, maker, whole, data, trains, ridges, request)


def _weights(model: Any, data: tuple[Any, ...], train: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Those of all rows in the fit of a fold: they sum to 1."""
    _, y, weights, _ = data
    own = model._weights(y[train], None if weights is None else weights[train])
    found = count.astype(float) if own is None else np.bincount(train, own, minlength=count.size)
    return np.asarray(found / found.sum())


def _workers(n_jobs: int | None) -> int:
    """How many portions are worked at at the same time."""
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
