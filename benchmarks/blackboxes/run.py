"""Measure in parallel, one record a run, and write the page."""

import argparse
import itertools
import json
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from . import cases, solvers

RECORDS = Path(__file__).with_name("records.jsonl")
PARTS = ("inputs", "noise", "small", "zoro", "profile", "correlated")
FOUR = ("quadratic", "skew quartic", "max-s squared", "worst")
NGOPT = ("NGOpt", "NGOpt held to k")  # nevergrad's default
MUS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
STEPS = (0.125, 0.25, 0.5, 1.0)  # of ZORO, of which the best in hindsight counts


def tasks(parts, seeds, zoro):
    """(part, solver, parameters) of every run."""
    for part in parts:
        yield from ((part, *task) for task in _TASKS[part](seeds, zoro))


def _inputs_tasks(seeds, zoro):
    for share, seed, d, k in itertools.product((0.0, 0.01), range(seeds or 20), (200, 1000, 2000), (5, 10)):
        yield "ellzero", {"d": d, "k": k, "noise": share, "seed": seed}
    for share, seed, d in itertools.product((0.0, 0.01), range(seeds or 3), (200, 1000, 2000)):
        yield from ((solver, {"d": d, "k": 5, "noise": share, "seed": seed}) for solver in NGOPT)


def _noise_tasks(seeds, zoro):
    for queries, runs in ((1000, 20), (10_000, 5), (100_000, 5)):
        for mu, seed in itertools.product((None, *MUS), range(seeds or runs)):
            yield "ellzero", {"queries": queries, "mu": mu, "seed": seed}
        for solver, seed in itertools.product(NGOPT, range(seeds or min(runs, 5))):
            yield solver, {"queries": queries, "mu": "theirs", "seed": seed}


def _small_tasks(seeds, zoro):
    for name, queries, noise in itertools.product(("idle", "coupled", "cosh"), (40, 60, 100), (0.02, 0.1, 0.5)):
        about = {"name": name, "queries": queries, "noise": noise}
        for seed in range(seeds or 20):
            yield "ellzero", {**about, "seed": seed}
        for solver, seed in itertools.product(("CMA-ES held to k", "NGOpt held to k"), range(seeds or 5)):
            yield solver, {**about, "seed": seed}


def _zoro_tasks(seeds, zoro):
    functions = (("quadric", 20), ("quadric", 200), ("max-k", 20), ("max-k", 200))
    for seed, (name, s) in itertools.product(range(seeds or 3), functions):
        yield "ellzero", {"name": name, "s": s, "seed": seed}
        for step in STEPS if zoro else ():
            yield "ZORO", {"name": name, "s": s, "seed": seed, "step": step}


def _profile_tasks(seeds, zoro):
    for seed, name in itertools.product(range(seeds or 3), FOUR):
        for solver in ("ellzero", "CMA-ES", *(["ZORO-FA"] if zoro else [])):
            yield solver, {"name": name, "seed": seed}
        for step in (0.01, *STEPS) if zoro else ():
            yield "ZORO", {"name": name, "seed": seed, "step": step}


def _correlated_tasks(seeds, zoro):
    for queries, runs in ((1000, 5), (10_000, 5), (100_000, 3)):
        for solver, seed in itertools.product(("ellzero", *NGOPT), range(seeds or runs)):
            yield solver, {"queries": queries, "seed": seed}
    for solver, seed in itertools.product(("CMA-ES held to k", "CMA-ES"), range(seeds or 5)):
        yield solver, {"queries": 100_000, "seed": seed}


_TASKS = {
    "inputs": _inputs_tasks, "noise": _noise_tasks, "small": _small_tasks, "zoro": _zoro_tasks,
    "profile": _profile_tasks, "correlated": _correlated_tasks,
}  # fmt: skip


def measure(task):
    """One run: its record."""
    part, solver, about, folder = task
    started = time.process_time()
    told = globals()[f"_{part}"](solver, dict(about), folder)
    return {"part": part, "solver": solver, **about, **told, "cpu": round(time.process_time() - started, 2)}


def measure_at_home(task):
    """One run, in the environment of who runs."""
    part, solver, about, _ = task
    if solver.startswith(("CMA-ES", "NGOpt")):
        return solvers.in_their_environment("benchmarks.blackboxes.theirs", [part, solver, about, None])
    return measure(task)


def _inputs(solver, about, folder):
    case = cases.idle_inputs(about["d"], about["seed"], about["noise"])
    if solver != "ellzero":
        x = solvers.nevergrad(case, 20_000, about["seed"], _held(solver, about["k"]))
        largest = np.argsort(-np.abs(x))[: about["k"]]
        return {"left": case.truth(x) / case.truth(case.x0), "found": _common(case, largest), "spent": 20_000}
    trace, res = solvers.ours(case, about["k"], 20_000, about["seed"])
    return {"left": trace[-1][1] / case.truth(case.x0), "found": _common(case, res.support), "spent": trace[-1][0]}


def _common(case, support):
    return len(set(case.support.tolist()) & set(support.tolist()))


def _held(solver, k):
    return k if "held" in solver else None


def _noise(solver, about, folder):
    case = cases.simulator(about["seed"])
    if solver != "ellzero":
        return {"left": case.truth(solvers.nevergrad(case, about["queries"], about["seed"], _held(solver, 5)))}
    trace, res = solvers.ours(case, 5, about["queries"], about["seed"], about["mu"], "drop")
    noise = res.noise
    return {"left": trace[-1][1], "level": noise.level, "chosen": noise.mu, "spent": trace[-1][0]}


def _small(solver, about, folder):
    case = cases.small(about["name"], 50, about["seed"], about["noise"])
    start, queries, seed = case.truth(case.x0), about["queries"], about["seed"]
    if solver == "ellzero":
        trace, res = solvers.ours(case, 3, queries, seed)
        return {"left": trace[-1][1] / start, "told": not res.noise.resolved}
    if solver in NGOPT:
        return {"left": case.truth(solvers.nevergrad(case, queries, seed, 3)) / start}
    return {"left": case.truth(solvers.cma_answer(case, queries, seed, 3)) / start}


def _zoro(solver, about, folder):
    case = cases.zoro(about["name"].replace("max-k", "maxk"), about["s"], about["seed"])
    goal, budget = 1e-3 * case.truth(case.x0), 100_000
    if solver == "ellzero":
        trace, _ = solvers.ours(case, case.x0.size, budget, about["seed"], goal=goal)
    else:
        trace = solvers.zoro(folder, case, about["s"], about["step"], budget, about["seed"], goal)
    return {"needed": _needed(trace, goal)}


def _profile(solver, about, folder):
    case, budget, seed = cases.zoro_fa(about["name"], about["seed"]), 100_100, about["seed"]
    goal = case.lowest + 1e-3 * (case.truth(case.x0) - case.lowest)
    if solver == "ellzero":
        trace, _ = solvers.ours(case, case.x0.size, budget, seed, goal=goal)
    elif solver == "CMA-ES":
        trace = solvers.cma(case, budget, seed, goal=goal, spread=3.0)
    elif solver == "ZORO-FA":
        trace = solvers.zoro_fa(folder, case, budget, seed, goal)
    else:
        trace = solvers.zoro(folder, case, 30, about["step"], budget, seed, goal)
    return {"needed": _needed(trace, goal)}


def _correlated(solver, about, folder):
    case, seed, queries = cases.correlated(about["seed"]), about["seed"], about["queries"]
    start = case.truth(case.x0)
    if solver == "ellzero":
        trace, res = solvers.ours(case, 5, queries, seed)
        return {"left": trace[-1][1] / start, "found": _common(case, res.support), "spent": trace[-1][0]}
    if solver in NGOPT:
        return {"left": case.truth(solvers.nevergrad(case, queries, seed, _held(solver, 5))) / start}
    trace = solvers.cma(case, queries, seed, k=_held(solver, 5))
    return {"at": {str(q): min(v for n, v in trace if n <= q + 20) / start for q in (1000, 10_000, 100_000)}}


def _needed(trace, goal):
    return next((spent for spent, value in trace if value <= goal), None)


def main(options=()):
    """Measure what is asked for, keep the records, write the page."""
    from . import __doc__ as about

    parser = argparse.ArgumentParser(prog="python -m benchmarks blackboxes", description=about.splitlines()[0])
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), metavar="A,B", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument("--solvers", type=lambda text: text.split(","), metavar="A,B", help="these alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, help="runs of each, instead of 20 (3 or 5 where they take long)")
    parser.add_argument("--zoro", type=Path, help="a checkout of github.com/caesarcai/ZORO")
    parser.add_argument("--records", type=Path, default=RECORDS, help="what is known of other parts, and added to")
    parser.add_argument("--no-page", action="store_true")
    args = parser.parse_args(list(options))
    if args.zoro is None:
        print("without --zoro nothing is measured of it anew")
    todo = [(*task, args.zoro) for task in tasks(args.only, args.seeds, args.zoro is not None)]
    todo = [task for task in todo if args.solvers is None or task[1] in args.solvers]
    records, store = [], args.records
    if store.exists():
        records = [json.loads(line) for line in store.read_text().splitlines()]
    again = {(part, solver) for part, solver, *_ in todo}
    told = next((r for r in records if r["part"] == "about"), {"part": "about", "solver": ""})
    records = [r for r in records if r["part"] != "about" and (r["part"], r["solver"]) not in again]
    records.insert(0, told | (_about(args.zoro) if todo else {}))
    store.write_text("".join(json.dumps(record) + "\n" for record in records))
    with ProcessPoolExecutor(args.jobs) as pool:
        for n, record in enumerate(pool.map(measure_at_home, todo), 1):
            records.append(record)
            with store.open("a") as file:  # at once: it is there even if the rest is not waited for
                file.write(json.dumps(record) + "\n")
            if n % 20 == 0:
                print(f"{n} of {len(todo)} runs", flush=True)
    if not args.no_page:
        from .page import write

        write(records)


def _about(zoro):
    """Versions of the peers; ZORO's as long as it is at hand."""
    told = {"versions": solvers.in_their_environment("benchmarks.blackboxes.theirs", "versions")}
    if zoro is not None:
        log = ["git", "-C", zoro, "log", "-1", "--format=commit %h of %cs"]
        told["zoro"] = "a checkout without history"
        if (zoro / ".git").exists():
            told["zoro"] = subprocess.run(log, capture_output=True, text=True).stdout.strip()
    return told
