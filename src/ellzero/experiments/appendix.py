"""The appendices: the counterexample to IHT, the smoothness example, and two-step against Euclidean projection."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import datasets, risks, sets
from ..displays.base import new_figure, tidy
from ..displays.plot import GREY, styles
from ..minimize import minimize
from ..solver.methods import preset
from ..solver.projections import euclidean_projection, two_step_projection
from ._report import Chapter, Claim, Part, Plan, Table
from .logistic import balls, problem

KAPPA, K_BAR = 8.0, 4
ITERATIONS = 1000


@dataclass(frozen=True)
class Stuck:
    """IHT started at the counterexample's fixed point, for one k."""

    k: int
    start: float  # f of the fixed point
    end: float  # f after 200 steps
    moved: float
    reference: float  # f(w̄), w̄ being k̄-sparse
    auto: float  # f of ours, with the same k, from zero


def stuck(k: int) -> Stuck:
    """Steps of η = 1/(2κ) from the fixed point, and ours."""
    example = datasets.iht_counterexample(KAPPA, K_BAR)
    shift = 0.5 * float(np.diagonal(example.A) @ example.b**2)  # f(w) = ½wᵀAw - bᵀAw + shift
    risk = risks.Quadratic(example.A, example.A @ example.b)
    w = example.fixed_point(k)
    res = minimize(risk, k, method=preset("IHT", step=1 / (2 * KAPPA)), x0=w, max_iter=200, tol=0.0)
    return Stuck(
        k, example.value(w), res.fun + shift, float(np.abs(res.x - w).max()), example.value(example.reference),
        minimize(risk, k).fun + shift,
    )  # fmt: skip


def plan(*, full: bool = False, seed: int = 0) -> Plan:
    """A task for each k of the counterexample, and one for each comparison of projections."""
    ks = range(K_BAR, int(KAPPA**2 * K_BAR / 8) + 1, 4)
    tasks: dict[Any, Any] = {("stuck", k): (stuck, (k,)) for k in ks}
    tasks |= {("compare", key): (compare, (key, seed)) for key in ("ball", "dna", "tracking", "round", "nonnegative")}
    return Plan("appendix: counterexample, smoothness, projections", tasks, finish)


def finish(results: dict[Any, Any]) -> Chapter:
    """The chapter."""
    found: dict[str, list[Any]] = {"stuck": [], "compare": []}
    for (kind, _), result in results.items():
        found[kind].append(result)
    parts = [counterexample(found["stuck"]), smoothness(), projections(found["compare"])]
    return Chapter("appendix", "Appendices", parts)


def counterexample(found: list[Stuck]) -> Part:
    """The lower bound on the relaxation of k."""
    promised = KAPPA**2 * K_BAR / 16
    excess = [s.start - s.reference for s in found]
    claims = [
        Claim(
            "a theorem",
            f"for every k from k̄ = {K_BAR} to κ²k̄/8 = {found[-1].k} IHT stays at a point that is κ²k̄/16 = {promised:g} "
            "worse than a k̄-sparse one",
            f"after 200 steps no entry has moved by more than {max(s.moved for s in found):.1g}; the smallest excess "
            f"is {min(excess):g}",
            all(s.moved <= 1e-12 for s in found) and min(excess) >= promised,
        ),
        Claim(
            "ellzero",
            "ours, with the same k, does at least as well as the k̄-sparse point",
            f"f - f(w̄) is at most {max(s.auto - s.reference for s in found):.3g}",
            all(s.auto <= s.reference + 1e-9 * s.reference for s in found),
        ),
    ]
    table = Table(
        "counterexample",
        f"κ = {KAPPA:g}, k̄ = {K_BAR}",
        {
            "k": [s.k for s in found],
            "f, IHT's fixed point": [s.start for s in found],
            "f, after 200 steps": [s.end for s in found],
            "f(w̄), k̄ nonzeros": [s.reference for s in found],
            "f, ours": [s.auto for s in found],
        },
    )
    figure, ax = new_figure(7.6, 4.2)
    ks = [s.k for s in found]
    style = styles(["IHT", "auto"])
    ax.plot(ks, [s.end for s in found], marker="o", lw=1.8, label="IHT, 200 steps from its fixed point", **style["IHT"])
    ax.axhline(found[0].reference, color=GREY, lw=1.2, ls=":", label=f"w̄, {K_BAR} nonzeros")
    ax.plot(ks, [s.auto for s in found], marker="o", lw=1.8, label="ours (auto), from zero", **style["auto"])
    ax.set(xlabel="k, nonzeros allowed", ylabel="f(w)", ylim=(0, None))
    ax.legend(frameon=False, loc="lower left")
    tidy(ax)
    caption = "Why k must be relaxed by κ²: IHT with η = 1/(2κ) stays where it is, however bad."
    return Part("the counterexample", figures={"counterexample": (figure, caption)}, tables=[table], claims=claims)


def constants() -> dict[str, float]:
    """The three constants of f(x) = x1² + x2² + x1x2, from their definitions: the largest ratio over many differences.

    u runs over unit vectors (smooth) or over ±e1, ±e2 (s = 1): ||∇f(x + u) - ∇f(x)|| for the smooth and the restricted
    strongly smooth one, 2(f(x + u) - f(x) - <∇f(x), u>) for the restricted smooth one.
    """
    angle = np.linspace(0, 2 * math.pi, 2881)
    every = np.column_stack((np.cos(angle), np.sin(angle)))
    smooth, (strongly, restricted) = _ratios(every)[0], _ratios(every[::720])
    found = {"smooth": smooth, "restricted smooth": restricted, "restricted strongly smooth": strongly}
    return {name: float(ratios.max()) for name, ratios in found.items()}


def _ratios(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ratios of `constants`, that of gradients and that of values, at some x, for each row of u."""
    x, H = np.array([0.3, -0.7]), np.array([[2.0, 1.0], [1.0, 2.0]])

    def f(x: np.ndarray) -> Any:
        return x[..., 0] ** 2 + x[..., 1] ** 2 + x[..., 0] * x[..., 1]

    return np.linalg.norm((x + u) @ H - x @ H, axis=-1), 2 * (f(x + u) - f(x) - u @ (x @ H))


def smoothness() -> Part:
    """The three notions of smoothness differ."""
    found = constants()
    said = {"smooth": 3.0, "restricted smooth": 2.0, "restricted strongly smooth": math.sqrt(5)}
    claims = [
        Claim(
            "a theorem",
            f"f(x) = x₁² + x₂² + x₁x₂ is {name}{'' if name == 'smooth' else ' (s = 1)'} with {value:.4g} and no less",
            f"{found[name]:.6f}",
            math.isclose(found[name], value, rel_tol=1e-6),
        )
        for name, value in said.items()
    ]
    figure, ax = new_figure(7.6, 4.2)
    degrees = np.linspace(0, 180, 721)
    u = np.column_stack((np.cos(np.radians(degrees)), np.sin(np.radians(degrees))))
    gradients, values = _ratios(u)
    ax.plot(degrees, gradients, color="#0072B2", lw=2, label="‖∇f(x+u) - ∇f(x)‖")
    ax.plot(degrees, values, color="#D55E00", lw=2, label="2(f(x+u) - f(x) - ⟨∇f(x), u⟩)")
    for at in (0, 90, 180):
        ax.axvline(at, color=GREY, lw=0.8, ls=":")
        ax.plot(at, math.sqrt(5), "o", color="#0072B2", mec="white", ms=8, clip_on=False, zorder=3)
        ax.plot(at, 2, "o", color="#D55E00", mec="white", ms=8, clip_on=False, zorder=3)
    ax.plot(45, 3, "s", color="black", ms=7, label="smooth: 3, over all u")
    ax.annotate("√5: restricted strongly smooth", (90, math.sqrt(5)), (97, 2.5), color="#0072B2")
    ax.annotate("2: restricted smooth", (0, 2), (5, 1.7), color="#D55E00")
    ax.set(xlabel="direction of u (degrees); 1-sparse at 0, 90, 180", ylabel="for ‖u‖ = 1")
    ax.set(xlim=(0, 180), ylim=(0.8, 3.7))
    ax.set_xticks(range(0, 181, 45))
    ax.legend(frameon=False, loc="upper right")
    tidy(ax)
    caption = "One function, three constants: over all differences u, and over 1-sparse ones."
    return Part("the smoothness example", figures={"smoothness": (figure, caption)}, claims=claims)


@dataclass(frozen=True)
class Compared:
    """One problem."""

    case: str
    title: str
    k: int
    visited: int
    agree: int  # of the points that were visited
    drawn: int
    agree_drawn: int  # of as many random points
    farther: float  # largest ||z - two-step|| / ||z - Euclidean|| - 1 over all of them
    two_step_us: float
    euclidean_us: float
    two_step: float  # R with steps 1/L and this projection
    euclidean: float
    auto: float
    paths: tuple[np.ndarray, np.ndarray]  # R against iterations


def cases(seed: int = 0) -> dict[str, tuple[str, str, Any, Any, int]]:
    """Key: (case, title, risk, Γ, k)."""
    _, dna = problem()
    train, _ = datasets.make_market(500, 200, rng=seed).split()
    tracking = risks.LeastSquares(train.returns, train.index_returns)
    caps = sets.GroupWise(sets.L1Ball(0.05), groups=train.sectors)
    round_caps = sets.GroupWise(sets.LpBall(1.5, 0.02), groups=train.sectors)
    shop = datasets.make_regression(500, 500, 20, correlation=0.5, nonnegative=True, rng=seed)
    nonnegative = risks.LeastSquares(shop.X, shop.y)
    return {
        "ball": ("i", "dna, one l2 ball", dna, sets.L2Ball(0.02), 50),
        "dna": ("ii a", "dna, an l2 ball a class", dna, balls(0.01), 150),
        "tracking": ("ii a", "index tracking, an l1 ball a sector", tracking, caps, 30),
        "round": ("ii b", "index tracking, an l1.5 ball a sector", tracking, round_caps, 15),
        "nonnegative": ("ii c", "least squares, w ≥ 0", nonnegative, sets.NonNegative(), 20),
    }


def compare(key: str, seed: int) -> Compared:
    """Π_Γ(H_k(z)) against the nearest k-sparse member of Γ, for every tenth point z = w - ∇R(w)/L of a run of IHT-2SP.

    How often they agree, how much farther from z the two-step one lies, what each costs, and what the same method
    reaches with one or the other.
    """
    case, title, risk, gamma, k = cases(seed)[key]
    L = risk.smoothness.value
    seen: list[np.ndarray] = []

    def look(res: Any) -> None:
        if res.nit % 10 == 0:
            seen.append(res.x - risk.gradient(res.x) / L)

    two_step = minimize(risk, k, gamma, method="IHT-2SP", max_iter=ITERATIONS, tol=0.0, callback=look)
    euclidean = minimize(risk, k, gamma, method=preset("PGD"), max_iter=ITERATIONS, tol=0.0)
    rng = np.random.default_rng(seed)
    size = float(np.abs(euclidean.x).max())
    drawn = [2 * size * rng.standard_normal(risk.n_features) for _ in seen]
    same, farther, spent = [], 0.0, [0.0, 0.0]
    for z in [*seen, *drawn]:
        start = time.perf_counter()
        one = two_step_projection(z, k, gamma)
        middle = time.perf_counter()
        other = euclidean_projection(z, k, gamma)
        spent[0] += middle - start
        spent[1] += time.perf_counter() - middle
        same.append(bool(np.abs(one - other).max() <= 1e-9 * np.abs(other).max()))
        far, near = np.linalg.norm(z - one), np.linalg.norm(z - other)
        farther = max(farther, float(far / near - 1) if near > 0 else 0.0)
    return Compared(
        case, title, k, len(seen), sum(same[: len(seen)]), len(drawn), sum(same[len(seen) :]), farther,
        1e6 * spent[0] / len(same), 1e6 * spent[1] / len(same), two_step.fun, euclidean.fun,
        minimize(risk, k, gamma).fun, (two_step.history.fun, euclidean.history.fun),
    )  # fmt: skip


def projections(found: list[Compared]) -> Part:
    """Two-step against Euclidean projection, in the cases (i) and (ii a-c) of the paper's appendix."""
    table = Table(
        "projections",
        f"Along {ITERATIONS} iterations of IHT-2SP with steps 1/L (microseconds a projection vary from run to run)",
        {
            "case": [c.case for c in found],
            "problem": [c.title for c in found],
            "k": [c.k for c in found],
            "agree on the way": [f"{c.agree} of {c.visited}" for c in found],
            "agree at random points": [f"{c.agree_drawn} of {c.drawn}" for c in found],
            "farther, at most": [c.farther for c in found],
            "two-step (µs)": [c.two_step_us for c in found],
            "Euclidean (µs)": [c.euclidean_us for c in found],
            "R, two-step": [c.two_step for c in found],
            "R, Euclidean": [c.euclidean for c in found],
            "R, ours (auto)": [c.auto for c in found],
        },
        {"farther, at most": ".2%", "two-step (µs)": ".0f", "Euclidean (µs)": ".0f"},
    )
    words = [
        "Case (i): both projections are the same. Case (ii): they differ; (a) the paper knows no Euclidean projection, "
        "(b) it is known and dear, (c) it is known and cheap. For products of balls over groups there is an exact "
        "Euclidean projection after all: sort, then take the largest increments of all groups "
        "(`ez.euclidean_projection`)."
    ]
    caption = "R with steps of 1/L and one projection or the other; dotted: ours (auto)."
    figures = {"projections": (draw(found), caption)}
    return Part("two-step against Euclidean projection", words, figures, [table], list(judge(found)))


def judge(found: list[Compared]) -> Iterator[Claim]:
    """What the appendix says of the cases."""
    for c in found:
        measured = f"they agree at {c.agree} of {c.visited} points on the way, {c.agree_drawn} of {c.drawn} random ones"
        name = f"case ({c.case}), {c.title}"
        if c.case == "i":
            always = c.agree == c.visited and c.agree_drawn == c.drawn
            yield Claim("the paper", f"{name}: the projections are identical", measured, always)
            continue
        yield Claim(
            "the paper",
            f"{name}: the projections differ",
            f"{measured}; two-step lies up to {c.farther:.2%} farther",
            c.farther > 1e-9,
            but="on the way of this run they never differ" if c.agree == c.visited else "",
        )
    ratio = {c.title: c.euclidean_us / c.two_step_us for c in found if c.case in ("ii a", "ii b")}
    yield Claim(
        "the paper",
        "where the Euclidean projection is dear, the two-step one is faster",
        ", ".join(f"{title}: {r:.1f} times" for title, r in ratio.items()),
        all(r > 1 for r in ratio.values()),
    )
    better = [c for c in found if c.euclidean < c.two_step * (1 - 1e-9)]
    yield Claim(
        "ellzero",
        "with the same steps, the Euclidean projection never ends higher than the two-step one",
        f"lower in {len(better)} of {len(found)} problems, down to "
        f"{min(c.euclidean / c.two_step for c in found):.3f} times",
        all(c.euclidean <= c.two_step * (1 + 1e-9) for c in found),
    )


def draw(found: list[Compared]) -> Any:
    """R against iterations, a panel for each problem, and how often the projections agree."""
    figure, axes = new_figure(11, 6.4, 2, 3)
    *panels, last = axes.flat
    style = styles(["IHT-2SP", "PGD"])
    for ax, c in zip(panels, found, strict=True):
        ax.plot(c.paths[0], lw=2, label="two-step", **style["IHT-2SP"])
        ax.plot(c.paths[1], lw=2, label="Euclidean", **{**style["PGD"], "linestyle": "--"})
        ax.axhline(c.auto, color="black", lw=1, ls=":", label="ours (auto)")
        ax.set_title(f"({c.case}) {c.title}", fontsize=10)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(0, ITERATIONS)
        ax.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
        ax.set(xlabel="iteration", ylabel="R(w)")
        ax.ticklabel_format(axis="y", style="plain" if c.auto > 1e-2 else "sci", scilimits=(-2, 4))
        tidy(ax)
    place = np.arange(len(found))
    on_the_way = [100 * c.agree / c.visited for c in found]
    last.barh(place - 0.2, on_the_way, 0.38, color=GREY, label="on the way")
    last.barh(place + 0.2, [100 * c.agree_drawn / c.drawn for c in found], 0.38, color="0.78", label="random points")
    last.set_yticks(place, [f"({c.case})" for c in found])
    last.invert_yaxis()
    last.set(xlabel="projections that agree (%)", xlim=(0, 100))
    last.set_title("how often both are the same", fontsize=10)
    last.legend(frameon=False, loc="center right")
    tidy(last)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure
