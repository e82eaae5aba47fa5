"""guarantee: what a theorem promises for this risk, this Γ and this k, and whether its premises hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .._core.validation import check_count, check_number, check_positive
from ..risks import Risk
from ..risks.base import Constant, need_risk
from ..sets import ConstraintSet
from ..sparsity import Sparsity, as_sparsity
from . import _report
from ._asked import Asked, fitted
from ._premises import Premise, premises
from .after_exchanges import AfterExchanges, as_guarantee
from .forms import Form, forms_of, sparsity_needed
from .parameters import THEOREMS, Prescription

_ALIASES = {"FG-HT-2SP": "IHT-2SP"}


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What a theorem promises, made by `guarantee`; None where a number is not known.

    Attributes
    ----------
    holds : bool
        Whether every premise holds, in this form. Only then is anything promised.
    premises : tuple of Premise
    k_required : int
        The smallest k for this k̄; L and ν are taken anew at every k.
    k_bar_max : int
        The largest k̄ that this k covers.
    step : float
        η.
    n_iter : int
        T, for accuracy ε.
    omega, tau : float
        A step leaves ω of ||w - w̄||² (IHT); batches or numbers of directions are ⌈τ/ω^t⌉ (the others).
    bound : float
        The bound as a number, where a reference w̄ is given.
    promise : str
        The bound as a sentence, true if every premise holds.
    n_thresholds, n_gradients, n_values : int
        Hard thresholdings, calls of ∇R_i and function values (q_t + 1 a step) of T steps.
    n_directions : int
        Σ q_t, the #IZO of the paper.
    proved : bool
        False for HZO-HT, whose proof has a gap: the theorem is as stated in the paper.
    form : {"paper", "sharp", "widest", "exchanges"}
        As the paper states it, sharper, or as far as the proof reaches, see `ellzero.theory.forms`; or, of "auto", the
        theorem about exchanges, see `ellzero.theory.after_exchanges`.
    others : tuple of Guarantee
        The other forms. `sharp` and `widest` pick one, `best` the one that promises most.
    theorem, sparsity, k, k_bar, rho, factor, epsilon, mu, L, nu, notes
        What the numbers above are for.
    """

    theorem: str
    form: Form | Literal["exchanges"]
    sparsity: Sparsity
    k: int
    k_bar: int
    premises: tuple[Premise, ...]
    L: Constant
    nu: Constant
    epsilon: float
    step: float | None = None
    rho: float | None = None
    factor: float | None = None
    k_required: int | None = None
    k_bar_max: int | None = None
    omega: float | None = None
    tau: float | None = None
    n_iter: int | None = None
    n_thresholds: int | None = None
    n_gradients: int | None = None
    n_values: int | None = None
    n_directions: int | None = None
    mu: float | None = None
    bound: float | None = None
    promise: str = ""
    proved: bool = True
    notes: tuple[str, ...] = ()
    others: tuple[Guarantee, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether every premise holds."""
        return all(premise.holds for premise in self.premises)

    @property
    def sharp(self) -> Guarantee | None:
        """The sharper form; None where there is none."""
        return next((g for g in (self, *self.others) if g.form == "sharp"), None)

    @property
    def widest(self) -> Guarantee | None:
        """The form that reaches as far as the proof; None where there is none."""
        return next((g for g in (self, *self.others) if g.form == "widest"), None)

    @property
    def best(self) -> Guarantee | None:
        """The form with the smallest factor among those whose premises hold; None if there is none."""
        held = [g for g in (self, *self.others) if g.holds]
        return min(held, key=lambda g: (g.factor, g.n_iter or math.inf), default=None)

    def __repr__(self) -> str:
        return _report.as_text(self)

    def _repr_html_(self) -> str:
        return _report.as_html(self)


def guarantee(
    risk: Risk,
    k: int | Sparsity,
    k_bar: int,
    constraint: ConstraintSet | None = None,
    method: Any = "IHT-2SP",
    *,
    rho: float = 0.5,
    epsilon: float | None = None,
    alpha: float = 2.0,
    B: float | None = None,
    mu: float | None = None,
    s2: int | None = None,
    radius: float | None = None,
    reference: Any = None,
    x0: Any = None,
    lower_bound: float | None = None,
    L: float | Constant | None = None,
    nu: float | Constant | None = None,
    result: Any = None,
) -> Guarantee:
    """min_t R(w_t) <= (1 + 2ρ) R(w̄) + ε: which k, η, T and batches a theorem asks for, and whether it applies.

    w̄ is any vector with at most k̄ nonzeros (in Γ). Nothing is run: the premises are checked on the data, and
    those that fail are named, with what would satisfy them. Numbers given by hand are taken for true.

    Parameters
    ----------
    risk : Risk
    k : int or sparsity
        Nonzeros of the iterates; or whole groups or features of several outputs (`Groups`, `Rows`), over whose
        coordinates L and ν are then taken; or nonzeros under quotas (`PerGroup`); or ranks (`Rank`), with the L and ν
        of R as a whole.
    k_bar : int
        How many of the same the w̄ has that they are compared with; under quotas k̄/k of what each allows, too.
    constraint : ConstraintSet, optional
        Γ; None means the whole space.
    method : str
        "IHT", "HSG-HT", "HZO-HT" (without Γ), "IHT-2SP", "HSG-HT-2SP" or "HZO-HT-2SP"; or "auto", whose theorem is
        about answers that no single exchange betters: R(x) <= R(w̄), without ρ, ε and what else the others need.
    rho : float
        How much of R(w̄) the bound may exceed. Up to 1/2 the paper's form 1 + 2ρ applies, up to 1 the form 1/(1-ρ).
    epsilon : float, optional
        ε; by default a thousandth of R(w_0), less the lower bound of R.
    alpha : float
        1 + C/L, of the stochastic and zeroth-order methods.
    B : float, optional
        Bound on the gradients' variance (1/n)Σ||∇R_i - ∇R||²; computed by default, where that is possible.
    mu : float, optional
        Length of the finite differences; by default the largest with Zμ² <= ε.
    s2 : int, optional
        Coordinates of a random direction; all by default.
    radius : float, optional
        A number >= ||w_0 - w̄||. By default from `reference`, else from Γ where it is bounded; else n_iter is unknown.
    reference : array, optional
        A w̄ of your own, with which the bound is a number.
    x0 : array, optional
        w_0; the origin by default.
    lower_bound : float, optional
        m <= R on all k-sparse vectors, inside Γ or not, for example from a certificate without Γ. The bound is then
        R(w̄) + ρ/(1-ρ)·(R(w̄) - m) + ε; R(reference) itself if the reference minimises R over all k-sparse vectors.
    L, nu : float or Constant, optional
        Smoothness and strong convexity known otherwise. L = ``res.largest_L`` of a run with an adaptive step gives
        the guarantee after the fact ("IHT" and "IHT-2SP").
    result : Result, optional
        For "auto", its answer: tells whether all exchanges were ruled out, which is not known before.

    Returns
    -------
    Guarantee
        In the paper's form where ρ <= 1/2; `sharp` and `widest` are the others. ``print`` shows all.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> risk = ez.risks.Quadratic(np.diag(np.linspace(1.0, 1.5, 50)), b=np.ones(50))
    >>> g = ez.guarantee(risk, k=20, k_bar=2, constraint=ez.sets.L2Ball(1.0), epsilon=0.1)
    >>> g.holds, g.k_required, g.k_bar_max, round(1 / g.step, 6), g.n_iter
    (True, 18, 2, 1.5, 6)
    """
    need_risk(risk)
    theorem = getattr(method, "name", method)
    theorem = _ALIASES.get(theorem, theorem)
    if theorem not in (*THEOREMS, "auto"):
        raise ValueError(f"method must be one that a theorem covers ({', '.join(THEOREMS)}, auto), got {method!r}")
    sparsity, k_bar = _counted(k, risk, theorem), check_count(k_bar, "k_bar")
    if k_bar > sparsity.k:
        k = k.k if isinstance(k, Sparsity) else k
        raise ValueError(f"k_bar must be at most k={k}, got k_bar={k_bar}; raise k or compare with a sparser w̄")
    if theorem == "auto":
        gamma = fitted(constraint, risk)
        after = AfterExchanges(risk, sparsity, gamma, _constant(L, "L"), _constant(nu, "nu"))
        return Guarantee(**as_guarantee(after, k_bar, result))
    if theorem.endswith("-2SP"):
        rho = check_number(rho, "rho", low=0, high=1, open_low=True, open_high=True)
    asked = Asked(
        risk=risk, theorem=theorem, sparsity=sparsity, k_bar=k_bar, constraint=constraint, rho=rho, alpha=alpha, s2=s2,
        given_epsilon=epsilon, given_B=B, given_mu=mu, given_radius=radius, given_lower_bound=lower_bound,
        given_L=_constant(L, "L"), given_nu=_constant(nu, "nu"), reference=reference, x0=x0,
    )  # fmt: skip
    first, *rest = (_state(asked, form) for form in forms_of(theorem, rho))
    return replace(first, others=tuple(rest))


def _counted(k: int | Sparsity, risk: Risk, theorem: str) -> Sparsity:
    """What is counted, of w; refuses what no theorem is about."""
    if not isinstance(k, Sparsity):
        return as_sparsity(check_count(k, "k")).within(risk.n_features)
    check_count(k.k, "k")
    sparsity = k.within(risk.n_features, risk.n_outputs)
    if not sparsity.by_atoms and sparsity.shape is None:
        raise ValueError(
            f"no theorem is known for {k!r}: they are about nonzeros, groups, features of several outputs, quotas and "
            "ranks; certify says afterwards how good an answer is, where it can"
        )
    if theorem == "auto" and not sparsity.by_atoms:
        raise ValueError(f"exchanges are of coordinates, groups or features, and {k!r} counts none of these")
    if not sparsity.plain and theorem != "auto" and THEOREMS[theorem].oracle == "directions":
        raise ValueError(
            f"the theorem of {theorem} bounds the errors of random directions on k coordinates, and is not stated for "
            f"{sparsity.words}; there are IHT and HSG-HT, and with Γ IHT-2SP and HSG-HT-2SP"
        )
    return sparsity


def _constant(value: float | Constant | None, name: str) -> Constant | None:
    if value is None or isinstance(value, Constant):
        return value
    return Constant(check_positive(value, name), "bound")


def _state(asked: Asked, form: Form) -> Guarantee:
    """The answer in one form."""
    L, nu = asked.constants(asked.k)
    common: dict[str, Any] = {
        "theorem": asked.theorem, "form": form, "sparsity": asked.sparsity, "k": asked.k,
        "k_bar": asked.k_bar, "L": L, "nu": nu, "epsilon": asked.epsilon, "mu": asked.mu,
        "proved": asked.row.oracle != "directions",
    }  # fmt: skip
    if not asked.usable(asked.k):
        alpha = 1.0 if asked.row.oracle == "full" else asked.alpha
        step = 1 / (alpha * L.value) if 0 < L.value < math.inf else None
        return Guarantee(**common, step=step, premises=premises(asked, form, None, None), notes=_notes(asked, None))
    p = replace(asked.prescribe(form, asked.k), k_bar_max=_largest_k_bar(asked, form))
    k_required = _smallest_k(asked, form)
    gradient = asked.gradient_norm(p.L)
    n_iter = costs = None
    if asked.distance is not None and p.gap > 0 and (p.oracle != "directions" or gradient is not None):
        n_iter = p.n_iter(asked.epsilon, asked.distance**2, gradient)
        costs = p.costs(n_iter, asked.risk.n_terms) if p.oracle == "full" or p.tau is not None else None
    left = asked.epsilon  # what is left beside R(w̄)
    if p.Z is not None:
        common["mu"] = mu = asked.mu or math.sqrt(asked.epsilon / p.Z)
        left += p.Z * mu**2
    bound = _bound(asked, p, left)
    return Guarantee(
        **common, premises=premises(asked, form, p, k_required), step=p.step, k_required=k_required,
        k_bar_max=p.k_bar_max, rho=p.rho if asked.constrained else None, factor=p.factor if asked.constrained else 1.0,
        omega=p.omega, tau=p.tau, n_iter=n_iter, n_thresholds=n_iter, bound=bound,
        n_gradients=costs and costs.n_gradients, n_values=costs and costs.n_values,
        n_directions=costs and costs.n_directions, promise=_report.promise(asked, p, n_iter, left),
        notes=_notes(asked, bound),
    )  # fmt: skip


def _smallest_k(asked: Asked, form: Form) -> int | None:
    """min {k : k >= ratio(κ at k)·k̄}: κ grows with k, so climbing from below cannot pass the smallest one."""
    k = asked.k_bar
    while asked.usable(k):
        needed = sparsity_needed(form, asked.prescribe(form, k).k_ratio, asked.k_bar)
        if needed <= k:
            return k
        k = needed
    return None


def _largest_k_bar(asked: Asked, form: Form) -> int:
    """max {k̄ : k >= ratio(κ at k and k̄)·k̄}: ν falls as k̄ grows."""
    low, high = 0, asked.k + 1
    while high - low > 1:
        middle = (low + high) // 2
        other = replace(asked, k_bar=middle)
        covered = other.usable(asked.k)
        if covered:
            covered = sparsity_needed(form, other.prescribe(form, asked.k).k_ratio, middle) <= asked.k
        low, high = (middle, high) if covered else (low, middle)
    return low


def _bound(asked: Asked, p: Prescription, left: float) -> float | None:
    if asked.w_bar is None:
        return None
    value = asked.w_bar.value
    if not asked.constrained:
        return value + left
    if not asked.shifted:
        return p.factor * value + left
    return value + p.rho / (1 - p.rho) * (value - asked.lower_bound) + left


def _notes(asked: Asked, bound: float | None) -> tuple[str, ...]:
    notes = []
    if asked.row.oracle == "directions":
        notes.append(
            "As stated in the paper, not proved: its proof bounds the gradient's error on a fixed support, and uses "
            "the bound on one that the random directions have chosen."
        )
    if asked.sparsity.quotas is not None:
        notes.append("k_required and k_bar_max are for quotas that grow with k; a quota of its group's size is none.")
    if asked.constrained and asked.gamma.whole_space:
        plain = asked.theorem.removesuffix("-2SP")
        notes.append(f"Γ is the whole space: method={plain!r} promises R(w̄) + ε, without a factor.")
    if asked.distance is None:
        notes.append("n_iter is unknown, because Γ is unbounded: give radius= (at least ||w_0 - w̄||) or reference=.")
    elif asked.row.oracle == "directions" and asked.gradient_norm(1.0) is None:
        notes.append("n_iter is unknown, because nothing bounds ||∇R(w̄)||: set risk.lower_bound, and take s2 = d.")
    if asked.given_epsilon is None:
        notes.append(f"epsilon = {asked.epsilon:.3g} by default, a thousandth of what R can fall from w_0.")
    if bound is not None and bound >= asked.start.value:
        notes.append(f"The bound says nothing: R(w_0) = {asked.start.value:.6g} is not above it.")
    return tuple(notes)
