"""The formulas of the six theorems against derivations of their own."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ellzero.theory import parameters
from ellzero.theory.parameters import (
    LARGEST,
    THEOREMS,
    condition_number,
    epsilon_abs,
    epsilon_F,
    epsilon_Fc,
    epsilon_mu,
    prescribe,
    schedule_size,
    schedule_total,
    smoothing_error,
    sparsity_covered,
    sparsity_required,
    zoht_step,
)

CONSTRAINED = [name for name in THEOREMS if name.endswith("-2SP")]
GROWING = [name for name in THEOREMS if not name.startswith("IHT")]
DATA = Path(__file__).parents[2].parent / "shared" / "data"

kappas = st.floats(1.0, 1e4)
alphas = st.floats(1.01, 20.0)
rhos = st.floats(1e-3, 0.5)
scales = st.floats(1e-3, 1e3)
forms = st.sampled_from([(name, False) for name in THEOREMS] + [(name, True) for name in CONSTRAINED])
growing_forms = forms.filter(lambda form: form[0] in GROWING)


def worst_distance_factor(kappa, beta):
    """(L-ν)D_{t-1} - L(1-√β)D_t >= 0 holds as long as no iterate is good enough: the largest D_t/D_{t-1}."""
    return (1 - 1 / kappa) / (1 - math.sqrt(beta))


# ---------------------------------------------------------------- the table, by hand


@pytest.mark.parametrize(
    ("name", "sharp", "ratio", "gap", "prefactor", "factor"),
    [  # L = 6, ν = 2, so κ = 3; α = 3/2, ρ = 1/4
        ("IHT", False, 36, "1/6", 2, 1),
        ("IHT-2SP", False, 4 * 9 * 9, "1/4", "8/3", "3/2"),
        ("IHT-2SP", True, 36, "1/6", "8/3", "4/3"),
        ("HSG-HT", False, 81, "1/18", 81, 1),
        ("HSG-HT-2SP", False, 81 * 16, "1/72", 432, "3/2"),
        ("HSG-HT-2SP", True, 81, "1/18", 108, "4/3"),
        ("HZO-HT", False, 324, "1/36", 162, 1),
        ("HZO-HT-2SP", False, 324 * 16, "1/144", 864, "3/2"),
        ("HZO-HT-2SP", True, 324, "1/36", 216, "4/3"),
    ],
)
def test_a_row_worked_by_hand(name, sharp, ratio, gap, prefactor, factor):
    p = prescribe(name, 6.0, 2.0, rho=0.25, alpha=1.5, sharp=sharp)
    assert p.kappa == 3
    assert p.step == pytest.approx(1 / 6 if name.startswith("IHT") else 1 / 9)
    assert p.k_ratio == pytest.approx(ratio)
    assert p.gap == pytest.approx(float(Fraction(gap)))
    assert p.omega == pytest.approx(1 - float(Fraction(gap)))
    assert p.prefactor == pytest.approx(float(Fraction(prefactor)))
    assert p.factor == pytest.approx(float(Fraction(factor)))
    assert p.proved == (not name.startswith("HZO"))


def test_levels_at_which_the_constants_are_taken():
    assert [prescribe(n, 2.0, 1.0, k=7, d=1000).nu_level for n in THEOREMS] == [14, 14, 14, 14, 21, 21]
    assert [prescribe(n, 2.0, 1.0, k=7).L_level for n in THEOREMS] == [14, 14, 14, 14, None, None]
    assert prescribe("HZO-HT", 2.0, 1.0, k=7, d=1000, s2=10).L_level == 21
    assert prescribe("HZO-HT", 2.0, 1.0, k=7, d=1000, s2=50).L_level == 50
    assert prescribe("HZO-HT", 2.0, 1.0, k=7, s2=50).L_level == 50
    assert prescribe("HZO-HT", 2.0, 1.0, k=7, d=1000).L_level == 1000
    assert prescribe("IHT", 2.0, 1.0, k=7, d=10).nu_level == 10
    assert prescribe("IHT", 2.0, 1.0).nu_level is None
    needed = prescribe("IHT", 2.0, 1.0, k_bar=3)  # at the k that is required: L at 2k, ν at k + k̄
    assert (needed.L_level, needed.nu_level) == (2 * 4 * 4 * 3, 4 * 4 * 3 + 3)
    assert prescribe("HZO-HT", 2.0, 1.0, k=48, k_bar=3, d=1000).nu_level == 3 * 48


# ---------------------------------------------------------------- the condition on k


@given(ratio=st.floats(4.0, 1e5), k=st.integers(0, 10**6))
def test_k_bar_max_is_the_largest_that_k_covers(ratio, k):
    k_bar = sparsity_covered(ratio, k)
    assert sparsity_required(ratio, k_bar) <= k < sparsity_required(ratio, k_bar + 1)


@given(ratio=st.floats(4.0, 1e5), k_bar=st.integers(0, 1000))
def test_k_required_covers_k_bar_and_no_more_than_needed(ratio, k_bar):
    k = sparsity_required(ratio, k_bar)
    assert k == 0 or k - 1 < ratio * k_bar
    assert k >= ratio * k_bar * (1 - 1e-11)
    assert sparsity_covered(ratio, k) == k_bar


def test_rounding_of_the_constants_is_forgiven():
    p = prescribe("IHT", 0.1 * 3, 0.1, k_bar=5)  # κ = 3.0000000000000004
    assert p.kappa > 3
    assert p.k_required == 180
    assert prescribe("IHT", 0.1 * 3, 0.1, k=180).k_bar_max == 5
    assert prescribe("IHT", 0.1 * 3, 0.1, k=179).k_bar_max == 4


@given(name=st.sampled_from(CONSTRAINED), kappa=kappas, alpha=alphas, rho=rhos)
def test_conditions_on_k_give_what_the_proofs_use(name, kappa, alpha, rho):
    """The proofs need sqrt(β) <= ρ, and sqrt(β) so small that a step still contracts by ω or better."""
    paper = prescribe(name, kappa, 1.0, alpha=alpha, rho=rho)
    sharp = prescribe(name, kappa, 1.0, alpha=alpha, rho=rho, sharp=True)
    plain = prescribe(name.removesuffix("-2SP"), kappa, 1.0, alpha=alpha)
    for p in (paper, sharp):
        assert 1 / math.sqrt(p.k_ratio) <= rho * (1 + 1e-12)
        assert p.k_ratio >= plain.k_ratio * (1 - 1e-12)
    assert sharp.k_ratio <= paper.k_ratio * (1 + 1e-12)
    assert sharp.gap == plain.gap
    assert sharp.factor <= paper.factor * (1 + 1e-12)
    if name in GROWING:
        assert paper.gap == pytest.approx(1 / (2 * math.sqrt(paper.k_ratio)))
        assert plain.gap == pytest.approx(1 / (2 * math.sqrt(plain.k_ratio)))


@pytest.mark.parametrize("name", CONSTRAINED)
def test_the_two_forms_at_one_half(name):
    paper = prescribe(name, 8.0, 2.0, rho=0.5)
    sharp = prescribe(name, 8.0, 2.0, rho=0.5, sharp=True)
    times = 1 if name == "IHT-2SP" else 2
    assert paper.k_ratio == pytest.approx(times**2 * sharp.k_ratio)
    assert paper.gap == pytest.approx(sharp.gap / times)
    assert paper.prefactor == pytest.approx(times * sharp.prefactor)
    assert paper.factor == sharp.factor == 2


def test_sharp_without_rho_takes_the_best_one():
    p = prescribe("IHT-2SP", 6.0, 2.0, k_bar=4, sharp=True)
    assert p.k == p.k_required == 144
    assert p.factor == pytest.approx(1 / (1 - 1 / 6))  # 1/(1 - 1/(2κ)), not 2
    wide = prescribe("IHT-2SP", 6.0, 2.0, k=400, k_bar=4, sharp=True)
    assert wide.k_required == 144
    assert wide.rho == pytest.approx(0.1)
    assert prescribe("IHT-2SP", 6.0, 2.0, k=400, k_bar=4, rho=0.1, sharp=True).k_required == 400
    assert prescribe("IHT-2SP", 6.0, 2.0, k=400, k_bar=4, rho=0.05, sharp=True).k_required == 1600
    assert prescribe("IHT-2SP", 6.0, 2.0, k=4, k_bar=4, sharp=True).rho < 1  # not covered, still a number


@given(form=forms, kappa=st.floats(1.0, 1e3), alpha=alphas, rho=rhos, more=st.floats(1.01, 3.0))
def test_harder_problems_need_more(form, kappa, alpha, rho, more):
    name, sharp = form
    p = prescribe(name, kappa, 1.0, alpha=alpha, rho=rho, sharp=sharp, k_bar=3)
    q = prescribe(name, kappa * more, 1.0, alpha=alpha, rho=rho, sharp=sharp, k_bar=3)
    assert q.k_required >= p.k_required
    assert q.gap < p.gap
    assert q.n_iter(1e-3, 1.0, 1.0) >= p.n_iter(1e-3, 1.0, 1.0)
    assert p.n_iter(1e-6, 1.0, 1.0) >= p.n_iter(1e-3, 1.0, 1.0)
    assert p.n_iter(1e-3, 2.0, 1.0) >= p.n_iter(1e-3, 1.0, 1.0)


# ---------------------------------------------------------------- T, by the recursions of the proofs


@given(kappa=st.floats(1.001, 300.0), scale=scales, rho=rhos, epsilon=st.floats(1e-8, 1.0), sharp=st.booleans())
@settings(max_examples=60)
def test_t_of_iht_makes_the_worst_recursion_good_enough(kappa, scale, rho, epsilon, sharp):
    L, nu, delta = kappa * scale, scale, 2.0
    for name in ("IHT", "IHT-2SP"):
        r = 0.0 if name == "IHT" else rho
        p = prescribe(name, L, nu, rho=rho, sharp=sharp)
        # with Γ: (L-ν)D_{t-1} >= (L-ρν)D_t, the ρ-mean of the bounds on v_t and w_t
        without_gamma = name == "IHT" or sharp
        worst = worst_distance_factor(kappa, 1 / p.k_ratio) if without_gamma else (L - nu) / (L - rho * nu)
        assert worst <= p.omega * (1 + 1e-12)
        steps = p.n_iter(epsilon, delta)
        distance = delta
        for _ in range(steps - 1):
            distance *= worst
        assert (L - nu) / 2 * distance / (1 - r) <= epsilon * (1 + 1e-9)
        assert p.vanishing(steps, delta) <= epsilon * (1 + 1e-9)
        # the theorems replace log(1/ω) by 1-ω, which costs at most a logarithm of steps; fewer are too few
        logs = max(0.0, math.log((L - nu) * delta / (2 * epsilon * (1 - r))))
        enough = math.ceil(logs / -math.log1p(-p.gap) * (1 - 1e-9))
        assert enough + 1 <= steps <= enough + logs + 2
        if enough > 0:
            assert p.vanishing(enough, delta) > epsilon * (1 - 1e-6)


def test_t_of_iht_as_printed():
    L, nu, delta, epsilon = 5.0, 1.0, 3.0, 1e-4
    steps = prescribe("IHT", L, nu).n_iter(epsilon, delta)
    assert steps == math.ceil(2 * 5 * math.log(4 * 3 / (2 * 1e-4))) + 1
    steps = prescribe("IHT-2SP", L, nu, rho=0.2).n_iter(epsilon, delta)
    assert steps == math.ceil(5 / 0.8 * math.log(4 * 3 / (2 * 1e-4 * 0.8))) + 1
    steps = prescribe("IHT-2SP", L, nu, rho=0.2, sharp=True).n_iter(epsilon, delta)
    assert steps == math.ceil(2 * 5 * math.log(4 * 3 / (2 * 1e-4 * 0.8))) + 1


@pytest.mark.parametrize("name", THEOREMS)
def test_logarithms_are_clipped(name):
    p = prescribe(name, 2.0, 1.0)
    assert p.n_iter(1e12, 1.0, 1.0) == 1
    if p.oracle == "full":
        assert p.n_iter(1e-9, 0.0) == 1
        assert prescribe(name, 3.0, 3.0).n_iter(1e-9, 1e9) == 1
    assert p.n_iter(1e-300, 1e300, 1.0) < 1e5


@given(
    form=growing_forms,
    kappa=st.floats(1.0, 50.0),
    alpha=st.floats(1.05, 5.0),
    rho=rhos,
    scale=scales,
    delta=st.floats(0.0, 100.0),
    gradient=st.floats(0.0, 100.0),
    steps=st.integers(1, 400),
)
@settings(max_examples=100)
def test_bounds_of_hsg_and_hzo_hold_for_the_worst_recursion(form, kappa, alpha, rho, scale, delta, gradient, steps):
    """2η·values <= (1-c)D_{t-1} - (1-√β)D_t + noise_t, D_T >= 0: the largest minimum is a weighted mean."""
    name, sharp = form
    L, nu, d, k = kappa * scale, scale, 500, 9
    C, eta = (alpha - 1) * L, 1 / (alpha * L)
    p = prescribe(name, L, nu, alpha=alpha, rho=rho, sharp=sharp, B=7.0, k=k, d=d)
    sizes = np.ceil(p.tau / p.omega ** np.arange(steps))
    if p.oracle == "batch":
        c, noise = 1 / (alpha * kappa), eta * 7.0 / (C * sizes)
    else:  # the gradient's error is ε_F‖∇R(w)‖²/q, ‖∇R(w)‖² <= 2L²D + 2‖∇R(w̄)‖², and ν/4 goes to the bias
        e = epsilon_F(d, 3 * k, d)
        c = eta * (nu - nu / 4 - 4 * e * L**2 / (C * p.tau))
        assert c == pytest.approx(1 / (2 * alpha * kappa))
        noise = 4 * eta * e * gradient**2 / (C * sizes)
    beta = 1 / p.k_ratio
    r = (1 - c) / (1 - math.sqrt(beta))
    weights = r ** np.arange(steps - 1, -1, -1.0)
    worst = ((1 - math.sqrt(beta)) * r**steps * delta + weights @ noise) / weights.sum() / (2 * eta)
    worst /= 1 - p.rho  # from (1-ρ)R(w_t) + ρR(v_t) to R(w_t)
    assert worst <= p.vanishing(steps, delta, gradient) * (1 + 1e-9)


@given(
    form=growing_forms,
    kappa=kappas,
    alpha=alphas,
    rho=rhos,
    delta=st.floats(0.01, 100.0),
    digits=st.floats(-9, 0),
)
def test_prefactor_and_start_as_the_proof_leaves_them(form, kappa, alpha, rho, delta, digits):
    """ω^T/(1-ω)·(Δ + (4/3)·noise)·1/(2η)/(1-ρ), and T is the smallest that brings it to ε."""
    name, sharp = form
    p = prescribe(name, kappa, 1.0, alpha=alpha, rho=rho, sharp=sharp, k=9, d=500, B=1.0)
    C = (alpha - 1) * kappa
    if p.oracle == "batch":
        noise = p.step * 1.0 / C / p.tau
        assert noise == pytest.approx(1)
    else:
        noise = 4 * p.step * epsilon_F(500, 27, 500) * 3.0**2 / C / p.tau
    expected = p.omega**5 / (1 - p.omega) * (delta + 4 / 3 * noise) / (2 * p.step) / (1 - p.rho)
    assert p.vanishing(5, delta, 3.0) == pytest.approx(expected, rel=1e-6)
    epsilon = 10.0**digits
    steps = p.n_iter(epsilon, delta, 3.0)
    assert p.vanishing(steps, delta, 3.0) <= epsilon * (1 + 1e-9)
    assert steps == 1 or p.vanishing(steps - 1, delta, 3.0) > epsilon * (1 - 1e-9)


def test_iht_2sp_keeps_its_promise():
    """min_t R(w_t) <= R(w̄) + ρ/(1-ρ)(R(w̄) - m) + ε after T steps, on random quadratics over a box."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        d, k_bar = 60, 2
        a, b, box = rng.uniform(1.0, 1.7, d), rng.normal(size=d), rng.uniform(0.2, 1.0)
        p = prescribe("IHT-2SP", a.max(), a.min(), k_bar=k_bar, sharp=True)
        assert p.k < d

        def risk(w, a=a, b=b):
            return float(np.sum(a * (w - b) ** 2) / 2)

        inside = np.clip(b, -box, box)
        gains = a * b**2 - a * (inside - b) ** 2
        w_bar = np.where(gains >= np.sort(gains)[-k_bar], inside, 0.0)
        lowest = float(np.sort(a * b**2)[: d - p.k].sum() / 2)  # min over k-sparse vectors, without the box
        delta, epsilon, w, best = float(w_bar @ w_bar), 1e-3, np.zeros(d), math.inf
        steps = p.n_iter(epsilon, delta)
        for _ in range(steps):
            v = w - p.step * a * (w - b)
            v[np.argsort(-abs(v), kind="stable")[p.k :]] = 0
            w = np.clip(v, -box, box)
            best = min(best, risk(w))
        assert best <= p.bound(steps, risk(w_bar), delta, lower_bound=lowest) + 1e-12
        assert best <= p.factor * risk(w_bar) + epsilon


# ---------------------------------------------------------------- bounds


def test_bounds_of_the_two_forms():
    paper, sharp = (prescribe("IHT-2SP", 4.0, 1.0, rho=0.25, sharp=s) for s in (False, True))
    gone = 10**6
    assert paper.bound(gone, 8.0, 1.0) == pytest.approx(1.5 * 8)
    assert sharp.bound(gone, 8.0, 1.0) == pytest.approx(8 / 0.75)
    for p in (paper, sharp):
        assert p.bound(gone, 8.0, 1.0, lower_bound=0.0) == pytest.approx(8 / 0.75)
        assert p.bound(gone, 8.0, 1.0, lower_bound=8.0) == pytest.approx(8)  # w̄ minimises R over k-sparse vectors
        shifted = p.bound(gone, 8.0 - 100, 1.0, lower_bound=2.0 - 100)
        assert shifted == pytest.approx(p.bound(gone, 8.0, 1.0, lower_bound=2.0) - 100)
    assert prescribe("IHT", 4.0, 1.0).bound(gone, -3.0, 1.0) == pytest.approx(-3)


def test_global_minimiser_case_has_the_papers_prefactors():
    for name, times in (("HSG-HT-2SP", 8), ("HZO-HT-2SP", 16)):
        p = prescribe(name, 6.0, 2.0, alpha=1.5, rho=0.5)
        assert p.prefactor == pytest.approx(times * 1.5**2 * 6 * 3)


def test_smoothing_error_stays():
    args = {"k": 5, "d": 100, "s2": 20, "alpha": 3.0}
    plain = prescribe("HZO-HT", 2.0, 1.0, **args)
    gamma = prescribe("HZO-HT-2SP", 2.0, 1.0, rho=0.25, **args)
    e_mu, e_abs = 4 * 15 * 100, 2 * 100 * 4 * 15 * 20 * (14 * 19 / 99 + 1)
    assert pytest.approx(e_mu * (2 / 1 + 1 / 4) + e_abs / 4) == plain.Z  # C = 2·L
    assert pytest.approx(plain.Z / 0.75) == gamma.Z
    gone = 10**7
    assert plain.bound(gone, 1.0, 1.0, 1.0, mu=1e-2) == pytest.approx(1 + plain.Z * 1e-4)
    assert gamma.bound(gone, 1.0, 1.0, 1.0, mu=1e-2) == pytest.approx(1.5 + gamma.Z * 1e-4)
    assert smoothing_error(100, 15, 20, 2.0, 1.0, 4.0, 0.25) == pytest.approx(gamma.Z)


# ---------------------------------------------------------------- schedules and costs


@given(tau=st.floats(0.0, 1e5), omega=st.floats(0.5, 0.999), t=st.integers(0, 300), cap=st.integers(1, 10**9))
def test_schedule_is_the_ceiling_and_grows(tau, omega, t, cap):
    size = schedule_size(tau, omega, t, cap)
    assert 1 <= size <= cap
    assert size <= schedule_size(tau, omega, t + 1, cap)
    if 1 < size < cap:
        assert size - 1 < tau / omega**t <= size


@pytest.mark.parametrize("t", [10**3, 10**5, 10**9])
def test_schedule_of_huge_t_is_capped(t):
    assert schedule_size(1.0, 0.5, t) == LARGEST
    assert schedule_size(1.0, 0.5, t, cap=2000) == 2000
    assert schedule_total(1.0, 0.5, t, cap=4) == 1 + 2 + 4 * (t - 2)


@given(tau=st.floats(0.0, 1e3), omega=st.floats(0.5, 0.9999), T=st.integers(0, 300), cap=st.integers(1, 10**6))
def test_total_is_the_sum(tau, omega, T, cap):
    assert schedule_total(tau, omega, T, cap) == sum(schedule_size(tau, omega, t, cap) for t in range(T))
    growth = tau / (1 / omega - 1) * (omega**-T - 1)
    assert schedule_total(tau, omega, T) <= (T + growth) * (1 + 1e-9)  # the corollaries' bound


@given(tau=st.floats(1e-3, 1e3), omega=st.floats(0.5, 0.9999), T=st.integers(0, 300), cap=st.integers(1, 10**6))
def test_long_schedules_are_bounded_from_above(tau, omega, T, cap):
    exact = schedule_total(tau, omega, T, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "_EXACT_TERMS", 3)
        bounded = schedule_total(tau, omega, T, cap)
    assert exact <= bounded * (1 + 1e-9)
    assert bounded <= (exact + T + cap / omega) * (1 + 1e-9)


def test_ill_conditioned_totals_are_quick():
    p = prescribe("HZO-HT", 1e9, 1.0, k=10, d=100)
    steps = p.n_iter(1e-3, 1.0, 1.0)
    assert steps > 10**11
    assert p.costs(steps).n_directions >= p.tau * steps
    assert prescribe("HSG-HT", 1e20, 1.0, B=1e40).costs(10**30).n_gradients > 0  # ω rounds to 1


def test_costs():
    p = prescribe("HSG-HT", 4.0, 1.0, B=200.0)
    assert p.tau == pytest.approx(200 / (8 * 4))  # ηB/C with η = 1/8, C = 4
    sizes = [math.ceil(6.25 / (1 - 1 / 32) ** t) for t in range(60)]
    assert p.costs(60) == (60, sum(sizes), 0, 0)
    assert p.costs(60, n_terms=20) == (60, sum(min(s, 20) for s in sizes), 0, 0)
    p = prescribe("HZO-HT", 4.0, 1.0, k=2, d=50, s2=10)
    directions = sum(math.ceil(p.tau / p.omega**t) for t in range(60))
    assert p.costs(60) == (60, 0, directions, directions + 60)
    assert prescribe("IHT", 4.0, 1.0).costs(60, n_terms=100) == (60, 6000, 0, 0)


# ---------------------------------------------------------------- the zeroth-order constants


def sphere_moment(powers):
    """E Π u_i^{p_i} for u uniform on the unit sphere of R^len(powers): Gaussian moments over E‖x‖^Σp."""
    n, total = len(powers), sum(powers)
    gaussian = math.prod(math.prod(range(p - 1, 0, -2)) if p % 2 == 0 else 0 for p in powers)
    return Fraction(gaussian, math.prod(range(n, n + total, 2)))


@pytest.mark.parametrize(("d", "s", "s2"), [(5, 2, 3), (5, 1, 5), (6, 4, 1), (4, 4, 4), (6, 3, 2), (1, 1, 1)])
def test_epsilons_are_twice_the_exact_second_moments(d, s, s2):
    """For linear R, g = d<u,v>u: E‖g_F‖² = Σ_i v_i² d² E[u_i² ‖u_F‖²], here over every support of size s2."""
    supports = list(itertools.combinations(range(d), s2))

    def moment(i):  # d² E[u_i² Σ_{j in F} u_j²]
        total = Fraction(0)
        for support in supports:
            for j in set(support) & set(range(s)):
                powers = [2 * (m == i) + 2 * (m == j) for m in support]
                total += sphere_moment(powers) if i in support else 0
        return d**2 * total / len(supports)

    assert epsilon_F(d, s, s2) == pytest.approx(float(2 * moment(0)))
    if s < d:
        assert epsilon_Fc(d, s, s2) == pytest.approx(float(2 * moment(d - 1)))
        assert epsilon_Fc(d, s, s2) <= epsilon_F(d, s, s2)


@given(d=st.integers(1, 200), s=st.integers(1, 200), s2=st.integers(1, 200), L=scales)
def test_finite_difference_errors_are_covered(d, s, s2, L):
    """|R(w+μu) - R(w) - μ<∇R,u>| <= Lμ²/2, E‖u_F‖² = s/d: at most 2(d/μ)²(Lμ²/2)²s/d is added to E‖g_F‖²."""
    s, s2 = min(s, d), min(s2, d)
    assert epsilon_abs(d, s, s2, L) >= d * s * L**2 / 2
    assert epsilon_mu(d, s, L) >= d * s * L**2 / 4
    assert epsilon_mu(d, s, L) == pytest.approx(s * d * L * L)


def test_full_directions_do_not_feel_the_dimension():
    values = [epsilon_F(d, 30, d) for d in (10**3, 10**6, 10**9)]
    assert max(values) <= 2 * (30 + 2)
    assert min(values) >= 0.99 * max(values)


def test_zoht_step_by_hand():
    e = 2 * 100 / (4 * 22) * (14 * 19 / 99 + 3) + 2
    assert zoht_step(3.0, 2.0, 100, 15, 20, 4) == pytest.approx(2 / ((4 * e + 1) * 9))


def test_first_directions_on_dna():
    path = DATA / "dna" / "dna.npz"
    if not path.exists():
        pytest.skip(f"the dna data set is not at {path}")
    X = np.load(path)["X"][:2000].astype(float)
    nu = 2 * 10 / 3
    L = np.linalg.eigvalsh(X.T @ X / 2000)[-1] / 2 + nu
    assert L / nu == pytest.approx(1.92, abs=0.005)
    taus = [prescribe("HZO-HT", L, nu, k=k, d=540, s2=540).tau for k in (50, 100, 150)]
    assert [math.floor(tau) for tau in taus] == [9291, 18461, 27631]
    assert [schedule_size(tau, 0.9, 0) for tau in taus] == [9292, 18462, 27632]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prescribe("IHT", 1.0, 0.0), r"nu=0.*ridge > 0.*strong_convexity"),
        (lambda: prescribe("IHT", 1.0, -math.inf), r"nu=-inf.*ridge > 0"),
        (lambda: prescribe("IHT", 1e300, 1e-300), r"nu=1e-300"),
        (lambda: prescribe("IHT", math.inf, 1.0), r"L=inf.*by hand"),
        (lambda: prescribe("IHT", math.nan, 1.0), r"L=nan"),
        (lambda: prescribe("IHT", 1.0, 2.0), r"nu=2.0 > L=1.0"),
        (lambda: prescribe("FISTA", 1.0, 1.0), r"IHT-2SP.*'FISTA'"),
        (lambda: prescribe("HSG-HT", 2.0, 1.0, alpha=1.0), r"alpha.*\(1, inf\).*alpha=1"),
        (lambda: prescribe("IHT-2SP", 2.0, 1.0, rho=0.7), r"\(0, 0.5\].*rho=0.7.*sharp=True"),
        (lambda: prescribe("IHT-2SP", 2.0, 1.0, rho=0.0), r"rho=0"),
        (lambda: prescribe("IHT-2SP", 2.0, 1.0, rho=1.0, sharp=True), r"\(0, 1\).*rho=1"),
        (lambda: prescribe("IHT", 2.0, 1.0, k=3, k_bar=4), r"k=3.*k_bar=4"),
        (lambda: prescribe("HZO-HT", 2.0, 1.0, d=10, s2=11), r"d=10.*s2=11"),
        (lambda: prescribe("HZO-HT", 2.0, 1.0, d=10, s2=0), r"s2 must be at least 1"),
        (lambda: prescribe("HSG-HT", 2.0, 1.0, B=-1.0), r"B=-1"),
        (lambda: prescribe("HSG-HT", 2.0, 1.0).costs(3), r"tau=None; give B"),
        (lambda: prescribe("HZO-HT", 2.0, 1.0, d=9).costs(3), r"give d and k"),
        (lambda: prescribe("IHT", 2.0, 1.0).costs(3), r"n_terms=None"),
        (lambda: prescribe("HZO-HT", 2.0, 1.0).n_iter(1e-3, 1.0), r"gradient_norm"),
        (lambda: prescribe("HZO-HT", 2.0, 1.0, d=9, k=1).bound(3, 1.0, 1.0, 1.0), r"mu=None"),
        (lambda: prescribe("IHT-2SP", 2.0, 1.0).bound(3, -1.0, 1.0), r"risk=-1.0.*lower_bound"),
        (lambda: prescribe("IHT-2SP", 2.0, 1.0).bound(3, 1.0, 1.0, lower_bound=2.0), r"lower_bound=2"),
        (lambda: prescribe("IHT", 2.0, 1.0).n_iter(0.0, 1.0), r"epsilon=0"),
        (lambda: prescribe("IHT", 2.0, 1.0).n_iter(1.0, -1.0), r"delta=-1"),
        (lambda: epsilon_F(5, 2, 6), r"s2=6"),
        (lambda: zoht_step(1.0, 0.0, 5, 2, 5, 1), r"nu=0"),
    ],
)
def test_errors_name_the_argument_the_value_and_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_equal_constants_may_be_off_by_rounding():
    assert condition_number(1.0, 1.0 + 1e-15) == 1.0
    assert prescribe("IHT", 1.0, 1.0 + 1e-15).prefactor == 0.0


def test_what_a_theorem_has_no_use_for_is_ignored():
    assert prescribe("IHT", 2.0, 1.0, rho=0.9, alpha=5.0, B=1.0) == prescribe("IHT", 2.0, 1.0)
    assert prescribe("IHT", 2.0, 1.0).tau is None
    assert prescribe("HSG-HT", 2.0, 1.0).tau is None
