"""From answers to screens and files."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import to_host
from ..datasets.text_files import read_rows
from ..sets import ConstraintSet
from ..solver.result import Result
from ..sparsity import Sparsity
from .files import reading
from .screen import Exit, Refusal, Screen, as_json

_MOST = 25
#: in files of weights, the name of the intercept; of several classes behind theirs
INTERCEPT = "(intercept)"


def weights_of(x: np.ndarray, names: Sequence[str], groups: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    """A row for every nonzero weight, the largest first."""
    support = np.flatnonzero(x)
    order = support[np.argsort(-np.abs(x[support]), kind="stable")].tolist()
    label = {} if groups is None else {i: {"group": str(groups[i])} for i in order}
    return [{"name": str(names[i]), **label.get(i, {}), "weight": float(x[i]), "position": i} for i in order]


def answer_of(result: Result) -> dict[str, Any]:
    """A result, for machines."""
    return {
        "objective": result.fun,
        "nonzeros": int(result.support.size),
        "k": result.k,
        "constraint": repr(result.constraint),
        "violation": result.violation,
        "method": result.method,
        "projection": result.projection,
        "success": result.success,
        "status": result.message,
        "iterations": result.nit,
        "stationarity": result.stationarity,
        "gradients": result.n_gradients,
        "certificate": certificate_of(result.certificate),
        "promise": promise_of(result.beats),
        "exchanges": None if result.exchanges is None else result.exchanges.words,
    }


def certificate_of(certificate: Any) -> dict[str, Any] | None:
    """A certificate, for machines."""
    if certificate is None:
        return None
    return {
        "lower_bound": certificate.lower_bound,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
        "proved_in": to_host(certificate.proved_in).tolist(),
        "proved_out_count": int(certificate.proved_out.size),
        "status": certificate.status.value,
        "words": certificate.words,
        "how": certificate.how,
        "advice": certificate.advice,
    }


def promise_of(beats: Any) -> dict[str, Any] | None:
    """How sparse a vector cannot be better, for machines."""
    if beats is None:
        return None
    return {
        "k_bar": beats.k_bar,
        "form": beats.form,
        "strong_convexity": beats.strong_convexity.value,
        "read_off": beats.strong_convexity.how,
        "error": beats.error,
        "words": beats.words,
    }


def show_result(
    screen: Screen, result: Result, names: Sequence[str], seconds: float | None = None, **more: Any
) -> None:
    """What a result says, for people; how it was found only if it took time here."""
    proof = f", {result.certificate.words}" if result.certificate is not None else ""
    free = result.constraint.whole_space
    values = {
        "objective": f"{result.fun:.8g}{proof}",
        result.sparsity.label: result.sparsity.describe(result.x),
        "constraint": "none" if free else f"{result.constraint.words(names)}, {satisfied(result)}",
        **more,
    }
    if result.beats:
        values["promise"] = result.beats.words
    if seconds is not None:
        rounds = f"{result.nit} iteration{'' if result.nit == 1 else 's'}"
        values["method"] = f"{result.method}, projection {result.projection}, {rounds}, {seconds:.2g} s"
        values["ended"] = result.message
    screen.facts(values)


def satisfied(result: Result) -> str:
    """How well the answer obeys Γ."""
    return "satisfied exactly" if result.violation == 0 else f"satisfied up to rounding, {result.violation:.0e}"


def show_certificate(screen: Screen, certificate: Any) -> None:
    """What is proved, for people."""
    values = {
        "proof": certificate.words,
        "lower bound": f"{certificate.lower_bound:.8g}",
        "gap": f"{certificate.gap:.3g} ({certificate.relative_gap:.2%} of the objective)",
        "in every best answer": f"{certificate.proved_in.size} coordinates",
        "in no best answer": f"{certificate.proved_out.size} coordinates",
        "ended": f"{certificate.status.value} ({certificate.nodes} nodes, {certificate.seconds:.1f} s)",
    }
    if certificate.advice:
        values["to improve"] = certificate.advice
    screen.facts(values)


def show_weights(screen: Screen, weights: list[dict[str, Any]]) -> None:
    """The largest weights, with their groups."""
    if not weights:
        screen.say("  no weight is nonzero")
        return
    grouped = "group" in weights[0]
    shown = weights[:_MOST]
    digits = max(3, 3 - math.floor(math.log10(max(abs(w["weight"]) for w in shown))))
    form = f".{digits}f" if digits <= 8 else ".4g"
    rows = [[w["name"], *([w["group"]] if grouped else []), f"{w['weight']:{form}}"] for w in shown]
    screen.table(["name", *(["group"] if grouped else []), ">weight"], rows)
    if len(weights) > _MOST:
        screen.say(f"  and {len(weights) - _MOST} smaller ones; --out writes all of them", "dim")


def write_weights(
    screen: Screen, path: str | None, weights: list[dict[str, Any]], intercepts: Sequence[dict[str, Any]] = ()
) -> None:
    """Weights as CSV, with the intercepts below them, or the whole answer as JSON, by the name of the file."""
    if path is None:
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".json":
        target.write_text(as_json(screen.answer) + "\n", encoding="utf-8")
    else:
        with target.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(weights[0]) if weights else ["name", "weight", "position"])
            writer.writeheader()
            writer.writerows([*weights, *intercepts])
    screen.say(f"weights: {path}")


def write_html(screen: Screen, path: str | None, what: Any, **told: Any) -> None:
    """The report, where one was asked for."""
    if path is not None:
        from ..report import write_report

        write_report(what, path, command=screen.command, **told)
        screen.say(f"report: {path}")


def read_weights(path: str, names: Sequence[str]) -> tuple[np.ndarray, list[float]]:
    """The vector and intercepts that `write_weights` wrote: a CSV with name and weight, or the JSON of an answer."""
    with reading():
        if Path(path).suffix == ".json":
            try:
                saved = json.loads(Path(path).read_text(encoding="utf-8"))
                pairs = [(str(row["name"]), float(row["weight"])) for row in saved["weights"]]
                given = saved.get("intercept", [])
                pairs += [(INTERCEPT, float(b)) for b in (given if isinstance(given, list) else [given])]
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}: no weights could be read; it must be what --out wrote") from error
        else:
            with read_rows(path) as (header, rows):
                if not {"name", "weight"} <= set(header):
                    raise ValueError(f"{path}: the header must name name and weight, got {header}")
                places = header.index("name"), header.index("weight")
                pairs = [(cells[places[0]], float(cells[places[1]])) for _, cells in rows]
        place = {name: i for i, name in enumerate(names)}
        x, intercepts = np.zeros(len(names)), []
        for name, weight in pairs:
            if not math.isfinite(weight):
                raise ValueError(f"{path}: the weight of {name!r} must be a finite number, got {weight}")
            if name not in place and name.endswith(INTERCEPT):
                intercepts.append(weight)
                continue
            if name not in place:
                raise ValueError(f"{path}: {name!r} is not among the data's columns; use the weights of this data")
            x[place[name]] = weight
    return x, intercepts


def check_weights(x: np.ndarray, sparsity: Sparsity, constraint: ConstraintSet, path: str) -> None:
    """Weights from a file must be an answer to the question."""
    violation = constraint.violation(x)
    if not sparsity.allows(x):
        used = f"{np.count_nonzero(x)} weights are nonzero"
        if sparsity.plain:
            raise Refusal(f"{path}: {used}, and --k is {sparsity.k}; raise --k", Exit.INFEASIBLE)
        raise Refusal(
            f"{path}: {used}, in {sparsity.count(x)} {sparsity.counted}, and allowed are {sparsity.words}; raise --k",
            Exit.INFEASIBLE,
        )
    if violation > 1e-9:
        raise Refusal(
            f"{path}: the weights break {constraint!r} by {violation:.2g} (relative); give the constraint they obey",
            Exit.INFEASIBLE,
        )


def settle(screen: Screen, result: Result) -> None:
    """The exit code of a run."""
    if not result.success:
        screen.code = Exit.STOPPED
