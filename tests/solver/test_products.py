"""Refits and slopes from products at hand, beside those from the data."""

import numpy as np
import pytest

import ellzero as ez
from ellzero.design import as_design
from ellzero.design.dense import Dense
from ellzero.solver.problem import make_problem
from ellzero.solver.products import Products
from ellzero.solver.refit import refit


def groups(rng):
    group = np.repeat(np.arange(12), rng.integers(1, 5, 12))
    X = rng.standard_normal((60, group.size))
    return ez.risks.LeastSquares(X, rng.standard_normal(60), ridge=0.1), ez.sparsity.Groups(4, group)


def rows(rng):
    X, Y = rng.standard_normal((60, 15)), rng.standard_normal((60, 3))
    return ez.risks.LeastSquares(X, Y, fit_intercept=True), ez.sparsity.Rows(4)


@pytest.mark.parametrize("make", [groups, rows])
@pytest.mark.parametrize("seed", range(3))
def test_refits_and_slopes_are_those_from_the_data(make, seed):
    risk, sparsity = make(np.random.default_rng(seed))
    problem = make_problem(risk, sparsity, ez.sets.Everywhere(), None)
    atoms, origin = problem.sparsity.atoms, risk.at(risk.zero)
    first, second = (np.flatnonzero(np.isin(atoms, some)) for some in ((0, 3, 5, 7), (0, 3, 6, 9)))
    start = refit(risk, problem.gamma, first)
    products = Products.of(problem, risk.curvature(origin), start)
    point, known = products.refit(risk, second), refit(risk, problem.gamma, second)
    np.testing.assert_allclose(point.w, known.w, atol=1e-10)
    assert point.value == pytest.approx(risk.value(point.w), rel=1e-10)
    slopes, outside = products.slopes(point, second), ~np.isin(np.arange(risk.n_features), second)
    np.testing.assert_allclose(slopes[outside], -0.5 * known.gradient[outside], atol=1e-10)


def test_products_are_for_atoms_without_a_set():
    risk, sparsity = groups(np.random.default_rng(0))
    for k, gamma in ((4, ez.sets.Everywhere()), (sparsity, ez.sets.NonNegative())):
        problem, point = make_problem(risk, k, gamma, None), risk.at(risk.zero)
        assert Products.of(problem, risk.curvature(point), point) is None


def test_products_of_columns_side_by_side():
    X = np.random.default_rng(0).standard_normal((30, 9))
    index = np.array([[0, 1, 2], [3, 4, -1], [8, -1, -1]])
    found = as_design(X).grams(index)
    for J, G in zip(index, found, strict=True):
        A = np.where(J >= 0, X[:, J], 0.0)
        np.testing.assert_allclose(G, A.T @ A, atol=1e-12)
    assert as_design(X).grams(np.array([[0, 2, 4]])) is None


@pytest.mark.parametrize("make", [groups, rows])
def test_the_gradient_at_zero_is_computed_once_and_let_go(make, monkeypatch):
    risk, sparsity = make(np.random.default_rng(0))
    asked, adjoint, whole = [], Dense.adjoint, risk.design.shape

    def counted(self, r):
        if self.shape == whole:  # refits look at few columns
            asked.append(r)
        return adjoint(self, r)

    monkeypatch.setattr(Dense, "adjoint", counted)
    ez.minimize(risk, sparsity)
    gradients = [r for r in asked if r.shape == np.shape(risk.y)]
    assert sum(np.allclose(r, gradients[0]) for r in gradients) == 1
    assert "origin" not in vars(risk)
