"""Exchanges of whole groups, inside quotas and of features, beside formulas written out and beside enumeration."""

import itertools

import numpy as np
import pytest
from benchmarks.structure.cases import judge

import ellzero as ez
from ellzero.solver import finishes
from ellzero.solver.exchanges import SwapSearch
from ellzero.solver.problem import make_problem
from ellzero.sparsity import Groups, PerGroup

LABELS = [0, 0, 1, 2, 2, 2, None, 3, 3, 4, 4, 4, 5, 6, 6, 7, None, 7]


def data(seed, d=18, n=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((n, 1))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def loss(X, y, support):
    r = y - X[:, support] @ np.linalg.lstsq(X[:, support], y, rcond=None)[0]
    return r @ r / len(y)


def on(labels, used):
    return np.array([j for j, label in enumerate(labels) if label is None or label in used], dtype=int)


@pytest.mark.parametrize("seed", range(4))
def test_what_an_exchange_of_groups_gains_is_what_a_refit_finds(seed, monkeypatch):
    """Also of newcomers that nearly lie in the span of the kept columns."""
    X, y = data(seed)
    X[:, 7] = X[:, 0] + 1e-2 * X[:, 7]
    risk = ez.risks.LeastSquares(X, y)
    problem = make_problem(risk, Groups(3, LABELS), ez.sets.Everywhere(), None)
    w = np.zeros(X.shape[1])
    w[on(LABELS, {0, 2, 4})] = 1.0
    search, tried = SwapSearch(problem), []
    start = search.refit(problem.support_of(np.flatnonzero(w)), None)
    monkeypatch.setattr(search, "_try", lambda moves, point, S: tried.extend(moves) or point)
    search.model = risk.curvature(start)
    search._round(start, search.model, search.model.diagonal)
    single = [move for move in tried if len({LABELS[j] for j in move.out}) == 1]
    pairs = itertools.product((0, 2, 4), (1, 3, 5, 6, 7))
    best = min(loss(X, y, on(LABELS, {0, 2, 4} - {out} | {into})) for out, into in pairs)
    # not of all places: where some newcomers pay, the others are left for the next round
    assert bool(single) == (best < start.value * (1 - 1e-9))
    if single:
        assert max(move.gain for move in single) == pytest.approx(start.value - best, rel=1e-5)
    for move in single:
        used = {0, 2, 4} - {LABELS[move.out[0]]} | {LABELS[move.into[0]]}
        assert move.gain == pytest.approx(start.value - loss(X, y, on(LABELS, used)), rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_no_exchange_helps_at_the_end(seed):
    X, y = data(seed, d=60)
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(24), rng.integers(1, 5, 24))[:60].tolist()
    X[:, 5], X[:, 9] = X[:, 4], 0.0
    labels += [None] * (60 - len(labels))
    res = ez.minimize(ez.risks.LeastSquares(X, y), Groups(4, labels))
    used = {labels[j] for j in res.support} - {None}
    for out, into in itertools.product(used, set(labels) - used - {None}):
        assert res.fun <= loss(X, y, on(labels, used - {out} | {into})) * (1 + 1e-9) + 1e-12
    free = on(labels, set())
    assert np.abs(X[:, free].T @ (X @ res.x - y)).max(initial=0.0) < 1e-8


def test_a_full_group_is_left_for_another_by_two_exchanges():
    """The best support has another atom of the full group, and another one elsewhere: no single exchange leads there."""
    found = 0
    for seed in range(40):
        X, y = data(seed, d=12)
        labels, k = np.arange(12) % 2, 4
        res = ez.minimize(ez.risks.LeastSquares(X, y), PerGroup(k, labels.tolist(), {0: 1}))
        supports = [
            list(S) for S in itertools.combinations(range(12), k) if np.count_nonzero(labels[list(S)] == 0) <= 1
        ]
        found += res.fun <= min(loss(X, y, S) for S in supports) * (1 + 1e-9)
    assert found >= 39


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [*range(12), 194])
def test_auto_finds_what_enumeration_finds(number):
    verdict = judge(number)
    assert not verdict.wrong and -1e-6 < verdict.above < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_auto_finds_what_enumeration_finds_in_sixty_problems():
    verdicts = [judge(number) for number in range(200, 260)]
    assert not any(verdict.wrong for verdict in verdicts)
    assert sum(verdict.above > 1e-6 for verdict in verdicts) <= 1


def test_the_time_limit_ends_exchanges_of_groups():
    X, y = data(0, d=2000, n=200)
    res = ez.minimize(ez.risks.LeastSquares(X, y), Groups(20, np.repeat(np.arange(400), 5).tolist()), time_limit=1e-3)
    assert res.status is ez.Status.TIME_LIMIT


@pytest.mark.filterwarnings("ignore:k=2 is greater than what the quotas allow")
@pytest.mark.parametrize("sparsity", [ez.sparsity.Rows(0), ez.sparsity.PerGroup(2, ["a", "a", "b"], 0)], ids=repr)
@pytest.mark.parametrize("gamma", [None, ez.sets.NonNegative()], ids=repr)
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_nothing_of_several_outputs(sparsity, gamma, method):
    """k = 0, or quotas of 0: there are no places for which newcomers could be ranked."""
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((20, 3)), np.arange(20) % 3
    for risk in (ez.risks.Multinomial(X, labels, ridge=0.1), ez.risks.LeastSquares(X, rng.standard_normal((20, 2)))):
        result = ez.minimize(risk, sparsity, gamma, method=method)
        assert not result.x.any()
        assert result.fun == pytest.approx(risk.value(np.zeros(risk.n_features)))


class TestFurtherStarts:
    """From damped problems, where exchanges had much to mend and many groups have a rival that is nearly as good."""

    def asked(self, correlation, monkeypatch, seed=0):
        rng, group = np.random.default_rng(seed), np.repeat(np.arange(60), 3)
        X = rng.standard_normal((150, group.size))
        for j in range(1, group.size):
            X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
        signal = X @ (rng.standard_normal(group.size) * np.isin(group, rng.choice(60, 10, replace=False)))
        y = signal + 0.5 * signal.std() * rng.standard_normal(150)
        asked, shares, likely = [], [], finishes._likely
        with monkeypatch.context() as patch:
            patch.setattr(finishes, "_MUCH", -1.0)  # however little was mended
            patch.setattr(finishes, "from_damped", lambda *_: asked.append(1))
            patch.setattr(finishes, "_likely", lambda *how: shares.append(how[1].contested) or likely(*how))
            ez.minimize(ez.risks.LeastSquares(X, y), Groups(10, group))
        return bool(asked), shares

    def test_are_made_where_rivals_are_near(self, monkeypatch):
        made = {
            correlation: [self.asked(correlation, monkeypatch, seed) for seed in range(6)] for correlation in (0, 0.97)
        }
        for found in made.values():
            assert all(asked == any(share > 0.3 for share in shares) for asked, shares in found)
        assert sum(asked for asked, _ in made[0.97]) > sum(asked for asked, _ in made[0])

    def test_the_share_of_contested_places_is_counted(self):
        """Two of three groups have a copy with a little noise, which gains nearly what they cost."""
        rng, group = np.random.default_rng(0), np.repeat(np.arange(6), 2)
        X = rng.standard_normal((200, 12))
        X[:, 6:10] = X[:, :4] + 0.1 * rng.standard_normal((200, 4))
        risk = ez.risks.LeastSquares(X, X[:, :6].sum(axis=1) + 0.1 * rng.standard_normal(200))
        search = SwapSearch(make_problem(risk, Groups(3, group), ez.sets.Everywhere(), None))
        search.improve(search.refit(np.arange(6), None))
        assert search.contested == pytest.approx(2 / 3)
