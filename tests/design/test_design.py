"""Every kind of data matrix answers like the dense one, without being copied or made dense."""

import pickle
import subprocess
import sys
import tracemalloc

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import ellzero as ez
from ellzero._core.arrays import to_host
from ellzero.design import as_design, dense
from ellzero.design.dense import ConvertedMap, Dense
from ellzero.design.operators import Operator
from ellzero.design.sparse import Sparse
from ellzero.risks import spectrum as _spectrum
from ellzero.risks.spectrum import extreme_eigenvalues, lanczos_largest


def mapped(A, folder, order="C"):
    X = np.memmap(folder / f"X{order}{A.dtype}", dtype=A.dtype, mode="w+", shape=A.shape, order=order)
    X[:] = A
    X.flush()
    return X


KINDS = {
    "C": lambda A, tmp: np.ascontiguousarray(A),
    "F": lambda A, tmp: np.asfortranarray(A),
    "strided": lambda A, tmp: np.repeat(A, 2, axis=1)[:, ::2],
    "memmap": mapped,
    "memmap F": lambda A, tmp: mapped(A, tmp, "F"),
    "csr_matrix": lambda A, tmp: sp.csr_matrix(A),
    "csc_matrix": lambda A, tmp: sp.csc_matrix(A),
    "csr_array": lambda A, tmp: sp.csr_array(A),
    "csc_array": lambda A, tmp: sp.csc_array(A),
    "coo_array": lambda A, tmp: sp.coo_array(A),
    "lil_matrix": lambda A, tmp: sp.lil_matrix(A),
    "operator": lambda A, tmp: aslinearoperator(A),
    "array API": lambda A, tmp: array_api_strict.asarray(A),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def draw(shape, rng, density=0.4):
    return rng.standard_normal(shape) * (rng.random(shape) < density)


@pytest.mark.parametrize("shape", [(7, 5), (300, 400)])  # the larger one takes the path of few columns
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_and_pieces_are_those_of_the_dense_matrix(kind, shape, dtype, tmp_path):
    rng = np.random.default_rng(0)
    A = draw(shape, rng).astype(dtype)
    design = as_design(KINDS[kind](A, tmp_path))
    p = shape[1]
    tol = {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 1e-4}
    columns, rows = np.array([1, 3, 4]), np.array([2, 2, 0, 6])
    pieces = [
        (design, A),
        (design.columns(columns), A[:, columns]),
        (design.rows(rows), A[rows]),
        (design.columns(columns).rows(rows), A[rows][:, columns]),
        (design.rows(rows).columns(columns), A[rows][:, columns]),
        (design.T, A.T),
    ]
    for piece, expected in pieces:
        assert piece.shape == expected.shape
        np.testing.assert_allclose(to_host(piece.dense()), expected, **tol)
        for c in ((), (3,)):
            w = rng.standard_normal((expected.shape[1], *c)).astype(dtype)
            r = rng.standard_normal((expected.shape[0], *c)).astype(dtype)
            forward, adjoint = piece.forward(design.asarray(w)), piece.adjoint(design.asarray(r))
            assert to_host(forward).dtype == to_host(adjoint).dtype == dtype
            np.testing.assert_allclose(to_host(forward), expected @ w, **tol)
            np.testing.assert_allclose(to_host(adjoint), expected.T @ r, **tol)
    for support in (columns, np.arange(0), np.arange(p)):
        for c in ((), (2,)):
            w = np.zeros((p, *c), dtype=dtype)
            w[support] = rng.standard_normal((support.size, *c))
            index = array_api_strict.asarray(support) if kind == "array API" else support
            np.testing.assert_allclose(to_host(design.forward(design.asarray(w), index)), A @ w, **tol)
    assert to_host(design.zeros(4)).dtype == dtype


def test_moments_are_in_double_precision(kind, tmp_path):
    rng = np.random.default_rng(1)
    A, weights = draw((30, 6), rng).astype(np.float32), rng.random(30)
    gram, mean = as_design(KINDS[kind](A, tmp_path)).moments(weights)
    A = A.astype(np.float64)
    np.testing.assert_allclose(gram, (A.T * weights) @ A, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean, A.T @ weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_left", [1, 30])  # few columns are multiplied with all of X
def test_products_of_columns_are_in_double_precision(kind, n_left, tmp_path):
    rng = np.random.default_rng(3)
    A, weights = draw((40, 400), rng).astype(np.float32), rng.random(40)
    design, B = as_design(KINDS[kind](A, tmp_path)), A.astype(np.float64)
    few, many = rng.permutation(400)[:n_left], rng.permutation(400)[:60]
    for left, right in ((few, many), (many, many)):
        for omega in (0.25, weights):
            expected = (B[:, left].T * omega) @ B[:, right]
            np.testing.assert_allclose(design.products(left, right, omega), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float16", ">f8"])
def test_other_numbers_become_float64(dtype, tmp_path):
    rng = np.random.default_rng(2)
    A = rng.integers(0, 2, (300, 400)).astype(dtype)
    B = A.astype(np.float64)
    w, r = rng.standard_normal(400), rng.standard_normal(300)
    few = np.array([3, 5])
    sparse_w = np.zeros(400)
    sparse_w[few] = 1.0
    kinds = [A, mapped(A, tmp_path), mapped(A, tmp_path, "F")]
    kinds += [sp.csr_array(A)] if dtype not in ("float16", ">f8") else []
    for X in kinds:
        design = as_design(X)
        np.testing.assert_allclose(design.forward(w), B @ w)
        np.testing.assert_allclose(design.adjoint(r), B.T @ r)
        np.testing.assert_allclose(design.adjoint(np.stack([r, r], axis=1)), B.T @ np.stack([r, r], axis=1))
        np.testing.assert_allclose(design.forward(sparse_w, few), B @ sparse_w)
        np.testing.assert_allclose(design.columns(few).dense(), B[:, few])
        np.testing.assert_allclose(design.rows(few).dense(), B[few])
        np.testing.assert_allclose(design.T.forward(r), B.T @ r)
        np.testing.assert_allclose(design.dense(), B)
        assert design.zeros(2).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_memory_map_is_never_copied(dtype, order, tmp_path):
    shape, whole = (20_000, 500), 20_000 * 500 * 8
    X = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=shape, order=order)
    w, r = np.ones(500), np.ones(20_000)
    support = np.arange(10)
    weights = np.full(20_000, 1 / 20_000)
    rows = np.arange(50)
    tracemalloc.start()
    try:
        design = as_design(X)
        design.forward(design.asarray(w))
        design.forward(design.asarray(w), support)
        design.adjoint(design.asarray(r))
        design.rows(rows).forward(design.asarray(w))
        design.moments(weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(design, ConvertedMap if dtype == "int8" else Dense)
    assert peak < 0.4 * whole, f"{peak} bytes at the peak, X would take {whole} in float64"
    if dtype != "int8":
        assert np.shares_memory(design.X, X)


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_a_sparse_matrix_is_shared_and_never_made_dense(format, monkeypatch):
    X = sp.random_array((3000, 2000), density=0.02, format=format, rng=np.random.default_rng(0))
    w, r = np.ones(2000), np.ones(3000)

    def refuse(self, *args, **kwargs):
        if self.shape != (2000, 2000):  # the Gram matrix may be
            raise AssertionError(f"a sparse matrix of shape {self.shape} is made dense")
        return np.zeros(self.shape)

    for cls in (sp.csr_array, sp.csc_array, sp.coo_array):
        for method in ("toarray", "todense"):
            monkeypatch.setattr(cls, method, refuse)
    design = as_design(X)
    assert isinstance(design, Sparse)
    assert np.shares_memory(design.X.data, X.data)
    design.forward(w)
    design.forward(w, np.arange(10))
    design.adjoint(r)
    design.columns(np.arange(10)).rows(np.arange(4)).forward(np.ones(10))
    design.moments(r)


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_entries_stored_in_parts_are_their_sum(format, in_blocks):
    """As scipy means it; squares of parts are another number. What is handed in stays as it is."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 90, 9000), rng.integers(0, 60, 9000)
    parts, order = rng.standard_normal(9000), np.lexsort((rng.random(9000), rows))
    lines = np.append(0, np.cumsum(np.bincount(rows, minlength=90)))
    stored = parts[order], columns[order], lines
    X = sp.csr_array(stored, shape=(90, 60)) if format == "csr" else sp.csc_array(stored, shape=(60, 90))
    A, before = X.toarray(), [part.copy() for part in (X.data, X.indices, X.indptr)]
    y = rng.standard_normal(len(A))
    res = ez.minimize(ez.risks.LeastSquares(ez.Blocks([X]) if in_blocks else X, y), 12)
    assert res.fun == pytest.approx(np.mean((A @ res.x - y) ** 2), rel=1e-12)
    np.testing.assert_allclose(as_design(X).squares, np.sum(A**2, axis=0), rtol=1e-12)
    for part, own in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(part, own)


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_entries_out_of_order_are_no_reason_for_a_copy(format):
    X = sp.random_array((300, 200), density=0.1, format=format, rng=np.random.default_rng(0))
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        for part in (X.data, X.indices):
            part[start:stop] = part[start:stop][::-1].copy()
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    design = as_design(X)
    assert np.shares_memory(design.X.data, X.data)
    assert np.shares_memory(design.X.indices, X.indices)
    index = np.array([5, 3, 150])
    np.testing.assert_array_equal(design.columns(index).dense(), X.toarray()[:, index])


def test_an_operator_may_reuse_its_buffer():
    A = np.random.default_rng(0).standard_normal((6, 4))
    out, back = np.empty(6), np.empty(4)
    reusing = LinearOperator(
        A.shape,
        matvec=lambda w: np.matmul(A, w, out=out),
        rmatvec=lambda r: np.matmul(A.T, r, out=back),
        dtype=float,
    )
    design = as_design(reusing)
    first = design.forward(np.ones(4))
    design.forward(np.zeros(4))
    np.testing.assert_allclose(first, A.sum(axis=1))


def test_an_operator_reports_its_missing_transpose():
    one_way = LinearOperator((3, 2), matvec=lambda w: np.zeros(3), dtype=float)
    with pytest.raises(TypeError, match="X must be an operator with rmatvec"):
        as_design(one_way)


def test_lists_and_frames_are_arrays():
    import pandas as pd

    assert as_design([[1, 2], [3, 4]]).shape == (2, 2)
    np.testing.assert_array_equal(as_design(pd.DataFrame({"a": [1, 2], "b": [0.5, 1]})).dense(), [[1, 0.5], [2, 1]])


def test_large_but_finite_entries_pass_without_a_warning():
    for X in (np.full((3, 2), 1e308), np.array([[1e308, -1e308], [1e308, 1e308]])):
        assert as_design(X).shape == X.shape
        assert as_design(sp.csr_array(X)).shape == X.shape


def spoilt(value):
    A = np.ones((2000, 1000))
    A[1999, 7] = value
    return A


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (np.ones(3), ValueError, r"X must be two-dimensional.*shape \(3,\); use X.reshape\(-1, 1\)"),
        (np.ones((2, 3, 4)), ValueError, r"X must be two-dimensional.*\(2, 3, 4\)"),
        (np.ones((0, 3)), ValueError, "at least one row and one column"),
        (np.ones((3, 2)) * 1j, TypeError, "X must hold real numbers, got dtype complex128"),
        ([["a", "b"]], TypeError, "X must hold real numbers"),
        (sp.csr_array(np.ones((3, 2)) * 1j), TypeError, "X must hold real numbers"),
        (aslinearoperator(np.ones((3, 2)) * 1j), TypeError, "X must hold real numbers"),
        (array_api_strict.asarray(np.ones((3, 2)) * 1j), TypeError, "X must hold real numbers"),
        (spoilt(np.nan), ValueError, "X must be finite, got nan in row 1999, column 7"),
        (np.asfortranarray(spoilt(-np.inf)), ValueError, "X must be finite, got -inf in row 1999, column 7"),
        (sp.csc_matrix(spoilt(np.nan)), ValueError, "X must be finite, got nan in row 1999, column 7"),
        (array_api_strict.asarray(spoilt(np.inf)), ValueError, "got inf in row 1999, column 7"),
    ],
)
def test_unusable_matrices_are_refused(X, error, words):
    with pytest.raises(error, match=words):
        as_design(X)


def test_nan_in_a_memory_map_is_found(tmp_path):
    with pytest.raises(ValueError, match="got nan in row 1999, column 7"):
        as_design(mapped(spoilt(np.nan), tmp_path))


def test_integers_of_other_libraries_become_floats():
    X = array_api_strict.asarray(np.arange(6).reshape(3, 2))
    assert to_host(as_design(X).dense()).dtype == np.float64


def test_importing_risks_stays_cheap():
    code = "import sys, ellzero.risks; print([m for m in sys.modules if m in %r])"
    dear = ["scipy.sparse", "sklearn", "pandas", "torch", "jax", "matplotlib", "array_api_compat"]
    found = subprocess.run([sys.executable, "-c", code % dear], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# Eigenvalues of XᵀΩX


def spectrum_of(A, weights, centred):
    M = (A.T * weights) @ A
    if centred:
        M = M - np.outer(A.T @ weights, A.T @ weights)
    return np.linalg.eigvalsh(M)


@pytest.mark.parametrize("shape", [(40, 8), (8, 40), (12, 12)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_eigenvalues_are_exact_and_safe(kind, shape, centred, weighted, tmp_path):
    rng = np.random.default_rng(3)
    A = draw(shape, rng, 0.7) + 3 * (rng.random(shape) < 0.5)  # far from centred
    n = shape[0]
    weights = rng.random(n) * (rng.random(n) < 0.9) if weighted else np.ones(n)
    share = weights / weights.sum()
    true = spectrum_of(A, share, centred)
    design = as_design(KINDS[kind](A, tmp_path))
    largest, smallest = extreme_eigenvalues(design, design.asarray(share) if weighted else 1 / n, centred)
    assert true[-1] <= largest.value <= true[-1] * (1 + 1e-9)
    assert smallest.value <= max(true[0], 0) + 1e-15
    if kind == "operator":
        assert (largest.source, smallest.source) == ("estimate", "bound")
        assert smallest.value == 0
    else:
        assert (largest.source, smallest.source) == ("exact", "exact")
        assert smallest.value >= true[0] - 1e-9 * true[-1]


@pytest.mark.parametrize("shape", [(300, 500), (500, 300)])
@pytest.mark.parametrize("centred", [False, True])
def test_large_matrices_get_an_estimate_from_above(shape, centred, monkeypatch):
    monkeypatch.setattr(_spectrum, "LARGEST_GRAM", 100)
    rng = np.random.default_rng(4)
    A = rng.standard_normal(shape)
    weights = rng.random(shape[0])
    weights /= weights.sum()
    largest, smallest = extreme_eigenvalues(as_design(A), weights, centred)
    true = spectrum_of(A, weights, centred)[-1]
    assert true <= largest.value <= 1.1 * true
    assert (largest.source, smallest.source, smallest.value) == ("estimate", "bound", 0.0)


@pytest.mark.parametrize("d", [1, 5, 59, 60, 61, 400])
def test_lanczos_reaches_the_largest_eigenvalue(d):
    rng = np.random.default_rng(d)
    for eigenvalues in (rng.random(d), np.ones(d), np.zeros(d), np.r_[1.0, np.zeros(d - 1)]):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        M = (basis * eigenvalues) @ basis.T
        top = lanczos_largest(lambda v, M=M: M @ v, d)
        assert eigenvalues.max() - 1e-12 <= top <= 1.1 * eigenvalues.max() + 1e-12


def test_operator_pieces_stay_operators():
    design = as_design(aslinearoperator(np.eye(4)))
    assert all(isinstance(piece, Operator) for piece in (design.columns([1]), design.rows([1]), design.T))


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("shape", [(7, 5), (900, 700)])
def test_square_sums(kind, shape):
    """Σ_i ω_i X_ij², also where it is computed in many blocks."""
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal(shape) * (rng.random(shape) < 0.7), rng.random(shape[0])
    np.testing.assert_allclose(as_design(kind(X)).square_sums(weights), weights @ X**2, rtol=1e-12)


def test_a_matrix_is_pickled_once():
    X = np.random.default_rng(0).standard_normal((300, 700))
    design = as_design(X)
    design.columns(np.arange(5))
    again = pickle.dumps(design)
    assert len(again) < 1.05 * X.nbytes
    np.testing.assert_array_equal(pickle.loads(again).adjoint(np.ones(300)), design.adjoint(np.ones(300)))


def test_tensors_that_are_not_plain_numbers():
    torch = pytest.importorskip("torch", reason="pip install ellzero[torch]")
    X = torch.randn(50, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = X[:, 0] + 0.1
    for args, words in [
        ((X, y.bfloat16()), "y must hold numbers that NumPy knows, got dtype torch.bfloat16; use y.float()"),
        ((X.to_sparse(), y), "X must be a dense tensor, got layout torch.sparse_coo; use X.to_dense()"),
        ((X, y.to_sparse()), "y must be a dense tensor, got layout torch.sparse_coo; use y.to_dense()"),
    ]:
        with pytest.raises(TypeError, match=words):
            ez.risks.LeastSquares(*args)
    res = ez.minimize(ez.risks.LeastSquares(X.clone().requires_grad_(True), y), 3)  # a warning is an error here
    assert res.fun == ez.minimize(ez.risks.LeastSquares(X, y), 3).fun


def test_an_index_that_is_changed_afterwards_gathers_other_columns():
    X = np.random.default_rng(0).standard_normal((300, 700))
    design, index = as_design(X), np.arange(0, 20, 2)
    for _ in range(3):
        np.testing.assert_array_equal(design.columns(index).dense(), X[:, index])
        index += 1


@pytest.mark.parametrize("order", [np.ascontiguousarray, np.asfortranarray])
def test_gathered_columns_are_those_of_the_matrix(order):
    """Whatever was gathered before: columns that are remembered are the right ones."""
    rng = np.random.default_rng(0)
    X = order(rng.standard_normal((300, 700)))
    design = as_design(X)
    last = np.arange(3)
    for _ in range(300):
        index = rng.choice(700, rng.integers(1, 25 if rng.random() < 0.7 else 90), replace=bool(rng.random() < 0.2))
        if rng.random() < 0.5:  # much like the last one
            index = np.unique(np.concatenate([index[:4], rng.choice(last, last.size // 2 + 1)]))
        elif rng.random() < 0.8:
            index = np.sort(index)
        np.testing.assert_array_equal(design.columns(index).dense(), X[:, index])
        w = np.zeros(700)
        w[index] = rng.standard_normal(index.size)
        np.testing.assert_allclose(design.forward(w, np.unique(index)), X @ w, atol=1e-12)
        last = index


def test_neighbours_are_gathered_in_larger_numbers(monkeypatch):
    """A row is read in lines of eight numbers: groups of columns side by side need fewer of these than others."""
    X = np.random.default_rng(0).standard_normal((100, 3200))
    design, looked = as_design(X), []
    gather = type(design)._gather
    monkeypatch.setattr(type(design), "_gather", lambda self, index: looked.append(index.size) or gather(self, index))
    for support, few in ((np.arange(400), True), (np.arange(0, 3200, 8), False), (np.arange(700), False)):
        w = np.zeros(3200)
        w[support] = 1.0
        looked.clear()
        np.testing.assert_allclose(design.forward(w, support), X @ w, atol=1e-12)
        assert looked == [support.size] * few


def test_nothing_gathered_outlives_a_run():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 600)), rng.standard_normal(100)
    risk = ez.risks.LeastSquares(X, y)
    ez.minimize(risk, 4)
    assert risk.design._recent is None


def test_a_run_beside_a_device_leaves_the_host_few_threads(monkeypatch):
    """Many would wait for each other over what is as small as k."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    design = as_design(np.eye(3))
    with threadpool_limits(2, user_api="blas"):
        before = threads()  # a library may have been built for one
        assert 2 in before.values()
        with design.at_work(0):
            assert threads() == before
        monkeypatch.setattr(dense, "waits", lambda x: True)
        with design.at_work(0):
            assert all(number <= before[path] for path, number in threads().items())
        monkeypatch.setattr(dense, "_HOST_THREADS", 1)
        with design.at_work(0):
            assert set(threads().values()) == {1}
        assert threads() == before
