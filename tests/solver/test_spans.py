"""What columns have in the span of the kept ones: beside all columns of G, in double and in single precision."""

import numpy as np
import pytest

import ellzero as ez
from ellzero.design import as_design, dense
from ellzero.solver import atom_moves, pair_moves, spans
from ellzero.solver.exchanges import SwapSearch
from ellzero.solver.problem import make_problem
from ellzero.solver.spans import Span
from ellzero.sparsity import Groups

N, D = 60, 30


def risk_of(seed, kind):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((N, D)) + 30.0 * (kind == "intercept")) * 10.0 ** rng.uniform(-8, 8, D)
    more = {
        "plain": {},
        "ridge": {"ridge": 0.3},
        "intercept": {"fit_intercept": True},
        "weights": {"sample_weight": rng.uniform(0.5, 2.0, N), "fit_intercept": True},
    }
    return ez.risks.LeastSquares(X, rng.standard_normal(N), **more[kind])


@pytest.fixture(params=[False, True], ids=["double", "single"])
def rough(request, monkeypatch):
    """Whether data as small as here are taken for so large that single precision is quicker."""
    if request.param:
        monkeypatch.setattr(dense, "_LARGE", 0)
    return request.param


def model_of(risk):
    return risk.curvature(risk.at(risk.zero))


def inverse(G):
    size = np.sqrt(np.diagonal(G))
    return np.linalg.inv(G / size / size[:, None]) / size / size[:, None]


@pytest.mark.parametrize("kind", ["plain", "ridge", "intercept", "weights"])
def test_products_rows_and_overlaps_are_those_of_all_columns(kind, rough):
    risk = risk_of(0, kind)
    model, span, tolerance = model_of(risk), Span(model_of(risk)), 1e-4 if rough else 1e-10
    assert model.is_rough == (rough and kind != "intercept")  # where means are large all digits are needed
    rng, G = np.random.default_rng(1), model.columns(np.arange(D))
    size = np.sqrt(np.diagonal(G))
    for S in ([2, 3, 9, 10], [3, 10, 9, 20, 21], [0, 20], [4, 5, 6, 7, 8, 9, 10]):  # in any order, with and without
        S = np.array(S)
        kept, others = span.of(S), np.setdiff1d(np.arange(D), S)
        C, H, J = G[:, S], inverse(G[np.ix_(S, S)]), np.array([others[:3], others[3:6]])
        far = np.abs(kept.rows(others) - C[others]) / size[others, None] / size[S]
        assert far.max() < tolerance
        U = rng.standard_normal((S.size, 2)) / size[S, None]
        assert (np.abs(kept.times(U) - C @ U)[others] / size[others, None]).max() < 10 * tolerance
        found, exact = kept.overlaps(J, H), C[J] @ H @ C[J].swapaxes(1, 2)
        assert (np.abs(found - exact) / size[J][:, :, None] / size[J][:, None, :]).max() < 10 * tolerance


def test_each_column_is_multiplied_once(rough):
    model = model_of(risk_of(0, "plain"))
    span = Span(model)
    for S, new in (([1, 2, 3], 3), ([1, 2, 3], 0), ([2, 3, 7, 8], 2), ([1, 7], 0), ([8, 9], 1)):
        before = model.spent
        assert span.of(np.array(S)) is not None
        assert model.spent - before == new


def test_what_is_known_stays_little(monkeypatch):
    monkeypatch.setattr(spans, "_FEW", 0)
    span = Span(model_of(risk_of(0, "plain")))
    for start in range(20):
        span.of(np.arange(start, start + 5))
        assert span.columns.size <= 3 * 5


class TestColumnsThatDependOnEachOther:
    def span(self, change):
        X = np.random.default_rng(0).standard_normal((N, D))
        change(X)
        return Span(model_of(ez.risks.LeastSquares(X, np.ones(N))))

    def test_copies_and_zeros_have_no_basis(self):
        span = self.span(lambda X: X.__setitem__((slice(None), 5), X[:, 4]))
        assert span.of(np.array([4, 5])) is None and span.of(np.array([4, 6])) is not None
        span = self.span(lambda X: X.__setitem__((slice(None), 5), 0.0))
        assert span.of(np.array([5, 6])) is None

    def test_a_copy_in_the_place_of_the_first_begins_anew(self):
        span = self.span(lambda X: X.__setitem__((slice(None), 5), X[:, 4]))
        assert span.of(np.array([3, 4])) is not None
        kept = span.of(np.array([3, 5]))
        assert sorted(span.columns) == [3, 5]
        np.testing.assert_allclose(kept.rows(np.array([7])), span.model.columns(np.array([3, 5]))[[7]], rtol=1e-10)


class TestRoughProducts:
    @pytest.mark.parametrize("order", "CF")
    @pytest.mark.parametrize("block", [1, 7, 64, 2**18])
    def test_are_the_products_however_the_data_are_cut(self, order, block, monkeypatch):
        monkeypatch.setattr(dense, "_IN_CACHE", block)
        monkeypatch.setattr(dense, "_IN_BLOCK", max(block, D))
        rng = np.random.default_rng(0)
        X, r = np.asarray(rng.standard_normal((N, D)), order=order), rng.standard_normal((N, 3))
        out = np.full((3, D), np.nan, dtype=np.float32)
        as_design(X).rough_adjoint(r, out)
        np.testing.assert_allclose(out, r.T @ X, atol=1e-5)

    def test_numbers_of_any_size_are_not_for_single_precision(self, monkeypatch):
        monkeypatch.setattr(dense, "_LARGE", 0)
        X = np.random.default_rng(0).standard_normal((N, D))
        assert as_design(X).has_rough_adjoint
        for scale in (1e-20, 1e20):
            assert not as_design(X * np.where(np.arange(D) == 3, scale, 1.0)).has_rough_adjoint
        X[:, 3] = 0.0
        assert as_design(X).has_rough_adjoint
        assert not as_design(X.astype(np.float32)).has_rough_adjoint


def degenerate(seed):
    """Groups with copies of others, of zeros, of constants, with columns of sizes from 1e-8 to 1e8."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(16), rng.integers(1, 5, 16))
    X = rng.standard_normal((80, group.size)) + rng.standard_normal((80, 1))
    first = np.flatnonzero(group == 0)
    X[:, np.flatnonzero(group == 15)[: first.size]] = X[:, first[: np.count_nonzero(group == 15)]]
    X[:, group == 3] = 0.0
    X[:, group == 6] = 1.0
    X *= 10.0 ** rng.uniform(-8, 8, 16)[group]
    w = np.where(np.isin(group, [0, 4, 9, 12]), rng.standard_normal(group.size), 0.0)
    size = np.linalg.norm(X, axis=0)
    return X, X @ (w / np.where(size > 0, size, 1.0)) + 0.02 * rng.standard_normal(80), group


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("intercept", [False, True])
def test_answers_are_those_of_double_precision(seed, intercept, monkeypatch):
    X, y, group = degenerate(seed)
    found = []
    for large in (10**9, 0):
        monkeypatch.setattr(dense, "_LARGE", large)
        found.append(ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=intercept), Groups(4, group)))
    assert found[1].fun == pytest.approx(found[0].fun, rel=1e-9)
    assert found[1].sparsity.count(found[1].x) <= 4


@pytest.mark.parametrize("seed", range(6))
def test_gains_in_single_precision_are_those_of_refits(seed, monkeypatch):
    monkeypatch.setattr(dense, "_LARGE", 0)
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(12), rng.integers(1, 6, 12))
    X = rng.standard_normal((90, group.size)) + rng.standard_normal((90, 1))
    y = X @ np.where(np.isin(group, [1, 2, 3]), 1.0, 0.0) + rng.standard_normal(90)
    risk = ez.risks.LeastSquares(X, y)
    problem = make_problem(risk, Groups(3, group), ez.sets.Everywhere(), None)
    search, tried = SwapSearch(problem), []
    start = search.refit(np.flatnonzero(np.isin(group, [0, 5, 7])), None)
    monkeypatch.setattr(search, "_try", lambda moves, point, S: tried.extend(moves) or point)
    search.improve(start)
    assert search.products.span.V.dtype == np.float32 and tried
    for move in tried:
        after = np.flatnonzero(np.isin(group, np.setdiff1d([0, 5, 7], group[list(move.out)]))).tolist()
        value = search._refit_from_data(np.sort([*after, *move.into]), None).value
        assert move.gain == pytest.approx(start.value - value, rel=1e-4)


def correlated_groups(seed):
    """A risk, groups of one to three columns, and a start of six of them."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(20), rng.integers(1, 4, 20))
    X = rng.standard_normal((60, group.size))
    for j in range(1, group.size):
        X[:, j] += 1.5 * X[:, j - 1]
    X /= np.linalg.norm(X, axis=0)
    w = rng.standard_normal(group.size) * np.isin(group, rng.choice(20, 6, replace=False))
    risk, start = ez.risks.LeastSquares(X, X @ w + 0.02 * rng.standard_normal(60)), rng.choice(20, 6, replace=False)
    return risk, group, np.flatnonzero(np.isin(group, start))


def test_no_pair_that_pays_is_given_up_unseen(monkeypatch):
    ranked, hopeful, given_up = pair_moves.PairMoves.ranked, pair_moves.PairMoves._hopeful, []

    def both(self, doubt, least):
        found = ranked(self, doubt, least)
        with monkeypatch.context() as patch:
            patch.setattr(pair_moves.PairMoves, "_hopeful", lambda self, removals, doubt, least: removals)
            assert ranked(self, doubt, least) == found
        return found

    def counted(self, removals, doubt, least):
        left = hopeful(self, removals, doubt, least)
        given_up.append(len(removals) - len(left))
        return left

    monkeypatch.setattr(pair_moves.PairMoves, "ranked", both)
    monkeypatch.setattr(pair_moves.PairMoves, "_hopeful", counted)
    for seed in range(30):
        risk, group, start = correlated_groups(seed)
        search = SwapSearch(make_problem(risk, Groups(6, group), ez.sets.Everywhere(), None))
        search.improve(search.refit(start, None))
    assert sum(given_up) > 0  # in which of them depends on the last digits, and so on the machine


def test_blocks_of_several_sizes_are_those_of_each():
    rng = np.random.default_rng(0)
    model = model_of(ez.risks.LeastSquares(rng.standard_normal((20, 40)), rng.standard_normal(20)))
    parts = [index for _, index in atom_moves.layout(np.repeat(np.arange(13), [1, 5, 2, 4, 3, 3, 6, 1, 2, 5, 4, 3, 1]))]
    assert len(parts) > 2
    for index, G in zip(parts, atom_moves._blocks(parts, model), strict=True):
        np.testing.assert_allclose(G, model.blocks(index), atol=1e-12)
