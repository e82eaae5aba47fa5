"""The group of commands."""

import os
from importlib import import_module
from pkgutil import iter_modules

import click

from .. import __version__
from .screen import Exit
from .screen import run as run_command


class Ordered(click.Group):
    """Lists its commands as they were added, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(self.commands)


@click.group(
    cls=Ordered,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    epilog="Exit codes:\n\n\b\n" + "\n".join(f"  {int(code):>3}  {code.sentence}" for code in Exit),
)
@click.version_option(__version__, prog_name="ellzero")
def app() -> None:
    """Sparse answers under constraints: at most k nonzeros, in a convex set, and a proof of how good they are.

    \b
      ellzero demo
      ellzero fit table.csv --target price --k 5
      ellzero track --prices prices.csv --sectors sectors.csv --k 15 --max-sector-weight 0.1 --report out.html

    Each command has its own --help with examples; --json is for machines, --debug for developers.
    """


#: as one meets them; any other module of this folder that has a command of its own name comes after them
_ORDER = ("fit", "predict", "path", "certify", "track", "backtest", "reproduce", "demo", "info")
for name in dict.fromkeys([*_ORDER, *(module.name for module in iter_modules([os.path.dirname(__file__)]))]):
    found = getattr(import_module(f".{name}", __package__), name, None)
    if isinstance(found, click.Command) and found is not app:
        app.add_command(found)


def run(arguments: list[str]) -> int:
    """The exit code of a command line; without arguments it helps."""
    return run_command(app, arguments or ["--help"])
