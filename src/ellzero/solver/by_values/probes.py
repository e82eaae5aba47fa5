"""Gradients of about s log d values, where s entries of them matter: random ±1 probes, and a sparse recovery."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._core.arrays import Array, like
from ..._core.validation import check_count, check_flag, check_positive
from ..._core.walsh import Walsh
from ...risks.base import Point, Risk
from ...risks.evaluation import BudgetSpent
from ...theory.parameters import Oracle as Kind
from ..oracles import Gradients
from ..result import Counts
from .asking import Values, host, plain
from .measured import LONGEST, MeasuredNoise
from .noise import Noise
from .recovery import DENSE, Displacements, Recovery, recover

FIRST = 24  # probes of a first guess
_HASTY = 16  # probes for a step that is tried at once
_FEWEST = 5  # values without which no probe is made
_FEW = 8  # probes that any gradient has, where they can be paid for
_STEPS = 6  # values for steps along it
_GROWTH = 1.5
_SMALL = 128  # probes that are not dear
_SHARE = 0.5  # of what is left that one gradient may cost
_DEAR = 0.8  # or that a first guess may, where little is left


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
        central = None if self.central is None else check_flag(self.central, "central")
        return ProbedGradients(risk, counts, entropy, mu, central, most)


class ProbedGradients(Gradients):
    """A `SparseProbes` oracle bound to one run.

    Attributes
    ----------
    errors : MeasuredNoise
        Those of values, and the length of differences.
    least : int
        Probes that a gradient has at least: raised where a better one is wanted.
    may_haste : bool
        Whether a step along what few probes tell may be tried first; whoever makes such steps says so.
    short : bool
        Whether there are too few values for two-sided differences.
    flat : bool
        Whether not one of the last probes saw any change.
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
        self.errors = MeasuredNoise(self.values, entropy, mu)
        self.central, self.most = central, most
        self.least, self.n_probes, self.spent = min(FIRST, self.complete), 0, 0
        self.short = self.resolved = self.flat = self.hasty = self.may_haste = False
        self.last: Recovery | None = None
        self.known, self.kept, self.began = np.empty(0, dtype=np.intp), np.empty(0), 0

    # What a resumed run needs.

    _facts = ("least", "n_probes", "spent", "resolved", "flat", "hasty", "began")

    def state(self) -> dict[str, Any]:
        own = plain({name: getattr(self, name) for name in self._facts})
        return {**own, **self.errors.state(), "known": self.known, "kept": self.kept}

    def restore(self, state: dict[str, Any]) -> None:
        self.errors.restore(state)
        for name in self._facts:
            setattr(self, name, type(getattr(self, name))(state[name]))
        self.known, self.kept = state["known"].astype(np.intp), state["kept"]

    @property
    def noise(self) -> Noise | None:
        """What is known of the noise."""
        return self.errors.told(self.resolved)

    @property
    def complete(self) -> int:
        """How many probes tell any gradient; inside Γ, where several may lead to one place, all of them and back."""
        n = max(_FEW, 1 << self.values.risk.n_features.bit_length()) * (2 if self.values.risk.inside else 1)
        return n if self.most is None else min(n, self.most)

    # Gradients.

    def __call__(self, point: Point, t: int) -> Array:
        if math.isnan(self.errors.level):
            self.errors.measure(point)
        self.last = self.look(point, t)
        return like(self.last.gradient, point.w)

    def look(self, point: Point, t: int) -> Recovery:
        """The gradient from as many probes as it takes to explain slopes that were kept back."""
        if self.values.affordable < (_FEW if self.errors.noisy else _FEWEST):
            raise BudgetSpent
        base, before = self.values.base(point), self.values.counts.n_values
        self.short = self.values.affordable < 2 * min(FIRST, self.complete) + _STEPS
        self.errors.at(base)
        self.began = self.began if self.kept.size else t
        w, walsh = host(point), Walsh(self.values.risk.n_features, [*self.entropy, self.began])
        sides = 2 if self._two_sided else 1
        slopes, moves = self.kept, np.empty((0, w.size))
        most = min(self._most(sides) + slopes.size, max(self.complete, self.least))
        haste = self._in_haste(most)
        q = min(2 * slopes.size or (_HASTY if haste else min(FIRST, self.complete)), most)
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
        self._learn(found, slopes, w, base, walsh)
        return replace(found, gradient=found.standing_out()) if self.errors.noisy else found

    def lengthen(self) -> bool:
        """Take longer differences for a function that has steps; whether that was possible."""
        if self.errors.given is not None or self.errors.mu >= self.errors.reach:
            return False
        self.errors.mu = min(1e3 * self.errors.mu, self.errors.reach)
        return True

    def _learn(self, found: Recovery, slopes: np.ndarray, w: np.ndarray, base: float, walsh: Walsh) -> None:
        """A length of differences, and how many sides they have, from what the last ones told."""
        worth, error = slopes[np.isfinite(slopes)], self._error
        if worth.size:
            self.errors.judge(error, float(np.std(worth)))
        if not self.errors.noisy or self.errors.given is not None:
            return
        if found.spread <= 1.3 * error:  # all is explained but noise: longer differences have less of it
            u, mu = walsh.rows(0, 1)[0], self.errors.mu
            longer = min(1.6 * mu, max(mu, LONGEST * self.errors.scale(w, u)))
            self.errors.mu = longer if self.errors.reaches(longer, w, u, base) else mu
        elif found.unexplained <= DENSE and found.spread > 3 * error:  # explained, but curved
            self.errors.mu /= 1.6

    @property
    def _error(self) -> float:
        """The standard deviation of a slope, of noise alone."""
        return self.errors.level / self.errors.mu * (math.sqrt(0.5) if self._two_sided else 1.0)

    @property
    def _two_sided(self) -> bool:
        if self.central is not None:
            return self.central
        return self.errors.rough and not self.short

    def _most(self, sides: int) -> int:
        """Probes that one gradient may have."""
        left = self.values.affordable / sides
        guess = max(min(FIRST, self.complete, _DEAR * left), min(_FEWEST, left - 2))
        most = self.complete if not self.errors.noisy else max(self.complete, self.least)
        return max(1, int(min(most, max(_SHARE * left, guess))))

    def _in_haste(self, most: int) -> bool:
        """Whether a step along what few probes tell is tried first: where d is small, at the start or the end."""
        small = 2 * FIRST < self.complete <= _SMALL and not (self.errors.noisy or self.values.risk.inside)
        return self.may_haste and small and (self.n_probes == 0 or most < self.complete)

    def _slopes(
        self, w: np.ndarray, base: float, walsh: Walsh, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The slopes along some of the probes; and where these led, in units of μ, unless that is along them."""
        slopes, moved, mu = [], [], self.errors.mu
        for start, end in walsh.spans(first, last):
            u = walsh.rows(start, end)
            if self.values.risk.inside:
                u[np.arange(start, end) // walsh.n_rows % 2 == 1] *= -1
            points = w + mu * u
            placed = self.values.placed(points)
            if placed is not points:
                slopes.append((self.values.at(placed) - base) / mu)
                moved.append((placed - w) / mu)
            elif self._two_sided:
                both = self.values.at(np.vstack([points, w - mu * u]))
                slopes.append((both[: len(u)] - both[len(u) :]) / (2 * mu))
            else:
                slopes.append((self.values.at(points) - base) / mu)
        return np.concatenate(slopes), np.vstack(moved) if moved else None

    def _explained(self, found: Recovery) -> bool:
        """Whether the gradient explains what it was not made from, but for noise."""
        if found.unexplained <= DENSE:
            return True
        return found.spread <= 2 * self._error and (found.significant().size > 0 or not self.errors.noisy)
