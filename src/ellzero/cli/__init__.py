"""The command ``ellzero``; needs click and rich: ``pip install ellzero[cli]``."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the codes are those of `ellzero.cli.screen.Exit`."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(f"error: the command line needs {error.name}; pip install 'ellzero[cli]'", file=sys.stderr)
        return 6
    from .app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
