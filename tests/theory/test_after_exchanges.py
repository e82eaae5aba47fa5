"""The theorem of "auto": answers that no exchange betters are as good as every vector with k/κ² nonzeros."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import ellzero as ez
from ellzero.solver.refit import refit
from ellzero.theory.after_exchanges import needed_ratio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the benchmarks are beside the tests

from benchmarks.promises.referee import Objective, Region, best, supports_of

S = ez.sets
D = 8
LABELS = [0, 0, 0, 1, 1, 1, 2, 2]


def quadratic(rng, kappa, d=D):
    """½wᵀQw - bᵀw with eigenvalues of Q between 1 and κ."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    Q = (basis * np.r_[1.0, kappa, rng.uniform(1, kappa, d - 2)]) @ basis.T
    b = Q @ (rng.standard_normal(d) * np.exp(rng.normal(0, 0.5, d)))
    return ez.risks.Quadratic(0.5 * (Q + Q.T), b), Objective(0.5 * (Q + Q.T), b)


def regions(r):
    free, positive, ones = (np.full(D, -np.inf), np.full(D, np.inf)), (np.zeros(D), np.full(D, np.inf)), np.ones(D)
    masks = [np.array(LABELS) == g for g in range(3)]
    return {
        "Everywhere": (S.Everywhere(), Region(*free), 1),
        "NonNegative": (S.NonNegative(), Region(*positive), 1),
        "LinfBall": (S.LinfBall(r), Region(-r * ones, r * ones), 1),
        "L1Ball": (S.L1Ball(2 * r), Region(*free, caps=[(ones, 2 * r, False)]), 4),
        "SubSimplex": (S.SubSimplex(2 * r), Region(*positive, caps=[(ones, 2 * r, False)]), 4),
        "group l1": (
            S.GroupWise(S.L1Ball(r), LABELS), Region(*free, caps=[(m.astype(float), r, False) for m in masks]), 4,
        ),
        "group budgets": (
            S.GroupWise(S.SubSimplex(r), LABELS), Region(*positive, caps=[(m.astype(float), r, False) for m in masks]), 4,
        ),
    }  # fmt: skip


def stuck(risk, gamma, k, rng):
    """A support from which no exchange helps, and the best point on it: the first one met, not the best one."""
    S = np.sort(rng.choice(D, k, replace=False))
    point = refit(risk, gamma, S)
    while True:
        trials = [
            refit(risk, gamma, np.sort(np.append(S[i != S], j))) for i in S for j in np.setdiff1d(np.arange(D), S)
        ]
        better = [t for t in trials if t.value < point.value - 1e-11]
        if not better:
            return point
        point = better[int(rng.integers(len(better)))]
        S = np.union1d(np.flatnonzero(point.w), S[:0])
        if S.size < k:  # entries that a refit left at zero
            S = np.union1d(S, np.setdiff1d(np.arange(D), S)[: k - S.size])


@pytest.mark.parametrize("name", list(regions(1.0)))
def test_no_sparser_member_is_better(name):
    """k >= ratio·κ²k̄ with κ just so large that k̄ = 1 or 2 is covered."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        gamma, region, ratio = regions(float(10 ** rng.uniform(-0.7, 0.5)))[name]
        assert needed_ratio(gamma, ez.sparsity.Coordinates(3), D) == ratio
        k = 6 if ratio == 4 else int(rng.integers(2, 6))
        k_bar = 1 if ratio == 4 else max(1, k // 2)
        risk, objective = quadratic(rng, np.sqrt(k / (ratio * k_bar)) * 0.999)
        point = stuck(risk, gamma, k, rng)
        found = best(objective, region, supports_of(D, k_bar), steps=2000).min()
        assert point.value <= found + 1e-9 * (1 + abs(found)), seed


@pytest.mark.parametrize("name", ["Everywhere", "NonNegative", "LinfBall"])
def test_what_is_read_off_the_answer_is_never_less(name):
    count = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        gamma, _, _ = regions(float(10 ** rng.uniform(-0.7, 0.5)))[name]
        k = int(rng.integers(2, 7))
        kappa = float(rng.uniform(1.0, 1.6))
        risk, _ = quadratic(rng, kappa)
        point = stuck(risk, gamma, k, rng)
        if np.count_nonzero(point.w) == k:
            still = ez.Method(step=1.0, standardize=False)
            result = ez.minimize(risk, k, gamma, still, x0=point.w, max_iter=0)
            assert ez.beats(risk, result, nu=1.0).k_bar >= int(k / kappa**2 - 1e-9)
            count += 1
    assert count > 10


def test_a_larger_k_bar_is_not_promised():
    """The paper's counterexample: no exchange helps at the fixed point of IHT, k = κ²k̄/8, and w̄ is far better."""
    example = ez.datasets.iht_counterexample(kappa=4, k_bar=4)
    risk = ez.risks.Quadratic(example.A, example.A @ example.b)
    g = ez.guarantee(risk, 8, 4, method="auto")
    assert not g.holds and g.k_required == 64 and g.k_bar_max == 0
    stays = ez.minimize(risk, 8, x0=example.fixed_point(8), method=ez.Method(step=0.1), max_iter=0)
    assert risk.value(example.reference) < stays.fun and ez.beats(risk, stays, nu=1.0).k_bar < 4


def test_the_row_of_auto():
    example = ez.datasets.diagonal_example()
    risk, gamma = ez.risks.LeastSquares(example.X, example.y), ez.sets.LinfBall(0.5)
    before = ez.guarantee(risk, 200, 50, gamma, method="auto")
    assert not before.holds and [p.holds for p in before.premises] == [True, True, True, True, None]
    assert "which the run tells" in repr(before) and "open" in repr(before)
    after = ez.guarantee(risk, 200, 50, gamma, method="auto", result=ez.minimize(risk, 200, gamma))
    assert after.holds and after.factor == 1 and (after.k_required, after.k_bar_max) == (200, 50)
    assert "R(x) <= R(w̄)" in after.promise and after.epsilon == 0 and "after exchanges" in after._repr_html_()
    assert not ez.guarantee(risk, 200, 51, gamma, method="auto").premises[3].holds
    assert ez.guarantee(risk, 200, 50, gamma, method="auto", L=1.0, nu=0.5).k_bar_max == 50
    looked = ez.guarantee(risk, 200, 50, gamma, method="auto", result=ez.minimize(risk, 200, gamma, "IHT-2SP"))
    assert "did not look" in looked.premises[-1].text and not looked.holds
    caps = ez.guarantee(risk, 200, 10, ez.sets.L1Ball(3.0), method="auto")
    assert (caps.k_required, caps.k_bar_max) == (160, 12)
    assert "no product" in ez.guarantee(risk, 200, 10, ez.sets.L2Ball(3.0), method="auto").premises[0].text
    groups = ez.sparsity.Groups(40, np.arange(350) // 5)
    balls = ez.sets.GroupWise(ez.sets.L2Ball(0.5), np.arange(350) // 5)
    assert ez.guarantee(risk, groups, 10, balls, method="auto").k_bar_max == 10
    with pytest.raises(ValueError, match="result must be"):
        ez.guarantee(risk, 200, 50, gamma, method="auto", result=ez.minimize(risk, 100, gamma))
    with pytest.raises(ValueError, match="counts none of these"):
        ez.guarantee(risk, ez.sparsity.Rank(3, (35, 10)), 2, method="auto")


def test_flat_risks():
    X = np.random.default_rng(0).standard_normal((5, 20))
    g = ez.guarantee(ez.risks.LeastSquares(X, X[:, 0]), 10, 2, method="auto")
    assert not g.holds and g.k_required is None and "ridge" in g.premises[2].remedy


def test_separate_caps():
    d = 4
    product = S.GroupWise({0: S.L1Ball(1.0), 1: S.SubSimplex(2.0), 2: S.Box(-1, 1)}, [0, 1, 1, 2])
    yes = [
        S.L1Ball(1.0),
        S.SubSimplex(1.0),
        S.LinfBall(1.0),
        product,
        S.PackingPolytope([[2, 2, 0, 0], [0, 0, 1, 1]], [1, 2]),
    ]
    no = [S.WeightedL1Ball([1, 2, 1, 1], 1.0), S.Simplex(1.0), S.PackingPolytope([[1, 1, 0, 0], [0, 1, 1, 0]], [1, 1]),
          S.Intersection(S.L1Ball(1.0), S.LinfBall(0.5)), S.Box(0.5, 1.0)]  # fmt: skip
    assert all(s.polyhedron(d).of_separate_caps() for s in yes)
    assert not any(s.polyhedron(d).of_separate_caps() for s in no)


def test_groups_that_no_exchange_betters():
    """Atoms of two coordinates, all supports of three of six: those that no exchange betters beat every single one."""
    d, atoms, stuck_ones = 12, np.repeat(np.arange(6), 2), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        _, objective = quadratic(rng, np.sqrt(3) * 0.999, d)
        radius = float(10 ** rng.uniform(-0.5, 0.5))
        region = Region(np.full(d, -np.inf), np.full(d, np.inf), balls=[(atoms == a, radius) for a in range(6)])
        choices = list(itertools.combinations(range(6), 3))
        supports = [tuple(i for i in range(d) if atoms[i] in T) for T in choices]
        values = dict(zip(choices, best(objective, region, supports, steps=1500), strict=True))
        least = best(objective, region, supports_of(d, 1, (), atoms), steps=1500).min()
        for T, value in values.items():
            if all(value <= other + 1e-10 for U, other in values.items() if len(set(T) & set(U)) == 2):
                assert value <= least + 1e-9
                stuck_ones += 1
    assert stuck_ones >= 12
