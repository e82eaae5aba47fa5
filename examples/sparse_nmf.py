"""Parts of handwritten digits: non-negative matrix factorisation with sparse, norm-bounded components.

    python examples/sparse_nmf.py [--nonzeros 160] [--components 16] [--seed 0] [--out out/sparse_nmf.png]

Images are rows of V ≥ 0, and V ≈ WH with W, H ≥ 0: every image is a mixture of the components, the rows of H. As in
P. Hoyer's non-negative sparse coding the components shall be few pixels each, and bounded, or a small W could always
be made up for by a large H:

    min (1/n)||V - WH||²   subject to   ||H||_0 <= nonzeros,   H >= 0 and ||h_j||_2 <= 1 for every component j.

Both steps lower the objective: W row by row by non-negative least squares, H by the two-step projection, started where
it was (a step that does not help is not taken). The naive way forgets the sparsity and keeps the largest entries at
the very end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

import ellzero as ez


def main(
    nonzeros: int = 160,
    components: int = 16,
    seed: int = 0,
    out: str | Path = "out/sparse_nmf.png",
    *,
    rounds: int = 15,
    images: int = 400,
    sweep: tuple[int, ...] = (80, 120, 160, 240, 320),
) -> dict[int, tuple[float, float]]:
    """Factorise for every number of nonzeros, print the table, write the picture."""
    from sklearn.datasets import load_digits

    V = load_digits().data[:images] / 16.0
    dense = factorise(V, components, V.shape[1] * components, rounds, seed)
    print(f"{len(V)} images of 64 pixels, {components} components; objective (1/n)||V - WH||²")
    print(f"{'nonzeros':>9}{'two-step':>10}{'naive':>10}")
    print(f"{np.count_nonzero(dense):>9}{objective(V, dense):>10.4f}{'':>10}  no limit")
    found: dict[int, tuple[float, float]] = {}
    parts = dense
    for count in sorted({*sweep, nonzeros}):
        H = factorise(V, components, count, rounds, seed)
        naive = truncated(dense, count)
        found[count] = objective(V, H), objective(V, naive)
        print(f"{count:>9}{found[count][0]:>10.4f}{found[count][1]:>10.4f}")
        if count == nonzeros:
            parts = H
    print(f"\npicture: {draw(dense, parts, found, objective(V, dense), out)}")
    return found


def bounded(components: int, pixels: int) -> ez.sets.ConstraintSet:
    """H >= 0, and every component in the unit ball."""
    part = ez.sets.Intersection(ez.sets.NonNegative(), ez.sets.L2Ball(1.0))
    return ez.sets.GroupWise(part, groups=np.repeat(np.arange(components), pixels))


def mixtures(V: np.ndarray, H: np.ndarray) -> np.ndarray:
    """W >= 0, the best for the components."""
    return np.array([nnls(H.T, row)[0] for row in V])


def objective(V: np.ndarray, H: np.ndarray) -> float:
    """(1/n)||V - WH||² with the best W."""
    return float(np.sum((V - mixtures(V, H) @ H) ** 2) / len(V))


def factorise(V: np.ndarray, components: int, nonzeros: int, rounds: int, seed: int) -> np.ndarray:
    """H, after so many rounds of W, then H."""
    n, pixels = V.shape
    rng = np.random.default_rng(seed)
    gamma = bounded(components, pixels)
    H = V[rng.choice(n, components, replace=False)]
    H = H / np.linalg.norm(H, axis=1, keepdims=True)
    x = ez.two_step_projection(H.ravel(), nonzeros, gamma)
    for _ in range(rounds):
        W = mixtures(V, x.reshape(components, pixels))
        G, B, constant = W.T @ W / n, W.T @ V / n, float(np.sum(V * V) / n)

        def value(h: np.ndarray, G: np.ndarray = G, B: np.ndarray = B, constant: float = constant) -> float:
            H = h.reshape(components, pixels)
            return float(np.sum(H * (G @ H)) - 2 * np.sum(B * H)) + constant

        def gradient(h: np.ndarray, G: np.ndarray = G, B: np.ndarray = B) -> np.ndarray:
            return 2 * (G @ h.reshape(components, pixels) - B).ravel()

        risk = ez.risks.Smooth(value, gradient, x.size, smoothness=2 * float(np.linalg.norm(G, 2)), convex=True)
        x = ez.minimize(risk, nonzeros, gamma, method="IHT-2SP", x0=x, max_iter=50).x
    return x.reshape(components, pixels)


def truncated(H: np.ndarray, nonzeros: int) -> np.ndarray:
    """The naive way: the largest entries of a factorisation that did not know about sparsity."""
    return ez.two_step_projection(H.ravel(), nonzeros, bounded(*H.shape)).reshape(H.shape)


def draw(
    dense: np.ndarray, parts: np.ndarray, found: dict[int, tuple[float, float]], no_limit: float, out: str | Path
) -> Path:
    """The components with and without a limit, and the objective against the number of nonzeros."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.1))
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
    figure.subplots_adjust(left=0.01, right=0.985, bottom=0.13, top=0.9, wspace=0.12)
    right.set_position([0.69, 0.13, 0.295, 0.77])
    for ax, H, title in ((left, dense, "no limit"), (middle, parts, "sparse")):
        ax.imshow(tiles(H), cmap="Greys", vmin=0)
        ax.set_title(f"{title}: {np.count_nonzero(H)} nonzeros", fontsize=11)
        ax.axis("off")
    counts = list(found)
    ours, naive = zip(*found.values(), strict=True)
    style = ez.plot.styles(["IHT-2SP", "PGD+H"])
    right.plot(counts, naive, marker="o", label="naive: truncate at the end", **style["PGD+H"])
    right.plot(counts, ours, marker="o", label="two-step projection", **style["IHT-2SP"])
    right.axhline(no_limit, color="0.4", lw=1, ls=":", label="no limit")
    right.set(xlabel="nonzeros of all components", ylabel="(1/n)||V - WH||²", ylim=(0, None))
    right.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    target = Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    return target


def tiles(H: np.ndarray) -> np.ndarray:
    """The components as one picture, each scaled to its largest entry, with a white frame."""
    side = int(np.ceil(np.sqrt(len(H))))
    sheet = np.zeros((9 * side - 1, 9 * side - 1))
    for j, h in enumerate(H):
        row, column = divmod(j, side)
        sheet[9 * row : 9 * row + 8, 9 * column : 9 * column + 8] = h.reshape(8, 8) / max(h.max(), 1e-12)
    sheet[8::9] = sheet[:, 8::9] = 0.35
    return sheet


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nonzeros", type=int, default=160, help="of all components together (default 160)")
    parser.add_argument("--components", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="out/sparse_nmf.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
