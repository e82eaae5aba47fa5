"""The tables and the figure of benchmarks/BLACKBOXES.md, from the records."""

import math
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
FIGURE = HERE / "figures" / "blackboxes.png"
COLOURS = {
    "ellzero": "#0072B2",
    "ZORO": "#E69F00",
    "ZORO-FA": "#D55E00",
    "CMA-ES": "#009E73",
}


def write(records):
    """Print the page, write it and draw its figure."""
    about = next((r for r in records if r["part"] == "about"), {})
    parts = {part: [r for r in records if r["part"] == part] for part in _TABLES}
    lines = [
        "# Black boxes",
        "",
        "Measured by `python -m benchmarks blackboxes --zoro ../ZORO` (`--help` for parts). Every method is asked",
        "to minimise the same functions, and the truth behind noise is looked at; `ellzero` has its defaults, ZORO",
        "is told s and has the best of several steps in hindsight. A dash: not within the budget.",
        "",
        f"Peers: ZORO ({about.get('zoro', '?')}), {about.get('versions', '?')}. ZORO-FA is our",
        "reading of its paper with ZORO's recovery, as its own code is MATLAB; CMA-ES has a diagonal covariance; NGOpt",
        "is nevergrad's default, of which the recommended point counts. Held to k: cut to its k largest entries before",
        "each query; what it did on inputs and correlated columns is from an earlier run of the same command.",
    ]
    for part, table in _TABLES.items():
        if parts[part]:
            lines += ["", *table(parts[part])]
    if any(parts[part] for part in ("profile", "noise")):
        _draw(parts)
        lines += ["", "![Performance profile and noise](figures/blackboxes.png)"]
    text = "\n".join(lines) + "\n"
    print(text)
    (HERE / "BLACKBOXES.md").write_text(text)


def _inputs(records):
    yield "## Inputs that do nothing"
    yield ""
    yield "Five of d inputs matter; 20,000 queries. Share of f(0) that is left; in how many runs all five are found."
    yield ""
    yield "| d | k | noise, of f(0) | runs | worst | median | all five | queries, median |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    ours, theirs = _parted(records)
    for key in sorted({(r["noise"], r["d"], r["k"]) for r in ours}):
        runs = [r for r in ours if (r["noise"], r["d"], r["k"]) == key]
        left, found = [r["left"] for r in runs], sum(r["found"] == 5 for r in runs)
        spent = np.median([r["spent"] for r in runs])
        yield (
            f"| {key[1]} | {key[2]} | {key[0]:g} | {len(runs)} | {max(left):.1e} | {np.median(left):.1e} | {found} | "
            f"{spent:.0f} |"
        )
    if theirs:
        yield ""
        yield "nevergrad, all 20,000 queries, k = 5; found are those among the five largest entries of its answer."
        yield ""
        yield "| solver | d | noise, of f(0) | runs | median of what is left | found, median |"
        yield "|---|---:|---:|---:|---:|---:|"
    for key in sorted({(r["solver"], r["noise"], r["d"]) for r in theirs}):
        runs = [r for r in theirs if (r["solver"], r["noise"], r["d"]) == key]
        left, found = (np.median([r[what] for r in runs]) for what in ("left", "found"))
        yield f"| {key[0]} | {key[2]} | {key[1]:g} | {len(runs)} | {left:.1e} | {found:.0f} |"


def _parted(records):
    """Those of ellzero, and the others."""
    return [r for r in records if r["solver"] == "ellzero"], [r for r in records if r["solver"] != "ellzero"]


def _noise(records):
    yield "## A noisy simulator that fails"
    yield ""
    yield "d = 200, five inputs matter, errors of 0.05, one call in ten raises. Medians of f at the answer, by μ."
    yield ""
    ours, theirs = _parted(records)
    mus = sorted({r["mu"] for r in ours if r["mu"] is not None})
    solvers = sorted({r["solver"] for r in theirs})
    heads = [*(f"μ = {mu:g}" for mu in mus), "default / best μ", *solvers]
    yield "| queries | runs | default | " + " | ".join(heads) + " |"
    yield "|" + "---:|" * (len(heads) + 3)
    for queries in sorted({r["queries"] for r in ours}):
        here = [r for r in ours if r["queries"] == queries]
        median = {mu: np.median([r["left"] for r in here if r["mu"] == mu]) for mu in (None, *mus)}
        cells = [f"{median[mu]:.1e}" for mu in (None, *mus)] + [f"{median[None] / min(median[mu] for mu in mus):.2g}"]
        for solver in solvers:
            left = [r["left"] for r in theirs if (r["solver"], r["queries"]) == (solver, queries)]
            cells.append(f"{np.median(left):.1e} ({len(left)} runs)" if left else "not run")
        yield f"| {queries} | {sum(r['mu'] is None for r in here)} | {' | '.join(cells)} |"


def _small(records):
    yield "## Few queries under noise"
    yield ""
    yield "Three of 50 inputs matter, k = 3: alone (idle), coupled with all others, or far from a parabola (cosh)."
    yield "Median share of f(0) that is left; runs that keep more than 90% of it, and among these those that did not"
    yield "warn; runs that warned though they were better. CMA-ES and NGOpt are held to k."
    yield ""
    heads = ("function", "queries", "noise, of f(0)", "runs", "left", "none gained", "silently", "warned in vain")
    yield "| " + " | ".join((*heads, "CMA-ES", "NGOpt")) + " |"
    yield "|---|" + "---:|" * 9
    for key in dict.fromkeys((r["name"], r["queries"], r["noise"]) for r in records):
        runs = {}
        for r in records:
            if (r["name"], r["queries"], r["noise"]) == key:
                runs.setdefault(r["solver"], []).append(r)
        ours = runs.pop("ellzero")
        poor = [r for r in ours if r["left"] > 0.9]
        vain = sum(r["told"] for r in ours) - sum(r["told"] for r in poor)
        theirs = [np.median([r["left"] for r in runs.get(name, [])] or [math.nan]) for name in _HELD]
        cells = [f"{np.median([r['left'] for r in ours]):.1e}", len(poor), sum(not r["told"] for r in poor), vain]
        cells += ["not run" if math.isnan(v) else f"{v:.2g}" for v in theirs]
        yield f"| {key[0]} | {key[1]} | {key[2]:g} | {len(ours)} | " + " | ".join(map(str, cells)) + " |"


_HELD = ("CMA-ES held to k", "NGOpt held to k")


def _zoro(records):
    yield "## ZORO's functions"
    yield ""
    yield "n = 2000, errors of 0.001/√n: queries to f <= f(x0)/1000, at most 100,000."
    yield ""
    yield "| function | s | seed | ellzero | ZORO, best step |"
    yield "|---|---:|---:|---:|---:|"
    for name, s, seed in sorted({(r["name"], r["s"], r["seed"]) for r in records}):
        runs = [r for r in records if (r["name"], r["s"], r["seed"]) == (name, s, seed)]
        yield f"| {name} | {s} | {seed} | {_cell(runs, 'ellzero')} | {_cell(runs, 'ZORO')} |"


def _profile(records):
    solvers = sorted({r["solver"] for r in records}, key=list(COLOURS).index)
    yield "## ZORO-FA's functions"
    yield ""
    yield "n = 1000, s = 30, 100(n + 1) queries: queries until f - f* is a thousandth of that at x0."
    yield ""
    yield "| function | seed | " + " | ".join(solvers) + " |"
    yield "|---|---:|" + "---:|" * len(solvers)
    for name, seed in sorted({(r["name"], r["seed"]) for r in records}):
        runs = [r for r in records if (r["name"], r["seed"]) == (name, seed)]
        yield f"| {name} | {seed} | " + " | ".join(_cell(runs, solver) for solver in solvers) + " |"


def _correlated(records):
    yield "## Correlated columns"
    yield ""
    yield "The mean squared residual of 200 x 1000 numbers, AR(1) 0.7 along the columns, 5-sparse truth, k = 5: share"
    yield "of f(0) that is left. CMA-ES held to k is cut to five entries before each query; the free one may be dense."
    yield ""
    solvers = ("CMA-ES held to k", "CMA-ES", "NGOpt held to k", "NGOpt")
    yield "| queries | seed | ellzero | " + " | ".join(solvers) + " |"
    yield "|" + "---:|" * (len(solvers) + 3)
    found = {}
    for r in records:
        for queries, left in r.get("at", {str(r["queries"]): r.get("left")}).items():
            found[r["solver"], r["seed"], int(queries)] = left
    for queries, seed in sorted((q, s) for solver, s, q in found if solver == "ellzero"):
        told = [found.get((solver, seed, queries)) for solver in ("ellzero", *solvers)]
        yield f"| {queries} | {seed} | " + " | ".join("not run" if v is None else f"{v:.1e}" for v in told) + " |"


_TABLES = {
    "inputs": _inputs, "noise": _noise, "small": _small, "zoro": _zoro, "profile": _profile, "correlated": _correlated,
}  # fmt: skip


def _needed(runs, solver):
    return min((r["needed"] for r in runs if r["solver"] == solver and r["needed"] is not None), default=math.inf)


def _cell(runs, solver):
    needed = _needed(runs, solver)
    if not any(r["solver"] == solver for r in runs):
        return "not run"
    return f"{needed}" if math.isfinite(needed) else "–"


def _draw(parts):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_profile(left, parts["profile"])
    for queries, colour in zip((1000, 10_000, 100_000), ("#56B4E9", "#0072B2", "#000000"), strict=True):
        here = [r for r in _parted(parts["noise"])[0] if r["queries"] == queries]
        if not here:
            continue
        mus = sorted({r["mu"] for r in here if r["mu"] is not None})
        median = [np.median([r["left"] for r in here if r["mu"] == mu]) for mu in mus]
        right.plot(mus, median, marker="o", color=colour, label=f"{queries:,} queries")
        default = [r for r in here if r["mu"] is None]
        chosen, reached = np.median([r["chosen"] for r in default]), np.median([r["left"] for r in default])
        right.plot(chosen, reached, marker="*", ms=13, color=colour, ls="")
    right.set(xscale="log", yscale="log", xlabel="μ by hand (stars: chosen by auto)", ylabel="f at the answer, median")
    right.set_title("a simulator with errors of 0.05, one call in ten failing", fontsize=10)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.92", lw=0.8)
        if ax.get_legend_handles_labels()[0]:
            place, columns = ((0.45, 0.8), 2) if ax is left else ("upper right", 1)  # between the lines
            ax.legend(frameon=False, loc=place, ncols=columns, fontsize=9)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=110)


def _draw_profile(ax, records):
    """The share of problems that a solver brings to a thousandth within so many times the queries of the best one."""
    solvers = sorted({r["solver"] for r in records}, key=list(COLOURS).index)
    runs_of = {(r["name"], r["seed"], r["solver"]) for r in records}
    problems = sorted({(n, s) for n, s, _ in runs_of if all((n, s, solver) in runs_of for solver in solvers)})
    ratios = {solver: [] for solver in solvers}
    for problem in problems:
        runs = [r for r in records if (r["name"], r["seed"]) == problem]
        needed = {solver: _needed(runs, solver) for solver in solvers}
        best = min(needed.values())
        for solver in solvers:
            ratios[solver].append(needed[solver] / best if math.isfinite(best) else math.inf)
    for solver in solvers:
        solved = np.sort([ratio for ratio in ratios[solver] if math.isfinite(ratio)])
        x = np.concatenate([[1.0], np.repeat(solved, 2), [1e3]])
        share = np.arange(solved.size + 1) / max(1, len(problems))
        ax.plot(x, np.repeat(share, 2)[: x.size], color=COLOURS[solver], label=solver, lw=1.8)
    ax.set(
        xscale="log",
        xlabel="queries, in units of the best solver's",
        ylabel="share of problems solved",
        ylim=(-0.02, 1.05),
    )
    ax.set_title(f"ZORO-FA's functions, n = 1000, s = 30, to 1e-3: {len(problems)} problems", fontsize=10)
