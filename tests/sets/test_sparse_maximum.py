"""max <z, w> - μ/2 ||w||² over sparse members: all supports, all allocations to groups, and the edges."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from common import brute_force_projection, labels_covering, membership
from ellzero import sets as S
from ellzero._core import arrays as _arrays
from ellzero.sets._allocation import dynamic_programme
from ellzero.sets._tables import increments_by_projection

seeds = st.integers(0, 2**32 - 1)
mus = st.one_of(st.just(0.0), st.just(1.0), st.floats(-6, 6).map(lambda e: 10.0**e))
D = 7


def simple_sets(rng, d):
    """One of every kind whose maximum is known at every μ."""
    r = float(rng.choice([0.0, rng.uniform(0.2, 2), rng.uniform(2, 20)], p=[0.1, 0.6, 0.3]))
    lower, upper = -rng.uniform(0, 2, d), rng.uniform(0, 2, d)
    excluding = rng.random(d) < 0.2
    return {
        "Everywhere": S.Everywhere(),
        "Box": S.Box(lower, upper),
        "Box excluding 0": S.Box(np.where(excluding, 0.2, lower), np.where(excluding, 0.5, upper)),
        "Box half open": S.Box(np.where(excluding, -np.inf, lower), np.where(excluding, upper, np.inf)),
        "NonNegative": S.NonNegative(),
        "LinfBall": S.LinfBall(r),
        "L1Ball": S.L1Ball(r),
        "L2Ball": S.L2Ball(r),
        "LpBall 1.5": S.LpBall(1.5, r),
        "LpBall 4": S.LpBall(4, r),
        "LpBall inf": S.LpBall(np.inf, r),
        "SubSimplex": S.SubSimplex(r),
        "Simplex": S.Simplex(r),
    }


def grouped_sets(rng, d):
    """Products: of one kind, of all kinds, with free coordinates, and with groups of one."""
    labels = np.array(labels_covering(rng.integers(0, 3, d), 3))
    out = {}
    for name in simple_sets(rng, d):
        sets = {g: simple_sets(rng, int((labels == g).sum()))[name] for g in range(3)}
        out[f"groups of {name}"] = S.GroupWise(sets, labels)
    kinds = list(simple_sets(rng, d))
    sets = {g: simple_sets(rng, int((labels == g).sum()))[rng.choice(kinds)] for g in range(2)}
    out["mixed, one free"] = S.GroupWise(sets, labels)
    out["some in no group"] = S.GroupWise(S.L1Ball(0.7), [None if rng.random() < 0.4 else int(g) for g in labels])
    out["groups of one"] = S.GroupWise(S.L2Ball(0.7), range(d))
    return out


def all_sets(rng, d):
    return {**simple_sets(rng, d), **grouped_sets(rng, d)}


NAMES = list(all_sets(np.random.default_rng(0), D))


def support_function(constraint, z, index):
    """max <z, w> over the members that live on the index, from the definition of the set; -inf if there is none."""
    z = z[index]
    a = np.abs(z).max(initial=0.0)
    match constraint:
        case S.Everywhere():
            return 0.0 if a == 0 else np.inf
        case S.NonNegative():
            return 0.0 if z.max(initial=0.0) <= 0 else np.inf
        case S.Box():
            if not set(constraint.forced) <= set(index.tolist()):
                return -np.inf
            ends = np.stack([constraint.lower[index], constraint.upper[index]])
            with np.errstate(invalid="ignore"):
                return float(np.where(z == 0, 0.0, z * ends).max(axis=0).sum())
        case S.LinfBall():
            return constraint.radius * np.abs(z).sum()
        case S.L1Ball():
            return constraint.radius * a
        case S.L2Ball():
            return constraint.radius * np.linalg.norm(z)
        case S.LpBall():
            q = 1.0 if constraint.p == np.inf else constraint.p / (constraint.p - 1)
            return constraint.radius * float((np.abs(z) ** q).sum() ** (1 / q))
        case S.SubSimplex():
            return constraint.total * z.max(initial=0.0)
        case S.Simplex():
            if z.size:
                return constraint.total * z.max()
            return -np.inf if constraint.total else 0.0
        case S.WeightedL1Ball():
            return constraint.radius * (np.abs(z) / constraint.weights[index]).max(initial=0.0)
        case S.Ellipsoid():
            return constraint.radius * np.linalg.norm(z * constraint.scales[index])
    raise NotImplementedError(constraint)


def slice_maximum(constraint, z, index, mu):
    """The maximum over the members that live on the index, -inf if there is none."""
    if mu > 0:
        try:
            w = constraint.project(z[index] / mu, index)
        except S.EmptySlice:
            return -np.inf
        return float(w @ (z[index] - 0.5 * mu * w))
    if not isinstance(constraint, S.GroupWise):
        return support_function(constraint, z, index)
    inside = np.isin(np.arange(z.size), index)
    parts = []
    for s, members in zip(constraint.sets, constraint._members, strict=True):
        parts.append(support_function(s or S.Everywhere(), z[members], np.flatnonzero(inside[members])))
    parts.append(support_function(S.Everywhere(), z, index[constraint.group_of(index) < 0]))
    return -np.inf if -np.inf in parts else sum(parts)


def brute_force(constraint, z, k, mu, keep=()):
    """Over all supports of size k that contain what is kept."""
    rest = [i for i in range(z.size) if i not in keep]
    best = -np.inf
    for more in itertools.combinations(rest, min(k, z.size) - len(keep)):
        best = max(best, slice_maximum(constraint, z, np.array(sorted([*keep, *more]), dtype=np.intp), mu))
    return best


def draw(seed, d=D):
    """z with and without ties, k, and coordinates to keep (often none)."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(d) if rng.random() < 0.6 else rng.choice([-2.0, -1, 0, 1, 1.5, 2], d)
    k = int(rng.integers(0, d + 2))
    keep = rng.choice(d, int(rng.integers(0, min(k, 3) + 1)) if rng.random() < 0.5 else 0, replace=False)
    return rng, z, k, np.sort(keep)


def require_maximum(constraint, z, k, mu, keep, rtol=1e-9):
    """Everything `sparse_maximum` promises, against brute force."""
    expected = brute_force(constraint, z, k, mu, keep.tolist())
    if expected == -np.inf:
        with pytest.raises(S.EmptySlice):
            constraint.sparse_maximum(z, k, mu, keep)
        return
    value, w = constraint.sparse_maximum(z, k, mu, keep)
    if expected == np.inf:
        assert (value, w) == (np.inf, None)
        return
    scale = abs(expected) + (np.abs(z).max() ** 2 / mu if mu else np.abs(z).max())
    assert value == pytest.approx(expected, rel=rtol, abs=rtol * min(scale, 1.0))
    assert value == pytest.approx(float(z @ w - 0.5 * mu * (w @ w)), rel=1e-12, abs=1e-12)
    assert w.shape == z.shape
    assert np.count_nonzero(np.delete(w, keep)) <= k - keep.size
    assert constraint.violation(w) <= 1e-12


@pytest.mark.parametrize("name", NAMES)
@given(seed=seeds, mu=mus)
@settings(max_examples=30, deadline=None)
def test_is_the_best_over_all_supports(name, seed, mu):
    rng, z, k, keep = draw(seed)
    constraint = all_sets(rng, D)[name]
    assert constraint.has_sparse_maximum(mu)
    require_maximum(constraint, z, k, mu, keep)


@pytest.mark.parametrize("kind", ["weighted", "ellipsoid", "groups"])
@given(seed=seeds)
@settings(max_examples=40, deadline=None)
def test_weighted_balls_know_their_linear_oracle_only(kind, seed):
    rng, z, k, keep = draw(seed)
    weighted = lambda d: S.WeightedL1Ball(rng.uniform(0.2, 3, d), 0.8)  # noqa: E731
    ellipsoid = lambda d: S.Ellipsoid(rng.uniform(0.2, 3, d), 0.8)  # noqa: E731
    constraint = {
        "weighted": lambda: weighted(D),
        "ellipsoid": lambda: ellipsoid(D),
        "groups": lambda: S.GroupWise({0: weighted(3), 1: ellipsoid(D - 3)}, [0, 1, 0, 1, 0] + [1] * (D - 5)),
    }[kind]()
    require_maximum(constraint, z, k, 0.0, keep)
    assert not constraint.has_sparse_maximum()
    assert constraint.sparse_maximum(z, k, 1.0) is None


@pytest.mark.parametrize("name", NAMES)
def test_linear_oracles_agree_with_cvxpy(name):
    """The referee of the cases with μ = 0 is itself refereed, on the slice of the support that was found."""
    rng = np.random.default_rng(3)
    constraint, z = all_sets(rng, D)[name], rng.standard_normal(D)
    value, w = constraint.sparse_maximum(z, 5, 0.0)
    if w is None:
        assert value == np.inf
        return
    variable = cp.Variable(D)
    zero = np.flatnonzero(w == 0)
    problem = cp.Problem(cp.Maximize(z @ variable), membership(constraint, variable) + [variable[zero] == 0])
    assert value == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6)


@pytest.mark.parametrize("name", ["Box", "L1Ball", "L2Ball", "LpBall 4", "Simplex", "groups of SubSimplex"])
@pytest.mark.parametrize("mu", [1e-100, 1e-12, 1e12, 1e100])
def test_extreme_mu(name, mu):
    """A vanishing μ gives the linear oracle, a huge one the best point of a shrunken problem."""
    rng = np.random.default_rng(5)
    constraint, z = all_sets(rng, D)[name], rng.standard_normal(D)
    value, w = constraint.sparse_maximum(z, 3, mu)
    assert constraint.violation(w) <= 1e-12
    assert np.count_nonzero(w) <= 3
    if mu < 1:
        assert value == pytest.approx(constraint.sparse_maximum(z, 3, 0.0)[0], rel=1e-11)
    else:
        assert value == pytest.approx(brute_force(constraint, z, 3, mu), rel=1e-9)


def test_a_planted_error_is_found():
    """Ranking a box by |z| instead of by gain must not survive the comparison."""

    class Wrong(S.Box):
        def _score_rows(self, z, mu, *parameters):
            return np.abs(z)

    found = 0
    for seed in range(30):
        rng, z, k, keep = draw(seed)
        box = Wrong(-rng.uniform(0, 2, D), rng.uniform(0, 2, D))
        try:
            require_maximum(box, z, k, 1.0, keep)
        except AssertionError:
            found += 1
    assert found > 5


class TestGroups:
    class Own(S.ConstraintSet):
        """A set of a user's that hides behind its own `sparse_maximum`, so that nothing is known about it."""

        def __init__(self, inner):
            self.inner = inner
            self.n_features, self.forced, self.needs_entry = inner.n_features, inner.forced, inner.needs_entry

        def project(self, v, support=None):
            return self.inner.project(v, support)

        def sparse_maximum(self, z, k, mu, keep=None):
            return self.inner.sparse_maximum(z, k, mu, keep)

    @given(seed=seeds, mu=mus)
    @settings(max_examples=60, deadline=None)
    def test_greedy_agrees_with_the_dynamic_programme(self, seed, mu):
        """30 coordinates, 5 groups of any kinds; some, all or none of them by the dynamic programme."""
        rng, z, _, _ = draw(seed, 30)
        k = int(rng.integers(3, 15))
        labels = np.array(labels_covering(rng.integers(0, 5, 30), 5))
        bounded = [n for n in simple_sets(rng, 3) if n not in ("Everywhere", "NonNegative", "Box half open")]
        sets = {g: simple_sets(rng, int((labels == g).sum()))[rng.choice(bounded)] for g in range(5)}
        hidden = {g: self.Own(s) if rng.random() < 0.6 else s for g, s in sets.items()}
        keep = np.sort(rng.choice(30, 2, replace=False)) if rng.random() < 0.5 else None
        try:
            value, w = S.GroupWise(sets, labels).sparse_maximum(z, k, mu, keep)
        except S.EmptySlice:
            with pytest.raises(S.EmptySlice):
                S.GroupWise(hidden, labels).sparse_maximum(z, k, mu, keep)
            return
        other, u = S.GroupWise(hidden, labels).sparse_maximum(z, k, mu, keep)
        assert value == pytest.approx(other, rel=1e-9, abs=1e-9 * min(1.0, 1 / mu if mu else 1))
        for x in (w, u):
            assert np.count_nonzero(x if keep is None else np.delete(x, keep)) <= k - (0 if keep is None else 2)
            assert S.GroupWise(sets, labels).violation(x) <= 1e-12

    @pytest.mark.parametrize("shape", ["even", "one group has it all", "scales differ", "many groups", "ties", "keep"])
    @pytest.mark.parametrize("kind", [S.L1Ball, S.L2Ball, S.SubSimplex, S.Simplex, S.LinfBall])
    def test_looking_at_few_candidates_first_loses_nothing(self, shape, kind):
        """Beyond 4096 coordinates each group offers only some of its entries; then more where all of them entered."""
        rng = np.random.default_rng(1)
        d, k = 6000, 60
        labels = np.array(labels_covering(rng.integers(0, 2000 if shape == "many groups" else 9, d), 9))
        z = rng.standard_normal(d)
        if shape == "one group has it all":
            z[labels == 4] *= 50
        elif shape == "scales differ":
            z *= 10.0**-labels
        elif shape == "ties":
            z = np.round(z)
        keep = np.flatnonzero(labels == 3)[:40] if shape == "keep" else None  # more than a group gets on average
        k = 2100 if shape == "many groups" and kind is S.Simplex else k
        names = np.unique(labels)
        sets = {g: kind(float(rng.uniform(0.5, 40))) for g in names.tolist()}
        if shape == "many groups":
            expected = self.by_merging(sets, labels, z, k)
        else:
            kept = {3: 40} if shape == "keep" else {}
            tables = [self.table(sets[g], z[labels == g], k, kept.get(g, 0)) for g in names.tolist()]
            counts = dynamic_programme(tables, k)
            expected = sum(table[j] for table, j in zip(tables, counts, strict=True))
        value, w = S.GroupWise(sets, labels).sparse_maximum(z, k, 1.0, keep)
        assert value == pytest.approx(expected, rel=1e-10)
        assert np.count_nonzero(w) <= k

    @staticmethod
    def table(s, z, k, n_kept):
        """v(0), v(1), ... of one group, of which the first coordinates are kept."""
        values = [-np.inf] * n_kept
        for j in range(n_kept, k + 1):
            try:
                values.append(s.sparse_maximum(z, j, 1.0, np.arange(n_kept))[0])
            except S.EmptySlice:
                values.append(-np.inf)
        return np.array(values)

    @staticmethod
    def by_merging(sets, labels, z, k):
        """The same in the plainest way: all increments of all groups in one list."""
        total, increments = 0.0, []
        for g, s in sets.items():
            part = z[labels == g]
            values = [s.sparse_maximum(part, j, 1.0)[0] for j in range(1, part.size + 1)]
            if s.needs_entry:
                total, values, k = total + values[0], np.diff(values), k - 1
            else:
                values = np.diff(values, prepend=0.0)
            increments += list(values)
        return total + sum(sorted(increments, reverse=True)[:k])

    def test_no_python_loop_over_groups(self, monkeypatch):
        calls = []
        original = S.L1Ball._increments
        monkeypatch.setattr(S.L1Ball, "_increments", lambda self, *a: calls.append(1) or original(self, *a))
        rng = np.random.default_rng(0)
        gamma = S.GroupWise(S.L1Ball(1.0), rng.integers(0, 5000, 50_000))
        gamma.sparse_maximum(rng.standard_normal(50_000), 300, 1.0)
        assert 1 <= len(calls) <= 15

    def test_many_candidates_are_counted_once(self):
        """A group takes all the entries it can use when it outbids every other."""
        z = np.concatenate([np.full(3000, 5.0), np.ones(3000)])
        gamma = S.GroupWise(S.L2Ball(100.0), np.repeat([0, 1], 3000))
        _, w = gamma.sparse_maximum(z, 200, 1.0)
        np.testing.assert_array_equal(np.flatnonzero(w), np.arange(200))

    @given(seed=seeds, p=st.sampled_from([1.0, 1.3, 2.0, 3.0, np.inf]), mu=st.floats(-3, 3).map(lambda e: 10.0**e))
    @settings(max_examples=60, deadline=None)
    def test_increments_decrease_and_agree_with_projections(self, seed, p, mu):
        """Closed forms against the projection of every prefix, sorted and with kept entries in front."""
        rng = np.random.default_rng(seed)
        z, radius = 3 * rng.standard_normal((4, 9)), rng.uniform(0, 3, (4, 1))
        z = np.take_along_axis(z, np.argsort(-np.abs(z), axis=1), axis=1)
        z[:2] = np.roll(z[:2], 2, axis=1)  # two small ones in front, as if they were kept
        ball = S.LpBall(p, 1.0)
        increments = ball._increments(z, mu, radius)
        np.testing.assert_allclose(
            increments, increments_by_projection(ball, z, mu, radius), atol=1e-9 * max(1, 1 / mu)
        )
        assert (np.diff(increments[:, 2:], axis=1) <= 1e-9 * max(1, 1 / mu)).all()


class SumOfThreeLargest(S.ConstraintSet):
    """The three largest |w_i| sum to at most 1: symmetric, but its v(j) is not concave (PAPER)."""

    closed_under_zeroing = True

    def project(self, v, support=None):
        if v.size <= 3:
            return S.L1Ball(1.0).project(v)
        w = cp.Variable(v.size)
        cp.Problem(cp.Minimize(cp.sum_squares(w - v)), [cp.sum_largest(cp.abs(w), 3) <= 1]).solve(solver=cp.CLARABEL)
        return np.asarray(w.value)

    def sparse_maximum(self, z, k, mu, keep=None):
        index = np.sort(np.argsort(-np.abs(z), kind="stable")[:k])
        w = np.zeros_like(z)
        w[index] = self.project(z[index] / mu) if k else 0.0
        return float(z @ w - 0.5 * mu * (w @ w)), w


class TestNotConcave:
    VALUES = (0, 0.95, 0.975, 0.98333333, 1.31111111, 1.63888889)

    def test_the_table(self):
        table = [SumOfThreeLargest().sparse_maximum(np.ones(5), j, 0.1)[0] for j in range(6)]
        np.testing.assert_allclose(table, self.VALUES, atol=1e-6)

    @pytest.mark.parametrize("k", range(11))
    def test_needs_the_dynamic_programme(self, k):
        gamma = S.GroupWise(SumOfThreeLargest(), [0] * 5 + [1] * 5)
        value, w = gamma.sparse_maximum(np.ones(10), k, 0.1)
        best = max(self.VALUES[i] + self.VALUES[min(k - i, 5)] for i in range(min(k, 5) + 1))
        assert value == pytest.approx(best, abs=1e-6)
        assert np.count_nonzero(np.abs(w) > 1e-8) <= k
        increments = sorted(np.diff(self.VALUES).tolist() * 2, reverse=True)
        if k == 6:  # the largest increments belong to entries that cannot enter yet
            assert sum(increments[:k]) > best + 0.1

    def test_beside_concave_groups(self):
        """The fourth entry pays only together with the first three, and still outbids all that is left elsewhere."""
        gamma = S.GroupWise({0: SumOfThreeLargest(), 1: S.L1Ball(2.0)}, [0] * 5 + [1] * 3 + [None])
        z = np.array([1.0] * 5 + [3.0, 2.0, 1.0] + [0.4])
        value, w = gamma.sparse_maximum(z, 6, 0.1)
        others = (0.0, 6 - 0.2, 6 - 0.2 + 0.8)  # the ball needs one entry, the free coordinate has z²/(2μ) = 0.8
        best = max(self.VALUES[i] + others[j] for i in range(6) for j in range(3) if i + j <= 6)
        assert value == pytest.approx(best, abs=1e-6)
        assert best == self.VALUES[4] + others[2]
        assert gamma.violation(w) <= 1e-3

    @given(k=st.integers(0, 12), seed=seeds)
    @settings(max_examples=50, deadline=None)
    def test_dynamic_programme_against_every_allocation(self, seed, k):
        rng = np.random.default_rng(seed)
        tables = [np.where(rng.random(n) < 0.1, -np.inf, rng.standard_normal(n)) for n in rng.integers(1, 6, 4)]
        totals = {
            c: sum(t[j] for t, j in zip(tables, c, strict=True))
            for c in itertools.product(*(range(t.size) for t in tables))
            if sum(c) <= k
        }
        best = max(totals.values(), default=-np.inf)
        if best == -np.inf:
            with pytest.raises(S.EmptySlice):
                dynamic_programme(tables, k)
        else:
            assert totals[tuple(dynamic_programme(tables, k))] == pytest.approx(best)

    def test_a_group_that_does_not_know(self):
        class Unknown(SumOfThreeLargest):
            def sparse_maximum(self, z, k, mu, keep=None):
                return None

        gamma = S.GroupWise({0: Unknown(), 1: S.L1Ball(1.0)}, [0, 0, 1])
        assert gamma.sparse_maximum(np.ones(3), 2, 1.0) is None
        with pytest.raises(ValueError, match="is not known.*projection='two-step'"):
            ez.euclidean_projection(np.ones(3), 2, gamma)


class TestEdges:
    @pytest.mark.parametrize(
        ("constraint", "expected"),
        [
            (S.Everywhere(), [2, 2, 0, 0]),
            (S.Box(-1, 1), [1, 1, 0, 0]),
            (S.NonNegative(), [2, 2, 0, 0]),
            (S.L1Ball(1.0), [0.5, 0.5, 0, 0]),
            (S.Simplex(1.0), [0.5, 0.5, 0, 0]),
            (S.GroupWise(S.L2Ball(1.0), [1, 0, 1, 0]), [1, 1, 0, 0]),
            (S.GroupWise(S.L1Ball(1.0), [0, 0, 1, 1]), [1, 0, 1, 0]),
        ],
        ids=repr,
    )
    def test_among_equals_the_lowest_index_wins(self, constraint, expected):
        np.testing.assert_allclose(constraint.sparse_maximum(np.full(4, 2.0), 2, 1.0)[1], expected)

    @pytest.mark.parametrize("constraint", [S.L1Ball(2.0), S.SubSimplex(2.0), S.Simplex(2.0)], ids=repr)
    def test_ties_of_the_linear_oracle(self, constraint):
        value, w = constraint.sparse_maximum(np.array([1.0, 3.0, 3.0]), 3, 0.0)
        np.testing.assert_array_equal(w, [0, 2, 0])
        assert value == 6

    def test_ties_between_families(self):
        gamma = S.GroupWise({0: S.L1Ball(1.0), 1: S.LinfBall(1.0), 2: S.L1Ball(1.0)}, [0, 1, 2])
        np.testing.assert_array_equal(gamma.sparse_maximum(np.full(3, 2.0), 2, 1.0)[1], [1, 1, 0])

    @pytest.mark.parametrize("mu", [0.0, 1.0])
    def test_a_budget_need_not_be_spent(self, mu):
        for gamma in (S.SubSimplex(1.0), S.GroupWise(S.SubSimplex(1.0), [0, 0, 1])):
            for keep in (None, [1]):
                value, w = gamma.sparse_maximum(np.array([-1.0, -2.0, -3.0]), 2, mu, keep)
                assert value == 0
                assert not w.any()

    def test_entries_that_bring_nothing_stay_zero(self):
        assert not S.NonNegative().sparse_maximum(-np.ones(4), 3, 1.0)[1].any()
        w = S.GroupWise(S.L1Ball(1.0), [0, 0, 1, 1]).sparse_maximum(np.array([9.0, 1, 9, 1]), 4, 1.0)[1]
        np.testing.assert_array_equal(w, [1, 0, 1, 0])

    @pytest.mark.parametrize(
        "constraint", [S.Everywhere(), S.NonNegative(), S.Box(-1), S.GroupWise(S.L1Ball(1.0), [0, None])], ids=repr
    )
    def test_without_a_bound_the_value_is_infinite(self, constraint):
        assert constraint.sparse_maximum(np.array([1.0, 2.0]), 2, 0.0) == (np.inf, None)
        value, w = constraint.sparse_maximum(np.zeros(2), 2, 0.0)
        assert value == 0
        np.testing.assert_array_equal(w, [0, 0])

    def test_an_unbounded_coordinate_that_cannot_enter(self):
        """The one entry there is must go to the exact budget."""
        gamma = S.GroupWise({"a": S.Simplex(2.0)}, ["a", "a", None])
        value, w = gamma.sparse_maximum(np.array([1.0, -3.0, 5.0]), 1, 0.0)
        assert value == 2
        np.testing.assert_array_equal(w, [2, 0, 0])
        assert gamma.sparse_maximum(np.array([1.0, -3.0, 5.0]), 2, 0.0) == (np.inf, None)

    def test_an_unbounded_set_of_a_user(self):
        gamma = S.GroupWise({0: TestGroups.Own(S.NonNegative()), 1: S.L1Ball(1.0)}, [0, 0, 1])
        assert gamma.sparse_maximum(np.array([1.0, -1.0, 2.0]), 1, 0.0) == (np.inf, None)
        assert gamma.sparse_maximum(np.array([-1.0, -1.0, 2.0]), 1, 0.0)[0] == 2

    @pytest.mark.parametrize(
        ("constraint", "k", "message"),
        [
            (S.Simplex(1.0), 0, "Simplex.*at most k=0 nonzeros.*raise k"),
            (S.Box([0.1, 0.1, -1], 1), 1, "needs at least 2"),
            (S.Box(0.1, 1), 2, "needs at least 3"),
            (S.GroupWise(S.Simplex(1.0), ["a", "b", "c"]), 2, "at least 3 nonzeros together, more than k=2"),
            (S.GroupWise({0: S.Box(0.1, 1)}, [0, 0, 1]), 1, "needs at least 2"),
            (S.GroupWise({0: TestGroups.Own(S.Simplex(1.0)), 1: S.Simplex(1.0)}, [0, 0, 1]), 1, "share k=1"),
        ],
        ids=repr,
    )
    def test_empty(self, constraint, k, message):
        with pytest.raises(S.EmptySlice, match=message):
            constraint.sparse_maximum(np.array([3.0, 2.0, 1.0]), k, 1.0)

    def test_bounds_that_exclude_zero_in_every_coordinate(self):
        value, w = S.Box(0.1, 1).sparse_maximum(np.array([3.0, -2.0, 0.5]), 3, 1.0)
        np.testing.assert_allclose(w, [1, 0.1, 0.5])
        assert value == pytest.approx(2.5 - 0.205 + 0.125)
        gamma = S.GroupWise({0: S.Box(0.1, 1)}, [0, 0, 1])
        np.testing.assert_allclose(gamma.sparse_maximum(np.array([3.0, -2.0, 9.0]), 2, 1.0)[1], [1, 0.1, 0])
        with pytest.raises(S.EmptySlice, match="coordinate 1"):
            gamma.project(np.array([3.0]), np.array([0]))

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((-1, 1.0), ValueError, "k must be at least 0"),
            ((1, -1.0), ValueError, "mu must lie in"),
            ((1, np.inf), ValueError, "mu must lie in"),
            ((1, 1.0, [0, 1]), ValueError, "keep names 2 coordinates, more than k=1"),
            ((1, 1.0, [7]), ValueError, "keep must lie in 0..2, got 7"),
        ],
    )
    def test_errors(self, arguments, error, message):
        for constraint in (S.L1Ball(1.0), S.GroupWise(S.L1Ball(1.0), [0, 0, 1])):
            with pytest.raises(error, match=message):
                constraint.sparse_maximum(np.ones(3), *arguments)

    def test_sizes_and_finiteness(self):
        with pytest.raises(ValueError, match="made for 2 coordinates, z has 3"):
            S.Box([0, 0], 1).sparse_maximum(np.ones(3), 1, 1.0)
        for constraint in (S.NonNegative(), S.GroupWise(S.L1Ball(1.0), [0, 0, 1])):
            with pytest.raises(ValueError, match="must be finite, got -inf at index 1"):
                constraint.sparse_maximum(np.array([1.0, -np.inf, 2.0]), 1, 1.0)

    @pytest.mark.parametrize(
        "constraint",
        [
            S.PackingPolytope([[1, 1, 1]], [1]),
            S.Intersection(S.L1Ball(1), S.LinfBall(0.5)),
            S.GroupWise(S.Ellipsoid([1.0], 1), [0, 1, 2]),
        ],
        ids=repr,
    )
    def test_unknown(self, constraint):
        assert not constraint.has_sparse_maximum()
        assert constraint.sparse_maximum(np.ones(3), 1, 1.0) is None
        with pytest.raises(ValueError, match="is not known. Ways out: projection='two-step'"):
            ez.euclidean_projection(np.ones(3), 1, constraint)

    def test_unknown_and_not_support_preserving(self):
        budget_with_caps = S.Intersection(S.Simplex(1.0), S.LinfBall(0.5))
        with pytest.raises(ValueError, match="projection='restricted'"):
            ez.euclidean_projection(np.ones(3), 2, budget_with_caps)

    @pytest.mark.parametrize("name", NAMES)
    def test_float32_stays_float32(self, name):
        rng = np.random.default_rng(8)
        constraint, z = all_sets(rng, D)[name], rng.standard_normal(D).astype(np.float32)
        value, w = constraint.sparse_maximum(z, 5, 0.5)
        assert w.dtype == np.float32
        assert constraint.contains(w)
        assert value == pytest.approx(constraint.sparse_maximum(z.astype(float), 5, 0.5)[0], rel=1e-5)

    def test_large_numbers(self):
        z = np.array([3e200, -4e200, 1e199])
        np.testing.assert_array_equal(ez.euclidean_projection(z, 1, S.Everywhere()), [0, -4e200, 0])
        for gamma in (S.L2Ball(1.0), S.GroupWise(S.L2Ball(1.0), [0, 0, 0])):
            np.testing.assert_allclose(ez.euclidean_projection(z, 2, gamma), [0.6, -0.8, 0])
        for gamma in (S.L1Ball(1.0), S.GroupWise(S.L1Ball(1.0), [0, 0, 0])):
            np.testing.assert_allclose(ez.euclidean_projection(z, 2, gamma), [0, -1, 0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_array_libraries_agree_with_numpy(name, mu):
    import array_api_strict as xp

    for seed in range(4):
        rng, z, k, keep = draw(seed)
        constraint = all_sets(rng, D)[name]
        try:
            value, w = constraint.sparse_maximum(z, k, mu, keep)
        except S.EmptySlice:
            continue
        other, u = constraint.sparse_maximum(xp.asarray(z), k, mu, keep)
        assert other == pytest.approx(value, rel=1e-12)
        if w is not None:
            assert type(u) is type(xp.asarray(z))
            np.testing.assert_allclose(_arrays.to_host(u), w, atol=1e-12)


class TestEuclideanProjection:
    @pytest.mark.parametrize("name", NAMES)
    @given(seed=seeds)
    @settings(max_examples=8, deadline=None)
    def test_is_the_nearest_sparse_member(self, name, seed):
        rng, v, _, _ = draw(seed)
        k = 4
        constraint = all_sets(rng, D)[name]
        try:
            w = ez.euclidean_projection(v, k, constraint)
        except S.EmptySlice:
            return
        distances = [np.inf]
        for support in itertools.combinations(range(D), k):
            index = np.array(support)
            try:
                p = constraint.project(v[index], index)
            except S.EmptySlice:
                continue
            distances.append(np.sum((p - v[index]) ** 2) + np.sum(np.delete(v, index) ** 2))
        assert float(np.sum((w - v) ** 2)) == pytest.approx(min(distances), rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize(
        "constraint",
        [S.Everywhere(), S.L1Ball(1.0), S.L2Ball(0.7), S.LinfBall(0.5), S.LpBall(1.5, 1.0), S.LpBall(3, 0.8)],
        ids=repr,
    )
    @given(seed=seeds)
    @settings(max_examples=15, deadline=None)
    def test_equals_the_two_step_projection_for_symmetric_sets(self, constraint, seed):
        _, v, k, keep = draw(seed)
        two_step = ez.two_step_projection(v, k, constraint, keep=keep)
        np.testing.assert_array_equal(ez.euclidean_projection(v, k, constraint, keep=keep), two_step)

    @pytest.mark.parametrize(
        ("constraint", "v", "k"),
        [
            (S.NonNegative(), [-3.0, 1.0], 1),
            (S.GroupWise(S.L1Ball(1.0), ["a", "a", "b"]), [3.0, 2.9, 1.0], 2),
            (S.Box(-0.1, 2), [-3.0, 2.0], 1),
        ],
        ids=repr,
    )
    def test_is_strictly_closer_where_the_bound_wastes_entries(self, constraint, v, k):
        v = np.array(v)
        exact, two_step = (p(v, k, constraint) for p in (ez.euclidean_projection, ez.two_step_projection))
        assert np.linalg.norm(exact - v) < 0.98 * np.linalg.norm(two_step - v)
        np.testing.assert_allclose(exact, brute_force_projection(constraint, v, k)[1], atol=1e-12)

    def test_an_exact_budget(self):
        """The signed largest entries, not the largest in magnitude."""
        v = np.array([0.6, -3.0, 0.5, 0.1])
        np.testing.assert_allclose(ez.euclidean_projection(v, 2, S.Simplex(1.0)), [0.55, 0, 0.45, 0])
        np.testing.assert_allclose(ez.restricted_projection(v, 2, S.Simplex(1.0)), [1, 0, 0, 0])

    def test_support_and_keep(self):
        from ellzero.solver.projections import projector

        w, support = projector("euclidean", S.NonNegative(), ez.sparsity.Coordinates(3), 4, np.array([1]))(
            np.array([2.0, -1.0, 3.0, 4.0])
        )
        np.testing.assert_array_equal(w, [0, 0, 3, 4])
        np.testing.assert_array_equal(support, [1, 2, 3])
        w, support = projector("euclidean", S.L1Ball(1.0), ez.sparsity.Coordinates(2), 4, np.arange(0))(
            np.array([9.0, -1.0, 3.0, 4.0])
        )
        np.testing.assert_array_equal(support, [0])

    def test_does_not_change_its_input(self):
        v = np.array([3.0, -1.0, 2.0])
        for constraint in (S.Everywhere(), S.NonNegative(), S.Simplex(1.0), S.GroupWise(S.Simplex(1.0), [0, 0, 0])):
            w = ez.euclidean_projection(v, 3, constraint)
            assert not np.shares_memory(w, v)
        np.testing.assert_array_equal(v, [3, -1, 2])

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("k", [0, 1, 3])
    def test_nan_and_infinities_are_refused(self, bad, k):
        for constraint in (S.Everywhere(), S.SubSimplex(1.0), S.GroupWise(S.L1Ball(1.0), [0, 0, 1])):
            with pytest.raises(ValueError, match="must be finite, got .* at index 2"):
                ez.euclidean_projection(np.array([1.0, 0.0, bad]), k, constraint)
