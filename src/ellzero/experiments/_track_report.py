"""What index tracking has to say: tables, claims and figures of the answers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.market import Market
from ..displays.base import new_figure, tidy
from ..displays.plot import GREY, styles
from ._report import Chapter, Claim, Part, Table, against

DAYS = 252  # trading days a year
NAMES = {"auto": "ours (auto)", "IHT-2SP": "IHT-2SP", "PGD+H": "PGD(Γ) + H_k", "IHT+P": "PGD(B₀) + Π_Γ"}
BASELINES = ("PGD+H", "IHT+P")


@dataclass(frozen=True)
class Setting:
    """What the paper says about one market, by the name of its index column."""

    title: str
    cap: float | None  # the paper's D
    binding: tuple[float, ...]  # of unit exposure a sector
    since: str | None = None
    train_best: bool | None = None  # the paper's claim: 2SP tracks best there
    test_best: bool | None = None
    sectors: str = ""  # sectors used, as the paper reports them
    universe: str = ""
    merge: tuple[str, str] | None = None


@dataclass(frozen=True)
class Answer:
    """One method on one market under one cap."""

    market: str
    cap: float
    method: str
    w: np.ndarray
    objective: float  # ||Aw - y||² on the days of the fit
    seconds: float
    names: int
    sectors: int
    largest: float  # of Σ|w| over the sectors
    lower_bound: float  # no w with 15 names that obeys D does better: proved once a problem, with ours; else NaN
    path: np.ndarray  # cumulative performance, fit and test


def error(w: np.ndarray, market: Market) -> float:
    """The root mean square of the daily difference to the index, in basis points (hundredths of a percent)."""
    return 1e4 * math.sqrt(np.mean((market.returns @ w - market.index_returns) ** 2))


def tracking_error(w: np.ndarray, market: Market) -> float:
    """The standard deviation of the difference, a year, in percent."""
    return 100 * math.sqrt(DAYS) * float(np.std(market.returns @ w - market.index_returns))


def distance(w: np.ndarray, market: Market) -> float:
    """The mean distance of the two curves of cumulative performance, both from 0 on the first day, in percent."""
    mine, index = (np.cumprod(1 + r) for r in (market.returns @ w, market.index_returns))
    return 100 * float(np.mean(np.abs(mine - index)))


def finish(markets: dict[str, tuple[Market, Setting]], answers: Sequence[Answer], max_iter: int) -> Chapter:
    """The chapter."""
    parts = [_universe(markets, max_iter)]
    for title, (market, setting) in markets.items():
        mine = [a for a in answers if a.market == title]
        caps = list(dict.fromkeys(a.cap for a in mine))
        caption = (
            "Cumulative performance; the days after the fit are shaded. Left to right: "
            + ", ".join(f"D = {cap:g}" for cap in caps)
            + ". Every answer holds at most 15 names and obeys D."
        )
        figures = {f"tracking_{_slug(title)}": (draw(market, mine), caption)}
        parts.append(Part(title, [], figures, [table(market, mine)], list(judge(market, setting, mine))))
    parts.append(Part("all markets", claims=judge_all(markets, answers)))
    return Chapter("index-tracking", "Index tracking", parts, summary=list(summary(markets, answers)))


def _slug(title: str) -> str:
    return "".join(c for c in title.lower() if c.isalnum())


def _universe(markets: dict[str, tuple[Market, Setting]], max_iter: int) -> Part:
    rows: dict[str, list[Any]] = {"market": [], "here": [], "in the paper": [], "days of the fit": [], "test": []}
    for title, (market, setting) in markets.items():
        train, test = market.split()
        assert market.sectors is not None
        rows["market"].append(title)
        rows["here"].append(f"{market.returns.shape[1]} assets, {len(set(market.sectors.tolist()))} sectors")
        rows["in the paper"].append(setting.universe or "not in the paper")
        rows["days of the fit"].append(len(train.returns))
        rows["test"].append(len(test.returns))
    rebuilt = (
        "The lists of assets that the paper used are not known. The universes here were rebuilt from public quotes of "
        "the same window and differ from the paper's by a few names and, for CSI 300, by the classification of "
        "sectors; numbers can therefore agree in kind, not digit by digit."
    )
    simulated = (
        "No files were given (`--prices`, `--sectors`): this market is simulated, so that nothing here confirms or "
        "refutes what the paper says about real ones."
    )
    words = [
        rebuilt if any(setting.universe for _, setting in markets.values()) else simulated,
        "The error is the root mean square of the daily difference to the index; the objective is the sum of its "
        "squares; TE is the yearly standard deviation of the difference, and “curves” the mean distance of the curves "
        "of cumulative performance. The certified gap is (objective - proved lower bound)/objective; 100% means that "
        "nothing is proved. "
        "The figures show cumulative performance, which none of the methods minimises: a small daily drift adds up "
        "there (the indices are price indices, the assets' prices may include dividends).",
        f"Steps of 1/L, at most {max_iter:,} iterations (the paper does not say how many), simple daily returns.",
    ]
    return Part("the markets", words, tables=[Table("markets", "The universe", rows)])


def gap(a: Answer, answers: Sequence[Answer]) -> float:
    """(objective - proved lower bound) / objective; 1 means that nothing is proved."""
    bound = next(b.lower_bound for b in answers if (b.market, b.cap, b.method) == (a.market, a.cap, "auto"))
    return (a.objective - bound) / a.objective


def table(market: Market, answers: Sequence[Answer]) -> Table:
    """A row for each cap and method."""
    train, test = market.split()
    columns: dict[str, list[Any]] = {
        "D": [a.cap for a in answers],
        "method": [NAMES[a.method] for a in answers],
        "train (bp/day)": [error(a.w, train) for a in answers],
        "test (bp/day)": [error(a.w, test) for a in answers],
        "TE, test (%/year)": [tracking_error(a.w, test) for a in answers],
        "curves, test (%)": [distance(a.w, test) for a in answers],
        "objective": [a.objective for a in answers],
        "names": [a.names for a in answers],
        "sectors": [a.sectors for a in answers],
        "largest sector": [a.largest for a in answers],
        "gap": [gap(a, answers) for a in answers],
        "seconds": [a.seconds for a in answers],
    }
    forms = dict.fromkeys(["train (bp/day)", "test (bp/day)"], ".1f")
    forms |= dict.fromkeys(["TE, test (%/year)", "curves, test (%)", "seconds"], ".2f")
    forms["gap"] = ".1%"
    return Table(f"tracking_{_slug(answers[0].market)}", f"{answers[0].market}, k = 15", columns, forms)


def judge(market: Market, setting: Setting, answers: Sequence[Answer]) -> Iterator[Claim]:
    """The paper's claims for this market, and ours."""
    title = setting.title
    by_cap: dict[float, dict[str, Answer]] = {}
    for a in answers:
        by_cap.setdefault(a.cap, {})[a.method] = a
    train, test = market.split()
    if setting.cap is not None:
        mine = by_cap[setting.cap]
        for part, days, claimed in (("training", train, setting.train_best), ("test", test, setting.test_best)):
            yield from _tracks_best(part, days, mine, setting) if claimed else ()
        two_step = mine["IHT-2SP"]
        total = len(set(np.asarray(market.sectors).tolist()))
        ours = f"{market.names.size} assets, {total} sectors, {len(train.returns)} days"
        same_universe = setting.universe in ("", ours)
        yield Claim(
            "the paper",
            f"{title}: the answer of 2SP spans {setting.sectors} sectors",
            f"{two_step.sectors} of {total} (ours: {mine['auto'].sectors} of {total})",
            f"{two_step.sectors} of {total}" == setting.sectors,
            but="" if same_universe else f"the paper has {setting.universe}, here there are {ours}",
            comparable=same_universe,
        )
        same = float(np.abs(two_step.w - mine["IHT+P"].w).max())
        yield Claim(
            "ellzero",
            f"{title}: the paper's D = {setting.cap:g} never binds, so that 2SP is vanilla IHT here",
            f"the fullest sector holds {two_step.largest:.3f}; largest difference to vanilla IHT {same:.1g}",
            same <= 1e-12 and two_step.largest < setting.cap,
        )
    for cap, mine in by_cap.items():
        best = min((a for m, a in mine.items() if m != "auto"), key=lambda a: a.objective)
        yield Claim(
            "ellzero",
            f"{title}, D = {cap:g}: ours has the smallest objective on the days of the fit",
            f"{mine['auto'].objective / best.objective:.2f} times the best of the others ({NAMES[best.method]})",
            mine["auto"].objective <= best.objective * (1 + 1e-9),
        )
        errors = {m: error(a.w, test) for m, a in mine.items()}
        other = min((m for m in errors if m != "auto"), key=lambda m: errors[m])
        yield Claim(
            "ellzero",
            f"{title}, D = {cap:g}: ours tracks best on the days after the fit",
            f"{errors['auto']:.1f} bp a day against {errors[other]:.1f} ({NAMES[other]})",
            errors["auto"] <= errors[other] * (1 + 1e-6),
        )


def judge_all(markets: dict[str, tuple[Market, Setting]], answers: Sequence[Answer]) -> list[Claim]:
    """What can be said of all markets together."""
    by_key = {(a.market, a.cap, a.method): a for a in answers}
    binding = [(title, cap) for title, (_, setting) in markets.items() for cap in setting.binding]
    ratio = [by_key[*key, "IHT-2SP"].objective / min(by_key[*key, b].objective for b in BASELINES) for key in binding]
    unused = [by_key[*key, "IHT-2SP"].names for key in binding]
    tests = {title: market.split()[1] for title, (market, _) in markets.items()}
    nearest = [
        min(NAMES, key=lambda m: distance(by_key[title, cap, m].w, tests[title]))
        for title, cap in dict.fromkeys((a.market, a.cap) for a in answers)
    ]
    first = nearest.count("auto")
    return [
        Claim(
            "ellzero",
            "where D binds, 2SP with steps of 1/L can lose to a naive baseline",
            f"in {sum(r > 1 + 1e-9 for r in ratio)} of {len(ratio)} settings, by up to {max(ratio):.1f} times in the "
            f"objective; the fewest names it used are {min(unused)} of 15",
            max(ratio) > 1 + 1e-9,
        ),
        Claim(
            "ellzero",
            "ours also has the nearest curve of cumulative performance in every test",
            f"in {first} of {len(nearest)}; the daily error is what is minimised, and a drift of a few basis points a "
            "day hardly shows in it",
            first == len(nearest),
        ),
    ]


def _tracks_best(part: str, days: Market, mine: dict[str, Answer], setting: Setting) -> Iterator[Claim]:
    """Once by the daily errors, once by the distance of the curves, which is what the paper's figures show."""
    for measure, how, unit in ((error, "daily error", "bp"), (distance, "distance of the curves", "%")):
        values = {name: measure(mine[name].w, days) for name in ("IHT-2SP", *BASELINES)}
        least = min(values[b] for b in BASELINES)
        tie = [NAMES[b] for b in BASELINES if math.isclose(values[b], values["IHT-2SP"], rel_tol=1e-6)]
        yield Claim(
            "the paper",
            f"2SP tracks best on the {part} part of {setting.title} ({how})",
            ", ".join(f"{NAMES[name]} {value:.3g} {unit}" for name, value in values.items())
            + f"; ours {measure(mine['auto'].w, days):.3g} {unit}",
            values["IHT-2SP"] <= least * (1 + 1e-6),
            but=f"{' and '.join(tie)} is the same, because D = {setting.cap:g} does not bind" if tie else "",
        )


def summary(markets: dict[str, tuple[Market, Setting]], answers: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """Rows for the table "paper against ours"."""
    by_key = {(a.market, a.cap, a.method): a for a in answers}
    for title, (market, setting) in markets.items():
        _, test = market.split()
        for cap in (*([] if setting.cap is None else [setting.cap]), setting.binding[0]):
            paper, ours = by_key[title, cap, "IHT-2SP"], by_key[title, cap, "auto"]
            yield against(
                f"{title}, D = {cap:g}",
                "IHT-2SP",
                objective=(paper.objective, ours.objective),
                tracking_error=(f"{error(paper.w, test):.1f}", f"{error(ours.w, test):.1f} bp/day"),
                seconds=(f"{paper.seconds:.2f}", f"{ours.seconds:.2f}"),
                certified_gap=(f"{gap(paper, answers):.1%}", f"{gap(ours, answers):.1%}"),
            )


def draw(market: Market, answers: Sequence[Answer]) -> Any:
    """Cumulative performance of the index and of the answers, a panel for each cap."""
    from matplotlib import dates
    from matplotlib.ticker import PercentFormatter

    caps = list(dict.fromkeys(a.cap for a in answers))
    figure, axes = new_figure(3.7 * len(caps), 3.9, 1, len(caps), sharey=True, squeeze=False)
    style = styles(list(NAMES))
    style["IHT+P"] = {**style["IHT+P"], "linestyle": (0, (4, 3))}  # it often lies on IHT-2SP
    days = market.dates if market.dates is not None else np.arange(len(market.returns))
    cut = len(market.split()[0].returns)
    index = np.cumprod(1 + market.index_returns) - 1
    for ax, cap in zip(axes[0], caps, strict=True):
        ax.axvspan(days[cut], days[-1], color="0.93", lw=0)
        ax.plot(days, index, color="0.55", lw=4.5, alpha=0.7, label="the index", solid_capstyle="round")
        for a in (a for m in ("PGD+H", "IHT-2SP", "IHT+P", "auto") for a in answers if (a.cap, a.method) == (cap, m)):
            ax.plot(days, a.path, lw=1.4, label=NAMES[a.method], **style[a.method])
        ax.set_title(f"at most D = {cap:g} in a sector", fontsize=11)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.text(days[cut], 1.0, " test", transform=ax.get_xaxis_transform(), va="top", color=GREY)
        if market.dates is not None:
            locator: Any = dates.MonthLocator(bymonth=(1, 7))  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        tidy(ax)
    axes[0, 0].set_ylabel("performance since the first day")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure
