"""ellzero: sparse optimisation under convex constraints, with an answer for how good the answer is."""

from importlib import import_module
from typing import Any

from . import risks, sets, sparsity
from .minimize import minimize, minimize_path
from .solver import schedules
from .solver.finishes import Exchanges, LastProjection
from .solver.methods import Method, preset
from .solver.oracles import FullGradient, MiniBatch, VarianceReduced, ZerothOrder, estimate_variance
from .solver.path import SparsePath
from .solver.projections import euclidean_projection, hard_threshold, restricted_projection, two_step_projection
from .solver.result import History, Result, Status

__version__ = "0.1.0.dev0"
__all__ = [
    "Certificate",
    "ConvergenceDisplay",
    "Exchanges",
    "FullGradient",
    "History",
    "IndexTracker",
    "LastProjection",
    "Method",
    "MiniBatch",
    "PathDisplay",
    "Result",
    "SparseClassifier",
    "SparseClassifierCV",
    "SparsePath",
    "SparseRegressor",
    "SparseRegressorCV",
    "Status",
    "TrackingDisplay",
    "VarianceReduced",
    "WeightsDisplay",
    "ZerothOrder",
    "backtest",
    "certify",
    "datasets",
    "estimate_variance",
    "euclidean_projection",
    "guarantee",
    "hard_threshold",
    "minimize",
    "minimize_path",
    "preset",
    "restricted_projection",
    "risks",
    "schedules",
    "sets",
    "sparsity",
    "testing",
    "theory",
    "two_step_projection",
    "write_report",
]

# loaded when first used, so that `import ellzero` stays as cheap as numpy
_LAZY = {"datasets", "displays", "estimators", "experiments", "portfolio", "report", "testing", "theory"}
_LAZY_NAMES = {
    "Certificate": "certificates",
    "certify": "certificates",
    "guarantee": "theory.guarantees",
    "IndexTracker": "portfolio",
    "SparseClassifier": "estimators",
    "SparseClassifierCV": "estimators",
    "SparseRegressor": "estimators",
    "SparseRegressorCV": "estimators",
    "backtest": "portfolio.backtest",
    "plot": "displays",
    "ConvergenceDisplay": "displays",
    "PathDisplay": "displays",
    "TrackingDisplay": "displays",
    "WeightsDisplay": "displays",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f".{name}", __name__)
    if name in _LAZY_NAMES:
        return getattr(import_module(f".{_LAZY_NAMES[name]}", __name__), name)
    raise AttributeError(f"module 'ellzero' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_NAMES})
