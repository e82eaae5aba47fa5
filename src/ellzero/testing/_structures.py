"""What a set states about groups and quotas, attacked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._core.arrays import norm
from ..sets import EmptySlice
from ..sparsity import Groups, PerGroup, Sparsity

if TYPE_CHECKING:
    from .sets import _Attack


def attack_structures(attack: "_Attack", n: int) -> None:
    """Sparse maxima, products and preservation for groups: those of Γ, if it has such, and others."""
    for z, numbers in zip(attack.points(3 * n, attack.d), _groups(attack, n), strict=True):
        _zeroing_and_mixing(attack, z, numbers)
        for sparsity in _sparsities(attack, numbers):
            for mu in (1.0, 0.0):
                attack.sparse_maximum(z, mu, sparsity)


def _groups(attack: "_Attack", n: int) -> Iterator[np.ndarray]:
    """The number of each coordinate's group, -1 for none."""
    labels, _ = attack.constraint.groups_and_caps(attack.d)
    own = {label: g for g, label in enumerate(dict.fromkeys(label for label in labels or () if label is not None))}
    for _ in range(n):
        random = attack.rng.integers(-1, 3, attack.d)
        random[0] = 0
        yield random
        yield np.maximum(np.arange(attack.d) - attack.d // 2, 0)  # a large group beside small ones
        yield random if not own else np.array([own.get(label, -1) for label in labels or ()])


def _sparsities(attack: "_Attack", numbers: np.ndarray) -> list[Sparsity]:
    labels, k = [None if g < 0 else int(g) for g in numbers], 1 + int(attack.rng.random() < 0.3)
    quotas = PerGroup(max(attack.k, 1), labels, k)
    return [s.within(attack.d) for s in (Groups(k, labels), quotas)]


def _zeroing_and_mixing(attack: "_Attack", v: np.ndarray, atoms: np.ndarray) -> None:
    """Members stay members if an atom is zeroed, where `preserves` says so, or taken from another (`product_over`)."""
    gamma = attack.constraint
    try:
        p, q = (np.asarray(gamma.project(u)) for u in (v.copy(), -2 * v[::-1]))
    except EmptySlice:
        return
    inside, tiny = atoms == attack.rng.integers(0, atoms.max() + 1), attack.tol * (1 + norm(v))
    cut, mixed = np.where(inside, 0.0, p), np.where(inside, q, p)
    attack.require({
        f"product_over says that atoms of {atoms} can be mixed": gamma.product_over(atoms)
        and norm(mixed - gamma.project(mixed)) > tiny,
        f"preserves says that zeroing atoms of {atoms} is allowed": gamma.preserves(atoms)
        and norm(cut - gamma.project(cut)) > tiny,
    }, member=p, zeroed=cut, other=q, mixed=mixed)  # fmt: skip


def attack_multipliers(attack: "_Attack", pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """What `multipliers` and `limits` say of all members, against projections and the normals that these show."""
    gamma = attack.constraint
    lower, upper = gamma.limits(attack.d)
    for (v, p), (u, q) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
        tiny = attack.tol * (1 + norm(v) + norm(u))
        beyond = (q < lower - tiny).any() or (q > upper + tiny).any()
        broken = {"limits: a member is outside": bool(beyond)}
        for g in (p - v, p - v + attack.rng.standard_normal(v.size), u):
            if (found := gamma.multipliers(p, g)) is not None:
                move = q - p
                least = np.where(move > 0, found.up, found.down) @ np.abs(move) + 0.5 * found.curvature @ move**2
                least -= found.offset + found.doubt @ np.abs(move)
                slope = float(g @ move)
                wrong = not slope >= least - tiny * (1 + norm(g)) or (found.curvature < 0).any()
                broken[f"multipliers say <g, w - x> >= {least:.6g}, and it is {slope:.6g}"] = bool(wrong)
        attack.require(broken, x=p, member=q)
