"""Proportional hazards: the partial likelihood of times until an event, some of which are censored."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from .._core.arrays import Array, to_host
from .._core.validation import check_vector
from ..design import in_double
from .accuracy import EPS, Measured
from .base import Point, Risk, changed
from .cox_accuracy import CoxPart, enclosed_gradient, measure
from .curvature import Curvature
from .linear import LinearModel
from .linear_curvature import LinearCurvature
from .partial_likelihood import Partial, PartialLikelihood
from .per_row import one_per_row
from .spectrum import ROUNDING

_TIES = ("breslow", "efron")


class Cox(LinearModel):
    """R(w) = Σ_{i: event} ω_i [log Σ_{j at risk at t_i} ω_j exp(z_j) - z_i] / Σ_{i: event} ω_i + (ridge/2)||w||².

    The negative log partial likelihood (Cox 1972) divided by the (weighted) number of events, z_i = x_iᵀw + offset_i.
    At risk at t are those of the same stratum with t_j >= t: who is censored at t is still there. R is convex, and does
    not change when a number is added to all predictions of a stratum, so there is no intercept. It is a function of all
    predictions together, not a sum over rows: methods that draw batches of rows have nothing to draw from.

    Parameters
    ----------
    X, ridge
        As for `LeastSquares`.
    time : array of shape (n,)
        When the event happened, or until when it did not: any finite numbers, whose order alone matters.
    event : array of shape (n,)
        True or 1 where the event happened, False or 0 where the row was censored.
    sample_weight : array of shape (n,), optional
        ω >= 0, all 1 by default, and scaled to a mean of 1 over the rows that have one: only ratios matter. With
        Breslow's ties a row of weight 2 counts as two rows.
    ties : {"breslow", "efron"}
        What is at risk for d events at the same time: for each of them all who were there before (Breslow 1974), or for
        the l-th less (l-1)/d of the d (Efron 1977), each with the mean of their weights.
    strata : array of shape (n,), optional
        A label for each row; hazards of different strata are not compared. Strata without an event do not count.
    offset : array of shape (n,), optional
        A known part of the predictions.

    Attributes
    ----------
    lower_bound : float
        R is never below it: for d events at one time log d (Efron: log(d!)/d), averaged over the events; 0 without
        ties. With weights see `PartialLikelihood`.

    Examples
    --------
    >>> from ellzero.risks import Cox
    >>> risk = Cox([[1.0], [0.0], [-1.0]], time=[1.0, 2.0, 3.0], event=[True, False, True])
    >>> round(risk.value([0.0]), 4)  # one of three at first, one of one at last
    0.5493
    >>> risk.gradient([0.0])
    array([-0.5])
    """

    likelihood = True
    has_terms = False
    looks_twice = True

    def __init__(
        self,
        X: Any,
        time: Any,
        event: Any,
        ridge: float = 0.0,
        sample_weight: Any = None,
        *,
        ties: str = "breslow",
        strata: Any = None,
        offset: Any = None,
    ) -> None:
        if ties not in _TIES:
            raise ValueError(f'ties must be "breslow" or "efron", got {ties!r}')
        super().__init__(X, event, ridge, sample_weight)
        self.ties, n = ties, self.n_terms
        happened = to_host(self.y) > 0
        weight = np.ones(n) if self._weights is None else self._weights * np.count_nonzero(self._weights)
        if not (happened & (weight > 0)).any():
            least = "" if sample_weight is None else " with a positive sample_weight"
            raise ValueError(f"event must be True somewhere{least}: without an event there is nothing to compare")
        when = check_vector(one_per_row(time, n, "time"), "time").astype(float)
        shift = (
            np.zeros(n) if offset is None else check_vector(one_per_row(offset, n, "offset"), "offset").astype(float)
        )
        self.partial = PartialLikelihood(when, happened, weight, shift, _numbers(strata, n), ties == "efron")
        self.y = self.design.asarray(self.partial.share)
        # Var(u) <= (max - min)²/4 <= ½Σu² over those at risk: ∇²F ⪯ ½ diag(exposure)
        exposed = float(self.partial.exposure.sum())
        self._weights, self._curvature = self.partial.exposure / exposed, 0.5 * exposed
        self.share = self.design.asarray(self._weights)
        self.lower_bound = self.partial.least

    def _check_targets(self, y: Any) -> np.ndarray:
        event = one_per_row(y, self.n_terms, "event")
        numbers = event.dtype.kind in "fiub"
        odd = event[(event != 0) & (event != 1)] if numbers else event
        if odd.size or not numbers:
            raise ValueError(
                "event must be True or 1 where the event happened, and False or 0 where the row was censored; got "
                f"{odd[0]!r}"
            )
        return event.astype(float)

    # R as a function of all predictions.

    @property
    def _share(self) -> float:
        return 1.0  # slopes are those of the whole

    def look(self, z: Array) -> Partial:
        """The partial likelihood at predictions without the offset."""
        return self.partial.at(to_host(z).astype(float), key=z)

    def _loss(self, z: Array) -> Array:
        return self.design.asarray(self.look(z).flat("losses"))

    def _mean_loss(self, z: Array) -> float:
        size = float(np.abs(to_host(z)).max())
        if not math.isfinite(size):
            return math.inf
        # differences of predictions are as good as these; from above, so that no search runs after their rounding
        return self.look(z).value + 4 * EPS * size

    def _slope(self, z: Array, y: Array) -> Array:
        if not np.isfinite(to_host(z)).all():
            return self.design.asarray(np.full(self.n_terms, math.nan))
        return self.design.asarray(self.look(z).flat("chance") - self.partial.share)

    def _gradient_of_rows(self, w: Array, rows: np.ndarray) -> Array:
        raise NotImplementedError(
            "the partial likelihood compares each event with all who are at risk, so it is not a sum over rows and a "
            "batch of rows has no gradient of its own; use a method with full gradients, such as the default, or a "
            "zeroth-order one"
        )

    def held_out_loss(self, w: Array, fitted: Risk) -> tuple[float, float]:
        """R of these rows alone, without the ridge: they are compared among themselves; the error is over events."""
        losses, share = self.losses(w), self.partial.share
        mean = float(np.sum(share * losses))
        return mean, float(np.linalg.norm(share * (losses - mean)))

    @property
    def n_observations(self) -> int:
        """How many events count: the n of information criteria (Volinsky & Raftery 2000)."""
        return int(np.count_nonzero(self.partial.share))

    def baseline_hazard(self, w: Array) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """The cumulative hazard of z = 0: for the number of each stratum with an event, its times and the sums there.

        Each term adds its weight over those at risk, Σ_j ω_j exp(z_j): Breslow's estimator, or Efron's.
        """
        return self.partial.hazards(to_host(self.predict(w)).astype(float))

    # What is known of its data.

    def columns(self, index: np.ndarray) -> np.ndarray | None:
        """As for other models, but what is constant in each stratum is 0: R does not see it."""
        X = super().columns(index)
        if X is None:
            return None
        seen = np.zeros(X.shape[1], dtype=bool)
        for table in self.partial.tables:
            here = X[np.where(table.there, table.order, table.order[:, :1])]
            seen |= (here != here[:, :1]).any(axis=(0, 1))
        return np.where(seen, X, 0.0)

    def gather(self, index: np.ndarray) -> list[np.ndarray]:
        """X[:, index] in the order in which it is summed up."""
        return self.partial.gather(to_host(in_double(self.design.columns(index).dense())))

    @cached_property
    def gathered(self) -> list[np.ndarray]:
        """X in that order: for few columns."""
        return self.gather(np.arange(self.n_features))

    @cached_property
    def _scales(self) -> np.ndarray | None:
        return LinearModel.column_scales(changed(self, fit_intercept=True))

    def column_scales(self) -> np.ndarray | None:
        """Without the means, as with an intercept."""
        return self._scales

    def curvature(self, point: Point) -> "CoxCurvature | None":
        """The quadratic model at a point, where columns of X can be read."""
        if not self.readable or not np.isfinite(to_host(point.state)).all():
            return None
        return CoxCurvature(self, self.look(point.state))

    def smooth_part(self) -> CoxPart:
        return CoxPart(self)

    def enclosed_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return enclosed_gradient(self, w) if self.design.explicit else super().enclosed_gradient(w)

    def measured(self, w: np.ndarray, support: np.ndarray, *, closely: bool = True) -> Measured | None:
        return measure(self, w, support, closely=closely)


class CoxCurvature(LinearCurvature):
    """G = ½∇²R(w) = ½XᵀHX + (ridge/2)I, H = Σ_q b_q (diag p_q - p_q p_qᵀ) over the terms of the partial likelihood.

    The diagonal is one from above, ½ Σ_j chance_j (x_j - x̄)², as if all events were at once: for columns that do not go
    with time it is 1% too large, and as good for ranking as the exact one, which costs several times as much.
    """

    applies, cross = False, Curvature.cross

    def __init__(self, model: Cox, look: Partial) -> None:
        super().__init__(model, math.nan)  # not weights of single rows
        self.cox, self.look = model, look

    @property
    def diagonal(self) -> np.ndarray:
        design, chance = self.model.design, self.look.flat("chance")
        squares, sums = design.square_sums(chance), to_host(design.adjoint(design.asarray(chance))).astype(float)
        self.spent += 2
        centred = squares - sums**2 / max(float(chance.sum()), 1e-300)
        return 0.5 * (np.where(centred > ROUNDING * squares, centred, 0.0) + self.model.ridge)

    @property
    def sizes(self) -> np.ndarray:
        """As if all who are at risk had the same chance; what units of the columns are made of."""
        scales = self.cox.column_scales()
        assert scales is not None  # X can be read
        return 0.5 / scales**2 + 0.5 * self.cox.ridge

    def images(self, index: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """G[:, index] @ vectors, at one product with X for each vector."""
        design = self.model.design
        z = to_host(design.columns(index).forward(design.asarray(vectors))).astype(float)
        images = to_host(design.adjoint(design.asarray(0.5 * self.look.bend(z)))).astype(float)
        self.spent += vectors.shape[1]
        images[index] += 0.5 * self.model.ridge * vectors
        return images

    def block(self, index: np.ndarray) -> np.ndarray:
        """G[index, index], from these columns of X alone."""
        whole = index.size == self.model.n_features  # a refit asks for all of its few columns, again and again
        block, squares = self.look.hessian(self.cox.gathered if whole else self.cox.gather(index))
        # what is less than the rounding of these sums is no curvature: no step goes to infinity for it
        block.flat[:: index.size + 1] += self.model.ridge + 4 * (self.model.n_terms + 8) * EPS * squares
        block *= 0.5
        return block


def _numbers(strata: Any, n: int) -> np.ndarray:
    """For each row the number of its label among the sorted ones."""
    if strata is None:
        return np.zeros(n, dtype=np.intp)
    labels = one_per_row(strata, n, "strata")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("strata must be a label for each row, got nan; give such rows a label of their own")
    try:
        return np.asarray(np.unique(labels, return_inverse=True)[1])
    except TypeError as error:
        raise TypeError(f"strata must hold labels of one kind, which can be sorted: {error}") from error
