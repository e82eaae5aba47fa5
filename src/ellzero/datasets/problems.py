"""Problems to try things on: seeded random ones, and two with a known answer."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from .._core.validation import check_count, check_k, check_number, check_positive, check_vector
from .market import Seed


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data (X, y) of a sparse linear model, with the coefficients that made it.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        Numbers, or labels -1 and +1 when `kind` is "logistic".
    k : int
        How many coefficients of `truth` are nonzero.
    truth : ndarray of shape (d,)
    kind : {"least-squares", "logistic"}
    nonnegative : bool
        Whether the problem is meant with the constraint w >= 0.
    """

    X: Any
    y: np.ndarray
    k: int
    truth: np.ndarray
    kind: Literal["least-squares", "logistic"] = "least-squares"
    nonnegative: bool = False


def make_regression(
    n: int,
    d: int,
    k: int,
    *,
    correlation: float = 0.0,
    snr: float = 10.0,
    nonnegative: bool = False,
    density: float = 1.0,
    rng: Seed = 0,
) -> Dataset:
    """y = Xw + noise, where w has k nonzeros ±U(0.5, 1.5) and the variance of Xw is snr times the noise's.

    Parameters
    ----------
    n, d, k : int
        Rows, columns, and nonzeros of w.
    correlation : float
        Correlation ρ of neighbouring columns: x_j = ρ x_{j-1} + sqrt(1 - ρ²) z_j with standard normal z_j,
        so that columns i and j correlate as ρ^|i-j|.
    snr : float
        Signal-to-noise ratio.
    nonnegative : bool
        Make a problem on which w >= 0 binds: besides the k positive coefficients, k // 3 negative ones enter
        y, and `truth` leaves them out.
    density : float
        Share of nonzero entries of X; below 1, X is a CSR array of standard normal entries.
    rng : int, Generator or None
        Seed. The same seed gives the same problem.

    Examples
    --------
    >>> from ellzero.datasets import make_regression
    >>> problem = make_regression(100, 500, 5, correlation=0.5)
    >>> problem.X.shape, problem.y.shape, int((problem.truth != 0).sum())
    ((100, 500), (100,), 5)
    """
    check_positive(snr, "snr")
    n_negative = _check_shape(n, d, k, nonnegative)
    generator = np.random.default_rng(rng)
    X = _design(generator, n, d, correlation, density)
    w = _coefficients(generator, d, k + n_negative)
    if nonnegative:
        w = np.abs(w)
        w[generator.choice(np.flatnonzero(w), n_negative, replace=False)] *= -1
    signal = X @ w
    y = signal + generator.standard_normal(n) * math.sqrt(np.var(signal) / snr)
    return Dataset(X, y, k, np.maximum(w, 0) if nonnegative else w, nonnegative=nonnegative)


def make_classification(
    n: int, d: int, k: int, *, correlation: float = 0.0, scale: float = 0.55, rng: Seed = 0
) -> Dataset:
    """P(y = 1 | x) = 1 / (1 + exp(-xᵀw)), y in {-1, +1}, where w has k nonzeros ±scale · U(0.5, 1.5).

    Parameters
    ----------
    n, d, k, correlation, rng
        As for `make_regression`.
    scale : float
        Size of the coefficients; the larger, the clearer the classes part.

    Examples
    --------
    >>> from ellzero.datasets import make_classification
    >>> problem = make_classification(100, 500, 5)
    >>> problem.kind, sorted(set(problem.y.tolist()))
    ('logistic', [-1.0, 1.0])
    """
    from scipy.special import expit

    check_positive(scale, "scale")
    _check_shape(n, d, k)
    generator = np.random.default_rng(rng)
    X = _design(generator, n, d, correlation)
    w = _coefficients(generator, d, k) * scale
    y = np.where(generator.random(n) < expit(X @ w), 1.0, -1.0)
    return Dataset(X, y, k, w, kind="logistic")


# The problems on which solvers are compared; call one with rng=seed. P3 is constrained, P5 sparse.
PROBLEMS: dict[str, Callable[..., Dataset]] = {
    "P1": partial(make_regression, 1000, 5000, 50),
    "P1b": partial(make_regression, 1000, 5000, 50, correlation=0.9),
    "P1c": partial(make_regression, 5000, 20000, 100),
    "P2": partial(make_classification, 2000, 2000, 30, correlation=0.5),
    "P3": partial(make_regression, 1000, 2000, 30, correlation=0.5, nonnegative=True),
    "P5": partial(make_regression, 20000, 50000, 100, density=0.01),
}


def _check_shape(n: int, d: int, k: int, nonnegative: bool = False) -> int:
    """Refuses impossible shapes; returns how many negative coefficients come on top of the k."""
    check_count(n, "n")
    check_count(d, "d")
    check_k(k)
    n_negative = k // 3 if nonnegative else 0
    if k + n_negative > d:
        more = f" + k // 3 = {k + n_negative}" if n_negative else ""
        raise ValueError(f"k{more} must be at most d={d}, got k={k}; take fewer nonzeros or more columns")
    return n_negative


def _design(rng: np.random.Generator, n: int, d: int, correlation: float, density: float = 1.0) -> Any:
    check_number(correlation, "correlation", low=-1.0, high=1.0, open_low=True, open_high=True)
    check_number(density, "density", low=0.0, high=1.0, open_low=True)
    if density < 1.0:
        if correlation != 0.0:
            raise ValueError(f"correlation must be 0 where density < 1, got correlation={correlation}")
        from scipy import sparse

        matrix: Any = sparse.random(n, d, density, "csr", random_state=rng, data_rvs=rng.standard_normal)
        return sparse.csr_array(matrix)
    X = rng.standard_normal((n, d))
    if correlation != 0.0:
        innovation = math.sqrt(1.0 - correlation * correlation)
        for previous, column in zip(X.T, X.T[1:], strict=False):  # views: X itself is filled
            column *= innovation
            column += correlation * previous
    return X


def _coefficients(rng: np.random.Generator, d: int, k: int) -> np.ndarray:
    w = np.zeros(d)
    support = rng.choice(d, k, replace=False)
    signs = rng.choice([-1.0, 1.0], k)
    w[support] = signs * rng.uniform(0.5, 1.5, k)
    return w


@dataclass(frozen=True, eq=False)
class DiagonalExample:
    """R(w) = (1/n)||Xw - y||² with diagonal X, on which IHT needs a relaxed k; made by `diagonal_example`.

    Attributes
    ----------
    X : ndarray of shape (n, n)
    y : ndarray of shape (n,)
    smoothness, strong_convexity : float
        2κ/n and 2/n, the extreme eigenvalues of ∇²R.
    """

    X: np.ndarray
    y: np.ndarray
    smoothness: float
    strong_convexity: float

    def optimum(self, k: int, radius: float = math.inf) -> tuple[np.ndarray, float]:
        """argmin and min of R over ||w||_0 <= k and ||w||_∞ <= radius, exactly.

        R is separable: w_i = clip(y_i / x_i, ±radius) gains y_i² - (x_i w_i - y_i)², and the k largest gains
        are taken (ties: lowest index).
        """
        check_number(radius, "radius", low=0.0)
        x = np.diagonal(self.X)
        w = np.clip(self.y / x, -radius, radius)
        loss = (x * w - self.y) ** 2
        left_out = np.argsort(loss - self.y**2, kind="stable")[check_k(k) :]
        w[left_out] = 0.0
        loss[left_out] = self.y[left_out] ** 2
        return w, float(loss.mean())


def diagonal_example(s: int = 50, kappa: int = 2, delta: float = 1e-4) -> DiagonalExample:
    """x = 1, √κ, 1 and y = κ√(1-4δ), √κ√(1-2δ), 1 on blocks of size s, sκ, sκ².

    The example of Axiotis and Sviridenko (2022) that shows what IHT cannot do without relaxing k: it prefers
    the second block, and the first one is better.

    Parameters
    ----------
    s, kappa : int
        Block size and condition number; the problem has s(1 + κ + κ²) coordinates.
    delta : float
        Breaks ties; in [0, 1/4).

    Examples
    --------
    >>> from ellzero.datasets import diagonal_example
    >>> example = diagonal_example()
    >>> w, value = example.optimum(50)
    >>> w.size, round(value, 4), bool(w[:50].all())
    (350, 1.1427, True)
    >>> round(example.optimum(50, radius=1.0)[1], 4)
    1.2855
    """
    check_count(s, "s")
    check_count(kappa, "kappa")
    check_number(delta, "delta", low=0.0, high=0.25, open_high=True)
    sizes = [s, s * kappa, s * kappa**2]
    root = math.sqrt(kappa)
    x = np.repeat([1.0, root, 1.0], sizes)
    y = np.repeat([kappa * math.sqrt(1 - 4 * delta), root * math.sqrt(1 - 2 * delta), 1.0], sizes)
    return DiagonalExample(np.diag(x), y, smoothness=2.0 * kappa / x.size, strong_convexity=2.0 / x.size)


@dataclass(frozen=True, eq=False)
class IHTCounterexample:
    """f(w) = ½(w-b)ᵀA(w-b), on which IHT can stop far from optimal; made by `iht_counterexample`.

    Attributes
    ----------
    A : ndarray of shape (d, d)
        diag(κ, 1, ..., 1).
    b : ndarray of shape (d,)
    kappa, k_bar : float, int
    reference : ndarray of shape (d,)
        w̄ = [1, κ (k̄-1 times), 0...], k̄-sparse and much better than the fixed points.
    """

    A: np.ndarray
    b: np.ndarray
    kappa: float
    k_bar: int
    reference: np.ndarray

    def value(self, w: np.ndarray) -> float:
        """f(w)."""
        return float(0.5 * np.diagonal(self.A) @ (check_vector(w, "w", self.b.size) - self.b) ** 2)

    def fixed_point(self, k: int) -> np.ndarray:
        """w = [0 (k̄/2), κ (k̄/2), 1 (k - k̄/2), 0...] for k̄ <= k <= κ²k̄/8.

        IHT with any step η < 1/κ stays there, although f(w) >= f(w̄) + κ²k̄/16.
        """
        most = (self.b.size - self.k_bar) // 8
        if not self.k_bar <= check_k(k) <= most:
            raise ValueError(f"k must lie in k_bar..κ²·k_bar/8 = {self.k_bar}..{most}, got k={k}")
        half = self.k_bar // 2
        w = np.zeros(self.b.size)
        w[half : self.k_bar] = self.kappa
        w[self.k_bar : half + k] = 1.0
        return w


def iht_counterexample(kappa: float, k_bar: int) -> IHTCounterexample:
    """A = diag(κ, 1, ..., 1), b = [1, κ (k̄-1 times), 1 (κ²k̄ times)], f(w) = ½(w-b)ᵀA(w-b).

    The paper's proof that IHT needs k of the order κ²k̄: every k̄ <= k <= κ²k̄/8 has a bad fixed point.

    Parameters
    ----------
    kappa : float
        Condition number; κ² >= 8 and κ²k̄ an integer.
    k_bar : int
        Even, at least 4.

    Examples
    --------
    >>> from ellzero.datasets import iht_counterexample
    >>> example = iht_counterexample(kappa=4, k_bar=4)
    >>> example.value(example.fixed_point(8)), example.value(example.reference)
    (39.0, 32.0)
    """
    check_positive(kappa, "kappa")
    check_count(k_bar, "k_bar", low=4)
    if k_bar % 2:
        raise ValueError(f"k_bar must be even, got k_bar={k_bar}; take {k_bar + 1}")
    ones = round(kappa**2 * k_bar)
    if not math.isclose(ones, kappa**2 * k_bar, rel_tol=1e-12):
        raise ValueError(
            f"kappa must make κ²·k_bar an integer, got kappa={kappa} and κ²·k_bar={kappa**2 * k_bar:.6g}; "
            f"take kappa=({ones}/{k_bar})**0.5"
        )
    if ones < 8 * k_bar:
        raise ValueError(f"kappa must obey κ² >= 8, or no k is left; got kappa={kappa}; take 3 or more")
    diagonal = np.repeat([kappa, 1.0], [1, k_bar + ones - 1])
    b = np.repeat([1.0, kappa, 1.0], [1, k_bar - 1, ones])
    reference = np.where(np.arange(b.size) < k_bar, b, 0.0)
    return IHTCounterexample(np.diag(diagonal), b, float(kappa), k_bar, reference)
