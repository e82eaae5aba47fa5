"""What the displays share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display:
    """Keeps the axes it was drawn on."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _keep(self, ax: Axes) -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self


def fitted(estimator: Any, attribute: str) -> Any:
    """An attribute that only fitted estimators have."""
    value = getattr(estimator, attribute, None)
    if value is None:
        raise ValueError(
            f"estimator must be fitted and have {attribute}, got {type(estimator).__name__} without it; call fit "
            "first, or use an estimator that makes it"
        )
    return value


def name_of(names: Sequence[str] | None, i: Any) -> str:
    """The name of a coordinate."""
    return f"x{i}" if names is None else str(names[i])
