"""The command line: answers that carry a promise, each held against every support.

    python -m benchmarks promises                     # 20,000 answers that carry a promise
    python -m benchmarks promises --answers 500
    python -m benchmarks promises --replay 1234       # one case, told in full

Case N is drawn from the integer N alone. The exit status is 1 if a promise was broken.
"""

import argparse
import collections
import multiprocessing
import os
import sys
import time

from .cases import answered, case, refuted

TOLERANCE = 1e-9  # of R: what the referee's own arithmetic may be off by


def judged(seed):
    """(seed, kind, k, k̄, by how much it is broken) of a case; k̄ = 0 where there is no promise."""
    import ellzero as ez

    problem = case(seed)
    result = answered(problem)
    if result is None:
        return seed, problem.kind, problem.k, -1, 0.0
    promise = ez.beats(problem.risk, result)
    broken = refuted(problem, result, promise) if promise else 0.0
    return seed, problem.kind, problem.k, promise.k_bar, broken


def main(options=()):
    """Run, print, and leave with what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks promises", description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=20_000, help="answers that carry a promise (20000)")
    parser.add_argument("--seed", type=int, default=0, help="the integer of the first case (0)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end then, with what was found (no limit)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--replay", type=int, help="run this case alone and tell all about it")
    args = parser.parse_args(list(options))
    if args.replay is not None:
        sys.exit(replay(args.replay))
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started, tables, broken, promised, cases = time.time(), {}, [], 0, 0
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for seed, kind, k, k_bar, excess in pool.imap(judged, range(args.seed, args.seed + 10**9), chunksize=20):
            cases += 1
            promised += k_bar > 0
            for name in kind:
                counter = tables.setdefault(name, collections.Counter())
                counter.update(answers=k_bar >= 0, promised=k_bar > 0, optimal=k_bar >= k, sum_k=k * (k_bar > 0))
                counter.update(sum_k_bar=min(k_bar, k) * (k_bar > 0))
            if excess > TOLERANCE:
                broken.append((seed, kind, k, k_bar, excess))
                print(f"--replay {seed}: {kind}, k = {k}, k̄ = {k_bar}, broken by {excess:.2g} of R", flush=True)
            if promised >= args.answers or time.time() - started > 60 * args.minutes:
                pool.terminate()
                break
            if cases % 2000 == 0:
                print(
                    f"{cases} cases, {promised} promises, {len(broken)} broken, {time.time() - started:.0f} s",
                    flush=True,
                )
    print(f"{'':<18}{'answers':>9}{'promised':>10}{'k̄ >= k':>9}{'mean k̄/k':>11}")
    for name, counter in tables.items():
        share = counter["sum_k_bar"] / max(counter["sum_k"], 1)
        print(f"{name:<18}{counter['answers']:>9}{counter['promised']:>10}{counter['optimal']:>8}{share:>10.2f}")
    told = f"{promised} promises of cases {args.seed} to {args.seed + cases - 1}, {len(broken)} broken"
    print(f"{told}, {time.time() - started:.0f} s on {args.jobs} processes", flush=True)
    if broken:
        sys.exit(1)


def replay(seed):
    """One case, told in full."""
    import ellzero as ez

    problem = case(seed)
    print(problem.kind, f"k = {problem.k}, keep = {problem.keep}, {problem.gamma!r}")
    result = answered(problem)
    print(result)
    promise = ez.beats(problem.risk, result)
    print(promise)
    excess = refuted(problem, result, promise)
    print(f"broken by {excess:.3g} of R; with one nonzero more {refuted(problem, result, promise, 1):.3g}")
    return int(excess > TOLERANCE)
