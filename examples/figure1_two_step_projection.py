"""Figure 1 of the paper, redrawn: the two-step projection in two dimensions (d = 2, k = 1).

    python examples/figure1_two_step_projection.py [--out docs/figures]

On the left a set Γ that preserves supports: the second step stays on the axis that the first one chose, so its
result is sparse and in Γ. It need not be the nearest such point. On the right a set that does not: the second
step leaves the axis. Every point and both outlines are computed by ellzero.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import ellzero as ez

BLUE, VERMILLION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
W = np.array([1.85, 1.7])


class Egg(ez.sets.ConstraintSet):
    """argmin ||w - v|| over Σ_i (w_i / s_i)² <= 1, where the half-axis s_i depends on the sign of w_i.

    A quarter of an ellipse in each quadrant. The nearest member has the signs of v (zeroing an entry of another
    sign would bring a member closer), so it is the nearest point of that quadrant's ellipse.
    """

    closed_under_zeroing = True

    def __init__(self, negative: list[float], positive: list[float]) -> None:
        self.negative, self.positive = np.array(negative), np.array(positive)
        self.n_features = 2

    def project(self, v: np.ndarray, support: np.ndarray | None = None) -> np.ndarray:
        """The projection onto the slice of this support."""
        part = slice(None) if support is None else support
        scales = np.where(v >= 0, self.positive[part], self.negative[part])
        return ez.sets.Ellipsoid(scales, 1.0).project(v)


EGG = Egg(negative=[0.6, 0.7], positive=[0.9, 1.5])
FLOOR = ez.sets.Box([-0.6, 0.4], [0.9, 1.5])


def main(out: str | Path = "docs/figures", name: str = "two_step_projection") -> list[Path]:
    """Write the figure as PNG and SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": name, "font.size": 10.5}):
        figure = Figure(figsize=(10.4, 4.75))
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(0.01, 0.01, 0.99, 0.9, wspace=0.03)
        draw_preserving(left)
        draw_not_preserving(right)
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(paths[0], dpi=110)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def draw_preserving(ax: Any) -> None:
    """Left: the two steps, and the Euclidean projection onto the sparse members of Γ."""
    kept = ez.hard_threshold(W, k=1)
    result = ez.two_step_projection(W, k=1, constraint=EGG)
    nearest = nearest_sparse_member(EGG, W)
    draw_set(ax, EGG)
    arrow(ax, W, nearest, GREEN, "dashed")
    arrow(ax, W, kept, VERMILLION)
    arrow(ax, kept, result, VERMILLION)
    dot(ax, W, "$w$", (6, 6))
    dot(ax, kept, "$H_1(w)$", (4, -17), VERMILLION)
    dot(ax, result, r"$\Pi_\Gamma(H_1(w))$", (6, -17), VERMILLION)
    dot(ax, nearest, "nearest sparse\nmember of Γ", (-9, 12), GREEN, ha="right")
    ax.text(W[0] + 0.06, 0.85, "1. keep the\nlargest entry", color=VERMILLION, va="center")
    ax.text(1.4, 0.07, "2. project", color=VERMILLION, ha="center")
    ax.text(0.3, 0.62, "Γ", fontsize=15, color=BLUE)
    ax.annotate("the sparse\nmembers of Γ", (-0.3, 0), (-0.98, -1.12), color=BLUE, arrowprops=pointer(BLUE))
    ax.annotate("the axes: at most\none nonzero", (2.4, -0.01), (1.6, -1.12), color=GREY, arrowprops=pointer(GREY))
    ax.set_title("Γ preserves supports:\nstep 2 stays on the axis of step 1", fontsize=11)


def draw_not_preserving(ax: Any) -> None:
    """Right: a floor under the second coordinate, which H_1 has set to zero."""
    kept = ez.hard_threshold(W, k=1)
    result = FLOOR.project(kept)
    assert np.count_nonzero(result) == 2
    draw_set(ax, FLOOR)
    arrow(ax, W, kept, VERMILLION)
    arrow(ax, kept, result, VERMILLION)
    dot(ax, W, "$w$", (6, 6))
    dot(ax, kept, "$H_1(w)$", (4, -17), VERMILLION)
    dot(ax, result, r"$\Pi_\Gamma(H_1(w))$" + "\ntwo nonzeros", (7, 5), VERMILLION)
    ax.text(0.3, 0.85, "Γ", fontsize=15, color=BLUE)
    ax.annotate(r"floor $w_2 \geq 0.4$", (0.35, 0.4), (0.3, -0.6), color=BLUE, arrowprops=pointer(BLUE))
    ax.set_title("Γ does not:\nstep 2 leaves the axis, the result is not sparse", fontsize=11)


def nearest_sparse_member(constraint: ez.sets.ConstraintSet, w: np.ndarray) -> np.ndarray:
    """The Euclidean projection onto Γ ∩ {at most one nonzero}: the better of the two axes."""
    members = []
    for axis in range(w.size):
        member = np.zeros(w.size)
        member[axis] = constraint.project(w[[axis]], np.array([axis]))[0]
        members.append(member)
    return min(members, key=lambda member: float(np.sum((member - w) ** 2)))


def draw_set(ax: Any, constraint: ez.sets.ConstraintSet) -> None:
    """Γ, the axes, and the part of the axes inside Γ."""
    angles = np.linspace(0, 2 * np.pi, 721)
    outline = np.array([constraint.project(20 * np.array([np.cos(a), np.sin(a)])) for a in angles])
    ax.fill(*outline.T, facecolor="#DCEBF5", edgecolor=BLUE, lw=1.4)
    ax.axhline(0, color=GREY, lw=1)
    ax.axvline(0, color=GREY, lw=1)
    for axis in range(2):  # the slice of Γ on this axis: project two far points onto it
        ends = np.zeros((2, 2))
        try:
            for end, far in zip(ends, (-20.0, 20.0), strict=True):
                end[axis] = constraint.project(np.array([far]), np.array([axis]))[0]
        except ez.sets.EmptySlice:
            continue
        ax.plot(*ends.T, color=BLUE, lw=4, solid_capstyle="butt")
    ax.set(xlim=(-1.25, 2.75), ylim=(-1.2, 2.05), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.text(2.72, 0.05, "$w_1$", color=GREY, ha="right")
    ax.text(0.05, 1.97, "$w_2$", color=GREY, va="center")


def arrow(ax: Any, start: np.ndarray, end: np.ndarray, color: str, style: str = "solid") -> None:
    """From one point to the next."""
    shape = {"arrowstyle": "-|>", "color": color, "lw": 1.6, "linestyle": style, "shrinkA": 5, "shrinkB": 5}
    ax.annotate("", end, start, arrowprops=shape)


def pointer(color: str) -> dict[str, Any]:
    """A thin line from a label to what it names."""
    return {"arrowstyle": "-", "color": color, "lw": 0.8}


def dot(
    ax: Any, at: np.ndarray, label: str, offset: tuple[float, float], color: str = "black", ha: str = "left"
) -> None:
    """A point with its name beside it, offset in typographic points."""
    ax.plot(*at, "o", color=color, ms=7, mec="white", zorder=5)
    ax.annotate(
        label, at, offset, textcoords="offset points", color=color, ha=ha, va="center" if ha == "right" else "baseline"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", default="docs/figures", help="folder of the figures (default docs/figures)")
    for path in main(parser.parse_args().out):
        print(f"picture: {path}")
