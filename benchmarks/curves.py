"""How passes and memory grow with rows, columns and the size of the support, on the host.

    OMP_NUM_THREADS=1 python -m benchmarks curves                 # about ten minutes of one core
    OMP_NUM_THREADS=1 python -m benchmarks curves --only limits   # one of the parts, beside what was measured before

X is standard normal, k entries of w* are ±(1 to 2), those of w >= 0 positive for three quarters, noise 0.5, seed 0. One
*pass* is the processor time of `X.T @ r` in the same process; "auto" is measured in these, from the making of the risk
to the answer, after a small problem that loads what is needed. Memory is what the process takes at its peak beyond what
it held before, in shares of X. Each row has a process of its own.
"""

import argparse
import concurrent.futures
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import ellzero as ez

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "benchmarks" / "GROWTH.md", ROOT / "benchmarks" / "figures" / "growth.png"
STORE = ROOT / "out" / "curves.json"
LOSSES = {"squared": "squared", "non-negative": "squared, w >= 0", "huber": "Huber", "logistic": "logistic"}
CURVES = {
    "n": [(n, 5000, 100) for n in (1250, 2500, 5000, 10_000)],
    "d": [(5000, d, 100) for d in (1250, 5000, 20_000)],
    "k": [(10_000, 5000, k) for k in (30, 100, 300, 1000)],
}
AXES = {"n": "rows (5000 columns, k = 100)", "d": "columns (5000 rows, k = 100)", "k": "k (10000 x 5000)"}
NAMES = LOSSES | {"l1": "squared, an l1 ball", "box": "squared, in a Box"}
SETS = {
    "non-negative": lambda k: ez.sets.NonNegative(),
    "l1": lambda k: ez.sets.L1Ball(float(k)),
    "box": lambda k: ez.sets.Box(-1.0, 1.2),
}
#: what is asked of single figures: loss, shape, k, kind of X, passes at the most
LIMITS = [
    ("squared", 10_000, 5000, 1000, "float64", 300),
    ("squared", 10_000, 5000, 1000, "float64 by columns", 300),
    ("non-negative", 10_000, 5000, 1000, "float64", 300),
    ("non-negative", 10_000, 5000, 1000, "float64 by columns", 300),
    ("l1", 10_000, 5000, 1000, "float64 by columns", None),
    ("box", 10_000, 5000, 1000, "float64 by columns", None),
    ("squared", 20_000, 20_000, 100, "float32", 28),
    ("logistic", 20_000, 20_000, 100, "float32", 61),
    ("squared", 200_000, 1_000_000, 100, "sparse", 50),
    ("logistic", 200_000, 1_000_000, 100, "sparse", 268),
    ("squared", 200_000, 1_000_000, 100, "sparse, short indices", 50),
    ("logistic", 200_000, 1_000_000, 100, "sparse, short indices", 268),
    ("squared", 200_000, 1_000_000, 100, "sparse, short indices, by columns", 50),
    ("logistic", 200_000, 1_000_000, 100, "sparse, short indices, by columns", 268),
]
LONG = ("non-negative", 5000, 50_000, 3000, "float64", 600)  # seconds


def make(loss, n, d, k, kind):
    """X and y; a sparse X has ten million entries, and indices of eight bytes or, if they are short, of four."""
    rng = np.random.default_rng(0)
    if kind.startswith("sparse"):
        from scipy import sparse

        at = rng.integers(0, n, 10**7), rng.integers(0, d, 10**7)
        X = sparse.csr_array((rng.standard_normal(10**7), at), shape=(n, d))
        if "short" in kind:
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = X.tocsc() if "by columns" in kind else X
    else:
        dtype, *by_columns = kind.split(maxsplit=1)
        X = np.asarray(rng.standard_normal((n, d), dtype=np.dtype(dtype)), order="F" if by_columns else "C")
    support = rng.choice(d, k, replace=False)
    w = np.zeros(d)
    w[support] = rng.choice([-1.0, 1.0], k) * rng.uniform(1, 2, k)
    if loss == "non-negative":
        w[support] = np.abs(w[support])
        w[rng.choice(support, k // 4, replace=False)] *= -1
    y = X[:, support] @ w[support] + 0.5 * rng.standard_normal(n)
    return X, np.sign(y) if loss == "logistic" else y


def processor_seconds(call):
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(loss, n, d, k, kind, limit):
    """One row, in this process."""
    risk = {"huber": ez.risks.Huber, "logistic": ez.risks.Logistic}.get(loss, ez.risks.LeastSquares)
    gamma = SETS[loss](k) if loss in SETS else None
    ridge = 0.01 if loss == "logistic" else 0.0
    ez.minimize(risk(*make(loss, 400, 600, 250, "float64"), ridge=0.1), 250, gamma)
    X, y = make(loss, n, d, k, kind)
    r = np.ones(n, dtype=X.dtype)
    one_pass = statistics.median(processor_seconds(lambda: X.T @ r)[0] for _ in range(15))
    size = X.nbytes if not kind.startswith("sparse") else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    start = time.perf_counter()
    seconds, res = processor_seconds(lambda: ez.minimize(risk(X, y, ridge=ridge), k, gamma, time_limit=limit))
    wall = time.perf_counter() - start
    lines = Path("/proc/self/status").read_text().splitlines()
    most = next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), peak())
    found = {"fun": res.fun, "status": res.status.name, "passes": seconds / one_pass, "seconds": seconds, "wall": wall}
    return found | {"one_pass": one_pass, "more": (most - before) / size, "gigabytes": size / 1e9}


def apart(row):
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.curves", "--row", json.dumps(row)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found = json.loads(done.stdout)
    print(f"{row}: {found['passes']:.0f} passes, {found['seconds']:.1f} s, memory +{found['more']:.0%}", flush=True)
    return found


def rows_of(part):
    if part == "curves":
        shapes = dict.fromkeys(shape for curve in CURVES.values() for shape in curve)
        return [(loss, *shape, "float64", None) for shape in shapes for loss in LOSSES]
    return [(*row[:5], None) for row in LIMITS] if part == "limits" else [LONG]


def name(row):
    return " ".join(map(str, row[:5]))


def page(known):
    """GROWTH.md and the picture, from all that was measured."""
    text = ["# Growth on the host", "", f"`python -m benchmarks curves`, on {machine()}.", ""]
    text += [__doc__.strip().split("\n\n")[-1], "", "![passes](figures/growth.png)", ""]
    for axis, curve in CURVES.items():
        text += [f"## In {AXES[axis]}", ""]
        text += [f"| {axis} | GB | " + " | ".join(LOSSES.values()) + " | memory beside X, most of them |"]
        text += ["|---:|---:|" + "---:|" * (len(LOSSES) + 1)]
        for shape in curve:
            cells = [known.get(name((loss, *shape, "float64"))) for loss in LOSSES]
            if all(cells):
                passes = " | ".join(f"{cell['passes']:.0f}" for cell in cells)
                most = max(cell["more"] for cell in cells)
                text += [f"| {shape['ndk'.index(axis)]} | {cells[0]['gigabytes']:.2g} | {passes} | {most:.0%} |"]
        text += [""]
    text += [
        "## What is asked",
        "",
        "| loss | X | k | passes | at most | memory beside X |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in LIMITS:
        cell = known.get(name(row))
        most = row[5] or ""
        passes = f"{cell['passes']:.0f} | {most} | {cell['more']:.0%}" if cell else f"not measured | {most} | "
        text += [f"| {NAMES[row[0]]} | {shape_of(row)} | {row[3]} | {passes} |"]
    plain, robust = (known.get(name((loss, 10_000, 5000, 100, "float64"))) for loss in ("squared", "huber"))
    if plain and robust:
        limit = f"{4 * plain['passes']:.0f}, four times squared"
        text += [f"| Huber | 10000 x 5000 float64 | 100 | {robust['passes']:.0f} | {limit} | {robust['more']:.0%} |"]
    if (cell := known.get(name(LONG))) is None:
        text += ["", f"{NAMES[LONG[0]]}, {shape_of(LONG)}, k = {LONG[3]}, under a limit of {LONG[5]} s: not measured."]
    else:
        text += [
            "",
            f"{NAMES[LONG[0]]}, {shape_of(LONG)}, k = {LONG[3]}, under a limit of {LONG[5]} s: {cell['wall']:.0f} s,",
        ]
        text += [
            f"{cell['seconds']:.0f} of them of the processor; it ended as {cell['status']}. Memory +{cell['more']:.0%}."
        ]
    PAGE.write_text("\n".join(text) + "\n")


def shape_of(row):
    return f"{row[1]} x {row[2]} " + row[4].replace("sparse", "with 1e7 entries")


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    threads = f"{os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'all')} threads"
    return f"{model}, {threads}, Python {platform.python_version()}, NumPy {np.__version__}"


def draw(known):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for ax, (axis, curve) in zip(axes, CURVES.items(), strict=True):
        at = [shape["ndk".index(axis)] for shape in curve]
        for loss, label in LOSSES.items():
            cells = [known.get(name((loss, *shape, "float64"))) for shape in curve]
            ax.loglog(at, [cell["passes"] if cell else np.nan for cell in cells], "o-", label=label, linewidth=1.5)
        ax.set_xlabel(AXES[axis])
        ax.set_xticks(at, list(map(str, at)))
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    ticks = [10, 30, 100, 300, 1000]
    axes[0].set_yticks(ticks, list(map(str, ticks)))
    axes[0].set_ylabel("passes over the data")
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(PICTURE, dpi=110)


def main(options=()):
    parser = argparse.ArgumentParser(prog="python -m benchmarks curves")
    parser.add_argument("--only", choices=("curves", "limits", "long", "page"), action="append")
    parser.add_argument("--together", type=int, default=1, help="processes at a time")
    parser.add_argument("--row", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args(list(options))
    if asked.row:
        print(json.dumps(measure(*asked.row)))
        return
    known = json.loads(STORE.read_text()) if asked.only and STORE.exists() else {}
    STORE.parent.mkdir(exist_ok=True)
    for part in asked.only or ("curves", "limits", "long"):
        rows = rows_of(part) if part != "page" else []
        with concurrent.futures.ThreadPoolExecutor(asked.together) as pool:
            for row, found in zip(rows, pool.map(apart, rows), strict=True):
                known[name(row)] = found
                STORE.write_text(json.dumps(known, indent=1))
    page(known)
    draw(known)
    print(f"written to {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
