"""Which ten pixels tell the whole picture? Several targets that share their features.

    python examples/multi_target.py [--k 10] [--seed 0] [--out docs/figures/multi_target.png]

A camera with k sensors instead of 64 shall restore handwritten digits (scikit-learn's, 8 x 8 pixels): 64 targets, each
pixel, explained by the same k pixels. `SparseRegressor(k=10).fit(X, X)` chooses them for all targets together. Beside
it the pixels with the largest variance, pixels at random, and principal components, which no choice of k pixels can
beat on the rows of the fit, but which have to read all 64.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

import ellzero as ez

LEVELS = [2, 4, 6, 8, 10, 13, 16, 20, 25, 30]
SHARED, LARGEST, RANDOM, BOUND = "#0072B2", "#D55E00", "#CC79A7", "0.45"


def main(k: int = 10, seed: int = 0, out: str | Path = "docs/figures/multi_target.png") -> dict[str, Any]:
    """Choose pixels in each of these ways, print what is left of the pictures held out, draw."""
    images = load_digits().data
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    fit, held_out = images[order[:1200]], images[order[1200:]]
    curves = {
        "best for all targets": [_shared(fit, held_out, level) for level in LEVELS],
        "the largest variances": [_largest(fit, held_out, level) for level in LEVELS],
        "at random, the median": [_random(fit, held_out, level, rng) for level in LEVELS],
        "principal components": [_components(fit, held_out, level) for level in LEVELS],
    }
    for name, rows in curves.items():
        print(f"{name:<24}" + "".join(f"{int(pixels):>5}:{left:>6.1%}" for pixels, left in rows))
    model = ez.SparseRegressor(k=k).fit(fit, fit)
    print(f"{k} pixels: {model.get_support(indices=True).tolist()}")
    print(f"picture: {draw(curves, model, held_out, out)}")
    return {"curves": curves, "model": model}


def left_over(held_out: np.ndarray, restored: np.ndarray, centre: np.ndarray) -> float:
    """The share of the variance that is not restored."""
    return float(np.sum((held_out - restored) ** 2) / np.sum((held_out - centre) ** 2))


def _shared(fit: np.ndarray, held_out: np.ndarray, k: int) -> tuple[int, float]:
    model = ez.SparseRegressor(k=k).fit(fit, fit)
    return int(model.get_support().sum()), left_over(held_out, model.predict(held_out), fit.mean(axis=0))


def _restored(fit: np.ndarray, held_out: np.ndarray, pixels: np.ndarray) -> float:
    """What is left over if all others are predicted from these."""
    model = LinearRegression().fit(fit[:, pixels], fit)
    return left_over(held_out, model.predict(held_out[:, pixels]), fit.mean(axis=0))


def _random(fit: np.ndarray, held_out: np.ndarray, k: int, rng: np.random.Generator) -> tuple[int, float]:
    choices = [rng.choice(fit.shape[1], k, replace=False) for _ in range(20)]
    return k, float(np.median([_restored(fit, held_out, pixels) for pixels in choices]))


def _largest(fit: np.ndarray, held_out: np.ndarray, k: int) -> tuple[int, float]:
    return k, _restored(fit, held_out, np.argsort(-fit.var(axis=0))[:k])


def _components(fit: np.ndarray, held_out: np.ndarray, k: int) -> tuple[int, float]:
    model = PCA(k).fit(fit)
    return k, left_over(held_out, model.inverse_transform(model.transform(held_out)), fit.mean(axis=0))


def draw(curves: dict[str, Any], model: Any, held_out: np.ndarray, out: str | Path) -> Path:
    """Pictures on the left, curves on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.05, 1.0))
    pixels = model.get_support(indices=True)
    rows = held_out[[int(np.argmax(load_digits_labels(held_out) == digit)) for digit in (0, 2, 3, 5, 8)]]
    axes = left.subplots(3, len(rows))
    measured = np.full_like(rows, np.nan)
    measured[:, pixels] = rows[:, pixels]
    titles = ("the picture", f"{pixels.size} pixels of it", "restored")
    for line, (title, shown) in enumerate(zip(titles, (rows, measured, model.predict(rows)), strict=True)):
        for ax, image in zip(axes[line], shown, strict=True):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            ax.set_facecolor("#DCE6F0")
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color("0.7")
        axes[line, 0].set_ylabel(title, fontsize=10)
    left.suptitle("digits that the fit has not seen", fontsize=11)
    ax = right.subplots()
    for (name, points), color, style in zip(
        curves.items(), (SHARED, LARGEST, RANDOM, BOUND), ("o-", "s-", "^-", "--"), strict=True
    ):
        read, left_of = np.array(points).T
        ax.plot(read, left_of, style, color=color, ms=5, lw=1.6, label=name)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", lw=0.8)
    ax.set(xlabel="pixels that have to be read (components)", ylabel="variance not restored, held out", ylim=(0, None))
    ax.yaxis.set_major_formatter("{x:.0%}")
    ax.set_title("one choice of pixels for 64 targets", fontsize=11)
    ax.legend(frameon=False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def load_digits_labels(held_out: np.ndarray) -> np.ndarray:
    """Which digits these are."""
    data = load_digits()
    known = {image.tobytes(): label for image, label in zip(data.data, data.target, strict=True)}
    return np.array([known[image.tobytes()] for image in held_out])


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=10, help="how many pixels are read (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="which pictures are held out (default 0)")
    parser.add_argument("--out", default="docs/figures/multi_target.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
