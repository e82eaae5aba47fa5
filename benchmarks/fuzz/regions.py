"""Γ written as inequalities, from its definition alone: exact membership, faces, and points moved inside exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath

from .rationals import Vector

MP = mpmath.MPContext()
MP.prec = 240  # 72 digits


@dataclass
class Row:
    """Σ coef_i w_i <= rhs, or Σ coef_i |w_i| <= rhs if `absolute`, or an equality if `equal`."""

    coef: Vector
    rhs: Fraction
    absolute: bool = False
    equal: bool = False

    def left(self, w: Vector) -> Fraction:
        """The left side at w."""
        return sum((c * (abs(w[i]) if self.absolute else w[i]) for i, c in self.coef.items() if i in w), Fraction(0))

    def slopes(self, signs: dict[int, int]) -> Vector:
        """Its coefficients where w has these signs."""
        return {i: c * (signs[i] if self.absolute else 1) for i, c in self.coef.items() if i in signs}


@dataclass
class Curve:
    """(Σ |w_i / scale_i|^p)^(1/p) <= radius."""

    scale: Vector
    radius: Fraction
    p: float = 2.0

    def left(self, w: Vector) -> mpmath.mpf:
        """(Σ |w_i / scale_i|^p)^(1/p) in 72 digits."""
        total = sum(abs(mp(w[i] / s)) ** MP.mpf(self.p) for i, s in self.scale.items() if i in w)
        return MP.mpf(total) ** (1 / MP.mpf(self.p))


@dataclass
class Region:
    """Bounds (None: no bound), rows and curves that hold together."""

    d: int
    lower: Vector = field(default_factory=dict)  # of the coordinates that have one
    upper: Vector = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def __and__(self, other: Region) -> Region:
        lower = {i: max(b.get(i) for b in (self.lower, other.lower) if i in b) for i in self.lower | other.lower}
        upper = {i: min(b.get(i) for b in (self.upper, other.upper) if i in b) for i in self.upper | other.upper}
        return Region(self.d, lower, upper, self.rows + other.rows, self.curves + other.curves)

    def violation(self, w: Vector) -> float:
        """The largest excess over a bound, relative to the bound, or to w where the bound is 0; 0 for members."""
        size = max((abs(v) for v in w.values()), default=Fraction(0))
        worst = 0.0
        for i in range(self.d):
            value = w.get(i, Fraction(0))
            for bound, excess in ((self.lower.get(i), -1), (self.upper.get(i), 1)):
                if bound is not None and excess * (value - bound) > 0:
                    worst = max(worst, float(excess * (value - bound) / (abs(bound) or size)))
        for row in self.rows:
            excess = row.left(w) - row.rhs
            excess = abs(excess) if row.equal else excess
            if excess > 0:
                worst = max(worst, float(excess / (abs(row.rhs) or size)))
        for curve in self.curves:
            excess = curve.left(w) - mp(curve.radius)
            if excess > 0:
                worst = max(worst, float(excess / mp(curve.radius)) if curve.radius else float(excess / mp(size)))
        return worst

    def faces(self, support: tuple[int, ...]) -> Iterator[tuple[Vector, list[tuple[Vector, Fraction]]]]:
        """Affine pieces of the slice on a support, entries of which are not zero: (fixed entries, equations).

        A polyhedron's minimum lies in the relative interior of one of them. Signs of entries are run through where
        rows are absolute; what leaves its signs is found out by `violation`.
        """
        signed = sorted({i for row in self.rows if row.absolute for i in row.coef} & set(support))
        ends = [
            [None, *{b[i] for b in (self.lower, self.upper) if b.get(i)}] for i in support
        ]  # a bound of 0 belongs to smaller supports
        here = [row for row in self.rows if any(i in row.coef for i in support)]
        loose = [row for row in here if not row.equal]
        for choice in itertools.product(*ends):
            fixed = {i: b for i, b in zip(support, choice, strict=True) if b is not None}
            free = [i for i in support if i not in fixed]
            for n_active in range(min(len(loose), len(free)) + 1):
                for active in itertools.combinations(loose, n_active):
                    turns = [i for i in signed if any(row.absolute and i in row.coef for row in active)]
                    for turn in itertools.product((1, -1), repeat=len(turns)):
                        signs = dict.fromkeys(support, 1) | dict(zip(turns, turn, strict=True))
                        equal = [row for row in here if row.equal]
                        yield fixed, [(row.slopes(signs), row.rhs) for row in (*equal, *active)]

    def _room(self, i: int, value: Fraction) -> Fraction:
        """How far an entry is from its nearer bound, or from 0."""
        ends = [abs(value), *(abs(value - bound[i]) for bound in (self.lower, self.upper) if i in bound)]
        return min(ends)

    def inside(self, w: Vector) -> Vector | None:
        """A member beside w with the same support at most: exactly one, or None where none is found."""
        w = {i: clip(v, self.lower.get(i), self.upper.get(i)) for i, v in w.items()}
        for row in self.rows:
            left = row.left(w)
            if row.equal and left != row.rhs and set(w) & set(row.coef):
                i = max(set(w) & set(row.coef), key=lambda i: self._room(i, w[i]))
                w[i] += (row.rhs - left) / row.coef[i]
            elif left > row.rhs >= 0:
                w = {i: v * row.rhs / left if i in row.coef else v for i, v in w.items()}
        for curve in self.curves:
            left = curve.left(w)
            if left > mp(curve.radius):
                shrink = fraction(mp(curve.radius) / left) * (1 - Fraction(1, 2**200))
                w = {i: v * shrink if i in curve.scale else v for i, v in w.items()}
        w = {i: v for i, v in w.items() if v}
        return w if self.violation(w) == 0 else None


def clip(value: Fraction, lower: Fraction | None, upper: Fraction | None) -> Fraction:
    """The nearest number between the bounds."""
    if lower is not None and value < lower:
        return lower
    return upper if upper is not None and value > upper else value


def mp(value: Fraction | int | float) -> mpmath.mpf:
    """In 72 digits."""
    if isinstance(value, Fraction):
        return MP.mpf(value.numerator) / value.denominator
    return MP.mpf(value)


def fraction(value: mpmath.mpf) -> Fraction:
    """Exactly."""
    sign, mantissa, exponent, _ = value._mpf_
    out = Fraction(int(mantissa)) * Fraction(2) ** exponent
    return -out if sign else out
