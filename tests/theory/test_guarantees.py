"""The theorems as mathematics: run what they prescribe and compare with what they promise.

Every harness here is also given something that must break it: a step that is too long, a k that is too small, a
batch that does not grow.
"""

import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import ellzero as ez
from common import SHARED, support_preserving_sets
from ellzero.risks import (
    Constant,
    Huber,
    LeastSquares,
    Logistic,
    Multinomial,
    Poisson,
    Quadratic,
    Quantile,
    SquaredHinge,
)
from ellzero.sparsity import Coordinates
from ellzero.theory import THEOREMS, guarantee, largest_norm, prescribe, sample_complexity, tradeoff, variance_bound
from ellzero.theory._asked import Asked
from ellzero.theory.forms import prescribe_form, sparsity_needed
from ellzero.theory.parameters import epsilon_F, schedule_size

D = 14
SETS = list(support_preserving_sets(D, np.random.default_rng(0)))
FORMS = ("paper", "sharp", "widest")


def hessian(kappa, rng, d=D):
    """A random symmetric matrix with eigenvalues from 1 to κ."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    values = np.r_[1.0, kappa, rng.uniform(1, kappa, d - 2)]
    return (basis * values) @ basis.T


def make_risk(kind, rng, kappa=1.3, d=D, n=30):
    """A risk of this kind whose κ, over all coordinates, is the given one."""
    if kind == "Quadratic":
        return Quadratic(hessian(kappa, rng, d), rng.standard_normal(d))
    if kind == "LeastSquares":
        values, vectors = np.linalg.eigh(hessian(kappa, rng, d))
        X = np.sqrt(n / 2) * np.linalg.qr(rng.standard_normal((n, d)))[0] @ (vectors * np.sqrt(values)).T
        return LeastSquares(X, 2 * rng.standard_normal(n))
    X, labels = rng.standard_normal((n, d)), rng.integers(0, 2, n)
    make = {"Logistic": Logistic, "Huber": lambda X, y, ridge=0.0: Huber(X, 3.0 * y, ridge=ridge, delta=0.5)}[kind]
    return make(X, labels, ridge=make(X, labels).smoothness.value / (kappa - 1))


def iterates(risk, k, gamma, step, n_iter, x0=None):
    """R(w_1), ..., R(w_T) of w_t = Π_Γ(H_k(w - η∇R(w))), written out."""
    w, values = np.zeros(risk.n_features) if x0 is None else x0, []
    for _ in range(n_iter):
        w = ez.two_step_projection(w - step * risk.gradient(w), k, gamma)
        values.append(risk.value(w))
    return np.array(values)


def best_members(risk, gamma, k_bar=1):
    """For every support of size 1, the best w̄ of Γ there, and the origin; in one dimension clipping is exact."""
    assert k_bar == 1
    members = [np.zeros(risk.n_features)]
    for i in range(risk.n_features):
        unit = np.eye(risk.n_features)[i]
        free = minimize_scalar(lambda t, unit=unit: risk.value(t * unit)).x
        members.append(gamma.project(np.array([free]), np.array([i]))[0] * unit)
    return members


def allowed(g, risk, w_bar):
    """The bound of the theorem for this w̄, from the definition."""
    value, m = risk.value(w_bar), risk.lower_bound
    if not g.theorem.endswith("-2SP"):
        return value + g.epsilon
    if m == 0:
        return (1 + 2 * g.rho if g.form == "paper" else 1 / (1 - g.rho)) * value + g.epsilon
    return value + g.rho / (1 - g.rho) * (value - m) + g.epsilon


def at_its_own_k(form, risk, **given):
    """The guarantee in this form, at the smallest k it asks for."""
    k = getattr_form(guarantee(risk, k=risk.n_features, **given), form).k_required
    assert k <= risk.n_features
    return getattr_form(guarantee(risk, k=k, **given), form)


def getattr_form(g, form):
    return next(f for f in (g, *g.others) if f.form == form)


def shortfall(risk, gamma, g, members, factor=1.0, x0=None):
    """max over w̄ of min_t R(w_t) - bound(w̄): at most 0 if the theorem keeps its promise."""
    values = iterates(risk, g.k, gamma, factor * g.step, g.n_iter, x0)
    return max(values.min() - allowed(g, risk, w_bar) for w_bar in members)


# ---------------------------------------------------------------- the deterministic theorems


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["LeastSquares", "Quadratic", "Logistic", "Huber"])
def test_iht_2sp_keeps_its_promise(name, kind):
    rng = np.random.default_rng(SETS.index(name))
    gamma = support_preserving_sets(D, rng)[name]
    risk = make_risk(kind, rng, kappa=rng.uniform(1.05, 1.3))
    members = best_members(risk, gamma)
    start = ez.hard_threshold(rng.standard_normal(D), 2)
    radius = 1e-9 + max(np.linalg.norm(w) for w in members) + np.linalg.norm(start)
    for form, rho in [("paper", 0.5), ("paper", 0.42), ("sharp", 0.5), ("widest", 0.5)]:
        g = at_its_own_k(form, risk, k_bar=1, constraint=gamma, rho=rho, radius=radius, epsilon=1e-4)
        assert g.holds and g.k == g.k_required and g.k_bar_max >= 1
        assert shortfall(risk, gamma, g, members) <= 1e-12
        assert shortfall(risk, gamma, g, members, x0=start) <= 1e-12


def test_iht_keeps_its_promise_for_two_nonzeros():
    """Γ = R^d, k̄ = 2: every pair of coordinates has its own optimum."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        risk = make_risk("LeastSquares", rng, kappa=1.05 + 0.2 * rng.random(), d=16, n=40)
        members = []
        for S in itertools.combinations(range(16), 2):
            w = np.zeros(16)
            w[list(S)] = np.linalg.lstsq(risk.design.X[:, S], risk.y)[0]
            members.append(w)
        radius = max(np.linalg.norm(w) for w in members)
        for form in ("paper", "widest"):
            g = at_its_own_k(form, risk, k_bar=2, method="IHT", radius=radius, epsilon=1e-5)
            assert g.holds
            assert shortfall(risk, ez.sets.Everywhere(), g, members) <= 1e-12


@pytest.mark.parametrize("kind", ["LeastSquares", "Logistic"])
def test_a_step_that_is_too_long_breaks_the_promise(kind):
    rng = np.random.default_rng(0)
    risk, gamma = make_risk(kind, rng), ez.sets.Everywhere()
    members = best_members(risk, gamma)
    g = at_its_own_k("paper", risk, k_bar=1, method="IHT", radius=2.0, epsilon=1e-6)
    assert shortfall(risk, gamma, g, members) <= 0
    assert shortfall(risk, gamma, g, members, factor=2.5) > 0
    if kind == "LeastSquares":  # the logistic risk of the origin is within every factor of R(w̄)
        bounded = ez.sets.LinfBall(5.0)
        for form in FORMS:
            g = at_its_own_k(form, risk, k_bar=1, constraint=bounded, radius=2.0, epsilon=1e-6)
            assert shortfall(risk, bounded, g, members) <= 0
            assert shortfall(risk, bounded, g, members, factor=4.0) > 0


def test_a_k_that_is_too_small_breaks_the_promise():
    """The paper's counterexample: a fixed point of IHT, κ²k̄/16 above w̄, whatever the number of steps."""
    example = ez.datasets.iht_counterexample(kappa=4, k_bar=4)
    constant = 0.5 * example.b @ example.A @ example.b
    risk = Quadratic(example.A, example.A @ example.b)
    given = {"k_bar": 4, "method": "IHT", "reference": example.reference, "epsilon": 0.1}
    small = example.fixed_point(8)
    g = guarantee(risk, k=8, x0=small, **given)
    failing = next(p for p in g.premises if p.holds is False)
    assert not g.holds and failing.name == "k large enough"
    assert f"k >= {g.k_required}" in failing.remedy
    assert g.k_required == 4 * 16 * 4
    values = iterates(risk, 8, ez.sets.Everywhere(), 0.999 * g.step, 200, small) + constant
    assert values.min() >= g.bound + constant + example.kappa**2 * 4 / 16 - g.epsilon
    # the widest form reaches down to k > κ²k̄ = 64, of 68 coordinates, and brings the same start home
    wide = guarantee(risk, k=66, x0=small, **given).widest
    assert wide.holds and wide.k_required == 65
    assert iterates(risk, 66, ez.sets.Everywhere(), wide.step, wide.n_iter, small).min() <= wide.bound


def test_minimize_with_the_prescribed_numbers():
    rng = np.random.default_rng(1)
    risk, gamma = make_risk("LeastSquares", rng, kappa=1.2, d=40, n=60), ez.sets.L1Ball(1.0)
    w_bar = best_members(risk, gamma)[7]
    g = guarantee(risk, k=12, k_bar=1, constraint=gamma, reference=w_bar, epsilon=1e-6)
    assert g.holds
    res = ez.minimize(risk, 12, gamma, method=ez.preset("IHT-2SP", step=g.step), max_iter=g.n_iter, tol=0)
    assert res.fun <= g.sharp.bound <= g.bound
    assert (res.n_thresholds, res.n_gradients) == (g.n_thresholds, g.n_gradients)


def test_the_guarantee_after_an_adaptive_run():
    """R(x) <= R(w) + <∇R(w), x - w> + L_t/2||x - w||² at v_t and w_t, then L := max L_t."""
    far_below = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = np.r_[1.0, 1.3, rng.uniform(1, 1.3, 38)]
        values[0] = 20.0  # a coordinate that nobody needs, and that rules the global L
        b = rng.standard_normal(40) + 2
        b[0] = 0.0
        risk, gamma = Quadratic(np.diag(values), values * b), ez.sets.LinfBall(0.8)
        w, L, largest, best = np.zeros(40), 0.1, 0.0, math.inf
        for _ in range(120):
            at = risk.at(w)
            while True:
                v = ez.hard_threshold(w - at.gradient / L, 20)
                points = [risk.at(v), risk.at(gamma.project(v))]
                moved = [p.w - w for p in points]
                if all(
                    p.value <= at.value + at.gradient @ m + L / 2 * m @ m + 1e-12
                    for p, m in zip(points, moved, strict=True)
                ):
                    break
                L *= 1.5
            w, largest, best = points[1].w, max(largest, L), min(best, points[1].value)
            L = max(L / 2, 0.1)
        members = best_members(risk, gamma)
        for w_bar in members:
            g = guarantee(risk, k=20, k_bar=1, constraint=gamma, L=largest, nu=1.0, reference=w_bar, epsilon=1e-3)
            assert g.holds and g.n_iter <= 120
            assert best <= g.sharp.bound + 1e-12
        before = guarantee(risk, k=20, k_bar=1, constraint=gamma, nu=1.0)
        assert not before.holds  # κ = 20 beforehand
        far_below += largest < 0.15 * before.L.value
    assert far_below == 4


# ---------------------------------------------------------------- the stochastic theorem


def terms(rng, n, d, size):
    """ξ_i with mean 0 and (1/n)Σ||ξ_i||² = size: R_i(w) = ½||w - b - ξ_i||² has exactly this variance everywhere."""
    xi = rng.standard_normal((n, d))
    xi -= xi.mean(axis=0)
    return xi * math.sqrt(size / np.mean(np.sum(xi**2, axis=1)))


def run_batches(xi, b, k, gamma, step, sizes, rng):
    """min_t R(w_t) of HSG-HT-2SP on R(w) = ½||w - b||² + ½(1/n)Σ||ξ_i||²."""
    w, best, constant = np.zeros(b.size), math.inf, 0.5 * np.mean(np.sum(xi**2, axis=1))
    for size in sizes:
        rows = rng.choice(len(xi), min(size, len(xi)), replace=False)
        w = ez.two_step_projection(w - step * (w - b - xi[rows].mean(axis=0)), k, gamma)
        best = min(best, 0.5 * float((w - b) @ (w - b)) + constant)
    return best


def upper_mean(values, sigmas=3.0):
    """A number that the expectation stays below, with the confidence of so many standard errors."""
    return np.mean(values) + sigmas * np.std(values) / math.sqrt(len(values))


def lower_mean(values, sigmas=3.0):
    return np.mean(values) - sigmas * np.std(values) / math.sqrt(len(values))


@pytest.mark.parametrize(("name", "form"), [("HSG-HT", "paper"), ("HSG-HT-2SP", "paper"), ("HSG-HT-2SP", "sharp")])
def test_hsg_ht_keeps_its_promise_on_average(name, form):
    rng = np.random.default_rng(11)
    d, B, alpha = 60, 30.0, 1.2
    xi, b = terms(rng, 4000, d, B), np.zeros(d)
    b[:2] = 0.6, -0.6
    gamma = ez.sets.Everywhere() if name == "HSG-HT" else ez.sets.L2Ball(0.9)  # ||b|| = 0.85: w̄ = b is in Γ
    p = prescribe_form(form, name, 1.0, 1.0, k=60, k_bar=2, alpha=alpha, B=B, rho=0.5)
    assert p.k_required <= 60
    epsilon = 0.1
    T = p.n_iter(epsilon, float(b @ b))
    sizes = [schedule_size(p.tau, p.omega, t, 4000) for t in range(T)]
    assert sizes[0] < 200 and sizes[-1] > 1000
    # b minimises R over all vectors: m = R(w̄), the paper's case of a global minimiser, whose bound has no factor
    limit, k = B / 2 + epsilon, p.k_required
    runs = [run_batches(xi, b, k, gamma, p.step, sizes, np.random.default_rng(seed)) for seed in range(12)]
    assert upper_mean(runs) <= limit
    # batches that do not grow leave noise behind
    runs = [run_batches(xi, b, k, gamma, p.step, [1] * T, np.random.default_rng(seed)) for seed in range(12)]
    assert lower_mean(runs) > limit


def test_hsg_ht_2sp_on_a_logistic_regression():
    """The numbers of `guarantee`, with the variance that it computes, on a risk with terms."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 12)) / 3
    risk = Logistic(X, X[:, 0] + 0.3 * rng.standard_normal(3000) > 0, ridge=1.0)
    gamma = ez.sets.L1Ball(0.5)
    members = best_members(risk, gamma)
    g = guarantee(risk, k=8, k_bar=1, constraint=gamma, method="HSG-HT-2SP", alpha=1.3, epsilon=0.1).sharp
    assert g.holds and g.k_required <= 8
    for w in rng.standard_normal((20, 12)):
        w = gamma.project(w)
        spread = [np.sum((risk.gradient(w, rows=[i]) - risk.gradient(w)) ** 2) for i in range(0, 3000, 30)]
        assert np.mean(spread) <= variance_bound(risk).value
    runs = []
    for seed in range(8):
        w, best, draw = np.zeros(12), math.inf, np.random.default_rng(seed)
        for t in range(g.n_iter):
            rows = draw.choice(3000, schedule_size(g.tau, g.omega, t, 3000), replace=False)
            w = ez.two_step_projection(w - g.step * risk.gradient(w, rows=rows), 8, gamma)
            best = min(best, risk.value(w))
        runs.append(best)
    assert all(upper_mean(runs) <= allowed(g, risk, w_bar) for w_bar in members)
    total = sum(schedule_size(g.tau, g.omega, t, 3000) for t in range(g.n_iter))
    assert (g.n_gradients, g.n_thresholds, g.n_values) == (total, g.n_iter, 0)


# ---------------------------------------------------------------- the zeroth-order theorem, as stated


def run_directions(b, k, gamma, step, counts, mu, rng, s2):
    """min_t R(w_t) of HZO-HT-2SP on R(w) = ½||w - b||², with directions ±e_i (s2 = 1) or on the sphere (s2 = d)."""
    d = b.size
    w, best = np.zeros(d), math.inf
    for q in counts:
        gradient = w - b
        if s2 == 1:  # (d/μ)(R(w ± μe_i) - R(w))(±e_i) = d(∂_i ± μ/2)e_i, and only the numbers of ± matter
            plus, minus = rng.multinomial(q, np.full(2 * d, 0.5 / d)).reshape(2, d)
            g = d / q * (plus * (gradient + mu / 2) + minus * (gradient - mu / 2))
        else:
            u = rng.standard_normal((q, d))
            u /= np.linalg.norm(u, axis=1, keepdims=True)
            g = d / q * (u @ gradient + mu / 2) @ u
        w = ez.two_step_projection(w - step * g, k, gamma)
        best = min(best, 0.5 * float((w - b) @ (w - b)))
    return best


@pytest.mark.parametrize(
    ("name", "form", "s2", "epsilon", "seeds"),
    [("HZO-HT", "paper", 1, 1e-3, 20), ("HZO-HT-2SP", "sharp", 1, 1e-3, 20), ("HZO-HT-2SP", "paper", 1, 1e-2, 20), ("HZO-HT", "paper", None, 0.4, 3)],
)  # fmt: skip
def test_hzo_ht_as_stated_on_average(name, form, s2, epsilon, seeds):
    d, mu, alpha = (200, 1e-6, 1.3) if s2 else (40, 1e-6, 1.5)
    b = np.zeros(d)
    b[0] = 0.5
    gamma = ez.sets.L2Ball(0.3) if name.endswith("2SP") else ez.sets.Everywhere()  # b lies outside
    w_bar = gamma.project(b)
    p = prescribe_form(form, name, 1.0, 1.0, k=d, k_bar=1, alpha=alpha, d=d, s2=s2 or d)
    k = p.k_required
    assert k <= d
    p = prescribe_form(form, name, 1.0, 1.0, k=k, k_bar=1, alpha=alpha, d=d, s2=s2 or d)
    risk_bar = 0.5 * float((w_bar - b) @ (w_bar - b))
    T = p.n_iter(epsilon, float(w_bar @ w_bar), float(np.linalg.norm(w_bar - b)))
    counts = [schedule_size(p.tau, p.omega, t) for t in range(T)]
    limit = p.factor * risk_bar + epsilon + p.Z * mu**2
    runs = [
        run_directions(b, k, gamma, p.step, counts, mu, np.random.default_rng(seed), s2 or d) for seed in range(seeds)
    ]
    assert upper_mean(runs) <= limit
    if name == "HZO-HT" and s2:  # one direction a step: no iterate comes near
        runs = [
            run_directions(b, k, gamma, p.step, [1] * T, mu, np.random.default_rng(seed), s2 or d)
            for seed in range(seeds)
        ]
        assert lower_mean(runs) > limit


def test_the_gap_in_the_zeroth_order_proof():
    """ε_F bounds E||[g - ∇R]_F||² on a fixed F; on the support that g itself has chosen it does not."""
    d, rng = 1000, np.random.default_rng(0)
    chosen, fixed = [], []
    for _ in range(12):
        u = rng.standard_normal((2000, d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        top = np.argmax(np.abs(u), axis=1)  # supp H_1(-ηg), g = d·u_1·u for R(w) = w_1
        error = d * u[:, 0] * np.take_along_axis(u, top[:, None], axis=1)[:, 0] - (top == 0)
        first = d * u[:, 0] ** 2 - 1
        others = d * u[:, 0] * u[:, 1]
        chosen += (error**2 + np.where(top == 0, 0.0, first**2)).tolist()
        fixed += (first**2 + others**2 + (d * u[:, 0] * u[:, 2]) ** 2).tolist()
    bound = epsilon_F(d, 3, d)
    assert bound == pytest.approx(10, rel=0.01)
    assert upper_mean(fixed) <= bound  # any fixed F of 3 coordinates is fine
    assert lower_mean(chosen) > bound  # F = supp(w_t) ∪ supp(w̄) has 2, and is not
    assert np.mean(chosen) == pytest.approx(14.6, rel=0.1)


def test_hzo_is_never_called_proved():
    risk = Quadratic(np.eye(100), np.ones(100))
    for name in ("HZO-HT", "HZO-HT-2SP"):
        g = guarantee(risk, k=90, k_bar=1, method=name, alpha=1.1, radius=1.0, epsilon=0.1)
        assert not g.proved
        assert "as stated in the paper, not proved" in str(g)
        assert "As stated in the paper" in g._repr_html_()
    assert guarantee(risk, k=90, k_bar=1, method="HSG-HT", radius=1.0, B=1.0).proved


# ---------------------------------------------------------------- k


@pytest.mark.parametrize("method", ["IHT", "IHT-2SP", "HSG-HT"])
def test_k_required_is_the_smallest_that_satisfies_its_own_inequality(method):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 12))
    risk = LeastSquares(X, rng.standard_normal(3000), ridge=3.0)
    g = guarantee(risk, k=8, k_bar=1, method=method, alpha=1.01, B=1.0, radius=1.0)
    asked = Asked(
        risk, method, Coordinates(8), 1, None, 0.5, 1.01, None, None, 1.0, None, 1.0, None, None, None, None, None
    )  # fmt: skip
    for form in (g, *g.others):
        enough = [
            k for k in range(1, 13) if k >= sparsity_needed(form.form, asked.prescribe(form.form, k).k_ratio, 1)
        ]  # fmt: skip
        assert form.k_required == min(enough)
        assert form.k_required < 4 * (risk.smoothness.value / risk.strong_convexity.value) ** 2 + 1
    assert 1 < g.k_required < 12


def test_k_bar_max_is_what_k_covers():
    risk = Quadratic(np.diag(np.linspace(1, 2, 400)), np.ones(400))
    for k in (15, 16, 17, 100):
        g = guarantee(risk, k=k, k_bar=1, method="IHT", radius=1.0)
        assert g.k_bar_max == k // 16
        assert g.widest.k_bar_max == math.ceil(k / 4) - 1
        for form in (g, g.widest):
            for k_bar in range(max(1, form.k_bar_max - 1), min(form.k_bar_max + 2, k)):
                again = getattr_form(guarantee(risk, k=k, k_bar=k_bar, method="IHT", radius=1.0), form.form)
                assert again.holds == (k_bar <= form.k_bar_max)


def test_what_falls_short_is_said_with_what_would_do():
    X = np.random.default_rng(0).standard_normal((200, 100))
    risk = LeastSquares(X, X[:, 0])
    g = guarantee(risk, k=30, k_bar=3, constraint=ez.sets.L1Ball(1.0))
    assert not g.holds and g.best is None
    assert "nothing is promised; what fails: k large enough" in str(g)
    premise = next(p for p in g.premises if p.name == "k large enough")
    assert f"k >= {g.k_required} (out of reach, d = 100)" in premise.remedy
    more = float(premise.remedy.split("which ")[1].split(" more ridge")[0])
    assert guarantee(LeastSquares(X, X[:, 0], ridge=1.02 * more), k=30, k_bar=3, constraint=ez.sets.L1Ball(1.0)).holds
    assert not guarantee(
        LeastSquares(X, X[:, 0], ridge=0.9 * more), k=30, k_bar=3, constraint=ez.sets.L1Ball(1.0)
    ).holds
    whole = guarantee(risk, k=1000, k_bar=3, constraint=ez.sets.L1Ball(1.0))
    assert whole.k == 100
    assert "k = d leaves no sparsity constraint" in str(whole)


# ---------------------------------------------------------------- ρ, T, the forms


def test_rho():
    risk = Quadratic(np.diag(np.linspace(1, 1.5, 50)), np.ones(50))
    given = {"k_bar": 2, "constraint": ez.sets.L2Ball(1.0), "epsilon": 0.01}
    for rho in (0.0, 1.0, -0.1, 1.5):
        with pytest.raises(ValueError, match=r"rho must lie in \(0, 1\), got rho="):
            guarantee(risk, k=20, rho=rho, **given)
    low, high = guarantee(risk, k=20, rho=0.5, **given), guarantee(risk, k=20, rho=0.7, **given)
    assert (low.form, high.form) == ("paper", "sharp")
    assert [g.form for g in low.others] == ["sharp", "widest"]
    assert "only the form 1/(1-ρ) applies" in str(high)
    assert high.sharp is high and low.sharp is low.others[0]
    assert high.factor == pytest.approx(1 / (1 - math.sqrt(0.1)))
    assert guarantee(risk, k=20, rho=0.7, method="HSG-HT-2SP", B=1.0, **given).form == "sharp"
    assert guarantee(risk, k=20, method="IHT", rho=9.0, k_bar=2).form == "paper"  # no Γ, no ρ


def test_t_is_the_corrected_one():
    """κ/(1-ρ)·log(...): neither the κ of the statement nor, for ρ ≠ 1/2, the 2κ of the proof."""
    risk, w_bar = Quadratic(np.diag(np.linspace(1, 1.5, 900)), np.ones(900)), np.zeros(900)
    w_bar[3] = 0.7
    for rho in (0.1, 0.3, 0.5):
        g = guarantee(risk, k=800, k_bar=1, constraint=ez.sets.L2Ball(1.0), rho=rho, epsilon=1e-3, reference=w_bar)
        assert g.n_iter == math.ceil(1.5 / (1 - rho) * math.log(0.5 * 0.49 / (2e-3 * (1 - rho)))) + 1
        beta = 1 / 800
        assert g.sharp.rho == pytest.approx(math.sqrt(beta))
        scale = math.log(0.5 * 0.49 / (2e-3 * (1 - math.sqrt(beta))))
        assert g.sharp.n_iter == math.ceil(3 * scale) + 1
        assert g.widest.n_iter == math.ceil(1.5 / (1 - 1.5 * math.sqrt(beta)) * scale) + 1
        assert g.factor == pytest.approx(1 + 2 * rho)


def test_the_widest_form_is_the_sharp_one_at_4_kappa_squared():
    for kappa, k_bar in [(1.5, 4), (3.0, 2), (7.0, 1)]:
        k = round(4 * kappa**2 * k_bar)
        sharp, widest = (
            prescribe_form(f, "IHT-2SP", kappa, 1.0, k=k, k_bar=k_bar, rho=0.5) for f in ("sharp", "widest")
        )
        for field in ("gap", "rho", "factor", "prefactor", "step"):
            assert getattr(sharp, field) == pytest.approx(getattr(widest, field))
        wider = prescribe_form("widest", "IHT-2SP", kappa, 1.0, k=4 * k, k_bar=k_bar)
        assert wider.gap > sharp.gap  # a larger k is faster


@pytest.mark.parametrize("kappa", [1.0, 1.2, 3.0, 40.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.999])
def test_the_widest_form_contracts_the_worst_recursion(kappa, share):
    """(L-ν)D_{t-1} - L(1-√β)D_t >= 0 is all the proof has: iterate its worst case for T steps."""
    k_bar = 1000
    k = math.ceil(kappa**2 * k_bar / share**2)
    p = prescribe_form("widest", "IHT-2SP", kappa, 1.0, k=k, k_bar=k_bar)
    worst = (1 - 1 / kappa) / (1 - math.sqrt(k_bar / k))
    assert worst <= p.omega * (1 + 1e-12) < 1
    T = p.n_iter(1e-6, 5.0)
    assert (kappa - 1) / 2 / (1 - p.rho) * worst ** (T - 1) * 5.0 <= 1e-6 * (1 + 1e-9)
    assert sparsity_needed("widest", kappa**2, k_bar) > kappa**2 * k_bar


@pytest.mark.parametrize("kappa", [1.0, 1.2, 3.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("method", ["HSG-HT", "HSG-HT-2SP"])
def test_the_widest_form_of_batches_bounds_the_worst_recursion(method, kappa, share):
    """e_t + αL/2(1-√β)D_t <= αL/2((1 - 1/(ακ))D_{t-1} + ω^(t-1)) is all the proof has; the worst e_t are all the same."""
    k_bar, alpha, delta, steps = 100, 1.5, 3.0, 40
    k = math.ceil((alpha * kappa) ** 2 * k_bar / share**2)
    p = prescribe_form("widest", method, kappa, 1.0, k=k, k_bar=k_bar, alpha=alpha, B=2.0)
    root = math.sqrt(k_bar / k)
    contraction = (1 - 1 / (alpha * kappa)) / (1 - root)
    assert contraction < p.omega < 1 and p.k_required == math.floor((alpha * kappa) ** 2 * k_bar * (1 + 1e-12)) + 1
    weights = contraction ** np.arange(steps - 1, -1, -1.0)
    noise = p.omega ** np.arange(steps)
    worst = alpha * kappa / 2 * ((1 - root) * contraction**steps * delta + weights @ noise) / weights.sum()
    worst /= 1 - (root if method.endswith("2SP") else 0.0)
    assert 0 < worst <= p.vanishing(steps, delta) * (1 + 1e-9)
    assert p.vanishing(p.n_iter(1e-3, delta), delta) <= 1e-3 * (1 + 1e-9)
    assert p.tau == pytest.approx(2.0 / (alpha * kappa) / ((alpha - 1) * kappa))


def test_the_widest_form_of_batches_keeps_its_promise():
    """Runs with the batches that it prescribes, on a risk whose noise is large: min_t E R(w_t) over twenty runs."""
    rng = np.random.default_rng(0)
    risk, gamma = make_risk("LeastSquares", rng, kappa=1.1, d=16, n=60), ez.sets.LinfBall(2.0)
    members = best_members(risk, gamma)
    g = guarantee(risk, k=6, k_bar=1, constraint=gamma, method="HSG-HT-2SP", alpha=1.2, epsilon=0.05).widest
    assert g.holds and g.n_iter < 400 and g.k > (1.2 * 1.1) ** 2
    method = ez.preset("HSG-HT-2SP", oracle=ez.MiniBatch(ez.schedules.Geometric(g.tau, g.omega)), step=g.step)
    runs = [ez.minimize(risk, 6, gamma, method, max_iter=g.n_iter, tol=0, rng=seed).history.fun for seed in range(20)]
    best = min(np.mean(runs, axis=0))
    assert max(best - risk.value(w) / (1 - g.rho) - g.epsilon for w in members) <= 0


def test_nu_is_that_of_k_plus_k_bar():
    """Strong convexity at k + k̄ coordinates: a block of 2k that is flat does no harm."""
    risk = LeastSquares(np.random.default_rng(0).standard_normal((40, 30)), np.ones(40))
    g = guarantee(risk, k=10, k_bar=2, constraint=ez.sets.LinfBall(1.0))
    assert ez.theory.restricted_constants(risk, 20).smoothness == g.L
    assert ez.theory.restricted_constants(risk, 12).strong_convexity == g.nu
    assert "at s = 12" in next(p.text for p in g.premises if p.name == "R strongly convex")


# ---------------------------------------------------------------- premises and numbers


def test_where_the_distance_comes_from():
    risk = LeastSquares(np.eye(30), np.ones(30))
    w_bar = np.r_[0.5, np.zeros(29)]
    ask = {"k": 20, "k_bar": 1, "epsilon": 1e-3}
    assert guarantee(risk, method="IHT", **ask).n_iter is None
    assert "n_iter is unknown" in str(guarantee(risk, method="IHT", **ask))
    by_radius = guarantee(risk, method="IHT", radius=0.5, **ask)
    assert by_radius.n_iter == guarantee(risk, method="IHT", reference=w_bar, **ask).n_iter
    assert guarantee(risk, constraint=ez.sets.L2Ball(0.5), **ask).n_iter is not None
    assert by_radius.bound is None and by_radius.promise.startswith("After")
    scaled = LeastSquares(np.diag(np.sqrt(np.linspace(1, 2, 30))), np.ones(30))
    steps = [guarantee(scaled, constraint=ez.sets.LinfBall(r), **ask).n_iter for r in (0.1, 1.0, 10.0)]
    assert steps == sorted(steps) and steps[0] < steps[-1]
    assert guarantee(scaled, k=20, k_bar=1, method="IHT", radius=1.0).epsilon == pytest.approx(
        1e-3 * scaled.value(np.zeros(30))
    )


def test_lower_bounds():
    """m = 0, m = R(w̄) (w̄ the best of all k-sparse vectors), and a certificate in between."""
    rng = np.random.default_rng(0)
    risk = make_risk("LeastSquares", rng, kappa=1.1)
    w_bar = best_members(risk, ez.sets.L2Ball(1.0))[3]
    value = risk.value(w_bar)
    ask = {"k": 10, "k_bar": 1, "constraint": ez.sets.L2Ball(1.0), "reference": w_bar, "epsilon": 1e-3}
    assert guarantee(risk, **ask).bound == pytest.approx(2 * value + 1e-3)
    bounds = [guarantee(risk, lower_bound=share * value, **ask).bound for share in (0, 0.5, 1)]
    assert bounds == pytest.approx([2 * value + 1e-3, 1.5 * value + 1e-3, value + 1e-3])
    with pytest.raises(ValueError, match=r"lower_bound must be at most R\(reference\)"):
        guarantee(risk, lower_bound=1.1 * value, **ask)
    unbounded = Quadratic(np.diag(np.r_[0.0, np.ones(13)]), np.ones(14))
    g = guarantee(unbounded, k=5, k_bar=1, constraint=ez.sets.L2Ball(1.0), nu=0.9)
    assert [p.name for p in g.premises if not p.holds] == ["R bounded below", "k large enough"] or not g.holds
    assert "lower_bound=m" in str(g)


def test_a_bound_above_the_start_says_nothing():
    example = ez.datasets.diagonal_example()
    risk = LeastSquares(example.X, example.y)
    for radius in (0.1, 0.5, 1.0, 2.0):
        for k_bar in (1, 5, 21):
            w_bar, _ = example.optimum(k_bar, radius)
            g = guarantee(risk, k=350, k_bar=k_bar, constraint=ez.sets.LinfBall(radius), reference=w_bar)
            assert g.k_required == 16 * k_bar
            assert "The bound says nothing" in str(g)


@pytest.mark.parametrize(
    ("ask", "name", "found"),
    [
        ({"constraint": ez.sets.Simplex(1.0)}, "Γ preserves supports", "exact budget"),
        ({"constraint": ez.sets.Box(0.1, 1.0)}, "Γ preserves supports", "does not contain 0"),
        ({"reference": np.ones(20)}, "reference is a w̄", "20 nonzeros"),
        ({"reference": np.r_[9.0, np.zeros(19)]}, "reference is a w̄", "outside Γ by 8"),
        ({"x0": np.ones(20)}, "w_0 k-sparse", "20 nonzeros"),
        ({"risk": Poisson(np.eye(20), np.ones(20), ridge=1.0)}, "R smooth", "L = inf"),
        ({"risk": LeastSquares(np.ones((3, 20)), np.ones(3))}, "R strongly convex", "ν = 0"),
        ({"risk": Quadratic(-np.eye(20), np.ones(20)), "lower_bound": -1e9}, "R strongly convex", "ν = -1"),
        ({"L": Constant(2.0, "estimate")}, "R smooth", "estimate"),
        ({"nu": Constant(1.9, "estimate")}, "R strongly convex", "estimate"),
        ({"k_bar": 5}, "k large enough", "falls short by a factor"),
        ({"method": "HSG-HT-2SP", "B": 1e-9, "risk": LeastSquares(10 * np.eye(20), np.arange(20.0)), "alpha": 1.1}, "variance bounded", "the variance at w_0 is"),
        ({"method": "HSG-HT", "constraint": None, "risk": LeastSquares(10 * np.eye(20), np.ones(20)), "alpha": 1.1}, "variance bounded", "no bound B"),
    ],
)  # fmt: skip
def test_each_premise_can_fail(ask, name, found):
    ask = {
        "risk": LeastSquares(np.diag(np.linspace(10, 10.5, 20)), np.ones(20)),
        "k": 10,
        "k_bar": 1,
        "constraint": ez.sets.L2Ball(1.0),
        "method": "IHT-2SP",
        "epsilon": 0.01,
        **ask,
    }
    g = guarantee(**ask)
    premise = next(p for p in g.premises if p.name == name)
    assert not premise.holds and not g.holds
    assert found in premise.text
    assert premise.remedy
    for text in (str(g), g._repr_html_()):
        assert name in text
    good = guarantee(
        LeastSquares(np.diag(np.linspace(10, 10.5, 20)), np.ones(20)),
        k=10,
        k_bar=1,
        constraint=ez.sets.L2Ball(1.0),
        epsilon=0.01,
    )
    assert good.holds


def test_an_estimate_is_never_a_proof():
    risk = LeastSquares(np.diag(np.linspace(10, 10.5, 20)), np.ones(20))
    g = guarantee(risk, k=10, k_bar=1, constraint=ez.sets.L2Ball(1.0), L=Constant(11.1, "estimate"))
    assert not g.holds
    assert "nothing is proved; what rests on an estimate: R smooth" in str(g)
    assert " open " in str(g)


def test_variance():
    risk = LeastSquares(10 * np.eye(20), np.ones(20))
    given = {"k": 18, "k_bar": 1, "method": "HSG-HT-2SP", "alpha": 1.05, "constraint": ez.sets.L2Ball(1.0)}
    computed = guarantee(risk, **given)
    B = variance_bound(risk, 1.0).value
    assert computed.sharp.holds
    assert computed.tau == pytest.approx(B / (1.05 * 10 * 0.05 * 10))
    assert f"{B:.4g} is a bound on Γ already" in str(guarantee(risk, B=10 * B, **given))
    assert "not checked at every w" in str(guarantee(risk, B=0.99 * B, **given))
    assert guarantee(risk, B=B, **{**given, "method": "HSG-HT", "constraint": None}).tau == computed.tau


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("model", [LeastSquares, Huber, Quantile, Logistic, SquaredHinge, Multinomial])
def test_variance_bounds_are_never_wrong(model, intercept, weighted, shifted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 4)) + 1
    signal = X @ [1.0, -1, 0.5, 0]
    y = {LeastSquares: signal, Huber: signal, Quantile: signal}.get(
        model, np.digitize(signal, [-0.3, 0.6] if model is Multinomial else [0.0])
    )
    options = {"sample_weight": rng.uniform(0.1, 3, 25) if weighted else None, "fit_intercept": intercept}
    risk = model(X, y, ridge=0.7, **options, offset=np.resize([0.5, -1.0, 0.0], 25) if shifted else None)
    bound = variance_bound(risk, 2.0).value
    largest = 0.0
    for scale in (0.0, 0.5, 2.0, 2.0, 2.0, 2.0):
        w = rng.standard_normal(risk.n_features)
        w *= scale / np.linalg.norm(w)
        full = risk.gradient(w)
        largest = max(largest, np.mean([np.sum((risk.gradient(w, rows=[i]) - full) ** 2) for i in range(25)]))
    assert largest <= bound <= (600 if model is SquaredHinge else 60) * largest
    assert (variance_bound(risk) is None) == (model in (LeastSquares, SquaredHinge))
    assert variance_bound(Quadratic(np.eye(2), np.ones(2)), 1.0) is None


def test_costs_are_the_corollaries_sums():
    risk = Quadratic(np.eye(100), np.ones(100))
    g = guarantee(risk, k=90, k_bar=1, method="HZO-HT", alpha=1.1, s2=7, radius=1.0, epsilon=0.1, mu=1e-4)
    p = prescribe("HZO-HT", 1.0, 1.0, k=90, k_bar=1, alpha=1.1, d=100, s2=7)
    T = p.n_iter(0.1, 1.0, np.linalg.norm(np.ones(100)) + 1.0)  # ||∇R(w̄)|| <= ||∇R(0)|| + L·radius
    assert (g.n_iter, g.tau, g.omega, g.step) == (T, p.tau, p.omega, p.step)
    directions = sum(schedule_size(p.tau, p.omega, t) for t in range(T))
    assert (g.n_thresholds, g.n_directions, g.n_values, g.n_gradients) == (T, directions, directions + T, 0)
    by_hand = guarantee(
        risk, k=90, k_bar=1, method="HZO-HT", alpha=1.1, s2=7, reference=np.eye(100)[0], epsilon=0.1, mu=1e-4
    )
    assert by_hand.bound == pytest.approx(risk.value(np.eye(100)[0]) + 0.1 + p.Z * 1e-8)
    default = guarantee(risk, k=90, k_bar=1, method="HZO-HT", alpha=1.1, s2=7, radius=1.0, epsilon=0.1)
    assert p.Z * default.mu**2 == pytest.approx(0.1)


def test_a_black_box_has_values_alone():
    risk = ez.risks.BlackBox(lambda w: float(np.sum((w - 0.1) ** 2)), n_features=40)
    ask = {"k": 36, "k_bar": 1, "method": "HZO-HT", "L": 2.0, "nu": 2.0, "alpha": 1.2, "radius": 1.0, "epsilon": 0.1}
    g = guarantee(risk, **ask)
    assert g.holds and g.n_iter is None and "nothing bounds ||∇R(w̄)||" in str(g)
    assert not guarantee(risk, k=36, k_bar=1, method="HZO-HT").holds
    risk.lower_bound = 0.0
    exact = guarantee(Quadratic(2 * np.eye(40), np.full(40, 0.2)), **ask)
    assert guarantee(risk, **ask).n_iter == exact.n_iter  # ||∇R(0)||² = 2L·R(0) for this one
    assert guarantee(risk, s2=30, **{**ask, "k": 8, "k_bar": 1}).n_iter is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"method": "PGD"}, r"theorem covers \(IHT, .*got 'PGD'"),
        ({"method": "IHT"}, r"'IHT' knows no constraint.*IHT-2SP"),
        ({"k_bar": 11}, r"k_bar must be at most k=10, got k_bar=11"),
        ({"k_bar": 0}, r"k_bar must be at least 1"),
        ({"epsilon": 0}, r"epsilon=0"),
        ({"radius": -1.0}, r"radius=-1"),
        ({"alpha": 1.0, "method": "HSG-HT-2SP"}, r"alpha=1"),
        ({"constraint": ez.sets.WeightedL1Ball(np.ones(3), 1.0)}, r"made for 3 coordinates, w has 20"),
        ({"s2": 21, "method": "HZO-HT-2SP"}, r"s2=21"),
        ({"nu": 0.0}, r"nu=0"),
    ],
)  # fmt: skip
def test_errors_name_the_argument_the_value_and_the_remedy(ask, message):
    risk = LeastSquares(np.diag(np.linspace(10, 10.5, 20)), np.ones(20))
    with pytest.raises(ValueError, match=message):
        guarantee(**{"risk": risk, "k": 10, "k_bar": 1, "constraint": ez.sets.L2Ball(1.0), **ask})


def test_several_outputs_and_aliases():
    X = np.random.default_rng(0).standard_normal((30, 4))
    risk = Multinomial(X, np.arange(30) % 3, ridge=5.0)
    g = guarantee(risk, k=6, k_bar=1, constraint=ez.sets.Box(-np.ones(4), np.ones(4)), method="FG-HT-2SP")
    assert g.theorem == "IHT-2SP" and g.holds
    assert guarantee(risk, k=6, k_bar=1, method=ez.preset("IHT-2SP"), radius=1.0).holds
    assert ez.guarantee is guarantee and set(THEOREMS) > {"IHT"}


def test_the_report():
    risk = LeastSquares(np.diag(np.linspace(10, 10.5, 40)), np.ones(40))
    g = guarantee(risk, k=10, k_bar=1, constraint=ez.sets.L2Ball(1.0), epsilon=0.01)
    text = str(g)
    assert text.startswith("ellzero guarantee: IHT-2SP, k = 10, k̄ = 1\n  verdict   every premise holds\n")
    assert f"The best of the first {g.best.n_iter} iterates has R(w_t) <= {g.best.factor:.4g}·R(w̄) + 0.01" in text
    assert max(map(len, text.splitlines())) <= 111
    assert g.best is g.sharp or g.best is g.widest
    html = g._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 2
    assert "<tr><td>k required</td>" in html and "&lt;=" in html
    only = guarantee(risk, k=3, k_bar=1, constraint=ez.sets.L2Ball(1.0), epsilon=0.01)
    assert only.best is only.widest and "only the widest form holds" in str(only)


# ---------------------------------------------------------------- how far Γ reaches


@pytest.mark.parametrize("name", SETS)
def test_largest_norm_is_never_exceeded(name):
    for seed in range(1 if name == "Intersection" else 6):
        rng = np.random.default_rng(seed)
        gamma = support_preserving_sets(D, rng)[name]
        for k in (1, 2, 5, D):
            bound = largest_norm(gamma, k, D)
            if name in ("Everywhere", "NonNegative", "GroupWise mixed"):
                assert bound is None or name == "GroupWise mixed"
            if bound is None:
                continue
            largest = 0.0
            for _ in range(20):
                S = np.sort(rng.choice(D, k, replace=False))
                v = rng.standard_normal(k) * 10.0 ** rng.integers(-1, 3)
                v = np.abs(v) if rng.random() < 0.5 else v
                largest = max(largest, np.linalg.norm(gamma.project(v, S)))
            assert largest <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("gamma", "k", "expected"),
    [
        (ez.sets.L1Ball(2.0), 3, 2.0),
        (ez.sets.L2Ball(2.0), 3, 2.0),
        (ez.sets.LinfBall(2.0), 4, 4.0),
        (ez.sets.LpBall(4, 2.0), 4, 2 * 4 ** (1 / 4)),
        (ez.sets.LpBall(1.5, 2.0), 4, 2.0),
        (ez.sets.Box(-1.0, 3.0), 4, 6.0),
        (ez.sets.Box(-np.arange(6.0), 1.0), 2, math.sqrt(41)),
        (ez.sets.Box(0.0, np.inf), 2, None),
        (ez.sets.SubSimplex(3.0), 2, 3.0),
        (ez.sets.Simplex(3.0), 2, 3.0),
        (ez.sets.WeightedL1Ball([1.0, 2, 3, 4, 5, 0.5], 1.0), 2, 2.0),
        (ez.sets.Ellipsoid([1.0, 2, 3, 4, 5, 0.5], 2.0), 2, 10.0),
        (ez.sets.PackingPolytope(np.eye(6), np.full(6, 2.0)), 4, 4.0),
        (ez.sets.PackingPolytope(np.ones((1, 5)) @ np.eye(5, 6), [1.0]), 2, None),
        (ez.sets.GroupWise(ez.sets.L1Ball(1.0), [0, 0, 1, 1, 2, 2]), 2, math.sqrt(2)),
        (ez.sets.GroupWise(ez.sets.L1Ball(1.0), [0, 0, 1, 1, 2, 2]), 6, math.sqrt(3)),
        (ez.sets.GroupWise({0: ez.sets.LinfBall(1.0), 1: ez.sets.L2Ball(3.0)}, [0, 0, 0, 1, 1, 1]), 3, math.sqrt(11)),
        (ez.sets.GroupWise(ez.sets.L1Ball(1.0), [0, 0, None, 1, 2, 2]), 2, None),
        (ez.sets.Intersection(ez.sets.L1Ball(5.0), ez.sets.LinfBall(1.0)), 4, 2.0),
        (ez.sets.Intersection(ez.sets.NonNegative(), ez.sets.L1Ball(5.0)), 4, 5.0),
        (ez.sets.NonNegative(), 4, None),
    ],
)  # fmt: skip
def test_largest_norm(gamma, k, expected):
    assert largest_norm(gamma, k, 6) == (None if expected is None else pytest.approx(expected))


def test_nothing_is_known_about_a_users_own_set():
    class Twice(ez.sets.L1Ball):
        def project(self, v, support=None):
            return 2 * super().project(v / 2, support)

    assert largest_norm(Twice(1.0), 3, 6) is None


# ---------------------------------------------------------------- the trade-off


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP"])
def test_the_frontier_is_the_smallest_rho(method, form):
    if form == "widest" and method == "HZO-HT-2SP":
        with pytest.raises(ValueError, match="form must be one of paper, sharp for"):
            tradeoff(1.5, 100, method=method, form=form)
        return
    k = 2000
    points = tradeoff(1.5, k, method=method, form=form, alpha=1.5)
    assert [p.k_bar for p in points] == list(range(1, len(points) + 1))
    assert all(p.rho < q.rho and p.factor < q.factor for p, q in itertools.pairwise(points))
    if form == "widest":
        assert len(points) == math.ceil(k / (1.5 * (1.0 if method == "IHT-2SP" else 1.5)) ** 2) - 1
        return
    for p in points:
        given = {"k": k, "k_bar": p.k_bar, "alpha": 1.5, "sharp": form == "sharp"}
        assert prescribe(method, 1.5, 1.0, rho=p.rho, **given).k_required <= k
        assert prescribe(method, 1.5, 1.0, rho=0.99 * p.rho, **given).k_required > k
        assert p.factor == pytest.approx(prescribe(method, 1.5, 1.0, rho=p.rho, **given).factor)
    assert (
        prescribe(method, 1.5, 1.0, k=k, k_bar=len(points) + 1, alpha=1.5, rho=0.5, sharp=form == "sharp").k_required
        > k
    )


def test_bounds_along_the_frontier():
    values = [3.0, 2.0, 1.5]
    paper, sharp = (tradeoff(2, 480, form=form, values=values) for form in ("paper", "sharp"))
    assert [p.bound for p in paper] == pytest.approx([p.factor * v for p, v in zip(paper, values, strict=True)])
    assert [p.bound for p in sharp] == pytest.approx([v / (1 - p.rho) for p, v in zip(sharp, values, strict=True)])
    tight = tradeoff(2, 480, values=lambda k_bar: values[min(k_bar, 3) - 1], lower_bound=1.0)
    assert len(tight) == 30
    assert tight[0].bound == pytest.approx(3 + tight[0].rho / (1 - tight[0].rho) * 2)
    assert math.isnan(tradeoff(2, 480)[0].bound)
    assert tradeoff(2, 15) == []
    with pytest.raises(ValueError, match=r"only Γ costs a factor"):
        tradeoff(2, 15, method="IHT")


# ---------------------------------------------------------------- random designs


def test_sample_complexity_has_the_papers_numbers():
    need = sample_complexity(k_bar=3, d=10**6, eigenvalues=(0.5, 2.0))
    assert need.k == 324 * 4**2 * 3
    assert (need.nu, need.L, need.kappa) == (0.25, 9.0, 36.0)  # σ_min/2 and 4.5σ_max
    assert need.s == 2 * need.k
    assert need.n_paper == pytest.approx(4 * need.s * math.log(10**6) / 0.5)
    same = sample_complexity(k_bar=3, d=8, covariance=np.diag([0.5, 2, 1, 1, 1, 1, 1, 1]))
    assert (same.k, same.s) == (need.k, 8)  # no more than all coordinates
    less = sample_complexity(k_bar=3, d=10**6, eigenvalues=(0.5, 2.0), slack=0.1)
    assert less.k < need.k / 10 and less.n / less.s > need.n / need.s
    assert sample_complexity(k_bar=3, d=10**6, method="HSG-HT").k == 4 * need.k // 16
    with pytest.raises(ValueError, match="HZO-HT"):
        sample_complexity(k_bar=3, d=10, method="HZO-HT")
    with pytest.raises(ValueError, match="nu must be positive"):
        sample_complexity(k_bar=3, d=10, eigenvalues=(0.0, 1.0))


def test_so_many_rows_are_enough():
    """200 Gaussian designs with the prescribed n: the constants hold in all but a share of `failure`, and fewer rows fail."""
    d, correlation = 9, 0.2
    sigma = correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.linalg.cholesky(sigma)
    low, high = np.linalg.eigvalsh(sigma)[[0, -1]]
    s, slack, failure = 2, 0.5, 0.05
    t = math.sqrt(2 * math.log(2 * math.comb(d, s) / failure))
    n = math.ceil(((math.sqrt(s) + t) / slack) ** 2)
    pairs = np.array(list(itertools.combinations(range(d), s)))

    def failures(n):
        rng, failed = np.random.default_rng(0), 0
        for _ in range(200):
            X = rng.standard_normal((n, d)) @ root.T
            H = 2 * X.T @ X / n
            values = np.linalg.eigvalsh(H[pairs[:, :, None], pairs[:, None, :]])
            failed += values.min() < 2 * (1 - slack) ** 2 * low or values.max() > 2 * (1 + slack) ** 2 * high
        return failed

    assert failures(n) <= 200 * failure
    assert failures(n // 12) > 200 * failure
    need = sample_complexity(1, d=d, eigenvalues=(low, high), slack=slack, failure=failure)
    assert need.s == d and need.n == math.ceil(((math.sqrt(d) + math.sqrt(2 * math.log(2 / failure))) / slack) ** 2)


# ---------------------------------------------------------------- the paper's data


def test_the_numbers_of_dna():
    path = SHARED / "data" / "dna" / "dna.npz"
    if not path.exists():
        pytest.skip(f"the dna data set is not at {path}")
    data = np.load(path)
    risk = Multinomial(data["X"][:2000].astype(float), data["y"][:2000], ridge=2 * 10 / 3)
    g = guarantee(risk, k=50, k_bar=1, constraint=ez.sets.L2Ball(0.5), method="HZO-HT-2SP", mu=1e-6)
    assert g.L.value / g.nu.value == pytest.approx(1.917428, rel=1e-6)
    assert g.tau == pytest.approx(9291.95, abs=0.01)
    full = guarantee(risk, k=50, k_bar=1, constraint=ez.sets.GroupWise(ez.sets.L2Ball(0.5), np.repeat(range(3), 180)))
    assert full.holds and full.k_bar_max >= 3
    batches = guarantee(risk, k=50, k_bar=1, constraint=ez.sets.L2Ball(0.5), method="HSG-HT-2SP", B=1e5)
    assert "is a bound on Γ already" in str(batches)


def example(name):
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_premises_of_the_papers_experiments(capsys, tmp_path):
    found = example("premises_of_the_experiments").main(tmp_path)
    printed = capsys.readouterr().out
    assert printed.count("skipped, there is no") == 4
    assert [(g.theorem, g.k, g.k_required, g.k_bar_max, g.holds) for g in found] == [
        ("IHT", 50, 16, 3, True), ("IHT-2SP", 50, 16, 3, True), ("IHT", 350, 16, 21, True), ("IHT-2SP", 350, 16, 21, True),
    ]  # fmt: skip
    if (SHARED / "data" / "hsi_2021_2022").is_dir():
        cases = example("premises_of_the_experiments")
        market = next(c for c in cases.index_tracking(SHARED / "data") if not isinstance(c, str) and "HSI" in c.title)
        g = guarantee(market.risk, 15, 1, market.constraint, "IHT-2SP")
        failing = next(p for p in g.premises if not p.holds)
        assert failing.name == "k large enough" and "better bounds could not help" in failing.text
        assert 1300 < g.L.value / g.nu.value < 1600


def test_pictures_of_the_theory(capsys):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    frontier, designs = example("tradeoff_frontier"), example("sub_gaussian_design")
    frontier.draw_factors(ax, k=500)
    frontier.draw_regression(Figure().subplots(), d=30)
    assert "experiment" not in capsys.readouterr().out
    designs.print_needs()
    assert "k = 324κ(Σ)²k̄" in capsys.readouterr().out
    assert designs.solved(200, 50, 2) == 1.0
    assert designs.solved(8, 50, 2) == 0.0
    assert len(ax.lines) >= 3
