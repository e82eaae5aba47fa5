"""How many nonzeros? The path over k, and the ways to choose on it.

    python examples/choose_k.py [--k 10] [--rows 200] [--seed 0] [--out docs/figures/path.png]

A regression with 300 features, k of which matter, is solved for every number of nonzeros from 1 to 2k + 5. On the
left the objective, which always falls, and the loss on rows that were held out, which turns. On the right the
information criteria, which need no held-out rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import ellzero as ez

# with the size of the ring around the smallest value: criteria may agree
CRITERIA = {"ebic": ("#009E73", "o-", 11), "gic": ("#E69F00", "^-", 14), "bic": ("#CC79A7", "s-", 17)}


def main(k: int = 10, rows: int = 200, seed: int = 0, out: str | Path = "docs/figures/path.png") -> ez.SparsePath:
    """Solve, print the choices, draw."""
    problem = ez.datasets.make_regression(2 * rows, 300, k, correlation=0.5, rng=seed)
    fit = ez.risks.LeastSquares(problem.X[:rows], problem.y[:rows])
    held_out = ez.risks.LeastSquares(problem.X[rows:], problem.y[rows:])
    path = ez.minimize_path(fit, 2 * k + 5, validation=held_out)
    print(path)
    print(f"\n{k} features matter. Chosen, and how many of them are right:")
    for rule in ("validation", "validation-1se", "ebic", "gic", "bic", "aic"):
        chosen = path.select(rule)
        right = np.intersect1d(chosen.support, np.flatnonzero(problem.truth)).size
        print(f"  {rule:<16}{chosen.support.size:>3}{right:>4}")
    print(f"picture: {draw(path, k, out)}")
    return path


def draw(path: ez.SparsePath, k: int, out: str | Path) -> Path:
    """Losses on the left, criteria on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    ez.PathDisplay.from_result(path, ax=left)
    left.set_title("held-out rows tell when to stop", fontsize=11)
    draw_criteria(path, k, right)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def draw_criteria(path: ez.SparsePath, k: int, ax: Any) -> None:
    """Each criterion above its own smallest value, which has a ring."""
    for rule, (color, style, ring) in CRITERIA.items():
        values = path.criterion(rule)
        excess, best = values - values.min(), int(values.argmin())
        ax.plot(path.ks, excess, style, ms=4, lw=1.6, color=color, label=f"{rule.upper()}: k = {path.ks[best]}")
        ax.plot(path.ks[best], 0, "o", ms=ring, mfc="none", mec=color, mew=1.6, clip_on=False, zorder=3)
    ax.axvline(k, color="0.5", lw=1, ls="--", zorder=1, label=f"features that matter: {k}")
    ax.set_ylim(-8, 150)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set(xlabel="k", ylabel="criterion above its smallest value")
    ax.set_title("criteria charge for every nonzero, each its own price", fontsize=11)
    ax.legend(frameon=False)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=10, help="how many features matter (default 10)")
    parser.add_argument("--rows", type=int, default=200, help="rows of the fit, and as many held out (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="which problem (default 0)")
    parser.add_argument("--out", default="docs/figures/path.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
