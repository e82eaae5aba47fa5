"""RESULTS.md and the picture."""

import json
import math
import os
import platform
from collections import defaultdict

from .datasets import DATASETS
from .environments import ROOT
from .solvers import SOLVERS

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
FIGURE = ROOT / "benchmarks" / "figures" / "peers.png"
TIE = 1e-6  # relative differences of R below it are rounding

COLUMNS = ["solver", "R", "refit", "above best", "nonzeros", "F1", "seconds", "passes", "first call", "memory", "note"]


def best_of(rows):
    """The least R after refit of any answer that keeps to k and the constraint."""
    return min((row["refit"] for row in rows if valid(row)), default=math.nan)


def valid(row):
    return "R" in row and not row["note"]


def table(rows, markdown=True):
    """The rows of one problem and seed, best first."""
    best = best_of(rows)

    def order(row):
        above = max(row["refit"] / best - 1, TIE) if valid(row) else math.inf
        return above, row.get("passes", math.inf)

    lines = [COLUMNS, *([cell(row, column, best) for column in COLUMNS] for row in sorted(rows, key=order))]
    if markdown:
        lines.insert(1, ["---", *["---:"] * (len(COLUMNS) - 2), "---"])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:-1], widths[1:]), line[-1]]) for line in lines
    )


def cell(row, column, best):
    if column == "solver":
        return f"**ellzero {row['solver']}**" if row["ours"] else row["solver"]
    if column == "note":
        notes = [row["note"]] if row["note"] else []
        if row.get("violation", 0) > 1e-9:
            notes.append(f"constraint violated by {row['violation']:.1g}")
        if "R" in row and len(row["times"]) == 1 and row["times"][0] == row["first"]:
            notes.append("one call")
        return "; ".join(notes).replace("|", "/")
    if "R" not in row:
        return ""
    if column in ("R", "refit"):
        return f"{row[column]:.6g}"
    if column == "above best":
        above = row["refit"] / best - 1
        return "best" if above <= TIE else percent(above)
    if column == "F1":
        return "" if math.isnan(row["f1"]) else f"{row['f1']:.2f}"
    if column == "first call":
        return f"+{max(0.0, row['first'] - row['seconds']):.2g} s"
    if column == "memory":
        return f"{row['memory']:.0f} MB"
    if column == "seconds":
        return f"{row['seconds']:.3g}"
    return f"{row[column]:.0f}"


def write(store):
    """RESULTS.md and the picture, from all measurements."""
    about, problems = store["about"], defaultdict(list)
    for row in store["rows"]:
        problems[row["problem"], row["seed"]].append(row)
    draw(problems)
    titles = {d.name: d.title for d in DATASETS}
    several = {d.name for d in DATASETS if len(d.seeds) > 1}
    text = [
        HEAD.format(**describe(about)),
        overview(problems, several),
        "\n![objective against passes](figures/peers.png)\n",
    ]
    text += ["## Every measurement\n", LEGEND.format(**describe(about))]
    for (name, seed), rows in problems.items():
        text.append(f"### {label(name, seed, several)}: {titles[name]}\n\n{table(rows)}\n")
    text += ["## Settings\n", settings(store["rows"]), growth()]
    RESULTS.write_text("\n".join(text).rstrip() + "\n")
    print(f"wrote {RESULTS.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}")


def label(name, seed, several):
    return f"{name}, seed {seed}" if name in several else name


HEAD = """# Measured beside the peers

`python -m benchmarks peers --all`, {date}; {machine}, Python {python}, {threads} threads for everyone; load average
{load} at the start and {end} at the end. The problems are random with fixed seeds, or real data; every answer is
judged by the same function.

A *pass* is the time of one `Xᵀr`, measured in the same process between the calls: no method that looks at all of X
in an iteration can do one in less. Times vary by up to 40% between runs: ratios below 1.5 are ties. On P6, riboflavin
and S&P 500 a pass takes microseconds, and every package's passes are its fixed costs.

## In short

The best R of any peer (after refit), the fewest passes of a peer that reaches it, and ellzero with no options and with
eight starts; bold where no peer has a lower R, and where none that reaches the best R of the peers takes fewer passes.
"""

LEGEND = """R is of the answer as given; *refit* of the same support with coefficients solved again for R under the
constraint, so that penalised methods compare; *above best* is by refit. F1 is against the support that made the data.
Seconds: the median of up to 3 calls after the first, on data in memory, conversions included; *first call*: what the
first costs beyond that (compilation, lazy imports), `import` not counted; *memory*: most that the first call takes
beyond data and imports. Each run has a process of its own, {limit:g} s for a call and 12 GB. A package that cannot
state a problem, crashes or is not done in time says so in its row.
"""


def describe(about):
    return {
        "date": about["date"],
        "machine": f"{os.cpu_count()} cores",
        "python": platform.python_version(),
        "threads": 2,
        "load": f"{about['load'][0]:.1f}",
        "end": f"{about.get('load at the end', about['load'])[0]:.1f}",
        "limit": about["limit"],
    }


def overview(problems, several):
    head = [
        "problem",
        "best peer R",
        "its passes",
        "ellzero auto R",
        "passes",
        "seconds",
        "memory",
        "8 starts R",
        "passes",
    ]
    lines = [head, ["---", "---:", "---", *["---:"] * 6]]
    for (name, seed), rows in problems.items():
        peers = [row for row in rows if not row["ours"] and valid(row)]
        best = best_of(peers)
        there = [row for row in peers if row["refit"] <= best * (1 + TIE)]
        fastest = min(there, key=lambda row: row["passes"], default=None)
        theirs = [f"{best:.6g}", f"{fastest['passes']:.0f} ({fastest['solver']})"] if fastest else ["none", ""]
        cells = [label(name, seed, several), *theirs]
        for solver, n_cells in (("auto", 4), ("auto, 8 starts", 2)):
            row = next((row for row in rows if row["solver"] == solver and valid(row)), None)
            cells += overview_cells(row, best, fastest)[:n_cells] if row else [""] * n_cells
        lines.append(cells)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def overview_cells(row, best, fastest):
    """R, passes, seconds and memory of ours, in bold where no peer is better."""
    wins = not fastest or row["R"] <= best * (1 + TIE)
    quick = wins and (not fastest or row["passes"] <= fastest["passes"])
    return [
        f"**{row['R']:.6g}**" if wins else f"{row['R']:.6g}",
        f"**{row['passes']:.0f}**" if quick else f"{row['passes']:.0f}",
        f"{row['seconds']:.3g}",
        f"{row['memory']:.0f} MB",
    ]


def percent(share):
    return f"{100 * share:.2g}%" if share < 1 else f"{100 * share:.0f}%"


def settings(rows):
    versions, imports = {}, defaultdict(list)
    for row in rows:
        if "version" in row:
            versions[row["solver"]] = f"{row['version']}; numpy {row['numpy']}"
            imports[row["solver"]].append(row["import"])
    lines = ["| solver | package | import | settings |", "|---|---|---:|---|"]
    for solver in SOLVERS:
        if solver.name in versions or any(row["solver"] == solver.name for row in rows):
            seconds = f"{min(imports[solver.name]):.1f} s" if imports[solver.name] else ""
            settings = solver.settings.replace("|", "\\|")
            lines.append(f"| {solver.name} | {versions.get(solver.name, solver.package)} | {seconds} | {settings} |")
    return "\n".join(lines) + "\n"


def growth():
    """What `python -m benchmarks growth` measured last, if it was run."""
    store = ROOT / "out" / "growth.json"
    if not store.exists():
        return ""
    return "\n## Growth and first call\n\n`python -m benchmarks growth`\n\n" + json.loads(store.read_text())["markdown"]


# ------------------------------------------------------------------------------------------- the picture

# Okabe and Ito's colours: packages have colours, their variants have markers
LOOK = {
    "auto": ("#D55E00", "*"), "auto, 8 starts": ("#D55E00", "P"),
    "IHT 1/L": ("#D55E00", "v"), "PGD 1/L": ("#D55E00", "^"),
    "abess": ("#0072B2", "o"), "abess path": ("#0072B2", "s"), "OMP": ("#009E73", "o"),
    "skscope scope": ("#CC79A7", "o"), "skscope HTP": ("#CC79A7", "s"),
    "L0Learn CDPSI": ("#000000", "o"), "L0Learn CD": ("#000000", "s"),
    "skglm MCP": ("#E69F00", "o"), "skglm lasso": ("#E69F00", "s"), "celer lasso": ("#E69F00", "D"),
    "copt IHT": ("#56B4E9", "o"), "SCIP": ("#777777", "o"), "okridge": ("#777777", "s"),
}  # fmt: skip
FLOOR = 1e-4


def draw(problems):
    """One panel a problem: R above the best against passes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {}
    for (name, _), rows in problems.items():
        if name != "P6-150" and any(valid(row) for row in rows):  # three of P6 are enough
            panels.setdefault(name, rows)
    if not panels:
        return
    n_columns = min(3, len(panels))
    n_rows = math.ceil(len(panels) / n_columns)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(5.6 * n_columns, 3.9 * n_rows), squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, (name, rows) in zip(axes.flat, panels.items(), strict=False):
        panel(ax, name, [row for row in rows if valid(row)])
    for ax in axes[:, 0]:
        ax.set_ylabel("R above the best (after refit)")
    for column in range(n_columns):
        last = [axes[i, column] for i in range(n_rows) if axes[i, column].get_visible()][-1]
        last.set_xlabel("passes over X: seconds / time of one $X^T r$")
    seen = {p[2]: line for ax in axes.flat[: len(panels)] for p, line in zip(ax.points, ax.lines, strict=False)}
    figure.legend(seen.values(), seen, loc="lower center", ncols=8, frameon=False, fontsize=9)
    figure.tight_layout(h_pad=1.6, w_pad=1.6, rect=(0, 0.035, 1, 1))
    figure.canvas.draw()
    for ax in axes.flat[: len(panels)]:
        place_labels(ax)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)


def panel(ax, name, rows):
    best = best_of(rows)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.points = []
    for row in rows:
        x, y = row["passes"], max(row["refit"] / best - 1, FLOOR)
        colour, marker = LOOK.get(row["solver"], ("#777777", "o"))
        ours = row["ours"]
        ax.plot(
            x,
            y,
            marker,
            color=colour,
            ms=13 if marker == "*" else 6.5,
            mec="white",
            mew=0.7,
            zorder=4 if ours else 3,
            clip_on=False,
        )
        ax.points.append((x, y, f"ellzero {row['solver']}" if ours else row["solver"], colour, ours))
    xs, ys = [p[0] for p in ax.points], [p[1] for p in ax.points]
    ax.set_xlim(min(xs) / 2.5, max(xs) * 12)
    ax.set_ylim(FLOOR / 2, max(2e-1, 4 * max(ys)))
    ticks = [10.0**e for e in range(-3, math.floor(math.log10(ax.get_ylim()[1])) + 1)]
    ax.set_yticks([FLOOR, *ticks], ["best", *[f"{100 * t:g}%" for t in ticks]])
    ax.minorticks_off()
    ax.axhline(FLOOR, color="#bbbbbb", lw=0.8, zorder=1)
    ax.grid(True, axis="both", color="#eeeeee", lw=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_title(name, loc="left", fontsize=11, fontweight="bold")
    title = next(d.title for d in DATASETS if d.name == name)
    short = title.split(";")[0]
    short = short if len(short) < 66 else short.rpartition(", ")[0]  # the name of the panel is on its left
    ax.set_title(short, loc="right", fontsize=7.5, color="#555555")


def place_labels(ax):
    """Names beside their points or, from right to left, above them on a thin line, where they cover nothing."""
    renderer = ax.figure.canvas.get_renderer()
    dots = [ax.transData.transform((x, y)) for x, y, *_ in ax.points]
    taken = [(px - 6, py - 6, px + 6, py + 6) for px, py in dots]
    frame, points = ax.get_window_extent(renderer), 72 / ax.figure.dpi
    for i in sorted(range(len(dots)), key=lambda i: -dots[i][0]):
        (px, py), (x, y, name, colour, ours) = dots[i], ax.points[i]
        style = {"fontsize": 8, "color": colour, "weight": "bold" if ours else "normal", "zorder": 5}
        style |= {"textcoords": "offset points", "annotation_clip": False}
        others = taken[:i] + taken[i + 1 :]
        for dx, dy in [(10, -4), *((-2, away) for up in range(12, 150, 6) for away in (up, -up - 6))]:
            text = ax.annotate(name, (x, y), (points * dx, points * dy), **style)
            box = text.get_window_extent(renderer)
            spot = (box.x0 - 1, box.y0, box.x1 + 1, box.y1)
            line = (px - 0.5, min(py, py + dy), px + 0.5, max(py, py + dy))
            free = not any(overlap(spot, other) or (dx < 0 and overlap(line, other)) for other in others)
            if free and frame.y0 < spot[1] and spot[3] < frame.y1:
                break
            text.remove()
        else:
            continue  # no room: the legend knows it
        taken.append(spot)
        if dx < 0 and abs(dy) > 20:
            taken.append(line)
            ax.annotate("", (x, y), (0, points * dy), textcoords="offset points", arrowprops=LEADER | {"color": colour})


LEADER = {"arrowstyle": "-", "lw": 0.6, "alpha": 0.7, "shrinkA": 0, "shrinkB": 3}


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
