"""The library's answers as they were recorded: no change makes them worse or dearer unseen.

`answers.json` holds, for every problem of `recorded_problems` and `recorded_models`, what was found and what it cost:

- support, status, projection, and whatever else is a choice (k, names, exit code): equal;
- objective: not above the recorded one by more than 1e-9 of max(|R|, |R(0) - R|), unless the problem says otherwise;
- counts (gradients, values, thresholdings, monitor's values, iterations) and nodes: not above, they may fall;
- lower bound: not below by more than 1e-6 of itself; relative gap not above by more than 1e-6, proved coordinates not
  fewer; other values equal to 1e-6.

A change that betters an answer records it anew, and says why in its commit:

    python tests/recorded/test_answers.py --record             # all problems; prints what differs from before
    python tests/recorded/test_answers.py --record L1Ball cv   # those with one of these words in their names

What is recorded holds on processors of other kinds, too: check with OPENBLAS_CORETYPE=Haswell, SkylakeX and Nehalem
and with OMP_NUM_THREADS=1 and 2 before recording.
"""

from __future__ import annotations

import json
import sys
from inspect import isabstract
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import recorded_models as models
import recorded_problems as basic

import ellzero as ez

FILE = Path(__file__).with_name("answers.json")
_SOURCES = (
    basic.methods, basic.risks, basic.structures, basic.constraints, basic.requests, basic.paths, basic.proofs,
    models.estimators, models.portfolios, models.commands,
)  # fmt: skip
PROBLEMS = dict(chain.from_iterable(source() for source in _SOURCES))
RECORDED = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def complaint(field: str, old: Any, new: Any, problem: basic.Problem, scale: float) -> str | None:
    """What is worse now, or None. Lists of numbers are compared entry by entry."""
    if field in ("counts", "nodes"):
        pairs = zip(old, new, strict=True) if field == "counts" else [(old, new)]
        return "more work" if any(n > o for o, n in pairs) else None
    if field == "objective":
        return None if new <= old + problem.above * scale else "a worse objective"
    if field == "lower_bound":
        return None if new >= old - 1e-6 * abs(old) else "a lower bound"
    if field == "relative_gap":
        return None if new <= old + 1e-6 else "a wider gap"
    if field == "proved":
        return None if all(n >= o for o, n in zip(old, new, strict=True)) else "less proved"
    if field == "values":
        return None if new == pytest.approx(old, rel=1e-6, abs=1e-9) else "other values"
    return None if field == "scale" or old == new else f"another {field}"


def complaints(name: str, found: basic.Answers) -> list[str]:
    """All that is worse than recorded, with both values."""
    recorded = RECORDED[name]
    if recorded.keys() != found.keys():
        return [f"{name}: answers {list(found)} now, {list(recorded)} recorded"]
    said = []
    for part, old in recorded.items():
        new = found[part]
        if old.keys() != new.keys():
            said.append(f"{name}, {part}: fields {list(new)} now, {list(old)} recorded")
            continue
        for field in old:
            word = complaint(field, old[field], new[field], PROBLEMS[name], old.get("scale", 0.0))
            if word:
                said.append(f"{name}, {part}: {word}: {new[field]} now, {old[field]} recorded")
    return said


@pytest.mark.parametrize("name", PROBLEMS)
def test_answer(name):
    for package in PROBLEMS[name].needs:
        pytest.importorskip(package)
    found = json.loads(json.dumps(PROBLEMS[name].run()))
    said = complaints(name, found)
    assert not said, "\n".join(said)


def test_every_problem_is_recorded():
    assert list(RECORDED) == list(PROBLEMS)


def test_nothing_public_is_left_out():
    """A new set or risk needs a problem here."""
    for module, base in ((ez.sets, ez.sets.ConstraintSet), (ez.risks, ez.risks.Risk)):
        for public in module.__all__:
            thing = getattr(module, public)
            if isinstance(thing, type) and issubclass(thing, base) and not isabstract(thing):
                assert any(public in name for name in PROBLEMS), public


def record(words: list[str]) -> None:
    """Run the problems that have one of the words in their names, or all, and write what was found."""
    book = {}
    for name, problem in PROBLEMS.items():
        book[name] = RECORDED.get(name)
        if not words or name not in RECORDED or any(word in name for word in words):
            book[name] = json.loads(json.dumps(problem.run()))
            if name in RECORDED and book[name] != RECORDED[name]:
                print(f"{name}:\n  was {json.dumps(RECORDED[name])}\n  is  {json.dumps(book[name])}")
    lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in book.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(book)} problems, {FILE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--record"]:
        sys.exit("usage: python tests/recorded/test_answers.py --record [words in names of problems]; pytest compares")
    record(sys.argv[2:])
