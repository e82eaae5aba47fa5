"""A map from few distances, some of them wrong: low rank with a spectral ball, beside the nuclear norm.

    python examples/matrix_completion.py [--seen 0.3] [--wrong 0.1] [--seed 0] [--out out/matrix_completion.png]

The squared distances d_ij between points of the plane, |p_i|² - 2<p_i, p_j> + |p_j|², are a matrix of rank 4. Less than
a third was measured, with noise, and one measurement in ten is wrong altogether. Huber's loss does not mind the latter:

    min (1/n) Σ_measured huber(w_ij - d_ij)   subject to   rank(W) <= 4,   ||W||_2 <= c.

The cap c is read from the data: the spectral norm of what was measured, divided by the share that was measured. From W
the map follows by classical scaling. The nuclear norm is the usual way to ask for low rank, Σ_i σ_i(W) <= τ: convex,
but what it takes from small singular values it takes from large ones, too. It gets the best τ of several, judged by the
truth. Both are `ez.minimize` with a `Spectral` set.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import sparse

import ellzero as ez

OURS, NUCLEAR = "rank 4, spectral ball", "nuclear norm"


def main(
    seen: float = 0.3,
    wrong: float = 0.1,
    seed: int = 0,
    out: str | Path = "out/matrix_completion.png",
    *,
    points: int = 150,
    radii: tuple[float, ...] = (0.7, 0.85, 1.0),
) -> dict[str, float]:
    """Complete the distances in both ways, print the table, write the picture."""
    rng = np.random.default_rng(seed)
    places = letters(points)
    D = squared_distances(places)
    shape = D.shape
    index = np.sort(rng.choice(D.size, int(seen * D.size), replace=False))
    y = D.ravel()[index] * (1 + 0.02 * rng.standard_normal(index.size))
    bad = rng.random(index.size) < wrong
    y[bad] = rng.uniform(0, 2, bad.sum())
    X = sparse.csr_array((np.ones(index.size), (np.arange(index.size), index)), shape=(index.size, D.size))
    risk = ez.risks.Huber(X, y, delta=0.02)

    looked = np.zeros(D.size)
    looked[index] = np.minimum(y, 1.0)
    cap = float(np.linalg.norm(looked.reshape(shape), 2)) / seen
    found = {
        OURS: ez.minimize(risk, ez.sparsity.Rank(4, shape), ez.sets.Spectral(ez.sets.LinfBall(cap), shape)),
        NUCLEAR: best_nuclear(risk, D, radii),
    }
    maps = {name: placed(res.x.reshape(shape), places) for name, res in found.items()}
    errors = {name: float(np.linalg.norm(res.x - D.ravel()) / np.linalg.norm(D)) for name, res in found.items()}
    print(f"{points} points, {index.size} of {D.size} distances measured, {bad.sum()} of these wrong")
    print(f"{'':<24}{'error of distances':>20}{'of places':>12}{'rank':>7}{'gradients':>12}")
    for name, res in found.items():
        used = ez.sparsity.Rank(points, shape).count(res.x)
        off = float(np.sqrt(np.mean(np.sum((maps[name] - places) ** 2, axis=1))))
        print(f"{name:<24}{errors[name]:>20.4f}{off:>12.4f}{used:>7}{res.n_gradients // index.size:>12}")
    given = np.full(D.size, np.nan)
    given[index] = y
    spectra = {name: np.linalg.svd(res.x.reshape(shape), compute_uv=False) for name, res in found.items()}
    spectra = {"all distances": np.linalg.svd(D, compute_uv=False)[:4], **spectra}
    print(f"\npicture: {draw(places, given.reshape(shape), maps, spectra, out)}")
    return errors


def letters(points: int) -> np.ndarray:
    """Points on an l and a 0, in the unit square."""
    stem = points // 3
    t = np.linspace(0, 1, stem)
    line = np.column_stack([0.2 + 0.06 * np.maximum(t - 0.85, 0) / 0.15, 0.9 - 0.8 * t])
    angle = 2 * np.pi * np.arange(points - stem) / (points - stem)
    return np.vstack([line, np.column_stack([0.62 + 0.22 * np.cos(angle), 0.5 + 0.4 * np.sin(angle)])])


def squared_distances(places: np.ndarray) -> np.ndarray:
    """|p_i - p_j|²."""
    return np.asarray(np.sum((places[:, None] - places) ** 2, axis=2))


def best_nuclear(risk: ez.risks.Risk, D: np.ndarray, radii: tuple[float, ...]) -> ez.Result:
    """The best of several balls, judged by the truth, whose nuclear norm is 1; each starts from the last."""
    every, best, x = ez.sparsity.Rank(len(D), D.shape), None, None
    for radius in np.linalg.norm(D, "nuc") * np.array(radii):
        ball = ez.sets.Spectral(ez.sets.L1Ball(float(radius)), D.shape)
        res = ez.minimize(risk, every, ball, ez.Method(step="adaptive"), x0=x, tol=1e-4, max_iter=80)
        x = res.x
        if best is None or np.linalg.norm(res.x - D.ravel()) < np.linalg.norm(best.x - D.ravel()):
            best = res
    assert best is not None
    return best


def placed(W: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A map with these squared distances (classical scaling), turned until it fits the true places best."""
    centred = 0.5 * (W + W.T)
    centred = centred - centred.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    found = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    middle = places.mean(axis=0)
    U, _, Vt = np.linalg.svd(found.T @ (places - middle))
    return np.asarray(found @ (U @ Vt) + middle)


def draw(
    places: np.ndarray,
    given: np.ndarray,
    maps: dict[str, np.ndarray],
    spectra: dict[str, np.ndarray],
    out: str | Path,
) -> Path:
    """What was measured, both maps, and the singular values."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 3.5), layout="constrained")
    first, *middle, last = figure.subplots(1, 4)
    first.imshow(given, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    first.set(xticks=[], yticks=[], xlabel="point", ylabel="point")
    first.set_title("squared distances that were measured", fontsize=10)
    style = ez.plot.styles(["IHT-2SP", "PGD+H"])
    looks = {OURS: style["IHT-2SP"], NUCLEAR: style["PGD+H"], "all distances": {"color": "0.35", "ls": ":"}}
    for ax, (name, found) in zip(middle, maps.items(), strict=True):
        ax.plot(*np.stack([places, found], axis=2).transpose(1, 2, 0), color="0.75", lw=0.8)
        ax.plot(*places.T, ".", color="0.35", ms=2.5, label="true place")
        ax.plot(*found.T, "o", color=looks[name]["color"], ms=3.5, label="found")
        ax.set_title(name, fontsize=10)
        ax.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.legend(frameon=False, fontsize=8, loc="center", bbox_to_anchor=(0.62, 0.5))
    for name, s in spectra.items():
        s = s[s > 1e-8 * s[0]][:20]
        mark = {"marker": "x", "ms": 8, "zorder": 3} if name == "all distances" else {"marker": "o", "ms": 4}
        last.semilogy(np.arange(1, s.size + 1), s, label=name, **mark, **looks[name])
    last.set(xlabel="number", xticks=[1, 5, 10, 15, 20])
    last.set_title("singular values", fontsize=10)
    last.spines[["top", "right"]].set_visible(False)
    last.legend(frameon=False, fontsize=8)
    target = Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=100)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seen", type=float, default=0.3, help="the share of distances measured (default 0.3)")
    parser.add_argument("--wrong", type=float, default=0.1, help="the share of these that is wrong (default 0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="out/matrix_completion.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
