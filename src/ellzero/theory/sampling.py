"""How many samples a random design needs, so that the premises hold with high probability.

Rows of X with covariance Σ, R(w) = (1/n)||Xw - y||², ∇²R = (2/n)XᵀX. With n large compared with s log d, every
s x s block of (1/n)XᵀX is close to that of Σ:

    2(1-a)² σ_min(Σ) <= ν_s,      L_s <= 2(1+a)² σ_max(Σ),      κ <= ((1+a)/(1-a))² κ(Σ).

a = 1/2 gives ν >= σ_min/2, L <= 4.5σ_max and 9κ(Σ), the paper's numbers, hence k = 4·81·κ(Σ)²k̄ = 324κ(Σ)²k̄.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import check_count, check_number
from .parameters import THEOREMS, condition_number, prescribe


@dataclass(frozen=True)
class SampleComplexity:
    """n, k and the constants they come with; made by `sample_complexity`.

    Attributes
    ----------
    k : int
        What the theorem needs for k̄.
    s : int
        The level at which the constants are needed: 2k, at most d.
    n : int
        Rows that are enough if they are Gaussian, with probability at least 1 - failure.
    n_paper : float
        4 s log(d)/σ_min(Σ): the paper's n for sub-Gaussian rows with Σ_ii <= 1, up to a universal factor c₁ that is
        not known (and with the paper's probability 1 - exp(-c₀n)).
    nu, L, kappa : float
        ν_s >= nu, L_s <= L, κ <= kappa.
    """

    k: int
    s: int
    n: int
    n_paper: float
    nu: float
    L: float
    kappa: float


def sample_complexity(
    k_bar: int,
    d: int,
    *,
    covariance: Any = None,
    eigenvalues: tuple[float, float] = (1.0, 1.0),
    method: str = "IHT",
    slack: float = 0.5,
    failure: float = 0.01,
    rho: float | None = None,
    alpha: float = 2.0,
) -> SampleComplexity:
    """n >= (√s + √(2 log(2 C(d,s)/failure)))²/slack² Gaussian rows and k >= 4κ²k̄, κ = ((1+slack)/(1-slack))² κ(Σ).

    For one support, X_S = Z Σ_SS^½ with a standard normal Z, whose singular values lie within √n ± (√s + t) but
    for probability 2exp(-t²/2) (Davidson & Szarek 2001); a union bound over the C(d,s) supports gives the rest.

    Parameters
    ----------
    k_bar, d : int
    covariance : array of shape (d, d), optional
        Σ.
    eigenvalues : (float, float)
        σ_min and σ_max of Σ, where `covariance` is not given.
    method : str
        One of the theorems of `parameters` with exact gradients or batches; with Γ its sharper form.
    slack : float
        a in (0, 1): a smaller one needs more rows and a smaller k.
    failure : float
        Probability that the constants do not hold.
    rho, alpha : float
        See `guarantee`.

    Examples
    --------
    >>> from ellzero.theory import sample_complexity
    >>> need = sample_complexity(k_bar=2, d=10_000)
    >>> need.k, round(need.kappa), need.n > need.s
    (648, 9, True)
    """
    k_bar, d = check_count(k_bar, "k_bar"), check_count(d, "d")
    if method not in THEOREMS or THEOREMS[method].oracle == "directions":
        raise ValueError(f"method must be IHT, IHT-2SP, HSG-HT or HSG-HT-2SP, got {method!r}")
    slack = check_number(slack, "slack", low=0, high=1, open_low=True, open_high=True)
    failure = check_number(failure, "failure", low=0, high=1, open_low=True, open_high=True)
    low, high = eigenvalues
    if covariance is not None:
        spectrum = np.linalg.eigvalsh(np.asarray(covariance, dtype=float))
        low, high = float(spectrum[0]), float(spectrum[-1])
    condition_number(high, low)
    nu, L = 2 * (1 - slack) ** 2 * low, 2 * (1 + slack) ** 2 * high
    p = prescribe(method, L, nu, k_bar=k_bar, rho=rho, alpha=alpha, sharp=method.endswith("-2SP"))
    assert p.k is not None
    s = min(2 * p.k, d)
    log_supports = math.lgamma(d + 1) - math.lgamma(s + 1) - math.lgamma(d - s + 1)
    t = math.sqrt(2 * (log_supports + math.log(2 / failure)))
    n = math.ceil(((math.sqrt(s) + t) / slack) ** 2)
    return SampleComplexity(p.k, s, n, 4 * s * math.log(d) / low, nu, L, p.kappa)
