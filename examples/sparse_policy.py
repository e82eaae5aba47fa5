"""Learn from a noisy simulator how much to order, by a rule that looks at few of many signals.

    python examples/sparse_policy.py [--k 6] [--queries 5000] [--runs 3] [--seed 0] [--out out/sparse_policy.png]

Every morning a shop looks at 200 signals z and fills its stock up to 100 + w·z. Unsold goods cost 1 a day, each
customer who goes away costs 4. Five of the signals drive the demand, fifteen are noisy copies of these five, and
179 have nothing to do with it; the last "signal" is always 1, its weight is the safety stock. The simulator
f(w, seed) tells the mean cost of a day in 4 shops over 20 days, and this number is all that we get:

    minimise   E f(w, seed)       subject to at most k signals, one of them the safety stock

All the points of an iteration are simulated with the same seed (common random numbers), and the five best rules
are simulated again at the end. For comparison: the same method, with as many queries, but with all 200 weights.
Every cost in the table and in the picture is that of 400 fresh shops, which no run has seen.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ellzero as ez

D = 200
CAUSES = {"weather": 12.0, "price": -10.0, "weekend": 8.0, "rival's price": -6.0, "advertising": 5.0}
COPIES = 15
ALWAYS = 0  # the signal that is always 1
NAMES = [
    "safety stock",
    *CAUSES,
    *(f"copy {1 + j // len(CAUSES)} of {list(CAUSES)[j % len(CAUSES)]}" for j in range(COPIES)),
]
NAMES += [f"signal {j}" for j in range(len(NAMES), D)]
MEAN, NOISE, UNSOLD, SHORT = 100.0, 5.0, 1.0, 4.0
SHOPS, DAYS = 4, 20


def main(
    k: int = 6,
    queries: int = 5000,
    runs: int = 3,
    seed: int = 0,
    out: str | Path = "out/sparse_policy.png",
    *,
    test_shops: int = 400,
) -> dict[str, list[Run]]:
    """Learn sparse and dense rules, print what they cost, draw the picture."""
    signals, demand = world(np.random.default_rng([seed, 2**40]), test_shops, DAYS)

    def test(W: np.ndarray) -> np.ndarray:
        """The cost of a day in fresh shops, for every row of W."""
        return np.array([cost(signals @ w, demand) for w in W])

    ideal = np.zeros(D)
    ideal[1 : 1 + len(CAUSES)] = list(CAUSES.values())
    ideal[ALWAYS] = 0.8416 * NOISE  # the 4 / (1 + 4) quantile of what the causes leave open
    nothing, best = test(np.stack([np.zeros(D), ideal]))
    print(f"{D} signals, {len(CAUSES)} causes; {queries} simulations of {SHOPS} shops for {DAYS} days")
    print(f"cost of a day without any signal {nothing:.1f}, knowing the simulator {best:.1f}\n")

    learnt: dict[str, list[Run]] = {}
    print(f"{'':<16}{'run':>4}{'cost':>7}{'signals':>9}{'causes':>8}{'queries':>9}{'time':>9}")
    for name, nonzeros in ((f"at most {k}", k), (f"all {D}", D)):
        learnt[name] = [learn(nonzeros, queries, seed + number) for number in range(runs)]
        for number, run in enumerate(learnt[name]):
            run.costs = test(np.stack([x for _, x in run.trail]))
            run.cost = float(test(run.res.x[None, :])[0])
            causes = np.count_nonzero(run.res.x[1 : 1 + len(CAUSES)])
            spent = run.res.n_values + run.res.n_monitor
            print(
                f"{name:<16}{number:>4}{run.cost:>7.1f}{run.res.support.size:>9}{causes:>8}{spent:>9}"
                f"{run.seconds:>7.1f} s",
                flush=True,
            )
    sparse = min(learnt[f"at most {k}"], key=lambda run: run.res.fun)
    print(f"\nthe rule of the sparse run with the lowest simulated cost ({sparse.cost:.1f} in fresh shops):")
    for j in sorted(sparse.res.support, key=lambda j: -abs(sparse.res.x[j])):
        print(f"  {sparse.res.x[j]:>+7.1f}  {NAMES[j]:<20} {f'(true: {ideal[j]:+.1f})'}")
    missed = [name for j, name in enumerate(CAUSES, 1) if sparse.res.x[j] == 0]
    if missed:
        print(f"  not found: {', '.join(missed)}")
    print(f"\npicture: {draw(learnt, ideal, nothing, best, out)}")
    return learnt


def world(rng: np.random.Generator, shops: int, days: int) -> tuple[np.ndarray, np.ndarray]:
    """Signals (days, shops, D) and the demand that their causes bring about (days, shops)."""
    z = rng.standard_normal((days, shops, D))
    z[..., ALWAYS] = 1.0
    causes = z[..., 1 : 1 + len(CAUSES)]
    for j in range(COPIES):
        copy = z[..., 1 + len(CAUSES) + j]
        copy *= math.sqrt(1 - 0.7**2)
        copy += 0.7 * causes[..., j % len(CAUSES)]
    mean = MEAN + causes @ np.array(list(CAUSES.values()))
    return z, np.maximum(0.0, mean + NOISE * rng.standard_normal((days, shops)))


def cost(correction: np.ndarray, demand: np.ndarray) -> float:
    """The mean cost of a day if the stock is filled up to MEAN + correction each morning; leftovers stay."""
    stock, total = np.zeros(demand.shape[1]), 0.0
    for up_to, wanted in zip(MEAN + correction, demand, strict=True):
        left = np.maximum(stock, up_to) - wanted
        stock = np.maximum(left, 0.0)
        total += float(UNSOLD * stock.sum() - SHORT * np.minimum(left, 0.0).sum())
    return total / demand.size


def simulate(w: np.ndarray, seed: int) -> float:
    """f: what the rule w costs a day, in a few shops."""
    signals, demand = world(np.random.default_rng(seed), SHOPS, DAYS)
    return cost(signals @ w, demand)


@dataclass
class Run:
    """A run of the search, and what its rules cost in fresh shops."""

    res: ez.Result
    trail: list[tuple[int, np.ndarray]]
    seconds: float
    costs: np.ndarray = field(default_factory=lambda: np.empty(0))
    cost: float = math.nan


def learn(k: int, queries: int, seed: int) -> Run:
    """Search for a rule that uses at most k signals."""
    trail = [(0, np.zeros(D))]

    def note(intermediate_result: ez.Result) -> None:
        spent = intermediate_result.n_values + intermediate_result.n_monitor
        trail.append((spent, np.array(intermediate_result.x)))

    risk = ez.risks.BlackBox(simulate, D, common_random_numbers=True, recheck=(5, 20))
    start = time.perf_counter()
    # mu: the weights are of the order of 1 to 10, and the cost has kinks; see docs/black-box.md
    method = ez.preset("auto", mu=0.01)
    res = ez.minimize(risk, k, method=method, keep=[ALWAYS], max_queries=queries, rng=seed, callback=note)
    return Run(res, trail, time.perf_counter() - start)


def draw(learnt: dict[str, list[Run]], ideal: np.ndarray, nothing: float, best: float, out: str | Path) -> Path:
    """Cost in fresh shops against queries, and the weights of the first run of each kind."""
    from matplotlib.figure import Figure

    colors = dict(zip(learnt, ("#0072B2", "#D55E00"), strict=True))
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    for name, runs in learnt.items():
        for number, run in enumerate(runs):
            label = f"{name} signals" if number == 0 else None
            left.plot([q for q, _ in run.trail], run.costs, color=colors[name], lw=1.3, alpha=0.75, label=label)
            spent = run.res.n_values + run.res.n_monitor
            left.plot([spent], [run.cost], "o", ms=6, mec="white", color=colors[name], clip_on=False, zorder=3)
    for level, text, side in ((nothing, "no signals at all", "bottom"), (best, "knowing the simulator", "top")):
        left.axhline(level, color="0.5", lw=0.9, ls="--")
        left.text(0.99, level, text, transform=left.get_yaxis_transform(), ha="right", va=side, color="0.4")
    left.set(xlabel="simulations", ylabel="cost of a day in fresh shops", yscale="log", xlim=(0, None))
    left.set_ylim(0.85 * best, 1.15 * nothing)
    left.set_yticks([best, 10, 20, nothing], [f"{best:.1f}", "10", "20", f"{nothing:.0f}"])
    left.minorticks_off()
    left.set_title(f"{len(next(iter(learnt.values())))} runs of each kind; dots: their answers", fontsize=10)
    left.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.78))

    for name, runs in reversed(learnt.items()):
        x = min(runs, key=lambda run: run.res.fun).res.x
        used = np.flatnonzero(x)
        many = used.size > 50
        place = used + 0.35 * (many & (used < 20))  # beside the others, not behind them
        right.vlines(place, 0, x[used], color=colors[name], lw=0.8 if many else 2.0, alpha=0.5 if many else 1.0)
        right.plot(place, x[used], "o", ms=2.5 if many else 6, color=colors[name], label=f"{name} signals")
    true = np.flatnonzero(ideal)
    right.plot(true, ideal[true], "o", ms=11, mfc="none", mec="0.3", label="true causes")
    right.axhline(0, color="0.7", lw=0.8)
    right.set_xscale("symlog", linthresh=20, linscale=2)
    right.set_xlim(-1, D)
    right.set_xticks([0, 1, 5, 10, 20, 50, 100, 200], ["0", "1", "5", "10", "20", "50", "100", "200"])
    right.minorticks_off()
    right.set(xlabel="signal (1 to 5: causes, 6 to 20: their noisy copies)", ylabel="weight")
    right.set_title("what the rules look at: the run of each kind with the lowest simulated cost", fontsize=10)
    right.legend(frameon=False, loc="lower right")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=6, help="signals at the most, safety stock included (default 6)")
    parser.add_argument("--queries", type=int, default=5000, help="simulations of a run (default 5000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the first run (default 0)")
    parser.add_argument("--out", default="out/sparse_policy.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
