"""Data larger than memory: what a sweep costs beside the reading of the file, and how much memory it takes.

    python -m benchmarks out-of-core                    # 20 GB in the folder for temporary files, deleted afterwards
    python -m benchmarks out-of-core --gb 2 --folder D  # another size, elsewhere; no page is written
    python -m benchmarks out-of-core --gb 3 --pairs 15  # more measurements, where other programs disturb them

X has 1000 columns in float64: some thousand rows of independent standard normal numbers, repeated in other orders and
with other signs of the columns; 10 entries of w* are 1, the noise is 1, seed 0. Reading is `readinto` of the whole file
into one buffer of the size of a block. The file is thrown out of the system's cache (posix_fadvise) before every
measurement, so that all of them read the disk; reading and gradient are taken in turns, five times. The ratio that is
told is the median of those of the pairs, since what else a machine does weighs on both of a pair alike. BLAS has one
thread, beside the one that reads. Memory is the largest resident set of a process that has done nothing else. Limits: a
full gradient, at a dense w, at most 1.3 times the reading; 1 GB of memory.
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


def truth():
    """Where w* is nonzero."""
    rng = np.random.default_rng(0)
    rng.standard_normal((BASE, P))  # X comes first
    return rng.choice(P, K, replace=False)


def make(path, n_bytes):
    """The file, and y beside it."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((BASE, P))
    rng.choice(P, K, replace=False)  # the places of w*
    n_blocks = max(1, round(n_bytes / base.nbytes))
    w = np.zeros(P)
    w[truth()] = 1.0
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_blocks * BASE, P))
    offset = X.offset
    del X
    y = np.empty(n_blocks * BASE)
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        for i in range(n_blocks):
            block = base[rng.permutation(BASE)] * rng.choice([-1.0, 1.0], P)
            y[i * BASE : (i + 1) * BASE] = block @ w + rng.standard_normal(BASE)
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


def measured(task, path, n_pairs):
    """Run in a process of its own: seconds, peak memory in bytes, and what else there is to tell."""
    y, told = np.load(path.with_suffix(".y.npy")), {}
    if task == "gradient":
        risk = ez.risks.LeastSquares(ez.Blocks(path, memory=MEMORY), y)
        w, seconds = np.cos(np.arange(P)), {"reading": [], "gradient": []}
        for _ in range(n_pairs):
            for name, f in (("reading", lambda: read(path)), ("gradient", lambda: risk.at(w).gradient)):
                forget(path)
                start = time.perf_counter()
                f()
                seconds[name].append(time.perf_counter() - start)
        told = {name: statistics.median(values) for name, values in seconds.items()} | {"all": seconds}
    else:
        start = time.perf_counter()
        data = ez.Blocks(path, memory=MEMORY)
        res = ez.minimize(ez.risks.LeastSquares(data, y), K)
        told = {"seconds": time.perf_counter() - start, "sweeps": res.n_sweeps + 1}
        told["right"] = int(np.isin(res.support, truth()).sum())
    told["load"] = os.getloadavg()[1]
    told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(told))


def ask(task, path, n_pairs):
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--task", task, "--folder", str(path)]
    command += ["--pairs", str(n_pairs)]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    out = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone)
    if out.returncode:
        raise RuntimeError(out.stderr)
    return json.loads(out.stdout.splitlines()[-1])


def main(options=()):
    parser = argparse.ArgumentParser(prog="python -m benchmarks out-of-core")
    parser.add_argument("--gb", type=float, default=20.0)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--task", default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args(list(options))
    if chosen.task:
        measured(chosen.task, Path(chosen.folder), chosen.pairs)
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "X.npy"
        make(path, chosen.gb * 1e9)
        size = path.stat().st_size
        answers = {task: ask(task, path, chosen.pairs) for task in ("gradient", "auto")}
    told, page = tell(answers, size, chosen.gb)
    print(told)
    print(f"every measurement: {json.dumps(answers['gradient']['all'])}")
    if chosen.gb == parser.get_default("gb"):
        PAGE.write_text(page)


def tell(answers, size, gb):
    """The table, and the page with it."""
    gradient, n = answers["gradient"], size // (8 * P)
    reading = gradient["reading"]

    def row(what, seconds, memory=None):
        peak = "" if memory is None else f"{memory / 1e6:.0f} MB"
        return f"| {what} | {seconds:.1f} | {seconds / reading:.2f} | {peak} |"

    lines = ["| what | seconds | readings | peak memory |", "|---|---:|---:|---:|", row("reading the file", reading)]
    every = list(zip(gradient["all"]["gradient"], gradient["all"]["reading"], strict=True))
    ratio = statistics.median(g / r for g, r in every)
    quickest = min(gradient["all"]["gradient"]) / min(gradient["all"]["reading"])
    peak = f"{gradient['memory'] / 1e6:.0f} MB"
    lines.append(f"| a full gradient by blocks | {gradient['gradient']:.1f} | {ratio:.2f} | {peak} |")
    auto = answers["auto"]
    lines.append(row(f'"auto", k = {K}, all of it: {auto["sweeps"]} sweeps', auto["seconds"], auto["memory"]))
    table = "\n".join(lines)
    ratios = ", ".join(f"{g:.1f}/{r:.1f}" for g, r in every)
    medians = gradient["gradient"] / reading
    page = f"""# Larger than memory

`python -m benchmarks out-of-core --gb {gb:g}`, on {machine()}
(load average {answers["auto"]["load"]:.1f}).

{__doc__.split(chr(10) * 2, 2)[2]}
{size / 1e9:.1f} GB, {n} rows, read at {size / reading / 1e9:.2f} GB/s.

{table}

Gradient and reading, pair by pair, in seconds: {ratios}. Their ratio is {ratio:.2f} in
the median; that of the quickest gradient and the quickest reading is {quickest:.2f}, and that of the median gradient
and the median reading {medians:.2f}.
The first sweep looks for NaN and for the sizes of columns. "auto" chose {auto["right"]} of the {K} columns of w*, and
does not throw the file out of the cache between its sweeps. Memory holds two blocks of 2 MB, vectors of {n}
entries, the kept columns, and Python with its libraries.
"""
    return f"{table}\nratios: pairs {ratio:.2f}, quickest {quickest:.2f}, medians {medians:.2f}", page


if __name__ == "__main__":
    main(sys.argv[1:])
