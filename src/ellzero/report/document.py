"""The report of a run: what was asked, the answer, how it was found, what is proved, and how to run it again."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import to_host
from ..displays import ConvergenceDisplay, PathDisplay, TrackingDisplay, WeightsDisplay
from ..displays._base import coordinate_names
from ..solver.path import SparsePath
from ..solver.result import Result
from .blocks import Html, claim, code, facts, paragraph, table
from .figures import figure
from .fingerprint import fingerprint
from .page import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
) -> Path:
    """Write one self-contained HTML file about a result, a path, a fitted estimator or a backtest.

    Parameters
    ----------
    what : Result, SparsePath, fitted estimator or Backtest
        Whose answer is told. Of an estimator its `result_`, feature names and, where it has it, `path_` are used.
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
    if hasattr(what, "turnover") and hasattr(what, "asked"):  # a Backtest, without importing pandas
        return _walk(what, title, summary).section("Run it again", *_rerun(data, seed, command)).save(path)
    if isinstance(what, SparsePath):
        over_k, result = what, what.results[-1] if what.validation is None else what.select("validation")
    elif isinstance(what, Result):
        result = what
    else:
        found = getattr(what, "result_", None)
        if not isinstance(found, Result):
            raise TypeError(
                f"what must be a Result, a SparsePath or a fitted estimator, got {type(what).__name__}; call fit first"
            )
        result = found
        if feature_names is None:
            feature_names = getattr(what, "feature_names_in_", [f"x{i}" for i in range(what.n_features_in_)])
        groups = getattr(what, "groups_", None) if groups is None else groups
        if over_k is None and hasattr(what, "path_"):
            over_k = PathDisplay.from_estimator(what, ax=_axes(1.0))
    x = to_host(result.x)
    caps: Any = None
    if groups is None:
        groups, caps = result.constraint.groups_and_caps(x.size)
    else:
        _, caps = result.constraint.groups_and_caps(x.size)
    names = coordinate_names(feature_names, x.size, getattr(what, "classes_", None))
    certificate = result.certificate

    page = Page(title or "A sparse answer", lead=_lead(what, result, tracking))
    page.section("What was asked", _asked(result, x.size, what, asked))
    page.section("The answer", *_answer(result, summary))
    alike = hasattr(what, "tracking_error_")  # weights of a portfolio have one unit
    deviations = np.ones(x.size) if alike else _spread(data if spread is None else spread, x.size)
    page.section("What was selected", *_selected(x, names, groups, certificate, deviations, alike))
    if groups is not None:
        drawn = WeightsDisplay(weights={"weights": x}, groups=groups, cap=caps)
        page.section("Groups", *_groups(drawn))
    if tracking is not None:
        page.section("Tracking", *_tracking(tracking))
    page.section("How it was found", *_convergence(result))
    if over_k is not None:
        page.section("Other numbers of nonzeros", *_path(over_k, names, result.k))
    page.section("What is proved", *_certificate(result, certificate))
    page.section("Run it again", *_rerun(data, seed, command))
    return page.save(path)


def _walk(walk: Any, title: str, summary: Mapping[str, Any] | None) -> Page:
    """The report of a backtest, up to how to run it again."""
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
    page = Page(title or "A backtest", lead=f"{walk.asked[:1].upper()}{walk.asked[1:]}.")
    page.section("What came of it", facts(dict(walk.summary()) if summary is None else summary))
    page.section("Tracking", *_tracking(TrackingDisplay.from_backtest(walk, ax=_axes(1.0))))
    page.section("Trades", table(trades, "rebalancings", formats={"turnover": ".1%", "cost": ".3%"}, bar="turnover"))
    caption = f"held since {last}, largest first"
    return page.section("What is held", table(weights, caption, formats={"weight": ".2%"}, bar="weight"))


def _lead(what: Any, result: Result, tracking: TrackingDisplay | None) -> str:
    text = f"{result.support.size} nonzeros of at most {result.k}, objective {result.fun:.6g}."
    if hasattr(what, "tracking_error_"):
        text = f"{result.support.size} names of at most {result.k}. Tracking error {what.tracking_error_:.2%} a year"
        text += " on the days of the fit"
        if tracking is not None and tracking.test_from is not None:
            (portfolio,) = tracking.portfolios.values()
            active = (np.asarray(portfolio) - np.asarray(tracking.index_returns))[tracking.test_from :]
            text += f", {np.std(active, ddof=1) * math.sqrt(what.periods_per_year):.2%} on those after"
        text += "."
    proof = "" if result.certificate is None else result.certificate.words
    return f"{text} {proof[:1].upper()}{proof[1:]}." if proof else text


def _asked(result: Result, size: int, what: Any, more: Mapping[str, Any] | None) -> Html:
    values = {
        **(more or {}),
        "at most": f"{result.k} nonzeros of {size}",
        "constraint Γ": repr(result.constraint),
        "method": f"{result.method}, projection {result.projection}",
    }
    if hasattr(what, "max_sector_weight"):
        values = {**_mandate(what), "method": values["method"]}
    elif not isinstance(what, (Result, SparsePath)):
        values["estimator"] = repr(what)
    text = paragraph(
        "The smallest objective R(w) among all vectors w with at most k nonzeros that lie in Γ: both conditions hold "
        "in the answer, they were checked before it was returned."
    )
    return Html(text + facts(values))


def _mandate(tracker: Any) -> dict[str, str]:
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


def _answer(result: Result, summary: Mapping[str, Any] | None) -> list[Html]:
    violation = "none" if result.violation == 0 else f"{result.violation:.1g} (relative; rounding)"
    values: dict[str, Any] = {
        **(summary or {}),
        "objective R(w)": f"{result.fun:.8g}",
        "nonzeros": result.sparsity.describe(result.x),
        "violation of Γ": violation,
        "iterations": result.nit,
    }
    if math.isfinite(result.stationarity):
        values["stationarity (a residual, not a proof)"] = f"{result.stationarity:.2g}"
    verdict = "done" if result.success else "stopped early"
    return [claim(verdict, f"{result.message[:1].upper()}{result.message[1:]}."), facts(values)]


def _spread(told: Any, size: int) -> np.ndarray | None:
    """The standard deviation of what each coordinate multiplies, as given or of a table's columns; None if unknown."""
    try:
        values = np.asarray(told, dtype=float)
    except (TypeError, ValueError):
        return None
    deviations = values.std(axis=0) if values.ndim == 2 else values
    if deviations.ndim != 1 or not deviations.size or size % deviations.size or not np.isfinite(deviations).all():
        return None
    return np.tile(deviations, size // deviations.size)


def _selected(
    x: np.ndarray,
    names: list[str],
    groups: Sequence[Any] | None,
    certificate: Any,
    deviations: np.ndarray | None,
    alike: bool,
) -> list[Html]:
    support = np.flatnonzero(x)
    if not support.size:
        return [paragraph("Nothing: the best vector found is zero.")]
    order = support[np.argsort(-np.abs(x[support]), kind="stable")]
    proved = set(np.asarray(getattr(certificate, "proved_in", ()), dtype=int).tolist())
    columns: dict[str, list[Any]] = {"name": [names[i] for i in order]}
    if groups is not None:
        columns["group"] = ["" if groups[i] is None else str(groups[i]) for i in order]
    columns["weight"] = x[order].tolist()
    label = "share of Σ|w|" if alike else "share of Σ|w|σ"
    effect = np.zeros(x.size) if deviations is None else np.abs(x) * deviations
    if effect.any():  # weights alone depend on the units of what they multiply
        columns[label] = (effect[order] / effect.sum()).tolist()
    columns["position"] = order.tolist()
    if proved:
        columns["in every best answer"] = ["proved" if i in proved else "" for i in order.tolist()]
    formats = {"weight": _decimals(x[order]), label: ".1%"}
    shown = [table(columns, f"{order.size} selected, largest first", formats=formats, bar="weight")]
    if effect.any() and not alike:
        shown.append(paragraph("σ is the standard deviation of a feature: its share does not depend on units."))
    return shown


def _groups(display: WeightsDisplay) -> list[Html]:
    (x,) = display.weights.values()
    assert display.groups is not None
    totals: dict[str, dict[str, Any]] = {}
    for weight, label in zip(x, display.groups, strict=True):
        if label is not None:
            row = totals.setdefault(str(label), {"group": str(label), "Σ|w|": 0.0, "selected": 0, "members": 0})
            row["Σ|w|"] += abs(float(weight))
            row["selected"] += int(weight != 0)
            row["members"] += 1
    caps = display.cap
    for label, row in totals.items():
        cap = {str(name): value for name, value in caps.items()}.get(label) if isinstance(caps, Mapping) else caps
        if cap is not None:
            row["cap"], row["cap used"] = cap, row["Σ|w|"] / cap if cap else math.nan
    rows = sorted(totals.values(), key=lambda row: -row["Σ|w|"])
    ax = _axes(height=1.0 + 0.3 * len(totals))
    display.plot(ax)
    if not caps:
        _without_legend(ax)
    text = "Bars: the sum of |w| in every group." + (" Dashed: its cap." if caps else "")
    return [
        figure(ax, text, alt="weight of every group"),
        table(rows, "groups", formats={"Σ|w|": _decimals([row["Σ|w|"] for row in rows]), "cap used": ".1%"}),
    ]


def _tracking(display: TrackingDisplay) -> list[Html]:
    above, below = _axes(height=3.4), _axes(height=2.2)
    display.plot(above)
    display.plot(below, of="difference")
    _without_legend(below)
    shaded = " Shaded: days that the fit did not see." if display.test_from is not None else ""
    return [
        figure(above, f"Growth of 1 in the index and in the portfolio.{shaded}", alt="portfolio and index over time"),
        figure(below, f"The portfolio's growth minus the index's.{shaded}", alt="difference to the index over time"),
    ]


def _convergence(result: Result) -> list[Html]:
    cost = facts(
        {
            "gradients of single terms": result.n_gradients,
            "function values": result.n_values,
            "hard thresholdings": result.n_thresholds,
            "largest 1/step": f"{result.largest_L:.4g}",
        }
    )
    if not np.isfinite(result.history.fun).any():
        return [paragraph("The objective was not monitored on the way."), cost]
    ax = _axes(height=3.2)
    ConvergenceDisplay.from_result(result, ax=ax)
    text = "The objective after every iteration; the dot is the answer, after refits and exchanges at the end."
    return [figure(ax, text, alt="objective against iteration"), cost]


def _path(path: SparsePath | PathDisplay, names: list[str], chosen: int) -> list[Html]:
    display = path if isinstance(path, PathDisplay) else PathDisplay.from_result(path, ax=_axes(1.0))
    display.feature_names, display.chosen = names, chosen
    losses, weights = _axes(height=3.2), _axes(height=3.4)
    display.plot(losses)
    display.plot(weights, of="coefficients")
    results = list(display.results)
    rows: dict[int, dict[str, Any]] = {
        res.k: {"k": res.k, "nonzeros": res.support.size, "objective": res.fun} for res in results
    }
    if display.held_out is not None:
        for k, loss in zip(*display.held_out, strict=True):
            rows.setdefault(int(k), {"k": int(k)})["held-out loss"] = float(loss)
    return [
        figure(losses, "The objective never increases with k; a loss on held-out data may.", alt="loss against k"),
        figure(weights, "The coefficients of the answer for every k.", alt="coefficients against k"),
        table(list(rows.values()), "the path", formats={"objective": ".6g", "held-out loss": ".6g"}),
    ]


def _certificate(result: Result, certificate: Any) -> list[Html]:
    if certificate is None:
        return [
            claim("not proved", "No certificate was asked for. The answer obeys every constraint; how far it is from "
                  "the best possible one is unknown."),
            paragraph("`ez.certify(risk, result)`, or `--certify` on the command line, computes a bound."),
        ]  # fmt: skip
    words = f"{certificate.words[:1].upper()}{certificate.words[1:]}."
    advice = [paragraph(f"To improve the bound: {certificate.advice}.")] if certificate.advice else []
    if not math.isfinite(certificate.lower_bound) or certificate.status.name == "NO_BOUND":
        return [claim("not proved", words), *advice]
    values = {
        "proved lower bound": f"{certificate.lower_bound:.8g}",
        "objective of the answer": f"{result.fun:.8g}",
        "gap": f"{certificate.gap:.3g} ({certificate.relative_gap:.2%} of the objective)",
        "proved in every best answer": len(certificate.proved_in),
        "proved out of every best answer": len(certificate.proved_out),
        "search": f"{certificate.nodes} nodes, {certificate.seconds:.1f} s: {certificate.status.value}",
    }
    meaning = paragraph(
        "The lower bound is a proof: every vector with at most k nonzeros in Γ has an objective of at least this much. "
        "The gap is what a better method could still gain at the very most; often the bound is loose and the answer "
        "is better than the gap says.",
        f"How it was obtained: {certificate.how}.",
    )
    verdict = claim("proved" if certificate.status.name == "OPTIMAL" else "bounded", words)
    return [verdict, facts(values), *_search(certificate), meaning, *advice]


def _search(certificate: Any) -> list[Html]:
    """How the gap closed."""
    rows = [row for row in certificate.history if math.isfinite(row.bound)]
    if len(rows) < 3 or (rows[0].bound, rows[0].incumbent) == (rows[-1].bound, rows[-1].incumbent):
        return []
    ax = _axes(height=2.6)
    seconds = [row.time for row in rows]
    ax.plot(seconds, [row.incumbent for row in rows], label="best known", color="#000000", lw=1.6)
    ax.plot(seconds, [row.bound for row in rows], label="proved lower bound", color="#0072B2", lw=1.6)
    ax.set(xlabel="seconds", ylabel="objective R(w)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return [figure(ax, "How the search closed the gap.", alt="gap against time")]


def _rerun(data: Any, seed: Any, command: str) -> list[Html]:
    values = {"ellzero": version("ellzero"), "numpy": np.__version__, "python": platform.python_version()}
    values["seed"] = "none: nothing was random" if seed is None else str(seed)
    values["written"] = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    blocks = [code(command)] if command else []
    blocks.append(facts(values))
    if data is not None:
        named = data if isinstance(data, Mapping) else {_called(data): data}
        lines = "\n".join(f"{fingerprint(value)}  {name}" for name, value in named.items())
        blocks += [
            paragraph("Fingerprints of the data (SHA-256); `sha256sum` prints the same for a file:"),
            code(lines),
        ]
    return blocks


def _decimals(values: Any) -> str:
    """A format that aligns numbers: three digits for the median of their sizes, at most eight decimals."""
    sizes = np.abs(np.asarray(values, dtype=float))
    middle = float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 1.0
    digits = 2 - math.floor(math.log10(middle))
    return ".4g" if digits > 8 else f".{max(digits, 1)}f"


def _called(data: Any) -> str:
    return os.fspath(data) if isinstance(data, (str, os.PathLike)) else "data"


def _without_legend(ax: Axes) -> None:
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()


def _axes(height: float, width: float = 8.0) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("reports need matplotlib for their pictures: pip install ellzero[plot]") from error
    return Figure(figsize=(width, height), layout="constrained").subplots()
