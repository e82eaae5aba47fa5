"""What a larger k buys: the frontier between sparsity and the bound, with a constraint Γ.

    python examples/tradeoff_frontier.py [--out docs/figures]

Left: how many times R(w̄) the theorem of IHT-2SP allows, against k/k̄, in the paper's form, the sharper one and the
widest. Middle: the paper's experiment 1 (diagonal X, κ = 2, Γ an l∞ ball). For every k the best bound over all k̄:
it stays above R(0), so that the theorem says nothing there, in any form; what the method reaches lies far below.
Right: least squares with many samples and an l∞ ball, where it does say something.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ellzero as ez
from ellzero.theory import restricted_constants, tradeoff

# in the order of drawing: where two forms agree, the dashed one shows both
COLORS = {"paper": "#D55E00", "widest": "#009E73", "sharp": "#0072B2"}
LINES = {"paper": "-", "widest": "-", "sharp": (0, (3, 3))}
NAMES = {"paper": "the paper's form", "sharp": "sharper", "widest": "widest"}
GREY = "#666666"


def main(out: str | Path = "docs/figures", name: str = "tradeoff_frontier", dimension: int = 400) -> list[Path]:
    """Write the figure as PNG and SVG, and print the numbers that matter."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": name, "font.size": 10}):
        figure, axes = plt.subplots(1, 3, figsize=(13.2, 4.3), layout="constrained")
        draw_factors(axes[0])
        draw_diagonal(axes[1])
        draw_regression(axes[2], dimension)
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="0.92", lw=0.8)
            ax.set_axisbelow(True)
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(paths[0], dpi=110)
        figure.savefig(paths[1], metadata={"Date": None})
        plt.close(figure)
    return paths


def draw_factors(ax: Any, kappa: float = 2.0, k: int = 4000) -> None:
    """The factor of R(w̄) against k/k̄."""
    for form, color in COLORS.items():
        points = tradeoff(kappa, k, form=form)  # type: ignore[arg-type]
        ax.plot([k / p.k_bar for p in points], [p.factor for p in points], color=color, lw=2, ls=LINES[form])
        last = points[-1]
        ax.plot(k / last.k_bar, last.factor, "o", color=color, ms=6, mec="white", zorder=3)
    ax.axvline(kappa**2, color=GREY, lw=0.8, ls=":")
    ax.axvline(4 * kappa**2, color=GREY, lw=0.8, ls=":")
    ax.text(kappa**2 * 1.04, 2.2, "κ²", color=GREY)
    ax.text(4 * kappa**2 * 1.04, 2.2, "4κ²", color=GREY)
    ax.set(xscale="log", xlim=(3.4, 1000), ylim=(0.98, 2.3), xlabel="k/k̄", ylabel="factor of R(w̄)")
    ax.set_title(f"what the theorem allows, κ = {kappa:g}", fontsize=10.5)


def draw_diagonal(ax: Any, radius: float = 0.5) -> None:
    """Experiment 1: the best bound over k̄, R(0), and what IHT-2SP reaches."""
    example = ez.datasets.diagonal_example()
    risk, gamma = ez.risks.LeastSquares(example.X, example.y), ez.sets.LinfBall(radius)
    values = [example.optimum(k_bar, radius)[1] for k_bar in range(1, 351)]
    kappa = example.smoothness / example.strong_convexity
    print(f"experiment 1, |w_i| <= {radius:g}: R(0) = {risk.value(risk.zero):.4f}")
    draw_bounds(ax, risk, gamma, values, list(range(10, 351, 10)), lambda k: kappa)
    ax.set_title(f"experiment 1, |w_i| ≤ {radius:g}: nothing is said", fontsize=10.5)
    ax.set_ylim(0, 4.2)


def draw_regression(ax: Any, d: int) -> None:
    """Least squares with ten samples a coefficient."""
    problem = ez.datasets.make_regression(10 * d, d, 4, snr=10)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    gamma = ez.sets.LinfBall(0.9 * float(np.abs(problem.truth).max()))
    values = [ez.minimize(risk, k_bar, gamma).fun for k_bar in range(1, 13)]
    print(f"\nleast squares, n = {10 * d}, d = {d}, l∞ ball: R(0) = {risk.value(risk.zero):.4f}")
    grid = [round(d * share) for share in (0.02, 0.04, 0.06, *np.linspace(0.08, 1, 24))]
    draw_bounds(ax, risk, gamma, values, grid, lambda k: restricted_constants(risk, 2 * k).kappa)
    ax.set_title(f"least squares, n = {10 * d}, d = {d}, l∞ ball", fontsize=10.5)
    ax.set_ylim(0, 1.1 * risk.value(risk.zero))


def draw_bounds(
    ax: Any,
    risk: ez.risks.LeastSquares,
    gamma: ez.sets.ConstraintSet,
    values: Sequence[float],
    grid: Sequence[int],
    kappa: Callable[[int], float],
) -> None:
    """min over k̄ of factor·R(w̄), by form; what is reached; R(0)."""
    start = risk.value(risk.zero)
    reached = [ez.minimize(risk, k, gamma, method="IHT-2SP", max_iter=2000).fun for k in grid]
    print(f"{'k':>6}{'reached':>10}" + "".join(f"{NAMES[form]:>18}" for form in COLORS))
    bounds: dict[str, list[float]] = {form: [] for form in COLORS}
    for k, value in zip(grid, reached, strict=True):
        for form in COLORS:
            points = tradeoff(kappa(k), k, form=form, values=values)  # type: ignore[arg-type]
            bounds[form].append(min((p.bound for p in points), default=math.nan))
        print(f"{k:>6}{value:>10.4f}" + "".join(f"{bounds[form][-1]:>18.4f}" for form in COLORS))
    for form, color in COLORS.items():
        ax.plot(grid, bounds[form], color=color, lw=2, ls=LINES[form], label=NAMES[form])
    ax.axhline(start, color=GREY, lw=1, ls="--", label="R(0): above it a bound says nothing")
    ax.plot(grid, reached, "k.-", lw=1, ms=4, label="reached by IHT-2SP")
    ax.set(xlabel="k", ylabel="R", xlim=(0, max(grid)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", default="docs/figures", help="folder of the figures (default docs/figures)")
    for path in main(parser.parse_args().out):
        print(f"picture: {path}")
