"""Problems to try things on: seeded random ones, two with a known answer, dna, and readers for your own files."""

from .dna import Classification, load_dna
from .download import fetch, fetch_dna
from .market import Market, make_market
from .problems import (
    PROBLEMS,
    Dataset,
    DiagonalExample,
    IHTCounterexample,
    diagonal_example,
    iht_counterexample,
    make_classification,
    make_regression,
)
from .readers import read_libsvm, read_prices, read_returns, read_sectors
from .tables import read_table

__all__ = [
    "PROBLEMS",
    "Classification",
    "Dataset",
    "DiagonalExample",
    "IHTCounterexample",
    "Market",
    "diagonal_example",
    "fetch",
    "fetch_dna",
    "iht_counterexample",
    "load_dna",
    "make_classification",
    "make_market",
    "make_regression",
    "read_libsvm",
    "read_prices",
    "read_returns",
    "read_sectors",
    "read_table",
]
