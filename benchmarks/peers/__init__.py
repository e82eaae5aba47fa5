"""ellzero beside every other package that fits sparse linear models: `python -m benchmarks peers`.

`objective` says what is compared, `datasets` on what, `solvers` by whom; `run` starts a process for each
measurement (`worker`), and `report` writes RESULTS.md and the picture.
"""


def main(options=()):
    """The command line."""
    from .run import main as run  # the peers' own environments import this package without what `run` needs

    run(options)
