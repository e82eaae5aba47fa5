"""demo, info and reproduce."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import math
import os
import platform
import time
from typing import Any

import click
import numpy as np

from .._core.interruption import whole_call
from ..datasets import Market, make_market
from ..minimize import minimize
from ..risks import LeastSquares
from ..sets import GroupWise, L1Ball
from ..solver.result import Result
from .inputs import check_names, writable
from .outputs import answer_of, weights_of
from .screen import Exit, Screen, common

_MAX_ITER = 10_000
_METHODS = {
    "auto": "the default: exact projections, refits and exchanges",
    "IHT-2SP": "the paper's two-step projection",
    "PGD+H": "obeys only the caps on the way, then keeps the k largest",
    "IHT+P": "obeys only k on the way, then projects onto the caps",
}


@click.command(
    epilog="""Examples:

\b
  ellzero demo
  ellzero demo --k 30 --cap 0.05 --report demo.html
"""
)
@click.option("--k", type=click.IntRange(min=1), default=15, show_default=True, help="Names at the most.")
@click.option("--cap", type=click.FloatRange(min=0), default=0.1, show_default=True, help="Largest Σ|w| of a sector.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which market.")
@click.option("--report", metavar="FILE", help="A report on the default's answer, as one HTML file.")
@common
@click.pass_obj
def demo(screen: Screen, /, k: int, cap: float, seed: int, report: str | None) -> None:
    """Track a simulated index with few names and a cap on every sector.

    The default method, the paper's, and the two naive ways of obeying two constraints.
    """
    writable(report)
    market = make_market(rng=seed)
    check_names(k, market.names.size)
    train, test = market.split()
    assert market.sectors is not None
    caps = GroupWise(L1Ball(cap), groups=train.sectors)
    risk = LeastSquares(train.returns, train.index_returns)
    screen.say(
        f"{train.names.size} simulated names in {len(caps.names)} sectors, {len(train.returns)} days to fit, "
        f"{len(test.returns)} to test; at most {k} names, at most {cap:g} in any sector"
    )
    results: dict[str, Result] = {}
    rows, answers = [], []
    for method in _METHODS:
        start = time.perf_counter()
        with whole_call(), screen.progress(method):
            results[method] = res = minimize(risk, k, caps, method, max_iter=_MAX_ITER, rng=seed)
        seconds = time.perf_counter() - start
        errors = [_error(res.x, market) for market in (train, test)]
        largest = max(float(np.abs(res.x[market.sectors == s]).sum()) for s in np.unique(market.sectors))
        rows.append(
            [method, *(f"{e:.1f}" for e in errors), f"{res.support.size}", f"{largest:.4f}", f"{seconds:.1f} s"]
        )
        answers.append({**answer_of(res), "train_error_bp": errors[0], "test_error_bp": errors[1]})
    columns = ["method", ">fit", ">test", ">names", ">largest sector", ">time"]
    screen.table(columns, rows, "tracking error on the days of the fit and after, in basis points a day")
    screen.facts(_METHODS)
    best = results["auto"]
    screen.answer = {
        "seed": seed,
        "methods": answers,
        "weights": weights_of(best.x, market.names.tolist(), market.sectors.tolist()),
    }
    if report is not None:
        from ..displays import TrackingDisplay
        from ..report import write_report

        display = TrackingDisplay(
            index_returns=market.index_returns,
            portfolios={"portfolio": market.returns @ best.x},
            dates=market.dates,
            test_from=len(train.returns),
        )
        title = f"A simulated index with {best.support.size} names"
        write_report(
            best, report, title=title, feature_names=market.names.tolist(), tracking=display, seed=seed,
            data={"simulated returns": market.returns}, command=screen.command,
        )  # fmt: skip
        screen.say(f"report: {report}")


def _error(w: np.ndarray, market: Market) -> float:
    """The root mean square of the daily difference to the index, in basis points."""
    return 1e4 * math.sqrt(float(np.mean((market.returns @ w - market.index_returns) ** 2)))


_EXTRAS = {
    "plot": ["matplotlib"],
    "portfolio": ["pandas"],
    "cli": ["click", "rich"],
    "torch": ["torch"],
    "jax": ["jax"],
    "download": ["pooch"],
    "dask": ["dask", "distributed"],
}


@click.command(
    epilog="""Examples:

\b
  ellzero info
  ellzero info --json
"""
)
@common
@click.pass_obj
def info(screen: Screen, /) -> None:
    """Versions, optional parts, methods and constraints: what is here.

    Put its output into a report of a problem.
    """
    from .. import __version__
    from ..solver.methods import _PRESETS

    methods = [*_PRESETS, "exact"]

    core = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    extras = {name: all(importlib.util.find_spec(m) is not None for m in needs) for name, needs in _EXTRAS.items()}
    from threadpoolctl import threadpool_info

    blas = [f"{p['internal_api']} {p['version']}, {p['num_threads']} threads" for p in threadpool_info()]
    screen.answer = {
        "ellzero": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        **core,
        "blas": blas,
        "extras": extras,
        "methods": methods,
    }
    screen.facts(
        {
            "ellzero": __version__,
            "python": f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores",
            **core,
            "linear algebra": "; ".join(blas),
            "methods": ", ".join(methods),
        }
    )
    rows = [
        [name, "yes" if here else "no", "" if here else f"pip install 'ellzero[{name}]'"]
        for name, here in extras.items()
    ]
    screen.table(["extra", "installed", "how to get it"], rows)


@click.command(
    epilog="""Examples:

\b
  ellzero reproduce tradeoff --out out/tradeoff
  ellzero reproduce index-tracking --prices prices.csv --sectors sectors.csv
  ellzero reproduce all --full
"""
)
@click.argument("name", metavar="[tradeoff|index-tracking|logistic|appendix|all]", default="all")
@click.option(
    "--out", default="out/reproduce", show_default=True, metavar="FOLDER", help="For the page, figures, tables."
)
@click.option("--full", is_flag=True, help="The paper's length instead of minutes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes. Default: all cores.")
@click.option("--prices", multiple=True, metavar="FILE|FOLDER", help="A market; may be repeated. Default: simulated.")
@click.option("--sectors", multiple=True, metavar="FILE", help="One for each --prices file.")
@common
@click.pass_obj
def reproduce(screen: Screen, /, name: str, prices: tuple[str, ...], sectors: tuple[str, ...], **options: Any) -> None:
    """Run the paper's experiments, and say in words what was confirmed and what was not."""
    from .. import experiments

    if name not in (*experiments.NAMES, "all"):
        raise click.UsageError(f"{name!r} is no experiment; take one of {', '.join(experiments.NAMES)} or all")
    writable(f"{options['out']}/index.html")
    with screen.progress("reproducing", total=1) as update:
        found = experiments.run(
            name,
            prices=list(prices) or None,
            sectors=list(sectors) or None,
            progress=lambda done, total, text: update(done / max(total, 1), f"{done} of {total}: {text}"),
            **options,
        )
    screen.answer = {
        "page": str(found.page),
        "files": [str(path) for path in found.paths],
        "claims": [{"verdict": claim.verdict, "text": str(claim)} for claim in found.claims],
    }
    for claim in found.claims:
        screen.say(f"{claim.verdict:<17}{claim}")
    screen.say(f"page: {found.page}", "bold")
    if not found.page.exists():
        screen.code = Exit.BUG
