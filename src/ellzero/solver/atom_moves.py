"""Exchanges of whole atoms: coordinates that come and go together."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._core.arrays import waits
from ..risks.curvature import Curvature
from .moves import Books, Exchange, inverse_where
from .problem import Problem

_SHARE = 0.5  # of an atom left out, inside the span of the kept columns; more is looked for at the end alone
_FIRST = 16  # newcomers that are looked at first
_WIDE = 64  # coordinates of an atom, so many that smaller ones are not filled up to it
_JITTER = 1e-11  # of the square of a column: less than that is left of it, and it is taken for a combination of others
_NUMBERS = 2**19  # held at a time
_SIZES = 8  # of atoms, each by itself
_ALSO = 0.05  # of the best gain, that another exchange must promise to be tried in the same round


@dataclass
class Kind:
    """Atoms of about the same size, in units of their columns.

    Attributes
    ----------
    names : array of shape (m,)
    index, scale : arrays of shape (m, g)
        Their coordinates, -1 behind the last one, and 1/sqrt(G_jj), or 0 for a column of zeros and for no column.
    G, inverse : arrays of shape (m, g, g)
        G_JJ in these units, with ones on its diagonal, and its inverse.
    slopes : array of shape (m, g, places)
        What slopes are worth after each removal, in these units.
    """

    names: np.ndarray
    index: np.ndarray
    scale: np.ndarray
    G: np.ndarray
    inverse: np.ndarray
    slopes: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> "Kind":
        return Kind(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def filled(self, g: int) -> "Kind":
        """The same with g coordinates each, at least as many as one has, filled up by none."""
        more = g - self.index.shape[1]
        if more <= 0:  # what is cut off is none
            square = (self.G[:, :g, :g], self.inverse[:, :g, :g])
            return Kind(self.names, self.index[:, :g], self.scale[:, :g], *square, self.slopes[:, :g])
        wide, unit = ((0, 0), (0, more)), np.diag(np.repeat([0.0, 1.0], [g - more, more]))
        G, inverse = (np.pad(part, (*wide, (0, more))) + unit for part in (self.G, self.inverse))
        index, slopes = np.pad(self.index, wide, constant_values=-1), np.pad(self.slopes, (*wide, (0, 0)))
        return Kind(self.names, index, np.pad(self.scale, wide), G, inverse, slopes)


def layout(atoms: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Names of atoms of about the same size, and their coordinates, -1 behind the last one."""
    order = np.argsort(atoms, kind="stable")[np.count_nonzero(atoms < 0) :]
    names, first, sizes = np.unique(atoms[order], return_index=True, return_counts=True)
    rounded = np.where(sizes <= 4 * _SIZES, -4 * (sizes // -4), 2 ** np.ceil(np.log2(sizes)).astype(int))
    width = sizes if np.unique(sizes).size <= _SIZES else rounded
    found = []
    for g in np.unique(width).tolist():
        some = np.flatnonzero(width == g)
        place = np.arange(g)
        index = order[np.minimum(first[some, None] + place, order.size - 1)]
        found.append((names[some], np.where(place < sizes[some, None], index, -1)))
    return found


def kinds_of(parts: list[tuple[np.ndarray, np.ndarray]], model: Curvature) -> list[Kind]:
    """The atoms with what the curvature knows of them."""
    found = []
    for (names, index), G in zip(parts, _blocks([index for _, index in parts], model), strict=True):
        every = np.arange(index.shape[1])
        size = np.sqrt(np.maximum(G[:, every, every], 0.0))
        scale = np.where(size > 1e-150, 1 / np.maximum(size, 1e-150), 0.0)
        G = G * (scale[:, :, None] * scale[:, None, :])
        G[:, every, every] = 1.0 + _JITTER
        try:
            inverse = np.linalg.inv(G)
        except np.linalg.LinAlgError:  # columns so large that their products are not finite
            inverse = np.full(G.shape, np.nan)
        found.append(Kind(names, index, scale, G, inverse, np.empty((names.size, 0))))
    return found


def _blocks(parts: list[np.ndarray], model: Curvature) -> list[np.ndarray]:
    """G_JJ for atoms of several sizes: all in the order of their columns, which neighbours are read with, if small."""
    if len(parts) < 2 or (g := max(index.shape[1] for index in parts)) > _WIDE:
        return [model.blocks(index) for index in parts]
    every = np.concatenate([np.pad(J, ((0, 0), (0, g - J.shape[1])), constant_values=-1) for J in parts])
    order = np.argsort(every[:, 0], kind="stable")
    found = np.empty((len(every), g, g))
    found[order] = model.blocks(every[order])
    ends = np.cumsum([len(index) for index in parts])[:-1]
    return [G[:, : J.shape[1], : J.shape[1]] for G, J in zip(np.split(found, ends), parts, strict=True)]


@dataclass
class Place:
    """An atom A of the support, or none: its positions in S, M = inv(H_AA), and the cost w_AᵀMw_A."""

    positions: np.ndarray
    M: np.ndarray
    cost: float


@dataclass
class AtomMoves:
    """Exchanges of one atom for another, by what they gain.

    For a quadratic R without Γ, removing A costs w_AᵀMw_A, M = inv(H_AA) (see `SwapSearch` for C, H and c), and J gains

        sᵀQ⁻¹s,   s = c_J + C_J H_SA M w_A,   Q = G_JJ - C_J H C_Jᵀ + C_J H_SA M H_AS C_Jᵀ.

    The last term of Q is positive: J gains at most sᵀ(G_JJ - C_J H C_Jᵀ)⁻¹s, in all places by one factorisation.
    Newcomers for which this does not pay are not looked at. First C_J H C_Jᵀ is taken to be at most ½G_JJ, and the best
    few are looked at; where nothing pays then, and it is to be `certain`, it is computed for all.

    With Γ, or for another R, the formula ranks the best of each place: without the directions that Γ forbids.
    """

    problem: Problem
    books: Books
    exact: bool
    certain: bool
    worth: Callable[..., np.ndarray]

    def ranked(
        self, kinds: Callable[[np.ndarray | None], list[Kind]], rivals: int, doubt: float, least: float
    ) -> list[Exchange]:
        """The best few newcomers of each place that pay, or nearly, by their gain.

        `kinds` is asked for the atoms of these names, or for all.
        """
        slopes = self._slopes()
        self.cost = np.array([place.cost for place in self.places])
        due = (1 - doubt) * self.cost + least
        self.kinds = [
            replace(kind, slopes=slopes[kind.index] * kind.scale[:, :, None])
            for kind in (self._outside(kind) for kind in kinds(None if self.exact else self._shortlist(slopes)))
        ]
        self.bounds = [np.sum(kind.slopes * (kind.inverse @ kind.slopes), axis=1) for kind in self.kinds]
        if not (self.places and self.kinds):
            return []
        if not self.exact:
            return self._collected([np.ones(bound.shape, dtype=bool) for bound in self.bounds], due, rivals)
        found = self._collected(self._nearest(_FIRST, 1 - _SHARE, due), due, rivals)
        if not found and self.certain and self.books.knows:
            most = [self._most(kind) for kind in self.kinds]
            found = self._collected([bound > due for bound in most], due, rivals)
        return found

    def nearest(self, number: int) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray], np.ndarray]:
        """Places, what each costs, the newcomers that come nearest to paying for one, and what each gains in each, less
        the cost.

        After `ranked` has found nothing. Places are positions in S, newcomers coordinates.
        """
        rows = self._nearest(2 * number, 1.0, np.full(self.cost.size, -np.inf))
        looks = [np.repeat(np.any(look, axis=1, keepdims=True), self.cost.size, axis=1) for look in rows]
        names, won = self._looked_at(looks, 0.0)
        net = won - self.cost
        best = np.argsort(-net.max(axis=1, initial=-np.inf), kind="stable")[:number]
        return [place.positions for place in self.places], self.cost, [names[j] for j in best], net[best]

    def _nearest(self, number: int, share: float, due: np.ndarray) -> list[np.ndarray]:
        """Where bounds pay for a share of what is due, in the rows that pay best, not many more than a number."""
        net = [np.max(bound - share * self.cost, axis=1, initial=-np.inf) for bound in self.bounds]
        limit = np.sort(np.concatenate([[-np.inf], *net]))[-number:][0]
        return [(bound > share * due) & (best >= limit)[:, None] for bound, best in zip(self.bounds, net, strict=True)]

    @property
    def atoms(self) -> np.ndarray:
        """The atom of each coordinate."""
        atoms = self.problem.sparsity.atoms
        return np.arange(self.books.c.size) if atoms is None else atoms

    def _outside(self, kind: Kind) -> Kind:
        """Those that are not in the support."""
        return kind[~np.isin(kind.names, self.atoms[self.books.S])]

    def _slopes(self) -> np.ndarray:
        """What c_j + C_jS H_SA M w_A is worth for every coordinate j, and none, and each atom A that may leave."""
        books, sparsity = self.books, self.problem.sparsity
        S, H, w, mine = books.S, books.H, books.values, self.atoms[books.S]
        self.places, moves, sound = [], [np.empty((S.size, 0))], bool(np.isfinite(H).all())
        leaving = np.setdiff1d(mine, self.atoms[self.problem.kept]) if sound else ()
        positions = [np.flatnonzero(mine == atom) for atom in leaving]
        for P, M in zip(positions, inverses_of_blocks([H[P[:, None], P] for P in positions]), strict=True):
            self.places.append(Place(P, M, float(w[P] @ M @ w[P])))
        if not books.knows:  # each costs a product with X
            self.places = sorted(self.places, key=lambda place: place.cost)[:8]
        moves += [H[:, place.positions] @ (place.M @ w[place.positions])[:, None] for place in self.places]
        if sparsity.size(S) < sparsity.k:
            self.places.append(Place(np.empty(0, dtype=np.intp), np.empty((0, 0)), 0.0))
            moves.append(np.zeros((S.size, 1)))
        U = np.concatenate(moves, axis=1)
        slopes = np.zeros((books.c.size + 1, len(self.places)))
        slopes[:-1] = books.times(U)
        slopes[:-1] += books.c[:, None]
        if not self.problem.gamma.whole_space:
            slopes[:-1] = np.sign(slopes[:-1]) * self.worth(slopes[:-1], books.price[:, None])
        return slopes

    def _shortlist(self, slopes: np.ndarray) -> np.ndarray:
        """The best newcomers of each place, as if their columns were orthogonal."""
        score = [self.problem.sparsity.sums(s**2 * self.books.outside / self.books.diagonal) for s in slopes[:-1].T]
        return np.unique([np.argsort(-each, kind="stable")[:16] for each in score])

    def _rows(self, kind: Kind) -> np.ndarray:
        """C_Jᵀ in the units of the atoms, of shape (|S|, m, g)."""
        index, C = kind.index.ravel(), self.books.C
        there = self.books.kept is not None or waits(C)
        rows = (self.books.rows(index).T if there else C.T[:, index]) * kind.scale.ravel()
        return np.asarray(rows.reshape(len(rows), *kind.index.shape))

    def _most(self, kind: Kind) -> np.ndarray:
        """What each atom gains at most in each place."""
        found = [np.empty((0, len(self.places)))]
        for some in self._some(kind):
            if self.books.kept is not None or waits(self.books.C):
                Q = some.G - self.books.overlaps(some.index) * (some.scale[:, :, None] * some.scale[:, None, :])
            else:
                C = self._rows(some)
                Q = some.G - C.transpose(1, 2, 0) @ _times(self.books.H, C).transpose(1, 0, 2)
            found.append(at_most(Q, some.slopes))
        return np.concatenate(found)

    def _some(self, kind: Kind) -> Iterator[Kind]:
        """No more at a time than fit into memory."""
        step = max(1, _NUMBERS // max(1, kind.index.shape[1] * self.books.S.size))
        for start in range(0, len(kind.names), step):
            yield kind[np.arange(start, min(start + step, len(kind.names)))]

    def _looked_at(self, looks: list[np.ndarray], also: float) -> tuple[list[np.ndarray], np.ndarray]:
        """The coordinates of the newcomers that are looked at, and what they gain in each place, or -inf.

        Exchanges that gain less than a share of what another one does may be left out.
        """
        names: list[np.ndarray] = []
        gains = [np.empty((0, len(self.places)))]
        for kind, look in self._together(looks):
            done = 0
            for some in self._some(kind):
                gains.append(self._gains(some, look[done : done + len(some.names)], also))
                names.extend(index[index >= 0] for index in some.index)
                done += len(some.names)
        return names, np.concatenate(gains)

    def _together(self, looks: list[np.ndarray]) -> Iterator[tuple[Kind, np.ndarray]]:
        """The newcomers that are looked at, and where: a few of several sizes as if all had the largest one."""
        rows = [np.flatnonzero(look.any(axis=1)) for look in looks]
        found = [(kind[r], look[r]) for kind, look, r in zip(self.kinds, looks, rows, strict=True) if r.size]
        g = max((int(np.count_nonzero(kind.index >= 0, axis=1).max()) for kind, _ in found), default=0)
        if len(found) < 2 or g > _WIDE or sum(map(len, rows)) > 4 * _FIRST:
            yield from found
            return
        kinds = [kind.filled(g) for kind, _ in found]
        parts = [np.concatenate([getattr(kind, name) for kind in kinds]) for name in Kind.__dataclass_fields__]
        yield Kind(*parts), np.concatenate([look for _, look in found])

    def _collected(self, looks: list[np.ndarray], due: np.ndarray, rivals: int) -> list[Exchange]:
        """The best few admitted newcomers of each place among those that are looked at, by their gain."""
        names, won = self._looked_at(looks, _ALSO if self.exact else 0.0)
        if self.exact:
            return self._apart(names, won, due)
        found: list[Exchange] = []
        for a, place in enumerate(self.places):
            left, rank = np.delete(self.books.S, place.positions), 0
            for j in np.argsort(-won[:, a], kind="stable").tolist():
                if not won[j, a] > due[a] or rank == rivals:
                    break
                if self.problem.sparsity.admits(np.union1d(left, names[j])):
                    out = tuple(self.books.S[place.positions].tolist())
                    found.append(Exchange(out, tuple(names[j].tolist()), rank, float(won[j, a] - place.cost)))
                    rank += 1
        return sorted(found, key=lambda move: -move.gain)

    def _apart(self, names: list[np.ndarray], won: np.ndarray, due: np.ndarray) -> list[Exchange]:
        """The best exchange, the best one of another newcomer for another place, and so on, where these pay well."""
        net, found = np.where(won > due, won - self.cost, -np.inf), list[Exchange]()
        while net.size and (gain := net.max()) > (_ALSO * found[0].gain if found else -np.inf):
            j, a = np.unravel_index(int(net.argmax()), net.shape)
            P = self.places[a].positions
            net[j, a] = -np.inf
            if self.problem.sparsity.admits(np.union1d(np.delete(self.books.S, P), names[j])):
                found.append(Exchange(tuple(self.books.S[P].tolist()), tuple(names[j].tolist()), 0, float(gain)))
                net[j], net[:, a] = -np.inf, -np.inf
        return found

    def _gains(self, kind: Kind, look: np.ndarray, also: float) -> np.ndarray:
        """sᵀQ⁻¹s for newcomers and places, -inf where they are not looked at."""
        books, won, best = self.books, np.full(look.shape, -np.inf), 0.0
        Q, places, most = kind.G, list(enumerate(self.places)), np.full(look.shape, np.inf)
        if books.knows:
            C = self._rows(kind)
            B = _times(books.H, C)
            Q = Q - C.transpose(1, 2, 0) @ B.transpose(1, 0, 2)
            if also:
                most = at_most(Q, kind.slopes) - self.cost
                places.sort(key=lambda place: -most[:, place[0]].max())
        for a, place in places:
            rows = np.flatnonzero(look[:, a] & (most[:, a] > also * best))
            if not rows.size:
                continue
            s, near = kind.slopes[rows, :, a], Q[rows]
            if books.knows:
                part = B[place.positions][:, rows].transpose(1, 2, 0)
                near = near + part @ place.M @ part.swapaxes(1, 2)
            won[rows, a] = gains(near, s, self.problem.gamma.whole_space)
            best = max(best, float(np.nan_to_num(won[rows, a]).max()) - place.cost)
        return np.where(np.isnan(won), -np.inf, won)


def gains(Q: np.ndarray, s: np.ndarray, whole_space: bool) -> np.ndarray:
    """sᵀQ⁻¹s for each of several Q and s; with Γ what the ray nearest to Q⁻¹s gains on which all entries go down."""
    try:
        z = np.linalg.solve(Q, s[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.full(len(s), np.nan)
    if whole_space:
        return np.asarray(np.sum(z * s, axis=1))
    z = np.where(z * s > 0, z, 0.0)
    return np.asarray(np.sum(z * s, axis=1) ** 2 / np.maximum(np.einsum("ij,ijk,ik->i", z, Q, z), 1e-300))


def at_most(Q: np.ndarray, s: np.ndarray) -> np.ndarray:
    """sᵀQ⁻¹s for each of several Q and many s, infinite where Q is singular up to rounding."""
    try:
        most = np.sum(s * np.linalg.solve(Q, s), axis=1)
    except np.linalg.LinAlgError:
        return np.full(s[:, 0].shape, np.inf)
    return np.where(most >= 0, (1 + 1e-6) * most, np.inf)


def inverses_of_blocks(parts: list[np.ndarray]) -> list[np.ndarray]:
    """The inverses of blocks of H, those of a size together unless one is singular."""
    found: dict[int, np.ndarray] = {}
    for size in {len(part) for part in parts}:
        own = [i for i, part in enumerate(parts) if len(part) == size]
        G = np.array([parts[i] for i in own])
        diagonal = np.diagonal(G, axis1=1, axis2=2)
        try:
            pivots = np.diagonal(np.linalg.cholesky(G), axis1=1, axis2=2) ** 2
            if (diagonal > 0).all() and (pivots > 1e-11 * diagonal).all():
                found.update(zip(own, np.linalg.inv(G), strict=True))
                continue
        except np.linalg.LinAlgError:
            pass
        found.update((i, inverse_where(parts[i], np.diagonal(parts[i]) > 0)) for i in own)
    return [found[i] for i in range(len(parts))]


def _times(H: np.ndarray, C: np.ndarray) -> np.ndarray:
    return np.asarray((H @ C.reshape(len(H), math.prod(C.shape[1:]))).reshape(C.shape))
