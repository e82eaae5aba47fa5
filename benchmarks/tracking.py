"""Index tracking beside skfolio's BenchmarkTracker with SCIP, on the same data and under the same constraints.

    python -m benchmarks tracking                    # all markets, 60 s for SCIP; writes benchmarks/TRACKING.md
    python -m benchmarks tracking --time-limit 600 --markets sp500 --no-write

At most k names, w >= 0, Σw = 1, every sector at most `cap`. skfolio minimises the variance of the active returns, and
so does IndexTracker(error="variance"); its default minimises their mean square, which also counts a steady difference.
Tracking errors are standard deviations of the active returns times sqrt(252). Each market is split in time, 80% to
fit. skfolio runs in an environment of its own, which is made when it is first needed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
PAGE = ROOT / "benchmarks" / "TRACKING.md"
PEER = SimpleNamespace(package="skfolio", requires=("skfolio", "pyscipopt"), python=None)

# name: (title, k, cap of a sector)
MARKETS = {
    "sp500": ("S&P 500, 402 days, 501 stocks, 11 sectors", 15, 0.1),
    "csi300": ("CSI 300, 388 days, 288 stocks, 11 sectors", 15, 0.15),
    "hsi": ("Hang Seng, 394 days, 79 stocks, 4 sectors", 15, 0.4),
    "simulated": ("make_market(): 400 days, 200 names, 10 sectors", 15, 0.15),
}
FILES = {"sp500": "sp500_2021_2022", "csi300": "csi300_2021_2022", "hsi": "hsi_2021_2022"}
OURS = {
    "IndexTracker, variance": {"error": "variance"},
    "IndexTracker, variance, 1 start": {"error": "variance", "n_starts": 1},
    "IndexTracker, default (squares)": {},
}


def main(options=()):
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tracking", description=__doc__.splitlines()[0])
    parser.add_argument("--markets", default=",".join(MARKETS), help="names with commas: " + ", ".join(MARKETS))
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for SCIP (60)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    args = parser.parse_args(list(options))
    text = []
    for name in args.markets.split(","):
        market = read(name)
        if market is None:
            print(f"{name}: skipped, no folder {FILES[name]} among the shared data", flush=True)
            continue
        title, k, cap = MARKETS[name]
        part = [f"## {title}", f"k = {k}, at most {cap:.0%} in a sector.", table(rows(market, k, cap, args.time_limit))]
        text += part
        print("\n\n".join(part), flush=True)
    if text and not args.no_write:
        PAGE.write_text("\n\n".join([head(args.time_limit), *text]) + "\n", encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")


def read(name):
    """The market, or None where its files are not here."""
    from ellzero.datasets import make_market, read_prices

    if name == "simulated":
        return make_market()
    folder = DATA / FILES[name]
    return read_prices(folder / "prices.csv.gz", sectors=folder / "sectors.csv") if folder.is_dir() else None


def rows(market, k, cap, limit):
    """A row for every way to solve it."""
    import ellzero as ez

    train, test = market.split()
    found = {}
    for name, parameters in OURS.items():
        started = time.perf_counter()
        tracker = ez.IndexTracker(k=k, max_sector_weight=cap, **parameters)
        tracker.fit(train.returns, train.index_returns, groups=train.sectors)
        found[name] = tracker.weights_, time.perf_counter() - started, ""
    found[f"skfolio, SCIP, {limit:g} s"] = peer(train, k, cap, limit)
    return [row(name, *answer, train, test, k, cap) for name, answer in found.items()]


def peer(train, k, cap, limit):
    """Weights, seconds and a note from skfolio, in a process of its own."""
    from .peers.environments import environment, python_for

    python, broken = python_for(PEER)
    if python is None:
        return None, np.nan, f"did not install: {broken}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, X=train.returns, y=train.index_returns, sectors=train.sectors, k=k, cap=cap, limit=limit)
        command = [python, "-m", "benchmarks.tracking", str(path)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=5 * limit + 300
        )
    told = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not told:
        return None, np.nan, (done.stderr.strip().splitlines() or ["no answer"])[-1][:120]
    result = json.loads(told[-1].removeprefix("RESULT "))
    return np.array(result["weights"]), result["seconds"], result["version"]


def worker(path):
    """What runs in skfolio's environment."""
    from importlib.metadata import version

    import pandas as pd
    from skfolio.optimization import BenchmarkTracker

    warnings.simplefilter("ignore")
    with np.load(path) as problem:
        X, y, sectors = problem["X"], problem["y"], [f"sector {s}" for s in problem["sectors"]]
        k, cap, limit = int(problem["k"]), float(problem["cap"]), float(problem["limit"])
    # names without characters that its constraint language reads as operators
    safe = {s: f"S{i}" for i, s in enumerate(sorted(set(sectors)))}
    names = [f"A{i}" for i in range(X.shape[1])]
    started = time.perf_counter()
    tracker = BenchmarkTracker(
        cardinality=k,
        groups={name: [safe[s]] for name, s in zip(names, sectors, strict=True)},
        linear_constraints=[f"{s} <= {cap}" for s in safe.values()],
        solver="SCIP",
        solver_params={"scip_params": {"limits/time": limit}},
    )
    tracker.fit(pd.DataFrame(X, columns=names), pd.Series(y))
    seconds = time.perf_counter() - started
    told = f"skfolio {version('skfolio')}, PySCIPOpt {version('pyscipopt')}"
    print("RESULT " + json.dumps({"weights": tracker.weights_.tolist(), "seconds": seconds, "version": told}))


def row(name, w, seconds, note, train, test, k, cap):
    """What is worth knowing of one answer."""
    if w is None:
        return {"solver": name, "note": note}
    gross = [np.abs(w[train.sectors == s]).sum() for s in np.unique(train.sectors)]
    excess = max(abs(w.sum() - 1), max(gross) / cap - 1, -w.min(), 0.0)
    errors = [np.std(m.returns @ w - m.index_returns, ddof=1) * 252**0.5 for m in (train, test)]
    squares = float(np.mean((train.returns @ w - train.index_returns) ** 2)) ** 0.5 * 252**0.5
    return {
        "solver": name, "in sample": errors[0], "root mean square": squares, "out of sample": errors[1], "s": seconds,
        "names": int(np.count_nonzero(np.abs(w) > 1e-6)), "violation": excess, "note": note,
    }  # fmt: skip


def table(measured):
    """The rows in Markdown."""
    formats = {
        "in sample": "{:.3%}",
        "root mean square": "{:.3%}",
        "out of sample": "{:.2%}",
        "s": "{:.1f}",
        "violation": "{:.0e}",
    }
    columns = ["solver", "in sample", "root mean square", "out of sample", "s", "names", "violation"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for r in measured:
        cells = [formats.get(c, "{}").format(r[c]) if c in r else "" for c in columns]
        if "in sample" not in r:
            cells[1] = r["note"]
        lines.append("| " + " | ".join(cells) + " |")
    ours, theirs = measured[0]["in sample"], measured[-1].get("in sample")
    if theirs is not None:
        which = "lower than" if ours < theirs else "NOT lower than"
        lines += ["", f"In sample ours is {which} skfolio's ({ours / theirs - 1:+.1%}). {measured[-1]['note']}."]
    return "\n".join(lines)


def head(limit):
    return f"""# Index tracking beside skfolio with SCIP

Written by `python -m benchmarks tracking`, {time.strftime("%Y-%m-%d")}, {os.cpu_count()} cores, load average at the end
{os.getloadavg()[0]:.1f}. Same data, same constraints: at most k names, no short positions, fully invested, a cap on
every sector. skfolio's `BenchmarkTracker` states them as a mixed-integer programme, and SCIP has {limit:g} s for it;
`IndexTracker` uses no such solver.

*In sample* and *out of sample* are annualised standard deviations of the active returns (sqrt(252) times the daily one)
on the first 80% of the days and on the rest; *root mean square* is in sample too, and counts the mean of the active
returns as well. skfolio minimises the first of these, as `error="variance"` does; the default of IndexTracker minimises
the root mean square. *Violation* is the largest excess over a constraint: of Σw = 1, of a sector's cap (relative), of
w >= 0. *Names* counts weights above 1e-6."""


if __name__ == "__main__":
    worker(sys.argv[1])
