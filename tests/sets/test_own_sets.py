"""Sets of the users' own that inherit from a set of the library: nothing of the old set may be believed of the new."""

from __future__ import annotations

import warnings
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest

import ellzero as ez
from common import support_preserving_sets
from ellzero import sets
from ellzero.certificates import CertificateStatus
from ellzero.sets.base import MemberNotFound

D, K = 5, 2


class HalfBox(sets.Box):
    """The box, at half its width."""

    def project(self, v, support=None):
        return 0.5 * super().project(2 * v, support)


class RoundBox(sets.Box):
    """Not a box at all: the ball around 0 whose radius is the upper bound."""

    def project(self, v, support=None):
        return v * min(1.0, self.upper / max(np.linalg.norm(v), 1e-300))


class ShiftedBox(sets.Box):
    """The box moved by 0.3: members of it, or of its slices, need not contain 0."""

    def project(self, v, support=None):
        return np.clip(v, self.lower + 0.3, self.upper + 0.3)


class RowBox(sets.Box):
    """Twice as wide, told to the rows."""

    def _project_rows(self, v, *parameters):
        lower, upper = parameters
        return np.clip(v, 2 * lower, 2 * upper)


class LongBall(sets.L1Ball):
    """The l1 ball without its negative part."""

    def project(self, v, support=None):
        return super().project(np.maximum(v, 0.0), support)


class Mixin:
    def project(self, v, support=None):
        return np.clip(v, -0.2, 0.4)


class MixedBall(Mixin, sets.L2Ball):
    """project comes from elsewhere."""


class NarrowNonNegative(sets.NonNegative):
    """Non-negative, and at most 0.5."""

    def project(self, v, support=None):
        return np.clip(v, 0.0, 0.5)


OWN = {
    "half": (HalfBox(-1.0, 1.0), lambda w: [w >= -0.5, w <= 0.5]),
    "round": (RoundBox(-1.0, 1.0), lambda w: [cp.norm(w) <= 1]),
    "shifted": (ShiftedBox(-1.0, 1.0), lambda w: [w >= -0.7, w <= 1.3]),
    "rows": (RowBox(-0.3, 0.3), lambda w: [w >= -0.6, w <= 0.6]),
    "long": (LongBall(1.0), lambda w: [w >= 0, cp.sum(w) <= 1]),
    "mixed": (MixedBall(5.0), lambda w: [w >= -0.2, w <= 0.4]),
    "narrow": (NarrowNonNegative(), lambda w: [w >= 0, w <= 0.5]),
}
for _name, (_set, _rows) in list(OWN.items()):
    OWN[f"{_name}, in groups"] = (
        sets.GroupWise({"a": _set, "b": sets.LinfBall(0.9)}, ["a", "a", "a", "b", "b"]),
        lambda w, rows=_rows: [*rows(w[:3]), cp.abs(w[3:]) <= 0.9],
    )
    OWN[f"{_name}, intersected"] = (
        sets.Intersection(_set, sets.LinfBall(0.45)),
        lambda w, rows=_rows: [*rows(w), cp.abs(w) <= 0.45],
    )


def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, D))
    return X, X @ np.array([2.0, -1.5, 0.0, 1.0, -0.4]) + 0.1 * rng.standard_normal(30)


def brute_force(X, y, rows):
    best = np.inf
    for support in combinations(range(D), K):
        w = cp.Variable(D)
        outside = [w[i] == 0 for i in range(D) if i not in support]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - y) / len(y)), [*rows(w), *outside])
        problem.solve(solver=cp.CLARABEL)
        best = min(best, problem.value)
    return best


@pytest.mark.parametrize("name", OWN)
def test_sets_that_redefine_the_projection_are_solved_as_what_they_are(name):
    gamma, rows = OWN[name]
    X, y = data()
    risk, optimum = ez.risks.LeastSquares(X, y), brute_force(X, y, rows)
    ez.testing.check_set(gamma, D, K, support_preserving=False, rng=0)
    for method in ("auto", "exact"):
        result = ez.minimize(risk, K, gamma, method=method)
        assert result.fun == pytest.approx(optimum, rel=1e-6), method
        assert ez.certify(risk, result).lower_bound <= optimum * (1 + 1e-7)
    if gamma.preserves_support:
        assert ez.minimize(risk, K, gamma, method="IHT-2SP").fun >= optimum * (1 - 1e-7)
    else:  # nobody has said that zeroing keeps members
        with pytest.raises(ValueError, match="support-preserving"):
            ez.minimize(risk, K, gamma, method="IHT-2SP")


def test_what_such_a_set_states_itself_is_kept():
    class Stated(HalfBox):
        closed_under_zeroing = True
        accuracy = 1e-9

        def violation(self, w):
            return max(0.0, float(np.abs(w).max()) - 0.5)

    gamma = Stated(-1.0, 1.0)
    assert gamma.redefined
    assert gamma.preserves_support
    assert gamma.violation(np.array([0.7])) == pytest.approx(0.2)
    assert gamma.accuracy == 1e-9
    assert not gamma.has_sparse_maximum()
    X, y = data()
    assert ez.minimize(ez.risks.LeastSquares(X, y), K, gamma, method="IHT-2SP").success

    class InInit(HalfBox):
        def __init__(self):
            super().__init__(-1.0, 1.0)
            self.closed_under_zeroing = True

    assert InInit().preserves_support


def test_a_subclass_that_leaves_the_projection_alone_keeps_everything():
    class Named(sets.Box):
        def __init__(self, name, lower, upper):
            super().__init__(lower, upper)
            self.name = name

    gamma = Named("mine", -1.0, np.ones(D))
    assert not gamma.redefined
    assert gamma.has_sparse_maximum()
    assert gamma.preserves_support
    assert isinstance(gamma.rescaled(np.full(D, 2.0)), sets.Box)

    class Strict(sets.Box):
        def violation(self, w):
            return 2 * super().violation(w)

    X, y = data()
    risk = ez.risks.LeastSquares(X, y)
    assert ez.minimize(risk, K, Strict(-1, 1)).fun == ez.minimize(risk, K, sets.Box(-1, 1)).fun


def test_a_family_of_ones_own_keeps_what_its_base_states():
    class Base(sets.ConstraintSet):
        closed_under_zeroing = True

    class Unit(Base):
        def project(self, v, support=None):
            return np.clip(v, -1.0, 1.0)

    assert Unit().preserves_support
    assert not Unit().redefined


def test_everywhere_is_no_base_for_a_constraint():
    with pytest.raises(TypeError, match=r"inherits from Everywhere.*ConstraintSet"):

        class Mine(sets.Everywhere):
            def project(self, v, support=None):
                return np.clip(v, -1.0, 1.0)


class Rough(sets.ConstraintSet):
    """The l2 ball, projected with an error of 5e-11."""

    closed_under_zeroing = True

    def project(self, v, support=None):
        size = np.linalg.norm(v)
        return v if size <= 1 + 5e-11 else v * ((1 + 5e-11) / size)

    def violation(self, w):
        return max(0.0, float(np.linalg.norm(w)) - 1)


def test_iterative_projections_declare_their_accuracy():
    X, y = data()
    risk = ez.risks.LeastSquares(X, y)
    with pytest.raises(RuntimeError, match="accuracy"):
        ez.minimize(risk, K, Rough())
    with pytest.raises(AssertionError, match=r"5e-11.*accuracy"):
        ez.testing.check_set(Rough(), D, K, rng=0)

    class Honest(Rough):
        accuracy = 1e-10

    ez.testing.check_set(Honest(), D, K, rng=0)
    result = ez.minimize(risk, K, Honest())
    assert result.success
    assert Honest().contains(result.x)
    assert not Honest().contains(result.x, tol=1e-12)
    groups = sets.GroupWise(Honest(), ["a", "a", "a", "b", "b"])
    assert groups.accuracy == 1e-10
    assert sets.Intersection(Honest(), sets.LinfBall(2.0)).accuracy == 1e-10
    assert sets.Intersection(sets.L2Ball(1.0), sets.LinfBall(2.0), tol=1e-6).accuracy == 1e-6
    assert ez.minimize(risk, K, groups).success


class Unit(sets.ConstraintSet):
    """[-1, 1]^d, about which nothing else is said."""

    closed_under_zeroing = True

    def project(self, v, support=None):
        return np.clip(v, -1.0, 1.0)


def test_check_set_finds_false_facts():
    class Deaf(Unit):
        def violation(self, w):
            return 0.0

    class Needy(Unit):
        needs_entry = True

    class Forced(Unit):
        forced = np.array([1])

    class Greedy(Unit):
        def sparse_maximum(self, z, k, mu, keep=None):
            w = np.zeros(z.size)
            w[0] = np.clip(z[0], -1.0, 1.0)
            return float(z @ w - 0.5 * mu * w @ w), w

    class Loose(Unit):
        def sparse_maximum(self, z, k, mu, keep=None):
            return float(np.abs(z).sum()), np.zeros(z.size)

    class Dense(Unit):
        def sparse_maximum(self, z, k, mu, keep=None):
            w = np.sign(z)
            return float(z @ w - 0.5 * mu * w @ w), w

    class Stretched(Unit):
        def rescaled(self, scales):
            return sets.LinfBall(1.0)

    class Downhill(Unit):
        def quadratic_minimum(self, G, b, support):
            return np.zeros(b.size)

    class Crowded(Unit):
        def sparse_support(self, v, k, keep):
            return np.arange(v.size)

    for wrong, words in (
        (Deaf, "violation"), (Needy, "needs_entry"), (Forced, "forced"), (Greedy, "another member has"),
        (Loose, "not the value"), (Dense, "nonzeros"), (Stretched, "rescaled"), (Downhill, "downhill"),
        (Crowded, "sparse_support"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=words):
            ez.testing.check_set(wrong(), D, K, rng=0)
    ez.testing.check_set(Unit(), D, K, rng=0)


def test_a_product_of_inexact_projections_claims_no_more_than_its_parts():
    """Three rounds of Dykstra's projections at most: a half-space that rests on the declared accuracy cuts members off."""
    names = ["a", "c", "a", "a", None, "a", "c"]
    a, c = np.array([0, 2, 3, 5]), np.array([1, 6])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        axes = rng.uniform(0.5, 2, 4)
        parts = [sets.L2Ball(1.0), sets.Ellipsoid(axes, 1.0), sets.L1Ball(1.2)]
        gamma = sets.GroupWise({"a": sets.Intersection(*parts, tol=1e-2, max_iter=3), "c": sets.L1Ball(0.5)}, names)
        v = 3 * rng.standard_normal(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that they have not converged
            p, n, slack, spread = gamma.supporting(v, np.arange(7))
        w, budget = cp.Variable(7), [cp.norm(w_a := cp.Variable(4)) <= 1]
        budget += [cp.norm(cp.multiply(1 / axes, w_a)) <= 1, cp.norm1(w_a) <= 1.2, w[a] == w_a, cp.norm1(w[c]) <= 0.5]
        cp.Problem(cp.Maximize(n @ w), [*budget, w[4] == v[4]]).solve(solver="CLARABEL")  # n is 0 there
        assert n @ (w.value - p) <= slack + spread * np.linalg.norm(w.value - p) + 1e-7


def test_a_set_on_which_no_member_is_found_has_no_bound_but_no_error():
    class Lost(sets.Intersection):
        """Alternating projections that do not meet, where a lower bound asks for them."""

        def supporting(self, v, support):
            raise MemberNotFound("alternating projections did not meet")

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))
    risk = ez.risks.Logistic(X, X[:, 0] > 0)
    result = ez.minimize(risk, 4, Lost(sets.Simplex(1.0), sets.LinfBall(0.6)))
    certificate = ez.certify(risk, result)
    assert 0 <= certificate.lower_bound <= result.fun
    assert certificate.status is not CertificateStatus.OPTIMAL


class TestStructures:
    """What is said about groups and quotas is attacked, and a wrong word is shown with its counterexample."""

    @pytest.mark.parametrize("name", support_preserving_sets(8, np.random.default_rng(0)))
    @pytest.mark.slow
    def test_the_sets_of_the_library_stand(self, name):
        ez.testing.check_set(support_preserving_sets(8, np.random.default_rng(1))[name], 8, 3, rng=0)

    @pytest.mark.slow
    def test_groups_of_sets_without_zero_stand(self):
        labels = [0, 0, 1, 1, 2, 2, None, None]
        for inner in (
            sets.Simplex(1.0),
            sets.Box(np.array([0.1, -1.0]), 1.0),
            sets.Intersection(sets.L2Ball(1.0), sets.Box(-0.2, 1)),
        ):
            ez.testing.check_set(sets.GroupWise(inner, labels), 8, 5, support_preserving=False, rng=0)

    def test_a_planted_maximum_of_groups(self):
        class Wrong(sets.L1Ball):
            def _exponent(self, mu):
                return 2.0  # the l1 ball does not go by norms

        with pytest.raises(AssertionError, match=r"sparse_maximum\(z, Groups.*and another member has"):
            ez.testing.check_set(Wrong(1.0), 8, 3, rng=0)

    def test_a_planted_maximum_of_quotas(self):
        class Greedy(sets.ConstraintSet):
            """A box that forgets the quotas."""

            closed_under_zeroing = True

            def project(self, v, support=None):
                return np.clip(v, -1.0, 1.0)

            def knows_maximum(self, sparsity, mu=1.0):
                return True

            def sparse_maximum(self, z, k, mu, keep=None):
                return sets.LinfBall(1.0).sparse_maximum(z, getattr(k, "k", k), mu, keep)

        with pytest.raises(AssertionError, match=r"sparse_maximum\(z, (Groups|PerGroup).*(too much|another member)"):
            ez.testing.check_set(Greedy(), 8, 3, rng=0)

    @pytest.mark.parametrize("fact", ["preserves", "product_over"])
    def test_planted_facts(self, fact):
        class Line(sets.ConstraintSet):
            def project(self, v, support=None):
                if support is not None and np.size(support) < 6:
                    return np.zeros_like(v)
                return np.full_like(v, v.mean())

        setattr(Line, fact, lambda self, atoms: True)
        # a wrong product shows in the maxima that are put together from its parts, too
        with pytest.raises(AssertionError, match="preserves" if fact == "preserves" else "product_over|sparse_maximum"):
            ez.testing.check_set(Line(), 6, 2, support_preserving=False, rng=0)
