"""The only readers of X: products with a matrix of any kind, and its pieces."""

from .base import Design, here, in_double, take
from .blocks import Blocks
from .by_row import ByRow, by_row, extent, totals
from .cluster import Distributed, is_dask, map_parts
from .reading import as_design, elsewhere

__all__ = [
    "Blocks", "ByRow", "Design", "Distributed", "as_design", "by_row", "elsewhere", "extent", "here",
    "in_double", "is_dask", "map_parts", "take", "totals",
]  # fmt: skip
