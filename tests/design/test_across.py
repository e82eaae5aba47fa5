"""Columns of matrices that are stored by rows, and sums over them, in blocks of any size."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ellzero.design import across as module
from ellzero.design import as_design
from ellzero.design import sparse as of_entries
from ellzero.design.across import Across


def random_matrix(rng, index, dtype):
    """Any number of entries, some lines without any, those of a row in any order."""
    n, d = (int(m) for m in rng.integers(1, 30, 2))
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.0, 0.1, 0.5, 1.0]))
    A[rng.random(n) < 0.2] = 0.0
    A = A.astype(dtype)
    X = sparse.csr_array(A)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(X.indptr)]).astype(np.intp)
    entries = X.data[order], X.indices[order].astype(index), X.indptr.astype(index)
    X = sparse.csr_array(entries, shape=A.shape)
    assert X.indices.dtype == index
    return A, X


@given(
    st.integers(0, 10**6),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 50),
)
@settings(max_examples=150, deadline=None)
def test_columns_that_are_looked_up_are_those_of_the_matrix(seed, index, dtype, block):
    rng = np.random.default_rng(seed)
    A, X = random_matrix(rng, index, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        patch.setattr(module, "_QUICK", -1)
        patch.setattr(module, "_SHARE", int(rng.choice([0, 3])))  # any share of the columns, or a third
        patch.setattr(module, "_LOOKS", int(rng.choice([2, 10])))  # then all are copied
        across = Across(X)
        for _ in range(5):
            some = rng.choice(A.shape[1], int(rng.integers(0, A.shape[1] + 1)), replace=False)
            some = np.sort(some) if rng.random() < 0.5 else some
            found = across.columns(some)
            np.testing.assert_array_equal(found.toarray(), A[:, some])
            assert found.dtype == dtype


@given(
    st.integers(0, 10**6),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from(["csr", "csc"]),
    st.integers(1, 50),
)
@settings(max_examples=150, deadline=None)
def test_sums_of_squares_in_blocks(seed, index, form, block):
    rng = np.random.default_rng(seed)
    A, X = random_matrix(rng, index, np.float64)
    weights = rng.random(A.shape[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_entries, "_IN_BLOCK", block)
        design = as_design(X.asformat(form))
        np.testing.assert_allclose(design.squares, np.sum(A**2, axis=0), rtol=1e-12)
        np.testing.assert_allclose(design.square_sums(weights), weights @ A**2, rtol=1e-12)


def test_squares_of_single_precision_are_in_double():
    X = sparse.csr_array(np.full((3, 2), 1e30, dtype=np.float32))
    for form in ("csr", "csc"):
        np.testing.assert_allclose(as_design(X.asformat(form)).squares, [3e60, 3e60], rtol=1e-6)
