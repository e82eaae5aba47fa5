"""The terms of a linear model: its data, weights and loss, and the intercept that is best for given predictions."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np

from .._core.arrays import Array, finfo_eps, namespace, norm, scalar, to_host
from .._core.validation import check_nonnegative
from ..design import ByRow, Design, as_design, extent, take, totals
from .accuracy import EPS
from .base import Constant, Point, Risk, changed, no_longer_exact
from .known import KnownProducts
from .per_row import check_offset, check_rounding, check_targets, check_weights
from .spectrum import FAR, Gram, centred_squares, extreme_eigenvalues, gram

_TINY = 1e-290
_LARGE = 100.0  # times all predictions: an intercept that is there to take off the means of the columns


class LinearTerms(Risk):
    """ℓ(x_iᵀw + b, y_i) with weights ω_i, for the rows i of X; see `LinearModel`."""

    convex: bool = True
    #: the largest second derivative of the loss
    _curvature: float = math.inf
    #: whether the loss depends on z - y alone, and is least where that is 0
    _of_residual = False

    #: added to every prediction, in the shape of the predictions
    offset: Array | None = None

    def __init__(
        self,
        X: Any,
        y: Any,
        ridge: float = 0.0,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        *,
        offset: Any = None,
    ) -> None:
        self.design = as_design(X)
        self.n_terms, self.n_features = self.design.shape
        self.ridge = check_nonnegative(ridge, "ridge")
        self.fit_intercept = bool(fit_intercept)
        self.share: Array | float = 1.0 / self.n_terms
        self._weights: np.ndarray | None = None  # the shares in double precision
        if sample_weight is not None:
            self._weights = check_weights(sample_weight, self.n_terms)
            self.share = self.design.by_row(self._weights, np.float64 if self.design.parted else None)
        targets = self._check_targets(y)
        offset = None if offset is None else check_offset(offset, self.n_terms, self.n_outputs)
        if self.fit_intercept and self._of_residual and finfo_eps(self.design.reference) > EPS:
            check_rounding(targets, offset)
        self.y = self.design.by_row(targets)
        if offset is not None:
            self.offset = self.design.by_row(offset)
        self._prepare()

    @cached_property
    def known(self) -> KnownProducts:
        """XᵀΩX on the columns that a run looks at, Ω the shares of the rows, less what an intercept takes."""
        return KnownProducts(self.design.shape[1], self.design.size)

    @cached_property
    def origin(self) -> Point:
        return self.at(self.zero)

    def starts_at(self, origin: Point) -> None:
        vars(self)["origin"] = origin

    @property
    def _xp(self) -> Any:
        return namespace(self.design.reference)

    @property
    def _share(self) -> Array | float:
        """The shares, in a shape that multiplies predictions."""
        return self.share if isinstance(self.share, float) or self.n_outputs == 1 else self.share[:, None]

    def _check_targets(self, y: Any) -> np.ndarray:
        return check_targets(y, self.n_terms, type(self).__name__)

    # The loss of each row, and its derivatives in the prediction z for the rows whose targets are y.

    @abstractmethod
    def _loss(self, z: Array) -> Array: ...

    @abstractmethod
    def _slope(self, z: Array, y: Array) -> Array: ...

    def _bend(self, z: Array, y: Array) -> Array | None:
        return None

    def _steady_bend(self, z: Array, y: Array) -> Array | None:
        """A second derivative to make steps with: the mean of several outputs, and more than 0 where `_bend` is not."""
        return self._bend(z, y)

    def _bent(self, z: Array) -> Callable[[Array], Array]:
        """For several outputs, v ↦ the second derivative times v, for every row: how the slopes change along v."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """What follows from targets and weights, computed when these are set."""

    # What proofs need to know of the loss; all on the host.

    def _accurate_loss(self, z: np.ndarray) -> np.ndarray:
        """The losses, small ones to as many digits as large ones."""
        return self._loss(z)  # type: ignore[no-any-return]

    def _loss_sizes(self, z: np.ndarray) -> np.ndarray | None:
        """The sizes of the terms that each loss is summed from, if its rounding error is a few units of them."""
        return None

    def _least_bend(self, z: np.ndarray, away: np.ndarray) -> np.ndarray:
        """The least second derivative of each loss at predictions at most so far away; 0 is always true."""
        return np.zeros_like(z)

    def _slope_sizes(self) -> np.ndarray:
        """The sizes of the terms, besides itself, that the slope of each loss is rounded by."""
        return np.abs(self.y)  # type: ignore[no-any-return]

    def _slope_bounds(self, reach: np.ndarray | None) -> np.ndarray | float | None:
        """A bound on |ℓ'| for each row, at predictions at most so far from 0, but for the intercept (None: at any)."""
        return None

    def _over_outputs(self, gram: np.ndarray) -> np.ndarray:
        """A bound on ∇² of the terms over the loss's largest second derivative, from XᵀΩX."""
        return gram

    # Predictions and their transpose; a model with several outputs reshapes w here.

    def _predict(self, design: Design, w: Array, support: Array | None = None) -> Array:
        return design.forward(w, support)

    def _with_offset(self, z: Array, rows: np.ndarray | None = None) -> Array:
        """The predictions z, of all rows or of some, with what is added to them from the start."""
        return z if self.offset is None else z + (self.offset if rows is None else take(self.offset, rows))

    def _collect(self, design: Design, slopes: Array) -> Array:
        return design.adjoint(slopes)

    def _mean_loss(self, z: Array) -> float:
        return scalar(self._xp.sum(self.share * self._loss(z)))  # type: ignore[no-any-return]

    def _value(self, w: Array, state: Array) -> float:
        with self.design.undisturbed():
            value = self._mean_loss(state)
            return value + penalty(self.ridge, w) if self.ridge else value

    def _both(self, w: Array, state: Array) -> tuple[float, Array] | None:
        """Where a look at a few columns takes longer to ask for than to do: value and slopes by the same one."""
        if not (self.design.narrow and self.has_terms and isinstance(state, ByRow)):
            return None
        slopes = self._share * self._slope(state, self.y)
        loss, gradient = self.design.beside(self.share * self._loss(state), slopes)
        gradient = self._xp.reshape(gradient.T, (-1,)) if self.n_outputs > 1 else gradient
        return loss + penalty(self.ridge, w), gradient + self.ridge * w

    # The intercept.

    def _lifted(self, z: Array) -> tuple[Array, Any]:
        """The predictions with the intercept that is best for them, and it."""
        b = self._best_intercept(z)
        z = z + b
        if self._of_residual and isinstance(z, np.ndarray) and z.ndim == 1 and abs(b) > _LARGE * np.abs(z).max():
            rest = self._best_intercept(z)  # of so large numbers the sum has few digits, and the intercept, too
            return z + rest, b + rest
        return z, b

    def _best_intercept(self, z: Array) -> Array | float:
        """The root of the increasing function b ↦ Σ share ℓ'(z + b), by Newton's method inside a bracket."""
        eps = finfo_eps(self.design.reference)
        low, high, b = self._intercept_bracket(z)
        last_step = high - low
        for _ in range(100):
            sums = self._slope_sums(z + b)
            slope = next(sums)
            if abs(slope) <= eps * next(sums):
                break
            low, high = (low, b) if slope > 0 else (b, high)
            bend = next(sums)
            step = -slope / bend if bend > 0 else math.inf
            if not low < b + step < high or abs(step) > 0.5 * last_step:
                step = 0.5 * (low + high) - b
            b += step
            last_step = abs(step)
            if last_step <= eps * max(1.0, abs(b)):
                break
        return b

    def _slope_sums(self, z: Array) -> Iterator[float]:
        """Σ share ℓ'(z), Σ share |ℓ'(z)| and Σ share ℓ''(z), as far as they are asked for."""
        xp, slopes = self._xp, self.share * self._slope(z, self.y)
        if self.design.parted:  # by one look at the rows
            bends = self._bend(z, self.y)
            yield from totals(slopes, xp.abs(slopes), 0.0 * slopes if bends is None else self.share * bends)
            return
        yield float(xp.sum(slopes))
        yield float(xp.sum(xp.abs(slopes)))
        bends = self._bend(z, self.y)
        yield 0.0 if bends is None else float(xp.sum(self.share * bends))

    def _intercept_bracket(self, z: Array) -> tuple[float, float, float]:
        """Numbers below and above the best intercept, and a guess between them."""
        ends = []
        for end in (-1.0, 1.0):
            while end * self._mean(self._slope(z + end, self.y)) < 0 and abs(end) < 1e300:
                end *= 2.0
            ends.append(end)
        return ends[0], ends[1], 0.0

    def _intercept_extent(self) -> tuple[float, float]:
        """(c, f): no best intercept is larger than c + f·max|z|, whatever the predictions z without it."""
        if not self._of_residual:
            return math.inf, 1.0
        return float(np.abs(to_host(self.y)).max()), 1.0  # it lies between the extremes of y - z

    def _intercept_doubt(self, z: np.ndarray, off: np.ndarray, share: np.ndarray) -> float:
        """How far the best intercept may be from the one in the predictions z, which are off by so much themselves.

        The sum of the slopes increases with the intercept, so it is enough that it has changed its sign.
        """

        def total(shift: float, towards: float) -> float:
            slopes = self._slope(z + (shift + towards * off), self.y)
            lost = (z.size + 16) * EPS * (share @ (np.abs(slopes) + self._slope_sizes()))
            return float(share @ slopes + towards * lost)

        doubt = 8 * (float(off.max()) + EPS * (1 + float(np.abs(z).max())))
        while doubt < math.inf and not total(doubt, -1.0) >= 0 >= total(-doubt, 1.0):
            doubt *= 8
        return doubt

    def _extent(self, values: Array) -> tuple[float, float, float]:
        """The least and the largest of them, and, of one for each row, their mean."""
        if isinstance(values, ByRow):
            return extent(values, self.share if values.ndim == 1 else 0.0)
        mean = self._mean(values) if values.ndim == 1 else math.nan
        return float(self._xp.min(values)), float(self._xp.max(values)), mean

    def _mean(self, values: Array) -> float:
        return float(self._xp.sum(self.share * values))

    # Moments of the data.

    @cached_property
    def _spectrum(self) -> tuple[Constant, Constant]:
        return extreme_eigenvalues(self.design, self.share, self.fit_intercept)

    @cached_property
    def _column_squares(self) -> np.ndarray:
        """Σ_i share_i X_ij²: one look at the data, kept."""
        return self._sum_squares()

    def _sum_squares(self) -> np.ndarray:
        one = isinstance(self.share, float)
        return self.share * self.design.squares if one else self.design.square_sums(self.row_share)

    @property
    def plain_squares(self) -> np.ndarray:
        """Σ_i X_ij², from what is known of the columns."""
        known: np.ndarray | None = vars(self).get("_column_squares")
        if known is None or not isinstance(self.share, float) or ((known > 0) & (known < _TINY)).any():
            return self.design.squares  # shares of numbers near the end of what there is have fewer digits
        return known / self.share

    @cached_property
    def _column_means(self) -> np.ndarray:
        """Σ_i share_i X_ij, in double precision."""
        if self.design.parted and isinstance(self.share, float):  # known from the first look
            return self.share * self.design.sums
        return to_host(self.design.adjoint(self.design.by_row(self.row_share))).astype(float)

    @cached_property
    def _own_squares(self) -> np.ndarray:
        """Σ_i share_i (X_ij - m_j)² for the means m of the columns."""
        return centred_squares(self.design, self.row_share, self._column_squares, self._column_means)

    @cached_property
    def far_means(self) -> np.ndarray:
        """Which columns are far from 0 beside their spread, so that products of them have few digits."""
        return (self._own_squares <= FAR * self._column_squares) & (self._column_squares > 0)

    @cached_property
    def _column_scales(self) -> np.ndarray:
        squares = self._column_squares
        if self.fit_intercept:
            squares = np.where(self._own_squares > 0, self._own_squares, squares)
        return np.tile(1 / np.sqrt(np.where(squares > 0, squares, 1.0)), self.n_outputs)

    @property
    def smoothness(self) -> Constant:
        """The loss's largest second derivative times the largest eigenvalue of XᵀΩX/Σω, plus the ridge."""
        if not math.isfinite(self._curvature):
            return Constant(math.inf, "bound")
        largest = self._spectrum[0]
        return Constant(self._curvature * largest.value + self.ridge, no_longer_exact(largest))

    @property
    def strong_convexity(self) -> Constant:
        """The ridge: the loss itself may be flat. Nothing is known of a loss that is not convex."""
        return Constant(self.ridge if self.convex else -math.inf, "bound")

    @property
    def known_convexity(self) -> Constant | None:
        """The ridge, if there is one."""
        return Constant(self.ridge, "bound", "the ridge") if self.ridge > 0 and self.convex else None

    def gram(self, weights: np.ndarray | float | None = None, columns: np.ndarray | None = None) -> Gram:
        """XᵀΩX in double precision, less what an intercept takes; Ω = diag(ω), by default the shares of the rows."""
        design = self.design if columns is None else self.design.columns(columns)
        return gram(design, self.row_share if weights is None else weights, self.fit_intercept)

    @property
    def double_share(self) -> np.ndarray:
        """ω_i / Σω for every row, on the host and in double precision."""
        if self._weights is None:
            return np.full(self.n_terms, 1.0 / self.n_terms)
        return self._weights

    @property
    def row_share(self) -> Any:
        """The same where the rows are, if they are elsewhere."""
        if not self.design.parted:
            return self.double_share
        return self.design.constant(self.share) if isinstance(self.share, float) else self.share

    @property
    def _double_residual(self) -> np.ndarray:
        """y less the offset: what is left to be explained, on the host and in double precision."""
        y = to_host(self.y).astype(np.float64)
        return y if self.offset is None else y - to_host(self.offset).astype(np.float64)

    def near(self, rows: np.ndarray) -> Self:
        """The same with these terms in memory, and no others, where the rows are elsewhere."""
        if not self.design.parted or self.fit_intercept or not self.design.fits(rows.size, self.design.shape[1]):
            return self
        terms = {"y": take(self.y, rows), "design": self.design.rows(rows)}
        if not isinstance(self.share, float):
            terms["share"] = take(self.share, rows)
        if self.offset is not None:
            terms["offset"] = take(self.offset, rows)
        return changed(self, **terms)

    def on_host(self, columns: np.ndarray | None = None) -> Self:
        """The same on some columns of X (all by default), on the host and in double precision."""
        design = self.design if columns is None else self.design.columns(columns)
        part = changed(self, design=design.on_host(), y=to_host(self.y).astype(np.float64))
        if not isinstance(self.share, float):
            part.share = self.double_share
        if self.offset is not None:
            part.offset = to_host(self.offset).astype(np.float64)
        part._prepare()
        return part


def penalty(ridge: float, w: Array) -> Any:
    """(ridge/2)||w||², also where ||w||² leaves the numbers."""
    square = scalar(w @ w)
    if isinstance(w, np.ndarray) and not 1e-280 < square < math.inf:
        size = math.sqrt(0.5 * ridge) * norm(w)
        return size * size
    return 0.5 * ridge * square
