"""The blocks of pages and notebooks: functions from plain values to `Html`. Everything they are given is escaped.

They are public as `ellzero.report`, and lie down here so that every object may show itself with them.
"""

import html
import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

Format = str | Callable[[Any], str]

#: What the colour of a verdict says; words that are not here are neutral.
_VERDICTS = {
    "confirmed": "good",
    "proved": "good",
    "promised": "good",
    "holds": "good",
    "partly confirmed": "warn",
    "bounded": "warn",
    "not proved": "warn",
    "not confirmed": "bad",
    "fails": "bad",
}


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def inline(text: Any) -> Html:
    """Escaped text in which `backticks` mark code."""
    if isinstance(text, Html):
        return text
    return Html(re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(str(text))))


def paragraph(*texts: Any) -> Html:
    """A paragraph for each text; `backticks` mark code.

    Examples
    --------
    >>> from ellzero.report import paragraph
    >>> paragraph("use `k` < 5")
    '<p>use <code>k</code> &lt; 5</p>'
    """
    return Html("".join(f"<p>{inline(text)}</p>" for text in texts))


def facts(values: Mapping[str, Any]) -> Html:
    """Names with their values, as a list of definitions."""
    rows = "".join(f"<div><dt>{inline(name)}</dt><dd>{inline(value)}</dd></div>" for name, value in values.items())
    return Html(f'<dl class="facts">{rows}</dl>')


def code(text: str) -> Html:
    """Commands or a program, to be copied."""
    return Html(f"<pre><code>{html.escape(text)}</code></pre>")


def claim(verdict: str, text: Any) -> Html:
    """A statement with its verdict, such as "confirmed", "not confirmed" or "not proved".

    Examples
    --------
    >>> from ellzero.report import claim
    >>> print(claim("confirmed", "The answer has 15 names."))
    <p class="claim good"><strong>confirmed</strong> <span>The answer has 15 names.</span></p>
    """
    kind = _VERDICTS.get(verdict.lower(), "neutral")
    return Html(f'<p class="claim {kind}"><strong>{inline(verdict)}</strong> <span>{inline(text)}</span></p>')


def columns(*blocks: Html) -> Html:
    """Blocks side by side, where the window is wide enough."""
    return Html(f'<div class="columns">{"".join(f"<div>{block}</div>" for block in blocks)}</div>')


def table(
    data: Any,
    caption: str = "",
    *,
    formats: Mapping[str, Format] | None = None,
    bar: str | None = None,
    sort: bool = True,
) -> Html:
    """A table that readers can sort by its headers, with the mouse or the keyboard, and save as CSV.

    Parameters
    ----------
    data : DataFrame, mapping from column to values, or sequence of mappings (rows)
        The index of a DataFrame becomes the first column if it has a name.
    caption : str
    formats : mapping from column to format, optional
        A format such as ".3f" or ".1%", or a function of the value; numbers have ".4g" otherwise.
    bar : str, optional
        A column of numbers that also get a bar.
    sort : bool
        False leaves the headers plain.

    Examples
    --------
    >>> from ellzero.report import table
    >>> text = table({"name": ["AAPL", "XOM"], "weight": [0.6, 0.4]}, "holdings", formats={"weight": ".0%"})
    >>> "60%" in text, 'aria-sort="none"' in text
    (True, True)
    """
    names, rows = _rows(data)
    numeric = {n for j, n in enumerate(names) if rows and all(_is_number(row[j]) or row[j] is None for row in rows)}
    formats = formats or {}
    largest = 0.0
    if bar is not None:
        place = names.index(bar)
        largest = max((abs(float(row[place])) for row in rows if _is_number(row[place])), default=0.0)
    head = "".join(_header(name, name in numeric, sort and len(rows) > 1) for name in names)
    body = []
    for row in rows:
        cells = []
        for name, value in zip(names, row, strict=True):
            attributes = ' class="number"' if name in numeric else ""
            if _is_number(value):
                attributes += f' data-value="{float(value)!r}"'
            if name == bar and largest and _is_number(value) and math.isfinite(value):
                sign = " negative" if value < 0 else ""
                attributes = attributes.replace('class="number"', f'class="number bar{sign}"')
                attributes += f' style="--share:{abs(float(value)) / largest:.4f}"'
            cells.append(f"<td{attributes}>{_cell(value, formats.get(name))}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    title = f"<caption>{inline(caption)}</caption>" if caption else ""
    return Html(
        f'<div class="table" role="region" tabindex="0" aria-label="{html.escape(caption or "table")}">'
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def fragment(*blocks: str) -> str:
    """Blocks for a notebook: with their style, without the script (tables do not sort there).

    Examples
    --------
    >>> from ellzero import report
    >>> report.fragment(report.facts({"k": 3})).startswith('<div class="ellzero">')
    True
    """
    style = (files(__package__) / "fragment.css").read_text(encoding="utf-8")
    body = re.sub(r"</?button\b[^>]*>", "", "".join(blocks))
    return f'<div class="ellzero"><style>{style}</style>{body}</div>'


def _header(name: str, numeric: bool, sort: bool) -> str:
    kind = ' class="number"' if numeric else ""
    if not sort:
        return f'<th scope="col"{kind}>{inline(name)}</th>'
    return f'<th scope="col"{kind} aria-sort="none"><button type="button">{inline(name)}</button></th>'


def _cell(value: Any, form: Format | None) -> Html:
    if value is None or (_is_number(value) and math.isnan(value)):
        return Html('<span class="missing">–</span>')
    if callable(form):
        return inline(form(value))
    if form is not None:
        return inline(format(value, form))
    if not _is_number(value):
        return inline(value)
    return inline(int(value) if isinstance(value, numbers.Integral) else f"{float(value):.4g}")


def _rows(data: Any) -> tuple[list[str], list[list[Any]]]:
    """Column names and rows of whatever a table can be made of."""
    if hasattr(data, "itertuples"):  # a pandas DataFrame, without importing pandas
        frame = data.reset_index() if data.index.name is not None else data
        return [str(name) for name in frame.columns], [list(row) for row in frame.itertuples(index=False)]
    if isinstance(data, Mapping):
        return [str(name) for name in data], [list(row) for row in zip(*data.values(), strict=True)]
    if not isinstance(data, Sequence) or not all(isinstance(row, Mapping) for row in data):
        raise TypeError(
            f"data must be a DataFrame, a mapping of columns or a list of row mappings, got {type(data).__name__}"
        )
    names = list(dict.fromkeys(name for row in data for name in row))
    return [str(name) for name in names], [[row.get(name) for name in names] for row in data]


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
