"""How much memory this process may use."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from .validation import check_positive

_UNKNOWN = 2**32  # bytes, where the system does not tell
_SHARE = 4
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> int | None:
    """Bytes: the least of what the machine has, what its container allows and what the process was told; or None."""
    limits = []
    with suppress(AttributeError, OSError, ValueError):  # not on every system
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int(Path(path).read_text()))
    with suppress(ImportError):
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft = resource.getrlimit(kind)[0]
            if soft != resource.RLIM_INFINITY:
                limits.append(soft)
    return min((limit for limit in limits if limit > 0), default=None)


def allowance(memory: Any) -> float:
    """The bytes that somebody allows for copies of data; None is a quarter of what this process may use."""
    return (memory_limit() or _UNKNOWN) / _SHARE if memory is None else check_positive(memory, "memory")
