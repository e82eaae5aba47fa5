"""Spectral sets: projections against cvxpy and by what makes them projections, slices, and what they refuse."""

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets as S

NORMS = {"nuclear": (S.L1Ball, "nuc"), "spectral": (S.LinfBall, 2), "Frobenius": (S.L2Ball, "fro")}


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("inner", [S.L1Ball(1.0), S.LinfBall(0.5), S.L2Ball(1.0), S.Box(-0.3, 0.3)])
def test_facts(inner, shape):
    gamma = S.Spectral(inner, shape)
    ez.testing.check_set(gamma, shape[0] * shape[1], 1, support_preserving=False, n_trials=12, rng=0)


@pytest.mark.parametrize("inner", [S.LpBall(3, 1.0), S.Intersection(S.L1Ball(1.0), S.LinfBall(0.6))])
@pytest.mark.slow
def test_facts_of_slower_sets(inner):
    ez.testing.check_set(S.Spectral(inner, (2, 2)), 4, 1, support_preserving=False, n_trials=6, rng=0)


@pytest.mark.parametrize("norm", NORMS)
def test_beside_cvxpy(norm):
    cp = pytest.importorskip("cvxpy")
    ball, kind = NORMS[norm]
    rng = np.random.default_rng(0)
    for shape in ((4, 3), (3, 5)):
        V = rng.standard_normal(shape)
        W = cp.Variable(shape)
        size = {"nuc": cp.normNuc, 2: cp.sigma_max, "fro": lambda W: cp.norm(W, "fro")}[kind](W)
        cp.Problem(cp.Minimize(cp.sum_squares(W - V)), [size <= 1.2]).solve(solver="SCS", eps=1e-9)
        found = S.Spectral(ball(1.2), shape).project(V.ravel()).reshape(shape)
        np.testing.assert_allclose(found, W.value, atol=1e-5)
        assert np.linalg.norm(found, kind) <= 1.2 * (1 + 1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_a_slice_beside_cvxpy(norm):
    cp = pytest.importorskip("cvxpy")
    ball, kind = NORMS[norm]
    rng = np.random.default_rng(1)
    v, support = 2 * rng.standard_normal(7), np.array([0, 2, 3, 5, 7, 10, 11])
    u, place = cp.Variable(7), np.eye(12)[:, support]
    W = cp.reshape(place @ u, (4, 3), order="C")
    size = {"nuc": cp.normNuc, 2: cp.sigma_max, "fro": lambda W: cp.norm(W, "fro")}[kind](W)
    cp.Problem(cp.Minimize(cp.sum_squares(u - v)), [size <= 1.2]).solve(solver="SCS", eps=1e-9)
    gamma = S.Spectral(ball(1.2), (4, 3))
    np.testing.assert_allclose(gamma.project(v, support), u.value, atol=1e-5)


def test_it_keeps_singular_vectors_and_never_raises_the_rank():
    rng = np.random.default_rng(2)
    V = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 6))
    for inner in (S.L1Ball(1.0), S.LinfBall(1.0), S.L2Ball(1.0), S.LpBall(3, 1.0)):
        P = S.Spectral(inner, (5, 6)).project(V.ravel()).reshape(5, 6)
        assert np.linalg.matrix_rank(P, tol=1e-10) <= 2
        U, s, Vt = np.linalg.svd(V, full_matrices=False)
        np.testing.assert_allclose((U.T @ P @ Vt.T)[:2, :2], np.diag(inner.project(s[:2])), atol=1e-12)


def test_members_stay_as_they_are_and_scales_do_not_matter():
    V = np.random.default_rng(3).standard_normal((4, 3))
    gamma = S.Spectral(S.LinfBall(10.0), (4, 3))
    assert gamma.project(V.ravel()) is not None and (gamma.project(V.ravel()) == V.ravel()).all()
    for scale in (1e150, 1e-150):
        there = S.Spectral(S.L1Ball(scale), (4, 3)).project(scale * V.ravel())
        np.testing.assert_allclose(there / scale, S.Spectral(S.L1Ball(1.0), (4, 3)).project(V.ravel()), rtol=1e-9)
    zero = S.Spectral(S.L1Ball(0.0), (4, 3))
    assert not zero.project(V.ravel()).any() and zero.violation(np.zeros(12)) == 0
    assert not gamma.project(np.zeros(12)).any()


def test_single_precision_and_other_libraries():
    V = 5 * np.random.default_rng(4).standard_normal(12)
    gamma = S.Spectral(S.L1Ball(1.0), (4, 3))
    w = gamma.project(V.astype(np.float32))
    assert w.dtype == np.float32 and gamma.contains(w)
    xp = pytest.importorskip("array_api_strict")
    np.testing.assert_allclose(np.from_dlpack(gamma.project(xp.asarray(V))), gamma.project(V), atol=1e-12)


def test_what_is_not_finite():
    gamma, v = S.Spectral(S.L1Ball(1.0), (2, 2)), np.array([1.0, np.nan, 0.0, 1.0])
    with pytest.raises(ValueError, match="must be finite, got nan at index 1"):
        gamma.project(v)
    assert not gamma.contains(v) and gamma.violation(v) == np.inf


def test_what_it_refuses():
    for inner in (S.NonNegative(), S.Simplex(1.0), S.SubSimplex(1.0), S.Box(0.0, 1.0), S.Box(-1.0, [1.0, 2.0]),
                  S.WeightedL1Ball([1.0, 2.0], 1.0), S.Intersection(S.L1Ball(1.0), S.NonNegative())):  # fmt: skip
        with pytest.raises(ValueError, match="order and signs of entries do not matter"):
            S.Spectral(inner, (2, 3))
    with pytest.raises(TypeError, match="inner must be a set of singular values"):
        S.Spectral(1.0, (2, 3))
    with pytest.raises(TypeError, match="shape must be the two numbers"):
        S.Spectral(S.L1Ball(1.0), 6)
    with pytest.raises(ValueError, match="made for 5 coordinates, the vector of singular values"):
        S.Spectral(S.Box(-np.ones(5), np.ones(5)), (2, 3))
    with pytest.raises(ValueError, match="made for 6 coordinates"):
        ez.minimize(ez.risks.Quadratic(np.eye(8), np.ones(8)), 2, S.Spectral(S.L1Ball(1.0), (2, 3)))


def test_a_symmetric_set_of_ones_own():
    class TopTwo(S.ConstraintSet):
        """Σ s_i² <= 1, written anew."""

        symmetric = True

        def project(self, v, support=None):
            return v / max(1.0, np.linalg.norm(v))

    V = np.random.default_rng(5).standard_normal(12)
    np.testing.assert_allclose(S.Spectral(TopTwo(), (4, 3)).project(V), S.L2Ball(1.0).project(V), atol=1e-12)


@pytest.mark.slow
def test_with_a_number_of_entries():
    """Few entries and a bounded spectral norm: the projection "restricted", and both constraints hold."""
    rng = np.random.default_rng(0)
    gamma, target = S.Spectral(S.LinfBall(1.0), (5, 4)), 3 * rng.standard_normal(20)
    res = ez.minimize(ez.risks.Quadratic(np.eye(20), target), 6, gamma)
    assert res.projection == "restricted" and res.support.size <= 6
    assert np.linalg.norm(res.x.reshape(5, 4), 2) <= 1 + 1e-12
    with pytest.raises(ValueError, match="It preserves ranks: use it with ellzero.sparsity.Rank"):
        ez.minimize(ez.risks.Quadratic(np.eye(20), target), 6, gamma, method="IHT-2SP")
    assert gamma.sparse_maximum(target, 6, 1.0) is None and not gamma.has_sparse_maximum()


def test_other_units_and_reach():
    gamma = S.Spectral(S.L1Ball(2.0), (3, 4))
    assert gamma.rescaled(np.full(12, 2.0)).inner.radius == 1.0 and gamma.rescaled(np.arange(1.0, 13)) is None
    assert gamma.norm_squares(12, 5).tolist() == [0.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    ball = S.Spectral(S.LinfBall(1.0), (3, 4))
    assert ball.norm_squares(12, 5).tolist() == [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    assert ez.theory.largest_norm(ball, 2, 12) == pytest.approx(np.sqrt(2))
    assert repr(ball) == "Spectral(inner=LinfBall(radius=1), shape=(3, 4))"
