"""Compressed sensing: all the tones of a sound from a quarter of its samples, without ever making a matrix.

    python examples/compressed_sensing_dct.py [--k 60] [--seed 0] [--out out/compressed_sensing_dct.png]

A sound of d samples is a sum of k cosines: s = idct(w), where w has k nonzeros. Only m < d samples, at random
times, are known: y = Xw, where X is m rows of the orthonormal (inverse) cosine transform. X is a scipy
LinearOperator: a product with it is one fast transform. Two ways of finding w:

    IHT                  at most k tones
    IHT-2SP with a box   at most k tones, and every amplitude known to lie in [0, 1.5]

The picture's right panel repeats this for more and more tones: what is known about the amplitudes lets more of
them be recovered from the same samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator

import ellzero as ez

BOX = ez.sets.Box(0.0, 1.5)
METHODS: dict[str, dict[str, Any]] = {
    "IHT": {"method": "IHT"},
    "IHT-2SP with a box": {"method": "IHT-2SP", "constraint": BOX},
}
RECOVERED = 1e-6  # relative error below which a signal counts as found


def main(
    d: int = 2048,
    m: int = 512,
    k: int = 60,
    seed: int = 0,
    out: str | Path = "out/compressed_sensing_dct.png",
    *,
    sweep: Sequence[int] = (60, 80, 100, 120, 140, 160),
    n_signals: int = 20,
) -> dict[str, float]:
    """Recover one signal, then signals of more and more tones; returns the relative errors of the first."""
    print(f"a sound of {d} samples made of {k} tones, {m} samples known; products by fast cosine transform\n")
    truth, answers = recover(d, m, k, seed)
    errors = {}
    for name, (res, seconds) in answers.items():
        errors[name] = relative_error(res.x, truth)
        print(f"  {name:<20} relative error {errors[name]:.1e}  {res.nit:>4} iterations  {seconds:.2f} s", flush=True)

    print(f"\nhow many of {n_signals} signals are found (relative error below {RECOVERED:g}):")
    print(f"  {'tones':<8}" + "  ".join(METHODS))
    found: dict[str, list[int]] = {name: [] for name in METHODS}
    for tones in sweep:
        runs = [recover(d, m, tones, seed + i) for i in range(n_signals)]
        for name, counts in found.items():
            counts.append(sum(relative_error(run[name][0].x, w) < RECOVERED for w, run in runs))
        last = "  ".join(f"{counts[-1]:>{len(name)}}" for name, counts in found.items())
        print(f"  {tones:<8}{last}", flush=True)
    print(f"\npicture: {draw(truth, answers, m, sweep, found, n_signals, out)}")
    return errors


def sampled_dct(d: int, rows: np.ndarray) -> LinearOperator:
    """The given rows of the orthonormal inverse cosine transform: w ↦ idct(w)[rows], in O(d log d)."""

    def forward(w: np.ndarray) -> np.ndarray:
        return idct(w.ravel(), norm="ortho")[rows]

    def adjoint(r: np.ndarray) -> np.ndarray:
        filled = np.zeros(d)
        filled[rows] = r.ravel()
        return dct(filled, norm="ortho")

    return LinearOperator((rows.size, d), matvec=forward, rmatvec=adjoint, dtype=np.float64)


def recover(d: int, m: int, k: int, seed: int) -> tuple[np.ndarray, dict[str, tuple[ez.Result, float]]]:
    """A random signal, and what each method makes of its samples in how many seconds."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(d)
    truth[rng.choice(d, k, replace=False)] = rng.uniform(0.5, 1.5, k)
    X = sampled_dct(d, np.sort(rng.choice(d, m, replace=False)))
    risk = ez.risks.LeastSquares(X, X @ truth)
    answers = {}
    for name, how in METHODS.items():
        start = time.perf_counter()
        res = ez.minimize(risk, k, **how, max_iter=2000, tol=1e-10)
        answers[name] = res, time.perf_counter() - start
    return truth, answers


def relative_error(w: np.ndarray, truth: np.ndarray) -> float:
    """||w - truth|| / ||truth||."""
    return float(np.linalg.norm(w - truth) / np.linalg.norm(truth))


def draw(
    truth: np.ndarray,
    answers: dict[str, tuple[ez.Result, float]],
    m: int,
    sweep: Sequence[int],
    found: dict[str, list[int]],
    n_signals: int,
    out: str | Path,
) -> Path:
    """The first tones of the signal and of the answer, and how many signals are found."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
    first = np.flatnonzero(truth)[:20]
    end = int(first[-1]) + 10
    answer = answers["IHT"][0].x[:end]
    left.vlines(first, 0, truth[first], color="0.6", lw=1.2)
    left.plot(first, truth[first], "o", ms=9, mfc="none", mec="0.4", label="truth")
    nonzero = np.flatnonzero(answer)
    left.plot(nonzero, answer[nonzero], "x", ms=6, color=ez.plot.styles(["IHT"])["IHT"]["color"], label="IHT")
    left.set(xlabel="tone", ylabel="amplitude", ylim=(0, None))
    left.set_title(
        f"the first {first.size} of {np.count_nonzero(truth)} tones, from {m} of {truth.size} samples", fontsize=10
    )
    left.legend(loc="lower right", ncols=2, framealpha=1)
    styles = ez.plot.styles([how["method"] for how in METHODS.values()])
    for (name, counts), mark in zip(found.items(), "os", strict=True):
        style = styles[METHODS[name]["method"]]
        right.plot(sweep, np.array(counts) / n_signals, marker=mark, label=name, **style)
    right.set(xlabel="tones k", ylabel="share of signals found", ylim=(-0.03, 1.06))
    right.set_title(f"what a box is worth ({n_signals} signals for each k)", fontsize=10)
    right.legend(frameon=False, loc="lower left")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=60, help="tones (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="which signal (default 0)")
    parser.add_argument("--out", default="out/compressed_sensing_dct.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
