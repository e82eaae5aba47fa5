"""What a run costs beside the data, in looks at it and in memory, where vectors or supports are long."""

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from test_many_moves import quadratic, table_at

import ellzero as ez
from ellzero._core.arrays import top_k
from ellzero.design import as_design
from ellzero.solver.exchanges import SwapSearch
from ellzero.solver.minorant import Minorant


def wide(seed, n=2000, d=20_000, per_column=5, index=np.int64):
    """Few entries in each column, as words in texts have."""
    rng = np.random.default_rng(seed)
    m = per_column * d
    at = rng.integers(0, n, m).astype(index), rng.integers(0, d, m).astype(index)
    X = sparse.csr_array((rng.standard_normal(m), at), shape=(n, d))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


class TestLongVectors:
    @given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from(["normal", "ties", "sparse", "few"]))
    @settings(max_examples=40, deadline=None)
    def test_the_largest_are_those_of_a_sort(self, seed, k, kind):
        rng = np.random.default_rng(seed)
        a = np.abs(rng.standard_normal(512 * k + int(rng.integers(0, 200))))
        if kind == "ties":
            a = np.round(a)
        elif kind == "sparse":
            a[rng.random(a.size) < 0.99] = 0.0
        elif kind == "few":
            a[k // 2 :] = 0.0
        assert top_k(a, k)[0].tolist() == np.sort(np.argsort(-a, kind="stable")[:k]).tolist()

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("place", [0, 700, -1])
    def test_what_is_not_finite_is_found_wherever_it_is(self, value, place):
        a = np.arange(5000.0)
        a[place] = value
        assert not top_k(a, 2)[1]


class TestSparse:
    @pytest.mark.parametrize("index", [np.int32, np.int64])
    @pytest.mark.parametrize("format", ["csr", "csc"])
    def test_products_stay_the_same_with_a_copy_by_columns(self, index, format):
        X = wide(0, 300, 4000, index=index).asformat(format)
        design, r = as_design(X), np.random.default_rng(1).standard_normal(300)
        before = design.adjoint(r)
        some = np.array([3, 5, 400])
        np.testing.assert_array_equal(design.columns(some).dense(), X.toarray()[:, some])
        np.testing.assert_allclose(design.adjoint(r), before, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(design.squares, X.toarray().T ** 2 @ np.ones(300), rtol=1e-12)

    def test_products_with_few_rows_are_those_with_all(self):
        X = wide(0, 300, 4000)
        few = np.zeros((300, 3))
        few[[7, 250]] = np.random.default_rng(2).standard_normal((2, 3))
        np.testing.assert_allclose(as_design(X).adjoint(few), X.T @ few, atol=1e-14)

    def test_places_get_different_newcomers_in_one_round(self, monkeypatch):
        """Where columns have little in common every place names the same newcomer; 54 rounds were needed for these."""
        X = wide(4, n=3000)
        rng, S = np.random.default_rng(4), np.arange(0, 6000, 150)
        y = np.sign(X[:, S] @ rng.choice([-2.0, 2.0], S.size) + 0.5 * rng.standard_normal(X.shape[0]))
        rounds, one = [], SwapSearch._round

        def counted(self, *rest):
            rounds.append(one(self, *rest))
            return rounds[-1]

        monkeypatch.setattr(SwapSearch, "_round", counted)
        res = ez.minimize(ez.risks.Logistic(X, y, ridge=0.01), 60)
        counts = len(rounds)
        monkeypatch.setattr(SwapSearch, "_all_at_once", lambda *rest: None)
        one_by_one = ez.minimize(ez.risks.Logistic(X, y, ridge=0.01), 60)
        assert res.fun <= one_by_one.fun * (1 + 1e-9)
        assert counts < 0.6 * (len(rounds) - counts)

    def test_exchanges_are_ruled_out_where_columns_of_the_curvature_are_longer_than_x(self):
        """Twenty of these take more memory than X; what is kept of them does not."""
        X = wide(2, 2000, 600_000, 2)
        rng, S = np.random.default_rng(2), np.arange(0, 600_000, 30_000)
        y = X[:, S] @ rng.choice([-1.0, 1.0], S.size) + 0.3 * rng.standard_normal(2000)
        res = ez.minimize(ez.risks.LeastSquares(X, y), S.size)
        assert res.exchanges.by_formula == res.exchanges.total == 20 * (600_000 - 20)
        assert res.n_gradients < 100 * 2000

    @pytest.mark.parametrize(("risk", "most"), [(ez.risks.LeastSquares, 2.0), (ez.risks.Logistic, 2.6)])
    def test_memory_beside_x_is_a_copy_and_few_vectors(self, risk, most):
        """X with ten entries in each column is as large as twenty vectors like w; 2.8 and 3.0 times that was held."""
        X = wide(0, 20_000, 100_000, 10)
        rng, S = np.random.default_rng(0), np.arange(0, 100_000, 2000)
        y = np.sign(X[:, S] @ rng.choice([-2.0, 2.0], S.size) + 0.5 * rng.standard_normal(X.shape[0]))
        ez.minimize(risk(wide(0, 300, 4000), y[:300], ridge=0.01), 20)  # loads what is needed
        assert beside(X, lambda: ez.minimize(risk(X, y, ridge=0.01), 60)) < most


def beside(X, call):
    """The peak of what a call takes, in shares of X."""
    size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return (tracemalloc.get_traced_memory()[1] - before) / size
    finally:
        tracemalloc.stop()


class TestManyColumns:
    @given(st.integers(0, 10**6), st.booleans(), st.lists(st.integers(0, 11), max_size=6))
    @settings(max_examples=60, deadline=None)
    def test_the_first_exchange_of_a_table_is_the_best_of_all(self, seed, positive, pivots):
        """Also while pivots wait, and with places left out that nobody can pay for."""
        G, b, _ = quadratic(seed, 12)
        table, _ = table_at(G, b, list(range(6)), list(range(6, 12)), 7, positive=positive)
        for p in pivots:
            table.pivot(p)
        table.k = int(table.inside.sum()) + seed % 2
        pairs = [(table._gain(j, i), j, i) for j in range(12) for i in (*np.flatnonzero(table.inside), -1)]
        allowed = [gain for gain, j, i in pairs if not table.inside[j] and (i >= 0 or seed % 2)]
        found = table._ranked(1e-9)
        most = max(allowed, default=-np.inf)
        if found:
            assert found[0][0] == pytest.approx(most, rel=1e-8)
        else:
            assert most <= 1e-9 * (1 + 1e-6)

    @pytest.mark.parametrize("kind", ["copies", "zeros", "scales", "few rows"])
    def test_places_are_ranked_where_columns_are_degenerate(self, kind):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60 if kind == "few rows" else 300, 400))
        if kind == "copies":
            X[:, 200:] = X[:, :200]
        elif kind == "zeros":
            X[:, ::3] = 0.0
        elif kind == "scales":
            X *= 10.0 ** rng.integers(-8, 9, 400)
        y = X @ (rng.random(400) < 0.3) + 0.1 * rng.standard_normal(len(X))
        for gamma in (None, ez.sets.NonNegative()):
            res = ez.minimize(ez.risks.LeastSquares(X, y), 150, gamma)
            assert np.isfinite(res.fun)
            assert res.fun <= float(y @ y) / len(y)
            assert res.support.size <= 150

    @pytest.mark.parametrize(
        ("order", "dtype", "gamma", "most"),
        [
            ("C", float, None, 0.8),
            ("F", float, None, 0.6),
            ("F", float, ez.sets.NonNegative(), 0.45),  # newcomers whose slopes lead nowhere are left out
            ("F", np.float32, None, 1.2),  # all of these are in double precision, but columns are not copied to it
        ],
    )
    def test_memory_beside_x_where_a_fifth_of_the_columns_is_kept(self, order, dtype, gamma, most):
        """Products of these columns with each other and with all others, 15% of X; blocks; the columns, if X is by rows.

        A block, which is no larger beside a larger X, is a quarter of this one.
        """
        rng = np.random.default_rng(0)
        X = np.asarray(rng.standard_normal((3000, 1500)), order=order, dtype=dtype)
        y = X[:, :300] @ rng.uniform(1, 2, 300) + rng.standard_normal(3000)
        ez.minimize(ez.risks.LeastSquares(X[:400], y[:400]), 130, gamma)
        assert beside(X, lambda: ez.minimize(ez.risks.LeastSquares(X, y), 300, gamma)) < most

    def test_a_limit_holds_inside_pivots(self, monkeypatch):
        """In processor time, whatever else the machine does."""
        rng = np.random.default_rng(0)
        X, S = rng.standard_normal((900, 9000)), rng.choice(9000, 540, replace=False)
        y = X[:, S] @ (rng.uniform(1, 2, 540) * rng.choice([1, 1, 1, -1], 540)) + rng.standard_normal(900)
        ez.minimize(ez.risks.LeastSquares(X[:300, :400], y[:300]), 130, ez.sets.NonNegative())
        start, now = time.process_time(), time.perf_counter()
        monkeypatch.setattr(time, "perf_counter", lambda: now + time.process_time() - start)
        res = ez.minimize(ez.risks.LeastSquares(X, y), 540, ez.sets.NonNegative(), time_limit=0.5)
        assert res.status is ez.Status.TIME_LIMIT
        assert time.process_time() - start < 1.1


def test_gains_and_costs_are_the_same_in_parts(monkeypatch):
    from ellzero.sets.multipliers import Multipliers

    rng = np.random.default_rng(0)
    up, down, curvature, doubt, x = rng.standard_normal((5, 1000))
    slopes = Multipliers(up, down, np.abs(curvature), 1e-3 * np.abs(doubt), 0.5)
    limits = np.full(1000, -2.0), np.full(1000, 3.0)
    of = Minorant(np.clip(x, -2, 3), slopes, np.full(1000, 1e-6), limits)
    delta = rng.random(1000)
    whole = [of.gains_and_costs(0.7), of.gains_and_costs(delta)]
    monkeypatch.setattr("ellzero.solver.minorant._AT_ONCE", 7)
    for first, again in zip(whole, (of.gains_and_costs(0.7), of.gains_and_costs(delta)), strict=True):
        np.testing.assert_array_equal(first, again)
