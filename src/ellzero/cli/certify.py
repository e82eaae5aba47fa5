"""``ellzero certify``: proves how far an answer can be from the best possible one."""

import time
import warnings
from typing import Any

import numpy as np
from click import FloatRange, option

from ..solver.methods import Method
from ..solver.result import Result
from .files import data_options
from .inputs import Share, k_option, output_options, question_options, seed_option
from .outputs import certificate_of, check_weights, read_weights, show_certificate, show_result, write_weights
from .question import Question, prove, solve, write_page
from .screen import Exit, Screen, command, options

_EXAMPLES = """
  ellzero certify table.csv --target price --k 5
  ellzero certify table.csv --target price --k 5 --weights weights.csv --time-limit 30
  ellzero certify table.csv --target price --k 5 --ridge 0.1 --target-gap 0.01 --json

The exit code is 5 where the target gap (default: 0.000001, "optimal") was not proved in time.
"""
_OPTIONS = options(
    option("--weights", metavar="FILE", help="What fit --out wrote. Default: fit first."),
    option("--time-limit", type=FloatRange(min=0, min_open=True), default=10.0, metavar="SECONDS"),
    option("--target-gap", type=FloatRange(min=0), metavar="SHARE", help="Stop at this relative gap."),
    option("--method", default="auto", help="For the fit, where no weights are given."),
    seed_option("For random methods."),
)


@command(_EXAMPLES, data_options, k_option, question_options, _OPTIONS, output_options)
def certify(
    screen: Screen,
    /,
    k: Share,
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
    question = Question(**asked)
    screen.say(question.headline(), "bold")
    level = question.k(k)
    start = time.perf_counter()
    given: list[float] = []  # intercepts of the file
    if weights is None:
        result = solve(screen, question, level, method, seed)
    else:
        result, given = _read(weights, question, level)
    seconds = time.perf_counter() - start
    certificate = prove(screen, question.risk, result, time_limit, target_gap)
    proof, took = certificate_of(certificate), time.perf_counter() - start
    screen.reply(**question.answered(result), certificate=proof, seconds=took)
    best = np.ravel(screen.answer["intercept"])
    if given and (len(given) != best.size or not np.allclose(given, best, rtol=1e-6, atol=1e-9)):
        told = ", ".join(f"{b:.6g}" for b in best)
        screen.say(f"the intercept of this question is {told}, not that of {weights}")
    show_result(screen, result, question.names, seconds if weights is None else None)
    show_certificate(screen, certificate)
    write_weights(screen, out, screen.answer["weights"], question.intercept_rows(result.x))
    write_page(screen, report, result, question, seed)
    if not certificate.relative_gap <= (1.1e-6 if target_gap is None else target_gap):
        screen.code = Exit.STOPPED


def _read(path: str, question: Question, k: int) -> tuple[Result, list[float]]:
    """The answer and the intercepts of a file."""
    x, intercepts = read_weights(path, question.names)
    check_weights(x, question.request.sparsity.with_k(k), question.request.gamma, path)
    method = Method(step=1.0, standardize=False, name=f"weights of {path}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounding of the file is projected away
        result = question.request.minimize(question.risk, k, method, x0=x, max_iter=0)
    return result, intercepts
