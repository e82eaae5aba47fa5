"""The gap that is proved after 1, 10 and 60 s, beside SCIP, okridge and l0bnb.

    python -m benchmarks certificates                     # everything: 15 minutes, 45 at most on an idle core
    python -m benchmarks certificates --rows 1,4 --seconds 1,10 --solvers ellzero,okridge
    python -m benchmarks certificates --report            # the page again, from the last measurements

    gap = (the best value that anyone found - the solver's own lower bound) / the best value that anyone found

Seconds are those of one processor core: everyone has one thread, and what else runs on the machine hardly matters.
Every run has a process of its own, peers in environments of their own (`certificates_peers.py` has their settings).
All rows with nothing else write benchmarks/CERTIFICATES.md and its picture; `--write` merges a part into the last ones.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from .certificates_page import write
from .peers.environments import ROOT, environment, python_for

DATA = ROOT.parent / "shared" / "data"
STORE = ROOT / "out" / "certificates.json"
LIMITS = (1.0, 10.0, 60.0)
ENVIRONMENTS = {
    "ellzero": SimpleNamespace(package="ellzero", requires=(), python=None),
    "SCIP": SimpleNamespace(package="pyscipopt", requires=("pyscipopt",), python=None),
    "okridge": SimpleNamespace(package="okridge", requires=("okridge", "requests"), python=None),
    "l0bnb": SimpleNamespace(package="l0bnb", requires=("l0bnb", "numpy<2"), python=None),  # it says np.Inf
}


@dataclass(frozen=True)
class Instance:
    """Gaussian X with AR(1) correlation along its columns, alternating ±1 spread evenly, noise by SNR; or a market."""

    row: str
    n: int = 0
    d: int = 0
    k: int = 15
    ar: float = 0.0
    snr: float = 5.0
    ridge: float = 0.0
    seed: int = 0
    box: float = np.inf
    market: str = ""
    cap: float = np.inf

    @property
    def name(self):
        """Rows with several seeds tell them."""
        return f"{self.row}, seed {self.seed}" if self.row == "4" else self.row

    @property
    def title(self):
        if self.market:
            return f"{MARKETS[self.market]} index tracking, k={self.k}, at most {self.cap:g} gross per sector"
        box = f", |w_i| <= {self.box:g}" if np.isfinite(self.box) else ""
        return f"n={self.n} d={self.d} k={self.k}, AR(1) {self.ar:g}, SNR {self.snr:g}, ridge {self.ridge:g}{box}"

    def data(self):
        """X, y, groups (empty for none); None where a market's files are not here."""
        if self.market:
            from ellzero.datasets import read_prices

            folder = DATA / f"{self.market}_2021_2022"
            if not folder.is_dir():
                return None
            train, _ = read_prices(folder / "prices.csv.gz", sectors=folder / "sectors.csv").split()
            return train.returns, train.index_returns, np.unique(train.sectors, return_inverse=True)[1]
        rng = np.random.default_rng(self.seed)
        X = rng.standard_normal((self.n, self.d))
        for j in range(1, self.d):
            X[:, j] = self.ar * X[:, j - 1] + np.sqrt(1 - self.ar**2) * X[:, j]
        w = np.zeros(self.d)
        w[np.linspace(0, self.d - 1, self.k).astype(int)] = np.where(np.arange(self.k) % 2, -1.0, 1.0)
        signal = X @ w
        return X, signal + np.sqrt(signal.var() / self.snr) * rng.standard_normal(self.n), np.empty(0, int)


MARKETS = {"hsi": "Hang Seng", "sp500": "S&P 500"}
INSTANCES = [
    Instance("1", 500, 200, 10, ar=0.5, ridge=0.2),
    Instance("1b", 500, 200, 10, ar=0.5, ridge=0.02),
    Instance("2", 500, 1000, 10, ridge=0.2),
    Instance("2b", 500, 1000, 10, ridge=0.2, box=1.5),
    Instance("3", 200, 1000, 10, ridge=0.2),
    Instance("4", 100, 50, 8, ar=0.8, snr=2.0),
    Instance("4", 100, 50, 8, ar=0.8, snr=2.0, seed=1),
    Instance("5", market="hsi", cap=0.2),
    Instance("6", market="sp500", cap=0.1),
]


def main(options=()):
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks certificates", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="rows with commas, such as 1,4; all by default")
    parser.add_argument(
        "--seconds", default=",".join(f"{t:g}" for t in LIMITS), help="limits, smallest first (1,10,60)"
    )
    parser.add_argument("--solvers", default=",".join(ENVIRONMENTS), help="of " + ", ".join(ENVIRONMENTS))
    parser.add_argument("--write", action="store_true", help="put these measurements among the last ones in the page")
    parser.add_argument("--report", action="store_true", help="write the page from the last measurements")
    args = parser.parse_args(list(options))
    if args.report:
        write(json.loads(STORE.read_text()), INSTANCES)
        return
    rows, solvers = args.rows.split(",") if args.rows else [i.row for i in INSTANCES], args.solvers.split(",")
    limits = [float(text) for text in args.seconds.split(",")]
    whole = not args.rows and set(solvers) == set(ENVIRONMENTS) and tuple(limits) == LIMITS
    store = {"about": {}, "instances": {}}
    if args.write and not whole and STORE.exists():
        store = json.loads(STORE.read_text())
    started, earlier = time.perf_counter(), store["about"].get("minutes", 0.0)
    load = store["about"].get("load", os.getloadavg())[0]
    for instance in (i for i in INSTANCES if i.row in rows):
        data = instance.data()
        if data is None:
            print(f"{instance.name}: skipped, no folder {instance.market}_2021_2022 among the shared data", flush=True)
            continue
        print(f"\n{instance.name}: {instance.title} (load {os.getloadavg()[0]:.1f})", flush=True)
        before = store["instances"].get(instance.name, {}).get("runs", {})
        store["instances"][instance.name] = measure(instance, *data, solvers, limits, before)
        store["about"] = {
            "date": time.strftime("%Y-%m-%d"), "limits": limits, "load": [load, os.getloadavg()[0]],
            "minutes": earlier + (time.perf_counter() - started) / 60, "cores": os.cpu_count(),
            "again": [] if whole else sorted({*store["about"].get("again", []), *solvers}),
        }  # fmt: skip
        if whole or args.write:
            STORE.parent.mkdir(exist_ok=True)
            STORE.write_text(json.dumps(store))
    if (whole or args.write) and store["instances"]:
        write(store, INSTANCES)


def measure(instance, X, y, groups, solvers, limits, before):
    """Every solver on one instance; ours first, because its answer starts the others."""
    import ellzero as ez

    risk = ez.risks.LeastSquares(X, y, ridge=instance.ridge)
    gamma = constraint(instance, groups)
    runs, start = dict(before), None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        for solver in sorted(solvers, key=list(ENVIRONMENTS).index):
            why = cannot(solver, instance)
            python, broken = (None, None) if why else python_for(ENVIRONMENTS[solver])
            if python is None:
                runs[solver] = {"note": why or f"did not install: {broken}"}
                print(f"  {solver}: {runs[solver]['note']}", flush=True)
                continue
            if solver != "ellzero" and start is None:
                start = best_start(runs, instance.k, risk, gamma)
            l0, note = penalty(risk, instance.k, start) if solver == "l0bnb" else (0.0, "")
            np.savez(
                path, X=X, y=y, groups=groups, k=instance.k, ridge=instance.ridge, box=instance.box, cap=instance.cap,
                l0=l0, start=np.zeros(X.shape[1]) if start is None else start,
            )  # fmt: skip
            each = run_each if solver == "ellzero" else run_longest
            runs[solver] = measured = each(solver, python, path, limits)
            measured["note"] = "; ".join(filter(None, [measured.get("note", ""), note]))
            judge(measured, risk, gamma, instance.k)
            print(f"  {solver}: {told(measured)}", flush=True)
    return {"runs": runs, "scales": scales(instance, risk, gamma, groups)}


def constraint(instance, groups):
    from ellzero import sets

    if instance.market:
        return sets.GroupWise(sets.L1Ball(instance.cap), groups=groups)
    return sets.Box(-instance.box, instance.box) if np.isfinite(instance.box) else sets.Everywhere()


def cannot(solver, instance):
    if solver in ("okridge", "l0bnb") and instance.market:
        return "cannot state constraints on groups"
    if solver == "okridge" and np.isfinite(instance.box):
        return "cannot state bounds of the coefficients"
    return ""


def best_start(runs, k, risk, gamma):
    """Our incumbent: SCIP and l0bnb are given it, okridge takes none."""
    import ellzero as ez

    if "support" not in runs.get("ellzero", {}):
        return ez.minimize(risk, k=k, constraint=gamma).x
    x = np.zeros(risk.n_features)
    x[runs["ellzero"]["support"]] = runs["ellzero"]["values"]
    return x


def penalty(risk, k, start):
    """λ₀ of n·R/2 + λ₀||w||_0 for which k nonzeros are the best number, as far as answers for k±3 tell; and a note."""
    import ellzero as ez

    half, started = risk.n_terms / 2, time.process_time()
    best = {j: half * ez.minimize(risk, k=j).fun for j in range(max(1, k - 3), k + 4) if j != k}
    value, seconds = half * risk.value(start), time.process_time() - started
    low = max((value - f) / (j - k) for j, f in best.items() if j > k)
    high = min((f - value) / (k - j) for j, f in best.items() if j < k)
    note = f"λ₀ = {(low + high) / 2:.4g}, between {low:.3g} and {high:.3g}, found in {seconds:.2g} s"
    if low > high:
        note = f"λ₀ = {(low + high) / 2:.4g}, although no λ₀ makes {k} nonzeros the best number"
    return (low + high) / 2, note


def run_longest(solver, python, path, limits):
    """One limit: what peers know after a time does not depend on how much more they are given."""
    return steady(solver, python, path, max(limits))


def run_each(solver, python, path, limits):
    """A run for each limit, until one ends with a proof: what a user is given after that time."""
    done = []
    for limit in limits:
        done.append(steady(solver, python, path, limit))
        if done[-1].get("optimal"):
            break
    return done[-1] | {"runs": [[r["limit"], r["history"]] for r in done]}


def steady(solver, python, path, limit):
    """One run, or the middle one of three where they are short."""
    runs = [run(solver, python, path, limit)]
    if runs[0].get("optimal") and runs[0]["seconds"] < 2:
        runs += [run(solver, python, path, limit) for _ in range(2)]
    return sorted(runs, key=lambda r: r.get("seconds", np.inf))[len(runs) // 2]


def run(solver, python, path, limit):
    """One process; what it told of its progress, and its answer."""
    command = [python, "-m", "benchmarks.certificates_peers", solver, str(path), str(limit)]
    threads = {name: "1" for name in environment() if name.endswith("_NUM_THREADS")}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment() | threads, capture_output=True, text=True, timeout=20 * limit + 600
        )
        out, code = done.stdout, done.returncode
        error = (done.stderr.strip().splitlines() or [f"ended with code {code}"])[-1][:160]
    except subprocess.TimeoutExpired as stopped:
        out, error = (stopped.stdout or b"").decode(), "did not stop"
    lines = out.splitlines()
    history = [json.loads(line.removeprefix("PROGRESS ")) for line in lines if line.startswith("PROGRESS ")]
    answer = [json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT ")]
    return {"limit": limit, "history": history} | (answer[-1] if answer else {"note": error})


def judge(measured, risk, gamma, k):
    """R of the answer, by our own function, refitted if it is not quite feasible or optimal on its support."""
    if "support" not in measured:
        return
    x = np.zeros(risk.n_features)
    x[measured["support"]] = measured["values"]
    measured["violation"] = float(gamma.violation(x))
    measured["R"] = float(risk.value(x))
    if len(measured["support"]) <= k:
        from ellzero.solver.exchanges import refit

        measured["refit"] = float(refit(risk, gamma, np.array(measured["support"]), x).value)


def scales(instance, risk, gamma, groups):
    """What limits the bounds: the flattest direction of R, and the best value without any limit of k."""
    import ellzero as ez

    if not instance.market:
        return {}
    X = risk.design.X
    eigenvalues = np.linalg.eigvalsh(2 * X.T @ X / len(X))
    dense = ez.minimize(risk, k=risk.n_features, constraint=gamma, max_iter=20000, tol=1e-10)
    return {
        "n": len(X), "d": X.shape[1], "groups": int(groups.max()) + 1, "flattest": float(eigenvalues[0]),
        "average": float(eigenvalues.mean()), "dense": float(dense.fun), "dense nonzeros": int(dense.support.size),
    }  # fmt: skip


def told(measured):
    """A line for the screen."""
    if not measured["history"]:
        return measured.get("note") or "no bound"
    seconds, value, bound = measured["history"][-1]
    proved = "optimal" if measured.get("optimal") else "bound"
    return (
        f"value {value:.8g}, {proved} {bound:.8g}, own gap {1 - bound / value:.3%}, {seconds:.2f} s, {measured['note']}"
    )
