"""``python -m ellzero.experiments all --out DIR``, where the command line of ellzero is not installed."""

import argparse
import sys

from ._run import NAMES, run


def main(argv: list[str] | None = None) -> None:
    """Run, show progress, say where the page is."""
    parser = argparse.ArgumentParser(prog="python -m ellzero.experiments", description="The paper's experiments.")
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--out", default="out/reproduce", help="folder of the page (default out/reproduce)")
    parser.add_argument("--full", action="store_true", help="the paper's length instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=None, help="processes (default: all cores)")
    parser.add_argument("--prices", action="append", help="CSV file or folder of a market; may be repeated")
    parser.add_argument("--sectors", action="append", help="CSV file of sectors, one for each --prices file")
    options = vars(parser.parse_args(argv))

    def progress(done: int, total: int, text: str) -> None:
        print(f"\r{done:>4} of {total}  {text:<60}", end="", file=sys.stderr, flush=True)

    report = run(options.pop("name"), progress=progress, **options)
    print(file=sys.stderr)
    for claim in report.claims:
        print(f"{claim.verdict:<17}{claim}")
    print(f"page: {report.page}")


if __name__ == "__main__":
    main()
