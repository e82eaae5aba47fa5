"""Certificates against an independent solver: SCIP, on the plainest mixed-integer model there is."""

import numpy as np
import pytest

import ellzero as ez

pyscipopt = pytest.importorskip("pyscipopt", reason="PySCIPOpt is not installed: pip install 'ellzero[test]'")

S = ez.sets
K, D = 4, 12
GROUPS = np.arange(D) % 3
CASES = {
    "free": (None, 0.2),
    "free, no ridge": (None, 0.0),
    "box": (S.Box(-0.4, 0.6), 0.1),
    "non-negative": (S.NonNegative(), 0.05),
    "group l1": (S.GroupWise(S.L1Ball(0.7), groups=GROUPS), 0.1),
    "group l1, no ridge": (S.GroupWise(S.L1Ball(0.7), groups=GROUPS), 0.0),
    "budget": (S.Simplex(1.0), 0.0),
}


def problem(ridge, seed, n=40):
    """Correlated columns, weak signals and much noise: several supports are nearly as good."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) + 0.8 * rng.standard_normal((n, 1))
    y = X[:, ::3] @ np.array([0.9, -0.7, 0.5, 0.4]) + rng.standard_normal(n)
    return ez.risks.LeastSquares(X, y, ridge=ridge)


def scip(risk, gamma, big):
    """min t + ridge/2 Σw² with ||Xw-y||² <= n·t, |w_i| <= big·z_i, Σz <= k, z binary: status, value, bound, support."""
    X, y, n = risk.design.X, risk.y, risk.n_terms
    model = pyscipopt.Model()
    model.hideOutput()
    w = [model.addVar(lb=-big, ub=big) for _ in range(D)]
    z = [model.addVar(vtype="B") for _ in range(D)]
    t = model.addVar(lb=0)
    G, b = X.T @ X / n + risk.ridge / 2 * np.eye(D), X.T @ y / n
    square = pyscipopt.quicksum(float(G[i, j]) * w[i] * w[j] for i in range(D) for j in range(D))
    model.addCons(square - pyscipopt.quicksum(2 * float(b[i]) * w[i] for i in range(D)) + float(y @ y / n) <= t)
    for i in range(D):
        model.addCons(w[i] <= big * z[i])
        model.addCons(w[i] >= -big * z[i])
    model.addCons(pyscipopt.quicksum(z) <= K)
    match gamma:
        case S.Box():
            for i in range(D):
                model.addCons(w[i] >= float(gamma.lower))
                model.addCons(w[i] <= float(gamma.upper))
        case S.NonNegative():
            for i in range(D):
                model.addCons(w[i] >= 0)
        case S.Simplex():
            for i in range(D):
                model.addCons(w[i] >= 0)
            model.addCons(pyscipopt.quicksum(w) == 1)
        case S.GroupWise():
            for g in range(3):
                size = [model.addVar(lb=0) for _ in range(D)]
                for i in np.flatnonzero(g == GROUPS):
                    model.addCons(w[i] <= size[i])
                    model.addCons(-w[i] <= size[i])
                model.addCons(pyscipopt.quicksum(size) <= 0.7)
        case None:
            pass
        case _:
            raise NotImplementedError(gamma)
    model.setObjective(t, "minimize")
    model.setParam("limits/time", 60)
    model.optimize()
    support = np.flatnonzero([abs(model.getVal(variable)) > 1e-4 for variable in w])
    return model.getStatus(), model.getObjVal(), model.getDualbound(), support


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_the_optimum_of_scip(name, seed):
    gamma, ridge = CASES[name]
    risk = problem(ridge, seed)
    status, value, bound, support = scip(risk, gamma, big=2.0)
    assert status == "optimal"
    ours = ez.minimize(risk, k=K, constraint=gamma, method="exact")
    assert ours.status is ez.Status.OPTIMAL
    assert np.abs(ours.x).max() < 1.8  # far from `big`, which is not a part of our problem
    tol = 2e-5 * abs(value)  # SCIP's tolerance is 1e-6 on every constraint
    assert ours.fun == pytest.approx(value, abs=tol)
    assert ours.certificate.lower_bound <= value + tol
    assert bound <= ours.fun + tol
    # what is proved of single coordinates holds for the support of SCIP as well, which is optimal too
    assert set(ours.certificate.proved_in) <= set(support)
    assert not set(ours.certificate.proved_out) & set(support)


@pytest.mark.parametrize("name", CASES)
def test_a_bound_without_branching_is_below_the_optimum_of_scip(name):
    gamma, ridge = CASES[name]
    risk = problem(ridge, seed=2)
    cert = ez.certify(risk, ez.minimize(risk, k=K, constraint=gamma))
    _, value, _, support = scip(risk, gamma, big=2.0)
    assert cert.lower_bound <= value * (1 + 2e-5)
    assert cert.fun >= value * (1 - 2e-5)
    assert set(cert.proved_in) <= set(support)
    assert not set(cert.proved_out) & set(support)
