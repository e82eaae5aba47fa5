"""``ellzero reproduce``: the paper's experiments."""

from typing import Any

import click
from click import IntRange, argument, option

from .inputs import seed_option, writable
from .screen import Exit, Screen, command, options

_EXAMPLES = """
  ellzero reproduce tradeoff --out out/tradeoff
  ellzero reproduce index-tracking --prices prices.csv --sectors sectors.csv
  ellzero reproduce all --full
"""
_OPTIONS = options(
    argument("name", metavar="[tradeoff|index-tracking|logistic|appendix|all]", default="all"),
    option("--out", default="out/reproduce", metavar="FOLDER", help="For the page, figures, tables."),
    option("--full", is_flag=True, help="The paper's length instead of minutes."),
    seed_option("For all that is random."),
    option("--n-jobs", type=IntRange(min=1), help="Processes. Default: all cores."),
    option("--prices", multiple=True, metavar="FILE|FOLDER", help="A market; may be repeated. Default: simulated."),
    option("--sectors", multiple=True, metavar="FILE", help="One for each --prices file."),
)


@command(_EXAMPLES, _OPTIONS)
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
