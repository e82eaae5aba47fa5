"""The lines that `verbose` prints."""

from __future__ import annotations

import math


class Printer:
    """Prints about twenty lines a run at verbosity 1, and one an iteration at 2."""

    def __init__(self, verbose: int, max_iter: int) -> None:
        self.every = 0 if not verbose else 1 if verbose > 1 else max(1, max_iter // 20)
        if self.every:
            print(f"{'iteration':>9}  {'objective':>14}  {'change':>9}  {'seconds':>8}")

    def row(self, nit: int, fun: float, change: float, seconds: float) -> None:
        """One iteration."""
        if self.every and (nit % self.every == 0 or nit == 1):
            objective = "" if math.isnan(fun) else f"{fun:.8g}"
            print(f"{nit:>9}  {objective:>14}  {change:>9.2e}  {seconds:>8.2f}", flush=True)
