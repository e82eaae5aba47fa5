"""One measurement of groups, in a process of its own: `python -m benchmarks.structure.peers SOLVER PROBLEM SEED`.

Prints a line of JSON: R of the support refitted, the number of its groups, seconds of the processor, those of one Xᵀr,
and the version.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

N, GROUPS, SIZE, K = 1000, 500, 10, 20
PROBLEMS = {
    "plain": "Gaussian columns, groups of 10",
    "correlated": "each column correlated 0.9 with the next one, groups of 10",
    "unequal": "Gaussian columns, groups of 1 to 19",
}
REPEATS = 3


def problem(name, seed):
    """X, y and the group of each column: 20 of 500 groups matter, signal-to-noise 5."""
    rng = np.random.default_rng([seed, list(PROBLEMS).index(name)])
    sizes = np.full(GROUPS, SIZE)
    if name == "unequal":
        shift = rng.integers(0, SIZE, GROUPS // 2)
        sizes = np.concatenate([SIZE - shift, SIZE + shift])
    group = np.repeat(np.arange(GROUPS), sizes)
    X = rng.standard_normal((N, group.size))
    if name == "correlated":
        for j in range(1, group.size):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1 - 0.9**2) * X[:, j]
    w = rng.standard_normal(group.size) * np.isin(group, rng.choice(GROUPS, K, replace=False))
    signal = X @ w
    return X, signal + rng.standard_normal(N) * signal.std() / np.sqrt(5.0), group


class Ellzero:
    package, requires, python, seeds = "ellzero", (), None, range(100)
    settings = "minimize(LeastSquares(X, y), Groups(20, group)): the default"

    def load(self):
        import ellzero

        self.ez = ellzero

    def run(self, X, y, group):
        return np.asarray(self.ez.minimize(self.ez.risks.LeastSquares(X, y), self.ez.sparsity.Groups(K, group)).x)


class Abess:
    package, requires, python, seeds = "abess", ("abess",), None, range(100)
    settings = "LinearRegression(support_size=20, group=group, fit_intercept=False)"

    def load(self):
        from abess import LinearRegression

        self.model = LinearRegression

    def run(self, X, y, group):
        return self.model(support_size=[K], group=group, fit_intercept=False).fit(X, y).coef_


class AbessPath(Abess):
    settings = "as abess along support_size = 1, ..., 20, each from the last one"

    def run(self, X, y, group):
        sizes, ends = list(range(1, K + 1)), {"ic_type": "aic", "ic_coef": 0.0}  # the largest wins
        return self.model(support_size=sizes, group=group, fit_intercept=False, **ends).fit(X, y).coef_


class Skglm:
    package, requires, python = "skglm", ("skglm",), None
    settings = (
        "GroupLasso(weights = sqrt of the sizes), the penalty lowered by 10% until more than 20 groups are used, then "
        "bisected; the 20 largest; on two seeds, for it compiles in every process"
    )
    seeds = (0, 1)

    def load(self):
        from skglm import GroupLasso

        self.model = GroupLasso

    def run(self, X, y, group):
        sizes = np.bincount(group)
        members = [np.flatnonzero(group == g).tolist() for g in range(sizes.size)]
        X = np.asfortranarray(X)
        slopes = np.sqrt(np.bincount(group, (X.T @ y / len(y)) ** 2))
        model = self.model(members, weights=np.sqrt(sizes), fit_intercept=False, warm_start=True, tol=1e-5)
        high, low, best = float((slopes / np.sqrt(sizes)).max()), 0.0, np.zeros(X.shape[1])
        for _ in range(60):
            model.alpha = 0.9 * high if not low else float(np.sqrt(low * high))
            w = model.fit(X, y).coef_.copy()
            used = np.unique(group[w != 0]).size
            if used > K:
                low = model.alpha
            else:
                high, best = model.alpha, w
            if used == K or (low and high / low < 1.001):
                break
        size = np.sqrt(np.bincount(group, best**2))
        return best * np.isin(group, np.argsort(-size)[:K])


SOLVERS = {"ellzero": Ellzero(), "abess": Abess(), "abess path": AbessPath(), "skglm": Skglm()}


def passes(X):
    """Seconds of Xᵀr, a few times."""
    r, times = np.ones(len(X)), []
    for _ in range(5):
        started = time.process_time()
        X.T @ r
        times.append(time.process_time() - started)
    return times


def refit(X, y, group, w):
    """The number of groups that w uses, and (1/n)||Xw - y||² with the best values on them."""
    used = np.unique(group[w != 0])
    A = X[:, np.isin(group, used)]
    r = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    return int(used.size), float(r @ r / len(y))


def measure(solver, name, seed):
    """The figures of one solver on one problem; the first call, which may compile, is not timed."""
    X, y, group = problem(name, seed)
    solver.load()
    w, times, yard = solver.run(X, y, group), [], passes(X)
    for _ in range(REPEATS):
        started = time.process_time()
        w = solver.run(X, y, group)
        times.append(time.process_time() - started)
        yard += passes(X)
    used, value = refit(X, y, group, w)
    known = {"seconds": float(np.median(times)), "pass": float(np.median(yard)), "version": version(solver.package)}
    return {"groups": used, "R": value, **known}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("RESULT " + json.dumps(measure(SOLVERS[sys.argv[1]], sys.argv[2], int(sys.argv[3]))), flush=True)
