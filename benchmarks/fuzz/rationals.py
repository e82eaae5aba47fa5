"""Exact arithmetic on the numbers that floats are: integers, fractions, linear systems without rounding."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np

Vector = dict[int, Fraction]  # the nonzero entries of a vector


def integers(values: Any) -> tuple[np.ndarray, int]:
    """(m, q) with values = m / q exactly, m integers and q a power of two."""
    values = np.asarray(values)
    ratios = [float(v).as_integer_ratio() for v in values.ravel()]
    q = max((b for _, b in ratios), default=1)
    out = np.empty(len(ratios), dtype=object)
    out[:] = [a * (q // b) for a, b in ratios]
    return out.reshape(values.shape), q


def vector(x: Any) -> Vector:
    """The nonzero entries of an array."""
    return {i: Fraction(float(v)) for i, v in enumerate(np.asarray(x)) if v != 0}


def solve(rows: list[list[int]]) -> list[Fraction] | None:
    """A solution of the integer system whose rows are [coefficients..., right side]; None if there is none.

    Gauss-Jordan without fractions (Bareiss 1968): every entry is a minor, so that divisions leave no remainder.
    Unknowns that the system leaves open are 0.
    """
    rows = [list(row) for row in rows]
    n, previous, rank, pivots = len(rows[0]) - 1 if rows else 0, 1, 0, []
    for column in range(n):
        chosen = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if chosen is None:
            continue
        rows[rank], rows[chosen] = rows[chosen], rows[rank]
        base = rows[rank]
        pivot = base[column]
        for i, row in enumerate(rows):
            if i != rank:
                factor = row[column]
                rows[i] = [(pivot * a - factor * b) // previous for a, b in zip(row, base, strict=True)]
        previous, rank = pivot, rank + 1
        pivots.append(column)
    if any(row[-1] for row in rows[rank:]):
        return None
    out = [Fraction(0)] * n
    for row, column in zip(rows, pivots, strict=False):
        out[column] = Fraction(row[-1], row[column])
    return out


def whole(row: list[Fraction | int]) -> list[int]:
    """The row times the least number that makes it whole, without common factors."""
    scale = lcm(*(Fraction(v).denominator for v in row))
    out = [int(v * scale) for v in row]
    divisor = gcd(*out) or 1
    return [v // divisor for v in out]


def definite(matrix: list[list[int]]) -> bool:
    """Whether a symmetric integer matrix is positive semidefinite, by symmetric elimination."""
    left = [list(row) for row in matrix]
    while left:
        worst = min(range(len(left)), key=lambda i: left[i][i])
        if left[worst][worst] < 0:
            return False
        p = max(range(len(left)), key=lambda i: left[i][i])
        if left[p][p] == 0:
            return not any(any(row) for row in left)
        keep = [i for i in range(len(left)) if i != p]
        left = [[left[i][j] * left[p][p] - left[i][p] * left[p][j] for j in keep] for i in keep]
    return True
