"""One linear model under many weightings of its rows and many ridges: the fits of a cross-validation, all at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.linear_systems import inverses
from .._core.stacked import Stacked
from .base import changed
from .gathered import Gathered, gathered
from .terms import LinearTerms

_TOGETHER = 2**21  # numbers of the data that are gathered at a time
_STEPS = 50  # of Newton's method at the most
_INNER, _ENOUGH = 20, 0.1  # steps of conjugate gradients for one of Newton's, and where they end: of the first residual
_CONTRACTS = 0.1  # of λ²: what a step by the curvature of an earlier point must leave of it
_JITTER = 1e-12  # of the diagonal of the curvature, so that columns that depend on each other do no harm


@dataclass
class Fits(Stacked):
    """The best values of m problems on k features each.

    Attributes
    ----------
    features : array of shape (m, k)
    values : array of shape (m, q, k) or (m, q, k + 1)
        Coefficients of q outputs, with the intercepts in the last place if there are any.
    predictions : array of shape (m, q, n)
    objective : array of shape (m,)
    spread : array of shape (m, k)
        The diagonal of the inverse of the curvature: without feature j R is w_j²/(2 spread_j) higher, to second order.
    """

    features: np.ndarray
    values: np.ndarray
    predictions: np.ndarray
    objective: np.ndarray
    spread: np.ndarray

    @property
    def costs(self) -> np.ndarray:
        """By how much R is higher without each feature, (m, k), to second order; times 2."""
        values = self.values[:, :, : self.features.shape[1]]
        return np.asarray(np.einsum("bqk,bqk->bk", values, values) / self.spread)


class Weightings:
    """R_b(w) = Σ_i ω_bi ℓ(x_iᵀw + β_b + o_i, y_i) + (ρ_b/2)||w||² for problems b: rows and loss are those of one model.

    Arrays have an axis for the problems, so that many small ones cost little more than one. Values are found by
    Newton's method in w and the intercepts, as closely as a choice among models needs. With several outputs its systems
    are solved by conjugate gradients, preconditioned by the curvature of the mean over the outputs.

    Parameters
    ----------
    model : LinearTerms
        Its own weights and ridge do not count.
    weights : array of shape (m, n)
        ω, rows that sum to 1.
    ridges : array of shape (m,)
        ρ.
    closeness : float
        Of R: what the last step may gain.
    """

    def __init__(self, model: LinearTerms, weights: np.ndarray, ridges: np.ndarray, *, closeness: float = 1e-7) -> None:
        self.model, self.weights, self.ridges, self.closeness = model, weights, ridges, closeness
        self.q, self.free = model.n_outputs, int(model.fit_intercept)
        self.n, self.p = model.design.shape
        self._offset = 0.0 if model.offset is None else to_host(model.offset).T.reshape(self.q, self.n)
        self._enough = _ENOUGH if closeness > 1e-10 else 0.1 * _ENOUGH
        self._tiled: dict[int, LinearTerms] = {}

    # The loss and its derivatives at predictions of shape (m, q, n).

    def _rows(self, m: int) -> LinearTerms:
        """The loss of m times the rows, one problem after the other."""
        if m not in self._tiled:
            y = np.asfortranarray(np.concatenate([to_host(self.model.y)] * m))
            plain: dict[str, Any] = {"share": 1.0, "_weights": None, "offset": None, "fit_intercept": False}
            self._tiled[m] = changed(self.model, y=y, n_terms=len(y), **plain)
            self._tiled[m]._prepare()
        return self._tiled[m]

    def _flat(self, Z: np.ndarray) -> np.ndarray:
        """(m, q, n) as m·n rows, output by output in memory."""
        return Z.reshape(-1) if self.q == 1 else Z.swapaxes(0, 1).reshape(self.q, -1).T

    def _back(self, rows: np.ndarray, m: int) -> np.ndarray:
        return rows.reshape(m, 1, self.n) if self.q == 1 else rows.T.reshape(self.q, m, self.n).swapaxes(0, 1)

    def losses(self, Z: np.ndarray) -> np.ndarray:
        """The loss of every row, (m, n)."""
        return np.asarray(self._rows(len(Z))._loss(self._flat(Z))).reshape(len(Z), self.n)

    def _counted(self, which: np.ndarray, values: np.ndarray) -> np.ndarray:
        """ω times values of shape (m, n) or (m, q, n); rows without weight may have any, also infinite ones."""
        weights = self.weights[which].reshape(len(which), *[1] * (values.ndim - 2), self.n)
        return np.asarray(np.multiply(weights, values, where=weights > 0, out=np.zeros(values.shape)))

    def _objective(self, which: np.ndarray, Z: np.ndarray, U: np.ndarray) -> np.ndarray:
        u = U[:, :, : U.shape[2] - self.free]
        losses = self._counted(which, self.losses(Z)).sum(axis=1)
        return np.asarray(losses + 0.5 * self.ridges[which] * np.einsum("bqk,bqk->b", u, u))

    def _slopes(self, which: np.ndarray, Z: np.ndarray) -> np.ndarray:
        rows = self._rows(len(Z))
        return self._counted(which, self._back(rows._slope(self._flat(Z), rows.y), len(Z)))

    def _bends(self, which: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """ω times the second derivatives, (m, n); of several outputs their mean."""
        rows = self._rows(len(Z))
        return self._counted(which, np.asarray(rows._steady_bend(self._flat(Z), rows.y)).reshape(len(Z), self.n))

    # The best values on some features.

    def start(self, which: np.ndarray) -> Fits:
        """Those of no features."""
        m = which.size
        return self.fit(which, np.zeros((m, 0), dtype=np.intp), np.zeros((m, self.q, self.free)))

    def fit(self, which: np.ndarray, features: np.ndarray, start: np.ndarray) -> Fits:
        """Of the problems of these numbers, each on its own features, from values as in `Fits`."""
        numbers = self.n * max(features.shape[1], self.q)
        together = max(1, _TOGETHER // numbers)
        parts = [
            self._fit(which[part], features[part], start[part])
            for part in (slice(first, first + together) for first in range(0, len(which), together))
        ]
        return Fits(*(np.concatenate([getattr(f, part.name) for f in parts]) for part in fields(Fits)))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _fit(self, which: np.ndarray, features: np.ndarray, start: np.ndarray) -> Fits:
        """Newton's method; the curvature of an earlier point serves as long as steps become much shorter by it."""
        k, U = features.shape[1], start.copy()
        A = gathered(self.model.design, features, self.free)
        ridges = np.zeros((len(which), k + self.free))
        ridges[:, :k] = self.ridges[which, None]
        Z = A.forward(U) + self._offset
        value, last = self._objective(which, Z, U), np.zeros(len(which))
        inverse, going = np.ones((len(which), k + self.free, k + self.free)), np.arange(len(which))
        for _ in range(_STEPS):
            a, b = A.of(going), which[going]
            g = a.adjoint(self._slopes(b, Z[going])) + ridges[going, None] * U[going]
            move = self._step(b, Z[going], a, ridges[going], g, inverse[going])
            decrement = -np.einsum("bqk,bqk->b", g, move)
            old = np.flatnonzero(~(decrement <= _CONTRACTS * last[going]))
            if old.size:
                at = going[old]
                found = self._inverses(which[at], Z[at], A.of(at), ridges[at])
                if found is None:
                    break
                inverse[at] = found
                move[old] = self._step(which[at], Z[at], A.of(at), ridges[at], g[old], found)
                decrement[old] = -np.einsum("bqk,bqk->b", g[old], move[old])
            U[going], Z[going], value[going], moved = self._along(
                b, U[going], Z[going], value[going], move, a.forward(move), decrement
            )
            last[going] = decrement
            going = going[moved & (decrement > self.closeness * np.abs(value[going]))]
            if not going.size:
                break
        every = np.arange(k)
        return Fits(which, features, U, Z, value, np.maximum(inverse[:, every, every], 1e-300))

    def _inverses(self, which: np.ndarray, Z: np.ndarray, A: Gathered, ridges: np.ndarray) -> np.ndarray | None:
        """Of the curvature of each problem, of several outputs that of their mean; None if it is not finite."""
        M = A.gram(self._bends(which, Z))
        every = np.arange(M.shape[1])
        M[:, every, every] = (1 + _JITTER) * (M[:, every, every] + ridges) + 1e-300
        found = inverses(M) if np.isfinite(M).all() else M
        return found if np.isfinite(found).all() else None

    def _step(
        self, which: np.ndarray, Z: np.ndarray, A: Gathered, ridges: np.ndarray, g: np.ndarray, inverse: np.ndarray
    ) -> np.ndarray:
        """-H⁻¹g for the curvature H: of one output by its inverse, of several roughly, by conjugate gradients."""
        if self.q == 1:
            return np.asarray(-g @ inverse)
        bend, m = self._rows(len(Z))._bent(self._flat(Z)), len(Z)
        x, r = np.zeros_like(g), -g
        s = r @ inverse
        p, size = s, np.einsum("bqk,bqk->b", r, s)
        first = size
        for _ in range(_INNER):
            bent = self._counted(which, self._back(bend(self._flat(A.forward(p))), m))
            image = A.adjoint(bent) + ridges[:, None] * p
            step = (size / np.maximum(np.einsum("bqk,bqk->b", p, image), 1e-300))[:, None, None]
            x, r = x + step * p, r - step * image
            s = r @ inverse
            size, before = np.einsum("bqk,bqk->b", r, s), size
            if (size <= self._enough**2 * first).all():
                break
            p = s + (size / np.maximum(before, 1e-300))[:, None, None] * p
        return x

    def _along(
        self,
        which: np.ndarray,
        U: np.ndarray,
        Z: np.ndarray,
        value: np.ndarray,
        move: np.ndarray,
        along: np.ndarray,
        decrement: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The first of a step, half of it, a quarter, ... that lowers R by enough, and whether there was one."""
        before, size, left = value, 1.0, np.arange(len(which))
        U, Z, value = U.copy(), Z.copy(), value.copy()
        while left.size and size > 1e-9:
            u, z = U[left] + size * move[left], Z[left] + size * along[left]
            there = self._objective(which[left], z, u)
            good = there <= before[left] - 1e-4 * size * decrement[left] + 1e-15 * np.abs(before[left])
            done = left[good]
            U[done], Z[done], value[done] = u[good], z[good], there[good]
            left, size = left[~good], 0.5 * size
        moved = np.ones(len(which), dtype=bool)
        moved[left] = False
        return U, Z, value, moved

    # What other features could do.

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def gains(self, fits: Fits) -> np.ndarray:
        """What R gains from each feature, (m, p), to second order, while the others stay as they are; times 2.

        c_j²/G_jj, G the curvature of the mean over the outputs without what the intercept takes; -1 for those in use.
        """
        m, design = len(fits), self.model.design
        slopes = self._slopes(fits.which, fits.predictions).reshape(m * self.q, self.n)
        c = self._adjoint(slopes).reshape(m, self.q, self.p)
        bends = self._bends(fits.which, fits.predictions)
        squares = to_host(design.square_sums(np.ascontiguousarray(bends.T))).T
        if self.free:
            means = self._adjoint(bends)
            centred = squares - means**2 / np.maximum(bends.sum(axis=1), 1e-300)[:, None]
            squares = np.where(centred > 1e-10 * squares, centred, np.inf)  # a constant column is the intercept's
        gains = np.einsum("bqp,bqp->bp", c, c) / (squares + self.ridges[fits.which, None])
        gains[~np.isfinite(gains)] = 0.0
        np.put_along_axis(gains, fits.features, -1.0, axis=1)
        return np.asarray(gains)

    def _adjoint(self, rows: np.ndarray) -> np.ndarray:
        """Each row times X."""
        design = self.model.design
        return np.asarray(to_host(design.adjoint(design.asarray(np.ascontiguousarray(rows.T)))).T, dtype=float)
