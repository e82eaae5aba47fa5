"""Columns of a quadratic R beside those that a search keeps, along an orthonormal basis of what it has met."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..risks.curvature import Curvature

_FEW = 64
_LEAST = 1e-6  # of the square of a column: so much of it the others must leave, as for an accurate refit


@dataclass
class Span:
    """V = R⁻ᵀG[T, :] for the columns T that a search has met, G_TT = RᵀR: any G[:, S] with S ⊆ T is VᵀR[:, S].

    V is what every column has along an orthonormal basis of the columns T, so it needs no more digits than those by
    which exchanges are ranked, and each newcomer adds its own rows. Where columns nearly depend on each other there is
    no such basis.

    Attributes
    ----------
    model : curvature
        G.
    """

    model: Curvature
    columns: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    R: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    room: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def V(self) -> np.ndarray:
        """One row for each column of T."""
        return self.room[: self.columns.size]

    def of(self, S: np.ndarray) -> Kept | None:
        """What is seen of the kept columns S, in this order; None where they nearly depend on each other."""
        new = np.setdiff1d(S, self.columns)
        many = self.columns.size + new.size > 3 * S.size + _FEW  # each of them costs a little in every product
        if new.size and (many or not self._reaches(new)) and not (self.columns.size and self._begun_anew(S)):
            return None
        place = {j: i for i, j in enumerate(self.columns.tolist())}
        at = np.array([place[j] for j in S.tolist()], dtype=np.intp)
        return Kept(self.V, self.R[:, at], np.delete(self.R, at, axis=1))

    def _begun_anew(self, S: np.ndarray) -> bool:
        self.columns, self.R = self.columns[:0], np.empty((0, 0))
        return self._reaches(S)

    def _reaches(self, new: np.ndarray) -> bool:
        """Add columns to T, unless they nearly depend on those that are there, or are too many."""
        m, every = self.columns.size, np.concatenate([self.columns, new])
        if not self.model.affords(every.size):
            return False
        G = self.model.remembered(every)
        diagonal = np.diagonal(G)
        if not (np.isfinite(G).all() and (diagonal > 0).all()):
            return False
        units = 1 / np.sqrt(diagonal)
        try:
            R = np.linalg.cholesky(units[:, None] * G * units).T / units
        except np.linalg.LinAlgError:
            return False
        if not (np.diagonal(R) ** 2 > _LEAST * diagonal).all():
            return False
        last = np.linalg.solve(R, np.eye(every.size)[:, m:])
        if len(self.room) < every.size:  # memory that is not written to is not taken
            known, kind = self.V, np.float32 if self.model.is_rough else np.float64
            self.room = np.empty((every.size + max(m, 64), self.model.diagonal.size), dtype=kind)
            if m:
                self.room[:m] = known
        self.model.rough_images(every, last, self.room[m : every.size])
        self.columns, self.R = every, R
        return True


@dataclass
class Kept:
    """C = G[:, S] = VᵀR of the kept columns S; `others` are the columns of R that belong to T without S."""

    V: np.ndarray
    R: np.ndarray
    others: np.ndarray

    def rows(self, index: np.ndarray) -> np.ndarray:
        """C[index]."""
        return np.asarray(np.take(self.V, index, axis=1, mode="wrap").T.astype(float) @ self.R)

    def times(self, U: np.ndarray) -> np.ndarray:
        """CU."""
        return np.asarray(((self.R @ U).astype(self.V.dtype).T @ self.V).T, dtype=float)

    def overlaps(self, index: np.ndarray, H: np.ndarray) -> np.ndarray:
        """C_J H C_Jᵀ with H = inv(G_SS), no damping, for each row J of an array of indices: what lies in the span of S.

        It is what lies in that of T, V_JᵀV_J, less what lies in the part of this that is orthogonal to S.
        """
        V = np.take(self.V, index.ravel(), axis=1, mode="wrap")  # -1 is no column, and any will do
        found = _squares(V, index.shape)
        if self.others.size:
            rest = np.linalg.qr(self.others - self.R @ (H @ (self.R.T @ self.others)))[0]
            found -= _squares(rest.T.astype(V.dtype) @ V, index.shape)
        return found.astype(float)


def _squares(V: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """V_JᵀV_J for each J."""
    parts = V.reshape(len(V), *shape).transpose(1, 2, 0)
    return np.asarray(parts @ parts.swapaxes(1, 2))
