"""Data that are larger than memory answer like those that are not, in one reading each, with two blocks in memory."""

import gc
import io
import itertools
import operator
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import ellzero as ez
from ellzero._core import memory as _memory
from ellzero.design import as_design, here, sources
from ellzero.design import blocks as _blocks
from ellzero.design.ahead import Progress, ahead
from ellzero.design.blocks import InFiles
from ellzero.design.by_row import ByRow
from ellzero.design.dense import Dense
from ellzero.testing import check_risk

N, P, ROWS = 57, 9, 10


@pytest.fixture(scope="module")
def A():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, P)) * (rng.random((N, P)) < 0.7)


def pairs(A, step=ROWS):
    return [(A[i : i + step], A[i : i + step, 0]) for i in range(0, len(A), step)]


class Again:
    """Can be iterated again and again, and has a length, but no items."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __len__(self):
        return len(self.blocks)

    def __iter__(self):
        return iter(self.blocks)


def npy(A, folder, order="C"):
    np.save(folder / f"X{order}.npy", np.asarray(A, order=order))
    return folder / f"X{order}.npy"


def parquet(A, folder, row_group=23):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({f"x{j}": column for j, column in enumerate(A.T)})
    pq.write_table(table, folder / "X.parquet", row_group_size=row_group)
    return folder / "X.parquet"


def zarr(A, folder):
    zarr = pytest.importorskip("zarr")
    X = zarr.create_array(str(folder / "X.zarr"), shape=A.shape, chunks=(4, 5), dtype=A.dtype)
    X[:] = A
    return X


SOURCES = {
    "file": npy,
    "file by columns": lambda A, tmp: npy(A, tmp, "F"),
    "slice of a map": lambda A, tmp: np.load(npy(np.vstack([A, A, A]), tmp), mmap_mode="r")[N : 2 * N],
    "columns of a map": lambda A, tmp: np.load(npy(np.hstack([A, A]), tmp), mmap_mode="r")[:, P:],
    "maps": lambda A, tmp: [np.load(npy(A, tmp), mmap_mode="r")[:20], np.load(npy(A, tmp), mmap_mode="r")[20:]],
    "other numbers": lambda A, tmp: np.load(npy(A.astype(">f8"), tmp), mmap_mode="r"),
    "pairs": lambda A, tmp: pairs(A),
    "no pairs": lambda A, tmp: [X for X, _ in pairs(A, 13)],
    "again": lambda A, tmp: Again(pairs(A)),
    "function": lambda A, tmp: lambda: iter(pairs(A)),
    "sparse": lambda A, tmp: [(sp.csr_array(X), y) for X, y in pairs(A)],
    "sparse in another form": lambda A, tmp: [sp.coo_array(X) for X, _ in pairs(A)],
    "parquet": parquet,
    "zarr": zarr,
}


@pytest.fixture(params=SOURCES)
def source(request, A, tmp_path):
    return SOURCES[request.param](A, tmp_path)


@pytest.mark.parametrize("memory", [1e9, 1.0])  # columns fit, or nothing does
def test_everything_that_is_asked_is_that_of_the_matrix(A, source, memory):
    rng = np.random.default_rng(1)
    X = ez.Blocks(source, rows=ROWS, memory=memory)
    some, rows = np.array([1, 4, 7]), np.array([40, 3, 3, 12, 56])
    every = np.flatnonzero(rng.random(N) < 0.6)
    pieces = {
        "all": (X, A),
        "columns": (X.columns(some), A[:, some]),
        "rows": (X[every], A[every]),
        "rows in any order": (X[rows], A[rows]),
        "a mask": (X[A[:, 0] > 0], A[A[:, 0] > 0]),
        "columns of columns": (X.columns(some).columns(np.array([2, 0])), A[:, [7, 1]]),
        "columns of rows": (X[every].columns(some), A[every][:, some]),
        "rows of rows": (X[every][rows % every.size], A[every][rows % every.size]),
        "few rows": (X.rows(rows), A[rows]),
        "few rows of rows": (X[every].rows(rows % every.size), A[every][rows % every.size]),
        "no columns": (X.columns(some[:0]), A[:, :0]),
    }
    for name, (piece, B) in pieces.items():
        n, p = B.shape
        assert piece.shape == (n, p), name
        W, r, weights = rng.standard_normal((p, 2)), rng.standard_normal((n, 3)), rng.random(n)
        close = {"rtol": 1e-12, "atol": 1e-12, "err_msg": name}
        np.testing.assert_allclose(here(piece.forward(W)), B @ W, **close)
        np.testing.assert_allclose(piece.adjoint(r), B.T @ r, **close)
        np.testing.assert_allclose(piece.adjoint(r[:, 0]), B.T @ r[:, 0], **close)
        if not p:
            continue
        np.testing.assert_allclose(piece.correlations(r[:, 0]), B.T @ r[:, 0], **close)
        np.testing.assert_allclose(piece.square_sums(weights), weights @ B**2, **close)
        np.testing.assert_allclose(piece.squares, (B**2).sum(axis=0), **close)
        np.testing.assert_allclose(piece.sums, B.sum(axis=0), **close)
        np.testing.assert_allclose(piece.row_norms(), np.linalg.norm(B, axis=1), **close)
        for omega in (weights, 0.25):
            gram, mean = piece.moments(omega)
            np.testing.assert_allclose(gram, (B.T * omega) @ B, **close)
            np.testing.assert_allclose(mean, B.T @ np.broadcast_to(omega, n), **close)
        S = np.unique(rng.choice(p, 2))
        w = np.zeros(p)
        w[S] = 1.5
        np.testing.assert_allclose(here(piece.forward(w, S)), B @ w, **close)
        np.testing.assert_allclose(here(piece.spanned(S, w[S])), B @ w, **close)
        np.testing.assert_allclose(piece.weighted_mean(weights), weights @ B / weights.sum(), **close)
        index = np.array([[0, 1], [p - 1, -1]])
        grams = piece.grams(index)
        if grams is not None:
            np.testing.assert_allclose(grams[0], B[:, :2].T @ B[:, :2], **close)
            np.testing.assert_allclose(grams[1], [[B[:, -1] @ B[:, -1], 0], [0, 0]], **close)
        a, b = piece.triangle(np.sqrt(weights), r[:, 0], B.mean(axis=0))
        for u in rng.standard_normal((2, p)):
            lost = np.sum(weights * ((B - B.mean(axis=0)) @ u - r[:, 0]) ** 2)
            base = np.sum(weights * r[:, 0] ** 2)
            np.testing.assert_allclose(np.sum((a @ u - b) ** 2) - np.sum(b**2), lost - base, rtol=1e-9, atol=1e-9)


def test_what_fits_is_copied_and_what_does_not_is_refused(A):
    X = ez.Blocks(pairs(A), memory=1e9)
    np.testing.assert_array_equal(X.dense(), A)
    np.testing.assert_array_equal(X.on_host().X, A)
    assert isinstance(X.rows(np.arange(3)), Dense) and isinstance(X[np.arange(3)], InFiles)
    little = ez.Blocks(pairs(A), memory=100.0)
    assert isinstance(little.rows(np.arange(30)), InFiles) and not little.fits(N, P)
    with pytest.raises(MemoryError, match="57 x 9 numbers are wanted at once.*memory=100.*smaller k"):
        little.dense()
    with pytest.raises(TypeError, match="parts of its rows, and has no transpose"):
        little.T  # noqa: B018


def test_single_precision_stays_so(A, tmp_path):
    X = ez.Blocks(npy(A.astype(np.float32), tmp_path), rows=ROWS)
    assert X.forward(np.ones(P)).dtype == X.adjoint(np.ones(N)).dtype == np.float32
    assert X.squares.dtype == X.moments(0.1)[0].dtype == np.float64
    mixed = ez.Blocks([A[:20].astype(np.float32), A[20:], A[:3].astype(int)])
    assert mixed.adjoint(np.ones(60)).dtype == np.float64


# ---- vectors by rows ----

UNARY = [np.exp, np.tanh, np.abs, np.square, lambda z: -z, lambda z: z > 0, lambda z: np.clip(z, -1, 1), np.zeros_like]
BINARY = [operator.add, operator.mul, operator.sub, np.maximum, lambda a, b: np.where(a > b, a, b), np.logaddexp]
OVER_ROWS = [
    np.sum, np.max, np.min, np.count_nonzero, np.linalg.norm, lambda z: z.sum(), lambda z: z @ z, lambda z: z.any(),
    lambda z: (z > 0).all(), lambda z: np.sum(z, axis=0), lambda z: np.median(z), lambda z: float(z.max()),
    lambda z: z[3], lambda z: z[np.array([1, 5])], lambda z: np.broadcast_to(z, N).sum(), lambda z: np.concatenate([z, z]),
]  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(UNARY), st.sampled_from(BINARY), st.booleans()), max_size=4), st.integers(0, 9)
)
def test_vectors_by_rows_are_arrays(steps, seed):
    rng = np.random.default_rng(seed)
    A, w, y = rng.standard_normal((N, 3)), rng.standard_normal(3), rng.standard_normal(N)
    X = ez.Blocks([A[:20], A[20:]])
    lazy, plain = X.forward(w), A @ w
    assert isinstance(lazy, ByRow)
    with np.errstate(all="ignore"):
        for one, two, turned in steps:
            lazy, plain = one(lazy), one(plain)
            lazy, plain = (two(y, lazy), two(y, plain)) if turned else (two(lazy, y), two(plain, y))
        assert lazy.shape == plain.shape and lazy.dtype == plain.dtype
        for f in OVER_ROWS:
            np.testing.assert_allclose(f(lazy), f(plain), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.asarray(lazy), plain, rtol=1e-9, atol=1e-12)


def test_several_entries_a_row():
    rng = np.random.default_rng(0)
    A, W, M = rng.standard_normal((N, 4)), rng.standard_normal((4, 3)), rng.standard_normal((3, 2))
    lazy, plain = ez.Blocks([A[:20], A[20:]]).forward(W), A @ W
    for f in (
        lambda z: np.max(z, axis=1, keepdims=True), lambda z: np.sum(z, axis=0), lambda z: z[:, 1], lambda z: z[:, None, 1],
        lambda z: z.T @ z, lambda z: z @ M, lambda z: np.ones(N) @ z, lambda z: z.astype(np.float32), lambda z: z + W[0],
        lambda z: np.sum(np.exp(z), axis=1), lambda z: z.ravel() if isinstance(z, np.ndarray) else np.asarray(z).ravel(),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(f(lazy)), f(plain), rtol=1e-6)
    assert lazy.size == plain.size and len(lazy) == N and "shape (57, 3)" in repr(lazy)


def test_rows_and_columns_as_many_as_each_other_are_not_mistaken():
    """An array of shape (n,) beside one of shape (n, n) belongs to the columns, as in NumPy."""
    A = np.random.default_rng(0).standard_normal((4, 4))
    z = ez.Blocks([A[:1], A[1:]]).forward(np.eye(4))
    np.testing.assert_array_equal(np.asarray(z + np.arange(4.0)), A + np.arange(4.0))
    np.testing.assert_array_equal(np.asarray(z + np.arange(4.0)[:, None]), A + np.arange(4.0)[:, None])


# ---- sweeps and memory ----


def test_everything_costs_one_sweep(A, tmp_path):
    X = ez.Blocks(npy(A, tmp_path), rows=ROWS)
    assert X.n_sweeps == 1 and X.tally.bytes_read == A.nbytes  # NaN, sizes and sums of columns
    risk = ez.risks.LeastSquares(X, A[:, 0])
    w, some = np.ones(P), np.array([2, 5])

    def cost(f):
        before = X.n_sweeps
        f()
        return X.n_sweeps - before

    point = risk.at(w)
    assert cost(lambda: point.gradient) == 1 and cost(lambda: point.value) == 0  # predictions on the way
    assert cost(lambda: risk.column_scales()) == 0
    assert cost(lambda: ez.risks.LeastSquares(X, A[:, 0], fit_intercept=True).column_scales()) == 0
    assert cost(lambda: risk.at(0 * w).value) <= 1
    model = risk.curvature(point)
    assert cost(lambda: model.diagonal) == 0 and cost(lambda: model.columns(some)) == 1
    assert cost(lambda: X.columns(some)) == 1 and cost(lambda: X.columns(some)) == 0
    assert cost(lambda: risk.restrict(some).gradient(w[some])) == 0
    sparse = np.zeros(P)
    sparse[some] = 1.0
    assert cost(lambda: risk.at(sparse, some).value) == 0 and cost(lambda: risk.at(sparse, some).gradient) == 1
    assert cost(lambda: risk.expect(np.array([0, 1, 2]))) == 1 and cost(lambda: X.columns(np.array([0, 1]))) == 0
    assert cost(lambda: X.moments(0.1)) == 1 and cost(lambda: X.grams(np.array([[0], [1]]))) == 1
    before = X.tally.bytes_read
    assert cost(lambda: X.rows(np.array([3, 50, 5, 3]))) * N == pytest.approx(3)
    assert X.tally.bytes_read - before == 8 * P * 3
    X, before = ez.Blocks(pairs(A)), 0
    assert cost(lambda: X.rows(np.array([3, 5]))) * N == pytest.approx(ROWS)  # only their block is read
    assert X.tally.bytes_read - A.nbytes == 8 * P * ROWS


READERS = {
    "pursuit": lambda r: ez.minimize(r, 2),
    "stochastic": lambda r: ez.minimize(r, 2, ez.sets.L2Ball(3.0), "HSG-HT-2SP", max_iter=4, rng=0),
    "snapshots": lambda r: ez.minimize(r, 2, method="SVRG-HT", max_iter=4, rng=0),
    "zeroth order": lambda r: ez.minimize(r, 2, method=ez.preset("ZOHT", q=5, step=1e-3), max_iter=3, rng=0),
    "exact": lambda r: ez.minimize(r, 2, method="exact"),
    "a target": lambda r: ez.minimize(r, 2, target_gap=1e-2),
    "a path": lambda r: ez.minimize_path(r, 4),
}


@pytest.mark.parametrize("memory", [1e9, 1.0])
@pytest.mark.parametrize("name", READERS)
def test_the_sweeps_that_are_told_are_those_that_were_made(name, memory, A, tmp_path, monkeypatch):
    """Bytes are counted where the file is read."""
    read, path = [0], str(npy(A, tmp_path))
    reader = sources.RawFile._read

    def counted(self, file, out, place):
        read[0] += out.nbytes * (self.path == path)
        return reader(self, file, out, place)

    monkeypatch.setattr(sources.RawFile, "_read", counted)
    risk = ez.risks.LeastSquares(ez.Blocks(path, rows=ROWS, memory=memory), A[:, 0] + A[:, 4] ** 2, 0.1)
    read[0] = 0
    res = READERS[name](risk)
    assert read[0] > 0 and res.n_sweeps == np.ceil(read[0] / A.nbytes)
    read[0] = 0
    answer = res if hasattr(res, "x") else res[2]
    certificate = ez.certify(risk, answer)
    assert certificate.n_sweeps == np.ceil(read[0] / A.nbytes)
    assert ("sweeps" in repr(certificate)) == bool(certificate.n_sweeps)


def test_the_sweeps_of_a_cross_validation(problem):
    """Those of folds count as the rows that are read for them."""
    blocks = ez.Blocks([problem.X[:150, :8], problem.X[150:, :8]])
    before = blocks.tally.bytes_read
    model = ez.SparseRegressorCV([1, 2], cv=2, ridge=[0.1]).fit(blocks, problem.y)
    assert model.n_sweeps_ == np.ceil((blocks.tally.bytes_read - before) / problem.X[:, :8].nbytes) > 2
    assert ez.SparseRegressorCV([1, 2], cv=2, ridge=[0.1]).fit(problem.X[:, :8], problem.y).n_sweeps_ == 0


def test_columns_that_do_not_fit_are_put_aside(A, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "aside"))
    (tmp_path / "aside").mkdir()
    X = ez.Blocks(npy(A, tmp_path), rows=ROWS, memory=1.0)
    piece = X.columns(np.array([1, 3]))
    before = X.n_sweeps
    for _ in range(3):
        piece.moments(1.0)
        here(piece.forward(np.ones(2)))
    assert X.n_sweeps == before and len(list((tmp_path / "aside").iterdir())) == 1
    del piece
    gc.collect()
    assert not list((tmp_path / "aside").iterdir())


def test_a_full_disk_is_told(A, tmp_path, monkeypatch):
    X = ez.Blocks(npy(A, tmp_path), rows=ROWS, memory=1.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(OSError, match="columns.*put aside.*TMPDIR.*memory="):
        X.columns(np.array([1, 3]))


@pytest.mark.parametrize("memory", [1e9, 1.0])
def test_no_more_than_two_blocks_are_there(memory):
    alive, most = weakref.WeakSet(), [0]

    class Watched(np.ndarray):
        pass

    class Source:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            if i >= 8:
                raise IndexError
            X = np.random.default_rng(i).standard_normal((50, 20)).view(Watched)
            alive.add(_Mark(X))
            return X

    class _Mark:  # lives as long as the numbers do
        def __init__(self, X):
            weakref.finalize(X, lambda: None)
            self.X = weakref.ref(X)
            marks.append(self)

    marks = []

    def look():
        most[0] = max(most[0], sum(mark.X() is not None for mark in marks))

    X = ez.Blocks(Source(), memory=memory)
    marks.clear()
    work = _blocks.Files.sweep

    def watched(self, *args, **kwargs):
        for item in work(self, *args, **kwargs):
            look()
            yield item
            look()

    X.layout.sweep = watched.__get__(X.layout)
    ez.minimize(ez.risks.Logistic(X, np.sign(np.random.default_rng(0).standard_normal(400)), ridge=0.1), k=3)
    assert marks and most[0] <= 2


def test_the_next_block_is_read_while_this_one_is_used():
    import threading

    begun = [threading.Event() for _ in range(4)]

    def source():
        for event in begun:
            event.set()
            yield event

    for i, _ in enumerate(ahead(source())):
        assert i == 3 or begun[i + 1].wait(10)
        assert i >= 2 or not begun[i + 2].wait(0.05)  # and no other


def test_a_reader_that_fails_says_so_where_it_is_waited_for():
    def source():
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(ahead(source()))
    closed = []

    def endless():
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    items = ahead(endless())
    assert next(items) == 0
    items.close()
    assert closed == [True]


# ---- answers ----


@pytest.fixture(scope="module")
def problem():
    return ez.datasets.make_regression(300, 60, 6, snr=3.0, correlation=0.4)


def risks_of(X, y):
    labels, counts = np.where(y > 0, "yes", "no"), np.clip(np.round(np.exp(y / 10)), 0, 20)
    three = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    targets, weights = np.column_stack([y, np.roll(y, 1)]), np.linspace(0.0, 2.0, len(y))
    R = ez.risks
    return {
        "least squares": R.LeastSquares(X, y),
        "intercept": R.LeastSquares(X, y, fit_intercept=True, sample_weight=weights),
        "logistic": R.Logistic(X, labels, ridge=0.1, fit_intercept=True),
        "hinge": R.SquaredHinge(X, labels, ridge=0.1),
        "huber": R.Huber(X, y, fit_intercept=True),
        "quantile": R.Quantile(X, y, 0.01, fit_intercept=True),
        "poisson": R.Poisson(X, counts, 0.1, fit_intercept=True, offset=0.1 * np.cos(np.arange(len(y)))),
        "gamma": R.Gamma(X, counts + 1, 0.1),
        "multinomial": R.Multinomial(X, three, 0.1, fit_intercept=True),
        "targets": R.LeastSquares(X, targets, 0.1, fit_intercept=True),
        "cox": R.Cox(X, time=np.exp(y / 20), event=np.arange(len(y)) % 3 > 0, ridge=0.1),
    }


RISKS = [
    "least squares", "intercept", "logistic", "hinge", "huber", "quantile", "poisson", "gamma", "multinomial", "targets",
    "cox",
]  # fmt: skip


@pytest.mark.parametrize("name", RISKS)
def test_every_loss_has_the_answer_of_memory(name, problem, tmp_path):
    path = npy(problem.X, tmp_path)
    known = ez.minimize(risks_of(problem.X, problem.y)[name], 4)
    for memory in (1e9, 1.0):
        risk = risks_of(ez.Blocks(path, rows=70, memory=memory), problem.y)[name]
        if name == "cox" and memory == 1.0:  # it takes the kept columns all at once
            with pytest.raises(MemoryError, match="numbers are wanted at once.*raise memory="):
                ez.minimize(risk, 4)
            continue
        res = ez.minimize(risk, 4)
        np.testing.assert_array_equal(res.support, known.support)
        assert res.fun == pytest.approx(known.fun, rel=1e-10) and res.n_sweeps >= 3
        assert res.n_gradients == known.n_gradients
        assert "sweeps" in repr(res) and "sweeps" not in repr(known)
        assert risk.held_out_loss(res.x, risk) == pytest.approx(
            risks_of(problem.X, problem.y)[name].held_out_loss(res.x, risk), rel=1e-9
        )


@pytest.mark.parametrize("name", ["intercept", "logistic", "multinomial", "poisson"])
@pytest.mark.slow
def test_risks_on_blocks_keep_their_word(name, problem):
    X = problem.X[:40, :5]
    for memory in (1e9, 1.0):
        check_risk(risks_of(ez.Blocks([X[:15], X[15:]], memory=memory), problem.y[:40])[name], rng=0, n_points=2)


@pytest.mark.parametrize(
    ("k", "gamma"),
    [
        (4, ez.sets.L1Ball(8.0)),
        (4, ez.sets.NonNegative()),
        (4, ez.sets.GroupWise(ez.sets.L2Ball(3.0), np.arange(60) % 10)),
        (4, ez.sets.Intersection(ez.sets.L1Ball(8.0), ez.sets.LinfBall(3.0))),
        (ez.sparsity.Groups(2, np.arange(60) // 3), None),
        (ez.sparsity.PerGroup(4, np.arange(60) // 10, 1), None),
        (ez.sparsity.Rank(1, shape=(6, 10)), None),
    ],
    ids=str,
)
def test_sets_and_sparsities_on_blocks(k, gamma, problem):
    known = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k, gamma)
    X = ez.Blocks([problem.X[:100], problem.X[100:]], memory=1e5)
    res = ez.minimize(ez.risks.LeastSquares(X, problem.y), k, gamma)
    assert res.fun == pytest.approx(known.fun, rel=1e-9)


@pytest.mark.parametrize("method", ["IHT-2SP", "HSG-HT-2SP", "HZO-HT-2SP", "SVRG-HT", "PGD+H"])
@pytest.mark.slow
def test_the_methods_of_the_paper_on_blocks(method, problem):
    X, y = problem.X[:, :12], problem.y
    options = {"rng": 0, "max_iter": 2}
    ball = None if method == "SVRG-HT" else ez.sets.L2Ball(3.0)
    known = ez.minimize(ez.risks.LeastSquares(X, y, 0.1), 3, ball, method, **options)
    res = ez.minimize(ez.risks.LeastSquares(ez.Blocks([X[:90], X[90:]]), y, 0.1), 3, ball, method, **options)
    np.testing.assert_allclose(res.x, known.x, rtol=1e-6, atol=1e-9)


def test_paths_proofs_and_constants_on_blocks(problem):
    X, y = problem.X[:, :15], problem.y
    blocks = ez.Blocks([X[:100], X[100:]])
    for kind in (ez.risks.LeastSquares, lambda X, y: ez.risks.Huber(X, y, 0.1)):
        here_, there = kind(X, y), kind(blocks, y)
        path, known = (
            ez.minimize_path(there, 5, validation=kind(blocks, y)),
            ez.minimize_path(here_, 5, validation=here_),
        )
        np.testing.assert_allclose(path.fun, known.fun, rtol=1e-8)
        np.testing.assert_allclose(path.validation, known.validation, rtol=1e-8)
        assert there.smoothness.value == pytest.approx(here_.smoothness.value, rel=1e-9)
        bound, base = (ez.certify(risk, path[3]).lower_bound for risk in (there, here_))
        assert bound == pytest.approx(base, rel=1e-6)
    np.testing.assert_array_equal(
        ez.minimize(ez.risks.LeastSquares(blocks, y), 3, method="exact").support,
        ez.minimize(ez.risks.LeastSquares(X, y), 3, method="exact").support,
    )
    wide = ez.risks.LeastSquares(ez.Blocks([X[:4], X[4:8]]), y[:8])
    assert wide.smoothness.value >= np.linalg.eigvalsh(2 * X[:8].T @ X[:8] / 8)[-1] * (1 - 1e-9)


def test_nearly_equal_columns_are_solved_from_the_data(problem):
    """κ = 1e9: products alone would lose all digits; triangles of the parts do not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    X[:, 1] = X[:, 0] + 1e-9 * rng.standard_normal(200)
    y = X @ [1.0, 1.0, -1.0, 0.5]
    for memory in (1e9, 1.0):
        for intercept in (False, True):
            known = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=intercept), 4)
            risk = ez.risks.LeastSquares(ez.Blocks([X[:70], X[70:]], memory=memory), y, fit_intercept=intercept)
            assert ez.minimize(risk, 4).fun <= known.fun + 1e-18


def test_predictions_and_terms_come_as_arrays(problem):
    X, y = problem.X, problem.y
    risk, known = ez.risks.LeastSquares(ez.Blocks([X[:100], X[100:]]), y), ez.risks.LeastSquares(X, y)
    w = np.cos(np.arange(60))
    for f in (
        lambda r: r.predict(w), lambda r: r.losses(w), lambda r: r.predict(w, X[:4]), lambda r: r.intercept(w),
        lambda r: r.gradient(w, rows=[3, 3, 150]), lambda r: r.gradient_bounds(1.0), lambda r: r.deviance(w),
        lambda r: r.predict(w, offset=np.ones(300)),
    ):  # fmt: skip
        assert isinstance(f(risk), (np.ndarray, float))
        np.testing.assert_allclose(f(risk), f(known), rtol=1e-10)
    np.testing.assert_allclose(known.predict(w, ez.Blocks([X[:9]])), X[:9] @ w)


def test_the_same_call_takes_what_is_too_large(problem, tmp_path, monkeypatch):
    """Paths, lists of maps and large maps are read by blocks, without being told to."""
    path = npy(problem.X, tmp_path)
    for X in (path, str(path), [path], [np.load(path, mmap_mode="r")]):
        design = as_design(X)
        assert isinstance(design, ez.Blocks) and design.shape == (300, 60)
    mapped = np.load(path, mmap_mode="r")
    assert isinstance(as_design(mapped), Dense)
    for module in (_blocks, _memory):
        monkeypatch.setattr(module, "memory_limit", lambda: 200_000)
    assert isinstance(as_design(mapped), ez.Blocks) and as_design(mapped).memory == 50_000


def test_what_was_written_after_a_map_was_opened_is_read(tmp_path):
    X = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=(30, 4))
    X[:] = 1.0
    blocks = ez.Blocks(X)
    X[7] = 5.0
    np.testing.assert_array_equal(blocks.dense(), X)
    copied = np.load(npy(np.ones((5, 3)), tmp_path), mmap_mode="c")
    copied[0, 0] = 9.0  # in memory alone
    np.testing.assert_array_equal(ez.Blocks(copied).dense(), copied)


def test_parquet_reads_the_columns_that_are_wanted(A, tmp_path):
    path = parquet(A, tmp_path)
    X = ez.Blocks(path, target="x4", columns=["x0", "x7", "x2"], rows=ROWS)
    assert X.names == ["x0", "x7", "x2"]
    np.testing.assert_array_equal(X.dense(), A[:, [0, 7, 2]])
    np.testing.assert_array_equal(X.y, A[:, 4])
    before = X.tally.bytes_read
    X.columns(np.array([1]))
    assert X.tally.bytes_read - before == 8 * N
    assert ez.Blocks([path, path], target="x0").shape == (2 * N, P - 1)
    (tmp_path / "many").mkdir()
    path.rename(tmp_path / "many" / "a.parquet")
    assert ez.Blocks(tmp_path / "many").shape == (N, P)
    with pytest.raises(ValueError, match="has no column 'price'; it has x0, x1"):
        ez.Blocks(tmp_path / "many", target="price")


def test_text_in_parquet_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1.0, 2.0], "b": ["x", "y"]}), tmp_path / "X.parquet")
    with pytest.raises(TypeError, match="'b' must hold real numbers.*columns="):
        ez.Blocks(tmp_path / "X.parquet")
    pq.write_table(pa.table({"a": [1.0, None]}), tmp_path / "X.parquet")
    with pytest.raises(ValueError, match="X must be finite, got nan in row 1, column 0"):
        ez.Blocks(tmp_path / "X.parquet")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_an_entry_that_is_no_number_is_told_by_its_file(A, value, tmp_path):
    """The row of the whole, and where to look for it."""
    bad = A.copy()
    bad[41, 3] = value
    np.save(tmp_path / "first.npy", A)
    np.save(tmp_path / "second.npy", bad)
    np.save(tmp_path / "turned.npy", np.asfortranarray(bad))
    for name in ("second.npy", "turned.npy"):
        with pytest.raises(ValueError, match=rf"got {value} in row 98, column 3 \(row 41 of .*{name}\); drop"):
            ez.Blocks([tmp_path / "first.npy", tmp_path / name], rows=ROWS)
    with pytest.raises(ValueError, match=rf"got {value} in row 41, column 3 \(row 1 of block 4\)"):
        ez.Blocks(pairs(bad))
    with pytest.raises(ValueError, match=rf"got {value} in row 98, column 3 \(row 41 of X\)"):
        ez.Blocks([A, bad], rows=ROWS)


@pytest.mark.parametrize("kind", [parquet, zarr])
def test_an_entry_that_is_no_number_in_parquet_and_zarr(A, kind, tmp_path):
    bad = A.copy()
    bad[41, 3] = np.nan
    for folder, numbers in (("a", A), ("b", bad)):
        (tmp_path / folder).mkdir()
        kind(numbers, tmp_path / folder)
    paths = [tmp_path / folder / f"X.{kind.__name__}" for folder in "ab"]
    with pytest.raises(ValueError, match=rf"got nan in row 98, column 3 \(row 41 of .*b.X.{kind.__name__}\)"):
        ez.Blocks(paths, rows=ROWS)


def test_files_without_rows_in_a_list(A, tmp_path):
    for name, rows in (("a", A[:20]), ("b", A[:0]), ("c", A[20:])):
        np.save(tmp_path / f"{name}.npy", rows)
    X = ez.Blocks([tmp_path / f"{name}.npy" for name in "bacb"])
    np.testing.assert_array_equal(X.dense(), A)
    with pytest.raises(ValueError, match=r"b.npy must be two-dimensional, with at least one row .* got shape \(0, 9\)"):
        ez.Blocks(tmp_path / "b.npy")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match=r"there is no .parquet file in .*nothing"):
        ez.Blocks(tmp_path / "nothing")


def used_up(A):
    blocks = iter(pairs(A))
    return lambda: blocks


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (lambda A: iter(pairs(A)), TypeError, "list_iterator.*used up.*give the function that makes it"),
        (lambda A: 5, TypeError, "blocks are read from a .npy or Parquet file.*got int"),
        (lambda A: [(A, A[:3, 0])], ValueError, r"block 0 has X of shape \(57, 9\) and y of shape \(3,\)"),
        (lambda A: [A, A[:, :4]], ValueError, "all arrays must have as many columns"),
        (lambda A: [(A, A[:, 0]), (A[:, :4], A[:, 0])], ValueError, "block 1 has 4 columns, the others 9"),
        (lambda A: [(A, A[:, 0]), A], ValueError, "block 1 must be X alone, or a pair"),
        (lambda A: Again([]), ValueError, "at least one row and one column"),
        (lambda A: [A[:0]], ValueError, "at least one row and one column"),
        (lambda A: [(A[:, :0], A[:, 0])], ValueError, "at least one row and one column"),
        (lambda A: [(A * 1j, A[:, 0])], TypeError, "X must hold real numbers"),
        (lambda A: "X.csv", ValueError, "blocks are read from .npy, .parquet and .zarr, got X.csv"),
        (lambda A: [A, np.where(np.arange(N)[:, None] == 3, np.nan, A)], ValueError, "got nan in row 60, column 0"),
    ],
)
def test_unusable_blocks_are_refused(A, source, error, words):
    with pytest.raises(error, match=words):
        ez.Blocks(source(A))


def test_blocks_that_change_are_noticed(A, tmp_path):
    X = ez.Blocks(lambda: iter(pairs(A)))
    X.layout.source.given = used_up(A)
    X.adjoint(np.ones(N))
    with pytest.raises(ValueError, match="must be 6 blocks each time, got 0; a generator is used up"):
        X.adjoint(np.ones(N))
    path = npy(A, tmp_path)
    X = ez.Blocks(path, rows=ROWS)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(EOFError, match="ends before its 57 rows do"):
        X.adjoint(np.ones(N))


def test_names_of_columns_need_a_file_that_has_them(A):
    with pytest.raises(ValueError, match="target and columns are names of columns, which Parquet files have"):
        ez.Blocks(pairs(A), target="y")
    with pytest.raises(ValueError, match="rows must be at least 1"):
        ez.Blocks(pairs(A), rows=0)
    with pytest.raises(ValueError, match="memory must lie in"):
        ez.Blocks(pairs(A), memory=0)
    with pytest.raises(TypeError, match="Q must be in memory"):
        ez.risks.Quadratic(ez.Blocks([np.eye(3)]), np.ones(3))


def test_large_but_finite_entries_pass(A):
    assert ez.Blocks([np.full((3, 2), 1e308)]).shape == (3, 2)


def test_the_same_sums_every_time(A):
    X = ez.Blocks(pairs(A))
    r = np.random.default_rng(0).standard_normal(N)
    assert all(np.array_equal(X.adjoint(r), X.adjoint(r)) for _ in range(20))


# ---- progress ----


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_in_plain_text(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.progress", None)
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    screen, file = Terminal(), io.StringIO()
    shown = [Progress("sweep 3", 20 * 10**9, screen), Progress("sweep 3", 20 * 10**9, file)]
    for _ in range(4):
        now[0] += 6.0
        for progress in shown:
            progress.advance(4 * 10**9)
    line = "sweep 3: 8 GB of 20 GB (40%), 667 MB/s, 18 s left"
    assert line in screen.getvalue() and screen.getvalue().count("\r") == 4
    assert file.getvalue().splitlines()[0] == line and len(file.getvalue().splitlines()) == 2
    shown[0].close()
    assert screen.getvalue().endswith(" \r")
    assert Progress("reading", None, file).words(1.0) == "reading: 0 bytes, 0 bytes/s"


def test_progress_is_a_bar_where_rich_is(A, capsys, monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    X = ez.Blocks(pairs(A), progress=True)
    X.adjoint(np.ones(N))
    assert "reading" in screen.getvalue() and "sweep 2" in screen.getvalue()


def test_a_verbose_run_shows_its_sweeps(A, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(
        "ellzero.design.files.Progress", lambda label, total: shown.append(label) or Progress(label, total)
    )
    X = ez.Blocks(pairs(A))
    risk = ez.risks.LeastSquares(X, X.y)
    ez.minimize(risk, 2)
    assert not shown
    ez.minimize(risk, 2, verbose=1)
    assert shown and shown[0].startswith("sweep ")
    count = len(shown)
    X.adjoint(np.ones(N))
    assert len(shown) == count


def test_the_limit_of_memory(monkeypatch, tmp_path):
    assert _memory.memory_limit() > 2**20
    (tmp_path / "max").write_text("12345\n")
    monkeypatch.setattr(_memory, "_CGROUPS", (str(tmp_path / "nothing"), str(tmp_path / "max")))
    assert _memory.memory_limit() == 12345


def test_progress_of_a_part_tells_the_bytes_of_that_part(A, tmp_path, monkeypatch):
    totals = []

    def noted(label, total):
        totals.append((label, total))
        return Progress(label, total)

    X = ez.Blocks(npy(A, tmp_path, "F"), rows=ROWS)
    monkeypatch.setattr("ellzero.design.files.Progress", noted)
    with X.at_work(1):
        X.adjoint(np.ones(N))
        X.columns(np.array([2, 5]))
        part = X[np.arange(2 * ROWS)]
        part.layout.progress = True
        part.adjoint(np.ones(2 * ROWS))
    assert totals == [("sweep 2", A.nbytes), ("sweep 3", 2 * A.nbytes // P), ("sweep 4", 2 * ROWS * P * 8)]


# ---- what breaks in practice ----


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok", "lil"])
def test_blocks_of_every_sparse_format(A, form):
    import scipy.sparse as sp

    X = ez.Blocks([(sp.csr_matrix(part).asformat(form), part[:, 0]) for part in (A[:20], A[20:])])
    np.testing.assert_allclose(X.adjoint(np.ones(N)), A.sum(axis=0))


@pytest.mark.parametrize("sizes", [[0, 1, 1, 30, 57], [1] * 5, [], [0, 0, 56]])
def test_blocks_without_rows_and_uneven_ones(A, sizes):
    parts = np.split(A, np.sort(sizes).astype(int))
    X = ez.Blocks([(part, part[:, 0]) for part in parts])
    np.testing.assert_allclose(X.adjoint(np.arange(N)), A.T @ np.arange(N))
    assert ez.minimize(ez.risks.LeastSquares(X, X.y), 1).support.tolist() == [0]


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint16, bool, np.longdouble, ">f8"])
def test_blocks_of_other_numbers(A, dtype):
    B = (np.abs(3 * A).round() if np.dtype(dtype).kind in "ub" else 3 * A).astype(dtype)
    X = ez.Blocks([(B[:20], B[:20, 0]), (B[20:], B[20:, 0])])
    assert X.reference.dtype == np.float64
    np.testing.assert_allclose(X.adjoint(np.ones(N)), B.astype(float).sum(axis=0))


class Changing:
    """Blocks that are others from the second time on."""

    def __init__(self, A, change):
        self.A, self.change, self.times = A, change, 0

    def __len__(self):
        return 2

    def __iter__(self):
        self.times += 1
        yield self.A[:20]
        yield self.A[20:] if self.times == 1 else self.change(self.A[20:])


@pytest.mark.parametrize(
    "change",
    [
        lambda B: B[:-1],
        lambda B: B[:, :-1],
        lambda B: 2 * B,
        lambda B: B * np.nan,
        lambda B: np.random.default_rng(1).permutation(B),
    ],
)
def test_blocks_that_are_others_the_next_time(A, change):
    X = ez.Blocks(Changing(A, change))
    with pytest.raises(ValueError, match=r"block 1 has changed since it was first read \(shape \(37, 9\) then"):
        X.adjoint(np.ones(N))


def test_what_is_no_matrix_is_told_by_its_name(A, tmp_path):
    np.save(tmp_path / "objects.npy", np.array([["a", 1]], dtype=object))
    (tmp_path / "bad.npy").write_bytes(b"hello")
    for name in ("objects", "bad"):
        with pytest.raises(ValueError, match=f"{name}.npy is no .npy file of numbers"):
            ez.Blocks(tmp_path / f"{name}.npy")
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", A[:, :4])
    with pytest.raises(ValueError, match=r"the first has 9, and number 1 \(from 0\) has 4"):
        ez.Blocks([tmp_path / "a.npy", tmp_path / "b.npy"])
    risk = ez.risks.LeastSquares(ez.Blocks(tmp_path / "a.npy", rows=ROWS), A[:, 0])
    (tmp_path / "a.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.npy"):
        ez.minimize(risk, 2)
    masked = np.ma.masked_array(A, A > 1)
    for source in ([masked], [(masked, A[:, 0])]):
        with pytest.raises(ValueError, match="X has masked entries"):
            ez.Blocks(source)
    with pytest.raises(TypeError, match=r"X is a generator, which is used up.*ez.Blocks of a sequence"):
        ez.risks.LeastSquares((part for part in pairs(A)), A[:, 0])


def test_rows_of_a_block_follow_the_width(tmp_path):
    """2 MB that stay near the processor; a wide X has some rows yet, and a very wide one no more than 32 MB."""
    from ellzero.design.sources import rows_at_a_time

    assert rows_at_a_time(1000, np.dtype(float)) == 262
    assert rows_at_a_time(20_000, np.dtype(float)) == 64
    assert rows_at_a_time(10**6, np.dtype(float)) == 4 and rows_at_a_time(10**9, np.dtype(float)) == 1
