"""Risks that torch differentiates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.lazy import need
from .._core.validation import check_count
from .autodiff import Autodiff

_WORDS = "from_torch needs torch: pip install ellzero[torch]"


def from_torch(
    f: Callable[..., Any],
    n_features: Any,
    *,
    n_terms: int | None = None,
    batch: int | None = None,
    convex: bool = False,
    smoothness: float | None = None,
    strong_convexity: float | None = None,
    lower_bound: float = -math.inf,
    dtype: Any = None,
    device: Any = None,
) -> Autodiff:
    """R(w) = f(w), or R(w) = (1/n) Σ_i f_i(w), whose gradients torch computes.

    Parameters
    ----------
    f : callable
        ``f(w) -> tensor`` with one entry; with n_terms ``f(w, rows) -> tensor`` with the terms of these rows, a tensor
        of integers.
    n_features : int, dict of tensors, or torch.nn.Module
        How long w is, in double precision unless dtype says otherwise. Or tensors by their names (those of a module
        are its parameters): then f gets such a dict in place of w, `start` holds their values, and k counts over all.
    n_terms : int, optional
        n, where R is a mean of terms: mini-batches then draw from these.
    batch : int, optional
        Terms that are computed at a time; all by default.
    convex : bool
        Whether R is convex: refits and exchanges then use products with its Hessian, where f is twice differentiable.
    smoothness, strong_convexity, lower_bound : float, optional
        As for `Smooth`.
    dtype, device : optional
        Of w; by default those of the tensors, or double precision on the host.

    Examples
    --------
    >>> import torch, ellzero as ez
    >>> risk = ez.risks.from_torch(lambda w: ((w - 3) ** 4).sum() + w[1] ** 2, 5, convex=True)
    >>> ez.minimize(risk, k=4).support.tolist()
    [0, 2, 3, 4]
    """
    need("torch", _WORDS)
    return TorchRisk(
        f, n_features, dtype, device, n_terms=n_terms, batch=batch, smoothness=smoothness,
        strong_convexity=strong_convexity, convex=convex, lower_bound=lower_bound,
    )  # fmt: skip


class TorchRisk(Autodiff):
    """See `from_torch`."""

    _shapes: dict[str, Any] | None = None

    def __init__(self, f: Callable[..., Any], like: Any, dtype: Any, device: Any, **known: Any) -> None:
        import torch

        super().__init__(f, **known)
        tensors = _tensors(like)
        if tensors is None:
            self.n_features = check_count(like, "n_features")
            self.start = torch.zeros(self.n_features, dtype=dtype or torch.float64, device=device)
            self.parts = {"w": slice(0, self.n_features)}
            _check_dtype(self.start.dtype)
            return
        flat = [tensor.detach().to(device=device, dtype=dtype).reshape(-1) for tensor in tensors.values()]
        if not flat or not sum(t.numel() for t in flat):
            raise ValueError("n_features as tensors must hold at least one number, got none")
        self.start = torch.cat(flat)
        _check_dtype(self.start.dtype)
        self.n_features = self.start.numel()
        ends = np.cumsum([t.numel() for t in flat]).tolist()
        self.parts = {n: slice(e - t.numel(), e) for n, t, e in zip(tensors, flat, ends, strict=True)}
        self._shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def unravel(self, w: Array) -> Any:
        w = self.as_vector(w)
        return self._tensors_of(w)

    def _tensors_of(self, w: Any) -> Any:
        if self._shapes is None:
            return w
        return {name: w[self.parts[name]].reshape(shape) for name, shape in self._shapes.items()}

    def _mean(self, w: Any, rows: np.ndarray | None) -> Any:
        """The mean of the terms as a tensor."""
        import torch

        if rows is None:
            value = self.f(self._tensors_of(w))
            if not isinstance(value, torch.Tensor) or value.numel() != 1:
                raise ValueError(f"f(w) must return a tensor with one entry, got {_told(value)}; use .sum() or .mean()")
            return _real(value.reshape(()))
        terms = self.f(self._tensors_of(w), torch.as_tensor(rows, device=w.device))
        if not isinstance(terms, torch.Tensor) or tuple(terms.shape) != (len(rows),):
            raise ValueError(f"f(w, rows) must return one term for each of the {len(rows)} rows, got {_told(terms)}")
        return _real(terms).mean()

    def _loss(self, w: Array, rows: np.ndarray | None) -> float:
        import torch

        with torch.no_grad():
            return float(self._mean(w.detach(), rows))

    def _slopes(self, w: Array, rows: np.ndarray | None) -> tuple[float, Array]:
        value, _, slopes = self._differentiated(w, rows, again=False)
        return float(value.detach()), slopes.detach()

    def _differentiated(self, w: Any, rows: np.ndarray | None, again: bool) -> tuple[Any, Any, Any]:
        """The mean, where it was taken, and its gradient, which may be differentiated again."""
        import torch

        with torch.enable_grad():
            x = w.detach().clone().requires_grad_(True)
            value = self._mean(x, rows)
            if not value.requires_grad:
                raise ValueError("f(w) does not depend on w in a way that torch can differentiate")
            (slopes,) = torch.autograd.grad(value, x, create_graph=again, materialize_grads=True)
        return value, x, slopes

    def _bends(self, w: Array, rows: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
        import torch

        _, x, slopes = self._differentiated(w, rows, again=True)
        if not slopes.requires_grad:  # f is linear
            return np.zeros(vectors.shape)
        along = torch.as_tensor(vectors, dtype=x.dtype, device=x.device)
        given: dict[str, Any] = {"retain_graph": True, "materialize_grads": True}
        try:
            (found,) = torch.autograd.grad(slopes, x, along, is_grads_batched=True, **given)
        except RuntimeError:  # of an operation that does not go with several at once
            found = torch.stack([torch.autograd.grad(slopes, x, v, **given)[0] for v in along])
        return to_host(found).astype(float)

    def _each(self, w: Array, rows: np.ndarray) -> Array:
        import torch

        def term(x: Any, row: Any) -> Any:
            return self.f(self._tensors_of(x), row[None]).sum()

        index = torch.as_tensor(rows, device=w.device)
        try:
            return torch.func.vmap(torch.func.grad(term), in_dims=(None, 0))(w.detach(), index)
        except RuntimeError:  # of an operation that does not go with several at once
            return torch.stack([self._slopes(w, row)[1] for row in rows[:, None]])

    @property
    def zero(self) -> Array:
        import torch

        return torch.zeros_like(self.start)


def _tensors(like: Any) -> dict[str, Any] | None:
    """Tensors by their names; None for a number."""
    if hasattr(like, "named_parameters"):
        return dict(like.named_parameters())
    if isinstance(like, Mapping):
        return {str(name): tensor for name, tensor in like.items()}
    return None


def _real(value: Any) -> Any:
    if value.is_complex():
        raise TypeError(f"f must return real numbers, got {value.dtype}; use .real, or .abs() ** 2")
    return value


def _told(value: Any) -> str:
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else f", {value!r:.40}"
    return f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}{shape}"


def _check_dtype(dtype: Any) -> None:
    """Refuse what f has no derivative in, or too few digits."""
    if str(dtype) not in ("torch.float32", "torch.float64"):
        raise TypeError(
            f"w must be real numbers in single or double precision, got {dtype}; use dtype=torch.float64, or .float() "
            "for tensors"
        )
