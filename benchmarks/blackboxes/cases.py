"""The functions: each a pair (what is asked, the truth behind it), with its start."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Case:
    """A function with noise and failures, its truth, and where to start."""

    asked: Any
    truth: Any
    x0: np.ndarray
    support: np.ndarray | None = None
    lowest: float = 0.0


def idle_inputs(d, seed, noise):
    """Σ_{i in S}(w_i - t_i)², |S| = 5 at random places, t uniform in ±(0.5, 3); noise is a share of f(0)."""
    rng = np.random.default_rng([seed, d])
    S = rng.choice(d, 5, replace=False)
    t = rng.uniform(0.5, 3, 5) * rng.choice([-1, 1], 5)
    errors, size = np.random.default_rng([seed, d, 1]), noise * float(t @ t)

    def truth(w):
        return float(np.sum((w[S] - t) ** 2))

    def asked(w):
        return truth(w) + (size * errors.standard_normal() if size else 0.0)

    return Case(asked, truth, np.zeros(d), S)


def simulator(seed):
    """Five of 200 inputs, t standard normal, errors of 0.05, one call in ten raising."""
    d = 200
    rng, dice = np.random.default_rng([seed, d]), np.random.default_rng([seed, 99])
    S, t = rng.choice(d, 5, replace=False), rng.standard_normal(5)

    def truth(w):
        return float(np.sum((w[S] - t) ** 2))

    def asked(w):
        if dice.random() < 0.1:
            raise RuntimeError("did not converge")
        return truth(w) + 0.05 * dice.standard_normal()

    return Case(asked, truth, np.zeros(d), S)


def small(name, d, seed, noise):
    """Three of d inputs, at 1, -1 and 0.5: alone, coupled with all others, or far from a parabola; noise of f(0)."""
    rng = np.random.default_rng([seed, d, 7])
    S, t = rng.choice(d, 3, replace=False), np.array([1.0, -1.0, 0.5])
    errors, target, mixed = np.random.default_rng([seed, 1]), np.zeros(d), rng.standard_normal((d, d)) / np.sqrt(d)
    target[S] = t

    def idle(w):
        return float(np.sum((w[S] - t) ** 2))

    def coupled(w):
        return 0.5 * float(np.sum((w - target) ** 2) + np.sum((mixed @ (w - target)) ** 2))

    def cosh(w):
        return float(np.sum(np.cosh(np.clip(w[S] - t, -50, 50)) - 1))

    truth = {"idle": idle, "coupled": coupled, "cosh": cosh}[name]
    size = noise * truth(np.zeros(d))
    return Case(lambda w: truth(w) + size * errors.standard_normal(), truth, np.zeros(d), S)


def zoro(name, s, seed, n=2000):
    """ZORO's functions: Σ_{i<s} w_i², and half the sum of the s largest squares; errors of 0.001/√n; ‖x0‖ = 100."""
    rng, errors = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    x0 = rng.standard_normal(n)

    def truth(w):
        return float(w[:s] @ w[:s]) if name == "quadric" else 0.5 * float(np.sum(np.sort(w * w)[-s:]))

    def asked(w):
        return truth(w) + 1e-3 / np.sqrt(n) * errors.standard_normal()

    return Case(asked, truth, 100 * x0 / np.linalg.norm(x0))


def zoro_fa(name, seed, n=1000, s=30):
    """ZORO-FA's four: a quadratic, a skew quartic, the s largest squares, Nesterov's worst; x0 = 10·N(0, I)."""
    rng = np.random.default_rng(seed)
    x0 = 10 * rng.standard_normal(n)
    S, root = rng.choice(n, s, replace=False), rng.random((s, s))
    B, A = root.T @ root / s, np.triu(np.ones((s, s))) / s

    def quadratic(w):
        return float(w[S] @ B @ w[S])

    def quartic(w):
        z = A @ w[S]
        return float(z @ z + 0.1 * np.sum(z**3) + 0.01 * np.sum(z**4))

    def largest(w):
        return float(np.sum(np.sort(w * w)[-s:]))

    def worst(w):
        v = w[:s]
        return float(2 * (v @ v - v[:-1] @ v[1:]) - 2 * v[0])

    truth = {"quadratic": quadratic, "skew quartic": quartic, "max-s squared": largest, "worst": worst}[name]
    T = 2 * (2 * np.eye(s) - np.eye(s, k=1) - np.eye(s, k=-1))  # of the worst function: ½vᵀTv - 2v_0
    lowest = -2 * float(np.linalg.inv(T)[0, 0]) if name == "worst" else 0.0
    return Case(truth, truth, x0, lowest=lowest)


def correlated(seed, n=200, d=1000):
    """The mean squared residual of an n x d design, AR(1) 0.7 along its columns, 5-sparse truth."""
    rng = np.random.default_rng([seed, d])
    Z = rng.standard_normal((n, d))
    X = Z.copy()
    for j in range(1, d):
        X[:, j] = 0.7 * X[:, j - 1] + np.sqrt(1 - 0.49) * Z[:, j]
    w = np.zeros(d)
    w[rng.choice(d, 5, replace=False)] = rng.uniform(0.5, 3, 5) * rng.choice([-1, 1], 5)
    y = X @ w

    def truth(v):
        residual = X @ v - y
        return float(residual @ residual) / n

    return Case(truth, truth, np.zeros(d), np.flatnonzero(w))
