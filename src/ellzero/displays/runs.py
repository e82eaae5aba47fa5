"""Displays of runs: how the objective fell, and what other k would give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._core.arrays import to_host
from ..solver.path import SparsePath
from ..solver.result import Result
from . import plot as _plot
from .base import Display, fitted, name_of, names_seen, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay(Display):
    """R of the iterates against iterations, time or counts, a line for each result, and what was proved below it.

    Parameters
    ----------
    results : mapping from name to Result

    Examples
    --------
    >>> import ellzero as ez, matplotlib.pyplot as plt
    >>> problem = ez.datasets.make_regression(50, 20, 3)
    >>> res = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k=3, method="IHT")
    >>> display = ez.ConvergenceDisplay.from_result(res, x="n_gradients")
    >>> display.ax_.get_xlabel()
    'gradients of single terms'
    >>> plt.close(display.figure_)
    """

    results: Mapping[str, Result]

    def plot(self, ax: Axes | None = None, *, x: str = "iteration") -> Self:
        """Draw; `x` is "iteration" or a column of `History`."""
        ax = _plot.convergence(self.results, ax, x)
        for name, style in _plot.styles(list(self.results)).items():
            bound = getattr(self.results[name].certificate, "lower_bound", None)
            if bound is not None and np.isfinite(bound) and (bound > 0 or ax.get_yscale() == "linear"):
                label = "proved lower bound" + ("" if len(self.results) == 1 else f", {name}")
                ax.axhline(bound, color=style["color"], lw=1, ls="-.", label=label)
                ax.legend(frameon=False)
        return self._keep(ax)

    @classmethod
    def from_result(
        cls, result: Result | Mapping[str, Result], *, name: str | None = None, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw one result, under its method's name unless given, or several by name."""
        if isinstance(result, Mapping):
            return cls(results=result).plot(ax, **options)
        return cls(results={name or result.method: result}).plot(ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Axes | None = None, **options: Any) -> Self:
        """Draw the run of a fitted estimator."""
        return cls.from_result(fitted(estimator, "result_"), name=name, ax=ax, **options)


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay(Display):
    """R(w(k)) and the loss on held-out data, or the coefficients w(k), against k.

    Parameters
    ----------
    results : SparsePath, or sequence of Result
        The answers, in the order of k.
    held_out : pair or triple of arrays, optional
        Some k, for each of them the loss on data that was held out, and perhaps its standard error: then the smallest k
        within one standard error of the best is marked as well.
    feature_names : sequence of str, optional
        For the coefficients.
    chosen : int, optional
        A k to mark.
    chosen_by : str, optional
        What chose it.

    Examples
    --------
    >>> import ellzero as ez, matplotlib.pyplot as plt
    >>> problem = ez.datasets.make_regression(100, 50, 3)
    >>> path = ez.minimize_path(ez.risks.LeastSquares(problem.X, problem.y), ks=6)
    >>> display = ez.PathDisplay.from_result(path, of="coefficients")
    >>> display.ax_.get_ylabel()
    'coefficient'
    >>> plt.close(display.figure_)
    """

    results: Iterable[Result]
    held_out: tuple[Any, ...] | None = None
    feature_names: Sequence[str] | None = None
    chosen: int | None = None
    chosen_by: str = ""

    def plot(self, ax: Axes | None = None, *, of: str = "loss", most: int = 8) -> Self:
        """Draw `of` = "loss" or "coefficients"; the `most` largest coefficients have a colour and a name."""
        if of not in ("loss", "coefficients"):
            raise ValueError(f'of must be "loss" or "coefficients", got {of!r}')
        ax = _plot._axes(ax)
        ks = np.array([res.k for res in self.results])
        best: int | None = None
        if of == "loss":
            best = self._losses(ax, ks)
        else:
            self._coefficients(ax, ks, most)
        if self.chosen is not None and self.chosen != best:
            by = f" by {self.chosen_by}" if self.chosen_by else ""
            ax.axvline(self.chosen, color="0.3", lw=1, ls=":", zorder=1, label=f"chosen{by}: k = {self.chosen}")
        ax.locator_params(axis="x", integer=True)
        ax.set_xlabel("k")
        tidy(ax, "y")
        if of == "coefficients":  # beside the axes: the lines fill the inside
            ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif ax.get_legend_handles_labels()[0][1:]:
            ax.legend(frameon=False)
        return self._keep(ax)

    def _losses(self, ax: Axes, ks: np.ndarray) -> int | None:
        """Both curves; the k with the smaller held-out loss, if there is one."""
        seen, best = np.array([res.fun for res in self.results]), None
        ax.plot(ks, seen, "o-", ms=4, lw=1.6, color=_plot._BLUE, label="objective R(w)")
        if self.held_out is not None:
            tried, losses, *error = (np.asarray(column, dtype=float) for column in self.held_out)
            best = int(tried[np.nanargmin(losses)])
            ax.plot(tried, losses, "o-", ms=4, lw=1.6, color=_plot._VERMILLION, label="held-out loss")
            if error:
                self._standard_errors(ax, tried, losses, error[0])
            ax.axvline(best, color="0.5", lw=1, ls="--", zorder=1, label=f"smallest held-out loss: k = {best}")
            seen = np.append(seen, losses)
        if 0 < 10 * seen.min() < seen.max() < np.inf:
            ax.set_yscale("log")
        ax.set_ylabel("objective R(w)" if self.held_out is None else "mean loss")
        return best

    def _standard_errors(self, ax: Axes, ks: np.ndarray, losses: np.ndarray, error: np.ndarray) -> None:
        """A band around the losses, the height of the rule "1se", and the k that it takes."""
        colour, best = _plot._VERMILLION, int(np.nanargmin(losses))
        ax.fill_between(ks, losses - error, losses + error, color=colour, alpha=0.15, lw=0, label="± 1 standard error")
        height = losses[best] + error[best]
        smallest = int(ks[losses <= height].min())
        ax.axhline(height, color=colour, lw=0.8, ls=":", zorder=1)
        if smallest not in (self.chosen, int(ks[best])):
            label = f"within one standard error: k = {smallest}"
            ax.axvline(smallest, color=colour, lw=1, ls=":", zorder=1, label=label)

    def _coefficients(self, ax: Axes, ks: np.ndarray, most: int) -> None:
        paths = np.array([to_host(res.x) for res in self.results], dtype=float)
        used = np.flatnonzero(paths.any(axis=0))
        used = used[np.argsort(-np.abs(paths[-1, used]), kind="stable")]
        paths[paths == 0] = np.nan  # a line where a feature is selected, none where it is not
        names = [name_of(self.feature_names, i) for i in used]
        style = _plot.styles(names[:most])
        for rank, (i, name) in enumerate(zip(used, names, strict=True)):
            look = (
                {"lw": 1.6, **style[name], "label": name} if rank < most else {"lw": 0.8, "color": "0.7", "zorder": 1}
            )
            ax.plot(ks, paths[:, i], marker="o", ms=3, **look)
        ax.axhline(0, color="0.9", lw=1, zorder=0)
        ax.set_ylabel("coefficient")

    @classmethod
    def from_result(
        cls,
        result: SparsePath | Sequence[Result],
        *,
        feature_names: Sequence[str] | None = None,
        chosen: int | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw what `minimize_path` returned."""
        known = isinstance(result, SparsePath) and result.validation is not None
        held_out = (result.ks, result.validation) if known else None  # type: ignore[union-attr]
        return cls(results=result, held_out=held_out, feature_names=feature_names, chosen=chosen).plot(ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **options: Any) -> Self:
        """Draw the path of an estimator that chose k, by cross-validation or a criterion.

        The held-out loss is minus the mean score of the folds, for the ridge that was chosen.
        """
        results, by = fitted(estimator, "path_"), getattr(estimator, "criterion_", "")
        held_out: tuple[Any, ...] | None = None
        if (scores := getattr(estimator, "cv_results_", None)) is not None:
            rows = np.flatnonzero(scores["ridge"] == estimator.ridge_)
            rows = rows[np.argsort(scores["k"][rows], kind="stable")]
            folds = np.array([scores[name][rows] for name in scores if name.startswith("split")])
            held_out = scores["k"][rows], -scores["mean_test_score"][rows]
            if len(folds) > 1:
                held_out += (folds.std(axis=0, ddof=1) / np.sqrt(len(folds)),)
            by = {"1se": "one standard error"}.get(getattr(estimator, "rule", ""), "")
        names, chosen = names_seen(estimator, to_host(results[-1].x).size), getattr(estimator, "k_", None)
        told: dict[str, Any] = {"feature_names": names, "chosen": chosen, "chosen_by": by}
        return cls(results=results, held_out=held_out, **told).plot(ax, **options)


@dataclass(kw_only=True, eq=False, repr=False)
class StabilityDisplay(Display):
    """Bars of π_j, how often each feature was chosen on random halves of the rows.

    Parameters
    ----------
    stability : Stability
        What `stability` of a fitted estimator returned.
    threshold : float
        A line there; bars that reach it are filled.

    Examples
    --------
    >>> import ellzero as ez, matplotlib.pyplot as plt
    >>> problem = ez.datasets.make_regression(100, 50, 3)
    >>> model = ez.SparseRegressor(k=3).fit(problem.X, problem.y)
    >>> stability = model.stability(problem.X, problem.y, n_pairs=10, random_state=0)
    >>> display = ez.StabilityDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'chosen on this share of 20 halves of the rows'
    >>> plt.close(display.figure_)
    """

    stability: Any
    threshold: float = 0.75

    def plot(self, ax: Axes | None = None, *, most: int = 20) -> Self:
        """Draw the `most` frequent features."""
        ax = _plot._axes(ax)
        found = self.stability
        order = np.argsort(-found.frequencies, kind="stable")
        order = order[found.frequencies[order] > 0][:most]
        often = found.frequencies[order]
        colours = [_plot._BLUE if value >= self.threshold else "#BBD4E6" for value in often]
        ax.barh(np.arange(order.size), often, color=colours, height=0.7)
        labels = [found.names[j] + (" (always kept)" if found.kept[j] else "") for j in order]
        ax.set_yticks(np.arange(order.size), labels)
        ax.invert_yaxis()
        ax.axvline(self.threshold, color="0.3", lw=1, ls=":")
        ax.set(xlim=(0, 1.02), xlabel=f"chosen on this share of {2 * found.n_pairs} halves of the rows")
        tidy(ax, "x")
        return self._keep(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, threshold: float = 0.75, ax: Axes | None = None, **options: Any) -> Self:
        """Draw ``stability_`` of an estimator whose `stability` was called."""
        return cls(stability=fitted(estimator, "stability_"), threshold=threshold).plot(ax, **options)
