"""The queries of a run since its last checkpoint, on disk."""

import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .evaluation import Outcome, Task


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

    def __init__(self, path: Path | None, earlier: Path | None, first: int, complain: Callable[[OSError], Any]) -> None:
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
        if not (outcomes := self.asked.get(_key(task)) if self.n_unused else None):
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
    """With a name for the point: the number of a query alone does not tell a run that ended from one that goes on."""
    return task.number, task.attempt, hashlib.sha1(task.w.tobytes(), usedforsecurity=False).hexdigest()[:16]
