"""The cross-entropy of several classes."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.arrays import Array, finfo_eps, to_host
from .._core.directions import Directions
from ..design import Design
from .accuracy import EPS
from .base import Point, Risk
from .class_curvature import ClassCurvature
from .outputs import SeveralOutputs
from .parted_classes import PartedClassCurvature
from .per_row import check_labels
from .weightings import Weightings

_CACHED = 2**18  # numbers that fit in a cache


class Multinomial(SeveralOutputs):
    """R(w) = Σ_i ω_i [log Σ_j exp(z_ij) - z_{i,y_i}] / Σ_i ω_i + (ridge/2)||w||², z_ij = x_iᵀw_j + b_j.

    w holds the classes' coefficients one after the other: w.reshape(n_classes, p)[j] are those of class j.

    Parameters
    ----------
    X, ridge, sample_weight, fit_intercept
        As for `LeastSquares`; the intercepts add up to 0.
    y : array of shape (n,)
        Labels of any kind, at least two of them.

    Attributes
    ----------
    classes_ : array
        The labels, sorted: class j is classes_[j].

    Examples
    --------
    >>> from ellzero.risks import Multinomial
    >>> risk = Multinomial([[1.0], [0.0], [-1.0]], y=["a", "b", "c"])
    >>> risk.n_features
    3
    >>> round(risk.value([0.0, 0.0, 0.0]), 4)
    1.0986
    """

    # Böhning 1992: diag(π) - ππᵀ ⪯ ½(I - 11ᵀ/c), whose largest eigenvalue is ½
    _curvature, lower_bound = 0.5, 0.0
    likelihood = True

    def _prepare(self) -> None:
        if self.fit_intercept:
            self._class_share = to_host(self._xp.sum(self._share * self.y, axis=0)).astype(np.float64)
            if self._class_share.min() == 0:
                missing = self.classes_[self._class_share.argmin()]
                raise ValueError(
                    "sample_weight must be positive for some row of each label when fit_intercept=True: "
                    f"label {missing!r} has none, so its intercept would be -inf"
                )

    def _check_targets(self, y: Any) -> np.ndarray:
        self.classes_, position = check_labels(y, self.n_terms)
        self.n_outputs = self.classes_.size
        self.n_features = self.design.shape[1] * self.n_outputs
        return np.asfortranarray(np.eye(self.classes_.size)[position])

    def _loss(self, z: Array) -> Array:
        top = self._xp.max(z, axis=1, keepdims=True)
        log_normaliser = top[:, 0] + self._xp.log(self._xp.sum(self._xp.exp(z - top), axis=1))
        return log_normaliser - self._xp.sum(self.y * z, axis=1)

    def _accurate_loss(self, z: np.ndarray) -> np.ndarray:
        # log Σ_j exp(z_j - z_y) = top + log(exp(-top) + Σ_{j≠y} exp(z_j - z_y - top)), top >= 0
        away = z - np.sum(self.y * z, axis=1, keepdims=True)
        top = np.maximum(away.max(axis=1), 0.0)
        others = np.where(self.y > 0, 0.0, np.exp(away - top[:, None])).sum(axis=1)
        return np.asarray(top + np.log1p(others + np.expm1(-top)))

    _loss_sizes = _accurate_loss

    def _slope(self, z: Array, y: Array) -> Array:
        return self._softmax(z) - y

    def _steady_bend(self, z: Array, y: Array) -> Array:
        probability = self._softmax(z)
        return self._xp.mean(probability * (1 - probability), axis=1)

    def _bent(self, z: Array) -> Callable[[Array], Array]:
        probability = self._softmax(z)

        def along(v: Array) -> Array:
            # (diag π - ππᵀ)v
            return probability * (v - self._xp.sum(probability * v, axis=1, keepdims=True))

        return along

    def _softmax(self, z: Array) -> Array:
        weight = self._xp.exp(z - self._xp.max(z, axis=1, keepdims=True))
        return weight / self._xp.sum(weight, axis=1, keepdims=True)

    def values_along(self, point: Point, directions: Directions, mu: float) -> np.ndarray:
        """R(w + μu_i) for each of the directions u_i, from products of X with as many of them as fit in a cache."""
        if self.fit_intercept or not isinstance(point.w, np.ndarray) or self.design.parted:
            return Risk.values_along(self, point, directions, mu)
        c, (n, p) = self.n_outputs, self.design.shape
        points = directions.points(point.w, mu)
        values: np.ndarray = 0.5 * self.ridge * np.einsum("ij,ij->i", points, points)
        share = np.full(n, self.share) if isinstance(self.share, float) else self.share
        label = np.ascontiguousarray((share[:, None] * self.y).T)
        together = max(1, _CACHED // (c * n))
        for start in range(0, len(points), together):
            some = slice(start, start + together)
            coefficients = points[some].reshape(-1, p)  # class after class, point after point
            # in memory the product in this order, so that the predictions of a point lie together without a copy
            z = self.design.T.adjoint(coefficients.T) if self.design.in_memory else self.design.forward(coefficients.T)
            z = np.ascontiguousarray(z.T).reshape(-1, c, n)
            if self.offset is not None:
                z += self.offset.T
            values[some] -= np.tensordot(z, label, axes=2)
            top = z.max(axis=1)
            z -= top[:, None, :]
            values[some] += (top + np.log(np.exp(z, out=z).sum(axis=1))) @ share
        return values

    def _best_intercept(self, z: Array) -> Array:
        """Newton's method with step halving on φ(b) = Σ share log Σ_j exp(z_j + b_j) - Σ class_share·b."""
        c, eps = self.classes_.size, finfo_eps(self.design.reference)
        low, high, _ = self._extent(z)
        longest_step = 1.0 + high - low
        noise = 10 * eps * (1.0 + max(-low, high))

        b, last = np.zeros(c), math.inf
        sums = self._class_sums(z, b)
        value = next(sums)
        for _ in range(100):
            mean = next(sums)
            slope = mean - self._class_share
            size = float(np.abs(slope).max())
            if size <= 4 * eps or (size <= math.sqrt(eps) and size > 0.5 * last):
                break  # exact, or so near that a Newton step which does not help has met rounding
            last = size
            # φ is constant along 1 and the intercepts add up to 0, hence the 1/c; the tiny ridge keeps a
            # saturated model, whose curvature underflows, solvable
            bend = np.diag(mean) - next(sums) + 1.0 / c
            bend[np.diag_indices(c)] += 100 * eps
            step = -np.linalg.solve(bend, slope)
            step *= min(1.0, longest_step / np.abs(step).max())
            decrease = float(slope @ step)
            sums = self._class_sums(z, b + step)
            while (trial := next(sums)) > value + 1e-4 * decrease + noise:
                step, decrease = 0.5 * step, 0.5 * decrease
                sums = self._class_sums(z, b + step)
            b, value = b + step, trial
            if np.abs(step).max() <= 4 * eps * max(1.0, np.abs(b).max()):
                break
        return self.design.asarray(b - b.mean())

    def _class_sums(self, z: Array, b: np.ndarray) -> Iterator[Any]:
        """φ(b), the mean probabilities, and the means of their products, as far as they are asked for."""
        shifted = z + self.design.asarray(b)
        top = self._xp.max(shifted, axis=1, keepdims=True)
        weight = self._xp.exp(shifted - top)  # of all three
        total = self._xp.sum(weight, axis=1, keepdims=True)
        level, known = (top + self._xp.log(total))[:, 0], float(self._class_share @ b)
        if self.design.parted:  # by one look at the rows
            probability = weight / total
            found = self.design.summed(_sum_up, self.share * level, self._share * probability, probability)
            yield from (float(found[0]) - known, *found[1:])
            return
        yield self._mean(level) - known
        probability = weight / total
        weighted = self._share * probability
        yield to_host(self._xp.sum(weighted, axis=0)).astype(np.float64)
        yield to_host(weighted.T @ probability)

    def _slope_bounds(self, reach: np.ndarray | None) -> float:
        return math.sqrt(2)

    def _intercept_extent(self) -> tuple[float, float]:
        # the share s_c of a class is its mean probability, at most exp(b_c - b_j + 2 max|z|) for any class j
        return 1e-9 - math.log(float(self._class_share.min())), 2.0

    def _intercept_doubt(self, z: np.ndarray, off: np.ndarray, share: np.ndarray) -> float:
        """ρ with Bρe^(-3ρ/2) above the slope in b that is left, B its curvature: beyond ρ the slope points back.

        Third derivatives are at most the range of a direction, √2 times its length, times the second ones.
        """
        p = self._softmax(z)
        left = float(np.linalg.norm(share @ (p - self.y))) + 4 * float(share @ off.max(axis=1))
        left += (len(z) + 16) * EPS
        bend = np.diag(share @ p) - (share[:, None] * p).T @ p
        curved = 0.99 * float(np.linalg.eigvalsh(bend + bend.trace())[0]) - (len(z) + 16) * EPS
        curved *= math.exp(-4 * float(off.max()))
        rho = 2 * left / curved if curved > 0 else math.inf
        return rho if curved * rho * math.exp(-1.5 * min(rho, 100.0)) > left else math.inf

    def curvature(self, point: Point) -> ClassCurvature | None:
        """The quadratic model at a point, where columns of X can be read."""
        if not self.readable:
            return None
        kind = PartedClassCurvature if self.design.parted else ClassCurvature
        return kind(self, self.design.doubles(self._softmax(point.state)))

    def minimum(self, start: Array) -> Array | None:
        """By Newton's method in w and the intercepts, whose systems are never formed: see `Weightings`."""
        if not self._on_host or finfo_eps(start) > EPS:
            return None
        one, none = np.zeros(1, dtype=np.intp), np.zeros((1, self.n_outputs, int(self.fit_intercept)))
        problem = Weightings(self, self.double_share[None], np.array([self.ridge]), closeness=1e-18)
        values = np.concatenate([start.reshape(1, self.n_outputs, -1), none], axis=2)
        fit = problem.fit(one, np.arange(self.design.shape[1])[None], values)
        return fit.values[0, :, : self.design.shape[1]].ravel() if np.isfinite(fit.objective[0]) else None

    def _over_outputs(self, gram: np.ndarray) -> np.ndarray:
        return np.kron(np.eye(self.n_outputs) - 1.0 / self.n_outputs, gram)


def _sum_up(rows: Design, level: np.ndarray, weighted: np.ndarray, probability: np.ndarray) -> tuple[Any, ...]:
    return np.sum(level), weighted.sum(axis=0), weighted.T @ probability
