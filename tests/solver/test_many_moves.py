"""Supports of many columns: exchanges on a table, products that are kept, Newton systems by conjugate gradients."""

import itertools
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import lsq_linear, nnls
from scipy.optimize import minimize as scipy_minimize

import ellzero as ez
from ellzero._core.linear_systems import Factor, solve
from ellzero._core.stopping import Status
from ellzero.datasets import make_regression
from ellzero.risks.known import KnownProducts
from ellzero.risks.linear_curvature import LinearCurvature
from ellzero.sets._quadratic import minimise_between
from ellzero.solver.newton import conjugate_gradients
from ellzero.solver.refit import refit
from ellzero.solver.table import Table


def quadratic(seed, size, rows=None):
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((rows or 3 * size, size)), rng.standard_normal(rows or 3 * size)
    return A.T @ A, A.T @ y, float(y @ y)


def best(G, b, S):
    """The least uᵀGu - 2bᵀu on S."""
    return -float(b[S] @ np.linalg.lstsq(G[np.ix_(S, S)], b[S])[0]) if len(S) else 0.0


def table_at(G, b, S, J, k, fixed=(), positive=False):
    w = np.linalg.solve(G[np.ix_(S, S)], b[S]) if len(S) else np.empty(0)
    some = [*S, *J]
    x = np.concatenate([w, b[J] - G[np.ix_(J, S)] @ w])
    return Table.of(G[np.ix_(some, some)], x, len(S), np.isin(some, fixed), positive, k), np.array(some)


class TestTable:
    @given(st.integers(0, 10**6), st.lists(st.integers(0, 7), min_size=1, max_size=30))
    @settings(max_examples=60, deadline=None)
    def test_a_pivot_is_what_solving_anew_would_give(self, seed, pivots):
        G, b, _ = quadratic(seed, 8)
        table, some = table_at(G, b, [0, 1, 2], [3, 4, 5, 6, 7], 8)
        inside = [True] * 3 + [False] * 5
        for p in pivots:
            before = best(G, b, some[inside])
            inside[p] = not inside[p]
            gain = table.pivot(p)
            assert table.inside.tolist() == inside
            after = best(G, b, some[inside])
            assert gain == pytest.approx(before - after, abs=1e-8)
        S, J = some[inside], some[~np.array(inside)]
        w = np.linalg.solve(G[np.ix_(S, S)], b[S])
        np.testing.assert_allclose(table.x[inside], w, atol=1e-8)
        np.testing.assert_allclose(table.x[~np.array(inside)], b[J] - G[np.ix_(J, S)] @ w, atol=1e-7)

    @given(st.integers(0, 10**6), st.integers(0, 2))
    @settings(max_examples=40, deadline=None)
    def test_at_its_end_no_exchange_helps(self, seed, n_fixed):
        G, b, _ = quadratic(seed, 9, rows=12)
        table, some = table_at(G, b, [0, 1, 2], [3, 4, 5, 6, 7, 8], 4, fixed=range(n_fixed))
        table.improve(1e-9)
        S = set(some[table.inside].tolist())
        assert len(S) <= 4 and set(range(n_fixed)) <= S
        least = best(G, b, sorted(S))
        for i, j in itertools.product(S - set(range(n_fixed)), set(range(9)) - S):
            assert best(G, b, sorted(S - {i} | {j})) > least - 1e-6
        if len(S) < 4:
            assert all(best(G, b, sorted(S | {j})) > least - 1e-6 for j in set(range(9)) - S)

    def test_copies_of_a_column_do_not_come_in_together(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((20, 3))
        A = np.column_stack([A, A[:, 0], A[:, 0]])
        b = A.T @ (A[:, 1] + A[:, 2])
        table, some = table_at(A.T @ A, b, [0], [1, 2, 3, 4], 4)
        table.improve(1e-12)
        assert not {0, 3, 4} <= set(some[table.inside].tolist())
        assert np.isfinite(table.T).all()

    def test_entries_stay_positive(self):
        for seed in range(20):
            G, b, _ = quadratic(seed, 12, rows=15)
            u = minimise_between(G[:4, :4], b[:4], np.zeros(4), np.full(4, np.inf))
            S = np.flatnonzero(u > 0).tolist()
            if not S:
                continue
            before = -float(b[S] @ u[S])
            table, some = table_at(G, b, S, [j for j in range(12) if j not in S], 4, positive=True)
            table.improve(1e-9)
            inside = some[table.inside]
            assert (table.x[table.inside] >= 0).all() and inside.size <= 4
            assert best(G, b, inside.tolist()) <= before + 1e-9


class TestLargeSupports:
    @pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative()])
    @pytest.mark.parametrize("density", [1.0, 0.2])
    def test_no_exchange_of_one_for_one_helps_at_the_end(self, gamma, density):
        p = make_regression(400, 500, 140, snr=2.0, nonnegative=gamma is not None, density=density, rng=3)
        risk = ez.risks.LeastSquares(p.X, p.y)
        res = ez.minimize(risk, 140, gamma)
        assert np.count_nonzero(res.x) <= 140
        X = np.asarray(p.X.todense() if hasattr(p.X, "todense") else p.X)
        solver = (lambda A: nnls(A, p.y)[1] ** 2) if gamma else (lambda A: float(np.linalg.lstsq(A, p.y)[1][0]))
        inside = np.flatnonzero(res.x)
        assert res.fun == pytest.approx(solver(X[:, inside]) / 400, rel=1e-9)
        rng = np.random.default_rng(0)
        slopes = np.abs(X.T @ (X @ res.x - p.y))
        slopes[inside] = 0
        likely = np.argsort(-slopes)[:4]  # the newcomers with most to gain, for the entries that are worth least
        cheap = inside[np.argsort(np.abs(res.x[inside]))[:4]]
        others = zip(rng.choice(inside, 10), rng.choice(np.setdiff1d(np.arange(500), inside), 10), strict=True)
        for i, j in [*itertools.product(cheap, likely), *others]:
            S = np.append(np.setdiff1d(inside, [i]), j)
            assert solver(X[:, S]) / 400 >= res.fun * (1 - 1e-8)

    @pytest.mark.parametrize("loss", ["huber", "logistic", "poisson"])
    def test_values_on_many_columns_are_those_of_scipy(self, loss):
        rng = np.random.default_rng(5)
        X = rng.standard_normal((700, 220))
        z = X @ (rng.standard_normal(220) / 15)
        risk = {
            "huber": lambda: ez.risks.Huber(X, z + rng.standard_t(2, 700), delta=0.5, fit_intercept=True),
            "logistic": lambda: ez.risks.Logistic(X, np.where(z + rng.logistic(size=700) > 0, 1, -1), ridge=0.01),
            "poisson": lambda: ez.risks.Poisson(
                X, rng.poisson(np.exp(z)), ridge=0.01, sample_weight=1 + rng.random(700)
            ),
        }[loss]()
        S = np.arange(0, 210)
        assert KnownProducts.pays(S.size, 220)
        found = refit(risk, ez.sets.Everywhere(), S)
        assert np.abs(found.gradient[S]).max() < 1e-6
        referee = scipy_minimize(
            lambda u: risk.value(np.append(u, np.zeros(10))),
            np.zeros(210),
            jac=lambda u: risk.gradient(np.append(u, np.zeros(10)))[:210],
            method="L-BFGS-B",
            options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10},
        )
        assert found.value <= referee.fun + 1e-9 * abs(referee.fun)

    def test_copies_of_columns_and_columns_of_zeros(self):
        rng = np.random.default_rng(2)
        X = rng.standard_normal((300, 150))
        X = np.column_stack([X, X, np.zeros((300, 20))])
        y = X[:, :150] @ rng.standard_normal(150) + 0.1 * rng.standard_normal(300)
        floor = float(np.linalg.lstsq(X[:, :150], y)[1][0]) / 300
        for gamma in (None, ez.sets.NonNegative()):
            res = ez.minimize(ez.risks.LeastSquares(X, y), 160, gamma, time_limit=60)
            assert np.count_nonzero(res.x) <= 160 and np.isfinite(res.x).all()
            if gamma is None:
                assert res.fun == pytest.approx(floor, rel=1e-6)

    def test_the_same_twice_and_in_other_orders_of_memory(self):
        p = make_regression(300, 400, 130, snr=2.0, correlation=0.3, rng=1)
        first, again, by_columns = (
            ez.minimize(ez.risks.LeastSquares(X, p.y), 130) for X in (p.X, p.X, np.asfortranarray(p.X))
        )
        np.testing.assert_array_equal(first.x, again.x)
        assert by_columns.fun == pytest.approx(first.fun, rel=1e-10)

    @pytest.mark.parametrize("loss", [ez.risks.LeastSquares, ez.risks.Huber])
    @pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative()])
    def test_the_time_is_looked_at_inside(self, loss, gamma, monkeypatch):
        p = make_regression(300, 400, 130, snr=1.0, correlation=0.9, rng=0)
        reads, now = itertools.count(), time.perf_counter()
        # a clock that goes on by a second whenever it is read: a limit of so many seconds is one of so many looks
        monkeypatch.setattr(time, "perf_counter", lambda: now + next(reads))
        res = ez.minimize(loss(p.X, p.y), 130, gamma, time_limit=20)
        assert res.status is Status.TIME_LIMIT and np.count_nonzero(res.x) <= 130 and np.isfinite(res.fun)
        assert next(reads) < 20 + 15
        assert ez.minimize(loss(p.X, p.y), 130, gamma).fun <= res.fun


class TestKnownProducts:
    @given(st.integers(0, 10**6), st.integers(1, 3))
    @settings(max_examples=25, deadline=None)
    def test_blocks_are_those_of_all_products(self, seed, times):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((10, 40))
        known, looked = KnownProducts(40, 400), []

        def cross(left, right):
            looked.append(left.size)
            return X[:, left].T @ X[:, right]

        known.half = 400  # of 20 columns
        for _ in range(4 * times):
            index = np.sort(rng.choice(40, rng.integers(1, 19), replace=False))
            np.testing.assert_allclose(known.block(index, cross), X[:, index].T @ X[:, index])
            count = len(looked)
            known.block(index[::-1].copy(), cross)
            assert len(looked) == count  # nothing anew
        assert known.index.size <= 38

    def test_memory_is_that_of_what_is_known(self):
        known = KnownProducts(2000, 4_000_000)
        for m in (10, 12, 16, 40, 300):
            known.block(np.arange(m), lambda left, right: np.ones((left.size, right.size)))
            assert m**2 <= known.G.size <= (1.5 * m) ** 2

    @given(st.integers(0, 10**6))
    @settings(max_examples=50, deadline=None)
    def test_what_lies_beside_a_support_is_computed_once(self, seed):
        rng = np.random.default_rng(seed)
        X, computed = rng.standard_normal((10, 40)), []

        def cross(left, right):
            computed.append(left.size * right.size)
            return X[:, left].T @ X[:, right]

        known = KnownProducts(40, 400)
        known.room = 40 * 8
        S = rng.permutation(40)[: rng.integers(1, 9)]
        for _ in range(8):
            before, earlier, width = len(computed), known.last.slot >= 0, known.last.C.shape[1]
            for _ in range(5):
                rows = rng.choice(40, rng.integers(0, 20), replace=False)
                found = known.beside(rows, S, cross)
                np.testing.assert_allclose(found, X[:, rows].T @ X[:, S])
                found[:] = np.nan  # in place, as whoever adds a ridge does
            known.beside(np.arange(40), S, cross)
            new = S.size - np.count_nonzero(earlier[S])
            asked = sum(computed[before:])
            anew = 4 * new > S.size or S.size > width
            assert asked == 40 * (S.size if anew else new)
            some = S[: rng.integers(1, S.size + 1)] if rng.random() < 0.4 else S  # fewer, and others in some places
            S = np.union1d(some, rng.choice(40, rng.integers(0, 3), replace=False))[:8]
            rng.shuffle(S)
        before = known.last.slot.copy()
        known.beside(np.arange(40), np.arange(9), cross)
        assert np.array_equal(known.last.slot, before)  # more than there is room for

    def test_what_was_interrupted_is_not_taken_for_known(self):
        X = np.random.default_rng(0).standard_normal((30, 40))
        known, rows = KnownProducts(40, 40**2), np.arange(20, 40)

        def cross(left, right):
            return X[:, left].T @ X[:, right]

        def fails(left, right):
            raise MemoryError

        for S in (np.arange(12), np.r_[np.arange(11), 15], np.arange(25)):
            with pytest.raises(MemoryError):
                known.beside(rows, S, fails)
            np.testing.assert_allclose(known.beside(rows, S, cross), X[:, rows].T @ X[:, S])
            with pytest.raises(MemoryError):
                known.block(S, fails)
            np.testing.assert_allclose(known.block(S, cross), X[:, S].T @ X[:, S])

    def test_exchanges_that_are_ruled_out_take_no_further_products(self, monkeypatch):
        p = make_regression(1500, 400, 140, rng=0)
        taken, products = [], LinearCurvature.products

        def counted(self, rows, columns):
            taken.append((rows.size, columns.size))
            return products(self, rows, columns)

        monkeypatch.setattr(LinearCurvature, "products", counted)
        res = ez.minimize(ez.risks.LeastSquares(p.X, p.y), 140)
        assert res.exchanges.total == res.exchanges.by_formula + res.exchanges.by_refit
        assert taken.count((260, 140)) == 1  # all others with the support

    @pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array])
    def test_one_risk_is_minimised_by_several_threads(self, kind):
        """What a run has looked at is shared by all runs of the risk at the same time."""
        p, sizes = make_regression(200, 400, 131, rng=0), [129, 130, 131]
        risk, many = ez.risks.LeastSquares(kind(p.X), p.y, ridge=0.1), sys.getswitchinterval()
        alone = [ez.minimize(risk, k).fun for k in sizes]
        sys.setswitchinterval(1e-4)
        try:
            with ThreadPoolExecutor(3) as pool:
                together = list(pool.map(lambda k: ez.minimize(risk, k).fun, sizes))
        finally:
            sys.setswitchinterval(many)
        np.testing.assert_allclose(together, alone, rtol=1e-9)
        assert pickle.loads(pickle.dumps(risk)).value(np.zeros(400)) == risk.value(np.zeros(400))

    def test_what_is_kept_is_a_share_of_the_data_as_they_are(self):
        """Of sparse data and of single precision, not of as many doubles."""
        X = np.zeros((1000, 5000), dtype=np.float32)
        for kind in (np.asarray, sparse.csr_array, sparse.csc_array):
            risk = ez.risks.LeastSquares(kind(X), np.zeros(1000))
            assert risk.known.room == max(0.1 * risk.design.size, 10**6)
            assert risk.design.size <= X.nbytes // 8

    def test_a_run_leaves_nothing_behind(self):
        p = make_regression(300, 400, 130, rng=0)
        risk = ez.risks.LeastSquares(p.X, p.y)
        ez.minimize(risk, 130)
        assert not {"known", "origin"} & set(vars(risk))


class TestSystems:
    @pytest.mark.parametrize("size", [5, 230])
    def test_a_factor_solves_and_inverts(self, size):
        G, b, _ = quadratic(0, size)
        factor = Factor.of(G)
        np.testing.assert_allclose(factor.solve(b), np.linalg.solve(G, b), rtol=1e-8)
        np.testing.assert_allclose(factor.pivots, np.diagonal(np.linalg.cholesky(G)) ** 2, rtol=1e-8)
        np.testing.assert_allclose(factor.inverse(), np.linalg.inv(G), atol=1e-10)
        assert Factor.of(G - 2 * np.linalg.eigvalsh(G)[-1] * np.eye(size)) is None

    def test_a_large_singular_system_has_the_shortest_solution(self):
        rng = np.random.default_rng(1)
        A = rng.standard_normal((400, 120))
        A = np.column_stack([A, A])
        G, b = A.T @ A, A.T @ rng.standard_normal(400)
        u, accurate = solve(G, b)
        assert not accurate
        np.testing.assert_allclose(G @ u, b, atol=1e-6)
        np.testing.assert_allclose(u[:120], u[120:], atol=1e-6)

    def test_conjugate_gradients_end_where_they_promise(self):
        G, b, _ = quadratic(3, 30)
        M = np.diag(np.diagonal(G))
        for near in (0.1, 1e-3, 1e-8):
            u, bend = conjugate_gradients(lambda v: G @ v, b, lambda v: np.linalg.solve(M, v), near)
            left = b - G @ u
            assert left @ np.linalg.solve(M, left) <= near**2 * (b @ np.linalg.solve(M, b)) * (1 + 1e-6)
            assert bend == pytest.approx(u @ G @ u, rel=1e-6)
        assert conjugate_gradients(lambda v: -(G @ v), b, lambda v: v, 0.1) is None
        assert conjugate_gradients(lambda v: 1e-14 ** np.linspace(0, 1, 30) * v, b, lambda v: v, 1e-14) is None


class TestNonNegative:
    @given(st.integers(0, 10**6), st.integers(1, 25), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_it_is_that_of_scipy_from_any_start(self, seed, size, start):
        rng = np.random.default_rng(seed)
        A, y = rng.standard_normal((size + 5, size)), rng.standard_normal(size + 5)
        bounds = np.zeros(size), np.full(size, np.inf)
        u = minimise_between(A.T @ A, A.T @ y, *bounds, rng.standard_normal(size) if start else None)
        np.testing.assert_allclose(u, nnls(A, y)[0], atol=1e-7)

    def test_copies_of_columns(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((60, 20))
        A = np.column_stack([A, A, A[:, :5]])
        for _ in range(10):
            y = rng.standard_normal(60)
            u = ez.sets.NonNegative().minimise_quadratic(A.T @ A, A.T @ y, np.arange(45), np.zeros(45))
            assert (u >= 0).all()
            assert np.sum((A @ u - y) ** 2) == pytest.approx(nnls(A, y)[1] ** 2, rel=1e-6)

    def test_after_the_deadline_it_is_a_member_and_no_worse_than_the_start(self):
        G, b, _ = quadratic(1, 40, rows=45)
        start = np.abs(np.random.default_rng(0).standard_normal(40))
        for high in (np.inf, 1.0):
            start = np.minimum(start, high)
            u = minimise_between(G, b, np.zeros(40), np.full(40, high), start, time.perf_counter() - 1)
            assert (u >= 0).all() and (u <= high).all()
            assert u @ G @ u - 2 * b @ u <= start @ G @ start - 2 * b @ start


class TestBetweenBounds:
    @given(st.integers(0, 10**6), st.integers(1, 25), st.booleans(), st.booleans())
    @settings(max_examples=100, deadline=None)
    def test_slopes_are_those_of_a_minimum(self, seed, size, start, apart):
        """The conditions of Karush, Kuhn and Tucker, for bounds of all kinds and columns of very different sizes."""
        rng = np.random.default_rng(seed)
        A, y = rng.standard_normal((size + 3, size)), rng.standard_normal(size + 3)
        A *= 10.0 ** rng.uniform(-4, 4, size) if apart else 1.0
        lower, upper = np.sort(rng.standard_normal((2, size)), axis=0) * 10.0 ** rng.uniform(-2, 1, size)
        lower[rng.random(size) < 0.3], upper[rng.random(size) < 0.3] = -np.inf, np.inf
        upper = np.where(
            rng.random(size) < 0.1, np.maximum(lower, np.minimum(upper, 0.0)), upper
        )  # points, now and then
        first = np.clip(rng.standard_normal(size), lower, upper) if start else None
        u = minimise_between(A.T @ A, A.T @ y, lower, upper, first)
        assert (u >= lower).all() and (u <= upper).all()
        slope = A.T @ (y - A @ u) / (np.linalg.norm(A, axis=0) * max(np.linalg.norm(y), np.linalg.norm(A * u)))
        assert (slope[u < upper] < 1e-8).all() and (slope[u > lower] > -1e-8).all()

    def test_it_is_that_of_scipy(self):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            A, y = rng.standard_normal((25, 20)), rng.standard_normal(25)
            lower, upper = -rng.uniform(0, 0.3, 20), rng.uniform(0, 0.3, 20)
            u = ez.sets.Box(lower, upper).minimise_quadratic(A.T @ A, A.T @ y, np.arange(20), np.zeros(20))
            np.testing.assert_allclose(u, lsq_linear(A, y, (lower, upper), method="bvls", tol=1e-14).x, atol=1e-8)

    def test_copies_of_columns(self):
        rng = np.random.default_rng(1)
        A = rng.standard_normal((60, 20))
        A = np.column_stack([A, A, -A[:, :5]])
        for _ in range(10):
            y = 3 * rng.standard_normal(60)
            u = ez.sets.Box(-0.2, 0.1).minimise_quadratic(A.T @ A, A.T @ y, np.arange(45), np.zeros(45))
            assert (u >= -0.2).all() and (u <= 0.1).all()
            assert np.sum((A @ u - y) ** 2) == pytest.approx(2 * lsq_linear(A, y, (-0.2, 0.1)).cost, rel=1e-6)
