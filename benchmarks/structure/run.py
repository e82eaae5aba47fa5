"""The two commands: enumeration, and the peers with their page."""

import argparse
import collections
import json
import os
import platform
import subprocess
import sys
import warnings

from ..peers.environments import ROOT, environment, python_for

PAGE = ROOT / "benchmarks" / "STRUCTURE.md"
SEEDS = range(5)
HELD_OUT = range(20, 25)  # nobody looked at these before the thresholds of the solver were chosen; the harder problems
TIE, OPTIMAL = 1e-6, 1e-6  # relative; differences below it are rounding


def main(options=()):
    parser = argparse.ArgumentParser(description="Groups, quotas and rows beside enumeration, or beside the peers.")
    parser.add_argument("--cases", type=int, default=2000, help="small problems (default 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--peers", action="store_true", help="groups of issue size beside abess and skglm")
    chosen = parser.parse_args(options)
    if chosen.peers:
        peers()
    else:
        enumerate_all(range(chosen.first, chosen.first + chosen.cases))


def enumerate_all(numbers):
    """A table by family: how often "auto" finds what is best, and how far above it is otherwise."""
    from .cases import judge

    rows = collections.defaultdict(lambda: [0, 0, 0.0])
    for number in numbers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = judge(number)
        missed = found.above > OPTIMAL
        for name in (found.family, f"  {found.region}", "all"):
            row = rows[name]
            row[0], row[1], row[2] = row[0] + 1, row[1] + missed, max(row[2], found.above)
        if missed or found.wrong or found.above < -OPTIMAL:
            print(
                f"case {number}: {found.family}, {found.region}, {found.above:.2e} above the least {found.wrong}",
                flush=True,
            )
    print(f"{'family':<22}{'problems':>9}{'optimal':>9}{'share':>9}{'worst':>10}")
    for name, (count, missed, worst) in sorted(rows.items()):
        share = f"{1 - missed / count:.2%}"
        print(f"{name:<22}{count:>9}{count - missed:>9}{share:>9}{max(worst, 0.0):>10.1e}")
    return {name: 1 - missed / count for name, (count, missed, _) in rows.items()}


def peers():
    """Measure everyone on everything, and write the page."""
    from .peers import PROBLEMS, SOLVERS

    rows = []
    for name in PROBLEMS:
        for seed in seeds(name):
            for who, solver in SOLVERS.items():
                python, why = python_for(solver)
                row = {"problem": name, "seed": seed, "solver": who}
                if seed not in solver.seeds:
                    row["note"] = ""
                else:
                    row |= {"note": why} if python is None else _run(python, who, name, seed)
                rows.append(row)
                print(json.dumps(row), flush=True)
    PAGE.write_text(page(rows), encoding="utf-8")


def seeds(name):
    """Those of a problem: where groups are easily told apart there is nothing to hold out."""
    return [*SEEDS, *(HELD_OUT if name != "plain" else ())]


def _run(python, who, name, seed):
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [python, "-m", "benchmarks.structure.peers", who, name, str(seed)]
    done = subprocess.run(command, env=environment() | threads, capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1][7:]) if lines else {"note": (done.stderr.splitlines() or ["no answer"])[-1][:100]}


def page(rows):
    """STRUCTURE.md."""
    from .peers import GROUPS, PROBLEMS, SIZE, SOLVERS, K, N

    versions = ", ".join(sorted({f"{r['solver'].split()[0]} {r['version']}" for r in rows if "version" in r}))
    lines = [
        "# Groups, measured beside the peers",
        "",
        "`python -m benchmarks structure --peers`: "
        f"{os.cpu_count()} cores, one thread for everyone, Python {platform.python_version()}, {versions}.",
        f"{N} rows, {GROUPS * SIZE} columns in {GROUPS} groups, k = {K} groups, signal-to-noise 5.",
        "",
        "R is (1/n)||Xw - y||² of the support refitted. A *pass* is the time of one `Xᵀr` in the same process;",
        "seconds are those of the processor, the median of three calls after the first. Bold: no peer has a lower R,",
        "and no peer that reaches this R takes fewer passes. The last column: whether no peer takes fewer passes.",
        "Seeds that were held out were looked at by nobody before the thresholds of the solver were chosen.",
        "",
        *(f"- {who}: {solver.settings}" for who, solver in SOLVERS.items()),
        "",
    ]
    others = [who for who in SOLVERS if who != "ellzero"]
    for name, title in PROBLEMS.items():
        lines += [
            f"## {name}: {title}",
            "",
            "| seed | ellzero R | passes | " + " | ".join(f"{who} R | passes" for who in others),
        ]
        lines[-1] += " | fewest of all |"
        lines.append("| ---: " * (4 + 2 * len(others)) + "|")
        for seed in seeds(name):
            mine = {row["solver"]: row for row in rows if (row["problem"], row["seed"]) == (name, seed)}
            lines.append(_line(seed, mine, others))
        lines.append("")
    return "\n".join(lines)


def _line(seed, mine, others):
    ours, theirs = mine["ellzero"], [mine[who] for who in others if "R" in mine[who]]
    best = min(row["R"] for row in theirs)
    good = ours["R"] <= best * (1 + TIE)
    cost = {id(row): row["seconds"] / row["pass"] for row in (ours, *theirs)}
    reach = [cost[id(row)] for row in theirs if row["R"] <= ours["R"] * (1 + TIE)]
    quick = all(cost[id(ours)] < other for other in reach)
    cells = [
        f"{seed}, held out" if seed in HELD_OUT else str(seed),
        _bold(f"{ours['R']:.6g}", good),
        _bold(f"{cost[id(ours)]:.0f}", quick),
    ]
    for who in others:
        row = mine[who]
        cells += [f"{row['R']:.6g}", f"{cost[id(row)]:.0f}"] if "R" in row else [row["note"], ""]
    return "| " + " | ".join([*cells, "yes" if cost[id(ours)] < min(cost[id(r)] for r in theirs) else "no"]) + " |"


def _bold(text, so):
    return f"**{text}**" if so else text


if __name__ == "__main__":
    main(sys.argv[1:])
