"""The page: a title, sections, a style and a script, in one file."""

from __future__ import annotations

import html
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._core.blocks import Html, fragment, inline

# nothing is ever loaded: neither scripts, styles, fonts nor pictures from elsewhere
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Page:
    """A report under construction.

    Parameters
    ----------
    title : str
    lead : str, optional
        One or two sentences below the title.

    Examples
    --------
    >>> from ellzero import report
    >>> page = report.Page("Fifteen names", lead="What was asked, and the answer.")
    >>> _ = page.section("Answer", report.paragraph("It has `k = 15`."), report.table({"k": [14, 15]}))
    >>> "<h2" in page.html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title, self.lead = title, lead
        self._sections: list[tuple[str, Html]] = []

    def section(self, heading: str, *blocks: Any) -> Page:
        """Add a section; a block that is plain text becomes a paragraph."""
        body = "".join(b if isinstance(b, Html) else f"<p>{inline(b)}</p>" for b in blocks)
        self._sections.append((heading, Html(body)))
        return self

    def html(self) -> str:
        """The whole page."""
        ids = [f"{re.sub(r'[^a-z0-9]+', '-', h.lower()).strip('-')}-{i}" for i, (h, _) in enumerate(self._sections)]
        parts = [(i, inline(h), b) for i, (h, b) in zip(ids, self._sections, strict=True)]
        links = "".join(f'<li><a href="#{i}">{h}</a></li>' for i, h, _ in parts)
        body = "".join(
            f'<section id="{i}" aria-labelledby="h-{i}"><h2 id="h-{i}">{h}</h2>{b}</section>' for i, h, b in parts
        )
        lead = f'<p class="lead">{inline(self.lead)}</p>' if self.lead else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{_asset('style.css')}</style>\n</head>\n"
            '<body>\n<a class="skip" href="#main">to the content</a>\n<header><div class="top">'
            f'<h1>{inline(self.title)}</h1><button type="button" id="theme">dark</button></div>{lead}'
            f'<nav aria-label="sections"><ul>{links}</ul></nav></header>\n<main id="main">\n{body}\n</main>\n'
            f"<script>{_asset('script.js')}</script>\n</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, making the folder if need be, and return its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return fragment(f"<h2>{inline(self.title)}</h2>", *(f"<h3>{inline(h)}</h3>{b}" for h, b in self._sections))


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
