"""Generators against their definitions and the shared problems; readers against real files and bad ones."""

import bz2
import dataclasses
import doctest
import functools
import gzip
import inspect
import itertools
import math
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear

from ellzero.datasets import (
    PROBLEMS,
    Market,
    diagonal_example,
    iht_counterexample,
    make_classification,
    make_market,
    make_regression,
    market,
    read_libsvm,
    read_prices,
    read_returns,
    read_sectors,
    read_table,
    readers,
)
from ellzero.datasets import problems as made

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


def message(*parts):
    """A pattern that finds the parts in this order."""
    return ".*".join(map(re.escape, map(str, parts)))


@pytest.fixture(scope="module")
def problems():
    """The module with the problems that the figures elsewhere are measured on."""
    path = SHARED / "problems.py"
    if not path.exists():
        pytest.skip(f"{path} is not here: nothing to compare the generators with")
    module = types.ModuleType("shared_problems")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def real_market(folder, name="prices.csv.gz", read=read_prices):
    path = SHARED / "data" / folder / name
    if not path.exists():
        pytest.skip(f"{path} is not here: the real market cannot be read")
    return read(path, sectors=path.parent / "sectors.csv")


@pytest.mark.parametrize("module", [market, made, readers])
def test_docstring_examples(module, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0


def test_import_is_light():
    """The module alone, without the package's own imports."""
    code = f"""
import sys, types
package = types.ModuleType("ellzero")
package.__path__ = [{str(ROOT / "src" / "ellzero")!r}]
sys.modules["ellzero"] = package
import ellzero.datasets
print([name for name in ("sklearn", "pandas", "matplotlib", "scipy.sparse") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- random problems ----


def assert_same_problem(ours, theirs):
    if sparse.issparse(theirs["X"]):
        assert ours.X.format == "csr"
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(ours.X, part), getattr(theirs["X"], part))
    else:
        np.testing.assert_array_equal(ours.X, theirs["X"])
    np.testing.assert_array_equal(ours.y, theirs["y"])
    np.testing.assert_array_equal(ours.truth, theirs["truth"])
    assert ours.k == theirs["k"]
    assert ours.kind == {"ls": "least-squares", "logistic": "logistic"}[theirs["kind"]]
    assert ours.nonnegative == (theirs.get("gamma") == "nonneg")


@pytest.mark.parametrize("name", ["P1", "P1b", "P2", "P3"])
def test_problems_are_the_shared_ones(problems, name):
    assert_same_problem(PROBLEMS[name](rng=1), problems.PROBLEMS[name](seed=1))


@pytest.mark.parametrize("seed", [0, 7])
def test_small_problems_are_the_shared_ones(problems, seed):
    """P1c and P5 take seconds in full: the same calls on small shapes, and their full shapes below."""
    assert_same_problem(make_regression(60, 90, 7, rng=seed), problems.gen_p1(60, 90, 7, seed=seed))
    ours = make_regression(200, 300, 10, density=0.05, rng=seed)
    assert_same_problem(ours, problems.gen_p5(200, 300, 10, 0.05, seed=seed))
    ours = make_regression(60, 90, 7, correlation=-0.3, snr=2.0, rng=seed)
    assert_same_problem(ours, problems.gen_p1(60, 90, 7, rho=-0.3, snr=2.0, seed=seed))


def test_large_problems_have_the_shared_shapes(problems, monkeypatch):
    calls = []
    monkeypatch.setattr(problems, "gen_p1", lambda *args, **kwargs: calls.append((args, kwargs)))
    problems.PROBLEMS["P1c"](seed=3)
    assert calls == [(PROBLEMS["P1c"].args, {"seed": 3})]
    assert PROBLEMS["P1c"].keywords == {}
    p5 = {name: p.default for name, p in inspect.signature(problems.gen_p5).parameters.items()}
    assert PROBLEMS["P5"].args == (p5["n"], p5["d"], p5["k"])
    assert PROBLEMS["P5"].keywords == {"density": p5["density"]}


def test_numbers_of_a_seed():
    """Pinned, so that results elsewhere keep their meaning even where the shared problems are not at hand."""
    problem = make_regression(3, 4, 2, correlation=0.5, rng=0)
    np.testing.assert_allclose(
        problem.X[0], [0.12573022109339, -0.051541057027041, 0.52885175592932, 0.35527204427916], rtol=1e-12
    )
    np.testing.assert_allclose(problem.y, [0.44554253776513, 1.9683742007999, 0.40820078877072], rtol=1e-12)


GENERATORS = {
    "regression": functools.partial(make_regression, 50, 40, 5),
    "correlated": functools.partial(make_regression, 50, 40, 5, correlation=0.8),
    "nonnegative": functools.partial(make_regression, 50, 40, 6, nonnegative=True),
    "sparse": functools.partial(make_regression, 50, 40, 5, density=0.2),
    "classification": functools.partial(make_classification, 50, 40, 5),
    "market": functools.partial(make_market, 30, 20, 4),
}


def arrays_of(made):
    values = (getattr(made, field.name) for field in dataclasses.fields(made))
    return [v.toarray() if sparse.issparse(v) else v for v in values if hasattr(v, "shape")]


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_a_seed_fixes_everything(make):
    once, again, generator, other = (arrays_of(make(rng=rng)) for rng in (3, 3, np.random.default_rng(3), 4))
    assert len(once) >= 3
    for a, b, c in zip(once, again, generator, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert not np.array_equal(once[0], other[0])
    assert not np.array_equal(once[1], other[1])


def test_regression_has_the_stated_statistics():
    problem = make_regression(4000, 30, 6, correlation=0.7, snr=4.0, rng=5)
    assert np.count_nonzero(problem.truth) == problem.k == 6
    size = np.abs(problem.truth[problem.truth != 0])
    assert size.min() >= 0.5 and size.max() <= 1.5
    lags = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    np.testing.assert_allclose(np.cov(problem.X.T), 0.7**lags, atol=0.12)
    signal = problem.X @ problem.truth
    assert np.var(signal) / np.var(problem.y - signal) == pytest.approx(4.0, rel=0.1)


def test_nonnegative_problem_has_a_constraint_that_binds():
    problem = make_regression(4000, 30, 9, nonnegative=True, rng=2)
    assert problem.nonnegative
    assert (problem.truth >= 0).all() and np.count_nonzero(problem.truth) == 9
    fit = np.linalg.lstsq(problem.X, problem.y, rcond=None)[0]
    assert np.count_nonzero(fit < -0.3) == 3


def test_sparse_problem_has_the_stated_density():
    X = make_regression(200, 100, 5, density=0.1, rng=0).X
    assert X.nnz == 2000 and X.shape == (200, 100)
    assert abs(X.data.mean()) < 0.1 and X.data.std() == pytest.approx(1.0, abs=0.1)


def test_classification_follows_the_logistic_model():
    problem = make_classification(20000, 10, 4, scale=1.0, rng=1)
    margin = problem.X @ problem.truth
    for low, high in [(-2, -1), (-0.5, 0.5), (1, 2)]:
        inside = (margin > low) & (margin < high)
        expected = np.mean(1 / (1 + np.exp(-margin[inside])))
        assert np.mean(problem.y[inside] == 1) == pytest.approx(expected, abs=0.03)
    assert np.abs(problem.truth).max() > np.abs(make_classification(5, 10, 4, rng=1).truth).max()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: make_regression(0, 5, 1), ValueError, "n must be at least 1, got n=0"),
        (lambda: make_regression(5, 2.5, 1), TypeError, "d must be an integer, got 2.5"),
        (lambda: make_regression(5, 5, -1), ValueError, "k must be at least 0, got k=-1"),
        (lambda: make_regression(5, 5, 6), ValueError, "k must be at most d=5, got k=6; take fewer"),
        (
            lambda: make_regression(5, 5, 5, nonnegative=True),
            ValueError,
            "k + k // 3 = 6 must be at most d=5, got k=5",
        ),
        (lambda: make_regression(5, 5, "2", nonnegative=True), TypeError, "k must be an integer"),
        (lambda: make_regression(5, 5, 1, correlation=1.0), ValueError, "correlation must lie in (-1, 1)"),
        (lambda: make_regression(5, 5, 1, snr=0), ValueError, "snr must lie in (0, inf)"),
        (lambda: make_regression(5, 5, 1, density=0.0), ValueError, "density must lie in (0, 1]"),
        (
            lambda: make_regression(5, 5, 1, density=0.5, correlation=0.2),
            ValueError,
            "correlation must be 0 where density < 1, got correlation=0.2",
        ),
        (lambda: make_classification(5, 5, 6), ValueError, "k must be at most d=5, got k=6"),
        (lambda: make_classification(5, 5, 1, scale=-1.0), ValueError, "scale must lie in (0, inf)"),
        (lambda: make_market(0), ValueError, "n_days must be at least 1, got n_days=0"),
        (lambda: make_market(5, 0), ValueError, "n_assets must be at least 1"),
        (lambda: make_market(5, 3, 4), ValueError, "n_sectors must be at most n_assets=3, got n_sectors=4"),
        (lambda: make_market(5, 3, 0), ValueError, "n_sectors must be at least 1"),
        (lambda: make_market(5, 3, 2, volatility=0), ValueError, "volatility must lie in (0, inf)"),
        (lambda: make_market(5, 3, 2, fee=-1e-5), ValueError, "fee must lie in [0, inf)"),
        (lambda: diagonal_example(s=0), ValueError, "s must be at least 1"),
        (lambda: diagonal_example(kappa=1.5), TypeError, "kappa must be an integer, got 1.5"),
        (lambda: diagonal_example(delta=0.25), ValueError, "delta must lie in [0, 0.25)"),
        (lambda: diagonal_example().optimum(3, radius=-1), ValueError, "radius must lie in [0, inf]"),
        (lambda: diagonal_example().optimum(-3), ValueError, "k must be at least 0"),
        (lambda: iht_counterexample(4, 2), ValueError, "k_bar must be at least 4, got k_bar=2"),
        (lambda: iht_counterexample(4, 5), ValueError, "k_bar must be even, got k_bar=5; take 6"),
        (lambda: iht_counterexample(3.3, 4), ValueError, "take kappa=(44/4)**0.5"),
        (
            lambda: iht_counterexample(2, 4),
            ValueError,
            "kappa must obey κ² >= 8, or no k is left; got kappa=2",
        ),
        (lambda: iht_counterexample(0, 4), ValueError, "kappa must lie in (0, inf)"),
        (lambda: iht_counterexample(4, 4).fixed_point(3), ValueError, "k_bar..κ²·k_bar/8 = 4..8, got k=3"),
        (lambda: iht_counterexample(4, 4).fixed_point(9), ValueError, "k_bar..κ²·k_bar/8 = 4..8, got k=9"),
        (lambda: iht_counterexample(4, 4).value(np.zeros(3)), ValueError, "w must have length 68, got 3"),
    ],
)
def test_bad_arguments_are_named(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()


# ---- the simulated market ----


@pytest.mark.parametrize("rng", range(4))
def test_market_looks_like_one(rng):
    market = make_market(rng=rng)
    returns = market.returns
    assert returns.shape == (500, 200)
    assert np.corrcoef(market.index_returns, returns.mean(axis=1))[0, 1] > 0.8
    volatility = returns.std(axis=0)
    assert volatility.min() > 0.01 and volatility.max() < 0.025
    assert 0.005 < market.index_returns.std() < 0.015  # diversified, but not away
    correlation = np.corrcoef(returns.T)
    same = market.sectors[:, None] == market.sectors
    within, across = correlation[same & ~np.eye(200, dtype=bool)].mean(), correlation[~same].mean()
    assert across > 0.2
    assert within > across + 0.05
    standard = (returns - returns.mean(axis=0)) / volatility
    assert np.mean(standard**4) > 3.4  # a normal distribution has 3
    assert returns.min() > -1


def test_market_index_is_the_weighted_sum():
    market, charged = make_market(rng=1), make_market(rng=1, fee=1e-5)
    np.testing.assert_array_equal(market.index_returns, market.returns @ market.weights)
    np.testing.assert_allclose(market.index_returns - charged.index_returns, 1e-5, rtol=1e-9)
    assert market.weights.sum() == pytest.approx(1.0)
    assert (market.weights > 0).all()
    largest = np.sort(market.weights)[::-1]
    np.testing.assert_allclose(largest / largest[0], np.arange(1, 201) ** -0.75)
    assert np.argmax(market.weights) != 0  # the order tells nothing


def test_market_labels():
    market = make_market(10, 30, 13)
    assert len(set(market.names.tolist())) == 30 and market.names[0] == "A01"
    assert len(set(market.sectors.tolist())) == 13
    assert {"Energy", "Sector 12", "Sector 13"} <= set(market.sectors.tolist())
    assert np.is_busday(market.dates).all() and (np.diff(market.dates) > np.timedelta64(0)).all()
    assert set(make_market(5, 4, 4).sectors.tolist()) == set(make_market(5, 40, 4).sectors.tolist())


def test_market_volatility_scales():
    assert make_market(volatility=0.032).returns.std() == pytest.approx(2 * make_market().returns.std(), rel=0.02)


def test_split_is_in_time_and_loses_nothing():
    market = make_market(503, 12, 3)
    train, test = market.split()
    assert len(train.returns) == 402 and len(test.returns) == 101
    assert train.dates[-1] < test.dates[0]
    for name in ("returns", "index_returns", "dates"):
        both = np.concatenate([getattr(train, name), getattr(test, name)])
        np.testing.assert_array_equal(both, getattr(market, name))
    for part in (train, test):
        for name in ("names", "sectors", "weights"):
            np.testing.assert_array_equal(getattr(part, name), getattr(market, name))
    assert len(make_market(100, 2, 1).split(0.29)[0].returns) == 29


def test_split_without_labels():
    bare = Market(np.zeros((5, 2)), np.zeros(5), np.array(["A", "B"]))
    train, test = bare.split(0.6)
    assert (len(train.returns), len(test.returns)) == (3, 2)
    assert train.dates is None and train.sectors is None and train.weights is None
    with pytest.raises(ValueError, match="since needs dates"):
        bare.since("2021-01-01")


def test_since():
    market = make_market(20, 3, 2)
    later = market.since("2021-01-09")  # a Saturday
    assert str(later.dates[0]) == "2021-01-11"
    np.testing.assert_array_equal(later.returns, market.returns[5:])
    assert len(market.since(market.dates[-1]).returns) == 1
    with pytest.raises(ValueError, match=message("date must not be after the last day", market.dates[-1])):
        market.since("2030-01-01")


@pytest.mark.parametrize("train", [0.0, 1.0, -0.5])
def test_split_share(train):
    with pytest.raises(ValueError, match=re.escape("train must lie in (0, 1)")):
        make_market(10, 3, 2).split(train)


def test_split_refuses_empty_parts():
    with pytest.raises(ValueError, match=re.escape("train=0.8 of 1 days leaves one part empty")):
        make_market(1, 3, 2).split()


def test_market_is_frozen_and_checks_shapes():
    market = make_market(6, 3, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        market.returns = None
    for name in ("index_returns", "names", "sectors", "dates", "weights"):
        with pytest.raises(ValueError, match=f"{name} must have shape"):
            dataclasses.replace(market, **{name: getattr(market, name)[1:]})
    with pytest.raises(ValueError, match="returns must be two-dimensional"):
        dataclasses.replace(market, returns=market.index_returns)


# ---- the two examples with known answers ----


def test_diagonal_example_is_the_papers():
    example = diagonal_example()
    assert example.X.shape == (350, 350) and example.y.shape == (350,)
    np.testing.assert_array_equal(example.X, np.diag(np.diagonal(example.X)))
    x = np.diagonal(example.X)
    np.testing.assert_allclose(x[[0, 49, 50, 149, 150, 349]], [1, 1, 2**0.5, 2**0.5, 1, 1])
    expected = [2 * 0.9996**0.5, 2 * 0.9996**0.5, (2 * 0.9998) ** 0.5, (2 * 0.9998) ** 0.5, 1, 1]
    np.testing.assert_allclose(example.y[[0, 49, 50, 149, 150, 349]], expected)
    assert example.optimum(0)[1] == pytest.approx(1.714, abs=1e-3)
    curvature = np.linalg.eigvalsh(2 * example.X.T @ example.X / 350)
    assert curvature[-1] == pytest.approx(example.smoothness)
    assert curvature[0] == pytest.approx(example.strong_convexity)


@pytest.mark.parametrize("k", [25, 50, 100, 150])
def test_diagonal_example_is_the_shared_one(problems, k):
    theirs, example = problems.gen_p6(k), diagonal_example()
    np.testing.assert_allclose(example.X, theirs["X"], rtol=1e-15)
    np.testing.assert_allclose(example.y, theirs["y"], rtol=1e-15)
    assert example.optimum(k)[1] == pytest.approx(theirs["optimum"], rel=1e-13)


@pytest.mark.parametrize("delta", [0.01, 0.16])  # at 0.16 the largest y is not always the largest gain
@pytest.mark.parametrize("radius", [0.1, 0.5, 1.0, 2.0, math.inf])
def test_diagonal_optimum_against_every_support(radius, delta):
    example = diagonal_example(s=1, kappa=2, delta=delta)
    n = example.y.size
    for k in range(n + 1):
        w, value = example.optimum(k, radius)
        assert np.count_nonzero(w) == k and np.abs(w).max() <= radius
        assert value == pytest.approx(np.mean((example.X @ w - example.y) ** 2), rel=1e-14)
        if k not in (1, 2, 4):
            continue
        best = min(
            2 * lsq_linear(example.X[:, S], example.y, (-radius, radius), tol=1e-12).cost / n
            for S in itertools.combinations(range(n), k)
        )
        assert value == pytest.approx(best, rel=1e-7)


def test_diagonal_optimum_limits():
    example = diagonal_example(s=2)
    assert not example.optimum(3, radius=0.0)[0].any()
    w, value = example.optimum(1000)
    assert value == pytest.approx(0.0, abs=1e-30) and w.all()
    np.testing.assert_array_equal(np.flatnonzero(example.optimum(1)[0]), [0])  # ties: lowest index


@pytest.mark.parametrize(("kappa", "k_bar", "k"), [(4, 4, 4), (4, 4, 8), (3, 8, 9), (math.sqrt(8), 4, 4), (10, 6, 70)])
def test_iht_stays_at_the_bad_point(kappa, k_bar, k):
    example = iht_counterexample(kappa, k_bar)
    w, d = example.fixed_point(k), example.b.size
    assert d == k_bar + round(kappa**2 * k_bar) and np.count_nonzero(w) == k
    np.testing.assert_array_equal(example.A, np.diag([kappa] + [1.0] * (d - 1)))
    for step in (1 / (2 * kappa), 0.999 / kappa):
        moved = w - step * example.A @ (w - example.b)
        kept = np.argsort(-np.abs(moved), kind="stable")[:k]
        thresholded = np.zeros(d)
        thresholded[kept] = moved[kept]
        np.testing.assert_allclose(thresholded, w, atol=1e-15)
    assert np.count_nonzero(example.reference) == k_bar
    np.testing.assert_array_equal(example.reference[:k_bar], example.b[:k_bar])
    assert example.value(w) >= example.value(example.reference) + kappa**2 * k_bar / 16 - 1e-9
    difference = w - example.b
    assert example.value(w) == pytest.approx(0.5 * difference @ example.A @ difference)


# ---- reading files ----


@pytest.mark.parametrize(
    ("folder", "n_days", "n_assets", "n_sectors", "correlation"),
    [
        ("sp500_2021_2022", 503, 501, 11, 0.959),
        ("hsi_2021_2022", 493, 79, 4, 0.966),
        ("csi300_2021_2022", 485, 288, 11, 0.958),
    ],
)
def test_real_prices(folder, n_days, n_assets, n_sectors, correlation):
    market = real_market(folder)
    assert market.returns.shape == (n_days, n_assets)
    assert np.isfinite(market.returns).all() and np.isfinite(market.index_returns).all()
    assert market.names.shape == (n_assets,) and len(set(market.sectors.tolist())) == n_sectors
    assert str(market.dates[0]) == "2021-01-04" and str(market.dates[-1]) == "2022-12-30"
    measured = np.corrcoef(market.index_returns, market.returns.mean(axis=1))[0, 1]
    assert measured == pytest.approx(correlation, abs=6e-4)  # the figure in the folder's README


def test_real_prices_by_hand():
    market = real_market("sp500_2021_2022")
    assert market.index_returns[0] == pytest.approx(3700.65 / 3756.07 - 1)
    assert market.names[0] == "MMM" and market.sectors[0] == "Industrials"
    assert market.returns[0, 0] == pytest.approx(148.234 / 150.752 - 1)


def test_real_returns_with_blank_sectors():
    market = real_market("sp500_2010", "returns.csv.gz", read_returns)
    assert market.returns.shape == (252, 386)
    assert market.index_returns[0] == pytest.approx(0.016043404)
    assert np.count_nonzero(market.sectors == "Unknown") == 5


def prices_text(market):
    """The market as a CSV file of prices that start at 100."""
    all_returns = np.column_stack([market.index_returns, market.returns])
    prices = 100 * np.vstack([np.ones(all_returns.shape[1]), np.cumprod(1 + all_returns, axis=0)])
    days = [market.dates[0] - np.timedelta64(1), *market.dates]
    lines = ["date,INDEX," + ",".join(market.names)]
    lines += [f"{day}," + ",".join(map(repr, row.tolist())) for day, row in zip(days, prices, strict=True)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_prices_round_trip(tmp_path, suffix):
    market = make_market(40, 15, 4)
    path, sectors = tmp_path / f"prices.csv{suffix}", tmp_path / "sectors.csv"
    compress = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    path.write_bytes(compress(prices_text(market).encode()))
    rows = zip(market.names, market.sectors, strict=True)
    sectors.write_text("symbol,name,sector\n" + "".join(f'{n},"Name, Inc.",{s}\n' for n, s in rows))
    read = read_prices(str(path), sectors=sectors)
    np.testing.assert_allclose(read.returns, market.returns, atol=1e-14)
    np.testing.assert_allclose(read.index_returns, market.index_returns, atol=1e-14)
    for name in ("names", "sectors", "dates"):
        np.testing.assert_array_equal(getattr(read, name), getattr(market, name))
    assert read.weights is None


PRICES = "date,INDEX,AAA,BBB\n2024-01-02,100,50,8\n2024-01-03,101,51,8\n2024-01-04,102,51,10\n"


@pytest.fixture
def write(tmp_path):
    """Writes a text (or bytes) into a new file and returns its path."""

    def _write(content, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


def test_index_by_name(write):
    market = read_prices(write(PRICES), index="BBB")
    assert market.names.tolist() == ["INDEX", "AAA"] and market.sectors is None
    np.testing.assert_allclose(market.index_returns, [0.0, 0.25])
    np.testing.assert_allclose(market.returns, [[0.01, 0.02], [102 / 101 - 1, 0.0]])


def test_prices_as_other_programs_write_them(write):
    """A byte order mark, no name over the dates, spaces, CRLF, blank lines, quotes, times and time zones."""
    text = '\ufeff, INDEX ,AAA\n2024-01-02 00:00:00-05:00, 100,50\n\n2024-01-03 00:00:00-05:00,101,"51"\n'
    text = text.replace("\n", "\r\n")
    market = read_prices(write(text))
    np.testing.assert_allclose(market.returns, [[0.02]])
    assert market.names.tolist() == ["AAA"] and str(market.dates[0]) == "2024-01-03"
    hourly = read_returns(write("time,INDEX,AAA\n2024-01-02T09:30,0.1,0.2\n2024-01-02T10:30,0.1,0.2\n"))
    assert str(hourly.dates[1]) == "2024-01-02T10:30:00"
    assert read_sectors(write("\ufeffsymbol,sector\nA,Energy\n")) == {"A": "Energy"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["file.csv, line 1: the header row is missing"]),
        ("date\n2024-01-02\n", ["file.csv, line 1: the header must name the dates and the series"]),
        ("date,INDEX,AAA\n", ["file.csv: no rows below the header"]),
        ("date,INDEX,AAA\n2024-01-02,1,2\n", ["file.csv: one return needs two prices, got 1 row"]),
        ("date,INDEX\n2024-01-02,1\n2024-01-03,1\n", ["file.csv: 'INDEX', the index, is the only column"]),
        (PRICES.replace("51,8", "51,x8"), ["file.csv, line 3, column 'BBB': 'x8' is not a number; write it"]),
        (PRICES.replace("51,8", ",8"), ["file.csv, line 3, column 'AAA': missing value ''; fill it in"]),
        (PRICES.replace("51,8", "NaN,8"), ["file.csv, line 3, column 'AAA': missing value 'NaN'"]),
        (PRICES.replace("51,8", "51,n/a"), ["file.csv, line 3, column 'BBB': missing value 'n/a'"]),
        (PRICES.replace("101", "inf"), ["file.csv, line 3, column 'INDEX': 'inf' is not finite"]),
        (PRICES.replace("51,8", "51,0"), ["file.csv, line 3, column 'BBB': a price must be above 0, got 0"]),
        (
            PRICES.replace("101", "-101"),
            ["file.csv, line 3, column 'INDEX': a price must be above 0, got -101"],
        ),
        (PRICES.replace("51,8", "51"), ["file.csv, line 3: 3 cells under a header of 4 columns"]),
        (PRICES.replace("51,8", "51,8,9"), ["file.csv, line 3: 5 cells under a header of 4 columns"]),
        (PRICES.replace("\n2024-01-03,101,51,8", "\n\n2024-01-03,101,51"), ["file.csv, line 4: 3 cells"]),
        (PRICES.replace("BBB", "AAA"), ["file.csv, line 1, column 4: the name 'AAA' is taken"]),
        (PRICES.replace("BBB", ""), ["file.csv, line 1, column 4: the column has no name"]),
        (
            PRICES.replace("2024-01-03", "3 Jan"),
            ["file.csv, line 3, column 'date': '3 Jan' is not a date", "YYYY"],
        ),
        (
            PRICES.replace("2024-01-03", "2024-01-02"),
            ["file.csv, line 3, column 'date'", "does not come after"],
        ),
        (PRICES.replace("2024-01-04", "2023-01-04"), ["file.csv, line 4, column 'date'", "sort by date"]),
        (b"date,INDEX,AAA\n2024-01-02,1,\xff\n", ["file.csv: not readable as UTF-8 text"]),
    ],
)
def test_bad_prices_are_located(write, text, parts):
    with pytest.raises(ValueError, match=message(*parts)):
        read_prices(write(text))


def test_returns_may_be_negative_or_a_single_day(write):
    text = "date,INDEX,AAA\n2024-01-02,-0.1,0\n"
    np.testing.assert_array_equal(read_returns(write(text)).index_returns, [-0.1])
    with pytest.raises(ValueError, match=message("line 2, column 'AAA': missing value '-'")):
        read_returns(write(text.replace(",0\n", ",-\n")))


def test_unknown_index_column(write):
    with pytest.raises(ValueError, match=message("has no column 'SPX'; its columns are 'INDEX', 'AAA', 'BBB'")):
        read_prices(write(PRICES), index="SPX")
    wide = make_market(3, 20, 2)
    with pytest.raises(ValueError, match=message("'INDEX', 'A01'", "'A07' and 13 more")):
        read_prices(write(prices_text(wide)), index="SPX")


def test_files_that_are_not_there_or_broken(tmp_path, write):
    for read in (read_prices, read_returns, read_sectors, read_libsvm):
        with pytest.raises(FileNotFoundError, match=re.escape("nowhere.csv")):
            read(tmp_path / "nowhere.csv")
    for content in (PRICES.encode(), gzip.compress(PRICES.encode())[:-12]):
        with pytest.raises(ValueError, match=re.escape("broken.csv.gz: not readable")):
            read_prices(write(content, "broken.csv.gz"))


def test_sectors_must_cover_the_assets(write):
    path = write(PRICES)
    assert read_prices(path, sectors={"AAA": "x", "BBB": "y", "INDEX": "z"}).sectors.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match=message("sectors must name a sector for every asset", "none for 'BBB'")):
        read_prices(path, sectors={"AAA": "x"})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("symbol,name\nA,Alpha\n", ["file.csv has no column 'sector'; its columns are 'symbol', 'name'"]),
        ("ticker,sector\nA,Energy\n", ["file.csv has no column 'symbol'"]),
        ("symbol,sector\nA,x\nA,y\n", ["file.csv, line 3, column 'symbol': 'A' has a sector already"]),
        ("symbol,sector\n,x\n", ["file.csv, line 2, column 'symbol': the cell is blank"]),
        ("symbol,sector\nA\n", ["file.csv, line 2: 1 cells under a header of 2 columns"]),
    ],
)
def test_bad_sectors_are_located(write, text, parts):
    with pytest.raises(ValueError, match=message(*parts)):
        read_sectors(write(text))


def test_table_round_trip(tmp_path):
    problem = make_regression(20, 6, 2, rng=1)
    path = tmp_path / "table.csv.gz"
    table = np.column_stack([problem.X[:, :2], problem.y, problem.X[:, 2:]])
    with gzip.open(path, "wt") as file:
        np.savetxt(file, table, fmt="%.17g", delimiter=",", header="a,b,target,c,d,e,f", comments="")
    X, y, names = read_table(path, "target")
    np.testing.assert_array_equal(X, problem.X)
    np.testing.assert_array_equal(y, problem.y)
    assert names == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b\n1,2\n", ["file.csv has no column 'y'; its columns are 'a', 'b'"]),
        ("a,y\n", ["file.csv: no rows below the header"]),
        ("y\n1\n", ["file.csv: 'y' is the only column"]),
        ("a,y\n1,2\nred,3\n", ["file.csv, line 3, column 'a': 'red' is not a number"]),
        ("a,y\n1,\n", ["file.csv, line 2, column 'y': missing value; fill it in"]),
        ("a,y,a\n1,2,3\n", ["file.csv, line 1, column 3: the name 'a' is taken"]),
    ],
)
def test_bad_tables_are_located(write, text, parts):
    with pytest.raises(ValueError, match=message(*parts)):
        read_table(write(text), "y")


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_libsvm_round_trip(tmp_path, suffix):
    problem = make_regression(30, 12, 3, density=0.3, rng=2)
    lines = []
    for row, label in zip(problem.X.toarray().tolist(), problem.y.tolist(), strict=True):
        lines.append(" ".join([repr(label)] + [f"{j}:{v!r}" for j, v in enumerate(row, 1) if v]) + " # row\n")
    path = tmp_path / f"data.svm{suffix}"
    compress = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    path.write_bytes(compress("".join(lines).encode()))
    X, y = read_libsvm(path, n_features=15)
    assert X.format == "csr" and X.shape == (30, 15)
    np.testing.assert_array_equal(X.toarray()[:, :12], problem.X.toarray())
    np.testing.assert_array_equal(y, problem.y)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["file.csv: no rows"]),
        ("1 1:2\nred 1:3\n", ["file.csv, line 2: cannot read 'red'", "'label index:value"]),
        ("1 1:2\n\n# note\n1 2:3 4:x\n", ["file.csv, line 4: cannot read '4:x'"]),
        ("1 1:2 7\n", ["file.csv, line 1: cannot read '7'"]),
        ("1 3:1 2:1\n", ["file.csv, line 1: cannot read '2:1'", "increasing indices"]),
        ("1 qid:3 2:1 2:1\n", ["file.csv, line 1: cannot read '2:1'"]),
        ("1 -1:1\n", ["file.csv, line 1: cannot read '-1:1'", "at least 0"]),
        ("1,2 1:1\n", ["file.csv, line 1: cannot read '1,2'"]),
        ("1 1:1\n1 1:nan\n", ["file.csv, line 2: cannot read '1:nan'", "finite"]),
        ("1 1:1\ninf 1:1\n", ["file.csv, line 2: cannot read 'inf'"]),
        (b"\xff 1:1\n", ["file.csv: not readable as UTF-8"]),
    ],
)
def test_bad_libsvm_is_located(write, text, parts):
    with pytest.raises(ValueError, match=message(*parts)):
        read_libsvm(write(text))


def test_libsvm_n_features(write):
    path = write("1 1:1 5:2\n")
    with pytest.raises(ValueError, match=message("n_features must be at least 5", "got n_features=4")):
        read_libsvm(path, n_features=4)
    with pytest.raises(ValueError, match=re.escape("n_features must be at least 1, got n_features=0")):
        read_libsvm(path, n_features=0)
    assert read_libsvm(path, n_features=5)[0].shape == read_libsvm(path)[0].shape == (1, 5)
