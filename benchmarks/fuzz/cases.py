"""Random problems at the edges, each reproducible from one integer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import gammas, sparsities
from .objectives import Form, Model, gamma, huber, logistic, multinomial, poisson, quantile, squared_hinge
from .rationals import Vector, definite, integers, solve
from .regions import Region

FAMILIES = {"gaussian": 2.0, "collinear": 3.0, "conditioned": 3.0, "copies": 2.0, "dummies": 1.0, "scales": 2.0,
            "column scales": 2.0, "float32": 1.5, "weights": 1.0, "in the span": 1.0, "optimum at 0": 1.0,
            "integer": 1.0, "portfolio": 0.7}  # fmt: skip
RISKS = {"LeastSquares": 45.0, "Quadratic": 40.0, "Logistic": 4.0, "Huber": 4.0, "Poisson": 3.5, "Multinomial": 3.5}
#: from this case on there are offsets, and further losses; those before stay what they were
LATER = 100_000
FURTHER = {"LeastSquares": 15.0, "Logistic": 6.0, "Huber": 6.0, "Poisson": 6.0, "Multinomial": 6.0,
           "Gamma": 20.0, "SquaredHinge": 20.0, "Quantile": 20.0}  # fmt: skip
MODES = {"root": 0.45, "certify timed": 0.3, "exact timed": 0.2, "auto timed": 0.05}
SLOW_MODES = {
    "root": 0.85,
    "certify timed": 0.05,
    "exact timed": 0.05,
    "auto timed": 0.05,
}  # of losses that branch long
LIMIT = 0.1  # seconds, where the time is limited


@dataclass(frozen=True)
class Header:
    """What a case is about, known before its data is drawn."""

    seed: int
    family: str
    risk: str
    gamma: str
    mode: str
    full: bool  # whether every support is looked at
    counted: str = "coordinates"


@dataclass
class Case:
    """A problem, for the library and for the referee."""

    header: Header
    k: int
    risk: Any
    gamma: Any
    objective: Any  # Form or Model
    region: Region
    single: bool
    unit: np.ndarray  # how large entries of good answers are
    counted: sparsities.Counted | None = None  # where it is more than k coordinates

    @property
    def asked(self) -> Any:
        """What the library is given for k."""
        return self.k if self.counted is None else self.counted.asked

    def admits(self, w: Vector) -> bool:
        """Whether w is sparse."""
        return len(w) <= self.k if self.counted is None else self.counted.admits(w)

    def supports(self) -> list[tuple[int, ...]]:
        """Every largest one."""
        if self.counted is not None:
            return self.counted.supports()
        return list(itertools.combinations(range(self.objective.d), min(self.k, self.objective.d)))


def header(seed: int) -> Header:
    """The first draws of a case."""
    rng = np.random.default_rng([1313, seed])
    family, risk = (_draw(rng, table) for table in (FAMILIES, RISKS if seed < LATER else FURTHER))
    mode = _draw(rng, MODES if risk in ("LeastSquares", "Quadratic") else SLOW_MODES)
    gamma = str(rng.choice(gammas.ALL))
    if family == "portfolio":
        risk, gamma = "Quadratic", str(rng.choice(["Simplex", "Portfolio", "Simplex"]))
    if risk in ("LeastSquares", "Quadratic") and rng.random() < 0.3 and family != "portfolio":
        gamma = "Everywhere"
    full, counted = bool(rng.random() < 0.3), "coordinates"
    if seed >= sparsities.FIRST:
        counted = _draw(rng, sparsities.OF_OUTPUTS if risk == "Multinomial" else sparsities.SPARSITIES)
        gamma = gamma if gamma in sparsities.GAMMAS else str(rng.choice(sparsities.GAMMAS))
    return Header(seed, family, risk, gamma, mode, full, counted)


def _draw(rng: np.random.Generator, table: dict[str, float]) -> str:
    share = np.array(list(table.values()))
    return str(rng.choice(list(table), p=share / share.sum()))


def case(seed: int) -> Case:
    """The whole of it."""
    head = header(seed)
    rng = np.random.default_rng([1414, seed])
    outputs = 3 if head.risk == "Multinomial" else 1
    d = int(rng.integers(2, 6)) if outputs == 1 else int(rng.integers(2, 4))
    n = int(rng.integers(2, 13)) if head.risk in ("LeastSquares", "Quadratic") else int(rng.integers(6, 17))
    if head.family == "collinear" and rng.random() < 0.4:
        d = 2
    k = int(rng.integers(1, 4)) if outputs > 1 else int(rng.integers(1, min(d, 3) + 1))
    counted = None
    if head.counted != "coordinates":
        d += outputs == 1
        counted = sparsities.draw(rng, head.counted, d, outputs)
        k = max(map(len, counted.supports()))
    X, v, intercept = _data(rng, head.family, n, d)
    if head.family == "optimum at 0":
        v = v * 0 if rng.random() < 0.5 else v - X @ np.linalg.lstsq(X, v)[0]
    single = head.family == "float32"
    weight = None
    if head.family == "weights" or rng.random() < 0.1:
        weight = 10 ** rng.uniform(*((-8, 8) if head.family == "weights" else (-1, 1)), n)
    ridge = float(rng.choice([0, 0, 0, 1e-8, 1e-3, 1.0])) * float(rng.choice([1.0, np.mean(X**2)]))
    intercept = intercept or bool(rng.random() < 0.25)
    if single:
        X, v, ridge = X.astype(np.float32), v.astype(np.float32), float(np.float32(ridge))
        weight = None if weight is None else weight.astype(np.float32)
    if head.risk == "Quadratic":
        risk, objective = _quadratic(rng, head, X, v)
    else:
        risk, objective = _model(rng, head, X, v, ridge, weight, intercept, outputs)
    size = _size(rng, risk, X, v, outputs)
    gamma, region = gammas.draw(rng, head.gamma, size, k, single)
    return Case(head, k, risk, gamma, objective, region, single, size, counted)


def _data(rng: np.random.Generator, family: str, n: int, d: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """X, the target and whether an intercept belongs to it."""
    X, v, intercept = rng.standard_normal((n, d)), rng.standard_normal(n), False
    base = family
    if family in ("float32", "weights", "scales"):
        base = str(rng.choice(["gaussian", "collinear", "conditioned", "copies"]))
    if base == "collinear":
        least = -14 if rng.random() < 0.5 else -7
        eps = 10 ** rng.uniform(*((-6, -2) if family == "float32" else (least, -4)))
        for j in range(1, d if rng.random() < 0.3 else 2):
            X[:, j] = X[:, 0] + eps * (v if j == 1 else rng.standard_normal(n))
        v = v + (rng.random() < 0.6) * 10 ** rng.uniform(-9, 0) * rng.standard_normal(n)
    elif base == "conditioned":
        c = rng.uniform(0, 5 if family == "float32" else 14)
        left, _, right = np.linalg.svd(X, full_matrices=False)
        X = left @ np.diag(10 ** -np.linspace(0, c, min(n, d))) @ right
        v = left @ rng.standard_normal(min(n, d)) if rng.random() < 0.5 else v
    elif base == "copies":
        X = _copies(rng, X)
    elif base == "dummies":
        label = rng.integers(0, d, n)
        X, intercept = np.eye(d)[label], True
        if d > 3:
            X[:, -1] = X[:, 0] ** 2 if rng.random() < 0.5 else rng.standard_normal(n)
    elif base in ("integer", "in the span"):
        X, v = rng.integers(-3, 4, (n, d)).astype(float), rng.integers(-3, 4, n).astype(float)
        if base == "in the span":
            v = X @ (rng.integers(-2, 3, d) * (rng.random(d) < 0.5))
    elif base == "column scales":
        X = X * 10 ** rng.uniform(-8, 8, d)
        v = X @ rng.standard_normal(d) + 0.3 * v if rng.random() < 0.3 else v
    elif base in ("gaussian", "portfolio"):
        v = X @ (rng.standard_normal(d) * (rng.random(d) < 0.6)) + rng.choice([0.01, 1.0]) * v
    if family == "scales":
        X, v = X * 10 ** rng.uniform(-8, 8), v * 10 ** rng.uniform(-8, 8)
    return X, v, intercept


def _copies(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    X, d = X.copy(), X.shape[1]
    for j in range(1, d):
        match int(rng.integers(0, 8)):
            case 0:
                X[:, j] = X[:, 0]
            case 1:
                X[:, j] = -X[:, 0]
            case 2:
                X[:, j] = X[:, :j].sum(axis=1)
            case 3:
                X[:, j] = rng.choice([1.0, 3.7])
            case 4:
                X[:, j] = 0
            case 5:
                X[:, j] = 2 * X[:, 0] + 1
    return X


def _quadratic(rng: np.random.Generator, head: Header, X: np.ndarray, v: np.ndarray) -> tuple[Any, Form]:
    """XᵀX and Xᵀv, made exactly semidefinite and bounded below."""
    import ellzero

    Q, b = X.T @ X, X.T @ v
    if head.family == "portfolio":
        Q, b = Q / len(X) * 10 ** rng.uniform(-5, 0), 0 * b
    if head.family == "optimum at 0":
        b = -np.abs(b) if head.gamma in ("NonNegative", "SubSimplex", "PackingPolytope") else 0 * b
    Q = np.triu(Q) + np.triu(Q, 1).T
    for attempt in range(60):
        if definite(integers(Q)[0].tolist()):
            break
        Q = Q + np.eye(len(Q), dtype=Q.dtype) * np.trace(Q) * np.finfo(Q.dtype).eps * 2**attempt
    if solve([[*row, c] for row, c in zip(integers(Q)[0].tolist(), integers(b)[0].tolist(), strict=True)]) is None:
        X, v = np.rint(8 * X / np.abs(X).max()), np.rint(8 * v / np.abs(v).max())  # exact in any order of summation
        Q, b = (X.T @ X).astype(Q.dtype), (X.T @ v).astype(Q.dtype)
    return ellzero.risks.Quadratic(Q, b), Form.quadratic(Q, b)


def _model(
    rng: np.random.Generator, head: Header, X: np.ndarray, v: np.ndarray, ridge: float, weight: Any, intercept: bool,
    outputs: int,
) -> tuple[Any, Any]:  # fmt: skip
    import ellzero

    scaled = np.asarray(v, float) / max(np.abs(v).max(initial=0), 1e-300)
    name, offset = head.risk, None
    if head.seed >= LATER and rng.random() < 0.4:
        linear = name in ("LeastSquares", "Huber", "Quantile")
        size = (np.abs(v).max(initial=0) or 1.0) * 10 ** rng.uniform(-3, 6) if linear else 10 ** rng.uniform(-3, 1)
        offset = (size * rng.standard_normal((v.size, outputs) if outputs > 1 else v.size)).astype(v.dtype)
    options = {"ridge": ridge, "sample_weight": weight, "fit_intercept": intercept, "offset": offset}
    make = getattr(ellzero.risks, name)
    if name == "LeastSquares":
        return make(X, v, **options), Form.least_squares(X, v, ridge, weight, intercept, offset)
    if name == "Huber":
        y = (v + (rng.random(v.size) < 0.2) * 8 * np.abs(v).max()).astype(v.dtype)
        delta = float(np.float32(max(np.median(np.abs(y)), 1e-3) * rng.uniform(0.1, 3)))
        return make(X, y, **options, delta=delta), Model(huber(delta), X, y, ridge, weight, intercept, 1, offset)
    if name == "Quantile":
        level, s = float(rng.uniform(0.05, 0.95)), float((np.abs(v).max() or 1.0) * 10 ** rng.uniform(-5, 0))
        loss = quantile(level, s)
        risk = make(X, v, **options, quantile=level, smoothing=s)
        return risk, Model(loss, X, v, ridge, weight, intercept, 1, offset)
    if name in ("Logistic", "SquaredHinge"):
        y = np.where(scaled + rng.choice([0.0, 0.5]) * rng.standard_normal(v.size) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        loss = logistic if name == "Logistic" else squared_hinge
        return make(X, y, **options), Model(loss, X, y, ridge, weight, intercept, 1, offset)
    if name == "Gamma":
        y = (np.exp(2 * scaled) * rng.gamma(rng.choice([0.5, 5.0]), 1.0, v.size) + 1e-6).astype(v.dtype)
        return make(X, y, **options), Model(gamma, X, y, ridge, weight, intercept, 1, offset)
    if name == "Poisson":
        y = rng.poisson(np.exp(2 * scaled)).astype(v.dtype)
        y[0] += 1
        return make(X, y, **options), Model(poisson, X, y, ridge, weight, intercept, 1, offset)
    y = np.clip(np.rint(scaled + rng.choice([0.2, 1.0]) * rng.standard_normal(v.size)), -1, 1).astype(int) + 1
    y[:3] = 0, 1, 2
    return make(X, y, **options), Model(multinomial, X, y, ridge, weight, intercept, outputs, offset)


def _size(rng: np.random.Generator, risk: Any, X: np.ndarray, v: np.ndarray, outputs: int) -> np.ndarray:
    """How large entries of good answers are: those of single coordinates, or of all together."""
    columns = np.linalg.norm(np.asarray(X, float), axis=0)
    columns = np.where(columns > 0, columns, 1.0)
    target = float(np.linalg.norm(v)) or 1.0
    linear = type(risk).__name__ in ("LeastSquares", "Quadratic", "Huber", "Quantile")
    size = (target if linear else np.sqrt(len(v))) / columns
    if linear and rng.random() < 0.3:
        together = np.abs(np.linalg.lstsq(np.asarray(X, float), np.asarray(v, float))[0])
        size = np.maximum(size, together)
    return np.tile(size, outputs)
