"""One measurement in a process of its own: `python -m benchmarks.peers.worker SOLVER FOLDER SECONDS GIGABYTES`.

Prints one line of JSON after the first call, and again after the later ones; a process that is killed by its time
limit leaves what it has printed.
"""

import contextlib
import json
import resource
import signal
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .datasets import load
from .solvers import SOLVERS

REPEATS, PATIENCE = 3, 8.0  # calls after the first, and the seconds after which no other is begun


def main():
    name, folder, seconds, gigabytes = sys.argv[1:]
    limit = float(seconds)
    resource.setrlimit(resource.RLIMIT_AS, (int(float(gigabytes) * 2**30),) * 2)
    warnings.simplefilter("ignore")
    solver = next(s for s in SOLVERS if s.name == name)
    objective = load(Path(folder))
    started = time.perf_counter()
    solver.load()
    result = {"import": time.perf_counter() - started, "version": versions(solver), "numpy": np.__version__}
    passes, times = yardstick(objective.X), []
    before = memory("VmRSS")
    reset_peak()
    signal.setitimer(signal.ITIMER_REAL, limit)  # unhandled on purpose: the signal ends any compiled code
    w, first = timed(solver, objective, limit)
    result |= answer(w) | {"first": first, "memory": memory("VmHWM") - before}
    tell(result, times or [first], passes)
    if solver.exact or (first > PATIENCE and not solver.compiles):
        return
    while len(times) < REPEATS and sum(times) < PATIENCE:
        signal.setitimer(signal.ITIMER_REAL, limit)
        passes += yardstick(objective.X)
        w, seconds = timed(solver, objective, limit)
        times.append(seconds)
        tell(result, times, passes)


def timed(solver, objective, limit):
    started = time.perf_counter()
    w = np.asarray(solver.run(objective, limit), float).ravel()
    return w, time.perf_counter() - started


def tell(result, times, passes):
    print("RESULT " + json.dumps(result | {"times": times, "pass": float(np.median(passes))}), flush=True)


def answer(w):
    """The nonzeros of w; what is 1e-10 of the largest is rounding."""
    support = np.flatnonzero(np.abs(w) > 1e-10 * np.abs(w).max())
    return {"support": support.tolist(), "values": w[support].tolist()}


def yardstick(X, repeat=5):
    """Seconds of X.T @ r, a few times."""
    r, times = np.ones(X.shape[0]), []
    for _ in range(repeat):
        started = time.perf_counter()
        X.T @ r
        times.append(time.perf_counter() - started)
    return times


def memory(field):
    """Megabytes of this process, VmRSS now or VmHWM at most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


def reset_peak():
    with contextlib.suppress(OSError):  # then the peak includes the loading of the data
        Path("/proc/self/clear_refs").write_text("5")


def versions(solver):
    names = [name for name in solver.requires or (solver.package,) if not name.startswith("numpy")]
    return ", ".join(f"{name} {version(name)}" for name in names)


if __name__ == "__main__":
    main()
