"""Checks for sets and risks of your own: they attack what you wrote and show a counterexample."""

from .risks import check_risk
from .sets import check_set

__all__ = ["check_risk", "check_set"]
