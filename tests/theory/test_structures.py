"""The lemmas and theorems for groups, rows and quotas, as docs/what-is-promised.md proves them: all supports of w̄."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import ellzero as ez
from ellzero import sets as S
from ellzero.sparsity import Groups, PerGroup, Rows, Sparsity

seeds = st.integers(0, 2**32 - 1)
D = 8


def draw(seed):
    """w with and without ties, groups of different sizes, some coordinates in none."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 5, D)
    labels[0] = 0
    w = rng.standard_normal(D) if rng.random() < 0.6 else rng.choice([-2.0, -1, 0, 1, 2], D)
    return rng, [None if g < 0 else int(g) for g in labels], w


def parts(sparsity, n_used, quota_of=None):
    """All supports with so many atoms, and with so many of each group."""
    atoms = np.arange(D) if sparsity.atoms is None else sparsity.atoms
    group = None if sparsity.quotas is None else sparsity.quotas[0]
    for size in range(n_used + 1):
        for chosen in itertools.combinations(range(atoms.max() + 1), size):
            if quota_of is None or all(sum(group[a] == g for a in chosen) <= c for g, c in enumerate(quota_of)):
                yield np.isin(atoms, [-1, *chosen])


def require_three_point(sparsity, w, beta, supports):
    """||H - w||² <= ||w - w̄||² - (1 - √β)||H - w̄||² for every w̄ on these supports: the worst is in closed form."""
    H, root = ez.hard_threshold(w, sparsity), np.sqrt(beta)
    for inside in supports:
        w_bar = np.where(inside, np.where(H != 0, H, w / root if root else 0.0), 0.0)
        for v in (w_bar, 0.5 * w_bar, 2.0 * w_bar):
            left = np.sum((H - w) ** 2)
            right = np.sum((w - v) ** 2) - (1 - root) * np.sum((H - v) ** 2)
            assert left <= right + 1e-12 * (1 + np.sum((w - v) ** 2))


class TestThreePoint:
    @settings(max_examples=60, deadline=None)
    @given(seed=seeds)
    def test_groups(self, seed):
        rng, labels, w = draw(seed)
        sparsity = Groups(int(rng.integers(1, 4)), labels).within(D)
        for k_bar in range(1, sparsity.k + 1):
            require_three_point(sparsity, w, k_bar / sparsity.k, parts(sparsity, k_bar))

    @settings(max_examples=30, deadline=None)
    @given(seed=seeds)
    def test_rows(self, seed):
        _, _, w = draw(seed)
        sparsity = Rows(2, n_outputs=2).within(D)
        require_three_point(sparsity, w, 0.5, parts(sparsity, 1))

    @settings(max_examples=60, deadline=None)
    @given(seed=seeds)
    def test_quotas(self, seed):
        """β = max(k̄/k, c̄_g/c_g): w̄ uses a smaller part of all, and of every quota that limits."""
        rng, labels, w = draw(seed)
        names = sorted({g for g in labels if g is not None})
        at_most = {g: int(rng.integers(1, 4)) for g in names}
        sparsity = PerGroup(int(rng.integers(1, 6)), labels, at_most).within(D)
        group, most = sparsity.quotas
        sizes = np.bincount(group + 1, minlength=most.size + 1)[1:]
        for k_bar in range(1, sparsity.k + 1):
            scaled = np.where(sizes <= most, sizes, most * k_bar // sparsity.k)
            require_three_point(sparsity, w, k_bar / sparsity.k, parts(sparsity, k_bar, scaled))
        quota_bar = np.maximum(most - 1, 0)
        limits = sizes > most
        beta = max([1 / sparsity.k, *(quota_bar[limits] / most[limits])])
        require_three_point(sparsity, w, beta, parts(sparsity, 1, np.where(limits, quota_bar, sizes)))

    @pytest.mark.parametrize("c", [0.5, 0.9, 0.99])
    def test_quotas_as_full_as_those_of_the_answer_promise_nothing(self, c):
        """However large k is against k̄ = 1: the two entries of a group with quota 1 are a problem with k = k̄."""
        sparsity, d = PerGroup(6, ["a", "a", *range(5)], {"a": 1}), 7
        w, w_bar = np.zeros(d), np.zeros(d)
        w[:2], w_bar[1] = [1.0, (1 + c) / 2], 1.0
        H = ez.hard_threshold(w, sparsity)
        excess = np.sum((H - w) ** 2) - np.sum((w - w_bar) ** 2)
        assert excess > -(1 - c) * np.sum((H - w_bar) ** 2)  # c in place of √(1/6) = 0.41, and any c < 1 fails

    @settings(max_examples=40, deadline=None)
    @given(seed=seeds)
    def test_with_a_set_that_preserves_groups(self, seed):
        rng, labels, w = draw(seed)
        sparsity = Groups(int(rng.integers(1, 4)), labels).within(D)
        covered = [i for i, g in enumerate(labels) if g is not None]
        thin = S.Intersection(S.L2Ball(1.0), S.Box(-0.2, 0.7))
        whole = S.GroupWise({g: Diagonal() for g in {labels[i] for i in covered}}, labels)  # keeps groups alone
        for gamma in (S.L2Ball(1.0), S.NonNegative(), S.GroupWise(thin, labels), whole):
            H, p = ez.hard_threshold(w, sparsity), ez.two_step_projection(w, sparsity, gamma)
            for k_bar, inside in ((j, i) for j in range(1, sparsity.k + 1) for i in parts(sparsity, j)):
                index = np.flatnonzero(inside)
                for v in (2 * w, 3 * rng.standard_normal(D)):
                    w_bar = np.zeros(D)
                    w_bar[index] = gamma.project(v[index], index)
                    right = np.sum((w - w_bar) ** 2) - np.sum((p - w_bar) ** 2)
                    right += np.sqrt(k_bar / sparsity.k) * np.sum((H - w_bar) ** 2)
                    assert np.sum((p - w) ** 2) <= right + 1e-9 * (1 + right)


class Diagonal(S.ConstraintSet):
    """{(t, ..., t)}: zero is a member, zeroing one entry is not allowed."""

    def project(self, v, support=None):
        return np.full_like(v, v.mean()) if v.size else v


def quadratic(rng, d, spread=0.4):
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    A = (Q * np.linspace(1.0, 1.0 + spread, d)) @ Q.T
    return A, A @ (rng.standard_normal(d) * 3)


class TestGuarantee:
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 6])

    def test_constants_are_over_unions_of_groups(self):
        rng = np.random.default_rng(0)
        A, b = quadratic(rng, 12)
        g = ez.guarantee(ez.risks.Quadratic(A, b), Groups(2, self.labels), 1, ez.sets.L2Ball(50.0), lower_bound=-1e3)
        largest, least = 0.0, np.inf
        for chosen in itertools.combinations(range(7), 4):
            block = np.isin(self.labels, chosen)
            values = np.linalg.eigvalsh(A[np.ix_(block, block)])
            largest, least = max(largest, values[-1]), min(least, values[0])
        assert g.L.value >= largest - 1e-12 and g.nu.value <= least + 1e-12
        assert g.k == 2 and "at s = 9 coordinates of the 4 largest groups" in repr(g)
        assert "k = 2, k̄ = 1, at most 2 groups" in repr(g) and "with at most one group" in g.promise

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("gamma", [None, S.NonNegative()])
    def test_what_is_promised_is_kept(self, seed, gamma):
        rng = np.random.default_rng(seed)
        A, b = quadratic(rng, 12, 0.3)
        root = np.linalg.cholesky(A).T
        y = np.linalg.solve(root.T, b)
        risk, k = ez.risks.LeastSquares(6**0.5 * root, 6**0.5 * y), Groups(6, self.labels)
        method = "IHT" if gamma is None else "IHT-2SP"
        g = ez.guarantee(risk, k, 1, gamma, method, epsilon=1e-3, radius=20.0)
        best = g.best
        assert best is not None and best.k_required <= 6
        res = ez.minimize(risk, k, gamma, method=ez.preset(method, step=best.step), max_iter=best.n_iter, tol=0)
        value = np.inf
        for group in range(7):
            index = np.flatnonzero(self.labels == group)
            X = root[:, index]
            w = np.linalg.lstsq(X, y, rcond=None)[0] if gamma is None else nnls(X, y)[0]
            value = min(value, 0.5 * np.sum((X @ w - y) ** 2))
        assert res.fun <= best.factor * value + 1e-3 + 1e-9

    def test_rows_count_features(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((60, 8)), rng.integers(0, 3, 60)
        risk = ez.risks.Multinomial(X, y, ridge=5.0)
        g = ez.guarantee(risk, Rows(8), 1, method="IHT", radius=1.0)
        assert g.k == 8 and "at s = 24 coordinates of the 16 largest features" in repr(g)
        assert ez.guarantee(risk, Rows(3), 1, method="HSG-HT", radius=1.0, B=1.0).n_gradients > 0

    def test_quotas_are_scaled(self):
        rng = np.random.default_rng(0)
        A, b = quadratic(rng, 12)
        risk, quotas = ez.risks.Quadratic(A, b), PerGroup(6, np.arange(12) // 4, 2)
        g = ez.guarantee(risk, quotas, 3, method="IHT", radius=1.0)
        assert "with at most 3 nonzeros and, in each group, 3/6 of its quota" in g.promise
        assert any("quotas that grow with k" in note for note in g.notes)

        def premise(*nonzeros):
            w = np.zeros(12)
            w[list(nonzeros)] = 1.0
            asked = ez.guarantee(risk, quotas, 3, method="IHT", reference=w)
            return next(p for p in asked.premises if p.name == "reference is a w̄")

        assert premise(0, 4, 8).holds and premise(1).holds and not premise(0, 1).holds
        assert "3 nonzeros and, in each group" in premise(0, 1).remedy

    def test_premises_speak_of_groups(self):
        rng = np.random.default_rng(1)
        A, b = quadratic(rng, 12)
        risk = ez.risks.Quadratic(A, b)
        whole = S.GroupWise(Diagonal(), self.labels)
        for sparsity, holds in ((Groups(2, self.labels), True), (2, False)):
            g = ez.guarantee(risk, sparsity, 1, whole, x0=np.ones(12))
            found = {p.name: p for p in g.premises}
            assert found["Γ preserves supports"].holds is holds and not found["w_0 k-sparse"].holds
        g = ez.guarantee(risk, Groups(2, self.labels), 1, whole, x0=np.ones(12))
        found = {p.name: p for p in g.premises}
        assert found["Γ preserves supports"].text == "groups of a member may be set to zero as a whole"
        assert found["w_0 k-sparse"].text == "7 groups" and found["w_0 k-sparse"].remedy == "at most 2 groups"
        assert "(out of reach, there are 7 groups)" in repr(ez.guarantee(risk, Groups(2, self.labels), 2, rho=0.1))

    def test_what_no_theorem_is_about(self):
        class Own(Sparsity):
            k = 2

            def with_k(self, k):
                return self

            def admits(self, support):
                return support.size <= 2 and not (np.diff(support) == 1).any()

        risk = ez.risks.Quadratic(np.eye(12), np.ones(12))
        with pytest.raises(ValueError, match="no theorem is known for Own"):
            ez.guarantee(risk, Own(), 1)
        with pytest.raises(ValueError, match="not stated for at most 2 groups; there are IHT and HSG-HT"):
            ez.guarantee(risk, Groups(2, self.labels), 1, method="HZO-HT-2SP")
        with pytest.raises(ValueError, match="k_bar must be at most k=2, got k_bar=3"):
            ez.guarantee(risk, Groups(2, self.labels), 3)
