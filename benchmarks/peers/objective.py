"""What is compared: the same R, the same refit and the same checks for everyone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse


@dataclass(frozen=True, eq=False)
class Objective:
    """min R(w), at most k nonzeros, w >= 0 if `nonnegative`, sum of |w_i| <= cap in each of the `groups` if given.

    R is (1/n)||Xw - y||², without 1/n if `total`, or the mean of log(1 + exp(-y xᵀw)) if `kind` is "logistic".
    """

    X: Any
    y: np.ndarray
    k: int
    kind: str = "least-squares"
    truth: np.ndarray | None = None
    nonnegative: bool = False
    groups: np.ndarray | None = None
    cap: float | None = None
    total: bool = False

    def value(self, w, X=None):
        """R(w)."""
        Xw = (self.X if X is None else X) @ w
        if self.kind == "logistic":
            return float(np.logaddexp(0.0, -self.y * Xw).mean())
        return float(np.sum((Xw - self.y) ** 2) / (1 if self.total else len(self.y)))

    def violation(self, w):
        """How far w is outside of the constraint; 0 if inside."""
        if self.nonnegative:
            return float(max(0.0, -w.min()))
        if self.groups is not None:
            return float(max(0.0, np.bincount(self.groups, np.abs(w)).max() - self.cap))
        return 0.0

    def f1(self, w):
        """F1 score of the support against the true one; nan where none is known."""
        if self.truth is None:
            return float("nan")
        found, true = w != 0, self.truth != 0
        return float(2 * np.sum(found & true) / max(1, found.sum() + true.sum()))

    def refit(self, w):
        """argmin of R over the vectors that have the support of w and obey the constraint."""
        support = np.flatnonzero(w)
        best = np.zeros_like(w)
        if support.size:
            A = self.X[:, support]
            A = A.toarray() if sparse.issparse(A) else A
            best[support] = self._refit(A, w[support], support)
        return best

    def _refit(self, A, start, support):
        if self.kind == "logistic":
            return newton_logistic(A, self.y, start)
        if self.nonnegative:
            return optimize.nnls(A, self.y)[0]
        if self.groups is not None:
            return capped_least_squares(A, self.y, self.groups[support], self.cap, start)
        return linalg.lstsq(A, self.y)[0]


def newton_logistic(A, y, w, n_iter=60):
    """argmin of mean log(1 + exp(-y Aw)) by Newton's method with halving."""

    def value(w):
        return np.logaddexp(0.0, -y * (A @ w)).mean()

    fun = value(w)
    for _ in range(n_iter):
        p = 1 / (1 + np.exp(np.clip(y * (A @ w), -500, 500)))
        gradient = -A.T @ (p * y) / len(y)
        hessian = (A.T * (p * (1 - p))) @ A / len(y)
        step = linalg.solve(hessian + 1e-12 * np.eye(len(w)), -gradient, assume_a="pos")
        t = 1.0
        while (new := value(w + t * step)) > fun and t > 1e-8:
            t /= 2
        if new >= fun - 1e-14:
            break
        w, fun = w + t * step, new
    return w


def capped_least_squares(A, y, groups, cap, w, n_iter=20_000):
    """argmin of ||Aw - y||² with the sum of |w_i| at most cap in each group, by accelerated projected gradient."""
    gram, target = A.T @ A, A.T @ y
    step, t, v = 1 / linalg.eigvalsh(gram)[-1], 1.0, w
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    for _ in range(n_iter):
        new = v - step * (gram @ v - target)
        for m in members:
            new[m] = project_l1(new[m], cap)
        if (v - new) @ (new - w) > 0:
            t = 1.0  # restart
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        v, moved = new + (t - 1) / t_new * (new - w), np.abs(new - w).max()
        w, t = new, t_new
        if moved < 1e-15:
            break
    return w


def project_l1(v, radius):
    """The nearest point with sum of |w_i| <= radius."""
    size = np.abs(v)
    if size.sum() <= radius:
        return v
    ordered = np.sort(size)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, v.size + 1)
    return np.sign(v) * np.maximum(size - excess[ordered > excess][-1], 0)
