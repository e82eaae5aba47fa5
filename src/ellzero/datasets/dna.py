"""dna, the splice-junction data of the paper's third experiment: a copy inside the package, and readers of others.

Each row is a stretch of 60 nucleotides; columns 3p, 3p+1, 3p+2 of X code nucleotide p as 100, 010, 001 or 000. That is
one of four letters, so that the copy needs two bits for each: 3186 rows in 48 kB.
"""

import hashlib
import io
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .readers import read_libsvm
from .text_files import PathLike

CLASSES = ("ei", "ie", "n")
N_TRAIN, N_FEATURES = 2000, 180
#: of the packed rows and labels, in the order of LIBSVM's dna.scale followed by dna.scale.t
SHA256 = "bd4b0833d9245913d1cb13c8a61d3d8d42b66b869b394b0cc55f54b9ecd8e1d0"


@dataclass(frozen=True, eq=False)
class Classification:
    """Rows with labels, for the fit and for the test.

    Attributes
    ----------
    X, X_test : ndarray of shape (n, p)
    y, y_test : ndarray of int
    classes : tuple of str
        What the labels 1, 2, ... mean.
    source : str
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...]
    source: str


def load_dna(path: PathLike | None = None) -> Classification:
    """Statlog DNA: 2000 rows for the fit, 1186 for the test, 180 features of 0 and 1, labels 1, 2, 3.

    Parameters
    ----------
    path : path, optional
        A folder with LIBSVM's dna.scale and dna.scale.t, or an .npz file with X and y in that order. By default the
        copy inside the package. Wherever it comes from, its content is compared with a checksum.

    Notes
    -----
    Primate splice-junction gene sequences (G. Towell, M. Noordewier and J. Shavlik 1991, from GenBank 64.1; UCI
    Machine Learning Repository, CC BY 4.0) in the binary coding of Statlog (D. Michie, D. Spiegelhalter and C. Taylor
    1994). Changed here: packed into two bits a nucleotide.

    Examples
    --------
    >>> from ellzero.datasets import load_dna
    >>> dna = load_dna()
    >>> dna.X.shape, dna.X_test.shape, dna.classes
    ((2000, 180), (1186, 180), ('ei', 'ie', 'n'))
    """
    if path is None:
        source = "the package's copy"
        with np.load(io.BytesIO((files(__package__) / "data" / "dna.npz").read_bytes())) as packed:
            X, y = unpack(packed["letters"], packed["labels"])
    else:
        source = str(path)
        X, y = _read(Path(path))
    found = fingerprint(X, y)
    if found != SHA256:
        raise ValueError(
            f"{source} does not hold the dna data: the checksum of its {len(y)} rows is {found[:12]}…, and "
            f"{SHA256[:12]}… was expected; LIBSVM's dna.scale (2000 rows) and dna.scale.t (1186 rows) are needed, "
            "in their order"
        )
    X = X.astype(float)
    return Classification(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:], CLASSES, source)


def pack(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows as two bits a letter, four letters a byte, and the labels."""
    triples = np.asarray(X, dtype=np.uint8).reshape(len(X), -1, 3)
    letters = (triples * np.array([1, 2, 3], dtype=np.uint8)).sum(axis=2).astype(np.uint8)
    bits = np.stack([letters >> 1, letters & 1], axis=2).reshape(len(X), -1)
    return np.packbits(bits, axis=1), np.asarray(y, dtype=np.uint8)


def unpack(letters: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `pack` packed."""
    bits = np.unpackbits(letters, axis=1)[:, : 2 * N_FEATURES // 3].reshape(len(letters), -1, 2)
    codes = 2 * bits[..., 0] + bits[..., 1]
    return (codes[..., None] == np.array([1, 2, 3])).astype(np.uint8).reshape(len(letters), -1), labels.astype(int)


def fingerprint(X: Any, y: Any) -> str:
    """SHA-256 of rows and labels, whatever file they came from; "not binary" where the coding is another one."""
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != N_FEATURES or not np.isin(X, (0, 1)).all():
        return "not binary rows of 180"
    if (X.reshape(len(X), -1, 3).sum(axis=2) > 1).any():
        return "not one letter for three columns"
    letters, labels = pack(X, np.asarray(y))
    return hashlib.sha256(letters.tobytes() + labels.tobytes()).hexdigest()


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["X"], arrays["y"].astype(int)
    rows, labels = [], []
    for name in ("dna.scale", "dna.scale.t"):
        X, y = read_libsvm(path / name, n_features=N_FEATURES)
        rows.append(X.toarray())
        labels.append(y.astype(int))
    return np.vstack(rows), np.concatenate(labels)


def write_copy(source: PathLike, target: PathLike) -> Path:
    """Make the package's copy from a folder or file that `load_dna` reads; the same bytes every time.

    From the root of the repository: ``write_copy("dna.npz", "src/ellzero/datasets/data/dna.npz")``.
    """
    letters, labels = pack(*_read(Path(source)))
    np.savez_compressed(target, letters=letters, labels=labels)
    return Path(target)
