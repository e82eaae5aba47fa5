"""What a sparsity is: the vectors in which at most k of something is used."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, index_like, scatter, to_host, top_k
from .._core.groups import places
from .._core.validation import check_indices, require_finite


class Sparsity(ABC):
    """{w : at most k of what is counted are used by w}, and the supports that may be kept.

    A support is a choice: the vectors on it are a convex piece of this set, over which values are refitted, and an
    exchange goes from one choice to the next. What enters and leaves together is an atom: a coordinate, unless
    `atoms` says otherwise. Every part of an admitted support must be admitted, too.

    A sparsity of your own writes `with_k`, and states its `atoms` and `quotas` where it has such. One that is more than
    a matter of counting atoms writes `admits`, `best_support` and the exchanges that it allows, too. One whose choices
    are not sets of coordinates, a rank, say, sets ``of_coordinates = False`` and writes `with_k`, `project`, `count`
    and `most` instead: gradient steps need no more, refits and exchanges are left out.
    """

    #: How much may be used.
    k: int
    #: Number of coordinates, where the sparsity fixes it.
    n_features: int | None = None
    #: The atom, 0, 1, ..., of each coordinate, or -1: always there, and not counted. None: each coordinate is an atom.
    atoms: np.ndarray | None = None
    #: The group, 0, 1, ..., of each atom (-1: none), and how many atoms of each group may be used; None: no such limit.
    quotas: tuple[np.ndarray, np.ndarray] | None = None
    #: What is counted, in the plural.
    counted: str = "nonzeros"
    #: What `describe` tells, in a word.
    label: str = "nonzeros"
    #: Whether a choice is a set of coordinates.
    of_coordinates: bool = True
    #: Rows and columns of w as a matrix, where its rank is what is counted.
    shape: tuple[int, int] | None = None
    #: The step of "auto" where a choice is not a set of coordinates.
    step: str = "adaptive"

    @property
    def plain(self) -> bool:
        """Whether any k coordinates may be kept, so that k says it all."""
        return False

    @abstractmethod
    def with_k(self, k: int) -> Self:
        """The same with another k: what a path walks along."""

    def best_support(self, v: Array, keep: np.ndarray | None = None) -> Array:
        """argmax Σ v_j² over the coordinates j of a support, over the supports that are admitted and contain `keep`.

        Parameters
        ----------
        v : array of shape (d,)
            Raise `NotFinite` (`require_finite`) unless it is finite.
        keep : array of int, optional
            Admitted, see `require_keep`.

        Returns
        -------
        array of increasing indices, in the library of v
            As many as are admitted, whether or not v is zero there; among equals lower indices win.
        """
        return index_like(self.best_atoms(self.norms(to_host(require_finite(v)).astype(float)), keep), v)

    def best_atoms(self, score: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
        """The support of the atoms with the largest sum of scores; see `best_support`.

        The supports are those of a laminar matroid (quotas, and k in all), so the greedy choice is the best one. More:
        its j-th largest score is at least the j-th largest of any other choice (Gale 1968), so it is the best one for
        everything that grows with the scores of single atoms.
        """
        order = self.ranked_atoms(score, keep)
        chosen = np.zeros(score.size + 1, dtype=bool)
        chosen[-1] = True  # atom -1
        chosen[order[: self.k]] = True
        return np.flatnonzero(chosen[:-1] if self.atoms is None else chosen[self.atoms])

    def ranked_atoms(self, score: np.ndarray, keep: np.ndarray | None = None, first: int | None = None) -> np.ndarray:
        """Atoms in the order in which `best_atoms` takes them, whatever k is, as far as quotas allow.

        At least the first so many of them, or all.
        """
        if first is not None and self.quotas is None and 0 < first < score.size:
            # those that are kept, which come before all others, may be among the best ones, too
            best, finite = top_k(score, min(first + (0 if keep is None else keep.size), score.size))
            order = best[np.argsort(-score[best], kind="stable")] if finite else np.argsort(-score, kind="stable")
        else:
            order = np.argsort(-score, kind="stable")
        if keep is not None and keep.size:
            kept = np.zeros(score.size, dtype=bool)
            kept[self.atoms_of(keep)] = True
            order = np.concatenate([np.flatnonzero(kept), order[~kept[order]]])
        if self.quotas is not None:
            group, most = self.quotas
            order = order[places(group[order]) < np.append(most, order.size)[group[order]]]
        return order

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of the values over the coordinates of each atom."""
        return values if self.atoms is None else self._gathered(np.add, values, 0.0)

    def norms(self, values: np.ndarray, q: float = 2.0) -> np.ndarray:
        """(Σ |value|^q)^(1/q) over the coordinates of each atom, safe from overflow; for q = ∞ the largest, signed."""
        if self.atoms is None:
            return values if q == math.inf else np.abs(values)
        if q == math.inf:
            return self._gathered(np.maximum, values, -np.inf)
        size = np.abs(values)
        largest = self._gathered(np.maximum, size, 0.0)
        with np.errstate(under="ignore"):
            ratio = size / np.append(np.where(largest > 0, largest, 1.0), np.inf)[self.atoms]
            return np.asarray(largest * self._gathered(np.add, ratio**q, 0.0) ** (1 / q))

    def _gathered(self, ufunc: np.ufunc, values: np.ndarray, start: float) -> np.ndarray:
        assert self.atoms is not None
        out = np.full(self.atoms.max(initial=-1) + 2, start, dtype=values.dtype)
        ufunc.at(out, self.atoms, values)  # those of atom -1 at the end
        return out[:-1]

    @property
    def by_atoms(self) -> bool:
        """Whether k, atoms and quotas say it all: a subclass that writes `admits` anew is another matter."""
        cls = type(self)
        return self.of_coordinates and cls.admits is Sparsity.admits and cls.atoms_of is Sparsity.atoms_of

    @property
    def of_single(self) -> bool:
        """Whether no two coordinates share an atom."""
        return self.atoms is None or np.bincount(self.atoms + 1)[1:].max(initial=0) <= 1

    def labels_of(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """The group of each coordinate's atom (-1: none), and how many atoms of each group may be used."""
        if self.quotas is None:
            return np.full(n_features, -1, np.intp), np.empty(0, np.intp)
        group, most = self.quotas
        return group if self.atoms is None else np.append(group, -1)[self.atoms], most

    def widest(self, n: int, n_features: int) -> int:
        """The most coordinates that n atoms have, with those that are always there."""
        if self.atoms is None:
            return min(n, n_features)
        sizes = np.sort(np.bincount(self.atoms + 1)[1:])[::-1]
        return int(sizes[:n].sum()) + self.free.size

    def atoms_of(self, support: np.ndarray) -> np.ndarray:
        """The atoms that coordinates belong to, without -1."""
        if self.atoms is None:
            return support
        return np.flatnonzero(np.bincount(self.atoms[support] + 1)[1:])

    def project(self, v: Array, keep: np.ndarray | None = None) -> tuple[Array, Array | None]:
        """argmin ||w - v|| over sparse w, and the support that it may use; None where that is not of coordinates."""
        support = self.best_support(v, keep)
        return scatter(v[support], support, v.shape[0]), support

    def preserved_by(self, constraint: Any) -> bool:
        """Whether the projection of a sparse vector onto Γ is sparse in the same way."""
        if constraint.whole_space or not self.of_coordinates:
            return bool(constraint.whole_space)
        if constraint.preserves_support or self.atoms is None or not self.by_atoms:
            return bool(constraint.preserves_support)
        return constraint.n_features in (None, self.atoms.size) and bool(constraint.preserves(self.atoms))

    def size(self, support: np.ndarray) -> int:
        """How much of k a support takes."""
        return self.atoms_of(support).size

    def admits(self, support: np.ndarray) -> bool:
        """Whether all vectors on this support are sparse."""
        used = self.atoms_of(support)
        if used.size > self.k or self.quotas is None:
            return used.size <= self.k
        group, most = self.quotas
        return bool((np.bincount(group[used] + 1, minlength=most.size + 1)[1:] <= most).all())

    def count(self, w: Array) -> int:
        """How much of k a vector uses."""
        return self.size(np.flatnonzero(to_host(w)))

    def allows(self, w: Array) -> bool:
        """Whether a vector is sparse: what every answer is held to."""
        return self.admits(np.flatnonzero(to_host(w))) if self.of_coordinates else self.count(w) <= self.k

    def most(self, n_features: int) -> int:
        """The k beyond which nothing more is allowed."""
        atoms = self.atoms_of(np.arange(n_features))
        if self.quotas is None:
            return atoms.size
        group, most = self.quotas
        return int(
            np.count_nonzero(group < 0) + np.minimum(np.bincount(group + 1, minlength=most.size + 1)[1:], most).sum()
        )

    def within(self, n_features: int, n_outputs: int = 1) -> Self:
        """The same for vectors of so many coordinates, with k at most what there is to count.

        Where a risk has several outputs, the coordinates of each follow those of the one before.
        """
        if self.n_features not in (None, n_features):
            raise ValueError(f"{self!r} is made for {self.n_features} coordinates, w has {n_features}")
        return self if self.k <= (most := self.most(n_features)) else self.with_k(most)

    @property
    def free(self) -> np.ndarray:
        """Coordinates that are always kept, and not counted."""
        return np.empty(0, dtype=np.intp) if self.atoms is None else np.flatnonzero(self.atoms < 0)

    def kept(self, keep: Any, n_features: int) -> np.ndarray:
        """The coordinates of every support: those that a user asks for, with the rest of their atoms, and the free."""
        index = check_indices(keep, n_features, "keep")
        self.require_keep(index)
        return index if self.atoms is None else self.filled(np.union1d(index, self.free).astype(np.intp))

    def with_free(self, n: int) -> Self:
        """The same with n coordinates more at the end, which are kept and not counted: an intercept."""
        raise ValueError(
            f"mini-batches carry the intercept as a further coordinate, for which {self!r} has no place; centre the "
            "data and use fit_intercept=False, or a method with full gradients"
        )

    def require_keep(self, keep: np.ndarray) -> None:
        """Raise ValueError unless there is a sparse vector with all of these."""
        if keep.size and not self.of_coordinates:
            raise ValueError(f"keep names coordinates, and {self.words} are no matter of coordinates; leave it out")
        if not self.admits(keep):
            what = "coordinates" if self.atoms is None else f"coordinates of {self.how_many(self.size(keep))}"
            raise ValueError(
                f"keep names {keep.size} {what}, more than {self.words}{'' if self.plain else ' allows'}; "
                "they count in k, so raise k"
            )

    def filled(self, support: np.ndarray) -> np.ndarray:
        """The support with what is left of its atoms, which costs nothing more."""
        if self.atoms is None:
            return support
        used = np.zeros(int(self.atoms.max(initial=-1)) + 2, dtype=bool)  # the last is that of atom -1
        used[self.atoms[support]] = True
        return np.flatnonzero(used[self.atoms])

    def exchangeable(self, support: np.ndarray, newcomers: np.ndarray) -> np.ndarray | None:
        """Which newcomer (row) may take the place of which coordinate of a support (column), or, in one column more,
        a free place; None: any of any.

        Asked where atoms are coordinates; exchanges of larger ones go by `admits`.
        """
        if self.quotas is None:
            return None
        group, most = self.quotas
        used = np.bincount(group[support] + 1, minlength=most.size + 1)[1:]
        room = np.append(used < most, True)[group[newcomers]]
        return np.column_stack([(group[newcomers][:, None] == group[support]) | room[:, None], room])

    def n_supports(self, n_features: int, keep: np.ndarray) -> float:
        """How many largest supports there are at the most; inf where they are not to be counted."""
        if not self.of_coordinates:
            return math.inf
        kept = self.size(keep)
        return math.comb(self.atoms_of(np.arange(n_features)).size - kept, self.k - kept)

    def supports(self, n_features: int, keep: np.ndarray) -> Iterator[np.ndarray]:
        """Every largest support that contains `keep`."""
        atoms = np.arange(n_features) if self.atoms is None else self.atoms
        kept = self.atoms_of(keep)
        others = np.setdiff1d(self.atoms_of(np.arange(n_features)), kept).tolist()
        for chosen in itertools.combinations(others, self.k - kept.size):
            support = np.flatnonzero(np.isin(atoms, [-1, *kept, *chosen]))
            if self.admits(support):
                yield support

    def freedom(self, w: Array) -> int:
        """How many numbers say what w is among the vectors of its choice: its nonzeros."""
        return int(np.count_nonzero(to_host(w)))

    def log_choices(self, w: Array) -> float:
        """The logarithm of the number of choices of as many atoms as w uses; quotas are not looked at."""
        w = to_host(w)
        n, m = self.atoms_of(np.arange(w.size)).size, self.count(w)
        return math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)

    @property
    def words(self) -> str:
        """What is allowed, in a sentence."""
        return f"at most {self.how_many(self.k)}"

    def how_many(self, n: int) -> str:
        """So many of what is counted, in words."""
        return f"{n} {self.counted.removesuffix('s') if n == 1 else self.counted}"

    def describe(self, w: Array) -> str:
        """The nonzeros of w, and how much of k they use."""
        return f"{np.count_nonzero(to_host(w))}, in {self.count(w)} of {self.words}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"
