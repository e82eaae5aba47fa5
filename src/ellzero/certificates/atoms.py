"""The relaxation for every other risk and set: fully corrective Frank-Wolfe over sparse members of Γ.

R = f + h, h(w) = (μ/2)||w||². For any v,

    min {R(w) : ||w||_0 <= k, w in Γ}  >=  f(v) - <∇f(v), v> - h*(-∇f(v)),

h*(z) = max <z, w> - (μ/2)||w||² over the sparse members, which is `sparse_maximum`. The best v minimises f plus the
convex hull of h: v = Σλ_j a_j over sparse members a_j, the maximisers met so far, with weights that minimise
f(Σλ_j a_j) + Σλ_j h(a_j). The weights are a small quadratic problem, solved exactly by active sets.
"""

import math
import time
from typing import Any, Self

import numpy as np

from ..risks.accuracy import EPS, SmoothPart
from ..sets import ConstraintSet, EmptySlice, Everywhere
from ..sets.base import MemberNotFound
from ..theory.constants import largest_norm
from .answer import Answer, NoBound
from .relaxation import Relaxation, Relaxed
from .smooth_parts import smooth_part
from .supports import Decisions, Supports

_TOL = 1e-7  # of the relaxation's value


class Atoms(Relaxation):
    """The relaxation of f, with its μ, over Γ or a larger set with known sparse maxima."""

    advice = "a larger ridge or tighter bounds make it sharper"

    def __init__(self, part: SmoothPart, gamma: ConstraintSet, supports: Supports) -> None:
        super().__init__(supports, np.arange(part.d))
        self.part, self.gamma, self.mu = part, gamma, part.mu
        self.coarse = False  # whether as many coordinates as a support may hold stand in for atoms and quotas
        if not gamma.knows_maximum(supports.sparsity, self.mu):
            self.coarse = gamma.has_sparse_maximum(self.mu)
            self.mu = self.mu if self.coarse else 0.0
        self._size = 1.0  # of a typical maximiser, for a good τ
        self.reach = math.inf  # of ||w|| in Γ
        if self.mu == 0:
            reach = largest_norm(gamma, max(supports.nonzeros, 1), part.d)
            self.reach = math.inf if reach is None else reach
        self._last: tuple[np.ndarray, ConstraintSet, np.ndarray, Supports] | None = None

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """For every convex R and every Γ with a sparse maximum that is known and finite, or a larger set with one."""
        supports, gamma = answer.supports, answer.gamma
        part = smooth_part(answer.risk, answer.form, supports.nonzeros)
        sets = [gamma] if gamma.has_sparse_maximum(part.mu) else gamma.enclosing(answer.d) or [Everywhere()]
        if not (supports.sparsity.plain or gamma.knows_maximum(supports.sparsity, part.mu)):
            sets = [*sets, *gamma.enclosing(answer.d), Everywhere()]
        look = part.look(answer.x, part.image(answer.x))
        found: tuple[float, Self] | None = None
        for around in sets:
            relaxation = cls(part, around, supports)
            if not (relaxation.coarse or around.knows_maximum(supports.sparsity, relaxation.mu)):
                continue
            value, _ = relaxation.maximum(look.z, look.error, relaxation.start(answer))
            if math.isfinite(value) and (found is None or value < found[0]):
                found = value, relaxation
        if found is None:
            raise NoBound(
                part.unreadable
                or "R has too little curvature to rely on (fewer samples than features, or dependent ones) and Γ does "
                "not bound every coefficient: a ridge > 0, or bounds (Box, LinfBall, L1Ball), make a bound possible"
            )
        relaxation, larger = found[1], found[1].gamma is not gamma
        relaxation.deadline = answer.deadline
        over = f"a larger set, {relaxation.gamma!r}" if larger else "Γ"
        relaxation.how = f"Frank-Wolfe with full correction over {over}, curvature {relaxation.mu:.3g}"
        if relaxation.mu == 0:
            relaxation.advice = (
                "R is flat in some directions (fewer samples than features, or collinear ones), so that only Γ bounds "
                "the relaxation; a ridge > 0, more samples or tighter bounds make it sharper"
            )
        if larger:
            relaxation.advice += "; Γ itself has no known sparse maximum, so a larger set stands in for it"
        if relaxation.coarse:
            relaxation.how += f", over any {supports.nonzeros} coordinates in place of {answer.result.sparsity.words}"
        return relaxation

    def maximum(self, z: np.ndarray, error: float, decided: Decisions) -> tuple[float, np.ndarray]:
        """An upper bound of h*(z') for every z' within `error` of z, and the maximiser.

        For any 0 < τ < 1, h*(z') is at most its value at z with (1-τ)μ in place of μ, plus error²/(2τμ); where μ = 0,
        error times the largest norm in Γ is added.
        """
        kept, out = decided.kept, decided.out
        gamma, index, supports = self._slice(out)
        values, keep = z[index], np.searchsorted(index, kept)
        if gamma is self.gamma and index.size < z.size:  # no set of its own describes the slice
            values, keep, index = np.where(out, 0.0, z) if gamma.closed_under_zeroing else z, kept, np.arange(z.size)
            supports = self.supports
        mu, more, tau = self.mu, 0.0, 0.0
        if mu > 0 and error:
            tau = min(0.5, error / (mu * self._size))
            more = error * error / (2 * mu * tau)
        elif error:
            more = error * self.reach
        k = self.supports.most(decided) if self.coarse else supports.sparsity
        found = gamma.sparse_maximum(values, k, mu * (1 - tau), keep)
        assert found is not None
        value, w = found
        if w is None:
            return math.inf, np.zeros(out.size)
        self._size = float(np.linalg.norm(w)) or self._size
        # the maximum is computed from its maximiser: rounding of a sum of few terms, and of projections to 1e-12
        slack = (1e-12 + 8 * (self.supports.nonzeros + 8) * EPS) * float(np.abs(values) @ np.abs(w))
        full = np.zeros(out.size)
        full[index] = w
        if gamma.closed_under_zeroing:
            full[out] = 0.0
        return value + more + slack, full

    def _slice(self, out: np.ndarray) -> tuple[ConstraintSet, np.ndarray, Supports]:
        """Γ without the coordinates that are out, the others, and the supports within them.

        Γ itself where its slices are not known as sets.
        """
        if self._last is None or not np.array_equal(self._last[0], out):
            index = np.flatnonzero(~out)
            gamma = self.gamma if index.size == out.size else self.gamma.slice_on(index)
            supports = self.supports.restrict(index)
            if gamma is None or not (self.coarse or gamma.knows_maximum(supports.sparsity, self.mu)):
                gamma = self.gamma
            self._last = out.copy(), gamma, index, supports
        return self._last[1:]

    def solve(self, part: Decisions, warm: Any, cutoff: float, *, first: bool = False) -> Relaxed:
        """Add atoms until the bound exceeds the cutoff, or meets the value of the relaxation.

        Where that value shows that the cutoff cannot be reached, the first time alone the bound is made as good as the
        value; later a tenth of the distance to the cutoff is left.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a step too far is taken back, and NaN bounds nothing
            return self._solve(part, warm, cutoff, *((300, 0.0) if first else (200, 0.1)))

    def _solve(self, decided: Decisions, warm: Any, cutoff: float, max_iter: int, rough: float) -> Relaxed:
        part, d = self.part, self.part.d
        atoms = np.array([a for a in np.atleast_2d(warm) if self._fits(a, decided)]).reshape(-1, d)
        if not len(atoms):
            atoms = self.maximum(np.zeros(d), 0.0, decided)[1][None, :]
        images = np.array([part.image(a) for a in atoms])
        weights = np.full(len(atoms), 1 / len(atoms))
        h = 0.5 * self.mu * np.einsum("ij,ij->i", atoms, atoms)
        best, curved, level = Relaxed(-math.inf, weights @ atoms, np.zeros(d), None), 1.0, math.inf
        M = np.array([part.curvature(j, atoms, images) for j in range(len(atoms))])
        if len(atoms) > 1:
            weights, _ = self._correct(atoms, images, h, weights, M, curved)
        for _ in range(max_iter):
            v, image = weights @ atoms, weights @ images
            look = part.look(v, image, weights @ np.abs(atoms))
            if not (np.isfinite(look.z).all() and math.isfinite(look.value)):
                break  # a step so far that exp overflows; what is known so far holds
            value, new = self.maximum(look.z, look.error, decided)
            base = look.value - (0.5 * part.lack * (self.reach + float(np.linalg.norm(v))) ** 2 if part.lack else 0.0)
            bound = base - value
            if bound > best.bound:
                inside = self.supports.used(atoms).T @ weights
                inside[decided.kept] = 1.0
                best = Relaxed(bound, v, inside, None, (base, look.z, look.error))
            level = look.f + float(weights @ h)
            rest = max(_TOL * max(abs(level), 1e-300), rough * (cutoff - level))
            if best.bound >= cutoff or level - best.bound <= rest:
                break
            if not math.isfinite(value) or time.perf_counter() > self.deadline:
                break
            used = weights > 0
            if (atoms[used] == new).all(axis=1).any():
                break  # rounding: the best atom is among those in use
            atoms, images = np.vstack([atoms[used], new]), np.vstack([images[used], part.image(new)])
            h, weights = np.append(h[used], 0.5 * self.mu * float(new @ new)), np.append(weights[used], 0.0)
            row = part.curvature(-1, atoms, images)
            M = np.vstack([np.hstack([M[np.ix_(used, used)], row[:-1, None]]), row])
            weights, curved = self._correct(atoms, images, h, weights, M, curved)
        best.warm = atoms[weights > 0]
        return best

    def _fits(self, atom: np.ndarray, decided: Decisions) -> bool:
        """Whether a sparse member of Γ is one of the part as well."""
        support = np.flatnonzero(atom)
        if decided.out[support].any():
            return False
        support = np.union1d(support, decided.kept)
        return support.size <= self.supports.most(decided) if self.coarse else self.supports.admits(support)

    def decide(self, relaxed: Relaxed, part: Decisions, x: np.ndarray, level: float) -> Decisions:
        """h* anew, with each coordinate, or atom, forced out of x, or into it."""
        if relaxed.evidence is None:
            return part
        base, z, error = relaxed.evidence
        decided, there = np.zeros(x.size, dtype=bool), self.supports.filled(x != 0)
        for i in self.supports.units(part.free):
            if time.perf_counter() > self.deadline:
                break
            other = part.leaving(i) if there[i].all() else self.supports.closed(part.taking(i))
            decided[i] = base - self._most(z, error, other) > level
        return part.taking(np.flatnonzero(decided & there)).leaving(decided & ~there)

    def _most(self, z: np.ndarray, error: float, part: Decisions) -> float:
        """`maximum` where there may be no member at all."""
        try:
            return self.maximum(z, error, part)[0]
        except MemberNotFound:
            return math.inf
        except EmptySlice:
            return -math.inf

    def _correct(
        self, atoms: np.ndarray, images: np.ndarray, h: np.ndarray, weights: np.ndarray, M: np.ndarray, curved: float
    ) -> tuple[np.ndarray, float]:
        """Weights that minimise f(Σλa) + Σλh, by quadratic models that are sharpened until they hold."""
        part = self.part
        if part.slope is not None:
            return simplex_minimum(M, h - atoms @ part.slope, weights), curved
        v, image = weights @ atoms, weights @ images
        value = part.f(v, image) + float(weights @ h)
        for _ in range(6):
            look = part.look(v, image)
            linear = h - atoms @ look.z
            # f(λ') <= f(λ) + <slope, λ' - λ> + curved/2 |λ' - λ|²_M
            for _ in range(12):
                trial = simplex_minimum(curved * M, linear - curved * (M @ weights), weights)
                v_new, image_new = trial @ atoms, trial @ images
                new = part.f(v_new, image_new) + float(trial @ h)
                move = trial - weights
                predicted = float(linear @ move) + 0.5 * curved * float(move @ M @ move)
                if new - value <= predicted + 1e-12 * abs(value):
                    break
                curved *= 2.0
            if not new < value:
                break
            gained, value, weights, v, image = value - new, new, trial, v_new, image_new
            curved *= 0.6
            if gained <= 1e-9 * abs(value):
                break
        return weights, curved


def simplex_minimum(G: np.ndarray, c: np.ndarray, start: np.ndarray) -> np.ndarray:
    """argmin ½xᵀGx + cᵀx over x >= 0, Σx = 1, for positive semidefinite G, by active sets (Wolfe 1976)."""
    m = c.size
    if m == 1:
        return np.ones(1)
    x = start.copy()
    active = x > 0
    scale = float(np.abs(np.diag(G)).max()) or 1.0
    for _ in range(5 * m + 20):
        slope = G @ x + c
        level = float(slope @ x)
        worst = int(np.where(active, math.inf, slope).argmin()) if not active.all() else -1
        if worst >= 0 and slope[worst] < level - 1e-13 * (abs(level) + scale):
            active[worst] = True
        elif float(np.ptp(slope[active])) <= 1e-12 * (abs(level) + scale):
            break
        while True:
            inside = np.flatnonzero(active)
            K = np.zeros((inside.size + 1, inside.size + 1))
            K[:-1, :-1] = G[np.ix_(inside, inside)]
            K[np.arange(inside.size), np.arange(inside.size)] += 1e-13 * scale
            K[-1, :-1] = K[:-1, -1] = 1.0
            try:
                target = np.linalg.solve(K, np.append(-c[inside], 1.0))[:-1]
            except np.linalg.LinAlgError:
                return np.asarray(x / x.sum())
            if (target >= 0).all():
                x[:] = 0.0
                x[inside] = target
                break
            falling = target < x[inside]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(falling & (target < 0), x[inside] / (x[inside] - target), math.inf)
            size = min(1.0, float(ratio.min()))
            x[inside] += size * (target - x[inside])
            x[inside[int(ratio.argmin())]] = 0.0
            x = np.maximum(x, 0.0)
            active = x > 0
            if not active.any():
                return start
    return np.asarray(x / x.sum())
