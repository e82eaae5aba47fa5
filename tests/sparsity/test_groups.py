"""Groups, quotas and rows: what they count and keep, what they refuse, and the whole of the solver with them."""

import itertools
import re
from pathlib import Path

import array_api_strict
import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from common import membership
from ellzero import sets as S
from ellzero.solver.projections import first_that_fits
from ellzero.sparsity import Coordinates, Groups, PerGroup, Rows

LABELS = ["a", "a", "b", "b", "b", None]


def data(seed, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    return X, X @ np.where(rng.random(d) < 0.6, rng.standard_normal(d), 0.0) + rng.standard_normal(n)


class TestReading:
    @pytest.mark.parametrize(
        ("groups", "error", "words"),
        [
            ("abc", TypeError, "groups must be a label for each coordinate, or lists of indices, got 'abc'"),
            (3, TypeError, "groups must be a label for each coordinate"),
            ([], ValueError, "groups must not be empty"),
            ([None, np.nan], ValueError, "groups must name at least one coordinate, got none: give a label for each"),
            ([{}, "a"], TypeError, "label of coordinate 0 must be hashable, got {}"),
            ([[0, 1], [1, 2]], ValueError, "coordinate 1 is in 0 and in 1. Give every coordinate to one group"),
            ({"a": [-1]}, ValueError, "group 'a' must hold indices of at least 0, got -1"),
            ([[0.5]], TypeError, "group 0 must hold integers"),
        ],
    )
    def test_refuses(self, groups, error, words):
        for make in (Groups, lambda k, groups: PerGroup(k, groups, 1)):
            with pytest.raises(error, match=words):
                make(1, groups)

    def test_missing_labels_are_in_no_group(self):
        for labels in (
            ["a", None, "b"], ["a", np.nan, "b"], np.array([1.0, np.nan, 2.0]), pd.Series(["a", None, "b"]),
            pd.Categorical(["a", None, "b"]), pd.array(["a", pd.NA, "b"], dtype="string"),
        ):  # fmt: skip
            sparsity = Groups(1, labels)
            assert sparsity.atoms.tolist() == [0, -1, 1] and sparsity.free.tolist() == [1]

    def test_numbers_in_an_array_are_labels_like_others(self):
        labels = np.array([7, -1, 7, 3, 3, -1, 0])
        for k in (1, 2):
            groups, same = Groups(k, labels), Groups(k, labels.tolist())
            assert groups.labels == same.labels == [7, -1, 3, 0] and type(groups.labels[0]) is int
            np.testing.assert_array_equal(groups.atoms, same.atoms)
        for empty in (np.array([], dtype=int), []):
            with pytest.raises(ValueError, match="must not be empty"):
                Groups(1, empty)

    def test_lists_of_indices(self):
        v = np.array([1.0, 2.0, 3.0, 0.5, 0.1])
        for groups in ([[0, 3], [2]], {"x": [3, 0], "y": [2], "none": []}):
            np.testing.assert_array_equal(ez.hard_threshold(v, Groups(1, groups)), [0.0, 2.0, 3.0, 0.0, 0.1])
        with pytest.raises(ValueError, match=r"coordinates of 0, ..., 4, and group 'y' of Groups.* names 5"):
            ez.hard_threshold(v, Groups(1, {"x": [0], "y": [5]}))
        assert PerGroup(2, {"x": [0], "none": []}, {"none": 3}).within(3).k == 2

    @pytest.mark.parametrize(
        ("at_most", "error", "words"),
        [
            ({"c": 1}, ValueError, "at_most names the group 'c', which groups does not have: 'a', 'b'"),
            (-1, ValueError, "at_most must be at least 0, got at_most=-1"),
            (1.5, TypeError, "at_most must be an integer"),
            (None, TypeError, "at_most must be an integer"),
            ({"a": 1, "b": 2.0}, TypeError, r"at_most\['b'\] must be an integer"),
        ],
    )
    def test_quotas_that_are_none(self, at_most, error, words):
        with pytest.raises(error, match=words):
            PerGroup(2, ["a", "b"], at_most)

    @pytest.mark.parametrize("make", [lambda k: Groups(k, LABELS), lambda k: PerGroup(k, LABELS, 1), Rows])
    def test_ks_that_are_none(self, make):
        for bad in (1.5, True, "2", None):
            with pytest.raises(TypeError, match="k must be an integer"):
                make(bad)
        with pytest.raises(ValueError, match="k must be at least 0"):
            make(-1)
        with pytest.raises(ValueError, match="n_outputs must be at least 1"):
            Rows(1, n_outputs=0)

    def test_of_another_size(self):
        with pytest.raises(ValueError, match=r"Groups\(k=1, 2 groups\) is made for 6 coordinates, w has 5"):
            ez.hard_threshold(np.ones(5), Groups(1, LABELS))
        with pytest.raises(ValueError, match=r"Rows\(k=1\) needs as many coordinates for each of 2 outputs, w has 5"):
            ez.hard_threshold(np.ones(5), Rows(1, n_outputs=2))


class TestThresholding:
    @settings(max_examples=100, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_keeps_the_largest_part_of_v(self, seed):
        rng = np.random.default_rng(seed)
        v = rng.standard_normal(6) if rng.random() < 0.6 else rng.choice([-2.0, -1.0, 0.0, 1.0], 6)
        k, kept = int(rng.integers(0, 4)), rng.choice(6, int(rng.integers(0, 2)), replace=False)
        labels = [None if g < 0 else int(g) for g in rng.integers(-1, 3, 6)]
        labels[0] = 0
        for sparsity in (Groups(k, labels), PerGroup(k, labels, int(rng.integers(0, 3))), Rows(k, n_outputs=3)):
            sized = sparsity.within(6)
            if not sized.admits(kept):
                continue
            supports = [np.flatnonzero(m) for m in itertools.product([False, True], repeat=6)]
            allowed = [s for s in supports if sized.admits(s) and set(kept) <= set(s)]
            best = max(np.sum(v[s] ** 2) for s in allowed)
            chosen = sized.best_support(v, kept)
            assert sized.admits(chosen) and set(kept) <= set(chosen)
            assert np.sum(v[chosen] ** 2) == pytest.approx(best, rel=1e-12)

    def test_lower_indices_win(self):
        ones = np.ones(6)
        assert Groups(1, ["b", "b", "a", "a", "c", "c"]).best_support(ones).tolist() == [0, 1]
        assert PerGroup(3, list("aabbcc"), 1).best_support(ones).tolist() == [0, 2, 4]
        assert Rows(1, n_outputs=2).within(6).best_support(ones).tolist() == [0, 3]

    def test_other_array_libraries(self):
        v = np.array([1.0, -3.0, 2.0, 0.5, 4.0, -1.0])
        for sparsity in (Groups(1, LABELS), PerGroup(2, LABELS, 1), Rows(1, n_outputs=2)):
            for gamma in (S.L2Ball(1.0), S.NonNegative(), S.Box(-1, np.ones(6)), S.GroupWise(S.L1Ball(1.0), LABELS)):
                if not gamma.knows_maximum(sparsity.within(6)):
                    continue
                there = ez.euclidean_projection(array_api_strict.asarray(v), sparsity, gamma)
                assert isinstance(there, type(array_api_strict.asarray(v)))
                np.testing.assert_allclose(np.asarray(there), ez.euclidean_projection(v, sparsity, gamma))


class TestKeep:
    def test_groups_bring_the_whole_group(self):
        X, y = data(0)
        res = ez.minimize(ez.risks.LeastSquares(X, y), Groups(1, LABELS), keep=[3])
        assert res.support.tolist() == [2, 3, 4, 5]
        with pytest.raises(ValueError, match="2 coordinates of 2 groups, more than at most 1 group allows"):
            ez.minimize(ez.risks.LeastSquares(X, y), Groups(1, LABELS), keep=[0, 3])

    def test_quotas_count_single_coordinates(self):
        X, y = data(0)
        risk = ez.risks.LeastSquares(X, y)
        res = ez.minimize(risk, PerGroup(3, LABELS, 1), keep=[4])
        assert 4 in res.support and not {2, 3} & set(res.support.tolist())
        with pytest.raises(ValueError, match="keep names 2 nonzeros of group 'b', of which at_most allows 1; raise at"):
            ez.minimize(risk, PerGroup(3, LABELS, 1), keep=[2, 4])

    def test_rows_name_features(self):
        X, _ = data(0)
        risk = ez.risks.Multinomial(X, np.arange(40) % 3, ridge=0.1)
        assert {5, 11, 17} <= set(ez.minimize(risk, Rows(2), keep=[5]).support.tolist())
        with pytest.raises(ValueError, match=r"keep must lie in 0\.\.5, got 6"):
            ez.minimize(risk, Rows(2), keep=[6])
        with pytest.raises(ValueError, match="keep names 3 features, more than at most 2 features allows"):
            ez.minimize(risk, Rows(2), keep=[0, 1, 2])

    def test_what_bounds_ask_for_is_not_laid_on_keep(self):
        X, y = data(0)
        floor = S.Box([0.1, 0, 0.1, 0, 0, 0], 1.0)
        with pytest.raises(S.EmptySlice, match="no member with at most 1 group: it needs at least 2 .2 coordinates"):
            ez.minimize(ez.risks.LeastSquares(X, y), Groups(1, LABELS), floor)


class TestSeveralOutputs:
    def test_labels_of_features_hold_for_every_output(self):
        X, _ = data(1)
        risk = ez.risks.Multinomial(X, np.arange(40) % 3, ridge=0.1)
        by_feature = ez.minimize(risk, Groups(1, LABELS))
        assert set(by_feature.support % 6) in ({0, 1, 5}, {2, 3, 4, 5})
        quotas = ez.minimize(risk, PerGroup(2, LABELS, 1))
        assert "in 2 of at most 2 features, at most 1 in each of 2 groups" in repr(quotas)
        assert len(set(quotas.support % 6)) == 2 and quotas.support.size == 6
        with pytest.raises(ValueError, match="is made for 5 coordinates, w has 18, 6 for each of 3 outputs"):
            ez.minimize(risk, Groups(1, range(5)))
        with pytest.raises(ValueError, match=r"n_outputs=2 of Rows\(k=1\) is not that of the risk, 3"):
            ez.minimize(risk, Rows(1, n_outputs=2))

    def test_labels_of_coefficients_stay_what_they_are(self):
        X, _ = data(1)
        res = ez.minimize(ez.risks.Multinomial(X, np.arange(40) % 3, ridge=0.1), Groups(1, np.arange(18) // 6))
        assert len(set(res.support // 6)) == 1

    def test_rows_of_one_output_are_coordinates(self):
        X, y = data(2)
        risk = ez.risks.LeastSquares(X, y)
        assert ez.minimize(risk, Rows(2)).fun == ez.minimize(risk, Coordinates(2)).fun


class TestRuns:
    def test_mini_batches_carry_the_intercept_free(self):
        X, y = data(3)
        risk = ez.risks.LeastSquares(X, y + 3.0, fit_intercept=True, ridge=0.1)
        for sparsity in (Groups(1, LABELS), PerGroup(2, LABELS, 1), Rows(2), Groups(1, [[0, 1], [2]])):
            res = ez.minimize(risk, sparsity, method="StoIHT", max_iter=50, rng=0)
            assert sparsity.within(6).allows(res.x) and res.fun < np.var(y)

    def test_a_path_walks_along_k(self):
        X, y = data(4)
        risk = ez.risks.LeastSquares(X, y)
        assert ez.minimize_path(risk, Groups(2, LABELS)).ks.tolist() == [1, 2]
        with pytest.warns(UserWarning, match="ks goes up to 5, which is greater than what the quotas allow, 3"):
            path = ez.minimize_path(risk, PerGroup(5, LABELS, 1))
        assert path.ks.tolist() == [1, 2, 3] and (np.diff(path.fun) <= 0).all()
        with pytest.warns(UserWarning, match="k=9 is greater than what the quotas allow, 3: they alone limit w"):
            assert ez.minimize(risk, PerGroup(9, LABELS, 1)).k == 3
        with pytest.warns(UserWarning, match="k=9 is greater than the number of groups, 2: all features are allowed"):
            assert ez.minimize(risk, Groups(9, LABELS)).k == 2

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Groups(1, LABELS), Groups(1, LABELS[::-1])),
            (PerGroup(2, LABELS, 1), PerGroup(2, LABELS, 2)),
            (PerGroup(2, LABELS, {"a": 1}), PerGroup(2, LABELS, {"b": 1})),
            (Groups(1, LABELS), 1),
        ],
    )
    def test_a_run_is_not_resumed_with_others(self, one, other, tmp_path):
        X, y = data(0)
        risk, run = ez.risks.LeastSquares(X, y), {"method": "IHT-2SP", "tol": 0}
        ez.minimize(risk, one, checkpoint=tmp_path / "run.npz", max_iter=4, **run)
        resumed = ez.minimize(risk, one, resume=tmp_path / "run.npz", max_iter=8, **run)
        assert resumed.fun == ez.minimize(risk, one, max_iter=8, **run).fun
        with pytest.raises(ValueError, match="resume"):
            ez.minimize(risk, other, resume=tmp_path / "run.npz", max_iter=8, **run)

    def test_words(self):
        X, y = data(0)
        risk = ez.risks.LeastSquares(X, y)
        assert "nonzeros     4, in 1 of at most 1 group" in repr(ez.minimize(risk, Groups(1, LABELS), keep=[3]))
        found = repr(ez.minimize(risk, PerGroup(2, LABELS, 1)))
        assert "nonzeros     2 of at most 2 nonzeros, at most 1 in each of 2 groups" in found
        assert "no more than at_most in each of 2 groups" in PerGroup(2, LABELS, {"a": 1}).words
        assert repr(PerGroup(2, LABELS, {"a": 1})) == "PerGroup(k=2, 2 groups, at_most={'a': 1})"
        assert Rows(3).words == "at most 3 features" and repr(Groups(1, LABELS)) == "Groups(k=1, 2 groups)"

    def test_black_boxes_and_directions(self):
        box = ez.risks.BlackBox(lambda w: float(np.sum((w - np.array([1, 1, 0, 0, 0, 2.0])) ** 2)), 6)
        res = ez.minimize(box, Groups(1, LABELS), rng=0)
        assert res.support.tolist() == [0, 1, 5] and res.fun < 1e-3


SETS = {
    "budget": S.Simplex(1.0),
    "portfolio": S.Portfolio(1.0, 0.0, 0.6, LABELS, 0.7),
    "long and short": S.Portfolio(1.0, -0.4, 0.8, LABELS, 0.9),
    "capped budget": S.Intersection(S.Simplex(1.0), S.Box(-1.0, 0.6)),
    "budget of a group": S.GroupWise({"a": S.Simplex(0.5)}, LABELS),
    "l1": S.L1Ball(0.8),
    "l1 by group": S.GroupWise(S.L1Ball(0.4), LABELS),
}


def exactly(gamma, w):
    if not isinstance(gamma, S.Portfolio):
        return membership(gamma, w)
    rows = [cp.sum(w) == 1, w >= gamma.box.lower, w <= gamma.box.upper]
    return rows + [cp.norm1(w[[0, 1]]) <= gamma.caps[0], cp.norm1(w[[2, 3, 4]]) <= gamma.caps[1]]


class TestAgainstEnumeration:
    """Every set with every sparsity: all supports, each by a conic solver."""

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize(
        "sparsity", [Groups(1, LABELS), Groups(1, list("abcabc")), PerGroup(3, LABELS, 1)], ids=str
    )
    def test_answers(self, name, sparsity):
        gamma, (X, y) = SETS[name], data(5)
        best = np.inf
        sized = sparsity.within(6)
        for support in sized.supports(6, np.empty(0, np.intp)):
            w = cp.Variable(6)
            outside = np.setdiff1d(np.arange(6), support)
            rows = [*exactly(gamma, w), *([w[outside] == 0] if outside.size else [])]
            problem = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - y) / 40), rows)
            problem.solve(solver="CLARABEL")
            if problem.status == "optimal":
                best = min(best, problem.value)
        res = ez.minimize(ez.risks.LeastSquares(X, y), sparsity, gamma)
        assert res.fun == pytest.approx(best, rel=1e-6)
        assert sized.allows(res.x) and gamma.contains(res.x, 1e-9)

    def test_no_member_is_said(self):
        X, y = data(0)
        risk = ez.risks.LeastSquares(X, y)
        tight = S.Portfolio(1.0, 0.0, 0.3)
        with pytest.raises(S.EmptySlice, match="leave sums between 0 and 0.9 there; use a larger k"):
            ez.minimize(risk, PerGroup(3, LABELS, 1), tight)
        with pytest.raises(S.EmptySlice, match="no member with empty support|no member with at most 0 groups"):
            ez.minimize(risk, Groups(0, list("aabbcc")), S.Simplex(1.0))

    def test_a_support_is_looked_for_where_the_largest_has_no_member(self):
        gamma = S.Portfolio(1.0, 0.0, 0.4)  # three positions at the least
        v = np.array([9.0, 8.0, 0.1, 0.1, 0.1, 0.0])
        w = ez.restricted_projection(
            v, Groups(1, LABELS[:5] + ["a"]), S.Intersection(S.Simplex(1.0), S.Box(-1.0, 0.33334))
        )
        assert np.count_nonzero(w) == 3
        w = ez.restricted_projection(v, Groups(1, ["a", "a", "b", "b", "b", "c"]), gamma)
        assert np.flatnonzero(w).tolist() == [2, 3, 4] and gamma.contains(w)


class TestThePage:
    """docs/sparsities.md: its example runs, and its table is true."""

    PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sparsities.md").read_text(encoding="utf-8")

    def test_the_example_runs(self):
        (block,) = re.findall(r"```python\n(.*?)```", self.PAGE, re.DOTALL)
        found = {}
        exec(block, found)
        assert found["path"].ks.tolist() == [1, 2, 3] and found["res"].projection == "euclidean"

    def test_every_sparsity_has_a_row(self):
        rows = set(re.findall(r"^\| `(\w+)\(k", self.PAGE, re.MULTILINE))
        classes = {name for name, c in vars(ez.sparsity).items() if isinstance(c, type)} - {"Sparsity", "Rank"}
        assert rows - {"Rank"} == classes

    @pytest.mark.parametrize(
        ("gamma", "quotas", "groups"),
        [
            (S.NonNegative(), "euclidean", "euclidean"),
            (S.Box(0.1, 1.0), "euclidean", "euclidean"),
            (S.L2Ball(1.0), "euclidean", "euclidean"),
            (S.L1Ball(1.0), "euclidean", "two-step"),
            (S.LpBall(3, 1.0), "euclidean", "two-step"),
            (S.SubSimplex(1.0), "euclidean", "two-step"),
            (S.Simplex(1.0), "euclidean", "restricted"),
            (S.Ellipsoid(np.ones(6), 1.0), "two-step", "two-step"),
            (S.GroupWise(S.L1Ball(1.0), LABELS), "euclidean", "euclidean"),
            (S.GroupWise(S.L1Ball(1.0), list("abcabc")), "two-step", "two-step"),
            (S.GroupWise(S.Simplex(1.0), list("abcabc")), "restricted", "restricted"),
            (S.GroupWise(S.LinfBall(1.0), list("abcabc")), "euclidean", "euclidean"),
            (S.PackingPolytope([[1, 2, 0, 0, 0, 0.0]], [1.0]), "two-step", "euclidean"),
            (S.PackingPolytope([[1, 0, 1, 0, 0, 0.0]], [1.0]), "two-step", "two-step"),
            (S.Portfolio(None, -1.0, 1.0, LABELS, 1.0), "two-step", "euclidean"),
            (S.Portfolio(1.0, 0.0, 1.0), "restricted", "restricted"),
        ],
        ids=str,
    )
    def test_projections(self, gamma, quotas, groups):
        assert first_that_fits(gamma, PerGroup(2, LABELS, 1).within(6)) == quotas
        assert first_that_fits(gamma, Groups(1, LABELS).within(6)) == groups
