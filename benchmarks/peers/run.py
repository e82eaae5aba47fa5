"""The command line: which problems, which solvers, and a process for each measurement."""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from .datasets import DATASETS, Missing, save
from .environments import ROOT, environment, python_for
from .report import table, write
from .solvers import SAME, SOLVERS

STORE = ROOT / "out" / "peers.json"


def main(options=()):
    """Measure, print, and write RESULTS.md and the picture when everything was measured."""
    args = parse(options)
    if args.report:
        write(json.loads(STORE.read_text()))
        return
    solvers = [s for s in SOLVERS if chosen(s.name, args.solvers)]
    about = {"load": os.getloadavg(), "date": time.strftime("%Y-%m-%d"), "limit": args.time_limit}
    rows = []
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    for dataset in DATASETS:
        seeds = args.seeds if args.seeds and len(dataset.seeds) > 1 else dataset.seeds
        for seed in seeds if chosen(dataset.name, args.problems) else ():
            try:
                objective = dataset.get_data(seed)
            except Missing as error:
                print(f"\n{dataset.name}: skipped, {error}", flush=True)
                continue
            several = f", seed {seed}" if len(dataset.seeds) > 1 else ""
            print(f"\n{dataset.name}: {dataset.title}{several} (load {os.getloadavg()[0]:.1f})", flush=True)
            mine = measure_all(solvers, objective, args, first_seed=seed == seeds[0])
            mine = [row | {"problem": dataset.name, "seed": seed, "k": objective.k} for row in mine]
            print(table(mine, markdown=False), flush=True)
            rows += mine
            if args.all or args.write:
                keep(rows, about | {"load at the end": os.getloadavg()}, fresh=args.all)
    if args.all or args.write:
        write(json.loads(STORE.read_text()))


def keep(rows, about, fresh):
    """Store the rows, beside those of earlier runs unless `fresh`."""
    STORE.parent.mkdir(exist_ok=True)
    old = [] if fresh or not STORE.exists() else json.loads(STORE.read_text())["rows"]
    new = {key(row): row for row in rows}
    merged = [new.pop(key(row), row) for row in old] + [row for row in rows if key(row) in new]
    order = {solver.name: i for i, solver in enumerate(SOLVERS)}
    places = {dataset.name: i for i, dataset in enumerate(DATASETS)}
    merged.sort(key=lambda row: (places[row["problem"]], row["seed"], order.get(row["solver"], 99)))
    STORE.write_text(json.dumps({"about": about, "rows": merged}))


def key(row):
    return row["problem"], row["seed"], row["solver"]


def parse(options):
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    names = {"type": lambda text: [part.strip() for part in text.split(",")], "metavar": "A,B"}
    parser.add_argument("--problems", **names, help="names, or beginnings such as P6; all by default")
    parser.add_argument("--solvers", **names, help="names, or beginnings such as skscope; all by default")
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], metavar="0,1")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one call (60)")
    parser.add_argument("--memory-limit", type=float, default=12.0, help="gigabytes of address space (12)")
    parser.add_argument("--all", action="store_true", help="write RESULTS.md anew; the default without a choice")
    parser.add_argument("--write", action="store_true", help="put these measurements among the last ones in RESULTS.md")
    parser.add_argument("--report", action="store_true", help="write RESULTS.md from the last measurements")
    args = parser.parse_args(list(options))
    args.all |= not (args.problems or args.solvers or args.seeds or args.write)
    return args


def chosen(name, names):
    if not names:
        return True
    lower = name.lower()
    return any(lower == n.lower() for n in names) or any(
        lower.startswith(n.lower() + separator) for n in names for separator in "- ,"
    )


def measure_all(solvers, objective, args, first_seed):
    """A row for each solver, in a folder that holds the data."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        save(objective, Path(folder))
        for solver in solvers:
            why = solver.skip(objective)
            if why == SAME or (solver.exact and not first_seed):
                continue
            python, broken = (None, None) if why else python_for(solver)
            if broken is not None:
                why = f"did not install: {broken}"
            row = {"solver": solver.name, "ours": not solver.requires}
            rows.append(row | ({"note": why} if why else measure(solver, objective, python, folder, args)))
            print(f"  {solver.name}: {summary(rows[-1])}", flush=True)
    return rows


def measure(solver, objective, python, folder, args):
    """Run the worker, and evaluate what it answers."""
    command = [
        python,
        "-m",
        "benchmarks.peers.worker",
        solver.name,
        folder,
        str(args.time_limit),
        str(args.memory_limit),
    ]
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=6 * args.time_limit + 60)  # the worker's own limit is one call's
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
    told = [line for line in out.splitlines() if line.startswith("RESULT ")]
    if not told:
        return {"note": complaint(child.returncode, err, args)}
    result = json.loads(told[-1].removeprefix("RESULT "))
    w = np.zeros(objective.X.shape[1])
    w[result.pop("support")] = result.pop("values")
    refitted = objective.refit(w) if np.count_nonzero(w) <= objective.k else w
    seconds = float(np.median(result["times"]))
    return result | {
        "R": objective.value(w),
        "refit": min(objective.value(refitted), objective.value(w))
        if objective.violation(w) <= 1e-9
        else objective.value(refitted),
        "nonzeros": int(np.count_nonzero(w)),
        "violation": objective.violation(w),
        "f1": objective.f1(w),
        "seconds": seconds,
        "passes": seconds / result["pass"],
        "note": "" if np.count_nonzero(w) <= objective.k else "more than k nonzeros",
    }


def complaint(code, err, args):
    if code == -signal.SIGALRM:
        return f"no answer in {args.time_limit:g} s"
    if any(word in err for word in ("MemoryError", "bad_alloc", "out of memory", "Cannot allocate")):
        return f"needs more than {args.memory_limit:g} GB"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return f"failed: {lines[-1][:160] if lines else f'exit status {code}'}"


def summary(row):
    if "R" not in row:
        return row["note"]
    return f"R {row['R']:.7g}, refit {row['refit']:.7g}, {row['passes']:.0f} passes, {row['seconds']:.3g} s"
