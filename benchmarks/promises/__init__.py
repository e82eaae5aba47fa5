"""Promises against enumeration: `python -m benchmarks promises`.

`cases` draws small problems and asks the library for answers and promises; `referee` looks on every support for a
member that is better, with projections and descent of its own, sharing nothing with it; `run` is the command line.
"""


def main(options=()):
    """The command line."""
    from .run import main as run  # the tests import the referee without it

    run(options)
