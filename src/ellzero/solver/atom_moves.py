"""Exchanges of whole atoms: coordinates that come and go together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .moves import Books, Exchange
from .problem import Problem

_SHARE = 0.5  # of an atom left out, inside the span of the kept columns; more is looked for at the end alone
_JITTER = 1e-9  # of the square of a column: less than that is left of it, and it is taken for a combination of others
_NUMBERS = 2**22  # held at a time


@dataclass
class Place:
    """An atom A of the support, or none: its positions in S, M = inv(H_AA), the move Mw_A, and the cost w_AᵀMw_A."""

    positions: np.ndarray
    M: np.ndarray
    move: np.ndarray
    cost: float


@dataclass
class Newcomers:
    """Atoms left out, in units of their columns, with zeros behind the shorter ones.

    Attributes
    ----------
    index, scale : arrays of shape (m, g)
        Their coordinates, and 1/sqrt(G_jj), or 0 for columns of zeros and where there is no coordinate.
    G : array of shape (m, g, g)
        G_JJ in these units, with 1 on its diagonal.
    slopes : array of shape (m, g, places)
        What the slope is worth after each removal, in these units.
    """

    index: np.ndarray
    scale: np.ndarray
    G: np.ndarray
    slopes: np.ndarray

    def part(self, rows: np.ndarray) -> "Newcomers":
        """Some of them."""
        return Newcomers(self.index[rows], self.scale[rows], self.G[rows], self.slopes[rows])


@dataclass
class AtomMoves:
    """Exchanges of one atom for another, by what they gain.

    For a quadratic R without Γ, removing A costs w_AᵀMw_A, M = inv(H_AA) (see `SwapSearch` for C, H and c), and J gains

        sᵀQ⁻¹s,   s = c_J + C_J H_SA M w_A,   Q = G_JJ - C_J H C_Jᵀ + C_J H_SA M H_AS C_Jᵀ.

    With λ the largest eigenvalue of G_JJ⁻¹ C_J H C_Jᵀ, at most 1, (1-λ)G_JJ lies below Q, so that J gains at most
    sᵀG_JJ⁻¹s/(1-λ). Newcomers for which this does not pay are not looked at; first λ is taken to be ½, and where
    nothing pays then, computed, if it is to be `certain`.

    With Γ, or for another R, the formula ranks the best of each place: without the directions that Γ forbids.
    """

    problem: Problem
    books: Books
    model: Any
    exact: bool
    certain: bool
    worth: Callable[..., np.ndarray]

    def ranked(self, rivals: int, doubt: float, least: float) -> list[Exchange]:
        """The best few newcomers of each place that pay, or nearly, by their gain."""
        self.places, self.kinds, self.overlaps = [], [], []
        members, slopes = self._members(), self._find_places()
        if not self.places or not members:
            return []
        if not self.exact:
            members = self._shortlist(members, slopes)
        cost = (1 - doubt) * np.array([place.cost for place in self.places]) + least
        self.kinds = list(self._newcomers(members, slopes))
        self.bounds = [np.sum(kind.slopes * _solve(kind.G, kind.slopes), axis=1) for kind in self.kinds]
        looks = [bound > (1 - _SHARE) * cost * self.exact for bound in self.bounds]
        found = self._collected(looks, cost, rivals)
        if not found and self.certain and self.books.C is not None:
            self.overlaps = [self._overlap(kind) for kind in self.kinds]
            if self.exact:
                self.bounds = [
                    bound / np.maximum(1 - 1e-9 - overlap, 1e-9)[:, None]
                    for bound, overlap in zip(self.bounds, self.overlaps, strict=True)
                ]
                rest = [~look & (bound > cost) for look, bound in zip(looks, self.bounds, strict=True)]
                found = self._collected(rest, cost, rivals)
        return sorted(found, key=lambda move: -move.gain)

    def nearest(self, number: int) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        """Places, the newcomers that come nearest to paying for one, and what each gains in each, less the cost.

        After `ranked` has found nothing. Places are positions in S, newcomers coordinates.
        """
        cost = np.array([place.cost for place in self.places])
        near = [np.max(bound - cost, axis=1) for bound in self.bounds] if self.kinds else []
        if not near:
            return [], [], np.empty((0, 0))
        limit = np.sort(np.concatenate(near))[::-1][: 2 * number][-1]
        looks = [np.repeat((close >= limit)[:, None], cost.size, axis=1) for close in near]
        names, won = self._looked_at(looks)
        net = won - cost
        best = np.argsort(-net.max(axis=1, initial=-np.inf), kind="stable")[:number]
        return [place.positions for place in self.places], [names[j] for j in best], net[best]

    @property
    def atoms(self) -> np.ndarray:
        """The atom of each coordinate."""
        atoms = self.problem.sparsity.atoms
        return np.arange(self.books.c.size) if atoms is None else atoms

    def _members(self) -> dict[int, np.ndarray]:
        """The coordinates of each atom left out."""
        atoms = self.atoms
        order = np.argsort(atoms, kind="stable")
        names, first = np.unique(atoms[order], return_index=True)
        inside = set(atoms[self.books.S].tolist())
        parts = zip(names.tolist(), np.split(order, first[1:]), strict=True)
        return {atom: index for atom, index in parts if atom >= 0 and atom not in inside}

    def _find_places(self) -> np.ndarray:
        """What c_j + C_jS H_SA M w_A is worth for every coordinate j and each atom A that may leave."""
        books, sparsity = self.books, self.problem.sparsity
        S, H, w = books.S, books.H, books.values
        mine, places = self.atoms[S], self.places
        for atom in np.setdiff1d(mine, self.atoms[self.problem.kept]):
            P = np.flatnonzero(mine == atom)
            M = np.linalg.pinv(H[np.ix_(P, P)], hermitian=True) if np.isfinite(H).all() else np.zeros((P.size, P.size))
            places.append(Place(P, M, M @ w[P], float(w[P] @ M @ w[P])))
        if books.C is None:  # each costs a product with X
            places[:] = sorted(places, key=lambda place: place.cost)[:8]
        U = np.zeros((S.size, len(places)))
        for a, place in enumerate(places):
            U[:, a] = H[:, place.positions] @ place.move
        slopes = books.c[:, None] + (self.model.images(S, U) if books.C is None else books.C @ U)
        if sparsity.size(S) < sparsity.k:
            nobody = np.empty(0, dtype=np.intp)
            places.append(Place(nobody, np.empty((0, 0)), np.empty(0), 0.0))
            slopes = np.column_stack([slopes, books.c])
        return np.asarray(np.sign(slopes) * self.worth(slopes, books.price[:, None]))

    def _shortlist(self, members: dict[int, np.ndarray], slopes: np.ndarray) -> dict[int, np.ndarray]:
        """The best newcomers of each place, as if their columns were orthogonal."""
        sparsity, names = self.problem.sparsity, np.array(list(members))
        best: set[int] = set()
        for column in slopes.T:
            score = sparsity.sums(column**2 / self.books.diagonal)[names]
            best.update(names[np.argsort(-score)[:16]].tolist())
        return {atom: members[atom] for atom in sorted(best)}

    def _newcomers(self, members: dict[int, np.ndarray], slopes: np.ndarray) -> Iterator[Newcomers]:
        """The newcomers by their sizes, up to the next power of 2, no more at a time than fit into memory."""
        groups = list(members.values())
        blocks = self.model.blocks(groups)
        width = 2 ** np.ceil(np.log2([g.size for g in groups])).astype(int)
        for g in np.unique(width).tolist():
            alike = np.flatnonzero(width == g)
            step = max(1, _NUMBERS // (g * max(g, self.books.S.size, slopes.shape[1])))
            for start in range(0, alike.size, step):
                yield _padded(
                    [groups[i] for i in alike[start : start + step]],
                    [blocks[i] for i in alike[start : start + step]],
                    g,
                    slopes,
                )

    def _overlap(self, kind: Newcomers) -> np.ndarray:
        """λ of each newcomer."""
        C = self._rows(kind)
        L = np.linalg.cholesky(kind.G)
        half = _solve(L, C @ self.books.H @ C.swapaxes(1, 2))
        return np.asarray(np.linalg.eigvalsh(_solve(L, half.swapaxes(1, 2)))[:, -1])

    def _rows(self, kind: Newcomers) -> np.ndarray:
        """C_J in the units of the newcomers."""
        assert self.books.C is not None
        return np.asarray(self.books.C[kind.index] * kind.scale[:, :, None])

    def _looked_at(self, looks: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The coordinates of the newcomers that are looked at, and what they gain in each place, or -inf."""
        names: list[np.ndarray] = []
        gains = [np.empty((0, len(self.places)))]
        for kind, look in zip(self.kinds, looks, strict=True):
            rows = np.flatnonzero(look.any(axis=1))
            if rows.size:
                part = kind.part(rows)
                gains.append(self._gains(part, look[rows]))
                names.extend(map(np.unique, part.index))
        return names, np.concatenate(gains)

    def _collected(self, looks: list[np.ndarray], cost: np.ndarray, rivals: int) -> list[Exchange]:
        """The best few admitted newcomers of each place among those that are looked at."""
        names, won = self._looked_at(looks)
        found: list[Exchange] = []
        for a, place in enumerate(self.places):
            left, rank = np.delete(self.books.S, place.positions), 0
            for j in np.argsort(-won[:, a], kind="stable").tolist():
                if not won[j, a] > cost[a] or rank == rivals:
                    break
                if self.problem.sparsity.admits(np.union1d(left, names[j])):
                    out = tuple(self.books.S[place.positions].tolist())
                    found.append(Exchange(out, tuple(names[j].tolist()), rank, float(won[j, a] - place.cost)))
                    rank += 1
        return found

    def _gains(self, kind: Newcomers, look: np.ndarray) -> np.ndarray:
        """sᵀQ⁻¹s for newcomers and places, -inf where they are not looked at."""
        books, won = self.books, np.full(look.shape, -np.inf)
        Q = kind.G
        if books.C is not None:
            C = self._rows(kind)
            B = C @ books.H
            Q = Q - B @ C.swapaxes(1, 2)
        ridge = _JITTER * np.eye(Q.shape[1])
        for a, place in enumerate(self.places):
            rows = np.flatnonzero(look[:, a])
            s, near = kind.slopes[rows, :, a], Q[rows]
            if books.C is not None:
                part = B[rows][:, :, place.positions]
                near = near + part @ place.M @ part.swapaxes(1, 2)
            z = _solve(near + ridge, s[:, :, None])[:, :, 0]
            if not self.problem.gamma.whole_space:
                z = np.where(z * s > 0, z, 0.0)  # the nearest directions that Γ allows, and the best point on the ray
                along, bend = np.sum(z * s, axis=1), np.einsum("ij,ijk,ik->i", z, near + ridge, z)
                won[rows, a] = along**2 / np.maximum(bend, 1e-300)
            else:
                won[rows, a] = np.sum(z * s, axis=1)
        return np.where(np.isnan(won), -np.inf, won)


def _padded(groups: list[np.ndarray], blocks: list[np.ndarray], width: int, slopes: np.ndarray) -> Newcomers:
    m = len(groups)
    index, scale, G = np.zeros((m, width), dtype=np.intp), np.zeros((m, width)), np.zeros((m, width, width))
    for row, (group, block) in enumerate(zip(groups, blocks, strict=True)):
        size = np.sqrt(np.maximum(np.diagonal(block), 0.0))
        index[row, : group.size] = group
        index[row, group.size :] = group[0]
        scale[row, : group.size] = np.where(size > 1e-150, 1 / np.maximum(size, 1e-150), 0.0)
        G[row, : group.size, : group.size] = block
    G *= scale[:, :, None] * scale[:, None, :]
    every = np.arange(width)
    G[:, every, every] = 1.0 + _JITTER
    return Newcomers(index, scale, G, slopes[index] * scale[:, :, None])


def _solve(G: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(G, b)
    except np.linalg.LinAlgError:  # columns so large that their products are not finite
        return np.full(b.shape, np.nan)
