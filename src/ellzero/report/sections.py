"""The sections of a report on an answer: functions from a result, and what is told beside it, to blocks.

A new section is such a function and its line in `SECTIONS`; one that returns nothing is left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.arrays import to_host
from .._core.blocks import Html, claim, facts, paragraph, table
from ..displays import ConvergenceDisplay, PathDisplay, StabilityDisplay, TrackingDisplay, WeightsDisplay
from ..displays.base import coordinate_names, new_figure
from ..solver.path import SparsePath
from ..solver.result import Result
from .figures import picture
from .fit import Fit


@dataclass
class Told:
    """What a report tells beside the result: given by the caller of `write_report`, or known to the object."""

    title: str = ""
    lead: str = ""
    feature_names: Sequence[str] | None = None
    groups: Sequence[Any] | None = None
    over_k: PathDisplay | SparsePath | None = None
    tracking: TrackingDisplay | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    mandate: Mapping[str, str] | None = None  # in place of k and Γ
    summary: Mapping[str, Any] | None = None
    spread: Any = None
    one_unit: bool = False  # weights of a portfolio are all shares
    fit: Fit | None = None
    stability: Any = None
    used: np.ndarray | None = None  # which features an estimator uses


def asked(result: Result, told: Told) -> list[Html]:
    """k, Γ and the method."""
    d, sparsity = to_host(result.x).size, result.sparsity
    allowed = f"{result.k} nonzeros of {d}" if sparsity.plain else sparsity.words.removeprefix("at most ")
    gamma = result.constraint.words(coordinate_names(told.feature_names, d))
    question = {"at most": allowed, "constraint Γ": "none" if result.constraint.whole_space else gamma}
    values = {
        **told.asked,
        **(question if told.mandate is None else told.mandate),
        "method": f"{result.method}, projection {result.projection}",
    }
    text = (
        f"The smallest objective R(w) among all vectors w with at most k {sparsity.counted} that lie in Γ: both "
        "conditions hold "
        "in the answer, they were checked before it was returned."
    )
    return [paragraph(text), facts(values)]


def answer(result: Result, told: Told) -> list[Html]:
    """How the run ended, the objective, and how well the constraints hold."""
    violation = "none" if result.violation == 0 else f"{result.violation:.1g} (relative; rounding)"
    values: dict[str, Any] = {
        **(told.summary or {}),
        "objective R(w)": f"{result.fun:.8g}",
        result.sparsity.label: result.sparsity.describe(result.x),
        "violation of Γ": violation,
        "iterations": result.nit,
    }
    if math.isfinite(result.stationarity):
        values["stationarity (a residual, not a proof)"] = f"{result.stationarity:.2g}"
    verdict = "done" if result.success else "stopped early"
    return [claim(verdict, f"{result.message[:1].upper()}{result.message[1:]}."), facts(values)]


def selected(result: Result, told: Told) -> list[Html]:
    """The nonzeros, the largest first."""
    x = to_host(result.x)
    if not (support := np.flatnonzero(x)).size:
        return [paragraph("Nothing: the best vector found is zero.")]
    order = support[np.argsort(-np.abs(x[support]), kind="stable")]
    proved = set() if result.certificate is None else set(to_host(result.certificate.proved_in).tolist())
    names, (groups, _) = coordinate_names(told.feature_names, x.size), _grouped(result, told)
    columns: dict[str, list[Any]] = {"name": [names[i] for i in order]}
    if groups is not None:
        columns["group"] = ["" if groups[i] is None else str(groups[i]) for i in order]
    columns["weight"] = x[order].tolist()
    label = "share of Σ|w|" if told.one_unit else "share of Σ|w|σ"
    deviations = np.ones(x.size) if told.one_unit else _spread(told.spread, x.size)
    effect = np.zeros(x.size) if deviations is None else np.abs(x) * deviations
    if effect.any():  # weights alone depend on the units of what they multiply
        columns[label] = (effect[order] / effect.sum()).tolist()
        if deviations is not None and not told.one_unit:
            unit = told.fit.spread if told.fit is not None else 0.0
            columns["wσ/σ(y)" if unit else "wσ"] = (x * deviations / (unit or 1.0))[order].tolist()
    columns["position"] = order.tolist()
    if proved:
        columns["in every best answer"] = ["proved" if i in proved else "" for i in order.tolist()]
    formats = {"weight": _decimals(x[order]), label: ".1%"}
    shown = [table(columns, f"{order.size} selected, largest first", formats=formats, bar="weight")]
    if effect.any() and not told.one_unit:
        shown.append(paragraph("σ is the standard deviation of a feature: its share does not depend on units."))
    return shown


def fitted(result: Result, told: Told) -> list[Html]:
    """Observed and predicted."""
    return [] if told.fit is None else told.fit.sections()


def groups(result: Result, told: Told) -> list[Html]:
    """Σ|w| of every group beside its cap."""
    x, (labels, caps) = to_host(result.x), _grouped(result, told)
    if labels is None:
        return []
    totals: dict[str, dict[str, Any]] = {}
    for weight, label in zip(x, labels, strict=True):
        if label is not None:
            row = totals.setdefault(str(label), {"group": str(label), "Σ|w|": 0.0, "selected": 0, "members": 0})
            row["Σ|w|"] += abs(float(weight))
            row["selected"] += int(weight != 0)
            row["members"] += 1
    for label, row in totals.items():
        cap = {str(name): value for name, value in caps.items()}.get(label) if isinstance(caps, Mapping) else caps
        if cap is not None:
            row["cap"], row["cap used"] = cap, row["Σ|w|"] / cap if cap else math.nan
    rows = sorted(totals.values(), key=lambda row: -row["Σ|w|"])
    display = WeightsDisplay(weights={"weights": x}, groups=labels, cap=caps)
    text, height = "Bars: the sum of |w| in every group." + (" Dashed: its cap." if caps else ""), 1.0 + 0.3 * len(rows)
    return [
        picture(display.plot, height, text, "weight of every group", legend=bool(caps)),
        table(rows, "groups", formats={"Σ|w|": _decimals([row["Σ|w|"] for row in rows]), "cap used": ".1%"}),
    ]


def tracking(result: Result | None, told: Told) -> list[Html]:
    """Portfolio and index."""
    display = told.tracking
    if display is None:
        return []
    shaded = " Shaded: days that the fit did not see." if display.test_from is not None else ""
    growth = f"Growth of 1 in the index and in the portfolio.{shaded}"
    difference = f"The portfolio's growth minus the index's.{shaded}"
    return [
        picture(display.plot, 3.4, growth, "portfolio and index over time"),
        picture(display.plot, 2.2, difference, "difference to the index over time", legend=False, of="difference"),
    ]


def convergence(result: Result, told: Told) -> list[Html]:
    """The objective after every iteration, and what the run cost."""
    spent: dict[str, Any] = {
        "gradients of single terms": result.n_gradients,
        "function values": result.n_values,
        "hard thresholdings": result.n_thresholds,
        "largest 1/step": f"{result.largest_L:.4g}",
    }
    if result.exchanges is not None and result.exchanges.total:
        spent["single exchanges"] = result.exchanges.words
    cost = facts(spent)
    if not np.isfinite(result.history.fun).any():
        return [paragraph("The objective was not monitored on the way."), cost]
    if len(result.history.fun) < 2:
        return [paragraph("No step was taken: the starting point was as good."), cost]
    text = "The objective after every iteration; the dot is the answer, after refits and exchanges at the end."
    display = ConvergenceDisplay(results={result.method: result})
    return [picture(display.plot, 3.2, text, "objective against iteration"), cost]


def over_k(result: Result, told: Told) -> list[Html]:
    """Answers for other k."""
    if told.over_k is None:
        return []
    display = told.over_k
    if not isinstance(display, PathDisplay):
        display = PathDisplay.from_result(display, ax=new_figure(1, 1)[1])
    display.feature_names, display.chosen = coordinate_names(told.feature_names, to_host(result.x).size), result.k
    rows: dict[int, dict[str, Any]] = {
        res.k: {"k": res.k, "nonzeros": res.support.size, "objective": res.fun} for res in display.results
    }
    if display.held_out is not None:
        for k, *numbers in zip(*display.held_out, strict=True):
            values = zip(("held-out loss", "standard error"), map(float, numbers), strict=False)
            rows.setdefault(int(k), {"k": int(k)}).update(values)
    losses = "The objective never increases with k; a loss on held-out data may."
    if display.held_out is not None and len(display.held_out) > 2:
        losses += (
            " Dotted across: one standard error above the smallest; fewer features up to there are as good as the "
        )
        losses += "folds can tell."
    weights = "The coefficients of the answer for every k."
    return [
        picture(display.plot, 3.2, losses, "loss against k"),
        picture(display.plot, 3.4, weights, "coefficients against k", of="coefficients"),
        table(
            list(rows.values()),
            "the path",
            formats={"objective": ".6g", "held-out loss": ".6g", "standard error": ".3g"},
        ),
    ]


def stable(result: Result, told: Told) -> list[Html]:
    """How often features were chosen on halves of the rows."""
    found = told.stability
    if found is None:
        return []
    display = StabilityDisplay(stability=found)
    often = np.argsort(-found.frequencies, kind="stable")[: min(20, np.count_nonzero(found.frequencies))]
    rows = {"name": [found.names[j] for j in often], "chosen": found.frequencies[often].tolist()}
    rows["in the answer"] = ["yes" if told.used is not None and told.used[j] else "" for j in often]
    caption = "How often each feature was chosen on random halves of the rows; dotted: three quarters of them."
    picture_of = picture(display.plot, 0.8 + 0.25 * often.size, caption, "how often features are chosen", legend=False)
    return [paragraph(found.words()), picture_of, table(rows, "most frequent first", formats={"chosen": ".0%"})]


def proved(result: Result, told: Told) -> list[Html]:
    """The certificate and what it means, or that there is none."""
    certificate = result.certificate
    if certificate is None and result.beats:
        return _promised(result)
    if certificate is None:
        return [
            claim("not proved", "No certificate was asked for. The answer obeys every constraint; how far it is from "
                  "the best possible one is unknown."),
            paragraph("`ez.certify(risk, result)`, or `--certify` on the command line, computes a bound."),
        ]  # fmt: skip
    words = f"{certificate.words[:1].upper()}{certificate.words[1:]}."
    advice = [paragraph(f"To improve the bound: {certificate.advice}.")] if certificate.advice else []
    if not math.isfinite(certificate.lower_bound) or certificate.status.name == "NO_BOUND":
        return [claim("not proved", words), *advice, *_promised(result)]
    values = {
        "proved lower bound": f"{certificate.lower_bound:.8g}",
        "objective of the answer": f"{result.fun:.8g}",
        "gap": f"{certificate.gap:.3g} ({certificate.relative_gap:.2%} of the objective)",
        "proved in every best answer": len(certificate.proved_in),
        "proved out of every best answer": len(certificate.proved_out),
        "search": f"{certificate.nodes} nodes, {certificate.seconds:.1f} s: {certificate.status.value}",
    }
    meaning = paragraph(
        f"The lower bound is a proof: every vector with at most k {result.sparsity.counted} in Γ has an objective of "
        "at least this much. "
        "The gap is what a better method could still gain at the very most; often the bound is loose and the answer "
        "is better than the gap says.",
        f"How it was obtained: {certificate.how}.",
    )
    verdict = claim("proved" if certificate.status.name == "OPTIMAL" else "bounded", words)
    return [verdict, facts(values), *_search(certificate), meaning, *advice, *_promised(result)]


def _promised(result: Result) -> list[Html]:
    """How sparse a vector cannot be better than the answer, if that is known."""
    beats = result.beats
    if not beats:
        return []
    nu = beats.strong_convexity
    values = {
        "form": beats.form + (f", {beats.how}" if beats.how else ""),
        "strong convexity ν": f"{nu.value:.6g}" + (f", {nu.how}" if nu.how else ""),
    }
    text = (
        "A promise is a proof, too, about all sparser vectors at once: to leave out entries of the answer costs more "
        "than the slopes outside its support can win back. It is read off one gradient (`ez.beats`)."
    )
    return [claim("promised", f"{beats.words[:1].upper()}{beats.words[1:]}."), facts(values), paragraph(text)]


#: of the report of an answer, in this order
SECTIONS = {
    "What was asked": asked,
    "The answer": answer,
    "What was selected": selected,
    "How well it fits": fitted,
    "Groups": groups,
    "Tracking": tracking,
    "How it was found": convergence,
    "Other numbers of nonzeros": over_k,
    "How stable the choice is": stable,
    "What is proved": proved,
}


def _grouped(result: Result, told: Told) -> tuple[Sequence[Any] | None, Any]:
    """The group of every coordinate, as told or those of Γ, and the caps of Γ."""
    groups, caps = result.constraint.groups_and_caps(to_host(result.x).size)
    return groups if told.groups is None else told.groups, caps


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


def _decimals(values: Any) -> str:
    """A format that aligns numbers: three digits for the median of their sizes, at most eight decimals."""
    sizes = np.abs(np.asarray(values, dtype=float))
    middle = float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 1.0
    digits = 2 - math.floor(math.log10(middle))
    return ".4g" if digits > 8 else f".{max(digits, 1)}f"


def _search(certificate: Any) -> list[Html]:
    """How the gap closed."""
    rows = [row for row in certificate.history if math.isfinite(row.bound)]
    if len(rows) < 3 or (rows[0].bound, rows[0].incumbent) == (rows[-1].bound, rows[-1].incumbent):
        return []

    def draw(ax: Any) -> None:
        seconds = [row.time for row in rows]
        ax.plot(seconds, [row.incumbent for row in rows], label="best known", color="#000000", lw=1.6)
        ax.plot(seconds, [row.bound for row in rows], label="proved lower bound", color="#0072B2", lw=1.6)
        ax.set(xlabel="seconds", ylabel="objective R(w)")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)

    return [picture(draw, 2.6, "How the search closed the gap.", "gap against time")]
