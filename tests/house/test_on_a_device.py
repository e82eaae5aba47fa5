"""Everything that takes data takes tensors of a device, and what comes back is where they are."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets as S
from on_device import DEVICE, there, torch

pytestmark = pytest.mark.usefixtures("device")

N, D, K = 240, 90, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)).astype(np.float32)
W = np.zeros(D)
W[RNG.permutation(D)[:K]] = [1.5, -1.2, 1.0, 0.9, -0.8]
Z = X @ W
Y = Z + 0.3 * RNG.standard_normal(N)
TIME, EVENT = RNG.exponential(np.exp(-Z)), RNG.random(N) < 0.7
WEIGHT = RNG.random(N) + 0.5
GROUPS = np.arange(D) // 3

RISKS = {
    "squared": lambda X, t: ez.risks.LeastSquares(X, t(Y)),
    "squared, an intercept and weights": lambda X, t: ez.risks.LeastSquares(X, t(Y + 3), 0.01, t(WEIGHT), True),
    "several targets": lambda X, t: ez.risks.LeastSquares(X, t(np.column_stack([Y, Y - X_OF(X)[:, 3]]))),
    "logistic": lambda X, t: ez.risks.Logistic(X, t(np.sign(Y)), 0.01, t(WEIGHT), fit_intercept=True),
    "multinomial": lambda X, t: ez.risks.Multinomial(X, t(np.digitize(Y, [-1.0, 1.0])), 0.01),
    "Poisson": lambda X, t: ez.risks.Poisson(X, t(np.floor(np.exp(Z / 2))), 0.01, fit_intercept=True),
    "Gamma": lambda X, t: ez.risks.Gamma(X, t(np.exp(Y / 2)), 0.01, fit_intercept=True),
    "Huber": lambda X, t: ez.risks.Huber(X, t(Y), 0.5),
    "quantile": lambda X, t: ez.risks.Quantile(X, t(Y), quantile=0.3, ridge=0.01),
    "squared hinge": lambda X, t: ez.risks.SquaredHinge(X, t(np.sign(Y)), 0.01),
    "Cox": lambda X, t: ez.risks.Cox(X, t(TIME), t(EVENT), 0.01),
}
SETS = {
    "none": None,
    "w >= 0": S.NonNegative(),
    "box": S.Box(-1.0, 0.8),
    "l1": S.L1Ball(3.0),
    "l2": S.L2Ball(1.5),
    "lp": S.LpBall(1.5, 2.0),
    "simplex": S.Simplex(2.0),
    "groups": S.GroupWise(S.L1Ball(1.1), GROUPS),
    "both": S.Intersection(S.Box(-1, 1), S.L1Ball(3.0)),
    "budget": S.Portfolio(1.0, 0.0, 0.5, GROUPS % 4, 0.6),
}


def X_OF(X):
    return X if isinstance(X, np.ndarray) else X.cpu().numpy()


def same(found, known, rel=1e-6):
    """Where the answer is, and what it is worth beside that of the host in double precision."""
    assert isinstance(found.x, torch.Tensor) and found.x.device.type == torch.device(DEVICE).type
    assert found.fun == pytest.approx(known.fun, rel=rel, abs=1e-7)
    assert np.array_equal(found.support, known.support)
    np.testing.assert_allclose(found.x.cpu().numpy(), known.x, atol=1e-3)


@pytest.mark.parametrize("name", RISKS)
def test_every_loss(name):
    here = RISKS[name](X.astype(float), lambda a: np.asarray(a))
    risk = RISKS[name](there(X), there)
    k = ez.sparsity.Rows(K) if name in ("several targets", "multinomial") else K
    res, known = ez.minimize(risk, k), ez.minimize(here, k)
    same(res, known)
    np.testing.assert_allclose(risk.predict(res.x).cpu().numpy(), here.predict(known.x), rtol=1e-3, atol=1e-3)
    assert risk.value(res.x) == pytest.approx(known.fun, rel=1e-5)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_set(name, loss):
    gamma = SETS[name]
    known = ez.minimize(RISKS[loss](X.astype(float), lambda a: np.asarray(a)), K, gamma)
    res = ez.minimize(RISKS[loss](there(X), there), K, gamma)
    same(res, known, rel=1e-5)
    assert res.violation <= 1e-6 and (gamma is None or gamma.contains(res.x, tol=1e-5))


FREE = ("IHT", "HSG-HT", "ZOHT", "StoIHT", "SVRG-HT")
BOUND = ("IHT-2SP", "HSG-HT-2SP", "PGD", "PGD+H", "IHT+P", "HZO-HT-2SP")


@pytest.mark.parametrize("method", FREE + BOUND)
def test_every_method_twice_the_same(method):
    risk, gamma = RISKS["squared"](there(X), there), S.L2Ball(2.0) if method in BOUND else None
    runs = [ez.minimize(risk, K, gamma, method, rng=0, max_iter=4 if "Z" in method else 40) for _ in range(2)]
    assert runs[0].fun == runs[1].fun and torch.equal(runs[0].x, runs[1].x)
    assert len(runs[0].support) <= K and runs[0].fun <= risk.value(0 * runs[0].x)


def test_values_along_directions_are_those_of_the_host():
    for name in ("squared", "logistic", "several targets"):
        values = []
        for data, t in ((X.astype(float), np.asarray), (there(X), there)):
            risk = RISKS[name](data, t)
            oracle = ez.ZerothOrder(n_directions=30, support_size=7, mu=0.1)
            method = ez.Method(oracle=oracle, step=0.01)
            values.append(ez.minimize(risk, 60, method=method, rng=0, max_iter=3, tol=0).fun)
        assert values[1] == pytest.approx(values[0], rel=1e-4), name


def test_double_precision_transposes_and_parts_of_larger_tensors():
    known = ez.minimize(ez.risks.LeastSquares(X.astype(float), Y), K)
    whole = there(np.repeat(X, 2, axis=1))
    for data in (there(X, torch.float64), there(X.T.copy()).T, whole[:, ::2]):
        same(ez.minimize(ez.risks.LeastSquares(data, there(Y)), K), known)


def test_what_lies_on_the_host_comes_along():
    """Targets, weights, starts and kept coordinates may be NumPy's."""
    risk = ez.risks.LeastSquares(there(X), Y, sample_weight=WEIGHT)
    here = ez.risks.LeastSquares(X.astype(float), Y, sample_weight=WEIGHT)
    x0 = np.zeros(D)
    x0[:K] = 1.0
    for extra in ({"keep": [0, 7]}, {"x0": x0}):
        same(ez.minimize(risk, K, **extra), ez.minimize(here, K, **extra))
    same(ez.minimize(risk, K, x0=there(x0)), ez.minimize(here, K, x0=x0))


def test_what_follows_an_answer():
    risk, here = (ez.risks.LeastSquares(a, t(Y)) for a, t in ((there(X), there), (X.astype(float), np.asarray)))
    res = ez.minimize(risk, K)
    cert, known = ez.certify(risk, res, time_limit=20), ez.certify(here, ez.minimize(here, K), time_limit=20)
    assert cert.lower_bound <= res.fun * (1 + 1e-9) and cert.status == known.status
    assert cert.lower_bound == pytest.approx(known.lower_bound, rel=1e-5)
    assert ez.beats(risk, res).k_bar == ez.beats(here, ez.minimize(here, K)).k_bar
    again = pickle.loads(pickle.dumps(res))
    assert again.fun == res.fun and torch.equal(again.x, res.x) and f"{res.fun:.3g}"[:4] in repr(res)
    proved = ez.minimize(risk, K, method="exact", time_limit=30)
    assert proved.status == ez.Status.OPTIMAL and proved.fun == pytest.approx(res.fun, rel=1e-6)


def test_paths_and_checkpoints(tmp_path):
    risk = ez.risks.LeastSquares(there(X), there(Y))
    path = ez.minimize_path(risk, [1, 3, K])
    known = ez.minimize_path(ez.risks.LeastSquares(X.astype(float), Y), [1, 3, K])
    np.testing.assert_allclose([r.fun for r in path], [r.fun for r in known], rtol=1e-6)
    file, run = tmp_path / "run", {"rng": 0, "tol": 0.0}
    whole = ez.minimize(risk, K, None, "HSG-HT-2SP", max_iter=20, **run)
    ez.minimize(risk, K, None, "HSG-HT-2SP", max_iter=9, checkpoint=file, **run)
    resumed = ez.minimize(risk, K, None, "HSG-HT-2SP", max_iter=20, resume=file, **run)
    assert resumed.nit == whole.nit and torch.equal(resumed.x, whole.x)


@pytest.mark.parametrize("kind", ["copies", "zeros", "constants", "nearly the same", "empty", "no rows to speak of"])
def test_degenerate_columns(kind):
    bad = X.astype(float)
    if kind == "copies":
        bad[:, 1::2] = bad[:, ::2]
    elif kind == "zeros":
        bad[:, ::3] = 0.0
    elif kind == "constants":
        bad[:, ::3] = 1.0
    elif kind == "nearly the same":
        bad[:, 1:] = bad[:, :1] + 1e-3 * bad[:, 1:]
    elif kind == "no rows to speak of":
        bad = bad[:3]
    bad, y = bad.astype(np.float32), Y[: len(bad)]
    k = 0 if kind == "empty" else K
    known = ez.minimize(ez.risks.LeastSquares(bad.astype(float), y, ridge=1e-3, fit_intercept=kind == "constants"), k)
    risk = ez.risks.LeastSquares(there(bad), there(y), ridge=1e-3, fit_intercept=kind == "constants")
    res = ez.minimize(risk, k)
    assert np.isfinite(res.fun) and len(res.support) <= k
    assert res.fun <= known.fun * (1 + 1e-4)
    exact = ez.risks.LeastSquares(bad.astype(float), y, ridge=1e-3, fit_intercept=kind == "constants")
    assert exact.value(res.x.cpu().numpy().astype(float)) == pytest.approx(res.fun, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scales(scale):
    known = ez.minimize(ez.risks.LeastSquares(X.astype(float), Y), K)
    res = ez.minimize(ez.risks.LeastSquares(there((scale * X).astype(np.float32)), there(Y)), K)
    assert np.array_equal(res.support, known.support) and res.fun == pytest.approx(known.fun, rel=1e-6)


@pytest.mark.parametrize(
    ("X_bad", "y_bad"), [(lambda: there(X).index_fill(0, there([3]), torch.nan), Y), (lambda: there(X), Y[:-1])]
)
def test_bad_data_are_refused(X_bad, y_bad):
    with pytest.raises(ValueError, match=r"X|y"):
        ez.risks.LeastSquares(X_bad(), there(y_bad))


def test_functions_that_torch_differentiates_there():
    data, y = there(X, torch.float64), there(Y)
    w0 = there(np.zeros(D))
    risk = ez.risks.from_torch(lambda w: ((data @ w.to(data) - y) ** 2).mean(), D, convex=True)
    known = ez.minimize(ez.risks.LeastSquares(X.astype(float), Y), K)
    res = ez.minimize(risk, K, x0=w0)
    assert res.fun == pytest.approx(known.fun, rel=1e-5)


def test_cupy_comes_free():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    known = ez.minimize(ez.risks.LeastSquares(X.astype(float), Y), K)
    res = ez.minimize(ez.risks.LeastSquares(cupy.asarray(X), cupy.asarray(Y.astype(np.float32))), K)
    assert isinstance(res.x, cupy.ndarray) and np.array_equal(res.support, known.support)
    assert res.fun == pytest.approx(known.fun, rel=1e-6)


def test_indices_may_be_there():
    risk = ez.risks.LeastSquares(there(X), there(Y.astype(np.float32)))
    known = ez.minimize(risk, K, keep=[3, 7])
    for keep in (there([7, 3]), there(np.isin(np.arange(D), [3, 7]))):
        assert np.array_equal(ez.minimize(risk, K, keep=keep).support, known.support)
    assert risk.restrict(there([1, 4])).n_features == 2


def test_a_start_that_is_differentiated_leaves_nothing_behind():
    risk, start = ez.risks.LeastSquares(there(X), there(Y)), torch.nn.Parameter(there(np.zeros(D)))
    for method in ("auto", "IHT-2SP", "PGD", "HSG-HT-2SP"):
        assert not ez.minimize(risk, K, method=method, x0=start, max_iter=20, rng=0).x.requires_grad
    assert not risk.predict(start).requires_grad


@pytest.mark.parametrize("bad, words", [
    (np.ones(D) * 1j, "must be real numbers|must be numbers"), (["a"] * D, "must be numbers"), (there(np.eye(D)).to_sparse()[0], "dense"),
])  # fmt: skip
def test_what_is_no_start_is_refused_by_name(bad, words):
    risk = ez.risks.LeastSquares(there(X), there(Y))
    for start in (bad, there(bad)) if isinstance(bad, np.ndarray) else (bad,):
        with pytest.raises(TypeError, match=f"x0 .*({words})"):
            ez.minimize(risk, K, x0=start)


def test_new_rows_of_another_kind_are_predicted():
    w, numbers = np.zeros(D), X.astype(np.float64)
    w[:3] = 1.0, -2.0, 0.5
    for own in (np.float32, np.float64):
        risk, host = ez.risks.LeastSquares(there(X.astype(own)), there(Y)), ez.risks.LeastSquares(X.astype(own), Y)
        for rows in (numbers, X, there(numbers), there(X), there(np.round(numbers).astype(int))):
            exact = (rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()) @ w
            np.testing.assert_allclose(risk.predict(w, rows).cpu().numpy(), exact, rtol=1e-4, atol=1e-5)
            if not isinstance(rows, np.ndarray):
                np.testing.assert_allclose(host.predict(w, rows), exact, rtol=1e-4, atol=1e-5)
        assert risk.predict(w, numbers[:3].tolist()).shape == (3,)
        assert risk.value(w.astype(">f8")) == risk.value(w.astype(np.longdouble)) == risk.value(w)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_automatic_casts_do_not_reach_the_data(half):
    risk = ez.risks.LeastSquares(there(X), there(Y))
    w = there(W)
    known, value, one = ez.minimize(risk, K), risk.value(w), risk.predict(w)
    with torch.autocast(DEVICE, dtype=half):
        assert risk.value(w) == value and torch.equal(risk.predict(w), one)
        for method in ("auto", "IHT-2SP"):
            assert ez.minimize(risk, K, method=method).fun == pytest.approx(known.fun, rel=1e-6)
        assert torch.is_autocast_enabled(DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [
    "torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('medium')",
    "torch.backends.cuda.matmul.allow_tf32 = True", "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "torch.backends.fp32_precision = 'tf32'", "None",
])  # fmt: skip
def test_tensor_cores_are_bound_and_let_loose_again(setting):
    """In a process of its own: the setting is one for all."""
    code = f"""
import threading, torch
from ellzero.design.tensors import _all_digits
class Elsewhere: ndim, is_cuda, device = 2, True, torch.device("cuda")
matmul = torch.backends.cuda.matmul
if not hasattr(matmul, "fp32_precision"): raise SystemExit
{setting}
def told():
    return matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision, torch.backends.fp32_precision
before, first, second = told(), _all_digits(Elsewhere()), _all_digits(Elsewhere())
first.__enter__(); second.__enter__()
assert matmul.fp32_precision in ("ieee", "none")
first.__exit__(None, None, None)
assert matmul.fp32_precision in ("ieee", "none")  # the other one still computes
second.__exit__(None, None, None)
assert told() == before
try:
    with _all_digits(Elsewhere()): 1 / 0
except ZeroDivisionError:
    assert told() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
