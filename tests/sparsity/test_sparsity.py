"""Sparsities of one's own go through the whole of the solver; the referee enumerates supports with its own solver."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import nnls
from scipy.special import logsumexp

import ellzero as ez
from ellzero import sets as S
from ellzero.sparsity import Coordinates, Sparsity, as_sparsity


class WholeGroups(Sparsity):
    """{w : nonzero in at most k groups}."""

    counted = "groups"

    def __init__(self, k, atoms):
        self.k, self.atoms, self.n_features = k, np.asarray(atoms), len(atoms)

    def with_k(self, k):
        return WholeGroups(k, self.atoms)

    def best_support(self, v, keep=None):
        size = np.bincount(self.atoms, v**2)
        size[self.atoms[[] if keep is None else keep]] = np.inf
        return np.flatnonzero(np.isin(self.atoms, np.argsort(-size, kind="stable")[: self.k]))


class FewInEach(Sparsity):
    """{w : at most k nonzeros, at most `most_each` of them in each group}."""

    def __init__(self, k, groups, most_each):
        self.k, self.groups, self.most_each, self.n_features = k, np.asarray(groups), most_each, len(groups)

    def with_k(self, k):
        return FewInEach(k, self.groups, self.most_each)

    def most(self, n_features):
        return int(np.minimum(np.bincount(self.groups), self.most_each).sum())

    def admits(self, support):
        return support.size <= self.k and (np.bincount(self.groups[support]) <= self.most_each).all()

    def best_support(self, v, keep=None):
        chosen = [] if keep is None else list(keep)
        for j in np.argsort(-np.abs(v), kind="stable").tolist():
            if j not in chosen and self.admits(np.array([*chosen, j])):
                chosen.append(j)
        return np.sort(np.array(chosen, dtype=np.intp))

    def exchangeable(self, support, newcomers):
        used = np.bincount(self.groups[support], minlength=self.groups.max() + 1)
        free = (used < self.most_each)[self.groups[newcomers]]
        same = self.groups[newcomers][:, None] == self.groups[support]
        return np.column_stack([same | free[:, None], free])


class OfRank(Sparsity):
    """{w : as a matrix of this shape of rank at most k}: no matter of coordinates."""

    counted, of_coordinates = "ranks", False

    def __init__(self, k, shape):
        self.k, self.shape, self.n_features = k, shape, shape[0] * shape[1]

    def with_k(self, k):
        return OfRank(k, self.shape)

    def most(self, n_features):
        return min(self.shape)

    def count(self, w):
        return int(np.linalg.matrix_rank(w.reshape(self.shape), tol=1e-8))

    def project(self, v, keep=None):
        U, s, V = np.linalg.svd(v.reshape(self.shape), full_matrices=False)
        return ((U[:, : self.k] * s[: self.k]) @ V[: self.k]).ravel(), None


def data(seed, n=60, d=24, correlation=0.7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + correlation * rng.standard_normal((n, 1))
    w = np.where(rng.random(d) < 0.3, rng.standard_normal(d), 0.0)
    return X, X @ w + 2.0 * rng.standard_normal(n)


def groups_of(d, size=3):
    return np.repeat(np.arange(d // size), size)


def best(X, y, supports, nonnegative=False):
    """min (1/n)||Xw - y||² over the supports, by another solver."""

    def loss(support):
        A = X[:, support]
        w = nnls(A, y)[0] if nonnegative else np.linalg.lstsq(A, y, rcond=None)[0]
        return float(np.mean((A @ w - y) ** 2))

    return min(map(loss, supports))


def unions(groups, k):
    for chosen in itertools.combinations(np.unique(groups), k):
        yield np.flatnonzero(np.isin(groups, chosen))


class TestWholeGroups:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("nonnegative", [False, True])
    def test_auto_finds_what_enumeration_finds(self, seed, nonnegative):
        X, y = data(seed)
        groups = groups_of(24)
        gamma = S.NonNegative() if nonnegative else None
        res = ez.minimize(ez.risks.LeastSquares(X, y), WholeGroups(3, groups), gamma)
        assert res.fun == pytest.approx(best(X, y, unions(groups, 3), nonnegative), rel=1e-9)
        assert np.unique(groups[res.support]).size <= 3 == res.k
        assert isinstance(res.sparsity, WholeGroups)

    @pytest.mark.parametrize("seed", range(5))
    def test_no_exchange_of_groups_helps_where_not_all_are_tried(self, seed):
        X, y = data(seed, d=36)
        groups, risk = groups_of(36), ez.risks.LeastSquares(X, y)  # 220 supports: more than are tried one by one
        res = ez.minimize(risk, WholeGroups(3, groups))
        used = set(groups[res.support].tolist())
        exchanged = [used - {out} | {into} for out in used for into in set(groups.tolist()) - used]
        assert res.fun <= best(X, y, [np.flatnonzero(np.isin(groups, list(u))) for u in exchanged]) * (1 + 1e-9)

    def test_further_starts_give_up_whole_groups(self):
        X, y = data(5, d=36)
        risk, sparsity = ez.risks.LeastSquares(X, y), WholeGroups(6, groups_of(36))
        res = ez.minimize(risk, sparsity, method=ez.preset("auto", n_starts=8), rng=2)
        assert res.fun == pytest.approx(best(X, y, unions(sparsity.atoms, 6)), rel=1e-9)
        assert res.fun <= ez.minimize(risk, sparsity).fun

    @pytest.mark.parametrize("gamma", [S.L2Ball(2.0), S.NonNegative(), None])
    def test_the_papers_method(self, gamma):
        X, y = data(3)
        groups = groups_of(24)
        risk = ez.risks.LeastSquares(X, y)
        res = ez.minimize(risk, WholeGroups(3, groups), gamma, method="IHT-2SP", max_iter=5000)
        on = np.flatnonzero(np.isin(groups, groups[res.support]))
        again = ez.minimize(risk, WholeGroups(3, groups), gamma, x0=res.x)
        assert np.unique(groups[res.support]).size <= 3 and again.fun <= res.fun * (1 + 1e-12)
        if gamma is None:  # a stationary point: the best values on its groups
            assert res.fun == pytest.approx(best(X, y, [on]), rel=1e-4)

    def test_a_path_walks_along_k(self):
        X, y = data(1)
        groups = groups_of(24)
        risk = ez.risks.LeastSquares(X, y)
        path = ez.minimize_path(risk, WholeGroups(4, groups), both_ways=True)
        assert path.ks.tolist() == [1, 2, 3, 4] and (np.diff(path.fun) <= 0).all()
        for k, res in zip(path.ks, path, strict=True):
            assert res.fun == pytest.approx(best(X, y, unions(groups, k)), rel=1e-9)
            assert res.sparsity.k == res.k == k
        chosen = ez.minimize_path(risk, [WholeGroups(4, groups), WholeGroups(2, groups)])
        assert chosen.ks.tolist() == [2, 4]
        with pytest.raises(TypeError, match="ks must be of one kind, got Coordinates and WholeGroups"):
            ez.minimize_path(risk, [1, WholeGroups(2, groups)])
        with pytest.warns(UserWarning, match="ks goes up to 9, which is greater than the number of groups, 8"):
            assert ez.minimize_path(risk, WholeGroups(9, groups)).ks.tolist() == list(range(1, 9))

    def test_kept_coordinates_bring_their_group(self):
        X, y = data(2)
        groups = groups_of(24)
        risk = ez.risks.LeastSquares(X, y)
        res = ez.minimize(risk, WholeGroups(2, groups), keep=[10])
        kept = [support for support in unions(groups, 2) if 10 in support]
        assert res.fun == pytest.approx(best(X, y, kept), rel=1e-9)
        with pytest.raises(ValueError, match="keep names 3 coordinates of 3 groups, more than at most 2 groups allows"):
            ez.minimize(risk, WholeGroups(2, groups), keep=[0, 4, 10])

    def test_rows_are_features_whatever_the_class(self):
        rng = np.random.default_rng(0)
        X, p = rng.standard_normal((80, 7)), 7
        y = np.argmax(X[:, [1, 4, 4]] * [1.0, 1.0, -1.0] + rng.gumbel(size=(80, 3)), axis=1)
        res = ez.minimize(ez.risks.Multinomial(X, y, ridge=0.1), WholeGroups(2, np.tile(np.arange(p), 3)))

        def loss(features):
            def value(flat):
                scores = X[:, features] @ flat.reshape(3, 2).T
                return np.mean(logsumexp(scores, axis=1) - scores[np.arange(80), y]) + 0.05 * flat @ flat

            return scipy_minimize(value, np.zeros(6), tol=1e-12).fun

        assert res.fun == pytest.approx(min(map(loss, map(list, itertools.combinations(range(p), 2)))), rel=1e-6)
        assert np.unique(res.support % p).size == 2

    def test_a_run_is_resumed_with_the_same_sparsity_alone(self, tmp_path):
        X, y = data(0)
        risk, sparsity, file = ez.risks.LeastSquares(X, y), WholeGroups(2, groups_of(24)), tmp_path / "run.npz"
        run = {"method": "IHT-2SP", "tol": 0.0}
        ez.minimize(risk, sparsity, max_iter=5, checkpoint=file, **run)
        resumed = ez.minimize(risk, sparsity, max_iter=9, resume=file, **run)
        assert resumed.fun == ez.minimize(risk, sparsity, max_iter=9, **run).fun
        with pytest.raises(ValueError, match="sparsity"):
            ez.minimize(risk, 2, max_iter=9, resume=file, **run)

    def test_words(self):
        X, y = data(0)
        risk, sparsity = ez.risks.LeastSquares(X, y), WholeGroups(2, groups_of(24))
        assert "nonzeros     6, in 2 of at most 2 groups" in repr(ez.minimize(risk, sparsity))
        with pytest.warns(UserWarning, match="k=99 is greater than the number of groups, 8: all features are allowed"):
            ez.minimize(risk, sparsity.with_k(99))
        with pytest.raises(ValueError, match=r"WholeGroups\(k=2\) is made for 21 coordinates, w has 24"):
            ez.minimize(risk, WholeGroups(2, groups_of(21)))
        with pytest.warns(UserWarning, match="x0 is infeasible \\(24 nonzeros, at most 2 groups"):
            ez.minimize(risk, sparsity, x0=np.ones(24))

    def test_what_is_not_known_is_refused(self):
        X, y = data(0)
        risk, sparsity = ez.risks.LeastSquares(X, y), WholeGroups(2, groups_of(24))
        gamma = S.L1Ball(1.0)
        assert gamma.sparse_maximum(y[:24], sparsity, 1.0) is None and not gamma.knows_maximum(sparsity)
        res = ez.minimize(risk, sparsity, gamma)
        assert res.projection == "two-step"
        with pytest.raises(ValueError, match="members with at most 2 groups of L1Ball.* is not known.*'two-step'"):
            ez.euclidean_projection(y[:24], sparsity, gamma)
        assert ez.certify(risk, res).lower_bound <= res.fun  # its atoms tell all about it
        own = FewInEach(4, groups_of(24), 1)
        with pytest.raises(ValueError, match=r"no relaxation is known for FewInEach\(k=4\): proofs go over"):
            ez.minimize(risk, own, method="exact")
        assert "no relaxation is known for FewInEach" in repr(ez.certify(risk, ez.minimize(risk, own)))
        stopped = ez.minimize(risk, own, method="IHT-2SP", target_gap=0.1)
        assert "no relaxation is known for FewInEach" in repr(stopped.certificate)
        assert "is no matter of supports" in repr(ez.certify(risk, ez.minimize(risk, OfRank(1, (4, 6)))))
        lifted = ez.risks.LeastSquares(X, y, fit_intercept=True)
        with pytest.raises(ValueError, match="carry the intercept as a further coordinate, for which WholeGroups"):
            ez.minimize(lifted, sparsity, method="StoIHT", max_iter=3, rng=0)


class TestEstimators:
    def test_pass_it_through(self):
        X, y = data(1)
        sparsity = WholeGroups(3, groups_of(24))
        model = ez.SparseRegressor(k=sparsity, fit_intercept=False, standardize=False).fit(X, y)
        assert model.result_.sparsity.atoms is sparsity.atoms and model.k_ == 3
        assert model.result_.fun == pytest.approx(best(X, y, unions(sparsity.atoms, 3)), rel=1e-9)

    def test_cross_validation_walks_along_it(self):
        X, y = data(1)
        model = ez.SparseRegressorCV(ks=WholeGroups(3, groups_of(24)), cv=3, keep=[0, 4]).fit(X, y)
        assert np.unique(model.cv_results_["k"]).tolist() == [2, 3]
        assert model.result_.k == model.k_ and isinstance(model.result_.sparsity, WholeGroups)


class TestFewInEach:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("d", [10, 18])  # all supports are tried, and exchanges
    def test_auto_finds_what_enumeration_finds(self, seed, d):
        X, y = data(seed, d=d)
        groups = np.arange(d) % 3
        sparsity = FewInEach(4, groups, 2)
        res = ez.minimize(ez.risks.LeastSquares(X, y), sparsity, method=ez.preset("auto", n_starts=5), rng=0)
        supports = (np.array(s) for s in itertools.combinations(range(d), 4) if np.bincount(groups[list(s)]).max() <= 2)
        assert res.fun == pytest.approx(best(X, y, supports), rel=1e-9)
        assert np.bincount(groups[res.support]).max() <= 2

    def test_k_is_at_most_what_the_quotas_allow(self):
        assert FewInEach(50, np.arange(9) % 3, 2).within(9).k == 6


class TestRank:
    """A choice that is not a set of coordinates: gradient steps are all it needs."""

    def problem(self):
        rng = np.random.default_rng(0)
        target = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((6, 5))
        return ez.risks.Quadratic(np.eye(30), target.ravel()), target

    @pytest.mark.parametrize("method", ["auto", "IHT-2SP", "PGD"])
    def test_the_nearest_matrix(self, method):
        risk, target = self.problem()
        res = ez.minimize(risk, OfRank(2, (6, 5)), method=method)
        U, s, V = np.linalg.svd(target)
        np.testing.assert_allclose(res.x.reshape(6, 5), (U[:, :2] * s[:2]) @ V[:2], atol=1e-6)
        assert res.k == 2 and "30, in 2 of at most 2 ranks" in repr(res)

    def test_what_it_cannot_do(self):
        risk, _ = self.problem()
        with pytest.raises(
            ValueError, match="keep names coordinates, and at most 2 ranks are no matter of coordinates"
        ):
            ez.minimize(risk, OfRank(2, (6, 5)), keep=[3])
        with pytest.raises(ValueError, match="needs a support-preserving set"):
            ez.minimize(risk, OfRank(2, (6, 5)), S.NonNegative(), method="IHT-2SP")
        with pytest.raises(
            ValueError, match="projection onto the members with at most 2 ranks of NonNegative.* is not known"
        ):
            ez.minimize(risk, OfRank(2, (6, 5)), S.NonNegative())


class TestCoordinates:
    def test_is_what_an_int_means(self):
        X, y = data(0)
        risk = ez.risks.LeastSquares(X, y)
        a, b = ez.minimize(risk, 3), ez.minimize(risk, Coordinates(3))
        assert a.fun == b.fun and a.n_gradients == b.n_gradients and a.k == b.k == 3 and type(a.sparsity) is Coordinates
        v, gamma = y[:10], S.L1Ball(1.0)
        for projection in (ez.two_step_projection, ez.euclidean_projection, ez.restricted_projection):
            np.testing.assert_array_equal(projection(v, 3, gamma), projection(v, Coordinates(3), gamma))
        assert gamma.sparse_maximum(v, 3, 1.0)[0] == gamma.sparse_maximum(v, Coordinates(3), 1.0)[0]
        assert ez.certify(risk, b).lower_bound <= b.fun

    def test_a_subclass_is_another_sparsity(self):
        class Even(Coordinates):
            """At most k nonzeros, at even places."""

            def admits(self, support):
                return support.size <= self.k and not (support % 2).any()

        assert Coordinates(2).plain and not Even(2).plain and type(Even(2).with_k(3)) is Even
        assert as_sparsity(2).admits(np.arange(2)) and not Even(2).admits(np.arange(2))

    @pytest.mark.parametrize("bad", [2.5, True, "2", None])
    def test_refuses_what_is_no_k(self, bad):
        with pytest.raises(TypeError, match="k must be an integer"):
            Coordinates(bad)


def test_a_run_is_not_resumed_with_other_groups(tmp_path):
    rng = np.random.default_rng(0)
    risk, groups = ez.risks.LeastSquares(rng.standard_normal((20, 6)), rng.standard_normal(20)), np.arange(6) // 2
    options = {"method": "IHT-2SP", "tol": 0}
    ez.minimize(risk, WholeGroups(2, groups), checkpoint=tmp_path / "run.npz", max_iter=4, **options)
    with pytest.raises(ValueError, match="resume"):
        ez.minimize(risk, WholeGroups(2, groups[::-1].copy()), resume=tmp_path / "run.npz", max_iter=9, **options)


def test_cross_validation_walks_one_sparsity():
    X = np.random.default_rng(0).standard_normal((20, 4))
    with pytest.raises(TypeError, match="ks must be numbers, or one sparsity"):
        ez.SparseRegressorCV(ks=[ez.sparsity.Coordinates(1), ez.sparsity.Coordinates(2)], cv=2).fit(X, X[:, 0])
    assert ez.sparsity.Coordinates(3) == ez.sparsity.Coordinates(3) != ez.sparsity.Coordinates(4)


@pytest.mark.parametrize(
    ("k", "there"), [(Coordinates(50), "coefficients"), (WholeGroups(9, np.arange(4) // 2), WholeGroups.counted)]
)
def test_estimators_warn_of_more_than_there_is(k, there):
    X = np.random.default_rng(0).standard_normal((20, 4))
    with pytest.warns(UserWarning, match=f"k={k.k} is more than there are {there}"):
        ez.SparseRegressor(k=k).fit(X, X[:, 0])
