"""The only readers of X: products with a matrix of any kind, and its pieces."""

from .base import Design, here, in_double, take
from .blocks import Blocks
from .reading import as_design

__all__ = ["Blocks", "Design", "as_design", "here", "in_double", "take"]
