"""Cox's partial likelihood as a function of the predictions: who is at risk when, summed up from the latest time on."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .accuracy import EPS
from .running import Running


@dataclass
class Table:
    """Strata of similar sizes, a row for each, the latest time first; rows are filled up with nobody.

    Attributes
    ----------
    order : array of shape (s, m)
        Which sample stands where.
    time : array of shape (s, m)
    level, offset : arrays of shape (s, m)
        log ω + offset, -inf where nobody stands; the offset alone.
    share, term : arrays of shape (s, m)
        The events' ω/Σω; and the weight of a term log S, of which each event has one: with Efron's ties the mean of the
        shares at this time.
    fraction : array of shape (s, m)
        Efron's l/d of the l-th of d events at a time; 0 with Breslow's ties.
    first, last : arrays of shape (s, m)
        Where samples of the same time begin and end.
    starts, group : arrays
        The same in the flattened table: where each time begins, and the number of each sample's time.
    """

    order: np.ndarray
    time: np.ndarray
    level: np.ndarray
    offset: np.ndarray
    share: np.ndarray
    term: np.ndarray
    fraction: np.ndarray
    first: np.ndarray
    last: np.ndarray
    starts: np.ndarray
    group: np.ndarray

    def __post_init__(self) -> None:
        self.tied = bool(self.fraction.any())
        self.there = np.isfinite(self.level)
        self.full = bool(self.there.all())
        self.apart = self.starts.size == self.order.size  # no time comes twice
        self.dead = self.share > 0
        self.root_term = np.sqrt(self.term[self.dead])[:, None]
        with np.errstate(divide="ignore"):
            self.log_term = np.log(self.term)
        self.log_left = np.log1p(-self.fraction)

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Values of the samples in this table, less those of each row's first: nothing is left of what is constant."""
        return np.asarray(values[self.order] - values[self.order[:, :1]])

    def by_time(self, levels: np.ndarray, values: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """log Σ exp(l_j) over those of the same time, for each of them, and the means of the values so weighted."""
        flat = levels.ravel()
        top = np.maximum.reduceat(flat, self.starts)
        top = np.where(np.isfinite(top), top, 0.0)
        weight = np.exp(flat - top[self.group.ravel()])
        sums = np.add.reduceat(weight, self.starts)
        with np.errstate(divide="ignore"):
            logs = (top + np.log(sums))[self.group]
        if values is None:
            return logs, np.empty((*levels.shape, 0))
        totals = np.add.reduceat(weight[:, None] * values.reshape(flat.size, -1), self.starts, axis=0)
        return logs, (totals / np.maximum(sums, 1e-300)[:, None])[self.group]


def _at(places: np.ndarray, table: np.ndarray) -> np.ndarray:
    """table[i, places[i, j]], whatever else it holds there."""
    return np.asarray(table[np.arange(len(places))[:, None], places])


def _spread_out(parts: list[tuple[Table, np.ndarray]], whole: np.ndarray) -> np.ndarray:
    """What the tables hold, put where their samples are."""
    for table, part in parts:
        if table.full:
            whole[table.order] = part
        else:
            whole[table.order[table.there]] = part[table.there]
    return whole


class TableLook:
    """The predictions of one table: risks at risk, terms, and the chances of each sample to be the next event."""

    def __init__(self, table: Table, z: np.ndarray) -> None:
        self.table, here = table, z[table.order]
        # what is added to all predictions of a stratum does not count
        self.top = (here if table.full else np.where(table.there, here, -math.inf)).max(axis=1, keepdims=True)
        here = here - self.top
        self.eta, self.z = here + table.level, here + table.offset
        self.risks = Running(self.eta)
        self.log_risk = self._at_last(self.risks.logs)
        self.log_sum, self.ratio = self.log_risk, np.zeros(())
        if table.tied:
            self.log_dead = table.by_time(np.where(table.dead, self.eta, -math.inf))[0]
            inside = np.exp(np.minimum(np.where(table.dead, self.log_dead - self.log_risk, -math.inf), 0.0))
            part = table.fraction * inside
            self.log_sum, self.ratio = self.log_risk + np.log1p(-part), part / (1 - part)

    def _at_last(self, table: np.ndarray) -> np.ndarray:
        """The sums up to and with all of the same time."""
        return table if self.table.apart else _at(self.table.last, table)

    @cached_property
    def losses(self) -> np.ndarray:
        """log S - z of each event, with the mean of log S over events that share their time; 0 of the censored."""
        table, sums = self.table, self.log_sum
        if table.tied:
            parts = np.add.reduceat(np.where(table.dead, sums, 0.0).ravel(), table.starts)
            count = np.add.reduceat((table.dead).ravel().astype(float), table.starts)
            sums = (parts / np.maximum(count, 1.0))[table.group]
        return np.where(table.dead, sums - self.z, 0.0)

    @cached_property
    def rates(self) -> np.ndarray:
        """log(term/S), -inf where there is no term."""
        return np.where(self.table.term > 0, self.table.log_term - self.log_sum, -math.inf)

    @cached_property
    def chance(self) -> np.ndarray:
        """Σ_q b_q p_qj: how often each sample should have had an event by now; adds up to 1 over all tables."""
        return self._spread(None)[0]

    @cached_property
    def root_chance(self) -> np.ndarray:
        """Its roots, one below the other."""
        return np.asarray(np.sqrt(self.chance).reshape(-1, 1))

    @cached_property
    def later(self) -> Running:
        """The sums of the rates, from the other end."""
        return Running(self.rates[:, ::-1])

    def _spread(self, values: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Σ_q exp(rate_q) exp(η_j) over the terms that j is at risk in, and the means of their values."""
        table, sums = self.table, self.later.logs[:, ::-1]
        means = np.empty((*sums.shape, 0)) if values is None else self.later.means(values[:, ::-1])[:, ::-1]
        log_all, mean = (sums, means) if table.apart else (_at(table.first, sums), _at(table.first, means))
        if table.tied:  # those with an event at the time itself are there by 1 - l/d only
            own, own_mean = table.by_time(self.rates + table.log_left, values)
            beyond = np.pad(sums, ((0, 0), (0, 1)), constant_values=-math.inf)
            later, later_mean = (
                _at(table.last + 1, beyond),
                _at(table.last + 1, np.pad(means, ((0, 0), (0, 1), (0, 0)))),
            )
            both, dead = np.logaddexp(later, own), table.dead
            log_all = np.where(dead, both, log_all)
            if values is not None:
                share = np.exp(own - np.where(np.isfinite(both), both, 0.0))[:, :, None]
                mean = np.where(dead[:, :, None], later_mean + share * (own_mean - later_mean), mean)
        return np.exp(np.minimum(self.eta + log_all, 0.0)), mean  # they add up to 1 at most

    def _means(self, values: np.ndarray) -> np.ndarray:
        """The mean of the values in each term."""
        table = self.table
        mean = self._at_last(self.risks.means(values))
        if table.tied:
            dead = table.by_time(np.where(table.dead, self.eta, -math.inf), values)[1]
            mean = mean + self.ratio[:, :, None] * (mean - dead)
        return mean

    def _centred(self, here: np.ndarray) -> np.ndarray:
        """Values less their mean in each stratum, which makes no difference but for rounding."""
        weight = self.chance[:, None, :]
        return np.asarray(here - (weight @ here) / np.maximum(weight.sum(axis=2, keepdims=True), 1e-300))

    def bend(self, here: np.ndarray) -> np.ndarray:
        """∇²F times each column of the values: chance∘(u - the means, backwards, of the means, forwards)."""
        here = self._centred(here)
        return np.asarray(self.chance[:, :, None] * (here - self._spread(self._means(here))[1]))

    def hessian(self, here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """VᵀHV and the diagonal of what is subtracted from, for H = Σ_q b_q (diag p_q - p_q p_qᵀ)."""
        table, here = self.table, self._centred(here)
        means = self.risks.means(here, table.dead) if table.apart else self._means(here)[table.dead]
        rows = self.root_chance * here.reshape(-1, here.shape[2])
        means *= table.root_term
        whole = rows.T @ rows  # half of it is computed, for the factors are one
        return whole - means.T @ means, np.diagonal(whole)


class Partial:
    """F(z) = Σ_q b_q log S_q(z) - Σ_i a_i z_i at one z, S_q = Σ_j c_qj exp(z_j) over those at risk, c_qj >= 0."""

    def __init__(self, likelihood: PartialLikelihood, z: np.ndarray) -> None:
        self.n, self.tables = z.size, [TableLook(table, z) for table in likelihood.tables]

    @property
    def value(self) -> float:
        """F(z)."""
        return sum(float(np.vdot(part.table.share, part.losses)) for part in self.tables)

    def flat(self, name: str) -> np.ndarray:
        """What the tables have under this name, for each sample; 0 of those that do not count."""
        return _spread_out([(part.table, getattr(part, name)) for part in self.tables], np.zeros(self.n))

    def bend(self, values: np.ndarray) -> np.ndarray:
        """∇²F(z) @ values."""
        bent = [(part.table, part.bend(part.table.gather(values))) for part in self.tables]
        return _spread_out(bent, np.zeros(values.shape))

    def hessian(self, gathered: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Vᵀ ∇²F(z) V, and the squares that it is made of, for V by tables (`PartialLikelihood.gather`)."""
        parts = [part.hessian(here) for part, here in zip(self.tables, gathered, strict=True)]
        whole, squares = parts[0]
        for more, of_them in parts[1:]:
            whole, squares = whole + more, squares + of_them
        return whole, squares

    @property
    def rounding(self) -> float:
        """By how much chances may be off, relatively, and logarithms of sums, absolutely.

        With m samples in a sum and logarithms up to B, arguments of exp are off by a few eps·B, sums of what is
        positive by m·eps, and Efron's differences S - (l/d)D by S/(S - (l/d)D) times as much.
        """
        worst = 0.0
        for part in self.tables:
            logs = (part.eta, part.z, part.table.level, part.table.log_term, part.log_sum, part.rates)
            B = max(float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in logs)
            lost = 1 + 2 * float(part.ratio.max(initial=0.0))
            worst = max(worst, 4 * lost * EPS * (part.eta.shape[1] + 16 * B + 16))
        return worst

    @property
    def sizes(self) -> float:
        """The sum of the sizes of the terms that F is summed from."""
        total = 0.0
        for part in self.tables:
            table, there = part.table, part.table.term > 0
            total += float(
                np.sum(table.term[there] * np.abs(part.log_sum[there])) + np.sum(table.share * np.abs(part.z))
            )
        return total


class PartialLikelihood:
    """Who is at risk at which event, sorted once; `at` looks at predictions.

    Parameters
    ----------
    time, event, weight, offset : arrays of shape (n,)
        Checked; some event has a weight.
    stratum : integer array of shape (n,)
    efron : bool
        How events at the same time are counted.

    Attributes
    ----------
    share : array of shape (n,)
        a_i: ω of the events over their sum.
    exposure : array of shape (n,)
        Σ of the weights b_q of the terms in which each sample is at risk.
    least : float
        A number that F never goes below: for A the weight of the d events at one time, A log A each, and with Efron's
        ties (A/d) log(d!/d^d) more. S >= D = Σω exp(z) over the events, and Σ(ω/A)z <= log(D/A) since log is concave;
        Efron's Π_l(S - (l/d)D) >= D^d d!/d^d. Where all ω = 1 it is at least 0.
    """

    def __init__(
        self,
        time: np.ndarray,
        event: np.ndarray,
        weight: np.ndarray,
        offset: np.ndarray,
        stratum: np.ndarray,
        efron: bool,
    ) -> None:
        self.n, self.stratum = time.size, stratum
        counts = np.flatnonzero(weight > 0)
        self.share = np.where(event & (weight > 0), weight / weight.max(), 0.0)
        self.log_events = math.log(float(self.share.sum())) + math.log(float(weight.max()))
        self.share /= self.share.sum()
        # only strata with an event have a term; of others nothing is learnt
        with_event = np.zeros(int(stratum.max()) + 1, dtype=bool)
        with_event[stratum[self.share > 0]] = True
        counts = counts[with_event[stratum[counts]]]
        counts = counts[np.lexsort((event[counts], -time[counts], stratum[counts]))]
        begin = np.append(np.flatnonzero(np.diff(stratum[counts], prepend=-1)), counts.size)
        rows = [counts[i:j] for i, j in itertools.pairwise(begin)]
        width: dict[int, list[np.ndarray]] = {}
        for row in rows:
            width.setdefault((row.size - 1).bit_length(), []).append(row)
        self.tables = [self._table(rows, time, weight, offset, efron) for rows in width.values()]
        later = [(table, np.cumsum(table.term[:, ::-1], axis=1)[:, ::-1]) for table in self.tables]
        self.exposure = _spread_out([(table, _at(table.first, sums)) for table, sums in later], np.zeros(self.n))
        self.least = self._least(weight)
        self._last: tuple[object, Partial] | None = None

    def _table(
        self, rows: list[np.ndarray], time: np.ndarray, weight: np.ndarray, offset: np.ndarray, efron: bool
    ) -> Table:
        s, m = len(rows), max(row.size for row in rows)
        order, there = np.zeros((s, m), dtype=np.intp), np.zeros((s, m), dtype=bool)
        for i, row in enumerate(rows):
            order[i, : row.size], there[i, : row.size] = row, True
        share = np.where(there, self.share[order], 0.0)
        new = np.ones((s, m), dtype=bool)
        new[:, 1:] = (time[order[:, 1:]] != time[order[:, :-1]]) | ~there[:, 1:]
        starts, group = np.flatnonzero(new), np.cumsum(new).reshape(s, m) - 1
        ends = np.append(starts[1:], s * m)
        first, last = (starts % m)[group], ((ends - 1) % m)[group]
        dead = share > 0
        number = np.add.reduceat(dead.ravel(), starts, dtype=float)[group]
        term, fraction = share, np.zeros((s, m))
        if efron:
            term = np.where(dead, np.add.reduceat(share.ravel(), starts)[group] / np.maximum(number, 1.0), 0.0)
            before: np.ndarray = np.cumsum(dead, axis=1) - dead
            fraction = np.where(dead, (before - _at(first, before)) / np.maximum(number, 1.0), 0.0)
        with np.errstate(divide="ignore"):
            level = np.where(there, np.log(np.where(there, weight[order], 1.0)) + offset[order], -math.inf)
        return Table(
            order,
            time[order],
            level,
            np.where(there, offset[order], 0.0),
            share,
            term,
            fraction,
            first,
            last,
            starts,
            group,
        )

    def _least(self, weight: np.ndarray) -> float:
        total = lost = 0.0
        scale = self.log_events
        for table in self.tables:
            A = np.add.reduceat(table.share.ravel(), table.starts)
            d = np.add.reduceat((table.dead).ravel(), table.starts, dtype=float)
            A, d = A[d > 0], d[d > 0]
            number, place = np.unique(d, return_inverse=True)
            more = np.array([(math.lgamma(m + 1) - m * math.log(m)) / m for m in number])[place] if table.tied else 0.0
            logs = np.log(A)
            total += float(np.sum(A * (logs + scale + more)))
            lost += float(np.sum(A * (np.abs(logs) + abs(scale) + d)))
        least = total - 8 * (self.n + 8) * EPS * lost
        return max(least, 0.0) if (weight[weight > 0] == 1).all() else least

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        """Values of all samples, by tables."""
        return [table.gather(values) for table in self.tables]

    def hazards(self, z: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """For each stratum with an event the times of its events, increasing, and the cumulative hazard of z = 0."""
        found = {}
        for part in self.at(z).tables:
            table = part.table
            with np.errstate(over="ignore"):
                jumps = np.exp(part.rates + (self.log_events - part.top))
            for i, row in enumerate(table.order):
                times, place = np.unique(table.time[i, table.term[i] > 0], return_inverse=True)
                sums = np.cumsum(np.bincount(place, jumps[i, table.term[i] > 0]))
                found[int(self.stratum[row[0]])] = times, sums
        return found

    @cached_property
    def origin(self) -> Partial:
        """F at 0, where every refit looks."""
        return Partial(self, np.zeros(self.n))

    def at(self, z: np.ndarray, key: object = None) -> Partial:
        """F at z; what was seen last is kept, under its key."""
        if key is not None and self._last is not None and self._last[0] is key:
            return self._last[1]
        look = Partial(self, z) if z.any() else self.origin
        if key is not None:
            self._last = key, look
        return look
