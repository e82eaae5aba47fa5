"""How many samples are enough: what is predicted for random designs, and what happens.

    python examples/sub_gaussian_design.py [--out docs/figures] [--seeds 20]

Rows of X with covariance Σ_ij = r^|i-j|, Gaussian or made of random signs. The prediction: once n is large compared
with s log d, every s x s block of XᵀX/n is as well conditioned as Σ, up to the factors (1±a)², and then k of the order
κ(Σ)²k̄ is enough for IHT to reach R(w̄).

Left: the extreme eigenvalues that a search finds over blocks, against n, inside the band that `sample_complexity`
promises for Gaussian rows with probability 0.99. Right: how often IHT finds w̄ from y = Xw̄, k = 3k̄: for every d the
change comes at about the same multiple of k̄ log d.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ellzero as ez
from ellzero.theory import restricted_constants, sample_complexity

COLORS = ("#56B4E9", "#0072B2", "#000000")
VERMILLION, GREY = "#D55E00", "#666666"
S, K_BAR, R, FAILURE = 10, 5, 0.2, 0.01


def main(out: str | Path = "docs/figures", seeds: int = 20, name: str = "sub_gaussian_design") -> list[Path]:
    """Print what is needed, write the figure as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    print_needs()
    with plt.rc_context({"svg.hashsalt": name, "font.size": 10}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained")
        draw_eigenvalues(left, d=200)
        draw_recovery(right, seeds)
        for ax in (left, right):
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="0.92", lw=0.8)
            ax.set_axisbelow(True)
            ax.legend(frameon=False)
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(paths[0], dpi=110)
        figure.savefig(paths[1], metadata={"Date": None})
        plt.close(figure)
    return paths


def covariance(d: int) -> np.ndarray:
    """Σ_ij = r^|i-j|."""
    return np.asarray(R ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))


def design(n: int, d: int, rng: np.random.Generator, signs: bool = False) -> np.ndarray:
    """n rows with covariance Σ, from Gaussian entries or from random signs."""
    z = rng.choice([-1.0, 1.0], (n, d)) if signs else rng.standard_normal((n, d))
    return np.asarray(z @ np.linalg.cholesky(covariance(d)).T)


def print_needs() -> None:
    """n and k for Gaussian rows with this Σ, by slack a."""
    print(f"Gaussian rows, r = {R:g}, k̄ = {K_BAR}, failure probability {FAILURE:g}\n")
    print(f"{'d':>9}{'slack a':>9}{'κ <=':>8}{'k':>9}{'n':>12}{'n/(s log d)':>13}")
    spectrum = (1 - R) / (1 + R), (1 + R) / (1 - R)
    for d in (10**4, 10**6):
        for slack in (0.5, 0.2, 0.05):
            need = sample_complexity(K_BAR, d, eigenvalues=spectrum, slack=slack, failure=FAILURE)
            note = "" if need.k <= d else "  more than d"
            share = need.n / (need.s * math.log(d))
            print(f"{d:>9}{slack:>9g}{need.kappa:>8.2f}{need.k:>9}{need.n:>12}{share:>13.1f}{note}")
    print("\na = 1/2 has the paper's constants: ν >= σ_min/2, L <= 4.5σ_max, k = 324κ(Σ)²k̄")


def draw_eigenvalues(ax: Any, d: int) -> None:
    """Extreme eigenvalues of blocks, over those of Σ, against n."""
    low, high = np.linalg.eigvalsh(covariance(d))[[0, -1]]
    sizes = np.unique(np.geomspace(60, 20_000, 12).astype(int))
    t = math.sqrt(S) + math.sqrt(2 * math.log(2 * math.comb(d, S) / FAILURE))
    a = np.minimum(t / np.sqrt(sizes), 1.0)
    ax.fill_between(sizes, (1 - a) ** 2, (1 + a) ** 2, color="#DCEBF5", label="promised band")
    rng = np.random.default_rng(0)
    for signs, marker, color, rows in ((False, "o", COLORS[1], "Gaussian"), (True, "x", VERMILLION, "random signs")):
        seen = [found(design(n, d, rng, signs)) for n in sizes]
        ax.plot(sizes, [L / (2 * high) for L, _ in seen], marker, color=color, ms=5, label=f"found, {rows}")
        ax.plot(sizes, [nu / (2 * low) for _, nu in seen], marker, color=color, ms=5)
        if not signs:
            inside = [
                (1 - b) ** 2 <= nu / (2 * low) and L / (2 * high) <= (1 + b) ** 2
                for b, (L, nu) in zip(a, seen, strict=True)
            ]
            print(f"\nleft: {sum(inside)} of {len(inside)} Gaussian designs inside the band")
    ax.axhline(1, color=GREY, lw=0.8, ls=":")
    ax.text(110, 2.15, r"$L_s\,/\,2\sigma_{\max}$", color=GREY)
    ax.text(110, 0.08, r"$\nu_s\,/\,2\sigma_{\min}$", color=GREY)
    ax.set(xscale="log", xlabel="n", ylim=(0, 3.6), ylabel="relative to Σ")
    ax.set_title(f"blocks of {S} x {S}, d = {d}", fontsize=10.5)


def found(X: np.ndarray) -> tuple[float, float]:
    """The largest L_s and the smallest ν_s that a search over supports finds."""
    estimate = restricted_constants(ez.risks.LeastSquares(X, np.zeros(len(X))), S).estimate
    assert estimate is not None
    return estimate.smoothness.value, estimate.strong_convexity.value


def draw_recovery(ax: Any, seeds: int, dimensions: Sequence[int] = (100, 200, 400)) -> None:
    """The share of problems y = Xw̄ that IHT solves, against n/(k̄ log d)."""
    multiples = np.arange(0.6, 2.61, 0.2)
    print(f"\nright: share of {seeds} problems solved, k̄ = {K_BAR}, k = {3 * K_BAR}\n{'n/(k̄ log d)':>14}", end="")
    print("".join(f"{f'd = {d}':>10}" for d in dimensions))
    shares = {d: [solved(round(m * K_BAR * math.log(d)), d, seeds) for m in multiples] for d in dimensions}
    for place, m in enumerate(multiples):
        print(f"{m:>13.1f}" + "".join(f"{shares[d][place]:>10.2f}" for d in dimensions))
    for (d, share), color in zip(shares.items(), COLORS, strict=True):
        ax.plot(multiples, share, ".-", color=color, label=f"d = {d}")
    ax.set(xlabel="n/(k̄ log d)", ylabel="share of problems solved", ylim=(-0.03, 1.03))
    ax.set_title(f"IHT on y = Xw̄, k̄ = {K_BAR}, k = {3 * K_BAR}", fontsize=10.5)


def solved(n: int, d: int, seeds: int) -> float:
    """How often IHT finds w̄, with a step near 1/L_s."""
    successes = 0
    for seed in range(seeds):
        rng = np.random.default_rng([n, d, seed])
        X, w_bar = design(n, d, rng), np.zeros(d)
        w_bar[rng.choice(d, K_BAR, replace=False)] = rng.choice([-1.0, 1.0], K_BAR)
        risk = ez.risks.LeastSquares(X, X @ w_bar)
        largest = 2 * np.linalg.norm(X[:, rng.permutation(d)[: 6 * K_BAR]], 2) ** 2 / n
        res = ez.minimize(risk, 3 * K_BAR, method=ez.preset("IHT", step=0.8 / largest), max_iter=600, monitor="final")
        successes += np.linalg.norm(res.x - w_bar) <= 1e-2 * np.linalg.norm(w_bar)
    return successes / seeds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", default="docs/figures", help="folder of the figures (default docs/figures)")
    parser.add_argument("--seeds", type=int, default=20, help="problems a point (default 20)")
    for path in main(**vars(parser.parse_args())):
        print(f"picture: {path}")
