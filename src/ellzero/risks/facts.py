"""Copies of a risk with other facts, and what its class writes itself."""

import copy
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


def changed(thing: T, **facts: Any) -> T:
    """A copy with other facts; what was computed from the old ones is forgotten."""
    copied, kind = copy.copy(thing), type(thing)
    for name in [name for name in vars(copied) if isinstance(getattr(kind, name, None), cached_property)]:
        del vars(copied)[name]
    vars(copied).update(facts)
    return copied


def own_names(cls: type, family: type) -> set[str]:
    """What a class writes itself or takes from mixins, before the first of its bases that belongs to a family."""
    own: set[str] = set()
    for base in cls.__mro__:
        if base is not cls and issubclass(base, family):
            break
        own |= vars(base).keys()
    return own
