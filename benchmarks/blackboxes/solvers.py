"""Who minimises: `ellzero` with its defaults, and the peers. Each tells (queries, truth) at its iterates.

CMA-ES and nevergrad live in an environment of their own, in which `in_their_environment` runs what is theirs.
"""

import importlib
import importlib.metadata
import json
import math
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np

import ellzero as ez

from ..peers import environments

THEIRS = SimpleNamespace(package="nevergrad", requires=["nevergrad", "cma"], python=None)


def ours(case, k, budget, seed, mu=None, on_failure="raise", goal=-math.inf):
    """The trace [(queries, truth at the best point so far)], and the result."""
    trace = []

    def follow(intermediate_result):
        spent = intermediate_result.n_values + intermediate_result.n_monitor
        trace.append((spent, case.truth(intermediate_result.x)))
        if trace[-1][1] <= goal:
            raise StopIteration

    risk = ez.risks.BlackBox(case.asked, case.x0.size, on_failure=on_failure)
    x0 = case.x0 if case.x0.any() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = ez.minimize(
            risk, k, method=ez.preset("auto", mu=mu), x0=x0, max_queries=budget, rng=seed, callback=follow
        )
    spent = res.n_values + res.n_monitor
    assert spent <= budget
    return [*trace, (spent, case.truth(res.x))], res


def zoro(folder, case, s, step, budget, seed, goal):
    """ZORO's own code, its defaults apart from s, which it is told, and the step; two values a probe, as it does."""
    optimizers = _module(folder, "optimizers")
    np.random.seed(seed)  # noqa: NPY002 - what it draws from
    n = case.x0.size
    parameters = {
        "step_size": step, "delta": 1e-4, "max_cosamp_iter": 10, "cosamp_tol": 0.5, "sparsity": s,
        "num_samples": int(np.ceil(np.log(n) * s)),
    }  # fmt: skip
    solver, trace = optimizers.ZORO(case.x0.copy(), case.asked, parameters, function_budget=budget), []
    while not trace or (trace[-1][0] < budget and goal < trace[-1][1] < 1e12):
        spent, _, ended = solver.step()
        trace.append((spent, case.truth(solver.x)))
        if ended:
            break
    return trace


def zoro_fa(folder, case, budget, seed, goal, sigma0=1.0, theta=0.25, epsilon=0.01):
    """ZORO-FA as its paper states it (its code is MATLAB), with ZORO's recovery and the numbers of its scripts."""
    cosamp = _module(folder, "Cosamp").cosamp
    rng = np.random.default_rng(seed)
    n, x, f = case.x0.size, case.x0.copy(), case.asked
    Z, s0 = rng.choice([-1.0, 1.0], (n, n)), math.ceil(0.01 * n)
    spent, trace, here = 1, [], f(case.x0)
    rounds = math.ceil(math.log(theta / 4) / math.log(0.5))
    while spent < budget and (not trace or trace[-1][1] > goal):
        j = 0
        while spent < budget:
            sigma, m = 2.0**j * sigma0, math.ceil(2**j * s0 * math.log2(n))
            if m <= n:
                h = max(theta * epsilon / (n * 11 * sigma), 1e-10)
                slopes = np.array([(f(x + h * z) - here) / h for z in Z[:m]])
                gradient = cosamp(Z[:m] / math.sqrt(m), slopes / math.sqrt(m), 2**j * s0, 1e-3, rounds)
                spent += m + 1
            else:
                h = 2 * theta * epsilon / (sigma * math.sqrt(n))
                gradient = np.array([(f(x + h * e) - here) / h for e in np.eye(n)])
                spent += n + 1
            there = f(x - gradient / sigma)
            spent += 1
            if here - there >= epsilon**2 / (2 * sigma):
                x, here = x - gradient / sigma, there
                break
            j += 1
        trace.append((spent, case.truth(x)))
    return trace


def cma(case, budget, seed, k=None, goal=-math.inf, spread=0.3):
    """CMA-ES with a diagonal covariance, as its authors advise for 1000 variables; with k, cut before each query."""
    trace, best = [], math.inf
    for asked, v, _ in _searched(case, budget, seed, k, spread):
        best = min(best, case.truth(v))
        trace.append((asked, best))
        if best <= goal:
            break
    return trace


def cma_answer(case, budget, seed, k=None, spread=0.3):
    """The point with the lowest value that CMA-ES was told: under noise it knows no truth."""
    return min(_searched(case, budget, seed, k, spread), key=lambda told: told[2])[1]


def _searched(case, budget, seed, k, spread):
    """(queries so far, point, value) of all queries of CMA-ES."""
    import cma as library

    asked = 0
    options = {"seed": seed + 1, "verbose": -9, "CMA_diagonal": True, "maxfevals": budget, "tolflatfitness": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = library.CMAEvolutionStrategy(case.x0, spread, options)
        while asked < budget and not search.stop():
            points, values = search.ask(), []
            for x in points:
                v = _cut(x, k)
                values.append(case.asked(v))
                asked += 1
                if asked <= budget:
                    yield asked, v, values[-1]
            search.tell(points, values)


def _cut(x, k):
    """The k largest entries."""
    v = np.array(x)
    if k is not None:
        v[np.argsort(-np.abs(v), kind="stable")[k:]] = 0.0
    return v


def nevergrad(case, budget, seed, k=None):
    """Its default, NGOpt, and the truth at what it recommends; with k, cut before each query. A failure is inf."""
    import nevergrad as library

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = library.p.Array(init=case.x0)
        space.random_state = np.random.RandomState(seed)
        search = library.optimizers.NGOpt(space, budget=budget)
        for _ in range(budget):
            candidate = search.ask()
            try:
                value = case.asked(_cut(candidate.value, k))
            except RuntimeError:
                value = math.inf
            search.tell(candidate, value)
        return _cut(search.provide_recommendation().value, k)


def in_their_environment(module, told):
    """`python -m module` in the environment of CMA-ES and nevergrad: what it answers to a question in JSON."""
    python, why = environments.python_for(THEIRS)
    if python is None:
        raise RuntimeError(f"no environment for {', '.join(THEIRS.requires)}: {why}")
    done = subprocess.run(
        [python, "-W", "ignore", "-m", module, json.dumps(told)],  # CMA-ES misses its plots
        env=environments.environment(),
        cwd=environments.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def versions():
    """Names and versions of the peers that are there."""
    found = []
    for name in ("cma", "nevergrad", "numpy", "scipy"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} (absent)")
    return ", ".join(found)


def _module(folder, name):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)
