"""What an experiment says (claims, tables, figures, words) and how it is written: files, and one HTML page."""

from __future__ import annotations

import csv
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .. import report as blocks
from ..datasets.text_files import PathLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: one file or folder, or several
Files = PathLike | Sequence[PathLike] | None
Who = Literal["the paper", "a theorem", "ellzero"]


@dataclass(frozen=True)
class Claim:
    """A statement, the number that was measured, and whether the number bears the statement out.

    Attributes
    ----------
    who : {"the paper", "a theorem", "ellzero"}
        Who says so.
    says, measured : str
    holds : bool or None
        Computed from the numbers; None where these data cannot tell.
    but : str
        What a reader must know although it holds; the verdict is then "partly confirmed".
    comparable : bool
        Whether the number was measured on what the statement is about.

    Examples
    --------
    >>> from ellzero.experiments._report import Claim
    >>> Claim("the paper", "the curves do not cross", "0 crossings", holds=True).verdict
    'confirmed'
    """

    who: Who
    says: str
    measured: str
    holds: bool | None
    but: str = ""
    comparable: bool = True

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.comparable:
            return "not comparable"
        if self.holds is None:
            return "open"
        if not self.holds:
            return "not confirmed"
        return "partly confirmed" if self.but else "confirmed"

    def __str__(self) -> str:
        more = f" {'But' if self.holds and self.comparable else 'Note'}: {self.but}." if self.but else ""
        return f"{self.who}: {self.says}. Measured: {self.measured}.{more}"


@dataclass(frozen=True)
class Table:
    """Columns of equal length under a name (its files') and a title.

    Attributes
    ----------
    formats : mapping from column to format
        For the page and Markdown; the CSV file has all digits.
    shown : sequence of int, optional
        The rows on the page and in Markdown; the CSV file has all of them.
    """

    name: str
    title: str
    columns: Mapping[str, Sequence[Any]]
    formats: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[int] | None = None

    @classmethod
    def of(cls, name: str, title: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> Table:
        """From rows; what one lacks is None."""
        columns = dict.fromkeys(column for row in rows for column in row)
        return cls(name, title, {column: [row.get(column) for row in rows] for column in columns}, **more)

    def csv(self, path: Path) -> Path:
        """Write it with all digits."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows())
        return path

    def markdown(self) -> str:
        """The table as Markdown, with the digits that matter."""
        lines = [[str(name) for name in self.columns], ["---"] * len(self.columns)]
        lines += [
            [self._cell(name, value) for name, value in zip(self.columns, row, strict=True)]
            for row in zip(*self._short().values(), strict=True)
        ]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)

    def rows(self) -> list[tuple[Any, ...]]:
        """Row by row."""
        return list(zip(*self.columns.values(), strict=True))

    def html(self) -> blocks.Html:
        """A block for the page."""
        return blocks.table(self._short(), self.title, formats=self.formats)

    def _short(self) -> dict[str, list[Any]]:
        shown = self.shown if self.shown is not None else range(len(self.rows()))
        return {name: [values[i] for i in shown] for name, values in self.columns.items()}

    def _cell(self, name: str, value: Any) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        if isinstance(value, numbers.Real) and not isinstance(value, (bool, numbers.Integral)):
            return format(float(value), self.formats.get(name, ".4g"))
        return str(value).replace("|", "\\|")


@dataclass(frozen=True)
class Part:
    """A section: words, figures by name with their captions, tables, claims."""

    title: str
    words: Sequence[str] = ()
    figures: Mapping[str, tuple[Figure, str]] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()

    def html(self) -> list[blocks.Html]:
        """The blocks: figures first, beside them what is claimed, then the tables."""
        found = [blocks.paragraph(*self.words)] if self.words else []
        found += [blocks.figure(figure, caption) for figure, caption in self.figures.values()]
        found += [blocks.claim(claim.verdict, str(claim)) for claim in self.claims]
        return found + [table.html() for table in self.tables]


@dataclass(frozen=True)
class Chapter:
    """One experiment: its parts, and its rows of the table "paper against ours"."""

    name: str
    title: str
    parts: Sequence[Part]
    summary: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Plan:
    """The independent tasks of an experiment by key (function, arguments), and what makes a chapter of the results."""

    text: str
    tasks: Mapping[Any, tuple[Callable[..., Any], tuple[Any, ...]]]
    finish: Callable[[dict[Any, Any]], Chapter]


@dataclass(frozen=True)
class Report:
    """What a run wrote.

    Attributes
    ----------
    page : Path
        The HTML page.
    paths : list of Path
        Every file: the page, figures as PNG and SVG, tables as CSV and Markdown.
    chapters : list of Chapter
    """

    page: Path
    paths: list[Path]
    chapters: Sequence[Chapter]

    @property
    def claims(self) -> list[Claim]:
        """All claims of all chapters."""
        return [claim for chapter in self.chapters for part in chapter.parts for claim in part.claims]

    @property
    def tables(self) -> dict[str, Table]:
        """All tables by name."""
        return {table.name: table for chapter in self.chapters for part in chapter.parts for table in part.tables}


def against(problem: str, method: str, **pairs: tuple[Any, Any]) -> dict[str, str]:
    """A row of the table "paper against ours": theirs → ours, a column for each pair of texts or numbers."""

    def text(value: Any) -> str:
        return value if isinstance(value, str) else f"{value:.4g}"

    row = {"problem": problem, "their method": method}
    return row | {name.replace("_", " "): f"{text(old)} → {text(new)}" for name, (old, new) in pairs.items()}


def write(chapters: Sequence[Chapter], out: Path, how: str) -> Report:
    """Figures, tables and the page, below the folder `out`; `how` says how the numbers were made."""
    import matplotlib.pyplot as plt

    figures, tables = out / "figures", out / "tables"
    for folder in (figures, tables):
        folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    front = _front(chapters)
    for table in [*front.tables, *(t for c in chapters for p in c.parts for t in p.tables)]:
        paths.append(table.csv(tables / f"{table.name}.csv"))
        paths.append(tables / f"{table.name}.md")
        paths[-1].write_text(f"{table.title}\n\n{table.markdown()}", encoding="utf-8")
    page = blocks.Page("The paper's experiments, reproduced and questioned", lead=how)
    page.section(front.title, *front.html())
    for chapter in chapters:
        for part in chapter.parts:
            for name, (figure, _) in part.figures.items():
                with plt.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
                    paths += [figures / f"{name}.png", figures / f"{name}.svg"]
                    figure.savefig(paths[-2], dpi=110)
                    figure.savefig(paths[-1], metadata={"Date": None})
            page.section(f"{chapter.title}: {part.title}", *part.html())
    paths.insert(0, page.save(out / "index.html"))
    return Report(paths[0], paths, list(chapters))


def _front(chapters: Sequence[Chapter]) -> Part:
    """The first section: how many claims were confirmed, all of them, and the paper against ours."""
    said = [(chapter.title, claim) for chapter in chapters for part in chapter.parts for claim in part.claims]
    words = []
    for who in ("the paper", "a theorem", "ellzero"):
        verdicts = [claim.verdict for _, claim in said if claim.who == who]
        if counts := [f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)]:
            words.append(f"Of {len(verdicts)} statements of {who}: {', '.join(counts)}.")
    words.append(
        'A verdict is computed from the numbers beside it, never written by hand. Ours is `method="auto"`. '
        "“Open” means that these data cannot tell, “not comparable” that they are not those of the statement."
    )
    tables = []
    if rows := [row for chapter in chapters for row in chapter.summary]:
        tables.append(Table.of("paper_against_ours", "On the paper's problems, the paper's method → ours", rows))
    told = [
        {"verdict": c.verdict, "where": title, "who": c.who, "claim": c.says, "measured": c.measured, "but": c.but}
        for title, c in said
    ]
    papers = [i for i, (_, claim) in enumerate(said) if claim.who == "the paper"]
    title = "What the paper says (tables/claims.csv has all the claims)"
    tables.append(Table.of("claims", title, told, shown=papers))
    return Part("What was found", words, tables=tables)
