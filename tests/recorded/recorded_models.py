"""Estimators, portfolios and the command line, and what is recorded of their answers."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shlex
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from recorded_problems import Answers, Problem, number, of_certificate, of_result, table, unequal

import ellzero as ez


def fit(
    estimator: Any, kind: str = "numbers", change: Any = np.asarray, weighted: bool = False, certified: bool = False
) -> Answers:
    """An estimator's answer, its intercept and, where it chooses, what it chose."""
    X, y = table(kind, d=15)
    X = change(X)
    weights = np.random.default_rng(7).integers(1, 4, len(y)).astype(float) if weighted else None
    estimator.fit(X, y, sample_weight=weights)
    found = of_result(estimator.result_)
    found["values"] = [number(v) for v in np.ravel(estimator.intercept_)]
    if hasattr(estimator, "cv_results_"):
        found["chosen"] = estimator.k_
        found["values"].append(number(estimator.ridge_))
    return {"answer": found, **({"certificate": of_certificate(estimator.certificate_)} if certified else {})}


def market() -> Any:
    return ez.datasets.make_market(n_days=120, n_assets=30, n_sectors=4, rng=4)


def track(tracker: ez.IndexTracker) -> Answers:
    data = market()
    tracker.fit(data.returns, data.index_returns, groups=data.sectors)
    at_zero = float(np.mean(data.index_returns**2))  # of the squared error, and about as much of the others
    values = [number(tracker.tracking_error_), number(tracker.cash_)]
    return {"answer": {**of_result(tracker.result_, at_zero), "values": values}}


def walk(tracker: ez.IndexTracker, **options: Any) -> Answers:
    returns, index, sectors = market().to_pandas()
    test = ez.backtest(tracker, returns, index, sectors, window=60, **options)
    names = [np.flatnonzero(row).tolist() for row in test.weights.to_numpy()]
    values = [test.tracking_error, test.turnover.sum(), test.max_active_drawdown]
    return {"walk": {"supports": names, "values": [number(v) for v in values]}}


# ---- command line ----


def _write(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _files(folder: Path) -> None:
    for kind in ("numbers", "labels"):
        X, y = table(kind, d=12)
        rows = [[*row, target] for row, target in zip(X.tolist(), y.tolist(), strict=True)]
        _write(folder / f"{kind}.csv", [*(f"f{i}" for i in range(12)), "y"], rows)
    data = market()
    daily = np.column_stack([data.index_returns, data.returns]).tolist()
    days = np.busday_offset("2021-01-01", np.arange(len(daily)), roll="forward").astype(str)
    assets = data.names.tolist()
    _write(folder / "returns.csv", ["date", "SPX", *assets], [[d, *row] for d, row in zip(days, daily, strict=True)])
    _write(folder / "sectors.csv", ["symbol", "sector"], zip(assets, data.sectors.tolist(), strict=True))


def command(line: str) -> Answers:
    """What a command line prints for machines: names, objective and status, and the bound if one is proved."""
    from ellzero.cli import main

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _files(Path())
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = main([*shlex.split(line), "--json"])
        printed = json.loads(out.getvalue())
    answer, found = printed.get("answer", {}), {"exit": code}
    found["names"] = sorted(row["name"] for row in printed.get("weights", ()))
    if "objective" in answer:
        found.update(status=answer["status"], objective=number(answer["objective"]))
        found["scale"] = abs(found["objective"])
    if "path" in printed:
        found["values"] = [number(row["objective"]) for row in printed["path"]]
    proof = printed.get("certificate") or answer.get("certificate")
    if proof:
        found["lower_bound"] = number(proof["lower_bound"])
    return {"printed": found}


# ---- problems ----


def estimators() -> Iterator[tuple[str, Problem]]:
    R, C = ez.SparseRegressor, ez.SparseClassifier
    groups = np.arange(15) % 3
    regressors = {
        "as it is": R(),
        "k": R(k=3),
        "fraction": R(k=0.4),
        "constraint": R(k=4, constraint="nonnegative"),
        "simplex": R(k=2, constraint="simplex"),
        "groups": R(k=4, constraint=ez.sets.L1Ball(0.7), groups=groups),
        "ridge": R(k=4, ridge=0.5),
        "keep": R(k=3, keep=[0, 1]),
        "not standardized": R(k=4, standardize=False),
        "no intercept": R(k=4, fit_intercept=False),
        "IHT-2SP": R(k=4, method="IHT-2SP", constraint=ez.sets.L2Ball(1.0)),
        "exact": R(k=3, method="exact"),
        "HSG-HT": R(k=4, method="HSG-HT", max_iter=10, random_state=0),
    }
    for name, model in regressors.items():
        yield f"regressor {name}", Problem(partial(fit, model))
    for standardize in (True, False):
        name = f"standardize={standardize}"
        run = partial(fit, R(k=3, standardize=standardize, ridge=0.1), change=unequal, weighted=True)
        yield f"regressor unequal scales, {name}", Problem(run)
        run = partial(fit, C(k=3, standardize=standardize), "labels", unequal)
        yield f"classifier unequal scales, {name}", Problem(run)
    yield "regressor huber", Problem(partial(fit, R(k=3, loss="huber"), "outliers"))
    yield "regressor poisson", Problem(partial(fit, R(k=3, loss="poisson"), "counts"))
    yield "regressor certified", Problem(partial(fit, R(k=3), certified=True))
    yield "classifier of two", Problem(partial(fit, C(k=3), "labels"))
    yield "classifier of three", Problem(partial(fit, C(k=ez.sparsity.Coordinates(5)), "classes"))
    yield "classifier constraint", Problem(partial(fit, C(k=4, constraint="nonnegative", ridge=0.1), "labels"))
    yield "classifier keep, weights", Problem(partial(fit, C(k=4, keep=[0]), "labels", weighted=True))
    yield "classifier PGD", Problem(partial(fit, C(k=4, constraint=ez.sets.Box(-1, 1), method="PGD"), "labels"))
    yield "classifier certified", Problem(partial(fit, C(k=3), "labels", certified=True))
    RCV, CCV = ez.SparseRegressorCV, ez.SparseClassifierCV
    yield "regressor cv", Problem(partial(fit, RCV(ks=6, cv=3)))
    yield "regressor cv, 1se", Problem(partial(fit, RCV(ks=6, ridge=0.0, rule="1se", constraint="nonnegative")))
    yield "classifier cv", Problem(partial(fit, CCV(ks=[1, 2, 4], ridge=[0.01, 0.1], cv=3), "labels"))


def portfolios() -> Iterator[tuple[str, Problem]]:
    T, pandas = ez.IndexTracker, ("pandas",)
    trackers = {
        "as it is": T(k=8, n_starts=2),
        "sectors": T(k=8, max_sector_weight=0.3, n_starts=4),
        "budget and bounds": T(k=10, budget=(0.9, 1.0), max_weights=0.15, n_starts=1),
        "short": T(k=6, min_weights=-0.1, n_starts=1),
        "keep": T(k=6, keep=[3], min_weights={5: 0.05}, n_starts=1),
        "variance": T(k=6, error="variance", ridge=1e-5, n_starts=1),
        "huber": T(k=6, error="huber", n_starts=1),
        "all names": T(),
    }
    for name, tracker in trackers.items():
        yield f"tracker {name}", Problem(partial(track, tracker), needs=pandas)
    yield "backtest", Problem(partial(walk, T(k=6, n_starts=1), every=20, cost=0.001), needs=pandas)
    tracker = T(k=8, max_sector_weight=0.35, n_starts=1)
    yield "backtest expanding", Problem(partial(walk, tracker, every="month", expanding=True), needs=pandas)


def commands() -> Iterator[tuple[str, Problem]]:
    lines = {
        "fit": "fit numbers.csv --target y --k 3 --certify 0",
        "fit constrained": "fit numbers.csv --target y --k 4 --constraint l1:1.5 --ridge 0.1 --keep f0",
        "fit by a method": "fit numbers.csv --target y --k 3 --method IHT --no-standardize",
        "fit labels": "fit labels.csv --target y --loss logistic --k 4",
        "path": "path numbers.csv --target y --ks 5 --select ebic",
        "certify": "certify numbers.csv --target y --k 3 --target-gap 0.001",
        "track": "track --returns returns.csv --sectors sectors.csv --k 6 --max-sector-weight 0.4 --n-starts 2 --certify 0",
        "backtest": "backtest --returns returns.csv --k 5 --n-starts 1 --window 80 --cost 0.001",
    }
    for name, line in lines.items():
        yield f"command {name}", Problem(partial(command, line), needs=("click", "rich", "pandas"))
