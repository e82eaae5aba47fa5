"""RegIHT and ARHT: what they iterate, and that they reach the sparsity that IHT does not."""

import numpy as np
import pytest

import ellzero as ez
from ellzero.solver.regularised import ReplacementStep

S_BAR, KAPPA = 3, 8


def example(s=S_BAR, kappa=KAPPA, delta=1e-4):
    """Axiotis & Sviridenko's diagonal problem, ½||Xw - y||² as a mean of squares, and a start in its last block."""
    n1, n2, n3 = s, s * kappa, s * kappa**2
    x = np.r_[np.ones(n1), np.full(n2, np.sqrt(kappa)), np.ones(n3)]
    y = np.r_[np.full(n1, kappa * np.sqrt(1 - 4 * delta)), np.full(n2, np.sqrt(kappa * (1 - 2 * delta))), np.ones(n3)]
    root = np.sqrt(x.size / 2)
    return ez.risks.LeastSquares(root * np.diag(x), root * y), x, y


def stuck_start(d, k, s=S_BAR, kappa=KAPPA):
    w = np.zeros(d)
    w[s + s * kappa :][:k] = 1.0
    return w


def least(x, y, k):
    """The optimum for k nonzeros."""
    return 0.5 * float(np.sum(y**2) - np.sort(y**2)[::-1][:k].sum())


@pytest.mark.parametrize("method", ["RegIHT", "ARHT"])
def test_the_sparsity_that_iht_does_not_reach(method):
    """R <= R(w̄), w̄ with s nonzeros, at k = (κ + 1)s from where IHT does not move before k = κ²s."""
    risk, x, y = example()
    target = least(x, y, S_BAR)

    def reached(method, k):
        return ez.minimize(risk, k, method=method, x0=stuck_start(x.size, k), max_iter=3000, rng=0).fun

    assert reached("IHT", 4 * KAPPA * S_BAR) > 1.2 * target
    assert reached("IHT", KAPPA**2 * S_BAR - S_BAR) > target >= reached("IHT", KAPPA**2 * S_BAR)
    assert reached(method, (KAPPA + 1) * S_BAR) < 0.6 * target
    assert reached(method, KAPPA * S_BAR // 2) > target  # the order κ is needed


def test_the_iterates_of_reg_iht():
    """Against the formulas, written out."""
    risk, x, y = example(2, 4)
    k, T, L = 12, 40, 4.0
    w, a, c = stuck_start(x.size, k, 2, 4), np.ones(x.size), 12 / (4 * 40)
    values = []
    for _ in range(T):
        v = (1 - 0.5 * a) * w - x * (x * w - y) / (2 * L)
        moved = np.zeros_like(w)
        keep = np.argsort(-np.abs(v), kind="stable")[:k]
        moved[keep] = v[keep]
        a = np.where(w != 0, a * (1 - c * a * w**2 / np.sum(a * w**2)), a)
        a[a < 0.5] = 0.0
        w = moved
        values.append(0.5 * float(np.sum((x * w - y) ** 2)))
    method = ez.preset("RegIHT", T=T, L=L, finish=None)
    result = ez.minimize(risk, k, method=method, x0=stuck_start(x.size, k, 2, 4), tol=0)
    assert result.nit == T and result.status is ez.Status.COMPLETED
    assert result.history.fun[1:] == pytest.approx(values, rel=1e-9)
    assert ez.minimize(risk, k, method=ez.preset("RegIHT", T=T, L=L), tol=0).fun <= min(values)


def test_weights_end_where_the_support_is_free_of_them():
    """With a large c everything on the support is soon unregularised, and what comes then is IHT with half its step."""
    problem = ez.datasets.make_regression(200, 20, 4, snr=20)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    result = ez.minimize(risk, 4, method=ez.preset("RegIHT", T=2000, c=2.0))
    assert result.status in (ez.Status.CONVERGED, ez.Status.STATIONARY) and result.nit < 2000
    assert result.fun == pytest.approx(ez.minimize(risk, 4).fun, rel=1e-9)


@pytest.mark.parametrize("method", ["RegIHT", "ARHT"])
@pytest.mark.parametrize(
    "gamma",
    [
        None,
        ez.sets.LinfBall(0.7),
        ez.sets.L1Ball(2.0),
        ez.sets.NonNegative(),
        ez.sets.L2Ball(1.0),
        ez.sets.SubSimplex(1.0),
    ],
)
def test_both_constraints_hold(method, gamma):
    problem = ez.datasets.make_regression(120, 40, 6, correlation=0.5)
    for risk in (ez.risks.LeastSquares(problem.X, problem.y), ez.risks.Logistic(problem.X, problem.y > 0, ridge=0.05)):
        result = ez.minimize(risk, 6, gamma, method, rng=1, keep=[2])
        assert result.support.size <= 6 and result.violation <= 1e-12
        assert result.fun <= risk.value(np.zeros(40))
        np.testing.assert_array_equal(ez.minimize(risk, 6, gamma, method, rng=1, keep=[2]).x, result.x)


def test_arht_never_raises_what_it_minimises(monkeypatch):
    risk, x, _ = example(2, 6)
    seen, advance = [], ReplacementStep.advance

    def watched(self, point, gradient, project):
        before = self.regularised.copy()
        there = advance(self, point, gradient, project)
        if (before == self.regularised).all():
            seen.append(self._regularised_value(there) - self._regularised_value(point))
        else:
            assert np.count_nonzero(before) - np.count_nonzero(self.regularised) == 1
        return there

    monkeypatch.setattr(ReplacementStep, "advance", watched)
    result = ez.minimize(risk, 20, method="ARHT", x0=stuck_start(x.size, 20, 2, 6), rng=3)
    assert len(seen) > 10 and max(seen[1:]) <= 0 and result.status is ez.Status.SETTLED


@pytest.mark.parametrize("method", ["RegIHT", "ARHT"])
def test_a_run_goes_on_as_if_it_had_not_been_interrupted(method, tmp_path):
    risk, x, _ = example(2, 4)
    asked = {"method": method, "x0": stuck_start(x.size, 10, 2, 4), "rng": 5, "tol": 0}
    whole = ez.minimize(risk, 10, max_iter=14, **asked)
    ez.minimize(risk, 10, max_iter=6, checkpoint=tmp_path / "run.npz", **asked)
    again = ez.minimize(risk, 10, max_iter=14, resume=tmp_path / "run.npz", **asked)
    np.testing.assert_array_equal(again.x, whole.x)
    np.testing.assert_array_equal(again.history.fun, whole.history.fun)


def test_what_they_need():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    counts = ez.risks.Poisson(X, rng.poisson(1.0, 30))
    for method in ("RegIHT", "ARHT"):
        with pytest.raises(ValueError, match="regularises R by its smoothness"):
            ez.minimize(counts, 2, method=method)
    assert ez.minimize(counts, 2, method=ez.preset("RegIHT", L=50.0, T=50)).support.size <= 2
    with pytest.raises(ValueError, match="T must be"):
        ez.minimize(ez.risks.LeastSquares(X, X[:, 0]), 2, method=ez.preset("RegIHT", T=0))
    with pytest.raises(ValueError, match="c must"):
        ez.minimize(ez.risks.LeastSquares(X, X[:, 0]), 2, method=ez.preset("RegIHT", c=-1.0))
