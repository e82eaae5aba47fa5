"""What the foundations cost beside the work that cannot be avoided.

    python -m benchmarks foundations

1. two_step_projection at d = 1,000,000, k = 1000, 11 groups against np.argpartition(abs(w), -k) alone (at most 3)
2. microseconds an iteration of `minimize` spends beyond its two matrix products, 100 x 200 (at most 60)
3. `import ellzero` against `import numpy, scipy.linalg` (at most 1.5)
"""

import subprocess
import sys
import time

import numpy as np

import ellzero as ez


def median_seconds(*calls, repeat=31):
    """Median seconds of each call, taken in turns so that noise of the machine hits all alike."""
    times = [[] for _ in calls]
    for _ in range(repeat):
        for call, seconds in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [float(np.median(seconds)) for seconds in times]


def projection_ratio():
    d, k = 1_000_000, 1000
    rng = np.random.default_rng(0)
    w = rng.standard_normal(d)
    gamma = ez.sets.GroupWise(ez.sets.L1Ball(5.0), groups=rng.integers(0, 11, d))
    ours, selection = median_seconds(
        lambda: ez.two_step_projection(w, k, gamma), lambda: np.argpartition(np.abs(w), -k)
    )
    print(f"two-step projection, d=1e6, k=1000, 11 groups: {1e3 * ours:.1f} ms, "
          f"{ours / selection:.2f} x argpartition alone (at most 3)")  # fmt: skip


def loop_overhead():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 200)), rng.standard_normal(100)
    risk = ez.risks.LeastSquares(X, y)
    w, r, n_iter = rng.standard_normal(200), rng.standard_normal(100), 2000
    method = ez.preset("IHT", step=0.5 / risk.smoothness.value)

    def products():
        for _ in range(n_iter):
            X @ w
            X.T @ r

    loop, bare = median_seconds(
        lambda: ez.minimize(risk, k=10, method=method, max_iter=n_iter, tol=0), products, repeat=7
    )
    print(f"minimize, 100 x 200 least squares: {1e6 * (loop - bare) / n_iter:.0f} µs an iteration beyond its "
          f"two products, which take {1e6 * bare / n_iter:.0f} µs (at most 60)")  # fmt: skip


def import_ratio():
    def run(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    ours, numpy_scipy, empty = median_seconds(
        run("import ellzero"), run("import numpy, scipy.linalg"), run("pass"), repeat=15
    )
    print(f"import ellzero: {(ours - empty) / (numpy_scipy - empty):.2f} x import numpy, scipy.linalg (at most 1.5)")


def main():
    projection_ratio()
    loop_overhead()
    import_ratio()
