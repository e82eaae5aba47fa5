"""Data on a Dask cluster: weak scaling, what goes over the network, and what that means for 100 workers.

    python -m benchmarks clusters      # needs dask; about five minutes, draws docs/figures/weak_scaling.png

Weak scaling: every worker process has one thread and 200 MB of its own (50,000 rows of 500 standard normal numbers for
each), so that a perfect cluster takes the same time for any number of them. Everything runs on this machine: workers,
scheduler and client share its cores, and where there are more processes than cores the curve shows these cores, not the
method. A gradient is one at 10 nonzeros; "auto" is a whole run for k = 10 of least squares and of logistic regression.
A gradient is the median of 15, "auto" one run.
Bytes are those of jobs and results as they are packed; the scheduler adds some hundred bytes for each task.
"""

import math
import os
import statistics
import time
from pathlib import Path

import numpy as np

import ellzero as ez

from .machine import machine

PAGE = Path(__file__).with_name("CLUSTERS.md")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "weak_scaling.png"
ROWS, P, K = 50_000, 500, 10
CURVES = {
    "gradient": ("a gradient", "#0072B2"),
    "auto": ('"auto", least squares', "#D55E00"),
    "logistic": ('"auto", logistic', "#009E73"),
}
HEAD = ["workers", "GB", "parts", "a gradient, s", "out, bytes", "back, bytes", "an empty round, ms"]
HEAD += ['"auto", s', "sweeps, rounds", "logistic, s", "sweeps, rounds"]


def data(da, n_workers):
    """X on the workers, and y: made where it is used."""
    n = ROWS * n_workers
    X = da.random.default_rng(0).standard_normal((n, P), chunks=(ROWS // 4, P))
    truth = np.zeros(P)
    truth[np.random.default_rng(1).choice(P, K, replace=False)] = 1.0
    y = X @ truth + da.random.default_rng(2).standard_normal(n, chunks=ROWS // 4)
    return X, np.asarray(y)


def measure(distributed, da, n_workers):
    """Seconds and bytes with so many workers."""
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(n_workers=n_workers, **options) as cluster, distributed.Client(cluster) as client:
        X, y = data(da, n_workers)
        design = ez.Distributed(X, client=client)
        risk, tally = ez.risks.LeastSquares(design, y), design.tally
        support = np.arange(0, P, P // K)
        w = np.zeros(P)
        w[support] = 1.0
        seconds, out, back = [], tally.bytes_out, tally.bytes_in
        for _ in range(15):
            start = time.perf_counter()
            risk.at(w, support).gradient  # noqa: B018
            seconds.append(time.perf_counter() - start)
        answer = {"gradient": statistics.median(seconds), "parts": len(design.layout.places)}
        answer |= {"out": (tally.bytes_out - out) / 15, "in": (tally.bytes_in - back) / 15, "round": latency(design)}
        for name, other in (("auto", risk), ("logistic", ez.risks.Logistic(design, y > 0, ridge=0.01))):
            answer[name] = whole_run(other, tally)
        return answer


def whole_run(risk, tally):
    """Seconds, sweeps, rounds and bytes of "auto"."""
    rounds, out, back = tally.rounds, tally.bytes_out, tally.bytes_in
    start = time.perf_counter()
    res = ez.minimize(risk, K)
    told = {"seconds": time.perf_counter() - start, "sweeps": res.n_sweeps, "rounds": tally.rounds - rounds}
    return told | {"out": tally.bytes_out - out, "in": tally.bytes_in - back, "support": res.support.tolist()}


def latency(design):
    """Seconds of a question that needs no work: what a round costs by itself."""
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        design.layout.fold(_nothing, max, design.block)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _nothing(rows):
    return 0


def on_paper(n_workers, n_bytes, p, k, speed, wait, each, *, threads=16, network=1.25e9, fan=16, memory=1e11):
    """Seconds and bytes of one gradient on a cluster that nobody has here.

    Every thread goes through its share at `speed` bytes a second, those of a worker together no faster than its
    `memory`; `each` bytes and k numbers with their places go out to each of the parts; sums of p numbers are added up
    in a tree of `fan`, of which every level sends them to the next and takes `wait` seconds; the last `fan` of them
    come to the client.
    """
    parts = 8 * threads * n_workers
    levels = math.ceil(math.log(parts, fan))
    out, back, between = parts * (16 * k + each), fan * 8 * p, parts * 8 * p
    send = out / network + levels * (fan * 8 * p / network + wait)
    compute = n_bytes / (n_workers * min(threads * speed, memory))
    return {"compute": compute, "send": send, "out": out, "back": back, "between": between, "parts": parts}


def draw(answers):
    """Time over the number of workers, relative to one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    workers = sorted(answers)
    for key, (label, colour) in CURVES.items():
        values = [answers[n][key] if key == "gradient" else answers[n][key]["seconds"] for n in workers]
        ax.plot(workers, [value / values[0] for value in values], "o-", color=colour, label=label)
    ax.axhline(1.0, color="0.6", linewidth=1, linestyle=":")
    ax.set(xticks=workers, xlabel="worker processes, 200 MB each", ylabel="time, relative to one worker")
    ax.set_ylim(0, None)
    ax.set_title("Weak scaling on a machine with two cores: 1 would be perfect", fontsize=10, loc="left")
    ax.legend(frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
    plt.close(figure)


def main():
    try:
        import dask
        import dask.array as da
        import distributed
    except ImportError:
        print("dask is not installed: pip install 'ellzero[dask]'")
        return
    answers = {}
    for n in (1, 2, 3):
        answers[n] = measure(distributed, da, n)
        print(n, answers[n], flush=True)
    draw(answers)
    PAGE.write_text(page(answers, machine(dask, distributed)))
    print(f"written to {PAGE.name}")


def page(answers, where):
    """All of it in words."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---:|" * len(HEAD)]
    for n, a in answers.items():
        cells = [n, f"{8e-9 * ROWS * n * P:.1f}", a["parts"], f"{a['gradient']:.3f}"]
        cells += [f"{a['out']:.0f}", f"{a['in']:.0f}", f"{1e3 * a['round']:.0f}"]
        for name in ("auto", "logistic"):
            cells += [f"{a[name]['seconds']:.1f}", f"{a[name]['sweeps']}, {a[name]['rounds']}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    one, auto, p = answers[1], answers[3]["auto"], 10_000
    speed, each = 8 * ROWS * P / max(one["gradient"] - one["round"], 1e-9), one["out"] / one["parts"]
    paper = on_paper(100, 1e13, p, 50, speed, one["round"], each)
    return TEMPLATE.format(
        where=where, load=os.getloadavg()[1], gb=8e-9 * ROWS * 3 * P,
        what=__doc__.split("\n\n", 2)[2], table="\n".join(lines),
        rounds=auto["rounds"], sweeps=auto["sweeps"], out=auto["out"] / 1e6, back=auto["in"] / 1e6, each=each, p=p,
        rows=1e13 / (8 * p), speed=speed / 1e9, wait=1e3 * one["round"], parts=paper["parts"],
        paper_out=paper["out"] / 1e6, paper_back=paper["back"] / 1e6, between=paper["between"] / 1e9,
        compute=paper["compute"], send=paper["send"], run=auto["sweeps"] * (paper["compute"] + paper["send"]),
    )  # fmt: skip


TEMPLATE = """# On a cluster

`python -m benchmarks clusters`, on {where}
(load average {load:.1f}).

{what}
{table}

![Weak scaling](../docs/figures/weak_scaling.png)

With three workers a whole run of "auto" on {gb:.1f} GB took {rounds} rounds, in which {out:.2f} MB went out and
{back:.2f} MB came back. A gradient sends out the places and values of the nonzeros and the recipe of the slopes, about
{each:.0f} bytes for each part, and gets p numbers from each part back; from 17 parts on sums are added up on the
workers, and no more than 16 of them come back. Nothing of it grows with the number of rows.

## 100 workers and 10 TB, on paper

A calculation from what was measured above, not a measurement (`on_paper` in `benchmarks/clusters.py`). Assumed: 10 TB
of float64 with p = {p:,} columns ({rows:.3g} rows) in the memory of 100 workers with 16 threads each (100 GB a worker),
whose memory gives all of them together 100 GB/s, 10 Gbit/s, k = 50. Measured: {speed:.2f} GB/s of X a thread for a
gradient, and {wait:.0f} ms for a round without work, taken for every level of the tree that adds up the sums.

| of one gradient | |
|---|---:|
| parts, 8 a thread | {parts:,} |
| out of the client | {paper_out:.1f} MB |
| back to the client | {paper_back:.1f} MB |
| between workers, all together | {between:.2f} GB |
| computing | {compute:.1f} s |
| sending and waiting | {send:.2f} s |

A run of "auto" with {sweeps} sweeps would take about {run:.0f} s, plus its other rounds, on the kept columns. Left out
are: {parts:,} tasks a sweep keep Dask's scheduler busy for seconds (it handles some thousand tasks a second; fewer and
larger chunks help), stragglers, and reading the data once.
"""


if __name__ == "__main__":
    main()
