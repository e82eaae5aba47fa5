"""What a sparsity is: the vectors in which at most k of something is used."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, scatter, to_host


class Sparsity(ABC):
    """{w : at most k of what is counted are used by w}, and the supports that may be kept.

    A support is a choice: the vectors on it are a convex piece of this set, over which values are refitted, and an
    exchange goes from one choice to the next. What enters and leaves together is an atom: a coordinate, unless
    `atoms` says otherwise. Every part of an admitted support must be admitted, too.

    A sparsity of your own writes `with_k` and `best_support`, states its `atoms` or the exchanges that it allows, and
    `admits` where that is more than a matter of counting. One whose choices are not sets of coordinates, a rank, say,
    sets ``of_coordinates = False`` and writes `with_k`, `project`, `count` and `most` instead: gradient steps need no
    more, refits and exchanges are left out.
    """

    #: How much may be used.
    k: int
    #: Number of coordinates, where the sparsity fixes it.
    n_features: int | None = None
    #: The atom, a number, of each coordinate; None where each coordinate is one.
    atoms: np.ndarray | None = None
    #: What is counted, in the plural.
    counted: str = "nonzeros"
    #: Whether a choice is a set of coordinates.
    of_coordinates: bool = True

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
        raise NotImplementedError(f"{type(self).__name__} writes no best_support, which refits and exchanges need")

    def project(self, v: Array, keep: np.ndarray | None = None) -> tuple[Array, Array | None]:
        """argmin ||w - v|| over sparse w, and the support that it may use; None where that is not of coordinates."""
        support = self.best_support(v, keep)
        return scatter(v[support], support, v.shape[0]), support

    def preserved_by(self, constraint: Any) -> bool:
        """Whether the projection of a sparse vector onto Γ is sparse in the same way."""
        return bool(constraint.whole_space or (self.of_coordinates and constraint.preserves_support))

    def size(self, support: np.ndarray) -> int:
        """How much of k a support takes."""
        return int(support.size if self.atoms is None else np.unique(self.atoms[support]).size)

    def admits(self, support: np.ndarray) -> bool:
        """Whether all vectors on this support are sparse."""
        return self.size(support) <= self.k

    def count(self, w: Array) -> int:
        """How much of k a vector uses."""
        return self.size(np.flatnonzero(to_host(w)))

    def allows(self, w: Array) -> bool:
        """Whether a vector is sparse: what every answer is held to."""
        return self.admits(np.flatnonzero(to_host(w))) if self.of_coordinates else self.count(w) <= self.k

    def most(self, n_features: int) -> int:
        """The k beyond which nothing more is allowed."""
        return self.size(np.arange(n_features))

    def within(self, n_features: int) -> Self:
        """The same for vectors of so many coordinates, with k at most what there is to count."""
        if self.n_features not in (None, n_features):
            raise ValueError(f"{self!r} is made for {self.n_features} coordinates, w has {n_features}")
        return self if self.k <= (most := self.most(n_features)) else self.with_k(most)

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
            what = "coordinates" if self.atoms is None else f"coordinates of {self.size(keep)} {self.counted}"
            raise ValueError(
                f"keep names {keep.size} {what}, more than {self.words}{'' if self.plain else ' allows'}; "
                "they count in k, so raise k"
            )

    def filled(self, support: np.ndarray) -> np.ndarray:
        """The support with what is left of its atoms, which costs nothing more."""
        return support if self.atoms is None else np.flatnonzero(np.isin(self.atoms, self.atoms[support]))

    def exchangeable(self, support: np.ndarray, newcomers: np.ndarray) -> np.ndarray | None:
        """Which newcomer (row) may take the place of which coordinate of a support (column); None: any of any.

        Asked where atoms are coordinates; exchanges of larger ones go by `admits`.
        """
        return None

    def n_supports(self, n_features: int, keep: np.ndarray) -> float:
        """How many largest supports there are at the most; inf where they are not to be counted."""
        if not self.of_coordinates:
            return math.inf
        kept = self.size(keep)
        return math.comb(self.most(n_features) - kept, self.k - kept)

    def supports(self, n_features: int, keep: np.ndarray) -> Iterator[np.ndarray]:
        """Every largest support that contains `keep`."""
        atoms = np.arange(n_features) if self.atoms is None else self.atoms
        kept = np.unique(atoms[keep])
        for chosen in itertools.combinations(np.setdiff1d(atoms, kept).tolist(), self.k - kept.size):
            support = np.flatnonzero(np.isin(atoms, [*kept, *chosen]))
            if self.admits(support):
                yield support

    @property
    def words(self) -> str:
        """What is allowed, in a sentence."""
        return f"at most {self.k} {self.counted}"

    def describe(self, w: Array) -> str:
        """The nonzeros of w, and how much of k they use."""
        return f"{np.count_nonzero(to_host(w))}, in {self.count(w)} of at most {self.k} {self.counted}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"
