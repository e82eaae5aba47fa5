"""Answers of many problems at once for growing k: features are exchanged several at a time."""

from __future__ import annotations

import numpy as np

from ..risks.weightings import Fits, Weightings

_GROWTH = 1.3  # of k, by which a support grows before its values are fitted again
_ROUNDS, _TRIES = 4, 3  # of exchanges, and how many sizes of each are tried
_WORTH = 1e-6  # of R: less is no gain


class Splices:
    """w_b(k) ≈ argmin R_b(w) over ||w||_0 <= k, for the problems b of `Weightings`.

    Features come in by what they gain, and several are exchanged at once: the m that R misses least for the m that
    promise most, as many as seem to pay; fewer of them where R does not fall (splicing: Zhu et al., PNAS 2020).

    Parameters
    ----------
    problems : Weightings
    kept : array of int
        Features that are always in.
    """

    def __init__(self, problems: Weightings, kept: np.ndarray) -> None:
        self.problems, self.kept = problems, kept

    def start(self, which: np.ndarray) -> Fits:
        """The answers with no other features than those that are kept."""
        return self._with_more(self.problems.start(which), np.tile(self.kept, (which.size, 1)))

    def resume(self, which: np.ndarray, features: np.ndarray, values: np.ndarray) -> Fits:
        """The answers on features, (m, k), that were found before, with their values as in `Fits`."""
        return self.problems.fit(which, features, values)

    def values(self, fits: Fits) -> np.ndarray:
        """Coefficients, and in the last place the intercepts if there are any, (m, q, k + 1)."""
        return fits.values

    def grow(self, fits: Fits, k: int) -> Fits:
        """The answers for a larger k."""
        while (size := fits.features.shape[1]) < k:
            more = min(k, max(size + 1, int(_GROWTH * size))) - size
            best = np.argsort(-self.problems.gains(fits), axis=1, kind="stable")
            fits = self._with_more(fits, best[:, :more])
        going = np.arange(len(fits))
        for _ in range(_ROUNDS):
            going = self._exchange(fits, going)
            if not going.size:
                break
        return fits

    def _with_more(self, fits: Fits, newcomers: np.ndarray) -> Fits:
        k, more = fits.features.shape[1], newcomers.shape[1]
        if not more:
            return fits
        values = np.insert(fits.values, [k] * more, 0.0, axis=2)
        return self.problems.fit(fits.which, np.concatenate([fits.features, newcomers], axis=1), values)

    def _exchange(self, fits: Fits, among: np.ndarray) -> np.ndarray:
        """Exchange features of these problems, in place; those that got better are returned."""
        these = fits[among]
        gains, costs = self.problems.gains(these), these.costs
        costs[np.isin(these.features, self.kept)] = np.inf
        come = np.argsort(-gains, axis=1, kind="stable")[:, : costs.shape[1]]
        leave = np.argsort(costs, axis=1, kind="stable")[:, : come.shape[1]]
        pays = np.take_along_axis(gains, come, axis=1) > np.take_along_axis(costs, leave, axis=1)
        number = np.minimum(np.cumprod(pays, axis=1).sum(axis=1), (costs.shape[1] + 1) // 2)
        helped, left = np.zeros(among.size, dtype=bool), np.flatnonzero(number)
        for _ in range(_TRIES):
            if not left.size:
                break
            row, place = np.nonzero(np.arange(come.shape[1]) < number[left, None])
            features, values = these.features[left], these.values[left]
            features[row, leave[left][row, place]] = come[left][row, place]
            values[row, :, leave[left][row, place]] = 0.0
            trial = self.problems.fit(these.which[left], features, values)
            better = trial.objective < these.objective[left] - _WORTH * np.abs(these.objective[left])
            fits.put(among[left[better]], trial[better])
            helped[left[better]] = True
            left = left[~better & (number[left] > 1)]
            number[left] //= 3
            number[left] = np.maximum(number[left], 1)
        return among[helped]
