"""At most k groups, at most so many from each group, at most k features of several outputs."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, to_host
from .._core.groups import read_groups, some
from .._core.validation import check_count, check_indices, check_k
from .base import Sparsity


class _OfFeatures(Sparsity):
    """A sparsity that holds for the features of each output of a risk, and for all outputs alike."""

    def with_k(self, k: int) -> Self:
        other = copy.copy(self)
        other.k = check_k(k)
        return other

    def within(self, n_features: int, n_outputs: int = 1) -> Self:
        sized = self
        if self.n_features != n_features:
            if n_features % n_outputs:
                raise ValueError(
                    f"{self!r} needs as many coordinates for each of {n_outputs} outputs, w has {n_features}"
                )
            sized = copy.copy(self)
            sized._spread(n_features // n_outputs, n_outputs)
            sized.n_features = n_features
        return sized if sized.k <= (most := sized.most(n_features)) else sized.with_k(most)

    def _spread(self, size: int, n_outputs: int) -> None:
        """Set what follows from the number of features of an output and the number of these."""
        raise NotImplementedError

    def with_free(self, n: int) -> Self:
        other, free = copy.copy(self), np.full(n, -1, np.intp)
        if self.atoms is not None:
            other.atoms = np.append(self.atoms, free)
        elif self.quotas is not None:  # n coordinates more, without a limit of their own, which count in k
            other.k, other.quotas = self.k + n, (np.append(self.quotas[0], free), self.quotas[1])
        other.n_features = None if self.n_features is None else self.n_features + n
        return other


class _Labelled(_OfFeatures):
    """A sparsity that knows groups of features: `labels` names them, `group` numbers them for each (-1: in none)."""

    def __init__(self, k: int, groups: Any) -> None:
        self.k = check_k(k)
        members, self.n_features = read_groups(
            groups, "Give every coordinate to one group, or repeat the columns of X that belong to several"
        )
        self._names = list(members)  # those of groups without coordinates among them
        members = {label: index for label, index in members.items() if index.size}
        if not members:
            raise ValueError(
                "groups must name at least one coordinate, got none: give a label for each, None for those in no group"
            )
        # lower indices win, so groups are numbered by their first coordinates
        self.labels = sorted(members, key=lambda label: int(members[label][0]))
        self.group = np.full(self.n_features or 1 + max(int(index[-1]) for index in members.values()), -1, np.intp)
        for number, label in enumerate(self.labels):
            self.group[members[label]] = number

    def _spread(self, size: int, n_outputs: int) -> None:
        if self.n_features not in (None, size):
            each = f", {size} for each of {n_outputs} outputs" if n_outputs > 1 else ""
            raise ValueError(f"{self!r} is made for {self.n_features} coordinates, w has {n_outputs * size}{each}")
        if self.group.size > size:
            raise ValueError(
                f"groups must name coordinates of 0, ..., {size - 1}, and group {self.labels[self.group[-1]]!r} of "
                f"{self!r} names {self.group.size - 1}"
            )
        self.group = np.append(self.group, np.full(size - self.group.size, -1, np.intp))


class Groups(_Labelled):
    """{w : nonzero in at most k groups}: the coordinates of a group come and go together.

    Parameters
    ----------
    k : int
        How many groups are allowed.
    groups : sequence of labels, or list / mapping of index lists
        Either one hashable label for each coordinate (None: in no group), or the groups themselves as lists of
        indices. Coordinates in no group are free: always there, and not counted. For a risk with several outputs the
        groups may be those of its features; a group is then all coefficients of its features.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.hard_threshold(np.array([2.0, 2.0, 2.5, 0.1]), ez.sparsity.Groups(1, ["a", "a", "b", None]))
    array([2. , 2. , 0. , 0.1])
    """

    counted = "groups"

    def __init__(self, k: int, groups: Any) -> None:
        super().__init__(k, groups)
        self.atoms = self.group

    def _spread(self, size: int, n_outputs: int) -> None:
        super()._spread(size, n_outputs)
        self.atoms = np.tile(self.group, n_outputs)

    def __repr__(self) -> str:
        return f"Groups(k={self.k}, {len(self.labels)} groups)"


class PerGroup(_Labelled):
    """{w : at most k nonzeros, at most so many of them in each group}.

    Parameters
    ----------
    k : int
        How many nonzeros are allowed in all.
    groups
        As for `Groups`; coordinates in no group count in k alone. For a risk with several outputs the groups may be
        those of its features; features are then counted, not coefficients.
    at_most : int or mapping from label to int
        How many nonzeros are allowed in each group; groups that the mapping leaves out have no limit of their own.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> ez.hard_threshold(np.array([4.0, 3.0, 2.0, 1.0]), ez.sparsity.PerGroup(3, ["a", "a", "a", "b"], at_most=2))
    array([4., 3., 0., 1.])
    """

    def __init__(self, k: int, groups: Any, at_most: int | Mapping[Any, int]) -> None:
        super().__init__(k, groups)
        self.at_most = at_most
        most = dict(at_most) if isinstance(at_most, Mapping) else dict.fromkeys(self.labels, at_most)
        if unknown := [label for label in most if label not in self._names]:
            raise ValueError(f"at_most names the group {unknown[0]!r}, which groups does not have: {some(self.labels)}")
        names = {label: f"at_most[{label!r}]" if isinstance(at_most, Mapping) else "at_most" for label in self.labels}
        caps = [check_k(most.get(label, self.group.size), name=name) for label, name in names.items()]
        self.quotas = self.group, np.array(caps, dtype=np.intp)

    def _spread(self, size: int, n_outputs: int) -> None:
        super()._spread(size, n_outputs)
        assert self.quotas is not None
        self.quotas = self.group, self.quotas[1]
        if n_outputs > 1:
            self.atoms, self.counted = np.tile(np.arange(size), n_outputs), "features"

    def require_keep(self, keep: np.ndarray) -> None:
        assert self.quotas is not None
        group, most = self.quotas
        used = np.bincount(group[self.atoms_of(keep)] + 1, minlength=most.size + 1)[1:]
        for number in np.flatnonzero(used > most):
            raise ValueError(
                f"keep names {used[number]} {self.counted} of group {self.labels[number]!r}, of which at_most allows "
                f"{most[number]}; raise at_most, or keep fewer"
            )
        super().require_keep(keep)

    @property
    def words(self) -> str:
        each = f"at most {self.at_most}" if not isinstance(self.at_most, Mapping) else "no more than at_most"
        return f"{super().words}, {each} in each of {len(self.labels)} groups"

    def describe(self, w: Array) -> str:
        if self.atoms is not None:
            return super().describe(w)
        return f"{np.count_nonzero(to_host(w))} of {self.words}"

    def __repr__(self) -> str:
        at_most = dict(self.at_most) if isinstance(self.at_most, Mapping) else self.at_most
        return f"PerGroup(k={self.k}, {len(self.labels)} groups, at_most={at_most})"


class Rows(_OfFeatures):
    """{w : at most k features are used by any output}, for risks with several outputs: classes or targets.

    w.reshape(n_outputs, n_features)[j] are the coefficients of output j, and `keep` names features.

    Parameters
    ----------
    k : int
        How many features are allowed.
    n_outputs : int, optional
        How many outputs there are; known from the risk where there is one.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> W = np.array([[1.0, 0.0, 2.0], [0.0, 1.5, 1.0]])
    >>> ez.hard_threshold(W.ravel(), ez.sparsity.Rows(1, n_outputs=2)).reshape(2, 3)
    array([[0., 0., 2.],
           [0., 0., 1.]])
    """

    counted = "features"

    def __init__(self, k: int, n_outputs: int | None = None) -> None:
        self.k = check_k(k)
        self.n_outputs = None if n_outputs is None else check_count(n_outputs, "n_outputs")

    def within(self, n_features: int, n_outputs: int = 1) -> Self:
        if self.n_outputs is not None and n_outputs == 1:
            n_outputs = self.n_outputs
        return super().within(n_features, n_outputs)

    def _spread(self, size: int, n_outputs: int) -> None:
        if self.n_outputs not in (None, n_outputs):
            raise ValueError(f"n_outputs={self.n_outputs} of {self!r} is not that of the risk, {n_outputs}")
        self.atoms, self.n_outputs = np.tile(np.arange(size), n_outputs), n_outputs

    def kept(self, keep: Any, n_features: int) -> np.ndarray:
        """All coefficients of the features that a user asks for, and the free coordinates."""
        assert self.atoms is not None
        features = check_indices(keep, self.most(n_features), "keep")
        if features.size > self.k:
            raise ValueError(
                f"keep names {features.size} features, more than {self.words} allows; they count in k, so raise k"
            )
        return np.flatnonzero(np.isin(self.atoms, [-1, *features]))
