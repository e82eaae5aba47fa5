"""A lower bound of R on one support: a convex problem, of which a point next to the best is known.

Let x be that point, g the gradient there, v = x - ηg, p = Π(v) its projection onto the slice of Γ and r = x - p. The
projection says <v - p, w - p> <= 0 for every member w, hence

    <g, w - x>  >=  <r, w - x>/η - e₀,    e₀ = <p - v, r>/η.

If R is curved by at least m in the metric D as long as ||D(w - x)|| <= ρ, then with e = ||D⁻¹r||/η

    R(w) >= R(x) - e₀ - (e + e₀/ρ)²/(2m)    provided that mρ >= e + e₀/ρ,

for all members w: within ρ because -et + ½mt² >= -e²/(2m), and beyond it because the slope of R along the way from x to
w, at least -e||D(w - x)|| - e₀ at x, is no longer negative at the distance ρ. Where R is flat but members are at most
`extent` away from x, R(w) >= R(x) - e₀ - e·extent in the Euclidean metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..risks._accuracy import EPS, Measured

_SIZES = 4.0 ** np.arange(-8, 13)  # of η, relative to where the step is as long as x
_REACHES = 4.0 ** -np.arange(0.0, 16.0, 1.5)  # relative to where predictions change by about 1


@dataclass
class _Residual:
    """What a projected step leaves: r/η entry by entry with all doubts, and e₀; `spread` is a doubt in all entries."""

    entries: np.ndarray
    offset: float
    spread: float

    def norm(self, D: np.ndarray) -> float:
        """e in the metric D; the doubt that is known by its Euclidean norm alone counts by the smallest entry."""
        return 1.001 * float(np.linalg.norm(self.entries / D)) + (self.spread / float(D.min()) if self.spread else 0.0)


def bound_on_support(
    here: Measured,
    x: np.ndarray,
    project: Callable[[np.ndarray], np.ndarray],
    accuracy: float,
    extent: float,
) -> float:
    """A number that R does not go below on the slice of Γ.

    Parameters
    ----------
    here : Measured
        R at x.
    x : array of shape (s,)
        A point of the slice, the better the sharper the bound.
    project : callable
        The projection onto the slice.
    accuracy : float
        Its error, relative to the length of what is projected.
    extent : float
        No member of the slice is farther from x; may be infinite.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        residuals = _residuals(here, x, project, accuracy)
        base = here.value - here.error
        bounds = [base - r.offset - _flat_loss(here, r, extent) for r in residuals]
        D = _metric(here)
        for reach in _reaches(here, D):
            m = _curvature(here, reach, D)
            losses = [_curved_loss(r, D, m, reach) for r in residuals]
            bounds += [base - r.offset - loss for r, loss in zip(residuals, losses, strict=True)]
            if min(losses, default=math.inf) < math.inf:
                break  # the largest reach that will do: shorter ones are hardly better curved
    return max((b for b in bounds if not math.isnan(b)), default=-math.inf)


def _residuals(
    here: Measured, x: np.ndarray, project: Callable[[np.ndarray], np.ndarray], accuracy: float
) -> list[_Residual]:
    slopes, doubt = here.slopes
    s = x.size
    g, rest = slopes[:s], np.abs(slopes[s:]) + doubt[s:]  # the intercept is free: all of its slope is left over
    length, steep = float(np.linalg.norm(x)), float(np.linalg.norm(g))
    if steep == 0 or s == 0:
        return [_Residual(np.concatenate([doubt[:s], rest]), 0.0, 0.0)]
    found = []
    for eta in min((length or 1.0) / steep, 1e100) * _SIZES:
        v = x - eta * g
        p = project(v)
        r, normal = x - p, v - p
        rounded = 2 * EPS * (np.abs(x) + eta * np.abs(g))  # of v
        off = accuracy * float(np.linalg.norm(v))
        lean = float(np.linalg.norm(normal)) + float(np.linalg.norm(r)) + 3 * off
        offset = -float(normal @ r) + 4 * (s + 4) * EPS * float(np.abs(normal) @ np.abs(r)) + off * lean
        entries = (np.abs(r) + rounded) / eta + doubt[:s]
        found.append(_Residual(np.concatenate([entries, rest]), max(offset, 0.0) / eta, off / eta))
    return found


def _flat_loss(here: Measured, r: _Residual, extent: float) -> float:
    """e·extent, and what a matrix that is not quite semidefinite may take."""
    if not math.isfinite(extent) or here.n_free:
        return math.inf
    one = np.ones(r.entries.size)
    return r.norm(one) * extent - 0.5 * min(_curvature(here, math.inf, one), 0.0) * extent**2


def _curved_loss(r: _Residual, D: np.ndarray, m: float, reach: float) -> float:
    e = r.norm(D)
    pull = e + (r.offset / reach if r.offset else 0.0)
    if not m > 0 or (math.isfinite(reach) and not m * reach >= 1.001 * pull):
        return math.inf
    return 1.001 * pull * pull / (2 * m)


def _metric(here: Measured) -> np.ndarray:
    """The size of a unit of each unknown, as R feels it at x."""
    slopes, _ = here.slopes
    diagonal = np.diag(here.floor(0.0, np.ones(slopes.size))[0])
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def _reaches(here: Measured, D: np.ndarray) -> list[float]:
    """Distances to try, the largest first: all of space for those who are curved everywhere."""
    farthest = here.farthest(D)
    return [math.inf, *(_REACHES / farthest)] if farthest > 0 else [math.inf]


def _curvature(here: Measured, reach: float, D: np.ndarray) -> float:
    """The smallest eigenvalue of the Hessian in the metric D, from below, within reach."""
    M, less = here.floor(reach, D)
    scaled = M / D / D[:, None]
    if not np.isfinite(scaled).all():
        return -math.inf
    if not scaled.size:
        return math.inf
    return float(np.linalg.eigvalsh(scaled)[0]) - less - 8 * D.size * EPS * float(np.abs(scaled).sum(axis=1).max())
