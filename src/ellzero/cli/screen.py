"""What all commands share: exit codes, errors in one line, tables and progress on the terminal, JSON for machines."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import IO, Any

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..portfolio import InfeasibleMandate
from ..sets import EmptySlice

#: the path of a file, where one is given
File = str | None
#: what infeasible mandates speak of, as options
_OPTIONS = {
    "k": "--k",
    "max_sector_weight": "--max-sector-weight",
    "min_weights": "--min-weights",
    "max_weights": "--max-weights",
    "held": "--keep and --min-weights",
}


class Exit(IntEnum):
    """What the exit code says; each member carries its sentence."""

    sentence: str

    def __new__(cls, code: int, sentence: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    OK = 0, "the answer is there"
    BUG = 1, "something that should not happen; --debug shows where"
    USAGE = 2, "the command was not understood, or an option has an impossible value"
    DATA = 3, "a file is missing, or cannot be read, or does not fit"
    INFEASIBLE = 4, "nothing satisfies all the constraints"
    STOPPED = 5, "stopped before the job was done, or the wanted gap was not proved; what was found is written"
    MISSING = 6, "an optional part is not installed; the message says which"
    INTERRUPTED = 130, "interrupted with Ctrl-C"


class Refusal(Exception):
    """An error that the user can mend: one line with the remedy, and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Screen:
    """Where a command writes. People read stdout and watch stderr; with --json stdout is one JSON object."""

    machine: bool = False
    debug: bool = False
    command: str = ""
    code: Exit = Exit.OK
    out: Console = field(default_factory=lambda: _console(sys.stdout))
    err: Console = field(default_factory=lambda: _console(sys.stderr))
    answer: dict[str, Any] = field(default_factory=dict)

    def reply(self, **parts: Any) -> None:
        """The answer for machines, with the command that it answers."""
        self.answer = {"command": self.command, "version": __version__, **parts}

    def say(self, text: str = "", style: str | None = None) -> None:
        """A line for people."""
        if not self.machine:
            self.out.print(Text(text, style=style or ""), soft_wrap=True)

    def note(self, text: str) -> None:
        """A line for people that does not stand among what is piped on."""
        if not self.machine:
            self.err.print(Text(text), soft_wrap=True)

    def facts(self, values: Mapping[str, Any]) -> None:
        """Names and values, aligned."""
        if self.machine:
            return
        grid = Table.grid(padding=(0, 2), pad_edge=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in values.items():
            grid.add_row(Text(name), Text(str(value)))
        self.out.print(grid)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
        """A table; columns of numbers, whose names start with '>', are aligned to the right and never wrapped."""
        if self.machine:
            return
        grid = Table(box=SIMPLE_HEAD, show_edge=False, title=title or None, title_justify="left", title_style="bold")
        for name in columns:
            numeric = name.startswith(">")
            grid.add_column(name.removeprefix(">"), justify="right" if numeric else "left", no_wrap=numeric)
        for row in rows:
            grid.add_row(*map(Text, row))
        self.out.print(grid)

    def finish(self) -> Exit:
        """Print the JSON object, if that was asked for."""
        if self.machine:
            print(as_json(self.answer), flush=True)
        return self.code

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Iterator[Callable[[float, str], None]]:
        """A bar that appears where a person looks, and vanishes at the end.

        What it yields takes how much is done (ignored where the total is unknown) and a text.
        """
        if self.machine or not self.err.is_terminal:
            yield lambda done, words: None
            return
        look = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(32), TimeElapsedColumn())
        bar = Progress(*look, TextColumn("{task.fields[words]}"), console=self.err, transient=True)
        task = bar.add_task(text, total=total, words="")

        def update(done: float, words: str) -> None:
            bar.update(task, completed=done if total is not None else None, words=words)

        with bar:
            yield update


def run(app: click.Command, arguments: list[str]) -> int:
    """Run a command; every error becomes one line and an exit code."""
    screen = Screen(command=shlex.join(["ellzero", *arguments]))
    screen.machine, screen.debug = "--json" in arguments, "--debug" in arguments
    try:
        app.main(arguments, prog_name="ellzero", obj=screen, standalone_mode=False)
        return int(screen.finish())
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:  # whoever was reading, such as head, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the end of the process
        return 141
    except (KeyboardInterrupt, click.Abort) as error:
        return _fail(screen, "interrupted", Exit.INTERRUPTED, error)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "ellzero"
        return _fail(screen, f"{error.format_message().rstrip('.')}; see {where} --help", Exit.USAGE, error)
    except Refusal as error:
        return _fail(screen, str(error), error.code, error)
    except ImportError as error:
        if "pip install" not in str(error) and error.name not in ("matplotlib", "pandas"):
            return _fail(screen, f"{error}", Exit.BUG, error)
        remedy = "" if "pip install" in str(error) else "; pip install 'ellzero[all]'"
        return _fail(screen, f"{error}{remedy}", Exit.MISSING, error)
    except InfeasibleMandate as error:
        return _fail(screen, error.told(_OPTIONS), Exit.INFEASIBLE, error)
    except EmptySlice as error:
        return _fail(screen, str(error), Exit.INFEASIBLE, error)
    except OSError as error:
        return _fail(screen, str(error), Exit.DATA, error)
    except (ValueError, TypeError) as error:
        return _fail(screen, str(error), Exit.USAGE, error)
    except Exception as error:
        return _fail(screen, f"{type(error).__name__}: {error}; please report it, with --debug", Exit.BUG, error)


def _fail(screen: Screen, message: str, code: Exit, error: BaseException) -> int:
    line = " ".join(message.split())
    if screen.debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    screen.err.print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)
    if screen.machine:
        print(as_json({"error": line, "exit_code": int(code)}))
    return int(code)


def _console(file: IO[str]) -> Console:
    """A console for a stream; files and pipes are as wide as their lines."""
    console = Console(file=file, highlight=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=500)


def as_json(value: Any) -> str:
    """JSON, which knows neither NumPy's numbers nor NaN and infinity: those become null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order of the help."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


#: for every command; read from the arguments in `run`, so that errors while parsing obey them, too
_COMMON = options(
    click.option("--json", "_json", is_flag=True, expose_value=False, help="One JSON object on stdout, nothing else."),
    click.option("--debug", "_debug", is_flag=True, expose_value=False, help="Show the traceback of an error."),
)


def command(examples: str, *decorators: Callable[[Any], Any]) -> Callable[[Any], click.Command]:
    """A command with its options, those of every command, and examples below; its function gets the screen first."""

    def decorate(function: Any) -> click.Command:
        epilog = f"Examples:\n\n\b{examples}"
        return click.command(epilog=epilog)(options(*decorators, _COMMON)(click.pass_obj(function)))

    return decorate
