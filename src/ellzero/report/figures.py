"""Pictures inside a page: SVG that follows the page's colours, with its numbers beside it for the pointer to find."""

from __future__ import annotations

import html
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.blocks import Html, inline
from ..displays.base import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_numbers = itertools.count(1)

#: colours that follow the page's, so that pictures read on dark screens, too
_THEMED = {
    "#000000": "currentColor",
    "#ffffff": "var(--surface)",
    "#e6e6e6": "var(--line)",
    **dict.fromkeys(("#4d4d4d", "#666666", "#808080"), "var(--quiet)"),
}


def figure(picture: Figure | Axes | str, caption: str = "", *, alt: str = "") -> Html:
    """A picture with its caption; lines and bars of a matplotlib figure show their values under the pointer.

    Parameters
    ----------
    picture : matplotlib Figure or Axes, or SVG text
        A figure is turned into SVG and otherwise left alone. Black becomes the colour of the page's text, so that
        the picture reads on a dark screen, too.
    caption : str
    alt : str, optional
        What the picture shows, for those who cannot see it; the caption by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from ellzero.report import figure
    >>> picture = Figure(figsize=(4, 2))
    >>> _ = picture.subplots().plot([1, 2, 3], [3.0, 1.0, 0.5], label="mine")
    >>> text = figure(picture, "an example")
    >>> "<svg" in text, "mine" in text, "<?xml" in text
    (True, True, False)
    """
    if isinstance(picture, str):
        svg, values = _plain(picture), ""
    else:
        drawn: Any = getattr(picture, "figure", picture)  # axes know their figure
        svg = _svg(drawn)
        values = f'<script type="application/json">{_json([_numbers_of(ax, drawn) for ax in drawn.axes])}</script>'
    words = html.escape(alt or caption or "figure")
    hint = "arrow keys read the values" if values else ""
    below = f"<figcaption>{inline(caption)}</figcaption>" if caption else ""
    return Html(
        f'<figure class="plot"><div class="canvas" tabindex="0" role="img" aria-label="{words}" '
        f'title="{hint}">{svg}{values}</div><output class="unseen" aria-live="polite"></output>{below}</figure>'
    )


def picture(
    draw: Callable[..., Any], height: float, caption: str, alt: str, *, legend: bool = True, **options: Any
) -> Html:
    """What `draw(ax, **options)` draws, as wide as the page."""
    _, ax = new_figure(8.0, height)
    draw(ax, **options)
    if not legend and ax.get_legend() is not None:
        ax.get_legend().remove()
    return figure(ax, caption, alt=alt)


def _svg(drawn: Figure) -> str:
    """The figure as SVG for the inside of a page: real text, no background, ids that are unique in the page."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"ellzero-{next(_numbers)}"}):
        target = io.StringIO()
        drawn.savefig(target, format="svg", transparent=True, dpi=72, metadata={"Date": None, "Creator": None})
    return _plain(target.getvalue())


def _plain(svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)  # a style would hold for the whole page
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    for color, name in _THEMED.items():
        svg = re.sub(rf"((?:fill|stroke): ){color}", rf"\g<1>{name}", svg)
    svg = re.sub(r'<svg\b([^>]*?) width="([\d.]+)pt"', r'<svg\1 style="max-width:\2pt" width="100%"', svg, count=1)
    return re.sub(r'(<svg\b[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1).strip()


def _numbers_of(ax: Axes, drawn: Figure) -> dict[str, Any]:
    """Where the values of one pair of axes lie in the SVG, and how they read."""
    height = drawn.get_figheight() * 72

    def place(points: np.ndarray) -> np.ndarray:
        moved = ax.transData.transform(points) * 72 / drawn.dpi
        return np.column_stack((moved[:, 0], height - moved[:, 1]))

    box = ax.get_window_extent().transformed(drawn.dpi_scale_trans.inverted()).extents * 72
    series = []
    for line in ax.lines:
        name = str(line.get_label())
        if name.startswith("_") or line.get_transform() != ax.transData:
            continue
        points = np.column_stack([np.asarray(line.get_xdata(orig=False)), np.asarray(line.get_ydata(orig=False))])
        points = points[np.isfinite(points).all(axis=1)].astype(float)
        labels = [(_text(ax.xaxis, x), _text(ax.yaxis, y)) for x, y in points]
        series.append(_series(name, line.get_color(), place(points), labels))
    flat = False
    bar_groups: list[Any] = [c for c in ax.containers if hasattr(c, "orientation") and c]  # error bars have none
    for bars in bar_groups:
        flat = bars.orientation == "horizontal"
        halves = (1.0, 0.5) if flat else (0.5, 1.0)  # the end of a bar, in its middle
        corners = np.array([[bar.get_x(), bar.get_y()] for bar in bars.patches])
        ends = corners + np.array([[bar.get_width(), bar.get_height()] for bar in bars.patches]) * halves
        across, along = (ax.yaxis, ax.xaxis) if flat else (ax.xaxis, ax.yaxis)
        labels = [(_tick(across, xy[flat]), _text(along, xy[not flat])) for xy in ends.tolist()]
        series.append(_series(str(bars.get_label()), bars.patches[0].get_facecolor(), place(ends), labels))
    x0, y0, x1, y1 = map(float, box)
    spot = _round([x0, height - y1, x1, height - y0])
    return {"box": spot, "along": "y" if flat else "x", "title": "" if flat else ax.get_xlabel(), "series": series}


def _series(name: str, color: Any, places: np.ndarray, labels: Sequence[Sequence[str]]) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    points = [[*_round(place), *label] for place, label in zip(places, labels, strict=True)]
    return {"name": name, "color": _THEMED.get(to_hex(color), to_hex(color)), "points": points}


def _text(axis: Any, value: float) -> str:
    """How a reader writes the value: a date, a percentage, a number."""
    from matplotlib.dates import AutoDateFormatter, ConciseDateFormatter, DateFormatter, num2date
    from matplotlib.ticker import PercentFormatter

    formatter = axis.get_major_formatter()
    if isinstance(formatter, (AutoDateFormatter, ConciseDateFormatter, DateFormatter)):
        return str(num2date(value).date().isoformat())  # type: ignore[no-untyped-call]
    if isinstance(formatter, PercentFormatter):
        return f"{100 * value / formatter.xmax:.3g}%"
    return f"{value:.6g}"


def _tick(axis: Any, value: float) -> str:
    """The name at the nearest tick: the bars of one group stand around it."""
    return str(axis.get_ticklabels()[int(np.argmin(np.abs(axis.get_ticklocs() - value)))].get_text())


def _round(values: Any) -> list[float]:
    return [round(float(v), 1) if math.isfinite(v) else 0.0 for v in values]


def _json(values: Any) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
