"""Three forms of a theorem: as the paper states it, sharper, and as far as the proof reaches.

    form      k needed (IHT-2SP)             factor of R(w̄)    1 - ω
    paper     4(1-ρ)²κ²k̄/ρ², ρ <= 1/2        1 + 2ρ            (1-ρ)/κ
    sharp     max(4κ², 1/ρ²)k̄                1/(1-ρ)           1/(2κ)
    widest    any k > κ²k̄                    1/(1-√β)          (1-κ√β)/κ          β = k̄/k, κ = L_{2k}/ν_{k+k̄}

All rest on one inequality: for every ρ >= √β and D_t = ||w_t - w̄||²,

    (1-ρ)R(w_t) + ρR(v_t) <= R(w̄) + (L-ν)/2 · D_{t-1} - L/2 · (1-√β) · D_t.

While the left side exceeds R(w̄) + ε, D_t <= (1-1/κ)/(1-√β) · D_{t-1}; this contracts as soon as √β < 1/κ, and
(1-1/κ)/(1-√β) <= 1 - (1-κ√β)/κ. Hence T = ⌈κ/(1-κ√β) · log₊((L-ν)Δ/(2ε(1-ρ)))⌉ + 1 with ρ = √β. At k = 4κ²k̄ it is
the sharp form. IHT is the case ρ = 0.

With batches there stand αL for L, 1 - 1/(ακ) for 1 - 1/κ, and αL/2 · ω^(t-1) for the noise on the right side, 1/ω being
the growth of the batches. With p = (1 - 1/(ακ))/(1 - √β), below 1 as soon as k > α²κ²k̄, and any ω in (p, 1), the excess
of min_t E R(w_t) over R(w̄)/(1-√β) is at most αL/(2(1-√β)) · [p^T Δ + ω^T/(ω-p)]; here ω = (1+p)/2, so the bracket is at
most ω^T (Δ + 2/(1-p)). Zeroth-order methods have the first two forms alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from .._core.validation import check_count, check_number
from .parameters import THEOREMS, Prescription, prescribe, sparsity_covered, sparsity_required

Form = Literal["paper", "sharp", "widest"]
_ROUNDING = 1e-12


def forms_of(theorem: str, rho: float) -> list[Form]:
    """The forms that apply for this ρ, the paper's first where it does."""
    widest: list[Form] = [] if THEOREMS[theorem].oracle == "directions" else ["widest"]
    if not theorem.endswith("-2SP"):
        return ["paper", *widest]
    forms: list[Form] = ["paper", "sharp"] if rho <= 0.5 else ["sharp"]
    return [*forms, *widest]


def prescribe_form(
    form: Form, theorem: str, L: float, nu: float, *, k: int, k_bar: int, rho: float = 0.5, **more: Any
) -> Prescription:
    """What a theorem prescribes in one of its forms; see `parameters.prescribe`, which takes the other arguments.

    In the forms "sharp" and "widest" the ρ of the result is √(k̄/k), the best one, where k suffices for the ρ
    that is asked for; `k_required` and `k_bar_max` are those of the ρ asked for.
    """
    constrained = theorem.endswith("-2SP")
    asked = prescribe(theorem, L, nu, rho=rho, sharp=form != "paper" and constrained, k=k, k_bar=k_bar, **more)
    if form == "paper":
        return asked
    root = math.sqrt(k_bar / k)
    if form == "sharp":
        covered = asked.k_required is not None and asked.k_required <= k
        best = prescribe(theorem, L, nu, rho=root if covered else rho, sharp=True, k=k, k_bar=k_bar, **more)
        return replace(best, k_ratio=asked.k_ratio, k_required=asked.k_required, k_bar_max=asked.k_bar_max)
    hardest = asked.alpha * asked.kappa
    used = root if constrained and root < 1 else 0.0
    gap, scale, noise = max(0.0, 1 / hardest - root), max(0.0, L - nu) / 2, 0.0
    if asked.oracle == "batch":
        # 1 - p = (1/(ακ) - √β)/(1 - √β), and ω halfway between p and 1
        gap = 0.5 * gap / (1 - root) if root < 1 else 0.0
        scale, noise = asked.alpha * L / 2, 1 / gap if gap else math.inf
    return replace(
        asked,
        rho=used,
        k_ratio=hardest**2,
        k_required=sparsity_needed("widest", hardest**2, k_bar),
        k_bar_max=max(0, math.ceil(k / hardest**2 * (1 - _ROUNDING)) - 1),
        gap=gap,
        omega=1 - gap,
        factor=1 / (1 - used),
        prefactor=scale / (1 - used),
        noise=noise,
    )


def sparsity_needed(form: Form, ratio: float, k_bar: int) -> int:
    """min {k : k >= ratio·k̄}, in the widest form min {k : k > ratio·k̄}."""
    if form == "widest":
        return math.floor(ratio * k_bar * (1 + _ROUNDING)) + 1
    return sparsity_required(ratio, k_bar)


class TradeOff(NamedTuple):
    """One point of the frontier: with this k̄ the best ρ, the factor of R(w̄), and the bound on R."""

    k_bar: int
    rho: float
    factor: float
    bound: float  #: factor·R(w̄), or R(w̄) + ρ/(1-ρ)·(R(w̄) - m); NaN where R(w̄) is not given


def tradeoff(
    kappa: float,
    k: int,
    *,
    method: str = "IHT-2SP",
    form: Form = "sharp",
    alpha: float = 2.0,
    values: Callable[[int], float] | Sequence[float] | None = None,
    lower_bound: float = 0.0,
) -> list[TradeOff]:
    """For every k̄ that k covers, the smallest ρ: R of the best iterate is at most factor·R(w̄) + ε, w̄ k̄-sparse in Γ.

    A small k̄ has a small ρ, and a w̄ that is far from good; a large k̄ the other way round. The smallest `bound`
    is what the theorem has to say about k.

    Parameters
    ----------
    kappa : float
        κ = L/ν.
    k : int
    method : {"IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP"}
    form : {"paper", "sharp", "widest"}
        See this module; not "widest" for HZO-HT-2SP.
    alpha : float
        That of the stochastic and zeroth-order methods.
    values : function or sequence, optional
        k̄ ↦ R(w̄), the optimal value over k̄-sparse members of Γ, or an upper bound of it; a sequence starts at k̄ = 1
        and ends the frontier.
    lower_bound : float
        m <= R on k-sparse vectors, inside Γ or not. The paper's form takes m = 0.

    Examples
    --------
    >>> from ellzero.theory import tradeoff
    >>> [(p.k_bar, round(p.factor, 3)) for p in tradeoff(kappa=2, k=48, form="paper")]
    [(1, 1.732), (2, 1.899), (3, 2.0)]
    >>> [(p.k_bar, round(p.factor, 3)) for p in tradeoff(kappa=2, k=48)]
    [(1, 1.169), (2, 1.256), (3, 1.333)]
    """
    if method not in THEOREMS or not method.endswith("-2SP"):
        raise ValueError(f"method must be IHT-2SP, HSG-HT-2SP or HZO-HT-2SP (only Γ costs a factor), got {method!r}")
    if form not in forms_of(method, 0.5):
        raise ValueError(f"form must be one of {', '.join(forms_of(method, 0.5))} for {method}, got form={form!r}")
    kappa = check_number(kappa, "kappa", low=1.0, high=math.inf, open_high=True)
    k = check_count(k, "k")
    alpha = prescribe(method, 1.0, 1.0, alpha=alpha).alpha
    hardest = THEOREMS[method.removesuffix("-2SP")].ratio(0.0) * (alpha * kappa) ** 2  # k/k̄ at which ρ = 1/2, or √β
    most = sparsity_covered(hardest, k)
    if form == "widest":
        most = math.ceil(k / (alpha * kappa) ** 2 * (1 - _ROUNDING)) - 1
    if form == "paper" and method != "IHT-2SP":
        most = sparsity_covered(4 * hardest, k)
    if isinstance(values, Sequence):
        most = min(most, len(values))
    points = []
    for k_bar in range(1, most + 1):
        x = math.sqrt(hardest * k_bar / k)  # the paper: x <= ρ/(1-ρ) for IHT-2SP, x <= ρ for the others
        rho = math.sqrt(k_bar / k)
        if form == "paper":
            rho = min(0.5, x / (1 + x) if method == "IHT-2SP" else x)
        factor = 1 + 2 * rho if form == "paper" else 1 / (1 - rho)
        risk = math.nan
        if values is not None:
            risk = float(values(k_bar) if callable(values) else values[k_bar - 1])
        shifted = form != "paper" or lower_bound != 0
        bound = risk + rho / (1 - rho) * (risk - lower_bound) if shifted else factor * risk
        points.append(TradeOff(k_bar, rho, factor, bound))
    return points
