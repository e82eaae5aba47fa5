"""``ellzero info``: what is here."""

import importlib.metadata
import importlib.util
import os
import platform

from threadpoolctl import threadpool_info

from .. import __version__
from ..solver.methods import PRESETS
from .screen import Screen, command

#: what each brings; of the packages of "cli" the one that nobody else needs
_EXTRAS = {"plot": "matplotlib", "portfolio": "pandas", "cli": "rich", "download": "pooch", "torch": "torch"}
_EXTRAS |= {"jax": "optax", "dask": "distributed", "parquet": "pyarrow", "zarr": "zarr"}
_EXAMPLES = """
  ellzero info
  ellzero info --json
"""


@command(_EXAMPLES)
def info(screen: Screen, /) -> None:
    """Versions, optional parts, methods and constraints: what is here.

    Put its output into a report of a problem.
    """
    methods = [*PRESETS, "exact"]
    core = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    extras = {name: importlib.util.find_spec(package) is not None for name, package in _EXTRAS.items()}
    blas = [f"{p['internal_api']} {p['version']}, {p['num_threads']} threads" for p in threadpool_info()]
    screen.answer = {
        "ellzero": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        **core,
        "blas": blas,
        "extras": extras,
        "methods": methods,
    }
    python = f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores"
    told = {"linear algebra": "; ".join(blas), "methods": ", ".join(methods)}
    screen.facts({"ellzero": __version__, "python": python, **core, **told})
    rows = [
        [name, "yes" if here else "no", "" if here else f"pip install 'ellzero[{name}]'"]
        for name, here in extras.items()
    ]
    screen.table(["extra", "installed", "how to get it"], rows)
