"""Sparse training with torch: a hook behind the step of any optimiser."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

from .._core.lazy import need
from ..sets import ConstraintSet
from .projection import AfterStep

_WORDS = "SparseProjection needs torch: pip install ellzero[torch]"


class SparseProjection:
    """After every step of an optimiser w ↦ Π_Γ(H_k(w)), for all parameters together: at most k nonzeros, inside Γ.

    A projected stochastic gradient method, the step of which any optimiser makes. Momentum of entries that are left out
    is set to zero, so that it does not bring them back.

    Parameters
    ----------
    parameters : torch.nn.Module, named parameters or parameters
        Those that share one k; others are left alone. One that is frozen is refused, as a projection would change it.
    k : int, float or sparsity
        How many entries may be nonzero in the end, or which share of all, or what else is counted (`ellzero.sparsity`).
    constraint : ConstraintSet, optional
        Γ, of all entries one after the other; `labels` names the parameter of each, for `ellzero.sets.GroupWise`.
    schedule : callable, optional
        ``schedule(t, k, d) -> k_t`` for step t = 1, 2, ...: `Gradually(end)`, say. By default k from the first step on.
    keep : indices or mask, optional
        Entries that are never left out; they count in k.
    every : int
        The support is chosen anew every so many steps, and kept in between.
    projection : {"two-step", "restricted", "euclidean"}
        As for `ellzero.Method`.
    momentum : tuple of str
        Names in the state of the optimiser that are set to zero outside the support.

    Attributes
    ----------
    t : int
        Steps so far.
    k : int
        How much is allowed now.
    labels : list of str
        For each entry the name of its parameter.
    masks : dict of str to tensor of bool
        Which entries of each parameter are kept.

    Examples
    --------
    >>> import torch, ellzero as ez
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(20, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> sparse = ez.SparseProjection(model, k=3, constraint=ez.sets.LinfBall(0.5)).attach(optimizer)
    >>> X = torch.randn(200, 20)
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     ((model(X)[:, 0] - X[:, 4]) ** 2).mean().backward()
    ...     optimizer.step()
    >>> int(torch.count_nonzero(model.weight)) <= 3, round(float(model.weight[0, 4].detach()), 3)
    (True, 0.5)
    """

    def __init__(
        self,
        parameters: Any,
        k: Any,
        constraint: ConstraintSet | None = None,
        *,
        schedule: Callable[[int, int, int], int] | None = None,
        keep: Any = None,
        every: int = 1,
        projection: str = "two-step",
        momentum: tuple[str, ...] = ("momentum_buffer", "exp_avg"),
    ) -> None:
        self._torch = need("torch", _WORDS)
        self.parameters = _named(parameters, self._torch)
        self.momentum, self.t = tuple(momentum), 0
        self._sizes = [parameter.numel() for parameter in self.parameters.values()]
        self._after = AfterStep(k, constraint, sum(self._sizes), keep, schedule, every, projection)
        self._support: Any = None
        self._hooks: list[Any] = []
        self._attached: list[Any] = []

    @property
    def k(self) -> int:
        """How much is allowed now."""
        return self._after.level(max(self.t, 1))

    @property
    def labels(self) -> list[str]:
        """For each entry the name of its parameter."""
        return [name for name, size in zip(self.parameters, self._sizes, strict=True) for _ in range(size)]

    @property
    def masks(self) -> dict[str, Any]:
        """Which entries of each parameter are kept."""
        first = next(iter(self.parameters.values()))
        mask = self._torch.ones(sum(self._sizes), dtype=self._torch.bool, device=first.device)
        if self._support is not None:
            mask[:] = False
            mask[self._support] = True
        shapes = [p.shape for p in self.parameters.values()]
        parts = zip(self.parameters, mask.split(self._sizes), shapes, strict=True)
        return {name: part.reshape(shape) for name, part, shape in parts}

    def attach(self, optimizer: Any) -> Self:
        """Project after every step of the optimiser from now on."""
        there = {id(p) for group in optimizer.param_groups for p in group["params"]}
        missing = [name for name, p in self.parameters.items() if id(p) not in there]
        if missing:
            raise ValueError(f"the optimizer does not know the parameter {missing[0]!r}; give it all that share k")
        if any(known() is optimizer for known in self._attached):
            raise ValueError("this optimizer is attached already: its steps would be projected and counted twice")
        self._attached.append(weakref.ref(optimizer))
        self._hooks.append(optimizer.register_step_post_hook(lambda o, args, kwargs: self.step(o)))
        return self

    def detach(self) -> None:
        """Do so no longer."""
        self._attached.clear()
        while self._hooks:
            self._hooks.pop().remove()

    def step(self, optimizer: Any = None) -> None:
        """Project the parameters, and the momentum of an optimiser, where one is given."""
        torch = self._torch
        self.t += 1
        with torch.no_grad():
            flat = torch.cat([parameter.reshape(-1) for parameter in self.parameters.values()])
            if not torch.isfinite(flat).all():
                parts = zip(self.parameters, flat.split(self._sizes), strict=True)
                name = next(name for name, part in parts if not torch.isfinite(part).all())
                raise ValueError(
                    f"the parameter {name!r} holds NaN or infinities after {self.t} steps: the training has diverged; "
                    "take a smaller rate of learning, or clip the gradients"
                )
            _check_kinds(self.parameters)  # again, as modules are turned to half precision in place
            projected, self._support = self._after(flat, self.t, self._support)
            for parameter, part in zip(self.parameters.values(), projected.split(self._sizes), strict=True):
                parameter.copy_(part.reshape(parameter.shape))
            if optimizer is None:
                return
            for state in optimizer.state.values():
                if "old_dirs" in state:  # L-BFGS knows of steps that were made otherwise, and begins anew
                    state["n_iter"] = 0
            for mask, parameter in zip(self.masks.values(), self.parameters.values(), strict=True):
                for name in self.momentum:
                    buffer = optimizer.state.get(parameter, {}).get(name)
                    if buffer is not None:
                        buffer.mul_(mask)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs besides the parameters: the step and the support."""
        support = None if self._support is None else self._support.clone()
        return {"t": self.t, "support": support, "n_features": sum(self._sizes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a checkpoint was written."""
        if state["n_features"] != sum(self._sizes):
            raise ValueError(
                f"the state is one of {state['n_features']} parameters, and these are {sum(self._sizes)}; make the "
                "SparseProjection for the same parameters"
            )
        first = next(iter(self.parameters.values()))
        self.t = int(state["t"])
        self._support = None if state["support"] is None else state["support"].to(first.device)


def _named(parameters: Any, torch: Any) -> dict[str, Any]:
    """Parameters by their names."""
    if hasattr(parameters, "named_parameters"):
        parameters = parameters.named_parameters()
    if not isinstance(parameters, Iterable):
        raise TypeError(f"parameters must be a module, or its parameters, got {parameters!r}")
    items = list(parameters.items() if isinstance(parameters, dict) else parameters)
    named = {f"{i}": item for i, item in enumerate(items)} if items and not isinstance(items[0], tuple) else dict(items)
    if not named or not all(isinstance(p, torch.Tensor) for p in named.values()):
        raise TypeError(f"parameters must be a module with parameters, or tensors, got {parameters!r:.80}")
    if len({id(p) for p in named.values()}) < len(named):
        raise ValueError("parameters must be different tensors, and one of them is named twice: k would count it twice")
    _check_kinds(named)
    frozen = [name for name, p in named.items() if isinstance(p, torch.nn.Parameter) and not p.requires_grad]
    if frozen:
        raise ValueError(
            f"the parameter {frozen[0]!r} is frozen (requires_grad=False), and a projection would change it; give the "
            "others alone: {name: p for name, p in model.named_parameters() if p.requires_grad}"
        )
    return {str(name): parameter for name, parameter in named.items()}


def _check_kinds(parameters: dict[str, Any]) -> None:
    """Refuse half precision, in which k largest and projections would be rounded, and a mixture."""
    kinds = {(str(p.dtype), str(p.device)) for p in parameters.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in ("torch.float32", "torch.float64"):
        raise TypeError(
            "parameters must be of one precision, single or double, on one device; got "
            + ", ".join(f"{dtype} on {device}" for dtype, device in sorted(kinds))
        )
