"""Groups, quotas and rows: beside enumeration, and beside the peers.

python -m benchmarks structure --cases 2000     every support of small problems, by solvers of other packages
python -m benchmarks structure --peers          groups of issue size beside abess and skglm; writes STRUCTURE.md
"""


def main(options=()):
    """The command line."""
    from .run import main as run  # the peers' own environments import this package without what `run` needs

    run(options)
