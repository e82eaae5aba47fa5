"""check_set: an attack on a constraint set that shows a counterexample where it finds one."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.arrays import norm
from .._core.validation import check_count, check_k, check_positive
from ..sets import ConstraintSet, EmptySlice
from ..sets.polyhedron import Polyhedron
from ..sparsity import Sparsity, as_sparsity
from ._structures import attack_multipliers, attack_structures


def check_set(
    constraint: ConstraintSet,
    n_features: int,
    k: int,
    *,
    support_preserving: bool = True,
    n_trials: int = 60,
    tol: float | None = None,
    rng: Any = None,
) -> None:
    """Look for a counterexample to: Γ is convex, `project` is its projection, and Γ preserves supports of size k.

    What else the set states is attacked as well: every fact that `ConstraintSet` has a name for.

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
    tol : float, optional
        Relative tolerance. By default 1e-8 for distances and angles, and for the membership of what `project` returns
        the `accuracy` of the set, to which answers are held.
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
    accuracy = check_positive(constraint.accuracy, "accuracy")
    attack = _Attack(constraint, n_features, k, tol or max(1e-8, 10 * accuracy), np.random.default_rng(rng))
    attack.allowed = tol or max(1e-12, accuracy)
    attack.projection(n_trials)
    attack.slices(n_trials)
    attack.facts(max(2, n_trials // 10))
    if support_preserving or constraint.closed_under_zeroing:
        attack.support_preservation(n_trials)
    attack_structures(attack, max(2, n_trials // 6))


class _Attack:
    allowed: float  # the violation that rounding, or an iterative projection, may leave

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
            scale, middle = norm(v) + norm(u), 0.5 * (p + q)
            away, uphill = norm(p - q) - norm(v - u), float((v - p) @ (q - p))
            self.require({
                f"the projection is expansive: ||p - q|| > ||v - u||{where}": away > self.tol * (1 + scale),
                f"p is not the nearest member: <v - p, q - p> > 0{where}": uphill > self.tol * (1 + scale) ** 2,
                f"not convex: (p + q)/2 is not a member{where}": not self.close(again(middle), middle, scale),
            }, v=v, p=p, u=u, q=q)  # fmt: skip

    def projection(self, n: int) -> None:
        project = self.constraint.project
        pairs = [(v, np.asarray(project(v.copy()))) for v in self.points(n, self.d)]
        self.require_projection(pairs, "", project)
        for v, p in pairs:
            self.require_member(p, "a projection", v=v)
            if norm(v - p) > self.tol * (1 + norm(v)) and not self.constraint.violation(v) > 0:
                self.fail("violation() is 0 outside Γ, where the projection moves the vector", v=v, projection=p)
        self.whole_facts(pairs)
        attack_multipliers(self, pairs)
        if self.constraint.needs_entry and not project(np.zeros(self.d)).any():
            self.fail("needs_entry says that zero is not a member, and project says that it is")

    def require_member(self, w: np.ndarray, what: str, **vectors: np.ndarray) -> None:
        """At most the violation that the set owns up to."""
        violation = self.constraint.violation(w)
        if not violation <= self.allowed:
            found = f"violation() of {what} is {violation:.3g}, above the accuracy {self.allowed:.3g}"
            remedy = "if the projection is iterative, state what it reaches in the class: accuracy = ..."
            self.fail(f"{found}; {remedy}", **vectors, w=w)

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
            for v, p in pairs:
                self.require_member(self.embed(p, support), f"the projection{where}", v=v)
            self.slice_facts(pairs, support, where)

    def embed(self, values: np.ndarray, support: np.ndarray) -> np.ndarray:
        w = np.zeros(self.d)
        w[support] = values
        return w

    def support_preservation(self, n: int) -> None:
        """z in Γ must imply z_S in Γ for |S| <= k, which is equivalent; and then both projections agree."""
        largest = self.d if self.constraint.closed_under_zeroing else self.k
        project, why = self.constraint.project, self.constraint.why
        supports = self.supports(n, largest)
        for v, support in zip(self.points(n, self.d), supports, strict=True):
            z = project(v)
            cut = self.embed(z[support], support)
            if not self.close(project(cut), cut, norm(cut)):
                what = f"z is a member, but not after zeroing all but {support.tolist()}"
                self.fail(f"not support-preserving: {what} ({why})", z=z, zeroed=cut)
            sparse = self.embed(v[support], support)
            full = project(sparse)
            outside = np.delete(full, support)
            if not self.close(outside, 0 * outside, norm(sparse)):
                what = "the projection leaves the support of v"
                self.fail(f"not support-preserving: {what} ({why})", v=sparse, projection=full)
            sliced = self.embed(project(v[support], support), support)
            if not self.close(full, sliced, norm(v)):
                self.fail("project(v, support) differs from the full projection", v=sparse, full=full, sliced=sliced)

    # What a set may state beyond its projection.

    def require(self, broken: dict[str, Any], **vectors: np.ndarray) -> None:
        """Fail with the first of these statements that is broken."""
        for what, wrong in broken.items():
            if wrong:
                self.fail(what, **vectors)

    def leaves(self, shape: Polyhedron | None, w: np.ndarray) -> bool:
        """Whether w breaks bounds or caps by more than rounding."""
        if shape is None:
            return False
        gross, room = shape.A @ np.abs(w), self.tol * (1 + norm(w)) * (1 + np.abs(shape.A).sum(axis=1))
        out = max((shape.lower - w).max(initial=0.0), (w - shape.upper).max(initial=0.0)) > self.tol * (1 + norm(w))
        low = (gross < shape.h - room)[shape.equal]
        return bool(out or low.any() or (gross > shape.h + room).any() or (shape.A < 0).any())

    def whole_facts(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """What is said about all members, against projections."""
        gamma, d = self.constraint, self.d
        (negative, positive), reach, larger = gamma.signs(d), gamma.norm_squares(d, d), gamma.enclosing(d)
        (labels, caps), scales, shape = gamma.groups_and_caps(d), gamma.natural_scales(d), gamma.polyhedron(d)
        forced, known = np.union1d(gamma.forced, gamma.forced_among(d)), reach[np.isfinite(reach)]
        odd = scales is not None and (scales.shape != (d,) or not (np.isfinite(scales) & (scales > 0)).all())
        self.require({
            "natural_scales must be None, or d positive numbers": odd,
            "groups_and_caps must label d coordinates, and cap those groups": labels is not None
            and (len(labels) != d or not set(caps or ()) <= set(labels)),
            "enclosing holds a set whose sparse maximum is not known": not all(s.has_sparse_maximum() for s in larger),
            "norm_squares must begin with 0 and be concave": reach.shape != (d + 1,) or reach[0] != 0
            or (np.diff(known, 2) > self.tol * known.max()).any(),
        })  # fmt: skip
        for (v, p), (_, q) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
            tiny, mixed = self.tol * (1 + norm(v)), np.where(self.rng.random(d) < 0.5, p, q)
            shuffled = self.rng.permutation(p) * self.rng.choice([-1.0, 1.0], d)
            beyond = norm(v - p) > 1e3 * tiny and shape is not None and shape.exact and shape.contains(0.5 * (v + p))
            self.require({
                "whole_space says that there is no constraint": gamma.whole_space and norm(v - p) > tiny,
                "orthant says that Γ is w >= 0": gamma.orthant and norm(np.maximum(v, 0.0) - p) > tiny,
                "separable says that entries can be mixed": gamma.separable and gamma.violation(mixed) > self.tol,
                "symmetric says that order and signs do not matter": gamma.symmetric
                and gamma.violation(shuffled) > self.tol,
                "of_singular_values says that singular vectors do not matter": self.turned(p) > self.tol,
                "forced, forced_among: a member is 0 there": not p[forced].all(),
                "enclosing: a larger set does not hold a member": any(s.violation(p) > self.tol for s in larger),
                "polyhedron: a member is outside": self.leaves(shape, p) or self.leaves(gamma.polyhedron_around(d), p),
                "polyhedron is said to be exact, and holds what Γ does not": beyond,
                "signs: a member has another": (p[~negative] < -tiny).any() or (p[~positive] > tiny).any(),
                "norm_squares: a member is longer": p @ p > (reach[np.count_nonzero(p)] + tiny) * (1 + self.tol),
            }, v=v, member=p)  # fmt: skip

    def turned(self, w: np.ndarray) -> float:
        """The violation of a matrix of any shape, a member, with other singular vectors, or of its singular values."""
        worst = 0.0
        for m in range(1, self.d + 1):
            values = None if self.d % m else self.constraint.of_singular_values((m, self.d // m))
            if values is not None:
                s = np.linalg.svd(w.reshape(m, -1), compute_uv=False)
                U, V = (np.linalg.qr(self.rng.standard_normal((rows, s.size)))[0] for rows in (m, self.d // m))
                worst = max(worst, values.violation(s), self.constraint.violation(((U * s) @ V.T).ravel()))
        return worst

    def slice_facts(self, pairs: list[tuple[np.ndarray, np.ndarray]], support: np.ndarray, where: str) -> None:
        """What is said about a slice, which has members, against projections onto it."""
        gamma = self.constraint
        try:
            gamma.require_slice(support)
            gamma.require_member(support)
            part, shape, project = gamma.slice_on(support), gamma.polyhedron_on(support), gamma.on(support)
        except EmptySlice as error:
            self.fail(f"the slice is said to be empty{where}, and project finds a member: {error}", member=pairs[0][1])
        for (v, p), (_, q) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
            there = p if part is None else np.asarray(part.project(v.copy()))
            near, n, slack, spread = gamma.supporting(v, support)
            tiny = self.tol * (1 + norm(v)) * (1 + norm(q))
            self.require({
                f"on differs from project{where}": not self.close(np.asarray(project(v.copy())), p, norm(v)),
                f"slice_on is another set{where}": not self.close(there, p, norm(v)),
                f"polyhedron_on: a member is outside{where}": self.leaves(shape, p),
                f"supporting cuts off a member{where}": n @ (q - near) > slack + spread * norm(q - near) + tiny,
            }, v=v, p=p, member=q)  # fmt: skip

    def facts(self, n: int) -> None:
        """Each other fact against members that the projection itself finds."""
        for z in self.points(n, self.d):
            for mu in (1.0, 0.1, 0.0):
                self.sparse_maximum(z, mu)
            self.sparse_support(z)
            self.other_units(z)
            self.shadow_prices(z)
            for support in self.supports(1, self.d):
                if support.size:
                    self.quadratic_minimum(z, support)

    def shadow_prices(self, z: np.ndarray) -> None:
        """A newcomer that the projection of z uses must not be charged more than it is worth without that."""
        project = self.constraint.project
        support = np.sort(self.rng.choice(self.d, self.k, replace=False))
        try:
            w = self.embed(project(z[support], support), support)
        except EmptySlice:
            return
        shift, price = self.constraint.shadow_prices(w, z - w)
        for i in np.flatnonzero(np.abs(z - w - shift) < price):
            wider = np.union1d(support, i)
            u = self.embed(project(z[wider], wider), wider)
            if i not in support and abs(u[i]) > 1e3 * self.tol * (1 + norm(z)):
                self.fail(f"shadow_prices say that coordinate {i} is worth nothing, and it is used", z=z, w=w, better=u)

    def sparse_members(self, z: np.ndarray, sparsity: Sparsity | None = None, n: int = 8) -> Iterator[np.ndarray]:
        """Members near z on random supports, of size k or of another sparsity."""
        none = np.empty(0, dtype=np.intp)
        supports: Iterator[np.ndarray]
        if sparsity is None:
            supports = (np.sort(self.rng.choice(self.d, self.k, replace=False)) for _ in range(n))
        elif sparsity.n_supports(self.d, none) <= 4 * n:
            supports = sparsity.supports(self.d, none)
        else:
            supports = (sparsity.best_support(self.rng.standard_normal(self.d)) for _ in range(n))
        for support in supports:
            try:
                yield self.embed(self.constraint.project(z[support], support), support)
            except EmptySlice:
                continue

    def sparse_maximum(self, z: np.ndarray, mu: float, sparsity: Sparsity | None = None) -> None:
        asked = as_sparsity(self.k) if sparsity is None else sparsity
        known = self.constraint.knows_maximum(asked, mu)
        try:
            found = self.constraint.sparse_maximum(z, self.k if sparsity is None else asked, mu) if known else None
        except EmptySlice:
            return
        if found is None and known:
            said = f"knows_maximum, by default has_sparse_maximum, says at mu={mu:g} that it is known"
            said = said if sparsity is None else f"knows_maximum({asked!r}, mu={mu:g}) says that it is known"
            self.fail(f"{said}, and sparse_maximum gives None", z=z)
        if found is None or found[1] is None:
            return
        value, w = found[0], np.asarray(found[1])
        what = f"sparse_maximum(z, {f'k={self.k}' if sparsity is None else repr(asked)}, mu={mu:g})"
        if not asked.allows(w):
            used = (
                f"{np.count_nonzero(w)} nonzeros"
                if sparsity is None
                else f"{asked.label} {asked.describe(w)}: too much"
            )
            self.fail(f"{what} has {used}", z=z, w=w)
        self.require_member(w, what, z=z)
        scale = norm(z) + mu * norm(w)
        if not abs(float(z @ w - 0.5 * mu * w @ w) - value) <= self.tol * (1 + scale) * (1 + norm(w)):
            self.fail(f"{what} says {value:.8g}, which is not the value at its maximiser", z=z, w=w)
        for u in self.sparse_members(z / mu if mu else 1e3 * z, sparsity):
            there = float(z @ u - 0.5 * mu * u @ u)
            if there > value + self.tol * (1 + scale) * (1 + norm(u)):
                self.fail(f"{what} says {value:.8g}, and another member has {there:.8g}", z=z, w=w, other=u)

    def sparse_support(self, z: np.ndarray) -> None:
        keep = np.empty(0, dtype=np.intp)
        try:
            chosen = self.constraint.sparse_support(z, self.k, keep)
        except EmptySlice:
            return
        if chosen is None:
            return
        if chosen.size > self.k or not (np.diff(chosen) > 0).all():
            self.fail(f"sparse_support must give at most {self.k} increasing coordinates, got {chosen}", v=z)
        try:
            self.constraint.project(z[chosen], chosen)
        except EmptySlice:
            if any(True for _ in self.sparse_members(z)):
                self.fail(f"sparse_support chooses {chosen}, where Γ has no member; elsewhere it has", v=z)

    def other_units(self, z: np.ndarray) -> None:
        scales = self.rng.uniform(0.5, 2.0, self.d)
        if (there := self.constraint.rescaled(scales)) is None:
            return
        u, w = np.asarray(there.project(z / scales)), np.asarray(self.constraint.project(z.copy()))
        for vector, off in ((scales * u, self.constraint.violation(scales * u)), (w, there.violation(w / scales))):
            if not off <= self.tol:
                self.fail(f"rescaled({scales}) is another set: they differ by {off:.3g}", w=vector)

    def quadratic_minimum(self, z: np.ndarray, support: np.ndarray) -> None:
        A = self.rng.standard_normal((support.size + 2, support.size))
        G, b = A.T @ A, z[support]
        gamma, asked = self.constraint, "quadratic_minimum"
        try:
            if (u := gamma.quadratic_minimum(G, b, support)) is None:
                asked, u = "minimise_quadratic", gamma.minimise_quadratic(G, b, support, np.zeros(support.size))
            members = [self.constraint.project(v, support) for v in self.points(4, support.size)]
        except EmptySlice:
            return
        where = f"{asked}(G, b, {support.tolist()})"
        self.require_member(self.embed(u, support), where)
        slope = G @ u - b
        for q in members:
            if float(slope @ (q - u)) < -self.tol * (1 + norm(slope)) * (1 + norm(q - u)):
                self.fail(f"{where} is not the minimum: a member is downhill", b=b, u=u, member=q)
