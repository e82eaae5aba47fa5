"""Several targets that share their features, beside abess: `python -m benchmarks multi-target`; writes MULTI_TARGET.md.

    min (1/n)||XWᵀ + 1bᵀ - Y||²   subject to at most 20 features used by any of 5 targets

Each measurement is a process of its own, `python -m benchmarks.multi_target SOLVER PROBLEM SEED`, which prints a line
of JSON: R of the features that were chosen, refitted alike for everyone, seconds, and those of one Xᵀr.
"""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

PAGE = Path(__file__).with_name("MULTI_TARGET.md")
K, TARGETS, SEEDS, REPEATS = 20, 5, (0, 1), 3
PROBLEMS = {
    f"{n} x {p}, {words}": (n, p, correlation, snr)
    for n, p in ((1000, 2000), (1000, 5000))
    for words, correlation, snr in (
        ("independent", 0.0, 5.0),
        ("correlated", 0.7, 5.0),
        ("correlated, noisy", 0.7, 0.3),
        ("nearly collinear, noisy", 0.95, 0.3),
    )
}


def problem(name, seed):
    """X and Y: 20 features matter, each to all targets; each column is correlated with the next one."""
    n, p, correlation, snr = PROBLEMS[name]
    rng = np.random.default_rng([seed, list(PROBLEMS).index(name)])
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    W = rng.standard_normal((p, TARGETS)) * np.isin(np.arange(p), rng.choice(p, K, replace=False))[:, None]
    signal = X @ W
    return X, signal + rng.standard_normal(signal.shape) * np.sqrt(np.mean(signal**2) / snr)


class Ellzero:
    package, requires, python = "ellzero", (), None
    settings = "minimize(LeastSquares(X, Y, fit_intercept=True), Rows(20)): the default"

    def load(self):
        import ellzero

        self.ez = ellzero

    def run(self, X, Y):
        ez = self.ez
        risk = ez.risks.LeastSquares(X, Y, fit_intercept=True)
        return np.asarray(ez.minimize(risk, ez.sparsity.Rows(K)).x).reshape(TARGETS, -1)


class Abess:
    package, requires, python = "abess", ("abess",), None
    sizes, settings = [K], "MultiTaskRegression(support_size=20)"

    def load(self):
        from abess import MultiTaskRegression

        self.model = MultiTaskRegression

    def run(self, X, Y):
        return self.model(support_size=self.sizes, ic_type="aic", ic_coef=0.0).fit(X, Y).coef_.T


class AbessPath(Abess):
    sizes = list(range(1, K + 1))  # noqa: RUF012 - never changed
    settings = "the same along support_size = 1, ..., 20, each from the last one"


SOLVERS = {"ellzero": Ellzero, "abess": Abess, "abess path": AbessPath}


def measure(solver, name, seed):
    """One solver on one problem, three times after the first."""
    warnings.simplefilter("ignore")
    X, Y = problem(name, int(seed))
    runner = SOLVERS[solver]()
    runner.load()
    times, passes, r = [], [], np.ones(len(X))
    for _ in range(1 + REPEATS):
        started = time.process_time()
        W = runner.run(X, Y)
        times.append(time.process_time() - started)
        for _ in range(5):
            started = time.process_time()
            X.T @ r
            passes.append(time.process_time() - started)
    features = np.flatnonzero(np.abs(W).max(axis=0) > 1e-10 * np.abs(W).max())
    A, B = X[:, features] - X[:, features].mean(axis=0), Y - Y.mean(axis=0)
    rest = A @ np.linalg.lstsq(A, B, rcond=None)[0] - B
    row = {"R": float(np.sum(rest**2) / len(rest)), "features": features.size, "seconds": float(np.median(times[1:]))}
    print("RESULT " + json.dumps(row | {"pass": float(np.median(passes))}), flush=True)


def main(options=()):
    """Every solver on every problem, and the page."""
    from .peers.environments import environment, python_for

    names = [name for name in PROBLEMS if not options or any(word in name for word in options)]
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    found = {}
    for name in names:
        for solver, kind in SOLVERS.items():
            python, why = python_for(kind)
            if python is None:
                print(f"{solver}: {why}")
                continue
            for seed in SEEDS:
                command = [python, "-m", "benchmarks.multi_target", solver, name, str(seed)]
                done = subprocess.run(command, env=environment() | threads, capture_output=True, text=True)
                line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
                if line is None:
                    raise RuntimeError(f"{solver} on {name}: {done.stderr[-500:]}")
                found[name, solver, seed] = row = json.loads(line.removeprefix("RESULT "))
                print(f"{name:<38}{solver:<20}{seed:>2}  R {row['R']:.8g}  {row['seconds'] / row['pass']:>6.0f} passes")
    PAGE.write_text(page(found), encoding="utf-8")


def page(found):
    """The table: R above the best of all, the worst of the seeds, and the median of the passes."""
    solvers = list(dict.fromkeys(solver for _, solver, _ in found))
    lines = [
        "# Several targets",
        "",
        f"20 features for {TARGETS} targets, 20 matter; {len(SEEDS)} seeds: `python -m benchmarks multi-target`.",
        "R is that of the chosen features, refitted alike for everyone: the largest excess over the",
        "best of all solvers, of the seeds. A pass is the time of the processor for one `Xᵀr` in the same process,",
        "with one thread for everyone (a product with all 5 targets takes 2 to 4 of them); the median of the seeds.",
        "",
        *(f"- **{solver}**: {SOLVERS[solver].settings}" for solver in solvers),
        "",
        "| problem | " + " | ".join(f"{solver}: above | passes" for solver in solvers) + " |",
        "|---" * (1 + 2 * len(solvers)) + "|",
    ]
    for name in dict.fromkeys(name for name, _, _ in found):
        best = {seed: min(found[name, solver, seed]["R"] for solver in solvers) for seed in SEEDS}
        cells = []
        for solver in solvers:
            rows = [found[name, solver, seed] for seed in SEEDS]
            above = max(row["R"] / best[seed] - 1 for row, seed in zip(rows, SEEDS, strict=True))
            cells.append(f"{100 * above:.2g}% | {np.median([row['seconds'] / row['pass'] for row in rows]):.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measure(*sys.argv[1:])
