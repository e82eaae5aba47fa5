"""Sparse training with JAX: a transformation of optax around any other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.lazy import need
from ..sets import ConstraintSet
from .projection import AfterStep

_WORDS = "sparse_projection needs JAX and optax: pip install ellzero[jax]"


class SparseState(NamedTuple):
    """The state of the inner transformation, the step, and which entries are kept."""

    inner: Any
    t: Any
    mask: Any


def sparse_projection(
    inner: Any,
    k: Any,
    constraint: ConstraintSet | None = None,
    *,
    schedule: Callable[[int, int, int], int] | None = None,
    keep: Any = None,
    every: int = 1,
    projection: str = "two-step",
    momentum: tuple[str, ...] = ("mu", "trace"),
) -> Any:
    """A transformation of optax after whose updates w = Π_Γ(H_k(w)): at most k nonzeros over all arrays, inside Γ.

    Momentum of entries that are left out is set to zero, so that it does not bring them back. It goes with `jax.jit`:
    the projection itself is computed by the host.

    Parameters
    ----------
    inner : optax.GradientTransformation
        An optimiser, such as ``optax.adam(1e-3)``.
    k, constraint, schedule, keep, every, projection
        As for `SparseProjection`; entries are those of the arrays of the tree, one after the other.
    momentum : tuple of str
        Fields of optimisers' states that are set to zero outside the support.

    Returns
    -------
    optax.GradientTransformation
        `update` needs the parameters.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax, ellzero as ez
    >>> optimizer = ez.training.sparse_projection(optax.sgd(0.1), k=1, constraint=ez.sets.LinfBall(0.5))
    >>> w = {"a": jnp.zeros(3), "b": jnp.zeros(2)}
    >>> state = optimizer.init(w)
    >>> for _ in range(50):
    ...     slopes = jax.grad(lambda w: jnp.sum(w["a"] ** 2) + jnp.sum((w["b"] - jnp.array([0.2, 1.0])) ** 2))(w)
    ...     updates, state = optimizer.update(slopes, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> w["b"].tolist()
    [0.0, 0.5]
    """
    optax = need("optax", _WORDS)
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    known: dict[int, AfterStep] = {}

    def after(d: int) -> AfterStep:
        if d not in known:
            known[d] = AfterStep(k, constraint, d, keep, schedule, every, projection)
        return known[d]

    def project(v: Any, t: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        v, mask = np.asarray(v), np.asarray(mask)
        if not np.isfinite(v).all():
            raise ValueError(
                f"the parameters hold NaN or infinities after {int(t)} steps: the training has diverged; take a "
                "smaller rate of learning, or clip the gradients"
            )
        support = None if int(t) == 1 else np.flatnonzero(mask)
        w, chosen = after(v.size)(v, int(t), support)
        kept = np.zeros(v.size, dtype=bool)
        kept[chosen] = True
        return np.asarray(w, dtype=v.dtype), kept

    def init(params: Any) -> SparseState:
        flat, _ = ravel_pytree(params)
        _check_kinds({str(jnp.asarray(leaf).dtype) for leaf in jax.tree_util.tree_leaves(params)})
        after(flat.size)  # says at once what does not fit
        return SparseState(inner.init(params), jnp.zeros((), jnp.int32), jnp.ones(flat.size, bool))

    def update(updates: Any, state: SparseState, params: Any = None, **extra: Any) -> tuple[Any, SparseState]:
        if params is None:
            raise ValueError("sparse_projection needs the parameters: optimizer.update(gradients, state, params)")
        updates, inside = inner.update(updates, state.inner, params, **extra)
        before, unravel = ravel_pytree(params)
        step, t = ravel_pytree(updates)[0], state.t + 1
        shapes = jax.ShapeDtypeStruct(before.shape, before.dtype), jax.ShapeDtypeStruct(before.shape, bool)
        w, mask = jax.pure_callback(project, shapes, before + step, t, state.mask, vmap_method="sequential")
        inside = _masked(inside, unravel(mask.astype(before.dtype)), momentum, jax)
        return unravel(_towards(before, w, jnp)), SparseState(inside, t, mask)

    return optax.GradientTransformationExtraArgs(init, update)


def _check_kinds(kinds: set[str]) -> None:
    if len(kinds) > 1 or kinds - {"float32", "float64"}:
        raise TypeError(
            f"parameters must be of one precision, single or double; got {', '.join(sorted(kinds)) or 'none'}"
        )


def _towards(before: Any, w: Any, jnp: Any) -> Any:
    """The update u with before + u = w but for rounding, and that to the side of zero, where Γ goes on."""
    u = w - before
    for _ in range(3):
        u = jnp.where(jnp.abs(before + u) > jnp.abs(w), jnp.nextafter(u, -jnp.copysign(jnp.inf, w)), u)
    return u


def _masked(state: Any, masks: Any, names: tuple[str, ...], jax: Any) -> Any:
    """The state of an optimiser with its momentum zero outside the masks: arrays in a field of such a name, at the
    place that the parameter has in its tree.
    """
    known = dict(jax.tree_util.tree_leaves_with_path(masks))

    def masked(path: Any, leaf: Any) -> Any:
        for i, key in enumerate(path):
            if getattr(key, "name", None) in names and path[i + 1 :] in known:
                return leaf * known[path[i + 1 :]]
        return leaf

    return jax.tree_util.tree_map_with_path(masked, state)
