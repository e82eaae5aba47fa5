"""``ellzero path``: answers for many k, and the choice among them."""

import time
from typing import Any

import click
import numpy as np
from click import Choice, FloatRange, option

from ..solver.path import SparsePath
from ..solver.result import Result
from .files import data_options
from .inputs import LEVELS, method_options, output_options, question_options
from .outputs import show_weights, write_weights
from .question import Question, solve, write_page
from .screen import Exit, Refusal, Screen, command, options

_NO_LIKELIHOOD = {"huber": "Huber's", "quantile": "The quantile", "squared_hinge": "The squared hinge"}
_RULES = ("validation", "validation-1se", "ebic", "bic", "gic", "aic")
_EXAMPLES = """
  ellzero path table.csv --target price --ks 10
  ellzero path table.csv --target price --ks 2:10:2 --validation 0.25 --report report.html
  ellzero path table.csv --target price --ks 1,2,5,10 --select bic --out weights.csv
"""
_KS = option("--ks", type=LEVELS, required=True, help="Numbers of nonzeros: 20 (1 to 20), 5:50:5 or 1,2,5,10.")
_OPTIONS = options(
    option(
        "--validation",
        type=FloatRange(0, 1, min_open=True, max_open=True),
        metavar="SHARE",
        help="Hold out this share of the rows.",
    ),
    option("--select", type=Choice(_RULES), help="Default: validation where rows are held out, else ebic."),
)


@command(_EXAMPLES, data_options, _KS, question_options, method_options, _OPTIONS, output_options)
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
    question = Question(**asked)
    rule = _rule(select, validation, question.loss)
    levels, n = question.ks(ks), question.data.shape[0]
    risk, held_out, used = _parts(question, validation, seed)
    screen.say(question.headline(), "bold")
    start = time.perf_counter()
    limits = {"max_iter": max_iter, "time_limit": time_limit}
    found = _walk(screen, question, risk, levels, method, validation=held_out, rng=seed, **limits)
    chosen = result = found.select(rule)
    if held_out is not None:  # the rows have told which k; now they may help with the weights
        if time_limit is not None:
            limits["time_limit"] = max(time_limit - (time.perf_counter() - start), 1e-9)
        result = solve(screen, question, chosen.k, method, seed, x0=chosen.x, **limits)
    seconds = time.perf_counter() - start
    rows = _rows(found, rule)
    how = {"path": rows, "rule": rule, "path_fitted_on": used, "answer_fitted_on": "all rows"}
    screen.reply(**question.answered(result), **how, seed=seed, seconds=seconds)
    weights = screen.answer["weights"]
    _show(screen, rows, chosen.k)
    screen.say(f"k = {chosen.k} by {rule}, {seconds:.1f} s: {found.message}", "bold")
    if held_out is not None:
        both = f"the path was fitted on {used}, the weights for k = {chosen.k} on all {n}"
        screen.say(f"{both}: objective {result.fun:.6g}")
    show_weights(screen, weights)
    write_weights(screen, out, weights, question.intercept_rows(result.x))
    title = f"{question.data.path}: k = {chosen.k}, chosen by {rule}"
    choice = {"k chosen by": f"{rule}, on a path fitted on {used}", "weights fitted on": f"all {n} rows"}
    write_page(screen, report, result, question, seed, over_k=found, title=title, asked=choice)
    if not (found.success and result.success):
        screen.code = Exit.STOPPED


def _rule(select: str | None, validation: float | None, loss: str) -> str:
    """What chooses k."""
    rule = select or ("validation" if validation else "ebic")
    if select is None and rule == "ebic" and loss.partition(":")[0] in _NO_LIKELIHOOD:
        name = _NO_LIKELIHOOD[loss.partition(":")[0]]
        raise click.UsageError(f"{name} loss has no likelihood for ebic: hold out rows with '--validation 0.2'")
    if rule.startswith("validation") and validation is None:
        raise click.UsageError(f"'--select {rule}' needs rows that are held out: add '--validation 0.2'")
    return rule


def _parts(question: Question, validation: float | None, seed: int) -> tuple[Any, Any, str]:
    """The risk of the path, that of the rows held out, and in words what the first was made of."""
    if validation is None:
        return question.risk, None, "all rows"
    n, rng = question.data.shape[0], np.random.default_rng(seed)
    labels = np.zeros(n) if question.classes is None else question.data.y
    held: list[int] = []
    for label in np.unique(labels):  # of every class its share
        part = np.flatnonzero(labels == label)
        if part.size < 2:
            what = "" if question.classes is None else f" of class {str(label)!r}"
            raise ValueError(f"--validation leaves rows out, and there is one{what} alone; give more, or do without it")
        held += rng.permutation(part)[: min(max(1, round(validation * part.size)), part.size - 1)].tolist()
    rows = np.sort(held), np.setdiff1d(np.arange(n), held)
    held_out, risk = (question.risk_of(question.data.rows(index)) for index in rows)
    return risk, held_out, f"{n - len(held)} of {n} rows"


def _walk(screen: Screen, question: Question, risk: Any, levels: list[int], method: str, **options: Any) -> SparsePath:
    """`minimize_path`, with a bar."""
    done: list[int] = []
    with screen.progress("path", len(levels)) as update:

        def step(result: Result) -> None:
            done.append(result.k)
            update(len(done), f"k = {result.k}, objective {result.fun:.6g}")

        try:
            return question.request.path(risk, levels, method, callback=step, **options)
        except KeyboardInterrupt:
            told = f"interrupted after {len(done)} answers for {len(levels)} k; no k was chosen and nothing is written"
            raise Refusal(told, Exit.INTERRUPTED) from None


def _rows(found: SparsePath, rule: str) -> list[dict[str, Any]]:
    """What is known about every k."""
    columns: dict[str, Any] = {"k": found.ks, "nonzeros": found.nonzeros, "objective": found.fun}
    if found.validation is not None:
        columns["held_out"] = found.validation
    if not rule.startswith("validation"):
        columns[rule] = found.criterion(rule)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _show(screen: Screen, rows: list[dict[str, Any]], chosen: int) -> None:
    cells = [[*(f"{value:.6g}" for value in row.values()), "chosen" if row["k"] == chosen else ""] for row in rows]
    screen.table([*(f">{name}" for name in rows[0]), ""], cells)
