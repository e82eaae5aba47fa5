"""The report of a run: what was asked, the answer, how it was found, what is proved, and how to run it again."""

import datetime
import hashlib
import math
import os
import platform
from collections.abc import Mapping, Sequence
from functools import singledispatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import to_host
from .._core.blocks import Html, code, facts, paragraph, table
from ..displays import PathDisplay, TrackingDisplay
from ..displays.base import coordinate_names, names_seen, new_figure, outputs_of
from ..estimators.base import SparseLinearModel
from ..portfolio import IndexTracker
from ..portfolio.backtest import Backtest
from ..solver.path import SparsePath
from ..solver.result import Result
from .fit import Fit
from .page import Page
from .sections import SECTIONS, Told, tracking


def write_report(
    what: Any,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    feature_names: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    over_k: PathDisplay | SparsePath | None = None,
    tracking: TrackingDisplay | None = None,
    asked: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    data: Any = None,
    seed: Any = None,
    command: str = "",
    spread: Any = None,
    target: Any = None,
    predicted: Any = None,
) -> Path:
    """Write one self-contained HTML file about a result, a path, a fitted estimator or a backtest.

    Parameters
    ----------
    what : Result, SparsePath, fitted estimator or Backtest
        Whose answer is told. Of an estimator its `result_`, feature names and, where it has it, `path_` are used. An
        object of your own needs a method `report_sections()` that yields headings with their blocks.
    path : path of the file to write
    title : str, optional
    feature_names : sequence of str, optional
        Names of the coordinates; those the estimator has seen, or x0, x1, ... by default.
    groups : sequence of labels, optional
        A group for every coordinate; those of Γ by default.
    over_k : SparsePath or PathDisplay, optional
        Answers for other k, to be drawn beside the answer; of an estimator that chose k, its own path.
    tracking : TrackingDisplay, optional
        Portfolio and index.
    asked : mapping, optional
        More facts about the question, such as the loss.
    summary : mapping, optional
        More facts about the answer, such as the error on days that were held out.
    data : path, array, DataFrame or mapping from name to these, optional
        What was fitted. Its SHA-256 is printed, so that a reader can tell whether they have the same data. Of an array
        or DataFrame with a column for every feature, the deviations of the columns make weights comparable.
    seed : int, optional
    command : str, optional
        How to run it again.
    spread : array, optional
        The standard deviation of every feature, where `data` does not tell it: for shares that do not depend on units.
    target : array, optional
        y of the same rows, for R², the deviance explained and residuals, or for classes which are taken for which.
    predicted : array, optional
        What the model says of these rows; an estimator tells it itself, from `data`.

    Returns
    -------
    pathlib.Path
        Where it was written.

    Examples
    --------
    >>> import tempfile, pathlib, ellzero as ez
    >>> problem = ez.datasets.make_regression(60, 20, 3)
    >>> res = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k=3)
    >>> path = ez.write_report(res, pathlib.Path(tempfile.mkdtemp()) / "report.html", data=problem.X)
    >>> "What was asked" in path.read_text(encoding="utf-8")
    True
    """
    told = Told(
        title=title, feature_names=feature_names, groups=groups, over_k=over_k, tracking=tracking, asked=asked or {},
        summary=summary, spread=data if spread is None else spread,
        fit=None if target is None else _fit(what, data, target, predicted, asked or {}),
    )  # fmt: skip
    return report_page(what, told).section("Run it again", *_rerun(data, seed, command)).save(path)


def _fit(what: Any, data: Any, target: Any, predicted: Any, asked: Mapping[str, Any]) -> Fit:
    """y beside what the model says of the same rows."""
    if predicted is None:
        if not hasattr(what, "predict") or data is None or isinstance(data, (str, os.PathLike, Mapping)):
            raise ValueError("target needs what the model says of its rows: give predicted, or an estimator and data=X")
        predicted = what.predict(data)
    return Fit(target, predicted, str(getattr(what, "loss", asked.get("loss", "squared"))))


@singledispatch
def report_page(what: Any, told: Told) -> Page:
    """The page about an object, up to how to run it again; an object of your own has `report_sections()`."""
    if not hasattr(what, "report_sections"):
        raise TypeError(
            f"what must be a Result, a SparsePath or a fitted estimator, got {type(what).__name__}; or a Backtest, or "
            "an object that has report_sections()"
        )
    page = Page(told.title or type(what).__name__)
    for heading, *blocks in what.report_sections():
        page.section(heading, *blocks)
    return page


@report_page.register
def _(result: Result, told: Told) -> Page:
    used = f"{result.support.size} nonzeros of at most {result.k}"
    if not (sparsity := result.sparsity).plain:
        used = f"{sparsity.label.capitalize()}: {sparsity.describe(result.x)}"
    lead = told.lead or f"{used}, objective {result.fun:.6g}."
    proof = "" if result.certificate is None else result.certificate.words
    page = Page(told.title or "A sparse answer", lead=f"{lead} {proof[:1].upper()}{proof[1:]}." if proof else lead)
    for heading, section in SECTIONS.items():
        if blocks := section(result, told):
            page.section(heading, *blocks)
    return page


@report_page.register
def _(path: SparsePath, told: Told) -> Page:
    told.over_k = path
    return report_page(path.results[-1] if path.validation is None else path.select("validation"), told)


@report_page.register
def _(model: SparseLinearModel, told: Told) -> Page:
    told.asked = {"estimator": repr(model), **told.asked, **_chosen_by(model)}
    told.stability = getattr(model, "stability_", None)
    told.used = None if told.stability is None else model.get_support()
    if told.over_k is None and hasattr(model, "path_"):
        told.over_k = PathDisplay.from_estimator(model, ax=new_figure(1, 1)[1])
    return _estimator(model, told)


@report_page.register
def _(tracker: IndexTracker, told: Told) -> Page:
    check_is_fitted(tracker, "result_")
    told.lead, told.mandate, told.one_unit = _lead(tracker, told), mandate(tracker), True
    return _estimator(tracker, told)


@report_page.register
def _(walk: Backtest, told: Told) -> Page:
    held = walk.weights.iloc[-1]
    held = held[held != 0].sort_values(ascending=False, key=abs)
    last = str(walk.weights.index[-1])[:10]
    trades = {
        "rebalanced": [str(day)[:10] for day in walk.weights.index],
        "names": (walk.weights != 0).sum(axis=1).tolist(),
        "turnover": walk.turnover.tolist(),
        "cost": walk.costs.tolist(),
    }
    weights = {"name": [str(name) for name in held.index], "weight": held.tolist()}
    display = TrackingDisplay.from_backtest(walk, ax=new_figure(1, 1)[1])
    page = Page(told.title or "A backtest", lead=f"{walk.asked[:1].upper()}{walk.asked[1:]}.")
    page.section("What came of it", facts(dict(walk.summary()) if told.summary is None else told.summary))
    page.section("Tracking", *tracking(None, Told(tracking=display)))
    page.section("Trades", table(trades, "rebalancings", formats={"turnover": ".1%", "cost": ".3%"}, bar="turnover"))
    caption = f"held since {last}, largest first"
    return page.section("What is held", table(weights, caption, formats={"weight": ".2%"}, bar="weight"))


def _estimator(model: Any, told: Told) -> Page:
    check_is_fitted(model, "result_")
    size, given = to_host(model.result_.x).size, told.feature_names
    outputs = outputs_of(model)
    told.feature_names = names_seen(model, size) if given is None else coordinate_names(given, size, outputs)
    return report_page(model.result_, told)


def _chosen_by(model: SparseLinearModel) -> dict[str, str]:
    """What chose k and the ridge, where they were not given."""
    if (criterion := getattr(model, "criterion_", None)) is not None:
        return {"k chosen by": f"{criterion}, an information criterion, on all rows"}
    if hasattr(model, "cv_results_"):
        rule = {"best": "the best mean score", "1se": "the smallest k within one standard error of the best"}[
            model.rule
        ]
        return {"k and ridge chosen by": f"cross-validation in {model.n_splits_} folds, {rule}"}
    return {}


def _lead(tracker: IndexTracker, told: Told) -> str:
    """Names and tracking error, on the days of the fit and after."""
    result = tracker.result_
    text = f"{result.support.size} names of at most {result.k}. Tracking error {tracker.tracking_error_:.2%} a year"
    text += " on the days of the fit"
    if told.tracking is not None and told.tracking.test_from is not None:
        (portfolio,) = told.tracking.portfolios.values()
        active = (np.asarray(portfolio) - np.asarray(told.tracking.index_returns))[told.tracking.test_from :]
        text += f", {np.std(active, ddof=1) * math.sqrt(tracker.periods_per_year):.2%} on those after"
    return f"{text}."


def mandate(tracker: IndexTracker) -> dict[str, str]:
    """What was asked of a portfolio, in the words of an `IndexTracker`."""
    asked = tracker.mandate_

    def told(values: Any, none: str = "free") -> str:
        several = np.unique(np.asarray(values, dtype=float))
        if several.size != 1:
            return "different for some" if several.size else none
        return f"{several[0]:.4g}" if np.isfinite(several[0]) else none

    budget = told([asked.least, asked.most])
    if asked.least < asked.most:
        ends = [("at least", asked.least), ("at most", asked.most)]
        budget = " and ".join(f"{word} {end:.4g}" for word, end in ends if math.isfinite(end)) or "free"
    uncapped = [math.inf] * (len(asked.groups) - len(asked.caps)) if asked.caps else []
    return {
        "names at most": f"{tracker.result_.k} of {tracker.n_features_in_}",
        "cap of a sector, Σ|w|": told([*asked.caps.values(), *uncapped], "none"),
        "budget, Σw": budget,
        "least weight": told(asked.lower),
        "largest weight": told(asked.upper),
        "always among them": ", ".join(map(str, asked.names[asked.keep])) or "none",
        "error": str(tracker.error),
    }


def _rerun(data: Any, seed: Any, command: str) -> list[Html]:
    values = {"ellzero": version("ellzero"), "numpy": np.__version__, "python": platform.python_version()}
    values["seed"] = "none: nothing was random" if seed is None else str(seed)
    values["written"] = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    blocks = [code(command)] if command else []
    blocks.append(facts(values))
    if data is not None:
        called = os.fspath(data) if isinstance(data, (str, os.PathLike)) else "data"
        named = data if isinstance(data, Mapping) else {called: data}
        lines = "\n".join(f"{fingerprint(value)}  {name}" for name, value in named.items())
        told = "Fingerprints of the data (SHA-256); `sha256sum` prints the same for a file:"
        blocks += [paragraph(told), code(lines)]
    return blocks


def fingerprint(data: Any) -> str:
    """SHA-256 of a file's bytes, or of the type, shape and values of an array, sparse matrix or DataFrame.

    Equal when and only when the data are (short of a collision).

    Examples
    --------
    >>> import numpy as np
    >>> from ellzero.report import fingerprint
    >>> fingerprint(np.arange(3.0))[:12]
    '74cc823074f3'
    >>> fingerprint(np.arange(3.0)) == fingerprint(np.array([0.0, 1.0, 3.0]))
    False
    """
    digest = hashlib.sha256()
    if isinstance(data, (str, os.PathLike)):
        with open(data, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if hasattr(data, "tocsr"):
        data = data.tocsr()
        parts = [np.asarray(data.shape), data.indptr, data.indices, data.data]
    elif hasattr(data, "columns") or hasattr(data, "index"):  # a DataFrame or a Series
        labels = [*map(str, getattr(data, "columns", ())), *map(str, getattr(data, "index", ()))]
        digest.update("\0".join(labels).encode())
        parts = [np.asarray(data)]
    else:
        parts = [to_host(data) if hasattr(data, "shape") else np.asarray(data)]
    for part in parts:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update("\0".join(map(str, part.ravel())).encode() if part.dtype == object else part.tobytes())
    return digest.hexdigest()
