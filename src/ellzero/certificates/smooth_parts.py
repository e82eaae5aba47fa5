"""The smooth parts of quadratic functions, and of risks that are known by their values and gradients alone."""

import math

import numpy as np

from .._core.arrays import to_host
from ..risks import Risk
from ..risks.accuracy import EPS, Look, QuadraticForm, SmoothPart
from .quadratic_form import lack_of_convexity, smallest_eigenvalue


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
    return risk.smooth_part() or PlainPart(risk)
