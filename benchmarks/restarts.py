"""What random restarts of the exchanges cost and gain.

    python -m benchmarks restarts

On correlated designs, where single exchanges can end in a local optimum: the objective relative to the best one
found for each problem, and looks at the data, for n_starts = 1, 4, 16.
"""

import numpy as np

import ellzero as ez

STARTS = (1, 4, 16)
SHAPES = ((200, 500, 20, 0.9), (100, 300, 15, 0.95), (60, 200, 10, 0.98))  # n, d, k, correlation
SEEDS = range(10)


def main():
    print("mean excess over the best objective found / problems solved to that best / passes over the data")
    for n, d, k, correlation in SHAPES:
        fun, passes = np.empty((len(SEEDS), len(STARTS))), np.empty((len(SEEDS), len(STARTS)))
        for seed in SEEDS:
            problem = ez.datasets.make_regression(n, d, k, correlation=correlation, snr=5.0, rng=seed)
            risk = ez.risks.LeastSquares(problem.X, problem.y)
            for column, n_starts in enumerate(STARTS):
                result = ez.minimize(risk, k, method=ez.preset("auto", n_starts=n_starts), rng=seed)
                fun[seed, column], passes[seed, column] = result.fun, result.n_gradients / n
        excess = fun / fun.min(axis=1, keepdims=True) - 1
        cells = [
            f"{starts:>3} starts: {100 * e:5.2f}% / {s}/{len(SEEDS)} / {p:5.0f}"
            for starts, e, s, p in zip(
                STARTS, excess.mean(axis=0), (excess < 1e-9).sum(axis=0), passes.mean(axis=0), strict=True
            )
        ]
        print(f"n={n}, d={d}, k={k}, correlation {correlation}:  " + "   ".join(cells), flush=True)
