"""Ranks: Eckart and Young, the three-point lemma by singular values, and the whole way through `minimize`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar

import ellzero as ez
from ellzero import sets as S
from ellzero._core.singular import leading, svd
from ellzero.sparsity import Rank


def product(rng, m, n, r):
    return rng.standard_normal((m, r)) @ rng.standard_normal((r, n))


def truncated(V, r):
    U, s, Vt = np.linalg.svd(V, full_matrices=False)
    return (U[:, :r] * s[:r]) @ Vt[:r]


def entries(W, share, rng, noise=0.0):
    """Single entries of a matrix, as a sparse X."""
    seen = np.sort(rng.choice(W.size, int(share * W.size), replace=False))
    X = sparse.csr_array((np.ones(seen.size), (np.arange(seen.size), seen)), shape=(seen.size, W.size))
    return X, W.ravel()[seen] + noise * rng.standard_normal(seen.size)


class TestRank:
    @pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 5), (5, 1), (1, 1)])
    def test_is_the_nearest_matrix(self, shape):
        V = np.random.default_rng(0).standard_normal(shape)
        for r in range(min(shape) + 2):
            sparsity = Rank(r, shape).within(V.size)
            w, support = sparsity.project(V.ravel())
            assert support is None and sparsity.count(w) == min(r, *shape) and sparsity.allows(w)
            np.testing.assert_allclose(w.reshape(shape), truncated(V, r), atol=1e-12)

    def test_nothing_of_the_same_rank_is_nearer(self):
        rng = np.random.default_rng(1)
        V = rng.standard_normal((5, 4))
        w = ez.hard_threshold(V.ravel(), Rank(2, (5, 4)))
        best = np.linalg.norm(w - V.ravel())
        others = (product(rng, 5, 4, 2) + t * w.reshape(5, 4) for t in np.linspace(0, 1, 300))
        assert all(np.linalg.norm(truncated(W, 2) - V) >= best for W in others)

    def test_repeated_singular_values_and_zero(self):
        for V in (np.eye(4), np.zeros((4, 4)), np.ones((4, 4))):
            w = ez.hard_threshold(V.ravel(), Rank(2, (4, 4)))
            assert Rank(2, (4, 4)).count(w) == min(2, np.linalg.matrix_rank(V))
            assert np.linalg.norm(w - V.ravel()) == pytest.approx(np.linalg.norm(np.linalg.svd(V)[1][2:]), abs=1e-12)

    @pytest.mark.parametrize("scale", [1e150, 1e-150, 1e-300])
    def test_any_scale(self, scale):
        V = np.random.default_rng(2).standard_normal((6, 5))
        w = ez.hard_threshold(scale * V.ravel(), Rank(2, (6, 5)))
        np.testing.assert_allclose(w / scale, truncated(V, 2).ravel(), rtol=1e-9, atol=1e-9)
        assert Rank(2, (6, 5)).count(w) == 2

    def test_single_precision_and_other_libraries(self):
        V = np.random.default_rng(3).standard_normal((6, 5))
        w = ez.hard_threshold(V.ravel().astype(np.float32), Rank(2, (6, 5)))
        assert w.dtype == np.float32 and Rank(2, (6, 5)).count(w) == 2
        xp = pytest.importorskip("array_api_strict")
        there = ez.hard_threshold(xp.asarray(V.ravel()), Rank(2, (6, 5)))
        np.testing.assert_allclose(np.from_dlpack(there), truncated(V, 2).ravel(), atol=1e-12)
        assert Rank(2, (6, 5)).count(there) == 2

    def test_torch(self):
        torch = pytest.importorskip("torch")
        V = np.random.default_rng(3).standard_normal((6, 5))
        there = ez.hard_threshold(torch.asarray(V.ravel()), Rank(2, (6, 5)))
        np.testing.assert_allclose(there.numpy(), truncated(V, 2).ravel(), atol=1e-12)

    def test_not_finite(self):
        v = np.ones(6)
        v[3] = np.nan
        with pytest.raises(ValueError, match="must be finite, got nan at index 3"):
            ez.hard_threshold(v, Rank(1, (2, 3)))
        with pytest.raises(ValueError, match="must be finite"):
            Rank(1, (2, 3)).count(v)

    def test_arguments_are_named(self):
        for wrong, words in (((-1, (2, 3)), "r must be at least 0"), ((1.5, (2, 3)), "r must be an integer")):
            with pytest.raises((TypeError, ValueError), match=words):
                Rank(*wrong)
        for shape, words in (
            ((2,), "shape must be the two numbers"), (7, "shape must be the two numbers"),
            ((2, 0), "columns of shape must be at least 1"), ((2.0, 3), "rows of shape must be an integer"),
        ):  # fmt: skip
            with pytest.raises((TypeError, ValueError), match=words):
                Rank(1, shape)
        with pytest.raises(ValueError, match=r"Rank\(r=1, shape=\(2, 3\)\) is made for 6 coordinates, w has 8"):
            ez.hard_threshold(np.ones(8), Rank(1, (2, 3)))

    def test_words(self):
        sparsity, w = Rank(5, shape=(6, 8)), product(np.random.default_rng(0), 6, 8, 3).ravel()
        assert (
            sparsity.words == "rank at most 5" and sparsity.describe(w) == "3 of at most 5" and sparsity.label == "rank"
        )
        assert repr(sparsity) == "Rank(r=5, shape=(6, 8))" and sparsity == Rank(5, (6, 8)) != Rank(4, (6, 8))
        assert hash(sparsity) == hash(Rank(5, (6, 8))) and sparsity.with_k(2) == Rank(2, (6, 8))
        assert {sparsity: 1}[Rank(5, (6, 8))] == 1

    def test_which_sets_preserve_it(self):
        ball = S.L1Ball(1.0)
        for gamma in (S.Everywhere(), S.L2Ball(1.0), S.LpBall(2, 1.0), S.Spectral(ball, (3, 4)),
                      S.Intersection(S.Spectral(ball, (3, 4)), S.L2Ball(1.0))):  # fmt: skip
            assert Rank(2, (3, 4)).preserved_by(gamma)
        for gamma in (ball, S.NonNegative(), S.Spectral(ball, (4, 3)), S.LpBall(3, 1.0), S.Ellipsoid(np.ones(12), 1.0)):
            assert not Rank(2, (3, 4)).preserved_by(gamma)


class TestLeading:
    @pytest.mark.parametrize("noise", [0.0, 0.3])
    @pytest.mark.parametrize("shape", [(150, 120), (120, 200)])
    def test_a_random_block_is_as_good_as_lapack(self, shape, noise):
        rng = np.random.default_rng(0)
        W = product(rng, *shape, 4) + noise * rng.standard_normal(shape)
        U, s, Vt = leading(W, 4)
        np.testing.assert_allclose((U * s) @ Vt, truncated(W, 4), atol=1e-12 * s[0])
        np.testing.assert_array_equal(s, leading(W, 4)[1])  # the same every time
        np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-13)

    def test_values_that_repeat_are_all_found(self):
        W = np.diag(np.r_[5.0 * np.ones(6), np.linspace(1, 0, 144)])
        np.testing.assert_allclose(leading(W, 6)[1], 5.0)
        assert not leading(np.zeros((150, 150)), 3)[1].any()

    def test_a_flat_spectrum_is_left_to_lapack(self):
        W = np.linalg.qr(np.random.default_rng(0).standard_normal((130, 130)))[0]
        np.testing.assert_allclose(leading(W, 3)[1], 1.0)
        np.testing.assert_allclose(svd(W)[1], 1.0)


def balls(norm, radius):
    return {"operator": S.LinfBall, "Frobenius": S.L2Ball, "nuclear": S.L1Ball}[norm](radius)


def instance(seed, m, n, r, r_bar, adversarial):
    """V, and a comparison of rank r̄: random, or aligned with what the truncation throws away."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((m, n)) * rng.choice([0.1, 1.0, 10.0])
    if adversarial:  # equal singular values, and W̄ on those left out
        U, s, Vt = np.linalg.svd(V, full_matrices=False)
        s = np.sort(np.where(rng.random(s.size) < 0.7, s[0], s))[::-1]
        V = (U * s) @ Vt
        size = s[:r_bar] * rng.uniform(0.2, 3.0)
        return V, (U[:, r : r + r_bar] * size[: max(min(m, n) - r, 0)]) @ Vt[r : r + r_bar]
    return V, product(rng, m, n, r_bar) * rng.choice([0.1, 1.0, 10.0])


three_points = given(
    seed=st.integers(0, 2**32), m=st.integers(1, 7), n=st.integers(1, 7), r=st.integers(1, 6), r_bar=st.integers(1, 6),
    adversarial=st.booleans(), norm=st.sampled_from(["operator", "Frobenius", "nuclear"]), size=st.floats(0.05, 2.0),
)  # fmt: skip


class TestThreePoints:
    """||H - V||² <= ||W̄ - V||² - (1 - √(r̄/r))||W̄ - H||², and the two-step form; docs/what-is-promised.md."""

    @settings(max_examples=300, deadline=None)
    @three_points
    def test_truncation(self, seed, m, n, r, r_bar, adversarial, norm, size):
        r, r_bar = max(min(r, m, n), 1), max(min(r_bar, r, m, n), 1)
        V, W_bar = instance(seed, m, n, r, r_bar, adversarial)
        H = truncated(V, r)
        gap = np.sum((W_bar - V) ** 2) - (1 - np.sqrt(r_bar / r)) * np.sum((W_bar - H) ** 2) - np.sum((H - V) ** 2)
        assert gap >= -1e-10 * (np.sum(V**2) + np.sum(W_bar**2))

    @settings(max_examples=300, deadline=None)
    @three_points
    def test_two_step_projection(self, seed, m, n, r, r_bar, adversarial, norm, size):
        r, r_bar = max(min(r, m, n), 1), max(min(r_bar, r, m, n), 1)
        V, W_bar = instance(seed, m, n, r, r_bar, adversarial)
        gamma = S.Spectral(balls(norm, size * np.linalg.norm(V, 2)), (m, n))
        W_bar = gamma.project(W_bar.ravel()).reshape(m, n)
        P = ez.two_step_projection(V.ravel(), Rank(r, (m, n)), gamma).reshape(m, n)
        H, beta = truncated(V, r), np.sqrt(r_bar / r)
        gap = np.sum((W_bar - V) ** 2) - np.sum((P - V) ** 2)
        gap += beta * np.sum((H - W_bar) ** 2) - np.sum((P - W_bar) ** 2)
        assert gap >= -1e-10 * (np.sum(V**2) + np.sum(W_bar**2))

    def test_the_factor_cannot_be_smaller(self):
        """Equality at V = I of size r + r̄, W̄ = √(r/r̄) on what is left out."""
        r, r_bar = 4, 2
        V = np.eye(r + r_bar)
        W_bar = np.diag(np.r_[np.zeros(r), np.full(r_bar, np.sqrt(r / r_bar))])
        H = np.diag(np.r_[np.ones(r), np.zeros(r_bar)])
        gain, distance = np.sum((W_bar - V) ** 2) - np.sum((H - V) ** 2), np.sum((W_bar - H) ** 2)
        assert gain == pytest.approx((1 - np.sqrt(r_bar / r)) * distance)


class TestMinimize:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 7), (6, 4)])
    @pytest.mark.parametrize("inner", [None, S.L1Ball(1.5), S.LinfBall(0.8), S.L2Ball(1.0), S.LpBall(3, 1.0)])
    def test_eckart_and_young_with_and_without_a_ball(self, shape, inner):
        T = np.random.default_rng(sum(shape)).standard_normal(shape)
        U, s, Vt = np.linalg.svd(T, full_matrices=False)
        gamma = None if inner is None else S.Spectral(inner, shape)
        for r in range(min(shape) + 1):
            kept = s[:r] if inner is None or not r else inner.project(s[:r])
            res = ez.minimize(ez.risks.Quadratic(np.eye(T.size), T.ravel()), Rank(r, shape), gamma)
            np.testing.assert_allclose(res.x.reshape(shape), (U[:, :r] * kept) @ Vt[:r], atol=1e-7)

    @pytest.mark.parametrize("method", ["auto", "IHT-2SP", "PGD", "IHT"])
    def test_methods_agree_where_the_problem_is_easy(self, method):
        rng = np.random.default_rng(0)
        W = product(rng, 8, 7, 2)
        X = rng.standard_normal((400, 56))
        res = ez.minimize(ez.risks.LeastSquares(X, X @ W.ravel()), Rank(2, (8, 7)), method=method)
        np.testing.assert_allclose(res.x.reshape(8, 7), W, atol=1e-5)
        assert res.sparsity.count(res.x) == 2 and "rank         2 of at most 2" in repr(res)

    @pytest.mark.parametrize("condition", [1, 100])
    def test_completion_finds_the_matrix(self, condition):
        rng = np.random.default_rng(condition)
        W = rng.standard_normal((40, 3)) * np.geomspace(1, 1 / condition, 3) @ rng.standard_normal((3, 30))
        X, y = entries(W, 0.7, rng)
        res = ez.minimize(ez.risks.LeastSquares(X, y), Rank(3, W.shape))
        np.testing.assert_allclose(res.x.reshape(W.shape), W, atol=1e-8 * np.abs(W).max())
        assert res.n_gradients <= 300 * y.size and res.method == "auto (factors)"

    def test_outliers_under_a_cap(self):
        rng = np.random.default_rng(5)
        W = product(rng, 40, 30, 2)
        X, y = entries(W, 0.7, rng, 0.05)
        y[::10] += 10 * rng.standard_normal(y[::10].size)
        gamma = S.Spectral(S.LinfBall(np.linalg.norm(W, 2)), W.shape)
        res = ez.minimize(ez.risks.Huber(X, y, delta=0.2), Rank(2, W.shape), gamma)
        assert np.linalg.norm(res.x - W.ravel()) < 0.05 * np.linalg.norm(W)
        assert res.violation <= 1e-12 and res.success

    @pytest.mark.parametrize("inner", [None, S.LinfBall(8.0), S.L1Ball(12.0), S.L2Ball(10.0)])
    def test_never_worse_than_plain_steps(self, inner):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X, y = entries(product(rng, 15, 12, 2), 0.8, rng, 0.5)
            risk, gamma = ez.risks.LeastSquares(X, y), None if inner is None else S.Spectral(inner, (15, 12))
            plain = ez.minimize(risk, Rank(2, (15, 12)), gamma, ez.Method(step="adaptive"), max_iter=2000)
            res = ez.minimize(risk, Rank(2, (15, 12)), gamma)
            assert res.fun <= plain.fun * (1 + 1e-7) and res.n_gradients < plain.n_gradients + 300 * risk.n_terms
            assert ez.minimize(risk, Rank(2, (15, 12)), gamma, x0=plain.x).fun <= plain.fun * (1 + 1e-12)

    def test_other_losses(self):
        rng = np.random.default_rng(1)
        W = product(rng, 6, 5, 1)
        X = rng.standard_normal((300, 30))
        risk = ez.risks.Logistic(X, np.sign(X @ W.ravel() + 0.1 * rng.standard_normal(300)), ridge=0.05)
        res = ez.minimize(risk, Rank(1, (6, 5)))
        starts = [ez.minimize(risk, Rank(1, (6, 5)), x0=product(rng, 6, 5, 1).ravel()).fun for _ in range(4)]
        assert res.fun <= min(starts) + 1e-9 and res.stationarity < 1e-6

        def value(w):
            return float(np.sum((w - W.ravel()) ** 4 + (w - W.ravel()) ** 2))

        smooth = ez.risks.Smooth(value, lambda w: 4 * (w - W.ravel()) ** 3 + 2 * (w - W.ravel()), 30)
        assert ez.minimize(smooth, Rank(1, (6, 5))).fun < 1e-12

    @pytest.mark.parametrize("loss", ["LeastSquares", "Logistic"])
    @pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
    def test_the_last_value_is_in_double_precision(self, loss, kind):
        rng = np.random.default_rng(0)
        W = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 30))
        X = rng.standard_normal((500, 600)).astype(np.float32)
        y = (X @ W.ravel() + 0.1 * rng.standard_normal(500)).astype(np.float32)
        y = y if loss == "LeastSquares" else np.sign(y)
        share = rng.uniform(0.5, 2, 500)
        risk = getattr(ez.risks, loss)(kind(X), y, ridge=0.01, sample_weight=share, fit_intercept=True)
        res = ez.minimize(risk, Rank(2, (20, 30)), max_iter=10)
        x, y, share = res.x.astype(float), y.astype(float), share / share.sum()
        z = X.astype(float) @ x

        def value(b):
            losses = (z + b - y) ** 2 if loss == "LeastSquares" else np.logaddexp(0, -y * (z + b))
            return share @ losses + 0.005 * x @ x

        assert res.fun == pytest.approx(minimize_scalar(value, (-1.0, 1.0), tol=1e-12).fun, rel=1e-12)

    def test_single_precision(self):
        rng = np.random.default_rng(2)
        W = product(rng, 20, 15, 2)
        X = rng.standard_normal((500, 300)).astype(np.float32)
        res = ez.minimize(ez.risks.LeastSquares(X, X @ W.ravel().astype(np.float32)), Rank(2, W.shape))
        assert res.x.dtype == np.float32 and np.linalg.norm(res.x - W.ravel()) < 1e-5 * np.linalg.norm(W)

    @pytest.mark.parametrize("scale", [1e60, 1e-60])
    def test_scales(self, scale):
        rng = np.random.default_rng(3)
        W = product(rng, 10, 8, 2)
        X, y = entries(W, 0.9, rng)
        res = ez.minimize(ez.risks.LeastSquares(X, scale * y), Rank(2, W.shape))
        np.testing.assert_allclose(res.x.reshape(W.shape) / scale, W, atol=1e-7)

    def test_nothing_to_find(self):
        risk = ez.risks.LeastSquares(np.eye(12), np.zeros(12))
        for r in (0, 1, 3):
            res = ez.minimize(risk, Rank(r, (3, 4)))
            assert not res.x.any() and res.fun == 0
        low = ez.risks.Quadratic(np.eye(12), np.outer([1.0, 2, 3], [1.0, 0, 1, 0]).ravel())
        res = ez.minimize(low, Rank(3, (3, 4)))
        np.testing.assert_allclose(res.x, low.gradient(np.zeros(12)) * -1, atol=1e-9)

    def test_a_path_walks_along_ranks(self):
        rng = np.random.default_rng(0)
        T = rng.standard_normal((5, 4))
        path = ez.minimize_path(ez.risks.Quadratic(np.eye(20), T.ravel()), Rank(4, (5, 4)))
        left = np.cumsum(np.linalg.svd(T)[1][::-1] ** 2)[::-1]
        want = 0.5 * np.r_[left[1:], 0.0] - 0.5 * np.sum(T**2)
        assert path.ks.tolist() == [1, 2, 3, 4]
        np.testing.assert_allclose(path.fun, want, rtol=1e-9)

    def test_limits_and_resuming(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = entries(product(rng, 20, 15, 3), 0.8, rng, 0.3)
        risk, file = ez.risks.LeastSquares(X, y), tmp_path / "run.npz"
        ez.minimize(risk, Rank(3, (20, 15)), max_iter=3, checkpoint=file)
        again, whole = ez.minimize(risk, Rank(3, (20, 15)), resume=file), ez.minimize(risk, Rank(3, (20, 15)))
        assert again.fun == pytest.approx(whole.fun, rel=1e-9)
        with pytest.raises(ValueError, match="resume"):
            ez.minimize(risk, Rank(3, (15, 20)), resume=file)
        cut = ez.minimize(risk, Rank(3, (20, 15)), time_limit=1e-9)
        assert cut.sparsity.count(cut.x) <= 3

    def test_what_it_refuses(self):
        risk, rank = ez.risks.Quadratic(np.eye(12), np.arange(12.0)), Rank(2, (3, 4))
        for words, options in {
            "a rank is no matter of coordinates": {"keep": [3]},
            "is not known: it needs a support-preserving set": {"constraint": S.NonNegative()},
            "the two-step projection onto the members with rank": {"constraint": S.L1Ball(1.0), "method": "IHT-2SP"},
            r"Spectral of shape \(3, 4\)": {"constraint": S.Spectral(S.L1Ball(1.0), (4, 3))},
            "refits or exchanges coordinates .*use step='factors'": {"method": ez.Method(step="pursuit")},
            "refits or exchanges coordinates .*Exchanges": {"method": ez.preset("IHT-2SP", finish="swap")},
            "lower bounds are made of supports, and rank at most 2 is no": {"method": "exact"},
        }.items():
            with pytest.raises(ValueError, match=words):
                ez.minimize(risk, rank, **options)
        with pytest.raises(ValueError, match='step="factors" is for a rank'):
            ez.minimize(risk, 2, method=ez.Method(step="factors"))
        assert "rank at most 2 is no matter of supports" in repr(ez.certify(risk, ez.minimize(risk, rank)))
        with pytest.warns(UserWarning, match="k=9 is greater than the number of singular values, 3"):
            ez.minimize(risk, Rank(9, (3, 4)))

    def test_estimated_gradients(self):
        rng = np.random.default_rng(0)
        W = product(rng, 5, 4, 1)
        X = rng.standard_normal((300, 20))
        risk = ez.risks.LeastSquares(X, X @ W.ravel())
        for method in ("HSG-HT", "HZO-HT", "SVRG-HT"):
            res = ez.minimize(risk, Rank(1, (5, 4)), method=method, rng=0, max_iter=30)
            assert res.sparsity.count(res.x) <= 1 and res.fun < risk.value(np.zeros(20))


class TestGuarantee:
    @pytest.mark.parametrize("method", ["IHT", "IHT-2SP"])
    def test_is_kept(self, method):
        rng = np.random.default_rng(0)
        shape, r, kept = (8, 8), 7, 0
        gamma = S.Spectral(S.LinfBall(1.5), shape) if method == "IHT-2SP" else None
        for _ in range(5):
            A = rng.standard_normal((64, 64)) * 0.01
            risk = ez.risks.Quadratic(np.eye(64) + A @ A.T, rng.standard_normal(64))
            w_bar = product(rng, 8, 8, 1)
            w_bar *= 1.4 / np.linalg.norm(w_bar, 2)
            g = ez.guarantee(risk, Rank(r, shape), 1, gamma, method, epsilon=0.01, reference=w_bar.ravel()).best
            if g is None:
                continue
            kept += 1
            asked = {"method": ez.preset(method, step=g.step), "max_iter": max(g.n_iter, 1), "tol": 0}
            assert ez.minimize(risk, Rank(r, shape), gamma, **asked).fun <= g.bound + 1e-12
        assert kept

    def test_what_it_says(self):
        risk = ez.risks.Quadratic(np.diag(np.linspace(1, 1.5, 48)), b=np.ones(48))
        gamma = S.Spectral(S.LinfBall(1.0), (6, 8))
        g = ez.guarantee(risk, Rank(5, (6, 8)), 1, gamma, epsilon=0.1)
        assert g.widest.holds and "at most one singular value" in g.widest.promise and g.L.value == pytest.approx(1.5)
        assert "Γ preserves ranks" in repr(g) and "out of reach, there are 6 singular values" in repr(g)
        assert not ez.guarantee(risk, Rank(5, (6, 8)), 1, S.L1Ball(1.0)).premises[0].holds
        with pytest.raises(
            ValueError, match="HZO-HT bounds the errors of random directions on k coordinates.*rank at most 5"
        ):
            ez.guarantee(risk, Rank(5, (6, 8)), 1, method="HZO-HT")
        reference = ez.guarantee(risk, Rank(5, (6, 8)), 1, gamma, reference=np.eye(6, 8).ravel())
        assert "6 singular values, in Γ" in repr(reference) and not reference.holds


@pytest.mark.parametrize("seed", range(4))
def test_rank_one_by_brute_force(seed):
    """Weighted low-rank approximation, 2 x 2 and 3 x 2: all directions of a fine grid, the rest by least squares."""
    rng = np.random.default_rng(seed)
    for m in (2, 3):
        T, weight = rng.standard_normal((m, 2)), rng.uniform(0.2, 1.0, (m, 2))
        best = np.inf
        for angle in np.linspace(0, np.pi, 20001):
            v = np.array([np.cos(angle), np.sin(angle)])
            u = (weight * T) @ v / (weight @ v**2)
            best = min(best, np.sum(weight * (T - np.outer(u, v)) ** 2))
        risk = ez.risks.Quadratic(2 * np.diag(weight.ravel()), 2 * (weight * T).ravel())
        found = ez.minimize(risk, Rank(1, (m, 2))).fun + np.sum(weight * T**2)
        assert found <= best * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("norm", ["operator", "Frobenius", "nuclear"])
def test_the_sparse_maximum_is_the_best_of_many(norm, seed):
    rng = np.random.default_rng(seed)
    gamma, rank = S.Spectral(balls(norm, 1.3), (4, 3)), Rank(2, (4, 3))
    z = rng.standard_normal(12)
    for mu in (1.0, 0.1, 0.0):
        value, w = gamma.sparse_maximum(z, rank, mu)
        assert gamma.violation(w) <= 1e-12 and rank.count(w) <= 2
        assert value == pytest.approx(z @ w - 0.5 * mu * w @ w)
        for _ in range(200):
            v = truncated(product(rng, 4, 3, 2) + rng.choice([0, 3]) * w.reshape(4, 3), 2).ravel()
            u = ez.two_step_projection(10 * v, rank, gamma)
            assert z @ u - 0.5 * mu * u @ u <= value + 1e-9
    np.testing.assert_allclose(
        ez.euclidean_projection(z, rank, gamma), ez.two_step_projection(z, rank, gamma), atol=1e-12
    )


def test_a_rank_is_called_a_rank():
    risk = ez.risks.LeastSquares(np.random.default_rng(0).standard_normal((9, 2)), np.ones((9, 2)))
    with pytest.warns(UserWarning, match="singular values, 2: any w is allowed"):
        result = ez.minimize(risk, ez.sparsity.Rank(3, shape=(2, 2)))
    assert "  rank " in repr(result)
    assert "nonzeros" not in repr(result)
