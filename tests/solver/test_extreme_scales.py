"""Projections of vectors and onto sets of any size that doubles can hold, judged in exact and in eighty-digit arithmetic."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import ellzero as ez
from ellzero import sets

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).maxexp <= np.finfo(float).maxexp, reason="long doubles are no wider than doubles here"
)

D = 5
SCALES = [1.0, 1e8, 1e-8, 1e150, 1e-150, 1e200, 1e-200, 1e300, 1e-300, 1e308, 1e-310, 5e-324]


class Draw:
    """Numbers of all sizes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def number(self):
        return float(np.clip(self.rng.uniform(0.5, 1.5) * self.rng.choice(SCALES), 5e-324, 1.7e308))

    def positive(self, n=D):
        if self.rng.random() < 0.5:
            return np.array([self.number() for _ in range(n)])
        return np.clip(self.rng.uniform(0.5, 1.5, n) * self.rng.choice(SCALES), 5e-324, 1.7e308)

    def vector(self):
        sizes = self.rng.choice(SCALES, D) if self.rng.random() < 0.5 else self.rng.choice(SCALES)
        with np.errstate(over="ignore"):
            return np.clip(self.rng.standard_normal(D) * sizes, -1.7e308, 1.7e308)


def capped(a, c, bound):
    """argmin ||w - a|| over w >= 0, Σ c_i w_i <= bound, for a >= 0, in rational arithmetic: all thresholds are tried."""
    a, c, bound = [Fraction(x) for x in a], [Fraction(x) for x in c], Fraction(bound)
    if sum(x * y for x, y in zip(a, c, strict=True)) <= bound:
        return a
    order = sorted(range(D), key=lambda i: -a[i] / c[i])
    best = max(
        (sum(a[i] * c[i] for i in order[:j]) - bound) / sum(c[i] ** 2 for i in order[:j]) for j in range(1, D + 1)
    )
    return [max(a[i] - best * c[i], Fraction(0)) for i in range(D)]


def inside_ellipsoid(a, c, bound):
    """argmin ||w - a|| over Σ (c_i w_i)² <= bound²: bisection on the logarithm of the multiplier, in decimals."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 80, 10**6, -(10**6)
        a, bound = [Decimal(x) for x in a], Decimal(bound) ** 2
        squares = [Decimal(x.numerator) ** 2 / Decimal(x.denominator) ** 2 for x in c]
        if sum(x * x * y for x, y in zip(a, squares, strict=True)) <= bound:
            return a
        low, high = Decimal("1e-2500"), Decimal("1e2500")
        for _ in range(120):
            middle = (low * high).sqrt()
            spent = sum((x / (1 + middle * y)) ** 2 * y for x, y in zip(a, squares, strict=True))
            low, high = (middle, high) if spent > bound else (low, middle)
        return [x / (1 + high * y) for x, y in zip(a, squares, strict=True)]


def referee(gamma, v):
    signs, a, ones = np.sign(v), np.abs(v).tolist(), [Fraction(1)] * D
    match gamma:
        case sets.L1Ball():
            w = capped(a, ones, gamma.radius)
        case sets.SubSimplex():
            w = capped(np.maximum(v, 0.0).tolist(), ones, gamma.radius)
        case sets.WeightedL1Ball():
            w = capped(a, gamma.weights.tolist(), gamma.radius)
        case sets.Simplex() | sets.Portfolio():
            top = v.max()  # adding a number to all entries changes nothing
            exact = [Fraction(x) - Fraction(top) for x in v.tolist()]
            total = Fraction(gamma.total if isinstance(gamma, sets.Simplex) else gamma.most)
            order = sorted(exact, reverse=True)
            theta = max((sum(order[:j]) - total) / j for j in range(1, D + 1))
            w, signs = [max(x - theta, Fraction(0)) for x in exact], np.ones(D)
        case sets.L2Ball():
            w = inside_ellipsoid(a, ones, gamma.radius)
        case sets.Ellipsoid():
            w = inside_ellipsoid(a, [1 / Fraction(x) for x in gamma.scales.tolist()], gamma.radius)
    return np.array([float(x) for x in w]) * signs


REFEREED = {
    "L1Ball": lambda draw: sets.L1Ball(draw.number()),
    "SubSimplex": lambda draw: sets.SubSimplex(draw.number()),
    "Simplex": lambda draw: sets.Simplex(draw.number()),
    "Portfolio": lambda draw: sets.Portfolio(draw.number()),
    "L2Ball": lambda draw: sets.L2Ball(draw.number()),
    "WeightedL1Ball": lambda draw: sets.WeightedL1Ball(draw.positive(), draw.number()),
    "Ellipsoid": lambda draw: sets.Ellipsoid(draw.positive(), draw.number()),
}


@pytest.mark.parametrize("name", REFEREED)
def test_projections_are_right_at_every_scale(name):
    draw = Draw(0)
    for _ in range(40):
        gamma, v = REFEREED[name](draw), draw.vector()
        expected = referee(gamma, v)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            w = gamma.project(v)
        assert np.isfinite(w).all(), (gamma, v)
        assert gamma.violation(w) <= 1e-12, (gamma, v)
        np.testing.assert_allclose(w, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max() + 1e-320)


OTHERS = {
    "Box": lambda draw: sets.Box(-draw.positive(), draw.positive()),
    "NonNegative": lambda draw: sets.NonNegative(),
    "LinfBall": lambda draw: sets.LinfBall(draw.number()),
    "LpBall 1.5": lambda draw: sets.LpBall(1.5, draw.number()),
    "LpBall 4": lambda draw: sets.LpBall(4, draw.number()),
    "LpBall 1.01": lambda draw: sets.LpBall(1.01, draw.number()),
    "PackingPolytope": lambda draw: sets.PackingPolytope(
        draw.rng.uniform(0, 1, (2, D)) * min(draw.number(), 1e307), draw.positive(2)
    ),
    "Portfolio, caps": lambda draw: sets.Portfolio(
        (0, draw.number()), upper=draw.number(), groups=[0, 0, 1, 1, 1], caps=draw.number()
    ),
    "GroupWise": lambda draw: sets.GroupWise(
        {0: sets.L1Ball(draw.number()), 1: sets.Ellipsoid(draw.positive(3), draw.number())}, [0, 0, 1, 1, 1]
    ),
    "GroupWise, exact": lambda draw: sets.GroupWise(
        {0: sets.Simplex(draw.number()), 1: sets.WeightedL1Ball(draw.positive(3), draw.number())}, [0, 0, 1, 1, 1]
    ),
}


@pytest.mark.parametrize("name", {**REFEREED, **OTHERS})
def test_members_come_out_of_every_projection_without_a_warning(name):
    draw, make = Draw(1), {**REFEREED, **OTHERS}[name]
    for _ in range(60):
        gamma, v = make(draw), draw.vector()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            w = gamma.project(v)
            assert np.isfinite(w).all(), (gamma, v)
            assert gamma.violation(w) <= 1e-12, (gamma, v)
            assert gamma.violation(v) >= 0
            assert np.abs(gamma.project(w) - w).max() <= 1e-11 * np.abs(w).max(), (gamma, v)
            for mu in (0.0, 1.0, 1e-150, 1e150):
                if not gamma.has_sparse_maximum(mu):
                    continue
                value, w = gamma.sparse_maximum(v, 2, mu)
                assert not np.isnan(value), (gamma, v, mu)
                assert w is None or gamma.violation(w) <= 1e-12, (gamma, v, mu)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-500, 2.0**500, 2.0**1000])
@pytest.mark.parametrize(
    "make",
    [
        lambda c: sets.LpBall(1.5, c),
        lambda c: sets.LpBall(4, c),
        lambda c: sets.Simplex(c),
        lambda c: sets.PackingPolytope([[1.0, 2, 0, 1, 0], [0, 1, 1, 3, 1]], [c, 2 * c]),
        lambda c: sets.Portfolio(c, upper=0.4 * c, groups=[0, 0, 0, 1, 1], caps=0.7 * c),
    ],
)
def test_a_set_and_a_vector_in_other_units_have_the_projection_in_these_units(make, scale):
    rng = np.random.default_rng(2)
    for _ in range(5):
        v = rng.standard_normal(D)
        np.testing.assert_allclose(make(scale).project(scale * v) / scale, make(1.0).project(v), rtol=1e-9, atol=1e-12)


def test_tiny_budgets_are_solved():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, D))
    y = X[:, 0] - X[:, 2]
    for gamma in (sets.Simplex(1e-300), sets.SubSimplex(1e-300), sets.L1Ball(1e-300)):
        result = ez.minimize(ez.risks.LeastSquares(X, y), 2, gamma)
        assert result.violation <= 1e-12
        assert np.abs(result.x).sum() == pytest.approx(1e-300)
    far = ez.sets.Ellipsoid(np.arange(1, 6.0), 1.0).project(np.array([1e200, 1, 1, 1, 1]))
    assert far == pytest.approx([1.0, 0, 0, 0, 0])


def test_torch_beyond_single_precision():
    torch = pytest.importorskip("torch")
    v = torch.tensor([1e25, 1.0, -2e25], dtype=torch.float32)
    for gamma in (sets.L2Ball(1.0), sets.L1Ball(1.0), sets.Ellipsoid([1.0, 2.0, 3.0], 1.0), sets.LpBall(3, 1.0)):
        w = gamma.project(v)
        assert torch.isfinite(w).all()
        assert gamma.violation(w) <= 4e-6


@pytest.mark.filterwarnings("ignore")
def test_steps_down_from_the_end_of_the_numbers():
    """What the model of an exponential is wrong by has a square that no number holds."""
    rng = np.random.default_rng(3)
    X, y = 400 * rng.standard_normal((12, 3)), rng.gamma(1, 1, 12)
    res = ez.minimize(ez.risks.Gamma(X, y), 3, ez.sets.Simplex(1.0))
    assert np.isfinite(res.fun) and res.violation <= 1e-12
