"""Displays in scikit-learn's style: they hold what is drawn, `plot` draws it, and keep the axes as `ax_`, `figure_`.

`from_result` takes what `minimize` and `minimize_path` return, `from_estimator` a fitted estimator. Colours are those
of `ellzero.plot`: a method has one colour in every picture. Needs matplotlib: ``pip install ellzero[plot]``.
"""

from .portfolios import TrackingDisplay, WeightsDisplay
from .runs import ConvergenceDisplay, PathDisplay, StabilityDisplay

__all__ = ["ConvergenceDisplay", "PathDisplay", "StabilityDisplay", "TrackingDisplay", "WeightsDisplay"]
