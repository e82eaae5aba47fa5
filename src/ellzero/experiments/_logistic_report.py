"""What logistic regression on dna has to say: tables, claims and figures of the runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..displays.base import new_figure, tidy
from ..displays.plot import styles
from ._report import Chapter, Claim, Part, Table, against

Setting = tuple[int, float | None]
COUNTS = {
    "n_gradients": "#IFO, gradients of single rows",
    "n_values": "#IZO, function values",
    "n_thresholds": "#HT, hard thresholdings",
}
#: the methods that are drawn against each
CONSTRAINED = {
    "n_gradients": ("FG-HT-2SP", "HSG-HT-2SP"),
    "n_values": ("HZO-HT-2SP", "auto (values)"),
    "n_thresholds": ("FG-HT-2SP", "HSG-HT-2SP", "HZO-HT-2SP"),
}
FREE = {"n_values": ("HZO-HT", "ZOHT"), "n_thresholds": ("HZO-HT", "ZOHT")}
_SHORT = {"IFO": "gradients", "IZO": "values", "HT": "thresholds"}
LABELS = {"auto": "ours (auto)", "auto (values)": "ours, values alone"}


@dataclass(frozen=True)
class Budget:
    """How long the runs are."""

    gradients: int  # iterations of the full gradient; HSG-HT-2SP gets as many #IFO
    queries: int
    seeds: int


@dataclass(frozen=True)
class Trace:
    """One run: what it cost, row by row, and where it ended."""

    method: str
    k: int
    D: float | None
    seed: int
    fun: np.ndarray  # of the iterates
    n_gradients: np.ndarray
    n_values: np.ndarray
    n_thresholds: np.ndarray
    step: float
    best: float
    accuracy: float  # on the test rows
    nonzeros: int
    seconds: float
    lower_bound: float  # proved, where it was asked for; else NaN


class Runs:
    """The traces of one setting by method, seeds together."""

    def __init__(self, traces: Sequence[Trace], k: int, D: float | None) -> None:
        self.k, self.D = k, D
        self.by_method: dict[str, list[Trace]] = {}
        for trace in traces:
            if (trace.k, trace.D) == (k, D):
                self.by_method.setdefault(trace.method, []).append(trace)

    @property
    def label(self) -> str:
        """The setting in words."""
        return f"k = {self.k}" + (", Γ = R^d" if self.D is None else f", D = {self.D:g}")

    def best(self, method: str) -> float:
        """The median over seeds of the answers' R."""
        return float(np.median([trace.best for trace in self.by_method[method]]))

    def level(self, share: float, goal: str) -> float:
        """R after the given share of the way from R(0) to the best of a method."""
        start = float(self.by_method[goal][0].fun[0])
        return start - share * (start - self.best(goal))

    def cost(self, method: str, count: str, level: float) -> float:
        """The median over seeds of what it takes until R <= level; inf if it is not reached."""
        costs = []
        for trace in self.by_method[method]:
            there = np.flatnonzero(trace.fun <= level)
            costs.append(float(getattr(trace, count)[there[0]]) if there.size else math.inf)
        return float(np.median(costs))

    def after(self, method: str, spent: int) -> float:
        """The median over seeds of the best R within so many values."""
        return float(np.median([np.nanmin(t.fun[t.n_values <= spent]) for t in self.by_method[method]]))


def percent(share: float) -> str:
    """Two digits, however small."""
    return f"{100 * share:.2g}%"


def finish(traces: Sequence[Trace], budget: Budget, ratios: Mapping[str, float]) -> Chapter:
    """The chapter; `ratios` are those of the steps of HZO-HT and ZOHT, by what is put into L and ν."""
    *traces, usual = traces  # the last one is the run with a usual penalty
    constrained = [Runs(traces, k, D) for k, D in _settings(traces) if D is not None]
    free = [Runs(traces, k, D) for k, D in _settings(traces) if D is None]
    words = [
        f"Budget: {budget.gradients} full gradients, {budget.queries:,} function values a zeroth-order run, "
        f"{budget.seeds} seeds; lines are medians, bands go from the smallest to the largest seed. "
        "The paper does not state ρ, s2 and the lengths of its runs: ρ = ½, s2 = d here."
    ]
    caption = "R of the iterates; dotted: ours, at the end. A last, shortened iteration is left out."
    figures = {"logistic_2sp": (draw(constrained, CONSTRAINED), caption)}
    claims = [*(c for runs in constrained for c in judge_constrained(runs)), judge_accuracy(traces, usual)]
    first = Part("gradients, batches and values", words, figures, [table("logistic", constrained)], claims)
    words = [
        "Both start with the same number of directions; ZOHT keeps it, and takes the step of its own theorem "
        "(recalled, not checked against its text).",
        "L and ν are those of the risk that is computed, with 2λ/c; the L that the paper gives has 2λ. The steps' "
        f"ratio depends on it: {', '.join(f'{ratio:.2f} with {what}' for what, ratio in ratios.items())}.",
    ]
    figures = {"logistic_zoht": (draw(free, FREE), "R of the iterates without Γ.")}
    claims = [claim for runs in free for claim in judge_free(runs)]
    second = Part("HZO-HT against ZOHT", words, figures, [table("logistic_zoht", free)], claims)
    return Chapter("logistic", "Logistic regression on dna", [first, second], summary=list(summary(constrained)))


def _settings(traces: Sequence[Trace]) -> list[Setting]:
    return sorted({(t.k, t.D) for t in traces}, key=lambda s: (-1.0 if s[1] is None else -s[1], s[0]))


def judge_constrained(runs: Runs) -> Iterator[Claim]:
    """Early, HSG needs fewer gradients than FG; ours is at least as good, and how good is proved."""
    level = runs.level(0.5, "FG-HT-2SP")
    fg, hsg = (runs.cost(m, "n_gradients", level) for m in ("FG-HT-2SP", "HSG-HT-2SP"))
    yield Claim(
        "the paper",
        f"{runs.label}: HSG-HT-2SP needs fewer gradients than FG-HT-2SP early on",
        f"to R = {level:.4f}, half of the way: {hsg:,.0f} against {fg:,.0f}, {hsg / fg:.2f} times",
        hsg < fg,
    )
    ours = runs.by_method["auto"][0]
    others = {m: runs.best(m) for m in ("FG-HT-2SP", "HSG-HT-2SP", "HZO-HT-2SP")}
    name = min(others, key=lambda m: others[m])
    gap = (ours.best - ours.lower_bound) / ours.best
    yield Claim(
        "ellzero",
        f"{runs.label}: ours is at least as good as the paper's methods, proved within 0.1% of the optimum",
        f"R = {ours.best:.6f} after {ours.n_gradients[-1]:,} gradients; {name} {others[name]:.6f}; certified gap "
        f"{percent(gap)}",
        ours.best <= others[name] * (1 + 1e-9) and 0 <= gap <= 1e-3,
    )
    level = runs.level(0.5, "auto")
    names = ("HZO-HT-2SP", "auto (values)")
    zo, mine = (runs.cost(m, "n_values", level) for m in names)
    spent = max(int(t.n_values[-1]) for t in runs.by_method["auto (values)"])
    later = [runs.after(m, spent) for m in names]
    behind = f"after {spent:,} values it is behind, R = {later[1]:.5f} against {later[0]:.5f}"
    yield Claim(
        "ellzero",
        f"{runs.label}: from values alone, ours needs fewer of them than HZO-HT-2SP",
        f"to R = {level:.4f}, half of the way to the best: {mine:,.0f} against {zo:,.0f}",
        mine < zo,
        but="" if later[1] <= later[0] else behind,
    )


def judge_accuracy(traces: Sequence[Trace], usual: Trace) -> Claim:
    """λ = 10 is so large that the answers hardly predict."""
    accuracy = [t.accuracy for t in traces if t.D is not None]
    return Claim(
        "ellzero",
        "with the paper's λ = 10 no answer predicts well; the penalty is why, not the sparsity",
        f"test accuracies from {min(accuracy):.1%} to {max(accuracy):.1%} (the largest class alone: 50.8%); ours with "
        f"λ = 0.01, 50 nonzeros: {usual.accuracy:.1%}",
        max(accuracy) < usual.accuracy - 0.1,
    )


def judge_free(runs: Runs) -> list[Claim]:
    """HZO-HT's step is larger than ZOHT's, and it converges faster."""
    steps = [runs.by_method[m][0].step for m in ("HZO-HT", "ZOHT")]
    level = runs.level(0.25, "auto")
    costs = [runs.cost(m, "n_values", level) for m in ("HZO-HT", "ZOHT")]
    ends = [runs.best(m) for m in ("HZO-HT", "ZOHT")]
    slow = f"{costs[1]:,.0f}" if math.isfinite(costs[1]) else f"more than {runs.by_method['ZOHT'][0].n_values[-1]:,}"
    return [
        Claim(
            "the paper",
            f"{runs.label}: HZO-HT's step is larger than ZOHT's",
            f"{steps[0]:.4g} against {steps[1]:.4g}, {steps[0] / steps[1]:.1f} times",
            steps[0] > steps[1],
        ),
        Claim(
            "the paper",
            f"{runs.label}: HZO-HT converges faster than ZOHT",
            f"to R = {level:.4f}, a quarter of the way: {costs[0]:,.0f} values against {slow}; in the end R = "
            f"{ends[0]:.4f} and {ends[1]:.4f} (ours with gradients: {runs.best('auto'):.4f})",
            costs[0] < costs[1] and ends[0] < ends[1],
        ),
    ]


def table(name: str, settings: Sequence[Runs]) -> Table:
    """A row for each setting and method; medians over the seeds."""
    rows = [_row(runs, method) for runs in settings for method in runs.by_method]
    forms = {"R": ".6f", "certified gap (%)": ".2g", "test accuracy": ".1%", "seconds": ".2f"}
    return Table.of(name, "Answers, medians over the seeds; the lower bound of the gap is proved", rows, formats=forms)


def _row(runs: Runs, method: str) -> dict[str, Any]:
    best, bound = runs.best(method), runs.by_method["auto"][0].lower_bound

    def median(name: str) -> float:
        return float(np.median([np.ravel(getattr(trace, name))[-1] for trace in runs.by_method[method]]))

    return {
        "setting": runs.label,
        "method": LABELS.get(method, method),
        "R": best,
        "certified gap (%)": 100 * (best - bound) / best,
        **{f"#{short}": int(median(f"n_{name}")) for short, name in _SHORT.items()},
        "step": median("step"),
        "nonzeros": int(median("nonzeros")),
        "test accuracy": median("accuracy"),
        "seconds": median("seconds"),
    }


def summary(settings: Sequence[Runs]) -> Iterator[dict[str, Any]]:
    """Rows for the table "paper against ours"."""
    for runs in settings:
        paper, ours = runs.by_method["FG-HT-2SP"][0], runs.by_method["auto"][0]
        gaps = [percent((t.best - ours.lower_bound) / t.best) for t in (paper, ours)]
        yield against(
            f"dna, {runs.label}",
            "FG-HT-2SP",
            objective=(f"{paper.best:.6f}", f"{ours.best:.6f}"),
            seconds=(f"{paper.seconds:.2f}", f"{ours.seconds:.2f}"),
            certified_gap=(gaps[0], gaps[1]),
        )


def draw(settings: Sequence[Runs], shown: Mapping[str, tuple[str, ...]]) -> Any:
    """A row for each setting, a column for each count with its methods."""
    from matplotlib.ticker import MaxNLocator

    rows, columns = len(settings), len(shown)
    figure, axes = new_figure(4.2 * columns, 2.7 * rows + 0.5, rows, columns, sharey="row", squeeze=False)
    names = list(dict.fromkeys(m for methods in shown.values() for m in methods))
    style = styles([name for name in names if name != "auto (values)"])
    style["auto (values)"] = {**styles(["auto"])["auto"], "linestyle": "--"}
    handles: dict[str, Any] = {}
    for row, runs in zip(axes, settings, strict=True):
        goal, start = runs.best("auto"), float(runs.by_method["auto"][0].fun[0])
        for ax, (count, methods) in zip(row, shown.items(), strict=True):
            for method in methods:
                x, low, middle, high = band([whole(trace) for trace in runs.by_method[method]], count)
                ax.fill_between(x, low, high, color=style[method]["color"], alpha=0.25, lw=0)
                (handles[LABELS.get(method, method)],) = ax.plot(x, middle, lw=1.8, **style[method])
            handles["ours (auto), at the end"] = ax.axhline(goal, color="black", lw=1, ls=":")
            ax.set_xlim(left=0)
            if count == "n_thresholds":
                ax.xaxis.set_major_locator(MaxNLocator(integer=True))
                ax.set_xlim(0, min(60, max(len(t.fun) for m in methods for t in runs.by_method[m])))
            if count == "n_gradients":
                ax.set_xlim(0, 40_000)
            ax.set_ylim(goal - 0.04 * (start - goal), start + 0.04 * (start - goal))
            tidy(ax)
            ax.xaxis.set_major_formatter(_thousands)
        row[0].set_ylabel(f"R(w)   ({runs.label})")
    for ax, count in zip(axes[-1], shown, strict=True):
        ax.set_xlabel(COUNTS[count])
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def _thousands(value: float, _: Any = None) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def whole(trace: Trace) -> Trace:
    """The run without its last iteration where that got fewer directions than the one before: the budget's end."""
    growth = np.diff(trace.n_values)
    if growth.size < 2 or trace.method.startswith("auto") or growth[-1] >= growth[-2]:
        return trace
    columns = ("fun", "n_gradients", "n_values", "n_thresholds")
    return replace(trace, **{name: getattr(trace, name)[:-1] for name in columns})


def band(traces: Sequence[Trace], count: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Costs, and the smallest, median and largest R over the seeds, as a step function where the costs differ."""
    grid = np.unique(np.concatenate([getattr(trace, count) for trace in traces]))
    values = np.empty((len(traces), grid.size))
    for row, trace in zip(values, traces, strict=True):
        place = np.searchsorted(getattr(trace, count), grid, side="right") - 1
        row[:] = trace.fun[np.maximum(place, 0)]
    return grid, values.min(axis=0), np.median(values, axis=0), values.max(axis=0)
