"""Fingerprints of data: equal when and only when the data are (short of a collision of SHA-256)."""

import hashlib
import os
from typing import Any

import numpy as np

from .._core.arrays import to_host


def fingerprint(data: Any) -> str:
    """SHA-256 of a file's bytes, or of the type, shape and values of an array, sparse matrix or DataFrame.

    Examples
    --------
    >>> import numpy as np
    >>> from ellzero.report import fingerprint
    >>> fingerprint(np.arange(3.0))[:12]
    '74cc823074f3'
    >>> fingerprint(np.arange(3.0)) == fingerprint(np.array([0.0, 1.0, 3.0]))
    False
    """
    digest = hashlib.sha256()
    if isinstance(data, (str, os.PathLike)):
        with open(data, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if hasattr(data, "tocsr"):
        data = data.tocsr()
        parts = [np.asarray(data.shape), data.indptr, data.indices, data.data]
    elif hasattr(data, "columns") or hasattr(data, "index"):  # a DataFrame or a Series
        labels = [*map(str, getattr(data, "columns", ())), *map(str, getattr(data, "index", ()))]
        digest.update("\0".join(labels).encode())
        parts = [np.asarray(data)]
    else:
        parts = [to_host(data) if hasattr(data, "shape") else np.asarray(data)]
    for part in parts:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(
            np.ascontiguousarray(part).tobytes() if part.dtype != object else "\0".join(map(str, part.ravel())).encode()
        )
    return digest.hexdigest()
