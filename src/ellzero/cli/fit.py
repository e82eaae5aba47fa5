"""``ellzero fit``: from a table to weights."""

import time
from typing import Any

import numpy as np

from ..solver.result import Status
from .files import data_options
from .inputs import Share, certify_option, k_option, method_options, output_options, question_options
from .outputs import settle, show_result, show_weights, write_weights
from .question import Question, prove, solve, write_page
from .screen import File, Screen, command

_EXAMPLES = """
  ellzero fit table.csv --target price --k 5
  ellzero fit table.csv.gz --target price --k 5 --constraint nonnegative --out weights.csv
  ellzero fit train.svm --loss logistic --k 0.1 --report report.html --json
  ellzero fit table.csv --target y --k 10 --constraint l1:0.1 --groups groups.csv --certify 5
"""


@command(_EXAMPLES, data_options, k_option, question_options, method_options, certify_option, output_options)
def fit(
    screen: Screen, /, k: Share, method: str, seed: int, certify: float | None, out: File, report: File, **asked: Any
) -> None:
    """Find at most k weights that explain a column of DATA.

    DATA is a CSV file of numbers with a header (.csv, .csv.gz, .csv.bz2), or a LIBSVM file (.svm, .libsvm). Both
    conditions, at most k nonzeros and the constraint Γ, hold in the answer, in the units of the file.
    """
    limits = {name: asked.pop(name) for name in ("max_iter", "time_limit")}
    question = Question(**asked)
    screen.say(question.headline(), "bold")
    start = time.perf_counter()
    result = solve(screen, question, question.k(k), method, seed, **limits)
    seconds = time.perf_counter() - start
    if certify is not None and result.status is not Status.INTERRUPTED:
        prove(screen, question.risk, result, certify or None, None)
    screen.reply(**question.answered(result), seed=seed, seconds=seconds)
    weights, intercept = screen.answer["weights"], np.asarray(screen.answer["intercept"])
    told = {"intercept": ", ".join(f"{b:.6g}" for b in intercept.ravel())} if question.intercept else {}
    if result.certificate is not None and result.certificate.advice:
        told["to prove more"] = result.certificate.advice
    show_result(screen, result, question.names, seconds, **told)
    show_weights(screen, weights)
    write_weights(screen, out, weights, question.intercept_rows(result.x))
    write_page(screen, report, result, question, seed)
    settle(screen, result)
