"""A run on disk: its state after an iteration, and the queries finished since."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .risks._evaluation import Outcome, Task

FORMAT = 1


def save(path: Path, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Write arrays and JSON facts to an .npz file, atomically: whoever reads it sees the old or the new one."""
    scratch = path.with_name(path.name + ".part")
    text = json.dumps({"format": FORMAT, **facts})
    with scratch.open("wb") as file:
        np.savez(file, facts=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `save` wrote; no pickles are read."""
    if not path.exists():
        raise FileNotFoundError(
            f"resume={str(path)!r}: there is no such file; start with checkpoint={str(path)!r} and without resume"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(arrays.pop("facts").tobytes().decode())
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"resume={str(path)!r} is not a checkpoint of ellzero: {error}") from error
    if facts.get("format") != FORMAT:
        raise ValueError(
            f"resume={str(path)!r} has checkpoint format {facts.get('format')}, this version reads {FORMAT}; "
            "resume with the version that wrote it"
        )
    return arrays, facts


class Journal:
    """Finished queries of the current iteration, a JSON line each, so that a killed run need not ask again.

    Lines are flushed as they are written: they outlive the process, though not a power cut.
    """

    def __init__(self, path: Path, *, replay: bool) -> None:
        self.known: dict[tuple[int, int, str], Outcome] = {}
        if replay and path.exists():
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the line that was being written when the run was killed
                value = float("nan") if record["value"] is None else record["value"]
                key = record["query"], record["attempt"], record["point"]
                self.known[key] = Outcome(value, record["kind"], record["message"])
        self.file = path.open("a" if replay else "w")

    def lookup(self, task: Task) -> Outcome | None:
        """The outcome of a query that was finished before the run was killed."""
        return self.known.get((task.number, task.attempt, _digest(task.w)))

    def append(self, task: Task, outcome: Outcome) -> None:
        """Note a finished query."""
        record = {
            "query": task.number,
            "attempt": task.attempt,
            "point": _digest(task.w),
            "value": outcome.value if outcome.value == outcome.value else None,
            "kind": outcome.kind,
            "message": outcome.message,
        }
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def clear(self) -> None:
        """Forget everything: a checkpoint holds it now."""
        self.known.clear()
        self.file.seek(0)
        self.file.truncate()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _digest(w: np.ndarray) -> str:
    """A name for a point: the number of a query alone does not tell a run that ended from one that goes on."""
    return hashlib.sha1(w.tobytes(), usedforsecurity=False).hexdigest()[:16]
