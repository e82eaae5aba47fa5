"""What `fit`, `path` and `certify` ask, and how they look for the answer, with bars and reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..loop import minimize
from ..result import Result
from ..risks import LeastSquares, Logistic, Multinomial
from ..risks._linear import LinearModel
from ..sets import ConstraintSet
from .inputs import Data, constraint_of, read_data, read_groups
from .screen import Screen


class Question:
    """What `fit`, `path` and `certify` ask: the data, the risk and Γ, from their options."""

    def __init__(
        self,
        data: str,
        target: str | None,
        kind: str | None,
        loss: str,
        constraints: tuple[ConstraintSet, ...],
        groups: str | None,
        keep: tuple[str, ...],
        ridge: float | None,
        intercept: bool,
    ) -> None:
        self.data = read_data(data, target, kind, labels=loss == "logistic")
        self.loss, self.ridge, self.intercept = loss, ridge, intercept
        labels = None if groups is None else read_groups(groups, self.data.names)
        self.classes = np.unique(self.data.y) if loss == "logistic" else None
        self.keep = self.data.places(keep, "--keep")
        self.constraint = constraint_of(constraints, labels)
        self.names, self.labels = self.data.names, labels
        self.risk = self.risk_of(self.data)
        if self.classes is not None and self.classes.size > 2:  # a block of coefficients for each class
            self.names = [f"{label}: {name}" for label in self.classes for name in self.data.names]
            self.labels = None if labels is None else labels * self.classes.size
            self.keep = [i + j * len(self.data.names) for j in range(self.classes.size) for i in self.keep]

    def risk_of(self, data: Data) -> LinearModel:
        """The risk on some rows."""
        from ..models._base import mean_variance
        from ..models._reading import read_loss

        options: dict[str, Any] = {"fit_intercept": self.intercept, "ridge": self.ridge or 0.0}
        if self.classes is not None:
            if self.classes.size < 2:
                raise ValueError(f"{data.path}: the target has one class only, {self.classes[0]!r}; two are needed")
            if self.ridge is None:  # without any, separable classes have no finite answer
                options["ridge"] = 0.01 * mean_variance(self.data.X, None)
            return (Logistic if self.classes.size == 2 else Multinomial)(data.X, data.y, **options)
        made = LeastSquares if self.loss == "squared" else read_loss(self.loss, self.data.y, None)
        return made(data.X, data.y, **options)  # type: ignore[return-value]

    def k(self, k: int | float) -> int:
        """k, from a number or a fraction."""
        from ..models._reading import read_k

        return read_k(k, self.risk.n_features, len(self.keep), "--k")

    def describe(self) -> dict[str, Any]:
        """For machines."""
        from ..report import fingerprint

        rows, columns = self.data.shape
        return {
            "data": self.data.path,
            "sha256": fingerprint(self.data.path),
            "rows": rows,
            "columns": columns,
            "loss": self.loss,
            "ridge": self.risk.ridge,
            "intercept": self.intercept,
        }

    def headline(self) -> str:
        """For people."""
        rows, columns = self.data.shape
        classes = "" if self.classes is None else f", {self.classes.size} classes"
        return f"{self.data.path}: {rows} rows, {columns} columns{classes}; {self.loss} loss"


def solve(screen: Screen, question: Question, k: int, method: str, seed: int, **limits: Any) -> Result:
    """`minimize`, with a bar."""
    with screen.progress(f"fitting, k = {k}"):
        return minimize(question.risk, k, question.constraint, method, keep=question.keep, rng=seed, **limits)


def prove(screen: Screen, risk: Any, result: Result, seconds: float | None, target_gap: float | None) -> Any:
    """`certify`, with a bar that shows the gap closing; the certificate becomes the result's."""
    from ..certificates import certify

    def watch(now: Any) -> None:
        gap = (now.incumbent - now.bound) / abs(now.incumbent) if now.incumbent else 0.0
        update(int(now.time), f"{now.nodes} nodes, gap {gap:.2%}")

    with screen.progress("proving", None if seconds is None else max(1, round(seconds))) as update:
        result.certificate = certify(risk, result, seconds, target_gap, callback=watch)
    return result.certificate


def write_page(screen: Screen, path: str | None, result: Result, question: Question, seed: int, **more: Any) -> None:
    """The HTML file."""
    if path is None:
        return
    from ..report import write_report

    write_report(
        result,
        path,
        title=more.pop("title", f"{question.data.path}: {result.support.size} nonzeros"),
        feature_names=question.names,
        groups=question.labels,
        data={question.data.path: question.data.path},
        seed=seed,
        command=screen.command,
        **more,
    )
    screen.say(f"report: {path}")


def intercept_of(question: Question, result: Result) -> Any:
    """b, or one for each class."""
    found = np.asarray(question.risk.intercept(result.x), dtype=float)
    return found.tolist() if found.ndim and found.size > 1 else float(found.ravel()[0])
