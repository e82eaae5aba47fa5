"""Data larger than memory: what a sweep costs beside the reading of the file, and how much memory it takes.

    python -m benchmarks out-of-core                    # 20 GB in the folder for temporary files, deleted afterwards
    python -m benchmarks out-of-core --gb 2 --folder D  # another size, elsewhere

X has 1000 columns in float64: a million-odd rows of independent standard normal numbers, repeated in other orders and
with other signs of the columns; 10 entries of w* are 1, the noise is 1, seed 0. Reading is `readinto` of the whole file
into one buffer of the size of a block. The file is thrown out of the system's cache (posix_fadvise) before every
measurement, so that all of them read the disk; each is the median of three, in turns. Memory is the largest resident set of
a process that has done nothing else. Limits: a full gradient at most 1.3 times the reading, 1 GB of memory.
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
    buffer = memoryview(bytearray(2**25))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def measured(task, path):
    """Run in a process of its own: seconds, peak memory in bytes, and what else there is to tell."""
    y, told = np.load(path.with_suffix(".y.npy")), {}
    if task == "gradient":
        risk = ez.risks.LeastSquares(ez.Blocks(path, memory=MEMORY), y)
        w, seconds = np.cos(np.arange(P)), {"reading": [], "gradient": []}
        for _ in range(3):
            for name, f in (("reading", lambda: read(path)), ("gradient", lambda: risk.at(w).gradient)):
                forget(path)
                start = time.perf_counter()
                f()
                seconds[name].append(time.perf_counter() - start)
        told = {name: statistics.median(values) for name, values in seconds.items()} | {"all": seconds}
    elif task == "mapped":
        risk = ez.risks.LeastSquares(np.asarray(np.load(path, mmap_mode="r")), y)  # as if it fitted
        w = np.cos(np.arange(P))
        forget(path)
        start = time.perf_counter()
        risk.at(w).gradient  # noqa: B018
        told = {"gradient": time.perf_counter() - start}
    else:
        start = time.perf_counter()
        data = ez.Blocks(path, memory=MEMORY)
        if task == "auto":
            res = ez.minimize(ez.risks.LeastSquares(data, y), K)
        else:
            res = ez.minimize(ez.risks.Logistic(data, y > 0, ridge=0.01), K)
        told = {"seconds": time.perf_counter() - start, "sweeps": res.n_sweeps + 1, "support": res.support.tolist()}
    told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(told))


def ask(task, path):
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--task", task, "--folder", str(path)]
    out = subprocess.run(command, capture_output=True, text=True)
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
        answers = {task: ask(task, path) for task in ("gradient", "mapped", "auto", "logistic")}
    gradient, mapped = answers["gradient"], answers["mapped"]
    ratio = gradient["gradient"] / gradient["reading"]
    rows = [
        ("reading the file", gradient["reading"], 1.0, ""),
        ("a full gradient by blocks", gradient["gradient"], ratio, f"{gradient['memory'] / 1e6:.0f} MB"),
        ("the same through a memory map", mapped["gradient"], mapped["gradient"] / gradient["reading"], f"{mapped['memory'] / 1e6:.0f} MB"),
    ]  # fmt: skip
    for name, words in (("auto", f"least squares, k = {K}, all of it"), ("logistic", f"logistic, k = {K}, all of it")):
        told = answers[name]
        rows.append((f"{words}: {told['sweeps']} sweeps", told["seconds"], told["seconds"] / gradient["reading"], f"{told['memory'] / 1e6:.0f} MB"))  # fmt: skip
    lines = ["| what | seconds | readings | peak memory |", "|---|---:|---:|---:|"]
    lines += [f"| {what} | {seconds:.1f} | {share:.2f} | {memory} |" for what, seconds, share, memory in rows]
    told = "\n".join(lines)
    print(told)
    print(f"every measurement: {json.dumps(gradient['all'])}")
    same = answers["auto"]["support"] == answers["logistic"]["support"]
    text = (
        f"# Larger than memory\n\n`python -m benchmarks out-of-core --gb {chosen.gb:g}`, on {machine()}; other work was "
        f"going on.\n\n{__doc__.split(chr(10) * 2, 2)[2]}\n{size / 1e9:.1f} GB, {size // (8 * P)} rows, read at "
        f"{size / gradient['reading'] / 1e9:.2f} GB/s.\n\n{told}\n\nThe first sweep looks for NaN and for the sizes of columns. Both "
        f"losses choose {'the same columns' if same else 'other columns'}. Memory holds two blocks of 32 MB, "
        f"vectors of {size // (8 * P)} entries, the kept columns, and Python with its libraries.\n"
    )
    PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
