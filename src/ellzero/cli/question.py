"""What `fit`, `path` and `certify` ask, and how they look for the answer, with bars and reports."""

from typing import Any

import click
import numpy as np

from ..displays.base import coordinate_names
from ..estimators.request import CLASS_LOSSES, Request, classifier_ridge, read_classes, read_loss
from ..risks import LinearModel
from ..sets import ConstraintSet
from ..solver.result import Result
from .files import Data, read_data
from .inputs import constraint_of, read_groups
from .outputs import INTERCEPT, answer_of, weights_of, write_html
from .screen import Screen


class Question:
    """What `fit`, `path` and `certify` ask: the data, the risk and Γ, from their options."""

    def __init__(
        self,
        data: str,
        target: tuple[str, ...],
        kind: str | None,
        loss: str | tuple[str, float],
        offset: str | None,
        constraints: tuple[ConstraintSet, ...],
        bounds: tuple[tuple[str, Any], ...],
        groups: str | None,
        whole_groups: bool,
        at_most: int | None,
        keep: tuple[str, ...],
        ridge: float | None,
        intercept: bool,
        standardize: bool,
        **how: Any,
    ) -> None:
        if len(target) > 1 and loss != "squared":
            raise click.UsageError(f"several '--target' are for the squared loss, got '--loss {loss}'")
        self.data = read_data(data, target, kind, labels=loss in CLASS_LOSSES, **how)
        self.offset = offset
        if offset is not None:
            self.data = self.data.without_offset(offset)
        self.loss = loss if isinstance(loss, str) else f"{loss[0]}:{loss[1]:g}"
        self.intercept, self.ridge = intercept, ridge or 0.0
        labels = None if groups is None else read_groups(groups, self.data.names, self.data.X)
        self.targets, self.target, self.kept = target, ", ".join(target) or None, keep
        self.classes = None
        if loss in CLASS_LOSSES:
            self.classes = np.unique(self.data.y)
            if self.classes.size < 2:
                raise ValueError(f"{data}: the target has one class only, {self.classes[0]!r}; two are needed")
            self.ridge = classifier_ridge(self.data.X) if ridge is None else ridge
        y = self.data.y
        if self.classes is None:
            self.maker = read_loss(loss, y if y.ndim > 1 or offset is None else y - self.data.offset, None)
        else:
            self.maker = read_classes(y, None, loss)
        self.risk = self.risk_of(self.data)
        counted: dict[str, Any] = {"select": "groups" if whole_groups else "features", "at_most": at_most}
        self.data.places([name for name, _ in bounds], "--bound")
        asked = constraint_of(constraints, bounds, labels, **counted), labels, self.data.places(keep, "--keep")
        names = np.array(self.data.names, dtype=object)
        self.request = Request.read(self.risk, *asked, standardize, names, **counted)
        self.outputs = target if self.classes is None else self.classes
        self.names = coordinate_names(self.data.names, self.risk.n_features, self.outputs)
        self.labels = labels and labels * self.risk.n_outputs  # a group that is counted is one of all outputs
        if labels and constraints:
            self.labels = coordinate_names(labels, self.risk.n_features, self.outputs)

    def risk_of(self, data: Data) -> LinearModel:
        """The risk on some rows."""
        return self.maker(data.X, data.y, ridge=self.ridge, fit_intercept=self.intercept, offset=data.offset)

    def k(self, k: int | float) -> int:
        """k, from a number or a fraction."""
        return self.request.k(k, self.risk, "--k", strict=True)

    def ks(self, ks: int | list[int]) -> list[int]:
        """Several k."""
        return self.request.ks(ks, self.risk, "--ks", strict=True)

    def describe(self) -> dict[str, Any]:
        """For machines."""
        from ..report import fingerprint

        rows, columns = self.data.shape
        return {
            "data": str(self.data.path),
            "sha256": fingerprint(self.data.path),
            "rows": rows,
            "columns": columns,
            "target": self.target,
            "targets": list(self.targets),
            "classes": None if self.classes is None else self.classes.tolist(),
            "loss": self.loss,
            "offset": self.offset,
            "ridge": self.risk.ridge,
            "intercept": self.intercept,
        }

    def answered(self, result: Result) -> dict[str, Any]:
        """A result, for machines: b is one number, or one for each class or target."""
        b = np.ravel(np.asarray(self.risk.intercept(result.x), dtype=float)).tolist()
        return {
            "question": self.describe(),
            "answer": answer_of(result),
            "intercept": b if len(b) > 1 else b[0],
            "weights": weights_of(result.x, self.names, self.labels),
            **self._prepared(result),
        }

    def _prepared(self, result: Result) -> dict[str, Any]:
        """What `predict` has to do to the columns of other files before it can use the weights."""
        if self.data.preparation is None:
            return {}
        used = {self.data.names[i % len(self.data.names)] for i in result.support.tolist()}
        return {"preparation": self.data.preparation.only(used).as_dict()}

    def headline(self) -> str:
        """For people."""
        rows, columns = self.data.shape
        classes = "" if self.classes is None else f", {self.classes.size} classes"
        seen = f"{self.data.path}: {rows} rows, {columns} columns{classes}; {self.loss} loss{self._smoothed()}"
        return "\n".join([seen, *(f"  {words}" for words in self.data.told)])

    def _smoothed(self) -> str:
        """By how much a loss was changed to be smooth, if it was."""
        error = getattr(self.risk, "smoothing_error", None)
        return "" if error is None else f", smoothed: at most {error:.3g} below the pinball loss"

    def tell(self) -> dict[str, str]:
        """For the readers of a report."""
        rows, columns = self.data.shape
        return {
            "data": f"{self.data.path}, {rows} rows, {columns} columns",
            "explained": "the labels of the file" if self.target is None else self.target,
            **({} if self.classes is None else {"classes": ", ".join(map(str, self.classes))}),
            **({"prepared": "; ".join(self.data.told)} if self.data.told else {}),
            "loss": self.loss + self._smoothed(),
            **({} if self.offset is None else {"offset": self.offset}),
            "ridge": f"{self.risk.ridge:.6g}",
            "intercept": "fitted; not counted, constrained or penalised" if self.intercept else "none",
            **({"always kept": ", ".join(self.kept)} if self.kept else {}),
        }

    def fitted(self, result: Result) -> dict[str, Any]:
        """The target, and what the model says of its rows."""
        z = np.asarray(self.risk.predict(result.x), dtype=float)
        if self.classes is None:
            return {"target": self.data.y, "predicted": np.exp(z) if self.loss in ("poisson", "gamma") else z}
        said = z.argmax(axis=1) if z.ndim > 1 else (z > 0).astype(int)
        return {"target": self.data.y, "predicted": self.classes[said]}

    def spread(self) -> np.ndarray | None:
        """The standard deviation of every column; those of sparse data would fill them up."""
        return self.data.X.std(axis=0) if isinstance(self.data.X, np.ndarray) else None

    def intercept_rows(self, x: Any) -> list[dict[str, Any]]:
        """b, or one for each class or target, as rows of a file of weights."""
        if not self.intercept:
            return []
        found = np.ravel(np.asarray(self.risk.intercept(x), dtype=float)).tolist()
        names = coordinate_names([INTERCEPT], len(found), self.outputs)
        return [{"name": name, "weight": value} for name, value in zip(names, found, strict=True)]


def solve(screen: Screen, question: Question, k: int, method: str, seed: int, **limits: Any) -> Result:
    """`minimize`, with a bar."""
    with screen.progress(f"fitting, k = {k}"):
        return question.request.minimize(question.risk, k, method, rng=seed, **limits)


def prove(screen: Screen, risk: Any, result: Result, seconds: float | None, target_gap: float | None) -> Any:
    """`certify`, with a bar that shows the gap closing, and `beats`; both become the result's."""
    from ..certificates import beats, certify

    def watch(now: Any) -> None:
        gap = (now.incumbent - now.bound) / abs(now.incumbent) if now.incumbent else 0.0
        update(int(now.time), f"{now.nodes} nodes, gap {gap:.2%}")

    with screen.progress("proving", None if seconds is None else max(1, round(seconds))) as update:
        result.certificate = certify(risk, result, seconds, target_gap, callback=watch)
        result.beats = beats(risk, result)
    return result.certificate


def write_page(screen: Screen, path: str | None, result: Result, question: Question, seed: int, **more: Any) -> None:
    """The HTML file."""
    if path is None:  # deviations of all columns take a while
        return
    rows = question.intercept_rows(result.x)
    told: dict[str, Any] = {
        "title": f"{question.data.path}: {result.support.size} nonzeros",
        "feature_names": question.names,
        "groups": question.labels,
        "data": {str(question.data.path): question.data.path},
        "spread": question.spread(),
        **question.fitted(result),
        "summary": {row["name"].replace(INTERCEPT, "intercept"): f"{row['weight']:.6g}" for row in rows},
        **more,
        "asked": {**question.tell(), **more.get("asked", {})},
    }
    write_html(screen, path, result, seed=seed, **told)
