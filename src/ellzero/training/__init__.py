"""Sparse training: projections after every step of an optimiser of torch or of optax."""

from .optax_transform import sparse_projection
from .projection import Gradually
from .torch_hook import SparseProjection

__all__ = ["Gradually", "SparseProjection", "sparse_projection"]
