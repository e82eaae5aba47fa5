"""What the six theorems of the two-step projection paper prescribe: numbers in, numbers out.

    theorem        η       k needed             1 - ω        what vanishes
    IHT            1/L     4κ²k̄                 1/(2κ)       (L-ν)/2 · ω^(T-1) · Δ
    IHT-2SP        1/L     4(1-ρ)²κ²k̄/ρ²        (1-ρ)/κ      (L-ν)/(2(1-ρ)) · ω^(T-1) · Δ
    HSG-HT         1/(αL)  4α²κ²k̄               1/(4ακ)      2α²Lκ · ω^T · (Δ + 4/3)
    HSG-HT-2SP     1/(αL)  4α²κ²k̄/ρ²            ρ/(4ακ)      2α²Lκ/(ρ(1-ρ)) · ω^T · (Δ + 4/3)
    HZO-HT         1/(αL)  16α²κ²k̄              1/(8ακ)      4α²Lκ · ω^T · (Δ + η‖∇R(w̄)‖²/(3κL))
    HZO-HT-2SP     1/(αL)  16α²κ²k̄/ρ²           ρ/(8ακ)      4α²Lκ/(ρ(1-ρ)) · ω^T · (the same)

L and ν are the smoothness and strong convexity between vectors that differ in few coordinates (`L_level`,
`nu_level`), κ = L/ν, C = (α-1)L, Δ = ‖w_0 - w̄‖², w̄ any k̄-sparse vector (of Γ, in the rows "-2SP").
The sharper form of a "-2SP" row is the row above it with k >= max(k needed, k̄/ρ²), the factor 1/(1-ρ) in
place of 1+2ρ, and what vanishes divided by 1-ρ.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .._core.validation import check_count, check_k, check_nonnegative, check_number, check_positive

#: sizes of batches and numbers of directions never exceed this, whatever t is
LARGEST = 2**63 - 1
_EXACT_TERMS = 1_000_000  # a longer schedule is summed by the corollaries' upper bound
_ROUNDING = 1e-12  # relative error of the constants that is forgiven when k is compared with what is needed

Oracle = Literal["full", "batch", "directions"]


class Theorem(NamedTuple):
    """k >= ratio(ρ)·(ακ)²·k̄,   ω = 1 - gap(ρ)/(ακ),   vanishing part = prefactor(ρ)·scale·ω^T·(...).

    L and ν are taken at `level`·k coordinates; scale = (L-ν)/2 for the full gradient, else α²Lκ.
    """

    oracle: Oracle
    level: int
    ratio: Callable[[float], float]
    gap: Callable[[float], float]
    prefactor: Callable[[float], float]


#: the theorems by the names of their methods, the rows of the table above
THEOREMS: dict[str, Theorem] = {
    "IHT": Theorem("full", 2, lambda r: 4, lambda r: 1 / 2, lambda r: 1),
    "IHT-2SP": Theorem("full", 2, lambda r: 4 * ((1 - r) / r) ** 2, lambda r: 1 - r, lambda r: 1 / (1 - r)),
    "HSG-HT": Theorem("batch", 2, lambda r: 4, lambda r: 1 / 4, lambda r: 2),
    "HSG-HT-2SP": Theorem("batch", 2, lambda r: 4 / r**2, lambda r: r / 4, lambda r: 2 / (r * (1 - r))),
    "HZO-HT": Theorem("directions", 3, lambda r: 16, lambda r: 1 / 8, lambda r: 4),
    "HZO-HT-2SP": Theorem("directions", 3, lambda r: 16 / r**2, lambda r: r / 8, lambda r: 4 / (r * (1 - r))),
}


def condition_number(L: float, nu: float) -> float:
    """κ = L/ν, for 0 < ν <= L < ∞."""
    L, nu = check_number(L, "L"), check_number(nu, "nu")
    if not 0 < L < math.inf:
        raise ValueError(
            f"L must be positive and finite, got L={L}: without smoothness no theorem applies; "
            "give the smoothness of the risk by hand, or a step of your own"
        )
    if not (nu > 0 and L / nu < 1e100):
        raise ValueError(
            f"nu must be positive, got nu={nu}: without strong convexity κ = ∞ and ω = 1, and no theorem "
            "applies; take ridge > 0 in the risk, or give strong_convexity (or the schedule's growth) by hand"
        )
    if nu > L * (1 + _ROUNDING):
        raise ValueError(f"nu must be at most L, got nu={nu} > L={L}; check that both are of the same risk")
    return max(1.0, L / nu)


def sparsity_required(ratio: float, k_bar: int) -> int:
    """min {k : k >= ratio·k̄}; `ratio` is the condition on k of any of the theorems."""
    return math.ceil(ratio * k_bar * (1 - _ROUNDING))


def sparsity_covered(ratio: float, k: int) -> int:
    """max {k̄ : k >= ratio·k̄}, the inverse of `sparsity_required`."""
    k_bar = math.floor(k / ratio)
    return k_bar + 1 if sparsity_required(ratio, k_bar + 1) <= k else k_bar


def schedule_size(tau: float, omega: float, t: int, cap: int = LARGEST) -> int:
    """s_t = ⌈τ/ω^t⌉, within 1..cap: HSG-HT's batch or HZO-HT's number of directions in step t = 0, 1, ..."""
    shrunk = omega**t
    size = tau / shrunk if shrunk > 0 else math.inf
    return cap if size >= cap else max(1, math.ceil(size))


def schedule_total(tau: float, omega: float, n_iter: int, cap: int = LARGEST) -> int:
    """Σ_{t<T} s_t, the #IFO of HSG-HT and the #IZO of HZO-HT.

    Schedules that are still growing after a million steps add their tail as the corollaries do,
    Σ_{t<m} ⌈a/ω^t⌉ <= m + a (ω^-m - 1)/(1/ω - 1): never too small.
    """
    total, exact = 0, min(n_iter, _EXACT_TERMS)
    for t in range(exact):
        size = schedule_size(tau, omega, t, cap)
        if size == cap:
            return total + (n_iter - t) * cap
        total += size
    rest, growth = n_iter - exact, -math.log(omega)
    if rest == 0 or tau == 0 or growth == 0:
        return total + rest * schedule_size(tau, omega, exact, cap)
    log_a = max(math.log(tau) + exact * growth, -600.0)  # keeps expm1 finite
    m = min(rest, max(0, math.ceil((math.log(cap) - log_a) / growth)))
    tail = m + math.ceil(math.exp(log_a) * (math.expm1(m * growth) / math.expm1(growth)))
    return total + tail + (rest - m) * cap


def _pairs(d: int, s: int, s2: int) -> float:
    """(s-1)(s2-1)/(d-1); 0 when d = 1. Checks 1 <= s2 <= d."""
    d, s, s2 = check_count(d, "d"), check_count(s, "s"), check_count(s2, "s2")
    if s2 > d:
        raise ValueError(f"s2 must be at most d={d} (a direction has s2 of the d coordinates), got s2={s2}")
    return (s - 1) * (s2 - 1) / max(d - 1, 1)


def epsilon_F(d: int, s: int, s2: int) -> float:
    """ε_F = 2d/(s2+2) · ((s-1)(s2-1)/(d-1) + 3), of HZO-HT: E‖g_F‖² <= ε_F‖∇R_F‖² + ..., |F| = s, q = 1."""
    return 2 * d / (s2 + 2) * (_pairs(d, s, s2) + 3)


def epsilon_Fc(d: int, s: int, s2: int) -> float:
    """ε_{F^c} = 2d/(s2+2) · s(s2-1)/(d-1), of HZO-HT: what the gradient outside F adds to E‖g_F‖²."""
    return 2 * d / (s2 + 2) * _pairs(d, s + 1, s2)


def epsilon_abs(d: int, s: int, s2: int, L: float) -> float:
    """ε_abs = 2dL²s·s2((s-1)(s2-1)/(d-1) + 1), of HZO-HT: what the finite difference adds, per μ²."""
    return 2 * d * L * L * s * s2 * (_pairs(d, s, s2) + 1)


def epsilon_mu(d: int, s: int, L: float) -> float:
    """ε_μ = L²sd, of HZO-HT: ‖E g_F - ∇R_F‖² <= ε_μ μ²."""
    return L * L * s * d


def smoothing_error(d: int, s: int, s2: int, L: float, nu: float, C: float, rho: float = 0.0) -> float:
    """Z = [ε_μ(2/ν + 1/C) + ε_abs/C]/(1-ρ), of HZO-HT (ρ = 0) and HZO-HT-2SP: Zμ² is the error that stays."""
    return (epsilon_mu(d, s, L) * (2 / nu + 1 / C) + epsilon_abs(d, s, s2, L) / C) / (1 - rho)


def zoht_step(L: float, nu: float, d: int, s: int, s2: int, q: int) -> float:
    """η = ν/((4ε + 1)L²), ε = ε_F/q + 2, of ZOHT (de Vazelhes et al. 2022), with q directions a step."""
    condition_number(L, nu)
    return nu / L / (4 * (epsilon_F(d, s, s2) / check_count(q, "q") + 2) + 1) / L  # L² may leave the range of floats


def snapshot_step(L: float, nu: float, d: int, s: int, s2: int, q: int) -> tuple[float, int]:
    """η = 1/(8(1+e)L) and the epoch m = ⌈32(1+e)κ⌉, e = ε_F/q, for zeroth-order gradients with snapshots.

    Ours, not the theorem of Yuan et al. (arXiv 2605.18035): along the s coordinates that matter, q directions multiply
    the variance of SVRG's difference of gradients by e, so that E‖g‖² <= 4(1+e)L(R(w) - R* + R(w̃) - R*), and the
    argument of Johnson & Zhang (2013) contracts by 2/3 an epoch. The expansion by thresholding is not counted.
    """
    e = epsilon_F(d, s, s2) / check_count(q, "q")
    return 1 / (8 * (1 + e) * L), math.ceil(32 * (1 + e) * condition_number(L, nu))


class Costs(NamedTuple):
    """#HT = T, #IFO = Σ_{t<T} s_t, #IZO = Σ_{t<T} q_t, and the values truly needed, Σ_{t<T} (q_t + 1)."""

    n_thresholds: int
    n_gradients: int
    n_directions: int
    n_values: int


@dataclass(frozen=True)
class Prescription:
    """What one theorem says for given constants, made by `prescribe`; None where an input was not given."""

    theorem: str
    sharp: bool  #: the sharper form instead of the paper's; they differ with Γ alone
    proved: bool  #: False for HZO-HT: its proof takes a support that depends on the directions as fixed
    oracle: Oracle  #: where the gradients come from
    L: float
    nu: float
    kappa: float  #: κ = L/ν
    rho: float  #: ρ; 0 without Γ
    alpha: float  #: α; 1 for IHT
    step: float  #: η = 1/(αL) = 1/(L + C)
    k_ratio: float  #: the condition on k: k >= k_ratio·k̄
    k: int | None  #: as given, else the k required for k̄
    k_bar: int | None
    k_required: int | None  #: the smallest k for k̄
    k_bar_max: int | None  #: the largest k̄ for k
    nu_level: int | None  #: ν holds between vectors that differ in k + k̄ (HZO-HT: 3k; without a k̄ 2k) coordinates
    L_level: int | None  #: L holds between vectors that differ in s (HZO-HT: s' = max(s2, s)) coordinates
    gap: float  #: 1 - ω, exact where ω rounds to 1
    omega: float  #: ω: what a step leaves of ‖w - w̄‖² (IHT), 1/(growth of the schedule) (HSG-HT, HZO-HT)
    tau: float | None  #: τ = ηB/C (HSG-HT), 16κε_F/(α-1) (HZO-HT): the schedule is ⌈τ/ω^t⌉
    factor: float  #: 1 + 2ρ, or 1/(1-ρ) in the sharper form: the bound is factor·R(w̄) + ..., for R >= 0
    prefactor: float  #: what multiplies ω^T·(Δ + ...) in the bound
    Z: float | None  #: Zμ² is the error of HZO-HT that stays
    noise: float  #: what batches add to Δ: 4/3 for HSG-HT

    def start(self, delta: float, gradient_norm: float | None = None) -> float:
        """Δ (IHT), Δ + noise (HSG-HT), Δ + η‖∇R(w̄)‖²/(3κL) (HZO-HT): what ω^T shrinks."""
        delta = check_nonnegative(delta, "delta")
        if self.oracle != "directions":
            return delta + self.noise
        if gradient_norm is None:
            raise ValueError(f"{self.theorem} needs gradient_norm, at least the norm of ∇R(w̄); got None")
        gradient_norm = check_nonnegative(gradient_norm, "gradient_norm")
        return delta + self.step * gradient_norm**2 / (3 * self.kappa * self.L)

    def vanishing(self, n_iter: int, delta: float, gradient_norm: float | None = None) -> float:
        """prefactor · ω^T · (Δ + ...), T = n_iter (T - 1 for IHT): the part of the bound that goes to 0.

        Parameters
        ----------
        n_iter : int
        delta : float
            Δ = ‖w_0 - w̄‖², or more.
        gradient_norm : float, optional
            ‖∇R(w̄)‖, or more; needed by HZO-HT and HZO-HT-2SP.
        """
        n_iter = check_count(n_iter, "n_iter") - (self.oracle == "full")
        return self.prefactor * math.exp(n_iter * math.log1p(-self.gap)) * self.start(delta, gradient_norm)

    def n_iter(self, epsilon: float, delta: float, gradient_norm: float | None = None) -> int:
        """T = max(1, ⌈log₊(prefactor·(Δ + ...)/ε)/log(1/ω)⌉), the smallest with a vanishing part <= ε.

        IHT and IHT-2SP: T = ⌈log₊(prefactor·Δ/ε)/(1-ω)⌉ + 1, as their theorems say. log₊ = max(log, 0).
        """
        epsilon, start = check_positive(epsilon, "epsilon"), self.start(delta, gradient_norm)
        logs = math.log(self.prefactor) + math.log(start) if self.prefactor > 0 and start > 0 else -math.inf
        logs = max(0.0, logs - math.log(epsilon))
        if self.oracle == "full":
            return math.ceil(logs / self.gap) + 1
        return max(1, math.ceil(logs / -math.log1p(-self.gap)))

    def bound(
        self,
        n_iter: int,
        risk: float,
        delta: float,
        gradient_norm: float | None = None,
        mu: float | None = None,
        lower_bound: float | None = None,
    ) -> float:
        """factor·R(w̄) + vanishing + Zμ² for R >= 0; R(w̄) + ρ/(1-ρ)·(R(w̄) - m) + vanishing + Zμ² for R >= m.

        The best of the first T = n_iter iterates stays below it (in expectation, if they are random).

        Parameters
        ----------
        n_iter, delta, gradient_norm
            See `vanishing`.
        risk : float
            R(w̄).
        mu : float, optional
            The finite difference's step; needed by HZO-HT and HZO-HT-2SP.
        lower_bound : float, optional
            m <= R on all k-sparse vectors, inside Γ or not. Without it R >= 0 is taken for granted.
        """
        limit = risk = check_number(risk, "risk")
        if self.rho > 0 and lower_bound is None:
            if risk < 0:
                raise ValueError(f"risk must be at least 0, got risk={risk}; else give lower_bound")
            limit = self.factor * risk
        elif self.rho > 0:
            m = check_number(lower_bound, "lower_bound", high=risk)
            limit = risk + self.rho / (1 - self.rho) * (risk - m)
        if self.oracle == "directions":
            if mu is None or self.Z is None:
                raise ValueError(f"{self.theorem} needs mu (got mu={mu}), and in prescribe d and k, for Zμ²")
            limit += self.Z * check_positive(mu, "mu") ** 2
        return limit + self.vanishing(n_iter, delta, gradient_norm)

    def costs(self, n_iter: int, n_terms: int | None = None) -> Costs:
        """#HT, #IFO with s_t at most n (full gradient: n a step), #IZO and values of T = n_iter steps."""
        n_iter = check_count(n_iter, "n_iter", low=0)
        cap = LARGEST if n_terms is None else check_count(n_terms, "n_terms")
        if self.oracle == "full" and n_terms is None:
            raise ValueError(f"{self.theorem} needs n_terms, the terms of a full gradient; got n_terms=None")
        if self.oracle == "full":
            return Costs(n_iter, n_iter * cap, 0, 0)
        if self.tau is None:
            missing = "B" if self.oracle == "batch" else "d and k"
            raise ValueError(f"the schedule of {self.theorem} is not known, got tau=None; give {missing}")
        if self.oracle == "batch":
            return Costs(n_iter, schedule_total(self.tau, self.omega, n_iter, cap), 0, 0)
        directions = schedule_total(self.tau, self.omega, n_iter)
        return Costs(n_iter, 0, directions, directions + n_iter)


def prescribe(
    theorem: str,
    L: float,
    nu: float,
    *,
    k: int | None = None,
    k_bar: int | None = None,
    rho: float | None = None,
    alpha: float = 2.0,
    B: float | None = None,
    d: int | None = None,
    s2: int | None = None,
    sharp: bool = False,
) -> Prescription:
    """η, the condition on k, ω, τ, T and the bound of one theorem: a row of the table that opens this module.

    An argument that the theorem has no use for is ignored (α and B by IHT, ρ without Γ, ...).

    Parameters
    ----------
    theorem : {"IHT", "IHT-2SP", "HSG-HT", "HSG-HT-2SP", "HZO-HT", "HZO-HT-2SP"}
    L, nu : float
        Smoothness and strong convexity at the levels of the result, 0 < ν <= L. HZO-HT: L = L_{s'}.
    k, k_bar : int, optional
        Nonzeros of the iterates, and of the vector w̄ they are compared with.
    rho : float, optional
        How much R(w̄) may be exceeded, in exchange for a smaller k: in (0, 1/2], default 1/2. Sharper form:
        in (0, 1); by default the best that k and k̄ allow, sqrt(k̄/k).
    alpha : float
        α = 1 + C/L > 1: a larger α has shorter steps and smaller schedules, and needs a larger k.
    B : float, optional
        Bound on the population variance (1/n)Σ‖∇R_i - ∇R‖², for HSG-HT's τ.
    d, s2 : int, optional
        Coordinates of w (no level exceeds d) and of a random direction (default d), for HZO-HT's τ and Z.
    sharp : bool
        The sharper form of the theorems with Γ instead of the paper's.
    """
    if theorem not in THEOREMS:
        raise ValueError(f"theorem must be one of {', '.join(THEOREMS)}, got theorem={theorem!r}")
    kappa, L, nu = condition_number(L, nu), float(L), float(nu)
    row = THEOREMS[theorem.removesuffix("-2SP") if sharp else theorem]
    alpha = check_number(alpha, "alpha", low=1, high=math.inf, open_low=True, open_high=True)
    alpha = 1.0 if row.oracle == "full" else alpha
    C = (alpha - 1) * L
    k = None if k is None else check_k(k)
    k_bar = None if k_bar is None else check_k(k_bar, name="k_bar")
    if k is not None and k_bar is not None and k_bar > k:
        raise ValueError(f"k_bar must be at most k={k}, got k_bar={k_bar}; raise k or take a sparser w̄")

    r = 0.0
    if theorem.endswith("-2SP") and not sharp:
        r = _check_rho(0.5 if rho is None else rho, sharp)
    ratio = row.ratio(r) * (alpha * kappa) ** 2
    if theorem.endswith("-2SP") and sharp:
        r, ratio = _sharp_condition(ratio, rho, k, k_bar)
    k_required = None if k_bar is None else sparsity_required(ratio, k_bar)
    k = k_required if k is None else k

    tau, Z, s2 = None, None, d if s2 is None else s2
    if s2 is not None:
        _pairs(s2 if d is None else d, 1, s2)  # checks both
    s = L_level = None if k is None else row.level * k if d is None else min(row.level * k, d)
    if row.oracle == "batch" and B is not None:
        tau = check_nonnegative(B, "B") / (alpha * L) / C
    elif row.oracle == "directions":
        L_level = None if s is None or s2 is None else max(s2, s)
        if d is not None and s2 is not None and s is not None:
            tau = 16 * kappa * epsilon_F(d, max(s, 1), s2) / (alpha - 1)
            Z = smoothing_error(d, max(s, 1), s2, L, nu, C, r)
    nu_level = s
    if row.oracle != "directions" and s is not None and k is not None and k_bar is not None:
        nu_level = min(s, k + k_bar)  # strong convexity is used between iterates and w̄ alone
    gap = row.gap(r) / (alpha * kappa)
    factor = 1 / (1 - r) if sharp else 1 + 2 * r
    scale = max(0.0, L - nu) / 2 if row.oracle == "full" else alpha**2 * L * kappa
    return Prescription(
        theorem=theorem, sharp=sharp, proved=row.oracle != "directions", oracle=row.oracle, L=L, nu=nu,
        kappa=kappa, rho=r, alpha=alpha, step=1 / (alpha * L), k_ratio=ratio, k=k, k_bar=k_bar,
        k_required=k_required, k_bar_max=None if k is None else sparsity_covered(ratio, k), nu_level=nu_level,
        L_level=L_level, gap=gap, omega=1 - gap, tau=tau, factor=factor,
        prefactor=scale * row.prefactor(r) * (factor if sharp else 1), Z=Z,
        noise=4 / 3 if row.oracle == "batch" else 0.0,
    )  # fmt: skip


def _check_rho(rho: float, sharp: bool) -> float:
    rho = check_number(rho, "rho", low=0, high=1, open_low=True, open_high=True)
    if not sharp and rho > 0.5:
        raise ValueError(
            f"rho must lie in (0, 0.5] in the paper's form (1/(1-rho) <= 1+2rho ends there), got rho={rho}; "
            "sharp=True takes any rho in (0, 1)"
        )
    return rho


def _sharp_condition(ratio: float, rho: float | None, k: int | None, k_bar: int | None) -> tuple[float, float]:
    """ρ and max(ratio, 1/ρ²); without ρ, sqrt(k̄/k), which k >= ratio·k̄ puts at or below 1/sqrt(ratio)."""
    if rho is not None:
        return _check_rho(rho, sharp=True), max(ratio, 1 / rho**2)
    beta = 1 / ratio if k is None or k_bar is None else min(1 / ratio, k_bar / max(k, 1))
    return math.sqrt(beta), ratio
