"""On what: seeded random problems, the diagonal example, and real data where it is there."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

from .objective import Objective

DATA = Path(__file__).parents[3] / "shared" / "data"


class Missing(Exception):
    """The files of a data set are not there."""


@dataclass(frozen=True)
class Dataset:
    """A problem by its name."""

    name: str
    title: str
    make: Callable[[int], Objective]
    seeds: tuple[int, ...] = (0,)

    def get_data(self, seed):
        """The problem with this seed."""
        return self.make(seed)


def random_problem(name, seed):
    from ellzero.datasets import PROBLEMS

    p = PROBLEMS[name](rng=seed)
    return Objective(p.X, p.y, p.k, p.kind, p.truth, p.nonnegative)


def diagonal(k, seed):
    from ellzero.datasets import diagonal_example

    example = diagonal_example()
    return Objective(example.X, example.y, k, truth=example.optimum(k)[0])


def sp500(seed):
    from ellzero.datasets import read_prices

    folder = there("sp500_2021_2022")
    market = read_prices(folder / "prices.csv.gz", sectors=folder / "sectors.csv")
    n = int(0.8 * len(market.returns))
    groups = np.unique(market.sectors, return_inverse=True)[1]
    return Objective(market.returns[:n], market.index_returns[:n], 15, groups=groups, cap=0.1, total=True)


def riboflavin(seed):
    with np.load(there("riboflavin") / "riboflavin.npz") as data:
        X, y = data["X"], data["y"]
    return Objective((X - X.mean(0)) / X.std(0), y - y.mean(), 10)


def basehock(seed):
    folder = there("text_20ng_binary")
    X = sparse.csr_array(sparse.load_npz(folder / "basehock_X.npz").astype(float))
    X.data[:] = 1.0
    return Objective(X, np.load(folder / "basehock_y.npy").astype(float), 50, "logistic")


def there(name):
    folder = DATA / name
    if not folder.is_dir():
        raise Missing(f"no folder {name} among the shared data")
    return folder


def _random(name, title, seeds=(0,)):
    return Dataset(name, title, partial(random_problem, name), seeds)


DATASETS = [
    _random("P1", "Gaussian 1000 x 5000, k = 50, signal-to-noise 10"),
    _random("P1b", "as P1, neighbouring columns correlated 0.9", (0, 1, 2)),
    _random("P1c", "Gaussian 5000 x 20000, k = 100"),
    _random("P2", "logistic, 2000 x 2000, columns correlated 0.5, k = 30"),
    _random("P3", "least squares with w >= 0, 1000 x 2000, k = 30; a quarter of the true coefficients is negative"),
    _random("P5", "sparse 20000 x 50000 (1% filled), k = 100"),
    *(
        Dataset(f"P6-{k}", f"the diagonal example, 350 x 350, k = {k}; the optimum is known", partial(diagonal, k))
        for k in (25, 50, 100, 150)
    ),
    Dataset(
        "sp500", "S&P 500 tracking, 402 days x 501 stocks, k = 15, sum of |w| at most 0.1 a sector; R is a sum", sp500
    ),
    Dataset("riboflavin", "riboflavin, 71 x 4088 standardised genes, k = 10", riboflavin),
    Dataset("basehock", "text, logistic, sparse 1993 x 4862 (words present or not), k = 50", basehock),
]


def save(objective, folder):
    """Write a problem for the workers."""
    plain = {f.name: getattr(objective, f.name) for f in fields(objective) if f.name != "X"}
    np.savez(folder / "rest.npz", **{name: value for name, value in plain.items() if value is not None})
    if sparse.issparse(objective.X):
        sparse.save_npz(folder / "X.npz", objective.X, compressed=False)
    else:
        np.save(folder / "X.npy", objective.X)


def load(folder):
    """Read what `save` wrote."""
    with np.load(folder / "rest.npz") as rest:
        plain = {name: rest[name] if rest[name].ndim else rest[name].item() for name in rest.files}
    if (folder / "X.npy").exists():
        return Objective(np.load(folder / "X.npy"), **plain)
    return Objective(sparse.csr_array(sparse.load_npz(folder / "X.npz")), **plain)
