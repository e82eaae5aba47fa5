"""Random problems at the edges of floating point, judged in rational arithmetic: `python -m benchmarks fuzz`.

`cases` draws a problem from one integer, `gammas` its set; `rationals`, `regions`, `objectives` and `polish` are the
referee's mathematics, written from the definitions and sharing nothing with the library; `referee` holds what the
library says against it, and `run` is the command line.
"""


def main(options=()):
    """The command line."""
    from .run import main as run  # the tests import the referee without it

    run(options)
