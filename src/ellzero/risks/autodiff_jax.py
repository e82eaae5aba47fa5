"""Risks that JAX differentiates."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array
from .._core.lazy import need
from .._core.validation import check_count
from .autodiff import Autodiff

_WORDS = "from_jax needs JAX: pip install ellzero[jax]"


def from_jax(
    f: Callable[..., Any],
    n_features: Any,
    *,
    n_terms: int | None = None,
    batch: int | None = None,
    convex: bool = False,
    smoothness: float | None = None,
    strong_convexity: float | None = None,
    lower_bound: float = -math.inf,
) -> Autodiff:
    """R(w) = f(w), or R(w) = (1/n) Σ_i f_i(w), whose gradients JAX computes.

    f is compiled. w is a NumPy array for the solver and one of JAX for f: in double precision where JAX has it
    (``jax.config.update("jax_enable_x64", True)``), otherwise in single precision.

    Parameters
    ----------
    f : callable
        ``f(w) -> number``; with n_terms ``f(w, rows) -> array`` with the terms of these rows.
    n_features : int or pytree of arrays
        How long w is. Or arrays in any nesting: then f gets the same nesting in place of w, `start` holds their values,
        and k counts over all.
    n_terms, batch, convex, smoothness, strong_convexity, lower_bound
        As for `from_torch`.

    Examples
    --------
    >>> import jax.numpy as jnp, ellzero as ez
    >>> risk = ez.risks.from_jax(lambda w: jnp.sum(jnp.cosh(w - 1)) + w[1] ** 2, 5, convex=True)
    >>> ez.minimize(risk, k=4).support.tolist()
    [0, 2, 3, 4]
    """
    need("jax", _WORDS)
    return JaxRisk(
        f, n_features, n_terms=n_terms, batch=batch, smoothness=smoothness, strong_convexity=strong_convexity,
        convex=convex, lower_bound=lower_bound,
    )  # fmt: skip


class JaxRisk(Autodiff):
    """See `from_jax`."""

    _unravel: Any = staticmethod(lambda w: w)

    def __init__(self, f: Callable[..., Any], like: Any, **known: Any) -> None:
        import jax
        from jax.flatten_util import ravel_pytree

        super().__init__(f, **known)
        if isinstance(like, (numbers.Number, str)) or not jax.tree_util.tree_leaves(like):
            self.n_features = check_count(like, "n_features")
            self.start = np.zeros(self.n_features, dtype=jax.dtypes.canonicalize_dtype(np.float64))
            self.parts = {"w": slice(0, self.n_features)}
            return
        flat, self._unravel = ravel_pytree(like)
        if flat.dtype.kind != "f":
            raise TypeError(f"the arrays must hold real numbers, got {flat.dtype}; use astype(float)")
        self.start, self.n_features = np.array(flat), flat.size
        self.parts, end = {}, 0
        for path, leaf in jax.tree_util.tree_leaves_with_path(like):
            self.parts[jax.tree_util.keystr(path, simple=True, separator=".")] = slice(end, end + np.size(leaf))
            end += np.size(leaf)

    def unravel(self, w: Array) -> Any:
        return self._unravel(self._there(self.as_vector(w)))

    def _there(self, w: np.ndarray) -> Any:
        import jax.numpy as jnp

        return jnp.asarray(w, dtype=self.start.dtype)

    def _mean(self, w: Any, rows: Any) -> Any:
        import jax.numpy as jnp

        if rows is None:
            value = jnp.asarray(self.f(self._unravel(w)))
            if value.size != 1:
                raise ValueError(f"f(w) must return one number, got an array of shape {value.shape}; use .sum()")
            return _real(value.reshape(()))
        terms = jnp.asarray(self.f(self._unravel(w), rows))
        if terms.shape != rows.shape:
            raise ValueError(
                f"f(w, rows) must return one term for each of the {rows.size} rows, got an array of shape {terms.shape}"
            )
        return _real(terms).mean()

    @cached_property
    def _compiled(self) -> dict[str, Any]:
        """Value, value and gradient, products with the Hessian, and gradients of single terms; compiled when called."""
        import jax

        def bends(w: Any, rows: Any, vectors: Any) -> Any:
            slopes = jax.grad(lambda x: self._mean(x, rows))
            return jax.vmap(lambda v: jax.jvp(slopes, (w,), (v,))[1])(vectors)

        def each(w: Any, rows: Any) -> Any:
            return jax.vmap(lambda row: jax.grad(lambda x: self._mean(x, row[None]))(w))(rows)

        steps = {"loss": self._mean, "slopes": jax.value_and_grad(self._mean), "bends": bends, "each": each}
        return {name: jax.jit(step) for name, step in steps.items()}

    def _loss(self, w: Array, rows: np.ndarray | None) -> float:
        return float(self._compiled["loss"](self._there(w), rows))

    def _slopes(self, w: Array, rows: np.ndarray | None) -> tuple[float, Array]:
        value, slopes = self._compiled["slopes"](self._there(w), rows)
        return float(value), np.array(slopes)

    def _bends(self, w: Array, rows: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
        return np.array(self._compiled["bends"](self._there(w), rows, self._there(vectors)), dtype=float)

    def _each(self, w: Array, rows: np.ndarray) -> Array:
        return np.array(self._compiled["each"](self._there(w), rows))

    @property
    def zero(self) -> Array:
        return np.zeros_like(self.start)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}


def _real(value: Any) -> Any:
    if value.dtype.kind == "c":
        raise TypeError(f"f must return real numbers, got {value.dtype}; use .real, or abs(...) ** 2")
    return value
