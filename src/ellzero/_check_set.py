"""check_set: an attack on a constraint set that shows a counterexample where it finds one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._arrays import norm
from ._validation import check_count, check_k
from .sets import ConstraintSet, EmptySlice


def check_set(
    constraint: ConstraintSet,
    n_features: int,
    k: int,
    *,
    support_preserving: bool = True,
    n_trials: int = 60,
    tol: float = 1e-8,
    rng: Any = None,
) -> None:
    """Look for a counterexample to: Γ is convex, `project` is its projection, and Γ preserves supports of size k.

    Parameters
    ----------
    constraint : ConstraintSet
    n_features : int
        The dimension to test in.
    k : int
        The support size: supp Π_Γ(w) ⊆ supp w is required for w with at most k nonzeros, and for every w if the
        set declares itself closed under zeroing.
    support_preserving : bool
        False leaves that requirement out, for sets that are meant for the other projections.
    n_trials : int
        Random points at each of several scales.
    tol : float
        Relative tolerance, for projections that are computed iteratively.
    rng : seed or Generator, optional

    Raises
    ------
    AssertionError
        With the property that fails and the vectors that show it.

    Examples
    --------
    >>> import ellzero as ez
    >>> ez.testing.check_set(ez.sets.L1Ball(1.0), n_features=6, k=2)
    """
    if not isinstance(constraint, ConstraintSet):
        raise TypeError(f"constraint must be a ConstraintSet, got {constraint!r}")
    n_features, k = check_count(n_features, "n_features"), check_k(k, n_features)
    if constraint.n_features not in (None, n_features):
        raise ValueError(f"n_features={n_features}, but {constraint!r} has {constraint.n_features} coordinates")
    attack = _Attack(constraint, n_features, k, tol, np.random.default_rng(rng))
    attack.projection(n_trials)
    attack.slices(n_trials)
    if support_preserving or constraint.closed_under_zeroing:
        attack.support_preservation(n_trials)


class _Attack:
    def __init__(self, constraint: ConstraintSet, d: int, k: int, tol: float, rng: np.random.Generator) -> None:
        self.constraint, self.d, self.k, self.tol, self.rng = constraint, d, k, tol, rng

    def points(self, n: int, size: int) -> Iterator[np.ndarray]:
        """Random vectors of several scales and shapes, some with ties, some with zeros."""
        for trial in range(n):
            v = self.rng.standard_normal(size) * 10.0 ** self.rng.uniform(-2, 2)
            if trial % 5 == 1:
                v = np.round(v)
            elif trial % 5 == 2:
                v = np.abs(v)
            elif trial % 5 == 3:
                v[self.rng.random(size) < 0.5] = 0.0
            yield v

    def close(self, a: np.ndarray, b: np.ndarray, scale: float) -> bool:
        return norm(a - b) <= self.tol * (1 + scale)

    def fail(self, what: str, **vectors: np.ndarray) -> None:
        shown = "".join(f"\n  {name} = {value.tolist()!r}" for name, value in vectors.items())
        raise AssertionError(f"{self.constraint!r}: {what}{shown}")

    def require_projection(self, pairs: list[tuple[np.ndarray, np.ndarray]], where: str, again: Any) -> None:
        """Everything that pairs (point, its projection) must satisfy if the projection is one onto a convex set."""
        for v, p in pairs:
            if p.shape != v.shape or not np.isfinite(p).all():
                self.fail(f"project returns shape {p.shape} or non-finite values{where}", v=v, projection=p)
            if not self.close(again(p), p, norm(v)):
                self.fail(f"projecting twice differs from projecting once{where}", v=v, once=p, twice=again(p))
        for (v, p), (u, q) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
            scale = norm(v) + norm(u)
            if norm(p - q) > norm(v - u) + self.tol * (1 + scale):
                self.fail(f"the projection is expansive: ||p - q|| > ||v - u||{where}", v=v, p=p, u=u, q=q)
            if float((v - p) @ (q - p)) > self.tol * (1 + scale) ** 2:
                self.fail(f"p is not the nearest member: <v - p, q - p> > 0 for a member q{where}", v=v, p=p, q=q)
            middle = 0.5 * (p + q)
            if not self.close(again(middle), middle, scale):
                self.fail(f"not convex: the midpoint of two members is not a member{where}", p=p, q=q)

    def projection(self, n: int) -> None:
        project = self.constraint.project
        pairs = [(v, np.asarray(project(v.copy()))) for v in self.points(n, self.d)]
        self.require_projection(pairs, "", project)
        for v, p in pairs:
            violation = self.constraint.violation(p)
            if not violation <= self.tol:
                self.fail(f"violation() of a projection is {violation:.3g}, not 0", v=v, projection=p)

    def supports(self, n: int, largest: int) -> Iterator[np.ndarray]:
        for _ in range(n):
            size = int(self.rng.integers(0, largest + 1))
            yield np.sort(self.rng.choice(self.d, size, replace=False))

    def slices(self, n: int) -> None:
        for support in self.supports(max(4, n // 6), self.d):
            where = f" on the slice of support {support.tolist()}"
            try:
                pairs = [(v, self.constraint.project(v.copy(), support)) for v in self.points(6, support.size)]
            except EmptySlice:
                continue
            self.require_projection(pairs, where, lambda p, s=support: self.constraint.project(p, s))
            for _, p in pairs:
                w = self.embed(p, support)
                if not self.constraint.violation(w) <= self.tol:
                    self.fail(f"the projection{where} is not a member", w=w)

    def embed(self, values: np.ndarray, support: np.ndarray) -> np.ndarray:
        w = np.zeros(self.d)
        w[support] = values
        return w

    def support_preservation(self, n: int) -> None:
        """z in Γ must imply z_S in Γ for |S| <= k, which is equivalent; and then both projections agree."""
        largest = self.d if self.constraint.closed_under_zeroing else self.k
        project = self.constraint.project
        supports = self.supports(n, largest)
        for v, support in zip(self.points(n, self.d), supports, strict=True):
            z = project(v)
            cut = self.embed(z[support], support)
            if not self.close(project(cut), cut, norm(cut)):
                self.fail(
                    f"not support-preserving: z is a member, but not after zeroing all but {support.tolist()} "
                    f"({self.constraint.why})",
                    z=z,
                    zeroed=cut,
                )
            sparse = self.embed(v[support], support)
            full = project(sparse)
            outside = np.delete(full, support)
            if not self.close(outside, 0 * outside, norm(sparse)):
                self.fail(
                    f"not support-preserving: the projection leaves the support of v ({self.constraint.why})",
                    v=sparse,
                    projection=full,
                )
            sliced = self.embed(project(v[support], support), support)
            if not self.close(full, sliced, norm(v)):
                self.fail("project(v, support) differs from the full projection", v=sparse, full=full, sliced=sliced)
