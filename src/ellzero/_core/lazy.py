"""Names of a package that are loaded when first used."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def need(module: str, words: str) -> Any:
    """A module that not everybody has, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(words) from error


def lazily(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package: of names with the modules they stand in, and of modules."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f".{homes[name]}", package), name)
        if name in modules:
            return import_module(f".{name}", package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(sys.modules[package]), *homes, *modules})
