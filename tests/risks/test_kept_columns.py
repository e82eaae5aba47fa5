"""Columns that are asked for again are not computed again, and hold no memory but their own."""

import gc
import tracemalloc

import numpy as np

import ellzero as ez
from ellzero.risks.kept_columns import KeptColumns


def test_each_is_computed_once_until_there_is_no_more_room():
    rng, G, asked = np.random.default_rng(0), np.random.default_rng(1).standard_normal((30, 30)), []

    def compute(index):
        asked.extend(index.tolist())
        return G[:, index]

    kept = KeptColumns()
    for _ in range(200):
        index = rng.choice(30, int(rng.integers(1, 6)), replace=False)
        np.testing.assert_array_equal(kept.of(index, 30, compute), G[:, index])
    assert sorted(asked) == sorted(set(asked))
    few = KeptColumns()
    for _ in range(200):
        index = rng.choice(30, int(rng.integers(1, 6)), replace=False)
        np.testing.assert_array_equal(few.of(index, 8, compute), G[:, index])
        assert len(few.columns) <= 8
    asked.clear()
    for step in range(10):  # of ten columns, which are more than may be kept beside others, one is another
        few.of(np.arange(step, step + 10), 8, compute)
    assert len(asked) <= 10 + 9


def test_what_was_handed_out_before_is_not_held():
    G, kept = np.random.default_rng(1).standard_normal((50_000, 40)), KeptColumns()
    tracemalloc.start()
    try:
        for step in range(20):
            kept.of(np.arange(step, step + 20), 60, lambda index: G[:, index])
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1.05 * G.nbytes
    finally:
        tracemalloc.stop()


def test_many_columns_at_a_time_are_those_of_one_by_one():
    problem = ez.datasets.make_regression(300, 250, 15, correlation=0.4, snr=3)
    for options in ({}, {"ridge": 0.1}, {"fit_intercept": True}, {"sample_weight": np.arange(1.0, 301)}):
        risk = ez.risks.LeastSquares(problem.X, problem.y, **options)
        model, index = risk.curvature(risk.at(risk.zero)), np.random.default_rng(0).permutation(250)[:200]
        np.testing.assert_allclose(model.columns(index), model.block(np.arange(250))[:, index], atol=1e-12)
        model.let_go()
        np.testing.assert_allclose(model.columns(index[:3]), model.block(np.arange(250))[:, index[:3]], atol=1e-12)


def test_damping_keeps_columns_apart():
    """What damped columns leave of each other needs no factor to be known, and is not less than it says."""
    from ellzero.risks.damped import Damped

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 12))
    X[:, 1::2] = X[:, ::2]
    risk = ez.risks.LeastSquares(X, rng.standard_normal(50))
    diagonal = risk.curvature(risk.at(risk.zero)).diagonal
    for share in (1e-1, 1e-4, 1e-9):
        damped = Damped(risk, share * diagonal)
        model = damped.curvature(damped.at(damped.zero))
        pivots = np.diagonal(np.linalg.cholesky(model.block(np.arange(12)))) ** 2
        assert model.apart == (share > 1e-6) and not model.inner.apart
        assert not model.apart or (pivots > 1e-6 * model.diagonal).all()
