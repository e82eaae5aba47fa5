"""Sets: projections against an independent solver, geometry, and the claims they make about supports."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common import labels_covering, referee_projection, support_preserving_sets
from ellzero import sets as S
from ellzero.testing import check_set

NAMES = list(support_preserving_sets(6, np.random.default_rng(0)))
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_every_support_preserving_set_survives_the_attack(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        constraint = support_preserving_sets(7, rng)[name]
        assert constraint.preserves_support
        assert constraint.why
        check_set(constraint, 7, 3, rng=seed)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Everywhere"])
@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_projection_agrees_with_cvxpy(name, scale):
    rng = np.random.default_rng(7)
    for d in (1, 5, 12):
        constraint = support_preserving_sets(max(d, 3), rng)[name]
        v = scale * rng.standard_normal(max(d, 3))
        np.testing.assert_allclose(constraint.project(v), referee_projection(constraint, v), atol=2e-5 * scale)


@given(
    seed=seeds,
    p=st.one_of(st.floats(1.0, 60.0), st.floats(-9, 0).map(lambda e: 1 + 10**e)),
    scale=st.floats(-3, 4),
    size=st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_lp_projection_satisfies_its_optimality_conditions_to_1e_10(seed, p, scale, size):
    """x + μ x^(p-1) = a with one multiplier μ for all entries, and ||x||_p = radius."""
    rng = np.random.default_rng(seed)
    v, radius = rng.standard_normal(size) * 10**scale, float(rng.uniform(0.1, 3))
    w = S.LpBall(p, radius).project(v)
    if S.LpBall(p, radius).violation(v) == 0:
        np.testing.assert_array_equal(w, v)
        return
    assert np.linalg.norm(w, p) == pytest.approx(radius, rel=1e-12)
    assert (w * v >= 0).all()
    a, x = np.abs(v) / radius, np.abs(w) / radius
    if p > 1 + 1e-6:
        # the multiplier from the inner product with x, which weighs every equation: Σx(a - x) = μ Σx^p = μ
        mu = float(x @ (a - x))
        solved = np.array([_solve_one(ai, mu, p) for ai in a])
        np.testing.assert_allclose(x, solved, atol=1e-10 * max(1.0, a.max() * 1e-3))


def _solve_one(a, mu, p):
    """x + μ x^(p-1) = a by bisection alone."""
    low, high = 0.0, a
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle + mu * middle ** (p - 1) < a else (low, middle)
    return 0.5 * (low + high)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_lp_ball_equals_its_special_cases(p):
    v = np.random.default_rng(1).standard_normal(9)
    special = {1: S.L1Ball, 2: S.L2Ball, np.inf: S.LinfBall}[p](0.8)
    np.testing.assert_array_equal(S.LpBall(p, 0.8).project(v), special.project(v))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Everywhere"])
def test_float32_stays_float32_and_inside(name):
    rng = np.random.default_rng(3)
    constraint = support_preserving_sets(8, rng)[name]
    v = (5 * rng.standard_normal(8)).astype(np.float32)
    w = constraint.project(v)
    assert w.dtype == np.float32
    assert constraint.contains(w)
    np.testing.assert_allclose(w, constraint.project(v.astype(np.float64)), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "constraint",
    [
        S.L1Ball(0),
        S.L2Ball(0),
        S.LinfBall(0),
        S.LpBall(3, 0),
        S.LpBall(1.5, 0),
        S.SubSimplex(0),
        S.Simplex(0),
    ],
    ids=repr,
)
def test_zero_radius_projects_to_zero(constraint):
    v = np.array([1.0, -2.0, 0.0])
    np.testing.assert_array_equal(constraint.project(v), 0 * v)
    assert constraint.contains(0 * v, tol=0)
    assert not constraint.contains(v)


def test_zero_radius_of_sets_with_parameters():
    v, ones = np.array([1.0, -2.0]), np.ones(2)
    for constraint in (S.WeightedL1Ball(ones, 0), S.Ellipsoid(ones, 0), S.PackingPolytope([[1, 1]], [0])):
        np.testing.assert_array_equal(constraint.project(v), 0 * v)


@pytest.mark.parametrize("name", NAMES)
def test_members_are_returned_unchanged(name):
    rng = np.random.default_rng(5)
    constraint = support_preserving_sets(6, rng)[name]
    inside = 1e-3 * np.abs(rng.standard_normal(6)) * (0 if name == "Box" else 1)
    np.testing.assert_array_equal(constraint.project(inside), inside)
    assert constraint.violation(inside) == 0


def test_large_entries_do_not_cost_precision():
    """A budget of 1 is kept to rounding although the entries are of order 1e9."""
    v = 1e9 + np.array([0.0, 0.25, 0.5, -3.0])
    w = S.Simplex(1.0).project(v)
    np.testing.assert_allclose(w, [0.08333333, 0.33333333, 0.58333333, 0], atol=1e-7)
    assert w.sum() == pytest.approx(1.0, abs=1e-15)
    assert S.L1Ball(1.0).violation(S.L1Ball(1.0).project(-v)) <= 1e-15
    huge = np.array([1e200, -1e200])
    np.testing.assert_allclose(S.L2Ball(1.0).project(huge), [0.5**0.5, -(0.5**0.5)])


def test_violation_is_relative_to_the_bound():
    assert S.L1Ball(2.0).violation(np.array([3.0, 0.0])) == pytest.approx(0.5)
    assert S.Box(0, np.inf).violation(np.array([-0.25])) == pytest.approx(0.25)
    assert S.Box(-np.inf, [1.0, 4.0]).violation(np.array([0.0, 5.0])) == pytest.approx(0.25)
    assert S.Simplex(2.0).violation(np.array([0.5, 0.5])) == pytest.approx(0.5)
    assert S.GroupWise(S.L1Ball(1.0), [0, 0, 1]).violation(np.array([1.0, 1.0, 1.0])) == pytest.approx(1.0)
    assert S.PackingPolytope([[1.0, 1.0]], [2.0]).violation(np.array([2.0, 1.0])) == pytest.approx(0.5)


class TestNotSupportPreserving:
    def test_check_set_rejects_the_simplex(self):
        with pytest.raises(AssertionError, match="not support-preserving.*exact budget"):
            check_set(S.Simplex(1.0), 5, 2)
        check_set(S.Simplex(1.0), 5, 2, support_preserving=False)

    @pytest.mark.parametrize(
        ("constraint", "reason"),
        [
            (S.Simplex(1.0), "exact budget"),
            (S.Box(0.1, 1.0), "does not contain 0"),
            (S.Box([-1, 0.5], 1.0), "coordinate 1"),
            (
                S.GroupWise({"a": S.Simplex(1.0), "b": S.L1Ball(1)}, ["a", "a", "b"]),
                "group 'a'.*exact budget",
            ),
            (S.Intersection(S.Simplex(1.0), S.LinfBall(0.5)), "exact budget"),
        ],
        ids=repr,
    )
    def test_why_names_the_reason(self, constraint, reason):
        import re

        assert not constraint.preserves_support
        assert re.search(reason, constraint.why)

    def test_one_but_not_two_preserving(self):
        """conv{0, e1, e2, e3, (1,1,1)} (PAPER: k matters)."""
        polytope = _Hull(np.vstack([np.zeros(3), np.eye(3), np.ones(3)]))
        check_set(polytope, 3, 1, tol=1e-6, n_trials=30)
        with pytest.raises(AssertionError, match="not support-preserving"):
            check_set(polytope, 3, 2, tol=1e-6, n_trials=100)

    def test_empty_slices_say_so(self):
        with pytest.raises(S.EmptySlice, match="keep=\\[1\\]"):
            S.Box([-1, 0.5], 1.0).project(np.array([1.0]), np.array([0]))
        with pytest.raises(S.EmptySlice, match="does not contain zero"):
            S.Simplex(1.0).project(np.empty(0), np.empty(0, int))
        with pytest.raises(S.EmptySlice, match="group 'b'"):
            S.GroupWise(S.Simplex(1.0), ["a", "a", "b"]).project(np.array([1.0]), np.array([0]))
        with pytest.raises(S.EmptySlice, match="did not meet"):
            S.Intersection(S.Simplex(1.0), S.LinfBall(0.2)).project(np.ones(2), np.arange(2))

    def test_exact_budget_with_caps_ends_exactly_inside(self):
        caps = S.Intersection(S.GroupWise(S.SubSimplex(0.3), [0, 0, 1, 1, 2, 2, 3, 3]), S.Simplex(1.0))
        rng = np.random.default_rng(0)
        for _ in range(50):
            v = rng.standard_normal(8)
            w = caps.project(v)
            assert caps.violation(w) <= 1e-12
            np.testing.assert_allclose(w, referee_projection(caps, v), atol=1e-5)


class _Hull(S.ConstraintSet):
    """The convex hull of some points, projected by non-negative least squares."""

    def __init__(self, vertices):
        self.vertices = vertices
        self.n_features = vertices.shape[1]

    def project(self, v, support=None):
        from scipy.optimize import nnls

        vertices = self.vertices
        if support is not None:
            outside = np.setdiff1d(np.arange(self.n_features), support)
            vertices = np.hstack([vertices[:, support], 1e5 * vertices[:, outside]])
            v = np.concatenate([v, np.zeros(outside.size)])
        weight = 1e5  # of the condition that the weights sum to 1
        A = np.vstack([vertices.T, np.full(len(vertices), weight)])
        w = vertices.T @ nnls(A, np.append(v, weight))[0]
        return w if support is None else w[: support.size]


class TestCheckSet:
    """The attack itself must be able to win."""

    class Ball(S.L2Ball):
        wrong = "none"

        def project(self, v, support=None):
            w = super().project(v, support)
            match self.wrong:
                case "idempotence":
                    return 0.9 * w
                case "nearest":
                    return np.where(np.abs(w) < 0.1, 0.0, w)
                case "convexity":  # the sphere instead of the ball
                    return v * (self.radius / max(np.linalg.norm(v), 1e-9))
                case "slice":
                    return w if support is None else w * 0.5
                case "shape":
                    return w[:-1]
            return w

    def test_the_ball_itself_passes(self):
        check_set(self.Ball(1.0), 5, 2)

    @pytest.mark.parametrize("wrong", ["idempotence", "nearest", "convexity", "slice", "shape"])
    @pytest.mark.slow
    def test_planted_errors_are_found(self, wrong):
        ball = self.Ball(1.0)
        ball.wrong = wrong
        with pytest.raises(AssertionError, match=r"\n  .* = \["):
            check_set(ball, 5, 2)

    def test_false_claims_are_found(self):
        class Claims(S.Simplex):
            def __init__(self):
                super().__init__(1.0)
                self.closed_under_zeroing = True

        with pytest.raises(AssertionError, match="not support-preserving"):
            check_set(Claims(), 5, 2, support_preserving=False)

    def test_a_shifted_ball_is_not_support_preserving(self):
        """A turnover constraint ||w - c|| <= r."""

        class Turnover(S.ConstraintSet):
            centre = np.array([1.0, 0.5, -1.0])

            def project(self, v, support=None):
                c = self.centre if support is None else self.centre[support]
                rest = 0.0 if support is None else np.delete(self.centre, support) @ np.delete(self.centre, support)
                if rest > 1.7**2:
                    raise S.EmptySlice("too far")
                return c + S.L2Ball((1.7**2 - rest) ** 0.5).project(v - c)

        check_set(Turnover(), 3, 1, support_preserving=False)
        with pytest.raises(AssertionError, match="not support-preserving"):
            check_set(Turnover(), 3, 1)


class TestGroupWise:
    @given(seed=seeds, n_groups=st.integers(1, 12))
    @settings(max_examples=60, deadline=None)
    def test_equals_projecting_group_by_group(self, seed, n_groups):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(n_groups, 60))
        labels = np.array(labels_covering(rng.integers(0, n_groups, d), n_groups))
        kinds = [S.L1Ball, S.L2Ball, S.SubSimplex, S.Simplex, S.LinfBall, lambda r: S.LpBall(3, r)]
        sets = {g: kinds[rng.integers(len(kinds))](float(rng.uniform(0.1, 2))) for g in range(n_groups)}
        for g in range(0, n_groups, 4):
            size = int((labels == g).sum())
            sets[g] = S.WeightedL1Ball(rng.uniform(0.5, 2, size), 0.7) if g % 8 else S.Box(-1, rng.uniform(0, 1, size))
        v = 3 * rng.standard_normal(d)
        gamma = S.GroupWise(sets, labels)
        expected = v.copy()
        for g, s in sets.items():
            expected[labels == g] = s.project(v[labels == g])
        np.testing.assert_allclose(gamma.project(v), expected, rtol=1e-12, atol=1e-13)
        assert gamma.violation(expected) <= 1e-12
        assert gamma.violation(v) == pytest.approx(max(s.violation(v[labels == g]) for g, s in sets.items()))

    def test_a_slice_uses_the_places_inside_the_group(self):
        gamma = S.GroupWise(S.Box([-1, -2], [3, 4]), [[0, 2], [1, 3]])
        np.testing.assert_array_equal(gamma.project(np.array([9.0, 9.0]), np.array([2, 3])), [4, 4])
        np.testing.assert_array_equal(gamma.project(np.array([-9.0, -9.0, -9.0]), np.array([0, 1, 7])), [-1, -1, -9])

    def test_labels_of_any_kind_and_free_coordinates(self):
        v = np.array([3.0, 3.0, 3.0, 3.0])
        by_label = S.GroupWise(S.L1Ball(1.0), ["a", None, ("b", 1), float("nan")])
        np.testing.assert_array_equal(by_label.project(v), [1, 3, 1, 3])
        by_index = S.GroupWise({"x": S.L1Ball(1.0)}, {"x": [2, 0], "y": [1]})
        np.testing.assert_array_equal(by_index.project(v), [0.5, 3, 0.5, 3])

    def test_no_python_loop_over_groups(self, monkeypatch):
        """5000 groups of 40 different sizes: a handful of calls, not thousands."""
        calls = []
        original = S.L1Ball._project_rows
        monkeypatch.setattr(S.L1Ball, "_project_rows", lambda self, *a: calls.append(1) or original(self, *a))
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 5000, 50_000)
        S.GroupWise(S.L1Ball(1.0), labels).project(rng.standard_normal(50_000))
        assert 1 <= len(calls) <= 6

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (
                (S.L1Ball(1), [[0, 1], [1, 2]]),
                ValueError,
                "coordinate 1 is in 0 and in 1.*PackingPolytope.*Intersection",
            ),
            (({"z": S.L1Ball(1)}, ["a", "b"]), ValueError, "names the group 'z'.*'a', 'b'"),
            ((S.Box([0, 0, 0], 1), ["a", "b"]), ValueError, "group 'a' has 1 coordinates.*has 3"),
            ((3, ["a"]), TypeError, "sets must be a constraint set"),
            (({"a": 3}, ["a"]), TypeError, "the set of group 'a'"),
            ((S.L1Ball(1), "tech"), TypeError, "groups must be a label for each"),
            ((S.L1Ball(1), []), ValueError, "must not be empty"),
            ((S.L1Ball(1), [[-1]]), ValueError, "at least 0, got -1"),
            ((S.L1Ball(1), [{}, "a"]), TypeError, "coordinate 0 must be hashable"),
        ],
    )
    def test_errors(self, arguments, error, message):
        with pytest.raises(error, match=message):
            S.GroupWise(*arguments)


class TestPolytope:
    @given(seed=seeds)
    @settings(max_examples=80, deadline=None)
    def test_optimality_conditions(self, seed):
        """w = (v - Aᵀy)_+ with multipliers y >= 0 on tight caps alone, found by an independent solver."""
        from scipy.optimize import nnls

        rng = np.random.default_rng(seed)
        m, d = int(rng.integers(1, 8)), int(rng.integers(1, 20))
        A = rng.uniform(0, 1, (m, d)) * (rng.random((m, d)) < 0.5)
        b = rng.uniform(0, 1, m) * (rng.random(m) < 0.9)
        v = 10 ** rng.uniform(-2, 3) * rng.standard_normal(d)
        polytope = S.PackingPolytope(A, b)
        w = polytope.project(v)
        assert polytope.violation(w) <= 1e-15
        # v - w must be a non-negative combination of the normals that are active at w
        tight = b - A @ w <= 1e-8 * np.maximum(b, 1e-8)
        normals = np.vstack([A[tight], -np.eye(d)[w <= 1e-9 * np.abs(v).max()]])
        _, residual = nnls(normals.T, v - w) if len(normals) else (None, np.linalg.norm(v - w))
        assert residual <= 1e-9 * (1 + np.linalg.norm(v))

    def test_sparse_caps_and_slices(self):
        import scipy.sparse as sp

        A = np.array([[1.0, 1, 0, 2], [0, 1, 1, 0]])
        dense, sparse = S.PackingPolytope(A, [1, 0.5]), S.PackingPolytope(sp.csr_array(A), [1, 0.5])
        v = np.array([2.0, 1.0, 0.7, 0.3])
        np.testing.assert_allclose(dense.project(v), sparse.project(v), atol=1e-14)
        support = np.array([0, 2])
        np.testing.assert_allclose(dense.project(v[support], support), [1, 0.5], atol=1e-14)

    @pytest.mark.parametrize(
        ("A", "b", "message"),
        [
            ([[1, -1]], [1], "non-negative"),
            ([[1, 1]], [-1], "non-negative"),
            ([[1, 1]], [1, 2], "b must have length 1, got 2"),
            ([1, 1], [1, 2], "A must be a matrix"),
        ],
    )
    def test_errors(self, A, b, message):
        with pytest.raises(ValueError, match=message):
            S.PackingPolytope(A, b)


class TestIntersection:
    @example(seed=50)  # cutting planes come from outside
    @given(seed=seeds)
    @settings(max_examples=40, deadline=None)
    def test_ends_exactly_inside_and_near_the_projection(self, seed):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 10))
        r = float(rng.uniform(0.5, 2))
        gamma = S.Intersection(
            S.L1Ball(r),
            S.Box(-rng.uniform(0, r, d), rng.uniform(0, r, d)),
            S.GroupWise(S.L2Ball(0.5 * r), [0, 1] + [0] * (d - 2)),
        )
        v = 3 * rng.standard_normal(d)
        w = gamma.project(v)
        assert gamma.violation(w) <= 1e-15
        np.testing.assert_allclose(w, referee_projection(gamma, v), atol=3e-5)

    def test_tells_when_it_did_not_converge(self):
        gamma = S.Intersection(S.Ellipsoid([1, 0.2, 1], 1.0), S.Ellipsoid([0.2, 1, 1], 1.0), max_iter=2)
        with pytest.warns(RuntimeWarning, match="still moved by .* after 2 rounds.*max_iter"):
            gamma.project(np.array([3.0, 2.0, 1.0]))

    def test_errors(self):
        with pytest.raises(ValueError, match="at least one set"):
            S.Intersection()
        with pytest.raises(TypeError, match="takes constraint sets, got 3"):
            S.Intersection(3)
        with pytest.raises(ValueError, match=r"same number of coordinates, got \[2, 3\]"):
            S.Intersection(S.Box([0, 0], 1), S.Box([0, 0, 0], 1))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: S.L1Ball(-1), ValueError, r"radius must lie in \[0, inf\), got radius=-1"),
        (lambda: S.L1Ball(np.nan), ValueError, "radius"),
        (lambda: S.L2Ball("1"), TypeError, "radius must be a number, got '1'"),
        (lambda: S.LinfBall(np.inf), ValueError, "radius"),
        (lambda: S.LpBall(0.5, 1), ValueError, r"p must lie in \[1, inf\], got p=0.5"),
        (lambda: S.SubSimplex(-1), ValueError, "total"),
        (lambda: S.Simplex(np.inf), ValueError, "total"),
        (lambda: S.Box(1, 0), ValueError, r"lower <= upper must hold, got \[1, 0\]"),
        (lambda: S.Box([0, 0], [1, -1]), ValueError, r"got \[0, -1\] at coordinate 1"),
        (lambda: S.Box([0, 0], [1, 1, 1]), ValueError, "same length, got 2 and 3"),
        (lambda: S.Box(np.nan, 1), ValueError, "lower must be a number"),
        (lambda: S.Box(np.inf, np.inf), ValueError, "would be empty"),
        (lambda: S.WeightedL1Ball([1, 0], 1), ValueError, "weights must be positive, got 0 at coordinate 1"),
        (lambda: S.Ellipsoid([1, np.inf], 1), ValueError, "scales must be finite, got inf at index 1"),
    ],
)
def test_parameters_are_checked_at_construction(make, error, message):
    with pytest.raises(error, match=message):
        make()
