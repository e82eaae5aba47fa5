"""What a run returns: the answer, how it ended, what it cost and how it went."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.arrays import Array
from .._core.stopping import Status
from ..risks.counts import Counts
from ..sets import ConstraintSet
from ..sparsity import Sparsity

__all__ = ["Counts", "History", "Result", "Status"]


class History:
    """One row an iteration, row 0 being the start: the curves of every figure.

    Attributes
    ----------
    fun : array
        Objective; NaN where it was not monitored. A finish (exchanges, a last projection) adds no row: `Result.fun`
        is the objective after it.
    step : array
        Step size that led to this row's point; NaN in row 0.
    change : array
        ||w_t - w_{t-1}|| / ||w_t||; NaN in row 0.
    time : array
        Seconds since the start.
    n_gradients, n_values, n_thresholds, n_monitor : array
        Cumulative counts, see `Result`.
    """

    columns = ("fun", "step", "change", "time", "n_gradients", "n_values", "n_thresholds", "n_monitor")

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []

    def append(self, fun: float, step: float, change: float, time: float, counts: Counts) -> None:
        """Add a row."""
        spent = counts.n_gradients, counts.n_values, counts.n_thresholds, counts.n_monitor
        self.rows.append((fun, step, change, time, *spent))

    def __len__(self) -> int:
        return len(self.rows)

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise AttributeError(f"History has no column {name!r}; it has {', '.join(self.columns)}")
        place = self.columns.index(name)
        column = [row[place] for row in self.rows]
        return np.array(column, dtype=np.int64 if name.startswith("n_") else np.float64)

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *self.columns]

    def __repr__(self) -> str:
        return f"<History of {len(self)} rows: {', '.join(self.columns)}>"


@dataclass
class Result:
    """The answer of a run and all that is known about it; the same fields whatever the method.

    Attributes
    ----------
    x : array
        The best point found: sparse, in Γ.
    fun : float
        R(x).
    support : array of int
        Where x is not zero.
    sparsity, constraint : what was asked; `k` is that of the sparsity.
    status, success, message : how the run ended.
    nit : int
        Iterations made.
    violation : float
        How far x is outside Γ, relative; 0 means exactly inside.
    stationarity : float
        ||x - P(x - ηg)|| / η with the method's last step η and g = ∇R(x): zero at a fixed point of the method.
        It costs one gradient after the run, which is not counted below. NaN where ∇R is not to be had cheaply.
    n_gradients : int
        Calls of ∇R_i (a full gradient counts n). Products with the k columns of a support, in refits, are not counted.
    n_values : int
        Function values that the method needed, those asked again after a failure included.
    n_thresholds : int
        Hard-thresholding operations.
    n_monitor : int
        Function values computed only to pick the best iterate and to fill the history.
    n_sweeps : int
        How often data that are larger than memory, or on a cluster, were gone through; 0 for data in memory.
    projection : str
        The projection that was used.
    method : str
    largest_L : float
        The largest 1/η that was used.
    history : History
    failures : tuple
        What went wrong in evaluations and was dealt with.
    certificate : Certificate or None
        How far x is, at the most, from the best possible, where that was asked for (`ellzero.certify`).
    keep : array of int
        Coordinates that were to be in the support.
    exchanges : Examined or None
        Which exchanges of one coordinate for another were ruled out, where that was looked into.
    beats : Beats or None
        How sparse a vector cannot be better than x, where that costs next to nothing (`ellzero.beats`).
    noise : Noise or None
        What "auto" has measured of the errors of a black box: `level`, the standard deviation of one value, and `mu`,
        the length of the differences that it chose because of it.
    """

    x: Array
    sparsity: Sparsity
    constraint: ConstraintSet
    support: np.ndarray
    fun: float
    nit: int
    status: Status
    message: str
    violation: float
    stationarity: float
    history: History
    n_gradients: int
    n_values: int
    n_thresholds: int
    n_monitor: int
    projection: str
    method: str
    largest_L: float
    failures: tuple[Any, ...] = field(default=())
    certificate: Any = None
    keep: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    exchanges: Any = None
    beats: Any = None
    n_sweeps: int = 0
    noise: Any = None

    @property
    def k(self) -> int:
        """How much of what is counted was allowed: nonzeros, unless a sparsity was given."""
        return self.sparsity.k

    @property
    def success(self) -> bool:
        """Whether the run ended because its job was done, with an objective that is a number."""
        return self.status.success and math.isfinite(self.fun)

    def __repr__(self) -> str:
        lines = {
            "objective": f"{self.fun:.8g}" + (f", {self.certificate.words}" if self.certificate else ""),
            self.sparsity.label: self.sparsity.describe(self.x),
            "constraint": f"{self.constraint!r}, violation {self.violation:.1g}",
            "method": f"{self.method}, projection {self.projection}",
            "status": f"{self.message} ({self.nit} iterations)",
            "cost": f"{self.n_gradients} gradients, {self.n_values} values, {self.n_thresholds} thresholdings",
        }
        if self.n_sweeps:
            lines["cost"] += f", {self.n_sweeps} sweeps"
        if self.exchanges is not None and self.exchanges.total:
            lines["exchanges"] = self.exchanges.words
        if self.beats:
            lines["promise"] = self.beats.words
        if self.noise is not None and not self.noise.exact:
            lines["noise"] = str(self.noise)
        if math.isfinite(self.stationarity):
            lines["stationarity"] = f"{self.stationarity:.2g}"
        return "ellzero result\n" + "\n".join(f"  {name:<13}{text}" for name, text in lines.items())
