"""Linear operators."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._core.arrays import Array
from .base import Design, check_kind, is_native_float
from .dense import Dense


class Operator(Design):
    """A linear operator, seen through its two products alone; its pieces are operators again."""

    explicit = False

    def __init__(
        self, shape: tuple[int, int], dtype: Any, forward: Callable[..., Any], adjoint: Callable[..., Any]
    ) -> None:
        self.shape = shape
        self.reference = np.empty(0, dtype=dtype)
        self._forward, self._adjoint = forward, adjoint

    @classmethod
    def recognises(cls, X: Any) -> bool:
        return hasattr(X, "matvec")

    @classmethod
    def read(cls, X: Any, name: str) -> Self:
        from scipy.sparse.linalg import aslinearoperator

        operator = aslinearoperator(X)
        dtype = np.dtype(np.float64 if operator.dtype is None else operator.dtype)
        check_kind(dtype, name)
        dtype = dtype if is_native_float(dtype) else np.dtype(np.float64)

        def adjoint(r: np.ndarray) -> Any:
            return operator.rmatvec(r) if r.ndim == 1 else operator.rmatmat(r)

        try:
            adjoint(np.zeros(operator.shape[0], dtype=dtype))
        except NotImplementedError as error:
            raise TypeError(
                f"{name} must be an operator with rmatvec (the product with its transpose, which gradients need)"
            ) from error
        return cls(operator.shape, dtype, operator.dot, adjoint)

    # The products are copied, because an operator may hand out the same buffer each time.

    def forward(self, w: Array, support: Array | None = None) -> Array:
        return np.array(self._forward(w), dtype=self.reference.dtype)

    def adjoint(self, r: Array) -> Array:
        return np.array(self._adjoint(r), dtype=self.reference.dtype)

    def columns(self, index: Array) -> Design:
        (n, p), dtype = self.shape, self.reference.dtype
        return Operator(
            (n, len(index)), dtype, lambda w: self._forward(_spread(w, index, p)), lambda r: self._adjoint(r)[index]
        )

    def rows(self, index: np.ndarray) -> Design:
        (n, p), dtype = self.shape, self.reference.dtype
        return Operator(
            (len(index), p), dtype, lambda w: self._forward(w)[index], lambda r: self._adjoint(_spread(r, index, n))
        )

    def dense(self) -> Array:
        return self.forward(np.eye(self.shape[1], dtype=self.reference.dtype))

    @property
    def T(self) -> Design:
        return Operator(self.shape[::-1], self.reference.dtype, self._adjoint, self._forward)

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        return Dense(self.dense()).moments(weights)


def _spread(values: np.ndarray, index: Array, size: int) -> np.ndarray:
    """The array of the given length that sums the values at the index, which may repeat."""
    out = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    np.add.at(out, index, values)
    return out
