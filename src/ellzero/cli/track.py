"""``ellzero track``: an index with at most k names."""

import time
from typing import Any

from click import FloatRange, option

from .inputs import certify_option, output_options
from .outputs import answer_of, satisfied, settle, show_certificate, show_weights, weights_of, write_html, write_weights
from .screen import File, Screen, command
from .tracking import TrackingRequest, mandate_options, market_options, tracked

_EXAMPLES = """
  ellzero track --prices prices.csv.gz --sectors sectors.csv --k 15 --max-sector-weight 0.1 --report out.html
  ellzero track --prices prices.csv --k 20 --max-weights 0.08 --out weights.csv
  ellzero track --returns returns.csv --index SPX --k 30 --min-weights -0.05 --budget 0.95:1 --json
  ellzero track --prices prices.csv --k 15 --keep AAPL --min-weights XOM=0.02
"""
_TRAIN = option(
    "--train",
    type=FloatRange(0, 1, min_open=True),
    default=0.8,
    metavar="SHARE",
    help="Fit on this share of the days, the first ones; the others tell how it goes on.",
)


@command(_EXAMPLES, market_options, mandate_options, _TRAIN, certify_option, output_options)
def track(screen: Screen, /, train: float, certify: float | None, out: File, report: File, **asked: Any) -> None:
    """Track an index with at most k names.

    Long-only and fully invested unless --min-weights and --budget say otherwise. Every bound, cap and the budget hold
    exactly; a request that no portfolio can meet is refused with the reason (exit code 4).
    """
    request = TrackingRequest.read(**asked)
    screen.say(request.headline(), "bold")
    market, tracker = request.market, request.tracker
    fitted, later = (market, None) if train == 1 else market.split(train)
    returns, index, sectors = fitted.to_pandas()
    start = time.perf_counter()
    with screen.progress(f"tracking with {tracker.k} names"):
        tracker.fit(returns, index, groups=sectors)
    seconds = time.perf_counter() - start
    took = f"solved in {seconds:.1f} s"
    if certify is not None:
        start = time.perf_counter()
        with screen.progress("proving"):
            tracker.certify(returns, index, time_limit=certify or None)
        took += f", proved in {time.perf_counter() - start:.1f} s"
    result = tracker.result_
    labels = None if market.sectors is None else market.sectors.tolist()
    weights = weights_of(result.x, market.names.tolist(), labels)
    summary = dict(tracker.summary() if later is None else tracker.summary(*later.to_pandas()[:2]))
    screen.reply(
        question=request.describe(),
        summary=summary,
        answer=answer_of(result),
        weights=weights,
        sector_weights=None if sectors is None else dict(tracker.sector_weights_),
        seed=asked["seed"],
        seconds=seconds,
    )
    told = _told(summary, result)
    screen.facts({**told, "constraints": satisfied(result)})
    if result.certificate is not None:
        show_certificate(screen, result.certificate)
    show_weights(screen, weights)
    write_weights(screen, out, weights)
    display = tracked(market, result.x, len(fitted.returns))
    title = f"An index tracked with {result.support.size} names"
    write_html(
        screen, report, tracker, title=title, groups=labels, tracking=display, summary=told, data=request.files,
        seed=asked["seed"],
    )  # fmt: skip
    screen.say(took, "dim")
    settle(screen, result)


def _told(summary: dict[str, Any], result: Any) -> dict[str, str]:
    """What a portfolio manager asks first."""
    after = {kind: summary.get(f"{kind} out of sample") for kind in ("tracking error", "mean active return")}
    error, active = (
        f"{summary[f'{kind} in sample']:.2%} a year on the days of the fit"
        + ("" if later is None else f", {later:.2%} on those after")
        for kind, later in after.items()
    )
    values = {
        "names": f"{summary['names']} of at most {result.k}, the largest {summary['largest weight']:.2%}",
        "invested": f"{summary['invested']:.2%}, cash {abs(summary['cash']):.2%}",
    }
    if "sectors" in summary:
        used = f"{summary['sectors used']} of {summary['sectors']}"
        values["sectors"] = f"{used}, the largest {summary['largest sector']:.2%}"
    error = f"{error} (annualised with {summary['periods per year']:g} days)"
    return values | {"tracking error": error, "active return": active}
