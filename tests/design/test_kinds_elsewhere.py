"""Every kind of sparsity with every kind of set, on blocks, on a cluster and on risks that torch differentiates.

What memory answers is answered there, and what memory refuses is refused with the same reason.
"""

import numpy as np
import pytest

import ellzero as ez
from common import support_preserving_sets

N, P, Q = 60, 12, 2
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, P))
LABELS = np.arange(P) // 3
Y = X[:, 1] - 0.8 * X[:, 4] + 0.5 * X[:, 9] + 0.3 * RNG.standard_normal(N)
YS = np.column_stack([Y, np.roll(Y, 1) + X[:, 2]])

SPARSITIES = {
    "k": 3,
    "Groups": ez.sparsity.Groups(2, LABELS),
    "PerGroup": ez.sparsity.PerGroup(3, LABELS, 1),
    "Rank": ez.sparsity.Rank(1, shape=(3, 4)),
    "Rows": ez.sparsity.Rows(2),
}
SETS = support_preserving_sets(P, np.random.default_rng(1)) | {
    "Simplex": ez.sets.Simplex(1.5),
    "a floor": ez.sets.Box(0.1, 2.0),
    "Portfolio": ez.sets.Portfolio(1.0, 0.0, 0.5, LABELS, 0.6),
    "Portfolio with cash": ez.sets.Portfolio((0, 1), 0.0, 0.5, LABELS, 0.6),
    "Spectral": ez.sets.Spectral(ez.sets.L1Ball(1.0), (3, 4)),
}
SAMPLED = ("Everywhere", "L1Ball", "L2Ball", "Simplex", "GroupWise l1", "Spectral")
CASES = [
    pytest.param(sparsity, name, marks=[] if sparsity == "k" or name in SAMPLED else pytest.mark.slow)
    for sparsity in SPARSITIES
    for name in SETS
]


def squares(where, y):
    return ez.risks.LeastSquares(where, y, ridge=0.1)


def by_torch(X, y):
    """The same risk, written out; coefficients of several targets one after the other."""
    torch = pytest.importorskip("torch", reason="pip install ellzero[torch]")
    data, targets = torch.as_tensor(X), torch.as_tensor(y)
    q = 1 if y.ndim == 1 else y.shape[1]

    def f(w):
        residuals = data @ w.reshape(q, -1).T - targets.reshape(len(targets), q)
        return (residuals**2).sum() / len(data) + 0.05 * (w**2).sum()

    return ez.risks.from_torch(f, q * X.shape[1], convex=True)


def answer(risk, sparsity, gamma):
    """The result; or the reason why there is none."""
    try:
        return ez.minimize(risk, sparsity, gamma)
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="pip install ellzero[dask]")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(params=["blocks", pytest.param("cluster", marks=pytest.mark.slow), "torch"])
def there(request):
    """Where the risk is: of y, and how closely it agrees."""
    if request.param == "torch":
        return lambda y: by_torch(X, y)
    if request.param == "blocks":
        return lambda y: squares(ez.Blocks([X[:25], X[25:26], X[26:]], memory=3000.0), y)
    request.getfixturevalue("client")
    da = pytest.importorskip("dask.array")
    return lambda y: squares(da.from_array(X, chunks=(25, P)), y)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("sparsity", "gamma"), CASES)
def test_answers_and_reasons_are_those_of_memory(sparsity, gamma, there):
    y = YS if sparsity == "Rows" else Y
    k, constraint = SPARSITIES[sparsity], SETS[gamma]
    risk = there(y)
    known = answer(squares(X, y), k, constraint)
    if sparsity == "Rows" and not hasattr(risk, "design"):  # a function does not say how many targets it has
        k = ez.sparsity.Rows(2, n_outputs=Q)
        if constraint.n_features == P:
            with pytest.raises(ValueError, match="is made for 12 coordinates, w has 24"):
                ez.minimize(risk, ez.sparsity.Rows(2), constraint)
            constraint = ez.sets.GroupWise(constraint, np.repeat(np.arange(Q), P))
    found = answer(risk, k, constraint)
    if isinstance(known, str):
        assert isinstance(found, str) and len(found) > 40
        assert found.partition(":")[0] == known.partition(":")[0]
        return
    assert not isinstance(found, str), found
    assert found.sparsity.allows(found.x) and found.violation <= 1e-9
    if hasattr(risk, "design"):
        assert found.fun == pytest.approx(known.fun, rel=1e-10) and found.n_sweeps
        np.testing.assert_allclose(found.x, known.x, rtol=1e-7, atol=1e-7)
    else:  # other steps may lead elsewhere, but not to something worse by much
        assert found.fun <= known.fun * (1 + 1e-6)


def test_the_table_has_answers_and_refusals():
    """So that the comparison above is one of both."""
    kinds = {
        isinstance(answer(squares(X, Y), SPARSITIES[s], SETS[g]), str)
        for s in SPARSITIES
        for g in SAMPLED
        if s != "Rows"
    }
    assert kinds == {True, False}
