"""What all figures of the experiments share."""

from __future__ import annotations

from typing import Any

import numpy as np

GREY = "#666666"


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of its own (not pyplot's, so that nothing stays open) and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the experiments draw figures: pip install ellzero[plot]") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def tidy(*axes: Any) -> None:
    """Fewer lines."""
    for ax in np.ravel(np.asarray(axes, dtype=object)):
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
        ax.grid(color="0.9", lw=0.8)
