"""Columns that are exact copies of others, up to a factor: they take all curvature from R, and nothing needs them."""

import numpy as np

from ..risks import Risk
from ..sets import ConstraintSet

_LARGEST = 10**7  # entries that are looked at


def without_copies(
    risk: Risk, gamma: ConstraintSet, index: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates among the index on which R reaches all that it reaches on the index, with as few nonzeros; and all
    that have a copy.

    If x_j = c·x_i exactly, w_j can be given to i (as c·w_j) and R stays the same, as long as there is no ridge and w_i
    may be any number, or any non-negative one and c > 0. Columns of zeros, and constant ones beside an intercept, do
    nothing. The coordinates in `first` are never left out for the sake of others.
    """
    if not (gamma.whole_space or gamma.orthant) or risk.n_terms * index.size > _LARGEST:
        return index, index[:0]
    X = risk.columns(index)
    if X is None:
        return index, index[:0]
    largest = np.abs(X).max(axis=0)
    idle = largest == 0
    if risk.fit_intercept:
        idle |= (X[:1] == X).all(axis=0)
    exponent = np.frexp(largest)[1]
    scaled = np.ldexp(X, -exponent)
    exact = (np.ldexp(scaled, exponent) == X).all(axis=0)  # a power of two, unless something underflows
    X = np.where(exact, scaled, X)
    if gamma.whole_space:
        leading = X[(X != 0).argmax(axis=0), np.arange(index.size)]
        X = X * np.where(leading < 0, -1.0, 1.0)
    X += 0.0  # no negative zeros
    wanted = np.isin(index, first)
    alike: dict[bytes | int, list[int]] = {}
    for j in map(int, np.argsort(~wanted, kind="stable")):
        alike.setdefault(X[:, j].tobytes() if exact[j] else j, []).append(j)
    stay = wanted.copy()
    for columns in alike.values():
        stay[columns[0]] |= not idle[columns[0]]
    several = [j for columns in alike.values() if len(columns) > 1 for j in columns]
    return index[stay], np.sort(index[several])
