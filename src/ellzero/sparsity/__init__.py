"""What is counted in w, and what may be kept together: wherever a k is asked for, an int or one of these.

An int k means `Coordinates(k)`. A sparsity of your own is a subclass of `Sparsity`.
"""

from .base import Sparsity
from .coordinates import Coordinates, as_sparsity

__all__ = ["Coordinates", "Sparsity", "as_sparsity"]
