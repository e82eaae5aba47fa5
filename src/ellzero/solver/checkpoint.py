"""A run on disk: its state after an iteration, and the queries since."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..risks.evaluation import Outcome, Task

FORMAT = 1


def save(path: Path, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Write arrays and JSON facts to an .npz file, atomically: whoever reads it sees the old or the new one."""
    scratch = path.with_name(path.name + ".part")
    text = json.dumps({"format": FORMAT, **facts})
    try:
        with scratch.open("wb") as file:
            np.savez(file, facts=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)  # half a file, of use to nobody, on a disk that may be full
        raise


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `save` wrote; no pickles are read."""
    if not path.exists():
        raise FileNotFoundError(
            f"resume={str(path)!r}: there is no such file; start with checkpoint={str(path)!r} and without resume"
        )
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(arrays.pop("facts").tobytes().decode())
        version = facts.get("format")
    except Exception as error:  # whatever zip files, arrays and JSON make of bytes that are not theirs
        raise not_a_checkpoint(path, error) from error
    if version != FORMAT:
        raise ValueError(
            f"resume={str(path)!r} has checkpoint format {version}, this version reads {FORMAT}; "
            "resume with the version that wrote it"
        )
    return arrays, facts


def not_a_checkpoint(path: Path, error: Exception) -> ValueError:
    """The error for a file of somebody else, or for what is left of one."""
    return ValueError(
        f"resume={str(path)!r} is not a checkpoint of ellzero, or is damaged ({type(error).__name__}: {error}); "
        "give the file that checkpoint= has written, or start again without resume"
    )


def journal_of(path: Path | None) -> Path | None:
    """The file beside a checkpoint that holds the queries since."""
    return None if path is None else path.with_name(path.name + ".journal")


#: what a query gave that was under way when the process was ended
KILLED = Outcome(math.nan, "killed", "the process was ended while it was under way")


class Journal:
    """The queries since the last checkpoint, a JSON line before and one after each, so that none is forgotten.

    A query that had gone out when the process was killed counts; one that was finished need not be asked again.
    Lines are written at once: they outlive the process, though not a power cut.

    Parameters
    ----------
    path : Path, optional
        Where to write; nowhere by default.
    earlier : Path, optional
        The journal of an earlier sitting, from which the run goes on.
    first : int
        Queries with smaller numbers are in the checkpoint already.
    complain : callable
        Is told of an error of the disk, which ends no run.
    """

    def __init__(
        self, path: Path | None, earlier: Path | None, first: int, complain: Callable[[OSError], None]
    ) -> None:
        self.asked: dict[tuple[int, int, str], deque[Outcome]] = {}
        self.n_unused = self.n_unused_of_end = 0
        self.complain = complain
        lines = earlier.read_bytes().splitlines() if earlier is not None and earlier.exists() else []
        for line in lines:
            self._read(line, first)
        # a line may have been torn when the process was killed: the next one must not be glued to it
        self._file = None if path is None else path.open("wb" if path != earlier else "ab", buffering=0)
        self._torn = path == earlier and bool(lines)
        if self._file is not None and path != earlier:
            self._write(b"".join(line + b"\n" for line in lines))

    def _read(self, line: bytes, first: int) -> None:
        try:
            record = json.loads(line)
            key = int(record["query"]), int(record["attempt"]), str(record["point"])
            event, value = record["event"], record.get("value")
            outcome = Outcome(
                math.nan if value is None else float(value), str(record.get("kind", "")),
                str(record.get("message", "")), called=bool(record.get("called", True)),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):  # torn
            return
        if key[0] < first:
            return
        outcomes = self.asked.setdefault(key, deque())
        if event == "begin":
            outcomes.append(KILLED)
            self.n_unused += 1
            self.n_unused_of_end += bool(record.get("end"))
        elif event == "void" and outcomes:
            outcomes.pop()
            self.n_unused -= 1
        elif event == "done" and outcomes:
            outcomes[-1] = outcome

    def lookup(self, task: Task) -> Outcome | None:
        """What came of a query in an earlier sitting; each time it was asked is told once."""
        outcomes = self.asked.get(_key(task)) if self.n_unused else None
        if not outcomes:
            return None
        self.n_unused -= 1
        return outcomes.popleft()

    def retire(self) -> int:
        """How many queries of earlier sittings nobody has looked up, and will not any more."""
        unused, self.n_unused, self.n_unused_of_end = self.n_unused, 0, 0
        self.asked.clear()
        return unused

    def begin(self, tasks: Sequence[Task], *, end: bool) -> None:
        """Note queries that go out now; `end` for those with which a run settles its answer."""
        self._note("begin", tasks, end=end)

    def void(self, task: Task) -> None:
        """Note that a query never began."""
        self._note("void", [task])

    def done(self, task: Task, outcome: Outcome) -> None:
        """Note a finished query."""
        value = outcome.value if math.isfinite(outcome.value) else None
        told = {"value": value, "kind": outcome.kind, "message": outcome.message, "called": outcome.called}
        self._note("done", [task], **told)

    def _note(self, event: str, tasks: Sequence[Task], **facts: Any) -> None:
        if self._file is not None:
            names = [dict(zip(("query", "attempt", "point"), _key(task), strict=True)) for task in tasks]
            self._write("".join(json.dumps({**name, "event": event, **facts}) + "\n" for name in names).encode())

    def _write(self, text: bytes) -> None:
        if self._file is None:
            return
        if self._torn:
            text = b"\n" + text
        try:
            self._torn = self._file.write(text) != len(text)
            if self._torn:
                self.complain(OSError("no space left"))
        except OSError as error:
            self._torn = True
            self.complain(error)

    def clear(self) -> None:
        """Forget everything: a checkpoint holds it now."""
        self.retire()
        if self._file is not None:
            try:
                self._file.seek(0)
                self._file.truncate()
                self._torn = False
            except OSError as error:
                self.complain(error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _key(task: Task) -> tuple[int, int, str]:
    return task.number, task.attempt, _digest(task.w)


def _digest(w: np.ndarray) -> str:
    """A name for a point: the number of a query alone does not tell a run that ended from one that goes on."""
    return hashlib.sha1(w.tobytes(), usedforsecurity=False).hexdigest()[:16]
