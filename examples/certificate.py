"""How a proof closes in on an answer: the best known objective, and the bound below which nothing can be.

    python examples/certificate.py                     # prints, and writes certificate.png
    python examples/certificate.py --out docs/figures/certificate.png

40 correlated features, 80 samples, at most 8 coefficients. The proof starts from the answer of plain hard thresholding,
meets better ones on its way, and ends where nothing better is possible. "auto" is there from the start.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import ellzero as ez


def problem(seed=0, n=80, d=40, k=8):
    """Features of a chain, each correlated 0.8 with the next; every fifth matters."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    signal = X[:, :: d // k] @ np.where(np.arange(k) % 2, -1.0, 1.0)
    return ez.risks.LeastSquares(X, signal + rng.standard_normal(n) * np.sqrt(signal.var() / 2)), k


def draw(certificate, out):
    """Incumbent and bound against the parts of the search that were looked at."""
    from matplotlib.figure import Figure

    nodes = np.array([line.nodes for line in certificate.history])
    incumbent = np.array([line.incumbent for line in certificate.history])
    bound = np.array([line.bound for line in certificate.history])
    low, high = bound.min(), incumbent.max()
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(nodes, bound, incumbent, step="post", color="#dddddd", label="the best possible is in here")
    axes.step(nodes, incumbent, where="post", color="#0072B2", lw=2, label="best answer so far")
    axes.step(nodes, bound, where="post", color="#D55E00", lw=2, label="proven: nothing is below")
    axes.set_xlabel("parts of the search looked at")
    axes.set_ylabel("objective R")
    axes.set_xlim(-0.01 * nodes[-1], nodes[-1])
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False)
    figure.savefig(out, dpi=160)
    print(f"wrote {out}")


def main(arguments=None):
    """Solve, prove, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for the proof (60)")
    parser.add_argument("--out", type=Path, default=Path("certificate.png"))
    args = parser.parse_args(arguments)
    risk, k = problem(args.seed)
    plain = ez.minimize(risk, k, method="IHT")
    auto = ez.minimize(risk, k)
    for name, answer in (("IHT", plain), ("auto", auto)):
        print(f"{name:<6}{answer.fun:.6f}, {ez.certify(risk, answer).words}")
    proof = ez.certify(risk, plain, time_limit=args.time_limit)
    print(f"best  {proof.fun:.6f}, nothing is below {proof.lower_bound:.6f}: {proof.nodes} parts looked at")
    draw(proof, args.out)
    return 0 if proof.fun - proof.lower_bound <= 1e-5 * proof.fun else 1


if __name__ == "__main__":
    sys.exit(main())
