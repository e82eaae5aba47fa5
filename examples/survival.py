"""Which genes shorten life? At most k of a thousand, and what they say about patients who were not in the study.

    python examples/survival.py [--patients 300] [--genes 1000] [--seed 0] [--out docs/figures/survival.png]

A simulated study (the truth is known): expressions of correlated genes, six of which change the hazard, and patients
who leave before anything happens. SparseCoxCV chooses k on two thirds of the patients. On the left the others, who were
never seen, split by their predicted risk: the steps are what happened to them (Kaplan and Meier's estimate), the dashed
lines what the model said. On the right the genes that were chosen, as hazard ratios for one standard deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import ellzero as ez

COLORS = {"high": "#D55E00", "low": "#0072B2"}


def study(patients: int, genes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expressions, (time, event) in months, and the true logarithms of the hazard ratios."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((patients, genes))
    for j in range(1, genes):  # neighbours are regulated together
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    truth = np.zeros(genes)
    truth[rng.choice(genes, 6, replace=False)] = [0.9, 0.8, 0.6, -0.6, -0.7, -0.8]
    death, leaving = rng.exponential(30 * np.exp(-X @ truth)), rng.uniform(6, 90, patients)
    return X, np.column_stack([np.minimum(death, leaving), death <= leaving]), truth


def kaplan_meier(time: np.ndarray, event: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Π (1 - d/n) over the times of events, d of the n at risk; as corners of a step function."""
    times = np.unique(time[event == 1])
    left = [1 - np.sum((time == t) & (event == 1)) / np.sum(time >= t) for t in times]
    return np.concatenate([[0.0], times]), np.concatenate([[1.0], np.cumprod(left)])


def main(
    patients: int = 300, genes: int = 1000, seed: int = 0, out: str | Path = "docs/figures/survival.png"
) -> ez.SparseCoxCV:
    """Fit, print, draw."""
    X, y, truth = study(patients, genes, seed)
    n = 2 * patients // 3
    model = ez.SparseCoxCV(ks=[1, 2, 3, 4, 5, 6, 8, 10], rule="1se").fit(X[:n], y[:n])
    chosen = model.get_support(indices=True)
    right = np.count_nonzero(truth[chosen])
    print(f"{model.k_} of {genes} genes, {right} of them among the 6 that matter")
    for j in chosen:
        print(f"  gene {j:<5} hazard ratio {np.exp(model.coef_[j]):5.2f}, in truth {np.exp(truth[j]):5.2f}")
    print(f"concordance: {model.score(X[:n], y[:n]):.2f} in the study, {model.score(X[n:], y[n:]):.2f} on others")
    print(f"picture: {draw(model, X[n:], y[n:], truth, out)}")
    return model


def draw(model: ez.SparseCoxCV, X: np.ndarray, y: np.ndarray, truth: np.ndarray, out: str | Path) -> Path:
    """Curves of two groups on the left, hazard ratios on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    draw_curves(model, X, y, left)
    draw_ratios(model, truth, right)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def draw_curves(model: ez.SparseCoxCV, X: np.ndarray, y: np.ndarray, ax: Any) -> None:
    """What happened to the half with the higher predicted risk and to the other one, and what was said."""
    risk, until = model.predict(X), np.linspace(0, 60, 200)
    curves = model.predict_survival_function(X, until)
    high = risk > np.median(risk)
    for name, rows in (("high", high), ("low", ~high)):
        time, event = y[rows].T
        at, alive = kaplan_meier(time, event)
        seen = np.count_nonzero(at <= 60)
        at, alive = np.append(at[:seen], 60.0), np.append(alive[:seen], alive[seen - 1])
        ax.step(at, alive, where="post", color=COLORS[name], lw=2)
        ax.plot(until, curves[rows].mean(axis=0), color=COLORS[name], lw=1.4, ls=(0, (2, 1.5)))
        gone = time[(event == 0) & (time <= 60)]
        ax.plot(gone, alive[np.searchsorted(at[:-1], gone, side="right") - 1], "|", color=COLORS[name], ms=7, mew=1)
        # below the upper pair of curves, above the lower
        month, away = (40.0, 0.13) if name == "high" else (16.0, -0.15)
        level = float(np.interp(month, at, alive)) + away
        label = f"{name} predicted risk\n{rows.sum()} patients, {int(event.sum())} events"
        ax.text(month, level, label, color=COLORS[name], fontsize=9.5, ha="center", va="center")
    ax.plot([], [], color="0.35", lw=2, label="what happened (| left the study)")
    ax.plot([], [], color="0.35", lw=1.4, ls=(0, (2, 1.5)), label="what the model said")
    ax.set(xlim=(0, 60), ylim=(0, 1.02), xlabel="months", ylabel="share without an event")
    ax.set_title(f"patients that the model has not seen: concordance {model.score(X, y):.2f}", fontsize=11)
    ax.grid(axis="y", color="0.92", lw=0.8)
    ax.legend(frameon=False, loc=(0.5, 0.42), fontsize=9)


def draw_ratios(model: ez.SparseCoxCV, truth: np.ndarray, ax: Any) -> None:
    """A bar for each gene that was chosen or matters, the largest at the top; the truth as a mark."""
    shown = np.flatnonzero((model.coef_ != 0) | (truth != 0))
    shown = shown[np.argsort(np.where(truth[shown] != 0, truth[shown], model.coef_[shown]))]
    place, values = np.arange(shown.size), model.coef_[shown]
    colors = np.where(values > 0, COLORS["high"], COLORS["low"])
    ax.barh(place, values, color=colors, height=0.6, alpha=0.85)
    ax.plot(truth[shown], place, "D", color="k", ms=5, ls="none", label="truth", zorder=3)
    ax.axvline(0, color="0.3", lw=1)
    ratios = [0.4, 0.5, 0.7, 1, 1.5, 2, 3]
    ax.set_xticks(np.log(ratios), [f"{ratio:g}" for ratio in ratios])
    ax.set_yticks(place, [f"gene {j}" for j in shown])
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="hazard ratio", xlim=(np.log(0.34), np.log(3.3)))
    ax.set_title(f"{model.k_} genes of {truth.size}", fontsize=11)
    ax.legend(frameon=False, loc="lower right", fontsize=9)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--patients", type=int, default=300, help="two thirds of them are in the study (default 300)")
    parser.add_argument("--genes", type=int, default=1000, help="how many are measured (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="which study (default 0)")
    parser.add_argument("--out", default="docs/figures/survival.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
