"""How the suite runs, and a small market with an answer for it, where a test needs something to show."""

import hashlib
import os
import time

import pytest
from threadpoolctl import threadpool_limits

import ellzero as ez

if "PYTEST_XDIST_WORKER" in os.environ:  # as many processes as cores: more threads would stand in each other's way
    threadpool_limits(1)
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")  # of processes that a test starts


def pytest_addoption(parser):
    parser.addoption("--until", type=float, help="begin no test after this time (seconds since the epoch)")
    parser.addoption("--order", metavar="WORD", help="shuffle the tests, with another word in another way")


def pytest_collection_modifyitems(config, items):
    if order := config.getoption("order"):
        # cases of one function stay together: they share what their module prepares
        items.sort(key=lambda item: hashlib.sha256(f"{order} {item.nodeid.partition('[')[0]}".encode()).digest())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    until = item.config.getoption("until")
    if until is not None and time.time() > until:
        pytest.skip("the time for slow tests is over; make test-all runs all of them")


@pytest.fixture(scope="module")
def market():
    return ez.datasets.make_market(n_days=120, n_assets=30)


@pytest.fixture(scope="module")
def answer(market):
    train, _ = market.split()
    caps = ez.sets.GroupWise(ez.sets.L1Ball(0.2), groups=train.sectors)
    return ez.minimize(ez.risks.LeastSquares(train.returns, train.index_returns), 6, caps)


@pytest.fixture
def device(monkeypatch):
    """Tensors are on a device: those of the host do not count as its own, and none becomes a NumPy array unasked."""
    from on_device import DEVICE

    def refuse(self, *args):
        raise TypeError("a tensor on a device is no NumPy array")

    if DEVICE == "cpu":
        monkeypatch.setattr("ellzero._core.arrays._HOST", set())
    monkeypatch.setattr("torch.Tensor.__array__", refuse)
