"""Random sets Γ, each as the library's object and as the inequalities of its definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .regions import Curve, Region, Row

POLYHEDRA = ("Everywhere", "NonNegative", "Box", "LinfBall", "L1Ball", "WeightedL1Ball", "SubSimplex", "Simplex",
             "PackingPolytope", "GroupWise", "Portfolio", "Intersection")  # fmt: skip
CURVED = ("L2Ball", "Ellipsoid", "LpBall", "GroupWise curved", "Intersection curved")
ALL = POLYHEDRA + CURVED

INNER = ("NonNegative", "Box", "LinfBall", "L1Ball", "WeightedL1Ball", "SubSimplex", "Simplex")
PAIRS = (("L1Ball", "LinfBall"), ("SubSimplex", "Box"), ("L1Ball", "NonNegative"), ("Simplex", "LinfBall"))
CURVED_PAIRS = (("L1Ball", "Ellipsoid"), ("L2Ball", "NonNegative"), ("L2Ball", "L1Ball"), ("LpBall", "LinfBall"))


def draw(rng: np.random.Generator, name: str, size: np.ndarray, k: int, single: bool) -> tuple[Any, Region]:
    """A set of this kind and its inequalities; `size` is how large entries of good answers are.

    Parameters of the sets are numbers of single precision if `single`: the same for everyone.
    """
    return _Maker(rng, single).make(name, size, k, 0, size.size)


def exact(values: Any) -> dict[int, Fraction]:
    return {i: Fraction(float(v)) for i, v in enumerate(values)}


class _Maker:
    def __init__(self, rng: np.random.Generator, single: bool) -> None:
        import ellzero

        self.rng, self.S = rng, ellzero.sets
        self.round = (lambda v: np.asarray(np.float32(v), float)) if single else np.asarray

    def make(self, name: str, size: np.ndarray, k: int, first: int, d: int) -> tuple[Any, Region]:
        """The set on size.size coordinates from `first` on, among d."""
        if name.startswith("GroupWise"):
            return self.groups(name, size, k)
        if name.startswith("Intersection"):
            return self.intersection(name, size, k)
        if name == "Portfolio":
            return self.portfolio(size, k)
        rng, n = self.rng, size.size
        here = range(first, first + n)
        r = float(self.round(np.sort(size)[-min(k, n) :].sum() * 10 ** rng.uniform(-1.5, 0.7)))
        ones, none = dict.fromkeys(here, Fraction(1)), dict.fromkeys(here, Fraction(0))
        S, radius = self.S, Fraction(r)
        scale = self.round(size / size.max() * np.exp(rng.normal(0, 0.5, n)))
        exact_scale = {i: Fraction(float(v)) for i, v in zip(here, scale, strict=True)}
        if name == "Everywhere":
            return S.Everywhere(), Region(d)
        if name == "NonNegative":
            return S.NonNegative(), Region(d, none)
        if name == "LinfBall":
            return S.LinfBall(r), Region(d, dict.fromkeys(here, -radius), dict.fromkeys(here, radius))
        if name == "Box":
            low, high = (self.round(size * rng.uniform(0, 2, n) * (rng.random(n) < 0.85)) for _ in "lu")
            bounds = (
                {i: Fraction(s * float(v)) for i, v in zip(here, b, strict=True)} for s, b in ((-1, low), (1, high))
            )
            return S.Box(-low, high), Region(d, *bounds)
        if name == "L1Ball":
            return S.L1Ball(r), Region(d, rows=[Row(ones, radius, absolute=True)])
        if name == "WeightedL1Ball":
            return S.WeightedL1Ball(scale, r), Region(d, rows=[Row(exact_scale, radius, absolute=True)])
        if name == "SubSimplex":
            return S.SubSimplex(r), Region(d, none, rows=[Row(ones, radius)])
        if name == "Simplex":
            return S.Simplex(r), Region(d, none, rows=[Row(ones, radius, equal=True)])
        if name == "L2Ball":
            return S.L2Ball(r), Region(d, curves=[Curve(ones, radius)])
        if name == "Ellipsoid":
            return S.Ellipsoid(scale, r), Region(d, curves=[Curve(exact_scale, radius)])
        if name == "LpBall":
            p = float(rng.choice([1.5, 3.0, 4.0]))
            return S.LpBall(p, r), Region(d, curves=[Curve(ones, radius, p)])
        if name == "PackingPolytope":
            m = int(rng.integers(1, 4))
            A = self.round(rng.uniform(0.1, 1, (m, n)) * (rng.random((m, n)) < 0.7))
            b = self.round(r * rng.uniform(0.3, 1, m))
            rows = [Row({i: Fraction(float(a)) for i, a in zip(here, row, strict=True) if a}, Fraction(float(c)))
                    for row, c in zip(A, b, strict=True)]  # fmt: skip
            return S.PackingPolytope(A, b), Region(d, none, rows=rows)
        raise ValueError(f"no set is called {name!r}")

    def groups(self, name: str, size: np.ndarray, k: int) -> tuple[Any, Region]:
        rng, d = self.rng, size.size
        cut = int(rng.integers(1, d)) if d > 1 else 1
        inner = INNER + (("L2Ball", "Ellipsoid") * 3 if name.endswith("curved") else ())
        names = [str(rng.choice(inner)) for _ in "ab"]
        if names == ["Simplex", "Simplex"] and (k == 1 or cut == d):
            names[0] = "L1Ball"
        sets, region = {}, Region(d)
        for j, (first, last) in enumerate(((0, cut), (cut, d))):
            if last > first:
                sets[j], part = self.make(names[j], size[first:last], k, first, d)
                region = region & part
        return self.S.GroupWise(sets, groups=[0] * cut + [1] * (d - cut)), region

    def intersection(self, name: str, size: np.ndarray, k: int) -> tuple[Any, Region]:
        pairs = CURVED_PAIRS if name.endswith("curved") else PAIRS
        names = pairs[int(self.rng.integers(len(pairs)))]
        (one, region), (two, other) = (self.make(n, size, k, 0, size.size) for n in names)
        if names[0] == "Simplex":  # the cap must leave members with k entries
            cap = float(self.round(one.total * self.rng.uniform(1.05, 2) / min(k, size.size)))
            two, bound = self.S.LinfBall(cap), Fraction(cap)
            every = range(size.size)
            other = Region(size.size, dict.fromkeys(every, -bound), dict.fromkeys(every, bound))
        return self.S.Intersection(one, two), region & other

    def portfolio(self, size: np.ndarray, k: int) -> tuple[Any, Region]:
        rng, d = self.rng, size.size
        cut = d // 2
        free = k == 1 or d == 1
        high, *caps = (float(self.round(1.25 if free else rng.uniform(0.6, 1.2))) for _ in range(3))
        every = range(d)
        region = Region(d, dict.fromkeys(every, Fraction(0)), dict.fromkeys(every, Fraction(high)))
        region.rows = [Row(dict.fromkeys(every, Fraction(1)), Fraction(1), equal=True)]
        for j, part in enumerate((range(cut), range(cut, d))):
            if len(part):
                region.rows.append(Row(dict.fromkeys(part, Fraction(1)), Fraction(caps[j])))
        labels = [0] * cut + [1] * (d - cut)
        limits = {j: caps[j] for j in sorted(set(labels))}
        return self.S.Portfolio(budget=1.0, upper=high, groups=labels, caps=limits), region
