"""Gradients of about s log d values, where s entries of them matter: random ±1 probes, and a sparse recovery."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._core.arrays import Array, like
from ..._core.directions import stream
from ..._core.validation import check_count, check_positive
from ..._core.walsh import Walsh
from ...risks.base import Point, Risk
from ...risks.evaluation import BudgetSpent
from ...theory.parameters import Oracle as Kind
from ..oracles import Gradients
from ..result import Counts
from .asking import Values, host, largest, plain
from .noise import Noise, difference_length, noise_of, rounding
from .recovery import DENSE, Displacements, Recovery, recover

FIRST = 24  # probes of a first guess
_HASTY = 16  # probes for a step that is tried at once
_FEWEST = 5  # values without which no probe is made
_FEW = 8  # probes that any gradient has, where they can be paid for
_GROWTH = 1.5
_SMALL = 128  # probes that are not dear
_TABLE = 7  # values for the noise
_GLANCE = 3  # of them, which is enough where there is none
_SHORT = 4  # fewer tell curvature from noise no more
_REPEATS = 12  # further ones at the same point, if there is any
_ROUGH = 0.03  # share of noise in a slope
LONGEST = 10.0  # differences, in units of the size of w
_SHARE = 0.5  # of what is left that one gradient may cost
_PLACE = 2**34  # of the random numbers for the noise, which no iteration has


@dataclass(frozen=True)
class SparseProbes:
    """ĝ = argmin Σ_r (slope_r - a - <u_r, g>)² over sparse g, from the slopes of R along random u_r in {-1, 1}^d.

    A gradient in which s entries matter takes about s log d values instead of d: compressed sensing. How many entries
    to believe is decided on slopes that were kept back; while these are not explained there are more probes, up to all
    of an orthogonal set, from which any gradient follows.

    Parameters
    ----------
    mu : float, optional
        The length of the difference in each coordinate. By default it follows from the noise, which is measured once
        by a few values close together.
    central : bool, optional
        (R(w + μu) - R(w - μu))/2μ: twice the values, no error from curvature. By default where values are noisy.
    max_probes : int, optional
        For one gradient; by default all that are orthogonal, the next power of two above d.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> risk = ez.risks.BlackBox(lambda w: float((w[3] - 1) ** 2 + (w[500] + 2) ** 2), n_features=1000)
    >>> method = ez.Method(oracle=ez.SparseProbes(), step="search")
    >>> res = ez.minimize(risk, k=2, method=method, max_queries=150, rng=0)
    >>> res.support.tolist()
    [3, 500]
    """

    mu: float | None = None
    central: bool | None = None
    max_probes: int | None = None
    kind: ClassVar[Kind] = "directions"

    def bind(self, risk: Risk, counts: Counts, entropy: Sequence[int]) -> ProbedGradients:
        mu = None if self.mu is None else check_positive(self.mu, "mu")
        most = None if self.max_probes is None else check_count(self.max_probes, "max_probes", low=8)
        return ProbedGradients(risk, counts, entropy, mu, self.central, most)


class ProbedGradients(Gradients):
    """A `SparseProbes` oracle bound to one run.

    Attributes
    ----------
    level : float
        The standard deviation of the errors of values; NaN before it is measured. Rounding changes with the values.
    noisy : bool
        Whether it is more than rounding, so that no value is to be believed alone.
    rough : bool
        Whether slopes are: then differences are long, and two-sided.
    mu : float
        The length of differences.
    least : int
        Probes that a gradient has at least: raised where a better one is wanted.
    flat : bool
        Whether not one of the last probes saw any change.
    reach : float
        What counts as a long way at the start.
    last : Recovery
        What the last probes told.
    hasty : bool
        Whether the last gradient was left unexplained on purpose, to try a step along it first.
    kept, began : array of float, int
        Its slopes, for the next gradient if that is one at the same point, and the iteration that they belong to.
    known : array of int
        Entries that mattered when the last gradient was explained: the first that are tried for the next one.
    spent, n_probes : int
        Values and probes of the last gradient.
    """

    def __init__(
        self,
        risk: Risk,
        counts: Counts,
        entropy: Sequence[int],
        mu: float | None,
        central: bool | None,
        most: int | None,
    ) -> None:
        self.values, self.entropy = Values(risk, counts), entropy
        self.given, self.central, self.most = mu, central, most
        self.level, self.mu, self.n_table = math.nan, math.nan if mu is None else mu, 0
        self.least, self.n_probes, self.spent = FIRST, 0, 0
        self.resolved = self.noisy = self.rough = self.flat = self.hasty = False
        self.squares = self.freedom = self.reach = 0.0
        self.last: Recovery | None = None
        self.known, self.kept, self.began = np.empty(0, dtype=np.intp), np.empty(0), 0

    # What a resumed run needs.

    _facts = (
        "level",
        "mu",
        "n_table",
        "least",
        "n_probes",
        "spent",
        "resolved",
        "noisy",
        "rough",
        "squares",
        "freedom",
        "reach",
        "flat",
        "hasty",
        "began",
    )

    def state(self) -> dict[str, Any]:
        return {**plain({name: getattr(self, name) for name in self._facts}), "known": self.known, "kept": self.kept}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self._facts:
            setattr(self, name, type(getattr(self, name))(state[name]))
        self.known, self.kept = state["known"].astype(np.intp), state["kept"]

    @property
    def noise(self) -> Noise | None:
        """What is known of the noise."""
        return (
            None if math.isnan(self.level) else Noise(self.level, self.mu, self.n_table, not self.noisy, self.resolved)
        )

    @property
    def complete(self) -> int:
        """How many probes tell any gradient."""
        n = max(_FEW, 1 << self.values.risk.n_features.bit_length())
        return n if self.most is None else min(n, self.most)

    # The noise.

    def measure(self, point: Point) -> None:
        """The noise, and a length for differences, by values around a point; nothing if it is not finished."""
        try:
            self._measure(point)
        except BaseException:
            self.level = math.nan
            raise

    def _measure(self, point: Point) -> None:
        base, values, w = self.values.base(point), self.values, host(point)
        before = values.counts.n_values
        u = stream(self.entropy, _PLACE).choice(np.array([-1.0, 1.0]), w.size)
        scale = self.scale(w, u)
        u = self.values.towards(w, scale * u) / scale
        n = int(min(_TABLE, values.affordable // 10))
        self.level = rounding(base)
        if n >= _SHORT:
            line = w + 1e-6 * scale * np.outer(np.arange(1, n + 1), u)
            again, *table = values.at(np.vstack([w, line[:_GLANCE]]))  # once more: errors that no table shows
            drift = abs(again - base) if math.isfinite(again) else 0.0
            exact = rounding(largest(np.append(base, table)[np.isfinite(np.append(base, table))]))
            if not np.isfinite(table).all() or max(noise_of(np.append(base, table)), drift) > 10 * exact:
                table = [*table, *values.at(line[_GLANCE:])]
            self.level = max(noise_of(np.append(base, table)), exact, drift)
            self.noisy = self.level > 1e3 * exact
        if self.noisy:
            self.squares, self.freedom = self.level**2, 1.0
            again = self.repeat(point, int(min(_REPEATS, self.values.affordable // 10)))
            base = point._value = float(np.mean(np.append(again, base)))
            point.trusted = True
        if self.given is None:
            self.mu = self._length(w, u, base, scale) if n >= _SHORT else 1e-6 * scale
        self.n_table, self.reach = values.counts.n_values - before, scale

    def repeat(self, point: Point, n: int) -> np.ndarray:
        """n further values at a point, whose differences improve the estimate of the noise."""
        if n < 2 or self.values.risk.noise_changes:
            return np.empty(0)
        again = self.values.at(np.repeat(host(point)[None, :], n, axis=0))
        again = np.asarray(again[np.isfinite(again)])
        if again.size > 1 and (again != again[0]).any():  # the same error each time tells nothing of its size
            self.squares += float(np.sum((again - again.mean()) ** 2))
            self.freedom += again.size - 1
            self.level = math.sqrt(self.squares / self.freedom)
        return again

    def scale(self, w: np.ndarray, u: np.ndarray) -> float:
        """What counts as a long way here: the size of w, or 1, or the size of Γ."""
        return max(largest(w), largest(self.values.towards(w, u))) or 1.0

    def _length(self, w: np.ndarray, u: np.ndarray, base: float, scale: float) -> float:
        """μ from the curvature along u, which is looked for at longer and longer distances until it stands out."""
        length, factor = 1e-2 * scale, 8.0
        for _ in range(12):
            if self.values.affordable < 8:
                break
            if self.values.risk.inside:
                length = min(length, 0.5 * scale)
            bend, slope = self._bend(w, u, base, length)
            if not math.isfinite(bend):
                length /= factor  # f is not defined so far away
                continue
            if bend > 10 * self.level:
                mu = difference_length(self.level, bend / length / length, length)
                self._judge_slopes(self.level / mu, 0.5 * slope / length)
                return self._longer(w, u, base, length, LONGEST * scale) if self.rough else mu
            if slope > 100 * self.level:
                return length  # straight as far as one can see
            if (length > 10 * scale and self.noisy) or (self.values.risk.inside and length >= 0.5 * scale):
                break
            length *= factor
            factor *= factor
            if length > 1e150:
                break
        self.rough = self.noisy
        return min(length, scale)

    def _longer(self, w: np.ndarray, u: np.ndarray, base: float, length: float, longest: float) -> float:
        """How far R is a parabola along u as well as its noise lets see: so long may a two-sided difference be."""
        bend, slope = self._bend(w, u, base, length)
        while math.isfinite(bend) and 4 * length <= longest and self.values.affordable >= 50:
            if self.values.risk.inside:
                break
            farther = self._bend(w, u, base, 4 * length)
            error = 0.02 * (farther[0] + farther[1])
            if not abs(farther[0] - 16 * bend) <= 40 * self.level * 2 + error:
                break
            if not abs(farther[1] - 4 * slope) <= 10 * self.level * 2 + error:
                break
            (bend, slope), length = farther, 4 * length
        return length

    def _bend(self, w: np.ndarray, u: np.ndarray, base: float, length: float) -> tuple[float, float]:
        """|f(w + hu) - 2f(w) + f(w - hu)| and |f(w + hu) - f(w - hu)|; inside Γ from two values ahead."""
        inside = self.values.risk.inside
        first, second = self.values.at(np.stack([w + length * u, w + (2.0 if inside else -1.0) * length * u]))
        if inside:
            return abs((second - first) - (first - base)), 2 * abs(first - base)
        return abs((first - base) + (second - base)), abs(first - second)

    def _judge_slopes(self, error: float, slope: float) -> None:
        self.rough = self.rough or (self.noisy and error > _ROUGH * slope)

    # Gradients.

    def __call__(self, point: Point, t: int) -> Array:
        if math.isnan(self.level):
            self.measure(point)
        self.last = self.look(point, t)
        return like(self.last.gradient, point.w)

    def look(self, point: Point, t: int) -> Recovery:
        """The gradient from as many probes as it takes to explain slopes that were kept back."""
        if self.values.affordable < (FIRST if self.noisy else _FEWEST):
            raise BudgetSpent
        base, before = self.values.base(point), self.values.counts.n_values
        self.level = self.level if self.noisy else max(rounding(base), 1e-300)
        self.began = self.began if self.kept.size else t
        w, walsh = host(point), Walsh(self.values.risk.n_features, [*self.entropy, self.began])
        sides = 2 if self._two_sided else 1
        slopes, moves = self.kept, np.empty((0, w.size))
        most = min(self._most(sides) + slopes.size, max(self.complete, self.least))
        haste = self._in_haste(most)
        q = min(2 * slopes.size or (_HASTY if haste else FIRST), most)
        while True:
            new, where = self._slopes(w, base, walsh, slopes.size, q)
            slopes = np.append(slopes, new)
            probes: Any = walsh
            if where is not None:
                moves = np.vstack([moves, where])
                units = np.sqrt(np.mean(moves**2, axis=0))
                units[units == 0] = math.inf
                probes = Displacements(moves / units)
            found = recover(probes, slopes, self._error, self.known)
            if where is not None:
                found = replace(found, gradient=found.gradient / units, units=units)
            enough = self._explained(found) and q >= self.least
            self.hasty = haste and not self._explained(found) and q < most
            if enough or self.hasty or q >= most or self.values.affordable < sides:
                break
            q = min(math.ceil(_GROWTH * q), most)
        self.kept = slopes if self.hasty else np.empty(0)
        self.flat = not slopes[np.isfinite(slopes)].any()
        self.known = np.flatnonzero(found.gradient) if found.unexplained <= DENSE else self.known
        self.n_probes, self.spent = q, self.values.counts.n_values - before
        self.resolved = self.resolved or found.significant().size > 0
        self._learn(found, slopes, w, walsh)
        return replace(found, gradient=found.standing_out()) if self.noisy else found

    def lengthen(self) -> bool:
        """Take longer differences for a function that has steps; whether that was possible."""
        if self.given is not None or self.mu >= self.reach:
            return False
        self.mu = min(1e3 * self.mu, self.reach)
        return True

    def _learn(self, found: Recovery, slopes: np.ndarray, w: np.ndarray, walsh: Walsh) -> None:
        """A length of differences, and how many sides they have, from what the last ones told."""
        worth, error = slopes[np.isfinite(slopes)], self._error
        if worth.size:
            self._judge_slopes(error, float(np.std(worth)))
        if not self.noisy or self.given is not None:
            return
        if found.spread <= 1.3 * error:  # all is explained but noise: longer differences have less of it
            self.mu = min(1.6 * self.mu, max(self.mu, LONGEST * self.scale(w, walsh.rows(0, 1)[0])))
        elif found.unexplained <= DENSE and found.spread > 3 * error:  # explained, but curved
            self.mu /= 1.6

    @property
    def _error(self) -> float:
        """The standard deviation of a slope, of noise alone."""
        return self.level / self.mu * (math.sqrt(0.5) if self._two_sided else 1.0)

    @property
    def _two_sided(self) -> bool:
        return self.rough if self.central is None else self.central

    def _most(self, sides: int) -> int:
        """Probes that one gradient may have."""
        left = _SHARE * self.values.affordable / sides
        most = self.complete if not self.noisy else max(self.complete, self.least)
        return max(1, int(min(most, left)))

    def _in_haste(self, most: int) -> bool:
        """Whether a step along what few probes tell is tried first: where d is small, at the start or the end."""
        small = 2 * FIRST < self.complete <= _SMALL and not (self.noisy or self.values.risk.inside)
        return small and (self.n_probes == 0 or most < self.complete)

    def _slopes(
        self, w: np.ndarray, base: float, walsh: Walsh, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The slopes along some of the probes; and where these led, in units of μ, unless that is along them."""
        slopes, moved = [], []
        for start, end in walsh.spans(first, last):
            u = walsh.rows(start, end)
            points = w + self.mu * u
            placed = self.values.placed(points)
            if placed is not points:
                slopes.append((self.values.at(placed) - base) / self.mu)
                moved.append((placed - w) / self.mu)
            elif self._two_sided:
                both = self.values.at(np.vstack([points, w - self.mu * u]))
                slopes.append((both[: len(u)] - both[len(u) :]) / (2 * self.mu))
            else:
                slopes.append((self.values.at(points) - base) / self.mu)
        return np.concatenate(slopes), np.vstack(moved) if moved else None

    def _explained(self, found: Recovery) -> bool:
        """Whether the gradient explains what it was not made from, but for noise."""
        if found.unexplained <= DENSE:
            return True
        return found.spread <= 2 * self._error and (found.significant().size > 0 or not self.noisy)
