"""What a long call is at: a line on a terminal that renews itself, or lines that stay."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from .validation import check_count


class Progress:
    """Tells on stderr what is being done.

    Parameters
    ----------
    verbose : int, optional
        0 is silent, 1 prints a line for each thing. By default one line that renews itself, on terminals alone, once a
        second has passed, and that is gone in the end.
    """

    _PATIENCE = 1.0

    def __init__(self, verbose: int | None = None) -> None:
        self.lines = None if verbose is None else check_count(verbose, "verbose", low=0)
        self.began, self._width = time.perf_counter(), 0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self.began

    def tell(self, message: str) -> None:
        """What comes next."""
        if self.lines:
            print(f"[{self.seconds:6.1f} s] {message}", file=sys.stderr, flush=True)
        elif self.lines is None and self.seconds > self._PATIENCE and sys.stderr is not None and sys.stderr.isatty():
            line = f"{message} ({self.seconds:.0f} s)"[:100]
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
