"""torch tensors, on the host or on a device: sums over X are taken where X is, and only what is as long as a row comes
to the host.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, index_like, like, namespace, to_host
from .._core.validation import check_layout
from .base import Design, row_blocks
from .dense import Dense

_BLOCK = 2**26  # entries at a time: enough to keep a device busy, little beside an X that fills it


class _Exact:
    """Products in single precision that keep it, although tensor cores may have been let loose elsewhere.

    The setting is one for all threads: the first that computes changes it, and the last one back.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.before = threading.Lock(), 0, ""

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.before = self._exchange("ieee")
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self._exchange(self.before)

    @staticmethod
    def _exchange(precision: str) -> str:
        """Set it, where that changes anything, and tell what was set."""
        import torch

        matmul = torch.backends.cuda.matmul
        if not hasattr(matmul, "fp32_precision"):  # before torch 2.9
            level = str(torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest" if precision == "ieee" else precision)
            return level
        before = str(matmul.fp32_precision)
        if before not in (precision, "none"):  # none: nobody has let them loose
            matmul.fp32_precision = precision
        return before


_exact = _Exact()


@contextmanager
def _all_digits(v: Array) -> Iterator[None]:
    """Products keep the precision of X, whatever is allowed or asked for elsewhere."""
    with _as_it_is(v), _exact if v.ndim > 1 and v.is_cuda else nullcontext():
        yield


def _as_it_is(v: Array) -> AbstractContextManager[Any]:
    """No automatic casts to half precision where v is."""
    import torch

    where = v.device.type
    return torch.autocast(where, enabled=False) if torch.is_autocast_enabled(where) else nullcontext()


class Tensors(Dense):
    """A torch tensor; never copied as a whole."""

    @classmethod
    def recognises(cls, X: Any) -> bool:
        return hasattr(X, "detach") and hasattr(X, "device")

    @classmethod
    def read(cls, X: Array, name: str) -> Dense:
        if str(X.dtype) in ("torch.bfloat16", "torch.float16"):
            raise TypeError(
                f"{name} must be in single or double precision, got {X.dtype}, of which sums keep two or three digits; "
                f"use {name}.float()"
            )
        check_layout(X, name)
        return super().read(X.detach(), name)  # R is no part of what its owner differentiates

    def forward(self, w: Array, support: Array | None = None) -> Array:
        with _all_digits(w):
            return super().forward(w, support)

    def adjoint(self, r: Array) -> Array:
        with _all_digits(r):
            return super().adjoint(r)

    def undisturbed(self) -> AbstractContextManager[Any]:
        return _as_it_is(self.X)

    def at_work(self, verbose: int) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(super().at_work(verbose))
        stack.enter_context(self.undisturbed())
        return stack

    def moments(self, weights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        p = self.shape[1]
        gram, mean = self._double(np.zeros((p, p))), self._double(np.zeros(p))
        for rows, block in self._blocks():
            weighted = block if isinstance(weights, float) else block * self._double(weights[rows])[:, None]
            gram += weighted.T @ block
            mean += weighted.sum(0)
        scale = weights if isinstance(weights, float) else 1.0
        return scale * to_host(gram), scale * to_host(mean)

    def products(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        left_there, right_there = index_like(left, self.X), index_like(right, self.X)
        found = self._double(np.zeros((left.size, right.size)))
        for rows in row_blocks((self.shape[0], left.size + right.size), _BLOCK):
            A, B = self.X[rows][:, left_there].double(), self.X[rows][:, right_there].double()
            found += A.T @ (B if isinstance(weights, float) else self._double(weights[rows])[:, None] * B)
        return (weights if isinstance(weights, float) else 1.0) * to_host(found)

    def grams(self, index: np.ndarray) -> np.ndarray:
        m, g = index.shape
        columns = index_like(np.maximum(index, 0).ravel(), self.X)
        found = self._double(np.zeros((m, g, g)))
        for rows in row_blocks((self.shape[0], max(index.size, 1)), _BLOCK):
            block = self.X[rows][:, columns].double().reshape(-1, m, g).permute(1, 2, 0)
            found += block @ block.transpose(1, 2)
        both = (index >= 0)[:, :, None] & (index >= 0)[:, None, :]
        return np.where(both, to_host(found), 0.0)

    @cached_property
    def squares(self) -> np.ndarray:
        return self._square_sums(None)

    def square_sums(self, weights: np.ndarray) -> np.ndarray:
        return self._square_sums(self.asarray(np.sqrt(weights))[:, None])

    def _square_sums(self, root: Array | None, double: bool = False) -> np.ndarray:
        """Σ_i root_i² X_ij²: of each block in the precision of X, which costs no copy of it, and then in double.

        Where squares may have left the numbers of single precision, all in double.
        """
        total = self._double(np.zeros(self.shape[1]))
        for rows in row_blocks(self.shape, _BLOCK):
            block = self.X[rows].double() if double else self.X[rows]
            total += (block if root is None else block * root[rows]).norm(dim=0).double() ** 2
        sums = to_host(total)
        if double or ((sums > 1e-24) & (sums < 1e30)).all():
            return sums
        return self._square_sums(root, double=True)

    def row_norms(self) -> np.ndarray:
        return np.concatenate([to_host(block.norm(dim=1)) for _, block in self._blocks()])

    def correlations(self, r: np.ndarray) -> np.ndarray:
        return to_host(sum(block.T @ self._double(r[rows]) for rows, block in self._blocks()))

    def doubled(self) -> Iterator[Design]:
        return (type(self)(block) for _, block in self._blocks())

    def on_host(self) -> Dense:
        return Dense(np.asfortranarray(to_host(self.X), dtype=np.float64))

    def _in_double(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_blocks(self.shape):
            yield rows, to_host(self.X[rows]).astype(np.float64)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Rows and their numbers in double precision, where X is."""
        for rows in row_blocks(self.shape, _BLOCK):
            yield rows, self.X[rows].double()

    def _double(self, values: np.ndarray) -> Array:
        """Values in double precision, where X is."""
        return like(values, self.X, dtype=namespace(self.X).float64)
