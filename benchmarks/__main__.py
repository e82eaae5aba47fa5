"""Run every benchmark, or those named on the command line; options after one name go to that benchmark."""

import importlib
import itertools
import sys

from ellzero._core.interruption import whole_call

ALL = [
    "foundations",
    "restarts",
    "queries",
    "blackboxes",
    "projections",
    "growth",
    "curves",
    "tracking",
    "gene-expression",
    "survival",
    "choosing",
    "certificates",
    "low-rank",
    "multi-target",
    "peers",
    # by name alone: fuzz, promises and out-of-core take half an hour, clusters needs dask, interleaved another
    # checkout, and devices an accelerator
]

names = list(itertools.takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
options = sys.argv[1 + len(names) :]
for name in names or ALL:
    print(f"== {name}", flush=True)
    main = importlib.import_module(f"benchmarks.{name.replace('-', '_')}").main
    with whole_call():
        main(options) if options else main()
