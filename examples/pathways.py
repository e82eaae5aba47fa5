"""At most two genes of each pathway: a panel that does not measure the same thing three times.

    python examples/pathways.py [--k 20] [--at-most 2] [--data ../shared/data] [--out docs/figures/pathways.png]

Riboflavin production of 71 cultures of Bacillus subtilis, explained by the expression of 4088 genes (Bühlmann, Kalisch
and Meier 2014). By convention the first three letters of a bacterial gene name its pathway or operon (argF, argG:
arginine; for genes that begin with y, whose function was not known, they tell the place on the chromosome): 761 groups.
The best k genes take several of the same operon. `at_most` limits that, and the price is told: on the left which genes
are chosen without a limit, with at most two and with at most one of each pathway, on the right the error on cultures
that were held out. Where the data are not there, genes in correlated groups are simulated, and the title says so.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold

import ellzero as ez

LEVELS = [2, 4, 6, 8, 10, 13, 16, 20, 25, 30]
COLORS = ["#D55E00", "#0072B2", "#009E73"]
RIDGE = 1.0


def read(folder: str | Path, seed: int) -> tuple[np.ndarray, np.ndarray, list[str], list[str], str]:
    """X, y, genes, their pathways and where they come from."""
    file = Path(folder) / "riboflavin" / "riboflavin.npz"
    if file.exists():
        with np.load(file, allow_pickle=True) as data:
            genes = [str(name).split("_")[0] for name in data["genes"]]
            genes = [name[:3].lower() + name[3:].upper() for name in genes]
            return data["X"], data["y"], genes, [name[:3] for name in genes], "riboflavin production, 71 cultures"
    print(f"{file} is not there: genes in correlated groups are simulated")
    rng = np.random.default_rng(seed)
    pathways = np.repeat([f"p{i:02}" for i in range(60)], 8)
    shared = np.repeat(rng.standard_normal((71, 60)), 8, axis=1)
    X = 0.35 * (0.9 * shared + 0.45 * rng.standard_normal((71, 480)))
    y = X[:, ::48] @ rng.choice([-1.0, 1.0], 10) + 0.2 * rng.standard_normal(71)
    genes = [f"{label}{'ABCDEFGH'[j % 8]}" for j, label in enumerate(pathways)]
    return X, y, genes, pathways.tolist(), "simulated genes"


def main(
    k: int = 20, at_most: int = 2, seed: int = 0, data: str | Path = "../shared/data",
    out: str | Path = "docs/figures/pathways.png", n_repeats: int = 4,
) -> dict[str, Any]:  # fmt: skip
    """Fit with and without the limit, cross-validate along k, print, draw."""
    X, y, genes, pathways, title = read(data, seed)
    limits = {"no limit": None, f"at most {at_most}": at_most, "at most 1": 1}
    cv = RepeatedKFold(n_splits=5, n_repeats=n_repeats, random_state=seed)
    chosen, errors = {}, {}
    for name, limit in limits.items():
        asked: dict[str, Any] = {"ridge": RIDGE} | ({} if limit is None else {"groups": pathways, "at_most": limit})
        model = ez.SparseRegressor(k=k, **asked).fit(X, y)
        walk = ez.SparseRegressorCV(ks=[level for level in LEVELS if level <= X.shape[1]], cv=cv, **asked).fit(X, y)
        chosen[name] = model.get_support(indices=True)
        errors[name] = walk.cv_results_["k"], -walk.cv_results_["mean_test_score"] / np.var(y)
        used = len({pathways[j] for j in chosen[name]})
        at_k = np.interp(k, *errors[name])
        print(f"{name:<11} objective {model.result_.fun:.4f}, {chosen[name].size} genes of {used} pathways, ", end="")
        print(f"{at_k:.1%} of the variance left on cultures held out")
    print(f"picture: {draw(chosen, errors, genes, pathways, k, title, out)}")
    return {"chosen": chosen, "errors": errors}


def draw(
    chosen: dict[str, np.ndarray], errors: Any, genes: list[str], pathways: list[str], k: int, title: str,
    out: str | Path,
) -> Path:  # fmt: skip
    """The genes on the left, the errors on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 6.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    several = {name: [pathways[j] for j in index] for name, index in chosen.items()}
    rows = sorted(set().union(*several.values()), key=lambda p: (-max(s.count(p) for s in several.values()), p))
    for column, (name, color) in enumerate(zip(chosen, COLORS, strict=True)):
        for row, pathway in enumerate(rows):
            mine = [genes[j][3:] or genes[j] for j in chosen[name] if pathways[j] == pathway]
            if mine:
                heavy = "bold" if len(mine) > 1 else "normal"
                left.text(column, row, " ".join(mine), ha="center", va="center", fontsize=8, color=color, weight=heavy)
    for row in range(0, len(rows), 2):
        left.axhspan(row - 0.5, row + 0.5, color="0.96", lw=0)
    left.set(xlim=(-0.6, len(chosen) - 0.4), ylim=(len(rows) - 0.5, -0.5))
    left.set_yticks(range(len(rows)), rows, fontsize=8, family="monospace")
    left.set_xticks(
        range(len(chosen)), [f"{name}\nof each pathway" if column else name for column, name in enumerate(chosen)]
    )
    left.xaxis.tick_top()
    left.tick_params(length=0)
    left.spines[:].set_visible(False)
    left.set_title(f"the best {k} genes by pathway; bold: several of one", fontsize=11)
    for (name, (ks, error)), color, marker in zip(errors.items(), COLORS, "so^", strict=True):
        right.plot(ks, error, f"{marker}-", color=color, ms=4.5, lw=1.6, label=name)
    right.axvline(k, color="0.6", lw=1, ls="--", zorder=1)
    right.spines[["top", "right"]].set_visible(False)
    right.grid(axis="y", color="0.9", lw=0.8)
    right.set(xlabel="k, genes in all", ylabel="mean squared error held out / variance of y", ylim=(0, None))
    right.set_title(title, fontsize=11)
    right.legend(frameon=False, title="genes of each pathway")
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=20, help="how many genes in all (default 20)")
    parser.add_argument("--at-most", type=int, default=2, help="how many of each pathway (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="which cultures are held out (default 0)")
    parser.add_argument("--data", default="../shared/data", help="the folder with riboflavin/riboflavin.npz")
    parser.add_argument("--out", default="docs/figures/pathways.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
