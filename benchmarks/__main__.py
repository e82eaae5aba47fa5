"""Run every benchmark, or those named on the command line."""

import importlib
import sys

ALL = ["foundations"]

for name in sys.argv[1:] or ALL:
    print(f"== {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()
