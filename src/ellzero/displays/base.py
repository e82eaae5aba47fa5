"""What the displays share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from .._core.lazy import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display:
    """Keeps the axes it was drawn on, ``ax_``, and their ``figure_``."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _keep(self, ax: Axes) -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of its own (not pyplot's, so that nothing stays open) and its axes."""
    module = need("matplotlib.figure", "pictures need matplotlib: pip install ellzero[plot]")
    figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def tidy(ax: Axes, grid: Literal["x", "y", "both"] = "both") -> None:
    """Fewer lines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color="0.9", lw=0.8)


def fitted(estimator: Any, attribute: str) -> Any:
    """An attribute that only fitted estimators have."""
    if (value := getattr(estimator, attribute, None)) is None:
        raise ValueError(
            f"estimator must be fitted and have {attribute}, got {type(estimator).__name__} without it; call fit "
            "first, or use an estimator that makes it"
        )
    return value


def coordinate_names(given: Sequence[str] | None, size: int, classes: Any = None) -> list[str]:
    """A name for every coordinate; of several classes or targets, one after the other, with the name of these."""
    names = [f"x{i}" for i in range(size)] if given is None else [str(name) for name in given]
    if len(names) < size and classes is not None and len(names) * len(classes) == size:
        names = [f"{label}: {name}" for label in classes for name in names]
    if len(names) != size:
        raise ValueError(f"feature_names must have a name for each of the {size} coordinates, got {len(names)}")
    return names


def names_seen(estimator: Any, size: int) -> list[str]:
    """The names of the coordinates of a fitted estimator."""
    names = getattr(estimator, "feature_names_in_", getattr(estimator, "feature_names", None))
    if names is None and hasattr(estimator, "n_features_in_"):
        names = coordinate_names(None, estimator.n_features_in_)
    return coordinate_names(names, size, outputs_of(estimator))


def outputs_of(estimator: Any) -> Any:
    """The classes or targets of a fitted estimator that has several; None otherwise."""
    return getattr(estimator, "classes_", getattr(estimator, "targets_", None))


def name_of(names: Sequence[str] | None, i: Any) -> str:
    """The name of a coordinate."""
    return f"x{i}" if names is None else str(names[i])
