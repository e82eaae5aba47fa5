"""Checks for sets and risks of your own: they attack what you wrote and show a counterexample."""

from ._check_risk import check_risk
from ._check_set import check_set

__all__ = ["check_risk", "check_set"]
