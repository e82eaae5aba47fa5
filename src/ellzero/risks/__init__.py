"""Risks: the functions R(w) that are minimised."""

from .autodiff_jax import from_jax
from .autodiff_torch import from_torch
from .base import Constant, Point, Risk
from .blackbox import BlackBox
from .cox import Cox
from .curvature import Curvature
from .evaluation import BlackBoxError
from .exponential import Gamma, Poisson
from .linear import LinearModel
from .losses import LeastSquares, Logistic, SquaredHinge
from .multinomial import Multinomial
from .multitarget import MultiTargetLeastSquares as _  # noqa: F401 - what LeastSquares is for several targets
from .quadratic import Quadratic
from .robust import Huber, Quantile
from .smooth import Smooth

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "Constant",
    "Cox",
    "Curvature",
    "Gamma",
    "Huber",
    "LeastSquares",
    "LinearModel",
    "Logistic",
    "Multinomial",
    "Point",
    "Poisson",
    "Quadratic",
    "Quantile",
    "Risk",
    "Smooth",
    "SquaredHinge",
    "from_jax",
    "from_torch",
]
