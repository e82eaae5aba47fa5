"""An attack on a risk: does it do what the loop, the theory and the certificates rely on?"""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.arrays import finfo_eps, index_like, norm, to_host
from ..risks.base import Risk


def check_risk(risk: Risk, *, rng: Any = None, n_points: int = 5) -> None:
    """Look for a point at which a risk breaks its word.

    At random dense and sparse points: the gradient against finite differences of the value, points with a
    known support against those without, batches of terms against the whole, curvature against `smoothness`
    and `strong_convexity`, values against `lower_bound` and convexity, `restrict` against the whole risk.

    Parameters
    ----------
    risk : Risk
        Yours, or one of ours.
    rng : None, int or numpy.random.Generator, optional
        Where the points come from; the same seed gives the same points.
    n_points : int, default 5
        How many points are tried; half of them are sparse.

    Raises
    ------
    AssertionError
        With the counterexample in words and numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from ellzero.risks import Smooth
    >>> from ellzero.testing import check_risk
    >>> check_risk(Smooth(lambda w: w @ w, lambda w: 2 * w, n_features=3, smoothness=2.0))
    >>> check_risk(Smooth(lambda w: w @ w, lambda w: w, n_features=3), rng=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: gradient is not the derivative of value: <gradient(w), u>: ...
    """
    if not isinstance(risk, Risk):
        raise TypeError(f"risk must be a Risk, got {risk!r}")
    attack = _Attack(risk, np.random.default_rng(rng), n_points)
    for w in attack.points:
        attack.point(w)
        attack.gradient(w)
        attack.terms(w)
        attack.curvature(w)
        attack.lower_bound(w)
        attack.restriction(w)
    attack.convexity()


class _Attack:
    """The points at which a risk is tried, and the trials."""

    def __init__(self, risk: Risk, rng: np.random.Generator, n_points: int) -> None:
        self.risk, self.rng = risk, rng
        self.p = risk.n_features
        zero = risk.zero
        assert tuple(zero.shape) == (self.p,), f"zero has shape {tuple(zero.shape)}, not ({self.p},)"
        assert not to_host(zero).any(), "zero is not the origin"
        self.eps = finfo_eps(zero)
        self.points = [self.random_point(sparse=bool(i % 2)) for i in range(n_points)]
        # what rounding may do to values and gradients
        seen = [np.zeros(self.p), *self.points]
        self.value_noise = 1e3 * self.eps * max(abs(self.value(w)) for w in seen)
        self.gradient_noise = 1e3 * self.eps * max(norm(self.slope(w)) for w in seen)

    def random_point(self, sparse: bool) -> np.ndarray:
        """A point at which the risk is finite, in numbers that its dtype holds exactly."""
        w = self.rng.standard_normal(self.p)
        if sparse:
            w[self.rng.permutation(self.p)[max(1, self.p // 4) :]] = 0.0
        while not math.isfinite(self.value(w)):
            assert w.any(), "value is finite neither at 0 nor at any multiple of a random point"
            w = 0.5 * w if norm(w) > 1e-9 else 0 * w
        return np.array(to_host(self.risk.as_vector(w)), dtype=np.float64)

    def direction(self) -> np.ndarray:
        u = self.rng.standard_normal(self.p)
        return u / norm(u)

    def value(self, w: np.ndarray) -> float:
        return self.risk.value(w.copy())  # a copy, so that a change of the argument shows in `point` alone

    def slope(self, w: np.ndarray) -> np.ndarray:
        gradient = self.risk.gradient(w.copy())
        shape = tuple(gradient.shape)
        assert shape == (self.p,), f"gradient has shape {shape}, not ({self.p},), at {_show(w)}"
        return np.asarray(to_host(gradient), dtype=np.float64)

    def point(self, w: np.ndarray) -> None:
        """at(w), with the support known or not, says what value and gradient say."""
        value, gradient = self.value(w), self.slope(w)
        for support, how in ((None, "at(w)"), (np.flatnonzero(w), "at(w, support)")):
            vector = self.risk.as_vector(w.copy())
            point = self.risk.at(vector, support if support is None else index_like(support, vector))
            got = point.value, to_host(point.gradient)
            assert np.array_equal(to_host(vector), w), f"value or gradient changes its argument, {_show(w)}"
            _same(got[0], value, self.value_noise, f"{how}.value is not value(w)", w)
            _same(got[1], gradient, self.gradient_noise, f"{how}.gradient is not gradient(w)", w)

    def gradient(self, w: np.ndarray) -> None:
        """Central differences at two step sizes, whose disagreement measures how far they can be trusted."""
        gradient = self.slope(w)
        h = self.eps ** (1 / 3) * max(1.0, norm(w))
        along = [self.direction(), self.direction()]
        if gradient.any():
            along.append(gradient / norm(gradient))
        for u in along:
            fine, coarse = ((self.value(w + s * u) - self.value(w - s * u)) / (2 * s) for s in (h, 2 * h))
            tolerance = abs(fine - coarse) + 0.1 * self.value_noise / h + self.gradient_noise
            _same(gradient @ u, fine, tolerance, "gradient is not the derivative of value: <gradient(w), u>", w, u)

    def terms(self, w: np.ndarray) -> None:
        """The terms of a random partition average to the whole, and a repeated term counts twice."""
        n = self.risk.n_terms
        if n == 1 or not self.risk.has_terms:
            return
        whole, total, size = self.slope(w), np.zeros(self.p), 0.0
        for rows in np.array_split(self.rng.permutation(n), min(n, 4)):
            part = (rows.size / n) * self._slope_of(w, rows)
            total, size = total + part, size + norm(part)
        tolerance = self.gradient_noise + 1e3 * self.eps * size
        _same(total, whole, tolerance, "gradient(w, rows) over all rows does not average to gradient(w)", w)
        i, j = (int(row) for row in self.rng.permutation(n)[:2])
        first, second = self._slope_of(w, np.array([i])), self._slope_of(w, np.array([j]))
        tolerance = self.gradient_noise + 1e3 * self.eps * (norm(first) + norm(second))
        message = f"gradient(w, rows=[{i}, {i}, {j}]) is not the mean of its three terms"
        _same(self._slope_of(w, np.array([i, i, j])), (2 * first + second) / 3, tolerance, message, w)

    def _slope_of(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.asarray(to_host(self.risk.gradient(w.copy(), rows)), dtype=np.float64)

    def curvature(self, w: np.ndarray) -> None:
        """Gradient differences lie between the constants, also where power iterations drive them apart."""
        smoothness, strong_convexity = self.risk.smoothness, self.risk.strong_convexity
        # an estimate promises nothing
        L = smoothness.value if smoothness.source != "estimate" else math.inf
        nu = strong_convexity.value if strong_convexity.source != "estimate" else -math.inf
        here = self.slope(w)
        for seek_small in (False, True):
            u = self.direction()
            h = self.rng.choice([1e-2, 1.0]) * (1 + norm(w))
            for _ in range(15):
                bend = (self.slope(w + h * u) - here) / h
                if not np.isfinite(bend).all():
                    break
                along = float(bend @ u)
                slack = 1e-6 * norm(bend) + 2 * self.gradient_noise / h
                words = f"at w = {_show(w)} and w + {h:.3g} u, u = {_show(u)}: curvature {along:.8g}"
                assert along <= L + slack, f"smoothness = {L:.8g} is too small {words}"
                assert along >= nu - slack, f"strong_convexity = {nu:.8g} is too large {words}"
                bend = (L if math.isfinite(L) else 0.0) * u - bend if seek_small else bend
                if norm(bend) <= slack:
                    break
                u = bend / norm(bend)

    def lower_bound(self, w: np.ndarray) -> None:
        """Not passed by steepest descent."""
        bound, step, value = self.risk.lower_bound, 1.0, self.value(w)
        for _ in range(20):
            words = f"value {value:.8g} at w = {_show(w)}"
            assert value >= bound - self.value_noise, f"lower_bound = {bound:.8g} is too large: {words}"
            gradient = self.slope(w)
            while not (trial := self.value(w - step * gradient)) <= value and step > 1e-12:
                step *= 0.5
            w, value, step = w - step * gradient, trial, 2 * step

    def restriction(self, w: np.ndarray) -> None:
        """restrict(support) is the whole risk on vectors with that support."""
        support = np.sort(self.rng.permutation(self.p)[: max(1, self.p // 2)])
        part, size = self.risk.restrict(support), support.size
        assert part.n_features == size, f"restrict to {size} coordinates has n_features = {part.n_features}"
        embedded = np.zeros(self.p)
        embedded[support] = w[support]
        values = part.value(w[support]), self.value(embedded)
        gradients = to_host(part.gradient(w[support])), self.slope(embedded)[support]
        message = f"of restrict({support.tolist()}) is not that of the whole"
        value_noise = self.value_noise + 1e3 * self.eps * abs(values[1])
        _same(*values, value_noise, f"value {message}", embedded)
        gradient_noise = self.gradient_noise + 1e3 * self.eps * norm(gradients[1])
        _same(*gradients, gradient_noise, f"gradient {message}", embedded)

    def convexity(self) -> None:
        """Between two points R lies below the chord."""
        if not self.risk.convex:
            return
        for x, y in pairwise([*self.points, np.zeros(self.p)]):
            middle, ends = self.value((x + y) / 2), (self.value(x) + self.value(y)) / 2
            assert middle <= ends + self.value_noise, (
                f"not convex: value {middle:.8g} halfway between x = {_show(x)} and y = {_show(y)} exceeds "
                f"{ends:.8g}, the mean of the values there"
            )


def _same(got: Any, expected: Any, tolerance: float, message: str, w: np.ndarray, u: Any = None) -> None:
    gap = float(np.max(np.abs(np.asarray(got) - np.asarray(expected))))
    if gap <= tolerance:
        return
    words = f"{message}: {_show(got)} against {_show(expected)} at w = {_show(w)}"
    raise AssertionError(words if u is None else f"{words} along u = {_show(u)}")


def _show(x: Any) -> str:
    return np.array2string(np.asarray(x), precision=8, threshold=12, max_line_width=10_000)
