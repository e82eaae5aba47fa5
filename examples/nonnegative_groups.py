"""At most k groups of columns, and no negative weight: the one is not the other with its signs mended afterwards.

    python examples/nonnegative_groups.py [--k 5] [--seed 0] [--out out/nonnegative_groups.png]

Sources come in groups of four spectra; a mixture holds at most k of them, in amounts that cannot be negative (what
users of abess ask for, and it does not have). The groups are chosen with the signs in mind; or without, by abess where
it is installed and by ellzero otherwise, and then either clipped at zero or fitted again with w >= 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

import ellzero as ez

SIZE = 4


def mixture(groups: int, k: int, seed: int, rows: int = 150) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spectra that overlap, and what k groups explain, with noise."""
    rng = np.random.default_rng(seed)
    places = np.linspace(0, 1, rows)
    centres = rng.uniform(0, 1, groups * SIZE)
    X = np.exp(-0.5 * ((places[:, None] - centres) / rng.uniform(0.02, 0.08, groups * SIZE)) ** 2)
    group = np.repeat(np.arange(groups), SIZE)
    w = rng.exponential(1.0, group.size) * np.isin(group, rng.choice(groups, k, replace=False))
    return X, X @ w + 0.5 * rng.standard_normal(rows), group


def without_signs(X: np.ndarray, y: np.ndarray, group: np.ndarray, k: int) -> tuple[str, np.ndarray]:
    """The weights of k groups of any sign, and whose they are."""
    try:
        from abess import LinearRegression
    except ImportError:
        return "ellzero", np.asarray(ez.minimize(ez.risks.LeastSquares(X, y), ez.sparsity.Groups(k, group)).x)
    return "abess", LinearRegression(support_size=[k], group=group, fit_intercept=False).fit(X, y).coef_


def main(
    k: int = 5, seed: int = 0, out: str | Path = "out/nonnegative_groups.png", groups: int = 40
) -> dict[str, float]:
    """Fit, print the table, draw."""
    X, y, group = mixture(groups, k, seed)
    res = ez.minimize(ez.risks.LeastSquares(X, y), ez.sparsity.Groups(k, group), ez.sets.NonNegative())
    who, free = without_signs(X, y, group, k)
    again = np.zeros(group.size)
    on = np.isin(group, group[free != 0])
    again[on] = nnls(X[:, on], y)[0]
    answers = {
        "groups with w >= 0": np.asarray(res.x),
        f"{who}, clipped": np.maximum(free, 0.0),
        f"{who}, fitted again": again,
    }
    losses = {name: float(np.mean((X @ w - y) ** 2)) for name, w in answers.items()}
    print(f"{X.shape[0]} rows, {group.size} columns in {groups} groups, at most {k} of them, no negative weight")
    print(f"{'answer':<24}{'mean square':>12}{'groups':>8}{'least weight':>14}")
    for name, w in answers.items():
        print(f"{name:<24}{losses[name]:>12.5f}{np.unique(group[w != 0]).size:>8}{w.min():>14.2g}")
    print(f"picture: {draw(X, y, answers, out)}")
    return losses


def draw(X: np.ndarray, y: np.ndarray, answers: dict[str, np.ndarray], out: str | Path) -> Path:
    """The mixture and what each answer makes of it; below, what is left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    above.plot(y, ".", color="0.6", ms=4, label="measured")
    for (name, w), color in zip(answers.items(), ("#0072B2", "#D55E00", "#009E73"), strict=True):
        above.plot(X @ w, color=color, lw=1.6, label=name)
        below.plot(y - X @ w, color=color, lw=1.0)
    above.legend(frameon=False)
    reach = y.max() - y.min()  # what is clipped may lie far outside
    above.set(ylabel="mixture", ylim=(y.min() - 0.2 * reach, y.max() + 0.4 * reach))
    below.set(ylabel="left over", xlabel="channel", ylim=(-0.5 * reach, 0.5 * reach))
    for ax in (above, below):
        ax.spines[["top", "right"]].set_visible(False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=5, help="how many groups (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="which mixture (default 0)")
    parser.add_argument("--out", default="out/nonnegative_groups.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
