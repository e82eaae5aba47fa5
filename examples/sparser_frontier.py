"""How large must k be, beside k̄, for R(x) <= R(w̄)? With the condition number κ, with regularisation, and with Γ.

    python examples/sparser_frontier.py [--out docs/figures]

Left: the diagonal problem of Axiotis & Sviridenko, k̄ = 2, from its bad start; for every κ the smallest k/k̄ at which a
method reaches the best value that k̄ nonzeros allow. IHT needs κ², RegIHT and ARHT need κ. Middle: the same inside an l∞
ball of radius κ/2, which cuts what w̄ needs. Right: κ = 1 and no bad start; m coordinates share an l1 ball of radius 1,
eight others are free and a little smaller. The two-step projection takes the m first, and their ball wastes them: it
needs k > m for k̄ = 4, with or without regularisation. So no bound of k/k̄ by κ gives R(x) <= R(w̄) under every Γ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import ellzero as ez
from ellzero.displays.base import new_figure, tidy

K_BAR, KAPPAS, SIZES = 2, (2, 3, 4, 6, 8, 12), (8, 16, 32, 64, 128)
# color, marker, width, dashes: where two agree, the thinner one is drawn over the wider
STYLES = {
    "IHT-2SP": ("#D55E00", "o", 4.0, "-"), "RegIHT": ("#56B4E9", "s", 2.4, "-"), "ARHT": ("#00664B", "^", 1.2, "--"),
    "auto": ("#000000", "x", 1.0, "-"),
}  # fmt: skip


def diagonal(kappa: int, delta: float = 1e-4) -> tuple[np.ndarray, np.ndarray]:
    """x and y of ½Σ(x_i w_i - y_i)², in three blocks of sizes k̄, k̄κ and k̄κ²."""
    sizes = (K_BAR, K_BAR * kappa, K_BAR * kappa**2)
    x = np.repeat([1.0, np.sqrt(kappa), 1.0], sizes)
    return x, np.repeat([kappa * np.sqrt(1 - 4 * delta), np.sqrt(kappa * (1 - 2 * delta)), 1.0], sizes)


def smallest(reaches: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest k at which a method reaches what it should, by bisection; k = high counts as reached."""
    while high > low:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle + 1, high)
    return low


def frontier(method: str, kappa: int, radius: float | None) -> float:
    """The smallest k/k̄ on the diagonal problem, from the start in its last block."""
    x, y = diagonal(kappa)
    d, root = x.size, np.sqrt(x.size / 2)
    risk, gamma = ez.risks.LeastSquares(root * np.diag(x), root * y), radius and ez.sets.LinfBall(radius)
    best = np.clip(y / x, -(radius or np.inf), radius or np.inf)
    gains = np.sort(0.5 * (y**2 - (x * best - y) ** 2))[::-1]
    target = 0.5 * float(y @ y) - float(gains[:K_BAR].sum())

    def reaches(k: int) -> bool:
        start = np.zeros(d)
        start[K_BAR * (1 + kappa) :][:k] = 1.0 if radius is None else min(1.0, radius)
        found = ez.minimize(risk, k, gamma or None, method, x0=start, max_iter=3000, rng=0)
        return found.fun <= target * (1 + 1e-9)

    return smallest(reaches, K_BAR, d) / K_BAR


def wasted(method: str, m: int, k_bar: int = 4) -> float:
    """The smallest k/k̄ with κ = 1: m coordinates of size 1 in an l1 ball, and 2k̄ free ones of size 0.9."""
    d = m + 2 * k_bar
    z = np.repeat([1.0, 0.9], (m, 2 * k_bar))
    risk = ez.risks.Quadratic(np.eye(d), z)
    gamma = ez.sets.GroupWise({"ball": ez.sets.L1Ball(1.0)}, ["ball"] * m + [None] * (2 * k_bar))
    target = -0.5 * k_bar * 0.9**2
    return smallest(lambda k: ez.minimize(risk, k, gamma, method, rng=0).fun <= target + 1e-9, k_bar, d) / k_bar


def main(
    out: str | Path = "docs/figures",
    name: str = "sparser_frontier",
    kappas: Sequence[int] = KAPPAS,
    sizes: Sequence[int] = SIZES,
) -> list[Path]:
    """Print the tables and write the figure."""
    tables = {
        "no Γ": {m: [frontier(m, kappa, None) for kappa in kappas] for m in STYLES},
        "|w_i| <= κ/2": {m: [frontier(m, kappa, kappa / 2) for kappa in kappas] for m in STYLES},
        "κ = 1, an l1 ball of m": {m: [wasted(m, size) for size in sizes] for m in STYLES},
    }
    for title, rows in tables.items():
        print(f"{title:<24}" + "".join(f"{v:>8}" for v in (sizes if "ball" in title else kappas)))
        for method, values in rows.items():
            print(f"  {method:<22}" + "".join(f"{v:>8.3g}" for v in values))
    path = Path(out) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(tables, kappas, sizes, path)
    return [path]


def draw(tables: dict[str, dict[str, list[float]]], kappas: Sequence[int], sizes: Sequence[int], path: Path) -> None:
    """Three panels."""
    figure, axes = new_figure(11.0, 3.6, 1, 3)
    for ax, (title, rows) in zip(axes, tables.items(), strict=True):
        right = "ball" in title
        across = np.array(sizes if right else kappas, dtype=float)
        for method, values in rows.items():
            color, marker, width, dashes = STYLES[method]
            ax.plot(across, values, color=color, marker=marker, lw=width, ls=dashes, ms=5, label=method)
        if not right:
            for power, word in ((1, " κ"), (2, " κ²")):
                ax.plot(across, across**power, color="0.6", lw=0.8, ls=":")
                ax.text(across[-1], across[-1] ** power, word, va="center", color="0.4")
        ax.set(xscale="log", yscale="log", xlabel="m" if right else "κ", title=title)
        ax.set_xticks(across, [f"{v:g}" for v in across])
        ax.minorticks_off()
        tidy(ax)
    axes[0].set_ylabel("smallest k/k̄ with R(x) <= R(w̄)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/figures")
    print(*main(parser.parse_args().out), sep="\n")
