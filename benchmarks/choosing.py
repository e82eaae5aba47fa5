"""k, ridge and rule, chosen on real data: `python -m benchmarks choosing`.

Seconds: cross-validation on all rows, ours and scikit-learn's own with an l1 penalty, in turns in one process, one
thread. Scores: the best mean score of our cross-validation beside that of another checkout (`--against ../before`: its
figures are kept until it is measured again). Beside others: eight real data sets, the same outer folds for everybody,
each method and fold in a process of its own, which is ended where it exceeds `--limit`; what a method chooses it
chooses inside the training rows. Writes CHOOSING.md from choosing.json, which keeps what was measured before.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from functools import partial

from .choosing_data import DATASETS, GOALS, Missing, load
from .choosing_methods import METHODS, l1, ours
from .choosing_page import page
from .peers.environments import ROOT, environment, python_for

TARGET = ROOT / "benchmarks" / "CHOOSING.md"
STORE = ROOT / "benchmarks" / "choosing.json"
PARTS = ("seconds", "scores", "others")


def main(options=()):
    """Measure what is asked for, print, and write CHOOSING.md from all that was measured last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks choosing", description=__doc__)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="none: write the page only")
    parser.add_argument("--data", nargs="+", choices=[*DATASETS, *GOALS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--against", help="a checkout whose cross-validation is measured for the scores")
    parser.add_argument("--limit", type=int, default=300, help="seconds of the processor, for a method and fold (300)")
    args = parser.parse_args(list(options))
    stored = json.loads(STORE.read_text()) if STORE.exists() else {part: {} for part in (*PARTS, "before")}
    for part, key, command, source in plan(args):
        told = measured(command, source, args.limit)
        about = {"date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
        stored[part][key] = told | about
        print(part, key, {name: value for name, value in stored[part][key].items() if name != "each"}, flush=True)
        STORE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    TARGET.write_text(page(stored), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


def plan(args):
    """What is to be measured: its part and key in the store, the command, and the checkout."""
    here = str(ROOT)

    def wanted(names):
        return [name for name in names if args.data is None or name in args.data]

    if args.against:
        yield from (("before", name, ["scores", name], args.against) for name in wanted(DATASETS | GOALS))
        return
    if "seconds" in args.parts:
        yield from (("seconds", name, ["seconds", name], here) for name in wanted(GOALS))
    if "scores" in args.parts:
        yield from (("scores", name, ["scores", name], here) for name in wanted(DATASETS) if name not in GOALS)
    if "others" in args.parts:
        for name in wanted(DATASETS):
            yield from (("others", f"{name}: {method}", ["others", name, method], here) for method in args.methods)


def measured(command, source, limit):
    """What a process of its own has found, or why not."""
    peer = METHODS[command[2]].peer if len(command) > 2 else None
    python, broken = sys.executable, None
    if peer is not None and importlib.util.find_spec(peer.package) is None:
        python, broken = python_for(peer)
    if broken is not None:
        return {"note": broken}
    env = environment() | {name: "1" for name in environment() if name.endswith("_NUM_THREADS")}
    env["PYTHONPATH"] = os.pathsep.join([os.path.join(os.path.abspath(source), "src"), str(ROOT)])
    done = subprocess.run(
        [python, "-m", "benchmarks.choosing", *command],
        env=env, cwd=ROOT, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )  # fmt: skip
    if done.returncode == -signal.SIGXCPU:
        return {"note": f"more than {limit} s"}
    if done.returncode:
        return {"note": (done.stderr.strip().splitlines() or ["failed"])[-1][:160]}
    return json.loads(done.stdout.splitlines()[-1])


# ------------------------------------------------------------------------------------------------- in the process


def seconds(name):
    """Processor and wall seconds of both, in turns, as often as they fit into twenty seconds, thrice at most."""
    X, y, classify, scale = load(name)
    X = scaled(X) if scale else X
    l1(False).fit([[0.0], [1.0], [2.0], [3.0], [5.0]], [0.0, 1.0, 2.0, 3.0, 4.0])  # loads what is loaded lazily
    ours()(False).fit([[0.0], [1.0], [2.0], [3.0], [5.0], [7.0]], [0.0, 1.0, 2.0, 3.0, 4.0, 9.0])
    turns, began = [], time.process_time()
    while not turns or (len(turns) < 3 and time.process_time() - began < 20):
        turns.append([timed(make(classify), X, y) for make in (ours(), l1)])
    found = scored(turns[-1][0][2])
    for kind, column in zip(("ellzero", "l1"), zip(*turns, strict=True), strict=True):
        spent = sorted(cpu for cpu, _, _ in column)
        found |= {f"{kind}_cpu": spent[len(spent) // 2], f"{kind}_wall": min(wall for _, wall, _ in column)}
    return found | {"cpu": found["ellzero_cpu"], "turns": len(turns)}


def scores(name):
    """The default cross-validation on all rows."""
    X, y, classify, scale = load(name)
    cpu, wall, model = timed(ours()(classify), scaled(X) if scale else X, y)
    return scored(model) | {"cpu": cpu, "wall": wall}


def scored(model):
    """The chosen k, the best mean score, and its standard error."""
    import numpy as np

    found = model.cv_results_
    best = int(np.nanargmax(found["mean_test_score"]))
    folds = np.array([found[key][best] for key in found if key.startswith("split")])
    error = float(folds.std(ddof=1) / np.sqrt(folds.size))
    return {"k": int(model.k_), "best": float(folds.mean()), "error": error}


def others(name, method):
    """Every outer fold: the mean error and its standard error, the median size and processor seconds."""
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold

    X, y, classify, scale = load(name)
    some = slice(None, None, max(1, len(y) // 200))
    full = np.argsort(-np.asarray(abs(X).sum(axis=0)).ravel())[:10]
    METHODS[method].make(classify).fit(X[some][:, full], y[some])  # loads and compiles what is done lazily
    folds = (StratifiedKFold if classify else KFold)(DATASETS[name], shuffle=True, random_state=0)
    found = []
    for train, test in folds.split(X, y):
        found.append(in_time(partial(outer, method, X, y, classify, scale, train, test)))
        if "note" in found[-1]:
            return found[-1]
    errors = np.concatenate([told["errors"] for told in found])
    middle = {key: float(np.median([told[key] for told in found])) for key in ("size", "cpu")}
    return {"error": float(errors.mean()), "se": float(errors.std(ddof=1) / np.sqrt(len(y))), **middle}


def in_time(work):
    """What a child finds within the limit, which it inherits for itself; or a note that it was ended."""
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe(duplex=False)

    def run():
        try:
            other.send(work())
        except Exception as error:
            other.send({"note": f"{type(error).__name__}: {error}"[:160]})

    child = context.Process(target=run)
    child.start()
    other.close()
    try:
        return mine.recv()
    except EOFError:
        child.join()
        limit = resource.getrlimit(resource.RLIMIT_CPU)[0]
        ended = child.exitcode == -signal.SIGXCPU
        return {"note": f"more than {limit} s" if ended else f"ended with code {child.exitcode}"}


def outer(method, X, y, classify, scale, train, test):
    """One outer fold: the errors of the rows left out, how many features are used, and processor seconds."""
    import numpy as np
    from sklearn.preprocessing import StandardScaler

    seen, left = X[train], X[test]
    if scale:
        units = StandardScaler().fit(seen)
        seen, left = units.transform(seen), units.transform(left)
    cpu, _, model = timed(METHODS[method].make(classify), seen, y[train])
    said = np.asarray(model.predict(left)).ravel()
    errors = said != y[test] if classify else (said - y[test]) ** 2 / y.var()
    size = int((METHODS[method].coefficients(model, X.shape[1]) != 0).any(axis=0).sum())
    return {"errors": errors, "size": size, "cpu": cpu}


def timed(model, X, y):
    """Processor seconds, wall seconds, and the fitted model."""
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(X, y)
    return time.process_time() - cpu, time.perf_counter() - wall, model


def scaled(X):
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(X)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about convergence, of several packages
    try:
        print(json.dumps({"seconds": seconds, "scores": scores, "others": others}[sys.argv[1]](*sys.argv[2:])))
    except Missing as error:
        print(json.dumps({"note": str(error)}))
