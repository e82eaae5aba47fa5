"""The data of `benchmarks choosing`: real tables of scikit-learn and of ../shared/data, and one that is drawn."""

import csv
import gzip

import numpy as np

from .peers.environments import ROOT

DATA = ROOT.parent / "shared" / "data"
#: how often the rows are split for errors on rows that nobody has seen
DATASETS = {"diabetes": 5, "riboflavin": 5, "sp500": 5, "breast": 5, "alon": 5, "dna": 3, "digits": 3, "text": 3}
#: seconds, and times the l1 cross-validation in the same run; either will do
GOALS = {"drawn": (5.0, 2.0), "digits": (30.0, None), "text": (20.0, 8.0), "alon": (3.0, 2.0)}
ABOUT = {
    "drawn": "100000 x 100, drawn by `make_regression`, 10 columns matter",
    "diabetes": "442 x 10, progression of a disease",
    "riboflavin": "71 x 4088, vitamin production and genes",
    "sp500": "252 x 458, days of 2010: the index and its stocks",
    "breast": "569 x 30, two classes of cells",
    "alon": "62 x 2000, two classes of tissue",
    "dna": "3186 x 180, three classes of splice sites",
    "digits": "1797 x 64, ten digits",
    "text": "1993 x 4862, two newsgroups, sparse counts",
}


class Missing(Exception):
    """The data are not here."""


def load(name):
    """X, y, whether y holds classes, and whether columns are to be standardised."""
    from sklearn import datasets

    if name == "drawn":
        import ellzero as ez

        problem = ez.datasets.make_regression(100_000, 100, 10, correlation=0.5, snr=1.0)
        return problem.X, problem.y, False, False
    if name in ("diabetes", "breast", "digits"):
        read = {"diabetes": "load_diabetes", "breast": "load_breast_cancer", "digits": "load_digits"}[name]
        return *getattr(datasets, read)(return_X_y=True), name != "diabetes", True
    try:
        return shared(name)
    except FileNotFoundError as error:
        raise Missing(f"the data are not there: {error.filename}") from None


def shared(name):
    """From ../shared/data."""
    if name == "sp500":
        with gzip.open(DATA / "sp500_2010" / "returns.csv.gz", "rt") as file:
            rows = np.array([row[1:] for row in list(csv.reader(file))[1:]], dtype=float)
        return 100 * rows[:, 1:], 100 * rows[:, 0], False, True
    if name == "text":
        from scipy import sparse

        folder = DATA / "text_20ng_binary"
        X = sparse.load_npz(folder / "basehock_X.npz").astype(float).tocsr()
        return X, np.load(folder / "basehock_y.npy").astype(int), True, False
    place = {"riboflavin": "riboflavin", "alon": "gene_expression", "dna": "dna"}[name]
    found = np.load(DATA / place / f"{name}.npz")
    kind = float if name == "riboflavin" else int
    return found["X"].astype(float), found["y"].astype(kind), name != "riboflavin", name != "dna"
