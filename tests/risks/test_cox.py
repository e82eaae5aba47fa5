"""Cox's partial likelihood against the textbook's formulas, written out; exchanges and proofs against enumeration."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize, sparse

import ellzero as ez
from ellzero.risks import Cox

TIES = ["breslow", "efron"]


def written_out(X, time, event, w, ties="breslow", strata=None, weight=None, offset=None, ridge=0.0, number=float):
    """Σ over event times of the d terms, term by term, with any kind of numbers."""
    n = len(time)
    exp, log = (mp.exp, mp.log) if number is mp.mpf else (np.exp, np.log)
    w = [number(a) for a in w]
    z = [sum((number(a) * b for a, b in zip(row, w, strict=True)), number(0)) for row in X]
    z = z if offset is None else [a + number(b) for a, b in zip(z, offset, strict=True)]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    scale = number(int((weight > 0).sum())) / sum(map(number, weight))
    omega, strata = [number(a) * scale for a in weight], np.zeros(n) if strata is None else np.asarray(strata)
    total, events = number(0), number(0)
    for s, t in itertools.product(np.unique(strata), np.unique(time)):
        dead = [i for i in range(n) if strata[i] == s and time[i] == t and event[i] and omega[i] > 0]
        risk = [i for i in range(n) if strata[i] == s and time[i] >= t]
        if not dead:
            continue
        at_risk, dying = (sum(omega[i] * exp(z[i]) for i in part) for part in (risk, dead))
        mass = sum(omega[i] for i in dead)
        for place in range(len(dead)):
            less = number(place) / len(dead) * dying if ties == "efron" else 0
            total += mass / len(dead) * log(at_risk - less)
        total, events = total - sum(omega[i] * z[i] for i in dead), events + mass
    return total / events + number(ridge) / 2 * sum(a * a for a in w)


def data(seed, n=None, p=None, weights=False, strata=False, scale=1.0):
    """A small problem with ties in time, also between events and those censored."""
    rng = np.random.default_rng(seed)
    n, p = n or rng.integers(2, 15), p or rng.integers(1, 5)
    X = scale * rng.standard_normal((n, p))
    time, event = rng.integers(0, rng.integers(2, 9), n).astype(float), rng.random(n) < 0.6
    event[rng.integers(n)] = True
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weights else None
    if weights:
        weight[event.argmax()] = 1.0
    return X, time, event, {"sample_weight": weight, "strata": rng.integers(0, 3, n) if strata else None}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(40))
def test_values_gradients_and_curvatures(seed, ties):
    X, time, event, given = data(seed, weights=seed % 2 == 1, strata=seed % 3 == 0)
    rng = np.random.default_rng(seed)
    offset = rng.standard_normal(len(time)) if seed % 5 == 0 else None
    risk = Cox(X, time, event, 0.1 * (seed % 3), ties=ties, offset=offset, **given)
    w = rng.choice([0.1, 1.0, 5.0]) * rng.standard_normal(X.shape[1])
    strata, weight = given["strata"], given["sample_weight"]
    expected = written_out(X, time, event, w, ties, strata, weight, offset, 0.1 * (seed % 3))
    assert risk.value(w) == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert expected >= risk.lower_bound - 1e-13
    if expected > 1e-3:  # else rounding is all that differences see
        ez.testing.check_risk(risk, rng=seed, n_points=2)
    p, h = w.size, 1e-5
    hessian = np.array([(risk.gradient(w + h * u) - risk.gradient(w - h * u)) / (2 * h) for u in np.eye(p)])
    model, every = risk.curvature(risk.at(w)), np.arange(p)
    near = {"atol": 1e-6 * max(1.0, np.abs(hessian).max())}
    np.testing.assert_allclose(2 * model.block(every), hessian, **near)
    np.testing.assert_allclose(2 * model.columns(every), hessian, **near)
    assert (2 * model.diagonal >= np.diag(hessian) - near["atol"]).all()
    H, _, exact = risk.hessian_bound()
    assert np.linalg.eigvalsh(H - hessian)[0] >= -near["atol"] and not exact


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("strata", [None, 3])
@pytest.mark.parametrize("scale", [0.1, 30.0])  # from 500 on, sums are taken in steps
def test_curvatures_on_many_columns(ties, strata, scale):
    rng = np.random.default_rng(7)
    X, event = rng.standard_normal((150, 50)), rng.random(150) < 0.5
    time = rng.integers(0, 40, 150) if strata else rng.random(150)
    risk = Cox(X, time, event, ties=ties, strata=None if strata is None else np.arange(150) % strata)
    w, h = scale * rng.standard_normal(50), 1e-6
    model = risk.curvature(risk.at(w))
    G, V = model.block(np.arange(50)), rng.standard_normal((50, 4))
    slopes = np.array([(risk.gradient(w + h * v) - risk.gradient(w - h * v)) / (2 * h) for v in V.T]).T
    near = {"rtol": 1e-5, "atol": 1e-6 * np.abs(slopes).max() + 50 * np.finfo(float).eps / h}  # that of gradients
    np.testing.assert_allclose(2 * G @ V, slopes, **near)
    np.testing.assert_allclose(2 * model.images(np.arange(50), V), slopes, **near)
    np.testing.assert_allclose(G[:7, :7], model.block(np.arange(7)), rtol=1e-9, atol=1e-12 * np.abs(G).max())


@pytest.mark.parametrize("ties", TIES)
def test_large_predictions_neither_over_nor_underflow(ties):
    X, time, event, _ = data(1, 12, 2, scale=700.0)
    risk, w = Cox(X, time, event, ties=ties), np.array([1.0, -1.5])
    with mp.workdps(60):
        expected = float(written_out(X, time, event, w, ties, number=mp.mpf))
    with np.errstate(all="raise", under="ignore"):
        assert risk.value(w) == pytest.approx(expected, rel=1e-12)
        slope = risk.gradient(w)
    h = 1e-6
    numerical = [(risk.value(w + h * u) - risk.value(w - h * u)) / (2 * h) for u in np.eye(2)]
    np.testing.assert_allclose(slope, numerical, rtol=1e-5)
    assert np.isfinite(risk.value([1e300, 1e300]))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_said_of_rounding_holds(seed):
    """Value, slopes and the tangent from below, with fifty digits beside them."""
    X, time, event, given = data(seed, 9, 3, seed % 2 == 1, seed % 3 == 0, scale=10.0 ** (seed % 4 - 1))
    X += [0.0, 1e4, 0.0][seed % 3]
    ties, rng = TIES[seed % 2], np.random.default_rng(seed)
    w = rng.standard_normal(3) * [1.0, 1e-3, 30.0][seed % 3]
    risk = Cox(X, time, event, 0.01, ties=ties, **given)

    def exactly(u, ridge=0.01):
        return written_out(X, time, event, u, ties, given["strata"], given["sample_weight"], None, ridge, mp.mpf)

    with mp.workdps(50):
        for closely in (False, True):
            here = risk.measured(w, np.arange(3), closely=closely)
            assert abs(exactly(w) - here.value) <= here.error
        slopes, doubt = here.slopes
        for j in range(3):
            h = mp.mpf(10) ** -20
            ends = [[mp.mpf(a) + (s * h if i == j else 0) for i, a in enumerate(w)] for s in (1, -1)]
            assert abs((exactly(ends[0]) - exactly(ends[1])) / (2 * h) - slopes[j]) <= doubt[j] + 1e-18
        part = risk.smooth_part()
        look = part.look(w, part.image(w))
        for _ in range(5):
            u = w + rng.standard_normal(3) * 10.0 ** rng.integers(-6, 1)
            tangent = look.value - float(look.z @ u) - look.error * np.linalg.norm(u) * (1 + 1e-12)
            assert exactly(u, 0.0) >= tangent
        D = np.ones(3)
        for reach in (0.01, 0.3):  # F(at + h) >= F(at) + <g, h> + ½hᵀMh - ½less|h|²
            M, less = here.floor(reach, D)
            step = rng.standard_normal(3)
            step *= reach / np.linalg.norm(step)
            floor = exactly(w) + float(slopes @ step) - float(doubt @ np.abs(step)) + 0.5 * float(step @ M @ step)
            assert (
                exactly([mp.mpf(a) + mp.mpf(b) for a, b in zip(w, step, strict=True)])
                >= floor - 0.5 * less * reach**2 - 1e-15
            )


def reference(X, time, event, ties, weight, strata):
    """Weights b and coefficients C of the terms b_q log Σ_j C_qj exp(z_j), and those of -z, as dense arrays."""
    terms = []
    weight = weight * (weight > 0).sum() / weight.sum()
    for s, t in itertools.product(np.unique(strata), np.unique(time)):
        dead = np.flatnonzero((strata == s) & (time == t) & event & (weight > 0))
        for place in range(dead.size):
            row = np.where((strata == s) & (time >= t), weight, 0.0)
            row[dead] *= 1 - place / dead.size if ties == "efron" else 1.0
            terms.append((weight[dead].mean(), row))
    a = np.where(event, weight, 0.0)
    return np.array([b for b, _ in terms]) / a.sum(), np.array([row for _, row in terms]), a / a.sum()


def best_on(A, terms, ridge):
    b, C, a = terms

    def value(u):
        z = A @ u
        e = np.exp(z - z.max())
        S = C @ e
        slope = A.T @ ((C * (b / S)[:, None]).sum(axis=0) * e - a) + ridge * u
        return b @ (np.log(S) + z.max()) - a @ z + ridge / 2 * u @ u, slope

    with np.errstate(all="ignore"):
        return optimize.minimize(value, np.zeros(A.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).fun


def small_problem(seed):
    rng = np.random.default_rng(seed)
    n, p = rng.integers(4, 25), rng.integers(3, 7)
    k = int(rng.integers(1, min(4, p)))
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.5 * rng.standard_normal((p, p)))
    X[:, 1] = [X[:, 1], X[:, 0], np.full(n, 2.5), np.zeros(n), -2 * X[:, 0]][seed % 5]
    X = [X, np.round(X), X + 100.0][seed % 3]
    time = rng.exponential(np.exp(-X[:, 0] + X[:, 0].mean()))
    time = [time, np.ceil(3 * time), np.ones(n)][int(rng.choice(3, p=[0.45, 0.45, 0.1]))]
    event = rng.random(n) < rng.choice([0.05, 0.5, 1.0])
    event[0] |= not event.any()
    weight = np.ones(n) if seed % 4 else rng.choice([0.0, 0.5, 1.0, 2.0], n)
    weight[event.argmax()] = 1.0
    strata = rng.integers(0, 2, n) if seed % 7 == 0 else np.zeros(n)
    return X, time, event, weight, strata, k


def missed(seeds):
    """How many of the problems "auto" does not solve; bounds above the best are no matter of how many."""
    worse = 0
    for seed in seeds:
        X, time, event, weight, strata, k = small_problem(seed)
        ties, ridge = TIES[seed % 2], [0.0, 1e-3, 0.1, 1.0][seed % 4]
        risk = Cox(X, time, event, ridge, weight, ties=ties, strata=strata)
        terms = reference(X, time, event, ties, weight, strata)
        best = min(best_on(X[:, list(S)], terms, ridge) for S in itertools.combinations(range(X.shape[1]), k))
        res = ez.minimize(risk, k)
        worse += res.fun > best + 1e-6 * (abs(best) + 0.01)
        for limit in (None, 0.2):
            bound = ez.certify(risk, res, time_limit=limit).lower_bound
            assert bound <= min(best, res.fun) + 1e-8 * abs(best) + 1e-12, seed
    return worse


@pytest.mark.slow
def test_auto_finds_the_best_support_and_no_bound_exceeds_it():
    assert missed(range(20)) == 0


@pytest.mark.slow
def test_hundreds_of_small_problems():
    assert missed(range(20, 400)) <= 3


@pytest.mark.parametrize(("seed", "known"), [(0, 4.783489), (2, 4.614412)])
def test_correlated_columns_no_worse_than_along_a_path_of_another_solver(seed, known):
    # abess 0.4.11 with support_size = 1, ..., 15; the exchanges alone end at 4.790006 and 4.617659
    rng = np.random.default_rng([seed, 50])
    X = rng.standard_normal((500, 2000))
    for j in range(1, 2000):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    truth = np.zeros(2000)
    truth[rng.choice(2000, 15, replace=False)] = rng.choice([-1.0, 1.0], 15) * rng.uniform(0.2, 0.8, 15)
    failure, censoring = rng.exponential(np.exp(-X @ truth)), rng.exponential(1.5, 500)
    risk = Cox(X, np.minimum(failure, censoring), failure <= censoring)
    assert ez.minimize(risk, 15).fun <= known + 1e-6


@pytest.mark.parametrize(
    ("gamma", "low", "high", "total"),
    [
        (ez.sets.NonNegative(), 0.0, None, None),
        (ez.sets.Box(-0.3, 0.5), -0.3, 0.5, None),
        (ez.sets.Simplex(), 0.0, None, 1.0),
    ],
)
def test_supports_grown_again_inside_gamma(gamma, low, high, total):
    X, time, event = gene_study(p=12)
    at_risk = time >= time[event][:, None]

    def value(u, A):
        return np.mean(np.log(at_risk @ np.exp(A @ u)) - (A @ u)[event])

    sums = [] if total is None else [{"type": "eq", "fun": lambda u: u.sum() - total}]
    best = min(
        optimize.minimize(value, [1 / 3] * 3, (X[:, S],), "SLSQP", bounds=[(low, high)] * 3, constraints=sums).fun
        for S in map(list, itertools.combinations(range(12), 3))
    )
    assert ez.minimize(Cox(X, time, event), 3, gamma).fun == pytest.approx(best, abs=1e-6)


def test_separated_data_end_as_those_of_other_losses_do():
    X = np.random.default_rng(0).standard_normal((60, 20))
    score = X[:, 3] + X[:, 5]
    logistic = ez.minimize(ez.risks.Logistic(X, np.sign(score)), 2)
    found = ez.minimize(Cox(X, -score, np.ones(60)), 2)
    assert (found.status, found.message) == (logistic.status, logistic.message)
    assert found.support.tolist() == [3, 5] and found.fun < 1e-9 and np.isfinite(found.x).all()


def gene_study(n=150, p=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 40))
    risk = X[:, [2, 11, 30]] @ [1.0, -0.8, 0.6]
    failure, censored = rng.exponential(np.exp(-risk)), rng.exponential(2.0, n)
    return X[:, :p], np.minimum(failure, censored), failure <= censored


def test_all_features_at_once_and_few_steps():
    X, time, event = gene_study(p=6)
    risk = Cox(X, time, event)
    terms = reference(X, time, event, "breslow", np.ones(len(time)), np.zeros(len(time)))
    assert ez.minimize(risk, 6).fun == pytest.approx(best_on(X, terms, 0.0), abs=1e-9)
    calls = []

    class Counted(Cox):
        def curvature(self, point):
            calls.append(1)
            return super().curvature(point)

    from ellzero.sets import Everywhere
    from ellzero.solver.refit import refit

    point = refit(Counted(X, time, event), Everywhere(), np.arange(6))
    assert len(calls) <= 9 and np.abs(point.gradient).max() < 1e-8


def test_proofs_with_ridge_boxes_and_signs():
    X, time, event = gene_study()
    risk = Cox(X, time, event, 0.2)
    res = ez.minimize(risk, 3)
    assert res.support.tolist() == [2, 11, 30]
    assert ez.certify(risk, res, time_limit=30).words == "proven optimal"
    for gamma in (ez.sets.NonNegative(), ez.sets.L1Ball(1.0), ez.sets.Box(-0.3, 0.3)):
        part = ez.minimize(risk, 2, gamma)
        cert = ez.certify(risk, part, time_limit=2)
        assert gamma.contains(part.x) and cert.lower_bound <= part.fun and cert.relative_gap < 0.2
    refused = ez.certify(Cox(X, time, event), ez.minimize(Cox(X, time, event), 3))
    assert "ridge > 0" in refused.advice and refused.lower_bound == 0.0


def test_censored_at_the_time_of_an_event_are_at_risk():
    risk = Cox([[1.0], [0.0]], time=[1.0, 1.0], event=[1, 0])
    assert risk.value([0.0]) == pytest.approx(np.log(2))
    assert Cox([[1.0], [0.0]], time=[1.0, 0.9], event=[1, 0]).value([0.0]) == 0.0


def test_a_weight_of_two_counts_as_two_rows_and_only_ratios_count():
    X, time, event, _ = data(3, 10, 2)
    twice = np.repeat(np.arange(10), 2)
    w = np.array([0.3, -1.0])
    some = np.where(np.arange(10) < 4, 2.0, 1.0)
    rows = np.repeat(np.arange(10), some.astype(int))
    np.testing.assert_allclose(
        Cox(X, time, event, sample_weight=some).gradient(w),
        Cox(X[rows], time[rows], event[rows]).gradient(w),
        atol=1e-14,
    )
    assert Cox(X, time, event, sample_weight=np.full(10, 1e300)).value(w) == Cox(X, time, event).value(w)
    np.testing.assert_allclose(
        Cox(X[twice], time[twice], event[twice]).value(w), Cox(X, time, event).value(w) + np.log(2)
    )


def test_data_of_other_kinds():
    X, time, event = gene_study()
    risk, w = Cox(X, time, event, 0.1), np.linspace(-1, 1, 40)
    thin = X * (np.abs(X) > 1)
    assert Cox(sparse.csr_array(thin), time, event).value(w) == pytest.approx(Cox(thin, time, event).value(w))
    assert ez.minimize(Cox(sparse.csc_array(thin), time, event), 3).fun == pytest.approx(
        ez.minimize(Cox(thin, time, event), 3).fun
    )
    single = ez.minimize(Cox(X.astype(np.float32), time, event, 0.1), 3)
    assert single.x.dtype == np.float32 and single.fun == pytest.approx(ez.minimize(risk, 3).fun, rel=1e-5)
    for scale in (1e150, 1e-150):
        other = ez.minimize(Cox(scale * X, time, event), 3)
        assert other.support.tolist() == [2, 11, 30] and other.fun == pytest.approx(
            ez.minimize(Cox(X, time, event), 3).fun
        )
    scales = np.linspace(1, 3, 40)
    assert risk.rescaled(scales).value(w) == pytest.approx(risk.value(scales * w), rel=1e-12)
    many = Cox(X, time, event, strata=np.arange(150) // 2)
    assert many.value(w) == pytest.approx(written_out(X, time, event, w, strata=np.arange(150) // 2))


def test_degenerate_problems_end():
    for time, event in [([1, 2], [1, 1]), ([1, 2], [0, 1]), ([1, 1], [1, 1])]:
        for ties in TIES:
            res = ez.minimize(Cox([[1.0, 2.0], [0.0, 1.0]], time, event, ties=ties), 1)
            assert np.isfinite(res.x).all() and res.fun >= -1e-15
    ordered = Cox(np.arange(20.0)[:, None], -np.arange(20.0), np.ones(20))
    res = ez.minimize(ordered, 1)  # monotone likelihood: R -> 0
    assert np.isfinite(res.x).all() and 0 <= res.fun < 1e-8
    assert ez.minimize(Cox(np.ones((5, 2)), np.arange(5), np.ones(5)), 1).x.tolist() == [0.0, 0.0]


def test_paths_and_what_is_held_out():
    X, time, event = gene_study()
    fit, other = (Cox(X[rows], time[rows], event[rows], 1e-3) for rows in (slice(0, 100), slice(100, None)))
    path = ez.minimize_path(fit, 6, validation=other)
    assert fit.n_observations == event[:100].sum()
    w = path.results[2].x
    assert fit.deviance(w) == pytest.approx(2 * event[:100].sum() * written_out(X[:100], time[:100], event[:100], w))
    assert other.held_out_loss(w, fit)[0] == pytest.approx(written_out(X[100:], time[100:], event[100:], w))
    assert {2, 11} <= set(path.select("ebic").support)
    assert {2, 11} <= set(path.select("validation").support)


def test_other_methods():
    X, time, event = gene_study(p=10)
    risk = Cox(X, time, event, 0.1)
    plain = ez.minimize(risk, 2, method="IHT", max_iter=5000)
    support = plain.support.tolist()
    terms = reference(X, time, event, "breslow", np.ones(150), np.zeros(150))
    assert plain.fun == pytest.approx(best_on(X[:, support], terms, 0.1), abs=1e-6)
    blind = ez.minimize(risk, 2, method="HZO-HT", max_queries=20_000, rng=0)
    assert blind.fun < risk.value(np.zeros(10))
    batch = ez.Method(oracle=ez.MiniBatch(10), step=0.1)
    for ask in (
        lambda: ez.minimize(risk, 2, method=batch, rng=0),
        lambda: ez.minimize(risk, 2, method="HSG-HT", rng=0),
    ):
        with pytest.raises(NotImplementedError, match="not a sum over rows.*use a method with full gradients"):
            ask()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"event": [0, 0, 0]}, "event must be True somewhere"),
        ({"event": [0, 1, 2]}, "event must be True or 1 .* got np.int64\\(2\\)"),
        ({"event": ["a", "b", "c"]}, "event must be True or 1"),
        ({"event": [1, 0]}, "event must have length 3"),
        ({"time": [1.0, np.nan, 2.0]}, "time must be finite, got nan at index 1"),
        ({"time": [1.0, 2.0]}, "time must have length 3"),
        ({"ties": "exact"}, 'ties must be "breslow" or "efron"'),
        ({"strata": [1, 2]}, "strata must have length 3"),
        ({"strata": [1, np.nan, 2]}, "strata must be a label for each row, got nan"),
        ({"offset": [1.0]}, "offset must have length 3"),
        ({"sample_weight": [0.0, 1.0, 1.0]}, "event must be True somewhere with a positive sample_weight"),
    ],
)
def test_what_is_refused(change, words):
    given = {"time": [1.0, 2.0, 3.0], "event": [1, 0, 0]} | change
    with pytest.raises(ValueError, match=words):
        Cox(np.eye(3), **given)


def test_a_loss_made_of_it_inherits_no_proof():
    class Other(Cox):
        def _mean_loss(self, z):
            return 2 * super()._mean_loss(z)

        def _slope(self, z, y):
            return 2 * super()._slope(z, y)

    X, time, event = gene_study(p=5)
    risk = Other(X, time, event, 0.1)
    assert risk.measured(np.ones(5), np.arange(5)) is None and risk.curvature(risk.at(np.ones(5))) is None
    res = ez.minimize(risk, 2)
    assert ez.certify(risk, res).lower_bound <= res.fun
