"""The machine that a table was made on, in a line."""

import os
import platform
from pathlib import Path

import numpy as np


def machine(*packages):
    """Processor, cores, memory, and the versions that matter."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    memory = (
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30 if hasattr(os, "sysconf") else float("nan")
    )
    versions = ", ".join(f"{package.__name__} {package.__version__}" for package in (np, *packages))
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, Python {platform.python_version()}, {versions}"
    )
