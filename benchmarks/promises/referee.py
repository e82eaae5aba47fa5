"""The best member on every support, by accelerated projected gradient steps on all of them at once.

Written from the definitions: a region is bounds, caps Σa_i|w_i| <= h (some of them exact, on non-negative entries) and
balls ||w_g|| <= r of groups. What is returned is a member up to the last digit, so that R there refutes a promise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Region:
    """{w : lower <= w <= upper, Σ a_i|w_i| <= h for each cap, ||w_g|| <= r for each ball}; caps and balls are apart,
    unless w >= 0."""

    lower: np.ndarray
    upper: np.ndarray
    caps: list[tuple[np.ndarray, float, bool]] = field(default_factory=list)  # weights, cap, exact
    balls: list[tuple[np.ndarray, float]] = field(default_factory=list)  # mask, radius

    def project(self, v: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The nearest members to the rows of v, whose entries have these places."""
        signed = bool((self.lower >= 0).all())
        size = v if signed else np.abs(v)
        weights = [a[index] for a, _, _ in self.caps]
        total = np.zeros_like(v)
        if len(self.caps) > 1 and any(((a > 0) & (b > 0)).any() for (a, *_), (b, *_) in itertools.pairwise(self.caps)):
            prices = [np.zeros((len(v), 1)) for _ in self.caps]
            for _ in range(300):  # caps that overlap, one after the other
                before = [y.copy() for y in prices]
                for r, (_, h, exact) in enumerate(self.caps):
                    others = sum((y * a for s, (y, a) in enumerate(zip(prices, weights, strict=True)) if s != r), 0 * v)
                    prices[r] = price(size - others, weights[r], h, exact)
                if max(float(np.abs(a - b).max()) for a, b in zip(before, prices, strict=True)) < 1e-14:
                    break
            total = sum((y * a for y, a in zip(prices, weights, strict=True)), total)
        else:
            for a, (_, h, exact) in zip(weights, self.caps, strict=True):
                total = total + price(size, a, h, exact) * a
        w = size - total if self.caps else size
        w = np.maximum(w, 0.0) if self.caps else w
        w = np.clip(w if signed else np.sign(v) * w, self.lower[index], self.upper[index])
        for mask, radius in self.balls:
            inside = mask[index]
            length = np.sqrt((np.where(inside, w, 0.0) ** 2).sum(axis=1, keepdims=True))
            w = np.where(inside & (length > radius), w * (radius / np.maximum(length, 1e-300)), w)
        return w

    def mended(self, w: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Members next to the rows of w: scaled down, or for an exact cap up; NaN where there is none."""
        w = np.clip(w, self.lower[index], self.upper[index])
        for a, h, exact in self.caps:
            inside = a[index] > 0
            spent = (a[index] * np.abs(w)).sum(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                factor = h / spent if exact else np.minimum(1.0, h / spent) * (1 - 1e-15)
                w = np.where(inside & (spent > 0), w * factor, w)
            if exact and h > 0:
                w = np.where(spent > 0, w, np.nan)
        for mask, radius in self.balls:
            inside = mask[index]
            length = np.sqrt((np.where(inside, w, 0.0) ** 2).sum(axis=1, keepdims=True))
            w = np.where(inside, w * np.minimum(1.0, radius * (1 - 1e-15) / np.maximum(length, 1e-300)), w)
        return np.clip(w, self.lower[index], self.upper[index]) if not any(e for *_, e in self.caps) else w


def price(v: np.ndarray, a: np.ndarray, h: float, exact: bool) -> np.ndarray:
    """θ with Σ a(v - θa)₊ = h for each row, at least 0 unless the cap is exact: as much is spent by the largest v/a."""
    inside = a > 0
    order = np.argsort(np.where(inside, -v / np.where(inside, a, 1.0), np.inf), axis=1)
    weighted, squares = (np.take_along_axis(np.where(inside, t, 0.0), order, axis=1) for t in (a * v, a * a))
    spent, square = np.cumsum(weighted, axis=1), np.cumsum(squares, axis=1)
    theta = np.where(square > 0, (spent - h) / np.where(square > 0, square, 1.0), -np.inf).max(axis=1, keepdims=True)
    theta = np.where(np.isfinite(theta), theta, 0.0)
    return theta if exact else np.maximum(theta, 0.0)


@dataclass
class Objective:
    """½wᵀQw - bᵀw + c, or the mean of log(1 + exp(-y_i x_iᵀw)) and (ridge/2)||w||²."""

    Q: np.ndarray | None = None
    b: np.ndarray | None = None
    c: float = 0.0
    X: np.ndarray | None = None
    y: np.ndarray | None = None
    ridge: float = 0.0

    def values(self, w: np.ndarray) -> np.ndarray:
        """R of each row."""
        if self.Q is not None:
            return 0.5 * np.einsum("mi,ij,mj->m", w, self.Q, w) - w @ self.b + self.c
        margin = (w @ self.X.T) * self.y
        return np.logaddexp(0.0, -margin).mean(axis=1) + 0.5 * self.ridge * (w * w).sum(axis=1)

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """∇R of each row."""
        if self.Q is not None:
            return w @ self.Q - self.b
        z = w @ self.X.T
        slope = -self.y / (1 + np.exp(np.clip(self.y * z, -700, 700)))
        return slope @ self.X / len(self.y) + self.ridge * w

    def curvature(self) -> tuple[float, float]:
        """The smallest and the largest curvature."""
        if self.Q is not None:
            ends = np.linalg.eigvalsh(self.Q)
            return float(ends[0]), float(ends[-1])
        return self.ridge, float(np.linalg.eigvalsh(self.X.T @ self.X / len(self.y))[-1]) / 4 + self.ridge


def best(objective: Objective, region: Region, supports: list[tuple[int, ...]], steps: int = 400, points: bool = False):
    """The least R that is found on each support; infinite where there is no member. With `points`, and where."""
    d = region.lower.size
    if not supports or not supports[0]:
        zero = np.zeros((1, d))
        feasible = (
            (region.lower <= 0).all() and (region.upper >= 0).all() and not any(e and h for _, h, e in region.caps)
        )
        values = objective.values(zero) if feasible else np.full(1, np.inf)
        return (values, zero) if points else values
    if len({len(s) for s in supports}) > 1:  # one after the other where they differ in size
        found = [best(objective, region, [s], steps, points=True) for s in supports]
        values, members = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return (values, members) if points else values
    index = np.array(supports)
    m = np.arange(len(index))[:, None]

    def whole(u: np.ndarray) -> np.ndarray:
        w = np.zeros((len(index), d))
        w[m, index] = u
        return w

    low, L = objective.curvature()
    root = np.sqrt(max(low, 1e-6 * L) / L)
    momentum = (1 - root) / (1 + root)
    u = v = region.project(np.zeros(index.shape), index)
    for _ in range(steps):
        following = region.project(v - objective.gradients(whole(v))[m, index] / L, index)
        v = following + momentum * (following - u)
        moved, u = np.abs(following - u).max(), following
        if moved < 1e-15:
            break
    members = region.mended(u, index)
    values = objective.values(whole(np.nan_to_num(members)))
    values = np.where(np.isnan(members).any(axis=1), np.inf, values)
    return (values, whole(members)) if points else values


def supports_of(d: int, k: int, keep: tuple[int, ...] = (), atoms: np.ndarray | None = None, quotas=None):
    """Every largest support of k coordinates, or of k atoms (-1: always there) within quotas, with those to be kept."""
    labels = np.arange(d) if atoms is None else atoms
    every = sorted({int(a) for a in labels if a >= 0})
    kept = {int(labels[i]) for i in keep if labels[i] >= 0}
    for size in range(min(k, len(every)), -1, -1):
        found = []
        for chosen in itertools.combinations([a for a in every if a not in kept], size - len(kept)):
            used = kept.union(chosen)
            if quotas is not None and any(
                sum(quotas[0][a] == g for a in used) > most for g, most in enumerate(quotas[1])
            ):
                continue
            found.append(tuple(i for i in range(d) if labels[i] < 0 or int(labels[i]) in used))
        if found:
            return found
    return []
