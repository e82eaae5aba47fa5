"""What sets state about themselves: a wrong statement of any kind is found, and a right one is all that a set needs."""

from __future__ import annotations

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets
from ellzero.sets import _heirs, base
from ellzero.sets.multipliers import Multipliers
from ellzero.sets.polyhedron import Polyhedron

D, K = 5, 2


class Unit(sets.ConstraintSet):
    """[-1, 1]^d, about which nothing else is said."""

    closed_under_zeroing = True

    def project(self, v, support=None):
        return np.clip(v, -1.0, 1.0)


def gives(value):
    """A method with this answer, whatever it is asked."""
    return lambda self, *arguments, **options: value(*arguments) if callable(value) else value


def empty(*_):
    raise sets.EmptySlice("nothing here")


WIDE = Polyhedron.box(-3.0, 3.0, D)
CURVE = np.array([0.0, 5.0, 5.0, 50.0, 50.0, 50.0])
#: fact -> wrong statements about the unit box, each with the words by which it is known
WRONG = {
    "closed_under_zeroing": [],  # true of this set: see below
    "words": [],  # for people, nothing rests on them: see test_constraints
    "whole_space": [(True, "whole_space")],
    "orthant": [(True, "orthant")],
    "separable": [],  # true of this set: see below
    "symmetric": [],  # true of this set: see below
    "of_singular_values": [(gives(sets.LinfBall(1.0)), "of_singular_values")],
    "preserves": [],  # true of this set: see test_own_sets
    "product_over": [],  # the same
    "needs_entry": [(True, "needs_entry")],
    "forced": [(np.array([1]), "forced")],
    "forced_among": [(gives(np.array([1])), "forced")],
    "accuracy": [],  # see test_own_sets
    "why": [],  # words
    "violation": [(gives(0.0), "violation"), (gives(1.0), "violation")],
    "on": [(gives(lambda support: lambda v: 0.5 * v), "on differs from project")],
    "supporting": [(gives(lambda v, support: base.Support(0 * v, v, 0.0, 0.0)), "supporting cuts off")],
    "rescaled": [(gives(sets.LinfBall(1.0)), "rescaled")],
    "natural_scales": [(gives(np.array([1.0, 0.0, 1, 1, 1])), "natural_scales"), (gives(np.ones(3)), "natural_scales")],
    "slice_on": [(gives(sets.LinfBall(0.5)), "slice_on"), (gives(empty), "said to be empty")],
    "polyhedron": [(gives(lambda d: Polyhedron.box(-0.5, 0.5, d)), "polyhedron: a member"), (gives(WIDE), "exact")],
    "polyhedron_on": [(gives(lambda s: Polyhedron.box(0.0, 1.0, s.size)), "polyhedron_on")],
    "limits": [(gives(lambda d: (np.full(d, -1.0), np.full(d, 0.5))), "limits: a member")],
    "multipliers": [
        (gives(lambda x, g: Multipliers(g + 1, 1 - g, 0 * g, 0 * g, 0.0)), "multipliers say"),  # a price of nothing
        (gives(lambda x, g: Multipliers(g, -g, 0 * g + 0.5, 0 * g, 0.0)), "multipliers say"),  # a ball that is none
        (gives(lambda x, g: Multipliers(g, -g, 0 * g, 0 * g, -0.1)), "multipliers say"),
    ],
    "polyhedron_around": [(gives(lambda d: Polyhedron.box(-1.0, 0.0, d)), "polyhedron: a member")],
    "enclosing": [(gives([sets.LinfBall(0.9)]), "enclosing: a larger"), (gives([Unit()]), "enclosing holds")],
    "norm_squares": [(gives(np.arange(D + 1) / 2), "norm_squares: a member"), (gives(CURVE), "norm_squares must")],
    "signs": [(gives((np.zeros(D, dtype=bool), np.ones(D, dtype=bool))), "signs")],
    "groups_and_caps": [(gives((["a", "b"], None)), "groups_and_caps"), (gives((["a"] * D, {"c": 1.0})), "groups_and")],
    "has_sparse_maximum": [(gives(True), "has_sparse_maximum")],
    "knows_maximum": [(gives(True), "knows_maximum")],
    "sparse_maximum": [(gives((1.0, np.zeros(D))), "not the value")],
    "sparse_support": [(gives(np.arange(D)), "sparse_support")],
    "quadratic_minimum": [(gives(lambda G, b, support: 0 * b), "downhill")],
    "minimise_quadratic": [(gives(lambda G, b, support, start: 0 * b), "downhill")],
    "shadow_prices": [(gives((0.0, 1e9)), "shadow_prices")],
    "require_slice": [(gives(empty), "said to be empty")],
    "require_member": [(gives(empty), "said to be empty")],
}
PLANTED = [(fact, wrong, words) for fact, kinds in WRONG.items() for wrong, words in kinds]


@pytest.mark.parametrize(("fact", "wrong", "words"), PLANTED, ids=[f"{fact}, {words}" for fact, _, words in PLANTED])
def test_a_wrong_statement_is_found(fact, wrong, words):
    with pytest.raises(AssertionError, match=words):
        ez.testing.check_set(type("Wrong", (Unit,), {fact: wrong})(), D, K, rng=0)


def test_a_set_is_neither_closed_nor_separable_because_it_says_so():
    class Spent(Unit):
        def project(self, v, support=None):
            return sets.Simplex(1.0).project(v, support)

    class Ball(Unit):
        separable = True

        def project(self, v, support=None):
            return v / max(1.0, np.linalg.norm(v))

    class Uneven(Unit):
        symmetric = True

        def project(self, v, support=None):
            return np.clip(v, -1.0, 0.5)

    for wrong, words in ((Spent(), "not support-preserving"), (Ball(), "separable"), (Uneven(), "symmetric")):
        with pytest.raises(AssertionError, match=words):
            ez.testing.check_set(wrong, D, K, rng=0)


def test_no_fact_is_forgotten():
    """Whatever ConstraintSet has a name for is planted above, private pieces of families apart."""
    facts = {name for name in vars(sets.ConstraintSet) if not name.startswith("_")} - set(_heirs.NO_FACTS)
    assert facts == set(WRONG)


def test_a_set_that_writes_project_anew_loses_every_fact():
    class Other(sets.L1Ball):
        def project(self, v, support=None):
            return 0.0 * v

    for name in (*WRONG, "_factors", "_boundary_minimum", "_ellipsoid"):
        assert vars(Other)[name] is vars(sets.ConstraintSet)[name], name


class Corridor(sets.ConstraintSet):
    """argmin ||w - v|| over |w_i| <= half_i, with all that is known of it: what a new set needs to be as strong as ours."""

    closed_under_zeroing = separable = True

    def __init__(self, half):
        self.half = np.asarray(half, float)
        self.n_features = self.half.size

    def project(self, v, support=None):
        half = self.half if support is None else self.half[support]
        return np.clip(v, -half, half)

    def violation(self, w):
        return max(0.0, float(np.max(np.abs(w) / self.half, initial=0.0)) - 1)

    def sparse_maximum(self, z, k, mu, keep=None):
        best = self.project(z / mu) if mu else np.sign(z) * self.half
        gain = best * (z - 0.5 * mu * best)
        gain[[] if keep is None else keep] += 1 + gain.max(initial=0.0)
        w = np.zeros(z.size)
        chosen = np.argsort(-gain, kind="stable")[:k]
        w[chosen] = best[chosen]
        return float(z @ w - 0.5 * mu * w @ w), w

    def slice_on(self, support):
        return Corridor(self.half[support])

    def polyhedron(self, n_features):
        return Polyhedron.box(-self.half, self.half, n_features)

    def rescaled(self, scales):
        return Corridor(self.half / scales)

    def natural_scales(self, n_features):
        return None

    def norm_squares(self, n_features, k):
        return np.append(0.0, np.cumsum(np.sort(self.half**2)[::-1][:k]))


def test_one_class_is_all_that_a_new_set_needs():
    """Minimising, proving, promising and other units: with its facts stated a set is as strong as the library's own."""
    rng = np.random.default_rng(5)
    d, k = 12, 4
    half = rng.uniform(0.3, 1.5, d)
    X = rng.standard_normal((60, d)) * 10.0 ** rng.uniform(-1, 1, d)  # columns of unequal size
    w = np.where(np.arange(d) % 3 == 0, 2.0, 0.0)
    risk = ez.risks.LeastSquares(X, X @ w + rng.standard_normal(60), ridge=0.01)
    own, ours = Corridor(half), sets.Box(-half, half)
    ez.testing.check_set(own, d, k, rng=0)
    for gammas in ((own, ours), tuple(sets.GroupWise({0: g}, {0: range(d)}) for g in (own, ours))):
        mine, theirs = (ez.minimize(risk, k, g) for g in gammas)
        assert mine.fun == pytest.approx(theirs.fun, rel=1e-12)
        assert (mine.projection, mine.n_gradients) == (theirs.projection, theirs.n_gradients)
        np.testing.assert_array_equal(mine.support, theirs.support)
        proofs = [ez.certify(risk, result) for result in (mine, theirs)]
        assert proofs[0].status is proofs[1].status
        assert proofs[0].lower_bound == pytest.approx(proofs[1].lower_bound, rel=1e-9)
        exact = [ez.minimize(risk, k, g, method="exact") for g in gammas]
        assert exact[0].fun == pytest.approx(exact[1].fun, rel=1e-9)
        np.testing.assert_array_equal(*(proof.proved_out for proof in proofs))
    promises = [
        ez.guarantee(risk, k=8, k_bar=1, constraint=g, method="IHT-2SP", rho=0.5, epsilon=1e-3) for g in (own, ours)
    ]
    assert promises[0].n_iter == promises[1].n_iter is not None
