"""What is counted in w, and what may be kept together: wherever a k is asked for, an int or one of these.

An int k means `Coordinates(k)`; `Groups` counts whole groups, `PerGroup` limits what is used of each, `Rows` counts the
features of several outputs, `Rank` the singular values of a matrix. A sparsity of your own is a subclass of `Sparsity`.
"""

from .base import Sparsity
from .coordinates import Coordinates, as_sparsity
from .groups import Groups, PerGroup, Rows
from .rank import Rank

__all__ = ["Coordinates", "Groups", "PerGroup", "Rank", "Rows", "Sparsity", "as_sparsity"]
