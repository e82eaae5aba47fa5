"""Certificates over groups, quotas and features, against every admitted support: the referee has its own solvers.

It reads the groups as they were given, and judges by members that it found itself: a bound above one of these is wrong,
however good or bad its solvers are.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp, xlogy

import ellzero as ez
from ellzero.certificates.perspective import Perspective
from ellzero.certificates.quadratic_form import smallest_eigenvalue
from ellzero.certificates.supports import AtomSupports, Decisions, supports_of
from ellzero.sets.polyhedron import Polyhedron

S, R = ez.sets, ez.risks
RISKS = ("least squares", "least squares", "quadratic", "logistic", "poisson", "multinomial")
SETS = ("none", "none", "nonnegative", "box", "l2", "l1", "group l1", "group l2", "simplex")
DATA = ("gaussian", "correlated", "copies inside", "copies across", "idle", "conditioned", "integer")


@dataclass
class Case:
    """A problem in the library's words and in the referee's."""

    risk: Any
    sparsity: Any
    gamma: Any
    keep: list
    objective: Any  # w ↦ (R, ∇R), from the definition
    squares: tuple | None  # (A, t): R = ||Aw - t||² + a constant
    atoms: list  # of coordinates; what is in none is always there
    allowed: Any  # whether a set of atoms may be used
    pull: Any  # w ↦ a member of Γ next to it with no more nonzeros, or None
    box: tuple | None
    d: int

    def supports(self):
        """The largest admitted sets of atoms that hold what is kept, as coordinates."""
        names = range(len(self.atoms))
        must = {a for a in names if set(self.atoms[a]) & set(self.keep)}
        admitted = [
            set(c)
            for m in range(len(self.atoms) + 1)
            for c in itertools.combinations(names, m)
            if must <= set(c) and self.allowed(c)
        ]
        loose = set(range(self.d)) - {i for a in self.atoms for i in a}
        for one in admitted:
            if not any(one < other for other in admitted):
                yield one, sorted(loose | {i for a in one for i in self.atoms[a]})


def labels_of(rng, d):
    """Groups of different sizes, often with coordinates in none."""
    labels = np.sort(rng.integers(0, max(2, d // 2), d)).tolist()
    for i in rng.choice(d, int(rng.integers(0, 3)), replace=False):
        labels[i] = None
    if all(label is None for label in labels):
        labels[0] = 0
    return labels if rng.random() < 0.7 else [labels[i] for i in rng.permutation(d)]


def sparsity_of(rng, d, outputs):
    """A sparsity, its atoms, and which of these may be used together."""
    labels = labels_of(rng, d)
    names = sorted({label for label in labels if label is not None})
    kind = rng.choice(["groups", "quotas", "mapping"] if outputs == 1 else ["rows", "groups", "quotas"])
    whole = [[i + j * d for j in range(outputs)] for i in range(d)]
    if kind == "rows":
        k = int(rng.integers(0, d + 1))
        return ez.sparsity.Rows(k), whole, lambda c: len(c) <= k
    if kind == "groups":
        k = int(rng.integers(0, len(names) + 1))
        atoms = [[i for m in range(d) if labels[m] == name for i in whole[m]] for name in names]
        return ez.sparsity.Groups(k, labels), atoms, lambda c: len(c) <= k
    k = int(rng.integers(0, d + 1))
    most = {name: int(rng.integers(0, 3)) for name in names}
    if kind == "mapping":
        del most[names[0]]
    else:
        most = dict.fromkeys(names, int(rng.integers(0, 3)))

    def allowed(c):
        return len(c) <= k and all(sum(labels[a] == name for a in c) <= cap for name, cap in most.items())

    return ez.sparsity.PerGroup(k, labels, most if kind == "mapping" else most[names[0]]), whole, allowed


def design(rng, kind, n, d):
    """X at the edges."""
    X = rng.standard_normal((n, d))
    if kind == "correlated":
        X = X + rng.standard_normal((n, 1))
    elif kind == "copies inside":
        X[:, 1], X[:, -1] = -2 * X[:, 0], X[:, -2]
    elif kind == "copies across":
        X[:, -1], X[:, d // 2] = X[:, 0], 4 * X[:, 1]
    elif kind == "idle":
        X[:, 0], X[:, -1] = 0, 3.0
    elif kind == "conditioned":
        left, _, right = np.linalg.svd(X, full_matrices=False)
        X = left * 10 ** -np.linspace(0, rng.uniform(2, 14), min(n, d)) @ right
    elif kind == "integer":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    return X


def set_of(rng, name, d):
    """Γ, a projection of the referee's own, and bounds if there are no other constraints."""
    cut = max(1, d // 2)
    ends = [np.arange(cut), np.arange(cut, d)]
    r = float(10 ** rng.uniform(-1, 0.5))

    def norm1(w, i):
        w[i] *= min(1.0, r / max(np.abs(w[i]).sum(), 1e-300)) * (1 - 1e-14)

    def norm2(w, i):
        w[i] *= min(1.0, r / max(np.linalg.norm(w[i]), 1e-300)) * (1 - 1e-14)

    def each(shrink, parts):
        def pull(w):
            w = w.copy()
            for part in parts:
                shrink(w, part)
            return w

        return pull

    def simplex(w):
        w = np.maximum(w, 0.0)
        return w / w.sum() * r if w.sum() > 0 else None

    infinite, everything = np.full(d, np.inf), [np.arange(d)]
    groups = [0] * cut + [1] * (d - cut)
    match name:
        case "none":
            return S.Everywhere(), lambda w: w, (-infinite, infinite)
        case "nonnegative":
            return S.NonNegative(), lambda w: np.maximum(w, 0.0), (0 * infinite.clip(0, 0), infinite)
        case "box":
            low, high = -rng.uniform(0, 1, d), rng.uniform(0, 1, d)
            return S.Box(low, high), lambda w: np.clip(w, low, high), (low, high)
        case "l2":
            return S.L2Ball(r), each(norm2, everything), None
        case "l1":
            return S.L1Ball(r), each(norm1, everything), None
        case "group l1":
            return S.GroupWise(S.L1Ball(r), groups), each(norm1, ends), None
        case "group l2":
            return S.GroupWise(S.L2Ball(r), groups), each(norm2, ends), None
    return S.Simplex(r), simplex, None


def loss_of(name, z, y):
    """Mean loss and its slope in the predictions."""
    n = len(y)
    if name == "logistic":
        s = 2 * y - 1
        return np.logaddexp(0, -s * z).mean(), -s / (1 + np.exp(s * z)) / n
    if name == "poisson":
        return (np.exp(z) - y * z + xlogy(y, y) - y).mean(), (np.exp(z) - y) / n
    top = logsumexp(z, axis=1)
    slope = np.exp(z - top[:, None])
    slope[np.arange(n), y] -= 1
    return (top - z[np.arange(n), y]).mean(), slope / n


def make(seed):
    """Case `seed`."""
    rng = np.random.default_rng([15, seed])
    name, kind = str(rng.choice(RISKS)), str(rng.choice(DATA))
    outputs = 3 if name == "multinomial" else 1
    p = int(rng.integers(3, 8)) if outputs == 1 else int(rng.integers(2, 4))
    n = int(rng.integers(4, 16)) + 6 * (outputs > 1)
    X, d = design(rng, kind, n, p), p * outputs
    v = X @ (rng.standard_normal(p) * (rng.random(p) < 0.6)) + rng.choice([0.1, 1.0]) * rng.standard_normal(n)
    ridge = float(rng.choice([0.0, 0.0, 0.01, 0.5]))
    intercept = bool(name == "least squares" and rng.random() < 0.3)
    squares = None
    if name == "least squares":
        risk = R.LeastSquares(X, v, ridge=ridge, fit_intercept=intercept)
        C, t = (X - X.mean(axis=0), v - v.mean()) if intercept else (X, v)
        squares = np.vstack([C / math.sqrt(n), math.sqrt(ridge / 2) * np.eye(d)]), np.append(t / math.sqrt(n), [0] * d)
    elif name == "quadratic":
        risk, squares = R.Quadratic(X.T @ X + ridge * np.eye(d), X.T @ v), None
    else:
        y = {"logistic": (v > np.median(v)).astype(int), "poisson": rng.poisson(np.exp(np.clip(v, -3, 2)))}.get(name)
        y = rng.permutation(np.arange(n) % 3) if y is None else y
        X = X if name != "poisson" else X / max(1.0, np.abs(X).max())
        risk = {"logistic": R.Logistic, "poisson": R.Poisson, "multinomial": R.Multinomial}[name](X, y, ridge=ridge)

    def objective(w):
        if squares is not None:
            left = squares[0] @ w - squares[1]
            return left @ left, 2 * squares[0].T @ left
        if name == "quadratic":
            Q, b = X.T @ X + ridge * np.eye(d), X.T @ v
            return 0.5 * w @ Q @ w - b @ w, Q @ w - b
        W = w.reshape(outputs, p)
        value, slope = loss_of(name, X @ W.T if outputs > 1 else X @ w, y)
        g = slope.T @ X if outputs > 1 else X.T @ slope
        return value + ridge / 2 * w @ w, g.ravel() + ridge * w

    sparsity, atoms, allowed = sparsity_of(rng, p, outputs)
    gamma, pull, box = set_of(rng, str(rng.choice(SETS)), d)
    case = Case(risk, sparsity, gamma, [], objective, squares, atoms, allowed, pull, box, d)
    if rng.random() < 0.25:
        wanted = int(rng.integers(0, p))
        case.keep = [wanted]  # of rows: a feature, whose first coefficient it is
        if not any(True for _ in case.supports()):
            case.keep = []
    return case


def least(case, support):
    """R at a member on the support, as good as SciPy makes it; None where none was found."""
    s = np.array(support, dtype=int)
    if not s.size:
        w = case.pull(np.zeros(case.d))
        return None if w is None else float(case.objective(w)[0])
    starts = [np.zeros(s.size)]
    with np.errstate(all="ignore"):
        if case.squares is not None and case.box is not None:
            A, t = case.squares[0][:, s], case.squares[1]
            low, high = case.box[0][s], case.box[1][s]
            starts.append(np.linalg.lstsq(A, t, rcond=None)[0])
            if np.isfinite(low).any() and np.isinf(high).all():
                starts.append(optimize.nnls(A, t)[0])
            elif np.isfinite(low).any():
                starts.append(optimize.lsq_linear(A, t, np.transpose([low, np.maximum(high, low + 1e-300)]).T).x)

        def restricted(u):
            w = np.zeros(case.d)
            w[s] = u
            value, g = case.objective(w)
            return float(value), g[s]

        if len(starts) == 1 or isinstance(case.gamma, S.Simplex):
            found = optimize.minimize(restricted, starts[0], jac=True, method="BFGS", options={"gtol": 1e-10})
            starts = [found.x, *projected(case, restricted, s, found.x)]
        values = []
        for u in starts:
            w = np.zeros(case.d)
            w[s] = u
            w = case.pull(w) if np.isfinite(u).all() else None
            values += [] if w is None else [float(case.objective(w)[0])]
    return min((v for v in values if math.isfinite(v)), default=None)


def projected(case, restricted, s, start):
    """Where SLSQP ends under the constraints of Γ, for w = p - q with p, q >= 0."""
    if isinstance(case.gamma, S.Everywhere):
        return []
    m, gamma = s.size, case.gamma

    def both(z):
        value, g = restricted(z[:m] - z[m:])
        return value, np.concatenate([g, -g])

    low, high = case.box if case.box is not None else (np.full(case.d, -np.inf), np.full(case.d, np.inf))
    if isinstance(gamma, S.Simplex):
        low = np.zeros(case.d)
    bounds = [(0, max(b, 0)) for b in high[s]] + [(0, max(-b, 0)) for b in low[s]]
    parts = [(gamma, np.ones(m, bool))]
    if isinstance(gamma, S.GroupWise):
        parts = [(inner, (s < max(1, case.d // 2)) == (j == 0)) for j, inner in enumerate(gamma.sets)]
    rules = []
    for inner, here in parts:
        if isinstance(inner, S.L1Ball | S.Simplex):
            r = inner.total if isinstance(inner, S.Simplex) else inner.radius
            a = np.tile(here.astype(float), 2)
            rules.append(
                {"type": "eq" if isinstance(inner, S.Simplex) else "ineq", "fun": lambda z, a=a, r=r: r - a @ z}
            )
        elif isinstance(inner, S.L2Ball):
            rules.append(
                {"type": "ineq", "fun": lambda z, h=here, r=inner.radius: r * r - ((z[:m] - z[m:])[h] ** 2).sum()}
            )
    w = np.zeros(case.d)
    w[s] = start if np.isfinite(start).all() else 0.0
    w = case.pull(w)
    begin = np.zeros(2 * m) if w is None else np.concatenate([np.maximum(w[s], 0), np.maximum(-w[s], 0)])
    if isinstance(gamma, S.Simplex) and w is None:
        begin[:m] = gamma.total / m
    found = optimize.minimize(
        both, begin, jac=True, method="SLSQP", bounds=bounds, constraints=rules, options={"ftol": 1e-14, "maxiter": 200}
    )
    return [begin[:m] - begin[m:], found.x[:m] - found.x[m:]]


def judge(seed, alter=None):
    """What is wrong with what the library says of a case: a list of words; and whether it was called optimal."""
    case = make(seed)
    values = {frozenset(one): least(case, s) for one, s in case.supports()}
    found = [v for v in values.values() if v is not None]
    keep = case.keep or None
    try:
        exact = seed % 3 == 0
        options = {"method": "exact", "time_limit": 3.0} if exact else {}
        result = ez.minimize(case.risk, case.sparsity, case.gamma, keep=keep, **options)
        certificate = result.certificate if exact else ez.certify(
            case.risk, result, **({"time_limit": 3.0} if seed % 3 == 1 else {})
        )  # fmt: skip
    except ValueError as error:
        words = str(error)
        silent = "no bound to work with" in words or ("has no member" in words and not found)
        return ([] if silent else [f"refused: {words}"]), False
    if alter is not None:
        alter(certificate)
    wrong = []
    used = {a for a, atom in enumerate(case.atoms) if np.any(result.x[atom] != 0)}
    if not case.allowed(used):
        wrong.append(f"{used} is not admitted")
    fun, zero = float(case.objective(result.x)[0]), float(case.objective(np.zeros(case.d))[0])
    best = min([*found, fun])
    scale = max(abs(best), abs(zero - best), 1e-300)
    if abs(fun - result.fun) > 1e-6 * scale:
        wrong.append(f"fun {result.fun} is not R(x), {fun}")
    if not certificate.lower_bound <= best + 1e-9 * scale:
        wrong.append(f"bound {certificate.lower_bound:.12g} above {best:.12g}")
    optimal = certificate.status.name == "OPTIMAL"
    if optimal and result.fun > best + 3e-6 * scale:
        wrong.append(f"called optimal: {result.fun:.12g}, and {best:.12g} is possible")
    inside, outside = set(certificate.proved_in.tolist()), set(certificate.proved_out.tolist())
    for one, value in values.items():
        if value is not None and value < result.fun - 1e-9 * scale or value == best:
            there = {i for a in one for i in case.atoms[a]} | (set(range(case.d)) - {i for a in case.atoms for i in a})
            if not inside <= there or outside & there:
                wrong.append(f"proved in {inside}, out {outside}, and {there} is as good: {value} beside {result.fun}")
    return wrong, optimal


@pytest.mark.filterwarnings("ignore:k=")
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_against_every_support(first):
    told = {seed: judge(seed) for seed in range(first, first + 20)}
    assert not {seed: wrong for seed, (wrong, _) in told.items() if wrong}
    assert sum(optimal for _, optimal in told.values()) >= 8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:k=")
@pytest.mark.parametrize("first", range(120, 3620, 100))
def test_against_every_support_of_many(first):
    assert not {seed: wrong for seed in range(first, first + 100) if (wrong := judge(seed)[0])}
