"""Small pictures of results: axes in, axes out, and one colour for a method in every figure.

Needs matplotlib: ``pip install ellzero[plot]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import to_host
from .._core.lazy import need
from ..solver.result import History, Result
from .base import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["convergence", "styles", "weights_by_group"]

#: the group of each coordinate
Labels = Sequence[Any] | None
#: of groups: one for all, or one for each
Caps = float | Mapping[Any, float] | None

# Okabe and Ito's palette, which colour-blind readers can tell apart; its yellow is too pale for lines
_BLUE, _VERMILLION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_ORANGE, _SKY, _BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#666666"
_SPARE = (_SKY, _BLACK, _ORANGE, _GREEN, _PURPLE, _VERMILLION, _BLUE, GREY)

# A method that knows no Γ has the colour of its constrained sister, dashed.
_STYLES = {
    "IHT-2SP": (_BLUE, "-"),
    "FG-HT-2SP": (_BLUE, "-"),
    "IHT": (_BLUE, "--"),
    "HSG-HT-2SP": (_ORANGE, "-"),
    "HSG-HT": (_ORANGE, "--"),
    "HZO-HT-2SP": (_GREEN, "-"),
    "HZO-HT": (_GREEN, "--"),
    "ZOHT": (_SKY, "--"),
    "StoIHT": (GREY, "--"),
    "SVRG-HT": (_BLACK, "--"),
    "PGD": (_SKY, "-"),
    "PGD+H": (_VERMILLION, "-"),
    "IHT+P": (_PURPLE, "-"),
    "auto": (_BLACK, "-"),
    "exact": (GREY, "-"),
    "portfolio": (_BLUE, "-"),
    "weights": (_BLUE, "-"),
    "index": (_BLACK, "-"),
}

_LABELS = {
    "iteration": "iteration",
    "time": "seconds",
    "step": "step size",
    "change": "relative change of w",
    "n_gradients": "gradients of single terms",
    "n_values": "function values",
    "n_thresholds": "hard thresholdings",
    "n_monitor": "monitored values",
}


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The colour and line style of each name: fixed for the library's methods, the next free one for others.

    Examples
    --------
    >>> from ellzero.displays.plot import styles
    >>> styles(["IHT-2SP", "IHT", "my own"])["IHT"]
    {'color': '#0072B2', 'linestyle': '--'}
    """
    taken = {_STYLES[name][0] for name in names if name in _STYLES}
    free = [color for color in _SPARE if color not in taken] or list(_SPARE)
    chosen, others = {}, 0
    for name in names:
        if name in _STYLES:
            color, line = _STYLES[name]
        else:
            color, line = free[others % len(free)], "-" if others < len(free) else ":"
            others += 1
        chosen[name] = {"color": color, "linestyle": line}
    return chosen


def convergence(results: Mapping[str, Result], ax: Axes | None = None, x: str = "iteration") -> Axes:
    """R of the iterates, a line for each result, and a dot for the R of its answer.

    The dot lies off the line where a method repairs its last point at the end ("PGD+H", "IHT+P"): its iterates
    break one of the two constraints, so that their objective may be lower than any feasible one. The objective
    has a logarithmic axis where it is positive and spans more than a factor of ten.

    Parameters
    ----------
    results : mapping from name to Result
        The names become the legend.
    ax : matplotlib Axes, optional
        Where to draw; new axes by default.
    x : str
        "iteration", or a column of `History` such as "time" or "n_gradients".

    Examples
    --------
    >>> import ellzero as ez
    >>> import matplotlib.pyplot as plt
    >>> problem = ez.datasets.make_regression(50, 20, 3)
    >>> res = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k=3, method="IHT")
    >>> ax = ez.plot.convergence({"IHT": res}, ax=plt.figure().subplots())
    >>> ax.get_xlabel(), ax.get_yscale()
    ('iteration', 'log')
    >>> plt.close()
    """
    if x not in ("iteration", *History.columns) or x == "fun":
        known = [name for name in History.columns if name != "fun"]
        raise ValueError(f"x must be 'iteration' or one of {', '.join(known)}, got {x!r}")
    ax = _axes(ax)
    seen: list[float] = []
    for name, style in styles(list(results)).items():
        res = results[name]
        fun = res.history.fun
        along = np.arange(len(res.history)) if x == "iteration" else getattr(res.history, x)
        drawn = np.isfinite(fun) & np.isfinite(along)
        ax.plot(along[drawn], fun[drawn], label=name, lw=1.6, **style)
        if along.size and np.isfinite(along[-1]):
            if drawn[-1] and fun[-1] != res.fun:
                ax.plot(along[[-1, -1]], [fun[-1], res.fun], color=style["color"], lw=0.8, ls=":")
            ax.plot(along[-1:], [res.fun], "o", ms=6, mec="white", color=style["color"], zorder=3, clip_on=False)
        seen += [*fun[drawn].tolist(), res.fun]
    if seen and 0 < 10 * min(seen) < max(seen):
        ax.set_yscale("log")
    if x == "iteration":
        ax.locator_params(axis="x", integer=True)
    ax.set_xlabel(_LABELS[x])
    ax.set_ylabel("objective R(w)")
    tidy(ax, "y")
    ax.legend(frameon=False)
    return ax


def weights_by_group(
    weights: Mapping[str, Any], groups: Sequence[Any], cap: Caps = None, ax: Axes | None = None
) -> Axes:
    """Σ|w_i| over each group, a bar for each vector, and the cap as a line across the bars.

    Parameters
    ----------
    weights : mapping from name to vector of shape (d,)
    groups : sequence of d labels
        Coordinates labelled None are in no group and left out. The groups come in the order of their weight in
        the first vector.
    cap : float, or mapping from group to float, optional
    ax : matplotlib Axes, optional
        Where to draw; new axes by default.

    Examples
    --------
    >>> import ellzero as ez
    >>> import matplotlib.pyplot as plt
    >>> weights = {"IHT-2SP": [0.1, 0.0, -0.3]}
    >>> ax = ez.plot.weights_by_group(weights, ["tech", "tech", "energy"], cap=0.3, ax=plt.figure().subplots())
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['energy', 'tech']
    >>> plt.close()
    """
    labels = list(groups)
    members: dict[Any, list[int]] = {}
    for i, label in enumerate(labels):
        if label is not None and label == label:
            members.setdefault(label, []).append(i)
    sums = {}
    for name, w in weights.items():
        size = np.abs(to_host(np.asarray(w) if isinstance(w, (list, tuple)) else w))
        if size.shape != (len(labels),):
            raise ValueError(
                f"the weights of {name!r} have shape {size.shape}, and groups has {len(labels)} labels; "
                "one label is needed for each weight"
            )
        sums[name] = {label: float(size[index].sum()) for label, index in members.items()}
    ax = _axes(ax)
    order = list(members)
    if sums:
        first = next(iter(sums.values()))
        order.sort(key=lambda label: -first[label])
    bars(ax, {name: [sums[name][label] for label in order] for name in sums}, order)
    if cap is not None:
        caps, place = [cap.get(g, np.nan) if isinstance(cap, Mapping) else cap for g in order], np.arange(len(order))
        ax.vlines(caps, place - 0.5, place + 0.5, color="black", lw=1.2, ls="--", label="cap")
    ax.set_xlabel("Σ|w| of the group")
    legend_above(ax)
    return ax


def bars(ax: Axes, values: Mapping[str, Any], labels: Sequence[Any]) -> None:
    """Horizontal bars from the top, one of each name beside every label."""
    place, height = np.arange(len(labels)), 0.8 / max(len(values), 1)
    for j, (name, style) in enumerate(styles(list(values)).items()):
        offset = (j - (len(values) - 1) / 2) * height
        ax.barh(place + offset, values[name], height, color=style["color"], label=name)
    ax.set_yticks(place, [str(label) for label in labels])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.45, -0.55)
    tidy(ax, "x")


def legend_above(ax: Axes) -> None:
    """Bars fill the inside."""
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    pyplot = need("matplotlib.pyplot", "ellzero.plot needs matplotlib: pip install ellzero[plot]")
    axes: Axes = pyplot.figure(layout="constrained").subplots()
    return axes
