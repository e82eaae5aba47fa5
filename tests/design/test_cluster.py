"""Data on the workers of a Dask cluster: the answers of memory, whoever dies, and nothing but sums on the way."""

import os
import signal
import threading

import numpy as np
import pytest

import ellzero as ez
from ellzero.design import as_design, here
from ellzero.design.blocks import InFiles
from ellzero.design.cluster import OnWorkers

distributed = pytest.importorskip("distributed", reason="pip install ellzero[dask]")
da = pytest.importorskip("dask.array")

# of Dask's own threads and sockets, when workers are killed
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
]
N, P, CHUNK = 60, 8, 13


def three_processes():
    """Three workers, as on three machines."""
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


client = pytest.fixture(three_processes, scope="module")
doomed = pytest.fixture(three_processes)


@pytest.fixture(scope="module")
def A():
    return np.random.default_rng(0).standard_normal((N, P))


@pytest.fixture(scope="module")
def problem():
    return ez.datasets.make_regression(200, 40, 4, snr=3.0)


def chunked(X, rows=70):
    return da.from_array(X, chunks=(rows, X.shape[1]))


def test_everything_that_is_asked_is_that_of_the_matrix(A, client):
    rng = np.random.default_rng(1)
    X = as_design(da.from_array(A, chunks=(CHUNK, 3)))  # chunks of columns, too
    assert isinstance(X, ez.Distributed)
    some, rows = np.array([1, 4, 7]), np.array([40, 3, 3, 12, 56])
    every = np.flatnonzero(rng.random(N) < 0.6)
    pieces = [
        (X, A), (X.columns(some), A[:, some]), (X[every], A[every]), (X[rows], A[rows]), (X[A[:, 0] > 0], A[A[:, 0] > 0]),
        (X.columns(some).columns(np.array([2, 0])), A[:, [7, 1]]), (X[every].columns(some), A[every][:, some]),
        (X[every][rows % every.size], A[every][rows % every.size]),
    ]  # fmt: skip
    for piece, B in pieces:
        n, p = B.shape
        assert piece.shape == (n, p) and isinstance(piece, OnWorkers)
        W, r, weights, S = rng.standard_normal((p, 2)), rng.standard_normal((n, 3)), rng.random(n), np.array([0, 1])
        close = {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(here(piece.forward(W)), B @ W, **close)
        np.testing.assert_allclose(here(piece.spanned(S, W[S])), B[:, S] @ W[S], **close)
        np.testing.assert_allclose(piece.adjoint(r), B.T @ r, **close)
        np.testing.assert_allclose(piece.square_sums(weights), weights @ B**2, **close)
        np.testing.assert_allclose(piece.squares, (B**2).sum(axis=0), **close)
        np.testing.assert_allclose(piece.moments(weights)[0], (B.T * weights) @ B, **close)
        np.testing.assert_allclose(piece.grams(np.array([[0, 1]]))[0], B[:, :2].T @ B[:, :2], **close)
        np.testing.assert_allclose(piece.dense(), B, **close)
        a, b = piece.triangle(np.sqrt(weights), r[:, 0], None)
        np.testing.assert_allclose(
            np.linalg.lstsq(a, b, rcond=None)[0],
            np.linalg.lstsq(np.sqrt(weights)[:, None] * B, np.sqrt(weights) * r[:, 0], rcond=None)[0],
            rtol=1e-7, atol=1e-9,
        )  # fmt: skip
    assert X.columns(some[:0]).shape == (N, 0)
    np.testing.assert_array_equal(X.rows(rows).dense(), A[rows])


def risks_of(X, y):
    labels, three = np.where(y > 0, "yes", "no"), np.digitize(y, np.quantile(y, [0.3, 0.7]))
    counts, weights = np.clip(np.round(np.exp(y / 10)), 0, 20), np.linspace(0.0, 2.0, len(y))
    R = ez.risks
    return {
        "least squares": R.LeastSquares(X, y),
        "weights": R.LeastSquares(X, y, fit_intercept=True, sample_weight=weights),
        "logistic": R.Logistic(X, labels, ridge=0.1, fit_intercept=True),
        "hinge": R.SquaredHinge(X, labels, ridge=0.1),
        "huber": R.Huber(X, y, delta=5.0),
        "poisson": R.Poisson(X, counts, 0.1, offset=0.1 * np.cos(np.arange(len(y)))),
        "gamma": R.Gamma(X, counts + 1, 0.1),
        "multinomial": R.Multinomial(X, three, 0.1),
        "targets": R.LeastSquares(X, np.column_stack([y, np.roll(y, 1)]), 0.1, fit_intercept=True),
        "cox": R.Cox(X, time=np.exp(y / 20), event=np.arange(len(y)) % 3 > 0, ridge=0.1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["least squares", "weights", "logistic", "hinge", "huber", "poisson", "gamma", "multinomial", "targets", "cox"],
)
def test_every_loss_has_the_answer_of_memory(name, problem, client):
    known = ez.minimize(risks_of(problem.X, problem.y)[name], 2)
    risk = risks_of(chunked(problem.X), problem.y)[name]
    res = ez.minimize(risk, 2)
    np.testing.assert_array_equal(res.support, known.support)
    assert res.fun == pytest.approx(known.fun, rel=1e-10)
    np.testing.assert_allclose(res.x, known.x, rtol=1e-6, atol=1e-8)
    assert res.n_sweeps and res.n_gradients == known.n_gradients


def test_least_squares_agrees_to_ten_digits(problem, client):
    known = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), 4)
    res = ez.minimize(ez.risks.LeastSquares(chunked(problem.X), chunked(problem.y[:, None])[:, 0]), 4)
    np.testing.assert_allclose(res.x, known.x, rtol=1e-10, atol=1e-12)
    assert res.fun == pytest.approx(known.fun, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "gamma"),
    [
        (3, ez.sets.L1Ball(8.0)),
        (3, ez.sets.GroupWise(ez.sets.L2Ball(3.0), np.arange(40) % 10)),
        (ez.sparsity.Groups(2, np.arange(40) // 2), None),
        (ez.sparsity.PerGroup(3, np.arange(40) // 8, 1), None),
        (ez.sparsity.Rank(1, shape=(5, 8)), None),
    ],
    ids=str,
)
def test_sets_and_sparsities_on_a_cluster(k, gamma, problem, client):
    known = ez.minimize(ez.risks.LeastSquares(problem.X, problem.y), k, gamma)
    res = ez.minimize(ez.risks.LeastSquares(chunked(problem.X), problem.y), k, gamma)
    assert res.fun == pytest.approx(known.fun, rel=1e-9)


def test_methods_paths_and_proofs_on_a_cluster(problem, client):
    X, y = problem.X, problem.y
    there, here_ = ez.risks.LeastSquares(chunked(X), y, 0.1), ez.risks.LeastSquares(X, y, 0.1)
    ball = ez.sets.L2Ball(4.0)
    for method in ("IHT-2SP", "HSG-HT-2SP"):
        runs = [ez.minimize(risk, 3, ball, method, max_iter=2, rng=0).x for risk in (there, here_)]
        np.testing.assert_allclose(*runs, rtol=1e-8, atol=1e-10)
    path, known = (ez.minimize_path(risk, [2, 4], validation=risk) for risk in (there, here_))
    np.testing.assert_allclose(path.fun, known.fun, rtol=1e-10)
    np.testing.assert_allclose(path.validation_se, known.validation_se, rtol=1e-8)
    np.testing.assert_allclose(path.criterion("bic"), known.criterion("bic"), rtol=1e-9)
    for make in (ez.risks.LeastSquares, lambda X, y: ez.risks.Logistic(X, np.sign(y), 0.1)):  # the bound at the root
        bounds = [ez.certify(make(Z, y), ez.minimize(make(X, y), 3)).lower_bound for Z in (chunked(X), X)]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


@pytest.mark.parametrize("loss", ["least squares", "poisson"])
def test_a_worker_that_is_killed_changes_nothing(loss, problem, doomed):
    """SIGKILL in the middle of a run, of two of three workers: the answer of an undisturbed one.

    Parts are added up in the same order, whoever has them; but a product of a part that was computed anew elsewhere may
    be rounded otherwise, where its numbers lie otherwise in memory.
    """
    risk = risks_of(chunked(problem.X), problem.y)[loss]
    undisturbed = ez.minimize(risk, 4)
    pids = list(doomed.run(os.getpid).values())
    killed = []

    def kill(res):
        if len(killed) < 2:
            os.kill(pids[len(killed)], signal.SIGKILL)
            killed.append(pids[len(killed)])

    res = ez.minimize(risk, 4, callback=kill)
    assert killed
    np.testing.assert_array_equal(res.support, undisturbed.support)
    np.testing.assert_allclose(res.x, undisturbed.x, rtol=1e-10, atol=1e-12)
    assert res.fun == pytest.approx(undisturbed.fun, rel=1e-13)


def test_a_worker_is_killed_while_it_computes(problem, doomed):
    """Not between two questions, but with tasks in flight."""
    risk = ez.risks.LeastSquares(chunked(problem.X, 10), problem.y)
    w = np.cos(np.arange(40))
    expected = risk.gradient(w)
    pid = next(iter(doomed.run(os.getpid).values()))
    timer = threading.Timer(0.1, os.kill, (pid, signal.SIGKILL))
    timer.start()
    for _ in range(10):
        np.testing.assert_allclose(risk.gradient(w), expected, rtol=1e-12)
    timer.join()
    np.testing.assert_allclose(risk.gradient(w), expected, rtol=1e-12)


def test_traffic_does_not_grow_with_the_rows(client):
    """w goes out, sums come back."""
    spent = []
    for n in (200, 2000):
        X = da.random.default_rng(0).standard_normal((n, 30), chunks=(n // 4, 30))
        risk = ez.risks.Logistic(X, np.sign(np.cos(np.arange(n))), ridge=0.1, fit_intercept=True)
        tally = risk.design.tally
        w, support = np.zeros(30), np.array([2, 3, 5])
        w[support] = 1.0
        before = tally.bytes_out, tally.bytes_in
        point = risk.at(w, support)
        point.gradient, point.value, risk.curvature(point).block(support)
        spent.append((tally.bytes_out - before[0], tally.bytes_in - before[1]))
    # an intercept may take a step of Newton's method more or less
    assert spent[1][0] < 1.5 * spent[0][0] and spent[1][1] < 1.5 * spent[0][1]


def test_sums_come_back_added_up_and_always_the_same(client):
    """More parts than sums that come back: they are added up on the way, in the order of the rows."""
    X = np.random.default_rng(0).standard_normal((200, 5))
    design = ez.Distributed(da.from_array(X, chunks=(10, 5)), client=client)
    assert len(design.layout.places) == 20
    r, before = np.random.default_rng(1).standard_normal(200), design.tally.bytes_in
    first = design.adjoint(r)
    assert design.tally.bytes_in - before == 2 * 5 * 8
    np.testing.assert_allclose(first, X.T @ r, rtol=1e-12)
    assert all(np.array_equal(design.adjoint(r), first) for _ in range(3))


def test_many_small_chunks_are_put_together(client):
    X = np.random.default_rng(0).standard_normal((400, 3))
    design = ez.Distributed(da.from_array(X, chunks=(1, 3)), client=client)
    assert len(design.layout.places) <= 8 * 3
    np.testing.assert_allclose(design.adjoint(np.ones(400)), X.sum(axis=0))


@pytest.mark.slow
def test_frames_and_chunks_of_unknown_size(A, client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    names = [f"x{j}" for j in range(P)]
    frame = dd.from_pandas(pd.DataFrame(A, columns=names), npartitions=3)
    design = as_design(frame)
    assert design.names == names
    np.testing.assert_array_equal(design.dense(), A)
    res = ez.minimize(ez.risks.LeastSquares(frame, frame["x3"]), 1)
    assert res.support.tolist() == [3]
    X = da.from_array(A, chunks=(CHUNK, P))
    np.testing.assert_array_equal(as_design(X[X[:, 0] > 0]).dense(), A[A[:, 0] > 0])
    np.testing.assert_array_equal(
        as_design(X[X[:, 0] > np.sort(A[:, 0])[-2]]).dense(), A[A[:, 0] > np.sort(A[:, 0])[-2]]
    )
    with pytest.raises(TypeError, match="the column 'b' of X must hold real numbers"):
        as_design(dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1))


def test_other_numbers_and_sparse_chunks(A, client):
    import scipy.sparse as sp

    whole = np.round(3 * A).astype(np.int8)
    assert as_design(chunked(whole, CHUNK)).reference.dtype == np.float64
    single = as_design(chunked(A.astype(np.float32), CHUNK))
    assert single.adjoint(np.ones(N)).dtype == np.float32
    sparse = chunked(A, CHUNK).map_blocks(sp.csr_matrix, dtype=float)
    np.testing.assert_allclose(as_design(sparse).adjoint(np.ones(N)), A.sum(axis=0))


def test_without_a_client_the_parts_are_read_one_by_one(A, monkeypatch):
    monkeypatch.setattr("ellzero.design.cluster.running_client", lambda: None)
    X = da.from_array(A, chunks=(CHUNK, P))
    design = as_design(X)
    assert isinstance(design, InFiles)
    np.testing.assert_array_equal(design.dense(), A)
    with pytest.raises(ValueError, match="client must be a distributed.Client, and none is running; start one"):
        ez.Distributed(X)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (
            lambda A: chunked(np.where(np.arange(N)[:, None] == 41, np.nan, A), CHUNK),
            ValueError,
            "nan in row 41, column 0",
        ),
        (lambda A: chunked(A, CHUNK)[:, 0], ValueError, r"two-dimensional.*shape \(60,\)"),
        (lambda A: chunked(A, CHUNK)[:0], ValueError, "at least one row and one column"),
        (lambda A: chunked(A * 1j, CHUNK), TypeError, "real numbers, got dtype complex128"),
    ],
)
def test_unusable_arrays_are_refused(A, X, error, words, client):
    with pytest.raises(error, match=words):
        as_design(X(A))


def test_what_would_not_fit_here_is_refused(A, client):
    design = ez.Distributed(chunked(A, CHUNK), client=client, memory=100.0)
    with pytest.raises(
        MemoryError, match=r"60 rows, are wanted from the workers.*memory=100.*ez.Distributed\(X, memory"
    ):
        here(design.forward(np.ones(P)))
    with pytest.raises(MemoryError, match="60 x 8 numbers are wanted at once"):
        design.dense()
    with pytest.raises(TypeError, match="X must be a Dask array or data frame, got ndarray"):
        ez.Distributed(A, client=client)
    import pickle

    with pytest.raises(TypeError, match="stay with the client that reads them.*n_jobs=None"):
        pickle.dumps(design)
    risk = ez.risks.LeastSquares(design, A[:, 0])
    assert ez.minimize(risk, 1).support.tolist() == [0]  # w and sums fit


def test_large_but_finite_entries_pass(client):
    assert as_design(chunked(np.full((30, 2), 1e308), 10)).shape == (30, 2)


# ---- what breaks in practice ----


def test_frames_of_mixed_and_nullable_columns(A, client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": A[:, 0], "b": A[:, 1] > 0, "i": np.arange(N) % 7, "n": pd.array(A[:, 2], "Float64")})
    design = as_design(dd.from_pandas(frame, npartitions=3))
    np.testing.assert_array_equal(design.dense(), frame.to_numpy(float))
    frame.loc[41, "n"] = pd.NA
    with pytest.raises(ValueError, match="got nan in row 41, column 3"):
        as_design(dd.from_pandas(frame, npartitions=3))
    frame["n"] = pd.Categorical(["u", "v"] * (N // 2))
    with pytest.raises(TypeError, match="the column 'n' of X must hold real numbers"):
        as_design(dd.from_pandas(frame, npartitions=3))


def test_frames_that_lack_a_column_of_the_fit(A, client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(A, columns=[f"x{j}" for j in range(P)]), npartitions=3)
    model = ez.SparseRegressor(k=1).fit(frame, A[:, 2])
    np.testing.assert_allclose(model.predict(frame[frame.columns[::-1]]).compute(), A[:, 2], atol=1e-12)
    with pytest.raises(ValueError, match="X has no column 'x1', which was there when the model was fitted"):
        model.predict(frame[["x0", "x2"]])


@pytest.mark.parametrize("cut", [lambda b: b[:-1], lambda b: b[:, :-1]])
def test_chunks_of_another_shape_than_dask_takes_them_for(A, cut, client):
    X = chunked(A, CHUNK).map_blocks(cut, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"a chunk of X has shape .* and Dask takes it for one of \(\d+, 8\)"):
        as_design(X)


def test_a_cluster_without_workers_is_not_waited_for_in_vain(A, monkeypatch):
    monkeypatch.setattr("ellzero.design.cluster._PATIENCE", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as empty,
        pytest.raises(TimeoutError, match=r"the cluster has had no workers for 0.2 s; start some"),
    ):
        ez.Distributed(chunked(A), client=empty)
    with pytest.raises(ValueError, match="client must be connected to a cluster, and it is closed"):
        ez.Distributed(chunked(A), client=empty)


def test_a_missing_package_is_named(A, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install ellzero\[dask\]"):
        ez.Distributed(chunked(A))
