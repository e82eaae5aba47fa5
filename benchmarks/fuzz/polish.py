"""Feasible points as good as they can be made: Newton's method on the active face, in 72 digits; SLSQP to begin."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
from scipy import optimize

from .objectives import eliminate
from .rationals import Vector
from .regions import MP, Region, fraction, mp


def polish(objective: Any, region: Region, start: Vector, steps: int = 7) -> tuple[Any, Vector] | None:
    """(R, w): the best member met on the way from the start, each of its active sets being tried."""
    best: tuple[Any, Vector] | None = None
    seen = set()
    for tolerance in (1e-10, 1e-5, 0.0):
        active = _active(region, start, tolerance)
        key = (tuple(active[0]), tuple(map(id, active[1])), tuple(map(id, active[2])))
        if key in seen:
            continue
        seen.add(key)
        found = _newton(objective, region, start, active, steps)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best


def _active(region: Region, w: Vector, tolerance: float) -> tuple[Any, Any, Any]:
    at = []
    for i, v in w.items():
        for bound in (region.lower.get(i), region.upper.get(i)):
            if bound is not None and abs(v - bound) <= tolerance * abs(bound):
                at.append(i)
    rows = [r for r in region.rows if set(r.coef) & set(w)]
    rows = [r for r in rows if r.equal or r.rhs - r.left(w) <= tolerance * abs(r.rhs)]
    curves = [c for c in region.curves if mp(c.radius) - c.left(w) <= tolerance * mp(c.radius)]
    return at, rows, curves


def _newton(objective: Any, region: Region, start: Vector, active: Any, steps: int) -> tuple[Any, Vector] | None:
    at, rows, curves = active
    member = region.inside(start)
    if member is None:
        return None
    w = {i: mp(v) for i, v in start.items()}
    b = objective.intercepts(start)
    best = objective.value(member, b), member
    support = [i for i in w if i not in at]
    for _ in range(steps if support else 0):
        _, g, H = objective.look(w, b, list(w))
        order = [list(w).index(i) for i in support] + list(range(len(w), len(g)))
        g, H = [g[i] for i in order], [[H[i][j] for j in order] for i in order]
        step = _kkt_step(g, H, _constraints(w, support, rows, curves), len(support))
        t, done = MP.mpf(1), True
        for _ in range(6):
            trial = dict(w)
            for i, s in zip(support, step, strict=False):
                trial[i] = w[i] + t * s
            member = region.inside({i: fraction(v) for i, v in trial.items() if v})
            intercepts = [v + t * s for v, s in zip(b, step[len(support) :], strict=False)]
            if member is not None and (value := objective.value(member, intercepts)) < best[0]:
                done = best[0] - value <= abs(value) * 1e-40
                best = value, member
                w, b = trial, intercepts
                break
            t /= 8
        support = [i for i in support if w.get(i)]
        if done or not support:
            break
    return best


def _constraints(w: dict[int, Any], support: list[int], rows: Any, curves: Any) -> list[tuple[Any, list[Any], Any]]:
    """(value, gradient, diagonal of the Hessian) of each active constraint along the support."""
    exact = {i: fraction(v) for i, v in w.items()}
    signs = {i: 1 if v > 0 else -1 for i, v in w.items()}
    out = []
    for row in rows:
        slopes = row.slopes(signs)
        if any(i in slopes for i in support):
            out.append((mp(row.left(exact) - row.rhs), [mp(slopes.get(i, 0)) for i in support], None))
    for curve in curves:
        p, value, slope, bend = MP.mpf(curve.p), -(mp(curve.radius) ** MP.mpf(curve.p)), [], []
        for i in w:
            if i in curve.scale:
                size = abs(w[i]) / mp(curve.scale[i])
                value += size**p
                if i in support:
                    slope.append(p * size ** (p - 1) * signs[i] / mp(curve.scale[i]))
                    bend.append(p * (p - 1) * size ** (p - 2) / mp(curve.scale[i]) ** 2)
            elif i in support:
                slope.append(MP.mpf(0))
                bend.append(MP.mpf(0))
        order = [i for i in w if i in support]
        slope, bend = ([values[order.index(i)] for i in support] for values in (slope, bend))
        if any(slope):
            out.append((value, slope, bend))
    return out


def _kkt_step(g: list[Any], H: list[list[Any]], constraints: Any, n: int) -> list[Any]:
    """The Newton step of the Lagrangian, its multipliers by least squares."""
    J = [slope + [MP.mpf(0)] * (len(g) - n) for _, slope, _ in constraints]
    m = len(J)
    if m:
        JJ = [[sum(a * b for a, b in zip(r, s, strict=True)) for s in J] for r in J]
        prices = eliminate(JJ, [-sum(a * b for a, b in zip(r, g, strict=True)) for r in J])
        for (_, _, bend), price in zip(constraints, prices, strict=True):
            for i, v in enumerate(bend or ()):
                H[i][i] += price * v
    system = [row + [J[c][i] for c in range(m)] for i, row in enumerate(H)] + [row + [MP.mpf(0)] * m for row in J]
    return eliminate(system, [-v for v in g] + [-value for value, _, _ in constraints])[: len(g)]


def descend(value: Any, region: Region, support: tuple[int, ...], start: np.ndarray, unit: np.ndarray) -> Vector | None:
    """A good point on the support by SLSQP, in units in which the columns are comparable; `value` gives (R, ∇R).

    Entries in absolute rows are split into positive and negative parts.
    """
    S = list(support)
    n = len(S)

    def join(u: np.ndarray) -> np.ndarray:
        return (u[:n] - u[n:]) * unit[S]

    def function(u: np.ndarray) -> tuple[float, np.ndarray]:
        w = np.zeros(region.d)
        w[S] = join(u)
        fun, gradient = value(w)
        slope = gradient[S] * unit[S]
        return fun, np.concatenate([slope, -slope])

    rules = []
    for row in region.rows:
        a = np.array([float(row.coef.get(i, 0)) for i in S]) * unit[S]
        right = float(row.rhs)
        size = max(float(np.abs(a).max(initial=0)), 1e-300)
        a = np.concatenate([a, a if row.absolute else -a]) / size
        rules.append({"type": "eq" if row.equal else "ineq", "fun": lambda u, a=a, c=right / size: c - a @ u,
                      "jac": lambda u, a=a: -a})  # fmt: skip
    for curve in region.curves:
        s, r, p = np.array([float(curve.scale.get(i, np.inf)) for i in S]), float(curve.radius), curve.p
        rules.append({"type": "ineq", "fun": lambda u, s=s, r=r, p=p: 1 - np.sum(np.abs(join(u) / s / r) ** p)})
    bounds = []
    for sign in (1, -1):
        for i in S:
            far = region.upper.get(i) if sign > 0 else region.lower.get(i)
            bounds.append((0.0, None if far is None else max(0.0, sign * float(far) / unit[i])))
    begin = np.concatenate([np.maximum(start[S], 0), np.maximum(-start[S], 0)]) / np.tile(unit[S], 2)
    begin = np.clip(begin, [b[0] for b in bounds], [np.inf if b[1] is None else b[1] for b in bounds])
    with warnings.catch_warnings(), contextlib.suppress(ValueError, ArithmeticError, np.linalg.LinAlgError):
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            found = optimize.minimize(function, begin, jac=True, method="SLSQP", bounds=bounds, constraints=rules,
                                      options={"ftol": 1e-14, "maxiter": 60})  # fmt: skip
        w = join(found.x)
        if np.isfinite(w).all():
            return {i: fraction(MP.mpf(float(v))) for i, v in zip(S, w, strict=True) if v}
    return None
