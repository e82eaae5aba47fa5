"""The next block is read while this one is computed with, and somebody may watch how far it is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import Any, TextIO, TypeVar

T = TypeVar("T")
_DONE = object()


def ahead(items: Iterator[T]) -> Generator[T]:
    """The same items, made by a thread of its own that is one ahead: no more than two are there at a time."""
    free, ready = threading.Semaphore(2), SimpleQueue[Any]()
    stop = threading.Event()

    def read() -> None:
        try:
            while free.acquire() and not stop.is_set():
                item = next(items, _DONE)
                ready.put((item, None))
                if item is _DONE:
                    return
        except BaseException as error:  # of the source, for whoever waits for its blocks
            ready.put((_DONE, error))
        finally:
            getattr(items, "close", lambda: None)()

    reader = threading.Thread(target=read, name="ellzero reader", daemon=True)
    reader.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _DONE:
                return
            yield item
            del item
            free.release()
    finally:
        stop.set()
        free.release()
        reader.join()


class Progress:
    """How much of a sweep is done, how fast it goes and how long it takes yet; on standard error.

    A bar where rich is installed and somebody watches, a line that is written over without rich, and a line every ten
    seconds where the output goes to a file.
    """

    def __init__(self, label: str, total: int | None, stream: TextIO | None = None) -> None:
        self.label, self.total, self.done = label, total, 0
        self.stream = sys.stderr if stream is None else stream
        self.started = self.told = time.monotonic()
        self.watched = self.stream.isatty()
        self.every = 0.2 if self.watched else 10.0
        self.bar: Any = None
        if self.watched:
            self.bar = _rich_bar(label, total, self.stream)

    def advance(self, n_bytes: int) -> None:
        """So many bytes more were read."""
        self.done += n_bytes
        if self.bar is not None:
            self.bar.update(0, advance=n_bytes)
            return
        now = time.monotonic()
        if now - self.told >= self.every:
            self.told = now
            self._write(self.words(now), end="\r" if self.watched else "\n")

    def words(self, now: float) -> str:
        """The line."""
        seconds = max(now - self.started, 1e-9)
        speed = self.done / seconds
        if self.total is None:
            return f"{self.label}: {_size(self.done)}, {_size(speed)}/s"
        left = max(self.total - self.done, 0) / max(speed, 1e-9)
        share = self.done / max(self.total, 1)
        return (
            f"{self.label}: {_size(self.done)} of {_size(self.total)} ({share:.0%}), {_size(speed)}/s, "
            f"{_duration(left)} left"
        )

    def close(self) -> None:
        """The sweep is over."""
        if self.bar is not None:
            self.bar.stop()
        elif self.watched:
            self._write(" " * 79, end="\r")

    def _write(self, text: str, end: str) -> None:
        self.stream.write(f"{text:<79}{end}" if self.watched else text + end)
        self.stream.flush()


def _rich_bar(label: str, total: int | None, stream: TextIO) -> Any:
    """A bar of rich, begun; None where it is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
    bar = Bar(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True)
    bar.add_task(label, total=total)
    bar.start()
    return bar


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
