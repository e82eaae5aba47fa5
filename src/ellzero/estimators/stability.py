"""Stability selection: how often each feature is chosen on random halves of the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._core.progress import Progress
from .._core.validation import check_count
from .folds import Job, fits

_TOGETHER = 20  # halves between two lines of progress
_THRESHOLD = 0.75


@dataclass(frozen=True, eq=False)
class Stability:
    """π_j, the share of random halves of the rows on which a fit with k features chooses feature j.

    Halves come in pairs that share no row, as Shah and Samworth propose (2013, Variable selection with error control:
    another look at stability selection).

    Attributes
    ----------
    frequencies : array of shape (n_features,)
        π_j.
    kept : array of shape (n_features,), bool
        Features that are always in, because that was asked for.
    k : int
        How many features, or groups of them, every fit may use.
    n_items : int
        How many there are to choose among.
    n_pairs : int
        Pairs of halves, each of which has been fitted.
    fixed : bool
        Whether k and the ridge were given, and not chosen by looking at the same rows: only then `bound` is one.
    names : list of str

    Examples
    --------
    >>> import ellzero as ez
    >>> problem = ez.datasets.make_regression(100, 200, 3)
    >>> model = ez.SparseRegressor(k=3).fit(problem.X, problem.y)
    >>> found = model.stability(problem.X, problem.y, random_state=0)
    >>> set(found.selected(0.9)) == set(problem.truth.nonzero()[0])
    True
    >>> round(found.bound(0.9), 3)
    0.056
    """

    frequencies: np.ndarray
    kept: np.ndarray
    k: int
    n_items: int
    n_pairs: int
    fixed: bool
    names: list[str]

    def selected(self, threshold: float = _THRESHOLD) -> np.ndarray:
        """The features with π_j >= threshold, the most frequent first; those that are always in are left out."""
        often = np.flatnonzero((self.frequencies >= _in_range(threshold)) & ~self.kept)
        return often[np.argsort(-self.frequencies[often], kind="stable")]

    def bound(self, threshold: float = _THRESHOLD) -> float:
        """A bound on the expected number of seldom chosen features among `selected`: k²/((2τ - 1)p), at most k/τ.

        Seldom chosen are those whose probability of being chosen on half of the rows is at most k/p, that of a blind
        guess. The bound is a theorem for rows that are drawn independently, whatever the fit does (Theorem 1 there; of
        classes, given the labels), and for k and ridge that do not depend on the rows. It says nothing about features
        that are chosen often because they stand for others that matter.
        """
        tau, k, p = _in_range(threshold), self.k, max(self.n_items, 1)
        return min(k**2 / ((2 * tau - 1) * p), k / tau)

    def words(self, threshold: float = _THRESHOLD) -> str:
        """The selection and what is known of it."""
        halves, many, bound = 2 * self.n_pairs, self.selected(threshold).size, self.bound(threshold)
        free = np.count_nonzero(~self.kept)
        told = f"{many} of {free} features were chosen on at least {threshold:.0%} of {halves} halves of the rows."
        if not many:
            return told
        whole = self.n_items < free  # groups of them are counted
        if bound >= (self.k if whole else many):
            return f"{told} How many of them are there by chance cannot be bounded with so large a k of {self.n_items}."
        seldom = (
            f"at most {bound:.2g} {'groups ' if whole else ''}of them {'are' if self.fixed else 'would be'} some that"
        )
        seldom += " half of the rows choose no more often than a blind guess would"
        if self.fixed:
            return f"{told} In expectation, if rows are independent, {seldom}."
        return (
            f"{told} Had k and the ridge been fixed beforehand, in expectation {seldom}; they were chosen on these "
            "rows, so that this is no bound but a rule of thumb."
        )

    def __repr__(self) -> str:
        order = np.argsort(-self.frequencies, kind="stable")[:10]
        rows = [f"  {self.frequencies[j]:>6.0%}  {self.names[j]}" for j in order if self.frequencies[j] > 0]
        return "\n".join([f"ellzero stability, k = {self.k}: {self.words()}", *rows])


def _in_range(threshold: float) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0.5 < threshold <= 1:
        raise ValueError(f"threshold must lie in (0.5, 1], such as 0.75, got {threshold!r}")
    return float(threshold)


def stability_of(model: Any, data: tuple[Any, ...], n_pairs: int, random_state: Any, verbose: int | None) -> Stability:
    """Fit the k and the ridge of a fitted model on both halves of random splits of the rows."""
    check_count(n_pairs, "n_pairs", low=1)
    X, y, weights, offset = data
    maker = model._maker(y, weights, offset)
    whole = maker(X, y, sample_weight=weights, offset=offset, fit_intercept=model.fit_intercept)
    request, k, p = model._request(whole, X), model.k_, model.n_features_in_
    if not request.sparsity.of_coordinates:
        raise ValueError(f"stability is how often features are chosen, and k={model.k!r} chooses none; leave it out")
    halves = _halves(y.shape[0], weights, model._layers(y), n_pairs, random_state)
    found, counted = fits(model, maker, whole, data, halves, [model.ridge_], request), request.sparsity.with_k(k)
    often = np.zeros(p)
    with Progress(verbose) as progress:
        for first in range(0, len(halves), _TOGETHER):
            progress.tell(f"stability: half {first + 1} of {len(halves)}")
            jobs: list[Job] = [(0, half) for half in range(first, min(first + _TOGETHER, len(halves)))]
            for answers in found.solve(jobs, [k], [None] * len(jobs)):
                often[np.unique(counted.filled(answers[-1].places[answers[-1].values != 0]) % p).astype(np.intp)] += 1
    kept = np.zeros(p, dtype=bool)
    kept[np.concatenate([counted.filled(request.coordinates), counted.free]).astype(np.intp) % p] = True
    often[kept] = len(halves)
    names = model._names()
    return Stability(
        frequencies=often / len(halves),
        kept=kept,
        k=k - request.n_kept,
        n_items=min(p, counted.atoms_of(np.arange(whole.n_features)).size) - request.n_kept,
        n_pairs=n_pairs,
        fixed=not (hasattr(model, "cv_results_") or hasattr(model, "criterion_")),
        names=[f"x{j}" for j in range(p)] if names is None else [str(name) for name in names],
    )


def _halves(
    n: int, weights: np.ndarray | None, layers: np.ndarray | None, n_pairs: int, random_state: Any
) -> list[np.ndarray]:
    """Pairs of halves of the rows that have a weight, without a common row; of classes and events, of each of them."""
    rng = check_random_state(random_state)
    there = np.arange(n) if weights is None else np.flatnonzero(weights)
    parts = [there] if layers is None else [there[layers[there] == label] for label in np.unique(layers[there])]
    small = min(part.size for part in parts)
    if small < 2:
        what = "row" if layers is None else "row of one of the classes, or kinds of outcome,"
        raise ValueError(f"stability halves the rows, and y has {small} {what} with a weight; give at least 2")
    halves = []
    for _ in range(n_pairs):
        drawn = [(rng.permutation(part), part.size // 2) for part in parts]
        halves.append(np.sort(np.concatenate([order[:half] for order, half in drawn])))
        halves.append(np.sort(np.concatenate([order[half : 2 * half] for order, half in drawn])))
    return halves
