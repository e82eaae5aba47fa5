"""The group of commands."""

from __future__ import annotations

import click

from .. import __version__
from . import learn, more, portfolio
from .screen import Exit
from .screen import run as run_command


class Ordered(click.Group):
    """Commands in the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As they were added."""
        return list(self.commands)


@click.group(
    cls=Ordered,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes:\n\n\b\n" + "\n".join(f"  {int(code):>3}  {code.sentence}" for code in Exit),
)
@click.version_option(__version__, prog_name="ellzero")
def app() -> None:
    """Sparse answers under constraints: at most k nonzeros, in a convex set, and a proof of how good they are.

    \b
      ellzero demo
      ellzero fit table.csv --target price --k 5
      ellzero track --prices prices.csv --sectors sectors.csv --k 15 --max-sector 0.1 --report out.html

    Each command has its own --help with examples; --json is for machines, --debug for developers.
    """


_COMMANDS = (learn.fit, learn.path, learn.certify, portfolio.track, portfolio.backtest)
for command in (*_COMMANDS, more.reproduce, more.demo, more.info):
    app.add_command(command)


def run(arguments: list[str]) -> int:
    """The exit code of a command line; without arguments it helps."""
    return run_command(app, arguments or ["--help"])
