"""Small random problems with structure: what the referee is asked, and the same for ellzero."""

from typing import NamedTuple

import numpy as np

import ellzero as ez
from ellzero import sets
from ellzero.sparsity import Groups, PerGroup, Rows

from .referee import Question, Region, group_supports, quota_supports

FAMILIES = ("groups", "groups, logistic", "quotas", "quotas, logistic", "rows, classes", "rows, targets")
#: of a hundred cases
SHARES = (45, 8, 30, 8, 3, 6)
REGIONS = ("Everywhere", "NonNegative", "Box", "L2Ball", "L1Ball", "GroupWise")


def knows_targets():
    """Whether least squares take several targets."""
    try:
        ez.risks.LeastSquares(np.eye(2), np.eye(2))
    except ValueError:
        return False
    return True


def make(number, family=None):
    """The question of this number, its family, and the risk, sparsity and Γ of ellzero."""
    rng = np.random.default_rng([number, 2026])
    drawn = str(rng.choice(FAMILIES, p=np.array(SHARES) / sum(SHARES)))
    if drawn == "rows, targets" and not knows_targets():
        drawn = "rows, classes"
    family = drawn if family is None else family
    kind = {"logistic": "logistic", "classes": "multinomial", "targets": "targets"}.get(
        family.rpartition(", ")[2], "least squares"
    )
    outputs = {"multinomial": 3, "targets": int(rng.integers(2, 4))}.get(kind, 1)
    small = kind != "least squares"
    group, sparsity, supports, admits = structure(family.partition(",")[0], rng, small, outputs)
    X, y = data(kind, rng, group, outputs)
    region = _region(rng, outputs * len(group), np.tile(group, outputs), X, y, kind)
    ridge = (
        float(rng.choice([0.0, 1e-3, 0.1])) if kind in ("least squares", "targets") else float(rng.choice([0.01, 0.1]))
    )
    question = Question(kind, X, y, ridge, bool(rng.integers(2)), region, supports, admits)
    return family, question, sparsity


def structure(what, rng, small, outputs):
    """The group of each feature (-1: none), the sparsity, its supports and its rule."""
    if what == "groups":
        sizes = rng.integers(1, 4, int(rng.integers(6, 10 if small else 13)))
        group = np.concatenate([np.repeat(np.arange(sizes.size), sizes), np.full(rng.integers(0, 3), -1)])
        group = rng.permutation(group) if rng.integers(2) else group
        k = int(rng.integers(2, 4 if small else 6))
        labels = [None if g < 0 else f"g{g}" for g in group.tolist()]
        return group, Groups(k, labels), *group_supports(group, k)
    p = int(rng.integers(7, 10 if small else 14))
    k = int(rng.integers(2, 4 if small else 6))
    if what == "rows":
        return np.arange(p) % 3, Rows(k), *quota_supports(np.full(p, -1), k, {}, outputs)
    group = rng.integers(-1, int(rng.integers(2, 5)), p)
    group[:2] = 0, 1
    names = [int(g) for g in np.unique(group) if g >= 0]
    labels = [None if g < 0 else g for g in group.tolist()]
    if rng.integers(2):
        most = int(rng.integers(1, 3))
        limits, at_most = dict.fromkeys(names, most), most
    else:
        limits = {g: int(rng.integers(0, 3)) for g in names if rng.random() < 0.8}
        at_most = limits
    return group, PerGroup(k, labels, at_most), *quota_supports(group, k, limits)


def data(kind, rng, group, outputs):
    """Columns correlated with the next one, groups that are right or not, and what they explain."""
    p, n = len(group), int(rng.integers(25, 70))
    X, rho = rng.standard_normal((n, p)), float(rng.choice([0.0, 0.3, 0.6, 0.9]))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    X = X[:, rng.permutation(p)] * (10 ** rng.uniform(-1, 1, p) if rng.random() < 0.2 else 1.0)
    W = rng.standard_normal((p, outputs)) * (rng.random(p) < rng.uniform(0.3, 0.8))[:, None] / X.std(0)[:, None]
    Z = X @ W
    Z = Z + rng.standard_normal(Z.shape) * max(Z.std(), 0.1) / np.sqrt(rng.choice([0.5, 2.0, 10.0]))
    if kind == "logistic":
        return X, np.where(Z[:, 0] > np.median(Z), 1.0, -1.0)
    if kind == "multinomial":
        return X, np.append([0, 1, 2], Z.argmax(axis=1)[3:])
    return X, Z if kind == "targets" else Z[:, 0]


def _region(rng, d, blocks, X, y, kind):
    name, free = str(rng.choice(REGIONS, p=[0.4, 0.12, 0.12, 0.12, 0.12, 0.12])), np.full(d, np.inf)
    size = np.std(y) if kind in ("least squares", "targets") else 1.0
    r = float(size / np.median(X.std(0)) * 10 ** rng.uniform(-0.7, 0.5))
    if name == "NonNegative":
        return Region(name, np.zeros(d), free)
    if name == "Box":
        return Region(name, -r * rng.uniform(0, 1, d), r * rng.uniform(0, 1, d))
    return Region(name, -free, free, r, blocks + 1 if name == "GroupWise" else None)


def asked_of_ellzero(question):
    """The risk and Γ."""
    q, region = question, question.region
    words = {"ridge": q.ridge, "fit_intercept": q.intercept}
    risks = {"logistic": ez.risks.Logistic, "multinomial": ez.risks.Multinomial}
    risk = risks.get(q.kind, ez.risks.LeastSquares)(q.X, q.y, **words)
    gamma = {
        "Everywhere": lambda: None,
        "NonNegative": sets.NonNegative,
        "Box": lambda: sets.Box(region.low, region.high),
        "L2Ball": lambda: sets.L2Ball(region.cap),
        "L1Ball": lambda: sets.L1Ball(region.cap),
        "GroupWise": lambda: sets.GroupWise(sets.L1Ball(region.cap), region.blocks.tolist()),
    }[region.name]()
    return risk, gamma


class Verdict(NamedTuple):
    """How far above the least value an answer is, relative to it, and what else is wrong with it."""

    family: str
    region: str
    above: float
    wrong: str


def judge(number, family=None):
    """The answer of "auto" to this case, beside every support."""
    family, question, sparsity = make(number, family)
    risk, gamma = asked_of_ellzero(question)
    result = ez.minimize(risk, sparsity, gamma)
    mine, size = question.value(np.asarray(result.x)), np.abs(result.x).max(initial=0.0)
    wrong = [
        "support" * (not question.admits(np.flatnonzero(result.x))),
        "outside" * (not question.region.violation(result.x) <= 1e-9 * (1 + size)),
        "value" * (not abs(mine - result.fun) <= 1e-6 * abs(mine) + 1e-12),
    ]
    least = max(abs(mine), 1e-6 * question.value(np.zeros(result.x.size)))
    return Verdict(family, question.region.name, (mine - question.least(mine)) / least, " ".join(filter(None, wrong)))
