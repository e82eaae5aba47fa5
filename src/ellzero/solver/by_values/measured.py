"""What a run finds out about the errors of values, and the length of differences that follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.directions import stream
from ...risks.base import Point
from .asking import Values, host, largest, plain
from .noise import Noise, difference_length, noise_of, rounding

LONGEST = 10.0  # differences, in units of the size of w
_TABLE = 7  # values for the noise
_SPACING = 1e-6  # of these, in units of the size of w
_GLANCE = 3  # of them, which is enough where there is none
_MANY = 40  # values among which a glance is not dear
_FEW = 32  # values that are left for probes and steps, whatever longer differences promise
_REPEATS = 12  # further values at the same point, if there is any noise
_ROUGH = 0.03  # share of noise in a slope
_DRAWS, _LEADS = 20, 0.1  # directions that are drawn for one that leads so far, in units of the size of w
_PLACE = 2**34  # of the random numbers for the noise, which no iteration has


class MeasuredNoise:
    """The errors of values, from values around the start, and later from whatever is asked for again.

    Attributes
    ----------
    level : float
        The standard deviation of the errors of values; NaN before it is measured. Rounding changes with the values.
    noisy : bool
        Whether it is more than rounding, so that no value is to be believed alone.
    rough : bool
        Whether slopes are: then differences are long, and two-sided where there are values enough.
    mu, given : float
        The length of differences; and what it was told to be.
    reach : float
        What counts as a long way at the start.
    straight, bent : float
        How long differences may be, since R was seen to be a parabola so far, and how long not.
    n_values : int
        How many values were spent on it.
    origin, start, n_start : array, float, int
        The start, and R there, the mean of so many values.
    """

    def __init__(self, values: Values, entropy: Sequence[int], given: float | None) -> None:
        self.values, self.entropy, self.given = values, entropy, given
        self.level, self.mu, self.n_values = math.nan, math.nan if given is None else given, 0
        self.noisy = self.rough = False
        self.squares = self.freedom = self.reach = self.straight = 0.0
        self.bent = math.inf
        self.start, self.n_start, self.origin = math.nan, 1, np.empty(0)

    _facts = (
        "level", "mu", "n_values", "noisy", "rough", "squares", "freedom", "reach", "straight", "bent",
        "start", "n_start",
    )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {**plain({name: getattr(self, name) for name in self._facts}), "origin": self.origin}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over such a state."""
        for name in self._facts:
            setattr(self, name, type(getattr(self, name))(state[name]))
        self.origin = state["origin"]

    def told(self, resolved: bool) -> Noise | None:
        """For the result; None before it is measured."""
        if math.isnan(self.level):
            return None
        return Noise(self.level, self.mu, self.n_values, not self.noisy, resolved)

    def at(self, value: float) -> None:
        """The level among values of this size."""
        self.level = self.level if self.noisy else max(rounding(value), 1e-300)

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
        scale, u = self._line(w)
        line = w + _SPACING * scale * np.outer(np.arange(1, _TABLE + 1), u)
        glance = _GLANCE if values.affordable >= _MANY else 0
        again, *rest = values.at(np.vstack([w, line[:glance]]))  # once more: errors that no table shows
        drift = abs(again - base) if math.isfinite(again) else 0.0
        table = np.append(base, rest)
        exact = self._rounding(table)
        unsure = not np.isfinite(table).all() or noise_of(table) > 10 * exact
        if unsure and drift <= 10 * exact and values.affordable >= 2 * _TABLE:  # errors that depend on w alone
            table = np.append(table, values.at(line[glance:]))
            exact = self._rounding(table)
        self.level = max(noise_of(table), exact, drift)
        self.noisy = self.level > 1e3 * exact
        if self.noisy:
            self.squares, self.freedom = self.level**2, 1.0
            more = self.repeat(point, int(min(_REPEATS, max(3, values.affordable // 10))))
            base = point._value = float(np.mean(np.append(more, base)))
            point.trusted, self.n_start = True, 1 + more.size
        self.start, self.origin = base, w
        if self.given is None:  # where values are few and nothing is known, differences that slight errors do not spoil
            self.mu = self._length(w, u, base, scale) if self.noisy or glance else 1e-4 * scale
        self.n_values, self.reach, self.straight = values.counts.n_values - before, scale, self.mu

    def _line(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """What counts as a long way, and a direction; inside Γ one that leads somewhere, if there is one."""
        rng, found = stream(self.entropy, _PLACE), (0.0, 1.0, np.zeros(w.size))
        for _ in range(_DRAWS if self.values.risk.inside else 1):
            u = rng.choice(np.array([-1.0, 1.0]), w.size)
            scale = self.scale(w, u)
            u = self.values.towards(w, scale * u) / scale
            found = max(found, (largest(u), scale, u), key=lambda line: line[0])
            if found[0] > _LEADS:
                break
        return found[1:]

    @staticmethod
    def _rounding(table: np.ndarray) -> float:
        """The errors of exact values on the line: of R, and of w where R is steep beside what it is, near R = 0."""
        table = table[np.isfinite(table)]
        steepest = largest(np.diff(table)) / _SPACING
        return max(rounding(largest(table)), rounding(steepest))

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
                self.judge(self.level / mu, 0.5 * slope / length)
                return self._longer(w, u, base, length, (bend, slope), LONGEST * scale) if self.rough else mu
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

    def _longer(
        self, w: np.ndarray, u: np.ndarray, base: float, length: float, seen: tuple[float, float], longest: float
    ) -> float:
        """How far R is a parabola along u as well as its noise lets see: so long may a two-sided difference be.

        Where the curvature was found far away, R may have been another function on the way: shorter lines tell.
        """
        if self.values.risk.inside:
            return length
        while self.values.affordable >= _FEW:
            nearer = self._bend(w, u, base, length / 4)
            if max(nearer) <= 10 * self.level or self._is_parabola(nearer, seen):
                break
            seen, length = nearer, length / 4
        else:
            return length
        while 4 * length <= longest and self.values.affordable >= _FEW:
            farther = self._bend(w, u, base, 4 * length)
            if not self._is_parabola(seen, farther):
                break
            seen, length = farther, 4 * length
        return length

    def reaches(self, length: float, w: np.ndarray, u: np.ndarray, base: float) -> bool:
        """Whether differences at w, where R is `base`, may be so long: that noise is all one sees does not tell."""
        if length <= self.straight or self.values.risk.inside:
            return True
        if length >= self.bent or self.values.affordable < _FEW:
            return False
        length = min(2 * length, 0.99 * self.bent)
        if self._is_parabola(self._bend(w, u, base, length / 4), self._bend(w, u, base, length)):
            self.straight = length
            return True
        self.bent = length
        return False

    def _is_parabola(self, near: tuple[float, float], far: tuple[float, float]) -> bool:
        """Whether what was seen four times as far is what a parabola leads to expect."""
        error = 0.02 * (far[0] + far[1])
        if not abs(far[0] - 16 * near[0]) <= 80 * self.level + error:
            return False
        return abs(far[1] - 4 * near[1]) <= 20 * self.level + error

    def _bend(self, w: np.ndarray, u: np.ndarray, base: float, length: float) -> tuple[float, float]:
        """|f(w + hu) - 2f(w) + f(w - hu)| and |f(w + hu) - f(w - hu)|; inside Γ from two values ahead."""
        inside = self.values.risk.inside
        first, second = self.values.at(np.stack([w + length * u, w + (2.0 if inside else -1.0) * length * u]))
        if inside:
            return abs((second - first) - (first - base)), 2 * abs(first - base)
        return abs((first - base) + (second - base)), abs(first - second)

    def judge(self, error: float, slope: float) -> None:
        """Slopes of this size have errors of that size: from now on they may count as rough."""
        self.rough = self.rough or (self.noisy and error > _ROUGH * slope)
