"""Public data from the network, kept in a cache and compared with checksums; needs pooch (``ellzero[download]``).

Nothing is ever downloaded unless one of these functions is called. Users import them from `ellzero.datasets`.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np

from .._core.lazy import need
from .dna import N_TRAIN, Classification, fingerprint, load_dna
from .text_files import PathLike

#: where the files are; `base_url` replaces everything up to the file's name (a mirror, a test server)
SOURCES = {
    "libsvm": "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",
    "openml": "https://api.openml.org/api/v1/json/data/",  # a description, which names the file
}
_OPENML_ID = "40670"


def fetch(
    url: str,
    *,
    sha256: str | None = None,
    cache: PathLike | None = None,
    name: str | None = None,
    timeout: float = 60.0,
    progress: bool = False,
) -> Path:
    """The file behind a URL: downloaded once, then taken from the cache.

    Parameters
    ----------
    url : str
        http, https or ftp.
    sha256 : str, optional
        What the file's SHA-256 must be; a file in the cache that has another one is downloaded again. Without it
        nothing is checked here.
    cache : path, optional
        The folder; by default the system's cache folder for "ellzero", or what ELLZERO_CACHE names.
    name : str, optional
        The file's name in the cache; the last part of the URL by default.
    timeout : float
        Seconds that the server may be silent.
    progress : bool
        Whether pooch shows a bar (needs tqdm).
    """
    pooch = _pooch()
    if urlparse(url).scheme not in ("http", "https", "ftp"):
        raise ValueError(f"url must begin with http://, https:// or ftp://, got {url!r}")
    if sha256 is not None and (len(sha256) != 64 or set(sha256.lower()) - set("0123456789abcdef")):
        raise ValueError(f"sha256 must be 64 hexadecimal digits, got {sha256!r}")
    folder = Path(cache) if cache is not None else default_cache()
    known = None if sha256 is None else f"sha256:{sha256.lower()}"
    name = name or Path(urlparse(url).path).name or "download"
    load = pooch.HTTPDownloader(timeout=timeout, progressbar=progress) if url.startswith("http") else None
    try:
        return Path(pooch.retrieve(url, known, fname=name, path=folder, downloader=load, progressbar=progress))
    except ValueError as error:  # pooch's word for a wrong checksum
        raise ValueError(
            f"{url}: the file that came does not have sha256={sha256}: it was changed or cut off ({error}); "
            "try again, or give the new checksum if you trust the source"
        ) from error
    except OSError as error:  # requests' errors are such
        raise ConnectionError(
            f"cannot download {url} ({type(error).__name__}: {error}); look at the network, or download the file by "
            f"hand and put it at {folder / name}"
        ) from error


def fetch_dna(source: str = "libsvm", *, base_url: str | None = None, cache: PathLike | None = None) -> Classification:
    """dna from a public source, equal bit by bit to `load_dna()`; for those who want it from there.

    Parameters
    ----------
    source : {"libsvm", "openml"}
        LIBSVM's two files, or OpenML's one (data set 40670), whose rows may come in another order: they are put in
        LIBSVM's, by comparison with the package's copy.
    base_url : str, optional
        Another place for the files, such as a mirror.
    cache : path, optional
        As for `fetch`.
    """
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
    base = (SOURCES[source] if base_url is None else base_url).rstrip("/") + "/"
    folder = Path(cache) if cache is not None else default_cache()
    paths: list[Path] = []
    try:
        if source == "libsvm":
            paths += [fetch(base + name, cache=folder, name=name) for name in ("dna.scale", "dna.scale.t")]
            return load_dna(folder)
        paths.append(fetch(base + _OPENML_ID, cache=folder, name="dna.json"))
        paths.append(fetch(_openml_url(paths[0]), cache=folder, name="dna.arff"))
        return _arff(paths[1])
    except ValueError:
        for path in paths:  # never keep a wrong file: the next call shall try anew
            path.unlink(missing_ok=True)
        raise


def _openml_url(description: Path) -> str:
    """Where OpenML's description says that the file is."""
    try:
        return str(json.loads(description.read_text(encoding="utf-8"))["data_set_description"]["url"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{description}: not a description of a data set of OpenML ({error!r}); try again") from error


def _arff(path: Path) -> Classification:
    """OpenML's file: the same rows as the package's copy, in any order."""
    from scipy.io import arff

    copy = load_dna()
    try:
        table, meta = arff.loadarff(path)
        columns = [np.array([float(cell) for cell in table[name]]) for name in meta.names()]
    except Exception as error:  # a page of HTML, a cut file: scipy raises all kinds
        raise ValueError(f"{path}: not an ARFF file of numbers ({error}); download it again") from error
    X, y = np.column_stack(columns[:-1]), columns[-1].astype(int)
    rows = np.vstack([copy.X, copy.X_test]), np.concatenate([copy.y, copy.y_test])
    if X.shape == rows[0].shape:  # sort both, and put this one where the copy has its rows
        here, there = (np.lexsort(np.column_stack([part[0], part[1]]).T) for part in ((X, y), rows))
        order = np.empty_like(here)
        order[there] = here
        X, y = X[order], y[order]
    if fingerprint(X, y) != fingerprint(*rows):
        raise ValueError(f"{path} does not hold the rows of dna ({X.shape[0]} x {X.shape[1]}); 3186 x 180 are expected")
    return Classification(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:], copy.classes, str(path))


def default_cache() -> Path:
    """ELLZERO_CACHE, or the system's cache folder for "ellzero"."""
    chosen = os.environ.get("ELLZERO_CACHE")
    return Path(chosen) if chosen else Path(_pooch().os_cache("ellzero"))


def _pooch() -> Any:
    pooch = need("pooch", "downloads need pooch: pip install ellzero[download]")
    pooch.get_logger().setLevel("WARNING")
    return pooch
