"""The smooth part f of R = f + (μ/2)||·||², seen through a linear image of w, for relaxations built from atoms.

f(w) = F(Aw) with F convex. Each part knows, at a convex combination of atoms,

    value     f(w) - <∇f(w), w>, less what rounding may have added
    z         -∇f(w), known up to `error` in Euclidean norm
    curvature of f along given images, exact or estimated
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arrays import finfo_eps, to_host
from ..risks import LinearModel, Risk
from ..risks.accuracy import EPS, QuadraticForm
from .quadratic_form import lack_of_convexity, smallest_eigenvalue

_SMALL = 10**7  # entries of X that are copied to the host in double precision


@dataclass
class Look:
    """f at a point: f(w), f(w) - <∇f(w), w> from below, z = -∇f(w) and the Euclidean norm of its error."""

    f: float
    value: float
    z: np.ndarray
    error: float


class SmoothPart(ABC):
    """f, with `mu` the strong convexity that was left out of it."""

    mu: float
    d: int
    #: f + (lack/2)||·||² is convex for certain
    lack: float = 0.0
    #: b if f(w) is -bᵀw and its curvature, so that one quadratic problem gives the best weights
    slope: np.ndarray | None = None
    #: why nothing can be known of rounding; empty if it is
    unreadable = ""

    @abstractmethod
    def image(self, w: np.ndarray) -> np.ndarray:
        """Aw, flat."""

    @abstractmethod
    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        """f at w, whose image is given (exactly or not: what is returned holds for the image).

        Where w and its image are sums Σλ_j a_j, `gross` is Σλ_j|a_j|, by which they are rounded.
        """

    @abstractmethod
    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        """f(w)."""

    @abstractmethod
    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        """A row of M, where f(Σλ_j a_j) is curved by λᵀMλ, or estimated to be so."""


class FormPart(SmoothPart):
    """½wᵀ(Q - μI)w - bᵀw + c."""

    def __init__(self, form: QuadraticForm, k: int, mu: float) -> None:
        self.form, self.k, self.mu, self.d, self.slope = form, k, mu, form.b.size, form.b
        self.lack = 0.0 if mu > 0 else lack_of_convexity(form, k)

    def image(self, w: np.ndarray) -> np.ndarray:
        active = np.flatnonzero(w)
        return w[active] @ self.form.Q[active] - self.mu * w  # type: ignore[no-any-return]

    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        return float(self.form.c + w @ (0.5 * image - self.form.b))

    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        form = self.form
        summed = float(form.roots @ (np.abs(w) if gross is None else gross))
        size = math.sqrt(2 * form.energy) + summed
        largest = np.sort(form.roots)[::-1][: self.k]
        error = 4 * form.rounding * size * float(np.linalg.norm(largest))
        square = float(w @ image)
        slack = 4 * form.rounding * (abs(square) + size * summed) + 8 * EPS * abs(form.c)
        return Look(self.f(w, image), form.c - 0.5 * square - slack, form.b - image, error)

    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        return atoms @ images[one]  # type: ignore[no-any-return]


class ModelPart(SmoothPart):
    """The loss of a linear model; μ = ridge. Any predictions z give a valid bound, so only their use is rounded.

    F(Xw + b) >= F(z) + <a, Xw + b - z>, a = ∇F(z). With an intercept, z holds one that is the best up to rounding, so
    that a adds up to σ, next to 0, and bσ is left over: the intercept that is best for w is at most c + factor·max|Xw|
    (`LinearModel._intercept_extent`), which adds |σ|c to the slack and |σ|·factor·max||x_i|| to the gradient's error.
    """

    def __init__(self, risk: LinearModel) -> None:
        if risk.design.explicit and risk.n_terms * risk.design.shape[1] <= _SMALL:
            risk = risk.on_host()
        self.risk, self.mu, self.d = risk, risk.ridge, risk.n_features
        design = risk.design
        self.eps = max(EPS, finfo_eps(design.reference))
        share = risk.double_share
        self.share = share[:, None] if risk.n_outputs > 1 else share
        self.y = np.abs(to_host(risk.y).astype(float))
        # ||X||_F bounds the error of a whole product with Xᵀ; operators are asked for nothing they cannot give
        squares = design.square_sums(np.ones(risk.n_terms)) if design.explicit else None
        self.size = math.sqrt(float(squares.sum())) if squares is not None else math.inf
        if not math.isfinite(self.size):
            self.unreadable = (
                "X is an operator whose entries cannot be read, so nothing bounds the rounding of its products; a "
                "bound needs X as an array or a sparse matrix"
            )
        curved = float(getattr(risk, "_curvature", math.inf))
        self.curved = curved if math.isfinite(curved) else 1.0

    def _shaped(self, image: np.ndarray) -> Any:
        z = image.reshape(self.risk.n_terms, -1) if self.risk.n_outputs > 1 else image
        z = self.risk.design.asarray(z)
        return z + self.risk._best_intercept(z) if self.risk.fit_intercept else z

    def image(self, w: np.ndarray) -> np.ndarray:
        support = np.flatnonzero(w)
        z = self.risk._predict(self.risk.design, self.risk.as_vector(w), support if support.size < w.size else None)
        return to_host(z).astype(float).ravel()

    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        return self.risk._mean_loss(self._shaped(image))

    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        risk, z = self.risk, self._shaped(image)
        slopes = risk._share * risk._slope(z, risk.y)
        a, prediction = to_host(slopes).astype(float), to_host(z).astype(float)
        f = risk._mean_loss(z)
        inner = float(np.sum(a * prediction))
        gradient = to_host(risk._collect(risk.design, slopes)).astype(float)
        unit = 8 * (risk.n_terms + 16) * self.eps
        magnitude = np.abs(a) + 2 * self.share * (np.abs(prediction) + self.y)
        slack = unit * (abs(f) + float(np.sum(magnitude * (np.abs(prediction) + self.y))))
        error = unit * self.size * float(np.linalg.norm(magnitude))
        if risk.fit_intercept:
            left = float(np.sum(np.abs(a.sum(axis=0)))) + unit * float(np.sum(magnitude))
            constant, factor = risk._intercept_extent()
            slack, error = slack + left * constant, error + left * factor * self.size
        return Look(f, f - inner - slack, -gradient, error)

    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        column = images[one].reshape(self.risk.n_terms, -1)
        share = self.share.reshape(-1, 1)
        if self.risk.fit_intercept:
            column = column - (share * column).sum(axis=0)  # centring one factor is enough
        return self.curved * (images @ (share * column).ravel())  # type: ignore[no-any-return]


class PlainPart(SmoothPart):
    """Any convex risk by its values and gradients, as exact as these are."""

    def __init__(self, risk: Risk) -> None:
        self.risk, self.d = risk, risk.n_features
        nu = risk.strong_convexity
        self.mu = max(0.0, nu.value) if nu.source != "estimate" and math.isfinite(nu.value) else 0.0
        L = risk.smoothness.value
        self.curved = max(L - self.mu, 0.0) if math.isfinite(L) else 1.0

    def image(self, w: np.ndarray) -> np.ndarray:
        return w.astype(float)

    def f(self, w: np.ndarray, image: np.ndarray) -> float:
        return self.risk.value(image) - 0.5 * self.mu * float(image @ image)

    def look(self, w: np.ndarray, image: np.ndarray, gross: np.ndarray | None = None) -> Look:
        point = self.risk.at(self.risk.as_vector(image))
        f = point.value - 0.5 * self.mu * float(image @ image)
        gradient = to_host(point.gradient).astype(float) - self.mu * image
        inner = float(gradient @ image)
        unit = 64 * EPS * self.d
        slack = unit * (abs(point.value) + float(np.abs(gradient) @ np.abs(image)) + self.mu * float(image @ image))
        return Look(f, f - inner - slack, -gradient, unit * float(np.linalg.norm(gradient)))

    def curvature(self, one: int, atoms: np.ndarray, images: np.ndarray) -> np.ndarray:
        return self.curved * (atoms @ atoms[one])  # type: ignore[no-any-return]


def smooth_part(risk: Risk, form: QuadraticForm | None, k: int) -> SmoothPart:
    """What is known best of f: a quadratic function, a loss of predictions, or values and gradients."""
    if form is not None:
        delta = smallest_eigenvalue(form, scaled=False)
        return FormPart(form, k, float(delta.min()) if delta.size else 0.0)
    terms = risk.linear_terms()
    return PlainPart(risk) if terms is None else ModelPart(terms)
