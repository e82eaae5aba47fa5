"""Branch and bound: fix coordinates in or out until the bound of every part exceeds the best known value."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..sets import EmptySlice
from ..sets.base import MemberNotFound
from .atoms import Atoms
from .perspective import Perspective, Relaxed


@dataclass
class Whole:
    """No relaxation: where nothing is left to choose, the bound on the one support says all."""

    k: int

    def solve(self, kept: np.ndarray, out: np.ndarray, warm: Any, *_: object, **__: object) -> Relaxed:
        """Nothing; see `Supports.bound`."""
        w = np.atleast_2d(warm)[0]
        return Relaxed(-math.inf, w, np.ones(w.size), None, warm)


Relaxation = Perspective | Atoms | Whole


@dataclass(order=True)
class Node:
    """A part of the search: some coordinates in, some out."""

    bound: float
    number: int
    kept: np.ndarray = field(compare=False)
    out: np.ndarray = field(compare=False)
    relaxed: Relaxed = field(compare=False)


@dataclass
class Progress:
    """One line of the search's history."""

    time: float
    nodes: int
    incumbent: float
    bound: float


class Supports(Protocol):
    """R on single supports, in Γ."""

    def refit(self, support: np.ndarray) -> tuple[float, np.ndarray]:
        """The least R on a support, and where it is attained."""

    def interval(self, w: np.ndarray | None) -> tuple[float, float]:
        """Two numbers between which R lies at w, or at the start, whatever is rounded."""

    def bound(self, support: np.ndarray) -> float:
        """A lower bound of R on a support, next to the least value."""


class Search:
    """Best-first search below one relaxation.

    Parameters
    ----------
    relaxation : Perspective or Atoms
    kept : array of int
        Coordinates that are in from the start.
    start : array
        The best point known.
    supports : Supports
        What is known of single supports: the best point on one, and a bound of it.
    allowance : callable
        How far below the best known value a bound may be for its part to be done.
    floor : float
        A lower bound known from elsewhere.
    warm : object
        Where the relaxation of the root starts, if not there.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        kept: np.ndarray,
        start: np.ndarray,
        supports: Supports,
        allowance: Callable[[float], float],
        floor: float,
        deadline: float = math.inf,
        warm: Any = None,
    ) -> None:
        self.relaxation, self.supports, self.allowance = relaxation, supports, allowance
        self.best: np.ndarray | None = None  # a better point than the start, once there is one
        self.low, self.value = supports.interval(None)  # R at the best point known is between these
        self.started, self.deadline = time.perf_counter(), deadline
        self.nodes = 0
        self.history: list[Progress] = []
        self.closed = math.inf  # the lowest bound among parts that are done
        self.current = math.inf  # the bound of the part that is being looked at
        self.floor = floor
        self.tried: set[bytes] = set()
        self.kept = kept
        out = np.zeros(start.size, dtype=bool)
        self.root = relaxation.solve(kept, out, start if warm is None else warm, self.cutoff, 300)
        self.heap = [Node(max(self.root.bound, floor), 0, kept, out, self.root)]
        self.record()

    @property
    def cutoff(self) -> float:
        """Parts above this hold nothing that is better by more than the allowance."""
        return self.value - self.allowance(self.value)

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
            if now > self.deadline:
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
        children = []
        i = self._choose(node)
        if i is None:  # nothing is left to decide
            self._close(node)
            return
        for inside in (True, False):
            kept = np.append(node.kept, i) if inside else node.kept
            out = node.out
            if not inside:
                out = node.out.copy()
                out[i] = True
            child = self._bound(node, kept, out)
            if child is not None:
                children.append(child)
        for child in children:
            heapq.heappush(self.heap, child)

    def _bound(self, node: Node, kept: np.ndarray, out: np.ndarray) -> Node | None:
        """The child with these decisions; None if it holds nothing better."""
        try:
            relaxed = self.relaxation.solve(kept, out, node.relaxed.warm, self.cutoff, rough=0.1)
        except MemberNotFound:
            self.closed = min(self.closed, node.bound)  # there may be one: only the parent's bound is known
            return None
        except EmptySlice:
            return None
        bound = max(node.bound, relaxed.bound)
        if bound >= self.cutoff:
            self.closed = min(self.closed, bound)
            return None
        self._round(relaxed, kept, out)
        if relaxed.gains is not None:
            kept, out = self.fix(relaxed, kept, out)
        return Node(bound, self.nodes * 2 + int(kept.size > node.kept.size), kept, out, relaxed)

    def fix(self, relaxed: Relaxed, kept: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Screening within a part: what it leaves aside is above the cutoff, and that is all that is known of it."""
        fixed = screen(relaxed, kept, out, self.relaxation.k, self.cutoff)
        if fixed[0].size > kept.size or np.count_nonzero(fixed[1]) > np.count_nonzero(out):
            self.closed = min(self.closed, self.cutoff)
        return fixed

    def _choose(self, node: Node) -> int | None:
        """The coordinate to decide: the largest of those that are partly in."""
        relaxed, spare = node.relaxed, self.relaxation.k - node.kept.size
        free = ~node.out
        free[node.kept] = False
        if np.count_nonzero(free) <= max(spare, 0) or spare <= 0:
            return None
        share, size = relaxed.share, np.abs(relaxed.w)
        partly = free & (share > 1e-6) & (share < 1 - 1e-6)
        if partly.any():
            return int(np.where(partly, size, -1.0).argmax())
        self._offer(np.flatnonzero(free & (share > 0.5)), node.kept)
        if node.bound >= self.cutoff:
            return None
        return int(np.where(free, size if size[free].any() else share, -1.0).argmax())

    def _close(self, node: Node) -> None:
        """A part with all decisions made is a convex problem: its best point is found, and bounded from below."""
        support = np.sort(node.kept if node.kept.size == self.relaxation.k else np.flatnonzero(~node.out))
        self._offer(support, node.kept)
        bound = node.bound
        if bound < self.cutoff and isinstance(self.relaxation, Perspective):  # exact, once nothing is left to decide
            out = np.ones(node.out.size, dtype=bool)
            out[support] = False
            bound = max(bound, self.relaxation.solve(support, out, node.relaxed.warm, self.cutoff, 2000, 1e-12).bound)
        if bound < self.cutoff:
            try:
                bound = max(bound, self.supports.bound(support))
            except MemberNotFound:
                pass
            except EmptySlice:
                return
        self.closed = min(self.closed, bound)

    def _round(self, relaxed: Relaxed, kept: np.ndarray, out: np.ndarray) -> None:
        """Try the support that the relaxation suggests."""
        score = np.where(out, -1.0, relaxed.share * np.abs(relaxed.w))
        score[kept] = -1.0
        spare = self.relaxation.k - kept.size
        best = np.argpartition(-score, min(spare, score.size - 1))[:spare] if spare else np.empty(0, np.intp)
        self._offer(best[score[best] > 0], kept)

    def _offer(self, more: np.ndarray, kept: np.ndarray) -> None:
        support = np.union1d(more, kept)
        key = support.tobytes()
        if support.size > self.relaxation.k or key in self.tried:
            return
        self.tried.add(key)
        try:
            value, w = self.supports.refit(support)
        except EmptySlice:
            return
        if value < self.value:
            low, value = self.supports.interval(w)
            if value < self.value:
                self.low, self.value, self.best = low, value, w
                self.record()


def screen(relaxed: Relaxed, kept: np.ndarray, out: np.ndarray, k: int, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """Fix what the bound decides by itself.

    With gains g sorted, forcing i in costs g_(k) - g_i, forcing it out g_i - g_(k+1): where the bound then exceeds
    the cutoff, no better point is there (Atamtürk & Gómez 2020).
    """
    gains, spare = relaxed.gains, k - kept.size
    assert gains is not None
    free = np.flatnonzero(gains >= 0)
    if not spare or free.size <= spare or not relaxed.bound <= cutoff:
        return kept, out  # a bound above the cutoff decides the whole part, not single coordinates
    order = np.partition(gains[free], [free.size - spare - 1, free.size - spare, free.size - 1])
    last, next_ = order[free.size - spare], order[free.size - spare - 1]
    cutoff += 1e-12 * (abs(cutoff) + float(order[-1]))  # sums of a few rounded numbers
    excluded = free[relaxed.bound + last - gains[free] > cutoff]
    if excluded.size:
        out = out.copy()
        out[excluded] = True
    included = free[relaxed.bound + gains[free] - next_ > cutoff]
    if included.size and included.size <= spare:
        kept = np.concatenate([kept, included])
    return kept, out
