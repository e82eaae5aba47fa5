"""What users hand in to be read by blocks: which source it is."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.lazy import need
from .._core.validation import as_array, is_masked
from .base import check_kind
from .sources import Given, Parquet, RawFile, Sliceable, Source, Stack, many_rows, rows_at_a_time
from .sparse import Sparse

_PARQUET = (".parquet", ".pq")


def as_source(X: Any, target: str | None, columns: Sequence[str] | None, rows: int | None) -> Source:
    """The source of anything that rows can be read from, in blocks of so many rows where these can be chosen."""
    items = list(X) if isinstance(X, (list, tuple)) and X else [X]
    paths = [Path(item) for item in items if isinstance(item, (str, os.PathLike))]
    if len(paths) == len(items) and all(path.suffix in _PARQUET or _is_folder(path) for path in paths):
        files = [file for path in paths for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
        if files:
            return Parquet(files, target, columns, rows)
        raise ValueError(f"there is no .parquet file in {', '.join(map(str, paths))}")
    if target is not None or columns is not None:
        raise ValueError(f"target and columns are names of columns, which Parquet files have; got {X!r:.100}")
    if all(isinstance(item, (str, os.PathLike)) or _is_matrix(item) for item in items):
        named = [("X" if _is_matrix(item) else os.fspath(item), _opened(item)) for item in items]
        some = [(name, A) for name, A in named if len(A.shape) != 2 or A.shape[0]]  # a file without rows adds none
        found = [_from_array(A, rows, name) for name, A in some or named]
        return found[0] if len(found) == 1 else Stack(found)
    if callable(X) or (hasattr(X, "__len__") and (hasattr(X, "__getitem__") or hasattr(X, "__iter__"))):
        return Given(X)
    raise TypeError(
        "blocks are read from a .npy or Parquet file, a memory map, a Zarr array, a list of these, or a sequence of "
        f"pairs (X, y) with a length; got {type(X).__name__}. Of a generator, which is used up once it was gone "
        "through, give the function that makes it"
    )


def _is_folder(path: Path) -> bool:
    """Of Parquet files; an array of Zarr is a folder, too."""
    return path.is_dir() and path.suffix != ".zarr"


def _is_matrix(X: Any) -> bool:
    two = not isinstance(X, type) and len(getattr(X, "shape", ())) == 2
    return two and hasattr(X, "dtype") and not Sparse.recognises(X)


def _opened(item: Any) -> Any:
    """A file as a map of it, a Zarr folder as its array; anything else as it is."""
    if not isinstance(item, (str, os.PathLike)):
        return item
    path = Path(item)
    if path.suffix == ".npy":
        try:
            return np.load(path, mmap_mode="r")
        except ValueError as error:
            raise ValueError(f"{path} is no .npy file of numbers: {error}") from error
    if path.suffix == ".zarr":
        return need("zarr", "reading Zarr needs zarr: pip install ellzero[zarr]").open_array(str(path), mode="r")
    raise ValueError(f"blocks are read from .npy, .parquet and .zarr, got {path}; open it yourself, and give its array")


def _from_array(X: Any, rows: int | None, name: str) -> RawFile | Sliceable:
    if len(X.shape) != 2 or 0 in X.shape:
        raise ValueError(
            f"{name} must be two-dimensional, with at least one row and one column, got shape {tuple(X.shape)}"
        )
    if is_masked(X):
        as_array(X, "X")  # which says why not
    dtype = np.dtype(X.dtype)
    check_kind(dtype, name)
    if isinstance(X, np.memmap) and X.mode != "c" and X.filename is not None:
        n, p = X.shape
        by_columns = X.strides == (dtype.itemsize, dtype.itemsize * n) and p > 1
        if by_columns or X.strides == (dtype.itemsize * p, dtype.itemsize):
            # of a file by columns every column is a reading of its own
            step = rows or (many_rows(p, dtype) if by_columns else rows_at_a_time(p, dtype))
            return RawFile(X.filename, _place(X), dtype, (n, p), by_columns, min(step, n))
    return Sliceable(X, min(rows or many_rows(X.shape[1], dtype), X.shape[0]), name)


def _place(X: np.memmap) -> int:
    """Where in its file a map begins, also one that is a slice of another."""
    mapped = X._mmap  # type: ignore[attr-defined]
    begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    return begin + X.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
