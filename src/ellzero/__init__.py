"""ellzero: sparse optimisation under convex constraints, with an answer for how good the answer is."""

from . import risks, sets, sparsity
from ._core.lazy import lazily
from .design import Blocks, Distributed
from .minimize import minimize, minimize_path
from .solver import schedules
from .solver.by_values.probes import SparseProbes
from .solver.finishes import Exchanges, LastProjection
from .solver.methods import Method, preset
from .solver.oracles import FullGradient, MiniBatch, VarianceReduced, ZerothOrder, estimate_variance
from .solver.path import SparsePath
from .solver.projections import euclidean_projection, hard_threshold, restricted_projection, two_step_projection
from .solver.result import History, Result, Status
from .solver.snapshots import VarianceReducedDirections

__version__ = "0.1.0.dev0"

# loaded when first used, so that `import ellzero` stays as cheap as numpy
_LAZY = {"datasets", "displays", "estimators", "experiments", "portfolio", "report", "testing", "theory", "training"}
_LAZY_NAMES = {
    "AskTell": "ask_tell",
    "Certificate": "certificates",
    "certify": "certificates",
    "Beats": "certificates",
    "beats": "certificates",
    "guarantee": "theory.guarantees",
    "IndexTracker": "portfolio",
    "SparseClassifier": "estimators",
    "SparseClassifierCV": "estimators",
    "SparseCox": "estimators",
    "SparseCoxCV": "estimators",
    "SparseProjection": "training",
    "SparseRegressor": "estimators",
    "SparseRegressorCV": "estimators",
    "Stability": "estimators",
    "backtest": "portfolio.backtest",
    "concordance_index": "estimators",
    "plot": "displays",
    "ConvergenceDisplay": "displays",
    "PathDisplay": "displays",
    "StabilityDisplay": "displays",
    "TrackingDisplay": "displays",
    "WeightsDisplay": "displays",
    "write_report": "report",
}
__all__ = [
    "Blocks",
    "Distributed",
    "Exchanges",
    "FullGradient",
    "History",
    "LastProjection",
    "Method",
    "MiniBatch",
    "Result",
    "SparsePath",
    "SparseProbes",
    "Status",
    "VarianceReduced",
    "VarianceReducedDirections",
    "ZerothOrder",
    "datasets",
    "estimate_variance",
    "euclidean_projection",
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
    "training",
    "two_step_projection",
    *_LAZY_NAMES,
]
__getattr__, __dir__ = lazily(__name__, _LAZY_NAMES, _LAZY)
