"""max <z, w> - μ/2 ||w||² over members that use few groups, or few of each: all choices, each by a solver of its own."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import ellzero as ez
from common import labels_covering
from ellzero import sets as S
from ellzero.sparsity import Groups, PerGroup, Rows, Sparsity

seeds = st.integers(0, 2**32 - 1)
mus = st.one_of(st.just(0.0), st.just(1.0), st.floats(-5, 5).map(lambda e: 10.0**e))
D = 7


def with_multiplier(at, size, limit):
    """at(θ) for the θ >= 0 at which size(at(θ)) = limit, or at(0) if that is small enough; size falls with θ."""
    if size(at(0.0)) <= limit:
        return at(0.0)
    high = 1.0
    while size(at(high)) > limit:
        high *= 4
    return at(brentq(lambda t: size(at(t)) - limit, 0.0, high, xtol=1e-15, rtol=1e-15, maxiter=500))


def on_slice(gamma, z, index, mu):
    """The maximum over members that live on the index, from the definition of the set; -inf if there are none."""
    z = z[index]
    linear = mu == 0
    match gamma:
        case None | S.Everywhere():
            gain = np.where(z == 0, 0.0, np.inf) if linear else z**2 / (2 * mu)
            return float(gain.sum())
        case S.NonNegative():
            gain = np.where(z <= 0, 0.0, np.inf) if linear else np.maximum(z, 0) ** 2 / (2 * mu)
            return float(gain.sum())
        case S.Box():
            out = np.setdiff1d(np.arange(gamma.lower.size), index)
            if ((gamma.lower[out] > 0) | (gamma.upper[out] < 0)).any():
                return -np.inf
            low, high = gamma.lower[index], gamma.upper[index]
            if linear:
                return float(np.maximum(z * low, z * high).sum())
            w = np.clip(z / mu, low, high)
        case S.LinfBall():
            r = gamma.radius
            if linear:
                return float(r * np.abs(z).sum())
            w = np.clip(z / mu, -r, r)
        case S.L2Ball():
            size = np.linalg.norm(z)
            length = gamma.radius if linear else min(size / mu, gamma.radius)
            return float(size * length - 0.5 * mu * length**2)
        case S.L1Ball() | S.SubSimplex():
            a = np.abs(z) if isinstance(gamma, S.L1Ball) else np.maximum(z, 0.0)
            if linear:
                return float(gamma.radius * a.max(initial=0.0))
            w = with_multiplier(lambda t: np.maximum(a - t, 0) / mu, np.sum, gamma.radius)
            return float(a @ w - 0.5 * mu * w @ w)
        case S.Simplex():
            if not z.size:
                return -np.inf if gamma.total else 0.0
            if linear:
                return float(gamma.total * z.max())
            low = z.min() - mu * gamma.total - 1.0
            w = with_multiplier(lambda t: np.maximum(z - low - t, 0) / mu, np.sum, gamma.total)
        case S.LpBall():
            q = gamma.p / (gamma.p - 1)
            if linear:
                return float(gamma.radius * (np.abs(z) ** q).sum() ** (1 / q))
            w = gamma.project(z / mu)
        case S.Ellipsoid():
            assert linear
            return float(gamma.radius * np.linalg.norm(z * gamma.scales[index]))
        case S.WeightedL1Ball():
            assert linear
            return float(gamma.radius * np.abs(z / gamma.weights[index]).max(initial=0.0))
        case _:  # cut out of the whole by definition: outside the index everything is zero
            w = gamma.project(z / mu, index)
    return float(z @ w - 0.5 * mu * w @ w)


def on_support(gamma, z, index, mu):
    if not isinstance(gamma, S.GroupWise):
        return on_slice(gamma, z, index, mu)
    inside = np.isin(np.arange(z.size), index)
    covered = np.zeros(z.size, dtype=bool)
    parts = []
    for s, members in zip(gamma.sets, gamma._members, strict=True):
        covered[members] = True
        parts.append(on_slice(s, z[members], np.flatnonzero(inside[members]), mu))
    parts.append(on_slice(None, z, np.flatnonzero(inside & ~covered), mu))
    return -np.inf if -np.inf in parts else sum(parts)


def supports(sparsity, d, keep):
    """Every support that atoms, quotas and k allow, counted by hand."""
    atoms = np.arange(d) if sparsity.atoms is None else sparsity.atoms
    group, most = sparsity.quotas or (np.full(atoms.max() + 1, -1), [])
    kept = {a for a in atoms[keep].tolist() if a >= 0}
    for size in range(sparsity.k + 1):
        for chosen in itertools.combinations(range(atoms.max() + 1), size):
            counts = [sum(group[a] == g for a in chosen) for g in range(len(most))]
            if kept <= set(chosen) and all(c <= m for c, m in zip(counts, most, strict=True)):
                yield np.flatnonzero(np.isin(atoms, [-1, *chosen]))


def draw_sparsity(rng, d, single=False):
    labels = np.array(labels_covering(rng.integers(0, 3, d), 3), dtype=object)
    labels[(rng.random(d) < 0.2) & (np.arange(d) > 2)] = None
    if len({g for g in labels if g is not None}) == 0:
        labels[0] = 0
    k = int(rng.integers(0, 5))
    if single or rng.random() < 0.5:
        names = {g for g in labels if g is not None}
        at_most = int(rng.integers(0, 4)) if rng.random() < 0.5 else {g: int(rng.integers(0, 3)) for g in names}
        return PerGroup(k, labels, at_most).within(d), labels
    if rng.random() < 0.2 and d % 2 == 0:
        return Rows(k, n_outputs=2).within(d), np.tile(np.arange(d // 2), 2)
    return Groups(k, labels).within(d), labels


def draw_z(rng, d):
    return rng.standard_normal(d) if rng.random() < 0.6 else rng.choice([-2.0, -1, 0, 1, 1.5, 2], d)


def simple_sets(rng, d):
    r = float(rng.choice([0.0, rng.uniform(0.2, 2), rng.uniform(2, 20)], p=[0.1, 0.6, 0.3]))
    lower, upper, excluding = -rng.uniform(0, 2, d), rng.uniform(0, 2, d), rng.random(d) < 0.2
    return {
        "Everywhere": S.Everywhere(),
        "NonNegative": S.NonNegative(),
        "Box": S.Box(lower, upper),
        "Box excluding 0": S.Box(np.where(excluding, 0.2, lower), np.where(excluding, 0.5, upper)),
        "LinfBall": S.LinfBall(r),
        "L1Ball": S.L1Ball(r),
        "L2Ball": S.L2Ball(r),
        "LpBall 1.5": S.LpBall(1.5, r),
        "SubSimplex": S.SubSimplex(r),
        "Simplex": S.Simplex(r),
        "Ellipsoid": S.Ellipsoid(rng.uniform(0.5, 2, d), r),
        "WeightedL1Ball": S.WeightedL1Ball(rng.uniform(0.5, 2, d), r),
    }


ADDS_UP = ("Everywhere", "NonNegative", "Box", "Box excluding 0", "LinfBall", "L2Ball")
AT_ZERO_ALONE = ("Ellipsoid", "WeightedL1Ball")
NAMES = list(simple_sets(np.random.default_rng(0), D))


def require_maximum(gamma, z, sparsity, mu, keep=(), rtol=1e-9):
    keep = np.array(keep, dtype=np.intp)
    expected = max((on_support(gamma, z, s, mu) for s in supports(sparsity, z.size, keep)), default=-np.inf)
    if not sparsity.admits(keep):
        with pytest.raises(ValueError, match="keep names"):
            gamma.sparse_maximum(z, sparsity, mu, keep)
        return
    if expected == -np.inf:
        with pytest.raises(S.EmptySlice):
            gamma.sparse_maximum(z, sparsity, mu, keep)
        return
    value, w = gamma.sparse_maximum(z, sparsity, mu, keep)
    if expected == np.inf:
        assert (value, w) == (np.inf, None)
        return
    scale = abs(expected) + np.abs(z).max() * np.abs(w).max(initial=0.0) + 1e-300
    assert value == pytest.approx(expected, rel=rtol, abs=rtol * scale)
    assert value == pytest.approx(float(z @ w - 0.5 * mu * w @ w), rel=1e-9, abs=1e-12 * scale)
    assert sparsity.allows(w) and sparsity.admits(np.union1d(np.flatnonzero(w), keep).astype(np.intp))
    assert gamma.contains(w, 1e-11)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, mu=mus)
def test_one_set(name, seed, mu):
    rng = np.random.default_rng(seed)
    gamma, z = simple_sets(rng, D)[name], draw_z(rng, D)
    sparsity, _ = draw_sparsity(rng, D)
    keep = rng.choice(D, int(rng.integers(0, 2)), replace=False)
    known = name in ADDS_UP or mu == 0 or (sparsity.of_single and name not in AT_ZERO_ALONE)
    assert gamma.knows_maximum(sparsity, mu) == known
    if known:
        require_maximum(gamma, z, sparsity, mu, keep)
    else:
        assert gamma.sparse_maximum(z, sparsity, mu) is None


@pytest.mark.parametrize("name", NAMES[:-2])
@settings(max_examples=40, deadline=None)
@given(seed=seeds, mu=mus)
def test_groups_of_the_set_inside_atoms(name, seed, mu):
    rng = np.random.default_rng(seed)
    labels = np.array(labels_covering(rng.integers(0, 4, D), 4))
    sets = {g: simple_sets(rng, int((labels == g).sum()))[name] for g in range(4) if rng.random() < 0.9}
    gamma, coarse = S.GroupWise(sets, labels), np.array(["a", "b", "b", None], dtype=object)[labels]
    for sparsity in (Groups(int(rng.integers(0, 4)), labels), Groups(int(rng.integers(0, 3)), coarse)):
        sparsity = sparsity.within(D)
        assert gamma.knows_maximum(sparsity, mu)
        require_maximum(gamma, draw_z(rng, D), sparsity, mu, rng.choice(D, int(rng.integers(0, 2)), replace=False))


@pytest.mark.parametrize("name", NAMES[:-2])
@settings(max_examples=60, deadline=None)
@given(seed=seeds, mu=mus)
def test_quotas_that_nest_with_the_groups_of_the_set(name, seed, mu):
    rng = np.random.default_rng(seed)
    fine = np.array(labels_covering(rng.integers(0, 4, D), 4))
    coarse = np.array(["a", "b", "b", None], dtype=object)[fine]
    inner, outer = (fine, coarse) if rng.random() < 0.5 else (coarse, fine)  # groups of Γ, those of the quotas
    if rng.random() < 0.3:
        inner = outer = fine
    names = sorted({g for g in inner if g is not None})
    gamma = S.GroupWise({g: simple_sets(rng, int((inner == g).sum()))[name] for g in names}, inner)
    at_most = {g: int(rng.integers(0, 3)) for g in sorted({g for g in outer if g is not None})}
    sparsity = PerGroup(int(rng.integers(0, 6)), outer, at_most).within(D)
    assert gamma.knows_maximum(sparsity, mu)
    require_maximum(gamma, draw_z(rng, D), sparsity, mu, rng.choice(D, int(rng.integers(0, 3)), replace=False))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, mu=mus)
def test_sets_of_all_kinds_side_by_side(seed, mu):
    rng = np.random.default_rng(seed)
    labels = np.array(labels_covering(rng.integers(0, 3, D), 3))
    kinds = [str(rng.choice(NAMES[:-2])) for _ in range(3)]
    gamma = S.GroupWise({g: simple_sets(rng, int((labels == g).sum()))[kinds[g]] for g in range(3)}, labels)
    quotas = PerGroup(int(rng.integers(1, 6)), labels, int(rng.integers(1, 3))).within(D)
    require_maximum(gamma, draw_z(rng, D), quotas, mu)
    require_maximum(gamma, draw_z(rng, D), Groups(2, labels).within(D), mu)


def test_quotas_that_cross_groups_are_known_for_bounds_alone():
    labels, across = [0, 0, 1, 1], [0, 1, 0, 1]
    quotas = PerGroup(2, across, 1).within(4)
    assert S.GroupWise(S.LinfBall(1.0), labels).knows_maximum(quotas)
    assert not S.GroupWise(S.L1Ball(1.0), labels).knows_maximum(quotas)
    assert not S.GroupWise(S.L2Ball(1.0), labels).knows_maximum(Groups(1, across).within(4))
    require_maximum(S.GroupWise(S.LinfBall(1.0), labels), np.array([3.0, -2.0, 2.5, 1.0]), quotas, 1.0)


@pytest.mark.parametrize("power", [-150, 150])
@pytest.mark.parametrize("mu_power", [-100, 0, 100])
def test_extreme_scales(power, mu_power):
    """Scaling z by c, μ by m and Γ by c/m scales the maximum by c²/m; supports stay."""
    rng = np.random.default_rng(3)
    z, c, m = rng.standard_normal(6), 2.0**power, 2.0**mu_power
    labels = ["a", "a", "b", "b", "c", None]
    for make in (S.L2Ball, S.LinfBall, lambda r: S.GroupWise(S.L1Ball(r), labels), S.L1Ball):
        for sparsity in (Groups(1, labels), PerGroup(2, labels, 1)):
            if make is S.L1Ball and isinstance(sparsity, Groups):
                continue
            _, here = make(0.7).sparse_maximum(z, sparsity, 1.0)
            _, there = make(0.7 * c / m).sparse_maximum(c * z, sparsity, m)
            np.testing.assert_allclose(there / (c / m), here, rtol=1e-12)


def test_small_groups_are_told_apart_beside_large_ones():
    z = np.array([1e150, 1e-150, 2e-150, 0.0, 3e-150])
    for v in (z, z * 1e150, z * 1e-155):
        chosen = ez.hard_threshold(v, Groups(2, ["a", "b", "b", "c", "c"]))
        np.testing.assert_array_equal(np.flatnonzero(chosen), [0, 4])


class TestProducts:
    """Any set is known where it is a product over the atoms: the projection onto all of it tells all."""

    def test_intersections_packings_and_portfolios(self):
        labels = np.array([0, 0, 0, 1, 1, 2])
        A = np.array([[1.0, 2.0, 0, 0, 0, 0], [0, 1.0, 1.0, 0, 0, 0], [0, 0, 0, 1.0, 3.0, 0]])
        sets = [
            S.Intersection(S.GroupWise(S.L2Ball(1.0), labels), S.Box(-0.3, 0.8)),
            S.GroupWise(S.Intersection(S.L1Ball(1.0), S.LinfBall(0.6)), labels),
            S.GroupWise({0: S.Intersection(S.Simplex(1.0), S.Box(np.full(3, 0.1), 0.8))}, labels),
            S.PackingPolytope(A, [1.0, 0.7, 2.0]),
            S.Portfolio(None, -0.5, 0.7, labels, 0.9),
        ]
        rng = np.random.default_rng(0)
        for gamma, k in itertools.product(sets, (1, 2)):
            sparsity = Groups(k, labels)
            assert gamma.knows_maximum(sparsity) and not gamma.knows_maximum(sparsity, 0.0)
            assert not gamma.knows_maximum(Groups(k, [0, 1, 2, 0, 1, 2]))
            for _ in range(10):
                v = 2 * rng.standard_normal(6)
                w = ez.euclidean_projection(v, sparsity, gamma)
                best = np.inf
                for chosen in itertools.combinations(range(3), k):
                    index = np.flatnonzero(np.isin(labels, chosen))
                    try:
                        u = gamma.project(v[index], index)
                    except S.EmptySlice:
                        continue
                    best = min(best, v @ v - v[index] @ v[index] + np.sum((u - v[index]) ** 2))
                assert np.sum((w - v) ** 2) == pytest.approx(best, rel=1e-9)
                assert gamma.contains(w, 1e-9) and sparsity.allows(w)

    def test_a_group_without_zero_has_to_be_used(self):
        gamma = S.GroupWise({"a": S.Simplex(1.0), "b": S.L1Ball(1.0)}, ["a", "a", "b", "b"])
        w = ez.euclidean_projection(np.array([-1.0, -2.0, 5.0, 5.0]), Groups(1, ["a", "a", "b", "b"]), gamma)
        np.testing.assert_allclose(w, [1.0, 0.0, 0.0, 0.0])
        both = S.GroupWise(S.Simplex(1.0), ["a", "a", "b", "b"])
        with pytest.raises(S.EmptySlice, match="no member with at most 1 group: it needs at least 2"):
            both.sparse_maximum(np.ones(4), Groups(1, ["a", "a", "b", "b"]), 1.0)
        with pytest.raises(S.EmptySlice, match="quotas"):
            both.sparse_maximum(np.ones(4), PerGroup(3, ["a", "a", "b", "b"], {"a": 0}), 1.0)


class TestStrangers:
    def test_another_projection_is_another_set(self):
        class Shifted(S.L2Ball):
            def project(self, v, support=None):
                return super().project(v, support)

        class OwnMaximum(S.L2Ball):
            def sparse_maximum(self, z, k, mu, keep=None):
                return super().sparse_maximum(z, k, mu, keep)

        class Mine(S.ConstraintSet):
            separable = True

            def project(self, v, support=None):
                return np.clip(v, -1.0, 2.0)

        groups = Groups(1, [0, 0, 1])
        assert not Shifted(1.0).knows_maximum(groups) and Shifted(1.0).sparse_maximum(np.ones(3), groups, 1.0) is None
        assert OwnMaximum(1.0).knows_maximum(ez.sparsity.Coordinates(1)) and not OwnMaximum(1.0).knows_maximum(groups)
        value, w = Mine().sparse_maximum(np.array([3.0, -1.0, 4.0]), groups, 1.0)
        assert value == 6.0 and w.tolist() == [0.0, 0.0, 2.0]
        assert not Mine().has_sparse_maximum()

    def test_a_sparsity_that_admits_in_its_own_way_is_not_one_of_atoms(self):
        class Odd(Groups):
            def admits(self, support):
                return super().admits(support) and support.size % 2 == 0

        assert not Odd(1, [0, 0, 1]).by_atoms and not S.L2Ball(1.0).knows_maximum(Odd(1, [0, 0, 1]))
        assert not S.NonNegative().knows_maximum(Odd(1, [0, 0, 1]))
        assert Sparsity.by_atoms.fget(Groups(1, [0, 0, 1]))


class TestPreservation:
    """Γ preserves atoms exactly if zeroing any of them keeps members inside: all choices are tried."""

    def draw(self, rng):
        labels = np.array([0, 0, 1, 1, 2, 2])
        tilted = S.Intersection(S.L2Ball(1.0), S.Box(np.array([-1.0, 0.0]), 0.5))
        off = S.Box(np.array([0.2, -1.0]), 1.0)
        choices = [tilted, S.L1Ball(1.0), S.Simplex(1.0), S.SubSimplex(1.0), off, Ring()]
        return S.GroupWise({g: choices[int(rng.integers(len(choices)))] for g in range(3)}, labels), labels

    @pytest.mark.parametrize("seed", range(40))
    def test_against_all_choices(self, seed):
        rng = np.random.default_rng(seed)
        gamma, labels = self.draw(rng)
        if seed % 4 == 0:
            gamma = S.Intersection(gamma, S.Box(-0.9, 0.9))
        for atoms in (
            labels,
            np.array([0, 0, 0, 0, 1, 1]),
            np.array([-1, -1, 0, 0, 1, 1]),
            np.array([0, 1, 0, 1, 2, 2]),
        ):
            holds = True
            members = [gamma.project(3 * rng.standard_normal(6)) for _ in range(20)]
            for z, a in itertools.product(members, range(atoms.max() + 1)):
                holds &= gamma.contains(np.where(atoms == a, 0.0, z), 1e-8)
            said = (
                Groups(1, {a: np.flatnonzero(atoms == a) for a in range(atoms.max() + 1)}).within(6).preserved_by(gamma)
            )
            assert said <= holds  # never said where it does not hold
            if (atoms == labels).all():
                assert said == holds

    def test_two_step_keeps_groups_where_single_coordinates_are_not_kept(self):
        gamma, labels = S.GroupWise(Ring(), [0, 0, 1, 1]), [0, 0, 1, 1]
        v = np.array([3.0, 0.1, -1.0, 0.4])
        w = ez.two_step_projection(v, Groups(1, labels), gamma)
        assert gamma.contains(w) and w[:2].any() and not w[2:].any()
        np.testing.assert_allclose(gamma.project(np.array([3.0, 0.1, 0.0, 0.0])), w, atol=1e-15)
        with pytest.raises(ValueError, match="needs a support-preserving set"):
            ez.two_step_projection(v, 1, gamma)


class Ring(S.ConstraintSet):
    """{(t, t) : t real}: holds zero, and is not closed under zeroing single coordinates."""

    def project(self, v, support=None):
        if support is not None and v.size == 1:
            return np.zeros(1)
        return np.full_like(v, v.mean()) if v.size else v


def test_bounds_that_exclude_zero_hold_where_nothing_bounds_the_others():
    gamma = S.GroupWise({0: S.Box(np.array([0.1, -1.0]), 1.0)}, [0, 0, None, None])
    for sparsity in (Groups(1, [0, 0, 1, 1]), PerGroup(2, [0, 0, 1, 1], 1)):
        assert gamma.sparse_maximum(np.array([0.0, 0.0, 1.0, 0.0]), sparsity.with_k(2), 0.0) == (np.inf, None)
        value, w = gamma.sparse_maximum(np.array([0.0, 0.0, 1.0, 0.0]), sparsity.with_k(1), 0.0)
        assert value == 0.0 and gamma.contains(w) and w[0] > 0
