"""fit, path and certify: from a table to weights."""

from __future__ import annotations

import time
import warnings
from typing import Any

import click
import numpy as np

from .. import __version__
from .._core.interruption import whole_call
from ..solver.loop import minimize
from ..solver.methods import Method
from ..solver.path import minimize_path
from ..solver.result import Result, Status
from .inputs import Levels, Sparsity, data_options, method_options, output_options, question_options, writable
from .outputs import (
    answer_of,
    certificate_of,
    check_weights,
    read_weights,
    settle,
    show_certificate,
    show_result,
    show_weights,
    weights_of,
    write_weights,
)
from .question import Question, intercept_of, prove, solve, write_page
from .screen import Exit, Problem, Screen, common

RULES = ("validation", "validation-1se", "ebic", "bic", "gic", "aic")


@click.command(
    epilog="""Examples:

\b
  ellzero fit table.csv --target price --k 5
  ellzero fit table.csv.gz --target price --k 5 --constraint nonnegative --out weights.csv
  ellzero fit train.svm --loss logistic --k 0.1 --report report.html --json
  ellzero fit table.csv --target y --k 10 --constraint l1:0.1 --groups groups.csv --certify 5
"""
)
@data_options
@click.option("--k", type=Sparsity(), required=True, help="How many nonzeros are allowed, or which fraction.")
@question_options
@method_options
@click.option(
    "--certify", type=click.FloatRange(min=0), metavar="SECONDS", help="Prove how good it is; 0: without branching."
)
@output_options
@common
@click.pass_obj
def fit(
    screen: Screen,
    /,
    k: int | float,
    method: str,
    seed: int,
    max_iter: int,
    time_limit: float | None,
    certify: float | None,
    out: str | None,
    report: str | None,
    **asked: Any,
) -> None:
    """Find at most k weights that explain a column of DATA.

    DATA is a CSV file of numbers with a header (.csv, .csv.gz, .csv.bz2), or a LIBSVM file (.svm, .libsvm). Both
    conditions, at most k nonzeros and the constraint Γ, hold in the answer, in the units of the file.
    """
    writable(out)
    writable(report)
    question = Question(**asked)
    screen.say(question.headline(), "bold")
    start = time.perf_counter()
    result = solve(screen, question, question.k(k), method, seed, max_iter=max_iter, time_limit=time_limit)
    seconds = time.perf_counter() - start
    if certify is not None and result.status is not Status.INTERRUPTED:
        prove(screen, question.risk, result, certify or None, None)
    weights = weights_of(result.x, question.names, question.labels)
    screen.answer = {
        "command": screen.command,
        "version": __version__,
        "question": question.describe(),
        "answer": answer_of(result),
        "intercept": intercept_of(question, result),
        "weights": weights,
        "seed": seed,
        "seconds": seconds,
    }
    more = (
        {"intercept": np.array2string(np.asarray(screen.answer["intercept"]), precision=6)}
        if question.intercept
        else {}
    )
    show_result(screen, result, seconds, **more)
    show_weights(screen, weights)
    write_weights(screen, out, weights, question.intercept_rows(result.x))
    write_page(screen, report, result, question, seed)
    settle(screen, result)


@click.command(
    epilog="""Examples:

\b
  ellzero path table.csv --target price --ks 10
  ellzero path table.csv --target price --ks 2:10:2 --validation 0.25 --report report.html
  ellzero path table.csv --target price --ks 1,2,5,10 --select bic --out weights.csv
"""
)
@data_options
@click.option("--ks", type=Levels(), required=True, help="Numbers of nonzeros: 20 (1 to 20), 5:50:5 or 1,2,5,10.")
@question_options
@method_options
@click.option(
    "--validation",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Hold out this share of the rows.",
)
@click.option("--select", type=click.Choice(RULES), help="Default: validation where rows are held out, else ebic.")
@output_options
@common
@click.pass_obj
def path(
    screen: Screen,
    /,
    ks: int | list[int],
    method: str,
    seed: int,
    max_iter: int,
    time_limit: float | None,
    validation: float | None,
    select: str | None,
    out: str | None,
    report: str | None,
    **asked: Any,
) -> None:
    """Answers for many k, and the choice among them.

    Each answer starts from its neighbour's. The k is chosen by rows that are held out (--validation), or by an
    information criterion. Where rows were held out, the weights for the chosen k are then fitted on all rows.
    """
    writable(out)
    writable(report)
    question = Question(**asked)
    rule = select or ("validation" if validation else "ebic" if question.loss != "huber" else None)
    if rule is None:
        raise click.UsageError("Huber's loss has no likelihood for ebic: hold out rows with '--validation 0.2'")
    if rule.startswith("validation") and validation is None:
        raise click.UsageError(f"'--select {rule}' needs rows that are held out: add '--validation 0.2'")
    levels, n = question.ks(ks), question.data.shape[0]
    risk, held_out, used = question.risk, None, "all rows"
    if validation is not None:
        order = np.random.default_rng(seed).permutation(n)
        last = min(max(1, round(validation * n)), n - 1)
        risk, held_out = (question.risk_of(question.data.rows(np.sort(i))) for i in (order[last:], order[:last]))
        used = f"{n - last} of {n} rows"
    screen.say(question.headline(), "bold")
    start = time.perf_counter()
    done: list[int] = []
    with screen.progress("path", len(levels)) as update:

        def step(result: Result) -> None:
            done.append(result.k)
            update(len(done), f"k = {result.k}, objective {result.fun:.6g}")

        try:
            with whole_call():
                found = minimize_path(
                    risk, levels, question.constraint, method, validation=held_out, keep=question.keep, rng=seed,
                    max_iter=max_iter, time_limit=time_limit, callback=step,
                )  # fmt: skip
        except KeyboardInterrupt:
            told = f"interrupted after {len(done)} answers for {len(levels)} k; no k was chosen and nothing is written"
            raise Problem(told, Exit.INTERRUPTED) from None
    chosen = result = found.select(rule)
    if validation is not None:  # the rows have told which k; now they may help with the weights
        left = None if time_limit is None else max(time_limit - (time.perf_counter() - start), 1e-9)
        result = solve(
            screen, question, chosen.k, method, seed, x0=chosen.x, max_iter=max_iter, time_limit=left
        )  # fmt: skip
    seconds = time.perf_counter() - start
    criteria = None if rule.startswith("validation") else found.criterion(rule)
    rows = [
        {
            "k": int(k),
            "nonzeros": int(found.nonzeros[i]),
            "objective": found.fun[i],
            **({} if found.validation is None else {"held_out": found.validation[i]}),
            **({} if criteria is None else {rule: criteria[i]}),
        }
        for i, k in enumerate(found.ks)
    ]
    weights = weights_of(result.x, question.names, question.labels)
    screen.answer = {
        "command": screen.command,
        "version": __version__,
        "question": question.describe(),
        "path": rows,
        "rule": rule,
        "path_fitted_on": used,
        "answer_fitted_on": "all rows",
        "answer": answer_of(result),
        "intercept": intercept_of(question, result),
        "weights": weights,
        "seed": seed,
        "seconds": seconds,
    }
    columns = list(rows[0])
    cells = [[*(f"{row[c]:.6g}" for c in columns), "chosen" if row["k"] == chosen.k else ""] for row in rows]
    screen.table([*(f">{name}" for name in columns), ""], cells)
    screen.say(f"k = {chosen.k} by {rule}, {seconds:.1f} s: {found.message}", "bold")
    if validation is not None:
        screen.say(
            f"the path was fitted on {used}, the weights for k = {chosen.k} on all {n}: objective {result.fun:.6g}"
        )
    show_weights(screen, weights)
    write_weights(screen, out, weights, question.intercept_rows(result.x))
    title = f"{question.data.path}: k = {chosen.k}, chosen by {rule}"
    how = {"k chosen by": f"{rule}, on a path fitted on {used}", "weights fitted on": f"all {n} rows"}
    write_page(screen, report, result, question, seed, over_k=found, title=title, asked=how)
    if not (found.success and result.success):
        screen.code = Exit.STOPPED


@click.command(
    epilog="""Examples:

\b
  ellzero certify table.csv --target price --k 5
  ellzero certify table.csv --target price --k 5 --weights weights.csv --time-limit 30
  ellzero certify table.csv --target price --k 5 --ridge 0.1 --target-gap 0.01 --json

The exit code is 5 where the target gap (default: 0.000001, "optimal") was not proved in time.
"""
)
@data_options
@click.option("--k", type=Sparsity(), required=True, help="How many nonzeros are allowed, or which fraction.")
@question_options
@click.option("--weights", metavar="FILE", help="What fit --out wrote. Default: fit first.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
)
@click.option("--target-gap", type=click.FloatRange(min=0), metavar="SHARE", help="Stop at this relative gap.")
@click.option("--method", default="auto", show_default=True, help="For the fit, where no weights are given.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@output_options
@common
@click.pass_obj
def certify(
    screen: Screen,
    /,
    k: int | float,
    weights: str | None,
    time_limit: float,
    target_gap: float | None,
    method: str,
    seed: int,
    out: str | None,
    report: str | None,
    **asked: Any,
) -> None:
    """Prove how far an answer can be from the best possible one.

    A lower bound holds for every vector with at most k nonzeros in Γ. Branch and bound raises it until the gap is
    closed or the time is up. A ridge makes bounds much tighter.
    """
    writable(out)
    writable(report)
    question = Question(**asked)
    screen.say(question.headline(), "bold")
    level = question.k(k)
    start = time.perf_counter()
    given: list[float] = []  # intercepts of the file
    if weights is None:
        result = solve(screen, question, level, method, seed)
    else:
        x, given = read_weights(weights, question.names)
        check_weights(x, level, question.constraint, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rounding of the file is projected away
            result = minimize(
                question.risk, level, question.constraint, Method(step=1.0, name=f"weights of {weights}"), x0=x,
                keep=question.keep, max_iter=0,
            )  # fmt: skip
    seconds = time.perf_counter() - start
    certificate = prove(screen, question.risk, result, time_limit, target_gap)
    found = weights_of(result.x, question.names, question.labels)
    screen.answer = {
        "command": screen.command,
        "version": __version__,
        "question": question.describe(),
        "answer": answer_of(result),
        "certificate": certificate_of(certificate),
        "intercept": intercept_of(question, result),
        "weights": found,
        "seconds": time.perf_counter() - start,
    }
    best = np.ravel(screen.answer["intercept"])
    if given and (len(given) != best.size or not np.allclose(given, best, rtol=1e-6, atol=1e-9)):
        told = ", ".join(f"{b:.6g}" for b in best)
        screen.say(f"the intercept of this question is {told}, not that of {weights}")
    show_result(screen, result, seconds if weights is None else None)
    show_certificate(screen, certificate)
    write_weights(screen, out, found, question.intercept_rows(result.x))
    write_page(screen, report, result, question, seed)
    if not certificate.relative_gap <= (1.1e-6 if target_gap is None else target_gap):
        screen.code = Exit.STOPPED
