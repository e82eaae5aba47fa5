"""Ctrl-C: it ends a run with its best point, and a call of many runs as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_inside = ContextVar("inside_a_larger_call", default=False)


@contextmanager
def whole_call() -> Iterator[None]:
    """What is done in here is one call: KeyboardInterrupt ends all of it, not only the run that it meets.

    Worker processes know nothing of their caller's context, so it belongs around what they do.
    """
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def inside_a_larger_call() -> bool:
    """Whether a run has to hand KeyboardInterrupt on."""
    return _inside.get()
