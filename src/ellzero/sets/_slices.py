"""What is computed on slices of any Γ: quadratic minima, and maxima over few of its factors."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from .._core.arrays import Array, like, norm, to_host
from .._core.linear_systems import solve
from ..sparsity import Sparsity
from ._quadratic import minimise_by_cuts, minimise_by_gradients
from ._range import in_range, narrowed
from .faces import minimise_on_polyhedron

if TYPE_CHECKING:
    from .base import ConstraintSet


class EmptySlice(ValueError):
    """No member of Γ is zero outside the given support."""


class MemberNotFound(EmptySlice):
    """None was found where there may be one."""


_FEW = 12  # unknowns for which cutting planes are quicker than projected gradients


def minimise_on_slice(
    gamma: ConstraintSet, G: np.ndarray, b: np.ndarray, support: np.ndarray, start: np.ndarray, deadline: float
) -> np.ndarray:
    """See `ConstraintSet.minimise_quadratic`, where Γ itself knows nothing faster."""
    free, project, shape, part, found = solve(G, b)[0], gamma.on(support), None, None, None
    with suppress(EmptySlice):  # only these descriptions fail: there is a projection onto the slice
        shape = gamma.polyhedron_on(support)
        part = gamma.slice_on(support) if shape is None else None
    if shape is not None:
        start = start if shape.contains(start) else project(start)
        found = free if shape.contains(free) else minimise_on_polyhedron(G, b, shape, start, deadline, project)
        if found is None:  # degenerate: what depends on each other is told apart by a hair
            found = minimise_on_polyhedron(G + 1e-11 * np.diag(np.diagonal(G)), b, shape, start, deadline)
    elif part is not None and b.size <= _FEW and (factors := part._factors()):  # to project onto all takes longest
        found = minimise_by_cuts(G, b, factors, deadline)[0]
        found = None if found is None else project(found)
    elif norm(project(free) - free) <= 1e-14 * norm(free):
        return free
    elif part is not None:
        found = part._boundary_minimum(G, b, start)
    # what is left by rounding, and a polyhedron may be larger than its set
    if found is not None and norm((inside := project(found)) - found) <= 1e-9 * norm(found):
        return inside
    return _minimise_by_gradients(gamma, G, b, support, project(start), deadline)


def _minimise_by_gradients(
    gamma: ConstraintSet, G: np.ndarray, b: np.ndarray, support: np.ndarray, start: np.ndarray, deadline: float
) -> np.ndarray:
    """Projected gradients, in units in which the diagonal of G is 1 where Γ can be told in them."""
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    units = 1 / np.where(size > 0, size, 1.0)
    if units.max() > 10 * units.min():
        with suppress(EmptySlice):
            part = gamma.slice_on(support)
            if part is not None and (other := part.rescaled(units)) is not None:
                G, b = units[:, None] * G * units, units * b
                found = units * minimise_by_gradients(G, b, other.project, start / units, deadline)
                return to_host(gamma.project(found, support))
    return minimise_by_gradients(G, b, gamma.on(support), start, deadline)


def maximum_over_atoms(
    gamma: ConstraintSet, z: Array, sparsity: Sparsity, mu: float, keep: np.ndarray
) -> tuple[float, Array | None]:
    """The sparse maximum of a Γ that is a product over the atoms: each brings what it brings, whatever the others do.

    So the maximum over all of Γ, cut down to the atoms that bring most, is the answer.
    """
    values = to_host(z)
    best = _maximiser(gamma, values, mu, np.arange(values.size) if sparsity.atoms is None else sparsity.atoms)
    if not gamma.preserves_support:  # Γ_a without 0: a has to be used
        required = np.flatnonzero(gamma.project(np.zeros(values.size)))
        keep = np.union1d(keep, required).astype(np.intp)
        gamma.require_room(sparsity, keep, required.size)
    support = sparsity.best_atoms(in_range(lambda z, w, mu: sparsity.sums(gains(z, w, mu)), values, best, mu), keep)
    w = np.zeros_like(values)
    w[support] = best[support]
    if not np.isfinite(w).all():
        return np.inf, None
    value = in_range(lambda z, w, mu: gains(z, w, mu).sum(), values.astype(float), w.astype(float), mu)
    return float(narrowed(value)), like(w, z)


def gains(z: np.ndarray, w: np.ndarray, mu: float) -> np.ndarray:
    """zw - μw²/2 of each entry, in double precision at least; infinite entries are those of μ = 0."""
    z = z.astype(np.promote_types(z.dtype, float), copy=False)
    with np.errstate(invalid="ignore"):
        return np.where(w == 0, 0.0, w * (z - 0.5 * mu * w) if mu > 0 else w * z)


def _maximiser(gamma: ConstraintSet, z: np.ndarray, mu: float, atoms: np.ndarray) -> np.ndarray:
    """argmax <z, w> - μ/2 ||w||² over Γ; infinite entries in atoms where that is not bounded."""
    if not gamma.has_sparse_maximum(mu):
        return to_host(gamma.project(z / mu))
    found = gamma.sparse_maximum(z, z.size, mu)
    assert found is not None
    if found[1] is not None:
        return to_host(found[1])
    w = np.zeros_like(z)
    for atom in np.unique(atoms):
        inside = atoms == atom
        part = gamma.sparse_maximum(np.where(inside, z, 0.0).astype(z.dtype), z.size, mu)
        assert part is not None
        far = np.where(z == 0, 0.0, np.copysign(np.inf, z))
        w[inside] = (far if part[1] is None else to_host(part[1]))[inside]
    return w
