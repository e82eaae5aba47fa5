"""The least value of a small problem over all supports that a rule admits; numpy and scipy alone."""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear, minimize, nnls

CAPPED = ("L1Ball", "L2Ball", "GroupWise")


@dataclass(frozen=True, eq=False)
class Region:
    """Γ by its name: bounds of the entries, or a cap on a norm, of the whole or in each of the blocks."""

    name: str
    low: np.ndarray
    high: np.ndarray
    cap: float = np.inf
    blocks: np.ndarray | None = None

    def violation(self, w):
        """How far w is outside."""
        sizes = [self.size(w, block) for block in np.unique(self._blocks)] if self.name in CAPPED else [0.0]
        return max(0.0, (self.low - w).max(), (w - self.high).max(), max(sizes) - self.cap)

    @property
    def _blocks(self):
        return np.zeros(self.low.size, int) if self.blocks is None else self.blocks

    def size(self, w, block):
        """The norm of w in a block."""
        part = w[self._blocks == block]
        return np.linalg.norm(part) if self.name == "L2Ball" else np.abs(part).sum()

    def rules(self, support):
        """The caps for w = p - q on a support, p, q >= 0, as scipy states them."""
        found = []
        for block in np.unique(self._blocks[support]) if self.name in CAPPED else ():
            mine, m = np.flatnonzero(np.tile(self._blocks[support] == block, 2)), support.size
            if self.name == "L2Ball":
                found.append(lambda x, m=m: 1 - np.sum((x[:m] - x[m : 2 * m]) ** 2) / self.cap**2)
            else:
                found.append(lambda x, mine=mine: 1 - x[mine].sum() / self.cap)
        return [{"type": "ineq", "fun": rule} for rule in found]


@dataclass(frozen=True, eq=False)
class Question:
    """min R(w) over Γ and the supports of a rule.

    R is (1/n)||Xw - y||² for each column of y, logistic for y in ±1, multinomial for classes 0, 1, 2; + ridge/2 ||w||².
    The coordinates of each output follow those of the one before.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    ridge: float
    intercept: bool
    region: Region
    supports: list[np.ndarray]
    admits: Any

    @property
    def outputs(self):
        return {"multinomial": 3, "targets": self.y.shape[-1]}.get(self.kind, 1)

    def value(self, w):
        """R(w), by the best intercept."""
        W = w.reshape(self.outputs, -1)
        used = np.flatnonzero(w)
        if self.kind in ("least squares", "targets"):
            r = (self.y if self.y.ndim == 2 else self.y[:, None]) - self.X @ W.T
            r = r - r.mean(0) if self.intercept else r
            return float((r**2).sum() / len(r) + self.ridge / 2 * (w @ w))
        if not self.intercept:
            return self._smooth(w[used], used)[0]
        fixed = minimize(lambda b: self._smooth(np.append(w[used], b), used)[0], np.zeros(self._shifts), method="BFGS")
        return float(fixed.fun)

    @property
    def _shifts(self):
        return self.outputs if self.intercept else 0

    def _smooth(self, x, support):
        """R and its slope at values on a support, and the intercepts behind them."""
        w = np.zeros(self.outputs * self.X.shape[1])
        w[support] = x[: support.size]
        shift = x[support.size :] if self.intercept else np.zeros(self.outputs)
        t, n = self.X @ w.reshape(self.outputs, -1).T + shift, len(self.X)
        if self.kind == "logistic":
            m = self.y * t[:, 0]
            fun, slope = np.logaddexp(0, -m).mean(), (-self.y * 0.5 * (1 - np.tanh(0.5 * m)))[:, None] / n
        else:
            t = t - t.max(axis=1, keepdims=True)
            p, Y = np.exp(t) / np.exp(t).sum(axis=1, keepdims=True), np.eye(3)[self.y]
            fun, slope = -np.log((p * Y).sum(axis=1)).mean(), (p - Y) / n
        g = (self.X.T @ slope).T.ravel() + self.ridge * w
        own = np.append(g[support], slope.sum(axis=0)) if self.intercept else g[support]
        return float(fun + self.ridge / 2 * (w @ w)), own

    def least(self, below):
        """The least value of any support; supports whose value without Γ is not below the known ones are not solved."""
        free = [(self._without_region(S), i) for i, S in enumerate(self.supports)]
        if self.region.name == "Everywhere":
            return min(free)[0]
        best = below
        for bound, i in sorted(free):
            if bound >= best - 1e-7 * abs(best):
                break
            best = min(best, self._within_region(self.supports[i]))
        return best

    def _parts(self, support):
        """Columns and target of the least squares problem on a support, of all outputs, with rows for the ridge."""
        X, y = self.X, self.y if self.y.ndim == 2 else self.y[:, None]
        if self.intercept:
            X, y = X - X.mean(0), y - y.mean(0)
        A = np.kron(np.eye(self.outputs), X)[:, support] / np.sqrt(len(X))
        b = y.T.ravel() / np.sqrt(len(X))
        ridge = np.sqrt(self.ridge / 2) * np.eye(support.size)
        return np.vstack([A, ridge]), np.append(b, np.zeros(support.size))

    def _without_region(self, support):
        if self.kind in ("least squares", "targets"):
            A, b = self._parts(support)
            return float(np.sum((A @ np.linalg.lstsq(A, b, rcond=None)[0] - b) ** 2))
        start = np.zeros(support.size + self._shifts)
        options = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9}
        return float(minimize(self._smooth, start, (support,), jac=True, method="L-BFGS-B", options=options).fun)

    def _within_region(self, support):
        region, m = self.region, support.size
        low, high = region.low[support], region.high[support]
        if self.kind in ("least squares", "targets"):
            A, b = self._parts(support)
            if region.name == "NonNegative":
                return float(nnls(A, b)[1] ** 2)
            if region.name == "Box":
                return float(2 * lsq_linear(A, b, (low, high), method="bvls", tol=1e-13).cost)

            def fun(x):
                r = A @ x - b
                return r @ r, 2 * A.T @ r
        else:

            def fun(x):
                return self._smooth(x, support)

        def split(x):
            value, g = fun(np.append(x[:m] - x[m : 2 * m], x[2 * m :]))
            return value, np.concatenate([g[:m], -g[:m], g[m:]])

        extra = 0 if self.kind in ("least squares", "targets") else self._shifts
        bounds = [(0.0, max(most, 0.0)) for most in (*high, *-low)]
        bounds += [(-np.inf, np.inf)] * extra
        start = np.concatenate([np.full(2 * m, 1e-3 * min(region.cap, 1.0)), np.zeros(extra)])
        rules = region.rules(support)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = minimize(
                split, start, jac=True, bounds=bounds, constraints=rules, method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-13},
            )  # fmt: skip
        inside = all(rule["fun"](found.x) > -1e-7 for rule in rules)
        return float(found.fun) if inside and np.isfinite(found.fun) else np.inf


def group_supports(group, k, outputs=1):
    """The supports of at most k groups, with the coordinates of no group (-1); and whether a support is one."""
    group = np.tile(group, outputs)
    names = sorted(set(group.tolist()) - {-1})
    found = [
        np.flatnonzero(np.isin(group, [-1, *chosen])) for chosen in itertools.combinations(names, min(k, len(names)))
    ]
    return found, lambda S: len(set(group[S].tolist()) - {-1}) <= k


def quota_supports(group, k, limits, outputs=1):
    """The largest supports of at most k features, at most limits[g] of group g; and whether a support is one."""
    p = len(group)

    def admits(S):
        used = np.unique(np.asarray(S) % p)
        return used.size <= k and all(np.count_nonzero(group[used] == g) <= m for g, m in limits.items())

    for size in range(min(k, p), -1, -1):  # of a matroid: those that cannot grow are all of one size
        found = [np.array(S, int) for S in itertools.combinations(range(p), size) if admits(S)]
        if found:
            return [np.concatenate([S + a * p for a in range(outputs)]) for S in found], admits
    raise AssertionError("the empty support is admitted")
