"""Estimators on torch tensors, where scikit-learn dispatches to array libraries; SciPy asks for a variable at import."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed; the extra `torch` brings it")

SCRIPT = """
import numpy as np, sklearn, torch
import ellzero as ez

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 20))
y = 2 * X[:, 3] - X[:, 7] + 0.1 * rng.standard_normal(120)
label, weight = (y > 0).astype(int), rng.random(120)
models = [
    (ez.SparseRegressor(k=2), y), (ez.SparseRegressor(k=2, loss="huber"), y), (ez.SparseClassifier(k=2), label),
    (ez.SparseRegressorCV(ks=3, cv=3), y), (ez.SparseClassifierCV(ks=2, cv=3, ridge=0.1), label),
    (ez.SparseRegressor(k=2), np.column_stack([y, -y])),
]
for model, target in models:
    host = sklearn.clone(model).fit(X, target, weight)
    with sklearn.config_context(array_api_dispatch=True):
        there = model.fit(torch.tensor(X), torch.tensor(target), torch.tensor(weight))
        np.testing.assert_array_equal(there.get_support(), host.get_support())
        np.testing.assert_allclose(there.coef_, host.coef_, rtol=1e-8, atol=1e-12)
        predicted = there.predict(torch.tensor(X))
        assert isinstance(predicted, torch.Tensor) and isinstance(there.result_.x, torch.Tensor)
        np.testing.assert_allclose(predicted.numpy(), host.predict(X), rtol=1e-8)
        assert abs(there.score(torch.tensor(X), torch.tensor(target)) - host.score(X, target)) < 1e-9
        if hasattr(there, "classes_"):
            assert isinstance(there.predict_proba(torch.tensor(X)), torch.Tensor)
        if target.ndim == 1 and "CV" not in type(model).__name__:
            made = there.certify(torch.tensor(X), torch.tensor(target), torch.tensor(weight))
            assert made.lower_bound <= there.result_.fun and there.beats_ is not None

whole = rng.integers(-3, 4, (120, 20))
real = whole[:, :4] @ [0.2, -0.15, 0.1, 0.08] + 0.05 * rng.standard_normal(120)
event = np.array(list(zip(rng.random(120) < 0.7, rng.exponential(np.exp(-X[:, 3])))), [("e", bool), ("t", float)])
with sklearn.config_context(array_api_dispatch=True):
    X_there = torch.tensor(whole)  # of integers: what is predicted are none
    host, there = ez.SparseRegressor(k=4).fit(whole, real), ez.SparseRegressor(k=4).fit(X_there, torch.tensor(real))
    np.testing.assert_allclose(there.predict(X_there).numpy(), host.predict(whole), rtol=1e-8)
    host, there = (ez.SparseClassifier(k=4).fit(A, real > 0) for A in (whole, X_there))
    np.testing.assert_allclose(there.predict_proba(X_there).numpy(), host.predict_proba(whole), rtol=1e-6)
    assert there.predict(X_there).dtype == torch.bool
    for model in (ez.SparseCox(k=2), ez.SparseCoxCV(ks=[1, 2])):
        host, there = (sklearn.clone(model).fit(A, event) for A in (X, torch.tensor(X)))
        np.testing.assert_allclose(there.coef_, host.coef_, rtol=1e-6)
        assert all(isinstance(f(torch.tensor(X)), torch.Tensor) for f in (there.predict, there.predict_survival_function))
    try:
        ez.SparseRegressor(k=4).fit(torch.tensor(X) * (1 + 5j), torch.tensor(real))
    except TypeError as error:
        assert "X must be real numbers" in str(error)
    else:
        raise AssertionError("complex numbers were fitted")
print("the same")
"""


@pytest.mark.slow
def test_tensors_stay_tensors_and_give_the_same_answers():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True
    )
    assert run.stdout.strip() == "the same", run.stderr[-2000:]
