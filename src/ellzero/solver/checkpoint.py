"""A run on disk: its state after an iteration, beside it the journal of queries, and how a run goes on from them."""

import hashlib
import json
import math
import os
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import index_like, to_host
from ..risks.base import Point
from ..risks.journal import Journal, journal_of
from ..sparsity import Sparsity
from .run import Run

#: of the files; one that is changed reads no older files
FORMAT = 2
_SECONDS_BETWEEN_CHECKPOINTS = 1.0
_POINT_FACTS = ("_value", "booked", "valued_at", "refitted", "trusted")
_COUNTED = ("n_gradients", "n_values", "n_thresholds", "n_monitor", "iteration")


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


class Files:
    """The checkpoint of a run and the journal beside it, read and written; or none at all.

    Parameters
    ----------
    checkpoint : Path, optional
        Where to write.
    resume : Path, optional
        What to go on from.
    """

    def __init__(self, checkpoint: Path | None = None, resume: Path | None = None) -> None:
        if checkpoint is not None:
            name, folder = str(checkpoint), str(checkpoint.parent)
            if not checkpoint.parent.is_dir():
                raise FileNotFoundError(f"checkpoint={name!r}: there is no folder {folder!r}; create it first")
            if checkpoint.is_dir():
                raise IsADirectoryError(f"checkpoint={name!r} is a folder; name a file, such as 'run.npz', in it")
        self.checkpoint, self.resume = checkpoint, resume
        self._session: dict[str, Any] | None = None  # what the session of a black box goes on from
        self._on_disk: int | None = None  # the iteration that the checkpoint holds
        self._saved = -math.inf
        self._warned = False  # that the checkpoint cannot be written

    def open(self, run: Run) -> None:
        """Let a run go on from its checkpoint, if there is one, and prepare to write."""
        if self.resume is not None:
            self._session = unpack(run, *load(self.resume), self.resume)
            self._on_disk = run.state.nit if self.resume == self.checkpoint else None
        if not run.problem.risk.has_gradient and (self.checkpoint is not None or self.resume is not None):
            first = 0 if self._session is None else int(self._session["asked"])
            run.journal = Journal(journal_of(self.checkpoint), journal_of(self.resume), first, self._cannot_write)
            run.state.counts.waiting = run.journal.n_unused_of_end

    def begin(self, run: Run) -> None:
        """Go on where the session of a black box was; write before its first query, so that none is ever forgotten."""
        if self._session is not None:
            run.session.restore(self._session)
        if run.journal is not None and self.checkpoint is not None and self._on_disk is None:
            self._save(run)

    def update(self, run: Run, *, now: bool = False) -> None:
        """Write a checkpoint if it is time: a black box after every iteration, others about every second."""
        if self.checkpoint is None:
            return
        if run.state.nit == self._on_disk:
            return  # the file is up to date, and the journal beside it may hold what the end needs
        if not (now or run.journal or time.perf_counter() - self._saved > _SECONDS_BETWEEN_CHECKPOINTS):
            return
        run.session.retire()
        if self._save(run) and run.journal is not None:
            run.journal.clear()

    def _save(self, run: Run) -> bool:
        """Write a checkpoint; whether that was possible."""
        assert self.checkpoint is not None
        self._saved = time.perf_counter()
        try:
            save(self.checkpoint, *pack(run))
        except OSError as error:
            self._cannot_write(error)
            return False
        self._on_disk = run.state.nit
        return True

    def _cannot_write(self, error: OSError) -> None:
        """A disk that is full ends no run; it is said once."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"checkpoint={str(self.checkpoint)!r} cannot be written ({error}); the run goes on, and can be resumed "
                "from the last checkpoint that was written, if there is one",
                RuntimeWarning,
                stacklevel=2,
            )


def pack(run: Run) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The state of a run between two iterations: arrays, and facts for JSON."""
    state = run.state
    arrays, facts = {"history": np.array(state.history.rows, dtype=float)}, dict[str, Any]()
    roles = [state.point, state.best, *state.candidates.points]
    points = list(dict.fromkeys(roles))  # a point with two roles is one point, also after a resume
    for number, point in enumerate(points):
        arrays[f"{number}.w"] = to_host(point.w)
        if point.support is not None:
            arrays[f"{number}.support"] = to_host(point.support)
    facts["points"] = [{name: getattr(point, name) for name in _POINT_FACTS} for point in points]
    facts["roles"] = [points.index(point) for point in roles]
    for name, value in run.oracle.state().items():
        if isinstance(value, np.ndarray):
            arrays[f"oracle.{name}"] = value
        else:
            facts.setdefault("oracle", {})[name] = value
    learnt = {name: value for name, value in vars(run.step).items() if isinstance(value, float)}
    arrays |= {f"step.{name}": value for name, value in vars(run.step).items() if isinstance(value, np.ndarray)}
    facts["run"] = {
        "nit": state.nit, "first_residual": state.first_residual, "step": learnt, "seconds": state.clock.seconds,
        "entropy": state.entropy,
    }  # fmt: skip
    facts["counts"] = {name: getattr(state.counts, name) for name in _COUNTED}
    facts["session"] = run.session.facts()
    facts["problem"] = _fingerprint(run)
    return arrays, facts


def unpack(run: Run, arrays: dict[str, np.ndarray], facts: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Give a run the state that was saved; what the session of a black box needs is returned."""
    here = _fingerprint(run)
    try:
        there = {name: facts["problem"][name] for name in here}
    except Exception as error:
        raise not_a_checkpoint(path, error) from error
    for name, value in here.items():
        if there[name] != value:
            raise ValueError(
                f"resume={str(path)!r} belongs to another problem: there {name} is {there[name]!r}, here {value!r}"
            )
    try:
        _take_over(run, arrays, facts)
        session = dict(facts["session"])
    except Exception as error:  # a file of the right format that does not hold what it should
        raise not_a_checkpoint(path, error) from error
    _same_data(run, path)
    return session or None


def _take_over(run: Run, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    state = run.state
    points = [_restored_point(run, number, arrays, fact) for number, fact in enumerate(facts["points"])]
    state.point, state.best, *state.candidates.points = (points[number] for number in facts["roles"])
    saved = facts["run"]
    state.nit, state.first_residual = int(saved["nit"]), float(saved["first_residual"])
    for name, value in saved["step"].items():
        setattr(run.step, name, float(value))
    for name, array in arrays.items():
        if name.startswith("step."):
            setattr(run.step, name.removeprefix("step."), array)
    state.clock.before, state.entropy[:] = float(saved["seconds"]), [int(number) for number in saved["entropy"]]
    for name in _COUNTED:
        setattr(state.counts, name, int(facts["counts"][name]))
    state.history.rows = [tuple(row) for row in arrays["history"].tolist()]
    oracle = {name.removeprefix("oracle."): a for name, a in arrays.items() if name.startswith("oracle.")}
    run.oracle.restore({**oracle, **facts.get("oracle", {})})


def _restored_point(run: Run, number: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Point:
    risk = run.problem.risk
    w = risk.as_vector(arrays[f"{number}.w"])
    support = arrays.get(f"{number}.support")
    point = risk.at(w, None if support is None else index_like(support, w))
    for name in _POINT_FACTS:
        setattr(point, name, facts[name])
    return point


def _digest(sparsity: Sparsity) -> str | None:
    parts = [part for part in (sparsity.atoms, *(sparsity.quotas or ())) if part is not None]
    return hashlib.sha256(b"".join(part.astype(np.int64).tobytes() for part in parts)).hexdigest() if parts else None


def _fingerprint(run: Run) -> dict[str, Any]:
    """What must agree for a run to be continued."""
    problem = run.asked
    return {
        "n_features": problem.risk.n_features, "n_terms": problem.risk.n_terms, "k": problem.sparsity.k,
        "sparsity": repr(problem.sparsity), "atoms": _digest(problem.sparsity),
        "keep": problem.kept.tolist(), "risk": type(problem.risk).__name__, "constraint": repr(problem.gamma),
        "method": run.method.name,
    }  # fmt: skip


def _same_data(run: Run, path: Path) -> None:
    """Refuse to go on with other data: R at the saved point must be what was saved."""
    point, risk = run.state.point, run.problem.risk
    if point._value is None or not risk.has_gradient:
        return
    value = risk.at(point.w, point.support).value
    if abs(value - point._value) > 1e-6 * (abs(value) + abs(point._value)):
        raise ValueError(
            f"resume={str(path)!r} belongs to other data: the objective at its point was {point._value:.8g}, "
            f"here it is {value:.8g}"
        )
