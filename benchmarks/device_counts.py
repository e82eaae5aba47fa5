"""What a run on a device asks of it, counted without one: this does not depend on the machine.

    python -m benchmarks device-counts              # torch on the host plays the device; 24 GB, 15 minutes of one core
    python -m benchmarks device-counts --small      # without 20000 x 100000

The problems are those of `benchmarks devices`: X standard normal in float32, k entries of w* are ±(1 to 2), noise 0.5,
seed 0. *Passes* are the numbers that kernels read and write, in shares of X: less than what a run takes in time, which
has its small kernels and the host's part, too. *Looks* are numbers or arrays that the host waits for; "IHT-2SP" looks
once in 0.03 s of steps, which here is nearly every one. Steps are counted as kernels, though a GPU plays many of them
as one recording (a CUDA graph).
"""

import platform
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import ellzero as ez
from ellzero._core import arrays

from .devices import make

PAGE = Path(__file__).with_name("DEVICE_COUNTS.md")
SHAPES = ((2000, 5000, 50), (5000, 20_000, 50), (20_000, 100_000, 100))
HEAD = ["shape", "k", "", "passes", "kernels", "looks", "numbers to the host, shares of X", "R"]
_VIEWS = (
    "t transpose view detach slice select as_strided unsqueeze expand permute alias lift_fresh squeeze unbind split"
)
_VIEWS = {*_VIEWS.split(), "_unsafe_view"}
_GATHERS, _LOOK = {"index", "index_select", "gather"}, "_local_scalar_dense"


def counted(torch, call, size):
    """Passes over so many bytes, kernels, looks and numbers that came to the host, of a call; and its answer."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    kernels, seen, moved = Counter(), [], 0

    def bytes_of(tensors):
        return sum(min(a.numel() * a.element_size(), a.untyped_storage().nbytes()) for a in tensors)

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal moved
            found, name = function(*args, **(kwargs or {})), function.overloadpacket.__name__
            if name not in _VIEWS:
                kernels[name] += 1
                made = [a for a in tree_leaves(found) if isinstance(a, torch.Tensor)]
                read = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
                # to gather is to read what is written
                moved += 2 * bytes_of(made) if name in _GATHERS else bytes_of(read) + bytes_of(made)
            return found

    numpy = torch.Tensor.numpy

    def fetched(self, *args, **kwargs):
        seen.append(self.numel())
        return numpy(self, *args, **kwargs)

    torch.Tensor.numpy = fetched
    try:
        with Count():
            answer = call()
    finally:
        torch.Tensor.numpy = numpy
    looks = kernels.pop(_LOOK, 0) + len(seen)
    return np.array([moved / size, sum(kernels.values()), looks, 4 * sum(seen) / size]), answer


def of_iterations(torch, risk, k, size, short=20, long=60):
    """The same for one iteration of "IHT-2SP"."""

    def run(n_iter):
        return counted(torch, lambda: ez.minimize(risk, k, None, "IHT-2SP", max_iter=n_iter, tol=0), size)

    few, (many, answer) = run(short)[0], run(long)
    return (many - few) / (long - short), answer


def rows_of(torch, n, d, k):
    """The rows of the table for one shape."""
    X, y = make(torch, "cpu", n, d, k)
    size, groups = 4 * n * d, np.arange(d) % (d // 10)
    risk = ez.risks.LeastSquares(X, y)
    assert risk.smoothness.value > 0  # known before the first step
    yield "IHT-2SP, an iteration", of_iterations(torch, risk, k, size)
    for name, loss, gamma in (
        ("auto", ez.risks.LeastSquares, None),
        ("auto, GroupWise(L1Ball(3))", ez.risks.LeastSquares, ez.sets.GroupWise(ez.sets.L1Ball(3.0), groups)),
        ("auto, logistic", ez.risks.Logistic, None),
    ):
        logistic = loss is ez.risks.Logistic
        target, ridge = (y.sign(), 0.01) if logistic else (y, 0.0)

        def fit(loss=loss, target=target, ridge=ridge, gamma=gamma):
            return ez.minimize(loss(X, target, ridge=ridge), k, gamma)

        yield name, counted(torch, fit, size)


def main(options=()):
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install 'ellzero[torch]'")
        return
    arrays._HOST = frozenset()  # from here on the host's tensors are those of a device
    torch.set_num_threads(1)
    ez.minimize(ez.risks.LeastSquares(*make(torch, "cpu", 300, 300, 5)), 5)
    lines = [f"| {' | '.join(HEAD)} |", "|---|---:|---|" + "---:|" * (len(HEAD) - 3)]
    for n, d, k in SHAPES[: 2 if "--small" in options else None]:
        for name, ((passes, kernels, looks, numbers), answer) in rows_of(torch, n, d, k):
            cells = [f"{n} x {d}", k, name, f"{passes:.2f}", f"{kernels:.0f}", f"{looks:.3g}", f"{numbers:.3%}"]
            lines.append(f"| {' | '.join(map(str, [*cells, f'{answer.fun:.6f}']))} |")
            print(lines[-1], flush=True)
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}"
    text = ["# What a device is asked for", "", f"`python -m benchmarks device-counts`, with {versions}.", ""]
    PAGE.write_text("\n".join([*text, __doc__.split("\n\n", 2)[2], *lines]) + "\n")
    print(f"written to {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
