"""Data on a device, or on what plays one."""

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets as S
from ellzero._core import arrays
from ellzero.design import as_design
from ellzero.solver import ahead
from on_device import DEVICE, there, torch


def problem(n=200, d=300, k=8, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)).astype(dtype), np.zeros(d, dtype)
    w[rng.permutation(d)[:k]] = rng.choice([-1, 1], k) * rng.uniform(1, 2, k)
    return X, X @ w + 0.5 * rng.standard_normal(n).astype(dtype)


GAMMAS = [None, S.L2Ball(3.0), S.Box(-1.2, 1.2), S.GroupWise(S.L1Ball(2.0), np.arange(300) % 30)]


@pytest.mark.parametrize("gamma", GAMMAS, ids=repr)
@pytest.mark.parametrize("run", [{"max_iter": 37, "tol": 0.0}, {"max_iter": 500}, {"max_iter": 30, "monitor": 5}])
def test_steps_made_ahead_are_those_made_one_by_one(gamma, run, monkeypatch):
    X, y = map(there, problem())
    risk = ez.risks.LeastSquares(X, y, ridge=0.01)
    one_by_one = ez.minimize(risk, 8, gamma, "IHT-2SP", **run)
    monkeypatch.setattr(arrays, "_HOST", set())
    together = ez.minimize(risk, 8, gamma, "IHT-2SP", **run)
    assert together.status is one_by_one.status and together.nit == one_by_one.nit
    assert np.array_equal(together.support, one_by_one.support)
    assert together.fun == pytest.approx(one_by_one.fun, rel=1e-6)
    for name in ("n_gradients", "n_values", "n_monitor", "n_thresholds"):
        assert np.array_equal(getattr(together.history, name), getattr(one_by_one.history, name)), name
    np.testing.assert_allclose(together.history.fun, one_by_one.history.fun, rtol=1e-5)
    np.testing.assert_allclose(together.history.change[1:-3], one_by_one.history.change[1:-3], rtol=1e-2)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_more_steps_than_are_needed_are_made_in_vain_and_not_told(k, device):
    X, y = map(there, problem())
    seen = []
    res = ez.minimize(
        ez.risks.LeastSquares(X, y), k, None, "IHT-2SP", max_iter=9, tol=0, callback=lambda r: seen.append(r.nit)
    )
    assert seen == list(range(1, 10)) and res.nit == 9 and len(res.history) == 10


def test_what_overflows_is_found_with_the_next_look(device):
    X, y = map(there, problem())
    res = ez.minimize(ez.risks.LeastSquares(X, y), 8, None, ez.preset("IHT", step=1e6), max_iter=200)
    assert res.status is ez.Status.DIVERGED and np.isfinite(res.fun)


def test_a_recording_is_played_instead_of_steps(device, monkeypatch):
    played = []

    def recorded(compute, reference):
        return lambda: played.append(1) or compute()

    X, y = map(there, problem())
    risk, run = ez.risks.LeastSquares(X, y), {"max_iter": 300, "tol": 0.0}
    plain = ez.minimize(risk, 8, None, "IHT-2SP", **run)
    monkeypatch.setattr(ahead, "recorded", recorded)
    monkeypatch.setattr(ahead, "_QUICK", 0)
    res = ez.minimize(risk, 8, None, "IHT-2SP", **run)
    assert len(played) > 200 and res.nit == 300
    assert np.array_equal(res.support, plain.support) and res.fun == pytest.approx(plain.fun, rel=1e-6)


@pytest.mark.parametrize("gamma", GAMMAS, ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("make", [ez.risks.LeastSquares, ez.risks.Logistic, ez.risks.Huber])
def test_auto_finds_in_single_precision_what_it_finds_in_double_on_the_host(make, intercept, gamma, device):
    X, y = problem()
    y = np.sign(y) if make is ez.risks.Logistic else y
    host = ez.minimize(make(X.astype(float), y.astype(float), ridge=0.01, fit_intercept=intercept), 8, gamma)
    res = ez.minimize(make(there(X), there(y), ridge=0.01, fit_intercept=intercept), 8, gamma)
    assert np.array_equal(res.support, host.support)
    assert res.fun == pytest.approx(host.fun, rel=1e-6)


def test_what_has_no_array_for_a_state_is_not_recorded(device, monkeypatch):
    """In other units a risk keeps a point of the one behind it."""
    monkeypatch.setattr(ahead, "recorded", lambda compute, reference: compute)
    monkeypatch.setattr(ahead, "_QUICK", 0)
    X, y = map(there, problem())
    risk, run = ez.risks.LeastSquares(X, y, ridge=0.1), {"max_iter": 200, "tol": 0.0}
    res = ez.minimize(risk, 8, None, ez.preset("IHT-2SP", standardize=True, step=0.1), **run)
    assert res.nit == 200 and np.isfinite(res.fun)


@pytest.mark.parametrize("kind", ["groups", "quotas"])
def test_sparsities(kind, device):
    X, y = problem(d=60)
    groups = np.arange(60) // 3
    k = ez.sparsity.Groups(4, groups) if kind == "groups" else ez.sparsity.PerGroup(6, groups, 1)
    host = ez.minimize(ez.risks.LeastSquares(X.astype(float), y.astype(float)), k)
    res = ez.minimize(ez.risks.LeastSquares(there(X), there(y)), k)
    assert np.array_equal(res.support, host.support) and res.fun == pytest.approx(host.fun, rel=1e-6)


def test_features_of_several_outputs_and_ranks(device):
    X, y = problem(d=40)
    Y, labels = np.column_stack([y, 2 * y - X[:, 3]]), np.searchsorted([-1.0, 1.0], y)
    for make, target in ((ez.risks.LeastSquares, Y), (ez.risks.Multinomial, labels)):
        host = ez.minimize(make(X.astype(float), target, ridge=0.1), ez.sparsity.Rows(3))
        res = ez.minimize(make(there(X), target, ridge=0.1), ez.sparsity.Rows(3))
        assert np.array_equal(res.support, host.support) and res.fun == pytest.approx(host.fun, rel=1e-6)
    rank, gamma = ez.sparsity.Rank(2, (5, 8)), S.Spectral(S.LinfBall(0.3), (5, 8))
    for constraint, method in ((None, "auto"), (gamma, "auto"), (gamma, "IHT-2SP")):
        host = ez.minimize(ez.risks.LeastSquares(X.astype(float), y.astype(float)), rank, constraint, method)
        res = ez.minimize(ez.risks.LeastSquares(there(X), there(y)), rank, constraint, method)
        assert res.fun == pytest.approx(host.fun, rel=1e-4)


@pytest.fixture
def sizes(device, monkeypatch):
    """How many numbers each look from the host at a tensor has brought there."""
    numpy, seen = torch.Tensor.numpy, []

    def counted(self, *args, **kwargs):
        seen.append(self.numel())
        return numpy(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "numpy", counted)
    return seen


N_ROWS, N_COLUMNS = 150, 1200
GROUPS = np.arange(N_COLUMNS) // 6


@pytest.mark.parametrize(
    ("k", "n_outputs", "most"),
    [
        # the slopes after each removal, products of a short list; the curvature of the support is 30 times as long
        (ez.sparsity.Groups(5, GROUPS), 1, 8 * N_COLUMNS),
        (ez.sparsity.Groups(5, GROUPS[::-1].copy()), 1, 8 * N_COLUMNS),
        (ez.sparsity.PerGroup(12, GROUPS, 2), 1, 13 * N_COLUMNS),
        (ez.sparsity.Rows(12), 3, 3 * N_COLUMNS),
        (ez.sparsity.Rank(2, (30, 40)), 1, N_COLUMNS),
    ],
    ids=repr,
)
def test_neither_the_data_nor_their_products_come_to_the_host(k, n_outputs, most, sizes):
    X, y = problem(N_ROWS, N_COLUMNS, 12)
    Y = y if n_outputs == 1 else np.column_stack([y, y - X[:, 3], 2 * y + X[:, 7]])
    host = ez.minimize(ez.risks.LeastSquares(X.astype(float), Y.astype(float)), k)
    risk = ez.risks.LeastSquares(there(X), there(Y))
    sizes.clear()
    res = ez.minimize(risk, k)
    assert 0 < max(sizes) <= most < X.size / 8
    assert res.fun == pytest.approx(host.fun, rel=1e-5)
    if k.of_coordinates:
        assert np.array_equal(res.support, host.support)


@pytest.mark.parametrize("seed", range(4))
def test_exchanges_on_the_device_are_those_on_the_host(seed, device):
    """Correlated columns, so that starts are poor and much is exchanged."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 120))
    X[:, 1:] += 0.9 * X[:, :-1]
    Y = X[:, rng.permutation(120)[:12]] @ rng.standard_normal((12, 3)) + rng.standard_normal((80, 3))
    groups = rng.integers(0, 30, 120)
    for k, y in (
        (ez.sparsity.Groups(4, groups), Y[:, 0]),
        (ez.sparsity.PerGroup(9, groups, 1), Y[:, 0]),
        (ez.sparsity.Rows(6), Y),
    ):
        here = ez.minimize(ez.risks.LeastSquares(X, y), k)
        res = ez.minimize(ez.risks.LeastSquares(there(X), there(y)), k)
        assert res.fun == pytest.approx(here.fun, rel=1e-9)


def test_blocks_of_any_columns(device):
    X = problem(50, 20)[0]
    index = np.array([[3, 1, -1], [7, 0, 19], [5, -1, -1]])
    found = as_design(there(X)).grams(index)
    for block, J in zip(found, index, strict=True):
        J = J[J >= 0]
        np.testing.assert_allclose(block[: J.size, : J.size], X[:, J].T.astype(float) @ X[:, J].astype(float))
        assert not block[J.size :].any() and not block[:, J.size :].any()


@pytest.mark.parametrize("k", [1, 3, 7, 8])
@pytest.mark.parametrize("keep", [None, np.array([0, 6])])
def test_ties_go_to_the_lowest_index(k, keep, device):
    if keep is not None and k < keep.size:
        return
    score = there([1.0, 2.0, 2.0, 0.0, 2.0, 3.0, 0.0, 2.0])
    others = sorted((i for i in range(8) if keep is None or i not in keep), key=lambda i: (-float(score[i]), i))
    expected = sorted([*([] if keep is None else keep.tolist()), *others[: k - (0 if keep is None else keep.size)]])
    assert arrays.best_entries(score, k, keep).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_over_a_tensor_are_taken_in_double_precision(dtype):
    rng = np.random.default_rng(0)
    X, weights, r = rng.standard_normal((50, 7)) * 1e3, rng.random(50), rng.standard_normal(50)
    tensor = there(X, dtype=dtype)
    X, design = tensor.double().cpu().numpy(), as_design(tensor)
    gram, sums = design.moments(weights)
    np.testing.assert_allclose(gram, X.T @ (weights[:, None] * X), rtol=1e-12)
    np.testing.assert_allclose(sums, X.T @ weights, rtol=1e-12)
    np.testing.assert_allclose(design.moments(0.5)[0], 0.5 * X.T @ X, rtol=1e-12)
    some, others = np.array([4, 1]), np.array([0, 4, 6])
    for omega in (0.5, weights):
        expected = (X[:, some].T * omega) @ X[:, others]
        np.testing.assert_allclose(design.products(some, others, omega), expected, rtol=1e-12)
    digits = 1e-6 if dtype is torch.float32 else 1e-12
    np.testing.assert_allclose(design.squares, (X**2).sum(axis=0), rtol=digits)
    np.testing.assert_allclose(design.square_sums(weights), weights @ X**2, rtol=digits)
    np.testing.assert_allclose(design.correlations(r), X.T @ r, rtol=1e-11)
    np.testing.assert_allclose(design.row_norms(), np.linalg.norm(X, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(design.on_host().X, X)
    assert len(list(as_design(torch.zeros(3000, 1000, device=DEVICE)).doubled())) == 1  # each block is waited for
    assert type(design.columns(there([1, 2]))) is type(design) is type(design.T)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_fewer_digits_are_refused(dtype):
    with pytest.raises(TypeError, match=r"X must be in single or double precision.*X\.float\(\)"):
        ez.risks.LeastSquares(torch.ones(3, 2, dtype=dtype), np.ones(3))


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_squares_that_single_precision_cannot_hold(scale):
    X = torch.full((9, 2), scale, dtype=torch.float32, device=DEVICE)
    design, exact = as_design(X), 9 * X.double().cpu().numpy()[0] ** 2
    np.testing.assert_allclose(design.squares, exact, rtol=1e-6)
    np.testing.assert_allclose(design.square_sums(np.full(9, 0.25)), 0.25 * exact, rtol=1e-6)
