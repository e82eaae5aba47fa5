"""Small problems for `ellzero.minimize`, paths and certificates, and what is recorded of their answers.

A problem is a function without arguments that returns its answers by name; an answer is a dictionary that JSON can hold.
Only what users can import is used, so that the library may be taken apart and put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import ellzero as ez

Answer = dict[str, Any]
Answers = dict[str, Answer]
COUNTS = ("n_gradients", "n_values", "n_thresholds", "n_monitor", "nit")


class Problem(NamedTuple):
    """What to run, and how far its answer may be from the recorded one, as rounding differs from machine to machine."""

    run: Callable[[], Answers]
    above: float = 1e-9  # the objective, relative
    needs: tuple[str, ...] = ()  # optional packages


# ---- what is recorded ----


def number(value: Any) -> float:
    """Twelve digits, of which the comparisons use nine."""
    return float(f"{float(value):.12g}")


def of_result(res: ez.Result, at_zero: float | None = None) -> Answer:
    """The answer of a run. Objectives are compared relative to the scale max(|R|, |R(0) - R|)."""
    scale = max(abs(res.fun), 0.0 if at_zero is None or not np.isfinite(at_zero) else abs(at_zero - res.fun))
    return {
        "support": res.support.tolist(),
        "status": res.status.name,
        "projection": res.projection,
        "objective": number(res.fun),
        "scale": number(scale),
        "counts": [int(getattr(res, name)) for name in COUNTS],
    }


def of_certificate(proof: ez.Certificate) -> Answer:
    return {
        "status": proof.status.name,
        "lower_bound": number(proof.lower_bound),
        "relative_gap": number(proof.relative_gap),
        "proved": [proof.proved_in.size, proof.proved_out.size],
        "nodes": proof.nodes,
    }


def solve(make: Callable[[], Any], k: int, gamma: Any = None, method: Any = "auto", **options: Any) -> Answers:
    """One run; its certificate, too, if it has one."""
    risk = make()
    res = ez.minimize(risk, k, gamma, method, **options)
    at_zero = None if isinstance(risk, ez.risks.BlackBox) else risk.value(np.zeros(risk.n_features))
    found = {"answer": of_result(res, at_zero)}
    return found if res.certificate is None else {**found, "certificate": of_certificate(res.certificate)}


def solve_with_copies(make: Callable[[], Any], k: int) -> Answers:
    """One run whose support names columns by the first ones that they are copies of; without counts."""
    answer = solve(make, k)["answer"]
    del answer["counts"]
    answer["support"] = sorted({20: 2, 21: 7}.get(j, j) for j in answer["support"])
    return {"answer": answer}


def prove(make: Callable[[], Any], k: int, gamma: Any = None, keep: Any = None, **options: Any) -> Answers:
    """The certificate of the answer of "auto"; without options one relaxation, without branching."""
    risk = make()
    return {"certificate": of_certificate(ez.certify(risk, ez.minimize(risk, k, gamma, keep=keep), **options))}


def follow(make: Callable[[], Any], ks: Any, gamma: Any = None, rule: str = "", **options: Any) -> Answers:
    """A path: every answer on it, its cost as a whole, and the k that the rule chooses."""
    risk = make()
    path = ez.minimize_path(risk, ks, gamma, **options)
    at_zero = risk.value(np.zeros(risk.n_features))
    found = {f"k={res.k}": of_result(res, at_zero) for res in path}
    chosen = {"chosen": path.select(rule).k} if rule else {}
    return {**found, "whole": {**chosen, "counts": [path.n_gradients, path.n_values]}}


def promise(make: Callable[[], Any], k: int, k_bar: int, gamma: Any = None, **options: Any) -> Answers:
    g = ez.guarantee(make(), k, k_bar, gamma, **options)
    whole = {name: getattr(g, name) for name in ("holds", "k_required", "k_bar_max", "n_iter")}
    return {"guarantee": {**whole, "values": [number(v) for v in (g.step, g.omega, g.tau) if v is not None]}}


# ---- data ----


def design(seed: int, n: int, d: int, rho: float) -> np.ndarray:
    """Rows whose entries correlate by rho with their neighbours."""
    Z = np.random.default_rng(seed).standard_normal((n, d))
    for j in range(1, d):
        Z[:, j] = rho * Z[:, j - 1] + np.sqrt(1 - rho**2) * Z[:, j]
    return Z


def table(
    kind: str = "numbers", seed: int = 0, n: int = 100, d: int = 30, rho: float = 0.3, noise: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """X, and y that depends on every fifth column."""
    X, rng = design(seed, n, d, rho), np.random.default_rng([seed, 1])
    w = np.where(np.arange(d) % 5 == 2, rng.choice([-1.0, 1.0, 1.5], d) * rng.uniform(0.5, 1.5, d), 0.0)
    z = (X * w).sum(axis=1) + noise * rng.standard_normal(n) + 0.3
    if kind == "labels":
        return X, (z > 0).astype(int)
    if kind == "classes":
        return X, np.searchsorted([-1.0, 1.0], z)
    if kind == "counts":
        return X, rng.poisson(np.exp(np.clip(0.5 * z, -3, 3))).astype(float)
    if kind == "amounts":
        return X, rng.gamma(2.0, np.exp(np.clip(0.5 * z, -3, 3)))
    if kind == "outliers":
        return X, z + 20.0 * (rng.random(n) < 0.05)
    return X, z


KINDS = {
    "LeastSquares": "numbers",
    "Logistic": "labels",
    "Multinomial": "classes",
    "Poisson": "counts",
    "Huber": "outliers",
}
FURTHER = {"Gamma": "amounts", "SquaredHinge": "labels", "Quantile": "outliers"}


def model(name: str, change: Callable[[np.ndarray], Any] = np.asarray, data: Any = (), **options: Any) -> Any:
    """A risk of rows, its matrix changed into something else."""
    X, y = table({**KINDS, **FURTHER}[name], **dict(data))
    if options.pop("weighted", False):
        options["sample_weight"] = np.random.default_rng(7).integers(0, 4, len(y)).astype(float)
    if options.pop("shifted", False):
        options["offset"] = np.random.default_rng(8).standard_normal(len(y))
    return getattr(ez.risks, name)(change(X), y, **options)


def survival(**options: Any) -> Any:
    """Rounded times, a third of them censored."""
    X, z = table()
    rng = np.random.default_rng(9)
    time, last = rng.exponential(np.exp(-0.7 * z)), rng.exponential(3.0, z.size)
    return ez.risks.Cox(X, np.ceil(5 * np.minimum(time, last)), time <= last, **options)


def targets(**options: Any) -> Any:
    """Three targets, of which two share their columns."""
    X, y = table()
    return ez.risks.LeastSquares(X, np.column_stack([y, 0.5 * y + table(seed=1)[1], X[:, 7] - X[:, 2]]), **options)


def holes(X: np.ndarray) -> np.ndarray:
    """Two thirds of the entries are zero."""
    return X * (np.random.default_rng(3).random(X.shape) < 1 / 3)


def unequal(X: np.ndarray) -> np.ndarray:
    return X * np.logspace(-3, 3, X.shape[1])


def copies(X: np.ndarray) -> np.ndarray:
    """Columns that occur twice, once with the other sign, and one of zeros."""
    X = X.copy()
    X[:, 20], X[:, 21], X[:, 22] = X[:, 2], -X[:, 7], 0.0
    return X


def quadratic(kind: str = "definite", d: int = 30) -> Any:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((d, d if kind == "definite" else d // 2))
    Q = A @ A.T / d + (0.1 if kind == "definite" else -0.05) * np.eye(d)
    if kind == "banded":
        Q = sparse.csr_array(2.5 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1))
    return ez.risks.Quadratic(Q, rng.standard_normal(d))


_CENTRE = np.random.default_rng(11).standard_normal(20) * np.linspace(0.2, 2.0, 20)


def smooth(**options: Any) -> Any:
    """Σ log cosh(w - c) + 0.05||w||²."""
    return ez.risks.Smooth(
        lambda w: float(np.sum(np.log(np.cosh(w - _CENTRE))) + 0.05 * np.sum(w * w)),
        lambda w: np.tanh(w - _CENTRE) + 0.1 * w,
        20,
        **options,
    )


def bumpy() -> Any:
    """Not convex: a sum of double wells, tilted."""
    return ez.risks.Smooth(
        lambda w: float(np.sum(0.25 * (w * w - 1) ** 2 - 0.3 * _CENTRE * w)),
        lambda w: w * (w * w - 1) - 0.3 * _CENTRE,
        20,
        lower_bound=-20.0,
    )


def _bowl(w: np.ndarray, seed: int = 0) -> float:
    return float(np.sum((w - _CENTRE) ** 2)) + 1e-3 * np.random.default_rng(seed).standard_normal()


def _failing(w: np.ndarray) -> float:
    """Not defined where the first coordinate is just above zero."""
    return float("nan") if 0 < w[0] < 2e-7 else float(np.sum((w - _CENTRE) ** 2))


def black_box(kind: str = "plain", **options: Any) -> Any:
    if kind == "batched":
        return ez.risks.BlackBox(lambda W: np.sum((W - _CENTRE) ** 2, axis=1), 20, batched=True, **options)
    f = {"plain": lambda w: float(np.sum((w - _CENTRE) ** 2)), "seeded": _bowl, "failing": _failing}[kind]
    return ez.risks.BlackBox(f, 20, common_random_numbers=kind == "seeded", **options)


def every_set(d: int = 30) -> dict[str, Any]:
    """One of every kind, and more of those with more to choose; all of them cut the best point off."""
    S, rng = ez.sets, np.random.default_rng(2)
    labels = np.arange(d) % 3
    held = np.where(np.arange(d) == 4, 0.1, -0.5)
    return {
        "Everywhere": S.Everywhere(),
        "Box": S.Box(-0.5, rng.uniform(0.3, 1.0, d)),
        "Box without 0": S.Box(held, 0.8),
        "NonNegative": S.NonNegative(),
        "L1Ball": S.L1Ball(2.5),
        "L2Ball": S.L2Ball(1.2),
        "LinfBall": S.LinfBall(0.6),
        "LpBall 1.5": S.LpBall(1.5, 1.5),
        "LpBall 4": S.LpBall(4, 0.9),
        "WeightedL1Ball": S.WeightedL1Ball(rng.uniform(0.5, 2.0, d), 2.5),
        "Ellipsoid": S.Ellipsoid(rng.uniform(0.5, 2.0, d), 1.0),
        "SubSimplex": S.SubSimplex(1.5),
        "Simplex": S.Simplex(1.0),
        "PackingPolytope": S.PackingPolytope(rng.uniform(0, 1, (3, d)) * (rng.random((3, d)) < 0.7), [0.5, 0.7, 0.9]),
        "GroupWise": S.GroupWise(S.L1Ball(0.8), labels),
        "GroupWise of two kinds": S.GroupWise({0: S.L2Ball(0.8), 2: S.SubSimplex(0.5)}, labels),
        "Intersection": S.Intersection(S.L1Ball(2.5), S.LinfBall(0.7)),
        "Intersection of Box and L2Ball": S.Intersection(S.Box(-0.2, 1.0), S.L2Ball(1.0)),
        "Portfolio": S.Portfolio(1.0, 0.0, 0.4),
        "Portfolio with short positions": S.Portfolio((0.8, 1.0), -0.2, 0.5, labels, {0: 0.6, 1: 0.4}),
    }


# ---- problems ----

_rows = partial(partial, model)
_squares = _rows("LeastSquares")
_WITH_GAMMA = ("IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP", "PGD", "PGD+H", "IHT+P", "auto", "exact")
_WITHOUT = ("IHT", "HSG-HT", "HZO-HT", "ZOHT", "StoIHT", "SVRG-HT")
# finite differences of length μ carry a rounding error of about eps·R/μ, and the way depends on it
_DIFFERENCES = {"above": 1e-6}


def methods() -> Iterator[tuple[str, Problem]]:
    """Every preset, for two losses; those that take a Γ with and without one."""
    for name in (*_WITH_GAMMA, *_WITHOUT):
        random = name.startswith(("H", "Z", "S"))
        options: dict[str, Any] = {"rng": 1, "max_iter": 12} if random else {}
        rule = _DIFFERENCES if "Z" in name else {}
        for loss, extra in (("LeastSquares", {}), ("Logistic", {"ridge": 0.1})):
            risk = _rows(loss, data=[("rho", 0.1), ("d", 20)], **extra)
            yield f"method {name}, {loss}", Problem(partial(solve, risk, 5, None, name, **options), **rule)
            if name in _WITH_GAMMA:
                gamma = ez.sets.L1Ball(2.0)
                yield f"method {name}, {loss}, L1Ball", Problem(partial(solve, risk, 5, gamma, name, **options), **rule)


def risks() -> Iterator[tuple[str, Problem]]:
    """Every risk and every form that its data may have, by "auto"."""
    forms: dict[str, dict[str, Any]] = {
        "plain": {},
        "ridge": {"ridge": 0.2},
        "weights": {"weighted": True},
        "intercept": {"fit_intercept": True},
        "sparse": {"change": lambda X: sparse.csr_array(holes(X))},
        "operator": {"change": aslinearoperator},
        "float32": {"change": lambda X: X.astype(np.float32)},
        "all of it": {
            "change": lambda X: sparse.csc_array(holes(X)), "ridge": 0.05, "weighted": True, "fit_intercept": True,
        },
    }  # fmt: skip
    for loss in KINDS:
        for form, options in forms.items():
            single = {"above": 1e-5} if form == "float32" else {}
            # without a ridge the classes can be told apart, and how long coefficients grow depends on rounding
            small = {"data": [("d", 12)], "ridge": 0.02} if loss == "Multinomial" else {}
            yield f"risk {loss}, {form}", Problem(partial(solve, _rows(loss, **{**small, **options}), 5), **single)
    for loss in FURTHER:
        for form in ("plain", "intercept", "all of it"):
            ridge = {"ridge": 0.02} if loss == "SquaredHinge" else {}  # as for several classes
            yield f"risk {loss}, {form}", Problem(partial(solve, _rows(loss, **{**ridge, **forms[form]}), 5))
    for loss in ("LeastSquares", "Logistic", "Poisson", "Huber", *FURTHER):
        options = {"shifted": True, "fit_intercept": True, "ridge": 0.02}
        yield f"risk {loss}, offset", Problem(partial(solve, _rows(loss, **options), 5))
    for ties in ("breslow", "efron"):
        yield f"risk Cox, {ties}", Problem(partial(solve, partial(survival, ties=ties, ridge=0.02), 5))
    yield "risk Cox, nonnegative", Problem(partial(solve, partial(survival, ridge=0.02), 5, ez.sets.NonNegative()))
    for kind in ("definite", "indefinite", "banded"):
        yield f"risk Quadratic, {kind}", Problem(partial(solve, partial(quadratic, kind), 5))
    known = {"smoothness": 1.1, "strong_convexity": 0.1, "lower_bound": 0.0}
    yield "risk Smooth, convex", Problem(partial(solve, partial(smooth, convex=True), 5))
    yield "risk Smooth, constants known", Problem(partial(solve, partial(smooth, **known), 5))
    yield "risk Smooth, IHT", Problem(partial(solve, partial(smooth, **known), 5, None, "IHT"))
    yield "risk Smooth, not convex", Problem(partial(solve, bumpy, 5, ez.sets.L1Ball(5.0)))
    for kind in ("plain", "batched", "seeded", "failing"):
        box = partial(black_box, kind, **({"on_failure": "drop"} if kind == "failing" else {}))
        run = partial(solve, box, 5, ez.sets.LinfBall(1.0), rng=3, max_queries=1500)
        # the error of the last seed comes to the objective, and which is the last depends on the way
        yield f"risk BlackBox, {kind}", Problem(run, **({"above": 1e-3} if kind == "seeded" else _DIFFERENCES))
    box = partial(black_box, repeats=2, recheck=(3, 2))
    method = ez.preset("HZO-HT-2SP", L=2.0, nu=2.0)
    run = partial(solve, box, 5, ez.sets.L2Ball(2.0), method, rng=3, max_queries=2001)
    yield "risk BlackBox, HZO-HT-2SP", Problem(run, **_DIFFERENCES)


def structures() -> Iterator[tuple[str, Problem]]:
    """At most k of what else: groups, quotas in groups, features of several outputs."""
    labels = [None if j in (4, 17) else j // 3 for j in range(30)]
    groups, quotas = ez.sparsity.Groups(3, labels), ez.sparsity.PerGroup(5, np.arange(30) % 6, {0: 1, 2: 0, 3: 2})
    for name, counted in {"groups": groups, "quotas": quotas}.items():
        for loss in ("LeastSquares", "Logistic"):
            rows = _rows(loss, ridge=0.02, fit_intercept=True)
            yield f"structure {name}, {loss}", Problem(partial(solve, rows, counted))
            yield f"structure {name}, {loss}, keep", Problem(partial(solve, rows, counted, keep=[1, 9]))
        for gamma in (ez.sets.NonNegative(), ez.sets.L2Ball(1.5), ez.sets.L1Ball(2.0)):
            yield f"structure {name}, {gamma!r}", Problem(partial(solve, _rows("LeastSquares"), counted, gamma))
        yield f"structure {name}, IHT-2SP", Problem(partial(solve, _rows("LeastSquares"), counted, None, "IHT-2SP"))
        yield f"structure {name}, exact", Problem(partial(solve, _rows("LeastSquares"), counted, None, "exact"))
    yield (
        "structure rows of classes",
        Problem(partial(solve, _rows("Multinomial", data=[("d", 12)], ridge=0.02), ez.sparsity.Rows(3))),
    )
    yield (
        "structure rows of targets",
        Problem(partial(solve, partial(targets, fit_intercept=True), ez.sparsity.Rows(4))),
    )
    yield "structure entries of targets", Problem(partial(solve, targets, 8))


def constraints() -> Iterator[tuple[str, Problem]]:
    """Every set: the answer of "auto" and its certificate, a method of the paper, and another loss."""
    for name, gamma in every_set().items():
        yield f"set {name}", Problem(partial(solve, _squares, 4, gamma))
        yield f"set {name}, certified", Problem(partial(prove, _squares, 4, gamma))
        yield f"set {name}, Logistic", Problem(partial(solve, _rows("Logistic", ridge=0.05), 4, gamma))
        if not name.startswith(("Simplex", "Portfolio", "Box without", "Everywhere")):
            yield f"set {name}, IHT-2SP", Problem(partial(solve, _squares, 4, gamma, "IHT-2SP", max_iter=200))
    spectral, rank = ez.sets.Spectral(ez.sets.LinfBall(0.6), (5, 6)), ez.sparsity.Rank(2, (5, 6))
    yield "set Spectral", Problem(partial(solve, _squares, rank, spectral))
    yield "set Spectral, IHT-2SP", Problem(partial(solve, _squares, rank, spectral, "IHT-2SP", max_iter=200))


def requests() -> Iterator[tuple[str, Problem]]:
    """What else can be asked of `minimize`, and data that are awkward."""
    S, M = ez.sets, ez.Method
    start = np.zeros(30)
    start[[0, 7, 12]] = 0.5
    asked: dict[str, tuple[Any, ...]] = {
        "keep": (5, None, "auto", {"keep": [0, 29]}),
        "keep by mask, L1Ball": (5, S.L1Ball(2.0), "auto", {"keep": np.arange(30) == 9}),
        "keep, IHT-2SP": (5, S.LinfBall(0.7), "IHT-2SP", {"keep": [1]}),
        "x0": (4, None, "auto", {"x0": start}),
        "x0, IHT": (4, None, "IHT", {"x0": start}),
        "target_gap": (5, None, "IHT-2SP", {"target_gap": 0.4}),
        "target_gap, exact": (5, S.NonNegative(), "exact", {"target_gap": 0.05}),
        "exact, keep": (5, S.Box(-1, 0.8), "exact", {"keep": [3]}),
        "k=0": (0, None, "auto", {}),
        "k=d": (30, S.L2Ball(1.0), "auto", {}),
        "k=1": (1, None, "auto", {}),
        "monitor at the end": (5, None, "IHT", {"monitor": "final"}),
        "max_iter": (5, None, "IHT", {"max_iter": 7}),
        "tol": (5, S.L1Ball(2.0), "PGD", {"tol": 1e-3}),
        "several starts": (4, S.NonNegative(), ez.preset("auto", n_starts=4), {"rng": 0}),
        "a theorem's T": (6, S.L2Ball(1.5), ez.preset("IHT-2SP", epsilon=0.1, radius=3.0, rho=0.5), {"tol": 0}),
        "adaptive steps": (5, S.L1Ball(2.0), M(step="adaptive"), {}),
        "adaptive steps, two-step": (5, S.L2Ball(1.0), M(step="adaptive", projection="two-step"), {}),
        "pursuit": (5, None, M(step="pursuit"), {}),
        "restricted, swap": (5, S.Simplex(1.0), M(projection="restricted", finish="swap"), {}),
        "mini-batches": (5, S.L1Ball(2.0), M(oracle=ez.MiniBatch(20), step=0.1), {"rng": 0, "max_iter": 40}),
        "variance reduced": (5, None, M(oracle=ez.VarianceReduced(5, epoch=10), step=0.05), {"rng": 0, "max_iter": 60}),
    }  # fmt: skip
    for name, (k, gamma, method, options) in asked.items():
        yield f"request {name}", Problem(partial(solve, _squares, k, gamma, method, **options))
    central = M(oracle=ez.ZerothOrder(30, support_size=10, mu=1e-4, central=True), step=0.05)
    run = partial(solve, _squares, 5, S.L1Ball(2.0), central, rng=0, max_iter=30)
    yield "request central differences", Problem(run, **_DIFFERENCES)
    run = partial(solve, _squares, 5, None, ez.preset("ZOHT", q=20), rng=0, max_queries=500)
    yield "request max_queries", Problem(run, **_DIFFERENCES)
    # which of two equal columns is taken is decided by rounding, and so is the work
    yield "data copies of columns", Problem(partial(solve_with_copies, _rows("LeastSquares", copies), 5))
    wide, close = {"data": [("n", 40), ("d", 60)]}, {"data": [("rho", 0.9), ("noise", 2.0)]}
    awkward: dict[str, dict[str, Any]] = {
        "unequal scales": {"change": unequal},
        "more columns than rows": wide,
        "close columns": close,
        "close columns, ridge": {"ridge": 0.3, **close},
    }
    for name, options in awkward.items():
        for loss in ("LeastSquares", "Logistic"):
            ridge = {"ridge": 0.05} if loss == "Logistic" and "ridge" not in options else {}
            yield f"data {name}, {loss}", Problem(partial(solve, _rows(loss, **options, **ridge), 5))
        yield f"data {name}, NonNegative", Problem(partial(solve, _rows("LeastSquares", **options), 5, S.NonNegative()))


def paths() -> Iterator[tuple[str, Problem]]:
    held_out = model("LeastSquares", data=[("seed", 9)])
    close = _rows("LeastSquares", data=[("rho", 0.8), ("noise", 1.0)])
    yield "path 1 to 8", Problem(partial(follow, _squares, 8, rule="ebic"))
    yield "path both ways", Problem(partial(follow, close, 6, both_ways=True, rule="bic"))
    yield "path of cold starts", Problem(partial(follow, close, [2, 4, 6], warm_start=False, rule="aic"))
    yield "path with held-out rows", Problem(partial(follow, _squares, 6, rule="validation", validation=held_out))
    yield "path keep, L1Ball", Problem(partial(follow, _squares, [3, 5], ez.sets.L1Ball(2.0), keep=[0]))
    yield "path Logistic", Problem(partial(follow, _rows("Logistic", ridge=0.05), [1, 3, 5], rule="gic"))
    yield "path IHT-2SP", Problem(partial(follow, _squares, [2, 4], ez.sets.L2Ball(1.0), method="IHT-2SP"))


def proofs() -> Iterator[tuple[str, Problem]]:
    """Certificates with branching or for other losses, and the theorems' guarantees."""
    close = _rows("LeastSquares", data=[("rho", 0.8), ("noise", 2.0), ("d", 20)])
    closer = _rows("LeastSquares", data=[("rho", 0.9), ("noise", 3.0), ("n", 60)])
    yield "proof by long branching", Problem(partial(prove, closer, 5, target_gap=0.0))
    yield "proof by branching", Problem(partial(prove, close, 4, target_gap=0.0))
    yield "proof to a gap", Problem(partial(prove, close, 4, ez.sets.L1Ball(1.0), target_gap=0.02))
    yield "proof by branching, keep", Problem(partial(prove, close, 4, ez.sets.NonNegative(), [0], target_gap=1e-4))
    yield "proof ridge", Problem(partial(prove, _rows("LeastSquares", ridge=0.5, fit_intercept=True), 5))
    yield "proof unequal scales", Problem(partial(prove, _rows("LeastSquares", unequal), 5))
    yield "proof more columns than rows", Problem(partial(prove, _rows("LeastSquares", data=[("n", 40), ("d", 60)]), 5))
    yield "proof Quadratic", Problem(partial(prove, quadratic, 5, target_gap=1e-3))
    for loss in ("Logistic", "Multinomial", "Poisson", "Huber"):
        risk = _rows(loss, ridge=0.1, data=[("d", 10)])
        yield f"proof {loss}", Problem(partial(prove, risk, 4))
        yield f"proof {loss}, branching", Problem(partial(prove, risk, 4, target_gap=1e-5))
    flat = _rows("LeastSquares", ridge=20.0, data=[("rho", 0.0), ("n", 200), ("d", 60)])
    for name in ("IHT", "HSG-HT", "HZO-HT", "IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP"):
        gamma = ez.sets.L2Ball(1.0) if "2SP" in name else None
        run = partial(promise, flat, 50, 2, gamma, method=name, epsilon=0.05, radius=2.0)
        yield f"guarantee {name}", Problem(run)
