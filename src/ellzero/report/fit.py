"""How well an answer fits: the share that it explains, residuals, and which classes are mistaken for which."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import PredictionErrorDisplay, accuracy_score, confusion_matrix, d2_tweedie_score, r2_score

from .._core.arrays import to_host
from .._core.blocks import Html, facts, paragraph, table
from .figures import picture

_MOST = 1000  # rows that are drawn
_CLASSES = 12  # that fit into a table
#: losses whose deviance is Tweedie's, with its power
_TWEEDIE = {"poisson": 1, "gamma": 2}


@dataclass
class Fit:
    """y beside what the model says of the same rows: numbers, or labels.

    Attributes
    ----------
    y, predicted : array of shape (n_samples,) or (n_samples, n_targets)
    loss : str
        Whose deviance is told beside R².
    explained : dict from words to numbers
        More shares that are known.
    """

    y: np.ndarray
    predicted: np.ndarray
    loss: str = "squared"
    explained: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.y, self.predicted = to_host(np.asarray(self.y)), to_host(np.asarray(self.predicted))
        if self.y.shape != self.predicted.shape:
            raise ValueError(
                f"target and predicted must have the same shape, got {self.y.shape} and {self.predicted.shape}; give "
                "the target of the rows that were predicted"
            )

    @property
    def numeric(self) -> bool:
        """Whether these are numbers, not labels."""
        return self.predicted.dtype.kind == "f"

    @property
    def spread(self) -> float:
        """The standard deviation of one numeric target; 0 where there is none."""
        return float(np.std(self.y)) if self.numeric and self.y.ndim == 1 else 0.0

    def shares(self) -> dict[str, str]:
        """R², the deviance explained, or the accuracy."""
        told = {name: f"{value:.4g}" for name, value in self.explained.items()}
        if not self.numeric:
            return {"accuracy": f"{accuracy_score(self.y, self.predicted):.2%}", **told}
        if len(self.y) < 2:
            return told
        r2 = r2_score(self.y, self.predicted, multioutput="raw_values")
        told = {"R²": ", ".join(f"{value:.4g}" for value in np.atleast_1d(r2)), **told}
        if self.loss in _TWEEDIE and self.y.ndim == 1:
            deviance = d2_tweedie_score(self.y, self.predicted, power=_TWEEDIE[self.loss])
            told["deviance explained"] = f"{deviance:.4g}"
        error = np.sqrt(np.mean((self.y - self.predicted) ** 2, axis=0))
        told["root mean squared error"] = ", ".join(f"{value:.4g}" for value in np.atleast_1d(error))
        return told

    def sections(self, titles: Sequence[str] = ()) -> list[Html]:
        """The blocks of a report."""
        shown = [facts({"rows": len(self.y), **self.shares()})]
        if not self.numeric:
            return shown + self._confusion()
        if self.y.ndim > 1:
            return shown
        rows = np.linspace(0, len(self.y) - 1, min(len(self.y), _MOST)).astype(int)
        display = PredictionErrorDisplay(y_true=self.y[rows], y_pred=self.predicted[rows])
        some = f" {rows.size} of {len(self.y)} rows are drawn." if rows.size < len(self.y) else ""
        look = {"scatter_kwargs": {"color": "#0072B2", "alpha": 0.5, "s": 12}}
        for kind, text, alt in (
            ("actual_vs_predicted", "What was observed against what the model says.", "observed against predicted"),
            ("residual_vs_predicted", "What is left: a pattern here is something that the model misses.", "residuals"),
        ):
            shown.append(picture(_drawer(display, kind, look), 3.0, text + some, alt, legend=False))
        return shown

    def _confusion(self) -> list[Html]:
        labels = np.unique(np.concatenate([self.y, self.predicted]))
        if labels.size > _CLASSES:
            return [paragraph(f"{labels.size} classes are too many for a table of which is taken for which.")]
        counts = confusion_matrix(self.y, self.predicted, labels=labels)
        rows: list[dict[str, Any]] = [
            {"is": str(label), **{f"said {said}": int(n) for said, n in zip(labels, row, strict=True)}}
            for label, row in zip(labels, counts, strict=True)
        ]
        return [table(rows, "classes, and what the model says they are", sort=False)]


def _drawer(display: PredictionErrorDisplay, kind: str, look: dict[str, Any]) -> Any:
    def draw(ax: Any) -> None:
        display.plot(ax=ax, kind=kind, **look)
        ax.set_aspect("auto")  # its squares are small on a wide page
        ax.spines[["top", "right"]].set_visible(False)

    return draw
