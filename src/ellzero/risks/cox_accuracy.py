"""The partial likelihood and its derivatives with the sizes of their rounding errors."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import to_host
from .accuracy import EPS, TINY, Look, Measured, accurate_product
from .linear_accuracy import PLENTY, LinearPart, plain_product

if TYPE_CHECKING:
    from .cox import Cox


class CoxMeasure(Measured):
    """Cox's risk, restricted to few columns and in double precision, at w.

    F is a sum of terms b_q log Σ_j c_qj exp(z_j). Where predictions change by at most δ_j, shares p_qj of those at risk
    keep at least exp(-2 max δ) of themselves, and so does their variance along any direction.
    """

    def __init__(self, model: Cox, w: np.ndarray, accurate: bool) -> None:
        self.model, self.w = model, w
        columns: Any = model.design.X  # type: ignore[attr-defined]
        high, low, error = (accurate_product if accurate else plain_product)(columns, w)
        self.z = high + low
        self.off = error + EPS * np.abs(self.z)
        self.look = model.look(self.z)
        self.rounding = self.look.rounding
        ridge = 0.5 * model.ridge * float(w @ w)
        self.value = self.look.value + ridge
        # slopes in z add up to at most 2 in size
        self.error = 2.02 * float(self.off.max(initial=0.0)) + self.rounding * (1 + self.look.sizes)
        self.error += (w.size + 8) * EPS * ridge
        self.X = columns if isinstance(columns, np.ndarray) else columns.toarray()

    @cached_property
    def centres(self) -> np.ndarray:
        """Midway between the extremes of each column: R does not see what is added to all predictions."""
        return np.asarray(0.5 * self.X.min(axis=0) + 0.5 * self.X.max(axis=0))

    @property
    def slopes_of_terms(self) -> tuple[np.ndarray, np.ndarray]:
        """The slope of R in each prediction, and how far it may be off."""
        share, chance = self.model.partial.share, self.look.flat("chance")
        # shares change by at most a factor exp(2 max off)
        lost = (math.expm1(2.02 * float(self.off.max(initial=0.0))) + self.rounding) * chance
        return chance - share, lost + (self.rounding + 4 * EPS) * share

    @cached_property
    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        V, size = self.X - self.centres, np.abs(self.X) + np.abs(self.centres)
        a, lost = self.slopes_of_terms
        gradient = a @ V + self.model.ridge * self.w
        doubt = lost @ np.abs(V) + (len(V) + 8) * EPS * (np.abs(a) @ size) + 4 * EPS * self.model.ridge * np.abs(self.w)
        return gradient, 1.01 * doubt

    def _changes(self, D: np.ndarray) -> np.ndarray:
        """How far each prediction goes along ||D∘h|| = 1."""
        scaled = (np.abs(self.X - self.centres) + EPS * (np.abs(self.X) + np.abs(self.centres))) / D
        return np.asarray(1.01 * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))

    def farthest(self, D: np.ndarray) -> float:
        return float(self._changes(D).max(initial=0.0))

    def floor(self, reach: float, D: np.ndarray) -> tuple[np.ndarray, float]:
        """The Hessian with each term shrunk by what its shares may lose within reach."""
        away = reach * np.maximum(self._changes(D), TINY) if reach else np.zeros(len(self.X))
        away = away + self.off
        # the largest of all is at least that of those at risk
        least = math.exp(-2 * min(float(away.max(initial=0.0)), 300.0))
        M, squares = self.look.hessian(self.model.partial.gather(self.X))
        if not math.isfinite(reach):
            least = 0.0
        M, squares = least * M, least * squares
        M[np.diag_indices_from(M)] += self.model.ridge
        noise = 8 * self.rounding + (4 * len(self.X) + 64) * EPS
        return M, noise * D.size * float(np.max(squares / (D * D), initial=0.0))


def measure(model: Cox, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> CoxMeasure | None:
    """Cox's risk at w, zero outside the support; None where the columns of X cannot be read.

    Closely: with predictions in twice the working precision; otherwise only where R needs them.
    """
    if not model.design.explicit:
        return None
    small = model.on_host(support)
    with np.errstate(over="ignore", invalid="ignore"):
        if not closely:
            plain = CoxMeasure(small, w[support], accurate=False)
            plain.grain = plain.error
            if plain.error <= PLENTY * abs(plain.value):
                return plain
        close = CoxMeasure(small, w[support], accurate=True)
        if not closely:
            close.grain = plain.grain
        return close


def enclosed_gradient(model: Cox, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """∇R(w) in double precision, and how far each entry may be off: see `linear_accuracy`."""
    support = np.flatnonzero(w)
    with np.errstate(over="ignore", invalid="ignore"):
        a, lost = CoxMeasure(model.on_host(support), w[support], accurate=False).slopes_of_terms
        gradient = model.design.correlations(a) + model.ridge * w
        lost = lost + (a.size + 8) * EPS * np.abs(a)
        doubt = 1.01 * np.sqrt(model.design.squares) * float(np.linalg.norm(lost))
        return gradient, doubt + 4 * EPS * (model.ridge * np.abs(w) + np.abs(gradient))


class CoxPart(LinearPart):
    """The partial likelihood; μ = ridge. Any predictions z give a valid bound, so only their use is rounded.

    F(Xw) >= F(z) + <a, Xw - z>, a = ∇F(z), which adds up to 0 in each stratum.
    """

    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        risk: Cox = self.risk  # type: ignore[assignment]
        z = self._shaped(image)
        seen, prediction = risk.look(z), to_host(z).astype(float)
        chance, share = seen.flat("chance"), risk.partial.share
        a = chance - share
        f, inner = seen.value, float(a @ prediction)
        gradient = to_host(risk._collect(risk.design, risk.design.asarray(a))).astype(float)
        # self.eps: what X and a are rounded to where products are taken
        product = (risk.n_terms + 16) * self.eps
        lost = (seen.rounding + 4 * EPS) * (chance + share)
        slack = seen.rounding * (1 + seen.sizes)
        slack += float((lost + (risk.n_terms + 8) * EPS * np.abs(a)) @ np.abs(prediction))
        error = self.size * float(np.linalg.norm(lost) + product * np.linalg.norm(a))
        return Look(f, f - inner - slack, -gradient, 1.01 * error)
