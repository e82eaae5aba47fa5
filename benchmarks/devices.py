"""What a GPU costs and gains: passes over the data, crossover with the host, memory.

    python -m benchmarks devices              # with an accelerator that torch sees; about two minutes on an H200
    python -m benchmarks devices --no-host    # without the run of NumPy at 8 GB
    python -m benchmarks devices --only structure    # groups, quotas, rows and ranks alone, beside the rest of the page
    python -m benchmarks devices --to out            # the page goes into this folder

X is standard normal in float32, k entries of w* are ±(1 to 2), noise 0.5, seed 0. One pass is the time of `X.T @ r` in
the same run. Limits: "IHT-2SP" 1.15 passes an iteration at 8 and 40 GB and 0.15 ms an iteration at 2000 x 5000; "auto"
60 passes at 8 and 40 GB, with and without a GroupWise Γ; logistic regression 150. At 8 GB the support is the one that
NumPy finds in float64.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import ellzero as ez

PAGE = Path(__file__).with_name("DEVICES.md")
LARGE = ((2000, 5000, 50), (20000, 100_000, 100), (100_000, 100_000, 100))
HEAD = [
    "shape",
    "k",
    "GB",
    "a pass, ms",
    "IHT-2SP, passes an iteration",
    "ms",
    "naive torch loop, passes",
    "auto, passes",
]
HEAD += ["with GroupWise", "logistic", "memory beside X"]
CROSSOVER = ((500, 500, 10), (1000, 2000, 20), (2000, 5000, 50), (5000, 20_000, 50), (10_000, 50_000, 100))


def make(torch, device, n, d, k):
    """The problem, made where it is used."""
    g = torch.Generator(device=device).manual_seed(0)
    X = torch.randn(n, d, generator=g, device=device)
    w = torch.zeros(d, device=device)
    index = torch.randperm(d, generator=g, device=device)[:k]
    w[index] = torch.randn(k, generator=g, device=device).sign() * (1 + torch.rand(k, generator=g, device=device))
    return X, X @ w + 0.5 * torch.randn(n, generator=g, device=device)


class Clock:
    """Seconds until the device has finished."""

    def __init__(self, torch, device):
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def __call__(self, f, repeat=1):
        times = []
        for _ in range(repeat):
            self.wait()
            start = time.perf_counter()
            answer = f()
            self.wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times), answer


def naive(torch, X, y, k, step, n_iter):
    """IHT as one writes it in torch: what our loop is measured against."""
    w = torch.zeros(X.shape[1], device=X.device)
    index = torch.zeros(0, dtype=torch.int64, device=X.device)
    for _ in range(n_iter):
        r = X[:, index] @ w[index] - y
        v = w - step * (2 / len(y)) * (X.T @ r)
        index = v.abs().topk(k).indices
        w = torch.zeros_like(w)
        w[index] = v[index]
    return w


def measure(torch, device, n, d, k, clock):
    """One row of the table of passes, and the support found."""
    X, y = make(torch, device, n, d, k)
    r = torch.randn(n, device=device)
    one_pass = clock(lambda: X.T @ r, 9)[0]
    risk = ez.risks.LeastSquares(X, y)
    step = 1 / risk.smoothness.value
    short, long = (50, 250) if n * d > 10**8 else (300, 2300)

    def iht(m):
        return ez.minimize(risk, k, None, "IHT-2SP", max_iter=m, tol=0)

    iht(short), naive(torch, X, y, k, step, 5)
    iteration = (clock(lambda: iht(long))[0] - clock(lambda: iht(short))[0]) / (long - short)
    plain = (clock(lambda: naive(torch, X, y, k, step, 60))[0] - clock(lambda: naive(torch, X, y, k, step, 10))[0]) / 50
    groups = np.arange(d) % (d // 10)
    rows = {}
    for name, gamma, loss in (
        ("auto", None, ez.risks.LeastSquares),
        ("auto, GroupWise(L1Ball(3))", ez.sets.GroupWise(ez.sets.L1Ball(3.0), groups), ez.risks.LeastSquares),
        ("auto, logistic", None, ez.risks.Logistic),
    ):
        target = y.sign() if loss is ez.risks.Logistic else y
        ridge = 0.01 if loss is ez.risks.Logistic else 0.0

        def fit(loss=loss, target=target, ridge=ridge, gamma=gamma):
            return ez.minimize(loss(X, target, ridge=ridge), k, gamma)

        rows[name] = clock(fit, 3)
    supports = {name: result.support for name, (_, result) in rows.items()}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        ez.minimize(ez.risks.LeastSquares(X, y), k)
        more = (torch.cuda.max_memory_allocated() - held) / (4 * n * d)
    else:
        more = float("nan")
    cells = [f"{n} x {d}", k, f"{4e-9 * n * d:.2g}", f"{1e3 * one_pass:.3f}", f"{iteration / one_pass:.2f}"]
    cells += [f"{1e3 * iteration:.3f}", f"{plain / one_pass:.2f}", *(f"{t / one_pass:.0f}" for t, _ in rows.values())]
    line = f"| {' | '.join(map(str, [*cells, f'{more:.0%}']))} |"
    return line, supports, (X, y)


def crossover(torch, device, clock):
    """Seconds of "auto" on the host and on the device, for shapes that grow."""
    lines = ["| shape | k | NumPy float32, ms | device, ms | gain |", "|---|---:|---:|---:|---:|"]
    for n, d, k in CROSSOVER:
        X, y = make(torch, device, n, d, k)
        there = clock(lambda X=X, y=y, k=k: ez.minimize(ez.risks.LeastSquares(X, y), k), 5)[0]
        Xh, yh = X.cpu().numpy(), y.cpu().numpy()
        here = clock(lambda X=Xh, y=yh, k=k: ez.minimize(ez.risks.LeastSquares(X, y), k), 3)[0]
        lines.append(f"| {n} x {d} | {k} | {1e3 * here:.1f} | {1e3 * there:.1f} | {here / there:.1f} x |")
        print(lines[-1], flush=True)
    return lines


STRUCTURE = "## Groups, quotas, rows and ranks"
SHAPES = ((2000, 5000, 5), (5000, 20_000, 10), (20_000, 100_000, 10))  # rows, columns, groups of ten columns


def structures(torch, X, k):
    """What is counted, the coefficients that are to be found, and its words: k groups, or ten features for each."""
    d, device, g = X.shape[1], X.device, torch.Generator(device=X.device).manual_seed(1)
    groups, m = np.arange(d) // 10, int(np.sqrt(d))
    while d % m:
        m -= 1
    whole, few, many = (torch.zeros(d, c, device=device) for c in (1, 1, 3))
    chosen = 10 * torch.randperm(d // 10, generator=g, device=device)
    whole[chosen[:k, None] + torch.arange(10, device=device)] = torch.randn(k, 10, 1, generator=g, device=device)
    few[chosen[: 5 * k, None] + torch.arange(2, device=device)] = torch.randn(5 * k, 2, 1, generator=g, device=device)
    many[chosen[: 10 * k]] = torch.randn(10 * k, 3, generator=g, device=device)
    low = torch.randn(m, 3, generator=g, device=device) @ torch.randn(3, d // m, generator=g, device=device)
    yield f"Groups, {k} of ten columns", ez.sparsity.Groups(k, groups), whole
    yield f"PerGroup, {10 * k}, two of each", ez.sparsity.PerGroup(10 * k, groups, 2), few
    yield f"Rows, {10 * k}, three targets", ez.sparsity.Rows(10 * k), many
    yield f"Rank, 3 of {m} x {d // m}", ez.sparsity.Rank(3, (m, d // m)), low.reshape(-1, 1) / d**0.5


def structure(torch, device, clock, shapes=SHAPES, host=10**8):
    """Passes of "auto" for other sparsities, and what comes to the host; NumPy beside it where X is not too large."""
    lines = [
        "| shape | counted | passes | ms | NumPy, ms | numbers to the host, shares of X | R beside that of NumPy |"
    ]
    lines += ["|---|---|---:|---:|---:|---:|---:|"]
    numpy, seen = torch.Tensor.numpy, []

    def counted(self, *args, **kwargs):
        seen.append(self.numel())
        return numpy(self, *args, **kwargs)

    for n, d, k in shapes:
        X, _ = make(torch, device, n, d, 1)
        r = torch.randn(n, device=device)
        one_pass = clock(lambda X=X, r=r: X.T @ r, 9)[0]
        for words, sparsity, w in structures(torch, X, k):
            noise = torch.randn(n, w.shape[1], generator=torch.Generator(device=device).manual_seed(2), device=device)
            Y = X @ w + 0.5 * noise
            y = Y[:, 0] if Y.shape[1] == 1 else Y

            def fit(X=X, y=y, k=sparsity):
                return ez.minimize(ez.risks.LeastSquares(X, y), k)

            fit()
            seconds, res = clock(fit, 3)
            torch.Tensor.numpy = counted
            seen.clear()
            fit()
            torch.Tensor.numpy = numpy
            cells = [f"{n} x {d}", words, f"{seconds / one_pass:.0f}", f"{1e3 * seconds:.0f}"]
            here, off = "", ""
            if n * d <= host:
                Xh, yh = X.cpu().numpy(), y.cpu().numpy()
                took, found = clock(lambda X=Xh, y=yh, fit=fit: fit(X, y))
                here, off = f"{1e3 * took:.0f}", f"{res.fun / found.fun - 1:+.1e}"
            lines.append(f"| {' | '.join([*cells, here, f'{sum(seen) / (n * d):.2%}', off])} |")
            print(lines[-1], flush=True)
    return [STRUCTURE, "", "k groups of ten columns; quotas, rows and ranks as said. Noise 0.5.", "", *lines]


def write(text, folder):
    out = Path(folder) / PAGE.name
    out.write_text(text.rstrip() + "\n")
    print(f"written to {out.name}")


def main(options=()):
    parser = argparse.ArgumentParser(prog="python -m benchmarks devices")
    parser.add_argument("--only", choices=("structure",))
    parser.add_argument("--no-host", action="store_true")
    parser.add_argument("--to", metavar="FOLDER", default=PAGE.parent)
    asked = parser.parse_args(list(options))
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install 'ellzero[torch]'")
        return
    if not torch.cuda.is_available():
        print("torch sees no accelerator on this machine; benchmarks/DEVICES.md tells what one gave")
        return
    device, clock = "cuda", Clock(torch, "cuda")
    ez.minimize(ez.risks.LeastSquares(*make(torch, device, 300, 300, 5)), 5)  # what a first call sets up
    if asked.only:
        lines = structure(torch, device, clock)
        write(PAGE.read_text().split(STRUCTURE)[0] + "\n".join(lines), asked.to)
        return
    lines = [f"| {' | '.join(HEAD)} |", "|---|" + "---:|" * (len(HEAD) - 1)]
    same = ""
    for n, d, k in LARGE:
        line, supports, (X, y) = measure(torch, device, n, d, k, clock)
        print(line, flush=True)
        lines.append(line)
        if (n, d) == (20000, 100_000) and not asked.no_host:
            host = ez.risks.LeastSquares(X.double().cpu().numpy(), y.double().cpu().numpy())
            alike = np.array_equal(ez.minimize(host, k).support, supports["auto"])
            same = f"At {n} x {d} NumPy in float64 finds {'the same' if alike else 'ANOTHER'} support."
            print(same, flush=True)
        del X, y
        torch.cuda.empty_cache()
    table = [*crossover(torch, device, clock), "", *structure(torch, device, clock)]
    machine = f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
    machine += f"torch {torch.__version__}, NumPy {np.__version__}"
    text = f"# On a device\n\n`python -m benchmarks devices`, on {machine}.\n\n{__doc__.split(chr(10) * 2, 2)[2]}\n"
    text += (
        "\n".join(lines)
        + f'\n\n{same}\n\n## Where the device begins to pay\n\nOne call of "auto", the risk made anew.\n\n'
    )
    write(text + "\n".join(table), asked.to)


if __name__ == "__main__":
    main(sys.argv[1:])
