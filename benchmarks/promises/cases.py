"""Small random problems, each from one integer; answers to them, and what the library promises of these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .referee import Objective, Region, best, supports_of

RISKS = ("LeastSquares", "Quadratic", "Logistic")
SETS = (
    "Everywhere", "NonNegative", "Box", "LinfBall", "L1Ball", "WeightedL1Ball", "L2Ball", "SubSimplex", "Simplex",
    "PackingPolytope", "group l1", "group l2", "group boxes", "group simplices",
)  # fmt: skip
#: mostly points that are the best on a support of no merit: of "auto" hardly anything wrong can be said
METHODS = ("good support", "good support", "good support", "random support", "auto", "IHT-2SP", "PGD", "few steps")


@dataclass
class Case:
    """A problem, for the library and for the referee."""

    seed: int
    kind: tuple[str, str, str]  # risk, set, method
    risk: object
    gamma: object
    k: int
    keep: tuple[int, ...]
    objective: Objective
    region: Region


def case(seed: int, largest: int = 10) -> Case:
    """The problem that belongs to an integer."""
    rng = np.random.default_rng([2218, seed])
    d = int(rng.integers(4, largest + 1))
    kind = RISKS[seed % 3], str(rng.choice(SETS)), str(rng.choice(METHODS))
    k = int(rng.integers(1, d + 1))
    if kind[1] == "PackingPolytope" and d > 7:
        d, k = 7, min(k, 7)
    risk, objective = _risk(rng, kind[0], d)
    gamma, region = _gamma(rng, kind[1], d)
    room = min(2, k - 1) if rng.random() < 0.3 else 0
    keep = tuple(sorted(rng.choice(d, room, replace=False).tolist())) if room > 0 else ()
    return Case(seed, kind, risk, gamma, k, keep, objective, region)


def _risk(rng: np.random.Generator, name: str, d: int) -> tuple[object, Objective]:
    import ellzero as ez

    n = int(rng.integers(d + 2, 4 * d))
    mix = np.eye(d) + rng.uniform(0, 1.0) * rng.standard_normal((d, d)) / np.sqrt(d)
    X = rng.standard_normal((n, d)) @ mix
    truth = rng.standard_normal(d) * (rng.random(d) < rng.uniform(0.2, 1.0)) * np.exp(rng.normal(0, 0.7, d))
    z = X @ truth + rng.uniform(0.1, 2.0) * rng.standard_normal(n)
    ridge = float(rng.choice([0.0, 0.1, 0.5, 2.0]))
    if name == "LeastSquares":
        Q = 2 * X.T @ X / n + ridge * np.eye(d)
        return ez.risks.LeastSquares(X, z, ridge=ridge), Objective(Q, 2 * X.T @ z / n, float(z @ z) / n)
    if name == "Quadratic":
        Q = X.T @ X / n + ridge * np.eye(d)
        Q, b = 0.5 * (Q + Q.T), X.T @ z / n
        return ez.risks.Quadratic(Q, b), Objective(Q, b)
    ridge = max(ridge, 0.05)
    y = np.where(z > 0, 1.0, -1.0)
    y[0], y[1] = 1.0, -1.0
    return ez.risks.Logistic(X, y, ridge=ridge), Objective(X=X, y=y, ridge=ridge)


def _gamma(rng: np.random.Generator, name: str, d: int) -> tuple[object, Region]:
    from ellzero import sets as S

    r = float(10 ** rng.uniform(-1.0, 0.8))
    free, ones = (np.full(d, -np.inf), np.full(d, np.inf)), np.ones(d)
    positive = (np.zeros(d), np.full(d, np.inf))
    labels = np.arange(d) * 2 // d if rng.random() < 0.5 else rng.integers(0, 3, d)
    labels = np.unique(labels, return_inverse=True)[1]
    radii = r * rng.uniform(0.3, 1.5, labels.max() + 1)
    masks = [labels == g for g in range(labels.max() + 1)]
    if name == "Everywhere":
        return None, Region(*free)
    if name == "NonNegative":
        return S.NonNegative(), Region(*positive)
    if name in ("Box", "group boxes"):
        low, high = (r * rng.uniform(0, 2, d) * (rng.random(d) < 0.85) for _ in "lu")
        if name == "Box":
            return S.Box(-low, high), Region(-low, high)
        boxed = masks[0]
        inner = {0: S.Box(-low[boxed], high[boxed]), 1: S.L1Ball(r)}
        region = Region(np.where(boxed, -low, -np.inf), np.where(boxed, high, np.inf))
        region.caps = [((~boxed).astype(float), r, False)]
        names = (~boxed).astype(int).tolist()
        return S.GroupWise({g: inner[g] for g in set(names)}, names), region
    if name == "LinfBall":
        return S.LinfBall(r), Region(-r * ones, r * ones)
    if name == "L1Ball":
        return S.L1Ball(r), Region(*free, caps=[(ones, r, False)])
    if name == "WeightedL1Ball":
        a = rng.uniform(0.3, 2, d)
        return S.WeightedL1Ball(a, r), Region(*free, caps=[(a, r, False)])
    if name == "L2Ball":
        return S.L2Ball(r), Region(*free, balls=[(ones > 0, r)])
    if name in ("SubSimplex", "Simplex"):
        return getattr(S, name)(r), Region(*positive, caps=[(ones, r, name == "Simplex")])
    if name == "PackingPolytope":
        A = rng.uniform(0.1, 1, (2, d)) * (rng.random((2, d)) < 0.7)
        b = r * rng.uniform(0.3, 1, 2)
        return S.PackingPolytope(A, b), Region(*positive, caps=[(a, h, False) for a, h in zip(A, b, strict=True)])
    caps = list(zip(masks, radii.tolist(), strict=True))
    inner = {g: (S.L2Ball if name == "group l2" else S.L1Ball)(radius) for g, (_, radius) in enumerate(caps)}
    if name == "group simplices":
        inner = {g: (S.SubSimplex if g else S.Simplex)(radius) for g, (_, radius) in enumerate(caps)}
        region = Region(*positive, caps=[(m.astype(float), h, not g) for g, (m, h) in enumerate(caps)])
    elif name == "group l2":
        region = Region(*free, balls=caps)
    else:
        region = Region(*free, caps=[(m.astype(float), h, False) for m, h in caps])
    return S.GroupWise(inner, labels.tolist()), region


def answered(problem: Case):
    """The library's answer by the method of the case; None where there is no feasible one, or the method has none."""
    import warnings

    import ellzero as ez

    method, options = problem.kind[2], {}
    if method == "few steps":
        method, options = "PGD", {"max_iter": 3}
    if method.endswith("support"):
        if (x := on_a_support(problem)) is None:
            return None
        method, options = ez.Method(step=1.0, standardize=False, name=method), {"x0": x, "max_iter": 0}
    gamma = problem.gamma
    if method == "IHT-2SP" and gamma is not None and not gamma.closed_under_zeroing:
        method = "auto"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ez.minimize(problem.risk, problem.k, gamma, method, keep=list(problem.keep) or None, **options)
    except ez.sets.EmptySlice:
        return None
    except ValueError:
        return None


def on_a_support(problem: Case) -> np.ndarray | None:
    """The best point, by the referee, on a support that is drawn: any, or with steps from the best one's."""
    rng, d = np.random.default_rng([2219, problem.seed]), problem.region.lower.size
    every = supports_of(d, problem.k, problem.keep)
    if problem.kind[2] == "random support":
        support = every[int(rng.integers(len(every)))]
    else:  # the larger the entries without k, the more often
        whole = best(problem.objective, problem.region, [tuple(range(d))], points=True)[1][0]
        score = np.log(np.abs(np.nan_to_num(whole)) + 1e-3) + rng.gumbel(0, rng.uniform(0.1, 1.0), d)
        score[list(problem.keep)] = np.inf
        support = tuple(sorted(np.argsort(-score)[: problem.k].tolist()))
    value, points = best(problem.objective, problem.region, [support], steps=3000, points=True)
    return points[0] if np.isfinite(value[0]) else None


def refuted(problem: Case, result, promise, above: float = 0.0) -> float:
    """By how much, relative to R, a member with k̄ nonzeros is better than promised; 0 or less where none is."""
    x = np.asarray(result.x, float)[None, :]
    value = float(problem.objective.values(x)[0])
    scale = max(abs(value), abs(float(problem.objective.values(0 * x)[0]) - value), 1e-300)
    supports = supports_of(x.size, promise.k_bar + int(above), problem.keep)
    found = float(best(problem.objective, problem.region, supports).min())
    return (value - promise.error - found) / scale
