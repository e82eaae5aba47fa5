"""Random groups, quotas and features: as the library's sparsity, and as the sets of atoms that a definition allows."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .rationals import Vector

#: cases from here on count these; below, coordinates
FIRST = 10**6
SPARSITIES = {"Groups": 5.0, "PerGroup": 5.0, "Rows": 0.0}
OF_OUTPUTS = {"Groups": 1.0, "PerGroup": 1.0, "Rows": 2.0}
#: sets that have members wherever there is an entry, but for exact budgets in groups
GAMMAS = ("Everywhere", "NonNegative", "Box", "LinfBall", "L1Ball", "WeightedL1Ball", "SubSimplex", "Simplex",
          "PackingPolytope", "GroupWise", "L2Ball", "Ellipsoid", "LpBall", "GroupWise curved")  # fmt: skip


@dataclass
class Counted:
    """At most k atoms, and at most `most[g]` of those of group g; coordinates of no atom are free."""

    asked: Any  # what the library is given for k
    k: int
    d: int
    atoms: list[tuple[int, ...]]
    group: list[int] = field(default_factory=list)  # of each atom, where there are quotas
    most: dict[int, int] = field(default_factory=dict)

    def allows(self, chosen: Collection[int]) -> bool:
        """Whether these atoms may be used together."""
        within = all(sum(self.group[a] == g for a in chosen) <= cap for g, cap in self.most.items())
        return len(chosen) <= self.k and within

    def admits(self, w: Vector) -> bool:
        """Whether w is sparse."""
        return self.allows([a for a, atom in enumerate(self.atoms) if any(w.get(i) for i in atom)])

    def supports(self) -> list[tuple[int, ...]]:
        """Every largest one, as coordinates."""
        sizes = range(min(self.k, len(self.atoms)) + 1)
        sets = [set(c) for m in sizes for c in itertools.combinations(range(len(self.atoms)), m) if self.allows(c)]
        free = set(range(self.d)) - {i for atom in self.atoms for i in atom}
        largest = [c for c in sets if not any(c < other for other in sets)]
        return [tuple(sorted(free | {i for a in c for i in self.atoms[a]})) for c in largest]


def draw(rng: np.random.Generator, name: str, p: int, outputs: int) -> Counted:
    """A sparsity of this name for p features of each output, with at least one coordinate that may be used."""
    import ellzero

    labels: list[int | None] = np.sort(rng.integers(0, max(2, p // 2 + 1), p)).tolist()
    for i in rng.choice(p, int(rng.choice([0, 0, 1, 2])), replace=False):
        labels[i] = None
    names = sorted({label for label in labels if label is not None})
    if not names:
        labels, names = [0] * p, [0]
    features = [tuple(i + j * p for j in range(outputs)) for i in range(p)]
    if name == "Rows":
        k = int(rng.integers(1, p + 1))
        return Counted(ellzero.sparsity.Rows(k), k, outputs * p, features)
    if name == "Groups":
        k = int(rng.integers(1, len(names) + 1))
        atoms = [tuple(i for f in range(p) if labels[f] == g for i in features[f]) for g in names]
        return Counted(ellzero.sparsity.Groups(k, labels), k, outputs * p, atoms)
    k = int(rng.integers(1, p + 1))
    one = int(rng.integers(1, 3))
    most = dict.fromkeys(names, one)
    at_most: Any = one
    if rng.random() < 0.5:
        most = {g: int(rng.integers(g != names[0], 3)) for g in names[: 1 + int(rng.integers(0, len(names)))]}
        most[names[0]] = max(most[names[0]], int(len(names) == 1))
        at_most = most
    # a k that the quotas leave no room for is the library's to warn of
    room = labels.count(None) + sum(min(labels.count(g), most.get(g, p)) for g in names)
    k = min(k, room)
    group = [-1 if label is None else label for label in labels]
    return Counted(ellzero.sparsity.PerGroup(k, labels, at_most), k, outputs * p, features, group, most)
