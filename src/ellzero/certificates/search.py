"""Branch and bound: fix coordinates, or atoms, in or out until the bound of every part exceeds the best known value."""

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..sets import EmptySlice
from ..sets.base import MemberNotFound
from .answer import Answer
from .relaxation import Relaxed
from .root_bound import RootBound
from .supports import Decisions


@dataclass(order=True)
class Node:
    """A part of the search, with what is known of it."""

    bound: float
    number: int
    part: Decisions = field(compare=False)
    relaxed: Relaxed = field(compare=False)


@dataclass
class Progress:
    """One line of the search's history."""

    time: float
    nodes: int
    incumbent: float
    bound: float


class Search:
    """Best-first search below one relaxation, from its root bound to the relative gap that is the target.

    The answer is the best point known, and tells R on single supports.
    """

    def __init__(self, answer: Answer, root: RootBound, target: float | None) -> None:
        self.answer, self.relaxation, self.floor, self.target = answer, root.relaxation, root.floor, target
        self.started, self.nodes = time.perf_counter(), 0
        self.history: list[Progress] = []
        self.tried: set[bytes] = set()
        self.current = math.inf  # the bound of the part that is being looked at
        self.accept(None, answer.value, answer.error)
        self.closed = math.inf if root.complete else self.cutoff  # the lowest bound among parts that are done
        self.heap = [Node(max(root.relaxed.bound, root.floor), 0, root.part, root.relaxed)]
        self.record()

    def accept(self, x: np.ndarray | None, value: float, error: float) -> None:
        """The best point known is x from now on, and R there within the error of the value; None: the answer's."""
        self.best, self.low, self.value = x, value - error, value + error

    @property
    def cutoff(self) -> float:
        """Parts above this hold nothing that is better by more than the allowance."""
        return self.value - self.answer.allowance(self.value, self.target)

    @property
    def bound(self) -> float:
        """What no feasible point goes below."""
        return max(self.floor, min(self.closed, self.current, self.low, *(node.bound for node in self.heap[:1])))

    @property
    def done(self) -> bool:
        """Whether the bound has met the best known value, up to the allowance."""
        return not self.heap or self.bound >= self.cutoff

    def record(self) -> None:
        """A line of history, where something has changed."""
        line = Progress(time.perf_counter() - self.started, self.nodes, self.value, self.bound)
        self.history.append(line)

    def run(self, watch: Callable[[Progress], None] | None = None) -> None:
        """Branch until done, or until the deadline; `watch` is told of the progress about ten times a second."""
        told = time.perf_counter()
        while self.heap and not self.done:
            now = time.perf_counter()
            if now > self.answer.deadline:
                break
            if now > told + 0.1:
                self.record()
                told = now
                if watch is not None:
                    watch(self.history[-1])
            last = self.history[-1]
            if self.bound - last.bound > 0.01 * (self.value - self.history[0].bound):
                self.record()
            node = self.heap[0]
            self.current = node.bound
            try:
                heapq.heappop(self.heap)
                self._branch(node)
            except BaseException:
                if not any(other is node for other in self.heap):
                    heapq.heappush(self.heap, node)  # an interruption loses nothing: its part is still open
                raise
            finally:
                self.current = math.inf
        self.record()

    def _branch(self, node: Node) -> None:
        self.nodes += 1
        i = self._choose(node)
        if i is None:  # nothing is left to decide
            self._close(node)
            return
        parts = (self.relaxation.supports.closed(node.part.taking(i)), node.part.leaving(i))
        children = [self._child(node, part) for part in parts]
        for child in children:
            if child is not None:
                heapq.heappush(self.heap, child)

    def _child(self, node: Node, part: Decisions) -> Node | None:
        """The node of a smaller part; None if that holds nothing better."""
        try:
            relaxed = self.relaxation.solve(part, node.relaxed.warm, self.cutoff)
        except MemberNotFound:
            self.closed = min(self.closed, node.bound)  # there may be one: only the parent's bound is known
            return None
        except EmptySlice:
            return None
        bound = max(node.bound, relaxed.bound)
        if bound >= self.cutoff:
            self.closed = min(self.closed, bound)
            return None
        self._round(relaxed, part)
        screened = self.relaxation.screen(relaxed, part, self.cutoff)
        if len(screened) > len(part):  # what is set aside is above the cutoff, and that is all that is known of it
            self.closed = min(self.closed, self.cutoff)
        return Node(bound, self.nodes * 2 + int(screened.kept.size > node.part.kept.size), screened, relaxed)

    def _choose(self, node: Node) -> Any:
        """The branching rule: decide the largest of the coordinates, or atoms, that are partly in."""
        relaxed, supports = node.relaxed, self.relaxation.supports
        if supports.settled(node.part):
            return None
        share, size, free = relaxed.share, supports.sizes(relaxed.w), supports.choices(node.part)
        partly = free & (share > 1e-6) & (share < 1 - 1e-6)
        if partly.any():
            return supports.whole(int(np.where(partly, size, -1.0).argmax()))
        self._offer(np.flatnonzero(free & (share > 0.5)), node.part)
        if node.bound >= self.cutoff:
            return None
        return supports.whole(int(np.where(free, size if size[free].any() else share, -1.0).argmax()))

    def _close(self, node: Node) -> None:
        """A part with all decisions made is a convex problem: its best point is found, and bounded from below."""
        part = node.part
        support = np.sort(np.concatenate([part.kept, np.flatnonzero(self.relaxation.supports.choices(part))]))
        self._offer(support, part)
        bound = node.bound
        if bound < self.cutoff:
            bound = max(bound, self.relaxation.settle(support, node.relaxed.warm, self.cutoff))
        if bound < self.cutoff:
            try:
                bound = max(bound, self.answer.bound(self.relaxation.index[support]))
            except MemberNotFound:
                pass
            except EmptySlice:
                return
        self.closed = min(self.closed, bound)

    def _round(self, relaxed: Relaxed, part: Decisions) -> None:
        """Try the support that the relaxation suggests."""
        self._offer(self.relaxation.supports.best(relaxed.share * np.abs(relaxed.w), part), part)

    def _offer(self, more: np.ndarray, part: Decisions) -> None:
        support = np.union1d(more, part.kept)
        key = support.tobytes()
        if key in self.tried or not self.relaxation.supports.admits(support):
            return
        self.tried.add(key)
        try:
            value, x = self.answer.refit(self.relaxation.index[support])
        except EmptySlice:
            return
        if value < self.value:
            value, error = self.answer.measured(x)
            if value + error < self.value:
                self.accept(x, value, error)
                self.record()
