"""What is promised before a run: the theorems' premises, parameters and bounds."""

from .constants import RestrictedConstants, restricted_constants

__all__ = ["RestrictedConstants", "restricted_constants"]
