"""Any loss that torch or JAX can differentiate has the answers of the losses that are written out."""

import subprocess
import sys

import numpy as np
import pytest

import ellzero as ez
from ellzero._core.arrays import to_host
from ellzero.risks import autodiff
from ellzero.testing import check_risk

N, P = 80, 30


@pytest.fixture(scope="module")
def problem():
    return ez.datasets.make_regression(N, P, 4, snr=2.0, correlation=0.6)


class Torch:
    """Losses written in torch."""

    make = staticmethod(lambda *args, **options: ez.risks.from_torch(*args, **options))

    def __init__(self, problem):
        torch = pytest.importorskip("torch", reason="pip install ellzero[torch]")
        self.X, self.y = torch.as_tensor(problem.X), torch.as_tensor(problem.y)
        self.softplus = torch.nn.functional.softplus
        self.array = lambda values: torch.as_tensor(np.asarray(values, dtype=float))


class Jax:
    """Losses written in JAX, in double precision."""

    make = staticmethod(lambda *args, **options: ez.risks.from_jax(*args, **options))

    def __init__(self, problem):
        jax = pytest.importorskip("jax", reason="pip install ellzero[jax]")
        jax.config.update("jax_enable_x64", True)
        self.X, self.y = jax.numpy.asarray(problem.X), jax.numpy.asarray(problem.y)
        self.softplus = jax.nn.softplus
        self.array = jax.numpy.asarray


@pytest.fixture(params=[Torch, Jax], ids=["torch", "jax"])
def there(request, problem):
    return request.param(problem)


def squares(there, **options):
    return there.make(lambda w: ((there.X @ w - there.y) ** 2).mean(), P, convex=True, lower_bound=0.0, **options)


def logistic(there, **options):
    def f(w, rows):
        margin = (there.y[rows] > 0) * 2.0 - 1.0
        return there.softplus(-margin * (there.X[rows] @ w)) + 0.01 * w @ w

    return there.make(f, P, n_terms=N, convex=True, lower_bound=0.0, **options)


def test_answers_are_those_of_the_losses_written_out(there, problem):
    X, y = problem.X, problem.y
    for risk, known in (
        (squares(there), ez.risks.LeastSquares(X, y)),
        (logistic(there), ez.risks.Logistic(X, np.sign(y), ridge=0.02)),
        (logistic(there, batch=32), ez.risks.Logistic(X, np.sign(y), ridge=0.02)),
    ):
        res, ours = ez.minimize(risk, 4), ez.minimize(known, 4)
        np.testing.assert_array_equal(res.support, ours.support)
        assert res.fun == pytest.approx(ours.fun, rel=1e-9)
        np.testing.assert_allclose(to_host(res.x), ours.x, rtol=1e-5, atol=1e-7)
        assert type(risk.zero) is type(res.x)


def test_these_risks_keep_their_word(there):
    check_risk(squares(there), rng=0, n_points=2)
    check_risk(logistic(there, batch=30, smoothness=100.0), rng=0, n_points=2)


def test_products_with_the_hessian(there, problem, monkeypatch):
    risk, known = logistic(there, batch=32), ez.risks.Logistic(problem.X, np.sign(problem.y), ridge=0.02)
    w = 0.3 * np.cos(np.arange(P))
    ours, model = known.curvature(known.at(w)), risk.curvature(risk.at(risk.as_vector(w)))
    index, V = np.array([3, 11, 20]), np.random.default_rng(0).standard_normal((3, 2))
    for f in (
        lambda m: m.diagonal, lambda m: m.columns(index), lambda m: m.images(index, V), lambda m: m.block(index),
        lambda m: m.columns(index[:2]),
    ):  # fmt: skip
        np.testing.assert_allclose(f(model), f(ours), rtol=1e-8, atol=1e-12)
    assert model.spent > 0 and not model.exact
    monkeypatch.setattr(autodiff, "_DIAGONAL", 5)
    monkeypatch.setattr(autodiff, "_PROBES", 4000)
    estimate = risk.curvature(risk.at(risk.as_vector(w))).diagonal
    np.testing.assert_allclose(estimate, ours.diagonal, rtol=0.2)
    monkeypatch.setattr(autodiff, "_ROOM", 2 * P)  # columns that do not fit are computed again
    few = risk.curvature(risk.at(risk.as_vector(w)))
    for j in (0, 5, 0, 7):
        np.testing.assert_allclose(few.columns(np.array([j])), ours.columns(np.array([j])), rtol=1e-8, atol=1e-12)


def test_terms_one_by_one_and_in_batches(there):
    risk = logistic(there)
    w, rows = risk.as_vector(np.sin(np.arange(P))), np.array([3, 70, 3])
    each = [to_host(g) for g in risk.term_gradients(w, rows)]
    for i, g in zip(rows, each, strict=True):
        np.testing.assert_allclose(g, to_host(risk.gradient(w, rows=[i])), rtol=1e-10)
    np.testing.assert_allclose(np.mean(each, axis=0), to_host(risk.gradient(w, rows=rows)), rtol=1e-10)
    method = ez.Method(oracle=ez.MiniBatch(20), step=0.2)
    res = ez.minimize(risk, 4, ez.sets.LinfBall(0.5), method, max_iter=100, rng=0)
    assert res.fun < 0.95 * risk.value(risk.zero) and res.violation <= 1e-12 and res.n_gradients == 2000
    assert ez.estimate_variance(risk).value > 0
    with pytest.raises(NotImplementedError, match="has no terms to pick from"):
        squares(there).gradient(w, rows=[0])


@pytest.mark.parametrize(
    ("k", "gamma"),
    [
        (3, ez.sets.L1Ball(4.0)),
        (3, ez.sets.NonNegative()),
        (3, ez.sets.GroupWise(ez.sets.L2Ball(1.0), np.arange(P) % 5)),
        (ez.sparsity.Groups(2, np.arange(P) // 3), None),
        (ez.sparsity.PerGroup(3, np.arange(P) // 6, 1), ez.sets.LinfBall(2.0)),
        (ez.sparsity.Rank(1, shape=(5, 6)), None),
    ],
    ids=str,
)
def test_sets_and_sparsities(k, gamma, problem):
    """They see vectors, wherever their gradients come from."""
    there = Torch(problem)
    known = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k, gamma)
    res = ez.minimize(squares(there), k, gamma)
    assert res.fun <= known.fun * (1 + 1e-6)
    assert res.sparsity.allows(res.x) and res.violation <= 1e-12


def test_proofs_are_refused_with_a_reason(problem):
    risk = squares(Torch(problem))
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as error:
        ez.minimize(risk, 2, method="exact", time_limit=5)
    assert len(str(error.value)) > 20


def test_paths_of_k(there):
    path = ez.minimize_path(squares(there), [1, 3])
    assert path.fun[1] < path.fun[0]


# ---- several tensors ----


def test_tensors_of_a_module_share_one_k():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    X = torch.randn(50, 6, dtype=torch.float64)
    y = torch.sin(X[:, :1])

    def loss(parameters, rows):
        return ((torch.func.functional_call(model, parameters, (X[rows],)) - y[rows]) ** 2)[:, 0]

    risk = ez.risks.from_torch(loss, model, n_terms=50, lower_bound=0.0)
    assert risk.n_features == 33 and list(risk.parts) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert risk.labels.count("0.weight") == 24 and len(risk.labels) == 33
    np.testing.assert_allclose(risk.value(risk.start), ((model(X) - y) ** 2).mean().item())
    for name, tensor in model.named_parameters():
        assert torch.equal(risk.unravel(risk.start)[name], tensor)
    check_risk(risk, rng=0, n_points=2)
    layers = [name.partition(".")[0] for name in risk.labels]
    caps = ez.sets.GroupWise({"0": ez.sets.L2Ball(2.0), "2": ez.sets.LinfBall(0.7)}, layers)
    method = ez.Method(oracle=ez.MiniBatch(25), step=0.1)
    with pytest.warns(UserWarning, match="x0 is infeasible"):
        res = ez.minimize(risk, 12, caps, method, x0=risk.start, max_iter=200, rng=0)
    assert res.support.size <= 12 and res.violation <= 1e-12 and res.fun < 0.5 * risk.value(risk.zero)
    after = risk.unravel(res.x)
    assert max(after["2.weight"].abs().max(), after["2.bias"].abs().max()) <= 0.7
    model.load_state_dict(after)
    np.testing.assert_allclose(((model(X) - y) ** 2).mean().item(), res.fun, rtol=1e-9)


def test_tensors_by_name_keep_their_precision():
    torch = pytest.importorskip("torch")
    risk = ez.risks.from_torch(
        lambda t: (t["a"] ** 2).sum() + (t["b"] - 1).sum() ** 2, {"a": torch.ones(2, 2), "b": torch.ones(3)}
    )
    assert risk.start.dtype == torch.float32 and risk.n_features == 7
    res = ez.minimize(risk, 3)
    assert res.x.dtype == torch.float32 and set(res.support) <= {4, 5, 6}
    double = ez.risks.from_torch(lambda t: t["a"].sum() ** 2, {"a": torch.ones(2)}, dtype=torch.float64)
    assert double.start.dtype == torch.float64


def test_pytrees_share_one_k():
    jax = pytest.importorskip("jax")
    tree = {"layer": [np.ones((2, 3)), np.zeros(3)], "scale": np.float64(2.0)}
    risk = ez.risks.from_jax(
        lambda t: (t["layer"][0].sum() - 3.0) ** 2 + t["scale"] ** 2 + (t["layer"][1] ** 2).sum(), tree
    )
    assert risk.n_features == 10 and list(risk.parts) == ["layer.0", "layer.1", "scale"]
    np.testing.assert_array_equal(risk.start, [1] * 6 + [0] * 3 + [2])
    assert jax.tree_util.tree_structure(risk.unravel(risk.start)) == jax.tree_util.tree_structure(tree)
    res = ez.minimize(risk, 1)
    assert res.support.size == 1 and res.support[0] < 6 and res.fun < 1e-6
    import pickle

    risk = ez.risks.from_jax(np.sum, 3)
    risk.value(np.ones(3))
    assert pickle.loads(pickle.dumps(risk)).value(np.ones(3)) == 3.0


# ---- limits ----


def test_functions_without_a_second_derivative_are_refitted_by_gradients(problem):
    torch = pytest.importorskip("torch")

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, r):
            ctx.save_for_backward(r)
            return (r * r).sum() / N

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, slope):
            return slope * 2 * ctx.saved_tensors[0] / N

    there = Torch(problem)
    risk = ez.risks.from_torch(lambda w: Once.apply(there.X @ w - there.y), P, convex=True)
    assert risk.curvature(risk.at(risk.zero)) is None
    known = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), 4)
    assert ez.minimize(risk, 4).fun <= 1.2 * known.fun
    assert squares(there).curvature(squares(there).at(squares(there).zero)) is not None
    linear = ez.risks.from_torch(lambda w: w.sum(), 3, convex=True)
    assert not linear.curvature(linear.at(linear.zero)).diagonal.any()
    bent = ez.risks.from_torch(lambda w: torch.cos(w).sum(), 3)
    assert bent.curvature(bent.at(bent.zero)) is None  # not convex


def test_unusable_functions_are_refused(there):
    ones = there.array(np.ones(3))
    for f, options, error, words in (
        (5, {}, TypeError, "f must be a function of w, got 5"),
        (lambda w: w * 2, {}, ValueError, r"f\(w\) must return .*\(3,\); use .sum\(\)"),
        (lambda w, rows: w.sum(), {"n_terms": 4}, ValueError, "one term for each of the 4 rows"),
        (lambda w: w.sum(), {"batch": 3}, ValueError, "batch divides the terms of a finite sum: give n_terms"),
        (lambda w: w.sum(), {"n_terms": 0}, ValueError, "n_terms must be at least 1"),
        (
            lambda w: w.sum(),
            {"smoothness": 1.0, "strong_convexity": 2.0},
            ValueError,
            "strong_convexity must be at most",
        ),
    ):
        with pytest.raises(error, match=words):
            there.make(f, 3, **options).gradient(np.ones(3))
    for size in (0, 2.5, "three"):
        with pytest.raises((TypeError, ValueError), match="n_features"):
            there.make(lambda w: w.sum(), size)
    for options in ({}, {"n_terms": 3}):
        for evaluate in (lambda risk: risk.value(np.ones(3)), lambda risk: risk.gradient(np.ones(3))):
            with pytest.raises(TypeError, match="must return real numbers, got .*complex128"):
                evaluate(there.make(lambda w, *rows: w * 1j if rows else (w * 1j).sum(), 3, **options))
    if isinstance(there, Torch):
        for f, error, words in (
            (lambda w: float(w.detach().sum()), ValueError, "one entry, got builtins's float, 3.0"),
            (lambda w: np.sum(w.detach().numpy()), ValueError, r"one entry, got numpy's float64 of shape \(\)"),
            (lambda w: None, ValueError, "one entry, got builtins's NoneType"),
        ):
            with pytest.raises(error, match=words):
                there.make(f, 3).gradient(np.ones(3))
        with pytest.raises(ValueError, match="the objective at the start is nan, and must be finite"):
            ez.minimize(there.make(lambda w: (w * np.nan).sum(), 3), 2)
        with pytest.raises(ValueError, match="does not depend on w in a way that torch can differentiate"):
            there.make(lambda w: ones.sum(), 3).gradient(np.ones(3))


@pytest.mark.parametrize(("name", "package"), [("from_torch", "torch"), ("from_jax", "jax")])
def test_a_missing_package_is_named(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install ellzero\[{package}\]"):
        getattr(ez.risks, name)(lambda w: w.sum(), 3)


def test_nothing_imports_what_is_not_asked_for():
    """Without torch, JAX or Dask everything else works: they are loaded where they are called by name."""
    code = (
        "import sys, numpy as np, ellzero as ez, ellzero.estimators, ellzero.risks, ellzero.design\n"
        "X = np.random.default_rng(0).standard_normal((60, 5))\n"
        "ez.minimize(ez.risks.LeastSquares(ez.Blocks([X[:30], X[30:]]), X[:, 0]), 1)\n"
        "ez.SparseRegressor(k=1).fit(X, X[:, 0])\n"
        "print([m for m in ('torch', 'jax', 'optax', 'dask', 'distributed', 'zarr') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_strong_convexity_that_is_stated_makes_a_promise(problem):
    """As for `Smooth`, whose constants are stated the same way."""
    library = Torch(problem)
    nu = float(np.linalg.eigvalsh(2 * problem.X.T @ problem.X / N)[0])
    risk = Torch.make(lambda w: ((library.X @ w - library.y) ** 2).mean(), P, strong_convexity=0.99 * nu)
    smooth = ez.risks.Smooth(
        lambda w: np.mean((problem.X @ w - problem.y) ** 2),
        lambda w: 2 / N * problem.X.T @ (problem.X @ w - problem.y),
        P,
        strong_convexity=0.99 * nu,
    )
    ours, theirs = (ez.minimize(one, 12) for one in (risk, smooth))
    assert risk.known_convexity == smooth.known_convexity
    assert ours.beats is not None and ours.beats.k_bar == theirs.beats.k_bar > 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int64", "complex128"])
def test_precisions_that_are_too_short_are_refused(name):
    torch = pytest.importorskip("torch")
    dtype, words = getattr(torch, name), f"w must be real numbers in single or double precision, got torch.{name}"
    for start, options in ((3, {"dtype": dtype}), ({"a": torch.zeros(3, dtype=dtype)}, {})):
        with pytest.raises(TypeError, match=words):
            ez.risks.from_torch(lambda w: 0.0, start, **options)
