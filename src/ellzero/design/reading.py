"""From what users hand in to a Design: its kind recognised, its entries checked."""

from typing import Any

from .._core.validation import as_array
from .base import Design
from .blocks import InFiles
from .cluster import OnWorkers
from .dense import Dense
from .operators import Operator
from .sparse import Sparse
from .tensors import Tensors

#: the kinds of X; the first that recognises it reads it
KINDS: tuple[type[Design], ...] = (Sparse, Operator, OnWorkers, Tensors, InFiles, Dense)


def elsewhere(X: Any) -> Design | None:
    """X as a Design if its rows are elsewhere, in files or on a cluster; None of data in memory."""
    if isinstance(X, Design):
        return X if X.parted else None
    kind = next((kind for kind in KINDS if kind.recognises(X)), None)
    return kind.read(X, "X") if kind is not None and kind.parted else None


def as_design(X: Any, name: str = "X") -> Design:
    """The matrix X, of any supported kind, as a Design; its entries are checked to be finite."""
    if isinstance(X, Design):
        return X
    if (kind := next((kind for kind in KINDS if kind.recognises(X)), None)) is None:
        if hasattr(X, "__next__"):
            raise TypeError(
                f"{name} is a {type(X).__name__}, which is used up once it was gone through; give blocks that can be "
                "read again: ez.Blocks of a sequence, or of the function that makes the iterator"
            )
        X, kind = as_array(X, name), Dense
    if kind.parted:
        return kind.read(X, name)
    shape = tuple(X.shape)
    if len(shape) != 2:
        remedy = f"; use {name}.reshape(-1, 1) for a single feature" if len(shape) == 1 else ""
        raise ValueError(f"{name} must be two-dimensional, one row for each sample, got shape {shape}{remedy}")
    if 0 in shape:
        raise ValueError(f"{name} must have at least one row and one column, got shape {shape}")
    return kind.read(X, name)
