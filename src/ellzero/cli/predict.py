"""``ellzero predict``: what saved weights say about other rows."""

import csv
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from click import Choice, argument, option
from scipy.special import expit, softmax
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

from ..datasets.readers import read_libsvm
from ..datasets.tables import Preparation, Table
from .files import file_options, read_any, reading, table_of
from .inputs import Read, writable
from .screen import Exit, Refusal, Screen, command, options

_EXAMPLES = """
  ellzero fit table.csv --target price --k 5 --out model.json
  ellzero predict model.json new.csv > predictions.csv
  ellzero predict model.json new.csv --out predictions.csv

Where the file has the target, too, it is told how well it is met.
"""
_OPTIONS = options(
    argument("model", metavar="MODEL"),
    argument("data", metavar="DATA"),
    option(
        "--unknown",
        type=Choice(["refuse", "zero"]),
        default="refuse",
        help="Texts that the data of the fit did not have: zero lets them have no dummy.",
    ),
    option("--out", type=Read("file", writable), metavar="FILE", help="Predictions as CSV. Default: to stdout."),
)
_TWEEDIE = {"poisson": 1, "gamma": 2}


class Model:
    """x_iᵀw + b of a saved answer: data alone, nothing of which is run."""

    def __init__(self, path: str) -> None:
        with reading():
            saved = Path(path).read_text(encoding="utf-8")
        try:
            known = json.loads(saved)
            self.asked = known["question"]
            self.loss = str(self.asked["loss"]).partition(":")[0]
            self.classes, self.targets = self.asked["classes"], list(self.asked["targets"])
            self.preparation = Preparation(**known["preparation"]) if "preparation" in known else None
            self.b = np.atleast_1d(np.array(known["intercept"], dtype=float))
            self.n_features = int(self.asked["columns"])
            self.rows = [(str(row["name"]), float(row["weight"]), int(row["position"])) for row in known["weights"]]
            self._check()
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise Refusal(
                f"{path}: no model could be read; it must be what 'ellzero fit --out model.json' wrote", Exit.DATA
            ) from error

    def _check(self) -> None:
        """Nothing is missing that predictions need."""
        if not np.isfinite([*self.b, *(weight for _, weight, _ in self.rows)]).all():
            raise ValueError("numbers that are not finite")
        if self.b.shape not in ((1,), (len(self.outputs()),)):
            raise ValueError("an intercept for every output")
        prepared = self.preparation
        names = range(self.n_features) if prepared is None else prepared.names()
        self.coefficients(None if prepared is None else {str(name): j for j, name in enumerate(names)})
        if prepared is not None and prepared.filled and {*prepared.columns} - {*prepared.levels} - {*prepared.filled}:
            raise ValueError("a number for every column that may lack one")

    def outputs(self) -> list[str]:
        """Several classes or targets, by name; of one the target."""
        several = self.classes if self.classes is not None and len(self.classes) > 2 else self.targets
        return [str(label) for label in several] or ["prediction"]

    def coefficients(self, places: dict[str, int] | None) -> np.ndarray:
        """A row for each output, a column for each feature of the table, or for each of all."""
        coef = np.zeros((len(self.outputs()), self.n_features if places is None else len(places)))
        for name, weight, position in self.rows:
            output, j = divmod(position, self.n_features)
            feature = name.removeprefix(f"{self.outputs()[output]}: ") if len(coef) > 1 else name
            coef[output, j if places is None else places[feature]] = weight
        return coef

    def linear(self, table: Table | None, X: Any, unknown: str) -> np.ndarray:
        """XWᵀ + b, with the offset of the question."""
        if table is None or self.preparation is None:
            return np.asarray(X @ self.coefficients(None).T + self.b)
        places = {name: j for j, name in enumerate(self.preparation.names())}
        z: np.ndarray = self.preparation.apply(table, unknown=unknown) @ self.coefficients(places).T + self.b
        return z if self.asked["offset"] is None else np.asarray(z + table.column(self.asked["offset"])[:, None])

    def predictions(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """A column for each thing that is told of the rows."""
        if self.classes is None:
            means = np.exp(z) if self.loss in _TWEEDIE else z
            return dict(zip((f"predicted {name}" for name in self.outputs()), means.T, strict=True))
        labels = np.array([str(label) for label in self.classes])
        told = {"predicted": labels[z.argmax(axis=1) if len(labels) > 2 else (z[:, 0] > 0).astype(int)]}
        if self.loss != "logistic":
            return {**told, "decision": z[:, 0]}
        shares = softmax(z, axis=1) if len(labels) > 2 else np.column_stack([expit(-z[:, 0]), expit(z[:, 0])])
        return told | {f"probability of {label}": share for label, share in zip(labels, shares.T, strict=True)}

    def score(self, predicted: dict[str, np.ndarray], y: np.ndarray) -> tuple[str, float]:
        """How well a known target is met."""
        values = np.column_stack(list(predicted.values())) if self.classes is None else predicted["predicted"]
        if self.classes is not None:
            return "accuracy", float(accuracy_score(y, values))
        if self.loss in _TWEEDIE:
            return "deviance explained", float(d2_tweedie_score(y[:, 0], values[:, 0], power=_TWEEDIE[self.loss]))
        return "R²", float(r2_score(y, values))


@command(_EXAMPLES, _OPTIONS, file_options)
def predict(
    screen: Screen,
    /,
    model: str,
    data: str,
    unknown: str,
    out: str | None,
    kind: str | None,
    separator: str | None,
    decimal: str | None,
) -> None:
    """What a saved MODEL says about the rows of DATA.

    MODEL is the .json file that fit, path or certify wrote by --out: data, no program. DATA has the columns of the fit
    (those with a weight suffice); text is encoded and missing values are filled in as they were there.
    """
    saved = Model(model)
    with reading():
        source, is_libsvm = read_any(data, kind)
        table, X, y = None, None, None
        if is_libsvm:
            X, y = read_libsvm(source, n_features=saved.n_features)
            y = y.astype(str) if saved.classes is not None else y[:, None]
        else:
            if saved.preparation is None:
                raise ValueError(
                    f"{data}: {model} was fitted on a LIBSVM file; give one, or name it by --format libsvm"
                )
            table = table_of(source, separator, decimal, saved.targets if saved.classes is not None else ())
            y = _known(saved, table)
        predicted = saved.predictions(saved.linear(table, X, unknown))
    n = len(next(iter(predicted.values())))
    names = {} if table is None or (index := table.index()) is None else {index or "row": _cells(table, index)}
    score = None if y is None or n < 2 else dict([saved.score(predicted, y)])
    screen.reply(rows=n, score=score, predictions=names | predicted)
    for word, value in (score or {}).items():
        screen.note(f"{word} {value:.4g} on {n} rows")
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        with Path(out).open("w", encoding="utf-8", newline="") as file:
            _write(file, names | predicted)
        screen.say(f"predictions: {out} ({n} rows)")
    elif not screen.machine:
        _write(sys.stdout, names | predicted)


def _known(saved: Model, table: Table) -> np.ndarray | None:
    """The targets, if the table has them all."""
    if not set(saved.targets) <= set(table.names):
        return None
    complete = table.without_missing(saved.targets)
    if len(complete.lines) < len(table.lines):
        return None
    if saved.classes is not None:
        return table.labels(saved.targets[0])
    return np.column_stack([table.column(name) for name in saved.targets])


def _cells(table: Table, name: str) -> list[Any]:
    return table.text[name] if name in table.text else table.numbers[:, 0].astype(int).tolist()


def _write(file: TextIO, columns: dict[str, Any]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
