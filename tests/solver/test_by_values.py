"""Black boxes by their values alone: probes, models, noise, queries inside Γ."""

import itertools
import math
import warnings

import numpy as np
import pytest

import ellzero as ez
from ellzero._core.walsh import Walsh
from ellzero.solver.by_values.noise import noise_of
from ellzero.solver.by_values.recovery import recover
from ellzero.solver.result import Counts


def idle(d, seed, size=5):
    """Σ_{i in S}(w_i - t_i)²: all other inputs do nothing."""
    rng = np.random.default_rng([seed, d])
    S, t = np.sort(rng.choice(d, size, replace=False)), rng.uniform(0.5, 3, size) * rng.choice([-1, 1], size)
    return (lambda w: float(np.sum((w[S] - t) ** 2))), S, float(t @ t)


def quad(w):
    return float(np.sum((w[:3] - 1) ** 2))


def water_level(t, S):
    """min Σ(w - t)² over w >= 0 on S with Σw = 1, Σt >= 1: t less what all of them give up alike."""
    a = np.sort(t[S])[::-1]
    over = (np.cumsum(a) - 1) / np.arange(1, a.size + 1)
    level = over[np.flatnonzero(a > over).max()]
    return float(np.sum((np.maximum(t[S] - level, 0) - t[S]) ** 2))


# Probes.


@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 20])
def test_walsh_rows_are_orthogonal_and_tell_any_vector(d):
    walsh, g = Walsh(d, [3]), np.random.default_rng(d).standard_normal(d)
    rows = walsh.rows(0, walsh.n_rows)
    assert set(np.unique(rows)) <= {-1.0, 1.0}
    assert np.array_equal(rows.T @ rows, walsh.n_rows * np.eye(d))
    assert np.array_equal(rows.sum(axis=0), np.zeros(d))  # so a constant disturbs nothing
    weights = np.arange(walsh.n_rows, dtype=float)
    assert np.allclose(walsh.combine(weights), weights @ rows)
    assert np.allclose(walsh.apply(g, walsh.n_rows), rows @ g)
    assert np.allclose(walsh.solve(rows @ g + 5.0), g)


def test_walsh_fills_in_what_failed():
    walsh, g = Walsh(20, [1]), np.random.default_rng(0).standard_normal(20)
    values = walsh.apply(g, 64) + 2.0
    values[[1, 5, 40]] = np.nan
    assert np.allclose(walsh.solve(values), g)
    assert walsh.solve(np.full(64, np.nan)) is None


def test_few_slopes_recover_a_sparse_gradient():
    d, walsh = 1000, Walsh(1000, [0])
    g = np.zeros(d)
    g[[3, 70, 500, 900]] = [1.0, -2.0, 0.5, 3.0]
    found = recover(walsh, walsh.apply(g, 80) + 7.0)
    assert np.allclose(found.gradient, g, atol=1e-9)
    assert set(found.significant()) == {3, 70, 500, 900}
    assert found.unexplained < 1e-12


def test_entries_that_mattered_before_need_hardly_more_slopes_than_they_are():
    d, walsh, rng = 1000, Walsh(1000, [0]), np.random.default_rng(0)
    S, g = np.sort(rng.choice(d, 30, replace=False)), np.zeros(d)
    g[S] = rng.standard_normal(30)
    slopes = walsh.apply(g, 54) + 7.0
    assert recover(walsh, slopes).unexplained > 0.1
    known = recover(walsh, slopes, likely=S)
    assert np.allclose(known.gradient, g, atol=1e-8)
    assert known.unexplained < 1e-12
    wrong = recover(walsh, slopes, likely=np.setdiff1d(np.arange(60), S)[:30])  # no harm in a wrong guess
    assert wrong.unexplained > 0.1


def test_slopes_of_noise_alone_are_not_believed():
    walsh, noise = Walsh(500, [0]), np.random.default_rng(1)
    false = [recover(walsh, noise.standard_normal(64), 1.0).significant().size for _ in range(50)]
    assert sum(n > 0 for n in false) <= 5


def test_gradients_cost_about_s_log_d_values():
    f, S, _ = idle(2000, 0)
    counts, risk = Counts(), ez.risks.BlackBox(f, 2000)
    oracle = ez.SparseProbes().bind(risk, counts, [0])
    g = oracle(risk.at(np.zeros(2000)), 0)
    assert counts.n_values < 150
    assert set(np.flatnonzero(np.abs(g) > 1e-3)) == set(S)


@pytest.mark.parametrize("d", [3, 5, 7, 8, 15, 20, 63])
def test_dense_gradients_of_few_inputs(d):
    """One slope that is kept back may fit by chance: where all of an orthogonal set are at hand, these decide."""
    wrong = 0
    for seed in range(20):
        t = np.random.default_rng([seed, d]).standard_normal(d)
        risk, counts = ez.risks.BlackBox(lambda w, t=t: float(np.sum((w - t) ** 2)), d), Counts()
        with risk.session(counts):
            g = ez.SparseProbes().bind(risk, counts, [seed])(risk.at(np.zeros(d)), 0)
        wrong += np.linalg.norm(g + 2 * t) > 0.1 * np.linalg.norm(2 * t)
    assert wrong <= (0 if d < 16 else 5)


@pytest.mark.parametrize(("options", "match"), [({"mu": 0.0}, "mu"), ({"max_probes": 2}, "max_probes")])
def test_probes_refuse_nonsense(options, match):
    with pytest.raises(ValueError, match=match):
        ez.SparseProbes(**options).bind(ez.risks.BlackBox(quad, 5), Counts(), [0])


# Noise.


@pytest.mark.parametrize("sigma", [1e-6, 0.1, 30.0])
def test_difference_tables_measure_noise(sigma):
    rng, x = np.random.default_rng(0), 1e-3 * np.arange(8)
    measured = [noise_of(np.exp(x) + sigma * rng.standard_normal(8)) for _ in range(200)]
    assert 0.5 * sigma < np.median(measured) < 1.5 * sigma


def test_smooth_values_have_no_noise():
    assert noise_of(np.exp(1e-6 * np.arange(8))) < 1e-14
    assert noise_of(np.full(8, 3.0)) == 0.0
    assert noise_of(np.array([1.0, np.nan])) == 0.0
    gaps = np.arange(8.0)
    gaps[[0, 5]] = np.nan
    assert noise_of(gaps) == 0.0  # a line with failures is a line


def test_gaps_leave_the_longest_part_of_a_table():
    values = np.random.default_rng(0).standard_normal(12)
    gap = np.concatenate([values[:2], [np.nan], values[2:]])
    assert noise_of(gap) == noise_of(values[2:])
    assert noise_of(np.append(gap, [np.nan, np.nan])) == noise_of(values[2:])


def test_the_result_tells_the_noise():
    errors = np.random.default_rng(0)
    res = ez.minimize(
        ez.risks.BlackBox(lambda w: quad(w) + 0.05 * errors.standard_normal(), 50), 3, max_queries=2000, rng=0
    )
    assert 0.03 < res.noise.level < 0.08
    assert not res.noise.exact
    assert res.noise.resolved
    assert "in each value, differences of length" in repr(res)
    assert quad(res.x) < 1e-3
    exact = ez.minimize(ez.risks.BlackBox(quad, 50), 3, max_queries=500, rng=0)
    assert exact.noise.exact
    assert "noise" not in repr(exact)


def test_noise_that_hides_everything_is_warned_of():
    errors = np.random.default_rng(0)
    risk = ez.risks.BlackBox(lambda w: 1e-6 * quad(w) / (1 + w @ w) + errors.standard_normal(), 50)
    with pytest.warns(UserWarning, match=r"values have errors of .* nothing stood out"):
        res = ez.minimize(risk, 3, max_queries=300, rng=0)
    assert not res.noise.resolved


def with_errors(f, sigma, d, n, seed, k=3):
    """A run on f with normal errors: its answer, and whether it warned."""
    errors = np.random.default_rng([seed, 1])
    risk = ez.risks.BlackBox(lambda w: f(w) + sigma * errors.standard_normal(), d)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = ez.minimize(risk, k, max_queries=n, rng=seed)
    return res, any("nothing stood out" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("d", "n", "sigma"), [(50, 60, 0.05), (50, 60, 0.3), (20, 40, 0.05), (20, 40, 0.3), (10, 40, 0.3), (200, 100, 0.05)]
)
def test_noise_in_small_budgets(d, n, sigma):
    """f(0) = 3: the three inputs are found by most runs, and the others say that they were not."""
    runs = [with_errors(quad, sigma, d, n, seed) for seed in range(8)]
    assert np.median([quad(res.x) for res, _ in runs]) < 0.02
    for res, warned in runs:
        assert warned or quad(res.x) < 2.7
        assert 0.3 * sigma < res.noise.level < 3 * sigma
        assert not res.noise.exact


@pytest.mark.parametrize("d", [5, 50])
@pytest.mark.parametrize("n", [5, 8, 13, 20, 30])
def test_hardly_any_values_are_never_taken_for_more(d, n):
    """With so few of them the start is kept as often as not, but noise is told, and no answer is praised without need."""
    for seed in range(5):
        res, warned = with_errors(quad, 0.3, d, n, seed)
        assert not res.noise.exact
        assert warned or quad(res.x) < 2.7


@pytest.mark.parametrize("n", [40, 100, 400, 1500])
@pytest.mark.parametrize("d", [5, 60])
def test_noise_alone_shows_nothing(d, n):
    """Whoever chooses the luckiest of many points has to ask for it again before it counts."""
    for seed in range(6):
        res, warned = with_errors(lambda w: 0.0, 1.0, d, n, seed)
        assert warned
        assert not res.noise.resolved


def test_a_small_gain_is_shown_by_further_values():
    """What is to be had is as large as the error of a single value."""
    runs = [with_errors(lambda w: 0.5 * quad(w), 1.5, 30, 1500, seed) for seed in range(6)]
    assert sum(res.noise.resolved and not warned for res, warned in runs) >= 5


def test_errors_that_depend_on_the_point_alone():
    """Asked again they are the same: a table shows them, and repetition proves nothing."""

    def f(w):
        place = int(abs(float(w @ np.arange(1.0, 31.0))) * 1e9) % 2**32
        return quad(w) + 0.05 * np.random.default_rng(place).standard_normal()

    res = ez.minimize(ez.risks.BlackBox(f, 30), 3, max_queries=300, rng=0)
    assert 0.01 < res.noise.level < 0.2
    assert quad(res.x) < 0.1


@pytest.mark.parametrize("size", [1e-200, 1e160])
def test_the_noise_of_extreme_values(size):
    values = size * (3.0 + 0.1 * np.random.default_rng(0).standard_normal(7))
    assert 0.02 < noise_of(values) / size < 0.5


@pytest.mark.parametrize(("d", "n"), [(5, 15), (20, 40), (50, 60)])
def test_exact_functions_in_small_budgets(d, n):
    left = []
    for seed in range(8):
        f, _, start = idle(d, seed, size=3)
        res = ez.minimize(ez.risks.BlackBox(f, d), 3, max_queries=n, rng=seed)
        assert res.noise.exact
        left.append(f(res.x) / start)
    assert np.median(left) < 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_differences_do_not_leave_the_parabola(seed):
    """Four wells in a plain: far differences see nothing but noise, which is no reason for longer ones."""
    S, t, errors = [3, 30, 60, 90], np.array([1.5, -1.0, 0.8, -1.8]), np.random.default_rng(seed)
    truth = lambda w: float(np.sum(1 - np.exp(-((w[S] - t) ** 2) / 2)))  # noqa: E731
    size = 0.02 * truth(np.zeros(100))
    risk = ez.risks.BlackBox(lambda w: truth(w) + size * errors.standard_normal(), 100)
    res = ez.minimize(risk, 4, max_queries=2000, rng=seed)
    assert truth(res.x) < 0.02 * truth(np.zeros(100))
    assert res.noise.mu < 5


def test_noise_that_is_not_there_at_the_start():
    """Errors in proportion to the length of w: where they begin, they are measured anew."""
    f, _, f0 = idle(200, 3)
    errors = np.random.default_rng(0)
    risk = ez.risks.BlackBox(lambda w: f(w) + 0.03 * f0 * np.linalg.norm(w) * errors.standard_normal(), 200)
    res = ez.minimize(risk, 5, max_queries=3000, rng=0)
    assert not res.noise.exact
    assert 0.01 * f0 < res.noise.level < f0
    assert f(res.x) < 0.2 * f0


def test_rechecks_leave_alone_what_is_known_better():
    f, _, f0 = idle(50, 0, 2)
    left = []
    for seed in range(4):
        errors = np.random.default_rng(seed)
        risk = ez.risks.BlackBox(lambda w, e=errors: f(w) + 0.2 * f0 * e.standard_normal(), 50, recheck=(3, 10))
        left.append(f(ez.minimize(risk, 2, max_queries=3000, rng=seed).x) / f0)
    assert np.median(left) < 1e-5


def test_noise_that_begins_late_claims_nothing():
    claims = 0
    for seed in range(8):
        errors, asked = np.random.default_rng(seed), itertools.count()
        f = lambda w, errors=errors, asked=asked: 1.0 + (0.3 * errors.standard_normal() if next(asked) > 15 else 0)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            claims += ez.minimize(ez.risks.BlackBox(f, 50), 5, max_queries=500, rng=seed).noise.resolved
    assert claims == 0


def test_a_simulator_that_is_noisy_and_fails():
    f, S, start = idle(200, 1)
    dice = np.random.default_rng(5)

    def asked(w):
        if dice.random() < 0.1:
            raise RuntimeError("did not converge")
        return f(w) + 0.05 * dice.standard_normal()

    res = ez.minimize(ez.risks.BlackBox(asked, 200, on_failure="drop"), 5, max_queries=2000, rng=0)
    assert set(res.support) == set(S)
    assert f(res.x) < 1e-3 * start


# Inputs that do nothing.


@pytest.mark.parametrize(("d", "k", "seed"), [*itertools.product([200], [5, 10], range(3)), (1000, 5, 0)])
def test_inputs_that_do_nothing(d, k, seed):
    f, S, start = idle(d, seed)
    res = ez.minimize(ez.risks.BlackBox(f, d), k, max_queries=20_000, rng=seed)
    assert f(res.x) <= 1e-6 * start
    assert set(S) <= set(res.support)
    assert res.n_values + res.n_monitor < 6 * d


def test_a_wrong_start_leaves_its_place():
    f, S, _ = idle(100, 0, size=3)
    wrong = np.setdiff1d(np.arange(100), S)[:3]
    x0 = np.zeros(100)
    x0[wrong] = 1.0
    res = ez.minimize(ez.risks.BlackBox(f, 100), 3, x0=x0, max_queries=5000, rng=0)
    assert res.support.tolist() == S.tolist()


def test_noisy_inputs_that_do_nothing():
    f, S, start = idle(200, 2)
    errors = np.random.default_rng(0)
    risk = ez.risks.BlackBox(lambda w: f(w) + 0.01 * start * errors.standard_normal(), 200)
    res = ez.minimize(risk, 5, max_queries=5000, rng=0)
    assert set(res.support) == set(S)


def test_correlated_columns():
    """A quadratic model of the support and its rivals tells neighbours from each other."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((100, 150))
    X = Z.copy()
    for j in range(1, 150):
        X[:, j] = 0.7 * X[:, j - 1] + math.sqrt(0.51) * Z[:, j]
    truth = np.zeros(150)
    truth[[10, 40, 80]] = [1.0, -1.5, 2.0]
    y = X @ truth
    res = ez.minimize(ez.risks.BlackBox(lambda w: float(np.mean((X @ w - y) ** 2)), 150), 3, max_queries=3000, rng=0)
    assert res.support.tolist() == [10, 40, 80]
    assert res.fun < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_was_right_is_followed_to_its_end(seed):
    """An ill-conditioned quadratic of 15 inputs has 136 unknowns; the least of its model is far from where it was made."""
    rng = np.random.default_rng(seed)
    S, root = rng.choice(300, 15, replace=False), rng.random((15, 15))
    B, x0 = root.T @ root / 15, 10 * rng.standard_normal(300)

    def f(w):
        return float(w[S] @ B @ w[S])

    res = ez.minimize(ez.risks.BlackBox(f, 300), 300, x0=x0, max_queries=1000, rng=seed)
    assert res.fun <= 1e-3 * f(x0)


def test_a_first_step_in_few_dimensions_waits_for_no_whole_gradient():
    """64 inputs matter: a step along a rough gradient comes before all of its 128 slopes."""
    t = np.random.default_rng(0).uniform(0.5, 3, 64)
    spent = []

    def f(w):
        return float(np.sum((w - t) ** 2))

    def first(intermediate_result):
        spent.append(intermediate_result.n_values + intermediate_result.n_monitor)
        if intermediate_result.fun < f(np.zeros(64)):
            raise StopIteration

    ez.minimize(ez.risks.BlackBox(f, 64), 3, max_queries=1000, rng=0, callback=first)
    assert spent[-1] <= 40


def test_an_exact_function_is_known_by_a_glance():
    res = ez.minimize(ez.risks.BlackBox(quad, 50), 3, max_queries=500, rng=0)
    assert res.noise.exact
    assert res.noise.n_values <= 8


# Inside Γ.

SETS = [
    ez.sets.Simplex(1.0), ez.sets.SubSimplex(1.0), ez.sets.Box(0.0, 0.4), ez.sets.Box(-0.3, 0.6), ez.sets.L1Ball(0.8),
    ez.sets.L2Ball(0.3), ez.sets.GroupWise(ez.sets.L1Ball(0.4), groups=np.repeat(np.arange(10), 2)),
]  # fmt: skip
METHODS = [
    "auto",
    ez.Method(oracle=ez.ZerothOrder(20), step=0.1),
    ez.Method(oracle=ez.ZerothOrder(20, mu=1e-4, central=True, support_size=5), step=0.1),
    ez.Method(oracle=ez.SparseProbes(), step="search"),
]


@pytest.mark.parametrize("method", METHODS, ids=["auto", "forward", "central", "probes"])
@pytest.mark.parametrize("gamma", SETS, ids=repr)
def test_queries_stay_inside(gamma, method):
    t = np.zeros(20)
    t[[1, 4, 9]] = [0.5, 0.3, 0.2]

    def f(w):
        assert gamma.violation(w) <= 1e-12
        return float(np.sum((w - t) ** 2))

    res = ez.minimize(ez.risks.BlackBox(f, 20, inside=True), 3, gamma, method, max_queries=600, rng=0)
    assert res.violation <= 1e-12
    if method == "auto":  # the nearest sparse member is the answer
        assert res.fun <= f(ez.euclidean_projection(t, 3, gamma)) + 1e-9


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("d", [3, 4, 5, 6, 7])
def test_few_inputs_in_a_box(d, inside):
    """One of three inputs is held by its bound: a gradient that knows that one alone leads nowhere."""
    risk = ez.risks.BlackBox(lambda w: float(np.sum((w[:3] - [0.7, 0.4, -1]) ** 2)), d, inside=inside)
    for seed in range(10):
        res = ez.minimize(risk, 3, ez.sets.Box(0.0, 1.0), max_queries=3000, rng=seed)
        assert res.fun == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("d", [6, 20, 30])
def test_inside_a_simplex(d):
    for seed in (*range(6), 15, 37, 40, 43):
        rng = np.random.default_rng([9, d, seed])
        S, t = np.sort(rng.choice(d, 3, replace=False)), np.zeros(d)
        t[S] = rng.uniform(0.35, 0.9, 3)
        risk = ez.risks.BlackBox(lambda w, t=t: float(np.sum((w - t) ** 2)), d, inside=True)
        res = ez.minimize(risk, 3, ez.sets.Simplex(1.0), max_queries=3000, rng=seed)
        assert res.fun <= water_level(t, S) + 1e-4


def test_values_of_two_digits():
    for seed in range(30):
        f, _, f0 = idle(5 + seed % 3, seed)
        res = ez.minimize(
            ez.risks.BlackBox(lambda w, f=f: float(f"{f(w):.2g}"), 5 + seed % 3), 5, max_queries=2000, rng=seed
        )
        assert f(res.x) < 0.5 * f0


def test_inside_a_box_off_zero_and_with_noise():
    gamma, errors = ez.sets.Box(0.2, 1.0), np.random.default_rng(0)

    def f(w):
        assert gamma.violation(w) <= 1e-12
        return float(np.sum((w - 0.5) ** 2)) + 1e-3 * errors.standard_normal()

    res = ez.minimize(ez.risks.BlackBox(f, 10, inside=True), 10, gamma, max_queries=2000, rng=0)
    assert np.abs(res.x - 0.5).max() < 0.05


def test_inside_has_to_know_where():
    with pytest.raises(ValueError, match=r"inside=True .* risk.within"):
        ez.risks.BlackBox(quad, 5, inside=True).queries(np.zeros(5))
    bound = ez.risks.BlackBox(quad, 5, inside=True).within(ez.sets.Box(0.0, 1.0))
    points = bound.queries(np.zeros(5))
    assert points.min() >= 0.0
    values = np.array([quad(w) for w in points])
    moves = points[1:] / 1e-6
    assert np.allclose(bound.estimate(values), 5 / 100 * moves.T @ ((values[1:] - values[0]) / 1e-6))
    assert (bound.estimate(values)[:3] < 0).all()
    assert (np.linalg.norm(moves, axis=1) <= 1 + 1e-12).all()  # no longer than the free directions


# Attacks.


@pytest.mark.parametrize(
    ("f", "d", "k", "best"),
    [
        (lambda w: 0.0, 30, 3, 0.0),
        (lambda w: 5, 30, 3, 5.0),
        (lambda w: float((w[0] - 2) ** 2), 1, 1, 0.0),
        (lambda w: float(abs(w[0] - 2)), 1, 1, 0.0),
        (lambda w: float((w[0] - 2) ** 2 + w[1] ** 4), 2, 2, 0.0),
        (lambda w: float(np.sum(np.floor(np.abs(w[:3] - 2.5)))), 20, 3, 0.0),
        (lambda w: quad(w) + (w[0] > 0.5), 20, 3, 0.26),
        (lambda w: float(np.abs(w[:3] - 1).sum()), 20, 3, 1e-9),
        (lambda w: 1e12 * quad(w), 30, 3, 1e-3),
        (lambda w: 1e-12 * quad(w), 30, 3, 1e-24),
        (lambda w: quad(w / 1e12), 30, 3, 1e-9),
        (lambda w: quad(w * 1e12), 30, 3, 1e-9),
        (lambda w: quad(w) + 1e12, 30, 3, 1e12 + 1e-3),
        (lambda w: np.float32(quad(w)), 30, 3, 1e-6),
        (lambda w: int(1000 * quad(w)), 30, 3, 3.0),
    ],
)
def test_odd_functions(f, d, k, best):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = ez.minimize(ez.risks.BlackBox(f, d), k, max_queries=2000, rng=0)
    assert f(res.x) <= best


@pytest.mark.parametrize("policy", ["drop", "penalise", "retry"])
def test_a_function_that_is_not_defined_everywhere(policy):
    def f(w):
        return quad(w) if np.abs(w).max() < 0.5 else math.inf

    res = ez.minimize(ez.risks.BlackBox(f, 30, on_failure=policy), 3, max_queries=1500, rng=0)
    assert quad(res.x) < 0.9  # 0.75 at the corner, 3 at the start


@pytest.mark.parametrize("off", [0.0, 1e-14, 3e-10, 1e-7, 1e-3])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e6])
def test_rounding_near_the_least_value_is_no_noise(off, size):
    """There R is nearly 0 and w is not: what rounding w does to R is far more than R's own rounding."""
    t = np.zeros(12)
    t[[2, 7, 8]] = size * np.array([1.0, -2.0, 0.3])
    f = ez.risks.BlackBox(lambda w: float(np.sum((w - t) ** 2)), 12)
    res = ez.minimize(f, 3, x0=t * (1 + off), max_queries=300, rng=0)  # a warning is an error here
    assert res.noise.exact
    assert res.fun <= float(np.sum((t * (1 + off) - t) ** 2))


def test_a_function_that_drifts_is_noisy():
    calls = itertools.count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = ez.minimize(ez.risks.BlackBox(lambda w: quad(w) + 0.01 * next(calls), 30), 3, max_queries=2000, rng=0)
    assert not res.noise.exact
    assert quad(res.x) < 0.1


@pytest.mark.parametrize("budget", [3, 4, 7, 11, 23, 40, 65, 111])
@pytest.mark.parametrize("size", [0.0, 0.3, 100.0])
def test_budgets_are_kept(budget, size):
    dice, calls = np.random.default_rng(budget), itertools.count(1)
    asked = 0

    def f(w):
        nonlocal asked
        asked = next(calls)
        if size and dice.random() < 0.2:
            raise RuntimeError
        return quad(w) + size * dice.standard_normal()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            res = ez.minimize(ez.risks.BlackBox(f, 30, on_failure="drop"), 3, max_queries=budget, rng=0)
            assert asked == res.n_values + res.n_monitor
        except RuntimeError:  # not one value at the start
            assert budget < 12
    assert asked <= budget


@pytest.mark.parametrize(("sigma", "dense"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.3)])
def test_resumed_runs_are_identical(tmp_path, sigma, dense):
    """Stopped after every few iterations and resumed: the same points, the same answer."""

    def f(w):  # noise that depends on w alone
        seed = int(abs(float(w @ np.arange(1.0, 41.0))) * 1e9) % 2**32
        rest = dense * float(np.sum((w[:40] - 1) ** 2 + np.abs(w[:40] - 2)))  # so that first gradients are rough
        return quad(w) + rest + sigma * np.random.default_rng(seed).standard_normal()

    def run(**options):
        return ez.minimize(ez.risks.BlackBox(f, 40), 3, max_queries=600, rng=0, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole, file = run(), tmp_path / "run.npz"
        for last in itertools.count(1):
            res = run(max_iter=last, checkpoint=file, resume=file if file.exists() else None)
            if res.status is not ez.Status.MAX_ITER:
                break
    assert res.nit == whole.nit
    assert np.array_equal(res.x, whole.x)
    assert res.n_values + res.n_monitor == whole.n_values + whole.n_monitor


def test_values_need_the_looks_of_auto():
    with pytest.raises(ValueError, match="step='values'"):
        ez.minimize(ez.risks.BlackBox(quad, 5), 3, method=ez.Method(oracle=ez.ZerothOrder(5), step="values"))
