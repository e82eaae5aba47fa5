"""Track an index with few names and a cap on every sector: ours and the paper's against two naive ways.

    python examples/demo.py [--k 15] [--cap 0.1] [--seed 0] [--out out/demo.png]

The market is simulated: 200 names in 10 sectors over 500 days, and an index that holds them all. We look for
weights w that follow the index, min (1/n)||Xw - y||², with at most k names and Σ|w_i| <= cap in every sector.

    auto      exact projections onto both constraints, values refitted on each support, names exchanged at the end
    IHT-2SP   after each gradient step: keep the k largest weights, then project onto the caps
    PGD+H     obey only the caps on the way; keep the k largest weights at the very end
    IHT+P     obey only the number of names on the way; project onto the caps at the very end

Whatever comes out is printed. Where the caps bind hard (try --k 30 --cap 0.05), IHT-2SP with the step 1/L can
get stuck: it keeps the largest weights of a few sectors, and the projection then wastes them.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import ellzero as ez
from ellzero.datasets import Market, make_market

METHODS = ("auto", "IHT-2SP", "PGD+H", "IHT+P")


def main(
    k: int = 15,
    cap: float = 0.1,
    seed: int = 0,
    out: str | Path = "out/demo.png",
    *,
    n_days: int = 500,
    n_assets: int = 200,
    max_iter: int = 10_000,
) -> dict[str, ez.Result]:
    """Run the methods, print the table, write the picture."""
    train, test = make_market(n_days, n_assets, rng=seed).split()
    caps = ez.sets.GroupWise(ez.sets.L1Ball(cap), groups=train.sectors)
    risk = ez.risks.LeastSquares(train.returns, train.index_returns)
    print(
        f"{n_assets} names in {len(caps.names)} sectors; {len(train.returns)} days to fit, {len(test.returns)} to test"
    )
    print(f"at most {k} names, at most {cap:g} in any sector\n")

    results, seconds = {}, {}
    for method in METHODS:
        print(f"  {method:<8} ...", end=" ", flush=True)
        start = time.perf_counter()
        results[method] = res = ez.minimize(risk, k, caps, method=method, max_iter=max_iter)
        seconds[method] = time.perf_counter() - start
        print(f"{res.nit} iterations: {res.message}", flush=True)

    print_table(results, seconds, train, test, cap)
    print(f"\npicture: {draw(results, train, cap, out)}")
    return results


def error(w: np.ndarray, market: Market) -> float:
    """The root mean square of the daily difference to the index, in basis points (hundredths of a percent)."""
    return 1e4 * math.sqrt(np.mean((market.returns @ w - market.index_returns) ** 2))


def sector_weights(w: np.ndarray, market: Market) -> dict[str, float]:
    """Σ|w_i| of every sector that is used."""
    assert market.sectors is not None
    sums = {str(sector): float(np.abs(w[market.sectors == sector]).sum()) for sector in np.unique(market.sectors)}
    return {sector: total for sector, total in sums.items() if total > 0}


def print_table(
    results: dict[str, ez.Result], seconds: dict[str, float], train: Market, test: Market, cap: float
) -> None:
    """One line for each method, and what to make of it."""
    print("\ntracking error in basis points a day; violation is relative to the cap")
    print(
        f"{'':<10}{'train':>7}{'test':>7}{'names':>7}{'sectors':>9}{'largest':>9}{'cap':>7}{'violation':>11}{'time':>8}"
    )
    for method, res in results.items():
        sectors = sector_weights(res.x, train)
        largest = max(sectors.values(), default=0.0)
        print(
            f"{method:<10}{error(res.x, train):>7.1f}{error(res.x, test):>7.1f}{res.support.size:>7}"
            f"{len(sectors):>9}{largest:>9.4f}{cap:>7g}{res.violation:>11.1g}{seconds[method]:>6.1f} s"
        )
    nothing = np.zeros(train.returns.shape[1])
    print(f"{'no names':<10}{error(nothing, train):>7.1f}{error(nothing, test):>7.1f}{0:>7}")

    on_train = min(results, key=lambda method: error(results[method].x, train))
    on_test = min(results, key=lambda method: error(results[method].x, test))
    print(f"\nsmallest error: {on_train} on the days of the fit, {on_test} on the days after")
    two_step = results["IHT-2SP"]
    if two_step.support.size < two_step.k:
        print(
            f"IHT-2SP used {two_step.support.size} of the {two_step.k} names it may use: a sign that it got stuck, "
            "as it can where the caps bind hard"
        )


def draw(results: dict[str, ez.Result], market: Market, cap: float, out: str | Path) -> Path:
    """Objective against iteration, and the weight of every sector with the cap."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    ez.plot.convergence(results, left)
    left.set_xscale("symlog", linthresh=1)
    left.set_xlim(left=0)
    left.set_title("lines: iterates. dots: answers; the naive ways repair theirs at the end", fontsize=10)
    ez.plot.weights_by_group({name: res.x for name, res in results.items()}, market.sectors, cap, right)
    right.set_title("how much of every sector", fontsize=10)
    right.set_xlabel("Σ|w| of the sector")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    for ax in (left, right):
        ax.get_legend().remove()
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=15, help="names at the most (default 15)")
    parser.add_argument("--cap", type=float, default=0.1, help="largest Σ|w| of a sector (default 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="which market (default 0)")
    parser.add_argument("--out", default="out/demo.png", help="where the picture goes (default out/demo.png)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
