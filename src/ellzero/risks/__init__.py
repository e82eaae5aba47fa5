"""Risks: the functions R(w) that are minimised."""

from .base import Constant, Point, Risk
from .blackbox import BlackBox, BlackBoxError
from .cox import Cox
from .curvature import Curvature
from .linear import LinearModel
from .losses import Huber, LeastSquares, Logistic, Poisson
from .multinomial import Multinomial
from .multitarget import MultiTargetLeastSquares as _  # noqa: F401 - what LeastSquares is for several targets
from .quadratic import Quadratic
from .smooth import Smooth

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "Constant",
    "Cox",
    "Curvature",
    "Huber",
    "LeastSquares",
    "LinearModel",
    "Logistic",
    "Multinomial",
    "Point",
    "Poisson",
    "Quadratic",
    "Risk",
    "Smooth",
]
