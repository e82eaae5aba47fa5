"""Data larger than memory: what a sweep costs beside the reading of the file, and how much memory it takes.

    python -m benchmarks out-of-core                    # 20 GB in the folder for temporary files, deleted afterwards
    python -m benchmarks out-of-core --gb 2 --folder D  # another size, elsewhere

X has 1000 columns in float64: some thousand rows of independent standard normal numbers, repeated in other orders and
with other signs of the columns; 10 entries of w* are 1, the noise is 1, seed 0. Reading is `readinto` of the whole file
into one buffer of the size of a block. The file is thrown out of the system's cache (posix_fadvise) before every
measurement, so that all of them read the disk; reading and gradient are taken in turns, five times, and medians are
told. BLAS has one thread, beside the one that reads. Memory is the largest resident set of a process that has done
nothing else. Limits: a full gradient, at a dense w, at most 1.3 times the reading; 1 GB of memory.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ellzero as ez

from .machine import machine

PAGE = Path(__file__).with_name("OUT_OF_CORE.md")
P, K, BASE = 1000, 10, 2**13
MEMORY = 5e8  # bytes for copies of columns, so that everything stays below 1 GB


def make(path, n_bytes):
    """The file, and y beside it."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((BASE, P))
    n_blocks = max(1, round(n_bytes / base.nbytes))
    truth = np.zeros(P)
    truth[rng.choice(P, K, replace=False)] = 1.0
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_blocks * BASE, P))
    offset = X.offset
    del X
    y = np.empty(n_blocks * BASE)
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        for i in range(n_blocks):
            block = base[rng.permutation(BASE)] * rng.choice([-1.0, 1.0], P)
            y[i * BASE : (i + 1) * BASE] = block @ truth + rng.standard_normal(BASE)
            file.write(block.data)
        os.fsync(file.fileno())
    np.save(path.with_suffix(".y.npy"), y)


def forget(path):
    """Throw the file out of the system's cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path):
    """Read the file, and do nothing with it."""
    buffer = memoryview(bytearray(2**21))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def measured(task, path):
    """Run in a process of its own: seconds, peak memory in bytes, and what else there is to tell."""
    y, told = np.load(path.with_suffix(".y.npy")), {}
    if task == "gradient":
        risk = ez.risks.LeastSquares(ez.Blocks(path, memory=MEMORY), y)
        w, seconds = np.cos(np.arange(P)), {"reading": [], "gradient": []}
        for _ in range(5):
            for name, f in (("reading", lambda: read(path)), ("gradient", lambda: risk.at(w).gradient)):
                forget(path)
                start = time.perf_counter()
                f()
                seconds[name].append(time.perf_counter() - start)
        told = {name: statistics.median(values) for name, values in seconds.items()} | {"all": seconds}
    else:
        start = time.perf_counter()
        data = ez.Blocks(path, memory=MEMORY)
        if task == "auto":
            res = ez.minimize(ez.risks.LeastSquares(data, y), K)
        else:
            res = ez.minimize(ez.risks.Logistic(data, y > 0, ridge=0.01), K)
        told = {"seconds": time.perf_counter() - start, "sweeps": res.n_sweeps + 1, "support": res.support.tolist()}
    told["load"] = os.getloadavg()[1]
    told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(told))


def ask(task, path):
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--task", task, "--folder", str(path)]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone)
    if out.returncode:
        raise RuntimeError(out.stderr)
    return json.loads(out.stdout.splitlines()[-1])


def main(options=()):
    parser = argparse.ArgumentParser(prog="python -m benchmarks out-of-core")
    parser.add_argument("--gb", type=float, default=20.0)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--task", default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(list(options))
    if chosen.task:
        measured(chosen.task, Path(chosen.folder))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "X.npy"
        make(path, chosen.gb * 1e9)
        size = path.stat().st_size
        answers = {task: ask(task, path) for task in ("gradient", "auto", "logistic")}
    told, page = tell(answers, size, chosen.gb)
    print(told)
    print(f"every measurement: {json.dumps(answers['gradient']['all'])}")
    PAGE.write_text(page)


def tell(answers, size, gb):
    """The table, and the page with it."""
    gradient, n = answers["gradient"], size // (8 * P)
    reading = gradient["reading"]

    def row(what, seconds, memory=None):
        peak = "" if memory is None else f"{memory / 1e6:.0f} MB"
        return f"| {what} | {seconds:.1f} | {seconds / reading:.2f} | {peak} |"

    lines = ["| what | seconds | readings | peak memory |", "|---|---:|---:|---:|", row("reading the file", reading)]
    lines.append(row("a full gradient by blocks", gradient["gradient"], gradient["memory"]))
    for task, loss in (("auto", "least squares"), ("logistic", "logistic")):
        told = answers[task]
        lines.append(row(f"{loss}, k = {K}, all of it: {told['sweeps']} sweeps", told["seconds"], told["memory"]))
    table = "\n".join(lines)
    pairs = zip(gradient["all"]["gradient"], gradient["all"]["reading"], strict=True)
    ratios = ", ".join(f"{g:.1f}/{r:.1f} s" for g, r in pairs)
    same = "the same columns" if answers["auto"]["support"] == answers["logistic"]["support"] else "other columns"
    page = f"""# Larger than memory

`python -m benchmarks out-of-core --gb {gb:g}`, on {machine()}; other programs were
running (load average {answers["auto"]["load"]:.0f}).

{__doc__.split(chr(10) * 2, 2)[2]}
{size / 1e9:.1f} GB, {n} rows, read at {size / reading / 1e9:.2f} GB/s.

{table}

Gradient and reading, pair by pair: {ratios}.
The first sweep looks for NaN and for the sizes of columns. Both losses choose {same}. Memory holds two blocks of 2 MB,
vectors of {n} entries, the kept columns, and Python with its libraries.
"""
    return table, page


if __name__ == "__main__":
    main(sys.argv[1:])
