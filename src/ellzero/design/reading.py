"""From what users hand in to a Design: kinds recognised, entries checked, nothing copied that need not be."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from .._core.arrays import Array, is_array, namespace, to_host
from .._core.validation import as_array
from .matrices import ConvertedMap, Dense, Design, Operator, Sparse, row_blocks


def as_design(X: Any, name: str = "X") -> Design:
    """The matrix X, of any supported kind, as a Design; its entries are checked to be finite."""
    if isinstance(X, Design):
        return X
    sparse = _is_sparse(X)
    is_operator = not sparse and hasattr(X, "matvec")
    if isinstance(X, np.ma.MaskedArray) or not (sparse or is_operator or is_array(X)):
        X = as_array(X, name)
    shape = tuple(X.shape)
    if len(shape) != 2:
        remedy = f"; use {name}.reshape(-1, 1) for a single feature" if len(shape) == 1 else ""
        raise ValueError(f"{name} must be two-dimensional, one row for each sample, got shape {shape}{remedy}")
    if 0 in shape:
        raise ValueError(f"{name} must have at least one row and one column, got shape {shape}")
    if is_operator:
        return _from_operator(X, name)
    if sparse:
        return _from_sparse(X, name)
    return _from_array(X, name)


def _from_array(X: Array, name: str) -> Design:
    if not isinstance(X, np.ndarray):
        xp = namespace(X)
        if not xp.isdtype(X.dtype, "real floating"):
            if not xp.isdtype(X.dtype, ("bool", "integral")):
                raise TypeError(f"{name} must hold real numbers, got dtype {X.dtype}")
            X = xp.astype(X, xp.float64)
        _check_finite(X, name)
        return Dense(X)
    _check_kind(X.dtype, name)
    on_disk = isinstance(X, np.memmap)
    X = np.asarray(X)  # a plain view: subclasses only slow products down
    if _is_native_float(X.dtype):
        design = Dense(X)
        if not np.isfinite(design.squares).all():  # the look at the data that the sizes of the columns need as well
            _check_finite(X, name)
        return design
    design = ConvertedMap(X) if on_disk else Dense(X.astype(np.float64))
    _check_finite(design.X, name)
    return design


def _from_sparse(X: Any, name: str) -> Design:
    from scipy.sparse import csc_array, csr_array

    _check_kind(X.dtype, name)
    X = csc_array(X) if X.format == "csc" else csr_array(X)  # shares its numbers with what was handed in
    if not _is_native_float(X.dtype):
        X = X.astype(np.float64)
    if not np.isfinite(X.data).all():
        entries = X.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))[0]
        raise _not_finite(name, entries.data[bad], entries.row[bad], entries.col[bad])
    return Sparse(X)


def _from_operator(X: Any, name: str) -> Design:
    from scipy.sparse.linalg import aslinearoperator

    operator = aslinearoperator(X)
    dtype = np.dtype(np.float64 if operator.dtype is None else operator.dtype)
    _check_kind(dtype, name)
    dtype = dtype if _is_native_float(dtype) else np.dtype(np.float64)

    def adjoint(r: np.ndarray) -> Any:
        return operator.rmatvec(r) if r.ndim == 1 else operator.rmatmat(r)

    try:
        adjoint(np.zeros(operator.shape[0], dtype=dtype))
    except NotImplementedError as error:
        raise TypeError(
            f"{name} must be an operator with rmatvec (the product with its transpose, which gradients need)"
        ) from error
    return Operator(operator.shape, dtype, operator.dot, adjoint)


def _is_sparse(X: Any) -> bool:
    # whoever hands in a sparse matrix has imported scipy.sparse, so nobody else needs to wait for that import
    return "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(X)


def _is_native_float(dtype: np.dtype) -> bool:
    return dtype in (np.float32, np.float64) and dtype.isnative


def _check_kind(dtype: np.dtype, name: str) -> None:
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {dtype}; encode or drop other columns first")


def _check_finite(X: Array, name: str) -> None:
    """Refuse NaN and infinities; no temporary is larger than a block, because X may be a memory map."""
    xp = namespace(X)
    if xp.isdtype(X.dtype, ("bool", "integral")):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(xp.sum(X))):
            return
    for rows in row_blocks(X.shape):  # the sum alone may overflow although every entry is finite
        block = to_host(X[rows, :])
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            i, j = bad[0]
            raise _not_finite(name, block[i, j], rows.start + i, j)


def _not_finite(name: str, value: float, row: int, column: int) -> ValueError:
    return ValueError(
        f"{name} must be finite, got {value} in row {row}, column {column}; drop or impute such entries first"
    )
