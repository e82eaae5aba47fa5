"""The search for k and the ridge: which of them are tried next, by the scores of those that were."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .folds import Folds, Job, Solution

#: the k that are tried together; then one after the other, as long as the best is among the last two
_FIRST = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)
_FURTHER = (32, 50, 80, 130, 200, 320, 500)
_BETWEEN = 6  # k that are tried beside the best one in the end
_BEHIND = 3.0  # standard errors, by which the score of a ridge must be lower before it is given up

RULES = ("best", "1se")
#: of a ridge's number and k: the scores of the folds
Scores = dict[tuple[int, int], np.ndarray]


def portions(least: int, most: int) -> list[list[int]]:
    """The k to be tried where nothing is said, in portions: all of them where there are few."""
    if most <= _FIRST[-1]:
        return [list(range(least, most + 1))]
    first = [k for k in _FIRST if k >= least] or [least]
    further = [k for k in _FURTHER if first[-1] < k < 0.9 * most]
    return [first, *([k] for k in (*further, *([most] if first[-1] < most <= _FURTHER[-1] else [])))]


def chosen(scores: Scores, ridges: list[float], rule: str) -> tuple[int, int]:
    """The number of the ridge and k, by the rule; of equals the smallest k, then the larger ridge."""
    means = {pair: float(values.mean()) for pair, values in scores.items()}
    known = {pair: mean for pair, mean in means.items() if not np.isnan(mean)}
    if not known:
        raise ValueError("scoring gave NaN for every k; use another scoring, or other folds")
    best = max(known, key=lambda pair: (known[pair], -pair[1], ridges[pair[0]]))
    slack = standard_error(scores[best]) if rule == "1se" else 0.0
    good = [pair for pair, mean in known.items() if mean >= known[best] - slack]
    k = min(k for _, k in good)
    return max((pair for pair in good if pair[1] == k), key=lambda pair: (known[pair], ridges[pair[0]]))


def standard_error(values: np.ndarray) -> float:
    """Of their mean; 0 of a single one."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0


@dataclass
class Search:
    """scores[ridge, k] on the rows left out, for more and more k.

    Parameters
    ----------
    folds : Folds
        Which find the answers.
    n_folds : int
    ridges : list of float
    score : callable
        Of an answer and the number of its fold; greater is better.
    tell : callable
        Of the k that come next, the number of ridges, and the scores so far.
    """

    folds: Folds
    n_folds: int
    ridges: list[float]
    score: Callable[[Solution, int], float]
    tell: Callable[[list[int], int, Scores], None]
    scores: Scores = field(default_factory=dict)
    answers: dict[Job, dict[int, Solution]] = field(default_factory=dict)

    def over(self, ks: list[int]) -> Scores:
        """All of these k, with every ridge."""
        self._try(list(range(len(self.ridges))), ks)
        return self.scores

    def along(self, portions: list[list[int]], rule: str) -> Scores:
        """Portion after portion while larger k are better, without ridges that have no hope; then near the best."""
        going = list(range(len(self.ridges)))
        for ks in portions:
            self._try(going, ks)
            if not self._rises():
                break
            going = [ridge for ridge in going if not self._is_hopeless(ridge)]
        self._look_closer(rule)
        return self.scores

    def _try(self, ridges: list[int], ks: list[int]) -> None:
        self.tell(ks, len(ridges), self.scores)
        jobs = list(itertools.product(ridges, range(self.n_folds)))
        found = self.folds.solve(jobs, ks, [self._start(job, ks[0]) for job in jobs])
        for (ridge, fold), answers in zip(jobs, found, strict=True):
            for k, answer in zip(ks, answers, strict=True):
                self.answers.setdefault((ridge, fold), {})[k] = answer
                values = self.scores.setdefault((ridge, k), np.full(self.n_folds, np.nan))
                values[fold] = self.score(answer, fold)

    def _start(self, job: Job, k: int) -> Solution | None:
        """The answer for the next smaller k."""
        smaller = [other for other in self.answers.get(job, ()) if other < k]
        return self.answers[job][max(smaller)] if smaller else None

    def _means(self, ridge: int) -> dict[int, float]:
        return {k: float(values.mean()) for (own, k), values in sorted(self.scores.items()) if own == ridge}

    def _rises(self) -> bool:
        """Whether the best k is among the two largest."""
        known = [(float(values.mean()), -k) for (_, k), values in self.scores.items() if not np.isnan(values.mean())]
        return bool(known) and -max(known)[1] in sorted({k for _, k in self.scores})[-2:]

    def _is_hopeless(self, ridge: int) -> bool:
        """Whether its best score is lower than the best by more than chance explains, and than the last doubling of k
        has brought."""
        own, (other, best_k) = self._means(ridge), chosen(self.scores, self.ridges, "best")
        known = {k: mean for k, mean in own.items() if not np.isnan(mean)}
        if other == ridge or not known:
            return other != ridge
        k = max(known, key=lambda k: known[k])
        behind = self.scores[other, best_k] - self.scores[ridge, k]
        last = max(known)
        half = max((k for k in known if k <= last / 2), default=min(known))
        return bool(behind.mean() > max(_BEHIND * standard_error(behind), known[last] - known[half]))

    def _look_closer(self, rule: str) -> None:
        """Try the k between the best one and its neighbours, unless the best is the largest of all."""
        ridge, best = chosen(self.scores, self.ridges, rule)
        tried = list(self._means(ridge))
        low, high = (
            max((k for k in tried if k < best), default=best),
            min((k for k in tried if k > best), default=best),
        )
        between = [k for k in range(low + 1, high) if k != best]
        if high > best and between:
            some = np.unique(np.linspace(0, len(between) - 1, min(_BETWEEN, len(between))).round().astype(int))
            self._try([ridge], [between[i] for i in some])
