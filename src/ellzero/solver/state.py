"""A run as numbers: what a checkpoint holds, and how a run goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import index_like, to_host
from ..risks.base import Point
from ..risks.blackbox import BlackBox
from .checkpoint import not_a_checkpoint

if TYPE_CHECKING:
    from .run import Run

_POINT_FACTS = ("_value", "booked", "valued_at", "visits")
_COUNTED = ("n_gradients", "n_values", "n_thresholds", "n_monitor", "iteration")

#: what the session of a black box needs: its numbers, and its failures
Before = tuple[dict[str, Any], list[dict[str, Any]]]


def pack(run: Run) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state of a run between two iterations: arrays, and facts for JSON."""
    arrays, facts = {"history": np.array(run.history.rows, dtype=float)}, dict[str, Any]()
    roles = [run.point, run.best, *run.candidates]
    points = list(dict.fromkeys(roles))  # a point with two roles is one point, also after a resume
    for number, point in enumerate(points):
        arrays[f"{number}.w"] = to_host(point.w)
        if point.support is not None:
            arrays[f"{number}.support"] = to_host(point.support)
    facts["points"] = [{name: getattr(point, name) for name in _POINT_FACTS} for point in points]
    facts["roles"] = [points.index(point) for point in roles]
    for name, value in run.oracle.state().items():
        if isinstance(value, np.ndarray):
            arrays[f"oracle.{name}"] = value
        else:
            facts.setdefault("oracle", {})[name] = value
    learnt = {name: value for name, value in vars(run.step).items() if isinstance(value, float)}
    facts["run"] = {
        "nit": run.nit, "first_residual": run.first_residual, "step": learnt, "seconds": run.seconds,
        "entropy": run.entropy,
    }  # fmt: skip
    facts["counts"] = {name: getattr(run.counts, name) for name in _COUNTED}
    if run.session is not None:
        facts["session"] = {"asked": run.session.asked, "worst": run.session.worst}
        facts["failures"] = [vars(failure) for failure in run.session.failures]
    facts["problem"] = _fingerprint(run)
    return arrays, facts


def unpack(run: Run, arrays: dict[str, np.ndarray], facts: dict[str, Any], path: Path) -> Before | None:
    """Give a run the state that was saved; what the session of a black box needs is returned."""
    here = _fingerprint(run)
    try:
        there = {name: facts["problem"][name] for name in here}
    except Exception as error:
        raise not_a_checkpoint(path, error) from error
    for name, value in here.items():
        if there[name] != value:
            raise ValueError(
                f"resume={str(path)!r} belongs to another problem: there {name} is {there[name]!r}, here {value!r}"
            )
    try:
        before = _take_over(run, arrays, facts)
    except Exception as error:  # a file of the right format that does not hold what it should
        raise not_a_checkpoint(path, error) from error
    _same_data(run, path)
    return before


def _take_over(run: Run, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Before | None:
    points = [_restored_point(run, number, arrays, fact) for number, fact in enumerate(facts["points"])]
    run.point, run.best, *run.candidates = (points[number] for number in facts["roles"])
    saved = facts["run"]
    run.nit, run.first_residual = int(saved["nit"]), float(saved["first_residual"])
    for name, value in saved["step"].items():
        setattr(run.step, name, float(value))
    run.elapsed_before, run.entropy[:] = float(saved["seconds"]), [int(number) for number in saved["entropy"]]
    for name in _COUNTED:
        setattr(run.counts, name, int(facts["counts"][name]))
    run.history.rows = [tuple(row) for row in arrays["history"].tolist()]
    state = {name.removeprefix("oracle."): a for name, a in arrays.items() if name.startswith("oracle.")}
    run.oracle.restore({**state, **facts.get("oracle", {})})
    if "session" not in facts:
        return None
    session = {"asked": int(facts["session"]["asked"]), "worst": float(facts["session"]["worst"])}
    return session, list(facts["failures"])


def _restored_point(run: Run, number: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Point:
    w = run.risk.as_vector(arrays[f"{number}.w"])
    support = arrays.get(f"{number}.support")
    point = run.risk.at(w, None if support is None else index_like(support, w))
    for name in _POINT_FACTS:
        setattr(point, name, facts[name])
    return point


def _fingerprint(run: Run) -> dict[str, Any]:
    """What must agree for a run to be continued."""
    problem = run.asked
    return {
        "n_features": problem.risk.n_features, "n_terms": problem.risk.n_terms, "k": problem.sparsity.k,
        "sparsity": repr(problem.sparsity),
        "keep": problem.kept.tolist(), "risk": type(problem.risk).__name__, "constraint": repr(problem.gamma),
        "method": run.method.name,
    }  # fmt: skip


def _same_data(run: Run, path: Path) -> None:
    """Refuse to go on with other data: R at the saved point must be what was saved."""
    point = run.point
    if isinstance(run.risk, BlackBox) or point._value is None:
        return
    value = run.risk.at(point.w, point.support).value
    if abs(value - point._value) > 1e-6 * (abs(value) + abs(point._value)):
        raise ValueError(
            f"resume={str(path)!r} belongs to other data: the objective at its point was {point._value:.8g}, "
            f"here it is {value:.8g}"
        )
