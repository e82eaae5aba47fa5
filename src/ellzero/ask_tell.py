"""Runs whose values come from elsewhere: points are asked for, values are told, in any order."""

from __future__ import annotations

import atexit
import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ._core.validation import check_count
from .minimize import minimize
from .risks import BlackBox
from .risks.evaluation import Begin, Outcome, Outcomes, Task, judge
from .sets import ConstraintSet
from .solver.methods import Method
from .solver.result import Result
from .sparsity import Sparsity


class Query(NamedTuple):
    """A point at which f is wanted."""

    number: int
    x: np.ndarray


class _Exchange:
    """What the run's thread and the caller's share. It knows nothing of `AskTell`, which may be forgotten meanwhile.

    Attributes
    ----------
    unasked, leaving : lists
        Queries of this round that nobody asked for yet; and those that somebody waits for, until they are booked.
    untold : set
        The numbers of queries that are out.
    told, unnoted : list, set
        Outcomes for the run; and the numbers of those that are not in its journal yet.
    ended : type of exception, optional
        What the run meets at its next query.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.unasked: list[Query] = []
        self.leaving: list[Query] = []
        self.untold: set[int] = set()
        self.told: list[tuple[int, Outcome]] = []
        self.unnoted: set[int] = set()
        self.n_asked = 0
        self.over = False
        self.ended: type[BaseException] | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None

    def run(self, box: BlackBox, k: int | Sparsity, options: dict[str, Any]) -> None:
        """The whole run, in its thread."""
        result, error = None, None
        try:
            result = minimize(box, k, **options)
        except BaseException as raised:  # the caller's thread raises it
            error = raised
        with self.changed:
            self.result, self.error, self.over = result, error, True
            self.changed.notify_all()
        del _running[self]

    def answers(self, tasks: Sequence[Task], begin: Begin) -> Outcomes:
        """Sleeps until values are told; queries are booked when they are asked for, those that nobody wants are not."""
        with self.changed:
            first = self.n_asked
            self.n_asked += len(tasks)
            awaited = {first + i: task for i, task in enumerate(tasks)}
            self.unasked = [Query(number, task.w.copy()) for number, task in awaited.items()]
            self.changed.notify_all()
        while awaited:
            with self.changed:
                self.changed.wait_for(lambda: self.ended or self.leaving or self.told)
                if self.ended and not self.told:
                    raise self.ended
                if self.leaving and not self.ended:
                    begin([awaited[query.number] for query in self.leaving])
                    self.untold.update(query.number for query in self.leaving)
                    self.leaving = []
                    self.changed.notify_all()
                arrived, self.told = self.told, []
            for number, outcome in arrived:
                if (task := awaited.pop(number, None)) is not None:
                    yield task, outcome
            with self.changed:
                self.unnoted.difference_update(number for number, _ in arrived)
                self.changed.notify_all()

    def end(self, how: type[BaseException]) -> None:
        """End the run where it asks for values."""
        with self.changed:
            self.ended = self.ended or how
            self.unasked = []
            self.untold.clear()
            self.changed.notify_all()


_running: dict[_Exchange, threading.Thread] = {}


def _end_all() -> None:
    """Before the interpreter is taken down: a thread that computes meanwhile would end the process with an error."""
    for exchange, thread in list(_running.items()):
        exchange.end(SystemExit)
        thread.join()


atexit.register(_end_all)


class AskTell:
    """min f(w) subject to ‖w‖_0 <= k, w in Γ, where the caller evaluates f: `minimize`, turned inside out.

    Any method of a black box runs as it does in `minimize`, to the last digit, in a thread of its own that sleeps
    while values are awaited. Queries of one round do not depend on each other: as many as there are can be asked for
    before the first is told, and they can be told in any order.

    Parameters
    ----------
    risk : BlackBox
        Without a function: ``BlackBox(None, n_features, on_failure="drop")``; its policy is for values that are told
        as NaN or None.
    k, constraint, method
        As for `minimize`.
    **options
        Other keywords of `minimize`; ``max_queries`` and ``rng`` above all. With a checkpoint a value is on disk when
        `tell` returns.

    Examples
    --------
    >>> import numpy as np, ellzero as ez
    >>> search = ez.AskTell(ez.risks.BlackBox(None, 30), k=1, max_queries=200, rng=0)
    >>> while queries := search.ask(8):
    ...     for query in reversed(queries):
    ...         search.tell(query, float((query.x[7] - 2) ** 2))
    >>> search.result().support.tolist()
    [7]
    """

    def __init__(
        self,
        risk: BlackBox,
        k: int | Sparsity,
        constraint: ConstraintSet | None = None,
        method: str | Method = "auto",
        **options: Any,
    ) -> None:
        if not hasattr(risk, "answered_by"):
            raise TypeError(f"risk must be a BlackBox without a function, BlackBox(None, n_features), got {risk!r}")
        self._exchange = exchange = _Exchange()
        box = risk.answered_by(exchange.answers)
        whole = {**options, "constraint": constraint, "method": method}
        self._thread = threading.Thread(target=exchange.run, args=(box, k, whole), daemon=True)
        _running[exchange] = self._thread
        self._thread.start()
        # a search that nobody holds any more ends as if its process had been killed
        weakref.finalize(self, exchange.end, SystemExit)

    @property
    def finished(self) -> bool:
        """Whether the run is over, so that there is nothing to ask for any more."""
        with self._exchange.changed:
            return self._exchange.over

    def ask(self, n: int | None = None) -> list[Query]:
        """Up to n queries (by default all) of this round; none where values are awaited first, or the run is over."""
        most = None if n is None else check_count(n, "n", low=0)
        it = self._exchange
        with it.changed:
            it.changed.wait_for(lambda: it.over or it.unasked or it.untold)
            if it.error is not None:
                raise it.error
            handed, it.unasked = it.unasked[:most], [] if most is None else it.unasked[most:]
            it.leaving += handed
            it.changed.notify_all()
            # the run books them first: what goes out is known, even if all ends the next moment
            it.changed.wait_for(lambda: it.over or not any(query in it.leaving for query in handed))
            if it.error is not None:
                raise it.error
            return [query for query in handed if query.number in it.untold]

    def tell(self, query: Query | int, value: float | None) -> None:
        """The value of a query that was asked for; NaN or None for a failure."""
        number, it = query.number if isinstance(query, Query) else query, self._exchange
        with it.changed:
            if number not in it.untold:
                raise ValueError(
                    f"query {number} awaits no value: it was told already, never asked for, or its run is over"
                )
            outcome = judge(math.nan if value is None else value)
            if outcome.kind == "not a number":
                raise TypeError(
                    f"value must be one real number, or None for a failure, got {value!r:.60}; tell float(...): "
                    f"query {number} still awaits it"
                )
            it.untold.discard(number)
            it.told.append((number, outcome))
            it.unnoted.add(number)
            it.changed.notify_all()
            it.changed.wait_for(lambda: it.over or number not in it.unnoted)  # what was told is kept from now on

    def stop(self) -> None:
        """End the run with its best point so far."""
        self._exchange.end(KeyboardInterrupt)  # as Ctrl-C does
        self._thread.join()

    def result(self) -> Result:
        """The answer; a run that is not over is an error, see `stop`."""
        it = self._exchange
        with it.changed:
            if not (it.untold or it.leaving):
                it.changed.wait_for(lambda: it.over or it.unasked)
            if it.error is not None:
                raise it.error
            if it.result is None:
                raise RuntimeError("the run is not over: go on with ask and tell, or call stop() for the best so far")
            return it.result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
