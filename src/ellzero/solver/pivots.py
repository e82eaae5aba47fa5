"""Answers of many least-squares problems at once for growing k: features are exchanged by exact formulas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.stacked import Stacked
from ..risks.moments import Moments

_LEAST = 1e-9  # of G_jj: what others must leave of column j, or it is no new one
_WORTH = 1e-10  # of R: less is no gain
_JITTER = 1e-13  # of the diagonal, so that columns that depend on each other do no harm
_MOST, _FOR_EACH = 200, 8  # newcomers that are looked at: in all, or for each place
_IN_A_ROUND, _ROUNDS = 4, 20  # exchanges after one look at all of them, and looks for one k


@dataclass
class Tableau(Stacked):
    """The best values of m problems on k features S each, and what is needed for exchanges.

    Attributes
    ----------
    features : array of shape (m, k)
        S.
    W : array of shape (m, q, k)
        Coefficients of q targets.
    H : array of shape (m, k, k)
        The inverse of G_SS + (ρ/2)I.
    c : array of shape (m, q, p)
        -½∇R.
    room : array of shape (m, p)
        q_j = G_jj + ρ/2 - G_jS H G_Sj.
    """

    features: np.ndarray
    W: np.ndarray
    H: np.ndarray
    c: np.ndarray
    room: np.ndarray


class Pivots:
    """w_b(k) = argmin R_b(w) over ||w||_0 <= k, as far as exchanges of single features lead.

    R_b(w) = energy - 2bᵀw + wᵀGw + (ρ/2)||w||² with the moments of a weighting, of one target or summed over several.
    Features come one after the other, each the one that lowers R most; then the exchanges that help most are made. The
    formulas are those of `SwapSearch`. An axis for the problems makes many small ones cost little more than one.

    Parameters
    ----------
    moments : Moments
    weighting : array of shape (m,)
        That of each problem.
    ridges : array of shape (m,)
        ρ.
    kept : array of int
        Features that are always in.
    """

    def __init__(self, moments: Moments, weighting: np.ndarray, ridges: np.ndarray, kept: np.ndarray) -> None:
        self.moments, self.weighting, self.ridges, self.kept = moments, weighting, ridges, kept

    def start(self, which: np.ndarray) -> Tableau:
        """The answers with no other features than those that are kept."""
        table = self._nothing(which)
        for j in self.kept:
            table = self._with(table, np.full(which.size, j))
        return table

    def _nothing(self, which: np.ndarray) -> Tableau:
        m, f = which.size, self.weighting[which]
        room = self.moments.diagonal[f] + 0.5 * self.ridges[which, None]
        none = np.zeros((m, self.moments.q, 0)), np.zeros((m, 0, 0)), self.moments.b[f]
        return Tableau(which, np.zeros((m, 0), dtype=np.intp), *none, room)

    def resume(self, which: np.ndarray, features: np.ndarray, values: np.ndarray) -> Tableau:
        """The answers on features, (m, k), that were found before; their values follow from these."""
        f, p = self.weighting[which], self.moments.p
        none = self._nothing(which)
        table = self._refreshed(replace(none, features=features))
        C = self.moments.blocks(f, features, np.tile(np.arange(p), (len(which), 1)))
        return replace(table, room=none.room - np.einsum("bkp,bkp->bp", table.H @ C, C))

    def grow(self, table: Tableau, k: int) -> Tableau:
        """The answers for a larger k."""
        while table.features.shape[1] < k:
            table = self._with(table, self._gains(table).argmax(axis=1))
        going = np.arange(len(table))
        for _ in range(_ROUNDS):
            if not going.size:
                break
            going = self._round(table, going)
        return self._refreshed(table)

    def values(self, table: Tableau) -> np.ndarray:
        """Coefficients, and in the last place the intercepts if there are any, (m, q, k + 1)."""
        if not self.moments.centred:
            return table.W
        f = self.weighting[table.which]
        means = np.take_along_axis(self.moments.means[f], table.features, axis=1)
        intercepts = self.moments.target_means[f] - np.einsum("bqk,bk->bq", table.W, means)
        return np.concatenate([table.W, intercepts[:, :, None]], axis=2)

    def objective(self, table: Tableau) -> np.ndarray:
        """R_b, (m,)."""
        f = self.weighting[table.which]
        explained = np.take_along_axis(self.moments.b[f], table.features[:, None], axis=2)
        return np.asarray(np.maximum(self.moments.energy[f] - np.einsum("bqk,bqk->b", explained, table.W), 0.0))

    def _refreshed(self, table: Tableau) -> Tableau:
        """The same from G itself, without the rounding of many exchanges."""
        f, every = self.weighting[table.which], np.arange(table.features.shape[1])
        K = self.moments.blocks(f, table.features, table.features)
        K[:, every, every] += 0.5 * self.ridges[table.which, None]
        scales = 1 / np.sqrt(np.where(K[:, every, every] > 0, K[:, every, every], 1.0))
        K *= scales[:, :, None] * scales[:, None]
        K[:, every, every] = 1 + _JITTER
        H = scales[:, :, None] * np.linalg.inv(K) * scales[:, None]
        W = np.take_along_axis(self.moments.b[f], table.features[:, None], axis=2) @ H
        c = self.moments.b[f]
        for t in range(W.shape[1]):
            c[:, t] -= self.moments.images(f, table.features, W[:, t])
        return Tableau(table.which, table.features, W, H, c, table.room)

    def _diagonal(self, table: Tableau) -> np.ndarray:
        """G_jj + ρ/2, and 0 for a column that says nothing."""
        diagonal = self.moments.diagonal[self.weighting[table.which]]
        return np.where(diagonal > 0, diagonal + 0.5 * self.ridges[table.which, None], 0.0)

    def _gains(self, table: Tableau) -> np.ndarray:
        """What each feature that is not in lowers R by, (m, p): Σ c_j²/q_j."""
        diagonal = self._diagonal(table)
        room = np.where(diagonal > 0, np.maximum(table.room, _LEAST * diagonal), np.inf)
        gains = np.einsum("bqp,bqp->bp", table.c, table.c) / room
        np.put_along_axis(gains, table.features, -1.0, axis=1)
        return np.asarray(gains)

    def _with(self, table: Tableau, j: np.ndarray) -> Tableau:
        """With one more feature in each problem, in the last place; one that others explain wholly gets no value."""
        every, k, f = np.arange(len(table)), table.features.shape[1], self.weighting[table.which]
        features = np.concatenate([table.features, j[:, None]], axis=1)
        beta = np.einsum("bkl,bl->bk", table.H, self.moments.blocks(f, table.features, j[:, None])[:, :, 0])
        left = np.concatenate([-beta, np.ones((len(table), 1))], axis=1)
        v = self.moments.images(f, features, left)
        room = v[every, j] + 0.5 * self.ridges[table.which]
        new = room > _LEAST * self._diagonal(table)[every, j]
        share = np.where(new, 1 / np.where(new, room, 1.0), 0.0)
        H = np.zeros((len(table), k + 1, k + 1))
        H[:, :k, :k] = table.H
        H += share[:, None, None] * (left[:, :, None] * left[:, None])
        w = table.c[every, :, j] * share[:, None]
        W = np.concatenate([table.W, np.zeros((*w.shape, 1))], axis=2) + w[:, :, None] * left[:, None]
        c = table.c - w[:, :, None] * v[:, None]
        return Tableau(table.which, features, W, H, c, table.room - share[:, None] * v**2)

    def _without(self, table: Tableau, i: np.ndarray) -> Tableau:
        """Without the feature in the place i of each problem."""
        m, k = table.features.shape
        every = np.arange(m)
        beta = table.H[every, i]
        h = np.maximum(beta[every, i], 1e-300)
        b = self.moments.images(self.weighting[table.which], table.features, beta)
        w = table.W[every, :, i] / h[:, None]
        stay = np.arange(k - 1) + (np.arange(k - 1) >= i[:, None])
        H = table.H - beta[:, :, None] * (beta / h[:, None])[:, None]
        H = np.take_along_axis(np.take_along_axis(H, stay[:, None], axis=2), stay[:, :, None], axis=1)
        W = np.take_along_axis(table.W - w[:, :, None] * beta[:, None], stay[:, None], axis=2)
        features = np.take_along_axis(table.features, stay, axis=1)
        c = table.c + w[:, :, None] * b[:, None]
        return Tableau(table.which, features, W, H, c, table.room + b**2 / h[:, None])

    def _round(self, table: Tableau, going: np.ndarray) -> np.ndarray:
        """Make the exchanges that help most in each of these problems, in place; those where one did are returned."""
        out, into = self._candidates(table[going])
        helped = np.zeros(going.size, dtype=bool)
        for number in range(out.shape[1]):
            these = table[going]
            place = (these.features == out[:, number, None]).argmax(axis=1)
            new = ~(these.features == into[:, number, None]).any(axis=1)
            gain = self._gains_of(these, place[:, None], into[:, number, None])[:, 0, 0]  # after those before it
            some = np.flatnonzero(new & (gain > _WORTH * self.objective(these)))
            if some.size:
                table.put(going[some], self._with(self._without(these[some], place[some]), into[some, number]))
                helped[some] = True
        return going[helped]

    def _candidates(self, table: Tableau) -> tuple[np.ndarray, np.ndarray]:
        """Features that leave and those that come for them, the best exchanges first: (m, exchanges) each."""
        m, k = table.features.shape
        costs = np.einsum("bqk,bqk->bk", table.W, table.W) / _diagonals(table.H)
        costs[np.isin(table.features, self.kept)] = np.inf
        some = self._contenders(table, costs.min(axis=1))
        gains = self._gains_of(table, np.tile(np.arange(k), (m, 1)), some) if k else np.full((m, 1, 1), -np.inf)
        best = gains.argmax(axis=2)
        gains = np.take_along_axis(gains, best[:, :, None], axis=2)[:, :, 0]
        first = np.argsort(-gains, axis=1, kind="stable")[:, :_IN_A_ROUND]
        into = np.take_along_axis(some, np.take_along_axis(best, first, axis=1), axis=1)
        return np.take_along_axis(table.features, first, axis=1), into

    def _gains_of(self, table: Tableau, places: np.ndarray, newcomers: np.ndarray) -> np.ndarray:
        """What R loses by each exchange, (m, places, newcomers): -inf for what is kept."""
        f = self.weighting[table.which]
        H = np.take_along_axis(table.H, places[:, :, None], axis=1)
        h = np.take_along_axis(_diagonals(table.H), places, axis=1)
        W = np.take_along_axis(table.W, places[:, None], axis=2)
        c = np.take_along_axis(table.c, newcomers[:, None], axis=2)
        B = H @ self.moments.blocks(f, table.features, newcomers)
        share, sizes = B / h[:, :, None], np.einsum("bqk,bqk->bk", W, W)
        won = 2 * (W.swapaxes(1, 2) @ c)  # the sum over targets of (c_j + w_i share)², over q_j + share B
        won += sizes[:, :, None] * share
        won *= share
        won += np.einsum("bqp,bqp->bp", c, c)[:, None]
        share *= B
        share += np.take_along_axis(table.room, newcomers, axis=1)[:, None]
        diagonal = np.take_along_axis(self._diagonal(table), newcomers, axis=1)
        won /= np.maximum(share, np.where(diagonal > 0, _LEAST * diagonal, np.inf)[:, None])
        kept = np.isin(np.take_along_axis(table.features, places, axis=1), self.kept)
        won -= np.where(kept, np.inf, sizes / h)[:, :, None]
        return np.asarray(won)

    def _contenders(self, table: Tableau, cost: np.ndarray) -> np.ndarray:
        """The features that may pay for the cheapest place, as many for every problem: (m, contenders).

        Others do not help, as in `SwapSearch`: |c_j| <= ω(√G_jj - √t_j), ω² the cost, t_j = G_jj - q_j. Of very many
        that may, those are taken that are farthest above that.
        """
        diagonal, slopes = self._diagonal(table), np.sqrt(np.einsum("bqp,bqp->bp", table.c, table.c))
        span = np.sqrt(diagonal) - np.sqrt(np.maximum(diagonal - table.room, 0.0))
        cost = np.minimum(cost, 1e300)
        hope = np.where(diagonal > 0, slopes - np.sqrt(cost)[:, None] * span, -np.inf)
        np.put_along_axis(hope, table.features, -np.inf, axis=1)
        number = max(1, int(np.count_nonzero(hope > -1e-9 * slopes, axis=1).max(initial=0)))
        number = min(number, max(_MOST, _FOR_EACH * table.features.shape[1]))
        return np.argpartition(-hope, min(number, hope.shape[1]) - 1, axis=1)[:, :number]


def _diagonals(H: np.ndarray) -> np.ndarray:
    """Of matrices that are inverses, so that features without a value do no harm."""
    return np.asarray(np.maximum(H.diagonal(axis1=1, axis2=2), 1e-300))
