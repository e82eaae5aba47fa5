"""Hard thresholding and the two-step projection: brute force, ties, edge cases, and the paper's lemmas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ellzero as ez
from common import brute_force_projection, support_preserving_sets
from ellzero import sets as S

NAMES = list(support_preserving_sets(6, np.random.default_rng(0)))
SYMMETRIC = [
    S.L1Ball(1.0),
    S.L2Ball(0.7),
    S.LinfBall(0.5),
    S.LpBall(1.5, 1.0),
    S.LpBall(3, 0.8),
    S.Everywhere(),
]
seeds = st.integers(0, 2**32 - 1)
# few distinct values, so that ties are the rule
tied_vectors = hnp.arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([-2.0, -1, -0.0, 0, 1, 1.5, 2]))


def sorted_by_definition(v, k):
    """H_k from its definition: sort by (magnitude descending, index ascending)."""
    chosen = sorted(range(len(v)), key=lambda i: (-abs(v[i]), i))[:k]
    out = np.zeros_like(v)
    out[chosen] = v[chosen]
    return out


class TestHardThreshold:
    @given(v=tied_vectors, k=st.integers(0, 14))
    @settings(max_examples=300)
    def test_is_the_definition_with_ties_to_the_lowest_index(self, v, k):
        np.testing.assert_array_equal(ez.hard_threshold(v, k), sorted_by_definition(v, k))

    @given(
        v=hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(-1e6, 1e6, width=32)),
        k=st.integers(0, 60),
    )
    def test_float32_and_any_k(self, v, k):
        w = ez.hard_threshold(v, k)
        assert w.dtype == np.float32
        np.testing.assert_array_equal(w, sorted_by_definition(v, k))

    @given(v=tied_vectors, k=st.integers(0, 12), seed=seeds)
    def test_keep_is_always_there_and_counts(self, v, k, seed):
        d = v.size
        k = min(k, d)
        keep = np.random.default_rng(seed).choice(d, int(np.random.default_rng(seed).integers(0, k + 1)), replace=False)
        rest = np.setdiff1d(np.arange(d), keep)
        expected = np.zeros(d)
        expected[keep] = v[keep]
        expected[rest] = sorted_by_definition(v[rest], k - keep.size)
        np.testing.assert_array_equal(ez.hard_threshold(v, k, keep=keep), expected)
        mask = np.isin(np.arange(d), keep)
        np.testing.assert_array_equal(ez.hard_threshold(v, k, keep=mask), expected)

    def test_keep_against_the_largest_number(self):
        huge = np.finfo(float).max
        np.testing.assert_array_equal(ez.hard_threshold(np.array([huge, 1.0, 2.0]), 1, keep=[1]), [0, 1, 0])
        np.testing.assert_array_equal(ez.hard_threshold(np.array([huge, 1.0, 2.0]), 2, keep=[1]), [huge, 1, 0])

    def test_the_input_is_not_changed(self):
        v = np.array([3.0, 1.0, 2.0])
        for result in (
            ez.hard_threshold(v, 3),
            ez.two_step_projection(v, 2, S.L1Ball(1.0)),
            ez.hard_threshold(v, 2),
        ):
            assert not np.shares_memory(result, v)
        np.testing.assert_array_equal(v, [3, 1, 2])

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
    def test_nan_and_infinities_are_refused(self, bad, k):
        for keep in (None, [0]) if k else (None,):
            for constraint in (S.Everywhere(), S.L1Ball(1.0)):
                with pytest.raises(ValueError, match="must be finite, got .* at index 2"):
                    ez.two_step_projection(np.array([1.0, 0.0, bad]), k, constraint, keep=keep)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (([1.0, 2.0], -1), ValueError, "k must be at least 0, got k=-1"),
            (([1.0, 2.0], 1.5), TypeError, "k must be an integer"),
            (([1.0, 2.0], True), TypeError, "k must be an integer"),
            (([[1.0], [2.0]], 1), ValueError, r"one-dimensional.*\(2, 1\)"),
            (([], 1), ValueError, "at least one entry"),
            ((["a"], 1), TypeError, "v must be numbers"),
        ],
    )
    def test_errors(self, arguments, error, message):
        with pytest.raises(error, match=message):
            ez.hard_threshold(*arguments)

    @pytest.mark.parametrize(
        ("keep", "error", "message"),
        [
            ([0, 1], ValueError, "keep names 2 coordinates, more than k=1"),
            ([5], ValueError, r"keep must lie in 0..2, got 5"),
            ([-1], ValueError, "got -1"),
            ([0, 0], ValueError, "each coordinate once"),
            ([0.5], TypeError, "sequence of integers"),
            (np.array([True]), ValueError, "mask must have length 3"),
        ],
    )
    def test_errors_of_keep(self, keep, error, message):
        with pytest.raises(error, match=message):
            ez.hard_threshold(np.ones(3), 1, keep=keep)


class TestTwoStep:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_sparse_feasible_and_the_projection_of_what_was_kept(self, name, dtype):
        rng = np.random.default_rng(2)
        for k in (0, 1, 3, 8, 20):
            constraint = support_preserving_sets(8, rng)[name]
            v = (3 * rng.standard_normal(8)).astype(dtype)
            w = ez.two_step_projection(v, k, constraint)
            assert w.dtype == dtype
            assert np.count_nonzero(w) <= k
            assert constraint.contains(w)
            full = constraint.project(sorted_by_definition(v, k).astype(np.float64))
            np.testing.assert_allclose(
                w,
                full,
                rtol=1e-10 if dtype == np.float64 else 1e-4,
                atol=1e-5 if dtype == np.float32 else 1e-10,
            )

    @pytest.mark.parametrize("constraint", SYMMETRIC, ids=repr)
    @given(seed=seeds, k=st.integers(1, 7))
    @settings(max_examples=15, deadline=None)
    def test_is_the_euclidean_projection_for_symmetric_sign_free_sets(self, constraint, seed, k):
        v = np.random.default_rng(seed).standard_normal(7)
        distance, _ = brute_force_projection(constraint, v, k)
        w = ez.two_step_projection(v, k, constraint)
        assert float((w - v) @ (w - v)) == pytest.approx(distance, rel=1e-10, abs=1e-12)

    def test_is_not_the_euclidean_projection_for_sign_or_group_constraints(self):
        """The k largest entries may be those that Γ cuts away."""
        v = np.array([-3.0, 1.0])
        np.testing.assert_array_equal(ez.two_step_projection(v, 1, S.NonNegative()), [0, 0])
        np.testing.assert_array_equal(brute_force_projection(S.NonNegative(), v, 1)[1], [0, 1])
        groups = S.GroupWise(S.L1Ball(1.0), ["a", "a", "b"])
        v = np.array([3.0, 2.9, 1.0])
        np.testing.assert_allclose(ez.two_step_projection(v, 2, groups), [0.55, 0.45, 0])
        np.testing.assert_allclose(brute_force_projection(groups, v, 2)[1], [1, 0, 1])

    def test_zero_entries_among_the_kept_do_no_harm(self):
        np.testing.assert_array_equal(ez.two_step_projection(np.zeros(4), 2, S.L1Ball(1.0)), np.zeros(4))
        np.testing.assert_array_equal(ez.two_step_projection(np.array([0, 0, 5.0]), 3, S.L1Ball(1.0)), [0, 0, 1])

    def test_refuses_a_set_that_does_not_preserve_supports(self):
        with pytest.raises(ValueError, match=r"Simplex\(total=1\).*exact budget.*restricted.*SubSimplex"):
            ez.two_step_projection(np.ones(3), 2, S.Simplex(1.0))
        np.testing.assert_allclose(
            ez.restricted_projection(np.array([1.0, 3.0, 2.8]), 2, S.Simplex(1.0)), [0, 0.6, 0.4]
        )

    def test_errors(self):
        with pytest.raises(TypeError, match="constraint must be a set"):
            ez.two_step_projection(np.ones(3), 2, 1.0)
        with pytest.raises(ValueError, match="made for 2 coordinates, w has 3"):
            ez.two_step_projection(np.ones(3), 2, S.Box([0, 0], 1))

    def test_only_the_kept_values_reach_the_set(self):
        """The cost of Γ depends on k, not on d."""
        seen = []

        class Spy(S.L1Ball):
            closed_under_zeroing = True  # a projection of one's own loses what is known of the ball

            def project(self, v, support=None):
                seen.append((v.size, support.size))
                return super().project(v, support)

        ez.two_step_projection(np.arange(1000.0), 7, Spy(1.0))
        assert seen == [(7, 7)]


class TestLemmas:
    """The paper's lemmas, on random and adversarial instances."""

    @given(seed=seeds, d=st.integers(2, 15))
    @settings(max_examples=200)
    def test_three_point(self, seed, d):
        """||H_k(w) - w||² <= ||w - w̄||² - (1 - sqrt(k̄/k)) ||H_k(w) - w̄||²."""
        rng = np.random.default_rng(seed)
        w, w_bar, k, k_bar = _instance(rng, d)
        h = ez.hard_threshold(w, k)
        left = _square(h - w)
        right = _square(w - w_bar) - (1 - np.sqrt(k_bar / k)) * _square(h - w_bar)
        assert left <= right + 1e-10 * (1 + abs(right))

    @pytest.mark.parametrize("name", NAMES)
    @given(seed=seeds)
    @settings(max_examples=40, deadline=None)
    def test_constrained_three_point(self, name, seed):
        """||2SP(w) - w||² <= ||w - w̄||² - ||2SP(w) - w̄||² + sqrt(k̄/k) ||H_k(w) - w̄||² for w̄ in Γ."""
        rng = np.random.default_rng(seed)
        w, w_bar, k, k_bar = _instance(rng, 8)
        constraint = support_preserving_sets(8, rng)[name]
        w_bar = constraint.project(w_bar)  # keeps its support
        assert np.count_nonzero(w_bar) <= k_bar
        p, h = ez.two_step_projection(w, k, constraint), ez.hard_threshold(w, k)
        right = _square(w - w_bar) - _square(p - w_bar) + np.sqrt(k_bar / k) * _square(h - w_bar)
        assert _square(p - w) <= right + 1e-9 * (1 + abs(right))

    @pytest.mark.parametrize("c", [0.5, 0.9, 0.99])
    @pytest.mark.parametrize(("k", "k_bar"), [(2, 1), (10, 3), (50, 7)])
    def test_three_point_is_tight(self, c, k, k_bar):
        """With c·sqrt(k̄/k), c < 1, in place of sqrt(k̄/k) it fails: w = [1.., b..], w̄ = [0.., a..]."""
        b, a = 0.5 * (1 + c), np.sqrt(k / k_bar)
        w = np.concatenate([np.ones(k), np.full(k_bar, b)])
        w_bar = np.concatenate([np.zeros(k), np.full(k_bar, a)])
        h = ez.hard_threshold(w, k)
        left = _square(h - w)
        assert left > _square(w - w_bar) - (1 - c * np.sqrt(k_bar / k)) * _square(h - w_bar)
        assert left <= _square(w - w_bar) - (1 - np.sqrt(k_bar / k)) * _square(h - w_bar) + 1e-9

    @given(seed=seeds, d=st.integers(2, 15))
    @settings(max_examples=200)
    def test_relative_concavity(self, seed, d):
        """<w̄ - H_k(w), w - H_k(w)> <= (sqrt(k̄/k)/2) ||w̄ - H_k(w)||² (Liu & Foygel Barber), and it is attained."""
        rng = np.random.default_rng(seed)
        w, w_bar, k, k_bar = _instance(rng, d)
        h = ez.hard_threshold(w, k)
        assert (w_bar - h) @ (w - h) <= np.sqrt(k_bar / k) / 2 * _square(w_bar - h) + 1e-10

    def test_relative_concavity_is_attained(self):
        k, k_bar = 12, 3
        w = np.ones(k + k_bar)  # ties: the first k are kept
        w_bar = np.concatenate([np.zeros(k), np.full(k_bar, np.sqrt(k / k_bar))])
        h = ez.hard_threshold(w, k)
        ratio = ((w_bar - h) @ (w - h)) / _square(w_bar - h)
        assert ratio == pytest.approx(np.sqrt(k_bar / k) / 2)


def _square(v):
    return float(v @ v)


def _instance(rng, d):
    """w, a k̄-sparse w̄, k and k̄ <= k; half of the time w̄ is close to w, where the inequalities are tightest."""
    k = int(rng.integers(1, d + 1))
    k_bar = int(rng.integers(1, k + 1))
    w = rng.standard_normal(d) if rng.random() < 0.5 else rng.choice([-1.0, 0.5, 0.99, 1.0], d)
    w_bar = np.zeros(d)
    support = rng.choice(d, k_bar, replace=False)
    w_bar[support] = w[support] * rng.uniform(0.5, 3) if rng.random() < 0.5 else 2 * rng.standard_normal(k_bar)
    return w, w_bar, k, k_bar
