"""R from its definition: least squares and quadratics in rational arithmetic, other losses in 72 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from .rationals import Vector, integers, solve, whole
from .regions import MP, Region, mp

Look = tuple[mpmath.mpf, list[mpmath.mpf], list[list[mpmath.mpf]]]  # value, gradient, Hessian


class Form:
    """R(w) = (wᵀAw - 2cᵀw + c0) / D with whole numbers A, c, c0 and D."""

    exact = True
    n_intercepts = 0

    def __init__(self, A: Any, c: Any, c0: int, D: int) -> None:
        self.A, self.c, self.c0, self.D, self.d = A, c, c0, D, len(c)

    @classmethod
    def quadratic(cls, Q: Any, b: Any) -> Form:
        """½wᵀQw - bᵀw, Q taken symmetric."""
        (q, one), (c, two) = integers(Q), integers(b)
        return cls((q + q.T) * two, 2 * c * one, 0, 4 * one * two)

    @classmethod
    def least_squares(cls, X: Any, y: Any, ridge: float, weight: Any, intercept: bool, offset: Any = None) -> Form:
        """Σω(xᵀw + b + o - y)²/Σω + (ridge/2)||w||², with the best b or none."""
        both, q = integers(np.column_stack([X, y, *([] if offset is None else [offset])]).astype(float))
        if offset is not None:  # y - o, exactly
            both = np.column_stack([both[:, :-2], both[:, -2] - both[:, -1]])
        omega = integers(np.ones(len(both)) if weight is None else weight)[0]
        total, D = sum(omega), sum(omega) * q * q
        gram = both.T @ (omega[:, None] * both)
        if intercept:
            mean = omega @ both
            gram, D = gram * total - np.outer(mean, mean), D * total
        top, bottom = float(ridge).as_integer_ratio()
        gram = gram * (2 * bottom)
        A = gram[:-1, :-1] + top * D * np.eye(len(gram) - 1, dtype=int).astype(object)
        return cls(A, gram[:-1, -1], gram[-1, -1], 2 * bottom * D)

    def value(self, w: Vector, b: Any = None) -> Fraction:
        """R(w)."""
        q = math.lcm(*(v.denominator for v in w.values()))
        S = list(w)
        u = np.array([v.numerator * (q // v.denominator) for v in w.values()], dtype=object)
        top = u @ self.A[np.ix_(S, S)] @ u - 2 * q * (self.c[S] @ u) if S else 0
        return Fraction(int(top + self.c0 * q * q), int(self.D * q * q))

    def minimum(self, region: Region, supports: Any) -> tuple[Fraction, Vector]:
        """The least R over the members of a polyhedron that live on one of the supports, and where."""
        best: tuple[Fraction, Vector] | None = None
        for support in supports:
            for fixed, equations in region.faces(support):
                w = self._on_face(support, fixed, equations)
                if w is not None and (best is None or self.value(w) < best[0]) and region.violation(w) == 0:
                    best = self.value(w), w
        if best is None:
            raise ValueError("no member on any of the supports")
        return best

    def _on_face(self, support: Any, fixed: Vector, equations: list[tuple[Vector, Fraction]]) -> Vector | None:
        free = [i for i in support if i not in fixed]
        if not free:
            return dict(fixed)
        m = len(equations)
        rows = []
        for i in free:
            right = self.c[i] - sum(self.A[i, j] * v for j, v in fixed.items())
            rows.append(whole([*self.A[i, free], *(e.get(i, 0) for e, _ in equations), right]))
        for e, right in equations:
            right = right - sum(e.get(j, 0) * v for j, v in fixed.items())
            rows.append(whole([*(e.get(i, 0) for i in free), *[0] * m, right]))
        found = solve(rows)
        if found is None:
            return None
        return {i: v for i, v in [*fixed.items(), *zip(free, found, strict=False)] if v}

    def look(self, w: dict[int, mpmath.mpf], b: Any, support: list[int]) -> Look:
        """Value, gradient and Hessian along the support."""
        A = [[mp(int(self.A[i, j])) / self.D for j in support] for i in support]
        c = [mp(int(self.c[i])) / self.D for i in support]
        u = [w[i] for i in support]
        Au = [sum(a * x for a, x in zip(row, u, strict=True)) for row in A]
        value = sum(x * (a - 2 * t) for x, a, t in zip(u, Au, c, strict=True)) + mp(int(self.c0)) / self.D
        return value, [2 * (a - t) for a, t in zip(Au, c, strict=True)], [[2 * a for a in row] for row in A]

    def intercepts(self, w: Any) -> list[mpmath.mpf]:
        """None are open: the best one is in A, c and c0."""
        return []


def logistic(z: list[mpmath.mpf], y: Any) -> Look:
    """log(1 + exp(-yz)), y = ±1."""
    margin = y * z[0]
    e = MP.exp(-abs(margin))
    p = (e if margin > 0 else 1) / (1 + e)  # of the other label
    value = MP.log1p(e) + (0 if margin > 0 else -margin)
    return value, [-y * p], [[e / (1 + e) ** 2]]


def poisson(z: list[mpmath.mpf], y: Any) -> Look:
    """exp(z) - y - y(z - log y)."""
    mean = MP.exp(z[0])
    return mean - y - (y * (z[0] - MP.log(y)) if y else 0), [mean - y], [[mean]]


def huber(delta: float) -> Callable[[list[mpmath.mpf], Any], Look]:
    """r² up to delta, 2 delta |r| - delta² beyond."""
    limit = mp(delta)

    def loss(z: list[mpmath.mpf], y: Any) -> Look:
        r = z[0] - y
        if abs(r) <= limit:
            return r * r, [2 * r], [[MP.mpf(2)]]
        return 2 * limit * abs(r) - limit**2, [2 * limit * MP.sign(r)], [[MP.mpf(0)]]

    return loss


def gamma(z: list[mpmath.mpf], y: Any) -> Look:
    """y exp(-z) - 1 - log(y) + z."""
    ratio = y * MP.exp(-z[0])
    return ratio - 1 - MP.log(y) + z[0], [1 - ratio], [[ratio]]


def squared_hinge(z: list[mpmath.mpf], y: Any) -> Look:
    """max(0, 1 - yz)², y = ±1."""
    short = 1 - y * z[0]
    if short <= 0:
        return MP.mpf(0), [MP.mpf(0)], [[MP.mpf(0)]]
    return short * short, [-2 * y * short], [[MP.mpf(2)]]


def quantile(level: float, smoothing: float) -> Callable[[list[mpmath.mpf], Any], Look]:
    """The pinball loss of y - z, its kink rounded off from below."""
    tau, s = mp(level), mp(smoothing)

    def loss(z: list[mpmath.mpf], y: Any) -> Look:
        r = y - z[0]
        if (tau - 1) * s <= r <= tau * s:
            return r * r / (2 * s), [-r / s], [[1 / s]]
        slope = tau if r > 0 else tau - 1
        return slope * r - slope**2 * s / 2, [-slope], [[MP.mpf(0)]]

    return loss


def multinomial(z: list[mpmath.mpf], y: Any) -> Look:
    """log Σ exp(z_j) - z_y."""
    top = max(z)
    e = [MP.exp(v - top) for v in z]
    total = sum(e)
    p = [v / total for v in e]
    hessian = [[p[i] * ((i == j) - p[j]) for j in range(len(z))] for i in range(len(z))]
    return MP.log(total) + top - z[y], [v - (j == y) for j, v in enumerate(p)], hessian


class Model:
    """R(w) = Σω ℓ(xᵀw + b + o, y)/Σω + (ridge/2)||w||² in 72 digits, b an unknown of its own; w class by class."""

    exact = False

    def __init__(
        self, loss: Any, X: Any, y: Any, ridge: float, weight: Any, intercept: bool, outputs: int, offset: Any = None
    ) -> None:
        self.loss, self.outputs, self.p = loss, outputs, X.shape[1]
        self.d, self.ridge = outputs * self.p, mp(float(ridge))
        self.X = [[MP.mpf(float(v)) for v in row] for row in X]
        self.y = [int(v) if outputs > 1 else MP.mpf(float(v)) for v in y]
        known = np.zeros((len(y), outputs)) if offset is None else np.reshape(offset, (len(y), outputs))
        self.offset = [[MP.mpf(float(v)) for v in row] for row in known]
        omega = [MP.mpf(float(v)) for v in (np.ones(len(y)) if weight is None else weight)]
        total = sum(omega)
        self.share = [v / total for v in omega]
        self.open = list(range(outputs > 1, outputs)) if intercept else []  # the first of several classes has b = 0
        self.n_intercepts = len(self.open)

    def _predictions(self, w: dict[int, Any], b: list[Any], x: list[Any], offset: list[Any]) -> list[Any]:
        z = list(offset)
        for i, v in w.items():
            z[i // self.p] += x[i % self.p] * v
        for j, v in zip(self.open, b, strict=True):
            z[j] += v
        return z

    def value(self, w: Any, b: list[Any] | None = None) -> mpmath.mpf:
        """R(w) at these intercepts, or at the best ones."""
        w = {i: mp(v) for i, v in w.items()}
        b = self.intercepts(w) if b is None else b
        rows = zip(self.share, self.X, self.y, self.offset, strict=True)
        total = sum(share * self.loss(self._predictions(w, b, x, o), y)[0] for share, x, y, o in rows)
        return total + self.ridge / 2 * sum(v * v for v in w.values())

    def look(self, w: dict[int, Any], b: list[Any], support: list[int]) -> Look:
        """Value, gradient and Hessian along the support and then the intercepts."""
        places = [(i // self.p, i % self.p) for i in support] + [(j, -1) for j in self.open]
        n = len(places)
        value, g, H = MP.mpf(0), [MP.mpf(0)] * n, [[MP.mpf(0)] * n for _ in range(n)]
        for share, x, y, o in zip(self.share, self.X, self.y, self.offset, strict=True):
            loss, slope, bend = self.loss(self._predictions(w, b, x, o), y)
            value += share * loss
            along = [x[f] if f >= 0 else 1 for _, f in places]
            for s, (j, _) in enumerate(places):
                g[s] += share * slope[j] * along[s]
                for t in range(s + 1):
                    H[s][t] += share * bend[j][places[t][0]] * along[s] * along[t]
        for s, i in enumerate(support):
            value += self.ridge / 2 * w[i] ** 2
            g[s] += self.ridge * w[i]
            H[s][s] += self.ridge
        for s in range(n):
            for t in range(s):
                H[t][s] = H[s][t]
        return value, g, H

    def intercepts(self, w: dict[int, Any]) -> list[mpmath.mpf]:
        """The best ones for w: by a safe Newton method for one, class by class and then together for several."""
        w = {i: mp(v) for i, v in w.items()}
        if len(self.open) <= 1:
            return [self._root(w, [MP.mpf(0)], 0) for _ in self.open]
        b = [MP.mpf(0)] * self.n_intercepts
        value = self.value(w, b)
        for turn in range(60):
            _, g, H = self.look(w, b, [])
            step = eliminate(H, [-v for v in g])
            trial, t = moved(b, step, MP.mpf(1)), 1
            while t < 64 and not (new := self.value(w, trial)) < value:
                t *= 4
                trial = moved(b, step, MP.mpf(1) / t)
            if not new < value:
                trial = [self._root(w, b, j) if j == turn % len(b) else v for j, v in enumerate(b)]
                new = self.value(w, trial)
            gain, b, value = value - new, trial, new
            if gain <= MP.mpf(10) ** -45 * abs(value) and turn >= len(b):
                break
        return b

    def _root(self, w: dict[int, Any], b: list[Any], j: int) -> mpmath.mpf:
        """The best b_j for the others: enclosed by longer and longer steps, then Newton's method or bisection."""
        b, ends, step = list(b), [None, None], MP.mpf(1)
        for _ in range(600):
            _, g, H = self.look(w, b, [])
            slope, bend = g[j], H[j][j]
            if slope == 0:
                break
            ends[slope > 0] = b[j]
            if None in ends:
                move = -4 * abs(step) if slope > 0 else 4 * abs(step)
            else:
                move = -slope / bend if bend > 0 else MP.inf
                if not ends[0] < b[j] + move < ends[1] or 2 * abs(move) > abs(step):
                    move = (ends[0] + ends[1]) / 2 - b[j]
            step = move
            b[j] += move
            if abs(move) <= MP.mpf(10) ** -55 * (1 + abs(b[j])):
                break
        return b[j]


def moved(b: list[Any], step: list[Any], t: Any) -> list[Any]:
    """b + t step."""
    return [v + t * s for v, s in zip(b, step, strict=True)]


def eliminate(H: list[list[Any]], right: list[Any]) -> list[Any]:
    """A solution of Hx = right in 72 digits, with full pivoting; unknowns of vanishing pivots are 0."""
    n = len(right)
    rows = [[*row, r] for row, r in zip(H, right, strict=True)]
    size = max((abs(v) for row in H for v in row), default=0)
    order, out = [], [MP.mpf(0)] * n
    for step in range(n):
        left = [(i, j) for i in range(step, n) for j in range(n) if j not in order]
        i, j = max(left, key=lambda place: abs(rows[place[0]][place[1]]))
        if abs(rows[i][j]) <= size * MP.mpf(10) ** -60:
            break
        rows[step], rows[i] = rows[i], rows[step]
        order.append(j)
        for other in range(n):
            if other != step and rows[other][j]:
                factor = rows[other][j] / rows[step][j]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[step], strict=True)]
    for row, j in zip(rows, order, strict=False):
        out[j] = row[-1] / row[j]
    return out
