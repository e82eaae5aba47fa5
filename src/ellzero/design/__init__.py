"""The only readers of X: products with a matrix of any kind, and its pieces."""

from .base import Design, in_double, take
from .reading import as_design

__all__ = ["Design", "as_design", "in_double", "take"]
