"""The conditions of the theorems, each with what was found on the data and what would satisfy it."""

import math
from dataclasses import dataclass

import numpy as np

from .._core.arrays import to_host
from ..risks.base import Constant
from ._asked import Asked
from .constants import variance_bound
from .forms import Form, sparsity_needed
from .parameters import Prescription


@dataclass(frozen=True)
class Premise:
    """One condition of a theorem, and what was found.

    Attributes
    ----------
    name : str
    holds : bool or None
        None where it rests on an estimate.
    text : str
        What was found.
    remedy : str
        What would satisfy it, where it does not hold.
    """

    name: str
    holds: bool | None
    text: str
    remedy: str = ""


def premises(asked: Asked, form: Form, p: Prescription | None, k_required: int | None) -> tuple[Premise, ...]:
    """Every condition of the theorem in this form."""
    L, nu = asked.constants(asked.k)
    found = [_support(asked), _bounded_below(asked), _rho(asked)] if asked.constrained else []
    found += [_smooth(asked, L), _strongly_convex(asked, L, nu), _enough(asked, form, p, k_required)]
    if asked.row.oracle == "batch":
        found.append(_variance(asked))
    if asked.w_bar is not None:
        found.append(_reference(asked))
    if asked.x0 is not None:
        found.append(_start(asked))
    return tuple(found)


def _support(asked: Asked) -> Premise:
    holds = asked.sparsity.preserved_by(asked.gamma)
    if not asked.sparsity.of_coordinates:
        text = f"it is {'' if holds else 'not '}a matter of singular values alone"
        return Premise("Γ preserves ranks", holds, text, "" if holds else "Spectral sets, or L2Ball")
    why = asked.gamma.why
    if holds and not asked.gamma.preserves_support:
        why = f"{asked.sparsity.counted} of a member may be set to zero as a whole"
    remedy = "a set closed under zeroing: SubSimplex for Simplex, bounds around 0 for Box; else a certificate"
    return Premise("Γ preserves supports", holds, why, "" if holds else remedy)


def _bounded_below(asked: Asked) -> Premise:
    m = asked.lower_bound
    if m == -math.inf:
        remedy = "lower_bound=m, a number that R is never below on k-sparse vectors (a certificate without Γ)"
        return Premise("R bounded below", False, "no lower bound of R is known", remedy)
    text = f"R >= {m:.6g} on k-sparse vectors" + (", as given" if asked.given_lower_bound is not None else "")
    return Premise("R bounded below", True, text)


def _rho(asked: Asked) -> Premise:
    text = f"{asked.rho:g} lies in (0, 1/2]"
    if asked.rho > 0.5:
        text = f"{asked.rho:g} > 1/2: only the form 1/(1-ρ) applies; 1/(1-ρ) <= 1+2ρ, which the paper uses, ends there"
    return Premise("ρ in range", True, text)


def _smooth(asked: Asked, L: Constant) -> Premise:
    name = "L'" if asked.row.oracle == "directions" else "L"
    text = f"{name} = {L.value:.6g} at s = {_level(asked, 0)}, {_source(L, asked.given_L)}"
    if not 0 < L.value < math.inf:
        return Premise("R smooth", False, text, "a loss of bounded curvature, or L= by hand")
    if L.source == "estimate":
        return Premise("R smooth", None, text, "X with fewer than 2000 rows or columns, or L= by hand")
    return Premise("R smooth", True, text)


def _strongly_convex(asked: Asked, L: Constant, nu: Constant) -> Premise:
    s = asked.levels(asked.k)[1]
    text = f"ν = {nu.value:.6g} at s = {_level(asked, 1)}, {_source(nu, asked.given_nu)}"
    if nu.value > 0 and nu.source != "estimate":
        return Premise("R strongly convex", True, text)
    remedy = "ridge > 0, which gives ν >= ridge; " if asked.risk.takes_ridge else ""
    remedy += "a smaller k, or nu= by hand"
    if nu.source == "bound" and (estimate := asked.curvature.at(s).estimate) is not None:
        text += f"; at most {estimate.strong_convexity.value:.4g}, found on a support"
    return Premise("R strongly convex", None if nu.value > 0 else False, text, remedy)


def _level(asked: Asked, which: int) -> str:
    """At how many coordinates a constant is needed, and why so many."""
    s = asked.levels(asked.k)[which]
    if asked.sparsity.atoms is None:
        return str(s)
    n = asked.row.level * asked.k if which == 0 or asked.row.oracle == "directions" else asked.k + asked.k_bar
    return f"{s} coordinates of the {n} largest {asked.sparsity.counted}"


def _source(constant: Constant, given: Constant | None) -> str:
    return "as given" if given is constant and constant.source == "bound" else constant.source


def _enough(asked: Asked, form: Form, p: Prescription | None, k_required: int | None) -> Premise:
    name, k, k_bar = "k large enough", asked.k, asked.k_bar
    if p is None:
        text = "no k is known to suffice: L < ∞ and ν > 0 are needed first" + _at_best(asked, form)
        return Premise(name, False, text, "what makes R smooth and strongly convex")
    text = f"k {'>' if form == 'widest' else '>='} {p.k_ratio:.4g}·k̄ is needed (κ = {p.kappa:.4g})"
    if k >= sparsity_needed(form, p.k_ratio, k_bar):
        return Premise(name, True, f"{text}; k = {k} covers k̄ <= {p.k_bar_max}")
    text += f"; k = {k} falls short by a factor {p.k_ratio * k_bar / k:.3g}" + _at_best(asked, form)
    most = asked.sparsity.most(asked.d)
    if k >= most:
        remedy = "k = d leaves no sparsity constraint: projected gradient on the convex problem needs no such k"
        return Premise(name, False, text, remedy)
    if k_required is None:
        remedies = ["no k is known to suffice (ν is not known to be positive at a larger one)"]
    else:
        there = f"d = {asked.d}" if asked.sparsity.plain else f"there are {most} {asked.sparsity.counted}"
        remedies = [f"k >= {k_required}" + (f" (out of reach, {there})" if k_required > most else "")]
    if p.k_bar_max:
        remedies.append(f"k_bar <= {p.k_bar_max}")
    kappa = p.kappa * math.sqrt(k / (p.k_ratio * k_bar))  # the ratio grows with κ², unless 1/ρ² rules it
    if kappa > 1 and (form != "sharp" or k * asked.rho**2 >= k_bar):
        ridge = (p.L - kappa * p.nu) / (kappa - 1)
        more = f", which {ridge:.3g} more ridge would give" if asked.risk.takes_ridge else ""
        remedies.append(f"κ <= {kappa:.4g}{more}")
    return Premise(name, False, text, "; or ".join(remedies))


def _at_best(asked: Asked, form: Form) -> str:
    """What the true constants would ask for at the least: L_s is above, ν_s below what a search has found."""
    level, s = asked.levels(asked.k)
    L, nu = asked.constants(asked.k)
    above, below = asked.curvature.at(level).estimate, asked.curvature.at(s).estimate
    if above is None or below is None or {L.source, nu.source} == {"exact"} or asked.given_L or asked.given_nu:
        return ""
    least = above.strong_smoothness if asked.row.oracle == "directions" else above.smoothness
    if below.strong_convexity.value <= 0 or least.value <= 0:
        return ""
    p = asked.prescribe(form, asked.k, (least, below.strong_convexity))
    needed = sparsity_needed(form, p.k_ratio, asked.k_bar)
    least_kappa = f"κ is at least {p.kappa:.4g} (found on supports)"
    if needed > asked.k:
        return f"; better bounds could not help: {least_kappa} and asks for k >= {needed}"
    return f"; the bounds may be to blame: {least_kappa}, and then k >= {needed} would do"


def _variance(asked: Asked) -> Premise:
    name, B = "variance bounded", asked.B
    if B is None:
        text = "no bound B on the variance (1/n)Σ||∇R_i - ∇R||² is known"
        return Premise(name, False, text, "give B=; for least squares a bounded Γ is enough")
    where = "on Γ" if asked.reach is not None else "everywhere"
    if asked.given_B is None:
        return Premise(name, True, f"B = {B.value:.6g}, a bound {where}")
    certified = variance_bound(asked.risk, asked.reach)
    if certified is not None and certified.value <= B.value:
        return Premise(name, True, f"B = {B.value:.6g} as given; {certified.value:.4g} is a bound {where} already")
    seen = _variance_at_start(asked)
    if seen > B.value * (1 + 1e-9):
        remedy = f"B >= {seen:.4g} at the least" + ("" if certified is None else f"; {certified.value:.4g} is enough")
        return Premise(name, False, f"B = {B.value:.6g} as given, but the variance at w_0 is {seen:.6g}", remedy)
    return Premise(name, True, f"B = {B.value:.6g} as given, not checked at every w")


def _variance_at_start(asked: Asked) -> float:
    """At w_0; of a thousand terms at the most, divided by all, so that it is never too large."""
    risk = asked.risk
    if risk.n_terms == 1:
        return 0.0
    rows = np.random.default_rng(0).permutation(risk.n_terms)[:1000]
    full = to_host(asked.start.gradient)
    squares = [float(np.sum((to_host(risk.gradient(asked.start.w, rows=[int(i)])) - full) ** 2)) for i in rows]
    return math.fsum(squares) / risk.n_terms


def _reference(asked: Asked) -> Premise:
    assert asked.w_bar is not None
    inside, used = asked.gamma.contains(asked.w_bar.w), asked.sparsity.count(asked.w_bar.w)
    where = "in Γ" if inside else f"outside Γ by {asked.gamma.violation(asked.w_bar.w):.2g}"
    text = f"{used} {asked.sparsity.counted}, {where}"
    holds = inside and asked.is_w_bar(asked.w_bar.w)
    return Premise("reference is a w̄", holds, text, "" if holds else f"one in Γ with at most {asked.words_of_w_bar}")


def _start(asked: Asked) -> Premise:
    sparsity, w = asked.sparsity, asked.start.w
    holds, found = sparsity.allows(w), f"{sparsity.count(w)} {sparsity.counted}"
    remedy = f"at most {asked.k} nonzeros" if sparsity.plain else sparsity.words
    return Premise("w_0 k-sparse", holds, found, "" if holds else remedy)
