"""Matrices of low rank from few measurements, beside the nuclear norm.

    OMP_NUM_THREADS=1 python -m benchmarks low-rank [--seed 0] [--limit 120] [--only completion]

200 x 150 of rank 5, four measurements for each of its 5(200 + 150 - 5) degrees of freedom:

1. completion: single entries, noise of a tenth of their size
2. outliers: the same with every tenth entry spoilt, Huber's loss, and a cap on the spectral norm
3. sensing: random Gaussian combinations of all entries, noise of a tenth of their size; a small one, 40 x 30 of rank
   2, follows for SCS

Beside "auto" stand the nuclear norm's min loss(W) + λ||W||_*: soft-impute (Mazumder, Hastie & Tibshirani 2010), its
accelerated form (FISTA), both along a path of λ from large to small, each starting from the last, and SCS through
cvxpy, which is given the best λ, a limit of time and one of memory. The λ with the smallest error against the truth is
taken, and time counts up to there: more than anybody could know. Writes benchmarks/LOW_RANK.md.
"""

import argparse
import multiprocessing
import os
import platform
import resource
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

import ellzero as ez

PAGE = Path(__file__).with_name("LOW_RANK.md")
KINDS = ("completion", "outliers", "sensing", "small sensing")
TOL = 1e-4  # relative change at which everybody stops
MEMORY = 12 * 2**30  # of SCS
DELTA = 0.3  # of Huber's loss, in units of the noise-free entries' size


class Problem(NamedTuple):
    kind: str
    X: object
    y: np.ndarray
    W: np.ndarray  # the truth

    @property
    def rank(self):
        return np.linalg.matrix_rank(self.W)

    @property
    def cap(self):
        return float(np.linalg.norm(self.W, 2))

    def error(self, W):
        return float(np.linalg.norm(W - self.W) / np.linalg.norm(self.W))


def make(kind, seed, shape=(200, 150), rank=5, factor=4):
    rng = np.random.default_rng(seed)
    shape, rank = ((40, 30), 2) if kind == "small sensing" else (shape, rank)
    (m, n), size = shape, factor * rank * (sum(shape) - rank)
    W = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(rank)  # entries of size 1
    if "sensing" in kind:
        X = rng.standard_normal((size, m * n), dtype=np.float32)
        y = X @ W.ravel().astype(np.float32)
        return Problem(kind, X, y + (0.1 * np.std(y) * rng.standard_normal(size)).astype(np.float32), W)
    seen = rng.choice(m * n, size, replace=False)
    y = W.ravel()[seen] + 0.1 * rng.standard_normal(size)
    if kind == "outliers":
        bad = rng.random(size) < 0.1
        y[bad] += 5 * rng.standard_normal(bad.sum())
    return Problem(kind, sparse.csr_array((np.ones(size), (np.arange(size), seen)), shape=(size, m * n)), y, W)


# ---- ours ----


def ours(problem):
    shape, outliers = problem.W.shape, problem.kind == "outliers"
    risk = (
        ez.risks.Huber(problem.X, problem.y, delta=DELTA) if outliers else ez.risks.LeastSquares(problem.X, problem.y)
    )
    gamma = ez.sets.Spectral(ez.sets.LinfBall(problem.cap), shape) if outliers else None
    result = ez.minimize(risk, ez.sparsity.Rank(problem.rank, shape), gamma, tol=TOL)
    passes = result.n_gradients / len(problem.y)
    return result.x.reshape(shape), f"{passes:.0f} gradients, {result.n_values} values"


# ---- the nuclear norm ----


def gradient(problem, W):
    """Of half the sum of squares, or of half of Huber's loss."""
    residual = problem.X @ W.ravel().astype(problem.X.dtype) - problem.y
    if problem.kind == "outliers":
        residual = np.clip(residual, -DELTA, DELTA)
    return (problem.X.T @ residual).reshape(W.shape).astype(float)


def shrunk(V, threshold, cap):
    U, s, Vt = np.linalg.svd(V, full_matrices=False)
    return (U * np.minimum(np.maximum(s - threshold, 0.0), cap)) @ Vt


def nuclear_path(problem, accelerated, L, cap=np.inf, n_values=12, rounds=300):
    """The W of smallest error along the path, its λ, the seconds until then and the gradients."""
    W = np.zeros(problem.W.shape)
    start, gradients = time.process_time(), 0
    largest = np.linalg.norm(gradient(problem, W), 2)
    best = None
    for strength in np.geomspace(0.5 * largest, 2e-3 * largest, n_values):
        ahead, t = W, 1.0
        for _ in range(rounds):
            following = shrunk(ahead - gradient(problem, ahead) / L, strength / L, cap)
            gradients += 1
            moved = np.linalg.norm(following - W) <= TOL * np.linalg.norm(following)
            later = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
            ahead = following + accelerated * (t - 1) / later * (following - W)
            W, t = following, later
            if moved:
                break
        error = problem.error(W)
        if best is None or error < best[1]:
            best = W, error, strength, time.process_time() - start, gradients
        elif error > 1.5 * best[1]:
            break  # it only becomes worse
    W, _, strength, seconds, gradients = best
    return W, strength, seconds, f"{gradients} gradients and SVDs"


def by_scs(problem, strength, limit):
    """The same problem for one λ by cvxpy and SCS, in a process that is ended at the limit."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_scs, args=(problem, strength, limit, there))
    child.start()
    there.close()
    W, seconds, told = None, None, f"no answer in {limit:g} s"
    try:
        if here.poll(limit):
            W, seconds, told = here.recv()
    except EOFError:
        told = f"no answer: ended by a signal after {time.monotonic() - start:.0f} s"
    child.kill()
    child.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return W, seconds or after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, told


def _scs(problem, strength, limit, answer):
    import cvxpy as cp

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    W = cp.Variable(problem.W.shape)
    residual = problem.X @ cp.vec(W, order="C") - problem.y
    loss = 0.5 * (cp.sum(cp.huber(residual, DELTA)) if problem.kind == "outliers" else cp.sum_squares(residual))
    limits = [cp.sigma_max(W) <= problem.cap] if problem.kind == "outliers" else []
    asked = cp.Problem(cp.Minimize(loss + strength * cp.normNuc(W)), limits)
    start = time.process_time()
    try:
        asked.solve(solver="SCS", eps=1e-4, time_limit_secs=limit)
        told = f"{asked.status}, {asked.solver_stats.num_iters} iterations"
    except MemoryError:
        told = f"no answer with {MEMORY // 2**30} GB of memory"
    except cp.error.SolverError as error:
        told = f"no answer ({error})"
    answer.send((W.value, time.process_time() - start, told))


# ---- the table ----


def smoothness(problem):
    """||X||² by power iterations; 1 for single entries."""
    if "sensing" not in problem.kind:
        return 1.0
    v = np.random.default_rng(0).standard_normal(problem.X.shape[1]).astype(np.float32)
    for _ in range(8):
        v = problem.X.T @ (problem.X @ (v / np.linalg.norm(v)))
    return 1.05 * float(np.linalg.norm(v))


def row(problem, name, W, seconds, told, first):
    error = "-" if W is None else f"{problem.error(W):.4f}"
    ratio = f"{seconds / first:.1f}"
    print(f"{problem.kind:<15}{name:<24}{error:>8}{seconds:>10.2f} s{ratio:>8} x  {told}", flush=True)
    return f"| {problem.kind} | {name} | {error} | {seconds:.2f} | {ratio} | {told} |"


def compare(problem, limit):
    ours(problem)  # imports, and the first touch of the data
    start = time.process_time()
    W, told = ours(problem)
    first = time.process_time() - start
    lines = [row(problem, 'ellzero, "auto"', W, first, told, first)]
    L, cap = smoothness(problem), problem.cap if problem.kind == "outliers" else np.inf
    for name, accelerated in (("soft-impute", False), ("FISTA, nuclear norm", True)):
        W, strength, seconds, told = nuclear_path(problem, accelerated, L, cap)
        lines.append(row(problem, name, W, seconds, told, first))
    if limit > 0:
        lines.append(row(problem, "SCS, nuclear norm", *by_scs(problem, strength, limit), first))
    return lines


def main(options=()):
    parser = argparse.ArgumentParser(prog="low-rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for SCS; 0 leaves it out")
    parser.add_argument("--only", choices=KINDS)
    asked = parser.parse_args(list(options))
    lines = []
    for kind in [asked.only] if asked.only else KINDS:
        lines += compare(make(kind, asked.seed), asked.limit)
    if not asked.only:
        PAGE.write_text(page(lines, asked), encoding="utf-8")
        print(f"written: {PAGE}")


def page(lines, asked):
    packages = ", ".join(f"{name} {version(name)}" for name in ("ellzero", "numpy", "scipy", "cvxpy", "scs"))
    table = "\n".join(lines)
    return f"""# Matrices of low rank, beside the nuclear norm

Written by `python -m benchmarks low-rank --seed {asked.seed} --limit {asked.limit:g}`: {packages}, Python
{platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end. Seconds are CPU
seconds of this process (`OMP_NUM_THREADS={os.environ.get("OMP_NUM_THREADS", "not set")}`), so that others on the
machine do not count.

200 x 150 matrices of rank 5 from 6900 measurements, four for each degree of freedom: single entries ("completion"), the
same with every tenth spoilt ("outliers"; Huber's loss, spectral norm at most that of the truth), Gaussian combinations
("sensing", single precision; a smaller one, 40 x 30 of rank 2, follows, where SCS comes to an end). The error is
||W - truth|| / ||truth||. The nuclear norm gets the best λ of a path, judged by the truth, and the time up to there.
Soft-impute is its proximal gradient step, whatever the measurements; FISTA accelerates it. SCS gets that λ for nothing,
at most {asked.limit:g} s by the clock, and {MEMORY // 2**30} GB of memory. All others stop at relative changes of
{TOL:g}.

| problem | method | error | CPU seconds | times ours | cost |
|---|---|---:|---:|---:|---|
{table}
"""
