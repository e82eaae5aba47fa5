"""This tree beside another checkout, old and new in turns in one run, so that both meet the same machine.

    python -m benchmarks interleaved --against ../before
    python -m benchmarks interleaved --against ../before --problems P1,P3 --repeats 3

The problems are those of `benchmarks peers`, the method is "auto". Each run has a process of its own, on one thread
unless OMP_NUM_THREADS says otherwise; imports are not timed, reading the data into a risk is. Printed: the median
seconds of both, their ratio and that of CPU seconds, ∇R_i calls and R; marked: both ratios above 1.10, more gradients,
a higher R. The exit status is 1 if anything is marked.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .peers.datasets import DATASETS, Missing, load, save
from .peers.run import chosen

ROOT = Path(__file__).parents[1]
PROBLEMS = ["P1", "P1b", "P1c", "P2", "P3", "P5", "P6", "sp500"]
SLOWER = 1.10


def main(options=()):
    """Measure and print."""
    options = list(options)
    if options[:1] == ["--one"]:
        one(Path(options[1]))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks interleaved", description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, required=True, help="a checkout of the other version")
    parser.add_argument("--problems", type=lambda text: text.split(","), default=PROBLEMS, metavar="A,B")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each, of which the median counts (5)")
    args = parser.parse_args(options)
    other = args.against.resolve() / "src"
    if not (other / "ellzero").is_dir():
        parser.error(f"--against must be a checkout of ellzero, got {args.against}, which has no src/ellzero")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    heads = (
        ("old s", 9),
        ("new s", 9),
        ("ratio", 7),
        ("CPU", 7),
        ("old ∇", 12),
        ("new ∇", 12),
        ("old R", 15),
        ("new R", 15),
    )
    print("problem".ljust(12) + "".join(head.rjust(width) for head, width in heads))
    marked = False
    for dataset in DATASETS:
        for seed in dataset.seeds if chosen(dataset.name, args.problems) else ():
            try:
                objective = dataset.get_data(seed)
            except Missing as error:
                print(f"{dataset.name}: skipped, {error}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                save(objective, Path(folder))
                old, new = compare(other, Path(folder), args.repeats)
            name = f"{dataset.name}/{seed}" if len(dataset.seeds) > 1 else dataset.name
            marked |= row(name, old, new)
    if marked:
        sys.exit(1)


def row(name, old, new):
    """Print a row; whether anything in it is marked."""
    a, b = (statistics.median(run["seconds"] for run in runs) for runs in (old, new))
    cpu = statistics.median(run["cpu"] for run in new) / statistics.median(run["cpu"] for run in old)
    one, two, marks = old[0], new[0], []
    if min(b / a, cpu) > SLOWER:  # a busy machine lengthens seconds, but not the work
        marks.append("slower")
    if two["gradients"] > one["gradients"]:
        marks.append("more gradients")
    if two["R"] > one["R"] + 1e-9 * abs(one["R"]):
        marks.append("higher R")
    print(
        f"{name:<12}{a:>9.3f}{b:>9.3f}{b / a:>7.2f}{cpu:>7.2f}{one['gradients']:>12}{two['gradients']:>12}"
        f"{one['R']:>15.9g}{two['R']:>15.9g}  {', '.join(marks)}",
        flush=True,
    )
    return bool(marks)


def compare(other, folder, repeats):
    """The runs of the other code and of this, in turns; which goes first alternates."""
    runs = {other: [], ROOT / "src": []}
    for turn in range(repeats):
        for source in list(runs)[:: 1 if turn % 2 == 0 else -1]:
            runs[source].append(measure(source, folder))
    return runs[other], runs[ROOT / "src"]


def measure(source, folder):
    """One run in a process of its own, with the library of `source` and the benchmarks of this tree."""
    path = os.pathsep.join([str(source), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.interleaved", "--one", str(folder)]
    done = subprocess.run(
        command,
        env={"OMP_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the run with {source} failed: {done.stderr.strip()[-500:]}")
    out = json.loads(done.stdout.splitlines()[-1])
    if not Path(out["file"]).is_relative_to(source):
        raise RuntimeError(f"asked for the library in {source}, but {out['file']} was imported")
    return out


def one(folder):
    """Solve the problem in a folder, and print what it took."""
    import ellzero as ez

    o = load(folder)
    ez.minimize(ez.risks.LeastSquares([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), 1)  # loads what is loaded lazily
    times = []
    while not times or (len(times) < 5 and sum(wall for wall, _ in times) < 1.0):
        started, cpu = time.perf_counter(), time.process_time()
        result = solve(ez, o)
        times.append((time.perf_counter() - started, time.process_time() - cpu))
    wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    out = {"seconds": wall, "cpu": cpu, "gradients": int(result.n_gradients), "R": result.fun, "file": ez.__file__}
    print(json.dumps(out))


def solve(ez, o):
    """The answer of "auto"."""
    gamma = None
    if o.nonnegative:
        gamma = ez.sets.NonNegative()
    elif o.groups is not None:
        gamma = ez.sets.GroupWise(ez.sets.L1Ball(o.cap), groups=o.groups)
    risk = ez.risks.Logistic(o.X, o.y) if o.kind == "logistic" else ez.risks.LeastSquares(o.X, o.y)
    return ez.minimize(risk, o.k, gamma)


if __name__ == "__main__":
    main(sys.argv[1:])
