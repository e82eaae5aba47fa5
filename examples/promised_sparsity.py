"""How sparse a vector cannot be better than the answer: k̄ against k, by every theorem there is here.

    python examples/promised_sparsity.py [--data ../shared/data] [--out docs/figures]

For each k the answer of "auto", and the largest k̄ such that it is promised to be as good as every w̄ in Γ with k̄
nonzeros: by the paper's theorem, its sharper and its widest form (about IHT-2SP, and at a factor of R(w̄)), by the
theorem on exchanges (a priori), and read off the answer (a posteriori, `ez.beats`), with the one ν of the theorems
and with the best curvature there is. The truth is told where all supports can be tried, or the optimum is known. Data
that are not there are skipped.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ellzero as ez
from ellzero.displays.base import new_figure, tidy
from ellzero.solver.refit import refit

FORMS = {
    "the paper's": ("#D55E00", "-", 1.6), "sharper": ("#E69F00", (0, (4, 3)), 1.6), "widest": ("#009E73", "-", 1.6),
    "a priori": ("#0072B2", (0, (2, 2)), 2.0), "a posteriori, one ν": ("#CC79A7", "-", 1.6),
    "a posteriori": ("#000000", "-", 2.0), "truth": ("#BBBBBB", ":", 3.0),
}  # fmt: skip


class Case(NamedTuple):
    """A problem, the k that are tried, and R(w̄) for every k̄ = 0, 1, ... where it is known."""

    title: str
    risk: Any
    gamma: Any
    ks: Sequence[int]
    optimum: Callable[[int], float] | None = None


def experiment_one() -> Case:
    """The paper's first: diagonal X, κ = 2, |w_i| <= 0.5; the optimum is known for every k̄."""
    example = ez.datasets.diagonal_example()
    risk = ez.risks.LeastSquares(example.X, example.y)
    ks = [*range(10, 350, 20)]
    return Case(
        "experiment 1, |w| <= 0.5", risk, ez.sets.LinfBall(0.5), ks, lambda k: float(example.optimum(k, 0.5)[1])
    )


def diabetes(ridge: float) -> Case:
    """Ten standardised columns: all supports are tried."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    risk = ez.risks.LeastSquares((X - X.mean(axis=0)) / X.std(axis=0), y, ridge=ridge, fit_intercept=True)
    everywhere = ez.sets.Everywhere()

    def optimum(k: int) -> float:
        supports = itertools.combinations(range(10), k)
        return min(refit(risk, everywhere, np.array(S, dtype=np.intp)).value for S in supports)

    return Case(f"diabetes, ridge {ridge:g}", risk, None, range(1, 11), optimum)


def from_data(folder: Path) -> Iterator[Case | str]:
    """dna, the paper's third experiment; and the Hang Seng index, a fifth in every sector at the most."""
    from ellzero.experiments import logistic

    try:
        _, risk = logistic.problem()
        yield Case("dna, ||w_j|| <= 0.01", risk, logistic.balls(0.01), [10, 25, 50, 75, 100, 125, 150, 200])
    except (OSError, ValueError) as error:
        yield f"dna: skipped, {error}"
    path = folder / "hsi_2021_2022"
    if not path.is_dir():
        yield f"Hang Seng: skipped, there is no {path}"
        return
    market = ez.datasets.read_prices(path / "prices.csv.gz", sectors=path / "sectors.csv").split()[0]
    X, y = np.asarray(market.returns), np.asarray(market.index_returns)
    for ridge in (0.0, 1e-4):
        risk = ez.risks.LeastSquares(X, y, ridge=ridge)
        gamma = ez.sets.GroupWise(ez.sets.L1Ball(0.2), list(market.sectors))
        yield Case(f"Hang Seng, ridge {ridge:g}", risk, gamma, [5, 10, 15, 20, 30, 40, 50, 60, 70])


def promised(case: Case, k: int) -> dict[str, int | None]:
    """The largest k̄ by every form; None where nothing is known of it."""
    method = "IHT" if case.gamma is None else "IHT-2SP"
    result = ez.minimize(case.risk, k, case.gamma)
    g = ez.guarantee(case.risk, k, 1, case.gamma, method, radius=1.0)
    sure = g.L.source != "estimate" and g.nu.value > 0
    found: dict[str, int | None] = {"the paper's": (g.k_bar_max or 0) if sure else 0}
    for name, form in (("sharper", g.sharp), ("widest", g.widest)):
        found[name] = None if form is None else (form.k_bar_max or 0) if sure else 0
    after = ez.guarantee(case.risk, k, 1, case.gamma, "auto", result=result)
    found["a priori"] = (after.k_bar_max or 0) if after.premises[0].holds and after.premises[-1].holds else None
    nu = case.risk.strong_convexity
    one = ez.beats(case.risk, result, nu=nu.value * (1 - 1e-12)) if nu.value > 0 and nu.source != "estimate" else None
    found["a posteriori, one ν"] = None if one is None else one.k_bar
    found["a posteriori"] = ez.beats(case.risk, result).k_bar
    found["truth"] = None
    if case.optimum is not None:
        top = min(k + 1, case.risk.n_features)
        better = (j for j in range(top + 1) if case.optimum(j) < result.fun - 1e-9 * abs(result.fun))
        found["truth"] = next(better, top + 1) - 1
    return found


def main(out: str | Path = "docs/figures", name: str = "promised_sparsity", cases: Sequence[Case] | None = None,
         data: str | Path = "../shared/data") -> list[Path]:  # fmt: skip
    """Print the tables and write the figure."""
    if cases is None:
        told = [experiment_one(), diabetes(0.0), diabetes(0.1), *from_data(Path(data))]
        for line in (t for t in told if isinstance(t, str)):
            print(line)
        cases = [t for t in told if isinstance(t, Case)]
    tables = []
    for case in cases:
        rows = [promised(case, k) for k in case.ks]
        tables.append(rows)
        print(f"\n{case.title:<26}" + "".join(f"{k:>5}" for k in case.ks))
        for form in FORMS:
            shown = ["-" if row[form] is None else str(row[form]) for row in rows]
            print(f"  k̄ {form:<22}" + "".join(f"{entry:>5}" for entry in shown))
    path = Path(out) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(cases, tables, path)
    return [path]


def draw(cases: Sequence[Case], tables: list[list[dict[str, int | None]]], path: Path) -> None:
    """A panel for each problem."""
    columns = min(3, len(cases))
    rows = -(-len(cases) // columns)
    figure, axes = new_figure(3.8 * columns, 3.2 * rows, rows, columns, squeeze=False)
    for ax in axes.ravel()[len(cases) :]:
        ax.set_visible(False)
    for ax, case, table in zip(axes.ravel(), cases, tables, strict=False):
        for form, (color, dashes, width) in FORMS.items():
            values = [np.nan if row[form] is None else row[form] for row in table]
            if not np.isnan(np.array(values, dtype=float)).all():
                ax.plot(case.ks, values, color=color, ls=dashes, lw=width, label=form)
        ax.set(title=case.title, xlabel="k", ylabel="k̄ promised")
        tidy(ax)
    seen = {label: handle for ax in axes.ravel() for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=len(seen), frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/figures")
    parser.add_argument("--data", default="../shared/data")
    options = parser.parse_args()
    print(*main(options.out, data=options.data), sep="\n")
