"""Runs whose values come from elsewhere: points are asked for, values are told, in any order."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple, Self

import numpy as np

from .minimize import minimize
from .risks import BlackBox
from .sets import ConstraintSet
from .solver.methods import Method
from .solver.result import Result
from .sparsity import Sparsity


class Query(NamedTuple):
    """A point at which f is wanted."""

    number: int
    x: np.ndarray


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
        Other keywords of `minimize`; ``max_queries`` and ``rng`` above all. A checkpoint holds whole rounds.

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
        box = risk.answered_by(self._wanted)
        self._changed = threading.Condition()
        self._unasked: list[Query] = []
        self._values: dict[int, float | None] = {}  # of the round under way; None for those awaited
        self._untold: set[int] = set()
        self._n_asked = 0
        self._stopped = self._over = False
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._options = {**options, "constraint": constraint, "method": method}
        self._thread = threading.Thread(target=self._run, args=(box, k), daemon=True)
        self._thread.start()

    # In the run's thread.

    def _run(self, box: BlackBox, k: int | Sparsity) -> None:
        result, error = None, None
        try:
            result = minimize(box, k, **self._options)
        except BaseException as raised:  # the caller's thread raises it
            error = raised
        with self._changed:
            self._result, self._error, self._over = result, error, True
            self._changed.notify_all()

    def _wanted(self, points: np.ndarray) -> np.ndarray:
        """The function of the run: sleeps until all of its values are told."""
        with self._changed:
            first = self._n_asked
            self._n_asked += len(points)
            self._unasked = [Query(first + i, w) for i, w in enumerate(points)]
            self._values = {query.number: None for query in self._unasked}
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or all(v is not None for v in self._values.values()))
            if self._stopped:
                raise KeyboardInterrupt  # the run ends as it does after Ctrl-C
            values = np.array([self._values[first + i] for i in range(len(points))], dtype=float)
            self._values = {}
            return values

    # In the caller's.

    @property
    def finished(self) -> bool:
        """Whether the run is over, so that there is nothing to ask for any more."""
        with self._changed:
            return self._over

    def ask(self, n: int | None = None) -> list[Query]:
        """Up to n queries (by default all) of this round; none where values are awaited first, or the run is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._unasked or self._untold)
            if self._error is not None:
                raise self._error
            last = len(self._unasked) if n is None else n
            handed, self._unasked = self._unasked[:last], self._unasked[last:]
            self._untold.update(query.number for query in handed)
            return handed

    def tell(self, query: Query | int, value: float | None) -> None:
        """The value of a query that was asked for; NaN or None for a failure."""
        number = query.number if isinstance(query, Query) else query
        with self._changed:
            if number not in self._untold:
                raise ValueError(f"query {number} awaits no value: it was told already, or never asked for")
            self._untold.discard(number)
            if number in self._values:
                self._values[number] = math.nan if value is None else float(value)
            self._changed.notify_all()

    def stop(self) -> None:
        """End the run with its best point so far."""
        with self._changed:
            self._stopped = True
            self._unasked = []
            self._untold.clear()
            self._changed.notify_all()
        self._thread.join()

    def result(self) -> Result:
        """The answer; a run that is not over is an error, see `stop`."""
        with self._changed:
            if not self._over and not self._untold and not self._unasked:
                self._changed.wait_for(lambda: self._over or self._unasked)
            if self._error is not None:
                raise self._error
            if self._result is None:
                raise RuntimeError("the run is not over: go on with ask and tell, or call stop() for the best so far")
            return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
