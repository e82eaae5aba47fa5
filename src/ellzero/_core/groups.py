"""Groups of coordinates, as users write them."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np

_OVERLAPPING_CAPS = (
    "For overlapping caps on non-negative weights use PackingPolytope(A, b); for other overlapping constraints "
    "Intersection of one GroupWise for each layer"
)


def read_groups(groups: Any, if_overlapping: str = _OVERLAPPING_CAPS) -> tuple[dict[Any, np.ndarray], int | None]:
    """{group: increasing indices}, and the number of coordinates if labels tell it."""
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Iterable):
        raise TypeError(f"groups must be a label for each coordinate, or lists of indices, got {groups!r}")
    if isinstance(groups, Mapping):
        return _read_index_lists(groups, if_overlapping)
    if isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.size and groups.dtype.kind in "iu":
        return _of_numbers(groups), groups.size
    entries = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if not entries:
        raise ValueError("groups must not be empty: give a label for each coordinate, or lists of indices")
    if any(isinstance(entry, (list, set, range, np.ndarray)) for entry in entries):
        return _read_index_lists(dict(enumerate(entries)), if_overlapping)
    members: dict[Any, list[int]] = {}
    for i, label in enumerate(entries):
        if _is_missing(label):
            continue
        try:
            members.setdefault(label, []).append(i)
        except TypeError as error:
            raise TypeError(f"the group label of coordinate {i} must be hashable, got {label!r}") from error
    return {name: np.array(index, dtype=np.intp) for name, index in members.items()}, len(entries)


def _of_numbers(labels: np.ndarray) -> dict[Any, np.ndarray]:
    """{label: increasing indices} in the order in which labels appear, none of which is missing."""
    order = np.argsort(labels, kind="stable").astype(np.intp)
    names, starts = np.unique(labels[order], return_index=True)
    members = dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True))
    return dict(sorted(members.items(), key=lambda item: int(item[1][0])))


def _is_missing(label: Any) -> bool:
    """None, NaN, and the NA of pandas, of which nobody may ask whether it equals itself: in no group."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def some(names: Iterable[Any]) -> str:
    """The first of these, for messages."""
    listed = [repr(name) for name in names]
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")


def _read_index_lists(groups: Mapping[Any, Any], if_overlapping: str) -> tuple[dict[Any, np.ndarray], None]:
    members: dict[Any, np.ndarray] = {}
    owner: dict[int, Any] = {}
    for name, indices in groups.items():
        index = _read_indices(name, indices)
        if index.size and index[0] < 0:
            raise ValueError(f"group {name!r} must hold indices of at least 0, got {index[0]}")
        for i in index.tolist():
            if i in owner:
                raise ValueError(
                    f"groups must not overlap: coordinate {i} is in {owner[i]!r} and in {name!r}. {if_overlapping}"
                )
            owner[i] = name
        members[name] = index
    return members, None


def _read_indices(name: Any, indices: Any) -> np.ndarray:
    if isinstance(indices, (str, bytes)) or not isinstance(indices, Iterable):
        raise TypeError(f"group {name!r} must be a list of indices of coordinates, got {indices!r}")
    listed = list(indices)
    if any(isinstance(i, (bool, np.bool_)) or not isinstance(i, Integral) for i in listed):
        raise TypeError(f"group {name!r} must hold integers, the indices of coordinates, got {listed[:8]!r}")
    if any(abs(i) > np.iinfo(np.intp).max for i in listed):
        raise ValueError(f"group {name!r} must hold indices of coordinates, got {max(listed, key=abs)}")
    return np.unique(np.array(listed, dtype=np.intp))


def places(group: np.ndarray) -> np.ndarray:
    """How many entries of the same group stand before each."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-2))
    found = np.empty_like(order)
    found[order] = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size))
    return found
