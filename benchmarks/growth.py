"""How the time of `minimize` grows with the data, and what the first call costs.

    python -m benchmarks growth

1. doubling n or d of P1, P1c and P5, at the same k: the time grows by at most 2.3 times
2. in a fresh process, the first call of `minimize` takes under 0.1 s longer than the second
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import ellzero as ez
from ellzero.datasets import make_regression

SHAPES = {"P1": (1000, 5000, 50, 1.0), "P1c": (5000, 20000, 100, 1.0), "P5": (20000, 50000, 100, 0.01)}
FIRST = """
import time
import ellzero as ez
from ellzero.datasets import PROBLEMS
p = PROBLEMS[{name!r}](rng=0)
def call():
    start = time.perf_counter()
    risk = ez.risks.Logistic(p.X, p.y) if p.kind == "logistic" else ez.risks.LeastSquares(p.X, p.y)
    ez.minimize(risk, p.k, ez.sets.NonNegative() if p.nonnegative else None)
    return time.perf_counter() - start
print(call(), min(call() for _ in range(3)))
"""


def seconds(n, d, k, density, repeat=5):
    """Median times of a call, the first one left out, and of one product Xᵀr."""
    problem = make_regression(n, d, k, density=density)
    calls, passes = [], []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k)
        calls.append(time.perf_counter() - start)
        start = time.perf_counter()
        problem.X.T @ problem.y
        passes.append(time.perf_counter() - start)
    return np.array([statistics.median(calls[1:]), statistics.median(passes[1:])])


def grow():
    lines = ["| problem | time | doubling n | a pass by itself | doubling d | a pass by itself | at most |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for name, (n, d, k, density) in SHAPES.items():
        once = seconds(n, d, k, density)
        rows, columns = (seconds(*shape, k, density) / once for shape in ((2 * n, d), (n, 2 * d)))
        print(
            f"{name}: {once[0]:.3f} s; doubling n {rows[0]:.2f} x (one pass {rows[1]:.2f} x), "
            f"doubling d {columns[0]:.2f} x (one pass {columns[1]:.2f} x); at most 2.3",
            flush=True,
        )
        cells = [f"{ratio:.2f} x" for ratio in (*rows, *columns)]
        lines.append(f"| {name} | {once[0]:.3f} s | " + " | ".join(cells) + " | 2.3 x |")
    return lines


def first_call(repeat=5):
    lines = ["", "| problem | first call beyond the second | at most |", "|---|---:|---:|"]
    for name in ("P1", "P2", "P3"):
        extra = []
        for _ in range(repeat):
            out = subprocess.run(
                [sys.executable, "-c", FIRST.format(name=name)], check=True, capture_output=True, text=True
            )
            first, second = map(float, out.stdout.split())
            extra.append(first - second)
        print(f"{name}: the first call takes {statistics.median(extra):.3f} s longer (at most 0.1)", flush=True)
        lines.append(f"| {name} | {statistics.median(extra):.3f} s | 0.1 s |")
    return lines


def main():
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    lines = [*grow(), *first_call()]
    store = Path(__file__).parents[1] / "out" / "growth.json"
    store.parent.mkdir(exist_ok=True)
    store.write_text(json.dumps({"markdown": "\n".join(lines)}))
