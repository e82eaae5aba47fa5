"""ellzero: sparse optimisation under convex constraints, with an answer for how good the answer is."""

from . import risks, sets

__version__ = "0.1.0.dev0"
__all__ = ["risks", "sets"]
