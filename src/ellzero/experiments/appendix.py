"""The appendices: the counterexample to IHT, the smoothness example, and two-step against Euclidean projection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import datasets, risks
from ..displays.base import new_figure, tidy
from ..displays.plot import GREY, styles
from ..minimize import minimize
from ..solver.methods import preset
from . import _projections
from ._report import Chapter, Claim, Part, Table
from ._work import Plan

KAPPA, K_BAR = 8.0, 4


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
    tasks |= _projections.tasks(seed)
    return Plan("appendix: counterexample, smoothness, projections", tasks, finish)


def finish(results: dict[Any, Any]) -> Chapter:
    """The chapter."""
    found = [result for (kind, _), result in results.items() if kind == "stuck"]
    parts = [counterexample(found), smoothness(), _projections.part(results)]
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
    return {
        "smooth": float(_gradient_ratio(every).max()),
        "restricted smooth": float(_value_ratio(every[::720]).max()),
        "restricted strongly smooth": float(_gradient_ratio(every[::720]).max()),
    }


def _f(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[..., 0] ** 2 + x[..., 1] ** 2 + x[..., 0] * x[..., 1])


def _gradient(x: np.ndarray) -> np.ndarray:
    return np.stack([2 * x[..., 0] + x[..., 1], 2 * x[..., 1] + x[..., 0]], axis=-1)


def _gradient_ratio(u: np.ndarray) -> np.ndarray:
    x = np.array([0.3, -0.7])
    return np.asarray(np.linalg.norm(_gradient(x + u) - _gradient(x), axis=-1))


def _value_ratio(u: np.ndarray) -> np.ndarray:
    x = np.array([0.3, -0.7])
    return np.asarray(2 * (_f(x + u) - _f(x) - u @ _gradient(x)))


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
    ax.plot(degrees, _gradient_ratio(u), color="#0072B2", lw=2, label="‖∇f(x+u) - ∇f(x)‖")
    ax.plot(degrees, _value_ratio(u), color="#D55E00", lw=2, label="2(f(x+u) - f(x) - ⟨∇f(x), u⟩)")
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
