"""The command line: worker processes, counts by risk and by family, and the first seeds of every error.

    python -m benchmarks fuzz                                    # 100,000 cases
    python -m benchmarks fuzz --cases 2000 --only collinear      # a family, a risk, a set or a way to ask
    python -m benchmarks fuzz --cases 2000 --only Groups         # or PerGroup, Rows: cases from 1,000,000 on
    python -m benchmarks fuzz --replay 1234                      # one case, told in full

Case N is drawn from the integer N alone; --seed is the first one. The exit status is 1 if there was any error.
"""

import argparse
import collections
import itertools
import multiprocessing
import multiprocessing.connection
import os
import sys
import time

from .cases import FAMILIES, FURTHER, RISKS, header
from .referee import ERRORS, Verdict, case, examine
from .sparsities import FIRST, SPARSITIES

CHUNK = 50
SHOWN = 6  # seeds of every error


def main(options=()):
    """Run, print, and leave with what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the integer of the first case (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--only", default="", help="cases whose family, risk, set, mode or sparsity has this name")
    parser.add_argument("--patience", type=float, default=10.0, help="CPU seconds before a case counts as a hang (10)")
    parser.add_argument("--replay", type=int, help="run this case alone and tell all about it")
    args = parser.parse_args(list(options))
    if args.replay is not None:
        sys.exit(replay(args.replay, args.patience))
    started = time.time()
    tally = Tally()
    try:
        for verdict in verdicts(seeds(args), args):
            tally.add(verdict)
            for kind, words in verdict.flags:  # at once: a run takes long, and may be cut off
                print(f"--replay {verdict.header.seed}: {kind}, {words}", flush=True)
            if (count := tally.total["cases"]) % 1000 == 0:
                print(f"{count} cases, {tally.n_errors} errors, {time.time() - started:.0f} s", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {tally.total['cases']} cases")
    print(tally.report(), flush=True)
    print(f"{time.time() - started:.0f} s on {args.jobs} processes", flush=True)
    if tally.n_errors:
        sys.exit(1)


def seeds(args):
    """The integers of the cases that were asked for."""
    if args.only in SPARSITIES:
        args.seed = max(args.seed, FIRST)
    fitting = (n for n in itertools.count(args.seed) if not args.only or args.only in vars(header(n)).values())
    return itertools.islice(fitting, args.cases)


def replay(seed, patience):
    """One case, told in full."""
    problem = case(seed)
    print(problem.header)
    print(f"k = {problem.asked!r}, {problem.gamma!r}, {type(problem.risk).__name__}, {vars(problem.risk)}")
    verdict = examine(seed, patience)
    print(f"proved optimal: {verdict.proved}, missed: {verdict.missed}, {verdict.seconds:.2f} s")
    for kind, words in verdict.flags:
        print(f"{kind}: {ERRORS[kind]}: {words}")
    return 1 if verdict.flags else 0


# ---- processes ----


def work(pipe, patience):
    """Take chunks of seeds from the pipe, and give back a verdict for each."""
    import ellzero  # noqa: F401  (before the first clock starts)

    while (chunk := pipe.recv()) is not None:
        for seed in chunk:
            pipe.send(judged(seed, patience))
        pipe.send(None)


def judged(seed, patience):
    """The verdict; where the referee itself fails, its error."""
    try:
        return examine(seed, patience)
    except Exception as error:
        return Verdict(header(seed), [("crash", f"the referee: {type(error).__name__}: {error}"[:200])])


class Worker:
    """A process, and the seeds that it has still to answer."""

    def __init__(self, context, patience):
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=work, args=(end, patience), daemon=True)
        self.process.start()
        end.close()
        self.left, self.heard = [], time.time()

    def give(self, chunk):
        self.left, self.heard = list(chunk), time.time()
        self.pipe.send(self.left)


def verdicts(numbers, args):
    """Those of all the seeds, as they come. A process that does not answer at all is ended and replaced."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    chunks = iter(lambda: list(itertools.islice(numbers, CHUNK)), [])
    workers = {}

    def begin(chunk):
        worker = Worker(context, args.patience)
        worker.give(chunk)
        workers[worker.pipe] = worker

    for chunk in itertools.islice(chunks, args.jobs):
        begin(chunk)
    while workers:
        for pipe in multiprocessing.connection.wait(workers, timeout=5.0):
            worker = workers[pipe]
            try:
                answer = pipe.recv()
            except EOFError:
                yield from replace(workers, worker, begin, "crash", "the process died")
                continue
            worker.heard = time.time()
            if answer is not None:
                worker.left.remove(answer.header.seed)
                yield answer
            elif chunk := next(chunks, None):
                worker.give(chunk)
            else:
                pipe.send(None)
                del workers[pipe]
        for worker in list(workers.values()):
            if time.time() - worker.heard > 10 * args.patience + 60:
                yield from replace(workers, worker, begin, "hang", "the process did not answer and was ended")


def replace(workers, worker, begin, kind, words):
    """A verdict on the case that a process stopped at, and a new process for its other cases."""
    del workers[worker.pipe]
    worker.process.kill()
    first, *rest = worker.left
    if rest:
        begin(rest)
    yield Verdict(header(first), [(kind, words)])


# ---- counts ----


class Tally:
    """Counts by risk and by family."""

    def __init__(self):
        self.by = {name: collections.Counter() for name in (*{**RISKS, **FURTHER}, *FAMILIES, *SPARSITIES)}
        self.total = collections.Counter()
        self.found = collections.defaultdict(list)

    def add(self, verdict):
        """One more."""
        head = verdict.header
        counts = collections.Counter({kind for kind, _ in verdict.flags})
        counts.update(
            cases=1,
            proved=verdict.proved,
            enumerated=verdict.enumerated,
            missed=verdict.missed,
            milliseconds=round(1000 * verdict.seconds),
        )
        for name in (head.risk, head.family, head.counted):
            if name in self.by:
                self.by[name].update(counts)
        self.total.update(counts)
        for kind, words in dict(verdict.flags).items():
            self.found[kind].append((head, words))
        if verdict.missed:
            self.found["missed"].append((head, ""))

    @property
    def n_errors(self):
        """Cases with an error of any kind, counted once a kind."""
        return sum(self.total[kind] for kind in ERRORS)

    def report(self):
        """The tables, and where to look."""
        columns = ["cases", "proved", *ERRORS, "enumerated", "missed", "ms a case"]
        lines = ["", " | ".join(["".ljust(14), *columns])]
        for name, counter in [*self.by.items(), ("all", self.total)]:
            if counter["cases"]:
                cells = {**counter, "ms a case": f"{counter['milliseconds'] / counter['cases']:.0f}"}
                lines.append(" | ".join([name.ljust(14), *(str(cells.get(c, 0)).rjust(len(c)) for c in columns)]))
        lines.append('\nproved: called optimal. missed: more than 1% above the optimum, of "enumerated"; no error.\n')
        for kind in (*ERRORS, "missed"):
            found = self.found[kind]
            if found:
                lines.append(f"{kind} ({ERRORS.get(kind, 'more than 1% above the enumerated optimum')}): {len(found)}")
                lines += [
                    f"  --replay {h.seed}: {h.risk}, {h.gamma}, {h.family}, {h.mode}, {h.counted}. {w}"
                    for h, w in found[:SHOWN]
                ]
        return "\n".join(lines)
