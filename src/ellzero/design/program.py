"""What is done with every part: a recipe of steps, written down here and followed where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class Node:
    """Something that every part has: its rows of X, or of a vector; a leaf, or f of other nodes.

    Attributes
    ----------
    layout : Layout
    f, args, kwargs
        How it is made; f is None for a leaf.
    leaf : object
        What the layout knows the parts of a leaf by.
    known : array, optional
        All rows of it, here, once they are known.
    """

    known: np.ndarray | None = None

    def __init__(
        self,
        layout: Any,
        f: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        leaf: Any = None,
    ) -> None:
        self.layout, self.f, self.args, self.kwargs, self.leaf = layout, f, args, kwargs or {}, leaf


@dataclass(frozen=True)
class Slot:
    """The result of an earlier step."""

    number: int


@dataclass(frozen=True)
class Program:
    """Nodes as a list of steps, each of earlier ones: what is sent to the parts, and followed there.

    Attributes
    ----------
    steps : list of (f, args, kwargs)
        Behind the parts of the leaves, which are the first slots.
    outputs : list of int
        The slots of the nodes that were asked for.
    """

    steps: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
    outputs: list[int]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> tuple[Program, list[Any]]:
        """The program of some nodes, and their leaves."""
        order: dict[int, Node] = {}
        for node in nodes:
            _visit(node, order)
        leaves = [node for node in order.values() if _is_leaf(node)]
        others = [node for node in order.values() if not _is_leaf(node)]
        slots = {id(node): i for i, node in enumerate([*leaves, *others])}
        steps = [
            (node.f, tuple(Slot(slots[id(a)]) if isinstance(a, Node) else a for a in node.args), node.kwargs)
            for node in others
        ]
        found = [node.leaf if node.known is None else node.known for node in leaves]
        return cls(steps, [slots[id(node)] for node in nodes]), found  # type: ignore[arg-type]

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The outputs, for the parts of the leaves."""
        values = list(leaves)
        with np.errstate(all="ignore"):
            for f, args, kwargs in self.steps:
                values.append(f(*(values[a.number] if isinstance(a, Slot) else a for a in args), **kwargs))
        return [values[i] for i in self.outputs]


def _is_leaf(node: Node) -> bool:
    return node.f is None or node.known is not None


def _visit(node: Node, order: dict[int, Node]) -> None:
    """What a node is made of, and then itself."""
    if id(node) in order:
        return
    if not _is_leaf(node):
        for argument in node.args:
            if isinstance(argument, Node):
                _visit(argument, order)
    order[id(node)] = node


def ancestors(nodes: Sequence[Node]) -> list[Node]:
    """All that some nodes are made of, themselves included, as far as it is not known."""
    order: dict[int, Node] = {}
    for node in nodes:
        _visit(node, order)
    return list(order.values())
