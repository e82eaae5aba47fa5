"""Experiment 1: sparsity against optimality on the diagonal example of Axiotis and Sviridenko (2022).

R(w) = (1/n)||Xw - y||² with diagonal X, κ = 2, d = 350, and Γ = R^d or an l∞ ball of radius λ. Everything is known
exactly here: the optimum for every sparsity, L and ν. For every k: what IHT (with Γ, IHT-2SP) reaches, what "auto"
reaches, the optimum. For every k̄: the point (4κ²k̄, R(w̄_k̄)), or with Γ the curve (4(1-ρ)²κ²k̄/ρ², (1+2ρ)R(w̄_k̄)),
ρ in (0, 1/2], where w̄_k̄ is the optimum inside Γ (the paper's formula omits Γ).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import datasets, risks, sets, theory
from ..displays.base import new_figure, tidy
from ..displays.plot import GREY, styles
from ..minimize import minimize
from ._report import Chapter, Claim, Part, Plan, Table, against

RADII = (math.inf, 0.1, 0.5, 1.0, 2.0)
KAPPA = 2.0
D = 350


@dataclass(frozen=True)
class Curves:
    """One Γ: arrays over k = 1..d (index k - 1)."""

    radius: float
    reached: np.ndarray  # by IHT, or IHT-2SP with Γ
    auto: np.ndarray
    optimum: np.ndarray
    start: float  # R(0)

    @property
    def method(self) -> str:
        """The paper's method for this Γ."""
        return "IHT" if math.isinf(self.radius) else "IHT-2SP"

    @property
    def label(self) -> str:
        """Γ in words."""
        return "Γ = R^d" if math.isinf(self.radius) else f"|wᵢ| ≤ {self.radius:g}"

    def bounds(self, form: str = "paper") -> np.ndarray:
        """The smallest bound that the theorem gives for each k; NaN where it gives none."""
        values = self.optimum.tolist()
        if math.isinf(self.radius):
            covered = np.arange(1, D + 1) // int(4 * KAPPA**2)
            return np.where(covered > 0, self.optimum[np.maximum(covered, 1) - 1], math.nan)
        found = [theory.tradeoff(KAPPA, k, form=form, values=values) for k in range(1, D + 1)]
        return np.array([min((point.bound for point in points), default=math.nan) for points in found])


def values_of(radius: float, ks: range) -> list[tuple[float, float, float]]:
    """For every k of a range: R of the paper's method at convergence, of "auto", and the optimum."""
    example = datasets.diagonal_example()
    risk = risks.LeastSquares(example.X, example.y)
    gamma = None if math.isinf(radius) else sets.LinfBall(radius)
    name = "IHT" if gamma is None else "IHT-2SP"
    return [
        (
            minimize(risk, k, gamma, method=name, max_iter=5000, tol=1e-12, monitor=100).fun,
            minimize(risk, k, gamma).fun,
            example.optimum(k, radius)[1],
        )
        for k in ks
    ]


def plan(*, full: bool = False, seed: int = 0) -> Plan:
    """Every k in any case; nothing is random here."""
    pieces = [range(first, min(first + 50, D + 1)) for first in range(1, D + 1, 50)]
    tasks = {(radius, piece[0]): (values_of, (radius, piece)) for radius in RADII for piece in pieces}
    return Plan("tradeoff: every k, five constraints", tasks, finish)


def finish(results: dict[Any, Any]) -> Chapter:
    """The chapter."""
    example = datasets.diagonal_example()
    start = float(np.mean(example.y**2))
    curves = []
    for radius in RADII:
        rows = np.array([row for (r, _), piece in results.items() if r == radius for row in piece])
        reached, auto, optimum = rows.T
        curves.append(Curves(radius, reached, auto, optimum, start))
    free, *balls = curves
    words = (
        "The paper plots what IHT reaches for every k, and for every k̄ the value R(w̄) that its theorem promises at "
        "k = 4κ²k̄ = 16k̄."
    )
    caption = (
        "IHT at every k, and the bound for every k̄ with 16k̄ ≤ d (for larger k̄ the theorem asks for k > d). "
        "Ours lies on the optimum."
    )
    without = Part("without Γ", [words], {"tradeoff_free": (draw_free(free), caption)}, claims=judge_free(free))
    words = (
        "With Γ every k̄ gives a curve over ρ in (0, ½]: a larger k buys a smaller factor 1 + 2ρ. Up to k = d = 350 all "
        "of the paper's curves lie above R(0), which the zero vector reaches: the theorem says nothing there. The "
        "sharper form of the theorem is drawn beside it."
    )
    caption = "Shaded: the paper's curves, one for each k̄ (darker: larger k̄). w̄ is the optimum inside Γ."
    figures = {"tradeoff_balls": (draw_balls(balls), caption)}
    inside = Part("l∞ balls", [words], figures, [table(curves)], list(judge_balls(balls)))
    return Chapter("tradeoff", "Trade-off", [without, inside], summary=list(summary(curves)))


def judge_free(free: Curves) -> list[Claim]:
    """What can fail without Γ."""
    return [_bound_claim(free), _tighter_claim(free), _auto_claim([free])]


def judge_balls(balls: list[Curves]) -> Iterator[Claim]:
    """What can fail with Γ."""
    yield from [_bound_claim(curve) for curve in balls]
    crossing, where = min(((first_crossing(curve.optimum), curve.label) for curve in balls), key=lambda pair: pair[0].k)
    yield Claim(
        "the paper",
        f"the trade-off curves do not cross (k ≤ {D})",
        f"the first crossing is at k = {crossing.k:.0f}: the curves of k̄ = {crossing.first} and {crossing.second}, "
        f"{where}, both at {crossing.bound:.3f}",
        crossing.k > D,
        but="beyond d they do" if D < crossing.k < math.inf else "",
    )
    yield from [_tighter_claim(curve) for curve in balls]  # a mean over all of them would hide one that differs
    vacuous = [float(np.nanmin(curve.bounds("paper"))) for curve in balls]
    yield Claim(
        "ellzero",
        f"for k ≤ {D} every constrained bound of the paper exceeds R(0), so that it says nothing",
        f"the smallest bound is {min(vacuous):.3f}, R(0) = {balls[0].start:.3f}",
        min(vacuous) > balls[0].start,
    )
    sharper = [float(np.nanmin(curve.bounds("sharp"))) for curve in balls]
    gain = [float(np.nanmin(curve.bounds("sharp") / curve.bounds("paper"))) for curve in balls]
    yield Claim(
        "ellzero",
        "the sharper form is never worse than the paper's",
        f"down to {min(gain):.2f} times the paper's; its smallest bound is {min(sharper):.3f}",
        all(np.all(_filled(c.bounds("sharp")) <= _filled(c.bounds("paper")) * (1 + 1e-12)) for c in balls),
    )
    yield _auto_claim(balls)


def _filled(bounds: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(bounds), math.inf, bounds)


def _bound_claim(curve: Curves) -> Claim:
    """R(ŵ_k) <= the bound at every k that has one."""
    bounds = curve.bounds()
    there = np.isfinite(bounds)
    slack = (bounds - curve.reached)[there]
    return Claim(
        "a theorem",
        f"{curve.label}: what {curve.method} reaches stays below the bound, at every k",
        f"{int((slack >= -1e-9).sum())} of {there.sum()} k; the smallest distance is {slack.min():.3g}",
        bool((slack >= -1e-9).all()),
    )


def _auto_claim(curves: list[Curves]) -> Claim:
    excess = np.concatenate([(c.auto - c.optimum) / c.start for c in curves])
    worst = np.concatenate([(c.reached - c.optimum) / c.start for c in curves])
    return Claim(
        "ellzero",
        'method="auto" sits on the optimum at every k',
        f"largest excess over the optimum {excess.max():.1g} of R(0), {int((excess <= 1e-9).sum())} of {excess.size} "
        f"problems solved; the paper's method: {worst.max():.2g} of R(0), {int((worst <= 1e-9).sum())} solved",
        bool(excess.max() <= 1e-9),
    )


def _tighter_claim(curve: Curves) -> Claim:
    """The mean distance from what is reached to the bound, in 50..100 and beyond."""
    slack = curve.bounds() - curve.reached
    near, far = (float(slack[part].mean()) for part in (slice(49, 100), slice(100, None)))
    return Claim(
        "the paper",
        f"{curve.label}: the bound is a bit tighter for k in 50..100 than for larger k",
        f"mean distance from the bound {near:.3f} there, {far:.3f} for k in 101..{D}",
        near < far,
    )


class Crossing(NamedTuple):
    """Where the curves of k̄ = first < second meet."""

    k: float
    first: int
    second: int
    bound: float


def first_crossing(optimum: np.ndarray, kappa: float = KAPPA) -> Crossing:
    """The smallest real k at which the curves (1+2ρ)R(w̄) of two different k̄ meet; k = inf if none do.

    ρ = a/(a + u) with a = sqrt(k̄) and u = sqrt(k)/(2κ). Two curves meet where (3a + u)(b + u)R = (3b + u)(a + u)R',
    a quadratic equation in u, at u >= b (both have ρ <= 1/2 there).
    """
    root = np.sqrt(np.arange(1.0, optimum.size + 1))
    a, b = root[:, None], root[None, :]
    R, S = optimum[:, None], optimum[None, :]
    pair = (a < b) & (R - 1e-12 * optimum[0] > S)  # of equal optima the larger k̄ is useless, not a crossing
    p, q, r = R - S, (3 * a + b) * R - (3 * b + a) * S, 3 * a * b * (R - S)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(q * q - 4 * p * r)
        roots = np.stack([(-q - spread) / (2 * p), (-q + spread) / (2 * p)])
        roots = np.where((roots >= b) & pair & np.isfinite(roots), roots, math.inf)
    _, i, j = np.unravel_index(int(roots.argmin()), roots.shape)
    u = float(roots.min())
    bound = (1 + 2 * root[i] / (root[i] + u)) * optimum[i] if math.isfinite(u) else math.nan
    return Crossing((2 * kappa * u) ** 2, int(i) + 1, int(j) + 1, float(bound))


def table(curves: list[Curves]) -> Table:
    """Everything, k by k."""
    names = ("constraint", "k", "paper's method", "auto", "optimum", "bound (paper)", "bound (sharper)")
    rows: list[dict[str, Any]] = []
    for curve in curves:
        paper = curve.bounds()
        sharp = paper if math.isinf(curve.radius) else curve.bounds("sharp")
        values = (v.tolist() for v in (curve.reached, curve.auto, curve.optimum, paper, sharp))
        rows += (
            dict(zip(names, (curve.label, *row), strict=True)) for row in zip(range(1, D + 1), *values, strict=True)
        )
    shown = [i for i, row in enumerate(rows) if row["k"] % 50 == 0]
    return Table.of("tradeoff", "R for every 50th k; tables/tradeoff.csv has every k", rows, shown=shown)


def summary(curves: list[Curves]) -> Iterator[dict[str, str]]:
    """Rows for the table "paper against ours": the k at which the paper's method is farthest from the optimum."""
    for curve in (curves[0], curves[3]):
        k = int(np.argmax(curve.reached - curve.optimum))
        best = curve.optimum[k]
        gaps = [f"{max(0.0, value / best - 1):.1%}" for value in (curve.reached[k], curve.auto[k])]
        yield against(
            f"diagonal example, {curve.label}, k = {k + 1}",
            curve.method,
            objective=(float(curve.reached[k]), float(curve.auto[k])),
            certified_gap=(gaps[0], f"{gaps[1]} (the optimum is known)"),
        )


def draw_free(free: Curves) -> Any:
    """IHT, its bound, the optimum and ours against k."""
    figure, ax = new_figure(8.4, 4.6)
    ax.axhline(free.start, color=GREY, lw=1, ls=":")
    ax.text(D, free.start, "R(0)", color=GREY, ha="right", va="bottom")
    k_bar = np.arange(1, D // 16 + 1)
    ax.plot(16 * k_bar, free.optimum[k_bar - 1], "s", ms=4, color="#D55E00", label="bound: (16k̄, R(w̄)), each k̄")
    _reached(ax, free, 10, "optimum")
    ax.set_ylim(0, 1.05 * free.start)
    ax.legend(frameon=False, loc="lower left")
    return figure


def _reached(ax: Any, curve: Curves, every: int, optimum: str) -> None:
    """What both methods reach, and the optimum, against k."""
    ks, style = np.arange(1, D + 1), styles([curve.method, "auto"])
    ax.plot(ks, curve.reached, lw=2, label=f"{curve.method} at convergence", **style[curve.method])
    ax.plot(ks, curve.auto, lw=2, label="ours (auto)", **style["auto"])
    ax.plot(ks[::every], curve.optimum[::every], "o", ms=5, mfc="none", mec=GREY, label=optimum)
    ax.set(xlabel="k, nonzeros allowed", ylabel="R(w)", xlim=(0, D + 3))
    tidy(ax)


def draw_balls(balls: list[Curves]) -> Any:
    """The same with Γ, a panel for each radius; the paper's curves over ρ shaded by k̄."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    figure, axes = new_figure(11, 8.4, 2, 2)
    rho = np.linspace(0.02, 0.5, 200)
    for ax, curve in zip(axes.flat, balls, strict=True):
        k_bar = np.arange(1, D // 16 + 1)
        ratio = 16 * ((1 - rho) / rho) ** 2
        lines = [np.column_stack((j * ratio, (1 + 2 * rho) * curve.optimum[j - 1])) for j in k_bar]
        shades = LineCollection(lines, cmap="OrRd", norm=Normalize(-8, k_bar[-1]), lw=1.1)
        shades.set_array(k_bar)
        ax.add_collection(shades)
        ax.plot(range(1, D + 1), curve.bounds("sharp"), color="#009E73", lw=1.6, ls="-.", label="sharper form, best k̄")
        ax.axhline(curve.start, color=GREY, lw=1, ls=":", label="R(0): a bound above it says nothing")
        _reached(ax, curve, 15, "optimum inside Γ")
        ax.set(title=curve.label, ylim=(0, 2.1 * curve.start))
    bar = figure.colorbar(shades, ax=axes, shrink=0.6, pad=0.02, ticks=k_bar[::4])
    bar.set_label("the paper's curves over ρ: k̄")
    bar.ax.set_ylim(1, k_bar[-1])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure
